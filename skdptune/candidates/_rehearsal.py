"""Free steps tried on made-up rows that have the columns and types of X, and no value of it.

Two things are told from a trial, before anything is spent. That a function which was declared row-wise mixes rows:
each made-up row alone must come out as it does among others, wherever in the step the function stands. And that it
fails in a way that no value of a row can cause (a name that is not defined, a column that X does not have, a shape
that does not fit): then every try would fail, after the charge. A failure that other values might not cause is no
reason to refuse: the function may be made for them.
"""

import contextlib
import copy
import re
import types
import warnings

import joblib
import numpy as np
from scipy import sparse

from skdptune._exceptions import CandidateRefusedError

__all__ = [
    "N_ROWS",
    "Trial",
    "days_like",
    "declared_functions",
    "holds_times",
    "is_declared",
    "made_up_batches",
    "place_of",
    "quietly",
    "unfit",
]

N_ROWS = 5
_TEXT = ("a", "b", "", "a b", "c")
# In each batch other values: what fails alike in all of them does not fail because of a value.
_BATCHES = ("spread", "zeros", "ones", "large")
_OF_WORDS = ("spread", "zeros")
_ABOUT_SHAPES = re.compile(
    r"could not be broadcast|not aligned|mismatch in its core dimension|cannot reshape|too many indices"
    r"|out of bounds for axis 1|axis 1 is out of bounds|Unable to coerce to Series|Length mismatch|Length of values"
    r"|only integers, slices|returned None, not rows"
)
_WRONG_CALL = re.compile(r"\(\) (missing \d+ required|got an unexpected keyword|takes \d+ positional)")
_MISSING_COLUMN = re.compile(r"are in the \[columns\]")


def is_declared(func):
    """Return whether ``func`` was declared by ``row_wise``."""
    return getattr(func, "row_wise", False) is True


def declared_functions(step):
    """Return the declared functions in ``step`` and its parts, by the names of the parameters that hold them.

    Examples
    --------
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from skdptune.candidates import row_wise
    >>> declared_functions(make_column_transformer((FunctionTransformer(row_wise(abs)), [0])))
    {'functiontransformer__func': row_wise(abs)}
    """
    return {path: value for path, value in step.get_params(deep=True).items() if is_declared(value)}


def place_of(path):
    """Return where in a step the parameter ``path`` stands, in words; "" for the step itself.

    Examples
    --------
    >>> place_of("func"), place_of("numbers__scale__func")
    ('', "part 'numbers' -> 'scale'")
    """
    parts = path.split("__")[:-1]
    return f"part {' -> '.join(map(repr, parts))}" if parts else ""


# ---------------------------------------------------------------------- made-up rows


def made_up_batches(X):
    """Return a few batches of made-up rows like those of X; none where its kind is not known.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame

    Returns
    -------
    list
        Each in the same kind of container, with the columns, names and types of X, and no value of it.

    Examples
    --------
    >>> [batch.shape for batch in made_up_batches(np.zeros((100, 3)))]
    [(5, 3), (5, 3), (5, 3), (5, 3)]
    """
    with contextlib.suppress(Exception):  # a kind of container or column that is not known: nothing to try
        return [_made_up(X, batch) for batch in _BATCHES]
    return []


def _made_up(X, batch):
    if hasattr(X, "iloc"):
        return _made_up_pandas(X, batch)
    if hasattr(X, "columns") and hasattr(X, "clear"):
        return _made_up_polars(X, batch)
    if sparse.issparse(X):
        dense = _numbers((N_ROWS, X.shape[1]), X.dtype, batch)
        dense[:, 1::2] = 0
        return type(X)(dense)
    array = X if hasattr(X, "dtype") else np.asarray(X)
    if array.dtype.kind in "biufc":
        return _numbers((N_ROWS, *array.shape[1:]), array.dtype, batch)
    if array.ndim == 1:
        return [{"a": 1.0}] * N_ROWS if isinstance(array.flat[0], dict) else list(_TEXT)
    cells = _objects(batch) if array.dtype.kind == "O" else np.array(_words(batch)).astype(array.dtype)
    return np.repeat(cells[:, None], array.shape[1], axis=1)


def _numbers(shape, dtype, batch):
    spread = np.random.RandomState(0).uniform(0.1, 0.9, size=shape)  # a generator of its own
    values = {"spread": spread, "zeros": 0 * spread, "ones": np.ones(shape), "large": np.round(100 * spread)}[batch]
    if dtype.kind == "b":
        return values > 0.5
    return (np.round(3 * spread) if batch == "spread" and dtype.kind in "iu" else values).astype(dtype)


def _objects(batch):
    """Return cells of any kind: text in some batches, numbers in others."""
    cells = _TEXT if batch in _OF_WORDS else _numbers((N_ROWS,), np.dtype(float), batch)
    return np.array([*cells], dtype=object)


def _words(batch):
    """Return texts: words in some batches, numbers in others, which a column of text may hold as well."""
    return [*_TEXT] if batch in _OF_WORDS else [str(int(n)) for n in _numbers((N_ROWS,), np.dtype(int), batch)]


def _made_up_pandas(X, batch):
    if X.ndim == 1:
        return _pandas_column(X.iloc[:0], batch).rename(X.name)
    frame = type(X)({i: _pandas_column(X.iloc[:0, i], batch) for i in range(X.shape[1])})
    frame.columns = X.columns
    return frame


def _pandas_column(empty, batch):
    """Return made-up cells of the type of the Series ``empty``, as a Series."""
    dtype, series = empty.dtype, type(empty)
    kind = getattr(dtype, "kind", "O")
    if hasattr(dtype, "categories"):
        chosen = [dtype.categories[i % len(dtype.categories)] if len(dtype.categories) else None for i in range(N_ROWS)]
        return series(chosen, dtype=dtype)
    if kind in "biufc":
        plain = np.dtype({"b": bool, "i": np.int8, "u": np.uint8, "f": np.float32, "c": np.complex64}[kind])
        return series(_numbers((N_ROWS,), plain, batch)).astype(dtype)
    if holds_times(dtype):
        days = days_like(empty, N_ROWS)
        return empty.reindex(range(N_ROWS)) if days is None else days  # not a time
    if isinstance(dtype, np.dtype):
        return series(_objects(batch), dtype=dtype)
    return series(_words(batch), dtype=dtype)


def holds_times(dtype):
    """Return whether a column of pandas holds times, durations or periods."""
    return getattr(dtype, "kind", "O") in "mM" or type(dtype).__name__ == "PeriodDtype"


def days_like(empty, count):
    """Return the first days of 1970, or so many days, as a Series of the type of ``empty``; None if it takes neither.

    Examples
    --------
    >>> import pandas
    >>> days_like(pandas.Series(dtype="datetime64[s, Asia/Tokyo]"), 1).tolist()
    [Timestamp('1970-01-01 09:00:00+0900', tz='Asia/Tokyo')]
    """
    dtype, series = empty.dtype, type(empty)
    days = series(np.arange(count).astype("m8[D]").astype("m8[ns]"))
    dates = series(np.arange(count).astype("M8[D]").astype("M8[ns]"))
    for made in (lambda: dates, lambda: dates.dt.tz_localize("UTC"), lambda: days):
        with contextlib.suppress(Exception):
            found = made().astype(dtype)
            if found.dtype == dtype and not found.isna().any():
                return found
    return None


def _made_up_polars(X, batch):
    columns = []
    for name, dtype in X.schema.items():
        series = type(X.get_column(name))
        if dtype.is_numeric() or str(dtype) == "Boolean":
            whole = dtype.is_integer() or str(dtype) == "Boolean"
            numbers = _numbers((N_ROWS,), np.dtype(np.int8 if whole else np.float32), batch)
            columns.append(series(name, numbers).cast(dtype))
        elif dtype.is_temporal():
            columns.append(series(name, list(range(N_ROWS))).cast(dtype))
        else:
            text = [*dtype.categories] * N_ROWS if type(dtype).__name__ == "Enum" else _words(batch)
            columns.append(series(name, text[:N_ROWS], dtype=dtype))
    return type(X)(columns)


# ---------------------------------------------------------------------- a trial


class Trial:
    """A free step with its declared functions watched, to be run on made-up rows.

    Parameters
    ----------
    step : estimator
        Unfitted; it is not changed.

    Examples
    --------
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from skdptune.candidates import row_wise
    >>> @row_wise
    ... def centre(X):
    ...     return X - X.mean(axis=0)
    >>> trial = Trial(FunctionTransformer(centre))
    >>> trial.run(trial.step, made_up_batches(np.zeros((9, 2))))
    Traceback (most recent call last):
    ...
    skdptune._exceptions.CandidateRefusedError: func of FunctionTransformer was declared row-wise, but ...
    """

    def __init__(self, step):
        self._kind = type(step).__name__
        found = declared_functions(step)
        self._probes = {path: _Probe(func) for path, func in found.items()}
        alone = {path: None for path in step.get_params(deep=True) if path.rpartition("__")[2] == "n_jobs"}
        self.step = _with(step, {**alone, **self._probes})

    @property
    def stood_in(self):
        """Whether something was put in place of what a function did not return: shapes then tell nothing."""
        return any(probe.stood_in for probe in self._probes.values())

    def run(self, fitted, batches, *, same_kind=True):
        """Return what ``fitted`` (of :attr:`step`) makes of each batch, as far as it takes them.

        Parameters
        ----------
        fitted : estimator
        batches : list
        same_kind : bool, default=True
            Whether the rows of the search come in the same kind of container: else a failure tells nothing.

        Raises
        ------
        CandidateRefusedError
            If a declared function is seen to mix rows, or fails whatever the values are.
        """
        outs, errors = [], []
        with quietly():
            for probe in self._probes.values():
                probe.watches = True
            for batch in batches:
                try:
                    outs.append(fitted.transform(batch))
                except CandidateRefusedError:
                    raise
                except Exception as error:  # made for other values than those made up here?
                    errors.append(error)
        for path, probe in self._probes.items():
            self._judge(path, probe, same_kind)
        if same_kind and not self.stood_in and len(errors) == len(batches) and all(map(_is_numeric, batches)):
            # none of its functions failed, and numbers are all alike to a listed step
            raise CandidateRefusedError(unfit(self._kind, errors[0]))
        return outs

    def _judge(self, path, probe, same_kind):
        place, name = place_of(path), path.rpartition("__")[2]
        kind = self._kind if not place else "FunctionTransformer" if name == "func" else "the vectorizer"
        subject = f"{place}: {name} of {kind}" if place else f"{name} of {kind}"
        if probe.mixes:
            raise CandidateRefusedError(
                f"{subject} was declared row-wise, but {probe!r} gives a row another value when other rows are "
                "present: use public constants instead of statistics of X."
            )
        failure = probe.certain_failure() if same_kind else None
        if failure:
            raise CandidateRefusedError(
                f"{subject}, {probe!r}, would fail in every try, whatever the rows hold: {failure}. Mend the function; "
                "nothing has been spent."
            )


def unfit(name, error):
    """Return why a free step is refused that ended with ``error`` on made-up rows: every try would."""
    return (
        f"{name} cannot be applied to rows of the shape and types of X; on made-up rows it ended with {_said(error)}. "
        "Nothing has been spent."
    )


@contextlib.contextmanager
def quietly():
    """Run in this process, without the warnings that libraries have for made-up rows."""
    with joblib.parallel_config(backend="sequential"), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _with(step, params):
    """Return an unfitted copy of ``step`` with ``params``, which may lie in its parts."""
    from sklearn.base import clone

    return clone(step).set_params(**params)


class _Probe:
    """Stands in place of a declared function and watches it."""

    row_wise = True

    def __init__(self, func):
        self.func = func
        self.watches = self.mixes = self.stood_in = False
        self.calls, self.failures, self.numeric = 0, [], True

    def __deepcopy__(self, memo):
        return self  # clones report to the same place

    def __repr__(self):
        return repr(self.func)

    def __call__(self, X, *args, **kwargs):
        self.calls += self.watches
        self.numeric &= _is_numeric(X)
        try:
            together = self.func(_copied(X), *args, **kwargs)
        except CandidateRefusedError:
            raise
        except Exception as error:
            if self.watches:
                self.failures.append(error)
            self.stood_in = True
            return X if isinstance(X, str) else np.zeros((_length(X), 1))
        if self.watches and not isinstance(X, str):
            self.mixes |= self._is_other_alone(X, together, args, kwargs)
        return together

    def _is_other_alone(self, X, together, args, kwargs):
        try:
            alone = [self.func(_copied(_row(X, i)), *args, **kwargs) for i in range(_length(X))]
            return not _same(_plain(together), np.concatenate([_plain(each) for each in alone]))
        except CandidateRefusedError:
            raise
        except Exception:
            return False  # it cannot be tried like this: the declaration stands by itself

    def certain_failure(self):
        """Return what is wrong where no value of a row can be the cause, as a clause, or None."""
        for error in self.failures:
            if _never_of_values(error):
                return f"on made-up rows it ended with {_said(error)}"
        if not self.failures or len(self.failures) < self.calls or self.calls < 2 or not self.numeric:
            return None
        said = {_said(error) for error in self.failures}
        if len(said) == 1 and _ABOUT_SHAPES.search(next(iter(said))):
            return f"on made-up rows it ended with {said.pop()}"
        return None


def _said(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}".rstrip(".")


def _never_of_values(error):
    """Return whether the error is of a kind that another value in a row would not have prevented."""
    if isinstance(error, NameError):
        return not isinstance(error, UnboundLocalError)  # that may depend on the branch taken
    if isinstance(error, ImportError):
        return True
    if isinstance(error, AttributeError):
        return _is_no_cell(getattr(error, "obj", None)) and "accessor" not in str(error)
    if isinstance(error, TypeError):
        return bool(_WRONG_CALL.search(str(error)))
    if isinstance(error, KeyError):
        return _names_a_column(error)
    return type(error).__name__ == "ColumnNotFoundError"  # polars


def _is_no_cell(thing):
    """Return whether ``thing`` is a module, a class or a whole container, which no cell is."""
    if isinstance(thing, (types.ModuleType, type, np.ndarray)) or sparse.issparse(thing):
        return True
    return hasattr(thing, "columns") and hasattr(thing, "shape")


def _names_a_column(error):
    """Return whether a KeyError is of a frame that lacks a column: as pandas words it, or as its traceback shows."""
    if _MISSING_COLUMN.search(str(error)):
        return True
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name == "__getitem__" and (frame.f_globals.get("__name__") or "").startswith("pandas."):
            owner, key = frame.f_locals.get("self"), frame.f_locals.get("key")
            keys = key if isinstance(key, list) else [key]
            if hasattr(owner, "columns") and all(isinstance(k, str) and k not in _TEXT for k in keys):
                return True
        trace = trace.tb_next
    return False


# ---------------------------------------------------------------------- containers


def _is_numeric(X):
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        return all(getattr(d, "kind", None) in tuple("biuf") or _polars_number(d) for d in X.dtypes)
    return getattr(getattr(X, "dtype", None), "kind", "O") in "biuf"


def _polars_number(dtype):
    return hasattr(dtype, "is_numeric") and dtype.is_numeric()


def _copied(X):
    return X.copy() if hasattr(X, "copy") else copy.deepcopy(X)


def _length(X):
    shape = getattr(X, "shape", None)
    return shape[0] if shape else len(X)


def _row(X, i):
    if sparse.issparse(X):
        return X.tocsr()[i : i + 1]
    return X.iloc[i : i + 1] if hasattr(X, "iloc") else X[i : i + 1]


def _plain(out):
    return out.toarray() if sparse.issparse(out) else np.asarray(out)


def _same(together, alone):
    if together.shape != alone.shape:
        return False
    if together.dtype.kind in "biufc" and alone.dtype.kind in "biufc":
        return np.allclose(together, alone, equal_nan=True)
    return [*map(str, together.ravel())] == [*map(str, alone.ravel())]
