"""Ctrl-C that comes after the end of a search: it stops nothing, and must not take away what has been paid for.

From the publication on it is held back until the search has let go of everything, and then told by a warning. Python
runs handlers of signals in the main thread alone: elsewhere nothing can come.
"""

import contextlib
import signal
import threading

from skdptune._exceptions import AllRunsFailedError
from skdptune.model_selection._publish import tell

__all__ = ["LateCtrlC", "PromptCtrlC"]


class PromptCtrlC:
    """Ctrl-C as it is: for a search within a search, whose result alone is nothing."""

    def hold(self):
        """Hold nothing back."""

    def interruptibly(self, work):
        """Call ``work``."""
        work()


class LateCtrlC(PromptCtrlC):
    """Holds Ctrl-C back from :meth:`hold` to the end of the ``with`` block, if there is a handler in Python for it.

    Examples
    --------
    >>> import os, warnings
    >>> with warnings.catch_warnings(record=True) as told, LateCtrlC() as late:
    ...     warnings.simplefilter("always")
    ...     late.hold()
    ...     signal.raise_signal(signal.SIGINT)
    >>> late.came
    True
    """

    def __init__(self):
        self.came = False
        self._before = None
        self._open = False

    def __enter__(self):
        return self

    def hold(self):
        """From here on a result is there: Ctrl-C is noted, and does nothing yet."""
        held = self._before is not None
        if held or not callable(signal.getsignal(signal.SIGINT)):  # none, ignored, or a handler that is not Python's
            return
        if threading.current_thread() is threading.main_thread():
            with contextlib.suppress(ValueError):  # of a subinterpreter, say
                self._before = signal.signal(signal.SIGINT, self._note)

    def _note(self, number, frame):
        self.came = True
        if self._open:
            self._open = False  # once: what comes while this one is on its way must not end more
            raise KeyboardInterrupt

    def interruptibly(self, work):
        """Call ``work``, which is no part of the result: Ctrl-C ends it, and nothing else."""
        held = self._before is not None
        try:
            self._open = held
            work()
            self._open = False
        except KeyboardInterrupt:
            if not held:
                raise
            self.came = True
        finally:
            self._open = False

    def __exit__(self, kind, error, trace):
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if not self.came or (kind is not None and not issubclass(kind, AllRunsFailedError)):
            return
        tell(
            "Ctrl-C came when the search had ended: its result was published and is kept. Nothing of it is undone, "
            "and to call fit again would be a new charge.",
            stacklevel=4,
        )
        if self._before is not signal.default_int_handler:
            self._before(signal.SIGINT, None)  # somebody else's handler waits for it, too
