"""Loggers that watch every fit in this process: they would write down what the search keeps to itself."""

import sys

from skdptune._exceptions import InvalidParameterError

__all__ = ["refuse_autologging"]

# what mlflow calls the libraries whose fits it can watch
_TRAINING = ("sklearn", "pytorch", "tensorflow", "keras", "xgboost", "lightgbm", "statsmodels", "spark", "pyspark.ml")


def refuse_autologging():
    """Refuse to search while MLflow's autologging watches the fits of this process.

    A candidate that fits a scikit-learn estimator inside has that fit logged once per try: the number of tries, the
    model before its noise, and scores on the private rows.

    Raises
    ------
    InvalidParameterError

    Examples
    --------
    >>> refuse_autologging()
    """
    utils = sys.modules.get("mlflow.utils.autologging_utils")
    if utils is None:  # not loaded, so nothing is patched
        return
    try:
        watched = [name for name in utils.AUTOLOGGING_INTEGRATIONS if name in _TRAINING]
        on = [name for name in watched if not utils.autologging_is_disabled(name)]
    except (AttributeError, TypeError):
        on = ["unknown"]  # a version that cannot be asked: the private side
    if on:
        raise InvalidParameterError(
            f"mlflow's autologging must be off during a private search; it is on for {', '.join(on)}, and would log "
            "every try. Call mlflow.sklearn.autolog(disable=True) (or that of the library named), and after the fit "
            "skdptune.report.log_to_mlflow(search)."
        )
