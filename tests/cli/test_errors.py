"""Errors are one line, exit codes are as documented, endings are quiet."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

import skdptune
from skdptune import __main__
from skdptune._cli import _main
from skdptune._cli._codes import CODES
from skdptune._cli._parser import build_parser

PRICE = "price gaussian --noise-multiplier 3 --mean 4 --delta 1e-5"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "required: COMMAND"),
        ("nonsense", "invalid choice: 'nonsense'"),
        ("price", "required: MECHANISM"),
        ("price gaussian --mean 4 --delta 1e-5", "required: --noise-multiplier"),
        ("price gaussian --noise-multiplier x --mean 4 --delta 1e-5", "a number or a fraction such as 256/60000"),
        ("price gaussian --noise-multiplier 1/0 --mean 4 --delta 1e-5", "a number or a fraction"),
        ("price gaussian --noise-multiplier -1 --mean 4 --delta 1e-5", "--noise-multiplier must not be negative"),
        ("price gaussian --noise-multiplier nan --mean 4 --delta 1e-5", "a finite number is needed; got 'nan'"),
        ("price gaussian --noise-multiplier 1e400 --mean 4 --delta 1e-5", "a finite number is needed; got '1e400'"),
        ("price gaussian --noise-multiplier 3 --mean 4 --delta 1e-400", "'1e-400' is too small for this computer"),
        ("price gaussian --noise-multiplier 1e-300 --mean 4 --delta 1e-5", "must lie between 0.01 and 1e+06; got"),
        ("price laplace --epsilon 1e300 --mean 4 --delta 1e-5", "--epsilon must lie between 1e-06 and 1000; got"),
        ("price gaussian --noise-multiplier 3 --mean 4 --delta 0.000e-9 --limit nan", "--limit: a finite number"),
        ("price gaussian --noise-multiplier 3 --mean 4 --delta 1e-5 --limit -1", "--limit must be a real number in [0"),
        ("price gaussian --noise-multiplier 3 --mean 4 --delta=-1e-5", "--delta must be a real number in [0"),
        (f"price pure --epsilon 1/1{'0' * 400} --mean 4 --delta 0", "is too small for this computer"),
        (f"price pure --epsilon 1{'0' * 400}/3 --mean 4 --delta 0", "a finite number is needed; got '1000"),
        (f"price pure --epsilon 1 --delta 0 --run-count fixed --k {'9' * 5000}", "a whole number is needed; got '999"),
        ("price gaussian --noise 3 --mean 4 --delta 1e-5", "required: --noise-multiplier"),
        ("price gaussian --noise-multiplier 3 --mean 4 --delta 2", "delta must be a real number in [0"),
        ("price gaussian --noise-multiplier 3 --delta 1e-5", "takes --mean and --eta; --mean is missing"),
        ("price pure --epsilon 1 --delta 0 --run-count poisson --mean 4 --eta 2", "takes --mean; --eta is none"),
        ("price pure --epsilon 1 --delta 0 --run-count fixed --k 2.5", "a whole number is needed; got '2.5'"),
        ("price pure --epsilon 1 --delta 0 --run-count fixed --k inf", "a whole number is needed; got 'inf'"),
        ("price pure --epsilon 1 --delta 0 --mean 0.5", "mean must be a real number in [1"),
        ("price pure --epsilon 1 --delta 0 --run-count-json {", "--run-count-json must be JSON"),
        (f"price pure --epsilon 1 --delta 0 --run-count-json {'[' * 100_000}", "--run-count-json must be JSON"),
        (f"price pure --epsilon 1 --delta 0 --run-count-json {'{' * 800}", "must nest at most 50 distributions"),
        ("price pure --epsilon 1 --delta 0 --run-count-json [] --mean 4", "--run-count-json says all of it"),
        ("price pure --epsilon 1 --delta 0 --run-count-json []", "must be a dictionary made by to_dict"),
        ("price dp-sgd --noise-multiplier 1 --sample-rate 2 --steps 9 --mean 4 --delta 0", "error: --sample-rate"),
        ("plan gaussian --delta 1e-5", "plan needs --target, or --noise-multiplier, or both; got neither"),
        ("plan gaussian --target 1 --delta 1e-5 --expected-quantile 1.2", "error: --expected-quantile must be"),
        ("plan gaussian --target 1 --delta 1e-5 --success-share 2", "error: --success-share must be"),
        ("plan gaussian --target 1 --delta 1e-5 --max-runs-99 0", "error: --max-runs-99 must be"),
        ("plan gaussian --target 1 --delta 1e-5 --means 0.5", "error: --means must be"),
        ("price gaussian --noise-multiplier 0 --mean 4 --delta 1e-5", "error: --noise-multiplier must be"),
        ("plan gaussian --target 0 --delta 1e-5", "--target must be a real number in (0"),
        ("plan gaussian --noise-multiplier 3 --delta 1e-5 --run-counts fixed", "fixed has no mean to choose"),
        ("calibrate gaussian --target 2 --mean 4 --delta 1e-5 --noise-multiplier 3", "unrecognized arguments"),
        ("calibrate gaussian --target -1 --mean 4 --delta 1e-5", "--target must be a real number in (0"),
        ("price pure --epsilon 1 --delta 0 --mean 4 --at-most 0", "error: --at-most must be an integer in [1"),
        (
            'price pure --epsilon 1 --delta 0 --run-count-json {"type":"Poisson"}',
            "error: --run-count-json must hold the arguments of Poisson, as to_dict returns them; got none",
        ),
        ("demo --seed -1", "a whole number from 0 to 4294967295 is needed; got '-1'"),
        ("demo --seed 4294967296", "a whole number from 0 to 4294967295 is needed"),
        ("demo --seed 1.5", "a whole number is needed; got '1.5'"),
        ("demo --mean 0", "--mean must be"),
        ("demo --candidate centroids --report x.pdf", "--report must end in .html, .json or .md"),
    ],
)
def test_wrong_arguments_end_in_one_line_and_code_2(ask, line, says):
    found = ask(*line.split())
    assert found.code == 2, found.err
    assert found.out == ""
    assert found.err.startswith("skdptune: error: ")
    assert found.err.count("\n") == 1
    assert says in found.err


@pytest.mark.parametrize("wrong", ["--delta 2", "--delta 1e-5 --limit -1", "--delta 1e-5 --noise-multiplier -1"])
def test_wrong_numbers_are_named_before_anything_heavy_is_loaded(wrong):
    line = f"price gaussian --noise-multiplier 3 --mean 10 {wrong}"
    code = (
        "import sys; from skdptune.__main__ import main; code = main(sys.argv[1:]); "
        "assert 'numpy' not in sys.modules and 'scipy' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *line.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("skdptune: error: --"), done.stderr


def test_no_answer_speaks_python(ask):
    """Reasons come from the library, whose advice is for those who call it."""
    found = ask("price zcdp --rho 0.1 --mean 10 --delta 0 --json")
    assert "method=" not in found.out and "no dominating pair" in found.out
    found = ask("price pure --epsilon 1 --delta 0 --run-count poisson --mean 0.5")
    assert "method=" not in found.out and "raise the mean" in found.out


def test_refusals_are_code_1(ask):
    found = ask("calibrate approximate --run-delta 1e-3 --target 1 --mean 10 --delta 1e-5")
    assert found.code == 1, found
    assert found.err.startswith("skdptune: error: --target must be reachable; no setting between 1e-06 and 1e+06")
    assert found.err.count("\n") == 1
    assert ask("calibrate zcdp --target 1e-5 --mean 10 --delta 1e-12").code == 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("calibrate gaussian --target 1e-9 --mean 10 --delta 1e-5", "no search is calibrated to less than 1e-06 nats"),
        ("calibrate gaussian --target 2 --mean 10 --delta 0", "not even the cheapest setting, 1e+06, has a finite"),
        ("plan gaussian --target 2 --delta 0 --run-counts geometric --means 4", "has a finite price"),
        ("plan gaussian --noise-multiplier 3 --delta 1e-5 --target 0.5 --run-counts poisson", "exceeds the target"),
    ],
)
def test_what_is_out_of_reach_is_code_1_and_said_at_once(ask, line, says):
    found = ask(line)
    assert (found.code, found.out) == (1, ""), found
    assert found.err.count("\n") == 1
    assert says in found.err


def test_defects_name_a_type_and_nothing_else(ask, monkeypatch):
    def broken(arguments):
        raise RuntimeError("a cell of the data: 1234")

    monkeypatch.setattr("skdptune._cli._price.price", broken)
    found = ask(PRICE)
    assert (found.code, found.out) == (70, "")
    assert found.err == "skdptune: error: internal error (RuntimeError); set SKDPTUNE_DEBUG=1 for details\n"
    monkeypatch.setenv("SKDPTUNE_DEBUG", "1")
    with pytest.raises(RuntimeError):
        ask(PRICE)


def test_missing_files_are_code_4(ask, tmp_path):
    found = ask("ledger", "show", str(tmp_path / "nothing.db"))
    assert found.code == 4
    assert found.err.startswith("skdptune: error: ")
    assert found.err.count("\n") == 1
    found = ask("demo", "--candidate", "centroids", "--report", str(tmp_path / "no" / "report.md"))
    assert found.code == 4, found
    assert "No such file" in found.err


def test_a_missing_library_is_code_1(ask, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffprivlib", None)
    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    found = ask("demo --candidate linear")
    assert found.code == 1
    assert "--candidate linear needs a working diffprivlib" in found.err


def test_codes_are_in_the_help(ask):
    text = ask("--help").out
    for code, meaning in CODES:
        assert re.search(rf"^  {code} +{re.escape(meaning)}$", text, re.M)


def test_ctrl_c_is_quiet(ask, monkeypatch):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("skdptune._cli._price.price", interrupted)
    found = ask(PRICE)
    assert (found.code, found.out, found.err) == (130, "", "")


def test_ctrl_c_during_the_imports_is_quiet(ask, monkeypatch):
    def interrupted(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr(_main, "run", interrupted)
    assert __main__.main([]) == 130


_WHEN_READY = """
import sys
from skdptune.__main__ import main
print("ready", file=sys.stderr, flush=True)
sys.exit(main(sys.argv[1:]))
"""


def test_signal_ends_a_process_quietly():
    # many settings, each of them priced: the signal comes in the middle
    argv = ["plan", "gaussian", "--target", "2", "--delta", "1e-5", "--means", *map(str, range(2, 500))]
    process = _start(argv, ["-c", _WHEN_READY])
    assert process.stderr.readline() == b"ready\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_closed_pipe_is_quiet():
    process = _start(PRICE.split())
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), err) == (141, b"")


def test_closed_stderr_is_no_defect():
    script = f'exec 2>&-; "{sys.executable}" -m skdptune price gaussian; echo $?'
    found = subprocess.run(["bash", "-c", script], check=False, capture_output=True, timeout=60, env=_environment())
    assert found.stdout.strip() == b"2"


def test_ascii_terminal(tmp_path):
    process = _start(["demo", "--candidate", "centroids", "--mean", "2"], PYTHONIOENCODING="ascii", LC_ALL="C")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")
    assert out.isascii()
    assert b"Privacy spent" in out


def test_output_has_no_colour():
    process = _start(PRICE.split(), FORCE_COLOR="1", NO_COLOR="1")
    out, _ = process.communicate(timeout=60)
    assert b"\x1b" not in out


def test_version(ask):
    assert ask("--version").out == f"skdptune {skdptune.__version__}\n"


def test_no_argument_is_said_by_half():
    assert build_parser().allow_abbrev is False


def _environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", **more}


def _start(argv, program=("-m", "skdptune"), **more):
    return subprocess.Popen(
        [sys.executable, *program, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(**more),
    )


def test_an_export_never_replaces_its_ledger(tmp_path):
    from skdptune.__main__ import main
    from skdptune.ledger import PrivacyLedger

    path = tmp_path / "budget.db"
    PrivacyLedger(path, epsilon=3.0, delta=1e-5)
    assert main(["ledger", "export", str(path), "--output", str(path), "--force"]) in (1, 2)
    assert PrivacyLedger.open(path).entries() is not None
