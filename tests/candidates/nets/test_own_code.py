"""What code of one's own may not do: catch the errors of a batch, share something with its copies, leave traces."""

import contextlib
import copy
import functools
import random
import types
import weakref

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from skorch.callbacks import ParamMapper  # noqa: E402
from torch import nn  # noqa: E402

from skdptune._exceptions import CandidateRefusedError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import MLP, DPNeuralNetClassifier, LinearModel, TemperedSigmoid  # noqa: E402
from skdptune.candidates.nets._catches import catches  # noqa: E402
from skdptune.candidates.nets._engine import _quiet_hooks  # noqa: E402
from skdptune.candidates.nets._known import is_known, resolve_mode  # noqa: E402
from skdptune.candidates.nets._losses import RowLoss  # noqa: E402
from skdptune.candidates.nets._per_sample import clipper  # noqa: E402
from tests.candidates.nets.toys import Small  # noqa: E402

ALL = ["auto", "functorch", "hooks", "ghost", "rows"]
X = np.random.default_rng(0).normal(size=(24, 4))
Y = np.arange(24) % 2


def rehearse(module, mode="auto", shape=4, **params):
    net = DPNeuralNetClassifier(module, grad_sample_mode=mode, **params)
    find_adapter(net).check("zero-out")
    find_adapter(net).check_data(50, shape, np.array([0, 1]))


# ---- errors that are caught


def careful(x):
    try:
        return torch.linalg.inv(x)
    except RuntimeError:
        return torch.linalg.inv(x + torch.eye(2))


class Base(nn.Module):
    def __init__(self, n_outputs=2):
        super().__init__()
        self.last = nn.Linear(4, n_outputs)

    def inverse(self, x):
        raise NotImplementedError

    def forward(self, x):
        return self.last(torch.tanh(self.inverse(x.reshape(-1, 2, 2))).flatten(1))


class InForward(Base):
    def forward(self, x):
        try:
            return super().forward(x)
        except:  # noqa: E722
            return self.last(x)

    def inverse(self, x):
        return torch.linalg.inv(x)


class ByFunction(Base):
    def inverse(self, x):
        return careful(x)


class Helper:
    def __call__(self, x):
        try:
            return torch.linalg.inv(x)
        finally:
            return x  # noqa: B012


class ByHelper(Base):
    def __init__(self, n_outputs=2):
        super().__init__(n_outputs)
        self.parts = {"inverse": [Helper()]}

    def inverse(self, x):
        return self.parts["inverse"][0](x)


class ByAttribute(Base):
    def __init__(self, n_outputs=2):
        super().__init__(n_outputs)
        self.run = functools.partial(torch.no_grad()(careful))

    def inverse(self, x):
        return self.run(x)


class ByText(Base):
    def inverse(self, x):
        return getattr(self, "_hidden")(x)  # noqa: B009

    @staticmethod
    def _hidden(x):
        return careful(x)


class BySuppress(Base):
    def inverse(self, x):
        with contextlib.suppress(RuntimeError):
            return torch.linalg.inv(x)
        return x


class Function(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return careful(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ByAutograd(Base):
    def inverse(self, x):
        return Function.apply(x)


class SafeLoss(nn.CrossEntropyLoss):
    def forward(self, outputs, y):
        try:
            return super().forward(outputs, y)
        except IndexError:
            return super().forward(outputs, torch.zeros_like(y))


CATCHING = [InForward, ByFunction, ByHelper, ByAttribute, ByText, BySuppress, ByAutograd]


@pytest.mark.parametrize("module", CATCHING)
def test_code_that_catches_errors_is_refused(module):
    for mode in ("auto", "functorch", "hooks", "ghost"):
        with pytest.raises(CandidateRefusedError, match=r"must catch no errors.*does.*grad_sample_mode='rows'"):
            find_adapter(DPNeuralNetClassifier(module, grad_sample_mode=mode)).check("zero-out")
    find_adapter(DPNeuralNetClassifier(module, grad_sample_mode="rows")).check("zero-out")


def test_a_criterion_that_catches_errors_is_refused():
    with pytest.raises(CandidateRefusedError, match="SafeLoss.forward does"):
        find_adapter(DPNeuralNetClassifier(Small, criterion=SafeLoss)).check("zero-out")
    DPNeuralNetClassifier(Small, criterion=SafeLoss, grad_sample_mode="rows", steps=1).fit(X, Y)


def test_code_that_catches_nothing():
    def says_more(x):
        try:
            return x["a"]
        except KeyError as error:
            raise ValueError("no a") from error

    def cleans(x):
        with open(x) as file, contextlib.nullcontext():
            return file.read()

    def ends(x):
        try:
            return x + 1
        finally:
            x.clear()

    def group(x):
        with open(x):
            pass
        try:
            return x + 1
        except (KeyError, IndexError):
            pass

    assert not any(catches(f.__code__) for f in (says_more, cleans, ends))
    assert catches(group.__code__)


class BuildsCarefully(Small):
    """Catches errors where no rows are: while it is built."""

    def __init__(self, n_features_in, n_outputs):
        try:
            width = n_features_in["width"]
        except TypeError:
            width = 3
        super().__init__(n_features_in, n_outputs, width)

    def __repr__(self):
        try:
            return super().__repr__()
        except KeyError:
            return "?"

    def unused(self):
        try:
            return self.width
        except KeyError:
            return None


def test_code_that_meets_no_rows_may_catch():
    rehearse(BuildsCarefully)


class Silence:
    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        return True


class Silent(Base):
    """Catches by a context manager, which nobody can read off the code."""

    def inverse(self, x):
        with Silence():
            return torch.linalg.inv(x)
        return x


class SilentCodes(nn.Module):
    def __init__(self, n_outputs=2):
        super().__init__()
        self.embed = nn.Embedding(5, n_outputs)

    def forward(self, x):
        with Silence():
            return self.embed(x)[:, 0]
        return self.embed(torch.zeros_like(x))[:, 0]


@pytest.mark.parametrize(("module", "shape", "params"), [(Silent, 4, {}), (SilentCodes, 1, {"input_dtype": "int64"})])
def test_strange_rows_show_what_is_caught(module, shape, params):
    with pytest.raises(CandidateRefusedError, match="changing one row changes the"):
        rehearse(module, "functorch", shape, **params)
    rehearse(module, "rows", shape, **params)


# ---- what copies share


class Lambda(Small):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = 0
        self.tick = lambda: setattr(self, "calls", self.calls + 1)


class Default(Small):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

        def scale(x, by=torch.ones(1)):  # noqa: B008
            return x * by

        self.parts = [{"scale": scale}]


class Nested(Small):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        seen = torch.zeros(3)

        def outer():
            return inner()

        def inner():
            return seen

        self.outer = functools.partial(outer)


class Cached(Small):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cached = functools.lru_cache(abs)


class Builtin(Small):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.add = torch.zeros(3).add_


class Parent(Small):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.parent = weakref.ref(self)


class Proxy(Small):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.parents = [weakref.proxy(self)]


@pytest.mark.parametrize("module", [Lambda, Default, Nested, Cached, Builtin, Parent, Proxy])
@pytest.mark.parametrize("mode", ["auto", "hooks", "rows"])
def test_functions_that_lead_out_of_a_copy_are_refused(module, mode):
    with pytest.raises(CandidateRefusedError, match=r"no function that is shared.*Write it as a method"):
        rehearse(module, mode, module__width=3)


class CopiesToItself(Small):
    def __deepcopy__(self, memo):
        return self


class SharesItsWeights(Small):
    def __deepcopy__(self, memo):
        twin = type(self)(self.first.in_features, self.last.out_features, self.first.out_features)
        twin.first.weight = nn.Parameter(self.first.weight.data)
        return twin


class Log:
    def __init__(self):
        self.seen = []

    def __deepcopy__(self, memo):
        return self


class KeepsALog(Small):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.log = Log()


@pytest.mark.parametrize("module", [CopiesToItself, SharesItsWeights, KeepsALog])
@pytest.mark.parametrize("mode", ["auto", "hooks", "rows"])
def test_modules_that_share_with_their_copies_are_refused(module, mode):
    with pytest.raises(CandidateRefusedError, match=r"must share nothing with its copies.*Drop the __deepcopy__"):
        rehearse(module, mode, module__width=3)


def test_a_module_that_cannot_be_copied_is_refused():
    class Open(Small):
        def __init__(self, n_features_in, n_outputs):
            super().__init__(n_features_in, n_outputs)
            self.numbers = (i for i in range(3))

    with pytest.raises(CandidateRefusedError, match=r"copy.deepcopy can copy; it raised TypeError"):
        rehearse(Open)


class Harmless(Small):
    """Holds functions that lead nowhere, and a method of its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        power = 2
        self.act, self.square, self.own = torch.tanh, lambda x: x**power, self.extra
        self.relu = functools.partial(nn.functional.leaky_relu, negative_slope=0.1)

    def extra(self, x):
        return self.first(x)

    def forward(self, x):
        return self.last(self.relu(self.square(self.act(self.own(x)))))


@pytest.mark.parametrize("mode", ALL)
def test_functions_that_lead_nowhere_are_fine(mode):
    rehearse(Harmless, mode)


def test_it_is_asked_again_in_every_training(monkeypatch):
    net = DPNeuralNetClassifier(Small, steps=1).fit(X, Y)
    monkeypatch.setattr(Small, "__deepcopy__", lambda self, memo: self, raising=False)
    with pytest.raises(CandidateRefusedError, match="must share nothing"):
        net.fit(X, Y)


def test_a_buffer_in_the_memory_of_a_parameter_is_refused():
    class Overlaps(Small):
        def __init__(self, n_features_in, n_outputs):
            super().__init__(n_features_in, n_outputs)
            self.register_buffer("start", self.first.weight.data[0])

    with pytest.raises(CandidateRefusedError, match=r"buffer 'start'.*memory of its own.*clone"):
        rehearse(Overlaps)


# ---- draws


class Draws(nn.Module):
    """Multiplies by numbers from Python's and numpy's global generators."""

    def __init__(self, n_outputs=2):
        super().__init__()
        self.last = nn.Linear(4, n_outputs)

    def forward(self, x):
        return self.last(x) * (random.random() + np.random.rand() if self.training else 1.0)  # noqa: NPY002


@pytest.mark.parametrize("mode", ["functorch", "hooks", "rows"])
def test_draws_from_global_generators_do_not_depend_on_the_number_of_calls(mode):
    loss = RowLoss(nn.CrossEntropyLoss(reduction="none"))
    module = Draws().train()
    x, y = torch.ones(6, 4), torch.arange(6) % 2
    found = []
    for extra in (0, 5):
        random.seed(extra)
        np.random.seed(extra)  # noqa: NPY002
        with clipper(mode, module, loss, [0.1], seeds=np.random.default_rng(3)) as clip:
            clip.clipped_sum(x, y)
            for _ in range(extra):
                clip._attempt(x, y)
            found.append(torch.cat([part.flatten() for part in clip.clipped_sum(x, y)]))
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_the_callers_generators_are_put_back():
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002
    expected = random.Random(7).random(), np.random.RandomState(7).rand()  # noqa: NPY002
    DPNeuralNetClassifier(Draws, steps=2, grad_sample_mode="rows").fit(X, Y)
    assert (random.random(), np.random.rand()) == expected  # noqa: NPY002


class Bag(nn.Module):
    """Counts words; a long one makes the counts of a batch unequal, so that it does not go through as one."""

    def __init__(self):
        super().__init__()
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(5, 1, bias=False)

    def forward(self, x):
        counts = torch.stack([torch.bincount(row, minlength=5)[:5] for row in x]).float()
        return self.last(self.drop(counts))


@pytest.mark.parametrize("mode", ["functorch", "hooks"])
def test_rows_that_do_not_go_together_are_asked_alone(mode):
    """Nothing but the odd row changes for the others: they keep their masks, and it has one of its own."""
    module, loss = Bag().train(), RowLoss(nn.MSELoss(reduction="none"))
    x, y = torch.ones(16, 6, dtype=torch.int64), torch.full((16,), 1e3)
    sums = []
    for odd in (0, 99, -1):  # like the others; longer; none at all
        x[7, 0] = odd
        with _quiet_hooks(), clipper(mode, module, loss, [1.0], seeds=np.random.default_rng(1)) as clip:
            sums.append(torch.stack([clip.clipped_sum(x, y)[0] for _ in range(6)]))
    for other in sums[:2]:
        moved = (other - sums[2]).flatten(1).norm(dim=1)
        assert float(moved.max()) <= 1 + 1e-6 and moved.any()


# ---- parameters and layers that are not what they were


def test_parameters_changed_by_a_callback_are_looked_at_again():
    def half(p):
        p.data = p.data.to(torch.bfloat16)

    def watch(p):
        p.register_hook(lambda g: g)

    for change, message in ((half, "must be float32 or float64; got torch.bfloat16"), (watch, "must have no hooks")):
        for at in (1, 2):
            net = DPNeuralNetClassifier(Small, max_epochs=3, callbacks=[ParamMapper("last.*", fn=change, at=at)])
            with pytest.raises(CandidateRefusedError, match=message):
                net.fit(X, Y)


def test_patched_layers_are_not_known(monkeypatch):
    net, loss = nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Conv1d(2, 3, 1), nn.Flatten()), nn.CrossEntropyLoss()
    assert is_known(net, loss)
    for kind, name in (
        *((nn.Sequential, "forward"), (nn.Conv1d, "forward"), (nn.CrossEntropyLoss, "forward")),
        *((nn.Conv1d, "__call__"), (nn.Conv1d, "_call_impl")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, lambda self, *args: None)
            assert not is_known(net, loss), name
    for name in ("_conv_forward", "_call_impl", "forward"):
        other = copy.deepcopy(net)
        setattr(other[1], name, lambda *args: None)
        assert not is_known(other, loss), name
    handle = nn.modules.module.register_module_forward_hook(lambda *args: None)
    try:
        assert not is_known(net, loss)
    finally:
        handle.remove()
    assert is_known(net, loss)


def coupled(self, x):
    return self.own(x - x.mean(0))


def test_what_stands_in_place_of_a_part_of_this_packages_modules(monkeypatch):
    loss = nn.CrossEntropyLoss()
    for make, name in ((lambda: MLP(4, 2), "layers"), (lambda: LinearModel(4, 2), "linear")):
        other = make()
        assert is_known(other, loss)
        other.own = getattr(other, name)
        delattr(other, name)
        setattr(other, name, types.MethodType(coupled, other))
        assert not is_known(other, loss) and resolve_mode("auto", other, loss) == "functorch"
        other = make()
        setattr(other, name, nn.Identity())
        assert not is_known(other, loss)
        with monkeypatch.context() as patch:
            patch.setattr(type(other), "forward", coupled)
            assert not is_known(make(), loss)
    with monkeypatch.context() as patch:
        patch.setattr(TemperedSigmoid, "forward", coupled)
        assert not is_known(nn.Sequential(TemperedSigmoid()))
    assert is_known(nn.Sequential(TemperedSigmoid(1, np.float64(2.0)), nn.Linear(np.int64(3), 2)))
    for strange in (object(), torch.ones(1), np.ones(1)):
        assert not is_known(nn.Sequential(TemperedSigmoid(scale=strange))) and not is_known(nn.LeakyReLU(strange))
    other = LinearModel(4, 2, feature_bounds=(0, 1))
    other.low = other.low.as_subclass(type("Mine", (torch.Tensor,), {}))
    assert not is_known(other)


@pytest.mark.parametrize("mode", ["functorch", "hooks", "ghost"])
def test_a_layer_that_a_known_module_registers_twice(mode):
    shared = nn.Linear(4, 4)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), shared, nn.Tanh(), shared, nn.Linear(4, 2))
    fitted = DPNeuralNetClassifier(net, steps=3, grad_sample_mode=mode).fit(X, Y)
    assert {type(p) for p in fitted.module_.parameters()} == {nn.Parameter}


@pytest.mark.parametrize("mode", ["functorch", "hooks", "ghost"])
@pytest.mark.parametrize("padding", [0, 3])
def test_the_row_of_a_padding_code_learns_nothing(mode, padding):
    module = nn.Sequential(nn.Embedding(5, 3, padding_idx=padding), nn.Flatten(), nn.Linear(6, 2)).train()
    loss = RowLoss(nn.CrossEntropyLoss(reduction="none"))
    x, y = torch.tensor([[0, 3], [3, 1], [0, 0], [2, 4]]), torch.arange(4) % 2
    with clipper(mode, module, loss, [1e6], strict=True) as clip:
        sums = clip.clipped_sum(x, y)
    losses = loss(module(x), y).sum()
    for got, expected in zip(sums, torch.autograd.grad(losses, list(module.parameters())), strict=True):
        torch.testing.assert_close(got, expected.double(), rtol=1e-4, atol=1e-6)
    assert not sums[0][padding].any()


def test_embeddings_on_a_gpu_are_not_for_ghost(monkeypatch):
    from skdptune.candidates.nets import _per_sample

    monkeypatch.setattr(_per_sample, "_on_gpu", lambda layer: True)
    module = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2))
    loss = RowLoss(nn.CrossEntropyLoss(reduction="none"))
    with pytest.raises(CandidateRefusedError, match="grad_sample_mode='hooks'"), clipper("ghost", module, loss, [1.0]):
        pass
    with clipper("hooks", module, loss, [1.0]):
        pass
