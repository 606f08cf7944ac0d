"""Splits: what they cost, that they read no row, and what is refused."""

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from skdptune._exceptions import InvalidTypeError, SplitRefusedError
from skdptune.candidates._seeding import RunRandomState
from skdptune.model_selection import Holdout, IndependentHoldout
from skdptune.model_selection._splits import RowCost, as_split_scheme, check_scheme_relation

N = 60
SCHEMES = {
    "default": None,
    "holdout": Holdout(0.3),
    "independent": IndependentHoldout(n_public=50, test_size=0.3),
    "int": 4,
    "kfold": KFold(7),
    "shuffled": KFold(7, shuffle=True, random_state=0),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "random": ShuffleSplit(n_splits=3, test_size=0.25),
    "loo": LeaveOneOut(),
    "time": TimeSeriesSplit(4),
    "predefined": PredefinedSplit(np.arange(N) % 5 - 1),
    "lists": [(np.arange(40), np.arange(40, N)), (np.arange(20, N), np.arange(20))],
}


@pytest.fixture(params=SCHEMES, ids=str)
def scheme(request):
    return as_split_scheme(SCHEMES[request.param])


def test_no_drawn_row_costs_more_than_stated(scheme):
    for entropy in range(5):
        counts = np.zeros((N, 2), dtype=int)
        for train, test in scheme.draw(N, RunRandomState(entropy)):
            assert np.intersect1d(train, test).size == 0
            assert np.unique(train).size == train.size and np.unique(test).size == test.size
            counts[train, 0] += 1
            counts[test, 1] += 1
        for trained, scored in np.unique(counts, axis=0):
            assert any(trained <= c.trainings and scored <= c.scorings for c in scheme.row_costs(N))


def test_sizes_are_those_drawn(scheme):
    if isinstance(scheme, IndependentHoldout):
        pytest.skip("its sizes are random; only public expectations are stated")
    splits = scheme.draw(N, RunRandomState(3))
    assert len(splits) == scheme.n_splits or scheme.n_splits is None
    assert {len(train) for train, _ in splits} <= set(scheme.train_sizes(N))
    assert sum(len(test) for _, test in splits) == scheme.n_scored(N)


@pytest.mark.parametrize(
    ("cv", "costs"),
    [
        (None, {(1, 0), (0, 1)}),
        (5, {(4, 1)}),
        (KFold(3), {(2, 1)}),
        (RepeatedKFold(n_splits=3, n_repeats=4), {(8, 4)}),
        (ShuffleSplit(n_splits=2), {(2, 0), (1, 1), (0, 2)}),
        (LeaveOneOut(), {(N - 1, 1)}),
        ([([0, 1, 2], [3]), ([0, 1], [2, 3])], {(2, 0), (1, 1), (0, 2)}),
    ],
)
def test_costs_are_the_textbook_ones(cv, costs):
    found = as_split_scheme(cv).row_costs(N)
    assert {(c.trainings, c.scorings) for c in found} == costs


def test_every_holdout_is_rounded_up_as_scikit_learn_does():
    train, test = next(ShuffleSplit(1, test_size=0.2, random_state=0).split(np.zeros((13, 1))))
    assert as_split_scheme(None).train_sizes(13) == (len(train),)
    assert as_split_scheme(None).n_scored(13) == len(test)


@pytest.mark.parametrize(
    "cv", [StratifiedKFold(), StratifiedShuffleSplit(), GroupKFold()], ids=lambda cv: type(cv).__name__
)
def test_splitters_that_read_the_rows_are_refused_on_private_rows_only(cv):
    with pytest.raises(SplitRefusedError, match=f"{type(cv).__name__} is refused.*public validation rows"):
        as_split_scheme(cv)
    assert as_split_scheme(cv, public_validation=True).row_costs(N) == (RowCost(1, 0),)


class _LabelSplitter:
    def split(self, X, y):
        yield np.flatnonzero(y == 0), np.flatnonzero(y == 1)


class _SneakyKFold(KFold):
    def split(self, X, y=None, groups=None):
        yield np.flatnonzero(y == 0), np.flatnonzero(y == 1)


@pytest.mark.parametrize("cv", [_LabelSplitter(), _SneakyKFold()])
def test_unknown_splitters_are_refused(cv):
    with pytest.raises(SplitRefusedError, match="not known to look at the number of rows only"):
        as_split_scheme(cv)


@pytest.mark.parametrize(
    ("cv", "text"),
    [
        ([([0, 0, 1], [2])], "at most once per part"),
        ([([0, 1], [1, 2])], "rows in both"),
        ([([0, -1], [2])], "negative"),
        ([([], [2])], "non-empty integer index lists"),
        ([([True, False], [2])], "Boolean masks"),
        ([0], "pairs of index lists"),
        ([], "at least one"),
    ],
)
def test_index_lists_are_checked(cv, text):
    with pytest.raises(SplitRefusedError, match=text):
        as_split_scheme(cv)


def test_index_lists_must_fit_the_rows():
    with pytest.raises(SplitRefusedError, match="below n_samples=3"):
        as_split_scheme([([0, 1], [5])]).row_costs(3)


@pytest.mark.parametrize("cv", [True, 0.2, "5", object()])
def test_other_types_are_refused(cv):
    with pytest.raises(InvalidTypeError, match="^cv must be"):
        as_split_scheme(cv)


def test_add_remove_needs_a_coin_per_row():
    with pytest.raises(SplitRefusedError, match="IndependentHoldout"):
        check_scheme_relation(as_split_scheme(None), "add-remove")
    check_scheme_relation(as_split_scheme(IndependentHoldout(100)), "add-remove")


def test_dropping_a_row_moves_no_other_row_of_an_independent_holdout():
    scheme = IndependentHoldout(100, 0.3)
    (_, more), (_, less) = (scheme.draw(n, RunRandomState(7))[0] for n in (N, N - 1))
    assert np.array_equal(more[more < N - 1], less)


def test_splits_differ_between_draws_and_repeat_with_a_seed():
    scheme = as_split_scheme(None)
    first, second, again = (scheme.draw(N, RunRandomState(e))[0][1] for e in (1, 2, 1))
    assert not np.array_equal(first, second) and np.array_equal(first, again)


class Thrice(Holdout):
    """Three holdouts for the price of one, if it were taken."""

    n_splits = 3

    def draw(self, n_samples, random_state):
        return [super(Thrice, self).draw(n_samples, random_state)[0] for _ in range(3)]


class Unsplit(IndependentHoldout):
    def draw(self, n_samples, random_state):
        return [(np.arange(n_samples), np.arange(n_samples))]


@pytest.mark.parametrize("cv", [Thrice(), Unsplit(100)])
def test_subclasses_of_own_schemes_are_refused(cv):
    with pytest.raises(SplitRefusedError, match=f"cv={type(cv).__name__} is refused: only the exact classes"):
        as_split_scheme(cv)


def test_what_is_hung_on_a_scheme_decides_no_split():
    cv = Holdout(0.25)
    cv.draw = cv.row_costs = None
    assert len(as_split_scheme(cv).draw(N, RunRandomState(0))[0][1]) == N // 4


def test_drawn_splits_are_counted_against_the_price():
    class Twice(Holdout):
        def _draw(self, n_samples, random_state):
            return 2 * super()._draw(n_samples, random_state)

    with pytest.raises(SplitRefusedError, match=r"trained on 0 times and scored 2 times, which is more than what was"):
        Twice().draw(N, RunRandomState(0))


def test_a_splitter_is_asked_once_for_what_is_priced_and_drawn():
    splitter, asked = LeaveOneOut(), []

    def split(X):  # more at every call
        asked.append(X)
        return iter([(np.arange(1, N), np.arange(1))] * len(asked))

    splitter.split = split
    scheme = as_split_scheme(splitter)
    assert scheme.row_costs(N) == (RowCost(1, 0), RowCost(0, 1))
    assert len(scheme.draw(N, RunRandomState(0))) == len(asked) == 1
