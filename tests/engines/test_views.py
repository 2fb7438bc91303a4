"""Views of the owner's: what is read, what is refused when connecting, and what check says."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.installed_duckdb import IS_DUCKDB_1, since_2_0
from helpers.sql_text import generated
from helpers.support import checked, cursor_of

import dpsql
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.view_forms import VIEW_OPERATORS
from dpsql.engines.embedded.plans import nodes, plan_of
from dpsql.owner.conformance import Finding, check_policy
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

TABLES = """
    CREATE TABLE t AS SELECT range AS unit, range % 3 AS k, 'HIV' AS s, DATE '2024-01-01' AS d
        FROM range(60);
    CREATE TABLE other AS SELECT range AS unit, 'x' AS p FROM range(9);
    CREATE TABLE c (unit INTEGER, k INTEGER, s VARCHAR COLLATE NOCASE);
    CREATE TABLE gone AS SELECT 1 AS unit, 1 AS k;
    CREATE TABLE __dpsql_groups AS SELECT 1 AS unit, 1 AS k;
    CREATE TABLE wide (unit INTEGER, k INTEGER, d DECIMAL(38, 0), e DECIMAL(18, 2), l INTEGER[]);
    CREATE SEQUENCE numbers;
    CREATE MACRO twice(x) AS upper(x);
    CREATE MACRO inverse(x) AS CAST(x::VARCHAR AS INTEGER);
    CREATE TABLE made (unit INTEGER, s VARCHAR, g INTEGER AS (CAST(s AS INTEGER)));
    CREATE MACRO hidden() AS random();
    CREATE MACRO rows_of() AS TABLE SELECT unit, k FROM t;
"""


def policy(name: str = "v", *, public: bool = False) -> Policy:
    unit = None if public else PrivacyUnit("unit", "unit")
    return Policy(
        dataset="test",
        defaults=Parameters(epsilon=50.0, delta=1e-4, max_groups_contributed=20),
        accounts={"ana": AccountPolicy("ana", 1000.0, 0.1)},
        tables={name: TablePolicy(name, unit)},
    )


def viewed(directory: Path, query: str, before: str = "", after: str = "") -> Path:
    """A file with a view of this query."""
    path = directory / "data.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute(TABLES)
        writer.execute(before)
        writer.execute(f"CREATE VIEW v AS {query}")
        writer.execute(after)
    return path


def refused(directory: Path, path: Path, *, public: bool = False) -> dpsql.Error:
    """The error of connecting with the view listed."""
    with fails_with("policy_does_not_fit") as caught:
        dpsql.connect(checked(path), policy(public=public), directory / "budget.db", "ana")
    assert "v: " in caught.value.reason
    assert caught.value.hint
    assert not (directory / "budget.db").exists()
    return caught.value


def answers(directory: Path, path: Path, sql: str) -> list[tuple[object, ...]]:
    with dpsql.connect(checked(path), policy(), directory / "budget.db", "ana") as con:
        return con.sql(sql).fetchall()


def findings(path: Path) -> list[Finding]:
    engine = dpsql.DuckDBEngine(path)
    try:
        return check_policy(policy(), engine.catalog().tables, engine.definition)
    finally:
        engine.close()


COUNT = "SELECT k, COUNT(DISTINCT unit) AS n FROM v GROUP BY k ORDER BY k"

READ = {
    "columns": "SELECT unit, k FROM t",
    "a condition": "SELECT * FROM t WHERE k >= 0 AND d > DATE '2020-01-01'",
    "a macro": "SELECT unit, k, twice(s) AS s FROM t",
    "a table macro": "SELECT * FROM rows_of()",
    "a join": "SELECT t.* FROM t JOIN (SELECT DISTINCT unit FROM t) USING (unit)",
    "another view": "SELECT * FROM (SELECT * FROM t)",
    "all of two tables": "SELECT unit, k FROM t UNION ALL SELECT unit, 0 FROM other WHERE unit < 0",
    "a CTE": "WITH q AS MATERIALIZED (SELECT * FROM t) SELECT unit, k FROM q",
    "a subquery": "SELECT unit, k FROM t WHERE unit IN (SELECT unit FROM t)",
    "one row of each": "SELECT unit, k FROM t QUALIFY row_number() OVER (PARTITION BY unit) = 1",
    "a hash": "SELECT unit, k, hash(s, {'a': d}) AS h FROM t",
    "numbers": "SELECT t.unit, t.k FROM t JOIN range(3) r(i) ON k = i",
    "a lookup by a join": "SELECT t.unit, t.k, o.p FROM t LEFT JOIN "
    "(SELECT unit, max(p) AS p FROM other GROUP BY unit) o USING (unit)",
    "the greatest of others": "SELECT unit, k, (SELECT max(p) FROM other o WHERE o.unit = t.unit) "
    "AS p FROM t",
    "those with others": "SELECT * FROM t WHERE NOT EXISTS "
    "(SELECT 1 FROM other o WHERE o.unit = -t.unit::DOUBLE - 1)",
    "constant limits": "SELECT * FROM t ORDER BY unit LIMIT 60 OFFSET 0",
    "a limit in percent": "SELECT * FROM t LIMIT 100%",
    "sums that fit": "SELECT unit, k, (SELECT sum(e) FROM wide) AS e FROM t",
    "steps": "SELECT t.unit, t.k FROM t JOIN generate_series(0, 2, 1) r(i) ON k = i",
}


@pytest.mark.slow
@pytest.mark.parametrize("query", READ.values(), ids=READ)
def test_views_of_tables_are_read(query: str, tmp_path: Path, no_noise: None) -> None:
    path = viewed(tmp_path, query)
    assert answers(tmp_path, path, COUNT) == [(0, 20), (1, 20), (2, 20)]


REFUSED = {
    "a lookup": (
        "SELECT unit, (SELECT p FROM other o WHERE o.unit = t.unit) AS k FROM t",
        "finds two",
    ),
    "a lookup of the first": (
        "SELECT unit, (SELECT p FROM other o WHERE o.unit = t.unit LIMIT 1) AS k FROM t",
        "finds two",
    ),
    "numbers up to a value": ("SELECT unit, i AS k FROM t, range(k) r(i)", "as many rows"),
    "numbers in steps of a value": (
        "SELECT unit, i AS k FROM t, generate_series(0, 9, k) r(i)",
        "as many rows",
    ),
    "numbers up to the greatest": (
        "SELECT t.unit, i AS k FROM t, range((SELECT max(k) FROM t)) r(i)",
        "as many rows",
    ),
    "wide sums": ("SELECT unit, sum(d) AS k FROM wide GROUP BY unit", "sum(DECIMAL)"),
    "wide sums of a window": ("SELECT unit, sum(d) OVER () AS k FROM wide", "can fail"),
    "a computed limit": ("SELECT * FROM t LIMIT (SELECT min(k) FROM t)", "computed LIMIT"),
    "a computed offset": ("SELECT * FROM t OFFSET (SELECT min(k) FROM t)", "computed LIMIT"),
    "some of the greatest": (
        "SELECT unit, max(k, unit) AS k FROM t GROUP BY unit",
        "max(BIGINT, BIGINT)",
    ),
    "a frame by values": (
        "SELECT unit, row_number() OVER (ORDER BY d ROWS BETWEEN k PRECEDING AND CURRENT ROW) "
        "AS k FROM t",
        "begins or ends",
    ),
    "a frame by distance": (
        "SELECT unit, rank() OVER (ORDER BY k RANGE BETWEEN 9223372036854775807 PRECEDING AND "
        "CURRENT ROW) AS k FROM t",
        "begins or ends",
    ),
    "a dropped table": ("SELECT * FROM gone", "cannot be read"),
    "a sequence": ("SELECT unit, nextval('numbers') AS k FROM t", "cannot be read"),
    "what can fail": ("SELECT unit, CAST(s AS INTEGER) AS k FROM t", "can fail on a row"),
    "a condition that can fail": ("SELECT unit, k FROM t WHERE k + 1 > 0", "can fail on a row"),
    "week numbers": ("SELECT unit, week(d) AS k FROM t", "can fail on a row"),
    "one of several rows": ("SELECT unit, (SELECT k FROM t) AS k FROM t", "can fail on a row"),
    "what a macro computes": ("SELECT unit, inverse(k) AS k FROM t", "can fail on a row"),
    "a generated column": ("SELECT unit, g AS k FROM made", "can fail on a row"),
    "chance": ("SELECT unit, (random() * 3)::INTEGER AS k FROM t", "random()"),
    "chance in a macro": ("SELECT unit, hidden() AS k FROM t", "random()"),
    "the clock": ("SELECT unit, k FROM t WHERE now() > TIMESTAMPTZ '2024-01-01'", "now()"),
    "the day": ("SELECT unit, k FROM t WHERE age(d::TIMESTAMP) > INTERVAL 1 DAY", "age()"),
    "today": ("SELECT unit, k FROM t WHERE d < current_date", "current_date()"),
    "a new name": ("SELECT unit, k, uuid() AS u FROM t", "uuid()"),
    "a setting": ("SELECT unit, current_setting('TimeZone') AS k FROM t", "current_setting()"),
    "the engine's tables": ("SELECT 1 AS unit, table_name AS k FROM duckdb_tables()", "no table"),
    "a sample": ("SELECT * FROM t USING SAMPLE 50%", "sample"),
    "recursion": (
        "WITH RECURSIVE r AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM r WHERE k < 5) "
        "SELECT unit, r.k FROM t, r",
        "recursive",
    ),
    "names of generated SQL": ("SELECT * FROM __dpsql_groups", "reserved"),
    "a comparison": ("SELECT unit, k FROM t WHERE s COLLATE NOCASE = 'hiv'", "collation"),
    "groups": ("SELECT any_value(unit) AS unit, 1 AS k FROM c GROUP BY s", "collation"),
    "distinct rows": ("SELECT DISTINCT unit, k, s FROM c", "collation"),
    "a join on text": ("SELECT c.unit, c.k FROM c JOIN other ON c.s = other.p", "collation"),
    "a union": ("SELECT unit, k, s FROM c UNION SELECT unit, k, s FROM t", "collation"),
    "a difference": ("SELECT unit, k, s FROM t EXCEPT SELECT unit, k, s FROM c", "collation"),
    "a case": ("SELECT unit, CASE WHEN s = 'x' THEN 1 ELSE 0 END AS k FROM c", "collation"),
    "an order": ("SELECT unit, k FROM c ORDER BY s LIMIT 5", "collation"),
    "a least": ("SELECT unit, k FROM c WHERE s = (SELECT min(s) FROM c)", "collation"),
    "a list": ("SELECT unit, k FROM c WHERE s IN ('a', 'b')", "collation"),
    "a window": (
        "SELECT unit, rank() OVER (PARTITION BY s ORDER BY unit) AS k FROM c",
        "collation",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("query", "why"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("public", [False, True], ids=["private", "public"])
def test_what_can_be_refused_is_refused_when_connecting(
    query: str, why: str, public: bool, tmp_path: Path
) -> None:
    """Such views were paid for, query after query, or told one unit's spelling from another's."""
    path = viewed(tmp_path, query, after="DROP TABLE gone")
    assert why in refused(tmp_path, path, public=public).reason
    (found,) = (f for f in findings(path) if f.level == "error")
    assert why in found.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "reader",
    [
        "read_csv('{0}/c.csv')",
        "'{0}/c.csv'",
        "(SELECT 1 AS unit, content AS k FROM read_text('{0}/c.csv'))",
        "(SELECT 1 AS unit, size AS k FROM read_blob('{0}/c.csv'))",
        "(SELECT 1 AS unit, file AS k FROM glob('{0}/*'))",
        "(SELECT 1 AS unit, 1 AS k FROM parquet_metadata('{0}/a.parquet'))",
        "(SELECT unit, k + 1 AS k FROM '{0}/a.parquet')",
        "(SELECT unit, k FROM '{0}/a.parquet' WHERE k > 0)",
        "(SELECT DISTINCT unit, k FROM '{0}/a.parquet')",
        "(SELECT unit, count(*) AS k FROM '{0}/a.parquet' GROUP BY unit)",
        "(SELECT unit, k FROM '{0}/a.parquet' ORDER BY k LIMIT 5)",
        "(SELECT * REPLACE (k + 1 AS k) FROM '{0}/a.parquet')",
        "(SELECT t.unit, t.k FROM t JOIN '{0}/a.parquet' USING (unit))",
        "read_json('{0}/j.json')",
    ],
)
def test_other_files_are_refused_with_what_to_do(reader: str, tmp_path: Path) -> None:
    with duckdb.connect() as other:
        rows = "SELECT range AS unit, range % 3 AS k FROM range(60)"
        other.execute(f"COPY ({rows}) TO '{tmp_path}/a.parquet'")
        other.execute(f"COPY ({rows}) TO '{tmp_path}/c.csv'")
        other.execute(f"COPY ({rows}) TO '{tmp_path}/j.json'")
    path = viewed(tmp_path, f"SELECT * FROM {reader.format(tmp_path)}")
    assert "oad" in str(refused(tmp_path, path).hint)


PARQUET = [
    "SELECT * FROM '{0}/a.parquet'",
    "SELECT * FROM read_parquet('{0}/*.parquet')",
    "SELECT k, unit AS unit FROM parquet_scan('{0}/a.parquet')",
    "SELECT * EXCLUDE (filename) FROM read_parquet(['{0}/a.parquet'], filename => true)",
    "SELECT * FROM read_parquet('{0}/h/*/*.parquet', hive_partitioning = true)",
]


@pytest.mark.slow
@since_2_0
@pytest.mark.few(1)
@pytest.mark.parametrize("query", PARQUET)
def test_views_of_parquet_files_are_read(query: str, tmp_path: Path, no_noise: None) -> None:
    files, elsewhere = tmp_path / "files", tmp_path / "elsewhere"
    (files / "h" / "y=1").mkdir(parents=True)
    elsewhere.mkdir()
    with duckdb.connect() as other:
        rows = "SELECT range AS unit, range % 3 AS k FROM range(60)"
        other.execute(f"COPY ({rows}) TO '{files}/a.parquet'")
        other.execute(f"COPY ({rows}) TO '{files}/h/y=1/a.parquet'")
        other.execute(f"COPY ({rows}) TO '{elsewhere}/c.csv'")
    path = viewed(tmp_path, query.format(files))
    assert answers(tmp_path, path, COUNT) == [(0, 20), (1, 20), (2, 20)]
    remarks = [f.message for f in findings(path) if f.level == "warning"]
    assert any("Parquet" in remark for remark in remarks)
    engine = dpsql.DuckDBEngine(path)
    with pytest.raises(duckdb.Error):
        cursor_of(engine, "v").execute(f"SELECT * FROM read_csv('{elsewhere}/c.csv')")
    engine.close()


@pytest.mark.slow
@since_2_0
def test_parquet_files_of_different_types_are_refused(tmp_path: Path) -> None:
    with duckdb.connect() as other:
        other.execute(f"COPY (SELECT 1 AS unit, 1 AS k) TO '{tmp_path}/a.parquet'")
        other.execute(f"COPY (SELECT 1 AS unit, 'x' AS k) TO '{tmp_path}/b.parquet'")
    path = viewed(tmp_path, f"SELECT * FROM '{tmp_path}/*.parquet'")
    assert "different columns or types" in refused(tmp_path, path).reason


@pytest.mark.slow
@since_2_0
def test_parquet_files_of_the_working_directory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as other:
        other.execute("COPY (SELECT 1 AS unit, 1 AS k) TO 'a.parquet'")
    path = viewed(tmp_path, "SELECT * FROM 'a.parquet'")
    assert "directory" in refused(tmp_path, path).reason


@pytest.mark.skipif(not IS_DUCKDB_1, reason="its plans tell of files in a way of their own")
def test_views_of_files_are_refused_where_they_cannot_be_looked_into(
    tmp_path: Path,
) -> None:
    with duckdb.connect() as other:
        other.execute(f"COPY (SELECT 1 AS unit, 1 AS k) TO '{tmp_path}/a.parquet'")
    for source in (f"'{tmp_path}/a.parquet'", f"read_parquet('{tmp_path}/*.parquet')"):
        path = viewed(tmp_path, f"SELECT * FROM {source}")
        found = refused(tmp_path, path)
        assert "no table of the database" in found.reason
        assert "Load" in str(found.hint)
        path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["'{0}/a.parquet'", "read_parquet('{0}/*.parquet')"])
def test_files_that_are_gone_are_found_out_when_connecting(reader: str, tmp_path: Path) -> None:
    """Such a view was found out by a query that had been paid for."""
    with duckdb.connect() as other:
        other.execute(f"COPY (SELECT 1 AS unit, 1 AS k) TO '{tmp_path}/a.parquet'")
    path = viewed(tmp_path, f"SELECT * FROM {reader.format(tmp_path)}")
    (tmp_path / "a.parquet").unlink()
    assert "cannot be read" in refused(tmp_path, path).reason


@pytest.mark.slow
def test_a_macro_called_like_a_reader_is_not_taken_for_it(tmp_path: Path) -> None:
    with duckdb.connect() as other:
        other.execute(f"COPY (SELECT 1 AS unit, 1 AS k) TO '{tmp_path}/a.parquet'")
    macro = (
        "CREATE MACRO read_parquet(p) AS TABLE SELECT unit, 1 // (k - 1) AS k FROM parquet_scan(p)"
    )
    path = viewed(tmp_path, f"SELECT * FROM read_parquet('{tmp_path}/a.parquet')", macro)
    refused(tmp_path, path)


@pytest.mark.slow
def test_collated_columns_of_a_view_do_not_exist_for_analysts(
    tmp_path: Path, no_noise: None
) -> None:
    """One unit's 'hiv' came out where everybody else has 'HIV'."""
    fill = "INSERT INTO c SELECT unit, k, s FROM t; INSERT INTO c VALUES (99, 0, 'hiv')"
    path = viewed(tmp_path, "SELECT unit, k, s AS diagnosis FROM c", fill)
    assert answers(tmp_path, path, COUNT) == [(0, 21), (1, 20), (2, 20)]
    with pytest.raises(dpsql.Error, match="diagnosis"):
        answers(tmp_path, path, "SELECT diagnosis, COUNT(*) FROM v GROUP BY 1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT unit, count(*) AS k FROM t GROUP BY unit", "aggregates"),
        ("SELECT DISTINCT unit, k FROM t", "equal rows"),
        ("SELECT unit, row_number() OVER () AS k FROM t", "windows"),
        ("SELECT unit, k FROM t ORDER BY unit LIMIT 5", "keeps some rows"),
        ("SELECT unit, k FROM t EXCEPT SELECT unit, 1 FROM other", "leaves out"),
        ("SELECT t.unit, t.k FROM t POSITIONAL JOIN other", "position"),
    ],
)
def test_check_says_where_rows_may_depend_on_several_units(
    query: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    warnings = [f.message for f in findings(viewed(tmp_path, query)) if f.level == "warning"]
    assert any(said in warning for warning in warnings)
    plain = findings(viewed(tmp_path / "plain", "SELECT unit, k FROM t"))
    assert not any(said in finding.message for finding in plain)


@pytest.mark.slow
def test_views_that_are_not_listed_need_not_be_readable(tmp_path: Path, no_noise: None) -> None:
    path = viewed(
        tmp_path, "SELECT unit, k FROM t", "CREATE VIEW w AS SELECT * FROM gone", "DROP TABLE gone"
    )
    assert answers(tmp_path, path, COUNT) == [(0, 20), (1, 20), (2, 20)]


@pytest.mark.slow
def test_an_engine_in_use_refuses_files_it_cannot_reach_any_more(tmp_path: Path) -> None:
    with duckdb.connect() as other:
        other.execute(f"COPY (SELECT 1 AS unit, 1 AS k) TO '{tmp_path}/a.parquet'")
    path = viewed(tmp_path, f"SELECT * FROM '{tmp_path}/a.parquet'")
    engine = dpsql.DuckDBEngine(path)
    with (
        dpsql.connect(engine, policy("t"), tmp_path / "budget.db", "ana"),
        pytest.raises(dpsql.Error, match="read"),
    ):
        dpsql.connect(engine, policy(), tmp_path / "budget.db", "ana")
    engine.close()


def test_a_table_with_a_generated_column_that_can_fail_is_refused(tmp_path: Path) -> None:
    path = viewed(tmp_path, "SELECT unit, k FROM t")
    with pytest.raises(dpsql.PolicyError, match="can fail on a row"):
        dpsql.connect(path, policy("made"), tmp_path / "budget.db", "ana")


@pytest.mark.slow
def test_what_gives_null_where_it_fails_is_read(tmp_path: Path, no_noise: None) -> None:
    """One row's text decided whether any query of the view could be answered."""
    path = viewed(
        tmp_path,
        "SELECT unit, TRY_CAST(s AS BIGINT) AS k, TRY(CAST(s AS DATE)) AS d FROM texts",
        "CREATE TABLE texts AS SELECT unit, k::VARCHAR AS s FROM t UNION ALL SELECT 99, 'x'",
    )
    rows = answers(tmp_path, path, COUNT)
    assert rows[:3] == [(0, 20), (1, 20), (2, 20)]


@since_2_0
@pytest.mark.parametrize(
    "select",
    [
        "SELECT * FROM '{place}/*/*.parquet'",
        "SELECT uid, part FROM read_parquet('{place}/*/*.parquet', hive_partitioning => true)",
        "SELECT v.* FROM read_parquet(['{place}/part=0/*.parquet', '{place}/part=x/*.parquet']) v",
    ],
)
def test_a_view_of_files_has_those_of_its_opening_and_no_type_from_their_names(
    tmp_path: Path, select: str
) -> None:
    place = tmp_path / "files"
    with duckdb.connect(str(tmp_path / "d.duckdb")) as owner:
        for part in ("part=0", "part=x"):
            (place / part).mkdir(parents=True)
            owner.execute(f"COPY (SELECT 1 AS uid FROM range(5)) TO '{place / part}/f.parquet'")
        owner.execute(f"CREATE VIEW v AS {select.format(place=place)}")
    engine = DuckDBEngine(tmp_path / "d.duckdb")
    assert [c.name for c in engine.catalog().tables["v"].columns] == ["uid"]
    (left,) = engine.catalog().tables["v"].left_out
    assert left.name == "part"
    assert "declares no type" in left.reason
    engine.declare({"v": (column_of("part", "BIGINT"),)})
    assert [(c.name, str(c.type)) for c in engine.catalog().tables["v"].columns] == [
        ("uid", "INTEGER"),
        ("part", "BIGINT"),
    ]
    (place / "part=1").mkdir()
    (place / "part=0" / "g.parquet").write_bytes((place / "part=0" / "f.parquet").read_bytes())
    (place / "part=1" / "f.parquet").write_bytes((place / "part=0" / "f.parquet").read_bytes())
    found = cursor_of(engine, "v").execute(
        "SELECT part, count(*) FROM v GROUP BY part ORDER BY part"
    )
    assert found.fetchall() == [(0, 5), (None, 5)]
    engine.close()


# -- the list of operators ------------------------------------------------------------------------


MADE_OF = (
    *READ.values(),
    "SELECT * FROM t WHERE k IN (SELECT k FROM t WHERE false)",
    "SELECT unit, (SELECT count(*) FROM other o WHERE o.unit = t.unit) AS n FROM t",
    "SELECT t.unit FROM t CROSS JOIN (VALUES (1), (2)) v(a)",
    "SELECT t.unit FROM t POSITIONAL JOIN other",
    "SELECT t.unit FROM t ASOF JOIN other o ON t.unit >= o.unit",
    "SELECT t.unit FROM t FULL JOIN other o ON t.unit = o.unit",
    "SELECT t.unit FROM t JOIN other o ON t.unit = o.unit OR t.k > o.unit",
    "SELECT unit, unnest(l) AS k FROM wide",
    "SELECT unit FROM t EXCEPT SELECT unit FROM other",
    "SELECT unit FROM t INTERSECT SELECT unit FROM other",
    "SELECT 1 AS unit",
    "SELECT * FROM t WHERE unit = ANY (SELECT unit FROM other o WHERE o.unit = t.k)",
)


@pytest.mark.slow
def test_without_any_operator_of_the_list_a_view_is_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(viewed(tmp_path, READ["columns"]))) as connection:
        plans = [plan_of(connection, generated(query)) for query in MADE_OF]
    found = {
        node["type"]
        for plan in plans
        if plan is not None
        for node in nodes(plan.root)
        if str(node.get("type")).startswith("LOGICAL_")
    }
    assert VIEW_OPERATORS.keys() - found <= {"LOGICAL_EMPTY_RESULT"}
