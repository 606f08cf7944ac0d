"""Two repairs of joblib's dask backend (1.6.0), for searches whose workers die.

It tells a waiting ``Parallel`` about tasks that end, and about errors that it caught inside a task, but not about a
task that the scheduler itself has failed, because its workers died again and again: ``Parallel`` then waits for
ever. And when so many workers have died that one core is left for the moment, ``Parallel`` runs the tasks
in this process, which the next such task would kill.
"""

import contextlib

__all__ = ["repaired"]


@contextlib.contextmanager
def repaired(backend):
    """While the block runs, hear of errors of dask's own and run nothing here.

    Parameters
    ----------
    backend : joblib backend
        Left alone unless it is dask's.
    """
    if type(backend).__name__ != "DaskDistributedBackend":
        yield
        return
    name = "submit" if "submit" in vars(type(backend)) else "apply_async"  # joblib before 1.5
    send, count = getattr(backend, name), backend.effective_n_jobs

    def submit(task, callback=None):
        future = send(task, callback)
        if callback is not None:
            future.add_done_callback(lambda done: _pass_on(done, callback))
        return future

    def effective_n_jobs(n_jobs):
        try:
            return max(2, count(n_jobs))
        except TimeoutError:  # no worker just now: tasks wait for one
            return 2

    setattr(backend, name, submit)
    backend.effective_n_jobs = effective_n_jobs
    try:
        yield
    finally:
        delattr(backend, name)  # the methods of the class show again
        del backend.effective_n_jobs


def _pass_on(done, callback):
    if done.cancelled():
        return
    error = done.exception()
    if error is not None:
        callback(error)  # joblib raises what it is given if that is an exception
