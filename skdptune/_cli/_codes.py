"""Exit codes and what a command returns."""

import contextlib
import sys
from dataclasses import dataclass, field

__all__ = [
    "BROKEN_PIPE",
    "CODES",
    "FILE",
    "INTERNAL",
    "INTERRUPTED",
    "OK",
    "OVER_LIMIT",
    "REFUSED",
    "USAGE",
    "Answer",
    "as_options",
    "ask_for_patience",
    "say",
]

OK = 0
REFUSED = 1
USAGE = 2
OVER_LIMIT = 3
FILE = 4
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141

_SLOW = 1e8

CODES = (
    (OK, "an answer was printed"),
    (REFUSED, "refused: no finite price, target out of reach, library missing"),
    (USAGE, "wrong arguments"),
    (OVER_LIMIT, "the answer was printed and lies above --limit (price) or --target (plan)"),
    (FILE, "a file cannot be read or written, or a ledger fails its check"),
    (INTERNAL, "a defect of this program"),
    (INTERRUPTED, "interrupted (Ctrl-C)"),
    (BROKEN_PIPE, "the reader of the output went away"),
)


@dataclass(frozen=True)
class Answer:
    """What a command found: ``data`` for ``--json``, ``text`` for people."""

    data: dict = field(default_factory=dict)
    text: str = ""
    code: int = OK
    complaint: str = ""
    raw: str = ""  # printed as it is, whether or not JSON is asked for


@contextlib.contextmanager
def as_options(**options):
    """Let errors about arguments of the library name the options that a user of the command line knows.

    Examples
    --------
    >>> from skdptune.run_counts import Geometric
    >>> with as_options(mean="--mean"):
    ...     Geometric(mean=0.5)
    Traceback (most recent call last):
    ...
    skdptune._exceptions.InvalidParameterError: --mean must be ...
    """
    from skdptune._exceptions import SkdptuneError

    try:
        yield
    except SkdptuneError as error:
        name, space, rest = str(error).partition(" ")
        if name not in options or not space:
            raise
        said = type(error)(f"{options[name]} {rest}")
    else:
        return
    raise said


def ask_for_patience(count):
    """Tell who sits before a terminal that a number of tries beyond 1e8 is priced slowly."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if terminal and count.mean > _SLOW:
        say("note: with so many tries this may take a minute.")


def say(text):
    """Print one line to stderr; a closed one is no reason for another error."""
    if sys.stderr is not None:  # print would take stdout instead
        with contextlib.suppress(OSError):
            print(f"skdptune: {' '.join(text.split())}", file=sys.stderr, flush=True)
