"""Released rows as tables that a post-processing query reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from dpsql.core.quoting import ROW_ID, literal, quote
from dpsql.core.schema import Column, is_text
from dpsql.engines.base import ArrowStream
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block
from dpsql.pipeline.released import ReleasedRows
from dpsql.pipeline.rooms import Stay
from dpsql.results.rows import unnest


@dataclass(frozen=True, slots=True)
class _Source:
    """A released table as a common table expression, with its query parameters."""

    name: str
    sql: str
    parameters: list[list[object]]


def released_columns(plan: BlockPlan, keys: Sequence[Column]) -> list[Column]:
    """The columns of a block's released table: keys, aggregates and their supports, noise."""
    block = plan.block
    columns = [Column(block.key_column(i), key.type) for i, key in enumerate(keys)]
    for index, aggregate in enumerate(block.aggregates):
        whole = plan.is_whole(aggregate)
        columns.append(Column(block.aggregate_column(index), "BIGINT" if whole else "DOUBLE"))
        columns += [Column(name, "DOUBLE") for name in block.support_columns(index)]
    asked = range(len(block.noise_columns))
    return columns + [Column(block.noise_column(index), "DOUBLE") for index in asked]


def _lists(plan: BlockPlan, keys: Sequence[Column], released: ReleasedRows) -> list[list[Any]]:
    """The released columns as lists, in the order of what was released, never of the engine."""
    values: list[list[Any]] = [column.tolist() for column in released.values.values()]
    if released.keys is None:
        return [*_domain_lists(plan.block, keys, released.row_ids.tolist()), *values]
    assert isinstance(released.keys, dict)
    key_lists = [released.keys[column.name].tolist() for column in keys]
    return _sorted_lists(key_lists, values, released.count)


def _domain_lists(
    block: Block, keys: Sequence[Column], positions: Sequence[int]
) -> list[list[Any]]:
    """The declared keys of these groups, as values of the columns' (plain) types."""
    texts = [is_text(column.type) for column in keys]
    domains = [
        [str(value) if text else value for value in key.domain or ()]
        for key, text in zip(block.keys, texts, strict=True)
    ]
    groups = list(product(*domains))
    chosen = [groups[position] for position in positions]
    return [[group[i] for group in chosen] for i in range(len(keys))]


def _source(plan: BlockPlan, keys: Sequence[Column], released: ReleasedRows) -> _Source:
    """A small release as a common table expression over lists of values."""
    block, columns = plan.block, released_columns(plan, keys)
    if released.keys is None:
        values: list[list[Any]] = [column.tolist() for column in released.values.values()]
        lists = [released.row_ids.tolist(), *values]
        unnested = [ROW_ID, *(quote(column.name) for column in columns[len(keys) :])]
        types = ["BIGINT", *(column.type for column in columns[len(keys) :])]
        selected = ", ".join([*_domain_keys(block, keys, ROW_ID), *unnested[1:]])
        rows = f"SELECT {selected} FROM ({unnest(unnested, types)})"
    else:
        lists = _lists(plan, keys, released)
        rows = unnest([quote(c.name) for c in columns], [c.type for c in columns])
    names = ", ".join(quote(column.name) for column in columns)
    name = quote(block.name)
    return _Source(name, f"{name}({names}) AS MATERIALIZED ({rows})", lists)


def load(stay: Stay, plan: BlockPlan, keys: Sequence[Column], released: ReleasedRows) -> None:
    """Store a large release as a table, sorted by what was released, never in engine order."""
    block = plan.block
    values = {ROW_ID: released.row_ids, **released.values}
    columns = [f"v.{quote(name)}" for name in released.values]
    selected = [quote(block.key_column(i)) for i in range(len(block.keys))]
    source, order = "", [*(f"{column} DESC" for column in columns[:1]), *selected]
    stream: ArrowStream | None = None
    if released.keys is None:
        selected, order = _domain_keys(block, keys, f"v.{ROW_ID}"), [f"v.{ROW_ID}"]
    elif isinstance(released.keys, dict):
        values |= released.keys
    else:
        stream, source = released.keys, f" JOIN __dpsql_keys k USING ({ROW_ID})"
    names = ", ".join(quote(column.name) for column in released_columns(plan, keys))
    query = f"SELECT {', '.join([*selected, *columns])} FROM __dpsql_values v{source}"
    with stay.registered(values=values, keys=stream):
        stay.cursor.execute(
            f"CREATE OR REPLACE TABLE {quote(block.name)}({names}) AS "
            f"{query} ORDER BY {', '.join(order)}"
        )


def _sorted_lists(
    keys: list[list[object]], values: list[list[Any]], rows: int
) -> list[list[object]]:
    """Columns in the order of the first released value, then of the keys' text: nothing else."""
    first: list[Any] = values[0] if values else [0] * rows

    def position(row: int) -> tuple[float, tuple[tuple[bool, str], ...]]:
        # No two groups are equal here, NULL and 'None' included: a tie would show engine order.
        return -first[row], tuple((column[row] is None, str(column[row])) for column in keys)

    order = sorted(range(rows), key=position)
    return [[column[row] for row in order] for column in [*keys, *values]]


def _domain_keys(block: Block, keys: Sequence[Column], position: str) -> list[str]:
    """Each key as a function of the group's position in the declared domain."""
    stride, expressions = block.domain_size, []
    for key, column in zip(block.keys, keys, strict=True):
        assert key.domain is not None
        stride //= len(key.domain)
        values = f"[{', '.join(map(literal, key.domain))}]::{column.type}[]"
        expressions.append(f"({values})[1 + ({position} // {stride}) % {len(key.domain)}]")
    return expressions
