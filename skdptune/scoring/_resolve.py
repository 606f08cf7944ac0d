"""From the ``scoring`` argument of a search to a scorer, for private and for public rows."""

import math
from dataclasses import dataclass

from sklearn.metrics import check_scoring, get_scorer_names

from skdptune._exceptions import ScoringRefusedError
from skdptune._validation import describe
from skdptune.scoring._base import PrivateScorer, estimator_kind
from skdptune.scoring._scorers import AccuracyScorer

__all__ = ["resolve_private_scorer", "resolve_public_scorer", "score_rank"]

_PUBLIC = "or pass public validation rows as fit(X, y, X_public=..., y_public=...)"


@dataclass(frozen=True)
class _Refusal:
    """Why some scikit-learn scores have no private release, and what to use instead."""

    names: tuple
    reason: str
    instead: str
    prefix: bool = False

    def covers(self, scoring):
        return scoring.startswith(self.names) if self.prefix else scoring in self.names


_RANKING = (
    "it ranks rows against each other, so one row can move it by any amount up to the whole range"
)
_RATIO = "it divides by counts of private labels or predictions, so no public number bounds a row's share"
_UNBOUNDED = "one row can move it by any amount"
_ABSOLUTE = "AbsoluteErrorScorer(lower=, upper=) with public bounds of the target"
_SQUARED = "SquaredErrorScorer(lower=, upper=) with public bounds of the target"
_ACCURACY = 'scoring="accuracy" or ClippedLogLossScorer()'

_REFUSALS = (
    _Refusal(("roc_auc", "average_precision"), _RANKING, _ACCURACY, prefix=True),
    _Refusal(
        ("balanced_accuracy",),
        _RATIO,
        "WeightedAccuracyScorer(class_weight=) with public class weights",
    ),
    _Refusal(
        ("f1", "precision", "recall", "jaccard", "matthews", "positive_l", "neg_negative_l", "d2_"),
        _RATIO,
        "WeightedAccuracyScorer(class_weight=) with public class weights",
        prefix=True,
    ),
    _Refusal(
        ("r2", "explained_variance"), "it divides by the variance of the private target", _SQUARED
    ),
    _Refusal(("neg_mean_absolute_error",), f"without public bounds {_UNBOUNDED}", _ABSOLUTE),
    _Refusal(
        ("neg_mean_squared_error", "neg_root_mean_squared_error"),
        f"without public bounds {_UNBOUNDED}",
        _SQUARED,
    ),
    _Refusal(
        ("neg_median_absolute_error", "neg_max_error", "max_error"),
        "it is not a sum over rows",
        _ABSOLUTE,
    ),
    _Refusal(("neg_mean_",), _UNBOUNDED, _ABSOLUTE, prefix=True),
    _Refusal(("neg_root_mean_",), _UNBOUNDED, _SQUARED, prefix=True),
    _Refusal(("neg_log_loss",), _UNBOUNDED, "ClippedLogLossScorer(clip=)"),
    _Refusal(
        ("neg_brier_score", "top_k_accuracy"),
        "no bounded form of it comes with the package",
        "a PrivateScorer of your own with these scores per row",
    ),
)


def _refused(what, reason, instead):
    return ScoringRefusedError(
        f"scoring={what} cannot be released from private rows: {reason}. Use {instead}, {_PUBLIC}."
    )


def _refuse_name(scoring):
    for refusal in _REFUSALS:
        if refusal.covers(scoring):
            raise _refused(repr(scoring), refusal.reason, refusal.instead)
    if scoring in get_scorer_names():
        raise _refused(
            repr(scoring),
            "it is not a sum of bounded row scores",
            "a PrivateScorer such as AccuracyScorer()",
        )
    raise ScoringRefusedError(
        f"scoring must be None, 'accuracy' or a PrivateScorer; got {describe(scoring)}, which is no "
        "score that is known here."
    )


def _refuse_several(scoring):
    if isinstance(scoring, (list, tuple, set, frozenset, dict)):
        raise ScoringRefusedError(
            f"scoring must be one score, which ranks the runs; got {describe(scoring)}. Each further "
            "score would be a further release: choose one."
        )


def _refuse_callable(scoring):
    if isinstance(scoring, type) and issubclass(scoring, PrivateScorer):
        raise ScoringRefusedError(
            f"scoring must be an instance; got the class {scoring.__name__}. "
            f"Write {scoring.__name__}(...) with its parameters."
        )
    if callable(scoring):
        name = getattr(scoring, "__name__", None) or describe(scoring)
        raise _refused(
            name,
            "what a callable returns has no public bound on one row's share",
            "scoring='accuracy' or a subclass of PrivateScorer that scores each row",
        )


def _refuse_restated(scorer):
    """Refuse a scorer that counts or releases in its own way: the price is that of PrivateScorer's."""
    for name in ("count", "release", "_sanitised", "_natural"):
        if name in vars(scorer) or getattr(type(scorer), name) is not getattr(PrivateScorer, name):
            raise ScoringRefusedError(
                f"scoring ({type(scorer).__name__}) must leave {name} as PrivateScorer has it; it defines its own, and "
                "what that would release has no price. Implement row_scores, set resolution, minimum and maximum, and "
                f"remove {name}."
            )


def _default(estimator):
    name = type(estimator).__name__
    kind = estimator_kind(estimator)
    if kind == "regressor":
        raise ScoringRefusedError(
            f"scoring must be given for the regressor {name} on private rows: an error has no bound "
            "without a public range of the target. Use scoring=AbsoluteErrorScorer(lower=, upper=) "
            f"or SquaredErrorScorer(lower=, upper=), {_PUBLIC}."
        )
    if kind not in ("classifier", None) or not hasattr(estimator, "predict"):
        raise ScoringRefusedError(
            f"scoring must be given for {name}, which is not a classifier. "
            f"Use a PrivateScorer of your own, {_PUBLIC}."
        )
    return AccuracyScorer()


def resolve_private_scorer(scoring, estimator, classes=None):
    """Return the private scorer that ``scoring`` means on private rows, or refuse it.

    Reads no data.

    Parameters
    ----------
    scoring : None, "accuracy" or PrivateScorer
        None: accuracy (a regressor is refused: errors need public bounds).
    estimator : estimator
        The candidate, unfitted.
    classes : sequence or None
        Declared labels, if any.

    Returns
    -------
    PrivateScorer

    Raises
    ------
    ScoringRefusedError
        For every other scikit-learn score, several scores, and callables: with the reason and what
        to use instead. For a subclass of PrivateScorer that replaces ``count`` or ``release``.
    InvalidParameterError, InvalidTypeError
        If the scorer's own parameters are out of range.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> resolve_private_scorer(None, LogisticRegression())
    AccuracyScorer()
    >>> resolve_private_scorer("r2", LogisticRegression())
    Traceback (most recent call last):
    ...
    skdptune._exceptions.ScoringRefusedError: scoring='r2' cannot be released from private rows: ...
    """
    _refuse_several(scoring)
    if scoring is None:
        scorer = _default(estimator)
    elif isinstance(scoring, PrivateScorer):
        scorer = scoring
    elif isinstance(scoring, str):
        if scoring != "accuracy":
            _refuse_name(scoring)
        scorer = AccuracyScorer()
    else:
        _refuse_callable(scoring)
        raise ScoringRefusedError(
            f"scoring must be None, 'accuracy' or a PrivateScorer; got {describe(scoring)}."
        )
    _refuse_restated(scorer)
    scorer.check(classes)
    scorer.check_estimator(estimator)
    return scorer


def resolve_public_scorer(scoring, estimator):
    """Return a callable ``scorer(estimator, X, y)`` for public rows: nothing is added to its result.

    Parameters
    ----------
    scoring : None, str, callable or PrivateScorer
        None: the estimator's own ``score``. A string or callable: any scikit-learn scorer. A private
        scorer is used exactly.
    estimator : estimator

    Returns
    -------
    callable

    Raises
    ------
    ScoringRefusedError
        For several scores at once.
    ValueError, TypeError
        From scikit-learn, for what it does not know either.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> resolve_public_scorer("roc_auc", LogisticRegression())
    make_scorer(roc_auc_score, response_method=('decision_function', 'predict_proba'))
    """
    _refuse_several(scoring)
    if isinstance(scoring, type):
        _refuse_callable(scoring)
    if isinstance(scoring, PrivateScorer):
        scoring.check()
        scoring.check_estimator(estimator)
        return scoring
    return check_scoring(estimator, scoring=scoring)


def score_rank(score):
    """Return the number by which a score is ranked: NaN and both infinities come last.

    Examples
    --------
    >>> score_rank(0.5), score_rank(float("inf")), score_rank(float("nan"))
    (0.5, -inf, -inf)
    """
    score = float(score)
    return score if math.isfinite(score) else -math.inf
