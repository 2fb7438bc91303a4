"""Windows over the rows of one privacy unit, in subqueries: window functions, QUALIFY, DISTINCT ON.

Where the unit is among the columns of PARTITION BY, what is added to a row follows from rows of its
own unit. It must not depend on the order in which the engine meets these: a function that tells
equals apart sorts by all of their columns, which have one spelling by then, so that only rows that
are the same in everything can change places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import reduce
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Column, fold
from dpsql.core.sql_types import BIGINT, DOUBLE, SqlType
from dpsql.errors import QueryRefused
from dpsql.ir.relations import (
    Computed,
    Extend,
    Placed,
    PlaceFunction,
    PlaceValue,
    RowSet,
    Sorted,
    Typed,
)
from dpsql.policy.model import ColumnPolicy
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.enum_order import enum_order, is_enumerated
from dpsql.sql.expressions.legality import check_row_expression, outside_subqueries
from dpsql.sql.expressions.ranges import is_integral, is_number, range_of
from dpsql.sql.lineage.names import Names, generated_column, resolved_column, sorting_key
from dpsql.sql.lineage.operators import Operators
from dpsql.sql.lineage.preaggregate import key_over_rows
from dpsql.sql.lineage.relation import Field, Identity, Relation
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name, put, to_sql, written_name

_PLACES: Final = ColumnPolicy(0, 2**53)
_WINDOW: Final = NodeArguments("this partition_by order spec over?")
_FRAME: Final = NodeArguments("kind start start_side end end_side")
_NAMED: Final = NodeArguments("this partition_by order spec")
_PARTS: Final = ("partition_by", "order", "spec")
_ORDERED: Final = NodeArguments("this desc nulls_first")
_CALL: Final = NodeArguments("this offset big_int?")
_FUNCTIONS: Final[Mapping[type[exp.Expr], PlaceFunction]] = {
    exp.RowNumber: PlaceFunction.NUMBER,
    exp.Rank: PlaceFunction.RANK,
    exp.Min: PlaceFunction.LEAST,
    exp.Max: PlaceFunction.LARGEST,
    exp.Sum: PlaceFunction.SUM,
    exp.Avg: PlaceFunction.AVERAGE,
    exp.FirstValue: PlaceFunction.FIRST,
    exp.LastValue: PlaceFunction.FIRST,  # in the opposite order
    exp.Lag: PlaceFunction.BEFORE,
    exp.Lead: PlaceFunction.AFTER,
}
_OF_ONE_ROW: Final = frozenset(
    {PlaceFunction.NUMBER, PlaceFunction.FIRST, PlaceFunction.BEFORE, PlaceFunction.AFTER}
)
"""Functions that tell rows apart whose ORDER BY is equal."""
_EXTREMES: Final = frozenset({PlaceFunction.LEAST, PlaceFunction.LARGEST})
_TOTALS: Final = frozenset({PlaceFunction.SUM, PlaceFunction.AVERAGE})
_BY_ORDER: Final = frozenset(_FUNCTIONS.values()) - _EXTREMES - _TOTALS - {PlaceFunction.NUMBER}
_FRAMED: Final = _EXTREMES | _TOTALS | {PlaceFunction.ROWS, PlaceFunction.VALUES}
_FARTHEST: Final = 2**31 - 1


_MOST_BESIDE: Final = 32
"""Rows of a frame that moves with the row: each of them is a column."""


class _Frame(Enum):
    """The rows of its part that a window's function is of, by their order."""

    TO_EQUALS = "up to the row and its equals"
    TO_ROW = "up to the row"
    WHOLE = "all"


@dataclass(frozen=True, slots=True)
class _Near:
    """A frame that moves with the row: rows from ``first`` to ``last``, counted from it."""

    first: int
    last: int

    @property
    def places(self) -> range:
        return range(self.first, self.last + 1)


@dataclass(frozen=True, slots=True)
class _OfPlaces:
    """A value computed of others of the same row, with its type and its bounds."""

    expression: exp.Expr
    type: SqlType
    known: ColumnPolicy | None


def looks_at_rows(select: exp.Select) -> bool:
    """Tell whether a SELECT has window functions, QUALIFY or DISTINCT ON."""
    distinct = select.args.get("distinct")
    if select.args.get("qualify") or (distinct is not None and distinct.args.get("on")):
        return True
    return any(True for _ in _windows(select))


def windows_written_out(select: exp.Select) -> exp.Select:
    """Write windows that a WINDOW clause names where they are used; unused ones stay there."""
    written = select.args.get("windows") or []
    if not written:
        return select
    select = select.copy()
    named: dict[str, exp.Window] = {}
    used: set[str] = set()
    for window in select.args["windows"]:
        _complete(window, named, used)
        if fold(window.name) in named:
            return select  # which of both is meant is not said
        named[fold(window.name)] = window
    for part in [*select.expressions, select.args.get("qualify")]:
        for node in [] if part is None else list(outside_subqueries(part)):
            if isinstance(node, exp.Window):
                _complete(node, named, used)
    unused = [window for name, window in named.items() if name not in used]
    select.set("windows", unused or None)
    return select


def _complete(window: exp.Window, named: Mapping[str, exp.Window], used: set[str]) -> None:
    """Add the parts of a named window to a window; not if both have one, which is no SQL."""
    name = window.args.get("alias")
    base = None if name is None else named.get(fold(name.name))
    if base is None or base.args.get("alias") is not None or not _NAMED.hold(base):
        return
    parts = [part for part in _PARTS if base.args.get(part)]
    if any(window.args.get(part) for part in parts):
        return
    for part in parts:
        window.set(part, base.copy().args[part])
    window.set("alias", None)
    used.add(fold(base.name))


def rows_apart(operators: Operators, source: Relation) -> Relation:
    """Return rows with a known unit, of which every column can be read."""
    source = operators.fresh(operators.settled(source))
    carried = {column.name for column in source.rows.columns}
    return replace(source, fields=tuple(f for f in source.fields if f.column in carried))


def placed(
    names: Names, operators: Operators, select: exp.Select, source: Relation, unit: str
) -> tuple[Relation, exp.Select]:
    """Add the values of window functions to rows, and apply QUALIFY and DISTINCT ON.

    ``unit`` is the analyst's name for the unit's column. Returns the rows, and the SELECT without
    all this. Raises ``QueryRefused`` or ``UnknownName`` with the place of what cannot be used, as
    of a window that is not of one unit.
    """
    select = select.copy()
    windows = list(_windows(select))
    if windows:
        made = UnitPlaces(names, operators, select, source, unit)
        columns = [made.of_window(node) for node in windows]
        source = made.rows(windows[0])
        for node, column in zip(windows, columns, strict=True):
            put(node, resolved_column(column, output_name(node)))
    qualify = select.args.get("qualify")
    if qualify is not None:
        condition = names.over_aliases(qualify.this, select, source)
        source = operators.keeping(source, condition)
        select.set("qualify", None)
    distinct = select.args.get("distinct")
    on = None if distinct is None else distinct.args.get("on")
    if on is not None:
        order = select.args.get("order")
        made = UnitPlaces(names, operators, select, source, unit)
        first = made.first(on, [] if order is None else order.expressions)
        one = exp.EQ(this=generated_column(first), expression=exp.Literal.number(1))
        source = operators.keeping(made.rows(on), one)
        select.set("distinct", None)
        select.set("order", None)
    return source, select


def _windows(select: exp.Select) -> Sequence[exp.Window]:
    """List the window functions of a SELECT; those within others are parts of these."""
    parts = [*select.expressions, *filter(None, [select.args.get("qualify")])]
    return [
        node
        for part in parts
        for node in outside_subqueries(part)
        if isinstance(node, exp.Window)
        and not isinstance(node.find_ancestor(exp.Window, exp.Query), exp.Window)
    ]


@dataclass
class UnitPlaces:
    """The columns of the windows of a SELECT: read ones and new ones, each once."""

    names: Names
    operators: Operators
    select: exp.Select
    source: Relation
    unit: str
    computed: dict[str, tuple[str, exp.Expr]] = field(default_factory=dict)
    values: dict[PlaceValue, tuple[str, Identity, ColumnPolicy | None, bool]] = field(
        default_factory=dict
    )
    firsts: dict[str, exp.Expr] = field(default_factory=dict)
    computed_last: dict[str, _OfPlaces] = field(default_factory=dict)

    def of_window(self, node: exp.Window) -> str:
        """Read a window function; returns the column of its values."""
        function = node.this
        if isinstance(function, exp.Ntile | exp.DenseRank):
            return self._of_places(node, function)
        kind = _FUNCTIONS.get(type(function))
        argument = function.args.get("this")
        if isinstance(function, exp.Count):
            kind = PlaceFunction.VALUES
            if argument is None or isinstance(argument, exp.Star):
                kind, argument = PlaceFunction.ROWS, None
        last = isinstance(function, exp.LastValue) and not node.args.get("spec")
        if kind is None or last or not _CALL.hold(function) or isinstance(argument, exp.Distinct):
            name = written_name(function) if isinstance(function, exp.Func) else "a window"
            raise self._refuse(
                f"{name} in this form is not available over private rows",
                function,
                "Available: ROW_NUMBER(), RANK(), DENSE_RANK(), NTILE(4), FIRST_VALUE(x), "
                "LAG(x, 2), LEAD(x), COUNT, SUM, AVG, MIN and MAX. For the last value sort in the "
                "opposite direction. Bands of all rows by size are asked in two steps: "
                "QUANTILE(x, 0.5) first, then CASE or width_bucket by what came out.",
            )
        order, frame = node.args.get("order"), self._frame(node)
        if frame is _Frame.WHOLE and kind in _FRAMED:
            order = None  # of all rows, their order says nothing
        elif node.args.get("spec") and kind not in _FRAMED and not _is_at_end(function, frame):
            raise self._refuse_frame(node)
        if isinstance(frame, _Near) and order is None:
            raise self._refuse_frame(node)
        if order is None and kind in _BY_ORDER:
            raise self._refuse(
                f"{written_name(function)} needs an order",
                node,
                "Write … OVER (PARTITION BY … ORDER BY …).",
            )
        among = [self._over(key) for key in node.args.get("partition_by") or ()]
        terms = [] if order is None else [self._sorted(term) for term in order.expressions]
        if isinstance(frame, _Near):
            return self._near(node, kind, argument, among, terms, frame)
        if isinstance(function, exp.LastValue):
            terms = [
                replace(term, descending=not term.descending, nulls_first=not term.nulls_first)
                for term in terms
            ]
        if frame is _Frame.TO_ROW and kind in _FRAMED:
            if not terms:
                raise self._refuse_frame(node)
            terms = [Sorted(self.value(PlaceFunction.NUMBER, None, among, terms, node))]
        return self.value(kind, argument, among, terms, node, self._distance(function))

    def _of_places(self, node: exp.Window, function: exp.Ntile | exp.DenseRank) -> str:
        """Read DENSE_RANK and NTILE, which follow from numbers and ranks of rows."""
        order, count = node.args.get("order"), function.args.get("this")
        tiles = int(count.name) if isinstance(count, exp.Literal) and count.is_int else 0
        plain = _WINDOW.hold(node) and not node.args.get("spec") and order is not None
        right = _CALL.hold(function) and (
            0 < tiles <= _FARTHEST if isinstance(function, exp.Ntile) else count is None
        )
        if not plain or not right or order is None or function.expressions:
            raise self._refuse(
                f"{written_name(function)} in this form is not available over private rows",
                node,
                "Write DENSE_RANK() or NTILE(4) OVER (PARTITION BY … ORDER BY …).",
            )
        among = [self._over(key) for key in node.args.get("partition_by") or ()]
        terms = [self._sorted(term) for term in order.expressions]
        number = self.value(PlaceFunction.NUMBER, None, among, terms, node)
        name = self.names.new_column()
        if isinstance(function, exp.Ntile):
            rows = self.value(PlaceFunction.ROWS, None, among, [], node)
            tile = _tile(generated_column(number), generated_column(rows), tiles)
            self.computed_last[name] = _OfPlaces(tile, BIGINT, _PLACES)
            return name
        rank = self.value(PlaceFunction.RANK, None, among, terms, node)
        same = exp.EQ(this=generated_column(rank), expression=generated_column(number))
        self.firsts[name] = exp.Case(ifs=[exp.If(this=same, true=generated_column(rank))])
        first = resolved_column(name, name)
        return self.value(PlaceFunction.VALUES, first, among, [Sorted(rank)], node)

    def _near(
        self,
        node: exp.Window,
        function: PlaceFunction,
        argument: exp.Expr | None,
        among: Sequence[exp.Expr],
        order: Sequence[Sorted],
        frame: _Near,
    ) -> str:
        """Read a function of the rows near each one; returns the column of its values."""
        number, total = (
            generated_column(self.value(place, None, among, by, node))
            for place, by in ((PlaceFunction.NUMBER, order), (PlaceFunction.ROWS, ()))
        )
        name = self.names.new_column()
        if argument is None:
            most = ColumnPolicy(0, len(frame.places))
            self.computed_last[name] = _OfPlaces(_rows_near(number, total, frame), BIGINT, most)
            return name
        of = self._over(argument)
        if function in _TOTALS and not is_number(of, self.source.table):
            raise self._no_number(node)
        if is_enumerated(of):
            raise enum_order(of, self.names.text)
        whole = is_integral(of, self.source.table)
        bounds = range_of(of, self.source.policy, self.source.table)
        if function in _TOTALS:
            of = exp.cast(exp.paren(of), exp.DType.BIGINT if whole else exp.DType.DOUBLE)
            if not whole:  # NaN is no value of a sum
                of = exp.Case(ifs=[exp.If(this=exp.not_(exp.IsNan(this=of.copy())), true=of)])
        value = resolved_column(self.column(of), output_name(of))
        values = [
            generated_column(self._beside(value, place, among, order, node))
            for place in frame.places
        ]
        self.computed_last[name] = _of_values(
            function, values, self.source.type_of(value.name), bounds, whole=whole
        )
        return name

    def _beside(
        self,
        value: exp.Column,
        place: int,
        among: Sequence[exp.Expr],
        order: Sequence[Sorted],
        node: exp.Window,
    ) -> str:
        """Return the column of the value so many rows behind each one, or before it."""
        if place == 0:
            return value.name
        function = PlaceFunction.AFTER if place > 0 else PlaceFunction.BEFORE
        return self.value(function, value, among, order, node, abs(place))

    def _frame(self, node: exp.Window) -> _Frame | _Near:
        """Read which rows a window's function is of."""
        spec = node.args.get("spec")
        if not _WINDOW.hold(node) or (spec is not None and not _FRAME.hold(spec)):
            raise self._refuse_frame(node)
        if spec is None:
            return _Frame.TO_EQUALS
        said = {name: str(value).upper() for name, value in spec.args.items() if value}
        start = said["start"], said.get("start_side")
        end = said.get("end", "CURRENT ROW"), said.get("end_side")
        if start == ("UNBOUNDED", "PRECEDING") and said["kind"] in ("ROWS", "RANGE"):
            if end == ("UNBOUNDED", "FOLLOWING"):
                return _Frame.WHOLE
            if end == ("CURRENT ROW", None):
                return _Frame.TO_ROW if said["kind"] == "ROWS" else _Frame.TO_EQUALS
        first, last = _place_of(*start), _place_of(*end)
        if said["kind"] != "ROWS" or first is None or last is None:
            raise self._refuse_frame(node)
        if first <= last < first + _MOST_BESIDE:
            return _Near(first, last)
        raise self._refuse_frame(node)

    def _refuse_frame(self, node: exp.Window) -> QueryRefused:
        return self._refuse(
            "a window over private rows has PARTITION BY and ORDER BY, and a frame that is of all "
            "rows, of those up to the row, or of some rows near it",
            node,
            "Write … OVER (PARTITION BY … ORDER BY …), and for a running total ROWS UNBOUNDED "
            "PRECEDING behind the order. Of the rows near each one COUNT, SUM, AVG, MIN and MAX "
            f"tell, with ROWS BETWEEN 6 PRECEDING AND CURRENT ROW, of {_MOST_BESIDE} at most.",
        )

    def _distance(self, function: exp.Expr) -> int:
        """Read how many rows LAG and LEAD go."""
        offset = function.args.get("offset")
        if offset is None:
            return 1 if isinstance(function, exp.Lag | exp.Lead) else 0
        if not isinstance(offset, exp.Literal) or not offset.is_int or int(offset.this) > _FARTHEST:
            raise self._refuse(
                "LAG and LEAD go a constant number of rows", offset, "Write LAG(x, 2)."
            )
        return int(offset.this)

    def first(self, on: exp.Expr, order: Sequence[exp.Expr]) -> str:
        """Read DISTINCT ON; returns the column of the places of rows among those alike."""
        keys = [sorting_key(key, self.select) for key in on.expressions]
        among = [key_over_rows(self.names, key, self.select, self.source) for key in keys]
        for term in order:
            term.set("this", sorting_key(term.this, self.select).copy())
        terms = [self._sorted(term) for term in order]
        return self.value(PlaceFunction.NUMBER, None, among, terms, on)

    def value(
        self,
        function: PlaceFunction,
        argument: exp.Expr | None,
        among: Sequence[exp.Expr],
        order: Sequence[Sorted],
        node: exp.Expr,
        distance: int = 0,
    ) -> str:
        """Return the column of a function of the places of rows among those alike."""
        keys = [key.unnest() for key in among]
        if not _names_unit(keys, self.source):
            raise self._refuse(
                "a window over private rows is one of a single privacy unit's: "
                f"PARTITION BY has to name {self.unit}",
                node,
                f"Write PARTITION BY {self.unit}, alone or beside other columns. Ranks among all "
                "rows show single ones: ask for QUANTILE(x, 0.9), then count what is beyond; or "
                "rank released groups, RANK() OVER (ORDER BY COUNT(*) DESC) beside GROUP BY.",
            )
        of = None if argument is None else self._over(argument)
        if function in _TOTALS and of is not None:
            if not is_number(of, self.source.table):
                raise self._no_number(node)
            if function is PlaceFunction.SUM and is_integral(of, self.source.table):
                function = PlaceFunction.WHOLE_SUM
        value = PlaceValue(
            "",
            function,
            None if of is None else self.column(of),
            tuple(dict.fromkeys(map(self.column, keys))),
            tuple(order),
            distance,
        )
        known: ColumnPolicy | None = _PLACES
        identity, enumerated = Identity.NONE, False
        if of is not None and function is not PlaceFunction.VALUES:
            summed = function in (PlaceFunction.SUM, PlaceFunction.WHOLE_SUM)
            bounds = None if summed else range_of(of, self.source.policy, self.source.table)
            known = None if bounds is None else ColumnPolicy(*bounds)
            identity, enumerated = self.source.identity_of(of), is_enumerated(of)
            if enumerated and function in _EXTREMES:
                raise enum_order(of, self.names.text)
        name = self.names.new_column()
        return self.values.setdefault(value, (name, identity, known, enumerated))[0]

    def _no_number(self, node: exp.Expr) -> QueryRefused:
        return self.names.refuse(
            "the summed value is not a number",
            "not_numeric",
            node,
            hint="Cast it to a number: CAST(x AS DOUBLE).",
        )

    def _over(self, node: exp.Expr) -> exp.Expr:
        return self.names.over_aliases(node, self.select, self.source).unnest()

    def _sorted(self, term: exp.Expr) -> Sorted:
        if not isinstance(term, exp.Ordered) or not _ORDERED.hold(term):
            raise self._refuse(
                "this order is not available over private rows",
                term,
                "Write ORDER BY x [DESC] [NULLS FIRST].",
            )
        key = key_over_rows(self.names, term.this, self.select, self.source)
        if is_enumerated(key):
            raise enum_order(key, self.names.text)
        nulls_first = bool(term.args.get("nulls_first"))
        return Sorted(self.column(key), bool(term.args.get("desc")), nulls_first)

    def column(self, node: exp.Expr) -> str:
        """Return the column that an expression is, or will be."""
        check_row_expression(node, self.names.text)
        refuse_unlike(node, self.source.type_of, self.names.text)
        if isinstance(node, exp.Column):
            return node.name
        name, _ = self.computed.setdefault(to_sql(node), (self.names.new_column(), node))
        return name

    def rows(self, node: exp.Expr) -> Relation:
        """Build the rows with all columns."""
        source = self.operators.extended(self.source, dict(self.computed.values()))
        source = self.operators.one_spelling(source, node)
        ties = tuple(dict.fromkeys(f.column for f in source.fields))
        self.operators.count_columns(len(ties) * len(self.values), node)
        fields, made, unique = list(source.fields), [], list(source.unique)
        for value, (name, identity, known, enumerated) in self.values.items():
            order = value.order
            if value.function in _OF_ONE_ROW:
                sorted_by = {*value.among, *(each.name for each in order)}
                order += tuple(Sorted(column) for column in ties if column not in sorted_by)
            made.append(replace(value, name=name, order=order))
            if value.function is PlaceFunction.NUMBER:
                others = (column for column in value.among if not source.is_unit(column))
                unique.append(frozenset({name, *others}))
            fields.append(
                Field(
                    *("", name, name, BIGINT, known),
                    merged=True,  # no star means it
                    identity=identity,
                    enumerated=enumerated,
                )
            )
        named = {name for name, *_ in self.values.values()}
        later = [value for value in made if named.intersection(each.name for each in value.order)]
        rows: RowSet = Placed(source.rows, tuple(value for value in made if value not in later))
        if self.firsts:
            rows = _with_places(rows, self.firsts, [BIGINT] * len(self.firsts))
        if later:  # sorted by the others
            rows = Placed(rows, tuple(later))
        if self.computed_last:
            made_last = {name: each.expression for name, each in self.computed_last.items()}
            rows = _with_places(rows, made_last, [e.type for e in self.computed_last.values()])
        fields += [
            Field(*("", name, name, each.type, each.known), merged=True)
            for name, each in self.computed_last.items()
        ]
        types = {column.name: column.type for column in rows.columns}
        shown = replace(
            source,
            rows=rows,
            fields=tuple(replace(f, type=types[f.column]) for f in fields),
            unique=tuple(unique),
        )
        self.operators.check_size(shown, node)
        odd = [value for value in made if value.function in _EXTREMES]
        return self.operators.one_spelling(shown, node) if odd else shown

    def _refuse(self, reason: str, node: exp.Expr, hint: str) -> QueryRefused:
        return self.names.refuse(reason, "window_over_private_rows", node, hint)


def _with_places(
    rows: RowSet, computed: Mapping[str, exp.Expr], types: Sequence[SqlType]
) -> RowSet:
    """Add values of some types that are computed of places."""
    made = tuple(Computed(name, node) for name, node in computed.items())
    return Typed(Extend(rows, made), tuple(map(Column, computed, types)))


def _tile(number: exp.Expr, rows: exp.Expr, tiles: int) -> exp.Expr:
    """Write the tile of a row by its number: tiles differ by one row, larger ones come first."""
    count, one = exp.Literal.number(tiles), exp.Literal.number(1)
    size = exp.paren(exp.IntDiv(this=rows.copy(), expression=count.copy()))
    larger = exp.paren(exp.Mod(this=rows.copy(), expression=count.copy()))
    in_larger = exp.paren(exp.Mul(this=larger, expression=exp.paren(size + one)))
    before = exp.paren(exp.Sub(this=number.copy(), expression=one.copy()))
    first = exp.IntDiv(this=before.copy(), expression=exp.paren(size + one))
    behind = exp.paren(exp.Sub(this=before.copy(), expression=in_larger.copy()))
    later = exp.IntDiv(this=behind, expression=size.copy())
    return exp.Case(
        ifs=[
            exp.If(
                this=exp.LTE(this=number.copy(), expression=in_larger),
                true=exp.Add(this=exp.paren(first), expression=one.copy()),
            )
        ],
        default=exp.Add(
            this=exp.Add(this=larger.copy(), expression=exp.paren(later)), expression=one.copy()
        ),
    )


def _place_of(count: str, side: str | None) -> int | None:
    """Read an end of a frame as a number of rows behind the row; None for another end."""
    if (count, side) == ("CURRENT ROW", None):
        return 0
    if not count.isdecimal() or int(count) > _MOST_BESIDE:
        return None
    return {"PRECEDING": -int(count), "FOLLOWING": int(count)}.get(side or "")


def _rows_near(number: exp.Expr, total: exp.Expr, frame: _Near) -> exp.Expr:
    """Write how many rows there are in a frame that moves with the row: each place is in or out."""
    parts: list[exp.Expr] = []
    for place in frame.places:
        away = exp.Literal.number(abs(place))
        there: exp.Expr = exp.true()
        if place < 0:
            there = exp.GT(this=number.copy(), expression=away)
        elif place > 0:
            behind = exp.Sub(this=total.copy(), expression=number.copy())
            there = exp.GTE(this=exp.paren(behind), expression=away)
        one = exp.If(this=there, true=exp.Literal.number(1))
        parts.append(exp.Case(ifs=[one], default=exp.Literal.number(0)))
    whole = reduce(lambda a, b: exp.Add(this=a, expression=b), parts)
    return exp.cast(exp.paren(whole), exp.DType.BIGINT)


def _of_values(
    function: PlaceFunction,
    values: Sequence[exp.Expr],
    type_: SqlType,
    bounds: tuple[float, float] | None,
    *,
    whole: bool,
) -> _OfPlaces:
    """Write a function of the values of some rows, whose order does not matter."""

    def added(parts: list[exp.Expr]) -> exp.Expr:
        return exp.paren(reduce(lambda a, b: exp.Add(this=a, expression=b), parts))

    zero, one = exp.Literal.number(0), exp.Literal.number(1)
    none = [exp.Is(this=value.copy(), expression=exp.null()) for value in values]
    number = added(
        [exp.Case(ifs=[exp.If(this=n, true=zero.copy())], default=one.copy()) for n in none]
    )
    known = None if bounds is None else ColumnPolicy(*bounds)
    if function is PlaceFunction.VALUES:
        counted = exp.cast(number, exp.DType.BIGINT)
        return _OfPlaces(counted, BIGINT, ColumnPolicy(0, len(values)))
    if function in _EXTREMES:
        least = function is PlaceFunction.LEAST
        first, *others = [value.copy() for value in values]
        made = (exp.Least if least else exp.Greatest)(
            this=first, expressions=others, ignore_nulls=True
        )
        return _OfPlaces(made if others else first, type_, known)
    total = added([exp.Coalesce(this=value.copy(), expressions=[zero.copy()]) for value in values])
    there = exp.GT(this=number.copy(), expression=zero.copy())
    if function is PlaceFunction.AVERAGE:
        value = exp.Div(this=exp.cast(total, exp.DType.DOUBLE), expression=number)
        return _OfPlaces(exp.Case(ifs=[exp.If(this=there, true=value)]), DOUBLE, known)
    most = len(values)
    if bounds is not None:
        low, high = bounds
        known = ColumnPolicy(min(low, most * low), max(high, most * high))
    found = exp.Case(ifs=[exp.If(this=there, true=total)])
    return _OfPlaces(found, BIGINT if whole else DOUBLE, known)


def _is_at_end(function: exp.Expr, frame: _Frame | _Near) -> bool:
    """Tell whether a frame has the end of its part whose value is asked for."""
    if isinstance(frame, _Near):
        return False
    return isinstance(function, exp.FirstValue) or (
        isinstance(function, exp.LastValue) and frame is _Frame.WHOLE
    )


def _names_unit(keys: Sequence[exp.Expr], source: Relation) -> bool:
    """Tell whether one of the keys is the privacy unit itself."""
    return any(isinstance(key, exp.Column) and source.is_unit(key.name) for key in keys)
