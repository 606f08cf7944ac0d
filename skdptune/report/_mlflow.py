"""A finished search in MLflow: what was published and what it cost, and nothing else."""

import hashlib
import math

from sklearn.utils.validation import check_is_fitted

from skdptune._exceptions import InvalidParameterError, MissingDependencyError
from skdptune._rounding import nats_up
from skdptune._validation import invalid_type
from skdptune.model_selection._final_score import ReleasedScore

__all__ = ["log_to_mlflow", "mlflow_payload"]

_LONGEST = 6000  # characters of a parameter's value that MLflow stores
_KEPT = 400


def mlflow_payload(search, delta=None):
    """Return what :func:`log_to_mlflow` logs: the published parameters, the noisy score and the price.

    Parameters
    ----------
    search : PrivateRandomSearchCV or ReleasedScore
        A fitted search, or a test score that was released for one.
    delta : float in [0, 1), optional
        Where the price is stated. Defaults to ``search.privacy_spent_.default_delta``.

    Returns
    -------
    dict
        ``"params"`` (names to text) and ``"metrics"`` (names to finite floats): ``best.<name>`` for each of
        ``best_params_``, ``privacy.delta``, ``privacy.epsilon``, ``privacy.method``, ``privacy.relation``,
        ``privacy.run_count`` (the distribution of the number of tries, never that number), ``privacy.seeded``; and
        the metrics ``best_score`` and ``epsilon``, each left out if it is not finite. Of a test score also the metric
        ``test_score``; ``epsilon`` is then that of search and score together.

    Raises
    ------
    InvalidTypeError, sklearn.exceptions.NotFittedError

    Notes
    -----
    *Guarantee.* All of it is published by ``fit`` or known before it: logging it costs nothing. Epsilons in text are
    rounded up. A text longer than MLflow takes (6,000 characters) ends early, with the SHA-256 of the whole: for
    ``privacy.run_count`` of ``repr(search.privacy_spent_.run_count)``, which the report holds in full.

    Examples
    --------
    >>> import numpy as np
    >>> from skdptune import PrivateRandomSearchCV
    >>> from skdptune._cli._centroids import NoisyCentroids
    >>> X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> search = PrivateRandomSearchCV(NoisyCentroids(), {"radius": [1.0]}, n_iter=3, classes=[0, 1]).fit(X, y)
    >>> payload = mlflow_payload(search)
    >>> sorted(payload["metrics"]), payload["params"]["best.radius"], payload["params"]["privacy.delta"]
    (['best_score', 'epsilon'], '1.0', '0.001')
    """
    spent, best_params, scores = _published(search)
    delta = spent.default_delta if delta is None else delta
    epsilon = spent.epsilon(delta)
    params = {f"best.{name}": str(value) for name, value in best_params.items()}
    params.update(
        {
            "privacy.epsilon": nats_up(epsilon),
            "privacy.delta": repr(float(delta)),
            "privacy.relation": spent.relation,
            "privacy.method": spent.method,
            "privacy.run_count": repr(spent.run_count),
            "privacy.seeded": str(bool(getattr(spent.settings, "seeded", _has_seed(search)))).lower(),
        }
    )
    metrics = {**scores, "epsilon": float(epsilon)}
    params = {name: _fitting(text) for name, text in params.items()}
    return {"params": params, "metrics": {name: v for name, v in metrics.items() if math.isfinite(v)}}


def _published(search):
    """Return the price, the settings and the scores that a search, or a search and its test score, released."""
    if isinstance(search, ReleasedScore):
        best, scores = search.published, {"test_score": float(search.score)}
        if best is None:
            return search.privacy_spent, {}, scores
        return search.privacy_spent, dict(best.best_params or ()), {"best_score": best.best_score, **scores}
    if not hasattr(search, "privacy_cost"):
        raise invalid_type("search", "a fitted PrivateRandomSearchCV, or a ReleasedScore", search)
    check_is_fitted(search, "privacy_spent_")
    return search.privacy_spent_, search.best_params_ or {}, {"best_score": float(search.best_score_)}


def _has_seed(search):
    return getattr(search, "random_state", None) is not None


def _fitting(text):
    """Return ``text``, or where MLflow would refuse it its beginning and a digest that tells it from all others."""
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{text[:_KEPT]}... ({len(text)} characters, sha256 {digest})"


def log_to_mlflow(search, delta=None, *, run_name=None):
    """Log a finished search, or its test score, as an MLflow run of its own, and return the run's id.

    The run goes to the tracking store and the experiment that ``mlflow`` is set to. It is opened and closed here, after
    the fit: a run that is open during the fit records how long the search took, which tells about how many tries it
    made.

    Parameters
    ----------
    search : PrivateRandomSearchCV or ReleasedScore
        A fitted search, or a test score that was released for one.
    delta : float in [0, 1), optional
        As in :func:`mlflow_payload`.
    run_name : str, optional

    Returns
    -------
    str
        The id of the run.

    Raises
    ------
    MissingDependencyError
        If ``mlflow`` is not installed.
    InvalidParameterError
        If a run is active.
    InvalidTypeError, sklearn.exceptions.NotFittedError

    Notes
    -----
    *Guarantee.* As of :func:`mlflow_payload`. MLflow itself adds who ran which script, and when. The model is not
    logged: ``mlflow.sklearn.log_model`` may be given the search, but no ``input_example`` of private rows.

    Examples
    --------
    >>> log_to_mlflow(search)  # doctest: +SKIP
    '5d0f3a3a1ad14d6aa7a6a6b3f0f5ad1c'
    """
    payload = mlflow_payload(search, delta)
    try:
        import mlflow
    except ImportError as error:
        raise MissingDependencyError(
            f"log_to_mlflow needs mlflow, which cannot be imported ({error}). Install mlflow or mlflow-skinny."
        ) from None
    if mlflow.active_run() is not None:
        raise InvalidParameterError(
            "log_to_mlflow opens a run of its own, but another one is active. End it first: a run that is open during "
            "fit records how long the search took, and so about how many tries it made."
        )
    with mlflow.start_run(run_name=run_name, log_system_metrics=False) as run:
        mlflow.log_params(payload["params"])
        mlflow.log_metrics(payload["metrics"])
    return run.info.run_id
