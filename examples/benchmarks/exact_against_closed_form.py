"""Does the exact price buy accuracy? The same search at the same total epsilon, calibrated twice.

A forest of diffprivlib on the digits that scikit-learn ships (1,797 rows). The total epsilon is fixed; the
epsilon of one run is what the exact price leaves, or what the closed form (2 + eta) * epsilon leaves.
Accuracy is measured on rows that no search saw.

Run with ``python examples/benchmarks/exact_against_closed_form.py [--repeats 20]``.
"""

import argparse
import statistics

from diffprivlib.models import RandomForestClassifier
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skdptune import PrivateRandomSearchCV
from skdptune.accounting import PrivacyCurve, calibrate
from skdptune.report import round_up
from skdptune.run_counts import TruncatedNegativeBinomial

TOTAL, DELTA = 2.0, 0.0
RUN_COUNT = TruncatedNegativeBinomial(mean=10, eta=2)
SPACE = {"n_estimators": [5, 10, 20], "max_depth": [3, 5, 8]}


def accuracy(epsilon, seed):
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    digits = list(range(10))
    forest = RandomForestClassifier(epsilon=epsilon, bounds=(0, 16), classes=digits)
    search = PrivateRandomSearchCV(forest, SPACE, n_iter=RUN_COUNT, classes=digits).fit(X_train, y_train)
    assert search.privacy_spent_.epsilon(DELTA) <= TOTAL
    return search.score(X_test, y_test)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    left = {m: calibrate(PrivacyCurve.pure, RUN_COUNT, TOTAL, DELTA, method=m) for m in ("closed_form", "exact")}
    found = {method: [] for method in left}
    for seed in range(repeats):  # in turn, on the same rows
        for method, epsilon in left.items():
            found[method].append(accuracy(epsilon, seed))
    print(f"total epsilon {TOTAL} at delta {DELTA}, {RUN_COUNT!r}, {repeats} repeats")
    for method, values in found.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(
            f"{method:>12}: single run epsilon {round_up(left[method])}; held-out accuracy median {middle:.4f} "
            f"(quartiles {low:.4f} and {high:.4f})"
        )
    wins = sum(a > b for a, b in zip(found["exact"], found["closed_form"], strict=True))
    print(f"exact better in {wins} of {repeats}")


if __name__ == "__main__":
    main()
