"""Finds the subqueries of a tail that stand for a value and read public tables alone.

SQL demands that they have one row at most. How many they have depends on nothing that is released,
so it is known before anything is paid for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.ir.query import PublicValue
from dpsql.sql.lineage.table_names import is_qualified
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import to_sql

_OF_ROWS: Final = (exp.From, exp.Join, exp.Query, exp.In, exp.Exists, exp.Any, exp.All, exp.CTE)
"""Nodes with subqueries below that may have any number of rows."""


def public_values(tree: exp.Query, text: str) -> Iterator[PublicValue]:
    """Yield the subqueries that stand for a value, where no released table has a part in them."""
    for subquery in tree.find_all(exp.Subquery):
        listed = isinstance(subquery.parent, exp.Select | exp.In) and subquery.arg_key != "query"
        if subquery.parent is None or (isinstance(subquery.parent, _OF_ROWS) and not listed):
            continue
        ctes = _named(subquery, _ctes_above(subquery))
        if ctes is None:
            continue
        rows = exp.select(exp.Literal.number(1)).from_(subquery.this.copy().subquery("v")).limit(2)
        if ctes:
            rows.set("with_", exp.With(expressions=[cte.copy() for cte in ctes]))
        yield PublicValue(to_sql(rows, copy=False), place_of(text, subquery))


def _ctes_above(node: exp.Expr) -> Mapping[str, exp.CTE]:
    """Return the CTEs of all queries around a node, the outermost first."""
    found: dict[str, exp.CTE] = {}
    above = node.parent
    while above is not None:
        with_ = above.args.get("with_")
        own = [] if with_ is None else with_.expressions
        found = {**{fold(cte.alias): cte for cte in own}, **found}
        above = above.parent
    return found


def _named(node: exp.Expr, known: Mapping[str, exp.CTE]) -> list[exp.CTE] | None:
    """List the CTEs that are read below a node, in their order; None if a released table is.

    A recursive CTE is read by itself: its subquery does not bind without that word, and is left to
    the run.
    """
    used: set[str] = set()
    waiting = [node]
    while waiting:
        for table in waiting.pop().find_all(exp.Table):
            name = fold(table.name)
            if name.startswith(INTERNAL_PREFIX):
                return None
            if name in known and name not in used and not is_qualified(table):
                used.add(name)
                waiting.append(known[name])
    return [cte for name, cte in known.items() if name in used]
