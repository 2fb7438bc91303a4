"""Subqueries for one value of a unit's rows, beside each row of the unit.

    FROM users u WHERE (SELECT COUNT(*) FROM orders o WHERE o.user_id = u.user_id) > 3

The rows inside are grouped per unit, and a LEFT JOIN puts the value beside each row around. An
equality makes both rows belong to one unit (see :mod:`dpsql.sql.lineage.joins`), and all else that
is asked inside is of these rows alone; so a row and its value depend on rows of its own unit. Where
there are none inside, a count is 0, and other values are NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.core.schema import Column
from dpsql.ir.relations import Computed, Extend, Join, JoinKind, Typed
from dpsql.sql.expressions.call import is_aggregate
from dpsql.sql.expressions.legality import check_row_expression, outside_subqueries
from dpsql.sql.expressions.ranges import is_truth
from dpsql.sql.lineage.join_columns import conjuncts
from dpsql.sql.lineage.joins import Pair, depending_on, is_one_unit
from dpsql.sql.lineage.names import (
    Names,
    columns_below,
    generated_column,
    resolved_column,
    sorting_key,
)
from dpsql.sql.lineage.operators import Operators
from dpsql.sql.lineage.preaggregate import per_unit
from dpsql.sql.lineage.relation import Field, Identity, Relation
from dpsql.sql.lineage.windows import placed
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name

_CLAUSES = frozenset({"expressions", "from_", "joins", "where", "with_", "order", "limit"})
_SEVERAL = (exp.AggFunc, exp.Star, exp.Query, exp.Window)
"""What is no value of one row."""
_LIMIT = NodeArguments("expression")
_TESTS = (exp.In, exp.Exists, exp.Any, exp.All)


@dataclass(frozen=True, slots=True)
class Correlation:
    """The columns that are equal inside and around, and the other conditions inside."""

    inside: Field
    around: Field
    conditions: tuple[exp.Expr, ...]


def values_within(root: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Select]]:
    """Yield the subqueries in an expression that may be one value of a unit's rows."""
    for node in list(outside_subqueries(root)):
        if not isinstance(node, exp.Subquery) or _is_tested(node):
            continue
        query = node.unnest()
        if (
            isinstance(query, exp.Select)
            and {clause for clause, value in query.args.items() if value} <= _CLAUSES
            and query.args.get("where") is not None
            and _leaves_some(query.args.get("limit"))
            and len(query.expressions) == 1
            and _is_one_value(query)
        ):
            yield node, query


def _is_tested(node: exp.Expr) -> bool:
    """Tell whether a test asks a subquery for its rows; of a list of IN it is a value."""
    parent = node.parent
    lists = isinstance(parent, exp.In) and parent.args.get("query") is None
    return isinstance(parent, _TESTS) and not lists


def correlation(query: exp.Select, rows: Relation, around: Relation) -> Correlation | None:
    """Find the equality that makes the rows of a subquery belong to the unit of the row around.

    None where there is none, or where more of the subquery is not of its own rows.
    """

    def own(node: exp.Expr) -> bool:
        return all(rows.matches(c.table, c.name) for c in columns_below(node))

    parts = list(conjuncts(query.args["where"].this))
    across = [part for part in parts if not own(part)]
    if not rows.private or len(across) != 1 or not own(query.expressions[0]):
        return None
    sides = [across[0].args.get(side) for side in ("this", "expression")]
    bare = [side.unnest() for side in sides if isinstance(side, exp.Expr)]
    columns = [side for side in bare if isinstance(side, exp.Column)]
    if not isinstance(across[0], exp.EQ) or len(columns) != 2:
        return None
    inner, outer = columns if own(columns[0]) else reversed(columns)
    ones, others = rows.matches(inner.table, inner.name), around.matches(outer.table, outer.name)
    if len(ones) != 1 or len(others) != 1:
        return None
    if not is_one_unit(around, rows, [Pair(others[0].column, ones[0].column)]):
        return None
    rest = tuple(part for part in parts if part is not across[0])
    return Correlation(ones[0], others[0], rest)


def check_order(names: Names, query: exp.Select, rows: Relation) -> None:
    """Refuse an order by unknown columns, also of a single row, where it changes nothing.

    Raises as :func:`with_value`.
    """
    for term in _order(query):
        key = exp.Paren(this=term.this.copy())
        check_row_expression(names.resolve(key, rows), names.text)


def is_first(query: exp.Select) -> bool:
    """Tell whether a subquery asks for the first row by an order."""
    limit = query.args.get("limit")
    return bool(_order(query)) and limit is not None and int(limit.expression.name) == 1


def first_rows(
    names: Names, operators: Operators, rows: Relation, equal: Correlation, query: exp.Select
) -> Relation:
    """Keep the first row of those that are found for a row around, by the order of a subquery.

    Rows that are equal in it are told apart by their other columns. Raises as :func:`with_value`.
    """
    rows, unit = _showing_unit(rows)
    there = {column.name for column in rows.rows.columns}
    rows = replace(rows, fields=tuple(f for f in rows.fields if f.column in there))
    keys = dict.fromkeys((equal.inside.column, unit))
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[resolved_column(key, key) for key in keys],
        order=exp.Order(expressions=_order(query)),
    )
    first = exp.EQ(this=place, expression=exp.Literal.number(1))
    listed = exp.Select(expressions=[exp.Star()], qualify=exp.Qualify(this=first))
    kept, _ = placed(names, operators, listed, rows, rows.unit_label, ())
    return kept


def with_value(
    names: Names,
    operators: Operators,
    around: Relation,
    rows: Relation,
    equal: Correlation,
    node: exp.Expr,
    query: exp.Select,
) -> tuple[Relation, exp.Expr]:
    """Add the value of a subquery to each row ``around``.

    Returns the rows, and the column that stands for the subquery. ``rows`` are those inside that
    fulfil the conditions, with their unit known. Raises ``QueryRefused`` or ``UnknownName`` with
    the place of what cannot be used.
    """
    rows, unit = _showing_unit(rows)
    key = resolved_column(equal.inside.column, equal.inside.name)
    keys: list[exp.Expr] = [key]
    if not rows.is_unit(key.name):
        keys.append(generated_column(unit))
    item = query.expressions[0].unalias().unnest()
    call = item if is_call(query) else _only_value(names, item, rows)
    grouped = exp.Select(
        expressions=[key.copy(), call.copy()],
        group=exp.Group(expressions=[each.copy() for each in keys]),
    )
    whole, listed = per_unit(names, operators, grouped, rows, keys)
    groups = operators.projected(listed, whole)
    at, value = groups.fields
    if isinstance(item, exp.Column):
        value = replace(value, policy=rows.matches(item.table, item.name)[0].policy)
    same = exp.EQ(
        this=generated_column(equal.around.column), expression=generated_column(at.column)
    )
    joined = Join(around.rows, groups.rows, JoinKind.LEFT, (same,))
    column: exp.Expr = generated_column(value.column)
    if isinstance(call, exp.Count | exp.CountIf):
        column = exp.Coalesce(this=column, expressions=[exp.Literal.number(0)])
    name = names.new_column()
    made = Typed(Extend(joined, (Computed(name, column),)), (Column(name, value.type),))
    field = replace(
        value,
        name=name,
        column=name,
        merged=True,  # no star means it
        single=around.is_unit(equal.around.column),
    )
    together = depending_on(around, rows)
    shown = replace(together, rows=made, fields=(*around.fields, field))
    return shown, resolved_column(name, output_name(node))


def _is_one_value(query: exp.Select) -> bool:
    """Tell whether a subquery lists an aggregate, which has no order, or a value of a row."""
    if is_call(query):
        return query.args.get("order") is None
    return query.expressions[0].find(*_SEVERAL) is None


def _order(query: exp.Select) -> list[exp.Expr]:
    """List the terms of an ORDER BY, with the select item where its alias or place stands."""
    order = query.args.get("order")
    terms = [] if order is None else [term.copy() for term in order.expressions]
    for term in terms:
        key = sorting_key(term.this, query)
        if isinstance(key, exp.Literal) and key.is_int and key.name == "1":
            key = query.expressions[0].unalias()
        term.set("this", key.copy())
    return terms


def _leaves_some(limit: exp.Expr | None) -> bool:
    """Tell whether a LIMIT, if there is one, is a number of rows and not 0."""
    if limit is None:
        return True
    most = limit.args.get("expression")
    return (
        _LIMIT.hold(limit) and isinstance(most, exp.Literal) and most.is_int and int(most.this) > 0
    )


def is_call(query: exp.Select) -> bool:
    """Tell whether a subquery asks for an aggregate of its rows."""
    return is_aggregate(query.expressions[0].unalias().unnest())


def _only_value(names: Names, item: exp.Expr, rows: Relation) -> exp.Expr:
    """Write the value of a unit's only row as an aggregate: BOOL_OR for truth values."""
    truth = is_truth(names.resolve(item.copy(), rows), rows.table)
    aggregate = exp.LogicalOr if truth else exp.AnyValue
    return aggregate(this=item.copy())


def _showing_unit(rows: Relation) -> tuple[Relation, str]:
    """Return the rows with their unit among the fields, where a link's parent has it; its name."""
    unit = rows.unit
    assert unit is not None
    if rows.field_of(unit) is not None:
        return rows, unit
    type_ = next(column.type for column in rows.rows.columns if column.name == unit)
    shown = Field("", unit, unit, type_, merged=True, identity=Identity.UNIT)
    return replace(rows, fields=(*rows.fields, shown)), unit
