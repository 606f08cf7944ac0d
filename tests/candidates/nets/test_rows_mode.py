"""grad_sample_mode="rows": each row by itself, whatever the module does."""

import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402

from skdptune import PrivateRandomSearchCV  # noqa: E402
from skdptune._exceptions import CandidateRefusedError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import MLP, DPNeuralNetClassifier  # noqa: E402
from skdptune.candidates.nets._modules import run_module_by_rows  # noqa: E402
from skdptune.candidates.nets._per_sample import clipper  # noqa: E402
from skdptune.run_counts import Fixed  # noqa: E402
from tests.candidates.nets.test_sound import CROSS, Gate, Padded, agrees, flat, rows  # noqa: E402
from tests.candidates.nets.toys import Small  # noqa: E402

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
Y = np.where(X[:, 0] > 0, "up", "down")
CLASSES = np.array(["down", "up"])


class Recurrent(nn.Module):
    """A recurrent layer of torch itself, over three positions."""

    def __init__(self, kind=nn.GRU, n_outputs=2):
        super().__init__()
        self.rnn, self.last = kind(2, 3, batch_first=True), nn.Linear(3, n_outputs)

    def forward(self, x):
        return self.last(self.rnn(x)[0][:, -1])


class Experts(nn.Module):
    """A mixture of two experts; one that no row of the batch needs is skipped."""

    def __init__(self, n_outputs=2):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, n_outputs) for _ in range(2))

    def forward(self, x):
        out = 0
        for number, expert in enumerate(self.experts):
            mine = ((x[:, 0] > 0).long() == number)[:, None]
            if bool(mine.any()):
                out = out + mine * expert(x)
        return out


class Decides(Small):
    """Takes numbers out of tensors, of the batch as a whole."""

    def forward(self, x):
        scale = 2.0 if x.sum().item() > 0 else 0.5
        return super().forward(scale * x)


class Scripted(nn.Module):
    """Is compiled by torch.jit, decisions included, and counts its calls."""

    def __init__(self, n_outputs=2):
        super().__init__()
        self.last, self.calls = nn.Linear(4, n_outputs), 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 1 or bool(x.sum() > 0):
            return -2.0 * self.last(x)
        return self.last(x)


def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(Scripted())


class Doubled(torch.autograd.Function):
    """Brings no rule for vmap."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


class OwnFunction(Small):
    def forward(self, x):
        return Doubled.apply(super().forward(x))


class Remembering(Small):
    """Keeps what it has seen in a list and in a buffer, and what it has seen changes what comes out."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.seen.append(x.detach().clone())
        self.total += x.detach().sum(0)
        return super().forward(x + self.total - x.detach().sum(0) + 0.1 * (len(self.seen) - 1))


class Catches(Small):
    """Goes another way where an error comes, which in a batch is any row's."""

    def forward(self, x):
        try:
            if bool((x[:, 1] > 1).any()):
                raise ArithmeticError
        except ArithmeticError:
            x = 0.1 * x
        return super().forward(x)


DECIDING = [Experts, Decides, scripted, OwnFunction, Remembering, Gate, Catches]


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN, None])
def test_recurrent_layers(kind):
    torch.manual_seed(0)
    x = torch.randn(7, 3, 2, generator=torch.Generator().manual_seed(1))
    x[3, 1:] = 0
    agrees("rows", Padded() if kind is None else Recurrent(kind), CROSS, x, torch.arange(7) % 2)


@pytest.mark.parametrize("make", DECIDING)
def test_sums_are_those_of_the_rows(make):
    torch.manual_seed(0)
    agrees("rows", make(), CROSS, *rows(), calls=3)


@pytest.mark.parametrize("clipping", ["flat", "per_layer"])
def test_the_same_as_functorch_up_to_rounding(clipping):
    torch.manual_seed(0)
    module, (x, y) = Small().train(), rows(20)
    x *= torch.logspace(-3, 3, 20)[:, None]
    bounds = [0.3] if clipping == "flat" else [0.1, 0.2, 0.3, 0.4]
    sums = []
    for mode in ("functorch", "rows"):
        with clipper(mode, module, CROSS, bounds, seeds=np.random.default_rng(0)) as clip:
            sums.append(flat(clip.clipped_sum(x, y)))
            assert sums[-1].dtype == torch.float64
    torch.testing.assert_close(*sums, rtol=1e-4, atol=1e-6)
    nets = [
        find_adapter(DPNeuralNetClassifier(Small, steps=4, clipping=clipping, grad_sample_mode=mode))
        for mode in ("functorch", "rows")
    ]
    weights = [net.fit(X, Y, classes=CLASSES, seed=7 << 200).module_.last.weight for net in nets]
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [Experts, Gate])
def test_a_rare_row_moves_the_sum_by_its_own_gradient_alone(make):
    """In a batch it would decide whether anybody trains the second expert."""
    torch.manual_seed(0)
    x, y = torch.zeros(200, 4), torch.ones(200, dtype=torch.int64)
    x[:, 1:] = torch.randn(200, 3)
    with clipper("rows", make().train(), CROSS, [0.1], seeds=np.random.default_rng(0)) as clip:
        before = flat(clip.clipped_sum(x, y))
        own = flat(clip.clipped_sum(x[7:8], y[7:8]))
        x[7, 0] = 1.0
        after, new = flat(clip.clipped_sum(x, y)), flat(clip.clipped_sum(x[7:8], y[7:8]))
    assert 0 < float(new.norm()) <= 0.1
    torch.testing.assert_close(after - before, new - own, rtol=0, atol=1e-12)


class Masked(nn.Module):
    """Draws a mask for each row, more of them for some, and may fix the seed of those to come."""

    drawn = []  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(32, 2)

    def forward(self, x):
        if bool((x > 100).any()):
            torch.rand(11)
        if bool((x > 1000).any()):
            torch.manual_seed(0)
        mask = (torch.rand(len(x), 32) > 0.5).float()
        Masked.drawn.append(mask)
        return self.last(mask * x[:, :1])


@pytest.mark.parametrize("strange", [0.0, 500.0, 5000.0])
def test_masks_of_rows_are_independent(strange):
    module, x = Masked().train(), torch.ones(20, 4)
    y = torch.zeros(20, dtype=torch.int64)
    x[[7, 12]] = strange
    Masked.drawn.clear()
    with clipper("rows", module, CROSS, [0.1], seeds=np.random.default_rng(0)) as clip:
        for _ in range(2):
            clip.clipped_sum(x, y)
    masks = torch.cat(Masked.drawn)
    kept = [i for i in range(40) if i % 20 not in (7, 12)]
    assert len({tuple(mask.tolist()) for mask in masks[kept]}) == 36
    assert 0.35 < float(masks[kept].mean()) < 0.65
    x[[7, 12]] = 0.0  # whatever these rows do, the others draw as before
    Masked.drawn.clear()
    with clipper("rows", module, CROSS, [0.1], seeds=np.random.default_rng(0)) as clip:
        for _ in range(2):
            clip.clipped_sum(x, y)
    assert torch.equal(masks[kept], torch.cat(Masked.drawn)[kept])


class Fails(Small):
    calls = 0
    error = ValueError

    def forward(self, x):
        Fails.calls += 1
        if bool((x[:, 0] > 100).any()) or Fails.error is torch.OutOfMemoryError:
            raise Fails.error("this row")
        return super().forward(x)


@pytest.mark.parametrize("error", [ValueError, SystemExit, MemoryError])
def test_a_row_that_fails_counts_zero_and_costs_no_other(error, monkeypatch):
    monkeypatch.setattr(Fails, "error", error)
    module, (x, y) = Fails().train(), rows(64)
    kept = torch.arange(64) % 13 != 5
    x[~kept, 0] = 1e3
    with clipper("rows", module, CROSS, [0.1], seeds=np.random.default_rng(0)) as clip:
        Fails.calls = 0
        got = clip.clipped_sum(x, y)
        assert Fails.calls <= 64 + 3 * 5  # once more by itself, and made-up rows where the memory was to blame
        torch.testing.assert_close(flat(got), flat(clip.clipped_sum(x[kept], y[kept])))
        assert not flat(clip.clipped_sum(x[~kept], y[~kept])).any()


def test_memory_that_no_row_finds_ends_the_run(monkeypatch):
    monkeypatch.setattr(Fails, "error", torch.OutOfMemoryError)
    with (
        clipper("rows", Fails().train(), CROSS, [0.1], seeds=np.random.default_rng(0)) as clip,
        pytest.raises(torch.OutOfMemoryError),
    ):
        clip.clipped_sum(*rows())


def test_one_row_is_held_at_a_time(monkeypatch):
    """However large the batch: no stack of gradients, no list of copies."""
    from skdptune.candidates.nets import _per_sample as per_sample

    sizes = []
    lengths = per_sample._lengths
    monkeypatch.setattr(per_sample, "_lengths", lambda g: sizes.append(len(g)) or lengths(g))
    with clipper("rows", Small().train(), CROSS, [0.1], seeds=np.random.default_rng(0)) as clip:
        clip.clipped_sum(*rows(30))
    assert set(sizes) == {1} and len(sizes) == 30 * 4


class Spare(Small):
    """Trains one part for some rows only, and nothing for others."""

    def forward(self, x):
        out = super().forward(x)
        return out if bool(x[0, 0] > 0) else out.detach()


def test_rows_that_use_no_parameter_count_zero():
    x, y = rows()
    agrees_with = x[:, 0] > 0
    with clipper("rows", Spare().train(), CROSS, [0.1], strict=True) as clip:
        torch.testing.assert_close(flat(clip.clipped_sum(x, y)), flat(clip.clipped_sum(x[agrees_with], y[agrees_with])))
        assert not flat(clip.clipped_sum(x[~agrees_with], y[~agrees_with])).any()


class Peeks(Small):
    """Looks for the batch that its row was cut from."""

    def forward(self, x):
        whole = x if x._base is None else x._base
        assert len(whole) == 1
        return super().forward(x)


def test_a_row_does_not_lead_back_to_its_batch():
    x, y = rows()
    with clipper("rows", Peeks().train(), CROSS, [0.1], strict=True) as clip:
        assert flat(clip.clipped_sum(x, y)).any()
        assert len(clip.gradients(x, y)[0]) == 12
    assert run_module_by_rows(Peeks(), x).shape == (12, 2)


# ---- fit, predictions, release


@pytest.mark.parametrize("make", DECIDING)
def test_predictions_are_made_row_by_row_too(make):
    net = DPNeuralNetClassifier(make, steps=3, grad_sample_mode="rows").fit(X, Y)
    whole = net.predict_proba(X)
    np.testing.assert_array_equal(whole[::-1], net.predict_proba(X[::-1]))
    np.testing.assert_array_equal(whole[:1], net.predict_proba(X[:1]))
    again = pickle.loads(pickle.dumps(net)).set_params(grad_sample_mode="hooks")  # until the next fit
    np.testing.assert_array_equal(whole, again.predict_proba(X))
    assert net.infer(torch.from_numpy(X)).shape == (60, 2)
    for name, buffer in net.module_.named_buffers():
        assert not buffer.any(), name
    assert not getattr(net.module_, "seen", None)


class Two(nn.Module):
    def forward(self, a, b):
        return a - a.mean(0), b.sum(0, keepdim=True)


class Filters(nn.Module):
    def forward(self, x):
        return x[x[:, 0] > 0]


def test_dicts_and_tuples_go_row_by_row():
    first, second = run_module_by_rows(Two(), {"a": torch.ones(3, 2), "b": torch.arange(6.0).reshape(3, 2)})
    assert not first.any() and second.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    with pytest.raises(CandidateRefusedError, match="one row of outputs for each row"):
        run_module_by_rows(Filters(), torch.tensor([[1.0], [-1.0]]))


def test_a_search_with_two_jobs():
    net = DPNeuralNetClassifier(Experts, expected_batch_size=10, steps=3, grad_sample_mode="rows")
    search = PrivateRandomSearchCV(net, {"lr": [0.1, 1.0]}, n_iter=Fixed(2), n_jobs=2, classes=CLASSES).fit(X, Y)
    plain = PrivateRandomSearchCV(
        net.set_params(grad_sample_mode="functorch"), {"lr": [0.1, 1.0]}, n_iter=Fixed(2), classes=CLASSES
    )
    assert search.privacy_spent_.epsilon(1e-5) == plain.privacy_cost(n_samples=60).epsilon(1e-5)
    best = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(best.predict(X), search.predict(X))
    said = " ".join(search.privacy_spent_.assumptions)
    assert "keeps nothing from one call" in said and "treat each row by itself" not in said and "vmap" not in said
    told = " ".join(plain.privacy_cost(n_samples=60).assumptions)
    assert "Under torch.func.vmap" in told and "catches no error" in told


def test_what_is_assumed_is_said():
    for module, more in ((Experts, 1), (MLP, 0)):
        adapter = find_adapter(DPNeuralNetClassifier(module, grad_sample_mode="rows", n_samples=50))
        said = adapter.assumptions("add-remove")
        assert sum("closures" in sentence for sentence in said) == more
        assert not any("to the same bits" in sentence or "not proved" in sentence for sentence in said)


# ---- what is rehearsed, and what is refused


def rehearse(module, shape=4, mode="rows", **params):
    adapter = find_adapter(DPNeuralNetClassifier(module, grad_sample_mode=mode, **params))
    adapter.check("zero-out")
    adapter.check_data(50, shape, np.array([0, 1]))


class Squeezes(Small):
    def forward(self, x):
        return super().forward(x).squeeze()


class Raises(Small):
    def forward(self, x):
        raise RuntimeError("always")


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2).requires_grad_(False)

    def forward(self, x):
        return self.last(x)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Squeezes, "one row of outputs for each row"),
        (lambda: Small(n_outputs=5), "must return 2 outputs per row"),
        (Raises, "raised RuntimeError: always. No private row was read"),
        (Frozen, "must have a parameter to train"),
        (lambda: nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)), "BatchNorm normalises a row by the others"),
        (lambda: nn.Linear(4, 2).to(torch.bfloat16), "must be float32 or float64"),
        (scripted(), "must be one that can be pickled; got a ScriptModule"),
    ],
)
def test_what_cannot_be_trained_is_refused(module, message):
    with pytest.raises(CandidateRefusedError, match=message):
        rehearse(module)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")  # of torch, once a process
@pytest.mark.parametrize(
    ("module", "shape", "mode"),
    [
        (Recurrent, (3, 2), "auto"),
        (OwnFunction, 4, "auto"),
        (Experts, 4, "functorch"),
        (Decides, 4, "auto"),
        (scripted, 4, "auto"),
        (Padded, (3, 2), "hooks"),
    ],
)
def test_where_another_way_is_refused_this_one_is_named(module, shape, mode):
    with pytest.raises(CandidateRefusedError, match="grad_sample_mode='rows'"):
        rehearse(module, shape, mode)
    rehearse(module, shape)


def test_recurrent_layers_of_opacus_are_named():
    with pytest.raises(CandidateRefusedError, match=r"some hundred rows a second.*DPGRU, DPLSTM and DPRNN.*'hooks'"):
        rehearse(Recurrent, (3, 2), "auto")


def compiled():
    module = nn.Sequential(nn.Linear(4, 2))
    module[0]._compiled_call_impl = module[0]._call_impl  # what module.compile() leaves behind
    return module


def test_compiled_layers_are_refused():
    with pytest.raises(CandidateRefusedError, match=r"layer '0' \(Linear\) of the module must not be compiled"):
        rehearse(compiled)


def test_scripted_code_learns_nothing_from_its_calls(monkeypatch):
    """Copies of it share an executor, which would specialise on what it has seen."""
    states = []

    class Asks(Small):
        def forward(self, x):
            states.append(torch._C._get_graph_executor_optimize())
            return super().forward(x)

    before = torch._C._get_graph_executor_optimize()
    DPNeuralNetClassifier(Asks, steps=2, grad_sample_mode="rows").fit(X, Y).predict(X[:3])
    assert states and not any(states) and torch._C._get_graph_executor_optimize() == before
