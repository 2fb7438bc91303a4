"""Traces the columns of an answer to released values, and to computations with them.

A tail is followed from the columns that it shows down to the released tables that they come from,
through subqueries, CTEs, joins and the sides of UNION ALL:

    SELECT a.day, a.n, b.n AS before, a.n - b.n AS more
    FROM daily a LEFT JOIN daily b ON a.day = b.day + 1

Two readings of a released table are two sources of values: nothing is taken for the same row. What
a reading leaves out, repeats or puts beside other rows changes no value, and so no interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.ir.query import Block, ComputedColumn, ReleasedValue, SummedRows
from dpsql.ir.relations import PublicSource
from dpsql.ir.terms import (
    AggregateTerm,
    KnownTerm,
    Operator,
    OperatorTerm,
    Term,
)
from dpsql.sql.tail.computed import released_aggregate, term_of
from dpsql.sql.tail.passed_on import (
    PassedColumns,
    ReadTable,
    is_star,
    name_of_item,
    quoted_column,
    sides_of,
    sources_of,
)
from dpsql.syntax.arguments import NodeArguments

_PASSING_CLAUSES: Final = frozenset(
    {"expressions", "from_", "joins", "where", "qualify", "windows", "order", "limit", "offset"}
    | {"with_"}
)
_PLAIN_SOURCE: Final = frozenset({"this", "alias"})
_WINDOW: Final = NodeArguments("this partition_by order spec alias over?")
_OF_ROWS: Final = NodeArguments("this offset default")
_ONE: Final = NodeArguments("this")
_OF_KEYS: Final = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Neg),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In, exp.Between, exp.Like),
    *(exp.And, exp.Or, exp.Not, exp.Cast, exp.TryCast, exp.DataType),
)
"""What a condition on keys is made of, that is written twice."""
_OTHER_ROW: Final = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)
_MOST_READINGS: Final = 64
_MOST_READ: Final = 2_000
"""SELECTs that each read a column twice double it: so many columns are read at most."""


@dataclass(frozen=True, slots=True)
class TracedOutputs:
    """The columns of an answer with intervals, and how many hidden ones were added for these.

    ``chosen`` are the blocks whose rows outer SELECTs choose by noisy values.
    """

    outputs: tuple[ReleasedValue | None, ...] = ()
    computed: tuple[tuple[ComputedColumn, ...], ...] = ()
    hidden: int = 0
    chosen: frozenset[int] = frozenset()


def trace_outputs(
    tree: exp.Query, blocks: Sequence[Block], passed: PassedColumns, public: Sequence[PublicSource]
) -> TracedOutputs:
    """Find the answer columns that are aggregates as released, or computed from these.

    The interval of an average or a variance needs the noisy measures that it is computed from, and
    where groups are named in rounds that of a count needs how it was counted; that of a column that
    computes with aggregates needs these. Hidden columns for them are appended to the select list,
    and to those of subqueries that hand them on. A quantile has no interval and is left out. All is
    empty for a statement that groups or excludes released rows, or shows stars over several tables.
    """
    if not blocks:
        return TracedOutputs()
    roots, finder = sides_of(tree), _Readings(blocks, passed, _columns_by_name(public))
    readings = finder.of(roots)
    if not readings:
        return TracedOutputs()
    for one in {id(one): one for reading in readings for one in reading.inside()}.values():
        _write_stars_out(one)
    if any(is_star(item.unalias()) for select in roots for item in select.expressions):
        return TracedOutputs()
    return _Tracer(roots, finder).trace(readings, limits=_limits(tree, roots))


def _limits(tree: exp.Query, roots: Sequence[exp.Select]) -> bool:
    """Tell whether rows of a whole UNION ALL are chosen."""
    return len(roots) > 1 and any(
        union.args.get("limit") or union.args.get("offset")
        for union in tree.find_all(exp.SetOperation, exp.Subquery)
    )


def _columns_by_name(public: Sequence[PublicSource]) -> dict[str, dict[str, bool]]:
    """Return the columns of public tables, by the own name of a table where one alone has it."""
    names = Counter(fold(one.table.name.table) for one in public)
    return {
        name: {fold(column.name): column.type.is_numeric for column in one.table.columns}
        for one in public
        if names[name := fold(one.table.name.table)] == 1
    }


# -- what a statement reads ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """What a SELECT reads: a released table, another reading, or a public table, or none known."""

    table: ReadTable
    block: int | None = None
    inner: _Reading | None = None
    columns: Mapping[str, bool] = field(default_factory=dict)
    """The columns of a public table, and whether they are numbers."""

    @property
    def alias(self) -> str:
        return self.table.alias_or_name


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """A SELECT with its sources; ``sides`` are all of its UNION ALL, or itself."""

    select: exp.Select
    sides: tuple[exp.Select, ...]
    sources: tuple[_Source, ...]

    @property
    def is_of_block(self) -> bool:
        """True if it reads a released table alone."""
        return len(self.sources) == 1 and self.sources[0].block is not None

    def source_of(self, column: exp.Column, passed: PassedColumns) -> _Source | None:
        """Find the source of a column; None unless it is sure."""
        sources = self.sources
        if column.table:
            sources = tuple(s for s in sources if fold(s.alias) == fold(column.table))
        elif len(sources) > 1:
            holding = passed.source_of(self.select, column)
            public = [s for s in sources if fold(column.name) in s.columns]
            sources = tuple(s for s in sources if s.table is holding) or tuple(public)
        return sources[0] if len(sources) == 1 else None

    def inside(self) -> Iterator[_Reading]:
        """Yield it and all readings in it, each once, the innermost first."""
        left, seen = [(self, False)], set[int]()
        while left:
            reading, expanded = left.pop()
            if expanded:
                yield reading
            elif id(reading) not in seen:
                seen.add(id(reading))
                left.append((reading, True))
                left += [(s.inner, False) for s in reading.sources if s.inner is not None]

    def blocks(self) -> Iterator[int]:
        """Yield the blocks whose rows it reads."""
        sources = (source for reading in self.inside() for source in reading.sources)
        return (source.block for source in sources if source.block is not None)

    def item(self, name: str, passed: PassedColumns) -> exp.Expr | None:
        """Return the expression of an output column, by its name in the first side."""
        if len(self.sides) == 1:
            return passed.item(self.select, name)
        names = [fold(name_of_item(item)) for item in self.sides[0].expressions]
        shown = self.select.expressions
        if fold(name) not in names or any(map(is_star, (*self.sides[0].expressions, *shown))):
            return None
        place = names.index(fold(name))
        found: exp.Expr | None = shown[place].unalias() if place < len(shown) else None
        return found


@dataclass(frozen=True, slots=True)
class _Readings:
    """Finds all readings of a statement: one for each choice of a side of each UNION ALL."""

    blocks: Sequence[Block]
    passed: PassedColumns
    public: Mapping[str, Mapping[str, bool]]
    # By the identity of the first side: a CTE that each of many reads twice is read once here.
    _found: dict[int, list[_Reading]] = field(default_factory=dict)

    def of(self, sides: tuple[exp.Select, ...]) -> list[_Reading]:
        """Return them; none where rows are grouped or distinct, and where there are too many."""
        if not sides:
            return []
        if id(sides[0]) not in self._found:
            self._found[id(sides[0])] = self._of_all(sides)
        return self._found[id(sides[0])]

    def _of_all(self, sides: tuple[exp.Select, ...]) -> list[_Reading]:
        found: list[_Reading] = []
        for select in sides:
            sources = list(sources_of(select))
            if not self._passes_rows_on(select, sources):
                return []
            ways = (self._ways(source) for source in sources)
            chosen = islice(product(*ways), _MOST_READINGS)
            found += (_Reading(select, sides, each) for each in chosen)
        return found if len(found) < _MOST_READINGS else []

    def _passes_rows_on(self, select: exp.Select, sources: Sequence[ReadTable]) -> bool:
        """Tell whether a SELECT gives rows of its sources, and no groups of them."""
        released = any(self.passed.block_of(source) is not None for source in sources)
        if released and len(sources) == 1:
            return True  # what is grouped there is the block itself
        clauses = {clause for clause, value in select.args.items() if value}
        if clauses - _PASSING_CLAUSES - ({"distinct"} if select.parent is None else set()):
            return False
        calls = select.find_all(exp.AggFunc, exp.Anonymous, exp.UDTF, exp.Explode)
        return all(call.find_ancestor(exp.Window, exp.Select) is not select for call in calls)

    def _ways(self, source: ReadTable) -> list[_Source]:
        """Return the ways to read a source: one by which nothing is known at least."""
        block = self.passed.block_of(source)
        if block is not None:
            return [_Source(source, block=block)]
        sides = self.passed.sides(source)
        if sides and _is_plain_source(source) and self.passed.can_hand_on(source, *sides):
            return [_Source(source, inner=each) for each in self.of(sides)] or [_Source(source)]
        if sides or not isinstance(source, exp.Table):
            return [_Source(source)]
        return [_Source(source, columns=self.public.get(fold(source.name), {}))]


def _is_plain_source(source: exp.Expr) -> bool:
    """Tell whether a source has no clauses of its own, in whatever brackets it stands."""
    if {name for name, value in source.args.items() if value} - _PLAIN_SOURCE:
        return False
    return not isinstance(source, exp.Subquery) or (
        isinstance(source.this, exp.Select | exp.SetOperation) or _is_plain_source(source.this)
    )


def _write_stars_out(reading: _Reading) -> None:
    """Replace stars over one source by the columns of that source."""
    inner = [source.inner for source in reading.sources]
    if len(inner) != 1 or inner[0] is None:
        return
    alias = reading.sources[0].alias
    names = [name_of_item(item) for item in inner[0].sides[0].expressions]
    shown = [name for name in names if not name.startswith(INTERNAL_PREFIX)]
    if not all(names) or len({*map(fold, shown)}) < len(shown):
        return
    written: list[exp.Expr] = []
    for item in reading.select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        plain = is_star(item) and not any(star.args.values())
        columns = [quoted_column(name, alias) for name in shown]
        written += columns if plain else [item]
    reading.select.set("expressions", written)


# -- where a column comes from -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """A reading, and how its columns come to the answer: through a ``source`` of another scope.

    Or as the ``value`` of a subquery in an expression of that scope.
    """

    reading: _Reading
    parent: _Scope | None = None
    source: _Source | None = None
    value: exp.Subquery | None = None

    def path(self) -> Iterator[_Scope]:
        """Yield the scope, then all scopes around it."""
        scope: _Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    @property
    def place(self) -> tuple[object, ...]:
        """The place of the scope, as a value."""
        return tuple(
            (id(s.reading), None if s.source is None else s.source.alias) for s in self.path()
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """A window over the rows of a scope: the value of another row, or a sum of values.

    ``others``: of all rows of the window but the one that it stands in.
    """

    scope: _Scope
    node: exp.Window
    sums: bool = False
    others: bool = False

    def over(self, column: exp.Expr, function: type[exp.Expr]) -> exp.Window:
        """Write the same window of a column; a sum as another function of it."""
        written = self.node.copy()
        if self.sums:
            written.set("this", function(this=column))
        else:
            written.this.set("this", column)
            written.this.set("default", None)
        return written


@dataclass(frozen=True, slots=True, eq=False)
class _Leaf:
    """What a column is computed from: an expression of a scope, seen through windows."""

    scope: _Scope
    expression: exp.Expr
    windows: tuple[_Window, ...] = ()
    block: int = -1
    aggregate: int = -1

    @property
    def sums(self) -> bool:
        return any(window.sums for window in self.windows)

    @property
    def source(self) -> tuple[object, ...]:
        """The row of the leaf, as a value; other rows of a window have the same."""
        windows = (one for one in self.windows if not one.others)
        return self.scope.place, tuple((one.scope.place, one.node) for one in windows)

    @property
    def others(self) -> _Window | None:
        """The window whose other rows are summed; None without one."""
        return next((one for one in self.windows if one.others), None)

    @property
    def identity(self) -> tuple[object, ...]:
        """The identity of the leaf, as a value."""
        return self.source, self.aggregate, None if self.others is None else self.others.node

    @property
    def as_released(self) -> bool:
        """True if a column of this leaf alone shows a value as released."""
        return not self.windows and all(scope.value is None for scope in self.scope.path())

    @property
    def repeated(self) -> bool:
        """True if its row may be in several rows of the answer."""
        joined = any(len(scope.reading.sources) > 1 for scope in self.scope.path())
        return joined or not self.as_released


@dataclass(slots=True)
class _Column:
    """A column of the answer: its term, and the leaves of the term."""

    term: Term | None = None
    values: list[_Leaf] = field(default_factory=list)
    known: list[_Leaf] = field(default_factory=list)
    scopes: dict[tuple[object, ...], _Scope] = field(default_factory=dict)

    @property
    def shown(self) -> _Leaf | None:
        """The aggregate of a column that shows one as released; None for others."""
        one = self.values[0] if self.term == AggregateTerm(0) else None
        return one if one is not None and one.as_released else None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the expressions of a scope, for one column."""

    finder: _Readings
    scope: _Scope
    column: _Column
    reads: Iterator[int]
    windows: tuple[_Window, ...] = ()

    def term(self, node: exp.Expr) -> Term | None:
        """Read an expression as a term; None for what intervals cannot follow."""
        node = node.unnest() if isinstance(node, exp.Paren) else node
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Subquery):
            return self._value(node)
        return term_of(node, self)

    def _column(self, column: exp.Column) -> Term | None:
        source = self.scope.reading.source_of(column, self.finder.passed)
        if source is None or next(self.reads, None) is None:
            return None
        if source.block is not None:
            aggregate = released_aggregate(column, self.finder.blocks[source.block])
            return None if aggregate is None else self._leaf(column, source.block, aggregate)
        if source.inner is not None:
            item = source.inner.item(column.name, self.finder.passed)
            inner = _Scope(source.inner, self.scope, source)
            return None if item is None else self._within(inner).term(item)
        return self._known(column) if source.columns.get(fold(column.name)) else None

    def _within(self, scope: _Scope) -> _Reader:
        self.column.scopes.setdefault(scope.place, scope)
        return replace(self, scope=scope)

    def _leaf(self, column: exp.Column, block: int, aggregate: int) -> Term:
        leaf = _Leaf(self.scope, column, self.windows, block, aggregate)
        for place, one in enumerate(self.column.values):
            if one.identity == leaf.identity:
                return AggregateTerm(place)
        self.column.values.append(leaf)
        return AggregateTerm(len(self.column.values) - 1)

    def _known(self, node: exp.Expr) -> Term:
        self.column.known.append(_Leaf(self.scope, node.copy(), self.windows))
        return KnownTerm(len(self.column.known) - 1)

    def known(self, node: exp.Expr) -> Term | None:
        """Read a condition on keys and public columns; None for others."""
        plain = all(isinstance(each, _OF_KEYS) for each in node.walk())
        columns = list(node.find_all(exp.Column))
        if not plain or not columns:
            return None
        keys = all(_is_public(each, self.scope.reading, self.finder.passed) for each in columns)
        return self._known(node) if keys else None

    def _window(self, node: exp.Window) -> Term | None:
        function, summed = node.this, any(window.sums for window in self.windows)
        if summed or not _WINDOW.hold(node):
            return None
        if isinstance(function, _OTHER_ROW) and _OF_ROWS.hold(function):
            window = _Window(self.scope, node)
            return replace(self, windows=(*self.windows, window)).term(function.this)
        if not isinstance(function, exp.Sum | exp.Avg) or not _ONE.hold(function):
            return None
        whole = not node.args.get("order") and not node.args.get("spec")
        window = _Window(self.scope, node, sums=True, others=whole)
        total: Term | None = replace(self, windows=(*self.windows, window)).term(function.this)
        if not isinstance(total, AggregateTerm):
            return None
        if not self._can_sum(self.column.values[total.aggregate]):
            return None
        if whole:  # the row itself is in it: so much of its noise is known to be the same
            own = self.term(function.this)
            total = None if own is None else OperatorTerm(Operator.ADD, (own, total))
        if total is None or isinstance(function, exp.Sum):
            return total
        number = _Window(self.scope, node, sums=True).over(function.this.copy(), exp.Count)
        return OperatorTerm(Operator.DIVIDE, (total, self._known(number)))

    def _can_sum(self, leaf: _Leaf) -> bool:
        """Tell whether a window adds up an aggregate of rows with noise of their own."""
        rows = [scope for scope in leaf.scope.path() if scope not in self.scope.path()]
        joined = any(len(scope.reading.sources) > 1 for scope in (*rows, self.scope))
        aggregate = self.finder.blocks[leaf.block].aggregates[leaf.aggregate]
        return leaf.sums and not joined and not aggregate.kind.composed

    def _value(self, node: exp.Subquery) -> Term | None:
        """Read a subquery for one value, of a block without groups."""
        readings = self.finder.of(sides_of(node)) if _ONE.hold(node) else []
        if len(readings) != 1 or len(readings[0].select.expressions) != 1:
            return None
        (reading,) = readings
        one: _Reading | None = reading
        while one is not None:
            if len(one.sources) != 1 or one.select.args.get("where") or len(one.sides) != 1:
                return None
            block, one = one.sources[0].block, one.sources[0].inner
        if block is None or self.finder.blocks[block].keys:
            return None
        scope = _Scope(reading, self.scope, value=node)
        return self._within(scope).term(reading.select.expressions[0].unalias())


def _is_public(column: exp.Column, reading: _Reading, passed: PassedColumns) -> bool:
    """Tell whether a column is a key, or of a public table, as it is."""
    source = reading.source_of(column, passed)
    if source is None:
        return False
    if source.block is not None:
        return column.name.startswith(f"{INTERNAL_PREFIX}k")
    if source.inner is None:
        return fold(column.name) in source.columns
    item = source.inner.item(column.name, passed)
    return isinstance(item, exp.Column) and _is_public(item, source.inner, passed)


# -- what the answer needs -----------------------------------------------------------------------


@dataclass(slots=True)
class _Tracer:
    """Reads all columns of the answer, and adds the hidden ones."""

    roots: tuple[exp.Select, ...]
    finder: _Readings
    hidden: dict[tuple[exp.Expr, ...], str] = field(default_factory=dict)
    sources: dict[tuple[object, ...], int] = field(default_factory=dict)
    windows: dict[exp.Window, int] = field(default_factory=dict)
    reads: Iterator[int] = field(default_factory=lambda: iter(range(_MOST_READ)))

    def trace(self, readings: Sequence[_Reading], *, limits: bool) -> TracedOutputs:
        """Find the terms of all columns, and add hidden columns."""
        scopes = [_Scope(reading) for reading in readings]
        choices = _Choices(self.finder.passed)
        chosen = frozenset(
            block
            for scope in scopes
            if limits or choices.by_noise(scope.reading)
            for block in scope.reading.blocks()
        )
        width = len(self.roots[0].expressions)
        columns = [[self._read(scope, place) for scope in scopes] for place in range(width)]
        shown = [each[0].shown if len(scopes) == 1 else None for each in columns]
        distinct = bool(self.roots[0].args.get("distinct"))
        if distinct:  # of which a further column would make more rows
            shown = [None if one is None or self._supports(one) else one for one in shown]
        outputs = tuple(
            None if one is None else self._released(one, place) for place, one in enumerate(shown)
        )
        computed: list[tuple[ComputedColumn, ...]] = []
        for one, each in zip(shown, columns, strict=True):
            noisy = any(column.term is not None and column.values for column in each)
            read = each if noisy and one is None and not distinct else ()
            found = (self._computed(column) for column in read)
            computed.append(tuple(dict.fromkeys(way for way in found if way is not None)))
        for exprs, name in self.hidden.items():
            for root, written in zip(self.roots, exprs, strict=True):
                root.append("expressions", exp.alias_(written, name, quoted=True))
        return TracedOutputs(outputs, tuple(computed), len(self.hidden), chosen)

    def _read(self, scope: _Scope, place: int) -> _Column:
        column = _Column(scopes={scope.place: scope})
        items = scope.reading.select.expressions
        if place < len(items):
            reader = _Reader(self.finder, scope, column, self.reads)
            column.term = reader.term(items[place].unalias())
        return column

    def _supports(self, leaf: _Leaf) -> bool:
        return bool(self.finder.blocks[leaf.block].support_columns(leaf.aggregate))

    def _computed(self, column: _Column) -> ComputedColumn | None:
        if column.term is None:
            return None
        values = tuple(map(self._released, column.values))
        known = tuple(self._place(each, each.expression) for each in column.known)
        marks = tuple(
            (self._mark(scope), scope.reading.sides.index(scope.reading.select))
            for scope in column.scopes.values()
            if len(scope.reading.sides) > 1
        )
        return ComputedColumn(column.term, values, known, marks)

    def _released(self, leaf: _Leaf, shown: int | None = None) -> ReleasedValue:
        """Find the columns of a value, which is ``shown`` at a place of the answer already."""
        block = self.finder.blocks[leaf.block]
        names = block.interval_columns(leaf.aggregate)
        told = len(names) - (block.told_columns if leaf.sums else 0)
        table = leaf.expression.table if isinstance(leaf.expression, exp.Column) else ""
        columns, least = list[int](), list[int]()
        for number, name in enumerate(names):
            if shown is not None and name == block.aggregate_column(leaf.aggregate):
                columns.append(shown)
                continue
            column = quoted_column(name, table)
            functions = (exp.Sum, exp.Sum) if number < told else (exp.Max, exp.Min)
            columns.append(self._place(leaf, column, functions[0]))
            if leaf.sums:
                least.append(self._place(leaf, column, functions[1]))
        summed = None
        if leaf.sums:
            number = self._place(leaf, leaf.expression, exp.Count)
            row = replace(leaf, windows=tuple(one for one in leaf.windows if not one.others))
            own = tuple(self._place(row, quoted_column(name, table)) for name in names)
            window = self.windows.setdefault(leaf.windows[-1].node, len(self.windows))
            beside = leaf.others is not None
            summed = SummedRows(number, tuple(least), own if beside else (), window)
        source = self.sources.setdefault(leaf.source, len(self.sources))
        at = tuple(columns)
        return ReleasedValue(leaf.block, leaf.aggregate, at, source, leaf.repeated, summed)

    def _place(self, leaf: _Leaf, column: exp.Expr, function: type[exp.Expr] = exp.Sum) -> int:
        """Return the place in the answer of a hidden column of a leaf's scope."""
        column = column.copy()
        for scope in leaf.scope.path():
            for window in reversed(leaf.windows):
                if window.scope is scope:
                    column = window.over(column, function)
            if scope.parent is None:
                return self._appended(scope.reading, column)
            if scope.source is not None:
                column = self.finder.passed.hand_on(
                    scope.source.table, scope.reading.select, column
                )
            else:
                written = scope.reading.select.copy()
                written.set("expressions", [column])
                column = exp.Subquery(this=written)
        raise AssertionError("a scope without an end")

    def _mark(self, scope: _Scope) -> int:
        """Return the place of a hidden column that tells the sides of a UNION ALL apart."""
        marks = [exp.Literal.number(number) for number in range(len(scope.reading.sides))]
        if scope.parent is None:
            return self._appended(scope.reading, *marks)
        assert scope.source is not None
        column = self.finder.passed.hand_on_all(scope.source.table, marks)
        return self._place(_Leaf(scope.parent, column), column)

    def _appended(self, reading: _Reading, *columns: exp.Expr) -> int:
        """Return the place of a hidden column: one of each root, or of that of a reading."""
        if len(columns) < len(self.roots):
            columns = tuple(
                columns[0] if root is reading.select else exp.null() for root in self.roots
            )
        if columns not in self.hidden:
            name = columns[0].name if isinstance(columns[0], exp.Column) else ""
            released = name.startswith(INTERNAL_PREFIX) and name not in self.hidden.values()
            self.hidden[columns] = name if released else self.finder.passed.new_name()
        return len(self.roots[0].expressions) + list(self.hidden).index(columns)


@dataclass(frozen=True, slots=True)
class _Choices:
    """Tells whether SELECTs around the last one may choose rows by noisy values."""

    passed: PassedColumns
    _keys: dict[tuple[int, str, str, bool], bool] = field(default_factory=dict)

    def by_noise(self, reading: _Reading) -> bool:
        """Tell whether a reading, or one inside, chooses rows by noise; blocks know theirs."""
        return any(self._chooses(one) for one in reading.inside() if not one.is_of_block)

    def _chooses(self, reading: _Reading) -> bool:
        select = reading.select
        clauses = [select.args.get(clause) for clause in ("where", "qualify")]
        clauses += [join.args.get("on") for join in select.args.get("joins") or ()]
        if select.args.get("qualify"):
            clauses += select.args.get("windows") or []
        if any(self._is_noisy(each, reading, clause=True) for each in clauses if each is not None):
            return True
        if not (select.args.get("limit") or select.args.get("offset")):
            return False
        order = select.args.get("order")  # without one, that of what it reads
        return order is None or any(
            self._sorts_by_noise(each, reading) for each in order.expressions
        )

    def _sorts_by_noise(self, ordered: exp.Expr, reading: _Reading) -> bool:
        """Tell whether a term of ORDER BY may sort by anything but keys."""
        items, by = reading.select.expressions, ordered.this.unnest()
        if isinstance(by, exp.Var):  # ORDER BY ALL
            return any(is_star(each) or self._is_noisy(each, reading) for each in items)
        if isinstance(by, exp.Literal):
            place = int(by.this) - 1 if by.is_int else -1
            starred = any(map(is_star, items))
            return (
                starred or place not in range(len(items)) or self._is_noisy(items[place], reading)
            )
        return self._is_noisy(by, reading, clause=True)

    def _is_noisy(self, node: exp.Expr, reading: _Reading, *, clause: bool = False) -> bool:
        """Tell whether an expression may depend on anything but keys and public columns.

        In a ``clause`` it may mean select items by their aliases.
        """
        if node.find(exp.Query, exp.Window) is not None:
            return True
        columns = node.find_all(exp.Column)
        return not all(self._is_key(column, reading, clause=clause) for column in columns)

    def _is_key(self, column: exp.Column, reading: _Reading, *, clause: bool) -> bool:
        asked = id(reading), fold(column.table), fold(column.name), clause
        if asked not in self._keys:
            self._keys[asked] = self._leads_to_keys(column, reading, clause=clause)
        return self._keys[asked]

    def _leads_to_keys(self, column: exp.Column, reading: _Reading, *, clause: bool) -> bool:
        source = reading.source_of(column, self.passed)
        noisy: list[bool] = []
        if source is not None and source.block is not None:
            return column.name.startswith(f"{INTERNAL_PREFIX}k")
        if source is not None and source.inner is not None:
            item = source.inner.item(column.name, self.passed)
            noisy += [] if item is None else [self._is_noisy(item, source.inner)]
        elif source is not None and fold(column.name) in source.columns:
            noisy.append(False)
        if clause and not column.table:  # which of both is meant differs between clauses
            selects = reading.select.selects
            own = (item for item in selects if fold(item.alias) == fold(column.name))
            noisy += [self._is_noisy(each.unalias(), reading) for each in own]
        return bool(noisy) and not any(noisy)
