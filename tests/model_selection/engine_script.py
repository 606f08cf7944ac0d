"""Searches on one engine, in a process of their own; prints what was found as JSON.

Run as ``python -m tests.model_selection.engine_script ENGINE FOLDER``.
"""

import contextlib
import importlib
import json
import logging
import os
import pickle
import signal
import sys
import tempfile
import time
import warnings

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from skdptune import PrivateRandomSearchCV
from skdptune.model_selection import _progress
from skdptune.run_counts import Finite, Fixed

WORKERS = {"sequential": 1, "threading": 2, "loky": 2, "multiprocessing": 2, "dask": 4, "ray": 2, "spark": 2}
SAID = "a run speaks"


def rebuilt(folder, parent):
    """Return a :class:`Witness`; says in ``folder`` that this process has unpickled one."""
    if os.getpid() != parent:
        note(folder, "loads", os.getpid())
    return Witness(folder, parent)


def note(folder, name, value):
    """Append a line to a file, whoever else does so."""
    descriptor = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{value}\n".encode())
    os.close(descriptor)


def noted(folder, name):
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name)) as file:
        return file.read().split()
    return []


class Witness:
    """A parameter that counts the processes which plan and rows have reached."""

    def __init__(self, folder, parent):
        self.folder, self.parent = folder, parent

    def __reduce__(self):
        return rebuilt, (self.folder, self.parent)

    def __deepcopy__(self, memo):
        return self


class Observed(ClassifierMixin, BaseEstimator):
    """A noisy majority that leaves traces for the test, makes a noise, and may kill its worker once."""

    privacy_params = ("scale",)
    published_attributes = ("classes_", "z_")

    def __init__(self, scale=4.0, shift=0.0, folder=None, witness=None, kills=False, random_state=None):
        self.scale = scale
        self.shift = shift
        self.folder = folder
        self.witness = witness
        self.kills = kills
        self.random_state = random_state

    def rdp_curve(self, orders):
        return np.asarray(orders, dtype=float) / (2 * self.scale**2)

    def fit(self, X, y):
        print(SAID)
        print(SAID, file=sys.stderr)
        os.write(1, SAID.encode())
        os.write(2, SAID.encode())
        warnings.warn(SAID)
        logging.getLogger("some.library").error(SAID)
        try:
            X[0, 0] = 77.0  # must not reach any other try
        except ValueError:
            note(self.folder, "read-only", 1)
        self.z_ = float(self.random_state.normal(scale=self.scale))
        note(self.folder, "noise", self.z_)
        note(self.folder, "workers", os.getpid())
        if self.kills and len(noted(self.folder, "noise")) > 10:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(os.path.join(self.folder, "killed"), os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return np.full(len(X), int(self.z_ + self.shift > 0))


@contextlib.contextmanager
def started(engine):
    """Start what the engine needs; yield the client, where there is one."""
    if engine == "dask":
        from dask.distributed import Client, LocalCluster

        options = {"n_workers": WORKERS["dask"], "threads_per_worker": 1, "processes": True}
        with (
            LocalCluster(**options, dashboard_address=None, memory_limit=None) as cluster,
            Client(cluster) as client,
            joblib.parallel_config("dask"),
        ):
            yield client
    elif engine == "ray":
        import ray
        from ray.util.joblib import register_ray

        register_ray()
        options = {"include_dashboard": False, "log_to_driver": True, "object_store_memory": 100_000_000}
        ray.init(num_cpus=WORKERS["ray"], runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}}, **options)
        with joblib.parallel_config("ray", n_jobs=WORKERS["ray"]):
            yield ray
        ray.shutdown()
    elif engine == "spark":
        from joblibspark import register_spark
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        register_spark()
        builder = SparkSession.builder.master(f"local[{WORKERS['spark']},4]").config("spark.ui.enabled", "false")
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        with joblib.parallel_config("spark", n_jobs=WORKERS["spark"]):
            yield session
        session.stop()
    else:
        with joblib.parallel_config(engine, n_jobs=WORKERS[engine]):
            joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(8))  # loky's workers start while we are loud
            yield None


ROWS = np.random.default_rng(0).normal(size=(400, 50))
LABELS = (ROWS[:, 0] > 0).astype(int)


def search(run_count, seed=None, folder=None, search_params=None, **kwargs):
    """Fit; return the search and the folder of traces."""
    folder = folder or tempfile.mkdtemp(dir=sys.argv[2])
    candidate = Observed(folder=folder, witness=Witness(folder, os.getpid()), **kwargs)
    space = {"shift": list(np.linspace(-3.0, 3.0, 60))}
    made = PrivateRandomSearchCV(candidate, space, n_iter=run_count, random_state=seed, **(search_params or {}))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="random_state was given")
        return made.fit(ROWS, LABELS), folder


def outcome(made):
    return [float(made.best_params_["shift"]), made.best_score_, made.best_estimator_.z_]


def tell_whether_quiet(found):
    """Searches of 1 and of 60 tries must look the same in the warnings of the parent."""
    counts = []
    for tries in (1, 60):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search(Fixed(tries))
        counts.append(len(caught))
    found["warnings"] = counts


def observe(engine, client):
    found = {}
    made, folder = search(Fixed(60), seed=11)
    found["seeded"] = outcome(made)
    if client is not None and engine == "dask":
        found["transfers"] = list(client.run(incoming).values())
    found["loads"], found["workers"] = noted(folder, "loads"), noted(folder, "workers")
    found["noise"], found["read-only"] = noted(folder, "noise"), len(noted(folder, "read-only"))
    made, folder = search(Fixed(60))
    found["unseeded"], found["fresh noise"] = outcome(made), noted(folder, "noise")
    found["attributes"] = sorted(vars(made))
    found["pickle"] = pickle.dumps(made).count(b"\x8c\x02z_")  # the name as pickled: two bytes may occur by chance
    if engine not in ("sequential", "threading"):
        made, folder = search(Fixed(60), seed=11, kills=True)
        found["after a death"], found["killed"] = outcome(made), os.path.exists(os.path.join(folder, "killed"))
        observe_checkpoint(found)
    tell_whether_quiet(found)
    return found


class Ledger:
    """Counts charges."""

    charges = 0

    def charge(self, spent, delta):
        Ledger.charges += 1

    def __deepcopy__(self, memo):
        return self


def observe_checkpoint(found):
    """A worker is killed, then the search is interrupted in the parent and resumed."""
    checkpoint = os.path.join(sys.argv[2], "checkpoint")
    options = {"seed": 11, "kills": True, "search_params": {"checkpoint": checkpoint, "ledger": Ledger()}}
    step, left = _progress.Progress.step, [40]

    def interrupted(self):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        step(self)

    _progress.Progress.step = interrupted
    folder = tempfile.mkdtemp(dir=sys.argv[2])
    try:
        search(Fixed(60), folder=folder, **options)
    except KeyboardInterrupt:
        found["kept"] = os.path.exists(os.path.join(checkpoint, "header"))
    finally:
        _progress.Progress.step = step
    before = len(noted(folder, "noise"))
    made, _ = search(Fixed(60), folder=folder, **options)
    found["resumed"], found["charges"], found["removed"] = outcome(made), Ledger.charges, not os.path.exists(checkpoint)
    found["run again"] = len(noted(folder, "noise")) - before


def incoming(dask_worker):
    """Return how often one worker has asked another one for data."""
    return dask_worker.state.transfer_incoming_count_total


def scheduler_memory(dask_scheduler):
    import gc

    import psutil

    gc.collect()
    return psutil.Process().memory_info().rss


def observe_scheduler(client):
    """Return by how many bytes 1,000 tries make the scheduler's process grow, and what it keeps."""
    # LocalCluster keeps its scheduler in this very process: growth of the search itself counts, too
    search(Finite({200: 1.0}))
    before = client.run_on_scheduler(scheduler_memory)
    search(Finite({1000: 1.0}))
    time.sleep(1.0)
    after = client.run_on_scheduler(scheduler_memory)
    return {
        "scheduler": before,
        "scheduler growth": after - before,
        "scheduler tasks": client.run_on_scheduler(tasks),
    }


def tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


def observe_ray(ray):
    """Return how often something is put into the object store, and the growth of ray's control process."""
    import psutil

    def control():
        tree = psutil.Process().children(recursive=True)
        return sum(child.memory_info().rss for child in tree if "gcs_server" in child.name())

    search(Finite({200: 1.0}))
    before, put, puts = control(), ray.put, []
    ray.put = lambda *args, **kwargs: puts.append(1) or put(*args, **kwargs)
    search(Finite({1000: 1.0}))
    ray.put = put
    return {"puts": len(puts), "scheduler growth": control() - before, "scheduler": before}


def main():
    engine = sys.argv[1]
    with started(engine) as client:
        found = observe(engine, client)
        if engine == "dask":
            found.update(observe_scheduler(client))
        if engine == "ray":
            found.update(observe_ray(client))
    with open(os.path.join(sys.argv[2], "found.json"), "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    # by the module's name, so that workers know the classes
    importlib.import_module("tests.model_selection.engine_script").main()
