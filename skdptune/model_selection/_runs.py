"""The runs of a search: each a pure function of (data, settings, entropy), reduced as they come.

A run returns one :class:`RunRecord`. The parent keeps the best record seen so far and nothing else,
so its memory does not grow with the number of tries, and losers are dropped where they fall.

Everything in this module is for the curator. What may leave is decided in one place, by the
``publish`` method of the candidate's adapter, which is called inside the worker: the trained
object itself never travels.
"""

import contextlib
import math
import os
import traceback
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import sklearn
from sklearn.base import clone

from skdptune.candidates import find_adapter
from skdptune.candidates._contents import deep_copy
from skdptune.candidates._rehearsal import made_up_batches
from skdptune.candidates._seeding import RunRandomState, entropy_for, isolated_global_generators
from skdptune.model_selection._pricing import training_curve
from skdptune.model_selection._quiet import process_identity, quiet, quiet_worker
from skdptune.model_selection._read_only import has_objects, own
from skdptune.model_selection._rows import made_up_rows, take_rows
from skdptune.model_selection._space import with_settings
from skdptune.model_selection._tidy import row_count

__all__ = ["NUMPY_DEFAULT", "RunData", "RunPlan", "RunRecord", "RunSeeds", "one_run"]

MARK_BITS = 128
NUMPY_DEFAULT = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
OVER = "over"  # instead of a failure: the run has finished before


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
    stored : bool
        Whether the worker has written down that the run is over.
    """

    score: float
    mark: int
    params: dict | None
    model: object = field(default=None, repr=False)
    failure: str | None = None
    trace: str | None = field(default=None, repr=False)
    position: int | None = field(default=None, repr=False)
    stored: bool = False

    @property
    def rank(self):
        """What is compared: a total order, with every failed run below every other."""
        return (self.failure is None, self.score, self.mark)

    def delivered(self, floor, stored):
        """Return the record as it travels: without what only a winner needs if it does not beat ``floor``.

        Parameters
        ----------
        floor : tuple or None
            The rank of a record that the parent holds.
        stored : bool
            Whether the worker has written down that the run is over.
        """
        complete = floor is None or self.rank > floor
        if complete and stored == self.stored:
            return self
        params, model = (self.params, self.model) if complete else (None, None)
        return RunRecord(self.score, self.mark, params, model, self.failure, self.trace, self.position, stored)


def over(position):
    """Return what stands in for the record of a run that has finished before and is not run again."""
    return RunRecord(-math.inf, 0, None, failure=OVER, position=position, stored=True)


@dataclass(frozen=True)
class RunPlan:
    """What every run shares; data-free, except for the rows it carries to the workers."""

    estimator: object
    space: object
    coverage: object  # a Quote without what it costs
    relation: str
    train_sizes: tuple
    classes: object
    scorer: object
    n_scored: int
    public_scorer: object
    keep_model: bool
    debug: bool
    token: str  # names this plan in the caches of the workers
    run_timeout: float | None = None
    store: object = None  # a StoreRef: where a worker notes that a run begins and ends
    parent_pid: int | None = None
    config: dict | None = None  # of scikit-learn, as it is in the thread that makes the search


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
    known = _BUDGETED.get(key)  # one look: another thread may empty the cache meanwhile
    if known is not None:
        return clone(known)
    found = _below_level(plan, adapter)
    if key is not None:
        if len(_BUDGETED) >= _BUDGETED_LIMIT:
            _BUDGETED.clear()
        _BUDGETED[key] = clone(found)
    return found


def _below_level(plan, adapter):
    """Return a candidate whose training on every part lies below the level; if none does, the last one tried.

    A rate that follows from the number of rows is highest on the smallest part, while the largest may take more
    steps, so each size is tried. Who uses the candidate compares it with the level again.
    """
    for size in sorted(set(plan.train_sizes), reverse=True):
        found = adapter.with_budget(plan.coverage.level, size, plan.relation)
        if training_curve(find_adapter(found), plan.train_sizes, plan.relation).lies_below(plan.coverage.level):
            break
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
    if plan.coverage.level is not None:
        adapter = find_adapter(budgeted(plan, adapter, settings))
        adapter.check(plan.relation)
    curve = training_curve(adapter, plan.train_sizes, plan.relation)
    plan.coverage.check_covers(curve, adapter.name)
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
    # Silent and apart from the first call into the candidate: its constructor may speak or draw, too.
    with (
        quiet_worker(data.parent),
        isolated_global_generators(child_seed(seed, "global")),
        np.errstate(**NUMPY_DEFAULT),  # the same on every engine; and as it was afterwards, whatever a run sets
        warnings.catch_warnings(),  # whatever filters a run sets, the next one has its own
        _configured(plan.config),
        _Unforked(),
    ):
        quiet().renew()
        return _one_run(plan, data.of(position), seed, position)


_AS_IT_IS = contextlib.nullcontext()


def _configured(config):
    """Give this thread the configuration of scikit-learn that the thread of the search has."""
    same = config is None or config == sklearn.get_config()
    return _AS_IT_IS if same else sklearn.config_context(**config)


class _Unforked:
    """Ends a fork that a candidate has made and that comes back from its fit: it would go on as a second search."""

    def __enter__(self):
        self._pid = os.getpid()

    def __exit__(self, *exc_info):
        if os.getpid() != self._pid:
            os._exit(1)


def _one_run(plan, data, seed, position):
    mark = mark_of(seed)
    settings, adapter = draw_run(plan, seed)
    try:
        score, model = _train_and_score(plan, data, adapter, seed)
        if not math.isfinite(score):
            return RunRecord(-math.inf, mark, None, failure="NonFiniteScore", position=position)
        return RunRecord(score, mark, settings, model, position=position)
    except KeyboardInterrupt:
        raise  # Ctrl-C: the search ends here, and this run is not over
    except BaseException as error:
        # Whatever else a candidate raises ranks last. Its text may quote rows, so only its type travels.
        trace = traceback.format_exc() if plan.debug else None
        return RunRecord(-math.inf, mark, None, failure=type(error).__name__, trace=trace, position=position)


def mark_of(seed):
    own = child_seed(seed, "mark")
    if own is None:
        return int.from_bytes(os.urandom(MARK_BITS // 8), "big")
    return own % (1 << MARK_BITS)


def _train_and_score(plan, data, adapter, seed):
    total, model = 0, None
    # Copies of the scorer and of the model are asked: what they remember of rows and of other tries ends here. The
    # plan's own scorer releases: what a copy has made of its range and its lattice is not what was priced.
    scorer = deep_copy(plan.scorer if plan.public_scorer is None else plan.public_scorer)
    for position in range(len(data.splits)):
        (X, y), held_out = data.parts(position)
        fitted = adapter.fit(X, y, classes=own(plan.classes), seed=child_seed(seed, "fit", position))
        # Only what the curve covers is scored: the trained object may know more than it may publish.
        model = adapter.publish(fitted)
        if plan.public_scorer is None:
            asked = deep_copy(model) if plan.keep_model else model
            total += total_count(scorer, asked, *held_out)  # exact integers: pooled before any noise
    kept = model if plan.keep_model else None
    if plan.public_scorer is not None:
        X_public, y_public = (own(part, data.deep) for part in (data.X_public, data.y_public))
        return float(scorer(deep_copy(model), X_public, y_public)), kept
    score = plan.scorer.release(
        total, plan.n_scored, plan.coverage.noise, child_seed(seed, "score"), multiplicity=data.multiplicity
    )
    return float(score), kept


def total_count(scorer, model, X, y):
    """Return ``scorer.count(model, X, y)``; a row on which the model raises scores worst, by itself.

    Whether a run fails must not depend on a row. So no row makes it fail, and nor do all of them: a model that raises
    on every row has the worst score, as it has where there is no row to score. It is still told from the winner's model
    by :func:`raises_on_all`.

    Rows that the model takes together are counted together; where it raises, each half is asked by itself, down to a
    row beside itself. Never a row alone: a model that squeezes its output may raise on any single row, and one odd row
    would then take the points of those beside it.
    """
    n_rows = row_count(X)
    if n_rows == 0:
        return 0  # under add-remove a part may be empty
    with _except_ctrl_c():
        return scorer.count(model, X, y)
    total, waiting = 0, _halves(range(n_rows))
    while waiting:
        part = waiting.pop()
        rows = [*part, *part] if len(part) == 1 else list(part)
        with _except_ctrl_c():
            counted = scorer.count(model, take_rows(X, rows), take_rows(y, rows))
            total += counted // 2 if len(part) == 1 else counted
            continue
        waiting += _halves(part) if len(part) > 1 else []  # a row that fails beside itself scores nothing
    return total


def _halves(positions):
    """Return two halves; the row itself, if there is one."""
    middle = len(positions) // 2
    return [half for half in (positions[:middle], positions[middle:]) if len(half)]


def raises_on_all(scorer, model, X, classes):
    """Return the error if the model cannot be scored on any made-up row, else None; no value of X is used."""
    label = np.repeat(np.zeros(1) if classes is None else classes[:1], 2)
    failure = None
    for rows in (*made_up_rows(X), *made_up_batches(X)):
        try:
            scorer.count(model, take_rows(rows, [0, 0]), label)  # as each row is asked in the end
            return None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = error
    return failure


@contextlib.contextmanager
def _except_ctrl_c():
    """Go on whatever a row makes a model raise (Rust raises no Exception), unless somebody ends the search."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        pass


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
    parent: str
    ready: tuple | None = field(default=None, repr=False)
    deep: bool = False  # whether cells are objects that a try could change for another

    @classmethod
    def cut(cls, X, y, splits, multiplicity, X_public, y_public):
        """Return the data for the runs; with a single split, only its two parts."""
        deep = any(map(has_objects, (X, y, X_public, y_public)))
        data = cls(X, y, tuple(splits), multiplicity, X_public, y_public, process_identity(), deep=deep)
        if len(data.splits) > 1:
            return data
        return replace(data, X=None, y=None, ready=data.parts(0))

    def of(self, position):
        """Return the rows of one run."""
        return self

    def parts(self, position):
        """Return ``((X, y) to train on, (X, y) to score)`` of one split, as no run can change them for another."""
        if self.ready is not None:
            train, test = self.ready
        else:
            train, test = (self._rows(indices) for indices in self.splits[position])
        return tuple(own(part, self.deep) for part in train), tuple(own(part, self.deep) for part in test)

    def _rows(self, indices):
        if len(indices) == row_count(self.X):
            return self.X, self.y
        return take_rows(self.X, indices), take_rows(self.y, indices)


class RunSeeds:
    """The secret seeds of all runs, derived one at a time: they never sit in a list.

    Paper and code: the coins of run i of Algorithm 1 (arXiv 2110.03620v2) are a function of (master, i), so a
    run that was cut short can be run again with the same coins and to the same outcome.

    Parameters
    ----------
    master : int
        256 bits.
    count : int
        The number of runs.

    Examples
    --------
    >>> seeds = RunSeeds(7, 3)
    >>> len(seeds), seeds[2] == RunSeeds(7, 3)[2], seeds[2] == seeds[1]
    (3, True, False)
    """

    def __init__(self, master, count):
        self._master = master
        self._count = count

    def __len__(self):
        return self._count

    def __getitem__(self, position):
        return child_seed(self._master, "run", position)
