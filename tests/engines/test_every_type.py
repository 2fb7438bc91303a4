"""No type of a column leads to an error of dpsql's own: it is answered, or refused early."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest
from helpers.installed_duckdb import OF_ALL_TYPES
from helpers.postgresql_server import Server
from postgresql_world import READER, PostgreSQLWorld

import dpsql

PLAIN = (
    *("BOOLEAN", "TINYINT", "HUGEINT", "UHUGEINT", "DOUBLE", "DECIMAL(38,5)", "VARCHAR", "BLOB"),
    *("BIT", "UUID", "DATE", "TIME", "TIMETZ", "TIME_NS", "TIMESTAMP_NS", "TIMESTAMPTZ"),
    *("INTERVAL", "BIGNUM", "JSON", "ENUM('a', 'b')", "VARIANT", "GEOMETRY"),
    "UNION(n INTEGER, s VARCHAR)",
)
NESTED = ("{}[]", "{}[3]", "STRUCT(a {}, b INTEGER)", "MAP(VARCHAR, {})")
TWICE = ("BIT[3][2]", "STRUCT(a BIT[3])", "STRUCT(a TIMETZ)[3]", "INTERVAL[][3]", "INTEGER[3][]")
TYPES = (*PLAIN, *(each.format(one) for one in PLAIN for each in NESTED), *TWICE)
QUESTIONS = (
    "SELECT c, COUNT(*) FROM t GROUP BY c",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2) c, COUNT(*) "
    "FROM t GROUP BY c",
    "SELECT DISTINCT c FROM t",
    "SELECT COUNT(DISTINCT c) FROM t",
    "SELECT COUNT(c) FROM t WHERE c IS NOT NULL",
    "SELECT COUNT(*) FROM t WHERE c = c",
    "SELECT COUNT(*) FROM (SELECT DISTINCT u, c FROM t) AS s",
    "SELECT SUM(c, contribution_bounds_per_row => (0, 10)) FROM t",
)
POLICY = """
version: 1
dataset: d
defaults: {epsilon: 0.01, delta: 1e-9, max_rows_contributed: 10}
accounts: {ana: {epsilon: 1000, delta: 1e-3}}
tables: {t: {privacy_unit: {name: person, column: u}}}
"""


def outcome(connection: dpsql.Connection, question: str) -> dpsql.Error | None:
    try:
        connection.sql(question)
    except dpsql.Error as error:
        return error
    return None


def require_early(connection: dpsql.Connection) -> None:
    """Ask everything of a column: what is not answered is refused for nothing."""
    for question in QUESTIONS:
        before = connection.budget().rho_spent
        error = outcome(connection, question)
        if error is not None:
            assert isinstance(error, dpsql.QueryRefused | dpsql.UnknownName), (question, error)
            assert connection.budget().rho_spent == before, question


@pytest.mark.slow
@pytest.mark.few(30)
@pytest.mark.parametrize("type_", TYPES)
def test_a_column_of_any_type_is_answered_or_refused_for_what_it_is(
    type_: str, tmp_path: Path
) -> None:
    with duckdb.connect(tmp_path / "d.duckdb", config=OF_ALL_TYPES) as database:
        database.execute(f"CREATE TABLE t (u BIGINT, c {type_})")
        database.execute("INSERT INTO t SELECT i % 50, NULL FROM range(200) AS r(i)")
    policy, ledger = dpsql.parse_policy(POLICY), tmp_path / "b.db"
    with dpsql.connect(tmp_path / "d.duckdb", policy, ledger, analyst="ana") as connection:
        require_early(connection)


SERVER_TYPES = (
    *("boolean", "smallint", "bigint", "real", "double precision", "numeric", "numeric(9,2)"),
    *("numeric(1000,3)", "numeric(3,-2)", "money", "text", "varchar(5)", "char(3)", '"char"'),
    *("name", "bytea", "bit(3)", "varbit", "uuid", "date", "time", "timetz", "timestamp(3)"),
    *("timestamptz", "interval", "interval year to month", "json", "jsonb", "jsonpath", "xml"),
    *("inet", "cidr", "macaddr", "macaddr8", "point", "line", "box", "circle", "polygon", "path"),
    *("tsvector", "tsquery", "int4range", "numrange", "tstzrange", "int4multirange", "oid"),
    *("regclass", "xid8", "pg_lsn", "tid", "void_like", "integer[]", "text[]", "integer[3]"),
    *("mood", "mood[]", "pair", "pair[]", "positive", "words", "stamps", "positive[]", "of_pair"),
    *('text COLLATE "C"', "folded", "refcursor", "pg_snapshot", "aclitem"),
)
SERVER_SETUP = """
CREATE TYPE mood AS ENUM ('a', 'b');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN words AS text;
CREATE DOMAIN stamps AS timestamptz NOT NULL DEFAULT now();
CREATE DOMAIN of_pair AS pair;
CREATE DOMAIN void_like AS numeric(4,2);
CREATE COLLATION folds (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE DOMAIN folded AS text COLLATE folds;
"""


@pytest.mark.slow
def test_so_is_one_on_a_server(postgres_server: Server, tmp_path: Path) -> None:
    world = PostgreSQLWorld(postgres_server, f"types_{os.getpid()}")
    world.run(SERVER_SETUP)
    for place, type_ in enumerate(SERVER_TYPES):
        world.run(f"CREATE TABLE t{place} (u bigint, c {type_})")
        world.run(f"GRANT SELECT ON t{place} TO {READER}")
        filled = "now()" if type_ == "stamps" else "NULL"
        world.run(f"INSERT INTO t{place} SELECT i % 50, {filled} FROM generate_series(1, 200) i")
    tables = "".join(
        f"  t{place}: {{privacy_unit: {{name: person, column: u}}}}\n"
        for place in range(len(SERVER_TYPES))
    )
    policy = dpsql.parse_policy(POLICY.partition("tables:")[0] + "tables:\n" + tables)
    ledger = tmp_path / "b.db"
    answered = 0
    with dpsql.connect(world.url, policy, ledger, analyst="ana") as connection:
        for place, type_ in enumerate(SERVER_TYPES):
            for question in QUESTIONS:
                text = question.replace(" t ", f" t{place} ").removesuffix(" t")
                text += f" t{place}" if question.endswith(" t") else ""
                before = connection.budget().rho_spent
                error = outcome(connection, text)
                answered += error is None
                if error is not None:
                    refused = isinstance(error, dpsql.QueryRefused | dpsql.UnknownName)
                    assert refused, (type_, text, error)
                    assert connection.budget().rho_spent == before, (type_, text)
    world.close()
    assert answered > 80
