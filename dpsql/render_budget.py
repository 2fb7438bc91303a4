"""How a budget looks: a bar for all that an account counts, and what the figures mean."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpsql.accounting import Composition
from dpsql.figures import percent, printable, significant

if TYPE_CHECKING:
    from dpsql.budget import BudgetReport

INDENT = 2


def budget_panel(report: BudgetReport) -> Group:
    """Bars for what is spent, and under zCDP the ε it amounts to."""
    grid = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    for name, spent, limit, note in _budget_rows(report):
        grid.add_row(
            Text(name, style="bold cyan"),
            _bar(spent, limit),
            f"{significant(spent)} of {significant(limit)} ({percent(spent, limit)})",
            Text(note, style="dim"),
        )
    return Group(
        Text.assemble(
            ("Budget of ", "bold"),
            (printable(report.account), "bold"),
            (f" ({report.composition} composition)", "dim"),
        ),
        Padding(grid, (0, 0, 0, INDENT)),
        Text("  " + _queries(report), style="dim"),
    )


def _budget_rows(report: BudgetReport) -> Iterator[tuple[str, float, float, str]]:
    """Name, spent, limit and a note for all that the account counts."""
    adds_up = "adds up query by query"
    if report.composition is Composition.BASIC:
        yield "ε", report.epsilon_spent, report.epsilon, adds_up
    else:
        total = f"at δ {significant(report.delta)}, over all queries"
        yield "ε", report.epsilon_spent, report.epsilon, total
        yield "ρ", report.rho_spent, report.rho_limit, f"zCDP: {adds_up}"
    yield "δ", report.delta_spent, report.delta_limit, adds_up


def _bar(spent: float, limit: float) -> Text:
    width = 24
    share = min(1.0, spent / limit) if limit > 0 else 1.0
    full = min(width, math.ceil(share * width))
    colour = "green" if share < 0.5 else "yellow" if share < 0.9 else "red"
    return Text.assemble(("█" * full, colour), ("░" * (width - full), "dim"))


def _queries(report: BudgetReport) -> str:
    text = f"{report.queries:,} quer{'y' if report.queries == 1 else 'ies'} charged"
    if report.unsettled:
        text += f", {report.unsettled:,} of them failed after reserving and keep the reservation"
    return text
