"""The inside of a cell: a process that runs one try after the other and can be killed at any instant.

Started by :mod:`skdptune.model_selection._cells`, which talks to it through a pair of connected sockets.
It leads a process group of its own, so that killing the group takes along whatever the candidate started.
"""

import contextlib
import os
import pickle
import select
import signal
import threading
import time
from multiprocessing.connection import Connection

from skdptune.candidates._seeding import hold_global_generators
from skdptune.model_selection._runs import one_run
from skdptune.model_selection._transport import cloudpickle, load_payload

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None

__all__ = ["main"]

_LOOK = 0.5  # seconds between two looks at whether the parent is still there
_IDLE = 600.0  # seconds without a try after which the process leaves


def main(descriptors, parent):
    """Serve the process ``parent`` until it hangs up.

    Parameters
    ----------
    descriptors : pair of int
        Of the connected socket, and of a pipe that the parent holds open and never writes to.
    parent : int
        Process id; when it is no longer our parent, the whole group ends.
    """
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    line, life = descriptors
    _tie(life)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    hold_global_generators()  # nobody else ever draws in this process
    connection = Connection(line)
    os.register_at_fork(after_in_child=connection.close)  # a helper of a try must not keep the line open
    with contextlib.suppress(EOFError, OSError):
        _serve(connection)
    os._exit(0)


def _tie(life):
    """Have the kernel end the group with the parent: code that holds the interpreter's lock stops the thread below."""
    if not hasattr(fcntl, "F_SETSIG"):
        return  # only Linux
    with contextlib.suppress(OSError):
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgid(0))
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([life], [], [], 0)[0]:  # it was gone before
            os.killpg(os.getpgid(0), signal.SIGKILL)


def _follow(parent):
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _serve(connection):
    try:
        paths = pickle.loads(connection.recv_bytes())
        plan, data = load_payload(*paths)
        _let_go(paths)
    except EOFError:
        raise
    except Exception as error:
        connection.send_bytes(pickle.dumps(("unloadable", type(error).__name__)))
        return
    connection.send_bytes(pickle.dumps(("ready", None)))
    while connection.poll(_IDLE):
        position, seed = pickle.loads(connection.recv_bytes())
        connection.send_bytes(_answer(plan, data, seed, position))


def _let_go(paths):
    """Close the descriptors of files without a name; the maps stay."""
    for folder, name in map(os.path.split, paths):
        if folder == "/proc/self/fd":
            os.close(int(name))


def _answer(plan, data, seed, position):
    try:
        answer = ("record", one_run(plan, data, seed, position))
    except Exception as error:  # not the candidate's failure: the search must end with it
        answer = ("error", error)
    try:
        return cloudpickle.dumps(answer)
    except Exception as error:
        return pickle.dumps(("unpicklable", type(error).__name__))
