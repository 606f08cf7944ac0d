"""What a published net holds: private weights in a plain module, and nothing else."""

import copy
import io
import pickle

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from sklearn.base import clone  # noqa: E402
from torch import nn  # noqa: E402

from skdptune import PrivateRandomSearchCV  # noqa: E402
from skdptune._exceptions import CandidateRefusedError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import (  # noqa: E402
    DPLinearRegression,
    DPLogisticRegression,
    DPNeuralNetClassifier,
    DPNeuralNetRegressor,
)
from skdptune.candidates.nets import _engine as engine  # noqa: E402
from tests.candidates.nets.toys import (  # noqa: E402
    Caches,
    Counts,
    Encoded,
    Extra,
    Fleeting,
    Frozen,
    InPlace,
    Small,
    WithLayer,
)

PLANT = 7654321.0
MARK = np.array([PLANT, -PLANT, 2 * PLANT, 3 * PLANT])
ROWS = np.vstack([np.random.default_rng(0).normal(size=(30, 4)), MARK])
LABELS = np.array(["no", "yes"] * 15 + ["yes"])
CLASSES = np.array(["no", "yes"])


def fitted(estimator, seed=None, y=LABELS, classes=CLASSES):
    adapter = find_adapter(estimator)
    return adapter, adapter.fit(ROWS, y, classes=classes, seed=seed)


def planted_bytes():
    """The planted row in the types it may have been copied to, and its gradient."""
    found = [MARK.astype(kind).tobytes() for kind in (np.float32, np.float64)]
    return found + [value.tobytes() for value in MARK.astype(np.float32)] + [repr(PLANT).encode()]


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost", "rows"])
@pytest.mark.parametrize("module", [Small, Caches])
def test_no_row_and_no_gradient_in_the_bytes(mode, module, monkeypatch):
    gradients = []
    step = engine._Steps.noisy_step

    def watching(self, total, terms):
        gradients.extend(part.numpy().tobytes() for part in total if part.numel() > 3 and part.any())
        return step(self, total, terms)

    monkeypatch.setattr(engine._Steps, "noisy_step", watching)
    adapter, net = fitted(DPNeuralNetClassifier(module, sample_rate=1.0, steps=3, grad_sample_mode=mode))
    assert gradients
    for candidate in (net, adapter.publish(net)):
        blob = pickle.dumps(candidate) + pickle.dumps(candidate.module_) + _saved(candidate.module_)
        assert not any(bytes_ in blob for bytes_ in planted_bytes() + gradients)


def _saved(thing):
    stream = io.BytesIO()
    torch.save(thing, stream)
    return stream.getvalue()


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
def test_the_module_is_plain(mode, optimizer):
    adapter, net = fitted(DPNeuralNetClassifier(Small, steps=3, optimizer=optimizer, grad_sample_mode=mode))
    published = adapter.publish(net)
    fresh = Small().eval()
    assert type(published.module_) is Small and not published.module_.training
    for layer, plain in zip(published.module_.modules(), fresh.modules(), strict=True):
        assert set(vars(layer)) == set(vars(plain))
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            assert not getattr(layer, hooks)
    for p, q in zip(published.module_.parameters(), fresh.parameters(), strict=True):
        assert p.grad is None and p.is_leaf and set(vars(p)) == set(vars(q)) == set()
    allowed = {"module_", "criterion_", "_built_from", "_classes", "_schema", "_task", "n_features_in_"}
    assert set(vars(published)) == allowed | set(published.get_params())
    assert not any("history" in name or "optimizer_" == name or "callbacks_" == name for name in vars(published))


def test_what_is_published_is_a_fresh_object():
    estimator = DPNeuralNetClassifier(Small, steps=3)
    adapter, net = fitted(estimator)
    published = adapter.publish(net)
    assert published is not net and published.module_ is not net.module_
    for p, q in zip(published.module_.parameters(), net.module_.parameters(), strict=True):
        assert torch.equal(p, q) and p.data_ptr() != q.data_ptr()
    assert "module_" not in vars(estimator)
    np.testing.assert_array_equal(published.predict(ROWS), net.predict(ROWS))


def test_no_drawn_seed_is_published():
    seed = (1 << 255) + 12345
    adapter, net = fitted(DPNeuralNetClassifier(Small, steps=3, random_state=77), seed=seed)
    published = adapter.publish(net)
    assert published.random_state is None
    long_numbers = [v for v in vars(published).values() if isinstance(v, int) and abs(v) > 2**31]
    assert long_numbers == [] and "_start" not in vars(published)


def test_constants_travel_and_a_template_instance_is_not_trained():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.randn(6))

        def forward(self, x):
            return x * self.scale

    globals()["Scaled"] = Scaled
    net = DPNeuralNetClassifier(WithLayer, module__layer=Scaled, steps=3)
    adapter, trained = fitted(net)
    published = adapter.publish(trained)
    assert torch.equal(published.module_.layer.scale, trained.module_.layer.scale)
    np.testing.assert_allclose(published.predict_proba(ROWS), trained.predict_proba(ROWS))

    template = nn.Sequential(nn.Linear(4, 2))
    before = template[0].weight.detach().clone()
    net = DPNeuralNetClassifier(template, steps=3).fit(ROWS, LABELS)
    assert torch.equal(template[0].weight, before) and not torch.equal(net.module_[0].weight, before)


@pytest.mark.parametrize(
    ("net", "y"),
    [
        (DPNeuralNetClassifier(Small, steps=2), LABELS),
        (DPLogisticRegression(steps=2, feature_bounds=(-3, 3)), LABELS),
        (DPNeuralNetRegressor(steps=2, target_bounds=(0, 1)), ROWS[:, 0]),
        (DPLinearRegression(steps=2), ROWS[:, 0]),
    ],
)
def test_round_trips(net, y):
    net = clone(net).fit(ROWS, y)
    twins = [pickle.loads(pickle.dumps(net)), copy.deepcopy(net)]
    stream = io.BytesIO(_saved(net))
    twins.append(torch.load(stream, weights_only=False))
    for twin in twins:
        np.testing.assert_array_equal(twin.predict(ROWS), net.predict(ROWS))
        assert twin.get_params().keys() == net.get_params().keys()
        clone(twin).fit(ROWS, y)
    loaded = torch.load(io.BytesIO(_saved(net.module_.state_dict())), weights_only=True)
    assert loaded.keys() == net.module_.state_dict().keys()


def test_skops_round_trip():
    skops = pytest.importorskip("skops.io")
    net = DPNeuralNetClassifier(Small, steps=2).fit(ROWS, LABELS)
    blob = skops.dumps(net)
    trusted = skops.get_untrusted_types(data=blob)
    np.testing.assert_array_equal(skops.loads(blob, trusted=trusted).predict(ROWS), net.predict(ROWS))


def test_a_net_trained_for_a_gpu_loads_without_one():
    net = DPNeuralNetClassifier(Small, steps=2).fit(ROWS, LABELS)
    net.set_params(device="cuda")
    twin = pickle.loads(pickle.dumps(net))
    if not torch.cuda.is_available():
        assert twin.predict(ROWS).shape == (31,)


def test_a_search_publishes_a_plain_net():
    search = PrivateRandomSearchCV(DPNeuralNetClassifier(Small, steps=4), {"lr": [0.1, 1.0]}, n_iter=3)
    search.fit(ROWS, LABELS)
    model = search.best_estimator_
    assert type(model) is DPNeuralNetClassifier and list(search.classes_) == ["no", "yes"]
    blob = pickle.dumps(search)
    assert not any(bytes_ in blob for bytes_ in planted_bytes())
    assert b"grad_sample" not in blob.replace(b"grad_sample_mode", b"")
    assert not hasattr(search, "cv_results_")


@pytest.mark.parametrize("jobs", [None, 2])
def test_held_out_rows_do_not_stay_in_the_module(jobs):
    """Scores are taken on private rows: what forward keeps of them must not be published."""
    search = PrivateRandomSearchCV(
        DPNeuralNetClassifier(Caches, steps=2), {"lr": [0.1, 1.0]}, n_iter=3, n_jobs=jobs
    ).fit(ROWS, LABELS)
    model = search.best_estimator_
    assert not hasattr(model.module_, "cache")
    model.predict(ROWS)
    assert not hasattr(model.module_, "cache")
    assert not any(bytes_ in _saved(model.module_) for bytes_ in planted_bytes())


def test_a_module_among_the_arguments_is_not_trained_in_place():
    encoder = nn.Linear(4, 4)
    before = copy.deepcopy(encoder.state_dict())
    net = DPNeuralNetClassifier(Encoded, module__encoder=encoder, steps=3).fit(ROWS, LABELS)
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert net.module_.encoder is not encoder and not torch.equal(net.module_.encoder.weight, encoder.weight)
    assert encoder.weight.grad is None and not encoder._forward_hooks


@pytest.mark.parametrize("module", [Fleeting, Extra, InPlace, Counts, Frozen])
def test_modules_with_state_of_their_own(module):
    estimator = DPNeuralNetClassifier(module, steps=3)
    adapter, net = fitted(estimator)
    expected = net.predict_proba(ROWS)
    for twin in (adapter.publish(net), pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        np.testing.assert_allclose(twin.predict_proba(ROWS), expected, rtol=1e-6)
    flags = [p.requires_grad for p in module().parameters()]
    assert [p.requires_grad for p in net.module_.parameters()] == flags


@pytest.mark.parametrize(
    ("net", "params"),
    [
        (DPNeuralNetClassifier(steps=2), {"module__hidden": (7,)}),
        (DPNeuralNetClassifier(steps=2, criterion=nn.BCEWithLogitsLoss), {"criterion": nn.CrossEntropyLoss}),
        (DPLogisticRegression(steps=2, feature_bounds=(-3, 3)), {"feature_bounds": None, "fit_intercept": False}),
    ],
)
def test_new_parameters_leave_a_fitted_net_as_it_is(net, params):
    net = clone(net).fit(ROWS, LABELS)
    expected = net.predict_proba(ROWS)
    net.set_params(**params)
    np.testing.assert_array_equal(net.predict_proba(ROWS), expected)
    for twin in (pickle.loads(pickle.dumps(net)), copy.deepcopy(pickle.loads(pickle.dumps(net)))):
        np.testing.assert_array_equal(twin.predict_proba(ROWS), expected)
        assert twin.get_params() == net.get_params()
        twin.fit(ROWS, LABELS)


class Logs(Small):
    """Writes every batch into a list it was given."""

    def __init__(self, log, **kwargs):
        super().__init__(**kwargs)
        self.log = log

    def forward(self, x):
        self.log.append(x.detach().clone())
        return super().forward(x)


class Maker:
    """Builds modules that share its list."""

    def __init__(self):
        self.log = []

    def __call__(self, n_features_in, n_outputs):
        return Logs(self.log, n_features_in=n_features_in, n_outputs=n_outputs)


class CopiesToItself:
    def __init__(self):
        self.log = []

    def append(self, rows):
        self.log.append(rows)

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize("mode", ["hooks", "functorch"])
def test_what_forward_writes_into_its_maker_is_not_published(mode):
    maker = Maker()
    net = DPNeuralNetClassifier(maker, steps=3, sample_rate=1.0, grad_sample_mode=mode).fit(ROWS, LABELS)
    assert maker.log == [] and net.module_.log == []
    assert not any(planted in pickle.dumps(net) for planted in planted_bytes())
    log = []
    net = DPNeuralNetClassifier(Logs, module__log=log, steps=3, grad_sample_mode=mode).fit(ROWS, LABELS)
    assert log == [] and net.module_.log == []
    with pytest.raises(CandidateRefusedError, match="module__log must hold nothing that is shared between copies"):
        net.set_params(module__log=[CopiesToItself()]).fit(ROWS, LABELS)


def test_infer_keeps_nothing():
    net = DPNeuralNetClassifier(Caches, steps=2).fit(ROWS, LABELS)
    assert net.infer(torch.tensor(ROWS).float()).shape == (31, 2)
    assert not hasattr(net.module_, "cache")
