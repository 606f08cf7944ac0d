"""Pipelines: the price of the steps, refusals by name, publication."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler

from skdptune._exceptions import CandidateRefusedError, PricingError
from skdptune.candidates import find_adapter, row_wise
from skdptune.candidates._native import NativeAdapter
from skdptune.candidates._seeding import entropy_for
from tests.candidates.toys import FixedToy, GaussianToy, GlobalToy, RelationToy, Toy, ToyScaler, UndeclaredToy

ROWS = np.arange(12.0).reshape(6, 2) + 987654.0
LABELS = np.array([0, 1, 0, 1, 1, 0])
ORDERS = np.array([1.5, 2.0, 8.0, 32.0])


def three(**kwargs):
    return Pipeline(
        [
            ("unit", Normalizer()),
            ("shift", ToyScaler(s=2.0, random_state=0)),
            ("same", "passthrough"),
            ("clf", Toy(s=1.0, random_state=0)),
        ],
        **kwargs,
    )


def test_the_price_is_the_sum_of_the_private_steps():
    curve = find_adapter(three()).privacy_curve(10, "zero-out")
    np.testing.assert_allclose(curve.rdp(ORDERS), ORDERS / 8 + ORDERS / 2)
    parts = [NativeAdapter(e).privacy_curve(10, "zero-out") for e in (ToyScaler(2.0), Toy(1.0))]
    assert curve == parts[0] + parts[1]
    single = find_adapter(make_pipeline(Normalizer(), Toy())).privacy_curve(10, "zero-out")
    assert single == NativeAdapter(Toy()).privacy_curve(10, "zero-out")


def test_nested_pipelines_are_priced():
    nested = make_pipeline(make_pipeline(Normalizer(), ToyScaler(2.0)), Toy(1.0))
    find_adapter(nested).check("zero-out")
    curve = find_adapter(nested).privacy_curve(10, "zero-out")
    np.testing.assert_allclose(curve.rdp(ORDERS), ORDERS / 8 + ORDERS / 2)


REFUSED = [
    (
        make_pipeline(StandardScaler(), Toy()),
        "step 'standardscaler' (StandardScaler) is refused: it learns from the rows and states no cost; "
        "use diffprivlib.models.StandardScaler(bounds=...) instead.",
    ),
    (
        make_pipeline(PCA(1), Toy()),
        "step 'pca' (PCA) is refused: it learns from the rows and states no "
        "cost; use diffprivlib.models.PCA(bounds=..., data_norm=...) instead.",
    ),
    (
        make_pipeline(MinMaxScaler(), Toy()),
        "step 'minmaxscaler' (MinMaxScaler) is refused: it learns from the rows and states no cost; use "
        "FunctionTransformer(skdptune.candidates.row_wise(...)) with public constants: "
        "(X - low) / (high - low).",
    ),
    (
        make_pipeline(make_pipeline(StandardScaler()), Toy()),
        "step 'pipeline': step 'standardscaler' (StandardScaler) is refused",
    ),
    (make_pipeline(FunctionTransformer(lambda X: X - X.mean(0)), Toy()), "func is not declared row-wise"),
    (
        make_pipeline(FeatureUnion([("p", ToyScaler())]), Toy()),
        "step 'featureunion': FeatureUnion is refused: its part 'p' (ToyScaler) is private",
    ),
    (
        make_pipeline(ColumnTransformer([("p", ToyScaler(), [0])]), Toy()),
        "its part 'p' (ToyScaler) is private, and what parts side by side cost is not stated here; make it",
    ),
    (make_pipeline(Normalizer()), "without a private step"),
    (make_pipeline(Normalizer(), RelationToy()), "step 'relationtoy': RelationToy states its cost under"),
    (three(memory="cache"), "memory of Pipeline must be None: a cache would hand one noise draw"),
    (three(transform_input=["z"]), "transform_input of Pipeline must be None"),
]


@pytest.mark.parametrize(("pipeline", "message"), REFUSED)
def test_refusals_name_the_step_and_the_repair(pipeline, message):
    with pytest.raises(CandidateRefusedError) as caught:
        find_adapter(pipeline).check("replace-one")
    assert message in str(caught.value)


def test_declared_functions_are_free():
    pipeline = make_pipeline(FunctionTransformer(row_wise(lambda X: X / 9e5)), Toy())
    adapter = find_adapter(pipeline)
    adapter.check("zero-out")
    adapter.check_data(6, 2, np.array([0, 1]))
    assert any(line.startswith("Step 'functiontransformer':") for line in adapter.assumptions("zero-out"))
    mixing = make_pipeline(Normalizer(), FunctionTransformer(row_wise(lambda X: X - X.mean(0))), Toy())
    with pytest.raises(CandidateRefusedError, match="step 'functiontransformer': func of Function"):
        find_adapter(mixing).check_data(6, 2, np.array([0, 1]))


def test_privacy_params_are_prefixed_and_whole_steps_count():
    adapter = find_adapter(three())
    params = adapter.privacy_params()
    assert {"shift__s", "clf__s", "clf", "shift", "unit", "same", "steps", "memory"} <= params
    assert "unit__norm" not in params and "clf__random_state" not in params
    for name in ("shift__s", "clf", "same", "steps", "memory", "unit"):
        assert adapter.may_change_cost(name)
    for name in ("unit__norm", "clf__random_state", "verbose"):
        assert not adapter.may_change_cost(name)
    undeclared = find_adapter(make_pipeline(Normalizer(), UndeclaredToy()))
    assert {"undeclaredtoy__s", "undeclaredtoy__random_state"} <= undeclared.privacy_params()
    assert undeclared.may_change_cost("undeclaredtoy__anything")


def test_training_and_publication():
    adapter = find_adapter(three())
    fitted = adapter.fit(ROWS, LABELS, classes=np.array([0, 1]), seed=None)
    published = adapter.publish(fitted)
    assert type(published) is Pipeline and published is not fitted
    assert np.array_equal(published.predict(ROWS), fitted.predict(ROWS))
    assert published.predict_proba(ROWS).shape == (6, 2)
    assert published.classes_.tolist() == [0, 1] and published.n_features_in_ == 2
    raw = pickle.dumps(published)
    assert b"RandomState" not in raw and b"_skdptune" not in raw and ROWS[:1].tobytes() not in raw
    assert published.named_steps["clf"].random_state is None
    assert published.named_steps["same"] == "passthrough"
    assert not hasattr(adapter.estimator.named_steps["clf"], "z_")


def test_later_steps_meet_the_transformed_rows():
    class Remembering(Toy):
        published_attributes = ("z_", "seen_")

        def fit(self, X, y=None):
            super().fit(X, y)
            self.seen_ = float(np.mean(X))
            return self

    adapter = find_adapter(make_pipeline(Normalizer(), ToyScaler(s=1e3), Remembering()))
    published = adapter.publish(adapter.fit(ROWS, LABELS, classes=None, seed=None))
    shift = published.named_steps["toyscaler"].shift_
    expected = Normalizer().transform(ROWS).mean() + shift
    assert published.named_steps["remembering"].seen_ == pytest.approx(expected)


@pytest.mark.parametrize("last", [Toy(s=2.0, random_state=0), GlobalToy(s=2.0)])
def test_every_step_of_every_run_has_its_own_noise(last):
    pipeline = make_pipeline(ToyScaler(s=2.0, random_state=0), last)

    def draws(seed):
        np.random.seed(0)
        fitted = find_adapter(pipeline).fit(ROWS, LABELS, classes=None, seed=seed)
        return fitted[0].shift_, fitted[1].z_

    fresh = [value for _ in range(10) for value in draws(None)]
    assert len(set(fresh)) == 20
    a, b, c = draws(entropy_for(1)), draws(entropy_for(1)), draws(entropy_for(2))
    assert a == b and len({*a, *c}) == 4


def test_frames_go_through():
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    adapter = find_adapter(three())
    published = adapter.publish(adapter.fit(frame, LABELS, classes=None, seed=None))
    assert list(published.feature_names_in_) == ["a", "b"]
    assert published.predict(frame).shape == (6,)


@pytest.mark.parametrize("parts", [(ToyScaler(), Toy()), (Toy(),)])
def test_a_level_is_shared_equally(parts):
    adapter = find_adapter(make_pipeline(Normalizer(), *parts))
    family = adapter.level_family(10, "zero-out")
    level = family.curve(0.5)
    budgeted = adapter.with_budget(level, 10, "zero-out")
    total = find_adapter(budgeted).privacy_curve(10, "zero-out")
    assert total.lies_below(level)
    np.testing.assert_allclose(total.rdp(ORDERS), level.rdp(ORDERS), rtol=3e-3)
    noises = [step.s for _, step in budgeted.steps[1:]]
    assert max(noises) / min(noises) < 1.002
    assert all(step.s == 1.0 for _, step in adapter.estimator.steps[1:])


def test_a_level_with_a_pair_is_shared():
    adapter = find_adapter(make_pipeline(GaussianToyScaler(s=3.0), GaussianToy(s=3.0)))
    level = adapter.level_family(10, "zero-out").curve(2.0)
    budgeted = adapter.with_budget(level, 10, "zero-out")
    assert find_adapter(budgeted).privacy_curve(10, "zero-out").lies_below(level)
    assert all(2.0 <= step.s < 2.01 for _, step in budgeted.steps)


class GaussianToyScaler(ToyScaler):
    privacy_curve = GaussianToy.privacy_curve
    with_budget = GaussianToy.with_budget


def test_a_step_that_cannot_be_calibrated_is_named():
    adapter = find_adapter(make_pipeline(ToyScaler(), FixedToy()))
    assert adapter.level_family(10, "zero-out") is None
    assert adapter.calibration_refusal().startswith("step 'fixedtoy': FixedToy cannot be calibrated")
    level = NativeAdapter(Toy()).level_family(10, "zero-out").curve(1.0)
    with pytest.raises(PricingError, match="step 'fixedtoy': FixedToy cannot be calibrated"):
        adapter.with_budget(level, 10, "zero-out")
