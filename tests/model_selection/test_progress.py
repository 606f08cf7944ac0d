"""What the curator is told while a search goes on, and that nobody else is told anything."""

import io
import logging
import os
import re
import signal
import subprocess
import sys
import time
import warnings

import pytest

from skdptune.model_selection import _progress, _quiet
from skdptune.model_selection._progress import Progress

NOTICE = "must not be published"


def test_silent_unless_asked(capfd, caplog):
    with caplog.at_level(logging.INFO), Progress(0, total=3) as progress:  # the root's level is not a question
        progress.step()
    assert capfd.readouterr() == ("", "") and not caplog.records


def test_lines_say_once_whom_they_are_for(capfd):
    with Progress(2, total=5, done=2) as progress, _quiet.quiet():
        for _ in range(3):
            progress.step()
            print("a run speaks", file=sys.stderr)
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert out == "" and "a run speaks" not in err
    assert err.count(NOTICE) == 1 and NOTICE in lines[0]
    assert "3 of 5 tries" in lines[1] and "left" in lines[1] and "done: 5 tries" in lines[-1]


def test_finished_tries_of_an_earlier_process_count_but_not_for_the_rate():
    pace = _progress._Pace(total=100, resumed=50)
    pace.start()
    pace.started -= 10.0
    pace.finished = 10
    assert pace.done == 60 and pace.rate == pytest.approx(1.0, rel=1e-3) and pace.left == pytest.approx(40, rel=1e-3)
    assert re.fullmatch(r"60 of 100 tries in 10\.\d s, (one in 1\.0 s|1\.0 a second), about \d\d\.\d s left", str(pace))
    pace.started -= 90.0
    assert "one in 10.0 s" in str(pace) and "about 6 min 40 s left" in str(pace)


def test_lines_come_at_most_once_a_second(capfd, monkeypatch):
    clock = iter(range(100_000))
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock) / 100)  # every look takes 10 ms
    with Progress(1, total=1000) as progress:
        for _ in range(1000):
            progress.step()
    lines = capfd.readouterr().err.splitlines()
    assert 5 < len(lines) < 40


def test_the_log_is_for_those_who_ask_its_own_logger(caplog, monkeypatch):
    monkeypatch.setattr(Progress, "LOG_EVERY", 0.0)
    with caplog.at_level(logging.INFO, logger="skdptune.curator"), Progress(0, total=2) as progress, _quiet.quiet():
        logging.getLogger("some.library").error("a run speaks")
        progress.step()
    texts = [record.getMessage() for record in caplog.records]
    assert sum(NOTICE in text for text in texts) == 1 and NOTICE in texts[0] and "search of 2 tries" in texts[0]
    assert texts[1].startswith("1 of 2 tries") and texts[-1].startswith("done: 1 tries") and len(texts) == 3


def test_debugging_wants_an_explicit_level(caplog):
    with caplog.at_level(logging.DEBUG):  # an application that logs everything has not asked for private rows
        assert not _quiet.debugging()
    for name in ("skdptune", "skdptune.curator"):
        with caplog.at_level(logging.DEBUG, logger=name):
            assert _quiet.debugging()
    with caplog.at_level(logging.DEBUG, logger="skdptune"), caplog.at_level(logging.INFO, logger="skdptune.curator"):
        assert not _quiet.debugging()


def test_an_error_stops_the_count_and_leaves_the_stream_alone():
    stream = io.StringIO()  # a notebook's stderr: no descriptor
    stderr, sys.stderr = sys.stderr, stream
    try:
        with pytest.raises(ZeroDivisionError), Progress(1, total=4) as progress, _quiet.quiet():
            progress.step()
            raise ZeroDivisionError
    finally:
        sys.stderr = stderr
    assert not stream.closed and "stopped: 1 tries" in stream.getvalue()


class Broken(io.StringIO):
    """Its reader has gone."""

    def write(self, text):
        raise BrokenPipeError

    def close(self):
        raise BrokenPipeError


class Odd(Broken):
    """Raises what no stream should."""

    def fileno(self):
        raise RuntimeError

    def write(self, text):
        raise ZeroDivisionError


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


def a_closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


@pytest.mark.parametrize("make", [Broken, Odd, closed, a_closed_pipe, lambda: None])
@pytest.mark.parametrize("verbose", [1, 2])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the stream itself, when it goes
def test_a_broken_stream_does_not_end_a_search(make, verbose, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", make())
        with Progress(verbose, total=3) as progress, _quiet.quiet():
            for _ in range(3):
                progress.step()


BROKEN_CONSOLE = """
import os, sys
import numpy as np
from skdptune import PrivateRandomSearchCV
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy
{before}
search = PrivateRandomSearchCV(GaussianToy(), {{"s": [1.0]}}, n_iter=Fixed(3), verbose=2)
search.fit(np.zeros((40, 3)), np.arange(40) % 2)
os.write(1, str(np.isfinite(search.best_score_)).encode())
"""
CONSOLES = {
    "a closed pipe": "reading, writing = os.pipe(); os.close(reading); os.dup2(writing, 2)",
    "a closed descriptor": "os.close(2)",
    "a closed stream": "sys.stderr.close()",
    "no stream": "sys.stderr = None",
    "a full disk": "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)",
}


@pytest.mark.parametrize("console", CONSOLES)
def test_a_search_ends_whatever_has_become_of_the_console(console):
    if console == "a full disk" and not os.path.exists("/dev/full"):
        pytest.skip("no such device")
    code = BROKEN_CONSOLE.format(before=CONSOLES[console])
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.stdout == "True"


@pytest.mark.parametrize("where", ["emit", "filter"])
def test_a_log_that_cannot_be_written_does_not_end_a_search(where, monkeypatch):
    class Failing(logging.Handler):
        def emit(self, record):
            raise OSError("the log server is down")

        def filter(self, record):
            if where == "filter":
                raise OSError("the log server is down")
            return super().filter(record)

    monkeypatch.setattr(_quiet.logger, "handlers", [Failing()])
    monkeypatch.setattr(_quiet.logger, "level", logging.INFO)
    with Progress(0, total=1) as progress:
        progress.step()


CHILD = """
import os, sys, time
{before}
from skdptune.model_selection._progress import Progress
from skdptune.model_selection._quiet import quiet
with Progress(1, total=40) as progress, quiet():
    for i in range(40):
        os.write(2, b"a run speaks")
        time.sleep(0.02)
        progress.step()
        if i == 20 and {interrupt}:
            os.kill(os.getpid(), 2)
"""


def in_a_terminal(interrupt=False, before=""):
    """Run ``CHILD`` with a terminal as stderr; return its exit code and what the terminal got."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    code = CHILD.format(interrupt=interrupt, before=before)
    child = subprocess.Popen([sys.executable, "-c", code], stderr=theirs, stdout=theirs, stdin=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the last one has closed the terminal
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return child.wait(timeout=60), shown.decode()


@pytest.mark.parametrize("interrupt", [False, True], ids=["to the end", "Ctrl-C"])
def test_a_bar_on_a_terminal_that_needs_no_restoring(interrupt):
    pytest.importorskip("rich")
    code, shown = in_a_terminal(interrupt)
    assert (code == 0) != interrupt
    assert "━" in shown and "a run speaks" not in shown
    assert shown.count(NOTICE) == 1
    assert "\x1b[?25l" not in shown  # the cursor was never hidden: a SIGKILL leaves a sound terminal, too
    assert ("stopped: 21 tries" if interrupt else "done: 40 tries") in shown
    if not interrupt:
        assert "40/40" in shown and shown.endswith("\r\n")


def test_plain_lines_on_a_terminal_without_rich():
    code, shown = in_a_terminal(before="sys.modules['rich'] = None")
    assert code == 0 and "━" not in shown and "\x1b" not in shown
    assert shown.count(NOTICE) == 1 and "done: 40 tries" in shown


LOGGING = """
import logging, os, sys
from skdptune.model_selection._quiet import quiet, tell_curator
logging.basicConfig(level=logging.WARNING, format="%(message)s")
logging.getLogger("skdptune.curator").setLevel(logging.INFO)
with quiet():
    os.write(2, b"a run speaks")
    logging.getLogger("library").critical("a run speaks")
    tell_curator(logging.INFO, "told while silent")
    tell_curator(logging.DEBUG, "not asked for")
logging.getLogger("library").warning("told after")
"""


def test_a_handler_on_the_console_writes_while_the_console_is_silent():
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.splitlines() == ["told while silent", "told after"] and done.stdout == ""


def fork():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn where there are threads
        return os.fork()


def test_identities_differ_between_processes_and_survive_no_fork():
    own = _quiet.process_identity()
    assert own == _quiet.process_identity()
    code = "from skdptune.model_selection._quiet import process_identity; print(process_identity())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert other.stdout.strip() not in ("", own)
    if not hasattr(os, "fork"):
        return
    reading, writing = os.pipe()
    child = fork()
    if child == 0:  # nothing but what cannot hang: other threads are gone
        try:
            os.write(writing, _quiet.process_identity().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() not in ("", own)
    os.waitpid(child, 0)


def test_a_worker_with_the_number_of_the_parent_is_silenced(capfd):
    # process numbers repeat on other hosts
    with _quiet.quiet_worker("an identity from elsewhere"):
        print("a run speaks")
        os.write(1, b"a run speaks")
    assert capfd.readouterr().out == ""
    with _quiet.quiet_worker(_quiet.process_identity()):
        print("the parent")
    assert "the parent" in capfd.readouterr().out


HOLDS = """
import os, time
from skdptune.model_selection import _quiet
_quiet.hold_silence()
print("between tries")
os.write(1, b"between tries")
with _quiet.quiet():
    pass
_quiet.hold_silence()
print("still between tries", flush=True)
if os.fork() == 0:
    print("a fork of the worker", flush=True)
    os._exit(0)
os.wait()
if {release}:
    _quiet.release_silence()
    _quiet.release_silence()
else:
    time.sleep(3 * _quiet._held.AFTER)
print("after the search", flush=True)
_quiet.hold_silence()
print("the next search", flush=True)
_quiet.release_silence()
print("the end", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="forks")
@pytest.mark.parametrize("release", [True, False])
def test_silence_outlasts_tries_and_ends_by_itself(release):
    text = HOLDS.format(release=release)
    run = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True, timeout=60)
    assert run.stdout.split("\n") == ["after the search", "the end", ""]
    assert not run.stderr


STARTED_WITHOUT = """
import os, sys
import numpy as np
from skdptune import PrivateRandomSearchCV
from skdptune.model_selection import _quiet
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy

class Speaks(GaussianToy):
    def fit(self, X, y=None):
        os.write(1, b"a run speaks")
        os.write(2, b"a run speaks")
        return super().fit(X, y)

search = PrivateRandomSearchCV(Speaks(), {"s": [1.0]}, n_iter=Fixed(5), checkpoint=sys.argv[1], n_jobs=int(sys.argv[2]))
search.fit(np.zeros((40, 3)), np.arange(40) % 2)
with open(sys.argv[3], "w") as file:
    file.write(f"{np.isfinite(search.best_score_)} {min(file.fileno(), 3)}")
"""


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_process_without_an_output_keeps_its_files_apart_from_what_is_printed(tmp_path, n_jobs):
    # as some services start theirs; the marks of the checkpoint would be opened under the number of stderr
    command = '"$0" -c "$1" "$2" "$3" "$4" <&- >&- 2>&-'
    arguments = [sys.executable, STARTED_WITHOUT, str(tmp_path / "checkpoint"), str(n_jobs), str(tmp_path / "found")]
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    subprocess.run(["sh", "-c", command, *arguments], check=True, timeout=100, env=env)
    assert (tmp_path / "found").read_text() == "True 3"


def test_an_output_that_cannot_be_silenced_is_not_taken_for_silent(monkeypatch):
    def full(*args):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(_quiet.os, "dup", full)
        with pytest.raises(OSError, match="Too many"), _quiet.quiet():
            pytest.fail("a run would have spoken")
    assert _quiet._quiet._count == 0


def test_a_fork_while_the_silence_is_being_changed_does_not_hang():
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    with _quiet._quiet._lock:  # as another thread might hold it
        child = fork()
        if child == 0:
            try:
                with _quiet.quiet():
                    pass
            finally:
                os._exit(0)
    for _ in range(200):
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child waits for a lock whose holder is gone")
