"""One budget for searches and for diffprivlib's own releases, with the real library."""

import copy
import math
import os
import pickle

import numpy as np
import pytest

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import (
    BudgetExceededError,
    InvalidParameterError,
    InvalidTypeError,
    PricingError,
    RelationMismatchError,
)
from skdptune.accounting import PrivacyCurve
from skdptune.ledger import PrivacyLedger, as_ledger
from tests.candidates.toys import GaussianToy

diffprivlib = pytest.importorskip("diffprivlib")
ROWS = np.zeros((40, 2)), np.arange(40) % 2


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "pure", epsilon=1.0, delta=0)


def test_histograms_and_means_draw_from_the_ledger(ledger):
    accountant, values = ledger.as_accountant(), np.linspace(0, 1, 50)
    diffprivlib.tools.histogram(values, epsilon=0.25, range=(0, 1), accountant=accountant)
    diffprivlib.tools.mean(values, epsilon=0.5, bounds=(0, 1), accountant=accountant)
    assert [entry.rdp for entry in ledger.entries()] == [0.25, 0.5]
    assert tuple(accountant.total()) == (0.75, 0.0) and len(accountant) == 2
    assert 0.2499 < accountant.remaining()[0] <= 0.25 and accountant.remaining(2)[0] <= 0.125
    for error in (diffprivlib.utils.BudgetError, BudgetExceededError):
        with pytest.raises(error, match="room for"):
            diffprivlib.tools.mean(values, epsilon=0.5, bounds=(0, 1), accountant=accountant)
    assert ledger.spent == 0.75 and "diffprivlib keeps" in ledger.entries()[0].assumptions[0]


def test_the_budget_is_charged_before_a_row_is_read(ledger):
    accountant, other = ledger.as_accountant(), ledger.as_accountant()
    assert accountant.check(0.75, 0) and ledger.spent == 0.75
    with pytest.raises(diffprivlib.utils.BudgetError, match="room for"):
        other.check(0.75, 0)  # before it has read anything
    accountant.spend(0.75, 0)
    assert ledger.spent == 0.75 and len(accountant) == 1 and len(other) == 0
    accountant.spend(0.125, 0)  # without a check
    accountant.check(0.0625, 0)
    accountant.spend(0.03125, 0)  # after the check of something else
    assert [entry.rdp for entry in ledger.entries()] == [0.75, 0.125, 0.0625, 0.03125]


def test_of_two_fits_at_once_one_has_no_model(ledger):
    fitted, rows = [], np.array(ROWS[0])
    models = [
        diffprivlib.models.GaussianNB(epsilon=0.75, bounds=(-1, 1), accountant=ledger.as_accountant()) for _ in range(2)
    ]
    check = diffprivlib.models.GaussianNB._check_bounds

    def look(*arguments, **keywords):
        if not fitted:  # the first one is half-way: another process fits its model
            fitted.append(True)
            with pytest.raises(diffprivlib.utils.BudgetError):
                models[1].fit(rows, ROWS[1])
        return check(*arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diffprivlib.models.GaussianNB, "_check_bounds", staticmethod(look))
        models[0].fit(rows, ROWS[1])
    assert fitted and hasattr(models[0], "theta_") and not hasattr(models[1], "theta_") and ledger.spent == 0.75


def test_a_check_pays_for_the_spend_of_the_same_function_only(ledger, monkeypatch):
    accountant = ledger.as_accountant()
    model = diffprivlib.models.GaussianNB(epsilon=0.25, bounds=(-1, 1), accountant=accountant)
    with monkeypatch.context() as patch:
        patch.setattr(type(accountant), "spend", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):  # at the last step of fit: the model is there
            model.fit(*ROWS)
    assert hasattr(model, "theta_") and ledger.spent == 0.25
    accountant.spend(0.25, 0)  # for something else
    assert ledger.spent == 0.5


def test_copies_in_workers_spend_from_the_same_ledger(ledger):
    search = PrivateRandomSearchCV(GaussianToy(), {"s": [4.0]}, ledger=ledger.as_accountant())
    assert pickle.loads(pickle.dumps(search)).ledger.__skdptune_ledger__ == ledger


def test_a_check_is_not_the_childs_to_spend(ledger):
    accountant = ledger.as_accountant()
    accountant.check(0.75, 0)
    child = os.fork()
    if child == 0:
        try:
            accountant.spend(0.75, 0)
        except diffprivlib.utils.BudgetError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_models_contexts_and_copies_spend_from_the_same_file(ledger):
    accountant = ledger.as_accountant()
    model = diffprivlib.models.GaussianNB(epsilon=0.25, bounds=(-1, 1), accountant=accountant)
    model.fit(*ROWS)
    copy.deepcopy(model).fit(*ROWS)
    with pickle.loads(pickle.dumps(accountant)):
        diffprivlib.tools.count_nonzero(ROWS[1], epsilon=0.25)
    assert ledger.spent == 0.75 and repr(accountant).endswith("as_accountant()")
    assert copy.copy(accountant) is copy.deepcopy(accountant) is accountant


def test_a_search_given_the_accountant_charges_the_ledger_itself(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 10.0, 1e-5)
    accountant = ledger.as_accountant()
    assert as_ledger(accountant) is ledger
    PrivateRandomSearchCV(GaussianToy(s=4.0), {"s": [4.0]}, n_iter=3, ledger=accountant).fit(*ROWS)
    assert [entry.method for entry in ledger.entries()] != ["basic"] and len(ledger.entries()) == 1


def test_deltas_come_from_the_part_kept_for_them(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", epsilon=3.0, delta=1e-5, order=math.inf)
    ledger.as_accountant().spend(1.0, 1e-6)
    assert (ledger.spent, ledger.aside_spent) == (1.0, 1e-6)


def test_replaced_rows_are_charged_as_two_steps(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 0, relation="replace-one")
    ledger.as_accountant().spend(0.25, 0)
    assert ledger.spent == 0.5


def test_a_private_number_of_rows_is_refused(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 0, relation="add-remove")
    for using in (ledger.as_accountant, lambda: ledger.charge_accountant(diffprivlib.BudgetAccountant(), "x")):
        with pytest.raises(RelationMismatchError, match="number of rows"):
            using()


def test_what_an_accountant_has_recorded_is_charged_once(ledger):
    accountant = diffprivlib.BudgetAccountant(epsilon=5, delta=1e-3)
    for epsilon in (0.2, 0.3):
        accountant.spend(epsilon, 0)
    entry = ledger.charge_accountant(accountant, "notebook of May")
    assert entry.rdp == 0.5 and "2 releases" in entry.what
    assert ledger.charge_accountant(accountant, "notebook of May") == entry and ledger.spent == 0.5
    accountant.spend(0.1, 0)
    with pytest.raises(InvalidParameterError, match="notebook of May"):
        ledger.charge_accountant(accountant, "notebook of May")
    with pytest.raises(BudgetExceededError):
        ledger.charge_accountant(accountant, "again")
    for other in (3, ledger.as_accountant()):
        with pytest.raises(InvalidTypeError, match="accountant"):
            ledger.charge_accountant(other, "x")


def recorded(*spends):
    accountant = diffprivlib.BudgetAccountant()
    for epsilon, delta in spends:
        accountant.spend(epsilon, delta)
    return accountant


def test_what_was_chosen_along_the_way_is_promised_as_a_sum_only(tmp_path):
    """Composed as a list fixed in advance, forty small releases would seem to fit: an adaptive choice exceeds them."""
    many = recorded(*[(0.06, 0)] * 40)
    listed = 40 * PrivacyCurve.pure(0.06)
    for order in (None, math.inf):
        ledger = PrivacyLedger(tmp_path / f"a{order}", epsilon=2.2, delta=1e-3, order=order)
        assert listed.epsilon(1e-3) < ledger.epsilon < 2.4
        if order is not None:
            with pytest.raises(BudgetExceededError):
                ledger.charge_accountant(many, "many")
            assert ledger.entries() == ()
        else:
            entry = ledger.charge_accountant(many, "many")  # Renyi divergences at one order may be chosen adaptively
            assert entry.method == "renyi" and entry.epsilon == 2.4
    ledger = PrivacyLedger(tmp_path / "sole", epsilon=2.5, delta=1e-3, order=3.1)
    with pytest.raises(BudgetExceededError):  # it has run: which of two rules admits it could depend on its outputs
        ledger.charge_accountant(many, "many")


def response(epsilon):
    likely = 1 / (1 + math.exp(-epsilon))
    return [(likely, 1 - likely), (1 - likely, likely)]


def divergence(pair, epsilon):
    return sum(max(p - math.exp(epsilon) * q, 0.0) for p, q in pair)


def test_neither_composition_nor_a_delta_left_over_may_be_promised_of_a_choice(tmp_path):
    """After the likelier first answer: a second one at whatever still fits; after the other: all is told at delta.

    Each path alone keeps (1, 0.001) when the unused delta is turned into epsilon; the choice between them does not.
    """
    epsilon, delta, first = 1.0, 1e-3, 0.1
    low, high = 0.0, 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        joint = [(p * r, q * s) for p, q in response(first) for r, s in response(middle)]
        low, high = (middle, high) if divergence(joint, epsilon) <= delta else (low, middle)
    (likely, unlikely), _ = response(first)
    reached = likely * divergence(response(low), epsilon - first) + unlikely * delta
    assert reached > 1.4 * delta
    paths = recorded((first, 0), (round(low - 1e-6, 9), 0)), recorded((first, 0), (0.0, delta))
    for number, path in enumerate(paths):
        with pytest.raises(BudgetExceededError):
            PrivacyLedger(tmp_path / str(number), epsilon, delta).charge_accountant(path, "x")


def test_an_accountant_is_no_search_of_a_plan(tmp_path):
    ledger = PrivacyLedger(tmp_path / "plan", epsilon=2.0, delta=0)
    ledger.register_plan([2 * PrivacyCurve.approximate(0.5, 0.0)])
    with pytest.raises(BudgetExceededError, match="not among the planned"):
        ledger.charge_accountant(recorded((0.5, 0), (0.5, 0)), "x")


def test_deltas_that_say_nothing_are_refused(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", epsilon=3.0, delta=1e-3)
    with pytest.raises((BudgetExceededError, PricingError)):
        ledger.charge_accountant(recorded(*[(0.1, 0.4)] * 3), "x")
    assert ledger.entries() == ()
