"""What runs cost: privacy curves, dominating pairs, and the price of a best-of-K search."""

from skdptune.accounting._optimal import OptimalRunCount, optimal_run_count
from skdptune.accounting._trade_off import trade_off
from skdptune.accounting.calibration import calibrate
from skdptune.accounting.curve import PrivacyCurve
from skdptune.accounting.planning import Plan, plan
from skdptune.accounting.selection import best_of

__all__ = [
    "OptimalRunCount",
    "Plan",
    "PrivacyCurve",
    "best_of",
    "calibrate",
    "optimal_run_count",
    "plan",
    "trade_off",
]
