"""The profile bound on best-of-K: delta_A(epsilon) <= E[K] * delta(epsilon - c).

Proof. With the densities w(r) dP and w(s) dQ of the published output (see ``_rdp_region``),

    (w(r) dP - e^eps w(s) dQ)_+ = w(r) (dP - e^{eps - log w(r) + log w(s)} dQ)_+
                               <= w(0) (dP - e^{eps - c} dQ)_+,   c = sup log w(r) - log w(s),

and w(0) = E[K]. K = 0 adds P(K=0) (1 - e^eps)_+, which is zero for eps >= 0. The supremum runs over
the whole trade-off curve of the single run. At the vertices of a discrete pair alone it would be too
small, because an atom's marks lie between two vertices; ``peak_weight`` compares whole cells.

Reference: the form follows Koskela, Redberg and Wang, arXiv 2402.06701, Theorem 3; the constant is ours.
"""

import math

import numpy as np

from skdptune.accounting._rdp_region import peak_weight

__all__ = ["profile_delta", "profile_epsilon", "weight_gap"]

_GAP_TOLERANCE = 1e-4  # nats; largest wanted excess of c over the supremum


def weight_gap(region, run_count):
    """Bound c = sup log w(r) - log w(s) over the region from above; ``inf`` if E[K] is.

    Parameters
    ----------
    region : RdpRegion or PairRegion
    run_count : object
        With ``log_weight``.

    Returns
    -------
    float
    """
    gap = peak_weight(region, run_count.log_weight, [1.0], [1.0], _GAP_TOLERANCE)[0]
    return max(float(gap), 0.0)  # (r, s) = (0, 0) is always feasible


def profile_delta(single_delta, gap, run_count, epsilon):
    """Bound delta of the search in one direction.

    Parameters
    ----------
    single_delta : callable
        Profile of the single run in this direction; must accept negative arguments.
    gap : float
        From :func:`weight_gap` for the region of this direction.
    run_count : object
        With ``mean`` and ``p_zero``.
    epsilon : float

    Returns
    -------
    float in [0, 1]
    """
    if not (math.isfinite(gap) and math.isfinite(run_count.mean)):
        return 1.0
    default = run_count.p_zero * -math.expm1(min(epsilon, 0.0))  # K = 0
    return float(min(1.0, run_count.mean * float(single_delta(epsilon - gap)) + default))


def profile_epsilon(single_epsilon, gap, run_count, delta):
    """Bound epsilon of the search in one direction: c + epsilon(delta / E[K]).

    Parameters
    ----------
    single_epsilon : callable
        ``delta -> epsilon`` of the single run in this direction.
    gap, run_count
        As in :func:`profile_delta`.
    delta : float

    Returns
    -------
    float
        Non-negative; ``inf`` where the bound says nothing.
    """
    if not (math.isfinite(gap) and math.isfinite(run_count.mean)):
        return math.inf
    share = np.nextafter(delta / run_count.mean, 0.0)  # rounded down: private side
    return gap + float(single_epsilon(max(float(share), 0.0)))
