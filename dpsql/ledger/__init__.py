"""The budget ledger: what every account has spent, durable, exact and only ever growing.

A query *reserves* its worst case before any private row is read, and *settles* what it really cost
before any released row is shown. Settling is the only thing that lowers what was spent; a query
that fails, is cancelled or dies in between keeps its whole reservation for ever.

Amounts are integers: rho in units of 2**-40, delta in units of 2**-62 (see
:mod:`dpsql.accounting`), because sums of floats depend on their order.
"""

from __future__ import annotations

from dpsql.ledger.store import Ledger
from dpsql.ledger.values import Account, Charge, Entry, Spent

__all__ = ["Account", "Charge", "Entry", "Ledger", "Spent"]
