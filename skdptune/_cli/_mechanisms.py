"""One run's mechanism: from arguments to a PrivacyCurve, or to a family of them.

One value per mechanism says which arguments it takes, which of them a calibration may choose and in which
direction it is safe to round.
"""

import argparse
from dataclasses import dataclass
from fractions import Fraction

from skdptune._cli._codes import as_options
from skdptune._exceptions import InvalidParameterError

__all__ = ["MECHANISMS", "Mechanism", "number", "seed", "whole"]

_INFINITY = float("inf")
_LARGEST_SEED = 2**32 - 1
_SHOWN = 40  # characters of what was typed that a complaint repeats
RELATIONS = ("zero-out", "replace-one", "add-remove")


def number(text):
    """Return a real number; fractions such as 256/60000 are welcome. Infinity, NaN and what underflows are not.

    Examples
    --------
    >>> number("1e-5"), number("1/4")
    (1e-05, 0.25)
    """
    try:
        value = float(text)
    except ValueError:
        value = _fraction(text)
    if not -_INFINITY < value < _INFINITY:
        raise argparse.ArgumentTypeError(f"a finite number is needed; got {_short(text)}")
    # the digits before an exponent: 1e-400 is not the zero that it would become
    if value == 0 and any(sign.isdigit() and int(sign) for sign in text.lower().partition("e")[0].partition("/")[0]):
        raise argparse.ArgumentTypeError(f"{_short(text)} is too small for this computer, and is not taken for 0")
    return value


def _fraction(text):
    try:
        if "/" in text:  # a number that float does not read is none for Fraction either
            return float(Fraction(text))
    except OverflowError:
        return _INFINITY
    except (ValueError, ZeroDivisionError):
        pass
    raise argparse.ArgumentTypeError(f"a number or a fraction such as 256/60000 is needed; got {_short(text)}")


def _short(text):
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def whole(text):
    """Return a whole number; 1e6 is welcome.

    Examples
    --------
    >>> whole("7031"), whole("1e6")
    (7031, 1000000)
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        value = 0.5
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        raise argparse.ArgumentTypeError(f"a whole number is needed; got {_short(text)}")
    return int(value)


def seed(text):
    """Return a whole number that can seed a search.

    Examples
    --------
    >>> seed("7")
    7
    """
    value = whole(text)
    if not 0 <= value <= _LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"a whole number from 0 to {_LARGEST_SEED} is needed; got {_short(text)}")
    return value


@dataclass(frozen=True)
class Argument:
    """One number that a mechanism is made of."""

    name: str  # of the constructor's parameter
    help: str
    kind: object = number
    option: str = ""
    least: float = 0.0  # zero itself is always left to the constructor
    most: float = _INFINITY

    @property
    def flag(self):
        return self.option or "--" + self.name.replace("_", "-")

    @property
    def dest(self):
        return self.flag[2:].replace("-", "_")


@dataclass(frozen=True)
class Mechanism:
    """A mechanism that can be priced.

    Parameters
    ----------
    name : str
        On the command line.
    constructor : str
        Of PrivacyCurve.
    help : str
    arguments : tuple of Argument
        The first is the one that a calibration chooses.
    more_is_safer : bool
        Whether a larger first argument costs less.
    example, fixed_example : str
        Arguments for examples: the first, and the others.
    one_sum : bool
        Whether a row that is exchanged moves what is released twice as far as one that is blanked.
    """

    name: str
    constructor: str
    help: str
    arguments: tuple
    more_is_safer: bool
    example: str
    fixed_example: str = ""
    one_sum: bool = False

    @property
    def free(self):
        """The argument that a calibration chooses."""
        return self.arguments[0]

    def given(self, arguments):
        """Return the values given, by the name of the constructor's parameter."""
        values = {each: getattr(arguments, each.dest) for each in self.arguments}
        for each, value in values.items():
            if value is not None and value < 0:
                raise InvalidParameterError(f"{each.flag} must not be negative; got {value:g}.")
            if value and not each.least <= abs(value) <= each.most:
                raise InvalidParameterError(
                    f"{each.flag} must lie between {each.least:g} and {each.most:g}; got {value:g}. Beyond that no "
                    "price means anything."
                )
        return {each.name: value for each, value in values.items() if value is not None}

    def curve(self, values, relation):
        """Return the PrivacyCurve of one run."""
        from skdptune.accounting import PrivacyCurve

        with as_options(relation="--relation", **{each.name: each.flag for each in self.arguments}):
            return getattr(PrivacyCurve, self.constructor)(**values, relation=relation)

    def described(self, curve):
        """Return one run in words; under replace-one the numbers are not those that were given, and it says why."""
        text = curve.node.describe()
        if self.one_sum and curve.relation == "replace-one":
            text += " (an exchanged row moves the sum by up to twice one row's contribution, so the noise counts half)"
        return text

    def family(self, values, relation):
        """Return ``family(x) -> PrivacyCurve``, in which ``x`` is the free argument."""
        if self.free.name in values:
            raise InvalidParameterError(
                f"{self.free.flag} is what this command chooses; got it as an argument, too. Leave it out."
            )
        return lambda x: self.curve({**values, self.free.name: x}, relation)


_LOSS = {"least": 1e-6, "most": 1e3}
_NOISE = {"least": 0.01, "most": 1e6}
MECHANISMS = (
    Mechanism(
        "pure",
        "pure",
        "any mechanism with a pure epsilon promise",
        (Argument("epsilon", "promise of one run, nats", **_LOSS),),
        False,
        "--epsilon 1",
    ),
    Mechanism(
        "approximate",
        "approximate",
        "any mechanism with an (epsilon, delta) promise",
        (
            Argument("epsilon", "promise of one run, nats", **_LOSS),
            Argument("delta", "the promise's own delta (--delta is that of the whole search)", option="--run-delta"),
        ),
        False,
        "--epsilon 1",
        "--run-delta 1e-8",
    ),
    Mechanism(
        "zcdp",
        "zcdp",
        "any rho-zCDP mechanism",
        (Argument("rho", "rho of one run", **_LOSS),),
        False,
        "--rho 0.05",
    ),
    Mechanism(
        "gaussian",
        "gaussian",
        "one sum released with Gaussian noise",
        (Argument("noise_multiplier", "standard deviation over the norm of one row's contribution", **_NOISE),),
        True,
        "--noise-multiplier 3",
        one_sum=True,
    ),
    Mechanism(
        "laplace",
        "laplace",
        "one sum released with Laplace noise",
        (Argument("epsilon", "one row's largest contribution over the scale of the noise", **_LOSS),),
        False,
        "--epsilon 1",
        one_sum=True,
    ),
    Mechanism(
        "dp-sgd",
        "dp_sgd",
        "DP-SGD with Poisson sampling",
        (
            Argument("noise_multiplier", "standard deviation of the noise over the clipping norm", **_NOISE),
            Argument("sample_rate", "chance of each row to join each step; a fraction such as 256/60000 is welcome"),
            Argument("steps", "number of steps", kind=whole, least=1, most=1e9),
        ),
        True,
        "--noise-multiplier 1",
        "--sample-rate 256/60000 --steps 7031",
    ),
)
