"""Frames, pipelines with frames inside, weights, meta-estimators, files: what works, and what is refused unspent."""

import io
import pickle
import zipfile

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import uniform
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder
from sklearn.utils.fixes import parse_version

from skdptune import PrivacyCurve, PrivateRandomSearchCV
from skdptune._cli._centroids import NoisyCentroids
from skdptune.candidates import row_wise
from skdptune.exceptions import CandidateRefusedError, InvalidParameterError, InvalidTypeError, SkdptuneError
from skdptune.run_counts import Fixed

N = 120
CELL = "a private cell"
RNG = np.random.default_rng(0)
ROWS = RNG.uniform(-1.0, 1.0, size=(N, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)
NAMES = ["age", "height", "dose"]


class Ledger:
    """Counts charges: a refusal that comes after one was too late."""

    def __init__(self):
        self.charged = 0

    def charge(self, spent, delta=None):
        self.charged += 1


def candidate():
    return NoisyCentroids(noise_multiplier=0.5)


def search_of(estimator=None, **settings):
    estimator = candidate() if estimator is None else estimator
    name = next(name for name in estimator.get_params() if name.endswith("radius"))
    settings = {"n_iter": Fixed(2), "classes": [0, 1], **settings}
    return PrivateRandomSearchCV(estimator, {name: [1.0, 2.0]}, **settings)


def frame(kind, columns=None):
    columns = dict(zip(NAMES, ROWS.T, strict=True)) if columns is None else columns
    if kind == "pandas":
        return pd.DataFrame(columns)
    return pytest.importorskip("polars").DataFrame({name: list(values) for name, values in columns.items()})


def sees_polars_names():
    """scikit-learn before 1.8 asks frames by a protocol that polars has given up."""
    polars = pytest.importorskip("polars")
    new = parse_version(sklearn.__version__) >= parse_version("1.8")
    return new or hasattr(polars.DataFrame, "__dataframe__")


kinds = pytest.mark.parametrize("kind", ["pandas", "polars"])
# scikit-learn 1.7 with a late polars 1.x
quiet = pytest.mark.filterwarnings("ignore:.*interchange protocol:DeprecationWarning")


# -- frames ------------------------------------------------------------------------------------


@quiet
@kinds
def test_frames(kind):
    X = frame(kind)
    search = search_of().fit(X, LABELS)
    if kind == "pandas" or sees_polars_names():
        assert search.feature_names_in_.tolist() == NAMES
        assert search.best_estimator_.feature_names_in_.tolist() == NAMES
        with pytest.raises(ValueError, match="feature names should match"):
            search.predict(X[NAMES[::-1]])
    assert np.mean(search.predict(X) == LABELS) > 0.8
    assert search.score(X, LABELS) > 0.8


@quiet
@kinds
def test_public_rows_as_frames(kind):
    search = search_of().fit(frame(kind), LABELS, X_public=frame(kind)[:20] * 0.9, y_public=LABELS[:20])
    assert 0.0 <= search.best_score_ <= 1.0
    with pytest.raises(InvalidParameterError, match="some of their rows are in"):
        search_of().fit(frame(kind), LABELS, X_public=frame(kind)[:20], y_public=LABELS[:20])


def _labels(kind, labels):
    words = np.where(LABELS, "yes", "no")
    if kind == "pandas":
        return {
            "series": pd.Series(LABELS),
            "shuffled": pd.Series(LABELS, index=RNG.permutation(N)),
            "nullable": pd.Series(LABELS).astype("Int64"),
            "boolean": pd.Series(LABELS.astype(bool)).astype("boolean"),
            "text": pd.Series(words),
            "category": pd.Series(words).astype("category"),
        }[labels]
    polars = pytest.importorskip("polars")
    return {
        "series": polars.Series(LABELS),
        "shuffled": polars.Series(LABELS),
        "nullable": polars.Series(LABELS.tolist()),
        "boolean": polars.Series(LABELS.astype(bool)),
        "text": polars.Series(words.tolist()),
        "category": polars.Series(words.tolist(), dtype=polars.Categorical),
    }[labels]


@quiet
@kinds
@pytest.mark.parametrize("labels", ["series", "shuffled", "nullable", "boolean", "text", "category"])
def test_labels_of_every_kind(kind, labels):
    y = _labels(kind, labels)
    search = search_of(classes=None).fit(frame(kind), y)
    assert search.classes_.tolist() in ([0, 1], [False, True], ["no", "yes"])
    assert np.mean(search.predict(frame(kind)) == np.asarray(y)) > 0.8


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.convert_dtypes(),
        lambda X: X.assign(dose=(X["dose"] > 0).astype("boolean")),
        lambda X: X.assign(dose=pd.Series([1, 2] * (N // 2)).astype("category")),
        lambda X: X.astype(object),
        lambda X: X.set_index(RNG.permutation(N) + 7),
    ],
    ids=["nullable", "boolean", "numeric category", "object", "index"],
)
def test_pandas_types_that_are_numbers(change):
    X = change(frame("pandas"))
    search = search_of().fit(X, LABELS)
    assert search.feature_names_in_.tolist() == NAMES
    assert len(search.predict(X)) == N


def _strange(kind):
    """Columns of other types, by name: (values or a series, the word of the refusal)."""
    days = np.array(["2020-01-01"] * N, dtype="datetime64[ns]")
    if kind == "pandas":
        return {
            "words": (pd.Series([CELL] * N), "text or categories"),
            "kinds": (pd.Series([CELL, "other"] * (N // 2)).astype("category"), "text or categories"),
            "day": (pd.Series(days), "times"),
            "wait": (pd.Series(days - days[0]), "times"),
        }
    polars = pytest.importorskip("polars")
    return {
        "words": (polars.Series([CELL] * N), "text or categories"),
        "kinds": (polars.Series([CELL] * N, dtype=polars.Categorical), "text or categories"),
        "day": (polars.Series([None] * N, dtype=polars.Date), "times"),
        "wait": (polars.Series([None] * N, dtype=polars.Duration), "times"),
    }


@kinds
@pytest.mark.parametrize("column", ["words", "kinds", "day", "wait"])
def test_other_columns_are_refused_by_name_before_anything_is_spent(kind, column):
    values, word = _strange(kind)[column]
    X = frame(kind)
    X = X.assign(**{column: values}) if kind == "pandas" else X.with_columns(values.alias(column))
    ledger = Ledger()
    with pytest.raises(InvalidParameterError, match=f"columns that hold {word}: '{column}'") as refusal:
        search_of(ledger=ledger).fit(X, LABELS)
    assert ledger.charged == 0
    assert CELL not in str(refusal.value)


def test_objects_that_are_text_are_refused_without_a_quote():
    ledger = Ledger()
    X = frame("pandas").assign(words=pd.Series([CELL] * N, dtype=object))
    with pytest.raises(InvalidParameterError, match="must be numeric") as refusal:
        search_of(ledger=ledger).fit(X, LABELS)
    assert ledger.charged == 0
    assert CELL not in str(refusal.value)


@quiet
@kinds
def test_missing_values_are_refused_before_anything_is_spent(kind):
    holes = [None if i % 9 == 0 else float(v) for i, v in enumerate(ROWS[:, 0])]
    X = frame(kind, {"age": holes, "dose": ROWS[:, 1]})
    ledger = Ledger()
    with pytest.raises(ValueError, match="X contains NaN"):
        search_of(ledger=ledger).fit(X, LABELS)
    assert ledger.charged == 0


def test_names_that_repeat_are_refused():
    X = frame("pandas")
    X.columns = ["age", "dose", "dose"]
    with pytest.raises(InvalidParameterError, match="distinct column names; more than once: 'dose'"):
        search_of().fit(X, LABELS)


def test_many_names_are_not_all_said():
    X = pd.DataFrame({f"c{i}": [CELL] * N for i in range(40)})
    with pytest.raises(InvalidParameterError, match="'c0', 'c1', 'c2', 'c3', 'c4' and 35 more"):
        search_of().fit(X, LABELS)


def test_a_query_that_has_not_run_is_refused():
    with pytest.raises(InvalidTypeError, match=r"Call \.collect\(\) first"):
        search_of().fit(frame("polars").lazy(), LABELS)


# -- frames inside pipelines -------------------------------------------------------------------


class NeedsFrame(NoisyCentroids):
    """Takes nothing but a frame of the kind that its pipeline was told to make."""

    def __init__(self, radius=4.0, noise_multiplier=0.5, kind="pandas", classes=None, random_state=None):
        super().__init__(radius=radius, noise_multiplier=noise_multiplier, classes=classes, random_state=random_state)
        self.kind = kind

    def _checked(self, X):
        if type(X).__module__.partition(".")[0] != self.kind:
            raise TypeError(f"a {self.kind} frame is needed; a {type(X).__name__} came")
        return X if self.kind == "pandas" else X.to_numpy()

    def fit(self, X, y):
        return super().fit(self._checked(X), y)

    def predict(self, X):
        return super().predict(self._checked(X))


def encoder():
    one_hot = OneHotEncoder(categories=[["left", "right"]], handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([("side", one_hot, ["side"])], remainder="passthrough")


def mixed(kind):
    sides = np.where(RNG.random(N) < 0.5, "left", "right").tolist()
    return frame(kind, {"age": ROWS[:, 0].tolist(), "side": sides})


pipelines = pytest.mark.filterwarnings(
    "ignore:.*interchange protocol:DeprecationWarning", "ignore:.*how='horizontal':DeprecationWarning"
)


@pipelines
@kinds
@pytest.mark.parametrize("inside", [None, "pandas", "polars"])
def test_pipelines_of_frames(kind, inside):
    pytest.importorskip("polars")
    if "polars" in (kind, inside) and not sees_polars_names():
        pytest.skip("scikit-learn before 1.8 does not know this polars")
    last = candidate() if inside is None else NeedsFrame(kind=inside)
    pipeline = make_pipeline(encoder(), last)
    if inside is not None:
        pipeline.set_output(transform=inside)
    X = mixed(kind)
    search = search_of(pipeline).fit(X, LABELS)
    assert search.feature_names_in_.tolist() == ["age", "side"]
    assert np.mean(search.predict(X) == LABELS) > 0.7


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_output_set_for_all_of_scikit_learn_reaches_the_tries(n_jobs):
    with sklearn.config_context(transform_output="pandas"):
        search = search_of(make_pipeline(encoder(), NeedsFrame()), n_jobs=n_jobs).fit(mixed("pandas"), LABELS)
        assert len(search.predict(mixed("pandas"))) == N


@kinds
def test_text_that_a_step_cannot_treat_is_refused_before_anything_is_spent(kind):
    ledger = Ledger()
    with pytest.raises(CandidateRefusedError, match="step 'normalizer' cannot be applied"):
        search_of(make_pipeline(Normalizer(), candidate()), ledger=ledger).fit(mixed(kind), LABELS)
    with pytest.raises(InvalidParameterError, match=r"what reaches step 'noisycentroids'.*'side'"):
        search_of(make_pipeline(candidate()), ledger=ledger).fit(mixed(kind), LABELS)
    assert ledger.charged == 0


def test_a_missing_column_is_refused_before_anything_is_spent():
    ledger = Ledger()
    with pytest.raises(CandidateRefusedError, match="step 'columntransformer' cannot be applied"):
        search_of(make_pipeline(encoder(), candidate()), ledger=ledger).fit(frame("pandas"), LABELS)
    assert ledger.charged == 0


def test_declared_functions_are_not_judged_by_a_made_up_row():
    def measured(X):
        if (np.asarray(X) == 0).all():
            raise ZeroDivisionError("no such row occurs")
        return X

    search = search_of(make_pipeline(FunctionTransformer(row_wise(measured)), candidate()))
    assert len(search.fit(frame("pandas"), LABELS).predict(frame("pandas"))) == N


# -- weights and metadata routing --------------------------------------------------------------


class Weighted(NoisyCentroids):
    """Could take weights; a search must never hand it any."""

    def fit(self, X, y, sample_weight=None):
        assert sample_weight is None
        return super().fit(X, y)


@pytest.mark.parametrize("routing", [False, True])
def test_weights_of_private_rows_are_refused(routing):
    weights, ledger = np.ones(N), Ledger()
    with sklearn.config_context(enable_metadata_routing=routing):
        with pytest.raises(SkdptuneError, match="sample_weight must be None on private rows"):
            search_of(ledger=ledger).fit(ROWS, LABELS, sample_weight=weights)
        with pytest.raises((ValueError, TypeError), match="sample_weight"):
            cross_validate(search_of(ledger=ledger), ROWS, LABELS, cv=2, params={"sample_weight": weights})
        with pytest.raises(TypeError, match="sample_weight"):
            search_of().fit(ROWS, LABELS).score(ROWS, LABELS, sample_weight=weights)
    assert ledger.charged == 0


def test_a_request_for_weights_cannot_be_made_and_inner_requests_get_none():
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(TypeError, match="Unexpected args"):
            search_of().set_fit_request(sample_weight=True)
        inner = Weighted(noise_multiplier=0.5).set_fit_request(sample_weight=True)
        ledger = Ledger()
        with pytest.raises(SkdptuneError, match="sample_weight must be None"):
            search_of(inner, ledger=ledger).fit(ROWS, LABELS, sample_weight=np.ones(N))
        assert ledger.charged == 0
        assert search_of(inner).fit(ROWS, LABELS).best_params_  # without weights there is nothing to refuse


def test_public_rows_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        search = search_of().set_fit_request(X_public=True, y_public=True)
        public = {"X_public": ROWS[:21] * 0.9, "y_public": LABELS[:21]}
        found = cross_validate(search, ROWS, LABELS, cv=2, params=public, return_estimator=True)
    for fitted in found["estimator"]:
        assert fitted.privacy_spent_.score_noise is None  # that is, scored on public rows


# -- inside scikit-learn's tools ---------------------------------------------------------------


def test_every_fit_around_a_search_is_charged():
    ledger = Ledger()
    cross_val_score(search_of(ledger=ledger), ROWS, LABELS, cv=3)
    assert ledger.charged == 3
    GridSearchCV(search_of(ledger=ledger), {"n_iter": [Fixed(1), Fixed(2)]}, cv=2).fit(ROWS, LABELS)
    assert ledger.charged == 3 + 2 * 2 + 1
    VotingClassifier([("a", search_of(ledger=ledger)), ("b", search_of(ledger=ledger))]).fit(ROWS, LABELS)
    assert ledger.charged == 10


def test_inspection():
    search = search_of().fit(frame("pandas"), LABELS)
    found = permutation_importance(search, frame("pandas"), LABELS, n_repeats=2, random_state=0)
    assert found["importances_mean"].argmax() == 0


def test_what_needs_probabilities_says_so():
    with pytest.raises(ValueError, match="predict_proba"):
        CalibratedClassifierCV(search_of(), cv=2).fit(ROWS, LABELS)


def test_output_is_set_on_the_pipeline_not_on_the_search():
    assert not hasattr(search_of(), "set_output")


# -- files ---------------------------------------------------------------------------------------


def _by_pickle(search):
    return pickle.loads(pickle.dumps(search))


def _by_joblib(search):
    buffer = io.BytesIO()
    joblib.dump(search, buffer, compress=3)
    buffer.seek(0)
    return joblib.load(buffer)


def _by_skops(search):
    sio = pytest.importorskip("skops.io")
    held = sio.dumps(search)
    return sio.loads(held, trusted=sio.get_untrusted_types(data=held))


@pytest.mark.parametrize("copied", [_by_pickle, _by_joblib, _by_skops])
def test_a_fitted_search_survives_a_file(copied):
    search = search_of().fit(frame("pandas"), LABELS)
    twin = copied(search)
    assert twin.best_params_ == search.best_params_
    assert twin.best_score_ == search.best_score_
    assert twin.privacy_spent_.epsilon(1e-3) == search.privacy_spent_.epsilon(1e-3)
    assert np.array_equal(twin.predict(frame("pandas")), search.predict(frame("pandas")))
    assert str(twin.privacy_spent_) == str(search.privacy_spent_)


def test_what_skops_must_be_told_to_trust_is_ours():
    sio = pytest.importorskip("skops.io")
    held = sio.dumps(search_of().fit(ROWS, LABELS))
    assert all(name.startswith("skdptune.") for name in sio.get_untrusted_types(data=held))


DRAWN = []


class Recording(NoisyCentroids):
    """Writes down every radius drawn, for the test alone."""

    def fit(self, X, y):
        DRAWN.append(self.radius)
        return super().fit(X, y)


def test_a_skops_file_holds_no_loser():
    sio = pytest.importorskip("skops.io")
    DRAWN.clear()
    search = PrivateRandomSearchCV(Recording(), {"radius": uniform(1.0, 2.0)}, n_iter=Fixed(9), classes=[0, 1])
    search.fit(ROWS, LABELS)
    with zipfile.ZipFile(io.BytesIO(sio.dumps(search))) as archive:
        held = b"".join(archive.read(name) for name in archive.namelist())
    assert len(set(DRAWN)) == 9
    found = [v for v in DRAWN if repr(float(v)).encode() in held or np.float64(v).tobytes() in held]
    assert found == [search.best_params_["radius"]]


def test_clones_of_searches_keep_their_pipelines_output():
    pipeline = make_pipeline(encoder(), NeedsFrame()).set_output(transform="pandas")
    search = clone(search_of(pipeline))
    assert search.fit(mixed("pandas"), LABELS).privacy_spent_.single_run == PrivacyCurve.gaussian(0.5)
