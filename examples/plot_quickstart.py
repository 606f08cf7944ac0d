"""
Quickstart: a private search on bundled data
============================================

A random forest of diffprivlib is tuned on the handwritten digits that scikit-learn ships (1,797 people's digits,
one row each). The number of tries is drawn at random, only the best try is published, and the whole search is priced
once.
"""

# %%
# The private rows, and what is public about them. The range of a column must come from its meaning, never
# from the rows: a pixel is a number from 0 to 16, a label is a digit.
from diffprivlib.models import RandomForestClassifier
from sklearn.datasets import load_digits

from skdptune import PrivateRandomSearchCV
from skdptune.run_counts import Logarithmic

X, y = load_digits(return_X_y=True)
digits = list(range(10))
forest = RandomForestClassifier(epsilon=1.0, bounds=(0, 16), classes=digits)

search = PrivateRandomSearchCV(
    forest,
    {"n_estimators": [5, 10, 20], "max_depth": [3, 5, 8]},
    n_iter=Logarithmic(mean=20),
    classes=digits,
)

# %%
# The price is known before any row is read. Printed epsilons are rounded up.
from skdptune.report import round_up

price = search.privacy_cost(n_samples=len(X))
single, whole = (round_up(cost.epsilon(1e-6)) for cost in (price.single_run, price))
print(f"before: single run epsilon = {single}, whole search epsilon = {whole} at delta = 1e-6")

# %%
# The search itself. Afterwards there is a model, its parameters, a noisy score and the same price.
search.fit(X, y)
print("parameters:", search.best_params_)
print(f"accuracy on held-out rows (noisy): {search.best_score_:.3f}")
print(search.privacy_spent_)

# %%
# One figure for the report: which delta holds at which epsilon, for one run and for the whole search, what a closed
# form would have charged, and how low any price could go at best.
from skdptune.displays import PrivacyProfileDisplay

display = PrivacyProfileDisplay.from_estimator(search, delta=1e-6)
display.figure_.tight_layout()
display.figure_.savefig("quickstart.png", dpi=120)
print("figure: quickstart.png")
