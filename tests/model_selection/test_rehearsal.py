"""What a user's slip in a pipeline costs: nothing, where no value of a row could be to blame."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_html_repr

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import AllRunsFailedError, CandidateRefusedError, InvalidParameterError
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
