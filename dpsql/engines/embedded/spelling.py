"""How DuckDB's SQL is written, and one spelling of values that DuckDB holds equal."""

from __future__ import annotations

from typing import Final

from dpsql.core.quoting import Quoted, quote_text
from dpsql.core.sql import Sql, SqlRenderer, sql
from dpsql.core.sql_types import Spellings, SqlType
from dpsql.engines.embedded.versions import INSTALLED


class _EndedByZero(Quoted):
    """The renderer of versions that read a statement up to the first character of code 0."""

    def text(self, value: str) -> str:
        """Write a string literal, or what puts it together."""
        parts = value.split("\0")
        written = " || chr(0) || ".join(map(quote_text, parts))
        return written if len(parts) == 1 else f"({written})"


DUCKDB_TEXT: Final[SqlRenderer] = _EndedByZero() if INSTALLED.ended_by_zero else Quoted()
"""How SQL is written that DuckDB reads: the only place where names and literals become its text."""


def one_spelling(value: Sql, type_: SqlType) -> Sql:
    """Write one spelling for all values that DuckDB groups as equal."""
    match type_.spellings:
        case Spellings.FLOATS:
            nan = sql("CAST('NaN' AS {})", SqlType.of(type_.kind).sql)
            return sql(
                "CASE WHEN isnan({value}) THEN {nan} ELSE {value} + 0 END", value=value, nan=nan
            )
        case Spellings.DURATIONS:
            return sql("normalized_interval({})", value)
    return value
