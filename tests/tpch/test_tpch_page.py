"""docs/tpch.md says what the catalogue of queries and the measurements say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from helpers.scripts import script
from tpch_queries import PUBLIC, QUERIES, REFUSED, RUNNING

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return script("benchmarks/tpch.py")


def test_the_tables_of_the_page_are_those_of_the_catalogue_and_the_benchmark(
    benchmark: ModuleType,
) -> None:
    written = benchmark.PAGE.read_text(encoding="utf-8")
    report = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    assert benchmark.page(written, report) == written
    assert benchmark.page(written.replace("| 22 |", "| 23 |"), report) == written


def test_the_page_counts_the_queries_as_they_are(benchmark: ModuleType) -> None:
    words = {2: "two", 3: "three", 14: "fourteen", 17: "Seventeen"}
    counts = (
        len(RUNNING),
        len([query for query in RUNNING if not query.edits]),
        len(PUBLIC),
        len(REFUSED),
    )
    assert sum(counts) - counts[1] == len(QUERIES)
    prose = re.sub(r"\s+", " ", benchmark.PAGE.read_text(encoding="utf-8"))
    assert (
        f"{words[counts[0]]} of the queries are answered, {words[counts[1]]} of them as the "
        f"specification has them. {words[counts[2]].title()} read public tables alone: they are "
        f"answered exactly, and cost nothing. The other {words[counts[3]]} are refused" in prose
    )
