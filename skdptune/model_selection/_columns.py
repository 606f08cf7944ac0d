"""What the columns of a frame must be, told from their names and types: no cell is read, so nothing is spent.

Names and types of columns are public (every search lists that assumption). What a search can tell from them it
tells before it charges a budget; the same complaint out of a try would come after the charge, and without words.
"""

import collections
import itertools
import warnings

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, InvalidTypeError, SkdptuneError
from skdptune.candidates import find_adapter
from skdptune.candidates._rehearsal import is_declared
from skdptune.candidates._stateless import placeholder_like
from skdptune.model_selection._lists import is_listed
from skdptune.model_selection._missing import searched_inside
from skdptune.model_selection._tidy import refuse_speaking_index

__all__ = ["check_columns", "check_index"]

_NUMBER_KINDS = "biuf"
_TIME_KINDS = "mM"
_ENCODE = "Encode such columns with public categories before the search, or in a pipeline"


def check_columns(search, X):
    """Check a frame's columns against what the estimator can take.

    Parameters
    ----------
    search : PrivateRandomSearchCV
    X : DataFrame of pandas or polars; anything else without ``columns`` passes, but for documents

    Raises
    ------
    InvalidParameterError
        For names that repeat, and for columns of text or times that nothing will turn into numbers.
    InvalidTypeError
        For documents, which no search takes by themselves.
    CandidateRefusedError
        For a pipeline whose free steps cannot treat such columns; tried on one made-up row.
    """
    if not hasattr(X, "columns"):
        _refuse_documents(X)
        return
    repeated = [str(name) for name, count in collections.Counter(X.columns).items() if count > 1]
    if repeated:
        raise InvalidParameterError(f"X must have distinct column names; more than once: {_listed(repeated)}.")
    search = searched_inside(search)
    if type(search.estimator) is Pipeline:
        _check_pipeline(search.estimator, X)
    elif not get_tags(search.estimator).input_tags.string:
        _check_types(X, "X")


def _refuse_documents(X):
    """Refuse texts and dicts that stand in a row of their own, by their kind."""
    if not is_listed(X) and len(getattr(X, "shape", ())) != 1 or not len(X):
        return
    first = X.iloc[0] if hasattr(X, "iloc") else X[0]
    if isinstance(first, (str, bytes, dict)):
        raise InvalidTypeError(
            f"X must be a table with one row for each document; got {len(X)} documents without one. Make them a "
            "column, X = pandas.DataFrame({'text': X}), here and where you predict, and let the pipeline begin with "
            "ColumnTransformer([('words', HashingVectorizer(), 'text')])."
        )


def check_index(search, X):
    """Refuse a frame whose index says something where a declared function may read it, be it one that is searched.

    Raises
    ------
    InvalidParameterError
    """
    if hasattr(X, "iloc") and any(True for _ in _declared(search)):
        refuse_speaking_index(X)


def _declared(value):
    """Yield the declared functions in an estimator and in the lists and dicts that its steps and spaces are made of."""
    if is_declared(value):
        yield value
    elif hasattr(value, "get_params") and not isinstance(value, type):
        for each in value.get_params(deep=True).values():
            if is_declared(each) or not hasattr(each, "get_params"):
                yield from _declared(each)
    elif type(value) is dict:
        yield from itertools.chain.from_iterable(map(_declared, value.values()))
    elif type(value) in (list, tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        yield from itertools.chain.from_iterable(map(_declared, value))


def _check_types(frame, name, advice=f"{_ENCODE}."):
    kinds = {column: _kind(dtype) for column, dtype in zip(frame.columns, frame.dtypes, strict=True)}
    for kind, words in (("text", "text or categories"), ("time", "times")):
        found = [str(column) for column, its in kinds.items() if its == kind]
        if found:
            came = f"columns that hold {words}: {_listed(found)}"
            raise InvalidParameterError(f"{name} must be numeric; {came}. {advice}")


def _kind(dtype):
    """Return "number", "text", "time" or "unknown" (cells of any kind, which only reading them tells)."""
    if hasattr(dtype, "is_numeric"):  # polars
        if dtype.is_numeric() or str(dtype) == "Boolean":
            return "number"
        return "time" if dtype.is_temporal() else "text"
    if hasattr(dtype, "categories"):
        return _kind(dtype.categories.dtype)
    kind = getattr(dtype, "kind", "O")
    if kind in _NUMBER_KINDS:
        return "number"
    if kind in _TIME_KINDS:
        return "time"
    return "unknown" if isinstance(dtype, np.dtype) and kind == "O" else "text"


def _check_pipeline(pipeline, X):
    """Send one made-up row through the free steps in front of the first private one."""
    row = placeholder_like(X)
    for name, adapter in find_adapter(pipeline).adapters:
        if not adapter.free:
            if hasattr(row, "columns") and not get_tags(adapter.estimator).input_tags.string:
                _check_types(row, f"what reaches step {name!r}", f"{_ENCODE} step before it.")
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what libraries warn of is for the tries to say
                row = adapter.fit(row, None, classes=None, seed=0).transform(row)
        except SkdptuneError:
            raise
        except Exception as error:
            if _has_own_functions(adapter.estimator):
                return  # made for other values than those made up here
            # the row is made up: what is said of it tells nothing about a cell
            raise CandidateRefusedError(
                f"step {name!r} cannot be applied to columns as those of X; on a made-up row it ended with "
                f"{type(error).__name__}: {error}"
            ) from None


def _has_own_functions(step):
    parts = [step, *step.get_params(deep=True).values()]
    return any(isinstance(part, FunctionTransformer) or getattr(part, "row_wise", False) for part in parts)


def _listed(names, most=5):
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
