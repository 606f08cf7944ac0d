"""``plan`` and ``calibrate``: what is printed holds."""

import math

import pytest

from skdptune.accounting import PrivacyCurve, best_of
from skdptune.run_counts import Geometric, from_dict


def test_plan_of_a_fixed_curve(ask):
    line = "plan gaussian --noise-multiplier 3 --delta 1e-5 --run-counts geometric poisson --expected-quantile 0.8"
    data = ask(line + " --json").json
    curve = PrivacyCurve.gaussian(3.0)
    assert [row["distribution"] for row in data["rows"]] == ["Geometric", "Poisson"]
    assert data["parameter"] is None
    for row in data["rows"]:
        count = from_dict(row["run_count"])
        assert row["expected_quantile"] >= 0.8 - 1e-6
        exact = best_of(curve, count).epsilon(1e-5)
        assert row["search_epsilon"] == pytest.approx(exact, rel=0.01)
    assert [row["best"] for row in data["rows"]] == [True, False]
    text = ask(line).out
    best = next(line for line in text.splitlines() if line.startswith("*"))
    shown = float(best.split()[-1])
    assert shown == math.ceil(data["rows"][0]["search_epsilon"] * 100) / 100
    assert max(map(len, text.splitlines())) < 80


def test_plan_calibrates_every_row(ask):
    line = "plan gaussian --target 2 --delta 1e-5 --run-counts geometric truncated-negative-binomial --means 4 --json"
    data = ask(line).json
    assert data["parameter"] == "noise_multiplier"
    for row in data["rows"]:
        noise = row["setting"]
        assert noise == float(f"{noise:.5g}")  # what the table shows is what the program says
        price = best_of(PrivacyCurve.gaussian(noise), from_dict(row["run_count"])).epsilon(1e-5)
        assert price <= 2.0
    assert max(map(len, ask(line.replace(" --json", "")).out.splitlines())) < 80


def test_plan_says_what_is_left_out(ask):
    found = ask("plan gaussian --noise-multiplier 3 --delta 1e-5 --run-counts geometric poisson --max-mean 6")
    assert (found.code, found.out) == (2, "")
    text = ask("plan gaussian --noise-multiplier 3 --delta 1e-5 --run-counts geometric poisson --max-mean 12").out
    assert "left out: Geometric" in text


def test_plan_of_a_fixed_curve_with_a_target(ask):
    line = "plan gaussian --noise-multiplier 3 --delta 1e-5 --run-counts geometric poisson --target"
    data = ask(f"{line} 2 --json").json  # the largest mean that fits
    assert all(1.98 < row["search_epsilon"] <= 2.0 for row in data["rows"])
    text = ask(f"{line} 2").out
    for row in data["rows"]:  # the table shows the mean that was priced
        cells = next(line for line in text.splitlines() if row["distribution"] in line[:20]).split()
        assert float(cells[-6]) == pytest.approx(row["mean"], rel=1e-12)
    found = ask(f"{line} 1.3 --expected-quantile 0.8")  # means are given by the quantile: none fits
    assert found.code == 3
    assert "no row qualifies as the best, which would be the cheapest search" in " ".join(found.out.split())
    assert found.err == "skdptune: error: no search here costs at most --target 1.3; the cheapest costs 1.88.\n"
    assert ask(f"{line} 1.9 --expected-quantile 0.8").out.count("\n*  Geometric") == 1


def test_plan_without_a_finite_price_is_no_answer(ask):
    found = ask("plan gaussian --noise-multiplier 3 --delta 0 --run-counts geometric poisson --means 3")
    assert found.code == 1
    assert found.err == "skdptune: error: no search here has a finite price at delta = 0. Raise --delta.\n"
    assert "\n*" not in found.out


def test_chances_are_rounded_down(ask):
    line = "plan gaussian --noise-multiplier 3 --delta 1e-5 --run-counts geometric poisson --means 2.7 --max-mean 9"
    data, text = ask(line + " --json").json, ask(line).out
    for row in data["rows"]:
        cells = next(line for line in text.splitlines() if row["distribution"] in line).split()
        shown = dict(zip(("mean", "quantile", "success"), map(float, (cells[-6], cells[-4], cells[-3])), strict=True))
        assert row["mean"] - 1e-3 <= shown["mean"] <= row["mean"] * (1 + 1e-12)
        assert row["expected_quantile"] - 1e-3 <= shown["quantile"] <= row["expected_quantile"]
        assert row["success_probability"] - 1e-3 <= shown["success"] <= row["success_probability"]


def test_plan_with_an_optimum(ask):
    line = "plan pure --epsilon 1 --delta 0 --run-counts geometric --expected-quantile 0.6 --max-mean 3 --optimise"
    data = ask(line + " --json").json
    assert {"named", "optimal"} <= {row["kind"] for row in data["rows"]}
    optimal = next(row for row in data["rows"] if row["kind"] == "optimal")
    count = from_dict(optimal["run_count"])  # goes back in by --run-count-json
    assert best_of(PrivacyCurve.pure(1.0), count).epsilon(0) == pytest.approx(optimal["search_epsilon"], rel=0.01)


@pytest.mark.parametrize(
    ("options", "family", "upwards"),
    [
        ("gaussian", PrivacyCurve.gaussian, True),
        ("laplace", PrivacyCurve.laplace, False),
        ("zcdp", PrivacyCurve.zcdp, False),
        ("pure", PrivacyCurve.pure, False),
        ("approximate --run-delta 1e-9", lambda x: PrivacyCurve.approximate(x, 1e-9), False),
    ],
)
@pytest.mark.parametrize("refit", [False, True])
def test_calibrated_noise_holds_as_printed(ask, options, family, upwards, refit):
    line = f"calibrate {options} --target 2 --run-count geometric --mean 4 --delta 1e-5" + " --refit" * refit
    found, data = ask(line), ask(line + " --json").json
    name, value = found.out.splitlines()[0].split(" = ")
    assert (name, float(value)) == (data["parameter"], data["setting"])
    curve = family(float(value))
    whole = best_of(curve, Geometric(4))
    price = (whole + curve if refit else whole).epsilon(1e-5)
    assert price == data["epsilon"] <= 2.0
    assert price > 1.98  # and it is not wasteful
    assert len(value.replace(".", "").lstrip("0")) <= 5


def test_a_best_row_that_few_would_wait_for_is_said_to_be_one(ask):
    line = "plan pure --epsilon 1 --delta 1e-5 --expected-quantile 0.9 --run-counts logarithmic geometric"
    found = ask(line)
    said = " ".join(found.out.split())
    assert "running time: the best row trains 2,194 candidates on average" in said and "--max-runs-99" in said
    assert "running time" not in ask(f"{line} --max-runs-99 200").out


@pytest.mark.parametrize("target", [1.0, 1.7])
def test_a_single_run_is_stated_at_the_setting_that_is_shown(ask, target):
    line = f"plan pure --target {target} --delta 0 --run-counts geometric truncated-negative-binomial --means 2.7 9"
    for row in ask(f"{line} --json").json["rows"]:
        assert row["single_run_epsilon"] == row["setting"]
        assert best_of(PrivacyCurve.pure(row["setting"]), from_dict(row["run_count"])).epsilon(0) <= target


def test_plan_notes_a_large_delta(ask):
    line = "plan pure --epsilon 1 --run-counts geometric --means 3 --delta"
    data = ask(f"{line} 0.5 --json").json
    assert len(data["notes"]) == 1 and data["notes"][0].startswith("delta = 0.5 is large")
    assert f"NOTE: {data['notes'][0]}" in " ".join(ask(f"{line} 0.5").out.split())
    assert ask(f"{line} 0 --json").json["notes"] == []


def test_shares_are_percentages(ask):
    text = ask("plan pure --epsilon 1 --delta 0 --run-counts geometric --means 3").out
    assert "among the best 5 % of all settings" in " ".join(text.split())
