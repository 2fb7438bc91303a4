"""Constants of a statement that can never be computed, found without running it.

DuckDB binds ``n + 'a'`` and ``'x'::DATE`` without complaint and fails when it comes to them, and
its optimizer leaves alone what fails. The plan before optimization says where they are: each part
of it that depends on constants alone is computed here, by itself. So are calls whose constant
arguments fail whatever stands beside them (:mod:`dpsql.engines.embedded.tried_calls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from dpsql.core.sql import Sql, join, literal, sql
from dpsql.core.sql_types import VARCHAR, SqlType
from dpsql.engines.embedded.followed import with_constants
from dpsql.engines.embedded.plan_sql import (
    INTEGER_IDS,
    Constant,
    any_plan_type,
    constant_sql,
    is_cast,
    plan_type,
)
from dpsql.engines.embedded.plans import PlanNode, read_plan
from dpsql.engines.embedded.running import execute, serialized_plan
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.engines.embedded.tried_calls import TriedCall, tried_calls

_FAILURES = (
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.OutOfMemoryException,
    duckdb.OutOfRangeException,
)
"""The errors of failing constants. Other errors mean that it was not written down faithfully."""
_CALL_FAILURES = (*_FAILURES, duckdb.NotImplementedException)  # as of a time zone that is none
_BINDING = (*_CALL_FAILURES, duckdb.BinderException)
_NO_SUCH_CAST = "Unimplemented type for cast"
_AT_ONCE = 100  # constants computed by one statement

_ESCAPED: Final = frozenset(
    f"{negation}{name}_escape" for negation in ("", "not_") for name in ("like", "ilike")
)
_NUMBERS: Final = INTEGER_IDS | {"DOUBLE", "FLOAT", "DECIMAL"}
_TAKES_INTEGERS: Final = frozenset({"INTEGER", "BIGINT", "HUGEINT", "DOUBLE"})
_SAMPLES: Final = (
    "0",
    "2000-01-01",
    "00:00:00",
    "[]",
    "{}",
    "00000000-0000-0000-0000-000000000000",
)
"""Texts of which at least one casts to nearly every type."""


@dataclass(frozen=True, slots=True)
class FailingConstant:
    """Why a part of a statement fails whatever the rows are; the constants in it, as SQL.

    ``read_as`` is the type as which a text is read, where that is the reason, and else empty.
    """

    reason: str
    literals: tuple[str, ...]
    read_as: str = ""


def failing_constant(
    connection: duckdb.DuckDBPyConnection, statement: Sql, *, texts: bool = False
) -> FailingConstant | None:
    """Find the first constant part of a query that fails wherever it is computed, or None.

    Parts inside TRY and TRY_CAST, and what depends on rows or chance, are passed over. So is a
    statement that does not bind, or whose plan the engine cannot write down. Raises DuckDB's own
    error where it is interrupted: then nothing is known.

    ``texts``: find texts as well that are read as values of another type. The values are not known,
    but where a statement writes no cast, the engine chose it, to compare unlike things.
    """
    try:
        plan = _plan(connection, statement)
        if plan is None:
            reason = _unplanned(connection, statement)
            return None if reason is None else FailingConstant(reason, ())
        plan = with_constants(plan)
        found = failing_part(connection, plan) or _failing_call(connection, plan)
        return next(_texts_read(plan), None) if found is None and texts else found
    except RecursionError:
        return None


def _plan(connection: duckdb.DuckDBPyConnection, statement: Sql) -> PlanNode | None:
    (text,) = serialized_plan(connection, statement).fetchall()[0]
    plan = read_plan(text) if text else None  # BIGNUM is not written down
    return None if plan is None or plan["error"] else plan


def _unplanned(connection: duckdb.DuckDBPyConnection, statement: Sql) -> str | None:
    """Explain why a bound statement cannot be planned, such as a cast that no value passes."""
    try:
        execute(connection, sql("EXPLAIN {}", statement)).fetchall()
    except _FAILURES as error:
        return _reason(error)
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        return None  # what it is about is not there, or is told elsewhere
    return None


def failing_part(connection: duckdb.DuckDBPyConnection, plan: PlanNode) -> FailingConstant | None:
    """Find the same in a plan that was written down before optimization."""
    parts = list(_parts(plan))
    constants = [part for part in parts if isinstance(part, Constant)]
    for first in range(0, len(constants), _AT_ONCE):
        some = constants[first : first + _AT_ONCE]
        if _are_computed(connection, [part.sql for part in some]):
            continue
        for part in some:
            reason = _failure(connection, part.sql)
            if reason is not None:
                return FailingConstant(reason, part.literals)
    for each in parts:
        if isinstance(each, _LongEscape):
            return FailingConstant("an escape of LIKE is empty or one character", (each.literal,))
    for cast in dict.fromkeys(part for part in parts if isinstance(part, _Cast)):
        reason = _failure(connection, cast.sample)
        if reason is not None and _NO_SUCH_CAST in reason:
            return FailingConstant(reason, ())
    return None


def _failing_call(connection: duckdb.DuckDBPyConnection, plan: PlanNode) -> FailingConstant | None:
    """Find the first call that fails whatever stands beside its constants."""
    calls = list(tried_calls(plan))
    for first in range(0, len(calls), _AT_ONCE):
        some = calls[first : first + _AT_ONCE]
        # Nearly all calls are done with the first sample, all of them by one statement.
        if _are_computed(connection, [call.first for call in some]):
            continue
        for call in some:
            reason = _failure_with_all(connection, call)
            if reason is not None:
                return FailingConstant(reason, call.literals)
    return None


def _failure_with_all(connection: duckdb.DuckDBPyConnection, call: TriedCall) -> str | None:
    """Say why a call fails with the first sample, if it fails with all of them."""
    first: str | None = None
    for sample in call.samples():
        reason = _failure(connection, sample, _BINDING if call.binding else _CALL_FAILURES)
        if reason is None:
            return None
        first = first or reason
    return first


@dataclass(frozen=True, slots=True)
class _Cast:
    """A cast of values that are not known, from type to type."""

    source: SqlType
    target: SqlType

    @property
    def sample(self) -> Sql:
        """The cast of a value of the first type, if one is known."""
        source = self.source.sql
        tried = [sql("TRY_CAST({} AS {})", literal(text), source) for text in _SAMPLES]
        return sql("CAST(coalesce({}) AS {})", join(", ", tried), self.target.sql)


def _are_computed(connection: duckdb.DuckDBPyConnection, expressions: Sequence[Sql]) -> bool:
    """Tell whether all of them can be computed, by one statement."""
    try:
        execute(connection, _hashes(expressions)).fetchall()
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        return False
    return True


def _failure(
    connection: duckdb.DuckDBPyConnection,
    expression: Sql,
    failures: tuple[type[duckdb.Error], ...] = _FAILURES,
) -> str | None:
    try:
        execute(connection, _hashes([expression])).fetchall()
    except failures as error:
        return _reason(error)
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        return None
    return None


def _hashes(expressions: Sequence[Sql]) -> Sql:
    # Python has no values for some constants that the engine can compute, and IS NULL is decided
    # by the optimizer without computing anything. A hash is a number, and needs the value.
    return sql("SELECT {}", join(", ", (sql("hash({})", each) for each in expressions)))


def _reason(error: duckdb.Error) -> str:
    line = str(error).strip().split("\n", 1)[0]
    return line.split(": ", 1)[-1]


@dataclass(frozen=True, slots=True)
class _LongEscape:
    """An escape of LIKE with more than one character, which fails on every text."""

    literal: str


def _parts(plan: PlanNode) -> Iterator[Constant | _Cast | _LongEscape]:
    """Yield a plan's largest constant parts, and what may fail whatever stands beside it.

    That are casts between types that may have none, and escapes of LIKE.
    """
    todo: list[Any] = [plan]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(reversed(node))
            continue
        if not isinstance(node, dict) or node.get("type") == "OPERATOR_TRY":
            continue
        if "expression_class" in node and node.get("children"):
            constant = constant_sql(node)
            if constant is not None:
                if not _is_sure(node):
                    yield constant
                continue
            if is_cast(node):
                yield from _doubtful(node)
            yield from _long_escape(node)
        todo.extend(reversed(node.values()))


def _texts_read(plan: PlanNode) -> Iterator[FailingConstant]:
    """Yield casts of row-dependent texts, with the constants beside them."""
    todo: list[tuple[Any, Sequence[Any]]] = [(plan, ())]
    while todo:
        node, beside = todo.pop()
        if isinstance(node, list):
            todo.extend((each, node) for each in reversed(node))
        elif isinstance(node, dict) and node.get("type") != "OPERATOR_TRY":
            if _reads_text(node):
                type_ = str(plan_type(node["return_type"]))
                yield FailingConstant(f"a text is read as {type_}", _constants(beside), type_)
            todo.extend((each, ()) for each in reversed(node.values()))


def _reads_text(node: object) -> bool:
    if not isinstance(node, dict) or "expression_class" not in node or not node.get("children"):
        return False
    if not is_cast(node) or constant_sql(node) is not None:
        return False
    source = plan_type(node["children"][0].get("return_type"))
    target = plan_type(node["return_type"])
    return source == VARCHAR and target is not None and target.kind not in ("VARCHAR", "JSON")


def _constants(nodes: Iterable[Any]) -> tuple[str, ...]:
    parts = [
        constant_sql(node)
        for node in nodes
        if isinstance(node, dict) and "expression_class" in node
    ]
    return tuple(text for part in parts if part is not None for text in part.literals)


def _is_sure(node: PlanNode) -> bool:
    """Tell whether a cast of a constant cannot fail, as most cannot."""
    child = node["children"][0]
    if not is_cast(node) or child["expression_class"] != "BOUND_CONSTANT":
        return False
    source, target = child["value"]["type"]["id"], node["return_type"]["id"]
    plain = node["return_type"]["type_info"] is None
    known = _TAKES_INTEGERS if source == "INTEGER" else {"DECIMAL": {"DOUBLE"}}.get(source, ())
    return plain and (source == target or target in known)


def _long_escape(node: PlanNode) -> Iterator[_LongEscape]:
    path = (node.get("qname") or {}).get("path") or [""]
    if node["type"] != "BOUND_FUNCTION" or path[-1] not in _ESCAPED or len(node["children"]) < 3:
        return
    escape = node["children"][2]
    if escape["expression_class"] == "BOUND_CONSTANT":
        value = escape["value"]["value"]
        if isinstance(value, str) and len(value.encode()) > 1:
            yield _LongEscape(literal(value).render(DUCKDB_TEXT))


def _doubtful(node: PlanNode) -> Iterator[_Cast]:
    (child,) = node["children"]
    source, target = any_plan_type(child.get("return_type")), any_plan_type(node["return_type"])
    if source is None or target is None or VARCHAR in (source, target) or source == target:
        return
    if not all(type_.kind in _NUMBERS for type_ in (source, target)):
        yield _Cast(source, target)
