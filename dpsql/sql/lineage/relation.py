"""Rows with a known privacy unit: what a FROM clause means, tracked from the catalog.

A :class:`Relation` is a FROM clause whose rows each belong to one privacy unit (or to none, if it
is public). Its columns have names that are unique in the statement, so relations combine without
qualification; :class:`Field` remembers what the analyst calls them, their type and what the policy
knows of them. Which rows they are is a value of :mod:`dpsql.ir.relations`, in no engine's words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from sqlglot import exp

from dpsql.core.schema import Column, Table, fold
from dpsql.core.sql_types import UNKNOWN, SqlType
from dpsql.core.table_name import TableName
from dpsql.ir.relations import EachRow, RowSet, Scan, bottom_up, scanned
from dpsql.policy.model import ColumnPolicy, PrivacyUnit, TablePolicy
from dpsql.sql.expressions.finite_values import has_few_values

Origin = tuple[str, str]
"""A column of a base table: the table's key, and the column's folded name."""


class Identity(IntEnum):
    """The relation of a column to the privacy unit of its row."""

    NONE = 0  # it is not computed from the unit, or has few values
    DERIVED = 1  # it is computed from the unit
    NULLABLE = 2  # it is the unit, or NULL
    UNIT = 3  # it is the unit, in every row


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a relation: ``column`` in generated SQL, ``qualifier`` and ``name`` to analysts.

    ``policy`` is what is publicly known of its values. ``origin`` is the base column it is a copy
    of, if any. ``merged`` columns (hidden by a USING) answer to their qualified name only. A
    ``single`` column has one value in all rows of a unit, if what the owner declares is true. The
    texts of an ``enumerated`` one have an order of their own in the database.
    """

    qualifier: str
    name: str
    column: str
    type: SqlType
    policy: ColumnPolicy | None = None
    origin: Origin | None = None
    merged: bool = False
    identity: Identity = Identity.NONE
    single: bool = False
    enumerated: bool = False


Origins = tuple[Origin, ...]
"""A key of a base table: its columns, in an order of their own."""


@dataclass(frozen=True, slots=True)
class LinkedKey:
    """The columns of a key, or of a reference to it: copies of columns of one row of a table.

    ``of`` is the key that links lead to.
    """

    columns: tuple[str, ...]
    of: Origins


@dataclass(frozen=True, slots=True)
class Pending:
    """A child table that reaches its unit through a parent: ``columns`` refer to ``parent``."""

    columns: tuple[str, ...]
    parent: Origins


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows of a FROM clause.

    ``unit`` is the column that says whose row it is, ``unit_name`` what the unit is called; both
    are None for public rows. ``pending`` is the link that still has to be followed to find the
    unit. ``tables`` are the private tables it reads, for messages. ``equal`` are sets of columns
    that are the same value, and not NULL, in every row that the statement keeps. ``joined`` is the
    number of private tables that are joined in it. ``rows_per_unit`` is how many rows a unit has
    at most, if what the owner declares is true; None where that is not known. ``unique`` are sets
    of columns in all of which no two rows of a unit are the same, NULL taken for a value. Like
    ``single`` columns, they only choose bounds: the rewriting keeps them, whatever the rows are.
    ``given`` are the public rows that an outer join keeps, of which only those with a match are
    among its rows. ``parents`` are the keys of several columns that rows of it have as parents.
    ``shared`` are the keys, of one column or several, whose rows have one unit, the owner says.
    """

    rows: RowSet
    fields: tuple[Field, ...]
    unit_name: str | None = None
    unit: str | None = None
    pending: Pending | None = None
    tables: tuple[TableName, ...] = ()
    equal: tuple[frozenset[str], ...] = ()
    joined: int = 0
    rows_per_unit: int | None = None
    given: RowSet | None = None
    unique: tuple[frozenset[str], ...] = ()
    parents: tuple[LinkedKey, ...] = ()
    shared: tuple[LinkedKey, ...] = ()
    _by_name: Mapping[str, Sequence[Field]] = field(init=False, repr=False, compare=False)
    _by_column: Mapping[str, Field] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, list[Field]] = {}
        for found in self.fields:
            by_name.setdefault(fold(found.name), []).append(found)
        object.__setattr__(self, "_by_name", by_name)
        # Of two fields over one column, the first.
        object.__setattr__(self, "_by_column", {f.column: f for f in reversed(self.fields)})

    @property
    def catalog(self) -> bool:
        """True for one table as it stands in the catalog."""
        return isinstance(self.rows, Scan)

    @property
    def private(self) -> bool:
        """True if its rows belong to privacy units."""
        return self.unit_name is not None

    @property
    def rows_are_units(self) -> bool:
        """True if rows of a table that it reads are units of their own."""
        return any(isinstance(node, EachRow) for node in bottom_up(self.rows))

    @property
    def may_repeat_units(self) -> bool:
        """True if a row that is a unit of its own could stand in several of its rows.

        The numbers of such units tell them apart where rows are read once and each stands alone.
        Nothing then depends on these numbers, which other rows have a part in: whose contribution
        is cut, or which part of it is left, must follow from a unit's own rows.
        """
        if not self.rows_are_units:
            return False
        read = [name for name in scanned(self.rows) if name in self.tables]
        return self.rows_per_unit != 1 or len(read) > 1

    @property
    def names(self) -> str:
        """The names of the private tables it reads, for messages."""
        return ", ".join(map(str, self.tables))

    @property
    def table(self) -> Table:
        """The columns as generated SQL sees them."""
        name = self.tables[0] if len(self.tables) == 1 else self.names
        return Table(name, tuple(Column(f.column, f.type) for f in self.fields))

    @property
    def policy(self) -> TablePolicy:
        """The publicly known facts about the columns, by their names in generated SQL."""
        unit = None
        if self.unit_name is not None and self.unit is not None:
            unit = PrivacyUnit(self.unit_name, self.unit)
        known = {fold(f.column): f.policy for f in self.fields if f.policy is not None}
        return TablePolicy(self.table.name, unit, known)

    @property
    def unit_label(self) -> str:
        """The analyst's name for the unit's column, or the unit where no column shows it."""
        shown = [f for f in self.fields if f.identity is Identity.UNIT]
        plain = [f.name for f in shown if len(self.matches("", f.name)) == 1]
        qualified = [f"{f.qualifier}.{f.name}" for f in shown if f.qualifier]
        return next(iter([*plain, *qualified]), self.unit_name or "")

    def matches(self, qualifier: str, name: str) -> list[Field]:
        """Return the fields that an analyst's column reference may mean."""
        named = self._by_name.get(fold(name), ())
        if qualifier:
            return [f for f in named if f.qualifier == fold(qualifier)]
        return [f for f in named if not f.merged]

    def field_of(self, column: str) -> Field | None:
        """Return the field behind a column of generated SQL."""
        return self._by_column.get(column)

    def type_of(self, column: str) -> SqlType:
        """Return the type of a column of generated SQL; UNKNOWN if there is no such column."""
        found = self.field_of(column)
        return UNKNOWN if found is None else found.type

    def is_unit(self, column: str) -> bool:
        """Tell whether a column of generated SQL holds the unit in every row."""
        found = self.field_of(column)
        return found is not None and found.identity is Identity.UNIT

    def identity_of(self, node: exp.Expr) -> Identity:
        """Find the relation of an expression over the columns to the unit.

        What has few values, such as the arm of an experiment, says little of whose row it is.
        """
        fields = (self.field_of(column.name) for column in node.find_all(exp.Column))
        told = any(f is not None and f.identity is not Identity.NONE for f in fields)
        few = told and has_few_values(node, self.table)
        return Identity.DERIVED if told and not few else Identity.NONE

    def named(self, qualifier: str, names: Sequence[str] = ()) -> Relation:
        """Put the relation under an alias, its first columns renamed where names are given."""
        shown = [f for f in self.fields if not f.merged]
        new = [*names, *(f.name for f in shown[len(names) :])]
        fields = tuple(
            replace(f, qualifier=fold(qualifier), name=name)
            for f, name in zip(shown, new, strict=True)
        )
        return replace(self, fields=fields)

    def single(self, node: exp.Expr) -> bool:
        """Tell whether an expression over the columns has one value in all rows of a unit."""
        fields = [self.field_of(column.name) for column in node.find_all(exp.Column)]
        return all(f is not None and f.single for f in fields)

    def of_rows_per_unit(self, most: int | None) -> Relation:
        """Return the relation with a bound on a unit's rows; None for an unknown bound."""
        single = self.private and most == 1
        fields = tuple(replace(f, single=f.single or single) for f in self.fields)
        return replace(self, fields=fields, rows_per_unit=most)

    def one_row_at(self, same: Collection[str]) -> bool:
        """Tell whether no two rows of a unit have the same values in these columns."""
        single = {f.column for f in self.fields if f.single}
        return self.rows_per_unit == 1 or any(s <= single.union(same) for s in self.unique)

    def where(self, condition: exp.Expr) -> Relation:
        """Return the relation where all rows satisfy a condition.

        A column that equals a constant has one value. That only chooses bounds: that a row which is
        a unit stands alone must not rest on what an engine takes for equal.
        """
        fixed = {column.name for column in _fixed(condition)}
        kept = replace(self, unique=tuple(columns - fixed for columns in self.unique))
        alone = kept.one_row_at(()) and not self.rows_are_units
        return kept.of_rows_per_unit(1) if alone else kept

    def filled_with_nulls(self, *, per_unit: bool) -> Relation:
        """Return the relation as the side of an outer join that may have no row.

        ``per_unit``: all rows of a unit are without one then, or none of them.
        """
        fields = tuple(
            replace(f, identity=min(f.identity, Identity.NULLABLE), single=f.single and per_unit)
            for f in self.fields
        )
        return replace(self, fields=fields, equal=())


def _fixed(condition: exp.Expr) -> Iterator[exp.Column]:
    """Yield the columns that a resolved condition lets have one value, and not NULL."""
    node = condition.unnest()
    if isinstance(node, exp.And):
        yield from _fixed(node.this)
        yield from _fixed(node.expression)
    elif isinstance(node, exp.EQ):
        one, other = node.this.unnest(), node.expression.unnest()
        for column, value in ((one, other), (other, one)):
            if isinstance(column, exp.Column) and _is_constant(value):
                yield column


def _is_constant(node: exp.Expr) -> bool:
    """Tell whether an expression is a text, a whole number or a text as another type.

    Beside a floating-point number, different values of a column can be equal to it.
    """
    if isinstance(node, exp.Cast):
        return isinstance(node.this, exp.Literal) and node.this.is_string
    if isinstance(node, exp.Neg):
        node = node.this
    return isinstance(node, exp.Literal) and (node.is_string or node.is_int)
