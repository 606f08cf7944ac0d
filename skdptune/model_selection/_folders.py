"""Folders that nobody else can read, removed whatever happens."""

import contextlib
import os
import shutil
import tempfile

__all__ = ["private_folder"]

_IN_MEMORY = "/dev/shm"
_ROOM = 2 << 30  # bytes


@contextlib.contextmanager
def private_folder():
    """Make a folder for memory maps that nobody else can read, and remove it whatever happens."""
    folder = tempfile.mkdtemp(prefix=f"skdptune-{os.getpid()}-", dir=_place())  # mode 0700
    try:
        _sweep(os.path.dirname(folder))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _place():
    """Return where such folders are made: in memory if there is room, else where temporary files go."""
    asked = os.environ.get("JOBLIB_TEMP_FOLDER")
    if asked:
        return asked
    with contextlib.suppress(OSError):
        room = os.statvfs(_IN_MEMORY)
        if os.access(_IN_MEMORY, os.W_OK) and room.f_bavail * room.f_frsize >= _ROOM:  # containers give it 64 MB
            return _IN_MEMORY
    return None


def _sweep(base):
    """Remove folders left by searches whose process was killed."""
    for entry in os.scandir(base):
        parts = entry.name.split("-")
        if len(parts) < 3 or parts[0] != "skdptune" or not parts[1].isdigit():
            continue
        with contextlib.suppress(OSError):
            if entry.stat(follow_symlinks=False).st_uid == os.getuid() and not _alive(int(parts[1])):
                shutil.rmtree(entry.path, ignore_errors=True)


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
