"""How plan and rows reach the workers: once per worker, not once per try.

A try is dispatched as a small task that names its *shipment*; the worker asks the shipment for plan and
rows and gets the same objects for every try it runs.

================  ==============================================================================================
engine            what travels
================  ==============================================================================================
this process      nothing: the objects themselves
loky, own cells   a path; rows are read-only memory maps of one file in the search's own folder (mode 0700)
dask              a key: plan and rows are scattered to every worker before the first try
ray               a reference to an object that is put into the object store once
Spark             a broadcast variable, fetched once per executor
anything else     a pickle of everything with every task (unpickled once per worker)
================  ==============================================================================================

Rows are handed out read-only, and as copies where they are no maps of a file. A candidate that could write into
them would make later tries depend on earlier ones, and the price of a search is a price for independent tries.
"""

import contextlib
import errno
import mmap
import os
import pickle
import secrets
import threading
import time

from joblib.parallel import get_active_backend

from skdptune._exceptions import TransportError
from skdptune.model_selection._folders import STAYS_CHARGED
from skdptune.model_selection._read_only import own, size_of

try:
    # joblib before 1.6 has a copy of its own. It must be the one that loky sends results with, which knows again
    # the classes of a script or notebook that it has sent.
    from joblib.externals import cloudpickle
except ImportError:
    import cloudpickle

__all__ = ["cloudpickle", "dump_payload", "load_payload", "own", "shipping", "ships_files", "worker_died"]

ALIGNMENT = 64  # bytes: what numpy's vectorised loops and BLAS like best


# ---------------------------------------------------------------------- in the parent


@contextlib.contextmanager
def shipping(payload, folder, n_jobs=None, backend=None):
    """Make ``payload`` available to the workers of an engine; everything is dropped at the end.

    Parameters
    ----------
    payload : object
        What every try needs: plan and rows.
    folder : str
        A folder that only this user can enter; used by engines on this machine.
    n_jobs : int, optional
        As for :class:`joblib.Parallel`. Only used to tell whether there will be another process at all.
    backend : joblib backend, optional
        The engine; by default the one that joblib would use now.

    Yields
    ------
    shipment : object
        ``shipment.ticket`` is what goes into a task; in the worker, and here, ``ticket.load()`` returns
        the payload. ``shipment.portable`` says whether any process of this machine can load it.

    Raises
    ------
    TransportError
        If plan or rows cannot be stored or sent. No try has been started.
    """
    active, configured = get_active_backend()
    backend = active if backend is None else backend
    shipment = _kind_of(backend)(payload, folder, backend)
    try:
        if backend.effective_n_jobs(configured if n_jobs is None else n_jobs) > 1:
            shipment.prepare()
        yield shipment
    finally:
        shipment.close()


def _kind_of(backend):
    # by name, so that no engine is imported to find that another one is in use
    for kind in type(backend).__mro__:
        if kind.__name__ in _KINDS:
            return _KINDS[kind.__name__]
    return _Local if getattr(backend, "supports_sharedmem", False) else _Carried


def ships_files(backend):
    """Return whether rows go to the workers of this engine in files of this machine."""
    return _kind_of(backend) is _Local


class _Shipment:
    """What all engines share: in the parent, the objects themselves."""

    portable = False

    def __init__(self, payload, folder, backend):
        self.token = secrets.token_hex(16)
        self.payload = payload
        self.lock = threading.Lock()
        _CACHE.adopt(self.token, payload)  # a forked worker finds it there, and copies nothing

    @property
    def ticket(self):
        """What to put into a task."""
        return self

    def load(self):
        """Return the payload."""
        return self.payload

    def prepare(self):
        """Do what can be done before the first task, where an error is easy to read."""

    def close(self):
        """Forget everything."""
        _CACHE.forget(self.token)
        self.payload = None


class _Local(_Shipment):
    """Memory maps for processes of this machine, written when first needed."""

    portable = True

    def __init__(self, payload, folder, backend):
        super().__init__(payload, folder, backend)
        self.folder = folder
        self.path = None
        self.eager = type(backend).__name__ == "LokyBackend"  # the others may never pickle it

    def prepare(self):
        if self.eager:
            self.write()

    def write(self):
        """Write the files, once."""
        with self.lock:
            if self.path is None:
                self.path = dump_payload(self.payload, self.folder)

    def __reduce__(self):
        self.write()
        return _LocalTicket, (self.token, self.path)

    def close(self):
        # not only with the folder: after the death of a worker the rows are written once more
        for name in () if self.path is None else (self.path, self.path + ".rows"):
            with contextlib.suppress(OSError):
                os.unlink(name)
        super().close()


class _Dask(_Shipment):
    """Scattered to every worker before the first try, and kept by each; later workers ask an earlier one.

    Tasks do not depend on the scattered object in dask's sense: dask drops copies that no waiting task needs
    and would send them again. A worker keeps the object in the cache of this module instead.
    """

    PATIENCE = 120.0  # seconds without any worker

    def __init__(self, payload, folder, backend):
        super().__init__(payload, folder, backend)
        self.client = backend.client
        self.future = None

    def prepare(self):
        self._look_after()

    @property
    def ticket(self):
        """What to put into a task; made anew if all workers that held the object have died."""
        return _DaskTicket(self.token, self._look_after().key)

    def _look_after(self):
        with self.lock:
            if self.future is None or self.future.status not in ("finished", "pending"):
                self.future = self._scatter()
                self.client.run(_keep, self.token, self.future.key, on_error="ignore")
            return self.future

    def _scatter(self):
        parcel = _Parcel(self.payload)
        try:
            self.client.wait_for_workers(1, timeout=self.PATIENCE)
        except TimeoutError:
            raise TransportError(
                f"dask has had no worker for {self.PATIENCE:.0f} s. Start some, or look at the logs of those that end."
            ) from None
        try:
            # straight to the workers: the scheduler never holds a row
            return self.client.scatter(parcel, broadcast=True, hash=False, direct=True)
        except Exception:  # the workers cannot be reached from here: by way of the scheduler
            return self.client.scatter(parcel, broadcast=True, hash=False)

    def close(self):
        if self.future is not None:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self.client.run(_forget, self.token, on_error="ignore")
                self.future.release()
            self.future = None
        super().close()


class _Ray(_Shipment):
    """Put into ray's object store when the first task is sent, because joblib starts ray as late as that."""

    reference = None

    def __reduce__(self):
        import ray

        with self.lock:
            if self.reference is None:
                self.reference = ray.put(_Parcel(self.payload))
        return _RayTicket, (self.token, self.reference)

    def close(self):
        self.reference = None  # ray frees what nobody refers to
        super().close()


class _Spark(_Shipment):
    """A broadcast variable."""

    def __init__(self, payload, folder, backend):
        from pyspark import cloudpickle as sparks  # the same that joblibspark sends results back with

        super().__init__(payload, folder, backend)
        self.broadcast = backend._spark.sparkContext.broadcast(sparks.dumps(payload, protocol=5))

    def __reduce__(self):
        return _SparkTicket, (self.token, self.broadcast)

    def close(self):
        with contextlib.suppress(Exception):  # the session may be gone
            self.broadcast.destroy()
        super().close()


class _Carried(_Shipment):
    """For engines that nobody here knows."""

    blob = None

    def __reduce__(self):
        with self.lock:
            if self.blob is None:
                self.blob = cloudpickle.dumps(self.payload, protocol=5)
        return _CarriedTicket, (self.token, self.blob)


def _spark_or_carried(payload, folder, backend):
    # a Spark Connect client has no context to broadcast with
    connect = getattr(backend, "_is_spark_connect_mode", False)
    return (_Carried if connect else _Spark)(payload, folder, backend)


_KINDS = {
    "SequentialBackend": _Local,
    "ThreadingBackend": _Local,
    "LokyBackend": _Local,
    "DaskDistributedBackend": _Dask,
    "RayBackend": _Ray,  # derives from MultiprocessingBackend, so its own name must be looked up first
    "MultiprocessingBackend": _Local,
    "SparkDistributedBackend": _spark_or_carried,
}


# ---------------------------------------------------------------------- in a worker


class _Entry:
    """A payload, or the right to make it."""

    def __init__(self, path):
        self.path, self.payload, self.ready, self.used = path, None, False, time.monotonic()
        self.lock = threading.Lock()


class _Cache:
    """What this process has loaded, by token.

    An entry goes when its file has gone, which is how a worker learns that the search is over, and after
    ten minutes in which no try has asked for it: rows should not stay in a worker that waits for other work.
    """

    LIMIT = 4
    IDLE = 600.0
    EVERY = 1.0

    def __init__(self):
        self._renew()

    def _renew(self):
        self.lock = threading.Lock()  # never held while anything is loaded: a cluster's event loop comes by, too
        self.adopted = {}
        self.entries = {}
        self.watching = False

    def after_fork(self):
        """In a forked child: locks may be held by threads that are gone; what was adopted stays."""
        adopted = self.adopted
        self._renew()
        self.adopted = adopted

    def adopt(self, token, payload):
        """In the parent: the objects themselves."""
        self.adopted[token] = payload

    def forget(self, token):
        """Let go of a payload; return it, if it was loaded here."""
        self.adopted.pop(token, None)
        with self.lock:
            entry = self.entries.pop(token, None)
        return None if entry is None else entry.payload

    def keep(self, token, payload):
        """Take what another part of this process has loaded already."""
        entry = self._entry(token, None)
        if entry.lock.acquire(blocking=False):  # else a try is loading it
            entry.payload, entry.ready = payload, True
            entry.lock.release()

    def get(self, token, make, path=None):
        """Return the payload of ``token``, made by ``make()`` unless it is here already."""
        if token in self.adopted:
            return self.adopted[token]
        entry = self._entry(token, path)
        with entry.lock:  # threads of one worker share one copy
            if not entry.ready:
                entry.payload = make()  # if this raises, the next one tries again
                entry.ready = True
            return entry.payload

    def _entry(self, token, path):
        with self.lock:
            entry = self.entries.get(token)
            if entry is None:
                while len(self.entries) >= self.LIMIT:
                    del self.entries[min(self.entries, key=lambda known: self.entries[known].used)]
                entry = self.entries[token] = _Entry(path)
            entry.used = time.monotonic()
            if not self.watching:
                self.watching = True
                threading.Thread(target=self._watch, name="skdptune-shipments", daemon=True).start()
            return entry

    def _watch(self):
        while True:
            time.sleep(self.EVERY)
            with self.lock:
                self._drop_ended(time.monotonic())
                if not self.entries:
                    self.watching = False
                    return

    def _drop_ended(self, now):
        for token, entry in list(self.entries.items()):
            if now - entry.used > self.IDLE or (entry.path is not None and not os.path.exists(entry.path)):
                del self.entries[token]


_CACHE = _Cache()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_CACHE.after_fork)


class Packed:
    """A result that is pickled already; unpickling gives the result itself."""

    def __init__(self, data):
        self._data = data

    def __reduce__(self):
        return pickle.loads, (self._data,)


class _Ticket:
    """The worker's end of a shipment: small, and picklable again."""

    of_a_child = False  # whether the worker was started by the very process that makes the search

    @staticmethod
    def pickler():
        """Return the module that pickled the payload: only that one knows again the classes of a script."""
        return cloudpickle

    def packed(self, result):
        """Return ``result`` as the engine should carry it."""
        return Packed(self.pickler().dumps(result))

    def __init__(self, token, source):
        self.token, self.source = token, source

    def __reduce__(self):
        return type(self), (self.token, self.source)

    @property
    def ticket(self):
        return self

    def load(self):
        return _CACHE.get(self.token, self._make)


class _LocalTicket(_Ticket):
    portable = True
    of_a_child = True

    def load(self):
        return _CACHE.get(self.token, lambda: load_payload(self.source), self.source)


class _DaskTicket(_Ticket):
    portable = False

    @staticmethod
    def pickler():
        import cloudpickle as dasks  # joblib before 1.6 has a copy of its own

        return dasks

    def _make(self):
        from distributed import get_worker
        from distributed.utils import sync

        # Not by a client's future: a client that has only just started in a worker was seen to wait for ever.
        worker, keys = get_worker(), [self.source]
        for _ in range(10):  # dask may drop a copy before it is looked at
            if self.source in worker.data:
                return worker.data[self.source].load()
            if not any(sync(worker.loop, worker.scheduler.who_has, keys=keys).values()):
                break
            sync(worker.loop, worker.scheduler.replicate, keys=keys, workers=[worker.address], n=1)
        raise RowsLostError("the rows have gone with the last worker that held them")


def _keep(token, key, dask_worker=None):
    """In a dask worker: keep the scattered object for the tries to come."""
    if key in dask_worker.data:
        _CACHE.keep(token, dask_worker.data[key].load())


def _forget(token):
    """In a dask worker: the search is over."""
    from skdptune.model_selection._worker import release  # that module needs this one

    release(token, _CACHE.forget(token))


class _RayTicket(_Ticket):
    portable = False

    @staticmethod
    def pickler():
        from ray import cloudpickle as rays

        return rays

    def _make(self):
        import ray

        return ray.get(self.source).load()


class _SparkTicket(_Ticket):
    portable = False

    @staticmethod
    def pickler():
        from pyspark import cloudpickle as sparks

        return sparks

    def _make(self):
        return pickle.loads(self.source.value)


class _CarriedTicket(_Ticket):
    portable = True

    def _make(self):
        return pickle.loads(self.source)


class RowsLostError(TransportError):
    """A worker has found nobody to get the rows from; they are sent again."""


class _Parcel:
    """The payload as one object of a cluster's store."""

    def __init__(self, payload):
        self.payload = payload

    def load(self):
        return self.payload

    def __sizeof__(self):
        return 1000 + size_of(self.payload)  # dask plans transfers by it


# ---------------------------------------------------------------------- files


def dump_payload(payload, folder):
    """Write ``payload`` below ``folder`` and return the path by which any process of this machine can load it.

    Raises
    ------
    TransportError
    """
    path = os.path.join(folder, f"payload-{secrets.token_hex(8)}")
    spans = []
    try:
        with _create(path + ".rows") as file:

            def store(buffer):
                with buffer.raw() as raw:
                    file.write(bytes(-file.tell() % ALIGNMENT))
                    spans.append((file.tell(), raw.nbytes))
                    file.write(raw)

            head = cloudpickle.dumps(payload, protocol=5, buffer_callback=store)
        with _create(path) as file:
            pickle.dump((head, spans), file, protocol=5)
    except OSError as error:
        for name in (path, path + ".rows"):
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise TransportError(_what_went_wrong(error, folder, spans)) from None
    return path


def _create(path):
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")


def _what_went_wrong(error, folder, spans):
    if error.errno == errno.ENOSPC:
        size = sum(length for _, length in spans) / 2**20
        return (
            f"the rows need a file in {folder}, and its disk was full after {size:.0f} MB. Make room there (in a "
            f"container, give /dev/shm more memory), or use n_jobs=1, which needs no file. {STAYS_CHARGED}"
        )
    return (
        f"the rows could not be written to {folder}: {error.strerror}. Make it writable, or use n_jobs=1. "
        f"{STAYS_CHARGED}"
    )


def load_payload(path, rows=None):
    """Return the payload of :func:`dump_payload`; its arrays are read-only maps of the file."""
    with open(path, "rb") as file:
        head, spans = pickle.load(file)
    with open(rows or path + ".rows", "rb") as file:
        length = os.fstat(file.fileno()).st_size
        # the map outlives the file's name
        whole = memoryview(mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ) if length else b"")
    return pickle.loads(head, buffers=[whole[start : start + size] for start, size in spans])


# ---------------------------------------------------------------------- dead workers

_DEATHS = frozenset({
    # joblib's loky and concurrent.futures
    "BrokenProcessPool", "TerminatedWorkerError",
    # dask
    "KilledWorker", "CommClosedError", "CancelledError", "FutureCancelledError", "RowsLostError",
    # ray
    "RayActorError", "ActorDiedError", "ActorUnavailableError", "WorkerCrashedError", "NodeDiedError",
    "OwnerDiedError", "ObjectLostError", "ObjectReconstructionFailedError", "OutOfMemoryError",
})  # fmt: skip


def worker_died(error):
    """Return whether ``error``, raised by an engine, says that a worker was lost rather than that a try failed."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if any(kind.__name__ in _DEATHS for kind in type(error).__mro__):
            return True
        error = error.__cause__
    return False
