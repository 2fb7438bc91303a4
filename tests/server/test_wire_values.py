"""Values go as PostgreSQL itself sends them, as text and binary, and come back as they were."""

from __future__ import annotations

import struct
from typing import Any

import duckdb
import psycopg
import pytest
from helpers.postgresql_server import Server

import dpsql
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.server.wire.messages import ProtocolError
from dpsql.server.wire.values import (
    BINARY_FORMAT,
    OID_LIST,
    TEXT_FORMAT,
    encoded_column,
    parameter_of,
    types_of_casts,
    wire_type,
)

# The type in DuckDB, in PostgreSQL, and values in PostgreSQL's words.
VALUES = [
    ("BOOLEAN", "bool", ["true", "false"]),
    ("SMALLINT", "int2", ["0", "-32768", "32767"]),
    ("INTEGER", "int4", ["-2147483648", "7"]),
    ("BIGINT", "int8", ["9223372036854775807", "-1"]),
    (
        "DECIMAL(38,6)",
        "numeric(38,6)",
        ["0", "0.000001", "-1234567.890123", "10000", "99990000", "0.0001", "-0.5", "1"],
    ),
    ("HUGEINT", "numeric", ["170141183460469231731687303715884105727", "-10000", "0", "12"]),
    ("FLOAT", "float4", ["0.5", "-1.25", "NaN", "Infinity"]),
    ("DOUBLE", "float8", ["0.1", "100", "-Infinity", "NaN", "2.5"]),
    ("VARCHAR", "text", ["'é\n'", "''", "'it''s'"]),
    ("BLOB", "bytea", [r"'\x00ff41'", "''"]),
    ("DATE", "date", ["'2026-11-29'", "'0001-01-01'", "'1999-12-31'"]),
    ("TIMESTAMP", "timestamp", ["'2026-11-29 12:13:14.5'", "'1900-01-01 00:00:00'"]),
    ("TIMESTAMP WITH TIME ZONE", "timestamptz", ["'2026-11-29 12:13:14+00'"]),
    ("TIME", "time", ["'23:59:59.999999'", "'00:00:00'"]),
    ("UUID", "uuid", ["'12345678-1234-5678-1234-567812345678'"]),
    ("VARCHAR[]", "text[]", [r"""'{a,"b c",NULL,"NULL","","q\"\\x","{,}"}'""", "'{}'"]),
    ("INTEGER[]", "int4[]", ["'{1,NULL,-3}'", "'{}'"]),
    ("BOOLEAN[]", "bool[]", ["'{t,f}'"]),
    ("DOUBLE[]", "float8[]", ["'{0.5,NaN,Infinity}'"]),
    (
        "INTERVAL",
        "interval",
        ["'3 days 04:05:06'", "'00:00:01'", "'1 day'", "'2 days'", "'-02:00:00.5'"],
    ),
]


NOBODY = Policy("nobody", accounts={"ana": AccountPolicy("ana", 1.0, 1e-6)}, tables={})

# The same, of values that Python has not, which DuckDB has a text for.
BEYOND_PYTHON = [
    ("DATE", "date", ["infinity", "-infinity", "20000-01-01"]),
    ("TIMESTAMP", "timestamp", ["infinity", "-infinity", "20000-01-01 00:00:01.5"]),
    ("TIMESTAMP WITH TIME ZONE", "timestamptz", ["infinity", "-infinity"]),
    ("DATE[]", "date[]", ["{infinity,-infinity}"]),
    (
        "INTERVAL",
        "interval",
        [
            *("1 month", "14 months", "-14 months", "1 year -2 months", "-1 months 2 days"),
            *("1 month 1 day 00:00:01.5", "-1 year 3 days -02:30:00", "1 month -00:00:00.000001"),
            *("-1 month 02:00:00", "100 years 1 day", "1 month 300:00:00"),
        ],
    ),
]


@pytest.fixture(scope="module")
def real(postgres_server: Server) -> Any:
    with psycopg.connect(postgres_server.url("postgres")) as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection


def sent(connection: Any, sql: str, *, binary: bool) -> tuple[bytes | None, Any, int]:
    """What PostgreSQL sends for a value, the value in Python, and its OID."""
    cursor = connection.cursor(binary=binary)
    value = cursor.execute(sql).fetchone()[0]
    found = cursor.pgresult
    return found.get_value(0, 0), value, found.ftype(0)


@pytest.mark.slow
@pytest.mark.parametrize(("duckdb", "postgresql", "texts"), VALUES, ids=lambda v: str(v)[:12])
@pytest.mark.parametrize("format_", [TEXT_FORMAT, BINARY_FORMAT], ids=["text", "binary"])
def test_a_value_goes_as_postgresql_sends_it(
    duckdb: str, postgresql: str, texts: list[str], format_: int, real: Any
) -> None:
    type_ = wire_type(duckdb)
    for text in texts:
        sql = (
            f"SELECT {text}::{postgresql}"
            if text.startswith("'")
            else f"SELECT '{text}'::{postgresql}"
        )
        body, value, oid = sent(real, sql, binary=format_ == BINARY_FORMAT)
        assert type_.oid == oid
        assert body is not None
        assert encoded_column([value, None], type_, format_) == [
            struct.pack("!i", len(body)) + body,
            struct.pack("!i", -1),
        ]


@pytest.mark.slow
@pytest.mark.parametrize(("type_", "postgresql", "texts"), BEYOND_PYTHON)
@pytest.mark.parametrize("format_", [TEXT_FORMAT, BINARY_FORMAT], ids=["text", "binary"])
def test_a_value_that_python_lacks_goes_as_postgresql_sends_it(
    type_: str, postgresql: str, texts: list[str], format_: int, real: Any
) -> None:
    for text in texts:
        cursor = real.cursor(binary=format_ == BINARY_FORMAT)
        cursor.execute(f"SELECT '{text}'::{postgresql}")
        body = cursor.pgresult.get_value(0, 0)
        in_duckdb = text.replace("{", "[").replace("}", "]")
        with dpsql.connect(dpsql.DuckDBEngine(), NOBODY, None, "ana") as connection:
            ((value,),) = connection.sql(f"SELECT '{in_duckdb}'::{type_} AS v").fetchall()
        assert encoded_column([value], wire_type(type_), format_) == [
            struct.pack("!i", len(body)) + body
        ], text


@pytest.mark.parametrize("text", ["", "month", "1 month more", "1:2", "--1 month"])
def test_what_is_no_length_of_time_is_refused_without_it(text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        encoded_column([text], wire_type("INTERVAL"), BINARY_FORMAT)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("duckdb", "postgresql", "texts"),
    [each for each in VALUES if each[0] not in ("TIME", "INTERVAL")],
    ids=lambda v: str(v)[:12],
)
def test_a_parameter_comes_back_as_it_was(
    duckdb: str, postgresql: str, texts: list[str], real: Any
) -> None:
    for text in texts:
        sql = f"SELECT {text if text.startswith(chr(39)) else repr(text)}::{postgresql}"
        for binary in (False, True):
            body, value, oid = sent(real, sql, binary=binary)
            assert repr(parameter_of(body, oid, int(binary), 1)) in (
                repr(value),
                repr(value).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc"),
            )


@pytest.mark.parametrize(
    ("body", "oid", "format_", "sqlstate"),
    [
        (b"x", 23, TEXT_FORMAT, "22P02"),
        (b"abc", 23, BINARY_FORMAT, "22P02"),
        (b"\xff", 25, TEXT_FORMAT, "22021"),
        (b"2026-13-01", 1082, TEXT_FORMAT, "22P02"),
        (b"\x7f" * 8, 1114, BINARY_FORMAT, "22P02"),
        (b"x", 600, TEXT_FORMAT, "0A000"),
        (b"1,2", 1007, TEXT_FORMAT, "22P02"),
        (b"{1,x}", 1007, TEXT_FORMAT, "22P02"),
        (b"\0\0\0\1", 1007, BINARY_FORMAT, "22P02"),
        (b"\0\0\0\1\0\0\0\0\0\0\0\x17\x7f\xff\xff\xff", 1007, BINARY_FORMAT, "22P02"),
        (b"\0\0\0\2\0\0\0\0\0\0\0\x17" + bytes(20), 1007, BINARY_FORMAT, "22P02"),
    ],
)
def test_what_is_no_value_of_its_type_is_refused_without_it(
    body: bytes, oid: int, format_: int, sqlstate: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        parameter_of(body, oid, format_, 1)
    assert caught.value.sqlstate == sqlstate
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("SELECT $1", (0,)),
        ("a > $1::float8 AND b < $2 :: Date", (701, 1082)),
        ("a > $2::double precision AND b = $1::numeric(5, 2)", (1700, 701)),
        ("$1::timestamp with time zone, $2::timestamp", (1184, 1114)),
        ("$1::bigint[], $2::ward, $3::int", (0, 0, 23)),
        ("$1, $1::int, $1::text, $9::int", (23,)),
    ],
)
def test_casts_tell_the_types_of_parameters(text: str, types: tuple[int, ...]) -> None:
    assert types_of_casts(text, len(types)) == types


def test_lists_of_numbers_of_catalogs_are_of_oids() -> None:
    listed = wire_type(OID_LIST)
    assert (listed.oid, listed.text([11, 2200])) == (1028, b"{11,2200}")
    assert parameter_of(listed.binary([11, 2200]), 1028, 1, 1) == [11, 2200]


@pytest.mark.parametrize(
    ("duckdb_type", "text", "postgresql"),
    [
        ("DATE", "0044-03-15 (BC)", "0044-03-15 BC"),
        ("DATE", "0001-12-31 (BC)", "0001-12-31 BC"),
        ("DATE", "0005-02-29 (BC)", "0005-02-29 BC"),
        ("DATE", "4713-01-01 (BC)", "4713-01-01 BC"),
        ("DATE", "10000-02-29", "10000-02-29"),
        ("DATE", "12345-06-07", "12345-06-07"),
        ("TIMESTAMP", "0044-03-15 (BC) 12:30:00.25", "0044-03-15 12:30:00.25 BC"),
        ("TIMESTAMP", "12000-01-01 01:02:03.5", "12000-01-01 01:02:03.5"),
        ("TIMESTAMP WITH TIME ZONE", "0044-03-15 (BC) 12:30:00+00", "0044-03-15 12:30:00+00 BC"),
    ],
)
def test_moments_beyond_those_of_python_go_as_postgresql_sends_them(
    duckdb_type: str, text: str, postgresql: str, real: Any
) -> None:
    with duckdb.connect() as con:
        con.execute("SET timezone = 'UTC'")
        ((value,),) = con.execute(f"SELECT '{text}'::{duckdb_type}").fetchall()
    assert isinstance(value, str)
    type_ = wire_type(duckdb_type)
    for format_ in (TEXT_FORMAT, BINARY_FORMAT):
        cursor = real.cursor(binary=format_ == BINARY_FORMAT)
        cursor.execute(f"SELECT '{postgresql}'::{type_.name}")
        body = cursor.pgresult.get_value(0, 0)
        assert encoded_column([value], type_, format_) == [struct.pack("!i", len(body)) + body]


def test_a_text_that_is_no_moment_has_no_binary_form() -> None:
    for text in ("soon", "0044-13-15 (BC)", "0044-02-30 (BC)", "0044-03-15 BC", ""):
        with pytest.raises(ProtocolError):
            encoded_column([text], wire_type("DATE"), BINARY_FORMAT)
