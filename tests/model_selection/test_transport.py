"""How rows reach the workers: once, mapped and not copied, read-only, and gone afterwards."""

import contextlib
import errno
import os
import pickle
import stat
import subprocess
import sys
import textwrap
import time
from concurrent.futures.process import BrokenProcessPool

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from joblib import Parallel, delayed

from skdptune._exceptions import SkdptuneError, TransportError
from skdptune.model_selection import _transport
from skdptune.model_selection._transport import dump_payload, load_payload, own, shipping, worker_died

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 7))
TABLES = {
    "C order": ROWS,
    "Fortran order": np.asfortranarray(ROWS),
    "strided": ROWS[::2, ::-1],
    "single precision": ROWS.astype(np.float32),
    "no rows": ROWS[:0],
    "objects": np.array([["a", None], ["b", 3.5]], dtype=object),
    "texts": np.array(["yes", "no", "yes"]),
    "CSR matrix": scipy.sparse.csr_matrix(ROWS * (ROWS > 1)),
    "CSC array": scipy.sparse.csc_array(ROWS * (ROWS > 1)),
    "COO": scipy.sparse.coo_array(ROWS * (ROWS > 1)),
    "LIL": scipy.sparse.lil_matrix(ROWS * (ROWS > 1)),
    "DataFrame": pd.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1], "c": ["x"] * len(ROWS), "d": np.arange(len(ROWS))}),
    "Series": pd.Series(ROWS[:, 0], name="target"),
}


def same(a, b):
    if isinstance(a, (pd.DataFrame, pd.Series)):
        return type(a) is type(b) and a.equals(b)
    if scipy.sparse.issparse(a):
        return type(a) is type(b) and np.array_equal(a.toarray(), b.toarray())
    return a.dtype == b.dtype and a.flags.f_contiguous == b.flags.f_contiguous and np.array_equal(a, b)


@pytest.mark.parametrize("name", TABLES)
def test_what_is_loaded_is_what_was_dumped(name, tmp_path):
    table = TABLES[name]
    path = dump_payload(("plan", table), str(tmp_path))
    plan, loaded = load_payload(path)
    assert plan == "plan" and (same(table, loaded) or name == "strided" and np.array_equal(table, loaded))
    assert same(own(loaded), loaded)
    for each in (path, path + ".rows"):
        assert stat.S_IMODE(os.stat(each).st_mode) == 0o600


def attempts_to_write(table):
    """Every way in which a candidate may try to change its rows in place."""
    if isinstance(table, pd.DataFrame):
        yield lambda: table.__setitem__("a", 0.0)
        yield lambda: table.iloc.__setitem__((0, 0), 77.0)
        yield lambda: table.drop(columns="b", inplace=True)
        yield lambda: table["a"].to_numpy().__setitem__(0, 77.0)
    elif isinstance(table, pd.Series):
        yield lambda: table.iloc.__setitem__(0, 77.0)
    elif scipy.sparse.issparse(table):
        yield lambda: table.__setitem__((0, 0), 77.0)
        if hasattr(table, "data"):
            yield lambda: table.data.__setitem__(0, 77.0)
            yield lambda: table.__imul__(2.0)
    else:
        yield lambda: table.__setitem__(0, table[-1])
        yield lambda: table.sort(axis=0)


@pytest.mark.filterwarnings("ignore")  # pandas and scipy comment on what is tried here
@pytest.mark.parametrize("name", [name for name in TABLES if name != "no rows"])
@pytest.mark.parametrize("where", ["in the parent", "in a worker"])
def test_no_try_can_change_the_rows_of_another(name, where, tmp_path):
    original = pickle.loads(pickle.dumps(TABLES[name]))
    held = original if where == "in the parent" else load_payload(dump_payload(original, str(tmp_path)))
    for i in range(len(list(attempts_to_write(own(held))))):
        with contextlib.suppress(Exception):
            list(attempts_to_write(own(held)))[i]()
        assert same(TABLES[name], held) or name == "strided" and np.array_equal(TABLES[name], held)


def parts_of(table):
    if isinstance(table, np.ndarray):
        return [table]
    if scipy.sparse.issparse(table):
        return [table.data, table.indices, table.indptr] if table.format == "csr" else []
    return [table[name].to_numpy() for name in table] if isinstance(table, pd.DataFrame) else []


@pytest.mark.parametrize("name", list(TABLES))
def test_writing_past_numpy_reaches_no_other_try(name, tmp_path):
    for part, mine in zip(parts_of(TABLES[name]), parts_of(own(TABLES[name])), strict=True):
        assert not np.shares_memory(part, mine)
    held = load_payload(dump_payload(ROWS, str(tmp_path)))
    assert np.shares_memory(own(held), held)  # no copy, because nobody can write there
    with pytest.raises(ValueError, match="WRITEABLE"):
        held.flags.writeable = True
    assert own("anything else") == "anything else"


def test_parts_of_a_dictionary_and_lists_are_safe_too():
    keyed = {"a": ROWS.copy()}
    with pytest.raises(ValueError, match="read-only"):
        own(keyed)["a"][0] = 7.0
    own(keyed)["b"] = 1
    texts = ["a", "b"]
    own(texts).append("c")
    assert list(keyed) == ["a"] and texts == ["a", "b"]


def test_rows_are_mapped_and_not_copied(tmp_path):
    path = dump_payload({"X": ROWS, "S": TABLES["CSR matrix"], "D": pd.DataFrame(ROWS)}, str(tmp_path))
    loaded = load_payload(path)
    span = np.frombuffer(np.memmap(path + ".rows", mode="r"), dtype=np.uint8)
    assert span.nbytes >= 2 * ROWS.nbytes
    for array in (loaded["X"], loaded["S"].data, loaded["D"].to_numpy()):
        base = array
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base, memoryview) and base.readonly and type(base.obj).__name__ == "mmap"
        assert array.ctypes.data % _transport.ALIGNMENT == 0


def look(ticket, i):
    plan, data = ticket.load()
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        plan = "payload-" in file.read()
    return os.getpid(), id(data), own(data).flags.writeable, float(data.sum()), plan


def held_by_the_worker(i):
    time.sleep(0.05)
    return len(_transport._CACHE.entries)


@pytest.mark.parametrize("engine", ["sequential", "threading", "loky", "multiprocessing"])
def test_each_worker_has_the_rows_once_and_forgets_them(engine, tmp_path):
    with joblib.parallel_config(engine):
        with shipping((None, ROWS), str(tmp_path), n_jobs=2) as shipment:
            seen = set(Parallel(2)(delayed(look)(shipment.ticket, i) for i in range(40)))
            if engine in ("sequential", "threading"):
                assert not list(tmp_path.iterdir())  # nothing is written for workers of this process
        assert len({worker for worker, *_ in seen}) == len({found[:2] for found in seen})  # one object per worker
        assert {found[2:4] for found in seen} == {(False, float(ROWS.sum()))}
        if engine == "loky":
            assert all(mapped for *_, mapped in seen) or not os.path.exists("/proc/self/maps")
            for path in tmp_path.iterdir():
                path.unlink()  # as the end of the search does
            deadline = time.monotonic() + 30
            while set(Parallel(2)(delayed(held_by_the_worker)(i) for i in range(8))) != {0}:
                assert time.monotonic() < deadline, "a worker still holds the rows of a search that is over"
    assert shipment.token not in _transport._CACHE.adopted


def test_a_ticket_is_small_and_its_process_loads_once(tmp_path):
    with shipping((None, ROWS), str(tmp_path), n_jobs=1) as shipment:
        blob = pickle.dumps(shipment.ticket)
        assert len(blob) < 400 and pickle.loads(blob).load()[1] is ROWS  # the parent has the very objects
        _transport._CACHE.forget(shipment.token)  # as in another process
        ticket = pickle.loads(blob)
        first = ticket.load()
        assert pickle.loads(pickle.dumps(ticket)).load() is first
    _transport._CACHE.forget(ticket.token)


def test_the_cache_is_small_and_forgets_what_nobody_asks_for():
    cache = _transport._Cache()
    cache.watching = True  # no thread here
    for i in range(10):
        assert cache.get(f"t{i}", lambda i=i: i) == i
    assert len(cache.entries) == cache.LIMIT and "t9" in cache.entries
    assert cache.get("t9", lambda: pytest.fail("loaded twice")) == 9
    cache._drop_ended(time.monotonic() + cache.IDLE / 2)
    assert len(cache.entries) == cache.LIMIT
    cache._drop_ended(time.monotonic() + cache.IDLE + 1)
    assert not cache.entries
    cache.get("gone", lambda: 1, path="/nowhere/at/all")
    cache._drop_ended(time.monotonic())
    assert not cache.entries


SCRIPT = """
import sys, tempfile
import joblib
from joblib import Parallel, delayed
from skdptune.model_selection._transport import dump_payload, load_payload, shipping

class Model:
    shift = staticmethod(lambda value: value + 1)

def work(ticket):
    model, data = ticket.load()
    return model, model.shift(data)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, joblib.parallel_config("loky"):
        with shipping((Model(), 1), folder, n_jobs=2) as shipment:
            results = Parallel(2)(delayed(work)(shipment.ticket) for _ in range(4))
    print(all(type(model) is Model and value == 2 for model, value in results))
"""


def test_classes_of_a_script_come_back_as_themselves(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True, env=env, timeout=120)
    assert done.stdout.strip() == "True", done.stderr


def test_a_bare_process_can_load_what_is_portable(tmp_path):
    class Local:
        def rows(self, data):
            return data.shape[0]

    path = dump_payload((Local(), ROWS), str(tmp_path))
    code = f"""
        from skdptune.model_selection._transport import load_payload
        model, data = load_payload({path!r})
        print(model.rows(data), data.flags.writeable)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["300", "False"], done.stderr


class _Full:
    """A file on a full disk."""

    def __init__(self, *args):
        self.written = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass

    def tell(self):
        return self.written

    def write(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("engine", ["loky", "threading"])
def test_a_full_disk_is_a_clear_error_before_any_try(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(_transport, "_create", _Full)
    with joblib.parallel_config(engine):
        if engine == "threading":  # needs no file
            with shipping((None, ROWS), str(tmp_path), n_jobs=2) as shipment:
                assert shipment.load()[1] is ROWS
            return
        with (
            pytest.raises(TransportError, match="disk was full after .* Make room there") as caught,
            shipping((None, ROWS), str(tmp_path), n_jobs=2),
        ):
            pytest.fail("a try would have started")
    assert isinstance(caught.value, SkdptuneError) and isinstance(caught.value, OSError)
    assert not list(tmp_path.iterdir()) and caught.value.__cause__ is None


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path):
    with pytest.raises(TransportError, match="could not be written to .*: No such file or directory"):
        dump_payload(ROWS, str(tmp_path / "missing"))


def test_an_unknown_engine_carries_everything_but_loads_it_once():
    shipment = _transport._kind_of(object())((None, ROWS), None, None)
    blob = pickle.dumps(shipment.ticket)
    assert len(blob) > ROWS.nbytes
    shipment.close()
    ticket = pickle.loads(blob)
    first = ticket.load()
    assert np.array_equal(first[1], ROWS) and pickle.loads(blob).load() is first
    _transport._CACHE.forget(ticket.token)


def test_what_an_object_says_of_its_size_counts_the_rows():
    for table in (ROWS, TABLES["CSR matrix"], TABLES["DataFrame"]):
        assert sys.getsizeof(_transport._Parcel((None, [table]))) > 1000
    assert sys.getsizeof(_transport._Parcel((None, ROWS))) >= ROWS.nbytes


def test_a_lost_worker_is_told_from_a_failed_try():
    class KilledWorker(Exception):  # noqa: N818
        """Named as dask's."""

    class ActorDiedError(Exception):
        """Named as ray's."""

    wrapped = RuntimeError("an engine's wrapping")
    wrapped.__cause__ = ActorDiedError()
    for error in (BrokenProcessPool(), KilledWorker(), ActorDiedError(), wrapped):
        assert worker_died(error)
    for error in (ValueError("BrokenProcessPool"), MemoryError(), KeyboardInterrupt(), TransportError()):
        assert not worker_died(error)


def test_files_go_with_their_shipment(tmp_path):
    for _ in range(2):  # a pool that broke is replaced, and the rows are written once more
        with joblib.parallel_config(backend="loky"), shipping((None, ROWS), str(tmp_path), n_jobs=2):
            assert len(os.listdir(tmp_path)) == 2
        assert not os.listdir(tmp_path)
