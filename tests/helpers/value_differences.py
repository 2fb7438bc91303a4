"""The table of values that differ between engines, as docs/engines/README.md has it.

Each entry is an expression of a column ``a``, its type, a value of it, and what DuckDB, PostgreSQL
and Spark make of it there, as each writes it; None is NULL.
"""

from __future__ import annotations

from typing import Final

DIFFERENCES: Final[tuple[tuple[str, str, str, str | None, str | None, str | None], ...]] = (
    ("CAST(a AS INTEGER)", "VARCHAR", "1_000", "1000", None, None),
    ("CAST(a AS INTEGER)", "VARCHAR", "0x1F", "31", None, None),
    ("CAST(a AS DOUBLE)", "VARCHAR", "1_000", "1000.0", None, None),
    (
        "a + INTERVAL 1 day",
        "DATE",
        "9999-12-31",
        "10000-01-01 00:00:00",
        None,
        "+10000-01-01 00:00:00",
    ),
    (
        "a + INTERVAL 1 month",
        "TIMESTAMP",
        "9999-12-31 23:59:59",
        "10000-01-31 23:59:59",
        None,
        "+10000-01-31 23:59:59",
    ),
)
SAME: Final = (
    ("CAST(a AS INTEGER)", "VARCHAR", "1e3", "1000"),
    ("CAST(a AS DOUBLE)", "VARCHAR", " 5 ", "5.0"),
    ("a + INTERVAL 1 day", "DATE", "2024-02-29", "2024-03-01 00:00:00"),
)
"""Beside them, values that do not differ: so that NULL is not all that there is."""
