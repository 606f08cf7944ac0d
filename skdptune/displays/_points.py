"""Points of privacy curves, chosen so that lines drawn through them stay on the private side.

A privacy profile delta(epsilon) is convex in e^epsilon, the trade-off function f(alpha) is convex in alpha, and
(a - 1) D_a is convex in the order a. Straight lines in *these* coordinates between two upper bounds are upper
bounds; straight lines on the screen are not. So the curve is asked at few points, and between them the lines that
are valid are sampled so densely that what the screen adds or loses is invisible.
"""

import math

import numpy as np

__all__ = ["asked_deltas", "fill_profile", "fill_rdp", "profile_points", "rdp_points"]


def profile_points(curve, *, delta_min=1e-10, n_points=33, per_segment=16):
    """Return points (epsilon, delta) of a curve's privacy profile, each an upper bound.

    Parameters
    ----------
    curve : PrivacyCurve
    delta_min : float in (0, 1)
        The profile is followed down to this delta.
    n_points : int >= 2
        How many deltas, in equal steps of log delta, the curve is asked for.
    per_segment : int >= 1
        Into how many steps of log delta each segment between two of them is cut.

    Returns
    -------
    epsilon : ndarray of shape (n,), ascending from 0, in nats
    delta : ndarray of shape (n,), descending, in [0, 1]
        The last entry is 0 where the mechanism has a pure epsilon. Where the curve knows no epsilon below some delta,
        the last two points have nearly that delta: the profile is flat from there.

    Notes
    -----
    Between two neighbouring points delta falls by at most the factor delta_min ** (-1 / ((n_points - 1) per_segment)),
    4.6 % with the defaults: no line drawn through them, on whatever axes, can lie under the true profile by more.
    """
    top, floor = curve.delta(0.0), curve.delta(math.inf)
    if top <= 0.0 or floor >= 1.0:
        return np.array([0.0, 1.0]), np.array([top, top])
    bottom = max(delta_min, min(1.0001 * floor, 1.0))
    deltas = np.geomspace(top, bottom, n_points) if bottom < top else np.array([top])
    epsilons = np.array([0.0, *(curve.epsilon(float(delta)) for delta in deltas[1:])])
    # what holds at a smaller delta holds at a larger one
    epsilons = np.minimum.accumulate(epsilons[::-1])[::-1]
    known = np.isfinite(epsilons)
    epsilons, deltas = fill_profile(epsilons[known], deltas[known], per_segment)
    pure = curve.epsilon(0.0)
    if math.isfinite(pure):
        return np.append(epsilons, max(pure, epsilons[-1])), np.append(deltas, 0.0)
    if floor > delta_min:  # flat from here
        end = 1.3 * epsilons[-1] + 0.2
        return np.append(epsilons, end), np.append(deltas, min(curve.delta(end), deltas[-1]))
    return epsilons, deltas


def asked_deltas(epsilon, delta, n_points, per_segment=16):
    """Return the deltas that :func:`profile_points` asked the curve for, of what it returned."""
    return delta[: (n_points - 1) * per_segment + 1 : per_segment][:n_points]


def fill_profile(epsilon, delta, per_segment):
    """Return the given points and, between neighbours, points of the straight line in e^epsilon.

    Upper bounds at both ends give upper bounds between: the profile is a supremum of functions
    E[(dP/dQ - e^eps)_+], convex in e^eps (connect the dots: Doroshenko et al., arXiv 2207.04380v1).
    """
    epsilon, delta = np.asarray(epsilon, dtype=float), np.asarray(delta, dtype=float)
    if epsilon.size < 2 or per_segment == 1:
        return epsilon, delta
    share = np.arange(per_segment) / per_segment
    start, stop, high, low = epsilon[:-1, None], epsilon[1:, None], delta[:-1, None], delta[1:, None]
    between = high * (low / high) ** share
    with np.errstate(invalid="ignore"):  # 0 / 0 on a flat segment, replaced below
        t = np.where(high > low, (high - between) / (high - low), share)
    # e^x = (1 - t) e^start + t e^stop, from the larger end: no overflow
    x = stop + np.log(np.maximum(t + (1 - t) * np.exp(start - stop), np.exp(-745.0)))
    x = np.where(share == 0, start, np.clip(x, start, stop))
    return np.append(x.ravel(), epsilon[-1]), np.append(between.ravel(), delta[-1])


def rdp_points(curve, orders=None, *, n_points=65, per_segment=4):
    """Return points (order, divergence) of a curve's Renyi divergence, each an upper bound.

    Parameters
    ----------
    curve : PrivacyCurve
    orders : array-like of shape (n_orders,), optional
        Finite orders above 1, at which the curve is asked. None: ``n_points`` from 1.1 to 128, in equal steps of
        log(order - 1).
    n_points, per_segment : int
        See above, and into how many parts each segment is cut.

    Returns
    -------
    order : ndarray of shape (n,), ascending
    rdp : ndarray of shape (n,), in nats; ``inf`` where no bound is known
    """
    if orders is None:
        orders = 1 + np.geomspace(0.1, 127.0, n_points)
    orders = np.unique(np.asarray(orders, dtype=float))
    return fill_rdp(orders, np.asarray(curve.rdp(orders), dtype=float), per_segment)


def fill_rdp(order, rdp, per_segment):
    """Return the given points and, between neighbours, points of the straight line of (a - 1) D_a.

    (a - 1) D_a = log E_Q[(dP/dQ)^a] is convex in a, and so is the larger of the two orders of the neighbours.
    """
    if order.size < 2 or per_segment == 1:
        return order, rdp
    share = np.arange(per_segment) / per_segment
    start, stop = order[:-1, None], order[1:, None]
    between = start + share * (stop - start)
    left, right = ((order - 1) * rdp)[:-1, None], ((order - 1) * rdp)[1:, None]
    with np.errstate(invalid="ignore"):  # 0 * inf at the left end, replaced below
        values = ((1 - share) * left + share * right) / (between - 1)
    values = np.where(share == 0, rdp[:-1, None], values)
    return np.append(between.ravel(), order[-1]), np.append(values.ravel(), rdp[-1])
