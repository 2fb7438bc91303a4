"""Bound plans of queries, before any optimization: what a view of the owner's is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import duckdb

Node: TypeAlias = dict[str, Any]

_MAX_PLAN: Final = 50_000_000  # characters


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one query, as the engine writes it down."""

    root: Node

    @property
    def collated(self) -> tuple[bool, ...]:
        """Which columns of the answer have a collation, also somewhere inside a nested type."""
        return tuple(has_collation(each["return_type"]) for each in self.root["expressions"])


def plan_of(connection: duckdb.DuckDBPyConnection, sql: str) -> Plan | None:
    """The plan of a query; None where the engine cannot write it down."""
    try:
        ((text,),) = connection.execute(
            "SELECT json_serialize_plan(?, optimize := false)", [sql]
        ).fetchall()
    except duckdb.Error:
        return None
    if len(text) > _MAX_PLAN:
        return None
    try:
        found: Node = json.loads(text)
    except RecursionError:
        return None
    return None if found["error"] or len(found["plans"]) != 1 else Plan(found["plans"][0])


def nodes(plan: Node) -> Iterator[Node]:
    """Every object in a plan: operators, expressions, types, values."""
    todo: list[object] = [plan]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo.extend(each)
        elif isinstance(each, dict):
            yield each
            todo.extend(each.values())


def has_collation(node: object) -> bool:
    """True if a type, or anything else in a plan, names a collation."""
    if not isinstance(node, dict):
        return False
    return any(each.get("collation") for each in nodes(node))
