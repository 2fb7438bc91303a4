"""ASOF joins, written as joins with the row before the next one.

    visits v ASOF JOIN prices p ON v.ward = p.ward AND v.day >= p.since

    visits v
    JOIN (SELECT *, LEAD(since) OVER (PARTITION BY ward ORDER BY since) AS next FROM prices) p
    ON v.ward = p.ward AND v.day >= p.since AND (v.day < p.next OR p.next IS NULL)

Each row meets one row at most: the ends of the others do not overlap, and of equal ones all but the
last have none between. Over public rows the window is computed first; over private rows it is one
within a unit, and is refused where the unit is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.policy.model import Policy
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.lineage.join_columns import conjuncts
from dpsql.sql.lineage.table_names import name_of
from dpsql.syntax.arguments import NodeArguments

_NEXT: Final = "the next row's"
"""What stands before the name of a column: no column is called so."""
OF_ASOF_JOIN: Final = "of_asof_join"
"""The key, among the metadata of a window, of the name of the table that is joined by it."""
_PARTS: Final = NodeArguments("this method side on")
_MIRRORED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.GTE: exp.LTE,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.LT: exp.GT,
}
_BEFORE_NEXT: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
    exp.LT: exp.GTE,
}
"""How a row compares with the row after the one that it meets."""


def write_asof_joins(tree: exp.Query, text: str, policy: Policy) -> None:
    """Write the ASOF joins of a statement over private tables; ``tree`` is changed.

    Raises ``QueryRefused`` for a form that is not read.
    """
    joins = [join for join in tree.find_all(exp.Join) if join.method == "ASOF"]
    if joins and any(_is_private(table, policy) for table in tree.find_all(exp.Table)):
        for join in reversed(joins):  # those of a subquery before the one that it is copied into
            _write(join, text)


def _is_private(table: exp.Table, policy: Policy) -> bool:
    name = name_of(table)
    known = None if name is None else policy.table(name)
    return known is not None and not known.public


def _write(join: exp.Join, text: str) -> None:
    on, name = join.args.get("on"), join.this.alias_or_name
    same: list[exp.Expr] = []
    ordered: list[tuple[type[exp.Expr], exp.Expr, exp.Expr]] = []
    for part in [] if on is None else conjuncts(on):
        kind = type(part)
        if kind is exp.EQ or kind in _MIRRORED:
            one, other = part.this, part.expression
            if _is_of(one, name) and not _is_of(other, name):
                one, other, kind = other, one, _MIRRORED.get(kind, exp.EQ)
            if _is_of(other, name) and not any(_is_of(c, name) for c in one.find_all(exp.Column)):
                if kind is exp.EQ:
                    same.append(other)
                else:
                    ordered.append((kind, one, other))
                continue
        ordered = []
        break
    alias = join.this.args.get("alias")
    renamed = alias is not None and alias.columns
    if len(ordered) != 1 or renamed or not _PARTS.hold(join) or join.side not in ("", "LEFT"):
        raise refusal(
            text,
            "this form of ASOF JOIN is not available over private rows",
            "join_kind",
            join,
            hint="Write FROM a ASOF [LEFT] JOIN b ON a.k = b.k AND a.day >= b.day, with columns of "
            "b under its name, and one comparison that is no equality.",
        )
    ((kind, value, column),) = ordered
    next_name = f"{_NEXT} {column.name}"
    following = exp.Window(
        this=exp.Lead(this=exp.column(column.this.copy())),
        partition_by=[exp.column(each.this.copy()) for each in same],
        order=exp.Order(
            expressions=[
                exp.Ordered(
                    this=exp.column(column.this.copy()),
                    desc=kind in (exp.LTE, exp.LT),
                    nulls_first=False,
                )
            ]
        ),
    )
    following.meta[OF_ASOF_JOIN] = name
    source, named = join.this.copy(), exp.to_identifier(name, quoted=True)
    if not isinstance(source, exp.Subquery):
        source.set("alias", None)
    rows = exp.Select(
        expressions=[exp.Star(), exp.alias_(following, next_name, quoted=True)],
        from_=exp.From(this=source),
    )
    after = exp.column(next_name, table=name, quoted=True)
    inside = exp.Paren(
        this=exp.Or(
            this=_BEFORE_NEXT[kind](this=value.copy(), expression=after),
            expression=exp.Is(this=after.copy(), expression=exp.null()),
        )
    )
    join.set("method", None)
    join.set("this", exp.Subquery(this=rows, alias=exp.TableAlias(this=named)))
    assert on is not None, "it has a comparison"
    join.set("on", exp.And(this=on, expression=inside))
    _hide(join.find_ancestor(exp.Select), name, next_name)


def _hide(select: exp.Expr | None, name: str, column: str) -> None:
    """Leave a new column of the table of a name out of the stars of its SELECT."""
    for item in () if select is None else select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star) and (star is item or fold(item.table) == fold(name)):
            left_out = star.args.get("except_") or []
            if not any(each.name == column for each in left_out):
                star.set("except_", [*left_out, exp.column(column, quoted=True)])


def _is_of(node: exp.Expr, name: str) -> bool:
    """Tell whether a node is a column of the table of a name."""
    return isinstance(node, exp.Column) and fold(node.table) == fold(name)
