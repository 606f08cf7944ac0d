"""What a curve means for an attacker: against laws known in closed form."""

import math

import numpy as np
import pytest
from scipy import stats

from skdptune.accounting import PrivacyCurve, best_of
from skdptune.accounting._trade_off import profile_nodes
from skdptune.report._meaning import attacker, loss_bound, posterior
from skdptune.run_counts import Logarithmic


@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0])
def test_gaussian_attacker_on_the_private_side(noise):
    found = attacker(PrivacyCurve.gaussian(noise), 1e-6)
    truth = 2 * stats.norm.cdf(0.5 / noise) - 1
    assert truth <= found["advantage"] <= truth + 1e-4
    assert (1 + truth) / 2 <= found["correct_guesses"] <= (1 + truth) / 2 + 1e-4
    for row in found["true_positive_rates"]:
        power = stats.norm.sf(stats.norm.isf(row["false_positive_rate"]) - 1 / noise)
        assert power <= row["true_positive_rate"] <= power + 1e-4
    for row in found["trade_off"]:
        missed = stats.norm.cdf(stats.norm.isf(row["type_one"]) - 1 / noise)
        assert missed - 1e-4 <= row["type_two"] <= missed


@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.1, 0.01, 1e-6])
def test_losses_beyond_the_bound_are_as_rare_as_said(noise, share):
    """The loss of a Gaussian is normal with mean mu^2 / 2 and standard deviation mu under the true law."""
    mu = 1 / noise
    nodes = profile_nodes(PrivacyCurve.gaussian(noise))
    loss = loss_bound(*nodes, share)
    assert stats.norm.sf(loss, mu**2 / 2, mu) <= share
    assert loss <= stats.norm.isf(share, mu**2 / 2, mu) + mu  # and it says something


def test_a_loss_that_is_always_bounded():
    nodes = profile_nodes(PrivacyCurve.pure(1.25))
    assert loss_bound(*nodes, 0.0) == pytest.approx(1.25) and loss_bound(*nodes, 0.0) >= 1.25
    assert loss_bound(*profile_nodes(PrivacyCurve.gaussian(1.0)), 0.0) == math.inf
    assert loss_bound(*profile_nodes(PrivacyCurve.approximate(1.0, 0.02)), 0.01) == math.inf


def test_beliefs_follow_bayes():
    assert posterior(0.5, 1.0) == pytest.approx(math.e / (1 + math.e)) and posterior(0.5, math.inf) == 1.0
    assert posterior(0.01, 2.0) == pytest.approx(0.01 * math.e**2 / (0.01 * math.e**2 + 0.99))
    found = attacker(PrivacyCurve.pure(1.0), 1e-6)["beliefs"]
    assert all(row["posterior"] >= row["prior"] for row in found)
    always = {row["prior"]: row["posterior"] for row in found if row["share_set_aside"] == 0}
    assert always[0.5] >= 1 / (1 + math.exp(-1.0))


@pytest.mark.statistical
def test_a_real_attack_on_a_real_search_stays_within():
    """Randomised response, best of K: the attacker who knows everything does not beat what is stated."""
    epsilon, run_count, n = 1.0, Logarithmic(5), 40_000
    rng = np.random.default_rng(0)
    tries = np.array([run_count.sample(rng) for _ in range(n)])
    yes = {}
    for row, rate in ((1, 1 / (1 + math.exp(-epsilon))), (0, 1 / (1 + math.exp(epsilon)))):
        yes[row] = rng.binomial(tries, rate) > 0  # a yes ranks above a no, so it wins where there is one
    found = attacker(best_of(PrivacyCurve.pure(epsilon), run_count), 1e-6)
    measured = yes[1].mean() - yes[0].mean()
    assert measured <= found["advantage"] + 4 / math.sqrt(n)
    assert measured > 0.3  # the attack works


def test_a_search_tells_more_than_one_try():
    run = PrivacyCurve.gaussian(2.0)
    one, whole = attacker(run, 1e-6), attacker(best_of(run, Logarithmic(10)), 1e-6)
    assert whole["advantage"] >= one["advantage"]
    for name, key in (("true_positive_rates", "true_positive_rate"), ("beliefs", "posterior")):
        assert all(a[key] >= b[key] - 1e-12 for a, b in zip(whole[name], one[name], strict=True))
