"""Files that are a table as they are: which they are, what it is called, what reading takes."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.installed_duckdb import since_2_0
from helpers.support import checked, cursor_of

import dpsql
from dpsql.core.data_files import DataFiles, FileKind, as_read, data_files
from dpsql.core.schema import Column
from dpsql.core.table_name import TableName
from dpsql.engines.duckdb.engine import DuckDBEngine, open_database
from dpsql.owner.conformance import check_policy
from dpsql.policy.ledger_place import beside
from dpsql.policy.load import parse_policy

ROWS = 3000
SEVERAL = ["events", "events/", "events/*/*.parquet", "events/**/r*.parquet"]
TABLE = (
    "SELECT i % 300 AS uid, ['a', 'b', 'c'][1 + i % 3] AS k, i % 7 AS n, i % 2 AS part "
    f"FROM range({ROWS}) r(i)"
)
WRITTEN = {
    "one.parquet": "",
    "one.csv": "",
    "one.csv.gz": "",
    "one.tsv": " (DELIMITER '\t')",
    "one.tsv.gz": " (FORMAT csv, DELIMITER '\t', COMPRESSION gzip)",
    "one.csv.zst": " (FORMAT csv, COMPRESSION zstd)",
    "one.json": "",
    "one.jsonl": " (FORMAT json)",
    "one.ndjson.gz": " (FORMAT json, COMPRESSION gzip)",
}


TYPES = {"uid": "BIGINT", "k": "VARCHAR", "n": "BIGINT", "part": "BIGINT"}


def policy(table: str, types: dict[str, str] = TYPES) -> dpsql.Policy:
    columns = ", ".join(f"{name}: {type_}" for name, type_ in types.items())
    return parse_policy(
        "version: 1\ndataset: d\ndefaults: {epsilon: 100, max_rows_contributed: 20}\n"
        "accounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
        f"tables:\n  {table!r}:\n    privacy_unit: {{name: person, column: uid}}\n"
        f"    columns: {{{columns}}}\n"
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    with duckdb.connect() as writer:
        for name, options in WRITTEN.items():
            writer.execute(f"COPY ({TABLE}) TO '{tmp_path / name}'{options}")
        for part in (0, 1):
            place = tmp_path / "events" / f"part={part}"
            place.mkdir()
            rows = f"SELECT * EXCLUDE (part) FROM ({TABLE}) WHERE part = {part}"
            writer.execute(f"COPY ({rows}) TO '{place / 'rows.parquet'}'")
    return tmp_path


def asked(
    path: str | Path, table: str, ledger: Path, types: dict[str, str] = TYPES
) -> list[tuple[object, ...]]:
    with dpsql.connect(checked(path), policy(table, types), ledger / "budget.db", "ana") as con:
        sql = f"SELECT k, count(*) FROM {table} GROUP BY k ORDER BY k"
        return [(k, round(int(n), -2)) for k, n in con.sql(sql, max_groups_contributed=3)]


ALL = [("a", ROWS // 3), ("b", ROWS // 3), ("c", ROWS // 3)]


@pytest.mark.slow
@pytest.mark.parametrize("viewed", [False, pytest.param(True, marks=since_2_0)])
@pytest.mark.few(2)
def test_a_row_is_counted_whatever_other_rows_its_file_has(
    viewed: bool, tmp_path: Path, no_noise: None
) -> None:
    """Statistics without NaN hid rows of many, until one unit had a greater value."""
    for others in ([], [6.0]):
        place = tmp_path / f"{len(others)}"
        place.mkdir()
        values = [1.0, *[math.nan] * 20, *others]
        rows = pa.table({"uid": range(len(values)), "x": values})
        pq.write_table(rows, place / "t.parquet")
        control = f"SELECT count(*) FROM '{place}/t.parquet' WHERE x > 5"
        with duckdb.connect() as plain:
            assert plain.execute(control).fetchall() == [(21 if others else 0,)]
        path = place / "t.parquet"
        if viewed:
            path = place / "d.duckdb"
            with duckdb.connect(str(path)) as owner:
                owner.execute(f"CREATE VIEW t AS SELECT * FROM '{place}/t.parquet'")
        types = {"uid": "BIGINT", "x": "DOUBLE"}
        with dpsql.connect(checked(path), policy("t", types), place / "budget.db", "ana") as con:
            assert con.sql("SELECT count(*) FROM t WHERE x > 5").fetchall() == [(20 + len(others),)]


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_is_a_table_of_its_name(directory: Path, name: str) -> None:
    assert asked(directory / name, "one", directory) == ALL


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["events", "events/", "events/*/*.parquet", "events/**/r*.parquet"]
)
def test_a_directory_or_a_pattern_is_a_table_called_after_the_directory(
    directory: Path, path: str
) -> None:
    assert asked(f"{directory}/{path}", "events", directory) == ALL


# Names with marks of patterns, each with one that it would match if it were a pattern.
MARKED = [
    ("v[1]", "v1"),
    ("v*w", "v2w"),
    ("v?w", "v2w"),
    ("v[[]w", "v[w"),
    ("v[!a]", "vb"),
    ("v]w[x", "v]wx"),
    ("v{1,2}", "v1"),
]


def written(place: Path, first: str) -> None:
    """Write a file of three keys, the first of which is ``first``."""
    place.parent.mkdir(exist_ok=True, parents=True)
    table = TABLE.replace("'a'", f"'{first}'")
    with duckdb.connect() as writer:
        writer.execute(f"COPY ({table}) TO '{place.parent / 'made'}' (FORMAT {place.suffix[1:]})")
    (place.parent / "made").rename(place)


def columns(types: dict[str, str]) -> tuple[Column, ...]:
    return tuple(column_of(name, type_) for name, type_ in types.items())


def keys_of(engine: DuckDBEngine, table: str) -> list[object]:
    """List the keys that a table has once its connection is locked."""
    engine.declare({table: columns(TYPES)})
    with cursor_of(engine, table) as cursor:
        found = cursor.execute(f'SELECT DISTINCT k FROM "{table}" ORDER BY k').fetchall()
    engine.close()
    return [key for (key,) in found]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".json"])
@pytest.mark.parametrize(("name", "decoy"), MARKED)
def test_the_name_of_a_file_is_no_pattern(
    tmp_path: Path, name: str, decoy: str, suffix: str
) -> None:
    written(tmp_path / f"{name}{suffix}", "own")
    written(tmp_path / f"{decoy}{suffix}", "other")
    engine = open_database(tmp_path / f"{name}{suffix}")
    assert keys_of(engine, name) == ["b", "c", "own"]


@pytest.mark.parametrize(("name", "decoy"), MARKED)
def test_the_name_of_a_directory_is_no_pattern(tmp_path: Path, name: str, decoy: str) -> None:
    written(tmp_path / name / "part=1" / f"{name}.parquet", "own")
    written(tmp_path / decoy / "part=1" / f"{decoy}.parquet", "other")
    written(tmp_path / name / "part=1" / f"{decoy}.parquet", "beside")
    engine = open_database(tmp_path / name)
    assert keys_of(engine, name) == ["b", "beside", "c", "own"]


@pytest.mark.parametrize(("name", "decoy"), MARKED)
def test_the_directory_that_a_pattern_begins_in_is_none(
    tmp_path: Path, name: str, decoy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / name / "events" / "e.parquet", "own")
    written(tmp_path / decoy / "events" / "e.parquet", "other")
    monkeypatch.chdir(tmp_path / name)
    engine = open_database("events/*.parquet")
    found = engine.definition(TableName("events"))
    file = str(tmp_path / name / "events" / "e.parquet")
    assert set(found.files) == {file, as_read(file)}
    assert keys_of(engine, "events") == ["b", "c", "own"]


def test_a_locked_connection_reads_the_named_file_alone(tmp_path: Path) -> None:
    written(tmp_path / "v[1].parquet", "own")
    written(tmp_path / "v1.parquet", "other")
    engine = open_database(tmp_path / "v[1].parquet")
    with cursor_of(engine, "v[1]") as cursor, pytest.raises(duckdb.PermissionException):
        cursor.execute(f"SELECT * FROM read_parquet('{tmp_path / 'v1.parquet'}')")
    engine.close()


@pytest.mark.slow
def test_directories_named_by_values_are_columns(directory: Path) -> None:
    with dpsql.connect(
        checked(directory / "events"), policy("events"), directory / "b.db", "ana"
    ) as con:
        assert con.sql("SELECT * FROM events LIMIT 0").columns == ["uid", "k", "n", "part"]
        ((half,),) = con.sql("SELECT count(*) FROM events WHERE part = 1").fetchall()
        assert abs(half - ROWS // 2) < 100


@pytest.mark.slow
def test_a_directory_named_by_a_value_is_no_column_unless_declared(directory: Path) -> None:
    types = {name: type_ for name, type_ in TYPES.items() if name != "part"}
    with dpsql.connect(
        checked(directory / "events"), policy("events", types), directory / "b.db", "ana"
    ) as con:
        assert con.sql("SELECT * FROM events LIMIT 0").columns == ["uid", "k", "n"]


@pytest.mark.parametrize("value", ["x", "%ff", "%zz", "%00", "999999999999999999999", "", "1=2"])
def test_no_name_of_a_directory_makes_a_table_unreadable_or_another(
    directory: Path, value: str
) -> None:
    place = directory / "events" / f"part={value}"
    place.mkdir()
    shutil.copy(directory / "events" / "part=0" / "rows.parquet", place / "rows.parquet")
    other = directory / "events" / "ann=1"
    other.mkdir()
    shutil.copy(directory / "events" / "part=0" / "rows.parquet", other / "rows.parquet")
    engine = open_database(directory / "events")
    engine.declare({"events": columns(TYPES)})
    assert [(c.name, str(c.type)) for c in engine.catalog().tables["events"].columns] == [
        *TYPES.items()
    ]
    rows = cursor_of(engine, "events").execute(
        "SELECT part, count(*) FROM events GROUP BY part ORDER BY part"
    )
    half = ROWS // 2
    assert rows.fetchall() == [(0, half), (1, half), (None, 2 * half)]
    engine.close()


def test_files_are_listed_once(directory: Path) -> None:
    engine = open_database(f"{directory}/events/*/*.parquet")
    cursor_of(engine, "events").execute("SELECT count(*) FROM events").fetchall()
    for new in ("part=7", "part=8/more=1"):
        place = directory / "events" / new
        place.mkdir(parents=True)
        shutil.copy(directory / "events" / "part=0" / "rows.parquet", place / "r.parquet")
    rows = cursor_of(engine, "events").execute("SELECT count(*) FROM events").fetchall()
    assert rows == [(ROWS,)]
    engine.close()


def test_a_directory_and_its_patterns_have_one_ledger(directory: Path) -> None:
    places = {beside(f"{directory}/{path}") for path in SEVERAL}
    assert places == {str(directory.resolve() / "events.budget.db")}
    assert beside(directory / "one.parquet") == str(directory.resolve() / "one.budget.db")


def test_several_files_have_names_of_their_own(directory: Path) -> None:
    engine = DuckDBEngine(files={"e": directory / "events", "o": directory / "one.csv.gz"})
    assert set(engine.catalog().tables) == {"e", "o"}
    engine.close()


def test_a_file_that_is_read_in_place_is_no_view_to_confirm(directory: Path) -> None:
    engine = open_database(directory / "events")
    engine.declare(policy("events").declared)
    found = check_policy(policy("events"), engine.catalog().tables, engine.definition)
    assert found == []
    engine.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        "TIMESTAMPTZ '2024-02-29 12:00:00+00'",
        "[TIMESTAMPTZ '2024-02-29 12:00:00+00']",
        "TIMESTAMPTZ 'infinity'",
        "TIMESTAMP '290000-01-01'",
        "DATE '-infinity'",
        "TIME '24:00:00'",
        "INTERVAL 2000000000 DAY",
        "TIMESTAMP_NS '2024-02-29 12:00:00.123456789'",
        "uuid()",
        "MAP {'a': 1}",
    ],
)
def test_files_are_opened_whatever_values_python_lacks(tmp_path: Path, value: str) -> None:
    rows = f"SELECT i % 300 AS uid, ['a', 'b', 'c'][1 + i % 3] AS k, {value} AS v"
    with duckdb.connect() as writer:
        writer.execute(f"COPY ({rows} FROM range({ROWS}) r(i)) TO '{tmp_path / 'one.parquet'}'")
    assert asked(tmp_path / "one.parquet", "one", tmp_path, {}) == ALL


@pytest.mark.slow
@pytest.mark.parametrize("path", ["events", "events/*/*.parquet", "events/part=0/rows.parquet"])
def test_what_files_have_is_read_from_them_and_not_from_names_of_directories(
    directory: Path, path: str
) -> None:
    with duckdb.connect() as writer:
        for part in (0, 1):
            place = directory / "events" / f"part={part}" / "rows.parquet"
            writer.execute(f"COPY (SELECT * REPLACE (7 AS part) FROM ({TABLE})) TO '{place}'")
    engine = open_database(f"{directory}/{path}")
    (table,) = engine.catalog().tables
    engine.declare({table: columns(TYPES | {"part": "INTEGER"})})
    assert check_policy(policy(table, {}), engine.catalog().tables, engine.definition) == []
    assert cursor_of(engine, table).execute(f"SELECT DISTINCT part FROM {table}").fetchall() == [
        (7,)
    ]
    engine.close()


def test_files_of_different_columns_are_no_table(directory: Path) -> None:
    with duckdb.connect() as writer:
        writer.execute(f"COPY (SELECT 1 AS uid) TO '{directory}/events/part=1/other.parquet'")
    engine = open_database(directory / "events")
    (finding,) = check_policy(policy("events", {}), engine.catalog().tables, engine.definition)
    assert finding.level == "error"
    assert "different columns or types" in finding.message
    engine.close()


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("none.parquet", "file_missing", "none.parquet"),
        ("none.csv.gz", "file_missing", "none.csv.gz"),
        ("none/*.parquet", "file_missing", "none"),
        ("events/*.txt", "file_missing", "pattern that ends"),
        (".", "file_kinds", ".csv.gz"),
        ("empty", "file_missing", "no Parquet, CSV or JSON file"),
        ("none.duckdb", "database_missing", "none.duckdb"),
    ],
)
def test_what_is_no_table_is_said(directory: Path, path: str, code: str, said: str) -> None:
    (directory / "empty").mkdir()
    with fails_with(code) as refused:
        open_database(f"{directory}/{path}")
    assert said in f"{refused.value} {refused.value.hint}"


@pytest.mark.slow
def test_hidden_files_and_those_of_tools_are_none_of_a_directory(directory: Path) -> None:
    events = directory / "events"
    for name in (".crc.csv", "_SUCCESS.json", "notes.txt"):
        (events / name).write_text("x", encoding="utf-8")
    kept = tuple(str(events / f"part={part}" / "rows.parquet") for part in (0, 1))
    (events / "part=0" / "_temporary").mkdir()
    for copy in (".rows.parquet", "_temporary/rows.parquet"):
        shutil.copy(kept[0], events / "part=0" / copy)
    assert data_files(events) == DataFiles("events", FileKind.PARQUET, kept)
    assert asked(events, "events", directory) == ALL  # and not half as many rows again


def test_nothing_else_can_be_read_beside_files(directory: Path) -> None:
    engine = open_database(directory / "events")
    other = f"SELECT count(*) FROM read_parquet('{directory / 'one.parquet'}')"
    with pytest.raises(duckdb.PermissionException):
        cursor_of(engine, "events").execute(other)
    engine.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what a process takes")
def test_opening_files_loads_none_of_their_rows(tmp_path: Path) -> None:
    place = tmp_path / "large.parquet"
    with duckdb.connect() as writer:
        rows = "SELECT i AS uid, hash(i)::VARCHAR AS k FROM range(10_000_000) r(i)"
        writer.execute(f"COPY ({rows}) TO '{place}'")
    script = (
        "import re, dpsql; from dpsql.engines.duckdb.engine import open_database; "
        f"e = open_database({str(place)!r}); e.prove(); e.open(['large']); "
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    # What getrusage says of a process may be what it had before it became another.
    assert int(subprocess.check_output([sys.executable, "-c", script])) << 10 < 300 << 20
    assert place.stat().st_size > 100 << 20
