"""From arguments to an exit code: streams, errors in one line, quiet endings."""

import contextlib
import json
import os
import sys
import warnings

from skdptune._cli._codes import BROKEN_PIPE, FILE, INTERNAL, REFUSED, USAGE, say
from skdptune._exceptions import InvalidParameterError, InvalidTypeError, SkdptuneError

__all__ = ["run"]

_DEBUG = "SKDPTUNE_DEBUG"


def run(argv=None):
    """Parse, answer, print; return the exit code. Nothing but KeyboardInterrupt is raised."""
    _tolerate_narrow_encodings()
    try:
        with _one_line_warnings():
            code = _answer(argv)
        sys.stdout.flush()
        return code
    except SystemExit as request:  # argparse: after --help, or after a complaint that it has printed
        return request.code if isinstance(request.code, int) else USAGE
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except Exception as error:
        return _refuse(error)


def _refuse(error):
    """Say what went wrong in one line; return the exit code."""
    if isinstance(error, SkdptuneError):
        kinds = ((OSError, FILE), ((InvalidParameterError, InvalidTypeError), USAGE), (SkdptuneError, REFUSED))
        return _complain(error, next(code for kind, code in kinds if isinstance(error, kind)))
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return _complain(f"{name}{error.strerror or type(error).__name__}", FILE)
    if os.environ.get(_DEBUG):
        raise error
    # the type alone: the text of an unforeseen error may hold anything
    return _complain(f"internal error ({type(error).__name__}); set {_DEBUG}=1 for details", INTERNAL)


def _answer(argv):
    from skdptune._cli._checks import check_numbers
    from skdptune._cli._parser import build_parser

    arguments = build_parser().parse_args(argv)
    check_numbers(arguments)
    answer = arguments.command(arguments)
    if answer.raw:
        print(answer.raw)
    elif getattr(arguments, "json", False):
        print(json.dumps(_finite(answer.data), indent=2, allow_nan=False))
    elif answer.text:
        print(answer.text)
    if answer.complaint:
        _complain(answer.complaint, answer.code)
    return answer.code


def _finite(value):
    """JSON has no infinity: it becomes the text "inf". NaN becomes null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float):
        if value != value:
            return None
        if value in (float("inf"), float("-inf")):
            return "inf" if value > 0 else "-inf"
    return value


def _complain(text, code):
    say(f"error: {text}")
    return code


@contextlib.contextmanager
def _one_line_warnings():
    """Print this project's warnings in one line each; those of libraries are not for this reader."""
    from skdptune._exceptions import PublicSeedWarning

    def show(message, category, filename, lineno, file=None, line=None):
        say(f"warning: {message}")

    import logging

    logging.getLogger("absl").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PublicSeedWarning)
        warnings.showwarning = show
        yield


def _tolerate_narrow_encodings():
    """What a terminal cannot show is escaped instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _forget_stdout():
    """Point stdout at nothing, so that the interpreter's own flush at exit stays quiet."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
