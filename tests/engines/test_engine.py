"""The DuckDB engine and the tail room: exact rows arrive whole, in order, with their types."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.sql_text import generated
from helpers.support import checked, cursor_of, listed_engine
from helpers.unchecked_runs import unread
from numpy.typing import NDArray

import dpsql
import dpsql.engines.duckdb.engine as engine_module
import dpsql.pipeline.tail.runner as tail_module
from dpsql.core.quoting import quote
from dpsql.core.schema import Column
from dpsql.core.sql import Sql
from dpsql.engines.base.engine import ExactRows, Scratch
from dpsql.engines.duckdb.engine import DuckDBEngine, DuckDBScratch, OpenDuckDB, open_database
from dpsql.engines.duckdb.spill import Spill
from dpsql.engines.embedded.lockdown import LOCKDOWN_SETTINGS, settings_of
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

UNITS = 60
# One key per type: enough units per key that a generous epsilon releases it.
KEYS: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["'-128'", "127"],
    "BIGINT": ["'-9223372036854775808'", "9223372036854775807"],
    "UBIGINT": ["0", "18446744073709551615"],
    "HUGEINT": ["'-170141183460469231731687303715884105727'", "5"],
    "DOUBLE": ["'nan'", "'-inf'", "0.1", "1e308"],
    "FLOAT": ["0.1", "16777217"],
    "DECIMAL(38,10)": ["1234567890123456789012345678.0123456789", "'-0.0000000001'"],
    "VARCHAR": ["'it''s'", "''", "'NULL'", "'ünï\\cödé'", "'a,b;\"c\"'"],
    "DATE": ["'infinity'", "'0001-01-01'", "'2013-02-28'"],
    "TIME": ["'23:59:59.999999'", "'00:00:00'"],
    "TIMESTAMP": ["'2013-01-01 00:00:00.000001'", "'-infinity'"],
    "TIMESTAMP_NS": ["'2013-01-01 00:00:00.123456789'"],
    "TIMESTAMP WITH TIME ZONE": ["'2013-01-01 00:00:00+00'"],
    "INTERVAL": ["INTERVAL '1 month 2 days 3 seconds'"],
    "UUID": ["'6b4f5a3e-2f63-4f0e-9d2c-1c2f4d7b8e11'"],
    "BLOB": ["'\\x00\\xFF'::BLOB"],
}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


def policy(*tables: str) -> Policy:
    return Policy(
        dataset="test",
        defaults=Parameters(epsilon=50.0, delta=1e-4, max_groups_contributed=20),
        accounts={"ana": AccountPolicy("ana", 1000.0, 0.1)},
        tables={name: TablePolicy(name, PrivacyUnit("unit", "unit")) for name in tables},
    )


def database(path: Path, key_type: str, literals: list[str]) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t (unit BIGINT, k {key_type})")
        for literal in [*literals, "NULL"]:
            values = f"SELECT range, {literal}::{key_type} FROM range({UNITS})"
            connection.execute(f"INSERT INTO t {values}")


@pytest.mark.slow
@pytest.mark.parametrize("key_type", list(KEYS))
@pytest.mark.parametrize(
    ("sql", "mechanism", "few"),
    [
        ("SELECT k, COUNT(DISTINCT unit) AS n FROM t GROUP BY k", None, 10_000),
        ("SELECT k, COUNT(DISTINCT unit) AS n FROM t GROUP BY k", None, 0),
        ("SELECT DISTINCT k FROM t", "policy_laplace_set_union", 10_000),
        ("SELECT DISTINCT k FROM t", "weighted_gaussian_set_union", 0),
    ],
    ids=["few counts", "many counts", "few by a policy", "many weighted"],
)
def test_keys_of_every_type_arrive_unchanged(
    sql: str,
    mechanism: str | None,
    key_type: str,
    few: int,
    tmp_path: Path,
    ledger: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_noise: None,  # a policy may miss a key that everyone has
) -> None:
    monkeypatch.setattr(tail_module, "_FEW_ROWS", few)
    path = tmp_path / "data.duckdb"
    database(path, key_type, KEYS[key_type])
    with dpsql.connect(path, policy("t"), ledger, "ana") as con:
        outer = f"SELECT k::VARCHAR AS text, typeof(k) AS type FROM ({sql})"
        rows = con.sql(outer, mechanism=mechanism).fetchall()
        again = con.sql(outer, mechanism=mechanism)  # from what the ledger has stored
        assert again.cost.stored
        assert again.fetchall() == rows
    with duckdb.connect(str(path)) as plain:
        expected = plain.execute("SELECT DISTINCT k::VARCHAR, typeof(k) FROM t").fetchall()
    assert sorted(rows, key=str) == sorted(expected, key=str)


def columns_of(found: ExactRows) -> dict[str, NDArray[Any]]:
    """The keys, where they came as NumPy has them."""
    assert isinstance(found.keys, dict)
    return found.keys


def test_keys_are_read_of_the_groups_that_come_out_and_of_no_others(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DuckDBEngine()
    small = [f"small {i}" for i in range(1000)]
    keys = ["large"] * UNITS + ["larger"] * (2 * UNITS) + small
    engine.register("t", {"unit": np.arange(len(keys)), "k": np.array(keys)})
    exact, named = DuckDBScratch.exact, DuckDBScratch.keys
    read: list[object] = []

    def watched_exact(
        self: DuckDBScratch, sql: Sql, columns: Sequence[Column], measures: Sequence[str]
    ) -> ExactRows:
        found = exact(self, sql, columns, measures)
        read.append((len(columns), len(found.row_ids), dict(columns_of(found))))
        return found

    def watched_keys(
        self: DuckDBScratch, sql: Sql, columns: Sequence[Column], row_ids: NDArray[np.int64]
    ) -> ExactRows:
        found = named(self, sql, columns, row_ids)
        read.append(sorted(columns_of(found)["__dpsql_k0"]))
        return found

    monkeypatch.setattr(DuckDBScratch, "exact", watched_exact)
    monkeypatch.setattr(DuckDBScratch, "keys", watched_keys)
    with dpsql.connect(engine, policy("t"), ledger, "ana") as con:
        asked = "SELECT k, COUNT(DISTINCT unit) AS n FROM t GROUP BY k"
        only = con.sql(asked, delta=1e-14, max_groups_contributed=1, left_out_share=0.0)
        rows = only.fetchall()
    assert [key for key, _ in rows] == ["larger", "large"]
    assert all(
        abs(n - units * UNITS) < UNITS / 2 for (_, n), units in zip(rows, (2, 1), strict=True)
    )
    assert read == [(0, 1002, {}), ["large", "larger"]]


def few_groups(rows: int = 5) -> DuckDBEngine:
    engine = DuckDBEngine()
    unit = np.repeat(np.arange(UNITS), rows)
    engine.register("t", {"unit": unit, "k": np.tile(np.arange(rows), UNITS)})
    return engine


@pytest.fixture
def tied() -> Iterator[DuckDBEngine]:
    """3,000 groups with only four different counts, so order is mostly decided by ties."""
    engine = DuckDBEngine()
    counts = np.arange(3000) % 4 + 1
    unit = np.concatenate([np.arange(count) for count in counts])
    engine.register("t", {"unit": unit, "k": np.repeat(np.arange(3000), counts)})
    yield engine
    engine.close()


@pytest.mark.parametrize("key_type", ["BIGINT", "HUGEINT"], ids=["numpy", "arrow"])
def test_row_numbers_follow_the_total_order_of_top_k(tied: DuckDBEngine, key_type: str) -> None:
    sql = (
        'SELECT row_number() OVER () AS "__dpsql_rid", k, n, k::BIGINT AS copy FROM '
        f"(SELECT k::{key_type} AS k, count(DISTINCT unit) AS n FROM t GROUP BY k "
        "ORDER BY n DESC, k LIMIT 1001)"
    )
    rows = unread(listed_engine(tied).run()).exact(sql, (column_of("k", key_type),), ["n", "copy"])
    keys = rows.measures["copy"]
    assert rows.row_ids.tolist() == list(range(1, 1002))
    assert rows.measures["n"].tolist() == [4] * 750 + [3] * 251
    assert keys[:3].tolist() == [3, 7, 11]
    assert keys[1000] == 2 + 4 * 250
    if isinstance(rows.keys, dict):
        assert rows.keys["k"].tolist() == keys.tolist()


# -- stages ---------------------------------------------------------------------------------------


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[OpenDuckDB]:
    """A locked engine on a file that is open for reading only."""
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE t AS SELECT range AS k, range * 2 AS v FROM range(1000)")
    database = DuckDBEngine(path)
    yield database.open(["t"])
    database.close()


def tables_of(scratch: DuckDBScratch) -> int:
    found = scratch._cursor.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary")
    return int(found.fetchall()[0][0])


def test_a_stage_keeps_tables_of_its_own_until_it_is_left(locked: OpenDuckDB) -> None:
    with unread(locked.run()).scratch() as one, unread(locked.run()).scratch() as two:
        assert one.store("x", "SELECT * FROM t WHERE k < 10") == 10
        assert two.store("x", "SELECT * FROM t WHERE k < 20") == 20
        assert one.store("y", "SELECT v + 1 AS w FROM x ORDER BY v DESC") == 10
        one.drop("x")
        (w,) = one.integers(generated("SELECT w FROM y WHERE w >= ? AND w < ? ORDER BY w"), 3, 9)
        assert w.tolist() == [3, 5, 7]
        assert w.dtype == np.int64
        with pytest.raises(dpsql.EngineError):
            one.integers(generated("SELECT v FROM x"))
        assert (tables_of(one), tables_of(two)) == (1, 1)
    assert (tables_of(one), tables_of(two)) == (0, 0)
    with unread(locked.run()).scratch() as three, pytest.raises(dpsql.EngineError):
        three.integers("SELECT w FROM y")


def test_a_stage_left_by_an_error_leaves_no_table_behind(locked: OpenDuckDB) -> None:
    scratch = unread(locked.run()).scratch()

    def interrupted() -> None:
        with scratch:
            scratch.store("x", generated("SELECT * FROM t"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert tables_of(scratch) == 0


@pytest.mark.parametrize("key_type", ["BIGINT", "HUGEINT"], ids=["numpy", "arrow"])
def test_keys_read_from_a_stage_outlive_it(locked: OpenDuckDB, key_type: str) -> None:
    sql = 'SELECT "__dpsql_rid", k FROM x WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]))'
    stored = f'SELECT k + 1 AS "__dpsql_rid", (-k)::{key_type} AS k FROM t'
    with unread(locked.run()).scratch() as scratch:
        scratch.store("x", stored)
        found = scratch.keys(sql, [column_of("k", key_type)], np.array([900, 2, 7]))
    assert found.row_ids.tolist() == [2, 7, 900]
    if isinstance(found.keys, dict):
        assert found.keys["k"].tolist() == [-1, -6, -899]
    else:
        with duckdb.connect() as other:
            other.register("keys", found.keys)
            rows = other.execute("SELECT k::BIGINT FROM keys ORDER BY k DESC").fetchall()
        assert rows == [(-1,), (-6,), (-899,)]


@pytest.mark.parametrize(
    "step",
    [
        lambda scratch: scratch.store("x", generated("SELECT error('row 4711')")),
        lambda scratch: scratch.integers(generated("SELECT error('row 4711')")),
        lambda scratch: scratch.integers(generated("SELECT 'row 4711'::BIGINT")),
        lambda scratch: scratch.keys(generated("SELECT error('row 4711'), ?"), [], np.array([1])),
    ],
)
def test_an_error_on_a_stage_quotes_no_row(
    locked: OpenDuckDB, step: Callable[[Scratch], object]
) -> None:
    with unread(locked.run()).scratch() as scratch, pytest.raises(dpsql.EngineError) as caught:
        step(scratch)
    assert "4711" not in repr(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_an_interrupted_stage_is_an_interrupt() -> None:
    def interrupted() -> None:
        raise RuntimeError("Query interrupted")

    with pytest.raises(KeyboardInterrupt):
        engine_module.discreetly(interrupted)


@pytest.mark.slow
def test_large_releases_take_the_same_answer_as_small_ones(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = (
        "SELECT k, k * 2 AS double, COUNT(DISTINCT unit) > 20 AS many FROM t GROUP BY k ORDER BY k"
    )
    answers = []
    for few in (10_000, 0):
        monkeypatch.setattr(tail_module, "_FEW_ROWS", few)
        with dpsql.connect(few_groups(), policy("t"), ledger, "ana") as con:
            answers.append(con.sql(sql).fetchall())
    assert answers[0] == answers[1] == [(k, 2 * k, True) for k in range(5)]


@pytest.mark.parametrize("few", [10_000, 0])
def test_rows_come_out_by_released_value_and_never_in_engine_order(
    ledger: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "_FEW_ROWS", few)
    with dpsql.connect(few_groups(20), policy("t"), ledger, "ana") as con:
        rows = con.sql("SELECT k, COUNT(DISTINCT unit) AS n FROM t GROUP BY k", epsilon=9.0)
        counts = [n for _, n in rows.fetchall()]
    assert len(counts) == 20
    assert counts == sorted(counts, reverse=True)


@pytest.mark.slow
def test_results_outlive_their_connection_and_convert_repeatedly(ledger: Path) -> None:
    with dpsql.connect(few_groups(), policy("t"), ledger, "ana") as con:
        result = con.sql("SELECT k, COUNT(DISTINCT unit) AS n FROM t GROUP BY k ORDER BY k")
        con.sql("SELECT COUNT(DISTINCT unit) FROM t")
    rows = result.fetchall()
    assert [k for k, _ in rows] == [0, 1, 2, 3, 4]
    assert result.arrow().to_pylist() == [{"k": k, "n": n} for k, n in rows]
    assert [tuple(row) for row in result.df().itertuples(index=False)] == rows
    assert result.pl().rows() == rows
    assert result.types == ["BIGINT", "BIGINT"]
    assert len(result) == 5


@pytest.mark.slow
def test_csv_and_parquet_files_are_databases_of_one_table(tmp_path: Path, ledger: Path) -> None:
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE v AS SELECT range AS unit, range % 3 AS k FROM range(300)")
        for name in ("t.csv", "t.parquet"):
            plain.execute(f"COPY v TO '{tmp_path / name}'")
    for name in ("t.csv", "t.parquet"):
        declared = (column_of("unit", "BIGINT"), column_of("k", "BIGINT"))
        table = TablePolicy("t", PrivacyUnit("unit", "unit"), declared=declared)
        rules = replace(policy("t"), tables={"t": table})
        with dpsql.connect(checked(tmp_path / name), rules, ledger, "ana") as con:
            rows = con.sql("SELECT k, COUNT(DISTINCT unit) AS n FROM t GROUP BY k").fetchall()
        assert sorted(k for k, _ in rows) == [0, 1, 2]


def test_a_missing_or_foreign_database_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(dpsql.InterfaceError, match="no database file"):
        open_database(tmp_path / "none.duckdb")
    (tmp_path / "text.duckdb").write_text("hello " * 1000)
    with pytest.raises(dpsql.InterfaceError, match="cannot be opened"):
        open_database(tmp_path / "text.duckdb")
    assert not (tmp_path / "none.duckdb").exists()


def test_tables_cannot_be_added_once_the_engine_is_in_use(ledger: Path) -> None:
    engine = few_groups()
    with (
        dpsql.connect(engine, policy("t"), ledger, "ana"),
        pytest.raises(dpsql.InterfaceError, match="not in use"),
    ):
        engine.register("more", {"a": np.arange(3)})


@pytest.mark.slow
def test_two_analysts_may_ask_one_file_from_one_process(tmp_path: Path, ledger: Path) -> None:
    path = tmp_path / "data.duckdb"
    database(path, "BIGINT", ["1", "2"])
    sql = "SELECT k, COUNT(DISTINCT unit) AS n FROM t GROUP BY k"
    with (
        dpsql.connect(path, policy("t"), ledger, "ana") as one,
        dpsql.connect(path, policy("t"), ledger, "ana") as two,
    ):
        assert len(one.sql(sql).fetchall()) == len(two.sql(sql).fetchall()) == 3
    with dpsql.connect(path, policy("t"), ledger, "ana") as again:
        assert len(again.sql(sql).fetchall()) == 3


@pytest.mark.slow
def test_other_connections_of_this_process_keep_their_settings_and_we_ours(
    tmp_path: Path, ledger: Path
) -> None:
    path = tmp_path / "data.duckdb"
    database(path, "BIGINT", ["1"])
    with duckdb.connect(str(path), read_only=True) as owner:
        owner.execute("SET default_collation = 'NOCASE'; SET integer_division = true")
        owner.execute("SET lock_configuration = true")
        with dpsql.connect(path, policy("t"), ledger, "ana") as con:
            engine = con._answerer.engine
            assert isinstance(engine, OpenDuckDB)
            assert settings_of(engine._connection) == LOCKDOWN_SETTINGS
            assert len(con.sql("SELECT k, COUNT(DISTINCT unit) FROM t GROUP BY k").fetchall()) == 2
        assert owner.execute("SELECT 3 / 2").fetchall() == [(1,)]


@pytest.mark.slow
def test_a_file_that_is_being_written_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "data.duckdb"
    database(path, "BIGINT", ["1"])
    with duckdb.connect(str(path)), fails_with("database_locked"):
        open_database(path)
    script = f"import duckdb; c = duckdb.connect({str(path)!r}); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline()
        with pytest.raises(
            dpsql.InterfaceError, match=f"in python.*process {writer.pid}"
        ) as caught:
            open_database(path)
        writer.communicate(b"\n")
    assert caught.value.code == "database_locked"
    open_database(path).close()


def test_every_cursor_of_a_locked_engine_has_all_of_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "data.duckdb"
    database(path, "BIGINT", ["1"])
    for engine in (DuckDBEngine(path), few_groups()):
        listed_engine(engine)
        reach = {"a": np.arange(3)}
        cursor = engine._connection.cursor()
        assert settings_of(cursor) == LOCKDOWN_SETTINGS
        assert cursor.execute("SELECT 1 // 0").fetchall() == [(None,)]
        with pytest.raises(duckdb.CatalogException):
            cursor.execute("SELECT * FROM reach")
        assert reach
        engine.close()


def test_text_that_a_collation_may_compare_is_marked(tmp_path: Path) -> None:
    """Its type is VARCHAR like any other's: only the plan of a query tells."""
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE a (u VARCHAR COLLATE NOCASE, s VARCHAR, n INTEGER)")
        writer.execute("CREATE TABLE b (u VARCHAR, n INTEGER)")
        writer.execute("CREATE VIEW v AS SELECT u FROM a")
        writer.execute("INSERT INTO a VALUES ('Bob', '', 1), ('bob', '', 1)")
        assert writer.execute("SELECT u FROM a GROUP BY u").fetchall() == [("Bob",)]
    engine = dpsql.DuckDBEngine(path)
    marked = {
        f"{table.name}.{column.name}"
        for table in engine.catalog().tables.values()
        for column in table.columns
        if column.collated
    }
    assert marked == {"a.u", "v.u"}
    engine.close()


# -- whatever the owner's file holds -----------------------------------------------------------


def values_of(path: Path, sql: str) -> list[list[object]]:
    """What a locked engine computes."""
    engine = DuckDBEngine(path)
    try:
        return [list(row) for row in cursor_of(engine).execute(sql).fetchall()]
    finally:
        engine.close()


MACROS = {
    "least(a, b)": "a",
    "greatest(a, b)": "a",
    "sum(x)": "count(x) * 1000",
    "count(x)": "7",
    "hash(x)": "1",
    "round_even(x, y)": "x",
    "list_value(x)": "[x]",
    "isnan(x)": "false",
}


@pytest.mark.slow
def test_macros_in_the_file_are_not_the_functions_of_generated_sql(tmp_path: Path) -> None:
    """A macro called ``least`` took the clamp away: one person moved a sum as far as they liked."""
    plain, poisoned = tmp_path / "plain.duckdb", tmp_path / "poisoned.duckdb"
    for path in (plain, poisoned):
        with duckdb.connect(str(path)) as writer:
            writer.execute("CREATE TABLE t AS SELECT range AS unit, range % 3 AS k FROM range(90)")
            writer.execute("CREATE SCHEMA pg_catalog2")
            if path is poisoned:
                for signature, body in MACROS.items():
                    writer.execute(f"CREATE MACRO {signature} AS {body}")
                writer.execute("CREATE TYPE \"JSON\" AS ENUM ('x')")
                assert writer.execute("SELECT least(9, 1)").fetchall() == [(9,)]
    sql = (
        "SELECT k, sum(least(unit, 5)), greatest(max(unit), 99), count(unit), max(hash(unit)), "
        "round_even(2.5, 0), isnan('nan'::DOUBLE), '[1]'::JSON FROM t GROUP BY k ORDER BY k"
    )
    assert values_of(poisoned, sql) == values_of(plain, sql)
    assert values_of(plain, "SELECT sum(least(unit, 5)) FROM t") == [[5 * 90 - 15]]


@pytest.mark.slow
def test_a_macro_in_the_file_moves_no_released_sum(
    tmp_path: Path, ledger: Path, no_noise: None
) -> None:
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE t AS SELECT range AS unit, 1 AS k, 1000 AS n FROM range(60)")
        writer.execute("CREATE MACRO least(a, b) AS a")
        writer.execute("CREATE MACRO greatest(a, b) AS b")
    with dpsql.connect(path, policy("t"), ledger, "ana") as con:
        asked = "SELECT SUM(n, contribution_bounds_per_row => (0, 10)) FROM t"
        ((total,),) = con.sql(asked, max_rows_contributed=1).fetchall()
    assert total == 600


def test_a_view_finds_no_object_of_this_process_where_its_table_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE gone(a INTEGER); CREATE VIEW v AS SELECT * FROM gone")
        writer.execute("DROP TABLE gone; CREATE TABLE t(unit INTEGER)")
    gone = {"a": np.arange(3)}
    engine = DuckDBEngine(path)
    assert engine.catalog().tables["v"].unreadable is not None
    assert engine.catalog().tables["t"].unreadable is None
    assert gone
    engine.close()


def test_tables_with_names_of_generated_sql_are_refused(tmp_path: Path, ledger: Path) -> None:
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE __dpsql_groups(unit INTEGER, k INTEGER)")
        writer.execute("CREATE TABLE t(unit INTEGER, __dpsql_rid INTEGER, k INTEGER)")
        writer.execute("CREATE TABLE __DPSQL_DATA(unit INTEGER)")
    with fails_with("policy_does_not_fit", match="reserved"):
        dpsql.connect(path, policy("__dpsql_groups"), ledger, "ana")
    engine = DuckDBEngine(path)
    table = engine.catalog().tables["t"]
    assert [column.name for column in table.columns] == ["unit", "k"]
    assert [left.name for left in table.left_out] == ["__dpsql_rid"]
    engine.close()


@pytest.mark.slow
def test_names_that_mean_something_to_the_engine_are_the_owners_tables(
    tmp_path: Path, ledger: Path
) -> None:
    names: tuple[str, ...] = (
        "memory",
        "temp",
        "system",
        "main",
        "duckdb_tables",
        "pg_class",
        "sqlite_master",
    )
    names += ("order", 'with "quotes"', "a.b", "file.csv", "ünï")
    path = tmp_path / "it's; a.duckdb"
    with duckdb.connect(str(path)) as writer:
        for number, name in enumerate(names):
            writer.execute(f'CREATE TABLE {quote(name)} AS SELECT {number} AS "rowid ", 1 AS q')
    engine = DuckDBEngine(path)
    for number, name in enumerate(names):
        (found,) = cursor_of(engine).execute(f"SELECT * FROM {quote(name)}").fetchall()
        assert found == (number, 1)
        listed_engine(engine).bind(generated(f"SELECT q FROM {quote(name)}"))
    engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data.duckdb", "t.parquet"])
def test_rows_that_do_not_fit_in_memory_go_to_a_private_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    path = tmp_path / name
    rows = "SELECT hash(range) AS a, repeat('x', 200) || range AS b FROM range(300000)"
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as writer:
            writer.execute(f"CREATE TABLE t AS {rows}")
    else:
        duckdb.connect().execute(f"COPY ({rows}) TO '{path}'")
    engine = open_database(path)
    engine._connection.execute("SET memory_limit = '80MB'; SET threads = 1")
    assert not list((tmp_path / "temporary").iterdir()), "made when it may be needed"
    with unread(listed_engine(engine, "t").run()).scratch() as scratch:
        assert scratch.store("x", "SELECT a, b FROM t ORDER BY b") == 300000
        (private,) = (tmp_path / "temporary").iterdir()
        assert private.stat().st_mode & 0o777 == 0o700
        assert list((private / "spill").iterdir()), "something was written there"
    engine.close()
    assert not list((tmp_path / "temporary").iterdir())
    assert sorted(found.name for found in tmp_path.iterdir()) == sorted([name, "temporary"])


ABANDONING = """
import os, sys
from dpsql.engines.duckdb.spill import Spill
one = Spill()
one.make()
os.mkdir(one.directory)
open(os.path.join(one.directory, "rows"), "w").write("rows of units")
print(one.directory, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing tells there that a process is gone")
def test_spilled_rows_of_a_killed_process_are_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", ABANDONING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        assert process.stdout is not None
        found.append((process, Path(process.stdout.readline().strip())))
    (killed, left), (living, kept) = found
    killed.kill()
    killed.communicate()
    foreign = tmp_path / f"dpsql-{'0' * 32}"
    foreign.mkdir()  # of an earlier version, which has no lock
    young = Spill()
    young.make()
    assert left.exists(), "young directories may not be locked yet"
    for place in (left.parent, kept.parent, foreign):
        os.utime(place, (0, 0))
    mine = Spill()
    mine.make()
    assert not left.parent.exists()
    assert (kept / "rows").exists()
    assert foreign.exists()
    living.communicate("")
    assert not kept.parent.exists(), "a process that ends removes its own"
    mine.remove()
    young.remove()
    assert list(tmp_path.iterdir()) == [foreign]
