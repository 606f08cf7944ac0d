"""Adapters for diffprivlib's models, vetted line by line on release 0.6.6.

Reading order: ``_library`` (which versions are trusted), ``_base`` (what every adapter shares), then one
module per family of models. ``doc/adapters.rst`` holds the findings and the proofs.

The adapters keep diffprivlib's classes, parameters and noise mechanisms, but run the training steps
themselves: the library's own ``fit`` infers classes and bounds from the rows, leaves absent classes
without noise, replays noise from 31-bit seeds and fails on single rows.
"""

from skdptune.candidates._diffprivlib._library import require_diffprivlib

__all__ = ["adapter_for", "require_diffprivlib"]


def _adapters():
    from skdptune.candidates._diffprivlib._forest import DecisionTreeAdapter, RandomForestAdapter
    from skdptune.candidates._diffprivlib._linear_regression import LinearRegressionAdapter
    from skdptune.candidates._diffprivlib._logistic import LogisticRegressionAdapter
    from skdptune.candidates._diffprivlib._naive_bayes import GaussianNBAdapter
    from skdptune.candidates._diffprivlib._pca import PCAAdapter
    from skdptune.candidates._diffprivlib._steps import KMeansRefusal, StandardScalerAdapter

    models = require_diffprivlib().models
    return {
        models.DecisionTreeClassifier: DecisionTreeAdapter,
        models.GaussianNB: GaussianNBAdapter,
        models.KMeans: KMeansRefusal,
        models.LinearRegression: LinearRegressionAdapter,
        models.LogisticRegression: LogisticRegressionAdapter,
        models.PCA: PCAAdapter,
        models.RandomForestClassifier: RandomForestAdapter,
        models.StandardScaler: StandardScalerAdapter,
    }


def adapter_for(estimator):
    """Return the adapter of a diffprivlib estimator (exact types only).

    Parameters
    ----------
    estimator : estimator
        An instance of one of the models in ``doc/adapters.rst``.

    Returns
    -------
    CandidateAdapter

    Raises
    ------
    CandidateRefusedError
        If the class has not been vetted.
    MissingDependencyError
        If diffprivlib is missing, or the installed pair of diffprivlib and scikit-learn is one the
        adapters were not vetted on.
    """
    from skdptune._exceptions import CandidateRefusedError

    adapters = _adapters()
    kind = adapters.get(type(estimator))
    if kind is None:
        names = ", ".join(sorted(cls.__name__ for cls in adapters if cls.__name__ != "KMeans"))
        raise CandidateRefusedError(
            f"{type(estimator).__name__} is not among the diffprivlib models that have been vetted; "
            f"use one of {names}."
        )
    return kind(estimator)
