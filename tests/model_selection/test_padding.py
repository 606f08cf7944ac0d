"""Dummy tries and fixed times: nothing of the drawn number shows in how much is done, and nothing else changes."""

import os
import time
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import InvalidParameterError
from skdptune.model_selection import FixedTimeError, PaddedRandomSearchCV, _cells, _padding, _runs, fixed_time
from skdptune.model_selection._engine import Runner
from skdptune.model_selection._read_only import size_of
from skdptune.run_counts import AtMost, Finite, Geometric, Logarithmic
from skdptune.scoring import AbsoluteErrorScorer

SEEN = []
LABELS = ["no", "yes"]


class Watched(ClassifierMixin, BaseEstimator):
    """Notes the rows it is given; its model is noise."""

    privacy_params = ("scale",)

    def __init__(self, scale=4.0, shift=0.0, random_state=None):
        self.scale = scale
        self.shift = shift
        self.random_state = random_state

    def rdp_curve(self, orders):
        return np.asarray(orders, dtype=float) / (2 * self.scale**2)

    def fit(self, X, y):
        SEEN.append((X, y))
        self.z_ = float(self.random_state.normal(scale=self.scale))
        self.classes_ = np.array(LABELS)
        return self

    def predict(self, X):
        return np.repeat(self.classes_[[int(self.z_ + self.shift > 0)]], X.shape[0])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class WatchedMean(RegressorMixin, Watched):
    def predict(self, X):
        return np.full(X.shape[0], self.z_)


def table(kind):
    X = np.full((60, 4), 77.25)
    if kind == "DataFrame":
        return pd.DataFrame({"a": X[:, 0], "b": X[:, 1].astype(int), "c": X[:, 2].astype(np.float32)})
    return scipy.sparse.csr_matrix(X) if kind == "CSR" else X


def search(kind=PaddedRandomSearchCV, **kwargs):
    options = {"n_iter": AtMost(Logarithmic(mean=4), 9), **kwargs}
    return kind(Watched(), {"shift": list(np.linspace(-2.0, 2.0, 30))}, **options)


def fitted(made, X, y, **public):
    SEEN.clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="random_state was given")
        return made.fit(X, y, **public)


def is_private(X):
    values = X.to_numpy() if hasattr(X, "to_numpy") else X.toarray() if scipy.sparse.issparse(X) else X
    return bool(np.any(np.isin(values, [77.25, 77])))


@pytest.mark.parametrize("kind", ["array", "DataFrame", "CSR"])
@pytest.mark.parametrize("drawn", [0, 1, 4, 9])
def test_every_fit_makes_as_many_tries_and_dummies_see_no_private_row(kind, drawn):
    X, y = table(kind), np.array(LABELS)[np.arange(60) % 2]
    run_count = Finite({drawn: 1 - 1e-12, 9: 1e-12} if drawn != 9 else {9: 1.0})
    made = fitted(search(n_iter=run_count), X, y)
    assert len(SEEN) == 9
    assert [is_private(rows) for rows, _ in SEEN] == [True] * drawn + [False] * (9 - drawn)
    for rows, labels in SEEN:
        assert type(rows) is type(SEEN[0][0]) and rows.shape == SEEN[0][0].shape and len(labels) == rows.shape[0]
        assert set(labels) <= set(LABELS)
        if kind == "DataFrame":
            assert list(rows.dtypes) == list(X.dtypes) and list(rows.columns) == list(X.columns)
    assert (made.best_params_ is None) == (drawn == 0)


def test_result_price_and_attributes_are_those_of_the_plain_search():
    X, y = table("array"), np.array(LABELS)[np.arange(60) % 2]
    count = Finite({4: 0.999999, 9: 0.000001})
    plain = fitted(search(PrivateRandomSearchCV, n_iter=count, random_state=5), X, y)
    assert len(SEEN) == 4
    padded = fitted(search(n_iter=count, random_state=5), X, y)
    assert len(SEEN) == 9
    assert padded.best_params_ == plain.best_params_ and padded.best_score_ == plain.best_score_
    assert padded.best_estimator_.z_ == plain.best_estimator_.z_
    assert padded.privacy_spent_.epsilon(1e-5) == plain.privacy_spent_.epsilon(1e-5)
    assert sorted(vars(padded)) == sorted(vars(plain))
    assert clone(padded).get_params().keys() == plain.get_params().keys()


@pytest.mark.skipif(os.name != "posix", reason="time-outs need process groups")
@pytest.mark.parametrize("params", [{"run_timeout": 60.0}, {"n_jobs": 2}])
def test_tries_and_dummies_share_workers_and_nothing_waits_between_them(monkeypatch, params):
    sizes, started = [], []
    best, cell = Runner.best, _cells._Cell

    def counted(self, plan, data, seeds, **options):
        sizes.append(len(seeds))
        return best(self, plan, data, seeds, **options)

    monkeypatch.setattr(Runner, "best", counted)
    monkeypatch.setattr(_cells, "_Cell", lambda *args: started.append(1) or cell(*args))
    X, y = table("array"), np.array(LABELS)[np.arange(60) % 2]
    for drawn in (0, 2):
        run_count = Finite({drawn: 1 - 1e-12, 3: 1e-12})
        with joblib.parallel_config("threading" if "n_jobs" in params else "loky"):
            made = fitted(search(n_iter=run_count, random_state=5, **params), X, y)
        assert (made.best_params_ is None) == (drawn == 0)
    assert sizes == [3, 3] and len(started) == (2 if "run_timeout" in params else 0)


def test_the_rows_of_dummies_count_for_the_room_they_take():
    X, y = table("array"), np.array(LABELS)[np.arange(60) % 2]
    real = _runs.RunData.cut(X, y, [(np.arange(50), np.arange(50, 60))], 1, None, None)
    assert size_of(_padding._PaddedData(real, real, 1)) == 2 * size_of(real) >= 2 * X.nbytes


def test_a_checkpoint_is_refused_because_a_resume_would_tell(tmp_path):
    X, y = table("array"), np.array(LABELS)[np.arange(60) % 2]
    with pytest.raises(InvalidParameterError, match="checkpoint must be None when tries are padded"):
        fitted(search(checkpoint=str(tmp_path / "c")), X, y)
    assert not SEEN and not (tmp_path / "c").exists()


def test_dummies_draw_coins_of_their_own():
    X, y = table("array"), np.array(LABELS)[np.arange(60) % 2]
    count = Finite({4: 0.999999, 9: 0.000001})
    made_up = []
    for _ in range(2):
        fitted(search(n_iter=count, random_state=5), X, y)
        made_up.append(next(rows for rows, _ in SEEN if not is_private(rows)))
    assert not np.array_equal(*made_up)


def test_other_shapes_of_a_search(monkeypatch):
    X, y = table("array"), np.array(LABELS)[np.arange(60) % 2]
    fitted(search(cv=3, refit=True), X, y)
    assert len(SEEN) == 9 * 3 + 1
    fitted(search(cv=3, refit=False), X, y, X_public=X + 1, y_public=y)
    assert len(SEEN) == 9
    with joblib.parallel_config("threading", n_jobs=2):
        fitted(search(), X, y)
    assert len(SEEN) == 9
    regression = PaddedRandomSearchCV(
        WatchedMean(), {"shift": [0.0]}, n_iter=AtMost(Geometric(3), 5), scoring=AbsoluteErrorScorer(0.0, 1.0)
    )
    fitted(regression, X, np.linspace(0.0, 1.0, 60))
    assert len(SEEN) == 5 and all(0 <= np.min(labels) and np.max(labels) <= 1 for _, labels in SEEN)


def test_better_rows_can_be_made_up():
    class Own(PaddedRandomSearchCV):
        def made_up_rows(self, X, y, classes, rng):
            return np.full(X.shape, 5.0), np.repeat(classes[:1], len(y))

    fitted(Own(Watched(), {"shift": [0.0]}, n_iter=Finite([0.5, 0.5])), table("array"), np.array(LABELS)[[0, 1] * 30])
    assert len(SEEN) == 1 and (is_private(SEEN[0][0]) or np.all(SEEN[0][0] == 5.0))


def test_a_count_without_a_cap_is_refused_before_anything():
    made = search(n_iter=Logarithmic(mean=4))
    for work in (lambda: made.privacy_cost(60), lambda: made.fit(table("array"), np.arange(60) % 2)):
        SEEN.clear()
        with pytest.raises(InvalidParameterError, match="n_iter must have a largest value.*AtMost"):
            work()
        assert not SEEN


def test_a_search_that_may_end_early_is_refused_before_anything():
    made = search(n_iter=AtMost(Geometric(4), 15)).set_params(error_score="raise")
    for work in (lambda: made.privacy_cost(60), lambda: made.fit(table("array"), np.arange(60) % 2)):
        SEEN.clear()
        with pytest.raises(InvalidParameterError, match="error_score must be nan"):
            work()
        assert not SEEN


def test_a_block_ends_at_the_time_that_was_fixed():
    start = time.monotonic()
    with fixed_time(0.2):
        pass
    assert time.monotonic() - start >= 0.2
    start = time.monotonic()
    with pytest.raises(ZeroDivisionError), fixed_time(0.2):
        raise ZeroDivisionError
    assert time.monotonic() - start >= 0.2


def test_a_block_that_takes_too_long_says_so(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(_padding.time, "monotonic", lambda: now[0])
    with pytest.raises(FixedTimeError, match="took longer than the 10 s"), fixed_time(10):
        now[0] = 10.5
    for wrong in (0, -1, float("nan"), float("inf"), "1", True):
        with pytest.raises((ValueError, TypeError), match="seconds"), fixed_time(wrong):
            pytest.fail("entered")
