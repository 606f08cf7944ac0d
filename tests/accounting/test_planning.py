"""Plans: the reference table, targets kept, the best row, the printed table, errors."""

import numpy as np
import pandas as pd
import pytest

from skdptune._exceptions import InvalidParameterError, InvalidTypeError, UnreachableTargetError
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.accounting.planning import Plan, plan
from skdptune.run_counts import Finite, Fixed, Geometric, Logarithmic, Poisson, TruncatedNegativeBinomial

GAUSSIAN = PrivacyCurve.gaussian(3.0)


def eta(value):
    return lambda mean: TruncatedNegativeBinomial(mean, value)


@pytest.mark.parametrize(
    "quantile, build, mean, epsilon",
    [
        (0.7, Logarithmic, 5.04, 1.685),
        (0.7, eta(4), 3.09, 1.632),
        (0.8, eta(0.5), 10, 1.896),
        (0.8, Geometric, 7.76, 1.871),
        (0.9, eta(2), 16.2, 2.194),
        (0.9, Poisson, 10, 2.486),
        (0.95, Geometric, 66.12, 2.479),
    ],
)
def test_what_a_distribution_buys(quantile, build, mean, epsilon):
    """Cells of the reference table, within 0.5 %."""
    options = {"run_counts": [build], "expected_quantile": quantile, "optimise": False, "rtol": 2e-3}
    (row,) = plan(GAUSSIAN, None, 1e-5, **options)
    assert row["mean"] == pytest.approx(mean, rel=2e-3)
    assert row["search_epsilon"] == pytest.approx(epsilon, rel=5e-3)
    assert row["single_run_epsilon"] == pytest.approx(1.271, rel=1e-3)
    assert quantile <= row["expected_quantile"] <= quantile + 1e-4
    assert row["mean"] == pytest.approx(round(row["mean"], 3), rel=1e-12)  # what the table shows is all of it


@pytest.fixture(scope="module")
def fixed():
    return plan(GAUSSIAN, None, 1e-5, run_counts=[Poisson, eta(2)], max_mean=17)


def test_the_optimal_row_gains_over_all_others(fixed):
    kinds = [row["kind"] for row in fixed]
    assert kinds == ["named", "named", "searched", "optimal"]
    prices = {row["kind"]: row["search_epsilon"] for row in fixed}
    assert prices["optimal"] < 0.97 * prices["searched"]
    assert prices["searched"] <= fixed[1]["search_epsilon"] * (1 + 5e-3)
    assert all(row["mean"] <= 17 + 1e-9 for row in fixed)
    assert all(row["expected_quantile"] >= 0.9 * (1 - 1e-9) for row in fixed)
    assert fixed.best == fixed[3]
    assert fixed.best["search_epsilon"] == min(row["search_epsilon"] for row in fixed)


def test_rows_are_what_the_run_count_says(fixed):
    for row in fixed:
        k = row["run_count"]
        assert row["mean"] == k.mean
        assert row["runs_99"] == k.quantile(0.99)
        assert row["expected_quantile"] == k.expected_quantile()
        assert row["success_probability"] == k.success_probability(0.05)
        fine = best_of(GAUSSIAN, k).epsilon(1e-5)
        assert fine * (1 - 3e-3) <= row["search_epsilon"] <= fine * (1 + 6e-3)


def test_records_for_pandas(fixed):
    frame = pd.DataFrame(fixed)
    assert len(frame) == len(fixed) == 4
    expected = ["distribution", "kind", "run_count", "mean", "runs_99", "expected_quantile"]
    assert list(frame.columns[:6]) == expected
    np.testing.assert_array_equal(frame["mean"], [row["mean"] for row in fixed])
    assert len(fixed[1:3]) == 2


def test_rows_cannot_be_changed_from_outside(fixed):
    fixed[0]["mean"] = -1.0
    fixed.best["mean"] = -1.0
    assert fixed[0]["mean"] > 0 < fixed.best["mean"]


def test_the_table_as_text():
    rows = [
        {"distribution": "Poisson", "kind": "named", "mean": 10.0, "runs_99": 18, "search_epsilon": 2.5},
        {"distribution": "optimal", "kind": "optimal", "mean": 9.5, "runs_99": 13, "search_epsilon": None},
    ]
    table = Plan(rows, 0, "cheapest search", ["Geometric exceeds the caps"])
    assert str(table) == (
        "   distribution  search_epsilon    mean  runs_99  kind\n"
        "*  Poisson               2.5000  10.000       18  named\n"
        "   optimal                    -   9.500       13  optimal\n"
        "* best: cheapest search\n"
        "left out: Geometric exceeds the caps"
    )
    assert repr(table).startswith("<Plan of 2 rows>\n")


@pytest.mark.parametrize("family, target, delta", [(PrivacyCurve.gaussian, 2.2, 1e-5), (PrivacyCurve.pure, 2.0, 0.0)])
def test_a_family_is_calibrated_to_the_target(family, target, delta):
    table = plan(family, target, delta, run_counts=[Poisson, Geometric], max_mean=30)
    assert [row["kind"] for row in table] == ["named", "named", "searched", "optimal"]
    for row in table:
        curve = family(row["setting"])
        assert row["single_run_epsilon"] == curve.epsilon(delta)
        assert target * (1 - 6e-3) <= row["search_epsilon"] <= target
        assert best_of(curve, row["run_count"]).epsilon(delta) <= target * (1 + 2e-3)
        assert len(repr(row["setting"]).replace(".", "").strip("0")) <= 6  # short enough to be copied
    assert table.best["kind"] == "optimal"
    assert table.best["single_run_epsilon"] == max(row["single_run_epsilon"] for row in table)


def test_means_and_given_run_counts():
    table = plan(
        PrivacyCurve.gaussian, 2.0, 1e-5, run_counts=[Geometric, Fixed(2)], means=[3, 10], optimise=False
    )
    assert [(row["distribution"], row["mean"]) for row in table] == [
        ("Geometric", 3.0),
        ("Geometric", 10.0),
        ("Fixed(k=2)", 2.0),
    ]
    first, second, _ = table
    assert first["single_run_epsilon"] > second["single_run_epsilon"]  # more tries leave less
    assert table.best is None  # nothing reaches the quantile 0.9


@pytest.mark.slow
def test_the_most_quantile_that_a_target_allows():
    table = plan(GAUSSIAN, 1.9, 1e-5, run_counts=[Poisson, eta(2)])
    assert all(1.9 * (1 - 1.5e-2) <= row["search_epsilon"] <= 1.9 for row in table)
    assert table.best["kind"] == "optimal"
    assert table.best["expected_quantile"] == max(row["expected_quantile"] for row in table)
    # the reference table: eta 2 at quantile 0.8 costs 1.861, at 0.9 it costs 2.194
    assert 0.8 < table[1]["expected_quantile"] < 0.83


def test_caps_leave_rows_out():
    table = plan(GAUSSIAN, None, 1e-5, run_counts=[Geometric, Poisson], max_runs_99=20, optimise=False)
    assert [row["distribution"] for row in table] == ["Poisson"]
    assert table.left_out == ("Geometric at mean 24.26 exceeds the caps",)
    searched = plan(GAUSSIAN, None, 1e-5, run_counts=[Poisson], max_runs_99=40)
    assert all(row["runs_99"] <= 40 for row in searched)


def test_a_curve_without_a_pair_is_planned_by_its_renyi_divergence():
    table = plan(PrivacyCurve.zcdp(0.05), None, 1e-5, run_counts=[Geometric(5), Poisson(5)], optimise=False)
    assert [row["kind"] for row in table] == ["named", "named"]
    assert all(row["search_epsilon"] > row["single_run_epsilon"] for row in table)


def test_errors():
    with pytest.raises(InvalidTypeError, match="family must be a PrivacyCurve or a function of one number"):
        plan(3.0, None, 1e-5)
    with pytest.raises(InvalidTypeError, match="target_epsilon must be a positive number for a family"):
        plan(PrivacyCurve.gaussian, None, 1e-5)
    with pytest.raises(InvalidTypeError, match="run_counts must be a sequence of run counts"):
        plan(GAUSSIAN, None, 1e-5, run_counts=Geometric(3))
    with pytest.raises(InvalidTypeError, match="an item of run_counts must be a run count"):
        plan(GAUSSIAN, None, 1e-5, run_counts=[3])
    with pytest.raises(InvalidTypeError, match="means must be a sequence"):
        plan(GAUSSIAN, None, 1e-5, means=3)
    with pytest.raises(InvalidParameterError, match=r"an item of means must be a real number in \[1, inf\)"):
        plan(GAUSSIAN, None, 1e-5, means=[0.5])
    with pytest.raises(InvalidTypeError, match="family must be a function that returns a PrivacyCurve"):
        plan(lambda x: x, 1.0, 1e-5)


def test_unreachable_wishes():
    with pytest.raises(InvalidParameterError, match="expected_quantile must be at most 0.8 together with max_mean=4"):
        plan(GAUSSIAN, None, 1e-5, max_mean=4)
    with pytest.raises(InvalidParameterError, match="plan must find some distribution; got none"):
        plan(GAUSSIAN, None, 1e-5, max_mean=4, optimise=False)
    with pytest.raises(UnreachableTargetError):
        plan(lambda x: PrivacyCurve.pure(1.0 + x), 0.5, 0.0, run_counts=[Geometric])


def test_what_is_no_function_of_a_mean_is_said():
    for builder in (Fixed, Finite, lambda mean: 3.0):
        with pytest.raises((InvalidParameterError, InvalidTypeError)) as caught:
            plan(GAUSSIAN, None, 1e-5, run_counts=[builder], optimise=False)
        text = str(caught.value)
        assert builder.__name__ in text
        assert "with all their numbers" in text
    assert plan(GAUSSIAN, None, 1e-5, run_counts=[Fixed(1)], optimise=False)[0]["mean"] == 1.0


def test_no_infinite_price_is_ever_the_best():
    table = plan(GAUSSIAN, None, 0.0, run_counts=[Geometric], means=[3], optimise=False)
    assert table[0]["search_epsilon"] == np.inf
    assert table.best is None
    assert "no row is the best: cheapest search among those" in str(table)


def test_a_fixed_curve_beyond_the_target():
    options = {"run_counts": [Geometric, Poisson], "optimise": False}
    with pytest.raises(UnreachableTargetError, match="Geometric exceeds the target at any mean.*Allow a larger target"):
        plan(GAUSSIAN, 0.5, 1e-5, **options)
    table = plan(GAUSSIAN, 1.3, 1e-5, expected_quantile=0.8, **options)
    assert table.best is None
    assert "a price of at most 1.3" in table.criterion
    assert plan(GAUSSIAN, 1.9, 1e-5, expected_quantile=0.8, **options).best["distribution"] == "Geometric"


def test_the_printed_table_rounds_means_and_chances_down():
    table = plan(GAUSSIAN, None, 1e-5, run_counts=[Geometric], means=[2.71828], optimise=False)
    header, line = str(table).splitlines()[:2]
    shown = dict(zip(header.split(), line.split(), strict=True))
    row = table[0]
    assert shown["mean"] == "2.718"
    for name in ("expected_quantile", "success_probability"):
        assert row[name] - 1e-4 <= float(shown[name]) <= row[name]
    for name in ("single_run_epsilon", "search_epsilon"):
        assert row[name] <= float(shown[name]) <= row[name] + 1e-4
