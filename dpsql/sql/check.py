"""One statement that finds every type error of a query, to be bound where there are no rows."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.plan import BlockPlan
from dpsql.query import Query
from dpsql.quoting import quote
from dpsql.schema import Column


def check_sql(
    query: Query,
    plans: Sequence[BlockPlan],
    statements: Sequence[str],
    released: Sequence[Sequence[Column]],
) -> str:
    """The tail over its blocks' generated statements, with NULL for what noise would fill in.

    ``released`` are the columns of the released tables. The result has the answer's columns.
    """
    sources = [
        _released(plan, statement, columns)
        for plan, statement, columns in zip(plans, statements, released, strict=True)
    ]
    return f"WITH {', '.join(sources)} SELECT * FROM ({query.tail})"


def _released(plan: BlockPlan, statement: str, columns: Sequence[Column]) -> str:
    # Keys of a declared domain are positions in the statement; their type is the column's.
    computed = 0 if plan.declared else len(plan.block.keys)
    selected = [
        quote(column.name)
        if index < computed
        else f"CAST(NULL AS {column.type}) AS {quote(column.name)}"
        for index, column in enumerate(columns)
    ]
    return f"{quote(plan.block.name)} AS (SELECT {', '.join(selected)} FROM ({statement}))"
