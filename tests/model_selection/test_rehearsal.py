"""What a user's slip in a pipeline costs: nothing, where no value of a row could be to blame."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_html_repr

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import AllRunsFailedError, CandidateRefusedError, InvalidParameterError, InvalidTypeError
from skdptune.candidates import row_wise
from tests.model_selection.estimators import PrivateMajority

FRAME = pd.DataFrame({"age": np.arange(40.0), "pay": np.arange(40.0)[::-1]})
Y = np.arange(40) % 2


class Ledger:
    charged = 0

    def charge(self, spent, delta):
        self.charged += 1


def searching(func, space=None, **options):
    step = FunctionTransformer(func if func is None else row_wise(func))
    space = {"privatemajority__scale": [1.0]} if space is None else space
    options = {"n_iter": 3, "classes": [0, 1], "ledger": Ledger(), **options}
    return PrivateRandomSearchCV(make_pipeline(step, PrivateMajority()), space, **options)


def misspelt(X):
    return X[["aeg"]]


def centred(X):
    return X - X.mean()


def parses(X):
    return np.array([[{"39.0": 1.0}[str(cell)]] for cell in X["age"]])


def undefined(X):
    return X / largest_age  # noqa: F821


@pytest.mark.parametrize(
    ("func", "words"), [(misspelt, "KeyError"), (centred, "gives a row another"), (undefined, "largest_age")]
)
def test_a_slip_is_told_before_the_charge(func, words):
    search = searching(func)
    with pytest.raises(CandidateRefusedError, match=f"step 'functiontransformer': func of .*{words}"):
        search.fit(FRAME, Y)
    assert search.ledger.charged == 0


def test_in_parts_of_steps_and_in_steps_that_are_searched():
    columns = make_column_transformer((FunctionTransformer(row_wise(centred)), ["age"]))
    search = searching(None, {"functiontransformer": [columns], "privatemajority__scale": [1.0]})
    with pytest.raises(CandidateRefusedError, match=r"part 'functiontransformer': func .*row_wise\(centred\)"):
        search.fit(FRAME, Y)
    inner = searching(undefined, ledger=None)
    outer = PrivateRandomSearchCV(inner, {"n_iter": [2, 3]}, n_iter=2, classes=[0, 1], ledger=Ledger())
    with pytest.raises(CandidateRefusedError, match="largest_age"):
        outer.fit(FRAME, Y)
    assert (search.ledger.charged, outer.ledger.charged) == (0, 0)


def test_a_failure_that_values_may_cause_is_left_to_the_tries():
    search = searching(parses)
    with pytest.raises(AllRunsFailedError):
        search.fit(FRAME, Y)
    assert search.ledger.charged == 1


def test_declared_functions_are_listed_wherever_they_stand():
    columns = make_column_transformer((FunctionTransformer(row_wise(np.abs)), ["age"]))
    search = PrivateRandomSearchCV(make_pipeline(columns, PrivateMajority()), {"privatemajority__scale": [1.0]})
    (listed,) = [text for text in search.privacy_cost(40).assumptions if "as declared" in text]
    assert listed.startswith("Step 'columntransformer': part 'functiontransformer': row_wise(absolute) treats every")


@pytest.mark.parametrize("y", [np.arange(442) // 2, np.array([f"patient {i // 3}" for i in range(442)])])
def test_a_label_for_nearly_every_row_is_not_published(y):
    X, ledger = np.zeros((442, 1)), Ledger()
    search = PrivateRandomSearchCV(PrivateMajority(), {"scale": [1.0]}, n_iter=2, ledger=ledger)
    with pytest.raises(InvalidParameterError, match="classes must be declared .* more than 21 different ones") as error:
        search.fit(X, y)
    assert ledger.charged == 0 and "patient" not in str(error.value) and not hasattr(search, "classes_")
    assert len(search.set_params(classes=np.unique(y)).fit(X, y).classes_) == len(np.unique(y))


def test_as_many_labels_as_are_usual_need_no_declaration():
    y = np.arange(441) % 21
    search = PrivateRandomSearchCV(PrivateMajority(), {"scale": [1.0]}, n_iter=2).fit(np.zeros((441, 1)), y)
    assert len(search.classes_) == 21
    assert "labels" in str(search.privacy_spent_)


def test_objects_that_hold_text_are_named():
    frame = pd.DataFrame({"age": [1.0, 2.0] * 20, "town": pd.Series(["Delft", "Ghent"] * 20, dtype=object)})
    search = PrivateRandomSearchCV(PrivateMajority(), {"scale": [1.0]}, n_iter=2, ledger=Ledger())
    with pytest.raises(InvalidParameterError, match=r"X must be numeric; it holds text in column 'town'\.") as error:
        search.fit(frame, Y)
    assert "Delft" not in str(error.value) and error.value.__context__ is None
    with pytest.raises(InvalidParameterError, match="it holds text in columns 0, 1"):
        search.fit(np.array([["a", "b", "1"]] * 40, dtype=object), Y)


def test_the_diagram_of_a_fitted_search_shows_the_model_that_was_released():
    search = PrivateRandomSearchCV(PrivateMajority(), {"scale": [7.25]}, n_iter=2, classes=[0, 1])
    assert "best_estimator_" not in estimator_html_repr(search)
    search.fit(FRAME, Y)
    assert "best_estimator_" in estimator_html_repr(search) and "7.25" in estimator_html_repr(search)
    search.set_params(refit=False).fit(FRAME, Y)
    assert "best_estimator_" not in estimator_html_repr(search)


def passing(*names, private=None):
    columns = make_column_transformer(("passthrough", list(names)))
    space = {"privatemajority__scale": [1.0]}
    made = make_pipeline(columns, PrivateMajority() if private is None else private)
    return PrivateRandomSearchCV(made, space, n_iter=2, classes=[0, 1], ledger=Ledger(), delta=1e-6)


TIMED = pd.DataFrame(
    {
        "x": np.arange(40.0),
        "time": pd.date_range("2020-01-01", periods=40, freq="h"),
        "zoned": pd.date_range("2020-01-01", periods=40, freq="h", tz="UTC"),
        "lasts": pd.to_timedelta(np.arange(40), unit="h"),
        "month": pd.period_range("2020-01", periods=40, freq="M"),
        "word": [str(i / 40) for i in range(40)],
    }
)


@pytest.mark.parametrize("name", ["time", "zoned", "lasts", "month"])
def test_times_that_reach_a_private_step_are_refused_before_the_charge(name):
    search = passing("x", name)
    with pytest.raises(CandidateRefusedError, match=r"PrivateMajority must be given numbers; .* columns 1 hold times"):
        search.fit(TIMED, Y)
    assert search.ledger.charged == 0


class TakesText(PrivateMajority):
    def fit(self, X, y):
        return super().fit(np.zeros((len(X), 1)), y)

    def predict(self, X):
        return super().predict(np.zeros((len(X), 1)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags


def test_times_may_reach_who_takes_text():
    pipeline = make_pipeline(make_column_transformer(("passthrough", ["x", "time"])), TakesText())
    search = PrivateRandomSearchCV(pipeline, {"takestext__scale": [1.0]}, n_iter=2, classes=[0, 1])
    assert search.fit(TIMED, Y).best_params_ is not None


class ReadsNumbers(PrivateMajority):
    def predict(self, X):
        np.asarray(X, dtype=float)
        return super().predict(X)


@pytest.mark.parametrize("names", [["x", "word"], ["word"]])
def test_numbers_written_as_text_are_no_reason_to_warn(names, recwarn):
    pipeline = make_pipeline(make_column_transformer(("passthrough", names)), ReadsNumbers())
    search = PrivateRandomSearchCV(pipeline, {"readsnumbers__scale": [1.0]}, n_iter=2, classes=[0, 1])
    assert search.fit(TIMED, Y).best_params_ is not None
    assert not recwarn.list


DOCUMENTS = ["good one" if label else "bad" for label in Y]


def as_dicts(documents):
    return [{"a": 1.0}] * len(documents)


def as_objects(documents):
    return np.array(documents, dtype=object)


@pytest.mark.parametrize("kind", [list, tuple, np.array, as_objects, pd.Series, as_dicts])
def test_documents_are_refused_in_words(kind):
    search = passing("text")
    with pytest.raises(InvalidTypeError, match="one row for each document; got 40 documents") as caught:
        search.fit(kind(DOCUMENTS), Y)
    assert search.ledger.charged == 0 and "good one" not in str(caught.value)


def test_documents_are_taken_as_a_column():
    columns = ColumnTransformer([("words", HashingVectorizer(n_features=4), "text")], sparse_threshold=0)
    search = PrivateRandomSearchCV(make_pipeline(columns, PrivateMajority()), {"privatemajority__scale": [1.0]})
    frame = pd.DataFrame({"text": DOCUMENTS})
    assert search.fit(frame, Y).predict(frame).shape == (40,)


@pytest.mark.parametrize("rows", [np.ones(40), [1.0] * 40, pd.Series(np.ones(40)), [["a"], ["a", "b"]] * 20])
def test_what_is_no_table_is_refused_in_words(rows):
    search = searching(abs)
    with pytest.raises(InvalidParameterError):
        search.fit(rows, Y)
    assert search.ledger.charged == 0


@row_wise
def reads_the_index(X):
    return X.assign(said=[1.0 if label == "f" else -1.0 for label in X.index])


@pytest.mark.parametrize(
    "space",
    [
        {"functiontransformer__func": [None, reads_the_index]},
        {"functiontransformer": ["passthrough", FunctionTransformer(reads_the_index)]},
        {"steps": [[("a", FunctionTransformer(reads_the_index)), ("privatemajority", PrivateMajority())]]},
        [{"privatemajority__scale": [1.0]}, {"functiontransformer__func": [reads_the_index]}],
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_an_index_that_a_searched_function_could_read_is_refused(space, nested):
    search = PrivateRandomSearchCV(make_pipeline(FunctionTransformer(), PrivateMajority()), space, n_iter=2)
    if nested:
        search = PrivateRandomSearchCV(search, {"n_iter": [2]}, n_iter=2)
    search.set_params(ledger=Ledger(), delta=1e-6, classes=[0, 1])
    spoken = FRAME.set_axis(pd.Index(np.where(Y == 1, "f", "m"), name="sex"))
    with pytest.raises(InvalidParameterError, match="plain row numbers as its index"):
        search.fit(spoken, Y)
    assert search.ledger.charged == 0
