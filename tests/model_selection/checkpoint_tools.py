"""What the tests of checkpoints share: a search that Ctrl-C interrupts, and ways to look into its folder."""

import json
import os
import traceback
import warnings

import numpy as np
import pytest

from skdptune import PrivateRandomSearchCV
from skdptune.model_selection import _store, _vault
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy

MARKS = [
    pytest.mark.filterwarnings("ignore::skdptune._exceptions.PublicSeedWarning"),
    pytest.mark.skipif(os.name != "posix", reason="checkpoints need POSIX locks and modes"),
]

X = np.arange(120.0).reshape(40, 3)
Y = np.arange(40) % 2


class Ledger:
    """Counts charges and knows no tokens."""

    def __init__(self):
        self.charges = 0

    def charge(self, spent, delta):
        self.charges += 1

    def __deepcopy__(self, memo):
        return self


class _Countdown(type):
    """Keeps ``left`` in the environment: an attribute of a class would belong to the search, and must not change."""

    @property
    def left(cls):
        text = os.environ.get("FITS_LEFT")
        return None if text is None else int(text)

    @left.setter
    def left(cls, value):
        os.environ.pop("FITS_LEFT", None)
        if value is not None:
            os.environ["FITS_LEFT"] = str(value)


class Interrupts(GaussianToy, metaclass=_Countdown):
    """Presses Ctrl-C in its n-th fit of this process."""

    def fit(self, X, y=None):
        if Interrupts.left is not None:
            Interrupts.left -= 1
            if Interrupts.left < 0:
                Interrupts.left = None
                raise KeyboardInterrupt
        return super().fit(X, y)


def search(folder, **params):
    params = {"n_iter": Fixed(6), "random_state": 11, **params}
    return PrivateRandomSearchCV(Interrupts(), {"s": [1.0, 2.0, 3.0]}, checkpoint=folder, **params)


def interrupt(estimator, after=3, X=X, y=Y):
    Interrupts.left = after
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, y)
    Interrupts.left = None


def outcome(estimator):
    return estimator.best_params_, estimator.best_score_, estimator.best_estimator_.z_


def opened(folder):
    """Return the store of a checkpoint that nobody uses now."""
    vault = _vault.Vault(folder)
    return _store.Store(_store.StoreRef.of(vault, json.loads(vault.read("header"))["token"]), vault)


def marks(folder, count=6):
    store = opened(folder)
    found = dict(store.marks(count))
    store.close()
    return found


def in_child(work):
    """Run ``work`` in a fork; return its exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        try:
            os._exit(work() or 0)
        except BaseException:
            traceback.print_exc()
        os._exit(3)
    return os.waitpid(child, 0)[1]


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])}
