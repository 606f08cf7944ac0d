"""Costs, noise, scorers and numbers of tries in words, for those who read a report and not the code."""

import re

from skdptune._rounding import as_given, nats_up, number, significant_down

__all__ = ["cost_in_words", "noise_in_words", "run_count_in_words", "scorer_in_words"]

_NUMBER = r"([\d.e+-]+|inf)"
# What a mechanism calls itself -> what a report calls it. An epsilon is written rounded up, all else as it is.
_MECHANISMS = (
    (rf"pure\(epsilon {_NUMBER}\)", lambda m: f"pure DP at epsilon {_up(m[1])} (rounded up)"),
    (
        rf"approximate\(epsilon {_NUMBER}, delta {_NUMBER}\)",
        lambda m: f"approximate DP at epsilon {_up(m[1])} (rounded up) and delta {m[2]}",
    ),
    (rf"laplace\(epsilon {_NUMBER}\)", lambda m: f"Laplace noise, pure DP at epsilon {_up(m[1])} (rounded up)"),
    (rf"discrete_gaussian\(scale {_NUMBER}\)", lambda m: f"discrete Gaussian noise of scale {m[1]}"),
    (rf"gaussian\(noise {_NUMBER}\)", lambda m: f"Gaussian noise of {m[1]} times what one row can change"),
    (
        rf"discrete_laplace\(parameter {_NUMBER}, sensitivity (\d+)\)",
        lambda m: f"two-sided geometric noise, pure DP at epsilon {_up(m[1])} (rounded up) for each unit changed",
    ),
    (rf"zcdp\(rho {_NUMBER}(?:, xi {_NUMBER})?\)", lambda m: f"zCDP at rho {m[1]}{f' and xi {m[2]}' if m[2] else ''}"),
    (
        rf"dp_sgd\(noise {_NUMBER}, rate {_NUMBER}, steps (\d+)\)",
        lambda m: f"DP-SGD of {m[3]} steps with noise multiplier {m[1]} and sampling rate {m[2]}",
    ),
)
_NOISES = {"geometric": "two-sided geometric noise", "discrete_gaussian": "discrete Gaussian noise", "none": "no noise"}


def cost_in_words(curve):
    """Return what one mechanism costs, by its name and its parameters.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve
    >>> cost_in_words(PrivacyCurve.pure(0.6478831098839036))
    'pure DP at epsilon 0.6479 (rounded up), under zero-out'
    >>> cost_in_words(PrivacyCurve.gaussian(4.0) + PrivacyCurve.pure(1.0))
    'Gaussian noise of 4 times what one row can change + pure DP at epsilon 1.0000 (rounded up), under zero-out'
    """
    text = curve.node.describe()
    for pattern, words in _MECHANISMS:
        text = re.sub(pattern, words, text)
    return f"{text}, under {curve.relation}"


def _up(text):
    return nats_up(float(text))


def noise_in_words(noise):
    """Return which noise is added to a count of rows, and how much.

    Examples
    --------
    >>> from skdptune.scoring import ScoreNoise
    >>> noise_in_words(ScoreNoise.geometric(1.5434883832931519))
    'two-sided geometric noise of scale 1.543 rows (rounded down)'
    """
    kind = _NOISES.get(noise.kind, noise.kind)
    if not noise.scale:
        return kind
    written = significant_down(noise.scale, 4)  # down: less noise than there is
    rounded = "" if float(written) == noise.scale else " (rounded down)"
    return f"{kind} of scale {written} row{'' if written == '1' else 's'}{rounded}"


def run_count_in_words(run_count):
    """Return which distribution the number of tries is drawn from.

    Examples
    --------
    >>> from skdptune.run_counts import AtMost, Poisson, TruncatedNegativeBinomial
    >>> run_count_in_words(TruncatedNegativeBinomial(mean=10, eta=2))
    'truncated negative binomial, mean 10, eta 2'
    >>> run_count_in_words(AtMost(Poisson(20), 50))
    'Poisson, mean 20, given that there are at most 50: mean 20'
    """
    kind, mean = type(run_count).__name__, f"mean {number(run_count.mean)}"
    if kind == "AtMost":
        return f"{run_count_in_words(run_count.base)}, given that there are at most {run_count.m}: {mean}"
    if kind == "FromScipy" or not hasattr(run_count, "_arguments"):
        return f"{run_count!r}, {mean}"
    arguments = run_count._arguments()
    parts = [f"{name} {_argument(value)}" for name, value in arguments.items()]
    return ", ".join((_spaced(kind), *parts, *(() if "mean" in arguments else (mean,))))


def _argument(value):
    if isinstance(value, (tuple, list)) or getattr(value, "shape", ()):
        return f"a table of {len(value)} probabilities"
    return as_given(value) if isinstance(value, float) else str(value)


def scorer_in_words(scorer):
    """Return how tries are compared; a scorer that is not one of this package as it writes itself.

    Examples
    --------
    >>> from skdptune.scoring import AbsoluteErrorScorer, AccuracyScorer
    >>> scorer_in_words(AccuracyScorer())
    'accuracy'
    >>> scorer_in_words(AbsoluteErrorScorer(lower=0, upper=100))
    'absolute error, lower 0, upper 100'
    """
    kind = type(scorer)
    if not kind.__module__.startswith("skdptune.scoring") or not hasattr(scorer, "get_params"):
        return kind.__name__ if " at 0x" in repr(scorer) else repr(scorer)
    params = (f"{name} {_plain(value)}" for name, value in scorer.get_params(deep=False).items() if value is not None)
    return ", ".join((_spaced(kind.__name__.removesuffix("Scorer")), *params))


def _plain(value):
    if isinstance(value, float):
        return number(value, 12)
    return str(value) if isinstance(value, (int, str)) else repr(value)


def _spaced(name):
    """Return the words of a class's name; a person's name keeps its capital.

    Examples
    --------
    >>> _spaced("TruncatedNegativeBinomial"), _spaced("ZeroTruncatedPoisson"), _spaced("BetaBinomial")
    ('truncated negative binomial', 'zero truncated Poisson', 'beta binomial')
    """
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+", name)
    return " ".join(word if word == "Poisson" else word.lower() for word in words)
