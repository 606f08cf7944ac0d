"""What a report says about a search beside its price: the settings, in words. All of them are public."""

from dataclasses import dataclass

from skdptune._validation import describe
from skdptune.model_selection._phrases import cost_in_words, scorer_in_words

__all__ = ["SearchSettings", "setting_in_words", "settings_of"]

_MOST_VALUES = 40
_MOST_TEXT = 400


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search in words, for a report.

    Nothing here comes from a row or from a run: it is known, and the same, before a fit and after it.

    Parameters
    ----------
    estimator : str
        Class name of the candidate; for a pipeline the names of its steps as well.
    space : tuple of (str, str)
        Each searched parameter and what it is drawn from.
    split : str
        How rows were divided, and why that division ignores their content.
    scoring : str
        How tries were compared.
    released_model : {"winner", "refit", "none"}
        The winner's model from its run, one trained again on all rows, or none.
    public_validation : bool
        Whether tries were scored on public rows, without noise.
    seeded : bool
        Whether a ``random_state`` was given.
    target : tuple of (float, float) or None
        The (epsilon, delta) that candidates were calibrated to.
    level : str or None
        The cost below which every candidate was calibrated.
    delta : float or None
        The search's own ``delta``; a report is made at it unless another is asked for.
    own_epsilon : bool
        Whether the candidate has a parameter epsilon, in which its library counts its own way.
    labels : (int, bool) or None
        How many labels were published by a classifier, and whether they were declared; None before a fit.
    candidate : str
        The class that is trained: of a pipeline its last step's, of a search within the search its candidate's.

    Examples
    --------
    >>> SearchSettings("GaussianNB", (("epsilon", "[0.5, 1.0]"),), "one holdout", "accuracy", "winner").seeded
    False
    """

    estimator: str
    space: tuple
    split: str
    scoring: str
    released_model: str
    public_validation: bool = False
    seeded: bool = False
    target: tuple | None = None
    level: str | None = None
    delta: float | None = None
    own_epsilon: bool = False
    labels: tuple | None = None
    candidate: str = ""


def settings_of(terms, *, level=None, target_epsilon=None, delta=None):
    """Return the :class:`SearchSettings` of a search.

    Parameters
    ----------
    terms : SearchTerms
    level : PrivacyCurve or None
    target_epsilon, delta : float or None

    Returns
    -------
    SearchSettings
    """
    scheme = terms.scheme
    return SearchSettings(
        estimator=_estimator_text(terms.estimator),
        space=tuple(_space_rows(terms.space)),
        split=f"{scheme.describe()}; {scheme.data_free_by}",
        scoring=_short(scorer_in_words(terms.scorer)),
        released_model={"winner": "winner", True: "refit", False: "none"}[terms.refit],
        public_validation=bool(terms.public_validation),
        seeded=bool(terms.seeded),
        target=None if target_epsilon is None else (float(target_epsilon), float(delta)),
        level=None if level is None else cost_in_words(level),
        delta=None if delta is None else float(delta),
        candidate=_candidate(terms.estimator),
        own_epsilon=any(name.rpartition("__")[2] == "epsilon" for name in terms.estimator.get_params(deep=True)),
    )


def _estimator_text(estimator):
    name = type(estimator).__name__
    steps = getattr(estimator, "steps", None)
    inner = estimator.get_params(deep=False).get("estimator")
    if isinstance(steps, (list, tuple)):
        parts = [f"{step[0]}: {type(step[1]).__name__}" for step in steps]
        return _short(f"{name} ({', '.join(parts)})")
    return f"{name} of {_estimator_text(inner)}" if hasattr(inner, "get_params") else name


def _candidate(estimator):
    steps = getattr(estimator, "steps", None)
    inner = steps[-1][1] if isinstance(steps, (list, tuple)) and steps else None
    if inner is None and hasattr(estimator, "param_distributions"):
        inner = estimator.estimator
    return type(estimator).__name__ if not hasattr(inner, "get_params") else _candidate(inner)


def _space_rows(space):
    spaces = space.sources()
    for number, sources in enumerate(spaces, start=1):
        for name, source in sources.items():
            yield (name if len(spaces) == 1 else f"{number}. {name}"), _source_text(source)


def _source_text(source):
    values = getattr(source, "values", None)
    if values is None:
        frozen = getattr(source, "frozen", None)
        return _distribution_text(source.distribution if frozen is None else frozen)
    shown = ", ".join(setting_in_words(value) for value in values[:_MOST_VALUES])
    more = len(values) - _MOST_VALUES
    return f"[{shown}]" if more <= 0 else f"[{shown}, and {more} more]"


def _distribution_text(distribution):
    """Name a frozen scipy distribution; its repr is an address."""
    inner = getattr(distribution, "dist", None)
    if inner is None:
        return setting_in_words(distribution)
    arguments = [setting_in_words(value) for value in getattr(distribution, "args", ())]
    arguments += [f"{key}={setting_in_words(value)}" for key, value in getattr(distribution, "kwds", {}).items()]
    return f"{getattr(inner, 'name', type(inner).__name__)}({', '.join(arguments)})"


def setting_in_words(value):
    """Write a setting: short, without addresses, arrays by their shape."""
    if hasattr(value, "get_params"):
        return _estimator_text(value)
    if getattr(value, "shape", ()) != ():
        return describe(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    return _named(value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value)


def _named(value):
    """Return the repr of ``value``, or its class where that is an address."""
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else _short(text)


def _short(text):
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."
