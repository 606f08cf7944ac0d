"""What a search needs of its process, looked after before anything is spent."""

import contextlib
import gc
import io
import multiprocessing
import os
import sys
import time

import joblib
from joblib.parallel import get_active_backend

from skdptune._exceptions import TransportError
from skdptune.candidates._seeding import release_global_generators
from skdptune.model_selection._folders import check_place
from skdptune.model_selection._quiet import occupy_standard_descriptors, quiet, release_silence
from skdptune.model_selection._store import let_go

__all__ = ["make_ready", "release_workers", "start_workers", "works_elsewhere"]

_SEMAPHORES = 16  # about what a pool needs
_DESCRIPTORS = 8  # the least a pool of processes needs, beside one for each of them
_NEED_SEMAPHORES = {"LokyBackend", "ThreadingBackend", "MultiprocessingBackend"}  # on clusters the workers' side does
_ROUNDS = 3
_PATIENCE = 1.0  # seconds; a worker that is only just starting has nothing to give back

_OF_THE_PARENT = []  # pools inherited by a fork; kept, because to collect one would wake the process that owns it


def make_ready(search):
    """See to it that tries can be started here.

    Parameters
    ----------
    search : PrivateRandomSearchCV

    Raises
    ------
    TransportError
        If there is no place for the files, the semaphores or the descriptors that workers need.
    """
    occupy_standard_descriptors()
    _leave_inherited_pool()
    if works_elsewhere(search.n_jobs, search.run_timeout):
        check_place()
        _check_semaphores(search.n_jobs)
        _check_descriptors(search.n_jobs, search.run_timeout)


def _check_descriptors(n_jobs, run_timeout):
    """Refuse where this process may not open the files and pipes that workers need."""
    backend = get_active_backend()[0]
    names = {kind.__name__ for kind in type(backend).__mro__}
    if run_timeout is None and getattr(backend, "supports_sharedmem", False):
        return  # threads need none
    here = run_timeout is not None or names & _NEED_SEMAPHORES
    count = _DESCRIPTORS + (joblib.effective_n_jobs(n_jobs) if here else 0)
    held, reason = [], None
    try:
        held.append(os.open(os.devnull, os.O_RDONLY))
        while len(held) < count:
            held.append(os.dup(held[0]))
    except OSError as error:
        reason = error.strerror
    finally:
        for descriptor in held:
            os.close(descriptor)
    if reason is not None:
        raise TransportError(
            f"workers need at least {count} more open files of this process, and the system gives it no more than "
            f"{len(held)} ({reason}). Raise the limit (ulimit -n), close what is open, or use n_jobs=1 without "
            "run_timeout. Nothing was spent."
        )


def _check_semaphores(n_jobs):
    """Refuse where there is no room for the semaphores of a pool of workers or threads: on Linux, in /dev/shm."""
    names = {kind.__name__ for kind in type(get_active_backend()[0]).__mro__}
    if joblib.effective_n_jobs(n_jobs) == 1 or not names & _NEED_SEMAPHORES:
        return
    reason = None
    try:
        # not in the default context: that would fix the start method of this process, which the user may still choose
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("fork" if "fork" in methods else methods[0])  # forks' have no name
        [context.Semaphore() for _ in range(_SEMAPHORES)]
    except OSError as error:
        reason = error.strerror
    except ImportError:
        return  # a system without any: joblib runs serially
    if reason is not None:
        raise TransportError(
            f"n_jobs={n_jobs!r} needs semaphores of this system, and none can be made ({reason}). Make room in "
            "/dev/shm (in a container, give it more memory), or use n_jobs=1. Nothing was spent."
        )


def works_elsewhere(n_jobs, run_timeout):
    """Return whether any try will run in another process or thread."""
    return run_timeout is not None or joblib.effective_n_jobs(n_jobs) > 1


def _leave_inherited_pool():
    """In a fork of a process that has used loky: forget its pool, for which this process would wait for ever.

    The thread that serves the pool exists in the parent only. joblib makes a new one if it knows of none.
    """
    loky = sys.modules.get("joblib.externals.loky.reusable_executor")
    pool = getattr(loky, "_executor", None)
    if pool is None:
        return
    workers = list((getattr(pool, "_processes", None) or {}).values())
    inherited = any(getattr(worker, "_parent_pid", os.getpid()) != os.getpid() for worker in workers)
    server = getattr(pool, "_executor_manager_thread", None)  # goes on when all workers have left for lack of work
    if inherited or (server is not None and not server.is_alive()):
        _OF_THE_PARENT.append(pool)
        loky._executor = loky._executor_kwargs = None
        loky._executor_lock = type(loky._executor_lock)()  # may be held by a thread of the parent


def start_workers(n_jobs):
    """Start loky's workers while this process still has its output, which they inherit and keep after the search."""
    count = _loky_workers(n_jobs)
    if count > 1:
        _ask_workers(n_jobs, [joblib.delayed(os.getpid)() for _ in range(count)])


def release_workers(n_jobs, folder, store=None):
    """Give loky's workers back as they were: each gets one task, in which it waits for the others to get theirs.

    Parameters
    ----------
    n_jobs : int or None
    folder : str
        An own folder, in which they meet.
    store : StoreRef or None
        What they have open of the search.
    """
    count = _loky_workers(n_jobs)
    for _ in range(_ROUNDS if count > 1 else 0):  # again where one was so busy that another took its task
        _ask_workers(n_jobs, [joblib.delayed(_release)(folder, count, store, _PATIENCE) for _ in range(count)])
        if _released(folder) >= count:
            return


def _released(folder):
    return sum(name.startswith("released-") for name in os.listdir(folder))


def _release(folder, count, store, patience):
    release_global_generators()
    let_go(store)
    release_silence()
    with quiet():
        gc.collect()  # what the tries left in cycles may speak when it is collected
    deadline = time.monotonic() + patience
    with contextlib.suppress(OSError):
        open(os.path.join(folder, f"released-{os.getpid()}"), "w").close()
        while time.monotonic() < deadline and _released(folder) < count:
            time.sleep(0.001)


def _loky_workers(n_jobs):
    if type(get_active_backend()[0]).__name__ != "LokyBackend":
        return 1
    return joblib.effective_n_jobs(n_jobs)


def _ask_workers(n_jobs, tasks):
    with contextlib.ExitStack() as stack:
        if sys.stdout is None:  # a program without a console; joblib flushes both
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        if sys.stderr is None:
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(contextlib.suppress(Exception))  # the tries will meet it again, and say so
        joblib.Parallel(n_jobs=n_jobs, batch_size=1, pre_dispatch="all")(tasks)
