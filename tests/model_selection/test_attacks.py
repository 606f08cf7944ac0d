"""Ways in which a promise was once broken; each fails without its cure."""

import logging
import os
import pickle
import signal
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import (
    AllRunsFailedError,
    BudgetExceededError,
    CandidateRefusedError,
    InvalidParameterError,
    RunFailedError,
)
from skdptune.accounting import PrivacyCurve
from skdptune.candidates import row_wise
from skdptune.model_selection._runs import total_count
from skdptune.run_counts import Fixed, Geometric
from skdptune.scoring import AccuracyScorer
from tests.candidates.toys import GaussianToy, Toy


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2


def search_over(estimator=None, space=None, **params):
    return PrivateRandomSearchCV(
        estimator if estimator is not None else GaussianToy(s=4.0), space or {"s": [4.0, 8.0]}, **params
    )


# ---------------------------------------------------------------- runs are total


class Picky(GaussianToy):
    """Cannot predict rows with a huge cell, like every model that works in single precision."""

    def predict(self, X):
        if np.abs(np.asarray(X)).max() > 1e30:
            raise ValueError("too large for float32")
        return super().predict(X)


def test_one_row_cannot_make_the_runs_fail(rows):
    X, y = rows
    X[:, 0] = 1e39  # whichever rows are held out
    search = search_over(Picky(s=4.0), n_iter=Fixed(2)).fit(X, y)
    assert np.isfinite(search.best_score_)


def test_one_row_moves_the_count_by_its_own_share(rows):
    X, y = rows
    model = Picky().fit(X, y)
    scorer = AccuracyScorer()
    clean = total_count(scorer, model, X, y)
    X[7, 1] = 1e39
    assert abs(total_count(scorer, model, X, y) - clean) <= scorer.resolution


def test_a_model_that_always_raises_scores_worst_and_is_told_from_made_up_rows(rows):
    class Broken(GaussianToy):
        def predict(self, X):
            raise ValueError("cell 4711")

    broken = Broken().fit(*rows)
    assert total_count(AccuracyScorer(), broken, *rows) == 0  # as where no row is scored: failing would tell
    with pytest.warns(UserWarning, match="raised ValueError on every row made up") as caught:
        search = search_over(Broken(), n_iter=Fixed(2)).fit(*rows)
    assert search.best_params_ is not None and "4711" not in str(caught[0].message)
    assert caught[0].filename == __file__


class Years(GaussianToy):
    """Cannot predict the rows that are made up, and one that is not."""

    def predict(self, X):
        if (np.asarray(X) < 1900).any():
            raise ValueError("no year")
        return super().predict(X)


def test_no_row_makes_a_run_fail_of_a_model_that_raises_on_made_up_rows(rows):
    X, y = np.full((40, 1), 1980.0), np.arange(40) % 2
    X[35] = 17
    with pytest.warns(UserWarning, match="on every row made up"):
        search_over(Years(), n_iter=Fixed(2), cv=[(np.arange(30), np.arange(30, 40))]).fit(X, y)


def test_one_cell_of_a_transformed_row_cannot_make_the_runs_fail(rows):
    X, y = np.abs(rows[0]), rows[1]
    X[:, 0] = 0.0
    pipeline = make_pipeline(row_wise(FunctionTransformer(np.log)), Picky(s=4.0))
    search_over(pipeline, {"picky__s": [4.0]}, n_iter=Fixed(2)).fit(X, y)


class Quits(GaussianToy):
    def fit(self, X, y=None):
        raise SystemExit(3)


def test_a_candidate_that_exits_ranks_last(rows):
    with pytest.raises(AllRunsFailedError, match="SystemExit"):
        search_over(Quits(), n_iter=Fixed(2)).fit(*rows)


class Dies(GaussianToy):
    """Kills its own process in every third fit or so."""

    def fit(self, X, y=None):
        super().fit(X, y)
        if self.z_ > 2.0:
            os.kill(os.getpid(), signal.SIGKILL)
        return self


def test_a_dead_worker_ranks_last_and_the_search_goes_on(rows, monkeypatch):
    monkeypatch.setattr(PrivateRandomSearchCV, "_draw_run_count", lambda *args: 5)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        try:
            search = search_over(Dies(s=4.0)).fit(*rows)
            assert search.best_estimator_.z_ <= 2.0
        except AllRunsFailedError as error:  # every worker died: charged, and said in our words
            assert "stays charged" in str(error)


# ---------------------------------------------------------------- fresh randomness


class RngToy(GaussianToy):
    def __init__(self, s=4.0, rng=None, random_state=None):
        self.rng = rng
        super().__init__(s=s, random_state=random_state)


class MembersToy(GaussianToy):
    def __init__(self, s=4.0, members=(), random_state=None):
        self.members = members
        super().__init__(s=s, random_state=random_state)


@pytest.mark.parametrize(
    "estimator",
    [
        RngToy(rng=np.random.default_rng(0)),
        RngToy(rng=np.random.RandomState(0)),
        RngToy(rng=3),
        MembersToy(members=[Toy(random_state=0)]),
        MembersToy(members={"a": np.random.SeedSequence(1)}),
    ],
    ids=["generator", "state", "integer", "member", "dict"],
)
def test_seeds_under_other_names_are_refused(rows, estimator):
    with pytest.raises(CandidateRefusedError, match="its noise would repeat"):
        search_over(estimator).fit(*rows)


def test_seeds_are_not_searched(rows):
    with pytest.raises(InvalidParameterError, match="replays the noise"):
        search_over(space={"random_state": [0, 1]}).fit(*rows)


# ---------------------------------------------------------------- prices


class TwoFaced(Toy):
    """Two settings that agree at many orders and differ between them."""

    privacy_params = ("s", "high")

    def __init__(self, s=4.0, high=False, random_state=None):
        self.high = high
        super().__init__(s=s, random_state=random_state)

    def rdp_curve(self, orders):
        orders = np.asarray(orders, dtype=float)
        base = orders / (2 * self.s**2)
        return np.where((orders > 64.5) & (orders < 127.5) & self.high, 127.9 / (2 * self.s**2), base)


@pytest.mark.parametrize("order", [(False, True), (True, False)])
def test_prices_do_not_depend_on_what_was_priced_before(order):
    found = {high: search_over(TwoFaced(high=high), {"s": [4.0]}).privacy_cost(50) for high in order}
    again = {high: search_over(TwoFaced(high=high), {"s": [4.0]}).privacy_cost(50) for high in order[::-1]}
    assert found[False].curve != found[True].curve
    for high in order:
        assert found[high].rdp([100.0])[0] == again[high].rdp([100.0])[0]
    assert found[True].rdp([100.0])[0] >= found[False].rdp([100.0])[0]


def test_the_refit_is_compared_with_its_price(rows):
    class Growing(GaussianToy):
        privacy_params = ()

        def __init__(self, e=0.1, random_state=None):
            self.e = e
            super().__init__(random_state=random_state)

        def get_params(self, deep=True):
            return {"e": self.e, "random_state": self.random_state}

        def set_params(self, **params):
            for name, value in params.items():
                setattr(self, name, value)
            return self

        def privacy_curve(self, n_samples):
            return PrivacyCurve.pure(0.1 if n_samples < 40 else self.e)

    with pytest.raises(CandidateRefusedError, match="privacy_params"):
        search_over(Growing(), {"e": [5.0]}, refit=True).fit(*rows)


def test_a_price_without_a_number_of_rows_names_none():
    cost = search_over().privacy_cost()
    assert cost.n_samples is None and not any("50" in sentence for sentence in cost.assumptions)
    assert cost.epsilon(1e-5) == search_over().privacy_cost(70).epsilon(1e-5)
    with pytest.raises(InvalidParameterError, match="n_samples must be given"):
        search_over(cv=[([0, 1], [299])]).privacy_cost()


def test_a_setting_without_a_finite_cost_is_named():
    class Noiseless(Toy):
        def rdp_curve(self, orders):
            return super().rdp_curve(orders) if self.s else np.full(len(orders), np.inf)

    with pytest.raises(CandidateRefusedError, match=r"no finite cost, \{'s': 0\.0\}"):
        search_over(Noiseless(), {"s": [0.0, 1.0]}).privacy_cost(50)


# ---------------------------------------------------------------- silence


class Chatty(GaussianToy):
    def fit(self, X, y=None):
        logging.getLogger("some.library").error("epoch done")
        os.write(1, b"to the descriptor\n")
        os.write(2, b"to the descriptor\n")
        return super().fit(X, y)


@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_logging_and_descriptors_are_silent(rows, backend, capfd):
    handler = logging.StreamHandler(sys.__stderr__)
    logging.getLogger().addHandler(handler)
    try:
        with joblib.parallel_config(backend=backend, n_jobs=2):
            search_over(Chatty(), n_iter=Fixed(3)).fit(*rows)
        logging.getLogger("some.library").error("heard again")
    finally:
        logging.getLogger().removeHandler(handler)
    out, err = capfd.readouterr()
    assert "descriptor" not in out + err and "epoch" not in err


def test_progress_is_for_the_curator_who_asks(rows, capfd):
    search_over(n_iter=Fixed(3), verbose=2).fit(*rows)
    err = capfd.readouterr().err
    assert "must not be published" in err and "3 tries" in err
    search_over(n_iter=Fixed(3)).fit(*rows)
    assert capfd.readouterr().err == ""


def test_no_cell_hangs_on_an_error(rows):
    X, y = rows
    text = X.astype(object)
    text[3, 1] = "SECRET-cell"
    with pytest.raises(InvalidParameterError, match="X must be numeric") as caught:
        search_over().fit(text, y)
    assert caught.value.__context__ is None and caught.value.__cause__ is None

    class Fails(GaussianToy):
        def fit(self, X, y=None):
            if len(X) == 40:
                raise ValueError(f"cell {X[0, 0]}")
            return super().fit(X, y)

    with pytest.raises(RunFailedError, match="ValueError") as caught:
        search_over(Fails(), refit=True).fit(*rows)
    assert caught.value.__context__ is None


# ---------------------------------------------------------------- the bill


class Ledger:
    def __init__(self):
        self.charges = []

    def charge(self, spent, delta=None):
        self.charges.append(spent)


@pytest.mark.parametrize(
    "params",
    [
        {"n_jobs": 0},
        {"n_jobs": "two"},
        {"pre_dispatch": "foo"},
        {"pre_dispatch": -1},
        {"verbose": "x"},
        {"random_state": "a"},
        {"random_state": np.random.default_rng(0)},
    ],
    ids=["n_jobs-0", "n_jobs-text", "dispatch-text", "dispatch-negative", "verbose", "state-text", "state-generator"],
)
def test_settings_of_the_runs_are_checked_before_the_charge(rows, params):
    ledger = Ledger()
    with pytest.raises((ValueError, TypeError), match=f"^{next(iter(params))} must be"):
        search_over(ledger=ledger, **params).fit(*rows)
    assert ledger.charges == []


def test_public_rows_are_checked_before_the_charge(rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    ledger = Ledger()
    search = search_over(ledger=ledger, scoring="accuracy")
    for bad, labels in (
        (frame[["b", "a", "c"]] + 1, y),
        (frame.rename(columns={"a": "z"}) + 1, y),
        (X + 1, y),
        (frame.mask(frame > 0), y),
        (frame + 1, y.astype(str)),
    ):
        with pytest.raises(ValueError):
            search.fit(frame, y, X_public=bad, y_public=labels)
    assert ledger.charges == []
    search.fit(frame, y, X_public=frame + 1, y_public=y)


@pytest.mark.parametrize("convert", ["labels", "single", "repeated"])
def test_converted_private_rows_are_still_private(rows, convert):
    X, y = rows
    X_public, y_public = X[:10], y[:10]
    if convert == "labels":
        y_public = y_public.astype(float)
    elif convert == "single":
        X_public = X_public.astype(np.float32)
    else:
        X, y = np.tile(X, (3, 1)), np.tile(y, 3)
    with pytest.raises(InvalidParameterError, match="bit for bit"):
        search_over(scoring="accuracy").fit(X, y, X_public=X_public, y_public=y_public)


class Accountant:
    def __init__(self):
        self.charges = []

    def check(self, epsilon, delta):
        return True

    def spend(self, epsilon, delta):
        self.charges.append((epsilon, delta))


def _fit_in_child(search, rows):
    try:
        search.fit(*rows)
    except BudgetExceededError:
        return "refused"
    return "charged a copy"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_does_not_charge_its_copy(rows):
    search = search_over(ledger=Accountant(), delta=1e-5)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, _fit_in_child(search, rows).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"refused"
    os.close(read)


def test_copies_of_a_search_do_not_spend(rows):
    search = search_over(ledger=Ledger(), n_iter=Geometric(2))
    with pytest.raises(BudgetExceededError, match="another process"):
        pickle.loads(pickle.dumps(search)).fit(*rows)
