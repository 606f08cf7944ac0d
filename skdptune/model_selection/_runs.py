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
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from skdptune.candidates import find_adapter
from skdptune.candidates._seeding import RunRandomState, entropy_for, isolated_global_generators
from skdptune.candidates._stateless import placeholder_like
from skdptune.model_selection._pricing import training_curve
from skdptune.model_selection._quiet import quiet_worker
from skdptune.model_selection._rows import number_of_rows
from skdptune.model_selection._space import with_settings

__all__ = ["RunData", "RunPlan", "RunRecord", "one_run", "run_seeds"]

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
    mark = mark_of(seed)
    settings, adapter = draw_run(plan, seed)
    try:
        with quiet_worker(data.parent_pid), isolated_global_generators(child_seed(seed, "global")):
            score, model = _train_and_score(plan, data, adapter, seed)
        if not math.isfinite(score):
            return RunRecord(-math.inf, mark, None, failure="NonFiniteScore", position=position)
        return RunRecord(score, mark, settings, model, position=position)
    except (Exception, SystemExit) as error:
        # Whatever a candidate raises ranks last. Its text may quote rows, so only its type travels.
        trace = traceback.format_exc() if plan.debug else None
        return RunRecord(-math.inf, mark, None, failure=type(error).__name__, trace=trace, position=position)


def mark_of(seed):
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


def run_seeds(master, count):
    """Yield one seed per run, lazily: the number of tries never sits in a list."""
    for position in range(count):
        yield child_seed(master, "run", position)
