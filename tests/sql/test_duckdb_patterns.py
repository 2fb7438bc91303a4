"""Patterns of LIKE on DuckDB, numbers of bits, and characters of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import duckdb
import pytest
import sqlglot
from helpers.columns import column_of
from helpers.failures import fails_with

import dpsql
from dpsql.core.schema import Table
from dpsql.engines.base.row_types import MOST_TEXT_BYTES
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.policy.load import parse_policy
from dpsql.syntax.dialect import PrivateDuckDB

_TABLE = Table("t", (column_of("s", "VARCHAR"), column_of("c", "VARCHAR")))
PATTERNS = [
    *("%a_%b%", "a%_%b", "%_a%_", "%é%É_", "%ß%_", "%.%[%_", "_%_%_", "%A%b", "%É%", "a%B%c"),
    *("%\\%_", "% %_%\n", "%Σ%ς", "%İ%i", "%a%", "a_", "%😀_%a", "%^$%_", "%_\t%_%"),
]


def written(expression: str) -> str:
    tree = sqlglot.parse_one(expression, dialect=PrivateDuckDB)
    return DUCKDB.expression(tree, _TABLE).render(DUCKDB.renderer)


@pytest.mark.parametrize("sign", ["LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"])
def test_patterns_match_what_they_match_in_duckdb(sign: str) -> None:
    letters = ["a", "B", "é", "É", ".", "\n", "ß", "😀", "Σ", "ς", "İ", "\\", " ", "_", "%"]
    with duckdb.connect() as owner:
        owner.execute("CREATE TABLE t AS SELECT NULL::VARCHAR AS s")
        texts = [["".join(each)] for n in range(4) for each in itertools.product(letters, repeat=n)]
        owner.execute("INSERT INTO t SELECT unnest(?)", [[text for (text,) in texts]])
        for pattern in PATTERNS:
            asked = f"s {sign} '{pattern}'"
            ours = owner.execute(f"SELECT {written(asked)} FROM t").fetchall()
            assert ours == owner.execute(f"SELECT {asked} FROM t").fetchall(), pattern


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with duckdb.connect(str(tmp_path / "data.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE t AS SELECT i AS uid, i AS k, i::HUGEINT - 30 AS h, 'a' AS s, 'b' AS c "
            "FROM range(60) AS r(i)"
        )
    policy = parse_policy(
        "version: 1\ndataset: d\naccounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
        "tables:\n  t: {privacy_unit: {name: person, column: uid}}\n"
    )
    with dpsql.connect(tmp_path / "data.duckdb", policy, tmp_path / "b.db", "ana") as opened:
        yield opened


@pytest.mark.parametrize(
    "condition",
    ["s LIKE c", "s ILIKE c || '%'", f"s LIKE '%a{'_' * 21}%b'", f"s ILIKE '%{'ab' * 500}%c'"],
)
def test_patterns_that_take_long_are_refused(connection: dpsql.Connection, condition: str) -> None:
    with fails_with("expression_not_allowed"):
        connection.explain(f"SELECT count(*) FROM t WHERE {condition}")


def test_patterns_take_a_time_that_grows_with_the_text() -> None:
    """DuckDB 1.5 would take days."""
    with duckdb.connect(config={"threads": "1"}) as owner:
        owner.execute("CREATE TABLE t AS SELECT repeat('a', 300_000) AS s")
        begun = process_time()
        for sign, pattern in itertools.product(("LIKE", "ILIKE"), ("%a_%a_%a_%b_", "%a%_a%b_")):
            asked = written(f"s {sign} '{pattern}'")
            owner.execute(f"SELECT {asked} FROM t").fetchall()
        assert process_time() - begun < 5


@pytest.mark.parametrize(
    ("expression", "own"),
    [
        ("replace(s, 'a', 'bbb')", "replace(s, 'a', 'bbb')"),
        ("s || c", "s || c"),
        ("levenshtein(s, 'Lyon')", "levenshtein(s, 'Lyon')"),
        ("contains(s, c)", "contains(s, c)"),
        ("concat(lower(s), c)", "concat(lower(s), c)"),
    ],
)
def test_long_texts_are_null_below_what_makes_more_of_them(expression: str, own: str) -> None:
    with duckdb.connect() as owner:
        owner.execute(
            "CREATE TABLE t AS SELECT repeat('a', ?) AS s, '' AS c", [MOST_TEXT_BYTES - 1]
        )
        assert owner.execute(f"SELECT {written(expression)} = {own} FROM t").fetchall() == [(True,)]
        owner.execute("UPDATE t SET s = s || 'é'")
        none = None if "concat" not in expression else ""
        assert owner.execute(f"SELECT {written(expression)} FROM t").fetchall() == [(none,)]


@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_bits_and_codes_are_summed(connection: dpsql.Connection) -> None:
    ((bits, codes),) = connection.sql("SELECT sum(bit_count(k)), sum(ascii(s)) FROM t").fetchall()
    assert bits == sum(number.bit_count() for number in range(60))
    assert codes == 60 * ord("a")
    for number in ("k", "CAST(k AS BIGINT)"):
        asked = f"SELECT count(*) FROM t WHERE chr({number}) = '0'"
        assert connection.sql(asked).fetchall() == [(1,)]
    with fails_with("can_fail"):
        connection.explain("SELECT count(*) FROM t WHERE bit_count(h) > 1")
