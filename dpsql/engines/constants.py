"""Constants of a statement that can never be computed, found without running it.

DuckDB binds ``n + 'a'`` and ``'x'::DATE`` without complaint and fails when it comes to them, and
its optimizer leaves alone what fails. The plan before optimization says where they are: each part
of it that depends on constants alone is computed here, by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import duckdb

from dpsql.core.sql import Sql, bare_word, digits, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import type_sql
from dpsql.engines.plans import read_plan
from dpsql.engines.running import execute, serialized_plan
from dpsql.engines.spelling import DUCKDB_TEXT

_Node: TypeAlias = dict[str, Any]

_FAILURES = (
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.OutOfMemoryException,
    duckdb.OutOfRangeException,
)
"""What a constant raises that fails. Other errors mean that it was not written down faithfully."""
_NO_SUCH_CAST = "Unimplemented type for cast"
_MEANT_TO_FAIL = "error"  # in branches not taken, such as that of a subquery with several rows
_AT_ONCE = 100  # constants computed by one statement

_INTEGERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
    | {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}
)
_ESCAPED: Final = frozenset(
    f"{negation}{name}_escape" for negation in ("", "not_") for name in ("like", "ilike")
)
_NUMBERS: Final = _INTEGERS | {"DOUBLE", "FLOAT", "DECIMAL"}
_TAKES_INTEGERS: Final = frozenset({"INTEGER", "BIGINT", "HUGEINT", "DOUBLE"})
_SAMPLES: Final = (
    "0",
    "2000-01-01",
    "00:00:00",
    "[]",
    "{}",
    "00000000-0000-0000-0000-000000000000",
)
"""Texts of which one stands for a value of nearly every type."""


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
    """Find the first part of a query that fails wherever it is computed, or None.

    Parts inside TRY and TRY_CAST, and what depends on rows or chance, are passed over. So is a
    statement that does not bind, or whose plan the engine cannot write down.

    ``texts``: find texts as well that are read as values of another type. The values are not known,
    but where a statement writes no cast, the engine chose it, to compare unlike things.
    """
    try:
        plan = _plan(connection, statement)
        if plan is None:
            reason = _unplanned(connection, statement)
            return None if reason is None else FailingConstant(reason, ())
        found = failing_part(connection, plan)
        return next(_texts_read(plan), None) if found is None and texts else found
    except RecursionError:
        return None


def _plan(connection: duckdb.DuckDBPyConnection, statement: Sql) -> _Node | None:
    (text,) = serialized_plan(connection, statement).fetchall()[0]
    plan = read_plan(text) if text else None  # BIGNUM is not written down
    return None if plan is None or plan["error"] else plan


def _unplanned(connection: duckdb.DuckDBPyConnection, statement: Sql) -> str | None:
    """Say why a statement that binds cannot be planned, as with a cast that no value has."""
    try:
        execute(connection, sql("EXPLAIN {}", statement)).fetchall()
    except _FAILURES as error:
        return _reason(error)
    except duckdb.Error:
        return None  # what it is about is not there, or is told elsewhere
    return None


def failing_part(connection: duckdb.DuckDBPyConnection, plan: _Node) -> FailingConstant | None:
    """Find the same in a plan that was written down before optimization."""
    parts = list(_parts(plan))
    constants = [part for part in parts if isinstance(part, _Constant)]
    for first in range(0, len(constants), _AT_ONCE):
        some = constants[first : first + _AT_ONCE]
        if _failure(connection, [part.sql for part in some]) is None:
            continue
        for part in some:
            reason = _failure(connection, [part.sql])
            if reason is not None:
                return FailingConstant(reason, part.literals)
    for each in parts:
        if isinstance(each, _LongEscape):
            return FailingConstant("an escape of LIKE is empty or one character", (each.literal,))
    for cast in dict.fromkeys(part for part in parts if isinstance(part, _Cast)):
        reason = _failure(connection, [cast.sample])
        if reason is not None and _NO_SUCH_CAST in reason:
            return FailingConstant(reason, ())
    return None


@dataclass(frozen=True, slots=True)
class _Constant:
    """A part of a plan that depends on constants alone, as SQL."""

    sql: Sql
    literals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Cast:
    """A cast of values that are not known, from type to type."""

    source: str
    target: str

    @property
    def sample(self) -> Sql:
        """The cast of a value of the first type, if one is known."""
        source = type_sql(self.source)
        tried = [sql("TRY_CAST({} AS {})", literal(text), source) for text in _SAMPLES]
        return sql("CAST(coalesce({}) AS {})", join(", ", tried), type_sql(self.target))


def _failure(connection: duckdb.DuckDBPyConnection, expressions: Sequence[Sql]) -> str | None:
    # Python has no values for some constants that the engine can compute, and IS NULL is decided
    # by the optimizer without computing anything. A hash is a number, and needs the value.
    computed = join(", ", (sql("hash({})", expression) for expression in expressions))
    try:
        execute(connection, sql("SELECT {}", computed)).fetchall()
    except _FAILURES as error:
        return _reason(error)
    except duckdb.Error:
        return None
    return None


def _reason(error: duckdb.Error) -> str:
    line = str(error).strip().split("\n", 1)[0]
    return line.split(": ", 1)[-1]


@dataclass(frozen=True, slots=True)
class _LongEscape:
    """An escape of LIKE that is no character, with which every text fails."""

    literal: str


def _parts(plan: _Node) -> Iterator[_Constant | _Cast | _LongEscape]:
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
            written = _written(node)
            if written is not None:
                if not _is_sure(node):
                    yield written
                continue
            if _is_cast(node):
                yield from _doubtful(node)
            yield from _long_escape(node)
        todo.extend(reversed(node.values()))


def _texts_read(plan: _Node) -> Iterator[FailingConstant]:
    """Yield the casts of texts that depend on rows, with the constants that stand beside them."""
    todo: list[tuple[Any, Sequence[Any]]] = [(plan, ())]
    while todo:
        node, beside = todo.pop()
        if isinstance(node, list):
            todo.extend((each, node) for each in reversed(node))
        elif isinstance(node, dict) and node.get("type") != "OPERATOR_TRY":
            if _reads_text(node):
                type_ = type_text(node["return_type"]) or ""
                yield FailingConstant(f"a text is read as {type_}", _constants(beside), type_)
            todo.extend((each, ()) for each in reversed(node.values()))


def _reads_text(node: object) -> bool:
    if not isinstance(node, dict) or "expression_class" not in node or not node.get("children"):
        return False
    if not _is_cast(node) or _written(node) is not None:
        return False
    source = type_text(node["children"][0].get("return_type"))
    return source == "VARCHAR" and type_text(node["return_type"]) not in ("VARCHAR", "JSON", None)


def _constants(nodes: Iterable[Any]) -> tuple[str, ...]:
    written = [
        _written(node) for node in nodes if isinstance(node, dict) and "expression_class" in node
    ]
    return tuple(text for part in written if part is not None for text in part.literals)


def _is_cast(node: _Node) -> bool:
    return bool(node["type"] == "OPERATOR_CAST" and not node["function_data"]["try_cast"])


def _is_sure(node: _Node) -> bool:
    """Tell whether a cast of a constant is one with which nothing can go wrong, as most are."""
    child = node["children"][0]
    if not _is_cast(node) or child["expression_class"] != "BOUND_CONSTANT":
        return False
    source, target = child["value"]["type"]["id"], node["return_type"]["id"]
    plain = node["return_type"]["type_info"] is None
    known = _TAKES_INTEGERS if source == "INTEGER" else {"DECIMAL": {"DOUBLE"}}.get(source, ())
    return plain and (source == target or target in known)


def _long_escape(node: _Node) -> Iterator[_LongEscape]:
    path = (node.get("qname") or {}).get("path") or [""]
    if node["type"] != "BOUND_FUNCTION" or path[-1] not in _ESCAPED or len(node["children"]) < 3:
        return
    escape = node["children"][2]
    if escape["expression_class"] == "BOUND_CONSTANT":
        value = escape["value"]["value"]
        if isinstance(value, str) and len(value.encode()) > 1:
            quoted_value = value.replace("'", "''")
            yield _LongEscape(f"'{quoted_value}'")


def _doubtful(node: _Node) -> Iterator[_Cast]:
    (child,) = node["children"]
    types = [_any_type_text(child.get("return_type")), _any_type_text(node["return_type"])]
    source, target = types
    if source is None or target is None or "VARCHAR" in types or source == target:
        return
    if not all(type_.split("(")[0] in _NUMBERS for type_ in (source, target)):
        yield _Cast(source, target)


def _written(node: _Node) -> _Constant | None:
    """Write a constant expression as SQL, with its constants; None if it is no such thing."""
    if node["expression_class"] == "BOUND_CONSTANT":
        text = _value(node["value"])
        if text is None:
            return None
        type_ = type_sql(type_text(node["value"]["type"]) or "")
        return _Constant(sql("CAST({} AS {})", text, type_), (text.render(DUCKDB_TEXT),))
    children = node.get("children")
    if node["expression_class"] != "BOUND_FUNCTION" or not children:
        return None
    written = []
    for child in children:
        part = _written(child)
        if part is None:
            return None
        written.append(part)
    literals = tuple(text for part in written for text in part.literals)
    if node["type"] == "OPERATOR_CAST":
        target = type_text(node["return_type"])
        if target is None:
            return None
        cast = sql("CAST") if _is_cast(node) else sql("TRY_CAST")
        made = sql("{}({} AS {})", cast, written[0].sql, type_sql(target))
        return _Constant(made, literals)
    name = node["qname"]["path"][-1]
    if node["type"] != "BOUND_FUNCTION" or name == _MEANT_TO_FAIL:
        return None
    arguments = join(", ", (part.sql for part in written))
    return _Constant(sql("{}({})", quoted(name), arguments), literals)


def _value(value: _Node) -> Sql | None:
    """Write a constant as SQL, of the types that can be written in a statement."""
    id_, info = value["type"]["id"], value["type"]["type_info"]
    if value["is_null"]:
        return None
    if id_ == "VARCHAR" and info is None:
        return literal(value["value"])
    if id_ in _INTEGERS and isinstance(value["value"], int):
        return digits(value["value"])
    if id_ in ("HUGEINT", "UHUGEINT") and isinstance(value["value"], dict):
        return digits((value["value"]["upper"] << 64) | value["value"]["lower"])
    if id_ == "DOUBLE" and isinstance(value["value"], int | float):
        return digits(value["value"])
    if id_ == "BOOLEAN":
        return sql("TRUE") if value["value"] else sql("FALSE")
    if id_ == "DECIMAL" and isinstance(value["value"], int):
        return _decimal(value["value"], info["scale"])
    return None


def _decimal(units: int, scale: int) -> Sql:
    """Write a decimal, given in units of its last digit, with a point before so many digits."""
    if not scale:
        return digits(units)
    text = f"{abs(units):0{scale + 1}d}"
    size = sql("{}.{}", bare_word(text[:-scale]), bare_word(text[-scale:]))
    return sql("-{}", size) if units < 0 else size


def type_text(type_: _Node | None) -> str | None:
    """Write a type as SQL; None for types that have no short name."""
    if type_ is None:
        return None
    info = type_["type_info"]
    if info is None:
        return None if type_["id"] in ("NULL", "ANY") else str(type_["id"])
    if info["alias"]:
        return str(info["alias"]) if info["alias"] == "JSON" else None
    if type_["id"] == "DECIMAL":
        return f"DECIMAL({info['width']}, {info['scale']})"
    if type_["id"] == "LIST":
        inner = type_text(info["child_type"])
        return inner and f"{inner}[]"
    return None


def _any_type_text(type_: _Node | None) -> str | None:
    """Write a type as :func:`type_text` does, also of values that have parts, and dictionaries."""
    info = None if type_ is None else type_["type_info"]
    if type_ is None or info is None or info["alias"]:
        return type_text(type_)
    match type_["id"]:
        case "STRUCT":
            fields = [
                (each["first"], _any_type_text(each["second"])) for each in info["child_types"]
            ]
            if not all(name and text for name, text in fields):
                return None
            return f"STRUCT({', '.join(f'{_in_quotes(name)} {text}' for name, text in fields)})"
        case "MAP":
            parts = info["child_type"]["type_info"]["child_types"]
            key, value = (_any_type_text(part["second"]) for part in parts)
            return key and value and f"MAP({key}, {value})"
        case "ARRAY":
            inner = _any_type_text(info["child_type"])
            return inner and f"{inner}[{info['size']}]"
        case "LIST":
            inner = _any_type_text(info["child_type"])
            return inner and f"{inner}[]"
        case "ENUM":
            texts = (str(value).replace("'", "''") for value in info["values"])
            return "ENUM({})".format(", ".join(f"'{text}'" for text in texts))
    return type_text(type_)


def _in_quotes(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))
