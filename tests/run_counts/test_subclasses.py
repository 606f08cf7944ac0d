"""A subclass of a distribution would be priced by what it inherits, whatever it draws."""

import pytest

from skdptune._exceptions import InvalidTypeError
from skdptune.run_counts import AtMost, Fixed, Geometric, Poisson, RunCount, as_run_count


class Many(Fixed):
    def sample(self, rng):
        return 200


class Cheap(Geometric):
    def _log_weight(self, r, x):
        return 0.0 * r


class Twenty(Geometric):
    """Another name, another constructor, and a method of its own: what is drawn is what is priced."""

    def __init__(self):
        super().__init__(mean=20)

    def in_words(self):
        return "about twenty"


class Own(RunCount):
    """A law of one's own states all of it."""

    def sample(self, rng):
        return 1


@pytest.mark.parametrize(
    ("run_count", "changed"),
    [(Many(1), "sample"), (Cheap(mean=2), "_log_weight"), (AtMost(Many(1), 3), "sample")],
    ids=["sample", "weight", "base"],
)
def test_what_is_drawn_must_be_what_is_priced(run_count, changed):
    with pytest.raises(InvalidTypeError, match=f"changes {changed}, .*Finite"):
        as_run_count(run_count)


def test_a_draw_of_an_instance_is_refused_too():
    run_count = Poisson(3)
    object.__setattr__(run_count, "sample", lambda rng: 200)
    with pytest.raises(InvalidTypeError, match="changes sample"):
        as_run_count(run_count)


@pytest.mark.parametrize(
    "run_count", [Twenty(), Own(), Geometric(mean=3), AtMost(Poisson(3), 5)], ids=lambda each: type(each).__name__
)
def test_what_changes_nothing_passes(run_count):
    assert as_run_count(run_count) is run_count
