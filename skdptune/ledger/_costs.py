"""What is to be charged, whoever states it, and the row that it becomes in the file."""

import contextlib
import datetime
import functools
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from skdptune._exceptions import InvalidParameterError, PricingError, SkdptuneError
from skdptune._validation import check_integer, invalid_type, invalid_value
from skdptune.accounting import PrivacyCurve
from skdptune.ledger._entries import LedgerEntry
from skdptune.ledger._filter import exact

__all__ = [
    "Cost",
    "Promise",
    "check_sentences",
    "check_text",
    "cost_of",
    "earlier_charge",
    "evaluating",
    "new_row",
    "stamp",
    "versions_in_use",
]

_LONGEST = 500  # characters of a token, a description, a reason or a data set's name


@dataclass(frozen=True)
class Promise:
    """The sum of (epsilon, delta) promises, each of which may have been chosen after seeing what came before.

    It holds as it stands and is not converted: a delta that was left over on one path may have been spent on another
    (theory page "Filters", "Two limits, not one").
    """

    total_epsilon: float
    total_delta: float

    def epsilon(self, delta):
        """Return the sum of the epsilons where the deltas add up to at most ``delta``, else infinity."""
        return self.total_epsilon if exact(self.total_delta) <= exact(delta) else math.inf


@dataclass(frozen=True)
class Cost:
    """What is to be charged, whoever states it."""

    curve: PrivacyCurve | None
    what: str
    assumptions: tuple
    n_samples: int | None
    versions: tuple
    delta: float | None = None  # the search's own: what fit charges it at, a quote is asked about at
    target: tuple | None = None  # the (epsilon, delta) that candidates were calibrated to
    searched: bool = False
    promise: Promise | None = None  # the sum of the parts, where they may have been chosen one after another

    @property
    def by_itself(self):
        """What the epsilon of the whole is read from, at a delta.

        A composed pair is that of a list fixed in advance; of parts chosen one after another only sums are known
        to hold: of their promises, or of their Renyi divergences at one order.
        """
        return self.curve if self.promise is None else self.promise

    def __post_init__(self):
        if self.n_samples is not None:
            check_integer("n_samples", self.n_samples, low=1)


def cost_of(spent, description):
    """Return the cost stated by a PrivacySpent, a PrivacyCurve or anything that has a ``curve``."""
    curve = spent if isinstance(spent, PrivacyCurve) else getattr(spent, "curve", None)
    if not isinstance(curve, PrivacyCurve):
        raise invalid_type("spent", "a PrivacySpent or a PrivacyCurve", spent, "Pass search.privacy_cost(n_samples).")
    run_count, settings = getattr(spent, "run_count", None), getattr(spent, "settings", None)
    what = f"release, {curve.node.describe()}"
    if run_count is not None:
        candidate = getattr(settings, "candidate", "")
        what = f"search{' of ' if candidate else ''}{candidate}, tries {run_count!r}"
    return Cost(
        curve=curve,
        what=what[:_LONGEST] if description is None else check_text("description", description),
        assumptions=tuple(getattr(spent, "assumptions", ())),
        n_samples=getattr(spent, "n_samples", None),
        versions=tuple(getattr(spent, "versions", ())) or versions_in_use(),
        delta=getattr(settings, "delta", None),
        target=getattr(settings, "target", None),
        searched=run_count is not None,
    )


def new_row(kind, token, cost, relation):
    """Return the plain values of a new entry that charges nothing yet."""
    return {
        "kind": kind,
        "token": token,
        "what": cost.what,
        "relation": relation,
        "n_samples": cost.n_samples,
        "rdp": "0.0",
        "aside": "0.0",
        "epsilon": "0.0",
        "method": "",
        "assumptions": [str(sentence) for sentence in cost.assumptions],
        "digest": None,
        "slot": None,
        "versions": [[str(name), str(version)] for name, version in cost.versions],
        **stamp(),
    }


def stamp():
    """Return when and by whom an entry is made."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"when": now.isoformat(timespec="seconds"), "user": _user()}


@functools.lru_cache(maxsize=1)
def _user():
    """Return the login name of this account (not of the environment), or its number."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return str(getattr(os, "getuid", lambda: "")())


@functools.lru_cache(maxsize=1)
def versions_in_use():
    """Return ((library, version), ...) for a charge that states none."""
    try:
        return (("skdptune", metadata.version("skdptune")),)
    except metadata.PackageNotFoundError:
        return ()


def earlier_charge(page, row):
    """Return the entry that charged ``row`` before, None if its token is new, or refuse."""
    found = page.of_token(row["token"])
    if not found:
        return None
    first = found[0]
    same_kind = first["kind"] == row["kind"] or (first["kind"], row["kind"]) == ("planned", "charge")
    if row["digest"] is None or first["digest"] is None:
        same_price = (first["epsilon"], first["n_samples"]) == (row["epsilon"], row["n_samples"])
    else:
        same_price = first["digest"] == row["digest"]
    if len(found) == 1 and same_kind and same_price:
        return LedgerEntry.from_row(first)
    raise InvalidParameterError(
        f"token must be new, or that of the same charge; {row['token']!r} names entry {first['seq']} "
        f"({found[-1]['kind']}: {first['what']}), which is another one. Nothing was charged. Use a token of its own "
        "for each search."
    )


def check_text(name, value):
    """Return ``value`` if it is a text of reasonable length."""
    if not isinstance(value, str):
        raise invalid_type(name, "a text", value)
    if not value.strip() or len(value) > _LONGEST:
        raise invalid_value(name, f"a text of 1 to {_LONGEST} characters", value)
    return _writable(name, value)


def check_sentences(name, values):
    """Return ``values`` as a tuple of texts."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise invalid_type(name, "a sequence of texts", values, "Put a single one into a list.")
    values = tuple(values)
    for value in values:
        if not isinstance(value, str):
            raise invalid_type(name, "a sequence of texts", value)
        _writable(name, value)
    return values


def _writable(name, value):
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid_value(name, "a text that UTF-8 can write (no half of a surrogate pair)", value) from None
    return value


@contextlib.contextmanager
def evaluating():
    """Let a curve be evaluated; numbers that it cannot be computed with become a PricingError."""
    try:
        with np.errstate(all="ignore"):  # what becomes NaN or infinite is refused as a price
            yield
    except SkdptuneError:
        raise
    except (ValueError, ArithmeticError) as error:
        raise PricingError(
            f"curve must have a price that can be computed; this one has none ({error}). Nothing was charged. It may "
            "be of almost no noise: use more, which would fit a budget."
        ) from None
