"""Bound plans of queries, before any optimization: what a view of the owner's is made of."""

from __future__ import annotations

import json
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
    ((text,),) = connection.execute(
        "SELECT json_serialize_plan(?, optimize := false)", [sql]
    ).fetchall()
    if len(text) > _MAX_PLAN:
        return None
    try:
        found: Node = json.loads(text)
    except RecursionError:
        return None
    return None if found["error"] or len(found["plans"]) != 1 else Plan(found["plans"][0])


def has_collation(node: object) -> bool:
    """True if a type, or anything else in a plan, names a collation."""
    todo = [node]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo.extend(each)
        elif isinstance(each, dict):
            if each.get("collation"):
                return True
            todo.extend(each.values())
    return False
