"""One ledger, one name. SQLite calls the log and the locks of a database after its path, not after its file.

So two names of one file share neither: each keeps a log of its own, does not see what was charged through the other,
and the two overwrite each other. A folder may have as many names as it likes: what lies in it is called the same.
"""

import contextlib
import os
import re
import stat

from skdptune._exceptions import LedgerError

__all__ = ["LEFTOVERS", "mounts", "refuse_leftovers", "refuse_readers", "strays", "table_of_mounts", "the_only_name"]

LEFTOVERS = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database
_BUILDING = re.compile(r"\.ledger-[a-z0-9_]{8}")  # as tempfile.mkstemp names what Store.create builds
_MOUNTS = "/proc/self/mountinfo"


def mounts(text):
    """Return [(mount point, type of file system), ...] of a Linux table of mounts.

    Examples
    --------
    >>> mounts("36 35 98:0 /a /mnt/my\\\\040disk rw - ext4 /dev/sda rw")
    [('/mnt/my disk', 'ext4')]
    """
    found = []
    for line in text.split("\n"):
        before, _, after = line.partition(" - ")
        parts = before.split(" ")
        if len(parts) > 4 and after:
            # the table writes blanks as octal numbers
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), parts[4])
            found.append((point, after.split(" ")[0]))
    return found


def table_of_mounts():
    """Return the text of the table, or "" where there is none (not on Linux)."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as table:
            return table.read()
    except OSError:
        return ""


def the_only_name(path):
    """Return (device, number) of the file at ``path``, or refuse one that can be reached under another name.

    Raises
    ------
    LedgerError
    """
    real = os.path.realpath(path)
    if os.path.isdir(real):  # it has several names, too, but that is not what is wrong
        raise LedgerError(f"path must be a file; {path!r} is a directory. Give the name of the ledger in it.")
    state = os.stat(real)
    if not stat.S_ISREG(state.st_mode):
        raise LedgerError(
            f"path must be a file; {path!r} is a pipe, a device or the like. Give the name of a file on a local disk."
        )
    if state.st_nlink > 1:
        _sweep(real, state)
        state = os.stat(real)
    if state.st_nlink > 1:
        raise LedgerError(
            f"path must be the only name of its file; {path!r} has {state.st_nlink} (hard links), and charges made "
            "through one are not seen through another. Nothing was charged. Remove the other names (or copy them to "
            "files of their own), and compare entries() with what was released: charges made meanwhile may be lost."
        )
    if any(point == real for point, _ in mounts(table_of_mounts())):
        raise LedgerError(
            f"path must not be mounted by itself; {path!r} is a mount of a single file, and charges made under its "
            "other name are not seen here. Nothing was charged. Mount the folder that holds the ledger instead."
        )
    return state.st_dev, state.st_ino


def _sweep(real, state):
    """Remove the name under which this ledger was built, if its maker is about to, or was killed before it did."""
    folder, own = os.path.split(real)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            other = os.path.join(folder, name)
            if name != own and _BUILDING.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):  # its maker was faster
                    if os.path.samestat(os.lstat(other), state):
                        os.unlink(other)


def refuse_leftovers(path):
    """Refuse to make a ledger where SQLite would take the log of a deleted one for its own."""
    found = [path + ending for ending in LEFTOVERS if os.path.lexists(path + ending)]
    if found and not os.path.lexists(path):  # else another process has just made it, and uses it
        raise LedgerError(
            f"path must have nothing of an earlier ledger beside it; {path!r} is gone, but {found[0]!r} is there and "
            "may hold charges. Nothing was made. If the ledger was moved or deleted, put it back with that file beside "
            "it; for other data choose another path."
        )


def refuse_readers(path):
    """Refuse a user who may not write: to read alone, SQLite would make a log of theirs that locks others out.

    Raises
    ------
    LedgerError
    """
    real = os.path.realpath(path)
    for place, what in ((real, "it"), (os.path.dirname(real), "its folder")):
        if not _may_write(place):
            raise LedgerError(
                f"path must be a ledger that can be used; {path!r} is not writable for this user, who may not write to "
                f"{what}. Nothing was touched. Even reading needs that, for the log beside the file: let its owner "
                "export it (to_json, or python -m skdptune ledger export), or fit as a user who may write to it and "
                "to its folder."
            )


def strays(path):
    """Return a sentence on files beside the ledger that keep this user out, or "" if there are none."""
    real, found = os.path.realpath(path), []
    for ending in LEFTOVERS:
        with contextlib.suppress(OSError):
            owner = os.lstat(real + ending).st_uid
            if not _may_write(real + ending):
                found.append(f"{os.path.basename(real) + ending!r} (of user {_name_of(owner)})")
    if not found:
        return ""
    return (
        f"beside it lies {', '.join(found)}, which this user may not write. Have that changed by its owner (chmod, "
        "chown); do not delete a '-wal', which may hold charges."
    )


def _may_write(path):
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _name_of(uid):
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)
