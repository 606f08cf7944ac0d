"""What a search costs, as one frozen value: :class:`PrivacySpent`."""

import difflib
import functools
import math
import platform
import sys
import textwrap
from dataclasses import dataclass, field
from importlib import metadata

from skdptune._exceptions import InvalidTypeError, PricingError, SkdptuneError
from skdptune._rounding import as_given, nats_up, significant_up
from skdptune._validation import check_real, invalid_value
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.model_selection._phrases import run_count_in_words, scorer_in_words

__all__ = ["PrivacySpent"]

_LIBRARIES = ("skdptune", "scikit-learn", "numpy", "scipy", "dp-accounting", "joblib")
_OPTIONAL = ("diffprivlib", "torch", "opacus", "skorch")  # named only where they are in use
_WIDTH = 79
LOUD = 0.25  # of the score's range: noise of such a standard deviation drowns what a score could say
_LONG = 120  # longer descriptions of the run count are cut in the short table

SCOPE = (
    "This price is for {covered}. Other fits and releases from the same rows, scores computed on private rows "
    "without noise, side channels such as the running time, and people with several rows are not covered. "
    "report() writes it out."
)
TOGETHER = "the worse of search and test score: a person's row is a searched row or a test row, never both"
STAGES = {
    "quote": "Price quoted before any private row was used",
    "spent": "Privacy spent",
    "inner": "Price of an inner search, part of the outer search's price",
}


def _versions():
    return _installed(tuple(name for name in _OPTIONAL if name in sys.modules))


@functools.lru_cache(maxsize=16)
def _installed(optional):
    found = [("python", platform.python_version())]
    for name in (*_LIBRARIES, *optional):
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            version = getattr(sys.modules.get(name), "__version__", None)  # used from a folder, not installed
            found += [] if version is None else [(name, version)]
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
        cost together. With a ``test_score``, what that and the search cost together.
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
    settings : SearchSettings or None
        The public settings in words, for the report.
    stage : {"quote", "spent", "inner"}
        Whether this is a price quoted before a fit, the price of a fit, or that of a search inside another one.
        Not compared.
    test_score : ReleasedScore or None
        A score of the published model on test rows that ``curve`` covers as well; its ``search_spent`` is the price
        of the search alone. All other values here are those of the search. Not compared.
    versions : tuple of (str, str)
        Libraries and their versions. Not compared.

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
    settings: object = field(default=None, compare=False)
    stage: str = field(default="quote", compare=False)
    test_score: object = field(default=None, compare=False)
    versions: tuple = field(default_factory=_versions, compare=False)

    def epsilon(self, delta=None):
        """Return the epsilon (nats) of all that was released at ``delta``; ``inf`` where there is none.

        Parameters
        ----------
        delta : float in [0, 1), optional
            Defaults to the search's own ``delta``, if it was given one.

        Returns
        -------
        float

        Raises
        ------
        InvalidParameterError
            Without a delta, where the search has none either.
        """
        return self.curve.epsilon(own_delta(self) if delta is None else delta)

    def delta(self, epsilon):
        """Return the delta of all that was released at ``epsilon`` (nats)."""
        return self.curve.delta(epsilon)

    def rdp(self, orders):
        """Return the Renyi divergences (nats) of all that was released, shape (n_orders,)."""
        return self.curve.rdp(orders)

    @property
    def search_curve(self):
        """The whole search alone: ``curve``, unless that covers a test score as well."""
        return self.curve if self.test_score is None else self.test_score.search_spent.curve

    @property
    def n_protected(self):
        """The public number of rows that the price protects, test rows included; None where it is not known."""
        if self.n_samples is None or self.test_score is None:
            return self.n_samples
        return self.n_samples + self.test_score.n_rows

    @property
    def score_standard_deviation(self):
        """Standard deviation of the noise on a score whose range is 1; None with public validation rows."""
        if self.score_noise is None or not self.n_scored:
            return None
        return self.score_noise.standard_deviation / self.n_scored

    @property
    def method(self):
        """Which bound priced the search's selection: "exact", "rdp", "closed_form", "profile" or "composition".

        "pair" or "rdp" where exactly one run is certain, which costs what one run costs.
        """
        return dearest(self.selection, self.default_delta).method

    @property
    def default_delta(self):
        """The delta reported at unless another is asked for.

        The search's own ``delta`` if it has one; else the largest power of ten that is at most
        1 / (10 n), with n the number of rows protected (test rows included); 1e-6 where that is not known.
        """
        own = getattr(self.settings, "delta", None)
        if own is not None:
            return own
        n = self.n_protected
        return 10.0 ** math.floor(-math.log10(10 * n)) if n else 1e-6

    def closed_form_epsilon(self, delta):
        """Return what the closed forms of the literature would have charged for the search alone, or None.

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
        return worst if self.row_curves else None

    def report(self, **options):
        """Return a :class:`~skdptune.report.PrivacyReport` of this price, to be filed.

        Parameters
        ----------
        **options
            As for :class:`~skdptune.report.PrivacyReport`: ``title``, ``delta``, ``prepared_for``, ...

        Returns
        -------
        PrivacyReport
            With ``to_html``, ``to_json`` and ``to_markdown``.
        """
        from skdptune.report import PrivacyReport  # a floor above: loaded when a report is asked for

        known = [name for name in PrivacyReport.__dataclass_fields__ if name != "spent"]
        for name in options:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                advice = f"Did you mean {near[0]!r}?" if near else f"Pass one of {', '.join(known)}."
                raise InvalidTypeError(f"report() takes no {name!r}. {advice}")
        return PrivacyReport(self, **options)

    # Rendering ----------------------------------------------------------------------------

    def __repr__(self):
        test = ""
        if self.test_score is not None:
            test = f", n_test={None if self.n_samples is None else self.test_score.n_rows}"
        delta = self.default_delta
        return (
            f"PrivacySpent(epsilon={nats_up(self.epsilon(delta))} at delta={as_given(delta)}, "
            f"relation={self.relation!r}, run_count={self.run_count!r}, "
            f"n_samples={self.n_samples}, method={self.method!r}{test})"
        )

    def __str__(self):
        return self.summary()

    def _repr_html_(self):
        from skdptune.report import card  # a floor above: loaded when a notebook asks

        return card(self)

    def price_rows(self, delta):
        """Return the prices at ``delta`` as (name, epsilon) rows.

        The whole search's comes before the closed form's. With a test score it is called "search", and the rows
        "test score" and "together" follow: the last is what was released.

        Parameters
        ----------
        delta : float in [0, 1)

        Returns
        -------
        list of (str, float)
        """
        rows = [("single run", self.single_run.epsilon(delta))]
        if self.refit is not None:
            rows += [("best of the runs", self.selection.epsilon(delta)), ("refit", self.refit.epsilon(delta))]
        test = self.test_score
        rows.append(("whole search" if test is None else "search", self.search_curve.epsilon(delta)))
        closed = self.closed_form_epsilon(delta)
        if closed is not None:
            rows.append(("(closed form)", closed))
        if test is not None:
            rows += [("test score", test.curve.epsilon(delta)), ("together", self.epsilon(delta))]
        return rows

    def facts(self, delta=None):
        """Return what belongs beside the prices at ``delta`` (None: the default), as (name, text) rows."""
        test = self.test_score
        method = dearest(self.selection, self.default_delta if delta is None else delta).method
        rows = [
            ("method", method if test is None else f"{method} (of the search)"),
            ("tries", f"{_cut(run_count_in_words(self.run_count))}{_within_text(self.run_count)}"),
            ("relation", self._relation_text()),
        ]
        if test is not None:
            rows.append(("together", TOGETHER))
            spread = _spread(test.noise, test.n_rows, self.n_samples is None)
            rows.append(("test score", f"{scorer_in_words(test.scorer)}, {spread}"))
        if self.score_standard_deviation is not None:
            rows.append(("score noise", _spread(self.score_noise, self.n_scored, self.n_samples is None)))
        if self.settings is not None:
            rows.append(("split", self.settings.split))
            if self.settings.labels is not None:
                n_labels, declared = self.settings.labels
                rows.append(("labels", f"{n_labels}, {'declared' if declared else 'found in y, taken to be public'}"))
            if self.settings.target is not None:
                epsilon, delta = self.settings.target
                goal = f"epsilon {as_given(epsilon)} at delta {as_given(delta)}"
                rows.append(("target", f"{goal}: candidates were calibrated to it"))
            if self.settings.seeded:
                rows.append(("SEED GIVEN", "whoever knows random_state can undo the noise; it must stay secret"))
        return rows

    def _relation_text(self):
        if self.n_samples is None:
            return self.relation
        if self.test_score is None:
            return f"{self.relation}, {self.n_samples} rows"
        return f"{self.relation}, {self.n_samples} searched rows and {self.test_score.n_rows} test rows"

    @property
    def heading(self):
        """What this is the price of, as a title."""
        stage = STAGES[self.stage]
        return stage if self.test_score is None else f"{stage}: search and test score"

    @property
    def scope(self):
        """What the price does not cover, in short."""
        covered = "one fit" if self.test_score is None else "one fit and the one test score"
        return SCOPE.format(covered=covered)

    def summary(self, delta=None):
        """Return a short table: the prices, how they were found, assumptions, scope and versions.

        Parameters
        ----------
        delta : float, optional
            Defaults to :attr:`default_delta`.

        Returns
        -------
        str
            ASCII, at most 79 columns wide where words allow it. Every price is rounded up.
        """
        from skdptune.report._notes import spent_notes  # a floor above

        delta = check_delta(self.default_delta if delta is None else delta)
        lines = [f"{self.heading}, at delta = {as_given(delta)}"]
        lines += [wrapped("  NOTE: ", text) for text in spent_notes(self, delta)]
        lines += [f"  {name:<17} epsilon = {nats_up(value)}" for name, value in self.price_rows(delta)]
        lines += [wrapped(f"  {name:<13}", text) for name, text in self.facts(delta)]
        if self.assumptions:
            lines.append("Assumes:")
            lines += [wrapped(f"  {i:>2}. ", text) for i, text in enumerate(self.assumptions, start=1)]
        lines.append(wrapped("Scope: ", self.scope))
        if self.versions:
            lines.append(wrapped("Versions: ", ", ".join(f"{name} {value}" for name, value in self.versions)))
        return _ascii("\n".join(lines))


def own_delta(spent):
    """Return the delta that the search of ``spent`` (a PrivacySpent or None) was given, or raise."""
    own = getattr(getattr(spent, "settings", None), "delta", None)
    if own is None:
        raise invalid_value(
            "delta", "given, since the search has none of its own", own, "Pass one well below 1 / n_samples, e.g. 1e-6."
        )
    return own


def check_delta(delta):
    """Return ``delta`` as a float, or raise the usual error."""
    return check_real(
        "delta", delta, low=0, high=1, high_open=True, advice="Take it well below 1 / n_samples, e.g. 1e-6."
    )


def dearest(curve, delta):
    """Return the part of a worst-of-several that sets the price at ``delta``, after asking it for that price."""
    nodes = getattr(curve.node, "nodes", ()) if getattr(curve.node, "weights", None) is None else ()
    parts = [_as_curve(node, curve.relation) for node in nodes] or [curve]
    return max(parts, key=lambda part: part.epsilon(delta))


def _as_curve(node, relation):
    return PrivacyCurve(node, relation)


def _spread(noise, n_rows, private):
    deviation = significant_up(noise.standard_deviation / n_rows, 2)
    source = "a public guess of" if private else "from"
    loud = ": TOO MUCH, the score says little" if noise.standard_deviation / n_rows >= LOUD else ""
    return f"standard deviation {deviation} of the score's range, {source} {n_rows} rows{loud}"


def _within_text(run_count):
    within = quantile(run_count, 0.99)
    return "" if within is None else f", 99 % of searches within {within}"


def quantile(run_count, share):
    """Return the number of tries that suffices with probability ``share``, or None where there is none."""
    try:
        return int(run_count.quantile(share))
    except (SkdptuneError, OverflowError, ValueError):
        return None


def _cut(text):
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def wrapped(start, text):
    """Wrap one entry under its own indent."""
    return textwrap.fill(
        " ".join(text.split()),
        width=_WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
    )


def _ascii(text):
    """Escape what a plain terminal may not show or would obey: names of columns and classes may hold anything."""
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
