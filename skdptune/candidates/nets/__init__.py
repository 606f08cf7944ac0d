"""Neural nets trained by DP-SGD: skorch nets over Opacus as candidates of a search.

Needs torch, skorch and opacus (``pip install '.[nets]'`` in a clone of the project); they are loaded here and nowhere
else.

Reading order: ``_terms`` (what a training is, in numbers), ``_engine`` (the loop), ``_per_sample`` and
``_noise`` (its two halves), ``_dry_run`` and ``_checks`` (what is refused), ``_estimators``, ``_adapter``.
"""

from skdptune._exceptions import MissingDependencyError

try:
    import opacus  # noqa: F401
    import skorch  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:  # pragma: no cover
    from importlib.util import find_spec

    missing = [name for name in ("torch", "skorch", "opacus") if find_spec(name) is None] or [str(error.name or error)]
    raise MissingDependencyError(
        f"skdptune.candidates.nets needs torch, skorch and opacus; what cannot be imported: {', '.join(missing)}. Take "
        "torch's build for the CPU first, unless you have a GPU (pip install torch --index-url "
        "https://download.pytorch.org/whl/cpu), then pip install '.[nets]' in a clone of the project."
    ) from error

from skdptune.candidates.nets._adapter import NetAdapter, vouch_for
from skdptune.candidates.nets._estimators import DPNeuralNetClassifier, DPNeuralNetRegressor
from skdptune.candidates.nets._modules import MLP, TemperedSigmoid
from skdptune.candidates.nets._presets import DPLinearRegression, DPLogisticRegression, LinearModel
from skdptune.candidates.nets._schedules import LinearDecay
from skdptune.candidates.nets._space import dp_sgd_search_space

__all__ = [
    "MLP",
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPNeuralNetClassifier",
    "DPNeuralNetRegressor",
    "LinearDecay",
    "LinearModel",
    "NetAdapter",
    "TemperedSigmoid",
    "dp_sgd_search_space",
]

vouch_for(DPNeuralNetClassifier)
vouch_for(DPNeuralNetRegressor)
vouch_for(DPLogisticRegression)
vouch_for(DPLinearRegression)
