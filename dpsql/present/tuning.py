"""Presentation of tuning: a table of tried settings per aggregate, and the recommendation."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dpsql.core.formatting import printable, significant
from dpsql.present.tables import indented, titled
from dpsql.results.tuning import TriedSetting, TunedAggregate, Tuning, best_sizes

RECOMMENDED = "→"


def tuning_panel(tuning: Tuning) -> Group:
    """Draw the tried settings, the recommendations and the cost."""
    parts: list[RenderableType] = []
    for found in tuning.aggregates:
        parts.append(Text(printable(found.aggregate, 60), style="bold"))
        table = _bounds_table(found) if found.of_bounds else _caps_table(found)
        parts.append(indented(table, above=1))
        if not tuning.dry_run:
            parts.append(indented(Text(printable(found.reason)), above=1))
        parts.append(Text(""))
    return Group(*parts, Text(_price(tuning), style="dim"))


def _price(tuning: Tuning) -> str:
    cost = tuning.cost
    if not cost.reserved.rho and not cost.reserved.epsilon:
        return "costs nothing: all of it is known to the account"
    price = f"ε {significant(cost.reserved_epsilon)}"
    if cost.reserved.rho:
        price += f" at δ {significant(cost.conversion_delta)} (ρ {significant(cost.reserved.rho)})"
    return f"would cost {price}; nothing was read" if tuning.dry_run else f"cost {price}"


def _caps_table(found: TunedAggregate) -> Table:
    titles = ("", "groups", "rows", "noise ±", "appears at", "left out", "off by", "best for")
    table = titled(*titles, right=range(1, 5))
    for place, one in enumerate(found.tried):
        mark = RECOMMENDED if place == found.recommended else ""
        caps = f"{one.max_groups_contributed:,}", f"{one.max_rows_contributed:,}"
        appears = "" if one.appears_95 is None else significant(one.appears_95)
        error = "" if one.error is None else significant(one.error, 3)
        sizes = "" if one.share is None else best_sizes(one)
        figures = significant(one.margin95), appears, _left_out(one), error, sizes
        table.add_row(*map(Text, (mark, *caps, *figures)))
    return table


def _bounds_table(found: TunedAggregate) -> Table:
    table = titled("", "from", "to", "noise ±", "values outside", right=range(1, 4))
    for place, one in enumerate(found.tried):
        mark = RECOMMENDED if place == found.recommended else ""
        low, high = one.bounds or (0.0, 0.0)
        ends = significant(low, 6), significant(high, 6)
        table.add_row(*map(Text, (mark, *ends, significant(one.margin95), _left_out(one))))
    return table


def _left_out(one: TriedSetting) -> str:
    """Write the left-out share with its interval."""
    if one.share is None or one.low is None or one.high is None:
        return "not known"
    share = f"{100 * one.share:.2g}%"
    if one.at_least:
        return f"{share} ({100 * one.low:.2g}% or more)"
    return f"{share} ({100 * one.low:.2g}% to {100 * one.high:.2g}%)"
