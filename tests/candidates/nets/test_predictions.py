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
