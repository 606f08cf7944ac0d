"""The settings that may be drawn, checked without rows before anything is spent."""

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates import find_adapter
from skdptune.model_selection._pricing import training_curve
from skdptune.model_selection._runs import budgeted
from skdptune.model_selection._space import with_settings

__all__ = ["preflight"]

_CALIBRATED_BEFORE = 16  # settings calibrated before anything is spent; the others in their run


def preflight(plan, n_features):
    """Check the settings that may be drawn; a refusal here costs nothing.

    Raises
    ------
    SkdptuneError
    """
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
