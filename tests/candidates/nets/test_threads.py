"""Trainings in threads of one process: known modules touch no generator of others, and code of one's own is refused."""

import functools
import random
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from joblib import parallel_config
from skorch.callbacks import Initializer
from torch import nn

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._generators import (
    SharedProcessError,
    isolated_global_generators,
    shares_its_process,
    tries_share_a_process,
)
from skdptune.candidates.nets import DPNeuralNetClassifier, DPNeuralNetRegressor, _building
from skdptune.candidates.nets._building import build_module
from skdptune.candidates.nets._losses import RowLoss
from skdptune.candidates.nets._per_sample import clipper
from skdptune.ledger import PrivacyLedger
from skdptune.model_selection import _preflight
from skdptune.run_counts import Fixed

from .toys import Small

X = np.random.default_rng(0).normal(size=(60, 4))
Y = (X[:, 0] > 0).astype(int)
LOSS = RowLoss(nn.CrossEntropyLoss(reduction="none"))


class Busy:
    """Another thread with a run under way, that draws nothing."""

    def __enter__(self):
        started, self._over = threading.Event(), threading.Event()

        def run():
            with isolated_global_generators():
                started.set()
                self._over.wait(20)

        self._thread = threading.Thread(target=run)
        self._thread.start()
        started.wait(20)

    def __exit__(self, *exc_info):
        self._over.set()
        self._thread.join()


def layers(n_features_in, n_outputs):
    return nn.Sequential(nn.Linear(n_features_in, 3), nn.Dropout(0.5), nn.Linear(3, n_outputs))


def drawn(n_features_in, n_outputs):
    made = layers(n_features_in, n_outputs)
    with torch.no_grad():
        made[0].weight.copy_(torch.from_numpy(np.random.normal(size=(3, n_features_in))))  # noqa: NPY002
    return made


def drawn_by_python(n_features_in, n_outputs):
    return nn.Sequential(nn.Dropout(random.random() / 2), nn.LazyLinear(n_outputs))


class Maker:
    """Makes a module, counts its calls, and has another run begin in the first ones; forgotten with the test."""

    def __init__(self, draws=False, begins=0):
        self.calls, self.runs = 0, []

        def make(n_features_in, n_outputs, widths=(), more=()):
            self.calls += 1
            if self.calls <= begins:
                self.runs.append(Busy())
                self.runs[-1].__enter__()
            if draws:
                np.random.normal()  # noqa: NPY002
            made, width = [], n_features_in
            while widths:
                made.append(nn.Linear(width, widths[0]))
                width = widths.pop(0)
            return nn.Sequential(*made, nn.Linear(width, n_outputs))

        self.make = make

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for run in self.runs:
            run.__exit__()

    def build(self, **settings):
        return build_module(DPNeuralNetClassifier(self.make, **settings), 4, 2, seed=1)


def states():
    return np.random.get_state()[1].tolist(), np.random.get_state()[2], random.getstate()  # noqa: NPY002


@pytest.mark.parametrize("module", [None, layers])
def test_known_modules_touch_no_generator_of_numpy_and_python(module, monkeypatch):
    settings = {} if module is None else {"module": module}
    with Busy():
        before = states()

        def never(*args):
            raise AssertionError

        with monkeypatch.context() as patch:
            for where, name in ((np.random, "seed"), (np.random, "set_state"), (random, "seed"), (random, "setstate")):
                patch.setattr(where, name, never)
            DPNeuralNetClassifier(steps=3, optimizer__momentum=0.123, **settings).fit(X, Y)
        assert states() == before


@pytest.mark.parametrize("mode", ["auto", "hooks", "rows"])
def test_code_of_ones_own_is_refused_beside_another_run(mode):
    net = DPNeuralNetClassifier(Small, steps=2, grad_sample_mode=mode)
    with Busy():
        before = states()
        with pytest.raises(SharedProcessError, match=r"own must not run while another .* engine of processes"):
            net.fit(X, Y)
        assert states() == before
    net.fit(X, Y)
    with Busy(), pytest.raises(SharedProcessError):
        net.fit(X, Y)  # a dry run made before changes nothing


def at_random(parameter):
    parameter.data.fill_(np.random.rand())  # noqa: NPY002


def test_a_callback_of_ones_own_is_code_of_ones_own():
    nets = [DPNeuralNetClassifier(steps=1, callbacks=[Initializer("*", fn=fn, at=1)]) for fn in
            (at_random, functools.partial(at_random), nn.init.zeros_)]  # fmt: skip
    before = states()
    for net in nets:
        net.fit(X, Y)
        assert states() == before
    with Busy():
        for net in nets[:2]:
            with pytest.raises(SharedProcessError):
                net.fit(X, Y)
        nets[2].fit(X, Y)


def test_a_run_that_begins_meanwhile_ends_the_training_and_is_no_failing_row():
    x, y = torch.ones(3, 4), torch.arange(3) % 2
    for mode in ("functorch", "hooks", "rows"):
        with clipper(mode, Small().train(), LOSS, [1.0], seeds=np.random.default_rng(0)) as clip:
            clip.clipped_sum(x, y)
            with Busy(), pytest.raises(SharedProcessError):
                clip.clipped_sum(x, y)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"module": Small}, "engine of processes"),
        ({"module": Small, "grad_sample_mode": "rows"}, "engine of processes"),
        ({"module": drawn}, "constructor of the module .* must draw with torch"),
        ({"module": drawn_by_python}, "constructor of the module .* must draw with torch"),
    ],
)
def test_a_search_in_threads_is_refused_before_the_charge(settings, words, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.json", epsilon=50, delta=1e-3)
    net = DPNeuralNetClassifier(steps=2, expected_batch_size=20, **settings)
    search = PrivateRandomSearchCV(net, {"lr": [0.1, 0.5]}, n_iter=2, classes=[0, 1], n_jobs=2, ledger=ledger)
    with parallel_config(backend="threading"), pytest.raises(CandidateRefusedError, match=words):
        search.fit(X, Y)
    assert not ledger.entries()
    with parallel_config(backend="threading"):
        search.set_params(n_jobs=1).fit(X, Y)  # one after the other


def test_known_modules_are_searched_in_threads():
    net = DPNeuralNetClassifier(layers, steps=2, expected_batch_size=20)
    search = PrivateRandomSearchCV(net, {"lr": [0.1, 0.5]}, n_iter=Fixed(30), classes=[0, 1], n_jobs=2)
    with parallel_config(backend="threading"):
        assert np.isfinite(search.fit(X, Y).best_score_)


def test_engines_whose_workers_have_several_threads(monkeypatch):
    def engine(**more):
        monkeypatch.setattr(_preflight, "get_active_backend", lambda: (SimpleNamespace(**more), 2))
        monkeypatch.setattr(_preflight.joblib, "effective_n_jobs", lambda n_jobs: n_jobs)
        return _preflight._in_threads(2, None)

    assert engine(supports_sharedmem=True)
    assert engine(client=SimpleNamespace(nthreads=lambda: {"a": 1, "b": 2}))
    assert not engine(client=SimpleNamespace(nthreads=lambda: {"a": 1, "b": 1}))
    assert not engine()
    engine(supports_sharedmem=True)
    assert not _preflight._in_threads(1, None)
    assert not _preflight._in_threads(2, 60.0)


def test_what_is_told_of_shared_processes():
    assert not shares_its_process()
    with tries_share_a_process():
        assert shares_its_process()
        assert not shares_its_process(now=True)
        with pytest.raises(SharedProcessError):
            DPNeuralNetRegressor(Small, module__n_outputs=1, steps=2).fit(X, X[:, 0])
    with Busy():
        assert shares_its_process(now=True)


@pytest.mark.parametrize("as_partial", [False, True])
def test_every_attempt_to_build_has_arguments_of_its_own(as_partial):
    with Maker(begins=1) as maker:  # what the first attempt took out of the list is there in the second
        if as_partial:
            make = functools.partial(maker.make, widths=[8, 5])
            built = build_module(DPNeuralNetClassifier(make), 4, 2, seed=1)
        else:
            built = maker.build(module__widths=[8, 5])
    assert maker.calls == 2
    assert [layer.out_features for layer in built] == [8, 5, 2]


def test_a_constructor_that_draws_is_called_once():
    with tries_share_a_process(), Maker(draws=True) as maker:
        for _ in range(2):
            with pytest.raises(SharedProcessError, match="constructor of the module .* must draw with torch"):
                maker.build(module__more=2)
            assert maker.calls == 1  # the second time it is remembered
    with Maker(draws=True) as maker:
        maker.build()  # alone it may, and not beside another run
        with Busy(), pytest.raises(SharedProcessError):
            maker.build()
        assert maker.calls == 1


@pytest.mark.parametrize("shared", [True, False])
def test_a_constructor_that_draws_is_refused_where_a_run_begins_meanwhile(shared):
    with tries_share_a_process(shared), Maker(draws=True, begins=1) as maker:
        with pytest.raises(SharedProcessError, match="or another thread drew"):
            maker.build()
        assert 1 < maker.calls <= _building._BUILDS
    with tries_share_a_process(shared), Maker(draws=True) as maker, Busy(), pytest.raises(SharedProcessError):
        maker.build(module__more=[{}])  # no plain value, by which it could be remembered


def test_a_quiet_constructor_is_built_beside_other_runs_that_begin():
    with tries_share_a_process(), Maker(begins=2) as maker:
        maker.build()
        assert maker.calls == 3
    with Maker(begins=10) as maker, pytest.raises(SharedProcessError):
        maker.build()  # never to be seen without a run that begins
    with Maker() as maker:
        maker.build()
        before = maker.calls
        for _ in range(3):
            with Busy():
                maker.build()
        assert maker.calls == before + 3


def test_what_others_draw_does_not_tell_against_a_constructor_seen_before():
    drawing = threading.Event()

    def draw():
        with isolated_global_generators():
            while not drawing.wait(0):
                random.random()

    def slow(n_features_in, n_outputs):
        before = random.getstate()
        while another.is_alive() and random.getstate() == before:
            pass
        return layers(n_features_in, n_outputs)

    another = threading.Thread(target=draw)
    net = DPNeuralNetClassifier(slow)
    build_module(net, 4, 2, seed=1)
    another.start()
    try:
        assert isinstance(build_module(net, 4, 2, seed=1), nn.Sequential)
        with pytest.raises(SharedProcessError):
            build_module(net, 5, 2, seed=1)  # of these arguments nothing is known
    finally:
        drawing.set()
        another.join()


def test_a_run_that_begins_each_time_fails_no_build(monkeypatch):
    def begins(self):
        raise SharedProcessError

    monkeypatch.setattr(_building, "shares_its_process", lambda now=False: False)
    monkeypatch.setattr("skdptune.candidates._generators._GlobalGenerators.borrow", begins)
    with Maker() as maker:
        maker.build()
        assert maker.calls == 1
