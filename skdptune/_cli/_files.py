"""Files that a command writes."""

import errno
import os

from skdptune._exceptions import InvalidParameterError

__all__ = ["check_target"]


def check_target(option, path, force):
    """Refuse a file that exists, unless told to replace it, and a folder in any case; asked before anything runs.

    What is neither (a pipe, ``/dev/stdout``) is written to, and nothing is replaced there.

    Raises
    ------
    InvalidParameterError
    OSError
        If there is no such folder to write into.
    """
    if not path or "\0" in path:
        raise InvalidParameterError(f"{option} must be the name of a file; got {path!r}.")
    if os.path.isdir(path):
        raise InvalidParameterError(f"{option} must be a file; {path} is a folder.")
    if os.path.isfile(path) or (os.path.lexists(path) and not os.path.exists(path)):
        if force:
            return
        raise InvalidParameterError(f"{option} must be a new file; {path} exists. Take another name, or --force.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
