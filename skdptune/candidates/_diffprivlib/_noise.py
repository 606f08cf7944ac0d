"""diffprivlib's Laplace mechanisms with the scale computed on the private side."""

import math

from skdptune.candidates._diffprivlib._library import require_diffprivlib

__all__ = ["SPEND", "bounded_laplace", "bounded_laplace_scale", "truncated_laplace"]

# Each model spends this share of its epsilon, so that the rounding of the slices (a few parts in 1e16 each)
# and of the scales stays inside the price.
SPEND = 1.0 - 2.0**-36


def _bounded_cost(s, width):
    """Return the epsilon of Laplace noise on a bounded domain; s = sensitivity / scale, width likewise."""
    # cost = s + log(C(sensitivity) / C(0)), C(q) the mass that noise around q leaves in the domain; the ratio
    # less 1 is (1 - e^-s) (1 - e^-(width - s)) / (1 - e^-width), which keeps its digits for small s
    excess = math.expm1(-s) * math.expm1(-(width - s)) / -math.expm1(-width)
    return s + math.log1p(excess)


def bounded_laplace_scale(epsilon, sensitivity, width):
    """Return the scale of the bounded-domain Laplace mechanism, rounded up.

    Parameters
    ----------
    epsilon : float
        Cost of the query, positive.
    sensitivity : float
        At most ``width``.
    width : float
        Length of the domain; inf allowed.

    Returns
    -------
    float

    Notes
    -----
    The scale b solves ``s + log(C(sensitivity)/C(0)) = epsilon`` with s = sensitivity / b (Holohan et al.,
    JPC 10(1), 2020, Theorem 3.5). The left side rises in s and lies in [s, 2 s], so s is bisected in
    [epsilon / 2, epsilon] and its lower end taken. The library iterates on b with
    ``2 - exp(-s) - exp(-(width - s))``, which loses all digits for epsilon below 1e-8.

    Examples
    --------
    >>> round(bounded_laplace_scale(1.0, 1.0, 1.0), 6)
    1.0
    >>> bounded_laplace_scale(1.0, 1.0, float("inf")) > 1.0
    True
    """
    ratio = width / sensitivity
    low, high = epsilon / 2, epsilon
    for _ in range(60):
        middle = (low + high) / 2
        if _bounded_cost(middle, middle * ratio) <= epsilon:
            low = middle
        else:
            high = middle
    return sensitivity / low  # low: the larger scale, the private side


def bounded_laplace(value, epsilon, sensitivity, upper, rng):
    """Release ``value`` from [0, upper] with Laplace noise conditioned on staying there."""
    if sensitivity == 0:  # a public constant: nothing to hide
        return float(value)
    mechanism = require_diffprivlib().mechanisms.LaplaceBoundedDomain(
        epsilon=epsilon, sensitivity=sensitivity, lower=0, upper=upper, random_state=rng
    )
    mechanism._scale = bounded_laplace_scale(epsilon, sensitivity, upper)
    return float(mechanism.randomise(float(value)))


def truncated_laplace(value, epsilon, sensitivity, lower, upper, rng):
    """Release ``value`` with Laplace noise of scale sensitivity / epsilon, clipped to [lower, upper]."""
    mechanism = require_diffprivlib().mechanisms.LaplaceTruncated(
        epsilon=epsilon, sensitivity=sensitivity, lower=lower, upper=upper, random_state=rng
    )
    return float(mechanism.randomise(float(value)))
