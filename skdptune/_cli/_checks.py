"""What can be said about numbers before anything heavy is imported, in the words of the command line."""

from skdptune._cli._codes import as_options
from skdptune._validation import check_real

__all__ = ["check_numbers", "plan_options"]

_RANGES = {
    "delta": {"low": 0, "high": 1, "high_open": True},
    "target": {"low": 0, "low_open": True},
    "limit": {"low": 0},
    "expected_quantile": {"low": 0, "high": 1, "low_open": True, "high_open": True},
    "success_share": {"low": 0, "high": 1},
    "max_mean": {"low": 1},
    "means": {"low": 1},
}
_PLAN = ("expected_quantile", "success_share", "max_mean", "max_runs_99", "means", "run_counts", "delta")


def check_numbers(arguments):
    """Refuse numbers that no command could use: the libraries that would refuse them take seconds to load.

    Raises
    ------
    InvalidParameterError
    """
    mechanism = getattr(arguments, "mechanism", None)
    if mechanism is not None:
        mechanism.given(arguments)
    for name, limits in _RANGES.items():
        value = getattr(arguments, name, None)
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            check_real(f"--{name.replace('_', '-')}", each, **limits)


def plan_options():
    """Return the context in which complaints about a plan name the options of the command line."""
    names = {name: f"--{name.replace('_', '-')}" for name in _PLAN}
    return as_options(target_epsilon="--target", **names)
