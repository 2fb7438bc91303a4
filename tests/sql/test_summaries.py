"""SUMMARIZE: a row for each column, of one block at one price."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.linked_tables import CREATE, RULES
from helpers.support import ANALYST, TABLES, policy, world_file
from test_equivalence import ROWS, SHOPS, WIDE

import dpsql
from dpsql.policy.model import AccountPolicy

UNIT = "Uid"
FIGURES = {"approx_unique": "count(DISTINCT {})", "avg": "avg({})", "std": "stddev({})"}


@pytest.fixture(scope="module")
def connections(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[dpsql.Connection, duckdb.DuckDBPyConnection]]:
    directory = tmp_path_factory.mktemp("summaries")
    rules = policy(None, ana=AccountPolicy(ANALYST, 1000.0, 0.4))
    with world_file(directory / "world.duckdb", ROWS, SHOPS) as path:
        private = dpsql.connect(path, rules, directory / "budget.db", ANALYST, **WIDE)
    plain = duckdb.connect(":memory:")
    with private, plain:
        for statement in (*TABLES.values(), ROWS, SHOPS):
            plain.execute(statement)
        yield private, plain


def by_column(rows: Any, names: Any) -> dict[str, dict[str, Any]]:
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_figures_without_noise_are_those_of_plain_duckdb(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    private, plain = connections
    answer, expected = private.sql("SUMMARIZE visits", fresh=True), plain.sql("SUMMARIZE visits")
    assert list(answer.columns) == expected.columns
    assert list(answer.types) == list(map(str, expected.types))
    found, right = (by_column(r.fetchall(), expected.columns) for r in (answer, expected))
    assert list(found) == list(right)
    for name, figures in found.items():
        assert figures["column_type"] == right[name]["column_type"]
        assert figures["count"] == right[name]["count"]
        if name != UNIT:
            assert figures["null_percentage"] == right[name]["null_percentage"]
        for figure, asked in FIGURES.items():
            if figures[figure] is not None and name not in ("k", "wide"):  # whose bounds are not
                query = f"SELECT {asked.format(chr(34) + name + chr(34))} FROM visits"
                ((exact,),) = plain.execute(query).fetchall()
                assert float(figures[figure]) == pytest.approx(float(exact), rel=0.01), name


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_figures_that_do_not_apply_are_null(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    private, _ = connections
    answer = private.sql("SUMMARIZE visits", fresh=True)
    rows = by_column(answer.fetchall(), answer.columns)
    told = {name: {k for k, v in row.items() if v is not None} for name, row in rows.items()}
    always = {"column_name", "column_type", "count"}
    numbers = {"min", "max", "avg", "std", "q25", "q50", "q75", "null_percentage"}
    assert told[UNIT] == always
    assert told["n"] == {*always, *numbers, "approx_unique"}
    assert told["x"] == told["amount"] == {*always, *numbers}
    assert told["s"] == told["d"] == {*always, "approx_unique", "null_percentage"}
    assert told["ts"] == told["flag"] == {*always, "null_percentage"}


@pytest.mark.slow
def test_a_summary_is_one_block_at_one_price(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    private, _ = connections
    plan = private.explain("SUMMARIZE visits")
    assert len(plan.blocks) == 1
    (price,) = re.findall("Reserves +ε ([0-9.]+)", str(plan))
    assert 0 < float(price) <= WIDE["epsilon"]
    assert UNIT.lower() not in str(plan).lower().split("noise on")[1]


@pytest.mark.slow
def test_a_summary_is_free_again_and_its_rows_may_be_asked_of(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    private, _ = connections
    private.sql("SUMMARIZE SELECT n, s FROM visits")
    before = private.budget()
    again = private.sql(
        "SELECT column_name, round(null_percentage) FROM (summarize select n, s from visits) "
        "WHERE column_name = 's'"
    )
    assert again.cost.stored
    assert len(again.fetchall()) == 1
    assert private.budget() == before


@pytest.mark.slow
def test_bounds_that_a_summary_draws_are_known_to_later_questions(tmp_path: Path) -> None:
    rules = policy(None, ana=AccountPolicy(ANALYST, 1000.0, 0.4))
    with world_file(tmp_path / "world.duckdb", ROWS) as path:
        connection = dpsql.connect(path, rules, tmp_path / "budget.db", ANALYST)
    with connection:
        asked = "SELECT avg(k) FROM visits"
        assert "bounds of k" in str(connection.explain(asked))  # as none are declared
        connection.sql("SUMMARIZE SELECT k FROM visits")
        assert "bounds of k" not in str(connection.explain(asked))


@pytest.mark.slow
def test_columns_that_link_tables_are_only_named(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "world.duckdb")) as writer:
        for statement in CREATE:
            writer.execute(statement)
    with dpsql.connect(tmp_path / "world.duckdb", RULES, tmp_path / "budget.db", "ana") as con:
        answer = con.sql("SUMMARIZE items")
        rows = by_column(answer.fetchall(), answer.columns)
        assert rows["okey"]["null_percentage"] is rows["ikey"]["approx_unique"] is None
        assert rows["qty"]["approx_unique"] is not None


@pytest.mark.slow
def test_public_rows_are_summarised_exactly_and_free(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    private, plain = connections
    before = private.budget()
    answer = private.sql("SUMMARIZE shops")
    assert private.budget() == before
    assert answer.fetchall() == plain.sql("SUMMARIZE shops").fetchall()


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SUMMARIZE SELECT k, count(*) FROM visits GROUP BY k", "clause_not_allowed"),
        ("SUMMARIZE secret", "unknown_table"),
        ("SUMMARIZE 'file.csv'", "not_a_query"),
        ("SUMMARIZE SELECT n, n FROM visits", "ambiguous_column"),
        ("SUMMARIZE visits PIVOT (count(*) FOR k IN (1))", "table_form_not_allowed"),
        ("SELECT count(*) FROM visits WHERE EXISTS (SUMMARIZE visits)", "table_form_not_allowed"),
        (
            "SUMMARIZE SELECT " + ", ".join(f"n + {i} AS n{i}" for i in range(12)) + " FROM visits",
            "query_too_large",
        ),
    ],
)
def test_what_is_no_table_of_rows_is_refused(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection], sql: str, code: str
) -> None:
    private, _ = connections
    before = private.budget()
    with fails_with(code):
        private.sql(sql)
    assert private.budget() == before
