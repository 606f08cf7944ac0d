"""Folders that nobody else can read, removed whatever happens.

A search that is killed leaves its folder, with rows in it; the next search of the same user removes it. The place
may be shared by containers and machines (``/dev/shm`` of a host, a folder on a network), where a process number says
nothing. Therefore each folder holds a file ``owner`` on which its process keeps an advisory lock (``flock``), and which
names the kernel it runs on. The lock goes with the process, however that ends, and one kernel knows it in all its
containers. A folder is removed if its owner's kernel is

* this one, and its lock is free (on file systems without locks: its process is gone, in this pid namespace);
* another one, or an earlier one of this machine, its lock is free, and it is older than :data:`OLD`. NFS passes locks
  on to other machines unless it was mounted with ``local_lock`` or ``nolock``, so a free lock alone proves nothing.
"""

import contextlib
import errno
import json
import os
import shutil
import stat
import tempfile
import time

from skdptune._exceptions import TransportError

try:
    import fcntl
except ImportError:  # not POSIX: no locks, so nothing of others is ever removed
    fcntl = None

__all__ = ["STAYS_CHARGED", "check_place", "private_folder", "sweep"]

STAYS_CHARGED = (
    "Nothing is published, and what was charged stays charged: fit again is a new search and a new charge, unless "
    "checkpoint= was given, with which the same call goes on."
)

OLD = 30 * 86400.0  # seconds
_UNFINISHED = 86400.0  # seconds after which a folder without an owner was left by a process killed while making it
_IN_MEMORY = "/dev/shm"
_ROOM = 2 << 30  # bytes
_PREFIX, _OWNER = "skdptune-", "owner"


@contextlib.contextmanager
def private_folder(size=0):
    """Make a folder for memory maps that nobody else can read, and remove it whatever happens.

    Parameters
    ----------
    size : int
        About how many bytes will be put there.

    Raises
    ------
    TransportError
        If there is no place for it.
    """
    try:
        folder, pid = _make(size), os.getpid()
    except TransportError as error:
        raise TransportError(f"{error} {STAYS_CHARGED}") from None
    lock = None
    try:
        lock = _own(folder)
        sweep(os.path.dirname(folder))
        yield folder
    finally:
        if os.getpid() == pid:  # a fork that a candidate has left behind does not own it
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def check_place(size=0):
    """Check that folders can be made, and hold what will be put there, before anything is spent.

    Parameters
    ----------
    size : int
        How many bytes will be put there. They are asked of the disk and given back at once.

    Raises
    ------
    TransportError
    """
    folder = _make(size)
    try:
        if size:
            _reserve(os.path.join(folder, "room"), size)
    except OSError as error:
        raise TransportError(
            f"the rows need about {size / 2**20:.1f} MB in files for the workers, and {os.path.dirname(folder)} does "
            f"not take them: {error.strerror}. Make room there, set JOBLIB_TEMP_FOLDER to a folder with more of it, or "
            "use n_jobs=1 without run_timeout, which needs none. Nothing was spent."
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reserve(path, size):
    """Have the disk set ``size`` bytes aside, as writing them would."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(descriptor, 0, size)
                return
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):  # not on this file system
                    raise
        block = bytes(1 << 20)
        for start in range(0, size, len(block)):
            data = block[: size - start]
            while data:
                data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def _make(size):
    """Make an empty folder of mode 0700 where such folders go, in memory if there is room."""
    asked = os.environ.get("JOBLIB_TEMP_FOLDER")
    if not asked and _has_room(size):
        with contextlib.suppress(OSError):  # no room for one more name, say
            return _new(_IN_MEMORY)
    try:
        return _new(os.path.abspath(os.path.expanduser(asked)) if asked else tempfile.gettempdir())
    except OSError as error:
        where = f"JOBLIB_TEMP_FOLDER is {asked!r}" if asked else f"temporary files go to {tempfile.tempdir!r}"
        raise TransportError(
            f"the rows need a folder of their own for the workers, and it cannot be made: {error.strerror}; {where}. "
            "Set JOBLIB_TEMP_FOLDER to a folder that this user can write to, or use n_jobs=1 without run_timeout, "
            "which needs none."
        ) from None


def _new(base):
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base)
    os.chmod(folder, 0o700)  # of which the umask may have taken something away
    return folder


def _has_room(size):
    with contextlib.suppress(OSError):
        room = os.statvfs(_IN_MEMORY)
        # containers give it 64 MB
        return os.access(_IN_MEMORY, os.W_OK) and room.f_bavail * room.f_frsize >= max(_ROOM, 2 * size)
    return False


# ---------------------------------------------------------------------- whose it is


def _own(folder):
    """Write down whose ``folder`` is; return a descriptor that holds its lock, or None where there are no locks."""
    if fcntl is None:
        return None
    lock = None
    try:
        unfinished = os.path.join(folder, f"{_OWNER}.new")
        lock = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        locked = _locks(lock)
        record = {"kernel": _kernel(), "namespace": _namespace(), "pid": os.getpid(), "locked": locked}
        os.write(lock, json.dumps({**record, "started": _started("self")}).encode())
        os.rename(unfinished, os.path.join(folder, _OWNER))  # nobody finds it before it is locked
    except OSError:  # a full disk; without an owner a folder is left alone for a day
        if lock is not None:
            os.close(lock)
        return None
    return lock


def _locks(descriptor):
    """Return whether the lock could be had; other processes that look for it are a matter of moments."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _kernel():
    """Return what names the running kernel: the same in all containers of a machine, another one after a reboot."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return f"node {os.uname().nodename}"


def _namespace():
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _started(pid):
    """Return when a process was started, in ticks since boot; None if that is not known here."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


# ---------------------------------------------------------------------- what others have left


def sweep(base=None):
    """Remove folders left by searches whose process was killed; what cannot be looked into is left alone."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        if base is None:
            asked = os.environ.get("JOBLIB_TEMP_FOLDER")
            base = os.path.expanduser(asked) if asked else _IN_MEMORY if _has_room(0) else tempfile.gettempdir()
        for entry in stack.enter_context(os.scandir(base)):
            if entry.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):
                    _look_at(entry.path)


def _look_at(path):
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        return
    age = time.time() - info.st_mtime
    try:
        owner = os.open(os.path.join(path, _OWNER), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if age > OLD or (age > _UNFINISHED and not set(os.listdir(path)) - {f"{_OWNER}.new"}):
            shutil.rmtree(path, ignore_errors=True)
        return
    try:
        # held while the folder is removed, so that two who clean up are not in each other's way
        if _abandoned(owner, age):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(owner)


def _abandoned(owner, age):
    free = _locks(owner)
    try:
        record = json.loads(os.pread(owner, 4096, 0))
        kernel, locked = record["kernel"], record["locked"]
    except (ValueError, KeyError, TypeError):
        kernel, locked, record = None, False, {}
    if kernel == _kernel():
        return free if locked else _gone(record)
    return age > OLD and (free or not locked)


def _gone(record):
    """Whether a process that could not lock its folder is gone, as far as process numbers mean anything here."""
    if record.get("namespace") is None or record["namespace"] != _namespace():
        return False
    return _started(record.get("pid")) != record.get("started")
