"""A search that survives: what it needs to go on is on the disk before it spends or runs anything.

The order is: header, charge, runs. The header holds the 256 secret bits from which the number of tries,
the split and the coins of every run are derived, so whatever process reads it draws the same ones.

*Why replaying runs is private.* Run i is a function of the rows and of its coins, and its coins are a
function of (master secret, i). A run that was cut short and is run again has the same coins and the same
outcome as if it had not been cut short: the search outputs the best of the same K outcomes, whatever the
number of restarts, and nothing is conditioned on survival. What the disk holds in between is read by the
curator alone.

The end is one rename: the header becomes a note that the search has ended, before anything is removed and before
``fit`` returns. Up to then everything is there, and a resume publishes the record that was kept and runs nothing; from
then on the folder is nobody's, whatever is left in it.
"""

import contextlib
import errno
import importlib.metadata
import json
import os
import platform
import secrets
import sys
import weakref

import sklearn

from skdptune._exceptions import (
    BudgetExceededError,
    CheckpointError,
    InvalidParameterError,
    InvalidTypeError,
    PricingError,
    SkdptuneError,
)
from skdptune._validation import describe, invalid_type, invalid_value
from skdptune.ledger._digest import curve_digest
from skdptune.model_selection._fingerprint import examine
from skdptune.model_selection._fingerprint_code import version_of
from skdptune.model_selection._publish import tell
from skdptune.model_selection._store import Store, StoreRef, pickled
from skdptune.model_selection._vault import Vault

__all__ = ["check_checkpoint", "facts_of", "open_checkpoint"]

FORMAT = 3
_REFUSALS = (BudgetExceededError, InvalidParameterError, InvalidTypeError, PricingError)
_HEADER, _CHARGE, _LOCK, _README = "header", "charge", "lock", "DO-NOT-PUBLISH.txt"
_ENDED = "ended"  # what the header becomes
_KNOWN = (_HEADER, _CHARGE, _LOCK, _README, _ENDED, "marks")
_LAST = (_CHARGE, _ENDED, _README, _LOCK)  # the order in which they are removed, after all others
_ROUNDS = 3  # a worker that a search has left behind may still write into the folder that is removed
_SPLIT = "split of the rows (cv)"
_SETTINGS = (
    "estimator",
    "param_distributions",
    "n_iter",
    "scoring",
    "score_noise",
    "epsilon",
    "delta",
    "relation",
    "cv",
    "refit",
    "classes",
    "run_timeout",
)
_OPTIONAL = ("diffprivlib", "torch", "opacus", "skorch")  # of which one that is not loaded does not matter
_PACKAGES = ("skdptune", "numpy", "scipy", "scikit-learn", *_OPTIONAL)
_CONFIG = (
    "array_api_dispatch",
    "assume_finite",
    "enable_metadata_routing",
    "skip_parameter_validation",
    "transform_output",
)
_OR_ANEW = "or give another folder for a new search: that is a new charge, and the first one stays."
_RESTORE = "Restore what it was written for and call fit again,"
_NEW_PROCESS = (
    "Restore what it was written for and call fit again (in a new process, if what has changed counts or keeps what "
    "the fits do, as an attribute of a class may),"
)
_NOTICE = """This folder belongs to the curator of the data.

It holds the unfinished state of a private search: secret seeds, the number of tries, and
unpublished results. Whoever reads it can undo the privacy of the search. Do not publish,
share, archive or back it up where others can read it.

It is removed when the search ends. To give the search up, delete the whole folder; what was
charged to a ledger stays charged.
"""


def check_checkpoint(path):
    """Check the ``checkpoint`` parameter; return a path or None. A leading ``~`` is the user's home folder.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
    """
    if path is None:
        return None
    try:
        path = os.fspath(path)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise invalid_type("checkpoint", "None or the path of a folder", path)
    if not path:
        raise invalid_value("checkpoint", "None or the path of a folder", path)
    try:
        os.fsencode(path)
        possible = "\0" not in path
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise invalid_value("checkpoint", "a path that this file system can hold", path)
    home = os.path.expanduser(path)
    if home.startswith("~"):
        raise invalid_value("checkpoint", "in the home folder of a user that exists", path, "Or write './~...'.")
    return home


def facts_of(search, rows, public_rows, splits, salt):
    """Return what must not change between a start and a resume, and the libraries that it comes from.

    Parameters
    ----------
    search : PrivateRandomSearchCV
    rows, public_rows : tuple
        ``(X, y)`` and ``(X_public, y_public)``, as checked.
    splits : list
        The drawn index pairs.
    salt : str
        Digests under another salt cannot be compared.

    Returns
    -------
    facts : dict
        Name -> (digest, text to show or None, digests of its parts).
    packages : set of str
    """
    key = salt.encode()
    facts, packages = {}, set()

    def state(name, value, shown=None):
        found = examine(name, value, key)
        facts[name] = found.digest, shown, found.parts
        packages.update(found.packages)

    for name in _SETTINGS:
        state(name, getattr(search, name), _shown(getattr(search, name)))
    ledger = "None" if search.ledger is None else "a ledger"
    facts["ledger"] = ledger, ledger, {}
    names = vars(search).get("feature_names_in_")
    data = {"X": rows[0], "y": rows[1], "X_public": public_rows[0], "y_public": public_rows[1], "column names": names}
    for name, value in data.items():
        state(name, value)
        packages.add(type(value).__module__.partition(".")[0])  # of a frame, say
    state(_SPLIT, [tuple(split) for split in splits])
    config = sklearn.get_config()
    for name in _CONFIG:
        state(f"scikit-learn's {name}", config.get(name), repr(config.get(name)))
    return facts, packages - {"builtins"}


def _price(spent):
    """Return the price as text: classes are compared by name, and one edited meanwhile may cost another price.

    The runs that are finished were trained at the price of the header; a smaller one stated for them would be false.
    """
    digests = [curve_digest(curve) for curve in (spent.curve, spent.single_run, *spent.row_curves)]
    if None not in digests:
        return repr(digests)
    # a curve without a digest of its own: by what it says
    curves, orders = (spent.single_run, *spent.row_curves), [1.5, 2, 8, 32, 256]
    return repr([spent.run_count, spent.refit is None, *(curve.rdp(orders).tolist() for curve in curves)])


def _shown(value):
    return type(value).__name__ if " at 0x" in repr(value) else describe(value)


def _versions(packages):
    """Return the versions of everything whose change could change a run."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except (importlib.metadata.PackageNotFoundError, ValueError):
            found[package] = None
    # of whatever else classes and functions of the search come from
    return {**{package: version_of(package) for package in sorted(packages - {"sklearn"})}, **found}


def _difference(name, before, shown, parts):
    """Return how a setting or the rows differ from what the header says."""
    part = _changed_part(before[2], parts)
    if shown is not None and shown != before[1]:
        return f"{name}={before[1]}, got {shown}"
    what = f"parameter {name}" if name in _SETTINGS else name
    return f"another {name} ({what}: {part})" if part else f"another {name}"


def _changed_part(before, now):
    """Return what is another one now, if it can be named."""
    for name, digest in now.items():
        if before.get(name, digest) != digest:
            return f"{name} has changed"
    for name in now:
        if name not in before:
            return f"{name} is new"
    return next((f"{name} is gone" for name in before if name not in now), None)


@contextlib.contextmanager
def open_checkpoint(path):
    """Open the checkpoint of a search for this process alone; ``path`` None opens one that keeps nothing.

    Raises
    ------
    CheckpointError
    """
    saved = _Nothing() if path is None else Checkpoint(path)
    try:
        yield saved
    finally:
        saved.close()


class _Nothing:
    """A search without a checkpoint."""

    store = None

    def master(self, fresh, seeded):
        """Return the master secret: the fresh one."""
        return fresh

    def begin(self, search, rows, public_rows, splits, count, spent=None):
        """Keep nothing."""

    def charge(self, ledger, spent, delta):
        """Charge the whole price."""
        if ledger is not None:
            ledger.charge(spent, delta)

    def ending(self, *results):
        """Remove nothing."""
        return contextlib.nullcontext()

    def close(self):
        """Let go of nothing."""


class Checkpoint:
    """The folder of one search, locked while this process works on it.

    Parameters
    ----------
    path : str
        Made with mode 0700 if it does not exist.

    Raises
    ------
    CheckpointError
        If the folder, or something in it, cannot be trusted; if another process is using it; if it is
        damaged. Nothing has been spent then.
    """

    def __init__(self, path):
        if os.name != "posix":
            raise CheckpointError(
                "checkpoint needs a system with POSIX file locks and modes; this one has none. Use checkpoint=None."
            )
        self.store = None
        self._vault = Vault.make(path)
        self.path = self._vault.path
        self._lock = None
        try:
            self._refuse_strangers()
            self._lock = _Lock()
            self._lock.take(self._vault)
            self._vault.sweep()
            self._header = self._read_header()
        except BaseException:
            self.close()
            raise
        self._new = self._header is None
        self.salt = secrets.token_hex(16) if self._new else self._header["token"]

    def _refuse_strangers(self):
        strangers = [name for name in self._vault.names() if name not in _KNOWN and not name.startswith("best-")]
        if strangers:
            raise CheckpointError(
                f"checkpoint must be a folder of its own; {self.path!r} holds {strangers[0]!r}, which no search has "
                "written. Give the path of a folder that does not exist yet."
            )

    def _read_header(self):
        try:
            header = json.loads(self._vault.read(_HEADER))
        except FileNotFoundError:
            self._clear()  # its process was killed before it had spent or run anything
            return None
        except ValueError:
            header = None
        if not isinstance(header, dict):
            raise CheckpointError(self._vault.damaged(_HEADER))
        if header.get("format") != FORMAT:
            raise CheckpointError(
                f"checkpoint {self.path!r} has format {header.get('format')!r}; this version reads format {FORMAT}. "
                f"Resume with skdptune {header.get('versions', {}).get('skdptune')}, {_OR_ANEW}"
            )
        return header

    def _clear(self):
        names = self._vault.names()
        if _ENDED not in names and any(name.startswith("best-") for name in names):  # runs begin after the header
            raise CheckpointError(self._vault.damaged(_HEADER))
        for name in _to_remove(names):
            if name != _LOCK:
                try:
                    self._vault.unlink(name)
                except OSError as error:
                    raise self._vault.failed(error) from None

    # ------------------------------------------------------------------ before anything is spent

    def master(self, fresh, seeded):
        """Return the master secret: the one of the header on a resume.

        Parameters
        ----------
        fresh : int
            What a new search would use.
        seeded : bool
            Whether it comes from ``random_state``.

        Raises
        ------
        CheckpointError
            If the seed is not the one that the search was begun with.
        """
        if self._new:
            self._master, self._seeded = fresh, seeded
            return fresh
        stored = int(self._header["master"], 16)
        if self._header["seeded"] != seeded or (seeded and stored != fresh):
            advice = (
                "Resume with the same integer (a RandomState gives other numbers each time it is used: make it anew, "
                "or pass an integer),"
            )
            raise self._differs("another random_state", advice)
        return stored

    def begin(self, search, rows, public_rows, splits, count, spent=None):
        """Write the header, or compare it with what is asked for now.

        Parameters
        ----------
        search, rows, public_rows, splits
            As for :func:`facts_of`.
        count : int
            The number of tries.

        Raises
        ------
        CheckpointError
            Naming the first difference.
        """
        pickled(search.estimator, "the estimator")
        facts, packages = facts_of(search, rows, public_rows, splits, self.salt)
        versions = _versions(packages)
        if spent is not None:
            facts["price"] = (_price(spent), None, {})
        if self._new:
            unused = {package for package in _OPTIONAL if package not in sys.modules} - packages
            versions = {package: version for package, version in versions.items() if package not in unused}
            self._write_header(versions, facts, count)
        else:
            self._compare(versions, facts, count)
        last = Store(StoreRef.of(self._vault, self.salt), Vault(self.path))
        try:
            self.store = last.taken_over(count)
        finally:
            last.close()

    def _write_header(self, versions, facts, count):
        header = {
            "format": FORMAT,
            "notice": "for the curator only, not for publication",
            "token": self.salt,
            "versions": versions,
            "facts": facts,
            "master": f"{self._master:064x}",
            "seeded": self._seeded,
            "count": count,
        }
        try:
            self._vault.write(_README, _NOTICE.encode())
            Store.lay_out(self._vault, StoreRef(self.path, self.salt, keeps_best=True), count)
            self._vault.write(_HEADER, json.dumps(header).encode())  # from here on it is this search
        except SkdptuneError:
            with contextlib.suppress(OSError):
                self._abandon()
            raise
        self._header = header

    def _compare(self, versions, facts, count):
        stored = self._header["versions"]
        for package in sorted(stored.keys() & versions.keys()):  # others come with another setting, named below
            if stored[package] != versions[package]:
                raise CheckpointError(
                    f"checkpoint {self.path!r} was written with {package} {stored[package]}, and this is "
                    f"{versions[package]}: its runs could come out differently. Nothing was spent now. Resume with the "
                    f"versions it was written with, {_OR_ANEW}"
                )
        for name, (digest, shown, parts) in facts.items():
            before = self._header["facts"].get(name, (None, None, {}))
            if before[0] != digest:
                advice = _NEW_PROCESS if name in _SETTINGS and _changed_part(before[2], parts) else _RESTORE
                raise self._differs(_difference(name, before, shown, parts), advice)
        if self._header["count"] != count:
            raise self._differs("another n_iter: from the same coins another number of tries is drawn")

    def _differs(self, what, advice=_RESTORE):
        return CheckpointError(
            f"checkpoint {self.path!r} was written for {what}. Nothing was spent now, and nothing is lost. {advice} "
            f"{_OR_ANEW}"
        )

    # ------------------------------------------------------------------ the charge

    def charge(self, ledger, spent, delta):
        """Charge the whole search, once, however often it is resumed.

        A ledger with ``charge_once(token, spent, delta)`` knows by itself what it has charged. For one with
        ``charge`` alone the checkpoint notes "charging" before and "charged" after: a process that dies in between
        leaves it unknown, and then the resume charges again (the private side).
        """
        if ledger is None:
            return
        before = self._charge_state()
        if before != "charged":
            # written before, so that a disk that fills up during the charge does not make it a second one
            self._vault.write(_CHARGE, b"charging")
            staged = self._vault.stage(_CHARGE, b"charged")
        once = getattr(ledger, "charge_once", None)
        try:
            if callable(once):
                once(self.salt, spent, delta)
            elif before != "charged":
                ledger.charge(spent, delta)
        except _REFUSALS:
            if self._new and before is None:
                self._vault.unlink(staged)
                self._abandon()  # nothing was spent, and there is nothing to resume
            raise
        if before != "charged":
            self._vault.place(staged, _CHARGE)

    def _charge_state(self):
        try:
            return self._vault.read(_CHARGE).decode()
        except FileNotFoundError:
            return None

    # ------------------------------------------------------------------ the end

    @contextlib.contextmanager
    def ending(self, *results):
        """Remove the folder if the block ends well, or with an error of ``results``, which is a result too."""
        try:
            yield
        except results:
            self._finished()
            raise
        self._finished()

    def _finished(self):
        """Note that the search has ended, and remove the folder; what cannot be removed is named in a warning.

        Raises
        ------
        CheckpointError
            If it cannot be noted: the next call would publish once more.
        """
        try:
            os.rename(_HEADER, _ENDED, src_dir_fd=self._vault.fd, dst_dir_fd=self._vault.fd)  # needs no room
        except OSError as error:
            raise self._vault.failed(error) from None
        try:
            os.fsync(self._vault.fd)  # before anything is removed: a power cut may not bring back the header alone
            self._remove()
        except (OSError, KeyboardInterrupt) as error:  # nothing is left to stop, but a result to lose
            reason = getattr(error, "strerror", None) or "Ctrl-C"
            tell(self._vault.left_behind(reason), stacklevel=3)

    def _abandon(self):
        """Remove the folder of a search that has spent and run nothing."""
        self._vault.unlink(_HEADER)
        self._remove()

    def _remove(self):
        for left in reversed(range(_ROUNDS)):
            for name in _to_remove(self._vault.names(partial=True)):
                self._vault.unlink(name)
            try:
                self._vault.remove()
                return
            except OSError as error:
                if not left or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    def close(self):
        """Let go of the folder, and leave what is in it."""
        if self.store is not None:
            self.store.close()
        if self._lock is not None:
            self._lock.release()
        self._vault.close()


def _to_remove(names):
    """Return names of files in the order in which they may be removed."""
    return [*(name for name in names if name not in _LAST), *(name for name in _LAST if name in names)]


class _Lock:
    """This fit has the folder for itself.

    The lock (``flock``) belongs to the open file: it goes with the process that holds it, however that ends, and stays
    when this process opens and closes the file again, to copy the folder, say. Another fit in this process is
    another open file. Forks let go of it, so that one which outlives its parent holds nothing up.
    """

    def __init__(self):
        self._fd = None
        _LOCKS.add(self)

    def take(self, vault):
        """Take the folder; whoever has made this object releases it, whatever this raises (Ctrl-C, say).

        Raises
        ------
        CheckpointError
        """
        import fcntl

        self._fd = vault.open(_LOCK, os.O_RDWR | os.O_CREAT)
        try:
            os.fchmod(self._fd, 0o600)  # whatever the umask has taken away
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = self._still_there(vault)  # the search that had it may just have finished and removed it
        except BlockingIOError:
            free = False
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {vault.path!r} cannot be locked: {error.strerror}. Nothing was spent now. Give a folder "
                "on a file system with locks (flock)."
            ) from None
        if not free:
            raise CheckpointError(
                f"checkpoint {vault.path!r} is in use by another fit that is still running. Wait for it, or give each "
                "search a folder of its own."
            )

    def _still_there(self, vault):
        try:
            now, folder = os.stat(_LOCK, dir_fd=vault.fd), os.stat(vault.path)
        except OSError:
            return False
        return os.path.samestat(now, os.fstat(self._fd)) and os.path.samestat(folder, os.fstat(vault.fd))

    def release(self):
        """Give the folder back."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    __del__ = release  # of a checkpoint that Ctrl-C has kept from anybody's hands


_LOCKS = weakref.WeakSet()


def _after_fork():
    for lock in list(_LOCKS):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
