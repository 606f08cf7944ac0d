"""A smaller edition of ``examples/benchmarks/chaos.py``: real candidates, real workers, killed at random instants."""

import importlib.util
import pathlib
import sys

import pytest

_SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "benchmarks" / "chaos.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not _SCRIPT.exists(), reason="kills processes it finds in /proc")
def test_killed_and_resumed_searches_end_as_if_nothing_had_happened(tmp_path):
    pytest.importorskip("diffprivlib")
    spec = importlib.util.spec_from_file_location("chaos", _SCRIPT)
    chaos = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chaos)
    found = chaos.chaos(3, seed=2, undisturbed=1, folder=str(tmp_path))
    assert found["results"] == 3
    assert found["charges"] == found["charges expected"]
    assert found["tries finished twice"] == 0
    assert found["secrets drawn anew"] == 0
    assert found["all equal"]
    assert found["left over"] == []
    assert sum(found["kills"].values()) >= 1
