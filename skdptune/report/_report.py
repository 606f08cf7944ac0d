"""``PrivacyReport``: a price, written out so that it can be filed."""

import functools
import json
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import resources

from skdptune._validation import check_instance, invalid_type, invalid_value
from skdptune._writing import write_text
from skdptune.model_selection._spent import PrivacySpent, check_delta
from skdptune.report._blocks import markdown_escape
from skdptune.report._document import document, jsonable
from skdptune.report._html import fragment, page
from skdptune.report._ledger import charged_to
from skdptune.report._published import published_by
from skdptune.report._view import sections

__all__ = ["PrivacyReport", "json_schema"]


def json_schema():
    """Return the JSON Schema (draft 2020-12) of what :meth:`PrivacyReport.to_json` writes, as a dict.

    Examples
    --------
    >>> json_schema()["properties"]["version"]
    {'const': 1}
    """
    text = resources.files("skdptune.report").joinpath("privacy_report.schema.json").read_text("utf-8")
    return json.loads(text)


@dataclass(frozen=True)
class PrivacyReport:
    """A privacy price in a form that can be filed: what was released, at what price, and what that means.

    Parameters
    ----------
    spent : PrivacySpent
        ``search.privacy_spent_`` after a fit, or ``search.privacy_cost(...)`` before it, which is marked as a quote.
    title : str, default="Privacy report"
    delta : float in [0, 1), optional
        Where the price is stated. Defaults to ``spent.default_delta``.
    deltas : sequence of float, optional
        Where else the price is stated. Defaults to a few values around ``delta``, and 0.
    prepared_for, prepared_by, data, date, notes : str, optional
        Free text for the head of the report: who asked for it, who made it, which data, when, what else. Say
        nothing there that is not public. Without a ``date`` it is the day on which the report is made (UTC).
    published : PrivateRandomSearchCV, optional
        The fitted search whose price this is: its ``best_params_`` and ``best_score_`` are then in the report. Both
        were published by the fit, and the price covers them. So is what the search's own ledger was charged.
    ledger : PrivacyLedger, str or os.PathLike, optional
        The ledger, or its path, that the search or its test score was charged to: the report then says what was
        charged, at the ledger's delta too, and how the numbers belong together. Defaults to that of ``published``, or
        of the test score.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
    LedgerError
        If ``ledger`` cannot be read.

    Notes
    -----
    *Guarantee.* Every number follows from the curves of ``spent`` and is rounded to the private side: prices,
    advantages, true-positive rates and beliefs up, an attacker's errors down. A report is a function of the price, of
    public settings, of what was published and of the day; it has seen neither rows nor other runs, so making it costs
    nothing.

    *Assumes* what ``spent.assumptions`` lists, and that the free text is public.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve, best_of
    >>> from skdptune.model_selection import PrivacySpent
    >>> from skdptune.report import PrivacyReport
    >>> from skdptune.run_counts import Geometric
    >>> run = PrivacyCurve.pure(1.0)
    >>> whole = best_of(run, Geometric(5))
    >>> spent = PrivacySpent(curve=whole, single_run=run, selection=whole, refit=None, run_count=Geometric(5),
    ...                      row_curves=(run,), relation="zero-out", n_samples=100, score_noise=None,
    ...                      assumptions=("Every person contributes one row.",))
    >>> report = PrivacyReport(spent, prepared_for="the data protection officer")
    >>> print(report.to_markdown().splitlines()[0])
    # Privacy report
    >>> report.to_dict()["prices"][0]["closed_form"]
    3.0
    """

    spent: PrivacySpent
    title: str = "Privacy report"
    delta: float | None = None
    deltas: tuple | None = None
    prepared_for: str | None = None
    prepared_by: str | None = None
    data: str | None = None
    date: str | None = None
    notes: str | None = None
    published: object = None
    ledger: object = None

    def __post_init__(self):
        check_instance(
            "spent", self.spent, PrivacySpent, "a PrivacySpent", "Pass search.privacy_spent_ or search.privacy_cost()."
        )
        for name in ("title", "prepared_for", "prepared_by", "data", "date", "notes"):
            value = getattr(self, name)
            if not isinstance(value, str) and (value is not None or name == "title"):
                raise invalid_type(name, "a str", value, "Write dates as text, e.g. date='2026-01-31'.")
        if self.date is None:
            object.__setattr__(self, "date", f"{datetime.now(timezone.utc):%Y-%m-%d} (UTC)")
        delta = check_delta(self.spent.default_delta if self.delta is None else self.delta)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "ledger", charged_to(self.ledger, self.published, self.spent))
        object.__setattr__(self, "deltas", self._checked_deltas(delta))
        published = getattr(self.spent.test_score, "published", None) if self.published is None else self.published
        object.__setattr__(self, "published", published_by(published, self.spent))

    def _checked_deltas(self, delta):
        given = self.deltas
        if given is None:
            given = (1e-5, 1e-7, 1e-9, 0.0) if delta == 0 else (delta, _tidy(delta / 10), _tidy(delta / 1000), 0.0)
            given += () if self.ledger is None else (self.ledger.values["delta"],)
        elif isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
            raise invalid_type("deltas", "a sequence of numbers in [0, 1)", given)
        checked = {delta, *(check_delta(value) for value in given)}
        if len(checked) > 50:
            raise invalid_value("deltas", "at most 50 values", given, "Each is priced, which takes time.")
        return tuple(sorted(checked, reverse=True))

    @functools.cached_property
    def _document(self):
        return document(self)

    @functools.cached_property
    def _blocks(self):
        return sections(self._document, (self.spent.curve, self.spent.single_run))

    def __getstate__(self):
        # what was worked out on the way stays behind
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __setstate__(self, state):
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __str__(self):
        return self.to_markdown()

    def _repr_html_(self):
        return fragment(self.title, self._blocks)

    def to_dict(self):
        """Return the report as plain values, ready for JSON: infinite numbers are the string ``"inf"``.

        Returns
        -------
        dict
            As described by :func:`json_schema`. Prices are unrounded upper bounds.
        """
        return jsonable(self._document)

    def to_json(self, path=None):
        """Return the report as JSON, or write it to ``path``.

        Parameters
        ----------
        path : str or os.PathLike, optional
            A file that is there is overwritten, all at once, and keeps its mode.

        Returns
        -------
        str or None
            The text where no path was given.

        Raises
        ------
        InvalidTypeError, InvalidParameterError, OutputError
        """
        # allow_nan=False: what is not JSON must never be written
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        return _written(text, path)

    def to_markdown(self, path=None):
        """Return the report as Markdown, or write it to ``path``.

        Parameters
        ----------
        path : str or os.PathLike, optional
            A file that is there is overwritten, all at once, and keeps its mode.

        Returns
        -------
        str or None
            The text where no path was given.

        Raises
        ------
        InvalidTypeError, InvalidParameterError, OutputError
        """
        parts = [f"# {markdown_escape(self.title)}", *(block.markdown(2) for block in self._blocks)]
        return _written("\n\n".join(parts) + "\n", path)

    def to_html(self, path=None):
        """Return the report as a page of HTML, or write it to ``path``.

        The page stands alone: it loads no script, font or image, follows the reader's light or dark
        setting, fits a phone, and prints.

        Parameters
        ----------
        path : str or os.PathLike, optional
            A file that is there is overwritten, all at once, and keeps its mode.

        Returns
        -------
        str or None
            The text where no path was given.

        Raises
        ------
        InvalidTypeError, InvalidParameterError, OutputError
        """
        return _written(page(self.title, self._blocks), path)


def _tidy(value):
    """Return 1e-06 for 1.0000000000000002e-06."""
    return float(f"{value:.12g}")


def _written(text, path):
    if path is None:
        return text
    write_text(path, text)
    return None
