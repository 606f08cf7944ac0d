"""What workers write down about runs: where each run stands, and the best record of each worker.

``marks`` begins with what it belongs to (the search's token, the sitting, a CRC-32 of both, in hexadecimal), and holds
eight bytes per run, at a fixed place, so that any number of processes can write at once and the file neither grows nor
has to be merged::

    byte 0    state (see below)
    byte 1    how often the run was started, less the starts that somebody stopped on purpose
    byte 2    how often its process died under it
    byte 3    how often it finished
    byte 4-7  CRC-32 of the run's position and the four bytes before, little endian; all zero: never touched

A worker that finishes a run whose record beats all its own records so far stores that record *before* it
marks the run as finished, so a finished run is either a loser or has its record on the disk. Nothing is
kept about losers but that they have finished.

In a checkpoint the end of a run is flushed to the disk, whether it won or lost. A power cut that forgot losers and kept
the best would have the losers run again, and one whose candidate draws its noise where no coins reach would get a
second chance: the best of more outcomes than were paid for. That a run begins is not flushed.

Each call of ``fit`` that resumes a search is a sitting of its own: it puts a copy of the marks in their place, and its
records have its name in theirs. What a worker that an earlier sitting has left behind (on a cluster, whose workers do
not end with their search) still writes goes into a file without a name, or beside the records, and is never read: the
run it was at is run again, and the outcome of one of the two counts, whatever the other one is.
"""

import collections
import contextlib
import os
import pickle
import secrets
import struct
import threading
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

from skdptune._exceptions import CheckpointError, SkdptuneError
from skdptune.model_selection._transport import cloudpickle
from skdptune.model_selection._vault import Scratch, Vault, write_all

__all__ = ["Mark", "Store", "StoreRef", "adopt", "forget", "let_go", "open_store", "pickled", "state_of"]

WAITING, RUNNING, DONE, FAILED, DIED, TIMED_OUT = range(6)
_STATES = {None: DONE, "WorkerDied": DIED, "TimedOut": TIMED_OUT}

_MARK = struct.Struct("<4BI")
_MARKS, _BEST = "marks", "best-"
_TOKEN_SIZE, _SITTING_SIZE = 32, 16  # hexadecimal digits
_FIRST = _TOKEN_SIZE + _SITTING_SIZE + 8  # where the first mark is
_MOST = 255
_flush = getattr(os, "fdatasync", os.fsync)


def state_of(record):
    """Return the final state of the run that gave ``record``."""
    return _STATES.get(record.failure, FAILED)


class Mark(NamedTuple):
    """Where one run stands."""

    state: int = WAITING
    starts: int = 0
    deaths: int = 0
    finishes: int = 0

    @property
    def final(self):
        """Whether the run is over, one way or the other."""
        return self.state >= DONE

    @property
    def failed(self):
        """Whether the run is over and ranks last."""
        return self.state > DONE

    def over(self, record):
        """Return the mark of the run after it gave ``record``."""
        return self if self.final else Mark(state_of(record), self.starts, self.deaths, self.finishes + 1)

    def pack(self, position):
        """Return the eight bytes of this mark for the run at ``position``."""
        four = bytes(self) if max(self) <= _MOST else bytes(min(_MOST, part) for part in self)
        return four + zlib.crc32(four, position & 0xFFFFFFFF).to_bytes(4, "little")

    @classmethod
    def unpack(cls, data, position):
        """Return the mark in eight bytes, or None if they are damaged."""
        if data == bytes(_MARK.size):
            return cls()
        mark = cls(*data[:4])
        return mark if mark.pack(position) == data and mark.state <= TIMED_OUT else None


@dataclass(frozen=True)
class StoreRef:
    """Names a store for a worker.

    Parameters
    ----------
    path : str
    token : str
        Tells whether the folder that a worker finds under this path is the one meant.
    keeps_best : bool
        Whether records are kept (a checkpoint) or only marks (to know whose worker died).
    sitting : str
        Tells one call of fit from another that resumes it: its folder may be a copy, or its files may be new. Sixteen
        hexadecimal digits.
    """

    path: str
    token: str
    keeps_best: bool
    sitting: str = field(default_factory=lambda: secrets.token_hex(_SITTING_SIZE // 2), compare=False)

    def folder(self):
        """Open the folder, which speaks of a checkpoint only if it is one."""
        return (Vault if self.keeps_best else Scratch)(self.path)

    @property
    def title(self):
        """What the marks of this store begin with."""
        name = f"{self.token:<{_TOKEN_SIZE}.{_TOKEN_SIZE}}{self.sitting}".encode()
        return name + f"{zlib.crc32(name):08x}".encode()

    @classmethod
    def of(cls, vault, token):
        """Return the name of what lies in the folder of a checkpoint.

        Raises
        ------
        CheckpointError
            If the marks are not those of ``token``, or damaged.
        """
        try:
            fd = vault.open(_MARKS)
        except FileNotFoundError:
            raise CheckpointError(vault.damaged(_MARKS)) from None
        try:
            title = os.pread(fd, _FIRST, 0)
        except OSError as error:
            raise vault.failed(error) from None
        finally:
            os.close(fd)
        sitting = title[_TOKEN_SIZE:][:_SITTING_SIZE].decode("ascii", "replace")
        found = cls(vault.path, token, keeps_best=True, sitting=sitting)
        if found.title != title:
            raise CheckpointError(vault.damaged(_MARKS))
        return found


class Store:
    """Marks and best records in a folder; safe under concurrent workers.

    Parameters
    ----------
    ref : StoreRef
    vault : Vault, optional
        The folder, if it is open already.
    """

    def __init__(self, ref, vault=None):
        self.ref = ref
        self._lock = threading.RLock()
        self._vault = ref.folder() if vault is None else vault
        self._marks = None
        try:
            self._marks = self._vault.open(_MARKS, os.O_RDWR)
        except BaseException:
            self._vault.close()
            raise
        self._best = None
        self._best_name = f"{self._own_records}{secrets.token_hex(8)}"

    @property
    def _own_records(self):
        return f"{_BEST}{self.ref.sitting}-"

    @staticmethod
    def lay_out(vault, ref, count, marks=b""):
        """Write the marks of a store for ``count`` runs, in the place of any that are there.

        Parameters
        ----------
        vault : Vault
        ref : StoreRef
        count : int
        marks : bytes
            Of the sitting before, if there was one.

        Raises
        ------
        CheckpointError
            If there is no room for them.
        """
        size = _FIRST + count * _MARK.size
        with vault.staging(_MARKS) as (fd, staged):
            os.ftruncate(fd, size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, size)  # a full disk shows now, not in the middle
            write_all(fd, ref.title + marks)
        vault.place(staged, _MARKS)

    @classmethod
    def temporary(cls, folder, token, count):
        """Return a store of marks alone, in a folder of this search that exists.

        Raises
        ------
        TransportError
            If there is no room for them.
        """
        vault = Scratch(folder)
        ref = StoreRef(vault.path, token, keeps_best=False)
        cls.lay_out(vault, ref, count)
        return cls(ref, vault)

    def taken_over(self, count):
        """Return the store of a new sitting of the same search; what this one's workers still write is never read.

        Parameters
        ----------
        count : int
            The number of runs.

        Raises
        ------
        CheckpointError
            If something is damaged or strange, or there is no room: then this sitting is still the last one.
        """
        marks = self._snapshot(count)
        best = None
        for body, record in self._kept():  # after the marks: what they vouch for is there, whoever writes meanwhile
            at = record.position * _MARK.size
            mark = Mark.unpack(bytes(marks[at : at + _MARK.size]), record.position)
            if mark is None:
                raise self.damaged(_MARKS)
            marks[at : at + _MARK.size] = mark.over(record).pack(record.position)
            if best is None or record.rank > best[1].rank:
                best = body, record
        stale = [name for name in self._vault.names() if name.startswith(_BEST)]
        for name in stale:
            with contextlib.suppress(FileNotFoundError):
                os.close(self._vault.open(name))  # refused if it is a link, say
        ref = StoreRef(self.ref.path, self.ref.token, self.ref.keeps_best)
        if best is not None:
            self._vault.write(f"{_BEST}{ref.sitting}-0", best[0])
        self.lay_out(self._vault, ref, count, marks)  # from here on it is the new sitting
        for name in stale:
            try:
                self._vault.unlink(name)
            except OSError as error:
                raise self._vault.failed(error) from None
        return Store(ref, Vault(self.ref.path))

    def _snapshot(self, count):
        size = count * _MARK.size
        try:
            marks = os.pread(self._marks, size + 1, _FIRST)
        except OSError as error:
            raise self._vault.failed(error) from None
        if len(marks) != size:
            raise self.damaged(_MARKS)
        return bytearray(marks)

    def is_meant(self):
        """Return whether the marks that were found are those of this search and sitting."""
        try:
            return os.pread(self._marks, _FIRST, 0) == self.ref.title
        except OSError:
            return False

    # ------------------------------------------------------------------ marks

    def _update(self, position, change, lasting=False):
        with self._lock:
            if self._marks is None:
                raise CheckpointError("the search that this run belongs to is over.")
            at = _FIRST + position * _MARK.size
            try:
                mark = Mark.unpack(os.pread(self._marks, _MARK.size, at), position)
                if mark is None:
                    raise self.damaged(_MARKS)
                new = change(mark)
                if new != mark:
                    os.pwrite(self._marks, new.pack(position), at)
                    if lasting:
                        _flush(self._marks)
            except SkdptuneError:
                raise
            except OSError as error:
                raise self._vault.failed(error) from None
            return new

    def start(self, position):
        """Write down that a run begins; return False if it must not, because it is over and its record was kept."""

        def begin(mark):
            return mark if self._is_over(mark) else Mark(RUNNING, mark.starts + 1, mark.deaths, mark.finishes)

        return not self._is_over(self._update(position, begin))

    def _is_over(self, mark):
        return mark.final and self.ref.keeps_best

    def excuse(self, position):
        """Take back a start that ended through no fault of the run's own (Ctrl-C, a neighbour's death)."""
        return self._update(
            position,
            lambda m: m if m.state != RUNNING else Mark(WAITING, max(0, m.starts - 1), m.deaths, m.finishes),
        )

    def death(self, position):
        """Write down that a run's process died under it; return how often that has happened."""
        return self._update(position, lambda m: Mark(m.state, m.starts, m.deaths + 1, m.finishes)).deaths

    def mark(self, position):
        """Return the mark of one run."""
        return self._update(position, lambda m: m)

    def marks(self, count):
        """Yield ``(position, mark)`` for all runs.

        Raises
        ------
        CheckpointError
            If the file is damaged.
        """
        size = os.fstat(self._marks).st_size
        if size != _FIRST + count * _MARK.size:
            raise self.damaged(_MARKS)
        block = 4096
        for first in range(0, count, block):
            try:
                data = os.pread(self._marks, block * _MARK.size, _FIRST + first * _MARK.size)
            except OSError as error:
                raise self._vault.failed(error) from None
            for i in range(len(data) // _MARK.size):
                mark = Mark.unpack(data[i * _MARK.size : (i + 1) * _MARK.size], first + i)
                if mark is None:
                    raise self.damaged(_MARKS)
                yield first + i, mark

    # ------------------------------------------------------------------ records

    def finish(self, record, floor=None):
        """Keep ``record`` if it may be the best, then mark its run as finished.

        Parameters
        ----------
        record : RunRecord
        floor : tuple or None
            The rank of a record that is on the disk already.

        Returns
        -------
        bool
            Whether this is the outcome of the run; not if another worker, taken for dead, has finished it meanwhile.
        """
        state = state_of(record)
        with self._lock:  # until the run is marked, nothing takes the place of its record
            if self.ref.keeps_best and self.mark(record.position).final:
                return False
            if self.ref.keeps_best and (floor is None or record.rank > floor):
                self._keep(record)
            # lasting for losers as for winners: otherwise a power cut would choose whose outcome is forgotten
            self._update(
                record.position, lambda m: Mark(state, m.starts, m.deaths, m.finishes + 1), lasting=self.ref.keeps_best
            )
            return True

    def _keep(self, record):
        if self._best is None or record.rank > self._best:
            if self._marks is None:
                raise CheckpointError("the search that this run belongs to is over.")
            self._vault.write(self._best_name, pickled(record, "the model that a try publishes"))
            self._best = record.rank

    def settle(self):
        """Mark the runs of all kept records as finished.

        A process that was killed between keeping a record and marking its run has left the outcome of that run. To
        run it again could give it a second one, if its candidate draws from where a run cannot reach.
        """
        for record in self._records():
            if not self.mark(record.position).final:
                self.finish(record, record.rank)

    def best(self):
        """Return the best record that any worker has kept, or None.

        Raises
        ------
        CheckpointError
            If one cannot be read.
        """
        return max(self._records(), key=lambda record: record.rank, default=None)

    def _records(self):
        return (record for _, record in self._kept())

    def _kept(self):
        """Yield the records of this sitting, each as bytes and as it is."""
        seen = set()
        for name in sorted(self._vault.names()):
            if name.startswith(self._own_records):
                try:
                    body = self._vault.read(name)  # checks owner, mode and digest: only then is it unpickled
                except FileNotFoundError:
                    continue
                record = self._load(body)
                # two workers may have had the same run at once: the outcome that counts is chosen by a random name
                if record.position not in seen:
                    seen.add(record.position)
                    yield body, record

    def damaged(self, name):
        """Return the error for a file of the store that is not what was written."""
        return self._vault.error(self._vault.damaged(name))

    def _load(self, body):
        try:
            return pickle.loads(body)
        except Exception as error:
            raise CheckpointError(
                f"a record in the checkpoint {self.ref.path!r} cannot be loaded ({type(error).__name__}). Run fit "
                "again where the classes of the candidate can be imported as before."
            ) from None

    def close(self):
        """Let go of the files; whoever still writes gets an error."""
        with self._lock:
            if self._marks is not None:
                os.close(self._marks)
                self._marks = None
                self._vault.close()

    def __del__(self):
        with contextlib.suppress(Exception):
            self.close()


def pickled(value, what):
    """Return ``value`` as bytes; ``what`` names it in the complaint.

    Raises
    ------
    CheckpointError
    """
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # classes of a script or notebook, as a worker knows them
        pass
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        kind = type(error).__name__
    raise CheckpointError(
        f"checkpoint cannot store {what}, because it cannot be pickled ({kind}). Leave checkpoint=None, or take locks, "
        "open files and the like out of the candidate and its published attributes."
    )


_OPEN = collections.OrderedDict()  # (token, sitting) -> Store, or None where it cannot be seen: for workers
_ADOPTED = {}  # (token, sitting) -> Store: of searches that run in this process
_OVER = collections.OrderedDict()  # (token, sitting): of searches that ran in it
_OPEN_LOCK = threading.Lock()
_OPEN_LIMIT = 8
_OVER_LIMIT = 256  # a thread left behind by an older one finds what a worker of a cluster would


def open_store(ref):
    """Return the store that ``ref`` names, kept open in this process; None where it cannot be seen from here.

    A worker on another machine may see no folder under that path, or another one: the token and the sitting decide.
    What a worker has opened for an earlier sitting of the same search is let go: it may be another folder, or a
    removed one.
    """
    if ref is None:
        return None
    key = (ref.token, ref.sitting)
    with _OPEN_LOCK:
        if key in _OVER:
            return None
        if key in _ADOPTED:
            return _ADOPTED[key]
        if key not in _OPEN:
            for other in [known for known in _OPEN if known[0] == ref.token]:
                del _OPEN[other]
            _OPEN[key] = _look_for(ref)
            while len(_OPEN) > _OPEN_LIMIT:
                _OPEN.popitem(last=False)
        return _OPEN[key]


def adopt(store):
    """Make ``store`` the one that :func:`open_store` returns in this process, which has it from elsewhere."""
    with _OPEN_LOCK:
        key = (store.ref.token, store.ref.sitting)
        _ADOPTED[key] = store
        _OPEN.pop(key, None)
        _OVER.pop(key, None)


def forget(ref):
    """Let go of a store in this process: threads that a search has left behind write nothing more."""
    with _OPEN_LOCK:
        key = (ref.token, ref.sitting)
        _ADOPTED.pop(key, None)
        _OPEN.pop(key, None)
        _OVER[key] = None
        while len(_OVER) > _OVER_LIMIT:
            _OVER.popitem(last=False)


def let_go(ref):
    """In a worker: close what it has opened of a search that is over, whose length tells the number of tries."""
    if ref is None:
        return
    with _OPEN_LOCK:
        store = _OPEN.pop((ref.token, ref.sitting), None)
    if store is not None:
        store.close()


def _look_for(ref):
    try:
        vault = ref.folder()
    except SkdptuneError:
        return None
    try:
        store = Store(ref, vault)  # closes the folder if it fails
    except (SkdptuneError, OSError):
        return None
    if store.is_meant():
        return store
    store.close()
    return None
