"""What every try needs reaches it, on every engine, or is refused before anything is charged."""

import contextlib
import io
import logging
import os
import sys
import threading
import time
import warnings

import joblib
import numpy as np
import pytest
import sklearn

from skdptune import PrivateRandomSearchCV
from skdptune.exceptions import CandidateRefusedError, TransportError
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy
from tests.model_selection.checkpoint_tools import Ledger, X, Y

TIMED = pytest.param({"run_timeout": 60.0}, marks=pytest.mark.skipif(os.name != "posix", reason="process groups"))
ENGINES = [{}, {"n_jobs": 2}, TIMED]


class Locked:
    """An accuracy with something beside it that can be neither copied nor pickled."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, model, X, y):
        return float(np.mean(model.predict(X) == y))


class Told(GaussianToy):
    """Publishes what it finds around it."""

    published_attributes = (*GaussianToy.published_attributes, "memory_", "divided_")

    def fit(self, X, y=None):
        super().fit(X, y)
        self.memory_ = sklearn.get_config()["working_memory"]
        self.divided_ = float(np.log(np.zeros(1))[0])
        return self


def search(candidate, **params):
    return PrivateRandomSearchCV(candidate, {"s": [1.0, 2.0]}, n_iter=Fixed(3), **params)


@pytest.mark.parametrize("params", ENGINES)
def test_a_scorer_that_cannot_be_copied_costs_nothing(params):
    purse = Ledger()
    made = search(GaussianToy(), scoring=Locked(), ledger=purse, delta=1e-6, **params)
    with pytest.raises(CandidateRefusedError, match="scoring must be something that copy.deepcopy can copy"):
        made.fit(X, Y, X_public=X[:20] + 1, y_public=Y[:20])
    assert purse.charges == 0


class Unpicklable(Locked):
    def __deepcopy__(self, memo):
        return Unpicklable()


@pytest.mark.parametrize(("backend", "works"), [("threading", True), ("loky", False)])
def test_what_cannot_be_pickled_costs_nothing_where_it_would_have_to_be(backend, works):
    purse = Ledger()
    made = search(GaussianToy(), scoring=Unpicklable(), ledger=purse, delta=1e-6)
    with joblib.parallel_config(backend, n_jobs=2):
        if works:
            made.fit(X, Y, X_public=X[:20] + 1, y_public=Y[:20])
        else:
            with pytest.raises(TransportError, match="scoring must be something that can be pickled"):
                made.fit(X, Y, X_public=X[:20] + 1, y_public=Y[:20])
    assert purse.charges == works


@pytest.mark.parametrize("params", [*ENGINES, {"n_jobs": 2, "backend": "threading"}])
def test_settings_of_the_thread_that_searches_hold_in_every_try(params):
    params = dict(params)
    with (
        joblib.parallel_config(params.pop("backend", "loky")),
        sklearn.config_context(working_memory=77),
        np.errstate(divide="raise"),  # of the caller: a try has numpy's default, on every engine
    ):
        made = search(Told(), refit="winner", **params).fit(X, Y)
        assert np.geterr()["divide"] == "raise"
    assert made.best_estimator_.memory_ == 77
    assert made.best_estimator_.divided_ == -np.inf


class Strict(GaussianToy):
    """Warns, and makes warnings errors for whoever comes after it in its process."""

    def fit(self, X, y=None):
        warnings.warn("the next one fails", UserWarning, stacklevel=2)
        warnings.simplefilter("error")
        return super().fit(X, y)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_filters_of_a_try_are_its_own(n_jobs):
    search(Strict(), n_jobs=n_jobs, error_score="raise").fit(X, Y)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_what_a_try_switches_on_is_off_for_the_next_one(n_jobs, tmp_path):
    path = str(tmp_path / "log")

    class Speaking(GaussianToy):
        """Speaks as loudly as it can, and lets the next one speak."""

        def fit(self, X, y=None):
            log = logging.getLogger("somebody.else")
            log.addHandler(logging.FileHandler(path))
            log.error("a try has begun")
            logging.disable(logging.NOTSET)
            sys.stdout = sys.__stdout__
            return super().fit(X, y)

    PrivateRandomSearchCV(Speaking(), {"s": [1.0]}, n_iter=Fixed(9), n_jobs=n_jobs, error_score="raise").fit(X, Y)
    assert not os.path.getsize(path)  # opened, and never written to
    assert logging.root.manager.disable == logging.NOTSET


@pytest.mark.parametrize(("before", "within"), [(logging.NOTSET, logging.DEBUG), (logging.DEBUG, logging.WARNING)])
def test_levels_that_a_try_sets_neither_let_the_next_one_speak_nor_outlast_the_search(before, within, tmp_path):
    path, mine = str(tmp_path / "log"), logging.getLogger("skdptune")

    class Configures(GaussianToy):
        def fit(self, X, y=None):
            log = logging.getLogger("somebody.else.again")
            log.handlers[:] = [logging.FileHandler(path)]
            log.error("a try has begun")
            log.handlers[0].close()
            if within == logging.DEBUG:
                logging.disable(logging.NOTSET)
            mine.setLevel(within)
            return super().fit(X, y)

    mine.setLevel(before)
    try:
        PrivateRandomSearchCV(Configures(), {"s": [1.0]}, n_iter=Fixed(5), error_score="raise").fit(X, Y)
    finally:
        mine.setLevel(logging.NOTSET)
    assert bool(os.path.getsize(path)) == (before == logging.DEBUG)  # whoever debugs hears everybody
    assert logging.root.manager.disable == logging.NOTSET


def test_text_captured_around_an_inner_search_is_complete():
    captured = []

    class Captures(GaussianToy):
        def fit(self, X, y=None):
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                print("before")
                PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(2)).fit(X, y)
                print("after")
            captured.append(text.getvalue())
            return super().fit(X, y)

    PrivateRandomSearchCV(Captures(), {"s": [1.0]}, n_iter=Fixed(2), error_score="raise").fit(X, Y)
    assert captured == ["before\nafter\n"] * 2


def test_text_captured_by_another_thread_beside_a_search_is_complete():
    begun, text, printed = threading.Event(), io.StringIO(), 0

    class Waits(GaussianToy):
        def fit(self, X, y=None):
            begun.set()
            time.sleep(0.001)
            return super().fit(X, y)

    search = PrivateRandomSearchCV(Waits(), {"s": [1.0]}, n_iter=Fixed(100), error_score="raise")
    fitting = threading.Thread(target=search.fit, args=(X, Y))
    fitting.start()
    assert begun.wait(60)
    with contextlib.redirect_stdout(text):
        while fitting.is_alive():
            print("mine")
            printed += 1
            fitting.join(0.01)
    assert text.getvalue().count("mine") == printed > 3
