"""Hyperparameter search for differentially private models that pays once.

Reading order, top down:

1. :mod:`skdptune.model_selection` -- ``PrivateRandomSearchCV``: validate, price, charge, draw K, run, publish.
2. :mod:`skdptune.accounting` -- what a search costs: ``PrivacyCurve`` and ``best_of``.
3. :mod:`skdptune.run_counts` -- distributions of the number of tries K.
4. :mod:`skdptune.scoring` -- scores of private rows, with exact integer noise.
5. :mod:`skdptune.candidates` -- what an estimator must say about itself to be searched.
6. :mod:`skdptune.ledger` -- budgets across searches.
7. :mod:`skdptune.report` and :mod:`skdptune.displays` -- what people file and look at.

Everything loads at its first use: ``import skdptune`` alone costs nothing.
"""

import importlib
import os
from typing import TYPE_CHECKING

from skdptune._exceptions import SkdptuneError

if TYPE_CHECKING:  # for editors and type checkers
    from skdptune import (  # noqa: F401
        accounting,
        candidates,
        displays,
        exceptions,
        ledger,
        model_selection,
        report,
        run_counts,
        scoring,
    )
    from skdptune.accounting import PrivacyCurve, best_of
    from skdptune.model_selection import PrivacySpent, PrivateRandomSearchCV

__version__ = "0.1.0.dev0"

_BORN_IN = os.getpid()  # what was made before a fork is a copy in the child: see skdptune.ledger

__all__ = [
    "PrivacyCurve",
    "PrivacySpent",
    "PrivateRandomSearchCV",
    "SkdptuneError",
    "accounting",
    "best_of",
    "candidates",
    "displays",
    "exceptions",
    "ledger",
    "model_selection",
    "report",
    "run_counts",
    "scoring",
]

_HOMES = {
    "PrivacyCurve": "accounting",
    "PrivacySpent": "model_selection",
    "PrivateRandomSearchCV": "model_selection",
    "best_of": "accounting",
}
_MODULES = frozenset(__all__) - {*_HOMES, "SkdptuneError"}


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"skdptune.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(f"skdptune.{_HOMES[name]}"), name)
        globals()[name] = value  # found without this function from now on
        return value
    raise AttributeError(f"module 'skdptune' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
