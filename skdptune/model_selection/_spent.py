"""What a search costs, as one frozen value: :class:`PrivacySpent`."""

import functools
import math
import platform
from dataclasses import dataclass, field
from importlib import metadata

from skdptune._exceptions import PricingError
from skdptune.accounting import PrivacyCurve, best_of

__all__ = ["PrivacySpent"]

_LIBRARIES = ("skdptune", "scikit-learn", "numpy", "scipy", "dp-accounting", "opendp", "diffprivlib")


@functools.lru_cache(maxsize=1)
def _versions():
    found = [("python", platform.python_version())]
    for name in _LIBRARIES:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return tuple(found)


@dataclass(frozen=True)
class PrivacySpent:
    """The privacy cost of a whole search, beside that of a single run.

    Made by :meth:`PrivateRandomSearchCV.privacy_cost` before a fit and by ``fit`` after it; the two
    are equal.

    Parameters
    ----------
    curve : PrivacyCurve
        The whole search: selection and refit. This is what the released model, parameters and score
        cost together.
    single_run : PrivacyCurve
        One run (a drawn candidate, its training and its score). Reported beside the whole search,
        never instead of it.
    selection : PrivacyCurve
        Publishing the best of the runs, without the refit.
    refit : PrivacyCurve or None
        One more training of the dearest candidate, where ``refit=True``.
    run_count : RunCount
        The distribution of the number of tries.
    row_curves : tuple of PrivacyCurve
        The cost of one run for each kind of row (trained on, scored, or both).
    relation : str
        The neighbouring relation.
    n_samples : int or None
        The public number of rows it was priced for; None under add-remove, where that number is private.
    score_noise : object or None
        The noise on the score; None for public validation rows.
    n_scored : int or None
        The public number of rows that the score is divided by.
    assumptions : tuple of str
        What the guarantee rests on.

    Notes
    -----
    *Guarantee.* For every pair of neighbouring data sets under ``relation``, the published attributes
    of the search (listed in ``assumptions``) are (epsilon, delta)-indistinguishable for
    every ``epsilon`` and ``delta = self.delta(epsilon)``.

    *Assumes* everything in ``assumptions``.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve, best_of
    >>> from skdptune.model_selection import PrivacySpent
    >>> from skdptune.run_counts import Geometric
    >>> run = PrivacyCurve.pure(1.0)
    >>> spent = PrivacySpent(curve=best_of(run, Geometric(5)), single_run=run,
    ...                      selection=best_of(run, Geometric(5)), refit=None, run_count=Geometric(5),
    ...                      row_curves=(run,), relation="zero-out", n_samples=100,
    ...                      score_noise=None, assumptions=())
    >>> spent.single_run.epsilon(1e-6) <= 1.0 < spent.epsilon(1e-6) <= 3.0
    True
    """

    curve: PrivacyCurve
    single_run: PrivacyCurve
    selection: PrivacyCurve
    refit: PrivacyCurve | None
    run_count: object
    row_curves: tuple
    relation: str
    n_samples: int | None
    score_noise: object
    n_scored: int | None = None
    assumptions: tuple = ()
    versions: tuple = field(default_factory=_versions, compare=False)

    def epsilon(self, delta):
        """Return the epsilon (nats) of the whole search at ``delta``; ``inf`` where there is none."""
        return self.curve.epsilon(delta)

    def delta(self, epsilon):
        """Return the delta of the whole search at ``epsilon`` (nats)."""
        return self.curve.delta(epsilon)

    def rdp(self, orders):
        """Return the Renyi divergences (nats) of the whole search, shape (n_orders,)."""
        return self.curve.rdp(orders)

    @property
    def score_standard_deviation(self):
        """Standard deviation of the noise on a score whose range is 1; None with public validation rows."""
        if self.score_noise is None or not self.n_scored:
            return None
        return self.score_noise.standard_deviation / self.n_scored

    @property
    def method(self):
        """Which bound priced the selection: "exact", "rdp", "closed_form" or "profile"."""
        return self.selection.method

    def closed_form_epsilon(self, delta):
        """Return what the closed forms of the literature would have charged, or None.

        Parameters
        ----------
        delta : float

        Returns
        -------
        float or None
            None where no closed form applies to this distribution of tries.

        References
        ----------
        Papernot and Steinke, arXiv 2110.03620v2, Theorems 2 and 6.
        """
        worst = -math.inf
        for row_curve in self.row_curves:
            try:
                priced = best_of(row_curve, self.run_count, method="closed_form")
            except PricingError:
                return None
            whole = priced if self.refit is None else priced + self.refit
            worst = max(worst, whole.epsilon(delta))
        return worst

    def __repr__(self):
        return (
            f"PrivacySpent(relation={self.relation!r}, run_count={self.run_count!r}, "
            f"n_samples={self.n_samples}, method={self.method!r})"
        )

    def __str__(self):
        return self.summary()

    def summary(self, delta=None):
        """Return a short table: single run, selection, refit, whole search, assumptions.

        Parameters
        ----------
        delta : float, optional
            Defaults to the largest power of ten that is at most 1 / (10 n_samples), or 1e-6.
        """
        if delta is None:
            n = self.n_samples
            delta = 10.0 ** math.floor(-math.log10(10 * n)) if n else 1e-6
        rows = [("single run", self.single_run.epsilon(delta))]
        if self.refit is not None:
            rows += [
                ("best of the runs", self.selection.epsilon(delta)),
                ("refit", self.refit.epsilon(delta)),
            ]
        rows.append(("whole search", self.epsilon(delta)))
        closed = self.closed_form_epsilon(delta)
        if closed is not None:
            rows.append(("(closed form)", closed))
        lines = [f"Privacy cost at delta = {delta:g}, relation {self.relation}"]
        lines += [f"  {name:<17} epsilon = {_round_up(value)}" for name, value in rows]
        lines.append(
            f"  tries: {self.run_count!r}, mean {self.run_count.mean:.4g}, 99 % of searches within "
            f"{self.run_count.quantile(0.99)}; priced by {self.method}"
        )
        if self.score_standard_deviation is not None:
            lines.append(
                f"  noise on each score: standard deviation {self.score_standard_deviation:.2g} of its range, "
                f"from {self.n_scored} rows"
            )
        if self.assumptions:
            lines.append("Assumes:")
            lines += [f"  - {sentence}" for sentence in self.assumptions]
        return "\n".join(lines)


def _round_up(value):
    """Format with four decimals, rounded up: a printed epsilon is never below the stated one."""
    if not math.isfinite(value):
        return str(value)
    return f"{math.ceil(value * 1e4) / 1e4:.4f}"  # to the private side
