"""
Quickstart: a private search on bundled data
============================================

A linear model of diffprivlib is tuned on the breast masses that scikit-learn ships: 569 rows, each of one mass, taken
for one patient. The number of tries is drawn at random, only the best try is published, and the whole search is priced
once.
"""

# %%
# The private rows, and what is public about them: five measurements with the upper ends of their ranges, the length
# that a scaled row can have, and the two labels. Such facts must come from the meaning of the columns, never from the
# rows.
import numpy as np
from diffprivlib.models import LogisticRegression
from sklearn.datasets import load_breast_cancer

from skdptune import PrivateRandomSearchCV
from skdptune.run_counts import Logarithmic

X, y = load_breast_cancer(return_X_y=True)
upper = [40, 50, 260, 4300, 0.3]  # radius, texture, perimeter, area, concave points
X = X[:, [20, 21, 22, 23, 27]] / upper - 0.5
X = np.column_stack([X, np.full(len(X), 0.5)])  # a constant column stands for the intercept

# positions only: the rows kept aside take part in nothing
aside = np.zeros(len(X), dtype=bool)
aside[np.random.default_rng().permutation(len(X))[:119]] = True

delta = 1e-6
search = PrivateRandomSearchCV(
    LogisticRegression(epsilon=2.0, data_norm=1.0, fit_intercept=False),
    {"C": [0.1, 1.0, 10.0, 100.0]},
    n_iter=Logarithmic(mean=20),
    delta=delta,
    classes=[0, 1],
)

# %%
# The price is known before any row is read. Printed epsilons are rounded up. One try costs half of the model's own
# epsilon, which is for a row that is exchanged: what the search promises is that a row cannot be told from a blank one.
from skdptune.report import round_up

price = search.privacy_cost(n_samples=np.count_nonzero(~aside))
single, whole = (round_up(cost.epsilon(delta)) for cost in (price.single_run, price))
print(f"before: single run epsilon = {single}, whole search epsilon = {whole} at delta = {delta}")

# %%
# The search itself. Afterwards there is a model, its parameters, a noisy score and the same price.
search.fit(X[~aside], y[~aside])
print("parameters:", search.best_params_)
print(f"accuracy on held-out rows (noisy): {search.best_score_:.3f}")
print(search.privacy_spent_)

# %%
# An honest score, on the rows that were kept aside: it has noise of its own and leaves the price as it is.
# (``best_score_`` above is the best of several noisy ones, and flatters.) What a hundred such searches reach, and what
# there is to reach without privacy, ``examples/audits/accuracy_in_the_docs.py`` measures, and the tutorial states.
from skdptune.model_selection import release_test_score

released = release_test_score(search, X[aside], y[aside])
print(f"accuracy on rows kept aside (noisy): {released.score:.3f}; "
      f"search and test score: epsilon = {round_up(released.epsilon(delta))} at delta = {delta}")

# %%
# One figure for the report: which delta holds at which epsilon, for one run and for the whole search, what a closed
# form would have charged, and how low any price could go at best.
from skdptune.displays import PrivacyProfileDisplay

display = PrivacyProfileDisplay.from_estimator(search, delta=delta)
display.figure_.tight_layout()
display.figure_.savefig("quickstart.png", dpi=120)
print("figure: quickstart.png")
