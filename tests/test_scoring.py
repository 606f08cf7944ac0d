"""Private scores: ranges, sensitivity, sanitising, release, noise, and what is refused."""

import math
import pickle
import subprocess
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    get_scorer,
    log_loss,
    make_scorer,
    mean_absolute_error,
    mean_squared_error,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdptune._exceptions import (
    InvalidParameterError,
    InvalidTypeError,
    PricingError,
    ScoringRefusedError,
)
from skdptune.accounting.curve import PrivacyCurve
from skdptune.accounting.selection import best_of
from skdptune.run_counts import Logarithmic
from skdptune.scoring import (
    AbsoluteErrorScorer,
    AccuracyScorer,
    ClippedLogLossScorer,
    PrivateScorer,
    ScoreNoise,
    SquaredErrorScorer,
    WeightedAccuracyScorer,
    as_score_noise,
    matched_noise,
    refuse_sample_weight,
    resolve_private_scorer,
    resolve_public_scorer,
    score_rank,
)

NONE = ScoreNoise.none()


class Says(BaseEstimator):
    """Predicts what it was told, row by row."""

    def __init__(self, predictions, classes=None):
        self.predictions = predictions
        self.classes_ = classes

    def predict(self, X):
        return self.predictions

    def predict_proba(self, X):
        return self.predictions


class Rows(PrivateScorer):
    """Row scores as given, to test what the base makes of them."""

    def __init__(self, values):
        self.values = values

    def row_scores(self, estimator, X, y):
        return self.values


def rows_of(n):
    return np.zeros((n, 1))


SCORERS = [
    AccuracyScorer(),
    AbsoluteErrorScorer(-1.0, 2.0),
    SquaredErrorScorer(-1.0, 2.0),
    ClippedLogLossScorer(clip=2.0),
    WeightedAccuracyScorer({0: 0.5, 1: 2.0}),
]


# -- sklearn manners -----------------------------------------------------------------------------


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda s: type(s).__name__)
def test_scorers_clone_pickle_and_print(scorer):
    for copy in (clone(scorer), pickle.loads(pickle.dumps(scorer)), eval(repr(scorer))):
        assert type(copy) is type(scorer)
        assert copy.get_params() == scorer.get_params()
    assert scorer.minimum < scorer.maximum


# -- agreement with scikit-learn on public rows -----------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + rng.normal(size=80) > 0.5).astype(int)
    z = np.clip(X[:, 0] + rng.normal(size=80), -1, 1)
    return X, y, z, LogisticRegression().fit(X, y), LinearRegression().fit(X, z)


def test_public_scores_agree_with_sklearn(fitted):
    X, y, z, classifier, regressor = fitted
    assert AccuracyScorer()(classifier, X, y) == accuracy_score(y, classifier.predict(X))
    inside = np.clip(regressor.predict(X), -1, 1)
    absolute = AbsoluteErrorScorer(lower=-1, upper=1)(regressor, X, z)
    squared = SquaredErrorScorer(lower=-1, upper=1)(regressor, X, z)
    assert absolute == pytest.approx(-mean_absolute_error(z, inside), rel=1e-12)
    assert squared == pytest.approx(-mean_squared_error(z, inside), rel=1e-12)
    loss = ClippedLogLossScorer(clip=50.0)(classifier, X, y)
    assert loss == pytest.approx(-log_loss(y, classifier.predict_proba(X)), rel=1e-12)
    shares = np.bincount(y) / y.size
    weights = {c: 1 / (2 * share) for c, share in enumerate(shares)}
    balanced = WeightedAccuracyScorer(weights)(classifier, X, y)
    assert balanced == pytest.approx(balanced_accuracy_score(y, classifier.predict(X)), rel=1e-12)


def test_several_outputs(fitted):
    truth = np.array([[0, 1], [1, 1], [2, 0]])
    said = np.array([[0, 1], [1, 0], [2, 0]])
    assert AccuracyScorer().count(Says(said), rows_of(3), truth) == 2
    scorer = AbsoluteErrorScorer(lower=0, upper=2)
    expected = -mean_absolute_error(truth, said)
    assert scorer(Says(said.astype(float)), rows_of(3), truth) == pytest.approx(expected)


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 1],
        np.array([0.0, 1.0, 1.0]),
        pd.Series([0, 1, 1]),
        np.array([[0], [1], [1]]),
        np.array([0, 1, 1], dtype=object),
    ],
)
def test_label_containers(y):
    assert AccuracyScorer().count(Says(np.array([0, 1, 0])), rows_of(3), y) == 2
    weighted = WeightedAccuracyScorer({0: 1.0, 1: 0.5})
    assert weighted(Says(np.array([0, 1, 0])), rows_of(3), y) == pytest.approx(0.5)


def test_string_labels_and_mixed_kinds():
    said = Says(np.array(["a", "b", "b"]))
    assert AccuracyScorer().count(said, rows_of(3), ["a", "b", "a"]) == 2
    assert AccuracyScorer().count(said, rows_of(3), np.array(["a", "b", "a"], dtype=object)) == 2
    assert AccuracyScorer().count(said, rows_of(3), [0, 1, 0]) == 0
    missing = np.array(["a", pd.NA, None], dtype=object)
    assert AccuracyScorer().count(said, rows_of(3), missing) == 1


def test_unlisted_labels_score_worst():
    y = np.array(["a", "b", "c"])
    weighted = WeightedAccuracyScorer({"a": 1.0, "b": 1.0})
    assert weighted.count(Says(y), rows_of(3), y) == 2 * weighted.resolution
    certain = Says(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), classes=np.array(["a", "b"]))
    assert (
        ClippedLogLossScorer().count(certain, rows_of(3), y) == 2 * ClippedLogLossScorer.resolution
    )


# -- sanitising (cases 4) ------------------------------------------------------------------------


def test_non_finite_rows_score_worst():
    scorer = Rows([np.nan, np.inf, -np.inf, 1.0, 7.0, -3.0])
    assert scorer.count(None, rows_of(6), None) == 2 * scorer.resolution  # 1.0 and the clipped 7.0
    assert scorer(None, rows_of(6), None) == pytest.approx(2 / 6)
    masked = Rows(np.ma.array([1.0, 1.0], mask=[True, False]))
    assert masked.count(None, rows_of(2), None) == masked.resolution


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_predictions_and_targets_score_worst(bad):
    for scorer in (AbsoluteErrorScorer(0, 1), SquaredErrorScorer(0, 1)):
        said, y = np.array([bad, 0.5, 0.5]), np.array([0.5, bad, 0.5])
        assert scorer.count(Says(said), rows_of(3), y) == scorer.resolution
    said = Says(np.array([[bad, bad], [0.0, 1.0]]), classes=np.array([0, 1]))
    scorer = ClippedLogLossScorer()
    assert scorer.count(said, rows_of(2), np.array([0, 1])) <= 2 * scorer.resolution
    if not bad > 0:
        assert scorer.count(said, rows_of(2), np.array([0, 1])) == scorer.resolution


def test_a_cell_that_is_no_number_costs_its_row_only():
    y = np.array([0.5, "secret", None, pd.NA, 10**400], dtype=object)
    scorer = AbsoluteErrorScorer(0, 1)
    assert scorer.count(Says(np.full(5, 0.5)), rows_of(5), y) == scorer.resolution


@pytest.mark.parametrize(
    "values", [1.0, [0.5], [[0.5, 0.5]], np.zeros((2, 1)), [], ["secret", "x"], [1j, 0j], None]
)
def test_row_scores_of_a_wrong_shape_or_kind_are_refused(values):
    with pytest.raises(ScoringRefusedError) as caught:
        Rows(values).count(None, rows_of(2), None)
    assert "secret" not in str(caught.value)
    assert "row_scores" in str(caught.value)


def test_predictions_of_a_wrong_shape_are_refused_without_quoting():
    for scorer in (AccuracyScorer(), AbsoluteErrorScorer(0, 1), WeightedAccuracyScorer({0: 1})):
        with pytest.raises(ScoringRefusedError, match=r"predictions must have shape \(3,"):
            scorer.count(Says(np.zeros(2)), rows_of(3), np.zeros(3))
    with pytest.raises(ScoringRefusedError, match=r"predict_proba must have shape \(3, 2\)"):
        said = Says(np.zeros((3, 3)), classes=[0, 1])
        ClippedLogLossScorer().count(said, rows_of(3), np.zeros(3))


def test_an_exception_is_the_runs_own():
    class Breaks(PrivateScorer):
        def row_scores(self, estimator, X, y):
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        Breaks().count(None, rows_of(2), None)
    with pytest.raises(NotImplementedError, match="PrivateScorer must implement row_scores"):
        PrivateScorer().count(None, rows_of(2), None)


def test_infinite_scores_never_rank_first():
    assert max([0.1, math.inf, math.nan, -math.inf], key=score_rank) == 0.1


# -- sensitivity (pitfall 21) --------------------------------------------------------------------


cells = st.floats(allow_nan=True, allow_infinity=True, width=64)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(cells, cells), min_size=1, max_size=12),
    st.tuples(cells, cells),
    st.sampled_from(
        [AbsoluteErrorScorer(-1.0, 2.0), SquaredErrorScorer(0.0, 1e-3), AccuracyScorer()]
    ),
)
def test_one_row_moves_the_count_by_at_most_one_row(rows, other, scorer):
    def count(table):
        said, y = np.array(table, dtype=float).reshape(-1, 2).T
        return scorer.count(Says(said), rows_of(len(table)), y)

    total = count(rows)
    assert type(total) is int
    assert abs(total - count([other, *rows[1:]])) <= scorer.resolution  # replace-one
    if len(rows) > 1:  # zero-out and add-remove: the row's contribution disappears
        assert 0 <= total - count(rows[1:]) <= scorer.resolution


def test_float_sums_would_exceed_the_sensitivity_and_counts_do_not():
    # Blanking the first row of these moves a float sum by more than the row's own score.
    values = [0.7] + [1 / 3] * 100_000
    floats = float(np.cumsum(values)[-1]) - float(np.cumsum(values[1:])[-1])
    assert floats > 0.7 + 1e-12
    scorer = Rows(values)
    without = Rows([0.0, *values[1:]])
    n = len(values)
    exact = scorer.count(None, rows_of(n), None) - without.count(None, rows_of(n), None)
    assert exact == round(0.7 * scorer.resolution)


def test_counts_are_sums_of_lattice_steps():
    rng = np.random.default_rng(1)
    values = rng.uniform(size=1000)
    steps = [round(Fraction(v) * 2**20) for v in values]
    assert Rows(values).count(None, rows_of(1000), None) == sum(steps)
    halves = Rows(values[:400]), Rows(values[400:])
    parts = [h.count(None, rows_of(len(h.values)), None) for h in halves]
    assert sum(parts) == sum(steps)


@pytest.mark.parametrize("resolution", [0, -1, 2**31, 1.5, True])
def test_resolutions_out_of_range_are_refused(resolution):
    class Odd(Rows):
        pass

    Odd.resolution = resolution
    with pytest.raises((InvalidParameterError, InvalidTypeError), match="Odd.resolution must be"):
        Odd([1.0]).count(None, rows_of(1), None)


# -- release -------------------------------------------------------------------------------------


def test_release_without_noise_is_the_exact_score_to_half_a_row(fitted):
    X, y, z, classifier, regressor = fitted
    n = len(X)
    accuracy = AccuracyScorer()
    assert accuracy.release(accuracy.count(classifier, X, y), n, NONE) == accuracy(classifier, X, y)
    for scorer, model, truth in (
        (AbsoluteErrorScorer(-1, 1), regressor, z),
        (SquaredErrorScorer(-1, 1), regressor, z),
        (ClippedLogLossScorer(), classifier, y),
        (WeightedAccuracyScorer({0: 1.0, 1: 3.0}), classifier, y),
    ):
        released = scorer.release(scorer.count(model, X, truth), n, NONE)
        half_row = (scorer.maximum - scorer.minimum) / (2 * n)
        assert abs(released - scorer(model, X, truth)) <= half_row * (1 + 1e-5)
        assert isinstance(released, float)


@pytest.mark.parametrize("resolution", [1, 2, 3, 7, 10])
def test_rounding_to_rows_keeps_the_sensitivity(resolution):
    class Odd(Rows):
        pass

    Odd.resolution = resolution
    released = [round(Odd([]).release(total, 1, NONE)) for total in range(6 * resolution)]
    for total in range(5 * resolution):
        moved = {released[total + d] - released[total] for d in range(resolution + 1)}
        assert moved <= {0, 1}
        assert moved & {1}  # a whole row is never lost
    assert all(released[k * resolution] == k for k in range(6))


def test_release_adds_the_noise_once_and_divides_by_the_public_number():
    noise = ScoreNoise.discrete_gaussian(4.0)
    seed = 2**127 + 5
    z = noise.sample(seed)
    assert AccuracyScorer().release(30, 40, noise, seed) == (30 + z) / 40
    bounded = AbsoluteErrorScorer(lower=0, upper=10)
    total = 30 * bounded.resolution
    expected = -10 + 10 * (30 + z) / 40
    assert bounded.release(total, 40, noise, seed) == pytest.approx(expected, rel=1e-12)


def test_released_scores_are_not_clipped():
    noise = ScoreNoise.discrete_gaussian(50.0)
    scores = [AccuracyScorer().release(5, 10, noise, seed) for seed in range(40)]
    assert min(scores) < 0 and max(scores) > 1
    assert len(set(scores)) > 25


def test_release_refuses_bad_input_without_quoting_the_total():
    scorer = AccuracyScorer()
    with pytest.raises(InvalidTypeError, match="total must be an integer.*a float") as caught:
        scorer.release(123.25, 10, NONE)
    assert "123" not in str(caught.value)
    with pytest.raises(InvalidParameterError, match="n_rows must be"):
        scorer.release(1, 0, NONE)
    with pytest.raises(InvalidTypeError, match="noise must be a ScoreNoise"):
        scorer.release(1, 10, 3.0)


# -- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AbsoluteErrorScorer, SquaredErrorScorer])
@pytest.mark.parametrize(
    ("lower", "upper", "what"),
    [
        (1, 1, "below upper"),
        (2, 1, "below upper"),
        (np.nan, 1, "lower"),
        (0, np.inf, "upper"),
        (None, 1, "lower"),
        ("0", 1, "lower"),
        (True, 3, "lower"),
        (np.zeros(2), 1, "lower"),
        (-1e200, 1e200, "at most 1e"),
    ],
)
def test_bounds_are_checked_as_parameters(kind, lower, upper, what):
    scorer = kind(lower, upper)  # constructors only assign
    for use in (
        scorer.check,
        lambda: scorer.count(Says(np.zeros(1)), rows_of(1), np.zeros(1)),
        lambda: resolve_private_scorer(scorer, DummyRegressor()),
    ):
        with pytest.raises((InvalidParameterError, InvalidTypeError), match=what):
            use()


@pytest.mark.parametrize("clip", [0, -1, np.nan, np.inf, "5", None])
def test_clip_is_checked(clip):
    with pytest.raises((InvalidParameterError, InvalidTypeError), match="clip must be"):
        ClippedLogLossScorer(clip).check()


@pytest.mark.parametrize(
    ("weights", "what"),
    [
        ("balanced", "write down public class shares"),
        ({}, "positive weight"),
        ({0: 0.0}, "positive"),
        ({0: -1.0}, "class_weight"),
        ({0: np.inf}, "class_weight"),
        (None, "class_weight"),
    ],
)
def test_class_weights_are_checked(weights, what):
    with pytest.raises((InvalidParameterError, InvalidTypeError), match=what):
        WeightedAccuracyScorer(weights).check()


def test_declared_classes_need_a_weight():
    scorer = WeightedAccuracyScorer({"a": 1.0})
    scorer.check(classes=["a"])
    with pytest.raises(InvalidParameterError, match="'b' has none"):
        resolve_private_scorer(scorer, DummyClassifier(), classes=["a", "b"])


# -- resolving (cases 13, rule 4) ----------------------------------------------------------------


class Bare:
    """An estimator without scikit-learn's base class."""

    def predict(self, X):
        return np.zeros(len(X))


def test_what_is_accepted_on_private_rows():
    for estimator in (
        LogisticRegression(),
        make_pipeline(Normalizer(), LogisticRegression()),
        Bare(),
    ):
        for scoring in (None, "accuracy"):
            assert type(resolve_private_scorer(scoring, estimator)) is AccuracyScorer
    bounded = AbsoluteErrorScorer(0, 1)
    assert resolve_private_scorer(bounded, LinearRegression()) is bounded


def test_regressors_need_public_bounds():
    for estimator in (LinearRegression(), make_pipeline(Normalizer(), LinearRegression())):
        with pytest.raises(ScoringRefusedError, match=r"AbsoluteErrorScorer\(lower=, upper=\)"):
            resolve_private_scorer(None, estimator)
        with pytest.raises(ScoringRefusedError, match="is a regressor: use AbsoluteErrorScorer"):
            resolve_private_scorer("accuracy", estimator)


REFUSED = {
    "roc_auc": "ranks rows.*ClippedLogLossScorer",
    "roc_auc_ovr": "ranks rows",
    "average_precision": "ranks rows",
    "f1": "divides by counts",
    "f1_macro": "divides by counts.*WeightedAccuracyScorer",
    "precision": "divides by counts",
    "balanced_accuracy": r"divides by counts.*WeightedAccuracyScorer\(class_weight=\)",
    "r2": "variance.*SquaredErrorScorer",
    "neg_mean_absolute_error": r"without public bounds.*AbsoluteErrorScorer\(lower=, upper=\)",
    "neg_mean_squared_error": r"without public bounds.*SquaredErrorScorer\(lower=, upper=\)",
    "neg_median_absolute_error": "not a sum over rows",
    "neg_log_loss": "ClippedLogLossScorer",
    "neg_brier_score": "PrivateScorer of your own",
    "adjusted_rand_score": "not a sum of bounded row scores",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_names_say_why_and_what_instead(name):
    for estimator in (LogisticRegression(), LinearRegression()):
        with pytest.raises(ScoringRefusedError, match=REFUSED[name]) as caught:
            resolve_private_scorer(name, estimator)
        message = str(caught.value)
        assert message.startswith(f"scoring={name!r} cannot be released from private rows")
        assert "X_public" in message


def test_every_scikit_learn_name_is_refused_or_accuracy():
    from sklearn.metrics import get_scorer_names

    for name in get_scorer_names():
        if name != "accuracy":
            with pytest.raises(ScoringRefusedError, match="cannot be released from private rows"):
                resolve_private_scorer(name, LogisticRegression())


def test_callables_and_several_scores_are_refused():
    def my_score(estimator, X, y):
        return 1.0

    for scoring in (my_score, accuracy_score, get_scorer("roc_auc"), make_scorer(accuracy_score)):
        with pytest.raises(ScoringRefusedError, match="subclass of PrivateScorer"):
            resolve_private_scorer(scoring, LogisticRegression())
    for scoring in (["accuracy", "roc_auc"], ("accuracy",), {"a": "accuracy"}):
        for resolve in (resolve_private_scorer, resolve_public_scorer):
            with pytest.raises(ScoringRefusedError, match="one score"):
                resolve(scoring, LogisticRegression())
    for resolve in (resolve_private_scorer, resolve_public_scorer):
        with pytest.raises(ScoringRefusedError, match=r"Write AccuracyScorer\(\.\.\.\)"):
            resolve(AccuracyScorer, LogisticRegression())
    for scoring in ("acuracy", 3, True):
        with pytest.raises(ScoringRefusedError, match="scoring must be None, 'accuracy' or a"):
            resolve_private_scorer(scoring, LogisticRegression())


def test_estimators_that_a_score_has_no_meaning_for():
    with pytest.raises(ScoringRefusedError, match='use scoring="accuracy"'):
        resolve_private_scorer(AbsoluteErrorScorer(0, 1), LogisticRegression())
    with pytest.raises(ScoringRefusedError, match="needs predict_proba"):
        resolve_private_scorer(ClippedLogLossScorer(), Bare())
    for estimator in (KMeans(), Normalizer()):
        with pytest.raises(ScoringRefusedError, match="is not a classifier"):
            resolve_private_scorer(None, estimator)


def test_public_rows_take_any_score(fitted):
    X, y, z, classifier, regressor = fitted
    for scoring in (None, "roc_auc", "f1", make_scorer(balanced_accuracy_score), AccuracyScorer()):
        scorer = resolve_public_scorer(scoring, classifier)
        assert 0 < scorer(classifier, X, y) <= 1
    assert resolve_public_scorer(None, regressor)(regressor, X, z) == regressor.score(X, z)
    bounded = AbsoluteErrorScorer(-1, 1)
    assert resolve_public_scorer(bounded, regressor) is bounded
    with pytest.raises(InvalidParameterError, match="below upper"):
        resolve_public_scorer(AbsoluteErrorScorer(1, 0), regressor)
    with pytest.raises(ValueError, match="no_such_score"):
        resolve_public_scorer("no_such_score", classifier)


def test_mixins_without_tags_still_have_a_kind():
    class Old(RegressorMixin):
        def predict(self, X):
            return X

    class OldClassifier(ClassifierMixin, BaseEstimator):
        def predict(self, X):
            return X

    assert type(resolve_private_scorer(None, OldClassifier())) is AccuracyScorer
    with pytest.raises(ScoringRefusedError, match="regressor Old"):
        resolve_private_scorer(None, Old())


def test_sample_weight_is_refused():
    refuse_sample_weight(None)
    with pytest.raises(
        InvalidParameterError, match="sample_weight must be None on private rows"
    ) as e:
        refuse_sample_weight([123.0, 1.0])
    assert "123" not in str(e.value)


# -- noise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "scale", "error"),
    [
        ("laplace", 1.0, InvalidParameterError),
        ("geometric", 0.0, InvalidParameterError),
        ("geometric", -1.0, InvalidParameterError),
        ("geometric", math.nan, InvalidParameterError),
        ("geometric", math.inf, InvalidParameterError),
        ("geometric", 1e-3, InvalidParameterError),
        ("none", 1.0, InvalidParameterError),
        ("discrete_gaussian", "3", InvalidTypeError),
        ("discrete_gaussian", True, InvalidTypeError),
    ],
)
def test_bad_noises(kind, scale, error):
    with pytest.raises(error):
        ScoreNoise(kind, scale)


def test_noise_is_a_value():
    noise = ScoreNoise.discrete_gaussian(3)
    assert noise == ScoreNoise("discrete_gaussian", 3.0) == eval(repr(noise))
    assert hash(noise) == hash(pickle.loads(pickle.dumps(noise)))
    assert noise != ScoreNoise.geometric(3)
    with pytest.raises(AttributeError):
        noise.scale = 1.0


@pytest.mark.parametrize(
    "noise",
    [
        ScoreNoise.geometric(0.4),
        ScoreNoise.geometric(6.0),
        ScoreNoise.discrete_gaussian(0.3),
        ScoreNoise.discrete_gaussian(9.0),
    ],
)
def test_standard_deviation_is_that_of_the_samples(noise):
    draws = [noise.sample(seed) for seed in range(4000)]
    assert all(type(z) is int for z in draws)
    error = (
        5 * 3 * noise.standard_deviation / math.sqrt(4000)
    )  # kurtosis below 6 but for tiny scales
    assert np.std(draws) == pytest.approx(noise.standard_deviation, abs=max(error, 0.03))
    assert noise.sample() is not None


def test_score_noise_argument():
    assert as_score_noise(2, None) == ScoreNoise.discrete_gaussian(2.0)
    assert as_score_noise(np.float64(2.5), None) == ScoreNoise.discrete_gaussian(2.5)
    kept = ScoreNoise.geometric(3.0)
    assert as_score_noise(kept, None) is kept


@pytest.mark.parametrize(
    "bad",
    [
        0,
        0.0,
        -1,
        math.nan,
        math.inf,
        True,
        False,
        None,
        "none",
        "3",
        [1.0],
        np.ones(2),
        ScoreNoise.none(),
        1e-9,
    ],
)
def test_bad_score_noise_is_refused_in_one_sentence(bad):
    with pytest.raises(
        (InvalidParameterError, InvalidTypeError), match="score_noise must be"
    ) as caught:
        as_score_noise(bad, None)
    assert "Set score_noise to the standard deviation" in str(caught.value)


def test_zero_noise_says_why():
    with pytest.raises(InvalidParameterError, match="0 would publish exact scores"):
        as_score_noise(0, None)
    with pytest.raises(PricingError, match="no finite price"):
        ScoreNoise.none().curve()


def exact_profile(noise, epsilon):
    """Hockey-stick divergence of the sampled law and its shift by one row, by plain summation."""
    scale = mpmath.mpf(noise.scale)
    reach = int(60 * noise.scale) + 60

    def weight(z):
        return mpmath.exp(
            -abs(z) / scale if noise.kind == "geometric" else -(z**2) / (2 * scale**2)
        )

    mass = {z: weight(mpmath.mpf(z)) for z in range(-reach, reach + 2)}
    total = mpmath.fsum(mass.values())
    shares = (mass[z - 1] - mpmath.exp(epsilon) * mass[z] for z in range(-reach + 1, reach + 1))
    return float(mpmath.fsum(share for share in shares if share > 0) / total)


@pytest.mark.parametrize(
    "noise",
    [
        ScoreNoise.geometric(0.7),
        ScoreNoise.geometric(3.0),
        ScoreNoise.discrete_gaussian(0.4),
        ScoreNoise.discrete_gaussian(2.3),
    ],
)
def test_what_is_drawn_is_what_is_priced(noise):
    for relation in ("zero-out", "replace-one", "add-remove"):
        curve = noise.curve(relation)
        assert curve.relation == relation
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
            exact = exact_profile(noise, epsilon)
            assert curve.delta(epsilon) >= exact * (1 - 1e-12)
            assert curve.delta(epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0, 7.0, 49.0, 1e5 / 3])
def test_geometric_price_is_rounded_up_and_tight(scale):
    epsilon = ScoreNoise.geometric(scale).curve().epsilon(0.0)
    assert Fraction(epsilon) * Fraction(scale) >= 1
    assert epsilon == pytest.approx(1 / scale, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3, 1.0, 3.0, 7.7])
def test_matched_noise_of_pure_training_costs_the_same_and_no_more(epsilon):
    noise = matched_noise(PrivacyCurve.pure(epsilon))
    assert noise.kind == "geometric"
    assert noise.curve().epsilon(0.0) == pytest.approx(epsilon, rel=1e-6)
    assert noise.curve().epsilon(0.0) <= epsilon


LEVELS = {
    "laplace": PrivacyCurve.laplace(1.0),
    "pure steps": 5 * PrivacyCurve.pure(0.2),
    "gaussian": PrivacyCurve.gaussian(3.0),
    "weak gaussian": PrivacyCurve.gaussian(0.5),
    "dp-sgd": PrivacyCurve.dp_sgd(1.1, 0.02, 1000),
    "approximate": PrivacyCurve.approximate(1.0, 1e-6),
    "mixed": PrivacyCurve.pure(1.0) + PrivacyCurve.gaussian(3.0),
}


@pytest.mark.parametrize("name", LEVELS)
def test_matched_noise_lies_under_the_training_and_is_the_least(name):
    level = LEVELS[name]
    noise = matched_noise(level)
    pure = math.isfinite(level.epsilon(0.0))
    assert not pure or noise.kind == "geometric"
    pair, swap = level.pair, level.pair.swap()

    def excess(noise):
        points = np.linspace(0, 12, 400)
        under = np.minimum(pair.delta(points), swap.delta(points))
        return np.max(noise.curve().pair.delta(points) - under)

    assert excess(noise) <= 1.1e-12
    assert excess(ScoreNoise(noise.kind, noise.scale * 0.98)) > 1e-12
    for delta in (1e-9, 1e-5, 1e-2):
        assert noise.curve().epsilon(delta) <= level.epsilon(delta) * (1 + 1e-9)


def test_matched_noise_is_nearly_the_gaussian_itself():
    assert matched_noise(PrivacyCurve.gaussian(10.0)).scale == pytest.approx(10.0, rel=2e-3)
    assert matched_noise(PrivacyCurve.gaussian(10.0)).kind == "discrete_gaussian"


def test_matched_noise_from_an_rdp_curve():
    level = PrivacyCurve.from_rdp_function(lambda orders: orders / (2 * 4.0**2))
    assert matched_noise(level) == ScoreNoise.discrete_gaussian(4.0)
    assert matched_noise(PrivacyCurve.zcdp(0.5)) == ScoreNoise.discrete_gaussian(1.0)
    steep = PrivacyCurve.from_rdp([2.0, 4.0, 8.0], [0.1, 0.2, 0.5])
    noise = matched_noise(steep)
    orders = np.array([1.5, 2.0, 3.0, 4.0, 8.0, 20.0])
    assert np.all(noise.curve().rdp(orders) <= steep.rdp(orders))
    assert noise.scale == pytest.approx(math.sqrt(2 / 0.2), rel=1e-6)


def test_matched_scales_are_short_rationals():
    for level in (PrivacyCurve.pure(0.3), LEVELS["gaussian"], PrivacyCurve.zcdp(0.3)):
        assert Fraction(matched_noise(level).scale).numerator < 2**24


@pytest.mark.parametrize(
    ("level", "match"),
    [
        (PrivacyCurve.pure(0.0), "training is free.*Set score_noise"),
        (PrivacyCurve.from_rdp_function(lambda orders: 0 * orders), "training is free"),
        (PrivacyCurve.gaussian(5e5), "training is free, or nearly"),
        (PrivacyCurve.from_rdp([2.0], [np.inf]), "finite cost"),
        (PrivacyCurve.approximate(1.0, 1.0), "finite cost"),
    ],
)
def test_nothing_to_match(level, match):
    with pytest.raises(PricingError, match=match):
        as_score_noise("matched", level)


@pytest.mark.parametrize("name", ["gaussian", "approximate", "mixed"])
def test_matched_noise_adds_nothing_to_a_search(name):
    level = LEVELS[name]
    search = best_of(level, Logarithmic(mean=10))
    score = best_of(matched_noise(level).curve(), Logarithmic(mean=10))
    for delta in (1e-7, 1e-5):
        # both are certified upper bounds with a relative gap of their own
        assert score.epsilon(delta) <= search.epsilon(delta) * (1 + 2e-3)


def test_scoring_imports_nothing_heavy():
    code = (
        "import sys, skdptune.scoring; "
        "print([m for m in ('torch', 'opendp', 'diffprivlib', 'matplotlib') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
