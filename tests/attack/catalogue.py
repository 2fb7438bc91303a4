"""What the engine itself says there is: functions with argument types, date parts, types.

Nothing here is a list made by hand, so what a newer engine or parser learns is attacked too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import duckdb

from dpsql.syntax.dialect import PrivateDuckDB

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_WORDS = """ms us ns s m h d w y c sec secs min mins hr hrs mon mons yr yrs dec decs cent mil mils
    millennia msec usec doy dow isodow q qtr timezone_hour timezone_minute epoch_s week weeks
    isoweek isoyear weekyear tz utc""".split()  # noqa: SIM905

_DATED = ("DATE", "TIME", "INTERVAL")


@dataclass(frozen=True, slots=True)
class Overload:
    """A function with the types of its arguments; ``ANY`` and single letters stand for any."""

    name: str
    types: tuple[str, ...]
    result: str
    kind: str  # scalar, operator, aggregate, macro, window, or parser: a name that we can read

    @property
    def label(self) -> str:
        """What statistics know it by."""
        return f"{self.name}({', '.join(self.types)})"


@cache
def overloads() -> tuple[Overload, ...]:
    """Every function of the engine, and every name that the parser knows as one."""
    with duckdb.connect(":memory:") as connection:
        rows = connection.execute(
            "SELECT function_name, parameter_types, coalesce(return_type, 'ANY'), function_type, "
            "varargs, len(parameters) FROM duckdb_functions() WHERE schema_name IN ('main', "
            "'pg_catalog') AND function_type IN ('scalar', 'aggregate', 'macro', 'window') "
            "ORDER BY ALL"
        ).fetchall()
    found: dict[Overload, None] = {}
    for name, types, result, kind, varargs, count in rows:
        if name.startswith("__internal"):
            continue
        arguments = tuple(t or "ANY" for t in (types or ())) or ("ANY",) * count
        kind = kind if _NAME.fullmatch(name) else "operator"
        found[Overload(name, arguments, result, kind)] = None
        if varargs is not None:
            found[Overload(name, (*arguments, varargs, varargs), result, kind)] = None
    known = {overload.name for overload in found}
    for name in sorted(PrivateDuckDB.Parser.FUNCTIONS):  # those of other systems among them
        for count in range(5) if name.lower() not in known else (1, 2):
            found[Overload(name.lower(), ("ANY",) * count, "ANY", "parser")] = None
    return tuple(found)


@cache
def date_parts() -> tuple[str, ...]:
    """Every word that the engine takes as a part of a date, a time or an interval."""
    dated = {o.name for o in overloads() if len(o.types) == 1 and o.types[0].startswith(_DATED)}
    words = sorted({name for name in dated if _NAME.fullmatch(name)} | set(_WORDS))
    with duckdb.connect(":memory:") as connection:
        return tuple(word for word in words if _is_part(connection, word))


def _is_part(connection: duckdb.DuckDBPyConnection, word: str) -> bool:
    for value in ("TIMESTAMP '2024-01-01'", "TIMESTAMPTZ '2024-01-01'"):
        for function in ("date_part", "date_trunc"):
            try:
                connection.execute(f"SELECT {function}('{word}', {value})")
            except duckdb.Error:
                continue
            return True
    return False


@cache
def type_names() -> tuple[str, ...]:
    """Every type that the engine lists, by each of its names."""
    with duckdb.connect(":memory:") as connection:
        rows = connection.execute(
            "SELECT DISTINCT type_name FROM duckdb_types() WHERE type_name NOT IN "
            "('list', 'array', 'struct', 'map', 'union', 'row', 'enum', 'null', 'tuple', 'type') "
            "ORDER BY 1"
        ).fetchall()
    decimals = ("decimal(1, 0)", "decimal(4, 4)", "decimal(18, 3)", "decimal(38, 0)")
    nested = ("integer[]", "varchar[3]", "struct(a integer)", "map(varchar, integer)")
    return (*(name for (name,) in rows), *decimals, *nested)
