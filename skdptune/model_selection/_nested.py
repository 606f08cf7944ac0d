"""A search as a candidate of another search (or of a pipeline in one).

The inner search's own distribution of tries, splits, refit, scoring, space and estimator all change
its cost, so every parameter of it may. Inner fits are reseeded from the outer run, charge no ledger
and take no checkpoint: the outer search has paid for them, and an inner one that asks for its own is refused.
"""

from dataclasses import replace

from sklearn.base import clone

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates import CandidateAdapter, find_adapter
from skdptune.model_selection._publish import ALLOWED, publish

__all__ = ["SearchAdapter"]

_OF_THE_OUTER = {
    "run_timeout": ((None,), "its time is part of the outer run"),
    "checkpoint": ((None,), "all outer runs would share one folder, while the outer search can resume by itself"),
    "ledger": ((None,), "the outer search pays for its inner ones, and a ledger here would count nothing"),
    "verbose": ((0, False), "it runs in silence, many times over"),
}


class SearchAdapter(CandidateAdapter):
    """Adapter of :class:`PrivateRandomSearchCV`."""

    def check(self, relation):
        if self.estimator.relation != relation:
            raise CandidateRefusedError(
                f"the inner {self.name} is under relation {self.estimator.relation!r}, the outer search under "
                f"{relation!r}. Give both the same relation."
            )
        if self.estimator.refit is False:
            raise CandidateRefusedError(
                f"the inner {self.name} has refit=False and so publishes no model to compare. Use refit='winner' or "
                "refit=True."
            )
        for name, (idle, why) in _OF_THE_OUTER.items():
            if getattr(self.estimator, name) not in idle:
                raise CandidateRefusedError(
                    f"the inner {self.name} must have {name}={idle[0]!r}: {why}. Set {name} on the outer search."
                )

    def privacy_curve(self, n_samples, relation):
        return self.estimator.privacy_cost(n_samples).curve

    def calibration_refusal(self):
        return (
            f"{self.name} as a candidate cannot be calibrated from outside: give the inner search its own epsilon= and "
            "delta=, and leave those of the outer search None."
        )

    def assumptions(self, relation):
        inner = find_adapter(self.estimator.estimator).assumptions(relation)
        return (
            "A try is itself a search: its space, splits, scoring and number of tries are public, and chosen without "
            "looking at the private rows.",
            *(f"Inner search: {sentence}" for sentence in inner),
        )

    def fit(self, X, y, *, classes, seed):
        inner = clone(self.estimator).set_params(ledger=None, checkpoint=None, n_jobs=None, random_state=None)
        if classes is not None:
            inner.set_params(classes=classes)
        # under add-remove a part of the outer search may be empty, which must not show: no rows are as good as any
        failed = inner._fit(X, y, None, None, master=seed, ledger=None, fewest=0)
        if failed is not None:
            raise failed
        return inner

    def publish(self, fitted):
        fresh = clone(fitted).set_params(random_state=None)
        published = {name: vars(fitted)[name] for name in ALLOWED if name in vars(fitted)}
        published["privacy_spent_"] = replace(published["privacy_spent_"], stage="inner")
        publish(fresh, published)
        return fresh

    def published_names(self, fitted):
        return tuple(name for name in ALLOWED if name in vars(fitted))
