"""Copies of models and scorers: what the quick way makes is what ``copy.deepcopy`` makes."""

import copy
import copyreg

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression

from skdptune.candidates._contents import deep_copy


class Plain:
    def __init__(self):
        self.number, self.text, self.array = 2.5, "a", np.asfortranarray(np.arange(6.0).reshape(2, 3))


class Nested(Plain):
    def __init__(self):
        super().__init__()
        self.inner = [Plain()]


class Shared(Plain):
    def __init__(self):
        super().__init__()
        self.again = self.array


class Slotted(Plain):
    __slots__ = ("hidden",)

    def __init__(self):
        super().__init__()
        self.hidden = [1.0]


class _Asked(Plain):
    """Counts the copies that are made by its own rules."""

    made = 0

    def _copied(self):
        type(self).made += 1
        return self


class OwnCopy(_Asked):
    def __deepcopy__(self, memo):
        return self._copied()


class OwnState(_Asked):
    def __getstate__(self):
        self._copied()
        return vars(self).copy()


class OwnReturn(_Asked):
    def __setstate__(self, state):
        self._copied()
        vars(self).update(state)


class OwnReduction(_Asked):
    def __reduce__(self):
        self._copied()
        return type(self), ()


class OwnNew(_Asked):
    def __new__(cls):
        cls.made += 1
        return super().__new__(cls)


class Registered(_Asked):
    pass


copyreg.pickle(Registered, lambda value: (type(value._copied()), ()))


class Estimator(Plain, BaseEstimator):
    pass


@pytest.mark.parametrize("kind", [Plain, Nested, Shared, Slotted, Estimator])
def test_equal_to_deepcopy_and_apart(kind):
    value = kind()
    twin, expected = deep_copy(value), copy.deepcopy(value)
    assert type(twin) is kind
    assert vars(twin).keys() == vars(expected).keys()
    np.testing.assert_array_equal(twin.array, value.array)
    assert twin.array.flags.f_contiguous
    value.array[:] = -1.0
    assert twin.array.min() == 0.0
    if kind is Nested:
        assert twin.inner[0] is not value.inner[0]
    if kind is Shared:
        assert twin.again is twin.array
    if kind is Slotted:
        assert twin.hidden == [1.0]
        assert twin.hidden is not value.hidden


@pytest.mark.parametrize("kind", [OwnCopy, OwnState, OwnReturn, OwnReduction, OwnNew, Registered])
def test_own_rules_are_followed(kind):
    value = kind()
    before = kind.made
    deep_copy(value)
    assert kind.made == before + 1


def test_read_only_arrays_and_subclasses_of_arrays():
    value = Plain()
    value.array.flags.writeable = False
    assert deep_copy(value).array.flags.writeable  # as copy.deepcopy has it
    value.array = np.ma.masked_array([1.0, 2.0], mask=[True, False])
    assert deep_copy(value).array.mask.tolist() == [True, False]


def test_models_of_scikit_learn():
    model = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    twin = deep_copy(model)
    assert vars(twin).keys() == vars(model).keys()
    np.testing.assert_array_equal(twin.predict([[3.0]]), model.predict([[3.0]]))
