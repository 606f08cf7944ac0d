"""The sentences of a report that depend on nothing but the kind of search."""

__all__ = [
    "FURTHER_SCORES",
    "CONSTANT",
    "METHODS",
    "NOT_COVERED",
    "OTHER_SCORES",
    "OTHER_TRIES",
    "OWN_EPSILON",
    "PRIVATE",
    "QUESTIONS",
    "REFERENCES",
    "RELEASED_MODELS",
    "SIGNATURES",
    "TRIES",
    "WHAT_IT_IS",
]

WHAT_IT_IS = (
    "A report of differential privacy: how much all that is released together can say about any one person, as two "
    "numbers, epsilon and delta."
)

QUESTIONS = {
    "zero-out": "whether one person's row took part or was blanked out",
    "replace-one": "which of two possible rows one person contributed",
    "add-remove": "whether one person's row was among the data",
}

METHODS = {
    "exact": "exact: the worst case over all ways in which tries can be ranked, certified from above",
    "rdp": "Renyi divergences, maximised over what the single run allows",
    "closed_form": "closed form of the literature",
    "profile": "the single run's profile, scaled by the mean number of tries",
    "composition": "as if every try had been released",
    "pair": "exactly one try: the single run's own price, from its privacy loss distribution",
}

RELEASED_MODELS = {
    "winner": "The model of the best try, as it was trained in that try.",
    "refit": "A model with the settings of the best try, trained once more on all private rows.",
    "none": "No model.",
}

OWN_EPSILON = (
    "The candidate has a parameter epsilon of its own, which is what its library was asked for; the released model "
    "shows it. What one try costs is stated in this report: it is counted under the relation named above, for all that "
    "a try does. The two differ where the library counts by another relation (diffprivlib's LogisticRegression costs "
    "half of its epsilon under zero-out), or where a try does more than train one model."
)
TRIES = "how many tries were made"  # never published, unless it is certain beforehand
OTHER_TRIES = (
    "the settings, scores, models and running times of all tries but the best",
    "which of the tries was the best",
)
PRIVATE = "random seeds, private rows, training histories, gradients"
CONSTANT = "A constant model that no row has touched, since no try succeeded."

OTHER_SCORES = (
    "Scores of the published model on private rows, from score(), cross-validation or a test set: they carry no noise. "
    "The best score of the search is covered; a test score made by release_test_score is covered by the report of that "
    "score."
)
FURTHER_SCORES = (
    "Any further score of the published model on private rows, from score(), cross-validation or the test rows. The "
    "best score of the search and the one test score listed as released are covered."
)

NOT_COVERED = (
    "Other releases from the same rows: a second search or fit, also one whose result was thrown away, statistics, "
    "plots. Their prices add up; a ledger keeps the total, this report does not.",
    OTHER_SCORES,
    "Side channels: running time, memory and processor load, file sizes, exit codes, log lines, progress bars, "
    "checkpoints. They grow with the number of tries or show it, so they must stay with those who hold the rows.",
    "Those who hold the private rows and run the search, and whoever breaks into their machines.",
    "People with more than one row, families, or several records of one patient: the price is for one row.",
    "Choices made by looking at the private rows beforehand: selected columns, scalings, encodings, ranges, the space "
    "of settings, the mean number of tries, delta.",
    "What is true of people in general. A private model may still show that a group has a high risk, also for "
    "persons whose data were never used.",
    "Predictions about new persons, and rows inserted to mislead the model.",
    "Any listed assumption that does not hold.",
)

REFERENCES = (
    "N. Papernot and T. Steinke, Hyperparameter Tuning with Renyi Differential Privacy, arXiv 2110.03620v2: "
    "searches with a random number of tries, and the closed forms.",
    'Documentation of skdptune, page "The exact price" (doc/theory/exact.rst in the source distribution): the exact '
    "worst case over all rankings, with its proof.",
    "J. Dong, A. Roth and W. Su, Gaussian Differential Privacy, arXiv 1905.02383v3: trade-off between the two errors "
    "of an attacker.",
    "C. Dwork and A. Roth, The Algorithmic Foundations of Differential Privacy, 2014, doi 10.1561/0400000042: "
    "what epsilon and delta mean.",
)

SIGNATURES = ("Prepared by", "Reviewed by (privacy officer)", "Decision", "Place and date", "Signature")
