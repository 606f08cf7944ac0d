"""The space: independent draws with replacement, and what is priced."""

import collections

import numpy as np
import pytest
import scipy.stats
from sklearn.pipeline import make_pipeline

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, InvalidTypeError
from skdptune.model_selection._space import ParamSpace, with_settings
from tests.candidates.toys import Toy


@pytest.mark.statistical
def test_lists_are_drawn_with_replacement_and_independently():
    space = ParamSpace({"s": [1, 2]})
    rng = np.random.RandomState(0)
    draws = [space.draw(rng)["s"] for _ in range(4000)]
    pairs = collections.Counter(zip(draws[::2], draws[1::2], strict=True))
    assert scipy.stats.chisquare(list(pairs.values())).pvalue > 1e-4 and len(pairs) == 4


def test_a_list_of_spaces_is_drawn_space_first():
    space = ParamSpace([{"s": [1.0]}, {"s": [2.0, 3.0, 4.0]}])
    rng = np.random.RandomState(0)
    share = np.mean([space.draw(rng)["s"] == 1.0 for _ in range(2000)])
    assert abs(share - 0.5) < 0.05
    weights = dict((setting["s"], weight) for setting, weight in space.priced_choices(lambda name: True))
    assert weights == pytest.approx({1.0: 1 / 2, 2.0: 1 / 6, 3.0: 1 / 6, 4.0: 1 / 6})


def test_only_parameters_that_change_the_cost_are_enumerated():
    space = ParamSpace({"s": [1, 2, 2], "free": scipy.stats.uniform(0, 1)})
    choices = space.priced_choices(lambda name: name == "s")
    assert [setting for setting, _ in choices] == [{"s": 1}, {"s": 2}, {"s": 2}]
    assert sum(weight for _, weight in choices) == pytest.approx(1)


def test_discrete_distributions_are_enumerated_with_their_masses():
    space = ParamSpace({"s": scipy.stats.randint(1, 4)})
    choices = {setting["s"]: weight for setting, weight in space.priced_choices(lambda name: True)}
    assert choices == pytest.approx({1: 1 / 3, 2: 1 / 3, 3: 1 / 3})
    assert {space.draw(np.random.RandomState(i))["s"] for i in range(30)} == {1, 2, 3}


@pytest.mark.parametrize(
    "distribution", [scipy.stats.uniform(0, 1), scipy.stats.loguniform(1, 2), scipy.stats.poisson(3)]
)
def test_distributions_over_the_cost_are_refused(distribution):
    with pytest.raises(CandidateRefusedError, match="no finite price is known to hold for every value"):
        ParamSpace({"s": distribution}).priced_choices(lambda name: True)


def test_too_many_priced_choices_are_refused_with_the_way_out():
    space = ParamSpace({name: list(range(20)) for name in "abc"})
    with pytest.raises(CandidateRefusedError, match="Declare privacy_params"):
        space.priced_choices(lambda name: True)


@pytest.mark.parametrize(
    ("space", "error"),
    [
        ("s", InvalidTypeError),
        ([], InvalidTypeError),
        ([3], InvalidTypeError),
        ({"s": 3}, InvalidTypeError),
        ({"s": "abc"}, InvalidTypeError),
        ({"s": {1, 2}}, InvalidTypeError),
        ({"s": []}, InvalidParameterError),
        ({"s": np.zeros((2, 2))}, InvalidParameterError),
        ({3: [1]}, InvalidTypeError),
    ],
)
def test_bad_spaces(space, error):
    with pytest.raises(error, match="param_distributions"):
        ParamSpace(space)


def test_unknown_names_are_refused_before_anything_is_drawn():
    with pytest.raises(InvalidParameterError, match="'depth'.*get_params"):
        ParamSpace({"depth": [1]}).check_names(Toy())


def test_settings_leave_the_template_and_the_values_alone():
    template, value = make_pipeline(Toy(s=1.0)), Toy(s=3.0)
    assert with_settings(template, {"toy__s": 2.0}).steps[0][1].s == 2.0
    replaced = with_settings(template, {"toy": value}).steps[0][1]
    assert replaced.s == 3.0 and replaced is not value
    assert template.steps[0][1].s == 1.0


def test_seeds_of_the_template_do_not_reach_the_candidates():
    assert with_settings(Toy(random_state=3), {"s": 2.0}).random_state is None
    assert with_settings(make_pipeline(Toy(random_state=3)), {"toy__s": 2.0})[0].random_state is None


def test_small_spaces_are_checked_in_full():
    space = ParamSpace({"a": [1, 2, 3], "b": [4, 5]})
    assert len(list(space.check_settings())) == 6


@pytest.mark.parametrize("listed", [True, False])
def test_a_discrete_distribution_off_the_integers_is_refused(listed):
    listing = scipy.stats.rv_discrete(values=([1.5, 3.0], [0.5, 0.5]))
    frozen = listing() if listed else scipy.stats.randint(2, 4, loc=0.5)
    with pytest.raises(InvalidParameterError, match="must have integer values.*Pass a list of values"):
        ParamSpace({"s": frozen})
