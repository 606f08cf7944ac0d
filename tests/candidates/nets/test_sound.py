"""That no row reaches another: clipped sums against rows taken one by one, for modules made to break it."""

import copy
import math

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402

from skdptune._exceptions import CandidateRefusedError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import MLP, DPNeuralNetClassifier, LinearModel, TemperedSigmoid  # noqa: E402
from skdptune.candidates.nets._known import is_known, resolve_mode  # noqa: E402
from skdptune.candidates.nets._losses import RowLoss  # noqa: E402
from skdptune.candidates.nets._per_sample import MODES, clipper, slice_rows  # noqa: E402
from tests.candidates.nets.toys import Images, Positions, Raises, Small, TwoInputs, Words  # noqa: E402

CROSS, SQUARE = RowLoss(nn.CrossEntropyLoss(reduction="none")), RowLoss(nn.MSELoss(reduction="none"))
CAPTURED = ["hooks", "ghost"]
ALL = sorted(MODES)


def flat(parts):
    return torch.cat([part.double().flatten() for part in parts])


def one_by_one(module, loss, x, y, bound):
    """The oracle: every row alone, on a module of its own, by plain differentiation; what fails counts zero."""
    total = 0
    for i in range(len(y)):
        own = copy.deepcopy(module)
        parameters = [p for p in own.parameters() if p.requires_grad]
        row = copy.deepcopy(slice_rows(x, slice(i, i + 1)))
        try:
            value = loss(own(**row) if isinstance(row, dict) else own(row), y[i : i + 1]).sum()
            found = torch.autograd.grad(value, parameters, allow_unused=True)
        except (IndexError, ValueError, MemoryError):
            continue
        finally:
            torch.set_grad_enabled(True)
        g = flat([torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)])
        if bool(torch.isfinite(g).all()):
            total = total + g * min(1.0, bound / max(float(g.norm()), 1e-300))
    return total


def agrees(mode, module, loss, x, y, bound=0.1, calls=1):
    module = module.train()
    expected = one_by_one(module, loss, x, y, bound)
    with clipper(mode, module, loss, [bound], seeds=np.random.default_rng(0)) as clip:
        for _ in range(calls):
            got = flat(clip.clipped_sum(x, y))
    assert float(expected.norm()) > 0
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4 * bound)


def rows(n=12, d=4, seed=0, classes=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator), torch.randint(0, classes, (n,), generator=generator)


class Gate(nn.Module):
    """Skips a layer where no row of the batch needs it."""

    def __init__(self):
        super().__init__()
        self.base, self.extra = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        out, on = self.base(x), x[:, 0] > 0
        return out + on[:, None] * self.extra(x) if bool(on.any()) else out


@pytest.mark.parametrize("mode", CAPTURED)
@pytest.mark.parametrize("flagged", [0, 1])
def test_a_layer_that_no_row_needs(mode, flagged):
    x, y = rows()
    x[:, 0] = -1
    x[:flagged, 0] = 1
    agrees(mode, Gate(), CROSS, x, y)


class Refine(nn.Module):
    """Applies its layer to all rows, and again to those with a sentinel."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 2)

    def forward(self, x):
        out, missing = self.cell(x), x[:, 0] == -1
        if bool(missing.any()):
            again = x[missing].clone()
            again[:, 0] = 0
            out = out.index_add(0, missing.nonzero()[:, 0], self.cell(again))
        return out


@pytest.mark.parametrize("mode", CAPTURED)
@pytest.mark.parametrize("marked", [[], [5], [2, 7, 11], list(range(12))])
def test_a_layer_that_sees_some_rows_twice(mode, marked):
    x, y = rows()
    x[marked, 0] = -1
    agrees(mode, Refine(), CROSS, x, y)


class Padded(nn.Module):
    """A recurrent layer over packed sequences."""

    def __init__(self):
        from opacus.layers import DPLSTM

        super().__init__()
        self.rnn, self.last = DPLSTM(2, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x):
        lengths = (x.abs().sum(2) > 0).sum(1).clamp(min=1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return self.last(self.rnn(packed)[1][0][-1])


@pytest.mark.parametrize("mode", CAPTURED)
def test_packed_sequences_are_refused(mode):
    net = DPNeuralNetClassifier(Padded, grad_sample_mode=mode)
    with pytest.raises(CandidateRefusedError, match="must not be given packed sequences"):
        find_adapter(net).check_data(50, (3, 2), np.array([0, 1]))


class Clamped(nn.Module):
    """Clamps a gradient on its way back."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        out = self.first(x)
        out.register_hook(lambda g: g.clamp(-0.01, 0.01))
        return self.last(torch.tanh(out))


class Checkpointed(nn.Module):
    """Draws other masks where a segment is computed again."""

    def __init__(self):
        super().__init__()
        self.last, self.drop = nn.Linear(4, 2), nn.Dropout(0.5)

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        return checkpoint(lambda h: self.drop(h * h), self.last(x), use_reentrant=False, preserve_rng_state=False)


class Elsewhere(nn.Module):
    """Uses a weight outside its layer too."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 2)

    def forward(self, x):
        return self.a(x) + 1e-4 * nn.functional.linear(x**2, self.a.weight)


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("make", [Clamped, Checkpointed, Elsewhere])
def test_one_row_never_exceeds_the_bound(mode, make):
    if mode == "functorch" and make is not Elsewhere:
        pytest.skip("not to be differentiated by vmap")
    torch.manual_seed(0)
    with clipper(mode, make().train(), CROSS, [0.1], seeds=np.random.default_rng(0)) as clip:
        for size in (1e-3, 1.0, 1e3, 1e6):
            for x in size * rows(6)[0]:
                assert float(flat(clip.clipped_sum(x[None], torch.tensor([1]))).norm()) <= 0.1


class DividesInPlace(nn.Module):
    def __init__(self, n_outputs=2):
        super().__init__()
        self.embed, self.last = nn.Embedding(5, n_outputs), nn.Linear(4, n_outputs)

    def forward(self, image, code):
        image.div_(255.0)
        return self.last(image) + self.embed(code)[:, 0]


@pytest.mark.parametrize("mode", ALL)
def test_rows_that_are_worked_on_in_place_are_copies(mode):
    x, y = rows()
    batch = {"image": 255 * x, "code": torch.arange(12).reshape(12, 1) % 5}
    agrees(mode, DividesInPlace(), CROSS, batch, y)
    batch["code"][7] = 99  # fails, and the others are gone through again
    agrees(mode, DividesInPlace(), CROSS, batch, y, calls=2)
    batch["code"][7], batch["image"][3] = 0, math.inf  # has no finite gradient
    agrees(mode, DividesInPlace(), CROSS, batch, y)


class Counts(nn.Module):
    """Turns round after some calls."""

    def __init__(self):
        super().__init__()
        self.embed, self.calls, self.seen = nn.Embedding(5, 2), 0, []

    def forward(self, x):
        self.calls += 1
        self.seen.append(self.calls)
        return (1.0 if self.calls + len(self.seen) < 5 else -1.0) * self.embed(x)[:, 0]


class LeavesModes(nn.Module):
    """Changes modes, and a row may raise in between."""

    def __init__(self):
        super().__init__()
        self.embed, self.last = nn.Embedding(5, 4), nn.Linear(4, 2)
        self.embed.weight.requires_grad_(False)

    def forward(self, x):
        self.eval()
        self.last.weight.requires_grad_(False)
        torch.set_grad_enabled(False)
        h = self.embed(x)[:, 0]
        torch.set_grad_enabled(True)
        self.last.weight.requires_grad_(True)
        self.train()
        return self.last(h)


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("make", [Counts, LeavesModes])
@pytest.mark.parametrize("bad", [False, True])
def test_calls_leave_no_trace(mode, make, bad):
    if make is LeavesModes and mode == "functorch":
        pytest.skip("vmap forbids it")
    x, y = torch.arange(12).reshape(12, 1) % 5, rows()[1]
    if bad:
        x[7] = 99
    agrees(mode, make(), CROSS, x, y, calls=6)


@pytest.mark.parametrize("mode", ["hooks", "ghost", "functorch"])
def test_the_others_are_the_same_to_the_bit_when_a_row_fails(mode):
    """Masks of dropout included: it is the others' positions and seeds that count."""
    module = nn.Sequential(nn.Embedding(5, 6), nn.Flatten(), nn.Dropout(0.5), nn.Linear(6, 2)).train()
    x, y = torch.arange(40).reshape(40, 1) % 5, rows(40)[1]
    sums = []
    for code in (3, 99):
        x[7] = code
        with clipper(mode, module, CROSS, [0.1], seeds=np.random.default_rng(0)) as clip:
            sums.append(flat(clip.clipped_sum(x, y)))
    assert 0 < float((sums[0] - sums[1]).norm()) <= 0.1 * (1 + 1e-12)


class Hungry(Small):
    def forward(self, x):
        if bool((x[:, 0] > 100).any()):
            raise MemoryError
        return super().forward(x)


def test_a_row_that_exhausts_the_memory_by_itself_counts_zero():
    x, y = rows()
    x[3] = 1e3
    agrees("hooks", Hungry(), CROSS, x, y)


def test_many_failing_rows_take_few_calls():
    class Slow(Raises):
        calls = 0

        def forward(self, x):
            Slow.calls += 1
            return super().forward(x)

    x, y = rows(64)
    x[5] = 1e3
    with clipper("hooks", Slow().train(), CROSS, [0.1]) as clip:
        clip.clipped_sum(x, y)
        assert Slow.calls <= 16
        x[:] = 1e3
        clip.clipped_sum(x, y)
        assert Slow.calls <= 16 + 192  # each among made-up rows, by halving, and by itself


class InPlaceLayers(nn.Module):
    """Works in place on what layers return, the first one included."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 2)

    def forward(self, x):
        x = nn.functional.relu_(self.first(x))
        return self.last(nn.functional.relu_(self.second(x)))


class Twice(nn.Module):
    """One layer called twice, and its weight tied to another's."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.last(torch.tanh(self.b(torch.tanh(self.a(torch.tanh(self.a(x)))))))


class Spoils(nn.Module):
    """Changes what a layer has seen."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 2)

    def forward(self, x):
        x = x + 0
        out = self.a(x)
        x.mul_(2.0)
        return out


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("make", [InPlaceLayers, Twice])
def test_layers_in_place_and_shared(mode, make):
    torch.manual_seed(0)
    agrees(mode, make(), CROSS, *rows())


@pytest.mark.parametrize("mode", CAPTURED)
def test_inputs_changed_afterwards_are_refused(mode):
    with pytest.raises(CandidateRefusedError, match="must not be changed in place afterwards"):
        find_adapter(DPNeuralNetClassifier(Spoils, grad_sample_mode=mode)).check_data(50, 4, np.array([0, 1]))


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("d", [50, 300])
def test_a_row_more_moves_the_sum_by_no_more_than_the_bound(mode, d):
    """Without a row all others change places (add-remove): nothing but its own gradient may be missing."""
    module = nn.Sequential(nn.Linear(d, 1, bias=False)).train()
    nn.init.zeros_(module[0].weight)
    n = 200 if mode == "rows" else 3000  # nothing there depends on the size of the batch
    x = 1 + 0.3 * torch.rand(n, d, generator=torch.Generator().manual_seed(0))
    y = torch.full((n,), 5.0)
    with clipper(mode, module, SQUARE, [0.7]) as clip:
        whole = flat(clip.clipped_sum(x, y))
        for drop in (0, n // 2):
            keep = torch.arange(n) != drop
            missing = whole - flat(clip.clipped_sum(x[keep], y[keep]))
            assert 0.69 < float(missing.norm()) <= 0.7
            own = flat(clip.clipped_sum(x[drop : drop + 1], y[drop : drop + 1]))
            assert float((missing - own).norm()) < 1e-10


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("value", [0.37, 0.1, 1e-3])
def test_norms_of_large_layers(mode, value):
    module = nn.Sequential(nn.Linear(2_000_001, 1, bias=False)).train()
    nn.init.zeros_(module[0].weight)
    with clipper(mode, module, SQUARE, [1.0]) as clip:
        x = torch.full((1, 2_000_001), value)
        assert 0.999 < float(flat(clip.clipped_sum(x, torch.tensor([5.0]))).norm()) <= 1.0


@pytest.mark.parametrize("make", [Small, Images, Positions, Twice, Gate])
def test_ghost_sums_what_it_measured(make, monkeypatch):
    """A few rows at a time, in portions that do not divide the batch."""
    monkeypatch.setattr("skdptune.candidates.nets._per_sample._FORMED", 300)
    torch.manual_seed(0)
    shape = {Images: (13, 64), Positions: (13, 5, 3)}.get(make, (13, 4))
    x, y = torch.randn(shape), torch.arange(13) % 2
    agrees("ghost", make(), CROSS, x, y)
    x[4] = float("nan")
    agrees("ghost", make(), CROSS, x, y)


# ---- which way is taken

KNOWN = [
    MLP(4, 2), LinearModel(4, 2, feature_bounds=(0, 1)), nn.Linear(3, 2),
    nn.Sequential(nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), TemperedSigmoid(),
                  nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(2, 2), nn.Softmax(dim=-1)),
    nn.Sequential(nn.Embedding(5, 3), nn.LayerNorm(3), nn.Flatten(), nn.Linear(9, 2)),
]  # fmt: skip


class LikeLinear(nn.Linear):
    pass


def overridden():
    layer = nn.Linear(4, 2)
    layer.forward = lambda x: x - x.mean(0)
    return layer


UNKNOWN = [
    Small(), LikeLinear(4, 2), overridden(), nn.Sequential(nn.Flatten(0), nn.Linear(4, 2)),
    nn.Sequential(nn.Unflatten(0, (2, 2)), nn.Linear(4, 2)), nn.Sequential(nn.Softmax(0)), nn.Sequential(nn.Softmax()),
    nn.Sequential(nn.Softmax2d()), nn.BatchNorm1d(3), nn.LSTM(3, 2), nn.MultiheadAttention(4, 2),
    nn.Embedding(5, 3, max_norm=1.0), nn.Conv1d(2, 2, 3, padding_mode="circular"), nn.LayerNorm(4, bias=False),
    nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)),
]  # fmt: skip


def test_only_known_modules_go_through_as_a_batch():
    loss = nn.CrossEntropyLoss()
    for module in KNOWN:
        assert is_known(module, loss) and resolve_mode("auto", module, loss) == "hooks", module
    for module in UNKNOWN:
        assert not is_known(module) and resolve_mode("auto", module, loss) == "functorch", module
    hooked = nn.Linear(4, 2)
    hooked.register_forward_hook(lambda *args: None)
    assert not is_known(hooked) and not is_known(nn.Linear(4, 2), type("Mine", (nn.MSELoss,), {})())
    assert resolve_mode("ghost", Small(), loss) == "ghost"


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Conv1d(4, 4, 1), nn.Linear(6, 2)),
        nn.Sequential(nn.LayerNorm((4, 6)), nn.Linear(6, 2)),
        nn.Sequential(nn.Linear(6, 2), nn.LogSoftmax(-2)),
    ],
)
def test_layers_that_would_take_rows_for_channels(module):
    """On batches of just four rows torch would not complain; each row alone has no gradient then."""
    x, y = rows(4, 6)
    with (
        clipper("auto", module.train(), CROSS, [0.1], strict=True) as clip,
        pytest.raises(CandidateRefusedError, match="it would take the rows for something else"),
    ):
        clip.clipped_sum(x, y)
    with clipper("auto", module, CROSS, [0.1]) as clip:
        assert not flat(clip.clipped_sum(x, y)).any()
    with pytest.raises(CandidateRefusedError):
        find_adapter(DPNeuralNetClassifier(module)).check_data(50, 6, np.array([0, 1]))


def test_what_is_assumed_is_said():
    def said(**params):
        return " ".join(find_adapter(DPNeuralNetClassifier(**params)).assumptions("zero-out"))

    assert "criterion of DPNeuralNetClassifier treat each row" not in said(module=Small)
    assert "keeps nothing from one call" in said(module=Small)
    assert "by itself: checked on random rows, not proved" in said(module=Small, grad_sample_mode="hooks")
    net = find_adapter(DPNeuralNetClassifier(n_samples=100))
    assert any("to the same bits" in sentence for sentence in net.assumptions("add-remove"))
    for mode in ("auto", "hooks", "ghost", "functorch"):
        assert "by itself" not in said(grad_sample_mode=mode) and "keeps nothing" not in said(grad_sample_mode=mode)


def test_auto_trains_what_it_is_given():
    X = np.random.default_rng(0).normal(size=(30, 4))
    y = np.arange(30) % 2
    for module in (Small, MLP, Twice, nn.Sequential(nn.Linear(4, 2))):
        assert DPNeuralNetClassifier(module, steps=2).fit(X, y).predict(X).shape == (30,)
    DPNeuralNetClassifier(Words, input_dtype="int64", steps=2).fit(np.ones((30, 3), int), y)
    DPNeuralNetClassifier(TwoInputs, steps=2).fit({"table": X[:, :3], "word": np.ones((30, 2), int)}, y)
    with pytest.raises(CandidateRefusedError, match=r"differentiable row by row.*grad_sample_mode='hooks'"):
        DPNeuralNetClassifier(Gate, steps=2).fit(X, y)


# ---- what the rehearsal finds where rows meet in a batch


def behind(function, training_only=False):
    class Behind(nn.Module):
        def __init__(self, width=4):
            super().__init__()
            self.last = nn.Linear(width, 2)

        def forward(self, x):
            return self.last(function(x) if self.training or not training_only else x)

    return Behind


def sometimes_mixed(x):
    return 0.5 * x + 0.5 * x[torch.randperm(len(x))] if float(torch.rand(())) < 0.3 else x


def mixed(x):
    share = torch.distributions.Beta(0.2, 0.2).sample()
    return share * x + (1 - share) * x[torch.randperm(len(x))]


def small(x):
    return 1e-9 * (x - x.mean(0))


def sentinel(x):
    return x - x.mean(0) if bool((x == -1).any()) else x


def padding(x):
    return x / (1 + int((x != 0).sum(1).max()))


@pytest.mark.parametrize("mode", CAPTURED)
@pytest.mark.parametrize("function", [sometimes_mixed, mixed, small, sentinel, padding])
def test_rare_coupling_is_found(mode, function):
    net = DPNeuralNetClassifier(behind(function, function in (sometimes_mixed, mixed)), grad_sample_mode=mode)
    with pytest.raises(CandidateRefusedError, match="changing one row changes the|number of rows"):
        find_adapter(net).check_data(50, 4, np.array([0, 1]))


class Rescales(Small):
    """Clips the gradient of a whole batch on its way back, or blanks it where one row's is broken."""

    blank = False

    def forward(self, x):
        h = torch.tanh(self.first(x)) if self.blank else 3 * self.first(x)
        if h.requires_grad and not self.blank:
            h.register_hook(lambda g: g * (10.0 / g.norm()).clamp(max=1.0))
        elif h.requires_grad:
            h.register_hook(lambda g: g if torch.isfinite(g).all() else torch.zeros_like(g))
        return self.last(h)


class Blanks(Rescales):
    blank = True


@pytest.mark.parametrize("module", [Rescales, Blanks])
def test_coupling_of_large_gradients_is_found(module):
    from skdptune.candidates.nets import DPNeuralNetRegressor

    net = DPNeuralNetRegressor(module, module__n_outputs=1, grad_sample_mode="hooks")
    with pytest.raises(CandidateRefusedError, match="changing one row changes the gradient"):
        find_adapter(net).check_data(50, 4, None)


class Bytes(nn.Module):
    def __init__(self, n_outputs):
        super().__init__()
        self.last = nn.Linear(4, n_outputs)

    def forward(self, image):
        image = image.float()
        return self.last((image / 255 if bool(image.max() > 1) else image).flatten(1))


class Trimmed(nn.Module):
    """Cuts the batch behind its longest text; token 2 ends one."""

    def __init__(self, n_outputs):
        super().__init__()
        self.embed, self.last = nn.Embedding(50, 3), nn.Linear(3, n_outputs)

    def forward(self, x):
        longest = int((x == 2).int().argmax(1).max()) + 1
        return self.last(self.embed(x[:, :longest]).mean(1))


def test_whole_numbers_are_rehearsed_over_a_wide_range():
    for net, shape in [
        (DPNeuralNetClassifier(Bytes, grad_sample_mode="hooks"), {"image": ((2, 2), True)}),
        (DPNeuralNetClassifier(Trimmed, grad_sample_mode="hooks", input_dtype="int64"), 20),
    ]:
        with pytest.raises(CandidateRefusedError, match="changing one row changes the"):
            find_adapter(net).check_data(50, shape, np.array([0, 1]))


class Changes(Small):
    centre = False

    def forward(self, x):
        return super().forward(x - x.mean(0) if self.centre else x)


def test_code_that_changes_behind_its_name_is_rehearsed_again(monkeypatch):
    X, y = rows(20)[0].numpy(), np.arange(20) % 2
    net = DPNeuralNetClassifier(Changes, steps=1, grad_sample_mode="hooks").fit(X, y)
    monkeypatch.setattr(Changes, "centre", True)
    with pytest.raises(CandidateRefusedError, match="changing one row changes the output"):
        net.fit(X, y)


def test_bounds_hold_for_every_row_of_a_mixed_batch():
    """What a batch adds up to is the sum of what its rows add alone."""
    torch.manual_seed(0)
    module = Small().train()
    x, y = rows(30)
    x *= torch.logspace(-3, 6, 30)[:, None]
    for mode in ALL:
        with clipper(mode, module, CROSS, [0.5]) as clip:
            alone = [flat(clip.clipped_sum(x[i : i + 1], y[i : i + 1])) for i in range(30)]
            assert max(float(a.norm()) for a in alone) <= 0.5
            torch.testing.assert_close(flat(clip.clipped_sum(x, y)), sum(alone), rtol=1e-4, atol=1e-5)
            assert math.isclose(float(sum(alone).norm()), float(flat(clip.clipped_sum(x, y)).norm()), rel_tol=1e-3)


class Recurrent(Padded):
    """The same on whole sequences."""

    def forward(self, x):
        return self.last(self.rnn(x)[0][:, -1])


@pytest.mark.parametrize("mode", CAPTURED)
def test_recurrent_layers(mode):
    x = torch.randn(9, 5, 2, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    agrees(mode, Recurrent(), CROSS, x, torch.arange(9) % 2)
    find_adapter(DPNeuralNetClassifier(Recurrent, grad_sample_mode=mode)).check_data(50, (3, 2), np.array([0, 1]))
