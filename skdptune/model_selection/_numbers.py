"""Columns that must hold numbers though their type would take text: told from the pipeline, checked cell by cell.

An array of objects may hold numbers in every row but one. What the free steps of a pipeline make of a text is tried on
made-up rows, as it is for missing cells: where a number comes out as a finite number and a text does not, the cells
must be numbers. So a try cannot fail because one row has a word, ``"nan"`` or ``10**400`` in such a column.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import get_tags

from skdptune._exceptions import InvalidParameterError, SkdptuneError
from skdptune.candidates import find_adapter
from skdptune.candidates._rehearsal import quietly
from skdptune.candidates._stateless import RowWise
from skdptune.model_selection._missing import _flat, _infinite, _listed, missing, one_row_like, pipelines_drawn

__all__ = ["NO_NUMBERS", "NumberColumns", "number_columns", "refuse_words"]

_WORD = "word"


@dataclass(frozen=True)
class NumberColumns:
    """Which columns, by position, take text by their type and must hold numbers; ``whole`` if no column takes text."""

    columns: frozenset = frozenset()
    whole: bool = False


NO_NUMBERS = NumberColumns()


def number_columns(search, X):
    """Return which columns of X must hold numbers, told from the pipeline and the types of columns.

    Parameters
    ----------
    search : PrivateRandomSearchCV
        Of a pipeline.
    X : array-like, sparse matrix or DataFrame

    Returns
    -------
    NumberColumns

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdptune import PrivateRandomSearchCV
    >>> from skdptune._cli._centroids import NoisyCentroids
    >>> search = PrivateRandomSearchCV(make_pipeline(NoisyCentroids()), {"noisycentroids__radius": [1.0]})
    >>> number_columns(search, np.array([[1, "2"]], dtype=object))
    NumberColumns(columns=frozenset({0, 1}), whole=True)
    """
    try:
        row = one_row_like(X)
        pipelines = pipelines_drawn(search)
    except SkdptuneError:
        return NO_NUMBERS  # whoever checks the rows and the steps will say it better
    texts = [] if row is None else _text_columns(row)
    if not texts:
        return NO_NUMBERS
    with quietly():
        found = frozenset().union(*(_needed(pipeline, row, texts) for pipeline in pipelines))
    return NumberColumns(found, len(found) == row.shape[1])


def refuse_words(numbers, checked, name):
    """Refuse cells that are no finite numbers in columns that must hold numbers; missing ones are another matter.

    Raises
    ------
    InvalidParameterError
        Names no cell, and only the columns that must hold numbers.
    """
    if issparse(checked) or checked.dtype.kind not in "OUS":
        return  # numbers all of them
    if all(_are_numbers(checked[:, i]) for i in numbers.columns):
        return
    raise InvalidParameterError(
        f"{name} must hold finite numbers in columns {_listed(numbers.columns)}, where the pipeline's free steps make "
        "numbers of nothing else; it holds text, other objects or numbers too large. Encode them by a public rule."
    )


def _are_numbers(cells):
    cells = cells[~(missing(cells) | _infinite(cells))]  # which have been looked at
    try:
        return bool(np.isfinite(cells.astype(np.float64)).all())
    except Exception:  # whatever an object says when it is asked for a number
        return False


def _text_columns(row):
    """Return the positions of columns that can hold text, in an array, or a frame of pandas or polars."""
    if hasattr(row, "iloc"):
        dtypes = row.dtypes if row.ndim == 2 else []
        return [i for i, dtype in enumerate(dtypes) if _holds_text(dtype)]
    if hasattr(row, "columns"):
        return [i for i, name in enumerate(row.columns) if str(row.schema[name]) == "String"]
    return list(range(row.shape[1])) if isinstance(row, np.ndarray) and row.dtype == object else []


def _holds_text(dtype):
    """Return whether a column of pandas can hold text: periods and intervals are objects, too, but of one kind."""
    if hasattr(dtype, "categories") or getattr(dtype, "kind", "O") != "O":
        return False
    return isinstance(dtype, np.dtype) or issubclass(getattr(dtype, "type", str), str)


def _needed(pipeline, row, texts):
    """Return the columns among ``texts`` in which a number gets through the free steps and a word does not."""
    front, private = [], None
    for _, adapter in (each for name, own in find_adapter(pipeline).adapters for each in _flat(name, own)):
        if not adapter.free:
            private = adapter.estimator
            break
        front.append(adapter)
    if get_tags(private).input_tags.string or any(_reads_text(adapter.estimator) for adapter in front):
        return frozenset()

    def gets_through(words):
        return _comes_out_finite(front, _filled(row, texts, words))

    every = frozenset(texts)
    if gets_through(every):
        return frozenset()
    if gets_through(frozenset()):
        return frozenset(i for i in texts if not gets_through({i}))
    return frozenset(i for i in texts if gets_through(every - {i}))


def _reads_text(step):
    """Return whether a step has a declared function that is not numpy's: it may read words of its own language."""
    parts = [step, *step.get_params(deep=True).values()]
    return any(isinstance(part, RowWise) and not _of_numpy(part.func) for part in parts)


def _of_numpy(func):
    return str(getattr(func, "__module__", None) or type(func).__module__).partition(".")[0] == "numpy"


def _comes_out_finite(front, row):
    try:
        for adapter in front:
            row = adapter.fit(row, None, classes=None, seed=0).transform(row)
        values = row.tocoo().data if issparse(row) else np.asarray(row)
        return bool(np.isfinite(values.astype(np.float64)).all())
    except Exception:
        return False


def _filled(row, texts, words):
    """Return one made-up row with a word in the columns ``words``, and a number in the others of ``texts``."""
    if hasattr(row, "iloc"):
        filled = row.copy()
        for i in texts:
            number = 0.0 if isinstance(row.dtypes.iloc[i], np.dtype) else "0"
            series = type(row.iloc[:, i])
            filled.isetitem(i, series([_WORD if i in words else number], dtype=row.dtypes.iloc[i], index=row.index))
        return filled
    if hasattr(row, "columns"):
        names = {row.columns[i]: _WORD if i in words else "0" for i in texts}
        return row.with_columns([type(row.get_column(name))(name, [cell]) for name, cell in names.items()])
    if not words:
        return np.zeros(row.shape)
    filled = row.copy()
    for i in texts:
        filled[0, i] = _WORD if i in words else 0.0
    return filled
