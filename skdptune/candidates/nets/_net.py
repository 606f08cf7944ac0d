"""What the private nets share: the price, the training, the release, and scikit-learn's manners."""

import inspect
import warnings

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import validate_data
from skorch.exceptions import NotInitializedError

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, PublicSeedWarning
from skdptune._validation import check_integer
from skdptune.accounting._relations import check_relation
from skdptune.candidates._generators import shares_its_process
from skdptune.candidates._quotes import without_cells
from skdptune.candidates._row_safe import is_keyed
from skdptune.candidates._seeding import entropy_for
from skdptune.candidates.nets import _budget
from skdptune.candidates.nets._building import build_module, by_value
from skdptune.candidates.nets._catches import is_own
from skdptune.candidates.nets._checks import check_apart, check_code, check_net, is_component_param
from skdptune.candidates.nets._dry_run import dry_run
from skdptune.candidates.nets._engine import one_thread_in_workers, place, train
from skdptune.candidates.nets._known import TOGETHER, is_known, row_by_row
from skdptune.candidates.nets._losses import RowLoss, build_criterion
from skdptune.candidates.nets._modules import (
    copy_module,
    copy_tensors,
    dtype_of,
    fixed_torch_seed,
    plain_torch,
    run_module,
    run_module_by_rows,
    tensors_of,
    waits_for_shapes,
)
from skdptune.candidates.nets._predictions import made_of
from skdptune.candidates.nets._rows import Rows, input_dtype_of, refuse_times
from skdptune.candidates.nets._schedules import check_schedule
from skdptune.candidates.nets._terms import COST_PARAMS, check_relation_terms, sgd_terms

__all__ = ["PrivateNet", "refused"]

_PLACEHOLDER = 8  # columns assumed where a module asks for them before they are known
_NOT_KEPT = {"f_optimizer": "state of an optimizer", "f_history": "history", "checkpoint": "checkpoint"}
_REHEARSED = {}
_REHEARSED_LIMIT = 512


class _NotOfferedError(CandidateRefusedError, AttributeError):
    """Something skorch has and a private net cannot have."""


def refused(name, why):
    def explain(self):
        raise _NotOfferedError(f"{type(self).__name__} has no {name}: {why}")

    return property(explain, doc=f"Not offered: {why}")


class _RefusedMethod:
    """A refused method that its class shows as a function.

    skorch declares how scikit-learn routes ``classes`` to ``partial_fit``; scorers read the signature from the class.
    """

    def __init__(self, function, why):
        self.function, self.why = function, why

    def __get__(self, instance, owner):
        if instance is None:
            return self.function
        raise _NotOfferedError(f"{owner.__name__} has no {self.function.__name__}: {self.why}")


def partial_fit(self, X, y=None, classes=None, **fit_params):
    """Not offered."""


def _only_weights(net, more):
    given = sorted(name for name, file in more.items() if name in _NOT_KEPT and file is not None)
    if given:
        raise _NotOfferedError(
            f"{type(net).__name__} keeps no {' and no '.join(_NOT_KEPT[name] for name in given)}: what a training "
            f"leaves beside the weights was computed from private rows. Leave out {', '.join(given)}."
        )


class PrivateNet:
    """What both nets share. Mixed in before the skorch net."""

    # skorch's bookkeeping, as class attributes: a constructor only assigns its parameters.
    initialized_ = False
    history_ = None
    virtual_params_ = {}  # noqa: RUF012
    verbose = 0
    use_caching = False
    torch_load_kwargs = None
    init_context_ = None
    prefixes_ = ["module", "criterion", "optimizer", "callbacks"]  # noqa: RUF012
    cuda_dependent_attributes_ = []  # noqa: RUF012
    _modules = ["module"]  # noqa: RUF012
    _criteria = ["criterion"]  # noqa: RUF012
    _optimizers = ["optimizer"]  # noqa: RUF012

    _module_settings = ()  # parameters that shape the module, beside module__*

    privacy_params = COST_PARAMS
    _AGAIN = "a second training on private rows costs its own price; call fit on a clone, with more steps="
    partial_fit = _RefusedMethod(partial_fit, _AGAIN)
    fit_loop = refused("fit_loop", _AGAIN)
    run_single_epoch = refused("run_single_epoch", _AGAIN)
    _STEP = "its loop clips, counts and adds noise by itself; set optimizer=, lr_schedule= or max_grad_norm= instead."
    train_step = refused("train_step", _STEP)
    train_step_single = refused("train_step_single", _STEP)
    validation_step = refused("validation_step", "no row is scored inside a training; use the search's scoring=.")
    notify = refused("notify", "callbacks run between epochs and see nothing of the rows; read module_ after fit.")
    get_iterator = refused("get_iterator", "rows are drawn by the loop; use predict, predict_proba or forward_iter.")
    get_dataset = refused("get_dataset", "rows are read by index; use predict, predict_proba or forward_iter.")
    trim_for_prediction = refused("trim_for_prediction", "there is nothing to trim: module_ holds weights alone.")
    initialize = refused("initialize", "fit builds everything anew; look at module_ after fit.")

    def save_params(self, f_params=None, **more):
        """Save the weights of ``module_`` (as skorch does); there is nothing else to save."""
        _only_weights(self, more)
        self.check_is_fitted()
        return super().save_params(f_params=f_params, **more)

    def load_params(self, f_params=None, **more):
        """Load weights into ``module_`` (as skorch does)."""
        _only_weights(self, more)
        self.check_is_fitted()
        return super().load_params(f_params=f_params, **more)

    def _assign(self, arguments, more):
        for name in arguments:
            if name not in ("self", "kwargs", "__class__"):
                setattr(self, name, arguments[name])
        for name, value in more.items():  # unknown names are refused by fit, as in skorch
            setattr(self, name, value)

    # ---------------------------------------------------------------- scikit-learn's manners

    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__
    __repr__ = BaseEstimator.__repr__

    @property
    def _params_to_validate(self):
        return set()

    @classmethod
    def _declared(cls):
        parameters = inspect.signature(cls.__init__).parameters.values()
        return [p.name for p in parameters if p.name != "self" and p.kind != p.VAR_KEYWORD]

    @classmethod
    def _takes_components(cls):
        return any(p.kind == p.VAR_KEYWORD for p in inspect.signature(cls.__init__).parameters.values())

    def _get_param_names(self):
        extra = [name for name in vars(self) if not (name.startswith("_") or name.endswith("_"))]
        return sorted({*self._declared(), *extra})

    def get_params(self, deep=True):
        """Return the parameters, ``module__*``, ``criterion__*`` and ``optimizer__*`` among them."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params):
        """Set parameters; the fitted weights stay as they are until the next ``fit``.

        How predictions are made of them follows at once: ``predict_nonlinearity``, ``input_dtype``, ``device`` and
        ``physical_batch_size`` are read when predicting.
        """
        known = set(self._get_param_names())
        for name in params:
            if name not in known and not (self._takes_components() and is_component_param(name)):
                more = " and any module__*, criterion__* or optimizer__*" if self._takes_components() else ""
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}. Valid parameters are: "
                    f"{self._get_param_names()}{more}."
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        tags.input_tags.dict = True
        tags.target_tags.required = True
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True
        return tags

    def __sklearn_is_fitted__(self):
        return "module_" in vars(self)

    def check_is_fitted(self, *args, **kwargs):
        """Raise scikit-learn's NotFittedError before ``fit``."""
        if not self.__sklearn_is_fitted__():
            raise NotInitializedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )

    def __getstate__(self):
        """Weights travel as plain arrays: any machine can load them."""
        state = {k: v for k, v in vars(self).items() if k not in ("module_", "criterion_")}
        if "module_" in vars(self):
            state["_weights"] = {k: _as_plain(v) for k, v in tensors_of(self.module_).items()}
        return state

    def __setstate__(self, state):
        state = dict(state)
        weights = state.pop("_weights", None)
        vars(self).update(state)
        if weights is not None:
            self._install({k: torch.as_tensor(v) for k, v in weights.items()}, self._built_from)

    # ---------------------------------------------------------------- the price

    def privacy_curve(self, n_samples, relation="zero-out"):
        """Return the cost of one ``fit`` on ``n_samples`` rows.

        Parameters
        ----------
        n_samples : int
            The public number of training rows.
        relation : {"zero-out", "replace-one", "add-remove"}

        Returns
        -------
        PrivacyCurve
            ``PrivacyCurve.dp_sgd`` of exactly the rate and the number of steps that ``fit`` uses.

        Raises
        ------
        CandidateRefusedError
            Under "add-remove" without ``n_samples`` as a parameter.
        """
        check_relation_terms(self, check_relation(relation))
        return sgd_terms(self, check_integer("n_samples", n_samples, low=1)).curve(relation)

    def rdp_curve(self, orders):
        """Return the Renyi divergences of one ``fit`` under "zero-out".

        Parameters
        ----------
        orders : array-like of float > 1, shape (n_orders,)

        Returns
        -------
        ndarray of shape (n_orders,), nats

        Raises
        ------
        CandidateRefusedError
            Where the sampling rate depends on the number of rows, and ``n_samples`` is not set.
        """
        if self.n_samples is None and self.sample_rate is None:
            raise CandidateRefusedError(
                "n_samples of a net must be set for rdp_curve; got None, and the sampling rate depends on it. Set it, "
                "or use privacy_curve(n_samples).rdp(orders)."
            )
        return sgd_terms(self, self.n_samples or 1).curve("zero-out").rdp(orders)

    def level_family(self, n_samples, relation="zero-out"):
        """Return the levels that suit this net: its own training at any noise multiplier."""
        return _budget.level_family(self, n_samples, relation)

    def with_budget(self, level, n_samples=None):
        """Return a clone whose noise is just large enough to lie below ``level`` everywhere.

        Parameters
        ----------
        level : PrivacyCurve
        n_samples : int, optional
            The number of training rows; the parameter ``n_samples`` if left out.

        Raises
        ------
        PricingError
            If no amount of noise is enough.
        """
        return _budget.with_budget(self, level, n_samples)

    def __skdptune_adapter__(self):
        from skdptune.candidates.nets._adapter import NetAdapter

        return NetAdapter(self)

    # ---------------------------------------------------------------- fit

    def fit(self, X, y=None, **fit_params):
        """Train by DP-SGD on rows X with targets y.

        Parameters
        ----------
        X : array-like, sparse matrix, tensor, or dict of arrays; first dimension n_samples
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        **fit_params : dict
            Refused by name.

        Returns
        -------
        self
            With ``module_``: a plain module that holds the private weights and nothing else.
        """
        if fit_params:
            raise InvalidParameterError(
                f"fit takes X and y; got {', '.join(sorted(fit_params))}. Per-row arguments are not priced: leave "
                "them out."
            )
        check_net(self)
        X, y, task = self._validated(X, y)
        return self._fit_private(X, y, task, self._own_seed())

    def _own_seed(self):
        """Return None (operating system entropy), or what ``random_state`` stands for, with a warning."""
        if self.random_state is None:
            return None
        warnings.warn(
            "random_state was given: training is repeatable, and its guarantee holds only for those who do not know "
            "the seed. Leave random_state=None for a release.",
            PublicSeedWarning,
            stacklevel=3,
        )
        return int.from_bytes(check_random_state(self.random_state).bytes(32), "big")

    def _fit_private(self, X, y, task, seed):
        """Train, and keep a fresh plain module with the private weights."""
        rows = Rows(X)
        terms = sgd_terms(self, len(rows))
        row_loss = RowLoss(build_criterion(self))
        self._rehearse(rows.schema, task, row_loss, terms)
        start = entropy_for(seed, "initial weights")
        device = place(self.device)
        with one_thread_in_workers(), plain_torch():
            module = self._new_module(rows.schema, task, seed=start)
            check_code(self, module, row_loss.criterion)  # of the code as it is now
            constants = {name: b.detach().clone() for name, b in module.named_buffers()}
            targets = task.encode(y, dtype_of(module))
            module.to(device)
            row_loss.criterion.to(device)
            optimizer = self._new_optimizer(module)
            train(self, module, optimizer, row_loss, rows, targets, terms, device=device, seed=seed)
        # From here on only parameters (private outputs) and initial constants are read.
        weights = {name: p.detach().to("cpu", copy=True) for name, p in module.named_parameters()}
        self._set_public(rows.schema, task)
        self._install({**constants, **weights})
        return self

    def _set_public(self, schema, task):
        self._schema, self._task = schema, task
        if not schema.keyed and len(schema.parts[0][1]) >= 1:
            self.n_features_in_ = schema.parts[0][1][0]

    def _shapes_module(self, name):
        # the mode with them: what was trained row by row also predicts row by row
        return name.startswith(("module", "criterion")) or name in (*self._module_settings, "grad_sample_mode")

    def _install(self, weights, built_from=None):
        """Make ``module_``: a new module of the template with the given tensors copied in.

        ``built_from`` are the settings the weights were trained with, where those of the net have changed since.
        """
        if built_from is None:
            built_from = {name: getattr(self, name) for name in self._get_param_names() if self._shapes_module(name)}
        template = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if not self._shapes_module(name)}
        vars(template).update({**kept, **built_from})
        module = template._new_module(self._schema, self._task, seed=0)  # no drawn seed is kept
        copy_tensors(weights, module)
        self._built_from = built_from
        self.module_ = module.eval()
        self.criterion_ = build_criterion(template)

    def _rehearse(self, schema, task, row_loss, terms):
        """Make the dry run, once per structure of the net in this process."""
        check_schedule(self.lr_schedule, terms.steps)
        place(self.device)
        if shares_its_process():  # the dry run may have been made for tries that are alone
            check_apart(self, self._new_module(schema, task, seed=0), row_loss.criterion)
        key = self._structure(schema, task, terms)
        if key is None or key not in _REHEARSED:
            dry_run(self, schema, task, row_loss, terms)
            if key is not None:
                if len(_REHEARSED) >= _REHEARSED_LIMIT:
                    _REHEARSED.clear()
                _REHEARSED[key] = True

    def _structure(self, schema, task, terms):
        """Return what a rehearsal depends on, by value; None where a setting may change behind its name.

        Types are part of it: 1, 1.0 and True are equal, and a module may tell them apart.
        """
        if self.grad_sample_mode in TOGETHER and not is_known(
            self._new_module(schema, task, seed=0), build_criterion(self)
        ):
            return None  # that rows do not meet rests on the rehearsal: of the code as it is now
        parts = [type(self), schema, task, -(-terms.steps // terms.epoch) if self.callbacks else None]
        for name in self._get_param_names():
            if name not in (*COST_PARAMS, "lr", "lr_schedule", "random_state", "physical_batch_size", "classes"):
                value = by_value(getattr(self, name))
                if value is None:
                    return None
                parts.append((name, value))
        return tuple(parts)

    def _new_module(self, schema, task, seed):
        """Return a fresh module; without a schema, None where it cannot be built before shapes are known."""
        if schema is None:
            if waits_for_shapes(self):
                try:
                    return build_module(self, _PLACEHOLDER, 2, seed)
                except CandidateRefusedError as error:
                    if error.__cause__ is None:  # not the constructor's complaint about made-up shapes
                        raise
                    return None
            return build_module(self, None, None, seed)
        module = build_module(self, schema.n_features_in, task.n_outputs, seed)
        if any(map(torch.nn.parameter.is_lazy, module.parameters())):
            own = any(is_own(type(layer).__module__) for layer in module.modules())
            x = schema.random(2, torch.get_default_dtype(), self._whole_dtype(), np.random.default_rng(0))
            with plain_torch(), torch.no_grad(), fixed_torch_seed(seed, own_code=own):
                run_module(module, x)
        return module

    def _new_optimizer(self, module):
        args, kwargs = self.get_params_for_optimizer("optimizer", module.named_parameters())
        try:
            return self.optimizer(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                f"optimizer must take lr and optimizer__*; {self.optimizer.__name__} refused them: {error}."
            ) from error

    def _whole_dtype(self):
        return input_dtype_of(self.input_dtype)

    # ---------------------------------------------------------------- rows

    def _validated(self, X, y):
        """Check the schema of X and y; return them with the task. scikit-learn's usual errors."""
        if y is None:
            raise InvalidParameterError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Pass the targets."
            )
        y = _plain_targets(y)
        if is_keyed(X) or isinstance(X, torch.Tensor):
            for name in ("n_features_in_", "feature_names_in_"):
                vars(self).pop(name, None)
            check_consistent_length(np.empty(len(Rows(X))), y)
        else:
            X = self._table(X)
            check_consistent_length(X, y)
        y = without_cells(check_array, y, ensure_2d=False, dtype=None, input_name="y", estimator=type(self).__name__)
        y, task = self._task_of(y)
        return X, y, task

    def _table(self, X, **how):
        """Return X as scikit-learn checks it, without its messages that quote cells."""
        refuse_times(X, "X")
        try:
            return without_cells(validate_data, self, X, accept_sparse="csr", allow_nd=True, **how)
        except TypeError as error:
            if "NAType" not in str(error):
                raise
        raise InvalidParameterError("X must have a number in every cell; some are missing. Fill in public constants.")

    def _rows_to_predict(self, X):
        if not (is_keyed(X) or isinstance(X, torch.Tensor)):
            return Rows(self._table(X, reset=False))
        rows = Rows(X)
        if not len(rows):
            raise InvalidParameterError("X must have at least one row; got none.")
        mine, theirs = ({name: shape for name, shape, _ in schema.parts} for schema in (self._schema, rows.schema))
        if mine != theirs:
            raise InvalidParameterError(
                f"X must hold rows as in fit ({_described(mine)}); got {_described(theirs)}. Pass the same arrays, by "
                "the same names."
            )
        return rows

    def _nonlinearity(self, criterion):
        """Return what makes predictions of the module's outputs."""
        given = self.predict_nonlinearity
        own = self._auto_nonlinearity(criterion) if isinstance(given, str) and given == "auto" else None
        if own is not None:
            return own
        asked = object.__new__(type(self))  # before fit, too
        vars(asked).update(predict_nonlinearity=given, criterion_=criterion, module_=None)
        return asked._get_predict_nonlinearity()

    def _auto_nonlinearity(self, criterion):
        return None  # skorch's

    def infer(self, x, **fit_params):
        """Return the outputs for one batch of tensors, by a copy of the module: it may keep what it sees."""
        self.check_is_fitted()
        return self._run(copy_module(self.module_), x, **fit_params)

    def _run(self, module, x, **more):
        """Return the outputs for a batch; row by row where it was trained so, and rows might meet in forward."""
        alone = row_by_row(self._built_from.get("grad_sample_mode"), module)
        return (run_module_by_rows if alone else run_module)(module, x, **more)

    def forward_iter(self, X, training=False, device="cpu"):
        """Yield the module's outputs for X, one physical batch at a time.

        Parameters
        ----------
        X : as for ``fit``
        training : bool, default=False
            True keeps dropout on.
        device : str, default="cpu"
            Where the outputs are put.
        """
        self.check_is_fitted()
        rows = self._rows_to_predict(X)
        lost = torch.device(self.device).type == "cuda" and not torch.cuda.is_available()
        where = torch.device("cpu") if lost else place(self.device)  # loaded on a machine without a GPU
        dtype = dtype_of(self.module_)
        # Copies: rows that are scored are private, and whatever forward keeps of them must not stay in module_, nor
        # reach the next batch.
        module = copy_module(self.module_).to(where).train(training)
        known = is_known(module)
        for start in range(0, len(rows), self.physical_batch_size):
            indices = np.arange(start, min(start + self.physical_batch_size, len(rows)))
            x = rows.take(indices, dtype=dtype, whole=self._whole_dtype(), device=where)
            with plain_torch(), torch.no_grad():
                outputs = self._run(module if known else copy_module(module), x)
            if isinstance(outputs, tuple):
                yield tuple(part.to(device) for part in outputs)
            else:
                yield outputs.to(device)

    def outputs_of(self, X):
        """Return the outputs after ``predict_nonlinearity``, in double precision, shape (n_samples, ...)."""
        self.check_is_fitted()
        nonlinearity, flat = self._nonlinearity(self.criterion_), self._task.flat(self.criterion_)
        alone = callable(self.predict_nonlinearity) and self._built_from.get("grad_sample_mode") == "rows"
        parts = []
        for part in self.forward_iter(X):
            parts.append(made_of(part, flat, nonlinearity, alone).detach().numpy())
        return np.concatenate(parts)


def _described(parts):
    return ", ".join(f"{name}: shape {shape}" if name else f"shape {shape}" for name, shape in parts.items())


def _plain_targets(y):
    if isinstance(y, torch.Tensor):
        y = y.detach().cpu()
        y = (y.float() if y.dtype == torch.bfloat16 else y).numpy()
    refuse_times(y, "y")
    extended = getattr(getattr(y, "dtype", None), "na_value", None) is not None
    if y.isna().any() if extended else _has_missing(y):
        raise InvalidParameterError("y must have a label in every row; some are missing. Drop those rows.")
    return y


def _has_missing(y):
    """Return whether a list or an array of objects holds a mark of a missing label; NaN numbers are seen later."""
    if not isinstance(y, (list, tuple)) and getattr(getattr(y, "dtype", None), "kind", "") != "O":
        return False
    return any(
        label is None or type(label).__name__ in ("NAType", "NaTType") or (isinstance(label, float) and label != label)
        for label in np.asarray(y, dtype=object).ravel()
    )


def _as_plain(tensor):
    try:
        return tensor.detach().cpu().numpy().copy()
    except TypeError:  # types that numpy does not know
        return tensor.detach().cpu().clone()
