"""The private scorers that come with the package: one class per score."""

import numpy as np

from skdptune._exceptions import InvalidParameterError
from skdptune._validation import check_real, describe, invalid_type, invalid_value
from skdptune.scoring._base import PrivateScorer, as_number_array, check_shape

__all__ = [
    "AbsoluteErrorScorer",
    "AccuracyScorer",
    "ClippedLogLossScorer",
    "SquaredErrorScorer",
    "WeightedAccuracyScorer",
]

_MAX_WIDTH = 1e150  # its square is a finite float


def _columns(array):
    return array[:, np.newaxis] if array.ndim == 1 else array


def _same_label(left, right):
    try:
        return bool(left == right)
    except (TypeError, ValueError):  # a missing value compares to neither
        return False


def _cell_by_cell(predicted, shape):
    """Return a list of predictions as an array of objects: as one of numpy's types, one would change all the others."""
    if hasattr(predicted, "iloc") or hasattr(predicted, "columns") or not hasattr(predicted, "__len__"):
        return np.asarray(predicted)  # frames have a type for each column
    cells = np.full((len(predicted), *shape), None, dtype=object)
    for i, row in enumerate(predicted):
        row = row if shape or not isinstance(row, (list, tuple)) or len(row) != 1 else row[0]
        if not shape:
            cells[i] = row
        elif np.shape(row) == shape:  # otherwise it is equal to no label
            cells[i] = np.array([*row], dtype=object)
    return cells


def _rows_right(predicted, y):
    """Return a boolean array (n_rows,): all labels of the row are predicted right."""
    y = np.asarray(y)
    predicted = np.asarray(predicted) if hasattr(predicted, "dtype") else _cell_by_cell(predicted, y.shape[1:])
    if y.ndim == 2 and predicted.ndim == 1 and y.shape[1] == 1:
        y = y[:, 0]
    if predicted.ndim == 2 and y.ndim == 1 and predicted.shape[1] == 1:
        predicted = predicted[:, 0]
    check_shape("predictions", predicted, y.shape)
    if predicted.dtype.kind == "O" or y.dtype.kind == "O":
        pairs = zip(predicted.ravel().tolist(), y.ravel().tolist(), strict=True)
        right = np.array([_same_label(a, b) for a, b in pairs], dtype=bool).reshape(y.shape)
    elif (predicted.dtype.kind in "US") != (y.dtype.kind in "US"):
        right = np.zeros(y.shape, dtype=bool)  # text never equals a number
    else:
        right = predicted == y
    return right.reshape(y.shape[0], -1).all(axis=1)


class AccuracyScorer(PrivateScorer):
    """Share of rows predicted right (with several outputs: rows with all outputs right).

    Range [0, 1]. The default for classifiers; the same number as scikit-learn's ``"accuracy"``.

    Notes
    -----
    *Guarantee* and *Assumes*: see :class:`PrivateScorer`.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = [[0.0], [0.0], [0.0], [0.0]], ["a", "a", "a", "b"]
    >>> AccuracyScorer()(DummyClassifier().fit(X, y), X, y)
    0.75
    """

    resolution = 1
    task = "classifier"

    def row_scores(self, estimator, X, y):
        """Return 1 for a row predicted right, 0 for any other (see :class:`PrivateScorer`)."""
        return _rows_right(estimator.predict(X), y)


class WeightedAccuracyScorer(PrivateScorer):
    r"""Accuracy with a public weight per class: :math:`\frac1n \sum_i w_{y_i} [\hat y_i = y_i]`.

    Range [0, the largest weight]. With :math:`w_c = 1 / (C s_c)` for *public* class shares
    :math:`s_c` it estimates the balanced accuracy of C classes. The noise is that of the
    largest weight, so a rare class with a large weight makes a noisy score.

    Parameters
    ----------
    class_weight : dict
        Label -> weight, finite and non-negative, at least one positive. Public: it must not be
        computed from the private labels. A row whose label is not listed has weight 0.

    Notes
    -----
    *Guarantee* and *Assumes*: see :class:`PrivateScorer`.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = [[0.0], [0.0], [0.0], [0.0]], ["a", "a", "a", "b"]
    >>> scorer = WeightedAccuracyScorer(class_weight={"a": 2 / 3, "b": 2.0})
    >>> round(scorer(DummyClassifier().fit(X, y), X, y), 6)
    0.5
    """

    task = "classifier"

    def __init__(self, class_weight):
        self.class_weight = class_weight

    @property
    def maximum(self):
        """The largest weight: the score of a data set of such rows, all predicted right."""
        return max(float(weight) for weight in self.class_weight.values())

    def check(self, classes=None):
        """Check the weights; with ``classes``, also that each declared label has one."""
        super().check()
        if not isinstance(self.class_weight, dict):
            raise invalid_type(
                "class_weight",
                "a dict from each label to its public weight",
                self.class_weight,
                "'balanced' would count the private labels: write down public class shares.",
            )
        for label, weight in self.class_weight.items():
            check_real(f"class_weight[{label!r}]", weight, low=0)
        if not any(self.class_weight.values()):
            raise invalid_value("class_weight", "a dict with a positive weight", self.class_weight)
        for label in [] if classes is None else np.asarray(classes).tolist():
            if label not in self.class_weight:
                raise InvalidParameterError(
                    f"class_weight must have a weight for every declared class; {label!r} has none. "
                    "Add it (0 ignores the class)."
                )

    def row_scores(self, estimator, X, y):
        """Return the row's share of the largest weight if predicted right, else 0."""
        right = _rows_right(estimator.predict(X), y)
        labels = np.asarray(y).reshape(right.shape[0], -1)[:, 0].tolist()
        weights = np.array([self.class_weight.get(label, 0.0) for label in labels], dtype=float)
        return right * (weights / self.maximum)


class ClippedLogLossScorer(PrivateScorer):
    r"""Negated log-loss with a ceiling: :math:`-\frac1n \sum_i \min(-\log p_{y_i}(x_i), clip)`.

    Range [-clip, 0], in nats. Plain log-loss has no bound: one row can cost any amount.

    Parameters
    ----------
    clip : float, default=5.0
        The most that one row can cost, in nats; positive. 5 nats: probabilities below 0.7 % all
        cost the same. The noise grows in proportion.

    Notes
    -----
    *Guarantee* and *Assumes*: see :class:`PrivateScorer`. A label that is not in the model's
    ``classes_`` has probability 0.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = [[0.0], [0.0]], ["a", "b"]
    >>> model = DummyClassifier(strategy="prior").fit(X, y)
    >>> round(ClippedLogLossScorer(clip=3.0)(model, X, y), 4)
    -0.6931
    """

    task = "classifier"
    response = "predict_proba"
    maximum = 0.0

    def __init__(self, clip=5.0):
        self.clip = clip

    @property
    def minimum(self):
        """The score when every row costs ``clip``."""
        return -float(self.clip)

    def check(self, classes=None):
        """Check that ``clip`` is a positive number."""
        super().check(classes)
        check_real("clip", self.clip, low=0, low_open=True)

    def row_scores(self, estimator, X, y):
        """Return 1 - (clipped log-loss) / clip of each row."""
        y = np.asarray(y)
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        probabilities = as_number_array("predict_proba", estimator.predict_proba(X))
        column = {label: j for j, label in enumerate(np.asarray(estimator.classes_).tolist())}
        check_shape("predict_proba", probabilities, (y.shape[0], len(column)))
        columns = np.array([column.get(label, -1) for label in y.tolist()], dtype=np.intp)
        own = np.where(columns >= 0, probabilities[np.arange(y.shape[0]), columns], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # log 0 is the clip, log of NaN worst
            loss = -np.log(own)
        return 1.0 - np.clip(loss, 0.0, self.clip) / self.clip


class _BoundedErrorScorer(PrivateScorer):
    """Errors of a regressor whose target has public bounds."""

    task = "regressor"
    maximum = 0.0

    def __init__(self, lower, upper):
        self.lower = lower
        self.upper = upper

    def check(self, classes=None):
        """Check that the bounds are finite numbers with lower < upper."""
        super().check(classes)
        advice = "Give the public range of the target, chosen without looking at the data."
        lower = check_real("lower", self.lower, advice=advice)
        upper = check_real("upper", self.upper, advice=advice)
        if not lower < upper:
            raise InvalidParameterError(
                f"lower must be below upper; got lower={describe(self.lower)} and "
                f"upper={describe(self.upper)}. {advice}"
            )
        if upper - lower > _MAX_WIDTH:
            raise InvalidParameterError(
                f"upper - lower must be at most {_MAX_WIDTH}; got {upper - lower}. {advice}"
            )

    def _relative_errors(self, estimator, X, y):
        """Return |clipped prediction - clipped target| / width, in [0, 1]; NaN where not finite."""
        y = _columns(as_number_array("y", y))
        predicted = _columns(as_number_array("predictions", estimator.predict(X)))
        check_shape("predictions", predicted, y.shape)
        finite = np.isfinite(y) & np.isfinite(predicted)
        lower, upper = float(self.lower), float(self.upper)
        error = np.abs(np.clip(predicted, lower, upper) - np.clip(y, lower, upper))
        return np.where(finite, error / (upper - lower), np.nan)


class AbsoluteErrorScorer(_BoundedErrorScorer):
    r"""Negated mean absolute error of a target in a public range.

    :math:`-\frac1n \sum_i |c(\hat y_i) - c(y_i)|` with :math:`c` clipping into [lower, upper];
    several outputs share the bounds and are averaged. Range [-(upper - lower), 0], in the target's
    units. A prediction or target that is not finite scores worst.

    Parameters
    ----------
    lower, upper : float
        Public bounds of the target, lower < upper, chosen without looking at the data. Targets and
        predictions outside are clipped. One row's worth is ``upper - lower``: wide bounds cost noise.

    Raises
    ------
    InvalidParameterError, InvalidTypeError
        From :meth:`check`, if the bounds are not finite numbers with lower < upper.

    Notes
    -----
    *Guarantee* and *Assumes*: see :class:`PrivateScorer`.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> X, y = [[0.0], [0.0]], [1.0, 30.0]
    >>> model = DummyRegressor(strategy="constant", constant=2.0).fit(X, y)
    >>> AbsoluteErrorScorer(lower=0, upper=10)(model, X, y)
    -4.5
    """

    @property
    def minimum(self):
        """The score when every row is wrong by the whole range."""
        return -(float(self.upper) - float(self.lower))

    def row_scores(self, estimator, X, y):
        """Return 1 - absolute error / (upper - lower) of each row."""
        return 1.0 - self._relative_errors(estimator, X, y).mean(axis=1)


class SquaredErrorScorer(_BoundedErrorScorer):
    r"""Negated mean squared error of a target in a public range.

    :math:`-\frac1n \sum_i (c(\hat y_i) - c(y_i))^2` with :math:`c` clipping into [lower, upper];
    several outputs share the bounds and are averaged. Range [-(upper - lower)^2, 0], in squared
    units of the target. A prediction or target that is not finite scores worst.

    Parameters
    ----------
    lower, upper : float
        Public bounds of the target, lower < upper, chosen without looking at the data. Targets and
        predictions outside are clipped. One row's worth is ``(upper - lower)**2``, so the noise is
        larger against typical errors than with :class:`AbsoluteErrorScorer`.

    Raises
    ------
    InvalidParameterError, InvalidTypeError
        From :meth:`check`, if the bounds are not finite numbers with lower < upper.

    Notes
    -----
    *Guarantee* and *Assumes*: see :class:`PrivateScorer`.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> X, y = [[0.0], [0.0]], [1.0, 30.0]
    >>> model = DummyRegressor(strategy="constant", constant=2.0).fit(X, y)
    >>> SquaredErrorScorer(lower=0, upper=10)(model, X, y)
    -32.5
    """

    @property
    def minimum(self):
        """The score when every row is wrong by the whole range."""
        return -((float(self.upper) - float(self.lower)) ** 2)

    def row_scores(self, estimator, X, y):
        """Return 1 - squared error / (upper - lower)^2 of each row."""
        return 1.0 - (self._relative_errors(estimator, X, y) ** 2).mean(axis=1)
