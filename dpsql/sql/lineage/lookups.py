"""Subqueries that look a value up in public rows, beside each private row.

    SELECT (SELECT district FROM stations s WHERE s.id = r.start) AS d, COUNT(*) FROM rides r …

They are a LEFT JOIN with the public rows, whose conditions are those that name a column of the row
around. One row of these is found at most: the public rows tell so. A row and its value depend on
the row and on public rows alone, as with any such join, and bounds on contributions do not rest on
that there is one. Lookups in the same rows by the same conditions share a join. Where no row is
found the value is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.sql_types import SqlType
from dpsql.ir.relations import Join, JoinKind, RowSet
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.legality import check_row_expression
from dpsql.sql.lineage.join_columns import conjuncts, side_by_side
from dpsql.sql.lineage.names import Names, columns_below, generated_column, mark_resolved
from dpsql.sql.lineage.operators import Operators
from dpsql.sql.lineage.relation import Relation
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name

_BETWEEN: Final = NodeArguments("this low high")
_TURNED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.EQ: exp.EQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
"""Comparisons, and what each is with its sides exchanged."""


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """A condition on public rows: that their ``column`` compares so with a ``value`` around.

    The types are those of the two.
    """

    column: str
    operator: type[exp.Expr]
    value: str
    column_type: SqlType
    value_type: SqlType


FindsOne: TypeAlias = Callable[[RowSet, Sequence[KeyComparison]], bool]
"""Tells whether at most one of some public rows fulfils comparisons, whatever the values are."""


@dataclass
class Stand:
    """The values of the subqueries of one SELECT, each once, and their shared joins.

    ``values`` are by the node and whether only its truth counts.
    """

    values: dict[tuple[exp.Expr, bool], exp.Expr] = field(default_factory=dict)
    lookups: dict[exp.Expr, Relation] = field(default_factory=dict)


class LookedUp:
    """The conditions of a lookup: on public ``rows`` alone, and those ``across``.

    The latter compare them with the row around.
    """

    def __init__(self, names: Names, operators: Operators, query: exp.Select) -> None:
        self._names, self._operators = names, operators
        self._parts = list(conjuncts(query.args["where"].this))

    def own(self, rows: Relation) -> exp.Where | None:
        """Return the conditions on public rows alone."""
        found = [part for part in self._parts if _is_of(part, rows)]
        return exp.Where(this=exp.and_(*found, copy=True)) if found else None

    def joined(
        self, source: Relation, rows: Relation, finds_one: FindsOne
    ) -> tuple[Relation, Relation] | None:
        """Join public rows to those around; None where several could be found for one.

        Returns all rows, and the public ones as they are beside them. Raises ``QueryRefused`` or
        ``UnknownName`` with the place of what cannot be used.
        """
        across = [part.copy() for part in self._parts if not _is_of(part, rows)]
        conditions: list[exp.Expr] = []
        compared: list[KeyComparison] = []
        for one in (each for part in across for each in _comparisons(part)):
            holder = exp.Paren(this=one)
            for column in columns_below(holder):
                mine = bool(rows.matches(column.table, column.name))
                self._names.resolve_column(column, rows if mine else source)
                mark_resolved(column)
            both = side_by_side(source, rows)
            self._names.resolve(holder, both)
            check_row_expression(holder.this, self._names.text)
            refuse_unlike(holder.this, both.type_of, self._names.text)
            condition: exp.Expr = holder.this
            compares = isinstance(condition, exp.Binary) and type(condition) in _TURNED
            written = (condition.this, condition.expression) if compares else ()
            if compares and not any(_mixes(side, rows, source) for side in written):
                sides = []
                for side in written:
                    source, rows, column = self._column(side.unnest(), source, rows)
                    sides.append(column)
                condition = type(condition)(this=sides[0], expression=sides[1])
                compared += _keys(condition, source, rows)
            conditions.append(condition)
        if not finds_one(rows.rows, compared):
            return None
        named = [column.name for each in conditions for column in each.find_all(exp.Column)]
        around = [f for f in map(source.field_of, named) if f is not None]
        single = all(f.single for f in around)
        keys = [each.column for each in compared]
        shown = replace(
            rows,
            fields=tuple(
                replace(f, name=f.column, qualifier="", merged=True, single=single)
                for f in rows.fields
            ),
            equal=(frozenset(keys),),
        )
        made = replace(
            source,
            rows=Join(source.rows, rows.rows, JoinKind.LEFT, tuple(conditions)),
            fields=source.fields + shown.fields,
            # Whether a row that is a unit stands alone must not rest on what was read before.
            rows_per_unit=None if source.rows_are_units else source.rows_per_unit,
        )
        return made, replace(rows, equal=shown.equal)

    def _column(
        self, side: exp.Expr, source: Relation, rows: Relation
    ) -> tuple[Relation, Relation, exp.Column]:
        """Make a side of a comparison a column of its rows."""
        if isinstance(side, exp.Column):
            return source, rows, side
        mine = any(rows.field_of(column.name) for column in side.find_all(exp.Column))
        name = self._names.new_column()
        if mine:
            rows = self._operators.extended(rows, {name: side})
        else:
            source = self._operators.extended(source, {name: side})
        return source, rows, generated_column(name)


def _mixes(side: exp.Expr, rows: Relation, source: Relation) -> bool:
    """Tell whether a side of a comparison is computed of both rows."""
    columns = [column.name for column in side.find_all(exp.Column)]
    return any(map(rows.field_of, columns)) and any(map(source.field_of, columns))


def names_others(query: exp.Select, rows: Relation) -> bool:
    """Tell whether the conditions of a subquery name what is no column of its own rows."""
    return not all(_is_of(part, rows) for part in conjuncts(query.args["where"].this))


def value_of(
    names: Names, item: exp.Expr, source: Relation, rows: Relation, node: exp.Expr
) -> exp.Expr:
    """Write the select item of a lookup over the ``source``, to which ``rows`` were joined for it.

    An expression has a value only beside a row that was found, in which no compared column is NULL.
    """
    holder = exp.Paren(this=item.unalias().copy())
    for column in columns_below(holder):
        mine = bool(rows.matches(column.table, column.name))
        names.resolve_column(column, rows if mine else source)
        mark_resolved(column)
    value = names.resolve(holder, source).this.unnest()
    if isinstance(value, exp.Column) and rows.field_of(value.name) is not None:
        value.meta["name"] = output_name(node)
        return value
    check_row_expression(value, names.text)
    refuse_unlike(value, source.type_of, names.text)
    found = mark_resolved(generated_column(min(rows.equal[0])))
    there = exp.not_(exp.Is(this=found, expression=exp.null()))
    return exp.paren(exp.Case(ifs=[exp.If(this=there, true=value)]))


def _is_of(part: exp.Expr, rows: Relation) -> bool:
    return all(rows.matches(column.table, column.name) for column in columns_below(part))


def _comparisons(part: exp.Expr) -> list[exp.Expr]:
    """Write BETWEEN as two comparisons."""
    if not isinstance(part, exp.Between) or not _BETWEEN.hold(part):
        return [part]
    return [
        exp.GTE(this=part.this.copy(), expression=part.args["low"]),
        exp.LTE(this=part.this, expression=part.args["high"]),
    ]


def _keys(condition: exp.Expr, source: Relation, rows: Relation) -> list[KeyComparison]:
    """Read a comparison of two columns as one of public rows with a value of the row around."""
    one, other = condition.this.name, condition.expression.name
    operator = type(condition)
    if rows.field_of(one) is None:
        one, other, operator = other, one, _TURNED[operator]
    mine, theirs = rows.field_of(one), source.field_of(other)
    if mine is None or theirs is None:
        return []
    if operator is exp.EQ and not mine.type.compares_exactly(theirs.type):
        return []  # a cast may make two values equal
    return [KeyComparison(one, operator, other, mine.type, theirs.type)]
