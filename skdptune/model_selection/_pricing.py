"""The price of a search, from its parameters alone: no room here ever sees a row.

One run draws a candidate, trains it ``t`` times on a row and scores that row at most once (noise is
added once, to the pooled count, and scaled to the most often scored row). For one kind of row the run
is therefore the mixture, over the candidates that may be drawn, of ``t`` trainings composed with the
score. The mixture goes outside: a run that trains a drawn candidate twice is a mixture of
compositions, which may cost more than a composition of mixtures.

Rows of different kinds never meet in one record, so the search costs the *worse* of their prices.
"""

from dataclasses import dataclass, replace

import numpy as np

from skdptune._exceptions import CandidateRefusedError, PricingError, UnreachableTargetError
from skdptune._validation import check_real, invalid_value
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.candidates import find_adapter
from skdptune.model_selection._settings import settings_of
from skdptune.model_selection._space import with_settings
from skdptune.model_selection._spent import PrivacySpent
from skdptune.scoring import as_score_noise

__all__ = ["Quote", "SearchTerms", "quote", "training_curve"]


@dataclass(frozen=True)
class Quote:
    """A priced search: what it costs and what each run may do for that price.

    Parameters
    ----------
    spent : PrivacySpent
    noise : ScoreNoise or None
        Noise on the pooled score; None with public validation.
    level : PrivacyCurve or None
        With a target: the curve below which every candidate is calibrated.
    priced : frozenset of PrivacyCurve
        Without a target: the curves of one training that the price covers.
    refits : frozenset of PrivacyCurve
        Likewise for the training on all rows.
    """

    spent: PrivacySpent
    noise: object
    level: PrivacyCurve | None
    priced: frozenset
    refits: frozenset = frozenset()

    def check_covers(self, curve, name, refit=False):
        """Refuse a drawn candidate that the price does not cover, before its fit.

        Raises
        ------
        CandidateRefusedError
        """
        if self.level is not None:
            covered = curve.lies_below(self.level)
        else:
            covered = curve in (self.refits if refit else self.priced)
        if not covered:
            raise CandidateRefusedError(
                f"a drawn {name} has another privacy curve than those that were priced, so the search was "
                "aborted before training it. Declare in privacy_params every parameter that changes the cost, "
                "and make the curve a function of parameters alone."
            )


@dataclass(frozen=True)
class SearchTerms:
    """What pricing needs, gathered from the search."""

    estimator: object
    space: object
    run_count: object
    scheme: object
    relation: str
    n_samples: int
    refit: object
    scorer: object
    score_noise: object
    public_validation: bool
    seeded: bool = False


def quote(terms, *, target_epsilon=None, delta=None, describe=None):
    """Price the search described by ``terms``.

    Parameters
    ----------
    terms : SearchTerms
    target_epsilon, delta : float or None
        A target for the whole search; candidates are calibrated to meet it.
    describe : callable
        ``describe(noise, adapters, level)`` returns the assumptions to list.

    Returns
    -------
    Quote

    Raises
    ------
    CandidateRefusedError, PricingError, UnreachableTargetError
    """
    adapter = find_adapter(terms.estimator)
    adapter.check(terms.relation)
    if target_epsilon is None:
        trainings, refits, adapters = _enumerate(terms, adapter)
        level = None
        priced = frozenset(curve for curve, _ in trainings)
        spent, noise = _price(terms, trainings, refits)
        covered_refits = frozenset(refits)
    else:
        level = _solve_level(terms, adapter, target_epsilon, delta)
        adapters = [adapter]
        priced = covered_refits = frozenset()
        spent, noise = _price_level(terms, level)
    assumptions = describe(noise, [*adapters, *_variations(terms)], level) if describe else ()
    settings = settings_of(terms, level=level, target_epsilon=target_epsilon, delta=delta)
    spent = replace(spent, assumptions=tuple(assumptions), settings=settings)
    return Quote(spent=spent, noise=noise, level=level, priced=priced, refits=covered_refits)


def _enumerate(terms, base):
    """Return the training curves with weights, the refit curves, and one adapter per choice."""
    sizes = terms.scheme.train_sizes(terms.n_samples)
    trainings, refits, adapters = {}, {}, []
    for setting, weight in terms.space.priced_choices(base.may_change_cost):
        adapter = find_adapter(with_settings(terms.estimator, setting))
        adapter.check(terms.relation)
        adapters.append(adapter)
        curve = training_curve(adapter, sizes, terms.relation)
        if curve not in trainings and not _has_price(curve):
            raise CandidateRefusedError(
                f"param_distributions has a setting whose single run has no finite cost, {setting!r}: no price holds "
                "for a search that may draw it. Take it out, or give it more noise."
            )
        trainings[curve] = trainings.get(curve, 0.0) + weight
        if terms.refit is True:
            refits[training_curve(adapter, (terms.n_samples,), terms.relation)] = None
    return list(trainings.items()), list(refits), adapters


def _variations(terms):
    """Return adapters of what else may be drawn: a value that costs nothing may rest on another assumption."""
    found = []
    for setting in terms.space.variations():
        adapter = find_adapter(with_settings(terms.estimator, setting))
        adapter.check(terms.relation)
        found.append(adapter)
    return found


def _has_price(curve):
    """Return whether some epsilon or Renyi divergence of the curve is finite."""
    return bool(np.isfinite(curve.rdp([1.5])[0]) or np.isfinite(curve.epsilon(0.1)))


def training_curve(adapter, sizes, relation):
    """Return the cost of one training on a part of any of ``sizes`` rows: the worst of them."""
    curves = [adapter.privacy_curve(size, relation) for size in sizes]
    if relation == "add-remove":
        # A function that sees n can only be probed; that n enters nowhere is a listed assumption.
        others = {adapter.privacy_curve(n, relation) for n in (1, 2, 17, 1000, 100_003, *(s + 1 for s in sizes))}
        if len(others | set(curves)) > 1:
            raise CandidateRefusedError(
                f"{adapter.name} has a cost that depends on the number of rows, which is private under "
                "relation='add-remove'. Give it a cost that does not (an explicit sample_rate, say), or use "
                "relation='zero-out'."
            )
    for curve in curves:
        if curve.relation != relation:
            raise CandidateRefusedError(
                f"{adapter.name} states its cost under relation {curve.relation!r}, but the search is "
                f"under {relation!r}. Use relation={curve.relation!r}, or a candidate priced under "
                f"{relation!r}."
            )
    return _worst(curves)


def _worst(curves):
    """Return a curve above all of ``curves``: the dearest where one is, else their pointwise worst."""
    return curves[0] if len(curves) == 1 else _any_of(_undominated(curves))


def _any_of(curves):
    """Return the pointwise worst of ``curves``, without comparing them."""
    distinct = list(dict.fromkeys(curves))
    return distinct[0] if len(distinct) == 1 else PrivacyCurve.worst(distinct)


def _mixture(weighted):
    merged = {}
    for curve, weight in weighted:
        merged[curve] = merged.get(curve, 0.0) + weight
    if len(merged) == 1:
        return next(iter(merged))
    total = sum(merged.values())
    return PrivacyCurve.mixture(list(merged), [weight / total for weight in merged.values()])


def _price(terms, trainings, refits):
    """Return the :class:`PrivacySpent` (without assumptions) and the score noise."""
    noise = None
    if not terms.public_validation:
        noise = as_score_noise(terms.score_noise, _mixture(trainings))
    row_curves = _undominated(
        [_run_curve(cost, trainings, noise, terms.relation) for cost in _row_kinds(terms)]
    )
    selected = [best_of(curve, terms.run_count) for curve in row_curves]
    refit = _worst(refits) if refits else None
    most = max(cost.scorings for cost in terms.scheme.row_costs(terms.n_samples))
    n_scored = terms.scheme.n_scored(terms.n_samples) // max(1, most)  # noise grows with the most scored row
    whole = [curve if refit is None else curve + refit for curve in selected]
    spent = PrivacySpent(
        curve=_any_of(whole),
        single_run=_any_of(row_curves),
        selection=_any_of(selected),
        refit=refit,
        run_count=terms.run_count,
        row_curves=tuple(row_curves),
        relation=terms.relation,
        # Under add-remove the number of rows is private, and this value is published.
        n_samples=None if terms.relation == "add-remove" else terms.n_samples,
        score_noise=noise,
        n_scored=None if noise is None else n_scored,
    )
    return spent, noise


def _price_level(terms, level):
    """Price the search as if every candidate cost exactly ``level``."""
    return _price(terms, [(level, 1.0)], [level] if terms.refit is True else [])


def _row_kinds(terms):
    """Return distinct (trainings, scored or not) pairs that no other pair exceeds."""
    kinds = {(cost.trainings, min(cost.scorings, 1)) for cost in terms.scheme.row_costs(terms.n_samples)}
    return sorted(
        kind
        for kind in kinds
        if not any(o != kind and o[0] >= kind[0] and o[1] >= kind[1] for o in kinds)
    )


def _run_curve(kind, trainings, noise, relation):
    """Return the cost of one run for a row that is trained on ``kind[0]`` times and scored or not."""
    times, scored = kind
    if times == 0:
        return noise.curve(relation)
    curves = []
    for curve, weight in trainings:
        cost = curve if times == 1 else times * curve
        curves.append((cost + noise.curve(relation) if scored else cost, weight))
    return _mixture(curves)


def _undominated(curves):
    """Drop curves that certainly lie below another one: every price of the latter covers them.

    Certain means compared as dominating pairs. Where the upper curve is known by its Renyi divergences
    alone, they can be compared at finitely many orders only, and a price may use others: then both
    are priced and the worse price is taken.
    """
    distinct = list(dict.fromkeys(curves))
    kept = []
    for i, curve in enumerate(distinct):
        rivals = [other for other in kept + distinct[i + 1 :] if other.pair is not None]
        if not any(curve.lies_below(other) for other in rivals):
            kept.append(curve)
    return kept


def _solve_level(terms, adapter, target_epsilon, delta):
    """Return the dearest level whose whole search meets the target."""
    from skdptune.accounting.calibration import solve_level

    target_epsilon = check_real(
        "epsilon", target_epsilon, low=0, low_open=True, advice="It is the target of the whole search."
    )
    if delta is None:
        raise invalid_value(
            "delta",
            "given together with epsilon",
            delta,
            "A target is a pair: pass e.g. delta=1e-6, well below 1 / n_samples (or 0 for a pure target).",
        )
    size = max(terms.scheme.train_sizes(terms.n_samples))
    family = adapter.level_family(size, terms.relation)
    if family is None:
        raise PricingError(adapter.calibration_refusal())

    def whole_search(level):
        return _price_level(terms, level)[0].curve

    try:
        return solve_level(family, whole_search, target_epsilon, delta)
    except UnreachableTargetError as error:
        raise UnreachableTargetError(f"epsilon={target_epsilon:g} cannot be met: {error}") from None
