"""Which statements are over catalogs, and how they are spelled for a room."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from dpsql.core.schema import Column, Table, schema_of
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName
from dpsql.errors import NotSupportedError
from dpsql.policy.load import parse_policy
from dpsql.server.catalog.asking import CatalogAsking
from dpsql.server.catalog.macros import CATALOG_FUNCTIONS
from dpsql.server.catalog.room import CatalogRoom
from dpsql.server.catalog.rows import catalog_rows, oids_of
from dpsql.server.catalog.structure import structure
from dpsql.syntax.catalog_spelling import (
    CatalogNames,
    CatalogSpeaker,
    catalog_query,
    shape_of,
)

POLICY = parse_policy(
    """
version: 1
dataset: clinic
accounts: {ana: {epsilon: 1, delta: 1e-6}}
tables:
  visits:
    privacy_unit: {name: patient, column: patient_id}
    columns: {cost: {lower: 0, upper: 100}, ward: {domain: [a, b]}}
  mart.facts: {public: true}
  pg_user: {public: true}
"""
)


def table(name: TableName | str, **columns: str) -> Table:
    return Table(name, tuple(Column(n, SqlType.of(t)) for n, t in columns.items()))


SCHEMA = schema_of(
    table("visits", patient_id="BIGINT", cost="DECIMAL(9,2)", ward="VARCHAR", tags="VARCHAR[]"),
    table(TableName("facts", "mart"), Day="DATE", raw="STRUCT(a INTEGER)"),
    table("pg_user", a="INTEGER"),
)
NAMES = CatalogNames(structure().names, CATALOG_FUNCTIONS, frozenset(POLICY.tables))
ANA = CatalogSpeaker("ana", "clinic", "PostgreSQL 15.0")


@pytest.fixture(scope="module")
def room() -> Iterator[CatalogRoom]:
    found = CatalogRoom(structure(), POLICY, SCHEMA)
    yield found
    found.close()


def ask(room: CatalogRoom, text: str, *values: object) -> list[tuple[object, ...]]:
    query = catalog_query(text, NAMES)
    assert query is not None
    written = query.spelled(values, ANA)
    answer = room.ask(written, CatalogAsking(), rows=True)
    planned = room.ask(query.spelled(None, ANA), CatalogAsking(), rows=False)
    assert planned.columns == answer.columns
    return answer.fetchall()


# -- which statements -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE ward = 'pg_catalog.pg_class'",
        "SELECT COUNT(*) FROM visits -- FROM pg_class",
        "SELECT COUNT(*) AS pg_class FROM visits",
        "SELECT pg_class, COUNT(*) FROM visits GROUP BY pg_class",
        "SELECT version, COUNT(*) FROM visits GROUP BY version",
        "SELECT COUNT(*) FROM visits WHERE who = current_user",
        "SELECT a FROM pg_user",
        'SELECT COUNT(*) FROM "pg_catalog.pg_class"',
        "SELECT COUNT(*) FROM mart.pg_class",
        "WITH pg_class AS (SELECT 1 AS a) SELECT a FROM pg_class",
        "SHOW TABLES",
        "SET search_path = pg_catalog",
        "EXPLAIN SELECT * FROM pg_class",
        "SELECT 'pg_class",
        "SELECT (" * 200 + "current_user" + ")" * 200,
        "",
    ],
)
def test_others_go_to_the_session(text: str) -> None:
    assert catalog_query(text, NAMES) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM pg_class",
        "SELECT * FROM PG_CATALOG.Pg_Class",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM pg_catalog.pg_user",
        "SELECT current_schemas(true)",
        "SELECT pg_catalog.set_config('jit', 'off', false)",
        "SELECT 'int4'::regtype",
        "WITH t AS (SELECT * FROM pg_type) SELECT * FROM t",
        "(SELECT 1 FROM pg_am) UNION ALL (SELECT 2 FROM pg_class)",
    ],
)
def test_these_are_over_catalogs(text: str) -> None:
    assert catalog_query(text, NAMES) is not None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM pg_class, visits",
        "SELECT * FROM pg_catalog.pg_user, pg_user",
        "SELECT (SELECT COUNT(*) FROM visits) FROM pg_class",
        "SELECT * FROM pg_class WHERE oid IN (SELECT patient_id FROM visits)",
        "SELECT * FROM pg_catalog.pg_class WHERE (",
        "SELECT * INTO t FROM pg_class",
        "WITH d AS (DELETE FROM pg_class RETURNING oid) SELECT * FROM d",
        "SELECT * FROM pg_class FOR UPDATE",
        "SELECT * FROM pg_class WHERE oid = $0",
        "SELECT * FROM pg_class WHERE oid = $99999",
        "SELECT * FROM pg_catalog.pg_class WHERE oid = 1" + " + 1" * 5_000,
    ],
)
def test_these_are_refused(text: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        catalog_query(text, NAMES)
    assert caught.value.code == "catalog_query"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT pg_read_file('x') FROM pg_class",
        "SELECT pg_catalog.lo_export(1, 'x')",
        "SELECT * FROM pg_class WHERE relname OPERATOR(pg_catalog.@@) 'x'",
        "SELECT * FROM pg_class, pg_ls_dir('.')",
        "SELECT getvariable('x') FROM pg_class",
        "SELECT * FROM pg_class WHERE relkind = ANY('r')",
    ],
)
def test_what_no_room_knows_is_refused_when_it_is_spelled(text: str) -> None:
    query = catalog_query(text, NAMES)
    if query is not None:
        with pytest.raises(NotSupportedError):
            query.spelled((), ANA)


# -- what they say --------------------------------------------------------------------------------

TWO = "SELECT relname FROM pg_class WHERE relnamespace > 13207 OR relname = 'visits' ORDER BY 1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWO, [("facts",), ("visits",)]),
        ("SELECT current_user, current_database(), version()", [("ana", "clinic", ANA.version)]),
        ("SELECT 'visits'::regclass::text, 'mart.facts'::regclass", [("visits", "mart.facts")]),
        ("SELECT 'facts'::regclass::oid", [(None,)]),
        ("SELECT oid::regclass FROM pg_class WHERE relname = 'facts'", [("mart.facts",)]),
        ("SELECT 'pg_class'::regclass::oid, 'numeric[]'::regtype::oid", [(1259, 1231)]),
        ("SELECT tableoid FROM pg_class WHERE relname = 'visits'", [(1259,)]),
        ("SELECT typname FROM pg_type WHERE typinput = 'int4in'::regproc", [("int4",)]),
        ("SELECT COUNT(*) FROM pg_type WHERE typanalyze <> 0 AND typname = 'int4'", [(0,)]),
        ("SELECT pg_catalog.pg_type.oid FROM pg_catalog.pg_type WHERE typname = 'date'", [(1082,)]),
        (
            "SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^(vis.*)$'"
            " COLLATE pg_catalog.default",
            [("visits",)],
        ),
        ("SELECT count(*) FROM pg_class WHERE relname !~ 'a|e|i|o|u|pg'", [(0,)]),
        ("SELECT rolname FROM pg_roles ORDER BY 1", [("ana",), ("owner",)]),
        ("SELECT pg_get_userbyid(10), pg_get_userbyid(16384)", [("owner", "ana")]),
        (
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid ="
            " 'visits'::regclass AND attnum > 0 ORDER BY attnum",
            [("bigint",), ("numeric(9,2)",), ("text",), ("text[]",)],
        ),
        (
            "SELECT column_name, data_type, numeric_scale FROM information_schema.columns"
            " WHERE table_schema = 'mart' ORDER BY ordinal_position",
            [("Day", "date", None), ("raw", "json", None)],
        ),
        (
            "SELECT obj_description('visits'::regclass, 'pg_class'),"
            " col_description('visits'::regclass, 2)",
            [("private: protects each patient", "0 to 100")],
        ),
        ("SELECT has_table_privilege('visits', 'SELECT')", [(True,)]),
        ("SELECT has_table_privilege('ana', 'visits', 'INSERT')", [(False,)]),
        (
            "SELECT array_to_string(ARRAY(SELECT amname FROM pg_am WHERE oid < 404), ', ')",
            [("heap, btree",)],
        ),
        ("SELECT quote_ident('a b'), parse_ident('a.\"b\"')", [('"a b"', ["a", "b"])]),
        ("SELECT * FROM unnest(current_schemas(false))", [("public",)]),
        (
            "SELECT schemaname, relname, n_live_tup FROM pg_stat_user_tables WHERE relname ~ 'v'",
            [("public", "visits", 0)],
        ),
        ("SELECT DISTINCT reltuples, relpages FROM pg_class", [(-1.0, 0)]),
        ("SELECT count(*) > 400 FROM pg_get_keywords()", [(True,)]),
        ("SELECT setting FROM pg_settings WHERE name = 'server_version_num'", [("150000",)]),
    ],
)
def test_a_room_answers(text: str, expected: list[tuple[object, ...]], room: CatalogRoom) -> None:
    assert ask(room, text) == expected


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("relname = $1", ("visits",)),
        ("relname = $1::varchar AND relkind = ANY($2)", ("visits", ["r", "v"])),
        ("relname = ANY($1)", ('{"visits",x}',)),
        ("oid = $1::regclass", ("visits",)),
        ("oid = to_regclass($1) AND $2", ("public.visits", True)),
        ("relname = $1 AND reltuples < $2 AND $3 IS NULL", ("visits", Decimal("0.5"), None)),
        ("relname = $2 AND relname <> $1", ("x' OR true --", "visits")),
    ],
)
def test_parameters_are_values(
    condition: str, values: tuple[object, ...], room: CatalogRoom
) -> None:
    text = f"SELECT relname FROM pg_class WHERE {condition}"
    assert ask(room, text, *values) == [("visits",)]


@pytest.mark.slow
def test_columns_have_the_names_that_postgresql_gives() -> None:
    text = (
        "SELECT pg_get_userbyid(relowner), oid::regclass, relname::text, 1, 'a'::text, "
        "CASE WHEN true THEN 1 END, count(*) OVER (), array_agg(1) OVER (), version(), "
        "(SELECT relkind), coalesce(relname), relname || 'a', current_schema, "
        "array(SELECT 1), (SELECT max(oid) FROM pg_am) FROM pg_class"
    )
    room = CatalogRoom(structure(), POLICY, SCHEMA)
    query = catalog_query(text, NAMES)
    assert query is not None
    assert room.ask(query.spelled((), ANA), CatalogAsking(), rows=False).columns == (
        *("pg_get_userbyid", "oid", "relname", "?column?", "text", "case", "count", "array_agg"),
        *("version", "relkind", "coalesce", "?column?", "current_schema", "array", "max"),
    )
    room.close()


def test_numbers_are_the_same_after_each_start() -> None:
    one = oids_of(["table visits", "table wards"])
    assert oids_of(["table wards", "x", "table visits"]).items() >= one.items()
    assert len(set(oids_of(map(str, range(5_000))).values())) == 5_000
    assert all(16_384 < oid < 2**31 for oid in one.values())
    assert catalog_rows(structure(), POLICY, SCHEMA) == catalog_rows(structure(), POLICY, SCHEMA)


@pytest.mark.slow
def test_a_shape_has_no_values() -> None:
    shape = shape_of("SELECT a FROM pg_class WHERE b = 'Jane Doe' AND c = 42 AND d = $$x$$ -- Joe")
    assert shape.startswith("SELECT a FROM pg_class WHERE b = ? AND c = ? AND d =")
    assert not any(word in shape for word in ("Jane", "42", "x$", "Joe"))
    assert shape_of("SELECT 'a") == ""
