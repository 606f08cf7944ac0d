"""Somebody else's accountant as a ledger: held by reference, charged once per search.

``clone`` and pickling copy parameters, and a copied accountant counts into nowhere: five fits of five clones would
have charged nothing. :class:`AccountantHandle` therefore refuses to be copied by value, and a handle that arrives
in another process refuses to spend.
"""

import math
import os
import sys
import threading
import weakref

from skdptune._exceptions import BudgetExceededError, InvalidParameterError
from skdptune._rounding import as_given, nats_up
from skdptune._validation import check_real, invalid_type
from skdptune.ledger._words import cheaper_search

__all__ = ["AccountantHandle", "as_ledger", "for_pickling"]

# In a forked child every object made before the fork is a copy: charging it would count into nowhere. The package
# may be loaded lazily, so it notes where it was imported first.
_BORN_IN = getattr(sys.modules.get("skdptune"), "_BORN_IN", os.getpid())


class _Tokens:
    """The tokens that each accountant was charged for, by the identity of the accountant while it lives."""

    def __init__(self):
        self.lock = threading.RLock()
        self._charged = {}

    def of(self, accountant):
        """Return the dictionary token -> amount of this accountant; it is forgotten with it."""
        key = id(accountant)
        if key not in self._charged:
            try:
                weakref.finalize(accountant, self._charged.pop, key, None).atexit = False
            except TypeError:  # no weak references: kept, with the accountant, so that its id is not given away
                self._charged[key] = ({}, accountant)
            else:
                self._charged[key] = ({}, None)
        return self._charged[key][0]


_TOKENS = _Tokens()


class AccountantHandle:
    """A diffprivlib ``BudgetAccountant``, held by reference and charged once per search.

    Parameters
    ----------
    accountant : diffprivlib.BudgetAccountant
        Anything with ``check(epsilon, delta)`` and ``spend(epsilon, delta)``.
    delta : float, optional
        The delta at which a search is charged. Defaults to the search's own ``delta``; a search whose
        price is finite at delta 0 needs none.

    Raises
    ------
    InvalidTypeError, InvalidParameterError

    Notes
    -----
    Copying (``copy``, ``deepcopy``, ``sklearn.base.clone``) returns the handle itself. Pickling gives a
    handle that refuses to spend, since the accountant it would charge is not the user's.

    Examples
    --------
    >>> import copy
    >>> class Accountant:
    ...     spent = []
    ...     def check(self, epsilon, delta):
    ...         return True
    ...     def spend(self, epsilon, delta):
    ...         self.spent.append((epsilon, delta))
    >>> handle = AccountantHandle(Accountant())
    >>> copy.deepcopy(handle) is handle
    True
    """

    def __init__(self, accountant, delta=None):
        if not (callable(getattr(accountant, "check", None)) and callable(getattr(accountant, "spend", None))):
            raise invalid_type(
                "accountant", "a diffprivlib BudgetAccountant (with check and spend)", accountant
            )
        self.accountant = accountant
        self.delta = None if delta is None else check_real("delta", delta, low=0, high=1, high_open=True)
        self._pid = os.getpid()

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _detached, ()

    def __repr__(self):
        return f"AccountantHandle({type(self.accountant).__name__}, delta={self.delta!r})"

    def charge(self, spent, delta=None):
        """Charge the whole search ``spent`` (a PrivacySpent), or refuse and charge nothing.

        Parameters
        ----------
        spent : PrivacySpent
        delta : float, optional
            The search's own delta, used where the handle has none.

        Raises
        ------
        BudgetExceededError
            If the accountant has too little left.
        InvalidParameterError
            If a delta is needed and none was given.
        """
        if os.getpid() != self._pid:
            _refuse_elsewhere()
        epsilon, delta = self._amount(spent, self.delta if self.delta is not None else delta)
        try:
            self.accountant.check(epsilon, delta)
        except Exception as error:
            raise BudgetExceededError(
                f"ledger must have epsilon={nats_up(epsilon)} and delta={as_given(delta)} left for the whole search; "
                f"the accountant refused with {type(error).__name__}. "
                f"{cheaper_search(getattr(getattr(spent, 'settings', None), 'target', None))}, or give a larger budget."
            ) from None
        self.accountant.spend(epsilon, delta)

    def charge_once(self, token, spent, delta=None):
        """Charge like :meth:`charge`, but not a token for which this accountant was charged already.

        The accountant lives in this process, and so does the memory of its tokens: a new process, with a new
        accountant, charges anew.

        Parameters
        ----------
        token : str
            Names the charge: a search that is resumed passes the token of its first attempt.
        spent : PrivacySpent
        delta : float, optional

        Raises
        ------
        BudgetExceededError, InvalidParameterError
            As for :meth:`charge`, and for a token that was charged another amount.
        """
        if os.getpid() != self._pid:
            _refuse_elsewhere()
        amount = self._amount(spent, self.delta if self.delta is not None else delta)
        with _TOKENS.lock:
            charged = _TOKENS.of(self.accountant)
            if token not in charged:
                self.charge(spent, delta)
                charged[token] = amount
            elif charged[token] != amount:
                raise InvalidParameterError(
                    f"token must be new, or that of the same charge; this accountant was charged {charged[token]} "
                    f"(epsilon, delta) for it before, and {amount} is asked now. Nothing was charged. Use a token of "
                    "its own for each search."
                )

    @staticmethod
    def _amount(spent, delta):
        pure = spent.epsilon(0.0)
        if delta is None:
            if not math.isfinite(pure):
                raise InvalidParameterError(
                    "ledger needs a delta to charge this search, whose price is infinite at delta=0; got None. "
                    "Pass delta= to the search, or AccountantHandle(accountant, delta=...)."
                )
            return pure, 0.0
        epsilon = spent.epsilon(delta)
        if not math.isfinite(epsilon):
            raise InvalidParameterError(
                f"ledger cannot be charged an infinite price: this search has no finite epsilon at "
                f"delta={as_given(delta)}. Use a larger delta or candidates with a finite cost."
            )
        return epsilon, delta


def _refuse_elsewhere():
    raise BudgetExceededError(
        "ledger was copied into another process, where charging it would count into nowhere. Fit in the process "
        "that holds the ledger (searches may still run their tries in workers), or charge there beforehand."
    )


class _Detached:
    """What a pickled handle becomes: an object that refuses to spend."""

    def charge(self, spent, delta=None):
        _refuse_elsewhere()

    def charge_once(self, token, spent, delta=None):
        _refuse_elsewhere()

    def __repr__(self):
        return "AccountantHandle(<left behind in another process>)"


def _detached():
    return _Detached()


def as_ledger(ledger):
    """Return an object with ``charge(spent, delta)`` for the ``ledger`` argument of a search, or None.

    Parameters
    ----------
    ledger : None, PrivacyLedger, AccountantHandle, BudgetAccountant, or object with ``charge``

    Raises
    ------
    InvalidTypeError
    """
    if ledger is None or callable(getattr(ledger, "charge", None)):
        return ledger
    behind = getattr(ledger, "__skdptune_ledger__", None)
    if behind is not None:  # an accountant that spends from a PrivacyLedger: charged directly, at the better price
        return behind
    if callable(getattr(ledger, "check", None)) and callable(getattr(ledger, "spend", None)):
        if os.getpid() != _BORN_IN:
            _refuse_elsewhere()
        return AccountantHandle(ledger)
    advice = ""
    if isinstance(ledger, (str, bytes, os.PathLike)):
        advice = f"Pass PrivacyLedger.open({ledger!r}) for the ledger in that file (from skdptune.ledger)."
    raise invalid_type("ledger", "None, a ledger with charge(), or a diffprivlib BudgetAccountant", ledger, advice)


def for_pickling(ledger):
    """Return what a copy of a search may carry of its ledger: nothing that spends elsewhere.

    A ledger that is the same budget in every process (a file, a server) says so with a true attribute
    ``shared_across_processes`` and travels as it is.

    Examples
    --------
    >>> for_pickling(None) is None
    True
    """
    if ledger is None or getattr(ledger, "shared_across_processes", False):
        return ledger
    return _Detached()
