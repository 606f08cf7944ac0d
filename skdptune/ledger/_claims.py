"""A reservation as a ledger of its own, for the one search that uses it."""

import secrets

from skdptune._exceptions import InvalidParameterError
from skdptune.ledger._costs import check_text, cost_of, new_row
from skdptune.ledger._digest import curve_digest
from skdptune.ledger._entries import LedgerEntry

__all__ = ["Claim"]


class Claim:
    """A reservation as the ledger of the one search that uses it; made by :meth:`PrivacyLedger.claim`."""

    shared_across_processes = True

    def __init__(self, ledger, token):
        self.ledger, self.token = ledger, token

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"{self.ledger!r}.claim({self.token!r})"

    def charge(self, spent, delta=None):
        """Use the reservation; see :meth:`charge_once`."""
        return self.charge_once(secrets.token_hex(16), spent, delta)

    def charge_once(self, token, spent, delta=None):
        """Use the reservation for the search with this ``token``; another search is refused.

        Raises
        ------
        InvalidParameterError
            If the reservation does not exist, is used by another search, or was made for another price.
        LedgerError
            If the ledger cannot be used, or its history was edited.
        """
        cost, by = cost_of(spent, None), check_text("token", token)
        ledger = self.ledger
        ledger._check_relation(cost.curve)
        digest = curve_digest(cost.curve)
        with ledger._writing() as page:
            kinds = {row["kind"]: row for row in page.of_token(self.token)}
            reason = _unclaimable(kinds, digest, by)
            if not reason and "claim" in kinds:
                return LedgerEntry.from_row(kinds["claim"])
            if reason:
                raise InvalidParameterError(
                    f"token must name an unused reservation of this search's price; {self.token!r} {reason}. Nothing "
                    "was charged. Reserve anew, or charge the ledger itself."
                )
            row = new_row("claim", self.token, cost, ledger.relation)
            row.update(digest=digest, epsilon="0.0", method=kinds["reserve"]["method"], by=by)
            return LedgerEntry.from_row(page.append(row))


def _unclaimable(kinds, digest, by):
    if "reserve" not in kinds:
        return "is no reservation"
    if "release" in kinds:
        return "was released"
    if "claim" in kinds and kinds["claim"].get("by") != by:
        return "was claimed by another search"
    if digest is None or kinds["reserve"]["digest"] != digest:
        return "was made for another price"
    return ""
