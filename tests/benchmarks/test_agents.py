"""The bench of tools for language models: how soon a process answers, and what an answer costs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import duckdb
import pytest
from helpers.agent_worlds import clinic_policy
from helpers.scripts import script

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COUNT = "SELECT COUNT(*) AS n FROM visits"
MOST_TOKENS = 1500


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    yield script("benchmarks/agents.py")
    sys.path[:] = before


@pytest.mark.slow
def test_a_process_answers_soon(bench: ModuleType, tmp_path: Path) -> None:
    """By what importing its packages takes on the same machine: 2.9 and 3.7 times as much."""
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as writer:
        writer.execute(
            "CREATE TABLE visits AS SELECT i % 3000 AS patient, 'eyes' AS ward, "
            "(i % 90)::DOUBLE AS cost FROM range(9000) t(i)"
        )
        writer.execute("CREATE TABLE days AS SELECT i::INTEGER AS day FROM range(1000) t(i)")
    policies = tmp_path / "policies.yaml"
    policies.write_text(clinic_policy(), "utf-8")
    found = bench.start(tmp_path / "clinic.duckdb", policies, "ana", COUNT, 3)
    assert found.tables < found.explain < found.ask
    assert found.tables < 3.6 * found.packages
    assert found.ask < 4.7 * found.packages


def test_twenty_rows_are_few_tokens(bench: ModuleType) -> None:
    found = bench.sizes()
    assert found.text <= found.reply <= MOST_TOKENS
    assert found.text + found.reply <= MOST_TOKENS  # a client may show a model both
