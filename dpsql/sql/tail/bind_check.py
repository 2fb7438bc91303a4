"""Binding of a tail without rows, to find every error that does not depend on rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.errors import Place, QueryRefused
from dpsql.ir.plan import PreparedBlock
from dpsql.ir.query import Query

_SHOWN = 300  # characters of a reason, which may quote a long constant


def tail_sql(query: Query, blocks: Sequence[PreparedBlock], stand_ins: Sequence[Table] = ()) -> Sql:
    """Write the tail over nothing but the types of released tables: to be planned, never run.

    Of ``stand_ins``, tables that must not be there, too, it has no more than the types. A table
    with a schema in front (``needs_catalog``) has none: an empty one must be there.
    """
    return _over(query, [*_stand_ins(stand_ins), *(_typed(block) for block in blocks)])


def needs_catalog(table: Table) -> bool:
    """Tell whether nothing but a table answers a name: one with a schema is no name of a CTE."""
    return not table.name.in_main


def constant_fails(text: str, reason: str, literals: Sequence[str]) -> QueryRefused:
    """Build the error for a part of a tail that fails whatever is released, for ``reason``.

    ``literals`` are the constants in it: the first that is once in the text is the error's place.
    """
    short = reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]} …"
    return QueryRefused(
        f"a part of the query can never be computed: {short}",
        code="constant_fails",
        place=next((place for each in literals if (place := _place(text, each))), None),
        hint="Write a constant of the type that is needed there; TRY_CAST and TRY give NULL where "
        "others fail.",
    )


def text_is_read(text: str, read_as: str, literals: Sequence[str]) -> QueryRefused:
    """Build the error for a released text that is compared with a value of a type."""
    return QueryRefused(
        f"a text is compared with a value of type {read_as}",
        code="text_compared",
        place=next((place for each in literals if (place := _place(text, each))), None),
        hint="Write the value as a text ('…'), or read values from the text: "
        f"TRY_CAST(… AS {read_as}) is NULL where it is none.",
    )


def _place(text: str, constant: str) -> Place | None:
    found = list(re.finditer(rf"(?<![\w.]){re.escape(constant)}(?![\w.])", text))
    return Place.in_text(text, *found[0].span()) if len(found) == 1 else None


def _over(query: Query, tables: Sequence[Sql]) -> Sql:
    """Write the tail as a whole statement over these definitions of the released tables."""
    whole = sql("SELECT * FROM ({})", query.tail_sql)
    return sql("WITH {} {}", join(", ", tables), whole) if tables else whole


def _stand_ins(tables: Sequence[Table]) -> Iterator[Sql]:
    return (_stand_in(table) for table in tables if not needs_catalog(table))


def _stand_in(table: Table) -> Sql:
    return sql("{} AS (SELECT {})", quoted(table.name.table), _typed_nulls(table.columns))


def _typed(block: PreparedBlock) -> Sql:
    return sql("{} AS (SELECT {})", quoted(block.name), _typed_nulls(block.released_columns))


def _typed_nulls(columns: Sequence[Column]) -> Sql:
    return join(", ", map(_typed_null, columns))


def _typed_null(column: Column) -> Sql:
    return sql("CAST(NULL AS {}) AS {}", column.type.sql, quoted(column.name))
