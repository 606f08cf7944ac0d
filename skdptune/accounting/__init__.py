"""What runs cost: privacy curves, dominating pairs, and the price of a best-of-K search."""

from skdptune.accounting.curve import PrivacyCurve
from skdptune.accounting.selection import best_of
from skdptune.accounting.calibration import calibrate  # isort: skip

__all__ = ["PrivacyCurve", "best_of", "calibrate"]
