"""Every engine for real: workers in other processes, results the same, nothing but the winner comes out.

Each engine runs in a process of its own (``engine_script.py``), because what its workers print can only be seen
from outside, and because ray changes joblib for the rest of the process that uses it.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.model_selection.engine_script import SAID, WORKERS

ROOT = Path(__file__).parents[2]
NEEDS = {"dask": "distributed", "ray": "ray", "spark": "joblibspark"}


def engines():
    for engine in WORKERS:
        marks = [pytest.mark.xdist_group(engine)]  # they share what one process has found
        if engine in NEEDS:
            marks.append(pytest.mark.slow)
        if engine in NEEDS and importlib.util.find_spec(NEEDS[engine]) is None:
            marks.append(pytest.mark.skip(reason=f"{NEEDS[engine]} is not installed"))
        yield pytest.param(engine, marks=marks)


_FOUND = {}


def observed(engine, factory):
    """Return what the searches of one engine have left; they are run once."""
    if engine not in _FOUND:
        folder = factory.mktemp(engine)
        command = [sys.executable, "-m", "tests.model_selection.engine_script", engine, str(folder)]
        env = {**os.environ, "PYTHONWARNINGS": "default", "RAY_AUTH_MODE": "disabled"}
        done = subprocess.run(command, check=False, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads((folder / "found.json").read_text())
        _FOUND[engine] = {**found, "engine": engine, "printed": done.stdout + done.stderr}
    return _FOUND[engine]


@pytest.fixture(params=engines())
def seen(request, tmp_path_factory):
    return observed(request.param, tmp_path_factory)


@pytest.fixture
def reference(tmp_path_factory):
    """What a search gives without any engine."""
    return observed("sequential", tmp_path_factory)


def test_a_seed_gives_the_same_result_on_every_engine(seen, reference):
    assert seen["seeded"] == reference["seeded"]
    assert sorted(seen["noise"]) == sorted(reference["noise"])


def test_without_a_seed_every_try_has_its_own_noise(seen):
    assert len(set(seen["fresh noise"])) == 60 and not set(seen["fresh noise"]) & set(seen["noise"])
    assert seen["unseeded"] != seen["seeded"]


def test_the_work_is_done_elsewhere_and_by_several(seen):
    others = set(seen["workers"])
    # a short search may leave a worker without a try, so not all of them need to turn up
    assert len(others) >= (1 if seen["engine"] in ("sequential", "threading") else 2)


def test_plan_and_rows_reach_each_worker_once(seen):
    if seen["engine"] in ("sequential", "threading"):
        assert not seen["loads"]
        return
    loads = Counter(seen["loads"])
    assert set(seen["workers"]) <= set(loads) or seen["engine"] == "spark"
    assert max(loads.values()) == 1, loads
    assert not any(seen.get("transfers", ()))  # dask: no worker had to ask another one


def test_no_try_writes_into_the_rows_of_another(seen):
    assert seen["read-only"] == 60


def test_only_the_winner_is_published(seen, reference):
    assert seen["attributes"] == reference["attributes"] and seen["pickle"] == reference["pickle"]


def test_workers_and_parent_are_silent(seen):
    assert SAID not in seen["printed"]
    assert seen["warnings"][0] == seen["warnings"][1]


def test_a_worker_killed_in_the_middle_changes_nothing(seen):
    if seen["engine"] in ("sequential", "threading"):
        pytest.skip("no worker to kill")
    assert seen["killed"] and seen["after a death"] == seen["seeded"]


def test_a_checkpoint_survives_a_killed_worker_and_an_interrupt(seen):
    if seen["engine"] in ("sequential", "threading"):
        pytest.skip("no worker to kill")
    assert seen["kept"] and seen["removed"] and seen["charges"] == 1
    assert seen["resumed"] == seen["seeded"]
    assert seen["run again"] <= 30  # those that had not been counted yet; engines with blocks finish theirs


def test_the_scheduler_stays_small(seen):
    if "scheduler" not in seen:
        pytest.skip("no scheduler to look at")
    assert seen["scheduler"] > 0 and seen["scheduler growth"] < 10 * 2**20  # for 1,000 tries
    if seen["engine"] == "dask":
        assert seen["scheduler tasks"] <= 2 * WORKERS["dask"]
    else:
        assert seen["puts"] == 1  # plan and rows; nothing for a single try
