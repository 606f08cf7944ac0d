"""Numbers as text: never on the wrong side."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdptune._cli._tables import down, round_safely, table, up, wrapped

positive = st.floats(min_value=1e-300, max_value=1e300)


@given(positive)
def test_up_is_never_below_and_close(value):
    text = up(value)
    assert Decimal(text) >= Decimal(repr(value))
    assert float(text) <= value * 1.0101 + 0.01 * (value > 0.1)


@given(positive)
def test_down_is_never_above(value):
    assert Decimal(down(value)) <= Decimal(repr(value))


@given(positive, st.integers(2, 12), st.booleans())
def test_settings_are_rounded_to_their_safe_side(value, digits, upwards):
    rounded = round_safely(value, digits, upwards)
    assert rounded >= value if upwards else rounded <= value
    assert math.isclose(rounded, value, rel_tol=10.0 ** (1 - digits) * 1.001)


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.59188, "3.60"), (3.0808, "3.09"), (2.0, "2.00"), (0.0, "0.00"), (0.0123401, "0.0124"), (0.99999, "1.00"),
     (123.456, "123.46"), (4e-12, "4.00e-12"), (4.0001e-12, "4.01e-12"), (math.inf, "inf")],
)  # fmt: skip
def test_up_as_text(value, text):
    assert up(value) == text


def test_table_breaks_the_longest_text_column_to_fit():
    long = "a sentence that is much too long for the columns that are left to it here"
    text = table(["name", "x", "note"], [["one", "1.00", long], ["two", "2.00", "short"]], "<><", columns=40)
    lines = text.splitlines()
    assert max(map(len, lines)) < 40
    assert lines[0].split() == ["name", "x", "note"]
    assert " ".join(text.split()).count("sentence") == 1
    assert lines[-1].split() == ["two", "2.00", "short"]


def test_names_stay_whole_where_the_page_has_room():
    names = ["TruncatedNegativeBinomial", "zero-truncated-poisson"]
    numbers = ["1.2345"] * 8
    text = table(["", *"abcdefgh"], [[name, *numbers] for name in names], "<" + ">" * 8, columns=84)
    assert all(name in text for name in names)


def test_table_keeps_words_where_it_fits():
    assert table(["a", "b"], [["x", "1"]], "<>", columns=80) == "a  b\nx  1"


def test_wrapped_hangs():
    assert wrapped("one two three", 3, "1. ", columns=10).splitlines() == ["1. one", "   two", "   three"]
