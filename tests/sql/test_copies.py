"""Columns of subqueries that are copied into each other: what optimisers write out is bounded."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

import dpsql
from dpsql.sql.expressions.copies import refuse_copies
from dpsql.syntax.parse import parse

TWICE = "CASE WHEN k > 0 THEN k END AS k"


def chain(level: str, levels: int, first: str = "t", last: str = "SELECT k FROM {}") -> str:
    """A query of so many CTEs, each over the one before."""
    names = [first, *(f"c{number}" for number in range(levels))]
    ctes = [f"{new} AS ({level.format(old)})" for old, new in itertools.pairwise(names)]
    return f"WITH {', '.join(ctes)} {last.format(names[-1])}"


def refused(text: str) -> bool:
    tree = parse(text)
    try:
        refuse_copies(tree, text)
    except dpsql.errors.QueryRefused as error:
        return error.code == "query_too_large"
    return False


@pytest.mark.parametrize(
    "level",
    [
        f"SELECT {TWICE} FROM {{}}",
        "SELECT k + k AS k FROM {}",
        "SELECT x.k + x.k AS k FROM {} AS x",
        "SELECT j + j AS k FROM {} AS x(j)",
        "SELECT 1 AS k UNION ALL SELECT k + k FROM {}",
        "SELECT * REPLACE (k + k AS k) FROM {}",
        "SELECT * EXCLUDE (j) FROM (SELECT k + k AS k, 1 AS j FROM {})",
        "SELECT (SELECT k + k) AS k FROM {}",
        "SELECT a AS k FROM (SELECT k AS j, j + j AS a FROM {})",
        "SELECT k[1] AS k FROM {} JOIN u ON TRUE",
        "SELECT CASE k WHEN 1 THEN 2 WHEN 2 THEN 1 END AS k FROM {}",
        "SELECT k FROM (SELECT k + k AS k FROM {}) WHERE k BETWEEN 1 AND 5",
        "SELECT k + k AS k, COUNT(*) AS n FROM {} GROUP BY ALL",
        "SELECT k + k AS k FROM u JOIN {} USING (j)",
        'SELECT "(k + k)" AS k FROM u JOIN (SELECT k + k FROM {}) ON TRUE',
        'SELECT (SELECT "(k + k)") AS k FROM (SELECT k + k FROM {})',
    ],
)
def test_columns_that_are_named_twice_in_each_subquery_are_refused(level: str) -> None:
    assert refused(chain(level, 25))
    assert not refused(chain(level, 3))


@pytest.mark.parametrize(
    ("level", "levels"),
    [
        ("SELECT k + 1 AS k FROM {}", 200),
        ("SELECT *, 1 AS j FROM {} WHERE k > 0", 200),
        ("SELECT MAX(k + k) AS k FROM {}", 60),
        ("SELECT SUM(k + k) OVER (PARTITION BY u) AS k FROM {}", 60),
        (f"SELECT {TWICE} FROM {{}}", 8),
    ],
)
def test_others_are_not(level: str, levels: int) -> None:
    assert not refused(chain(level, levels))


def test_an_expression_may_be_as_large_as_it_is_written() -> None:
    branches = " ".join(f"WHEN k = {number} THEN {number}" for number in range(800))
    assert not refused(f"SELECT CASE {branches} END AS k FROM t")
    listed = ", ".join(map(str, range(10_000)))
    assert not refused(f"SELECT k FROM t WHERE list_contains([{listed}], k)")
    assert not refused(
        f"WITH a AS (SELECT k + 1 AS k FROM t) SELECT k FROM a WHERE k IN ({listed})"
    )


ASKED = """
import resource, sys
import dpsql
engine = dpsql.DuckDBEngine()
rows = {"uid": [n % 500 for n in range(2000)], "k": [n % 7 for n in range(2000)]}
engine.register("t", rows, types={"uid": "BIGINT", "k": "BIGINT"})
policy = dpsql.parse_policy('''
version: 1
dataset: copies
defaults: {epsilon: 1.0, delta: 1e-8}
accounts: {ana: {epsilon: 9.0, delta: 1e-4}}
tables:
  t: {privacy_unit: {name: person, column: uid}}
''')
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with dpsql.connect(engine, policy, sys.argv[1], analyst="ana") as con:
    con.sql(sys.argv[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("released", [False, True])
def test_the_deepest_that_are_answered_take_little(released: bool, tmp_path: object) -> None:
    """On the engine, whose optimiser writes them out: a further level is refused."""
    level, last = f"SELECT uid, {TWICE} FROM {{}}", "SELECT COUNT(*) FROM {} WHERE k < 3"
    first = "t"
    if released:
        level = level.replace("uid", "n")
        first = "(SELECT k, COUNT(*) AS n FROM t GROUP BY k)"
    deepest = max(n for n in range(1, 30) if not refused(chain(level, n, first, last)))
    assert deepest >= 9
    done = subprocess.run(
        [sys.executable, "-c", ASKED, f"{tmp_path}/budget.db", chain(level, deepest, first, last)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout) < 500
