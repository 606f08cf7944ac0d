"""One run's mechanism: from arguments to a PrivacyCurve, or to a family of them.

One value per mechanism says which arguments it takes, which of them a calibration may choose and in which
direction it is safe to round.
"""

import argparse
from dataclasses import dataclass
from fractions import Fraction

from skdptune._exceptions import InvalidParameterError

__all__ = ["MECHANISMS", "Mechanism", "number", "whole"]

RELATIONS = ("zero-out", "replace-one", "add-remove")


def number(text):
    """Return a real number; fractions such as 256/60000 are welcome.

    Examples
    --------
    >>> number("1e-5"), number("1/4")
    (1e-05, 0.25)
    """
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise argparse.ArgumentTypeError(f"a number or a fraction such as 256/60000 is needed; got {text!r}") from None


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
        raise argparse.ArgumentTypeError(f"a whole number is needed; got {text!r}")
    return int(value)


@dataclass(frozen=True)
class Argument:
    """One number that a mechanism is made of."""

    name: str  # of the constructor's parameter
    help: str
    kind: object = number
    option: str = ""

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
    shown : str
        Arguments for examples, without the first.
    """

    name: str
    constructor: str
    help: str
    arguments: tuple
    more_is_safer: bool
    example: str
    fixed_example: str = ""

    @property
    def free(self):
        """The argument that a calibration chooses."""
        return self.arguments[0]

    def given(self, arguments):
        """Return the values given, by the name of the constructor's parameter."""
        values = {each.name: getattr(arguments, each.dest) for each in self.arguments}
        return {name: value for name, value in values.items() if value is not None}

    def curve(self, values, relation):
        """Return the PrivacyCurve of one run."""
        from skdptune.accounting import PrivacyCurve

        return getattr(PrivacyCurve, self.constructor)(**values, relation=relation)

    def family(self, values, relation):
        """Return ``family(x) -> PrivacyCurve``, in which ``x`` is the free argument."""
        if self.free.name in values:
            raise InvalidParameterError(
                f"{self.free.flag} is what this command chooses; got it as an argument, too. Leave it out."
            )
        return lambda x: self.curve({**values, self.free.name: x}, relation)


MECHANISMS = (
    Mechanism(
        "pure",
        "pure",
        "any mechanism with a pure epsilon promise",
        (Argument("epsilon", "promise of one run, nats"),),
        False,
        "--epsilon 1",
    ),
    Mechanism(
        "approximate",
        "approximate",
        "any mechanism with an (epsilon, delta) promise",
        (
            Argument("epsilon", "promise of one run, nats"),
            Argument("delta", "the promise's own delta (--delta is that of the whole search)", option="--run-delta"),
        ),
        False,
        "--epsilon 1",
        "--run-delta 1e-8",
    ),
    Mechanism("zcdp", "zcdp", "any rho-zCDP mechanism", (Argument("rho", "rho of one run"),), False, "--rho 0.05"),
    Mechanism(
        "gaussian",
        "gaussian",
        "one sum released with Gaussian noise",
        (Argument("noise_multiplier", "standard deviation over the norm of one row's contribution"),),
        True,
        "--noise-multiplier 3",
    ),
    Mechanism(
        "laplace",
        "laplace",
        "one sum released with Laplace noise",
        (Argument("epsilon", "one row's largest contribution over the scale of the noise"),),
        False,
        "--epsilon 1",
    ),
    Mechanism(
        "dp-sgd",
        "dp_sgd",
        "DP-SGD with Poisson sampling",
        (
            Argument("noise_multiplier", "standard deviation of the noise over the clipping norm"),
            Argument("sample_rate", "chance of each row to join each step; a fraction such as 256/60000 is welcome"),
            Argument("steps", "number of steps", kind=whole),
        ),
        True,
        "--noise-multiplier 1",
        "--sample-rate 256/60000 --steps 7031",
    ),
)
