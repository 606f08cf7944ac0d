"""What a search publishes, from its best record; one default where there is nothing to publish."""

import copy
from dataclasses import replace

from skdptune._exceptions import AllRunsFailedError, RunFailedError
from skdptune.candidates import find_adapter
from skdptune.model_selection._engine import Runner
from skdptune.model_selection._pricing import training_curve
from skdptune.model_selection._publish import default_model, no_winner, publish, tell
from skdptune.model_selection._read_only import has_objects, own
from skdptune.model_selection._rows import declared_classes
from skdptune.model_selection._runs import child_seed, raises_on_all
from skdptune.model_selection._space import unfitted, with_settings
from skdptune.model_selection._tidy import row_count

__all__ = ["publish_outcome"]


def publish_outcome(search, terms, spent, best, plan, rows, master, late):
    """Set the published attributes of ``search``.

    Parameters
    ----------
    search : PrivateRandomSearchCV
    terms : SearchTerms
    spent : PrivacySpent
    best : RunRecord or None
        None if no try was drawn.
    plan : RunPlan
    rows : tuple
        ``(X, y)``, for a refit.
    master : int
        The coins of a refit are derived from it.
    late : PromptCtrlC
        Holds Ctrl-C back from the publication on.

    Raises
    ------
    AllRunsFailedError
        After the default was published.
    RunFailedError
        If the refit failed.
    """
    outputs = {"privacy_spent_": _spent(search, spent, plan.classes), "scorer_": terms.scorer}
    for name in ("n_features_in_", "feature_names_in_"):
        if name in vars(search):
            outputs[name] = vars(search)[name]
    if plan.classes is not None:
        outputs["classes_"] = plan.classes
    succeeded = best is not None and best.failure is None
    if succeeded:
        outputs.update(best_params_=unfitted(best.params), best_score_=best.score)
    else:
        outputs.update(no_winner())
    if terms.refit is not False:
        if not succeeded:
            outputs["best_estimator_"] = default_model(search.estimator, plan.classes, outputs.get("n_features_in_"))
        elif terms.refit == "winner":
            outputs["best_estimator_"] = best.model
        else:
            outputs["best_estimator_"] = _refit(search.estimator, best.params, plan, rows, master)
    late.hold()
    publish(search, outputs)
    if succeeded and terms.refit is not False and plan.scorer is not None:
        late.interruptibly(lambda: _warn_of_broken(plan, outputs["best_estimator_"], rows[0]))
    if best is not None and not succeeded:
        raise AllRunsFailedError(
            f"every try failed (for the curator: the best-ranked one with {best.failure}); the whole search "
            "stays charged and the published model is a constant that no row has touched. Set the log "
            "level of 'skdptune.curator' to DEBUG and repeat on synthetic rows to find the cause."
        )


def _warn_of_broken(plan, model, X):
    """Say so if the published model can score no made-up row: no try fails because its model raises on rows.

    What is said follows from the model, which is published, and from columns and types, which are public. Nothing that
    happens here takes the result away.
    """
    def ask():
        return raises_on_all(copy.deepcopy(plan.scorer), copy.deepcopy(model), X, plan.classes)

    try:
        failure = Runner.quietly(ask, None)
    except KeyboardInterrupt:
        raise
    except BaseException:  # of a copy of the scorer or the model, say: then it is not known
        return
    if failure is not None:
        tell(
            f"the published model raised {type(failure).__name__} on every row made up to be like those of X. A row on "
            "which a model raises scores worst: if this one cannot be scored on any row, its score says nothing. Try "
            "it on public or synthetic rows.",
            stacklevel=9,
        )


def _spent(search, spent, classes):
    """Return the price of this fit, which says how many labels are published with it."""
    settings = spent.settings
    if classes is not None and settings is not None:
        settings = replace(settings, labels=(len(classes), declared_classes(search) is not None))
    return replace(spent, stage="spent", settings=settings)


def _refit(estimator, params, plan, rows, master):
    """Train the winner once more, on all rows; priced at the dearest candidate."""
    adapter = find_adapter(with_settings(estimator, params))
    n_samples = row_count(rows[0])
    if plan.coverage.level is not None:
        adapter = find_adapter(adapter.with_budget(plan.coverage.level, n_samples, plan.relation))
    adapter.check(plan.relation)
    curve = training_curve(adapter, (n_samples,), plan.relation)
    plan.coverage.check_covers(curve, adapter.name, refit=True)

    def train():
        X, y = (own(part, has_objects(part)) for part in rows)  # the caller's table stays as it is
        fitted = adapter.fit(X, y, classes=plan.classes, seed=child_seed(master, "refit"))
        return adapter.publish(fitted)

    failure = None
    try:
        return Runner.quietly(train, child_seed(master, "refit global"))
    except (Exception, SystemExit) as error:
        failure = type(error).__name__
    # Raised here, so that no traceback of the candidate hangs on it: it may quote rows.
    raise RunFailedError(
        f"the refit failed with {failure}; the whole search stays charged and nothing is published. Use "
        "refit='winner' with a single split, which trains nothing again."
    )
