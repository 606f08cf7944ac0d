"""How many runs a private search makes: distributions of K.

A search draws its number of runs K from one of these before it looks at anything, and its price is
computed from the same object. See :class:`RunCount` for what they all offer.
"""

from skdptune._validation import check_real, invalid_type
from skdptune.run_counts._base import RunCount, from_dict
from skdptune.run_counts._binomial import Binomial, Fixed
from skdptune.run_counts._finite import AtMost, BetaBinomial, Finite
from skdptune.run_counts._negative_binomial import (
    Geometric,
    Logarithmic,
    TruncatedNegativeBinomial,
)
from skdptune.run_counts._poisson import Poisson, ZeroTruncatedPoisson
from skdptune.run_counts._scipy import FromScipy

__all__ = [
    "AtMost",
    "BetaBinomial",
    "Binomial",
    "Finite",
    "Fixed",
    "FromScipy",
    "Geometric",
    "Logarithmic",
    "Poisson",
    "RunCount",
    "TruncatedNegativeBinomial",
    "ZeroTruncatedPoisson",
    "as_run_count",
    "from_dict",
]

_EXPECTED = "a run-count distribution or a real number in [1, inf)"
_ADVICE = "A number m means TruncatedNegativeBinomial(mean=m, eta=2)."


def as_run_count(n_iter):
    """Return the distribution of the number of runs that ``n_iter`` stands for.

    Parameters
    ----------
    n_iter : RunCount or float
        A distribution passes through. A number m >= 1 means
        ``TruncatedNegativeBinomial(mean=m, eta=2)``.

    Returns
    -------
    RunCount

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        For anything else.

    Examples
    --------
    >>> from skdptune.run_counts import as_run_count
    >>> as_run_count(20)
    TruncatedNegativeBinomial(mean=20.0, eta=2.0)
    """
    if isinstance(n_iter, RunCount):
        return n_iter
    if isinstance(n_iter, type) and issubclass(n_iter, RunCount):
        raise invalid_type("n_iter", _EXPECTED, n_iter, f"Call it, e.g. {n_iter.__name__}(...).")
    mean = check_real("n_iter", n_iter, low=1, advice=_ADVICE)
    return TruncatedNegativeBinomial(mean=mean, eta=2)
