"""
Choosing how many tries a search makes
======================================

A private search draws its number of tries K at random. Which distribution should K have? This page prices the
choices exactly: first for one mechanism, then for a target, and at last it asks for the best distribution there is.
"""

# %%
# One run adds Gaussian noise of multiplier 3: epsilon 1.27 at delta 1e-5. Every row below tries settings until
# the best one is expected at the 90 % quantile of all settings; the last column is what the whole search costs.
import time

import matplotlib.pyplot as plt
import numpy as np

from skdptune.accounting import PrivacyCurve, best_of, optimal_run_count, plan
from skdptune.run_counts import Geometric, Poisson, TruncatedNegativeBinomial

start = time.perf_counter()
single = PrivacyCurve.gaussian(3.0)
delta = 1e-5
table = plan(single, None, delta, expected_quantile=0.9)
print(table)

# %%
# A logarithmic K needs 2,000 runs for that quantile and Poisson pays most for each of its few; the truncated
# negative binomial with eta between 1 and 2 is the best of those with a name. The last row is better than all of
# them: the distribution of K is itself optimised. With a cap on the 99 % runtime the choice changes:
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
print("best:", budget.best["distribution"], f"leaves {budget.best['single_run_epsilon']:.3f} for one run")

# %%
# The optimal distribution is a run count like any other: it can be saved as JSON, given as ``n_iter``, and priced.
best = optimal_run_count(single, delta, expected_quantile=0.9, max_mean=16.2)
low, high = best.bracket
print(f"epsilon {high:.4f} (no distribution with these wishes costs less than {low:.4f})")
print(f"mean {best.mean:.2f}, 99 % of searches within {best.quantile(0.99)} runs")
assert high <= best_of(single, TruncatedNegativeBinomial(16.2, 2)).epsilon(delta)

# %%
# Where it puts its runs, beside the named distribution of the same mean and quantile.
figure, axes = plt.subplots(figsize=(7, 4))
runs = np.arange(1, 61)
for label, k in (("optimal", best), ("negative binomial, eta 2", TruncatedNegativeBinomial(16.2, 2))):
    axes.step(runs, 1 - np.asarray(k.sf(runs)), where="post", label=label)
axes.set(xlabel="number of runs k", ylabel="P(K <= k)", title="Two searches with expected quantile 0.9")
axes.legend()
figure.tight_layout()
figure.savefig("choosing_run_count.png", dpi=120)
print(f"figure: choosing_run_count.png; {time.perf_counter() - start:.0f} s in all")
