"""Numbers at the edges: precision, scales, and settings of torch around a training."""

import contextlib
import math

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402

from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import MLP, DPNeuralNetClassifier  # noqa: E402
from skdptune.candidates.nets import _dry_run as dry_run_module  # noqa: E402
from skdptune.candidates.nets import _engine as engine  # noqa: E402
from skdptune.candidates.nets._losses import RowLoss  # noqa: E402
from skdptune.candidates.nets._per_sample import _factor, clipper  # noqa: E402
from tests.candidates.nets.toys import Small  # noqa: E402

ROWS = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
LABELS = (ROWS[:, 0] > 0).astype(int)
LOSS = RowLoss(nn.CrossEntropyLoss(reduction="none"))
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")


@pytest.fixture
def sums(monkeypatch):
    """Collect (number of rows, list of clipped sums) of every step of a training, not of a rehearsal."""
    seen = []
    plain = engine._Steps.sums

    def watching(self, batches):
        batches = list(batches)
        total = plain(self, batches)
        if self.noise is not None:
            seen.append((sum(len(y) for _, y in batches), [part.clone() for part in total]))
        return total

    monkeypatch.setattr(engine._Steps, "sums", watching)
    monkeypatch.setattr(dry_run_module._Rehearsal, "_check_steps", lambda self, terms: None)
    return seen


def length(parts):
    return math.sqrt(sum(float(part.double().pow(2).sum()) for part in parts))


AROUND = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost", "rows"])
@pytest.mark.parametrize("around", AROUND)
def test_what_the_caller_has_set_does_not_reach_the_loop(around, mode, sums):
    net = DPNeuralNetClassifier(Small, sample_rate=1.0, steps=1, grad_sample_mode=mode, lr=0.0, random_state=None)
    find_adapter(net).fit(ROWS, LABELS, classes=np.array([0, 1]), seed=1 << 200)
    with AROUND[around]():
        fitted = find_adapter(net).fit(ROWS, LABELS, classes=np.array([0, 1]), seed=1 << 200)
    (n, expected), (m, got) = sums
    assert n == m == 60 and 1.0 < length(expected)
    for a, b in zip(expected, got, strict=True):
        assert b.dtype == torch.float64
        torch.testing.assert_close(a, b)
    with AROUND[around]():
        assert fitted.predict(ROWS).shape == (60,)
    with AROUND[around]():
        net.fit(ROWS, LABELS)


@contextlib.contextmanager
def matmul_precision(name):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
def test_low_precision_products_do_not_lengthen_a_row(mode, monkeypatch):
    """One row many times over: the sum is as long as the number of rows, in units of the bound."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)).train()
    x = torch.from_numpy(np.repeat(30 * ROWS[:1], 256, axis=0))
    y = torch.zeros(256, dtype=torch.int64)
    # machines differ in where they round: the product is made as coarse as it may be
    coarse = torch.Tensor.__matmul__

    def rounded(a, b):
        return coarse(a, b) * (1 + 2**-8 if a.dtype == torch.float32 else 1)

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    with matmul_precision("medium"), clipper(mode, module, LOSS, [0.01], strict=True) as clip:
        assert length(clip.clipped_sum(x, y)) <= 256 * 0.01


class InHalf(Small):
    """Computes in 8 bits inside."""

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).float()


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
def test_a_module_that_computes_in_half_precision(mode, sums):
    net = DPNeuralNetClassifier(
        InHalf, sample_rate=0.02, steps=100, max_grad_norm=0.01, lr=0.0, classes=[0, 1], grad_sample_mode=mode
    )
    net.fit(ROWS, LABELS)
    alone = [length(parts) for n, parts in sums if n == 1]
    assert alone and 0 < max(alone) <= 0.01


def test_factors_never_round_up():
    norms = torch.tensor([0.0, 1.0, 4.0, 1e38, float("inf"), float("nan")])
    np.testing.assert_allclose(_factor(2.0, norms), [1.0, 1.0, 0.5, 2e-38, 0.0, 0.0], rtol=1e-6)
    assert _factor(1e-6, torch.tensor([3e38])).item() == 0.0  # 3.3e-45 has one bit, and would be a third too long


@pytest.mark.parametrize("size", [1e-25, 1e18])
def test_ghost_norms_of_tiny_and_huge_activations(size):
    """A product of two norms of which one under- or overflows in single precision."""
    module = nn.Sequential(nn.Linear(4, 2, bias=False)).train()
    criterion = RowLoss(nn.MSELoss(reduction="none"))
    x = torch.full((1, 4), size)
    y = torch.full((1, 2), 1e18)
    with clipper("ghost", module, criterion, [1e-9], strict=True) as clip:
        norms = clip.norms(x, y)
        assert float(norms[0]) > 0
        assert length(clip.clipped_sum(x, y)) <= 1e-9


def test_one_row_moves_a_long_sum_by_no_more_than_the_bound(sums):
    """In single precision the sum of 60,000 rows has steps of 0.004 of a row."""
    n = 60_000
    x = torch.tensor([[1.0, 0.3, -0.2, 0.5]]).repeat(n, 1)
    labels = np.zeros(n, dtype=int)
    template = nn.Sequential(nn.Linear(4, 2))
    for blank in (None, 30_000):
        rows = x.clone()
        if blank is not None:
            rows[blank] = float("nan")  # contributes zero
        net = DPNeuralNetClassifier(template, sample_rate=1.0, steps=1, max_grad_norm=0.1, classes=[0, 1])
        net.fit(rows, labels)
    (_, whole), (_, without) = sums
    assert length([a - b for a, b in zip(whole, without, strict=True)]) <= 0.1 * (1 + 1e-6)


class Writes(nn.Module):
    """Writes into its parameter, its buffer, when a row is large: no rehearsal need see it."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        if bool((x.abs() == 12345.0).any()):
            with torch.no_grad():
                self.last.weight.fill_(7.0)
                self.count += 1
        return self.last(x)


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_what_forward_writes_is_undone(mode, monkeypatch):
    monkeypatch.setattr("skdptune.candidates.nets._net.dry_run", lambda *args: None)
    rows = ROWS.copy()
    rows[:, 0] = 12345.0
    net = DPNeuralNetClassifier(Writes, sample_rate=1.0, steps=3, lr=0.0, grad_sample_mode=mode).fit(rows, LABELS)
    assert not (net.module_.last.weight == 7.0).any() and net.module_.count == 0
    net.predict(rows)
    assert not (net.module_.last.weight == 7.0).any() and net.module_.count == 0


def test_a_module_that_exits_on_a_row_does_not_stop_training():
    class Exits(MLP):
        def forward(self, x):
            if bool((x > 100).any()):
                raise SystemExit
            return super().forward(x)

    rows = ROWS.copy()
    rows[3] = 1e3
    net = DPNeuralNetClassifier(Exits, steps=3, sample_rate=1.0, grad_sample_mode="hooks")
    find_adapter(net).fit(rows, LABELS, classes=np.array([0, 1]), seed=None)
