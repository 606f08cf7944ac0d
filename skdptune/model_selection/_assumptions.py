"""The sentences a report must list: what the price of a search rests on.

Most are only ever read. Those that read differently beside a test score are values that know both ways of saying it, so
that nobody has to tell from a sentence's words which one it is.
"""

from dataclasses import dataclass

from skdptune.model_selection._phrases import cost_in_words, noise_in_words, scorer_in_words

__all__ = ["PREDICTED_ALONE", "NumberOfRows", "Released", "assumptions_of", "beside_test_score"]

PREDICTED_ALONE = "What a model predicts for a row depends on that row alone."

_RELATIONS = {
    "zero-out": "Neighbours (zero-out): two data sets of the same public number of rows that differ in one "
    "row, whose contribution is blanked in one of them.",
    "replace-one": "Neighbours (replace-one): two data sets of the same public number of rows that differ in "
    "one row, replaced by any other row.",
    "add-remove": "Neighbours (add-remove): two data sets of which one has one row more.",
}

_MODELS = {
    "winner": "the winner's model as it was trained in its run",
    True: "a model of the winning parameters, trained once more on all rows",
    False: "no model",
}


@dataclass(frozen=True)
class NumberOfRows:
    """That the number of searched rows is public.

    Parameters
    ----------
    n_samples : int or None
        None where the number is public and not told.

    Examples
    --------
    >>> str(NumberOfRows(200)), NumberOfRows(200).beside_test_score(50)
    ('The number of rows (200) is public.', 'The numbers of searched rows (200) and of test rows (50) are public.')
    """

    n_samples: int | None

    def __str__(self):
        return f"The number of rows{'' if self.n_samples is None else f' ({self.n_samples})'} is public."

    def beside_test_score(self, n_test):
        """Return the sentence for the search and a score on ``n_test`` other rows together."""
        return f"The numbers of searched rows ({self.n_samples}) and of test rows ({n_test}) are public."


@dataclass(frozen=True)
class Released:
    """What a search released.

    Parameters
    ----------
    refit : {"winner", True, False}
    public_score : bool
        Whether the score is one on public rows, without noise.
    """

    refit: object
    public_score: bool

    def __str__(self):
        return f"Released: {self._what}"

    def beside_test_score(self, n_test):
        """Return the sentence beside a test score, which has a sentence of its own."""
        return f"Released by the search: {self._what}"

    @property
    def _what(self):
        score = "its score on the public rows" if self.public_score else "its noisy score"
        return (
            f"the winner's parameters, {score} and {_MODELS[self.refit]}, once; no other try, and not the number of "
            "tries. A good score hints at many tries: the price covers the hint, and nothing beyond it. The running "
            "time is not part of the release."
        )


def beside_test_score(sentences, n_samples, n_test):
    """Return the assumptions of a search of ``n_samples`` rows as they read beside a score on ``n_test`` other rows.

    A sentence is known by being, word for word, that of a value: prices that were written to a file are read alike.

    Examples
    --------
    >>> beside_test_score(("The number of rows (9) is public.", "Released: a sentence of a candidate."), 9, 4)
    ('The numbers of searched rows (9) and of test rows (4) are public.', 'Released: a sentence of a candidate.')
    """
    known = [Released(refit, public_score) for refit in _MODELS for public_score in (False, True)]
    if n_samples is not None:
        known.append(NumberOfRows(n_samples))
    beside = {str(each): each.beside_test_score(n_test) for each in known}
    return tuple(beside.get(sentence, sentence) for sentence in sentences)


def assumptions_of(terms, *, noise, class_source, adapters, seeded, level, timed=False, kept=False):
    """Return the assumptions of a search as a tuple of sentences.

    Parameters
    ----------
    terms : SearchTerms
    noise : ScoreNoise or None
    class_source : {"declared", "declared to the model", "label set of y", None}
    adapters : list of CandidateAdapter
    seeded : bool
        Whether ``random_state`` was given.
    level : PrivacyCurve or None
    timed : bool
        Whether ``run_timeout`` was given.
    kept : bool
        Whether ``checkpoint`` was given.

    Returns
    -------
    tuple of str
    """
    relation, scheme, space = terms.relation, terms.scheme, terms.space
    n_samples, refit, scorer_name = terms.n_samples, terms.refit, scorer_in_words(terms.scorer)
    sentences = [_RELATIONS[relation]]
    if relation != "add-remove":
        sentences.append(str(NumberOfRows(n_samples)))
    else:
        sentences.append("The number of rows is private: it enters no candidate's noise, sampling rate or steps.")
    sentences += [
        "Every person contributes one row.",
        "Column names, their number and types, categories included, are public.",
        f"The space searched ({', '.join(space.names()) or 'no parameter'}), the distribution of the number of "
        "tries and all other settings were chosen without looking at the private rows.",
        "Bounds, norms and other constants of the candidates were chosen without looking at the private rows.",
        f"Split: {scheme.describe()}; {scheme.data_free_by}.",
    ]
    if class_source == "declared":
        sentences.append("The label set was declared, without looking at the private rows.")
    elif class_source == "declared to the model":
        sentences.append(
            "The label set is the one declared to the model (its parameter classes), without looking at the private "
            "rows."
        )
    elif class_source is not None:
        sentences.append("The label set is the one found in y and is taken to be public.")
    sentences += _scoring(noise, scorer_name)
    sentences += _release(refit, level, seeded, noise)
    if timed:
        sentences.append("Whether a run ends within run_timeout does not depend on any private row.")
    if kept:
        sentences.append("The checkpoint folder is read by the curator alone.")
    for adapter in adapters:
        for sentence in adapter.assumptions(relation):
            if sentence not in sentences:
                sentences.append(sentence)
    return tuple(sentences)


def _scoring(noise, scorer_name):
    if noise is None:
        return [
            f"The validation rows (scored by {scorer_name}, without noise) are public: none of them, and nothing "
            "about them, comes from the private rows or the people in them."
        ]
    return [
        f"Each run's score ({scorer_name}) carries exact integer noise: {noise_in_words(noise)}.",
        PREDICTED_ALONE,
    ]


def _release(refit, level, seeded, noise):
    sentences = [
        str(Released(refit, public_score=noise is None)),
        "Whether a run fails, or its process dies, does not depend on any private row.",
        "The noise of the libraries used is sampled in floating point as if it were exact"
        + ("." if noise is None else ", except for the score's."),
    ]
    if level is not None:
        cost = cost_in_words(level)
        sentences.append(f"Every candidate is calibrated to cost at most {cost}, which is what was priced.")
    if seeded:
        sentences.append(
            "A random_state was given: the guarantee holds only for those who do not know it, and it must stay "
            "secret."
        )
    else:
        sentences.append("All randomness is derived from 256 secret bits of the operating system, drawn for this fit.")
    return sentences
