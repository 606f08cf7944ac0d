"""Skips these tests where the libraries of the nets are missing, and keeps them to one thread."""

import importlib.util

import pytest

MISSING = [name for name in ("torch", "skorch", "opacus") if importlib.util.find_spec(name) is None]
collect_ignore_glob = ["test_*.py", "toys.py"] if MISSING else []


@pytest.fixture(autouse=True)
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
