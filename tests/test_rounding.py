"""Printed numbers: never on the wrong side."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skdptune._rounding import nats_up, number, percent_down, percent_up, significant_down, significant_up

POSITIVE = st.floats(min_value=0, max_value=1e300, allow_nan=False)


@given(POSITIVE)
@example(0.1 + 0.2)
@example(1.93690000000001)
@example(9.9999e-4)
@example(999999.99999)
def test_up_is_never_below(value):
    for written in (nats_up(value), significant_up(value), significant_up(value, 1)):
        assert Fraction(written) >= Fraction(value)
    assert Fraction(significant_down(value)) <= Fraction(value)
    assert Fraction(significant_up(value)) <= Fraction(value) * Fraction(102, 100)


@given(st.floats(min_value=0, max_value=1))
@example(0.99999999)
@example(0.1)
@example(1e-7)
def test_percentages_keep_their_side(share):
    up, down = percent_up(share), percent_down(share)
    assert Fraction(up.removesuffix(" %")) >= 100 * Fraction(share) >= Fraction(down.removesuffix(" %"))
    assert Fraction(up.removesuffix(" %")) <= 100


@pytest.mark.parametrize("function", [nats_up, significant_up, significant_down])
def test_infinity_is_a_word(function):
    assert function(math.inf) == "infinite"


def test_numbers_of_numpy_and_none():
    numpy = pytest.importorskip("numpy")
    assert nats_up(numpy.float64(1.23456)) == "1.2346"
    assert number(None) == "not known" and number(1234567, 15) == "1234567"
