"""Budgets held by reference and charged once."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import BudgetExceededError, InvalidParameterError, InvalidTypeError
from skdptune.ledger import AccountantHandle, as_ledger
from tests.candidates.toys import GaussianToy

ROWS = np.zeros((40, 2)), np.arange(40) % 2


class Accountant:
    """Stands in for diffprivlib's, so that these tests run without it."""

    def __init__(self, epsilon=10.0):
        self.left = epsilon
        self.spent = []

    def check(self, epsilon, delta):
        if epsilon > self.left:
            raise RuntimeError("over budget")
        return True

    def spend(self, epsilon, delta):
        self.check(epsilon, delta)
        self.left -= epsilon
        self.spent.append((epsilon, delta))


def search_with(ledger, **params):
    return PrivateRandomSearchCV(GaussianToy(s=4.0), {"s": [4.0]}, n_iter=3, ledger=ledger, **params)


@pytest.mark.parametrize("wrap", [AccountantHandle, lambda accountant: accountant])
def test_five_fits_of_five_clones_are_five_charges(wrap):
    accountant = Accountant(100.0)
    search = search_with(wrap(accountant), delta=1e-5)
    for _ in range(5):
        clone(search).fit(*ROWS)
    assert len(accountant.spent) == 5
    epsilon, delta = accountant.spent[0]
    assert (epsilon, delta) == (search.privacy_cost(40).epsilon(1e-5), 1e-5)


def test_inside_cross_val_score_every_search_is_charged():
    accountant = Accountant(100.0)
    cross_val_score(search_with(accountant, delta=1e-5), *ROWS, cv=3)
    assert len(accountant.spent) == 3


def test_too_little_budget_refuses_before_training():
    class Never(GaussianToy):
        def fit(self, X, y=None):
            raise AssertionError("trained")

    accountant = Accountant(0.1)
    search = PrivateRandomSearchCV(Never(s=1.0), {"s": [1.0]}, ledger=accountant, delta=1e-5)
    with pytest.raises(BudgetExceededError, match="Lower the mean of n_iter"):
        search.fit(*ROWS)
    assert accountant.spent == []


def test_a_delta_is_needed_where_the_pure_price_is_infinite():
    with pytest.raises(InvalidParameterError, match="delta"):
        search_with(Accountant()).fit(*ROWS)
    accountant = Accountant(100.0)
    search_with(AccountantHandle(accountant, delta=1e-4)).fit(*ROWS)
    assert accountant.spent[0][1] == 1e-4


def test_copies_are_the_handle_and_pickles_refuse_to_spend():
    handle = AccountantHandle(Accountant())
    assert copy.deepcopy(handle) is copy.copy(handle) is handle
    with pytest.raises(BudgetExceededError, match="another process"):
        pickle.loads(pickle.dumps(handle)).charge(None)
    for ledger in (handle, Accountant()):
        search = pickle.loads(pickle.dumps(search_with(ledger, delta=1e-5)))
        with pytest.raises(BudgetExceededError, match="another process"):
            search.fit(*ROWS)


@pytest.mark.parametrize("ledger", [3, "ledger", object()])
def test_other_objects_are_refused(ledger):
    with pytest.raises(InvalidTypeError, match="ledger must be"):
        as_ledger(ledger)


def test_diffprivlibs_accountant():
    diffprivlib = pytest.importorskip("diffprivlib")
    accountant = diffprivlib.BudgetAccountant(epsilon=50, delta=1e-3)
    search = search_with(accountant, delta=1e-5)
    search.fit(*ROWS)
    clone(search).fit(*ROWS)
    assert len(accountant) == 2
    small = diffprivlib.BudgetAccountant(epsilon=0.01, delta=1e-6)
    with pytest.raises(BudgetExceededError):
        search_with(small, delta=1e-5).fit(*ROWS)
    assert len(small) == 0


def test_a_token_is_charged_once_per_accountant():
    price = search_with(None).privacy_cost(40)
    accountant, other = Accountant(100.0), Accountant(100.0)
    for _ in range(2):
        as_ledger(accountant).charge_once("monday", price, 1e-5)
    assert len(accountant.spent) == 1
    AccountantHandle(other).charge_once("monday", price, 1e-5)
    AccountantHandle(accountant).charge_once("tuesday", price, 1e-5)
    assert (len(accountant.spent), len(other.spent)) == (2, 1)
    with pytest.raises(InvalidParameterError, match="another amount|token must be new"):
        AccountantHandle(accountant).charge_once("monday", price, 1e-6)
    with pytest.raises(BudgetExceededError, match="another process"):
        pickle.loads(pickle.dumps(AccountantHandle(accountant))).charge_once("monday", price, 1e-5)


def test_a_refused_token_may_be_tried_again():
    price, accountant = search_with(None).privacy_cost(40), Accountant(0.01)
    with pytest.raises(BudgetExceededError):
        AccountantHandle(accountant).charge_once("x", price, 1e-5)
    accountant.left = 100.0
    AccountantHandle(accountant).charge_once("x", price, 1e-5)
    assert len(accountant.spent) == 1


def test_tokens_are_forgotten_with_their_accountant():
    from skdptune.ledger._handle import _TOKENS

    price = search_with(None).privacy_cost(40)
    known = len(_TOKENS._charged)
    for _ in range(3):
        AccountantHandle(Accountant(100.0)).charge_once("x", price, 1e-5)
    assert len(_TOKENS._charged) == known


class Slotted:
    """An accountant that cannot be referred to weakly."""

    __slots__ = ("spent",)

    def __init__(self):
        self.spent = []

    def check(self, epsilon, delta):
        return True

    def spend(self, epsilon, delta):
        self.spent.append(epsilon)


def test_tokens_of_accountants_without_weak_references():
    price, accountant = search_with(None).privacy_cost(40), Slotted()
    for _ in range(2):
        AccountantHandle(accountant).charge_once("x", price, 1e-5)
    assert len(accountant.spent) == 1
