"""What the displays draw: the data of their artists, on every kind of axes."""

import dataclasses
import inspect
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import RandomizedSearchCV

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import (
    InvalidParameterError,
    InvalidTypeError,
    MissingDependencyError,
    PricingError,
    RelationMismatchError,
)
from skdptune.accounting import PrivacyCurve, best_of, plan
from skdptune.accounting._exact import exact_epsilon
from skdptune.accounting._trade_off import trade_off
from skdptune.displays import (
    PlanDisplay,
    PrivacyProfileDisplay,
    RdpCurveDisplay,
    RunCountDisplay,
    TradeOffDisplay,
)
from skdptune.displays._drawing import STYLES, label_down, label_up, number
from skdptune.model_selection import release_test_score
from skdptune.run_counts import Finite, Fixed, Geometric, Logarithmic, Poisson, TruncatedNegativeBinomial

DISPLAYS = [PrivacyProfileDisplay, TradeOffDisplay, RdpCurveDisplay, RunCountDisplay, PlanDisplay]
SINGLE = PrivacyCurve.gaussian(3.0)
SEARCH = best_of(SINGLE, Logarithmic(10))


class Toy(ClassifierMixin, BaseEstimator):
    """Ignores the rows; costs what a sum with Gaussian noise costs."""

    privacy_params = ("s",)
    published_attributes = ("z_", "classes_")

    def __init__(self, s=1.0, random_state=None):
        self.s = s
        self.random_state = random_state

    def privacy_curve(self, n_samples, relation):
        return PrivacyCurve.gaussian(self.s, relation=relation)

    def fit(self, X, y):
        self.z_, self.classes_ = float(self.random_state.normal(0, self.s)), np.array([0, 1])
        return self

    def predict(self, X):
        return np.full(len(X), int(self.z_ > 0))


def search(**changes):
    options = {"n_iter": Geometric(5), "classes": [0, 1], **changes}
    return PrivateRandomSearchCV(Toy(s=4.0), {"s": [4.0, 8.0]}, **options)


def legend_texts(display):
    ax = display.ax_
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_importing_displays_does_not_load_matplotlib():
    code = "import sys, skdptune, skdptune.displays; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# PrivacyProfileDisplay ----------------------------------------------------------------------


def test_profile_lines_hold_what_the_curves_say(drawn):
    display = drawn(PrivacyProfileDisplay.from_curve(SEARCH, delta=1e-5, n_points=7))
    assert list(display.lines_) == ["whole search", "single run", "closed form"]
    assert display.line_ is display.lines_["whole search"]
    for name, line in display.lines_.items():
        epsilon, delta = display.profiles[name]
        np.testing.assert_array_equal(line.get_xdata(), epsilon)
        np.testing.assert_array_equal(line.get_ydata(), delta)
    asked = slice(16, None, 16)  # the points that the curve was asked for
    epsilon, delta = display.line_.get_xdata()[asked], display.line_.get_ydata()[asked]
    np.testing.assert_allclose(epsilon, [SEARCH.epsilon(float(d)) for d in delta], rtol=1e-12)
    closed = best_of(SINGLE, Logarithmic(10), method="closed_form")
    epsilon, delta = (values[asked] for values in display.profiles["closed form"])
    np.testing.assert_allclose(epsilon, [closed.epsilon(float(d)) for d in delta], rtol=1e-12)


def test_profile_marks_and_legend_are_rounded_up(drawn):
    display = drawn(PrivacyProfileDisplay.from_curve(SEARCH, delta=1e-5, n_points=5, lower_bound=False))
    assert display.marks == {
        "whole search": SEARCH.epsilon(1e-5),
        "single run": SINGLE.epsilon(1e-5),
        "closed form": best_of(SINGLE, Logarithmic(10), method="closed_form").epsilon(1e-5),
    }
    for text, (name, epsilon) in zip(legend_texts(display), display.marks.items(), strict=True):
        stated = float(text.split("epsilon ")[1])
        assert text.startswith(name) and epsilon <= stated < epsilon + 1.1e-3
    marked = [(mark.get_xdata()[0], mark.get_ydata()[0]) for mark in display.marks_]
    assert marked == [(epsilon, 1e-5) for epsilon in display.marks.values()]
    assert "zero-out" in display.ax_.get_title() and "1e-5" in display.ax_.get_title()


def test_profile_lower_bound_is_certified_and_not_joined(drawn):
    display = drawn(PrivacyProfileDisplay.from_curve(SEARCH, n_points=5))
    epsilon, delta = display.lower_bound
    assert epsilon.size == 4
    for e, d in zip(epsilon, delta, strict=True):
        assert e == exact_epsilon(SINGLE.pair, Logarithmic(10), float(d)).lower <= SEARCH.epsilon(float(d)) < 1.01 * e
    assert display.lower_bound_.get_linestyle() == "None"
    np.testing.assert_array_equal(display.lower_bound_.get_data(), [epsilon, delta])


def test_profile_of_a_search_before_and_after_its_fit(drawn):
    before = search()
    quoted = drawn(PrivacyProfileDisplay.from_estimator(before, n_samples=60, n_points=5))
    assert quoted.marked_delta == 1e-3  # 1 / 600 and below
    rng = np.random.default_rng(0)
    fitted = before.fit(rng.normal(size=(60, 2)), rng.integers(0, 2, 60))
    spent = PrivacyProfileDisplay.from_estimator(fitted, n_points=5)
    assert spent.marks == quoted.marks
    assert spent.marks["whole search"] == fitted.privacy_spent_.epsilon(1e-3)
    assert spent.marks["closed form"] == pytest.approx(fitted.privacy_spent_.closed_form_epsilon(1e-3))
    again = PrivacyProfileDisplay.from_spent(fitted.privacy_spent_, n_points=5, single_run=False, closed_form=False)
    assert list(again.lines_) == ["whole search"]


@pytest.mark.parametrize(("own", "wanted"), [(1e-9, 1e-9), (1e-3, 1e-3), (0.0, 1e-6)])
def test_displays_mark_the_delta_of_the_report(own, wanted):
    price = search(delta=1e-9).privacy_cost(100)
    spent = dataclasses.replace(price, settings=dataclasses.replace(price.settings, delta=own))
    assert spent.default_delta == own
    assert PrivacyProfileDisplay.from_estimator(spent, n_points=3).marked_delta == wanted
    if own:
        assert PlanDisplay.from_estimator(spent, run_counts=[Geometric], means=[2.0, 4.0]).delta == own


@pytest.fixture(scope="module")
def tested():
    """A search with a test score that costs more than the search: what was released costs more than the search."""
    rng = np.random.default_rng(0)
    fitted = search().fit(rng.normal(size=(60, 2)), rng.integers(0, 2, 60))
    return release_test_score(fitted, rng.normal(size=(30, 2)), rng.integers(0, 2, 30), score_noise=1.0)


@pytest.mark.parametrize("display", [PrivacyProfileDisplay, TradeOffDisplay, RdpCurveDisplay])
def test_a_price_with_a_test_score_is_not_called_that_of_the_search(tested, display):
    options = {"n_points": 3} if display is PrivacyProfileDisplay else {}
    both = display.from_estimator(tested.privacy_spent, **options)
    compared = ["single run"] + ["closed form of the search"] * (display is not TradeOffDisplay)
    assert list(both.lines_) == ["search and test score", *compared]
    assert not any("whole search" in text for text in legend_texts(both))
    alone = display.from_estimator(tested.search_spent, **options)
    assert next(iter(alone.lines_)) == "whole search"
    if display is PrivacyProfileDisplay:
        delta = both.marked_delta
        assert both.marks["search and test score"] == tested.epsilon(delta) > tested.search_spent.epsilon(delta)
        assert both.marks["closed form of the search"] == pytest.approx(tested.search_spent.closed_form_epsilon(delta))
        assert np.all(both.lower_bound[0] <= [tested.epsilon(d) for d in both.lower_bound[1]])


def test_profile_with_a_refit_has_no_lower_bound():
    display = PrivacyProfileDisplay.from_estimator(search(refit=True), n_samples=100, n_points=5)
    assert display.lower_bound is None and display.lower_bound_ is None
    assert display.marks["whole search"] > display.marks["single run"]


def test_profile_where_nothing_is_known_and_where_nothing_is_lost(drawn):
    unknown = PrivacyCurve.from_rdp([2.0], [math.inf])
    nothing = PrivacyCurve.pure(0.0)
    rough = PrivacyCurve.approximate(1.0, 1e-3)
    curves = {"unknown": unknown, "nothing": nothing, "rough": rough}
    display = drawn(PrivacyProfileDisplay.from_curve(curves, delta=1e-5, n_points=5))
    texts = ["unknown, epsilon inf", "nothing, epsilon 0.000 (delta 0 everywhere)", "rough, epsilon inf"]
    assert legend_texts(display) == texts
    assert len(display.marks_) == 1  # infinite ones have no place
    assert np.min(display.lines_["rough"].get_ydata()) >= 1e-3


@pytest.mark.parametrize("count", [Poisson(0.5), Fixed(2), Finite({1: 0.9, 6: 0.1})])
def test_profile_of_unusual_numbers_of_tries(count, drawn):
    drawn(PrivacyProfileDisplay.from_curve(best_of(PrivacyCurve.pure(0.5), count), n_points=3))


def test_profiles_of_two_relations_are_not_drawn_together():
    curves = {"a": PrivacyCurve.pure(1.0), "b": PrivacyCurve.pure(1.0, relation="replace-one")}
    for display in (PrivacyProfileDisplay, TradeOffDisplay, RdpCurveDisplay):
        with pytest.raises(RelationMismatchError):
            display.from_curve(curves)


# Any display --------------------------------------------------------------------------------


def every_display(ax=None):
    curves = {"first": PrivacyCurve.pure(1.0), "second": PrivacyCurve.gaussian(2.0)}
    yield PrivacyProfileDisplay.from_curve(curves, n_points=5, delta=1e-5, ax=ax)
    yield TradeOffDisplay.from_curve(curves, ax=ax)
    yield RdpCurveDisplay.from_curve(curves, ax=ax)
    yield RunCountDisplay.from_run_count([Poisson(5), Geometric(500)], kind="tail", ax=ax)
    yield PlanDisplay.from_curve(SINGLE, 1e-5, run_counts=[Geometric, Poisson], means=[2, 4], ax=ax)


def test_displays_draw_on_axes_that_exist():
    for index in range(5):
        figure, ax = plt.subplots()
        ax.set_title("mine")
        display = _one(index, ax)
        figure.canvas.draw()
        assert display.ax_ is ax and display.figure_ is figure
        assert ax.get_title() == "mine"


def _one(index, ax):
    makers = (
        lambda: PrivacyProfileDisplay.from_curve(SINGLE, n_points=4, ax=ax),
        lambda: TradeOffDisplay.from_curve(SINGLE, ax=ax),
        lambda: RdpCurveDisplay.from_curve(SINGLE, ax=ax),
        lambda: RunCountDisplay.from_run_count(Poisson(5), kind="quantile", ax=ax),
        lambda: PlanDisplay.from_curve(SINGLE, 1e-5, run_counts=[Geometric], means=[2, 4], ax=ax),
    )
    return makers[index]()


@pytest.mark.parametrize("style", ["default", "dark_background", "grayscale"])
@pytest.mark.parametrize("size", [(8, 6), (2.0, 1.5), (0.8, 0.6)])
def test_displays_survive_styles_and_tiny_figures(style, size):
    with plt.style.context(style), plt.rc_context({"figure.figsize": size}):
        for display in every_display():
            display.figure_.canvas.draw()
            colours = [to_rgb(line.get_color()) for line in display.lines_.values()]
            background = display.ax_.get_facecolor()[:3]
            assert all(contrast(colour, background) >= 2.9 for colour in colours)


def luminance(colour):
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot([0.2126, 0.7152, 0.0722], channels))


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_styles_differ_without_colour_and_stand_out_on_white_and_black():
    assert len({str(style["linestyle"]) for style in STYLES}) == len(STYLES)
    assert len({style["marker"] for style in STYLES}) == len(STYLES)
    for style in STYLES:
        assert contrast(style["color"], "white") >= 3 and contrast(style["color"], "black") >= 3


def test_many_curves_can_be_told_apart(drawn):
    curves = {f"noise {s}": PrivacyCurve.gaussian(s) for s in np.linspace(1, 5, 12)}
    display = drawn(RdpCurveDisplay.from_curve(curves, orders=[2, 4, 8]))
    looks = {
        (str(line.get_linestyle()), line.get_marker(), str(line._dash_pattern), str(line.get_markerfacecolor()))
        for line in display.lines_.values()
    }
    assert len(looks) == 12


def axes_of_many_kinds():
    return {
        "a list": [plt.subplots()[1]],
        "an array": plt.subplots(1, 2)[1],
        "a figure": plt.figure(),
        "a subfigure": plt.figure().subfigures(1, 2)[0],
        "pyplot": plt,
        "a name": "ax",
        "polar axes": plt.subplots(subplot_kw={"projection": "polar"})[1],
        "solid axes": plt.subplots(subplot_kw={"projection": "3d"})[1],
        "axes of a sphere": plt.subplots(subplot_kw={"projection": "mollweide"})[1],
    }


@pytest.mark.parametrize("index", range(5))
def test_what_is_no_pair_of_straight_axes_is_refused(index):
    for name, ax in axes_of_many_kinds().items():
        if index == 3 and name == "a list":
            continue  # one panel may come in a list
        with pytest.raises((InvalidTypeError, InvalidParameterError), match="^ax must be"):
            _one(index, ax)
    with pytest.raises(InvalidTypeError if index != 3 else InvalidParameterError, match=r"Pass .*ax\[0\]"):
        _one(index, plt.subplots(1, 2)[1])


@pytest.mark.parametrize("index", range(5))
def test_axes_that_nobody_sees_are_refused(index):
    removed = plt.subplots()[1]
    removed.remove()
    figure, cleared = plt.subplots()
    figure.clf()
    for ax in (removed, cleared):
        with pytest.raises(InvalidParameterError, match="axes that were removed"):
            _one(index, ax)


def test_displays_draw_on_subfigures_insets_twins_and_closed_figures():
    figure = plt.figure()
    part = figure.subfigures(1, 2)[1].subplots()
    outer = plt.subplots()[1]
    inset = outer.inset_axes([0.1, 0.1, 0.5, 0.5]).inset_axes([0.1, 0.1, 0.8, 0.8])
    closed_figure, closed = plt.subplots()
    plt.close(closed_figure)
    for ax in (part, inset, outer.twinx(), closed):
        display = _one(1, ax)
        assert display.ax_ is ax
        display.figure_.canvas.draw()


ZERO = {
    "pure": PrivacyCurve.pure(0.0),
    "zcdp": PrivacyCurve.zcdp(0.0),
    "approximate": PrivacyCurve.approximate(0.0, 0.0),
    "delta alone": PrivacyCurve.approximate(0.0, 1e-3),
    "divergences": PrivacyCurve.from_rdp([2.0, 4.0], [0.0, 0.0]),
}


@pytest.mark.parametrize("curve", ZERO.values(), ids=ZERO)
@pytest.mark.parametrize("display", [PrivacyProfileDisplay, TradeOffDisplay, RdpCurveDisplay])
def test_a_curve_that_costs_nothing_is_drawn_and_said_to_cost_nothing(display, curve, drawn):
    shown = drawn(display.from_curve({"free": curve}))
    text = legend_texts(shown)[0]
    if display is RdpCurveDisplay:
        assert "0 at every order" in text or "infinite at some orders, 0 at the others" in text
    if display is PrivacyProfileDisplay:
        assert ("delta 0 everywhere" in text) == (curve.delta(0.0) == 0)
    both = drawn(display.from_curve({"free": curve, "dear": PrivacyCurve.pure(1.0)}))
    assert len(legend_texts(both)) >= 2


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-remove"])
@pytest.mark.parametrize("kind", ["pure", "approximate", "zcdp", "gaussian", "unknown"])
def test_curves_of_every_kind_are_drawn_under_every_relation(kind, relation, drawn):
    curve = {
        "pure": lambda: PrivacyCurve.pure(1.0, relation=relation),
        "approximate": lambda: PrivacyCurve.approximate(1.0, 1e-5, relation=relation),
        "zcdp": lambda: PrivacyCurve.zcdp(0.1, relation=relation),
        "gaussian": lambda: PrivacyCurve.gaussian(3.0, relation=relation),
        "unknown": lambda: PrivacyCurve.from_rdp([2.0, 4.0], [0.5, math.inf], relation=relation),
    }[kind]()
    search = best_of(curve, Poisson(0.5))
    for display in (
        PrivacyProfileDisplay.from_curve(search, n_points=3, delta=1e-4, lower_bound=False),
        TradeOffDisplay.from_curve(search),
        RdpCurveDisplay.from_curve(search, orders=[2, 3.5]),
    ):
        assert relation in drawn(display).ax_.get_title()


def test_no_line_hides_another_of_the_same_name():
    for display in (PrivacyProfileDisplay, TradeOffDisplay, RdpCurveDisplay):
        with pytest.raises(InvalidParameterError, match="name must be another name than 'single run'"):
            display.from_curve(SEARCH, name="single run")
        with pytest.raises(InvalidParameterError, match="names differ as text"):
            display.from_curve({1: SINGLE, "1": SEARCH})
    display = RunCountDisplay.from_run_count([Geometric(5.00001), Geometric(5.00002)], kind="pmf")
    assert len(display.lines_) == 2


def test_two_displays_on_one_axes_get_different_styles(drawn):
    first = RdpCurveDisplay.from_curve(SINGLE, orders=[2, 4])
    second = drawn(RdpCurveDisplay.from_curve(PrivacyCurve.pure(1.0), orders=[2, 4], ax=first.ax_))
    assert first.line_.get_marker() != second.line_.get_marker()
    assert first.line_.get_color() != second.line_.get_color()
    named = second.plot(name="again")
    assert named.lines_["mechanism"].get_label() == "again: mechanism"


def test_line_options_win_and_the_legend_can_be_left_out():
    display = RdpCurveDisplay.from_curve(SINGLE, orders=[2, 4], lw=3, c="red", legend=False)
    assert display.line_.get_linewidth() == 3 and display.line_.get_color() == "red"
    assert display.ax_.get_legend() is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: PrivacyProfileDisplay.from_curve(SINGLE),
        lambda: TradeOffDisplay.from_estimator(search(), n_samples=50),
        lambda: RdpCurveDisplay({"a": (np.array([2.0]), np.array([1.0]))}).plot(),
        lambda: RunCountDisplay.from_run_count(Poisson(3)),
        lambda: PlanDisplay.from_curve(SINGLE, 1e-5),
    ],
)
def test_without_matplotlib_the_repair_is_named(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=r"requires matplotlib. Install it with `pip install matplotlib`"):
        call()


@pytest.mark.parametrize("display", [PrivacyProfileDisplay, TradeOffDisplay, RdpCurveDisplay])
@pytest.mark.parametrize("curve", [3, "gaussian", None, {"a": 3}])
def test_curves_of_another_kind_are_refused(display, curve):
    with pytest.raises(InvalidTypeError, match="curve must be"):
        display.from_curve(curve)


@pytest.mark.parametrize("display", DISPLAYS)
def test_estimators_of_another_kind_are_refused(display):
    for other in (Toy(), RandomizedSearchCV(Toy(), {"s": [1.0]}), PrivateRandomSearchCV, None, 3):
        with pytest.raises(InvalidTypeError, match="estimator must be a PrivateRandomSearchCV"):
            display.from_estimator(other)


@pytest.mark.parametrize("display", DISPLAYS)
def test_every_display_takes_a_search_in_the_same_way(display, drawn):
    names = list(inspect.signature(display.from_estimator).parameters)
    assert names[:2] == ["estimator", "n_samples"] and "ax" in names
    options = {PrivacyProfileDisplay: {"n_points": 3}, RunCountDisplay: {"kind": "pmf"}}.get(display, {})
    options |= {"run_counts": [Geometric], "means": [2.0, 4.0]} if display is PlanDisplay else {}
    ax = plt.subplots()[1]
    shown = drawn(display.from_estimator(search(), n_samples=100, ax=ax, **options))
    assert shown.ax_ is ax
    spent = search().privacy_cost(100)
    drawn(display.from_estimator(spent, n_samples=100, **options))
    for wrong in (0, -3, True, 1.5, "many"):
        with pytest.raises((InvalidTypeError, InvalidParameterError), match="n_samples must be"):
            display.from_estimator(search(), n_samples=wrong, **options)
    if display is not RunCountDisplay:  # where the number of rows changes nothing
        with pytest.raises(InvalidParameterError, match="n_samples must be left out, or 100"):
            display.from_estimator(spent, n_samples=101, **options)


def test_numbers_are_rounded_to_the_private_side():
    assert label_up(1.8361) == "1.837" and label_up(1.2345 - 1e-9) == "1.235"
    assert label_up(0.5) == "0.500" and label_up(math.inf) == "inf" and label_down(0.9999) == "0.999"
    assert [number(x) for x in (1e-5, 2.5e-7, 0.05, 3.0)] == ["1e-5", "2.5e-7", "0.05", "3"]


@pytest.mark.parametrize("value", [1e-12, 1.00000000000001, 1 - 2**-53, 0.12345678901234, 1e-7, 5e-324, 2 + 2**-51])
def test_no_tolerance_rounds_a_number_to_the_wrong_side(value):
    assert Fraction(label_down(value)) <= Fraction(repr(value)) <= Fraction(label_up(value))
    assert label_up(value) != label_down(value)
    assert float(label_up(value)) > 0


@pytest.mark.parametrize("delta", [1.23456789e-5, 0.00012345678, 1e-300])
def test_a_delta_that_was_asked_at_is_written_whole(delta):
    display = PrivacyProfileDisplay.from_curve(PrivacyCurve.pure(1.0), delta=delta, n_points=3)
    assert float(display.ax_.get_title().split("delta ")[1]) == delta
    display = PlanDisplay.from_curve(PrivacyCurve.pure(1.0), delta, run_counts=[Geometric], means=[2])
    assert float(display.ax_.get_title().split("delta ")[1].split(",")[0]) == delta


def test_a_mass_set_aside_is_rounded_up():
    display = RdpCurveDisplay.from_curve(PrivacyCurve.approximate(1.0, 1.2341e-5), orders=[2, 4])
    assert float(legend_texts(display)[0].split("mass ")[1].rstrip(")")) >= 1.2341e-5


# TradeOffDisplay ----------------------------------------------------------------------------


def test_trade_off_lines_are_the_bound(drawn):
    display = drawn(TradeOffDisplay.from_curve(SEARCH, alpha=0.1))
    for name, curve in (("whole search", SEARCH), ("single run", SINGLE)):
        line = display.lines_[name]
        np.testing.assert_allclose(line.get_ydata(), trade_off(curve, line.get_xdata()), atol=1e-12)
        assert display.marks[name] == trade_off(curve, 0.1)
        at = np.linspace(0, 1, 777)
        assert np.all(np.interp(at, line.get_xdata(), line.get_ydata()) <= trade_off(curve, at) + 1e-10)
    stated = float(legend_texts(display)[0].split("at least ")[1])
    assert display.marks["whole search"] - 1.1e-3 < stated <= display.marks["whole search"]
    np.testing.assert_array_equal(display.reference_.get_ydata(), [1, 0])


def test_trade_off_of_an_estimator_and_without_a_mark(drawn):
    display = drawn(TradeOffDisplay.from_estimator(search(), n_samples=100, alpha=None))
    assert display.marks is None and list(display.lines_) == ["whole search", "single run"]
    with pytest.raises(InvalidParameterError, match="alpha must be"):
        TradeOffDisplay.from_curve(SINGLE, alpha=1.5)


def test_trade_off_of_nothing_lost_and_nothing_known(drawn):
    curves = {"free": PrivacyCurve.pure(0.0), "open": PrivacyCurve.from_rdp([2.0], [math.inf])}
    display = drawn(TradeOffDisplay.from_curve(curves))
    at = np.linspace(0, 1, 11)
    np.testing.assert_allclose(np.interp(at, *display.curves["free"]), 1 - at, atol=1e-12)
    assert np.all(display.curves["open"][1] == 0)


# RdpCurveDisplay ----------------------------------------------------------------------------


def test_rdp_lines_are_the_curves(drawn):
    display = drawn(RdpCurveDisplay.from_curve(SEARCH, orders=[1.5, 2, 8, 32]))
    assert list(display.lines_) == ["whole search", "single run", "closed form"]
    line = display.lines_["whole search"]
    x, y = line.get_xdata()[::4], line.get_ydata()[::4]
    np.testing.assert_array_equal(x, [1.5, 2, 8, 32])
    np.testing.assert_array_equal(y, SEARCH.rdp([1.5, 2, 8, 32]))
    inner = line.get_xdata()
    assert np.all(line.get_ydata() >= SEARCH.rdp(inner) * (1 - 1e-6))


def test_rdp_says_what_is_infinite_and_what_is_set_aside(drawn):
    curves = {
        "aside": PrivacyCurve.approximate(1.0, 1e-5),
        "partly": PrivacyCurve.from_rdp([2.0, 4.0], [0.5, math.inf]),
        "open": PrivacyCurve.from_rdp([2.0], [math.inf]),
    }
    texts = legend_texts(drawn(RdpCurveDisplay.from_curve(curves)))
    assert texts[0] == "aside (outside mass 1e-05)"
    assert texts[1] == "partly (infinite at some orders)" and texts[2] == "open (infinite at every order)"


def test_rdp_of_an_estimator():
    display = RdpCurveDisplay.from_estimator(search(), n_samples=100, orders=[2, 4])
    expected = search().privacy_cost(100).rdp([2, 4])
    np.testing.assert_array_equal(display.curves["whole search"][1][[0, -1]], expected)


# RunCountDisplay ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [Poisson(10), TruncatedNegativeBinomial(10, 2), Fixed(4), Finite({0: 0.5, 3: 0.5})])
def test_run_count_panels_hold_the_distribution(count, drawn):
    display = drawn(RunCountDisplay.from_run_count({"k": count}))
    runs = display.lines_["pmf", "k"].get_xdata()
    np.testing.assert_array_equal(runs, np.arange(runs.size))
    np.testing.assert_allclose(display.lines_["pmf", "k"].get_ydata(), count.pmf(runs))
    np.testing.assert_allclose(display.lines_["tail", "k"].get_ydata(), count.sf(runs))
    line = display.lines_["quantile", "k"]
    np.testing.assert_allclose(line.get_ydata(), count.success_probability(line.get_xdata()))
    stated = float(line.get_label().split("expected quantile ")[1])
    assert count.expected_quantile() - 1e-3 < stated <= count.expected_quantile() + 1e-12
    assert f"99 % within {count.quantile(0.99)} tries" in display.lines_["tail", "k"].get_label()
    assert display.ax_.shape == (3,) and sorted(display.axes_) == ["pmf", "quantile", "tail"]


def test_run_count_of_an_infinite_mean_and_of_a_long_tail(drawn):
    display = drawn(RunCountDisplay.from_run_count({"long": Logarithmic(5000), "longer": Logarithmic(10**9)}))
    runs = display.lines_["pmf", "long"].get_xdata()
    assert runs[0] == 0 and runs.size < 200 and runs[-1] == 10**7
    assert display.axes_["tail"].get_xscale() == "symlog"


def test_run_count_of_searches_curves_and_one_panel(drawn):
    one = drawn(RunCountDisplay.from_estimator(search(), kind="pmf"))
    assert list(one.lines_) == [("pmf", "Geometric(mean=5)")] and one.ax_ is one.axes_["pmf"]
    assert list(RunCountDisplay.from_estimator(search(n_iter=7)).counts) == ["TruncatedNegativeBinomial(mean=7, eta=2)"]
    assert list(RunCountDisplay.from_curve(SEARCH).counts) == ["Logarithmic(mean=10)"]
    spent = search().privacy_cost(100)
    assert list(RunCountDisplay.from_estimator(spent).counts) == ["Geometric(mean=5)"]


def test_run_count_of_a_fitted_search_is_what_was_spent():
    fitted = search(n_iter=Geometric(3)).fit(np.zeros((40, 1)), np.tile([0, 1], 20))
    fitted.set_params(n_iter=Fixed(1))
    assert list(RunCountDisplay.from_estimator(fitted, kind="pmf").counts) == ["Geometric(mean=3)"]


def test_means_in_names_are_rounded_down():
    assert list(RunCountDisplay.from_run_count(Poisson(16.21999), kind="pmf").counts) == ["Poisson(mean=16.21)"]
    table = plan(SINGLE, None, 1e-5, run_counts=[Geometric(2.9999)], optimise=False)
    assert "mean 2.99," in PlanDisplay.from_plan(table).ax_.get_yticklabels()[0].get_text()


def test_panels_below_one_another():
    display = RunCountDisplay.from_run_count([Geometric(10), Poisson(10)], stacked=True)
    boxes = [ax.get_position() for ax in display.ax_]
    assert [ax for ax in display.ax_] == list(display.axes_.values())
    assert all(above.y0 > below.y1 for above, below in zip(boxes, boxes[1:], strict=False))
    assert {round(box.x1, 3) for box in boxes} == {round(boxes[0].x1, 3)}
    width, height = display.figure_.get_size_inches()
    assert width < 6 < height  # a line of 360 points shows the letters of a phone's page
    assert RunCountDisplay.from_run_count(Geometric(10), kind="pmf", stacked=True).ax_.get_ylabel() == "P(K = k)"


def test_run_count_refusals():
    with pytest.raises(InvalidTypeError, match="run_count must be"):
        RunCountDisplay.from_run_count(3)
    with pytest.raises(InvalidTypeError, match="an item of run_count"):
        RunCountDisplay.from_run_count([3])
    for single in (SINGLE, best_of(SINGLE, Fixed(1))):
        with pytest.raises(InvalidTypeError, match="made by best_of.*from_run_count"):
            RunCountDisplay.from_curve(single)
    with pytest.raises(InvalidParameterError, match="ax must be 3 axes"):
        RunCountDisplay.from_run_count(Poisson(3), ax=plt.subplots()[1])
    with pytest.raises(InvalidParameterError, match="kind must be one of"):
        RunCountDisplay.from_run_count(Poisson(3), kind="cdf")


# PlanDisplay --------------------------------------------------------------------------------


@pytest.mark.parametrize("gain", ["expected_quantile", "success_probability"])
def test_plan_lines_are_priced_searches(gain, drawn):
    means = [2.0, 5.0, 10.0]
    display = drawn(
        PlanDisplay.from_curve(SINGLE, 1e-5, run_counts=[Geometric, Poisson], means=means, gain=gain, share=0.1)
    )
    for name, build in (("Geometric", Geometric), ("Poisson", Poisson)):
        x, y = display.lines_[name].get_data()
        for at, mean in enumerate(means):
            count = build(mean)
            assert x[at] == pytest.approx(best_of(SINGLE, count).epsilon(1e-5), rel=5e-3)
            wanted = count.expected_quantile() if gain == "expected_quantile" else count.success_probability(0.1)
            assert y[at] == pytest.approx(wanted, rel=1e-12)
    assert [text.get_text() for text in display.labels_] == ["Geometric", "Poisson"]
    assert "1e-5" in display.ax_.get_title() and "zero-out" in display.ax_.get_title()
    assert "(nats)" in display.ax_.get_xlabel()


def test_plan_rows_show_the_table(drawn):
    table = plan(SINGLE, None, 1e-5, run_counts=[Geometric, Poisson], expected_quantile=0.8, optimise=False)
    display = drawn(PlanDisplay.from_plan(table, delta=1e-5))
    x, y = display.lines_["rows"].get_data()
    assert x.tolist() == [row["search_epsilon"] for row in table] and y.tolist() == [0, 1]
    assert [text.get_text() for text in display.labels_] == [label_up(row["search_epsilon"]) for row in table]
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert names[display.best].startswith("best: ") and "99 % within" in names[0]


def test_plan_of_a_target_shows_what_is_left_for_one_run():
    table = plan(
        PrivacyCurve.gaussian, 2.0, 1e-5, run_counts=[Geometric, Poisson], expected_quantile=0.7, optimise=False
    )
    display = PlanDisplay.from_plan(table, delta=1e-5)
    assert display.cost == "single_run_epsilon"
    assert display.ax_.get_title().endswith("delta 1e-5, target epsilon 2")
    stated = [float(text.get_text()) for text in display.labels_]
    for value, row in zip(stated, table, strict=True):
        assert value <= row["single_run_epsilon"] < value + 1.1e-3


def test_plan_with_infinite_prices_and_a_legend(drawn):
    rows = [
        {"distribution": name, "kind": "named", "mean": mean, "runs_99": 3, "expected_quantile": 0.5 + mean / 10,
         "success_probability": 0.1, "single_run_epsilon": 1.0, "search_epsilon": epsilon}
        for name, mean, epsilon in (("A", 1.0, 1.5), ("A", 2.0, math.inf), ("B", 1.0, math.inf))
    ]
    display = drawn(PlanDisplay(rows).plot())
    assert [text.get_text() for text in display.labels_] == ["A"]
    assert display.note_ == "no finite epsilon: A (mean 2), B" and display.note_ in display.ax_.get_xlabel()
    assert PlanDisplay(rows[:1]).plot().note_ is None
    display = drawn(PlanDisplay(rows).plot(kind="rows"))
    assert [text.get_text() for text in display.labels_] == ["1.500", "inf", "inf"]
    display = drawn(PlanDisplay(rows).plot(kind="lines", legend=True))
    assert "A" in legend_texts(display)


def test_plan_names_what_cannot_be_priced(drawn):
    rough = PrivacyCurve.approximate(1.0, 1e-5)
    display = drawn(PlanDisplay.from_curve(rough, 3e-5, run_counts=[Geometric, Fixed], means=[2, 4]))
    assert [name for name, line in display.lines_.items() if np.isfinite(line.get_xdata()).any()] == [
        "Geometric", "Fixed",
    ]
    assert display.note_ == "no finite epsilon: Geometric (mean 4), Fixed (mean 4)"
    assert display.note_ in display.ax_.get_xlabel().replace("\n", " ")


def test_plan_names_a_distribution_that_no_method_prices(monkeypatch):
    from skdptune.displays import _plan

    def reluctant(curve, target, delta, *, run_counts, **options):
        if run_counts == [Poisson]:
            raise PricingError("no method can price this search.")
        return plan(curve, target, delta, run_counts=run_counts, **options)

    monkeypatch.setattr(_plan, "plan", reluctant)
    display = PlanDisplay.from_curve(SINGLE, 1e-5, run_counts=[Geometric, Poisson], means=[2])
    assert display.note_ == "no finite epsilon: Poisson" and list(display.lines_) == ["Geometric"]
    with pytest.raises(PricingError, match="nothing to draw, no distribution has a finite price: no method"):
        PlanDisplay.from_curve(SINGLE, 1e-5, run_counts=[Poisson], means=[2])


@pytest.mark.parametrize(
    ("curve", "delta"),
    [
        (SINGLE, 0.0),
        (PrivacyCurve.approximate(1.0, 1e-3), 1e-5),
        (PrivacyCurve.from_rdp([2.0], [math.inf]), 1e-5),
    ],
)
def test_a_plan_without_any_finite_price_is_refused(curve, delta):
    with pytest.raises(PricingError, match="no distribution has a finite price"):
        PlanDisplay.from_curve(curve, delta, run_counts=[Geometric, Fixed], means=[2, 4])


def test_plan_draws_fixed_numbers_of_tries_as_one_line():
    display = PlanDisplay.from_curve(PrivacyCurve.pure(1.0), 1e-5, run_counts=[Fixed], means=[1.5, 2, 3.0])
    assert list(display.lines_) == ["Fixed"] and [row["mean"] for row in display.rows] == [2, 3]
    with pytest.raises(InvalidParameterError, match="means must be a sequence with a whole number in it, for Fixed"):
        PlanDisplay.from_curve(SINGLE, 1e-5, run_counts=[Fixed], means=[1.5])


def test_plan_of_a_search_draws_its_runs():
    options = {"run_counts": [Geometric], "means": [5.0]}
    display = PlanDisplay.from_estimator(search(), n_samples=100, delta=1e-4, **options)
    assert display.rows[0]["search_epsilon"] == pytest.approx(search().privacy_cost(100).epsilon(1e-4), rel=5e-3)
    with pytest.raises(InvalidParameterError, match="estimator must be a search without refit=True"):
        PlanDisplay.from_estimator(search(refit=True), n_samples=100, **options)


def test_plan_refusals():
    table = plan(SINGLE, None, 1e-5, run_counts=[Geometric(2)], optimise=False)
    with pytest.raises(InvalidTypeError, match="table must be a Plan"):
        PlanDisplay.from_plan([{}])
    with pytest.raises(InvalidParameterError, match="gain must be one of"):
        PlanDisplay.from_plan(table, gain="luck")
    with pytest.raises(InvalidTypeError, match="curve must be the PrivacyCurve of one run"):
        PlanDisplay.from_curve(3, 1e-5)
    with pytest.raises(InvalidParameterError, match="kind must be one of"):
        PlanDisplay.from_plan(table).plot(kind="pie")
    with pytest.raises(InvalidParameterError, match="rows must be a list of at least one row"):
        PlanDisplay([]).plot()
    with pytest.raises(InvalidTypeError, match="run_counts must be a sequence"):
        PlanDisplay.from_curve(SINGLE, 1e-5, run_counts="Geometric")
    with pytest.raises(InvalidParameterError, match="run_counts must be at least one"):
        PlanDisplay.from_curve(SINGLE, 1e-5, run_counts=[])


def test_labels_lie_within_the_figure():
    display = RdpCurveDisplay.from_curve(best_of(PrivacyCurve.pure(0.5), Geometric(10)))
    figure = display.figure_
    figure.canvas.draw()
    box = display.ax_.yaxis.get_label().get_window_extent()
    assert box.x0 >= 0 and box.y1 <= figure.bbox.height


def test_probabilities_of_whole_numbers_are_not_joined():
    display = RunCountDisplay.from_run_count(Geometric(5), kind="pmf")
    assert display.line_.get_drawstyle() == "steps-mid"
