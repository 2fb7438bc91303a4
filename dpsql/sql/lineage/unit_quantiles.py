"""Aggregates of one privacy unit's rows in an order of them, in a subquery by unit.

    SELECT patient_id, MEDIAN(cost), MODE(ward), STRING_AGG(ward, ' > ' ORDER BY day)
    FROM visits GROUP BY patient_id

A quantile is the value of the row at a place in its group, or lies between those of two; a mode is
the value that most rows have, the least of several; a text of values puts those at the first places
together, so many that it stays short. All follow from places of rows in windows
within the group (:mod:`dpsql.sql.lineage.windows`), so that they do not depend on the order in
which an engine meets the rows. Checked by ``tests/sql/test_lineage_sensitivity.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from sqlglot import exp

from dpsql.ir.relations import PlaceFunction, Sorted
from dpsql.sql.expressions.call import WRAPPERS, AggregateCall, is_aggregate, read_call
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.sql.expressions.quantile_calls import is_continuous, quantile_parts
from dpsql.sql.expressions.ranges import is_number, is_truth
from dpsql.sql.expressions.text_growth import JOINED
from dpsql.sql.lineage.names import Names, resolved_column
from dpsql.sql.lineage.operators import Operators
from dpsql.sql.lineage.relation import Relation
from dpsql.sql.lineage.windows import UnitPlaces
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import put, written_name

_OF_PLACES: Final = (
    *(exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile),
    *(exp.Mode, exp.GroupConcat, exp.First, exp.Last),
)
_ALONE: Final = NodeArguments("this")
_SEPARATED: Final = NodeArguments("this separator")
_DISTINCT: Final = NodeArguments("expressions")
_ORDERED: Final = NodeArguments("this expressions")


def asks_for_places(select: exp.Select) -> bool:
    """Tell whether a SELECT has aggregates of its groups that follow from the places of rows."""
    return any(True for _ in _calls(select))


def with_quantiles(
    names: Names,
    operators: Operators,
    select: exp.Select,
    source: Relation,
    keys: Sequence[exp.Expr],
) -> tuple[Relation, exp.Select]:
    """Add places to the rows of groups, and write aggregates by places with the new columns.

    The unit is among the ``keys`` of the groups. Returns the rows and the SELECT, of which nothing
    else is changed. Raises ``QueryRefused`` or ``UnknownName`` with the place of what cannot be
    used.
    """
    select = select.copy()
    places = UnitPlaces(names, operators, select, source, source.unit_label, ())
    calls = list(_calls(select))
    made = [_Written(names, places, keys, node).value() for node in calls]
    source = places.rows(calls[0])
    for node, value in zip(calls, made, strict=True):
        put(node, value)
    return source, select


def _calls(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the aggregates by places of a SELECT, with all that belongs to each."""
    for part in (*select.expressions, select.args.get("having"), select.args.get("qualify")):
        for node in () if part is None else outside_subqueries(part):
            function = node
            while isinstance(function, WRAPPERS):
                function = function.this
            whole = not isinstance(node.parent, WRAPPERS) and is_aggregate(node)
            if whole and isinstance(function, _OF_PLACES):
                yield node


class _Written:
    """An aggregate by places, written as one of the values at certain places."""

    def __init__(
        self, names: Names, places: UnitPlaces, keys: Sequence[exp.Expr], node: exp.Expr
    ) -> None:
        self._names, self._places, self._keys, self._node = names, places, keys, node

    def value(self) -> exp.Expr:
        """Write the value, or leave a call with options of other rules alone."""
        call = read_call(self._node, self._names.text)
        if call.per_row is not None or call.per_group is not None or call.max_error is not None:
            return self._node
        if isinstance(call.function, exp.Mode):
            return self._mode(call)
        if isinstance(call.function, exp.GroupConcat):
            return self._joined(call)
        if isinstance(call.function, exp.First | exp.Last):
            return self._first(call)
        of, fraction = quantile_parts(call, self._names.text)
        value = self._over_rows(call.filtered(of))
        continuous = is_continuous(call.function)
        if continuous and not is_number(value, self._places.source.table):
            raise self._names.refuse(
                "the value of a quantile that may lie between two rows is not a number",
                "not_numeric",
                self._node,
                hint="QUANTILE_DISC(x, 0.5) is the value of one row.",
            )
        column = self._places.column(value)
        count = self._place(PlaceFunction.VALUES, _named(column))
        number = self._place(PlaceFunction.NUMBER, None, [Sorted(column)])
        values = _Ordered(column, number, count)
        if continuous:
            return values.between(fraction)
        descending = call.order is not None and call.order.expressions[0].args.get("desc")
        return values.at_share_above(fraction) if descending else values.at_share(fraction)

    def _mode(self, call: AggregateCall) -> exp.Expr:
        """Write the value that most rows have: the least of those with the largest count."""
        of = call.function.this
        if call.order is not None and of is None and len(call.order.expressions) == 1:
            of = call.order.expressions[0].this
        elif call.order is not None or of is None or not _ALONE.hold(call.function):
            return self._node
        self._refuse_truth(call, self._over_rows(of))
        column = self._places.column(self._over_rows(call.filtered(of)))
        rows = self._place(PlaceFunction.ROWS, None, among=[_named(column)])
        return exp.ArgMax(this=_named(column), expression=rows)

    def _joined(self, call: AggregateCall) -> exp.Expr:
        """Write the text of values in an order: the first ones, and of equal places the least.

        NULL is passed over. Of distinct values the order is their own.
        """
        function = call.function
        of, terms = _ordered(function.this)
        separator = function.args.get("separator") or exp.Literal.string(",")
        distinct = isinstance(of, exp.Distinct)
        if isinstance(of, exp.Distinct):
            if not _DISTINCT.hold(of) or len(of.expressions) != 1:
                return self._node
            (of,) = of.expressions
            if len(terms) > 1 or any(term.this != of for term in terms):
                return self._node
        if of is None or not _SEPARATED.hold(function) or call.order is not None:
            return self._node
        if not isinstance(separator, exp.Literal) or not separator.is_string:
            return self._node
        value = exp.cast(self._over_rows(call.filtered(of)), exp.DType.VARCHAR)
        column = self._places.column(value)
        if distinct:
            descending = any(term.args.get("desc") for term in terms)
            by = [Sorted(column, descending)]
            number = _named(self._places.dense_rank(self._keys, by, self._node))
        else:
            none = exp.Is(this=exp.paren(value.copy()), expression=exp.Null())
            last = exp.Case(
                ifs=[exp.If(this=none, true=exp.Literal.number(1))], default=exp.Literal.number(0)
            )
            order = [Sorted(self._places.column(last)), *map(self._places.sorted_by, terms)]
            number = self._place(PlaceFunction.NUMBER, None, [*order, Sorted(column)])
        first, *others = (
            exp.Min(this=_at(number, place, _named(column))) for place in range(1, JOINED + 1)
        )
        # One call of them all: a chain of || has each beginning of the text as a part of its own.
        behind = [exp.DPipe(this=separator.copy(), expression=each, safe=True) for each in others]
        text = exp.Concat(expressions=[first.copy(), *behind], safe=True, coalesce=True)
        some = exp.not_(exp.Is(this=first, expression=exp.Null()))
        return exp.paren(exp.Case(ifs=[exp.If(this=some, true=text)]))

    def _first(self, call: AggregateCall) -> exp.Expr:
        """Write the first or last value in an order, also NULL; of equal places the least."""
        of, terms = _ordered(call.function.this)
        plain = _ALONE.hold(call.function) and call.condition is None and call.order is None
        if of is None or not terms or not plain:
            return self._node
        value = self._over_rows(of)
        self._refuse_truth(call, value)
        column = self._places.column(value)
        order = list(map(self._places.sorted_by, terms))
        if isinstance(call.function, exp.Last):
            order = [Sorted(term.name, not term.descending, not term.nulls_first) for term in order]
        number = self._place(PlaceFunction.NUMBER, None, [*order, Sorted(column)])
        return exp.Min(this=_at(number, 1, _named(column)))

    def _refuse_truth(self, call: AggregateCall, value: exp.Expr) -> None:
        """Refuse conditions, of which not every engine has a least one."""
        if is_truth(value, self._places.source.table):
            raise self._names.refuse(
                f"{written_name(call.function)} of a condition is not available per privacy unit",
                "aggregate_not_supported",
                self._node,
                hint="Write what it stands for: CASE WHEN x > 1 THEN 'yes' ELSE 'no' END.",
            )

    def _over_rows(self, value: exp.Expr) -> exp.Expr:
        return self._names.over_aliases(value, self._places.select, self._places.source).unnest()

    def _place(
        self,
        function: PlaceFunction,
        argument: exp.Expr | None,
        order: Sequence[Sorted] = (),
        among: Sequence[exp.Expr] = (),
    ) -> exp.Expr:
        keys = [*self._keys, *among]
        return _named(self._places.value(function, argument, keys, order, self._node))


def _ordered(value: object) -> tuple[exp.Expr | None, list[exp.Ordered]]:
    """Read the values of an aggregate and their order; None for a form that is not read."""
    if isinstance(value, exp.Order):
        plain = _ORDERED.hold(value) and isinstance(value.this, exp.Expr)
        return (value.this, list(value.expressions)) if plain else (None, [])
    return (value if isinstance(value, exp.Expr) else None), []


def _at(number: exp.Expr, place: int, value: exp.Expr) -> exp.Expr:
    here = exp.EQ(this=number.copy(), expression=exp.Literal.number(place))
    return exp.Case(ifs=[exp.If(this=here, true=value)])


def _named(column: str) -> exp.Expr:
    return resolved_column(column, column)


class _Ordered:
    """The values of a group in their order, by columns: values, their numbers, and how many."""

    def __init__(self, values: str, number: exp.Expr, count: exp.Expr) -> None:
        self._values, self._number, self._count = values, number, count

    def at_share(self, fraction: Fraction) -> exp.Expr:
        """Write the first value that at least this share of the values does not exceed."""
        if not fraction:
            return self._at(_number(1))
        share = exp.Mul(this=self._count.copy(), expression=_number(fraction.numerator))
        up = exp.Add(this=share, expression=_number(fraction.denominator - 1))
        return self._at(exp.IntDiv(this=exp.paren(up), expression=_number(fraction.denominator)))

    def at_share_above(self, fraction: Fraction) -> exp.Expr:
        """Write the last value that at least the rest of the values are not below."""
        if fraction == 1:
            return self._at(self._count.copy())
        share = exp.Mul(this=self._count.copy(), expression=_number(fraction.numerator))
        before = exp.IntDiv(this=exp.paren(share), expression=_number(fraction.denominator))
        return self._at(exp.Add(this=before, expression=_number(1)))

    def between(self, fraction: Fraction) -> exp.Expr:
        """Write the value at this share of the way from the first to the last, as a DOUBLE."""
        last = exp.paren(exp.Sub(this=self._count.copy(), expression=_number(1)))
        way = exp.paren(
            exp.Mul(this=exp.cast(last, exp.DType.DOUBLE), expression=_number(float(fraction)))
        )
        low, high = (
            exp.cast(
                self._at(exp.Add(this=rounded(this=way.copy()), expression=_number(1))),
                exp.DType.DOUBLE,
            )
            for rounded in (exp.Floor, exp.Ceil)
        )
        part = exp.Max(this=exp.Sub(this=way.copy(), expression=exp.Floor(this=way.copy())))
        rest = exp.paren(exp.Sub(this=_number(1), expression=part.copy()))
        mixed = exp.Add(
            this=exp.Mul(this=low.copy(), expression=rest),
            expression=exp.Mul(this=high, expression=part.copy()),
        )
        between = exp.GT(this=part, expression=_number(0))
        return exp.paren(exp.Case(ifs=[exp.If(this=between, true=mixed)], default=low))

    def _at(self, place: exp.Expr) -> exp.Expr:
        there = exp.EQ(this=self._number.copy(), expression=exp.paren(place))
        return exp.Min(this=exp.Case(ifs=[exp.If(this=there, true=_named(self._values))]))


def _number(value: float) -> exp.Expr:
    return exp.Literal.number(value)
