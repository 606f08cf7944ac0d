"""How many runs a private search makes: distributions of K.

A search draws its number of runs K from one of these before it looks at anything, and its price is
computed from the same object. See :class:`RunCount` for what they all offer.
"""

from skdptune._exceptions import InvalidTypeError
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
_OTHERS = "Others are in skdptune.run_counts: Geometric(mean=10), say, or FromScipy(...) for one of scipy.stats."


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
        For anything else; for a subclass of a distribution of this package that changes something of it, which would
        be priced by what it inherits, whatever it draws. A law of one's own derives from RunCount and states all of it.

    Examples
    --------
    >>> from skdptune.run_counts import as_run_count
    >>> as_run_count(20)
    TruncatedNegativeBinomial(mean=20.0, eta=2.0)
    """
    if isinstance(n_iter, RunCount):
        return _as_priced(n_iter)
    if isinstance(n_iter, type) and issubclass(n_iter, RunCount):
        raise invalid_type("n_iter", _EXPECTED, n_iter, f"Call it, e.g. {n_iter.__name__}(...).")
    try:
        mean = check_real("n_iter", n_iter, low=1, advice=_ADVICE)
    except InvalidTypeError:
        raise invalid_type("n_iter", _EXPECTED, n_iter, f"{_ADVICE} {_OTHERS}") from None
    return TruncatedNegativeBinomial(mean=mean, eta=2)


# What a subclass may have without changing what is drawn or priced.
_HARMLESS = frozenset(
    "__abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__ __dataclass_fields__ "
    "__dataclass_params__ __delattr__ __dict__ __doc__ __eq__ __firstlineno__ __hash__ __init__ __init_subclass__ "
    "__match_args__ __module__ __orig_bases__ __parameters__ __post_init__ __qualname__ __reduce__ __repr__ "
    "__setattr__ __slots__ __static_attributes__ __str__ __weakref__ _abc_impl".split()
)


def _as_priced(run_count):
    """Return a distribution of which what is drawn is what is priced, or refuse it."""
    if isinstance(run_count, AtMost):
        _as_priced(run_count.base)
    lineage = type(run_count).__mro__
    known = next((kind for kind in lineage if kind.__module__.partition(".")[0] == "skdptune"), RunCount)
    if known is RunCount:
        return run_count  # a law of one's own
    fields = set(getattr(known, "__dataclass_fields__", ()))
    inherited = (set(dir(known)) | fields | {"mean", "p_zero", "support_max", "__getattr__"}) - _HARMLESS
    changed = {name for kind in lineage[: lineage.index(known)] for name in vars(kind)} & inherited
    changed |= {name for name in vars(run_count) if name in inherited - fields and callable(vars(run_count)[name])}
    if changed:
        raise invalid_type(
            "n_iter",
            f"a {known.__name__} as it is",
            run_count,
            f"{type(run_count).__name__} changes {', '.join(sorted(changed))}, and what is drawn would not be what is "
            "priced. Use Finite([...]) or FromScipy(...), or derive from RunCount and state the whole law.",
        )
    return run_count
