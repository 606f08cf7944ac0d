"""Printed numbers: never on the wrong side."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skdptune._rounding import (
    as_given,
    decimals,
    delta_up,
    nats_up,
    number,
    percent_down,
    percent_up,
    significant_down,
    significant_up,
)

POSITIVE = st.floats(min_value=0, max_value=1e300, allow_nan=False)


def exact(value):
    """Return the number that ``value`` is taken for: the shortest decimal that reads back as it."""
    return Fraction(repr(float(value)))


@given(POSITIVE)
@example(0.1 + 0.2)
@example(1.93690000000001)
@example(9.9999e-4)
@example(999999.99999)
def test_up_is_never_below(value):
    for written in (nats_up(value), significant_up(value), significant_up(value, 1)):
        assert Fraction(written) >= exact(value) and float(written) >= value
    assert Fraction(significant_down(value)) <= exact(value)
    assert Fraction(significant_up(value)) <= exact(value) * Fraction(102, 100)


@given(POSITIVE)
@example(5e-324)
@example(1.2345e-322)
@example(0.1)
@example(1 - 1e-16)
def test_a_delta_is_whole_or_above(value):
    assert float(as_given(value)) == value
    assert float(delta_up(value)) >= value and float(delta_up(value, 1)) >= value
    assert float(delta_up(value)) <= value * 1.02 or value < 1e-300
    assert (delta_up(value) == "0") == (as_given(value) == "0") == (value == 0)


@pytest.mark.parametrize("value", [0.1, 0.2, 0.3, 0.7, 1.1, 2.5, 0.001, 123.4567])
def test_every_way_starts_from_the_same_number(value):
    text = as_given(value)
    assert float(nats_up(value)) == float(decimals(value, 4, up=True)) == value
    assert significant_up(value, 9) == significant_down(value, 9) == delta_up(value, 9) == text




@given(st.floats(min_value=0, max_value=1))
@example(0.99999999)
@example(0.1)
@example(1e-7)
def test_percentages_keep_their_side(share):
    up, down = percent_up(share), percent_down(share)
    assert Fraction(up.removesuffix(" %")) >= 100 * exact(share) >= Fraction(down.removesuffix(" %"))
    assert Fraction(up.removesuffix(" %")) <= 100


@pytest.mark.parametrize("function", [nats_up, significant_up, significant_down])
def test_infinity_is_a_word(function):
    assert function(math.inf) == "infinite"


def test_numbers_of_numpy_and_none():
    numpy = pytest.importorskip("numpy")
    assert nats_up(numpy.float64(1.23456)) == "1.2346"
    assert as_given(numpy.float64(1e-5)) == "1e-05" and delta_up(numpy.float64(1.2345e-5)) == "1.24e-05"
    assert number(None) == "not known" and number(1234567, 15) == "1234567"
