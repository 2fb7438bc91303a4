"""One spelling of values that DuckDB holds equal: what it hands out, and what it groups again."""

from __future__ import annotations

from dpsql.core.schema import Spellings, base_type, spellings_of


def one_spelling(sql: str, type_text: str) -> str:
    """Write one spelling of all values that DuckDB groups as equal to the value of ``sql``."""
    match spellings_of(type_text):
        case Spellings.FLOATS:
            nan = f"CAST('NaN' AS {base_type(type_text)})"
            return f"CASE WHEN isnan({sql}) THEN {nan} ELSE {sql} + 0 END"
        case Spellings.DURATIONS:
            return f"normalized_interval({sql})"
    return sql
