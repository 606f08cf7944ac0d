"""Rows that fail, and batches too large for the memory: what the other rows get must not tell."""

import asyncio
import random

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402

from skdptune._exceptions import CandidateRefusedError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import DPNeuralNetClassifier  # noqa: E402
from skdptune.candidates.nets._failing import RowsThatFail  # noqa: E402
from skdptune.candidates.nets._losses import RowLoss  # noqa: E402
from skdptune.candidates.nets._per_sample import clipper  # noqa: E402
from tests.candidates.nets.toys import Small  # noqa: E402

CROSS, BINARY = RowLoss(nn.CrossEntropyLoss(reduction="none")), RowLoss(nn.BCELoss(reduction="none"))
CLASSES = np.array([0, 1])


def sums(mode, module, loss, x, y, calls=20):
    """Sums of several batches, from the same seeds each time."""
    with clipper(mode, module.train(), loss, [0.1], seeds=np.random.default_rng(1)) as clip:
        found = [torch.cat([part.flatten() for part in clip.clipped_sum(x, y)]) for _ in range(calls)]
    return torch.stack(found)


def moved(mode, module, loss, x, row, y, **more):
    """How far each sum moves when the first row becomes another."""
    other = x.clone()
    other[0] = row
    a, b = (sums(mode, module, loss, rows, y, **more) for rows in (x, other))
    return (a - b).norm(dim=1)


def fragile():
    """A known module whose output has no number for huge rows where dropout keeps both columns."""
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1), nn.Sigmoid())
    nn.init.constant_(module[1].weight, 2.0)
    return module


@pytest.mark.parametrize("mode", ["hooks", "ghost", "functorch"])
def test_probabilities_that_are_none_fail_by_themselves(mode, monkeypatch):
    monkeypatch.setattr(RowsThatFail, "_apart", None)  # nothing is gone through again
    x = torch.tensor([[3e37, -3e37]]).repeat(12, 1)
    x[:6] = torch.tensor([0.3, -0.2])
    far = moved(mode, fragile(), BINARY, x, torch.tensor([float("inf"), -float("inf")]), torch.ones(12))
    assert 0 < float(far.max()) <= 0.1
    x[:] = float("nan")
    assert not sums(mode, fragile(), BINARY, x, torch.ones(12), calls=2).any()
    assert not sums(mode, fragile(), BINARY, torch.zeros(12, 2), torch.full((12,), 1.5), calls=2).any()


@pytest.mark.parametrize("mode", ["hooks", "ghost", "functorch"])
def test_codes_outside_the_table_of_a_known_module_fail_by_themselves(mode, monkeypatch):
    monkeypatch.setattr(RowsThatFail, "_apart", None)
    module = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Dropout(0.5), nn.Linear(6, 2))
    x, y = torch.arange(24).reshape(12, 2) % 5, torch.arange(12) % 2
    for code in (5, -1, 10**9):
        other = torch.tensor([2, code])
        assert 0 < float(moved(mode, module, CROSS, x, other, y, calls=3).max()) <= 0.1
        x[:] = other
        assert not sums(mode, module, CROSS, x, y, calls=1).any()
        x = torch.arange(24).reshape(12, 2) % 5


class Singular(nn.Module):
    """Inverts a number that is zero for rows of ones under some masks, and always for rows of twos."""

    def __init__(self):
        super().__init__()
        self.drop, self.last = nn.Dropout(0.9), nn.Linear(2, 2)

    def forward(self, x):
        kept = self.drop(torch.ones_like(x[:, :1])) > 0
        number = torch.where(((x[:, :1] == 1) & kept) | (x[:, :1] == 2), 0.0, 1.0)
        return torch.linalg.inv(number.unsqueeze(-1)).squeeze(-1) * self.last(x)


@pytest.mark.parametrize("mode", ["functorch", "hooks", "ghost", "rows"])
def test_a_row_that_fails_leaves_the_others_as_they_are(mode):
    """Also those that fail under some masks: they fail under the same ones, whatever the others do."""
    x, y = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
    x[0] = 3.0
    far = moved(mode, Singular(), CROSS, x, torch.full((2,), 2.0), y, calls=40)
    assert 0 < float(far.max()) <= 0.1
    failed = sums(mode, Singular(), CROSS, torch.full((3, 2), 2.0), y[:3], calls=1)
    assert not failed.any()


class Hungry(nn.Module):
    """Has no memory for more than six rows, nor for certain ones."""

    def __init__(self):
        super().__init__()
        self.drop, self.last, self.sizes = nn.Dropout(0.5), nn.Linear(2, 2), SIZES

    def forward(self, x):
        self.sizes.append(len(x))
        if len(x) > 6 or bool((x == 99).any()):
            raise torch.OutOfMemoryError("simulated")
        return self.last(self.drop(x))


class Shared(list):
    def __deepcopy__(self, memo):
        return self


SIZES = Shared()


def test_too_little_memory_is_told_from_a_row():
    x, y = torch.ones(20, 2), torch.arange(20) % 2
    far = moved("hooks", Hungry(), CROSS, x, torch.full((2,), 99.0), y, calls=6)
    assert 0 < float(far.max()) <= 0.1
    SIZES.clear()
    sums("hooks", Hungry(), CROSS, x, y, calls=5)
    assert SIZES[:4] == [20, 20, 10, 10] and SIZES.count(20) == 2  # later batches start with pieces
    assert SIZES[-4:] == [5] * 4


class Panic(BaseException):
    """As libraries in other languages raise it: no Exception."""


class Raises(Small):
    error = Panic

    def forward(self, x):
        if bool((x[:, 0] > 100).any()):
            raise self.error
        return super().forward(x)


@pytest.mark.parametrize("mode", ["hooks", "rows"])
@pytest.mark.parametrize("error", [Panic, asyncio.CancelledError, SystemExit, GeneratorExit])
def test_whatever_a_row_raises_it_counts_zero(mode, error):
    module, x, y = Raises(), torch.ones(4, 4), torch.arange(4) % 2
    Raises.error = error
    x[2] = 1e3
    with clipper(mode, module.train(), CROSS, [0.1]) as clip:
        got, expected = clip.clipped_sum(x, y), clip.clipped_sum(x[[0, 1, 3]], y[[0, 1, 3]])
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_an_interruption_ends_the_training():
    Raises.error = KeyboardInterrupt
    x, y = torch.full((4, 4), 1e3), torch.arange(4) % 2
    for mode in ("hooks", "rows"):
        with clipper(mode, Raises().train(), CROSS, [0.1]) as clip, pytest.raises(KeyboardInterrupt):
            clip.clipped_sum(x, y)


class Draws(Small):
    """Skips its layers at random, once for the batch."""

    generator = random

    def forward(self, x):
        return (1.0 if not self.training or self.generator.random() < 0.5 else -1.0) * super().forward(x)


class DrawsInBackward(Small):
    def forward(self, x):
        out = super().forward(x)
        if out.requires_grad:
            out.register_hook(lambda g: g * random.random())
        return out


@pytest.mark.parametrize("mode", ["auto", "functorch", "hooks", "ghost"])
@pytest.mark.parametrize("generator", [random, np.random])
def test_draws_that_rows_would_share_are_refused(mode, generator, monkeypatch):
    monkeypatch.setattr(Draws, "generator", generator)
    name = "Python's random" if generator is random else "numpy.random"
    with pytest.raises(CandidateRefusedError, match=f"draw from {name}.*torch.rand.*'rows'"):
        find_adapter(DPNeuralNetClassifier(Draws, grad_sample_mode=mode)).check_data(50, 4, CLASSES)


def test_draws_in_backward_and_draws_of_single_rows():
    with pytest.raises(CandidateRefusedError, match="draw from Python's random"):
        find_adapter(DPNeuralNetClassifier(DrawsInBackward, grad_sample_mode="hooks")).check_data(50, 4, CLASSES)
    find_adapter(DPNeuralNetClassifier(Draws, grad_sample_mode="rows")).check_data(50, 4, CLASSES)
    x, y = torch.ones(30, 4), torch.zeros(30, dtype=torch.int64)
    far = sums("rows", Draws(), CROSS, x, y, calls=4).norm(dim=1)
    assert float(far.max()) < 2.9  # each row has tossed its own coin


def test_what_is_assumed_of_errors_and_draws_is_said():
    def said(**params):
        return " ".join(find_adapter(DPNeuralNetClassifier(**params)).assumptions("zero-out"))

    for words in ("raises an error for a row depends on that row", "none from Python's or numpy's", "Predictions of"):
        assert words in said(module=Small) and words in said(module=Small, grad_sample_mode="hooks")
        assert words not in said() and words not in said(module=Small, grad_sample_mode="rows")
    assert "Predictions of" in said(predict_nonlinearity=torch.exp)


class Stub(RowsThatFail):
    """Fails for rows that are 1, and notes from which seeds such a row was asked by itself."""

    def __init__(self):
        self.alone = []

    def zeros(self):
        return [torch.zeros(1)]

    def _attempt(self, x, y, fine, path):
        if bool((x == 1).any()):
            if len(y) == 1:
                self.alone.append(path)
            raise RuntimeError
        return [x.sum().reshape(1) if fine is None else x[fine].sum().reshape(1)]


def test_a_row_has_as_many_tries_in_a_batch_of_one_as_in_any_other():
    lone, pair = Stub(), Stub()
    assert lone._whole(torch.tensor([[1.0]]), torch.zeros(1))[0] == 0
    assert lone.alone == [(), (0,)]  # the batch, and the row again
    assert pair._whole(torch.tensor([[1.0], [0.5]]), torch.zeros(2))[0] == 0.5
    assert pair.alone == [(0,)]  # after the batch


# ---- memory of the CPU, for which torch has no class

FULL = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to ..."


class NeedsMemory(Small):
    """Finds no memory for more than some rows, or for a row that begins with 9."""

    most = 5

    def forward(self, x):
        if len(x) > self.most or bool((x[:, 0] == 9).any()):
            raise RuntimeError(FULL)
        return super().forward(x)


def test_a_batch_too_large_for_the_cpu_goes_in_pieces():
    x, y = torch.randn(16, 4, generator=torch.Generator().manual_seed(0)), torch.arange(16) % 2
    torch.manual_seed(0)
    module = NeedsMemory()
    found = sums("hooks", module, CROSS, x, y, calls=1)
    module.most = 99
    torch.testing.assert_close(found, sums("hooks", module, CROSS, x, y, calls=1))
    with clipper("hooks", module.train(), CROSS, [0.1], seeds=np.random.default_rng(1)) as clip:
        module.most = 5
        clip.clipped_sum(x, y)
        assert clip._most == 4


def test_memory_that_one_row_exhausts_on_the_cpu():
    x, y = torch.ones(4, 4), torch.arange(4) % 2
    module = NeedsMemory()
    module.most = 0
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
        sums("hooks", module, CROSS, x, y, calls=1)
    module.most = 5
    x[0] = 9.0  # it is the row, and its affair alone
    other = x.clone()
    other[0] = 10.0
    a, b = (sums("hooks", module, CROSS, rows, y) for rows in (x, other))
    assert float((a - b).norm(dim=1).max()) <= 0.1 + 1e-6
    assert float(a.norm(dim=1).min()) > 0
