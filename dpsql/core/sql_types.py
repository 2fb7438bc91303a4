"""Types of SQL as values, in DuckDB's words: read from text once, where it enters, then compared.

Engines' catalogs, policies, casts and files of evidence write a type as text (``BIGINT``,
``DECIMAL(18,3)``); every engine translates its own to DuckDB's. :meth:`SqlType.of` reads any of
them: a type that is not known is carried as it is written, of a kind that nothing accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

from dpsql.core.quoting import quote
from dpsql.core.sql import Name, Sql, Text, bare_word, join, sql
from dpsql.core.table_name import fold

INTEGER_BITS: Final[Mapping[str, tuple[bool, int]]] = {
    "TINYINT": (True, 8),
    "SMALLINT": (True, 16),
    "INTEGER": (True, 32),
    "BIGINT": (True, 64),
    "HUGEINT": (True, 128),
    "UTINYINT": (False, 8),
    "USMALLINT": (False, 16),
    "UINTEGER": (False, 32),
    "UBIGINT": (False, 64),
    "UHUGEINT": (False, 128),
}
"""Kind of integer -> (signed, bits)."""

_FLOATS: Final = frozenset({"FLOAT", "DOUBLE"})
_TEXTS: Final = frozenset({"VARCHAR", "ENUM"})
_MOMENTS: Final = frozenset(
    {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}
)
_TEMPORALS: Final = _MOMENTS | {"TIME", "TIME_NS", "TIME WITH TIME ZONE"}
_ALIASES: Final[Mapping[str, str]] = {
    "INT": "INTEGER",
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "INT4": "INTEGER",
    "INT8": "BIGINT",
    "LONG": "BIGINT",
    "SHORT": "SMALLINT",
    "REAL": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "CHAR": "VARCHAR",
    "BPCHAR": "VARCHAR",
    "BOOL": "BOOLEAN",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMETZ": "TIME WITH TIME ZONE",
}
_MAX_DECIMAL: Final = 38
_USUAL_DECIMAL: Final = (18, 3)


class Spellings(Enum):
    """How many ways there are to write values that compare as equal.

    Grouping keeps the spelling that it meets first, which depends on all rows and on the plan that
    the engine chose for them.
    """

    ONE = "one"
    FLOATS = "floats"  # 0.0 and -0.0, NaN with or without a sign
    DURATIONS = "durations"  # 30 days or a month
    NESTED = "nested"  # of values inside a value, which nothing changes


_SEVERAL: Final = frozenset({"FLOAT", "DOUBLE", "REAL", "INTERVAL", "VARIANT"})


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type: its text and the properties of this text. Types with equal texts are equal.

    ``kind`` is the type without its arguments, aliases resolved: ``DECIMAL`` of ``numeric(9, 2)``.
    Nested types keep what makes them nested, ``INTEGER[]``, ``STRUCT``, so that they are neither
    numbers nor texts nor moments.
    """

    text: str
    kind: str = field(compare=False, repr=False)

    @staticmethod
    def of(text: str) -> SqlType:
        """Read a type; any text is one.

        >>> SqlType.of("numeric(9, 2)").kind, SqlType.of("mood")
        ('DECIMAL', SqlType(text='mood'))
        """
        return _read(text)

    @staticmethod
    def decimal(width: int, scale: int) -> SqlType:
        """Return the DECIMAL of so many digits in all, and so many of its fraction."""
        return _read(f"DECIMAL({width},{scale})")

    def __str__(self) -> str:
        """Write the type as it was read."""
        return self.text

    @property
    def declared(self) -> SqlType | None:
        """The type in the one spelling of policies; None if no column can be declared to have it.

        >>> SqlType.of("int").declared, SqlType.of("mood").declared
        (SqlType(text='INTEGER'), None)
        """
        return _declared(self.text)

    @property
    def sql(self) -> Sql:
        """The type as SQL. Raises ``ValueError`` for what is no name of a type."""
        return _type_sql(self.text)

    @property
    def is_integer(self) -> bool:
        """True for integers of fixed width, signed or not."""
        return self.kind in INTEGER_BITS

    @property
    def is_huge_integer(self) -> bool:
        """True for integers of more than 64 bits, signed or not."""
        return self.kind in _HUGE

    @property
    def is_float(self) -> bool:
        """True for FLOAT and DOUBLE, which can hold NaN and infinities."""
        return self.kind in _FLOATS

    @property
    def is_decimal(self) -> bool:
        """True for DECIMAL, of any width and scale."""
        return self.kind == "DECIMAL"

    @property
    def is_numeric(self) -> bool:
        """True for integers, floats and decimals, which can carry bounds."""
        return self.is_integer or self.is_float or self.is_decimal

    @property
    def is_text(self) -> bool:
        """True for VARCHAR and ENUM, whose values are written as text."""
        return self.kind in _TEXTS

    @property
    def is_temporal(self) -> bool:
        """True for dates, times and timestamps (INTERVAL is a duration, no moment)."""
        return self.kind in _TEMPORALS

    @property
    def is_moment(self) -> bool:
        """True for dates and timestamps, which say when: a time alone does not."""
        return self.kind in _MOMENTS

    @property
    def is_nested(self) -> bool:
        """True if values have values inside them."""
        return self.kind.endswith("]") or self.kind in ("STRUCT", "MAP", "UNION", "VARIANT")

    @property
    def element(self) -> SqlType | None:
        """The type of what a list or an array has inside; None for other types.

        >>> SqlType.of("INTEGER[][2]").element, SqlType.of("INTEGER").element
        (SqlType(text='INTEGER[]'), None)
        """
        return _read(self.text[: self.text.rindex("[")]) if self.kind.endswith("]") else None

    def member(self, name: str) -> SqlType | None:
        """Return the type of a field of a struct; None where it has no such field.

        >>> SqlType.of('STRUCT(a INTEGER, "b c" STRUCT(d DATE))').member("B C").member("d")
        SqlType(text='DATE')
        """
        return _members_of(self.text).get(fold(name))

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest value of an integer type. Raises ``KeyError`` for others."""
        signed, bits = INTEGER_BITS[self.kind]
        return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    @property
    def digits(self) -> tuple[int, int]:
        """The digits, in all and of the fraction, of a DECIMAL or of every integer of a type.

        >>> SqlType.of("DECIMAL(12,2)").digits, SqlType.of("INTEGER").digits
        ((12, 2), (10, 0))
        """
        return _digits(self)

    @property
    def spellings(self) -> Spellings:
        """Which values of the type are equal and look different."""
        if self.is_float:
            return Spellings.FLOATS
        if self.kind == "INTERVAL":
            return Spellings.DURATIONS
        words = re.split(r"[^A-Z0-9]+", self.text.upper()) if self.is_nested else ()
        return Spellings.ONE if _SEVERAL.isdisjoint(words) else Spellings.NESTED

    @property
    def is_opaque(self) -> bool:
        """True if of a value nothing can be asked but whether there is one."""
        return self.kind == "JSON"

    @property
    def has_one_spelling(self) -> bool:
        """True if a dialect can give equal values one spelling; nested types may have several."""
        return self.spellings is not Spellings.NESTED and not self.is_opaque

    def is_declared_as(self, other: SqlType) -> bool:
        """Tell whether two types are one, however they are written."""
        return (self.declared or self) == (other.declared or other)

    def compares_exactly(self, other: SqlType) -> bool:
        """Tell whether values of the two types are compared as what they are.

        Otherwise one is cast, which can fail, or make two values equal: 2^53 and 2^53 + 1 are the
        same DOUBLE, and HUGEINT meets UHUGEINT there.
        """
        kinds = {self.kind, other.kind}
        return self == other or (kinds <= INTEGER_BITS.keys() and kinds.isdisjoint(_HUGE))


_HUGE: Final = frozenset(kind for kind, (_, bits) in INTEGER_BITS.items() if bits > 64)


@lru_cache(maxsize=4096)
def _read(text: str) -> SqlType:
    return SqlType(text, _kind(text))


@lru_cache(maxsize=4096)
def _declared(text: str) -> SqlType | None:
    found = _Reader(text).whole()
    return None if found is None else _read(found)


def _kind(text: str) -> str:
    bare = text.strip().upper()
    name = bare.split("(", 1)[0].strip()
    return bare if bare.endswith("]") else _ALIASES.get(name, name)


@lru_cache(maxsize=1024)
def _digits(type_: SqlType) -> tuple[int, int]:
    if type_.is_integer:
        return len(str(type_.ends[1])), 0
    found = [int(number) for number in re.findall(r"\d+", type_.text)] or _USUAL_DECIMAL
    return found[0], found[1] if len(found) > 1 else 0


# -- types that an owner declares -----------------------------------------------------------------

KNOWN_TYPES: Final = (
    *("BOOLEAN", "VARCHAR", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE", "TIME_NS", "INTERVAL", "UUID", "BLOB"),
    *("BIT", "BIGNUM"),
)
"""Types without parts that a column can be declared to have, beside DECIMAL."""
_NOT_NESTED: Final = frozenset({"BIT", "BIGNUM"})
_MAX_DEPTH: Final = 32
_DECLARED: Final = re.compile(
    r'\s*(?:(?P<name>"(?:[^"]|"")+")|(?P<word>[^\W\d]\w*)|(?P<other>\d+|.))'
)
TYPE_HINT: Final = (
    "One of: VARCHAR, BIGINT, INTEGER, DOUBLE, DECIMAL(18,3), BOOLEAN, DATE, TIMESTAMP, TIME, or "
    "another built-in type of DuckDB's; VARCHAR[], STRUCT(a BIGINT, b VARCHAR) and "
    "MAP(VARCHAR, BIGINT) are made of them."
)
"""What to write where a type is not known."""


class _Reader:
    """Reads a type from left to right into one spelling; None wherever it is none.

    ``int``, ``INTEGER`` and ``integer`` are one type, and so are all spellings of a nested one.
    """

    def __init__(self, text: str) -> None:
        found = (each["name"] or each["word"] or each["other"] for each in _DECLARED.finditer(text))
        self._left = [token for token in found if token.strip()][::-1]

    def whole(self) -> str | None:
        found = self._type(0)
        return None if self._left else found

    def _type(self, depth: int) -> str | None:
        found = None if depth > _MAX_DEPTH else self._bare(depth)
        while found is not None and self._take("["):
            if found in _NOT_NESTED:
                return None
            size = () if self._next("]") else self._numbers(1)
            if size is None or not self._take("]"):
                return None
            found = f"{found}[{''.join(map(str, size))}]"
        return found

    def _bare(self, depth: int) -> str | None:
        words = []
        while self._left and re.fullmatch(r"[^\W\d]\w*", self._left[-1]):
            words.append(self._left.pop())
        kind = _kind(" ".join(words))
        if kind in ("STRUCT", "MAP"):
            return self._members(kind, depth + 1)
        if kind == "DECIMAL":
            return self._decimal()
        return kind if kind in KNOWN_TYPES else None

    def _decimal(self) -> str | None:
        numbers = self._in_brackets() if self._next("(") else _USUAL_DECIMAL
        if numbers is None:
            return None
        width, scale = numbers if len(numbers) == 2 else (numbers[0], 0)
        fits = 1 <= width <= _MAX_DECIMAL and scale <= width
        return f"DECIMAL({width},{scale})" if fits else None

    def _in_brackets(self) -> tuple[int, ...] | None:
        self._take("(")
        numbers = self._numbers(2)
        return numbers if self._take(")") else None

    def _members(self, kind: str, depth: int) -> str | None:
        names: list[str] = []
        parts: list[str] = []
        if not self._take("("):
            return None
        while True:
            if kind == "STRUCT":
                name = self._left.pop() if self._left else ""
                if re.fullmatch(r'"(?:[^"]|"")+"|[^\W\d]\w*', name) is None:
                    return None
                names.append(name[1:-1].replace('""', '"') if name[0] == '"' else name)
            part = self._type(depth)
            if part is None or part in _NOT_NESTED:
                return None
            parts.append(f"{quote(names[-1])} {part}" if names else part)
            if not self._take(","):
                break
        distinct = len(set(map(fold, names))) == len(names)
        whole = distinct and (kind == "STRUCT" or len(parts) == 2)
        return f"{kind}({', '.join(parts)})" if self._take(")") and whole else None

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


_MEMBER: Final = re.compile(r'"((?:[^"]|"")+)" (.+)', re.DOTALL)
_OF_MEMBERS: Final = re.compile(r'"(?:[^"]|"")+"|[(),]|[^"(),]+')


@lru_cache(maxsize=1024)
def _members_of(text: str) -> Mapping[str, SqlType]:
    """Read the fields of a struct by their folded names; none of a type that cannot be declared."""
    whole = _declared(text)
    if whole is None or whole.kind != "STRUCT":
        return {}
    parts, depth = [""], 0
    for piece in _OF_MEMBERS.findall(whole.text.removeprefix("STRUCT(").removesuffix(")")):
        depth += {"(": 1, ")": -1}.get(piece, 0)
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    found = (_MEMBER.fullmatch(part.strip()) for part in parts)
    return {fold(m[1].replace('""', '"')): _read(m[2]) for m in found if m is not None}


# -- types in SQL ---------------------------------------------------------------------------------

_TOKEN: Final = re.compile(
    r"""(?P<name>"(?:[^"]|"")+")|(?P<text>'(?:[^']|'')*')|(?P<word>[^\W\d]\w*|\d+)"""
    r"|(?P<sign>[(),\[\] ])"
)
_SIGNS: Final = {
    "(": sql("("),
    ")": sql(")"),
    "[": sql("["),
    "]": sql("]"),
    ",": sql(","),
    " ": sql(" "),
}
_CLOSED_BY: Final = {"(": ")", "[": "]"}


@lru_cache(maxsize=4096)
def _type_sql(text: str) -> Sql:
    """Make SQL of the name of a type as an engine writes it: words, numbers, names and texts.

    Raises ``ValueError`` for what is none. Names of fields and the values of an ENUM, which are in
    quotes there, are names and literals.

    >>> _type_sql("STRUCT(a DECIMAL(18,3), \\"b c\\" INTEGER[])").pieces
    ('STRUCT(a DECIMAL(18,3), ', Name(text='b c'), ' INTEGER[])')
    """
    parts: list[Sql] = []
    opened: list[str] = []
    end = 0
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            raise ValueError("this is not the name of a type")
        end, token = found.end(), found[0]
        match found.lastgroup:
            case "name":
                parts.append(Sql(Name(token[1:-1].replace('""', '"'))))
            case "text":
                parts.append(Sql(Text(token[1:-1].replace("''", "'"))))
            case "word":
                parts.append(bare_word(token))
            case _:
                if token in _CLOSED_BY:
                    opened.append(_CLOSED_BY[token])
                elif token in _CLOSED_BY.values() and (not opened or opened.pop() != token):
                    raise ValueError("this is not the name of a type")
                parts.append(_SIGNS[token])
    if opened or not parts:
        raise ValueError("this is not the name of a type")
    return join("", parts)


# -- types of dpsql's own columns and expressions -----------------------------------------------

UNKNOWN: Final = SqlType.of("")
"""The type of what an engine alone knows the type of."""
BOOLEAN: Final = SqlType.of("BOOLEAN")
VARCHAR: Final = SqlType.of("VARCHAR")
TINYINT: Final = SqlType.of("TINYINT")
SMALLINT: Final = SqlType.of("SMALLINT")
INTEGER: Final = SqlType.of("INTEGER")
BIGINT: Final = SqlType.of("BIGINT")
DOUBLE: Final = SqlType.of("DOUBLE")
DATE: Final = SqlType.of("DATE")
TIMESTAMP: Final = SqlType.of("TIMESTAMP")
INTERVAL: Final = SqlType.of("INTERVAL")
