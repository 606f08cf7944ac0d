"""What a reader must know before a price or a score: one wording for terminals, cards, reports and the command line."""

import math

from skdptune._rounding import nats_up, number, percent_up, plain_as_given, significant_up
from skdptune.accounting._trade_off import profile_nodes
from skdptune.model_selection._spent import LOUD

__all__ = ["LARGE_DELTA", "loud_score", "misfit_score", "price_notes", "repeated_score", "spent_notes"]

LARGE_DELTA = 0.01  # called large where the number of rows is not known
_WEAK = 0.9  # an advantage from which on little protection is left
_FAR = 10.0  # standard deviations of its noise by which no score leaves its range


def price_notes(curve, delta, n_rows=None):
    """Return what must be said beside a price, the gravest first.

    Parameters
    ----------
    curve : PrivacyCurve
        What all that is released costs.
    delta : float in [0, 1)
        Where the price is stated.
    n_rows : int or None
        The number of rows protected, where it is public.

    Returns
    -------
    list of str
        Empty where there is nothing to say.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve
    >>> price_notes(PrivacyCurve.pure(1.0), 1e-6, 1000)
    []
    >>> for note in price_notes(PrivacyCurve.pure(8.0), 0.5):
    ...     print(note[:60])
    The protection is weak: the bound on an attacker's advantage
    delta = 0.5 is large: at such a delta even publishing each p
    """
    epsilon = curve.epsilon(delta)
    notes = []
    if not math.isfinite(epsilon):
        notes.append(
            f"NO GUARANTEE at delta = {plain_as_given(delta)}: no finite epsilon is known. Do not release on the "
            "strength of this price."
        )
    elif _allows(epsilon, delta) >= _WEAK and (advantage := float(profile_nodes(curve)[1][0])) >= _WEAK:
        notes.append(
            f"The protection is weak: the bound on an attacker's advantage is {percent_up(advantage)} "
            f"(epsilon {nats_up(epsilon)})."
        )
    if n_rows is not None and delta * n_rows >= 1:
        notes.append(
            f"delta = {plain_as_given(delta)} is not below 1 / {n_rows}: at such a delta even publishing a few people's"
            " rows in full can count as private. Judge by a smaller delta."
        )
    elif n_rows is None and delta >= LARGE_DELTA:
        notes.append(
            f"delta = {plain_as_given(delta)} is large: at such a delta even publishing each person's row in full with "
            "that probability counts as private. Judge by one well below 1 over the number of rows."
        )
    return notes


def _allows(epsilon, delta):
    """Return an advantage that one point of a profile allows: reading the whole profile can only give less."""
    if epsilon > 50:
        return 1.0
    return (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)


def spent_notes(spent, delta):
    """Return :func:`price_notes` of a :class:`PrivacySpent`."""
    return price_notes(spent.curve, delta, spent.n_protected)


def loud_score(name, deviation, so):
    """Return, as a list, what is said of a score whose noise leaves little of it."""
    if deviation is None or deviation < LOUD:
        return []
    return [
        f"The noise drowns the {name}: its standard deviation is {significant_up(deviation, 2)} of the score's "
        f"range. {so}. The price is right all the same; more rows or a larger epsilon make a score of use."
    ]


def misfit_score(name, score, score_range, deviation):
    """Return, as a list, what is said of a score that no noise alone can have put so far outside its range.

    It follows from the released score and from public numbers.

    Parameters
    ----------
    name : str
    score : float
        As released.
    score_range : (float, float) or None
        Of the score of any rows; None where it is not known.
    deviation : float or None
        Standard deviation of the noise, over the range.
    """
    if deviation is None or score_range is None or not math.isfinite(score):
        return []
    low, high = score_range
    if max(low - score, score - high) <= _FAR * deviation * (high - low):
        return []
    return [
        f"The {name} ({number(score)}) lies more than ten standard deviations of its noise outside its range, "
        f"{number(low)} to {number(high)}: the public number that it was divided by is far from the number of rows "
        "that were scored. The price is right all the same; the score says nothing as it stands."
    ]


def repeated_score(count):
    """Return what is said of test score number ``count`` of one search; as a list, empty for the first."""
    if count == 1:
        return []
    return [
        f"This is test score number {count} of one search. The price of search and score together holds where no row "
        "of an earlier one is scored again. Rows that are scored again pay for all their scores: with this search they "
        "cost PrivacyCurve.worst([search.privacy_spent_.curve, first.curve + second.curve])."
    ]
