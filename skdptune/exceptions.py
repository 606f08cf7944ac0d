"""Errors and warnings of skdptune, to be caught by name.

Every error is a :class:`SkdptuneError` and, at the same time, the built-in error that a caller of scikit-learn would
expect in its place, so existing ``except ValueError`` clauses keep working.

Examples
--------
>>> from skdptune.exceptions import InvalidParameterError, SkdptuneError
>>> issubclass(InvalidParameterError, SkdptuneError) and issubclass(InvalidParameterError, ValueError)
True
"""

from skdptune import _exceptions
from skdptune._exceptions import *  # noqa: F403

__all__ = list(_exceptions.__all__)
