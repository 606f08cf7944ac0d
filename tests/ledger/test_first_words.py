"""What a newcomer is told: how to open a ledger, and which order it should have been made with."""

import pytest

from skdptune.accounting import PrivacyCurve, best_of, calibrate
from skdptune.exceptions import BudgetExceededError, InvalidTypeError
from skdptune.ledger import PrivacyLedger, as_ledger, best_order
from skdptune.run_counts import TruncatedNegativeBinomial

TRIES = TruncatedNegativeBinomial(10, eta=2)


@pytest.fixture(scope="module")
def half():
    """A search of a pure candidate, calibrated to a total of 1."""
    return best_of(PrivacyCurve.pure(calibrate(PrivacyCurve.pure, TRIES, 1.0, 1e-6)), TRIES)


def test_two_pure_searches_of_half_the_budget(tmp_path, half):
    """As the docstring says: not at the default order, and at the one that best_order finds."""
    ledger = PrivacyLedger(tmp_path / "a.ledger", 2.0, 1e-6)
    assert (ledger.order, ledger.affordable(half)) == (12.0, 1)
    order = best_order(2.0, 1e-6, half)
    assert order == 57.0
    assert PrivacyLedger(tmp_path / "b.ledger", 2.0, 1e-6, order=order).affordable(half) == 2

    assert "best_order" in ledger.summary()  # while it is empty, and could still be made anew
    ledger.charge(half)
    with pytest.raises(BudgetExceededError, match=r"a new ledger with order=57, .*best_order.* would admit 2 such"):
        ledger.charge(half)


def test_a_ledger_that_suits_the_charge_is_not_advised_another_order(tmp_path):
    gauss = best_of(PrivacyCurve.gaussian(20.0), TRIES)
    ledger = PrivacyLedger(tmp_path / "a.ledger", 1.0, 1e-5, order=best_order(1.0, 1e-5, gauss))
    while ledger.affordable(gauss):
        ledger.charge(gauss)
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge(gauss)
    assert "order was fixed" not in str(caught.value)


def test_a_ledger_without_a_budget_names_open(tmp_path):
    path = str(tmp_path / "a.ledger")
    with pytest.raises(InvalidTypeError, match=r"^epsilon and delta must be given.*PrivacyLedger\.open\('.*a\.le"):
        PrivacyLedger(path)
    with pytest.raises(InvalidTypeError, match="^delta must be given"):
        PrivacyLedger(path, 1.0)
    assert not (tmp_path / "a.ledger").exists()


def test_a_path_as_ledger_names_open():
    with pytest.raises(InvalidTypeError, match=r"Pass PrivacyLedger\.open\('a\.ledger'\)"):
        as_ledger("a.ledger")
    with pytest.raises(InvalidTypeError) as caught:
        as_ledger(3)
    assert "open" not in str(caught.value)
