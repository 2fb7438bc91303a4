"""Rows that DuckDB streams to NumPy: the same answers, limits, failures and files as in SQL."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.support import ANALYST, policy, world_file
from helpers.unchecked_runs import sent_inside
from helpers.zero_noise import silence

import dpsql
from dpsql.bounding import maker, pairs, partitions
from dpsql.bounding.left_out import LeftOutSums
from dpsql.bounding.pairs import Int64s
from dpsql.core.sql import sql
from dpsql.engines.duckdb import streaming
from dpsql.engines.duckdb.spill import Spill
from dpsql.engines.duckdb.streaming import StreamMemory
from dpsql.engines.embedded.running import execute
from dpsql.policy.limits import BoundingLimit, Limits

ROWS = """INSERT INTO visits SELECT i % 5000, i % 11, 's' || i % 7, i % 30 - 8, i % 1200,
    i % 23 - 5.5, i, i % 90 + 0.25, NULL, NULL, NULL,
    ['red', 'green', 'blue', 'other', NULL][i % 5 + 1], i % 13 FROM range(300_000) t(i)"""
SUM = "SELECT k, SUM(n) AS t FROM visits GROUP BY k"
QUESTIONS = (
    SUM,
    "SELECT c, SUM(x), AVG(x), VAR_POP(x), COUNT(*), COUNT(n) FROM visits GROUP BY c",
    "SELECT s, k, AVG(n), COUNT(*) FROM visits WHERE amount > 3 GROUP BY s, k",
    "SELECT SUM(amount), STDDEV(amount) FROM visits",
    "SELECT c, s, SUM(big) FROM visits GROUP BY c, s",
)
EVERYTHING: dict[str, Any] = {"max_groups_contributed": 1000, "max_rows_contributed": 7}
Opened = Callable[..., dpsql.Connection]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Connections to one world and one ledger, with the limits they are given, NumPy allowed."""
    with world_file(tmp_path / "world.duckdb", ROWS) as path:
        pass

    def open_one(**limits: Any) -> dpsql.Connection:
        rules = replace(policy(), limits=Limits(**{"bounding": BoundingLimit.ANY} | limits))
        return dpsql.connect(path, rules, tmp_path / "budget.db", ANALYST)

    return open_one


def made_by(con: dpsql.Connection, asked: str, **parameters: Any) -> str:
    return con.explain(asked, **parameters).blocks[0].maker


@pytest.mark.slow
@pytest.mark.parametrize("asked", QUESTIONS)
def test_both_makers_answer_the_same(
    asked: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence(monkeypatch)
    with opened(bounding=BoundingLimit.SQL) as con:
        assert made_by(con, asked).startswith("SQL: limits.bounding")
        by_sql = con.sql(asked, fresh=True, **EVERYTHING).fetchall()
    with opened() as con:
        assert made_by(con, asked).startswith("NumPy")
        assert sorted(con.sql(asked, fresh=True, **EVERYTHING).fetchall(), key=str) == sorted(
            by_sql, key=str
        )


LOOKS = (
    "SELECT k, SUM(amount) AS t FROM visits GROUP BY k",
    "SELECT c, COUNT(*) AS n, COUNT(DISTINCT uid) AS u FROM visits GROUP BY c",
    "SELECT COUNT(*) AS n, SUM(amount) AS t FROM visits",
)


@pytest.mark.slow
@pytest.mark.parametrize("asked", LOOKS)
def test_both_makers_look_at_the_same_that_is_left_out(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence(monkeypatch)
    looked: list[object] = []
    real = LeftOutSums.add

    def noted(self: LeftOutSums, units: Int64s) -> None:
        looked.append(self)
        real(self, units)

    monkeypatch.setattr(LeftOutSums, "add", noted)
    bounds: dict[str, Any] = {"max_groups_contributed": 2, "max_rows_contributed": 2}
    with world_file(tmp_path / "world.duckdb", ROWS) as path:
        pass
    found = []
    for bounding in (BoundingLimit.SQL, BoundingLimit.ANY):
        rules = replace(policy(), limits=Limits(bounding=bounding))
        assert not looked
        # A ledger each: what is known is not looked at again.
        with dpsql.connect(path, rules, tmp_path / f"{bounding}.db", ANALYST) as con:
            found.append(con.sql(asked, left_out_share=0.1, **bounds).left_out)
    assert found[0] == found[1]
    assert any(part.told for part in found[0])
    assert looked


@pytest.mark.slow
def test_the_maker_is_no_part_of_the_question(opened: Opened) -> None:
    with opened(bounding=BoundingLimit.SQL) as con:
        known = con.sql(SUM).fetchall()
    with opened() as con:
        assert con.sql(SUM).fetchall() == known
        assert con.explain(SUM).answered is not None


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k",
        "SELECT k, COUNT(DISTINCT s), SUM(n) FROM visits GROUP BY k",
        "SELECT k, MEDIAN(n), COUNT(DISTINCT s) FROM visits GROUP BY k",
        "SELECT COUNT(*) FROM mails",  # texts are numbered where keys are found
    ],
)
def test_what_stays_in_sql(asked: str, opened: Opened) -> None:
    with opened() as con:
        assert not made_by(con, asked).startswith("NumPy")


def test_weighted_units_stay_in_sql(opened: Opened) -> None:
    with opened() as con:
        weighted: dict[str, Any] = {"contribution_bounding": "weight", "max_groups_contributed": 2}
        assert not made_by(con, SUM, **weighted).startswith("NumPy")


@pytest.mark.slow
def test_without_pyarrow_sql_bounds(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.engines.duckdb.dialect.installed", lambda module: False)
    with opened() as con:
        assert "pyarrow is not installed" in made_by(con, SUM)
        assert con.sql(SUM).fetchall()


# -- failures -------------------------------------------------------------------------------


def failed(con: dpsql.Connection) -> dpsql.EngineError:
    with pytest.raises(dpsql.EngineError) as caught:
        con.sql(SUM)
    error = caught.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert "4711" not in str(error)
    assert "stays spent" in str(error.hint)
    return error


def suspended(con: dpsql.Connection) -> bool:
    try:
        con.sql("SELECT s, COUNT(*) FROM visits GROUP BY s")
    except dpsql.LedgerError as error:
        return error.code == "account_suspended"
    return False


@pytest.mark.parametrize(
    "breaks",
    [
        "SELECT * FROM ({0}) WHERE error('row 4711') IS NULL",
        # Once some of the rows are there.
        "SELECT * FROM ({0}) WHERE CASE WHEN random() < 1e-4 THEN error('row 4711') END IS NULL",
    ],
)
def test_a_stream_that_breaks_is_a_failure(
    breaks: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened() as con:
        with monkeypatch.context() as patch:
            sent_inside(patch, lambda: breaks)
            assert failed(con).code == "engine_failed"
        assert suspended(con)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError("row 4711"), "memory_limit"),
        (OSError(28, "row 4711"), "engine_failed"),
        (RuntimeError("row 4711"), "engine_failed"),
        (IndexError("row 4711"), "engine_failed"),
    ],
)
def test_errors_while_rows_are_put_together_are_failures(
    error: Exception, code: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    with opened() as con:
        with monkeypatch.context() as patch:
            patch.setattr(maker, "pairs_of_rows", fail)
            assert failed(con).code == code
        assert suspended(con)


def slow(real: Callable[..., Any]) -> Callable[..., Any]:
    def slowly(*given: Any) -> Any:
        time.sleep(0.1)
        return real(*given)

    return slowly


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of steps after the engine is done, each of a tenth of a second."""
    monkeypatch.setattr(partitions, "_TOGETHER", 1)
    monkeypatch.setattr(maker, "pairs_of_rows", slow(pairs.pairs_of_rows))


@pytest.mark.slow
def test_the_limit_of_time_holds_outside_of_the_engine(opened: Opened, slowly: None) -> None:
    with opened(seconds=1) as con:
        started = time.monotonic()
        assert failed(con).code == "time_limit"
        assert time.monotonic() - started < 10


@pytest.mark.slow
def test_interrupts_reach_work_outside_of_the_engine(
    opened: Opened, slowly: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()

    def noted(*given: Any) -> Any:
        begun.set()
        return slow(pairs.pairs_of_rows)(*given)

    monkeypatch.setattr(maker, "pairs_of_rows", noted)
    with opened() as con:

        def interrupting() -> None:
            begun.wait(60)  # before that nothing is paid for
            while not over.wait(0.1):
                con.interrupt()

        thread = threading.Thread(target=interrupting)
        thread.start()
        try:
            started = time.monotonic()
            assert failed(con).code == "interrupted"
            assert time.monotonic() - started < 10
        finally:
            over.set()
            thread.join()
        assert not suspended(con)


# -- memory ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_beyond_the_share_lies_in_a_file_without_a_name(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence(monkeypatch)
    with opened() as con:
        whole = con.sql(SUM, fresh=True, **EVERYTHING).fetchall()
    real, seen = Spill.file, []

    def noted(self: Spill) -> Any:
        file = real(self)
        found = os.fstat(file.fileno())
        seen.append((stat.S_IMODE(found.st_mode), found.st_nlink))
        return file

    monkeypatch.setattr(Spill, "file", noted)
    monkeypatch.setattr(streaming, "_LEAST", 1 << 20)
    monkeypatch.setattr(partitions, "_SORTED_AT", 1 << 15)
    with opened(memory="64MB") as con:
        monkeypatch.setattr(StreamMemory, "share", property(lambda self: 1 << 20))
        assert con.sql(SUM, fresh=True, **EVERYTHING).fetchall() == whole
    assert seen == [(0o600, 0)]


@pytest.mark.slow
def test_squares_beyond_64_bits_are_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silence(monkeypatch)
    with duckdb.connect(str(tmp_path / "far.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE far AS SELECT range // 7 AS uid, "
            "CASE WHEN range % 2 = 0 THEN 1e6 ELSE -1e6 END AS v FROM range(7000)"
        )
    found = []
    for bounding in ("sql", "any"):
        rules = dpsql.parse_policy(f"""
version: 1
dataset: far
limits: {{bounding: {bounding}}}
defaults: {{epsilon: 1, delta: 1e-9, left_out_share: 0, max_rows_contributed: 7}}
accounts: {{{ANALYST}: {{epsilon: 100, delta: 1e-3}}}}
tables:
  far:
    privacy_unit: {{name: unit, column: uid}}
    columns: {{v: {{lower: -1000000, upper: 1000000}}}}
""")
        place = tmp_path / f"{bounding}.db"
        with dpsql.connect(tmp_path / "far.duckdb", rules, place, ANALYST) as con:
            found.append(con.sql("SELECT VAR_POP(v) AS v FROM far")["v"][0])
    assert found[0] == found[1] == pytest.approx(1e12, rel=1e-3)


def test_what_is_streamed_takes_a_part_of_the_memory_beside() -> None:
    engine = dpsql.DuckDBEngine()
    engine.register("visits", {"uid": np.arange(3)})
    try:
        opened = engine.open(engine.catalog().tables, "800MB")
        setting = sql("SELECT current_setting('memory_limit')")
        (text,) = execute(engine._connection.cursor(), setting).fetchall()[0]
        share = opened._streaming.memory.share
        assert float(text.split()[0]) * 2**20 == pytest.approx(800e6, rel=0.01)
        assert share == pytest.approx(100e6, rel=0.01)
    finally:
        engine.close()


def test_streams_divide_the_memory() -> None:
    memory = StreamMemory(1 << 30)
    memory.begin()
    assert memory.share == 1 << 30
    memory.begin()
    assert memory.share == 1 << 29
    memory.end()
    assert memory.share == 1 << 30


def test_files_that_are_cut_short_are_no_rows() -> None:
    spill = Spill()
    try:
        rows = partitions.Partitions(np.uint64(7), 32, lambda: 0, spill.file)
        rows.add(np.arange(100, dtype=np.int64), [np.arange(100, dtype=np.uint64)])
        (part,) = rows.together()
        file = rows._places.file._file
        assert file is not None
        file.truncate(8)
        with pytest.raises(OSError, match="shorter"):
            list(part.chunks())
        rows.close()
    finally:
        spill.remove()
