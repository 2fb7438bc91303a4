"""From text to blocks: what is recognised, where errors point, and what SQL is generated."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.support import TABLES, binding, planned, policy

import dpsql
from dpsql.core.schema import Schema, Table, schema_of
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.measures import AggregateKind, MeasureKind
from dpsql.ir.query import Block
from dpsql.planner.groups import with_groups_decided
from dpsql.policy.parameters import Parameters
from dpsql.sql.blocks.validate import validate
from dpsql.sql.expressions.lattices import lattice_for
from dpsql.sql.expressions.ranges import range_of
from dpsql.sql.expressions.totality import total, total_condition
from dpsql.syntax.parse import MAX_LENGTH, parse
from dpsql.syntax.text import to_sql


def world_schema() -> Schema:
    connection = duckdb.connect(":memory:")
    for statement in TABLES.values():
        connection.execute(statement)
    tables = []
    for name in TABLES:
        rows = connection.execute(f"DESCRIBE {name}").fetchall()
        tables.append(Table(name, tuple(column_of(row[0], row[1]) for row in rows)))
    connection.close()
    return schema_of(*tables)


SCHEMA, RULES = world_schema(), policy()
BIND = binding(SCHEMA)


def block(sql: str, parameters: Parameters | None = None) -> Block:
    (found,) = validate(
        parse(sql),
        sql,
        RULES,
        SCHEMA,
        parameters or Parameters(),
        BIND,
        DUCKDB,
        with_groups_decided,
    ).blocks
    return found


def tail(sql: str) -> str:
    return validate(
        parse(sql), sql, RULES, SCHEMA, Parameters(), BIND, DUCKDB, with_groups_decided
    ).tail


# -- blocks ---------------------------------------------------------------------------------------


def test_a_block_knows_its_unit_whatever_the_case_it_is_written_in() -> None:
    found = block("SELECT count(DISTINCT UID) FROM Visits")
    assert (found.table, found.unit_column) == ("visits", "Uid")
    assert [a.kind for a in found.aggregates] == [AggregateKind.COUNT_UNITS]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k + 1, count(*) FROM visits GROUP BY k + 1",
        "SELECT k + 1 AS next, count(*) FROM visits GROUP BY next",
        "SELECT k + 1 AS next, count(*) FROM visits GROUP BY 1",
        "SELECT k + 1 AS next, count(*) FROM visits GROUP BY ALL",
        "SELECT V.K + 1, count(*) FROM visits V GROUP BY v.k + 1",
        'SELECT "K" + 1, count(*) FROM visits GROUP BY (k + 1)',
    ],
)
def test_keys_are_the_same_however_they_are_named(sql: str) -> None:
    (key,) = block(sql).keys
    assert key.expression == block("SELECT k + 1 FROM visits GROUP BY k + 1").keys[0].expression


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("nvl(n, 0)", "coalesce(n, 0)"),
        ("iif(flag, 1, 0)", "CASE WHEN flag THEN 1 ELSE 0 END"),
        ("safe_cast(s AS INT)", "try_cast(s AS INT)"),
        ("convert(s, INT)", "CAST(s AS INT)"),
        ("truncate(x)", "trunc(x)"),
        ("startswith(s, 'a')", "starts_with(s, 'a')"),
        ("n DIV 3", "n // 3"),
        ("n <=> 3", "n IS NOT DISTINCT FROM 3"),
    ],
)
def test_words_that_duckdb_lacks_mean_what_they_mean_elsewhere(word: str, meaning: str) -> None:
    with duckdb.connect() as engine:
        for table in TABLES.values():
            engine.execute(table)
        with pytest.raises(duckdb.Error):
            engine.sql(f"SELECT {word} FROM visits")
    asked, meant = (block(f"SELECT {each} AS v FROM visits GROUP BY v") for each in (word, meaning))
    assert to_sql(asked.keys[0].expression) == to_sql(meant.keys[0].expression)


def test_stdev_is_the_spread_of_a_sample() -> None:
    found, meant = (block(f"SELECT {word}(n) FROM visits") for word in ("stdev", "stddev_samp"))
    assert [a.kind for a in found.aggregates] == [a.kind for a in meant.aggregates]


def test_equal_aggregates_are_measured_once() -> None:
    found = block("SELECT avg(n), avg(n) + 1, count(n), count(*) FROM visits HAVING avg(n) > 3")
    kinds = [measure.kind for measure in found.measures]
    assert kinds == [MeasureKind.CENTERED_SUM, MeasureKind.VALUES, MeasureKind.ROWS]


def test_rows_count_units_where_a_unit_has_one_row() -> None:
    found = block("SELECT count(*) FROM visits", Parameters(max_rows_contributed=1))
    assert [measure.kind for measure in found.measures] == [MeasureKind.UNITS]


@pytest.mark.parametrize(
    ("tail_of_query", "limit"),
    [
        ("ORDER BY count(*) DESC LIMIT 3", 3),
        ("ORDER BY c DESC LIMIT 3", 3),
        ("ORDER BY 2 DESC, k LIMIT 3", 3),
        ("ORDER BY c DESC LIMIT 3 OFFSET 2", 5),
        ("ORDER BY sum(big) DESC LIMIT 3", 3),
        ("ORDER BY c LIMIT 3", None),
        ("ORDER BY k DESC LIMIT 3", None),
        ("ORDER BY count(*) + 1 DESC LIMIT 3", None),
        ("ORDER BY sum(n) DESC LIMIT 3", None),
        ("ORDER BY avg(big) DESC LIMIT 3", None),
        ("HAVING count(*) > 2 ORDER BY c DESC LIMIT 3", None),
        ("ORDER BY c DESC", None),
        ("ORDER BY c DESC LIMIT 10%", None),
        ("LIMIT 3", None),
    ],
)
def test_top_k_is_recognised_only_where_it_means_the_same(
    tail_of_query: str, limit: int | None
) -> None:
    asked = f"SELECT k, count(*) AS c FROM visits GROUP BY k {tail_of_query}"
    found = block(asked, Parameters(max_groups_contributed=10)).top_k
    assert (None if found is None else found.limit) == limit


def test_several_blocks_are_found_wherever_they_stand() -> None:
    sql = (
        "WITH a AS (SELECT k, count(*) AS n FROM visits GROUP BY k) SELECT n, (SELECT count(*) "
        "FROM mails) FROM a WHERE n > (SELECT avg(n) FROM visits) UNION ALL "
        "SELECT count(*), 0 FROM mails"
    )
    query = validate(
        parse(sql), sql, RULES, SCHEMA, Parameters(), BIND, DUCKDB, with_groups_decided
    )
    assert sorted(found.table for found in query.blocks) == ["mails", "mails", "visits", "visits"]
    assert "visits" not in query.tail.replace("AS visits", "").replace('AS "visits"', "")


def test_the_tail_keeps_no_condition_on_private_rows() -> None:
    text = tail("SELECT k, count(*) FROM visits WHERE s = 'needle' GROUP BY k HAVING count(*) > 3")
    assert "needle" not in text
    assert "GROUP BY" not in text


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("SELECT count(*) FROM vists", "vists"),
        ("SELECT count(*) FROM visits WHERE nn = 1", "nn"),
        ("SELECT k, s, count(*) FROM visits GROUP BY k", "s"),
        ("SELECT k, mode(n, s) FROM visits GROUP BY k", "mode(n"),
        ("SELECT uid, count(*) FROM visits GROUP BY uid", "uid"),
    ],
)
def test_an_error_points_at_what_is_wrong(sql: str, part: str) -> None:
    with pytest.raises(dpsql.Error) as caught:
        planned(sql, SCHEMA, RULES)
    place = caught.value.place
    assert place is not None
    assert part in sql[place.column - 1 : place.column - 1 + place.length] or (
        sql[place.column - 1 : place.column - 1 + place.length] in part
    )
    assert caught.value.hint


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT k, count(*) AS n FROM visits GROUP BY k ORDER BY n + 0", "column_not_grouped"),
        ("SELECT k, count(*) AS n FROM visits GROUP BY k ORDER BY visits.n", "column_not_grouped"),
        ("SELECT k, count(*) n FROM visits GROUP BY k HAVING visits.n > 3", "column_not_grouped"),
        ("SELECT x AS k, count(*) FROM visits GROUP BY x ORDER BY visits.k", "column_not_grouped"),
        ("SELECT DISTINCT -k AS k FROM visits ORDER BY visits.k", "column_not_grouped"),
        ("SELECT k % 2 AS n, count(*) FROM visits GROUP BY ROLLUP (n)", "column_not_grouped"),
        ("SELECT n % 2 AS n, count(*) FROM visits GROUP BY ALL HAVING n = 1", "column_not_grouped"),
        ("SELECT count(*) AS t, count(s) AS t FROM visits HAVING t > 9", "ambiguous_column"),
        ("SELECT k AS t, k + 1 AS t, t * 2, count(*) FROM visits GROUP BY ALL", "ambiguous_column"),
    ],
)
def test_a_name_that_duckdb_reads_otherwise_or_not_at_all_is_refused(sql: str, code: str) -> None:
    with fails_with(code):
        planned(sql, SCHEMA, RULES)


def test_a_text_too_long_is_not_even_parsed() -> None:
    with fails_with("query_too_long"):
        parse("SELECT " + "1," * MAX_LENGTH)


def test_refused_statements_leave_nothing_on_the_standard_streams(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(dpsql.QueryRefused):
        parse("CALL pragma_version('secret')")
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


# -- totality -------------------------------------------------------------------------------------

TABLE = Table(
    "t",
    (
        column_of("a", "BIGINT"),
        column_of("s", "VARCHAR"),
        column_of("x", "DOUBLE"),
        column_of("b", "BOOLEAN"),
        column_of("h", "HUGEINT"),
    ),
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a > 3 AND s = 'x' OR NOT b", None),
        ("a IS NULL", None),
        ("a IN (1, 2, NULL)", None),
        ("a BETWEEN -1 AND x", None),
        ("b", None),
        ("b IS NOT TRUE", None),
        ("s", "TRY_CAST(s AS BOOLEAN)"),
        ("NOT s", "NOT TRY_CAST(s AS BOOLEAN)"),
        ("s IS TRUE", "TRY_CAST(s AS BOOLEAN) IS TRUE"),
        ("a = s", "TRY(a = s)"),
        ("a + 1 > 2", "TRY(a + 1 > 2)"),
        ("h = a", "TRY(h = a)"),
        ("a > 3 AND a + 1 > 2", "a > 3 AND TRY(a + 1 > 2)"),
        ("NOT (a > 3 AND a + 1 > 2)", "NOT (a > 3 AND TRY(a + 1 > 2))"),
        ("a + 1 IS NULL", "TRY(a + 1) IS NULL"),
        ("a BETWEEN 1 AND a + 1", "(a >= 1 AND TRY(a <= (a + 1)))"),
        ("a IN (1, a + 1)", "(a = 1 OR TRY(a = (a + 1)))"),
        ("s IN (1, 2)", "TRY(s IN (1, 2))"),
        ("a IS DISTINCT FROM s", "NOT COALESCE(TRY(a = s), (a IS NULL AND s IS NULL))"),
        ("abs(CASE WHEN a > 3 AND a + 1 > 2 THEN 1 END) = 1",
         "TRY(ABS(CASE WHEN a > 3 AND TRY(a + 1 > 2) THEN 1 END) = 1)"),
        ("CASE a WHEN s THEN b END", "TRY_CAST(CASE WHEN TRY(a = s) THEN b END AS BOOLEAN)"),
        ("coalesce(a + 1, a) = 1", "TRY(TRY(COALESCE(TRY(a + 1), a)) = 1)"),
    ],
)  # fmt: skip
def test_only_what_can_fail_is_guarded_and_only_strict_parts_are(
    condition: str, expected: str | None
) -> None:
    tree = sqlglot.parse_one(condition, read="duckdb")
    text = tree.sql("duckdb")
    guarded = total_condition(tree, TABLE, DUCKDB).sql("duckdb")
    assert tree.sql("duckdb") == text, "the tree it was given is left alone"
    if expected is None:
        assert guarded == text
    elif "TRY_CAST(CASE" in expected:
        assert guarded.startswith("TRY_CAST(")
        assert "TRY(a = s)" in guarded
    else:
        assert guarded == expected


@pytest.mark.parametrize(
    "expression",
    [
        "NOT (a > 3 AND CAST(s AS INT) > 3)",
        "a NOT BETWEEN 3 AND CAST(s AS INT)",
        "CAST(s AS INT) IS NULL",
        "CAST(s AS INT) IS DISTINCT FROM a",
        "a NOT IN (4, CAST(s AS INT))",
        "CASE WHEN a < 3 OR CAST(s AS INT) > 3 THEN 1 ELSE 0 END",
        "coalesce(a > 3 AND CAST(s AS INT) > 3, TRUE)",
        "CAST(NOT (a > 3 AND CAST(s AS INT) > 3) AS INT) + 1",
        "nullif(a, CAST(s AS INT))",
        "greatest(a, CAST(s AS INT))",
    ],
)
def test_a_total_expression_has_one_value_per_row_whatever_the_other_rows(expression: str) -> None:
    """Other rows enter through the table's statistics, which the engine simplifies by."""
    guarded = total(sqlglot.parse_one(expression, read="duckdb"), TABLE, DUCKDB).sql("duckdb")
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET disabled_optimizers = 'common_subexpressions'")

        def values(rows: list[tuple[int | None, str | None]]) -> dict[object, object]:
            connection.execute("CREATE OR REPLACE TABLE t (a BIGINT, s VARCHAR)")
            connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
            found = connection.execute(f"SELECT a, s, {guarded} FROM t WHERE a < 100").fetchall()
            return {(a, s): value for a, s, value in found}

        rows: list[tuple[int | None, str | None]] = [(1, "bad"), (2, "7"), (1, "1"), (1, "")]
        alone = values(rows)
        for other in [(50, "7"), (4, None), (None, "8"), (-50, ""), (99, "bad")]:
            together = values([*rows, other])
            assert {key: together[key] for key in alone} == alone
            assert values(rows) == alone


# -- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "bounds"),
    [
        ("n", (-5, 20)),
        ("-n", (-20, 5)),
        ("n + n", (-10, 40)),
        ("n - big", (-1005, 20)),
        ("n * n", (0, 400)),
        ("(n + 1) * 2", (-8, 42)),
        ("CASE WHEN k = 1 THEN n ELSE 0 END", (-5, 20)),
        ("CASE WHEN k = 1 THEN n END", (-5, 20)),
        ("k", None),
        ("n / 2", (-2.5, 10)),
        ("n / big", None),
        ("CASE WHEN k = 1 THEN k END", None),
    ],
)
def test_bounds_follow_from_those_of_columns(
    expression: str, bounds: tuple[float, float] | None
) -> None:
    tree = sqlglot.parse_one(expression, read="duckdb")
    table = RULES.table("visits")
    assert table is not None
    assert range_of(tree, table, SCHEMA["visits"]) == bounds


@pytest.mark.parametrize(
    ("bounds", "integral", "rows"),
    [
        ((0, 1), True, 1),
        ((0, 100), False, 10),
        ((-1e-9, 1e-9), False, 1),
        ((5, 5), False, 3),
        ((0, 2**30), False, 60),
        ((-1e15, 1e15), True, 1000),
        ((0, 0), True, 1),
    ],
)
def test_lattices_enclose_their_bounds_and_keep_sensitivities_small(
    bounds: tuple[float, float], integral: bool, rows: int
) -> None:
    lattice = lattice_for(bounds, integral, rows)
    assert lattice.low * lattice.quantum <= bounds[0]
    assert lattice.high * lattice.quantum >= bounds[1]
    largest = lattice.released(rows * max(abs(lattice.low), abs(lattice.high)))
    assert 1 <= largest <= 2**20 + 2
    assert lattice.low <= lattice.midpoint <= lattice.high


# -- generated SQL --------------------------------------------------------------------------------


def test_text_of_the_analyst_is_quoted_in_what_the_engine_runs() -> None:
    sql = "SELECT count(*) FROM visits WHERE s = 'it''s; DROP TABLE visits; --' AND \"order\" > 1"
    (statement,) = planned(sql, SCHEMA, RULES).statements
    assert "'it''s; DROP TABLE visits; --'" in statement
    assert '"order" > 1' in statement
    assert len(sqlglot.parse(statement, read="duckdb")) == 1


def test_generated_sql_reads_one_table_once_and_drops_rows_without_a_unit() -> None:
    for sql in (
        "SELECT k, count(*), sum(n), avg(x) FROM visits GROUP BY k",
        "SELECT count(DISTINCT uid) FROM visits",
        "SELECT c, count(*) FROM visits GROUP BY c",
    ):
        (statement,) = planned(sql, SCHEMA, RULES).statements
        assert statement.count("visits") == 1
        assert '"Uid" IS NOT NULL' in statement


def test_the_salt_decides_which_groups_are_kept_and_nothing_else() -> None:
    sql = "SELECT k, count(*) FROM visits GROUP BY k"
    first, second = (planned(sql, SCHEMA, RULES, salt=s).statements[0] for s in (123457, 7654321))
    assert first != second
    assert first.replace("123457", "S") == second.replace("7654321", "S")


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT ntile(4) OVER (ORDER BY n) AS q, count(*) FROM visits GROUP BY q", "QUANTILE(x"),
        ("SELECT count(*) FROM (SELECT rank() OVER (ORDER BY n) AS q FROM visits)", "QUANTILE(x"),
        ("SELECT count(*) FROM visits QUALIFY rank() OVER (ORDER BY n) = 1", "in a subquery"),
    ],
)
def test_a_refused_window_names_what_to_ask_instead(sql: str, hint: str) -> None:
    with pytest.raises(dpsql.Error) as caught:
        planned(sql, SCHEMA, RULES)
    assert hint in (caught.value.hint or "")
