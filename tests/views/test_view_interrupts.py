"""Ctrl-C at any line of the code for views leaves no lock, and no step that is read twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.interrupts import interrupted_in

import dpsql
from dpsql.dbapi.connection import Connection
from dpsql.engines.duckdb.engine import DuckDBScratch
from dpsql.ledger import Ledger
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy, TimeColumn
from dpsql.policy.parameters import Parameters
from dpsql.views import views as views_module
from dpsql.views.state import ViewState

HOME = str(Path(dpsql.__file__).parent / "views")
interrupted = partial(interrupted_in, HOME)
START = datetime(2026, 1, 1, tzinfo=UTC)
CREATE = (
    "CREATE MATERIALIZED VIEW {} WITH (step = '1 minute', start = '2026-01-01', steps = 9000, "
    "epsilon = 1, delta = 1e-6) AS SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind"
)
REFRESH = "REFRESH MATERIALIZED VIEW v"


def policy() -> Policy:
    table = TablePolicy("visits", PrivacyUnit("user", "uid"), time=TimeColumn("at"))
    parameters = Parameters(epsilon=1.0, delta=1e-6, max_groups_contributed=2)
    accounts = {"ana": AccountPolicy("ana", 900.0, 1e-2)}
    return Policy("d", parameters, accounts=accounts, tables={"visits": table})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE visits AS SELECT range AS uid, 'k' || range % 3 AS kind, "
            "TIMESTAMP '2026-01-01' + INTERVAL (range) SECOND AS at FROM range(300)"
        )
    return tmp_path


def connect(place: Path) -> Connection:
    return dpsql.connect(place / "x.duckdb", policy(), str(place / "l.db"), "ana")


@pytest.fixture
def pass_minutes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    now = [START]
    monkeypatch.setattr(views_module, "_now", lambda: now[0])

    def passed(minutes: int) -> None:
        now[0] += timedelta(minutes=minutes)

    return passed


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps whose rows were counted, in the order of time."""
    found: list[int] = []
    original = ViewState.absorb

    def recorded(self: ViewState, step: int, rows: Any) -> None:
        found.append(step)
        original(self, step, rows)

    monkeypatch.setattr(ViewState, "absorb", recorded)
    return found


def moments(few: bool) -> Iterator[int]:
    """Lines to interrupt at: more and more of them are left out, as loops come to the same ones."""
    moment = 3
    while True:
        yield moment
        moment += max(1, moment // (3 if few else 30))


def interrupt_refreshes(
    place: Path, pass_minutes: Callable[[int], None], read: list[int], few: bool
) -> int:
    with closing(connect(place)) as one, closing(connect(place)) as other:
        one.sql(CREATE.format("v"))
        kept = []
        for moment in moments(few):
            pass_minutes(3)
            caught = interrupted(lambda: one.sql(REFRESH), moment)
            if caught is None:
                break
            kept.append(caught)
            pass_minutes(1)
            # Somebody else goes on at once: with what was not begun, and with nothing else.
            other.sql(REFRESH)
        assert one.sql("SELECT step, kind FROM v").fetchall() == (
            other.sql("SELECT step, kind FROM v").fetchall()
        )
        assert len(read) == len(set(read))
        assert read == sorted(read)
    with Ledger.open(place / "l.db") as ledger:
        assert ledger.verify().sound
        (record,) = ledger.streams("d/ana")
        assert {step.step for step in record.published} <= set(read)
        assert record.begun == max(read)
    return len(kept)


@pytest.mark.slow
def test_a_refresh_that_is_interrupted_at_a_line_leaves_nothing_held(
    place: Path, pass_minutes: Callable[[int], None], read: list[int]
) -> None:
    assert interrupt_refreshes(place, pass_minutes, read, few=True) > 8


@pytest.mark.slow
def test_a_refresh_that_is_interrupted_at_any_line_leaves_nothing_held(
    place: Path, pass_minutes: Callable[[int], None], read: list[int]
) -> None:
    assert interrupt_refreshes(place, pass_minutes, read, few=False) > 60


def interrupt_creates(place: Path, few: bool, pass_minutes: Callable[[int], None]) -> int:
    with closing(connect(place)) as opened:
        for found, moment in enumerate(moments(few)):
            name = f"v{moment}"
            caught = interrupted(lambda name=name: opened.sql(CREATE.format(name)), moment)  # type: ignore[misc]
            with Ledger.open(place / "l.db") as ledger:
                paid = {record.stream for record in ledger.streams("d/ana")}
            made = {each.name for each in (place / "x.views").iterdir()} if paid else set()
            assert {each for each in made if "." not in each} <= paid
            if caught is None:
                assert made
                pass_minutes(2)
                for view in opened.sql("SHOW MATERIALIZED VIEWS").fetchall():
                    opened.sql(f"REFRESH MATERIALIZED VIEW {view[0]}")  # what was paid for goes on
                return found
    raise AssertionError("there is an end")


@pytest.mark.slow
def test_a_view_that_was_paid_for_has_its_state_whatever_is_interrupted(
    place: Path, pass_minutes: Callable[[int], None]
) -> None:
    assert interrupt_creates(place, True, pass_minutes) > 8


@pytest.mark.slow
def test_a_view_has_its_state_whatever_line_is_interrupted(
    place: Path, pass_minutes: Callable[[int], None]
) -> None:
    assert interrupt_creates(place, False, pass_minutes) > 60


@pytest.mark.slow
def test_of_views_of_one_name_that_are_created_at_once_one_is_paid_for(
    place: Path, pass_minutes: Callable[[int], None]
) -> None:
    opened = [connect(place) for _ in range(4)]
    barrier, outcomes = threading.Barrier(4), []

    def create(connection: Connection) -> None:
        barrier.wait(30)
        try:
            connection.sql(CREATE.format("v"))
            outcomes.append("made")
        except dpsql.Error as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=create, args=(each,)) for each in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["ledger_stream_exists"] * 3 + ["made"]
    with Ledger.open(place / "l.db") as ledger:
        (record,) = ledger.streams("d/ana")
    assert [each.name for each in (place / "x.views").iterdir()] == [record.stream]
    pass_minutes(2)
    opened[0].sql(REFRESH)
    for each in opened:
        each.close()


@pytest.mark.slow
def test_rows_that_are_stopped_on_their_way_suspend_nobody(
    place: Path, pass_minutes: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise duckdb.InterruptException("Interrupted!")

    class Relation:
        __arrow_c_stream__ = stopped

    with closing(connect(place)) as one:
        one.sql(CREATE.format("v"))
        pass_minutes(2)
        with monkeypatch.context() as patch:
            patch.setattr(DuckDBScratch, "_materialized", lambda *_: Relation())
            with pytest.raises(dpsql.EngineError) as caught:
                one.sql(REFRESH)
        assert caught.value.code == "interrupted"
        pass_minutes(1)
        one.sql(REFRESH)
