"""
Tuning without privacy gives people away
========================================

Section 2 of Papernot and Steinke (arXiv 2110.03620v2) shows with a toy that a hyperparameter alone, chosen without
privacy, tells who was in the data. Here is such a toy: a linear classifier whose hinge loss has a weight alpha, two
clouds of 20 points, and eight people who are unlike the rest of their class. An ordinary grid search picks an alpha
that gives the eight away. A private search over the same kind of model does not, and its price says beforehand how
well anybody could tell.
"""

# %%
# Two worlds. In both there are 48 rows: 20 positive ones around (6.42, -9.17), 20 negative ones around (7.86, -3.36),
# and eight more negative ones. In the first world those eight are ordinary; in the second they are outliers at
# (7.9, -8.0), next to the positive cloud. An attacker who knows all this sees the published alpha and guesses the
# world.
import time

import matplotlib.pyplot as plt  # pip install ".[plot]"
import numpy as np
from scipy.stats import beta
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from skdptune import PrivacyCurve, PrivateRandomSearchCV
from skdptune.accounting import trade_off
from skdptune.displays import TradeOffDisplay
from skdptune.report import round_down, round_up
from skdptune.run_counts import Geometric

start = time.perf_counter()
rng = np.random.default_rng(2022)


def people(outliers):
    positive = rng.normal((6.42, -9.17), 1.0, (20, 2))
    negative = rng.normal((7.86, -3.36), 1.0, (20, 2))
    eight = np.tile((7.9, -8.0), (8, 1)) if outliers else rng.normal((7.86, -3.36), 1.0, (8, 2))
    return np.vstack([positive, negative, eight]), np.repeat([1, -1, -1], [20, 20, 8])


# %%
# First the ordinary search: alpha is scikit-learn's ``C``, chosen by 5-fold cross-validation. Each world is drawn 80
# times anew. Clouds that are far apart need little weight on the hinge; the outliers can only be set apart with a lot.
alphas = np.logspace(-3, 2, 11)
folds = StratifiedKFold(5, shuffle=True, random_state=0)


def tuned_without_privacy(outliers):
    found = GridSearchCV(SVC(kernel="linear"), {"C": alphas}, cv=folds).fit(*people(outliers))
    return found.best_params_["C"], found.score(*people(outliers))


ordinary = {world: np.array([tuned_without_privacy(world) for _ in range(80)]) for world in (False, True)}
plain = {world: found[:, 0] for world, found in ordinary.items()}
for world, chosen in plain.items():
    values, counts = np.unique(chosen, return_counts=True)
    print(f"outliers {world!s:<5}", {f"{v:.2g}": int(c) for v, c in zip(values, counts, strict=True)})
print(f"mean accuracy of the ordinary models on fresh rows: {np.mean([f[:, 1].mean() for f in ordinary.values()]):.2f}")

# %%
# Now a private candidate of the same kind: a few noisy gradient steps on the hinge loss. Every row's gradient has a
# norm of at most 1, because rows are scaled with public numbers and clipped, and Gaussian noise is added to their sum.
# ``alpha`` changes nothing about the cost, and the noise is chosen for a strong promise: each of the eight is one row.


class NoisyHinge(ClassifierMixin, BaseEstimator):
    privacy_params = ("noise_multiplier",)
    published_attributes = ("coef_", "classes_")

    def __init__(self, alpha=1.0, noise_multiplier=16.0, steps=4, random_state=None):
        self.alpha = alpha
        self.noise_multiplier = noise_multiplier
        self.steps = steps
        self.random_state = random_state

    def privacy_curve(self, n_samples, relation):
        return PrivacyCurve.gaussian(self.noise_multiplier, relation=relation)  # of all steps together

    def _rows(self, X):
        X = np.column_stack([(np.asarray(X) - [7.0, -6.0]) / 4.0, np.ones(len(X))])
        return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)

    def fit(self, X, y):
        rows, signs, weights = self._rows(X), np.sign(np.asarray(y, dtype=float)), np.zeros(3)
        scale = self.noise_multiplier * np.sqrt(self.steps)
        for step in range(1, self.steps + 1):
            pull = (signs * (signs * (rows @ weights) < 1)) @ rows + self.random_state.normal(0.0, scale, 3)
            weights = weights + (self.alpha * pull / len(rows) - weights) / step
        self.coef_, self.classes_ = weights, np.array([-1, 1])
        return self

    def predict(self, X):
        return np.where(self._rows(X) @ self.coef_ > 0, 1, -1)


# %%
# The two worlds differ in eight rows that are replaced, so the relation is "replace-one", and the promise is asked for
# eight rows below. The price is known before any row is read.
search = PrivateRandomSearchCV(
    NoisyHinge(), {"alpha": alphas}, n_iter=Geometric(mean=5), relation="replace-one", classes=[-1, 1]
)
price = search.privacy_cost(n_samples=48)


single, whole = (round_up(cost.epsilon(1e-3), 3) for cost in (price.single_run, price))
print(f"single run epsilon {single}, whole search {whole} at delta 1e-3")

private, probes, right = {}, {}, []
outlier = np.array([[7.9, -8.0]])
for world in (False, True):
    chosen, probe = [], []
    for _ in range(200):
        search.fit(*people(world))
        chosen.append(search.best_params_["alpha"])
        probe.append(float(search.best_estimator_.predict(outlier)[0]))
        X, y = people(world)
        right.append(np.mean(search.predict(X) == y))
    private[world], probes[world] = np.array(chosen), np.array(probe)
print(f"mean accuracy of the published private models on fresh rows: {np.mean(right):.2f}; always the larger class "
      f"would be right for {28 / 48:.2f}")
spread = np.mean([np.mean(np.isclose(private[world][:, None], alphas).any(axis=0)) for world in private])
print(f"share of the eleven alphas that were published at least once: {spread:.2f}")

# %%
# How well can the attacker tell? It learns on one half of the repetitions which published values speak for the
# outliers, and is judged on the other half, with 95 % confidence intervals (Clopper and Pearson).


def interval(hits, n):
    low = beta.ppf(0.025, hits, n - hits + 1) if hits else 0.0
    return low, beta.ppf(0.975, hits + 1, n - hits) if hits < n else 1.0


def attack(without, with_outliers):
    half = len(without) // 2
    values = np.unique(np.concatenate([without, with_outliers]))
    seen = [np.array([np.sum(part[:half] == v) for v in values]) for part in (without, with_outliers)]
    suspicious = values[seen[1] > seen[0]]
    alarms = [int(np.isin(part[half:], suspicious).sum()) for part in (without, with_outliers)]
    n = len(without) - half
    return [(hits / n, *interval(hits, n)) for hits in alarms]


attacks = {
    "alpha, ordinary search": attack(plain[False], plain[True]),
    "alpha, private search": attack(private[False], private[True]),
    "model, private search": attack(probes[False], probes[True]),
}
for name, (false, true) in attacks.items():
    print(f"{name:<23} false alarms {false[0]:.2f} [{round_down(false[1], 2)}, {round_up(false[2], 2)}], "
          f"outliers found {true[0]:.2f} [{round_down(true[1], 2)}, {round_up(true[2], 2)}]")

# %%
# And how well could anybody tell who sees everything that the search publishes: alpha, score and model? For one row,
# the trade-off function f of the price answers: at a share a of false alarms at most g(a) = 1 - f(a) is found. For
# eight rows g is applied eight times (Dong, Roth and Su, arXiv 1905.02383v3, Theorem 2.14).


def found_at_most(false_alarms, rows):
    power = np.asarray(false_alarms, dtype=float)
    for _ in range(rows):
        power = 1 - trade_off(price.curve, power)
    return power


for name, (false, true) in attacks.items():
    bound = float(found_at_most(false[2], 8))
    verdict = "above" if true[1] > bound else "within"
    print(f"{name:<23} at least {round_down(true[1], 2)} found with at most {round_up(false[2], 2)} false alarms: "
          f"{verdict} the private search's bound {round_up(bound)} for eight rows")
    assert (verdict == "above") == (name == "alpha, ordinary search")
print(f"one row, 5 % false alarms: at most {round_up(found_at_most(0.05, 1))} found; "
      f"eight rows: at most {round_up(found_at_most(0.05, 8))}")

# %%
# First figure: which alpha was chosen, how often. The ordinary search all but names the world. The private one spreads
# over the whole grid: with 48 rows and so small an epsilon its choice is mostly noise, which is the promise's price.
#
# What the guarantee does not do: at this price 48 rows are few, and the private models are much worse than the ordinary
# ones (the accuracies above). And eight people who belong together are protected less than one.
figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.6))
place = np.arange(alphas.size)
for ax, name, runs in ((axes[0], "Ordinary search", plain), (axes[1], "Private search", private)):
    for shift, world, colour, hatch in ((-0.2, False, "#0072b2", ""), (0.2, True, "#d55e00", "////")):
        share = [np.mean(np.isclose(runs[world], a)) for a in alphas]
        label = "with eight outliers" if world else "without"
        ax.bar(place + shift, share, 0.4, color=colour, hatch=hatch, edgecolor="white", label=label)
    ax.set_xticks(place[::2], labels=[f"{a:.3g}" for a in alphas[::2]])
    ax.set(xlabel="published alpha", ylabel="share of searches", ylim=(0, 1), title=name)
    ax.legend()
figure.tight_layout()
figure.savefig("tuning_leak.png", dpi=120)

# %%
# Second figure: the attacks, with their intervals, beside what the price allows. The ordinary search lies far below the
# line that no attack on the private one can cross.
figure, axes = plt.subplots(figsize=(6.4, 5))
display = TradeOffDisplay.from_curve({"bound, one row": price.curve}, alpha=None, ax=axes, legend=False)
grid = np.linspace(0, 1, 401)
axes.plot(grid, 1 - found_at_most(grid, 8), color="#d55e00", linestyle="--", label="bound, eight rows")
for (name, (false, true)), marker in zip(attacks.items(), "*sD", strict=True):
    axes.errorbar(
        false[0], 1 - true[0], xerr=[[false[0] - false[1]], [false[2] - false[0]]],
        yerr=[[true[2] - true[0]], [true[0] - true[1]]], marker=marker, markersize=9, linestyle="none", capsize=3,
        color="#00906a" if "private" in name else "#a8741a", label=f"attack on {name}", clip_on=False, zorder=3,
    )
axes.set(xlim=(-0.04, 1.02), ylim=(-0.04, 1.02))
axes.set_title(f"What an attacker reaches\nprivate search: epsilon {round_up(price.epsilon(1e-3))} at delta 1e-3")
axes.legend(fontsize="small", loc="upper right")
figure.tight_layout()
print(f"figure: tuning_leak.png; {time.perf_counter() - start:.0f} s in all")

# sphinx_gallery_thumbnail_number = 2
