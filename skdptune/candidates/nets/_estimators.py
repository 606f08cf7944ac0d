"""The two nets: skorch nets trained by DP-SGD, priced before training, plain after it."""

import numpy as np
import torch
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from skorch import NeuralNetClassifier, NeuralNetRegressor

from skdptune._exceptions import InvalidParameterError
from skdptune.candidates._quotes import without_cells
from skdptune.candidates.nets._losses import build_criterion, one_column, to_target
from skdptune.candidates.nets._modules import MLP
from skdptune.candidates.nets._net import PrivateNet, refused
from skdptune.candidates.nets._tasks import Classification, Regression

__all__ = ["DPNeuralNetClassifier", "DPNeuralNetRegressor"]

_COMMON = """
    Parameters
    ----------
    module : torch.nn.Module class or instance, default=MLP
        Built anew for every ``fit`` from ``module__*``. If its constructor takes ``n_features_in`` or
        ``n_outputs`` and they are not set, the public shape is passed on. It must treat each row by itself.
    criterion : loss class of torch.nn
        Used with ``reduction="none"``: the loop needs one loss per row.
    optimizer : class of torch.optim, default=SGD
        Gets the noisy gradients; ``optimizer__*`` are its parameters.
    lr : float, default=0.5
        Learning rate at factor 1 of ``lr_schedule``.
    noise_multiplier : float > 0, default=1.0
        Standard deviation of the noise over ``max_grad_norm``. Set by ``with_budget`` for a target.
    max_grad_norm : float > 0, default=1.0
        Bound on the norm of one row's gradient, chosen without the data. With ``clipping="per_layer"`` a
        list gives each parameter tensor its own bound.
    sample_rate : float in (0, 1] or None
        Probability with which each row joins each step.
    expected_batch_size : float > 0 or None
        The rate as a number of rows; None with ``sample_rate=None``: the square root of the number of rows.
    n_samples : int or None
        Public number of rows that rates refer to. None: the number of training rows (which is public, but
        under "add-remove").
    steps : int or None
        Number of noisy steps; None: ``max_epochs`` epochs of ceil(1 / rate) steps.
    max_epochs : int, default=10
    physical_batch_size : int, default=256
        Most rows in memory with their gradients at a time; changes neither the result's law nor the price.
    clipping : {"flat", "per_layer"}, default="flat"
        One bound on the whole gradient, or a share of it for each parameter tensor.
    grad_sample_mode : {"auto", "functorch", "rows", "hooks", "ghost"}, default="auto"
        How per-row gradients are found. "functorch": row by row under ``vmap``; rows meet at most in code that
        catches errors, reads tensors as text or brings a rule for ``vmap``, and that there is none is an assumption.
        "rows": row by row in a plain loop, each on a copy of the module that never saw another, so that rows cannot
        meet: for any module (torch's recurrent layers, experts that are skipped, ``.item()``, scripted code), and
        slow; predictions are made so, too. "hooks": by Opacus' rules from what each layer saw in the batch. "ghost": by
        the same rules, norms first, in little memory. "auto" takes "hooks" where the module is built of torch's
        own layers in ``nn.Sequential`` (or is one of this package's), and "functorch" for all other code. With
        "hooks" or "ghost" and a module of one's own it is an assumption that the module treats each row by itself.
    lr_schedule : callable or None
        ``lr_schedule(step)`` returns a factor on ``lr``; step 0 is the first.
    predict_nonlinearity : "auto", None or callable
        As in skorch; "auto" of a regressor gives the probability or the count for ``BCEWithLogitsLoss`` and
        ``PoissonNLLLoss``. A callable must treat each row of outputs by itself: checked on random rows; with
        ``grad_sample_mode="rows"`` it gets one row at a time.
    input_dtype : {None, "int64", "int32"}
        None gives the module floating-point inputs; whole numbers are for embeddings.
    device : str, default="cpu"
        "cuda" is spread over all GPUs by parallel searches.
    callbacks : list or None
        Of ParamMapper, Freezer, Unfreezer, Initializer of skorch, with a whole number as ``at``.
    train_split, iterator_train, iterator_valid, dataset : None
        skorch's; anything else is refused.
    warm_start, compile : False
        skorch's; True is refused.
    random_state : int, RandomState or None
        None draws from the operating system. Anything else warns: a known seed voids the guarantee. Cleared
        by a search, whose runs have their own entropy.
    **kwargs
        ``module__*``, ``criterion__*``, ``optimizer__*``.
"""


class DPNeuralNetClassifier(PrivateNet, NeuralNetClassifier):
    """A neural net for classes, trained by DP-SGD (skorch over Opacus).
    {common}
    classes : array-like or None
        The public label set; None: taken from y, or from the search.

    Attributes
    ----------
    module_ : torch.nn.Module
        On the CPU, without hooks, gradients or training state.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    *Guarantee.* The fitted attributes satisfy ``privacy_curve(n_samples, relation)``: a Poisson batch and
    Gaussian noise for each of exactly the priced steps, empty batches included.

    *Assumes* that the module and the criterion treat each row by itself (checked on random rows before
    training; by construction with ``grad_sample_mode="rows"``, and almost with ``"auto"``), that code of one's own
    keeps nothing from one call to the next and trains while no other thread of the process draws from the global
    generators of torch, Python or numpy (the training fixes them; trainings in threads are refused), that initial
    weights are public, and floating-point noise.

    References
    ----------
    Abadi et al., "Deep Learning with Differential Privacy", arXiv 1607.00133v2, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdptune.candidates.nets import DPNeuralNetClassifier
    >>> net = DPNeuralNetClassifier(expected_batch_size=20, steps=30, module__hidden=(8,))
    >>> round(net.privacy_curve(100).epsilon(1e-5), 1)
    7.9
    >>> X = np.linspace(-1, 1, 100).reshape(100, 1)
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> net.fit(X, y).predict(X[:2]).shape
    (2,)
    """

    def __init__(
        self,
        module=MLP,
        criterion=torch.nn.CrossEntropyLoss,
        *,
        optimizer=torch.optim.SGD,
        lr=0.5,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        sample_rate=None,
        expected_batch_size=None,
        n_samples=None,
        steps=None,
        max_epochs=10,
        physical_batch_size=256,
        clipping="flat",
        grad_sample_mode="auto",
        lr_schedule=None,
        predict_nonlinearity="auto",
        input_dtype=None,
        classes=None,
        device="cpu",
        callbacks=None,
        train_split=None,
        iterator_train=None,
        iterator_valid=None,
        dataset=None,
        warm_start=False,
        compile=False,  # noqa: A002
        random_state=None,
        **kwargs,
    ):
        self._assign(locals(), kwargs)

    @property
    def classes_(self):
        """The public label set, sorted."""
        if "_classes" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no classes_ before fit.")
        return self._classes

    def _task_of(self, y, classes=None):
        y = column_or_1d(y, warn=True)
        if classes is None:
            classes = _declared(y, self.classes)
            if not np.isin(y, classes).all():
                raise InvalidParameterError(
                    "classes must hold every label of y; y has a label that was not declared. Declare it."
                )
        if np.asarray(classes).dtype.kind == "f" and not np.isfinite(np.asarray(classes)).all():
            raise InvalidParameterError("classes must be labels; got a number that is not finite. Leave it out.")
        self._classes = np.asarray(classes)
        return y, Classification(tuple(self._classes.tolist()), one_column(build_criterion(self)))

    def predict_proba(self, X):
        """Return class probabilities, shape (n_samples, n_classes)."""
        probabilities = self.outputs_of(X)
        if len(self._classes) == 1 and probabilities.shape[1] == 2:
            return np.ones((len(probabilities), 1))
        return probabilities

    def predict(self, X):
        """Return the most probable label of each row, shape (n_samples,)."""
        best = self.predict_proba(X).argmax(axis=1)  # before fit, this raises NotFittedError
        return self._classes[best]


class DPNeuralNetRegressor(PrivateNet, NeuralNetRegressor):
    """A neural net for numbers, trained by DP-SGD (skorch over Opacus).
    {common}
    target_bounds : (float, float) or None
        Public range of the targets. They are clipped to it and scaled to [-1, 1]; predictions are scaled back
        and clipped. None: targets are used as they come. Losses of probabilities and counts need None.

    Attributes
    ----------
    module_ : torch.nn.Module
        On the CPU, without hooks, gradients or training state.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    *Guarantee* and *Assumes*: see :class:`DPNeuralNetClassifier`.

    References
    ----------
    Abadi et al., "Deep Learning with Differential Privacy", arXiv 1607.00133v2, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdptune.candidates.nets import DPNeuralNetRegressor
    >>> net = DPNeuralNetRegressor(steps=30, expected_batch_size=20, target_bounds=(0, 10))
    >>> X = np.linspace(-1, 1, 100).reshape(100, 1)
    >>> net.fit(X, 5 + 4 * X[:, 0]).predict(X).shape
    (100,)
    """

    def __init__(
        self,
        module=MLP,
        criterion=torch.nn.MSELoss,
        *,
        optimizer=torch.optim.SGD,
        lr=0.5,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        sample_rate=None,
        expected_batch_size=None,
        n_samples=None,
        steps=None,
        max_epochs=10,
        physical_batch_size=256,
        clipping="flat",
        grad_sample_mode="auto",
        lr_schedule=None,
        predict_nonlinearity="auto",
        input_dtype=None,
        target_bounds=None,
        device="cpu",
        callbacks=None,
        train_split=None,
        iterator_train=None,
        iterator_valid=None,
        dataset=None,
        warm_start=False,
        compile=False,  # noqa: A002
        random_state=None,
        **kwargs,
    ):
        self._assign(locals(), kwargs)

    predict_proba = refused("predict_proba", "a regressor predicts numbers; use predict.")

    def _auto_nonlinearity(self, criterion):
        return to_target(criterion)

    def _task_of(self, y, classes=None):
        y = np.asarray(y)
        if y.dtype.kind not in "fiub":
            try:
                y = y.astype(np.float64)
            except (TypeError, ValueError):
                raise InvalidParameterError("y must be numeric for a regressor; it holds something else.") from None
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        if y.ndim not in (1, 2):
            raise InvalidParameterError(f"y must have shape (n_samples,) or (n_samples, n_targets); got {y.shape}.")
        return y, Regression(None if y.ndim == 1 else y.shape[1], _checked_bounds(self.target_bounds))

    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination of ``predict(X)``; for public rows, it has no noise."""
        y = without_cells(check_array, y, ensure_2d=False, dtype="numeric", input_name="y")
        return super().score(X, y, sample_weight)

    def predict(self, X):
        """Return predictions, shape (n_samples,) or (n_samples, n_targets)."""
        outputs = self.outputs_of(X)  # before fit, this raises NotFittedError
        return self._task.decode(outputs)


def _declared(y, classes):
    """Return the sorted labels: those of ``classes``, or those of ``y`` where none are declared."""
    name = "y" if classes is None else "classes"
    try:
        check_classification_targets(y)
        return np.unique(y if classes is None else np.asarray(classes))
    except TypeError:
        pass
    raise InvalidParameterError(
        f"{name} must hold labels of one kind, all text or all numbers; got kinds that cannot be sorted. Turn them all "
        "into text: y.astype(str)."
    )


def _checked_bounds(bounds):
    if bounds is None:
        return None
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = 0.0
    if not (np.isfinite([low, high]).all() and low < high):
        raise InvalidParameterError(
            "target_bounds must be a pair (lower, upper) of finite numbers with lower < upper, chosen without the data."
        )
    return low, high


for _class in (DPNeuralNetClassifier, DPNeuralNetRegressor):
    _class.__doc__ = (_class.__doc__ or "").replace("    {common}\n", _COMMON.rstrip("\n") + "\n")
