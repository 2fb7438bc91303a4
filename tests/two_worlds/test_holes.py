"""Each hole that dpsql once had, put back: the nets of its row in docs/nets.md notice, and soon."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from helpers.zero_noise import silence, silence_views

from .holes import HOLES, Hole
from .invariants import INVARIANTS
from .itself import compare, compare_views
from .play import TwoWorlds, ready
from .programs import Program
from .sources import OF_HOLES, READERS

_PLAYED = [hole for hole in HOLES if hole.steps]
ROOT = Path(__file__).resolve().parents[2]


def noticed(hole: Hole, leader: int) -> set[str]:
    """The nets that notice something in the hole's program."""
    reader = READERS.get(hole.reader) or OF_HOLES[hole.reader]
    program = Program(hole.name, hole.variant, hole.steps)
    with tempfile.TemporaryDirectory() as home, ready():
        played = TwoWorlds(reader, program, Path(home), leader).play(INVARIANTS, stop=False)
    reader.close()
    return {finding.net for finding in played.findings}


@pytest.mark.slow
@pytest.mark.parametrize("hole", _PLAYED, ids=lambda hole: hole.name)
def test_a_hole_that_is_put_back_is_noticed(hole: Hole) -> None:
    with hole.put_back():
        assert noticed(hole, 0) >= set(hole.nets)


@pytest.mark.slow
@pytest.mark.parametrize("hole", _PLAYED, ids=lambda hole: hole.name)
def test_without_the_hole_its_program_shows_nothing(hole: Hole) -> None:
    """But for worlds with a unit whose rows make a file unreadable: these are not opened."""
    found = noticed(hole, 1)
    assert found == set() if hole.opens else "refusals" in found


@pytest.mark.slow
@pytest.mark.usefixtures("discovered_keys")
def test_negations_that_nobody_reads_are_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    silence(monkeypatch)
    (hole,) = (hole for hole in HOLES if hole.nets == ("answers",))
    with hole.put_back():
        found = compare(READERS["duckdb"], tmp_path, 60)
    assert found.different
    assert all("LIKE" in each for each in found.different)


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 2])
def test_views_without_noise_are_the_engines_own(
    window: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Over all steps; windows over units that come back are refused, and counted newcomers."""
    silence_views(monkeypatch)
    if window is None:
        assert compare_views(READERS["duckdb"], tmp_path, window) == []
        return
    (hole,) = (hole for hole in HOLES if hole.nets == ("views",))
    with hole.put_back():
        assert compare_views(READERS["duckdb"], tmp_path, window)


def test_the_page_has_a_row_for_each_hole() -> None:
    page = (ROOT / "docs" / "nets.md").read_text("utf-8")
    for hole in HOLES:
        rows = [line for line in page.splitlines() if line.startswith(f"| {hole.name} |")]
        assert len(rows) == 1, hole.name
        assert all(f"`{net}`" in rows[0] for net in hole.nets)
