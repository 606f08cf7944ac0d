"""Where a display's numbers come from: curves, searches, and what a search has spent."""

import math

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._validation import check_instance, check_integer, invalid_type, invalid_value
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.accounting._exact import exact_epsilon
from skdptune.accounting.selection import SelectedCurve

__all__ = ["closed_form_of", "closed_form_spent", "common_relation", "lower_bound", "marked_delta", "named_curves"]
__all__ += ["beside", "check_search", "curves_of", "spent_by"]


def named_curves(curve, name):
    """Return {name: curve} of one curve or of a mapping of curves, all of one relation."""
    if isinstance(curve, PrivacyCurve):
        return {name or ("whole search" if isinstance(curve, SelectedCurve) else "mechanism"): curve}
    if not hasattr(curve, "items"):
        advice = "Pass e.g. PrivacyCurve.gaussian(3.0), or {'small noise': ..., 'large noise': ...}."
        raise invalid_type("curve", "a PrivacyCurve or a mapping of names to them", curve, advice)
    curves = {str(key): value for key, value in curve.items()}
    if len(curves) < len(curve):
        raise invalid_value("curve", "a mapping whose names differ as text", curve)  # one would hide the other
    if not curves:
        raise invalid_value("curve", "a mapping of at least one name to a PrivacyCurve", curve)
    for value in curves.values():
        check_instance("curve", value, PrivacyCurve, "a mapping of names to PrivacyCurve objects")
    return curves


def beside(curves, **others):
    """Return ``curves`` and those of ``others`` that are known, none of which may hide another."""
    found = {name: curve for name, curve in others.items() if curve is not None}
    for name in set(curves) & set(found):
        raise invalid_value("name", f"another name than {name!r}, which is drawn beside it", name)
    return {**curves, **found}


def common_relation(curves):
    """Return the relation of all curves; curves of two relations may not share a figure."""
    return PrivacyCurve.worst(list(curves)).relation


def spent_by(estimator, n_samples=None):
    """Return the PrivacySpent of a search: after fit what it spent, before it what it will cost."""
    check_search(estimator, n_samples)
    if not hasattr(estimator, "privacy_cost"):
        spent = estimator
    elif hasattr(estimator, "privacy_spent_"):
        spent = estimator.privacy_spent_
    else:
        return estimator.privacy_cost(n_samples=n_samples)
    if n_samples is not None and n_samples != (spent.n_samples or n_samples):
        expected = f"left out, or {spent.n_samples}: what was priced for so many rows is drawn"
        raise invalid_value("n_samples", expected, n_samples, "Draw sklearn.base.clone(search) for another number.")
    return spent


def check_search(estimator, n_samples=None):
    """Return ``estimator`` if it is a search or what one has spent, and ``n_samples`` a number of rows or None."""
    spent = hasattr(estimator, "curve") and hasattr(estimator, "run_count")
    if isinstance(estimator, type) or not (spent or hasattr(estimator, "privacy_cost")):
        advice = "Curves of other mechanisms are drawn by from_curve."
        raise invalid_type("estimator", "a PrivateRandomSearchCV or a PrivacySpent", estimator, advice)
    if n_samples is not None:
        check_integer("n_samples", n_samples, low=1)
    return estimator


def marked_delta(spent):
    """Return where epsilons are marked on a logarithmic axis: at the delta of the search's report, unless that is 0.

    A search whose target is at delta 0 holds at every other one, too: 1e-6 stands for them.
    """
    return spent.default_delta or 1e-6


def closed_form_of(curve):
    """Return the curve that the literature's closed forms give for a search, or None."""
    if not isinstance(curve, SelectedCurve):
        return None
    try:
        return best_of(curve.single_run, curve.run_count, method="closed_form")
    except PricingError:
        return None


def closed_form_spent(spent):
    """Return the same for a whole search, or None: dearest kind of row and refit included, a test score not."""
    try:
        priced = [best_of(row, spent.run_count, method="closed_form") for row in spent.row_curves]
    except PricingError:
        return None
    if not priced:
        return None
    return PrivacyCurve.worst([each if spent.refit is None else each + spent.refit for each in priced])


def curves_of(spent, *, single_run=True, closed_form=True):
    """Return what is drawn of a price, by name: all that was released first, then what it is compared with.

    A price made with a test score is not that of the search alone, and is not called so; the closed form is.
    """
    both = getattr(spent, "test_score", None) is not None
    curves = {"search and test score" if both else "whole search": spent.curve}
    if single_run:
        curves["single run"] = spent.single_run
    closed = closed_form_spent(spent) if closed_form else None
    if closed is not None:
        curves["closed form of the search" if both else "closed form"] = closed
    return curves


def lower_bound(single_runs, run_count, deltas):
    """Return epsilons below which no analysis can go that knows a search by its single run's pair only.

    Parameters
    ----------
    single_runs : sequence of PrivacyCurve
        One run for each kind of row; the search is at least as dear as the dearest of them.
    run_count : RunCount
    deltas : ndarray of shape (n,)
        Best those at which the search was asked: the answers are then known.

    Returns
    -------
    ndarray of shape (n,) or None
        In nats, rounded down; None where no dominating pair is known.
    """
    pairs = [curve.pair for curve in single_runs]
    if any(pair is None for pair in pairs) or not pairs or not math.isfinite(run_count.mean):
        return None
    return np.array([max(exact_epsilon(pair, run_count, float(d)).lower for pair in pairs) for d in deltas])
