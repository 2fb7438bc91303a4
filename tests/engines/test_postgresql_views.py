# ruff: noqa: E501
"""Views of the owner's on PostgreSQL: what is read, and what is refused when connecting."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from helpers.failures import fails_with
from helpers.postgresql_server import Server
from postgresql_world import READER, PostgreSQLWorld
from tree_versions import is_of

import dpsql
from dpsql.core.schema import Remark
from dpsql.engines.base.engine import Definition
from dpsql.engines.postgresql.engine import PostgreSQLEngine
from dpsql.engines.postgresql.sessions import PostgreSQLSessions
from dpsql.engines.postgresql.trees import parsed_query
from dpsql.engines.postgresql.view_forms import (
    EXTRACTED,
    SINGLE,
    TOTAL_AGGREGATES,
    TOTAL_FUNCTIONS,
    TOTAL_WINDOWS,
    WRITTEN,
)
from dpsql.engines.postgresql.views import (
    VIEW_FORMS,
    ServerParts,
    ViewForms,
    _Reading,
    read_view,
    server_parts,
    view_trees,
)
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

pytestmark = pytest.mark.slow  # they start a server

pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")

SETUP = (
    "CREATE COLLATION careless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    "CREATE COLLATION swedish (provider = icu, locale = 'sv')",
    'CREATE TABLE t (unit BIGINT, k INTEGER, s TEXT, c TEXT COLLATE "C", w TEXT COLLATE swedish, '
    "g TEXT COLLATE careless, d DATE, ts TIMESTAMP, m NUMERIC(10, 2), n NUMERIC, f FLOAT8, "
    "r REAL, b BOOLEAN, sm SMALLINT, a INTEGER[], h TIME, z TIMESTAMPTZ, "
    "v VARCHAR(9))",
    "INSERT INTO t SELECT i, i % 3, 'HIV', 'x', 'y', 'z', '2024-01-01', '2024-01-01', 1.5, 2, 0.5, "
    "0.25, TRUE, 1, '{1}', '12:00', '2024-01-01 00:00Z', 'v' FROM generate_series(0, 59) AS i",
    "CREATE TABLE other (unit BIGINT PRIMARY KEY, p TEXT)",
    "INSERT INTO other SELECT i, 'x' FROM generate_series(0, 8) AS i",
    "CREATE SEQUENCE numbers",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TYPE pair AS (x INTEGER, y INTEGER)",
    "CREATE DOMAIN small AS INTEGER CHECK (VALUE < 2)",
    "CREATE TABLE felt (unit BIGINT, k INTEGER, m mood, q pair, l small)",
    "CREATE FUNCTION inverse(x INTEGER) RETURNS INTEGER LANGUAGE sql IMMUTABLE AS 'SELECT 1 / x'",
    "CREATE FUNCTION lower(x INTEGER) RETURNS INTEGER LANGUAGE sql IMMUTABLE AS 'SELECT 1 / x'",
    "CREATE FUNCTION rows_of() RETURNS SETOF t LANGUAGE sql STABLE AS 'SELECT * FROM t'",
    "CREATE FUNCTION same(a TEXT, b INTEGER) RETURNS BOOLEAN LANGUAGE sql IMMUTABLE "
    "AS 'SELECT 1 / b = 1'",
    "CREATE OPERATOR = (LEFTARG = text, RIGHTARG = integer, FUNCTION = same)",
    "CREATE FUNCTION read_mood(mood) RETURNS INTEGER LANGUAGE sql IMMUTABLE "
    "AS 'SELECT 1 / length($1::text)'",
    "CREATE CAST (mood AS INTEGER) WITH FUNCTION read_mood(mood)",
    "CREATE AGGREGATE total(INTEGER) (SFUNC = int4pl, STYPE = INTEGER)",
    "CREATE VIEW failing AS SELECT unit, 1 / k AS k FROM t",
    "CREATE VIEW fine WITH (security_barrier) AS SELECT unit, k, s, c, m FROM t",
    "CREATE TABLE secured (unit BIGINT, k INTEGER)",
    "ALTER TABLE secured ENABLE ROW LEVEL SECURITY",
    "CREATE TABLE whole (unit BIGINT, k INTEGER) PARTITION BY RANGE (k)",
    "CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (k)",
    "CREATE TABLE parent (unit BIGINT, k INTEGER)",
    "CREATE TABLE child () INHERITS (parent)",
    "CREATE FOREIGN DATA WRAPPER w",
    "CREATE SERVER elsewhere FOREIGN DATA WRAPPER w",
    "CREATE FOREIGN TABLE partly PARTITION OF part FOR VALUES FROM (0) TO (5) SERVER elsewhere",
    "CREATE FOREIGN TABLE grandchild () INHERITS (child) SERVER elsewhere",
    "CREATE FOREIGN TABLE far (unit BIGINT, k INTEGER) SERVER elsewhere",
)

READ: Mapping[str, str] = {
    "columns": "SELECT unit, k FROM t",
    "all columns": "SELECT * FROM t",
    "a condition": "SELECT * FROM t WHERE k >= 0 AND d > DATE '2020-01-01' AND s <> 'x'",
    "conditions": "SELECT unit, k FROM t WHERE (k BETWEEN 0 AND 5 OR s IN ('a', 'b')) "
    "AND NOT k = ANY ('{8,9}'::INTEGER[]) AND b IS TRUE AND s IS NOT NULL "
    "AND s IS DISTINCT FROM 'y' AND k <> ALL (ARRAY[7, 8])",
    "short texts": "SELECT unit, k, length(v) AS l FROM t WHERE v < 'x'",
    "a join": "SELECT t.* FROM t JOIN (SELECT DISTINCT unit FROM t) x USING (unit)",
    "joins": "SELECT a.unit, a.k FROM t a LEFT JOIN other o ON a.unit = o.unit "
    "RIGHT JOIN t c ON c.unit = a.unit FULL JOIN t e ON e.unit = a.unit, t f WHERE f.unit = a.unit",
    "another view": "SELECT unit, k FROM fine",
    "all of two tables": "SELECT unit, k FROM t UNION ALL SELECT unit, 0 FROM other WHERE unit < 0",
    "rows of either": "SELECT unit, k, s FROM t UNION SELECT unit, k, s FROM t",
    "rows of both": "SELECT unit, k, c FROM t INTERSECT SELECT unit, k, c FROM t",
    "rows of one": "SELECT unit, k FROM t EXCEPT ALL SELECT unit, 9 FROM other",
    "a CTE": "WITH q AS MATERIALIZED (SELECT * FROM t) SELECT unit, k FROM q",
    "a subquery": "SELECT unit, k FROM t WHERE unit IN (SELECT unit FROM t)",
    "distinct rows": "SELECT DISTINCT unit, k, s FROM t",
    "one row of each": "SELECT DISTINCT ON (unit) unit, k FROM t ORDER BY unit, k DESC",
    "numbers of rows": "SELECT unit, k, row_number() OVER (PARTITION BY unit ORDER BY s) AS i, "
    "rank() OVER w AS ranked, dense_rank() OVER w AS densely, count(*) OVER w AS n, "
    "min(s) OVER () AS least FROM t WINDOW w AS (ORDER BY d)",
    "groups": "SELECT unit, k, count(*) AS n, count(s) AS o, count(DISTINCT s) AS p, min(s) AS q, "
    "max(d) AS r FROM t GROUP BY unit, k HAVING count(*) > 0 AND max(c) < 'zz'",
    "sums": "SELECT unit, min(k) AS k, sum(k) AS a, sum(unit) AS b, sum(sm) AS c, sum(m) AS d, "
    "sum(m) FILTER (WHERE k > 1) AS e, sum(DISTINCT m) AS f FROM t GROUP BY unit",
    "truths of groups": "SELECT unit, min(k) AS k, bool_and(b) AS x, bool_or(b) AS y, "
    "every(b) AS z FROM t GROUP BY unit",
    "least and greatest": "SELECT unit, min(k) AS k, "
    + ", ".join(
        f"{name}({column}) AS {name}{at}"
        for name in ("min", "max")
        for at, column in enumerate(("k", "unit", "sm", "r", "f", "m", "c", "d", "h", "ts", "z"))
    )
    + " FROM t GROUP BY unit",
    "groupings": "SELECT unit, k, count(*) AS n FROM t GROUP BY GROUPING SETS ((unit, k), (unit, k))",
    "a case": "SELECT unit, CASE WHEN s = 'HIV' THEN k ELSE 7 END AS k, "
    "CASE k WHEN 1 THEN 'one' WHEN 2 THEN 'two' END AS name FROM t",
    "one of several": "SELECT unit, coalesce(k, 0) AS k, nullif(s, 'x') AS s, greatest(k, 1) AS l, "
    "least(c, 'a') AS m FROM t",
    "wider types": "SELECT unit, k, CAST(sm AS INTEGER) AS a, CAST(k AS BIGINT) AS b, "
    "CAST(sm AS BIGINT) AS c, CAST(sm AS NUMERIC) AS d, CAST(k AS NUMERIC) AS e, "
    "CAST(unit AS NUMERIC) AS f, CAST(sm AS REAL) AS g, CAST(k AS REAL) AS h, "
    "CAST(unit AS REAL) AS i, CAST(sm AS FLOAT8) AS j, CAST(k AS FLOAT8) AS l, "
    "CAST(unit AS FLOAT8) AS m, CAST(r AS FLOAT8) AS n, CAST(b AS INTEGER) AS o, "
    "CAST(k AS BOOLEAN) AS p, CAST(b AS TEXT) AS q, CAST(ts AS DATE) AS r, CAST(ts AS TIME) AS s "
    "FROM t",
    "texts of values": "SELECT unit, k, CAST(k AS TEXT) AS a, CAST(unit AS VARCHAR) AS b, "
    "CAST(d AS TEXT) AS c, CAST(m AS TEXT) AS e, CAST(f AS TEXT) AS g FROM t",
    "lengths": "SELECT unit, k, length(s) AS a, char_length(s) AS b, octet_length(s) AS c FROM t",
    "parts of moments": "SELECT unit, k, "
    + ", ".join(
        f"extract({part} FROM {column}) AS {part}_{column}"
        for (function, parts), column in zip(sorted(EXTRACTED.items()), ("d", "ts"), strict=True)
        for part in sorted(parts)
    )
    + " FROM t",
    "one collation": 'SELECT unit, k FROM t WHERE c COLLATE "C" > s COLLATE "C"',
    "a lookup of one group": "SELECT unit, k, (SELECT x FROM (SELECT 1 AS x) one GROUP BY x) AS x "
    "FROM t",
    "a lookup by a join": "SELECT t.unit, t.k, o.p FROM t LEFT JOIN "
    "(SELECT unit, max(p) AS p FROM other GROUP BY unit) o USING (unit)",
    "the greatest of others": "SELECT unit, k, (SELECT max(p) FROM other o WHERE o.unit = t.unit) "
    "AS p FROM t",
    "a value of nothing": "SELECT unit, k, (SELECT 7) AS p FROM t",
    "those with others": "SELECT * FROM t WHERE NOT EXISTS "
    "(SELECT 1 FROM other o WHERE o.unit = t.unit AND o.unit > 99)",
    "pairs of others": "SELECT * FROM t WHERE (unit, k) IN (SELECT unit, k FROM t)",
    "constant limits": "SELECT * FROM t ORDER BY unit LIMIT 60 OFFSET 0",
    "a large limit": "SELECT * FROM t LIMIT 2147483647",
    "all of them": "SELECT * FROM t LIMIT ALL",
    "numbers": "SELECT t.unit, t.k FROM t JOIN generate_series(0, 2) AS g(i) ON t.k = g.i",
    "large numbers": "SELECT t.unit, t.k FROM t JOIN generate_series(0::BIGINT, 2::BIGINT) AS g(i) "
    "ON t.k = g.i",
    "rows of its own": "SELECT t.unit, v.k FROM t JOIN (VALUES (0, 0), (1, 1), (2, 2)) AS v(k, l) "
    "ON v.l = t.k",
    "rows of nothing": "SELECT t.unit, t.k FROM t, (SELECT 1 AS one) x",
    "rows in an order": "SELECT unit, k FROM t ORDER BY c, w DESC NULLS LAST",
    "a declared unit": "SELECT o.unit, min(t.k) AS k, o.p FROM other o JOIN t USING (unit) "
    "GROUP BY o.unit UNION ALL SELECT unit, k, s FROM t WHERE unit > 8",
}  # fmt: skip

REFUSED: Mapping[str, tuple[str, str]] = {
    "a lookup": (
        "SELECT unit, (SELECT p FROM other o WHERE o.unit = t.unit) AS k FROM t", "finds two"
    ),
    "a lookup of the first": (
        "SELECT unit, (SELECT p FROM other o WHERE o.unit = t.unit LIMIT 1) AS k FROM t",
        "finds two",
    ),
    "a lookup of a group": (
        "SELECT unit, (SELECT max(p) FROM other o GROUP BY o.unit) AS k FROM t", "finds two"
    ),
    "a lookup of groupings": (
        "SELECT unit, k, (SELECT x FROM (SELECT 1 AS x) one WHERE k > 1 "
        "GROUP BY GROUPING SETS ((x), ())) AS x FROM t",
        "finds two",
    ),
    "an array of others": ("SELECT unit, k, ARRAY(SELECT p FROM other) AS p FROM t", "subquery"),
    "all of others": ("SELECT unit, k FROM t WHERE k > ALL (SELECT unit FROM other)", "subquery"),
    "numbers up to a value": ("SELECT unit, i AS k FROM t, generate_series(1, k) i", "as many rows"),
    "numbers in steps": (
        "SELECT unit, i AS k FROM t, generate_series(1, 9, 0) i", "rows that a function makes"
    ),
    "numbers up to the greatest": (
        "SELECT unit, i AS k FROM t, generate_series(1, (SELECT max(k) FROM t)) i", "as many rows"
    ),
    "numbers in a select list": ("SELECT unit, generate_series(1, k) AS k FROM t", "as many rows"),
    "constant numbers in a list": ("SELECT unit, generate_series(1, 2) AS k FROM t", "as many"),
    "elements of an array": ("SELECT unit, x AS k FROM t, unnest(a) AS x", "as many rows"),
    "rows of a function": ("SELECT unit, k FROM rows_of()", "rows that a function makes"),
    "a lateral subquery": (
        "SELECT t.unit, x.k FROM t, LATERAL (SELECT o.unit AS k FROM other o LIMIT t.k) x",
        "lateral",
    ),
    "a computed limit": ("SELECT * FROM t LIMIT (SELECT min(k) FROM t)", "computed LIMIT"),
    "a computed offset": ("SELECT * FROM t OFFSET (SELECT min(k) FROM t)", "computed LIMIT"),
    "a limit that is no count": ("SELECT * FROM t LIMIT -1", "computed LIMIT"),
    "an offset that is no count": ("SELECT * FROM t OFFSET -256", "computed LIMIT"),
    "a limit in a join": (
        "SELECT t.unit, t.k FROM t LEFT JOIN (SELECT unit FROM other OFFSET -1) o USING (unit)",
        "computed LIMIT",
    ),
    "an enormous limit": ("SELECT * FROM t LIMIT 9223372036854775807", "computed LIMIT"),
    "rows like the last": ("SELECT * FROM t ORDER BY k FETCH FIRST 3 ROWS WITH TIES", "statement"),
    "sums of doubles": ("SELECT unit, sum(f) AS k FROM t GROUP BY unit", "sum(double precision)"),
    "sums of reals": ("SELECT unit, sum(r) AS k FROM t GROUP BY unit", "sum(real)"),
    "sums of endless digits": ("SELECT unit, sum(n) AS k FROM t GROUP BY unit", "not declared"),
    "sums of sums": (
        "SELECT unit, sum(x) AS k FROM (SELECT unit, sum(m) AS x FROM t GROUP BY unit) y "
        "GROUP BY unit",
        "not declared",
    ),
    "sums of a window": ("SELECT unit, sum(n) OVER () AS k FROM t", "not declared"),
    "averages": ("SELECT unit, avg(f) AS k FROM t GROUP BY unit", "avg(double precision)"),
    "deviations": ("SELECT unit, stddev(k) AS k FROM t GROUP BY unit", "stddev(integer)"),
    "joined texts": ("SELECT unit, string_agg(s, ',') AS k FROM t GROUP BY unit", "string_agg"),
    "arrays of rows": ("SELECT unit, array_agg(k) AS k FROM t GROUP BY unit", "array_agg"),
    "a quantile": (
        "SELECT unit, percentile_disc(k) WITHIN GROUP (ORDER BY k) AS k FROM t GROUP BY unit, k",
        "an aggregate",
    ),
    "an aggregate of the owner's": (
        "SELECT unit, total(k) AS k FROM t GROUP BY unit", "not the engine's own"
    ),
    "a frame by values": (
        "SELECT unit, count(*) OVER (ORDER BY d ROWS BETWEEN (SELECT min(k) FROM t) PRECEDING "
        "AND CURRENT ROW) AS k FROM t",
        "begins or ends",
    ),
    "a frame by distance": (
        "SELECT unit, count(*) OVER (ORDER BY k RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS k "
        "FROM t",
        "begins or ends",
    ),
    "a frame that is none": (
        "SELECT unit, count(*) OVER (ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) AS k FROM t",
        "begins or ends",
    ),
    "shares of rows": ("SELECT unit, ntile(k) OVER (ORDER BY k) AS k FROM t", "ntile(integer)"),
    "one row of a window": ("SELECT unit, nth_value(k, k) OVER () AS k FROM t", "nth_value"),
    "a division": ("SELECT unit, 1 / k AS k FROM t", "/(integer, integer), which can fail on a row"),
    "a remainder": ("SELECT unit, 1 % k AS k FROM t", "%(integer, integer)"),
    "a sum": ("SELECT unit, k + 1 AS k FROM t", "+(integer, integer)"),
    "a product": ("SELECT unit, f * f AS k FROM t", "*(double precision, double precision)"),
    "a negation": ("SELECT unit, -k AS k FROM t", "-(integer)"),
    "a day later": ("SELECT unit, d + 1 AS k FROM t", "+(date, integer)"),
    "a text after another": ("SELECT unit, k, s || c AS k2 FROM t", "||(text, text)"),
    "a pattern": ("SELECT unit, k FROM t WHERE s LIKE c", "~~(text, text)"),
    "a regular expression": ("SELECT unit, k FROM t WHERE s ~ c", "~(text, text)"),
    "a condition that can fail": ("SELECT unit, k FROM t WHERE 1 / k > 0", "/(integer, integer)"),
    "a group that can fail": ("SELECT min(unit) AS unit, 1 / k AS k FROM t GROUP BY 1 / k", "/("),
    "an order that can fail": ("SELECT unit, k FROM t ORDER BY 1 / k", "/(integer, integer)"),
    "a cast of a text": ("SELECT unit, CAST(s AS INTEGER) AS k FROM t", "a cast from or to text"),
    "a cast of a text to a date": ("SELECT unit, s::DATE AS k FROM t", "a cast from or to text"),
    "a cast to a smaller type": ("SELECT unit, CAST(unit AS INTEGER) AS k FROM t", "int4(bigint)"),
    "a cast to digits": ("SELECT unit, CAST(m AS NUMERIC(3, 2)) AS k FROM t", "numeric(numeric"),
    "a cast of a double": ("SELECT unit, CAST(f AS INTEGER) AS k FROM t", "int4(double precision)"),
    "a cast of digits": ("SELECT unit, CAST(n AS FLOAT8) AS k FROM t", "float8(numeric)"),
    "a cast of a double to a real": ("SELECT unit, CAST(f AS REAL) AS k FROM t", "float4(double"),
    "a cast of a day": ("SELECT unit, CAST(d AS TIMESTAMP) AS k FROM t", "timestamp(date)"),
    "a cast of the owner's": ("SELECT unit, CAST(m AS INTEGER) AS k FROM felt", "read_mood"),
    "a cast to a domain": ("SELECT unit, CAST(k AS small) AS k FROM t", "a domain"),
    "a cast to an enumeration": ("SELECT unit, CAST(s AS mood) AS k FROM t", "a cast from or to"),
    "a cast to another name": ("SELECT unit, CAST(s AS pair) AS k FROM t", "a cast from or to text"),
    "a cast of arrays": ("SELECT unit, CAST(a AS SMALLINT[]) AS k FROM t", "a cast of an array"),
    "a length that cannot be": ("SELECT unit, repeat(s, k) AS k FROM t", "repeat(text, integer)"),
    "a code": ("SELECT unit, chr(k) AS k FROM t", "chr(integer)"),
    "letters": ("SELECT unit, lower(s) AS k FROM t", "lower(text)"),
    "a logarithm": ("SELECT unit, ln(f) AS k FROM t", "ln(double precision)"),
    "a part of a moment that is asked of rows": (
        "SELECT unit, k, date_part(s, d) AS p FROM t", "date_part"
    ),
    "a part of a moment that there is not": (
        "SELECT unit, extract(hour FROM d) AS k FROM t", "extract(text, date)"
    ),
    "the beginning of a month": ("SELECT unit, date_trunc('month', ts) AS k FROM t", "date_trunc"),
    "an element": ("SELECT unit, a[k] AS k FROM t", "an element of an array"),
    "an array": ("SELECT unit, k FROM t WHERE k = ANY (ARRAY[k, 1])", "array of values"),
    "an array of rows": ("SELECT unit, k FROM t WHERE k = ANY (a)", "array of values"),
    "a field": ("SELECT unit, (q).x AS k FROM felt", "a field of a record"),
    "XML": ("SELECT unit, xmlelement(name x, s) AS k FROM t", "xmlexpr"),
    "a function of the owner's": ("SELECT unit, inverse(k) AS k FROM t", "not the engine's own"),
    "a function with a known name": ("SELECT unit, lower(k) AS k FROM t", "not the engine's own"),
    "an operator of the owner's": ("SELECT unit, k FROM t WHERE s = k", "not the engine's own"),
    "texts of two collations": ("SELECT unit, k FROM t WHERE c = w", "without one collation"),
    "texts of two collations in a list": (
        "SELECT unit, k FROM t WHERE c IN (w, s)", "without one collation"
    ),
    "the larger of two collations": (
        'SELECT unit, k FROM t WHERE greatest(c, w) COLLATE "C" > s', "without one collation"
    ),
    "groups of texts that are the same": (
        "SELECT min(unit) AS unit, min(k) AS k FROM t GROUP BY g", "under a collation"
    ),
    "a union of texts that are the same": (
        "SELECT unit, k, g FROM t UNION SELECT unit, k, g FROM t", "under a collation"
    ),
    "an order of texts that are the same": (
        "SELECT unit, k FROM t ORDER BY g LIMIT 5", "under a collation"
    ),
    "a window of texts that are the same": (
        "SELECT unit, count(*) OVER (PARTITION BY g) AS k FROM t", "under a collation"
    ),
    "an order in a window of texts that are the same": (
        "SELECT unit, rank() OVER (ORDER BY g) AS k FROM t", "under a collation"
    ),
    "the least of texts that are the same": (
        "SELECT unit, min(g) AS k FROM t GROUP BY unit", "under a collation"
    ),
    "the greatest of a window of texts that are the same": (
        "SELECT unit, max(g) OVER () AS k FROM t", "under a collation"
    ),
    "the number of texts that are the same": (
        "SELECT unit, count(DISTINCT g) AS k FROM t GROUP BY unit", "under a collation"
    ),
    "groupings of texts that are the same": (
        "SELECT min(unit) AS unit, k FROM t GROUP BY ROLLUP (k, g)", "under a collation"
    ),
    "texts that are the same": ("SELECT unit, k FROM t WHERE g = 'z'", "under a collation"),
    "distinct texts that are the same": ("SELECT DISTINCT unit, k, g FROM t", "under a collation"),
    "a collation that is careless": (
        "SELECT unit, k, s COLLATE careless AS s FROM t", "under a collation"
    ),
    "records": ("SELECT unit, k FROM t WHERE ROW(unit, k) < ROW(k, unit)", "of records"),
    "equal records": ("SELECT unit, k FROM felt WHERE q = q", "=(record, record)"),
    "whole rows": ("SELECT a.unit, a.k FROM t a JOIN t b ON (a.*) = (b.*)", "=(record, record)"),
    "a whole row": ("SELECT unit, k, t AS r FROM t", "a whole row"),
    "distinct records": ("SELECT DISTINCT unit, k, q FROM felt", "=(record, record)"),
    "distinct arrays": ("SELECT DISTINCT unit, k, a FROM t", "=(anyarray, anyarray)"),
    "enumerations": ("SELECT unit, k FROM felt WHERE m = 'sad'", "=(anyenum, anyenum)"),
    "places of rows": ("SELECT unit, k FROM t WHERE ctid > '(0,1)'", ">(tid, tid)"),
    "transactions of rows": ("SELECT unit, k, xmin FROM t", "the server's own"),
    "recursion": (
        "WITH RECURSIVE r AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM r WHERE k < 5) "
        "SELECT unit, r.k FROM t, r",
        "recursive",
    ),
    "a sample": ("SELECT * FROM t TABLESAMPLE BERNOULLI (50)", "sample"),
    "chance": ("SELECT unit, random() AS k FROM t", "random()"),
    "the clock": ("SELECT unit, k FROM t WHERE now() > TIMESTAMPTZ '2024-01-01'", "now()"),
    "today": ("SELECT unit, k FROM t WHERE d < current_date", "current_date()"),
    "who asks": ("SELECT unit, k FROM t WHERE s = CURRENT_USER", "current_user()"),
    "a setting": ("SELECT unit, current_setting('port') AS k FROM t", "current_setting()"),
    "a sequence": ("SELECT unit, nextval('numbers') AS k FROM t", "nextval()"),
    "the state of a sequence": ("SELECT last_value AS unit, 1 AS k FROM numbers", "no table"),
    "a table of the catalog": ("SELECT 1 AS unit, relname AS k FROM pg_class", "no table"),
    "a failing view": ("SELECT unit, k FROM failing", "/(integer, integer)"),
    "secured rows": ("SELECT unit, k FROM secured", "row-level security"),
    "a part of another server": ("SELECT unit, k FROM whole", "another server"),
    "a grandchild of another server": ("SELECT unit, k FROM parent", "another server"),
    "a table of another server": ("SELECT unit, k FROM far", "another server"),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(postgres_server: Server) -> Iterator[PostgreSQLWorld]:
    """A database with all of these views, by number."""
    world = PostgreSQLWorld(postgres_server, f"views_{os.getpid()}")
    with psycopg.connect(postgres_server.url(world.database), autocommit=True) as owner:
        for statement in SETUP:
            owner.execute(statement.encode())
        for at, query in enumerate([*READ.values(), *(query for query, _ in REFUSED.values())]):
            owner.execute(f"CREATE VIEW v{at} AS {query}".encode())
            owner.execute(f"GRANT SELECT ON v{at} TO {READER}".encode())
    yield world
    world.close()


NAMES = {what: f"v{at}" for at, what in enumerate([*READ, *REFUSED])}


def policy(what: str, *, public: bool = False) -> Policy:
    unit = None if public else PrivacyUnit("unit", "unit")
    return Policy(
        dataset="test",
        defaults=Parameters(epsilon=50.0, delta=1e-4, max_groups_contributed=20),
        accounts={"ana": AccountPolicy("ana", 1000.0, 0.1)},
        tables={NAMES[what]: TablePolicy(NAMES[what], unit)},
    )


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("what", READ)
def test_views_that_cannot_fail_are_read(what: str, world: PostgreSQLWorld, tmp_path: Path) -> None:
    asked = f"SELECT k, COUNT(DISTINCT unit) AS n FROM {NAMES[what]} GROUP BY k ORDER BY k"
    with dpsql.connect(world.url, policy(what), tmp_path / "budget.db", "ana") as connection:
        assert connection.sql(asked).fetchall() == [(0, 20), (1, 20), (2, 20)]


@pytest.mark.parametrize("what", REFUSED)
def test_a_view_that_can_fail_or_change_is_refused_when_connecting(
    what: str, world: PostgreSQLWorld, tmp_path: Path
) -> None:
    for public in (False, True):
        with fails_with("policy_does_not_fit") as caught:
            dpsql.connect(world.url, policy(what, public=public), tmp_path / "budget.db", "ana")
        assert caught.value.reason.startswith(f"{NAMES[what]}: ")
        assert REFUSED[what][1] in caught.value.reason
        assert caught.value.hint
        assert not (tmp_path / "budget.db").exists()


def definition(world: PostgreSQLWorld, what: str) -> Definition:
    with closing(PostgreSQLEngine(world.url)) as engine:
        return engine.definition(engine.catalog().tables[NAMES[what]].name)


SEVERAL = {
    "columns": (),
    "another view": (),
    "all of two tables": (),
    "groups": ("aggregates rows, or asks whether others exist",),
    "those with others": ("aggregates rows, or asks whether others exist",),
    "distinct rows": ("makes equal rows one",),
    "rows of either": ("makes equal rows one",),
    "rows of both": ("leaves out rows that are not elsewhere",),
    "rows of one": ("leaves out rows that are elsewhere",),
    "constant limits": ("keeps some rows out of all",),
    "large numbers": (),
}


@pytest.mark.parametrize("what", SEVERAL)
def test_an_owner_is_told_what_a_view_does_to_rows_of_several_units(
    what: str, world: PostgreSQLWorld
) -> None:
    found = definition(world, what)
    assert found.refusal is None
    assert tuple(remark.reason for remark in found.remarks) == SEVERAL[what]


# -- the lists ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trees(world: PostgreSQLWorld) -> tuple[ServerParts, list[str]]:
    """What the views that are read are made of, and the tree of each."""
    with closing(PostgreSQLSessions(world.url)) as sessions, sessions.one() as session:
        found = view_trees(session.ask)
        names = ", ".join(f"'v{at}'" for at in range(len(READ)))
        numbers = world_rows(world, f"SELECT oid FROM pg_class WHERE relname IN ({names})")
        read = [found[int(number)] for (number,) in numbers]
        return server_parts(session.ask, found.values()), read


def world_rows(world: PostgreSQLWorld, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(world._server.url(world.database), autocommit=True) as owner:
        return owner.execute(text.encode()).fetchall()


def entries() -> Iterator[tuple[str, ViewForms]]:
    """Every entry of the lists, with the lists without it."""
    nodes = VIEW_FORMS.nodes
    for kind, fields in nodes.items():
        yield kind, replace(VIEW_FORMS, nodes={k: f for k, f in nodes.items() if k != kind})
        for name, values in fields.items():
            rest = {n: v for n, v in fields.items() if n != name}
            yield f"{kind} {name}", replace(VIEW_FORMS, nodes={**nodes, kind: rest})
            for one in values or ():
                less = {**fields, name: (values or frozenset()) - {one}}
                yield f"{kind} {name} {one}", replace(VIEW_FORMS, nodes={**nodes, kind: less})
    for name in VIEW_FORMS.functions:
        yield name, replace(VIEW_FORMS, functions=VIEW_FORMS.functions - {name})
    for name in VIEW_FORMS.aggregates:
        yield name, replace(VIEW_FORMS, aggregates=VIEW_FORMS.aggregates - {name})
    for name in VIEW_FORMS.windows:
        yield name, replace(VIEW_FORMS, windows=VIEW_FORMS.windows - {name})
    for name in VIEW_FORMS.counting:
        yield name, replace(VIEW_FORMS, counting=VIEW_FORMS.counting - {name})
    for name, asked in VIEW_FORMS.extracted.items():
        for one in asked:
            shorter = {**VIEW_FORMS.extracted, name: asked - {one}}
            yield f"{name} {one}", replace(VIEW_FORMS, extracted=shorter)


def test_without_any_entry_of_the_lists_some_view_is_refused(
    world: PostgreSQLWorld, trees: tuple[ServerParts, list[str]]
) -> None:
    ((number,),) = world_rows(world, "SHOW server_version_num")
    version = int(number) // 10_000
    parts, read = trees
    assert [read_view(tree, parts).refusal for tree in read] == [None] * len(READ)
    parsed = [parsed_query(tree) for tree in read]
    idle = [
        what
        for what, forms in entries()
        if is_of(version, what)
        and all(_Reading(parts, forms).read(query).refusal is None for query in parsed)
    ]
    assert not idle, "; ".join(idle)


EDGES: Mapping[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "smallint": ("-32768", "-1", "0", "32767"),
    "integer": ("-2147483648", "-1", "0", "2147483647"),
    "bigint": ("-9223372036854775808", "-1", "0", "9223372036854775807"),
    "real": ("NaN", "Infinity", "-Infinity", "-0.0", "3.4028235e38", "1e-45"),
    "double precision": ("NaN", "Infinity", "-Infinity", "-0.0", "1.7976931348623157e308", "5e-324"),
    "numeric": ("NaN", "Infinity", "-Infinity", "0", "1e131071", "-1e131071", "1e-16383"),
    "text": ("", "a", "ß", "\U0001f600", "x" * 100_000),
    "date": ("infinity", "-infinity", "4714-11-24 BC", "5874897-12-31", "0001-01-01", "2024-02-29"),
    "time without time zone": ("00:00:00", "24:00:00", "23:59:59.999999"),
    "timestamp without time zone": (
        *("infinity", "-infinity", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999"),
        *("0001-01-01 00:00:00", "2024-02-29 23:59:59.999999"),
    ),
    "timestamp with time zone": (
        *("infinity", "-infinity", "4714-11-24 00:00:00Z BC", "294276-12-31 23:59:59.999999Z"),
    ),
    "interval": ("0", "178000000 years", "-178000000 years", "2147483647 days", "-2147483648 days"),
    "bytea": ("", "\\x00ff"),
    "uuid": ("0" * 32, "f" * 32),
    "oid": ("0", "4294967295"),
    "name": ("", "a" * 63),
    "character": ("", "a"),
    "character varying": ("", "a"),
    '"any"': ("0", "1"),
}  # fmt: skip
"""The extremes of each type, as texts."""


def rows_of(kinds: list[str]) -> str:
    """All rows of extremes of these types, and NULL."""
    rows = itertools.product(*([*EDGES[kind], None] for kind in kinds))
    types = ["integer" if kind == '"any"' else kind for kind in kinds]
    return ", ".join(
        "({})".format(
            ", ".join(
                f"CAST({'NULL' if value is None else repr(value)} AS {type_})"
                for value, type_ in zip(row, types, strict=True)
            )
        )
        for row in rows
    )


def tried(world: PostgreSQLWorld, function: str, call: str) -> None:
    """Compute a call of a function over the extremes of its types."""
    inside = function.partition("(")[2].removesuffix(")")
    kinds = inside.split(", ") if inside else ["integer"]
    columns = ", ".join(f"a{at}" for at in range(len(kinds)))
    given = columns if inside else ""
    value = call.format(name=function.partition("(")[0], given=given or "*")
    rows = f"SELECT {value} AS value FROM (VALUES {rows_of(kinds)}) AS v({columns})"
    text = f"SELECT count(value) FROM ({rows}) AS found"
    assert world_rows(world, text), function


def test_what_the_lists_call_total_has_a_value_for_all_extremes(world: PostgreSQLWorld) -> None:
    for function in TOTAL_FUNCTIONS:
        tried(world, function, 'pg_catalog."{name}"({given})')
    for function in TOTAL_AGGREGATES - {"sum(numeric)"}:
        tried(world, function, "{name}({given})")
        tried(world, function, "{name}({given}) OVER (ORDER BY a0)")
    for function in TOTAL_WINDOWS:
        tried(world, function, "{name}() OVER (ORDER BY a0)")
    for function, parts in EXTRACTED.items():
        kind = function.removeprefix("extract(text, ").removesuffix(")")
        for part in parts:
            tried(world, f"extract({kind})", f"extract({part} FROM {{given}})")
    assert world_rows(
        world,
        "SELECT length(sum(a)::TEXT), length(sum(DISTINCT a)::TEXT) FROM "
        "(SELECT CAST(repeat('9', 1000) AS NUMERIC(1000)) AS a FROM generate_series(1, 1000)) t",
    )


def test_types_that_are_compared_and_written_have_a_value_for_all_extremes(
    world: PostgreSQLWorld,
) -> None:
    shown = dict(world_rows(world, "SELECT typname::TEXT, format_type(oid, NULL) FROM pg_type"))
    for kind in SINGLE:
        rows = rows_of([shown[kind]] * 2)
        text = (
            "SELECT count(a < b), count(a = b), count(a <> b), count(a IS DISTINCT FROM b), "
            "count(DISTINCT a), count(greatest(a, b)), count(nullif(a, b)), count(a IN (b)) "
            f"FROM (VALUES {rows}) AS v(a, b)"
        )
        assert world_rows(world, text), kind
    for kind in WRITTEN:
        assert world_rows(
            world, f"SELECT CAST(a AS TEXT) FROM (VALUES {rows_of([shown[kind]])}) v(a)"
        )


def test_words_that_are_said_of_views_follow_from_their_definitions(
    world: PostgreSQLWorld, trees: tuple[ServerParts, list[str]]
) -> None:
    """What is said is one text for a definition, whatever rows there are."""
    before = {what: definition(world, what) for what in ("a division", "groups")}
    world.run("INSERT INTO t (unit, k) VALUES (99, 0)")
    try:
        assert {what: definition(world, what) for what in before} == before
    finally:
        world.run("DELETE FROM t WHERE unit = 99")
    refusal = before["a division"].refusal
    assert refusal == Remark(
        "computes /(integer, integer), which can fail on a row: failing queries would tell of that "
        "row",
        "Store its rows as a table.",
    )


def test_a_tree_that_cannot_be_read_is_refused(trees: tuple[ServerParts, list[str]]) -> None:
    parts, read = trees
    for tree in ("", "(", "({QUERY", read[0].replace(":limitOption 0", ":limitOption 0 :other 1")):
        assert read_view(tree, parts).refusal is not None
