"""What finds every error of a query that can be found where there are no rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dpsql.core.quoting import quote
from dpsql.core.schema import Column, Table
from dpsql.errors import Place, QueryRefused
from dpsql.ir.plan import PreparedBlock
from dpsql.ir.query import Query

_SHOWN = 300  # characters of a reason, which may quote a long constant


def check_sql(
    query: Query, blocks: Sequence[PreparedBlock], published: Sequence[Table] = ()
) -> str:
    """Write the tail over its blocks' statements, with NULL for what noise would fill in.

    ``published`` are tables that the catalog may not have: it has those with a schema in front. The
    result has the answer's columns.
    """
    return _over(query, [*_stand_ins(published), *(_released(block) for block in blocks)])


def tail_sql(query: Query, blocks: Sequence[PreparedBlock], stand_ins: Sequence[Table] = ()) -> str:
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


def text_is_read(text: str, type_: str, literals: Sequence[str]) -> QueryRefused:
    """Build the error for a released text that is compared with a value of ``type_``."""
    return QueryRefused(
        f"a text is compared with a value of type {type_}",
        code="text_compared",
        place=next((place for each in literals if (place := _place(text, each))), None),
        hint="Write the value as a text ('…'), or read values from the text: "
        f"TRY_CAST(… AS {type_}) is NULL where it is none.",
    )


def _place(text: str, constant: str) -> Place | None:
    found = list(re.finditer(rf"(?<![\w.]){re.escape(constant)}(?![\w.])", text))
    return Place.in_text(text, *found[0].span()) if len(found) == 1 else None


def _over(query: Query, tables: Sequence[str]) -> str:
    """Write the tail as a whole statement over these definitions of the released tables."""
    ctes = f"WITH {', '.join(tables)} " if tables else ""
    return f"{ctes}SELECT * FROM ({query.tail})"


def _released(block: PreparedBlock) -> str:
    # Keys of a declared domain are positions in the statement; their type is the column's.
    computed = 0 if block.plan.declared else len(block.keys)
    selected = [
        quote(column.name) if index < computed else _typed_null(column)
        for index, column in enumerate(block.released_columns)
    ]
    return f"{quote(block.name)} AS (SELECT {', '.join(selected)} FROM ({block.statement}))"


def _stand_ins(tables: Sequence[Table]) -> Iterator[str]:
    return (_stand_in(table) for table in tables if not needs_catalog(table))


def _stand_in(table: Table) -> str:
    return f"{quote(table.name.table)} AS (SELECT {_typed_nulls(table.columns)})"


def _typed(block: PreparedBlock) -> str:
    return f"{quote(block.name)} AS (SELECT {_typed_nulls(block.released_columns)})"


def _typed_nulls(columns: Sequence[Column]) -> str:
    return ", ".join(map(_typed_null, columns))


def _typed_null(column: Column) -> str:
    return f"CAST(NULL AS {column.type}) AS {quote(column.name)}"
