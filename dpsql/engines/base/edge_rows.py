"""Rows of edge values in an engine's own SQL, on which generated expressions are tried.

An expression is only as sound as its text, on the engine that computes it. So before anything is
paid for, the texts that will be sent are computed by that engine, over tables of constants in place
of the owner's: the edge values of each column's type, and NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql, join, name, sql
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.evidence.edges import trial_edges

_MOST_ROWS: Final = 240
_LEAST_ROWS: Final = 60
_MOST_JOINED: Final = 5000  # rows of joined tables
_MOST_VALUES: Final = 2400  # of a table, so that one of many columns makes no long statement


@cache
def on_edge_rows(dialect: Dialect) -> Dialect:
    """Return a dialect that spells as another does, and reads rows of edge values as any table."""
    kind = type(dialect)

    def table(self: Dialect, table: Table) -> Sql:
        return edge_rows(table, dialect)

    made = type(f"{kind.__name__}OnEdges", (kind,), {"__slots__": (), "table": table})
    found: Dialect = made() if dialect.verdicts is None else made(dialect.verdicts)
    return found


def edge_rows(table: Table, dialect: Dialect) -> Sql:
    """Write rows of edge values with the columns of a table, as they stand in a FROM clause.

    Raises ``QueryRefused`` for a column of a type without constants.
    """
    count = max(_LEAST_ROWS, min(_MOST_ROWS, _MOST_VALUES // max(1, len(table.columns))))
    columns = [_values(c, place, count, dialect) for place, c in enumerate(table.columns)]
    rows = join(", ", (sql("({})", join(", ", row)) for row in zip(*columns, strict=True)))
    names = join(", ", (name(column.name) for column in table.columns))
    alias = name(f"{INTERNAL_PREFIX}edges")
    return dialect.derived(sql("SELECT * FROM (VALUES {}) AS {}({})", rows, alias, names))


def trial_statement(rows: Sql, expressions: Sequence[Sql], dialect: Dialect) -> Sql:
    """Write the statement that computes expressions over every row of edge values.

    What comes of it is a hash, which needs all of their values.
    """
    computed = dialect.salted_hash(0, expressions)
    value = name(f"{INTERNAL_PREFIX}value")
    some = dialect.limited(sql("SELECT {} AS {} FROM {}", computed, value, rows), _MOST_JOINED)
    return sql("SELECT max({value}) AS {value} FROM {}", dialect.derived(some), value=value)


def _values(column: Column, place: int, count: int, dialect: Dialect) -> Sequence[Sql]:
    """Write a column's value at this place: the edge values of its type in turn, and NULL.

    Columns of one type go through them out of step.
    """
    edges = [dialect.declared(edge, column.type) for edge in trial_edges(column.type)]
    edges = list(dict.fromkeys([*edges, dialect.cast(sql("NULL"), column.type)]))
    size = len(edges)
    return [edges[(row + place * (1 + row // size)) % size] for row in range(count)]
