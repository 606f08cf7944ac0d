"""The file side of a ledger: opening it, copies of it, totals and history. Nothing here charges."""

import contextlib
import math
import os
import textwrap
from dataclasses import asdict
from fractions import Fraction

from skdptune._exceptions import InvalidParameterError, InvalidTypeError, LedgerError, OutputError
from skdptune._rounding import as_given, decimals
from skdptune._writing import plain, write_text
from skdptune.ledger._audit import SOLE, broken_rule
from skdptune.ledger._entries import (
    LedgerEntry,
    LedgerSnapshot,
    PlannedEntry,
    entries_as_csv,
    entries_as_json,
    plain_number,
)
from skdptune.ledger._filter import budget_at, exact, rounded, split_delta
from skdptune.ledger._names import LEFTOVERS
from skdptune.ledger._store import FORMAT, Store, damaged, refuse_network
from skdptune.ledger._terms import absolute, asked_terms, complete_terms, for_divergence
from skdptune.ledger._words import remarks

__all__ = ["LedgerFile", "plan_of", "sole_of", "totals", "untouched"]


# The terms, and where they are kept.
_FIXED = frozenset(
    {
        *("path", "epsilon", "delta", "relation", "order", "dataset", "delta_aside"),
        *("rdp_budget", "created", "identity", "_store", "_terms"),
    }
)


def _check_given(path, **terms):
    """Refuse a ledger without a budget, in the words of whoever meant to open one."""
    missing = " and ".join(name for name, value in terms.items() if value is None)
    if missing:
        raise InvalidTypeError(
            f"{missing} must be given: PrivacyLedger(path, epsilon, delta) makes a ledger where there is none, and "
            f"compares its terms where there is one. PrivacyLedger.open({path!r}) opens the one that is there."
        )


class LedgerFile:
    """A ledger that can be read; :class:`PrivacyLedger` adds what charges it."""

    #: The same budget in every process: copies of a search may carry it along.
    shared_across_processes = True

    def __init__(
        self, path, epsilon=None, delta=None, relation="zero-out", order=None, dataset=None, delta_aside=None
    ):
        _check_given(path, epsilon=epsilon, delta=delta)
        asked = asked_terms(epsilon, delta, relation, order, dataset, delta_aside)
        self._use(absolute(path))
        refuse_network(self.path)
        if not os.path.lexists(self.path):
            Store.create(self.path, complete_terms(asked))
        self._load()
        self._compare(asked)

    @classmethod
    def open(cls, path):
        """Open the ledger at ``path``, whatever its terms; nothing is made.

        Raises
        ------
        LedgerError
            If there is none, or it cannot be used.
        """
        ledger = object.__new__(cls)
        ledger._use(absolute(path))
        refuse_network(ledger.path)
        ledger._load()
        return ledger

    def _use(self, path):
        self.path, self._store = path, Store(path)

    def _load(self):
        self._store.check()
        self._adopt(self._store.terms())

    def _adopt(self, terms):
        try:
            epsilon, delta, order, aside = (float(terms[name]) for name in ("epsilon", "delta", "order", "delta_aside"))
            asked = asked_terms(epsilon, delta, terms["relation"], order, None, aside)
            split_delta(delta, order, aside)
            budget = budget_at(order, epsilon, for_divergence(order, delta, aside))
            texts = {name: str(terms[name]) for name in ("dataset", "identity", "created")}
            if not budget > 0:
                raise ValueError("they leave no budget")
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(
                f"path must be a ledger with readable terms; {self.path!r} lacks them ({type(error).__name__}). "
                "Restore a copy."
            ) from None
        self.epsilon, self.delta, self.order, self.delta_aside = epsilon, delta, order, aside
        self.relation, self.rdp_budget, self._terms = asked["relation"], budget, terms
        for name, text in texts.items():
            setattr(self, name, text)

    def _compare(self, asked):
        differ = [name for name, value in asked.items() if value is not None and value != getattr(self, name)]
        if differ:
            found = ", ".join(f"{name}={getattr(self, name)!r}" for name in differ)
            got = ", ".join(f"{name}={asked[name]!r}" for name in differ)
            raise InvalidParameterError(
                f"path must be a new file or a ledger of the same terms; {self.path!r} was made with {found}, got "
                f"{got}. A budget is fixed when its ledger is made: use PrivacyLedger.open(path) to go on with it."
            )

    def __setattr__(self, name, value):
        if name in _FIXED and name in vars(self):
            raise AttributeError(
                f"{name} of a ledger is fixed when it is made, and cannot be set. Make another ledger for other data."
            )
        super().__setattr__(name, value)

    # ------------------------------------------------------------------ copies are the same budget

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _restored, (type(self), self.path, self._terms)

    def __eq__(self, other):
        if not isinstance(other, LedgerFile):
            return NotImplemented
        return (self.path, self.identity) == (other.path, other.identity)

    def __hash__(self):
        return hash((self.path, self.identity))

    def __repr__(self):
        return (
            f"PrivacyLedger({self.path!r}, epsilon={self.epsilon!r}, delta={self.delta!r}, "
            f"relation={self.relation!r}, order={self.order!r})"
        )

    def __str__(self):
        return self.summary()

    # ------------------------------------------------------------------ totals

    @property
    def spent(self):
        """What has been charged, as an epsilon (nats) at the ledger's delta, rounded up."""
        return self.epsilon_spent()

    @property
    def remaining(self):
        """What may still be charged, as an epsilon (nats) at the ledger's delta, rounded down.

        0 after a sole charge, and once a plan is registered: its searches are paid for, and nothing else is accepted.
        """
        with self._store.reading(self.identity) as page:
            return self._remaining(page)

    def _remaining(self, page):
        left = exact(self.epsilon) - exact(self._spent(page))
        closed = sole_of(page) is not None or page.of_kind("plan")
        return 0.0 if closed else max(rounded(left, -math.inf), 0.0)

    @property
    def sole_charge(self):
        """The entry that fitted only as the one charge ever made, and closed this ledger; None in others."""
        with self._store.reading(self.identity) as page:
            return sole_of(page)

    def epsilon_spent(self):
        """Return :attr:`spent`.

        Notes
        -----
        It is where the total stands: at a finite order the Renyi total converted at the ledger's delta, so the first
        charge also pays the conversion. For charges chosen one after another the *guarantee* is the ledger's epsilon.
        A plan, or a sole charge, costs what it costs by itself.
        """
        with self._store.reading(self.identity) as page:
            return self._spent(page)

    def _spent(self, page):
        plans, sole = page.of_kind("plan"), sole_of(page)
        rdp, aside = totals(page)
        if plans:
            return float(plans[0]["epsilon"])
        if sole is not None:
            return sole.epsilon
        if rdp == 0 and aside == 0:
            return 0.0
        # epsilon - (budget - spent): the conversion of budget_at, read backwards, rounded up
        return max(rounded(exact(self.epsilon) - exact(self.rdp_budget) + rdp, math.inf), 0.0)

    def remarks(self):
        """Return what :attr:`spent` means here, as a tuple of sentences."""
        return self.snapshot().remarks

    @property
    def rdp_spent(self):
        """The total of the charges' Renyi divergences (nats) at ``order``, rounded up; it may reach ``rdp_budget``."""
        with self._store.reading(self.identity) as page:
            return rounded(totals(page)[0], math.inf)

    @property
    def aside_spent(self):
        """The total mass set aside by the charges, rounded up; it may reach ``delta_aside``."""
        with self._store.reading(self.identity) as page:
            return rounded(totals(page)[1], math.inf)

    def snapshot(self):
        """Return totals, plan and history as they stand together at one moment, while others charge.

        Returns
        -------
        LedgerSnapshot

        Raises
        ------
        LedgerError
            As for :meth:`verify`.
        """
        with self._store.reading(self.identity) as page:
            rows = self._audited(page)
            entries, plan, sole = tuple(LedgerEntry.from_row(row) for row in rows), plan_of(page), sole_of(page)
            rdp, aside = (rounded(total, math.inf) for total in totals(page))
            return LedgerSnapshot(
                spent=self._spent(page),
                remaining=self._remaining(page),
                rdp_spent=rdp,
                aside_spent=aside,
                entries=entries,
                plan=plan,
                sole_charge=sole,
                head=entries[-1].hash if entries else page.first_hash(),
                remarks=remarks(self, entries, plan, sole),
            )

    # ------------------------------------------------------------------ history

    def entries(self):
        """Return the whole history, oldest first, as a tuple of :class:`LedgerEntry`."""
        with self._store.reading(self.identity) as page:
            return tuple(LedgerEntry.from_row(row) for row in self._audited(page))

    def _audited(self, page):
        """Return the rows after checking the chain, and that each was to be admitted when it was."""
        rows = page.audited()
        broken = broken_rule(rows, self.epsilon, self.rdp_budget, self.delta_aside)
        if broken is not None:
            raise LedgerError(
                f"the history of {self.path!r} was not written by a ledger: entry {broken[0]} would not have been "
                f"admitted ({broken[1]}). Do not charge it; find out what was released, and count all of it as spent."
            )
        return rows

    @contextlib.contextmanager
    def _writing(self):
        """Give a page to append to, after auditing what it is appended to: an edited history is not charged."""
        with self._store.writing(self.identity) as page:
            self._audited(page)
            yield page

    def plan(self):
        """Return the registered plan as a tuple of :class:`PlannedEntry`; empty without one."""
        with self._store.reading(self.identity) as page:
            return plan_of(page)

    def verify(self, head=None):
        """Check that the history is the one that was written, and that every entry was to be admitted.

        Parameters
        ----------
        head : str, optional
            A hash that :meth:`verify` returned earlier and that was kept elsewhere: it must still be part of the
            history. This is what tells a rewritten history, or an older copy put in its place, from the true one:
            whoever can write the file can also compute hashes.

        Returns
        -------
        str
            The hash of the newest entry, to be kept elsewhere.

        Raises
        ------
        LedgerError
            If an entry was edited, removed or inserted, or breaks the rules of a ledger.
        """
        with self._store.reading(self.identity) as page:
            hashes = [page.first_hash(), *(row["hash"] for row in self._audited(page))]
        if head is not None and head not in hashes:
            raise LedgerError(
                f"the history of {self.path!r} no longer contains the entry with hash {head!r}: it was rewritten, or "
                "an older copy was put in its place. Do not charge it; count everything charged since as spent."
            )
        return hashes[-1]

    def to_json(self, path=None, *, public=False):
        """Return the terms, totals and history as strict JSON, and write it to ``path`` if given.

        Parameters
        ----------
        path : str or os.PathLike, optional
        public : bool, default=False
            True leaves out times (that of making the ledger, too), accounts, tokens and hashes. The time between two
            charges may tell how long a search ran, and so how many tries it made, which is not to be published.

        Returns
        -------
        str
            Infinities are the string "inf". Amounts add up exactly as the decimals that are printed.
        """
        now = self.snapshot()
        header = {
            "format": FORMAT,
            **{name: getattr(self, name) for name in ("identity", "created", "dataset", "relation")
               if not (public and name == "created")},
            **{name: plain_number(getattr(self, name)) for name in ("epsilon", "delta", "delta_aside", "order")},
            "rdp_budget": self.rdp_budget,
            **{name: getattr(now, name) for name in ("spent", "remaining", "rdp_spent", "aside_spent")},
            "remarks": list(now.remarks),
            "plan": [asdict(entry) for entry in now.plan],
        }
        if not public:
            header["head"] = now.head
        return _written(path, entries_as_json(header, now.entries, public), self.path)

    def to_csv(self, path=None, *, public=False):
        """Return the history as CSV with a header, one line per entry; see :meth:`to_json`.

        For spreadsheets: control signs in texts are escaped, and a text that starts with ``=``, ``+``, ``-`` or ``@``
        has an apostrophe before it, so that it is no formula.
        """
        return _written(path, entries_as_csv(self.entries(), public), self.path)

    def summary(self):
        """Return a short text: terms, what is spent and left, and one line per entry."""
        now = self.snapshot()
        lines = [
            f"Privacy ledger {plain(self.path)}",
            f"  data set: {plain(self.dataset) or '(not named)'}",
            f"  budget: epsilon = {as_given(self.epsilon)} at delta = {as_given(self.delta)}, "
            f"relation {self.relation}, counted at Renyi order {as_given(self.order)}",
            f"  spent: {_shown(now.spent, up=True)}, left: {_shown(now.remaining, up=False)}, "
            f"entries: {len(now.entries)}",
        ]
        if now.plan:
            lines.append(f"  plan: {sum(entry.used for entry in now.plan)} of {len(now.plan)} searches used")
        lines += [
            f"  {entry.seq:>4}  {entry.when}  {entry.kind:<8} {_shown(entry.epsilon, up=True):>8}  {plain(entry.what)}"
            for entry in now.entries
        ]
        lines += textwrap.wrap(" ".join(now.remarks), 100, initial_indent="  ", subsequent_indent="  ")
        return "\n".join(lines)


def totals(page):
    """Return the exact sums of both amounts over all entries."""
    rows = page.amounts()
    try:
        return tuple(sum((Fraction(row[column]) for row in rows), Fraction(0)) for column in (0, 1))
    except (TypeError, ValueError, ArithmeticError):
        raise LedgerError(damaged(page.path, "an amount is no number")) from None


def untouched(page):
    """Return whether nothing was ever charged: no entries, but for reservations that were given back unused."""
    kinds = page.kinds()
    return set(kinds) <= {"reserve", "release"} and kinds.get("reserve", 0) == kinds.get("release", 0)


def sole_of(page):
    """Return the entry whose charge closed the ledger, or None: a reservation given back closes nothing."""
    for row in page.of_method(SOLE):
        if not any(other["kind"] == "release" for other in page.of_token(row["token"])):
            return LedgerEntry.from_row(row)
    return None


def plan_of(page):
    plans = page.of_kind("plan")
    if not plans:
        return ()
    used = {row["slot"] for row in page.of_kind("planned")}
    return tuple(
        PlannedEntry(
            slot=entry["slot"],
            what=entry["what"],
            digest=entry["digest"],
            n_samples=entry["n_samples"],
            epsilon=float(entry["epsilon"]),
            used=entry["slot"] in used,
        )
        for entry in plans[0]["planned"]
    )


def _shown(value, *, up):
    """Format with four decimals, rounded to the private side."""
    return decimals(value, 4, up=up)


def _restored(kind, path, terms):
    """Rebuild a pickled ledger without touching its file, which this process may not need or see."""
    ledger = object.__new__(kind)
    ledger._use(path)
    ledger._adopt(terms)
    return ledger


def _written(path, text, ledger):
    """Return ``text``, written to ``path`` if there is one, which may not be the ledger itself."""
    if path is None:
        return text
    same = False
    with contextlib.suppress(OSError, TypeError, ValueError):  # no such file, or no file name: told below
        own = [os.path.realpath(ledger) + ending for ending in ("", *LEFTOVERS)]
        same = os.path.realpath(path) in own or os.path.samefile(path, ledger)
    if same:
        raise InvalidParameterError(
            f"path must not be the ledger's own file, or a part of it; {path!r} is, and would be lost. Nothing was "
            "written."
        )
    try:
        write_text(path, text)
    except OutputError as error:
        raise LedgerError(f"{error} The ledger is unharmed.") from None
    return text
