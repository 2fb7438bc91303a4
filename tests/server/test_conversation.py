"""A connection keeps so much and no more, and goes on after each error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest

import dpsql
from dpsql.core.codes import CODES
from dpsql.errors import EngineError
from dpsql.server.wire import conversation as wire
from dpsql.server.wire.conversation import MOST_KEPT, MOST_STATEMENTS, MOST_TEXT, Conversation
from dpsql.server.wire.errors import _OF_CODES
from dpsql.server.wire.messages import (
    BindMessage,
    CallMessage,
    CloseMessage,
    DescribeMessage,
    ExecuteMessage,
    Frontend,
    ParseMessage,
    PasswordMessage,
    QueryMessage,
    SyncMessage,
    TerminateMessage,
)
from dpsql.service.session import Session


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


def told(*said: Frontend) -> list[bytes]:
    """What is written when a client without a session says this."""
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    async def talk() -> None:
        made = Conversation(cast(Session, None), at_once, at_once, write)
        for each in said:
            assert await made.take(each) != isinstance(each, TerminateMessage)

    asyncio.run(talk())
    return written


def kinds(*said: Frontend) -> bytes:
    return b"".join(each[:1] for each in told(*said))


def sqlstates(written: list[bytes]) -> list[bytes]:
    errors = [each[5:].split(b"\0") for each in written if each[:1] == b"E"]
    return [field[1:] for fields in errors for field in fields if field[:1] == b"C"]


BEGIN = QueryMessage("BEGIN")
EMPTY = ParseMessage("s", "", ())


def bound(portal: str, size: int = 0) -> BindMessage:
    return BindMessage(portal, "s", (), (b"x" * size,), ())


def test_statements_and_portals_take_so_much_memory_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 1_000)
    written = told(BEGIN, EMPTY, bound("a", 600), bound("b", 600))
    assert sqlstates(written) == [b"53200"]
    assert sqlstates(told(BEGIN, EMPTY, bound("a", 600), SyncMessage(), bound("a", 300))) == []


def test_there_are_so_many_portals_and_no_more() -> None:
    many = [bound(f"p{place}") for place in range(MOST_KEPT)]
    assert sqlstates(told(BEGIN, EMPTY, *many)) == []
    assert sqlstates(told(BEGIN, EMPTY, *many, bound("another"))) == [b"53000"]


def test_a_message_has_so_many_statements_and_no_longer_text() -> None:
    assert sqlstates(told(QueryMessage("BEGIN;" * (MOST_STATEMENTS + 1)))) == [b"54000"]
    assert sqlstates(told(QueryMessage(" " * (MOST_TEXT + 1)))) == [b"54000"]
    assert kinds(QueryMessage("BEGIN;" * 3)) == b"CCCZ"


def test_after_an_error_all_is_skipped_up_to_the_next_sync() -> None:
    wrong = ExecuteMessage("nothing", 0)
    assert kinds(EMPTY, wrong, EMPTY, bound("a"), SyncMessage(), bound("a")) == b"1EZ2"


@pytest.mark.parametrize(
    ("said", "sqlstate"),
    [
        (ExecuteMessage("a", 0), b"34000"),
        (DescribeMessage(portal=True, name="a"), b"34000"),
        (DescribeMessage(portal=False, name="a"), b"26000"),
        (bound("a"), b"26000"),
        (ParseMessage("a", "SELECT 1; SELECT 2", ()), b"42601"),
        (PasswordMessage(b"x"), b"08P01"),
        (CallMessage(), b"0A000"),
        (QueryMessage("FETCH 1 FROM a"), b"34000"),
        (QueryMessage("DEALLOCATE a"), b"26000"),
    ],
)
def test_what_is_not_there_is_an_error_with_its_code(said: Frontend, sqlstate: bytes) -> None:
    assert sqlstates(told(said)) == [sqlstate]


def test_portals_end_with_their_transaction_and_what_is_closed_is_gone() -> None:
    run = ExecuteMessage("a", 0)
    assert sqlstates(told(EMPTY, bound("a"), SyncMessage(), run)) == [b"34000"]
    assert sqlstates(told(BEGIN, EMPTY, bound("a"), SyncMessage(), run)) == []
    closed = CloseMessage(portal=True, name="a")
    assert sqlstates(told(BEGIN, EMPTY, bound("a"), closed, run)) == [b"34000"]


def test_states_of_codes_are_those_of_codes_that_exist() -> None:
    assert set(_OF_CODES) <= set(CODES)


def test_errors_that_are_not_ours_are_told_as_a_number() -> None:
    written = told(QueryMessage("SELECT 1"))  # there is no session to ask
    assert sqlstates(written) == [b"XX000"]
    assert b"internal error" in written[0]
    assert b"NoneType" not in b"".join(written)


ROWS = """
version: 1
dataset: d
defaults: {epsilon: 1.0, delta: 1e-6, max_groups_contributed: 1, max_rows_contributed: 1}
accounts: {ana: {epsilon: 10, delta: 1e-3}}
tables: {t: {privacy_unit: {name: person, column: u}}}
"""


def dataset_of(directory: Path, name: str, key: str) -> dpsql.Dataset:
    """A dataset whose key has this type, with the one ledger."""
    with duckdb.connect(str(directory / name)) as writer:
        writer.execute(f"CREATE TABLE t AS SELECT i AS u, (i % 2)::{key} AS k FROM range(99) r(i)")
    policy = dpsql.parse_policy(ROWS)
    return dpsql.open_dataset(directory / name, policy, directory / "budget.db")


@pytest.mark.parametrize("portal", [False, True])
@pytest.mark.parametrize(("key", "sqlstate"), [("VARCHAR", b"0A000"), ("INTEGER", None)])
def test_rows_of_other_columns_than_were_told_are_refused_before_they_are_paid_for(
    key: str, sqlstate: bytes | None, portal: bool, tmp_path: Path
) -> None:
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    async def talk(session: Session, first: dpsql.Dataset) -> None:
        made = Conversation(session, at_once, at_once, write)
        question = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
        bind = BindMessage("", "s", (), (), ())
        before: list[Frontend] = (
            [bind, DescribeMessage(True, "")] if portal else [DescribeMessage(False, "s"), bind]
        )
        for each in (ParseMessage("s", question, ()), *before):
            await made.take(each)
        second = dataset_of(tmp_path, "second.duckdb", key)
        second.follow(first)
        first.replace_by(second)
        await made.take(ExecuteMessage("", 0))

    first = dataset_of(tmp_path, "first.duckdb", "INTEGER")
    session = first.session("ana")
    asyncio.run(talk(session, first))
    assert sqlstates(written) == ([] if sqlstate is None else [sqlstate])
    assert len(session.history(9)) == (sqlstate is None)
    session.close()


class Waited:
    """A session whose statements last until they are interrupted often enough."""

    edition = None

    def __init__(self, interrupts: int) -> None:
        self.left = interrupts
        self.asked: list[str] = []

    def sql(self, text: str, values: object) -> object:
        self.asked.append(text)
        while self.left > 0:
            time.sleep(0.001)
        raise EngineError("the query was interrupted", code="interrupted")

    def interrupt(self) -> None:
        self.left -= 1


@pytest.mark.parametrize("begun", [False, True])
def test_a_single_cancel_ends_a_statement_that_waits_or_runs(begun: bool) -> None:
    """Also one that an interrupt has missed, as it was about to begin; and none after it."""
    session, written = Waited(3), list[bytes]()

    async def write(data: bytes) -> None:
        written.append(data)

    async def talk() -> None:
        turn = asyncio.Event()

        async def in_turn(work: Callable[[], Any]) -> Any:
            await turn.wait()
            return await asyncio.to_thread(work)

        made = Conversation(cast(Session, session), in_turn, in_turn, write)
        await made.cancel()  # of nothing
        asking = asyncio.create_task(made.take(QueryMessage("SELECT COUNT(*) FROM visits")))
        await asyncio.sleep(0.01)
        if begun:
            turn.set()
            await asyncio.sleep(0.01)
        ending = asyncio.create_task(made.cancel())
        await asyncio.sleep(0.01)
        turn.set()
        await asyncio.wait_for(asyncio.gather(asking, ending), 20)

    asyncio.run(talk())
    assert sqlstates(written) == [b"57014"]
    assert session.asked == ["SELECT COUNT(*) FROM visits"] * begun
