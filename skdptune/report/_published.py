"""What a search published, for its report: settings and score, both covered by the price."""

from dataclasses import dataclass, field

from sklearn.utils.validation import check_is_fitted

from skdptune._validation import invalid_type, invalid_value
from skdptune.model_selection._settings import setting_in_words
from skdptune.scoring import PrivateScorer

__all__ = ["Published", "published_by", "range_of"]


@dataclass(frozen=True)
class Published:
    """The released settings, in words, and the released score.

    Parameters
    ----------
    best_params : tuple of (str, str) or None
        None if no try succeeded.
    best_score : float
    score_range : (float, float) or None
        Of the scores of any rows; None where the scorer knows none.
    """

    best_params: tuple | None
    best_score: float
    score_range: tuple | None = field(default=None, compare=False)


def published_by(search, spent):
    """Return the :class:`Published` of a fitted search whose price is ``spent``; None for None.

    Raises
    ------
    InvalidTypeError, InvalidParameterError, sklearn.exceptions.NotFittedError
    """
    if search is None or type(search) is Published:
        return search
    if not hasattr(search, "privacy_cost"):
        raise invalid_type("published", "a fitted PrivateRandomSearchCV", search)
    check_is_fitted(search, "best_score_")
    own = spent if spent.test_score is None else spent.test_score.search_spent
    if spent.stage != "spent" or search.privacy_spent_ != own:
        raise invalid_value(
            "published",
            "the search whose price is reported, after its fit",
            type(search).__name__,
            "Make the report from search.privacy_spent_, or from the test score that was released for it.",
        )
    params = search.best_params_
    shown = None if params is None else tuple((name, setting_in_words(value)) for name, value in params.items())
    return Published(shown, float(search.best_score_), range_of(search.scorer_))


def range_of(scorer):
    """Return the least and the largest score of a private scorer; None for other scorers."""
    return (scorer.minimum, scorer.maximum) if isinstance(scorer, PrivateScorer) else None
