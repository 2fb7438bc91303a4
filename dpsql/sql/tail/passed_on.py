"""Columns of released tables, followed through the subqueries and CTEs that pass them on.

    WITH d AS (SELECT k, COUNT(*) AS n FROM visits GROUP BY k)
    SELECT k, share FROM (SELECT k, n / 100.0 AS share FROM d) WHERE share > 1

Where an outer SELECT needs a column of a released table that nobody named, the SELECTs between hand
it on under a hidden name, and stars leave that out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.ir.query import Block
from dpsql.sql.lineage.table_names import is_qualified

ReadTable: TypeAlias = exp.Table | exp.Subquery
"""A table, CTE or subquery that a SELECT reads."""


class PassedColumns:
    """The SELECTs of a tail, and the hidden columns that they hand on."""

    def __init__(self, tree: exp.Query, blocks: Sequence[Block]) -> None:
        self._tree = tree
        self._numbers = {block.name: index for index, block in enumerate(blocks)}
        # By the identity of the SELECT: its hidden columns, by what they are.
        self._handed: dict[int, dict[exp.Column, str]] = defaultdict(dict)
        self._number = 0
        natural = any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
        self._by_position = natural or tree.find(exp.Pivot, exp.Columns) is not None

    def block_of(self, source: ReadTable) -> int | None:
        """Find the block whose released table a source is."""
        return self._numbers.get(source.name) if isinstance(source, exp.Table) else None

    def source_of(self, select: exp.Select, column: exp.Column) -> ReadTable | None:
        """Find the source that a column of a SELECT is of; None unless there is one."""
        found = list(sources_of(select))
        if column.table:
            found = [s for s in found if fold(s.alias_or_name) == fold(column.table)]
        elif len(found) > 1:
            found = [s for s in found if self._holds(s, column.name)]
        return found[0] if len(found) == 1 else None

    def _holds(self, source: ReadTable, name: str) -> bool:
        """Tell whether a subquery or CTE has an output column of that name."""
        inner = self.inner(source)
        if inner is None:
            return False
        if any(fold(item.alias_or_name) == fold(name) for item in inner.expressions):
            return True
        starred = any(map(is_star, inner.expressions))
        return starred and any(self._holds(deeper, name) for deeper in sources_of(inner))

    def inner(self, source: ReadTable) -> exp.Select | None:
        """Return the SELECT behind a subquery or the name of a CTE."""
        query: exp.Expr | None = source
        if isinstance(source, exp.Table):
            query = _cte(source)
        while isinstance(query, exp.Subquery):
            query = query.this
        return query if isinstance(query, exp.Select) else None

    def item(self, inner: exp.Select, name: str) -> exp.Expr | None:
        """Return the expression that an output column of a SELECT is; None if it has none."""
        for item in inner.expressions:
            if not is_star(item) and fold(item.alias_or_name) == fold(name):
                found: exp.Expr = item.unalias()
                return found
        for item in filter(is_star, inner.expressions):
            return quoted_column(name, item.table if isinstance(item, exp.Column) else "")
        return None

    def can_hand_on(self, source: ReadTable, inner: exp.Select) -> bool:
        """Tell whether one more column changes nothing but the columns there are."""
        alias = source.args.get("alias")
        renamed = alias is not None and alias.args.get("columns")
        clauses = any(inner.args.get(name) for name in ("distinct", "group", "having"))
        return not (renamed or clauses or self._by_position)

    def hand_on(self, source: ReadTable, inner: exp.Select, column: exp.Column) -> exp.Column:
        """Return the hidden column of a source that is a column of the SELECT behind it."""
        handed = self._handed[id(inner)]
        if column not in handed:
            handed[column] = f"{INTERNAL_PREFIX}h{self._number}"
            self._number += 1
            inner.append("expressions", exp.alias_(column, handed[column], quoted=True))
        return quoted_column(handed[column], source.alias_or_name)

    def hide(self) -> None:
        """Remove from all stars the columns that were handed on."""
        for select in self._tree.find_all(exp.Select) if self._handed else ():
            for star in filter(is_star, select.expressions):
                self._hide(select, star)

    def _hide(self, select: exp.Select, item: exp.Expr) -> None:
        star, qualifier = (item.this, item.table) if isinstance(item, exp.Column) else (item, "")
        names = [
            name
            for source in sources_of(select)
            if not qualifier or fold(source.alias_or_name) == fold(qualifier)
            for name in self._handed.get(id(self.inner(source)), {}).values()
        ]
        if names:
            columns = map(quoted_column, names)
            star.set("except_", [*(star.args.get("except_") or ()), *columns])


def sources_of(select: exp.Select) -> Iterator[ReadTable]:
    """Yield the tables, CTEs and subqueries that a SELECT reads."""
    from_ = select.args.get("from_")
    if from_ is None:
        return
    for source in (from_.this, *(join.this for join in select.args.get("joins") or ())):
        if isinstance(source, exp.Table | exp.Subquery):
            yield source
            for join in source.args.get("joins") or ():
                if isinstance(join.this, exp.Table | exp.Subquery):
                    yield join.this


def is_star(item: exp.Expr) -> bool:
    """Tell whether a select item is a star, of one table or of all."""
    return isinstance(item, exp.Star) or (
        isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    )


def quoted_column(name: str, table: str = "") -> exp.Column:
    """Write a column by its exact name, and that of its table if there is one."""
    qualifier = exp.to_identifier(table, quoted=True) if table else None
    return exp.column(exp.to_identifier(name, quoted=True), table=qualifier)


def _cte(table: exp.Table) -> exp.Expr | None:
    """Find the CTE of a name in the WITH clauses around it, the nearest first."""
    above: exp.Expr | None = None if is_qualified(table) else table
    while above is not None:
        with_ = above.args.get("with_")
        if with_ is not None and not with_.args.get("recursive"):
            for cte in reversed(with_.expressions):
                if fold(cte.alias) == fold(table.name):
                    body: exp.Expr = cte.this
                    return None if cte.args["alias"].args.get("columns") else body
        above = above.parent
    return None
