"""The base of private scorers: bounded row scores, summed exactly on a lattice.

The way of a score: ``row_scores`` (floats in [0, 1], whatever a subclass computes) -> lattice steps
(integers in [0, resolution]) -> ``count`` (their exact sum, for the curator only) -> whole rows ->
plus integer noise -> ``release`` (divided by the public number of rows, in natural units).
"""

import copy
import operator

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from skdptune._exceptions import InvalidTypeError, ScoringRefusedError
from skdptune._validation import check_instance, check_integer
from skdptune.scoring._noise import ScoreNoise

__all__ = ["PrivateScorer"]

_OTHER_TASK = {
    "classifier": (
        "regressor",
        "AbsoluteErrorScorer(lower=, upper=) or SquaredErrorScorer(lower=, upper=)",
    ),
    "regressor": ("classifier", 'scoring="accuracy"'),
}
_MAX_RESOLUTION = 2**30  # then sums of up to 2**33 rows fit a 64-bit integer exactly


def estimator_kind(estimator):
    """Return "classifier", "regressor", "clusterer", ... or None, also for estimators without tags.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> estimator_kind(DummyClassifier()), estimator_kind(object())
    ('classifier', None)
    """
    try:
        return estimator.__sklearn_tags__().estimator_type
    except AttributeError:  # not built on scikit-learn's base class
        mixins = ((RegressorMixin, "regressor"), (ClassifierMixin, "classifier"))
        known = [kind for mixin, kind in mixins if isinstance(estimator, mixin)]
        return getattr(estimator, "_estimator_type", known[0] if known else None)


def _number(cell):
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def as_number_array(name, values):
    """Return ``values`` as a float array; a cell that is no number is NaN, which scores worst.

    Whether one cell converts is a matter of its row alone, so it must not fail the whole run.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = values.astype(float).filled(np.nan)  # a masked cell is a missing one
    array = np.asarray(values)
    if array.dtype.kind == "O":
        cells = [_number(cell) for cell in array.ravel().tolist()]
        array = np.array(cells, dtype=float).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        raise ScoringRefusedError(
            f"{name} must be real numbers; got an array of dtype {array.dtype}. "
            "Encode them before scoring."
        )
    return array.astype(float)


def check_shape(name, array, shape):
    """Return ``array`` if it has the shape ``shape``."""
    if array.shape != shape:
        raise ScoringRefusedError(
            f"{name} must have shape {shape}, one entry for each row; got {array.shape}."
        )
    return array


class PrivateScorer(BaseEstimator):
    """Base of scores that can be released from private rows.

    A private score is a sum of row scores, each in a public range and each depending on one row and
    the model alone. Replacing, blanking, adding or removing one row then moves the sum by at most one
    row's worth, and integer noise of that scale hides the row.

    To add a score, subclass, implement :meth:`row_scores`, and set ``minimum`` and ``maximum``, the
    score (in natural units, greater is better) of a data set whose rows all score 0, or all 1. A search refuses a
    subclass that replaces :meth:`count` or :meth:`release`: these are what the price is of.

    Attributes
    ----------
    resolution : int
        Public. A row's score is rounded to a multiple of ``1 / resolution``; between 1 and 2**30.
    minimum, maximum : float
        Public. The range of the exact score in natural units; attributes or properties.
    task : {"classifier", "regressor", None}
        The kind of estimator that can be scored so (None: any).
    response : str
        The method that the estimator must have.

    Notes
    -----
    *Guarantee.* For neighbouring data sets under zero-out, replace-one or add-remove, :meth:`count`
    differs by at most ``resolution`` lattice steps, so the whole rows it is rounded to differ by at
    most 1, and :meth:`release` costs what ``noise.curve(relation)`` says. Zero-out: a blanked row
    contributes 0 instead of its score. Replace-one: it contributes another score in [0, 1].

    *Assumes.* Row i of the predictions and of ``row_scores`` depends on row i and the model only; the
    range and the resolution were chosen without the data; ``n_rows`` is public (under add-remove: a
    public constant, not the number of rows found).

    Examples
    --------
    >>> import numpy as np
    >>> class WithinTwo(PrivateScorer):
    ...     "Share of rows predicted to within 2 units."
    ...     resolution = 1
    ...     def row_scores(self, estimator, X, y):
    ...         return np.abs(estimator.predict(X) - y) <= 2
    >>> from sklearn.dummy import DummyRegressor
    >>> X, y = np.zeros((4, 1)), np.array([0.0, 1.0, 2.0, 9.0])
    >>> model = DummyRegressor(strategy="constant", constant=3.0).fit(X, y)
    >>> WithinTwo()(model, X, y)
    0.5
    >>> WithinTwo().count(model, X, y)
    2
    """

    resolution = 2**20
    minimum = 0.0
    maximum = 1.0
    task = None
    response = "predict"

    def row_scores(self, estimator, X, y):
        """Return each row's score in [0, 1], greater is better (the hook for subclasses).

        Parameters
        ----------
        estimator : fitted estimator
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)

        Returns
        -------
        ndarray of shape (n_rows,)
            Non-finite entries count as 0; entries outside [0, 1] are clipped. In a search, a row
            on which it raises counts as 0.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement row_scores.")

    def check(self, classes=None):
        """Check the parameters, without any data.

        Parameters
        ----------
        classes : sequence or None
            The declared (public) labels, where there are any.

        Raises
        ------
        InvalidParameterError, InvalidTypeError
        """
        check_integer(
            f"{type(self).__name__}.resolution", self.resolution, low=1, high=_MAX_RESOLUTION
        )

    def check_estimator(self, estimator):
        """Refuse an estimator that this score has no meaning for (reads no data).

        Raises
        ------
        ScoringRefusedError
        """
        name, kind = type(self).__name__, type(estimator).__name__
        wrong, instead = _OTHER_TASK.get(self.task, (None, None))
        if wrong is not None and estimator_kind(estimator) == wrong:
            raise ScoringRefusedError(
                f"{name} scores a {self.task}; {kind} is a {wrong}: use {instead}."
            )
        if not hasattr(estimator, self.response):
            raise ScoringRefusedError(
                f"{name} needs {self.response}, which {kind} does not have: use a scorer that "
                "does without, or an estimator that has it."
            )

    def __call__(self, estimator, X, y):
        """Return the exact score in natural units: for public rows only, no noise is added.

        Returns
        -------
        float
            Greater is better; between ``minimum`` and ``maximum``.
        """
        self.check()
        return self._natural(float(np.mean(self._sanitised(estimator, X, y))))

    def count(self, estimator, X, y):
        """Return the exact sum of the row scores, in lattice steps (for the curator only).

        Counts of disjoint parts may be added before one :meth:`release`: a row is in one of them.

        Parameters
        ----------
        estimator : fitted estimator
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)

        Returns
        -------
        int
            Between 0 and ``n_rows * resolution``; one row moves it by at most ``resolution``.
        """
        self.check()
        steps = np.rint(self.resolution * self._sanitised(estimator, X, y))
        # Integers from here on: a float sum could move by more than one row's worth.
        return int(steps.astype(np.int64).sum())

    def release(self, total, n_rows, noise, seed=None, *, multiplicity=1):
        """Return the noisy score: the only number about private rows that may leave.

        Parameters
        ----------
        total : int
            Sum of :meth:`count` over disjoint parts, in lattice steps.
        n_rows : int
            Public number of rows to divide by; at least 1.
        noise : ScoreNoise
            ``ScoreNoise.none()`` releases the exact score and protects nothing.
        seed : int or None
            None: operating system entropy.
        multiplicity : int, default=1
            How often the most scored row is in ``total`` (repeated folds, several random splits). Noise
            and rounding grow with it, so that ``noise.curve()`` prices the release all the same.

        Returns
        -------
        float
            In natural units, greater is better. It may lie outside ``[minimum, maximum]``: clipping
            would be harmless to privacy, but would tie the runs at the end of the range.

        Notes
        -----
        *Guarantee.* Rounding to whole rows is monotone and commutes with whole rows, so the rounded
        total moves by at most 1 where the total moves by at most ``resolution``; integer noise is added
        to it, and the rest is post-processing. The rounding is at most half a row.

        Examples
        --------
        >>> from skdptune.scoring import AccuracyScorer, ScoreNoise
        >>> AccuracyScorer().release(41, 50, ScoreNoise.none())
        0.82
        >>> score = AccuracyScorer().release(41, 50, ScoreNoise.geometric(2.0), seed=3)
        >>> (score * 50).is_integer()
        True
        """
        try:
            total = operator.index(total)
        except TypeError:  # the total is private: name its type, never its value
            raise InvalidTypeError(
                f"total must be an integer, as count returns it; got a {type(total).__name__}."
            ) from None
        n_rows = check_integer("n_rows", n_rows, low=1)
        multiplicity = check_integer("multiplicity", multiplicity, low=1)
        check_instance("noise", noise, ScoreNoise, "a ScoreNoise")
        # floor(total / unit + 1/2) over integers: moves by at most 1 when total moves by at most one unit,
        # which is what the most scored row can move.
        unit = self.resolution * multiplicity
        rows = (2 * total + unit) // (2 * unit)
        return self._natural((rows + noise.sample(seed)) * multiplicity / n_rows)

    def _natural(self, share):
        return float(self.minimum + (self.maximum - self.minimum) * share)

    def _sanitised(self, estimator, X, y):
        part = next(iter(X.values())) if type(X) is dict else X  # a dict of arrays, for nets
        n_rows = part.shape[0] if hasattr(part, "shape") else len(part)
        # of a copy: what row_scores sets on itself (a range, a lattice) must not follow the rows
        scores = as_number_array("row_scores", copy.copy(self).row_scores(estimator, X, y))
        check_shape("row_scores", scores, (n_rows,))
        # NaN and both infinities are the worst score: an infinite score must not win.
        return np.clip(np.where(np.isfinite(scores), scores, 0.0), 0.0, 1.0)
