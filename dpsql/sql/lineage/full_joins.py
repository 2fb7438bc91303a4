"""FULL JOIN of private rows on their unit: rows of either side without a match keep their own unit.

It is the LEFT JOIN together with those rows of the RIGHT JOIN that have no match, so that any
condition may stand beside the equality of the units on every engine. The unit of a row is that of
whichever side it has: both are the same where it has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.ir.relations import Combined, Computed, Extend, Filter, SetOperator, Typed
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.lineage.joins import Pair, joined, units_meet
from dpsql.sql.lineage.names import Names, generated_column
from dpsql.sql.lineage.operators import Operators
from dpsql.sql.lineage.relation import Field, Identity, Relation

Shared = Sequence[tuple[Field, Field]]


def fully_joined(
    names: Names,
    operators: Operators,
    left: Relation,
    right: Relation,
    join: exp.Join,
    conditions: Sequence[exp.Expr],
    pairs: list[Pair],
    shared: Shared,
) -> Relation:
    """Join two relations, with the rows of both that find no match.

    ``shared`` are the columns that USING makes one: the value of whichever side a row has. Raises
    ``QueryRefused`` if a row could belong to two units or to none.
    """
    if not (left.private and right.private) or left.pending or right.pending:
        raise refusal(
            names.text,
            "FULL JOIN over private rows joins two private tables on their privacy unit",
            "join_kind",
            join,
            hint="Write a LEFT JOIN that keeps the private side, or first join a table that is "
            "linked with the one that has the unit, in a subquery.",
        )
    sides = {side: join.copy() for side in ("LEFT", "RIGHT")}
    for side, written in sides.items():
        written.set("side", side)
    of_left, of_right = (
        joined(left, right, written, conditions, pairs, names.text) for written in sides.values()
    )
    assert left.unit is not None
    assert right.unit is not None
    alone = exp.Is(this=generated_column(left.unit), expression=exp.Null())
    columns = tuple((column.name,) * 3 for column in of_left.rows.columns)
    unmatched = Filter(of_right.rows, alone)
    rows = Combined(of_left.rows, unmatched, SetOperator.UNION, distinct=False, names=columns)
    # As the RIGHT JOIN has them of the left, and as the LEFT JOIN has the others: perhaps NULL.
    fields = of_right.fields[: len(left.fields)] + of_left.fields[len(left.fields) :]
    most = of_left.rows_per_unit
    if len(conditions) > 1 or not any(units_meet(left, right, pair) for pair in pairs):
        most, fields = None, tuple(replace(field, single=False) for field in fields)
    units = left.unit, right.unit
    values = dict.fromkeys([units, *((one.column, other.column) for one, other in shared)])
    made = {both: names.new_column() for both in values}
    extended = Extend(rows, tuple(Computed(name, _either(*both)) for both, name in made.items()))
    types = operators.bind(extended, *made.values())
    type_of = {column.name: column.type for column in types}
    unit = made[units]
    merged = {
        one.column: _merged(one, other, made[one.column, other.column]) for one, other in shared
    }
    hidden = {field.column for pair in shared for field in pair}
    shown: list[Field] = []
    for field in fields:
        if field.column in merged and not field.merged:
            instead = merged[field.column]
            shown.append(replace(instead, type=type_of[instead.column]))
        shown.append(replace(field, merged=True) if field.column in hidden else field)
    own = Field("", unit, unit, type_of[unit], merged=True, identity=Identity.UNIT)
    return replace(
        of_left,
        rows=Typed(extended, types),
        fields=(*shown, own),
        unit=unit,
        equal=(),
        unique=(),
    ).of_rows_per_unit(most)


def _either(one: str, other: str) -> exp.Expr:
    return exp.Coalesce(this=generated_column(one), expressions=[generated_column(other)])


def _merged(one: Field, other: Field, column: str) -> Field:
    """Build the column that USING makes of two: each row has the value of one of its sides."""
    told = max(one.identity, other.identity) > Identity.NONE
    identity = Identity.DERIVED if told else Identity.NONE
    if one.identity is other.identity is Identity.UNIT:
        identity = Identity.UNIT
    return Field("", one.name, column, one.type, identity=identity)
