"""Candidates: what a search may train, what one fit of it costs, and what of it may be published.

Reading order: ``_protocol`` (what a search asks), ``_native`` (estimators that state their cost),
``_stateless`` and ``_pipeline`` (preprocessing), ``_seeding`` (independent noise).
"""

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
