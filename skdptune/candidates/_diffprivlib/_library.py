"""The one place that loads diffprivlib, and the versions it is trusted in."""

import functools
import importlib
import importlib.metadata

from skdptune._exceptions import MissingDependencyError

__all__ = ["VETTED_VERSION", "fresh_accountant", "require_diffprivlib"]

VETTED_VERSION = "0.6.6"
_INSTALL = (
    f"pip install 'diffprivlib=={VETTED_VERSION}' 'scikit-learn<1.8' (or pip install '.[diffprivlib]' in a clone of "
    "the project)"
)


def _installed(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _complaint(diffprivlib, sklearn):
    """Return why this pair of versions is not trusted, or None.

    Examples
    --------
    >>> _complaint("0.6.6", "1.7.2") is None
    True
    >>> print(_complaint("0.6.6", "1.9.1"))
    diffprivlib 0.6.6 needs scikit-learn < 1.8 (its constructors break on 1.8 and its import on 1.9); \
got scikit-learn 1.9.1: pip install 'diffprivlib==0.6.6' 'scikit-learn<1.8' (or pip install \
'.[diffprivlib]' in a clone of the project).
    """
    if diffprivlib is None:
        return f"diffprivlib is needed for this candidate and is not installed: {_INSTALL}."
    if diffprivlib != VETTED_VERSION:
        return (
            f"the diffprivlib adapters were vetted on release {VETTED_VERSION} and state no price for "
            f"another; got diffprivlib {diffprivlib}: {_INSTALL}."
        )
    major, minor = (int(part) for part in sklearn.split(".")[:2])
    if (major, minor) >= (1, 8):
        return (
            f"diffprivlib {diffprivlib} needs scikit-learn < 1.8 (its constructors break on 1.8 and "
            f"its import on 1.9); got scikit-learn {sklearn}: {_INSTALL}."
        )
    return None


@functools.cache
def require_diffprivlib():
    """Return the ``diffprivlib`` module, or say what to install.

    Returns
    -------
    module

    Raises
    ------
    MissingDependencyError
        If diffprivlib is not installed, is not the vetted release, or meets a scikit-learn that it does
        not work with (1.8 breaks its constructors, 1.9 its import).
    """
    complaint = _complaint(_installed("diffprivlib"), _installed("scikit-learn"))
    if complaint is not None:
        raise MissingDependencyError(complaint)
    for name in ("mechanisms", "models"):
        importlib.import_module(f"diffprivlib.{name}")
    return importlib.import_module("diffprivlib")


def fresh_accountant():
    """Return a new, unlimited accountant that nobody else holds.

    diffprivlib's constructors otherwise take the process-wide default, and ``clone`` copies whatever
    they hold, so spends counted there would be lost or charged twice.
    """
    return require_diffprivlib().BudgetAccountant()
