"""Progress for the curator: on stderr and in the log, never in what is published."""

import contextlib
import logging
import os
import sys
import time

from skdptune.model_selection._quiet import tell_curator

__all__ = ["Progress", "duration"]

WARNING = "for the curator only: it shows the number of tries and must not be published"


class Progress:
    """Counts finished tries, and says so on stderr (``verbose``) and in the log (``skdptune.curator``, INFO).

    On a terminal a bar is drawn, if ``rich`` is installed; elsewhere, in notebooks too, plain lines are written.
    Nothing is said unless the curator asked for it, and each way says first whom it is for. A stream that cannot be
    written to (a closed pipe, a terminal that has gone, none at all) makes it silent: it never ends a search.

    Parameters
    ----------
    verbose : int
        0: nothing on stderr; 1: a bar, or a line at most once a second; more: a line for every try.
    total : int, optional
        The drawn number of tries.
    done : int, default=0
        Tries that an earlier process has finished.
    """

    LINE_EVERY = 1.0  # seconds
    LOG_EVERY = 10.0

    def __init__(self, verbose, total=None, done=0):
        self._verbose = int(verbose)
        self._pace = _Pace(total, done)
        self._out = _Nothing()
        self._said = self._logged = 0.0

    def __enter__(self):
        self._pace.start()
        self._said = self._logged = time.monotonic()
        if self._verbose:
            # made before the runs are silenced: it keeps a copy of where stderr leads now
            with self._or_silence():
                self._out = _output(self._verbose)
                self._out.start(self._pace)
        tell_curator(logging.INFO, f"search of {self._pace.total} tries starts; this log is {WARNING}")
        return self

    def resumed(self, count):
        """Add tries that an earlier process has finished: they count, but not for the rate."""
        self._pace.resumed += count

    def step(self):
        """Count a finished try; say so now and then."""
        self._pace.finished += 1
        now = time.monotonic()
        if now - self._said >= self._out.every:
            self._said = now
            with self._or_silence():
                self._out.show(self._pace)
        if now - self._logged >= self.LOG_EVERY:
            self._logged = now
            tell_curator(logging.INFO, str(self._pace))

    def __exit__(self, *exc_info):
        text = f"{'done' if exc_info[0] is None else 'stopped'}: {self._pace.tally()}"
        with self._or_silence():
            self._out.close(self._pace, text)
        tell_curator(logging.INFO, text)

    @contextlib.contextmanager
    def _or_silence(self):
        try:
            yield
        except Exception:  # whatever a stream may raise: what it shows is worth less than the search
            out, self._out = self._out, _Nothing()
            out.drop()


class _Pace:
    """How far the tries are, and how fast they go."""

    def __init__(self, total, resumed):
        self.total, self.resumed, self.finished = total, resumed, 0

    def start(self):
        self.started = time.monotonic()

    @property
    def done(self):
        return self.resumed + self.finished

    @property
    def rate(self):
        """Tries a second, of this process."""
        return self.finished / max(time.monotonic() - self.started, 1e-9)

    @property
    def left(self):
        """Seconds to go, or None."""
        if self.total is None or not self.finished:
            return None
        return max(0, self.total - self.done) / self.rate

    def tally(self):
        return f"{self.done} tries in {time.monotonic() - self.started:.1f} s"

    def speed(self):
        rate = self.rate
        text = f"{rate:.1f} a second" if rate >= 1 or not rate else f"one in {duration(1 / rate)}"
        return text if self.left is None else f"{text}, about {duration(self.left)} left"

    def __str__(self):
        of = "" if self.total is None else f" of {self.total}"
        return f"{self.done}{of} tries in {duration(time.monotonic() - self.started)}, {self.speed()}"


def duration(seconds):
    """Return a time in words a person would use.

    Examples
    --------
    >>> duration(4.25), duration(75), duration(7300), duration(200_000)
    ('4.2 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    for size, name, smaller, unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{int(seconds // size)} {name} {int(seconds % size // smaller)} {unit}"


# ---------------------------------------------------------------------- where it is shown


def _output(verbose):
    if sys.stderr is None:  # a program without a console
        return _Nothing()
    stream = _curators_stream()
    if verbose == 1 and _is_terminal(stream):
        with contextlib.suppress(ImportError, OSError):
            return _Bar(stream)
    return _Lines(stream, every=0.0 if verbose > 1 else Progress.LINE_EVERY)


def _curators_stream():
    """Return a stream to where stderr leads now, and goes on to lead while the runs are silenced."""
    try:
        if sys.stderr.fileno() in (1, 2):  # those that are silenced; others (a notebook's, a file's) stay open
            return os.fdopen(os.dup(sys.stderr.fileno()), "w", errors="backslashreplace")
    except (OSError, AttributeError, ValueError):
        pass
    return _Echo(sys.stderr)


def _is_terminal(stream):
    try:
        return os.isatty(stream.fileno())
    except (OSError, AttributeError, ValueError):
        return False


class _Nothing:
    every = float("inf")

    def start(self, pace):
        pass

    def show(self, pace):
        pass

    def close(self, pace, text):
        pass

    def drop(self):
        pass


class _Lines:
    """One line at a time."""

    def __init__(self, stream, every):
        self._stream, self.every = stream, every

    def start(self, pace):
        self._say(f"progress {WARNING}")

    def show(self, pace):
        self._say(str(pace))

    def close(self, pace, text):
        self._say(text)
        self._stream.close()

    def drop(self):
        """Let go of a stream that cannot be written to."""
        with contextlib.suppress(Exception):
            self._stream.close()

    def _say(self, text):
        self._stream.write(f"[skdptune] {text}\n")
        self._stream.flush()


class _Bar(_Lines):
    """A bar, drawn by rich from the thread that counts.

    No thread of its own: workers may be forked at any time. The cursor is never hidden, so that there is
    nothing to restore, whichever way the process ends.
    """

    def __init__(self, stream):
        from rich import progress as bars
        from rich.console import Console

        super().__init__(stream, every=0.1)
        width = os.get_terminal_size(stream.fileno()).columns or None
        console = Console(file=stream, force_terminal=True, width=width, force_jupyter=False)
        console.show_cursor = lambda show=True: False
        self._bar = bars.Progress(
            bars.TextColumn("[skdptune]", markup=False),
            bars.BarColumn(),
            bars.TextColumn("{task.completed}/{task.fields[known]}", markup=False),
            bars.TextColumn("{task.fields[speed]}", markup=False),
            console=console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def start(self, pace):
        super().start(pace)
        self._task = self._bar.add_task("", total=pace.total, **self._fields(pace))
        self._bar.start()

    def show(self, pace):
        self._bar.update(self._task, completed=pace.done, **self._fields(pace))
        self._bar.refresh()

    @staticmethod
    def _fields(pace):
        return {"known": "?" if pace.total is None else pace.total, "speed": pace.speed()}

    def close(self, pace, text):
        self.show(pace)
        self._bar.stop()
        super().close(pace, text)

    def drop(self):
        """Let go of a stream that cannot be written to."""
        with contextlib.suppress(Exception):
            self._bar.stop()
        super().drop()


class _Echo:
    """A stream without a silenced descriptor (a notebook's), written to directly and never closed."""

    def __init__(self, stream):
        self.write, self.flush = stream.write, stream.flush

    def close(self):
        """Leave the stream open: it is the caller's."""
