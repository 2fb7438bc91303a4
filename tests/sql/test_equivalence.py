"""Without noise, and where no bound binds, answers are those of plain DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.random_examples import examples_of
from helpers.support import ANALYST, TABLES, policy, world_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.core.schema import fold
from dpsql.core.sql_types import INTEGER_BITS, SqlType
from dpsql.policy.model import AccountPolicy

ROWS = """INSERT INTO visits SELECT
    i % 30, CASE WHEN i % 7 < 6 THEN i % 7 END, CASE WHEN i % 5 < 4 THEN 's' || (i % 5) END,
    i % 23 - 4, i % 900, CASE WHEN i % 11 > 0 THEN i % 13 - 2.25 END, i * 1000.5, (i % 101) / 4,
    DATE '2024-01-01' + (i % 50)::INT, TIMESTAMP '2024-01-01' + to_hours(i), i % 2 = 0,
    ['red', 'green', 'blue', NULL][1 + i % 4], i % 10 FROM range(600) r(i)"""
MAILS = "INSERT INTO mails SELECT 'm' || (i % 40), i % 5, i % 11 FROM range(400) r(i)"
SHOPS = "INSERT INTO shops SELECT i, 'shop ' || i, 10 * i FROM range(5) r(i)"
WIDE: dict[str, Any] = {
    "max_groups_contributed": 1000,
    "max_rows_contributed": 60,
    "k_bar": 10_000,
    "epsilon": 10.0,
}
ROUNDING = 0.02  # the lattice of x: 2**-26 * 2**17 per group, and its share in averages

# DuckDB names these columns after its own rewriting of the expression.
FREE_NAMES = (
    "unnest",
    "OVER",
    "CASE",
    "/",
    "%",
    "+",
    "* ",
    "extract",
    "date_trunc",
    "(SELECT",
    "::",
)
CORPUS = Path(__file__).with_name("equivalence.sql").read_text().splitlines()


@pytest.fixture(scope="module")
def connections(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[dpsql.Connection, duckdb.DuckDBPyConnection]]:
    directory = tmp_path_factory.mktemp("equivalence")
    rules = policy(None, ana=AccountPolicy(ANALYST, 1000.0, 0.4))
    with world_file(directory / "world.duckdb", ROWS, MAILS, SHOPS) as path:
        private = dpsql.connect(path, rules, directory / "budget.db", ANALYST, **WIDE)
    plain = duckdb.connect(":memory:")
    with private, plain:
        for statement in (*TABLES.values(), ROWS, MAILS, SHOPS):
            plain.execute(statement)
        yield private, plain


def agree(
    private: dpsql.Connection,
    plain: duckdb.DuckDBPyConnection,
    sql: str,
    mechanism: str | None = None,
) -> None:
    """Assert that both give the same columns, kinds of types and rows in the same order."""
    expected = plain.sql(sql)
    answer = private.sql(sql, mechanism=mechanism, fresh=True)
    assert [kind(type_) for type_ in answer.types] == [kind(str(t)) for t in expected.types]
    if not any(mark in sql for mark in FREE_NAMES):
        # A name that comes twice gets a suffix here, so that frames and dictionaries can hold both.
        names = [re.sub(r"_\d+$", "", fold(name)) for name in answer.columns]
        assert names == list(map(fold, expected.columns))
    rows, exact = answer.fetchall(), expected.fetchall()
    assert len(rows) == len(exact)
    for row, right in zip(rows, exact, strict=True):
        assert all(map(same, row, right)), f"{row} is not {right}"


def kind(type_: str) -> str:
    """Types up to width: sums of integers are BIGINT here and HUGEINT in DuckDB."""
    name = SqlType.of(type_).kind
    if name in INTEGER_BITS or name.endswith("]"):
        return name.replace("HUGEINT", "BIGINT") if name.endswith("]") else "integer"
    return "real" if name in ("DOUBLE", "FLOAT", "DECIMAL") else name


def same(value: object, right: object) -> bool:
    """Equal, numbers up to the rounding of the lattice."""
    numbers = int | float | Decimal
    if isinstance(value, bool) or not (isinstance(value, numbers) and isinstance(right, numbers)):
        return value == right
    return abs(float(value) - float(right)) <= ROUNDING + 1e-7 * abs(float(right))


@pytest.mark.slow
@pytest.mark.parametrize("sql", CORPUS)
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_answers_equal_those_of_plain_duckdb(
    sql: str, connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection]
) -> None:
    agree(*connections, sql)


UNKNOWN_TOP = (
    "gumbel_top_k",
    "gaussian_top_k",
    "correlated_top_k",
    "gumbel_top_k_chosen_k_bar",
)


@pytest.mark.parametrize("mechanism", UNKNOWN_TOP)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s, count(*) AS n FROM visits GROUP BY s ORDER BY n DESC, s LIMIT 20",
        "SELECT k, count(DISTINCT uid), sum(big) FROM visits GROUP BY k ORDER BY 3 DESC LIMIT 4",
        "SELECT upper(s) AS t, count(DISTINCT uid) AS n FROM visits GROUP BY t "
        "ORDER BY n DESC, t LIMIT 3 OFFSET 2",
    ],
)
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_every_top_k_mechanism_answers_as_plain_duckdb(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection], sql: str, mechanism: str
) -> None:
    agree(*connections, sql, mechanism)


@pytest.mark.parametrize("mechanism", ["known_domain", "known_domain_top_k"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c, sum(big) b FROM visits WHERE c IS NOT NULL GROUP BY c ORDER BY b DESC LIMIT 2",
        "SELECT count(*) AS n, c FROM visits WHERE c > 'a' AND k <> 2 GROUP BY c "
        "ORDER BY n DESC, c LIMIT 1",
        "WITH t AS (SELECT c, sum(big) AS b, avg(x) AS m FROM visits WHERE c IS NOT NULL "
        "GROUP BY c ORDER BY b DESC, c LIMIT 2) SELECT c, m * 2 FROM t ORDER BY c",
        "SELECT c, count(*) AS n FROM visits WHERE c <> 'blue' GROUP BY c ORDER BY n DESC LIMIT 1",
    ],
)
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_the_largest_of_declared_keys_are_those_of_plain_duckdb(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection], sql: str, mechanism: str
) -> None:
    agree(*connections, sql, mechanism)


def test_the_comparison_notices_noise(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    with pytest.raises(AssertionError):
        agree(*connections, "SELECT k, count(*) FROM visits WHERE k < 77 GROUP BY k ORDER BY k")


KEYS = ("k", "s", "flag", "k % 3", "upper(s)", "coalesce(s, 'none')", "d", "n > 5", "c", "x")
AGGREGATES = (
    "count(*)",
    "count(DISTINCT uid)",
    "count(k)",
    "count(s)",
    "sum(n)",
    "sum(big)",
    "sum(x)",
    "avg(n)",
    "avg(x)",
    "sum(n * 2 - 1)",
    "sum(CASE WHEN s = 's1' THEN n ELSE 0 END)",
    "count(*) FILTER (WHERE n > 3)",
    "coalesce(sum(x) FILTER (WHERE flag), 0)",
    "count(DISTINCT uid) FILTER (WHERE s = 's1')",
    "count(DISTINCT s)",
    "count(DISTINCT n) FILTER (WHERE NOT flag)",
    "count_if(k > 2)",
    "sum(flag)",
    "sum(n // 2 + abs(x))",
    "sum(n % 5)",
)
CONDITIONS = (
    "k > 2",
    "s = 's1'",
    "NOT flag",
    "x IS NULL",
    "k IS NOT NULL AND s IS NOT NULL",
    "n BETWEEN 0 AND 9",
    "CAST(right(s, 1) AS INT) % 2 = 1",
    "d < '2024-01-20'",
    "k NOT IN (1, 2)",
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    found = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))
    where = draw(st.lists(st.sampled_from(CONDITIONS), max_size=2, unique=True))
    items = [f"{item} AS c{i}" for i, item in enumerate([*keys, *found])]
    sql = f"SELECT {', '.join(items)} FROM visits"
    sql += f" WHERE {draw(st.sampled_from([' AND ', ' OR '])).join(where)}" if where else ""
    sql += f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
    if "x" in keys or "c" in keys:
        sql += f" HAVING {'c0' if keys[0] in 'xc' else 'c1'} IS NOT NULL"
    sql += " HAVING count(*) > 5" if keys and "HAVING" not in sql and draw(st.booleans()) else ""
    order = ", ".join(f"c{i}" for i in range(len(keys)))
    return f"{sql} ORDER BY {order}" if order else sql


# The connections are the same for all examples.
ONE_WORLD = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.slow
@given(statements())
@settings(examples_of(40), suppress_health_check=ONE_WORLD)
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_answers_to_random_queries_equal_those_of_plain_duckdb(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection], sql: str
) -> None:
    agree(*connections, sql)
