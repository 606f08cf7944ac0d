"""The file behind a ledger: an append-only table in an embedded SQLite database.

One short connection per operation, so that forked children, threads and other processes never share one. Every
append is one IMMEDIATE transaction: who reads the total holds the write lock until the charge is in the file.
A charge is acknowledged after it was synchronised to the write-ahead log *and* copied into the main file, so that
a log that is cut short or overwritten later takes nothing with it.

The rows are text that this package wrote (JSON); nothing in the file is ever unpickled or executed.
"""

import contextlib
import hashlib
import json
import math
import os
import tempfile
import threading
import time
from dataclasses import fields
from pathlib import Path

from skdptune._exceptions import InvalidParameterError, LedgerError
from skdptune._writing import sync_folder
from skdptune.ledger._entries import LedgerEntry, PlannedEntry
from skdptune.ledger._names import (
    mounts,
    refuse_leftovers,
    refuse_readers,
    strays,
    table_of_mounts,
    the_only_name,
)

__all__ = ["FORMAT", "Store", "chain", "damaged", "refuse_network"]

FORMAT = 1
_APPLICATION = 0x534B4450  # "SKDP"
_PATIENCE = 60.0  # seconds to wait for other writers
_CHECKPOINT_PATIENCE = 2.0  # seconds to wait for readers before a charge stays in the log for a while
_NETWORK = {
    "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs",
    "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
}  # fmt: skip

_FIELDS = frozenset({field.name for field in fields(LedgerEntry)} - {"hash"})
_PLANNED = frozenset({field.name for field in fields(PlannedEntry)} - {"used"})

# No connection is open while this process forks: SQLite in the child would take the parent's locks for its own.
_OPEN = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_OPEN.acquire, after_in_parent=_OPEN.release, after_in_child=_OPEN.release)

_SCHEMA = """
CREATE TABLE terms (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    token TEXT NOT NULL,
    rdp TEXT NOT NULL,
    aside TEXT NOT NULL,
    body TEXT NOT NULL,
    hash TEXT NOT NULL,
    UNIQUE (token, kind)
);
CREATE TRIGGER terms_stay BEFORE UPDATE ON terms BEGIN SELECT RAISE(ABORT, 'a ledger is never edited'); END;
CREATE TRIGGER terms_remain BEFORE DELETE ON terms BEGIN SELECT RAISE(ABORT, 'a ledger is never edited'); END;
CREATE TRIGGER terms_once BEFORE INSERT ON terms WHEN EXISTS (SELECT 1 FROM terms)
    BEGIN SELECT RAISE(ABORT, 'a ledger is never edited'); END;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never edited'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;
CREATE TRIGGER entries_follow BEFORE INSERT ON entries
    WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries)
    BEGIN SELECT RAISE(ABORT, 'entries are only appended'); END;
"""


def chain(previous, body):
    """Return the hash of a row that follows the row with hash ``previous``."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


class Store:
    """Reads and appends rows of one ledger file.

    Parameters
    ----------
    path : str
        Absolute.
    """

    def __init__(self, path):
        self.path = path

    # ------------------------------------------------------------------ making one

    @classmethod
    def create(cls, path, terms):
        """Make a ledger file with mode 0600 whole or not at all; return whether this call made it.

        It is built beside ``path`` and linked to its name, which fails if another process was first.
        """
        folder = os.path.dirname(path)
        refuse_leftovers(path)
        try:
            handle, building = tempfile.mkstemp(prefix=".ledger-", dir=folder)
            try:
                if hasattr(os, "fchmod"):  # not on every platform
                    os.fchmod(handle, 0o600)  # of which the umask may have taken something away
            finally:
                os.close(handle)
        except OSError as error:
            raise _unusable(path, error) from None
        try:
            cls(building)._write_new(json.dumps(terms, sort_keys=True, allow_nan=False))
            refuse_leftovers(path)  # again: building takes a while
            os.link(building, path)
            sync_folder(folder)
            return True
        except FileExistsError:
            return False
        except OSError as error:
            if isinstance(error, LedgerError):
                raise
            raise _unusable(path, error) from None
        finally:
            for leftover in (building, f"{building}-wal", f"{building}-shm"):
                with contextlib.suppress(OSError):
                    os.unlink(leftover)

    def _write_new(self, terms):
        with self._connection() as connection:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise LedgerError(
                    f"path must lie on a file system with shared memory between processes; SQLite cannot keep a "
                    f"write-ahead log beside {self.path!r}. Use a local disk."
                )
            connection.executescript(f"BEGIN;{_SCHEMA}")
            connection.execute("INSERT INTO terms VALUES (1, ?)", (terms,))
            connection.execute("COMMIT")

    # ------------------------------------------------------------------ connections

    @contextlib.contextmanager
    def _connection(self):
        """Open, hand out and close a connection; what SQLite says goes wrong becomes a LedgerError."""
        with _OPEN, self._opened() as connection:
            yield connection

    @contextlib.contextmanager
    def _opened(self):
        import sqlite3

        # Never opened in any other way: closing a second descriptor would drop SQLite's locks in this process.
        self._only_name()
        refuse_readers(self.path)
        connection = None
        try:
            address = f"{Path(self.path).as_uri()}?mode=rw"
            connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
        except sqlite3.Error as error:
            raise _translated(self.path, error) from None
        finally:
            if connection is not None:
                connection.close()

    def _only_name(self):
        try:
            return the_only_name(self.path)
        except LedgerError:
            raise
        except (FileNotFoundError, NotADirectoryError):
            raise LedgerError(
                f"path must be a ledger; there is no file {self.path!r}. If it was deleted or moved, restore it: a "
                "new one would know nothing of what has been spent."
            ) from None
        except OSError as error:
            raise LedgerError(
                f"path must be a ledger that can be used; {self.path!r} cannot be reached ({error.strerror}). Nothing "
                "was charged. Fit as a user who may."
            ) from None

    def _still(self, which):
        """Refuse unless ``path`` is still the one name of the file called ``which``, the one that SQLite has open."""
        if self._only_name() != which:
            raise LedgerError(
                f"path must stay the same file while it is charged; {self.path!r} was replaced. Nothing was charged. "
                "Find out by whom, and count what the old file holds as spent."
            )

    @contextlib.contextmanager
    def _transaction(self, kind):
        import sqlite3

        which = self._only_name()
        with self._connection() as connection:
            deadline = time.monotonic() + _PATIENCE
            while True:
                try:
                    connection.execute(f"BEGIN {kind}")
                    connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # takes the read lock too
                    break
                except sqlite3.OperationalError as error:
                    # nothing was read or written yet: the last one to close, or a recovery, may hold the file
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    if not _is_busy(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
            try:
                self._still(which)  # what SQLite opened, as long as nobody swaps files twice
                self._known_format(connection)  # a newer version may have taken the ledger over since it was opened
                yield connection
                if kind == "IMMEDIATE":
                    self._still(which)  # again, before it counts
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                raise
            if kind == "IMMEDIATE":
                # into the main file before anybody is told; if readers are in the way the synchronised log holds it
                with contextlib.suppress(sqlite3.Error):
                    connection.execute(f"PRAGMA busy_timeout = {int(1000 * _CHECKPOINT_PATIENCE)}")
                    connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()

    # ------------------------------------------------------------------ reading and appending

    def check(self):
        """Raise LedgerError unless the file is a whole ledger of a known format."""
        with self._connection() as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            if application != _APPLICATION:
                raise LedgerError(
                    f"path must be a ledger made by PrivacyLedger; {self.path!r} is another kind of file. Choose "
                    "another path."
                )
            self._known_format(connection)
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise LedgerError(damaged(self.path, found))

    def _known_format(self, connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise LedgerError(
                f"path must be a ledger of format {FORMAT} or older; {self.path!r} has format {version}. It was "
                "written by a newer version of skdptune: use that one."
            )

    def terms(self):
        """Return the terms as a dictionary."""
        with self._transaction("DEFERRED") as connection:
            return self._terms(connection)

    def _terms(self, connection):
        row = connection.execute("SELECT body FROM terms").fetchone()
        if row is None:
            raise LedgerError(damaged(self.path, "it has no terms"))
        return _parsed(self.path, row[0])

    @contextlib.contextmanager
    def reading(self, identity):
        """Give a :class:`Page` that sees one moment of the ledger called ``identity``."""
        with self._transaction("DEFERRED") as connection:
            yield Page(self, connection, identity)

    @contextlib.contextmanager
    def writing(self, identity):
        """Give a :class:`Page` that nobody else can write to until it is closed."""
        with self._transaction("IMMEDIATE") as connection:
            yield Page(self, connection, identity)


class Page:
    """The rows of a ledger within one transaction."""

    def __init__(self, store, connection, identity):
        self.path, self._connection = store.path, connection
        row = connection.execute("SELECT body FROM terms").fetchone()
        self._terms_body = "" if row is None else row[0]
        if row is None or _parsed(self.path, row[0]).get("identity") != identity:
            raise LedgerError(
                f"path must still hold the ledger that was opened; {self.path!r} now holds another one. Open it "
                "anew if that is what you want."
            )

    def _rows(self, query, values=()):
        return self._connection.execute(query, values).fetchall()

    def amounts(self):
        """Return [(rdp, aside), ...] of all entries, as the texts that were written."""
        return self._rows("SELECT rdp, aside FROM entries")

    def of_token(self, token):
        """Return the bodies of the entries of ``token``, in order."""
        rows = self._rows("SELECT body, hash FROM entries WHERE token = ? ORDER BY seq", (token,))
        return [_entry(self.path, *row) for row in rows]

    def of_kind(self, kind):
        """Return the bodies of the entries of ``kind``, in order."""
        rows = self._rows("SELECT body, hash FROM entries WHERE kind = ? ORDER BY seq", (kind,))
        return [_entry(self.path, *row) for row in rows]

    def of_method(self, method):
        """Return the bodies of the charges and reservations priced by ``method``, in order."""
        # Quotes inside a text are escaped, so that no description can look like this.
        query = "SELECT body, hash FROM entries WHERE kind IN ('charge', 'reserve') AND instr(body, ?) ORDER BY seq"
        rows = self._rows(query, (f'"method": {json.dumps(method)}',))
        return [entry for entry in (_entry(self.path, *row) for row in rows) if entry["method"] == method]

    def kinds(self):
        """Return {kind: number of entries}."""
        return dict(self._rows("SELECT kind, count(*) FROM entries GROUP BY kind"))

    def rows(self):
        """Return [(seq, kind, token, rdp, aside, body, hash), ...] in order."""
        return self._rows("SELECT seq, kind, token, rdp, aside, body, hash FROM entries ORDER BY seq")

    def first_hash(self):
        """Return the hash that the chain starts with: that of the terms."""
        return chain("", self._terms_body)

    def last(self):
        """Return (seq, hash) of the newest entry, or of the terms."""
        rows = self._rows("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1")
        return rows[0] if rows else (0, self.first_hash())

    def append(self, entry):
        """Append ``entry``, a dictionary of plain values without ``seq``; return it with ``seq`` and ``hash``."""
        seq, previous = self.last()
        entry = {**entry, "seq": seq + 1}
        body = json.dumps(entry, sort_keys=True, allow_nan=False)
        digest = chain(previous, body)
        columns = (entry["seq"], entry["kind"], entry["token"], entry["rdp"], entry["aside"], body, digest)
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", columns)
        return {**entry, "hash": digest}

    def audited(self):
        """Return the parsed entries after checking every link of the chain and every column.

        Raises
        ------
        LedgerError
            Naming the first entry that is not what was written.
        """
        found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise LedgerError(damaged(self.path, found))
        previous, entries = self.first_hash(), []
        for number, (seq, kind, token, rdp, aside, body, digest) in enumerate(self.rows(), start=1):
            entry = _entry(self.path, body, digest)
            columns = [entry.get(name) for name in ("seq", "kind", "token", "rdp", "aside")]
            previous = chain(previous, body)
            if seq != number or columns != [seq, kind, token, rdp, aside] or digest != previous:
                raise LedgerError(
                    f"the history of {self.path!r} was edited: entry {number} is not the one that was written (or an "
                    "earlier one is missing). Do not charge it; go back to a copy that verifies, and count what was "
                    "charged since as spent."
                )
            entries.append({**entry, "hash": digest})
        return entries


# ---------------------------------------------------------------------- what can go wrong


def _parsed(path, text):
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise LedgerError(damaged(path, "a row is not what this package writes"))
    return value


def _entry(path, body, digest):
    """Return the entry that a row holds, with its hash, after looking whether it holds all that is read from it."""
    entry = _parsed(path, body)
    try:
        whole = entry.keys() >= _FIELDS and all(math.isfinite(float(entry[name])) for name in ("rdp", "aside"))
        whole = whole and not math.isnan(float(entry["epsilon"])) and isinstance(entry["assumptions"], list)
        whole = whole and all(len(pair) == 2 for pair in entry["versions"]) and isinstance(entry["kind"], str)
        whole = whole and isinstance(entry["slot"], (int, type(None)))
        if entry["kind"] == "plan":
            parts = entry["planned"]
            whole = whole and math.isfinite(float(entry["epsilon"]))
            whole = whole and all(part.keys() >= _PLANNED and float(part["epsilon"]) >= 0 for part in parts)
            whole = whole and all(isinstance(part["slot"], int) for part in parts)
    except (AttributeError, KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise LedgerError(damaged(path, "an entry is not what this package writes"))
    return {**entry, "hash": digest}


def damaged(path, what):
    return (
        f"path must be a whole ledger; {path!r} is damaged ({what}). Restore a copy, count everything charged since "
        "as spent, and do not charge the damaged file."
    )


def _unusable(path, error):
    reason = error.strerror or type(error).__name__
    return LedgerError(
        f"path must be a place where a ledger can be made; {path!r} cannot ({reason}). Nothing was spent. Choose an "
        "existing folder you may write to, on a local disk."
    )


def _is_busy(error):
    text = str(error)
    return "locked" in text or "locking protocol" in text


def _translated(path, error):
    """Return the LedgerError for what SQLite reported; nothing was charged unless it says so."""
    text = str(error)
    if kept_out := strays(path):
        return LedgerError(f"path must be a ledger that can be used; {path!r} is not: {kept_out}")
    causes = (
        ("readonly", "is not writable for this user", "Fit as a user who may write to it and to its folder."),
        ("full", "lies on a disk that is full", "Make room; the charge was rolled back."),
        ("unable to open", "cannot be opened for writing", "It needs a file and a folder this user may write to."),
        ("authorization", "cannot be opened for writing", "It needs a file and a folder this user may write to."),
        ("disk I/O", "lies on a disk that fails, or has no room left even to open it",
         "Make room, or mend it; then look at entries(): a charge that was under way is spent if it is there."),
        ("locked", f"was held by other processes for {_PATIENCE:g} seconds", "Nothing was charged; try again."),
        ("not a database", "is not a ledger", "Choose another path."),
        ("malformed", "is damaged", "Restore a copy, and count everything charged since as spent."),
        ("never", "cannot be edited", "A ledger is only appended to."),
    )
    for sign, what, advice in causes:
        if sign in text:
            return LedgerError(f"path must be a ledger that can be used; {path!r} {what}. {advice}")
    return LedgerError(
        f"path must be a ledger that can be used; {path!r} failed with {text!r}. Whether this charge is in it is not "
        "known: look at entries(), and count it as spent if it is there."
    )


def refuse_network(path):
    """Refuse a path whose file system is known to be shared between machines."""
    kind = _file_system(os.path.dirname(os.path.realpath(path)))  # where a link leads
    if kind in _NETWORK:
        raise InvalidParameterError(
            f"path must lie on a local disk, because the locks of a write-ahead log do not hold across machines; "
            f"{path!r} is on {kind}. Only the process that calls fit charges: keep the ledger on its machine."
        )


def _file_system(folder):
    """Return the type of the file system that holds ``folder``, or None where it cannot be found out."""
    folder = os.path.realpath(folder)
    best, kind = "", None
    for mount, found in mounts(table_of_mounts()):
        inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, found
    return kind
