"""A search in MLflow: what the store holds is what was published, and autologging is refused."""

import copy
import dataclasses
import hashlib
import math
import os
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skdptune import PrivacyCurve, PrivateRandomSearchCV
from skdptune.exceptions import InvalidParameterError, InvalidTypeError, MissingDependencyError
from skdptune.model_selection import release_test_score
from skdptune.model_selection._autologging import refuse_autologging
from skdptune.report import log_to_mlflow, mlflow_payload
from skdptune.run_counts import Finite, Fixed, Geometric

PARAMS = {
    "best.C",
    "privacy.epsilon",
    "privacy.delta",
    "privacy.relation",
    "privacy.method",
    "privacy.run_count",
    "privacy.seeded",
}
METRICS = {"best_score", "epsilon"}
LOSERS = [0.125, 0.375, 0.625, 0.875]


class Perturbed(ClassifierMixin, BaseEstimator):
    """Noise on the weights of a scikit-learn model that is fitted inside: what autologging would write down."""

    published_attributes = ("weights_", "classes_")

    def __init__(self, C=1.0):
        self.C = C

    def privacy_curve(self, n_samples, relation):
        return PrivacyCurve.pure(1.0, relation=relation)

    def fit(self, X, y):
        model = LogisticRegression(C=self.C, max_iter=5).fit(X, y)
        self.classes_ = model.classes_
        self.weights_ = model.coef_[0] + np.random.normal(size=X.shape[1])
        return self

    def predict(self, X):
        return self.classes_[(X @ self.weights_ > 0).astype(int)]


def _search(**settings):
    settings = {"n_iter": Fixed(6), "classes": [0, 1], **settings}
    return PrivateRandomSearchCV(Perturbed(), {"C": LOSERS}, **settings)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def search(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _search().fit(*rows)


def _client(uri, monkeypatch, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("searches")
    return mlflow


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    mlflow = _client(f"file:{tmp_path}/runs", monkeypatch, tmp_path)
    yield mlflow
    mlflow.sklearn.autolog(disable=True, silent=True)


def _runs(mlflow):
    return mlflow.MlflowClient().search_runs([mlflow.get_experiment_by_name("searches").experiment_id])


quiet = pytest.mark.filterwarnings("ignore")  # MLflow's own warnings are not this suite's


@quiet
def test_the_store_holds_what_was_published_and_nothing_else(mlflow, search):
    run_id = log_to_mlflow(search, 1e-3, run_name="a search")
    (found,) = _runs(mlflow)
    assert found.info.run_id == run_id
    assert set(found.data.params) == PARAMS
    assert set(found.data.metrics) == METRICS
    assert found.data.params["best.C"] == str(search.best_params_["C"])
    assert found.data.metrics["best_score"] == search.best_score_
    assert found.data.metrics["epsilon"] == search.privacy_spent_.epsilon(1e-3)
    assert float(found.data.params["privacy.epsilon"]) >= found.data.metrics["epsilon"]
    assert mlflow.MlflowClient().list_artifacts(run_id) == []
    assert {name for name in found.data.tags if not name.startswith("mlflow.")} == set()
    assert mlflow.active_run() is None


def _assert_no_loser(folder, search):
    held = b"".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())
    assert str(search.best_params_["C"]).encode() in held  # looked at in the right place
    for value in LOSERS:
        if value != search.best_params_["C"]:
            assert str(value).encode() not in held


@quiet
def test_no_loser_is_in_the_bytes_of_a_file_store(mlflow, search, tmp_path):
    log_to_mlflow(search)
    _assert_no_loser(tmp_path, search)


@quiet
@pytest.mark.slow  # MLflow takes seconds to make its tables
def test_no_loser_is_in_the_bytes_of_a_database(search, tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("alembic")
    mlflow = _client(f"sqlite:///{tmp_path}/runs.db", monkeypatch, tmp_path)
    log_to_mlflow(search)
    (found,) = _runs(mlflow)
    assert (set(found.data.params), set(found.data.metrics)) == (PARAMS, METRICS)
    _assert_no_loser(tmp_path, search)


@quiet
def test_the_run_tells_nothing_about_the_time_of_the_fit(mlflow, search):
    with mlflow.start_run():
        with pytest.raises(InvalidParameterError, match="End it first"):
            log_to_mlflow(search)
    assert mlflow.active_run() is None


@quiet
def test_autologging_would_log_every_try_and_is_refused_before_anything_is_spent(mlflow, rows):
    class Ledger:
        charged = 0

        def charge(self, spent, delta=None):
            self.charged += 1

    ledger = Ledger()
    mlflow.sklearn.autolog(silent=True, log_models=False, log_datasets=False)
    with pytest.raises(InvalidParameterError, match="would log every try"):
        _search(ledger=ledger).fit(*rows)
    assert ledger.charged == 0
    assert _runs(mlflow) == []
    mlflow.sklearn.autolog(disable=True)
    search = _search(ledger=ledger).fit(*rows)
    assert ledger.charged == 1
    assert _runs(mlflow) == []
    log_to_mlflow(search)


@quiet
def test_the_three_lines_of_the_documentation(mlflow, search):
    page = (Path(__file__).parents[2] / "doc" / "ecosystem.rst").read_text(encoding="utf-8")
    _, _, rest = page.partition("A finished search in three lines:")
    lines = rest.partition(".. code-block:: python\n\n")[2].partition("\n\n")[0].splitlines()
    assert len(lines) == 3
    exec("\n".join(line.strip() for line in lines), {"search": search})
    assert len(_runs(mlflow)) == 1


_GENERIC = """
import warnings
warnings.simplefilter("ignore")
import mlflow
import numpy as np
from skdptune import PrivateRandomSearchCV
from skdptune.exceptions import InvalidParameterError
from tests.report.test_mlflow import Perturbed
mlflow.autolog(silent=True)
try:
    PrivateRandomSearchCV(Perturbed(), {"C": [1.0]}).fit(np.eye(8), [0, 1] * 4)
except InvalidParameterError as error:
    print(error)
"""


@quiet
def test_generic_autologging_is_refused_too(mlflow):
    # in a process of its own: the generic call leaves alone what was configured by hand before
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, *sys.path])
    found = subprocess.run(
        [sys.executable, "-c", _GENERIC], check=False, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert "autologging must be off" in found.stdout, found.stderr


# -- without MLflow ----------------------------------------------------------------------------


def test_payload(search):
    payload = mlflow_payload(search, 1e-6)
    assert set(payload["params"]) == PARAMS
    assert set(payload["metrics"]) == METRICS
    assert payload["params"]["privacy.delta"] == "1e-06"
    assert payload["params"]["privacy.run_count"] == "Fixed(k=6)"
    assert payload["params"]["privacy.seeded"] == "false"
    assert payload["metrics"]["epsilon"] == search.privacy_spent_.epsilon(1e-6)
    assert payload["metrics"]["best_score"] == search.best_score_


def test_payload_of_a_test_score(search, rows):
    released = release_test_score(copy.copy(search), *rows)
    payload = mlflow_payload(released, 1e-6)
    assert set(payload["params"]) == PARAMS and set(payload["metrics"]) == {*METRICS, "test_score"}
    assert payload["params"]["best.C"] == str(search.best_params_["C"])
    assert payload["metrics"]["test_score"] == released.score
    assert payload["metrics"]["epsilon"] == released.epsilon(1e-6)


def test_a_text_too_long_for_mlflow_is_cut_with_a_digest(search):
    count = Finite({k: 1 / 700 for k in range(1, 701)})
    long = copy.copy(search)
    long.privacy_spent_ = dataclasses.replace(search.privacy_spent_, run_count=count)
    text, whole = mlflow_payload(long)["params"]["privacy.run_count"], repr(count)
    assert len(whole) > 6000 >= len(text)
    assert text.startswith(whole[:100]) and hashlib.sha256(whole.encode()).hexdigest() in text


def test_payload_defaults_to_the_reports_delta(search):
    spent = search.privacy_spent_
    assert mlflow_payload(search)["params"]["privacy.delta"] == repr(spent.default_delta)


def test_payload_of_a_search_without_a_winner_has_no_score(search):
    empty = copy.copy(search)
    empty.best_params_, empty.best_score_ = None, math.nan
    payload = mlflow_payload(empty)
    assert set(payload["metrics"]) == {"epsilon"}
    assert not any(name.startswith("best.") for name in payload["params"])


def test_an_infinite_price_is_said_in_words(rows):
    class Blunt(Perturbed):
        def privacy_curve(self, n_samples, relation):
            return PrivacyCurve.gaussian(3.0, relation=relation)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blunt = PrivateRandomSearchCV(Blunt(), {"C": [1.0]}, n_iter=Geometric(2), classes=[0, 1]).fit(*rows)
    payload = mlflow_payload(blunt, 0.0)
    assert payload["params"]["privacy.epsilon"] == "infinite"
    assert "epsilon" not in payload["metrics"]


@pytest.mark.filterwarnings("ignore")
def test_a_seed_is_said(rows):
    assert mlflow_payload(_search(random_state=0).fit(*rows))["params"]["privacy.seeded"] == "true"


def test_errors(search, monkeypatch):
    with pytest.raises(NotFittedError):
        mlflow_payload(_search())
    with pytest.raises(InvalidTypeError, match="a fitted PrivateRandomSearchCV"):
        mlflow_payload(LogisticRegression())
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingDependencyError, match="Install mlflow"):
        log_to_mlflow(search)


def _fake(**attributes):
    return types.SimpleNamespace(**attributes)


@pytest.mark.parametrize(
    ("module", "refused"),
    [
        (_fake(AUTOLOGGING_INTEGRATIONS={}, autologging_is_disabled=lambda name: False), False),
        (_fake(AUTOLOGGING_INTEGRATIONS={"sklearn": {}}, autologging_is_disabled=lambda name: True), False),
        (_fake(AUTOLOGGING_INTEGRATIONS={"openai": {}}, autologging_is_disabled=lambda name: False), False),
        (_fake(AUTOLOGGING_INTEGRATIONS={"sklearn": {}}, autologging_is_disabled=lambda name: False), True),
        (_fake(), True),  # a version that cannot be asked
    ],
)
def test_what_autologging_is_refused(monkeypatch, module, refused):
    monkeypatch.setitem(sys.modules, "mlflow.utils.autologging_utils", module)
    if refused:
        with pytest.raises(InvalidParameterError, match="mlflow"):
            refuse_autologging()
    else:
        refuse_autologging()
