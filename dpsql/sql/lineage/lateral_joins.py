"""LATERAL subqueries of one row, written as the values that they stand for.

    FROM orders o, LATERAL (SELECT SUM(qty) AS q FROM lines l WHERE l.order_id = o.order_id) x
    WHERE x.q > 3

    FROM orders o WHERE (SELECT SUM(qty) FROM lines l WHERE l.order_id = o.order_id) > 3

A subquery without keys whose items are aggregates has one row for each row around, as one has
without FROM; a LEFT JOIN with one that ends in LIMIT 1 has one row, too, of NULLs where nothing is
found. So the join changes no number of rows, and its columns are values of the row around, with
whatever rules there are for these. Other forms are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.errors import QueryRefused
from dpsql.sql.expressions.call import is_aggregate
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.sql.lineage.narrowed import TableOf
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name

MOST_WRITTEN: Final = 20_000
"""Nodes of all values that are written in the places of columns: one can be made of others."""
_LATERAL: Final = NodeArguments("this alias view? outer?")
_JOINED: Final = NodeArguments("this on kind side")
_BARE: Final = NodeArguments("this")
_ALIAS: Final = NodeArguments("this columns")
_AGGREGATED: Final = NodeArguments("expressions from_ joins where")
_COMPUTED: Final = NodeArguments("expressions")
_FIRST: Final = NodeArguments("expressions from_ joins where order limit")
_DRAWN: Final = (exp.Rand, exp.Randn, exp.Uuid, exp.Anonymous)
_LIMIT: Final = NodeArguments("expression")


def write_laterals(tree: exp.Query, table_of: TableOf) -> None:
    """Write LATERAL subqueries of one row as values; ``tree`` is changed.

    Raises ``QueryRefused`` (``query_too_large``) where these are made of each other too often.
    """
    left = MOST_WRITTEN
    for select in reversed(list(tree.find_all(exp.Select))):  # those inside of others first
        for join in list(select.args.get("joins") or ()):
            values = _values(join)
            if values is not None and _can_be_named(select, join, values, table_of):
                select.args["joins"] = [each for each in select.args["joins"] if each is not join]
                left = _write(select, join.this.alias, values, left)


def _values(join: exp.Join) -> dict[str, exp.Expr] | None:
    """Return the values of a join's columns, by their folded names; None for another form."""
    lateral = join.this
    if not isinstance(lateral, exp.Lateral) or not _LATERAL.hold(lateral) or not lateral.alias:
        return None
    on, side = join.args.get("on"), str(join.side or "").upper()
    every = on is None or (isinstance(on, exp.Boolean) and on.this is True)
    if not _JOINED.hold(join) or not every or side not in ("", "LEFT"):
        return None
    alias, query = lateral.args["alias"], lateral.this
    if not isinstance(query, exp.Subquery) or not _BARE.hold(query) or not _ALIAS.hold(alias):
        return None
    select = query.this
    if not isinstance(select, exp.Select) or not _has_one_row(select, outer=side == "LEFT"):
        return None
    new = [column.name for column in alias.args.get("columns") or ()]
    names = [item.alias or output_name(item) for item in select.expressions]
    names[: len(new)] = new
    if len(new) > len(select.expressions) or len(set(map(fold, names))) < len(names):
        return None
    values: dict[str, exp.Expr] = {}
    for name, item in zip(names, select.expressions, strict=True):
        value = item.unalias()
        if select.args.get("from_") is not None:
            one = select.copy()
            one.set("expressions", [value.copy()])
            value = exp.Subquery(this=one)
        values[fold(name)] = value if isinstance(value, exp.Subquery) else exp.paren(value)
    return values


def _has_one_row(select: exp.Select, *, outer: bool) -> bool:
    """Tell whether a subquery has one row for each row around it."""
    parts = [list(outside_subqueries(item.unalias())) for item in select.expressions]
    aggregated = [any(map(is_aggregate, nodes)) for nodes in parts]
    windows = any(isinstance(node, exp.Window) for nodes in parts for node in nodes)
    drawn = select.find(*_DRAWN) is not None  # anew wherever it is written
    if windows or drawn or any(item.is_star for item in select.expressions):
        return False
    if select.args.get("from_") is None:
        return _COMPUTED.hold(select) and not any(aggregated)
    if _AGGREGATED.hold(select):
        return all(aggregated)
    limit = select.args.get("limit")
    one = limit is not None and _LIMIT.hold(limit) and limit.expression.name == "1"
    return outer and one and _FIRST.hold(select) and not any(aggregated)


def _can_be_named(
    select: exp.Select, join: exp.Join, values: Mapping[str, exp.Expr], table_of: TableOf
) -> bool:
    """Tell whether it is clear which names mean columns of a lateral join."""
    if any(item.is_star for item in select.expressions):
        return False
    sources = [select.args["from_"].this, *(each.this for each in select.args["joins"])]
    names = [fold(source.alias_or_name) for source in sources]
    inner = [fold(s.alias_or_name) for s in select.find_all(exp.Table, exp.Subquery) if s.alias]
    if names.count(fold(join.this.alias)) != 1 or fold(join.this.alias) in inner:
        return False
    within = {id(column) for column in join.find_all(exp.Column)}
    bare = [
        column
        for column in select.find_all(exp.Column)
        if not column.table and fold(column.name) in values and id(column) not in within
    ]
    if any(column.find_ancestor(exp.Select) is not select for column in bare):
        return False  # it may be of the subquery's own rows
    tables = [
        table_of(source) if isinstance(source, exp.Table) else None
        for source in sources
        if source is not join.this
    ]
    return not bare or not any(
        table is None or any(fold(column.name) in values for column in table[0].columns)
        for table in tables
    )


def _write(select: exp.Select, name: str, values: Mapping[str, exp.Expr], left: int) -> int:
    """Write values in the places of columns; return how many more nodes may be written."""
    sizes = {column: sum(1 for _ in value.walk()) for column, value in values.items()}
    for column in list(select.find_all(exp.Column)):
        key = fold(column.name)
        if key not in values or (column.table and fold(column.table) != fold(name)):
            continue
        left -= sizes[key]
        if left < 0:
            raise QueryRefused(
                "columns of LATERAL subqueries are made of each other too often",
                code="query_too_large",
                hint="Compute them step by step, in subqueries: FROM (SELECT *, … AS a FROM t).",
            )
        value = values[key].copy()
        item = column.parent is select and column.arg_key == "expressions"
        alias = exp.to_identifier(column.name, quoted=True)
        column.replace(exp.Alias(this=value, alias=alias) if item else value)
    return left
