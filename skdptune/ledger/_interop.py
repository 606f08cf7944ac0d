"""One budget for searches and for what diffprivlib releases by itself. diffprivlib is imported here only."""

import functools
import math
import os
import sys
import threading
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from skdptune._exceptions import BudgetExceededError, MissingDependencyError, RelationMismatchError
from skdptune._rounding import as_given
from skdptune._validation import check_integer, check_real, invalid_type
from skdptune.accounting import PrivacyCurve
from skdptune.ledger._costs import Cost, Promise, check_text, versions_in_use
from skdptune.ledger._filter import exact, rounded

__all__ = ["accountant_for", "cost_of_accountant"]

_ASSUMES = (
    "diffprivlib keeps the (epsilon, delta) that it records, for two data sets that differ in one row",
    "Bounds, ranges and norms were given to diffprivlib, not found in the private rows.",
)


def _check_relation(relation):
    if relation == "add-remove":
        raise RelationMismatchError(
            "ledger must count under zero-out or replace-one to be charged by diffprivlib, whose means, variances and "
            "scalers divide by the number of rows; under add-remove that number is private. Charge releases that "
            "keep it (counts, histograms) with charge_curve."
        )


def promise(epsilon, delta, relation):
    """Return the cost of diffprivlib's (epsilon, delta), which holds for a row that comes or goes or is blanked.

    Some of its functions promise it for a replaced row (means), others only for a row that comes or goes (counts:
    a replaced row moves two bins). Under replace-one all are charged as two steps.
    """
    _check_relation(relation)
    return PrivacyCurve.approximate(epsilon, delta, relation="zero-out").to_relation(relation)


def _stated(epsilon, delta, relation):
    """Return what is promised of one release, as numbers; a replaced row is two steps (group privacy)."""
    if relation == "zero-out":
        return epsilon, delta
    return 2 * epsilon, float(np.nextafter(delta * (1 + math.exp(epsilon)) * (1 + 1e-15), np.inf))  # rounded up


def cost_of_accountant(accountant, relation, description=None):
    """Return the cost of everything an accountant has recorded.

    Nobody fixed that list in advance: each entry may have been chosen after seeing what came before. So it is
    promised as the sum of its promises (theory page "Filters", Theorem F2 at order infinity), never as the composition
    of its pairs; Renyi divergences at one order add up all the same.
    """
    spent = getattr(accountant, "spent_budget", None)
    if not isinstance(spent, list):
        raise invalid_type("accountant", "a diffprivlib BudgetAccountant (with spent_budget)", accountant)
    if getattr(accountant, "__skdptune_ledger__", None) is not None:
        raise invalid_type("accountant", "one that does not spend from a ledger already", accountant)
    _check_relation(relation)
    curve = 0 * PrivacyCurve.pure(0.0, relation=relation)
    for epsilon, delta in spent:
        curve = curve + promise(float(epsilon), float(delta), relation)
    stated = [_stated(float(epsilon), float(delta), relation) for epsilon, delta in spent]
    whole = [rounded(sum((exact(pair[i]) for pair in stated), Fraction(0)), math.inf) for i in (0, 1)]
    what = f"{len(spent)} releases recorded by a diffprivlib BudgetAccountant"
    return Cost(
        curve,
        what if description is None else check_text("description", description),
        _ASSUMES,
        None,
        versions_in_use(),
        promise=Promise(*whole),
    )


def accountant_for(ledger):
    """Return the accountant of ``ledger``."""
    _check_relation(ledger.relation)
    return _library().LedgerAccountant(ledger)


class _Spending:
    """What a BudgetAccountant does differently when it spends from a ledger; copies spend from the same one."""

    shared_across_processes = True

    def __init__(self, ledger):
        self.__skdptune_ledger__ = ledger
        self._through_me, self._checked = [], {}
        super().__init__(epsilon=ledger.epsilon, delta=ledger.delta)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return accountant_for, (self.__skdptune_ledger__,)

    def __repr__(self, n_budget_max=5):
        return f"{self.__skdptune_ledger__!r}.as_accountant()"

    @property
    def spent_budget(self):
        """What was spent through this object; the ledger knows the rest."""
        return list(self._through_me)

    def total(self, spent_budget=None, slack=None):
        """Return what the ledger has spent at its delta (the arguments of diffprivlib play no part)."""
        spent = self.__skdptune_ledger__.spent
        return _library().Budget(spent, self.__skdptune_ledger__.delta if spent else 0.0)

    def _promise(self, epsilon, delta):
        epsilon = check_real("epsilon", float(epsilon), low=0)
        delta = check_real("delta", float(delta), low=0, high=1)
        return promise(epsilon, delta, self.__skdptune_ledger__.relation)

    def check(self, epsilon, delta):
        """Charge the ledger, and return True: diffprivlib checks before it reads a row, and spends afterwards."""
        self._charge(epsilon, delta)
        self._checked[self._here()] = (float(epsilon), float(delta), sys._getframe(1).f_code)
        return True

    def spend(self, epsilon, delta):
        """Charge the ledger, unless the check before was of this very spend, by the same function."""
        asked = (float(epsilon), float(delta), sys._getframe(1).f_code)
        if self._checked.pop(self._here(), None) != asked:
            self._charge(epsilon, delta)
        self._through_me.append((epsilon, delta))
        return self

    @staticmethod
    def _here():
        return os.getpid(), threading.get_ident()

    def _charge(self, epsilon, delta):
        what = f"diffprivlib, epsilon={as_given(epsilon)}, delta={as_given(delta)}"
        try:
            self.__skdptune_ledger__.charge_curve(self._promise(epsilon, delta), what, assumptions=_ASSUMES)
        except BudgetExceededError as error:
            raise _library().LedgerBudgetError(str(error)) from None

    def remaining(self, k=1):
        """Return about the largest epsilon (delta 0), from below, that each of ``k`` further releases may spend."""
        k = check_integer("k", k, low=1)
        ledger = self.__skdptune_ledger__
        low, high = 0.0, ledger.epsilon
        for _ in range(40):
            middle = 0.5 * (low + high)
            fits = ledger.affordable(self._promise(middle, 0.0)) >= k
            low, high = (middle, high) if fits else (low, middle)
        return _library().Budget(low, 0.0)


@functools.lru_cache(maxsize=1)
def _library():
    """Import diffprivlib and return the classes made of it."""
    try:
        from diffprivlib import BudgetAccountant
        from diffprivlib.utils import Budget, BudgetError
    except Exception as error:  # on scikit-learn 1.8 and later its import fails in its own ways
        raise MissingDependencyError(
            f"as_accountant needs diffprivlib, which could not be imported ({type(error).__name__}): pip install "
            "'diffprivlib==0.6.6' 'scikit-learn<1.8' (or pip install '.[diffprivlib]' in a clone of the project)."
        ) from None

    class LedgerBudgetError(BudgetExceededError, BudgetError):
        """Too little is left in the ledger; diffprivlib's callers may catch its own error."""

    class LedgerAccountant(_Spending, BudgetAccountant):
        """Spends from a PrivacyLedger."""

    return SimpleNamespace(Budget=Budget, LedgerBudgetError=LedgerBudgetError, LedgerAccountant=LedgerAccountant)
