"""What the rehearsal notices beside the plain cases, and when it may be left out."""

import threading

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from skorch.callbacks import Freezer, ParamMapper  # noqa: E402
from torch import nn  # noqa: E402

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, SkdptuneError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import DPLogisticRegression, DPNeuralNetClassifier  # noqa: E402
from skdptune.candidates.nets import _dry_run as dry_run_module  # noqa: E402
from skdptune.candidates.nets import _net as net_module  # noqa: E402
from tests.candidates.nets.toys import Centred, Small, WithLayer, Words  # noqa: E402

CLASSES = np.array([0, 1])
ROWS = np.random.default_rng(0).normal(size=(20, 4))
LABELS = (ROWS[:, 0] > 0).astype(int)


def rehearse(net, shape=4):
    adapter = find_adapter(net)
    adapter.check("zero-out")
    adapter.check_data(50, shape, CLASSES)


class OnRows(nn.Module):
    """A linear model behind any function of the whole batch."""

    def __init__(self, function, n_features_in=4, dropout=0.0):
        super().__init__()
        self.function, self.drop, self.last = function, nn.Dropout(dropout), nn.Linear(n_features_in, 2)

    def forward(self, x):
        return self.drop(self.last(self.function(x)))


def rescaled_if_large(limit):
    return lambda x: x / 255 if bool(x.max() > limit) else x


COUPLED = {
    "a condition on the largest value": rescaled_if_large(1),
    "the same far out": rescaled_if_large(255),
    "the smallest value": lambda x: x - x.min(),
    "centred behind a clamp": lambda x: x.clamp(100, 200) - x.clamp(100, 200).mean(0),
    "one nan blanks all": lambda x: torch.zeros_like(x) if bool(x.isnan().any()) else x,
}


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("how", COUPLED)
def test_coupling_shows_at_some_scale(how, width):
    net = DPNeuralNetClassifier(OnRows, module__function=COUPLED[how], module__n_features_in=width)
    with pytest.raises(CandidateRefusedError, match="changing one row changes the output"):
        rehearse(net, width)


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_size_of_the_batch_must_not_enter(mode, dropout):
    net = DPNeuralNetClassifier(
        OnRows, module__function=lambda x: x / len(x), module__dropout=dropout, grad_sample_mode=mode
    )
    with pytest.raises(CandidateRefusedError, match="the number of rows enters"):
        rehearse(net)


class WrongRule(torch.autograd.Function):
    """Doubles in forward; backward triples, but only where a batch has several rows."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (3.0 if len(gradient) > 1 else 2.0)


class Temperature(nn.Module):
    """One number, of a layer for which there is no rule."""

    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return x * self.value


class BehindWrongRule(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 5), nn.Dropout(dropout), nn.Linear(5, 2)

    def forward(self, x):
        return self.last(self.drop(WrongRule.apply(self.first(x))))


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_are_compared_with_or_without_masks(mode, dropout):
    net = DPNeuralNetClassifier(BehindWrongRule, module__dropout=dropout, grad_sample_mode=mode)
    with pytest.raises(CandidateRefusedError, match="differs from the row's own gradient"):
        rehearse(net)


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_layers_without_a_rule_are_refused_by_name(mode):
    module = nn.Sequential(Temperature(), nn.Linear(4, 2))
    with pytest.raises(CandidateRefusedError, match=r"layer '0' \(Temperature\).*grad_sample_mode='functorch'"):
        rehearse(DPNeuralNetClassifier(module, grad_sample_mode=mode))
    rehearse(DPNeuralNetClassifier(module))
    module[0].requires_grad_(False)
    rehearse(DPNeuralNetClassifier(module, grad_sample_mode=mode))


class MasksTwice(Small):
    """A dropout of its own, which no layer switches off."""

    def forward(self, x):
        return self.last(nn.functional.dropout(torch.tanh(self.first(x)), 0.5, self.training))


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost", "rows"])
def test_random_modules_pass(mode):
    rehearse(DPNeuralNetClassifier(MasksTwice, grad_sample_mode=mode))
    rehearse(DPNeuralNetClassifier(Small, module__dropout=0.5, grad_sample_mode=mode))


class Renormalised(nn.Module):
    """Rewrites its weights by the rows it sees, as max_norm of an embedding does."""

    def forward(self, x):
        with torch.no_grad():
            self.weights[0].mul_(0.5 if bool(x.mean() > 0) else 0.6)
        return x

    def attach(self, linear):
        self.weights = [linear.weight]
        return self


class RewritesItself(WithLayer):
    def __init__(self, n_features_in=4):
        super().__init__(Renormalised, n_features_in)
        self.layer.attach(self.first)


def test_parameters_must_not_change_in_forward():
    class Bounded(Words):
        def __init__(self, n_outputs=2, max_norm=0.5):
            super().__init__(n_outputs)
            self.embed = nn.Embedding(7, 5, max_norm=max_norm)

    with pytest.raises(CandidateRefusedError, match="must have max_norm=None"):
        rehearse(DPNeuralNetClassifier(Bounded, input_dtype="int64"), 3)
    rehearse(DPNeuralNetClassifier(Bounded, module__max_norm=None, input_dtype="int64"), 3)
    with pytest.raises(CandidateRefusedError, match=r"parameter 'first.weight' of the module changes in forward"):
        rehearse(DPNeuralNetClassifier(RewritesItself))


class HooksItself(nn.Module):
    seen = []  # noqa: RUF012

    def __init__(self, after=False):
        super().__init__()
        self.last = nn.Linear(4, 2)
        register = "register_post_accumulate_grad_hook" if after else "register_hook"
        getattr(self.last.weight, register)(HooksItself.seen.append)

    def forward(self, x):
        return self.last(x)


@pytest.mark.parametrize("after", [False, True])
def test_hooks_on_parameters_are_refused(after):
    with pytest.raises(CandidateRefusedError, match="parameter 'last.weight' of the module must have no hooks"):
        rehearse(DPNeuralNetClassifier(HooksItself, module__after=after))
    assert HooksItself.seen == []


# ---- when it is left out


def test_a_template_changed_after_a_fit_is_rehearsed_again():
    template = nn.Sequential(nn.Linear(4, 4), nn.Identity(), nn.Linear(4, 2))
    net = DPNeuralNetClassifier(template, steps=2).fit(ROWS, LABELS)
    template[1] = Centred()
    with pytest.raises(CandidateRefusedError, match="changing one row changes the output"):
        net.fit(ROWS, LABELS)


class Switch(nn.Module):
    """True and 1 are equal, and not the same here."""

    def __init__(self, centre):
        super().__init__()
        self.last, self.centre = nn.Linear(4, 2), centre

    def forward(self, x):
        x = self.last(x)
        return x - x.mean(0) if self.centre is True or self.centre == (True,) and self.centre[0] is True else x


@pytest.mark.parametrize(("good", "bad"), [(1, True), ((1,), (True,))])
def test_equal_settings_of_other_types_are_rehearsed_again(good, bad):
    DPNeuralNetClassifier(Switch, module__centre=good, steps=2).fit(ROWS, LABELS)
    with pytest.raises(CandidateRefusedError, match="changing one row changes the output"):
        DPNeuralNetClassifier(Switch, module__centre=bad, steps=2).fit(ROWS, LABELS)


def test_plain_structures_are_rehearsed_once(monkeypatch):
    calls = []
    monkeypatch.setattr(net_module, "_REHEARSED", {})
    monkeypatch.setattr(net_module, "dry_run", lambda *args: calls.append(1))
    for params in ({}, {"lr": 0.1}, {"noise_multiplier": 2.0}, {"steps": 3}, {"lr_schedule": lambda step: 1.0}):
        DPNeuralNetClassifier(Small, **{"steps": 2, **params}).fit(ROWS, LABELS)
    assert len(calls) == 1
    for params in ({"module__width": 7}, {"grad_sample_mode": "ghost"}, {"clipping": "per_layer"}):
        DPNeuralNetClassifier(Small, **{"steps": 2, **params}).fit(ROWS, LABELS)
    assert len(calls) == 4


def test_a_schedule_is_checked_for_every_length():
    def breaks_late(step):
        return float("nan") if step >= 20 else 1.0

    DPNeuralNetClassifier(Small, steps=2, lr_schedule=breaks_late).fit(ROWS, LABELS)
    with pytest.raises(CandidateRefusedError, match="finite non-negative"):
        DPNeuralNetClassifier(Small, steps=30, lr_schedule=breaks_late).fit(ROWS, LABELS)


def test_every_step_of_a_schedule_is_checked():
    for bad in (lambda step: float("nan") if step == 7 else 1.0, lambda step: 1 / (step - 7)):
        with pytest.raises(CandidateRefusedError, match="step 7|non-negative"):
            DPNeuralNetClassifier(Small, steps=30, lr_schedule=bad).fit(ROWS, LABELS)


# ---- what later epochs do


def test_callbacks_of_later_epochs_are_rehearsed():
    later = {"max_epochs": 3, "sample_rate": 0.5}
    with pytest.raises(CandidateRefusedError, match="a callback froze the last one"):
        rehearse(DPNeuralNetClassifier(Small, callbacks=[Freezer("*", at=2)], **later))
    with pytest.raises(InvalidParameterError, match="got 4 for 3"):
        rehearse(
            DPNeuralNetClassifier(
                Small, clipping="per_layer", max_grad_norm=[1.0] * 4, callbacks=[Freezer("last.bias", at=3)], **later
            )
        )
    rehearse(DPNeuralNetClassifier(Small, callbacks=[Freezer("*", at=4)], **later))  # never reached
    with pytest.raises(CandidateRefusedError, match="1 is the first epoch"):
        rehearse(DPNeuralNetClassifier(Small, callbacks=[ParamMapper("*", at=0)]))


def test_one_bound_per_parameter():
    for bounds in ([1.0], [1.0] * 3):
        with pytest.raises(InvalidParameterError, match="one bound for each trainable parameter tensor"):
            rehearse(DPNeuralNetClassifier(Small, clipping="per_layer", max_grad_norm=bounds))
    rehearse(DPNeuralNetClassifier(Small, clipping="per_layer", max_grad_norm=[1.0] * 4))


def test_norms_too_small_to_be_computed_are_refused():
    with pytest.raises(InvalidParameterError, match="max_grad_norm must be at least 1e-12"):
        rehearse(DPNeuralNetClassifier(Small, max_grad_norm=1e-30))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_there():
    net = DPNeuralNetClassifier(Small, steps=2, device="cuda")
    assert net.privacy_curve(20).epsilon(1e-5) > 0  # a price needs no device
    with pytest.raises(CandidateRefusedError, match="finds no CUDA device on this machine"):
        rehearse(net)
    with pytest.raises(CandidateRefusedError, match="finds no CUDA device on this machine"):
        net.fit(ROWS, LABELS)


def test_other_threads_do_not_make_dropout_look_like_coupling():
    stop = threading.Event()

    def draw():
        while not stop.wait(0.001):
            torch.rand(1)

    other = threading.Thread(target=draw)
    other.start()
    try:
        for _ in range(5):
            rehearse(DPNeuralNetClassifier(Small, module__dropout=0.5))
        with pytest.raises(SkdptuneError):
            rehearse(DPNeuralNetClassifier(OnRows, module__function=lambda x: x - x.mean(0), module__dropout=0.5))
    finally:
        stop.set()
        other.join()


def test_the_lock_is_new_in_a_forked_child():
    before = dry_run_module._LOCK
    dry_run_module._after_fork()
    assert dry_run_module._LOCK is not before


def test_settings_of_presets():
    with pytest.raises(ValueError, match="Invalid parameter 'optimizer__momentum'"):
        DPLogisticRegression().set_params(optimizer__momentum=0.9)
    for bounds in ((3, -3), (0, float("nan")), 4, ([0, 0], "ab")):
        with pytest.raises(InvalidParameterError, match="feature_bounds must be a pair"):
            rehearse(DPLogisticRegression(feature_bounds=bounds))


class Rounded(nn.Module):
    """Sure of the first class; a row alone goes through kernels that round a little otherwise."""

    def __init__(self, apart, n_features_in=4):
        super().__init__()
        self.apart, self.last = apart, nn.Linear(n_features_in, 2)
        with torch.no_grad():
            self.last.weight.zero_()
            self.last.bias.copy_(torch.tensor([8.0, 0.0]))

    def forward(self, x):
        return self.last(x) * (1 + self.apart if len(x) == 1 else 1)


def test_roundings_of_a_small_loss_are_no_coupling():
    rehearse(DPNeuralNetClassifier(Rounded, module__apart=5e-5, grad_sample_mode="hooks"))
    with pytest.raises(CandidateRefusedError, match="a row alone has another output"):
        rehearse(DPNeuralNetClassifier(Rounded, module__apart=5e-3, grad_sample_mode="hooks"))


class Shared(nn.CrossEntropyLoss):
    def forward(self, outputs, y):
        losses = super().forward(outputs, y)
        return losses * (1 - 1e-3 * len(losses))


def test_a_criterion_that_counts_rows_is_still_seen():
    with pytest.raises(CandidateRefusedError, match="a row alone has another output or loss"):
        rehearse(DPNeuralNetClassifier(steps=2, criterion=Shared, grad_sample_mode="hooks"))
