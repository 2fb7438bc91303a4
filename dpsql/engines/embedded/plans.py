"""Bound plans of queries, before any optimization: what a view of the owner's is made of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import duckdb

from dpsql.core.sql import Sql
from dpsql.engines.embedded.running import serialized_plan
from dpsql.engines.embedded.versions import INSTALLED

PlanNode: TypeAlias = dict[str, Any]

_MAX_PLAN: Final = 50_000_000  # characters


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one query, as the engine writes it down."""

    root: PlanNode

    @property
    def collated(self) -> tuple[bool, ...]:
        """Which columns of the answer have a collation, also somewhere inside a nested type."""
        return tuple(has_collation(each["return_type"]) for each in self.root["expressions"])


def read_plan(text: str) -> PlanNode:
    """Parse what ``json_serialize_plan`` returns. Raises ``RecursionError`` if too deep.

    DuckDB writes some constants as bare words that JSON does not have: nan, inf and -inf. Objects
    are as DuckDB 2.0.0 writes them, whichever version is installed.
    """
    try:
        found: PlanNode = json.loads(text, object_hook=INSTALLED.spelling)
    except json.JSONDecodeError:
        words = _STRING_OR_WORD.sub(_as_python_writes, text)
        found = json.loads(words, object_hook=INSTALLED.spelling)
    return found


_STRING_OR_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:nan|inf)\b', re.IGNORECASE)
_WORDS: Final = {"nan": "NaN", "inf": "Infinity"}


def _as_python_writes(match: re.Match[str]) -> str:
    return _WORDS.get(match.group().lower(), match.group())


def plan_of(connection: duckdb.DuckDBPyConnection, statement: Sql) -> Plan | None:
    """Ask the engine for the plan of a query; None for plans it cannot write down."""
    try:
        ((text,),) = serialized_plan(connection, statement).fetchall()
    except duckdb.Error:
        return None
    if len(text) > _MAX_PLAN:
        return None
    try:
        found = read_plan(text)
    except RecursionError:
        return None
    return None if found["error"] or len(found["plans"]) != 1 else Plan(found["plans"][0])


def nodes(plan: PlanNode) -> Iterator[PlanNode]:
    """Yield every object in a plan: operators, expressions, types, values."""
    todo: list[object] = [plan]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo.extend(each)
        elif isinstance(each, dict):
            yield each
            todo.extend(each.values())


def has_collation(node: object) -> bool:
    """Tell whether a type, or anything else in a plan, names a collation."""
    if not isinstance(node, dict):
        return False
    return any(each.get("collation") for each in nodes(node))
