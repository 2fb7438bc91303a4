"""Questions about columns alone: how programs find out what a statement would return.

    SELECT * FROM visits WHERE 1 = 0        SELECT * FROM (SELECT … GROUP BY ward) t LIMIT 0

They are told by their text: at the outermost level a LIMIT of 0, or a condition that is false by
its constants where rows are passed on as they are. Such a statement has no row whatever the data
are, so nothing is read, run or paid for it; what it says is names and types.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold

_PASSED_ON: Final = (
    *(exp.Alias, exp.Column, exp.Star, exp.Identifier, exp.Paren),
    *(exp.Literal, exp.Null, exp.Boolean, exp.Cast, exp.DataType, exp.DataTypeParam),
)
"""Nodes of a SELECT list that surely contain no aggregate."""


def has_no_rows(tree: exp.Query) -> bool:
    """Tell by its text alone that a statement returns no row."""
    if _is_zero(_limit(tree)):
        return True
    if not isinstance(tree, exp.Select):
        return False
    where = tree.args.get("where")
    if where is None or not _never_holds(where.this):
        return False
    if any(tree.args.get(part) for part in ("group", "having", "qualify")):
        return False
    return all(isinstance(n, _PASSED_ON) for column in tree.expressions for n in column.walk())


def drop_unused_ctes(tree: exp.Query) -> bool:
    """Drop CTEs that nothing outside of them names; tells whether there were any."""
    found = False
    while dropped := [cte for cte in tree.find_all(exp.CTE) if not _is_named(tree, cte)]:
        found = True
        for cte in dropped:
            with_ = cte.parent
            cte.pop()
            if isinstance(with_, exp.With) and not with_.expressions:
                with_.pop()
    return found


def _is_named(tree: exp.Query, cte: exp.CTE) -> bool:
    """Tell whether the name of a CTE stands for a table anywhere but in itself."""
    name, inside = fold(cte.alias), {id(node) for node in cte.walk()}
    tables = (table for table in tree.find_all(exp.Table) if id(table) not in inside)
    return any(not table.db and fold(table.name) == name for table in tables)


def _limit(tree: exp.Query) -> exp.Expr | None:
    limit = tree.args.get("limit")
    return limit.expression if isinstance(limit, exp.Limit) else None


def _is_zero(number: exp.Expr | None) -> bool:
    return isinstance(number, exp.Literal) and not number.is_string and number.this == "0"


def _never_holds(condition: exp.Expr) -> bool:
    """Tell whether a condition is false or NULL for every row, by its constants alone."""
    match condition:
        case exp.Paren():
            return _never_holds(condition.this)
        case exp.And():
            return any(map(_never_holds, (condition.this, condition.expression)))
        case exp.Boolean():
            return not condition.this
        case exp.Null():
            return True
        case exp.EQ() | exp.NEQ():
            sides = (condition.this, condition.expression)
            if not all(isinstance(s, exp.Literal) and s.this.isdecimal() for s in sides):
                return False
            if sides[0].is_string or sides[1].is_string:
                return False
            equal = int(sides[0].this) == int(sides[1].this)
            return equal is isinstance(condition, exp.NEQ)
    return False
