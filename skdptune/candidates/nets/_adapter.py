"""The adapter through which a search prices, trains and publishes a net."""

import copy

import numpy as np
import torch

from skdptune._exceptions import CandidateRefusedError
from skdptune.accounting._relations import check_relation
from skdptune.candidates._protocol import CandidateAdapter
from skdptune.candidates._seeding import quick_clone
from skdptune.candidates.nets import _budget
from skdptune.candidates.nets._checks import check_net
from skdptune.candidates.nets._known import TOGETHER, is_known
from skdptune.candidates.nets._losses import RowLoss, build_criterion
from skdptune.candidates.nets._modules import tensors_of
from skdptune.candidates.nets._rows import Schema
from skdptune.candidates.nets._terms import COST_PARAMS, check_relation_terms, sgd_terms

__all__ = ["NetAdapter", "vouch_for"]

_VOUCHED = set()


def vouch_for(cls):
    """Add a class to those whose ``fit`` is the one that was read and priced (used as a decorator)."""
    _VOUCHED.add(cls)
    return cls


class NetAdapter(CandidateAdapter):
    """Adapter of the nets of this package, by exact type: a subclass may train differently.

    *Guarantee*: see :class:`~skdptune.candidates.nets.DPNeuralNetClassifier`.

    Examples
    --------
    >>> from skdptune.candidates.nets import DPNeuralNetClassifier
    >>> adapter = NetAdapter(DPNeuralNetClassifier(train_split=5))
    >>> adapter.check("zero-out")
    Traceback (most recent call last):
    ...
    skdptune._exceptions.CandidateRefusedError: train_split of DPNeuralNetClassifier must be None; got int: ...
    """

    def check(self, relation):
        check_relation(relation)
        if type(self.estimator) not in _VOUCHED:
            raise CandidateRefusedError(
                f"{self.name} is a subclass of a private net and may train otherwise than priced: use "
                f"{self._known_base()} itself and put your changes into module, criterion and optimizer."
            )
        check_relation_terms(self.estimator, relation)
        sgd_terms(self.estimator, 1)
        check_net(self.estimator)

    def _built_of_known_layers(self):
        module = self.estimator._new_module(None, None, seed=0)
        return module is not None and is_known(module, build_criterion(self.estimator))

    def _known_base(self):
        return next((c.__name__ for c in type(self.estimator).__mro__ if c in _VOUCHED), "DPNeuralNetClassifier")

    def check_data(self, n_samples, n_features, classes):
        """Rehearse on random rows of the declared shape (see :meth:`Schema.of`)."""
        net = quick_clone(self.estimator)
        schema = Schema.of(n_features)
        _, task = net._task_of(*_no_rows(classes))
        net._rehearse(schema, task, RowLoss(build_criterion(net)), sgd_terms(net, n_samples))

    def privacy_curve(self, n_samples, relation):
        return self.estimator.privacy_curve(n_samples, relation)

    def privacy_params(self):
        return frozenset(COST_PARAMS)

    def level_family(self, n_samples, relation):
        return _budget.level_family(self.estimator, n_samples, relation)

    def with_budget(self, level, n_samples, relation):
        return _budget.with_budget(self.estimator, level, n_samples)

    def assumptions(self, relation):
        net = self.estimator
        sentences = [
            f"The module, criterion and initial weights of {self.name} are public: chosen without the private rows.",
            f"max_grad_norm={net.max_grad_norm} and every other setting of {self.name} were chosen without the "
            "private rows.",
            "Gaussian noise of the nets is drawn and added in floating point, from generators of 256 bits (on a GPU: "
            "two 126-bit keys per draw) that are not cryptographic.",
        ]
        known, apart = self._built_of_known_layers(), net.grad_sample_mode == "rows"
        if not known:
            sentences += self._of_own_code()
        if not apart and (not known or callable(net.predict_nonlinearity)):
            sentences.append(
                f"Predictions of {self.name} (its module in eval mode, predict_nonlinearity) treat each row by itself: "
                "checked on random rows, not proved (grad_sample_mode='rows' makes it so by construction)."
            )
        if relation == "add-remove" and not apart:  # there a row's batch is the row
            sentences.append(
                "torch's kernels compute each row's own gradient to the same bits in a batch of one row more or less."
            )
        if net.n_samples is not None:
            sentences.append(f"n_samples={net.n_samples} is a public guess of the number of training rows.")
        return tuple(sentences)

    def _of_own_code(self):
        """Return what is assumed of code that is not known."""
        mode, what = self.estimator.grad_sample_mode, f"the module and criterion of {self.name}"
        if mode in TOGETHER:
            yield (
                f"T{what[1:]} treat each row by itself: checked on random rows, not proved "
                "(grad_sample_mode='rows' makes it so by construction)."
            )
        yield (
            f"The code of {what} keeps nothing from one call to the next, inside or outside: in what copies share, "
            "globals, closures, class attributes, files, or generators other than the global ones of torch, Python and "
            "numpy."
        )
        if mode != "rows":
            yield (
                f"The code of {what} draws random numbers for each row by itself, with torch: none from Python's or "
                "numpy's generators in any step, as was seen on random rows (grad_sample_mode='rows' needs no such "
                "assumption)."
            )
            yield (
                f"Whether the code of {what} raises an error for a row depends on that row and its own random numbers "
                "alone, and it raises none for a few made-up rows (normals; zeros and ones where numbers are whole), "
                "which take the places of others in a batch that failed (grad_sample_mode='rows' needs no such "
                "assumption)."
            )
            yield (
                f"While the code of {what} trains, no other thread of its process draws from the global generators of "
                "torch, Python or numpy: a batch that is gone through again would meet other masks (tries in threads "
                "are refused; grad_sample_mode='rows' needs no such assumption)."
            )
        if mode in ("auto", "functorch"):
            yield (
                f"Under torch.func.vmap the code of {what} catches no error, reads no tensor as text and brings no "
                "batching rule: each would see all rows of a batch (grad_sample_mode='rows' needs no such assumption)."
            )

    def fit(self, X, y, *, classes, seed):
        """Train a clone; returns a net whose only trained content are its private weights."""
        net = quick_clone(self.estimator)
        if hasattr(X, "columns"):
            net.feature_names_in_ = np.asarray(X.columns, dtype=object)
        y = y.detach().cpu().numpy() if isinstance(y, torch.Tensor) else np.asarray(y)
        y, task = net._task_of(y, classes)
        return net._fit_private(X, y, task, seed)

    def published_names(self, fitted):
        return ("module_",)

    def publish(self, fitted):
        """Return a fresh net: a new module of the template with the private weights copied in."""
        fresh = quick_clone(self.estimator)
        fresh._set_public(fitted._schema, fitted._task)
        for name in ("_classes", "n_features_in_", "feature_names_in_"):  # public: labels and schema
            if name in vars(fitted):
                setattr(fresh, name, copy.copy(vars(fitted)[name]))
        fresh._install({name: tensor.detach().cpu().clone() for name, tensor in tensors_of(fitted.module_).items()})
        return fresh


def _no_rows(classes):
    """Return ``(targets, classes)`` to make a task from labels alone."""
    return (np.zeros(0), None) if classes is None else (np.asarray(classes), classes)
