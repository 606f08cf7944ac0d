"""What a privacy curve means for a person: the best attacker's success, in numbers.

Everything follows from the profile, read at finitely many points (epsilon_i, delta_i), each of which holds.
"""

import math

import numpy as np

from skdptune.accounting import trade_off
from skdptune.accounting._trade_off import profile_nodes

__all__ = ["attacker", "loss_bound", "posterior"]

FALSE_POSITIVES = (0.001, 0.01, 0.1)
TYPE_ONE = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5)
PRIORS = (0.01, 0.1, 0.5)


def attacker(curve, delta):
    """Return bounds on the best membership attacker against what ``curve`` prices.

    Parameters
    ----------
    curve : PrivacyCurve
    delta : float
        The share of releases set aside in one of the statements about beliefs.

    Returns
    -------
    dict
        ``advantage``: largest true-positive rate minus false-positive rate (the total variation distance).
        ``correct_guesses``: largest share of right guesses with both cases equally likely.
        ``true_positive_rates``: list of ``{"false_positive_rate", "true_positive_rate"}``.
        ``trade_off``: list of ``{"type_one", "type_two"}``, the latter a lower bound.
        ``beliefs``: list of ``{"prior", "share_set_aside", "posterior"}``: outside that share of the releases,
        nobody who started with ``prior`` believes the truth with more than ``posterior``.
        All upper bounds are rounded up, the type II errors down.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve
    >>> found = attacker(PrivacyCurve.pure(1.0), 1e-6)
    >>> round(found["advantage"], 4), round(found["correct_guesses"], 4)
    (0.4621, 0.7311)
    >>> [round(row["posterior"], 4) for row in found["beliefs"] if row["prior"] == 0.5]
    [0.7311, 0.7311, 0.7311]
    """
    epsilons, deltas = profile_nodes(curve)
    errors = trade_off(curve, np.array(FALSE_POSITIVES + TYPE_ONE))
    rates = [min(math.nextafter(1.0 - beta, 2.0), 1.0) for beta in errors[: len(FALSE_POSITIVES)]]  # rounded up
    advantage = float(deltas[0])
    return {
        "advantage": advantage,
        "correct_guesses": min(math.nextafter(0.5 + advantage / 2, 2.0), 1.0),  # rounded up
        "true_positive_rates": [
            {"false_positive_rate": alpha, "true_positive_rate": rate}
            for alpha, rate in zip(FALSE_POSITIVES, rates, strict=True)
        ],
        "trade_off": [
            {"type_one": alpha, "type_two": float(beta)}
            for alpha, beta in zip(TYPE_ONE, errors[len(FALSE_POSITIVES) :], strict=True)
        ],
        "beliefs": _beliefs(epsilons, deltas, delta),
    }


def _beliefs(epsilons, deltas, delta):
    aside = [0.01, *([delta] if 0 < delta < 0.01 else []), 0.0]
    rows = []
    for prior in PRIORS:
        for share in aside:
            loss = loss_bound(epsilons, deltas, share)
            rows.append({"prior": prior, "share_set_aside": share, "posterior": posterior(prior, loss)})
    return rows


def loss_bound(epsilons, deltas, share):
    """Return a privacy loss (nats) exceeded in at most ``share`` of the releases.

    With L the loss log P/Q of the release, delta(e) = E[(1 - exp(e - L))_+] >= Pr[L > t] (1 - exp(e - t)) for
    t > e, so Pr[L > t] <= share at t = e - log(1 - delta(e) / share). Under Q the event is rarer still.

    Parameters
    ----------
    epsilons, deltas : ndarray of shape (n_nodes,)
        As returned by ``profile_nodes``.
    share : float in [0, 1)
        Zero asks for a bound that always holds.

    Returns
    -------
    float
        Rounded up; ``inf`` where none is known.

    Examples
    --------
    >>> import numpy as np
    >>> round(loss_bound(np.array([0.0, 1.0]), np.array([0.4, 0.0]), 0.0), 9)
    1.0
    """
    # rounded up: near 1 the logarithm below would blow up the rounding of a quotient
    ratios = np.nextafter(deltas / share, 1.0) if share > 0 else np.where(deltas > 0, 1.0, 0.0)
    useful = (ratios < 1) & (deltas < share if share > 0 else True)
    if not useful.any():
        return math.inf
    tail = -np.log1p(-ratios[useful])
    return float(np.min(epsilons[useful] + tail)) * (1 + 1e-14)  # rounded up


def posterior(prior, loss):
    """Return the largest belief in the truth after a privacy loss of ``loss`` nats, rounded up.

    Examples
    --------
    >>> round(posterior(0.5, 1.0), 4), posterior(0.5, 0.0) >= 0.5, posterior(0.1, float("inf"))
    (0.7311, True, 1.0)
    """
    # odds grow by at most e^loss
    belief = 1.0 / (1.0 + (1.0 - prior) / prior * math.exp(-loss))
    return min(belief * (1 + 1e-14), 1.0)  # rounded up
