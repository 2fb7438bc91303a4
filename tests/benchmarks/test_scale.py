"""The bench of growth: its data, what its processes say, and the page that it writes."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest
from helpers.scripts import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return script("benchmarks/scale.py")


def test_the_data_are_the_same_each_time_and_of_their_shape(
    bench: ModuleType, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        bench.generate(tmp_path / f"{name}.parquet", 20_000)
    rows = f"SELECT * FROM '{tmp_path}/a.parquet'"
    reader = duckdb.connect()
    same = f"{rows} EXCEPT ALL SELECT * FROM '{tmp_path}/b.parquet'"
    assert reader.execute(same).fetchall() == []
    ((number, units, low, high, relation),) = reader.execute(
        "SELECT count(*), count(DISTINCT user_id), min(user_id), max(user_id), "
        f"corr(user_id, item[5:]::INTEGER) FROM ({rows})"
    ).fetchall()
    assert number == 20_000
    assert 1_800 < units <= 2_000
    assert 0 <= low < high < 2_000
    assert abs(relation) < 0.05  # a unit's number says nothing of its items
    counts = f"SELECT count(*) AS n FROM ({rows}) GROUP BY item ORDER BY n DESC LIMIT 2"
    (first,), (second,) = reader.execute(counts).fetchall()
    assert 1.2 < first / second < 2.5  # as the power 1 has it, drawn on a continuous scale


def told(cpu: float, failed: str | None = None) -> dict[str, Any]:
    return {"cpu": cpu, "wall": cpu, "memory": 2 * 10**8, "spilled": 3 * 10**6, "failed": failed}


def test_the_page_has_what_was_measured(bench: ModuleType) -> None:
    questions = [
        {"question": "units", "plain": told(2.0), "dpsql": told(3.0), "ratio": 1.5},
        {"question": "rows", "plain": told(2.0), "dpsql": told(3.0, "EngineError: x"), "ratio": 1},
    ]
    sizes = {
        "7": {
            "rows": 7,
            "bytes": 10**6,
            "start": told(0.25),
            "limits": [{"memory": "4GB", "questions": questions}],
        }
    }
    page = bench.page(
        "<!-- table: 7 4GB --><!-- end --> <!-- table: starts -->old<!-- end --> "
        "<!-- table: 8 4GB -->kept<!-- end -->",
        {"sizes": sizes},
    )
    assert "| units | 2.0 s → 3.0 s | 1.5× | 200 → 200 MB | 3 → 3 MB |" in page
    assert "| rows | 2.0 s → no answer | – |" in page
    assert "| 7 | 1 MB | 0.2 CPU s | 200 MB |" in page
    assert "old" not in page
    assert "kept" in page


def test_the_page_is_that_of_the_last_run(bench: ModuleType) -> None:
    report = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    current = bench.PAGE.read_text(encoding="utf-8")
    assert bench.page(current, report) == current
    assert set(report["sizes"]) == {str(rows) for rows in bench.ROWS}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what a process takes")
def test_both_are_asked_by_processes_of_their_own(bench: ModuleType, tmp_path: Path) -> None:
    place = tmp_path / "events.parquet"
    bench.generate(place, 20_000)
    found = list(bench.compare(tmp_path, place, "1GB", 1))
    assert [each["question"] for each in found] == list(bench.QUESTIONS)
    for each in found:
        for who in (bench.PLAIN, bench.DPSQL):
            taken = each[who]
            assert taken["failed"] is None
            assert taken["cpu"] > 0
            assert 30 << 20 < taken["memory"] < 1 << 30
    assert sorted(each.name for each in tmp_path.iterdir()) == ["events.parquet"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what a process takes")
def test_what_is_spilled_is_seen_and_a_failure_is_told(bench: ModuleType, tmp_path: Path) -> None:
    place = tmp_path / "events.parquet"
    bench.generate(place, 4_000_000)
    spilling = bench.measure(tmp_path, bench.DPSQL, place, "128MB", "units")
    assert spilling.failed is None
    assert spilling.spilled > 16 << 20
    missing = bench.measure(tmp_path, bench.PLAIN, tmp_path / "none", "1GB", "units")
    assert missing.failed is not None


def test_files_without_a_name_are_spilled_bytes(bench: ModuleType, tmp_path: Path) -> None:
    with open(tmp_path / "named", "wb") as named, tempfile.TemporaryFile(dir=tmp_path) as unnamed:
        named.write(b"12345")
        unnamed.write(b"123")
        for each in (named, unnamed):
            each.flush()
        assert bench.size_without_names(tmp_path, os.getpid()) == 3
        assert bench.size_of(tmp_path) == 5
        assert bench.size_without_names(tmp_path / "other", os.getpid()) == 0
