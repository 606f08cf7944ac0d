"""One wording for every complaint: seeds, numbers beyond doubles."""

import fractions

import numpy as np
import pytest
from sklearn.datasets import load_digits

from skdptune import PrivateRandomSearchCV
from skdptune._cli._centroids import NoisyCentroids
from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune._validation import check_integer, check_real, check_seed, describe

RANGE = r"None, an integer in \[0, 4294967295\] or a numpy RandomState"


@pytest.mark.parametrize("seed", [None, 0, 2**32 - 1, np.uint8(3), np.random.RandomState(0)])
def test_seeds(seed):
    assert check_seed("random_state", seed) is seed


@pytest.mark.parametrize(
    ("seed", "error"),
    [
        (-1, InvalidParameterError),
        (2**32, InvalidParameterError),
        (2**200, InvalidParameterError),
        pytest.param(10**5000, InvalidParameterError, id="huge"),
        (np.int64(-3), InvalidParameterError),
        (True, InvalidTypeError),
        (1.5, InvalidTypeError),
        ("a", InvalidTypeError),
        ([1], InvalidTypeError),
        (np.random, InvalidTypeError),
        (np.random.default_rng(0), InvalidTypeError),
    ],
)
def test_what_is_no_seed(seed, error):
    with pytest.raises(error, match=f"^random_state must be {RANGE}; got "):
        check_seed("random_state", seed)
    search = PrivateRandomSearchCV(
        NoisyCentroids(centre=8.0), {"radius": [8.0, 16.0]}, n_iter=2, classes=list(range(10)), random_state=seed
    )
    X, y = load_digits(return_X_y=True)
    for ask in (lambda: search.privacy_cost(n_samples=100), lambda: search.fit(X[:100], y[:100])):
        with pytest.raises(error, match=f"^random_state must be {RANGE}; got "):
            ask()
    assert not hasattr(search, "privacy_spent_")


@pytest.mark.parametrize("value", [10**400, pytest.param(-(10**5000), id="huge"), fractions.Fraction(10**400, 3)])
def test_numbers_beyond_doubles(value):
    with pytest.raises(InvalidParameterError, match="^delta must be a real number in"):
        check_real("delta", value, low=0, high=1)
    with pytest.raises(InvalidParameterError):
        check_real("delta", value)


def test_integers_that_python_does_not_write():
    with pytest.raises(InvalidParameterError, match=r"got a number of 16610 bits \(int\)"):
        check_integer("steps", 10**5000, high=3)
    assert describe(np.array(4711)) == "a single value (ndarray)"
    assert describe(10**5000) == "a number of 16610 bits (int)"


def test_an_infinite_number_is_told_that_it_must_be_finite():
    with pytest.raises(InvalidParameterError, match="upper must be a finite real number; got inf"):
        check_real("upper", float("inf"))
