"""What is refused before a row is read, and what the message offers instead."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from opacus.validators import ModuleValidator  # noqa: E402
from skorch.callbacks import EarlyStopping, EpochScoring, Freezer, LRScheduler, ParamMapper  # noqa: E402
from skorch.dataset import ValidSplit  # noqa: E402
from torch import nn  # noqa: E402

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, SkdptuneError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import (  # noqa: E402
    MLP,
    DPLogisticRegression,
    DPNeuralNetClassifier,
    DPNeuralNetRegressor,
)
from skdptune.candidates.nets import _net as net_module  # noqa: E402
from tests.candidates.nets.toys import (  # noqa: E402
    Caches,
    Centred,
    Frozen,
    Images,
    MeanLoss,
    MovingAverage,
    Positions,
    RandomPlain,
    Remembers,
    Reseeds,
    Small,
    TwoInputs,
    Unused,
    WeightedMean,
    WithLayer,
    Words,
)


class Untouchable(np.ndarray):
    """Rows that fail the test when a value is read."""

    def __getitem__(self, key):
        raise AssertionError("a row was read")


def layer(maker):
    return {"module": WithLayer, "module__layer": maker}


DATA_FREE = [
    ({"train_split": ValidSplit(5)}, "train_split .* must be None; got ValidSplit: .* set train_split=None"),
    ({"warm_start": True}, "warm_start .* must be False; got True"),
    ({"iterator_train": torch.utils.data.DataLoader}, "iterator_train .* got DataLoader: .* sample_rate="),
    ({"iterator_valid": torch.utils.data.DataLoader}, "iterator_valid"),
    ({"dataset": torch.utils.data.TensorDataset}, "dataset .* pass arrays"),
    ({"compile": True}, "compile .* set compile=False"),
    ({"callbacks": [EpochScoring("accuracy")]}, "callbacks .* got EpochScoring: .* Remove it"),
    ({"callbacks": [("stop", EarlyStopping())]}, "callbacks .* got EarlyStopping"),
    ({"callbacks": [LRScheduler()]}, "callbacks .* got LRScheduler: .* lr_schedule="),
    ({"callbacks": [ParamMapper("first*", at=lambda net: True)]}, "must have a whole number as at="),
    ({"callbacks": [ParamMapper("first*", schedule=lambda net: None)]}, "no schedule="),
    ({"callbacks": [Freezer]}, "callbacks"),
    ({"clipping": "adaptive"}, "clipping must be one of 'flat', 'per_layer'.*search max_grad_norm"),
    ({"grad_sample_mode": "ew"}, "grad_sample_mode must be one of"),
    ({"clipping": "per_layer", "grad_sample_mode": "ghost"}, "grad_sample_mode='hooks'"),
    ({"max_grad_norm": 0}, "max_grad_norm must be"),
    ({"max_grad_norm": [1.0, 2.0]}, "clipping='per_layer'"),
    ({"physical_batch_size": 0}, "physical_batch_size must be"),
    ({"optimizer": torch.optim.LBFGS}, "optimizer .* got LBFGS.*Use torch.optim.SGD"),
    ({"optimizer": "sgd"}, "optimizer .* must be a class of torch.optim"),
    ({"device": "nowhere"}, "device must be"),
    ({"input_dtype": "float16"}, "input_dtype must be"),
    (layer(lambda: nn.BatchNorm1d(6)), r"layer 'layer' \(BatchNorm1d\).*ModuleValidator.fix"),
    (layer(lambda: nn.SyncBatchNorm(6)), "SyncBatchNorm.*ModuleValidator.fix"),
    (layer(nn.LazyBatchNorm1d), "BatchNorm"),
    ({"module": nn.Sequential(nn.Unflatten(1, (1, 4)), nn.InstanceNorm1d(1, affine=True, track_running_stats=True))},
     "track_running_stats=False"),
    ({"module": nn.Sequential(nn.Linear(4, 2).requires_grad_(False))}, "must have a parameter to train"),
    ({"module": nn.Linear(4, 2).half()}, "must be float32 or float64"),
    ({"module": nn.Sequential(nn.LSTM(4, 2)), "grad_sample_mode": "hooks"},
     "without per-row gradients.*ModuleValidator.fix"),
    ({"module": 3}, "module of DPNeuralNetClassifier must be"),
    ({"module": lambda: 3}, "must make a torch.nn.Module; it made a int"),
    ({"module": Small, "module__n_features_in": 4, "module__n_outputs": 2, "module__colour": 3}, "raised TypeError"),
    ({"criterion": nn.functional.cross_entropy}, "must take reduction='none'"),
    ({"criterion": nn.AdaptiveLogSoftmaxWithLoss}, "must take reduction='none'"),
    ({"batch_size": 64}, "use expected_batch_size="),
    ({"epochs": 64}, "unexpected parameter 'epochs'"),
    ({"module_hidden": 3}, "did you mean module__hidden"),
    ({"accumulate_grad_batches": 4}, "physical_batch_size="),
    ({"verbose": 1}, "use nothing"),
]


@pytest.mark.parametrize(("params", "message"), DATA_FREE)
def test_refused_from_parameters_alone(params, message):
    net = DPNeuralNetClassifier(**params)
    with pytest.raises(SkdptuneError, match=message):
        find_adapter(net).check("zero-out")
    rows = np.zeros((8, 4)).view(Untouchable)
    with pytest.raises(SkdptuneError, match=message):
        net.fit(rows, rows)


def test_hooks_and_wrapped_modules_are_refused():
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    hooked = nn.Linear(4, 2)
    hooked.register_forward_hook(lambda *args: None)
    for params, message in [
        ({"module": hooked}, "must have no hooks"),
        ({"module": GradSampleModule(nn.Linear(4, 2))}, "must have no hooks|plain|grad_sample"),
        ({"optimizer": DPOptimizer}, "got DPOptimizer of Opacus"),
    ]:
        with pytest.raises(CandidateRefusedError, match=message):
            find_adapter(DPNeuralNetClassifier(**params)).check("zero-out")


def test_subclasses_are_refused():
    class Mine(DPNeuralNetClassifier):
        pass

    with pytest.raises(CandidateRefusedError, match="Mine is a subclass .* use DPNeuralNetClassifier itself"):
        find_adapter(Mine()).check("zero-out")


@pytest.mark.parametrize(
    "name",
    ["partial_fit", "fit_loop", "run_single_epoch", "train_step", "train_step_single", "validation_step", "initialize"],
)
def test_what_a_private_net_has_not(name):
    net = DPNeuralNetClassifier()
    assert not hasattr(net, name)
    with pytest.raises(CandidateRefusedError, match=f"has no {name}"):
        getattr(net, name)


# ---- the dry run

COUPLED = [
    (layer(Centred), "changing one row changes the output"),
    (layer(MovingAverage), "buffer 'layer.average' of the module changes in forward"),
    (layer(Remembers), "remembers a batch"),
    (layer(RandomPlain), "something random beside parameters and buffers"),
    ({"module": Small, "criterion": MeanLoss}, "changing one row changes the loss"),
    ({"module": Small, "criterion": WeightedMean}, "changing one row changes the loss"),
    ({"module": Small, "module__n_features_in": 7}, "the dry run .* raised RuntimeError"),
    ({"module": Small, "module__n_outputs": 9}, "module must return 2 outputs per row"),
    ({"module": Words}, "the dry run .* input_dtype"),
    ({"module": Small, "lr_schedule": lambda step: 1 / 0}, "lr_schedule must return a factor"),
    ({"module": Small, "lr_schedule": lambda step: float("nan")}, "finite non-negative"),
    ({"module": Small, "optimizer__colour": 3}, "optimizer must take lr and optimizer__"),
]


@pytest.mark.parametrize(("params", "message"), COUPLED)
def test_the_dry_run_refuses_before_a_row_is_read(params, message, monkeypatch):
    net = DPNeuralNetClassifier(**params)
    with pytest.raises(SkdptuneError, match=message):
        find_adapter(net).check_data(50, 4, np.array([0, 1]))

    def never(*args, **kwargs):
        raise AssertionError("training began")

    monkeypatch.setattr(net_module, "train", never)
    with pytest.raises(SkdptuneError, match=message):
        net.fit(np.ones((8, 4)), [0, 1] * 4)


GOOD = [
    {"module": Small},
    {"module": Small, "module__dropout": 0.5},
    {"module": Frozen},
    {"module": Unused},
    {"module": Caches},
    layer(Reseeds),
    layer(lambda: nn.LayerNorm(6)),
    layer(lambda: nn.GroupNorm(2, 6)),
    layer(lambda: ModuleValidator.fix(nn.BatchNorm1d(6).train())),
    {"module": Small, "criterion": nn.CrossEntropyLoss, "criterion__weight": torch.tensor([0.1, 10.0])},
    {"module": Small, "criterion__ignore_index": 1},
    {"module": Small, "criterion__label_smoothing": 0.1},
    {"module": Small, "criterion": nn.CrossEntropyLoss()},
    {"module": nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))},
    {"module": nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 2))},
    {"module": nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=-1)), "criterion": nn.NLLLoss},
    {"module": Small, "criterion": nn.BCEWithLogitsLoss},
    {"module": Small, "criterion": nn.MultiMarginLoss},
]


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
@pytest.mark.parametrize("params", GOOD)
def test_good_modules_pass_and_train(params, mode):
    if mode == "functorch" and params.get("module__layer") is Reseeds:
        pytest.skip("torch.vmap does not let a module reseed")
    net = DPNeuralNetClassifier(**params, grad_sample_mode=mode, steps=2)
    adapter = find_adapter(net)
    adapter.check("zero-out")
    adapter.check_data(50, 4, np.array([0, 1]))
    X = np.random.default_rng(0).normal(size=(12, 4))
    assert net.fit(X, [0, 1] * 6).predict(X).shape == (12,)


def test_a_weighted_mean_loss_becomes_a_sum_of_row_losses():
    """The label of one row must not change another row's gradient."""
    net = DPNeuralNetClassifier(Small, criterion__weight=torch.tensor([0.05, 1.0]), criterion__reduction="mean")
    find_adapter(net).check_data(50, 4, np.array([0, 1]))  # the reduction is replaced, not obeyed


def test_a_batch_norm_net_is_refused_before_spending(monkeypatch):
    """BatchNorm, a frozen weight, batches of one row on four rows: refused; without BatchNorm they train."""
    from skdptune import PrivateRandomSearchCV

    class Ledger:
        charged = 0

        def charge(self, spent, delta):
            Ledger.charged += 1

    net = DPNeuralNetClassifier(expected_batch_size=1, steps=30, **layer(lambda: nn.BatchNorm1d(6)))
    search = PrivateRandomSearchCV(net, {"lr": [0.1]}, n_iter=2, ledger=Ledger(), delta=1e-5)
    with pytest.raises(CandidateRefusedError, match="ModuleValidator.fix"):
        search.fit(np.ones((8, 4)), [0, 1] * 4)
    assert Ledger.charged == 0
    DPNeuralNetClassifier(Frozen, expected_batch_size=1, steps=30).fit(np.eye(4), [0, 1, 0, 1])


def test_modules_for_other_rows_rehearse_on_their_schema():
    for net, X in [
        (DPNeuralNetClassifier(Images, classes=[0, 1, 2]), np.zeros((9, 64))),
        (DPNeuralNetClassifier(Words, input_dtype="int64", classes=[0, 1]), np.ones((9, 5), dtype=int)),
        (DPNeuralNetClassifier(Positions, classes=[0, 1]), np.zeros((9, 5, 3))),
        (DPNeuralNetClassifier(TwoInputs, classes=[0, 1]), {"table": np.zeros((9, 3)), "word": np.ones((9, 2), int)}),
    ]:
        net.set_params(steps=2).fit(X, np.array([0, 1, 0] * 3))


def test_bad_bounds_and_binary_losses():
    with pytest.raises(InvalidParameterError, match="target_bounds must be a pair"):
        DPNeuralNetRegressor(target_bounds=(3, 1)).fit(np.ones((4, 2)), np.ones(4))
    with pytest.raises(InvalidParameterError, match="CrossEntropyLoss"):
        DPNeuralNetClassifier(criterion=nn.BCEWithLogitsLoss).fit(np.ones((6, 2)), [0, 1, 2] * 2)
    with pytest.raises(InvalidParameterError, match="a label that was not declared"):
        DPLogisticRegression(classes=[0, 1]).fit(np.ones((6, 2)), [0, 1, 2] * 2)
    with pytest.raises(InvalidParameterError, match="sample_weight. Per-row arguments"):
        DPNeuralNetClassifier(MLP).fit(np.ones((4, 2)), [0, 1] * 2, sample_weight=np.ones(4))
