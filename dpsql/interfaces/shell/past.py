"""Charges of a ledger as the shell lists them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from dpsql.budget.question import read_record
from dpsql.core.formatting import percent, printable, significant
from dpsql.ledger import Entry
from dpsql.present.tables import titled
from dpsql.privacy.accounting.zcdp import Amount


def charges_table(entries: Sequence[Entry], most: Amount) -> Table:
    """Show charges, the latest last, with their shares of the account's limit."""
    table = titled("when", "paid", "budget", "asked", right=(2,))
    for entry in reversed(entries):
        table.add_row(*map(Text, _told(entry, most)))
    return table


def _told(entry: Entry, most: Amount) -> tuple[str, ...]:
    """Say a charge in words: when, how much, its share of the account's limit, what for."""
    asked = read_record(entry.plan)
    conversion = sum(block.conversion_delta for block in asked.blocks)
    statement = " ".join(asked.statement.split()) or asked.kind
    if entry.stream is not None:
        far = f"{entry.stream.published:,} of {entry.stream.steps:,} steps"
        statement = f"stream {entry.stream.name}, {far}: {statement}"
    counted, reserved = entry.charged or entry.reserved, _epsilon(entry.reserved, conversion)
    paid = _epsilon(counted, conversion)
    if entry.charged is None:
        paid += ", held"
    elif paid != reserved:
        paid += f" of {reserved[2:]}"
    share = percent(counted.loss.rho or counted.epsilon, most.loss.rho or most.epsilon)
    return local_time(entry.created), paid, share, printable(statement, 200)


def local_time(time: str) -> str:
    """Write a UTC time of ISO 8601 by the clock of this machine."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")


def _epsilon(amount: Amount, conversion: float) -> str:
    """Write the epsilon of a single charge, or its rho where no delta is recorded."""
    loss = amount.loss
    if loss.rho and not conversion:
        return f"ρ {significant(loss.rho, 3)}"
    return f"ε {significant(loss.epsilon_at(conversion), 3)}"
