"""Budgets that outlive a search: charged once, for the whole search, before a private row is used.

:class:`PrivacyLedger` keeps a budget in a file, across searches, users and processes; :class:`AccountantHandle`
charges an accountant that lives in this process. A ledger is held *by reference*: copies spend the same budget or
refuse to spend.
"""

from skdptune.ledger._entries import LedgerEntry, LedgerSnapshot, PlannedEntry
from skdptune.ledger._handle import AccountantHandle, as_ledger, for_pickling
from skdptune.ledger._ledger import PrivacyLedger
from skdptune.ledger._orders import best_order

__all__ = [
    "AccountantHandle",
    "LedgerEntry",
    "LedgerSnapshot",
    "PlannedEntry",
    "PrivacyLedger",
    "as_ledger",
    "best_order",
    "for_pickling",
]
