"""What a ledger was charged for the price that a report states, and why its numbers are others."""

import os
from dataclasses import dataclass

from skdptune._exceptions import InvalidParameterError, LedgerError
from skdptune._validation import invalid_type, invalid_value
from skdptune.ledger import PrivacyLedger
from skdptune.ledger._claims import Claim
from skdptune.ledger._digest import curve_digest
from skdptune.ledger._entries import plain_number

__all__ = ["Charged", "charged_to", "ledgers_behind"]

_PAYS = ("charge", "planned")  # the kinds of entries that pay for a search; so does a claimed reservation


@dataclass(frozen=True)
class Charged:
    """What a ledger was charged for one price, when the report was made.

    Parameters
    ----------
    values : dict
        Plain values, as in the report.
    """

    values: dict


def charged_to(ledger, published, spent):
    """Return what was charged for ``spent`` as a :class:`Charged`, or None.

    Without a ledger, that of the fitted search ``published`` is asked, and left out where it knows of no such charge.

    Raises
    ------
    InvalidTypeError, InvalidParameterError, LedgerError
    """
    if type(ledger) is Charged:
        return ledger
    if ledger is None:
        return _own(published, spent)
    found = PrivacyLedger.open(ledger) if isinstance(ledger, (str, os.PathLike)) else _ledger_behind(ledger)
    if found is None:
        advice = "Pass the ledger that the search was given, or its path."
        raise invalid_type("ledger", "a PrivacyLedger", ledger, advice)
    if spent.stage != "spent":
        advice = "Leave it out: a quote has charged nothing, and an inner search is paid for by the outer one."
        raise invalid_value("ledger", "None in this report", found, advice)
    values = _charges_of(found, spent)
    if values is None:
        raise InvalidParameterError(
            "ledger must be the one that was charged this price; none of its entries is of this price. Pass the one "
            "that the search, or the test score, was given."
        )
    return Charged(values)


def _own(published, spent):
    """Return what the ledgers that a search and its test score were given say, from the one that says most."""
    if spent.stage != "spent":
        return None
    best = None
    for found in ledgers_behind(getattr(published, "ledger", None), *getattr(spent.test_score, "ledgers", ())):
        try:
            values = _charges_of(found, spent)
        except LedgerError:  # moved away since: a report can be made without it
            continue
        if values is not None and (best is None or len(values["entries"]) > len(best["entries"])):
            best = values
    return None if best is None else Charged(best)


def ledgers_behind(*ledgers):
    """Return each PrivacyLedger that one of ``ledgers`` spends from, once, as a tuple."""
    found = (_ledger_behind(ledger) for ledger in ledgers)
    return tuple(dict.fromkeys(ledger for ledger in found if ledger is not None))


def _ledger_behind(ledger):
    """Return the PrivacyLedger that a claim or an accountant spends from, or None."""
    found = ledger.ledger if isinstance(ledger, Claim) else getattr(ledger, "__skdptune_ledger__", ledger)
    return found if isinstance(found, PrivacyLedger) else None


def _charges_of(ledger, spent):
    """Return what ``ledger`` was charged for ``spent``, as plain values for the report, or None if nothing was.

    The newest entry of a price is taken: an entry names no search, and the report says so.
    """
    snapshot = ledger.snapshot()
    test = spent.test_score
    searched = spent if test is None else test.search_spent
    parts = [("search", searched.curve, searched.n_samples)]
    if test is not None:
        parts.append(("test score", test.curve, None if spent.relation == "add-remove" else test.n_rows))
    entries = []
    for what, curve, n_samples in parts:
        entry = _entry_of(ledger, snapshot.entries, curve, n_samples)
        if entry is not None:
            entries.append({
                "what": what, "entry": entry.seq, "method": entry.method, "charged": plain_number(entry.rdp),
                "delta_charged": entry.aside, "epsilon": plain_number(entry.epsilon),
            })  # fmt: skip
    if not entries:
        return None
    return {
        "dataset": ledger.dataset,
        "identity": ledger.identity,
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "order": plain_number(ledger.order),
        "spent": plain_number(snapshot.spent),
        "remaining": plain_number(snapshot.remaining),
        "n_entries": len(snapshot.entries),
        "entries": entries,
    }


def _entry_of(ledger, entries, curve, n_samples):
    """Return the newest entry that pays for ``curve`` on so many rows, or None."""
    if curve.relation != ledger.relation:
        return None
    digest = curve_digest(curve)
    epsilon = curve.epsilon(ledger.delta) if digest is None else None
    claimed = {entry.token for entry in entries if entry.kind == "claim"}
    for entry in reversed(entries):
        same = entry.digest == digest if digest is not None else entry.epsilon == epsilon
        # a reservation that no search has claimed is held for one that has not been seen, or was given back
        pays = entry.kind in _PAYS or (entry.kind == "reserve" and entry.token in claimed)
        if pays and same and entry.n_samples == n_samples:
            return entry
    return None
