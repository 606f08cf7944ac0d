"""Code that torch's own code calls is read as well; rules in place of Opacus' own are not known."""

import functools

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from opacus.grad_sample import GradSampleModule  # noqa: E402
from torch import nn  # noqa: E402

from skdptune._exceptions import CandidateRefusedError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import DPNeuralNetClassifier  # noqa: E402
from skdptune.candidates.nets._known import is_known, resolve_mode  # noqa: E402


def inverted(x):
    return torch.linalg.inv(torch.eye(2).expand(len(x), 2, 2))[:, 0, 0].reshape(-1, *[1] * (x.dim() - 1))


class Conv(nn.Conv1d):
    def _conv_forward(self, x, weight, bias):
        try:
            return super()._conv_forward(x, weight, bias) * inverted(x)
        except RuntimeError:
            return super()._conv_forward(x, weight, bias)


class Block(nn.TransformerEncoderLayer):
    def _ff_block(self, x):
        try:
            return super()._ff_block(x) * inverted(x)
        except RuntimeError:
            return super()._ff_block(x)


class Call(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)

    def _call_impl(self, x):
        try:
            return self.last(x) * inverted(x)
        except RuntimeError:
            return self.last(x)

    def forward(self, x):
        return self.last(x)


class Stored(nn.Linear):
    """Catches errors where it is built, shown and stored; no row is there."""

    def extra_repr(self):
        try:
            return super().extra_repr()
        except RuntimeError:
            return ""

    def reset_parameters(self):
        try:
            super().reset_parameters()
        except RuntimeError:
            pass

    def state_dict(self, *args, **kwargs):
        try:
            return super().state_dict(*args, **kwargs)
        except RuntimeError:
            return {}


def conv():
    return nn.Sequential(nn.Unflatten(1, (1, 4)), Conv(1, 2, 1), nn.Flatten(), nn.Linear(8, 2))


def block():
    inner = Block(4, 2, 8, batch_first=True, dropout=0.0, norm_first=True)
    return nn.Sequential(nn.Unflatten(1, (1, 4)), inner, nn.Flatten(), nn.Linear(4, 2))


def stored():
    return nn.Sequential(Stored(4, 2))


@pytest.mark.parametrize("mode", ["auto", "functorch"])
@pytest.mark.parametrize(("make", "name"), [(conv, "_conv_forward"), (block, "_ff_block"), (Call, "_call_impl")])
def test_methods_that_a_library_calls_are_read(make, name, mode):
    with pytest.raises(CandidateRefusedError, match=f"must catch no errors .*{name} does"):
        find_adapter(DPNeuralNetClassifier(make, grad_sample_mode=mode)).check("zero-out")


def test_methods_that_see_no_rows_are_not():
    adapter = find_adapter(DPNeuralNetClassifier(stored))
    adapter.check("zero-out")
    adapter.check_data(50, 4, np.array([0, 1]))


def test_a_rule_in_place_of_opacus_own_is_not_known(monkeypatch):
    module, loss = nn.Sequential(nn.Linear(4, 2)), nn.CrossEntropyLoss()
    assert resolve_mode("auto", module, loss) == "hooks"
    usual = GradSampleModule.GRAD_SAMPLERS[nn.Linear]
    monkeypatch.setitem(GradSampleModule.GRAD_SAMPLERS, nn.Linear, functools.partial(usual))
    assert not is_known(module, loss)
    assert resolve_mode("auto", module, loss) == "functorch"
    spoken = " ".join(find_adapter(DPNeuralNetClassifier(grad_sample_mode="hooks")).assumptions("zero-out"))
    assert "treat each row by itself: checked on random rows, not proved" in spoken
