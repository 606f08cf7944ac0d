"""The distribution of the number of tries: from arguments to a RunCount."""

import json

from skdptune._cli._codes import as_options
from skdptune._cli._mechanisms import number, whole
from skdptune._exceptions import InvalidParameterError
from skdptune._rounding import significant_down, significant_up

__all__ = ["RUN_COUNTS", "add_run_count", "builder", "run_count_of", "say"]

DEFAULT = "truncated-negative-binomial"
RUN_COUNTS = {
    DEFAULT: ("TruncatedNegativeBinomial", ("mean", "eta")),
    "logarithmic": ("Logarithmic", ("mean",)),
    "geometric": ("Geometric", ("mean",)),
    "poisson": ("Poisson", ("mean",)),
    "zero-truncated-poisson": ("ZeroTruncatedPoisson", ("mean",)),
    "binomial": ("Binomial", ("n", "p")),
    "beta-binomial": ("BetaBinomial", ("n", "a", "b")),
    "fixed": ("Fixed", ("k",)),
}
_ARGUMENTS = ("mean", "eta", "n", "p", "a", "b", "k")
_DEFAULT_ETA = 2.0
_DEEPEST = 50  # distributions made of distributions


def add_run_count(parser):
    """Add the arguments that name one distribution."""
    group = parser.add_argument_group("number of tries")
    group.add_argument(
        "--run-count", choices=tuple(RUN_COUNTS), default=None, metavar="NAME",
        help=f"distribution of the number of tries: {', '.join(RUN_COUNTS)} (default: {DEFAULT})",
    )  # fmt: skip
    group.add_argument("--mean", type=number, metavar="M", help="mean number of tries")
    group.add_argument("--eta", type=number, help=f"shape of {DEFAULT} (default: 2)")
    group.add_argument("--n", type=whole, help="largest number of tries of binomial and beta-binomial")
    group.add_argument("--p", type=number, help="chance of each try of binomial")
    group.add_argument("--a", type=number, help="of beta-binomial")
    group.add_argument("--b", type=number, help="of beta-binomial")
    group.add_argument("--k", type=whole, help="number of tries of fixed")
    group.add_argument("--at-most", type=whole, metavar="N", help="cap: the distribution given that it is at most N")
    group.add_argument(
        "--run-count-json", metavar="JSON", help="instead of all these: a distribution as --json prints it"
    )


def run_count_of(arguments):
    """Return the RunCount that the arguments name.

    Raises
    ------
    InvalidParameterError, InvalidTypeError
    """
    from skdptune import run_counts

    given = {name: getattr(arguments, name) for name in _ARGUMENTS if getattr(arguments, name) is not None}
    if arguments.run_count_json is not None:
        if given or arguments.run_count is not None:
            raise InvalidParameterError("--run-count-json says all of it; leave out --run-count and its numbers.")
        with as_options(values="--run-count-json"):
            count = run_counts.from_dict(_parsed(arguments.run_count_json))
    else:
        count = _named(arguments.run_count or DEFAULT, given)
    if arguments.at_most is None:
        return count
    with as_options(m="--at-most"):
        return run_counts.AtMost(count, arguments.at_most)


def _parsed(text):
    advice = """Pass e.g. '{"type": "Geometric", "mean": 10}'."""
    if text.count("{") > _DEEPEST:
        raise InvalidParameterError(f"--run-count-json must nest at most {_DEEPEST} distributions. {advice}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or nested without end
        raise InvalidParameterError(f"--run-count-json must be JSON; it cannot be read. {advice}") from None


def _named(name, given):
    from skdptune import run_counts

    kind, wanted = RUN_COUNTS[name]
    values = {"eta": _DEFAULT_ETA, **given} if "eta" in wanted else given
    missing = [f"--{each}" for each in wanted if each not in values]
    foreign = [f"--{each}" for each in values if each not in wanted]
    if missing or foreign:
        came = f"{' and '.join(foreign)} is none of its" if foreign else f"{' and '.join(missing)} is missing"
        takes = " and ".join(f"--{each}" for each in wanted)
        raise InvalidParameterError(f"--run-count {name} takes {takes}; {came}.")
    with as_options(**{each: f"--{each}" for each in values}):
        return getattr(run_counts, kind)(**values)


def builder(name):
    """Return the function mean -> RunCount of a name, for plans.

    Raises
    ------
    InvalidParameterError
        For a distribution that has no mean to choose.
    """
    kind, wanted = RUN_COUNTS[name]
    if "mean" not in wanted:
        choices = ", ".join(each for each, (_, names) in RUN_COUNTS.items() if "mean" in names)
        raise InvalidParameterError(f"--run-counts {name} has no mean to choose; take some of: {choices}.")
    return lambda mean: _named(name, {"mean": mean})


def say(count):
    """Return what people and programs are told about a distribution: (dictionary, sentence)."""
    runs_99 = int(count.quantile(0.99))
    p_zero = float(count.p_zero)
    data = {"run_count": as_dict(count), "mean_runs": float(count.mean), "runs_99": runs_99, "p_no_run": p_zero}
    none = f"; {significant_up(p_zero, 2)} of searches make none" if p_zero > 0 else ""
    return data, f"{count!r}, mean {significant_down(count.mean, 4)}; 99 % of searches make at most {runs_99}{none}"


def as_dict(count):
    """Return ``count.to_dict()``, or its text where a distribution has no dictionary."""
    from skdptune._exceptions import SkdptuneError

    try:
        return count.to_dict()
    except (SkdptuneError, NotImplementedError):
        return {"type": type(count).__name__, "text": repr(count)}
