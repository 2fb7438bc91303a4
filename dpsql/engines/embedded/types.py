"""Types as dpsql speaks of them: built-in ones, told by their parts and never by a text.

The text of an ENUM holds its dictionary, which is data: whoever made it collected it from rows.
So an ENUM is a VARCHAR to everyone, also inside nested types, and so is an alias of a type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from duckdb.sqltypes import DuckDBPyType

from dpsql.core.quoting import quote
from dpsql.core.schema import Column
from dpsql.core.sql_types import INTEGER, INTEGER_BITS, VARCHAR, SqlType

_SCALARS: Final = frozenset(
    {"boolean", "varchar", "blob", "bit", "uuid", "bignum", "float", "double", "interval"}
    | {"tinyint", "smallint", "integer", "bigint", "hugeint"}
    | {"utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"}
    | {"date", "time", "time_ns", "time with time zone", "timestamp with time zone"}
    | {"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
)
_NESTED: Final = frozenset({"list", "array", "map", "struct", "union"})
_MAX_DEPTH: Final = 32
# Types whose every value survives NumPy. (NaN is taken for NULL, dates have infinities, intervals
# have months, decimals and huge integers too many digits: those go through Arrow.)
_NUMPY_SAFE: Final = frozenset({"BOOLEAN", "VARCHAR", *INTEGER_BITS} - {"HUGEINT", "UHUGEINT"})


def numpy_safe(columns: Sequence[Column]) -> bool:
    """Tell whether values of these columns come back the same from NumPy and Python."""
    return all(column.type.kind in _NUMPY_SAFE for column in columns)


def plain_type(
    type_: DuckDBPyType, depth: int = 0, texts: frozenset[str] = frozenset()
) -> SqlType | None:
    """Return the built-in type with a column's values; None without one.

    ``texts`` are ids of types in whose place VARCHAR is to stand, also inside nested ones.
    """
    if depth > _MAX_DEPTH:
        return None
    if type_.id in texts:
        return VARCHAR
    if type_.id == "enum":
        return VARCHAR
    if type_.id == "null":  # of a column that is NULL throughout: what a table would make of it
        return INTEGER
    if type_.id in _SCALARS:
        return SqlType.of(type_.id.upper())
    if type_.id == "decimal":
        return SqlType.of("DECIMAL({precision},{scale})".format(**dict(type_.children)))
    return _nested(type_, depth + 1, texts)


def has_enum(type_: DuckDBPyType) -> bool:
    """Tell whether a type is an ENUM, or is nested and has one somewhere."""
    return has_any(type_, frozenset({"enum"}))


def has_any(type_: DuckDBPyType, ids: frozenset[str]) -> bool:
    """Tell whether a type is one of these, or is nested and has one somewhere."""
    if type_.id in ids:
        return True
    parts = type_.children if type_.id in _NESTED else []
    return any(isinstance(part, DuckDBPyType) and has_any(part, ids) for _, part in parts)


def is_scalar(type_: DuckDBPyType) -> bool:
    """Tell whether a type is built-in and without parts, or an alias of such a type."""
    return type_.id in _SCALARS


def _nested(type_: DuckDBPyType, depth: int, texts: frozenset[str]) -> SqlType | None:
    # What the parts are follows from the type: types by name, and the size of an array.
    parts: list[tuple[str, Any]] = list(type_.children) if type_.id in _NESTED else []
    named = dict(parts)
    match type_.id:
        case "list" | "array":
            child = plain_type(named["child"], depth, texts)
            return child and SqlType.of(f"{child}[{named.get('size', '')}]")
        case "map":
            key = plain_type(named["key"], depth, texts)
            value = plain_type(named["value"], depth, texts)
            return key and value and SqlType.of(f"MAP({key}, {value})")
        case "struct":
            return _members("STRUCT", parts, depth, texts)
        case "union":
            return _members("UNION", parts[1:], depth, texts)  # the first is its tag
    return None


def _members(
    kind: str, parts: list[tuple[str, Any]], depth: int, texts: frozenset[str]
) -> SqlType | None:
    members = []
    for name, member in parts:
        found = plain_type(member, depth, texts)
        if found is None or not name:
            return None
        members.append(f"{quote(name)} {found}")
    return SqlType.of(f"{kind}({', '.join(members)})")
