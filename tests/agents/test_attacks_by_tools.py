"""Attacks through the tools: the outcome is that of the process, and says nothing of the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.agent_worlds import call
from helpers.attacks import ANSWERS, ATTACKS, TELLS, Attack
from helpers.support import ANALYST, FILL, NO_NUMBER, policy, world_file

from dpsql.agents.tools import Toolbox
from dpsql.policy.model import AgentPolicy
from dpsql.service.opening import open_dataset

ONE_MORE = (
    "INSERT INTO visits SELECT 999, 3, 's1', 5, 7, 1.0, 2.0, 3, DATE '2024-01-05', NULL, true, "
    "'red', 1"
)
NO_QUESTION = "not_a_question"  # of statements that are no SELECT, before anything is looked at


@contextmanager
def toolbox(place: Path, *more: str) -> Iterator[Toolbox]:
    """The tools on the small world, with an account that holds all attacks."""
    place.mkdir(exist_ok=True)
    limits = AgentPolicy(epsilon_per_run=900.0)
    with (
        world_file(place / "world.duckdb", *FILL, *more) as path,
        open_dataset(path, policy(NO_NUMBER), place / "budget.db") as dataset,
    ):
        yield Toolbox.of(dataset, ANALYST, "run", limits)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attacks")


@pytest.fixture(scope="module")
def box(place: Path) -> Iterator[Toolbox]:
    with toolbox(place / "one") as opened:
        yield opened


@pytest.fixture(scope="module")
def other(place: Path) -> Iterator[Toolbox]:
    """The same on rows with one unit more."""
    with toolbox(place / "two", ONE_MORE) as opened:
        yield opened


def written(place: Path) -> dict[str, bytes]:
    """All that lies on disk of one world: rows, ledger, and what stands beside them."""
    return {each.name: each.read_bytes() for each in sorted(place.iterdir()) if each.is_file()}


def code_of(reply: Any) -> str | None:
    refused = reply["refused"]
    return None if refused is None else refused["code"]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.sql[:60])
@pytest.mark.few(60)
def test_an_attack_has_the_same_outcome_by_the_tools(
    attack: Attack, place: Path, box: Toolbox, other: Toolbox
) -> None:
    before = written(place / "one")
    explained = call(box, "explain", {"sql": attack.sql})
    assert explained == call(other, "explain", {"sql": attack.sql}), "rows are told"
    told = code_of(explained.structured)
    if attack.outcome not in (ANSWERS, TELLS):
        found = call(box, "ask", {"sql": attack.sql})
        assert found == call(other, "ask", {"sql": attack.sql}), "rows are told"
        code = code_of(found.structured)
        assert code in (attack.outcome, NO_QUESTION), attack.why
        # What is fresh cannot come from stored releases: only ASK is told so, as in process.
        assert told == code or (told is None and "answer_from" in attack.sql), attack.why
        assert "Nothing was paid." in found.text
    else:
        assert told in (None, NO_QUESTION), attack.why
    assert written(place / "one") == before


def test_tools_that_are_free_leave_rows_and_ledger_as_they_are(
    place: Path, box: Toolbox, other: Toolbox
) -> None:
    before = written(place / "one")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("tables", {}),
        *(("describe", {"table": name}) for name in ("visits", "mails", "shops", "secret", "x.y")),
        ("budget", {}),
        ("history", {}),
        ("rows", {"release_id": "none"}),
        ("verify", {"text": "1", "release_ids": ["none"]}),
        ("drop", {}),
    ]
    for name, given in asked:
        assert call(box, name, given) == call(other, name, given)
    assert written(place / "one") == before


def shape(reply: Any) -> str:
    """Everything of an answer but its values: names, types, messages and costs."""
    found = reply["answer"]
    told = {name: found["answer"][name] for name in ("columns", "rows_total", "next_offset")}
    cost = {name: value for name, value in found["cost"].items() if name != "answered"}  # a time
    kinds = [one["kind"] for one in found["warnings"]]
    # Whether noise hides values depends on the released values themselves.
    return json.dumps([told, cost, [kind for kind in kinds if kind != "drowned"]])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c, COUNT(*) AS n FROM visits GROUP BY c",
        "SELECT c, AVG(n) AS mean, MAX(amount) AS most FROM visits GROUP BY c ORDER BY mean",
        "SELECT COUNT(DISTINCT uid) AS people, MEDIAN(x) AS middle FROM visits",
        "SELECT name, size FROM shops ORDER BY size LIMIT 3",
    ],
)
def test_answers_of_rows_that_differ_in_one_unit_show_the_same(
    sql: str, box: Toolbox, other: Toolbox
) -> None:
    given = {"sql": sql}
    one, two = call(box, "ask", given), call(other, "ask", given)
    assert not one.refused, one.text
    assert shape(one.structured) == shape(two.structured)
    assert shape(call(box, "ask", given).structured) == shape(call(other, "ask", given).structured)
    assert call(box, "budget") == call(other, "budget")
