"""What one training does, as numbers: rate, steps, divisor, noise. The price and the loop share it.

Paper <-> code (Abadi et al., arXiv 1607.00133v2, Algorithm 1): noise_multiplier is sigma, max_grad_norm
is C, sample_rate is q = L/N, expected_batch_size is the lot size L, steps is T.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError
from skdptune._validation import check_integer, check_real, invalid_value
from skdptune.accounting import PrivacyCurve

__all__ = ["COST_PARAMS", "SgdTerms", "sgd_terms", "steps_per_epoch"]

LEAST_NOISE, MOST_NOISE = 1e-6, 1e9
LEAST_RATE = 1e-12
MOST_STEPS = 10**7
_MOST_DIVERGENCE = 2e4  # of more steps than a million, at order 2 and in nats: beyond it no grid holds the losses

# Parameters that can change the cost of a training; the clipping norm scales signal and noise alike.
COST_PARAMS = (
    "noise_multiplier",
    "sample_rate",
    "expected_batch_size",
    "n_samples",
    "steps",
    "max_epochs",
)


@dataclass(frozen=True)
class SgdTerms:
    """The public numbers of one DP-SGD training.

    Parameters
    ----------
    noise_multiplier : float > 0
        Standard deviation of the noise over the clipping norm.
    sample_rate : float in (0, 1]
        Probability with which each row joins each step, independently of everything else.
    steps : int >= 1
        Number of noisy steps, empty batches included.
    divisor : float > 0
        What each noisy sum is divided by: the expected batch size.
    epoch : int >= 1
        Steps that are called one epoch.

    Examples
    --------
    >>> terms = SgdTerms(1.0, 0.01, 500, 60.0, 100)
    >>> round(terms.curve("zero-out").epsilon(1e-5), 2)
    1.33
    """

    noise_multiplier: float
    sample_rate: float
    steps: int
    divisor: float
    epoch: int

    def curve(self, relation):
        """Return the :class:`PrivacyCurve` of the training under ``relation``.

        One row's clipped gradient comes or goes ("zero-out", "add-remove") or turns into another of
        the same norm bound ("replace-one"); both are what ``PrivacyCurve.dp_sgd`` prices.
        """
        return PrivacyCurve.dp_sgd(
            self.noise_multiplier, self.sample_rate, self.steps, relation=relation
        )


def steps_per_epoch(sample_rate):
    """Return the least whole number of steps that visit a row at least once in expectation.

    Computed exactly: a floating-point ``1 / q`` falls on the wrong side of a whole number.

    Examples
    --------
    >>> steps_per_epoch(0.01), steps_per_epoch(1 / 49), steps_per_epoch(0.3)
    (100, 49, 4)
    """
    nearest = round(1 / sample_rate)
    if math.isclose(nearest * sample_rate, 1.0, rel_tol=1e-12):
        return max(1, nearest)
    return math.ceil(1 / Fraction(sample_rate))


def sgd_terms(net, n_samples):
    """Return the :class:`SgdTerms` of ``net`` trained on ``n_samples`` rows.

    Parameters
    ----------
    net : DPNeuralNetClassifier or DPNeuralNetRegressor
    n_samples : int
        The public number of training rows; ``net.n_samples`` takes its place where it is set.

    Raises
    ------
    InvalidParameterError, InvalidTypeError
        Naming the parameter.
    """
    noise = check_real(
        "noise_multiplier",
        net.noise_multiplier,
        low=0,
        low_open=True,
        advice="It is the noise over the clipping norm, e.g. 1.0.",
    )
    if noise < LEAST_NOISE:
        raise invalid_value("noise_multiplier", f"at least {LEAST_NOISE:g}", noise, "So little noise has no price.")
    if noise > MOST_NOISE:
        raise invalid_value("noise_multiplier", f"at most {MOST_NOISE:g}", noise, "So much noise teaches nothing.")
    if net.n_samples is not None:
        n_samples = check_integer("n_samples", net.n_samples, low=1)
    n_samples = max(1, int(n_samples))
    rate = _rate(net, n_samples)
    if rate < LEAST_RATE:
        raise invalid_value(
            "sample_rate", f"at least {LEAST_RATE:g}", rate, "It is, or follows from, expected_batch_size / n_samples."
        )
    epoch = steps_per_epoch(rate)
    if net.steps is not None:
        steps = check_integer("steps", net.steps, low=1)
    else:
        steps = check_integer("max_epochs", net.max_epochs, low=1) * epoch
    _check_steps(noise, rate, steps)
    return SgdTerms(noise, rate, steps, rate * n_samples, epoch)


def _check_steps(noise, rate, steps):
    """Refuse more steps than a grid of losses can hold."""
    advice = "Train with fewer steps or epochs, or with more noise."
    if steps > MOST_STEPS:
        raise invalid_value("steps", f"at most {MOST_STEPS}", steps, advice)
    one = np.logaddexp(np.log1p(-(rate**2)) if rate < 1 else -np.inf, 2 * math.log(rate) + noise**-2)
    if steps > 10**6 and steps * one > _MOST_DIVERGENCE:
        raise invalid_value("steps", f"few enough to be priced at noise_multiplier={noise:g}", steps, advice)


def _rate(net, n_samples):
    if net.sample_rate is not None and net.expected_batch_size is not None:
        raise InvalidParameterError(
            "sample_rate and expected_batch_size must not both be set; got both. Keep one: the other "
            "follows from the number of rows."
        )
    if net.sample_rate is not None:
        return check_real("sample_rate", net.sample_rate, low=0, low_open=True, high=1)
    if net.expected_batch_size is None:
        size = math.sqrt(n_samples)  # arXiv 1607.00133v2, section 3.3: lots near the root of n
    else:
        size = check_real("expected_batch_size", net.expected_batch_size, low=0, low_open=True)
    return min(1.0, size / n_samples)


def check_relation_terms(net, relation):
    """Refuse terms that depend on the number of rows where that number is private.

    Raises
    ------
    CandidateRefusedError
    """
    if relation == "add-remove" and net.n_samples is None:
        raise CandidateRefusedError(
            "n_samples of a net must be set under relation='add-remove'; got None. The number of rows is "
            "private there, so the sampling rate and the divisor of each step need a public guess: set "
            "n_samples to one."
        )
