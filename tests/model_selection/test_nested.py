"""A search inside another, or inside a tool that fits it several times: who keeps the folder, and who pays."""

import os

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CandidateRefusedError, CheckpointError
from skdptune.candidates import find_adapter
from skdptune.run_counts import Fixed
from tests.model_selection.checkpoint_tools import MARKS, Interrupts, Ledger, X, Y, search

pytestmark = MARKS


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "checkpoint")


@pytest.mark.parametrize("params", [{"run_timeout": 3.0}, {"checkpoint": "x"}, {"ledger": Ledger()}, {"verbose": 1}])
def test_an_inner_search_takes_nothing_that_belongs_to_the_outer_one(params, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, ledger = next(iter(params)), Ledger()
    inner = search(None, random_state=None)
    find_adapter(inner).check("zero-out")
    given = inner.get_params(deep=False) | params
    for candidate, space in (
        (PrivateRandomSearchCV(**given), {"n_iter": [Fixed(2)]}),
        (inner, {name: [params[name]]}),
    ):
        outer = PrivateRandomSearchCV(candidate, space, n_iter=Fixed(1), ledger=ledger)
        with pytest.raises(CandidateRefusedError, match=f"must have {name}=(None|0)"):
            outer.fit(X, Y)
    assert not ledger.charges and not list(tmp_path.iterdir())


def test_in_cross_validation_each_fold_is_a_search_with_a_folder_of_its_own_time(folder):
    ledger = Ledger()
    scores = cross_val_score(search(folder, ledger=ledger, random_state=None), X, Y, cv=3, error_score="raise")
    assert np.isfinite(scores).all() and ledger.charges == 3 and not os.path.exists(folder)
    Interrupts.left = 8  # in the second fold
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(search(folder, ledger=ledger), X, Y, cv=3, error_score="raise")
    Interrupts.left = None
    with pytest.raises(CheckpointError, match="was written for"):  # the first fold is not what was interrupted
        cross_val_score(search(folder, ledger=ledger), X, Y, cv=3, error_score="raise")
    assert ledger.charges == 5
