"""Text files that are there whole or not at all."""

import contextlib
import os
import secrets
import stat
from unicodedata import category

from skdptune._exceptions import InvalidParameterError, OutputError
from skdptune._validation import invalid_type

__all__ = ["obeyed", "plain", "sync_folder", "write_text"]

_NO_INHERIT = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def obeyed(sign):
    """Return whether a terminal or an editor may obey a character instead of showing it."""
    return category(sign) in ("Cc", "Cf", "Zl", "Zp")


def plain(text):
    """Return text from a file without anything that a terminal would obey: control and direction signs are escaped.

    Examples
    --------
    >>> plain("ward 3\\x1b[31m")
    'ward 3\\\\x1b[31m'
    """
    return "".join(sign.encode("unicode_escape").decode() if obeyed(sign) else sign for sign in text)


def write_text(path, text):
    """Write ``text`` to the file ``path`` in UTF-8, as it is; whoever reads it meanwhile sees the old file or the new.

    A file that is there is overwritten and keeps its mode; a link is followed. If anything fails, what was there
    before stays as it was. What is no plain file (a pipe, ``/dev/stdout``) is written to directly.

    Parameters
    ----------
    path : str or os.PathLike
    text : str
        What UTF-8 cannot write (half a surrogate pair) becomes an escape.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        For what is no file name.
    OutputError
        Where the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "report.md")
    ...     write_text(path, "new")
    ...     path.read_text(), len(list(path.parent.iterdir()))
    ('new', 1)
    """
    name = _name(path)
    content = text.encode("utf-8", "backslashreplace")
    try:
        _write(os.path.realpath(name), content)
    except OSError as error:
        raise OutputError(
            f"path must be a file that can be written; {name!r} cannot be ({error.strerror or error}). Nothing was "
            "changed: choose another path, or make the folder and see to its permissions."
        ) from None


def _name(path):
    if not isinstance(path, (str, os.PathLike)):
        raise invalid_type("path", "a file name (str or os.PathLike) or None", path)
    name = os.fsdecode(os.fspath(path))
    if not name or "\0" in name:
        raise InvalidParameterError(f"path must be the name of a file; got {name!r}.")
    return name


def _write(target, content):
    there = _status(target)
    if there is not None and stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(0, "it is a folder")
    if there is not None and not stat.S_ISREG(there.st_mode):
        with open(target, "wb") as file:  # a device is not replaced by a file
            file.write(content)
        return
    if there is not None and not os.access(target, os.W_OK):
        raise PermissionError(0, "the file that is there is read-only")  # replacing it would pass over that
    _replace(target, content, there)


def _status(target):
    try:
        return os.stat(target)
    except FileNotFoundError:
        return None


def _replace(target, content, there):
    beside = os.path.join(os.path.dirname(target), f".{secrets.token_hex(8)}.tmp")
    # 0o666 less the umask, as for any new file; one that must keep its mode is closed to others until it has it
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_INHERIT, 0o666 if there is None else 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if there is not None:
            _keep(beside, there)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    sync_folder(os.path.dirname(target))


def _keep(beside, there):
    """Give a new file the owner, where that is allowed, and the mode of the one it replaces."""
    if hasattr(os, "chown"):
        for owner in (there.st_uid, -1):  # the group at least
            with contextlib.suppress(OSError):
                os.chown(beside, owner, there.st_gid)
                break
    os.chmod(beside, stat.S_IMODE(there.st_mode))


def sync_folder(folder):
    """Make a new name in ``folder`` last through a power cut, where folders can be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
