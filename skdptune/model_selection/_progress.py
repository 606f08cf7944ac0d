"""Progress for the curator: on stderr, never in what is published."""

import contextlib
import os
import sys
import time

__all__ = ["Progress"]


class Progress:
    """Lines on the real stderr about finished tries; for the curator."""

    def __init__(self, verbose):
        self._verbose = verbose
        self._done = 0

    def __enter__(self):
        self._stream = None
        if self._verbose:
            try:
                # a copy of the descriptor: the original is silent while the runs go on
                self._stream = os.fdopen(os.dup(sys.stderr.fileno()), "w")
            except (OSError, AttributeError, ValueError):
                self._stream = _Echo(sys.stderr)
            self._start = self._last = time.monotonic()
            self._say("progress for the curator only: it shows the number of tries and must not be published")
        return self

    def _say(self, text):
        with contextlib.suppress(Exception):
            self._stream.write(f"[skdptune] {text}\n")
            self._stream.flush()

    def step(self):
        """Count a finished try; say so at most once a second (``verbose > 1``: always)."""
        self._done += 1
        if self._stream is None:
            return
        now = time.monotonic()
        if self._verbose > 1 or now - self._last >= 1.0:
            self._last = now
            self._say(f"{self._done} tries in {now - self._start:.1f} s")

    def __exit__(self, *exc_info):
        if self._stream is not None:
            self._say(f"done: {self._done} tries in {time.monotonic() - self._start:.1f} s")
            self._stream.close()


class _Echo:
    """A stream without a descriptor (a notebook's), written to directly and never closed."""

    def __init__(self, stream):
        self.write, self.flush = stream.write, stream.flush

    def close(self):
        """Leave the stream open: it is the caller's."""
