"""What is free leaves rows and ledger as they are, at every door, whatever is sent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import pytest
from helpers.agent_worlds import COUNTS, clinic
from helpers.open_doors import DOORS, OpenDoors

from dpsql.agents.tools import Toolbox
from dpsql.pipeline.buyer import Buyer
from dpsql.policy.model import AgentPolicy
from dpsql.service.session import Dataset

FREE: Final = (
    "SHOW TABLES",
    "DESCRIBE visits",
    f"EXPLAIN {COUNTS}",
    "SHOW BUDGET",
    "SELECT day FROM days ORDER BY day LIMIT 3",
    COUNTS,  # asked before
)
REFUSED: Final = (
    "SELECT * FROM visits",
    "SELECT wrad FROM visits",
    "SELECT COUNT(*) FROM visits GROUP BY patient",
    "SELECT",
    "DROP TABLE visits",
    "COPY visits TO 'rows.csv'",
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "x" * 1_000_000,
    f"SELECT '{'x' * 1_000_000}' AS t",
    "(" * 5_000,
    "SELECT COUNT(*) FROM visits WHERE ward = 'é\u202e",
)
HOSTILE: Final[tuple[object, ...]] = (None, 3, True, [], {}, ["SELECT 1"], {"a": 1}, 1e400, "\x00")


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


class Served:
    """Doors to the clinic, of which one question was asked and paid for."""

    def __init__(self, place: Path) -> None:
        self.place, self.clock = place, Clock()
        self.dataset: Dataset = clinic(place)
        self.doors = OpenDoors(self.dataset, place / "server", ["ana", "bo"], self.clock)
        for door in ("wire", "mcp", "tools"):
            sent = self.doors.ask(door, "ana", COUNTS)
            assert not sent.code, sent.data

    @property
    def ledger(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.place.glob("budget.db*"))}


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """After it is there, nothing can begin to read private rows, and the ledger stays as it is."""
    found = Served(tmp_path)
    try:
        before = found.ledger
        with monkeypatch.context() as patch:
            patch.setattr(Buyer, "begun", None)
            yield found
            assert found.ledger == before
    finally:
        found.doors.close()


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_what_is_free_or_refused_changes_nothing(door: str, served: Served) -> None:
    for sql in FREE:
        sent = served.doors.ask(door, "ana", sql)
        told = sent.code == "not_a_question" and not sql.startswith("SELECT")
        assert not sent.code or told, (sql, sent.data)
    for sql in REFUSED:
        sent = served.doors.ask(door, "ana", sql)
        assert sent.code, sql[:80]
        assert not sent.internal, sql[:80]
        assert len(sent.data) < 5_000, sql[:80]
    assert not served.doors.ask(door, "ana", "SELECT 1 AS one").code


def test_the_tools_that_are_free_change_nothing(served: Served) -> None:
    for tool in ("tables", "budget", "history"):
        assert not served.doors.call("ana", tool).code
    assert not served.doors.call("ana", "describe", table="visits").code
    assert not served.doors.call("ana", "explain", sql=COUNTS, epsilon=0.1).code
    for path in ("tables", "tables/visits", "budget", "history"):
        status, _, body = served.doors.request("ana", "GET", f"/v1/{path}")
        assert status == 200, (path, body)
    status, _, body = served.doors.request("ana", "POST", "/v1/explain", {"sql": COUNTS})
    assert status == 200, body


def test_arguments_of_other_types_are_refused_by_a_code(served: Served) -> None:
    for wrong in HOSTILE:
        for tool in ("ask", "explain", "describe", "rows", "verify", "history"):
            sent = served.doors.call("ana", tool, sql=wrong, table=wrong, limit=wrong)
            assert sent.code, (tool, wrong)
            assert not sent.internal, (tool, wrong, sent.data)
        if wrong == 1e400:
            continue  # no JSON
        for body in ({"sql": wrong}, {"sql": "SELECT ?", "parameters": wrong}, wrong):
            status, _, data = served.doors.request("ana", "POST", "/v1/query", body)
            assert status in (200, 400, 413, 415, 422), data
            if status == 200:  # values of a constant query
                assert "SELECT ?" in json.dumps(body)


@pytest.mark.parametrize("days", [-4000, -1, 1, 4000])
def test_a_clock_that_jumps_changes_nothing(days: int, served: Served) -> None:
    served.clock.now += timedelta(days=days)
    for door in DOORS:
        assert not served.doors.ask(door, "ana", COUNTS).code, door
        assert served.doors.ask(door, "ana", "SELECT * FROM visits").code


@pytest.mark.slow
def test_ten_thousand_calls_take_less_than_a_minute(served: Served) -> None:
    box = Toolbox.of(served.dataset, "ana", "tools", AgentPolicy())
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tables", {}),
        ("ask", {"sql": 3}),
        ("rows", {"release_id": "none"}),
        ("ask", {"sql": "SELECT"}),
        ("verify", {"text": "12 of 13", "release_ids": ["none"]}),
    ]
    began = time.process_time()
    for number in range(10_000):
        box.call(*calls[number % len(calls)])
    assert time.process_time() - began < 60


@pytest.mark.slow
@pytest.mark.parametrize("door", ["wire", "http", "mcp"])
def test_a_client_that_vanishes_spends_at_most_what_it_reserved(door: str, tmp_path: Path) -> None:
    """Others are answered, the ledger is whole, and what was reserved is settled or stays spent."""
    served = Served(tmp_path)
    try:
        for seconds in (0.0, 0.01, 0.05, 0.2):
            sql = f"SELECT COUNT(*) FROM visits WHERE cost > {seconds}"
            gone = threading.Timer(seconds, served.doors.vanish)
            gone.start()
            with suppress(
                OSError, ValueError, HTTPException, StopIteration
            ):  # the connection has ended
                served.doors.ask(door, "bo", sql)
            gone.join()
            served.doors.forget("bo")
            served.doors.forget("ana")
            assert not served.doors.ask(door, "ana", COUNTS).code
        deadline = time.monotonic() + 30
        while _unsettled(served) and time.monotonic() < deadline:
            time.sleep(0.1)
        with served.dataset.session("bo") as session:
            (own, *_) = session.accounts()
            assert own.spent.epsilon <= 4 * 0.2 + 1e-9
    finally:
        served.doors.close()


def _unsettled(served: Served) -> int:
    with served.dataset.session("bo") as session:
        return int(session.accounts()[0].spent.unsettled)
