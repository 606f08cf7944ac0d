"""Many at once: processes, threads, forks and workers that charge one file."""

import json
import multiprocessing
import os
import pickle
import threading

import joblib
import numpy as np
import pytest

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import BudgetExceededError
from skdptune.accounting import PrivacyCurve
from skdptune.ledger import PrivacyLedger
from skdptune.ledger._filter import budget_at
from tests.candidates.toys import GaussianToy

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

PROCESSES, FITTING = 8, 5
ROWS = np.zeros((40, 2)), np.arange(40) % 2


def terms(kind):
    """Terms under which exactly five of ``curve`` fit, and the curve."""
    if kind == "pure":
        return {"epsilon": 1.0, "delta": 0.0}, PrivacyCurve.pure(0.2)
    # the divergence a / (2 s^2) of five fits, that of six does not
    budget = budget_at(8.0, 3.0, 0.9e-5)
    return {"epsilon": 3.0, "delta": 1e-5, "order": 8.0}, PrivacyCurve.gaussian((8.0 / (2 * budget / 5.5)) ** 0.5)


def spend_in_every_round(folder, rounds, kind, gate, won, who):
    asked, curve = terms(kind)
    for number in range(rounds):
        gate.wait()  # all of them make the file at once, then charge it at once
        try:
            ledger = PrivacyLedger(os.path.join(folder, f"{kind}-{number}"), **asked)
            ledger.charge_once(f"process {who}", curve)
            won[number * PROCESSES + who] = 1
        except BudgetExceededError:
            won[number * PROCESSES + who] = 2


def race(folder, rounds, kind):
    context = multiprocessing.get_context("fork")
    gate, won = context.Barrier(PROCESSES, timeout=120), context.Array("i", rounds * PROCESSES, lock=False)
    racers = [
        context.Process(target=spend_in_every_round, args=(folder, rounds, kind, gate, won, who))
        for who in range(PROCESSES)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * PROCESSES
    outcomes = np.array(won).reshape(rounds, PROCESSES)
    assert np.all((outcomes == 1).sum(axis=1) == FITTING) and np.all((outcomes == 2).sum(axis=1) == PROCESSES - FITTING)
    for number in range(rounds):
        ledger = PrivacyLedger.open(os.path.join(folder, f"{kind}-{number}"))
        winners = {f"process {who}" for who in np.flatnonzero(outcomes[number] == 1)}
        assert {entry.token for entry in ledger.entries()} == winners and ledger.verify()
        assert not ledger.can_afford(terms(kind)[1])
    # no half-made files are left behind
    assert sorted(os.listdir(folder)) == sorted(f"{kind}-{number}" for number in range(rounds))


@pytest.mark.parametrize("kind", ["pure", "gaussian"])
def test_of_eight_processes_racing_for_five_places_five_succeed(tmp_path, kind):
    race(str(tmp_path), 3, kind)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rounds"), [("pure", 100), ("gaussian", 20)])
def test_of_eight_processes_racing_for_five_places_five_succeed_every_time(tmp_path, kind, rounds):
    race(str(tmp_path), rounds, kind)


def test_racing_with_one_token_is_one_charge(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 0)
    threads = [threading.Thread(target=ledger.charge_once, args=("x", PrivacyCurve.pure(0.2))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries()) == 1


def in_threads(work, count):
    """Call ``work()`` in so many threads at once; return when all are done."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_share_one_object(tmp_path):
    ledger, refused = PrivacyLedger(tmp_path / "a", 1.0, 0), []

    def spend():
        for _ in range(3):
            try:
                ledger.charge_curve(PrivacyCurve.pure(0.2), "count")
            except BudgetExceededError:
                refused.append(1)

    in_threads(spend, 3)
    assert (len(ledger.entries()), len(refused), ledger.spent) == (5, 4, 1.0)


def test_a_forked_child_spends_the_same_budget(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 0)
    ledger.charge_curve(PrivacyCurve.pure(0.25), "before")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ledger.charge_curve(PrivacyCurve.pure(0.25), "in the child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    ledger.charge_curve(PrivacyCurve.pure(0.25), "after")
    assert [entry.what for entry in ledger.entries()] == ["before", "in the child", "after"]


def test_forks_while_a_thread_charges(tmp_path):
    ledger, stop = PrivacyLedger(tmp_path / "a", 1000.0, 0), threading.Event()
    by_thread = []

    def spend():
        while not stop.is_set():
            by_thread.append(ledger.charge_curve(PrivacyCurve.pure(0.125), "thread"))

    thread = threading.Thread(target=spend)
    thread.start()
    children = []
    for _ in range(12):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                ledger.charge_curve(PrivacyCurve.pure(0.125), "child")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    stop.set()
    thread.join()
    assert codes == [0] * 12 and ledger.verify()
    assert ledger.spent == 0.125 * (12 + len(by_thread))


def charge_there(ledger, number):
    return ledger.charge_once(f"worker {number}", PrivacyCurve.pure(0.125)).seq


def test_workers_spend_the_same_budget(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 0)
    done = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(charge_there)(ledger, i) for i in range(4))
    assert sorted(done) == [1, 2, 3, 4] and ledger.spent == 0.5


def fit_there(text):
    return pickle.loads(text).fit(*ROWS).privacy_spent_.epsilon(1e-5)


def test_a_pickled_search_charges_from_a_worker(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 10.0, 1e-5)
    search = PrivateRandomSearchCV(GaussianToy(s=4.0), {"s": [4.0]}, n_iter=3, ledger=ledger)
    text = pickle.dumps(search)
    epsilons = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(fit_there)(text) for _ in range(2))
    assert [entry.epsilon for entry in ledger.entries()] == epsilons


def test_plans_hand_out_each_place_once(tmp_path):
    curve = PrivacyCurve.pure(0.2)
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 0)
    ledger.register_plan([curve] * 4)
    refused = []

    def spend():
        try:
            ledger.charge(curve)
        except BudgetExceededError:
            refused.append(1)

    in_threads(spend, 6)
    assert sorted(entry.slot for entry in ledger.entries()[1:]) == [1, 2, 3, 4] and len(refused) == 2


def charges_on(path, started):
    ledger = PrivacyLedger.open(path)
    started.set()
    for _ in range(300):
        ledger.charge_curve(PrivacyCurve.pure(0.001), "x")


def test_what_is_written_out_is_of_one_moment(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", epsilon=1.0, delta=0)
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    other = context.Process(target=charges_on, args=(ledger.path, started))
    other.start()
    started.wait(60)
    seen = []
    while other.is_alive():
        content, now = json.loads(ledger.to_json()), ledger.snapshot()
        assert content["spent"] == pytest.approx(sum(entry["rdp"] for entry in content["entries"]), abs=1e-12)
        assert not content["entries"] or content["head"] == content["entries"][-1]["hash"]
        assert now.spent == pytest.approx(0.001 * len(now.entries), abs=1e-12) and now.rdp_spent == now.spent
        assert now.remaining == pytest.approx(1.0 - now.spent, abs=1e-12)
        seen.append(len(now.entries))
    other.join()
    assert len(ledger.entries()) == 300 and len(set(seen)) > 1
