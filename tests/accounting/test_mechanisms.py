"""Nodes: Renyi curves against quadrature and dp_accounting, pairs and events."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as plds
from dp_accounting.rdp import RdpAccountant

from skdptune._exceptions import InvalidTypeError, PricingError
from skdptune.accounting import _combinations as combinations
from skdptune.accounting import _mechanisms as nodes
from skdptune.accounting._events import node_from_event, node_from_pld
from skdptune.accounting._relations import RELATIONS, dp_accounting_relation

ORDERS = np.array([1.05, 1.5, 2.0, 3.7, 8.0, 32.0, 200.0])
KNOWN = [
    nodes.Nothing(),
    nodes.Gaussian(1.3),
    nodes.Pure(0.7),
    nodes.Laplace(0.9),
    nodes.Laplace(0.01),
    nodes.DiscreteLaplace(0.5, 3),
    nodes.DiscreteGaussian(2.0),
    nodes.DpSgd(1.0, 0.02, 50),
    nodes.DpSgd(1.0, 0.02, 50, True),
]


def renyi(log_p, log_q, weight, order):
    return np.log(np.sum(weight * np.exp(order * log_p + (1 - order) * log_q))) / (order - 1)


def test_pure_rdp_is_randomised_response():
    for epsilon in (1e-4, 0.3, 1.0, 5.0, 60.0):
        p = 1 / (1 + np.exp(-epsilon))
        q = np.exp(-epsilon) * p
        got = nodes.Pure(epsilon).rdp(np.array([1.5, 2.0, 7.0]))
        log = np.array([np.log(p), np.log(q)])
        for a, value in zip((1.5, 2.0, 7.0), got, strict=True):
            # same divergence with the ratio's excess over one kept apart, for small epsilon
            moment = p * np.expm1((a - 1) * (log[0] - log[1])) + q * np.expm1(
                (a - 1) * (log[1] - log[0])
            )
            exact = np.log1p(moment) / (a - 1) if np.isfinite(moment) else np.inf
            assert value == pytest.approx(min(exact, epsilon), rel=1e-7)
    assert nodes.Pure(1.0).rdp(np.array([np.inf]))[0] == 1.0
    assert np.all(nodes.Pure(0.0).rdp(ORDERS) == 0)


def test_laplace_rdp_against_dp_accounting_and_quadrature():
    x = np.linspace(-60, 61, 2_000_001)
    weight = np.full(x.size, x[1] - x[0])
    for epsilon in (0.01, 0.3, 2.0):
        accountant = RdpAccountant(ORDERS)
        accountant.compose(dp_accounting.LaplaceDpEvent(1 / epsilon))
        got = nodes.Laplace(epsilon).rdp(ORDERS)
        np.testing.assert_allclose(got, accountant.rdp, rtol=1e-6, atol=1e-12)
    log_p = -np.abs(x) - np.log(2)
    log_q = -np.abs(x - 1) - np.log(2)
    assert nodes.Laplace(1.0).rdp(np.array([3.0]))[0] == pytest.approx(
        renyi(log_p, log_q, weight, 3.0), rel=1e-6
    )


def test_dp_sgd_rdp_is_dp_accountings():
    accountant = RdpAccountant(ORDERS)
    step = dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(1.0))
    accountant.compose(step, 50)
    np.testing.assert_allclose(nodes.DpSgd(1.0, 0.02, 50).rdp(ORDERS), accountant.rdp, rtol=1e-12)


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.02), (8.0, 0.05), (40.0, 0.1), (300.0, 0.01)])
def test_dp_sgd_rdp_at_broken_orders_is_above_quadrature_and_close(noise, rate):
    """dp_accounting's series adds up absolute values: at noise 300 it is many times too large."""
    x = np.linspace(-30 * noise, 30 * noise, 200_001)
    weight = np.full(x.size, (x[1] - x[0]) / (noise * np.sqrt(2 * np.pi)))
    log_q = -(x**2) / (2 * noise**2)
    log_p = np.logaddexp(np.log1p(-rate) + log_q, np.log(rate) - (x - 1) ** 2 / (2 * noise**2))
    orders = np.array([1.5, 2.5, 4.2, 7.9])
    got = nodes.DpSgd(noise, rate, 1).rdp(orders)
    for a, value in zip(orders, got, strict=True):
        exact = renyi(log_p, log_q, weight, a)
        # the chord to D_1 = 0 is the worst below order 2: there it says D_2, 4 / 3 of D_1.5
        assert exact * (1 - 1e-4) - 2e-12 <= value <= exact * 1.36 + 2e-12  # the quadrature adds up numbers near 1
    assert np.all(np.diff(nodes.DpSgd(noise, rate, 1).rdp(np.array([1.5, 2.0, 2.5, 3.0, 3.5, 4.0]))) >= -1e-15)


@pytest.mark.parametrize("noise", [0.6, 1.0, 4.0])
def test_replace_rdp_is_above_quadrature_and_close(noise):
    rate = 0.05
    x = np.linspace(-60, 60, 400_001)
    weight = np.full(x.size, (x[1] - x[0]) / (noise * np.sqrt(2 * np.pi)))

    def log_density(shift):
        return np.logaddexp(
            np.log1p(-rate) - x**2 / (2 * noise**2),
            np.log(rate) - (x - shift) ** 2 / (2 * noise**2),
        )

    got = nodes.DpSgd(noise, rate, 1, True).rdp(np.array([1.5, 2.0, 4.0, 8.0]))
    for a, value in zip((1.5, 2.0, 4.0, 8.0), got, strict=True):
        exact = renyi(log_density(1), log_density(-1), weight, a)
        assert exact * (1 - 1e-6) <= value <= exact * 1.002


@pytest.mark.parametrize("node", KNOWN, ids=lambda node: node.describe())
def test_rdp_and_pair_tell_the_same_story(node):
    """The Renyi curve's profile lies above the pair's: both bound one mechanism."""
    rdp = node.rdp(ORDERS)
    assert np.all(np.diff(rdp) >= -1e-12) and np.all(rdp >= 0)
    conditional = node.pair().conditional_rdp(ORDERS[1:3])
    # dp_accounting's series for broken orders adds up absolute values: up to 10 % too much
    np.testing.assert_allclose(conditional, rdp[1:3], rtol=0.1, atol=1e-12)
    # the divergence is a bound for the pair up to the grid
    assert np.all(rdp[1:3] >= conditional * (1 - 1e-3) - 1e-12)


@pytest.mark.parametrize("node", [*KNOWN, nodes.Zcdp(0.3), nodes.Approximate(1.0, 1e-5)])
def test_nodes_are_values(node):
    twin = type(node)(*(getattr(node, name) for name in node.__dataclass_fields__))
    assert twin == node and twin.key == node.key and hash(twin) == hash(node)
    assert node.pair() is twin.pair()  # cached by value


def test_interpolation_of_given_orders_is_sound():
    """Bounds between the given orders stay above a true curve with the same values there."""
    truth = nodes.Pure(2.0)
    given = (1.5, 3.0, 8.0, 40.0)
    node = nodes.FromRdp(given, tuple(truth.rdp(np.array(given))))
    asked = np.linspace(1.01, 40, 500)
    assert np.all(node.rdp(asked) >= truth.rdp(asked) * (1 - 1e-12))
    np.testing.assert_array_equal(node.rdp(np.array(given)), node.values)
    assert np.isinf(node.rdp(np.array([40.1]))[0])
    # what holds at a higher order holds at a lower one
    assert nodes.FromRdp((2.0, 4.0), (0.9, 0.5)).rdp(np.array([2.0]))[0] == 0.5
    pure = nodes.FromRdp((2.0, np.inf), (0.3, 1.0))
    np.testing.assert_allclose(pure.rdp(np.array([50.0, np.inf])), 1.0)


def test_mixture_rdp():
    parts = [nodes.Pure(1.0), nodes.Pure(2.0)]
    node = combinations.mixture(parts, [0.25, 0.75])
    a = ORDERS
    each = np.array([part.rdp(a) for part in parts])
    expected = np.log(np.array([0.25, 0.75]) @ np.exp((a - 1) * each)) / (a - 1)
    np.testing.assert_allclose(node.rdp(a), expected, rtol=1e-9)
    np.testing.assert_allclose(node.pair().conditional_rdp(a), expected, rtol=1e-9)
    assert node.rdp(np.array([np.inf]))[0] == 2.0
    same = combinations.mixture([parts[0]] * 3, [0.2, 0.3, 0.5])
    assert same == parts[0]


def test_mass_set_aside_through_combinations():
    some, none = nodes.Approximate(1.0, 1e-3), nodes.Gaussian(2.0)
    assert combinations.compose([(some, 3), (none, 1)]).delta_zero >= 1 - (1 - 1e-3) ** 3
    assert combinations.mixture([some, none], [0.5, 0.5]).delta_zero == pytest.approx(5e-4)
    assert combinations.worst([some, none]).delta_zero == 1e-3
    # conditioned outside its event the mixture's choice is reweighted
    mixed = combinations.mixture([some, nodes.Pure(2.0)], [0.5, 0.5])
    np.testing.assert_allclose(mixed.rdp(ORDERS), mixed.pair().conditional_rdp(ORDERS), rtol=1e-6)


def test_composition_is_flat_and_merged():
    a, b = nodes.Pure(1.0), nodes.Laplace(0.5)
    left = combinations.compose([(combinations.compose([(a, 1), (b, 2)]), 2), (b, 1)])
    right = combinations.compose([(b, 5), (a, 2)])
    assert left == right
    assert combinations.compose([]) == nodes.Nothing()
    assert combinations.compose([(a, 0)]) == nodes.Nothing()
    assert combinations.compose([(nodes.DpSgd(1.0, 0.1, 3), 4)]) == nodes.DpSgd(1.0, 0.1, 12)
    four = combinations.compose([(nodes.Gaussian(2.0), 4)])
    assert four.pair().epsilon(1e-5) == pytest.approx(nodes.Gaussian(1.0).pair().epsilon(1e-5))
    assert four.pair().epsilon(1e-5) >= nodes.Gaussian(1.0).pair().epsilon(1e-5)


def test_two_steps():
    exact = nodes.Gaussian(1.5)
    generic = combinations.TwoSteps(nodes.Gaussian(3.0))
    assert nodes.Gaussian(3.0).two_steps() == exact
    for delta in (1e-3, 1e-5, 1e-9):
        true = exact.pair().epsilon(delta)
        assert true <= generic.pair().epsilon(delta) <= true * 1.005
    assert np.all(generic.rdp(ORDERS) >= exact.rdp(ORDERS) * (1 - 1e-12))
    assert np.all(generic.rdp(ORDERS) <= exact.rdp(ORDERS) * 1.3)
    zcdp = combinations.TwoSteps(nodes.Zcdp(0.1)).rdp(np.array([2.0, 30.0]))
    assert np.all(zcdp >= nodes.Zcdp(0.4).rdp(np.array([2.0, 30.0])) * (1 - 1e-12))
    sgd = nodes.DpSgd(1.0, 0.01, 200)
    loose = combinations.TwoSteps(sgd).pair().epsilon(1e-5)
    assert sgd.pair().epsilon(1e-5) < sgd.two_steps().pair().epsilon(1e-5) <= loose
    assert nodes.Zcdp(0.1).two_steps() == nodes.Zcdp(0.4)
    assert nodes.Approximate(1.0, 0.5).two_steps().delta == 1.0
    # a promise in two steps: three answers, the middle one blank
    coin = combinations.TwoSteps(nodes.Pure(1.0)).pair()
    assert coin.epsilon(0.0) == pytest.approx(2.0, abs=1e-6)


EVENTS = [
    dp_event.NoOpDpEvent(),
    dp_event.GaussianDpEvent(2.0),
    dp_event.LaplaceDpEvent(2.0),
    dp_event.DiscreteLaplaceDpEvent(0.5, 2),
    dp_event.RandomizedResponseDpEvent(0.3, 4),
    dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(3.0), 5),
    dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(3.0), dp_event.GaussianDpEvent(2.0)]),
    dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(2.0)),
    dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(2.0)),
]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_events_against_dp_accountings_distribution(event, relation):
    accountant = PLDAccountant(dp_accounting_relation(relation))
    if not accountant.supports(event):
        return
    accountant.compose(event)
    pair = node_from_event(event, relation).pair()
    for delta in (1e-2, 1e-5, 1e-8):
        theirs = accountant.get_epsilon(delta)
        # theirs is rounded up on a grid of 1e-4 per event
        assert pair.epsilon(delta) == pytest.approx(theirs, abs=6e-4, rel=1e-5)


def test_events_with_only_a_renyi_curve():
    event = dp_event.SampledWithoutReplacementDpEvent(100, 10, dp_event.GaussianDpEvent(2.0))
    node = node_from_event(event, "replace-one")
    # two contributions swapped are twice as far apart
    halved = dp_event.SampledWithoutReplacementDpEvent(100, 10, dp_event.GaussianDpEvent(1.0))
    accountant = RdpAccountant(ORDERS, dp_accounting.NeighboringRelation.REPLACE_ONE)
    accountant.compose(halved)
    assert np.all(node.rdp(ORDERS[:4]) >= accountant.rdp[:4] * (1 - 1e-9))
    assert node.pair() is None
    tree = dp_event.SingleEpochTreeAggregationDpEvent(2.0, [4])
    assert np.all(np.isfinite(node_from_event(tree, "zero-out").rdp(ORDERS[:5])))
    zcdp = node_from_event(
        dp_event.SelfComposedDpEvent(dp_event.ZCDpEvent(0.1, 0.2), 2), "zero-out"
    )
    np.testing.assert_allclose(zcdp.rdp(ORDERS), 0.4 + 0.2 * ORDERS, rtol=1e-12)


def test_events_without_privacy_or_price():
    for event in (dp_event.NonPrivateDpEvent(), dp_event.GaussianDpEvent(0.0)):
        node = node_from_event(event, "zero-out")
        assert node.pair().epsilon(0.5) == np.inf and np.all(np.isinf(node.rdp(ORDERS)))
    tangled = dp_event.ComposedDpEvent(
        [dp_event.NonPrivateDpEvent(), dp_event.GaussianDpEvent(1.0)]
    )
    assert node_from_event(tangled, "zero-out").pair().epsilon(0.5) == np.inf
    select = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1.0), 10, 0)
    with pytest.raises(PricingError, match="best_of"):
        node_from_event(select, "zero-out")
    for event, relation in (
        (dp_event.UnsupportedDpEvent(), "zero-out"),
        (EVENTS[4], "add-remove"),
        (EVENTS[8], "replace-one"),
        (dp_event.SingleEpochTreeAggregationDpEvent(2.0, [4]), "add-remove"),
        (dp_event.PoissonSampledDpEvent(0.1, dp_event.ZCDpEvent(1.0)), "zero-out"),
    ):
        with pytest.raises(PricingError):
            node_from_event(event, relation)
    with pytest.raises(InvalidTypeError):
        node_from_event("gaussian", "zero-out")


def test_loss_distributions():
    laplace = plds.from_laplace_mechanism(0.5)
    node = node_from_pld(laplace)
    assert node.pair().epsilon(1e-5) == pytest.approx(laplace.get_epsilon_for_delta(1e-5), rel=1e-6)
    optimistic = plds.from_gaussian_mechanism(
        1.0, pessimistic_estimate=False, use_connect_dots=False, value_discretization_interval=1e-2
    )
    with pytest.raises(PricingError, match="pessimistic"):
        node_from_pld(optimistic)
    with pytest.raises(InvalidTypeError):
        node_from_pld(3.0)
    promise = plds.from_privacy_parameters(
        dp_accounting.pld.common.DifferentialPrivacyParameters(1.0, 1e-3)
    )
    node = node_from_pld(promise)
    assert node.delta_zero == pytest.approx(1e-3, rel=1e-6)
    assert node.pair().epsilon(0.9e-3) == np.inf
