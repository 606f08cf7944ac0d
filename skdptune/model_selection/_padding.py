"""Against clocks: dummy tries up to the cap, and results at a fixed time.

Paper and code: Algorithm 1 of Papernot and Steinke (arXiv 2110.03620v2) releases one output of a random number of
runs, and its price assumes that nothing else shows that number. How long a search takes shows it.
"""

import contextlib
import secrets
import time
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse

from skdptune._exceptions import InvalidParameterError, SkdptuneError
from skdptune._validation import check_real
from skdptune.candidates._row_safe import is_keyed
from skdptune.candidates._stateless import placeholder_like
from skdptune.model_selection._engine import Runner
from skdptune.model_selection._quiet import process_identity
from skdptune.model_selection._read_only import size_of
from skdptune.model_selection._rows import number_of_rows, take_rows
from skdptune.model_selection._runs import RunData, RunSeeds
from skdptune.model_selection._search import PrivateRandomSearchCV
from skdptune.run_counts import as_run_count

__all__ = ["FixedTimeError", "PaddedRandomSearchCV", "fixed_time"]

_LONGEST_SLEEP = 86400.0  # seconds in one call; the system's clocks end somewhere above 1e9


class PaddedRandomSearchCV(PrivateRandomSearchCV):
    """A search that always runs as many tries as it could ever draw.

    Takes the parameters of :class:`PrivateRandomSearchCV`, finds the same result with the same seed and costs the
    same. After the drawn number of tries it runs dummy tries, on made-up rows, up to the largest number that
    ``n_iter`` can draw, and forgets them. How long ``fit`` takes, and what it uses of processors, network and cloud
    credit, then depends on the drawn number only as far as the dummies can be told from the others.

    Notes
    -----
    Tries and dummies go to the workers in one go, so neither waiting workers nor processes that are started for tries
    (``run_timeout``) tell where the ones end and the others begin. Made-up rows take as much room as the rows. Whatever
    ends a search ends it among the dummies as well, Ctrl-C and a candidate that raises ``KeyboardInterrupt`` included:
    to publish then would tell.

    There is no ``checkpoint``: a search that is killed and resumed would show by its duration what the padding hides.

    ``n_iter`` must have a cap, so every fit takes as long as the longest: choose a low one,
    ``AtMost(Logarithmic(mean=20), 60)`` say.

    *What it hides*: the number of tries, from those who see the duration of a fit or its bill.

    *What it does not hide*: the dummies come last and train on other rows. Who watches single tries (process
    lists, a cluster's dashboard) sees which are which if real rows take longer or shorter than made-up ones: override
    :meth:`made_up_rows` for better ones. A try may take a time that depends on the rows it trains on, with and
    without padding: :func:`fixed_time` hides that too.

    Examples
    --------
    >>> from skdptune.model_selection import PaddedRandomSearchCV
    >>> from skdptune.run_counts import AtMost, Logarithmic
    >>> count = AtMost(Logarithmic(mean=5), 12)
    >>> count.support_max
    12
    >>> search = PaddedRandomSearchCV(estimator=None, param_distributions={}, n_iter=count)  # 12 tries, always
    """

    _copies_of_rows = 2  # what is made up takes as much room

    def made_up_rows(self, X, y, classes, rng):
        """Return rows and labels for the dummies, of the shape and type of ``X`` and ``y``.

        Parameters
        ----------
        X, y : as the search uses them
            For their shapes and types: what is made up may not depend on a value in them.
        classes : ndarray of shape (n_classes,) or None
            The public label set.
        rng : numpy.random.Generator

        Returns
        -------
        X, y
            Numbers between 0 and 1, labels at random.
        """
        labels = rng.random(number_of_rows(y)) if classes is None else rng.choice(classes, number_of_rows(y))
        return _made_up(X, rng), labels

    def _resolve(self, n_samples, public_validation, template=None):
        if self.checkpoint is not None:
            raise InvalidParameterError(
                f"checkpoint must be None when tries are padded; got {self.checkpoint!r}. A resumed search runs the "
                "tries that were missing and all dummies, so that its duration tells how many tries were drawn. Use "
                "PrivateRandomSearchCV with the checkpoint and publish at a fixed time (fixed_time)."
            )
        if self.error_score == "raise":
            raise InvalidParameterError(
                "error_score must be nan when tries are padded; got 'raise', which ends the search at "
                "the first try that fails, before the others have been run, so that its duration tells."
            )
        if as_run_count(self.n_iter).support_max is None:
            raise InvalidParameterError(
                f"n_iter must have a largest value, up to which dummy tries are run; got {self.n_iter!r}, which may "
                "draw any number of tries. Use AtMost(n_iter, m)."
            )
        return super()._resolve(n_samples, public_validation, template)

    def _run(self, plan, data, seeds, store):
        # In one go: between two, workers would wait, and processes for tries be started, as the drawn number has it.
        count, cap = len(seeds), as_run_count(self.n_iter).support_max
        rows = _PaddedData(data, self._dummy_data(data, plan.classes), count)
        return _PaddedRunner(count, self.n_jobs, self.pre_dispatch, self.verbose).best(
            plan, rows, _PaddedSeeds(seeds, cap)
        )

    def _dummy_data(self, data, classes):
        rng = np.random.default_rng(secrets.randbits(256))

        def made_up(part):
            if not len(part[1]):  # nothing private is scored
                return part
            return self.made_up_rows(*part, classes, rng)

        if data.ready is not None:
            return replace(data, ready=tuple(made_up(part) for part in data.ready), parent=process_identity())
        X, y = made_up((data.X, data.y))
        return replace(data, X=X, y=y, parent=process_identity())


class _PaddedSeeds:
    """The seeds of all tries. Coins of their own: what the dummies draw has nothing to do with what is published."""

    def __init__(self, seeds, cap):
        self._seeds, self._cap = seeds, cap
        self._dummies = RunSeeds(secrets.randbits(256), cap)

    def __len__(self):
        return self._cap

    def __getitem__(self, position):
        return (self._seeds if position < len(self._seeds) else self._dummies)[position]


@dataclass(frozen=True)
class _PaddedData:
    """The rows of the tries, and those of the dummies, whose positions begin at ``count``; curator only."""

    real: RunData = field(repr=False)
    made_up: RunData = field(repr=False)
    count: int = field(repr=False)

    @property
    def parent(self):
        return self.real.parent

    def memory_usage(self):
        """Return about how many bytes both take, as a table would."""
        return size_of(self.real) + size_of(self.made_up)

    def of(self, position):
        """Return the rows of one run."""
        return self.real if position < self.count else self.made_up


class _PaddedRunner(Runner):
    """Runs all tries alike, and looks at the records of the first ``count`` alone."""

    def __init__(self, count, *options):
        super().__init__(*options)
        self._count = count

    def _records(self, crew, todo, worn):
        with contextlib.closing(super()._records(crew, todo, worn)) as records:
            for record in records:
                yield None if record is None or record.position >= self._count else record


def _made_up(X, rng):
    """Return rows like ``X``; reads its shape, its columns' names and types, and no value."""
    if is_keyed(X):
        return {name: _made_up(part, rng) for name, part in X.items()}
    n_rows = number_of_rows(X)
    if scipy.sparse.issparse(X):
        filled = min(10, X.shape[1])  # how many are filled in X may depend on private values
        where = np.repeat(np.arange(n_rows), filled), rng.integers(0, X.shape[1], n_rows * filled)
        return type(X)(scipy.sparse.coo_array((_numbers(n_rows * filled, X.dtype, rng), where), shape=X.shape))
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        return _numbers(X.shape, X.dtype, rng)
    rows = take_rows(placeholder_like(X), np.zeros(n_rows, dtype=int))
    if hasattr(rows, "dtypes") and hasattr(rows, "iloc"):
        rows = rows.reset_index(drop=True)
        for name, kind in rows.dtypes.items():
            if getattr(kind, "kind", "") in "fiub" and rows.columns.is_unique:
                rows[name] = _numbers(n_rows, kind, rng)
    return rows


def _numbers(shape, kind, rng):
    if kind.kind == "f":
        return rng.random(shape).astype(kind)
    return rng.integers(0, 2, shape).astype(kind)


class FixedTimeError(SkdptuneError, RuntimeError):
    """What was to be done at a fixed time took longer."""


@contextlib.contextmanager
def fixed_time(seconds):
    """Leave the block ``seconds`` after it was entered, no matter how long it took, or whether it failed.

    Parameters
    ----------
    seconds : float
        Positive and finite. Choose it without the private rows, and far above what the longest search could take.

    Raises
    ------
    FixedTimeError
        If the block took longer and raised nothing itself: an error of the block is passed on, in time or late, and
        nothing tells that it was late. The results of a late block are there, but publishing them now would publish its
        duration, too: wait for another time that was fixed in advance.

    Examples
    --------
    >>> import time
    >>> start = time.monotonic()
    >>> with fixed_time(0.05):
    ...     pass
    >>> time.monotonic() - start >= 0.05
    True
    """
    end = time.monotonic() + check_real("seconds", seconds, low=0, low_open=True)
    late = False
    try:
        yield
    finally:
        late = time.monotonic() > end
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LONGEST_SLEEP))
    if late:
        raise FixedTimeError(
            f"the block took longer than the {seconds:g} s that were fixed, so the time at which it ends says "
            "something. Do not publish before another time fixed in advance; choose a longer one for the next search."
        )
