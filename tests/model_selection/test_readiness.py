"""What a search finds in its process, and what it leaves there."""

import os
import subprocess
import sys

import pytest

from skdptune.model_selection import _cells, _padding
from skdptune.model_selection._cells import check_run_timeout

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks")


def run(code, *arguments, timeout=150):
    env = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, check=True)


HEAD = """
import os, random, sys, time
import joblib
import numpy as np
from skdptune import PrivateRandomSearchCV
from skdptune.model_selection import _readiness
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy

X, Y = np.zeros((40, 3)), np.arange(40) % 2

def search(count=6, candidate=GaussianToy, **params):
    return PrivateRandomSearchCV(candidate(), {"s": [1.0, 2.0]}, n_iter=Fixed(count), **params).fit(X, Y)
"""

FORK = """
first = search(n_jobs=2, random_state=3).best_estimator_.z_
pid = os.fork()
if pid == 0:
    try:
        again = search(n_jobs=2, random_state=3).best_estimator_.z_
        print("child", again == first, joblib.Parallel(2)(joblib.delayed(abs)(i) for i in range(3)), flush=True)
    finally:
        os._exit(0)
deadline = time.monotonic() + 60
while not os.waitpid(pid, os.WNOHANG)[0]:
    if time.monotonic() > deadline:
        os.kill(pid, 9)
        print("hangs")
    time.sleep(0.05)
print("parent", search(n_jobs=2, random_state=3).best_estimator_.z_ == first)
"""


def test_a_fork_of_a_process_that_has_used_loky_gets_workers_of_its_own():
    assert run(HEAD + FORK).stdout.splitlines() == ["child True [0, 1, 2]", "parent True"]


AFTERWARDS = """
class Talks(GaussianToy):
    def __init__(self, s=1.0, random_state=None):
        self.say()
        super().__init__(s=s, random_state=random_state)
    def say(self):
        print("a run speaks")
        os.write(1, b"a run speaks")
    def rdp_curve(self, orders):
        self.say()
        return super().rdp_curve(orders)
    def fit(self, X, y=None):
        np.seterr(all="raise")
        np.random.normal(), random.random()
        return super().fit(X, y)
    def __getstate__(self):
        self.say()
        return super().__getstate__()

def seed():
    import skdptune.model_selection._worker, tests.candidates.toys  # to import rich draws from random, once a process
    np.random.seed(5), random.seed(5), time.sleep(0.5)
    return os.getpid()

def draw(i):
    os.write(1, f"task {i}\\n".encode())
    found = np.random.normal(), random.random(), str(np.geterr())
    np.random.seed(5), random.seed(5)
    return found, os.getpid()

def mark(text):
    sys.stdout.flush()
    os.write(1, f"{text}\\n".encode())

_readiness._PATIENCE = 30.0  # on a machine that is busy with other tests
with joblib.parallel_config("loky", n_jobs=2):
    if sys.argv[1] == "used":
        while len(pids := set(joblib.Parallel()(joblib.delayed(seed)() for i in range(2)))) < 2:
            pass  # until both workers are there and each has had one
        print("seeded", sorted(pids))
    search(1, Talks)
    for tries in (1, 40):
        mark("begin")
        search(tries, Talks)
        mark("end")
    found = joblib.Parallel()(joblib.delayed(draw)(i) for i in range(4))
print(*found, len({each for each, _ in found}), sep="\\n")
"""


@pytest.mark.parametrize("pool", ["used", "new"])
def test_workers_are_given_back_as_they_were_and_say_nothing_meanwhile(pool):
    printed = run(HEAD + AFTERWARDS, pool).stdout
    few, many = (part.partition("end")[0].count("a run speaks") for part in printed.split("begin")[1:])
    assert few == many  # of one try and of forty
    after = printed.rpartition("end")[2].splitlines()
    assert sorted(line for line in after if line.startswith("task")) == [f"task {i}" for i in range(4)]
    if pool == "used":
        assert after[-1] == "1", printed  # every worker draws as it was seeded before the searches


@pytest.mark.parametrize("value", [True, "3", float("nan"), float("inf"), 0, -1.0, 1e300, 10**400, 3e9])
def test_a_time_out_beyond_use_is_refused_before_anything_is_spent(value):
    with pytest.raises((ValueError, TypeError), match="run_timeout must be"):
        check_run_timeout(value)


def test_long_times_are_waited_for_in_parts(monkeypatch):
    assert check_run_timeout(1e9) == 1e9
    assert _cells._wait_until(None) == _cells._wait_until(1e300) == _cells._LOOK
    assert _cells._LOOK * 1000 < 2**31
    slept = []
    clock = iter([0.0, 0.0, 1e10, 1e11, 1e11])
    monkeypatch.setattr(_padding.time, "sleep", slept.append)
    monkeypatch.setattr(_padding.time, "monotonic", lambda: next(clock))
    with _padding.fixed_time(2e10):
        pass
    assert slept and max(slept) < 2**31


def test_a_worker_whose_parent_is_gone_before_its_first_task_ends():
    code = "import os; from skdptune.model_selection._worker import follow; follow({}, {}); print('goes on')"
    for ours, status in ((True, 1), (False, 0)):
        command = [sys.executable, "-c", code.format(os.getppid(), ours)]  # not the process that starts it
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == status and ("goes on" in done.stdout) is not ours, done.stderr


ODD = """
class Odd(GaussianToy):
    published_attributes = (*GaussianToy.published_attributes, "more_")
    def __init__(self, s=1.0, fault="", random_state=None):
        super().__init__(s=s, random_state=random_state)
        self.fault = fault
    def fit(self, X, y=None):
        super().fit(X, y)
        self.more_ = 0
        if self.z_ > 0:
            getattr(self, self.fault)()
        return self
    def leave(self):
        raise GeneratorExit
    def lock(self):
        self.more_ = threading.Lock()
    def fork(self):
        os.fork()
    def close(self):
        os.close(1), os.close(2)
        sys.stdout.close()
    def settings(self):
        np.seterr(all="raise")
        warnings.simplefilter("error")

before = np.geterr(), list(warnings.filters)
for fault in sys.argv[2:]:
    with joblib.parallel_config(sys.argv[1], n_jobs=2):
        made = PrivateRandomSearchCV(Odd(fault=fault), {"s": [1.0]}, n_iter=Fixed(8), random_state=7).fit(X, Y)
    os.write(1, f"{fault} {made.best_estimator_.z_ > 0}\\n".encode())
os.write(1, str((np.geterr(), list(warnings.filters)) == before).encode())
"""


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("sequential", ["leave False", "fork True", "settings True", "close True", "True"]),
        ("loky", ["leave False", "lock False", "fork True", "settings True", "close True", "True"]),
    ],
)
def test_what_a_try_does_to_its_process_stays_its_own_affair(engine, expected):
    faults = [line.split()[0] for line in expected[:-1]]
    head = HEAD.replace("import os,", "import os, threading, warnings,")
    assert run(head + ODD, engine, *faults).stdout.splitlines() == expected
