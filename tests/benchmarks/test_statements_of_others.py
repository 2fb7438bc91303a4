"""The statements of other people: each has a verdict, and none that was answered is lost."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from helpers.scripts import script

MEASURED_APART = "tpcds"  # its statements come with an extension that is not installed here


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return script("benchmarks/statements.py")


def lost(before: list[Any], now: list[Any]) -> list[str]:
    """What was answered, is asked still, and is refused now."""
    refused = {(each.corpus, each.statement): each for each in now if each.code is not None}
    found = [
        refused.get((each.corpus, each.statement))
        for each in before
        if each.rule is None and each.code is None
    ]
    return [f"{each.corpus}: {each.code}: {each.statement}" for each in found if each is not None]


def test_the_results_are_of_the_statements_that_the_corpora_have(bench: ModuleType) -> None:
    written = [
        (each.corpus, each.name, each.rule)
        for path in sorted(bench.CORPORA.glob("*.sql"))
        for each in bench.parsed(path)[1]
    ]
    written += [(each.corpus, each.name, each.rule) for each in bench.tpch()]
    measured = [
        (each.corpus, each.statement, each.rule)
        for each in bench.stored()
        if each.corpus != MEASURED_APART
    ]
    assert len(written) > 900
    assert sorted(written, key=str) == sorted(measured, key=str)


def test_what_is_lost_is_noticed(bench: ModuleType) -> None:
    before = bench.Outcome("bird", "SELECT COUNT(*) FROM users", None, None, None, 1.0)
    assert lost([before], [before]) == []
    now = replace(before, code="raw_rows")
    assert lost([before], [now]) == ["bird: raw_rows: SELECT COUNT(*) FROM users"]
    assert lost([now], [now]) == []


@pytest.mark.slow
def test_no_statement_that_was_answered_is_refused_now(bench: ModuleType) -> None:
    now = bench.measured([], None)
    assert lost(bench.stored(), now) == []
    assert [each for each in now if each.code in ("crash", "internal_error")] == []
    assert [each for each in now if each.rule is not None and each.code is None] == []
