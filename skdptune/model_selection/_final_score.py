"""A final test score: one noisy number about rows that were put aside before the search.

The rows of the search and the test rows are disjoint, so one person's row is in one of the two. A searched row pays for
the search; the test score is then post-processing of the published model and of rows it shares nothing with. A test
row pays for the score. Theorem H1 of the documentation, with "train" read as "search" (Theorem H2 under add-remove).
"""

import copy
import html
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune._rounding import as_given, nats_up, significant_up
from skdptune._validation import check_instance, check_integer, describe, invalid_value
from skdptune.accounting import PrivacyCurve
from skdptune.candidates._quotes import without_cells
from skdptune.candidates._row_safe import is_keyed
from skdptune.ledger import as_ledger
from skdptune.model_selection._assumptions import PREDICTED_ALONE, beside_test_score
from skdptune.model_selection._lists import are_flat, each_label, each_row, is_listed, label_cells, listed_rows
from skdptune.model_selection._phrases import noise_in_words, scorer_in_words
from skdptune.model_selection._rows import check_labels, number_of_rows, refuse_lists_in, same_kind
from skdptune.model_selection._runs import total_count
from skdptune.model_selection._search import PrivateRandomSearchCV
from skdptune.model_selection._spent import own_delta, wrapped
from skdptune.model_selection._tidy import double, fresh_index, row_count, with_own_types
from skdptune.scoring import PrivateScorer, ScoreNoise, as_score_noise, resolve_private_scorer

__all__ = ["ReleasedScore", "release_test_score"]

_COUNTED = "_test_scores_released"  # on a fitted search: the price of its fit, and the scores released for that fit
_ONLY = "This is the only score released from these test rows; a second one is added to the first."
_ASSUMPTIONS = (
    "The test rows were put aside before the search, by a rule that looks at no row (positions drawn from their "
    "number, not stratified), and nothing else was computed from them.",
    "No person has a row among the test rows and another one among the rows of the search.",
    _ONLY,
    "Neighbouring data sets are the searched and the test rows together: the one row in question is a searched row or "
    "a test row. Where a sentence about the search or its split says rows, it means the searched ones.",
    "Released beside what the search released: one noisy score of the published model on the test rows, once.",
    PREDICTED_ALONE,
)
_COINS = "Every row was put aside by its own coin, thrown once, whose outcome is not published."
_GUESS = "The number of test rows is private as well: the test score is divided by a public guess of it."


@dataclass(frozen=True, repr=False)
class ReleasedScore:
    """A noisy test score and what it costs, made by :func:`release_test_score`.

    Parameters
    ----------
    score : float
        In natural units, greater is better. It may lie outside the score's range.
    n_rows : int
        The public number of rows that the sum of row scores was divided by.
    noise : ScoreNoise
    scorer : PrivateScorer
    curve : PrivacyCurve
        What the release costs a test row: this is what a ledger of the test rows is charged.
    total : PrivacyCurve
        The search and this score together, for any row, if the two share none: the worse of the two costs.
    assumptions : tuple of str
    search_spent : PrivacySpent or None
        The price of the search alone.
    published : object or None
        The settings and the noisy score that the search published, in words, for the report. Not compared.
    count : int
        Which score this is of those released for one fit of the search, from 1. Not compared.
    ledgers : tuple of PrivacyLedger
        Those of the search and of this score, for the report. Not compared.

    Notes
    -----
    *Guarantee.* Under ``total.relation``, everything the search published and this score together are (epsilon,
    delta)-indistinguishable for ``epsilon = total.epsilon(delta)``.

    *Assumes* what the search assumes, and ``assumptions``.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve
    >>> from skdptune.scoring import AccuracyScorer, ScoreNoise
    >>> noise = ScoreNoise.geometric(2.0)
    >>> released = ReleasedScore(0.81, 200, noise, AccuracyScorer(), noise.curve(), PrivacyCurve.pure(1.9), ())
    >>> released.epsilon(1e-6) <= 1.9
    True
    """

    score: float
    n_rows: int
    noise: ScoreNoise
    scorer: PrivateScorer
    curve: PrivacyCurve
    total: PrivacyCurve
    assumptions: tuple
    search_spent: object = field(default=None, repr=False)
    published: object = field(default=None, repr=False, compare=False)
    count: int = field(default=1, repr=False, compare=False)
    ledgers: tuple = field(default=(), repr=False, compare=False)

    @property
    def privacy_spent(self):
        """The price of the search and this score together, as a :class:`PrivacySpent` with the assumptions of both.

        Its ``curve`` is ``total``. It shows the search, the test score and both together, each by its own price.

        Raises
        ------
        InvalidParameterError
            If the price of the search is not known.
        """
        if self.search_spent is None:
            raise InvalidParameterError(
                "search_spent must be the price of the search; got None. Make the score with release_test_score."
            )
        return replace(self.search_spent, curve=self.total, assumptions=self._all_assumptions(), test_score=self)

    def _all_assumptions(self):
        searched = self.search_spent
        of_search = beside_test_score(searched.assumptions, searched.n_samples, self.n_rows)
        return tuple(dict.fromkeys([*of_search, *self.assumptions]))

    def report(self, **options):
        """Return one :class:`~skdptune.report.PrivacyReport` of the search and this score, to be filed.

        Parameters
        ----------
        **options
            As for :class:`~skdptune.report.PrivacyReport`: ``title``, ``delta``, ``prepared_for``, ...

        Returns
        -------
        PrivacyReport
        """
        return self.privacy_spent.report(**options)

    def epsilon(self, delta=None):
        """Return the epsilon (nats) of the search and this score together at ``delta``; None: the search's own."""
        return self.total.epsilon(own_delta(self.search_spent) if delta is None else delta)

    def __repr__(self):
        spent = self.search_spent
        delta = 1e-6 if spent is None else spent.default_delta
        return (
            f"ReleasedScore(score={self.score:.6g}, n_rows={self.n_rows}, noise={self.noise!r}, "
            f"epsilon={nats_up(self.total.epsilon(delta))} at delta={as_given(delta)})"
        )

    def __str__(self):
        return "\n".join([self._table(), *(wrapped("  NOTE: ", text) for text in self._notes())])

    def _table(self):
        spent = self.search_spent
        delta = 1e-6 if spent is None else spent.default_delta
        rows = [
            ("test score", f"{self.score:.6g}, {scorer_in_words(self.scorer)}{self._sign()}"),
            ("noise", f"standard deviation {significant_up(self.standard_deviation, 2)}, in units of the score"),
            ("by itself", f"epsilon = {nats_up(self.curve.epsilon(delta))}"),
            ("with the search", f"epsilon = {nats_up(self.total.epsilon(delta))}, if none of these rows was searched"),
            ("", "and this is the only score of any of them"),
        ]
        head = f"Released test score, at delta = {as_given(delta)}"
        return "\n".join([head, *(f"  {name:<15}  {text}" for name, text in rows)])

    def _sign(self):
        return "; greater is better: the error, times -1" if self.scorer.minimum < 0 >= self.scorer.maximum else ""

    def _notes(self):
        from skdptune.report._document import test_score_notes  # a floor above
        from skdptune.report._notes import price_notes, spent_notes

        if self.search_spent is None:
            priced = price_notes(self.total, 1e-6)
        else:
            priced = spent_notes(self.privacy_spent, self.search_spent.default_delta)
        return [*priced, *test_score_notes(self)]

    def _repr_html_(self):
        if self.search_spent is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        return f"<pre>{html.escape(self._table())}</pre>{self.privacy_spent._repr_html_()}"  # the card has the notes

    @property
    def standard_deviation(self):
        """Standard deviation of the noise on ``score``, in its units; the sampling error is not in it."""
        width = self.scorer.maximum - self.scorer.minimum
        return width * self.noise.standard_deviation / self.n_rows


def release_test_score(search, X, y, *, scoring=None, score_noise="matched", n_rows=None, ledger=None):
    """Release one noisy score of a finished search's model on private rows that the search never saw.

    Parameters
    ----------
    search : PrivateRandomSearchCV
        Fitted, on other rows.
    X : array-like of shape (n_test, n_features), or dict of arrays
    y : array-like of shape (n_test,)
        Test rows, put aside before the search, in the form that ``fit`` took. In a list, a cell that is no number is
        NaN, and so are all cells of a row of another length; a column may be empty. Labels are read one by one as the
        label of the search that they are equal to; one that is equal to none counts as predicted wrong.
    scoring : None, "accuracy" or PrivateScorer, default=None
        None: the score that the search compared its tries by, or accuracy if that was no private one.
    score_noise : "matched", float or ScoreNoise, default="matched"
        "matched": the least noise whose cost lies below that of the whole search, so that with disjoint rows the total
        stays the search's. A number is a standard deviation in rows.
    n_rows : int, optional
        Under add-remove only, and needed there: a public number to divide by, since the number of rows is private.
    ledger : object or None, default=None
        A :class:`~skdptune.ledger.PrivacyLedger`, accountant or handle that is charged ``curve`` before a row is read.
        Ledgers add: this charges as if test rows and searched rows were the same, which is never too little.

    Returns
    -------
    ReleasedScore

    Raises
    ------
    NotFittedError, InvalidParameterError, InvalidTypeError, ScoringRefusedError, PricingError, BudgetExceededError
        All before anything is charged, and but for lists and the form of labels before a row is read.

    Warns
    -----
    UserWarning
        Before anything is charged, from the second score of one fit on: rows that are scored twice pay for both scores.
        The fitted search, and each copy of it from then on, counts its own scores only.

    Notes
    -----
    *Guarantee.* The score costs a test row ``curve``, under the search's relation; search and score together cost
    any row ``total``. A row on which the model raises scores worst, by itself.

    *Assumes* the ``assumptions`` of the result. That the rows are disjoint, and were not scored for another search,
    cannot be checked here: a search keeps none.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator, ClassifierMixin
    >>> from skdptune import PrivateRandomSearchCV
    >>> class Coin(ClassifierMixin, BaseEstimator):
    ...     "Ignores the rows and says so: a stand-in for a private model."
    ...     def __init__(self, side=0):
    ...         self.side = side
    ...     def fit(self, X, y):
    ...         self.classes_ = np.array([0, 1])
    ...         return self
    ...     def predict(self, X):
    ...         return np.full(len(X), self.side)
    ...     def rdp_curve(self, orders):
    ...         return np.asarray(orders) / 50
    >>> X, y = np.zeros((300, 1)), np.repeat([0, 1], 150)
    >>> aside = np.random.default_rng(0).permutation(300) < 100  # by position only
    >>> search = PrivateRandomSearchCV(Coin(), {"side": [0, 1]}, classes=[0, 1]).fit(X[~aside], y[~aside])
    >>> released = release_test_score(search, X[aside], y[aside])
    >>> released.n_rows, released.epsilon(1e-6) == search.privacy_spent_.epsilon(1e-6)
    (100, True)
    >>> "100 test rows" in released.report(title="Coins").to_markdown()
    True
    """
    check_instance("search", search, PrivateRandomSearchCV, "a fitted PrivateRandomSearchCV")
    check_is_fitted(search)
    X = _test_rows(search, X)
    model = search._model(X)  # refuses a search without a model, and other columns; reads no value
    spent = search.privacy_spent_
    if spent.stage == "inner":
        raise InvalidParameterError(
            "search must be fitted by itself; got one that was fitted inside another search, which tells more about "
            "the rows than its own price says. Pass the outer search."
        )
    scorer = _scorer(search, scoring, model)
    n_rows = _public_number(n_rows, X, y, spent.relation)
    X, y = fresh_index(X), _labels(search, X, y)
    noise = as_score_noise(score_noise, spent.curve)
    curve = noise.curve(spent.relation)
    total = spent.curve if _below(curve, spent.curve) else PrivacyCurve.worst([spent.curve, curve])
    drawn = f"exact integer noise, drawn anew: {noise_in_words(noise)}"
    extra = (f"The test score ({scorer_in_words(scorer)}) carries {drawn}.",)
    if spent.relation == "add-remove":
        extra += (_COINS, _GUESS)
    count = _number_of(search, spent)
    assumptions = tuple(_again(count) if text is _ONLY else text for text in _ASSUMPTIONS) + extra
    from skdptune.report._ledger import ledgers_behind  # a floor above
    from skdptune.report._notes import repeated_score
    from skdptune.report._published import published_by

    published = published_by(search, spent)
    for text in repeated_score(count):  # where warnings are errors: before anything is spent
        warnings.warn(text, UserWarning, stacklevel=2)
    _charge(ledger, _Price(curve, curve.relation, n_rows, assumptions), scorer, search.delta)
    setattr(search, _COUNTED, (spent, count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library's warning may quote a row
        # copies are asked: the search and the score are published, and must not remember the rows
        points = total_count(copy.deepcopy(scorer), copy.deepcopy(model), X, y)
    score = scorer.release(points, n_rows, noise)
    ledgers = ledgers_behind(search.ledger, ledger)
    return ReleasedScore(score, n_rows, noise, scorer, curve, total, assumptions, spent, published, count, ledgers)


def _number_of(search, spent):
    """Return which score of this fit the next one is, from 1; another fit has another price, and starts anew."""
    fit, released = vars(search).get(_COUNTED, (None, 0))
    return released + 1 if fit is spent else 1


def _again(count):
    """Return the sentence about other scores of the test rows, for score number ``count`` of a fit."""
    if count == 1:
        return _ONLY
    return (
        f"{_ONLY} This search has released {count - 1} before it: none of their rows is among these test rows, or the "
        "price of these is the sum of all their scores."
    )


def _below(curve, level):
    """Say whether ``level`` covers ``curve`` for certain: compared as pairs, not at some Renyi orders."""
    return level.pair is not None and curve.lies_below(level)


def _scorer(search, scoring, model):
    if scoring is None and isinstance(search.scorer_, PrivateScorer):
        scoring = search.scorer_
    return resolve_private_scorer(scoring, model, vars(search).get("classes_"))


def _test_rows(search, X):
    """Return test rows in the form that rows of the search had, each by itself: no cell of one changes another one."""
    if is_keyed(X):
        return _test_arrays(X)
    if not is_listed(X):
        return with_own_types(X)
    if get_tags(search.estimator).input_tags.three_d_array and not are_flat(X):
        return listed_rows(X)  # images, say: what a row should look like is not known
    return each_row(X, search.n_features_in_)


def _test_arrays(X):
    refuse_lists_in(X, "X")
    return {name: part if issparse(part) else double(without_cells(np.asarray, part)) for name, part in X.items()}


def _labels(search, X, y):
    """Return y in the type of the labels of the search, each by itself; no complaint quotes a cell."""
    known = vars(search).get("classes_")
    if row_count(X) == 0:
        return y
    if known is None or not is_listed(y):
        labels = check_labels(search, X, y)
        if known is not None and not same_kind(labels, known):
            raise InvalidParameterError(
                "y must hold labels of the kind that the search was fitted on: text and numbers are never equal."
            )
        if known is None or labels.dtype == known.dtype or not {labels.dtype.kind, known.dtype.kind} <= set("biuf"):
            return labels
        return each_label(labels.tolist(), known)
    return each_label(label_cells(y), known)


def _public_number(n_rows, X, y, relation):
    if relation == "add-remove":
        if n_rows is None:
            raise InvalidParameterError(
                "n_rows must be a public number of rows under relation='add-remove', where the true number is private; "
                "got None. Pass a guess made without the rows."
            )
        number = check_integer("n_rows", n_rows, low=1)
    elif n_rows is not None:
        raise invalid_value(
            "n_rows", "None", n_rows, f"Under relation={relation!r} the number of rows is public and is used as it is."
        )
    else:
        number = number_of_rows(X)
    try:
        check_consistent_length(*(X.values() if is_keyed(X) else [X]), y)
    except ValueError:
        raise InvalidParameterError("X and y must have the same number of rows.") from None
    except TypeError:
        raise InvalidTypeError(f"y must be array-like with one label for each row; got {describe(y)}.") from None
    if number < 1:
        raise InvalidParameterError("X must have at least one row.")
    return number


@dataclass(frozen=True)
class _Price:
    """The release as something a ledger charges."""

    curve: PrivacyCurve
    relation: str
    n_rows: int
    assumptions: tuple

    @property
    def n_samples(self):
        """The number of test rows, where it is public."""
        return None if self.relation == "add-remove" else self.n_rows

    def epsilon(self, delta):
        return self.curve.epsilon(delta)


def _charge(ledger, price, scorer, delta):
    ledger = as_ledger(ledger)
    if ledger is None:
        return
    if callable(getattr(ledger, "charge_curve", None)):
        ledger.charge_curve(
            price.curve,
            f"test score, {scorer!r}",
            delta=delta,
            assumptions=price.assumptions,
            n_samples=price.n_samples,
        )
    else:
        ledger.charge(price, delta)
