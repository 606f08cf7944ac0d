"""Legends lie on no line, ticks of one axis are written alike, and complaints name the way to draw what was passed."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skdptune.accounting import PrivacyCurve, best_of
from skdptune.displays import PrivacyProfileDisplay, RdpCurveDisplay, RunCountDisplay
from skdptune.exceptions import InvalidTypeError
from skdptune.run_counts import Geometric, Logarithmic, TruncatedNegativeBinomial

SEARCHES = {
    "pure": best_of(PrivacyCurve.pure(1.0), TruncatedNegativeBinomial(8, eta=2)),
    "gaussian": best_of(PrivacyCurve.gaussian(3.0), Logarithmic(10)),
}


@pytest.mark.parametrize("size", [(6.4, 4.8), (4.5, 3.5)], ids=str)
@pytest.mark.parametrize("search", SEARCHES)
def test_the_legend_of_a_profile_covers_no_line(search, size):
    figure, ax = plt.subplots(figsize=size)
    PrivacyProfileDisplay.from_curve(SEARCHES[search], delta=1e-5, ax=ax)
    figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    for line in ax.get_lines():
        x, y = line.get_data()
        if len(x) > 2 or line.get_marker() != "None":
            points = ax.transData.transform(np.column_stack([x, y])[np.isfinite(y)])
            assert not any(box.contains(*point) for point in points), line.get_label()
    assert max(ax.get_yticks()) <= 1.5  # room for the legend, where no delta is
    plt.close(figure)


@pytest.mark.parametrize("search", SEARCHES)
def test_divergences_are_ticked_in_one_format(search):
    display = RdpCurveDisplay.from_curve(SEARCHES[search])
    display.figure_.canvas.draw()
    low, high = display.ax_.get_ylim()
    ticks = zip(display.ax_.get_yticks(), display.ax_.get_yticklabels(), strict=True)
    shown = [label.get_text() for tick, label in ticks if low <= tick <= high]
    assert len(shown) > 1 and all(re.fullmatch(r"[\d.]+(e-?\d+)?", text) for text in shown), shown
    assert not any(label.get_text() for label in display.ax_.get_yticklabels(minor=True))
    plt.close(display.figure_)


def test_a_distribution_is_sent_to_where_it_is_drawn():
    with pytest.raises(InvalidTypeError, match="a distribution of tries itself: from_run_count draws it") as caught:
        RunCountDisplay.from_curve(Geometric(5))
    assert "Best of one try" not in str(caught.value) and "one mechanism" not in str(caught.value)
    with pytest.raises(InvalidTypeError, match="that of one mechanism, or of exactly one try"):
        RunCountDisplay.from_curve(PrivacyCurve.pure(1.0))
