"""The allow-list of free steps: what they keep and do may not depend on other rows."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import preprocessing as pre
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.random_projection import GaussianRandomProjection

from skdptune._exceptions import CandidateRefusedError, InvalidTypeError
from skdptune.candidates import _stateless, row_wise
from skdptune.candidates._rehearsal import made_up_batches
from skdptune.candidates._stateless import (
    RowWise,
    StatelessAdapter,
    placeholder_like,
    private_alternative,
    refusal,
)

RNG = np.random.RandomState(0)
A = RNG.randint(0, 3, size=(30, 3)).astype(float)
B = 100.0 + 5 * RNG.randint(0, 3, size=(17, 3)).astype(float)
CATEGORIES = [[0.0, 1.0, 2.0]] * 3


def half(X):
    return X / 2


def double(X):
    return X * 2


ONE_HOT = pre.OneHotEncoder(categories=CATEGORIES, handle_unknown="ignore")
TABULAR = [
    pre.Normalizer(),
    pre.Normalizer(norm="l1"),
    pre.Binarizer(threshold=1.5),
    pre.PolynomialFeatures(3, interaction_only=True),
    pre.FunctionTransformer(),
    pre.FunctionTransformer(np.log1p),
    pre.FunctionTransformer(row_wise(half), inverse_func=double, validate=True),
    ONE_HOT,
    pre.OrdinalEncoder(categories=CATEGORIES, handle_unknown="use_encoded_value", unknown_value=-1),
    SimpleImputer(strategy="constant", fill_value=7.0, keep_empty_features=True),
    ColumnTransformer(
        [("n", pre.Normalizer(), [0, 2]), ("o", clone(ONE_HOT).set_params(categories=CATEGORIES[:1]), [1])]
    ),
    ColumnTransformer(
        [("b", pre.Binarizer(), slice(0, 1)), ("d", "drop", [1])], remainder=pre.FunctionTransformer(np.square)
    ),
    FeatureUnion([("p", pre.PolynomialFeatures(2)), ("i", "passthrough")]),
    make_pipeline(pre.Normalizer(), pre.PolynomialFeatures(2)),
]
RANDOM = [RBFSampler(gamma=0.5, n_components=4), GaussianRandomProjection(n_components=2)]


def _ids(step):
    return type(step).__name__


def _state(value):
    """A comparable picture of a fitted step, nested steps included."""
    if hasattr(value, "get_params"):
        return type(value), _state(dict(sorted(vars(value).items())))
    if isinstance(value, dict):
        return {str(key): _state(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_state(item) for item in value]
    if isinstance(value, np.ndarray):
        return _state(value.tolist()), str(value.dtype)
    if isinstance(value, float) and np.isnan(value):
        return "nan"
    return repr(value) if not callable(value) else "callable"


def _dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


@pytest.mark.parametrize("step", TABULAR, ids=_ids)
def test_what_scikit_learn_itself_keeps_does_not_depend_on_the_rows(step):
    a, b = clone(step).fit(A), clone(step).fit(B)
    states = [_state(s) for s in (a, b)]
    if isinstance(step, ColumnTransformer):  # sparse_output_ follows density: the adapter fixes it
        for state in states:
            state[1].pop("sparse_output_")
    assert states[0] == states[1]


@pytest.mark.parametrize("step", TABULAR + RANDOM, ids=_ids)
def test_what_the_adapter_publishes_does_not_depend_on_the_rows(step):
    adapter = StatelessAdapter(step)
    adapter.check("zero-out")
    published = [adapter.publish(adapter.fit(X, None, classes=None, seed=5)) for X in (A, B)]
    assert _state(published[0]) == _state(published[1])
    assert published[0] is not step


@pytest.mark.parametrize("step", TABULAR, ids=_ids)
def test_the_adapter_transforms_as_the_step_itself_would(step):
    expected = _dense(clone(step).fit(A).transform(A))
    adapter = StatelessAdapter(step)
    fitted = adapter.fit(A, None, classes=None, seed=None)
    assert np.array_equal(_dense(fitted.transform(A)), expected)
    assert np.array_equal(_dense(adapter.publish(fitted).transform(A)), expected)
    assert adapter.n_features_out(3) == expected.shape[1]


@pytest.mark.parametrize("step", TABULAR + RANDOM, ids=_ids)
def test_transform_treats_rows_one_by_one_and_keeps_nothing(step):
    fitted = StatelessAdapter(step).fit(A, None, classes=None, seed=3)
    before = _state(fitted)
    together = _dense(fitted.transform(A))
    alone = np.concatenate([_dense(fitted.transform(A[i : i + 1])) for i in range(len(A))])
    np.testing.assert_allclose(together, alone, rtol=1e-13)
    assert _state(fitted) == before


def test_fit_never_sees_a_row():
    seen = []

    def spy(X):
        seen.append(np.array(X))
        return X

    # check_inverse makes scikit-learn call both functions on a sample of the rows during fit
    step = pre.FunctionTransformer(row_wise(spy), inverse_func=spy)
    clone(step).fit(A + 1)
    assert max(X.max() for X in seen) > 0
    seen.clear()
    StatelessAdapter(step).fit(A + 1, None, classes=None, seed=None)
    assert seen and all(not X.any() for X in seen)


@pytest.mark.parametrize("step", RANDOM, ids=_ids)
def test_random_features_are_fresh_and_leave_no_seed(step):
    adapter = StatelessAdapter(step.set_params(random_state=0))
    outs = [adapter.fit(A, None, classes=None, seed=None).transform(A) for _ in range(2)]
    assert not np.allclose(*outs)
    published = adapter.publish(adapter.fit(A, None, classes=None, seed=None))
    assert published.random_state is None
    assert b"RandomState" not in pickle.dumps(published)


def test_documents_need_no_table():
    texts = ["the cat", "a dog, the dog"]
    for step in (HashingVectorizer(n_features=16), FeatureHasher(8, input_type="string")):
        adapter = StatelessAdapter(step)
        adapter.check("zero-out")
        X = texts if isinstance(step, HashingVectorizer) else [["a", "b"], ["a"]]
        out = adapter.fit(X, None, classes=None, seed=None).transform(X)
        assert out.shape == (2, adapter.n_features_out(1))
    union = StatelessAdapter(FeatureUnion([("h", HashingVectorizer(n_features=4))]))
    assert union.fit(texts, None, classes=None, seed=None).transform(texts).shape == (2, 4)


def test_frames_keep_names_and_types():
    frame = pd.DataFrame(
        {
            "age": pd.Series([3, 4], dtype="int32"),
            "town": ["x", "secret"],
            "kind": pd.Categorical(["u", "v"]),
            "when": pd.to_datetime(["2020-01-01", "2021-01-01"]),
            "maybe": pd.array([1, None], dtype="Int64"),
            "flag": [True, False],
        }
    )
    row = placeholder_like(frame)
    assert list(row.columns) == list(frame.columns) and len(row) == 1
    assert row.dtypes.tolist() == frame.dtypes.tolist()
    assert "secret" not in row.to_string()
    step = ColumnTransformer(
        [
            ("n", pre.Normalizer(), make_column_selector(dtype_include="int32")),
            ("c", pre.OneHotEncoder(categories=[["x", "y"]], handle_unknown="ignore"), ["town"]),
            ("t", HashingVectorizer(n_features=4), "town"),
        ]
    )
    adapter = StatelessAdapter(step)
    adapter.check("zero-out")
    published = adapter.publish(adapter.fit(frame, None, classes=None, seed=None))
    assert _dense(published.transform(frame)).shape == (2, 7)
    assert list(published.feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array])
def test_placeholders_of_other_containers(kind):
    row = placeholder_like(kind(A))
    assert type(row) is kind and row.shape == (1, 3) and row.nnz == 0
    assert placeholder_like(A.tolist()).shape == (1, 3)
    assert placeholder_like(A.astype(np.float32)).dtype == np.float32
    assert placeholder_like(np.array([["a"], ["bc"]])).tolist() == [[""]]
    with pytest.raises(InvalidTypeError, match="X must have two dimensions"):
        placeholder_like(A[:, 0])


REFUSED = [
    (pre.StandardScaler(), "use diffprivlib.models.StandardScaler"),
    (pre.StandardScaler(with_mean=False, with_std=False), "diffprivlib.models.StandardScaler"),
    (pre.MinMaxScaler(), "row_wise"),
    (PCA(2), "use diffprivlib.models.PCA"),
    (CountVectorizer(), "HashingVectorizer"),
    (pre.FunctionTransformer(lambda X: X - X.mean(0)), "row_wise"),
    (pre.FunctionTransformer(np.add), "row_wise"),
    (pre.FunctionTransformer(np.linalg.norm), "row_wise"),
    (pre.FunctionTransformer(np.log, kw_args={"where": A > 0}), "row_wise"),
    (SimpleImputer(), "strategy='constant'"),
    (SimpleImputer(strategy="constant"), "keep_empty_features"),
    (SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True), "add_indic"),
    (pre.OneHotEncoder(), "list them: categories="),
    (pre.OneHotEncoder(categories=CATEGORIES), "handle_unknown='ignore'"),
    (pre.OneHotEncoder(categories=CATEGORIES, handle_unknown="ignore", min_frequency=2), "count rows"),
    (pre.OrdinalEncoder(categories=CATEGORIES), "handle_unknown='use_encoded_value'"),
    (
        pre.OrdinalEncoder(categories=CATEGORIES, handle_unknown="use_encoded_value", unknown_value=np.nan),
        "set it to a number, e.g. -1",
    ),
    (HashingVectorizer(input="filename"), "'content'"),
    (HashingVectorizer(tokenizer=str.split), "tokenizer=skdptune.candidates.row_wise"),
    (RBFSampler(gamma="scale"), "give a number"),
    (GaussianRandomProjection(), "give an integer"),
    (AdditiveChi2Sampler(), "states no cost"),
    (ColumnTransformer([("s", pre.StandardScaler(), [0])]), "its part 's'"),
    (ColumnTransformer([("n", pre.Normalizer(), lambda X: [0])]), "list them"),
    (ColumnTransformer([("n", pre.Normalizer(), [0])], remainder=PCA(1)), "its part 'remainder'"),
    (FeatureUnion([("s", pre.StandardScaler())]), "its part 's'"),
    (make_pipeline(pre.Normalizer(), pre.StandardScaler()), "its part 'standardscaler'"),
    (make_pipeline(pre.Normalizer(), memory="somewhere"), "memory=None"),
    (type("Mine", (pre.Normalizer,), {})(), "subclass of Normalizer"),
]


@pytest.mark.parametrize(("step", "advice"), REFUSED, ids=_ids)
def test_refusals_name_the_repair(step, advice):
    assert advice in refusal(step)


def test_check_words_one_sentence():
    adapter = StatelessAdapter(pre.OneHotEncoder())
    with pytest.raises(CandidateRefusedError) as caught:
        adapter.check("zero-out")
    assert str(caught.value) == (
        "OneHotEncoder is refused: categories='auto' reads them from the rows; list them: categories=[[...], ...]."
    )


def test_only_parameters_that_matter_can_change_the_cost():
    assert StatelessAdapter(pre.Normalizer()).privacy_params() == frozenset()
    adapter = StatelessAdapter(pre.FunctionTransformer(np.log))
    assert adapter.may_change_cost("func") and not adapter.may_change_cost("validate")
    assert StatelessAdapter(make_pipeline(pre.Normalizer())).may_change_cost("normalizer__norm")


def test_row_wise_declares_functions_and_transformers():
    step = row_wise(pre.FunctionTransformer(half))
    assert isinstance(step.func, RowWise) and refusal(step) is None
    assert row_wise(step).func.func is half  # declared once
    assert refusal(clone(step)) is None
    assert refusal(pickle.loads(pickle.dumps(step))) is None
    assert repr(step.func) == "row_wise(half)"
    with pytest.raises(InvalidTypeError, match="func must be a callable"):
        row_wise(3)


def test_a_false_declaration_is_caught_on_made_up_rows():
    centred = pre.FunctionTransformer(row_wise(lambda X: X - X.mean(0)))
    with pytest.raises(CandidateRefusedError, match="gives a row another value when other rows"):
        StatelessAdapter(centred).check_data(10, 3, None)
    dropped = pre.FunctionTransformer(row_wise(lambda X: X[X[:, 0] > 0.5]))
    with pytest.raises(CandidateRefusedError, match="changed the number of rows"):
        StatelessAdapter(dropped).check_data(10, 3, None)
    with pytest.raises(CandidateRefusedError, match="changed the number of rows"):
        dropped.func(A)
    frames = pre.FunctionTransformer(row_wise(lambda X: X[["age"]]))
    StatelessAdapter(frames).check_data(10, 3, None)  # cannot be tried, stands as declared
    StatelessAdapter(pre.FunctionTransformer(row_wise(half))).check_data(10, 3, None)
    assert "as declared" in StatelessAdapter(frames).assumptions("zero-out")[1]


def test_trying_a_declaration_leaves_the_global_generator_alone():
    np.random.seed(3)
    expected = np.random.normal()
    np.random.seed(3)
    StatelessAdapter(pre.FunctionTransformer(row_wise(half))).check_data(10, 3, None)
    assert np.random.normal() == expected


def test_private_alternatives():
    assert "DPNeuralNetClassifier" in private_alternative(
        type("MLPClassifier", (), {"__module__": "sklearn.neural_network"})()
    )
    assert private_alternative(object()).startswith("use a differentially private estimator")


def test_every_row_of_the_docstring_table_is_in_the_code():
    for kind in _stateless._RULES:
        assert kind.__name__ in _stateless.__doc__


WHEN = pd.date_range("2020-01-01", periods=3, freq="h")
TIMES = {
    "times": WHEN,
    "seconds": WHEN.astype("datetime64[s]"),
    "of a zone": WHEN.tz_localize("Europe/Berlin"),
    "of a zone, seconds": WHEN.tz_localize("UTC").as_unit("s"),
    "durations": pd.to_timedelta(np.arange(3), unit="h"),
    "periods": pd.period_range("2020-01", periods=3, freq="M"),
    "weeks": pd.period_range("2020-01", periods=3, freq="W"),
}


@pytest.mark.parametrize("kind", TIMES)
def test_placeholders_and_made_up_rows_have_real_times(kind):
    frame = pd.DataFrame({"x": 1.5, "t": TIMES[kind], "word": "w"})
    for rows in (placeholder_like(frame), *made_up_batches(frame)):
        assert list(rows.dtypes) == list(frame.dtypes) and not rows.isna().any().any()
        first = rows["t"].iloc[0]
        assert first == pd.Timedelta(0) if kind == "durations" else (first.year == 1970 or kind == "weeks")


def test_placeholders_of_polars_have_real_times():
    polars = pytest.importorskip("polars")
    import datetime as dt

    frame = polars.DataFrame({"x": [1.5], "d": [dt.date(2020, 1, 1)], "t": [dt.datetime(2020, 1, 1)]})
    frame = frame.with_columns(zone=frame["t"].dt.replace_time_zone("UTC"), lasts=dt.timedelta(1), at=dt.time(3))
    row = placeholder_like(frame)
    assert row.schema == frame.schema and row.null_count().row(0) == (0,) * 6
    assert row["t"][0] == dt.datetime(1970, 1, 1) and row["d"][0] == dt.date(1970, 1, 1)
