"""Targets are met from below, and by the whole search."""

import math

import numpy as np
import pytest

from skdptune._exceptions import InvalidParameterError, InvalidTypeError, UnreachableTargetError
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
    assert f"{nearest:.6g}" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((3.0, Geometric(5), 1.0, 1e-6), InvalidTypeError),
        ((PrivacyCurve.pure, Geometric(5), 0.0, 1e-6), InvalidParameterError),
        ((PrivacyCurve.pure, Geometric(5), math.nan, 1e-6), InvalidParameterError),
        ((PrivacyCurve.pure, Geometric(5), 1.0, 1.0), InvalidParameterError),
        ((lambda x: PrivacyCurve.pure(1.0), Geometric(5), 3.0, 1e-6), InvalidParameterError),
    ],
)
def test_bad_arguments(arguments, error):
    with pytest.raises(error):
        calibrate(*arguments)


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
