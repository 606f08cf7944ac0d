"""Files, copies and errors of a search hold neither its seed nor its tries."""

import copy
import pickle
import traceback

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdptune import PrivateRandomSearchCV
from skdptune.exceptions import AllRunsFailedError
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy
from tests.model_selection.checkpoint_tools import X, Y

pytestmark = pytest.mark.filterwarnings("ignore::skdptune.exceptions.PublicSeedWarning")


def fitted(random_state, **options):
    return PrivateRandomSearchCV(GaussianToy(), {"s": [1.0, 2.0]}, random_state=random_state, **options).fit(X, Y)


@pytest.mark.parametrize("seed", [99, np.random.RandomState(99)])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda search: pickle.loads(pickle.dumps(search))])
def test_copies_of_a_fitted_search_hold_no_seed(seed, again):
    search = fitted(seed)
    assert search.random_state is seed
    twin = again(search)
    assert twin.random_state is None
    assert twin.best_score_ == search.best_score_ and twin.best_params_ == search.best_params_
    inside = again(make_pipeline(search)).steps[0][1]
    assert inside.random_state is None


def test_a_file_of_a_search_whose_tries_have_all_failed_holds_no_seed():
    class Fails(GaussianToy):
        def fit(self, X, y=None):
            raise ValueError

    search = PrivateRandomSearchCV(Fails(), {"s": [1.0]}, random_state=5)
    with pytest.raises(AllRunsFailedError):
        search.fit(X, Y)
    assert copy.deepcopy(search).random_state is None


def test_a_search_that_is_not_fitted_takes_its_seed_along():
    search = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, random_state=7)
    twin = pickle.loads(pickle.dumps(search))
    assert twin.random_state == 7 and clone(fitted(7)).random_state == 7
    assert twin.fit(X, Y).best_score_ == search.fit(X, Y).best_score_


@pytest.mark.parametrize("seed", [None, 5])
def test_no_secret_hangs_on_the_error_that_is_a_result(seed):
    class Fails(GaussianToy):
        def fit(self, X, y=None):
            raise ValueError("a try has failed")

    search = PrivateRandomSearchCV(Fails(), {"s": [1.0]}, n_iter=Fixed(3), random_state=seed)
    with pytest.raises(AllRunsFailedError) as caught:
        search.fit(X, Y)
    error = caught.value
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert len(frames) == 2  # this test and fit
    assert not set(frames[-1]) & {"master", "seeds", "splits", "best", "plan"}
    assert error.__cause__ is None and error.__context__ is None
