"""Missing and infinite cells: let in where the free steps of a pipeline turn them into numbers in every row.

Whether they do is tried on made-up rows that have the columns and types of X and no value of it: one cell is missing,
or infinite, at a time, and then all that may be. What reaches the first private step must be finite. So a try cannot
fail, or treat other rows otherwise, because a row has a missing cell: that a step treats rows one by one is what it
is on the list for, or what its function was declared to do.
"""

import contextlib
import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline

from skdptune._exceptions import InvalidParameterError, SkdptuneError
from skdptune.candidates import find_adapter
from skdptune.candidates._rehearsal import quietly
from skdptune.candidates._stateless import placeholder_like
from skdptune.model_selection._space import ParamSpace, with_settings

__all__ = [
    "NO_CELLS",
    "Cells",
    "cells_taken",
    "missing",
    "missing_refusal",
    "one_row_like",
    "pipelines_drawn",
    "refuse_other_cells",
    "searched_inside",
]

_MOST_SETTINGS = 128
_ADVICE = (
    "Fill them with public constants, in the pipeline that is searched: SimpleImputer(strategy='constant', "
    "fill_value=0, keep_empty_features=True) for missing values, or "
    "FunctionTransformer(skdptune.candidates.row_wise(numpy.nan_to_num)) for missing and infinite ones."
)


@dataclass(frozen=True)
class Cells:
    """Which columns, by position, may hold missing or infinite cells.

    Parameters
    ----------
    missing, infinite : frozenset of int
    """

    missing: frozenset = frozenset()
    infinite: frozenset = frozenset()

    @property
    def checked_before(self):
        """What scikit-learn is to check: as its ``ensure_all_finite``."""
        if self.infinite:
            return False
        return "allow-nan" if self.missing else True


NO_CELLS = Cells()


def missing(values):
    """Return a boolean array: which cells are missing (NaN, None or pandas' NA).

    Examples
    --------
    >>> missing(np.array([1.0, np.nan])).tolist(), missing(np.array(["a", None], dtype=object)).tolist()
    ([False, True], [False, True])
    """
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype != object:
        return np.zeros(values.shape, dtype=bool)
    return np.frompyfunc(_is_missing, 1, 1)(values).astype(bool)


def _is_missing(cell):
    if cell is None:
        return True
    try:
        return bool(cell != cell)
    except (TypeError, ValueError):  # pandas' NA has no truth; arrays and the like are not missing
        return not hasattr(type(cell), "__len__")
    except Exception:  # signalling NaN, and objects of somebody's own, whose words may quote a cell
        return False


def _infinite(values):
    if values.dtype.kind == "f":
        return np.isinf(values)
    if values.dtype != object:
        return np.zeros(values.shape, dtype=bool)
    return np.frompyfunc(_is_infinite, 1, 1)(values).astype(bool)


def _is_infinite(cell):
    return isinstance(cell, (float, np.floating)) and math.isinf(cell)


def refuse_other_cells(cells, checked, name):
    """Refuse missing or infinite cells in columns where the pipeline does not turn them into numbers.

    Raises
    ------
    InvalidParameterError
        Names no cell, and only the columns that may have such cells.
    """
    if not cells.missing and not cells.infinite and checked.dtype.kind != "O":
        return  # scikit-learn has looked; not for infinite cells among objects
    for found, allowed, words in (
        (missing, cells.missing, "contains NaN"),
        (_infinite, cells.infinite, "contains infinity"),
    ):
        if not set(_columns_with(found, checked)) <= allowed:
            taken = f"columns {_listed(allowed)} only" if allowed else "no column"
            raise InvalidParameterError(
                f"Input {name} {words} where the pipeline does not take it: its free steps turn such cells into "
                f"numbers in {taken}. {_ADVICE}"
            )


def missing_refusal(name, piped):
    """Return the error for missing values that nothing fills (the caller raises it)."""
    which = "no free step in front of the pipeline's first private one fills them" if piped else "nothing fills them"
    return InvalidParameterError(f"Input {name} contains NaN, and {which}. {_ADVICE}")


def _columns_with(found, checked):
    if issparse(checked):
        entries = checked.tocoo()
        return np.unique(entries.col[found(entries.data)]).tolist()
    return np.flatnonzero(found(checked).any(axis=0)).tolist()


def _listed(positions, most=10):
    shown = ", ".join(map(str, sorted(positions)[:most]))
    return shown if len(positions) <= most else f"{shown} and {len(positions) - most} more"


def cells_taken(search, X):
    """Return which columns of X may hold missing or infinite cells, told from the pipeline, not from the cells.

    Parameters
    ----------
    search : PrivateRandomSearchCV
        Of a pipeline.
    X : array-like, sparse matrix or DataFrame

    Returns
    -------
    Cells

    Examples
    --------
    >>> from sklearn.impute import SimpleImputer
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdptune import PrivateRandomSearchCV
    >>> from skdptune._cli._centroids import NoisyCentroids
    >>> fill = SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)
    >>> search = PrivateRandomSearchCV(make_pipeline(fill, NoisyCentroids()), {"noisycentroids__radius": [1.0]})
    >>> cells_taken(search, np.zeros((9, 2)))
    Cells(missing=frozenset({0, 1}), infinite=frozenset())
    """
    try:
        row = one_row_like(X)
        fronts = [_front(pipeline) for pipeline in pipelines_drawn(search)]
    except SkdptuneError:
        return NO_CELLS  # whoever checks the rows and the steps will say it better
    if row is None or not fronts or not all(fronts):
        return NO_CELLS
    common = None
    for front in fronts:
        found = _tried(front, row)
        common = found if common is None else Cells(common.missing & found.missing, common.infinite & found.infinite)
    return common


def one_row_like(X):
    """Return one made-up row of a table like X; None if X is none, documents say.

    Examples
    --------
    >>> one_row_like(["a b", "c"]) is None, one_row_like([[1.0, 2.0]]).shape
    (True, (1, 2))
    """
    row = None
    with contextlib.suppress(TypeError, ValueError, AttributeError, IndexError):
        row = placeholder_like(X)
    return row if len(getattr(row, "shape", ())) == 2 else None


def searched_inside(search):
    """Return the search in which the rows will meet a model: that of a search within the search, if there is one.

    Where an outer search changes what an inner one searches, the inner one's own words do not hold: then the outer one.
    """
    inner = search
    while hasattr(inner.estimator, "param_distributions"):
        spaces = ParamSpace(inner.param_distributions).names()
        if any(name.partition("__")[0] in ("estimator", "param_distributions") for name in spaces):
            return search
        inner = inner.estimator
    return inner


def pipelines_drawn(search):
    """Return the pipelines that may be drawn, as far as their steps differ; none if they are too many to try."""
    own = search.estimator
    before = [name for name, step in own.steps[:-1] if step is not None]
    pipelines = []
    for space in ParamSpace(search.param_distributions).sources():
        touched = [name for name in space if name == "steps" or name.partition("__")[0] in before]
        lists = [space[name].enumerate() for name in touched]
        if any(values is None for values in lists) or math.prod(map(len, lists)) > _MOST_SETTINGS:
            return []
        for combination in itertools.product(*lists):
            settings = dict(zip(touched, (value for value, _ in combination), strict=True))
            pipelines.append(with_settings(own, settings) if settings else own)
    return pipelines


def _front(pipeline):
    """Return the adapters of the free steps in front of the first private one."""
    steps = itertools.chain.from_iterable(_flat(name, adapter) for name, adapter in find_adapter(pipeline).adapters)
    return [adapter for _, adapter in itertools.takewhile(lambda step: step[1].free, steps)]


def _flat(name, adapter):
    if type(adapter.estimator) is Pipeline and not adapter.free:
        for inner, below in adapter.adapters:
            yield from _flat(inner, below)
    else:
        yield name, adapter


def _tried(front, row):
    """Return the cells that the free steps ``front`` turn into finite numbers in made-up rows."""
    width = row.shape[1]
    with quietly():
        steps = _fitted(front, row)
        if steps is None:
            return NO_CELLS
        kinds = []
        for marks in ((None, math.nan), (math.inf, -math.inf)):
            alone = [i for i in range(width) if all(_finite_after(steps, row, [i], mark) for mark in marks)]
            together = all(_finite_after(steps, row, alone, mark) for mark in marks)
            kinds.append(frozenset(alone if together else ()))
    return Cells(*kinds)


def _fitted(front, row):
    steps, rows = [], row
    try:
        for adapter in front:
            steps.append(adapter.fit(rows, None, classes=None, seed=0))
            rows = steps[-1].transform(rows)
    except Exception:
        return None  # made for other values: nothing is known about it
    return steps


def _finite_after(steps, row, columns, mark):
    """Return whether a made-up row with ``mark`` in ``columns`` comes out finite; True if it cannot hold it."""
    try:
        marked = _marked(row, columns, mark)
    except (TypeError, ValueError, NotImplementedError):
        return False
    if marked is None:
        return True
    try:
        for step in steps:
            marked = step.transform(marked)
        if issparse(marked):
            marked = marked.tocoo().data
        return bool(np.isfinite(np.asarray(marked, dtype=np.float64)).all())
    except Exception:
        return False


def _marked(row, columns, mark):
    """Return a copy of one row with ``mark`` in ``columns``; None if no such column can hold it."""
    if hasattr(row, "iloc"):
        return _marked_pandas(row, columns, mark)
    if hasattr(row, "columns"):
        return _marked_polars(row, columns, mark)
    if issparse(row):
        if row.dtype.kind != "f" or mark is None:
            return None
        dense = row.toarray()
        dense[0, columns] = mark
        return type(row)(dense)
    holds = row.dtype == object or (row.dtype.kind == "f" and mark is not None)
    if not holds:
        return None
    marked = row.copy()
    marked[0, columns] = mark
    return marked


def _marked_pandas(row, columns, mark):
    marked, changed = row.copy(), False
    for i in columns:
        dtype = row.dtypes.iloc[i]
        kind = getattr(dtype, "kind", "O")
        if mark is None or math.isnan(mark):
            holds = not (isinstance(dtype, np.dtype) and kind in "biu")
        else:
            holds = kind == "f" or (isinstance(dtype, np.dtype) and kind == "O")
        if holds:
            marked.isetitem(i, type(row.iloc[:, i])([mark], dtype=dtype, index=row.index))
            changed = True
    return marked if changed else None


def _marked_polars(row, columns, mark):
    names = [row.columns[i] for i in columns]
    if mark is not None:
        names = [name for name in names if str(row.schema[name]).startswith("Float")]
    if not names:
        return None
    series = type(row.get_column(names[0]))
    return row.with_columns([series(name, [mark], dtype=row.schema[name]) for name in names])
