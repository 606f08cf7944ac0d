"""
A fixed number of tries costs linearly
======================================

Why is the number of tries drawn at random? Because publishing the best of a *fixed* number k of private runs may cost
k times the epsilon of one run, and not only in theory: this page lets it happen, measures it, and prices it.
"""

# %%
# One run answers a yes-no question by randomised response: it tells the truth with probability
# e^eps / (1 + e^eps). That is epsilon-DP. Suppose "yes" is the better answer. The best of k runs is "no" only if all of
# them say "no", and that happens with probability (e^eps / (1 + e^eps))^k if the truth is "no", and
# (1 / (1 + e^eps))^k if it is "yes": a ratio of e^(k eps). Nothing was gained over paying for every run. Here it is,
# with intervals of 99 % confidence.
import math
import time

import matplotlib.pyplot as plt  # pip install ".[plot]"
import numpy as np
from scipy.stats import beta

from skdptune.accounting import PrivacyCurve, best_of
from skdptune.report import round_down, round_up
from skdptune.run_counts import Fixed, Geometric, Logarithmic, TruncatedNegativeBinomial

start = time.perf_counter()
epsilon, trials = 0.5, 400_000
rng = np.random.default_rng(7)


def all_say_no(k, truth):
    says_no = 1 / (1 + math.exp(epsilon if truth == "yes" else -epsilon))
    return int(np.sum(rng.binomial(k, says_no, trials) == k))


def surely(hits, side):
    if side == "at least":
        return beta.ppf(0.005, hits, trials - hits + 1)
    return beta.ppf(0.995, hits + 1, trials - hits)


measured = []
for k in (1, 2, 4, 6, 8):
    no, yes = all_say_no(k, "no"), all_say_no(k, "yes")
    least = math.log(surely(no, "at least") / surely(yes, "at most"))
    measured.append((k, math.log(no / yes), least))
    print(f"best of {k}: log-ratio measured {math.log(no / yes):.3f}, surely at least {round_down(least, 3)}; "
          f"k * epsilon = {k * epsilon}")
    assert least <= k * epsilon  # composition is an upper bound, so no honest measurement exceeds it

# %%
# A random number of tries hides whether "no" came from one run or from many. The price of the same randomised response,
# for a fixed k and for random numbers with mean k, all priced exactly:
run = PrivacyCurve.pure(epsilon)
delta = 1e-9
counts = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32])
families = {
    "fixed": Fixed,
    "negative binomial, eta 2": lambda mean: TruncatedNegativeBinomial(mean, 2),
    "geometric": Geometric,
    "logarithmic": Logarithmic,
}
prices = {
    name: np.array([best_of(run, build(int(k))).epsilon(delta) for k in counts]) for name, build in families.items()
}
print(f"epsilon of the whole search at delta {delta}, rounded up")
print("mean number of tries   ", *(f"{k:>5d}" for k in counts))
for name, row in prices.items():
    print(f"{name:<24}", *(f"{round_up(value, 2):>5}" for value in row))
assert np.all(prices["fixed"][:6] >= 0.999 * counts[:6] * epsilon)  # linear where delta is out of reach
for name, eta in (("geometric", 1), ("logarithmic", 0)):
    assert prices[name].max() <= (2 + eta) * epsilon + 1e-9

# %%
# The random numbers stay below (2 + eta) epsilon however many tries they make on average (Papernot and Steinke,
# arXiv 2110.03620v2, Theorem 2): 2 epsilon for the logarithmic distribution, 3 epsilon for the geometric one. A fixed
# number has no such ceiling until the event itself becomes rarer than delta.
figure, axes = plt.subplots(figsize=(6.4, 4.6))
styles = (("o", "-", "#d55e00"), ("D", ":", "#c0629a"), ("s", "--", "#00906a"), ("^", "-.", "#0072b2"))
looks = {
    name: {"marker": marker, "linestyle": dash, "color": colour, "label": name}
    for name, (marker, dash, colour) in zip(prices, styles, strict=True)
}
for name, row in prices.items():
    axes.plot(counts, row, **looks[name])
points = np.array(measured)
axes.errorbar(
    points[:, 0], points[:, 1], yerr=[points[:, 1] - points[:, 2], np.zeros(len(points))], linestyle="none", marker="x",
    markersize=9, capsize=3, color="#808080", label="fixed, measured (99 % lower limits)", zorder=3,
)
axes.plot(counts, counts * epsilon, color="#808080", linewidth=0.8, label="k times one run")
axes.set(xlabel="number of tries k, or its mean", ylabel=f"epsilon (nats) at delta {delta}", ylim=(0, 6),
         title=f"Best of k runs, each {epsilon:g}-DP")
axes.legend(fontsize="small")
figure.tight_layout()
figure.savefig("fixed_repetition.png", dpi=120)

# %%
# A fixed number of tries does find better settings than a random one of the same mean: it is never unlucky with the
# number. What is that worth? For the same expected quantile of the best try, k / (k + 1) for a fixed k, it is dearer by
# a factor that grows with k.
figure, axes = plt.subplots(figsize=(6.4, 4.6))
for name, row in prices.items():
    axes.plot(row, [families[name](int(k)).expected_quantile() for k in counts], **looks[name])
axes.set(xlabel=f"epsilon (nats) at delta {delta}", ylabel="expected quantile of the best try", xlim=(0.4, 6),
         title="What the epsilon buys")
axes.legend(fontsize="small")
figure.tight_layout()
print(f"figure: fixed_repetition.png; {time.perf_counter() - start:.0f} s in all")
