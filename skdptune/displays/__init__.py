"""Figures in scikit-learn's convention: data first, drawing with matplotlib when asked.

Displays are made by ``from_estimator``, ``from_curve`` and the like, which draw at once; ``plot(ax=...)`` draws the
stored data again. Every drawn number keeps to the private side; how, each display says. Lines are told apart by dash
pattern and marker as well as by colour, on light and on dark backgrounds.
"""

from skdptune.displays._plan import PlanDisplay
from skdptune.displays._profile import PrivacyProfileDisplay
from skdptune.displays._rdp import RdpCurveDisplay
from skdptune.displays._run_count import RunCountDisplay
from skdptune.displays._trade_off import TradeOffDisplay

__all__ = [
    "PlanDisplay",
    "PrivacyProfileDisplay",
    "RdpCurveDisplay",
    "RunCountDisplay",
    "TradeOffDisplay",
]
