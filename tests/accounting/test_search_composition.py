"""Searches composed with refits and with each other: never dearer than what holds at a smaller delta."""

import numpy as np
import pytest

from skdptune.accounting import PrivacyCurve, best_of
from skdptune.run_counts import Logarithmic, Poisson, TruncatedNegativeBinomial

DELTAS = (0.0, 1e-15, 1e-9, 1e-6, 1e-4, 1e-2)


@pytest.mark.parametrize("run_count", [TruncatedNegativeBinomial(10, 2), Logarithmic(20), Poisson(10)], ids=repr)
@pytest.mark.parametrize("epsilon", [1.0, 0.321857])
def test_a_pure_search_with_a_refit_costs_at_most_the_sum_of_both(run_count, epsilon):
    single = PrivacyCurve.pure(epsilon)
    search = best_of(single, run_count)
    for total, parts in ((search + single, (search, single)), (search + search, (search, search))):
        prices = np.array([total.epsilon(delta) for delta in DELTAS])
        assert np.all(np.diff(prices) <= 0)
        whole = sum(part.rdp([np.inf])[0] for part in parts)
        assert prices[0] <= whole * (1 + 1e-9)
        # basic composition with delta shared in halves: the pair must not be much looser than that
        for price, delta in zip(prices[1:], DELTAS[1:], strict=True):
            assert price <= 1.02 * sum(part.epsilon(delta / 2) for part in parts)


def test_deltas_of_a_composition_of_pure_searches_vanish_where_the_pure_bound_holds():
    total = best_of(PrivacyCurve.pure(1.0), TruncatedNegativeBinomial(10, 2)) + PrivacyCurve.pure(1.0)
    bound = total.epsilon(0)
    assert bound < 4.05
    assert total.delta(bound) == 0.0
    assert total.delta(0.9 * bound) > 0.0
