"""Whether a history is one that a ledger writes: every entry is checked against the rules that admitted it.

The hashes show that an entry was changed; they do not show that it should never have been admitted (another program
may have written it, hashes and all). This reads the history from its beginning and applies the rules again.
"""

from fractions import Fraction

from skdptune.ledger._filter import exact

__all__ = ["SOLE", "broken_rule"]

SOLE = "sole"  # the method of a charge that closes its ledger
# Limits are computed anew when a ledger is opened, and the last digits of a logarithm differ between machines.
_SLACK = Fraction(1, 10**9)


class _Replay:
    """The state of a ledger between two entries."""

    def __init__(self, epsilon, rdp_budget, delta_aside):
        self.epsilon = epsilon
        self.limits = [exact(limit) * (1 + _SLACK) for limit in (rdp_budget, delta_aside)]
        self.totals = [Fraction(0), Fraction(0)]
        self.held, self.taken, self.planned = {}, 0, None
        self.sole = None

    def step(self, row):
        """Take in one entry; return what is wrong with it, or None."""
        rules = {"charge": self._amount, "reserve": self._amount, "release": self._release, "claim": self._claim,
                 "plan": self._plan, "planned": self._slot}  # fmt: skip
        rule = rules.get(row["kind"])
        return "its kind is unknown" if rule is None else rule(row)

    def _untouched(self):
        return not self.held and not self.taken and self.planned is None

    def _add(self, row, sign):
        amounts = [Fraction(row["rdp"]), Fraction(row["aside"])]
        if any(sign * amount < 0 for amount in amounts):
            return "an amount has the wrong sign"
        self.totals = [total + amount for total, amount in zip(self.totals, amounts, strict=True)]
        over = any(total > limit for total, limit in zip(self.totals, self.limits, strict=True))
        return "the total passes the budget" if over else None

    def _amount(self, row):
        if self.sole is not None:
            return "it follows a charge that closed the ledger"
        if self.planned is not None:
            return "it is not on the plan"
        if row["method"] == SOLE:
            if not self._untouched():
                return "a sole charge has to be the first one"
            if exact(float(row["epsilon"])) > exact(self.epsilon):
                return "by itself it costs more than the budget"
            self.sole = row["token"]
        if row["kind"] == "reserve":
            self.held[row["token"]] = row
        else:
            self.taken += 1
        return self._add(row, 1)

    def _release(self, row):
        held = self.held.pop(row["token"], None)
        if held is None:
            return "no open reservation has its token"
        if any(Fraction(row[name]) != -Fraction(held[name]) for name in ("rdp", "aside")):
            return "it gives back another amount than was held"
        if self.sole == row["token"]:
            self.sole = None
        return self._add(row, -1)

    def _claim(self, row):
        held = self.held.pop(row["token"], None)
        if held is None:
            return "no open reservation has its token"
        self.taken += 1
        return None if held["digest"] == row["digest"] and _free(row) else "it claims another price than was held"

    def _plan(self, row):
        if not self._untouched():
            return "a plan has to come first"
        self.planned = {entry["slot"]: entry["digest"] for entry in row["planned"]}
        over = exact(float(row["epsilon"])) > exact(self.epsilon)
        return "the plan costs more than the budget" if over or not _free(row) else None

    def _slot(self, row):
        on_plan = self.planned is not None and row["digest"] is not None
        if not on_plan or self.planned.pop(row["slot"], None) != row["digest"] or not _free(row):
            return "it is not an unused search of the plan"
        return None


def _free(row):
    return not Fraction(row["rdp"]) and not Fraction(row["aside"])


def broken_rule(rows, epsilon, rdp_budget, delta_aside):
    """Return (seq, sentence) of the first entry that a ledger of these terms would not have admitted, or None."""
    replay = _Replay(epsilon, rdp_budget, delta_aside)
    for row in rows:
        try:
            wrong = replay.step(row)
        except (KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError):
            wrong = "its values cannot be read"
        if wrong is not None:
            return row["seq"], wrong
    return None
