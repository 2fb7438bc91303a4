"""Generated SQL as Spark 4 reads it, in a session of dpsql's own.

Its settings are those of :mod:`dpsql.engines.spark.engine`: ANSI arithmetic, UTC, texts compared by
their bytes, backslashes as escapes, no variables in texts. Tables are views of that session, one
for each table of the owner's; what a statement is given is a view too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql import Sql, digits, join, literal, name, sql, written_as
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.row_types import MOST_DIGITS, TypedValue
from dpsql.engines.base.server_dialect import ServerDialect
from dpsql.engines.spark.casts import SPARK_REFUSED, cast_of, spark_cast, spark_type
from dpsql.engines.spark.expressions import SPARK_ROWS
from dpsql.engines.spark.text import SPARK_GIVEN, SPARK_TEXT, view_of

_COMPARED_AS_THEY_ARE: Final = frozenset({"BOOLEAN", "DATE", "TIMESTAMP"})


class SparkDialect(ServerDialect):
    """Spark's spelling; Databricks' is the same."""

    __slots__ = ()
    name = "spark"
    renderer = SPARK_TEXT
    rows = SPARK_ROWS
    # Integers of 32 digits, which a DECIMAL of 38 holds when it is divided, too: quotients of
    # decimals have 32 digits before the point.
    widest = (-(10**32) + 1, 10**32 - 1)
    wide_type = SqlType.decimal(38, 0)
    keeps_stages = False  # the last reading does not know all statements over stored pairs

    # -- names and constants ------------------------------------------------------------------

    def table(self, table: Table) -> Sql:
        """Write the name of the table's view, told apart by a digest of its key."""
        return name(view_of(table.name))

    def double(self, value: float) -> Sql:
        """Write the digits of Python's repr, and ``D``: without it they were a DECIMAL."""
        return sql("{}D", digits(float(value)))

    def integer(self, value: int) -> Sql:
        """Write it as a BIGINT: of two that fit 32 bits the product need not."""
        return sql("{}L", digits(value))

    # -- errors on rows -----------------------------------------------------------------------

    def try_(self, node: exp.Expr, table: Table) -> exp.Expr:
        """Wrap the expression in TRY: its operations are written as NULL on failure."""
        return exp.Anonymous(this="TRY", expressions=[node])

    def try_cast(self, value: Sql, type_: SqlType, source: SqlType) -> Sql:
        """Write ``try_cast`` after rounding, as ``try_cast`` truncates.

        A DECIMAL gets all digits there are: a sum of decimals has ten more than they, and no row
        may make it overflow.
        """
        found = cast_of(TypedValue(value, source), type_)
        if found is None:
            raise SPARK_REFUSED(f"a cast of {source} to {type_}", "it has no equal there")
        if not type_.is_decimal:
            return found
        return sql("CAST({} AS DECIMAL({},{}))", found, MOST_DIGITS, type_.digits[1])

    def declared(self, value: object, type_: SqlType) -> Sql:
        """Write a ``try_cast`` of the text, or of the number in it."""
        text = literal(value)
        if type_.kind == "VARCHAR":
            return text
        return sql("try_cast({} AS {})", text, spark_type(type_))

    def comparison_family(self, type_: SqlType) -> str | None:
        """Name the family of texts, of machine integers and DOUBLE, or of a single type."""
        if type_.kind == "VARCHAR":
            return "text"
        if type_.is_integer or type_.is_float:
            return "number"
        return type_.text if type_.kind in _COMPARED_AS_THEY_ARE else None

    # -- integers -----------------------------------------------------------------------------

    def cast(self, value: Sql, type_: SqlType) -> Sql:
        """Write ``CAST``, which raises where a value does not fit."""
        return spark_cast(value, type_)

    def divided(self, dividend: Sql, divisor: Sql, *, wide: bool) -> Sql:
        """Write ``div`` for 64 bits; for decimals, divide what leaves no remainder.

        ``div`` of decimals is a BIGINT, and ``/`` rounds.
        """
        if not wide:
            return sql("({} div {})", dividend, divisor)
        exact = sql(
            "({dividend} - ({dividend} % {divisor})) / {divisor}",
            dividend=dividend,
            divisor=divisor,
        )
        return sql("CAST({} AS DECIMAL(38,0))", exact)

    def sum(self, value: Sql, *, wide: bool, distinct: bool = False) -> Sql:
        """Sum decimals: a sum of BIGINTs would be one, and overflow."""
        value = value if wide else sql("CAST({} AS DECIMAL(38,0))", value)
        return sql("sum(DISTINCT {})", value) if distinct else sql("sum({})", value)

    # -- floating point -----------------------------------------------------------------------

    is_nan = written_as("({value} = double('NaN'))")  # which equals itself; isnan is false for NULL

    def quotient(self, value: Sql, quantum: float) -> Sql:
        """Write ``/`` of DOUBLEs: a quotient that is too small is 0."""
        return sql("{} / {}", value, self.double(quantum))

    rounded = written_as("round({value})")  # halves away from zero

    root = written_as("CAST(floor(sqrt({value})) AS BIGINT)")  # a DOUBLE holds such integers

    def divided_by_root(self, dividend: int, value: Sql) -> Sql:
        """Divide DOUBLEs; ``floor`` of one is a BIGINT."""
        return sql("CAST(floor({} / sqrt({})) AS BIGINT)", self.double(dividend), value)

    # -- chance and order ---------------------------------------------------------------------

    def salted_hash(self, salt: int, columns: Sequence[Sql]) -> Sql:
        """Hash the salt, the columns, and their NULL marks, as ``xxhash64`` skips NULL.

        Each value is hashed with the hash of those before as its seed.
        """
        marks = [sql("isnull({})", column) for column in columns]
        return sql("xxhash64({})", join(", ", [self.integer(salt), *columns, *marks]))

    def salted_bits(self, salt: int, columns: Sequence[Sql]) -> Sql:
        """Shift the hash without its sign."""
        return sql("shiftrightunsigned({}, 32)", self.salted_hash(salt, columns))

    def one_spelling(self, value: Sql, type_: SqlType) -> Sql:
        """Normalise floats; views have no columns with texts of another collation."""
        if not type_.is_float:
            return value
        return sql("CASE WHEN {} THEN double('NaN') ELSE {} + 0.0D END", self.is_nan(value), value)

    same = written_as("{one} <=> {other}")  # a join on it is a hash join

    ascending = written_as("{value} NULLS LAST")  # by the bytes of texts, as in DuckDB

    def position(self, values: Sequence[Sql], value: Sql) -> Sql:
        """Write a CASE, which is NULL where no value is the same."""
        if not values:
            return sql("CAST(NULL AS BIGINT)")
        found = (sql("WHEN {} THEN {}L", each, place) for place, each in enumerate(values, 1))
        return sql("CASE {} {} END", value, join(" ", found))

    # -- rows ---------------------------------------------------------------------------------

    # Spark computes a member of WITH as often as it is read: a cost, no more. Nothing in it is of
    # chance or of the order of rows, and row numbers stand outside. What it reads lies still:
    # stored rows, and a copy of a table or the owner's word for it (dpsql.engines.spark.engine).
    materialized = written_as("{name} AS ({statement})")

    row_number = written_as("monotonically_increasing_id() + 1")  # by partition, in their order

    # row_number and rank have 32 bits, which a unit's rows may exceed.
    numbered_within = written_as("count(*) OVER ({window} ROWS UNBOUNDED PRECEDING)")
    ranked_within = written_as(
        "count(*) OVER ({window}) - "
        "count(*) OVER ({window} RANGE BETWEEN CURRENT ROW AND CURRENT ROW) + 1"
    )

    def numbers(self, count: int, alias: Sql, column: Sql) -> Sql:
        """Write a range from 1; its end is exclusive."""
        return sql("range(1, {}) AS {}({})", count + 1, alias, column)

    def semi_join(self, left: Sql, right: Sql, condition: Sql, *, negated: bool) -> Sql:
        """Write joins of the engine's own, after which more joins may follow."""
        word = sql("ANTI") if negated else sql("SEMI")
        return sql("{} LEFT {} JOIN {} ON ({})", left, word, right, condition)

    pairs = written_as("collect_list(array({one}, {other}))")

    # -- parameters ---------------------------------------------------------------------------

    def among_given(self, value: Sql, *, few: bool) -> Sql:
        """Write a test against the view of given values."""
        return sql("{} IN (SELECT id FROM {})", value, name(SPARK_GIVEN))
