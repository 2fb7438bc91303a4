"""Elements of lists in private rows are counted as DuckDB counts them, up to the most of a row."""

from __future__ import annotations

from pathlib import Path
from random import Random
from time import process_time

import duckdb
import pytest
from helpers.columns import column_of
from sqlglot import exp
from test_spellings import compare, connections

import dpsql
from dpsql.core.schema import Table
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.policy.load import parse_policy
from dpsql.sql.lineage.elements import MOST_ELEMENTS

__all__ = ["connections"]

_GROUPED = "SELECT w AS v, count(*) AS c FROM {} GROUP BY w ORDER BY ALL"
LISTED = (
    "(SELECT uid, unnest(string_split(c, 'e')) AS w FROM visits)",
    "(SELECT uid, upper(unnest(string_split(ts::VARCHAR, ':'))) AS w FROM visits WHERE k > 1)",
    "(SELECT uid, unnest(string_split(nullif(s, 's1'), 's')) AS w FROM visits)",
    "(SELECT t.w FROM visits v, unnest(string_split(v.c, 'e')) AS t(w))",
    "(SELECT w FROM visits CROSS JOIN LATERAL unnest(string_split(c, 'r')) AS t(w) WHERE w <> '')",
)


@pytest.mark.parametrize("listed", LISTED)
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_elements_are_those_of_duckdb(
    listed: str, connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection]
) -> None:
    assert compare(*connections, _GROUPED, listed) == "same"


@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_elements_behind_the_last_number_are_left_out(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    long = ",".join(f"e{place}" for place in range(MOST_ELEMENTS + 10))
    asked = f"SELECT uid, unnest(string_split(concat('{long}', left(s, 0)), ',')) AS w FROM visits"
    rows = connections[0].sql(f"SELECT w, count(*) FROM ({asked}) GROUP BY w").fetchall()
    assert {word for word, _ in rows} == {f"e{place}" for place in range(MOST_ELEMENTS)}


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT unnest(string_split(s, '1')) AS w, unnest(string_split(c, 'e')) FROM visits)",
        "(SELECT unnest(string_split(s, c)) AS w FROM visits)",
        "visits v LEFT JOIN LATERAL unnest(string_split(v.s, '1')) t(w) ON true",
        "visits v, unnest(string_split(v.s, '1')) WITH ORDINALITY AS t(w, place)",
        "visits v OUTER APPLY string_split(v.s, '1') AS t(w)",
        "visits v JOIN unnest(string_split(v.s, '1')) t(w) USING (w)",
        "visits v, unnest(v.s) t(w)",
        "(SELECT uid, unnest(k) AS w FROM visits)",
        "(SELECT * FROM visits v, unnest(string_split(v.s, '1')) t(w))",
        "(SELECT t.* FROM visits v, unnest(string_split(v.s, '1')) t(w))",
        "(SELECT k AS w FROM visits v, unnest(string_split(v.s, '1')) t(k))",
        "visits LATERAL VIEW explode(split(s, '[12]')) t AS w",
        "(SELECT uid, explode(split(s, '.')) AS w FROM visits)",
        "(SELECT w, row_number() OVER (PARTITION BY uid ORDER BY k) AS r FROM visits v, "
        "unnest(string_split(v.s, '1')) t(w))",
        "(SELECT unnest(string_split(s, '1')) AS w, row_number() OVER (PARTITION BY uid ORDER BY "
        "k) AS r FROM visits)",
        "(SELECT max(unnest(string_split(s, '1'))) AS w FROM visits)",
    ],
)
def test_other_forms_of_lists_are_refused(
    source: str, connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection]
) -> None:
    with pytest.raises(dpsql.Error) as refused:
        connections[0].sql(f"SELECT w, count(*) FROM {source} GROUP BY w")
    assert "__dpsql" not in str(refused.value)
    assert "CASE" not in str(refused.value)


@pytest.mark.parametrize("asked", ["w || v.uid", "upper(w || v.uid)"])
def test_what_is_refused_of_elements_is_said_as_it_was_typed(
    asked: str, connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection]
) -> None:
    listed = "FROM visits v, unnest(string_split(v.s, '1')) t(w)"
    with pytest.raises(dpsql.Error) as refused:
        connections[0].sql(f"SELECT {asked}, count(*) {listed} GROUP BY 1")
    told = f"grouping by {asked} would release the privacy unit itself"
    assert refused.value.reason.lower() == told


@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_public_rows_are_joined_by_elements(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    for join in ("JOIN", "LEFT JOIN"):
        joined = f"{join} (VALUES ('s', 'a'), ('', 'b')) n(v, x) ON n.v = t.w"
        listed = f"(SELECT n.x AS w FROM visits v, unnest(string_split(v.s, '1')) t(w) {joined})"
        assert compare(*connections, _GROUPED, listed) == "same"


@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_what_is_computed_of_elements_is_called_by_its_words(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    listed = "FROM visits v, unnest(string_split(v.s, '1')) t(w)"
    found = connections[0].sql(f"SELECT upper(w), count(w) {listed} GROUP BY ALL")
    assert list(found.columns) == ["upper(w)", "count(w)"]


def test_lists_of_lists_are_read_a_few_levels_deep(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    """Rows below are read for each level."""
    query = "SELECT uid, s AS w FROM visits"
    for mark in "abcdefghij":
        query = f"SELECT uid, unnest(string_split(w, '{mark}')) AS w FROM ({query})"
    begun = process_time()
    with pytest.raises(dpsql.QueryRefused):
        connections[0].sql(f"SELECT count(*) FROM ({query})")
    assert process_time() - begun < 2


@pytest.mark.parametrize("place", [1, 2, 3, 7, 50])
@pytest.mark.parametrize(
    "mark", [",", " ", ".", "\\", "^", "-", "]", "\n", "'", "é", "😀", "||", ", ", "ab", "aa", "$^"]
)
def test_parts_of_texts_are_those_of_split_part(mark: str, place: int) -> None:
    table = Table("t", (column_of("s", "VARCHAR"),))
    node = exp.SplitPart(
        this=exp.column("s"),
        delimiter=exp.Literal.string(mark),
        part_index=exp.Literal.number(place),
    )
    random, letters = Random(place), [mark, mark[0], "a", "b", "x", "\n", "é"]
    rows = [["".join(random.choices(letters, k=random.randrange(70)))] for _ in range(300)]
    with duckdb.connect() as owner:
        owner.execute("CREATE TABLE t AS SELECT NULL::VARCHAR AS s")
        owner.executemany("INSERT INTO t VALUES (?)", rows)
        written = DUCKDB.expression(node, table).render(DUCKDB.renderer)
        ours = owner.execute(f"SELECT {written} FROM t").fetchall()
        assert ours == owner.execute("SELECT split_part(s, ?, ?) FROM t", [mark, place]).fetchall()


def test_a_text_of_many_parts_takes_little_memory(tmp_path: Path) -> None:
    """DuckDB's split_part would make a list of 20 million texts for each part that is asked for."""
    with duckdb.connect(str(tmp_path / "data.duckdb")) as owner:
        owner.execute("CREATE TABLE t AS SELECT i AS uid, 'a,b' AS s FROM range(60) AS r(i)")
        owner.execute("INSERT INTO t VALUES (99, repeat(',', 20_000_000))")
    policy = parse_policy(
        "version: 1\ndataset: d\naccounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
        "limits: {memory: 500MB}\n"
        "tables:\n  t: {privacy_unit: {name: person, column: uid}}\n"
    )
    with dpsql.connect(tmp_path / "data.duckdb", policy, tmp_path / "b.db", "ana") as connection:
        for asked in (
            "SELECT count(*) FROM (SELECT unnest(string_split(s, ',')) AS w FROM t) WHERE w = 'a'",
            "SELECT count(*) FROM t WHERE split_part(s, ',', 2) = 'b'",
            "SELECT count(*) FROM t WHERE SUBSTRING_INDEX(s, ',', 9) = 'a,b'",
        ):
            assert len(connection.sql(asked).fetchall()) == 1
