"""Splits of private rows: drawn from the number of rows and public coins, never from the rows.

A split is priced before it is drawn. What the price needs is, for every kind of row that may occur,
how often such a row is *trained on* and how often it is *scored* in one run; :class:`RowCost` is that
pair, and a scheme states all pairs that no other pair exceeds.

====================  ==========================================  =========================
scheme                row costs (trainings, scorings)             model of the winner
====================  ==========================================  =========================
holdout               (1, 0) and (0, 1)                           yes
k folds               (k - 1, 1)                                  no
r times k folds       (r (k - 1), r)                              no
s random splits       (s - j, j) for j = 0 ... s                  only for s = 1
explicit index lists  counted from the lists                      only for one split
public validation     (1, 0)                                      yes
====================  ==========================================  =========================
"""

import math
import numbers
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from skdptune._exceptions import SplitRefusedError
from skdptune._rounding import as_given, percent_as_given
from skdptune._validation import check_integer, check_real, describe, invalid_type, invalid_value

__all__ = [
    "Holdout",
    "IndependentHoldout",
    "RowCost",
    "SplitScheme",
    "as_split_scheme",
    "check_scheme_relation",
]

_REFUSED = {
    StratifiedKFold: "it places rows by their labels",
    StratifiedShuffleSplit: "it places rows by their labels",
    RepeatedStratifiedKFold: "it places rows by their labels",
    StratifiedGroupKFold: "it places rows by their labels and groups",
    GroupKFold: "it places rows by the sizes of groups",
    GroupShuffleSplit: "it places rows by groups read from the data",
    LeaveOneGroupOut: "it places rows by groups read from the data",
    LeavePGroupsOut: "it places rows by groups read from the data",
}
_ADVICE = (
    "Use cv=None (one random holdout), an integer, KFold, ShuffleSplit, or explicit index lists chosen "
    "without looking at the rows; stratified splits need public validation rows (fit(X, y, X_public=, "
    "y_public=)), where none is drawn."
)


@dataclass(frozen=True, order=True)
class RowCost:
    """How often one run trains on a row and how often it scores it."""

    trainings: int
    scorings: int


def _undominated(costs):
    """Return the costs that no other cost reaches in both counts."""
    kept = []
    for cost in sorted(set(costs), reverse=True):
        if not any(k.trainings >= cost.trainings and k.scorings >= cost.scorings for k in kept):
            kept.append(cost)
    return tuple(kept)


class SplitScheme:
    """A way to split rows, with its cost. The classes of this module say how; nothing here reads a row.

    Parameters of a search take the exact classes of this module only: a subclass would be priced by what it
    inherits, whatever it draws. What is drawn is counted against the price all the same, before it is used.

    Attributes
    ----------
    data_free_by : str
        Sentence for the report: why the split does not depend on the rows.
    """

    data_free_by = "the split is drawn from the number of rows and public coins"
    n_splits = 1
    n_public = None  # public divisor of the score where the number of scored rows is not public
    trains_on_all = False
    allows_add_remove = False

    def row_costs(self, n_samples):
        """Return the undominated :class:`RowCost` values for ``n_samples`` rows."""
        raise NotImplementedError

    def train_sizes(self, n_samples):
        """Return the distinct numbers of training rows, as a sorted tuple."""
        raise NotImplementedError

    def n_scored(self, n_samples):
        """Return the public divisor of the pooled score."""
        raise NotImplementedError

    def draw(self, n_samples, random_state):
        """Return a list of ``(train, test)`` index arrays, counted against :meth:`row_costs`.

        Raises
        ------
        SplitRefusedError
            If a row is trained on or scored more often than was priced.
        """
        splits = self._draw(n_samples, random_state)
        _check_counted(self, splits, n_samples)
        return splits

    def _draw(self, n_samples, random_state):
        raise NotImplementedError

    def describe(self):
        """Return a short phrase for the report."""
        raise NotImplementedError


def _counted(splits, n_samples):
    """Return the distinct :class:`RowCost` values of drawn splits."""
    trained, scored = np.zeros((2, n_samples), dtype=np.intp)
    for train, test in splits:  # an index that is repeated counts as often as it is there
        trained += np.bincount(np.asarray(train, dtype=np.intp), minlength=n_samples)
        scored += np.bincount(np.asarray(test, dtype=np.intp), minlength=n_samples)
    base = int(scored.max(initial=0)) + 1
    return [RowCost(*divmod(int(both), base)) for both in np.unique(trained * base + scored)]


def _check_counted(scheme, splits, n_samples):
    """Refuse drawn splits in which some row costs more than was priced."""
    priced = scheme.row_costs(n_samples)
    for drawn in _counted(splits, n_samples):
        if not any(drawn.trainings <= cost.trainings and drawn.scorings <= cost.scorings for cost in priced):
            raise SplitRefusedError(
                f"cv ({scheme.describe()}) drew a row that is trained on {drawn.trainings} times and scored "
                f"{drawn.scorings} times, which is more than what was priced. {_ADVICE}"
            )


def _holdout_sizes(n_samples, test_size):
    n_test = math.ceil(test_size * n_samples)
    if n_test < 1 or n_samples - n_test < 1:
        raise SplitRefusedError(
            f"cv must leave at least one row to train on and one to score; got n_samples={n_samples} and "
            f"test_size={test_size}. Use more rows or another test_size."
        )
    return n_samples - n_test, n_test


class Holdout(SplitScheme):
    """One random holdout: every row is either trained on or scored, never both.

    Parameters
    ----------
    test_size : float, default=0.2
        Share of the rows that are scored, in (0, 1). The number of scored rows is rounded up.

    Notes
    -----
    *Guarantee.* A row's record is in one of the two parts, so a run costs the worse of the training
    curve and the score curve, not their sum.

    Examples
    --------
    >>> from skdptune.model_selection import Holdout
    >>> Holdout(0.25).train_sizes(100)
    (75,)
    """

    def __init__(self, test_size=0.2):
        self.test_size = check_real(
            "test_size", test_size, low=0, high=1, low_open=True, high_open=True
        )

    def __repr__(self):
        return f"Holdout(test_size={self.test_size!r})"

    def row_costs(self, n_samples):
        return (RowCost(1, 0), RowCost(0, 1))

    def train_sizes(self, n_samples):
        return (_holdout_sizes(n_samples, self.test_size)[0],)

    def n_scored(self, n_samples):
        return _holdout_sizes(n_samples, self.test_size)[1]

    def _draw(self, n_samples, random_state):
        n_train, _ = _holdout_sizes(n_samples, self.test_size)
        order = random_state.permutation(n_samples)
        return [(np.sort(order[:n_train]), np.sort(order[n_train:]))]

    def describe(self):
        return f"one random holdout of {percent_as_given(self.test_size)} of the rows"


class IndependentHoldout(SplitScheme):
    """A holdout in which each row's place is its own coin: the split for ``relation="add-remove"``.

    Under add-remove the number of rows is private, and removing a row from a permuted index split
    would move other rows. Here no row's place depends on any other row.

    Parameters
    ----------
    n_public : int
        A public guess of the number of rows. The score is the noisy sum divided by
        ``test_size * n_public``, because the true number may not be used.
    test_size : float, default=0.2
        Probability that a row is scored rather than trained on, in (0, 1).

    Examples
    --------
    >>> from skdptune.model_selection import IndependentHoldout
    >>> IndependentHoldout(n_public=1000).n_scored(977)
    200
    """

    allows_add_remove = True
    data_free_by = "each row's place in the split is an independent public coin"

    def __init__(self, n_public, test_size=0.2):
        self.n_public = check_integer("n_public", n_public, low=2)
        self.test_size = check_real(
            "test_size", test_size, low=0, high=1, low_open=True, high_open=True
        )

    def __repr__(self):
        return f"IndependentHoldout(n_public={self.n_public!r}, test_size={self.test_size!r})"

    def row_costs(self, n_samples):
        return (RowCost(1, 0), RowCost(0, 1))

    def train_sizes(self, n_samples):
        return (max(1, round((1 - self.test_size) * self.n_public)),)

    def n_scored(self, n_samples):
        return max(1, round(self.test_size * self.n_public))

    def _draw(self, n_samples, random_state):
        scored = random_state.random_sample(n_samples) < self.test_size
        return [(np.flatnonzero(~scored), np.flatnonzero(scored))]

    def describe(self):
        return f"an independent coin per row with probability {as_given(self.test_size)} of being scored"


class _PublicValidation(SplitScheme):
    """All private rows train; public rows score. Nothing is drawn."""

    data_free_by = "all private rows are trained on; the validation rows are public"
    trains_on_all = True
    allows_add_remove = True

    def row_costs(self, n_samples):
        return (RowCost(1, 0),)

    def train_sizes(self, n_samples):
        return (n_samples,)

    def n_scored(self, n_samples):
        return 0

    def _draw(self, n_samples, random_state):
        return [(np.arange(n_samples), np.arange(0))]

    def describe(self):
        return "public validation rows"


class _Folds(SplitScheme):
    """k folds, possibly repeated: every row is trained on (k - 1) times and scored once per repeat."""

    def __init__(self, n_folds, n_repeats, shuffle):
        self.n_folds = n_folds
        self.n_repeats = n_repeats
        self.shuffle = shuffle
        self.n_splits = n_folds * n_repeats

    def _check(self, n_samples):
        if n_samples < self.n_folds:
            raise SplitRefusedError(
                f"cv must have at most as many folds as there are rows; got {self.n_folds} folds and "
                f"n_samples={n_samples}. Use fewer folds."
            )

    def row_costs(self, n_samples):
        return (RowCost((self.n_folds - 1) * self.n_repeats, self.n_repeats),)

    def train_sizes(self, n_samples):
        self._check(n_samples)
        largest = -(-n_samples // self.n_folds)
        smallest = n_samples // self.n_folds
        return tuple(sorted({n_samples - largest, n_samples - smallest}))

    def n_scored(self, n_samples):
        return n_samples * self.n_repeats

    def _draw(self, n_samples, random_state):
        self._check(n_samples)
        splits = []
        for _ in range(self.n_repeats):
            order = random_state.permutation(n_samples) if self.shuffle else np.arange(n_samples)
            for test in np.array_split(order, self.n_folds):
                splits.append((np.setdiff1d(order, test), np.sort(test)))
        return splits

    def describe(self):
        times = f", {self.n_repeats} times" if self.n_repeats > 1 else ""
        return f"{self.n_folds} folds{times}"


def _split_rows(splitter, n_samples):
    """Yield the splits that scikit-learn makes of so many rows, which it does not see."""
    try:
        yield from splitter.split(np.zeros((n_samples, 1)))
    except ValueError as error:
        raise SplitRefusedError(f"cv cannot split n_samples={n_samples} rows: {error}") from None


class _RandomSplits(SplitScheme):
    """s random splits: some row may be trained on s times, another scored s times."""

    def __init__(self, splitter):
        self.splitter = splitter
        self.n_splits = splitter.get_n_splits()

    def row_costs(self, n_samples):
        # Which rows fall where is a coin that is not part of the price: every mix may occur.
        s = self.n_splits
        return tuple(RowCost(s - j, j) for j in range(s + 1))

    def _sizes(self, n_samples):
        probe = ShuffleSplit(
            n_splits=1,
            test_size=self.splitter.test_size,
            train_size=self.splitter.train_size,
            random_state=0,
        )
        train, test = next(_split_rows(probe, n_samples))
        return len(train), len(test)

    def train_sizes(self, n_samples):
        return (self._sizes(n_samples)[0],)

    def n_scored(self, n_samples):
        return self._sizes(n_samples)[1] * self.n_splits

    def _draw(self, n_samples, random_state):
        n_train, n_test = self._sizes(n_samples)
        splits = []
        for _ in range(self.n_splits):
            order = random_state.permutation(n_samples)
            splits.append((np.sort(order[n_test : n_test + n_train]), np.sort(order[:n_test])))
        return splits

    def describe(self):
        return f"{self.n_splits} random splits"


class _FixedSplits(SplitScheme):
    """Index lists that were fixed beforehand; costs are counted from the lists."""

    data_free_by = "the index lists are declared to have been chosen without looking at the rows"

    def __init__(self, splits, name):
        self.splits = splits
        self.name = name
        self.n_splits = len(splits)

    def _check(self, n_samples):
        top = max(int(part.max()) for split in self.splits for part in split)
        if top >= n_samples:
            raise SplitRefusedError(
                f"cv must hold row numbers below n_samples={n_samples}; got {top}. Make the lists for "
                "these rows."
            )

    def row_costs(self, n_samples):
        self._check(n_samples)
        return _undominated(_counted(self.splits, n_samples))

    def train_sizes(self, n_samples):
        return tuple(sorted({len(train) for train, _ in self.splits}))

    def n_scored(self, n_samples):
        return sum(len(test) for _, test in self.splits)

    def _draw(self, n_samples, random_state):
        self._check(n_samples)
        return list(self.splits)

    def describe(self):
        return self.name


class _ComputedSplits(SplitScheme):
    """A deterministic splitter of scikit-learn that looks at the number of rows only."""

    data_free_by = "the split is computed from the number of rows alone"

    def __init__(self, splitter, n_splits):
        self.splitter = splitter
        self.n_splits = n_splits
        self._made = {}

    def _fixed(self, n_samples):
        if n_samples not in self._made:  # asked once: what is priced is what is drawn
            splits = list(_split_rows(self.splitter, n_samples))
            self._made = {n_samples: _FixedSplits(splits, self.describe())}
        return self._made[n_samples]

    def row_costs(self, n_samples):
        return self._fixed(n_samples).row_costs(n_samples)

    def train_sizes(self, n_samples):
        return self._fixed(n_samples).train_sizes(n_samples)

    def n_scored(self, n_samples):
        return self._fixed(n_samples).n_scored(n_samples)

    def _draw(self, n_samples, random_state):
        return self._fixed(n_samples).splits

    def describe(self):
        return repr(self.splitter)


def _index_part(position, name, values):
    try:
        part = np.asarray(values)
    except Exception:
        part = None
    if part is None or part.ndim != 1 or part.size == 0 or not np.issubdtype(part.dtype, np.integer):
        raise SplitRefusedError(
            f"cv must hold pairs of non-empty integer index lists; the {name} part of split {position} is "
            f"{describe(values)}. Boolean masks and empty parts are refused: pass row numbers."
        )
    if part.min() < 0:
        raise SplitRefusedError(
            f"cv must hold row numbers of 0 or more; the {name} part of split {position} has a negative one."
        )
    if np.unique(part).size != part.size:
        raise SplitRefusedError(
            f"cv must name each row at most once per part; the {name} part of split {position} repeats a "
            "row, which would multiply that row's influence. Remove the duplicates."
        )
    return part.astype(np.intp, copy=True)


def _explicit(cv):
    try:
        pairs = iter(cv)
    except TypeError:
        pairs = None
    if pairs is None:
        raise invalid_type("cv", "None, an integer, a splitter or index lists", cv, _ADVICE)
    splits = []
    for position, pair in enumerate(pairs):
        try:
            train, test = pair
        except (TypeError, ValueError):
            train = test = None
        if train is None:  # raised here: nothing of what was passed by mistake hangs on the error
            raise SplitRefusedError(
                f"cv must yield (train, test) pairs of index lists; split {position} is {describe(pair)}."
            )
        train = _index_part(position, "train", train)
        test = _index_part(position, "test", test)
        if np.intersect1d(train, test).size:
            raise SplitRefusedError(
                f"cv must keep training and validation rows apart; split {position} has rows in both. A "
                "row that is trained on and scored costs both: remove it from one part."
            )
        splits.append((train, test))
    if not splits:
        raise SplitRefusedError("cv must hold at least one (train, test) pair; got none.")
    return _FixedSplits(tuple(splits), f"{len(splits)} explicit index split(s)")


def _from_splitter(cv):
    kind = type(cv)
    if kind is KFold:
        return _Folds(cv.n_splits, 1, cv.shuffle)
    if kind is RepeatedKFold:
        return _Folds(cv.cvargs["n_splits"], cv.n_repeats, True)
    if kind is ShuffleSplit:
        return _RandomSplits(cv)
    if kind is LeaveOneOut or kind is LeavePOut or kind is TimeSeriesSplit:
        return _ComputedSplits(cv, None)
    if kind is PredefinedSplit:
        return _explicit(cv.split())
    return None


def _own_scheme(cv):
    """Return a new scheme with the parameters of ``cv``: nothing else that an object carries decides a split."""
    kind = type(cv)
    if kind is Holdout:
        return Holdout(cv.test_size)
    if kind is IndependentHoldout:
        return IndependentHoldout(cv.n_public, cv.test_size)
    raise SplitRefusedError(
        f"cv={kind.__name__} is refused: only the exact classes Holdout and IndependentHoldout are priced, and a "
        f"subclass may draw any split for the price of one holdout. {_ADVICE}"
    )


def as_split_scheme(cv, *, public_validation=False):
    """Turn the ``cv`` argument of a search into a :class:`SplitScheme`, or refuse it.

    Parameters
    ----------
    cv : None, int, splitter or iterable
        ``None`` is one holdout of 20 %; an integer k is k shuffled folds; a
        :class:`Holdout` or :class:`IndependentHoldout`; one of scikit-learn's splitters that look at
        the number of rows only; or a list of ``(train, test)`` index lists.
    public_validation : bool, default=False
        True when public validation rows score every run. No private row is split then, and ``cv`` is
        not used.

    Raises
    ------
    SplitRefusedError, InvalidParameterError, InvalidTypeError

    Examples
    --------
    >>> as_split_scheme(5).row_costs(100)
    (RowCost(trainings=4, scorings=1),)
    """
    if public_validation:
        # Every private row is trained on and public rows score: cv is not used, so any value will do.
        return _PublicValidation()
    if cv is None:
        return Holdout()
    if isinstance(cv, SplitScheme):
        return _own_scheme(cv)
    if isinstance(cv, bool) or isinstance(cv, (str, bytes)):
        raise invalid_type("cv", "None, an integer, a splitter or index lists", cv, _ADVICE)
    if isinstance(cv, numbers.Integral):
        return _Folds(check_integer("cv", cv, low=2, advice=_ADVICE), 1, True)
    if isinstance(cv, numbers.Real):
        raise invalid_type("cv", "an integer number of folds", cv, "Use Holdout(test_size=...).")
    for kind, reason in _REFUSED.items():
        if isinstance(cv, kind):
            raise SplitRefusedError(
                f"cv={type(cv).__name__} is refused on private rows: {reason}, so the split itself would "
                f"depend on private data. {_ADVICE}"
            )
    scheme = _from_splitter(cv)
    if scheme is not None:
        return scheme
    if hasattr(cv, "split"):
        raise SplitRefusedError(
            f"cv={type(cv).__name__} is not known to look at the number of rows only, so its cost cannot "
            f"be stated. {_ADVICE}"
        )
    return _explicit(cv)


def check_scheme_relation(scheme, relation):
    """Refuse index splits under add-remove, where one more row would move the others.

    Raises
    ------
    SplitRefusedError
    """
    if relation == "add-remove" and not scheme.allows_add_remove:
        raise SplitRefusedError(
            f"cv ({scheme.describe()}) is refused with relation='add-remove': removing one row would move "
            "other rows across the split. Use cv=IndependentHoldout(n_public=...), public validation "
            "rows, or relation='zero-out'."
        )
    if relation != "add-remove" and isinstance(scheme, IndependentHoldout):
        raise invalid_value(
            "cv", "a split for a public number of rows", scheme, "Use Holdout() with this relation."
        )
