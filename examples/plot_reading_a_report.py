"""
Reading a privacy report
========================

A search is over when its price is understood. This example makes the report of a private search, reads it line by line,
and checks its statements by attacking the very mechanism it is about.
"""

# %%
# A private search, and its report
# --------------------------------
#
# Tumours are classified from four measurements, each scaled by a public constant. A fitted search shows its price below
# scikit-learn's diagram; ``search.privacy_spent_`` alone shows the card, and ``print(search.privacy_spent_)`` a table.
from diffprivlib.models import GaussianNB
from sklearn.datasets import load_breast_cancer

from skdptune import PrivateRandomSearchCV
from skdptune.run_counts import Logarithmic

X, y = load_breast_cancer(return_X_y=True)
X = X[:, :4] / [30.0, 40.0, 200.0, 2500.0]

search = PrivateRandomSearchCV(
    GaussianNB(epsilon=1.0, bounds=(0, 1)),
    {"var_smoothing": [1e-9, 1e-3, 1e-2, 1e-1]},
    n_iter=Logarithmic(mean=10),
    classes=[0, 1],
)
search.fit(X, y)

# %%
# ``report.to_html(path)``, ``to_json(path)`` and ``to_markdown(path)`` write what a privacy officer files. Here is the
# beginning of the Markdown form.
report = search.privacy_spent_.report(title="A private tumour classifier", prepared_for="the data protection officer")
print("\n".join(report.to_markdown().splitlines()[:30]))

# %%
# The one number, and what it is not
# ----------------------------------
#
# The headline is the *whole search*: model, settings and score together. One try costs less, but one try is not what
# was released. Quoting it would be the most common mistake in private tuning.
from skdptune.report import round_up

main = report.to_dict()["prices"][0]
for name in ("whole_search", "single_run", "closed_form"):
    print(f"{name:<13} epsilon = {round_up(main[name])} at delta = {main['delta']}")
assert main["single_run"] < main["whole_search"] <= main["closed_form"]

# %%
# What it means for one person
# ----------------------------
#
# An attacker who knows everything but one thing, whether this person's row took part, cannot beat these numbers.
stated = report.to_dict()["attacker"]["whole_search"]
print(f"advantage (true minus false positives): at most {round_up(stated['advantage'], 3)}")
for row in stated["true_positive_rates"]:
    print(f"share found where a share of {row['false_positive_rate']} is falsely accused: at most "
          f"{round_up(row['true_positive_rate'])}")

# %%
# Is that so? Take the worst single run that the price allows for, a coin that shows the person's secret with odds
# :math:`e^{\varepsilon}`, and a ranking in which the tell-tale answer always wins. Drawing the number of tries and
# keeping the best is then a computation: an answer that one try gives with probability r wins with probability
# :math:`G(r) = 1 - f(1 - r)`.
import matplotlib.pyplot as plt  # pip install ".[plot]"
import numpy as np

from skdptune.accounting import trade_off

epsilon = search.privacy_spent_.single_run.epsilon(0)
heads, tails = 1 / (1 + np.exp(-epsilon)), 1 / (1 + np.exp(epsilon))
attainment = search.privacy_spent_.run_count.attainment
# two attacks: believe the tell-tale when it shows, or disbelieve only when it does not
attacks = np.array([(attainment(tails), attainment(heads)), (1 - attainment(heads), 1 - attainment(tails))])
for false_positives, true_positives in attacks:
    limit = 1 - trade_off(search.privacy_spent_.curve, false_positives)
    print(f"this attack: a share of {true_positives:.4f} found at {false_positives:.4f} falsely accused "
          f"(stated limit: {round_up(limit)})")
    assert true_positives <= limit

alphas = np.linspace(0, 1, 201) ** 2
figure, axes = plt.subplots(figsize=(5, 4.6))
axes.plot(alphas, 1 - trade_off(search.privacy_spent_.curve, alphas), lw=2.5, label="limit: whole search")
axes.plot(alphas, 1 - trade_off(search.privacy_spent_.single_run, alphas), "--", lw=1.8, label="limit: one try")
axes.plot([0, 1], [0, 1], ":", color="grey", label="guessing")
axes.plot(*attacks.T, "k^", label="an attack on the search")
axes.set(xlabel="false-positive rate", ylabel="true-positive rate, at most", title="What an attacker can learn")
axes.legend(loc="lower right")
figure.tight_layout()

# %%
# The attack lands above the limit of one try: there the price of one try would have been a false promise. It stays
# below the limit of the whole search.
above_one_try = [tp > 1 - trade_off(search.privacy_spent_.single_run, fp) + 1e-9 for fp, tp in attacks]
print("beats the limit of one try:", any(above_one_try))
assert any(above_one_try)

# %%
# What it rests on, and what it does not cover
# --------------------------------------------
#
# Numbers hold if the numbered assumptions do. They are for somebody to vouch for.
for number, sentence in enumerate(report.to_dict()["assumptions"], start=1):
    print(f"{number:>2}. {sentence}")

# %%
# And what no number above says anything about:
for sentence in report.to_dict()["not_covered"][:3]:
    print("-", sentence)
