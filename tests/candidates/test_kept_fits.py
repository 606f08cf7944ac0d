"""Trained estimators inside what ``clone`` copies as it is are refused before anything is spent."""

import collections
import dataclasses
import functools
import threading
import types
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates import find_adapter, row_wise
from tests.candidates.toys import Toy

ROWS, LABELS = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 1, 0])
TRAINED = LogisticRegression().fit(ROWS, LABELS)
SCALER = StandardScaler().fit(ROWS)


class Holder(Toy):
    def __init__(self, extra=None, s=1.0, random_state=None):
        self.extra = extra
        super().__init__(s, random_state)


class Pair(NamedTuple):
    name: str
    model: object


@dataclasses.dataclass
class Config:
    model: object


class Slotted:
    __slots__ = ("model",)

    def __init__(self, model):
        self.model = model


class Own(list):
    pass


class Locked:
    def __init__(self, model):
        self.lock, self.model = threading.Lock(), model


def closure(model):
    def ask(X):
        return model.predict(X)

    return ask


def default(model):
    def ask(X, model=model):
        return model.predict(X)

    return ask


COPIED = {
    "named tuple": lambda model: Pair("a", model),
    "data class": Config,
    "namespace": lambda model: types.SimpleNamespace(model=model),
    "partial": lambda model: functools.partial(sorted, key=model),
    "partial of a method": lambda model: functools.partial(model.get_params),
    "method": lambda model: model.get_params,
    "slots": Slotted,
    "a list of one's own": lambda model: Own([model]),
    "behind a lock": Locked,
    "closure": closure,
    "default": default,
    "deep": lambda model: [Config({"a": Own([closure(Slotted(model))])})],
    "deque": lambda model: collections.deque([model]),
    "an estimator in there": lambda model: Config(Holder(model)),
    "a pipeline in there": lambda model: Config(make_pipeline(model)),
}


@pytest.mark.parametrize("kind", COPIED)
def test_trained_estimators_are_found_wherever_clone_does_not_look(kind):
    with pytest.raises(CandidateRefusedError, match=r" \(.*stays as it was trained.* or public numbers in its place"):
        find_adapter(Holder(COPIED[kind](TRAINED)))
    find_adapter(Holder(COPIED[kind](LogisticRegression())))


def test_the_same_estimator_in_two_places_is_looked_at_in_both():
    find_adapter(Holder([TRAINED, TRAINED]))
    with pytest.raises(CandidateRefusedError, match="stays as it was trained"):
        find_adapter(Holder([TRAINED, Config(TRAINED)]))


@pytest.mark.parametrize("name", ["func", "inverse_func"])
def test_a_method_of_a_trained_step_is_no_function(name):
    step = FunctionTransformer(**{"func": row_wise(np.abs), name: row_wise(SCALER.transform)})
    with pytest.raises(CandidateRefusedError, match=rf"{name} \(StandardScaler\) stays as it was trained"):
        find_adapter(make_pipeline(step, Toy())).check("zero-out")
    find_adapter(make_pipeline(FunctionTransformer(row_wise(np.abs)), Toy())).check("zero-out")


def test_values_of_the_space_are_looked_into_before_the_charge():
    search = PrivateRandomSearchCV(Holder(), {"extra": [None, Config(TRAINED)]}, n_iter=1, classes=[0, 1])
    with pytest.raises(CandidateRefusedError, match="stays as it was trained"):
        search.fit(np.zeros((20, 2)), np.arange(20) % 2)
    assert not hasattr(search, "privacy_spent_")


def test_a_generator_is_not_drawn_from():
    state = np.random.RandomState(3)
    find_adapter(Toy(random_state=state))
    assert state.uniform() == np.random.RandomState(3).uniform()
