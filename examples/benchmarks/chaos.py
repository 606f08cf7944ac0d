"""Searches that are killed at random instants and resumed until they are done.

Each search tunes a diffprivlib forest with two worker processes and a checkpoint. Again and again its process, one
of its workers, or both are killed (SIGKILL) at a random instant, and the same call is made again. In the end
every search must have one result and one charge; no try may have finished twice and no number of tries been
drawn anew; a search with a seed must end exactly like one that nobody disturbed, and the others like them in
distribution.

Run with ``python examples/benchmarks/chaos.py [--searches 50] [--seed 0]`` (Linux; some minutes).
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings

import numpy as np
from diffprivlib.models import RandomForestClassifier
from scipy import stats
from sklearn.datasets import load_breast_cancer

from skdptune import PrivateRandomSearchCV
from skdptune.ledger import PrivacyLedger
from skdptune.model_selection._store import Store, StoreRef
from skdptune.model_selection._vault import Vault

X, y = load_breast_cancer(return_X_y=True)
X = X[:, :6]
SPACE = {"n_estimators": [5, 10, 20], "max_depth": [2, 4, 6]}
VICTIMS = ("parent", "worker", "both")
MOST_KILLS = 4  # of one search


def make_search(seed, ledger=None, checkpoint=None, n_jobs=None):
    forest = RandomForestClassifier(
        epsilon=1.0, bounds=(np.zeros(6), np.array([30.0, 40, 200, 2600, 0.2, 0.4])), classes=[0, 1]
    )
    return PrivateRandomSearchCV(
        forest, SPACE, n_iter=12, delta=1e-6, ledger=ledger, checkpoint=checkpoint, n_jobs=n_jobs, random_state=seed
    )


def outcome(search):
    return search.best_params_, search.best_score_, pickle.dumps(search.best_estimator_.predict_proba(X[:20]))


def fit(seed, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a seed is secret
        return make_search(seed, **params).fit(X, y)


class Trial:
    """One search and what is known about it from the outside."""

    def __init__(self, number, folder, seeded):
        self.number = number
        self.seed = number if seeded else None
        self.checkpoint = os.path.join(folder, f"checkpoint-{number}")
        self.result = os.path.join(folder, f"result-{number}")
        self.ledger = os.path.join(folder, "ledger.db")
        self.secrets, self.kills, self.twice, self.lost = set(), collections.Counter(), 0, 0

    def attempt(self):
        """Call ``fit`` in a fork and return its process id."""
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            ledger = PrivacyLedger(self.ledger, epsilon=1e5, delta=1e-6)
            result = pickle.dumps(outcome(fit(self.seed, ledger=ledger, checkpoint=self.checkpoint, n_jobs=2)))
            pathlib.Path(self.result + ".new").write_bytes(result)
            os.rename(self.result + ".new", self.result)
            status = 0
        finally:
            os._exit(status)

    def run(self, rng, seconds):
        """Kill and resume until there is a result."""
        before = charges(self.ledger)
        while not os.path.exists(self.result):
            begun = time.monotonic()
            pid = self.attempt()
            if sum(self.kills.values()) < MOST_KILLS:
                time.sleep(rng.uniform(0.05, 1.3 * seconds))
                self._kill(pid, rng.choice(VICTIMS))
            _, status = os.waitpid(pid, 0)
            self.look()
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                raise SystemExit(f"search {self.number} ended with an error")
            if not os.WIFSIGNALED(status):
                seconds = max(1.0, time.monotonic() - begun)
            elif not os.path.exists(self.result) and not os.path.exists(os.path.join(self.checkpoint, "header")):
                # what is charged without a header has ended, and was killed before it could hand the result over
                self.lost = charges(self.ledger) - before

    def _kill(self, pid, victim):
        workers = [child for child in children(pid) if b"popen_loky" in command(child)]
        targets = {"parent": [pid], "worker": workers[:1], "both": [*workers[:1], pid]}[victim]
        self.kills[victim] += bool(targets)
        for target in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, signal.SIGKILL)

    def look(self):
        """Note the secret of the search, and whether a try has finished more than once."""
        with contextlib.suppress(Exception):
            vault = Vault(self.checkpoint)
            header = json.loads(vault.read("header"))
            self.secrets.add((header["count"], header["master"]))
            store = Store(StoreRef.of(vault, header["token"]), vault)
            self.twice += sum(mark.finishes > 1 for _, mark in store.marks(header["count"]))
            store.close()


def charges(path):
    return len(PrivacyLedger(path, epsilon=1e5, delta=1e-6).entries())


def children(pid):
    """Return the ids of the processes that ``pid`` has started."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


def command(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def chaos(searches, seed=0, undisturbed=100, folder=None):
    """Run the whole experiment; return what was found."""
    rng = random.Random(seed)
    folder = folder or tempfile.mkdtemp()
    start = time.monotonic()
    trials = [Trial(number, folder, seeded=number % 2 == 0) for number in range(searches)]
    for trial in trials:
        trial.run(rng, seconds=4.0)
    entries = charges(os.path.join(folder, "ledger.db"))
    results = {trial.number: pickle.loads(pathlib.Path(trial.result).read_bytes()) for trial in trials}
    seeded = [trial for trial in trials if trial.seed is not None]
    equal = sum(results[trial.number] == outcome(fit(trial.seed)) for trial in seeded)
    free = [results[trial.number][1] for trial in trials if trial.seed is None]
    calm = [fit(None).best_score_ for _ in range(undisturbed)]
    found = {
        "searches": searches,
        "kills": dict(sum((trial.kills for trial in trials), collections.Counter())),
        "results": len(results),
        "charges": entries,
        "charges expected": searches + sum(trial.lost for trial in trials),
        "killed after the end": sum(trial.lost for trial in trials),
        "tries finished twice": sum(trial.twice for trial in trials),
        "secrets drawn anew": sum(max(0, len(trial.secrets) - 1 - trial.lost) for trial in trials),
        "seeded searches that ended as undisturbed": f"{equal} of {len(seeded)}",
        "all equal": equal == len(seeded),
        "left over": [name for name in os.listdir(folder) if name.startswith("checkpoint")],
        "p of the same distribution": float(stats.ks_2samp(free, calm).pvalue) if free and calm else 1.0,
        "seconds": round(time.monotonic() - start, 1),
    }
    shutil.rmtree(folder, ignore_errors=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, value in chaos(options.searches, options.seed).items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
