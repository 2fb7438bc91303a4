# ruff: noqa: E501
"""Column types of the attacked tables, an ordinary value of each, and values that break engines.

All are SQL. The nasty ones stand in one unit's rows, and as constants in statements. Two markers
stand among them: where one comes out in a text that is not an answer, a value of a row did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MARKS: Final = ("zqm7", "731623117")
"""A text and a number that no statement holds."""
TARGET: Final = 27
"""The unit in which the two databases differ."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A column: its name, its type, an ordinary value that depends on ``i``, and nasty ones."""

    name: str
    type: str
    ordinary: str
    nasty: tuple[str, ...]

    @property
    def constants(self) -> tuple[str, ...]:
        """Values that may stand in a statement: the nasty ones but for the markers."""
        plain = [
            v for v in self.nasty if not any(mark in v for mark in MARKS) and "repeat" not in v
        ]
        return tuple(self._literal(value) for value in plain)

    def _literal(self, value: str) -> str:
        if value.startswith("'") and self.type != "VARCHAR":
            return f"CAST({value} AS {self.type})"
        return value


def _integers(name: str, type_: str, low: int, high: int) -> Kind:
    edges = [low, high, low + 1, high - 1, 0, 1, -1 if low < 0 else 2]
    marked = [MARKS[1]] if high > 731623117 else []
    crossing = [2**k for k in (31, 53, 63, 127) if low <= 2**k <= high]
    values = dict.fromkeys([*(f"'{v}'" for v in [*edges, *crossing]), *marked])
    return Kind(name, type_, "i % 20", tuple(values))


_DATES = (
    "'5877642-06-25 (BC)'",
    "'5881580-07-10'",
    "'infinity'",
    "'-infinity'",
    "'0001-01-01 (BC)'",
    "'1970-01-01'",
    "'2024-02-29'",
    "'9999-12-31'",
    "'0000-01-01'",
)
_STAMPS = (
    "'290309-12-22 (BC) 00:00:00'",
    "'294247-01-10 04:00:54.775806'",
    "'infinity'",
    "'-infinity'",
    "'1969-12-31 23:59:59.999999'",
    "'2024-02-29 12:00:00'",
    "'0044-03-15 (BC) 10:00:00'",
)
_WHOLE = (_STAMPS[0], "'294247-01-10 04:00:54'", *_STAMPS[2:])
_NANOS = (
    "'1677-09-22 00:00:00'",
    "'2262-04-11 23:47:16.854775806'",
    "'infinity'",
    "'-infinity'",
    "'1970-01-01'",
)
_TEXTS = (
    "''", "' '", "'bad'", "chr(0)", "'a' || chr(0) || 'b'", "repeat('9', 100000)", f"'{MARKS[0]}'", "'😀'", "'é'", "'e' || chr(769)", "'HIV'", "'hiv'",
    "'NaN'", "'inf'", "'1e400'", "'-9223372036854775809'", "'true'", "' 3 '", "'0x1F'", "'2024-13-45'", "'infinity'", "'5877642-06-25 (BC)'", "'%'", "'_'", "'\\'", "'[1, 2]'", "'{\"a\": 1}'",
    "'340282366920938463463374607431768211455'", "'1 day'", "'00:00:00'", "'year'", "'(((('", "chr(1114111)", "'1.5'", "'9'",
)  # fmt: skip
_FLOATS = (
    "'nan'",
    "'inf'",
    "'-inf'",
    "'-0.0'",
    "0.0",
    "1.0",
    "-1.0",
    "0.1",
    "9007199254740993",
    "'9223372036854775807'",
    "'1e15'",
    "'-1e15'",
)
_INTERVALS = (
    "INTERVAL '-178956970 years -8 months'", "INTERVAL '178956970 years 7 months'", "INTERVAL '2147483647 days'", "INTERVAL '-2147483648 days'", "INTERVAL '9223372036854775807 microseconds'",
    "INTERVAL '-9223372036854775807 microseconds'", "INTERVAL '0 days'", "INTERVAL '30 days'", "INTERVAL '1 month'", "INTERVAL '720 hours'", "INTERVAL '178956970 years 7 months 2147483647 days 9223372036854775807 microseconds'",
)  # fmt: skip

SCALARS: Final = (
    _integers("i8", "TINYINT", -(2**7), 2**7 - 1),
    _integers("i16", "SMALLINT", -(2**15), 2**15 - 1),
    _integers("i32", "INTEGER", -(2**31), 2**31 - 1),
    _integers("i64", "BIGINT", -(2**63), 2**63 - 1),
    _integers("i128", "HUGEINT", -(2**127), 2**127 - 1),
    _integers("u8", "UTINYINT", 0, 2**8 - 1),
    _integers("u16", "USMALLINT", 0, 2**16 - 1),
    _integers("u32", "UINTEGER", 0, 2**32 - 1),
    _integers("u64", "UBIGINT", 0, 2**64 - 1),
    _integers("u128", "UHUGEINT", 0, 2**128 - 1),
    Kind("f32", "FLOAT", "i % 13 - 2.0", (*_FLOATS, "'3.4028235e38'", "'-3.4028235e38'", "'1e-45'")),
    Kind("f64", "DOUBLE", "i % 13 - 2.0", (*_FLOATS, "'1.7976931348623157e308'", "'-1.7976931348623157e308'", "'5e-324'", "'2.2250738585072014e-308'", "'1e-306'", "'1e300'")),
    Kind("dec4", "DECIMAL(4, 1)", "i % 50", ("'999.9'", "'-999.9'", "0", "'0.1'", "'-0.1'")),
    Kind("dec9", "DECIMAL(9, 9)", "0.5", ("'0.999999999'", "'-0.999999999'", "0", "'0.000000001'")),
    Kind("dec18", "DECIMAL(18, 3)", "i % 50", ("'999999999999999.999'", "'-999999999999999.999'", "0", "'0.001'")),
    Kind("dec38", "DECIMAL(38, 0)", "i % 50", (f"'{'9' * 38}'", f"'-{'9' * 38}'", "0", "1")),
    Kind("deep", "DECIMAL(38, 37)", "1.5", (f"'9.{'9' * 37}'", f"'-9.{'9' * 37}'", "0", f"'0.{'0' * 36}1'")),
    Kind("b", "BOOLEAN", "i % 2 = 0", ("TRUE", "FALSE")),
    Kind("s", "VARCHAR", "'s' || (i % 5)", _TEXTS),
    Kind("s2", "VARCHAR", "CAST(i % 7 AS VARCHAR)", _TEXTS[::-1]),
    Kind("d", "DATE", "DATE '2024-01-01' + CAST(i % 50 AS INTEGER)", _DATES),
    Kind("d2", "DATE", "DATE '2024-01-05' + CAST(i % 9 AS INTEGER)", _DATES[1:] + _DATES[:1]),
    Kind("tm", "TIME", "TIME '12:00:00' + to_minutes(i % 60)", ("'00:00:00'", "'24:00:00'", "'23:59:59.999999'")),
    Kind("tmtz", "TIME WITH TIME ZONE", "'12:00:00+01'", ("'00:00:00+15:59:59'", "'24:00:00-15:59:59'", "'23:59:59.999999+00'")),
    Kind("ts", "TIMESTAMP", "TIMESTAMP '2024-01-01' + to_hours(i % 99)", _STAMPS),
    Kind("ts2", "TIMESTAMP", "TIMESTAMP '2024-01-03' + to_hours(i % 9)", _STAMPS[1:] + _STAMPS[:1]),
    Kind("ts_s", "TIMESTAMP_S", "'2024-01-01'", _WHOLE),
    Kind("ts_ms", "TIMESTAMP_MS", "'2024-01-01'", _WHOLE),
    Kind("ts_ns", "TIMESTAMP_NS", "'2024-01-01'", _NANOS),
    Kind("tz", "TIMESTAMP WITH TIME ZONE", "'2024-01-01 00:00:00+00'", tuple(f"{v[:-1]}+00'" if v[1].isdigit() else v for v in _STAMPS)),
    Kind("iv", "INTERVAL", "to_days(CAST(i % 9 AS INTEGER))", _INTERVALS),
    Kind("e", "ENUM('red', 'green', 'blue')", "['red', 'green', 'blue'][1 + i % 3]", ("'red'", "'blue'")),
    Kind("id", "UUID", "'00000000-0000-0000-0000-00000000000' || (i % 10)", ("'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'00000000-0000-0000-0000-000000000000'", "'80000000-0000-0000-0000-000000000000'")),
    Kind("blob", "BLOB", "'a'", ("'\\x00\\xFF'", "''", "'\\xFF\\xFE'", f"'{MARKS[0]}'")),
)  # fmt: skip

ODD: Final = (
    Kind("bit", "BIT", "'101'", ("'0'", "'1'", "'1111111111111111111111111111111111111111111111111111111111111111111'")),
    Kind("bn", "BIGNUM", "'5'", (f"'{'9' * 200}'", f"'-{'9' * 200}'", "'0'")),
    Kind("j", "JSON", "'{\"a\": 1}'", ("'null'", "'[1, \"x\"]'", "'\"1\"'", "'{}'", "'1e400'", f"'\"{MARKS[0]}\"'")),
    Kind("li", "INTEGER[]", "[1, 2]", ("[]", "[NULL]", "[2147483647, -2147483648]", "range(1000)")),
    Kind("ld", "DOUBLE[]", "[1.5]", ("[]", "['nan'::DOUBLE]", "['-0.0'::DOUBLE]", "['inf'::DOUBLE, NULL]")),
    Kind("ls", "VARCHAR[]", "['a']", ("[]", "['']", f"['{MARKS[0]}']", "[chr(0)]")),
    Kind("st", "STRUCT(a INTEGER, b VARCHAR)", "{'a': 1, 'b': 'x'}", ("{'a': NULL, 'b': ''}", f"{{'a': 2147483647, 'b': '{MARKS[0]}'}}")),
    Kind("mp", "MAP(VARCHAR, INTEGER)", "MAP {'a': 1}", ("MAP {}", f"MAP {{'{MARKS[0]}': 2}}", "MAP {'': 2147483647}")),
    Kind("ar", "INTEGER[3]", "[1, 2, 3]", ("[NULL, 2, 3]", "[2147483647, 0, -2147483648]")),
    Kind("un", "UNION(n INTEGER, t VARCHAR)", "union_value(n := 1)", ("union_value(t := '')", f"union_value(t := '{MARKS[0]}')", "union_value(n := -2147483648)")),
    Kind("vr", "VARIANT", "1::VARIANT", ("'x'::VARIANT", "'nan'::DOUBLE::VARIANT", "[1]::VARIANT")),
    Kind("tmns", "TIME_NS", "'12:00:00'", ("'00:00:00'", "'24:00:00'", "'23:59:59.999999999'")),
)  # fmt: skip

EXTREMES: Final = (
    "0", "5e-324", "1e-306", "1e-300", "1e-100", "1e-15", "1e-9", "0.1", "1", "2", "7", "10", "100", "255", "65536", "2147483647", "2147483648", "9007199254740992",
    "1e12", "1e14", "1.5e14", "5e14", "9e14", "1e15", "1.0000001e15", "1e16", "4611686018427387904", "9223372036854775807", "9223372036854775808", "1e18", "1e38", "1e308", "1e309",
)  # fmt: skip
"""Sizes of bounds that analysts give."""
