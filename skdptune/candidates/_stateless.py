"""Steps that learn nothing from the rows: free, by an allow-list of exact types.

What was vetted (source of scikit-learn 1.7.2 and 1.9.1; the tests fit each on different rows and compare
what is kept):

=========================== ===================================================================
type                        accepted when
=========================== ===================================================================
Normalizer, Binarizer       always: ``fit`` records the shape, ``transform`` treats rows alone
PolynomialFeatures          always: ``fit`` counts output columns from the shape
FunctionTransformer         ``func`` is None, an elementwise numpy ufunc, or declared by
                            :func:`row_wise`: having nothing to fit does not make a function
                            row-wise (``lambda X: X - X.mean(0)`` has nothing to fit)
FeatureHasher,              always, except ``input`` other than ``"content"`` (it opens files) and
HashingVectorizer           callables that are not declared by :func:`row_wise`
OneHotEncoder               ``categories`` listed, ``handle_unknown="ignore"`` (an error or a warning
                            would depend on a row), no frequency limits (they count rows)
OrdinalEncoder              ``categories`` listed, ``handle_unknown="use_encoded_value"``, no limits, and an
                            ``unknown_value`` that is a number (NaN would fail a private step for one row)
SimpleImputer               ``strategy="constant"``, ``keep_empty_features=True`` (else columns without
                            a value are dropped), ``add_indicator=False``
RBFSampler                  ``gamma`` a number (``"scale"`` reads the variance of X)
GaussianRandomProjection    ``n_components`` an integer
ColumnTransformer,          every part is accepted; columns are listed or chosen by
FeatureUnion, Pipeline      ``make_column_selector``; ``memory=None``
=========================== ===================================================================

AdditiveChi2Sampler and SkewedChi2Sampler are left out: whether they raise depends on one cell.

The list does not have to be trusted for ``fit``: :class:`StatelessAdapter` fits a step on one placeholder
row that has the columns and types of X and no value of it. What the list vouches for is ``transform``.
"""

import contextlib
import copy
import functools
import numbers
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.random_projection import GaussianRandomProjection

from skdptune._exceptions import CandidateRefusedError, InvalidTypeError
from skdptune._validation import describe, invalid_type
from skdptune.candidates._contents import fitted_slots
from skdptune.candidates._protocol import CandidateAdapter, has_adapter
from skdptune.candidates._rehearsal import (
    Trial,
    days_like,
    declared_functions,
    holds_times,
    is_declared,
    made_up_batches,
    place_of,
    quietly,
    unfit,
)
from skdptune.candidates._row_safe import OtherLengthError, length_of, transformed
from skdptune.candidates._seeding import set_random_states, strip_seeds

__all__ = [
    "RowWise",
    "StatelessAdapter",
    "placeholder_like",
    "private_alternative",
    "refusal",
    "row_wise",
]

_PASS = (None, "passthrough", "drop")


class RowWise:
    """A function declared to treat every row by itself; made by :func:`row_wise`.

    Calling it checks that no row appears or disappears: the number of rows is public and fixed.

    Examples
    --------
    >>> RowWise(abs).row_wise
    True
    """

    row_wise = True

    def __init__(self, func):
        self.func = func
        functools.update_wrapper(self, func, updated=())

    def __call__(self, X, *args, **kwargs):
        out = self.func(X, *args, **kwargs)
        if out is None:
            raise TypeError(f"{self!r} returned None, not rows")  # the usual slip: no return statement
        # a document is one row, whatever its words are
        if not isinstance(X, (str, bytes)) and length_of(out) != length_of(X):
            raise OtherLengthError(
                f"{self!r} was declared row-wise and must return one row for each row it gets; it "
                "changed the number of rows: remove the function or declare it no more."
            )
        if hasattr(out, "iloc") and hasattr(X, "iloc") and not out.index.equals(X.index):
            return out.set_axis(X.index, axis=0)  # frames are joined by it: a row must not take another one's cells
        return out

    def __repr__(self):
        return f"row_wise({getattr(self.func, '__name__', type(self.func).__name__)})"


def row_wise(func):
    """Declare that a function, or the function of a FunctionTransformer, treats rows one by one.

    Parameters
    ----------
    func : callable or FunctionTransformer
        ``func(X)[i]`` must depend on ``X[i]`` alone, and on nothing learned from private rows.

    Returns
    -------
    callable or FunctionTransformer
        The declared function; for a FunctionTransformer a clone that uses it.

    Raises
    ------
    InvalidTypeError
        If ``func`` is neither.

    Notes
    -----
    *Assumes* that the declaration is true. The adapter tries the function on made-up rows and refuses
    one that is seen to mix them; that catches slips, not every dependence.

    Examples
    --------
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> @row_wise
    ... def to_unit(X):  # by name: workers cannot be sent a lambda
    ...     return X / 255.0  # a public bound
    >>> FunctionTransformer(to_unit).func.row_wise
    True
    """
    if isinstance(func, FunctionTransformer):
        inner = func.func if is_declared(func.func) else row_wise(func.func)
        return clone(func).set_params(func=inner)
    if not callable(func):
        raise invalid_type("func", "a callable or a FunctionTransformer", func)
    return RowWise(func)


def _is_elementwise_ufunc(func):
    return isinstance(func, np.ufunc) and func.signature is None and (func.nin, func.nout) == (1, 1)


def _always(step):
    return None


def _function_transformer(step):
    if step.func is None or is_declared(step.func):
        return None
    if _is_elementwise_ufunc(step.func) and not step.kw_args:
        return None
    return (
        "func is not declared row-wise, and a function without anything to fit may still mix rows; "
        "write FunctionTransformer(skdptune.candidates.row_wise(func)) if func(X)[i] depends on X[i] "
        "alone"
    )


def _hashing_vectorizer(step):
    if step.input != "content":
        return "input must be 'content', other inputs open files; read the text beforehand"
    for name in ("preprocessor", "tokenizer", "analyzer"):
        func = getattr(step, name)
        if callable(func) and not is_declared(func):
            return (
                f"{name} is a function that is not declared row-wise; write "
                f"{name}=skdptune.candidates.row_wise(...) if it keeps nothing between documents"
            )
    return None


def _encoder(step, handle_unknown):
    if isinstance(step.categories, str):
        return "categories='auto' reads them from the rows; list them: categories=[[...], ...]"
    if step.handle_unknown != handle_unknown:
        return (
            f"handle_unknown={step.handle_unknown!r} makes one row's category raise or warn; "
            f"set handle_unknown={handle_unknown!r}"
        )
    if step.min_frequency is not None or step.max_categories is not None:
        return "min_frequency and max_categories count rows; set both to None"
    return None


def _ordinal_encoder(step):
    value = step.unknown_value
    if step.handle_unknown == "use_encoded_value" and (value is None or value != value):
        return (
            f"unknown_value={value!r} sends one row with an unlisted category into the private step as a missing "
            "value, on which it may fail; set it to a number, e.g. -1"
        )
    return _encoder(step, "use_encoded_value")


def _imputer(step):
    if step.strategy != "constant":
        return (
            f"strategy={step.strategy!r} is computed from the rows; use strategy='constant' with a "
            "public fill_value and keep_empty_features=True"
        )
    if not step.keep_empty_features:
        return "keep_empty_features=False drops columns by their content; set it to True"
    if step.add_indicator:
        return "add_indicator=True adds columns by their content; set it to False"
    return None


def _rbf_sampler(step):
    if isinstance(step.gamma, numbers.Real):
        return None
    return "gamma='scale' reads the variance of the rows; give a number"


def _projection(step):
    if isinstance(step.n_components, numbers.Integral):
        return None
    return "n_components='auto' is not fixed beforehand; give an integer"


def _column_transformer(step):
    for name, part, columns in step.transformers:
        if callable(columns) and type(columns) is not make_column_selector:
            return f"the columns of part {name!r} are chosen by a function of X; list them"
        reason = _part(name, part)
        if reason:
            return reason
    return _part("remainder", step.remainder)


def _feature_union(step):
    return next(filter(None, (_part(name, part) for name, part in step.transformer_list)), None)


def _inner_pipeline(step):
    if step.memory is not None:
        return "memory= keeps fitted steps between runs; set memory=None"
    return next(filter(None, (_part(name, part) for name, part in step.steps)), None)


def _part(name, part):
    if part is None or isinstance(part, str):
        return None
    if type(part) not in _RULES and has_adapter(part):
        return (
            f"its part {name!r} ({type(part).__name__}) is private, and what parts side by side cost is "
            "not stated here; make it a step of its own"
        )
    reason = refusal(part)
    return None if reason is None else f"its part {name!r} ({type(part).__name__}): {reason}"


@dataclass(frozen=True)
class _Rule:
    """When a type is stateless, and which of its parameters decide that (None: all)."""

    reason: Callable
    params: frozenset | None = frozenset()
    needs_columns: bool = True  # fit looks at the columns of X


_ENCODER_PARAMS = frozenset({"categories", "handle_unknown", "min_frequency", "max_categories"})
_RULES = {
    Normalizer: _Rule(_always),
    Binarizer: _Rule(_always),
    PolynomialFeatures: _Rule(_always),
    FunctionTransformer: _Rule(_function_transformer, frozenset({"func", "kw_args"})),
    FeatureHasher: _Rule(_always, needs_columns=False),
    HashingVectorizer: _Rule(
        _hashing_vectorizer,
        frozenset({"input", "preprocessor", "tokenizer", "analyzer"}),
        needs_columns=False,
    ),
    OneHotEncoder: _Rule(lambda step: _encoder(step, "ignore"), _ENCODER_PARAMS),
    OrdinalEncoder: _Rule(_ordinal_encoder, _ENCODER_PARAMS | {"unknown_value"}),
    SimpleImputer: _Rule(_imputer, frozenset({"strategy", "keep_empty_features", "add_indicator"})),
    RBFSampler: _Rule(_rbf_sampler, frozenset({"gamma"})),
    GaussianRandomProjection: _Rule(_projection, frozenset({"n_components"})),
    ColumnTransformer: _Rule(_column_transformer, None),
    FeatureUnion: _Rule(_feature_union, None),
    Pipeline: _Rule(_inner_pipeline, None),
}

_BOUNDED = "FunctionTransformer(skdptune.candidates.row_wise(...)) with public constants"
_ALTERNATIVES = {
    "StandardScaler": "use diffprivlib.models.StandardScaler(bounds=...) instead",
    "PCA": "use diffprivlib.models.PCA(bounds=..., data_norm=...) instead",
    "MinMaxScaler": f"use {_BOUNDED}: (X - low) / (high - low)",
    "MaxAbsScaler": f"use {_BOUNDED}: X / largest",
    "RobustScaler": f"use {_BOUNDED}, or diffprivlib.models.StandardScaler(bounds=...)",
    "QuantileTransformer": f"use {_BOUNDED}",
    "PowerTransformer": f"use {_BOUNDED}",
    "KBinsDiscretizer": f"use {_BOUNDED}: np.digitize with public edges",
    "KNNImputer": "use SimpleImputer(strategy='constant', fill_value=..., keep_empty_features=True)",
    "CountVectorizer": "use HashingVectorizer instead",
    "TfidfVectorizer": "use HashingVectorizer instead",
    "DictVectorizer": "use FeatureHasher instead",
    "SelectKBest": "choose the columns beforehand, without the private rows",
    "VarianceThreshold": "choose the columns beforehand, without the private rows",
    "LogisticRegression": "use diffprivlib.models.LogisticRegression instead",
    "LinearRegression": "use diffprivlib.models.LinearRegression instead",
    "GaussianNB": "use diffprivlib.models.GaussianNB instead",
    "RandomForestClassifier": "use diffprivlib.models.RandomForestClassifier instead",
    "DecisionTreeClassifier": "use diffprivlib.models.DecisionTreeClassifier instead",
    "KMeans": "use a differentially private clustering instead",
    "MLPClassifier": "use skdptune.candidates.DPNeuralNetClassifier instead",
    "MLPRegressor": "use skdptune.candidates.DPNeuralNetRegressor instead",
}


def private_alternative(estimator):
    """Return the advice (a clause) for an estimator that reads rows without stating a cost.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> private_alternative(StandardScaler())
    'use diffprivlib.models.StandardScaler(bounds=...) instead'
    """
    kind = type(estimator)
    if kind.__module__.startswith("sklearn.") and kind.__name__ in _ALTERNATIVES:
        return _ALTERNATIVES[kind.__name__]
    if any(base.__module__.partition(".")[0] == "skorch" for base in kind.__mro__):
        return (
            "use skdptune.candidates.DPNeuralNetClassifier or DPNeuralNetRegressor, which take the same module, "
            "criterion and optimizer and train by DP-SGD"
        )
    return "use a differentially private estimator, or give it rdp_curve(orders)"


def refusal(step):
    """Return why ``step`` is not free of cost, as a clause, or None if it is.

    Parameters
    ----------
    step : estimator
        Exact types only: a subclass may do anything in its ``fit`` and ``transform``.

    Examples
    --------
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> refusal(Normalizer()) is None
    True
    >>> refusal(StandardScaler())
    'it learns from the rows and states no cost; use diffprivlib.models.StandardScaler(bounds=...)
    instead'
    """
    rule = _RULES.get(type(step))
    if rule is not None:
        return rule.reason(step)
    parent = next((kind for kind in type(step).__mro__ if kind in _RULES), None)
    if parent is not None:
        return (
            f"it is a subclass of {parent.__name__}, and only the exact class was vetted; use {parent.__name__} itself"
        )
    return f"it learns from the rows and states no cost; {private_alternative(step)}"


def is_listed(step):
    """Return whether the exact type of ``step`` is in the table, whatever its parameters."""
    return type(step) in _RULES


def placeholder_like(X):
    """Return one made-up row with the columns, names and types of ``X``, and no value of it.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)

    Returns
    -------
    The same kind of container, one row. Zeros in numeric columns, the first declared category in
    categorical ones, the first of January 1970 in columns of times, empty strings elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> placeholder_like(np.array([[3.0, 4.0], [5.0, 6.0]]))
    array([[0., 0.]])
    """
    if hasattr(X, "iloc") and hasattr(X, "dtypes"):
        return _placeholder_frame(X)
    if hasattr(X, "columns") and hasattr(X, "clear"):  # polars: names and types, and no value
        return _with_times(X.clear(1).fill_null(0).fill_null(False).fill_null(""))
    if sparse.issparse(X):
        return type(X)((1, X.shape[1]), dtype=X.dtype)
    array = X if hasattr(X, "dtype") else np.asarray(X)
    if array.ndim == 1 and isinstance(array.flat[0], (str, dict)):
        return [{}] if isinstance(array.flat[0], dict) else [""]  # documents for a vectorizer
    if array.ndim != 2:
        raise InvalidTypeError(f"X must have two dimensions; got {describe(array)}.")
    if array.dtype.kind in "biufc":
        return np.zeros((1, array.shape[1]), dtype=array.dtype)
    return np.full((1, array.shape[1]), "", dtype=object)


def _placeholder_frame(X):
    if X.ndim == 1:  # a single text column
        return type(X)([""], name=X.name)
    empty = X.iloc[:0]
    frame = type(X)(index=[0])
    for i, dtype in enumerate(X.dtypes):
        frame.insert(i, i, empty.iloc[:, i].reindex([0], fill_value=_neutral(dtype)).to_numpy())
    frame.columns = X.columns
    for i, dtype in enumerate(X.dtypes):
        days = days_like(empty.iloc[:, i], 1) if holds_times(dtype) else None
        with contextlib.suppress(ValueError, TypeError):  # an interval of whole numbers has no missing value
            frame.isetitem(i, frame.iloc[:, i].astype(dtype) if days is None else days)
    return frame


def _with_times(row):
    """Return one row of polars with a time in each column of times: a missing one may come out as no number."""
    times = [name for name, dtype in row.schema.items() if dtype.is_temporal()]
    return row.with_columns([type(row.get_column(name))(name, [0]).cast(row.schema[name]) for name in times])


def _neutral(dtype):
    if hasattr(dtype, "categories"):
        return dtype.categories[0] if len(dtype.categories) else None
    kind = getattr(dtype, "kind", "O")
    if kind in "mM" or not (isinstance(dtype, np.dtype) or kind in "biufc" or issubclass(dtype.type, str)):
        return None  # not an interval or the like; times have a rule of their own
    return dtype.type(0) if kind in "biufc" else ""


def _published_part(part):
    name, step = part
    if step is None or isinstance(step, str):
        return part
    return name, StatelessAdapter(step).publish(step)


class StatelessAdapter(CandidateAdapter):
    """A step of the table above: it costs nothing.

    Its ``fit`` sees :func:`placeholder_like` of X, so that what it keeps cannot depend on a row.

    Raises
    ------
    CandidateRefusedError
        From :meth:`check`, if the parameters make the step learn from the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import Normalizer
    >>> adapter = StatelessAdapter(Normalizer())
    >>> adapter.check("zero-out")
    >>> adapter.fit(np.array([[3.0, 4.0]]), None, classes=None, seed=None).transform([[3.0, 4.0]])
    array([[0.6, 0.8]])
    """

    free = True

    @property
    def _rule(self):
        return _RULES[type(self.estimator)]

    def check(self, relation):
        super().check(relation)
        reason = refusal(self.estimator)
        if reason is not None:
            raise CandidateRefusedError(f"{self.name} is refused: {reason}.")

    def check_data(self, n_samples, n_features, classes):
        """Try the declared functions on made-up rows: alone, each must give what it gives among others."""
        if not declared_functions(self.estimator) or not isinstance(n_features, int):
            return
        trial = Trial(self.estimator)
        batches = made_up_batches(np.zeros((1, n_features)))
        try:
            with quietly():
                fitted = StatelessAdapter(trial.step).fit(batches[0], None, classes=None, seed=0)
        except CandidateRefusedError:
            raise
        except Exception:
            return  # made for frames or text: tried on such rows, or the declaration stands by itself
        trial.run(fitted, batches, same_kind=False)

    def rehearse(self, batches, certain):
        """Try the step on batches of made-up rows like those that reach it.

        Parameters
        ----------
        batches : list
            See :func:`made_up_batches`.
        certain : bool
            Whether the rows of the search are of the same kind for certain.

        Returns
        -------
        list, bool
            The transformed batches, as far as the step takes them, and whether those are like the rows to come.

        Raises
        ------
        CandidateRefusedError
            If a declared function mixes rows, or if every try would fail, whatever the rows hold.
        """
        trial = Trial(self.estimator)
        try:
            with quietly():
                fitted = StatelessAdapter(trial.step).fit(batches[0], None, classes=None, seed=0)
        except CandidateRefusedError:
            raise
        except Exception as error:
            self._refuse_unfit(error, certain and not trial.stood_in)
            return [], False
        outs = trial.run(fitted, batches, same_kind=certain)
        if certain and trial.stood_in:  # by itself, without what stood in for it, does it fit?
            try:
                with quietly():
                    self.fit(batches[0], None, classes=None, seed=0)
            except Exception as error:
                self._refuse_unfit(error, certain)
        return outs, certain and not trial.stood_in and len(outs) == len(batches)

    def _refuse_unfit(self, error, certain):
        """Every try fits a free step on the same made-up row: what fails on it fails in all of them."""
        if certain:
            raise CandidateRefusedError(unfit(self.name, error)) from None

    def privacy_params(self):
        return self._rule.params

    def n_features_out(self, n_features):
        """Return the public width of the output, or None if it takes more than the width of X."""
        if not self._rule.needs_columns:
            return getattr(self.estimator, "n_features", None)
        try:
            out = self.fit(np.zeros((1, n_features)), None, classes=None, seed=0)
            return out.transform(np.zeros((1, n_features))).shape[1]
        except Exception:
            return None

    def fit(self, X, y, *, classes, seed):
        step = set_random_states(clone(self.estimator), seed)
        rows = placeholder_like(X) if self._rule.needs_columns else [""]
        step.fit(rows)
        return strip_seeds(step)

    def made_finite(self, X):
        return X  # a row that it raises on is blanked

    def transform_released(self, fitted, X):
        """Return the rows as the step leaves them; one that it raises on is blanked first."""
        return transformed(self.publish(fitted).transform, X, self._blank)

    def _blank(self, X):
        if self._rule.needs_columns or len(getattr(X, "shape", ())) == 2:
            return placeholder_like(X)
        # of the kind the step takes, and not like the first document, which may be the odd one
        kinds = {"dict": [{}], "pair": [[]], "string": [[]]}
        row = kinds.get(getattr(self.estimator, "input_type", None), [""])
        return type(X)(row, dtype=X.dtype) if hasattr(X, "iloc") else row

    def publish(self, fitted):
        fresh = clone(self.estimator)
        params = fresh.get_params(deep=False)
        learned = {k: v for k, v in vars(fitted).items() if k not in params}
        # fitted has met one placeholder row only: nothing in it depends on the private rows
        vars(fresh).update(copy.deepcopy(learned))
        for slot in fitted_slots(fresh):
            setattr(fresh, slot, [_published_part(part) for part in getattr(fitted, slot)])
        return strip_seeds(fresh)

    def assumptions(self, relation):
        sentences = [f"{self.name} can be applied to every row that may occur (types, finite values)."]
        for path, func in declared_functions(self.estimator).items():
            place = place_of(path)
            sentences.append(f"{f'{place}: ' if place else ''}{func!r} treats every row by itself, as declared.")
        return tuple(sentences)
