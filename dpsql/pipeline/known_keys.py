"""Narrows the declared domains of keys to the values that a statement's conditions leave.

``WHERE status IN ('open', 'late') GROUP BY status`` asks for two groups, however many are
declared. Which values satisfy a condition depends on the statement and the policy alone, and no row
of another group satisfies it: so the others are not answered, and no noise is made for them. Only
conditions on one key by itself are read; those that other columns take part in are left to the
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql, join, name, sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.engine import Engine
from dpsql.engines.dialects import TWIN
from dpsql.errors import QueryRefused
from dpsql.ir.query import Block, Key
from dpsql.pipeline.column_origins import conditions_on
from dpsql.sql.expressions.totality import total_condition_sql

_MOST_VALUES: Final = 20_000
"""Values of a domain that is narrowed: each is a constant of a statement."""
_SHOWN: Final = 10
_PLACE: Final = name(f"{INTERNAL_PREFIX}place")


def with_keys_narrowed(block: Block, engine: Engine) -> Block:
    """Return the block with the declared values of its keys that its conditions leave.

    Raises ``QueryRefused`` (``no_group_left``) where they leave none.
    """
    keys = tuple(_narrowed(key, block, engine) for key in block.keys)
    for key, before in zip(keys, block.keys, strict=True):
        if key.domain == () != before.domain:
            raise _none_left(before)
    by_column = {key.expression: key for key in keys}
    declared = (
        by_column.get(k.expression) or _narrowed(k, block, engine) for k in block.source.declared
    )
    left = tuple(key for key in declared if key.domain)
    return replace(block, keys=keys, source=replace(block.source, declared=left))


def _narrowed(key: Key, block: Block, engine: Engine) -> Key:
    """Limit a key's declared values to those that pass all conditions on the key alone."""
    column = block.source.table.column(key.expression.name)
    if key.domain is None or column is None or len(key.domain) > _MOST_VALUES:
        return key
    if column.type.is_float:  # equal values may differ, as 0.0 and -0.0, and conditions may tell
        return key
    left: Sequence[int] = range(len(key.domain))
    for found in conditions_on(block.condition, block.source.rows, column.name):
        if not found.alone:
            continue
        own = Column(found.column, column.type)
        left = satisfying(key.domain, left, own, found.condition, engine)
    return key if len(left) == len(key.domain) else replace(key, domain=_chosen(key.domain, left))


def satisfying(
    domain: Sequence[object],
    places: Sequence[int],
    column: Column,
    condition: exp.Expr,
    engine: Engine,
) -> Sequence[int]:
    """Keep the places of a domain's values that fulfil a condition on the column."""
    if not places:
        return places
    values = (sql("({}, {})", place, constant_of(domain[place], column.type)) for place in places)
    found = engine.compute_constants(
        sql(
            "SELECT {place} FROM (VALUES {}) AS declared({place}, {}) WHERE {}",
            *(join(", ", values), name(column.name)),
            total_condition_sql(condition, Table("declared", (column,)), TWIN),
            place=_PLACE,
        )
    )
    return sorted(place for place in found if place is not None)


def constant_of(value: object, type_: SqlType) -> Sql:
    """Write a value of a type, or its NULL, for the twin."""
    return TWIN.cast(sql("NULL"), type_) if value is None else TWIN.declared(value, type_)


def _chosen(domain: Sequence[object], places: Sequence[int]) -> tuple[object, ...]:
    return tuple(domain[place] for place in places)


def _none_left(key: Key) -> QueryRefused:
    declared = key.domain or ()
    shown = ", ".join(map(str, declared[:_SHOWN]))
    more = f" and {len(declared) - _SHOWN} more" if len(declared) > _SHOWN else ""
    return QueryRefused(
        f"no declared value of {key.text} satisfies the conditions on it: no group is left",
        code="no_group_left",
        hint=f"Declared are {shown}{more}.",
    )
