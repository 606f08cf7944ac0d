"""Equal values have equal fingerprints in every process; whatever could change a run changes the fingerprint."""

import collections
import contextvars
import dataclasses
import enum
import functools
import importlib
import itertools
import json
import logging
import math
import os
import subprocess
import sys
import textwrap
import threading
import types

import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

from skdptune._exceptions import InvalidParameterError
from skdptune.model_selection._fingerprint import examine, fingerprint
from skdptune.model_selection._fingerprint_code import is_library, version_of
from skdptune.run_counts import FromScipy, Logarithmic
from tests.model_selection.checkpoint_tools import environment


def script(source, name="curators_script"):
    """Return the names of a program, as if it had been run."""
    module = types.ModuleType(name)
    exec(compile(textwrap.dedent(source), f"/somewhere/{id(module)}.py", "exec"), vars(module))
    return types.SimpleNamespace(**vars(module))


def same(one, other):
    return fingerprint("it", one) == fingerprint("it", other)


# ---------------------------------------------------------------- code


PROGRAM = """
import numpy as np
from sklearn.base import BaseEstimator

LIMIT = 3.0
TABLE = {"a": [1, 2]}
KINDS = {"x", "y", "z"}

def helper(values, power=2):
    return sum(v ** power for v in values if v < LIMIT)

def outer(k):
    def inner(v, *, scale=1.0):
        return helper([v]) * k * scale
    return inner

score = outer(5)

def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n != 0 and even(n - 1)

class Base(BaseEstimator):
    rate = 0.5

    def step(self):
        try:
            return len(TABLE["a"]) if "x" in {"x", "y"} else even(4)
        except KeyError:
            return None

class Net(Base):
    def __init__(self, a=1):
        self.a = a

    @property
    def size(self):
        return [score(v) for v in KINDS]

    @staticmethod
    def free(x):
        return np.mean(x)

    @classmethod
    def kind(cls):
        return cls.rate

    class Inner:
        depth = 4

    def fit(self, X, y):
        super().step()
        return self
"""

EDITS = [
    ("LIMIT = 3.0", "LIMIT = 4.0", "global LIMIT that function helper reads has changed"),
    ('{"a": [1, 2]}', '{"a": [1, 3]}', "global TABLE that function Base.step reads has changed"),
    ('KINDS = {"x", "y", "z"}', 'KINDS = {"x", "y"}', "global KINDS"),
    ("power=2", "power=3", "defaults of function helper"),
    ("v ** power", "v ** power + 0", "code of function helper"),
    ("v < LIMIT", "v <= LIMIT", "code of function helper"),
    ("outer(5)", "outer(6)", "variable k that function outer.<locals>.inner encloses"),
    ("scale=1.0", "scale=2.0", "defaults of function outer.<locals>.inner"),
    ("n == 0 or", "n == 1 or", "code of function even"),
    ("n != 0 and", "n != 1 and", "code of function odd"),
    ("rate = 0.5", "rate = 0.25", "attribute rate of class Base"),
    ("except KeyError", "except IndexError", "code of function Base.step"),
    ('in {"x", "y"}', 'in {"x", "w"}', "code of function Base.step"),
    ("np.mean(x)", "np.median(x)", "code of function Net.free"),
    ("return cls.rate", "return -cls.rate", "code of function Net.kind"),
    ("depth = 4", "depth = 5", "attribute depth of class Net.Inner"),
    ("        super().step()\n", "", "code of function Net.fit"),
    ("class Net(Base)", "class Net(BaseEstimator)", "bases of class Net"),
    ("[score(v) for v in KINDS]", "[score(v) for v in KINDS if v]", "code of function Net.size"),
    ("free(x):\n        return np.mean(x)", "free(y):\n        return np.mean(y)", "code of function Net.free"),
]


def _difference(one, other):
    from skdptune.model_selection._checkpoint import _changed_part

    return _changed_part(one.parts, other.parts)


@pytest.mark.parametrize(("before", "after", "named"), EDITS)
def test_an_edit_anywhere_in_reach_is_seen_and_named(before, after, named):
    assert PROGRAM.count(before) == 1
    old, new = script(PROGRAM), script(PROGRAM.replace(before, after))
    one, other = examine("estimator", old.Net()), examine("estimator", new.Net())
    assert one.digest != other.digest
    assert named in _difference(one, other)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("LIMIT = 3.0", "\n# a comment\n\nLIMIT = 3.0  # another one"),
        ("LIMIT = 3.0", "LIMIT = 3.0\nUNUSED = 17\ndef unused(): return UNUSED"),
        ("def helper(values, power=2)", "def helper(values: list, power: int = 2) -> float"),
        ('{"x", "y", "z"}', '{"z", "y", "x"}'),
    ],
)
def test_an_edit_that_changes_nothing_is_not_seen(before, after):
    old, new = script(PROGRAM), script(PROGRAM.replace(before, after) if before else PROGRAM)
    assert same(old.Net(), new.Net())


def test_a_function_that_calls_many_others_takes_no_time_and_no_depth():
    lines = [f"def f{i}(x): return {' + '.join(f'f{j}(x)' for j in range(40))} if x else {i}" for i in range(40)]
    chain = [f"def g{i}(x): return g{i + 1}(x)" for i in range(900)] + ["def g900(x): return f0(x)"]
    program = "\n".join(lines + chain)
    one, other = script(program), script(program.replace("else 39", "else 40"))
    found = examine("scoring", one.g0), examine("scoring", other.g0)
    assert _difference(*found) == "code of function f39 has changed"


def test_shared_and_tangled_values_take_no_time():
    value = [1]
    for _ in range(60):
        value = [value, value]
    assert same(value, value)
    nodes = [types.SimpleNamespace(peers=[]) for _ in range(25)]
    for node in nodes:
        node.peers = nodes
    assert same(nodes[0], nodes[0])


@pytest.mark.parametrize("name", ["own_settings", "colorsys"])  # one of them hides a module of Python
def test_a_module_of_ones_own_counts_by_what_is_used_of_it(tmp_path, monkeypatch, name):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    program = f"""
    import {name}
    def f(x): return x * {name}.LEVEL
    def g(x):
        from {name} import call
        return call(x)
    """

    def digests(text):
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            found = script(program)
            return examine("f", found.f), examine("g", found.g)
        finally:
            sys.dont_write_bytecode = before
            sys.modules.pop(name, None)

    first = digests("LEVEL = 4\nOTHER = 1\ndef call(x): return x")
    level = digests("LEVEL = 50\nOTHER = 1\ndef call(x): return x")
    call = digests("LEVEL = 4\nOTHER = 100\ndef call(x): return x + 0")
    assert _difference(first[0], level[0]) == f"LEVEL of module {name} has changed"
    assert first[1].digest == level[1].digest
    assert first[0].digest == call[0].digest
    assert _difference(first[1], call[1]) == "code of function call has changed"


def test_a_wrapper_does_not_hide_what_it_wraps():
    program = """
    import functools
    from sklearn.metrics import accuracy_score

    def plain(y, p): return 1

    @functools.lru_cache
    def kept(y, p): return 1

    @functools.singledispatch
    def many(y, p): return 1

    @functools.wraps(accuracy_score)
    def disguised(y, p): return 1

    part = functools.partial(plain, p=1)
    """
    old, new = script(program), script(program.replace("return 1", "return 2"))
    for name in ("plain", "kept", "many", "disguised", "part"):
        before, after = (make_scorer(getattr(each, name)) for each in (old, new))
        assert not same(before, after), name
        assert same(before, make_scorer(getattr(script(program), name))), name


def test_libraries_count_by_name_and_version():
    found = examine("scoring", make_scorer(accuracy_score))
    assert found.packages == {"sklearn"}
    assert is_library("sklearn.metrics") and is_library("json") and is_library("builtins") and is_library("skdptune")
    assert not is_library("__main__") and not is_library(__name__) and not is_library("no_such_module")
    assert version_of("sklearn") == sys.modules["sklearn"].__version__
    assert version_of("no_such_package") is None
    assert examine("space", {"C": scipy.stats.uniform(0, 1)}).packages == {"scipy"}


# ---------------------------------------------------------------- equal in every process


_PROCESS = """
import sys, json
sys.path.insert(0, {folder!r})
import candidate
from skdptune.model_selection._fingerprint import fingerprint
import scipy.stats, numpy as np
from sklearn.metrics import make_scorer
values = [candidate.Net(), candidate.score, candidate.KINDS, make_scorer(candidate.helper), {{"a", 1, None, (2, "b")}},
    {{1: 2, "1": 3, None: 4, (1, "x"): {{"p", "q"}}}}, frozenset({{candidate.even, candidate.odd}}), object(), np.add,
    scipy.stats.rv_discrete(values=([1, 2], [0.5, 0.5])), scipy.stats.gaussian_kde(np.arange(9.0) ** 2), candidate,
    np.array([1, "a", None, {{3, "z"}}], dtype=object), np.random.default_rng()]
print(json.dumps([fingerprint("it", value) for value in values]))
"""


def test_fingerprints_are_the_same_in_every_process_and_folder(tmp_path):
    outputs = []
    for seed, folder in enumerate(("here", "there")):
        place = tmp_path / folder
        place.mkdir()
        (place / "candidate.py").write_text(PROGRAM)
        code = _PROCESS.format(folder=str(place))
        variables = {**environment(), "PYTHONHASHSEED": str(seed + 1)}
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, env=variables)
        assert run.returncode == 0, run.stderr.decode()
        outputs.append(json.loads(run.stdout))
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) == len(outputs[0])


# ---------------------------------------------------------------- objects


def _weighted(weights):
    return scipy.stats.rv_discrete(values=([1, 2, 3], weights))


class Thing:
    def __init__(self, **kept):
        vars(self).update(kept)


class Secretive:
    """Holds its state where only a pickle of it looks."""

    __slots__ = ("level",)

    def __init__(self, level):
        self.level = level


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


class Same(enum.Enum):
    ONE = 1


class Labelled(dict):
    pass


@dataclasses.dataclass
class Setting:
    size: int
    note: str = dataclasses.field(default="", compare=False)


def _labelled(extra):
    found = Labelled(a=1)
    found.extra = extra
    return found


DIFFERENT = {
    "rv_discrete": (_weighted([0.2, 0.3, 0.5]), _weighted([0.3, 0.2, 0.5])),
    "frozen rv_discrete": (_weighted([0.2, 0.3, 0.5])(), _weighted([0.3, 0.2, 0.5])()),
    "run count": (FromScipy(_weighted([0.2, 0.3, 0.5])()), FromScipy(_weighted([0.3, 0.2, 0.5])())),
    "run count's mean": (Logarithmic(5), Logarithmic(6)),
    "rv_histogram": tuple(scipy.stats.rv_histogram(np.histogram([1, 2, 3, end], bins=3)) for end in (4, 5)),
    "gaussian_kde": tuple(scipy.stats.gaussian_kde(np.arange(9.0) ** power) for power in (1, 2)),
    "kde's weights": tuple(scipy.stats.gaussian_kde(np.arange(3.0), weights=w) for w in ([1, 1, 1], [1, 2, 1])),
    "distribution's parameters": (scipy.stats.norm(0, 1), scipy.stats.norm(loc=0, scale=2)),
    "partial": (functools.partial(int, base=2), functools.partial(int, base=3)),
    "lambda": (lambda x: x + 1, lambda x: x + 2),
    "bound method": (Thing(a=1).__init__, Thing(a=2).__init__),
    "method of a value": ("a".join, "b".join),
    "function of C": (math.sin, math.cos),
    "ufunc": (np.add, np.subtract),
    "scipy's ufunc": (scipy.special.expit, scipy.special.logit),
    "enum": (Kind.ONE, Kind.TWO),
    "enums of two kinds": (Kind.ONE, Same.ONE),
    "dataclass": (Setting(1, "a"), Setting(1, "b")),
    "object": (Thing(_hidden=1), Thing(_hidden=2)),
    "slots": (Secretive(1), Secretive(2)),
    "attribute of a dict": (_labelled(1), _labelled(2)),
    "mixed keys": ({1: "a", "1": "b"}, {1: "b", "1": "a"}),
    "mixed set": ({1, "1"}, {1, "2"}),
    "1 and True": ([1], [True]),
    "order of an ordered dict": (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
    "default of a dict": (collections.defaultdict(int), collections.defaultdict(float)),
    "named tuple and tuple": (collections.namedtuple("P", "x")(1), (1,)),
    "nan and its sign": (math.nan, math.copysign(math.nan, -1)),
    "zero and its sign": (0.0, -0.0),
    "estimator's parameter": (LogisticRegression(C=1.0), LogisticRegression(C=2.0)),
    "estimator's hidden attribute": (BaseEstimator(), BaseEstimator()),
    "pipeline": (make_pipeline(LogisticRegression(C=1.0)), make_pipeline(LogisticRegression(C=2.0))),
    "splitter": (KFold(3), KFold(4)),
    "vectorized": (np.vectorize(math.sin), np.vectorize(math.cos)),
    "context": (contextvars.ContextVar("c", default=1), contextvars.ContextVar("c", default=2)),
}
DIFFERENT["estimator's hidden attribute"][1]._twist = 3


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_looks_different(name):
    one, other = DIFFERENT[name]
    assert not same(one, other)
    assert same(one, one) and same(other, other)


def test_what_is_computed_on_demand_does_not_count():
    class Slow:
        @functools.cached_property
        def answer(self):
            return 42

    fresh, used, count, kept = Slow(), Slow(), Logarithmic(5), Logarithmic(5)
    assert used.answer == 42 and kept.quantile(0.5) and kept.mean > 0 and kept.sample(np.random.default_rng(0)) > 0
    assert same(fresh, used) and same(count, kept)
    frozen = scipy.stats.norm(0, 1)
    frozen.rvs(), frozen.ppf(0.3)
    assert same(frozen, scipy.stats.norm(0, 1))


def test_what_sets_nothing_does_not_count():
    opened = threading.Event()
    opened.set()
    assert same(opened, threading.Event())
    assert same(np.random.RandomState(1), np.random.RandomState(2))
    assert not same(np.random.RandomState(1), np.random.default_rng(1))
    assert same(logging.getLogger("a"), logging.getLogger("a")) and same(sys.stderr, sys.stderr)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ((i for i in range(3)), "generator"),
        (np.frompyfunc(lambda x: x, 1, 1), "ufunc"),
        (threading.local(), "_local"),
        (Thing(_hidden=[{"k": (i for i in range(3))}]), "generator"),
        (BaseEstimator().set_params(), None),
        (itertools.count, None),
    ],
    ids=["generator", "ufunc", "local", "hidden", "estimator", "class"],
)
def test_what_cannot_be_told_again_is_refused_by_name(value, kind):
    if kind is None:
        assert fingerprint("scoring", value)
        return
    with pytest.raises(InvalidParameterError, match=rf"scoring is unchanged.*of type {kind}\b.*checkpoint=None"):
        fingerprint("scoring", value)


class Hostile:
    __hash__ = None

    def __eq__(self, other):
        raise ValueError("compare me not")

    def __reduce__(self):
        raise KeyError("nor copy me")


def test_objects_that_raise_are_refused_like_others():
    with pytest.raises(InvalidParameterError, match="of type Hostile"):
        fingerprint("scoring", Hostile())
    with pytest.raises(InvalidParameterError, match="raises ValueError when it is looked at"):
        fingerprint("scoring", script("""
        from sklearn.base import BaseEstimator
        class Odd(BaseEstimator):
            def get_params(self, deep=True): raise ValueError
        """).Odd())


def test_the_refusal_names_the_place():
    found = script("import threading\nCACHE = threading.local()\ndef score(y, p): return CACHE")
    with pytest.raises(InvalidParameterError, match="global CACHE that function score reads"):
        fingerprint("scoring", make_scorer(found.score))
    value = []
    for _ in range(500):
        value = [value]
    with pytest.raises(InvalidParameterError, match="nested this deeply"):
        fingerprint("scoring", value)


# ---------------------------------------------------------------- tables


FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": pd.Categorical(["p", "q"])})
ALIGNED = np.dtype([("a", "i1"), ("b", "f8")], align=True)


def _structured(filling):
    raw = np.full(2 * ALIGNED.itemsize, filling, dtype=np.uint8).view(ALIGNED)
    raw["a"], raw["b"] = 1, 2.0
    return raw


def _unsorted():
    return sparse.csr_matrix((np.array([2.0, 1.0]), np.array([1, 0]), np.array([0, 2, 2])), shape=(2, 2))


EQUAL_TABLES = {
    "order": (np.eye(3) * [1, 2, 3], np.asfortranarray(np.eye(3) * [1, 2, 3])),
    "strides": (np.arange(6)[::2], np.array([0, 2, 4])),
    "gaps between fields": (_structured(0), _structured(255)),
    "wide floats": (np.array([1.5, np.nan, -np.inf], dtype="g"), np.array([1.5, np.nan, -np.inf], dtype="g") * 1),
    "unsorted indices": (_unsorted(), sparse.csr_matrix(np.array([[1.0, 2.0], [0.0, 0.0]]))),
    "format": (sparse.csr_matrix(np.eye(3)), sparse.csc_matrix(np.eye(3))),
    "no mask and none masked": (np.ma.array([1, 2]), np.ma.array([1, 2], mask=[0, 0])),
    "frame": (FRAME, FRAME.copy()),
    "strings": (np.array(["a", "bb"], dtype=object), np.array(["a", "bb"], dtype=object)),
}

DIFFERENT_TABLES = {
    "a bit of a NaN": tuple(np.array([0x7FF8000000000000 + bit], "u8").view("f8") for bit in (0, 1)),
    "byte order": (np.array([1.0], ">f8"), np.array([1.0], "<f8")),
    "0-d and 1-d": (np.array(3), np.array([3])),
    "scalar's dtype": (np.float32(1), np.float64(1)),
    "empty shapes": (np.empty((0, 3)), np.empty((0, 4))),
    "wide floats": (np.array([1], dtype="g"), np.nextafter(np.array([1], dtype="g"), 2)),
    "records": (_structured(0), _structured(0).view(np.recarray)),
    "mask": (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0])),
    "mask at all": (np.ma.array([1, 2], mask=[0, 1]), np.array([1, 2])),
    "fill value": (np.ma.array([1, 2], fill_value=3), np.ma.array([1, 2], fill_value=4)),
    "explicit zero": (_unsorted(), sparse.csr_matrix((np.array([2.0, 1, 0]), [1, 0, 0], [0, 2, 3]), shape=(2, 2))),
    "sparse array": (sparse.csr_matrix(np.eye(2)), sparse.csr_array(np.eye(2))),
    "index": (FRAME, FRAME.set_axis([5, 6])),
    "name of the index": (FRAME, FRAME.rename_axis("row")),
    "name of the columns": (FRAME, FRAME.rename_axis(columns="column")),
    "columns": (FRAME, FRAME.rename(columns={"a": "A"})),
    "kind of a column name": (pd.DataFrame({1: [0]}), pd.DataFrame({"1": [0]})),
    "order of the columns": (FRAME[["a", "b"]], FRAME[["b", "a"]]),
    "category order": (FRAME, FRAME.assign(c=FRAME.c.cat.as_ordered())),
    "categories": (FRAME, FRAME.assign(c=FRAME.c.cat.add_categories("r"))),
    "missing": (pd.DataFrame({"a": pd.array([1, None], "Int64")}), pd.DataFrame({"a": pd.array([1, 0], "Int64")})),
    "missing text": (pd.DataFrame({"a": ["x", None]}, dtype=object), pd.DataFrame({"a": ["x", np.nan]}, dtype=object)),
    "zone": tuple(pd.DataFrame({"a": pd.date_range("2020", periods=2, tz=zone)}) for zone in ("UTC", "Asia/Tokyo")),
    "series' index": (pd.Series([1, 2]), pd.Series([1, 2], index=[1, 2])),
    "series' name": (pd.Series([1, 2]), pd.Series([1, 2], name="a")),
    "period": tuple(pd.Series(pd.period_range("2020", periods=2, freq=freq)) for freq in ("D", "M")),
    "attrs": (FRAME, FRAME.copy()),
    "texts": (np.array(["a", "bc"], dtype=object), np.array(["ab", "c"], dtype=object)),
    "objects": (np.array([1, "1"], dtype=object), np.array(["1", 1], dtype=object)),
}
DIFFERENT_TABLES["attrs"][1].attrs["source"] = "b"


@pytest.mark.parametrize("name", EQUAL_TABLES)
def test_equal_tables_look_equal(name):
    assert same(*EQUAL_TABLES[name])


@pytest.mark.parametrize("name", DIFFERENT_TABLES)
def test_different_tables_look_different(name):
    one, other = DIFFERENT_TABLES[name]
    assert not same(one, other)
    assert same(one, one.copy() if hasattr(one, "copy") else one)


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    one = polars.DataFrame({"a": [1.0, None], "b": ["x", "y"]})
    assert same(one, one.clone())
    assert not same(one, polars.DataFrame({"a": [1.0, float("nan")], "b": ["x", "y"]}))
    assert not same(one, one.rename({"a": "c"})) and not same(one["b"], one["b"].cast(polars.Categorical))


def test_tensors_and_modules():
    torch = pytest.importorskip("torch")
    layer, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    assert same(layer, layer) and not same(layer, other)
    other.load_state_dict(layer.state_dict())
    assert same(layer, other)
    ones = torch.ones(2, 3)
    assert same(ones, torch.ones(3, 2).t()) and not same(ones, torch.ones(2, 3, dtype=torch.bfloat16))
    assert not same(torch.relu, torch.tanh) and not same(torch.float32, torch.float64)
    assert same(torch.Generator().manual_seed(1), torch.Generator().manual_seed(2))
    with pytest.raises(InvalidParameterError, match="not dense"):
        fingerprint("estimator", ones.to_sparse())


def test_strings_of_numpy():
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("numpy has no such dtype")
    long = "a text that is kept outside of the array's own memory"
    assert same(np.array([long, "b"], np.dtypes.StringDType()), np.array([long, "b"], np.dtypes.StringDType()))
    assert not same(np.array([long, "b"], np.dtypes.StringDType()), np.array([long, "c"], np.dtypes.StringDType()))


def test_digests_under_two_keys_cannot_be_compared():
    assert fingerprint("X", np.eye(2), b"a") != fingerprint("X", np.eye(2), b"b")
    one, other = (examine("X", np.ma.array([1, 2]), key) for key in (b"a", b"b"))
    assert one.parts.keys() == other.parts.keys() and not set(one.parts.values()) & set(other.parts.values())


def test_the_environment_is_no_setting(monkeypatch):
    found = script("from os import environ\ndef f(x): return environ.get('A')")
    before = fingerprint("f", found.f)
    monkeypatch.setitem(os.environ, "A", "1")
    assert fingerprint("f", found.f) == before
