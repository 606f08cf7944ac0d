"""What a list of searches costs that is fixed in advance: doc/theory/filter.rst, Theorem F4 and below."""

import functools
import math
from collections import Counter

from skdptune.ledger._filter import exact, rounded

__all__ = ["plan_epsilon"]


def plan_epsilon(curves, delta):
    """Return the least epsilon (nats) at ``delta`` that is proved for all of ``curves`` together, rounded up.

    The composition of their curves, or the sum of (epsilon, delta) promises for a few ways to share ``delta``,
    whichever is smaller. The list is fixed before any output, so the choice is as well.

    Parameters
    ----------
    curves : sequence of PrivacyCurve
        Under one relation.
    delta : float in [0, 1)

    Returns
    -------
    float

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve
    >>> plan_epsilon([PrivacyCurve.pure(0.2)] * 3, 0.0)
    0.6
    """
    counts = Counter(curves)
    parts = [count * curve for curve, count in counts.items()] if len(curves) > 1 else list(counts)
    whole = functools.reduce(lambda one, other: one + other, parts)
    return min(float(whole.epsilon(delta)), *(_basic(counts, shares) for shares in _ways(counts, delta)))


def _ways(counts, delta):
    """Yield ways to share ``delta``: for each curve, what every one of its copies gets (sums are at most delta)."""
    yield dict.fromkeys(counts, 0.0)
    if delta > 0:
        number = sum(counts.values())
        yield dict.fromkeys(counts, _share(delta, number))
        if len(counts) > 1:
            for curve, count in counts.items():
                yield {**dict.fromkeys(counts, 0.0), curve: _share(delta, count)}


def _share(delta, number):
    return rounded(exact(delta) / number, -math.inf)


def _basic(counts, shares):
    """Return the sum of the epsilons at the ``shares`` of delta, rounded up."""
    epsilons = [(float(curve.epsilon(shares[curve])), count) for curve, count in counts.items()]
    if not all(math.isfinite(epsilon) for epsilon, _ in epsilons):
        return math.inf
    return rounded(sum(exact(epsilon) * count for epsilon, count in epsilons), math.inf)
