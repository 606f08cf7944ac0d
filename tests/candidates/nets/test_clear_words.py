"""What users do by mistake, and what they are told."""

import gc
import itertools
import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from torch import nn  # noqa: E402

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import (  # noqa: E402
    DPLinearRegression,
    DPLogisticRegression,
    DPNeuralNetClassifier,
    DPNeuralNetRegressor,
)

X = np.random.default_rng(0).normal(size=(24, 4))
Y = np.arange(24) % 2


@pytest.mark.parametrize("mode", ["auto", "functorch", "rows"])
@pytest.mark.parametrize(("module", "name"), [(None, "x"), (nn.Sequential(nn.Linear(4, 2)), "input")])
def test_a_dict_for_a_known_module(module, name, mode):
    how = {} if module is None else {"module": module}
    net = DPNeuralNetClassifier(steps=1, grad_sample_mode=mode, **how)
    assert net.fit({name: X}, Y).predict({name: X[:2]}).shape == (2,)


def test_a_dict_for_a_preset():
    assert DPLogisticRegression(steps=1).fit({"x": X}, Y).predict({"x": X[:2]}).shape == (2,)


@pytest.mark.parametrize("alpha", [-1, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearRegression])
def test_penalties_that_are_none(kind, alpha):
    with pytest.raises(InvalidParameterError, match="alpha must be a real number"):
        find_adapter(kind(alpha=alpha)).check("zero-out")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: DPNeuralNetClassifier().predict(X),
        lambda: DPNeuralNetClassifier().score(X, Y),
        lambda: DPNeuralNetRegressor().predict(X),
        lambda: DPLogisticRegression().coef_,
        lambda: DPLinearRegression().intercept_,
    ],
)
def test_before_fit(ask):
    with pytest.raises(NotFittedError, match="is not fitted yet. Call 'fit'"):
        ask()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sample_rate": 1e-320}, "sample_rate must be at least 1e-12"),
        ({"expected_batch_size": 1e-300}, "sample_rate must be at least 1e-12"),
        ({"noise_multiplier": 1e200}, "noise_multiplier must be at most"),
        ({"steps": 10**9}, "steps must be at most"),
        ({"steps": 10**7, "sample_rate": 0.1}, "steps must be few enough"),
    ],
)
def test_terms_beyond_all_measure(params, message):
    with pytest.raises(InvalidParameterError, match=message):
        DPNeuralNetClassifier(**params).privacy_curve(100)


def test_schedules_that_change():
    finite, rising = iter([1.0] * 4), itertools.count()
    for schedule, message in ((lambda step: next(finite), "StopIteration"), (lambda step: next(rising), "step alone")):
        with pytest.raises(CandidateRefusedError, match=message):
            find_adapter(DPNeuralNetClassifier(steps=2, lr_schedule=schedule)).check_data(24, 4, np.array([0, 1]))


def test_a_schedule_is_asked_before_the_first_step(monkeypatch):
    from skdptune.candidates.nets._engine import _Steps

    monkeypatch.setattr(_Steps, "noisy_step", None)
    net = DPNeuralNetClassifier(steps=2, lr_schedule=lambda step: 1.0)
    monkeypatch.setattr(net, "_rehearse", lambda *args: setattr(net, "lr_schedule", lambda step: [1.0][step]))
    with pytest.raises(CandidateRefusedError, match="at step 1"):
        net.fit(X, Y)


def test_tensors_that_are_not_plain():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch may change nested tensors, and give quantized ones up
        rows = {
            "nested": torch.nested.nested_tensor([torch.zeros(4)] * 24),
            "nested ": torch.nested.nested_tensor([torch.zeros(4)] * 24, layout=torch.jagged),
            "quantized": torch.quantize_per_tensor(torch.zeros(24, 4), 0.1, 0, torch.qint8),
        }
    for kind, x in rows.items():
        with pytest.raises(InvalidParameterError, match=f"got a {kind.strip()} one"):
            DPNeuralNetClassifier(steps=1).fit(x, Y)


def test_labels_of_two_kinds():
    mixed = np.array(["SECRET", 1] * 12, dtype=object)
    for net, y in ((DPNeuralNetClassifier(), mixed), (DPNeuralNetClassifier(classes=mixed[:2]), Y)):
        with pytest.raises(InvalidParameterError, match="labels of one kind") as caught:
            net.fit(X, y)
        assert "SECRET" not in str(caught.value) and caught.value.__context__ is None


def test_a_score_quotes_no_cell():
    net = DPNeuralNetRegressor(steps=1).fit(X, X[:, 0])
    with pytest.raises(InvalidParameterError, match="y must be numeric") as caught:
        net.score(X, np.array(["SECRET"] * 24))
    assert "SECRET" not in str(caught.value)
    assert np.isfinite(net.score(X, X[:, 0], sample_weight=np.ones(24)))


def of_parametrized():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)))


def of_old_weight_norm():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"criterion__weight": [1.0, 2.0]}, r"refused them.*criterion__weight=torch\.tensor"),
        ({"criterion__wait": 1}, r"criterion__\* must be parameters of CrossEntropyLoss"),
        ({"criterion__size_average": True}, "criterion__size_average must be left out"),
        ({"criterion__reduce": False}, "criterion__reduce must be left out"),
        ({"module": of_old_weight_norm()}, r"copy\.deepcopy can copy.*parametrizations\.weight_norm"),
        ({"module": of_parametrized()}, "module of .* can be pickled.*Pass the function"),
        ({"module": nn.Sequential, "module__layer": of_parametrized()}, "module__layer of .* can be pickled"),
    ],
)
def test_components_that_are_none(params, message):
    with pytest.raises((CandidateRefusedError, InvalidParameterError), match=message):
        DPNeuralNetClassifier(**params).fit(X, Y)


def test_functions_that_make_parametrized_modules_are_fine():
    net = DPNeuralNetClassifier(of_parametrized, steps=1).fit(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(net)).predict(X), net.predict(X))


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearRegression])
def test_bounds_for_other_columns(kind):
    with pytest.raises(CandidateRefusedError, match=r"one for each of the 4 columns; got an array of shape \(3,\)"):
        kind(feature_bounds=(np.zeros(3), np.ones(3))).fit(X, Y)
    for bounds in ((np.zeros(4), np.ones(4)), (0.0, np.ones(4)), ([0.0], [1.0])):
        assert kind(feature_bounds=bounds, steps=1).fit(X, Y).n_features_in_ == 4


def test_bounds_of_parameters_as_an_array():
    bounds = np.array([0.5, 1.0, 1.0, 1.0])
    assert hasattr(DPNeuralNetClassifier(clipping="per_layer", max_grad_norm=bounds, steps=1).fit(X, Y), "module_")
    with pytest.raises(TypeError, match="list of bounds goes with clipping='per_layer'"):
        DPNeuralNetClassifier(max_grad_norm=bounds).fit(X, Y)


def test_only_weights_are_saved(tmp_path):
    net = DPNeuralNetClassifier(steps=1).fit(X, Y)
    for name, words in (("f_history", "no history"), ("f_optimizer", "no state of an optimizer")):
        for ask in (net.save_params, net.load_params):
            with pytest.raises(CandidateRefusedError, match=words):
                ask(**{name: tmp_path / "file"})
    net.save_params(f_params=tmp_path / "weights")
    other = DPNeuralNetClassifier(steps=1).fit(X, Y)
    other.load_params(f_params=tmp_path / "weights")
    np.testing.assert_array_equal(other.predict_proba(X), net.predict_proba(X))
    with pytest.raises(NotFittedError):
        DPNeuralNetClassifier().save_params(f_params=tmp_path / "weights")


def test_hooks_on_all_modules_are_refused():
    handle = nn.modules.module.register_module_forward_hook(lambda *args: None)
    try:
        with pytest.raises(CandidateRefusedError, match="laid on all modules of the process.*Remove them"):
            DPNeuralNetClassifier(steps=1).fit(X, Y)
    finally:
        handle.remove()
    DPNeuralNetClassifier(steps=1).fit(X, Y)


# ---- forwards that draw, tables with codes, widths


class AlwaysDrops(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(nn.functional.dropout(torch.relu(self.first(x)), 0.5))


@pytest.mark.parametrize("mode", ["auto", "hooks"])
def test_dropout_that_never_ends(mode):
    with pytest.raises(CandidateRefusedError, match=r"no random numbers in eval mode.*training=self\.training"):
        DPNeuralNetClassifier(AlwaysDrops, grad_sample_mode=mode, steps=1).fit(X, Y)


class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.last = nn.Embedding(5, 3), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(torch.cat([x[:, :3], self.embed(x[:, 3].long())], 1))


def test_codes_in_a_table():
    with pytest.raises(CandidateRefusedError, match="Pass a dict of arrays, the codes as whole numbers"):
        DPNeuralNetClassifier(Codes, steps=1).fit(X, Y)


@pytest.mark.parametrize("hidden", [np.int64(3), np.array([3, 2]), 3, (3, np.int32(2))])
def test_widths_as_a_search_draws_them(hidden):
    assert DPNeuralNetClassifier(module__hidden=hidden, steps=1).fit(X, Y).predict(X).shape == (24,)


def narrow():
    return nn.Sequential(nn.Linear(4, 0), nn.Linear(0, 2))


@pytest.mark.parametrize("how", [{"module__hidden": (3, 0)}, {"module": narrow}])
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_width_of_zero(how):
    with pytest.raises(CandidateRefusedError, match="must hold at least one number; .* a layer of width 0"):
        DPNeuralNetClassifier(steps=1, **how).fit(X, Y)


class Root(nn.Module):
    """Has a finite loss for positive rows only."""

    def __init__(self, n_features_in):
        super().__init__()
        self.last = nn.Linear(n_features_in, 1)

    def forward(self, x):
        return self.last(torch.sqrt(x).log1p())


def test_a_search_for_finite_losses_ends_in_silence(capsys):
    DPNeuralNetRegressor(Root, steps=1, target_bounds=(0, 9)).fit(np.abs(X), np.abs(X).sum(1))
    gc.collect()
    assert not capsys.readouterr().err
