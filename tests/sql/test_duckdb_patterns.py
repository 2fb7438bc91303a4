"""Patterns of LIKE on DuckDB, numbers of bits, and characters of numbers."""

from __future__ import annotations

import itertools
import subprocess
import sys
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
    [f"s LIKE '%a{'_' * 21}%b'", f"s ILIKE '%{'ab' * 500}%c'"],
)
def test_patterns_that_take_long_are_refused(connection: dpsql.Connection, condition: str) -> None:
    with fails_with("expression_not_allowed"):
        connection.explain(f"SELECT count(*) FROM t WHERE {condition}")


@pytest.mark.parametrize("sign", ["LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"])
def test_patterns_of_columns_match_what_they_match_in_duckdb(sign: str) -> None:
    """With a piece between two % they are NULL, as those of more than 100 bytes are."""
    with duckdb.connect() as owner:
        owner.execute("CREATE TABLE letters AS SELECT unnest(['a', 'B', 'é', '%', '_', '']) AS x")
        owner.execute(
            "CREATE TABLE t AS SELECT a.x || b.x || c.x AS s, d.x || e.x || f.x AS c "
            "FROM letters a, letters b, letters c, letters d, letters e, letters f"
        )
        for pattern, known in (
            ("c", None),
            ("c || '%'", None),
            ("'%' || c || '%'", "c NOT LIKE '%!%%' ESCAPE '!'"),
        ):
            asked = written(f"s {sign} {pattern}")
            ((rows, nulls, unlike),) = owner.execute(
                f"SELECT count(*), count(*) - count({asked}), "
                f"count_if({asked} <> (s {sign} {pattern})) FROM t "
                f"WHERE {known or 'TRUE'}"
            ).fetchall()
            assert (unlike, nulls == 0) == (0, known is not None)
            assert nulls < rows / 4
        asked = written(f"s {sign} c")
        for size, between in ((100, ""), (101, ""), (7, "%b%b")):
            found = owner.execute(
                f"SELECT {asked} FROM (SELECT 'abc' AS s, repeat('a', ?) || ? AS c)",
                [size, between],
            ).fetchall()
            assert found == [("NOT" in sign if size == 100 else None,)]
        owner.execute("SET threads = 1")
        owner.execute(
            "CREATE TABLE large AS SELECT repeat('a', 500_000) AS s, "
            "'%' || repeat('a', 97) || 'b%' AS c"
        )
        begun = process_time()
        owner.execute(f"SELECT {asked} FROM large").fetchall()
        assert process_time() - begun < 2


@pytest.mark.parametrize("sign", ["LIKE", "ILIKE"])
def test_what_is_searched_for_stays_a_search(sign: str) -> None:
    """DuckDB's optimizer turns what it can into LIKE again."""
    with duckdb.connect() as owner:
        owner.execute("CREATE TABLE t (s VARCHAR)")
        for pattern in ("%a_%a_%a_%b_", "%a%_a%b_", "a%b_%", "%%_%_%"):
            asked = written(f"s {sign} '{pattern}'")
            ((_, plan),) = owner.execute(f"EXPLAIN SELECT {asked} FROM t").fetchall()
            assert "regexp_matches" in plan
            assert "~~" not in plan


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
    ("expression", "copies"),
    [
        ("replace(s, 'a', 'bb')", 2),
        ("replace(s, 'a', 'bbb')", 3),
        ("regexp_replace(s, '[b-d]+', 'xyz', 'g')", 3),
        ("regexp_replace(s, '(b|c)*', 'xyz', 'g')", 4),
        ("s || c", 2),
        ("s || c || s", 5),
        ("replace(s || c, 'a', 'bb')", 6),
        ("levenshtein(s, 'Lyon')", 2),
        ("contains(s, c)", 2),
        ("concat(lower(s), c)", 2),
    ],
)
def test_long_texts_are_null_below_what_makes_more_of_them(expression: str, copies: int) -> None:
    most = MOST_TEXT_BYTES * 2 // copies
    with duckdb.connect() as owner:
        owner.execute("CREATE TABLE t AS SELECT repeat('a', ?) AS s, '' AS c", [most - 1])
        asked = f"{written(expression)} = {expression}"
        assert owner.execute(f"SELECT {asked} FROM t").fetchall() == [(True,)]
        owner.execute("UPDATE t SET s = s || 'a'")
        none = None if "concat" not in expression else ""
        assert owner.execute(f"SELECT {written(expression)} FROM t").fetchall() == [(none,)]


MEMORY = """
import resource, sys, duckdb
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # the engine's own limit is of no use
with duckdb.connect(config={"threads": "1", "memory_limit": "4GB"}) as owner:
    owner.execute("CREATE TABLE t AS SELECT repeat('a', 500_000) AS s, 'b' AS c FROM range(2048)")
    print(owner.execute(f"SELECT count(*) FROM t WHERE {sys.argv[1]}").fetchall())
"""


@pytest.mark.slow
@pytest.mark.parametrize("as_written", [True, False])
def test_many_copies_of_long_texts_take_no_more_memory_than_two(as_written: bool) -> None:
    """The second is the control."""
    condition = f"length({' || '.join(['s', 'c'] * 6)}) > 5"
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, written(condition) if as_written else condition],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout.strip() == "[(0,)]") == as_written
    assert (done.returncode == 0) == as_written, done.stderr


SEVERAL = """
import resource, sys, duckdb, dpsql
from pathlib import Path
from dpsql.engines.duckdb.dialect import DuckDBDialect
place = Path(sys.argv[1])
with duckdb.connect(place / "t.duckdb", config={"threads": "1"}) as owner:
    owner.execute(
        "CREATE TABLE t AS "
        "SELECT i AS uid, repeat('a', 250_000) AS s, 'b' AS c FROM range(2048) r(i)"
    )
(place / "policies.yaml").write_text(
    "version: 1\\ndataset: d\\naccounts: {ana: {epsilon: 100, delta: 0.001}}\\n"
    "tables: {t: {privacy_unit: uid}}\\n"
)
if sys.argv[2] == "each":
    DuckDBDialect.copies = lambda self, tree: 0
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
bounds = "contribution_bounds_per_row => (0, 10)"
sums = (f"SUM(length({sys.argv[3].format(n=n)}), {bounds}) AS a{n}" for n in range(12))
with dpsql.connect(place / "t.duckdb", place / "policies.yaml", analyst="ana") as connection:
    print(connection.sql(f"SELECT {', '.join(sums)} FROM t", epsilon=1, delta=1e-6))
"""


@pytest.mark.slow
@pytest.mark.parametrize("made", ["s || c || '{n}'", "reverse(trim(lower(s), 'x{n}'))"])
@pytest.mark.parametrize("shared", ["all", "each"])
def test_expressions_of_one_statement_share_the_memory_for_copies(
    shared: str, made: str, tmp_path: Path
) -> None:
    """Each for itself is the control."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, tmp_path, shared, made],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode == 0) == (shared == "all"), done.stderr
    assert ("EngineError" in done.stderr) == (shared == "each")


REPEATED = """
import resource, sys, duckdb, dpsql
from pathlib import Path
from dpsql.engines.duckdb.dialect import DuckDBDialect
place = Path(sys.argv[1])
with duckdb.connect(place / "t.duckdb", config={"threads": "1"}) as owner:
    owner.execute(
        "CREATE TABLE t AS SELECT 1 AS uid, i AS k, "
        "CASE WHEN i = 0 THEN repeat('a', 20_000_000) ELSE 'b' END AS s FROM range(2000) r(i)"
    )
    owner.execute("INSERT INTO t SELECT 2 + i, i, 'c' FROM range(1000) r(i)")
(place / "policies.yaml").write_text(
    "version: 1\\ndataset: d\\naccounts: {ana: {epsilon: 100, delta: 0.001}}\\n"
    "tables: {t: {privacy_unit: uid}}\\n"
)
if sys.argv[2] == "without":
    DuckDBDialect.short = lambda self, value, type_, copies=0: value
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
with dpsql.connect(place / "t.duckdb", place / "policies.yaml", analyst="ana") as connection:
    print(connection.sql(sys.argv[3], epsilon=1, delta=1e-6))
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["with", "without"])
@pytest.mark.parametrize(
    "asked",
    [
        "SELECT COUNT(*) FROM (SELECT uid, FIRST_VALUE(s) OVER (PARTITION BY uid ORDER BY k) AS f "
        "FROM t) WHERE f LIKE 'a%'",
        "SELECT COUNT(*) FROM (SELECT uid, MIN(s) OVER (PARTITION BY uid ORDER BY k) AS f FROM t) "
        "WHERE f LIKE 'a%'",
        "SELECT m, COUNT(*) FROM (SELECT uid, arg_max(s, -k) AS m FROM t GROUP BY uid) a "
        "JOIN t USING (uid) GROUP BY m",
        "SELECT COUNT(*) FROM (SELECT uid, arg_max(s, -k) AS m FROM t GROUP BY uid) a "
        "JOIN t USING (uid) WHERE reverse(m) LIKE 'a%'",
    ],
)
def test_one_long_text_is_not_that_of_many_rows(asked: str, limit: str, tmp_path: Path) -> None:
    """Without the limit is the control."""
    done = subprocess.run(
        [sys.executable, "-c", REPEATED, tmp_path, limit, asked],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode == 0) == (limit == "with"), done.stderr
    assert ("EngineError" in done.stderr) == (limit == "without")


def test_a_chain_of_subqueries_names_its_columns_once(connection: dpsql.Connection) -> None:
    """Columns that each names twice are written out by DuckDB's optimizer: 30 seconds."""
    chain = ", ".join(
        f"a{n + 1} AS (SELECT uid, lower(trim(reverse(x))) AS x FROM a{n})" for n in range(20)
    )
    begun = process_time()
    connection.sql(
        f"WITH a0 AS (SELECT uid, s AS x FROM t), {chain} "
        "SELECT count(*) FROM a20 WHERE x LIKE '%q%'"
    )
    assert process_time() - begun < 5


def test_letters_that_become_others_are_no_copies_of_copies() -> None:
    """Each of twenty takes two bytes for one, but none is replaced twice."""
    greek = "s"
    for code in range(20):
        greek = f"replace({greek}, '{chr(97 + code)}', '{chr(0x3B1 + code)}')"
    with duckdb.connect() as owner:
        owner.execute("CREATE TABLE t AS SELECT repeat('abc', 1000) AS s")
        asked = f"{written(greek)} = {greek}"
        assert owner.execute(f"SELECT {asked} FROM t").fetchall() == [(True,)]


@pytest.mark.usefixtures("no_noise", "discovered_keys")
@pytest.mark.parametrize(
    "pattern",
    ["('%' || ('A' || '%b'))", "lower('%A%B')", "(('%a%b'))", "concat('%', 'a', '%b')"],
)
def test_constant_patterns_are_one_text(connection: dpsql.Connection, pattern: str) -> None:
    either = f"concat(s, 'b') LIKE {pattern} OR concat(s, 'b') ILIKE {pattern}"
    assert connection.sql(f"SELECT count(*) FROM t WHERE {either}").fetchall() == [(60,)]
    with fails_with("expression_not_allowed"):
        connection.explain("SELECT count(*) FROM t WHERE s LIKE chr(37) || 'a%b'")


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
