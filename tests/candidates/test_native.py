"""Estimators that state their own cost: the statement, calibration, seeds, publication."""

import collections
import copy
import pickle
import random
import threading

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils import Bunch

from skdptune._exceptions import CandidateRefusedError, PricingError
from skdptune.accounting import PrivacyCurve
from skdptune.candidates import find_adapter
from skdptune.candidates._native import NativeAdapter
from skdptune.candidates._seeding import entropy_for
from skdptune.candidates._statements import RdpStatement
from tests.candidates.toys import (
    ClassesToy,
    CurveToy,
    FixedToy,
    GaussianToy,
    GlobalToy,
    PlantedToy,
    RelationToy,
    SizedToy,
    SmugglingToy,
    Toy,
    ToyRegressor,
    ToyScaler,
    UndeclaredToy,
)

ROWS = np.arange(12.0).reshape(6, 2) + 987654.0
LABELS = np.array([0, 1, 0, 1, 1, 0])
ORDERS = np.array([1.5, 2.0, 8.0, 32.0])


def fit(estimator, seed=None, classes=None):
    adapter = NativeAdapter(estimator)
    return adapter, adapter.fit(ROWS, LABELS, classes=classes, seed=seed)


# ---- the statement


def test_an_rdp_curve_becomes_a_privacy_curve():
    curve = NativeAdapter(Toy(s=2.0)).privacy_curve(100, "replace-one")
    assert curve.relation == "replace-one" and curve.pair is None
    np.testing.assert_allclose(curve.rdp(ORDERS), ORDERS / 8)


def test_curves_of_equal_candidates_are_equal_by_value():
    price = NativeAdapter(Toy(s=2.0)).privacy_curve(100, "zero-out")
    drawn = NativeAdapter(clone(Toy(s=2.0, random_state=5))).privacy_curve(100, "zero-out")
    assert price == drawn and hash(price) == hash(drawn)
    assert price != NativeAdapter(Toy(s=2.0 + 1e-9)).privacy_curve(100, "zero-out")
    assert price != NativeAdapter(Toy(s=2.0)).privacy_curve(100, "add-remove")


def test_a_curve_holds_no_seed_and_does_not_follow_its_template():
    toy = Toy(s=2.0, random_state=np.random.RandomState(4))
    curve = NativeAdapter(toy).privacy_curve(100, "zero-out")
    assert b"RandomState" not in pickle.dumps(curve)
    toy.s = 1e-3
    np.testing.assert_allclose(curve.rdp(ORDERS), ORDERS / 8)


BAD_CURVES = [
    (lambda a: np.nan * a, "nan came"),
    (lambda a: -a, "-1.05 came|came: check"),
    (lambda a: 1 / a, "a larger order got a smaller value"),
    (lambda a: np.where(a > 4, 1.0, np.inf), "a larger order got a smaller value"),
    (lambda a: 1.0, r"\(\) came for orders of shape"),
    (lambda a: a[:-1], "came for orders of shape"),
    (lambda a: 1 / 0, "it raised ZeroDivisionError before fit"),
    (lambda a: np.random.uniform() * a, "two calls disagree"),
]


@pytest.mark.parametrize(("curve", "message"), BAD_CURVES)
def test_bad_statements_are_refused(curve, message):
    with pytest.raises(CandidateRefusedError, match=message) as caught:
        NativeAdapter(CurveToy(curve)).privacy_curve(10, "zero-out").rdp(ORDERS)
    assert str(caught.value).startswith("rdp_curve of CurveToy must return one finite or infinite")


def test_a_value_below_zero_is_refused_and_infinity_allowed():
    with pytest.raises(CandidateRefusedError, match="-1e-15 came"):
        RdpStatement(CurveToy(lambda a: np.where(a > 10, np.inf, -1e-15)))
    statement = RdpStatement(CurveToy(lambda a: np.where(a > 10, np.inf, 0.5)))
    assert statement([2.0, 20.0]).tolist() == [0.5, np.inf]


def test_a_statement_that_depends_on_the_fit_is_refused():
    class Fitted(Toy):
        def rdp_curve(self, orders):
            return orders * (1.0 if hasattr(self, "z_") else 2.0)

    with pytest.raises(CandidateRefusedError, match="two calls disagree"):
        NativeAdapter(Fitted().fit(ROWS)).privacy_curve(10, "zero-out")


def test_privacy_curve_may_be_a_value_or_a_function_of_n():
    assert NativeAdapter(GaussianToy(s=2.0)).privacy_curve(5, "zero-out") == PrivacyCurve.gaussian(2.0)
    adapter = NativeAdapter(SizedToy())
    for relation, factor in (("zero-out", 1), ("replace-one", 2)):
        curve = adapter.privacy_curve(100, relation)
        assert curve.relation == relation
        np.testing.assert_allclose(curve.rdp(ORDERS), factor * 0.1 * ORDERS)
    assert adapter.privacy_curve(100, "zero-out") != adapter.privacy_curve(99, "zero-out")


def test_a_function_without_relation_is_called_with_n_alone():
    class OneArgument(Toy):
        def privacy_curve(self, n):
            return PrivacyCurve.pure(1.0 / n)

    assert NativeAdapter(OneArgument()).privacy_curve(4, "zero-out") == PrivacyCurve.pure(0.25)


def test_privacy_curve_of_another_type_is_refused():
    class Wrong(Toy):
        privacy_curve = 3.0

    with pytest.raises(CandidateRefusedError, match="privacy_curve of Wrong must be a PrivacyCurve"):
        NativeAdapter(Wrong()).privacy_curve(4, "zero-out")


def test_relations_are_converted_explicitly_or_refused():
    curve = PrivacyCurve.gaussian(1.0)
    try:
        expected = curve.to_relation("replace-one")
    except PricingError:
        with pytest.raises(CandidateRefusedError, match="states its cost under relation 'zero-out'"):
            NativeAdapter(GaussianToy()).privacy_curve(4, "replace-one")
    else:
        assert NativeAdapter(GaussianToy()).privacy_curve(4, "replace-one") == expected
        assert expected.relation == "replace-one"


def test_declared_relations_are_kept():
    adapter = NativeAdapter(RelationToy())
    adapter.check("zero-out")
    adapter.check("add-remove")
    with pytest.raises(CandidateRefusedError) as caught:
        adapter.check("replace-one")
    assert str(caught.value) == (
        "RelationToy states its cost under 'zero-out', 'add-remove', but the search is under "
        "'replace-one': set relation= to one of those."
    )
    assert not any("relation" in line for line in adapter.assumptions("zero-out"))
    assert any("'zero-out'" in line for line in NativeAdapter(Toy()).assumptions("zero-out"))


def test_an_object_that_is_no_estimator_is_refused():
    class Bare:
        def rdp_curve(self, orders):
            return orders

    with pytest.raises(CandidateRefusedError, match="has no get_params"):
        find_adapter(Bare()).check("zero-out")


def test_privacy_params():
    assert NativeAdapter(Toy()).privacy_params() == {"s"}
    assert NativeAdapter(UndeclaredToy()).privacy_params() is None
    assert not NativeAdapter(Toy()).may_change_cost("random_state")
    assert NativeAdapter(UndeclaredToy()).may_change_cost("random_state")
    toy = Toy()
    toy.privacy_params = "s"
    with pytest.raises(CandidateRefusedError, match=r"write \('s',\)"):
        NativeAdapter(toy).privacy_params()


# ---- calibration


@pytest.mark.parametrize("toy", [Toy(s=3.0), GaussianToy(s=3.0)])
def test_levels_are_met_and_nearly_used_up(toy):
    adapter = NativeAdapter(toy)
    family = adapter.level_family(50, "zero-out")
    for x in (0.8, 2.5):
        level = family.curve(x)
        budgeted = adapter.with_budget(level, 50, "zero-out")
        assert budgeted is not toy and toy.s == 3.0
        curve = NativeAdapter(budgeted).privacy_curve(50, "zero-out")
        assert curve.lies_below(level)
        np.testing.assert_allclose(curve.rdp(ORDERS), level.rdp(ORDERS), rtol=1e-3)


def test_the_family_takes_the_shape_of_what_is_known():
    assert NativeAdapter(Toy()).level_family(5, "zero-out").name == "factor"
    assert NativeAdapter(Toy()).level_family(5, "zero-out").curve(2.0).pair is None
    assert NativeAdapter(GaussianToy()).level_family(5, "zero-out").name == "noise_multiplier"

    class PureToy(GaussianToy):
        privacy_curve = PrivacyCurve.pure(1.0)

    assert NativeAdapter(PureToy()).level_family(5, "zero-out").name == "epsilon"
    own = NativeAdapter(Toy()).level_family(5, "zero-out")

    class OwnFamily(Toy):
        def level_family(self, n_samples, relation):
            return own

    assert NativeAdapter(OwnFamily()).level_family(5, "zero-out") is own


def test_levels_compare_by_value():
    first, second = (NativeAdapter(Toy()).level_family(5, "zero-out").curve(0.5) for _ in range(2))
    assert first == second


def test_without_with_budget_there_is_a_reason():
    adapter = NativeAdapter(FixedToy())
    assert adapter.level_family(5, "zero-out") is None
    with pytest.raises(PricingError) as caught:
        adapter.with_budget(PrivacyCurve.pure(1.0), 5, "zero-out")
    assert str(caught.value) == adapter.calibration_refusal()
    assert "it offers no with_budget(level)" in str(caught.value)


def test_with_budget_is_not_taken_at_its_word():
    class Liar(Toy):
        def with_budget(self, level):
            return clone(self).set_params(s=1e-3)

    class Mutator(Toy):
        def with_budget(self, level):
            return self

    level = NativeAdapter(Toy()).level_family(5, "zero-out").curve(1.0)
    with pytest.raises(PricingError, match="with_budget of Liar must return a clone whose cost lies"):
        NativeAdapter(Liar()).with_budget(level, 5, "zero-out")
    with pytest.raises(CandidateRefusedError, match="must return a new Mutator; it returned itself"):
        NativeAdapter(Mutator()).with_budget(level, 5, "zero-out")


# ---- seeds


@pytest.mark.parametrize("toy", [Toy(random_state=0), Toy(), GlobalToy()])
def test_every_run_has_its_own_noise(toy):
    draws = []
    for _ in range(30):
        np.random.seed(0)
        draws.append(fit(toy)[1].z_)
    assert len(set(draws)) == 30


@pytest.mark.parametrize("toy", [Toy(random_state=0), Toy(), GlobalToy()])
def test_a_seed_repeats_a_run_and_another_does_not(toy):
    a, b, c = (fit(toy, seed=entropy_for(s))[1].z_ for s in (1, 1, 2))
    assert a == b != c


def test_the_template_is_never_touched():
    toy = Toy(random_state=0)
    before = dict(vars(toy))
    adapter, fitted = fit(toy)
    adapter.publish(fitted)
    adapter.assumptions("zero-out")
    assert vars(toy) == before


def test_clones_made_inside_a_candidate_do_not_replay():
    class Doubling(Toy):
        def __init__(self, base=None, s=1.0, random_state=None):
            self.base = base
            super().__init__(s, random_state)

        def fit(self, X, y=None):
            self.draws_ = [clone(self.base).fit(X).z_ for _ in range(5)]
            return self

    _, fitted = fit(Doubling(base=Toy(random_state=0)))
    assert len(set(fitted.draws_)) == 5


def test_public_classes_fill_a_parameter_left_open():
    adapter, fitted = fit(ClassesToy(), classes=np.array([0, 1]))
    assert adapter.publish(fitted).predict(ROWS).shape == (6,)
    _, fitted = fit(ClassesToy(classes=[7, 8]), classes=np.array([0, 1]))
    assert fitted.classes_.tolist() == [7, 8]


class LearnsClasses(Toy):
    """Finds its classes in y, as estimators without a parameter for them do."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.classes_ = np.unique(y)
        return self


def test_learned_classes_are_an_assumption_and_leave_as_the_declared_ones():
    declared = np.array(["maybe-longer", "no"])
    labels = np.array(["no", "maybe-longer"] * 3, dtype=object)
    adapter = find_adapter(LearnsClasses())
    published = adapter.publish(adapter.fit(ROWS, labels, classes=declared, seed=None))
    assert published.classes_.dtype == declared.dtype and published.classes_.tolist() == declared.tolist()
    assert published.classes_ is not declared
    assert any("takes no classes: every label is assumed" in sentence for sentence in adapter.assumptions("zero-out"))
    assert not any("takes no classes" in s for s in find_adapter(ClassesToy()).assumptions("zero-out"))
    absent = adapter.publish(adapter.fit(ROWS, np.array(["no"] * 6), classes=declared, seed=None))
    assert absent.classes_.tolist() == ["no"]  # covered by the assumption; another order would answer wrongly


# ---- publication


def test_publication_is_by_construction():
    adapter, fitted = fit(Toy(s=2.0, random_state=0))
    published = adapter.publish(fitted)
    assert published is not fitted
    assert set(vars(published)) == {"s", "random_state", "z_", "classes_", "n_features_in_"}
    assert published.random_state is None and published.z_ == fitted.z_
    assert np.array_equal(published.predict(ROWS), fitted.predict(ROWS))
    assert np.array_equal(published.predict_proba(ROWS), fitted.predict_proba(ROWS))


def test_planted_attributes_stay_with_the_curator():
    adapter, fitted = fit(PlantedToy(random_state=0))
    published = adapter.publish(fitted)
    learned = set(vars(published)) - {"s", "random_state"}
    assert learned == {"z_", "classes_", "n_features_in_", "inner_"}
    assert published.inner_ is not fitted.inner_ and published.inner_.random_state is None
    assert published.inner_.z_ == fitted.inner_.z_
    raw = pickle.dumps(published)
    assert ROWS[:1].tobytes() not in raw
    for word in (b"RandomState", b"Generator", b"n_iter_", b"_skdptune"):
        assert word not in raw
    assert any("ends in an underscore" in line for line in adapter.assumptions("zero-out"))


def test_a_declared_attribute_that_smuggles_is_refused():
    adapter, fitted = fit(SmugglingToy())
    with pytest.raises(CandidateRefusedError) as caught:
        adapter.publish(fitted)
    assert str(caught.value) == (
        "published_attributes of SmugglingToy must name private outputs; 'generator_' holds a "
        "Generator, which can replay noise or reach the rows: remove it."
    )


class Box:
    """Something of one's own that a model may keep its results in."""

    def __init__(self, content):
        self.content = content


HIDING = {  # what a model might publish -> the words of the refusal
    "frozen": (lambda: stats.norm(0.0, 1.0), "a rv_continuous_frozen with a RandomState inside"),
    "deep": (lambda: [[[[{"a": [np.random.default_rng(0)]}]]]], "a list with a Generator inside"),
    "own": (lambda: Box(random.Random(0)), "a Box with a Random inside"),
    "lock": (lambda: Box(threading.Lock()), "a Box that pickle cannot look into"),
    "table": (lambda: np.array([Box(ValueError("a row"))], dtype=object), "a ndarray with a ValueError inside"),
    "closure": (lambda: {"f": lambda: 0}, "a dict that pickle cannot look into"),
}


@pytest.mark.parametrize("kind", HIDING)
def test_what_lies_deep_inside_a_declared_attribute_is_found(kind):
    made, words = HIDING[kind]

    class Hiding(Toy):
        published_attributes = ("found_", "fine_")

        def fit(self, X, y=None):
            self.found_ = made()
            return self

    class Undeclared(Hiding):
        published_attributes = None

        def fit(self, X, y=None):
            self.fine_ = Box([np.arange(3.0)])
            return super().fit(X, y)

    adapter, fitted = fit(Hiding())
    with pytest.raises(CandidateRefusedError, match=f"'found_' holds {words}"):
        adapter.publish(fitted)
    adapter, fitted = fit(Undeclared())
    published = adapter.publish(fitted)
    assert not hasattr(published, "found_") and published.fine_.content[0].tolist() == [0.0, 1.0, 2.0]


def test_views_in_a_dictionary_are_published_without_their_base():
    class Viewing(Toy):
        published_attributes = ("views_",)

        def fit(self, X, y=None):
            self.views_ = {"part": np.arange(1000.0)[:2]}
            return self

    adapter, fitted = fit(Viewing())
    assert adapter.publish(fitted).views_["part"].base is None


def test_views_are_published_without_their_base():
    class Viewing(Toy):
        published_attributes = ("view_",)

        def fit(self, X, y=None):
            self.view_ = np.arange(1000.0)[:2]
            return self

    adapter, fitted = fit(Viewing())
    assert adapter.publish(fitted).view_.base is None


def test_seeds_inside_members_are_cleared():
    class Forest(Toy):
        published_attributes = ("members_", "table_")

        def fit(self, X, y=None):
            self.members_ = [Toy(random_state=i).fit(X) for i in range(2)]
            self.table_ = np.empty(1, dtype=object)
            self.table_[0] = Toy(random_state=3).fit(X)
            return self

    adapter, fitted = fit(Forest())
    published = adapter.publish(fitted)
    for old, new in zip([*fitted.members_, fitted.table_[0]], [*published.members_, published.table_[0]], strict=True):
        assert new is not old and new.random_state is None and new.z_ == old.z_
    assert fitted.members_[1].random_state == 1


def test_a_published_model_can_be_fitted_again_without_a_seed():
    adapter, fitted = fit(Toy(random_state=0))
    published = adapter.publish(fitted)
    assert isinstance(published, BaseEstimator)
    assert clone(published).fit(ROWS).z_ != clone(published).fit(ROWS).z_


@pytest.mark.parametrize("kind", [ToyRegressor, ToyScaler])
def test_regressors_and_transformers(kind):
    adapter, fitted = fit(kind(random_state=0))
    published = adapter.publish(fitted)
    method = "transform" if kind is ToyScaler else "predict"
    assert np.array_equal(getattr(published, method)(ROWS), getattr(fitted, method)(ROWS))


# ---- what a container holds


class Member(UndeclaredToy):
    """Learns more than it may publish."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self._rows, self.n_iter_, self.X_ = np.array(X), 77, np.array(X)
        return self


Pair = collections.namedtuple("Pair", "first second")
CONTAINERS = {
    "Bunch": (lambda m: Bunch(m=m), lambda v: v.m),
    "OrderedDict": (lambda m: collections.OrderedDict(m=m), lambda v: v["m"]),
    "defaultdict": (lambda m: collections.defaultdict(list, m=m), lambda v: v["m"]),
    "namedtuple": (lambda m: Pair(m, 1), lambda v: v.first),
    "deque": (lambda m: collections.deque([m], maxlen=3), lambda v: v[0]),
    "own": (Box, lambda v: v.content),
    "deep": (lambda m: Bunch(a=[{"b": (Box(m),)}]), lambda v: v.a[0]["b"][0].content),
}


class Containing(UndeclaredToy):
    def __init__(self, made=None, s=1.0, random_state=None):
        self.made = made
        super().__init__(s, random_state)

    def fit(self, X, y=None):
        super().fit(X, y)
        self.found_ = CONTAINERS[self.made][0](Member(random_state=4).fit(X))
        return self


class Declaring(Containing):
    published_attributes = ("found_",)


@pytest.mark.parametrize("made", CONTAINERS)
@pytest.mark.parametrize("kind", [Containing, Declaring])
def test_members_are_made_anew_in_every_container(kind, made):
    adapter, fitted = fit(kind(made))
    published = adapter.publish(fitted)
    assert type(published.found_) is type(fitted.found_)
    old, new = (CONTAINERS[made][1](each.found_) for each in (fitted, published))
    assert new.z_ == old.z_ and new.random_state is None and old.random_state == 4
    assert not {"_rows", "n_iter_", "X_", "_skdptune_withheld"} & set(vars(new))
    assert "found_" in adapter.published_names(fitted)


def test_a_member_that_stands_twice_is_one_member():
    class Twice(UndeclaredToy):
        def fit(self, X, y=None):
            self.found_ = Bunch(list=[Toy().fit(X)])
            self.found_.again = self.found_.list[0]
            return self

    adapter, fitted = fit(Twice())
    published = adapter.publish(fitted)
    assert published.found_.again is published.found_.list[0] is not fitted.found_.again


def test_a_frozen_member_is_not_published():
    class Freezing(UndeclaredToy):
        def fit(self, X, y=None):
            self.found_ = [FrozenEstimator(Member().fit(X))]
            self.bare_ = FrozenEstimator(Member().fit(X))
            return self

    class Declared(Freezing):
        published_attributes = ("found_",)

    adapter, fitted = fit(Freezing())
    assert {"found_", "bare_"}.isdisjoint(vars(adapter.publish(fitted)))
    adapter, fitted = fit(Declared())
    with pytest.raises(CandidateRefusedError, match="a list with a FrozenEstimator, which keeps its fit"):
        adapter.publish(fitted)


def frame(X):
    return pd.DataFrame(X, columns=["a", "b"])


COPIES = {
    "frame": (frame, lambda X, y: X.copy()),
    "part of a frame": (frame, lambda X, y: X.iloc[:2]),
    "frame of an array": (np.asarray, lambda X, y: frame(X.copy())),
    "array of a frame": (frame, lambda X, y: X.to_numpy().copy()),
    "sparse": (sparse.csr_array, lambda X, y: X.copy()),
    "dense of sparse": (sparse.csr_array, lambda X, y: X.toarray()),
    "text": (lambda X: X.astype(str).astype(object), lambda X, y: X.copy()),
    "in a Bunch": (np.asarray, lambda X, y: Bunch(kept=[X.copy()])),
    "view in a Bunch": (np.asarray, lambda X, y: Bunch(kept=X[:2, :1])),
    "lists": (np.asarray, lambda X, y: X.tolist()),
    "labels": (np.asarray, lambda X, y: {"y": y.copy()}),
    "labels in a Series": (np.asarray, lambda X, y: pd.Series(y)),
    "labels in a list": (np.asarray, lambda X, y: y.tolist()),
}


@pytest.mark.parametrize("kind", COPIES)
def test_copies_of_rows_are_withheld_whatever_they_are(kind):
    make, copied = COPIES[kind]

    class Copying(UndeclaredToy):
        def fit(self, X, y=None):
            self.kept_, self.fine_ = copied(X, y), Bunch(w=np.zeros((3, 3)), table=frame(np.zeros((3, 2))))
            return self

    adapter = NativeAdapter(Copying())
    published = adapter.publish(adapter.fit(make(ROWS), LABELS, classes=None, seed=None))
    assert not hasattr(published, "kept_") and published.fine_.w.shape == (3, 3)


@pytest.mark.parametrize("made", [lambda view: Bunch(w=view), lambda view: Pair(view, 1), Box])
def test_views_in_any_container_are_published_without_their_base(made):
    class Viewing(Toy):
        published_attributes = ("view_",)

        def fit(self, X, y=None):
            self.view_ = made(np.asarray(X)[:1])
            return self

    adapter, fitted = fit(Viewing())
    raw = pickle.dumps(adapter.publish(fitted).view_)
    assert ROWS[:1].tobytes() in raw and ROWS[2:3].tobytes() not in raw
    view = next(iter(vars(adapter.publish(fitted).view_).values()), None) if made is Box else None
    assert view is None or view.base is None


def test_published_classes_are_the_declared_ones_whatever_a_fit_makes_of_them():
    class Overwriting(ClassesToy):
        def fit(self, X, y=None):
            super().fit(X, y)
            self.classes[:] = 9
            self.classes = np.unique(y)
            return self

    declared = np.array([0, 1, 2])
    adapter, fitted = fit(Overwriting(), classes=declared)
    published = adapter.publish(fitted)
    assert published.classes.tolist() == declared.tolist() == [0, 1, 2] and published.classes is not declared


def test_what_a_fit_declares_does_not_replace_what_the_class_declares():
    class Widening(Toy):
        published_attributes = ("z_",)

        def fit(self, X, y=None):
            super().fit(X, y)
            self.published_attributes, self.rows_ = ("z_", "rows_"), X[:1].copy()
            return self

    adapter, fitted = fit(Widening())
    assert adapter.published_names(fitted) == ("z_",) and not hasattr(adapter.publish(fitted), "rows_")


# ---- estimators that stay trained


class Keeping(Toy):
    def __sklearn_clone__(self):
        return self


class Copied(Toy):
    def __sklearn_clone__(self):
        return copy.deepcopy(self)


class Sharing(Toy):
    """Cloned with what it wraps."""

    def __init__(self, s=1.0, random_state=None):
        super().__init__(s, random_state)
        self._inner = Toy()

    def __sklearn_clone__(self):
        twin = Sharing(self.s)
        twin._inner = self._inner
        return twin


class Ensemble(Toy):
    def __init__(self, members=None, s=1.0, random_state=None):
        self.members = members
        super().__init__(s, random_state)


TRAINED = Toy().fit(ROWS)
KEPT = {
    "frozen": lambda: FrozenEstimator(TRAINED),
    "itself": Keeping,
    "copy": lambda: Copied().fit(ROWS),
    "shared": Sharing,
}
PLACES = {
    "alone": lambda kept: kept,
    "last step": lambda kept: make_pipeline(Normalizer(), kept),
    "first step": lambda kept: make_pipeline(kept, Toy()),
    "base": Ensemble,
    "list": lambda kept: Ensemble([("a", Toy()), ("b", kept)]),
    "dict": lambda kept: Ensemble({"a": [kept]}),
    "array": lambda kept: Ensemble(np.array([kept, None], dtype=object)),
    "deep": lambda kept: make_pipeline(make_pipeline(Normalizer(), Ensemble(Ensemble(kept)))),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kept", KEPT)
def test_what_stays_trained_when_cloned_is_refused_anywhere(kept, place):
    with pytest.raises(CandidateRefusedError, match="stays as it was trained when it is cloned.*pass the unfitted"):
        find_adapter(PLACES[place](KEPT[kept]()))


def test_trained_templates_are_taken_where_cloning_forgets():
    for template in (TRAINED, make_pipeline(TRAINED), Ensemble(TRAINED), Ensemble([("a", TRAINED)])):
        find_adapter(template).check("zero-out")
    with pytest.raises(CandidateRefusedError, match=r"^a \(Toy\) stays as it was trained"):
        find_adapter(Ensemble({"a": TRAINED}))  # a dict is copied as it is
    find_adapter(Ensemble({"a": Toy()})).check("zero-out")
