"""Figures are drawn without a screen and closed after each test."""

import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    from matplotlib import pyplot as plt

    yield
    plt.close("all")


@pytest.fixture
def drawn():
    """Draw a figure for real: many errors and warnings of matplotlib come only then."""

    def draw(display):
        display.figure_.canvas.draw()
        return display

    return draw
