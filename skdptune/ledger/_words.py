"""What a ledger says about itself and when it refuses: prices round up, what is left rounds down."""

import math

from skdptune._exceptions import SkdptuneError
from skdptune._rounding import as_given, delta_up, nats_up, significant_down, significant_up
from skdptune.ledger._filter import exact, rounded, split_delta
from skdptune.ledger._orders import best_order, number_at

__all__ = ["cheaper_search", "closed", "kept_open", "not_planned", "refusal", "remarks"]


def refusal(ledger, row, cost, price, left, *, delta, empty):
    """Return why ``price`` does not fit what is ``left`` (of both totals, Fractions), and what to do."""
    rdp, aside = left
    kept = f"epsilon={as_given(ledger.epsilon)} at delta={as_given(ledger.delta)}"
    alone = f"alone it would cost epsilon={nats_up(float(row['epsilon']))}"
    if exact(price.rdp) > rdp:
        unit = "" if math.isinf(ledger.order) else f" nats at Renyi order {as_given(ledger.order)}"
        asked, rest = f"{significant_up(price.rdp, 6)}{unit}", f"{_down(rdp, 6)}{unit}"
    else:
        asked, rest = f"a delta of {delta_up(price.aside)}", f"{_down(aside, 3)} for such deltas"
    advice = cheaper(cost)
    if empty:
        advice += ", or make a ledger with a larger budget."
    else:
        advice += f"; a budget that is used up stays used up for this data set.{_next_time(ledger, cost, price, delta)}"
    return (
        f"ledger must have room for the whole price; {row['what']} asks for {asked} ({alone}), and {rest} is left of "
        f"{kept}. Nothing was charged. {advice}"
    )


def cheaper(cost):
    """Return how this charge could cost less."""
    return cheaper_search(cost.target) if cost.searched else "Make the release cheaper"


def cheaper_search(target):
    """Return how a search with this ``target`` (or None) could cost less."""
    if target is not None:
        return f"Lower the target of the search (epsilon={as_given(target[0])})"
    return "Lower the mean of n_iter or the candidates' epsilon"


def _next_time(ledger, cost, price, delta):
    """Return which other ledger would have held more charges like this one: for other data, or for a plan."""
    if math.isinf(ledger.order):
        return ""
    here = exact(ledger.rdp_budget) // exact(price.rdp) if price.rdp > 0 else 0
    order, there = _better_order(ledger, cost, delta)
    if there <= max(here, 1):
        return " For other data: register_plan and best_order make more of a budget."
    if math.isinf(order):
        at = "" if delta is None else f" at delta={as_given(delta)} each"
        return f" For other data: a new ledger with order=math.inf would admit {there} such charges{at}."
    return (
        f" The order was fixed when the ledger was made ({as_given(ledger.order)}, which suits Gaussian noise unless "
        f"another was asked for); for other data: a new ledger with order={as_given(order)}, which is what best_order "
        f"finds for this price, would admit {there} such charges."
    )


def _better_order(ledger, cost, delta):
    """Return (order, how many such charges a new ledger of the same budget admits there); infinity for promises."""
    endless = number_at(math.inf, ledger.epsilon, ledger.delta, ledger.delta, cost.curve, delta)
    if cost.promise is not None:  # a sum of promises has no order that suits it better
        return math.inf, endless
    try:
        order = best_order(ledger.epsilon, ledger.delta, cost.curve, charge_delta=delta)
    except SkdptuneError:  # a delta beyond the ledger's, or no order at all
        return math.inf, endless
    aside = split_delta(ledger.delta, order)
    there = number_at(order, ledger.epsilon, ledger.delta, aside, cost.curve, delta)
    return (order, there) if there > endless else (math.inf, endless)


def closed(ledger, row, sole):
    """Return why a ledger that was closed by its sole charge refuses."""
    undo = ""
    if sole.kind == "reserve":
        undo = f" If no search has claimed it, release({sole.token!r}, reason) opens the ledger again."
    return (
        f"ledger must be open; entry {sole.seq} ({sole.what}) fitted its budget only as the one charge that is ever "
        f"made, and closed it. Nothing was charged for {row['what']}.{undo} To run several searches, register them "
        "as a plan, or make the first ones cheap enough for the filter (affordable tells), in a ledger for other data."
    )


def kept_open(ledger):
    """Return how a charge that closes a ledger could have left it open."""
    if math.isinf(ledger.order):
        return "Charged at a delta of its own (delta=, a part of the ledger's), it may leave the ledger open."
    return (
        "The ledger's order does not suit it: best_order finds the one that does, for a ledger that is to hold several "
        "such charges."
    )


def not_planned(row, free):
    """Return why a charge that is not on the plan is refused; ``free`` are the searches still unused."""
    names = "; ".join(f"{entry.slot}: {entry.what}" for entry in free) or "none"
    return (
        f"ledger must only be charged what its plan holds; {row['what']} (epsilon={nats_up(float(row['epsilon']))}) is "
        f"not among the planned searches still unused ({names}). Nothing was charged. A plan pays for exactly the "
        "searches that were registered: same settings, same number of rows, same relation."
    )


def remarks(ledger, entries, plan, sole):
    """Return what the number spent means, as a tuple of sentences."""
    budget = f"epsilon {as_given(ledger.epsilon)} at delta {as_given(ledger.delta)}"
    if sole is not None:
        claimed = any(entry.kind == "claim" and entry.token == sole.token for entry in entries)
        held = sole.kind == "reserve" and not claimed
        how = "while it is held, and for good once it is claimed" if held else "for good"
        return (
            f"Entry {sole.seq} is the only charge: it fits {budget} by itself, but not as one of several, so the "
            f"ledger is closed {how}. What was spent is what this charge costs.",
        )
    if plan:
        return ("The plan was composed as a whole; only its searches are accepted, and nothing else can be charged.",)
    if not entries:
        if math.isinf(ledger.order):
            return ()
        return (
            f"Charges will be added up at Renyi order {as_given(ledger.order)}, which is fixed, and suits some kinds "
            f"of charges more than others: by default Gaussian noise, so that pure ones of half of {budget} each need "
            "not fit twice. affordable(search.privacy_cost(n)) tells how many fit; best_order finds the order for a "
            "new ledger.",
        )
    if math.isinf(ledger.order):
        smaller = (
            " Each is made at a delta of its own; where that is less than the ledger's, its epsilon may be more than "
            "what the charge alone would cost at the ledger's delta."
        )
        kept = f"Whatever is charged, in whatever order, the guarantee is {budget}."
        return (f"Promises add up.{smaller if ledger.delta > 0 else ''} {kept}",)
    return (
        f"Charges may be chosen one after another, so they are added up at one Renyi order ({as_given(ledger.order)}) "
        "and converted to an epsilon: the first one also pays for the conversion, and \"spent\" may be more than what "
        f"the charges cost by themselves. The guarantee, whatever is charged, is {budget}.",
    )


def _down(amount, digits):
    """Write what is left of a budget (a Fraction), rounded down."""
    return significant_down(max(rounded(amount, -math.inf), 0.0), digits)
