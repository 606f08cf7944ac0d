"""Missing cells, odd kinds of arrays and declared classes: said before anything is spent, and without a cell."""

import datetime

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune.candidates import row_wise
from skdptune.model_selection._missing import Cells, cells_taken, missing
from skdptune.model_selection._rows import declared_classes
from tests.model_selection.estimators import PrivateMajority

FILL = SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)
SPACE = {"privatemajority__scale": [1.0]}
ALL = frozenset(range(3))


class Ledger:
    charged = 0

    def charge(self, spent, delta):
        self.charged += 1


class Declared(PrivateMajority):
    def __init__(self, scale=1.0, classes=None, random_state=None):
        super().__init__(scale, random_state)
        self.classes = classes


def rows(n=40):
    return np.random.RandomState(0).rand(n, 3), np.arange(n) % 2


def searching(*steps, space=SPACE, **options):
    return PrivateRandomSearchCV(make_pipeline(*steps, PrivateMajority()), space, n_iter=3, classes=[0, 1], **options)


def holed(value=np.nan, cell=(3, 1)):
    X, y = rows()
    X[cell] = value
    return X, y


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (FILL, Cells(ALL)),
        (FunctionTransformer(row_wise(np.nan_to_num)), Cells(ALL, ALL)),
        (Normalizer(), Cells()),
        (FunctionTransformer(row_wise(np.abs)), Cells()),
        (SimpleImputer(strategy="constant", fill_value=np.nan, keep_empty_features=True), Cells()),
        (ColumnTransformer([("fill", FILL, [1])], remainder="passthrough"), Cells(frozenset([1]))),
    ],
    ids=["imputer", "function", "normalizer", "function that keeps them", "imputer of nan", "one column"],
)
def test_what_a_step_takes_is_told_from_made_up_rows(step, expected):
    X, _ = rows()
    found = cells_taken(searching(step), X)
    assert found == expected
    X[:] = np.nan  # the cells themselves are never looked at
    assert cells_taken(searching(step), X) == found


def test_holes_that_are_filled_are_searched_and_predicted():
    X, y = holed()
    search = searching(FILL).fit(X, y)
    assert search.best_params_ is not None
    assert search.predict(X).shape == y.shape


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_declared_function_may_take_both(value):
    assert searching(FunctionTransformer(row_wise(np.nan_to_num))).fit(*holed(value)).best_params_ is not None


def test_frames_too():
    pd = pytest.importorskip("pandas")
    X, y = holed()
    assert searching(FILL).fit(pd.DataFrame(X, columns=list("abc")), y).best_params_ is not None


@pytest.mark.parametrize(
    ("search", "value", "words"),
    [
        (searching(Normalizer()), np.nan, "contains NaN, and no free step.*keep_empty_features=True"),
        (searching(FILL), np.inf, "contains infinity"),
        (searching(ColumnTransformer([("fill", FILL, [0])], remainder="passthrough")), np.nan, "in columns 0 only"),
        (searching(FILL, space={**SPACE, "simpleimputer": [FILL, "passthrough"]}), np.nan, "contains NaN"),
        (PrivateRandomSearchCV(PrivateMajority(), {"scale": [1.0]}), np.nan, "contains NaN, and nothing fills"),
    ],
    ids=["step", "infinite", "other column", "a drawn step", "no pipeline"],
)
def test_others_are_refused_before_the_charge(search, value, words):
    ledger = Ledger()
    with pytest.raises(ValueError, match=words):
        search.set_params(ledger=ledger, delta=1e-5).fit(*holed(value))
    assert ledger.charged == 0


def test_missing_marks():
    pd = pytest.importorskip("pandas")
    cells = np.array([1, "a", None, np.nan, pd.NA, [1]], dtype=object)
    assert missing(cells).tolist() == [False, False, True, True, True, False]


def test_arrays_that_cannot_be_used_are_refused_without_their_cells():
    X, y = rows()
    plain = PrivateRandomSearchCV(PrivateMajority(), {"scale": [1.0]}, n_iter=3)
    secret = 0.123456789
    X[0, 0] = secret
    refused = [
        (np.ma.masked_array(X, X > 0.9), y, InvalidTypeError, "without a mask"),
        (X, np.ma.masked_array(y, y > 5), InvalidTypeError, "without a mask"),
        (X + 1j, y, InvalidParameterError, "Complex data not supported"),
        ((X + 1j).tolist(), y, InvalidParameterError, "Complex data not supported"),
        (X, y + secret * 1j, InvalidParameterError, "Complex data not supported"),
        (X[:, 0], y, InvalidParameterError, "Reshape your data"),
        (X[:, 0].tolist(), y, InvalidParameterError, "Reshape your data"),
        (X.astype("datetime64[s]"), y, InvalidTypeError, "numbers or text"),
        (X, [0, 1, None, 1] * 10, InvalidParameterError, "a label in every row"),
    ]
    for bad, labels, kind, words in refused:
        with pytest.raises(kind, match=words) as caught:
            plain.fit(bad, labels)
        assert "0.1234" not in str(caught.value) and caught.value.__context__ is None


def test_extended_precision_is_taken_in_double_precision():
    X, y = rows()
    search = PrivateRandomSearchCV(PrivateMajority(), {"scale": [1.0]}, n_iter=3)
    search.fit(X.astype(np.longdouble), y)
    X = X.astype(np.longdouble)
    X[0, 0] = np.longdouble(10) ** 400
    if np.isfinite(X).all():  # wider than a double on this machine
        with pytest.raises(ValueError, match="infinity"):
            search.fit(X, y)


def test_predict_shows_no_row_either():
    X, y = rows()
    search = PrivateRandomSearchCV(PrivateMajority(), {"scale": [1.0]}, n_iter=3).fit(X, y)
    for bad in (X[0], X + 1j, np.ma.masked_array(X, X > 0.9)):
        with pytest.raises((ValueError, TypeError)) as caught:
            search.predict(bad)
        assert "0.5488" not in str(caught.value)


def test_classes_declared_to_the_model_are_the_searchs():
    X, y = rows()
    search = PrivateRandomSearchCV(Declared(classes=[0, 1, 2]), {"scale": [1.0]}, n_iter=3)
    assert any("declared to the model" in s for s in search.privacy_cost(n_samples=40).assumptions)
    assert search.fit(X, y).classes_.tolist() == [0, 1, 2]
    with pytest.raises(InvalidParameterError, match="every label of y"):
        search.fit(X, y + 5)


def test_classes_that_are_searched_or_overruled_are_not():
    model = Declared(classes=[0, 1])
    assert declared_classes(PrivateRandomSearchCV(model, {"classes": [[0, 1], [1, 0]]})) is None
    assert declared_classes(PrivateRandomSearchCV(model, {"scale": [1.0]}, classes=[0, 1, 2])) == [0, 1, 2]
    piped = make_pipeline(FILL, model)
    assert declared_classes(PrivateRandomSearchCV(piped, SPACE)) == [0, 1]
    assert declared_classes(PrivateRandomSearchCV(piped, {"declared": [model]})) is None


def test_absent_attributes_say_why():
    X, y = rows()
    search = PrivateRandomSearchCV(PrivateMajority(), {"scale": [1.0]}, n_iter=3, refit=False)
    with pytest.raises(AttributeError, match="privacy_cost"):
        search.privacy_spent_  # noqa: B018
    search.fit(X, y)
    with pytest.raises(AttributeError, match="refit=False"):
        search.best_estimator_  # noqa: B018
    with pytest.raises(AttributeError, match="never published"):
        search.best_index_  # noqa: B018
    assert not hasattr(search, "best_estimator_") and search.privacy_spent_ is not None


def test_a_wrong_name_gets_the_nearest():
    X, y = rows()
    with pytest.raises(InvalidParameterError, match="Did you mean 'scale'"):
        PrivateRandomSearchCV(PrivateMajority(), {"scal": [1.0]}).fit(X, y)
    with pytest.raises(InvalidParameterError, match="Did you mean 'privatemajority__scale'"):
        searching(FILL, space={"scale": [1.0]}).fit(X, y)


def test_a_model_without_a_price_is_named_before_its_score():
    from sklearn.linear_model import Ridge

    with pytest.raises(ValueError, match="Ridge has no privacy cost"):
        PrivateRandomSearchCV(Ridge(), {"alpha": [1.0]}).privacy_cost(n_samples=50)


MARK = 73.19731973


class Odd:
    def __init__(self):
        self.shape = (40, 2)

    def __len__(self):
        return 40

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError(f"cell {MARK}")


@pytest.mark.parametrize(
    ("place", "bad", "words"),
    [
        ("X", [[1.0, datetime.date(2073, 1, 9)]] * 40, "X given as a list must hold numbers; column 1 "),
        ("X", [[1.0, MARK], [2.0]] * 20, "inhomogeneous shape.*same number of columns"),
        ("X", np.full((40, 2), 10**400 + 7319, dtype=object), "whole numbers too large"),
        ("X", np.array(MARK), "got a single value"),
        ("X", Odd(), "X cannot be read.*RuntimeError"),
        ("y", [MARK * 1j] * 40, "Complex data not supported: y"),
        ("y", [[MARK], [MARK, 1.0]] * 20, "inhomogeneous shape"),
        ("y", np.array([MARK, "b"] * 20, dtype=object), "Unknown label type|no order"),
        ("y", np.datetime64("2073-01-09"), "got a single value"),
        ("X_public", np.full(40, MARK), "X_public must be two-dimensional; got shape"),
        ("X_public", np.full((40, 2), MARK * 1j).tolist(), "Complex data not supported: X_public"),
        ("X_public", Odd(), "X_public cannot be read"),
    ],
)
def test_no_complaint_about_rows_quotes_them_or_comes_after_the_charge(place, bad, words):
    X, y = rows()
    ledger = Ledger()
    search = PrivateRandomSearchCV(PrivateMajority(), {"scale": [1.0]}, n_iter=3, ledger=ledger, delta=1e-5)
    given = {"X": X, "y": y, **({"X_public": X + 1, "y_public": y} if place == "X_public" else {}), place: bad}
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        search.fit(**given)
    assert ledger.charged == 0 and (caught.value.__context__ is None or caught.value.__suppress_context__)
    assert not any(mark in str(caught.value) for mark in ("73.19", "7319", "2073"))


@row_wise
def hours(X):
    return X.apply(lambda column: column.dt.hour / 24.0)


@row_wise
def hours_or_none(X):
    return hours(X).fillna(0.0)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize(("read", "takes_none"), [(hours, False), (hours_or_none, True)])
def test_a_column_of_times_is_no_missing_cell_of_another(zone, read, takes_none):
    pd = pytest.importorskip("pandas")
    X, y = rows()
    when = pd.date_range("2020-01-01", periods=len(y), freq="h", tz=zone)
    frame = pd.DataFrame({"a": X[:, 0], "when": when, "job": np.where(y == 1, "u", "v")})
    frame.loc[::7, "a"] = np.nan
    steps = [("fill", FILL, ["a"]), ("hours", FunctionTransformer(read), ["when"])]
    made = searching(ColumnTransformer(steps), ledger=Ledger(), delta=1e-5)
    assert cells_taken(made, frame).missing == ({0, 1, 2} if takes_none else {0, 2})  # the third goes nowhere
    assert made.fit(frame, y).best_params_ is not None
    frame.loc[3, "when"] = None
    if not takes_none:
        with pytest.raises(InvalidParameterError, match="in columns 0, 2 only"):
            made.fit(frame, y)
    assert made.ledger.charged == 1
