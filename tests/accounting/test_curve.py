"""PrivacyCurve: the public face of costs."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as plds

from skdptune._exceptions import (
    InvalidParameterError,
    InvalidTypeError,
    PricingError,
    RelationMismatchError,
)
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.accounting._mechanisms import FromPair
from skdptune.accounting._relations import RELATIONS
from skdptune.run_counts import Geometric

DELTAS = [1e-2, 1e-5, 1e-9, 1e-14, 1e-40, 1e-300]
SGD = (1.0, 256 / 60000, 7031)


def rdp_of_gaussian(orders):
    return np.asarray(orders) / 18


CURVES = {
    "pure": PrivacyCurve.pure(1.0),
    "approximate": PrivacyCurve.approximate(1.0, 1e-6),
    "zcdp": PrivacyCurve.zcdp(0.1),
    "gaussian": PrivacyCurve.gaussian(3.0),
    "laplace": PrivacyCurve.laplace(0.7),
    "dp_sgd": PrivacyCurve.dp_sgd(1.0, 0.01, 300),
    "from_rdp": PrivacyCurve.from_rdp([2, 8, 32], [0.1, 0.4, 1.6]),
    "from_rdp_function": PrivacyCurve.from_rdp_function(rdp_of_gaussian),
    "from_pld": PrivacyCurve.from_pld(plds.from_laplace_mechanism(2.0)),
    "discrete_gaussian": PrivacyCurve.discrete_gaussian(2.0),
    "geometric": PrivacyCurve.geometric(0.3),
    "mixture": PrivacyCurve.mixture(
        [PrivacyCurve.gaussian(3.0), PrivacyCurve.pure(0.5)], [0.3, 0.7]
    ),
    "worst": PrivacyCurve.worst([PrivacyCurve.gaussian(3.0), PrivacyCurve.pure(1.1)]),
    "sum": PrivacyCurve.gaussian(3.0) + PrivacyCurve.pure(0.2),
    "mixed": PrivacyCurve.gaussian(3.0) + PrivacyCurve.zcdp(0.01),
    "two steps": PrivacyCurve.laplace(0.5).to_relation("replace-one"),
}
every_curve = pytest.mark.parametrize("name", CURVES)


@pytest.mark.parametrize("relation", ["zero-out", "add-remove"])
def test_known_figures(relation):
    assert PrivacyCurve.gaussian(3.0, relation=relation).epsilon(1e-5) == pytest.approx(
        1.271, abs=5e-4
    )
    assert PrivacyCurve.dp_sgd(*SGD, relation=relation).epsilon(1e-5) == pytest.approx(
        1.942, abs=5e-4
    )


def test_known_figure_for_swapped_rows():
    curve = PrivacyCurve.dp_sgd(*SGD, relation="replace-one")
    assert curve.epsilon(1e-5) == pytest.approx(3.26, abs=5e-3)
    assert PrivacyCurve.dp_sgd(*SGD).to_relation("replace-one") == curve


@every_curve
def test_contract(name):
    curve = CURVES[name]
    epsilons = [curve.epsilon(delta) for delta in DELTAS]
    assert all(isinstance(value, float) and value >= 0 for value in epsilons)
    assert np.all(np.diff([e for e in epsilons if np.isfinite(e)]) >= -1e-12)
    assert curve.epsilon(1.0) == 0.0
    for delta, epsilon in zip(DELTAS[:4], epsilons[:4], strict=True):
        if np.isfinite(epsilon):
            assert curve.delta(epsilon) <= delta * (1 + 1e-9) + 1e-300
    deltas = curve.delta(np.array([0.0, 0.5, 1.0, 20.0]))
    assert deltas.shape == (4,) and np.all(np.diff(deltas) <= 0) and np.all(deltas <= 1)
    rdp = curve.rdp([2, 8, 32])
    assert isinstance(rdp, np.ndarray) and rdp.shape == (3,)
    assert np.all(np.diff(rdp[np.isfinite(rdp)]) >= -1e-12)
    assert curve.method in ("pair", "rdp")
    assert curve.relation in RELATIONS


@every_curve
def test_values(name):
    curve = CURVES[name]
    copy = pickle.loads(pickle.dumps(curve))
    assert copy == curve and hash(copy) == hash(curve)
    assert copy.epsilon(1e-6) == curve.epsilon(1e-6)
    assert curve != PrivacyCurve.gaussian(0.123)
    assert curve != "a curve" and repr(curve).startswith("<PrivacyCurve ")
    assert curve.relation in repr(curve)
    with pytest.raises(AttributeError):
        curve.relation = "add-remove"


@every_curve
def test_laws_of_composition(name):
    curve = CURVES[name]
    assert curve + curve == 2 * curve == curve * 2
    assert (curve + curve) + curve == 3 * curve
    other = PrivacyCurve.pure(0.1, relation=curve.relation)
    assert curve + other == other + curve
    assert (2 * curve).epsilon(1e-5) >= curve.epsilon(1e-5)
    np.testing.assert_allclose((3 * curve).rdp([2, 8]), 3 * curve.rdp([2, 8]), rtol=1e-12)
    nothing = 0 * curve
    assert nothing.epsilon(0) == 0.0 and nothing.delta(0.0) <= 1e-15
    assert nothing + curve == curve


@every_curve
def test_mixture_and_worst_of_equal_curves(name):
    curve = CURVES[name]
    assert PrivacyCurve.mixture([curve, curve], [0.4, 0.6]) == curve
    assert PrivacyCurve.worst([curve, curve]) == curve


@pytest.mark.parametrize("first", ["gaussian", "laplace", "dp_sgd", "approximate", "zcdp"])
@pytest.mark.parametrize("second", ["pure", "mixed", "geometric"])
def test_worst_is_above_each_and_mixture_below_worst(first, second):
    a, b = CURVES[first], CURVES[second]
    worst = PrivacyCurve.worst([a, b])
    mixture = PrivacyCurve.mixture([a, b], [0.5, 0.5])
    for delta in (1e-3, 1e-5, 1e-8):
        for part in (a, b):
            assert part.epsilon(delta) <= worst.epsilon(delta) * (1 + 1e-9)
        assert mixture.epsilon(delta) <= worst.epsilon(delta) * (1 + 1e-9)
    assert np.all(worst.rdp([2, 8]) >= np.maximum(a.rdp([2, 8]), b.rdp([2, 8])))
    assert a.lies_below(worst) and b.lies_below(worst)


def test_below_the_pair_of_a_search_is_not_below_its_price():
    search = best_of(PrivacyCurve.gaussian(3.0), Geometric(5))
    looser = PrivacyCurve(FromPair(search.pair), "zero-out")
    assert looser.epsilon(1e-5) > search.epsilon(1e-5)
    assert not looser.lies_below(search) and search.lies_below(search)
    assert not looser.lies_below(PrivacyCurve.worst([search, PrivacyCurve.gaussian(9.0)]))


def test_mixed_inputs_fall_back_and_are_never_smaller():
    known = PrivacyCurve.gaussian(3.0) + PrivacyCurve.gaussian(1 / np.sqrt(0.02))
    mixed = CURVES["mixed"]  # the second one's Renyi curve only
    assert mixed.pair is None
    for delta in (1e-3, 1e-5, 1e-9):
        assert mixed.epsilon(delta) >= known.epsilon(delta)
    np.testing.assert_allclose(mixed.rdp([2, 8]), known.rdp([2, 8]), rtol=1e-9)


def test_approximate_parts_keep_their_mass_aside():
    curve = PrivacyCurve.approximate(0.5, 1e-6)
    with_renyi = curve + PrivacyCurve.zcdp(0.05)
    assert with_renyi.pair is None and with_renyi.delta_zero == 1e-6
    assert with_renyi.epsilon(1e-6) == np.inf
    assert with_renyi.epsilon(1e-5) > PrivacyCurve.zcdp(0.05).epsilon(1e-5)
    assert with_renyi.delta(50.0) >= 1e-6
    with_pair = curve + PrivacyCurve.gaussian(3.0)
    assert with_pair.epsilon(1e-6) == np.inf
    assert with_pair.epsilon(1e-5) < np.inf
    assert curve.epsilon(1e-6) == pytest.approx(0.5) and curve.epsilon(0.0) == np.inf
    assert PrivacyCurve.approximate(0.5, 0.0) == PrivacyCurve.pure(0.5)
    assert PrivacyCurve.approximate(0.5, 1.0).epsilon(0.5) == np.inf


def test_pure_promises_add_up_exactly():
    assert (PrivacyCurve.pure(1.0) + PrivacyCurve.pure(0.3)).epsilon(0) == pytest.approx(1.3)
    total = 100 * PrivacyCurve.pure(0.3) + 100 * PrivacyCurve.pure(0.0712345)
    assert total.epsilon(0) == pytest.approx(37.12345)
    assert total.epsilon(1e-5) < 20
    assert PrivacyCurve.pure(0.0).epsilon(0) == 0.0


def test_gaussian_limits():
    curve = PrivacyCurve.gaussian(3.0)
    assert curve.epsilon(0) == np.inf
    assert curve.epsilon(1e-300) < np.inf
    assert PrivacyCurve.gaussian(1e6).epsilon(1e-5) < 1e-4
    assert PrivacyCurve.gaussian(0.01).epsilon(1e-5) > 5000
    assert curve.rdp([1])[0] >= 1 / 18  # order 1 is answered from above
    assert np.isinf(curve.rdp([np.inf])[0])
    assert PrivacyCurve.pure(1.0).rdp([np.inf])[0] == 1.0


def test_dp_sgd_limits():
    assert PrivacyCurve.dp_sgd(1.0, 0.5, 0).epsilon(0) == 0.0
    assert PrivacyCurve.dp_sgd(1.0, 0.0, 10).epsilon(0) == 0.0
    full = PrivacyCurve.dp_sgd(6.0, 1.0, 4)
    assert full.epsilon(1e-5) == pytest.approx(PrivacyCurve.gaussian(3.0).epsilon(1e-5))
    assert 5 * PrivacyCurve.dp_sgd(1.0, 0.1, 3) == PrivacyCurve.dp_sgd(1.0, 0.1, 15)
    near = PrivacyCurve.dp_sgd(3.0, 0.999999, 1).epsilon(1e-5)
    assert near == pytest.approx(PrivacyCurve.gaussian(3.0).epsilon(1e-5), rel=1e-4)


def test_swapping_rows_costs_more():
    for build in (
        lambda r: PrivacyCurve.gaussian(2.0, relation=r),
        lambda r: PrivacyCurve.laplace(0.5, relation=r),
        lambda r: PrivacyCurve.dp_sgd(1.0, 0.05, 20, relation=r),
    ):
        blank, swap = build("zero-out"), build("replace-one")
        assert blank.epsilon(1e-5) < swap.epsilon(1e-5)
        converted = blank.to_relation("replace-one")
        assert converted.relation == "replace-one"
        assert converted.epsilon(1e-5) >= swap.epsilon(1e-5) * (1 - 1e-9)
        assert np.all(swap.rdp([2, 8]) >= blank.rdp([2, 8]))


def test_relations_never_mix():
    a, b = PrivacyCurve.pure(1.0), PrivacyCurve.pure(1.0, relation="replace-one")
    assert a != b
    for mix in (
        lambda: a + b,
        lambda: PrivacyCurve.worst([a, b]),
        lambda: PrivacyCurve.mixture([a, b], [0.5, 0.5]),
        lambda: a.lies_below(b),
        lambda: b.to_relation("zero-out"),
        lambda: a.to_relation("add-remove"),
        lambda: PrivacyCurve.pure(1.0, relation="add-remove").to_relation("zero-out"),
    ):
        with pytest.raises(RelationMismatchError):
            mix()
    assert a.to_relation("zero-out") is a
    assert a.to_relation("replace-one") == PrivacyCurve.pure(2.0, relation="replace-one")
    assert PrivacyCurve.zcdp(0.1).to_relation("replace-one").rdp([2])[0] == pytest.approx(0.8)


def test_renyi_answers_agree_with_pairs_from_above():
    for name in ("gaussian", "laplace", "dp_sgd", "discrete_gaussian", "mixture", "sum"):
        curve = CURVES[name]
        for delta in (1e-3, 1e-6, 1e-10):
            assert curve._epsilon_from_rdp(delta) >= curve.epsilon(delta) * (1 - 1e-6)


def test_lies_below():
    level = PrivacyCurve.gaussian(3.0)
    below = [PrivacyCurve.gaussian(3.0 * factor).lies_below(level) for factor in (0.99, 1, 1.01, 5)]
    assert below == [False, True, True, True]
    sgd = PrivacyCurve.dp_sgd(1.0, 0.01, 300)
    assert PrivacyCurve.dp_sgd(1.01, 0.01, 300).lies_below(sgd)
    assert PrivacyCurve.dp_sgd(1.0, 0.01, 299).lies_below(sgd)
    assert not PrivacyCurve.dp_sgd(0.99, 0.01, 300).lies_below(sgd)
    assert not PrivacyCurve.dp_sgd(1.0, 0.01, 301).lies_below(sgd)
    # a Gaussian never lies under a pure curve; a pure one lies under a larger pure one
    assert not PrivacyCurve.gaussian(100.0).lies_below(PrivacyCurve.pure(1.0))
    assert PrivacyCurve.geometric(0.5).lies_below(PrivacyCurve.pure(0.5))
    assert PrivacyCurve.laplace(0.5).lies_below(PrivacyCurve.pure(0.5))
    assert not PrivacyCurve.pure(0.5).lies_below(PrivacyCurve.laplace(0.5))
    assert not PrivacyCurve.approximate(0.5, 1e-9).lies_below(PrivacyCurve.pure(0.6))
    # a level known by its Renyi curve only, and a curve known so below a pair
    assert PrivacyCurve.gaussian(3.0).lies_below(PrivacyCurve.zcdp(1 / 18 * 1.001))
    assert not PrivacyCurve.zcdp(0.1).lies_below(PrivacyCurve.gaussian(3.0))
    assert PrivacyCurve.zcdp(1e-4).lies_below(PrivacyCurve.approximate(1.0, 1e-3)) is False


def test_one_point_is_not_a_level():
    """Two settings with one epsilon at 1e-5 are not below each other (pitfalls, row 6)."""
    few = PrivacyCurve.dp_sgd(0.8, 0.001, 400)
    target = few.epsilon(1e-5)
    low, high = 0.5, 50.0
    for _ in range(40):
        middle = (low + high) / 2
        if PrivacyCurve.gaussian(middle).epsilon(1e-5) > target:
            low = middle
        else:
            high = middle
    even = PrivacyCurve.gaussian(high)
    assert even.epsilon(1e-5) == pytest.approx(target, rel=1e-3)
    assert not (few.lies_below(even) and even.lies_below(few))


def test_function_curves():
    curve = PrivacyCurve.from_rdp_function(rdp_of_gaussian)
    assert curve.epsilon(1e-5) == pytest.approx(PrivacyCurve.zcdp(1 / 18).epsilon(1e-5))
    assert curve == PrivacyCurve.from_rdp_function(rdp_of_gaussian)
    for function, error in (
        (lambda orders: -np.ones(len(orders)) * 1e-15, PricingError),
        (lambda orders: np.full(len(orders), np.nan), PricingError),
        (lambda orders: 0.5, PricingError),
        (lambda orders: "none", Exception),
        ("rdp", InvalidTypeError),
    ):
        with pytest.raises(error):
            PrivacyCurve.from_rdp_function(function)
    unknown = PrivacyCurve.from_rdp_function(lambda orders: np.full(len(orders), np.inf))
    assert unknown.epsilon(1e-5) == np.inf and unknown.delta(10.0) == 1.0
    assert unknown.delta(np.inf) == 1.0

    class Drifting:
        scale = 1.0

        def rdp(self, orders):
            return np.asarray(orders) * self.scale

    owner = Drifting()
    before = PrivacyCurve.from_rdp_function(owner.rdp)
    owner.scale = 2.0
    assert PrivacyCurve.from_rdp_function(owner.rdp) != before


@pytest.mark.parametrize(
    ("orders", "rdp"),
    [
        ([], []),
        ([np.nan], [0.1]),
        ([0.5], [0.1]),
        ([1], [0.1]),
        ([2], [-1e-15]),
        ([2], [np.nan]),
        ([2, 3], [0.1]),
        (["a"], [0.1]),
        ([2], ["a"]),
    ],
)
def test_bad_renyi_tables(orders, rdp):
    with pytest.raises((InvalidParameterError, InvalidTypeError, PricingError)):
        PrivacyCurve.from_rdp(orders, rdp)


def test_odd_renyi_tables_are_never_free():
    with_one = PrivacyCurve.from_rdp([1, 2], [0.0, 0.4])
    assert with_one == PrivacyCurve.from_rdp([2], [0.4])
    assert 0 < with_one.epsilon(1e-5) < np.inf
    with_inf = PrivacyCurve.from_rdp([2, np.inf], [0.4, 1.0])
    assert with_inf.epsilon(0) == 1.0
    without = PrivacyCurve.from_rdp([2, np.inf], [0.4, np.inf])
    assert without.epsilon(0) == np.inf and without.epsilon(1e-5) > 0
    assert PrivacyCurve.from_rdp([8, 2], [0.4, 0.1]) == PrivacyCurve.from_rdp([2, 8], [0.1, 0.4])


@pytest.mark.parametrize(
    "call",
    [
        lambda: PrivacyCurve.gaussian(0),
        lambda: PrivacyCurve.gaussian(-1.0),
        lambda: PrivacyCurve.gaussian(np.nan),
        lambda: PrivacyCurve.gaussian(np.inf),
        lambda: PrivacyCurve.gaussian("1"),
        lambda: PrivacyCurve.gaussian(True),
        lambda: PrivacyCurve.pure(-0.1),
        lambda: PrivacyCurve.pure(np.inf),
        lambda: PrivacyCurve.approximate(1.0, 1.1),
        lambda: PrivacyCurve.zcdp(-1),
        lambda: PrivacyCurve.laplace(-1),
        lambda: PrivacyCurve.dp_sgd(1.0, 1.1, 10),
        lambda: PrivacyCurve.dp_sgd(1.0, 0.1, 1.5),
        lambda: PrivacyCurve.dp_sgd(0.0, 0.1, 10),
        lambda: PrivacyCurve.discrete_gaussian(0),
        lambda: PrivacyCurve.geometric(-1),
        lambda: PrivacyCurve.pure(1.0, relation="swap"),
        lambda: PrivacyCurve.mixture([], []),
        lambda: PrivacyCurve.mixture([PrivacyCurve.pure(1.0)], [0.5]),
        lambda: PrivacyCurve.mixture([PrivacyCurve.pure(1.0)], [1.5, -0.5]),
        lambda: PrivacyCurve.mixture([PrivacyCurve.pure(1.0)], ["x"]),
        lambda: PrivacyCurve.mixture(3, [1.0]),
        lambda: PrivacyCurve.worst([]),
        lambda: PrivacyCurve.worst([1.0]),
        lambda: PrivacyCurve("node"),
        lambda: PrivacyCurve.pure(1.0).epsilon(-1e-9),
        lambda: PrivacyCurve.pure(1.0).epsilon(1.5),
        lambda: PrivacyCurve.pure(1.0).epsilon(np.nan),
        lambda: PrivacyCurve.pure(1.0).delta(-1.0),
        lambda: PrivacyCurve.pure(1.0).rdp([0.5]),
        lambda: PrivacyCurve.pure(1.0).rdp([]),
        lambda: PrivacyCurve.pure(1.0) * 1.5,
        lambda: -1 * PrivacyCurve.pure(1.0),
    ],
)
def test_wrong_arguments(call):
    with pytest.raises((InvalidParameterError, InvalidTypeError), match="must be"):
        call()


def test_adding_something_else():
    with pytest.raises(TypeError):
        PrivacyCurve.pure(1.0) + 1.0


def test_import_stays_light():
    code = (
        "import sys, skdptune.accounting; heavy = {'torch', 'opacus', 'skorch', 'diffprivlib', "
        "'matplotlib', 'dask', 'opendp'} & set(sys.modules); print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_zcdp_curve_of_zero_costs_nothing():
    curve = PrivacyCurve.zcdp(0.0)
    assert curve.epsilon(1e-5) == 0.0
    assert best_of(curve, Geometric(5)).epsilon(1e-5) == 0.0
