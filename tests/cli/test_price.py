"""``price``: what is printed is what the accounting says, on the safe side."""

import json
import math

import pytest

from skdptune._cli._codes import ask_for_patience
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.report._notes import price_notes
from skdptune.run_counts import (
    AtMost,
    BetaBinomial,
    Binomial,
    Fixed,
    Geometric,
    Logarithmic,
    Poisson,
    ZeroTruncatedPoisson,
    from_dict,
)
from skdptune.run_counts import TruncatedNegativeBinomial as Tnb

REFERENCE = (
    "price dp-sgd --noise-multiplier 1 --sample-rate 256/60000 --steps 7031 "
    "--run-count logarithmic --mean 10 --delta 1e-5"
)
KEYS = [
    "command",
    "mechanism",
    "relation",
    "delta",
    "run_count",
    "mean_runs",
    "runs_99",
    "p_no_run",
    "refit",
    "single_run_epsilon",
    "epsilon",
    "method",
    "bounds",
    "unavailable",
    "lower_bound",
    "limit",
    "notes",
]


def _printed(text, label):
    line = next(line for line in text.splitlines() if line.startswith(label))
    return float(line[len(label) :].split()[0])


def test_reference_setting_of_dp_sgd(ask):
    text = ask(REFERENCE).out
    assert _printed(text, "one run  ") == 1.95
    assert _printed(text, "search, closed form") == 3.60
    assert _printed(text, "search, Renyi, curve alone") == 3.09
    assert 2.74 < _printed(text, "search, exact") <= 2.76
    assert _printed(text, "lower bound") <= 2.75
    assert [line for line in text.splitlines() if "the price" in line][0].startswith("search, exact")


def test_numbers_are_those_of_the_accounting(ask):
    found = ask(REFERENCE + " --json")
    assert (found.code, found.err, list(found.json)) == (0, "", KEYS)
    curve, count = PrivacyCurve.dp_sgd(1.0, 256 / 60000, 7031), Logarithmic(10)
    data = found.json
    assert data["mechanism"] == {"name": "dp-sgd", "noise_multiplier": 1.0, "sample_rate": 256 / 60000, "steps": 7031}
    assert data["single_run_epsilon"] == curve.epsilon(1e-5)
    assert data["epsilon"] == best_of(curve, count).epsilon(1e-5) == data["bounds"]["exact"]
    assert data["bounds"]["closed_form"] == best_of(curve, count, "closed_form").epsilon(1e-5)
    assert data["method"] == "exact"
    assert from_dict(data["run_count"]) == count
    assert data["lower_bound"] <= data["epsilon"]


def test_text_rounds_up_what_json_says(ask):
    line = "price gaussian --noise-multiplier 3 --run-count poisson --mean 10 --delta 1e-5"
    text, data = ask(line).out, ask(line + " --json").json
    assert _printed(text, "one run  ") == math.ceil(data["single_run_epsilon"] * 100) / 100
    for name, label in (("closed_form", "closed form"), ("rdp", "Renyi, curve and pair"), ("exact", "exact")):
        assert _printed(text, f"search, {label}") == math.ceil(data["bounds"][name] * 100) / 100
    assert "4.6e-05 of searches make none" in " ".join(text.split())


@pytest.mark.parametrize(
    ("options", "curve"),
    [
        ("pure --epsilon 1", PrivacyCurve.pure(1.0)),
        ("approximate --epsilon 1 --run-delta 1e-9", PrivacyCurve.approximate(1.0, 1e-9)),
        ("zcdp --rho 0.05", PrivacyCurve.zcdp(0.05)),
        ("gaussian --noise-multiplier 3", PrivacyCurve.gaussian(3.0)),
        ("laplace --epsilon 1/2", PrivacyCurve.laplace(0.5)),
        ("gaussian --noise-multiplier 6 --relation replace-one", PrivacyCurve.gaussian(6.0, relation="replace-one")),
    ],
)
def test_every_mechanism(ask, options, curve):
    data = ask(f"price {options} --run-count geometric --mean 4 --delta 1e-5 --json").json
    assert data["relation"] == curve.relation
    assert data["single_run_epsilon"] == curve.epsilon(1e-5)
    exact = best_of(curve, Geometric(4)).epsilon(1e-5)
    assert data["epsilon"] <= exact * (1 + 1e-12)
    assert data["epsilon"] >= exact / 1.02
    if curve.pair is not None:
        assert data["lower_bound"] <= data["epsilon"]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ("--mean 4", Tnb(4, 2)),
        ("--mean 4 --eta 0.5", Tnb(4, 0.5)),
        ("--run-count poisson --mean 0.5", Poisson(0.5)),
        ("--run-count zero-truncated-poisson --mean 4", ZeroTruncatedPoisson(4)),
        ("--run-count binomial --n 8 --p 0.5", Binomial(8, 0.5)),
        ("--run-count beta-binomial --n 8 --a 1 --b 2", BetaBinomial(8, 1, 2)),
        ("--run-count fixed --k 1e1", Fixed(10)),
        ("--run-count geometric --mean 4 --at-most 9", AtMost(Geometric(4), 9)),
    ],
)
def test_every_run_count(ask, options, count):
    data = ask(f"price pure --epsilon 0.5 --delta 0 {options} --json").json
    assert from_dict(data["run_count"]) == count
    assert data["mean_runs"] == count.mean
    assert data["epsilon"] <= best_of(PrivacyCurve.pure(0.5), count).epsilon(0)


def test_a_distribution_goes_round_by_json(ask):
    count = '{"type": "AtMost", "base": {"type": "Geometric", "mean": 4.0}, "m": 9}'
    data = ask("price", "pure", "--epsilon", "1", "--delta", "0", "--run-count-json", count, "--json").json
    assert from_dict(data["run_count"]) == AtMost(Geometric(4), 9)


@pytest.mark.parametrize("pmf", ['{"1": 0.5, "2": 0.5}', '{"x": 1}', "[[1]]", '{"1": 1e999}'])
def test_a_table_in_another_form_is_a_wrong_argument(ask, pmf):
    count = f'{{"type": "Finite", "pmf": {pmf}}}'
    found = ask("price", "pure", "--epsilon", "1", "--delta", "0", "--run-count-json", count)
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "[[1, 0.5], [2, 0.5]]" in found.err


def test_refit_is_added(ask):
    line = "price gaussian --noise-multiplier 3 --mean 4 --delta 1e-5 --json"
    plain, refit = ask(line).json, ask(line + " --refit").json
    curve = PrivacyCurve.gaussian(3.0)
    assert refit["epsilon"] <= (best_of(curve, Tnb(4, 2)) + curve).epsilon(1e-5)
    assert refit["epsilon"] > plain["epsilon"]
    assert refit["lower_bound"] is None
    assert "composed with one more run" in " ".join(ask(line.replace(" --json", " --refit")).out.split())


def test_one_sure_run_costs_one_run(ask):
    data = ask("price gaussian --noise-multiplier 3 --run-count fixed --k 1 --delta 1e-5 --json").json
    assert data["epsilon"] == data["single_run_epsilon"]


def test_no_finite_price_is_no_answer(ask):
    found = ask("price gaussian --noise-multiplier 3 --mean 4 --delta 0 --json")
    assert found.code == 1
    assert found.err == (
        "skdptune: error: this search has no finite price at delta = 0. Raise --delta, or add noise.\n"
    )
    data = json.loads(found.out)
    assert (data["epsilon"], data["single_run_epsilon"], data["method"]) == ("inf", "inf", None)
    text = ask("price gaussian --noise-multiplier 3 --mean 4 --delta 0").out
    assert "inf  no finite bound at this delta" in text
    assert "valid" not in text


def test_the_delta_asked_at_is_printed_whole(ask):
    for command in ("price gaussian --noise-multiplier 3", "calibrate gaussian --target 2"):
        text = ask(f"{command} --mean 4 --delta 1.23456789e-5").out
        assert "delta = 1.23456789e-05;" in text
    text = ask("plan pure --epsilon 1 --run-counts geometric --means 2 --delta 1.23456789e-5").out
    assert "delta = 1.23456789e-05;" in text
    found = ask("price gaussian --noise-multiplier 3 --mean 4 --delta 1e-5 --limit 1.23456789")
    assert "above --limit 1.23456789." in found.err


def test_renyi_alone_is_never_asked_of_what_sets_mass_aside(ask):
    # outside an event of mass 1e-9 the divergence is finite; without that mass the number would be false
    data = ask("price approximate --epsilon 1 --run-delta 1e-9 --mean 4 --delta 1e-5 --json").json
    assert data["bounds"]["rdp_curve"] is None


def test_limit(ask):
    line = "price gaussian --noise-multiplier 3 --mean 4 --delta 1e-5 --limit"
    assert ask(f"{line} 2").code == 0
    over = ask(f"{line} 1.4 --json")
    assert over.code == 3
    assert over.json["epsilon"] > 1.4  # the answer is printed all the same
    assert over.err == "skdptune: error: the whole search costs 1.71, above --limit 1.4.\n"
    assert ask("price gaussian --noise-multiplier 3 --mean 4 --delta 0 --limit 1e9").code == 3


def _words(found):
    return " ".join(found.out.split())


@pytest.mark.parametrize("command", ["price pure --epsilon 1 --mean 3", "calibrate pure --target 1 --mean 3"])
def test_a_large_delta_and_weak_protection_are_noted_as_in_reports(ask, command):
    curve = best_of(PrivacyCurve.pure(1.0), Tnb(3, 2))
    assert ask(f"{command} --delta 1e-6 --json").json["notes"] == []
    assert "NOTE" not in ask(f"{command} --delta 1e-6").out
    noted = price_notes(curve, 0.5)
    assert len(noted) == 1 and "delta = 0.5 is large" in noted[0]
    assert ask(f"{command} --delta 0.5 --json").json["notes"] == noted
    assert f"NOTE: {noted[0]}" in _words(ask(f"{command} --delta 0.5"))
    assert "The protection is weak" in _words(ask(f"{command} --delta 0".replace(" 1 ", " 9 ")))


def test_replace_one_says_why_the_numbers_are_others(ask):
    line = "price {} --mean 3 --delta 1e-5 --relation {}"
    for mechanism in ("gaussian --noise-multiplier 3", "laplace --epsilon 1"):
        assert "so the noise counts half" in _words(ask(line.format(mechanism, "replace-one")))
        assert "counts half" not in ask(line.format(mechanism, "zero-out")).out
    assert "counts half" not in ask(line.format("pure --epsilon 1", "replace-one")).out


def test_a_run_that_tells_nothing_is_said_to(ask):
    assert "a run of epsilon 0 tells nothing" in _words(ask("price pure --epsilon 0 --mean 3 --delta 1e-6"))
    assert "tells nothing" not in ask("price pure --epsilon 0.1 --mean 3 --delta 1e-6").out


@pytest.mark.parametrize(("terminal", "mean", "says"), [(True, 1e9, True), (True, 10, False), (False, 1e9, False)])
def test_patience_is_asked_for_at_a_terminal_only(monkeypatch, capsys, terminal, mean, says):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    ask_for_patience(Poisson(mean))
    assert ("may take a minute" in capsys.readouterr().err) is says
