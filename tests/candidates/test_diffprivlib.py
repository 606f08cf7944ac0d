"""Adapters of diffprivlib's models: prices, refusals, and runs that fail on no row."""

import copy
import pickle
import re
import warnings

import numpy as np
import pytest

from skdptune.candidates._diffprivlib import _library

_complaint = _library._complaint(
    _library._installed("diffprivlib"), _library._installed("scikit-learn")
)
if _complaint is not None:
    pytest.skip(_complaint, allow_module_level=True)

import diffprivlib  # noqa: E402
from diffprivlib import models  # noqa: E402
from sklearn.base import clone  # noqa: E402

from skdptune._exceptions import (  # noqa: E402
    CandidateRefusedError,
    InvalidParameterError,
    InvalidTypeError,
    PricingError,
)
from skdptune.accounting import PrivacyCurve  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402

RELATIONS = ("zero-out", "replace-one", "add-remove")
CLASSES = np.array(["left", "none", "right"])


def make_rows(n_samples=120, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_samples, n_features))
    y = np.where(X[:, 0] > 0, "right", "left")  # the class "none" is absent
    return X, y


def logistic(**kw):
    return models.LogisticRegression(**{"data_norm": 2.0, "fit_intercept": False, "epsilon": 1.0, **kw})


def naive_bayes(**kw):
    return models.GaussianNB(**{"bounds": (-1, 1), "epsilon": 1.0, **kw})


def forest(**kw):
    return models.RandomForestClassifier(
        **{"bounds": (-1, 1), "classes": list(CLASSES), "epsilon": 1.0, "max_depth": 3, **kw}
    )


def tree(**kw):
    return models.DecisionTreeClassifier(
        **{"bounds": (-1, 1), "classes": list(CLASSES), "epsilon": 1.0, "max_depth": 3, **kw}
    )


def linear(**kw):
    return models.LinearRegression(
        **{"bounds_X": (-1, 1), "bounds_y": (0, 5), "fit_intercept": False, "epsilon": 1.0, **kw}
    )


def scaler(**kw):
    return models.StandardScaler(**{"bounds": (-1, 1), "epsilon": 1.0, **kw})


def pca(**kw):
    return models.PCA(**{"n_components": 2, "data_norm": 2.0, "bounds": (-1, 1), "epsilon": 1.0, **kw})


CLASSIFIERS = (logistic, naive_bayes, forest, tree)
OTHERS = (linear, scaler, pca)
EVERY = CLASSIFIERS + OTHERS


def train(make, X, y, seed=None, **kw):
    adapter = find_adapter(make(**kw))
    if make in CLASSIFIERS:
        return adapter, adapter.fit(X, y, classes=CLASSES, seed=seed)
    target = np.asarray(X)[:, 0] if y is None or np.asarray(y).dtype.kind in "UO" else y
    return adapter, adapter.fit(X, target, classes=None, seed=seed)


# ------------------------------------------------------------------------------------------ prices

PRICES = [
    (logistic, {}, (0.5, 1.0, 0.5)),
    (naive_bayes, {}, (1.0, 2.0, 1.0)),
    (forest, {}, (1.0, 2.0, None)),
    (forest, {"shuffle": True}, (1.0, 2.0, 1.0)),
    (forest, {"n_estimators": 1}, (1.0, 2.0, 1.0)),
    (tree, {}, (1.0, 2.0, 1.0)),
    (linear, {}, (1.0, 1.0, 1.0)),
    (scaler, {}, (1.0, 1.0, None)),
    (pca, {}, (1.0, 1.0, None)),
    (pca, {"centered": True, "bounds": None}, (1.0, 1.0, None)),
]


@pytest.mark.parametrize(("make", "params", "factors"), PRICES)
def test_price_is_the_stated_multiple_of_epsilon(make, params, factors):
    for relation, factor in zip(RELATIONS, factors, strict=True):
        adapter = find_adapter(make(epsilon=0.7, **params))
        if factor is None:
            with pytest.raises(CandidateRefusedError, match=relation):
                adapter.privacy_curve(100, relation)
            continue
        curve = adapter.privacy_curve(100, relation)
        assert curve == PrivacyCurve.pure(factor * 0.7, relation=relation)
        assert curve.relation == relation


@pytest.mark.parametrize("make", EVERY)
def test_only_epsilon_can_change_the_cost(make):
    adapter = find_adapter(make())
    assert adapter.privacy_params() == frozenset({"epsilon"})
    assert adapter.assumptions("zero-out")
    assert all(isinstance(sentence, str) for sentence in adapter.assumptions("zero-out"))


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_with_budget_meets_a_pure_level_exactly(make, relation):
    level = PrivacyCurve.pure(0.8, relation=relation)
    adapter = find_adapter(make(epsilon=3.0))
    calibrated = adapter.with_budget(level, 100, relation)
    cost = find_adapter(calibrated).privacy_curve(100, relation)
    assert cost.lies_below(level)
    assert cost.epsilon(0.0) == pytest.approx(0.8, rel=1e-9)
    assert adapter.estimator.epsilon == 3.0
    assert type(calibrated) is type(adapter.estimator)


def test_with_budget_meets_a_gaussian_level():
    level = PrivacyCurve.gaussian(2.0)
    adapter = find_adapter(tree())
    cost = find_adapter(adapter.with_budget(level, 100, "zero-out")).privacy_curve(100, "zero-out")
    assert cost.lies_below(level)
    assert 0.05 < cost.epsilon(0.0) < 2


def test_with_budget_says_when_a_level_is_out_of_reach():
    with pytest.raises(PricingError, match="no epsilon of 1e-06 or more lies below"):
        find_adapter(tree()).with_budget(PrivacyCurve.pure(1e-8), 100, "zero-out")


def test_level_family_is_increasing_and_pure():
    family = find_adapter(tree()).level_family(100, "replace-one")
    assert (family.low, family.high, family.increasing) == (1e-6, 50.0, True)
    assert family.curve(0.5) == PrivacyCurve.pure(0.5, relation="replace-one")


# ---------------------------------------------------------------------------------------- refusals

REFUSALS = [
    (logistic(fit_intercept=True), "fit_intercept must be False; got True .*add a constant column"),
    (logistic(data_norm=None), "data_norm must be a positive finite number; got None"),
    (logistic(data_norm=np.inf), "data_norm must be a positive finite number; got inf"),
    (logistic(C=np.inf), "C must be a positive finite number"),
    (logistic(warm_start=True), "warm_start must be False"),
    (naive_bayes(bounds=None), "bounds must be given; got None"),
    (naive_bayes(bounds=(1, 2)), "bounds must contain 0 in every column"),
    (naive_bayes(bounds=(-2, -1)), "bounds must contain 0 in every column"),
    (naive_bayes(bounds=[-1, 1]), r"bounds must be a tuple \(min, max\)"),
    (naive_bayes(bounds=(0, 0)), "min < max in every column"),
    (naive_bayes(bounds=(-1, np.inf)), "bounds must be finite"),
    (naive_bayes(bounds=(-1, np.nan)), "bounds must be finite"),
    (naive_bayes(bounds=("a", 1)), r"bounds must be a tuple \(min, max\)"),
    (naive_bayes(var_smoothing=-1), "var_smoothing must be a finite number >= 0"),
    (naive_bayes(priors=[0.4, 0.4]), "priors must be None or shares >= 0 that add up to 1"),
    (forest(classes=None), "classes must be given; got None"),
    (forest(bounds=None), "bounds must be given; got None"),
    (forest(classes=["a", "a"]), "classes must be a list of at least 1 different labels"),
    (forest(max_depth=None), r"max_depth must be an integer in \[1, 24\]; got None"),
    (forest(max_depth=0), r"max_depth must be an integer in \[1, 24\]; got 0"),
    (forest(n_estimators=0), "n_estimators must be an integer in"),
    (forest(warm_start=True), "warm_start must be False"),
    (tree(classes=None), "classes must be given; got None"),
    (linear(fit_intercept=True), "fit_intercept must be False; got True .*public constants"),
    (linear(bounds_X=(0, 100)), "at least as far from zero as the upper one; .*Subtract public constants"),
    (linear(bounds_X=None), "bounds_X must be given"),
    (linear(bounds_y=None), "bounds_y must be given"),
    (linear(bounds_y=([0, 0], [1, 1])), "bounds_y must be one pair of numbers"),
    (linear(bounds_X=(-2, -1)), "bounds_X must contain 0 in every column"),
    (scaler(bounds=None), "bounds must be given"),
    (scaler(bounds=(50, 100)), "bounds must contain 0 in every column"),
    (pca(data_norm=None), "data_norm must be a positive finite number"),
    (pca(bounds=None), "bounds must be given"),
    (pca(bounds=(1, 2)), "bounds must contain 0 in every column"),
    (pca(n_components="mle"), "n_components must be an integer >= 1 or None; got 'mle'"),
    (pca(n_components=0.9), "n_components must be an integer >= 1 or None; got 0.9"),
    (pca(n_components=0), "n_components must be an integer >= 1 or None; got 0"),
    (models.KMeans(2, bounds=(-1, 1)), "KMeans cannot be priced .*spends more than epsilon"),
]  # fmt: skip


@pytest.mark.parametrize(("estimator", "text"), REFUSALS)
def test_refused_before_data_in_one_sentence(estimator, text):
    adapter = find_adapter(estimator)
    for ask in (lambda: adapter.check("zero-out"), lambda: adapter.privacy_curve(9, "zero-out")):
        with pytest.raises(CandidateRefusedError, match=text) as caught:
            ask()
        assert type(estimator).__name__ in str(caught.value)


def test_linear_regression_says_all_that_it_wants_at_once():
    wanted = {
        "fit_intercept must be False": {"fit_intercept": True},
        "bounds_y must be given": {"bounds_y": None},
        "at least as far from zero": {"bounds_X": (1, 2)},
        "must contain 0": {"bounds_X": (1, 2)},
        "epsilon must be a positive": {"epsilon": 0},
    }
    bad = linear()
    for change in wanted.values():
        for name, value in change.items():
            setattr(bad, name, value)
    with pytest.raises(CandidateRefusedError, match="^LinearRegression: 5 requirements are not met: ") as caught:
        find_adapter(bad).check("zero-out")
    said = str(caught.value)
    assert all(words in said for words in wanted) and all(f"({i}) " in said for i in range(1, 6))
    with pytest.raises(CandidateRefusedError, match="4 requirements"):
        find_adapter(bad).check("replace-one")  # which does not want 0
    with pytest.raises(CandidateRefusedError, match="3 requirements.*fit_inter.*bounds_X must be given.*bounds_y must"):
        find_adapter(models.LinearRegression()).privacy_curve(100, "zero-out")
    accepted = re.search(r"Accepted is e\.g\. (LinearRegression\(.*?\)\)): bounds", said).group(1)
    find_adapter(eval(accepted, vars(models))).check("zero-out")
    with pytest.raises(CandidateRefusedError, match="bounds_X must be given.*Accepted is e.g."):
        find_adapter(linear(bounds_X=None)).check("zero-out")


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("epsilon", [0, -1, np.inf, np.nan, None, "1", True])
def test_epsilon_must_be_a_positive_finite_number(make, epsilon):
    adapter = find_adapter(make().set_params(epsilon=epsilon))
    with pytest.raises(CandidateRefusedError, match="epsilon must be a positive finite number"):
        adapter.check("zero-out")
    with pytest.raises(CandidateRefusedError, match="epsilon"):
        adapter.fit([[0.0, 0.0, 0.0]], ["left"], classes=CLASSES, seed=None)


def test_some_bounds_are_fine_under_replace_one_only():
    find_adapter(scaler(bounds=(50, 100))).check("replace-one")
    find_adapter(linear(bounds_X=(-2, -1))).check("replace-one")
    with pytest.raises(CandidateRefusedError):
        find_adapter(naive_bayes(bounds=(1, 2))).check("replace-one")  # a changed label moves a whole row


def test_schema_is_checked_without_rows():
    with pytest.raises(CandidateRefusedError, match="got 2 entries for 3 columns"):
        find_adapter(naive_bayes(bounds=([-1, -1], [1, 1]))).check_data(9, 3, CLASSES)
    with pytest.raises(CandidateRefusedError, match="'none' is missing"):
        find_adapter(forest(classes=["left", "right"])).check_data(9, 3, CLASSES)
    with pytest.raises(CandidateRefusedError, match="at least 2 labels; got 1"):
        find_adapter(logistic()).check_data(9, 3, CLASSES[:1])
    with pytest.raises(CandidateRefusedError, match="one share for each of the 3"):
        find_adapter(naive_bayes(priors=[0.5, 0.5])).check_data(9, 3, CLASSES)
    with pytest.raises(CandidateRefusedError, match="n_components must be at most"):
        find_adapter(pca(n_components=4)).check_data(9, 3, None)
    find_adapter(forest(classes=["left", "right", "none", "up"])).check_data(9, 3, CLASSES)


def test_subclasses_and_unknown_models_are_not_vetted():
    class Mine(models.GaussianNB):
        pass

    Mine.__module__ = "diffprivlib.models.naive_bayes"
    with pytest.raises(CandidateRefusedError, match="Mine is not among .* use one of DecisionTree"):
        find_adapter(Mine(bounds=(-1, 1)))
    Mine.__module__ = __name__
    with pytest.raises(CandidateRefusedError):
        find_adapter(Mine(bounds=(-1, 1)))


# ------------------------------------------------------------------------------- training is total


@pytest.mark.parametrize("make", EVERY)
def test_bad_rows_and_absent_classes_fail_no_run(make):
    X, y = make_rows()
    X[0] = [np.nan, np.inf, -np.inf]
    X[1] = 1e300
    y = y.astype(object)
    if make in CLASSIFIERS:
        y[2] = "unheard of"
        y[3] = None
    else:
        y = np.where(np.arange(len(X)) == 4, np.nan, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, fitted = train(make, X, y)
        if hasattr(fitted, "predict"):
            assert len(fitted.predict(X)) == len(X)
        else:
            assert np.all(np.isfinite(fitted.transform(X)))


@pytest.mark.parametrize("make", CLASSIFIERS)
def test_one_class_one_row_and_one_column_train(make):
    for X, y in [
        (make_rows()[0], ["left"] * 120),
        ([[0.5, 0.5, 0.5]], ["right"]),
        ([[0.5], [0.1]], ["right", "left"]),
    ]:
        _, fitted = train(make, X, y)
        assert set(fitted.predict(X)) <= set(CLASSES)


@pytest.mark.parametrize("make", EVERY)
def test_frames_lists_and_orders_give_the_same_model(make):
    pd = pytest.importorskip("pandas")
    X, y = make_rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    versions = [X, frame, X.tolist(), np.asfortranarray(X), X.astype(object)]
    seed = 2**130 + 1
    results = []
    for rows in versions:
        adapter, fitted = train(make, rows, y if make in CLASSIFIERS else X[:, 0], seed=seed)
        results.append((adapter.publish(fitted), fitted))
    method = "predict" if hasattr(results[0][1], "predict") else "transform"
    out = [getattr(fitted, method)(X) for _, fitted in results]
    for other in out[1:]:
        assert np.array_equal(out[0], other)
    assert list(results[1][0].feature_names_in_) == ["a", "b", "c"]
    assert not hasattr(results[0][0], "feature_names_in_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(results[1][0], method)(frame)


@pytest.mark.parametrize("make", EVERY)
def test_sparse_and_text_are_refused_without_quoting_a_cell(make):
    sparse = pytest.importorskip("scipy.sparse")
    X, y = make_rows()
    with pytest.raises(InvalidTypeError, match="X must be dense"):
        train(make, sparse.csr_matrix(X), y if make in CLASSIFIERS else X[:, 0])
    cells = X.astype(object)
    cells[3, 1] = "Mrs Secret"
    with pytest.raises(InvalidTypeError, match="X must hold numbers only") as caught:
        train(make, cells, y if make in CLASSIFIERS else X[:, 0])
    error = caught.value
    assert "Secret" not in str(error) and error.__cause__ is None and error.__context__ is None


def test_labels_need_a_declaration():
    with pytest.raises(InvalidParameterError, match="classes must be given to train GaussianNB"):
        find_adapter(naive_bayes()).fit([[0.0]], ["a"], classes=None, seed=None)


@pytest.mark.parametrize("make", CLASSIFIERS)
@pytest.mark.parametrize("labels", [[3, 7], ["no", "yes"], [0.5, 1.5], [True, False]])
def test_published_classes_are_the_users(make, labels):
    X, _ = make_rows(400)
    y = np.where(X[:, 0] > 0, labels[1], labels[0])
    extra = {"classes": labels} if make in (forest, tree) else {}
    adapter = find_adapter(make(epsilon=200.0, **extra))
    model = adapter.publish(adapter.fit(X, y, classes=np.unique(labels), seed=2**130))
    assert np.array_equal(model.classes_, np.unique(labels))
    assert set(model.predict(X)) <= set(np.unique(labels))
    if make is not tree:  # one random tree can be as bad as it likes
        assert np.mean(model.predict(X) == y) > 0.6


def test_clipping_is_by_column():
    """Bounds so close that the library clips all columns to the widest pair."""
    X = np.full((50, 2), 1.0)
    y = np.repeat(["left", "right"], 25)
    bounds = (np.zeros(2), np.array([1e-9, 1e-8]))
    adapter = find_adapter(naive_bayes(bounds=bounds, epsilon=1e6))
    model = adapter.publish(adapter.fit(X, y, classes=["left", "right"], seed=None))
    assert np.all(model.theta_[:, 0] <= 1e-9)
    library = diffprivlib.validation.clip_to_bounds(X, bounds)
    assert library[0, 0] == 1e-8  # the fault this guards against


# ---------------------------------------------------------------------- independence and isolation


@pytest.mark.parametrize("make", EVERY)
def test_noise_is_fresh_whatever_the_seeds_say(make):
    """Case 6: a base model with an integer seed, and a global seed set by the caller."""
    X, y = make_rows()
    adapter = find_adapter(make(random_state=0))
    target = y if make in CLASSIFIERS else X[:, 0]
    seen = set()
    for _ in range(6):
        np.random.seed(0)
        fitted = adapter.fit(X, target, classes=CLASSES, seed=None)
        seen.add(pickle.dumps(adapter.publish(fitted)))
    assert len(seen) == 6
    assert adapter.estimator.random_state == 0


@pytest.mark.parametrize("make", EVERY)
def test_a_seed_repeats_and_another_differs(make):
    X, y = make_rows()
    target = y if make in CLASSIFIERS else X[:, 0]
    adapter = find_adapter(make())
    a, b, c = (
        pickle.dumps(adapter.publish(adapter.fit(X, target, classes=CLASSES, seed=2**200 + k)))
        for k in (1, 1, 2)
    )
    assert a == b != c


@pytest.mark.parametrize("make", EVERY)
def test_no_accountant_is_charged_or_kept(make):
    X, y = make_rows()
    target = y if make in CLASSIFIERS else X[:, 0]
    mine = diffprivlib.BudgetAccountant(epsilon=1e-3)
    with diffprivlib.BudgetAccountant(epsilon=2e-3) as default:
        adapter = find_adapter(make(accountant=mine))
        model = adapter.publish(adapter.fit(X, target, classes=CLASSES, seed=None))
        calibrated = adapter.with_budget(PrivacyCurve.pure(1.0), 100, "zero-out")
    assert len(mine) == len(default) == 0
    for estimator in (model, calibrated):
        assert estimator.accountant is not mine
        assert estimator.accountant.epsilon == np.inf
    if make is forest:
        kept = [model.estimator, model.estimator_, *model.estimators_]
        assert all(e.accountant.epsilon == np.inf for e in kept)


# ------------------------------------------------------------------------------------- publication

ALLOWED = {
    logistic: {"classes_", "coef_", "intercept_"},
    naive_bayes: {"classes_", "class_count_", "class_prior_", "theta_", "var_", "epsilon_"},
    forest: {"classes_", "n_classes_", "n_outputs_", "estimators_", "estimator_"},
    tree: {"classes_", "n_classes_", "n_outputs_", "tree_"},
    linear: {"coef_", "intercept_"},
    scaler: {"mean_", "var_", "scale_"},
    pca: {
        "mean_",
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "noise_variance_",
        "n_components_",
        "n_samples_",
    },
}


@pytest.mark.parametrize("make", EVERY)
def test_published_model_is_fresh_whole_and_holds_no_row(make):
    X, y = make_rows()
    X[:, 0] = 0.7310585786300049  # one value in every row, and one row of its own
    X[0] = [0.123456789123, -0.987654321987, 0.55555123123]
    target = y if make in CLASSIFIERS else X[:, 1]
    adapter, fitted = train(make, X, target, random_state=7)
    model = adapter.publish(fitted)
    assert type(model) is type(adapter.estimator) and model is not fitted.model
    constructed = set(vars(clone(model)))
    assert set(vars(model)) - constructed <= ALLOWED[make] | {"n_features_in_"}
    assert ALLOWED[make] | {"n_features_in_"} == {
        *adapter.published_names(fitted),
        *({"estimator_"} if make is forest else ()),
    }
    assert model.random_state is None
    blob = pickle.dumps(model)
    for row in (X[0], X[1]):
        for value in row:
            assert np.float64(value).tobytes() not in blob
    for state in ("n_iter_", "_obj_coefs", "n_samples_seen_", "labels_"):
        assert not hasattr(model, state)
    again = pickle.loads(blob)
    method = "predict" if hasattr(model, "predict") else "transform"
    assert np.array_equal(getattr(again, method)(X), getattr(model, method)(X))
    assert np.array_equal(getattr(fitted, method)(X), getattr(model, method)(X))
    assert not hasattr(clone(model), "n_features_in_")


@pytest.mark.parametrize("make", EVERY)
def test_the_curators_model_travels_between_processes(make):
    X, y = make_rows()
    adapter, fitted = train(make, X, y if make in CLASSIFIERS else X[:, 0])
    travelled = pickle.loads(pickle.dumps(fitted))
    method = "predict" if hasattr(fitted.model, "predict") else "transform"
    assert np.array_equal(getattr(travelled, method)(X), getattr(fitted, method)(X))
    assert type(adapter.publish(travelled)) is type(adapter.estimator)
    assert copy.copy(fitted).model is fitted.model


def test_published_forest_trees_keep_no_seed_and_no_memory():
    X, y = make_rows()
    adapter, fitted = train(forest, X, y, n_estimators=7, random_state=3)
    model = pickle.loads(pickle.dumps(adapter.publish(fitted)))  # unpickling leaves padding dirty
    assert len(model.estimators_) == 7
    for member in model.estimators_:
        assert member.random_state is None
        nodes = member.tree_.__getstate__()["nodes"]
        used = np.zeros(nodes.dtype.itemsize, dtype=bool)
        for kind, offset in nodes.dtype.fields.values():
            used[offset : offset + kind.itemsize] = True
        raw = np.frombuffer(nodes.tobytes(), dtype=np.uint8).reshape(len(nodes), -1)
        assert (~used).any() and not raw[:, ~used].any()
        assert not nodes["n_node_samples"].any() and not nodes["impurity"].any()
        assert set(np.unique(member.tree_.value)) <= {0.0, 1.0}


def test_template_is_never_changed():
    X, y = make_rows()
    for make in EVERY:
        estimator = make(random_state=5)
        before = {k: repr(v) for k, v in vars(estimator).items()}
        adapter = find_adapter(estimator)
        adapter.publish(adapter.fit(X, y if make in CLASSIFIERS else X[:, 0], classes=CLASSES, seed=None))
        assert {k: repr(v) for k, v in vars(estimator).items()} == before


@pytest.mark.parametrize("make", CLASSIFIERS)
def test_probabilities_and_decisions_are_delegated(make):
    X, y = make_rows()
    adapter, fitted = train(make, X, y)
    model = adapter.publish(fitted)
    assert model.predict_proba(X).shape == fitted.predict_proba(X).shape == (120, 3)
    assert np.isfinite(model.score(X, y))
    if make is logistic:
        assert model.decision_function(X).shape == fitted.decision_function(X).shape == (120, 3)


# ------------------------------------------------------------------- without noise, the plain thing

HUGE = 1e9  # so much epsilon that the noise is far below the tolerances


def test_logistic_regression_solves_the_users_problem_whatever_data_norm():
    from sklearn.linear_model import LogisticRegression

    X, y = make_rows(300)
    expected = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-10).fit(X, y).coef_
    for norm in (2.0, 50.0):  # no row is longer than 2, so nothing is cut
        adapter = find_adapter(logistic(epsilon=HUGE, data_norm=norm, C=0.7))
        fitted = adapter.fit(X, y, classes=["left", "right"], seed=None)
        assert np.allclose(fitted.model.coef_, expected, atol=1e-4)
    short = find_adapter(logistic(epsilon=HUGE, data_norm=0.5, C=0.7))
    cut = 0.5 * X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 0.5)
    expected = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-10).fit(cut, y).coef_
    fitted = short.fit(X, y, classes=["left", "right"], seed=None)
    assert np.allclose(fitted.model.coef_, expected, atol=1e-4)


def test_naive_bayes_finds_moments_of_clipped_rows():
    X, y = make_rows(300)
    X[0] = 40.0
    clipped = np.clip(X, -1, 1)
    adapter = find_adapter(naive_bayes(epsilon=HUGE))
    model = adapter.fit(X, y, classes=CLASSES, seed=None).model
    for i, label in enumerate(("left", "right")):
        members = clipped[y == label]
        k = 2 * i
        assert model.class_count_[k] == len(members)
        assert np.allclose(model.theta_[k], members.mean(axis=0), atol=1e-5)
        assert np.allclose(model.var_[k], members.var(axis=0), atol=1e-5)
    given = find_adapter(naive_bayes(epsilon=HUGE, priors=[0.2, 0.5, 0.3]))
    assert list(given.fit(X, y, classes=CLASSES, seed=None).model.class_prior_) == [0.2, 0.5, 0.3]


def test_linear_regression_fits_clipped_rows():
    X, _ = make_rows(300)
    y = np.clip(X @ [1.0, 2.0, -1.0] + 2, 0, 5)
    X[0], y[1] = 1e6, 1e6
    expected = np.linalg.lstsq(np.clip(X, -1, 1), np.clip(y, 0, 5), rcond=None)[0]
    adapter = find_adapter(linear(epsilon=HUGE))
    for target in (y, y[:, None]):
        model = adapter.publish(adapter.fit(X, target, classes=None, seed=None))
        assert np.allclose(model.coef_, expected, atol=1e-3) and model.coef_.shape == (3,)
    with pytest.raises(InvalidParameterError, match="y must be of shape"):
        adapter.fit(X, np.column_stack([y, y]), classes=None, seed=None)


def test_scaler_and_pca_see_clipped_rows():
    X, _ = make_rows(300)
    X[0] = 50.0
    clipped = np.clip(X, -1, 1)
    fitted = find_adapter(scaler(epsilon=HUGE)).fit(X, None, classes=None, seed=None)
    assert np.allclose(fitted.model.mean_, clipped.mean(axis=0), atol=1e-6)
    assert np.allclose(fitted.model.scale_, clipped.std(axis=0), atol=1e-6)
    fitted = find_adapter(pca(epsilon=HUGE, n_components=3)).fit(X, None, classes=None, seed=None)
    rows = X - clipped.mean(axis=0)
    rows *= 2.0 / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 2.0)
    values, vectors = np.linalg.eigh(rows.T @ rows / 299)
    assert np.allclose(fitted.model.explained_variance_, values[::-1], rtol=1e-3)
    agreement = np.abs(np.sum(fitted.model.components_ * vectors[:, ::-1].T, axis=1))
    assert np.all(agreement > 0.999)


@pytest.mark.parametrize("shuffle", [False, True])
def test_forest_rows_are_in_one_tree_each(shuffle, monkeypatch):
    from skdptune.candidates._diffprivlib._forest import RandomForestAdapter

    seen = []
    grow = RandomForestAdapter._grow

    def watched(self, rows, target, n_classes, rng):
        seen.append(rows[:, 0].tolist())
        return grow(self, rows, target, n_classes, rng)

    monkeypatch.setattr(RandomForestAdapter, "_grow", watched)
    X, y = make_rows(53)
    train(forest, X, y, n_estimators=7, shuffle=shuffle)
    assert len(seen) == 7
    assert sorted(v for part in seen for v in part) == sorted(X[:, 0])
    if not shuffle:
        assert [v for part in seen for v in part] == X[:, 0].tolist()
        assert max(map(len, seen)) - min(map(len, seen)) <= 1
    train(forest, X[:3], y[:3], n_estimators=7, shuffle=shuffle)  # fewer rows than trees


def test_tree_leaves_hold_their_majority():
    X, y = make_rows(500)
    adapter = find_adapter(tree(epsilon=HUGE, max_depth=6))
    model = adapter.publish(adapter.fit(X, y, classes=CLASSES, seed=None))
    leaves = model.apply(X)
    for leaf in np.unique(leaves):
        labels, counts = np.unique(y[leaves == leaf], return_counts=True)
        if counts.size == 1 or counts[0] != counts[1]:
            assert model.predict(X[leaves == leaf][:1])[0] == labels[counts.argmax()]


def test_a_pipeline_of_private_steps_is_priced_trained_and_published():
    from sklearn.pipeline import make_pipeline

    X, y = make_rows(300)
    X[0, 0] = np.nan
    whole = make_pipeline(
        scaler(epsilon=0.5), pca(epsilon=0.25, centered=True, data_norm=3.0), naive_bayes(bounds=(-5, 5))
    )
    adapter = find_adapter(whole)
    adapter.check("zero-out")
    assert adapter.privacy_curve(300, "zero-out").epsilon(0.0) == pytest.approx(1.75, rel=1e-3)
    assert adapter.privacy_curve(300, "replace-one").epsilon(0.0) == pytest.approx(2.75, rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = adapter.fit(X, y, classes=CLASSES, seed=None)
        assert len(fitted.predict(X)) == 300
        model = pickle.loads(pickle.dumps(adapter.publish(fitted)))
        assert set(model.predict(X[1:])) <= set(CLASSES)
    assert isinstance(model[0], models.StandardScaler) and isinstance(model[2], models.GaussianNB)
    with pytest.raises(CandidateRefusedError, match="StandardScaler cannot be priced under"):
        adapter.check("add-remove")
