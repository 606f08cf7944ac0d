"""What a ledger remembers: frozen entries, and how they are exported."""

import csv
import io
import json
from dataclasses import asdict, dataclass, fields

from skdptune._writing import obeyed, plain

__all__ = ["LedgerEntry", "LedgerSnapshot", "PlannedEntry", "entries_as_csv", "entries_as_json"]

_AMOUNTS = ("rdp", "aside", "epsilon")
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are wide ones
_CURATORS = frozenset({"when", "user", "token", "hash"})


@dataclass(frozen=True)
class LedgerEntry:
    """One line of a ledger's history.

    Parameters
    ----------
    seq : int
        1, 2, 3, ... in the order of charging.
    kind : {"charge", "reserve", "claim", "release", "plan", "planned"}
        A price charged; a price held, the search that uses it, or its return; a registered plan; a charge
        that the plan has paid for.
    token : str
        Names the charge: a second charge of the same token is the same charge.
    when : str
        UTC, ISO 8601.
    what : str
        The search or release, in words.
    relation : str
    n_samples : int or None
        The public number of rows; None where there is none.
    rdp : float
        Added to the total at the ledger's order, in nats; negative for a release. At order infinity this is an epsilon
        (where the ledger's delta is above 0, one promised at the entry's own ``aside``).
    aside : float
        Added to the mass set aside.
    epsilon : float
        What this entry alone costs at the ledger's delta, in nats (for comparison: totals are kept at one Renyi order).
    method : str
        How ``rdp`` was priced: "renyi", "pair", "basic", "plan", or "sole" for a charge that fitted only as the one
        ever made, and took all of both totals.
    assumptions : tuple of str
    digest : str or None
        Of the privacy curve; equal curves have equal digests in every process.
    slot : int or None
        Which planned search this is.
    versions : tuple of (str, str)
    user : str
        Login name of the account that charged.
    hash : str
        Of this entry and all before it.

    Examples
    --------
    >>> LedgerEntry.__dataclass_params__.frozen
    True
    """

    seq: int
    kind: str
    token: str
    when: str
    what: str
    relation: str
    n_samples: int | None
    rdp: float
    aside: float
    epsilon: float
    method: str
    assumptions: tuple
    digest: str | None
    slot: int | None
    versions: tuple
    user: str
    hash: str

    @classmethod
    def from_row(cls, row):
        """Return the entry that a row of the file describes."""
        values = {field.name: row[field.name] for field in fields(cls)}
        for name in _AMOUNTS:
            values[name] = float(values[name])
        values["assumptions"] = tuple(values["assumptions"])
        values["versions"] = tuple(tuple(pair) for pair in values["versions"])
        return cls(**values)

    def to_dict(self, public=False):
        """Return plain values, ready for JSON: numbers that JSON has no word for become strings ("inf").

        ``public=True`` leaves out ``when``, ``user``, ``token`` and ``hash`` (from which ``when`` could be guessed):
        the time between two charges may tell how long a search ran, and so how many tries it made.
        """
        values = asdict(self)
        if public:
            values = {name: value for name, value in values.items() if name not in _CURATORS}
        for name in _AMOUNTS:
            values[name] = plain_number(values[name])
        values["assumptions"] = list(values["assumptions"])
        values["versions"] = dict(values["versions"])
        return values


@dataclass(frozen=True)
class PlannedEntry:
    """One search of a registered plan.

    Parameters
    ----------
    slot : int
    what : str
    digest : str
        Of its privacy curve.
    n_samples : int or None
    epsilon : float
        What it alone costs at the ledger's delta, in nats.
    used : bool
        Whether it has been charged.
    """

    slot: int
    what: str
    digest: str
    n_samples: int | None
    epsilon: float
    used: bool


@dataclass(frozen=True)
class LedgerSnapshot:
    """A ledger at one moment: its totals are those of its entries, whoever charges it meanwhile.

    Parameters
    ----------
    spent, remaining, rdp_spent, aside_spent : float
        As of :class:`PrivacyLedger`.
    entries : tuple of LedgerEntry
        Oldest first.
    plan : tuple of PlannedEntry
    sole_charge : LedgerEntry or None
    head : str
        The hash of the newest entry: what :meth:`PrivacyLedger.verify` returns.
    remarks : tuple of str
        What ``spent`` means.
    """

    spent: float
    remaining: float
    rdp_spent: float
    aside_spent: float
    entries: tuple
    plan: tuple
    sole_charge: LedgerEntry | None
    head: str
    remarks: tuple


def plain_number(value):
    """Return a float as JSON can hold it: infinities as "inf" and "-inf".

    Examples
    --------
    >>> plain_number(0.5), plain_number(float("inf"))
    (0.5, 'inf')
    """
    return value if value - value == 0 else str(float(value))


def entries_as_json(header, entries, public):
    """Return strict JSON of a whole ledger."""
    content = {**header, "entries": [entry.to_dict(public) for entry in entries]}
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    # the same values, without anything that a terminal would obey
    return "".join(_escaped(sign) if obeyed(sign) and sign != "\n" else sign for sign in text) + "\n"


def _escaped(sign):
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else json.dumps(sign)[1:-1]


def entries_as_csv(entries, public):
    """Return one line per entry under a header of field names; lists are joined by " | ".

    Texts are for people: control and direction signs are escaped as in ``ledger show``, and one that a spreadsheet
    would take for a formula has an apostrophe before it. The JSON holds them unchanged.
    """
    names = [field.name for field in fields(LedgerEntry) if not (public and field.name in _CURATORS)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for entry in entries:
        values = entry.to_dict(public)
        values["assumptions"] = " | ".join(values["assumptions"])
        values["versions"] = " | ".join(f"{name} {version}" for name, version in values["versions"].items())
        writer.writerow([_cell(values[name], name in _AMOUNTS) for name in names])
    return out.getvalue()


def _cell(value, amount):
    """Return what stands in a cell; an amount is a number, negative or "-inf" as it may be, and never guarded."""
    if value is None:
        return ""
    if amount or not isinstance(value, str):
        return value
    text = plain(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
