"""The budget ledger: what every account has spent, durable, exact and only ever growing.

A query *reserves* its worst case before any private row is read, and *settles* what it really cost
before any released row is shown. Settling is the only thing that lowers what was spent; a query
that fails, is cancelled or dies in between keeps its whole reservation for ever. A *stream* is
charged once, in full, for all the steps that it will publish.

Amounts are whole ledger units (:class:`dpsql.privacy.accounting.Amount`). Everything that happens
is an event of a hash chain (:mod:`dpsql.ledger.chain`); all else in a ledger is computed from it.
"""

from __future__ import annotations

from dpsql.ledger.chain import Event, Kind, cause_of
from dpsql.ledger.owner import Owner
from dpsql.ledger.records import (
    Account,
    Cause,
    Charge,
    Entry,
    Head,
    PublishedStep,
    ReadableStream,
    RenamedAccount,
    Renewal,
    Spent,
    Standing,
    StepTicket,
    Stored,
    StreamProgress,
    StreamRecord,
    Window,
)
from dpsql.ledger.releases import MAX_RELEASE
from dpsql.ledger.schema import LEFT_OUT_MECHANISM
from dpsql.ledger.store import Ledger
from dpsql.ledger.verify import Verification

__all__ = [
    "LEFT_OUT_MECHANISM",
    "MAX_RELEASE",
    "Account",
    "Cause",
    "Charge",
    "Entry",
    "Event",
    "Head",
    "Kind",
    "Ledger",
    "Owner",
    "PublishedStep",
    "ReadableStream",
    "RenamedAccount",
    "Renewal",
    "Spent",
    "Standing",
    "StepTicket",
    "Stored",
    "StreamProgress",
    "StreamRecord",
    "Verification",
    "Window",
    "cause_of",
]
