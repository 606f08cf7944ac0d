"""A folder that only its owner can enter, whose files are checked before they are believed.

What protects it is the system: mode 0700, the owner, no links, all checked before anything is read. The digest of a
file finds damage, not malice: whoever can write into the folder is this user, or root, and could change the program
as well; a key would lie where they can read it. A folder that somebody else has packed is therefore never to be
resumed from: its records are pickles.

Everything is done relative to a descriptor of the folder, so that nobody can put another folder, or a
link, in its place half-way. Files are written beside their place, flushed to the disk and renamed:
a reader finds the old file or the new one, never half of one.
"""

import contextlib
import errno
import hashlib
import os
import stat
import threading

from skdptune._exceptions import CheckpointError, TransportError
from skdptune._writing import sync_folder
from skdptune.model_selection._folders import STAYS_CHARGED

__all__ = ["Scratch", "Vault", "write_all"]

_DIGEST = hashlib.sha256
_HEAD = b"skdptune checkpoint 1\n"
_PARTIAL = ".partial-"


class Vault:
    """An own folder of mode 0700.

    Parameters
    ----------
    path : str
        An existing folder.
    made : bool
        Whether it was made just now: then it gets the mode that the umask may have taken from it.

    Raises
    ------
    CheckpointError
        If the folder is a link, belongs to somebody else, or others may enter it.
    """

    error = CheckpointError

    def __init__(self, path, made=False):
        self.path = os.path.abspath(path)
        self.fd = None
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise CheckpointError(
                    f"checkpoint must be a folder, not a link or a file; got {self.path!r}. Give the path of a folder "
                    "that does not exist yet: it is made."
                ) from None
            raise self.error(self._unopened(error)) from None
        info = os.fstat(self.fd)
        if made and info.st_uid == os.geteuid():
            os.fchmod(self.fd, 0o700)
            info = os.fstat(self.fd)
        if info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) & 0o077:
            os.close(self.fd)
            self.fd = None
            raise CheckpointError(
                f"checkpoint {self.path!r} must belong to this user and be closed to others (mode 0700), because it "
                f"holds secrets of a search; got mode {stat.S_IMODE(info.st_mode):04o}, owner {info.st_uid}. Give the "
                "path of a folder that does not exist yet: it is made with the right mode."
            )

    @classmethod
    def make(cls, path):
        """Open the folder, after making it if it does not exist (its parent must)."""
        try:
            path = os.path.abspath(path)
            os.mkdir(path, 0o700)
            made = True
            sync_folder(os.path.dirname(path))  # it must outlive a power cut, as what is written into it does
        except FileExistsError:
            made = False
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {path!r} cannot be made: {error.strerror}. Make its parent folder, or give another path."
            ) from None
        return cls(path, made)

    def _unopened(self, error):
        return f"checkpoint {self.path!r} cannot be opened: {error.strerror}. Give a path that this user can reach."

    def names(self, partial=False):
        """Return the names of all files, partial ones left out unless they are asked for.

        Raises
        ------
        CheckpointError
            If the disk fails.
        """
        return sorted(name for name in self._entries() if partial or not name.startswith(_PARTIAL))

    def _entries(self):
        try:
            return os.listdir(self.fd)
        except OSError as error:
            raise self.error(self._unreadable(error)) from None

    def _unreadable(self, error, name=None):
        what = "" if name is None else f"{name!r} in the "
        return (
            f"{what}checkpoint {self.path!r} cannot be used: {error.strerror}. What was charged stays charged, and "
            "nothing is lost. Mend the disk, or the rights of this user, and call fit again with the same arguments."
        )

    def open(self, name, flags=os.O_RDONLY):
        """Return a descriptor of the file ``name``, after checking whose it is.

        Raises
        ------
        CheckpointError
            For links, other people's files and files that others could have written.
        FileNotFoundError
        """
        try:
            fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=self.fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            strange = error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)
            text = self._distrust(name, error.strerror) if strange else self._unreadable(error, name)
            raise self.error(text) from None
        info = os.fstat(fd)
        mine = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and info.st_nlink == 1
        if not mine or stat.S_IMODE(info.st_mode) & 0o077:
            os.close(fd)
            raise self.error(self._distrust(name, "it is not a plain file of this user alone"))
        return fd

    def _distrust(self, name, why):
        return (
            f"{name!r} in the checkpoint {self.path!r} cannot be trusted: {why}. Somebody has put it there: look into "
            "the folder, and use another path for a new search, which is a new charge."
        )

    def read(self, name):
        """Return the content that :meth:`write` stored.

        Raises
        ------
        CheckpointError
            If it is damaged.
        FileNotFoundError
        """
        try:
            with os.fdopen(self.open(name), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.error(self._unreadable(error, name)) from None
        head, digest, body = content[: len(_HEAD)], content[len(_HEAD) :][:32], content[len(_HEAD) + 32 :]
        if head != _HEAD or _DIGEST(body).digest() != digest:
            raise self.error(self.damaged(name))
        return body

    def damaged(self, name):
        """Return the complaint about a file that does not hold what was written."""
        return (
            f"{name!r} in the checkpoint {self.path!r} is damaged or was written by another version; the search "
            "cannot be resumed from it. What was charged stays charged. Restore the folder from a copy, or delete it "
            "to start a new search, which is a new charge."
        )

    def write(self, name, body):
        """Store ``body`` under ``name``: afterwards the file holds it all, or what it held before.

        Raises
        ------
        CheckpointError
            If the disk is full or fails.
        """
        self.place(self.stage(name, body), name)

    def stage(self, name, body):
        """Store ``body`` beside its place, and return a handle for :meth:`place`, which then needs no more room."""
        with self.staging(name) as (fd, staged):
            write_all(fd, _HEAD + _DIGEST(body).digest() + body)
        return staged

    @contextlib.contextmanager
    def staging(self, name):
        """Yield a descriptor and a handle for :meth:`place`; what the block writes is flushed to the disk."""
        partial = f"{_PARTIAL}{os.getpid()}-{threading.get_ident()}-{name}"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._or_without(partial):
            fd = os.open(partial, flags, 0o600, dir_fd=self.fd)
            try:
                os.fchmod(fd, 0o600)  # whatever the umask has taken away
                yield fd, partial
                os.fsync(fd)
            finally:
                os.close(fd)

    def place(self, staged, name):
        """Put what was staged into its place."""
        with self._or_without(staged):
            os.rename(staged, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            os.fsync(self.fd)

    @contextlib.contextmanager
    def _or_without(self, partial):
        """Remove a partial file, and say what it means, if the disk fails."""
        try:
            yield
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(partial, dir_fd=self.fd)
            raise self.failed(error) from None

    def failed(self, error):
        """Return the complaint about a disk that does not take what is written."""
        if self.is_gone():
            return CheckpointError(
                f"checkpoint {self.path!r} is gone: its folder was deleted while the search ran. Nothing is published, "
                "and what was charged stays charged. The search cannot be resumed: the next call of fit is a new "
                "search, and a new charge."
            )
        return CheckpointError(
            f"checkpoint {self.path!r} cannot be written: {error.strerror}. Nothing is published, and what was "
            "charged stays charged. Make room, or mend the disk, and call fit again with the same arguments: the "
            "search goes on where it was."
        )

    def is_gone(self):
        """Whether the folder itself was deleted; one that was moved is still there."""
        try:
            return self.fd is not None and os.fstat(self.fd).st_nlink == 0
        except OSError:
            return False

    def where(self):
        """Return the path under which the folder is found now, or None: it was moved, and nobody knows where to."""
        for link in (None, f"/proc/self/fd/{self.fd}"):
            with contextlib.suppress(OSError):
                path = self.path if link is None else os.readlink(link)
                if os.path.samestat(os.lstat(path), os.fstat(self.fd)):
                    return path
        return None

    def remove(self):
        """Remove the folder, which must be empty, from where it is now."""
        if not self.is_gone():
            where = self.where()
            if where is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            os.rmdir(where)

    def left_behind(self, reason):
        """Return the warning about a folder that outlives its search."""
        where = self.where()
        found = f"{self.path!r}, which was moved while it ran," if where is None else repr(where)
        return (
            f"the search is finished, but its checkpoint {found} could not be removed ({reason}). It holds secrets of "
            "the search: remove it by hand."
        )

    def unlink(self, name):
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)

    def sweep(self):
        """Remove partial files of processes that were killed."""
        for name in self._entries():
            if name.startswith(_PARTIAL):
                try:
                    self.unlink(name)
                except OSError as error:
                    strange = error.errno in (errno.EISDIR, errno.EPERM)
                    text = self._distrust(name, error.strerror) if strange else self._unreadable(error, name)
                    raise CheckpointError(text) from None

    def close(self):
        """Let go of the folder."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class Scratch(Vault):
    """The folder of a running search that keeps nothing: it is no checkpoint, and nothing goes on from it."""

    error = TransportError

    def _unopened(self, error):
        return f"the search's own folder {self.path!r} cannot be opened: {error.strerror}. {STAYS_CHARGED}"

    def _unreadable(self, error, name=None):
        return f"the search's own folder {self.path!r} cannot be read: {error.strerror}. {STAYS_CHARGED}"

    def _distrust(self, name, why):
        return f"{name!r} in the search's own folder {self.path!r} cannot be trusted: {why}. {STAYS_CHARGED}"

    def damaged(self, name):
        """Return the complaint about a file that does not hold what was written."""
        return f"{name!r} in the search's own folder {self.path!r} is damaged or gone. {STAYS_CHARGED}"

    def failed(self, error):
        """Return the complaint about a disk that does not take what is written."""
        return TransportError(
            f"the search's own folder {self.path!r} cannot be written: {error.strerror}. {STAYS_CHARGED}"
        )


def write_all(fd, data):
    """Write all of ``data``; a disk that fills up half-way raises."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
