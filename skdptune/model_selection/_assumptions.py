"""The sentences a report must list: what the price of a search rests on."""

__all__ = ["assumptions_of"]

_RELATIONS = {
    "zero-out": "Neighbours (zero-out): two data sets of the same public number of rows that differ in one "
    "row, whose contribution is blanked in one of them.",
    "replace-one": "Neighbours (replace-one): two data sets of the same public number of rows that differ in "
    "one row, replaced by any other row.",
    "add-remove": "Neighbours (add-remove): two data sets of which one has one row more.",
}


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
    n_samples, refit, scorer_name = terms.n_samples, terms.refit, repr(terms.scorer)
    sentences = [_RELATIONS[relation]]
    if relation != "add-remove":
        shown = "" if n_samples is None else f" ({n_samples})"
        sentences.append(f"The number of rows{shown} is public.")
    else:
        sentences.append("The number of rows is private: it enters no candidate's noise, sampling rate or steps.")
    sentences += [
        "Every person contributes one row.",
        "Column names, their number and types are public.",
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
        f"Each run's score ({scorer_name}) carries exact integer noise: {noise!r}.",
        "What a model predicts for a row depends on that row alone.",
    ]


def _release(refit, level, seeded, noise):
    model = {
        "winner": "the winner's model as it was trained in its run",
        True: "a model of the winning parameters, trained once more on all rows",
        False: "no model",
    }[refit]
    score = "its score on the public rows" if noise is None else "its noisy score"
    sentences = [
        f"Released: the winner's parameters, {score} and {model}, once; nothing about the other tries or their "
        "number. The running time is not part of the release.",
        "Whether a run fails, or its process dies, does not depend on any private row.",
        "The noise of the libraries used is sampled in floating point as if it were exact, except for the "
        "score's.",
    ]
    if level is not None:
        sentences.append(f"Every candidate is calibrated to lie below {level!r}, which is what was priced.")
    if seeded:
        sentences.append(
            "A random_state was given: the guarantee holds only for those who do not know it, and it must stay "
            "secret."
        )
    else:
        sentences.append("All randomness is derived from 256 secret bits of the operating system, drawn for this fit.")
    return sentences
