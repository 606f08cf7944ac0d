"""Free steps on made-up rows: functions that mix rows are found wherever they stand, certain failures are told."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates import row_wise
from skdptune.candidates._pipeline import PipelineAdapter
from skdptune.candidates._rehearsal import made_up_batches
from skdptune.candidates._stateless import StatelessAdapter
from tests.candidates.toys import Toy

ARRAY = np.full((30, 3), 7.5)
FRAME = pd.DataFrame({"age": [41.5, 7.0], "town": ["Delft", "Ghent"], "paid": [True, False]})


def centre(X):
    return np.asarray(X, dtype=float) - np.asarray(X, dtype=float).mean(axis=0)


def half(X):
    return np.asarray(X, dtype=float) / 2


def typo(X):
    return X / scaling  # noqa: F821


def unfinished(X):
    X / 2


def no_such_method(X):
    return X.values_of(2)


def no_such_function(X):
    return np.no_such_function(X)


def no_such_library(X):
    import no_such_library_at_all  # noqa: PLC0415

    return no_such_library_at_all.half(X)


def no_such_column(X):
    return X[["agee"]]


def no_such_single_column(X):
    return X.loc[:, "agee"].to_numpy()[:, None]


def too_narrow(X):
    return np.asarray(X, dtype=float) / np.ones(7)


def needs_more(X, low):
    return X - low


def first_column(X):
    return np.asarray(X)[:, 0]


def step(func):
    return FunctionTransformer(row_wise(func))


def rehearse(pipeline, X, classes=(0, 1)):
    return PipelineAdapter(pipeline).rehearse(made_up_batches(X), len(X), np.array(classes))


NESTED = {
    "columns": lambda func: ColumnTransformer([("numbers", step(func), [0])]),
    "remainder": lambda func: ColumnTransformer([("n", Normalizer(), [1])], remainder=step(func)),
    "union": lambda func: FeatureUnion([("numbers", step(func)), ("rest", "passthrough")]),
    "pipeline": lambda func: make_pipeline(Normalizer(), step(func)),
    "deep": lambda func: make_union(make_column_transformer((make_pipeline(step(func)), [0, 1]))),
}


@pytest.mark.parametrize("place", NESTED)
def test_a_nested_function_that_mixes_rows_is_refused_and_named(place):
    with pytest.raises(CandidateRefusedError, match=r"part '.*declared row-wise, but row_wise\(centre\) gives a row"):
        StatelessAdapter(NESTED[place](centre)).check_data(10, 3, None)
    with pytest.raises(CandidateRefusedError, match=r"step '.*part '.*row_wise\(centre\) gives a row another value"):
        rehearse(make_pipeline(NESTED[place](centre), Toy()), ARRAY)
    StatelessAdapter(NESTED[place](half)).check_data(10, 3, None)
    outs, certain = rehearse(make_pipeline(NESTED[place](half), Normalizer()), ARRAY)
    assert certain and len(outs) == 4


@pytest.mark.parametrize("place", NESTED)
def test_every_declared_function_is_an_assumption_by_name(place):
    sentences = StatelessAdapter(NESTED[place](half)).assumptions("zero-out")
    declared = "row_wise(half) treats every row by itself, as declared."
    assert any("part '" in sentence and sentence.endswith(declared) for sentence in sentences)


def test_each_of_several_is_tried_though_another_does_not_suit_the_made_up_rows():
    def parsed(X):
        return np.array([[int(cell) for cell in row] for row in np.asarray(X)])

    columns = ColumnTransformer([("town", step(parsed), ["town"]), ("age", step(centre), ["age"])])
    with pytest.raises(CandidateRefusedError, match=r"part 'age': func .*row_wise\(centre\) gives a row another"):
        rehearse(make_pipeline(columns, Toy()), FRAME)


def test_functions_of_frames_are_tried_on_frames():
    def aged(X):
        return X[["age"]] - X["age"].mean()

    with pytest.raises(CandidateRefusedError, match=r"row_wise\(aged\) gives a row another value"):
        rehearse(make_pipeline(step(aged), Toy()), FRAME)
    polars = pytest.importorskip("polars")
    with pytest.raises(CandidateRefusedError, match=r"row_wise\(centre\) gives a row another value"):
        rehearse(make_pipeline(step(centre), Toy()), polars.DataFrame({"a": [1.0, 2.0]}))


@pytest.mark.parametrize(
    ("func", "X", "words"),
    [
        (typo, ARRAY, "NameError: name 'scaling' is not defined"),
        (typo, FRAME, "NameError"),
        (unfinished, ARRAY, "returned None, not rows"),
        (no_such_method, ARRAY, "AttributeError"),
        (no_such_method, FRAME, "AttributeError"),
        (no_such_function, FRAME, "AttributeError: module 'numpy'"),
        (no_such_library, ARRAY, "ModuleNotFoundError"),
        (no_such_column, FRAME, "KeyError"),
        (no_such_single_column, FRAME, "KeyError: 'agee'"),
        (no_such_column, ARRAY, "IndexError"),
        (too_narrow, ARRAY, "could not be broadcast"),
        (needs_more, ARRAY, "missing 1 required"),
        (first_column, ARRAY, r"an array of shape \(5,\) of 5|returned an array or dataframe with 1 dim|2-?[dD]"),
    ],
)
def test_what_no_value_can_cause_is_refused(func, X, words):
    for nested in (step(func), make_union(step(func))):
        with pytest.raises(CandidateRefusedError, match=words):
            rehearse(make_pipeline(nested, Toy()), X)


def test_a_column_that_polars_lacks():
    polars = pytest.importorskip("polars")
    with pytest.raises(CandidateRefusedError, match="agee"):
        rehearse(make_pipeline(step(no_such_column), Toy()), polars.DataFrame({"age": [1.0]}))


def parses_dates(X):
    return np.array([[cell.year] for cell in X["town"]])


def looks_up(X):
    return np.array([[{"Delft": 1.0, "Ghent": 2.0}[cell]] for cell in X["town"]])


def parses_vectors(X):
    return np.array([[float(number) for number in cell.split(";")] for cell in X["town"]]) / np.ones(3)


def joins(X):
    return pd.DataFrame({"x": [1.0]}, index=["Delft"]).loc[X["town"]].to_numpy()


@pytest.mark.parametrize("func", [parses_dates, looks_up, parses_vectors, joins])
def test_what_other_values_might_not_cause_is_not_refused(func):
    assert rehearse(make_pipeline(step(func), Toy()), FRAME)[0] == []


def test_a_step_that_cannot_be_fitted_on_the_made_up_row_fails_in_every_try():
    def parsed(X):
        return np.array([[float(cell)] for cell in np.asarray(X)[:, 0]])

    # its part is called when it is fitted, which is done on one made-up row, with empty text
    columns = ColumnTransformer([("town", step(parsed), ["town"])])
    pipeline = make_pipeline(columns, Toy())
    with pytest.raises(CandidateRefusedError, match=r"on made-up rows it ended with ValueError.*Nothing has been"):
        rehearse(pipeline, FRAME)
    with pytest.raises(ValueError, match="could not convert"):
        StatelessAdapter(columns).fit(FRAME, None, classes=None, seed=None)


def test_a_private_step_is_checked_against_the_width_that_reaches_it():
    class Narrow(Toy):
        def __skdptune_adapter__(self):
            from skdptune.candidates._native import NativeAdapter

            class Adapter(NativeAdapter):
                def check_data(self, n_samples, n_features, classes):
                    if n_features != 1:
                        raise CandidateRefusedError(f"takes one column, not {n_features}")

            return Adapter(self)

    columns = ColumnTransformer([("age", "passthrough", ["age"]), ("paid", "passthrough", ["paid"])])
    with pytest.raises(CandidateRefusedError, match="step 'narrow': takes one column, not 2"):
        rehearse(make_pipeline(columns, Narrow()), FRAME)
    rehearse(make_pipeline(ColumnTransformer([("age", "passthrough", ["age"])]), Narrow()), FRAME)


@pytest.mark.parametrize("X", [ARRAY, ARRAY.astype(int), FRAME, sparse.csr_matrix(ARRAY), np.full((9, 2), "q", object)])
def test_made_up_rows_have_the_kind_of_the_rows_and_no_value_of_them(X):
    for batch in made_up_batches(X):
        assert type(batch) is type(X) and batch.shape == (5, X.shape[1])
        if isinstance(X, pd.DataFrame):
            assert list(batch.dtypes) == list(X.dtypes) and list(batch.columns) == list(X.columns)
            assert "Delft" not in batch.to_string()
        else:
            assert batch.dtype == X.dtype


def test_columns_of_other_types():
    frame = pd.DataFrame(
        {
            "grade": pd.Categorical(["x", "y"]),
            "when": pd.to_datetime(["2020-01-01", "2021-01-01"]).tz_localize("UTC"),
            "count": pd.array([1, None], dtype="Int64"),
            "word": pd.array(["u", "v"], dtype="string"),
            "flag": pd.array([True, None], dtype="boolean"),
        }
    )
    for batch in made_up_batches(frame):
        assert list(batch.dtypes) == list(frame.dtypes) and not batch.isna().any().any()


def test_a_tokenizer_may_make_any_number_of_words():
    vectorizer = HashingVectorizer(n_features=8, tokenizer=row_wise(str.split), token_pattern=None)
    adapter = StatelessAdapter(vectorizer)
    fitted = adapter.fit(["a b c"], None, classes=None, seed=None)
    assert fitted.transform(["a b c", "d"]).shape == (2, 8)
    assert "row_wise(split) treats every row by itself" in adapter.assumptions("zero-out")[1]


def test_the_rows_are_not_changed_and_no_process_is_started():
    def in_place(X):
        X -= 0.5
        return X

    columns = ColumnTransformer([("a", step(in_place), [0]), ("b", step(centre), [1])], n_jobs=2)
    with pytest.raises(CandidateRefusedError, match=r"part 'b'.*row_wise\(centre\)"):
        rehearse(make_pipeline(columns, Toy()), ARRAY)
    rehearse(make_pipeline(step(in_place), Toy()), ARRAY)
