"""Hyperparameter search for differentially private models that pays once.

Reading order, top down:

1. :mod:`skdptune.model_selection` -- ``PrivateRandomSearchCV``: validate, price, charge, draw K, run, publish.
2. :mod:`skdptune.accounting` -- what a search costs: ``PrivacyCurve`` and ``best_of``.
3. :mod:`skdptune.run_counts` -- distributions of the number of tries K.
4. :mod:`skdptune.scoring` -- scores of private rows, with exact integer noise.
5. :mod:`skdptune.candidates` -- what an estimator must say about itself to be searched.
6. :mod:`skdptune.ledger` -- budgets across searches.
"""

from skdptune import accounting, candidates, ledger, model_selection, run_counts, scoring
from skdptune._exceptions import SkdptuneError
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.model_selection import PrivacySpent, PrivateRandomSearchCV

__version__ = "0.1.0.dev0"

__all__ = [
    "PrivacyCurve",
    "PrivacySpent",
    "PrivateRandomSearchCV",
    "SkdptuneError",
    "accounting",
    "best_of",
    "candidates",
    "ledger",
    "model_selection",
    "run_counts",
    "scoring",
]
