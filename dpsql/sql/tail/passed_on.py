"""Columns of released tables, followed through the subqueries and CTEs that pass them on.

    WITH d AS (SELECT k, COUNT(*) AS n FROM visits GROUP BY k)
    SELECT k, share FROM (SELECT k, n / 100.0 AS share FROM d) WHERE share > 1

Where an outer SELECT needs a column of a released table that nobody named, the SELECTs between hand
it on under a hidden name, and stars leave that out. Of the sides of a UNION ALL, all hand one on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from operator import is_not
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.ir.query import Block
from dpsql.sql.lineage.table_names import is_qualified
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name

ReadTable: TypeAlias = exp.Table | exp.Subquery
"""A table, CTE or subquery that a SELECT reads."""
_COLLECTING: Final = ("distinct", "group", "having")
_ALL_ROWS: Final = NodeArguments("this expression distinct with_ order limit offset")
_BRACKETS: Final = NodeArguments("this alias")
_MOST_SIDES: Final = 64


class PassedColumns:
    """The SELECTs of a tail, and the hidden columns that they hand on."""

    def __init__(self, tree: exp.Query, blocks: Sequence[Block]) -> None:
        self._tree = tree
        self._numbers = {block.name: index for index, block in enumerate(blocks)}
        # By the identity of the SELECT, the first one of a UNION ALL: its hidden columns, by what
        # each SELECT has there.
        self._handed: dict[int, dict[tuple[exp.Expr, ...], str]] = defaultdict(dict)
        self._number = 0
        # By the identity of the SELECT, and a name: a CTE may be read many times.
        self._held: dict[tuple[int, str], bool] = {}
        natural = any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
        columns = natural or tree.find(exp.Pivot, exp.Columns) is not None
        self._whole_rows = columns or any(map(self._is_row, tree.find_all(exp.Column)))

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
        sides = self.sides(source)
        if not sides:
            return False
        inner = sides[0]  # whose names are those of all
        asked = id(inner), fold(name)
        if asked not in self._held:  # by names that are as they were written
            self._held[asked] = self._first(inner, name, sure=True) is not None
        return self._held[asked]

    def _is_row(self, column: exp.Column) -> bool:
        """Tell whether a column names a source, and so is a whole row of it."""
        select = None if column.table else column.find_ancestor(exp.Select)
        order = column.find_ancestor(exp.Order, exp.Select)
        if isinstance(order, exp.Order) and isinstance(order.parent, exp.Select):
            aliases = {fold(item.alias) for item in order.parent.selects}
            select = None if fold(column.name) in aliases else select  # these come first
        while select is not None:
            sources = list(sources_of(select))
            if any(self._holds(source, column.name) for source in sources):
                return False
            if any(fold(source.alias_or_name) == fold(column.name) for source in sources):
                return True
            select = select.find_ancestor(exp.Select)
        return False

    def inner(self, source: ReadTable) -> exp.Select | None:
        """Return the SELECT behind a subquery or the name of a CTE."""
        sides = self.sides(source)
        return sides[0] if len(sides) == 1 else None

    def sides(self, source: ReadTable) -> tuple[exp.Select, ...]:
        """Return the SELECTs behind a subquery or the name of a CTE: several of a UNION ALL."""
        query: exp.Expr | None = source
        if isinstance(source, exp.Table):
            query = _cte(source)
        return sides_of(query)

    def item(self, inner: exp.Select, name: str) -> exp.Expr | None:
        """Return the expression that an output column of a SELECT is; None if it has none."""
        found = self._first(inner, name, sure=True)
        return self._first(inner, name, sure=False) if found is None else found

    def _first(self, inner: exp.Select, name: str, *, sure: bool) -> exp.Expr | None:
        """Return the first output column of that name: engines call only this one so.

        ``sure`` leaves out stars over sources whose columns are not known here.
        """
        for item in inner.expressions:
            if is_star(item):
                found = self._behind_star(inner, item, name, sure=sure)
                if found is not None:
                    return found
            elif fold(name_of_item(item)) == fold(name):
                written: exp.Expr = item.unalias()
                return written
        return None

    def _behind_star(
        self, select: exp.Select, item: exp.Expr, name: str, *, sure: bool
    ) -> exp.Expr | None:
        """Return what a star shows under a name; None if nothing."""
        star, qualifier = _parts_of(item)
        for replaced in star.args.get("replace") or ():
            if fold(replaced.alias) == fold(name):
                value: exp.Expr = replaced.this
                return value
        left_out = [*(star.args.get("except_") or ())]
        for renamed in star.args.get("rename") or ():
            if fold(renamed.alias) == fold(name):
                return quoted_column(renamed.this.name, qualifier)
            left_out.append(renamed.this)
        if any(fold(each.name) == fold(name) for each in left_out):
            return None
        if sure and not any(self._holds(each, name) for each in _starred(select, qualifier)):
            return None
        return quoted_column(name, qualifier)

    def can_hand_on(self, source: ReadTable, *sides: exp.Select) -> bool:
        """Tell whether one more column changes nothing but the columns there are."""
        alias = source.args.get("alias")
        renamed = alias is not None and alias.args.get("columns")
        clauses = any(side.args.get(name) for side in sides for name in _COLLECTING)
        return not (renamed or clauses or self._whole_rows)

    def hand_on(self, source: ReadTable, inner: exp.Select, column: exp.Expr) -> exp.Column:
        """Return the hidden column of a source that is an expression of the SELECT behind it."""
        sides = self.sides(source)
        return self.hand_on_all(source, [column if side is inner else exp.null() for side in sides])

    def hand_on_all(self, source: ReadTable, columns: Sequence[exp.Expr]) -> exp.Column:
        """Return a new hidden column of a source, made of one expression for each side."""
        sides = self.sides(source)
        handed, asked = self._handed[id(sides[0])], tuple(columns)
        if asked not in handed:
            handed[asked] = self.new_name()
            for side, column in zip(sides, columns, strict=True):
                side.append("expressions", exp.alias_(column, handed[asked], quoted=True))
        return quoted_column(handed[asked], source.alias_or_name)

    def new_name(self) -> str:
        """Return a hidden name that no column has."""
        self._number += 1
        return f"{INTERNAL_PREFIX}h{self._number - 1}"

    def hide(self) -> None:
        """Remove from all stars the columns that were handed on."""
        selects = list(self._tree.find_all(exp.Select)) if self._handed else []
        for select in selects:
            keep_names(select, exp.Query)
        for select in selects:
            for item in filter(is_star, select.expressions):
                self._hide(select, item)

    def _handed_by(self, source: ReadTable) -> Iterable[str]:
        sides = self.sides(source)
        return self._handed.get(id(sides[0]), {}).values() if sides else ()

    def _hide(self, select: exp.Select, item: exp.Expr) -> None:
        star, qualifier = _parts_of(item)
        names = [name for source in _starred(select, qualifier) for name in self._handed_by(source)]
        if names:
            columns = map(quoted_column, names)
            star.set("except_", [*(star.args.get("except_") or ()), *columns])


def sides_of(query: exp.Expr | None) -> tuple[exp.Select, ...]:
    """Return the SELECTs of a query: those of all sides of a UNION ALL; none of others."""
    found, left = list[exp.Select](), [query]
    while left and len(found) < _MOST_SIDES:
        side = left.pop()
        if isinstance(side, exp.Subquery) and (side is query or _BRACKETS.hold(side)):
            left.append(side.this)
        elif type(side) is exp.Union and _ALL_ROWS.hold(side) and not side.args.get("distinct"):
            left += [side.expression, side.this]
        elif isinstance(side, exp.Select):
            found.append(side)
        else:
            return ()
    return () if left else tuple(found)


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


def name_of_item(item: exp.Expr) -> str:
    """Return the name of a select item: its alias or column, empty for other expressions."""
    if isinstance(item, exp.Alias | exp.Subquery):
        return item.alias
    return item.name if isinstance(item, exp.Column) else ""


def keep_names(select: exp.Select, rewritten: type[exp.Expr]) -> None:
    """Give select items with rewritten parts the names that they have as written."""
    named: list[exp.Expr] = []
    for item in select.expressions:
        if name_of_item(item) or not item.find(rewritten):
            named.append(item)
        else:
            named.append(exp.alias_(item, output_name(item), quoted=True, copy=False))
    select.set("expressions", named)


def quoted_column(name: str, table: str = "") -> exp.Column:
    """Write a column by its exact name, and that of its table if there is one."""
    qualifier = exp.to_identifier(table, quoted=True) if table else None
    return exp.column(exp.to_identifier(name, quoted=True), table=qualifier)


def _parts_of(item: exp.Expr) -> tuple[exp.Expr, str]:
    """Split a select item into its star and the name of the table before it, if any."""
    return (item.this, item.table) if isinstance(item, exp.Column) else (item, "")


def _starred(select: exp.Select, qualifier: str) -> Iterator[ReadTable]:
    """Yield the sources that a star of a SELECT stands for."""
    for source in sources_of(select):
        if not qualifier or fold(source.alias_or_name) == fold(qualifier):
            yield source


def _cte(table: exp.Table) -> exp.Expr | None:
    """Find the CTE of a name in the WITH clauses around it, the nearest first.

    A CTE reads those before it, and not itself. Of recursive ones none is found.
    """
    above: exp.Expr | None = None if is_qualified(table) else table
    inside: exp.Expr | None = None
    while above is not None:
        if isinstance(above, exp.CTE):
            inside = above
        with_ = above.args.get("with_")
        ctes = [] if with_ is None else with_.expressions
        for cte in takewhile(partial(is_not, inside), ctes):
            if fold(cte.alias) == fold(table.name):
                body: exp.Expr = cte.this
                unread = cte.args["alias"].args.get("columns") or cte.parent.args.get("recursive")
                return None if unread else body
        above = above.parent
    return None
