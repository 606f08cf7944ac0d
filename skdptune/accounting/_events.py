"""From the descriptions of other libraries: dp_accounting's events and loss distributions."""

import functools

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._validation import check_instance, describe
from skdptune.accounting import _mechanisms as nodes
from skdptune.accounting._combinations import compose
from skdptune.accounting._pair_builders import pair_from_atoms, pair_from_two_pmfs
from skdptune.accounting._relations import dp_accounting_relation

__all__ = ["dp_sgd_node", "gaussian_node", "node_from_event", "node_from_pld"]


def gaussian_node(noise_multiplier, relation):
    """Return Gaussian noise against one row's contribution of norm at most one."""
    # two contributions that are swapped differ by up to twice the norm of one
    distance = 2 if relation == "replace-one" else 1
    return nodes.Gaussian(noise_multiplier / distance)


def dp_sgd_node(noise_multiplier, sample_rate, steps, relation):
    """Return Poisson-subsampled Gaussian steps; no sampling is the Gaussian itself."""
    if sample_rate == 0 or steps == 0:
        return nodes.Nothing()
    if sample_rate == 1:
        return compose([(gaussian_node(noise_multiplier, relation), steps)])
    return nodes.DpSgd(noise_multiplier, sample_rate, steps, relation == "replace-one")


def node_from_pld(pld):
    """Return the node of a pessimistic ``PrivacyLossDistribution``, symmetric or not."""
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    check_instance("pld", pld, PrivacyLossDistribution, "a dp_accounting PrivacyLossDistribution")
    functions = (pld._pmf_remove, pld._pmf_add)
    if not all(pmf._pessimistic_estimate for pmf in functions):
        raise PricingError(
            "pld must be a pessimistic estimate; got an optimistic one, which is a lower bound. "
            "Build it with pessimistic_estimate=True."
        )
    return nodes.FromPair(pair_from_two_pmfs(*functions))


@functools.cache
def _readers():
    """Map each event's class to the function that prices it."""
    from dp_accounting import dp_event as dp

    return {
        dp.NoOpDpEvent: lambda event, relation: nodes.Nothing(),
        dp.NonPrivateDpEvent: lambda event, relation: nodes.NonPrivate(),
        dp.GaussianDpEvent: _gaussian,
        dp.LaplaceDpEvent: _laplace,
        dp.DiscreteLaplaceDpEvent: _discrete_laplace,
        dp.SelfComposedDpEvent: _self_composed,
        dp.ComposedDpEvent: _composed,
        dp.PoissonSampledDpEvent: _poisson_sampled,
        dp.ZCDpEvent: _zcdp,
        dp.RandomizedResponseDpEvent: _randomised_response,
        dp.MixtureOfGaussiansDpEvent: _by_pld,
        dp.TruncatedSubsampledGaussianDpEvent: _by_pld,
        dp.SampledWithoutReplacementDpEvent: _sampled_without_replacement,
        dp.SingleEpochTreeAggregationDpEvent: _by_rdp,
        dp.RepeatAndSelectDpEvent: _repeat_and_select,
    }


def node_from_event(event, relation):
    """Return the node of a ``dp_accounting`` event under ``relation``.

    Noise in an event is relative to one row's contribution, as everywhere in skdptune.

    Raises
    ------
    PricingError
        For events that have no price under the relation, and for ``RepeatAndSelectDpEvent``.
    """
    import dp_accounting as dp

    check_instance("event", event, dp.DpEvent, "a dp_accounting DpEvent")
    reader = _readers().get(type(event))
    if reader is None:
        raise _unpriced(event, relation)
    return reader(event, relation)


def _unpriced(event, relation, why="skdptune knows no bound for it"):
    return PricingError(
        f"event must be one with a price under {relation}; got {describe(event)}: {why}. "
        "Give the cost by PrivacyCurve.from_rdp or from_pld instead."
    )


def _gaussian(event, relation):
    if not event.noise_multiplier > 0:
        return nodes.NonPrivate()
    return gaussian_node(float(event.noise_multiplier), relation)


def _laplace(event, relation):
    if not event.noise_multiplier > 0:
        return nodes.NonPrivate()
    distance = 2 if relation == "replace-one" else 1
    return nodes.Laplace(distance / float(event.noise_multiplier))


def _discrete_laplace(event, relation):
    if not event.noise_parameter > 0:
        return nodes.NonPrivate()
    distance = 2 if relation == "replace-one" else 1
    steps = int(event.sensitivity) * distance
    return nodes.DiscreteLaplace(float(event.noise_parameter), steps)


def _self_composed(event, relation):
    return compose([(node_from_event(event.event, relation), int(event.count))])


def _composed(event, relation):
    return compose([(node_from_event(inner, relation), 1) for inner in event.events])


def _zcdp(event, relation):
    if not (event.rho >= 0 and event.xi >= 0):
        raise _unpriced(event, relation, "rho and xi must not be negative")
    return nodes.Zcdp(float(event.rho), float(event.xi))


def _poisson_sampled(event, relation):
    """Sampling one time for all inner Gaussians: together they are one Gaussian."""
    rate = float(event.sampling_probability)
    if rate == 0:
        return nodes.Nothing()
    inner = node_from_event(event.event, "zero-out")
    if isinstance(inner, nodes.Gaussian):
        return dp_sgd_node(inner.noise, rate, 1, relation)
    if isinstance(inner, (nodes.Nothing, nodes.NonPrivate)):
        return inner
    if isinstance(inner, nodes.Laplace) and relation != "replace-one":
        from dp_accounting.pld import privacy_loss_distribution as plds

        pld = plds.from_laplace_mechanism(1 / inner.epsilon, sampling_prob=rate)
        return node_from_pld(pld)
    raise _unpriced(event, relation, "only Gaussian and Laplace noise have a sampled form")


def _randomised_response(event, relation):
    """k-ary randomised response on one row: each of k answers keeps at least p / k."""
    p, k = float(event.noise_parameter), int(event.num_buckets)
    if k == 1 or p == 1:
        return nodes.Nothing()
    if relation == "add-remove":
        raise _unpriced(event, relation, "an absent row gives no answer")
    if not 0 < p < 1:
        return nodes.NonPrivate()
    truth, other = 1 - p + p / k, p / k
    if relation == "replace-one":
        top = np.log(truth / other)
        rest = [(k - 2) * other] if k > 2 else []
        mass = [other, *rest, truth]
        losses = [-top, *([0.0] if rest else []), top]
        pair = pair_from_atoms(losses, mass, mass[::-1], 0.0, 0.0, None, True)
    else:  # a blank row answers uniformly
        pair = pair_from_atoms(
            [np.log(p), np.log(k * truth)], [(k - 1) * other, truth], [(k - 1) / k, 1 / k]
        )
    return nodes.FromPair(pair)


def _by_pld(event, relation):
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(dp_accounting_relation(relation))
    if not accountant.supports(event):
        raise _unpriced(event, relation)
    accountant.compose(event)
    if accountant._contains_non_dp_event:
        return nodes.NonPrivate()
    return node_from_pld(accountant._pld)


def _sampled_without_replacement(event, relation):
    """Fixed-size sampling; the inner Gaussian is priced for two rows swapped."""
    from dp_accounting import dp_event as dp

    inner = node_from_event(event.event, "replace-one")
    if relation == "replace-one" and isinstance(inner, nodes.Gaussian):
        # dp_accounting's noise is relative to the swap's distance here, twice a contribution
        sizes = event.source_dataset_size, event.sample_size
        event = dp.SampledWithoutReplacementDpEvent(*sizes, dp.GaussianDpEvent(inner.noise))
    return _by_rdp(event, relation)


def _by_rdp(event, relation):
    from dp_accounting.rdp import RdpAccountant

    from skdptune.accounting._conversion import default_orders

    orders = default_orders()
    accountant = RdpAccountant(orders, dp_accounting_relation(relation))
    if not accountant.supports(event):
        raise _unpriced(event, relation)
    accountant.compose(event)
    # what lost its digits counts as unknown
    return nodes.FromRdp(orders, tuple(float(v) if v >= 0 else np.inf for v in accountant.rdp))


def _repeat_and_select(event, relation):
    raise _unpriced(
        event,
        relation,
        "a selection is priced by best_of(PrivacyCurve.from_event(event.event), run_count)",
    )
