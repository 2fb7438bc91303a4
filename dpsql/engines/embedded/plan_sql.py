"""Parts of a bound plan as SQL: constants, what is computed of nothing else, and types."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final

from dpsql.core.quoting import quote, quote_text
from dpsql.core.sql import Sql, bare_word, digits, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import SqlType
from dpsql.engines.embedded.plans import PlanNode
from dpsql.engines.embedded.spelling import DUCKDB_TEXT

_MEANT_TO_FAIL = "error"  # in branches not taken, such as that of a subquery with several rows
INTEGER_IDS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
    | {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}
)


@dataclass(frozen=True, slots=True)
class Constant:
    """A part of a plan that depends on constants alone, as SQL."""

    sql: Sql
    literals: tuple[str, ...]


def constant_sql(node: PlanNode) -> Constant | None:
    """Write a constant expression of a plan as SQL; None for other expressions."""
    if node["expression_class"] == "BOUND_CONSTANT":
        text = _value(node["value"])
        if text is None:
            return None
        type_ = plan_type(node["value"]["type"])
        if type_ is None:
            return None
        made = sql("CAST({} AS {})", text, type_.sql)
        return Constant(made, (text.render(DUCKDB_TEXT),))
    children = node.get("children")
    if node["expression_class"] != "BOUND_FUNCTION" or not children:
        return None
    parts = []
    for child in children:
        part = constant_sql(child)
        if part is None:
            return None
        parts.append(part)
    literals = tuple(text for part in parts for text in part.literals)
    if node["type"] == "OPERATOR_CAST":
        target = any_plan_type(node["return_type"])
        if target is None:
            return None
        cast = sql("CAST") if is_cast(node) else sql("TRY_CAST")
        made = sql("{}({} AS {})", cast, parts[0].sql, target.sql)
        return Constant(made, literals)
    name = node["qname"]["path"][-1]
    if node["type"] != "BOUND_FUNCTION" or name == _MEANT_TO_FAIL:
        return None
    arguments = join(", ", (part.sql for part in parts))
    return Constant(sql("{}({})", quoted(name), arguments), literals)


def is_cast(node: PlanNode) -> bool:
    """Tell whether a node is a cast that fails where it cannot be done."""
    return bool(node["type"] == "OPERATOR_CAST" and not node["function_data"]["try_cast"])


def is_null(node: PlanNode) -> bool:
    """Tell whether an expression is NULL, as a value of whatever type."""
    if node["type"] == "OPERATOR_CAST":
        return is_null(node["children"][0])
    return node["expression_class"] == "BOUND_CONSTANT" and bool(node["value"]["is_null"])


def _value(value: PlanNode) -> Sql | None:
    """Write a constant as SQL, of the types that can be constant_sql in a statement."""
    id_, info = value["type"]["id"], value["type"]["type_info"]
    if value["is_null"]:
        return None
    if id_ == "BLOB" or (id_ == "VARCHAR" and (info is None or info["alias"] == "JSON")):
        return literal(value["value"])
    if id_ in INTEGER_IDS and isinstance(value["value"], int):
        return digits(value["value"])
    if id_ in ("HUGEINT", "UHUGEINT") and isinstance(value["value"], dict):
        return digits((value["value"]["upper"] << 64) | value["value"]["lower"])
    if id_ == "DOUBLE" and isinstance(value["value"], int | float):
        return digits(value["value"]) if isfinite(value["value"]) else literal(str(value["value"]))
    if id_ == "BOOLEAN":
        return sql("TRUE") if value["value"] else sql("FALSE")
    if id_ == "DECIMAL" and isinstance(value["value"], int):
        return _decimal(value["value"], info["scale"])
    if id_ == "DATE" and isinstance(value["value"], int):
        return sql("DATE '1970-01-01' + {}", digits(value["value"]))
    if id_ == "TIMESTAMP" and isinstance(value["value"], int):
        return sql("make_timestamp({})", digits(value["value"]))
    if id_ == "INTERVAL":
        lengths = (value["value"][unit] for unit in ("months", "days", "micros"))
        return literal("{} months {} days {} microseconds".format(*lengths))
    if id_ == "LIST" and not info["alias"]:
        return _list(info["child_type"], value["value"]["children"])
    return None


def _list(type_: PlanNode, children: list[PlanNode]) -> Sql | None:
    parts = []
    for child in children:
        part = sql("NULL") if child["is_null"] else _value({"type": type_, **child})
        if part is None:
            return None
        parts.append(part)
    return sql("list_value({})", join(", ", parts))


def _decimal(units: int, scale: int) -> Sql:
    """Write a decimal, given in units of its last digit, with a point before so many digits."""
    if not scale:
        return digits(units)
    text = f"{abs(units):0{scale + 1}d}"
    size = sql("{}.{}", bare_word(text[:-scale]), bare_word(text[-scale:]))
    return sql("-{}", size) if units < 0 else size


def plan_type(type_: PlanNode | None) -> SqlType | None:
    """Read a type; None for types that have no short name."""
    if type_ is None:
        return None
    info = type_["type_info"]
    if info is None:
        return None if type_["id"] in ("NULL", "ANY") else SqlType.of(str(type_["id"]))
    if info["alias"]:
        return SqlType.of("JSON") if info["alias"] == "JSON" else None
    if type_["id"] == "DECIMAL":
        return SqlType.of(f"DECIMAL({info['width']}, {info['scale']})")
    if type_["id"] == "LIST":
        inner = plan_type(info["child_type"])
        return inner and SqlType.of(f"{inner}[]")
    return None


def any_plan_type(type_: PlanNode | None) -> SqlType | None:
    """Read a type as :func:`plan_type` does, also of values that have parts, and dictionaries."""
    info = None if type_ is None else type_["type_info"]
    if type_ is None or info is None or info["alias"]:
        return plan_type(type_)
    match type_["id"]:
        case "STRUCT":
            fields = [
                (each["first"], any_plan_type(each["second"])) for each in info["child_types"]
            ]
            if not all(name and inner for name, inner in fields):
                return None
            members = (f"{quote(name)} {inner}" for name, inner in fields)
            return SqlType.of(f"STRUCT({', '.join(members)})")
        case "MAP":
            parts = info["child_type"]["type_info"]["child_types"]
            key, value = (any_plan_type(part["second"]) for part in parts)
            return key and value and SqlType.of(f"MAP({key}, {value})")
        case "ARRAY":
            inner = any_plan_type(info["child_type"])
            return inner and SqlType.of(f"{inner}[{info['size']}]")
        case "LIST":
            inner = any_plan_type(info["child_type"])
            return inner and SqlType.of(f"{inner}[]")
        case "ENUM":
            return SqlType.of(f"ENUM({', '.join(map(quote_text, info['values']))})")
    return plan_type(type_)
