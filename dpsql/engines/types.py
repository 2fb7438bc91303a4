"""Types as dpsql speaks of them: built-in ones, told by their parts and never by a text.

The text of an ENUM holds its dictionary, which is data: whoever made it collected it from rows.
So an ENUM is a VARCHAR to everyone, also inside nested types, and so is an alias of a type.
"""

from __future__ import annotations

from typing import Final

from duckdb.sqltypes import DuckDBPyType

from dpsql.quoting import quote

_SCALARS: Final = frozenset(
    {"boolean", "varchar", "blob", "bit", "uuid", "bignum", "float", "double", "interval"}
    | {"tinyint", "smallint", "integer", "bigint", "hugeint"}
    | {"utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"}
    | {"date", "time", "time_ns", "time with time zone", "timestamp with time zone"}
    | {"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
)
_MAX_DEPTH: Final = 32


def plain_type(type_: DuckDBPyType, depth: int = 0) -> str | None:
    """The built-in type that holds the values of a column, as SQL; None where there is none."""
    if depth > _MAX_DEPTH:
        return None
    if type_.id == "enum":
        return "VARCHAR"
    if type_.id == "null":  # of a column that is NULL throughout: what a table would make of it
        return "INTEGER"
    if type_.id in _SCALARS:
        return type_.id.upper()
    if type_.id == "decimal":
        return "DECIMAL({precision},{scale})".format(**dict(type_.children))
    return _nested(type_, depth + 1)


def is_scalar(type_: DuckDBPyType) -> bool:
    """True for built-in types without parts, or an alias of one."""
    return type_.id in _SCALARS


def _nested(type_: DuckDBPyType, depth: int) -> str | None:
    children = dict(type_.children) if type_.id in ("list", "array", "map") else {}
    match type_.id:
        case "list" | "array":
            child = plain_type(children["child"], depth)
            return child and f"{child}[{children.get('size', '')}]"
        case "map":
            key, value = plain_type(children["key"], depth), plain_type(children["value"], depth)
            return key and value and f"MAP({key}, {value})"
        case "struct":
            return _named("STRUCT", type_.children, depth)
        case "union":
            return _named("UNION", type_.children[1:], depth)  # the first is its tag
    return None


def _named(kind: str, members: list[tuple[str, DuckDBPyType]], depth: int) -> str | None:
    texts = []
    for name, member in members:
        text = plain_type(member, depth)
        if text is None or not name:
            return None
        texts.append(f"{quote(name)} {text}")
    return f"{kind}({', '.join(texts)})"
