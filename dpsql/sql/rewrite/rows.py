"""Private rows as generated SQL sees them: a unit, keys, arguments, and a cap on keys per unit.

All SQL that reads private rows, of whichever kind of release, is written over :class:`PrivateRows`.

No user text is copied: expressions come from the checked tree, are made total, and names are
quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from dpsql.core.identity_memory import IdentityMemory
from dpsql.core.quoting import INTERNAL_PREFIX, ROW_ID
from dpsql.core.schema import Table
from dpsql.core.sql import Sql, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import VARCHAR
from dpsql.engines.base.dialect import FEW_COPIES, Dialect
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block, Key, Source
from dpsql.sql.expressions.proven_integers import Ranged
from dpsql.sql.expressions.totality import total_condition_sql, total_sql
from dpsql.sql.relations.from_clause import from_clause, short_values

_DRAWN: Final = 2**32  # numbers that the bits of a salted hash may be
_WRITTEN: Final = IdentityMemory[Source, Hashable, tuple[Sql, exp.Expr]]()
"""Expressions over rows, as they are written; with each, so that its id stays its own."""
_COPIES: Final = IdentityMemory[Block, Dialect, int]()
"""Copies of long texts that a block's expressions hold together."""
_RANKS: Final = (sql("dense_rank()"), sql("row_number()"), sql("rank()"))


@dataclass(frozen=True, slots=True)
class Staged:
    """A table of private rows that are grouped by unit and keys already: its name, and its columns.

    ``columns`` has, by their SQL, the aggregates over a unit's rows in a group that are there.
    """

    table: Sql
    columns: Mapping[Sql, Ranged]


@dataclass(frozen=True, slots=True)
class PrivateRows:
    """The rows of one block's private table, for SQL in a ``dialect``.

    ``salt`` is a fresh random number for each query. ``staged`` is a table of the same rows, for
    statements that read them by unit and keys.
    """

    plan: BlockPlan
    salt: int
    dialect: Dialect
    staged: Staged | None = None

    @property
    def table(self) -> Table:
        """The table that the block's expressions are checked against."""
        return self.plan.block.source.table

    @property
    def unit(self) -> Sql:
        """The privacy unit's quoted column."""
        return self.internal("unit")

    @property
    def row_id(self) -> Sql:
        """The quoted column that lines up keys with measures."""
        return quoted(ROW_ID)

    @property
    def keys(self) -> list[Sql]:
        """The quoted key columns."""
        block = self.plan.block
        return [quoted(block.key_column(i)) for i in range(len(block.keys))]

    @property
    def measures(self) -> list[Sql]:
        """The quoted measure columns."""
        block = self.plan.block
        return [quoted(block.measure_column(i)) for i in range(len(self.plan.measures))]

    def internal(self, name: str) -> Sql:
        """Quote a name that is not the analyst's and not the owner's."""
        return quoted(f"{INTERNAL_PREFIX}{name}")

    @property
    def known(self) -> bool:
        """True if the keys are declared, and stand for their positions in the declared lists."""
        return self.plan.declared

    def select(self, extra: Sequence[Sql] = ()) -> Sql:
        """Select unit, keys and ``extra`` of rows with a unit that satisfy the condition."""
        block = self.plan.block
        keys = [
            sql("{} AS {}", self._key(key), name)
            for key, name in zip(block.keys, self.keys, strict=True)
        ]
        unit = quoted(block.unit_column)
        columns = join(", ", [sql("{} AS {}", unit, self.unit), *keys, *extra])
        conditions = [sql("{} IS NOT NULL", unit)]
        if block.source.share is not None:
            conditions.append(self._in_sample(unit, block.source.share))
        if block.condition is not None:
            conditions.append(sql("({})", self._once(block.condition, total_condition_sql)))
        source = from_clause(block.source.rows, self.dialect)
        copies = self._copies()
        if copies > FEW_COPIES:
            source = short_values(block.source.rows.columns, source, self.dialect, copies)
        rows = sql("SELECT {} FROM {} WHERE {}", columns, source, join(" AND ", conditions))
        if not self.known:
            return rows
        outside = join(" AND ", (sql("{} IS NOT NULL", name) for name in self.keys))
        return (
            sql("SELECT * FROM {} WHERE {}", self.dialect.derived(rows), outside) if keys else rows
        )

    def written(self, node: exp.Expr) -> Sql:
        """Write an expression over the rows, total; once for all statements over them."""
        return self._once(node, total_sql)

    def _once(self, node: exp.Expr, write: Callable[[exp.Expr, Table, Dialect], Sql]) -> Sql:
        source, key = self.plan.block.source, (id(node), self.dialect, write)
        known = _WRITTEN.get(source, key)
        if known is None:
            known = write(node, self.table, self.dialect), node
            known[0].render(self.dialect.renderer)  # of which the texts of statements are made
            _WRITTEN.keep(source, key, known)
        return known[0]

    def _copies(self) -> int:
        block, dialect = self.plan.block, self.dialect
        known = _COPIES.get(block, dialect)
        if known is None:
            known = sum(map(dialect.copies, block.computed))
            _COPIES.keep(block, dialect, known)
        return known

    def _in_sample(self, unit: Sql, share: Fraction) -> Sql:
        """Write the condition that a unit is in the sample: each with probability ``share``.

        It is a salted hash of the unit alone, beside a text that no key has, so that it depends
        neither on other units nor on which groups of its own the unit keeps. Checked by
        ``tests/sql/test_samples.py``.
        """
        apart = self.dialect.cast(literal(f"{INTERNAL_PREFIX}sample"), VARCHAR)
        drawn = self.dialect.salted_bits(self.salt, [unit, apart])
        return sql("{} < {}", drawn, self.dialect.integer(int(share * _DRAWN)))

    def capped(self, rows: Sql) -> Sql:
        """Write a FROM clause that keeps each unit's first keys in the order of a salted hash.

        A unit keeps at most ``plan.bounding.kept`` keys; which ones depends on its own rows alone,
        even where hashes collide. Checked by ``tests/sql/test_sensitivity.py``.
        """
        if not self.capped_at_all:
            return self.dialect.derived(rows)
        derived = self.dialect.derived
        ranked = sql(
            "SELECT *, dense_rank() OVER ({}) AS {} FROM {}", self._window, self.rank, derived(rows)
        )
        return self.first_places(derived(ranked))

    @property
    def capped_at_all(self) -> bool:
        """True if a unit keeps some of its keys only; a single row has one key."""
        bounded = self.plan.bounding is not None and bool(self.keys)
        return bounded and not self.plan.block.rows_are_units

    @property
    def ranks_rows(self) -> bool:
        """True if the cap is best put on rows, sorted, before those of a key are put together.

        Sorting is what takes time. Where keys are not declared most units have most of theirs once,
        so that grouping first would leave as many rows to sort; unless they are grouped already.
        """
        sorts = self.dialect.sorts_rows and self.staged is None
        return self.capped_at_all and sorts and not self.known

    @property
    def rank(self) -> Sql:
        """The quoted column with a key's place among those of its unit, from 1."""
        return self.internal("rank")

    @property
    def place(self) -> Sql:
        """The place of a row of :meth:`placed` among those of its unit and keys, from 0."""
        return sql("({} - {})", self.internal("row"), self.internal("first"))

    @property
    def is_first(self) -> Sql:
        """True for one row of :meth:`placed` of each unit and keys."""
        return sql("{} = {}", self.internal("row"), self.internal("first"))

    @property
    def place_columns(self) -> tuple[Sql, Sql, Sql]:
        """The columns that :meth:`placed` adds."""
        return self.rank, self.internal("row"), self.internal("first")

    def first_rows(self, limit: int) -> Sql:
        """Count rows of :meth:`placed`: the first ones of each unit and keys, up to ``limit``."""
        first = self.is_first if limit == 1 else sql("{} < {}", self.place, limit)
        return sql("count(CASE WHEN {} THEN 1 END)", first)

    def placed(self, rows: Sql, aggregates: Mapping[Sql, Sql] = MappingProxyType({})) -> Sql:
        """Select rows with ``rank`` and ``place``, from a single sort.

        Beside are ``aggregates`` over all rows of the same unit and keys: SQL, with the names of
        their columns.
        """
        ranks = zip(_RANKS, self.place_columns, strict=True)
        columns = [
            sql("{} OVER ({}) AS {}", written, self._window, name) for written, name in ranks
        ]
        same = sql("({} RANGE BETWEEN CURRENT ROW AND CURRENT ROW)", self._window)
        columns += (
            sql("{} OVER {} AS {}", written, same, name) for written, name in aggregates.items()
        )
        return sql("SELECT *, {} FROM {}", join(", ", columns), self.dialect.derived(rows))

    def first_places(self, ranked: Sql) -> Sql:
        """Write a FROM clause of rows with each unit's first keys, whose places are in ``rank``."""
        assert self.plan.bounding is not None
        return sql("{} WHERE {} <= {}", ranked, self.rank, self.plan.bounding.kept)

    @property
    def _window(self) -> Sql:
        """The unit's rows, in the order of a salted hash of their keys; of others by the keys."""
        order = [self.hashed([self.unit, *self.keys]), *self.ascending(self.keys)]
        return sql("PARTITION BY {} ORDER BY {}", self.unit, join(", ", order))

    def capped_apart(self, pairs: Sql, units: Sql) -> Sql:
        """Write what :meth:`capped` does for stored rows per (unit, key), sorting only some units.

        ``pairs`` names their table, ``units`` one that has the ``number`` of keys of each unit.
        Those with more than are kept are sorted. A row whose unit is not found is in neither part.
        """
        assert self.plan.bounding is not None
        number, kept = self.number, self.plan.bounding.kept
        few, many = (
            sql(
                "SELECT * FROM {} JOIN {} USING ({})", pairs, self.dialect.derived(found), self.unit
            )
            for found in (
                sql(
                    "SELECT {unit} FROM {units} WHERE {number} {sign} {kept}",
                    unit=self.unit,
                    units=units,
                    number=number,
                    sign=sign,
                    kept=kept,
                )
                for sign in (sql("<="), sql(">"))
            )
        )
        shown = join(", ", [*self.keys, *self.measures])
        parts = (self.dialect.derived(few), self.capped(many))
        return self.dialect.derived(
            join(" UNION ALL ", (sql("SELECT {} FROM {}", shown, p) for p in parts))
        )

    @property
    def number(self) -> Sql:
        """The quoted column with a unit's number of keys."""
        return self.internal("number")

    def hashed(self, columns: Sequence[Sql]) -> Sql:
        """Write the salted hash of some columns."""
        return self.dialect.salted_hash(self.salt, columns)

    def ascending(self, columns: Sequence[Sql]) -> list[Sql]:
        """Write some columns as terms of ORDER BY."""
        return [self.dialect.ascending(column) for column in columns]

    def _key(self, key: Key) -> Sql:
        """Write the key's expression, or its position in the declared domain (NULL outside)."""
        expression = self.written(key.expression)
        if not self.known:
            return expression
        assert key.domain is not None
        type_ = key.type
        if type_ is None:
            column = self.table.column(key.expression.name)
            assert column is not None
            type_ = column.type
        # A declared value that does not fit the column's type is NULL, which no row has.
        values = [self.dialect.declared(v, type_) for v in key.domain if v is not None]
        place = self.dialect.position(values, expression) if values else sql("NULL")
        if len(values) == len(key.domain):
            return place
        last = sql("CASE WHEN ({}) IS NULL THEN {} END", expression, len(key.domain))
        return sql("COALESCE({}, {})", place, last) if values else last
