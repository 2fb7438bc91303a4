"""What a session tells programs, in the parts of replies: tables, prices, costs and room.

The same for tools of language models and for other programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dpsql.agents.replies import (
    ColumnFacts,
    ExpectedError,
    PaidCost,
    RoomFor,
    ToolTable,
    Warned,
)
from dpsql.budget import BudgetReport
from dpsql.budget.account import AccountReport
from dpsql.core.formatting import upper_figure
from dpsql.core.quoting import quote_table
from dpsql.core.table_name import TableName
from dpsql.errors import UnknownName
from dpsql.ledger.carried import amount_of
from dpsql.pipeline.events import ChargeReserved, ChargeSettled, SessionEvent
from dpsql.privacy.accounting.zcdp import Amount
from dpsql.results.explanation import Explanation
from dpsql.results.result import Cost, Result
from dpsql.service.session import Session


@dataclass(slots=True)
class Charges:
    """What a session has reserved and settled, told by its events."""

    charges: dict[int, Amount] = field(default_factory=dict)

    def __call__(self, event: SessionEvent) -> None:
        """Count the charge that an event tells of."""
        if isinstance(event, ChargeReserved | ChargeSettled):
            self.charges[event.entry] = event.amount

    @property
    def amount(self) -> Amount:
        """All of it together."""
        return amount_of(self.charges.values())


def epsilon_left(accounts: Sequence[AccountReport]) -> float | None:
    """Return the epsilon that is left of the scarcest of the own accounts; None without a limit."""
    found = [
        limit.budget.epsilon - account.spent.epsilon
        for account in accounts
        for limit in account.limits
    ]
    return max(0.0, float(f"{min(found):.6g}")) if found else None


def paid_cost(cost: Cost, charges: Charges, accounts: Sequence[AccountReport]) -> PaidCost:
    """Tell the cost of an answer, by the ledger's events: whatever was charged is told."""
    free = not any(charges.amount.units)
    return PaidCost(
        epsilon_paid=0.0 if free else upper_figure(cost.settled_epsilon),
        epsilon_reserved=0.0 if free else upper_figure(cost.reserved_epsilon),
        free=free,
        answered=cost.answered,
        epsilon_left=epsilon_left(accounts),
    )


def warnings_of(result: Result) -> list[Warned]:
    """Return the warnings of an answer."""
    return [Warned(kind=str(one.kind), text=one.text, strong=one.strong) for one in result.warnings]


def tables_of(session: Session) -> list[ToolTable]:
    """List the tables that may be asked about."""
    fields = ("name", "access", "privacy_unit", "rows_per_unit", "defaults")
    rows = session.sql("SHOW TABLES").fetchall()
    return [ToolTable(**dict(zip(fields, row, strict=True))) for row in rows]


def table_facts(session: Session, named: str) -> tuple[ToolTable, list[ColumnFacts]]:
    """Describe a table. Raises ``UnknownName``."""
    name, tables = TableName.read(named), tables_of(session)
    if name is None:
        raise UnknownName(
            "there is no such table",
            code="unknown_table",
            hint=f"Tables: {', '.join(table.name for table in tables)}.",
        )
    rows = session.sql(f"DESCRIBE {quote_table(name)}").fetchall()
    fields = ("name", "type", "role", "lower", "upper", "domain")
    columns = [ColumnFacts(**dict(zip(fields, row, strict=True))) for row in rows]
    return next(one for one in tables if TableName.read(one.name) == name), columns


def free_words(found: Explanation) -> str:
    """Say why a question costs nothing; empty if it costs something."""
    if not found.blocks:
        return "it reads no private table"
    if found.answered is not None:
        return f"it was answered before, on {found.answered[:10]}"
    if found.follows is not None and found.only_released:
        return "it follows from an answer that was given before"
    return ""


def expected_errors(found: Explanation) -> list[ExpectedError]:
    """Tell how close the values of an answer would be, where it is known beforehand."""
    return [
        ExpectedError(
            aggregate=column.aggregate,
            margin=None if column.margin95 is None else upper_figure(column.margin95),
            groups_from_units=block.units_95,
        )
        for block in found.blocks
        for column in block.columns
    ]


def keys_of(found: Explanation) -> list[str]:
    """Say where the keys of an answer would come from."""
    return [key for block in found.blocks for key in block.keys]


def contribution_bounds_of(found: Explanation) -> list[str]:
    """Say how contributions would be bounded."""
    return [
        line
        for block in found.blocks
        for line in (block.bounding, block.groups_chosen, *block.declared)
        if line
    ]


def more_questions(report: BudgetReport) -> list[RoomFor]:
    """Tell how many more questions there is room for."""
    return [
        RoomFor(
            like="the last question" if each.which == "again" else "the policy's defaults",
            epsilon=[epsilon for epsilon, _ in each.settings],
            at_least=each.at_worst,
        )
        for each in report.forecasts
    ]
