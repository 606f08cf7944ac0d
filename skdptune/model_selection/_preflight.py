"""The settings that may be drawn, checked without rows before anything is spent."""

import copy

import joblib
from joblib.parallel import get_active_backend

from skdptune._exceptions import CandidateRefusedError, TransportError
from skdptune.candidates import find_adapter
from skdptune.candidates._generators import tries_share_a_process
from skdptune.model_selection._folders import check_place
from skdptune.model_selection._pricing import training_curve
from skdptune.model_selection._read_only import size_of
from skdptune.model_selection._readiness import works_elsewhere
from skdptune.model_selection._rows import number_of_rows
from skdptune.model_selection._runs import budgeted
from skdptune.model_selection._space import with_settings
from skdptune.model_selection._transport import cloudpickle, ships_files

__all__ = ["check_travels", "preflight"]

_INDEX = 8  # bytes that a split takes for one row
_MARGIN = 1 << 20  # bytes: room for eight bytes of each of some 100,000 tries, whatever number is drawn
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


def check_travels(plan, n_jobs, tables, copies=1):
    """Check that every try can have what it needs; a refusal here costs nothing.

    Parameters
    ----------
    plan : RunPlan
    n_jobs : int or None
    tables : tuple
        What tries are given of rows: ``X``, ``y`` and the public ones. Only their sizes are looked at.
    copies : int
        How many tables of that size travel.

    Raises
    ------
    CandidateRefusedError
        If the scorer cannot be copied: each try asks a copy of its own.
    TransportError
        If tries run in other processes and the scorer, the estimator or the space cannot be pickled, or what they
        load finds no room on the disk.
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
    size = _MARGIN
    for name, part in (("scoring", scorer), ("estimator", plan.estimator), ("param_distributions", plan.space)):
        try:
            size += len(cloudpickle.dumps(part))
        except Exception as error:
            raise TransportError(
                f"{name} must be something that can be pickled, because the tries run in other processes; that failed "
                f"with {type(error).__name__}. Keep locks, open files and connections out of it, or use n_jobs=1 "
                "without run_timeout. Nothing was spent."
            ) from None
    if plan.run_timeout is not None or ships_files(backend):
        size += copies * (size_of(tables) + _INDEX * number_of_rows(tables[0]) * len(plan.train_sizes))
    check_place(size)
