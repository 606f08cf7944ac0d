"""Running the tries of a search on a joblib backend, and keeping the best of them."""

import concurrent.futures.process
import itertools
import math
import re

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from skdptune._exceptions import RunFailedError
from skdptune._validation import check_integer, invalid_type, invalid_value
from skdptune.candidates._seeding import isolated_global_generators
from skdptune.model_selection._folders import private_folder
from skdptune.model_selection._progress import Progress
from skdptune.model_selection._quiet import logger, quiet
from skdptune.model_selection._runs import RunRecord, mark_of, one_run

__all__ = ["Runner", "check_engine"]

_DISPATCH = re.compile(r"(\d+(\.\d+)?\s*\*\s*)?n_jobs(\s*\*\s*\d+(\.\d+)?)?|[1-9]\d*")


def check_engine(search):
    """Check what only the runs use, so that nothing is charged before it is known to be right.

    Raises
    ------
    InvalidParameterError, InvalidTypeError
    """
    if search.n_jobs is not None and check_integer("n_jobs", search.n_jobs) == 0:
        raise invalid_value("n_jobs", "None or an integer other than 0", search.n_jobs)
    if not isinstance(search.verbose, (bool, int, np.integer)) or search.verbose < 0:
        raise invalid_value("verbose", "an integer of 0 or more", search.verbose)
    pre = search.pre_dispatch
    if isinstance(pre, str):
        if pre != "all" and not _DISPATCH.fullmatch(pre.strip()):
            expected = "'all', a positive integer, or an expression such as '2*n_jobs'"
            raise invalid_value("pre_dispatch", expected, pre)
    elif pre is not None:
        check_integer("pre_dispatch", pre, low=1)
    state = search.random_state
    known = state is None or isinstance(state, (int, np.integer, np.random.RandomState))
    if not known or isinstance(state, bool):
        raise invalid_type("random_state", "None, an integer or a numpy RandomState", state)


class Runner:
    """Runs a drawn number of tries on a joblib backend and keeps a running maximum.

    Parameters
    ----------
    n_jobs, pre_dispatch, verbose
        As for :class:`joblib.Parallel`. ``verbose`` prints for the curator only: it shows the number of
        tries.
    """

    BLOCK = 64

    def __init__(self, n_jobs=None, pre_dispatch="2*n_jobs", verbose=0):
        self.n_jobs = n_jobs
        self.pre_dispatch = pre_dispatch
        self.verbose = verbose

    def best(self, plan, data, seeds, *, raise_failures=False):
        """Return the best :class:`RunRecord` over ``seeds`` (an iterable), or None if it is empty.

        Raises
        ------
        SkdptuneError
            If a drawn candidate is not covered by the price, or a run failed and ``raise_failures``.
        """
        best = None
        with Progress(self.verbose) as progress, private_folder() as folder, quiet():
            for record in self._records(plan, data, seeds, folder):
                progress.step()
                if record.failure is not None:
                    _tell_curator(record)
                    if raise_failures:
                        raise RunFailedError(
                            f"a try failed with {record.failure} (for the curator); the whole search stays charged "
                            "and nothing is published. Use error_score=nan to rank failed tries last."
                        )
                if best is None or record.rank > best.rank:
                    best = record
        return best

    @staticmethod
    def quietly(work, seed):
        """Return ``work()``, called under the conditions of a run."""
        with quiet(), isolated_global_generators(seed):
            return work()

    def _records(self, plan, data, seeds, folder):
        options = {"n_jobs": self.n_jobs, "pre_dispatch": self.pre_dispatch, "temp_folder": folder}
        try:
            Parallel(return_as="generator_unordered", **options)
            stream = True
        except ValueError:  # this backend cannot
            stream = False
        waiting, outstanding = iter(enumerate(seeds)), set()

        def tasks(limit=None):
            for position, seed in itertools.islice(waiting, limit):
                outstanding.add(position)
                yield delayed(one_run)(plan, data, seed, position)

        more = True
        while more:
            try:
                if stream:
                    more = False
                    records = Parallel(return_as="generator_unordered", **options)(tasks())
                else:
                    # A block at a time, so that memory stays flat.
                    records = Parallel(**options)(tasks(self.BLOCK))
                    more = bool(outstanding)
                for record in records:
                    outstanding.discard(record.position)
                    yield record
            except concurrent.futures.process.BrokenProcessPool:
                # A worker died. What it and its neighbours were doing ranks last and is not tried again: to
                # try again until it survives would condition on survival.
                more = True
                for position in sorted(outstanding):
                    yield RunRecord(-math.inf, mark_of(None), None, failure="WorkerDied", position=position)
                outstanding.clear()


def _tell_curator(record):
    """Log a failure for the curator only; it reveals something about the number of tries."""
    logger.debug("a run failed with %s (curator only, not for publication)", record.failure)
    if record.trace:
        logger.debug("%s", record.trace)
