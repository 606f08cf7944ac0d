"""``demo``: a complete private search on data that scikit-learn ships."""

from skdptune._cli._codes import Answer, say
from skdptune._cli._files import check_target
from skdptune._cli._tables import up, wrapped
from skdptune._exceptions import InvalidParameterError, MissingDependencyError
from skdptune._rounding import as_given
from skdptune._validation import check_real

__all__ = ["demo"]

_DELTA = 1e-6
_LONG = 10_000  # mean number of tries from which a demonstration may take minutes
_LINEAR = "diffprivlib's LogisticRegression"
_CLASSES = [0, 1]
_COLUMNS = [20, 21, 22, 23, 27]  # radius, texture, perimeter, area, concave points
_UPPER = [40.0, 50.0, 260.0, 4300.0, 0.3]  # public: round numbers above what is measured in such images


def demo(arguments):
    """Return the Answer to ``demo``."""
    from skdptune import PrivateRandomSearchCV

    check_real("--mean", arguments.mean, low=1)
    kind = None if arguments.report is None else _report_kind(arguments.report, arguments.force)
    name, estimator, space, tries = _candidate(arguments.candidate)
    X, y = _rows()
    search = PrivateRandomSearchCV(
        estimator, space, n_iter=tries(arguments.mean), delta=_DELTA, classes=_CLASSES, random_state=arguments.seed
    )
    quoted = search.privacy_cost(n_samples=len(X))
    _warn_of_hours(search.n_iter)
    search.fit(X, y)
    spent = search.privacy_spent_
    if kind is not None:
        getattr(spent.report(), kind)(arguments.report)
    data = {
        "command": "demo",
        "candidate": name,
        "data": "sklearn.datasets.load_breast_cancer",
        "n_samples": len(X),
        "relation": spent.relation,
        "delta": _DELTA,
        "mean_runs": float(spent.run_count.mean),
        "best_params": search.best_params_,
        "best_score": search.best_score_,
        "epsilon": spent.epsilon(_DELTA),
        "single_run_epsilon": spent.single_run.epsilon(_DELTA),
        "method": spent.method,
        "seeded": arguments.seed is not None,
        "assumptions": list(spent.assumptions),
        "report": arguments.report,
    }
    return Answer(data, _text(data, quoted, spent, search, space))


def _warn_of_hours(count):
    """Say how long a search may run that trains very many models; it goes on, and Ctrl-C ends it."""
    if count.mean > _LONG:
        longest = int(count.quantile(0.99))
        say(
            f"note: this search trains {count.mean:,.0f} models on average, and one in a hundred such searches more "
            f"than {longest:,}. At some milliseconds each that may take minutes, hours or days; Ctrl-C ends it."
        )


def _rows():
    """Return the rows, moved to the middle of their public ranges, with a constant for an intercept."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, _COLUMNS] / _UPPER - 0.5
    return np.column_stack([X, np.full(len(X), 0.5)]), y


def _candidate(choice):
    """Return (name, estimator, space, distribution of the number of tries by its mean) of the candidate asked for."""
    from skdptune.run_counts import Logarithmic, as_run_count

    if choice in ("auto", "linear"):
        try:
            from diffprivlib.models import LogisticRegression
        except Exception as error:  # missing, or broken by the scikit-learn beside it
            if choice == "linear":
                raise MissingDependencyError(
                    f"--candidate linear needs a working diffprivlib; importing it ended with {type(error).__name__}. "
                    "Install skdptune with its extra diffprivlib (pip install '.[diffprivlib]' in a clone), or take "
                    "--candidate centroids."
                ) from None
        else:
            # half of this epsilon is what a blanked row costs
            model = LogisticRegression(epsilon=2.0, data_norm=1.0, fit_intercept=False)
            # the cheapest for pure privacy, and its long searches are no matter where a try takes milliseconds
            return _LINEAR, model, {"C": [0.1, 1.0, 10.0, 100.0]}, Logarithmic
    from skdptune._cli._centroids import NoisyCentroids

    space = {"radius": [0.25, 0.5, 1.0], "pseudo_count": [1.0, 10.0, 30.0]}
    return "class centroids with Gaussian noise", NoisyCentroids(classes=_CLASSES), space, as_run_count


def _report_kind(path, force):
    """Return the method that writes a report of that name; asked before anything runs."""
    for ending, method in ((".html", "to_html"), (".json", "to_json"), (".md", "to_markdown")):
        if path.lower().endswith(ending):
            check_target("--report", path, force)
            return method
    raise InvalidParameterError("--report must end in .html, .json or .md.")


def _expected(candidate, mean):
    """Return what to compare a score with; examples/audits/accuracy_in_the_docs.py measures it, at a mean of 20."""
    found = ""
    if candidate == _LINEAR:
        shown = f"{mean:.6g}"  # a mean that comes out of its parameters has an error of some 1e-14
        here = "" if shown == "20" else f" (here: {shown})"
        found = f"searches of this kind with a mean of 20 tries{here} reach 0.94 on average, "
    return f"On rows kept aside {found}a linear model without privacy reaches 0.96, and always answering benign 0.63."


def _text(data, quoted, spent, search, space):
    delta, score = data["delta"], data["best_score"]
    searched = ", ".join(f"{name} in {values}" for name, values in space.items())
    params = ", ".join(f"{name}={value!r}" for name, value in (data["best_params"] or {}).items()) or "none"
    steps = [
        f"Data: {data['n_samples']} breast masses that scikit-learn ships, one row each, taken for as many "
        "patients and as private. Benign or malignant?",
        f"Candidate: {data['candidate']}. One run costs epsilon = {up(quoted.single_run.epsilon(delta))} at "
        f"delta = {as_given(delta)}.",
        f"Search: {searched}. The number of tries is drawn from {spent.run_count!r}; it is not published, nor is "
        "any try but the best.",
        f"Price of the whole search, known before a row is read: epsilon = {up(quoted.epsilon(delta))}.",
        f"Published: {params}; accuracy {score:.3f} on held-out rows, noise included (so it may exceed 1), the best of "
        f"all tries; and the model. {_expected(data['candidate'], data['mean_runs'])}",
    ]
    numbered = [wrapped(text, 3, f"{number}. ") for number, text in enumerate(steps, 1)]
    filed = [] if data["report"] is None else ["", f"report: {data['report']}"]
    return "\n".join([*numbered, "", spent.summary(delta), *filed])
