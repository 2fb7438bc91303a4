"""Generated SQL as Spark 4 reads it, in a session of dpsql's own.

Its settings are those of :mod:`dpsql.engines.spark`: ANSI arithmetic, UTC, texts compared by their
bytes, backslashes as escapes, no variables in texts. Tables are views of that session, one for each
table of the owner's; what a statement is given is a view too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Table, base_type, is_decimal, is_float, is_integer
from dpsql.engines.spark_text import SPARK_GIVEN, spark_quote, view_of
from dpsql.sql.dialects import spark_values
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.dialects.spark_casts import cast_of
from dpsql.sql.dialects.spark_expressions import translated
from dpsql.sql.dialects.spark_values import SPARK_DIGITS, SparkValue, decimal_of, spark_spelling

# Quotients of decimals have 32 digits before the point: nothing beyond them is ever divided.
_WIDEST: Final = (-(10**32) + 1, 10**32 - 1)
_WIDE: Final = "DECIMAL(38,0)"
_COMPARED_AS_THEY_ARE: Final = frozenset({"BOOLEAN", "DATE", "TIMESTAMP"})


class SparkDialect(Dialect):
    """Spark's spelling; Databricks' is the same."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name by which engines ask for it."""
        return "spark"

    # -- names and constants ------------------------------------------------------------------

    def quote(self, name: str) -> str:
        """Write a name in backticks; one inside is doubled, and nothing else is special."""
        return spark_quote(name)

    def table(self, table: Table) -> str:
        """Write the name of the table's view, told apart by a digest of its key."""
        return self.quote(view_of(table.name))

    def literal(self, value: object) -> str:
        """Write ``'text'``; quotes and backslashes inside follow a backslash."""
        return spark_values.spark_literal(value)

    def double(self, value: float) -> str:
        """Write the digits of Python's repr, and ``D``: without it they were a DECIMAL."""
        return spark_values.double(float(value))

    def integer(self, value: int) -> str:
        """Write it as a BIGINT: of two that fit 32 bits the product need not."""
        return f"{value}L"

    def wide_literal(self, value: int) -> str:
        """Write a cast of text."""
        return self.cast(self.literal(value), self.integer_type(wide=True))

    # -- errors on rows -----------------------------------------------------------------------

    def expression(self, tree: exp.Expr, table: Table) -> str:
        """Write the tree value by value, by the types of the columns."""
        return translated(tree, table).sql

    def try_(self, node: exp.Expr, table: Table) -> exp.Expr:
        """Wrap the expression: every operation is written as one that is NULL where it fails."""
        return exp.Anonymous(this="TRY", expressions=[node])

    def try_truth(self, node: exp.Expr) -> exp.Expr:
        """Cast the expression to BOOLEAN, where that is known of its type."""
        return exp.TryCast(this=node, to=exp.DataType.build("BOOLEAN"))

    def type_of(self, tree: exp.Expr, table: Table) -> str:
        """Name the type that DuckDB has for it."""
        return translated(tree, table).type

    def try_cast(self, sql: str, type_: str, source: str) -> str:
        """Write ``try_cast`` of what is rounded before, as it truncates.

        A DECIMAL gets all digits there are: a sum of decimals has ten more than they, and no row
        may make it overflow.
        """
        value = SparkValue(sql, source)
        if is_decimal(type_):
            digits = f"DECIMAL({SPARK_DIGITS},{decimal_of(type_)[1]})"
            return f"CAST({cast_of(value, type_)} AS {digits})"
        return cast_of(value, type_)

    def declared(self, value: object, type_: str) -> str:
        """Write a ``try_cast`` of the text, or of the number in it."""
        text = self.literal(value)
        return (
            text
            if base_type(type_) == "VARCHAR"
            else f"try_cast({text} AS {spark_spelling(type_)})"
        )

    def comparison_family(self, type_: str) -> str | None:
        """Name the family of texts, of machine integers and DOUBLE, or of a single type."""
        kind = base_type(type_)
        if kind == "VARCHAR":
            return "text"
        if is_integer(kind) or is_float(kind):
            return "number"
        return type_ if kind in _COMPARED_AS_THEY_ARE else None

    # -- integers -----------------------------------------------------------------------------

    @property
    def widest(self) -> tuple[int, int]:
        """The integers of 32 digits, which a decimal of 38 holds when it is divided, too."""
        return _WIDEST

    def integer_type(self, *, wide: bool) -> str:
        """Name DECIMAL(38,0), or BIGINT."""
        return _WIDE if wide else "BIGINT"

    def cast(self, sql: str, type_: str) -> str:
        """Write ``CAST``, which raises where a value does not fit."""
        return f"CAST({sql} AS {spark_spelling(type_)})"

    def divided(self, dividend: str, divisor: str, *, wide: bool) -> str:
        """Write ``div`` for 64 bits; for decimals, divide what leaves no remainder.

        ``div`` of decimals is a BIGINT, and ``/`` rounds.
        """
        if not wide:
            return f"({dividend} div {divisor})"
        exact = f"({dividend} - ({dividend} % {divisor})) / {divisor}"
        return f"CAST({exact} AS {_WIDE})"

    def remainder(self, dividend: str, divisor: str) -> str:
        """Write ``%``, which has the sign of the dividend."""
        return f"({dividend} % {divisor})"

    def sum(self, sql: str, *, wide: bool) -> str:
        """Sum decimals: a sum of BIGINTs would be one, and overflow."""
        return f"sum({sql})" if wide else f"sum(CAST({sql} AS {_WIDE}))"

    def least(self, one: str, other: str) -> str:
        """Write ``least``, which is NULL only if both are."""
        return f"least({one}, {other})"

    def greatest(self, one: str, other: str) -> str:
        """Write ``greatest``, which is NULL only if both are."""
        return f"greatest({one}, {other})"

    # -- floating point -----------------------------------------------------------------------

    def is_nan(self, sql: str) -> str:
        """Compare with NaN, which equals itself: ``isnan`` is false for NULL."""
        return f"({sql} = double('NaN'))"

    def quotient(self, sql: str, quantum: float) -> str:
        """Write ``/`` of DOUBLEs: a quotient that is too small is 0."""
        return f"{sql} / {self.double(quantum)}"

    def rounded(self, sql: str) -> str:
        """Write ``round``, which rounds halves away from zero."""
        return f"round({sql})"

    def root(self, sql: str) -> str:
        """Take the root of a DOUBLE, which holds such integers exactly."""
        return f"CAST(floor(sqrt({sql})) AS BIGINT)"

    def divided_by_root(self, dividend: int, sql: str) -> str:
        """Divide DOUBLEs; ``floor`` of one is a BIGINT."""
        return f"CAST(floor({self.double(dividend)} / sqrt({sql})) AS BIGINT)"

    # -- chance and order ---------------------------------------------------------------------

    def salted_hash(self, salt: int, columns: Sequence[str]) -> str:
        """Hash the salt, the columns, and which of them are NULL: ``xxhash64`` skips those.

        Each value is hashed with the hash of those before as its seed.
        """
        marks = [f"isnull({column})" for column in columns]
        return f"xxhash64({', '.join([f'{salt}L', *columns, *marks])})"

    def salted_bits(self, salt: int, columns: Sequence[str]) -> str:
        """Shift the hash without its sign."""
        return f"shiftrightunsigned({self.salted_hash(salt, columns)}, 32)"

    def one_spelling(self, sql: str, type_: str) -> str:
        """Normalise floats; views have no columns with texts of another collation."""
        if not is_float(type_):
            return sql
        return f"CASE WHEN {self.is_nan(sql)} THEN double('NaN') ELSE {sql} + 0.0D END"

    def same(self, one: str, other: str) -> str:
        """Write ``<=>``; a join on it is a hash join."""
        return f"{one} <=> {other}"

    def ascending(self, sql: str) -> str:
        """Sort by the value, by the bytes of texts, NULLs last as in DuckDB."""
        return f"{sql} NULLS LAST"

    def descending(self, sql: str) -> str:
        """Sort the largest first."""
        return f"{sql} DESC"

    def position(self, values: Sequence[str], sql: str) -> str:
        """Write a CASE, which is NULL where no value is the same."""
        places = " ".join(f"WHEN {value} THEN {place}L" for place, value in enumerate(values, 1))
        return f"CASE {sql} {places} END" if values else "CAST(NULL AS BIGINT)"

    # -- rows ---------------------------------------------------------------------------------

    def derived(self, sql: str, alias: str = "") -> str:
        """Put the statement in brackets; an alias may be left out."""
        return f"({sql}) {alias}" if alias else f"({sql})"

    def materialized(self, name: str, sql: str) -> str:
        """Write a member of WITH, which Spark computes as often as it is read: a cost, no more.

        Nothing in it is of chance or of the order of rows, and row numbers stand outside. What it
        reads lies still: stored rows, and a copy of a table or the owner's word for it
        (:class:`dpsql.engines.spark.SparkScratch`).
        """
        return f"{name} AS ({sql})"

    def row_number(self) -> str:
        """Number rows by partition: distinct, ascending in the order of a result."""
        return "monotonically_increasing_id() + 1"

    def numbers(self, count: int, alias: str, column: str) -> str:
        """Write a range, whose end is not in it."""
        return f"range(1, {count + 1}) AS {alias}({column})"

    def limited(self, sql: str, rows: int) -> str:
        """Write ``LIMIT``."""
        return f"{sql} LIMIT {rows}"

    def semi_join(self, left: str, right: str, condition: str, *, negated: bool) -> str:
        """Write joins of the engine's own, after which more joins may follow."""
        return f"{left} LEFT {'ANTI' if negated else 'SEMI'} JOIN {right} ON ({condition})"

    def pairs(self, one: str, other: str) -> str:
        """Write a list of lists."""
        return f"collect_list(array({one}, {other}))"

    # -- parameters ---------------------------------------------------------------------------

    def parameter(self, position: int) -> str:
        """Write ``?``: parameters are told apart by their order in the text."""
        return "?"

    def among_given(self, sql: str, *, few: bool) -> str:
        """Look it up in the view of what is given."""
        return f"{sql} IN (SELECT id FROM {self.quote(SPARK_GIVEN)})"


SPARK: Final = SparkDialect()
