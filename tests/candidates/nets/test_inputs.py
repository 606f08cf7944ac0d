"""Rows in every shape that users bring."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

pytest.importorskip("torch")

import torch  # noqa: E402
from sklearn.base import clone  # noqa: E402
from torch import nn  # noqa: E402

from skdptune._exceptions import InvalidParameterError, InvalidTypeError  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import MLP, DPNeuralNetClassifier, DPNeuralNetRegressor  # noqa: E402
from skdptune.candidates.nets._rows import Rows  # noqa: E402
from skdptune.candidates.nets._tasks import Classification, Regression  # noqa: E402
from tests.candidates.nets.toys import Images, Small, TwoInputs, Words  # noqa: E402

BASE = np.round(np.random.default_rng(0).normal(size=(40, 4)), 2)
CODES = (BASE[:, 0] > 0).astype(int)
SEED = 11 << 190


def trained(X, y=CODES, **params):
    net = DPNeuralNetClassifier(Small, steps=6, expected_batch_size=20, **params)
    return find_adapter(net).fit(X, y, classes=np.unique(y), seed=SEED)


SHAPES = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "big-endian": lambda X: X.astype(">f8"),
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "frame": lambda X: pd.DataFrame(X, columns=list("abcd")),
    "mixed frame": lambda X: pd.DataFrame(X, columns=list("abcd")).astype({"a": np.float32}),
    "csr": sp.csr_matrix,
    "csc": sp.csc_array,
    "tensor": torch.from_numpy,
    "tensor with gradient": lambda X: torch.tensor(X, requires_grad=True),
    "lists": lambda X: X.tolist(),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_rows_train_the_same_net(shape):
    expected = trained(BASE)
    X = SHAPES[shape](BASE)
    net = trained(X)
    np.testing.assert_allclose(net.predict_proba(X), expected.predict_proba(BASE), rtol=1e-4, atol=1e-6)
    own = clone(net).fit(X, CODES)
    assert own.predict(X).shape == (40,) and own.n_features_in_ == 4
    if shape == "frame":
        assert list(own.feature_names_in_) == list(net.feature_names_in_) == list("abcd")


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64, bool])
def test_whole_numbers_become_floats(kind):
    X = np.abs(BASE * 10).astype(kind)
    assert trained(X).predict(X).shape == (40,)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"])[CODES],
        np.array(["no", "yes"], dtype=object)[CODES],
        pd.Series(np.array(["no", "yes"])[CODES]),
        np.array([-1, 1])[CODES],
        np.array([False, True])[CODES],
        np.array([0.0, 2.0])[CODES],
        torch.from_numpy(CODES),
    ],
)
def test_labels_of_every_kind(labels):
    net = DPNeuralNetClassifier(Small, steps=3).fit(BASE, labels)
    predicted = net.predict(BASE)
    assert set(predicted.tolist()) <= set(np.asarray(labels).tolist())
    assert predicted.dtype == net.classes_.dtype
    assert net.predict_proba(BASE).shape == (40, 2)


def test_declared_classes_that_are_absent():
    net = DPNeuralNetClassifier(MLP, steps=3, classes=["c", "a", "b"])
    net.fit(BASE, np.array(["a", "b"])[CODES])
    assert list(net.classes_) == ["a", "b", "c"] and net.predict_proba(BASE).shape == (40, 3)
    task = Classification(("a", "b", "c"))
    assert task.encode(np.array(["c", "a"], dtype=object), torch.float32).tolist() == [2, 0]


def test_one_class():
    net = DPNeuralNetClassifier(MLP, steps=3).fit(BASE, ["only"] * 40)
    assert set(net.predict(BASE)) == {"only"}


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(2, 2)

    def forward(self, a, b):
        return self.last(torch.stack([a, b], 1))


def test_a_dict_of_series():
    """Joined by position, as scikit-learn joins X and y."""
    frame = pd.DataFrame(BASE, columns=list("abcd"))
    net = DPNeuralNetClassifier(Sum, steps=2).fit({"a": frame.a, "b": frame.b[::-1]}, CODES)
    plain = {"a": BASE[:, 0], "b": BASE[::-1, 1]}
    np.testing.assert_array_equal(net.predict_proba({"a": frame.a, "b": frame.b[::-1]}), net.predict_proba(plain))


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost", "rows"])
def test_a_dict_of_arrays(mode):
    X = {"table": BASE[:, :3], "word": np.arange(80).reshape(40, 2) % 7}
    net = DPNeuralNetClassifier(TwoInputs, steps=3, grad_sample_mode=mode).fit(X, CODES)
    assert net.predict(X).shape == (40,) and not hasattr(net, "n_features_in_")
    twin = DPNeuralNetClassifier(TwoInputs, steps=3).fit({"table": sp.csr_matrix(X["table"]), "word": X["word"]}, CODES)
    assert twin.predict(X).shape == (40,)
    with pytest.raises(InvalidParameterError, match="one number of rows"):
        net.fit({"table": BASE[:, :3], "word": np.zeros((3, 2), int)}, CODES)


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost", "rows"])
def test_words(mode):
    X = np.arange(200).reshape(40, 5) % 7
    net = DPNeuralNetClassifier(Words, steps=3, input_dtype="int64", grad_sample_mode=mode).fit(X, CODES)
    assert net.predict(X).shape == (40,)


def test_a_word_outside_the_vocabulary_does_not_stop_training():
    X = np.arange(200).reshape(40, 5) % 7
    X[3, 2] = 99
    find_adapter(DPNeuralNetClassifier(Words, steps=5, sample_rate=0.9, input_dtype="int64")).fit(
        X, CODES, classes=np.array([0, 1]), seed=None
    )


def test_images_flat_and_square():
    flat = np.random.default_rng(0).normal(size=(30, 64))
    y = np.arange(30) % 3
    net = DPNeuralNetClassifier(Images, steps=3).fit(flat, y)
    square = DPNeuralNetClassifier(Images, steps=3).fit(flat.reshape(30, 1, 8, 8), y)
    assert net.predict(flat).shape == square.predict(flat.reshape(30, 1, 8, 8)).shape == (30,)
    reshaping = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3))
    assert DPNeuralNetClassifier(reshaping, steps=3).fit(flat, y).predict(flat).shape == (30,)


def test_targets_of_a_regressor():
    for y in (BASE[:, 0], BASE[:, :1].ravel().astype(np.float32), BASE[:, :2], CODES):
        net = DPNeuralNetRegressor(steps=3).fit(BASE, y)
        assert net.predict(BASE).shape == np.shape(y)
    task = Regression(bounds=(0.0, 10.0))
    encoded = task.encode([-5.0, 0.0, 5.0, 99.0], torch.float32)
    assert encoded.tolist() == [-1.0, -1.0, 0.0, 1.0]
    assert task.decode(np.array([[-3.0], [0.0], [1.0]])).tolist() == [0.0, 5.0, 10.0]
    assert not hasattr(DPNeuralNetRegressor(), "predict_proba")


def test_other_losses_of_a_regressor():
    for criterion in (nn.L1Loss, nn.HuberLoss, nn.SmoothL1Loss):
        net = DPNeuralNetRegressor(criterion=criterion, steps=3).fit(BASE, BASE[:, 0])
        assert np.isfinite(net.predict(BASE)).all()


def test_targets_that_are_not_finite_contribute_nothing():
    y = BASE[:, 0].copy()
    y[:5] = [np.nan, np.inf, -np.inf, 1e300, -1e300]
    net = find_adapter(DPNeuralNetRegressor(steps=5, sample_rate=1.0)).fit(BASE, y, classes=None, seed=None)
    assert all(bool(torch.isfinite(p).all()) for p in net.module_.parameters())


def test_rows_are_never_converted_as_a_whole():
    X = np.zeros((1000, 50), dtype=np.uint8)
    rows = Rows(X)
    assert np.shares_memory(rows._parts[None], X)
    batch = rows.take(np.arange(3), dtype=torch.float32, whole=None, device="cpu")
    assert batch.dtype == torch.float32 and batch.shape == (3, 50)


@pytest.mark.parametrize(
    ("X", "error"),
    [({}, InvalidParameterError), ({"table": np.float64(3)}, InvalidTypeError)],
)
def test_rows_of_no_shape(X, error):
    with pytest.raises(error, match="X must"):
        Rows(X)


def test_an_empty_part_trains_on_noise_alone():
    net = DPNeuralNetClassifier(Small, steps=3, sample_rate=0.1, n_samples=50)
    trained = find_adapter(net).fit(np.zeros((0, 4)), np.zeros(0, int), classes=np.array([0, 1]), seed=None)
    assert trained.predict(BASE).shape == (40,)


def test_predicting_with_other_columns_is_an_error():
    net = DPNeuralNetClassifier(MLP, steps=2).fit(BASE, CODES)
    with pytest.raises(ValueError, match="features"):
        net.predict(BASE[:, :2])


def test_skorch_manners():
    net = DPNeuralNetClassifier(Small, steps=3, module__width=7, predict_nonlinearity=None).fit(BASE, CODES)
    assert net.module_.first.out_features == 7
    assert net.forward(BASE).shape == (40, 2)
    assert net.get_params_for("module") == {"width": 7}
    net.set_params(module__width=3)
    assert net.module_.first.out_features == 7 and clone(net).fit(BASE, CODES).module_.first.out_features == 3
    assert clone(net).get_params() == net.get_params()
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        net.set_params(colour=3)


def test_save_params(tmp_path):
    net = DPNeuralNetClassifier(Small, steps=3).fit(BASE, CODES)
    other = DPNeuralNetClassifier(Small, steps=3).fit(BASE, CODES)
    net.save_params(f_params=tmp_path / "weights.pt")
    other.load_params(f_params=tmp_path / "weights.pt")
    np.testing.assert_array_equal(net.predict_proba(BASE), other.predict_proba(BASE))


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": ["4711-secret"] * 40}),
        np.array([["4711-secret"]] * 40, dtype=object),
        {"table": np.array([["4711-secret"]] * 40, dtype=object)},
        {"table": np.array([["4711-secret"]] * 40)},
    ],
)
def test_complaints_about_text_quote_no_cell(X):
    with pytest.raises(InvalidParameterError, match="X must be numeric") as caught:
        DPNeuralNetClassifier(steps=2).fit(X, CODES)
    chain, error = [], caught.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__ or error.__context__
    assert not any("4711" in text for text in chain)


def test_names_and_lengths_of_dicts():
    table, word = BASE[:, :3], np.ones((40, 2), int)
    with pytest.raises(InvalidTypeError, match="keys are the names of arguments of forward"):
        DPNeuralNetClassifier(TwoInputs, steps=2).fit({"table": table, 1: word}, CODES)
    net = DPNeuralNetClassifier(TwoInputs, steps=2).fit({"table": table, "word": word}, CODES)
    with pytest.raises(InvalidParameterError, match="X must have at least one row; got none"):
        net.predict({"table": table[:0], "word": word[:0]})


SECRET = 42.4242
BAD = {
    "complex rows": lambda: (BASE + SECRET * 1j, CODES),
    "complex targets": lambda: (BASE, CODES + SECRET * 1j),
    "one column without a second dimension": lambda: (BASE[:, 0] + SECRET, CODES),
    "dates": lambda: (pd.DataFrame({"a": pd.date_range("2020-04-24", periods=40), "b": 1.0}), CODES),
    "dates alone": lambda: (pd.DataFrame({"a": pd.date_range("2020-04-24", periods=40, tz="UTC")}), CODES),
    "durations": lambda: (np.arange(424, 464).reshape(40, 1).astype("timedelta64[D]"), CODES),
    "dates in a dict": lambda: ({"x": pd.Series(pd.date_range("2020-04-24", periods=40))}, CODES),
    "dates as labels": lambda: (BASE, pd.Series(pd.date_range("2020-04-24", periods=40))),
    "a missing cell": lambda: (pd.DataFrame({"a": pd.Series([pd.NA, SECRET] * 20, dtype=object), "b": 1.0}), CODES),
    "a list with a missing label": lambda: (BASE, [pd.NA] + ["SECRET424"] * 39),
    "objects with a missing label": lambda: (BASE, np.array([None] + ["SECRET424"] * 39, dtype=object)),
    "numbers with a missing label": lambda: (BASE, pd.Series([pd.NA, 424] * 20, dtype="Int64")),
    "objects": lambda: (pd.DataFrame({"a": [{"value": SECRET}] * 40, "b": 1.0}), CODES),
    "huge whole numbers": lambda: (pd.DataFrame({"a": [10**400 + 424242] * 40, "b": 1.0}, dtype=object), CODES),
    "a dict of complex numbers": lambda: ({"x": BASE + SECRET * 1j}, CODES),
    "a sparse tensor": lambda: (torch.tensor(BASE + SECRET).to_sparse(), CODES),
    "a missing label": lambda: (BASE, pd.Series([pd.NA] + ["SECRET424"] * 39, dtype="string")),
}


def complaint(call):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    link, said = caught.value, ""
    while link is not None:
        said, link = said + str(link), None if link.__suppress_context__ else link.__cause__ or link.__context__
    return said


@pytest.mark.parametrize("case", BAD)
def test_complaints_quote_no_cell(case):
    X, y = BAD[case]()
    said = complaint(lambda: DPNeuralNetClassifier(steps=2).fit(X, y))
    assert "424" not in said and "2020" not in said and len(said) < 400, said


@pytest.mark.parametrize("case", [case for case in BAD if "dates" in case or "durations" in case or "missing" in case])
def test_complaints_name_what_is_wrong(case):
    X, y = BAD[case]()
    said = complaint(lambda: DPNeuralNetClassifier(steps=2).fit(X, y))
    name = "y" if "label" in case else "X"
    wrong = "missing" if "missing" in case else "dates, times or durations"
    assert said.startswith(f"{name} must ") and wrong in said


@pytest.mark.parametrize("case", ["complex rows", "complex targets", "one column without a second dimension"])
def test_a_search_quotes_no_cell_either(case):
    from skdptune import PrivateRandomSearchCV

    X, y = BAD[case]()
    said = complaint(lambda: PrivateRandomSearchCV(DPNeuralNetClassifier(steps=2), {"lr": [0.1]}).fit(X, y))
    assert "424" not in said and len(said) < 400, said


def test_rows_to_predict_must_be_like_those_of_fit():
    said = complaint(lambda: DPNeuralNetClassifier(steps=2).fit(BASE, CODES).predict(BASE[0] + SECRET))
    assert "Reshape your data" in said and "424" not in said
    net = DPNeuralNetClassifier(TwoInputs, steps=2).fit({"table": BASE[:, :3], "word": np.ones((40, 2), int)}, CODES)
    with pytest.raises(InvalidParameterError, match=r"table: shape \(3,\), word: shape \(2,\)\); got table"):
        net.predict({"table": BASE[:, :3]})
    with pytest.raises(InvalidParameterError, match="X must hold rows as in fit"):
        DPNeuralNetClassifier(steps=2).fit(BASE, CODES).predict(torch.tensor(BASE[:, :2]))


def test_kinds_of_numbers_that_torch_has_not():
    assert trained(BASE.astype(np.longdouble)).predict(BASE).shape == (40,)
    assert DPNeuralNetRegressor(steps=2).fit(BASE, torch.tensor(BASE[:, 0]).bfloat16()).predict(BASE).shape == (40,)
    with torch.device("meta"):
        assert DPNeuralNetClassifier(steps=2).fit(BASE, CODES).predict(BASE).shape == (40,)
    with pytest.raises(InvalidParameterError, match="classes must be labels"):
        DPNeuralNetClassifier(classes=[0, 1, np.nan]).fit(BASE, CODES)
