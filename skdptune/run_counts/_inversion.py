"""Inversion of a mean, rounded so that the mean is never below the asked one."""

import math

from scipy import optimize

__all__ = ["smallest_at_least"]


def smallest_at_least(mean_of, mean, low, high):
    """Return the least parameter in [low, high] whose mean is surely at least ``mean``.

    Parameters
    ----------
    mean_of : callable
        Increasing function of the parameter, never above the true mean: a computed mean less an
        upper bound on its rounding error.
    mean : float
        The mean asked for.
    low, high : float
        A bracket, both positive, whose ends may be far apart.

    Returns
    -------
    float or None
        The parameter; None if even ``high`` does not reach the mean.
    """
    if mean_of(low) >= mean:
        return low
    if mean_of(high) < mean:
        return None

    def gap(log_parameter):
        return math.log(mean_of(math.exp(log_parameter)) / mean)

    start, end = math.log(low), math.log(high)
    if gap(end) <= 0.0:  # the logarithm's own rounding at the very end of the bracket
        return high
    root = optimize.brentq(gap, start, end, xtol=1e-15, rtol=8.9e-16, maxiter=500)
    parameter, step = math.exp(root), 2.0**-52
    while mean_of(parameter) < mean:  # rounded up
        parameter, step = parameter * (1.0 + step), 2.0 * step
    return min(parameter, high)
