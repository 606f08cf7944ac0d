"""What a net predicts, and whether it can learn at all, is rehearsed on random rows, too."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402

from skdptune._exceptions import CandidateRefusedError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import DPNeuralNetClassifier, DPNeuralNetRegressor  # noqa: E402
from tests.candidates.nets.toys import Small  # noqa: E402

CLASSES = np.array([0, 1])
X = np.random.default_rng(0).normal(size=(40, 4))
Y = (X[:, 0] > 0).astype(int)


def rehearse(net, classes=CLASSES):
    adapter = find_adapter(net)
    adapter.check("zero-out")
    adapter.check_data(50, 4, classes)


class CentredInUse(Small):
    """Takes the mean over the batch where it does not train, perhaps of large rows only."""

    limit = -np.inf

    def forward(self, x):
        if not self.training and bool(x.max() > self.limit):
            x = x - x.mean(0)
        return super().forward(x)


class SeldomCentred(CentredInUse):
    limit = 255


class Averaged(Small):
    """Gives a row another output where it is alone."""

    def forward(self, x):
        return super().forward(x) / (1 if self.training else len(x))


@pytest.mark.parametrize("mode", ["auto", "hooks"])
@pytest.mark.parametrize("module", [CentredInUse, SeldomCentred, Averaged])
def test_modules_that_couple_rows_in_eval_mode_are_refused(module, mode):
    with pytest.raises(CandidateRefusedError, match="prediction for another.*in eval mode.*'rows'"):
        rehearse(DPNeuralNetClassifier(module, grad_sample_mode=mode))
    rehearse(DPNeuralNetClassifier(module, grad_sample_mode="rows"))


COUPLING = [lambda t: torch.softmax(t, 0), lambda t: t - t.mean(0), lambda t: t.argsort(0).double()]


@pytest.mark.parametrize("nonlinearity", COUPLING)
def test_nonlinearities_that_couple_rows(nonlinearity):
    with pytest.raises(CandidateRefusedError, match="predict_nonlinearity, couples the rows"):
        rehearse(DPNeuralNetClassifier(predict_nonlinearity=nonlinearity))
    net = DPNeuralNetClassifier(predict_nonlinearity=nonlinearity, grad_sample_mode="rows", steps=1).fit(X, Y)
    other = X.copy()
    other[0] = 1e3
    np.testing.assert_array_equal(net.predict_proba(X)[1:], net.predict_proba(other)[1:])


@pytest.mark.parametrize("mode", ["auto", "rows"])
def test_nonlinearities_must_keep_rows(mode):
    for wrong in (lambda t: t.sum(), lambda t: t.numpy(), lambda t: t[:0]):
        with pytest.raises(CandidateRefusedError, match="predict_nonlinearity must return one row for each"):
            rehearse(DPNeuralNetClassifier(predict_nonlinearity=wrong, grad_sample_mode=mode))
    net = DPNeuralNetClassifier(predict_nonlinearity=lambda t: torch.softmax(t, 1), grad_sample_mode=mode, steps=1)
    np.testing.assert_allclose(net.fit(X, Y).predict_proba(X).sum(1), 1)


class Remembers(Small):
    """Shows the batch before, where it does not train."""

    def forward(self, x):
        before = getattr(self, "before", None)
        self.before = x.mean()
        return super().forward(x) if before is None or self.training else super().forward(x) + before


def test_no_batch_of_predictions_sees_another():
    net = DPNeuralNetClassifier(Remembers, steps=1, physical_batch_size=7).fit(X, Y)
    other = X.copy()
    other[0] = 1e3
    np.testing.assert_array_equal(net.predict_proba(X)[7:], net.predict_proba(other)[7:])


# ---- nets that cannot learn


class Broken(Small):
    def forward(self, x):
        return super().forward(x) / 0.0


class Detached(Small):
    def forward(self, x):
        return super().forward(x).detach()


class WithoutGradients(Small):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


class OfPositives(Small):
    def forward(self, x):
        return super().forward(torch.log(x))


@pytest.mark.parametrize("mode", ["auto", "functorch", "rows", "hooks", "ghost"])
def test_nets_that_would_learn_from_noise_alone(mode):
    for module, message in (
        (Broken, "loss of some row must be finite; on random rows CrossEntropyLoss gave none"),
        (Detached, r"derivative by some parameter.*\.detach\(\)"),
        (WithoutGradients, "derivative by some parameter"),
    ):
        with pytest.raises(CandidateRefusedError, match=message):
            rehearse(DPNeuralNetClassifier(module, grad_sample_mode=mode))
    logs = nn.Sequential(nn.Linear(4, 2), nn.LogSoftmax(-1))
    with pytest.raises(CandidateRefusedError, match="as in skorch: end the module in nn.Softmax"):
        rehearse(DPNeuralNetClassifier(logs, criterion=nn.NLLLoss, grad_sample_mode=mode))


def test_modules_for_positive_numbers_pass():
    rehearse(DPNeuralNetClassifier(OfPositives))
    rehearse(DPNeuralNetClassifier(nn.Sequential(nn.Linear(4, 2), nn.Softmax(-1)), criterion=nn.NLLLoss))
    rehearse(DPNeuralNetClassifier(nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), criterion=nn.BCELoss))


def test_binary_losses_want_probabilities():
    for net, classes in (
        (DPNeuralNetClassifier(nn.Sequential(nn.Linear(4, 1)), criterion=nn.BCELoss), CLASSES),
        (DPNeuralNetRegressor(nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), criterion=nn.BCELoss), None),
    ):
        with pytest.raises(CandidateRefusedError, match=r"in \[0, 1\] with BCELoss.*BCEWithLogitsLoss"):
            rehearse(net, classes)


# ---- what cannot be made into labels or numbers


def one_column_more(outputs):
    return torch.cat([outputs, outputs[:, :1]], 1)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("softmax", "predict_nonlinearity must be 'auto', None or a callable; got 'softmax'"),
        (5, "predict_nonlinearity must be 'auto', None or a callable; got 5"),
        (lambda outputs: outputs.argmax(1), r"predict_nonlinearity must give real numbers of shape \(2,\)"),
        (one_column_more, r"real numbers of shape \(2,\) for each row .* it gave \(3,\)"),
        (lambda outputs: outputs.to(torch.complex64), r"it gave \(2,\) of torch.complex64"),
        (lambda outputs: outputs.tolist(), "must return one row for each row of outputs, as a tensor"),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "rows"])
def test_nonlinearities_that_make_no_predictions(how, words, mode):
    with pytest.raises((CandidateRefusedError, TypeError), match=words):
        rehearse(DPNeuralNetClassifier(predict_nonlinearity=how, grad_sample_mode=mode))


def test_one_column_without_a_nonlinearity_is_no_probability_of_two_classes():
    with pytest.raises(CandidateRefusedError, match=r"the module in eval mode, with .*it gave \(\)"):
        rehearse(DPNeuralNetClassifier(criterion=nn.BCEWithLogitsLoss, predict_nonlinearity=None))
    rehearse(DPNeuralNetClassifier(criterion=nn.BCEWithLogitsLoss))
    rehearse(DPNeuralNetClassifier(criterion=nn.BCEWithLogitsLoss), classes=np.array([3]))


def test_nonlinearities_that_learned_something_elsewhere():
    net = DPNeuralNetClassifier(steps=1, predict_nonlinearity=nn.Sequential(nn.Linear(2, 2).double(), nn.Softmax(1)))
    assert net.fit(X, Y).predict_proba(X).shape == (40, 2)


class LabelsInUse(Small):
    """Returns labels where it does not train."""

    def forward(self, x):
        outputs = super().forward(x)
        return outputs if self.training else outputs.argmax(1).float()


def test_modules_that_return_labels():
    with pytest.raises(CandidateRefusedError, match="the module in eval mode, with this criterion"):
        rehearse(DPNeuralNetClassifier(LabelsInUse))


@pytest.mark.parametrize("y", [X[:, 0], X[:, :2]])
def test_regressors_must_predict_a_number_for_each_target(y):
    shape = y.shape[1:]
    with pytest.raises(CandidateRefusedError, match=rf"real numbers of shape \({y[0].size},\)"):
        DPNeuralNetRegressor(steps=1, predict_nonlinearity=lambda outputs: torch.cat([outputs, outputs], 1)).fit(X, y)
    module = nn.Sequential(nn.Linear(4, y[0].size), nn.Unflatten(1, (-1, 1)))
    assert DPNeuralNetRegressor(module, steps=1).fit(X, y).predict(X).shape == (40, *shape)


class Squeezed(Small):
    """Loses the dimension of the rows where there is one."""

    def forward(self, x):
        return super().forward(x).squeeze()


def test_a_squeeze_is_the_modules_affair():
    with pytest.raises(CandidateRefusedError, match=r"module must return one row .*write \.squeeze\(-1\)"):
        DPNeuralNetRegressor(Squeezed, steps=1).fit(X, X[:, 0])
    binary = DPNeuralNetClassifier(Squeezed, nn.BCEWithLogitsLoss, steps=1)
    assert binary.fit(X, Y).predict(X[:1]).shape == (1,)  # whose single column is taken as it comes


# ---- regressors whose outputs are not their targets

EXACT = {"module__hidden": (), "sample_rate": 1.0, "noise_multiplier": 1e-3}


@pytest.mark.parametrize("n_targets", [None, 3])
def test_a_regressor_predicts_probabilities(n_targets):
    p = 1 / (1 + np.exp(-3 * X[:, 0]))
    y = p if n_targets is None else np.stack([p, 1 - p, p], 1)
    found = DPNeuralNetRegressor(criterion=nn.BCEWithLogitsLoss, steps=60, lr=2.0, **EXACT).fit(X, y).predict(X)
    assert found.shape == y.shape
    assert np.corrcoef(found.ravel(), y.ravel())[0, 1] > 0.9


def test_a_regressor_predicts_counts():
    y = np.exp(1 + X[:, 0])
    net = DPNeuralNetRegressor(criterion=nn.PoissonNLLLoss, steps=100, lr=0.5, **EXACT).fit(X, y)
    assert abs(net.predict(X).mean() / y.mean() - 1) < 0.2
    logs = net.set_params(predict_nonlinearity=None).predict(X)
    assert logs.min() < 0


@pytest.mark.parametrize("criterion", [nn.BCEWithLogitsLoss, nn.BCELoss, nn.PoissonNLLLoss, nn.CrossEntropyLoss])
def test_bounds_that_would_make_other_targets_of_probabilities_and_counts(criterion):
    with pytest.raises(CandidateRefusedError, match=f"target_bounds of .* must be None with {criterion.__name__}"):
        rehearse(DPNeuralNetRegressor(criterion=criterion, target_bounds=(0, 30)), classes=None)
