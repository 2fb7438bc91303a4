"""Windows over the rows of one privacy unit, in subqueries: window functions, QUALIFY, DISTINCT ON.

Where the unit is among the columns of PARTITION BY, what is added to a row follows from rows of its
own unit. It must not depend on the order in which the engine meets these: a function that tells
equals apart sorts by all of their columns, which have one spelling by then, so that only rows that
are the same in everything can change places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Column, Table, fold
from dpsql.core.sql_types import BIGINT, DATE, TIMESTAMP, SqlType
from dpsql.errors import QueryRefused
from dpsql.ir.relations import (
    Computed,
    Extend,
    Frame,
    Placed,
    PlaceFunction,
    PlaceValue,
    RowSet,
    Sorted,
    Typed,
)
from dpsql.policy.model import ColumnPolicy, TablePolicy
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.enum_order import enum_order, is_enumerated
from dpsql.sql.expressions.legality import BY_QUANTILES, check_row_expression, outside_subqueries
from dpsql.sql.expressions.moments import days_since_1970, moment_type
from dpsql.sql.expressions.ranges import is_integral, is_number, is_truth, range_of
from dpsql.sql.lineage.asof_joins import OF_ASOF_JOIN
from dpsql.sql.lineage.names import Names, generated_column, resolved_column, sorting_key
from dpsql.sql.lineage.operators import Operators
from dpsql.sql.lineage.preaggregate import key_over_rows, linking_field
from dpsql.sql.lineage.relation import Field, Identity, Origin, Relation
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name, put, to_sql, written_name

_PLACES: Final = ColumnPolicy(0, 2**53)
_SHARE: Final = ColumnPolicy(0, 1)
_WINDOW: Final = NodeArguments("this partition_by order spec over?")
_FRAME: Final = NodeArguments("kind start start_side end end_side")
_NAMED: Final = NodeArguments("this partition_by order spec")
_PARTS: Final = ("partition_by", "order", "spec")
_ORDERED: Final = NodeArguments("this desc nulls_first")
_CALL: Final = NodeArguments("this offset default big_int?")
_PLACED: Final = NodeArguments("this offset")
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


_WHOLE: Final = Frame(None, None)
_UP_TO: Final = Frame(None, 0)
_FROM: Final = Frame(0, None)
_DAY: Final = 86_400_000_000
_LENGTHS: Final[Mapping[str, int]] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": _DAY,
    "WEEK": 7 * _DAY,
}
"""The microseconds of the units that are always as long."""
_OF_MOMENTS: Final[Mapping[SqlType, int]] = {DATE: _DAY, TIMESTAMP: 1}
"""The microseconds of a step in which moments are ordered as numbers."""
_BY_GROUPS: Final = (
    "Ranks among all rows show single ones: ask for QUANTILE(x, 0.9), then count what is beyond; "
    "or rank released groups, RANK() OVER (ORDER BY COUNT(*) DESC) beside GROUP BY."
)
_PLACES_ALONE: Final = (exp.Ntile, exp.DenseRank, exp.PercentRank, exp.CumeDist)
"""Functions of the places of rows, and of no value."""


@dataclass(frozen=True, slots=True)
class _OfPlaces:
    """A value computed of others of the same row, and its bounds; the engine tells the type."""

    expression: exp.Expr
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
    names: Names,
    operators: Operators,
    select: exp.Select,
    source: Relation,
    unit: str,
    link_keys: Collection[Origin],
) -> tuple[Relation, exp.Select]:
    """Add the values of window functions to rows, and apply QUALIFY and DISTINCT ON.

    ``unit`` is the analyst's name for the unit's column, and each value of the ``link_keys``, which
    link tables, is one unit's. Returns the rows, and the SELECT without all this. Raises
    ``QueryRefused`` or ``UnknownName`` with the place of what cannot be used, as of a window that
    is not of one unit.
    """
    select = select.copy()
    windows = list(_windows(select))
    if windows:
        made = UnitPlaces(names, operators, select, source, unit, link_keys)
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
        made = UnitPlaces(names, operators, select, source, unit, link_keys)
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
    link_keys: Collection[Origin]
    computed: dict[str, tuple[str, exp.Expr]] = field(default_factory=dict)
    values: dict[PlaceValue, tuple[str, Identity, ColumnPolicy | None, bool]] = field(
        default_factory=dict
    )
    firsts: dict[str, exp.Expr] = field(default_factory=dict)
    computed_last: dict[str, _OfPlaces] = field(default_factory=dict)

    def of_window(self, node: exp.Window) -> str:
        """Read a window function; returns the column of its values."""
        function = node.this
        if isinstance(function, _PLACES_ALONE):
            return self._of_places(node, function)
        if isinstance(function, exp.NthValue):
            return self._nth(node, function)
        if isinstance(function, exp.RespectNulls):
            function = function.this
        if isinstance(function, exp.IgnoreNulls):
            return self._passing_nulls(node, function.this)
        kind = _FUNCTIONS.get(type(function))
        argument = function.args.get("this")
        if isinstance(function, exp.Count):
            kind = PlaceFunction.VALUES
            if argument is None or isinstance(argument, exp.Star):
                kind, argument = PlaceFunction.ROWS, None
        if kind is None or not _CALL.hold(function) or isinstance(argument, exp.Distinct):
            name = written_name(function) if isinstance(function, exp.Func) else "a window"
            raise self._refuse(
                f"{name} in this form is not available over private rows",
                function,
                "Available: ROW_NUMBER(), RANK(), DENSE_RANK(), PERCENT_RANK(), CUME_DIST(), "
                "NTILE(4), FIRST_VALUE(x), LAST_VALUE(x), NTH_VALUE(x, 2), LAG(x, 2), LEAD(x), "
                f"COUNT, SUM, AVG, MIN and MAX. {BY_QUANTILES}",
            )
        order, frame = node.args.get("order"), self._frame(node)
        if frame == _WHOLE and kind in _FRAMED:
            order = frame = None  # of all rows, their order says nothing
        elif node.args.get("spec") and kind not in _FRAMED and not _is_at_end(function, frame):
            raise self._refuse_frame(node)
        if order is None and kind in _BY_ORDER:
            raise self._needs_order(node, function)
        if order is None and frame is not None:
            raise self._refuse_frame(node)
        among = self._among(node)
        terms = [] if order is None else [self.sorted_by(term) for term in order.expressions]
        if frame is not None and frame.by_value and (frame.first or frame.last):
            key, backwards = self._measured(node)
            nulls_first = terms[0].nulls_first
            terms = [Sorted(self.column(_negative(key) if backwards else key), False, nulls_first)]
        if isinstance(function, exp.LastValue) and frame is None:  # of the row and its equals
            among += [generated_column(term.name) for term in terms]
            terms = []
        elif isinstance(function, exp.LastValue):
            terms = _backwards(terms)
        framed = frame if kind in _FRAMED else None
        made = self.value(kind, argument, among, terms, node, self._distance(function), framed)
        default = function.args.get("default")
        return made if default is None else self._or_default(made, default, node, among, terms)

    def _passing_nulls(self, node: exp.Window, function: exp.Expr) -> str:
        """Read a function of values alone, passing over NULLs: IGNORE NULLS.

        The number of values up to a row, or from it on, tells which one was last, or comes next:
        rows with the same number have it among them, and no other.
        """
        order, frame = node.args.get("order"), self._frame(node)
        if order is None and isinstance(function, exp.Func):
            raise self._needs_order(node, function)
        beside = isinstance(function, exp.Lag | exp.Lead)
        ends = isinstance(function, exp.FirstValue | exp.LastValue)
        plain = _CALL.hold(function) and not isinstance(function.args.get("this"), exp.Distinct)
        up_to = frame in (None, _UP_TO)
        if (
            order is None
            or not plain
            or not ((beside and frame is None) or (ends and (up_to or frame == _WHOLE)))
            or (beside and (self._distance(function) != 1 or function.args.get("default")))
        ):
            raise self._refuse(
                "IGNORE NULLS in this form is not available over private rows",
                node,
                "It stands with FIRST_VALUE(x), LAST_VALUE(x), LAG(x) and LEAD(x), of the value "
                "next to the row, over all rows of the part or those up to the row. Write COALESCE "
                "around LAG for its default.",
            )
        among = self._among(node)
        terms = [self.sorted_by(term) for term in order.expressions]
        of = function.this
        missing = exp.Is(this=exp.paren(self._over(of)), expression=exp.Null())
        zero, one = exp.Literal.number(0), exp.Literal.number(1)
        missing_last = Sorted(
            self.column(exp.Case(ifs=[exp.If(this=missing, true=one)], default=zero))
        )

        def found(among: Sequence[exp.Expr], by: Sequence[Sorted] = ()) -> str:
            return self.value(PlaceFunction.FIRST, of, among, [missing_last, *by], node)

        def counted(frame: Frame | None) -> exp.Expr:
            values = self.value(PlaceFunction.VALUES, of, among, terms, node, frame=frame)
            return generated_column(values)

        if isinstance(function, exp.LastValue):
            if frame == _WHOLE:
                return found(among, _backwards(terms))
            return found([*among, counted(frame)])
        if isinstance(function, exp.FirstValue):
            first = found(among, terms)
            if frame == _WHOLE:
                return first
            some = exp.GT(this=counted(frame), expression=zero)
            value = exp.Case(ifs=[exp.If(this=some, true=generated_column(first))])
            return self._computed(value, self._facts_of(first)[1])
        before = isinstance(function, exp.Lag)
        here = found([*among, counted(_UP_TO if before else _FROM)])
        place = PlaceFunction.BEFORE if before else PlaceFunction.AFTER
        made = self.value(place, resolved_column(here, here), among, terms, node, 1)
        facts = self._facts_of(here)
        found_beside = next(each for each, (name, *_) in self.values.items() if name == made)
        self.values[found_beside] = (made, *facts)
        return made

    def _facts_of(self, made: str) -> tuple[Identity, ColumnPolicy | None, bool]:
        """Return what is known of a new column: identity, bounds, whether of an ENUM."""
        found = next(each for each in self.values.values() if each[0] == made)
        _, identity, known, enumerated = found
        return identity, known, enumerated

    def _among(self, node: exp.Window) -> list[exp.Expr]:
        """Read PARTITION BY."""
        return self._with_unit([self._over(key) for key in node.args.get("partition_by") or ()])

    def _with_unit(self, keys: list[exp.Expr]) -> list[exp.Expr]:
        """Put the unit beside a column that links tables and so decides the unit.

        Rows without a value of it, as an outer join keeps them, are apart by their unit.
        """
        columns = [key.name for key in keys if isinstance(key, exp.Column)]
        fields = filter(None, map(self.source.field_of, columns))
        if not _names_unit(keys, self.source) and linking_field(fields, self.link_keys) is not None:
            assert self.source.unit is not None, "its link was followed before"
            return [*keys, generated_column(self.source.unit)]
        return keys

    def _or_default(
        self,
        made: str,
        default: exp.Expr,
        node: exp.Window,
        among: Sequence[exp.Expr],
        order: Sequence[Sorted],
    ) -> str:
        """Give LAG or LEAD a value of the row where there is no other row."""
        function = node.this
        value, other = self._over(function.this), self._over(default)
        table = self.source.table
        numbers = is_number(value, table) and is_number(other, table)
        if numbers and is_integral(value, table) and not is_integral(other, table):
            raise self._refuse(
                f"the default of {written_name(function)} is an integer beside integers",
                default,
                "An engine rounds it, or none of both: cast the value, LAG(CAST(n AS DOUBLE), 1, "
                "0.5), or the default, LAG(n, 1, CAST(x AS BIGINT)).",
            )
        moment = moment_type(value, table)
        if not numbers and (moment is None or moment != moment_type(other, table)):
            raise self._refuse(
                f"the default of {written_name(function)} is a number beside numbers, or a moment "
                "beside moments of the same type",
                default,
                "Leave it out and write COALESCE around the window, or cast both: "
                "LAG(CAST(d AS DATE), 1, DATE '2026-01-01').",
            )
        number = self.value(PlaceFunction.NUMBER, None, among, order, node)
        before: exp.Expr = _less_one(generated_column(number))
        if isinstance(function, exp.Lead):
            rows = generated_column(self.value(PlaceFunction.ROWS, None, among, (), node))
            before = exp.paren(exp.Sub(this=rows, expression=generated_column(number)))
        away = exp.Literal.number(self._distance(function))
        enough = exp.GTE(this=before, expression=away)
        there = exp.If(this=enough, true=generated_column(made))
        given = generated_column(self.column(other))
        bounds = range_of(exp.Coalesce(this=value, expressions=[other]), *self._facts())
        return self._computed(
            exp.Case(ifs=[there], default=given), None if bounds is None else ColumnPolicy(*bounds)
        )

    def _facts(self) -> tuple[TablePolicy, Table]:
        return self.source.policy, self.source.table

    def _computed(
        self, expression: exp.Expr, known: ColumnPolicy | None, name: str | None = None
    ) -> str:
        """Return the column of a value that is computed of others, once these are there."""
        name = name or self.names.new_column()
        self.computed_last[name] = _OfPlaces(expression, known)
        return name

    def _needs_order(self, node: exp.Window, function: exp.Func) -> QueryRefused:
        return self._refuse(
            f"{written_name(function)} needs an order",
            node,
            "Write … OVER (PARTITION BY … ORDER BY …).",
        )

    def _nth(self, node: exp.Window, function: exp.NthValue) -> str:
        """Read NTH_VALUE: the value so many rows behind the first one."""
        order, frame, count = node.args.get("order"), self._frame(node), function.args.get("offset")
        if order is None:
            raise self._needs_order(node, function)
        place = int(count.name) if isinstance(count, exp.Literal) and count.is_int else 0
        plain = _PLACED.hold(function) and 0 < place <= _FARTHEST
        if not plain or frame not in (None, _WHOLE):
            raise self._refuse(
                "NTH_VALUE in this form is not available over private rows",
                node,
                "Write NTH_VALUE(x, 2) OVER (PARTITION BY … ORDER BY …), or with ROWS BETWEEN "
                "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING for all rows.",
            )
        among = self._among(node)
        terms = [self.sorted_by(term) for term in order.expressions]
        number = generated_column(self.value(PlaceFunction.NUMBER, None, among, terms, node))
        here = self.names.new_column()
        same = exp.EQ(this=number, expression=exp.Literal.number(place))
        self.firsts[here] = exp.Case(ifs=[exp.If(this=same, true=exp.Literal.number(1))])
        made = self.value(PlaceFunction.FIRST, function.this, among, [Sorted(here)], node)
        up_to = terms if frame is None else ()
        rows = generated_column(self.value(PlaceFunction.ROWS, None, among, up_to, node))
        there = exp.GTE(this=rows, expression=exp.Literal.number(place))
        known = self._facts_of(made)[1]
        value = exp.Case(ifs=[exp.If(this=there, true=generated_column(made))])
        return self._computed(value, known)

    def _of_places(self, node: exp.Window, function: exp.Func) -> str:
        """Read functions that follow from the numbers and ranks of rows."""
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
                "Write DENSE_RANK(), PERCENT_RANK(), CUME_DIST() or NTILE(4) OVER (PARTITION BY … "
                "ORDER BY …).",
            )
        among = self._among(node)
        terms = [self.sorted_by(term) for term in order.expressions]

        def place(function: PlaceFunction, by: Sequence[Sorted]) -> exp.Expr:
            return generated_column(self.value(function, None, among, by, node))

        if isinstance(function, exp.Ntile):
            number, name = place(PlaceFunction.NUMBER, terms), self.names.new_column()
            rows = place(PlaceFunction.ROWS, [])
            return self._computed(_tile(number, rows, tiles), _PLACES, name)
        if isinstance(function, exp.CumeDist):
            up_to, rows = place(PlaceFunction.ROWS, terms), place(PlaceFunction.ROWS, [])
            return self._computed(_share(up_to, rows), _SHARE)
        if isinstance(function, exp.PercentRank):
            rank, rows = place(PlaceFunction.RANK, terms), place(PlaceFunction.ROWS, [])
            return self._computed(_share(_less_one(rank), _less_one(rows)), _SHARE)
        return self.dense_rank(among, terms, node)

    def dense_rank(self, among: Sequence[exp.Expr], order: Sequence[Sorted], node: exp.Expr) -> str:
        """Return the column of how many different places there are up to each row's."""
        number = generated_column(self.value(PlaceFunction.NUMBER, None, among, order, node))
        name = self.names.new_column()
        rank = generated_column(self.value(PlaceFunction.RANK, None, among, order, node))
        same = exp.EQ(this=rank.copy(), expression=number)
        self.firsts[name] = exp.Case(ifs=[exp.If(this=same, true=rank)])
        first = resolved_column(name, name)
        return self.value(PlaceFunction.VALUES, first, among, [Sorted(rank.name)], node)

    def _frame(self, node: exp.Window) -> Frame | None:
        """Read which rows a window's function is of; None for those up to the row's equals."""
        spec = node.args.get("spec")
        if not _WINDOW.hold(node) or (spec is not None and not _FRAME.hold(spec)):
            raise self._refuse_frame(node)
        if spec is None:
            return None
        kind = str(spec.args["kind"]).upper()
        start, end = spec.args["start"], spec.args.get("end") or "CURRENT ROW"
        first = self._end(node, kind, start, spec.args.get("start_side"), "PRECEDING")
        last = self._end(node, kind, end, spec.args.get("end_side"), "FOLLOWING")
        if first is not None and last is not None and first > last:
            raise self._refuse_frame(node)
        if first is None and last is None:
            return _WHOLE
        by_value = kind == "RANGE"
        return None if by_value and first is None and last == 0 else Frame(first, last, by_value)

    def _end(
        self, node: exp.Window, kind: str, end: exp.Expr | str, side: str | None, outer: str
    ) -> float | None:
        """Read an end of a frame: a distance from the row; None for the end of its part."""
        side = None if side is None else str(side).upper()
        if isinstance(end, str):
            if end.upper() == "CURRENT ROW" and kind in ("ROWS", "RANGE"):
                return 0
            if (end.upper(), side) == ("UNBOUNDED", outer) and kind in ("ROWS", "RANGE"):
                return None
            raise self._refuse_frame(node)
        away: float | None = None
        if kind == "ROWS":
            away = _rows_away(end)
        elif kind == "RANGE":
            away = self._away(end, node)
        if away is None:
            raise self._refuse_frame(node)
        return -away if side == "PRECEDING" else away

    def _away(self, end: exp.Expr, node: exp.Window) -> float | None:
        """Read a distance between values of the order, in the steps of its numbers."""
        order = node.args.get("order")
        if order is None or len(order.expressions) != 1:
            return None
        key = key_over_rows(self.names, order.expressions[0].this, self.select, self.source)
        step = _OF_MOMENTS.get(moment_type(key, self.source.table) or BIGINT)
        if isinstance(end, exp.Interval):
            length = _length_of(end)
            return None if length is None or step is None else float(length / step)
        if not isinstance(end, exp.Literal) or end.is_string:
            return None
        return float(end.name) if step in (None, _OF_MOMENTS[DATE]) else None

    def _measured(self, node: exp.Window) -> tuple[exp.Expr, bool]:
        """Write the only column of an order as a number, a DOUBLE, and whether it descends."""
        (term,) = node.args["order"].expressions
        key = key_over_rows(self.names, term.this, self.select, self.source)
        check_row_expression(key, self.names.text)
        type_ = moment_type(key, self.source.table)
        if type_ == DATE:
            key = days_since_1970(key)
        elif type_ == TIMESTAMP:  # whole microseconds, which a DOUBLE has exactly
            million = exp.Literal.number(1_000_000)
            key = exp.Round(this=exp.Mul(this=exp.TimeToUnix(this=key), expression=million))
        elif not is_number(key, self.source.table):
            raise self._refuse_frame(node)
        return exp.cast(exp.paren(key), exp.DType.DOUBLE), bool(term.args.get("desc"))

    def _refuse_frame(self, node: exp.Window) -> QueryRefused:
        return self._refuse(
            "a window over private rows has PARTITION BY and ORDER BY, and a frame whose ends are "
            "those of its part, the row, or a constant away",
            node,
            "Write … OVER (PARTITION BY … ORDER BY …), and behind the order ROWS BETWEEN 6 "
            "PRECEDING AND CURRENT ROW, ROWS UNBOUNDED PRECEDING, or, of one date, timestamp or "
            "number, RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND CURRENT ROW, in units up to "
            "weeks. Frames are for COUNT, SUM, AVG, MIN and MAX.",
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
        among = self._with_unit(
            [key_over_rows(self.names, key, self.select, self.source) for key in keys]
        )
        for term in order:
            term.set("this", sorting_key(term.this, self.select).copy())
        terms = [self.sorted_by(term) for term in order]
        return self.value(PlaceFunction.NUMBER, None, among, terms, on)

    def value(
        self,
        function: PlaceFunction,
        argument: exp.Expr | None,
        among: Sequence[exp.Expr],
        order: Sequence[Sorted],
        node: exp.Expr,
        distance: int = 0,
        frame: Frame | None = None,
    ) -> str:
        """Return the column of a function of the places of rows among those alike."""
        keys = [key.unnest() for key in among]
        if not _names_unit(keys, self.source):
            joined = node.meta.get(OF_ASOF_JOIN)
            if joined is not None:
                raise self._refuse(
                    "an ASOF JOIN with private rows meets those of the same privacy unit: "
                    f"ON has to compare {self.unit}",
                    node,
                    f"Write ON a.{self.unit} = {joined}.{self.unit} AND …, with the other table in "
                    "the place of a. Rows of a public table need no such equality.",
                )
            placed = isinstance(node.this, exp.Ntile | exp.PercentRank | exp.CumeDist)
            raise self._refuse(
                "a window over private rows is one of a single privacy unit's: "
                f"PARTITION BY has to name {self.unit}",
                node,
                f"Write PARTITION BY {self.unit}, alone or beside other columns. "
                f"{BY_QUANTILES if placed else _BY_GROUPS}",
            )
        of = None if argument is None else self._over(argument)
        if function in _EXTREMES and of is not None and is_truth(of, self.source.table):
            raise self._refuse(
                "MIN and MAX of a condition are not available in a window over private rows",
                node,
                "Write what it stands for: MAX(CASE WHEN x > 1 THEN 1 ELSE 0 END) OVER (…).",
            )
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
            frame,
        )
        known: ColumnPolicy | None = _PLACES
        identity, enumerated = Identity.NONE, False
        if of is not None and function is not PlaceFunction.VALUES:
            bounds = range_of(of, *self._facts())
            if bounds is not None and function in (PlaceFunction.SUM, PlaceFunction.WHOLE_SUM):
                bounds = _added(bounds, frame)
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

    def sorted_by(self, term: exp.Expr) -> Sorted:
        """Read a term of ORDER BY."""
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
            by_rows = value.frame is not None and not value.frame.by_value
            if value.function in _OF_ONE_ROW or by_rows:
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
        rows: RowSet = source.rows
        later = {value.name: value for value in made}
        firsts = dict(self.firsts)
        while later:  # those that others are sorted, parted or looked at by come before
            ready = [
                value
                for value in later.values()
                if not any(name in later or name in firsts for name in _read_by(value))
            ]
            rows = Placed(rows, tuple(ready)) if ready else rows
            later = {name: value for name, value in later.items() if value not in ready}
            these = {
                name: node
                for name, node in firsts.items()
                if not any(column.name in later for column in node.find_all(exp.Column))
            }
            if these:
                rows = _with_places(rows, these, [BIGINT] * len(these))
                firsts = {name: node for name, node in firsts.items() if name not in these}
        types = {column.name: column.type for column in rows.columns}
        shown = replace(
            source,
            rows=rows,
            fields=tuple(replace(f, type=types[f.column]) for f in fields),
            unique=tuple(unique),
        )
        if self.computed_last:
            last = {name: each.expression for name, each in self.computed_last.items()}
            shown = self.operators.extended(shown, last)
            bounds = {name: each.known for name, each in self.computed_last.items()}
            fields = [replace(f, policy=bounds.get(f.column, f.policy)) for f in shown.fields]
            shown = replace(shown, fields=tuple(fields))
        self.operators.check_size(shown, node)
        odd = [value for value in made if value.function in _EXTREMES]
        return self.operators.one_spelling(shown, node) if odd else shown

    def _refuse(self, reason: str, node: exp.Expr, hint: str) -> QueryRefused:
        return self.names.refuse(reason, "window_over_private_rows", node, hint)


def _read_by(value: PlaceValue) -> Iterator[str]:
    """Yield the columns that a function of places reads."""
    yield from value.among
    yield from (term.name for term in value.order)
    if value.argument is not None:
        yield value.argument


def _backwards(terms: Sequence[Sorted]) -> list[Sorted]:
    return [
        replace(term, descending=not term.descending, nulls_first=not term.nulls_first)
        for term in terms
    ]


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


def _less_one(number: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Sub(this=number, expression=exp.Literal.number(1)))


def _share(part: exp.Expr, whole: exp.Expr) -> exp.Expr:
    """Write a share of a number of rows: 0 of none."""
    some = exp.GT(this=whole.copy(), expression=exp.Literal.number(0))
    share = exp.Div(this=exp.cast(part, exp.DType.DOUBLE), expression=whole)
    none = exp.cast(exp.Literal.number(0), exp.DType.DOUBLE)
    return exp.Case(ifs=[exp.If(this=some, true=share)], default=none)


def _negative(number: exp.Expr) -> exp.Expr:
    return exp.Neg(this=exp.paren(number))


def _rows_away(end: exp.Expr) -> int | None:
    """Read a constant number of rows."""
    if not isinstance(end, exp.Literal) or not end.is_int or int(end.name) > _FARTHEST:
        return None
    return int(end.name)


def _length_of(interval: exp.Interval) -> Fraction | None:
    """Read the microseconds of a constant interval; None if they depend on where it begins.

    Exactly, as rows that are as far away belong to the frame.
    """
    count = None if interval.this is None else interval.this.unnest()
    unit = interval.text("unit").upper()
    length = _LENGTHS.get(unit, _LENGTHS.get(unit.removesuffix("S")))
    if not isinstance(count, exp.Literal) or length is None:
        return None
    number = count.name.strip()
    plain = number.isascii() and number.replace(".", "", 1).isdecimal()
    return Fraction(number) * length if plain else None


def _added(bounds: tuple[float, float], frame: Frame | None) -> tuple[float, float] | None:
    """Return the bounds of a sum of some values; None where any number of rows may be in it."""
    if frame is None or frame.by_value or frame.first is None or frame.last is None:
        return None
    most = frame.last - frame.first + 1
    low, high = bounds
    return min(low, most * low), max(high, most * high)


def _is_at_end(function: exp.Expr, frame: Frame | None) -> bool:
    """Tell whether a frame has the end of its part whose value is asked for."""
    first, last = (None, 0.0) if frame is None else (frame.first, frame.last)
    if isinstance(function, exp.FirstValue):
        return first is None and (last is None or last >= 0)
    ends = frame is None or (last is None and (first is None or first <= 0))
    return isinstance(function, exp.LastValue) and ends


def _names_unit(keys: Sequence[exp.Expr], source: Relation) -> bool:
    """Tell whether one of the keys is the privacy unit itself."""
    columns = [key.name for key in keys if isinstance(key, exp.Column)]
    return any(name == source.unit or source.is_unit(name) for name in columns)
