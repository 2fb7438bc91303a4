"""Tables of lakes: DuckLake, Delta and Iceberg, each as one snapshot has it, whoever writes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.sql_text import generated
from helpers.support import cursor_of, listed_engine
from helpers.unchecked_runs import unread

import dpsql
from dpsql.core.data_files import (
    DataFiles,
    FileKind,
    data_files,
    home,
    is_several,
    shown_name,
    table_name_for,
)
from dpsql.engines.duckdb.engine import DuckDBEngine, open_database
from dpsql.policy.ledger_place import beside
from dpsql.policy.load import parse_policy

ROWS = "SELECT i AS uid, ['a', 'b', 'c'][1 + i % 3] AS k, i / 2 AS x FROM range({}, {}) r(i)"
KEYS = 3
FIRST = 3000
ADDED = 1500


def policy(table: str = "visits", edition: str = "") -> dpsql.Policy:
    named = f"edition: {edition}\n" if edition else ""
    return parse_policy(
        f"version: 1\ndataset: d\n{named}"
        "defaults: {epsilon: 20, max_rows_contributed: 3, max_groups_contributed: 3}\n"
        "accounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
        f"tables:\n  {table}:\n    privacy_unit: {{name: person, column: uid}}\n"
        "    columns: {x: {lower: 0, upper: 2000}}\n"
    )


@cache
def missing(*extensions: str) -> str:
    """Which of DuckDB's extensions is not installed here; empty if all are."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        for extension in extensions:
            try:
                connection.execute(f"LOAD {extension}")
            except duckdb.Error:
                return f"the {extension} extension of DuckDB {duckdb.__version__} is not installed"
    return ""


def need(*extensions: str) -> None:
    if missing(*extensions):
        pytest.skip(missing(*extensions))


# -- lakes that others write ---------------------------------------------------------------------


class Lake(NamedTuple):
    """A lake with the table ``visits``; ``add`` appends rows of further units, as its owner."""

    place: str
    add: Callable[[int, int], None]
    remove: Callable[[int], None]
    directory: Path


def in_ducklake(directory: Path) -> Lake:
    """A lake whose catalog others may write to at the same time, in a file of SQLite's."""
    need("ducklake", "sqlite_scanner")
    place = f"ducklake:sqlite:{directory}/clinic.sqlite"
    writer = duckdb.connect()
    writer.execute(f"ATTACH '{place}' AS lake (DATA_PATH '{directory}/data')")
    writer.execute(f"CREATE TABLE lake.visits AS {ROWS.format(0, FIRST)}")

    def add(start: int, end: int) -> None:
        writer.execute(f"INSERT INTO lake.visits {ROWS.format(start, end)}")

    def remove(unit: int) -> None:
        writer.execute(f"DELETE FROM lake.visits WHERE uid = {unit}")

    return Lake(place, add, remove, directory / "data")


def in_delta(directory: Path) -> Lake:
    need("delta")
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    place = str(directory / "visits")

    def add(start: int, end: int) -> None:
        deltalake.write_deltalake(place, rows_of(start, end), mode="append", partition_by=["k"])

    add(0, FIRST)
    return Lake(
        place, add, lambda unit: deltalake.DeltaTable(place).delete(f"uid = {unit}"), Path(place)
    )


def in_iceberg(directory: Path) -> Lake:
    need("avro", "iceberg")
    catalogs = pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed")
    catalog = catalogs.SqlCatalog(
        "c", uri=f"sqlite:///{directory}/c.db", warehouse=f"file://{directory}"
    )
    catalog.create_namespace("n")
    rows = rows_of(0, FIRST)
    table = catalog.create_table("n.visits", schema=rows.schema)
    place = Path(table.location().removeprefix("file://"))

    def wrote() -> None:
        """Say which metadata are current, as catalogs of directories do."""
        number = sum(1 for _ in place.glob("metadata/v*.metadata.json")) + 1
        current = Path(table.metadata_location.removeprefix("file://"))
        (place / f"metadata/v{number}.metadata.json").write_bytes(current.read_bytes())
        (place / "metadata/version-hint.text").write_text(str(number))

    def add(start: int, end: int) -> None:
        table.append(rows_of(start, end))
        wrote()

    def remove(unit: int) -> None:
        table.delete(f"uid = {unit}")
        wrote()

    table.append(rows)
    wrote()
    return Lake(str(place), add, remove, place)


KINDS: dict[str, Callable[[Path], Lake]] = {
    "ducklake": in_ducklake,
    "delta": in_delta,
    "iceberg": in_iceberg,
}


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return KINDS[request.param](tmp_path)


def rows_of(start: int, end: int) -> Any:
    """Rows of these units, as Arrow has them."""
    with duckdb.connect() as connection:
        return connection.execute(ROWS.format(start, end)).to_arrow_table()


def counted(connection: dpsql.Connection, **parameters: Any) -> int:
    """How many units there are, but for noise that is far below one in ten."""
    rows = connection.sql("SELECT count(DISTINCT uid) AS n FROM visits", **parameters).fetchall()
    return int(round(rows[0][0], -2))


# -- which paths are lakes -----------------------------------------------------------------------


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """What a table of Delta's looks like from outside."""
    (tmp_path / "visits" / "_delta_log").mkdir(parents=True)
    (tmp_path / "visits" / "_delta_log" / f"{0:020}.json").write_text("{}")
    with duckdb.connect() as writer:
        for name in ("now", "removed"):
            writer.execute(f"COPY ({ROWS.format(0, 9)}) TO '{tmp_path}/visits/{name}.parquet'")
    return tmp_path / "visits"


@pytest.fixture
def iceberg(tmp_path: Path) -> Path:
    """What a table of Iceberg's looks like from outside."""
    (tmp_path / "visits" / "metadata").mkdir(parents=True)
    for number in (1, 2):
        place = tmp_path / f"visits/metadata/v{number}.metadata.json"
        place.write_text(json.dumps({"current-snapshot-id": number}))
    (tmp_path / "visits" / "data").mkdir()
    with duckdb.connect() as writer:
        writer.execute(f"COPY ({ROWS.format(0, 9)}) TO '{tmp_path}/visits/data/a.parquet'")
    return tmp_path / "visits"


def test_a_directory_with_a_log_is_a_table_of_delta(delta: Path) -> None:
    assert data_files(delta) == DataFiles("visits", FileKind.DELTA, (str(delta),))
    assert data_files(f"{delta}/") == data_files(delta)


def test_a_directory_with_metadata_is_a_table_of_iceberg(iceberg: Path) -> None:
    with fails_with("file_missing", match="which of its metadata"):
        data_files(iceberg)
    (iceberg / "metadata" / "version-hint.text").write_text("1\n")
    first, second = (str(iceberg / f"metadata/v{n}.metadata.json") for n in (1, 2))
    assert data_files(iceberg) == DataFiles("visits", FileKind.ICEBERG, (first,))
    assert data_files(second) == DataFiles("visits", FileKind.ICEBERG, (second,))


def test_files_of_a_lake_are_no_table_without_it(
    delta: Path, tmp_path_factory: pytest.TempPathFactory, iceberg: Path
) -> None:
    """Some of them have rows that the table has no more."""
    for place in (delta.parent, f"{delta}/*.parquet", f"{delta.parent}/**/*.parquet"):
        with pytest.raises(dpsql.InterfaceError) as refused:
            DuckDBEngine(files={"v": place})
        assert refused.value.code == "file_kinds", place


def test_the_metadata_of_a_table_have_one_ledger(iceberg: Path) -> None:
    """A new snapshot must be no new budget."""
    places = [iceberg, *(iceberg / f"metadata/v{n}.metadata.json" for n in (1, 2))]
    assert {beside(place) for place in places} == {f"{iceberg}.budget.db"}
    assert {home(place) for place in places} == {str(iceberg)}
    assert all(map(is_several, places))
    assert table_name_for(places[1]) == "visits"


def test_a_catalog_is_named_and_has_its_ledger_beside_it(tmp_path: Path) -> None:
    for place in (f"ducklake:{tmp_path}/clinic.ducklake", f"DuckLake:sqlite:{tmp_path}/clinic.db"):
        assert data_files(place) is None
        assert table_name_for(place) == "clinic"
        assert shown_name(place).startswith("clinic.")
        assert beside(place) == f"{tmp_path}/clinic.budget.db"


@pytest.mark.parametrize("place", ["ducklake:postgres:dbname=x", "iceberg:v", "delta:v", "md:x"])
def test_other_catalogs_are_refused(place: str) -> None:
    with fails_with("address_unknown") as refused:
        dpsql.connect(place, policy(), None, "ana")
    assert refused.value.hint


def test_a_catalog_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    place = f"ducklake:{tmp_path}/clinic.ducklake"
    with fails_with("database_missing"):
        dpsql.connect(place, policy(), tmp_path / "budget.db", "ana")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_extension_a_lake_is_refused_before_anything(
    kind: str, delta: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where DuckDB looks for extensions
    place = {"delta": str(delta), "ducklake": f"ducklake:{tmp_path}/c.ducklake"}.get(kind)
    duckdb.connect(f"{tmp_path}/c.ducklake").close()
    if place is None:
        (tmp_path / "i/metadata").mkdir(parents=True)
        place = f"{tmp_path}/i/metadata/v1.metadata.json"
        Path(place).write_text("{}")
    with fails_with("extension_missing", match="which tables of lakes need") as refused:
        dpsql.connect(place, policy(), tmp_path / "budget.db", "ana")
    assert "INSTALL" in str(refused.value.hint)
    assert not (tmp_path / "budget.db").exists()


# -- with the extensions -------------------------------------------------------------------------


def test_a_lake_is_read_as_it_was_when_it_was_opened(lake: Lake, tmp_path: Path) -> None:
    """Whatever is written between questions, or between the steps of one."""
    asked = "SELECT k, median(x) AS m, count(*) AS n FROM visits GROUP BY k ORDER BY k"
    ledger = tmp_path / "budget.db"
    with dpsql.connect(lake.place, policy(), ledger, "ana") as con:
        assert counted(con) == FIRST
        lake.add(FIRST, FIRST + ADDED)
        lake.remove(7)
        assert counted(con, fresh=True) == FIRST
        rows = con.sql(asked).fetchall()
        assert [k for k, _, _ in rows] == ["a", "b", "c"]
        assert all(abs(n - FIRST / KEYS) < 100 for _, _, n in rows)
        assert all(abs(m - FIRST / 4) < 100 for _, m, _ in rows)
    with dpsql.connect(lake.place, policy(), ledger, "ana") as con:
        assert counted(con) == FIRST + ADDED


def test_steps_of_one_run_see_one_snapshot(lake: Lake) -> None:
    engine = open_database(lake.place)
    with listed_engine(engine, "visits").run() as run, unread(run).scratch() as scratch:
        assert scratch.store("__dpsql_a", "SELECT uid FROM visits") == FIRST
        lake.add(FIRST, FIRST + ADDED)
        lake.remove(7)
        assert (
            scratch.store("__dpsql_b", generated("SELECT uid FROM visits WHERE uid >= 0")) == FIRST
        )
        sql = "SELECT count(*) FROM __dpsql_a JOIN __dpsql_b USING (uid)"
        assert [column.tolist() for column in scratch.integers(generated(sql))] == [[FIRST]]
    engine.close()


def test_the_snapshot_is_the_edition_of_the_data(lake: Lake, tmp_path: Path) -> None:
    """What was released of one snapshot is neither given again nor put together with another."""
    ledger = tmp_path / "budget.db"

    def cost(policy: dpsql.Policy) -> tuple[str | None, bool]:
        with (
            closing(open_database(lake.place)) as engine,
            dpsql.connect(engine, policy, ledger, "ana") as con,
        ):
            found = con.sql("SELECT count(DISTINCT uid) AS n FROM visits")
            return listed_engine(engine, "visits").edition, found.cost.answered is not None

    first, again = cost(policy())
    assert first is not None
    assert not again
    assert cost(policy()) == (first, True)
    assert cost(policy(edition="own"))[1] is False
    lake.add(FIRST, FIRST + ADDED)
    second, again = cost(policy())
    assert second not in (None, first)
    assert not again
    assert cost(policy(edition="own"))[1] is True  # the owner's own word goes before


def test_nothing_else_can_be_reached_beside_a_lake(lake: Lake, tmp_path: Path) -> None:
    lake.add(FIRST, FIRST + ADDED)
    engine = open_database(lake.place)
    cursor = cursor_of(engine, "visits")
    lake.add(FIRST + ADDED, FIRST + 2 * ADDED)
    assert cursor.execute("SELECT count(*) FROM visits").fetchall() == [(FIRST + ADDED,)]
    (tmp_path / "other.csv").write_text("a\n1\n")
    for sql in (
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        f"SELECT * FROM read_parquet('{lake.directory}/**/*.parquet')",
        f"COPY (SELECT 1) TO '{tmp_path}/copied.csv'",
        f"ATTACH '{tmp_path}/new.duckdb'",
        "LOAD httpfs",
        "SET enable_external_access = true",
    ):
        with pytest.raises(duckdb.Error):
            cursor.execute(sql).fetchall()
    newest = max(lake.directory.rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    with pytest.raises(duckdb.Error, match="Cannot access file"):
        cursor.execute(f"SELECT * FROM read_parquet('{newest}')")
    engine.close()


def test_a_lake_whose_files_are_gone_is_refused_before_anything(lake: Lake, tmp_path: Path) -> None:
    for file in lake.directory.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(dpsql.PolicyError, match="are gone"):
        dpsql.connect(lake.place, policy(), tmp_path / "budget.db", "ana")
    assert not (tmp_path / "budget.db").exists()


def test_a_lake_that_is_none_is_refused(tmp_path: Path, delta: Path) -> None:
    need("delta")
    with fails_with("table_unreadable", match="cannot be read as a table of Delta") as refused:
        dpsql.connect(str(delta), policy(), tmp_path / "budget.db", "ana")
    assert refused.value.__context__ is None


def test_tables_of_several_lakes_are_tables_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = in_delta(tmp_path / "a"), in_iceberg(tmp_path / "b")
    engine = DuckDBEngine(files={"here": one.place, "there": other.place})
    cursor = cursor_of(engine, "here", "there")
    both = cursor.execute("SELECT count(*) FROM here JOIN there USING (uid, k)").fetchall()
    assert both == [(FIRST,)]
    edition = listed_engine(engine, "here", "there").edition
    assert edition is not None
    assert edition.startswith("here: delta 0, there: iceberg ")
    engine.close()


# -- a catalog of DuckLake's own -------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    """A lake in a file of DuckDB's, with a schema, a view, and rows that lie in the catalog."""
    need("ducklake")
    place = f"ducklake:{tmp_path}/clinic.ducklake"
    with duckdb.connect() as writer:
        writer.execute(f"ATTACH '{place}' AS lake (DATA_PATH '{tmp_path}/data')")
        writer.execute(f"CREATE TABLE lake.visits AS {ROWS.format(0, FIRST)}")
        writer.execute("CREATE SCHEMA lake.mart")
        writer.execute("CREATE TABLE lake.mart.few (uid BIGINT, d DOUBLE, t TIMESTAMP, l INT[])")
        writer.execute(
            "INSERT INTO lake.mart.few VALUES (1, 'nan', 'infinity', [1]), (2, '-inf', NULL, [2]), "
            "(3, 1e308, '-infinity', NULL), (4, NULL, '290309-12-22 (BC) 00:00:00', [])"
        )
        writer.execute("CREATE VIEW lake.seen AS SELECT * FROM lake.visits")
        writer.execute("DELETE FROM lake.visits WHERE uid = 5")
    return place


def test_schemas_views_and_rows_of_the_catalog(catalog: str, tmp_path: Path) -> None:
    with closing(open_database(catalog)) as engine:
        schema = engine.catalog().tables
        assert {table.name.key for table in schema.values()} == {"visits", "mart.few", "seen"}
        assert [column.name for column in schema["mart.few"].columns][:3] == ["uid", "d", "t"]
        refused = engine.definition(schema["seen"].name).refusal
        assert refused is not None
        assert "view of a lake" in refused.reason
        cursor = cursor_of(engine, "visits", "mart.few")
        assert cursor.execute("SELECT count(*) FROM visits").fetchall() == [(FIRST - 1,)]
        assert cursor.execute("SELECT count(d), count(t), max(uid) FROM mart.few").fetchall() == [
            (3, 3, 4)
        ]
        with pytest.raises(duckdb.Error):
            cursor.execute("DELETE FROM __dpsql_data.main.visits")


def test_a_catalog_that_is_written_to_is_said_to_be(catalog: str, tmp_path: Path) -> None:
    hold = (
        "import duckdb, sys\nc = duckdb.connect()\n"
        f"c.execute(\"ATTACH '{catalog}' AS lake\")\nprint('held', flush=True)\nsys.stdin.read()"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"held\n"
    try:
        with fails_with("database_locked", match="open for writing"):
            dpsql.connect(catalog, policy(), tmp_path / "budget.db", "ana")
    finally:
        writer.communicate()


def test_a_ledger_lies_beside_the_catalog(catalog: str, tmp_path: Path) -> None:
    with (
        pytest.warns(dpsql.NewLedgerWarning),
        dpsql.connect(catalog, policy(), analyst="ana") as con,
    ):
        assert counted(con) == FIRST
    assert (tmp_path / "clinic.budget.db").exists()
