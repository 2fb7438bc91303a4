"""Rows of a block as values: a small relational algebra without anything of an engine.

A relation is a tree of frozen values over the tables of the catalog; two may share a part. Columns
have names that are unique wherever relations meet, and conditions and computed columns are
expressions over them, as the analyst's language means them. What an expression cannot compute on a
row is NULL on that row: whoever writes a relation for an engine makes its expressions total. Types
are written as the schema writes them; an empty one is not known yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from dpsql.core.schema import Column, Table
from dpsql.core.sql_types import BIGINT, DOUBLE, UNKNOWN, SqlType
from dpsql.core.table_name import TableName


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RowSet(ABC):
    """Rows with named columns: a node of the algebra. ``columns`` follow from all that is below."""

    columns: tuple[Column, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self._columns())

    @property
    @abstractmethod
    def sources(self) -> tuple[RowSet, ...]:
        """The relations it is made of, in order."""

    @abstractmethod
    def _columns(self) -> tuple[Column, ...]:
        """Return its columns, once its own fields are set."""


@dataclass(frozen=True, slots=True)
class Derived(RowSet):
    """Rows made from one other relation, with the same columns unless a subclass says otherwise."""

    source: RowSet

    @property
    def sources(self) -> tuple[RowSet, ...]:
        return (self.source,)

    def _columns(self) -> tuple[Column, ...]:
        return self.source.columns


# -- one relation ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scan(RowSet):
    """The rows of a table, as it stands in the catalog."""

    table: Table

    @property
    def sources(self) -> tuple[RowSet, ...]:
        """No relations: tables are where rows come from."""
        return ()

    def _columns(self) -> tuple[Column, ...]:
        return self.table.columns


@dataclass(frozen=True, slots=True)
class ViewScan(Scan):
    """The rows of a materialized view, which no engine has: statements reading them are refused."""


@dataclass(frozen=True, slots=True)
class NumberedRows(RowSet):
    """The whole numbers from 1 to ``count``, in one column."""

    name: str
    count: int

    @property
    def sources(self) -> tuple[RowSet, ...]:
        """No relations: the statement itself is where they come from."""
        return ()

    def _columns(self) -> tuple[Column, ...]:
        return (Column(self.name, BIGINT),)


@dataclass(frozen=True, slots=True)
class Rename(Derived):
    """All rows, and of their columns those that are named: each with its old and its new name."""

    names: tuple[tuple[str, str], ...]

    def _columns(self) -> tuple[Column, ...]:
        types = _types(self.source)
        return tuple(Column(new, types[old]) for old, new in self.names)


@dataclass(frozen=True, slots=True)
class EachRow(Derived):
    """All rows of a table, each a privacy unit: ``name`` is a number that no other of them has.

    Which number it is, and the order of them, is left open, and another time it is another one.
    """

    name: str

    def _columns(self) -> tuple[Column, ...]:
        return (*self.source.columns, Column(self.name, BIGINT))


@dataclass(frozen=True, slots=True)
class Filter(Derived):
    """The rows that fulfil a condition."""

    condition: exp.Expr


@dataclass(frozen=True, slots=True)
class Sampled(Derived):
    """The rows of some privacy units, each unit taken with probability ``share``.

    It is a mark in the rows of a statement, and no step of reading them: which units are taken
    is decided once for a whole block (:func:`unsampled`, ``Source.share``).
    """

    share: Fraction


@dataclass(frozen=True, slots=True)
class Computed:
    """A new column: the value of an expression over the columns of the same row."""

    name: str
    expression: exp.Expr


@dataclass(frozen=True, slots=True)
class Extend(Derived):
    """All rows with further columns, whose types are not known yet (see :class:`Typed`)."""

    computed: tuple[Computed, ...]

    def _columns(self) -> tuple[Column, ...]:
        return (*self.source.columns, *(Column(c.name, UNKNOWN) for c in self.computed))


@dataclass(frozen=True, slots=True)
class Typed(Derived):
    """The same rows, some of whose columns turned out to be of these types."""

    types: tuple[Column, ...]

    def _columns(self) -> tuple[Column, ...]:
        known = {column.name: column for column in self.types}
        return tuple(known.get(column.name, column) for column in self.source.columns)


@dataclass(frozen=True, slots=True)
class Distinct(Derived):
    """The different combinations of the values of some columns."""

    names: tuple[str, ...]

    def _columns(self) -> tuple[Column, ...]:
        return _named(self.source, self.names)


@dataclass(frozen=True, slots=True)
class OneSpelling(Derived):
    """All rows, with one spelling for equal values of the columns ``names``.

    For rows that were made distinct or grouped, which leaves open which of several spellings stays.
    Columns that are ``kept`` stay as they are; others may be dropped.
    """

    names: tuple[str, ...]
    kept: tuple[str, ...] = ()

    def _columns(self) -> tuple[Column, ...]:
        return _named(self.source, (*self.names, *self.kept))


class UnitFunction(Enum):
    """An exact function of a privacy unit's rows; NULLs are passed over."""

    ROWS = "rows"  # how many rows there are
    VALUES = "values"  # how many of them have a value
    DISTINCT_VALUES = "distinct_values"
    WHOLE_SUM = "whole_sum"  # of integers, as a BIGINT; NULL if it is none
    SUM = "sum"  # of numbers as decimals, as a DOUBLE
    AVERAGE = "average"  # likewise
    LEAST = "least"
    LARGEST = "largest"


@dataclass(frozen=True, slots=True)
class UnitValue:
    """A new column: a function of the rows of a group; ``argument`` is None for ROWS alone."""

    name: str
    function: UnitFunction
    argument: exp.Expr | None


@dataclass(frozen=True, slots=True)
class PerUnit(Derived):
    """One row per combination of keys, with exact values; the privacy unit is among the keys.

    Their types are not known yet (see :class:`Typed`). No function fails or depends on the order of
    rows: sums of fractions are of decimals too few to overflow.
    """

    keys: tuple[Computed, ...]
    values: tuple[UnitValue, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns: keys, then values."""
        return (*(key.name for key in self.keys), *(value.name for value in self.values))

    def _columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, UNKNOWN) for name in self.names)


class PlaceFunction(Enum):
    """A function of a row's place among the rows of its privacy unit."""

    NUMBER = "number"  # how many rows there are up to it
    RANK = "rank"  # one more than there are rows before it, without its equals
    ROWS = "rows"  # how many rows there are up to it and its equals; without an order, all
    VALUES = "values"  # how many of them have a value
    LEAST = "least"  # of these values
    LARGEST = "largest"
    WHOLE_SUM = "whole_sum"  # of these values, as a unit's sums and averages are computed
    SUM = "sum"
    AVERAGE = "average"
    FIRST = "first"  # the value in the first row
    BEFORE = "before"  # the value so many rows before it, or NULL
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Sorted:
    """A column that rows are ordered by."""

    name: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows near a row that a function is of: from ``first`` to ``last``, counted from it.

    They are distances in rows, or ``by_value`` in the only column of the order, a DOUBLE; there 0
    means the row's equals. Negative ones lie before the row, and None is the end of its part.
    """

    first: float | None
    last: float | None
    by_value: bool = False


@dataclass(frozen=True, slots=True)
class PlaceValue:
    """A new column: a function of a row's place among those that are the same in ``among``.

    These hold the privacy unit; ``argument`` is a column, and ``distance`` a number of rows.
    Of a function that tells equals apart, ``order`` leaves none open that differ in any column.
    Without a ``frame`` it is of the rows up to the row and its equals.
    """

    name: str
    function: PlaceFunction
    argument: str | None
    among: tuple[str, ...]
    order: tuple[Sorted, ...]
    distance: int = 0
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Placed(Derived):
    """All rows, with values that follow from their places among rows of the same unit."""

    values: tuple[PlaceValue, ...]

    def _columns(self) -> tuple[Column, ...]:
        types = _types(self.source)
        made = (Column(value.name, _type_of_place(value, types)) for value in self.values)
        return (*self.source.columns, *made)


def _type_of_place(value: PlaceValue, types: Mapping[str, SqlType]) -> SqlType:
    """Return the type of a function of a row's place."""
    if value.function in (PlaceFunction.SUM, PlaceFunction.AVERAGE):
        return DOUBLE
    counts = value.function in (PlaceFunction.VALUES, PlaceFunction.WHOLE_SUM)
    return BIGINT if value.argument is None or counts else types[value.argument]


# -- several relations ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BinaryOperator(RowSet):
    """Rows made of those of two relations."""

    left: RowSet
    right: RowSet

    @property
    def sources(self) -> tuple[RowSet, ...]:
        return self.left, self.right

    def _columns(self) -> tuple[Column, ...]:
        return self.left.columns + self.right.columns


class JoinKind(Enum):
    """The rows without a match that a join keeps: none, or the rows of one side."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Join(BinaryOperator):
    """The pairs of rows that fulfil all conditions, with unmatched rows as the kind says."""

    kind: JoinKind
    conditions: tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class LinkJoin(BinaryOperator):
    """Each row of a child table with its parent's: ``column`` of the left is ``key`` of the right.

    The two are compared as what they are, and no two parents share a key.
    """

    column: str
    key: str


@dataclass(frozen=True, slots=True)
class SemiJoin(BinaryOperator):
    """The left rows with a matching right row, each once; or those without one.

    ``negated``: those for which none does.
    """

    conditions: tuple[exp.Expr, ...]
    negated: bool

    def _columns(self) -> tuple[Column, ...]:
        return self.left.columns


class SetOperator(Enum):
    """An operator on the rows of two relations."""

    UNION = "union"
    EXCEPT = "except"
    INTERSECT = "intersect"


@dataclass(frozen=True, slots=True)
class Combined(BinaryOperator):
    """A set operation over some columns of two relations, in order.

    ``distinct``: rows are compared, and each that is left appears once; else as often as SQL's ALL
    has it. ``names`` has a column of the left, one of the right, and what both are called then. The
    types are those of the left, unless :class:`Typed` says otherwise.
    """

    operator: SetOperator
    distinct: bool
    names: tuple[tuple[str, str, str], ...]

    def _columns(self) -> tuple[Column, ...]:
        types = _types(self.left)
        return tuple(Column(new, types[one]) for one, _, new in self.names)


# -- walks ----------------------------------------------------------------------------------------


def bottom_up(rows: RowSet, known: Container[int] = ()) -> Iterator[RowSet]:
    """Walk a relation: each node once, after all of its sources, at any depth.

    Nodes whose ``id`` is ``known``, and what only they are made of, are left out.
    """
    seen: set[int] = set()
    waiting = [(rows, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            yield node
        elif id(node) not in seen and id(node) not in known:
            seen.add(id(node))
            waiting.append((node, True))
            waiting += [(source, False) for source in reversed(node.sources)]


def most_rows(rows: RowSet) -> int | None:
    """Return how many rows a relation has at most, as one of constants; None for any other."""
    match rows:
        case NumberedRows():
            return rows.count
        case Rename() | Filter() | Extend() | Typed() | Distinct() | OneSpelling():
            return most_rows(rows.source)
    return None


def computed_by(node: RowSet) -> tuple[exp.Expr, ...]:
    """Return the expressions that a node computes of its sources' rows, conditions included."""
    match node:
        case Filter():
            return (node.condition,)
        case Extend():
            return tuple(made.expression for made in node.computed)
        case PerUnit():
            keys = (key.expression for key in node.keys)
            return (*keys, *(v.argument for v in node.values if v.argument is not None))
        case Join() | SemiJoin():
            return node.conditions
    return ()


def unnumbered(rows: RowSet) -> RowSet:
    """Return a relation of the same columns, with 0 for the number of each row that is a unit.

    Nothing is computed of such a number, so that all else is as it was.
    """

    def change(node: Derived, source: RowSet) -> RowSet:
        if not isinstance(node, EachRow):
            return replace(node, source=source)
        zero = Computed(node.name, exp.Literal.number(0))
        return Typed(Extend(source, (zero,)), (Column(node.name, BIGINT),))

    return rebuilt(rows, change)


def unsampled(rows: RowSet) -> RowSet:
    """Return a relation without the marks of samples in it."""
    if not any(isinstance(node, Sampled) for node in bottom_up(rows)):
        return rows
    return rebuilt(
        rows,
        lambda node, source: source if isinstance(node, Sampled) else replace(node, source=source),
    )


def _pair_of(node: BinaryOperator, left: RowSet, right: RowSet) -> RowSet:
    return replace(node, left=left, right=right)


def rebuilt(
    rows: RowSet,
    change: Callable[[Derived, RowSet], RowSet],
    pair: Callable[[BinaryOperator, RowSet, RowSet], RowSet] = _pair_of,
) -> RowSet:
    """Make a relation anew: ``change`` makes each node over one source, ``pair`` over two.

    A part that two relations share is made once.
    """
    made: dict[int, RowSet] = {}
    for node in bottom_up(rows):
        if isinstance(node, Derived):
            made[id(node)] = change(node, made[id(node.source)])
        elif isinstance(node, BinaryOperator):
            made[id(node)] = pair(node, made[id(node.left)], made[id(node.right)])
        else:
            made[id(node)] = node
    return made[id(rows)]


def scanned(rows: RowSet) -> tuple[TableName, ...]:
    """List the tables that a relation scans, each as often as it is written there.

    A part that two relations share is written for each of them.
    """
    counts: dict[int, Counter[TableName]] = {}
    for node in bottom_up(rows):
        found = Counter((node.table.name,) if isinstance(node, Scan) else ())
        for source in node.sources:
            found.update(counts[id(source)])
        counts[id(node)] = found
    return tuple(counts[id(rows)].elements())


def _types(rows: RowSet) -> dict[str, SqlType]:
    return {column.name: column.type for column in rows.columns}


def _named(rows: RowSet, names: tuple[str, ...]) -> tuple[Column, ...]:
    types = _types(rows)
    return tuple(Column(name, types[name]) for name in names)


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A table that the policy lists as public: its rows are the owner's."""

    table: Table


@dataclass(frozen=True, slots=True)
class PublishedView:
    """A materialized view as a table: its rows are what a stream has published."""

    table: Table
    stream: str


@dataclass(frozen=True, slots=True)
class TypesAlone:
    """A private table in a statement that has no rows: its names and types, and never a row."""

    table: Table


PublicSource: TypeAlias = PublicTable | PublishedView | TypesAlone
"""Where the rows of a public table come from."""
