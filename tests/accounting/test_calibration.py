"""Targets are met from below, and by the whole search."""

import math

import numpy as np
import pytest

from skdptune._exceptions import InvalidParameterError, InvalidTypeError, UnreachableTargetError
from skdptune._rounding import significant_up
from skdptune.accounting import PrivacyCurve, best_of, calibrate
from skdptune.accounting.calibration import RTOL, solve_level
from skdptune.candidates import LevelFamily
from skdptune.run_counts import Geometric, Logarithmic, Poisson

FAMILIES = {"pure": PrivacyCurve.pure, "gaussian": PrivacyCurve.gaussian, "zcdp": PrivacyCurve.zcdp}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("target", [0.3, 3.0])
def test_round_trip(family, refit, target):
    run_count, delta = Geometric(5), 1e-6
    x = calibrate(FAMILIES[family], run_count, target, delta, refit=refit)
    curve = FAMILIES[family](x)
    whole = best_of(curve, run_count)
    whole = whole + curve if refit else whole
    assert target * (1 - RTOL) <= whole.epsilon(delta) <= target


def test_a_target_at_delta_zero():
    epsilon = calibrate(PrivacyCurve.pure, Geometric(5), 2.0, 0.0)
    found = best_of(PrivacyCurve.pure(epsilon), Geometric(5)).epsilon(0.0)
    assert 2.0 * (1 - RTOL) <= found <= 2.0


@pytest.mark.slow
def test_dp_sgd_keeps_more_than_the_closed_form_leaves():
    def family(noise_multiplier):
        return PrivacyCurve.dp_sgd(noise_multiplier, 256 / 60000, 7031)

    noise = calibrate(family, Logarithmic(10), 3.0, 1e-5)
    assert family(noise).epsilon(1e-5) >= 2.10
    assert 3.0 * (1 - 1e-3) <= best_of(family(noise), Logarithmic(10)).epsilon(1e-5) <= 3.0
    closed = calibrate(family, Logarithmic(10), 3.0, 1e-5, method="closed_form")
    assert family(closed).epsilon(1e-5) == pytest.approx(1.61, abs=0.02)


def test_an_end_of_the_range_may_meet_the_target():
    assert calibrate(PrivacyCurve.pure, Geometric(5), 100.0, 1e-6, bounds=(0.1, 1.0)) == 1.0
    assert calibrate(PrivacyCurve.gaussian, Geometric(5), 1000.0, 1e-6, bounds=(2.0, 9.0)) == 2.0


def test_unreachable_targets_state_the_nearest():
    with pytest.raises(UnreachableTargetError, match="the cheapest setting, 0.5, costs") as caught:
        calibrate(PrivacyCurve.pure, Geometric(5), 0.1, 1e-6, bounds=(0.5, 2.0))
    nearest = best_of(PrivacyCurve.pure(0.5), Geometric(5)).epsilon(1e-6)
    assert significant_up(nearest, 6) in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((3.0, Geometric(5), 1.0, 1e-6), InvalidTypeError),
        ((PrivacyCurve.pure, Geometric(5), 0.0, 1e-6), InvalidParameterError),
        ((PrivacyCurve.pure, Geometric(5), math.nan, 1e-6), InvalidParameterError),
        ((PrivacyCurve.pure, Geometric(5), 1.0, 1.0), InvalidParameterError),
        ((lambda x: PrivacyCurve.pure(1.0), Geometric(5), 3.0, 1e-6), InvalidParameterError),
        ((PrivacyCurve.pure, Geometric(5), 10**400, 1e-6), InvalidParameterError),
    ],
)
def test_bad_arguments(arguments, error):
    with pytest.raises(error):
        calibrate(*arguments)


def test_without_any_finite_epsilon_the_message_speaks_of_delta():
    def family(x):
        return PrivacyCurve.approximate(x, 1e-3)

    with pytest.raises(UnreachableTargetError, match="no setting between 1e-06 and 1e.06 has a finite epsilon at"):
        calibrate(family, Geometric(5), 1.0, 1e-5)
    with pytest.raises(UnreachableTargetError, match="not even the cheapest setting, 1e.06, has a finite price"):
        calibrate(PrivacyCurve.gaussian, Geometric(5), 1.0, 0.0)


def test_a_constant_family_is_told_from_one_that_is_flat_near_the_start():
    def flat_below(x):  # the same, and infinite, up to 40
        return PrivacyCurve.gaussian(x) if x > 40 else PrivacyCurve.approximate(x, 0.5)

    noise = calibrate(flat_below, Geometric(5), 0.1, 1e-5)
    assert best_of(PrivacyCurve.gaussian(noise), Geometric(5)).epsilon(1e-5) <= 0.1
    with pytest.raises(InvalidParameterError, match="same cost, epsilon 0.999999 at delta=1e-06, everywhere between"):
        calibrate(lambda x: PrivacyCurve.pure(1.0), Geometric(5), 3.0, 1e-6)


def test_work_is_bounded_where_the_price_jumps_over_the_target():
    asked = []

    def family(x):
        asked.append(x)
        return PrivacyCurve.pure(1.0 if x > 3.21 else 0.001)  # no x costs about a half

    x = calibrate(family, Geometric(5), 0.5, 0.0)
    assert 3.21 * (1 - 1e-3) <= x <= 3.21
    assert len(asked) < 40


def test_tiny_targets():
    with pytest.raises(UnreachableTargetError, match="no search is calibrated to less than 1e-06 nats"):
        calibrate(PrivacyCurve.gaussian, Geometric(5), 1e-9, 1e-5)
    noise = calibrate(PrivacyCurve.gaussian, Geometric(5), 0.01, 1e-5)
    assert 0.01 * (1 - RTOL) <= best_of(PrivacyCurve.gaussian(noise), Geometric(5)).epsilon(1e-5) <= 0.01


def test_levels_are_priced_as_whole_curves():
    priced = []

    def whole_search(level):
        priced.append(level)
        return best_of(level, Poisson(4)) + level

    family = LevelFamily(PrivacyCurve.gaussian, 1e-2, 1e4, increasing=False)
    level = solve_level(family, whole_search, 2.0, 1e-5)
    assert level in priced
    assert 2.0 * (1 - RTOL) <= whole_search(level).epsilon(1e-5) <= 2.0
    assert len(priced) < 25


def test_larger_targets_need_less_noise():
    noises = [calibrate(PrivacyCurve.gaussian, Geometric(5), target, 1e-5) for target in (0.5, 1.0, 2.0, 4.0)]
    assert np.all(np.diff(noises) < 0)
