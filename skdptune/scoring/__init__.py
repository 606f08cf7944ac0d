"""Private scores: bounded row scores, summed as integers, with exact integer noise.

Reading order: :class:`PrivateScorer` (what a private score is), the scorers, :class:`ScoreNoise` and
:func:`matched_noise` (what is added and what it costs), :func:`resolve_private_scorer` (what the
``scoring`` argument of a search means).
"""

from skdptune.scoring._base import PrivateScorer
from skdptune.scoring._noise import (
    ScoreNoise,
    as_score_noise,
    matched_noise,
    refuse_sample_weight,
)
from skdptune.scoring._resolve import resolve_private_scorer, resolve_public_scorer, score_rank
from skdptune.scoring._scorers import (
    AbsoluteErrorScorer,
    AccuracyScorer,
    ClippedLogLossScorer,
    SquaredErrorScorer,
    WeightedAccuracyScorer,
)

__all__ = [
    "AbsoluteErrorScorer",
    "AccuracyScorer",
    "ClippedLogLossScorer",
    "PrivateScorer",
    "ScoreNoise",
    "SquaredErrorScorer",
    "WeightedAccuracyScorer",
    "as_score_noise",
    "matched_noise",
    "refuse_sample_weight",
    "resolve_private_scorer",
    "resolve_public_scorer",
    "score_rank",
]
