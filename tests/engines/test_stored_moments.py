"""No stored value makes a statement fail: moments without a text, decimals with more digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from helpers.sql_text import generated, text

import dpsql
from dpsql.core.sql import Sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.embedded.lockdown import lock_down
from dpsql.engines.embedded.plans import read_plan
from dpsql.engines.evidence.edges import EDGES, TEMPORAL_RANGES, edge_sql, within
from dpsql.engines.evidence.evidence import Evidence, evidence_for
from dpsql.interfaces.cli import cli
from dpsql.survey import totality

arrow = pytest.importorskip("pyarrow")

WIDE = [-(2**63), -(2**63) + 1, 5 - 2**63, -(2**62), -(2**53), -172_800_000_002, -1, 0, 1]
WIDE += [86_400_000_001, 10**13, 17 * 10**14, 2**53, 2**62, 2**63 - 2]
UNITS = {"TIMESTAMP_S": "s", "TIMESTAMP_MS": "ms", "TIMESTAMP": "us", "TIMESTAMP_NS": "ns"}


def exceeds(type_: SqlType) -> bool:
    """Tell whether there are stored values of a type that are none of it, for these tests."""
    return type_.kind in TEMPORAL_RANGES or type_.kind == "DECIMAL"


def decimals(type_: SqlType, values: list[int]) -> Any:
    """Integers as Arrow stores decimals, whatever their digits are."""
    width, scale = type_.digits
    stored = b"".join(each.to_bytes(16, "little", signed=True) for each in values)
    buffers = [None, arrow.py_buffer(stored)]
    return arrow.Array.from_buffers(arrow.decimal128(width, scale), len(values), buffers)


def stored(whole: SqlType) -> Any:
    """Integers as Arrow stores values of a type, whatever they are."""
    type_ = whole.kind
    if type_ == "DECIMAL":
        digits = whole.digits[0]
        size = next(
            bits for bits, most in ((16, 4), (32, 9), (64, 18), (128, 38)) if digits <= most
        )
        ends = [-(2 ** (size - 1)), 1 - 2 ** (size - 1), 2 ** (size - 1) - 1, -(2 ** (size - 2))]
        return decimals(whole, [*ends, 10**digits, -(10**digits), 10**digits - 1, 0, 1, -1])
    if type_ == "DATE":
        ends = [-(2**31), -(2**31) + 1, 2**31 - 2, 2**31 - 1, 0, 3 * 10**8]
        return arrow.array(ends, arrow.int32()).cast(arrow.date32())
    numbers = arrow.array(WIDE, arrow.int64())
    if type_ in ("TIME", "TIME_NS"):
        return numbers.cast(arrow.time64("us" if type_ == "TIME" else "ns"))
    if type_ == "TIMESTAMP WITH TIME ZONE":
        return numbers.cast(arrow.timestamp("us", "UTC"))
    return numbers.cast(arrow.timestamp(UNITS[type_]))


# -- what the survey says holds of all that is stored -------------------------------------------

Read = Callable[[Sql, SqlType], Sql]


def tables(types: tuple[SqlType, ...], read: Read) -> duckdb.DuckDBPyConnection:
    """A database with a view of stored moments and other edges, as columns a0, a1, …"""
    connection = duckdb.connect(config={"threads": "1"})
    connection.execute("SET enable_progress_bar = false")
    for place, type_ in enumerate(types):
        if exceeds(type_):
            data = arrow.table({"v": stored(type_)})  # noqa: F841  # DuckDB finds it by its name
            connection.execute(f"CREATE TABLE x{place} AS SELECT v FROM data")
        else:
            values = ", ".join(f"({text(edge_sql(each, type_))})" for each in EDGES[type_][:6])
            connection.execute(f"CREATE TABLE x{place} AS SELECT v FROM (VALUES {values}) s(v)")
    names = [f"x{place}.v" for place in range(len(types))]
    made = ", ".join(f"{name} AS a{place}" for place, name in enumerate(names))
    sources = ", ".join(f"x{place}" for place in range(len(types)))
    connection.execute(f"CREATE TABLE stored AS SELECT {made} FROM {sources}")
    columns = (
        f"{text(read(generated(f'`a{i}`'), t)) if exceeds(t) else f'a{i}'} AS a{i}"
        for i, t in enumerate(types)
    )
    connection.execute(f"CREATE VIEW edges AS SELECT {', '.join(columns)} FROM stored")
    lock_down(connection)  # for its settings
    return connection


def failing(read: Read, most: int, evidence: Evidence) -> tuple[int, list[str]]:
    """Compute each call of such types that evidence allows; returns how many, and which fail."""
    known = [f for f in totality._forms() if all(t in EDGES or exceeds(t) for t in f.types)]
    forms = [form for form in known if any(map(exceeds, form.types))]
    forms.sort(key=lambda form: list(map(str, form.types)))
    tried, failed = 0, []
    types: tuple[SqlType, ...] = ()
    connection: duckdb.DuckDBPyConnection | None = None
    for form in forms[:: max(1, len(forms) // most)]:
        call = text(form.over_columns())
        for asked in (call, f"TRY({call})"):
            if connection is None or form.types != types:
                connection, types = tables(form.types, read), form.types
            serialized = "SELECT json_serialize_plan(?)"
            (plan,) = connection.execute(serialized, [f"SELECT {asked} FROM edges"]).fetchone() or (
                "",
            )
            found = read_plan(plan)
            if found["error"] or evidence.objection(found) is not None:
                continue
            tried += 1
            try:
                connection.execute(f"SELECT hash({asked}) FROM edges")
            except (duckdb.Error, UnicodeDecodeError):
                failed.append(asked)
                connection = None  # an internal error ends a database
    return tried, failed


def as_stored(value: Sql, type_: SqlType) -> Sql:
    """Read a value as it is stored, as the owner's views do."""
    return value


OF_ITS_TYPE = evidence_for(duckdb.__version__)
OF_STORAGE = replace(OF_ITS_TYPE, as_stored=True)


@pytest.mark.slow
def test_what_is_total_is_so_on_all_that_can_be_stored() -> None:
    tried, failed = failing(within, 10**6, OF_ITS_TYPE)
    assert failed == []
    assert tried > 1000


@pytest.mark.slow
def test_some_of_what_is_total_is_so_on_all_that_can_be_stored() -> None:
    tried, failed = failing(within, 60, OF_ITS_TYPE)
    assert failed == []
    assert tried > 40


@pytest.mark.slow
def test_what_views_may_compute_fails_on_nothing_that_can_be_stored() -> None:
    tried, failed = failing(as_stored, 10**6, OF_STORAGE)
    assert failed == []
    assert tried > 1000


@pytest.mark.slow
def test_columns_that_are_read_as_they_are_stored_are_noticed() -> None:
    _, failed = failing(as_stored, 10**6, OF_ITS_TYPE)
    assert len(failed) > 50
    assert any("DECIMAL" in call or "DOUBLE" in call for call in failed)


# -- from every kind of source ------------------------------------------------------------------

POLICY = """
version: 1
dataset: d
defaults: {max_rows_contributed: 10}
accounts: {ana: {epsilon: 1000, delta: 1e-2}}
tables: {visits: {privacy_unit: {name: person, column: uid}}}
"""
UNITS_THERE = 60
QUESTIONS = [
    "CAST(n AS VARCHAR) = 'x'",
    "CAST(n AS DOUBLE) = 0.5",
    "CAST(k AS VARCHAR) = 'x'",
    "CAST(t AS VARCHAR) = 'x'",
    "date_trunc('week', d) = DATE '2020-01-01'",
    "date_trunc('week', k) = DATE '2020-01-01'",
    "k IS NOT NULL",
    "t IS NOT NULL",
    "d IS NOT NULL",
    "n IS NOT NULL",
]


def rows(dirty: bool, unit: str) -> Any:
    """Rows of which the last one has values that are none of their types, or usual ones."""
    far, days, most = (5 - 2**63, -(2**31), -(2**127)) if dirty else (0, 0, 0)
    last = arrow.array([0] * UNITS_THERE + [far], arrow.int64())
    return arrow.table(
        {
            "uid": range(UNITS_THERE + 1),
            "k": last.cast(arrow.timestamp(unit)),
            "t": last.cast(arrow.time64("us")),
            "d": arrow.array([0] * UNITS_THERE + [days], arrow.int32()).cast(arrow.date32()),
            "n": decimals(SqlType.decimal(38, 38), [0] * UNITS_THERE + [most]),
            "nested": arrow.array([[0]] * UNITS_THERE + [[far]]).cast(
                arrow.list_(arrow.timestamp(unit))
            ),
        }
    )


def of_file(data: Any, place: Path) -> Any:
    with duckdb.connect(str(place / "w.duckdb")) as owner:
        owner.execute("CREATE TABLE visits AS SELECT * FROM data")
    return str(place / "w.duckdb")


def of_view(data: Any, place: Path) -> Any:
    with duckdb.connect(str(place / "w.duckdb")) as owner:
        owner.execute("CREATE TABLE kept AS SELECT * FROM data")
        owner.execute("CREATE VIEW visits AS SELECT * FROM kept")
    return str(place / "w.duckdb")


def of_memory(data: Any, place: Path) -> Any:
    engine = dpsql.DuckDBEngine()
    engine.register("visits", data.drop(["nested"]))
    return engine


def of_parquet(data: Any, place: Path) -> Any:
    # A time beyond a day makes the file one that cannot be read, which check says.
    data = data.set_column(2, "t", arrow.array([0] * len(data)).cast(arrow.time64("us")))
    pytest.importorskip("pyarrow.parquet").write_table(data, place / "visits.parquet")
    engine = dpsql.DuckDBEngine(files={"visits": place / "visits.parquet"})
    assert engine.prove(["visits"]) == ()
    return engine


SOURCES = {"file": of_file, "view": of_view, "memory": of_memory, "Parquet": of_parquet}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> Any:
    """What makes data readable in one way."""
    return SOURCES[request.param]


@pytest.mark.slow
@pytest.mark.few(6)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.usefixtures("no_noise")
def test_no_stored_moment_makes_a_statement_fail(
    unit: str, source: Callable[[Any, Path], Any], tmp_path: Path
) -> None:
    if unit in ("s", "ms") and source is of_parquet:
        pytest.skip("Parquet has no seconds, and milliseconds that are no TIMESTAMP are an error")
    told = []
    for dirty in (False, True):
        place = tmp_path / str(dirty)
        place.mkdir()
        policy = dpsql.parse_policy(POLICY)
        with dpsql.connect(source(rows(dirty, unit), place), policy, place / "l.db", "ana") as con:
            found = [
                con.sql(
                    f"SELECT COUNT(*) FROM visits WHERE CASE WHEN uid >= 0 THEN {q} END",
                    epsilon=5,
                ).fetchall()[0][0]
                for q in QUESTIONS
            ]
        told.append(found)
    clean, other = told
    assert clean == [0] * 6 + [UNITS_THERE + 1] * 4
    k, t, d, n = (UNITS_THERE,) * 4  # what is none of its type is NULL
    assert other == [0] * 6 + [k, t + (source is of_parquet), d, n]


def test_parts_of_nested_values_that_are_moments_have_no_text(tmp_path: Path) -> None:
    place = of_file(rows(True, "s"), tmp_path)
    asked = "SELECT COUNT(*) FROM visits WHERE CAST(nested AS VARCHAR) = 'x'"
    with dpsql.connect(place, dpsql.parse_policy(POLICY), tmp_path / "l.db", "ana") as con:
        before = con.budget()
        with pytest.raises(dpsql.QueryRefused) as caught:
            con.sql(asked)
        assert (caught.value.code, con.budget()) == ("can_fail", before)


def test_the_owner_is_told_of_moments_without_a_text(tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICY)
    place = of_file(rows(True, "s"), tmp_path)
    done = CliRunner().invoke(cli, ["check", "-d", place, "-p", str(policies)])
    told = " ".join(done.output.split())
    assert "beyond those that have a text" in told
    assert "more digits than DECIMAL(38,38)" in told


VIEWS = [
    "date_trunc('day', k)",
    "date_trunc('week', k)",
    "strftime(k, '%Y')",
    "CAST(k AS VARCHAR)",
    "TRY_CAST(k AS VARCHAR)",
    "CAST(n AS VARCHAR)",
    "CAST(n AS DOUBLE)",
    "-n",
]


@pytest.mark.parametrize("computed", VIEWS)
def test_a_view_that_fails_on_a_stored_value_is_refused(computed: str, tmp_path: Path) -> None:
    place = of_file(rows(True, "us"), tmp_path)
    with duckdb.connect(place) as owner:
        owner.execute("ALTER TABLE visits RENAME TO kept")
        owner.execute(f"CREATE VIEW visits AS SELECT uid, {computed} AS c FROM kept")
    with pytest.raises(dpsql.PolicyError) as refusal:
        dpsql.connect(place, dpsql.parse_policy(POLICY), tmp_path / "l.db", "ana")
    assert "can fail on a row" in str(refusal.value)
    assert "hand on the column" in str(refusal.value.hint)


@pytest.mark.parametrize(
    "computed",
    ["TRY(date_trunc('day', k))", "CAST(k AS DATE)", "year(k)", "k > TIMESTAMP '2024-01-01'"],
)
def test_a_view_that_fails_on_none_is_read(computed: str, tmp_path: Path) -> None:
    place = of_file(rows(True, "us"), tmp_path)
    with duckdb.connect(place) as owner:
        owner.execute("ALTER TABLE visits RENAME TO kept")
        owner.execute(f"CREATE VIEW visits AS SELECT uid, {computed} AS c FROM kept")
    with dpsql.connect(place, dpsql.parse_policy(POLICY), tmp_path / "l.db", "ana") as con:
        con.sql("SELECT COUNT(*) FROM visits WHERE c IS NOT NULL", epsilon=5)


def test_conditions_on_clean_moments_narrow_down_what_is_read(tmp_path: Path) -> None:
    """The view of a table without others has the column as it is stored."""
    for dirty in (False, True):
        engine = of_memory(rows(dirty, "us").drop(["t"]), tmp_path)
        opened = engine.open(["visits"])
        asked = "EXPLAIN SELECT uid FROM visits WHERE d > DATE '2024-01-01'"
        plan = opened._cursor().execute(asked).fetchall()[0][1]
        assert ("CASE" in plan) == dirty
        engine.close()
