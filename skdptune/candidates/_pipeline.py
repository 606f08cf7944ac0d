"""Pipelines: the sum of their private steps; free steps are free, everything else is refused."""

import datetime

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from skdptune._exceptions import CandidateRefusedError, PricingError
from skdptune.candidates._protocol import (
    CandidateAdapter,
    LevelFamily,
    find_adapter,
    has_adapter,
    largest_below,
)
from skdptune.candidates._rehearsal import N_ROWS, made_up_batches
from skdptune.candidates._row_safe import length_of
from skdptune.candidates._seeding import entropy_for
from skdptune.candidates._stateless import (
    StatelessAdapter,
    is_listed,
    placeholder_like,
    refusal,
)

__all__ = ["PipelineAdapter"]

_TIMES = (datetime.date, datetime.timedelta, datetime.time, np.datetime64, np.timedelta64)


def _step_adapter(name, step):
    """Return the adapter of one step, or refuse it by name."""
    if type(step) is not Pipeline and has_adapter(step):
        return find_adapter(step)
    if is_listed(step) and (type(step) is not Pipeline or refusal(step) is None):
        return StatelessAdapter(step)
    if type(step) is Pipeline:
        return PipelineAdapter(step)
    raise CandidateRefusedError(f"step {name!r} ({type(step).__name__}) is refused: {refusal(step)}.")


class PipelineAdapter(CandidateAdapter):
    """Adapter of scikit-learn's ``Pipeline`` (the exact class) and of ``make_pipeline``.

    *Guarantee*: every private step is trained on the same rows, as transformed by the steps before it,
    whose fitted state is part of the output. The costs therefore add (adaptive composition of
    mechanisms fixed in advance). A free step (see ``_stateless``) transforms each row by itself, so
    neighbours stay neighbours.

    In training, a row that a free step raises on is blanked before that step, and a value that the steps before a
    private one have made infinite (or missing, if the private step takes no missing values) is 0, so that one row
    fails no try; but for steps that raise on blank rows as well, and infinite values in columns of objects.
    In predicting, such a row is passed on as it is; a step may raise on it, and then it scores worst.

    Raises
    ------
    CandidateRefusedError
        From :meth:`check`, naming the step that learns from the rows without a stated cost.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> PipelineAdapter(make_pipeline(StandardScaler(), StandardScaler())).check("zero-out")
    Traceback (most recent call last):
    ...
    skdptune._exceptions.CandidateRefusedError: step 'standardscaler-1' (StandardScaler) is refused:
    it learns from the rows and states no cost; use diffprivlib.models.StandardScaler(bounds=...)
    instead.
    """

    def __init__(self, estimator):
        super().__init__(estimator)
        self._adapters = None

    @staticmethod
    def accepts(estimator):
        """Return whether ``estimator`` is exactly a Pipeline: subclasses may resample or cache."""
        return type(estimator) is Pipeline

    @property
    def adapters(self):
        """A tuple of (step name, adapter) without the steps that pass through."""
        if self._adapters is None:
            self._adapters = tuple(
                (name, _step_adapter(name, step))
                for name, step in self.estimator.steps
                if step is not None and not isinstance(step, str)
            )
        return self._adapters

    def _private(self):
        return [(name, adapter) for name, adapter in self.adapters if not adapter.free]

    def check(self, relation):
        super().check(relation)
        if not self._private():
            raise CandidateRefusedError(
                "estimator is a Pipeline without a private step, so it would learn nothing or leak: end "
                "it with a differentially private estimator."
            )
        if self.estimator.memory is not None:
            raise CandidateRefusedError(
                "memory of Pipeline must be None: a cache would hand one noise draw of a private step to "
                "several runs; set memory=None."
            )
        if getattr(self.estimator, "transform_input", None) is not None:
            raise CandidateRefusedError(
                "transform_input of Pipeline must be None: private steps take X and y alone; set transform_input=None."
            )
        for name, adapter in self.adapters:
            try:
                adapter.check(relation)
            except CandidateRefusedError as error:
                raise CandidateRefusedError(f"step {name!r}: {error}") from error

    def check_data(self, n_samples, n_features, classes):
        """Check each step against the public width it will meet, as far as it is known."""
        width = n_features
        for name, adapter in self.adapters:
            if width is None:
                return
            try:
                adapter.check_data(n_samples, width, classes)
            except CandidateRefusedError as error:
                raise CandidateRefusedError(f"step {name!r}: {error}") from error
            width = adapter.n_features_out(width)

    def rehearse(self, batches, n_samples, classes, certain=True):
        """Send batches of made-up rows through the free steps, as far as they go, before anything is spent.

        Each declared function is tried where it stands, also inside a ColumnTransformer, a FeatureUnion or a pipeline
        within this one; each private step that they reach is checked against the width it will meet.

        Parameters
        ----------
        batches : list
            Of rows like those of the search; see :func:`~skdptune.candidates._rehearsal.made_up_batches`.
        n_samples : int
        classes : ndarray of shape (n_classes,) or None
        certain : bool, default=True
            Whether the rows of the search are of the same kind for certain.

        Returns
        -------
        list, bool
            What comes out, for the steps behind this one; empty where that is not known.

        Raises
        ------
        CandidateRefusedError
            If a declared function mixes rows, or if every try would fail, whatever the rows hold.
        """
        for name, adapter in self.adapters:
            if not batches:
                break
            try:
                if adapter.free:
                    batches, certain = adapter.rehearse(batches, certain)
                elif isinstance(adapter, PipelineAdapter):
                    batches, certain = adapter.rehearse(batches, n_samples, classes, certain)
                else:
                    batches, certain = _behind(adapter, batches, n_samples, classes, certain)
            except CandidateRefusedError as error:
                raise CandidateRefusedError(f"step {name!r}: {error}") from None
        return batches, certain

    def n_features_out(self, n_features):
        for _, adapter in self.adapters:
            n_features = None if n_features is None else adapter.n_features_out(n_features)
        return n_features

    def privacy_curve(self, n_samples, relation):
        curves = [adapter.privacy_curve(n_samples, relation) for _, adapter in self._private()]
        total = curves[0]
        for curve in curves[1:]:
            total = total + curve
        return total

    def privacy_params(self):
        """Return the prefixed names of all steps; where a step lists none, all of its parameters.

        :meth:`may_change_cost` answers more precisely for names outside ``get_params``.
        """
        names = {"steps", "memory", "transform_input"} | {name for name, _ in self.estimator.steps}
        for step, adapter in self.adapters:
            params = adapter.privacy_params()
            if params is None:
                params = adapter.estimator.get_params(deep=True)
            names |= {f"{step}__{param}" for param in params}
        return frozenset(names)

    def may_change_cost(self, name):
        head, _, rest = name.partition("__")
        if not rest:
            return head != "verbose"  # a whole step, or the list of steps
        adapter = dict(self.adapters).get(head)
        return True if adapter is None else adapter.may_change_cost(rest)

    def _families(self, n_samples, relation):
        return [adapter.level_family(n_samples, relation) for _, adapter in self._private()]

    def level_family(self, n_samples, relation):
        """Return levels that can be shared equally between the private steps, or None.

        With m private steps the level at x is m times the level at x of one of them: the last, unless
        its levels are pure (finite at delta 0) and another's are not.
        """
        families = self._families(n_samples, relation)
        if any(family is None for family in families):
            return None
        if len(families) == 1:
            return families[0]
        chosen = next((f for f in reversed(families) if not _is_pure(f)), families[-1])
        return LevelFamily(
            lambda x: len(families) * chosen.curve(x),
            chosen.low,
            chosen.high,
            chosen.increasing,
            chosen.name,
        )

    def calibration_refusal(self):
        for name, adapter in self._private():
            if adapter.level_family(1, "zero-out") is None:
                return f"step {name!r}: {adapter.calibration_refusal()}"
        return super().calibration_refusal()

    def with_budget(self, level, n_samples, relation):
        """Return a clone whose private steps share ``level`` equally.

        Each of m steps gets the dearest of its levels whose m-fold composition lies below ``level``;
        the sum of the budgeted steps is then checked against ``level`` as a whole.
        """
        private = self._private()
        budgeted = clone(self.estimator)
        for name, adapter in private:
            share = self._share(name, adapter, level, len(private), n_samples, relation)
            budgeted.set_params(**{name: adapter.with_budget(share, n_samples, relation)})
        total = PipelineAdapter(budgeted).privacy_curve(n_samples, relation)
        if not total.lies_below(level):  # the private side: what was not verified is not returned
            raise PricingError(
                "the Pipeline's level cannot be shared equally between its private steps; calibrate them "
                "by hand and leave epsilon=None."
            )
        return budgeted

    def _share(self, name, adapter, level, parts, n_samples, relation):
        if parts == 1:
            return level
        family = adapter.level_family(n_samples, relation)
        if family is None:
            raise PricingError(f"step {name!r}: {adapter.calibration_refusal()}")
        whole = LevelFamily(lambda x: parts * family.curve(x), family.low, family.high, family.increasing, family.name)
        x = largest_below(whole, level, rtol=1e-3)
        if x is None:
            raise PricingError(
                f"step {name!r} of the Pipeline cannot be given a {parts}th of the level: none of its "
                "levels lies below it; raise the target."
            )
        return family.curve(x)

    def assumptions(self, relation):
        return tuple(
            f"Step {name!r}: {sentence}"
            for name, adapter in self.adapters
            for sentence in adapter.assumptions(relation)
        )

    def fit(self, X, y, *, classes, seed):
        """Train the steps in turn, each through its adapter and with its own entropy."""
        trained = {}
        last = len(self.adapters) - 1
        for position, (name, adapter) in enumerate(self.adapters):
            if position and not adapter.free:
                X = adapter.made_finite(X)
            own = None if seed is None else entropy_for(seed, "step", position, name)
            trained[name] = adapter.fit(X, y, classes=classes, seed=own)
            if position < last:
                X = _passed_on(adapter, trained[name], X)
        return self._assembled(trained)

    def made_finite(self, X):
        return self.adapters[0][1].made_finite(X)

    def _assembled(self, steps):
        """Return a fresh Pipeline with ``steps`` (a dict) in place of the template's."""
        whole = clone(self.estimator)
        whole.steps = [(name, steps.get(name, step)) for name, step in whole.steps]
        return whole

    def published_names(self, fitted):
        return ("steps",)

    def publish(self, fitted):
        steps = dict(fitted.steps)
        return self._assembled({name: a.publish(steps[name]) for name, a in self.adapters})


def _passed_on(adapter, fitted, X):
    """Return the rows of X as the released step leaves them; a part without rows stays one, and fails nothing.

    Under add-remove a part may be empty, and that it is must not show.
    """
    if length_of(X):
        return adapter.transform_released(fitted, X)
    failure = None
    for rows in (placeholder_like(X), *made_up_batches(X)):
        try:
            return adapter.transform_released(fitted, rows)[:0]
        except Exception as error:  # made for other values than those made up here
            failure = error
    raise failure


def _behind(adapter, batches, n_samples, classes, certain):
    """Check a private step against made-up rows that reach it; return such as may come out of it."""
    shapes = {np.shape(batch) for batch in batches}
    tags = get_tags(adapter.estimator).input_tags
    if not certain or len(shapes) != 1 or tags.string or tags.one_d_array:
        return [], False
    (shape,) = shapes
    if len(shape) < 2:
        raise CandidateRefusedError(
            f"{adapter.name} must be given rows of columns; the steps before it make an array of shape {shape} of "
            f"{N_ROWS} made-up rows. Let them return one row for each row: X[:, [0]], not X[:, 0]."
        )
    if len(shape) != 2:
        return [], False
    _refuse_times(adapter, batches)
    adapter.check_data(n_samples, shape[1], classes)
    width = adapter.n_features_out(shape[1])
    # what a private step releases of rows is an array of numbers
    return ([], False) if width is None else (made_up_batches(np.zeros((1, width))), True)


def _refuse_times(adapter, batches):
    """Refuse objects that are times in front of a private step that takes no text: every try would fail on them."""
    if not all(isinstance(batch, np.ndarray) and batch.dtype.kind == "O" for batch in batches):
        return
    cells = np.concatenate(batches)
    found = [i for i in range(cells.shape[1]) if all(map(_is_time, cells[:, i]))]
    if found:
        raise CandidateRefusedError(
            f"{adapter.name} must be given numbers; of what the steps before it make, columns "
            f"{', '.join(map(str, found))} hold times ({type(cells[0, found[0]]).__name__}). Drop such columns, or "
            "make numbers of them by a public rule, FunctionTransformer(skdptune.candidates.row_wise(...)). Nothing "
            "has been spent."
        )


def _is_time(cell):
    if isinstance(cell, _TIMES):
        return True
    return any(kind.__name__ == "Period" and kind.__module__.startswith("pandas") for kind in type(cell).__mro__)


def _is_pure(family):
    x = family.cheapest
    return family.curve(x).epsilon(0.0) < float("inf")
