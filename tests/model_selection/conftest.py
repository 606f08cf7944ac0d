"""Fixtures of the tests of checkpoints."""

import pytest

from tests.model_selection.checkpoint_tools import Interrupts, interrupt, search


@pytest.fixture(autouse=True)
def _calm():
    yield
    Interrupts.left = None


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "checkpoint")


@pytest.fixture
def begun(folder):
    """Leave the checkpoint of a search that was interrupted in its fourth try."""
    interrupt(search(folder))
    return folder
