"""The attacker at the doors of a server: what comes back tells nothing of the unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from helpers.open_doors import DOORS
from helpers.random_examples import long

from dpsql.core.formatting import upper_figure
from dpsql.kinds.groups import ExactGroups

from .grammar import Statement
from .nets import Finding
from .open_holes import is_open
from .run import Plan, attack
from .stacks import through
from .world import WORLDS, Pair

ANSWERED: Final = "SELECT s, COUNT(*) AS n FROM t GROUP BY s"
REFUSED: Final = "SELECT s FROM t"


@pytest.mark.slow
def test_hundreds_of_statements_at_each_door_are_no_finding() -> None:
    plan = Plan(
        long(400), minutes=6, seed=31, worlds=("crowd", "views"), full=0.6, stacks=DOORS,
        reductions=0, known=False,
    )  # fmt: skip
    report = attack(plan)
    print(report)
    assert [str(hole) for name, hole in report.holes.items() if not is_open(name)] == []
    if report.statements >= 200:
        assert all(report.stacks[f"{door}: answered"] for door in DOORS)
        assert all(report.stacks[f"{door}: refused"] for door in DOORS)


def asked(door: str, place: Path) -> list[Finding]:
    """What is found when a door answers once and refuses once."""
    pair = Pair.open(WORLDS["crowd"], place)
    try:
        labels, found = zip(
            *(through(door, pair, Statement(text, "crowd")) for text in (ANSWERED, REFUSED)),
            strict=True,
        )
    finally:
        pair.close()
    assert labels == (f"{door}: answered", f"{door}: refused")
    return [finding for findings in found for finding in findings]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.slow
def test_a_door_answers_and_refuses_alike(door: str, tmp_path: Path) -> None:
    assert asked(door, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("door", ["http", "mcp", "stdio", "tools"])
def test_a_door_whose_price_follows_rows_is_found(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = [0]
    release = ExactGroups.release

    def counting(self: ExactGroups, *given: Any) -> Any:
        counted[0] = sum(int(values.sum()) for values in self.rows.measures.values())
        return release(self, *given)

    monkeypatch.setattr(ExactGroups, "release", counting)
    priced = "dpsql.agents.facts.upper_figure"
    monkeypatch.setattr(priced, lambda price: upper_figure(price + counted[0]))
    assert "cost" in {finding.net for finding in asked(door, tmp_path)}
