"""No value in a file makes a statement over a Spark table fail: formats, moments, decimals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from spark_sessions import require

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # of pyspark's own
]
require()

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from spark_world import SparkWorld  # noqa: E402

import dpsql  # noqa: E402
from dpsql.core.schema import Column  # noqa: E402
from dpsql.core.sql import Sql  # noqa: E402
from dpsql.core.sql import name as quoted  # noqa: E402
from dpsql.core.sql import sql as template  # noqa: E402
from dpsql.engines.spark import schema as spark_schema  # noqa: E402
from dpsql.engines.spark.casts import spark_type  # noqa: E402
from dpsql.engines.spark.text import SPARK_TEXT  # noqa: E402

POLICY = """
version: 1
dataset: d
accounts: {ana: {epsilon: 1000, delta: 1e-2}}
tables: {visits: {privacy_unit: {name: person, column: uid}}}
"""
UNITS_THERE = 60
COLUMNS = "uid BIGINT, k TIMESTAMP_NTZ, z TIMESTAMP, d DATE, n DECIMAL(5,2)"
QUESTIONS = [
    "date_trunc('week', k) = TIMESTAMP '2020-01-01'",
    "date_trunc('year', z) = TIMESTAMP '2020-01-01'",
    "date_trunc('month', d) = DATE '2020-01-01'",
    "k + INTERVAL 1 DAY > TIMESTAMP '2020-01-01'",
    "d::TIMESTAMP > TIMESTAMP '2020-01-01'",
    "year(z) = 2020",
    "n + 1 > 5",
    "n * n > 5",
    "k IS NOT NULL",
    "z IS NOT NULL",
    "d IS NOT NULL",
    "n IS NOT NULL",
]
FAILING = [
    "date_trunc('month', k)",
    "k - INTERVAL 1000000 DAY",
    "CAST(d AS TIMESTAMP)",
    "n + 1",
]


@pytest.fixture(scope="module")
def world() -> Iterator[SparkWorld]:
    world = SparkWorld()
    yield world
    world.close()


@pytest.fixture
def session(world: SparkWorld) -> Iterator[Any]:
    """A session whose tables are gone afterwards."""
    world.session.sql("CREATE DATABASE stored")
    world.session.sql("USE stored")
    yield world.session
    world.session.sql("USE default")
    world.session.sql("DROP DATABASE stored CASCADE")


def decimals(values: list[int]) -> Any:
    """Unscaled integers as Arrow stores DECIMAL(5,2), whatever they are."""
    stored = b"".join(each.to_bytes(16, "little", signed=True) for each in values)
    return pa.Array.from_buffers(pa.decimal128(5, 2), len(values), [None, pa.py_buffer(stored)])


def rows(dirty: bool) -> Any:
    """Rows of which the last one has values that no text denotes, or usual ones."""
    far, days, wide = (5 - 2**63, -(2**31), 2**23 - 1) if dirty else (0, 0, 0)
    last = pa.array([0] * UNITS_THERE + [far], pa.int64())
    return pa.table(
        {
            "uid": range(UNITS_THERE + 1),
            "k": last.cast(pa.timestamp("us")),
            "z": last.cast(pa.timestamp("us", "UTC")),
            "d": pa.array([0] * UNITS_THERE + [days], pa.int32()).cast(pa.date32()),
            "n": decimals([0] * UNITS_THERE + [wide]),
        }
    )


def table_of(session: Any, data: Any, place: Path, columns: str = COLUMNS) -> None:
    """Make the table ``visits`` of a Parquet file that others have written."""
    place.mkdir(parents=True)
    pq.write_table(data, place / "part.parquet")
    session.sql(f"CREATE TABLE visits ({columns}) USING parquet LOCATION '{place}'")


# -- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "row"),
    [
        ("csv", "1" + "," * 21_000),
        ("csv OPTIONS (maxColumns 2)", "1,2,3"),
        ("csv OPTIONS (maxCharsPerColumn 3)", "12345"),
        ("csv OPTIONS (mode 'FAILFAST')", "x"),
        ("json OPTIONS (mode 'FAILFAST')", "x"),
        ("json OPTIONS (multiLine true)", "{"),
        ("text", ""),
        ("xml OPTIONS (rowTag 'r')", ""),
    ],
)
def test_a_format_whose_reader_can_fail_is_refused(
    session: Any, tmp_path: Path, made: str, row: str
) -> None:
    (tmp_path / "part").write_text(f"1\n{row}\n")
    session.sql(f"CREATE TABLE visits (value STRING) USING {made} LOCATION '{tmp_path}'")
    found = dpsql.SparkEngine(session).catalog().tables["visits"]
    assert found.columns == ()
    assert found.unreadable is not None
    assert found.unreadable.reason.startswith(f"is stored as {made.split()[0]}, ")
    policy = dpsql.parse_policy(POLICY)
    with pytest.raises(dpsql.PolicyError, match="is stored as"):
        dpsql.connect(session, policy, tmp_path / "l.db", "ana")


def test_a_table_that_is_of_another_format_now_is_not_the_same(
    session: Any, tmp_path: Path
) -> None:
    table_of(session, rows(False), tmp_path / "visits")
    (table,) = dpsql.SparkEngine(session).catalog().tables.values()
    assert spark_schema.is_same(session, table)
    session.sql("DROP TABLE visits")
    session.sql(f"CREATE TABLE visits ({COLUMNS}) USING json")
    assert not spark_schema.is_same(session, table)


def test_names_of_columns_are_not_taken_for_the_format(session: Any, tmp_path: Path) -> None:
    session.sql("CREATE TABLE good (u INT, Provider INT, `# Detailed` INT) USING orc")
    session.sql("CREATE TABLE bad (u INT, `Provider` INT COMMENT 'parquet') USING json")
    tables = dpsql.SparkEngine(session).catalog().tables
    assert tables["good"].unreadable is None
    assert tables["bad"].unreadable is not None


# -- values --------------------------------------------------------------------------------------


def failing(session: Any, place: Path) -> list[str]:
    """List what Spark fails on over a table as it is read."""
    (table,) = dpsql.SparkEngine(session).catalog().tables.values()
    read = spark_schema.read_as(table).render(SPARK_TEXT)
    found = []
    for each in FAILING:
        try:
            session.sql(f"SELECT count({each}) FROM ({read})").collect()
        except Exception:  # noqa: BLE001 - whatever Spark raises
            found.append(each)
    return found


def test_what_fails_on_values_as_they_are_stored_does_not_as_they_are_read(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_of(session, rows(True), tmp_path / "visits")
    assert failing(session, tmp_path) == []

    def as_stored(column: Column) -> Sql:
        spelled, own = spark_type(column.type), quoted(column.name)
        return template("CAST({} AS {}) AS {}", own, spelled, own)

    monkeypatch.setattr(spark_schema, "_read", as_stored)
    assert failing(session, tmp_path) == FAILING


@pytest.mark.usefixtures("no_noise")
def test_no_stored_value_makes_a_statement_fail(session: Any, tmp_path: Path) -> None:
    told = []
    policy = dpsql.parse_policy(POLICY)
    for dirty in (False, True):
        place = tmp_path / str(dirty)
        table_of(session, rows(dirty), place / "visits")
        with dpsql.connect(session, policy, place / "l.db", "ana") as con:
            found = [
                con.sql(f"SELECT COUNT(*) FROM visits WHERE {q}", epsilon=5).fetchall()[0][0]
                for q in QUESTIONS
            ]
        session.sql("DROP TABLE visits")
        told.append(found)
    assert told == [[0] * 8 + [UNITS_THERE + 1] * 4, [0] * 8 + [UNITS_THERE] * 4]


@pytest.mark.parametrize("dirty", [False, True])
def test_check_reads_tables_whole(session: Any, tmp_path: Path, dirty: bool) -> None:
    """Milliseconds that are no moment of Spark's are what its reader itself fails on."""
    data = pa.table(
        {
            "uid": range(2),
            "k": pa.array([0, 2**62 if dirty else 0]).cast(pa.timestamp("ms")),
        }
    )
    table_of(session, data, tmp_path / "visits", "uid BIGINT, k TIMESTAMP_NTZ")
    engine = dpsql.SparkEngine(session)
    assert engine.prove(["visits"]) == (("visits",) if dirty else ())


@pytest.mark.parametrize(
    "stored",
    [pa.array([1], pa.timestamp("ns")), pa.array([1], pa.uint64()), pa.array(["a"])],
    ids=["nanoseconds", "unsigned", "text"],
)
def test_check_finds_files_that_store_a_column_as_another_type(
    session: Any, tmp_path: Path, stored: Any
) -> None:
    """The first file is the table's type, and what opening reads."""
    place = tmp_path / "visits"
    data = pa.table({"uid": range(2), "k": pa.array([0, 0]).cast(pa.timestamp("us"))})
    table_of(session, data, place, "uid BIGINT, k TIMESTAMP_NTZ")
    pq.write_table(pa.table({"uid": [7], "k": stored}), place / "part-2.parquet")
    assert dpsql.SparkEngine(session).prove(["visits"]) == ("visits",)


def test_settings_under_which_old_dates_fail_are_refused(session: Any) -> None:
    name = "spark.sql.parquet.datetimeRebaseModeInRead"
    before = session.conf.get(name)
    session.conf.set(name, "EXCEPTION")
    try:
        with pytest.raises(dpsql.InterfaceError, match=name):
            dpsql.SparkEngine(session)
    finally:
        session.conf.set(name, before)


# -- which rows are read -------------------------------------------------------------------------


BOTH_HOLD = [
    "zero = 0",
    "zero IN (0, 7)",
    "nan > 100",
    "NOT (nan <= 100)",
    "isnan(nan) OR nan = 200",
]
"""Conditions that hold for -0.0 as for 0.0, and for NaN as for 200."""
FEW_VALUES = ([5.0, 6.0], [5.0, 6.0])
MANY_VALUES = ([-0.0] * UNITS_THERE, [float("nan")] * UNITS_THERE)
ONE_VALUE = ([0.0], [200.0])


def counted(session: Any, place: Path, parts: list[Any], kind: str) -> list[int]:
    """Count units by conditions over a Parquet file, or over what the owner has cached of it."""
    zero, nan = ([*chain(*values)] for values in zip(*parts, strict=True))
    stored = pa.float32() if kind == "float" else pa.float64()
    columns = {"zero": pa.array(zero, stored), "nan": pa.array(nan, stored)}
    spelled = "FLOAT" if kind == "float" else "DOUBLE"
    data = pa.table({"uid": range(len(zero)), **columns})
    table_of(session, data, place / "visits", f"uid BIGINT, zero {spelled}, nan {spelled}")
    if kind == "cached":
        session.sql("CACHE TABLE visits")
    try:
        with dpsql.connect(session, dpsql.parse_policy(POLICY), place / "l.db", "ana") as con:
            asked = (f"SELECT COUNT(*) FROM visits WHERE {each}" for each in BOTH_HOLD)
            return [con.sql(each, epsilon=5).fetchall()[0][0] for each in asked]
    finally:
        session.sql("UNCACHE TABLE IF EXISTS visits")
        session.sql("DROP TABLE visits")


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("kind", ["double", "float", "cached"])
def test_a_row_decides_of_no_other_whether_it_is_read(
    session: Any, tmp_path: Path, kind: str
) -> None:
    """By statistics and dictionaries Spark passes over NaN and -0.0, but beside a row of others."""
    without = counted(session, tmp_path / "without", [FEW_VALUES, MANY_VALUES], kind)
    with_one = counted(session, tmp_path / "with", [FEW_VALUES, MANY_VALUES, ONE_VALUE], kind)
    assert without == [UNITS_THERE] * len(BOTH_HOLD)
    assert with_one == [UNITS_THERE + 1] * len(BOTH_HOLD)


def test_a_double_is_read_so_that_no_format_has_statistics_of_it(
    session: Any, tmp_path: Path
) -> None:
    """Settings are of Parquet and ORC: other formats get what conditions say of columns."""
    columns = "uid BIGINT, v DOUBLE, f FLOAT"
    data = pa.table({"uid": [1], "v": [1.5], "f": pa.array([1.5], pa.float32())})
    table_of(session, data, tmp_path / "visits", columns)
    (table,) = dpsql.SparkEngine(session).catalog().tables.values()
    read = spark_schema.read_as(table).render(SPARK_TEXT)
    told = session.newSession()
    told.sql("USE stored")
    plan = told.sql(f"SELECT uid FROM ({read}) WHERE v > 1 AND f > 1 AND uid > 0")._jdf
    shown = plan.queryExecution().executedPlan().toString()
    pushed = shown.split("PushedFilters: [")[1].split("]")[0]
    assert "GreaterThan(uid,0)" in pushed
    assert "GreaterThan(v" not in pushed
    assert "GreaterThan(f" not in pushed


@pytest.mark.usefixtures("no_noise")
def test_rows_of_a_unit_are_one_units_in_whichever_bucket_they_lie(
    session: Any, tmp_path: Path
) -> None:
    session.sql(
        "CREATE TABLE visits (uid BIGINT, k STRING) USING parquet CLUSTERED BY (uid) INTO 2 BUCKETS"
    )
    session.sql(f"INSERT INTO visits SELECT /*+ COALESCE(1) */ id, 'a' FROM range({UNITS_THERE})")
    details = session.sql("DESCRIBE TABLE EXTENDED visits").collect()
    (place,) = (Path(row[1].removeprefix("file:")) for row in details if row[0] == "Location")
    swapped = {"_00000.": "_00001.", "_00001.": "_00000."}
    for file in list(place.glob("*.parquet")):  # each bucket's file is that of the other, too
        (bucket,) = (each for each in swapped if each in file.name)
        copy = place / f"copy-{file.name.replace(bucket, swapped[bucket])}"
        copy.write_bytes(file.read_bytes())
    session.catalog.refreshTable("visits")
    with dpsql.connect(session, dpsql.parse_policy(POLICY), tmp_path / "l.db", "ana") as con:
        found = con.sql("SELECT COUNT(*) FROM visits", max_rows_contributed=1, epsilon=5)
        assert found.fetchall() == [(UNITS_THERE,)]
        found = con.sql("SELECT COUNT(*) FROM visits", max_rows_contributed=9, epsilon=5)
        assert found.fetchall() == [(2 * UNITS_THERE,)]


# -- long texts ----------------------------------------------------------------------------------

LONG_TEXT = 2**20
HELD = [
    "s = ' a '",
    "trim(s) || 'b' = 'ab'",
    "s || s || s || s = ' a  a  a  a '",
    "s || (s || s) = ' a  a  a '",
    "concat(s, NULL, s) = ' a  a '",
    "replace(s, 'x', 'yyyy') = ' a '",
    "replace(s, ' a ', '') = ''",
    "regexp_replace(s, 'x', 'yyyy', 'g') = ' a '",
    "upper(lower(s)) = ' A '",
    "split_part(s, 'a', 1) = ' '",
    "md5(s || s) = md5(' a  a ')",
]
"""Conditions that hold for a short text, and for none that is long."""
LONG_ONES = ["s IS NULL", "s || s || s || s IS NULL", "replace(s, 'x', 'yyyy') IS NULL"]


@pytest.mark.usefixtures("no_noise")
def test_a_long_text_is_null_as_it_is_read_and_as_it_is_computed(
    session: Any, tmp_path: Path
) -> None:
    texts = [" a "] * UNITS_THERE + ["x" * LONG_TEXT, "x" * (LONG_TEXT // 2 - 1)]
    table_of(
        session,
        pa.table({"uid": range(len(texts)), "s": texts}),
        tmp_path / "t",
        "uid BIGINT, s STRING",
    )
    with dpsql.connect(session, dpsql.parse_policy(POLICY), tmp_path / "l.db", "ana") as con:

        def count(condition: str) -> int:
            asked = con.sql(f"SELECT COUNT(*) FROM visits WHERE {condition}", epsilon=5)
            return int(asked.fetchall()[0][0])

        assert [count(each) for each in HELD] == [UNITS_THERE] * len(HELD)
        assert [count(each) for each in LONG_ONES] == [1, 2, 2]
        joined = " || ".join(["s"] * 16)
        assert count(f"{joined} = '{' a ' * 16}'") == UNITS_THERE
        keys = con.sql("SELECT s || 'b' AS k, COUNT(*) AS n FROM visits GROUP BY k", epsilon=5)
        assert (" a b", UNITS_THERE) in keys.fetchall()
