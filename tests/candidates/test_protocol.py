"""How an estimator finds its adapter, and what an adapter promises by default."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, PricingError
from skdptune.candidates import CandidateAdapter, LevelFamily, find_adapter, largest_below, register
from skdptune.candidates._native import NativeAdapter
from skdptune.candidates._pipeline import PipelineAdapter
from skdptune.candidates._protocol import has_adapter, unregister
from tests.candidates.toys import FixedToy, Toy


class Number(float):
    def lies_below(self, other):
        return self <= other


class OwnAdapter(CandidateAdapter):
    pass


class Hooked(Toy):
    def __skdptune_adapter__(self):
        return OwnAdapter(self)


def test_the_order_of_lookup():
    assert type(find_adapter(Hooked())) is OwnAdapter  # before rdp_curve
    assert type(find_adapter(make_pipeline(Toy()))) is PipelineAdapter
    assert type(find_adapter(Toy())) is NativeAdapter


def test_a_subclass_of_pipeline_is_not_a_pipeline():
    class Caching(Pipeline):
        pass

    with pytest.raises(CandidateRefusedError, match="Caching has no privacy cost"):
        find_adapter(Caching([("toy", Toy())]))


@pytest.mark.parametrize("as_text", [False, True])
def test_registered_libraries_are_found_by_the_exact_class(as_text):
    cls = type("Model", (Toy,), {"__module__": "somelib.models"})
    register("somelib", f"{__name__}:OwnAdapter" if as_text else OwnAdapter)
    try:
        assert type(find_adapter(cls())) is OwnAdapter
        assert has_adapter(cls())
        mine = type("Mine", (cls,), {"__module__": "elsewhere"})
        assert type(find_adapter(mine())) is NativeAdapter
        other = type("Model", (Toy,), {"__module__": "somelibrary"})
        assert type(find_adapter(other())) is NativeAdapter
    finally:
        unregister("somelib")


def test_refusals_name_the_private_alternative():
    with pytest.raises(CandidateRefusedError) as caught:
        find_adapter(LogisticRegression())
    assert str(caught.value) == (
        "LogisticRegression has no privacy cost: it defines neither rdp_curve(orders) nor privacy_curve, "
        "so no price can be stated; use diffprivlib.models.LogisticRegression instead."
    )
    with pytest.raises(CandidateRefusedError, match="diffprivlib.models.StandardScaler"):
        find_adapter(StandardScaler())
    with pytest.raises(CandidateRefusedError, match=r"must be an instance; got the class Toy: write Toy"):
        find_adapter(Toy)


def test_defaults_are_the_safe_ones():
    adapter = CandidateAdapter(FixedToy())
    assert adapter.privacy_params() is None and adapter.may_change_cost("verbose")
    assert adapter.level_family(10, "zero-out") is None
    assert adapter.assumptions("zero-out") == ()
    assert not adapter.free and adapter.n_features_out(3) is None
    with pytest.raises(PricingError, match="FixedToy cannot be calibrated to a target"):
        adapter.with_budget(None, 10, "zero-out")
    with pytest.raises(InvalidParameterError, match="relation must be one of"):
        adapter.check("swap")


def test_parameters_below_one_that_matters_matter():
    class Meta(CandidateAdapter):
        def privacy_params(self):
            return frozenset({"base", "other__s"})

    adapter = Meta(Toy())
    for name in ("base", "base__s", "base__deep__s", "other__s", "other__s__x"):
        assert adapter.may_change_cost(name)
    for name in ("other", "other__t", "bas", "s"):
        assert not adapter.may_change_cost(name)


@pytest.mark.parametrize("increasing", [True, False])
def test_largest_below_is_verified_and_tight(increasing):
    curve = Number if increasing else lambda x: Number(1 / x)
    family = LevelFamily(curve, 1e-3, 1e3, increasing)
    for level in (0.002, 0.7, 950.0):
        x = largest_below(family, Number(level))
        assert curve(x) <= level and curve(x) > level * (1 - 1.1e-4)
    assert largest_below(family, Number(1e9)) == family.dearest
    assert largest_below(family, Number(1e-9)) is None


def test_importing_candidates_loads_no_heavy_library():
    import subprocess

    code = (
        "import sys, skdptune.candidates\n"
        "bad = {'torch', 'opacus', 'skorch', 'diffprivlib', 'matplotlib', 'dask'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_toy_is_the_candidate_of_the_cases():
    toy = Toy(s=2.0, random_state=0).fit(np.zeros((3, 2)))
    assert toy.predict(np.zeros((4, 2))).tolist() == [int(toy.z_ > 0)] * 4
    assert toy.rdp_curve([2, 8]).tolist() == [0.25, 1.0]
