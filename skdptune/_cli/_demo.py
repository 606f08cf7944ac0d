"""``demo``: a complete private search on data that scikit-learn ships."""

from skdptune._cli._codes import Answer
from skdptune._cli._files import check_target
from skdptune._cli._tables import up, wrapped
from skdptune._exceptions import InvalidParameterError, MissingDependencyError
from skdptune._rounding import as_given

__all__ = ["demo"]

_DELTA = 1e-6


def demo(arguments):
    """Return the Answer to ``demo``."""
    from sklearn.datasets import load_digits

    from skdptune import PrivateRandomSearchCV

    kind = None if arguments.report is None else _report_kind(arguments.report, arguments.force)
    X, y = load_digits(return_X_y=True)
    digits = list(range(10))
    name, estimator, space = _candidate(arguments.candidate, digits)
    search = PrivateRandomSearchCV(
        estimator, space, n_iter=arguments.mean, classes=digits, random_state=arguments.seed
    )
    quoted = search.privacy_cost(n_samples=len(X))
    search.fit(X, y)
    spent = search.privacy_spent_
    if kind is not None:
        getattr(spent.report(), kind)(arguments.report)
    data = {
        "command": "demo",
        "candidate": name,
        "data": "sklearn.datasets.load_digits",
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


def _candidate(choice, digits):
    """Return (name, estimator, space) of the candidate asked for."""
    if choice in ("auto", "forest"):
        try:
            from diffprivlib.models import RandomForestClassifier
        except Exception as error:  # missing, or broken by the scikit-learn beside it
            if choice == "forest":
                raise MissingDependencyError(
                    f"--candidate forest needs a working diffprivlib; importing it ended with {type(error).__name__}. "
                    "Install skdptune[diffprivlib], or take --candidate centroids."
                ) from None
        else:
            forest = RandomForestClassifier(epsilon=1.0, bounds=(0, 16), classes=digits)
            return "diffprivlib's RandomForestClassifier", forest, {"n_estimators": [5, 10, 20], "max_depth": [3, 5, 8]}
    from skdptune._cli._centroids import NoisyCentroids

    space = {"radius": [8.0, 16.0, 32.0, 64.0], "pseudo_count": [1.0, 10.0, 30.0]}
    return "class centroids with Gaussian noise", NoisyCentroids(centre=8.0, classes=digits), space


def _report_kind(path, force):
    """Return the method that writes a report of that name; asked before anything runs."""
    for ending, method in ((".html", "to_html"), (".json", "to_json"), (".md", "to_markdown")):
        if path.endswith(ending):
            check_target("--report", path, force)
            return method
    raise InvalidParameterError("--report must end in .html, .json or .md.")


def _text(data, quoted, spent, search, space):
    delta, score = data["delta"], data["best_score"]
    searched = ", ".join(f"{name} in {values}" for name, values in space.items())
    params = ", ".join(f"{name}={value!r}" for name, value in (data["best_params"] or {}).items()) or "none"
    steps = [
        f"Data: {data['n_samples']} handwritten digits that scikit-learn ships, one row each, taken as private.",
        f"Candidate: {data['candidate']}. One run costs epsilon = {up(quoted.single_run.epsilon(delta))} at "
        f"delta = {as_given(delta)}.",
        f"Search: {searched}. The number of tries is drawn from {spent.run_count!r}; it stays secret, and so do "
        "all tries but the best.",
        f"Price of the whole search, known before a row is read: epsilon = {up(quoted.epsilon(delta))}.",
        f"Published: {params}; accuracy {score:.3f} on held-out rows, noise included; and the model.",
    ]
    numbered = [wrapped(text, 3, f"{number}. ") for number, text in enumerate(steps, 1)]
    filed = [] if data["report"] is None else ["", f"report: {data['report']}"]
    return "\n".join([*numbered, "", spent.summary(delta), *filed])
