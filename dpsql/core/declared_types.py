"""Reads the types that an owner declares of columns: built-in ones, in one spelling each.

A type is read into a value that says all of it, so that ``int``, ``INTEGER`` and ``integer`` are
one type, and a text of the engine's can be compared with a text of the owner's. Values are cast to
their types in :mod:`dpsql.engines.duckdb.untyped`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dpsql.core.quoting import quote
from dpsql.core.schema import Column, base_type, fold

KNOWN_TYPES: Final = (
    *("BOOLEAN", "VARCHAR", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE", "TIME_NS", "INTERVAL", "UUID", "BLOB"),
    *("BIT", "BIGNUM"),
)
"""Types without parts that a column can be declared to have, beside DECIMAL."""
_NOT_NESTED: Final = frozenset({"BIT", "BIGNUM"})
_MAX_DECIMAL: Final = 38
_USUAL_DECIMAL: Final = (18, 3)
_MAX_DEPTH: Final = 32
_TOKEN: Final = re.compile(r'\s*(?:(?P<name>"(?:[^"]|"")+")|(?P<word>[^\W\d]\w*)|(?P<other>\d+|.))')
TYPE_HINT: Final = (
    "One of: VARCHAR, BIGINT, INTEGER, DOUBLE, DECIMAL(18,3), BOOLEAN, DATE, TIMESTAMP, TIME, or "
    "another built-in type of DuckDB's; VARCHAR[], STRUCT(a BIGINT, b VARCHAR) and "
    "MAP(VARCHAR, BIGINT) are made of them."
)
"""What to write where a type is not known."""


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A type and its parts: a name, numbers (of DECIMAL, of an array), members by name."""

    kind: str
    numbers: tuple[int, ...] = ()
    parts: tuple[DeclaredType, ...] = ()
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write the type as the engine takes it."""
        match self.kind:
            case "[]":
                return f"{self.parts[0]}[{''.join(map(str, self.numbers))}]"
            case "STRUCT":
                members = zip(self.names, self.parts, strict=True)
                return f"STRUCT({', '.join(f'{quote(n)} {part}' for n, part in members)})"
            case "MAP":
                return f"MAP({', '.join(map(str, self.parts))})"
            case "DECIMAL":
                return f"DECIMAL({','.join(map(str, self.numbers))})"
        return self.kind

    @property
    def nested(self) -> bool:
        """True if values have values inside them."""
        return bool(self.parts)


@lru_cache(maxsize=4096)
def read_type(text: str) -> DeclaredType | None:
    """Read a type; None for a text that no column can be declared with."""
    tokens = [found["name"] or found["word"] or found["other"] for found in _TOKEN.finditer(text)]
    reader = _Reader([token for token in tokens if token.strip()])
    found = reader.type(0)
    return found if found is not None and reader.at_end else None


def is_declarable(text: str) -> bool:
    """Tell whether a column can be declared to have a type."""
    return read_type(text) is not None


def same_type(one: str, other: str) -> bool:
    """Tell whether two texts are of one type, however they are written."""
    first = read_type(one)
    return one == other or (first is not None and first == read_type(other))


def declared_columns(types: Mapping[str, str]) -> tuple[Column, ...] | None:
    """Return columns of these names and types; None if one of the types is not known."""
    read = {name: read_type(text) for name, text in types.items()}
    if None in read.values():
        return None
    return tuple(Column(name, str(found)) for name, found in read.items())


class _Reader:
    """Reads the tokens of a type from left to right; None wherever they make none."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._left = list(tokens)[::-1]

    @property
    def at_end(self) -> bool:
        return not self._left

    def type(self, depth: int) -> DeclaredType | None:
        found = None if depth > _MAX_DEPTH else self._bare(depth)
        while found is not None and self._take("["):
            if found.kind in _NOT_NESTED:
                return None
            size = () if self._next("]") else self._numbers(1)
            found = None if size is None else DeclaredType("[]", size, (found,))
            if not self._take("]"):
                return None
        return found

    def _bare(self, depth: int) -> DeclaredType | None:
        words = []
        while self._left and re.fullmatch(r"[^\W\d]\w*", self._left[-1]):
            words.append(self._left.pop())
        kind = base_type(" ".join(words))
        if kind in ("STRUCT", "MAP"):
            return self._members(kind, depth + 1)
        if kind == "DECIMAL":
            return self._decimal()
        return DeclaredType(kind) if kind in KNOWN_TYPES else None

    def _decimal(self) -> DeclaredType | None:
        numbers = self._in_brackets() if self._next("(") else _USUAL_DECIMAL
        if numbers is None:
            return None
        width, scale = numbers if len(numbers) == 2 else (numbers[0], 0)
        fits = 1 <= width <= _MAX_DECIMAL and scale <= width
        return DeclaredType("DECIMAL", (width, scale)) if fits else None

    def _in_brackets(self) -> tuple[int, ...] | None:
        self._take("(")
        numbers = self._numbers(2)
        return numbers if self._take(")") else None

    def _members(self, kind: str, depth: int) -> DeclaredType | None:
        names: list[str] = []
        parts: list[DeclaredType] = []
        if not self._take("("):
            return None
        while True:
            if kind == "STRUCT":
                name = self._left.pop() if self._left else ""
                if re.fullmatch(r'"(?:[^"]|"")+"|[^\W\d]\w*', name) is None:
                    return None
                names.append(name[1:-1].replace('""', '"') if name[0] == '"' else name)
            part = self.type(depth)
            if part is None or part.kind in _NOT_NESTED:
                return None
            parts.append(part)
            if not self._take(","):
                break
        distinct = len(set(map(fold, names))) == len(names)
        whole = distinct and (kind == "STRUCT" or len(parts) == 2)
        if not (self._take(")") and whole):
            return None
        return DeclaredType(kind, (), tuple(parts), tuple(names))

    def _numbers(self, most: int) -> tuple[int, ...] | None:
        found = []
        while self._left and self._left[-1].isdecimal() and len(self._left[-1]) <= 6:
            found.append(int(self._left.pop()))
            if not self._take(","):
                break
        return tuple(found) if 1 <= len(found) <= most else None

    def _next(self, token: str) -> bool:
        return bool(self._left) and self._left[-1] == token

    def _take(self, token: str) -> bool:
        if not self._next(token):
            return False
        self._left.pop()
        return True
