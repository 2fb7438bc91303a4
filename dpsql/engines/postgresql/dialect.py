"""Generated SQL as PostgreSQL 15 and later read it.

Texts have the collation "C" from where their table is read, so they are compared, sorted and hashed
by their bytes wherever they go. There is no TRY: expressions are total by how they are written
(:mod:`dpsql.engines.postgresql.expressions`), so marking what may fail leaves it as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Table
from dpsql.core.sql import EMPTY_SQL, Sql, digits, join, name, sql, written_as
from dpsql.core.sql_types import VARCHAR, Spellings, SqlType
from dpsql.engines.base.row_types import INTEGERS, TypedValue
from dpsql.engines.base.server_dialect import ServerDialect
from dpsql.engines.postgresql import types as pg
from dpsql.engines.postgresql.expressions import POSTGRESQL_ROWS
from dpsql.engines.postgresql.reading import POSTGRESQL_TEXT, rows_to_question
from dpsql.engines.postgresql.types import double_sql
from dpsql.errors import QueryRefused

_SMALL: Final = 1e-290
_SECOND_SALT: Final = 2**62


class PostgreSQLDialect(ServerDialect):
    """PostgreSQL's spelling; checked against DuckDB's by the suite of all engines."""

    __slots__ = ()
    name = "postgresql"
    renderer = POSTGRESQL_TEXT  # sessions set standard_conforming_strings: no backslash escapes
    rows = POSTGRESQL_ROWS
    widest = (-(2**127) + 1, 2**127 - 1)  # as DuckDB's, so that the same plans are made
    wide_type = SqlType.of("NUMERIC")  # exact, with as many digits as it likes

    # -- names and constants ------------------------------------------------------------------

    def table(self, table: Table) -> Sql:
        """Select the columns of the schema, each in the one form that values of its type have.

        Texts get the collation "C". NULL are dates and timestamps outside of the years 1 to 9999,
        infinite ones among them, and NaN among decimals: DuckDB has no equal of these. So are long
        texts, with which the server could fail.
        """
        return self.derived(rows_to_question(table))

    def double(self, value: float) -> Sql:
        """Write a cast of the digits of Python's repr: numbers alone are decimals."""
        return double_sql(value)

    def integer(self, value: int) -> Sql:
        """Write the digits: operands beside it have 64 bits, like row numbers."""
        return digits(value)

    # -- errors on rows -----------------------------------------------------------------------

    def try_(self, node: exp.Expr, table: Table) -> exp.Expr:
        """Return the expression unchanged: generated expressions cannot fail."""
        return node

    def try_cast(self, value: Sql, type_: SqlType, source: SqlType) -> Sql:
        """Cast behind a guard for the value's type."""
        if source == self.wide_type:
            source = SqlType.decimal(38, 0)
        if source == type_ and not type_.is_decimal:
            return value
        found = pg.cast(TypedValue(value, source), type_)
        if found is None:
            raise QueryRefused(
                f"values of type {source.kind} cannot be read as {type_.kind} in "
                "private rows of a PostgreSQL database",
                code="expression_not_allowed",
                hint="Cast them in the query, or have the owner add a column or view of a number.",
            )
        return found.sql

    def declared(self, value: object, type_: SqlType) -> Sql:
        """Write a constant of the type, read from its text as DuckDB does."""
        if type_.is_opaque:  # which is read as its text
            type_ = VARCHAR
        if pg.sql_type(type_) is None:
            raise QueryRefused(
                f"values of type {type_.kind} cannot be declared of a PostgreSQL database",
                code="expression_not_allowed",
                hint="Ask for the groups without declared keys, or have the owner add a column of "
                "another type.",
            )
        return pg.constant(value, type_) or pg.cast_to(sql("NULL"), type_)

    def comparison_family(self, type_: SqlType) -> str | None:
        """Name the family of texts, of numbers, or of a single type: none of them is guarded."""
        kind = type_.kind
        if kind == "VARCHAR":
            return "text"
        if kind in INTEGERS or kind == "DOUBLE":
            return "number"
        return kind if pg.sql_type(type_) is not None else None

    # -- integers -----------------------------------------------------------------------------

    def cast(self, value: Sql, type_: SqlType) -> Sql:
        """Write ``CAST``, which raises where a value does not fit."""
        named = type_.sql if type_ == self.wide_type else pg.named(type_)
        return sql("CAST({} AS {})", value, named)

    def divided(self, dividend: Sql, divisor: Sql, *, wide: bool) -> Sql:
        """Write a truncating division: ``div``, or ``/`` of BIGINTs."""
        if wide:
            return sql("div({}, {})", dividend, divisor)
        return sql("({} / {})", dividend, divisor)

    def sum(self, value: Sql, *, wide: bool, distinct: bool = False) -> Sql:
        """Write ``sum``, which is a NUMERIC of BIGINTs and of NUMERICs."""
        value = value if wide else sql("CAST({} AS BIGINT)", value)
        return sql("sum(DISTINCT {})", value) if distinct else sql("sum({})", value)

    # -- floating point -----------------------------------------------------------------------

    is_nan = written_as("({value} = CAST('NaN' AS DOUBLE PRECISION))")  # which equals itself

    def quotient(self, value: Sql, quantum: float) -> Sql:
        """Write ``/``; a tiny value divided by more than 1 stays as it is."""
        plain = sql("({} / {})", value, double_sql(quantum))
        if quantum <= 1:
            return plain
        return sql(
            "CASE WHEN abs({value}) >= {} THEN {plain} ELSE {value} END",
            double_sql(_SMALL),
            value=value,
            plain=plain,
        )

    def rounded(self, value: Sql) -> Sql:
        """Write halves away from zero, as DuckDB rounds: ``round`` takes them to even."""
        return pg.half_away(value)

    root = written_as("CAST(floor(sqrt(CAST({value} AS DOUBLE PRECISION))) AS BIGINT)")

    def divided_by_root(self, dividend: int, value: Sql) -> Sql:
        """Divide DOUBLEs."""
        root = sql("sqrt(CAST({} AS DOUBLE PRECISION))", value)
        return sql("CAST(floor({} / {}) AS BIGINT)", double_sql(dividend), root)

    # -- chance and order ---------------------------------------------------------------------

    def salted_hash(self, salt: int, columns: Sequence[Sql]) -> Sql:
        """Hash the hash of a row, each under the salt.

        The hash of a row is a sum of its parts' hashes, each times a power of 31. Sorting by that
        would favour some keys, the same ones for all units; a hash of it does not.
        """
        row = sql("hash_record_extended(ROW({}), {})", join(", ", columns), digits(salt))
        return sql("hashint8extended({}, {})", row, digits(_SECOND_SALT ^ salt))

    def salted_bits(self, salt: int, columns: Sequence[Sql]) -> Sql:
        """Shift the hash, and take away the sign."""
        return sql("((({}) >> 32) & 4294967295)", self.salted_hash(salt, columns))

    def one_spelling(self, value: Sql, type_: SqlType) -> Sql:
        """Normalise floats: zero and NaN have several forms."""
        if type_.spellings is not Spellings.FLOATS:
            return value
        nan = sql("CAST('NaN' AS {})", pg.named(type_))
        return sql(
            "CASE WHEN {value} = {nan} THEN {nan} ELSE {value} + {zero} END",
            value=value,
            nan=nan,
            zero=sql("CAST('0' AS {})", pg.named(type_)),  # a constant: no function casts it
        )

    # Hashes first, on which the engine can join; then values, NULLs as equal.
    same = written_as(
        "(hash_record_extended(ROW({one}), 0) = hash_record_extended(ROW({other}), 0) "
        "AND {one} IS NOT DISTINCT FROM {other})"
    )

    ascending = written_as("{value} NULLS LAST")  # texts are of the collation "C", NaN is above all

    descending = written_as("{value} DESC NULLS LAST")

    def position(self, values: Sequence[Sql], value: Sql) -> Sql:
        """Write CASE, which is NULL where no value is equal."""
        found = (sql("WHEN {} THEN {}", each, place) for place, each in enumerate(values, 1))
        places = join(" ", found)
        return sql("CAST(CASE {} {} END AS BIGINT)", value, places)

    # -- rows ---------------------------------------------------------------------------------

    def derived(self, statement: Sql, alias: Sql = EMPTY_SQL) -> Sql:
        """Put the statement in brackets; without an alias it gets a digest of its text."""
        if alias:
            return sql("({}) AS {}", statement, alias)
        digest = hashlib.sha256(statement.render(POSTGRESQL_TEXT).encode()).hexdigest()[:12]
        return sql("({}) AS {}", statement, name(f"{INTERNAL_PREFIX}t{digest}"))

    def to_group(self, rows: Sql, columns: Sequence[Sql]) -> Sql:
        """Sort them, in parallel where the planner likes.

        By itself it takes pairs for ten times fewer than rows at most, and has each worker group
        its own share: in hash tables which then hold nearly all rows, spill, are sorted and grouped
        again. Measured: a third to a half of the time, and 1.4 times as much where a unit has a
        thousand rows in few groups.
        """
        return self.derived(sql("SELECT * FROM {} ORDER BY {}", rows, join(", ", columns)))

    numbers = written_as(
        "generate_series(CAST(1 AS BIGINT), CAST({count} AS BIGINT)) AS {alias}({column})"
    )

    def semi_join(self, left: Sql, right: Sql, condition: Sql, *, negated: bool) -> Sql:
        """Write EXISTS, which the engine makes a join of."""
        found = sql("EXISTS (SELECT 1 FROM {} WHERE {})", right, condition)
        return self.derived(
            sql("SELECT * FROM {} WHERE {}", left, sql("NOT {}", found) if negated else found)
        )

    pairs = written_as("array_agg(ARRAY[{one}, {other}])")

    # -- parameters ---------------------------------------------------------------------------

    parameter = written_as("CAST(${position} AS BIGINT)")  # told apart by their numbers

    def among_given(self, value: Sql, *, few: bool) -> Sql:
        """Give the list as one parameter, of type BIGINT[]."""
        given = sql("CAST($1 AS BIGINT[])")
        if few:
            return sql("{} = ANY({})", value, given)
        return sql("{} IN (SELECT unnest({}))", value, given)
