"""
Choosing how many tries a search makes
======================================

A private search draws its number of tries K at random. Which distribution should K have? This page prices the
choices exactly: first for one mechanism, then for a target, and at last it asks for the best distribution there is.
"""

# %%
# Four distributions with the same mean of 10 tries. They differ in how often they make one try only, in how long the
# longest searches get, and in what the tries buy: the share of all tries that the best one can be expected to beat.
import time

from skdptune.accounting import PrivacyCurve, best_of, optimal_run_count, plan
from skdptune.displays import PlanDisplay, RunCountDisplay
from skdptune.report import round_down, round_up
from skdptune.run_counts import Geometric, Logarithmic, Poisson, TruncatedNegativeBinomial

start = time.perf_counter()
display = RunCountDisplay.from_run_count(
    {
        "logarithmic": Logarithmic(10),
        "geometric": Geometric(10),
        "negative binomial, eta 2": TruncatedNegativeBinomial(10, 2),
        "Poisson": Poisson(10),
    }
)

# %%
# What they cost is another matter. One run adds Gaussian noise of multiplier 3: epsilon below 1.28 at delta 1e-5. Each
# marker is a whole search, priced exactly, with means from 1.5 to 60: to the left is cheaper, higher is better. For few
# tries the negative binomials win, for many tries the geometric one; Poisson pays most for each of its few.
single = PrivacyCurve.gaussian(3.0)
delta = 1e-5
display = PlanDisplay.from_curve(single, delta)
assert all(row["search_epsilon"] >= single.epsilon(delta) for row in display.rows)

# %%
# The question turned round: settle for the 90 % quantile, and ask what that costs. The table's last two rows are
# searched for: the best truncated negative binomial, and the best distribution of all.
table = plan(single, None, delta, expected_quantile=0.9)
print(table)
display = PlanDisplay.from_plan(table, delta=delta, relation=single.relation)

# %%
# A logarithmic K needs 2,000 runs for that quantile. With a cap on the 99 % runtime the choice changes:
print(plan(single, None, delta, expected_quantile=0.9, max_runs_99=30))

# %%
# With a target for the whole search, the noise is chosen to meet it, and what counts is the epsilon that is left
# for a single run: more of it trains better models.
budget = plan(
    PrivacyCurve.gaussian,
    2.2,
    delta,
    run_counts=[Poisson, Geometric, lambda mean: TruncatedNegativeBinomial(mean, 2)],
    expected_quantile=0.9,
)
print(budget)
print("best:", budget.best["distribution"], f"leaves {round_up(budget.best['single_run_epsilon'], 3)} for one run")
display = PlanDisplay.from_plan(budget, delta=delta)
_ = display.ax_.set_title("What a search of epsilon 2.2 leaves for each run")

# %%
# The optimal distribution is a run count like any other: it can be saved as JSON, given as ``n_iter``, and priced.
best = optimal_run_count(single, delta, expected_quantile=0.9, max_mean=16.2)
low, high = best.bracket
print(f"epsilon {round_up(high)} (no distribution with these wishes costs less than {round_down(low)})")
print(f"mean {best.mean:.2f}, 99 % of searches within {best.quantile(0.99)} runs")
assert high <= best_of(single, TruncatedNegativeBinomial(16.2, 2)).epsilon(delta)

# %%
# Where it puts its runs, beside the named distribution of the same mean and quantile: a few tries or rather many.
display = RunCountDisplay.from_run_count(
    {"optimal": best, "negative binomial, eta 2": TruncatedNegativeBinomial(16.2, 2)}, max_runs=60
)
display.figure_.savefig("choosing_run_count.png", dpi=120)
print(f"figure: choosing_run_count.png; {time.perf_counter() - start:.0f} s in all")

# sphinx_gallery_thumbnail_number = 2
