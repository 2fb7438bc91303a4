"""The bench of all engines: its rows, its table, and what is said of engines that are not there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from helpers.scripts import script

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    yield script("benchmarks/engines.py")
    sys.path[:] = before


def test_the_rows_are_the_same_each_time(bench: ModuleType) -> None:
    assert bench.rows(5000).equals(bench.rows(5000))
    assert bench.rows(5000).num_rows == 5000


@pytest.mark.slow  # all questions, some of them four times
def test_duckdb_is_measured(bench: ModuleType) -> None:
    (engine,) = (each for each in bench.ENGINES if each.name == "DuckDB")
    found = bench.measured(engine, 2000, runs=1)
    assert found["questions"].keys() == bench.QUESTIONS.keys()
    assert all(each["dpsql"] > 0 for each in found["questions"].values())


def test_an_engine_that_is_not_installed_is_listed_with_what_to_install(bench: ModuleType) -> None:
    figures = {name: {"plain": 0.5, "dpsql": 1.25} for name in bench.QUESTIONS}
    shown = bench.shown({"DuckDB": {"questions": figures}, "Spark": {"missing": "get Java"}})
    heads, *lines = shown.splitlines()
    assert heads.split() == ["DuckDB", "Spark"]
    for name, line in zip(bench.QUESTIONS, lines, strict=False):
        assert line.startswith(name)
        assert line.endswith("2.5 (0.50 → 1.25)         not installed")
    assert "Spark is not installed: get Java" in lines


def test_results_are_of_these_questions(bench: ModuleType) -> None:
    for name, figures in json.loads(bench.RESULT.read_text(encoding="utf-8")).items():
        assert name in bench.PACKAGES
        assert figures["rows"] == 1_000_000
        assert figures["questions"].keys() == bench.QUESTIONS.keys()
