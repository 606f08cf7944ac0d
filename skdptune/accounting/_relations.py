"""Neighbouring relations: which two datasets the promise compares."""

from skdptune._validation import check_choice

__all__ = ["RELATIONS", "check_relation", "dp_accounting_relation"]

RELATIONS = ("zero-out", "replace-one", "add-remove")

_ADVICE = (
    "zero-out blanks one row and keeps n public, replace-one swaps one row for another, "
    "add-remove adds or drops one row"
)


def check_relation(relation):
    """Return ``relation`` if it is one of the three relations skdptune prices.

    Examples
    --------
    >>> check_relation("zero-out")
    'zero-out'
    """
    return check_choice("relation", relation, RELATIONS, _ADVICE + ".")


def dp_accounting_relation(relation):
    """Return dp_accounting's name for ``relation``.

    Examples
    --------
    >>> dp_accounting_relation("zero-out").name
    'REPLACE_SPECIAL'
    """
    from dp_accounting import NeighboringRelation

    names = {
        "zero-out": NeighboringRelation.REPLACE_SPECIAL,
        "replace-one": NeighboringRelation.REPLACE_ONE,
        "add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    }
    return names[check_relation(relation)]
