"""Rows to try expressions on: those of a relation before its conditions.

They are made of few synthetic rows of each table, and an expression that fails on many of them
takes its time. Where two tables meet, each row meets some rows of the other. Where more do, each
row of the larger side meets one row of the other, in turns that differ from join to join: so any
two columns are tried with many pairs of values, and there are no more rows than two tables make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import filterfalse
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column
from dpsql.core.sql_types import BIGINT
from dpsql.ir.relations import (
    BinaryOperator,
    Combined,
    Computed,
    EachRow,
    Extend,
    Filter,
    Join,
    JoinKind,
    PerUnit,
    Placed,
    PlaceFunction,
    PlaceValue,
    RowSet,
    SemiJoin,
    SetOperator,
    Typed,
    bottom_up,
    computed_by,
    rebuilt,
)

_PAIR: Final = 2
_PARTS: Final = 5
"""Of two tables each row meets the rows in the same part of the other.

The values of a column come back, in one part or another, after a number of rows that differs from
type to type: rows with as many between them would always have the same ones.
"""
_ROWS: Final = 50
"""As many rows as the twin makes of each table, go through all parts; further ones do so again."""
_TURNS: Final = (
    *(53, 59, 61, 67, 71, 73, 79, 83, 89, 97),
    *(101, 103, 107, 109, 113, 127, 131, 137, 139, 149),
)
"""Primes larger than a table: after so many rows of one side the turns of a join begin again.

By the Chinese remainder theorem, rows that agree in the turns of two joins are far apart. In
further joins rows meet as they come: with each turn a statement is nested more deeply.
"""


def unfiltered(rows: RowSet, *, paired: bool = True) -> RowSet:
    """Return a relation with these columns at least, and the rows that its conditions leave out.

    Also those that a set operation or another relation leaves out. Of the conditions of a join one
    is kept that two columns are the same: more of them may hold together for no rows at all. None
    is kept without ``paired``: so that rows meet whatever they are.
    """
    leaving_out = Filter | Join | SemiJoin | Combined
    if not any(isinstance(node, leaving_out) for node in bottom_up(rows)):
        return rows

    def pair(node: BinaryOperator, left: RowSet, right: RowSet) -> RowSet:
        match node:
            case SemiJoin():
                return left
            case Join():
                same = tuple(filter(_pairs_columns, _conjuncts(node.conditions)))
                return _meeting(left, right, node.kind, same[:1] if paired else ())
            case Combined():
                return Combined(left, right, SetOperator.UNION, False, node.names)
        return replace(node, left=left, right=right)

    return rebuilt(
        rows,
        lambda node, source: source if isinstance(node, Filter) else replace(node, source=source),
        pair,
    )


def computed_steps(rows: RowSet) -> Iterator[tuple[RowSet, tuple[exp.Expr, ...]]]:
    """Yield what each step of a relation computes of rows, and these rows without conditions."""
    for node in bottom_up(rows):
        match node:
            case Filter() | Extend() | PerUnit():
                yield unfiltered(node.source), computed_by(node)
            case Join() | SemiJoin():
                sides = unfiltered(node.left), unfiltered(node.right)
                compared = filterfalse(_pairs_columns, _conjuncts(computed_by(node)))
                yield _meeting(*sides, JoinKind.INNER, ()), tuple(compared)


def _pairs_columns(condition: exp.Expr) -> bool:
    """Tell whether a condition says that two columns are the same."""
    sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else ()
    return bool(sides) and all(isinstance(side, exp.Column) for side in sides)


def _conjuncts(conditions: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    for condition in conditions:
        yield from condition.flatten() if isinstance(condition, exp.And) else [condition]


def _meeting(left: RowSet, right: RowSet, kind: JoinKind, same: tuple[exp.Expr, ...]) -> RowSet:
    """Join some of two relations' rows, alike in two columns where ``same`` compares these."""
    tables = _tables_met(left), _tables_met(right)
    nodes = [node for side in (left, right) for node in bottom_up(side)]
    joins, end = sum(isinstance(node, Join) for node in nodes), len(nodes)  # no node below has it
    if joins >= len(_TURNS):
        return Join(left, right, kind, same)
    if sum(tables) == _PAIR:
        if same:
            return Join(left, right, kind, same)
        sides = [_placed(side, (), f"{end}{mark}") for side, mark in ((left, "a"), (right, "b"))]
        parts = [_part(place, count) for _, place, count in sides]
        met: exp.Expr = exp.EQ(this=parts[0], expression=parts[1])
        return Join(sides[0][0], sides[1][0], kind, (met,))
    turned = tables[0] < tables[1]
    larger, smaller = (right, left) if turned else (left, right)
    row = f"{INTERNAL_PREFIX}row{end}"
    larger = EachRow(larger, row)
    smaller, place, count = _placed(smaller, same, str(end))
    turn = _remainder(_column(row), exp.Literal.number(_TURNS[joins]))
    met = exp.EQ(
        this=_remainder(_column(place), _column(count)),
        expression=_remainder(turn, _column(count)),
    )
    left, right = (smaller, larger) if turned else (larger, smaller)
    return Join(left, right, kind, (*same, met))


def _placed(rows: RowSet, same: tuple[exp.Expr, ...], end: str) -> tuple[RowSet, str, str]:
    """Number rows among those alike in the columns of a comparison ``same``.

    Returns the rows, and the columns of their numbers and of how many these are.
    """
    place, count, constant = (f"{INTERNAL_PREFIX}{word}{end}" for word in ("place", "of", "any"))
    rows, among = _alike(rows, same, constant)
    values = (
        PlaceValue(place, PlaceFunction.NUMBER, None, among, ()),
        PlaceValue(count, PlaceFunction.ROWS, None, among, ()),
    )
    return Placed(rows, values), place, count


def _part(place: str, count: str) -> exp.Expr:
    """Write which of the parts of a table a row is in, by its place among all rows.

    Parts of more rows than synthetic ones begin anew: so the first of them meet all others.
    """
    before = exp.paren(exp.Sub(this=_column(place), expression=exp.Literal.number(1)))
    parts = exp.paren(exp.Mul(this=before, expression=exp.Literal.number(_PARTS)))
    most = [exp.Literal.number(_ROWS)]
    rows = exp.Least(this=_column(count), expressions=most, ignore_nulls=True)
    part = exp.paren(exp.IntDiv(this=parts, expression=rows))
    return _remainder(part, exp.Literal.number(_PARTS))


def _tables_met(rows: RowSet) -> int:
    """Return of how many tables the rows are all that can be made; two stand for more."""
    found: dict[int, int] = {}
    for node in bottom_up(rows):
        of_sources = [found[id(source)] for source in node.sources] or [1]
        count = max(of_sources) if isinstance(node, Combined) else sum(of_sources)
        found[id(node)] = min(count, _PAIR)
    return found[id(rows)]


def _alike(
    rows: RowSet, same: tuple[exp.Expr, ...], constant: str
) -> tuple[RowSet, tuple[str, ...]]:
    """Return rows, and the columns that are alike in all rows met by one."""
    of_rows = {column.name for column in rows.columns}
    compared = (c.name for condition in same for c in (condition.this, condition.expression))
    among = tuple(name for name in compared if name in of_rows)
    if among:
        return rows, among
    one = Extend(rows, (Computed(constant, exp.Literal.number(0)),))
    return Typed(one, (Column(constant, BIGINT),)), (constant,)


def _remainder(dividend: exp.Expr, divisor: exp.Expr) -> exp.Mod:
    return exp.Mod(this=dividend, expression=divisor)


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)
