"""What has been paid for is not lost to a warning, a cell or Ctrl-C; what cannot work is refused before the charge."""

import os
import threading
import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdptune import PrivateRandomSearchCV
from skdptune.candidates import _statements, row_wise
from skdptune.candidates._row_copies import RowCopies
from skdptune.exceptions import InvalidParameterError
from skdptune.model_selection import _checkpoint
from skdptune.model_selection._runs import RunRecord
from skdptune.model_selection._store import Store
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy
from tests.model_selection.checkpoint_tools import Ledger, X, Y


class Broken(GaussianToy):
    def predict(self, X):
        raise RuntimeError


class Lock:
    def __init__(self):
        self.lock = threading.Lock()

    def __deepcopy__(self, memo):
        raise ValueError("cannot copy patient 17")


def first_column(X):
    return np.asarray(X)[:, :1].astype(float)


def search(candidate=None, **params):
    return PrivateRandomSearchCV(candidate or GaussianToy(), {"s": [1.0]}, n_iter=Fixed(2), delta=1e-6, **params)


def test_a_warning_that_is_an_error_undoes_no_publication():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = search(Broken(), refit="winner").fit(X, Y)
    assert made.best_params_ == {"s": 1.0}
    with pytest.warns(UserWarning, match="raised RuntimeError on every row made up"):
        search(Broken(), refit="winner").fit(X, Y)


def test_a_cell_that_cannot_be_copied_costs_nothing_and_is_not_quoted():
    purse, rows = Ledger(), np.array([[i, {"a": i}] for i in range(40)], dtype=object)
    rows[3, 1] = Lock()
    pipe = make_pipeline(FunctionTransformer(row_wise(first_column)), GaussianToy())
    made = PrivateRandomSearchCV(pipe, {"gaussiantoy__s": [1.0]}, n_iter=Fixed(1), ledger=purse, delta=1e-6)
    with pytest.raises(InvalidParameterError, match="X must have cells that copy.deepcopy can copy") as caught:
        made.fit(rows, Y)
    assert purse.charges == 0
    assert "patient" not in str(caught.value) and caught.value.__context__ is None


def test_an_index_that_a_declared_function_could_read_is_refused_before_the_charge():
    pandas = pytest.importorskip("pandas")
    pipe = make_pipeline(FunctionTransformer(row_wise(abs)), GaussianToy())
    space, purse = {"gaussiantoy__s": [1.0]}, Ledger()
    made = PrivateRandomSearchCV(pipe, space, n_iter=Fixed(1), ledger=purse, delta=1e-6)
    frame = pandas.DataFrame(X, columns=list("abc"))
    for index in (pandas.date_range("2020", periods=40), pandas.Index(range(40), name="k"), frame.index.astype(str)):
        with pytest.raises(InvalidParameterError, match="plain row numbers as its index"):
            made.fit(frame.set_axis(index), Y)
    assert purse.charges == 0
    made.fit(frame.set_axis(np.random.default_rng(0).permutation(40)), Y)  # as after a split of the rows
    assert purse.charges == 1


def test_a_coefficient_for_each_column_is_no_copy_where_rows_are_as_many():
    assert RowCopies(np.zeros((3, 2)), np.zeros(3)).in_value(np.ones(3))[0]
    assert not RowCopies(np.zeros((3, 3)), np.zeros(3)).in_value(np.ones(3))[0]
    same = np.zeros((3, 3))
    assert RowCopies(same, np.zeros(3)).in_value({"kept": same[:2]})[0]  # its memory tells


def test_a_refit_has_the_same_error_state_as_a_try():
    class Divides(GaussianToy):
        def fit(self, X, y=None):
            np.log(np.zeros(1))
            return super().fit(X, y)

    with np.errstate(divide="raise"):
        made = search(Divides(), refit=True).fit(X, Y)
    assert made.best_estimator_.z_ is not None


@pytest.mark.skipif(os.name != "posix", reason="checkpoints need POSIX")
def test_ctrl_c_while_the_folder_is_removed_loses_no_result(tmp_path, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(_checkpoint.Checkpoint, "_remove", interrupted)
    made = search(checkpoint=tmp_path / "folder")
    with pytest.warns(UserWarning, match=r"finished, but its checkpoint .* could not be removed \(Ctrl-C\)"):
        made.fit(X, Y)
    assert made.best_params_ == {"s": 1.0}


class Emptied(dict):
    """As if another thread had emptied it right after the look."""

    def __contains__(self, key):
        found = super().__contains__(key)
        self.clear()
        return found


def test_a_cache_that_another_thread_empties_ends_no_search(monkeypatch):
    monkeypatch.setattr(_statements, "_STATED", Emptied())
    first, again = (_statements.stated_rdp(GaussianToy(s=2.0), "zero-out") for _ in range(2))
    assert first is again
    assert search().fit(X, Y).best_params_ == {"s": 1.0}


@pytest.mark.skipif(os.name != "posix", reason="checkpoints need POSIX")
def test_of_two_outcomes_of_one_run_that_of_the_first_name_counts(tmp_path):
    os.chmod(tmp_path, 0o700)
    first = Store.temporary(str(tmp_path), "0" * 32, 4)
    object.__setattr__(first.ref, "keeps_best", True)
    second = Store(first.ref)
    low, high = (RunRecord(score, 1, {}, position=2) for score in (0.1, 0.9))
    for store, name, record in ((first, "a", low), (second, "b", high)):
        store._best_name = f"{store._own_records}{name}"
        store._keep(record)
    assert first.best().score == 0.1
    first.close(), second.close()
