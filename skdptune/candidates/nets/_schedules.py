"""Learning rates as functions of the step alone."""

import math
from dataclasses import dataclass

from skdptune._exceptions import CandidateRefusedError
from skdptune._validation import invalid_type

__all__ = ["LinearDecay", "check_schedule", "factors_of"]

_CALLS = 256  # at least, before a schedule is believed to need the step alone


@dataclass(frozen=True)
class LinearDecay:
    """A factor that falls linearly from ``start`` to 1 over ``decay_steps`` steps and then stays.

    Parameters
    ----------
    start : float >= 1, default=2.0
        The factor on ``lr`` at step 0.
    decay_steps : int >= 1, default=100

    References
    ----------
    Abadi et al., arXiv 1607.00133v2, section 3.3: a learning rate that starts high falls
    linearly over a few epochs and is constant after them.

    Examples
    --------
    >>> schedule = LinearDecay(start=3.0, decay_steps=4)
    >>> [schedule(step) for step in (0, 2, 4, 400)]
    [3.0, 2.0, 1.0, 1.0]
    """

    start: float = 2.0
    decay_steps: int = 100

    def __call__(self, step):
        """Return the factor of step ``step`` (0 is the first)."""
        left = max(0.0, 1.0 - step / self.decay_steps)
        return 1.0 + (self.start - 1.0) * left


def check_schedule(schedule, steps):
    """Refuse a schedule that does not give a finite factor at every step, and the same one whenever it is asked.

    Raises
    ------
    CandidateRefusedError, InvalidTypeError
    """
    if schedule is None:
        return
    first = factors_of(schedule, steps)
    for _ in range(max(1, _CALLS // steps)):
        if factors_of(schedule, steps) != first:
            raise CandidateRefusedError(
                "lr_schedule must be a function of the step alone; asked twice it gave different factors. Compute the "
                "factor from the step's number, and keep nothing."
            )


def factors_of(schedule, steps):
    """Return the factors of all steps.

    Raises
    ------
    CandidateRefusedError, InvalidTypeError
    """
    if not callable(schedule):
        raise invalid_type(
            "lr_schedule",
            "a function of the step (0, 1, ...) that returns a factor on lr",
            schedule,
            "Pass e.g. LinearDecay(start=2.0, decay_steps=100).",
        )
    factors = []
    for step in range(steps):
        try:
            factor = float(schedule(step))
        except Exception as error:
            raise CandidateRefusedError(
                f"lr_schedule must return a factor for every step number; at step {step} it raised "
                f"{type(error).__name__}. Make it a function of the step alone."
            ) from error
        if not math.isfinite(factor) or factor < 0:
            raise CandidateRefusedError(
                f"lr_schedule must return finite non-negative factors; step {step} gave {factor}."
            )
        factors.append(factor)
    return factors
