"""The loop: clipping, noise, independence, totality, and the three ways to per-row gradients."""

import math
import multiprocessing

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from joblib import Parallel, delayed  # noqa: E402

from skdptune.candidates.nets import MLP, DPNeuralNetClassifier, DPNeuralNetRegressor  # noqa: E402
from skdptune.candidates.nets import _engine as engine  # noqa: E402
from skdptune.candidates.nets import _per_sample as per_sample  # noqa: E402
from skdptune.candidates.nets._losses import RowLoss  # noqa: E402
from skdptune.candidates.nets._noise import GaussianNoise, PoissonSampler  # noqa: E402
from skdptune.candidates.nets._per_sample import MODES, clipper  # noqa: E402
from tests.candidates.nets.toys import (  # noqa: E402
    Frozen,
    Images,
    Positions,
    Raises,
    Reseeds,
    Small,
    Square,
    WithLayer,
)

ROWS = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
LABELS = (ROWS[:, 0] > 0).astype(int)
LOSS = RowLoss(torch.nn.CrossEntropyLoss(reduction="none"))
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")


def tensors(n=20, shape=(4,), n_classes=2, seed=0):
    generator = np.random.default_rng(seed)
    x = torch.from_numpy(generator.normal(size=(n, *shape)).astype(np.float32))
    return x, torch.from_numpy(generator.integers(0, n_classes, n))


def gradients_one_by_one(module, x, y):
    """The oracle: each row's gradient by plain differentiation."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    rows = []
    for i in range(len(y)):
        loss = LOSS(module(x[i : i + 1]), y[i : i + 1]).sum()
        rows.append([g.detach() for g in torch.autograd.grad(loss, parameters)])
    return rows


def clipped_one_by_one(module, x, y, bound):
    total = None
    for row in gradients_one_by_one(module, x, y):
        norm = math.sqrt(sum(float(g.double().pow(2).sum()) for g in row))
        factor = min(1.0, bound / norm) if norm > 0 else 1.0
        scaled = [factor * g for g in row]
        total = scaled if total is None else [a + b for a, b in zip(total, scaled, strict=True)]
    return total


MODULES = [
    (Small, (4,), 2),
    (Frozen, (4,), 2),
    (Images, (64,), 3),
    (Positions, (5, 3), 2),
    (lambda: MLP(4, 2, hidden=(3, 3)), (4,), 2),
]


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize(("make", "shape", "n_classes"), MODULES)
@pytest.mark.parametrize("bound", [1e-2, 1.0, 1e3])
def test_every_mode_sums_clipped_rows(mode, make, shape, n_classes, bound):
    torch.manual_seed(0)
    module = make().train()
    x, y = tensors(shape=shape, n_classes=n_classes)
    expected = clipped_one_by_one(module, x, y, bound)
    with clipper(mode, module, LOSS, [bound], strict=True) as clip:
        got = clip.clipped_sum(x, y)
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(b, a, check_dtype=False, rtol=2e-4, atol=2e-5 * bound)


@pytest.mark.parametrize("mode", sorted(MODES))
def test_no_row_exceeds_the_bound(mode):
    torch.manual_seed(0)
    module = Small().train()
    x, y = tensors(50)
    with clipper(mode, module, LOSS, [0.05], strict=True) as clip:
        for i in range(50):
            row = clip.clipped_sum(100 * x[i : i + 1], y[i : i + 1])
            norm = math.sqrt(sum(float(g.double().pow(2).sum()) for g in row))
            assert norm <= 0.05


def test_per_layer_bounds():
    torch.manual_seed(0)
    module = Small().train()
    x, y = tensors()
    bounds = [0.1, 0.2, 0.3, 0.4]
    expected = [torch.zeros_like(p) for p in module.parameters()]
    for row in gradients_one_by_one(module, x, y):
        for total, g, bound in zip(expected, row, bounds, strict=True):
            total += g * min(1.0, bound / float(g.norm()))
    for mode in ("hooks", "functorch"):
        with clipper(mode, module, LOSS, bounds, strict=True) as clip:
            for a, b in zip(expected, clip.clipped_sum(x, y), strict=True):
                torch.testing.assert_close(b, a, check_dtype=False, rtol=1e-4, atol=1e-5)


def test_per_layer_noise_covers_all_layers():
    net = DPNeuralNetClassifier(clipping="per_layer", max_grad_norm=[0.3, 0.4])
    bounds, sensitivity = engine.clipping_bounds(net, 2)
    assert bounds == [0.3, 0.4] and 0.5 <= sensitivity < 0.5 + 1e-12
    bounds, sensitivity = engine.clipping_bounds(net.set_params(max_grad_norm=0.5), 4)
    assert math.sqrt(sum(b * b for b in bounds)) <= sensitivity


@pytest.mark.parametrize("mode", sorted(MODES))
def test_rows_without_a_finite_gradient_contribute_zero(mode):
    torch.manual_seed(0)
    module = Square().train()
    x, y = tensors(6)
    with clipper(mode, module, LOSS, [1.0]) as clip:
        without = clip.clipped_sum(x[[0, 1, 3, 5]], y[[0, 1, 3, 5]])
        x[2], x[4] = 3.3e38, float("nan")
        got = clip.clipped_sum(x, y)
        none = clip.clipped_sum(x[[2, 4]], y[[2, 4]])
    for a, b, c in zip(without, got, none, strict=True):
        torch.testing.assert_close(b, a, check_dtype=False, rtol=1e-4, atol=1e-6)
        assert not c.any()


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_rows_that_make_the_module_raise_contribute_zero(mode):
    torch.manual_seed(0)
    module = Raises().train()
    x, y = tensors(7)
    with clipper(mode, module, LOSS, [1.0]) as clip:
        without = clip.clipped_sum(x[:5], y[:5])
        x[5:] = 1000.0
        got = clip.clipped_sum(x, y)
    for a, b in zip(without, got, strict=True):
        torch.testing.assert_close(b, a, check_dtype=False, rtol=1e-4, atol=1e-6)


def test_exhausted_memory_halves_the_batch_and_loses_no_row():
    class Tight(Small):
        def forward(self, x):
            if len(x) > 4:
                raise torch.OutOfMemoryError("simulated")
            return super().forward(x)

    torch.manual_seed(0)
    tight, free = Tight().train(), Small().train()
    free.load_state_dict(tight.state_dict())
    x, y = tensors(19)
    with clipper("hooks", tight, LOSS, [1.0]) as a, clipper("hooks", free, LOSS, [1.0]) as b:
        for got, expected in zip(a.clipped_sum(x, y), b.clipped_sum(x, y), strict=True):
            torch.testing.assert_close(got, expected, check_dtype=False, rtol=1e-4, atol=1e-6)

    class None_(Small):  # noqa: N801
        def forward(self, x):
            raise torch.OutOfMemoryError("simulated")

    with clipper("hooks", None_().train(), LOSS, [1.0]) as clip, pytest.raises(torch.OutOfMemoryError):
        clip.clipped_sum(x, y)


def test_the_clipper_leaves_no_trace():
    for mode in MODES:
        module = Small().train()
        with clipper(mode, module, LOSS, [1.0]) as clip:
            clip.clipped_sum(*tensors())
        fresh = Small()
        for p, q in zip(module.parameters(), fresh.parameters(), strict=True):
            assert p.grad is None and set(vars(p)) == set(vars(q))
        for a, b in zip(module.modules(), fresh.modules(), strict=True):
            assert set(vars(a)) == set(vars(b))
            assert not a._forward_hooks and not a._backward_hooks


def trained(seed, **params):
    """Weights after training under a fixed 256-bit seed."""
    net = DPNeuralNetClassifier(Small, **{"steps": 12, "expected_batch_size": 20, **params})
    _, task = net._task_of(LABELS)
    net._fit_private(ROWS, LABELS, task, seed)
    return torch.cat([p.detach().flatten() for p in net.module_.parameters()])


SEED = 7 << 200


@pytest.mark.parametrize(
    "params",
    [
        {"physical_batch_size": 3},
        {"physical_batch_size": 1},
        {"grad_sample_mode": "functorch"},
        {"grad_sample_mode": "ghost"},
        {"grad_sample_mode": "ghost", "physical_batch_size": 7},
    ],
)
def test_memory_and_mode_do_not_change_the_result(params):
    torch.testing.assert_close(trained(SEED, **params), trained(SEED), rtol=1e-3, atol=1e-4)


def test_equal_seeds_repeat_and_others_do_not():
    assert torch.equal(trained(SEED), trained(SEED))
    assert not torch.equal(trained(SEED), trained(SEED + 1))
    assert not torch.equal(trained(SEED), trained(SEED + (1 << 220)))  # no bit is dropped
    assert not torch.equal(trained(None), trained(None))


def test_seeds_that_share_32_or_64_bits_give_other_noise_and_coins():
    for shift in (32, 64, 127, 200):
        a, b = GaussianNoise(SEED), GaussianNoise(SEED + (1 << shift))
        assert not torch.equal(a.like(torch.zeros(3)), b.like(torch.zeros(3)))
        a, b = PoissonSampler(500, 0.5, SEED), PoissonSampler(500, 0.5, SEED + (1 << shift))
        assert not np.array_equal(a.draw(), b.draw())


def test_the_global_seed_of_torch_and_numpy_fixes_nothing():
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)
        results.append(trained(None))
    assert not torch.equal(*results)


def test_a_module_that_reseeds_torch_does_not_repeat_the_noise(monkeypatch):
    drawn = []

    class Watched(GaussianNoise):
        def like(self, tensor):
            noise = super().like(tensor)
            drawn.append(noise.flatten()[:2].clone())
            return noise

    monkeypatch.setattr(engine, "GaussianNoise", Watched)
    DPNeuralNetClassifier(WithLayer, module__layer=Reseeds, steps=10).fit(ROWS, LABELS)
    assert len({tuple(d.tolist()) for d in drawn}) == len(drawn)


def test_dropout_and_callers_generators_are_left_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    DPNeuralNetClassifier(Small, module__dropout=0.3, steps=3).fit(ROWS, LABELS)
    assert torch.equal(before, torch.random.get_rng_state())


def _draw(_):
    return GaussianNoise(None).like(torch.zeros(4)).tolist(), PoissonSampler(64, 0.5, None).draw().tolist()


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_draw_independently(backend):
    drawn = Parallel(n_jobs=2, backend=backend)(delayed(_draw)(i) for i in range(4))
    assert len({str(noise) for noise, _ in drawn}) == len({str(coins) for _, coins in drawn}) == 4


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_workers_draw_independently():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        drawn = pool.map(_draw, range(4), chunksize=1)
    assert len({str(noise) for noise, _ in drawn}) == 4


@pytest.mark.statistical
def test_the_noise_has_the_priced_scale():
    """Without rows in any batch, the weights move by noise alone: sigma C lr / L in each step."""
    net = DPNeuralNetClassifier(
        MLP, module__hidden=(200,), steps=1, sample_rate=1e-9, n_samples=10**9, noise_multiplier=3.0,
        max_grad_norm=0.5, lr=1.0,
    )
    _, task = net._task_of(LABELS)
    weights = []
    for lr in (0.0, 1.0):
        net.set_params(lr=lr)._fit_private(ROWS, LABELS, task, SEED)
        weights.append(torch.cat([p.detach().double().flatten() for p in net.module_.parameters()]))
    moved = (weights[1] - weights[0]).numpy()
    assert len(moved) > 1000
    assert abs(moved.std() / 1.5 - 1) < 5 / math.sqrt(2 * len(moved))
    assert abs(moved.mean()) < 5 * 1.5 / math.sqrt(len(moved))


@pytest.mark.statistical
def test_normals_are_normal():
    from scipy import stats

    sample = GaussianNoise(SEED).like(torch.zeros(20_000)).numpy()
    assert sample.dtype == np.float64
    assert stats.kstest(sample, "norm").pvalue > 1e-4


def test_frozen_weights_stay_and_the_rest_learns():
    frozen, learnt = [], []
    for lr in (0.0, 1.0):
        net = DPNeuralNetClassifier(Frozen, steps=5, lr=lr)
        _, task = net._task_of(LABELS)
        net._fit_private(ROWS, LABELS, task, SEED)
        frozen.append(net.module_.first.weight.detach())
        learnt.append(net.module_.last.weight.detach())
    assert torch.equal(*frozen) and not torch.equal(*learnt)


def test_callbacks_freeze_and_free_layers():
    from skorch.callbacks import Freezer, Initializer, Unfreezer

    zero = Initializer("first.weight", fn=torch.nn.init.zeros_, at=1)
    net = DPNeuralNetClassifier(Small, steps=6, sample_rate=0.5, callbacks=[zero, Freezer("first.*")])
    net.fit(ROWS, LABELS)
    assert not net.module_.first.weight.any() and net.module_.last.weight.any()
    net.set_params(callbacks=[zero, ("free", Freezer("first.*")), Unfreezer("first.*", at=2)]).fit(ROWS, LABELS)
    assert net.module_.first.weight.any()


def test_a_schedule_of_steps(monkeypatch):
    rates = []
    step = torch.optim.SGD.step

    def recording(self, *args, **kwargs):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.SGD, "step", recording)
    net = DPNeuralNetClassifier(Small, steps=4, lr=0.5, lr_schedule=_halve)
    net.fit(ROWS, LABELS)
    assert rates[-4:] == [0.5, 0.25, 0.125, 0.0625]


def _halve(step):
    return 0.5**step


@pytest.mark.parametrize(
    ("optimizer", "more"),
    [
        (torch.optim.Adam, {"lr": 0.05}),
        (torch.optim.SGD, {"optimizer__momentum": 0.9, "optimizer__nesterov": True}),
        (torch.optim.RMSprop, {"lr": 0.01, "optimizer__weight_decay": 1e-3}),
        (torch.optim.AdamW, {"optimizer__param_groups": [("first*", {"lr": 0.0})]}),
    ],
)
def test_first_order_optimizers(optimizer, more):
    net = DPNeuralNetClassifier(Small, optimizer=optimizer, steps=10, **more).fit(ROWS, LABELS)
    assert np.isfinite(net.predict_proba(ROWS)).all()


def test_one_row_does_not_move_more_than_its_bound():
    """Two neighbours under one seed: their weights differ by at most lr C / L in one step."""
    rows = ROWS.copy()
    rows[3] = 50.0
    moved = []
    for X in (ROWS, rows):
        net = DPNeuralNetClassifier(Small, steps=1, sample_rate=1.0, lr=1.0, max_grad_norm=0.7)
        _, task = net._task_of(LABELS)
        net._fit_private(X, LABELS, task, SEED)
        moved.append(torch.cat([p.detach().double().flatten() for p in net.module_.parameters()]))
    gap = float((moved[0] - moved[1]).norm())
    assert 0 < gap <= 2 * 0.7 / 60 * (1 + 1e-4)


def test_regression_learns():
    X = np.linspace(-1, 1, 400).reshape(-1, 1)
    net = DPNeuralNetRegressor(
        expected_batch_size=100, steps=300, noise_multiplier=0.2, target_bounds=(-3, 3), lr=0.3
    )
    assert net.fit(X, 2 * X[:, 0]).score(X, 2 * X[:, 0]) > 0.7


def test_training_in_a_worker_uses_one_thread(monkeypatch):
    monkeypatch.setattr(engine, "in_worker", lambda: True)
    torch.set_num_threads(2)
    with engine.one_thread_in_workers():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    monkeypatch.setattr(engine, "in_worker", lambda: False)
    with engine.one_thread_in_workers():
        assert torch.get_num_threads() == 2


def _inside(_):
    return engine.in_worker()


def test_workers_know_that_they_are_workers():
    assert not engine.in_worker()
    assert not any(Parallel(n_jobs=1)(delayed(_inside)(i) for i in range(2)))
    for backend in ("loky", "threading"):
        assert all(Parallel(n_jobs=2, backend=backend)(delayed(_inside)(i) for i in range(2)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    net = DPNeuralNetClassifier(Small, steps=10, device="cuda").fit(ROWS, LABELS)
    assert next(net.module_.parameters()).device.type == "cpu"
    assert net.predict(ROWS).shape == (60,)
    noise = GaussianNoise(SEED).like(torch.zeros(200_000, device="cuda"))
    assert abs(float(noise.std()) - 1) < 0.02


def test_devices_are_shared_in_turn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert engine.place("cuda") == torch.device("cuda", 0)
    monkeypatch.setattr(engine, "in_worker", lambda: True)
    for number in (1, 2, 7):
        monkeypatch.setattr(engine, "_worker_number", lambda number=number: number)
        assert engine.place("cuda") == torch.device("cuda", number % 4)
    assert engine.place("cuda:3") == torch.device("cuda", 3)
    assert per_sample.MODES.keys() == {"hooks", "functorch", "ghost", "rows"}
