"""How a search shows itself: scikit-learn's text and diagram without the seed, and the price after a fit."""

from sklearn.base import BaseEstimator
from sklearn.model_selection import RandomizedSearchCV

__all__ = ["PricedRepr"]


class _Withheld:
    """Stands where a seed was given: the guarantee holds for those who do not know it, and output gets around."""

    def __repr__(self):
        return "<given, not shown>"


class PricedRepr:
    """Mixin for the looks of a search; put it before ``BaseEstimator``.

    The diagram of a fitted search has ``privacy_spent_`` below it; ``sklearn.utils.estimator_html_repr`` draws the
    diagram alone, as for any estimator. In text and diagram a ``random_state`` that was given is said to be given and
    not shown: whoever learns it can undo the noise, and what a notebook or a log shows is read by many.
    ``get_params`` returns it as ever, and so the text of another estimator that holds a search (a pipeline's) has it:
    scikit-learn makes that text from the parameters without asking.
    """

    def __repr__(self, N_CHAR_MAX=700):
        # by keyword only where asked for: the name is scikit-learn's
        return repr(self._shown()) if N_CHAR_MAX == 700 else self._shown().__repr__(N_CHAR_MAX)

    def _get_params_html(self, *args, **kwargs):
        """Return scikit-learn's table of parameters, which its diagrams are made of."""
        return self._shown()._get_params_html(*args, **kwargs)

    def _sk_visual_block_(self):
        """Return what scikit-learn's diagrams show of a search: the model it released, or else its template."""
        twin = RandomizedSearchCV(self.estimator, {})
        if "best_estimator_" in vars(self):
            twin.best_estimator_ = self.best_estimator_
        return twin._sk_visual_block_()

    def _shown(self):
        """Return a twin to be printed: of a class of the same name that prints as scikit-learn does."""
        own = type(self)
        plain = {
            "__repr__": BaseEstimator.__repr__,
            "__module__": own.__module__,
            "__qualname__": own.__qualname__,
            "__doc__": own.__doc__,
        }
        if hasattr(BaseEstimator, "_get_params_html"):
            plain["_get_params_html"] = BaseEstimator._get_params_html
        twin = object.__new__(type(own.__name__, (own,), plain))
        vars(twin).update(vars(self))
        if getattr(self, "random_state", None) is not None:
            twin.random_state = _Withheld()
        return twin

    @property
    def _repr_html_(self):
        diagram = super()._repr_html_  # an AttributeError where diagrams are switched off
        return lambda: diagram() + self._price_html()

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._price_html()
        return bundle

    def _price_html(self):
        spent = vars(self).get("privacy_spent_")
        return "" if spent is None else spent._repr_html_()
