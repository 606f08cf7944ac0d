"""The content of a report as one plain dictionary: what ``to_json`` writes and the other formats show."""

import math

from skdptune._exceptions import SkdptuneError
from skdptune._rounding import percent_down
from skdptune.model_selection._phrases import noise_in_words, run_count_in_words, scorer_in_words
from skdptune.model_selection._spent import dearest, quantile
from skdptune.report import _words
from skdptune.report._meaning import attacker
from skdptune.report._notes import loud_score, misfit_score, repeated_score, spent_notes
from skdptune.report._published import range_of

__all__ = ["FORMAT", "VERSION", "document", "jsonable", "score_notes", "test_score_notes"]

FORMAT = "skdptune-privacy-report"
VERSION = 1


def document(report):
    """Return everything a report says, in plain values.

    Parameters
    ----------
    report : PrivacyReport

    Returns
    -------
    dict
        As described by the schema; infinities are still floats.
    """
    spent, delta = report.spent, report.delta
    meaning = {
        "whole_search": attacker(spent.search_curve, delta),
        "single_run": attacker(spent.single_run, delta),
        "together": None if spent.test_score is None else attacker(spent.curve, delta),
    }
    prices = [_prices(spent, each) for each in report.deltas]
    tries = _tries(spent.run_count)
    main = next(row for row in prices if row["delta"] == delta)
    found = {
        "format": FORMAT,
        "version": VERSION,
        "title": report.title,
        "prepared_for": report.prepared_for,
        "prepared_by": report.prepared_by,
        "data": report.data,
        "date": report.date,
        "notes": report.notes,
        "stage": spent.stage,
        "relation": spent.relation,
        "n_samples": spent.n_samples,
        "test_score": _test_score(spent),
        "delta": delta,
        "epsilon": main["whole_search"] if spent.test_score is None else main["together"],
        "method": main["method"],
        "prices": prices,
        "attacker": meaning,
        "tries": tries,
        "settings": _settings(spent),
        "score_noise": _score_noise(spent),
        "released": _released(spent, report.published),
        "published": _published(report.published),
        "ledger": None if report.ledger is None else report.ledger.values,
        "never_published": _never_published(tries),
        "assumptions": list(spent.assumptions),
        "not_covered": _not_covered(spent),
        "references": list(_words.REFERENCES),
        "versions": dict(spent.versions),
    }
    return {**found, "warnings": _warnings(found, report)}


def _never_published(tries):
    if tries["largest"] is not None and tries["largest"] <= 1:
        return [_words.PRIVATE]  # no try was the best of several, and whether there was one shows
    return [*(() if tries["certain"] else (_words.TRIES,)), *_words.OTHER_TRIES, _words.PRIVATE]


def _prices(spent, delta):
    test = spent.test_score
    part = dearest(spent.selection, delta)
    part.epsilon(delta)  # a selection remembers which bound gave its latest answer
    return {
        "delta": delta,
        "single_run": spent.single_run.epsilon(delta),
        "selection": spent.selection.epsilon(delta),
        "refit": None if spent.refit is None else spent.refit.epsilon(delta),
        "whole_search": spent.search_curve.epsilon(delta),
        "test_score": None if test is None else test.curve.epsilon(delta),
        "together": None if test is None else spent.epsilon(delta),
        "closed_form": spent.closed_form_epsilon(delta),
        "method": part.method,
    }


def _tries(run_count):
    """Describe the distribution of the number of tries; nothing here knows how many there were."""
    try:
        values = run_count.to_dict()
    except (SkdptuneError, TypeError, ValueError):
        values = None
    return {
        "distribution": repr(run_count),
        "in_words": run_count_in_words(run_count),
        "arguments": values,
        "mean": float(run_count.mean),
        "none_at_all": float(run_count.p_zero),
        "largest": run_count.support_max,
        "median": quantile(run_count, 0.5),
        "within_99_percent": quantile(run_count, 0.99),
        "certain": bool(run_count.support_max is not None and run_count.pmf(run_count.support_max) >= 1.0),
    }


def _settings(spent):
    settings = spent.settings
    if settings is None:
        return None
    target = None
    if settings.target is not None:
        target = {"epsilon": settings.target[0], "delta": settings.target[1], "level": settings.level}
    return {
        "estimator": settings.estimator,
        "space": [{"parameter": name, "drawn_from": text} for name, text in settings.space],
        "split": settings.split,
        "scoring": settings.scoring,
        "released_model": settings.released_model,
        "public_validation": settings.public_validation,
        "seeded": settings.seeded,
        "target": target,
        "own_epsilon": settings.own_epsilon,
        "labels": None if settings.labels is None else dict(zip(("number", "declared"), settings.labels, strict=True)),
    }


def _published(published):
    if published is None:
        return None
    params = published.best_params
    return {
        "best_params": None if params is None else [{"parameter": name, "value": text} for name, text in params],
        "best_score": published.best_score if math.isfinite(published.best_score) else None,
    }


def _score_noise(spent):
    if spent.score_noise is None:
        return None
    return {
        "noise": noise_in_words(spent.score_noise),
        "standard_deviation": spent.score_standard_deviation,
        "scored_rows": spent.n_scored,
    }


def _not_covered(spent):
    score = _words.OTHER_SCORES if spent.test_score is None else _words.FURTHER_SCORES
    return [score if text is _words.OTHER_SCORES else text for text in _words.NOT_COVERED]


def _test_score(spent):
    test = spent.test_score
    if test is None:
        return None
    return {
        "scoring": scorer_in_words(test.scorer),
        "noise": noise_in_words(test.noise),
        "standard_deviation": test.noise.standard_deviation / test.n_rows,
        "rows": None if spent.relation == "add-remove" else test.n_rows,
        "divisor": test.n_rows,
        "score": float(test.score),
    }


def _test_score_released(spent):
    test = spent.test_score
    if test is None:
        return []
    rows = f"{test.n_rows} test rows" if spent.relation != "add-remove" else "test rows (their number is private)"
    return [
        f"One score of the published model on {rows} put aside before the search, with noise. A test row pays for this "
        "score and a searched row for the search; the price of both together is the larger of the two and holds for "
        "every row."
    ]


def _released(spent, published):
    settings = spent.settings
    no_model = settings is not None and settings.released_model == "none"
    unlabelled = spent.stage == "spent" and settings is not None and settings.labels is None
    labels = "" if unlabelled else "the label set of a classifier, "
    price = f"This price, with the settings it was computed from, {labels}and the names and number of columns."
    if published is not None and published.best_params is None:
        return [
            "That no try succeeded: there are no settings and no score.",
            *(() if no_model else (_words.CONSTANT,)),
            *_test_score_released(spent),
            price.replace("from, and", "from and"),
        ]
    score = "Its score on held-out private rows, with noise."
    if settings is not None and settings.public_validation:
        score = "Its score on public rows, without noise."
    model = _words.RELEASED_MODELS[settings.released_model] if settings is not None else "The published model, if any."
    return [
        "The settings of the best try.",
        score,
        model,
        *_test_score_released(spent),
        price.replace("from, and", "from and"),
        "Where there is no try, or every try fails: instead of settings and score the fact that there are none"
        + ("." if no_model else ", and a constant model that no row has touched."),
    ]


def _warnings(found, report):
    """Return what a reader must know before anything else; the gravest first."""
    settings, tries, spent = found["settings"] or {}, found["tries"], report.spent
    warnings = []
    notes = spent_notes(spent, found["delta"])
    if not math.isfinite(found["epsilon"]):
        warnings.append(notes.pop(0))
    if settings.get("seeded"):
        warnings.append(
            "A SEED WAS GIVEN (random_state). Whoever learns it can repeat every draw of noise and the guarantee is "
            "void towards them. A release should be made with random_state=None."
        )
    if found["stage"] == "quote":
        warnings.append(
            "This is a quote, made before any data was used. Nothing has been released and nothing has been spent."
        )
    if found["stage"] == "inner":
        warnings.append(
            "This is the price of a search inside another search. What was released is priced by the outer search; "
            "file that report instead."
        )
    warnings += [*notes, *score_notes(spent, report.published)]
    if tries["none_at_all"] > 0.5:
        warnings.append(
            f"Most searches of this kind make no try at all (at least {percent_down(tries['none_at_all'])} of them): "
            "nothing is trained then, and a constant model or none is released, at the same price."
        )
    if not found["assumptions"]:
        warnings.append(
            "No assumptions are listed, so this price was not made by a search. It proves nothing by itself."
        )
    return warnings


def score_notes(spent, published=None):
    """Return what must be said of the scores of a PrivacySpent, as a list; of the best one's value if it is known."""
    deviation, test = spent.score_standard_deviation, spent.test_score
    name = "score of the best try"
    notes = loud_score(name, deviation, "Which try won is close to chance, and so is its score")
    if published is not None:
        notes += misfit_score(name, published.best_score, published.score_range, deviation)
    return notes if test is None else [*notes, *test_score_notes(test)]


def test_score_notes(test):
    """Return what must be said of a ReleasedScore, as a list."""
    deviation = test.noise.standard_deviation / test.n_rows
    return [
        *loud_score("test score", deviation, "It says little about the model"),
        *misfit_score("test score", float(test.score), range_of(test.scorer), deviation),
        *repeated_score(test.count),
    ]


def jsonable(value):
    """Return ``value`` with infinite numbers written as the string ``"inf"``, which JSON has no number for.

    Examples
    --------
    >>> jsonable({"epsilon": float("inf"), "deltas": (1e-6,)})
    {'epsilon': 'inf', 'deltas': [1e-06]}
    """
    if isinstance(value, dict):
        return {str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(inner) for inner in value]
    if hasattr(value, "item"):  # numbers of NumPy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else str(value)
    return value
