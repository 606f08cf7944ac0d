"""Wrong arguments get one sentence each."""

from decimal import Decimal

import numpy as np
import pytest
import scipy.stats

from skdptune import run_counts as rc
from skdptune._exceptions import InvalidParameterError, InvalidTypeError, SkdptuneError

NOT_NUMBERS = [True, "20", None, [10], np.array([3, 4]), np.array(3.0), 2j, Decimal(3)]
BAD_MEANS = [0, -3, 0.999, float("nan"), float("inf"), -float("inf"), 1 - 1e-16]


def message(call, kind=SkdptuneError):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert "got" in text and text.endswith(".") and "\n" not in text
    return text


MEAN_KINDS = [
    rc.ZeroTruncatedPoisson,
    rc.Logarithmic,
    rc.Geometric,
    lambda mean: rc.TruncatedNegativeBinomial(mean, 2),
    lambda mean: rc.TruncatedNegativeBinomial(mean=mean, eta=-0.5),
]


@pytest.mark.parametrize("kind", MEAN_KINDS)
@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_a_mean_that_is_no_number(kind, value):
    assert message(lambda: kind(value), InvalidTypeError).startswith("mean must be a real number")


@pytest.mark.parametrize("kind", MEAN_KINDS)
@pytest.mark.parametrize("value", BAD_MEANS[:-1])
def test_a_mean_out_of_range(kind, value):
    text = message(lambda: kind(value), InvalidParameterError)
    assert text.startswith("mean must be a real number in [1, inf)")
    assert "at least once" in text


@pytest.mark.parametrize("value", [*NOT_NUMBERS, 0, -3, 0.5, float("nan"), float("inf")], ids=repr)
def test_n_iter(value):
    text = message(lambda: rc.as_run_count(value))
    assert text.startswith("n_iter must be ") and "TruncatedNegativeBinomial(mean=m, eta=2)" in text


def test_n_iter_given_a_class():
    text = message(lambda: rc.as_run_count(rc.Logarithmic), InvalidTypeError)
    assert "Call it, e.g. Logarithmic(...)." in text


def test_n_iter_given_a_distribution_of_scipy():
    text = message(lambda: rc.as_run_count(scipy.stats.poisson(5)), InvalidTypeError)
    assert text.startswith("n_iter must be a run-count distribution or a real number")
    assert "skdptune.run_counts" in text and "FromScipy(...)" in text


def test_exact_sentence():
    assert message(lambda: rc.as_run_count(0)) == (
        "n_iter must be a real number in [1, inf); got 0 (int). "
        "A number m means TruncatedNegativeBinomial(mean=m, eta=2)."
    )


@pytest.mark.parametrize("eta", [*NOT_NUMBERS, -1, -1.5, float("nan"), float("inf")], ids=repr)
def test_eta(eta):
    assert message(lambda: rc.TruncatedNegativeBinomial(10, eta)).startswith("eta must be")


def test_a_mean_that_needs_an_impossible_gamma():
    text = message(lambda: rc.TruncatedNegativeBinomial(1e6, -0.99), InvalidParameterError)
    assert text.startswith("mean must be at most") and "eta=-0.99" in text


@pytest.mark.parametrize("value", [*NOT_NUMBERS, 0, -1, 1e19, float("nan"), float("inf")], ids=repr)
def test_poisson(value):
    assert message(lambda: rc.Poisson(value)).startswith("mean must be")


@pytest.mark.parametrize("value", [*NOT_NUMBERS, 0, -1, 2.5, 3.0, 10**20], ids=repr)
def test_counts(value):
    assert message(lambda: rc.Fixed(value)).startswith("k must be")
    assert message(lambda: rc.AtMost(rc.Geometric(3), value)).startswith("m must be")
    assert message(lambda: rc.Binomial(value, 0.5)).startswith("n must be")
    assert message(lambda: rc.BetaBinomial(value, 1, 1)).startswith("n must be")


@pytest.mark.parametrize("value", [*NOT_NUMBERS, 0, -0.1, float("nan"), float("inf")], ids=repr)
def test_shapes(value):
    assert message(lambda: rc.BetaBinomial(5, value, 1)).startswith("a must be")
    assert message(lambda: rc.BetaBinomial(5, 1, value)).startswith("b must be")
    assert message(lambda: rc.Binomial(5, value)).startswith("p must be")


def test_binomial_probability_above_one():
    assert message(lambda: rc.Binomial(5, 1.5)).startswith("p must be a real number in (0, 1]")


@pytest.mark.parametrize(
    ("pmf", "part"),
    [
        ([0.5, 0.4], "sum to 1 within 1e-9"),
        ([], "sum to 1"),
        ({}, "sum to 1"),
        ([1.5, -0.5], "a probability in pmf"),
        ([0.5, float("nan")], "a probability in pmf"),
        ([0.5, "0.5"], "a probability in pmf"),
        ([1.0], "above 0"),
        ({0: 1.0}, "above 0"),
        ({-1: 0.5, 1: 0.5}, "a number of runs in pmf"),
        ({1.5: 1.0}, "a number of runs in pmf"),
        ({10**9: 1.0}, "a number of runs in pmf"),
        (0.5, "a sequence"),
        ("abc", "a sequence"),
        (None, "a sequence"),
        (np.ones((2, 2)) / 4, "a sequence"),
        ({1, 2}, "a sequence"),
    ],
    ids=repr,
)
def test_finite(pmf, part):
    assert part in message(lambda: rc.Finite(pmf))


def test_finite_is_normalised_and_takes_several_forms():
    table = rc.Finite([0.0, 0.5, 0.5 + 4e-10])
    assert table.pmf([0, 1, 2]).sum() == pytest.approx(1.0, abs=1e-16)
    assert rc.Finite(np.array([0, 0.5, 0.5])) == rc.Finite({1: 0.5, 2: 0.5}) == rc.Finite(
        (0.0, 0.5, 0.5, 0.0)
    )


def test_at_most():
    assert message(lambda: rc.AtMost(5, 5)).startswith("base must be a run-count distribution")
    assert "P(1 <= K <= m) > 0" in message(lambda: rc.AtMost(rc.Fixed(10), 5))
    assert rc.AtMost(rc.Fixed(3), 5).mean == 3.0
    assert rc.AtMost(rc.Geometric(5), 1).mean == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("frozen", "part"),
    [
        (3, "frozen"),
        (scipy.stats.poisson, "Give it its parameters first"),
        (scipy.stats.norm(), "frozen"),
        (scipy.stats.gamma(2), "frozen"),
        (scipy.stats.poisson(3, loc=-1), "negative"),
        (scipy.stats.skellam(3, 2), "negative"),
        (scipy.stats.dlaplace(0.5), "negative"),
        (scipy.stats.randint(-2, 5), "negative"),
        (scipy.stats.zipf([2, 3]), "one number for each parameter"),
        (scipy.stats.zipf(0.5), "not valid"),
        (scipy.stats.bernoulli(0), "above 0"),
        (scipy.stats.zipf(1.005), "summed to 1"),
        (scipy.stats.rv_discrete(values=([0.5, 1], [0.5, 0.5])), "integers"),
    ],
    ids=lambda value: getattr(getattr(value, "dist", value), "name", str(value)),
)
def test_from_scipy(frozen, part):
    assert part in message(lambda: rc.FromScipy(frozen))


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), [0.5, 2.0], "x", True, None, [[1], [1, 2]]])
def test_arguments_of_functions(value):
    run_count = rc.Geometric(3)
    for name, argument in [
        ("pgf", "x"),
        ("log_pgf_derivative", "x"),
        ("attainment", "r"),
        ("log_weight", "r"),
        ("log_weight_slope", "r"),
        ("success_probability", "p"),
        ("quantile", "p"),
    ]:
        text = message(lambda name=name: getattr(run_count, name)(value))
        assert text.startswith(f"{argument} must be ")


@pytest.mark.parametrize("value", [1.5, "3", None, True, float("nan"), [1, 2.5]])
def test_arguments_of_probabilities(value):
    for name in ("pmf", "sf"):
        assert message(lambda name=name: getattr(rc.Poisson(3), name)(value)).startswith("k must be")


def test_the_last_quantile_of_an_unbounded_distribution():
    assert "AtMost" in message(lambda: rc.Poisson(3).quantile(1.0), InvalidParameterError)


def test_generators():
    for run_count in (rc.Poisson(3), rc.Geometric(3), rc.Fixed(2), rc.Finite([0, 1.0])):
        for rng in (None, 3, np.random.RandomState(0)):
            text = message(lambda r=run_count, rng=rng: r.sample(rng), InvalidTypeError)
            assert text.startswith("rng must be a numpy.random.Generator")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"type": "Nothing"},
        {"type": 3},
        {"type": "Poisson"},
        {"type": "Poisson", "rate": 3},
        {"type": "Poisson", "mean": "3"},
        {"type": "Finite", "pmf": 3},
        {"type": "AtMost", "m": 3},
        {"type": "FromScipy", "distribution": "norm", "parameters": {}},
        "Poisson(3)",
        {"type": "Finite", "pmf": {"1": 0.5}},
        {"type": "Finite", "pmf": {"1": float("inf")}},
        {"type": "Finite", "pmf": [[1]]},
        {"type": "Finite", "pmf": [1, 2]},
        {"type": "Finite", "pmf": "ab"},
        {"type": "Finite", "pmf": [[[1], 0.5]]},
        {"type": "Finite", "pmf": [[1, 0.25], [1, 0.5], [2, 0.5]]},
        {"type": "FromScipy", "values": [1, 2, 3]},
        {"type": "FromScipy", "values": [["a"], [1]]},
        {"type": "FromScipy", "distribution": "poisson", "parameters": 5},
    ],
    ids=str,
)
def test_dictionaries(values):
    message(lambda: rc.from_dict(values))


@pytest.mark.parametrize("pmf", [{"1": 0.5, "2": 0.5}, [[1]], [1, 2], [[1, 0.5, 0.5]]], ids=str)
def test_the_form_of_a_table_in_a_dictionary_is_named(pmf):
    assert "such as [[1, 0.5], [2, 0.5]]" in message(lambda: rc.from_dict({"type": "Finite", "pmf": pmf}))


def test_a_dictionary_of_another_kind():
    text = message(lambda: rc.Geometric.from_dict(rc.Poisson(3).to_dict()), InvalidTypeError)
    assert "Geometric" in text
