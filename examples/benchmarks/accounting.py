"""What best-of-K costs by five methods, for sixteen searches.

Prints, for each search, the total epsilon by dp_accounting's closed form, by the generic Renyi
bound over the region the single run allows, by the privacy profile, and by the exact price with its
lower bound (no analysis of the single run's dominating pair can state less), the seconds each took
and the share of the closed form's epsilon that the exact price saves.

Run: ``python examples/benchmarks/accounting.py``. A dash means that the method does not apply.
"""

import math
import time

import numpy as np
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from skdptune.accounting._exact import exact_epsilon
from skdptune.accounting.curve import PrivacyCurve
from skdptune.accounting.selection import best_of
from skdptune.run_counts import (
    Binomial,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
)

GAUSSIAN = ("Gaussian, noise 3", dp_event.GaussianDpEvent(3.0), lambda: PrivacyCurve.gaussian(3.0))
SGD = (
    "DP-SGD, noise 1, 7,031 steps at 256/60,000",
    dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(256 / 60_000, dp_event.GaussianDpEvent(1.0)), 7_031
    ),
    lambda: PrivacyCurve.dp_sgd(1.0, 256 / 60_000, 7_031),
)
PURE = ("pure, epsilon 1", None, lambda: PrivacyCurve.pure(1.0))
APPROXIMATE = ("(1, 1e-8)-DP", None, lambda: PrivacyCurve.approximate(1.0, 1e-8))

SETTINGS = [
    (GAUSSIAN, Logarithmic(mean=10), 1e-5),
    (GAUSSIAN, Geometric(mean=10), 1e-5),
    (GAUSSIAN, Poisson(mean=10), 1e-5),
    (GAUSSIAN, TruncatedNegativeBinomial(mean=3, eta=0.5), 1e-6),
    (GAUSSIAN, TruncatedNegativeBinomial(mean=10, eta=2), 1e-5),
    (GAUSSIAN, Logarithmic(mean=300), 1e-9),
    (SGD, Logarithmic(mean=10), 1e-5),
    (SGD, TruncatedNegativeBinomial(mean=10, eta=0.5), 1e-6),
    (SGD, TruncatedNegativeBinomial(mean=100, eta=2), 1e-5),
    (SGD, Geometric(mean=30), 1e-7),
    (SGD, Poisson(mean=30), 1e-9),
    (SGD, Binomial(n=40, p=0.25), 1e-5),
    (PURE, Logarithmic(mean=10), 1e-6),
    (PURE, Geometric(mean=10), 1e-6),
    (PURE, Poisson(mean=10), 1e-9),
    (APPROXIMATE, Logarithmic(mean=10), 1e-6),
]


def timed(function):
    """Return (value or None, seconds)."""
    start = time.perf_counter()
    try:
        value = function()
    except Exception as error:  # a method that does not apply is part of the comparison
        if not isinstance(error, (ValueError, NotImplementedError)):
            raise
        value = None
    return value, time.perf_counter() - start


def dp_accounting_epsilon(event, run_count, delta):
    """The closed forms of Papernot and Steinke as dp_accounting computes them."""
    if event is None:
        return None
    if type(run_count).__name__ == "Poisson":
        search = dp_event.RepeatAndSelectDpEvent(event, run_count.mean, math.inf)
    else:
        eta = {"Logarithmic": 0.0, "Geometric": 1.0}.get(type(run_count).__name__)
        eta = getattr(run_count, "eta", eta)
        if eta is None:
            return None  # no closed form for this distribution
        search = dp_event.RepeatAndSelectDpEvent(event, run_count.mean, eta)
    return RdpAccountant().compose(search).get_epsilon(delta)


def measure(single, run_count, delta):
    """Return the numbers of one line of the table."""
    name, event, build = single
    curve = build()
    curve.pair  # built once and kept: not part of the price's time  # noqa: B018
    row = {"closed": timed(lambda: dp_accounting_epsilon(event, run_count, delta))}
    if event is None:
        row["closed"] = timed(lambda: best_of(curve, run_count, "closed_form").epsilon(delta))
    for method in ("rdp", "profile"):
        row[method] = timed(lambda m=method: best_of(curve, run_count, m).epsilon(delta))
    row["exact"] = timed(lambda: exact_epsilon(curve.pair, run_count, delta))
    return f"{name}; {run_count!r}; delta {delta}", row


def number(value):
    return "-" if value is None or not np.isfinite(value) else f"{value:.4f}"


def line(title, row):
    """Format one search."""
    exact, seconds = row["exact"]
    closed = row["closed"][0]
    saved = "-" if closed is None or not np.isfinite(closed) else f"{1 - exact.upper / closed:.0%}"
    cells = [f"{number(row[m][0]):>8} ({row[m][1]:5.2f} s)" for m in ("closed", "rdp", "profile")]
    cells.append(f"{exact.lower:.4f} .. {exact.upper:.4f} ({seconds:5.2f} s)")
    return f"{title}\n    " + "  ".join(cells) + f"  saves {saved}"


def main():
    print("search\n    closed form      rdp               profile           exact, lower .. upper")
    for single, run_count, delta in SETTINGS:
        print(line(*measure(single, run_count, delta)), flush=True)


if __name__ == "__main__":
    main()
