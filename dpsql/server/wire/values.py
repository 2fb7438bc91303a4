"""Values on the wire: types by their OIDs, columns encoded as text or binary, parameters decoded.

Columns are encoded whole, as that is twice as fast as value by value. Each encoded value has its
length before it, and NULL is a length of -1. Types that PostgreSQL has not go as ``json``.
Checked by ``tests/server/test_wire_values.py`` against a real PostgreSQL.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from uuid import UUID

from dpsql.core.formatting import json_text
from dpsql.core.sql_types import SqlType
from dpsql.server.wire.messages import ProtocolError, WireColumn, utf8

TEXT_FORMAT, BINARY_FORMAT = 0, 1

_Encode: TypeAlias = Callable[[Any], bytes]
_Decode: TypeAlias = Callable[[bytes], object]

_NULL: Final = struct.pack("!i", -1)
_LENGTH: Final = struct.Struct("!i").pack
_EPOCH: Final = datetime(2000, 1, 1)
_FIRST_DAY: Final = _EPOCH.date().toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_MIDNIGHT: Final = datetime.min
_BASE: Final = 10_000  # of the digits of a binary numeric
_NEGATIVE, _NAN, _ENDLESS, _MINUS_ENDLESS = 0x4000, 0xC000, 0xD000, 0xF000


@dataclass(frozen=True, slots=True)
class WireType:
    """A type of PostgreSQL: its OID, its size (-1 if it varies), and how values are written."""

    name: str
    oid: int
    size: int
    text: _Encode
    binary: _Encode


# -- text ---------------------------------------------------------------------------------------


def _float_text(value: float) -> bytes:
    if math.isfinite(value):
        return repr(float(value)).removesuffix(".0").encode()
    return b"NaN" if math.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"


def _decimal_text(value: Any) -> bytes:
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}".encode()
    return _float_text(float(value)) if isinstance(value, float | Decimal) else str(value).encode()


def _moment_text(value: Any) -> bytes:
    """Write a moment as ``DateStyle`` ISO has it, in UTC if it has a zone."""
    if not isinstance(value, datetime):
        return _distant_text(value)
    zone = b"" if value.tzinfo is None else b"+00"
    naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return _without_zeros(naive.isoformat(" ")).encode() + zone


# Infinite moments, before the year 1 and after 9999 come from DuckDB as texts: Python has none.
_DISTANT: Final = re.compile(
    r"(\d+)-(\d\d)-(\d\d)( \(BC\))?"
    r"(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:\+00(?::00)?)?)?"
)


def _distant_text(value: object) -> bytes:
    """Write a text of DuckDB's for a distant moment as PostgreSQL writes it: ``BC`` at the end."""
    text = str(value)
    return (text.replace(" (BC)", "") + " BC" if " (BC)" in text else text).encode()


def _distant(value: object) -> tuple[int, int]:
    """Read a distant moment: days and microseconds since the year 2000. Raises ``ValueError``."""
    found = _DISTANT.fullmatch(str(value))
    if found is None:
        raise ValueError
    year, month, day, hours, minutes, seconds = (int(found[n] or 0) for n in (1, 2, 3, 5, 6, 7))
    if found[4]:
        year = 1 - year
    # The calendar repeats itself every 400 years, of 146,097 days.
    cycles = (year - 1) // 400
    days = date(year - 400 * cycles, month, day).toordinal() + 146_097 * cycles - _FIRST_DAY
    fraction = int((found[8] or "").ljust(6, "0"))
    return days, ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction


def _without_zeros(text: str) -> str:
    """Write a fraction of a second without its last zeros."""
    return text.rstrip("0") if "." in text else text


# Lengths of time with months come from DuckDB as texts: Python has no type for them.
_DURATION: Final = re.compile(
    r"(?:(-?\d+) years? ?)?(?:(-?\d+) months? ?)?(?:(-?\d+) days? ?)?"
    r"(?:(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)


def _duration(value: timedelta | str) -> tuple[int, int, int]:
    """Return the months, days and microseconds of a length of time. Raises ``ValueError``."""
    if isinstance(value, timedelta):
        sign, clock = (-1 if value < timedelta() else 1), abs(value)
        return 0, sign * clock.days, sign * (clock % timedelta(days=1) // _MICROSECOND)
    found = _DURATION.fullmatch(value)
    if found is None or not value:
        raise ValueError
    years, months, days, hours, minutes, seconds = (int(found[n] or 0) for n in (1, 2, 3, 5, 6, 7))
    fraction = int((found[8] or "").ljust(6, "0"))
    rest = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction
    return 12 * years + months, days, -rest if found[4] else rest


def _interval_text(value: timedelta | str) -> bytes:
    """Write a length of time as ``IntervalStyle`` postgres has it."""
    months, days, rest = _duration(value)
    years, months = (-1 if months < 0 else 1) * (abs(months) // 12), int(math.fmod(months, 12))
    parts, before = [], 0  # a plus stands where what is before it is negative
    for number, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if number:
            plus = "+" if before < 0 < number else ""
            parts.append(f"{plus}{number} {unit}{'' if number == 1 else 's'}")
            before = number
    if rest or not parts:
        seconds, fraction = divmod(abs(rest), 1_000_000)
        sign = "-" if rest < 0 else "+" if before < 0 else ""
        clock = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(clock + (_without_zeros(f".{fraction:06}") if fraction else ""))
    return " ".join(parts).encode()


def _plain(value: object) -> bytes:
    return str(value).replace("\0", "").encode(errors="replace")


# -- binary -------------------------------------------------------------------------------------


def _packed(form: str) -> _Encode:
    return struct.Struct(form).pack


def _numeric(value: Any) -> bytes:
    """Write a number as PostgreSQL's numeric: groups of four digits from the decimal point."""
    exact = value if isinstance(value, Decimal) else Decimal(value)
    if not exact.is_finite():
        code = _NAN if exact.is_nan() else _MINUS_ENDLESS if exact < 0 else _ENDLESS
        return struct.pack("!hhHh", 0, 0, code, 0)
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    written = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole, part = (written, "") if not scale else (written[:-scale], written[-scale:])
    part = part.rjust(scale, "0")
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    part += "0" * (-len(part) % 4)
    groups = [int((whole + part)[place : place + 4]) for place in range(0, len(whole + part), 4)]
    weight = len(whole) // 4 - 1
    while groups and not groups[0]:
        groups.pop(0)
        weight -= 1
    while groups and not groups[-1]:
        groups.pop()
    head = (len(groups), weight if groups else 0, _NEGATIVE * sign, scale)
    return struct.pack("!hhHh", *head) + struct.pack(f"!{len(groups)}h", *groups)


_ENDS: Final[Mapping[str, tuple[bytes, bytes]]] = MappingProxyType(
    {
        "infinity": (struct.pack("!i", 2**31 - 1), struct.pack("!q", 2**63 - 1)),
        "-infinity": (struct.pack("!i", -(2**31)), struct.pack("!q", -(2**63))),
    }
)
"""Infinite days and microseconds, as PostgreSQL sends them."""


def _days(value: date | str) -> bytes:
    if isinstance(value, str):
        return _ENDS[value][0] if value in _ENDS else struct.pack("!i", _distant(value)[0])
    return struct.pack("!i", value.toordinal() - _FIRST_DAY)


def _microseconds(value: Any) -> bytes:
    if isinstance(value, str):
        if value in _ENDS:
            return _ENDS[value][1]
        days, rest = _distant(value)
        return struct.pack("!q", days * 86_400_000_000 + rest)
    naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return struct.pack("!q", (naive - _EPOCH) // _MICROSECOND)


def _clock(value: time) -> bytes:
    since = datetime.combine(_MIDNIGHT, value.replace(tzinfo=None)) - _MIDNIGHT
    return struct.pack("!q", since // _MICROSECOND)


def _interval(value: timedelta | str) -> bytes:
    months, days, rest = _duration(value)
    return struct.pack("!qii", rest, days, months)


_TEXT: Final = WireType("text", 25, -1, _plain, _plain)
_JSON: Final = WireType(
    "json", 114, -1, lambda v: json_text(v).encode(), lambda v: json_text(v).encode()
)
_NUMERIC: Final = WireType("numeric", 1700, -1, _decimal_text, _numeric)
_INT2: Final = WireType("int2", 21, 2, _plain, _packed("!h"))
_INT4: Final = WireType("int4", 23, 4, _plain, _packed("!i"))
_INT8: Final = WireType("int8", 20, 8, _plain, _packed("!q"))
_OID: Final = WireType("oid", 26, 4, _plain, _packed("!I"))
OID_LIST: Final = "OID[]"
"""Lists of PostgreSQL's numbers, which catalogs have, and DuckDB has no name for."""
PLACES: Final = "PLACES"
"""PostgreSQL's ``int2vector``, which catalogs have for places of columns."""
_STAMP: Final = WireType("timestamp", 1114, 8, _moment_text, _microseconds)

WIRE_TYPES: Final = MappingProxyType(
    {
        "BOOLEAN": WireType("bool", 16, 1, lambda v: b"t" if v else b"f", _packed("!?")),
        **dict.fromkeys(("TINYINT", "SMALLINT", "UTINYINT"), _INT2),
        **dict.fromkeys(("INTEGER", "USMALLINT"), _INT4),
        **dict.fromkeys(("BIGINT", "UINTEGER"), _INT8),
        **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL"), _NUMERIC),
        "FLOAT": WireType("float4", 700, 4, _float_text, _packed("!f")),
        "DOUBLE": WireType("float8", 701, 8, _float_text, _packed("!d")),
        **dict.fromkeys(("VARCHAR", "ENUM"), _TEXT),
        "BLOB": WireType("bytea", 17, -1, lambda v: b"\\x" + bytes(v).hex().encode(), bytes),
        "DATE": WireType("date", 1082, 4, _distant_text, _days),
        **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), _STAMP),
        "TIMESTAMP WITH TIME ZONE": WireType("timestamptz", 1184, 8, _moment_text, _microseconds),
        "TIME": WireType("time", 1083, 8, lambda v: _without_zeros(str(v)).encode(), _clock),
        "INTERVAL": WireType("interval", 1186, 16, _interval_text, _interval),
        "UUID": WireType("uuid", 2950, 16, _plain, lambda v: UUID(str(v)).bytes),
        "JSON": WireType("json", 114, -1, _plain, _plain),
    }
)
"""The type of PostgreSQL for each kind of DuckDB's; of others it is ``json``."""
ARRAYS: Final = MappingProxyType(
    {
        16: 1000,
        17: 1001,
        20: 1016,
        21: 1005,
        23: 1007,
        25: 1009,
        26: 1028,
        700: 1021,
        701: 1022,
        1082: 1182,
        1083: 1183,
        1114: 1115,
        1184: 1185,
        1186: 1187,
        1700: 1231,
        2950: 2951,
        18: 1002,
        19: 1003,
        1042: 1014,
        1043: 1015,
    }
)
"""The OIDs of types of lists, by those of their elements."""


@lru_cache(1024)
def wire_type(type_: str) -> WireType:
    """Return PostgreSQL's type for one of DuckDB's, by its text."""
    if type_ == OID_LIST:
        return _array(_OID, ARRAYS[_OID.oid])
    if type_ == PLACES:
        return WireType(
            "int2vector",
            *(22, -1, lambda places: " ".join(map(str, places)).encode()),
            _array(_INT2, ARRAYS[_INT2.oid]).binary,
        )
    if type_.endswith("[]"):
        element = WIRE_TYPES.get(SqlType.of(type_[:-2]).kind)
        oid = None if element is None else ARRAYS.get(element.oid)
        if element is not None and oid is not None:
            return _array(element, oid)
    return WIRE_TYPES.get(SqlType.of(type_).kind, _JSON)


def _array(element: WireType, oid: int) -> WireType:
    """Make the type of lists of one dimension."""

    def text(values: Iterable[object]) -> bytes:
        written = (b"NULL" if v is None else _quoted(element.text(v)) for v in values)
        return b"{" + b",".join(written) + b"}"

    def binary(values: Collection[object]) -> bytes:
        has_null = any(value is None for value in values)
        head = struct.pack("!iiI", 1 if values else 0, has_null, element.oid)
        if not values:
            return head
        return (
            head
            + struct.pack("!ii", len(values), 1)
            + b"".join(encoded_column(values, element, BINARY_FORMAT))
        )

    return WireType(f"_{element.name}", oid, -1, text, binary)


def _quoted(text: bytes) -> bytes:
    """Write an element of an array, in quotes where it could be read as something else."""
    if text and text.upper() != b"NULL" and not re.search(rb'[{}",\\\s]', text):
        return text
    return b'"' + re.sub(rb'(["\\])', rb"\\\1", text) + b'"'


def field_of(name: str, type_: str) -> WireColumn:
    """Describe a column of this name, and of this type of DuckDB's."""
    found = wire_type(type_)
    return WireColumn(name, found.oid, found.size)


def encoded_column(values: Iterable[object], type_: WireType, format_: int) -> list[bytes]:
    """Encode a column, each value with its length."""
    encode = type_.binary if format_ == BINARY_FORMAT else type_.text
    found = []
    for value in values:
        if value is None:
            found.append(_NULL)
        else:
            found.append(_with_length(encode, value))
    return found


def _with_length(encode: _Encode, value: object) -> bytes:
    """Encode a value with its length. Raises ``ProtocolError`` where it has no binary form."""
    try:
        written = encode(value)
        return _LENGTH(len(written)) + written
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error, InvalidOperation):
        pass
    # Outside the handler, so that its context quotes nothing.
    raise ProtocolError("a value is beyond its type on the wire: ask for a text of it", "22003")


# -- parameters ---------------------------------------------------------------------------------


def _truth(text: str) -> bool:
    word = text.strip().lower()
    if word in ("t", "true", "y", "yes", "on", "1"):
        return True
    if word in ("f", "false", "n", "no", "off", "0"):
        return False
    raise ValueError


def _decimal(body: bytes) -> Decimal:
    """Read PostgreSQL's binary numeric."""
    count, weight, sign, scale = struct.unpack_from("!hhHh", body)
    if sign not in (0, _NEGATIVE):
        return (
            Decimal("NaN")
            if sign == _NAN
            else Decimal("-Infinity" if sign == _MINUS_ENDLESS else "Infinity")
        )
    groups = struct.unpack_from(f"!{count}h", body, 8)
    # In whole numbers, as arithmetic of decimals rounds.
    last = weight - count + 1  # the power of the base of the last group
    whole = 0
    for group in groups:
        whole = whole * _BASE + group
    shift = 4 * last + scale
    whole = whole * 10**shift if shift >= 0 else whole // 10**-shift
    digits = tuple(map(int, str(whole)))
    return Decimal((1 if sign else 0, digits, -scale))


def _unpacked(form: str) -> _Decode:
    read = struct.Struct(form).unpack
    return lambda body: read(body)[0]


def _moment(body: bytes) -> datetime:
    (since,) = struct.unpack("!q", body)
    return _EPOCH + int(since) * _MICROSECOND


def _of_day(body: bytes) -> date:
    (days,) = struct.unpack("!i", body)
    return date.fromordinal(days + _FIRST_DAY)


def _in_text(read: Callable[[str], object]) -> _Decode:
    return lambda body: read(utf8(body))


def _bytes_of(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError
    return bytes.fromhex(text[2:])


@dataclass(frozen=True, slots=True)
class ParameterType:
    """How values of a type of parameters are read."""

    text: _Decode
    binary: _Decode


_AS_TEXT: Final = ParameterType(utf8, utf8)
PARAMETER_TYPES: Final = MappingProxyType(
    {
        **dict.fromkeys((0, 18, 19, 25, 114, 705, 1042, 1043), _AS_TEXT),
        16: ParameterType(_in_text(_truth), _unpacked("!?")),
        17: ParameterType(_in_text(_bytes_of), bytes),
        20: ParameterType(_in_text(int), _unpacked("!q")),
        21: ParameterType(_in_text(int), _unpacked("!h")),
        23: ParameterType(_in_text(int), _unpacked("!i")),
        26: ParameterType(_in_text(int), _unpacked("!I")),
        700: ParameterType(_in_text(float), _unpacked("!f")),
        701: ParameterType(_in_text(float), _unpacked("!d")),
        1082: ParameterType(_in_text(date.fromisoformat), _of_day),
        1114: ParameterType(_in_text(datetime.fromisoformat), _moment),
        1184: ParameterType(
            _in_text(datetime.fromisoformat), lambda body: _moment(body).replace(tzinfo=UTC)
        ),
        1700: ParameterType(_in_text(Decimal), _decimal),
        2950: ParameterType(_in_text(UUID), lambda body: UUID(bytes=body)),
    }
)
"""The types that parameters may have, by OID; 0 and 705 are values of no type, read as text."""


def _elements(element: int) -> ParameterType:
    """Make the type of parameters that are lists of one dimension."""
    kind = PARAMETER_TYPES[element]

    def text(body: bytes) -> list[object]:
        written = utf8(body).strip()
        if not (written.startswith("{") and written.endswith("}")):
            raise ValueError
        found: list[object] = []
        for quoted, bare in _ELEMENT.findall(written[1:-1]):
            if not quoted and bare.strip().upper() == "NULL":
                found.append(None)
            elif quoted or bare.strip():
                each = re.sub(r"\\(.)", r"\1", quoted[1:-1]) if quoted else bare.strip()
                found.append(kind.text(each.encode()))
        return found

    def binary(body: bytes) -> list[object]:
        dimensions, _, oid = struct.unpack_from("!iiI", body)
        if not dimensions:
            return []
        if dimensions > 1 or oid not in PARAMETER_TYPES:
            raise ValueError
        (count,) = struct.unpack_from("!i", body, 12)
        if not 0 <= count <= len(body):
            raise ValueError
        found: list[object] = []
        at = 20
        for _ in range(count):
            (length,) = struct.unpack_from("!i", body, at)
            at += 4
            if length < 0:
                found.append(None)
                continue
            found.append(PARAMETER_TYPES[oid].binary(body[at : at + length]))
            at += length
        return found

    return ParameterType(text, binary)


_ELEMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*")|([^,"{}]+)')
ARRAY_PARAMETERS: Final = MappingProxyType(
    {oid: _elements(element) for element, oid in ARRAYS.items() if element in PARAMETER_TYPES}
)
"""The types of parameters that are lists, by OID."""


_OF_CASTS: Final = MappingProxyType(
    {
        **dict.fromkeys(("bool", "boolean"), 16),
        **dict.fromkeys(("int2", "smallint"), 21),
        **dict.fromkeys(("int", "int4", "integer"), 23),
        **dict.fromkeys(("int8", "bigint"), 20),
        **dict.fromkeys(("float4", "real"), 700),
        **dict.fromkeys(("float8", "double", "double precision"), 701),
        **dict.fromkeys(("numeric", "decimal"), 1700),
        "date": 1082,
        "timestamp": 1114,
        "timestamptz": 1184,
        "timestamp with time zone": 1184,
        "uuid": 2950,
        "bytea": 17,
    }
)
_CAST: Final = re.compile(
    r"\$([0-9]{1,4})\s*::\s*(double precision|timestamp with time zone|\w+)(?!\w|\s*\[)",
    re.IGNORECASE,
)


def types_of_casts(text: str, number: int) -> tuple[int, ...]:
    """Return the OIDs of the types that parameters are cast to by ``$1::type``; 0 for none.

    What is no cast but stands inside of a text at worst lets a client send a value of that type.
    """
    found = dict.fromkeys(range(1, number + 1), 0)
    for place, type_ in _CAST.findall(text):
        if int(place) in found:
            found[int(place)] = found[int(place)] or _OF_CASTS.get(type_.lower(), 0)
    return tuple(found.values())


def parameter_of(body: bytes | None, oid: int, format_: int, place: int) -> object:
    """Read the value of a parameter. Raises ``ProtocolError`` for what is none of its type."""
    if body is None:
        return None
    known = PARAMETER_TYPES.get(oid) or ARRAY_PARAMETERS.get(oid)
    if known is None:
        raise ProtocolError(f"parameter ${place} has a type that is not known here", "0A000")
    try:
        return known.binary(body) if format_ == BINARY_FORMAT else known.text(body)
    except (ValueError, OverflowError, struct.error, InvalidOperation):
        pass
    # Outside the handler, so that its context quotes nothing.
    raise ProtocolError(f"the value of parameter ${place} is none of its type", "22P02")


def formats_of(given: Sequence[int], number: int) -> tuple[int, ...]:
    """Return a format for each of so many: none given is text, and one stands for all."""
    if len(given) <= 1:
        return tuple(given or (TEXT_FORMAT,)) * number
    if len(given) != number:
        raise ProtocolError("there are formats for another number of columns or parameters")
    return tuple(given)
