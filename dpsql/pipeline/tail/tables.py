"""Released rows as tables that a post-processing query reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from dpsql.core.quoting import ROW_ID
from dpsql.core.schema import Column
from dpsql.core.sql import Sql, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BIGINT
from dpsql.engines.base.engine import ArrowStream
from dpsql.engines.embedded.running import execute
from dpsql.ir.query import Block
from dpsql.kinds.released import ReleasedBlock
from dpsql.pipeline.tail.rooms import Stay
from dpsql.results.rows import unnest

_ID: Final = quoted(ROW_ID)


@dataclass(frozen=True, slots=True)
class ReleasedTable:
    """A released table as a common table expression, with its query parameters."""

    name: Sql
    sql: Sql
    parameters: list[list[object]]


def released_lists(released: ReleasedBlock) -> list[list[Any]]:
    """Return released columns as lists, in the order of the release, never of the engine."""
    block, rows = released.block, released.rows
    values: list[list[Any]] = [column.tolist() for column in rows.values.values()]
    if rows.keys is None:
        return [*_domain_lists(block.plan.block, block.keys, rows.row_ids.tolist()), *values]
    assert isinstance(rows.keys, dict)
    key_lists = [rows.keys[column.name].tolist() for column in block.keys]
    return _sorted_lists(key_lists, values, rows.count)


def _domain_lists(
    block: Block, keys: Sequence[Column], positions: Sequence[int]
) -> list[list[Any]]:
    """Return the declared keys of these groups, as values of the columns' (plain) types."""
    texts = [column.type.is_text for column in keys]
    domains = [
        [str(v) if text and v is not None else v for v in key.domain or ()]
        for key, text in zip(block.keys, texts, strict=True)
    ]
    groups = list(product(*domains))
    chosen = [groups[position] for position in positions]
    return [[group[i] for group in chosen] for i in range(len(keys))]


def released_table(released: ReleasedBlock) -> ReleasedTable:
    """Write a small release as a common table expression over lists of values."""
    block, columns = released.block, released.block.released_columns
    if released.rows.keys is None:
        values: list[list[Any]] = [column.tolist() for column in released.rows.values.values()]
        lists = [released.rows.row_ids.tolist(), *values]
        drawn = columns[len(block.keys) :]
        unnested = [_ID, *(quoted(column.name) for column in drawn)]
        types = [BIGINT, *(column.type for column in drawn)]
        selected = [*_domain_keys(block.plan.block, block.keys, _ID), *unnested[1:]]
        rows = sql("SELECT {} FROM ({})", join(", ", selected), unnest(unnested, types))
    else:
        lists = released_lists(released)
        rows = unnest([quoted(c.name) for c in columns], [c.type for c in columns])
    names = join(", ", (quoted(column.name) for column in columns))
    name = quoted(block.name)
    return ReleasedTable(name, sql("{}({}) AS MATERIALIZED ({})", name, names, rows), lists)


def load_release(stay: Stay, released: ReleasedBlock) -> None:
    """Store a large release as a table, sorted by what was released, never in engine order."""
    block, rows = released.block.plan.block, released.rows
    values = {ROW_ID: rows.row_ids, **rows.values}
    columns = [sql("v.{}", quoted(name)) for name in rows.values]
    selected = [quoted(block.key_column(i)) for i in range(len(block.keys))]
    source, place = sql("__dpsql_values v"), sql("v.{}", _ID)
    order = [*(sql("{} DESC", column) for column in columns[:1]), *selected]
    stream: ArrowStream | None = None
    if rows.keys is None:
        keys = released.block.keys
        selected, order = _domain_keys(block, keys, place), [place]
    elif isinstance(rows.keys, dict):
        values |= rows.keys
    else:
        stream, source = rows.keys, sql("{} JOIN __dpsql_keys k USING ({})", source, _ID)
    stored = sql(
        "CREATE OR REPLACE TABLE {}({}) AS SELECT {} FROM {} ORDER BY {}",
        quoted(block.name),
        join(", ", (quoted(column.name) for column in released.block.released_columns)),
        join(", ", [*selected, *columns]),
        source,
        join(", ", order),
    )
    with stay.registered(values=values, keys=stream):
        execute(stay.cursor, stored)


def _sorted_lists(
    keys: list[list[object]], values: list[list[Any]], rows: int
) -> list[list[object]]:
    """Sort columns by the first released value, then by the keys' text, and nothing else."""
    first: list[Any] = values[0] if values else [0] * rows

    def position(row: int) -> tuple[float, tuple[tuple[bool, str], ...]]:
        # No two groups are equal here, NULL and 'None' included: a tie would show engine order.
        return -first[row], tuple((column[row] is None, str(column[row])) for column in keys)

    order = sorted(range(rows), key=position)
    return [[column[row] for row in order] for column in [*keys, *values]]


def _domain_keys(block: Block, keys: Sequence[Column], position: Sql) -> list[Sql]:
    """Write each key as a function of the group's position in the declared domain."""
    stride, expressions = block.domain_size, []
    for key, column in zip(block.keys, keys, strict=True):
        assert key.domain is not None
        stride //= len(key.domain)
        declared = join(", ", (sql("NULL") if v is None else literal(v) for v in key.domain))
        values = sql("[{}]::{}[]", declared, column.type.sql)
        place = sql("1 + ({} // {}) % {}", position, stride, len(key.domain))
        expressions.append(sql("({})[{}]", values, place))
    return expressions
