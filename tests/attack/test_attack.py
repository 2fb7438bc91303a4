"""The attacker as a test: no statement may be a finding, and every net must be able to be one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.random_examples import long

from .catalogue import date_parts, overloads, type_names
from .grammar import Grammar, Statement
from .open_holes import is_open
from .report import Report
from .run import Plan, attack, known_statements
from .sweep import combinations, sweep
from .twins import TWINS, Twin, statements, try_twin, whole_of
from .world import WORLDS


def new_holes(report: Report) -> list[str]:
    """What was found and is not known."""
    return [str(hole) for name, hole in report.holes.items() if not is_open(name)]


@pytest.mark.slow
def test_the_catalogue_is_the_engines_own() -> None:
    names = {overload.name for overload in overloads()}
    assert {"week", "list_aggregate", "icu_sort_key", "timezone", "+", "var_map"} <= names
    assert {"era", "timezone", "julian", "yearweek"} <= set(date_parts())
    assert {"hugeint", "bit", "timestamp_ns", "variant"} <= set(type_names())
    assert len(set(combinations())) > 6000


def test_statements_follow_from_the_seed_and_come_in_every_shape() -> None:
    grammars = [Grammar(3, tuple(WORLDS)) for _ in range(2)]
    drawn = [[grammar.draw() for _ in range(300)] for grammar in grammars]
    assert [s.text for s in drawn[0]] == [s.text for s in drawn[1]]
    assert len({s.shape for s in drawn[0]}) > 10
    assert {s.world for s in drawn[0]} == set(WORLDS)


def test_a_hundred_statements_are_no_finding() -> None:
    plan = Plan(100, seed=5, worlds=("crowd", "types"), full=0.02, reductions=0)
    report = attack(plan)
    assert report.statements >= 100
    assert report.outcomes["answered"] > 10
    assert new_holes(report) == []


@pytest.mark.slow
def test_thousands_of_statements_are_no_finding() -> None:
    report = attack(Plan(long(3000), minutes=8, seed=20, full=0.02, reductions=3, rows=0))
    print(report)
    assert report.outcomes["answered"] > 0.15 * report.statements
    assert new_holes(report) == []


@pytest.mark.slow
def test_functions_are_refused_or_fail_on_no_edge_of_their_arguments() -> None:
    swept = sweep(long(2500), seed=3)
    print(swept)
    assert sum(swept.accepted.values()) > 0.06 * sum(swept.tried.values())
    assert {t: w for t, w in swept.failing.items() if not is_open(f"plain totality: {w}")} == {}


@pytest.fixture(scope="module")
def asked() -> list[Statement]:
    """What twins are asked."""
    return statements(4, 250)


@pytest.fixture(scope="module")
def whole(asked: list[Statement]) -> dict[str, str]:
    """What dpsql makes of it."""
    return whole_of(asked)


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_a_twin_without_one_of_the_nets_is_noticed(
    twin: Twin, asked: list[Statement], whole: dict[str, str]
) -> None:
    shown = try_twin(twin, asked, whole)
    assert shown.present
    assert shown.caught
    assert shown.accepted or set(shown.findings) & set(twin.notices)


def test_what_was_found_once_stays_in_the_run() -> None:
    assert len(known_statements()) > 20
    assert {statement.world for statement in known_statements()} <= set(WORLDS)


@pytest.mark.slow
def test_the_command_leaves_a_report(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    report = tmp_path / "report.json"
    command = [sys.executable, "tests/attack", "--statements", "60", "--worlds", "crowd"]
    done = subprocess.run(
        [*command, "--seed", "2", "--reductions", "0", "--report", str(report)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert '"statements": ' in report.read_text("utf-8")
