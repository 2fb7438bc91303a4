"""Programs on two worlds: nothing but noise may differ, and each net must have tried something."""

from __future__ import annotations

import re
from typing import Final

import pytest

from .eyes import DECLARED, primitives
from .programs import LEAST, draw
from .run import Report, run
from .sources import READERS

OPEN: Final = (
    r"parameters: .* may have no views and refreshes one",
    r"parameters: groups of 1 units are released of \['(t|l', 'o)'\]",
    r"parameters: a release at epsilon",
    r"words: the noise of step",
)
"""Findings that are known and not closed yet: patterns of a net, what it says, and the step."""


def new(report: Report) -> list[str]:
    """What was found and is not known."""
    known = re.compile("|".join(f"(?:{pattern})" for pattern in OPEN)) if OPEN else None
    return [
        f"{seed} {finding}"
        for seed, finding in report.findings
        if known is None or not known.match(f"{finding.net}: {finding.detail} {finding.step}")
    ]


def test_programs_show_nothing_but_noise_of_the_unit() -> None:
    report = run(READERS["duckdb"], 4, first=131)
    assert new(report) == []
    assert report.programs == 4
    assert report.answered >= report.statements / 2


@pytest.mark.slow
def test_many_programs_show_nothing_and_each_net_has_tried() -> None:
    report = run(READERS["duckdb"], 60)
    assert new(report) == []
    assert report.off == []
    assert report.statements >= 60 * LEAST - 30 * len(report.findings)
    assert report.answered >= report.statements / 2


def test_worlds_without_a_difference_give_no_finding() -> None:
    report = run(READERS["duckdb"], 1, first=400, same=True)
    assert new(report) == []
    assert report.statements >= LEAST


def test_programs_follow_from_their_seeds_and_have_every_kind_of_step() -> None:
    reader = READERS["duckdb"]
    drawn = [[draw(f"x:{i}", reader) for i in range(60)] for _ in range(2)]
    assert [list(map(str, p.steps)) for p in drawn[0]] == [
        list(map(str, p.steps)) for p in drawn[1]
    ]
    assert all(program.statements >= LEAST for program in drawn[0])
    kinds = {step.kind for program in drawn[0] for step in program.steps}
    assert kinds == {"ask", "again", "clock", "policy", "edit", "save", "restore"}
    ways = {step.way for program in drawn[0] for step in program.steps}
    assert ways == set(reader.ways)


def test_every_primitive_that_draws_noise_is_declared() -> None:
    assert set(primitives()) == set(DECLARED)
