"""Infinite means: the sums that a price needs, far down to r = 0."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdptune.run_counts import FromScipy
from skdptune.run_counts._tables import WideSum, scattered_log_sum


@pytest.mark.parametrize("r", [1e-100, 1e-40, 1e-12, 1e-4, 0.03])
def test_zipf_against_its_expansion_at_zero(r):
    a = 1.5
    run_count = FromScipy(stats.zipf(a))
    with mpmath.workdps(60):
        t, x = -mpmath.log1p(-mpmath.mpf(r)), 1 - mpmath.mpf(r)

        def polylog(order):  # of e^-t, for t below 2 pi and orders that are no integers
            terms = [mpmath.zeta(order - k) * (-t) ** k / mpmath.factorial(k) for k in range(30)]
            return mpmath.gamma(1 - order) * t ** (order - 1) + mpmath.fsum(terms)

        weight = polylog(mpmath.mpf(a) - 1) / x / mpmath.zeta(a)
        hit = 1 - polylog(mpmath.mpf(a)) / mpmath.zeta(a)
        assert run_count.log_weight(r) == pytest.approx(float(mpmath.log(weight)), abs=1e-10)
        assert run_count.attainment(r) == pytest.approx(float(hit), rel=1e-10)


def test_terms_dropped_from_a_wide_sum_do_not_matter():
    rng = np.random.default_rng(0)
    counts = np.unique(np.rint(2.0 ** np.linspace(17, 600, 3000)))
    for power in (0.5, -0.4, -1.2):
        log_mass = power * np.log(counts) + rng.normal(0, 0.1, counts.size)
        wide = WideSum(log_mass, counts)
        log_x = -(10.0 ** rng.uniform(-170, 0, 300))
        for floor in (-1e300, -300.0, 3.0):
            found = wide.log_power(log_x, np.full(300, floor))
            exact = np.logaddexp(floor, scattered_log_sum(log_mass, counts, log_x))
            np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-9)


def test_rise_of_the_weights():
    assert FromScipy(stats.zipf(1.5)).weight_rise < 1e-9
    shifted = FromScipy(stats.zipf(1.4, loc=2))  # nothing at 1 and 2, most at 3
    assert shifted.weight_rise == pytest.approx(2 * 3 * shifted.pmf(3), rel=1e-6)
    assert math.isfinite(FromScipy(stats.betanbinom(1, 0.7, 2.0)).weight_rise)
