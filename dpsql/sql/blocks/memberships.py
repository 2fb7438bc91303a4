"""Places where it does not matter how often a row is listed: there, private rows are released keys.

    … WHERE k IN (SELECT k FROM visits)           … IN (SELECT DISTINCT k FROM visits)
    SELECT k FROM visits EXCEPT SELECT k …        SELECT DISTINCT k FROM visits EXCEPT …

``IN`` over public or released rows asks whether a value is listed, and set operations without ALL
list each row once. So a side that lists columns of private rows asks which keys exist, and is a
question like any other of these. Rows with conditions along the unit never get here: they are
rows of a block (:mod:`dpsql.sql.lineage.semijoins`).
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.syntax.arguments import NodeArguments

_LISTS: Final = NodeArguments("expressions from_ joins where with_ hint")
_BRACKETS: Final = NodeArguments("this")
_IN: Final = NodeArguments("this query")
_SET_OPERATION: Final = NodeArguments(
    "this expression distinct! by_name? with_? order? limit? offset?"
)


def list_once(select: exp.Select) -> None:
    """Make a list of private rows one of distinct rows, where that means the same."""
    if _LISTS.hold(select) and _is_membership(select) and _lists_columns(select):
        select.set("distinct", exp.Distinct())


def _is_membership(select: exp.Select) -> bool:
    """Tell whether a query stands where it does not matter how often it has a row."""
    below: exp.Expr = select
    while isinstance(below.parent, exp.Subquery) and _BRACKETS.hold(below.parent):
        below = below.parent
    above = below.parent
    if isinstance(above, exp.In):
        return _IN.hold(above) and below is above.args.get("query")
    return isinstance(above, exp.SetOperation) and _SET_OPERATION.hold(above)


def _lists_columns(select: exp.Select) -> bool:
    """Tell whether a select list computes from columns of single rows, and has no star."""
    parts = [part for item in select.expressions for part in outside_subqueries(item)]
    several = (exp.AggFunc, exp.Window, exp.Star)
    return any(isinstance(part, exp.Column) for part in parts) and not any(
        isinstance(part, several) for part in parts
    )
