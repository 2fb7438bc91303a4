"""Generated SQL as DuckDB reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import UnsupportedError

from dpsql.core.quoting import literal, quote
from dpsql.core.schema import base_type, is_float, is_huge_integer, is_integer
from dpsql.engines.spelling import one_spelling
from dpsql.errors import QueryRefused
from dpsql.sql.dialects.base import Dialect

_GENERATOR: Final = DuckDB()
_WIDEST: Final = (-(2**127) + 1, 2**127 - 1)
_COMPARED_AS_THEY_ARE: Final = frozenset(
    {"BOOLEAN", "BLOB", "DATE", "DECIMAL", "ENUM", "HUGEINT", "TIME", "TIMESTAMP", "UHUGEINT"}
    | {"TIMESTAMP WITH TIME ZONE", "UUID"}
)


class DuckDBDialect(Dialect):
    """DuckDB's spelling; checked by all tests that run generated SQL."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name by which engines ask for it."""
        return "duckdb"

    # -- names and constants ------------------------------------------------------------------

    def quote(self, name: str) -> str:
        """``"name"``; a quote inside is doubled, and nothing else is special."""
        return quote(name)

    def literal(self, value: object) -> str:
        """``'text'``; a quote inside is doubled, and nothing else is special."""
        return literal(value)

    def double(self, value: float) -> str:
        """The digits of Python's repr. Without an exponent the literal were a DECIMAL."""
        text = repr(float(value))
        return text if "e" in text else f"{text}e0"

    def wide_literal(self, value: int) -> str:
        """A cast of text, as a longer number would be a DOUBLE."""
        return self.cast(self.literal(value), self.integer_type(wide=True))

    # -- errors on rows -----------------------------------------------------------------------

    def expression(self, tree: exp.Expr) -> str:
        """The tree as the parser read it, every name in quotes."""
        generator = _GENERATOR.generator(
            comments=False, identify=True, unsupported_level=ErrorLevel.RAISE
        )
        try:
            return str(generator.generate(tree, copy=False))
        except UnsupportedError:
            pass
        # Raised outside the handler, so that its context quotes nothing.
        raise QueryRefused(
            "an expression over private rows has a part that the engine cannot compute as written",
            code="expression_not_allowed",
        )

    def try_(self, node: exp.Expr) -> exp.Expr:
        """``TRY(…)``, which catches what an expression raises on a row."""
        return exp.Anonymous(this="TRY", expressions=[node])

    def try_truth(self, node: exp.Expr) -> exp.Expr:
        """``TRY_CAST(… AS BOOLEAN)``."""
        return exp.TryCast(this=node, to=exp.DataType.build("BOOLEAN"))

    def try_cast(self, sql: str, type_: str) -> str:
        """``TRY_CAST``, which rounds to even."""
        return f"TRY_CAST({sql} AS {type_})"

    def comparison_family(self, type_: str) -> str | None:
        """Text; machine integers and floats, which are compared as what they are; single types."""
        kind = base_type(type_)
        if kind == "VARCHAR":
            return "text"
        # HUGEINT and DECIMAL are cast to a common decimal, which can overflow.
        if (is_integer(kind) and not is_huge_integer(kind)) or is_float(kind):
            return "number"
        return type_ if kind in _COMPARED_AS_THEY_ARE else None

    # -- integers -----------------------------------------------------------------------------

    @property
    def widest(self) -> tuple[int, int]:
        """HUGEINT without its minimum, short of which the engine's products stop."""
        return _WIDEST

    def integer_type(self, *, wide: bool) -> str:
        """HUGEINT has 128 bits."""
        return "HUGEINT" if wide else "BIGINT"

    def cast(self, sql: str, type_: str) -> str:
        """``CAST``, which raises where a value does not fit."""
        return f"CAST({sql} AS {type_})"

    def divided(self, dividend: str, divisor: str) -> str:
        """``//`` truncates integers of every width."""
        return f"({dividend} // {divisor})"

    def remainder(self, dividend: str, divisor: str) -> str:
        """``%`` has the sign of the dividend."""
        return f"({dividend} % {divisor})"

    def sum(self, sql: str) -> str:
        """The sum of any integers is a HUGEINT."""
        return f"sum({sql})"

    def least(self, one: str, other: str) -> str:
        """NULL only if both are."""
        return f"least({one}, {other})"

    def greatest(self, one: str, other: str) -> str:
        """NULL only if both are."""
        return f"greatest({one}, {other})"

    # -- floating point -----------------------------------------------------------------------

    def is_nan(self, sql: str) -> str:
        """NULL for NULL."""
        return f"isnan({sql})"

    def rounded(self, sql: str) -> str:
        """Halves are rounded away from zero."""
        return f"round({sql})"

    def root(self, sql: str) -> str:
        """The root of a DOUBLE, which holds such integers exactly."""
        return self.cast(f"floor(sqrt({sql}))", "BIGINT")

    def divided_by_root(self, dividend: int, sql: str) -> str:
        """``/`` is division of DOUBLEs, whatever the operands."""
        return self.cast(f"floor({dividend} / sqrt({sql}))", "BIGINT")

    # -- chance and order ---------------------------------------------------------------------

    def salted_hash(self, salt: int, columns: Sequence[str]) -> str:
        """A hash of a hash.

        DuckDB's hash of several values is the exclusive or of hashes of each. Sorting by that would
        favour some keys, the same ones for all units and every salt; a hash of it does not.
        """
        return f"hash(hash({', '.join([str(salt), *columns])}))"

    def salted_bits(self, salt: int, columns: Sequence[str]) -> str:
        """The hash is unsigned."""
        return self.cast(f"{self.salted_hash(salt, columns)} >> 32", "BIGINT")

    def one_spelling(self, sql: str, type_: str) -> str:
        """Floats and intervals; texts of a collation are not among the schema's columns."""
        return one_spelling(sql, type_)

    def same(self, one: str, other: str) -> str:
        """A join on it is a hash join."""
        return f"{one} IS NOT DISTINCT FROM {other}"

    def ascending(self, sql: str) -> str:
        """By the bytes of texts, NULLs last, NaN above all numbers."""
        return sql

    def descending(self, sql: str) -> str:
        """The largest first."""
        return f"{sql} DESC"

    def position(self, values: Sequence[str], sql: str) -> str:
        """NULL where the list does not hold the value."""
        return f"list_position([{', '.join(values)}], {sql})"

    # -- rows ---------------------------------------------------------------------------------

    def derived(self, sql: str, alias: str = "") -> str:
        """In brackets; an alias may be left out."""
        return f"({sql}) {alias}" if alias else f"({sql})"

    def materialized(self, name: str, sql: str) -> str:
        """Said explicitly, as the engine would decide for itself."""
        return f"{name} AS MATERIALIZED ({sql})"

    def row_number(self) -> str:
        """In the order in which rows come, which the engine keeps."""
        return "row_number() OVER ()"

    def numbers(self, count: int, alias: str, column: str) -> str:
        """A range, whose end is not in it."""
        return f"range(1, {count + 1}) AS {alias}({column})"

    def limited(self, sql: str, rows: int) -> str:
        """``LIMIT``."""
        return f"{sql} LIMIT {rows}"

    def semi_join(self, left: str, right: str, condition: str, *, negated: bool) -> str:
        """Joins of their own, after which more joins may follow."""
        return f"{left} {'ANTI' if negated else 'SEMI'} JOIN {right} ON ({condition})"

    def pairs(self, one: str, other: str) -> str:
        """A list of lists."""
        return f"list([{one}, {other}])"

    # -- parameters ---------------------------------------------------------------------------

    def parameter(self, position: int) -> str:
        """By their order in the text."""
        return "?"

    def among_given(self, sql: str, *, few: bool) -> str:
        """A list of BIGINT is one parameter."""
        if few:
            return f"list_contains(?::BIGINT[], {sql})"
        return f"{sql} IN (SELECT unnest(?::BIGINT[]))"


DUCKDB: Final = DuckDBDialect()
