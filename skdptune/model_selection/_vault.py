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

from skdptune._exceptions import CheckpointError
from skdptune._writing import sync_folder

__all__ = ["Vault", "write_all"]

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

    def __init__(self, path, made=False):
        self.path = os.path.abspath(path)
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise CheckpointError(
                    f"checkpoint must be a folder, not a link or a file; got {self.path!r}. Give the path of a folder "
                    "that does not exist yet: it is made."
                ) from None
            raise CheckpointError(
                f"checkpoint {self.path!r} cannot be opened: {error.strerror}. Give a path that this user can reach."
            ) from None
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
            raise CheckpointError(self._unreadable(error)) from None

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
            raise CheckpointError(text) from None
        info = os.fstat(fd)
        mine = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and info.st_nlink == 1
        if not mine or stat.S_IMODE(info.st_mode) & 0o077:
            os.close(fd)
            raise CheckpointError(self._distrust(name, "it is not a plain file of this user alone"))
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
            raise CheckpointError(self._unreadable(error, name)) from None
        head, digest, body = content[: len(_HEAD)], content[len(_HEAD) :][:32], content[len(_HEAD) + 32 :]
        if head != _HEAD or _DIGEST(body).digest() != digest:
            raise CheckpointError(self.damaged(name))
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
        return CheckpointError(
            f"checkpoint {self.path!r} cannot be written: {error.strerror}. Nothing is published, and what was "
            "charged stays charged. Make room, or mend the disk, and call fit again with the same arguments: the "
            "search goes on where it was."
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


def write_all(fd, data):
    """Write all of ``data``; a disk that fills up half-way raises."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
