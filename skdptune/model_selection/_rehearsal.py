"""A rehearsal of what may be drawn, on made-up rows like those of X: a slip in a pipeline is told before the charge."""

from sklearn.pipeline import Pipeline

from skdptune.candidates import find_adapter
from skdptune.candidates._rehearsal import made_up_batches
from skdptune.model_selection._missing import pipelines_drawn

__all__ = ["rehearse"]


def rehearse(search, X, n_samples, classes):
    """Try the free steps of the pipelines that may be drawn, and the declared functions in them, on made-up rows.

    Parameters
    ----------
    search : PrivateRandomSearchCV
        Of a pipeline, or of a search of one; anything else passes.
    X : array-like, sparse matrix or DataFrame
        Checked rows: their kind, columns, names and types are used, and no value.
    n_samples : int
    classes : ndarray of shape (n_classes,) or None

    Raises
    ------
    CandidateRefusedError
        If a function is seen to mix rows, or if every try would fail, whatever the rows hold.
    """
    while hasattr(search.estimator, "param_distributions"):
        search = search.estimator
    if type(search.estimator) is not Pipeline:
        return
    batches = made_up_batches(X)
    for pipeline in pipelines_drawn(search) or [search.estimator]:
        find_adapter(pipeline).rehearse(batches, n_samples, classes)
