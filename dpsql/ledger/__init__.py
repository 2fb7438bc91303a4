"""The budget ledger: what every account has spent, durable, exact and only ever growing.

A query *reserves* its worst case before any private row is read, and *settles* what it really cost
before any released row is shown. Settling is the only thing that lowers what was spent; a query
that fails, is cancelled or dies in between keeps its whole reservation for ever.

Amounts are whole ledger units (:class:`dpsql.accounting.Amount`). An account is charged in delta
and in rho or epsilon, as its composition says; it never holds both rho and epsilon.
"""

from __future__ import annotations

from dpsql.ledger.store import Ledger
from dpsql.ledger.values import Account, Charge, Entry, Spent

__all__ = ["Account", "Charge", "Entry", "Ledger", "Spent"]
