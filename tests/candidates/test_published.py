"""What is published of a native candidate must not tell more than its outputs do."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates import find_adapter
from skdptune.candidates._native import NativeAdapter
from skdptune.model_selection import IndependentHoldout
from tests.candidates.toys import RelationToy, Toy, ToyScaler, UndeclaredToy

ROWS = np.arange(12.0).reshape(6, 2) + 987654.0
LABELS = np.array([0, 1, 0, 1, 1, 0])


class Learns(UndeclaredToy):
    """Has whatever the test gives it as an output."""

    def __init__(self, found=None, s=1.0, random_state=None):
        self.found = found
        super().__init__(s, random_state)

    def fit(self, X, y=None):
        super().fit(X, y)
        self.found_ = self.found(X, y)
        return self


class Declared(Learns):
    published_attributes = ("found_", "z_", "classes_")


def published(candidate, relation="zero-out", X=ROWS, y=LABELS):
    adapter = NativeAdapter(candidate)
    adapter.check(relation)
    return adapter.publish(adapter.fit(X, y, classes=None, seed=None))


# ---- copies of rows: no value is compared


OF_THE_SHAPE_OF_Y = {
    "array": lambda labels: labels,
    "column": lambda labels: labels[:, None],
    "list": lambda labels: labels.tolist(),
    "tuple in a dict": lambda labels: {"kept": tuple(labels.tolist())},
    "Series": pd.Series,
    "list of lists": lambda labels: np.column_stack([labels, labels]).tolist(),
    "sparse": lambda labels: sparse.csr_array(np.column_stack([labels, labels])),
}


@pytest.mark.parametrize("kind", OF_THE_SHAPE_OF_Y)
@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_an_output_that_equals_y_by_chance_is_treated_like_any_other(kind, relation):
    made = OF_THE_SHAPE_OF_Y[kind]
    X, y = (ROWS, LABELS[:, None]) if kind == "column" else (ROWS, LABELS)
    absent = [
        not hasattr(published(Learns(lambda X, y, d=d: made(d)), relation, X, y), "found_")
        for d in (LABELS, 1 - LABELS, np.arange(6))
    ]
    assert absent == [True] * 3


@pytest.mark.parametrize("found", [lambda X, y: y[:5].copy(), lambda X, y: 1, lambda X, y: [1, 2], lambda X, y: "text"])
def test_outputs_of_another_shape_are_published(found):
    assert hasattr(published(Learns(found)), "found_")


@pytest.mark.parametrize("n", [3, 8])
def test_what_numpy_writes_of_an_array_is_no_output(n):
    model = published(Learns(lambda X, y: {"w": [np.zeros((2, 2))]}), X=np.ones((n, 2)), y=np.ones(n))
    assert model.found_["w"][0].shape == (2, 2)


# ---- under add-remove the number of rows is private


@pytest.mark.parametrize("n", [5, 6, 7])
def test_under_add_remove_no_output_tells_the_number_of_rows(n):
    class Prototypes(Learns):
        published_attributes = ("members_", "found_")

        def fit(self, X, y=None):
            super().fit(X, y)
            self.members_ = [Learns(lambda X, y: np.zeros((6, 2))).fit(X, y)]
            return self

    model = published(Prototypes(lambda X, y: np.zeros((6, 2))), "add-remove", np.ones((n, 2)), np.zeros(n))
    assert model.found_.shape == model.members_[0].found_.shape == (6, 2)


def test_under_add_remove_a_part_of_the_memory_of_rows_is_still_withheld_from_members():
    def member(X, y):
        return [Learns(lambda X, y: X[:2]).fit(X, y)]

    assert not hasattr(published(Declared(member), "add-remove").found_[0], "found_")


def test_under_add_remove_outputs_must_be_declared():
    with pytest.raises(
        CandidateRefusedError, match="UndeclaredToy must declare published_attributes under 'add-remove"
    ):
        find_adapter(UndeclaredToy()).check("add-remove")
    with pytest.raises(CandidateRefusedError, match="step 'undeclaredtoy': UndeclaredToy must declare"):
        find_adapter(make_pipeline(Normalizer(), UndeclaredToy())).check("add-remove")
    for relation in ("zero-out", "replace-one"):
        find_adapter(UndeclaredToy()).check(relation)
    find_adapter(RelationToy()).check("add-remove")
    search = PrivateRandomSearchCV(UndeclaredToy(), {"s": [1.0]}, relation="add-remove", cv=IndependentHoldout(50))
    with pytest.raises(CandidateRefusedError, match="published_attributes"):
        search.privacy_cost(100)


def test_declared_outputs_are_a_sequence_of_names():
    class Slip(Toy):
        published_attributes = "z_"

    with pytest.raises(CandidateRefusedError, match=r"must be a sequence of attribute names; .* write \('z_',\)"):
        find_adapter(Slip()).check("zero-out")


# ---- what hides in the type of an array


def structured(cell):
    return np.array([(cell,)], dtype=[("cell", object)])


def test_a_generator_or_rows_in_a_structured_array_are_found():
    for cell in (np.random.RandomState(0), ROWS):
        assert not hasattr(published(Learns(lambda X, y, c=cell: structured(c)), X=ROWS), "found_")
        assert not hasattr(published(Learns(lambda X, y, c=cell: structured(c)[0]), X=ROWS), "found_")
    with pytest.raises(CandidateRefusedError, match="a ndarray with a RandomState inside"):
        published(Declared(lambda X, y: structured(np.random.RandomState(0))))
    assert published(Learns(lambda X, y: structured(1.5))).found_["cell"].tolist() == [1.5]


@pytest.mark.parametrize("shape", ["f8", [("a", "f8")]])
def test_notes_on_the_type_of_an_array_are_not_published(shape):
    noted = np.dtype(shape, metadata={"from": np.random.RandomState(0)})
    for found in (np.zeros(2, noted), np.zeros(2, noted)[0], {"a": [np.zeros(2, noted)]}):
        value = published(Declared(lambda X, y, f=found: f)).found_
        value = value["a"][0] if isinstance(found, dict) else value
        assert value.dtype == noted and value.dtype.metadata is None


# ---- fitted pipelines among what was learned


def test_a_fitted_pipeline_in_an_output_is_published_as_it_was_fitted():
    def fitted(X, y):
        free = FeatureUnion([("a", Normalizer()), ("b", FunctionTransformer())])
        return make_pipeline(free, ToyScaler(random_state=3), Pipeline([("last", Toy(random_state=5))])).fit(X, y)

    for kind in (Learns, Declared):
        model = published(kind(fitted))
        inner = model.found_
        assert inner.predict(ROWS).shape == (6,) and inner[1].shift_ != 0
        assert inner[-1][-1].z_ == fitted(ROWS, LABELS)[-1][-1].z_
        assert inner[1].random_state is None and inner[-1][-1].random_state is None


def test_steps_of_a_pipeline_among_outputs_keep_no_rows():
    model = published(Learns(lambda X, y: Pipeline([("a", Learns(lambda X, y: X.copy()))]).fit(X, y)))
    assert hasattr(model.found_[0], "z_") and not hasattr(model.found_[0], "found_")
