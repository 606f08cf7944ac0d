"""``PrivacyLedger``: one budget across searches, users and processes.

Reading order: :meth:`PrivacyLedger.charge_once`, ``_append`` (the one place where something is charged),
``_filter`` (the arithmetic), ``_store`` (the file).
"""

import math
import secrets
import warnings
from fractions import Fraction

from skdptune._exceptions import (
    BudgetExceededError,
    InvalidParameterError,
    LedgerClosedWarning,
    RelationMismatchError,
)
from skdptune._rounding import as_given, nats_up
from skdptune._validation import check_instance, check_real, invalid_value
from skdptune.accounting import PrivacyCurve
from skdptune.ledger._audit import SOLE
from skdptune.ledger._claims import Claim
from skdptune.ledger._costs import (
    Cost,
    check_sentences,
    check_text,
    cost_of,
    earlier_charge,
    evaluating,
    new_row,
    stamp,
    versions_in_use,
)
from skdptune.ledger._digest import curve_digest
from skdptune.ledger._entries import LedgerEntry
from skdptune.ledger._file import LedgerFile, plan_of, sole_of, totals, untouched
from skdptune.ledger._filter import choose, exact, prices_of
from skdptune.ledger._orders import whole_charges
from skdptune.ledger._plans import plan_epsilon
from skdptune.ledger._words import closed, kept_open, not_planned, refusal

__all__ = ["PrivacyLedger"]

_MEANT = Fraction(3, 4)  # of the budget: who charges as much at once means to spend it all


class PrivacyLedger(LedgerFile):
    """A privacy budget kept in a file: charged before a private row is used, never edited.

    Pass it as ``ledger=`` to any number of searches, in any number of processes. Each is charged its whole
    price before it reads a row, and is refused if the total would pass the budget.

    Parameters
    ----------
    path : str or os.PathLike
        A file on a local disk. Opened if it exists (and its terms are the same), else made with mode 0600.
    epsilon : float > 0
        The budget, in nats.
    delta : float in [0, 1)
        The budget's delta. At 0, pure epsilons are added up.
    relation : {"zero-out", "replace-one", "add-remove"}, default="zero-out"
        Charges under another relation are refused.
    order : float in (1, inf], optional
        The Renyi order at which charges are added up, fixed for good. None takes the order that admits the most
        Gaussian charges. Others may fit less often than their epsilons suggest: a budget of 2 at delta 1e-6 does not
        hold two searches (``n_iter=10``, a target of 1 each) of a pure candidate, as diffprivlib's are, at the default
        order, 12; at 57 it does.
        ``order=best_order(epsilon, delta, search.privacy_cost(n))`` finds the order for your kind of search. At
        infinity, (epsilon, delta) promises are added up.
    dataset : str, optional
        Which data this budget is for, in words. One ledger must cover every release about the same people.
    delta_aside : float in [0, delta), optional
        The part of ``delta`` kept for charges whose divergence is finite only outside a small mass. Defaults to a
        tenth (all of it at order infinity).

    Attributes
    ----------
    path, epsilon, delta, relation, order, dataset, delta_aside
        As given or chosen. ``dataset`` is "" if none was named.
    rdp_budget : float
        The Renyi divergence (nats) at ``order`` that implies (epsilon, delta).
    created : str
        UTC, ISO 8601.
    identity : str
        A random name of this ledger.
    sole_charge : LedgerEntry or None
        The charge that fitted only as the one ever made, and closed the ledger.

    Raises
    ------
    LedgerError
        For a file that cannot be used: not a ledger, damaged, of a newer format, or one that this user may not write
        to, in a folder that they may not write to.
    InvalidParameterError, InvalidTypeError
        For other terms than those stored, and for a file system that is known to span machines.

    See Also
    --------
    best_order : The order for a typical charge.

    Notes
    -----
    *Guarantee.* All releases charged here together are (epsilon, delta)-differentially private under ``relation``,
    also if each was chosen after seeing the results of those before it. With a registered plan: if each release is
    one of the planned ones.

    *Assumes* what each entry's ``assumptions`` list, and that the releases use independent coins (two searches with
    one ``random_state`` do not), that everything published about the data set is charged, and that the file is not
    deleted, edited, replaced by an older copy or used under two names. Hard links and mounts of the single file are
    refused: SQLite's locks go by the name, so mount the folder (in a container, say), not the file.

    ``spent`` is where the total stands. The guarantee that holds for adaptively chosen charges is (epsilon, delta)
    of the ledger, not the smaller number spent so far.

    A copy, a clone's and a pickle's ledger are the same file: they spend the same budget.

    References
    ----------
    Feldman and Zrnic, arXiv 2008.11193; Lecuyer, arXiv 2103.01379; theory page "Filters".

    Examples
    --------
    >>> import os, tempfile
    >>> from skdptune.accounting import PrivacyCurve
    >>> path = os.path.join(tempfile.mkdtemp(), "budget.ledger")
    >>> ledger = PrivacyLedger(path, epsilon=1.0, delta=0, dataset="ward 7, 2024")
    >>> entry = ledger.charge_curve(PrivacyCurve.pure(0.25), "histogram of ages")
    >>> ledger.spent, ledger.remaining, ledger.affordable(PrivacyCurve.pure(0.25))
    (0.25, 0.75, 3)
    >>> [entry.what for entry in PrivacyLedger.open(path).entries()]
    ['histogram of ages']
    """

    # ------------------------------------------------------------------ charging

    def charge(self, spent, delta=None, description=None):
        """Charge the whole price of a search, or refuse and charge nothing.

        Parameters
        ----------
        spent : PrivacySpent
            Such as ``search.privacy_cost(n)``; searches call this themselves.
        delta : float, optional
            Where the search has no finite divergence at the ledger's order (and always at order infinity), it
            may be charged as an (epsilon, delta) promise at this delta, which is taken from ``delta_aside``.
            Defaults to the search's own, if it has one.
        description : str, optional
            What the entry says; defaults to the search in words.

        Returns
        -------
        LedgerEntry
            Its ``method`` is "sole" where it fits the budget only as the one charge ever made: see the notes.

        Raises
        ------
        BudgetExceededError
            If the total would pass the budget.
        PricingError
            If the search has no finite price at this order; RelationMismatchError if it has another relation.
        LedgerError
            If the file cannot be written, or its history was edited. Then nothing was charged, unless the message says
            otherwise.

        Notes
        -----
        *A sole charge.* A sum at one order is loose for a single mechanism. So if nothing was charged before, what has
        a price at the ledger's order that does not fit the sum, but costs by itself at most the ledger's (epsilon,
        delta), is accepted, and closes the ledger: nothing else is ever accepted (theory page "Filters", Theorem F5).
        What has no price at that order is refused instead: at another ``delta`` it may leave the ledger open.
        """
        return self._append("charge", secrets.token_hex(16), cost_of(spent, description), delta)

    def charge_once(self, token, spent, delta=None, description=None):
        """Charge like :meth:`charge`, but a token that was charged before is not charged again.

        Parameters
        ----------
        token : str
            Names the charge. A search that is resumed passes the token of its first attempt.
        spent, delta, description
            As for :meth:`charge`.

        Returns
        -------
        LedgerEntry
            The new entry, or the earlier one.

        Raises
        ------
        BudgetExceededError, PricingError, LedgerError
            As for :meth:`charge`.
        InvalidParameterError
            If the token was used for something else.
        """
        return self._append("charge", check_text("token", token), cost_of(spent, description), delta)

    def charge_curve(self, curve, description, *, delta=None, token=None, assumptions=(), n_samples=None):
        """Charge a private release made outside any search, before it is made.

        Parameters
        ----------
        curve : PrivacyCurve
            Its cost, under the ledger's relation. A sum ``a + b`` is the cost of a list that was fixed before any of
            its results was seen. Releases that are chosen one after another are charged one by one, each before it is
            made: of those no composition is known to hold, and only the ledger's own sums are.
        description : str
        delta, token
            As for :meth:`charge_once`.
        assumptions : sequence of str
            What the cost rests on.
        n_samples : int, optional
            The number of rows, where it is public.

        Returns
        -------
        LedgerEntry
        """
        check_instance("curve", curve, PrivacyCurve, "a PrivacyCurve")
        what, assumptions = check_text("description", description), check_sentences("assumptions", assumptions)
        cost = Cost(curve, what, assumptions, n_samples, versions_in_use())
        token = secrets.token_hex(16) if token is None else check_text("token", token)
        return self._append("charge", token, cost, delta)

    def reserve(self, token, spent, delta=None, description=None):
        """Hold the price of a search that will be run later.

        It counts as spent. ``fit`` with ``ledger=ledger.claim(token)`` uses it; :meth:`release` gives it back while
        nothing has.

        Parameters
        ----------
        token : str
        spent, delta, description
            As for :meth:`charge`.

        Returns
        -------
        LedgerEntry
        """
        return self._append("reserve", check_text("token", token), cost_of(spent, description), delta)

    def claim(self, token):
        """Return what to pass as ``ledger=`` to the one search that uses the reservation ``token``."""
        return Claim(self, check_text("token", token))

    def release(self, token, reason):
        """Give back a reservation that nothing has claimed: no private row was used for it.

        What was charged, or claimed by a search, stays charged whatever became of it: a crashed search has read
        the data.

        Parameters
        ----------
        token : str
        reason : str
            Goes into the history.

        Raises
        ------
        InvalidParameterError
            If there is no such reservation or it was claimed.
        """
        token, reason = check_text("token", token), check_text("reason", reason)
        with self._writing() as page:
            kinds = {row["kind"]: row for row in page.of_token(token)}
            if "release" in kinds:
                return LedgerEntry.from_row(kinds["release"])
            if "reserve" not in kinds or "claim" in kinds:
                state = "it was claimed by a search" if "claim" in kinds else "it is no reservation"
                raise InvalidParameterError(
                    f"token must name a reservation that no search has used; {token!r} cannot be released, {state}. "
                    "What a private fit may have begun with stays charged."
                )
            held = kinds["reserve"]
            row = {**held, "kind": "release", "what": reason, "epsilon": "0.0", **stamp()}
            del row["hash"]
            row["rdp"], row["aside"] = _negated(held["rdp"]), _negated(held["aside"])
            return LedgerEntry.from_row(page.append(row))

    def register_plan(self, spents, description=None):
        """Fix the searches to come, and pay for all of them at once, at the tighter price of a fixed plan.

        The composition of the whole plan is checked against the budget here; afterwards only the planned searches
        are accepted, each once, in any order. What is left out stays paid for. Registering the same plan again (a
        script that is started anew after a crash) changes nothing: its searches are still accepted once each.

        Parameters
        ----------
        spents : sequence of PrivacySpent or PrivacyCurve
            Chosen without looking at any result.
        description : str, optional

        Returns
        -------
        epsilon : float
            Of the whole plan at the ledger's delta, in nats.

        Raises
        ------
        BudgetExceededError
            If the plan costs more than the budget.
        InvalidParameterError
            If something was charged before, or a search could not be recognised later.

        Notes
        -----
        *Guarantee.* The planned searches together are (epsilon, delta)-differentially private. What they do may depend
        on earlier results, and so may their order; their costs may not (theory page "Filters", Theorem F4).
        """
        costs = [cost_of(spent, None) for spent in spents]
        if not costs:
            raise invalid_value("spents", "at least one search", spents)
        for cost in costs:
            self._check_relation(cost.curve)
        digests = [curve_digest(cost.curve) for cost in costs]
        if None in digests:
            raise InvalidParameterError(
                f"spents must be searches that another process can recognise; number {digests.index(None) + 1} has a "
                "cost without a value of its own. Build it from numbers (PrivacyCurve.from_rdp, say)."
            )
        with evaluating():
            epsilon = plan_epsilon([cost.curve for cost in costs], self.delta)
        if not _at_most(epsilon, self.epsilon):
            raise BudgetExceededError(
                f"spents must cost at most epsilon={as_given(self.epsilon)} together at delta={as_given(self.delta)}; "
                f"they cost {nats_up(epsilon)}. Plan fewer searches, smaller means of n_iter or cheaper candidates. "
                "Nothing was registered."
            )
        planned = [
            {"slot": slot, "what": cost.what, "digest": digest, "n_samples": cost.n_samples,
             "epsilon": repr(self._epsilon_of(cost))}
            for slot, (cost, digest) in enumerate(zip(costs, digests, strict=True), start=1)
        ]  # fmt: skip
        what = f"plan of {len(costs)} searches" if description is None else check_text("description", description)
        row = new_row("plan", secrets.token_hex(16), Cost(None, what, (), None, versions_in_use()), self.relation)
        row.update(epsilon=repr(epsilon), method="plan", planned=planned)
        with self._writing() as page:
            earlier = page.of_kind("plan")
            if earlier and _same_plan(earlier[0]["planned"], planned):
                return float(earlier[0]["epsilon"])
            if not untouched(page):
                raise InvalidParameterError(
                    "register_plan must come first; this ledger was charged already, and a plan made after seeing a "
                    "result is no plan. Make a new ledger with what is left of the budget for the data."
                )
            page.append(row)
        return epsilon

    def charge_accountant(self, accountant, token, description=None):
        """Charge what a diffprivlib ``BudgetAccountant`` has recorded so far, once.

        Parameters
        ----------
        accountant : diffprivlib.BudgetAccountant
            Its ``spent_budget`` is charged; its own ceiling and slack play no part. Its releases may have been chosen
            one after another, so their promises are added up, or their Renyi divergences at the ledger's order.
        token : str
            Names the import: the same token is not charged twice.

        Returns
        -------
        LedgerEntry
        """
        from skdptune.ledger._interop import cost_of_accountant

        cost = cost_of_accountant(accountant, self.relation, description)
        return self._append("charge", check_text("token", token), cost, None)

    def as_accountant(self):
        """Return a diffprivlib ``BudgetAccountant`` that spends from this ledger.

        Whatever takes ``accountant=`` in diffprivlib (histograms, means, models) then draws on the same budget. Each
        spend is charged as the (epsilon, delta) promise that diffprivlib makes.

        The charge is made when diffprivlib *checks* the budget, which it does before it reads a row, and the spend
        that follows is that charge: of two processes that ask for the last of a budget, one gets it. So a check by
        hand is a charge (ask ``remaining`` or :meth:`can_afford` instead), and a fit that fails stays charged.

        Raises
        ------
        MissingDependencyError
            Without diffprivlib.
        RelationMismatchError
            Under add-remove, where many of its functions make no promise.
        """
        from skdptune.ledger._interop import accountant_for

        return accountant_for(self)

    # ------------------------------------------------------------------ asking first

    def can_afford(self, spent, delta=None):
        """Return whether :meth:`charge` would be accepted now.

        Parameters
        ----------
        spent : PrivacySpent or PrivacyCurve
        delta : float, optional
            As for :meth:`charge`.

        Raises
        ------
        PricingError
            If it cannot be priced at all.
        """
        return self.affordable(spent, delta) > 0

    def affordable(self, spent, delta=None):
        """Return how many charges like this would be accepted now.

        Parameters
        ----------
        spent : PrivacySpent or PrivacyCurve
        delta : float, optional
            As for :meth:`charge`.

        Returns
        -------
        int
        """
        cost = cost_of(spent, None)
        self._check_relation(cost.curve)
        with self._store.reading(self.identity) as page:
            plan, sole, empty = plan_of(page), sole_of(page), untouched(page)
            left = self._left(page)
        if plan:
            digest = curve_digest(cost.curve)
            return sum(not entry.used and _is_planned(entry, digest, cost.n_samples) for entry in plan)
        if sole is not None:
            return 0
        number = whole_charges(self._prices(cost, delta), *left)
        return number or int(empty and _at_most(self._epsilon_of(cost), self.epsilon))

    # ------------------------------------------------------------------ inside

    def _check_relation(self, curve):
        if curve.relation != self.relation:
            raise RelationMismatchError(
                f"ledger counts under relation {self.relation!r}; got a price under {curve.relation!r}. Use "
                f"relation={self.relation!r} for the search, or a ledger of its relation."
            )

    def _epsilon_of(self, cost):
        with evaluating():
            epsilon = float(cost.by_itself.epsilon(self.delta))
            if math.isnan(epsilon):
                raise ValueError("its epsilon is not a number")
        return epsilon

    def _prices(self, cost, delta):
        # without another one, a quote is asked about at the delta that its search is charged at
        delta = cost.delta if delta is None else check_real("delta", delta, low=0, high=1, high_open=True)
        with evaluating():
            return prices_of(cost.curve, self.order, self.delta_aside, delta, cost.promise)

    def _left(self, page):
        """Return what is left of the two totals, as fractions."""
        rdp, aside = totals(page)
        return exact(self.rdp_budget) - rdp, exact(self.delta_aside) - aside

    def _append(self, kind, token, cost, delta):
        """Charge ``cost`` under ``token`` in one transaction, or raise and charge nothing."""
        self._check_relation(cost.curve)
        # everything slow is done before the file is locked
        row = new_row(kind, token, cost, self.relation)
        # what was chosen along the way is no search of a plan, whatever it came to
        digest = curve_digest(cost.curve) if cost.promise is None else None
        row.update(epsilon=repr(self._epsilon_of(cost)), digest=digest)
        if kind == "reserve" and digest is None:
            raise InvalidParameterError(
                "reserve must get a search that can be recognised when it claims; this one has a cost without a value "
                "of its own (a distribution of tries that no file can hold, or a function). Tabulate n_iter with "
                "Finite, build the cost from numbers, or charge the ledger itself."
            )
        with self._store.reading(self.identity) as page:
            planned = bool(page.of_kind("plan"))
        prices = None if planned else self._prices(cost, delta)
        with self._writing() as page:
            earlier = earlier_charge(page, row)
            if earlier is not None:
                return earlier
            if page.of_kind("plan"):
                self._take_slot(page, row)
            else:
                prices = self._prices(cost, delta) if prices is None else prices
                self._take_amount(page, row, cost, prices, delta)
            return LedgerEntry.from_row(page.append(row))

    def _take_amount(self, page, row, cost, prices, delta):
        """Enter the amounts of ``row``, or refuse: Theorem F2, and Theorem F5 for a sole charge."""
        sole = sole_of(page)
        if sole is not None:
            raise BudgetExceededError(closed(self, row, sole))
        rdp, aside = self._left(page)
        price, empty = choose(prices, aside), untouched(page)
        if exact(price.rdp) <= rdp and exact(price.aside) <= aside:
            row.update(rdp=repr(price.rdp), aside=repr(price.aside), method=price.method)
        elif empty and cost.promise is None and _at_most(float(row["epsilon"]), self.epsilon):
            # all of both totals: nothing would fit beside it even where "sole" were not understood
            self._warn_of_closing(row)  # before it is written: where warnings are errors, nothing is charged
            row.update(rdp=repr(self.rdp_budget), aside=repr(self.delta_aside), method=SOLE)
        else:
            delta = cost.delta if delta is None else delta
            raise BudgetExceededError(refusal(self, row, cost, price, (rdp, aside), delta=delta, empty=empty))

    def _warn_of_closing(self, row):
        if exact(float(row["epsilon"])) < exact(self.epsilon) * _MEANT:
            warnings.warn(
                f"{row['what']} costs epsilon={nats_up(float(row['epsilon']))} of the ledger's "
                f"{as_given(self.epsilon)}, but fits it only as the one charge that is ever made: it closes the "
                f"ledger. {kept_open(self)}",
                LedgerClosedWarning,
                stacklevel=5,
            )

    def _take_slot(self, page, row):
        if row["kind"] == "reserve":
            raise InvalidParameterError("reserve must not be used with a plan: its searches are paid for already.")
        free = [entry for entry in plan_of(page) if not entry.used]
        fits = [entry for entry in free if _is_planned(entry, row["digest"], row["n_samples"])]
        if not fits:
            raise BudgetExceededError(not_planned(row, free))
        row.update(kind="planned", slot=fits[0].slot, method="plan")


def _same_plan(one, other):
    """Return whether two plans list the same prices for the same numbers of rows, in the same order."""
    kept = ("slot", "digest", "n_samples")
    return [[entry[name] for name in kept] for entry in one] == [[entry[name] for name in kept] for entry in other]


def _is_planned(entry, digest, n_samples):
    """Return whether a charge is of the price, and of the number of rows where both are known, of a planned search."""
    return entry.digest == digest and (None in (entry.n_samples, n_samples) or entry.n_samples == n_samples)


def _at_most(value, limit):
    """Return whether ``value`` is finite and at most ``limit``, as decimals."""
    return math.isfinite(value) and exact(value) <= exact(limit)


def _negated(text):
    return repr(-float(text) + 0.0)
