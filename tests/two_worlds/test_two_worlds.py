"""Programs on two worlds: nothing but noise may differ, and each net must have tried something."""

from __future__ import annotations

from typing import Any, Final

import pytest
from helpers.random_examples import long

from .eyes import DECLARED, primitives
from .programs import LEAST, draw
from .run import Report, run
from .servers import PostgreSQL, Server
from .sources import READERS

NO_SERVER: Final = [name for name, reader in READERS.items() if not isinstance(reader, Server)]


def found(report: Report) -> list[str]:
    """What was found."""
    return [f"{seed} {finding}" for seed, finding in report.findings]


@pytest.mark.slow
def test_programs_show_nothing_but_noise_of_the_unit() -> None:
    report = run(READERS["duckdb"], 2, first=500)
    assert found(report) == []
    assert report.programs == 2
    assert report.answered >= report.statements / 2


@pytest.mark.slow
def test_many_programs_show_nothing_and_each_net_has_tried() -> None:
    programs = long(60, 40)
    report = run(READERS["duckdb"], programs)
    assert found(report) == []
    assert report.off == []
    assert report.statements >= programs * LEAST
    assert report.answered >= report.statements / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NO_SERVER)
def test_no_reader_shows_more(name: str) -> None:
    report = run(READERS[name], long(6, 2), first=40)
    assert found(report) == []
    assert report.answered >= report.statements / 2


@pytest.mark.slow
def test_postgresql_shows_nothing_more(postgres_server: object) -> None:
    report = run(READERS["postgresql"], long(10, 3), first=40)
    assert found(report) == []
    assert report.answered >= report.statements / 2


@pytest.mark.slow
def test_numbers_that_a_server_deals_out_are_no_finding(
    postgres_server: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server has made something before, as when a session ends late."""
    fill = PostgreSQL.fill

    def later(self: PostgreSQL, variant: int, unit: bool, mine: Any) -> str:
        url = fill(self, variant, unit, mine)
        if unit:
            self._server(unit).run("CREATE TEMP TABLE passing AS SELECT 1", f"two{variant}")
        return url

    monkeypatch.setattr(PostgreSQL, "fill", later)
    report = run(READERS["postgresql"], 1, first=41)
    assert found(report) == []
    assert report.counted["statements sent"] > 0


@pytest.mark.slow
def test_worlds_without_a_difference_give_no_finding() -> None:
    report = run(READERS["duckdb"], 1, first=400, same=True)
    assert found(report) == []
    assert report.statements >= LEAST


@pytest.mark.slow
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
