"""The settings that may be drawn, checked without rows before anything is spent."""

import copy

import joblib
from joblib.parallel import get_active_backend

from skdptune._exceptions import CandidateRefusedError, TransportError
from skdptune.candidates import find_adapter
from skdptune.candidates._generators import tries_share_a_process
from skdptune.model_selection._pricing import training_curve
from skdptune.model_selection._readiness import works_elsewhere
from skdptune.model_selection._runs import budgeted
from skdptune.model_selection._space import with_settings
from skdptune.model_selection._transport import cloudpickle

__all__ = ["check_travels", "preflight"]

_CALIBRATED_BEFORE = 16  # settings calibrated before anything is spent; the others in their run


def preflight(plan, n_features, n_jobs=1):
    """Check the settings that may be drawn, for the engine that will run them; a refusal here costs nothing.

    Raises
    ------
    SkdptuneError
    """
    with tries_share_a_process(_in_threads(n_jobs, plan.run_timeout)):
        _check_settings(plan, n_features)


def _in_threads(n_jobs, run_timeout):
    """Return whether several tries will run in threads of one process."""
    backend, _ = get_active_backend()
    if run_timeout is not None or joblib.effective_n_jobs(n_jobs) == 1:
        return False  # each in a process of its own, or one after the other
    if getattr(backend, "supports_sharedmem", False):
        return True
    client = getattr(backend, "client", None)  # dask's
    return client is not None and any(threads > 1 for threads in client.nthreads().values())


def _check_settings(plan, n_features):
    level = plan.coverage.level
    for position, settings in enumerate(plan.space.check_settings()):
        adapter = find_adapter(with_settings(plan.estimator, settings))
        adapter.check(plan.relation)
        adapter.check_data(min(plan.train_sizes), n_features, plan.classes)
        if level is None:
            curve = training_curve(adapter, plan.train_sizes, plan.relation)
            plan.coverage.check_covers(curve, adapter.name)
        elif position < _CALIBRATED_BEFORE:
            _check_calibrated(adapter, plan, settings)


def _check_calibrated(adapter, plan, settings):
    params = budgeted(plan, adapter, settings).get_params(deep=True)
    for name, value in settings.items():
        if isinstance(value, (int, float)) and params.get(name, value) != value:
            raise CandidateRefusedError(
                f"param_distributions searches {name!r}, which the target epsilon= calibrates. Take it out of "
                "the space, or leave epsilon=None and search it at its own price."
            )


def check_travels(plan, n_jobs):
    """Check that every try can have what it needs; a refusal here costs nothing.

    Raises
    ------
    CandidateRefusedError
        If the scorer cannot be copied: each try asks a copy of its own.
    TransportError
        If tries run in other processes and the scorer, the estimator or the space cannot be pickled.
    """
    scorer = plan.scorer if plan.public_scorer is None else plan.public_scorer
    try:
        copy.deepcopy(scorer)
    except Exception as error:
        raise CandidateRefusedError(
            "scoring must be something that copy.deepcopy can copy, because each try asks a copy of its own; that "
            f"failed with {type(error).__name__}. Keep locks, open files and connections out of it, or open them "
            "inside the call."
        ) from None
    backend, _ = get_active_backend()
    shared = plan.run_timeout is None and getattr(backend, "supports_sharedmem", False)
    if shared or not works_elsewhere(n_jobs, plan.run_timeout):
        return
    for name, part in (("scoring", scorer), ("estimator", plan.estimator), ("param_distributions", plan.space)):
        try:
            cloudpickle.dumps(part)
        except Exception as error:
            raise TransportError(
                f"{name} must be something that can be pickled, because the tries run in other processes; that failed "
                f"with {type(error).__name__}. Keep locks, open files and connections out of it, or use n_jobs=1 "
                "without run_timeout. Nothing was spent."
            ) from None
