"""Generated SQL as PostgreSQL 15 and later read it.

Texts have the collation "C" from where their table is read, so they are compared, sorted and hashed
by their bytes wherever they go. There is no TRY: expressions are total by how they are written
(:mod:`dpsql.sql.dialects.postgresql_rows`), so marking what may fail leaves it as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX, literal, quote
from dpsql.core.schema import Spellings, Table, base_type, is_decimal, spellings_of
from dpsql.engines.postgresql_reading import rows_of
from dpsql.errors import QueryRefused
from dpsql.sql.dialects import postgresql_types as pg
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.dialects.postgresql_rows import RowExpressions
from dpsql.sql.dialects.postgresql_types import PgValue, double_sql
from dpsql.sql.dialects.verdicts import verdicts_on

_WIDEST: Final = (-(2**127) + 1, 2**127 - 1)  # as DuckDB's, so that the same plans are made
_SMALL: Final = 1e-290
_SECOND_SALT: Final = 2**62


class PostgreSQLDialect(Dialect):
    """PostgreSQL's spelling; checked against DuckDB's by the suite of all engines."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name by which engines ask for it."""
        return "postgresql"

    # -- names and constants ------------------------------------------------------------------

    def quote(self, name: str) -> str:
        """Write ``"name"``; a quote inside is doubled, and nothing else is special."""
        return quote(name)

    def table(self, table: Table) -> str:
        """Select the columns of the schema, each in the one form that values of its type have.

        Texts get the collation "C". NULL are dates and timestamps outside of the years 1 to 9999,
        infinite ones among them, and NaN among decimals: DuckDB has no equal of these.
        """
        return self.derived(rows_of(table))

    def literal(self, value: object) -> str:
        """Write ``'text'``; a quote inside is doubled, and nothing else is special.

        Engines set ``standard_conforming_strings``, without which a backslash were.
        """
        return literal(value)

    def double(self, value: float) -> str:
        """Write a cast of the digits of Python's repr: numbers alone are decimals."""
        return double_sql(value)

    def integer(self, value: int) -> str:
        """Write its digits: what is combined with it has 64 bits, as row numbers have."""
        return str(value)

    def wide_literal(self, value: int) -> str:
        """Write a NUMERIC, which may have as many digits as it likes."""
        return f"CAST({literal(value)} AS NUMERIC)"

    # -- errors on rows -----------------------------------------------------------------------

    def expression(self, tree: exp.Expr, table: Table) -> str:
        """Write the tree with a guard at each operation that could fail."""
        return RowExpressions(table, verdicts_on(self.name)).settled(tree).sql

    def try_(self, node: exp.Expr, table: Table) -> exp.Expr:
        """Leave it as it is: nothing that is written can fail."""
        return node

    def try_truth(self, node: exp.Expr) -> exp.Expr:
        """Cast to BOOLEAN, which is refused for texts."""
        return exp.TryCast(this=node, to=exp.DataType.build("BOOLEAN"))

    def type_of(self, tree: exp.Expr, table: Table) -> str:
        """Name the type that DuckDB gives the expression."""
        return RowExpressions(table, verdicts_on(self.name)).settled(tree.copy()).type

    def try_cast(self, sql: str, type_: str, source: str) -> str:
        """Cast behind a guard, which depends on the type that the value has."""
        if source == "NUMERIC":
            source = "DECIMAL(38,0)"
        if source == type_ and not is_decimal(type_):
            return sql
        found = pg.cast(PgValue(sql, source), type_)
        if found is None:
            raise QueryRefused(
                f"values of type {base_type(source)} cannot be read as {base_type(type_)} in "
                "private rows of a PostgreSQL database",
                code="expression_not_allowed",
                hint="Cast them in the query, or have the owner add a column or view of a number.",
            )
        return found.sql

    def declared(self, value: object, type_: str) -> str:
        """Write a constant of the type, read from its text as DuckDB does."""
        try:
            found = pg.constant(value, type_)
        except KeyError:
            found = None if pg.sql_type(type_) is not None else ""
        if found == "":
            raise QueryRefused(
                f"values of type {base_type(type_)} cannot be declared of a PostgreSQL database",
                code="expression_not_allowed",
                hint="Ask for the groups without declared keys, or have the owner add a column of "
                "another type.",
            )
        return found or f"CAST(NULL AS {pg.sql_type(type_)})"

    def comparison_family(self, type_: str) -> str | None:
        """Name the family of texts, of numbers, or of a single type: none of them is guarded."""
        kind = base_type(type_)
        if kind == "VARCHAR":
            return "text"
        if kind in pg.INTEGERS or kind == "DOUBLE":
            return "number"
        return kind if pg.sql_type(type_) is not None else None

    # -- integers -----------------------------------------------------------------------------

    @property
    def widest(self) -> tuple[int, int]:
        """The range of DuckDB's widest type, which NUMERIC exceeds by far."""
        return _WIDEST

    def integer_type(self, *, wide: bool) -> str:
        """Name NUMERIC, which is exact, or BIGINT."""
        return "NUMERIC" if wide else "BIGINT"

    def cast(self, sql: str, type_: str) -> str:
        """Write ``CAST``, which raises where a value does not fit."""
        wide = type_ == self.integer_type(wide=True)  # with as many digits as it likes
        return f"CAST({sql} AS {type_ if wide else pg.sql_type(type_) or type_})"

    def divided(self, dividend: str, divisor: str, *, wide: bool) -> str:
        """Write ``div``, which truncates, or ``/`` of BIGINTs, which does so too."""
        return f"div({dividend}, {divisor})" if wide else f"({dividend} / {divisor})"

    def remainder(self, dividend: str, divisor: str) -> str:
        """Write ``%``, which has the sign of the dividend."""
        return f"({dividend} % {divisor})"

    def sum(self, sql: str, *, wide: bool) -> str:
        """Write ``sum``, which is a NUMERIC of BIGINTs and of NUMERICs."""
        return f"sum({sql})" if wide else f"sum(CAST({sql} AS BIGINT))"

    def least(self, one: str, other: str) -> str:
        """Write ``least``, which is NULL only if both are."""
        return f"least({one}, {other})"

    def greatest(self, one: str, other: str) -> str:
        """Write ``greatest``, which is NULL only if both are."""
        return f"greatest({one}, {other})"

    # -- floating point -----------------------------------------------------------------------

    def is_nan(self, sql: str) -> str:
        """Compare with NaN, which equals itself; NULL for NULL."""
        return f"({sql} = {pg.NAN})"

    def quotient(self, sql: str, quantum: float) -> str:
        """Write ``/``; by more than one, for what is not so small that nothing could be left."""
        plain = f"({sql} / {double_sql(quantum)})"
        if quantum <= 1:
            return plain
        return f"CASE WHEN abs({sql}) >= {double_sql(_SMALL)} THEN {plain} ELSE {sql} END"

    def rounded(self, sql: str) -> str:
        """Write halves away from zero, as DuckDB rounds: ``round`` takes them to even."""
        return pg.half_away(sql)

    def root(self, sql: str) -> str:
        """Take the root of a DOUBLE, which holds such integers exactly."""
        return f"CAST(floor(sqrt(CAST({sql} AS {pg.DOUBLE}))) AS BIGINT)"

    def divided_by_root(self, dividend: int, sql: str) -> str:
        """Divide DOUBLEs."""
        root = f"sqrt(CAST({sql} AS {pg.DOUBLE}))"
        return f"CAST(floor({double_sql(dividend)} / {root}) AS BIGINT)"

    # -- chance and order ---------------------------------------------------------------------

    def salted_hash(self, salt: int, columns: Sequence[str]) -> str:
        """Hash the hash of a row, each under the salt.

        The hash of a row is a sum of its parts' hashes, each times a power of 31. Sorting by that
        would favour some keys, the same ones for all units; a hash of it does not.
        """
        row = f"hash_record_extended(ROW({', '.join(columns)}), {salt})"
        return f"hashint8extended({row}, {_SECOND_SALT ^ salt})"

    def salted_bits(self, salt: int, columns: Sequence[str]) -> str:
        """Shift the hash, and take away the sign."""
        return f"((({self.salted_hash(salt, columns)}) >> 32) & 4294967295)"

    def one_spelling(self, sql: str, type_: str) -> str:
        """Normalise floats: zero and NaN have several forms."""
        if spellings_of(type_) is not Spellings.FLOATS:
            return sql
        name = pg.sql_type(type_)
        nan = f"CAST('NaN' AS {name})"
        return f"CASE WHEN {sql} = {nan} THEN {nan} ELSE {sql} + CAST(0 AS {name}) END"

    def same(self, one: str, other: str) -> str:
        """Compare hashes first, on which the engine can join; then values, NULLs as equal."""
        hashes = [f"hash_record_extended(ROW({each}), 0)" for each in (one, other)]
        return f"({' = '.join(hashes)} AND {one} IS NOT DISTINCT FROM {other})"

    def ascending(self, sql: str) -> str:
        """Sort by the value itself: texts are of the collation "C", NaN is above all numbers."""
        return f"{sql} NULLS LAST"

    def descending(self, sql: str) -> str:
        """Sort the largest first."""
        return f"{sql} DESC NULLS LAST"

    def position(self, values: Sequence[str], sql: str) -> str:
        """Write CASE, which is NULL where no value is equal."""
        places = " ".join(f"WHEN {value} THEN {place}" for place, value in enumerate(values, 1))
        return f"CAST(CASE {sql} {places} END AS BIGINT)"

    # -- rows ---------------------------------------------------------------------------------

    def derived(self, sql: str, alias: str = "") -> str:
        """Put the statement in brackets; without an alias it gets a digest of its text."""
        digest = hashlib.sha256(sql.encode()).hexdigest()[:12]
        return f"({sql}) AS {alias or quote(f'{INTERNAL_PREFIX}t{digest}')}"

    def to_group(self, rows: str, columns: Sequence[str]) -> str:
        """Sort them, in parallel where the planner likes.

        By itself it takes pairs for ten times fewer than rows at most, and has each worker group
        its own share: in hash tables which then hold nearly all rows, spill, are sorted and grouped
        again. Measured: a third to a half of the time, and 1.4 times as much where a unit has a
        thousand rows in few groups.
        """
        return self.derived(f"SELECT * FROM {rows} ORDER BY {', '.join(columns)}")

    def materialized(self, name: str, sql: str) -> str:
        """Write ``MATERIALIZED``, as the engine computes members twice that are cheap to it."""
        return f"{name} AS MATERIALIZED ({sql})"

    def row_number(self) -> str:
        """Number rows in the order in which they come."""
        return "row_number() OVER ()"

    def numbers(self, count: int, alias: str, column: str) -> str:
        """Write a series of BIGINTs, whose end is in it."""
        return f"generate_series(CAST(1 AS BIGINT), CAST({count} AS BIGINT)) AS {alias}({column})"

    def limited(self, sql: str, rows: int) -> str:
        """Write ``LIMIT``."""
        return f"{sql} LIMIT {rows}"

    def semi_join(self, left: str, right: str, condition: str, *, negated: bool) -> str:
        """Write EXISTS, which the engine makes a join of."""
        found = f"EXISTS (SELECT 1 FROM {right} WHERE {condition})"
        return self.derived(f"SELECT * FROM {left} WHERE {'NOT ' if negated else ''}{found}")

    def pairs(self, one: str, other: str) -> str:
        """Write an array of arrays."""
        return f"array_agg(ARRAY[{one}, {other}])"

    # -- parameters ---------------------------------------------------------------------------

    def parameter(self, position: int) -> str:
        """Write ``$1``: parameters are told apart by their numbers."""
        return f"CAST(${position} AS BIGINT)"

    def among_given(self, sql: str, *, few: bool) -> str:
        """Give the list as one parameter, of type BIGINT[]."""
        given = "CAST($1 AS BIGINT[])"
        return f"{sql} = ANY({given})" if few else f"{sql} IN (SELECT unnest({given}))"


POSTGRESQL: Final = PostgreSQLDialect()
