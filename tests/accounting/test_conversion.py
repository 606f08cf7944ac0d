"""Renyi divergences to (epsilon, delta): the fences around dp_accounting's formulas."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

from skdptune._exceptions import InvalidParameterError, InvalidTypeError, PricingError
from skdptune.accounting._conversion import (
    check_orders,
    check_rdp,
    default_orders,
    delta_from_rdp,
    epsilon_from_rdp,
    profile_from_rdp,
    refine_orders,
)

ORDERS = np.array(default_orders())


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_agrees_with_dp_accounting_where_its_input_is_sane(noise, delta):
    accountant = RdpAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(noise))
    rdp = ORDERS / (2 * noise**2)
    assert epsilon_from_rdp(ORDERS, rdp, delta) == pytest.approx(accountant.get_epsilon(delta))
    for epsilon in (0.1, 1.0, 5.0):
        got = delta_from_rdp(ORDERS, rdp, epsilon)
        assert got == pytest.approx(accountant.get_delta(epsilon))
        assert profile_from_rdp(ORDERS, rdp, np.array([epsilon]))[0] >= got * (1 - 1e-12)


def test_dp_accounting_returns_zero_for_a_negative_divergence_and_we_do_not():
    assert compute_epsilon([2.0], [-1e-15], 1e-5)[0] == 0  # the trap
    assert epsilon_from_rdp(np.array([2.0]), np.array([-1e-15]), 1e-5) == np.inf
    assert epsilon_from_rdp(np.array([2.0]), np.array([np.nan]), 1e-5) == np.inf
    assert delta_from_rdp(np.array([2.0]), np.array([-1e-15]), 0.1) == 1.0


@pytest.mark.parametrize("delta", [1e-300, 1e-40, 1e-5, 0.0])
def test_orders_without_information(delta):
    for orders, rdp in (
        ([1.0], [0.3]),
        ([1.0, np.inf], [0.0, np.inf]),
        ([2.0], [np.inf]),
        ([], []),
    ):
        assert epsilon_from_rdp(np.array(orders), np.array(rdp), delta) == np.inf
        assert delta_from_rdp(np.array(orders), np.array(rdp), 1.0) == 1.0


def test_infinite_order_is_a_pure_bound():
    orders, rdp = np.array([2.0, np.inf]), np.array([0.5, 1.0])
    assert epsilon_from_rdp(orders, rdp, 0.0) == 1.0
    assert epsilon_from_rdp(orders, rdp, 1e-300) == 1.0
    assert delta_from_rdp(orders, rdp, 1.0) == 0.0
    assert delta_from_rdp(orders, rdp, 0.9) > 0.0


def test_mass_set_aside_is_charged():
    rdp = ORDERS / 18
    plain = epsilon_from_rdp(ORDERS, rdp, 1e-5)
    assert epsilon_from_rdp(ORDERS, rdp, 1.1e-5, 1e-6) >= plain * (1 - 1e-6)
    assert epsilon_from_rdp(ORDERS, rdp, 1e-6, 1e-6) == np.inf
    assert epsilon_from_rdp(ORDERS, rdp, 1e-7, 1e-6) == np.inf
    assert delta_from_rdp(ORDERS, rdp, 100.0, 1e-6) >= 1e-6
    pure = np.array([np.inf]), np.array([1.0])
    assert epsilon_from_rdp(*pure, 1e-6, 1e-6) == 1.0
    assert epsilon_from_rdp(*pure, 0.9e-6, 1e-6) == np.inf
    assert epsilon_from_rdp(ORDERS, rdp, 1.0, 1.0) == 0.0


def test_tiny_delta_is_large_but_finite():
    values = [epsilon_from_rdp(ORDERS, ORDERS / 18, d) for d in (1e-5, 1e-50, 1e-300)]
    assert values[0] < values[1] < values[2] < np.inf


@pytest.mark.parametrize("orders", [[], [np.nan], [0.5], [2.0, np.nan], [[2.0]], [-3.0]])
def test_bad_orders(orders):
    with pytest.raises(InvalidParameterError, match="orders must be"):
        check_orders(orders)


@pytest.mark.parametrize("orders", ["ab", None, ["x"], [2, "y"]])
def test_orders_of_the_wrong_type(orders):
    with pytest.raises((InvalidTypeError, InvalidParameterError), match="orders must be"):
        check_orders(orders)


@pytest.mark.parametrize("rdp", [[-1e-15], [np.nan], [0.1, 0.2], 0.1, [-1.0]])
def test_bad_divergences(rdp):
    with pytest.raises(PricingError):
        check_rdp(rdp, (1,))


def test_refining_only_improves():
    def rdp(orders):
        return np.asarray(orders) / 18

    def score(orders, values):
        return epsilon_from_rdp(orders, values, 1e-7)

    coarse = np.array([1.5, 4.0, 16.0, 64.0])
    orders, values = refine_orders(rdp, coarse, score)
    assert set(coarse) <= set(orders)
    best = epsilon_from_rdp(np.linspace(1.5, 64, 4000), np.linspace(1.5, 64, 4000) / 18, 1e-7)
    assert best - 1e-9 <= score(orders, values) <= score(coarse, rdp(coarse))
    assert score(orders, values) < best * 1.01
