"""How a search shows itself in a notebook: scikit-learn's diagram, and the price below it after a fit."""

__all__ = ["PricedRepr"]


class PricedRepr:
    """Mixin that adds ``privacy_spent_`` to the diagram of a fitted search; put it before ``BaseEstimator``.

    ``sklearn.utils.estimator_html_repr`` draws the diagram alone, as for any estimator.
    """

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
