"""Errors of skdptune.

Every error is a :class:`SkdptuneError` and, at the same time, the built-in error that a caller of
scikit-learn would expect in its place, so existing ``except ValueError`` clauses keep working.
"""

__all__ = [
    "AllRunsFailedError",
    "BudgetExceededError",
    "CandidateRefusedError",
    "CheckpointError",
    "InvalidParameterError",
    "InvalidTypeError",
    "LedgerClosedWarning",
    "LedgerError",
    "MissingDependencyError",
    "OutputError",
    "PricingError",
    "PublicSeedWarning",
    "RelationMismatchError",
    "RunFailedError",
    "ScoringRefusedError",
    "SkdptuneError",
    "SplitRefusedError",
    "TransportError",
    "UnreachableTargetError",
]


class SkdptuneError(Exception):
    """Base of all errors raised on purpose by skdptune."""


class InvalidParameterError(SkdptuneError, ValueError):
    """An argument has the right type but a value outside its range."""


class InvalidTypeError(SkdptuneError, TypeError):
    """An argument has the wrong type."""


class PricingError(SkdptuneError, ValueError):
    """A privacy cost cannot be stated, or not by the method asked for."""


class RelationMismatchError(PricingError):
    """Two costs under different neighbouring relations were about to be mixed."""


class UnreachableTargetError(PricingError):
    """No setting of the noise meets the target budget."""


class CandidateRefusedError(SkdptuneError, ValueError):
    """An estimator cannot be vouched for as a private candidate."""


class ScoringRefusedError(SkdptuneError, ValueError):
    """A score has no private release on private rows."""


class SplitRefusedError(SkdptuneError, ValueError):
    """A splitter may depend on the private rows, or its cost cannot be stated."""


class BudgetExceededError(SkdptuneError, ValueError):
    """The budget that was given does not cover the price of the search."""


class LedgerError(SkdptuneError, OSError):
    """A ledger file cannot be opened, read or written, or its history was edited; nothing further is spent."""


class OutputError(SkdptuneError, OSError):
    """A file that was asked for (a report, an export) cannot be written; what was there before is unchanged."""


class AllRunsFailedError(SkdptuneError, RuntimeError):
    """Every run of a search failed; the budget stays charged."""


class RunFailedError(SkdptuneError, RuntimeError):
    """A try or the refit failed and the caller asked to stop there; the budget stays charged."""


class TransportError(SkdptuneError, OSError):
    """The rows could not be handed to the workers: a full disk, a folder that cannot be written."""


class CheckpointError(SkdptuneError, RuntimeError):
    """A checkpoint cannot be used, or not by this search; nothing more was spent."""


class MissingDependencyError(SkdptuneError, ImportError):
    """An optional library is missing or its version is known not to work."""


class LedgerClosedWarning(UserWarning):
    """A charge of much less than the budget is about to use it up, because it fits only as the one ever made."""


class PublicSeedWarning(UserWarning):
    """A fixed seed was given: the guarantee holds only while it stays secret."""
