"""Questions whose answer would be to another: answered rightly, told, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with

import dpsql
from dpsql.kinds.summary import COUNTED

POLICY = """
version: 1
dataset: shop
defaults: {epsilon: 1, delta: 1e-8, max_groups_contributed: 3, max_rows_contributed: 2}
accounts:
  ana: {epsilon: 100, delta: 1e-4}
tables:
  users:
    privacy_unit: {name: user, column: id}
    columns:
      plan: {domain: [free, paid]}
  facts: {public: true}
"""
USERS = 3000


@pytest.fixture
def connection(tmp_path: Path, no_noise: None) -> dpsql.Connection:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(
            "CREATE TABLE users AS SELECT i AS id, 'c' || i % 3 AS country, i AS visit,"
            " ['free', 'paid'][1 + i % 2] AS plan, i % 7 AS n, DATE '2026-01-01' AS day"
            f" FROM range({USERS}) r(i)"
        )
        made.execute("CREATE TABLE facts AS SELECT i AS x, i % 4 AS y FROM range(10) r(i)")
    (tmp_path / "policies.yaml").write_text(POLICY, encoding="utf-8")
    return dpsql.connect(
        path, policies=tmp_path / "policies.yaml", ledger=tmp_path / "b.db", analyst="ana"
    )


# -- private subqueries ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "countries"),
    [
        ("COUNT(*) > (SELECT COUNT(*) / 2 FROM users)", 0),
        ("COUNT(*) > (SELECT COUNT(*) / 9 FROM users)", 3),
        ("country IN (SELECT country FROM users GROUP BY country)", 3),
        ("COUNT(*) > 3 AND country NOT IN (SELECT country FROM users WHERE n < 9 GROUP BY 1)", 0),
        ("EXISTS (SELECT COUNT(*) FROM users)", 3),
        ("COUNT(*) > (SELECT MIN(c) FROM (SELECT n, COUNT(*) AS c FROM users GROUP BY n))", 3),
    ],
)
@pytest.mark.parametrize("group", ["country", "ROLLUP (country)"])
def test_a_private_subquery_in_having_is_answered(
    connection: dpsql.Connection, condition: str, countries: int, group: str
) -> None:
    sql = f"SELECT country, COUNT(*) FROM users GROUP BY {group} HAVING {condition}"
    answered = connection.sql(sql).fetchall()
    assert sum(country is not None for country, _ in answered) == countries


# -- values of unlike types -----------------------------------------------------------------------

UNLIKE = [
    "SELECT COUNT(*) FROM users WHERE country = 1",
    "SELECT COUNT(*) FROM users WHERE -1.5 < country",
    "SELECT COUNT(*) FROM users WHERE NOT (country = TRUE)",
    "SELECT COUNT(*) FROM users WHERE country = day",
    "SELECT COUNT(*) FROM users WHERE country = DATE '2026-01-01'",
    "SELECT COUNT(*) FROM users WHERE country BETWEEN 1 AND 2 OR n = 3",
    "SELECT COUNT(*) FROM users WHERE country IN ('c1', 2)",
    "SELECT COUNT(*) FROM users WHERE country IS DISTINCT FROM n",
    "SELECT COUNT(*) FROM users WHERE CASE country WHEN 1 THEN TRUE ELSE FALSE END",
    "SELECT COUNT(*) FILTER (WHERE country = 1) FROM users",
    "SELECT SUM(n, contribution_bounds_per_row => (0, 9)) FILTER (WHERE country = 1) FROM users",
    "SELECT COUNT(*) FROM (SELECT * FROM users WHERE country = 1)",
    "SELECT country = 1, COUNT(*) FROM users GROUP BY 1",
    "SELECT COUNT(*) FROM users JOIN facts ON users.country = facts.x",
    "SELECT COUNT(*) FROM users WHERE country IN (SELECT x FROM facts WHERE x = users.country)",
    "SELECT country, COUNT(*) FROM users GROUP BY country HAVING country = 1",
    "SELECT country, COUNT(*) FROM users GROUP BY country HAVING NOT (country = TRUE)",
    "SELECT * FROM (SELECT country, COUNT(*) FROM users GROUP BY country) WHERE country < 2",
    "SELECT plan, COUNT(*) FROM users GROUP BY plan ORDER BY plan > 3",
    "SELECT y FROM facts, (SELECT country c, COUNT(*) n FROM users GROUP BY 1) u WHERE u.c = y",
]


@pytest.mark.parametrize("sql", UNLIKE)
def test_a_text_compared_with_another_type_is_refused_and_costs_nothing(
    connection: dpsql.Connection, sql: str
) -> None:
    with pytest.raises(dpsql.errors.QueryRefused, match=r"text|compare") as refused:
        connection.sql(sql)
    # Of released texts the engine says some of it by itself, when it binds the outer query.
    assert refused.value.code in ("text_compared", "does_not_bind")
    assert connection.budget().epsilon_spent == 0


def test_the_type_as_which_a_released_text_is_read_is_named(connection: dpsql.Connection) -> None:
    with fails_with("text_compared", "a value of type BIGINT") as refused:
        connection.sql(UNLIKE[-1])
    assert "TRY_CAST(… AS BIGINT)" in str(refused.value.hint)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("country = 'c1'", USERS // 3),
        ("country::INT = 1", 0),
        ("substr(country, 2)::INT = 1", USERS // 3),
        ("n = '3'", sum(i % 7 == 3 for i in range(USERS))),
        ("day = '2026-01-01'", USERS),
        ("country <> plan", USERS),
        ("country IS NOT NULL AND n = 3", sum(i % 7 == 3 for i in range(USERS))),
    ],
)
def test_like_is_compared_with_like(
    connection: dpsql.Connection, condition: str, count: int
) -> None:
    assert connection.sql(f"SELECT COUNT(*) FROM users WHERE {condition}").fetchall() == [(count,)]


@pytest.mark.slow
def test_what_fails_on_released_rows_is_mended_for_nothing(
    connection: dpsql.Connection,
) -> None:
    sql = "SELECT (SELECT {}(c) FROM (SELECT country AS c, COUNT(*) FROM users GROUP BY 1)) AS c"
    with pytest.raises(dpsql.DataError, match="costs nothing more"):
        connection.sql(sql.format(""))
    spent = connection.budget().epsilon_spent
    assert connection.sql(sql.format("MAX")).fetchall() == [("c2",)]
    assert connection.budget().epsilon_spent == spent > 0


# -- keys that are the unit -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_key_that_a_join_makes_equal_to_the_unit_is_refused(
    connection: dpsql.Connection,
) -> None:
    sql = "SELECT f.{}, COUNT(*) FROM users u JOIN facts f ON u.id = f.x GROUP BY 1"
    with fails_with("groups_by_unit"):
        connection.sql(sql.format("x"))
    connection.explain(sql.format("y"))


# -- counts of groups -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM (SELECT DISTINCT visit FROM users)",
        "SELECT COUNT(*) AS n FROM (SELECT visit FROM users GROUP BY visit) AS t",
        "SELECT COUNT(t.v) FROM (SELECT visit AS v FROM users GROUP BY 1) AS t",
        "SELECT COUNT(DISTINCT v) FROM (SELECT DISTINCT visit AS v FROM users)",
        "SELECT COUNT(*) FROM (SELECT DISTINCT id FROM users)",
    ],
)
def test_how_many_values_there_are_does_not_depend_on_how_it_is_asked(
    connection: dpsql.Connection, sql: str
) -> None:
    answer = connection.sql(sql)
    assert answer.fetchall() == [(USERS,)]
    assert answer.intervals(0.95)  # which a count of what was released has not


@pytest.mark.slow
def test_a_condition_of_the_list_is_kept(connection: dpsql.Connection) -> None:
    sql = "SELECT COUNT(*) FROM (SELECT DISTINCT visit FROM users WHERE visit < 1000)"
    assert connection.sql(sql).fetchall() == [(1000,)]


@pytest.mark.slow
def test_public_values_are_counted_as_they_are(connection: dpsql.Connection) -> None:
    assert connection.sql("SELECT COUNT(*) FROM (SELECT DISTINCT y FROM facts)").fetchall() == [
        (4,)
    ]


COUNTS = [
    "SELECT SUM(c) FROM (SELECT visit, COUNT(*) AS c FROM users GROUP BY visit)",
    "SELECT COUNT(*) FROM (SELECT visit, n FROM users GROUP BY ALL)",
    "WITH t AS (SELECT DISTINCT visit FROM users) SELECT COUNT(*) FROM t",
    "WITH t AS (SELECT DISTINCT visit FROM users), u AS (SELECT * FROM t) SELECT MAX(visit) FROM u",
    "SELECT country, COUNT(*) / SUM(COUNT(*)) OVER () FROM users GROUP BY country",
    "SELECT COUNT(*) FROM (SELECT country FROM users GROUP BY country HAVING COUNT(*) > 5)",
]
NO_COUNTS = [
    "SELECT country, COUNT(*) FROM users GROUP BY country ORDER BY 2",
    "SELECT country, RANK() OVER (ORDER BY COUNT(*)) FROM users GROUP BY country",
    "SELECT SUM(c) FROM (SELECT plan, COUNT(*) AS c FROM users GROUP BY plan)",
    "SELECT COUNT(*) FROM users",
    "SELECT country, COUNT(*), (SELECT COUNT(*) FROM facts) FROM users GROUP BY country",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "counts"), [*((sql, True) for sql in COUNTS), *((sql, False) for sql in NO_COUNTS)]
)
@pytest.mark.parametrize(
    "told",
    [
        pytest.param(lambda con, sql: con.sql(sql).summary(), id="answer"),
        pytest.param(lambda con, sql: str(con.explain(sql)), id="explain"),
    ],
)
def test_an_answer_that_counts_released_groups_says_so(
    connection: dpsql.Connection,
    sql: str,
    counts: bool,
    told: Callable[[dpsql.Connection, str], str],
) -> None:
    assert (COUNTED in " ".join(told(connection, sql).split())) == counts


@pytest.mark.slow
def test_what_is_counted_above_a_release_makes_it_no_other_release(
    connection: dpsql.Connection,
) -> None:
    connection.sql("SELECT visit % 5 AS v, COUNT(*) AS c FROM users GROUP BY 1")
    above = "SELECT SUM(c) FROM (SELECT visit % 5 AS v, COUNT(*) AS c FROM users GROUP BY 1)"
    assert connection.sql(above).cost.stored


# -- constants, types and keys that a condition leaves --------------------------------------------

IMPOSSIBLE = (
    "day >= '2026-01'",
    "date_trunc('month', day) = '2026-01'",
    "day BETWEEN '2026-01-01' AND '2026-02-30'",
    "day = '01/02/2026'",
    "n = ''",
    "n > CAST('abc' AS INT)",
    "n IN ('1', '2', 'x')",
    "n = 'thirty'",
    "n = DATE '2026-01-01'",
    "country = 'c1' AND CASE WHEN n > 1 THEN n ELSE 'x' END = 1",
)


@pytest.mark.parametrize("condition", IMPOSSIBLE)
@pytest.mark.parametrize(
    "question",
    [
        "SELECT COUNT(*) FROM users WHERE {}",
        "SELECT country, COUNT(*) FROM users GROUP BY country, n > 3 AND {}",
        "SELECT COUNT(*) FILTER (WHERE {}) FROM users",
        "SELECT COUNT(*) FROM (SELECT id, MAX(n) AS m FROM users WHERE {} GROUP BY id)",
        "SELECT COUNT(*) FROM users JOIN (SELECT id AS i FROM users WHERE {}) ON id = i",
    ],
)
def test_a_constant_that_can_never_be_computed_is_refused_for_nothing(
    connection: dpsql.Connection, question: str, condition: str
) -> None:
    before = connection.budget()
    with pytest.raises(dpsql.QueryRefused) as refused:
        connection.sql(question.format(condition))
    assert refused.value.code == "constant_fails"
    assert connection.budget() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("TRY_CAST('abc' AS INT) = n", 0),  # as it says, NULL
        ("n = TRY_CAST('3' AS INT)", USERS // 7),
        ("n >= 2.0", USERS * 5 // 7),
        ("n BETWEEN 1.5 AND 3", USERS * 2 // 7),
        ("n IN (1.0, 2)", USERS * 2 // 7),
        ("n * 1.5 > 3", USERS * 4 // 7),
        ("day = '2026-01-01'", USERS),
        ("n = 99999999999", 0),
    ],
)
def test_what_can_be_computed_is(connection: dpsql.Connection, condition: str, rows: int) -> None:
    ((found,),) = connection.sql(f"SELECT COUNT(*) FROM users WHERE {condition}").fetchall()
    assert abs(found - rows) <= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "per_unit",
    ["SUM(COALESCE(n, 0.0))", "SUM(CASE WHEN plan = 'free' THEN n ELSE 0.0 END)"],
)
def test_integers_stand_beside_decimal_literals(
    connection: dpsql.Connection, per_unit: str
) -> None:
    bounded = f"SELECT COUNT(*) FROM (SELECT id, {per_unit} AS s FROM users GROUP BY id)"
    assert connection.sql(f"{bounded} WHERE s >= 0.5").fetchall()
    assert connection.sql(
        "SELECT COUNT(*) FROM (SELECT id FROM users GROUP BY id HAVING COUNT(*) > 0.5)"
    ).fetchall() == [(USERS,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "quantile",
    [
        "MEDIAN(c) FROM (SELECT id, COUNT(*) * 8 AS c",
        "QUANTILE_DISC(c, 0.9) FROM (SELECT id, COUNT(*) + 7 AS c",
        "MEDIAN(c) FROM (SELECT id, COUNT(DISTINCT n) * 8.0 AS c",
        "QUANTILE_CONT(c, 0.1) FROM (SELECT id, 9 - COUNT(n) FILTER (WHERE n >= 0) AS c",
    ],
)
def test_quantiles_of_counts_per_unit_are_among_them(
    connection: dpsql.Connection, quantile: str
) -> None:
    """The bounds of a count are 0 and 2^53: steps between them must not hide all there is."""
    ((found,),) = connection.sql(f"SELECT {quantile} FROM users GROUP BY id)").fetchall()
    assert found == 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "groups"),
    [
        ("SELECT plan, COUNT(*) FROM users WHERE plan = 'free' GROUP BY plan", {"free"}),
        ("SELECT plan, COUNT(*) FROM users WHERE plan <> 'free' AND n > 2 GROUP BY 1", {"paid"}),
        ("SELECT plan, COUNT(*) FROM users WHERE plan LIKE 'p%' GROUP BY plan", {"paid"}),
        ("SELECT plan, COUNT(*) FROM users WHERE plan = 'x' OR n > 2 GROUP BY 1", {"free", "paid"}),
        (
            "SELECT p, COUNT(*) FROM (SELECT plan AS p, n FROM users WHERE plan > 'g') t "
            "WHERE n > 2 GROUP BY p",
            {"paid"},
        ),
        (
            "SELECT p, COUNT(*) FROM (SELECT plan AS p, id FROM users) t JOIN users u "
            "ON t.id = u.id AND p IN ('free', 'none') GROUP BY p",
            {"free"},
        ),
        (
            "SELECT plan, COUNT(*) FROM (SELECT id, plan, COUNT(*) FROM users WHERE plan > 'g' "
            "GROUP BY 1, 2) GROUP BY plan",
            {"paid"},
        ),
        (
            "SELECT t.plan, COUNT(*) FROM users u LEFT JOIN (SELECT * FROM users WHERE n > 2) t "
            "ON u.id = t.id AND t.plan = 'free' GROUP BY t.plan",
            {"free"},
        ),
        (
            "SELECT u.plan, COUNT(*) FROM users u LEFT JOIN (SELECT * FROM users WHERE n > 2) t "
            "ON u.id = t.id AND u.plan = 'free' GROUP BY u.plan",
            {"free", "paid"},
        ),
        (
            "SELECT plan, SUM(1) FROM users WHERE plan = 'free' GROUP BY ROLLUP (plan)",
            {"free", None},
        ),
    ],
)
def test_declared_keys_that_conditions_exclude_do_not_come_out(
    connection: dpsql.Connection, question: str, groups: set[str | None]
) -> None:
    assert {row[0] for row in connection.sql(question).fetchall()} == groups


@pytest.mark.slow
def test_fewer_groups_have_less_noise(connection: dpsql.Connection) -> None:
    """Two declared groups of which a unit may be in both, and one of them."""
    whole = connection.explain("SELECT plan, COUNT(*) FROM users GROUP BY plan")
    narrow = connection.explain(
        "SELECT plan, COUNT(*) FROM users WHERE plan = 'free' GROUP BY plan"
    )
    margins = [each.blocks[0].columns[0].margin95 for each in (whole, narrow)]
    assert margins[0] is not None
    assert margins[1] is not None
    assert margins[1] < margins[0] * 0.85


@pytest.mark.slow
def test_a_condition_without_a_declared_key_is_told(connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.QueryRefused) as refused:
        connection.sql("SELECT plan, COUNT(*) FROM users WHERE plan = 'gold' GROUP BY plan")
    assert refused.value.code == "no_group_left"
    assert "free, paid" in str(refused.value.hint)


@pytest.mark.slow
def test_a_column_may_have_two_names(connection: dpsql.Connection) -> None:
    rows = connection.sql(
        "SELECT COUNT(*) FROM (SELECT u, b FROM (SELECT id AS u, id AS b FROM users) c) a "
        "JOIN users t ON a.u = t.id WHERE a.b >= 0"
    ).fetchall()
    assert rows == [(USERS,)]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["current_date", "CURRENT_TIME", "localtimestamp", "today()"])
def test_the_clock_may_stand_beside_aggregates(connection: dpsql.Connection, asked: str) -> None:
    result = connection.sql(f"SELECT {asked}, COUNT(*) FROM users")
    assert result.fetchall()[0][1] == USERS


def test_the_database_has_its_own_name(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT current_database(), current_catalog")
    assert result.fetchall() == [("shop", "shop")]
    assert list(result.columns) == ["current_database()", "current_catalog"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("SELECT CAST(plan AS INT), COUNT(*) > 0 FROM users GROUP BY plan", [(None, True)] * 2),
        ("SELECT COUNT(*)::UTINYINT, COUNT(*)::UINTEGER FROM users", [(None, USERS)]),
        ("SELECT 7 // COUNT(*), COUNT(*) % COUNT(*), (COUNT(*) + 300)::UTINYINT FROM "
         "(SELECT plan, COUNT(*) AS n FROM users GROUP BY plan) WHERE n < 0", [(None, None, None)]),
        ("SELECT (COUNT(*) / 2)::DECIMAL(3, 1) FROM users", [(None,)]),
        ("SELECT 7 // (n - n), n % (n - n) FROM (SELECT COUNT(*) n FROM users)", [(None, None)]),
        ("SELECT plan FROM users GROUP BY plan ORDER BY CAST(plan AS INT) + 5, 1 DESC",
         [("paid",), ("free",)]),
    ],
)  # fmt: skip
def test_a_cast_of_what_is_paid_for_is_null_where_it_cannot_be_done(
    connection: dpsql.Connection, question: str, rows: list[tuple[object, ...]]
) -> None:
    assert connection.sql(question).fetchall() == rows
