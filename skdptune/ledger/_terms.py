"""The terms of a ledger: checked once, completed from what was left open, stored for good."""

import math
import os
import secrets

from skdptune._rounding import as_given
from skdptune._validation import check_real, invalid_type, invalid_value
from skdptune.accounting._relations import check_relation
from skdptune.ledger._costs import check_text, stamp, versions_in_use
from skdptune.ledger._entries import plain_number
from skdptune.ledger._filter import budget_at, split_delta
from skdptune.ledger._orders import best_order

__all__ = ["absolute", "asked_terms", "complete_terms", "for_divergence"]


def for_divergence(order, delta, aside):
    """Return what is left of delta for the divergence, rounded down."""
    return 0.0 if math.isinf(order) else (delta - aside) * (1 - 1e-15)


def asked_terms(epsilon, delta, relation, order, dataset, delta_aside):
    """Check the terms as given; None stays None."""
    asked = {
        "epsilon": check_real("epsilon", epsilon, low=0, low_open=True),
        "delta": check_real("delta", delta, low=0, high=1, high_open=True),
        "relation": check_relation(relation),
        "order": None,
        "dataset": None if dataset is None else check_text("dataset", dataset),
        "delta_aside": None,
    }
    if order is not None:
        asked["order"] = check_real("order", order, low=1, low_open=True, allow_inf=True)
    if delta_aside is not None:
        asked["delta_aside"] = check_real("delta_aside", delta_aside, low=0, high=1, high_open=True)
    return asked


def complete_terms(asked):
    """Return the terms of a new ledger, ready for JSON."""
    epsilon, delta, order = asked["epsilon"], asked["delta"], asked["order"]
    order = best_order(epsilon, delta, delta_aside=asked["delta_aside"]) if order is None else order
    aside = split_delta(delta, order, asked["delta_aside"])
    if not budget_at(order, epsilon, for_divergence(order, delta, aside)) > 0:
        raise invalid_value(
            "order",
            f"one at which epsilon={as_given(epsilon)} and delta={as_given(delta)} leave a budget",
            order,
            "Leave it None, take a larger one, or inf to add up (epsilon, delta) promises.",
        )
    return {
        "epsilon": epsilon,
        "delta": delta,
        "delta_aside": aside,
        "relation": asked["relation"],
        "order": plain_number(order),
        "dataset": asked["dataset"] or "",
        "identity": secrets.token_hex(16),
        "created": stamp()["when"],
        "versions": [list(pair) for pair in versions_in_use()],
    }


def absolute(path):
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise invalid_type("path", "the path of a file", path, "Pass e.g. 'budget.ledger'.")
    path = os.fsdecode(os.fspath(path))
    try:
        usable = "\0" not in path and bool(os.fsencode(path))
    except UnicodeEncodeError:  # half a surrogate pair
        usable = False
    if not usable:
        raise invalid_value("path", "a name that a file can have", path, "Leave out what is no character.")
    return os.path.abspath(path)
