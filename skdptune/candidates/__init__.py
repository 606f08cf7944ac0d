"""Candidates: what a search may train, what one fit of it costs, and what of it may be published.

Reading order: ``_protocol`` (what a search asks), ``_native`` (estimators that state their cost),
``_stateless`` and ``_pipeline`` (preprocessing), ``_seeding`` (independent noise), ``nets`` (neural nets).

The names of :mod:`skdptune.candidates.nets` can be imported from here too; torch is loaded when one is asked for.
"""

import importlib
import importlib.util

from skdptune.candidates._protocol import (
    CandidateAdapter,
    LevelFamily,
    find_adapter,
    largest_below,
    register,
)
from skdptune.candidates._stateless import row_wise

__all__ = [
    "CandidateAdapter",
    "LevelFamily",
    "find_adapter",
    "largest_below",
    "register",
    "row_wise",
]

_OF_NETS = (
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPNeuralNetClassifier",
    "DPNeuralNetRegressor",
    "LinearDecay",
    "MLP",
    "TemperedSigmoid",
    "dp_sgd_search_space",
)


def __getattr__(name):
    if name in _OF_NETS:
        return getattr(importlib.import_module("skdptune.candidates.nets"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    there = all(importlib.util.find_spec(library) for library in ("torch", "skorch", "opacus"))
    return sorted({*globals(), *(_OF_NETS if there else ())})
