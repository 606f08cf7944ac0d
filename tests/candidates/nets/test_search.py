"""Nets inside a search."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

import scipy.sparse as sp  # noqa: E402
import torch  # noqa: E402
from scipy.stats import loguniform  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.metrics import check_scoring  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import Normalizer  # noqa: E402

from skdptune import PrivateRandomSearchCV  # noqa: E402
from skdptune._exceptions import (  # noqa: E402
    AllRunsFailedError,
    CandidateRefusedError,
    InvalidParameterError,
    InvalidTypeError,
)
from skdptune.accounting import PrivacyCurve, best_of  # noqa: E402
from skdptune.candidates.nets import (  # noqa: E402
    DPLinearRegression,
    DPLogisticRegression,
    DPNeuralNetClassifier,
    DPNeuralNetRegressor,
    LinearDecay,
    dp_sgd_search_space,
)
from skdptune.run_counts import Fixed, Geometric  # noqa: E402
from skdptune.scoring import AbsoluteErrorScorer  # noqa: E402
from tests.candidates.nets.toys import Images, Small, TwoInputs  # noqa: E402

X = np.random.default_rng(0).normal(size=(120, 4))
Y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")


def test_a_search_in_a_pipeline_with_two_jobs_and_a_target():
    net = DPNeuralNetClassifier(Small, expected_batch_size=24, steps=12)
    space = {
        "dpneuralnetclassifier__lr": loguniform(0.1, 10),
        "dpneuralnetclassifier__expected_batch_size": [24, 48],
        "dpneuralnetclassifier__steps": [12, 24],
    }
    search = PrivateRandomSearchCV(
        make_pipeline(Normalizer(), net), space, n_iter=3, epsilon=3.0, delta=1e-4, n_jobs=2, classes=["down", "up"]
    )
    before = search.privacy_cost(n_samples=120)
    assert 2.99 < before.epsilon(1e-4) <= 3.0
    search.fit(X, Y)
    assert search.privacy_spent_.epsilon(1e-4) == before.epsilon(1e-4)
    model = search.best_estimator_[-1]
    own = model.privacy_curve(96)
    assert own.lies_below(PrivacyCurve.worst([own])) and own.epsilon(1e-4) <= before.single_run.epsilon(1e-4) + 1e-9
    assert search.predict(X).shape == (120,) and search.predict_proba(X).shape == (120, 2)


def test_the_price_is_that_of_the_curve():
    net = DPNeuralNetClassifier(Small, expected_batch_size=24, steps=12)
    search = PrivateRandomSearchCV(net, {"lr": [0.1, 1.0], "max_grad_norm": [0.3, 1.0]}, n_iter=Geometric(4))
    expected = best_of(PrivacyCurve.dp_sgd(1.0, 24 / 96, 12), Geometric(4)).epsilon(1e-4)
    assert search.privacy_cost(n_samples=120).epsilon(1e-4) == pytest.approx(expected, rel=1e-9)
    assert search.fit(X, Y).best_params_.keys() == {"lr", "max_grad_norm"}


def test_searched_terms_are_priced_as_a_mixture():
    net = DPNeuralNetClassifier(Small, expected_batch_size=24, steps=12)
    search = PrivateRandomSearchCV(net, {"steps": [4, 12]}, n_iter=Fixed(2))
    price = search.privacy_cost(n_samples=120)
    assert price.epsilon(1e-4) < PrivateRandomSearchCV(net, {"lr": [1.0]}, n_iter=Fixed(2)).privacy_cost(
        n_samples=120
    ).epsilon(1e-4)
    search.fit(X, Y)
    with pytest.raises(CandidateRefusedError, match="noise_multiplier"):
        PrivateRandomSearchCV(net, {"noise_multiplier": loguniform(1, 2)}, n_iter=2).fit(X, Y)


@pytest.mark.parametrize("params", [{"cv": 3, "refit": True}, {"refit": True}])
def test_folds_and_refits(params):
    net = DPNeuralNetClassifier(Small, expected_batch_size=24, steps=6)
    search = PrivateRandomSearchCV(net, {"lr": [0.1, 1.0]}, n_iter=Fixed(2), **params).fit(X[:118], Y[:118])
    assert search.predict(X).shape == (120,)


@pytest.mark.slow
def test_folds_of_two_sizes_with_a_target():
    net = DPNeuralNetClassifier(Small, expected_batch_size=24, steps=6)
    search = PrivateRandomSearchCV(
        net, {"lr": [0.1, 1.0]}, n_iter=Fixed(2), cv=3, refit=False, epsilon=8.0, delta=1e-4
    )
    search.fit(X[:118], Y[:118])
    assert search.privacy_spent_.epsilon(1e-4) <= 8.0


def test_add_remove_with_a_public_guess():
    from skdptune.model_selection import IndependentHoldout

    net = DPLogisticRegression(expected_batch_size=24, steps=6, n_samples=90, classes=["down", "up"])
    search = PrivateRandomSearchCV(
        net,
        {"lr": [0.1, 1.0]},
        n_iter=Fixed(2),
        relation="add-remove",
        cv=IndependentHoldout(120),
        classes=["down", "up"],
    ).fit(X, Y)
    assert search.privacy_spent_.relation == "add-remove"


def test_replace_one():
    net = DPLogisticRegression(expected_batch_size=24, steps=6)
    search = PrivateRandomSearchCV(net, {"lr": [0.1, 1.0]}, n_iter=Fixed(2), relation="replace-one").fit(X, Y)
    zero_out = PrivateRandomSearchCV(net, {"lr": [0.1, 1.0]}, n_iter=Fixed(2)).privacy_cost(n_samples=120)
    assert search.privacy_spent_.epsilon(1e-4) > zero_out.epsilon(1e-4)


@pytest.mark.parametrize("model", [DPNeuralNetRegressor(steps=6), DPLinearRegression(steps=6)])
def test_regressors(model):
    search = PrivateRandomSearchCV(
        model.set_params(target_bounds=(-3, 3)), {"lr": [0.1, 0.3]}, n_iter=2, scoring=AbsoluteErrorScorer(-3, 3)
    ).fit(X, X[:, 0])
    assert search.predict(X).shape == (120,)


def test_a_failing_run_ranks_last(monkeypatch):
    from skdptune.candidates.nets import _net as net_module

    train = net_module.train

    def exhausting(net, module, *args, **kwargs):
        if module.first.out_features > 100:
            raise torch.OutOfMemoryError("simulated")
        return train(net, module, *args, **kwargs)

    monkeypatch.setattr(net_module, "train", exhausting)
    net = DPNeuralNetClassifier(Small, steps=4, sample_rate=0.5)
    search = PrivateRandomSearchCV(net, {"module__width": [3, 101]}, n_iter=Fixed(12)).fit(X, Y)
    assert search.best_params_ == {"module__width": 3}
    broken = PrivateRandomSearchCV(net, {"module__width": [101]}, n_iter=Fixed(2))
    with pytest.raises(AllRunsFailedError, match="OutOfMemoryError"):
        broken.fit(X, Y)
    assert broken.privacy_spent_.epsilon(1e-4) > 0


def test_runs_differ_whatever_the_template_says():
    net = DPNeuralNetClassifier(Small, steps=4, random_state=0)
    weights = []
    for _ in range(2):
        torch.manual_seed(0)
        search = PrivateRandomSearchCV(net, {"lr": [0.5]}, n_iter=Fixed(1)).fit(X, Y)
        weights.append(search.best_estimator_.module_.last.weight)
    assert not torch.equal(*weights)


@pytest.mark.filterwarnings("ignore::skdptune._exceptions.PublicSeedWarning")
def test_a_seeded_search_repeats():
    weights = []
    for jobs in (1, 2):
        search = PrivateRandomSearchCV(
            DPNeuralNetClassifier(Small, steps=4), {"lr": [0.5, 1.0]}, n_iter=3, random_state=5, n_jobs=jobs
        ).fit(X, Y)
        weights.append(search.best_estimator_.module_.last.weight)
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)


def test_the_search_space_prices_and_draws():
    space = dp_sgd_search_space(10_000, epochs=(2, 4), prefix="net__")
    assert {name for part in space for name in part} == {
        "net__expected_batch_size", "net__max_epochs", "net__max_grad_norm", "net__lr", "net__lr_schedule",
    }
    for part in dp_sgd_search_space(96):
        assert all(0 < size <= 96 for size in part["expected_batch_size"])
        (norm,) = part["max_grad_norm"]
        assert max(part["lr"]) * norm == pytest.approx(2.0)  # the longest step is the same for every norm
    assert max(dp_sgd_search_space(96, epsilon=2.0)[2]["lr"]) == 1.0
    search = PrivateRandomSearchCV(DPLogisticRegression(), dp_sgd_search_space(96, epochs=(1, 2)), n_iter=2)
    assert search.fit(X, Y).best_params_["max_grad_norm"] in (0.1, 0.3, 1.0)
    assert LinearDecay(4.0, 10)(0) == 4.0 and LinearDecay(4.0, 10)(10) == 1.0


def test_presets_are_the_models_they_name():
    line = DPLinearRegression(
        feature_bounds=([-4] * 4, [4] * 4),
        target_bounds=(-4, 4),
        noise_multiplier=0.05,
        sample_rate=1.0,
        steps=200,
        lr=1.0,
    ).fit(X, 1.0 + X @ [1.0, -0.5, 0.0, 0.2])
    np.testing.assert_allclose(line.coef_, [1.0, -0.5, 0.0, 0.2], atol=0.2)
    np.testing.assert_allclose(X @ line.coef_ + line.intercept_, np.clip(line.predict(X), -9, 9), atol=0.3)
    model = DPLogisticRegression(feature_bounds=(-4, 4), noise_multiplier=0.1, sample_rate=1.0, steps=100, lr=8.0)
    assert model.fit(X, Y).score(X, Y) > 0.9
    scores = X @ model.coef_.T + model.intercept_
    shares = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(shares / shares.sum(1, keepdims=True), model.predict_proba(np.clip(X, -4, 4)), atol=1e-4)
    assert not DPLogisticRegression(fit_intercept=False, steps=3).fit(X, Y).intercept_.any()
    shrunk = DPLogisticRegression(alpha=5.0, lr=0.1, noise_multiplier=0.01, sample_rate=1.0, steps=50).fit(X, Y)
    assert np.abs(shrunk.coef_).max() < 0.2


def test_nothing_heavy_is_loaded_by_the_package():
    code = (
        "import sys, skdptune, skdptune.candidates; "
        "print([m for m in ('torch', 'skorch', 'opacus') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


KEYED = {"table": X[:, :3], "word": np.arange(240).reshape(120, 2) % 7}


@pytest.mark.parametrize("params", [{}, {"n_jobs": 2}, {"cv": 3, "refit": True}])
def test_rows_in_a_dict(params):
    net = DPNeuralNetClassifier(TwoInputs, expected_batch_size=24, steps=3)
    search = PrivateRandomSearchCV(net, {"lr": [0.1, 1.0]}, n_iter=2, **params)
    price = search.privacy_cost(n_samples=120)  # 120 rows, not two keys
    search.fit(KEYED, Y)
    assert search.privacy_spent_ == price and search.privacy_spent_.n_samples == 120
    assert search.predict(KEYED).shape == (120,) and 0 <= search.score(KEYED, Y) <= 1
    assert list(search.feature_names_in_) == ["table", "word"] and search.n_features_in_ == 2


def test_rows_in_a_dict_that_do_not_fit():
    search = PrivateRandomSearchCV(DPNeuralNetClassifier(TwoInputs, steps=2), {"lr": [0.1]}, n_iter=2)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        search.fit({"table": X[:, :3], "word": KEYED["word"][:7]}, Y)
    with pytest.raises(InvalidParameterError, match=r"X\['word'\] must be numeric"):
        search.fit({"table": X[:, :3], "word": np.array([["a"]] * 120, dtype=object)}, Y)
    with pytest.raises(InvalidParameterError, match="by the names of arguments"):
        search.fit({"table": X[:, :3], 1: KEYED["word"]}, Y)
    with pytest.raises(InvalidTypeError, match="X must be one array-like"):
        PrivateRandomSearchCV(make_pipeline(Normalizer(), DPLogisticRegression()), {}, n_iter=2).fit(KEYED, Y)
    search.fit(KEYED, Y)
    with pytest.raises(InvalidParameterError, match="X must hold the rows of fit, by name"):
        search.predict({"table": X[:, :3]})


def test_public_rows_for_nets():
    """skorch's routing of classes= made scikit-learn's scorers fail on every net."""
    net = DPNeuralNetClassifier(Small, steps=2)
    search = PrivateRandomSearchCV(net, {"lr": [0.1, 1.0]}, n_iter=2).fit(X, Y, X_public=X + 1, y_public=Y)
    assert 0 <= search.best_score_ <= 1
    assert check_scoring(net)(clone(net).fit(X, Y), X, Y) >= 0
    keyed = PrivateRandomSearchCV(DPNeuralNetClassifier(TwoInputs, steps=2), {"lr": [0.1]}, n_iter=2)
    public = {"word": KEYED["word"][:9], "table": KEYED["table"][:9]}
    with pytest.raises(InvalidParameterError, match="must not hold private rows"):
        keyed.fit(KEYED, Y, X_public=public, y_public=Y[:9])
    with pytest.raises(InvalidParameterError, match="X_public must have the arrays of X"):
        keyed.fit(KEYED, Y, X_public={"word": public["word"]}, y_public=Y[:9])
    public["table"] = public["table"] + 1
    assert 0 <= keyed.fit(KEYED, Y, X_public=public, y_public=Y[:9]).best_score_ <= 1


def test_images_in_a_search():
    class Flat(Images):
        def __init__(self, n_outputs=2):
            super().__init__(n_outputs)

    pictures = np.random.default_rng(0).normal(size=(120, 1, 8, 8))
    search = PrivateRandomSearchCV(DPNeuralNetClassifier(Flat, steps=2), {"lr": [0.1]}, n_iter=2)
    assert search.fit(pictures, Y).predict(pictures).shape == (120,)


def test_sparse_rows_that_cannot_be_cut():
    class Ledger:
        charged = 0

        def charge(self, spent, delta):
            Ledger.charged += 1

    search = PrivateRandomSearchCV(
        DPNeuralNetClassifier(Small, steps=2), {"lr": [0.1]}, n_iter=2, ledger=Ledger(), delta=1e-5
    )
    for kind in (sp.coo_matrix, sp.coo_array, sp.bsr_matrix):
        assert search.fit(kind(X), Y).predict(kind(X)).shape == (120,)


@pytest.mark.slow
def test_parts_of_very_different_sizes_are_calibrated():
    """With a rate that follows from the number of rows the smallest part needs the most noise."""
    parts = [(range(100), range(100, 120)), (range(40), range(40, 120))]
    net = DPNeuralNetClassifier(Small, expected_batch_size=24, steps=6)
    search = PrivateRandomSearchCV(
        net, {"lr": [0.1, 1.0]}, n_iter=Fixed(2), cv=parts, refit=False, epsilon=8.0, delta=1e-4
    ).fit(X, Y)
    assert search.privacy_spent_.epsilon(1e-4) <= 8.0


def test_plain_skorch_nets_are_refused_by_name():
    from skorch import NeuralNet, NeuralNetClassifier

    class Mine(NeuralNetClassifier):
        pass

    for net in (NeuralNetClassifier(Small), NeuralNet(Small, torch.nn.MSELoss), Mine(Small)):
        for candidate in (net, make_pipeline(Normalizer(), net)):
            with pytest.raises(CandidateRefusedError, match="use skdptune.candidates.DPNeuralNetClassifier or"):
                PrivateRandomSearchCV(candidate, {}, n_iter=2).privacy_cost(n_samples=100)


def test_names_of_the_nets_are_lazy():
    from skdptune import candidates
    from skdptune.candidates import nets

    for name in candidates._OF_NETS:
        assert getattr(candidates, name) is getattr(nets, name) and name in dir(candidates)
    assert set(candidates._OF_NETS) <= set(nets.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'DPNeuralNetwork'"):
        candidates.__getattr__("DPNeuralNetwork")
