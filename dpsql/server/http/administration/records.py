"""What the server has recorded, for auditors: the ledger and the audit log."""

from __future__ import annotations

import json

from dpsql.ledger import Entry
from dpsql.present.budget_files import entry_dict, to_json, verification_dict
from dpsql.server.desk import Desk
from dpsql.server.http.administration.act import Act
from dpsql.server.http.administration.bodies import (
    MOST_PAGE,
    AuditedLine,
    AuditReply,
    LedgerReply,
    VerificationReply,
)


def ledger_entries(desk: Desk, act: Act) -> LedgerReply:
    """List entries of the dataset, the latest first."""
    ledger = desk.ledger
    limit, before = act.numbers.get("limit", MOST_PAGE), act.numbers.get("before")
    found: tuple[Entry, ...] = ()
    if desk.guard.dataset_name in ledger.accounts():
        found = ledger.history(desk.guard.dataset_name, limit, before)
    entries = [json.loads(to_json(entry_dict(each))) for each in found]
    return LedgerReply(head=str(ledger.head()), entries=entries)


def verify_ledger(desk: Desk, act: Act) -> VerificationReply:
    """Recompute the ledger's chain, sums and rules."""
    found = verification_dict(desk.ledger.verify(), ())
    del found["anchors"]
    return VerificationReply(**found)


def audit_lines(desk: Desk, act: Act) -> AuditReply:
    """Check the audit log, and list lines of it."""
    limit = act.numbers.get("limit", MOST_PAGE)
    found = desk.audit.page(act.numbers.get("first"), limit)
    lines = [AuditedLine(number=number, line=dict(line)) for number, line in found.numbered]
    return AuditReply(lines=found.lines, head=found.head, found=lines)
