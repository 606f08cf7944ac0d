"""Independence of the runs, and silence about everything but the winner."""

import collections
import contextlib
import gc
import io
import logging
import pickle
import sys
import threading
import warnings

import joblib
import numpy as np
import pytest
import scipy.stats

from skdptune import PrivateRandomSearchCV
from skdptune.model_selection import _engine, _quiet, _runs
from skdptune.model_selection._engine import Runner
from skdptune.run_counts import Finite, Fixed, Geometric
from tests.candidates.toys import GaussianToy, GlobalToy, PlantedToy

K = 100


@pytest.fixture
def rows():
    return np.arange(120.0).reshape(40, 3), np.arange(40) % 2


class Recorder(Runner):
    """Keeps what the runner normally forgets."""

    seen = []

    def _crew(self, *args):
        return super()._crew(*args[:-1], _engine._Held(None))  # no floor: every record arrives complete

    def _records(self, *args):
        for record in super()._records(*args):
            Recorder.seen.append(record)
            yield record


@pytest.fixture
def recorded(monkeypatch):
    Recorder.seen = []
    monkeypatch.setattr("skdptune.model_selection._search.Runner", Recorder)
    monkeypatch.setattr(PrivateRandomSearchCV, "_draw_run_count", lambda self, run_count, master: K)
    return Recorder.seen


class SeededGlobalToy(GlobalToy):
    """Its own noise comes from numpy's global generator; the template carries an integer seed."""


@pytest.mark.parametrize("backend", [None, "loky", "threading", "multiprocessing"])
@pytest.mark.parametrize("toy", [GaussianToy, GlobalToy])
def test_all_runs_have_their_own_noise(rows, recorded, backend, toy):
    np.random.seed(0)
    search = PrivateRandomSearchCV(toy(s=3.0, random_state=0), {"s": [3.0]})
    with joblib.parallel_config(backend=backend or "loky", n_jobs=2 if backend else 1):
        search.fit(*rows)
    draws = [record.model.z_ for record in recorded]
    assert len(draws) == K == len(set(draws))
    assert len({record.mark for record in recorded}) == K
    if toy is GaussianToy:
        assert scipy.stats.kstest(draws, "norm", args=(0, 3.0)).pvalue > 1e-6


def test_score_noises_of_the_runs_differ(rows, recorded):
    search = PrivateRandomSearchCV(GaussianToy(s=3.0), {"s": [3.0]}, score_noise=1000.0)
    search.fit(*rows)
    assert len({record.score for record in recorded}) > 0.9 * K


def test_a_fixed_global_seed_fixes_nothing(rows):
    found = set()
    for _ in range(3):
        np.random.seed(123)
        found.add(PrivateRandomSearchCV(GlobalToy(), {"s": [3.0]}, n_iter=Fixed(1)).fit(*rows).best_estimator_.z_)
    assert len(found) == 3


def test_the_callers_global_generator_does_not_feel_the_runs(rows):
    np.random.seed(5)
    PrivateRandomSearchCV(GlobalToy(), {"s": [3.0]}, n_iter=Fixed(7)).fit(*rows)
    after = np.random.normal()
    np.random.seed(5)
    assert after == np.random.normal()


@pytest.mark.statistical
def test_the_drawn_number_of_tries_follows_its_law():
    run_count = Geometric(4)
    search = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]})
    draws = collections.Counter(search._draw_run_count(run_count, seed) for seed in range(4000))
    top = 20
    observed = [draws[k] for k in range(1, top)]
    expected = [4000 * run_count.pmf(k) for k in range(1, top)]
    observed.append(4000 - sum(observed))
    expected.append(4000 - sum(expected))
    assert scipy.stats.chisquare(observed, expected).pvalue > 1e-4
    assert len({search._draw_run_count(Geometric(1e6), None) for _ in range(5)}) > 1


class Noisy(GaussianToy):
    """Prints, warns and logs in every fit."""

    def fit(self, X, y=None):
        print("fitting")
        print("fitting", file=sys.stderr)
        warnings.warn("a warning of a run")
        return super().fit(X, y)


@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_streams_and_warnings_do_not_depend_on_the_number_of_tries(rows, backend, capfd, caplog, monkeypatch):
    outputs = []
    for count in (1, 40):
        monkeypatch.setattr(PrivateRandomSearchCV, "_draw_run_count", lambda self, run_count, master, k=count: k)
        caplog.clear()
        with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.INFO):
            warnings.simplefilter("always")
            with joblib.parallel_config(backend=backend, n_jobs=2):
                search = PrivateRandomSearchCV(Noisy(), {"s": [3.0]}).fit(*rows)
        streams = capfd.readouterr()
        own = [w for w in caught if "a warning of a run" in str(w.message) or "skdptune" in w.filename]
        outputs.append((streams.out, streams.err, len(own), len(caplog.records), sorted(vars(search))))
    assert outputs[0] == outputs[1]
    assert outputs[0][:4] == ("", "", 0, 0)


class Lingering(GaussianToy):
    """Leaves an object in a reference cycle that speaks when it is collected."""

    def fit(self, X, y=None):
        class Part:
            def __del__(self):
                sys.stderr.write("gone\n")

        part = Part()
        part.me = part
        return super().fit(X, y)


@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_what_tries_leave_behind_is_collected_in_silence(rows, backend, capfd):
    gc.disable()  # here; otherwise much of it goes by chance
    try:
        with joblib.parallel_config(backend=backend, n_jobs=2):
            PrivateRandomSearchCV(Lingering(), {"s": [3.0]}, n_iter=Fixed(6)).fit(*rows)
        gc.collect()
        joblib.Parallel(2)(joblib.delayed(gc.collect)() for _ in range(8 if backend == "loky" else 0))
    finally:
        gc.enable()
    assert "gone" not in capfd.readouterr().err


def test_a_pickle_holds_one_model_and_nothing_of_the_rows(monkeypatch):
    # Losers carry s = 7; a recognisable row and label are planted.
    X = np.full((40, 3), 12345.678901)
    y = np.arange(40) % 2
    monkeypatch.setattr(PrivateRandomSearchCV, "_draw_run_count", lambda *args: 1103)
    search = PrivateRandomSearchCV(PlantedToy(), {"s": [3.0, 3.5]}, n_iter=Geometric(5))
    search.fit(X, y)
    data = pickle.dumps(search)
    assert X[0].tobytes()[:8] not in data and b"12345.678" not in data
    assert 1103 not in list(_integers(search)) and b"1103" not in data
    assert data.count(b"z_") == 1


def _integers(value, depth=4):
    """Yield every integer found in attributes, containers and parameters."""
    if isinstance(value, int):
        yield value
    elif depth:
        inside = list(getattr(value, "__dict__", {}).values())
        inside += list(value.values()) if isinstance(value, dict) else []
        inside += list(value) if isinstance(value, (list, tuple, set)) else []
        for item in inside:
            yield from _integers(item, depth - 1)


def test_debug_logs_are_for_the_curator_who_asks(rows, caplog):
    class Failing(GaussianToy):
        def fit(self, X, y=None):
            raise RuntimeError("cell 42")

    search = PrivateRandomSearchCV(Failing(), {"s": [3.0]}, n_iter=Fixed(2))
    with pytest.raises(Exception, match="every try failed"):
        search.fit(*rows)
    assert "cell 42" not in caplog.text
    with caplog.at_level(logging.DEBUG, logger="skdptune.curator"), pytest.raises(Exception, match="every try"):
        search.fit(*rows)
    assert "cell 42" in caplog.text and "curator only" in caplog.text


def test_ties_are_broken_by_marks_not_by_position(rows, recorded):
    class Same(GaussianToy):
        def _draw(self):
            return 1.0

    search = PrivateRandomSearchCV(Same(), {"s": [1.0, 2.0]}, score_noise=0.05)
    search.fit(*rows)
    best = max(recorded, key=lambda record: (record.score, record.mark))
    assert search.best_params_ == best.params
    assert all(record.mark < 2**128 for record in recorded)


class Unraisable:
    def __del__(self):
        raise ValueError


class Hooked(GaussianToy):
    """Fails in a finalizer and in a thread, in every try."""

    def fit(self, X, y=None):
        Unraisable()
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        return super().fit(X, y)


@pytest.mark.parametrize("backend", [None, "threading"])
def test_hooks_for_errors_that_nobody_catches_count_no_tries(rows, backend, monkeypatch):
    called = []
    monkeypatch.setattr(sys, "unraisablehook", called.append)
    monkeypatch.setattr(threading, "excepthook", called.append)
    search = PrivateRandomSearchCV(Hooked(s=3.0), {"s": [3.0]}, n_iter=Fixed(4), n_jobs=2 if backend else None)
    with joblib.parallel_config(backend) if backend else contextlib.nullcontext():
        search.fit(*rows)
    assert called == []
    Unraisable()
    assert len(called) == 1  # as before
    called.clear()


def test_quiet_nests_and_restores():
    out = sys.stdout
    with _quiet.quiet():
        with _quiet.quiet():
            print("lost")
        assert sys.stdout is not out
        assert isinstance(sys.stdout, io.TextIOBase)
    assert sys.stdout is out


def test_records_of_failed_runs_hold_no_text():
    record = _runs.RunRecord(-np.inf, 3, None, failure="ValueError")
    assert record.rank < _runs.RunRecord(-1e300, 0, {}).rank


def test_finite_run_counts_may_be_zero(rows):
    search = PrivateRandomSearchCV(GaussianToy(), {"s": [3.0]}, n_iter=Finite([0.5, 0.5]))
    assert search.fit(*rows).n_features_in_ == 3
