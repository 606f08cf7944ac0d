"""A smaller edition of ``examples/benchmarks/chaos.py``: real candidates, real workers, killed at random instants."""

import json
import pathlib
import subprocess
import sys

import pytest

_SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "benchmarks" / "chaos.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not _SCRIPT.exists(), reason="kills processes it finds in /proc")
def test_killed_and_resumed_searches_end_as_if_nothing_had_happened(tmp_path):
    pytest.importorskip("diffprivlib")
    # The script forks, so it gets an interpreter of its own: a fork of this one would inherit the loky pool of
    # earlier tests without the thread that serves it, and wait for ever.
    code = f"import json, chaos; print(json.dumps(chaos.chaos(3, seed=2, undisturbed=1, folder={str(tmp_path)!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=_SCRIPT.parent, capture_output=True, text=True, timeout=600, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["results"] == 3
    assert found["charges"] == found["charges expected"]
    assert found["tries finished twice"] == 0
    assert found["secrets drawn anew"] == 0
    assert found["all equal"]
    assert found["left over"] == []
    assert sum(found["kills"].values()) >= 1
