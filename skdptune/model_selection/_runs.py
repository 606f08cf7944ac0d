"""The runs of a search: each a pure function of (data, settings, entropy), reduced as they come.

A run returns one :class:`RunRecord`. The parent keeps the best record seen so far and nothing else,
so its memory does not grow with the number of tries, and losers are dropped where they fall.

Everything in this module is for the curator. What may leave is decided in one place, by the
``publish`` method of the candidate's adapter, which is called inside the worker: the trained
object itself never travels.
"""

import concurrent.futures.process
import contextlib
import ctypes
import functools
import io
import itertools
import logging
import math
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from skdptune._exceptions import RunFailedError
from skdptune._validation import check_integer, invalid_type, invalid_value
from skdptune.candidates import find_adapter
from skdptune.candidates._seeding import RunRandomState, entropy_for, isolated_global_generators
from skdptune.candidates._stateless import placeholder_like
from skdptune.model_selection._pricing import training_curve
from skdptune.model_selection._rows import number_of_rows
from skdptune.model_selection._space import with_settings

__all__ = ["RunRecord", "Runner"]

logger = logging.getLogger("skdptune.curator")


def debugging():
    """Return whether the curator asked for tracebacks, which may quote private rows."""
    return logger.isEnabledFor(logging.DEBUG)


MARK_BITS = 128


@dataclass(frozen=True)
class RunRecord:
    """The whole output of one run.

    Parameters
    ----------
    score : float
        The noisy score, or minus infinity for a run that failed.
    mark : int
        A random tie mark; part of the output, so that the order of outputs is total.
    params : dict or None
    model : object or None
        The published (private) model, where one split makes one model.
    failure : str or None
        For the curator: the type of the error, never its text.
    trace : str or None
        For the curator, and only when debugging was switched on.
    position : int or None
        For the curator: which task this was. It is never compared and never published.
    """

    score: float
    mark: int
    params: dict | None
    model: object = field(default=None, repr=False)
    failure: str | None = None
    trace: str | None = field(default=None, repr=False)
    position: int | None = field(default=None, repr=False)

    @property
    def rank(self):
        """What is compared: a total order, with every failed run below every other."""
        return (self.failure is None, self.score, self.mark)


@dataclass(frozen=True)
class RunPlan:
    """What every run shares; data-free, except for the rows it carries to the workers."""

    estimator: object
    space: object
    quote: object
    relation: str
    train_sizes: tuple
    classes: object
    scorer: object
    n_scored: int
    public_scorer: object
    keep_model: bool
    debug: bool
    token: str  # names this plan in the caches of the workers


def child_seed(seed, *path):
    """Return the seed of one use of randomness; None (operating system entropy) stays None."""
    return None if seed is None else entropy_for(seed, *path)


def public_coins(seed, *path):
    """Return a RandomState of 256 bits for draws that do not look at data."""
    return RunRandomState(entropy_for(seed, *path))


_BUDGETED = {}
_BUDGETED_LIMIT = 1024
_PLAIN = (type(None), bool, int, float, str)


def budgeted(plan, adapter, settings):
    """Return a candidate calibrated to the level of ``plan``; settings seen before are not calibrated again.

    Whatever comes out of the cache is compared with the level again before it is trained.
    """
    key = None
    if all(isinstance(value, _PLAIN) for value in settings.values()):
        # 1, 1.0 and True are equal but may mean different things to a candidate
        named = ((name, type(value).__name__, value) for name, value in sorted(settings.items()))
        key = (plan.token, tuple(named))
    if key in _BUDGETED:
        return clone(_BUDGETED[key])
    found = adapter.with_budget(plan.quote.level, max(plan.train_sizes), plan.relation)
    if key is not None:
        if len(_BUDGETED) >= _BUDGETED_LIMIT:
            _BUDGETED.clear()
        _BUDGETED[key] = clone(found)
    return found


def draw_run(plan, seed):
    """Draw the settings of one run and return its checked, unfitted candidate.

    Raises
    ------
    CandidateRefusedError
        If the price does not cover this candidate. No row has been touched.
    """
    settings = plan.space.draw(public_coins(seed, "settings"))
    adapter = find_adapter(with_settings(plan.estimator, settings))
    adapter.check(plan.relation)
    if plan.quote.level is not None:
        adapter = find_adapter(budgeted(plan, adapter, settings))
        adapter.check(plan.relation)
    curve = training_curve(adapter, plan.train_sizes, plan.relation)
    plan.quote.check_covers(curve, adapter.name)
    return settings, adapter


def one_run(plan, data, seed, position=None):
    """Train and score one candidate; never raises for anything the candidate does.

    Parameters
    ----------
    plan : RunPlan
    data : RunData
    seed : int or None
        None: operating system entropy throughout.

    Returns
    -------
    RunRecord
    """
    mark = _mark(seed)
    settings, adapter = draw_run(plan, seed)
    try:
        with _quiet_worker(data.parent_pid), isolated_global_generators(child_seed(seed, "global")):
            score, model = _train_and_score(plan, data, adapter, seed)
        if not math.isfinite(score):
            return RunRecord(-math.inf, mark, None, failure="NonFiniteScore", position=position)
        return RunRecord(score, mark, settings, model, position=position)
    except (Exception, SystemExit) as error:
        # Whatever a candidate raises ranks last. Its text may quote rows, so only its type travels.
        trace = traceback.format_exc() if plan.debug else None
        return RunRecord(-math.inf, mark, None, failure=type(error).__name__, trace=trace, position=position)


def _mark(seed):
    own = child_seed(seed, "mark")
    if own is None:
        return int.from_bytes(os.urandom(MARK_BITS // 8), "big")
    return own % (1 << MARK_BITS)


def _train_and_score(plan, data, adapter, seed):
    total, model = 0, None
    for position in range(len(data.splits)):
        (X, y), held_out = data.parts(position)
        fitted = adapter.fit(X, y, classes=plan.classes, seed=child_seed(seed, "fit", position))
        # Only what the curve covers is scored: the trained object may know more than it may publish.
        model = adapter.publish(fitted)
        if plan.public_scorer is None:
            total += total_count(plan.scorer, model, *held_out, plan.classes)  # exact integers: pooled before any noise
    kept = model if plan.keep_model else None
    if plan.public_scorer is not None:
        return float(plan.public_scorer(model, data.X_public, data.y_public)), kept
    score = plan.scorer.release(
        total, plan.n_scored, plan.quote.noise, child_seed(seed, "score"), multiplicity=data.multiplicity
    )
    return float(score), kept


def total_count(scorer, model, X, y, classes):
    """Return ``scorer.count(model, X, y)``; a row on which the model raises scores worst, by itself.

    Whether a run fails must not depend on a row. If the batch raises, the model is asked about made-up rows:
    if it raises on all of them it is broken, whatever the rows, and the run fails; if not, the rows are
    scored one by one.
    """
    try:
        return scorer.count(model, X, y)
    except Exception:
        _refuse_broken(scorer, model, X, classes)
    total = 0
    for i in range(number_of_rows(X)):
        with contextlib.suppress(Exception):  # this row alone scores nothing
            total += scorer.count(model, _safe_indexing(X, [i]), _safe_indexing(y, [i]))
    return total


def _refuse_broken(scorer, model, X, classes):
    """Raise if the model cannot be scored on any made-up row; no value of X is used."""
    blank = placeholder_like(X)
    label = np.zeros(1) if classes is None else classes[:1]
    failure = None
    for shift in (0, 1, 0.5):
        try:
            scorer.count(model, blank if shift == 0 else blank + shift, label)
            return
        except Exception as error:
            failure = error
    raise failure


@dataclass(frozen=True)
class RunData:
    """The rows and their split; curator only.

    With one split the parts are cut once, here, and the whole table does not travel to the workers.
    """

    X: object = field(repr=False)
    y: object = field(repr=False)
    splits: tuple = field(repr=False)
    multiplicity: int
    X_public: object = field(repr=False)
    y_public: object = field(repr=False)
    parent_pid: int
    ready: tuple | None = field(default=None, repr=False)

    @classmethod
    def cut(cls, X, y, splits, multiplicity, X_public, y_public):
        """Return the data for the runs; with a single split, only its two parts."""
        data = cls(X, y, tuple(splits), multiplicity, X_public, y_public, os.getpid())
        if len(data.splits) > 1:
            return data
        return replace(data, X=None, y=None, ready=data.parts(0))

    def parts(self, position):
        """Return ``((X, y) to train on, (X, y) to score)`` of one split."""
        if self.ready is not None:
            return self.ready
        train, test = self.splits[position]
        return self._rows(train), self._rows(test)

    def _rows(self, indices):
        if len(indices) == number_of_rows(self.X):
            return self.X, self.y
        return _safe_indexing(self.X, indices), _safe_indexing(self.y, indices)


class _Quiet:
    """Process-wide silence with a count of those who want it: searches may nest and run in threads.

    Covers warnings, Python's streams, logging (unless the curator is debugging) and whatever compiled code
    writes to file descriptors 1 and 2.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._count = 0
        self._stack = None

    def __enter__(self):
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._stack = contextlib.ExitStack()
                self._stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                if not debugging():
                    self._stack.callback(logging.disable, logging.root.manager.disable)
                    logging.disable(logging.CRITICAL)
                self._stack.enter_context(_muted_descriptors())
                self._stack.enter_context(contextlib.redirect_stdout(_Sink()))
                self._stack.enter_context(contextlib.redirect_stderr(_Sink()))

    def __exit__(self, *exc_info):
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._stack.close()
                self._stack = None


@contextlib.contextmanager
def _muted_descriptors():
    """Point descriptors 1 and 2 to nowhere; C buffers are emptied before and after."""
    saved = []
    try:
        _flush_c()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):  # closed, as under some services
                saved.append((descriptor, os.dup(descriptor)))
                os.dup2(nowhere, descriptor)
        os.close(nowhere)
        yield
    finally:
        _flush_c()
        for descriptor, copy in saved:
            os.dup2(copy, descriptor)
            os.close(copy)


@functools.lru_cache(maxsize=1)
def _c_library():
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # not on every platform
        return None


def _flush_c():
    with contextlib.suppress(Exception):
        _c_library().fflush(None)


_quiet = _Quiet()


def quiet():
    """Silence warnings and the standard streams: their number would tell how many runs there were."""
    return _quiet


class _Sink(io.TextIOBase):
    """A text stream that forgets."""

    def write(self, text):
        return len(text)


@contextlib.contextmanager
def _quiet_worker(parent_pid):
    if os.getpid() == parent_pid:
        yield  # the parent is quiet already, around all runs
        return
    with quiet():
        yield


_DISPATCH = re.compile(r"(\d+(\.\d+)?\s*\*\s*)?n_jobs(\s*\*\s*\d+(\.\d+)?)?|[1-9]\d*")


def check_engine(search):
    """Check what only the runs use, so that nothing is charged before it is known to be right.

    Raises
    ------
    InvalidParameterError, InvalidTypeError
    """
    if search.n_jobs is not None and check_integer("n_jobs", search.n_jobs) == 0:
        raise invalid_value("n_jobs", "None or an integer other than 0", search.n_jobs)
    if not isinstance(search.verbose, (bool, int, np.integer)) or search.verbose < 0:
        raise invalid_value("verbose", "an integer of 0 or more", search.verbose)
    pre = search.pre_dispatch
    if isinstance(pre, str):
        if pre != "all" and not _DISPATCH.fullmatch(pre.strip()):
            expected = "'all', a positive integer, or an expression such as '2*n_jobs'"
            raise invalid_value("pre_dispatch", expected, pre)
    elif pre is not None:
        check_integer("pre_dispatch", pre, low=1)
    state = search.random_state
    known = state is None or isinstance(state, (int, np.integer, np.random.RandomState))
    if not known or isinstance(state, bool):
        raise invalid_type("random_state", "None, an integer or a numpy RandomState", state)


class Runner:
    """Runs a drawn number of tries on a joblib backend and keeps a running maximum.

    Parameters
    ----------
    n_jobs, pre_dispatch, verbose
        As for :class:`joblib.Parallel`. ``verbose`` prints for the curator only: it shows the number of
        tries.
    """

    BLOCK = 64

    def __init__(self, n_jobs=None, pre_dispatch="2*n_jobs", verbose=0):
        self.n_jobs = n_jobs
        self.pre_dispatch = pre_dispatch
        self.verbose = verbose

    def best(self, plan, data, seeds, *, raise_failures=False):
        """Return the best :class:`RunRecord` over ``seeds`` (an iterable), or None if it is empty.

        Raises
        ------
        SkdptuneError
            If a drawn candidate is not covered by the price, or a run failed and ``raise_failures``.
        """
        best = None
        with _Progress(self.verbose) as progress, _private_folder() as folder, quiet():
            for record in self._records(plan, data, seeds, folder):
                progress.step()
                if record.failure is not None:
                    _tell_curator(record)
                    if raise_failures:
                        raise RunFailedError(
                            f"a try failed with {record.failure} (for the curator); the whole search stays charged "
                            "and nothing is published. Use error_score=nan to rank failed tries last."
                        )
                if best is None or record.rank > best.rank:
                    best = record
        return best

    @staticmethod
    def quietly(work, seed):
        """Return ``work()``, called under the conditions of a run."""
        with quiet(), isolated_global_generators(seed):
            return work()

    def _records(self, plan, data, seeds, folder):
        options = {"n_jobs": self.n_jobs, "pre_dispatch": self.pre_dispatch, "temp_folder": folder}
        try:
            Parallel(return_as="generator_unordered", **options)
            stream = True
        except ValueError:  # this backend cannot
            stream = False
        waiting, outstanding = iter(enumerate(seeds)), set()

        def tasks(limit=None):
            for position, seed in itertools.islice(waiting, limit):
                outstanding.add(position)
                yield delayed(one_run)(plan, data, seed, position)

        more = True
        while more:
            try:
                if stream:
                    more = False
                    records = Parallel(return_as="generator_unordered", **options)(tasks())
                else:
                    # A block at a time, so that memory stays flat.
                    records = Parallel(**options)(tasks(self.BLOCK))
                    more = bool(outstanding)
                for record in records:
                    outstanding.discard(record.position)
                    yield record
            except concurrent.futures.process.BrokenProcessPool:
                # A worker died. What it and its neighbours were doing ranks last and is not tried again: to
                # try again until it survives would condition on survival.
                more = True
                for position in sorted(outstanding):
                    yield RunRecord(-math.inf, _mark(None), None, failure="WorkerDied", position=position)
                outstanding.clear()


class _Progress:
    """Lines on the real stderr about finished tries; for the curator."""

    def __init__(self, verbose):
        self._verbose = verbose
        self._done = 0

    def __enter__(self):
        self._stream = None
        if self._verbose:
            try:
                # a copy of the descriptor: the original is silent while the runs go on
                self._stream = os.fdopen(os.dup(sys.stderr.fileno()), "w")
            except (OSError, AttributeError, ValueError):
                self._stream = _Echo(sys.stderr)
            self._start = self._last = time.monotonic()
            self._say("progress for the curator only: it shows the number of tries and must not be published")
        return self

    def _say(self, text):
        with contextlib.suppress(Exception):
            self._stream.write(f"[skdptune] {text}\n")
            self._stream.flush()

    def step(self):
        """Count a finished try; say so at most once a second (``verbose > 1``: always)."""
        self._done += 1
        if self._stream is None:
            return
        now = time.monotonic()
        if self._verbose > 1 or now - self._last >= 1.0:
            self._last = now
            self._say(f"{self._done} tries in {now - self._start:.1f} s")

    def __exit__(self, *exc_info):
        if self._stream is not None:
            self._say(f"done: {self._done} tries in {time.monotonic() - self._start:.1f} s")
            self._stream.close()


class _Echo:
    """A stream without a descriptor (a notebook's), written to directly and never closed."""

    def __init__(self, stream):
        self.write, self.flush = stream.write, stream.flush

    def close(self):
        """Leave the stream open: it is the caller's."""


def _tell_curator(record):
    """Log a failure for the curator only; it reveals something about the number of tries."""
    logger.debug("a run failed with %s (curator only, not for publication)", record.failure)
    if record.trace:
        logger.debug("%s", record.trace)


@contextlib.contextmanager
def _private_folder():
    """Make a folder for memory maps that nobody else can read, and remove it whatever happens."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix=f"skdptune-{os.getpid()}-", dir=base)  # mode 0700
    try:
        _sweep(os.path.dirname(folder))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


def run_seeds(master, count):
    """Yield one seed per run, lazily: the number of tries never sits in a list."""
    for position in range(count):
        yield child_seed(master, "run", position)
