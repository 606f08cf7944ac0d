"""Linear models over the same engine: the sound choice for tables with an intercept."""

import numpy as np
import torch
from torch import nn

from skdptune._exceptions import InvalidParameterError
from skdptune.candidates.nets._estimators import DPNeuralNetClassifier, DPNeuralNetRegressor
from skdptune.candidates.nets._known import register

__all__ = ["DPLinearRegression", "DPLogisticRegression", "LinearModel"]


class LinearModel(nn.Module):
    """One linear layer behind a public scaling of the columns; starts at zero.

    Parameters
    ----------
    n_features_in, n_outputs : int
    fit_intercept : bool, default=True
    feature_bounds : (array-like, array-like) or None
        Public lower and upper bounds of the columns: they are clipped to them and scaled to [-1, 1].

    Examples
    --------
    >>> import torch
    >>> LinearModel(2, 3)(torch.ones(1, 2)).shape
    torch.Size([1, 3])
    """

    def __init__(self, n_features_in, n_outputs, fit_intercept=True, feature_bounds=None):
        super().__init__()
        self.linear = nn.Linear(n_features_in, n_outputs, bias=fit_intercept)
        with torch.no_grad():
            for parameter in self.linear.parameters():
                parameter.zero_()
        self.scaled = feature_bounds is not None
        if self.scaled:
            low, high = _checked_feature_bounds(feature_bounds, n_features_in)
            self.register_buffer("low", torch.tensor(low.copy(), dtype=torch.float32))
            self.register_buffer("high", torch.tensor(high.copy(), dtype=torch.float32))

    def forward(self, x):
        """Return linear scores."""
        if self.scaled:
            width = torch.where(self.high > self.low, self.high - self.low, torch.ones_like(self.low))
            x = (2 * torch.clamp(x, self.low, self.high) - (self.low + self.high)) / width
        return self.linear(x)


register(LinearModel, 2, lambda layer: [*map(type, layer._modules.values())] == [nn.Linear])


def _checked_feature_bounds(bounds, n_features):
    try:
        low, high = (np.asarray(bound, dtype=float) for bound in bounds)
        ordered = np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()
    except (TypeError, ValueError):
        ordered = False
    if not ordered:
        raise InvalidParameterError(
            "feature_bounds must be a pair (lower, upper) of finite numbers, or of one for each column, with "
            "lower <= upper, chosen without the data."
        )
    for bound in (low, high):
        if bound.shape not in ((), (1,), (n_features,)):  # a ValueError: the number of columns may be made up as yet
            raise ValueError(
                f"feature_bounds must hold numbers, or one for each of the {n_features} columns; got an array of shape "
                f"{bound.shape}. Give a lower and an upper bound for every column"
            )
    return np.broadcast_to(low, (n_features,)), np.broadcast_to(high, (n_features,))


class _Linear:
    """Parameters and fitted attributes that both presets share."""

    module = LinearModel
    _module_settings = ("fit_intercept", "feature_bounds")

    def get_params_for(self, prefix):
        """Pass the preset's own settings on to its module and optimizer."""
        found = super().get_params_for(prefix)
        if prefix == "module":
            found.update(fit_intercept=self.fit_intercept, feature_bounds=self.feature_bounds)
        return found

    def get_params_for_optimizer(self, prefix, named_parameters):
        """Penalise weights (never the intercept) by ``alpha / 2 |w|^2``."""
        named = list(named_parameters)
        weights = [p for name, p in named if name.endswith("weight")]
        others = [p for name, p in named if not name.endswith("weight")]
        groups = [{"params": weights, "weight_decay": self.alpha}]
        if others:
            groups.append({"params": others})
        return (groups,), {"lr": self.lr}

    def _scaled_weights(self):
        linear = self.module_.linear
        weights = linear.weight.detach().double().numpy()
        intercept = np.zeros(len(weights)) if linear.bias is None else linear.bias.detach().double().numpy()
        if self.module_.scaled:
            low, high = self.module_.low.double().numpy(), self.module_.high.double().numpy()
            width = np.where(high > low, high - low, 1.0)
            intercept = intercept - weights @ ((low + high) / width)
            weights = 2 * weights / width
        return weights, intercept


_PRESET_DOC = """
    Parameters
    ----------
    fit_intercept : bool, default=True
    alpha : float >= 0, default=0
        Strength of the penalty ``alpha / 2 |w|^2`` on the weights.
    feature_bounds : (array-like, array-like) or None
        Public bounds of the columns; rows are clipped to them and scaled to [-1, 1].
    lr, noise_multiplier, max_grad_norm, sample_rate, expected_batch_size, n_samples, steps, max_epochs, \
physical_batch_size, lr_schedule, device, random_state
        As for :class:`DPNeuralNetClassifier`.
"""


class DPLogisticRegression(_Linear, DPNeuralNetClassifier):
    """Logistic regression, multinomial and with an intercept, trained by DP-SGD.
    {common}
    classes : array-like or None
        The public label set.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features_in_)
    intercept_ : ndarray of shape (n_classes,)
        In the units of the rows.

    Notes
    -----
    *Guarantee* and *Assumes*: see :class:`DPNeuralNetClassifier`. Nothing is assumed of the minimiser: the
    guarantee is that of the noisy steps, whether or not they converge.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skdptune.candidates.nets import DPLogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DPLogisticRegression(feature_bounds=(0.0, 8.0), steps=40).fit(X, y)
    >>> model.coef_.shape, model.intercept_.shape
    ((3, 4), (3,))
    """

    def __init__(
        self,
        *,
        fit_intercept=True,
        alpha=0.0,
        feature_bounds=None,
        lr=1.0,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        sample_rate=None,
        expected_batch_size=None,
        n_samples=None,
        steps=None,
        max_epochs=10,
        physical_batch_size=1024,
        lr_schedule=None,
        classes=None,
        device="cpu",
        random_state=None,
    ):
        self._assign(locals(), {})

    criterion = nn.CrossEntropyLoss

    @property
    def coef_(self):
        """Weights of the classes' scores."""
        self.check_is_fitted()
        return self._scaled_weights()[0]

    @property
    def intercept_(self):
        """Intercepts of the classes' scores."""
        self.check_is_fitted()
        return self._scaled_weights()[1]


class DPLinearRegression(_Linear, DPNeuralNetRegressor):
    """Linear regression by least squares with an intercept, trained by DP-SGD.
    {common}
    target_bounds : (float, float) or None
        Public range of the target; see :class:`DPNeuralNetRegressor`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features_in_,)
    intercept_ : float
        In the units of rows and target.

    Notes
    -----
    *Guarantee* and *Assumes*: see :class:`DPNeuralNetClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdptune.candidates.nets import DPLinearRegression
    >>> X = np.linspace(0, 1, 200).reshape(200, 1)
    >>> model = DPLinearRegression(feature_bounds=(0, 1), target_bounds=(0, 3)).fit(X, 3 * X[:, 0])
    >>> model.coef_.shape
    (1,)
    """

    def __init__(
        self,
        *,
        fit_intercept=True,
        alpha=0.0,
        feature_bounds=None,
        target_bounds=None,
        lr=0.2,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        sample_rate=None,
        expected_batch_size=None,
        n_samples=None,
        steps=None,
        max_epochs=10,
        physical_batch_size=1024,
        lr_schedule=None,
        device="cpu",
        random_state=None,
    ):
        self._assign(locals(), {})

    criterion = nn.MSELoss

    def _in_units(self):
        self.check_is_fitted()
        weights, intercept = self._scaled_weights()
        if self._task.bounds is not None:
            low, high = self._task.bounds
            weights = weights * (high - low) / 2
            intercept = intercept * (high - low) / 2 + (low + high) / 2
        if self._task.n_targets is None:
            return weights[0], float(intercept[0])
        return weights, intercept

    @property
    def coef_(self):
        """Weights of the columns."""
        return self._in_units()[0]

    @property
    def intercept_(self):
        """The prediction where all columns are zero."""
        return self._in_units()[1]


for _class in (DPLogisticRegression, DPLinearRegression):
    _class.__doc__ = (_class.__doc__ or "").replace("    {common}\n", _PRESET_DOC.rstrip("\n") + "\n")
    # Settings that a linear model does not offer stay at their safe values.
    for _name, _value in {
        "optimizer": torch.optim.SGD,
        "clipping": "flat",
        "grad_sample_mode": "auto",
        "predict_nonlinearity": "auto",
        "input_dtype": None,
        "callbacks": None,
        "train_split": None,
        "iterator_train": None,
        "iterator_valid": None,
        "dataset": None,
        "warm_start": False,
        "compile": False,
    }.items():
        setattr(_class, _name, _value)
