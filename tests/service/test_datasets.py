"""Datasets and their sessions: prepared statements, rights, observers, an end to one question."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.attacks import PLAYS, VIEW_WITH
from helpers.failures import fails_with
from helpers.interrupts import interrupted_in
from helpers.sql_text import generated
from helpers.support import ANALYST, FILL, plays_policy, policy, world_file
from helpers.unchecked_runs import sent_inside

import dpsql
from dpsql.core.sql import Sql
from dpsql.engines.base import deadline
from dpsql.engines.base.twin import Twin
from dpsql.engines.embedded.running import execute
from dpsql.ledger import Ledger
from dpsql.pipeline.events import (
    AccountSuspended,
    ChargeReserved,
    ChargeSettled,
    QuestionAnswered,
    ReadingFailed,
    SessionEvent,
    SessionOpened,
    StatementAsked,
    StatementFailed,
    StatementRefused,
    StepFailed,
    StepPublished,
    ViewCreated,
)
from dpsql.policy.model import AccountPolicy
from dpsql.service.rights import ALL_RIGHTS, Right
from dpsql.service.statements import Arguments

OTHER = "bob"
COUNT = "SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k"
ABOVE = "SELECT COUNT(*) AS n FROM visits WHERE n > ?"
FOREVER = "SELECT q.* FROM ({0}) q JOIN range(20_000_000_000) r(i) ON hash(r.i) = 7"


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[dpsql.Dataset]:
    accounts = {name: AccountPolicy(name, 1000.0, 1e-3) for name in (ANALYST, OTHER)}
    with (
        world_file(tmp_path / "world.duckdb", *FILL) as path,
        dpsql.open_dataset(path, policy(None, **accounts), tmp_path / "budget.db") as opened,
    ):
        assert opened.ledger_created
        yield opened


@pytest.mark.slow
def test_sessions_of_a_dataset_pay_each_for_themselves(dataset: dpsql.Dataset) -> None:
    with dataset.session(ANALYST) as ana, dataset.session(OTHER, epsilon=1.0) as bob:
        paid = ana.sql(COUNT).cost.settled
        assert not bob.sql(COUNT).cost.stored
        bob.sql("SET epsilon = 0.5")
        assert ana.explain(COUNT).reserved_epsilon != bob.explain(COUNT).reserved_epsilon
        assert paid.rho > 0
        assert (ana.budget().queries, bob.budget().queries) == (1, 1)
    with pytest.raises(dpsql.InterfaceError, match="closed"):
        ana.sql(COUNT)
    with dataset.session(ANALYST) as again:
        assert again.sql(COUNT).cost.stored


@pytest.mark.slow
def test_sessions_answer_at_once_in_threads(dataset: dpsql.Dataset) -> None:
    def asks(number: int) -> int:
        with dataset.session(ANALYST if number % 2 else OTHER, session=f"s{number}") as session:
            return sum(len(session.sql(COUNT, epsilon=5 + n).fetchall()) for n in range(3))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(asks, range(8))) == [21] * 8


def test_a_session_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    ledger = tmp_path / "none.db"
    with world_file(tmp_path / "world.duckdb") as path:
        with pytest.raises(dpsql.UnknownName):
            dpsql.connect(path, policy(), ledger, "nobody")
        with pytest.raises(dpsql.ParameterError):
            dpsql.connect(path, policy(), ledger, ANALYST, epsilon=-1.0)
    assert not ledger.exists()


@pytest.fixture
def own_ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger that goes on when the dataset is closed."""
    with contextlib.closing(Ledger.open(tmp_path / "own.db")) as ledger:
        yield ledger


@pytest.mark.slow
def test_a_dataset_waits_for_what_its_sessions_are_answering(
    tmp_path: Path, own_ledger: Ledger
) -> None:
    reading, closing = threading.Event(), threading.Event()

    def wait(percent: int) -> None:
        reading.set()
        closing.wait(20)
        time.sleep(0.002)

    keys = "SELECT DISTINCT k FROM visits"
    with world_file(tmp_path / "world.duckdb", *FILL) as path, ThreadPoolExecutor(2) as pool:
        dataset = dpsql.open_dataset(path, policy(), own_ledger)
        session = dataset.session(ANALYST, progress=wait)
        answer = pool.submit(session.sql, keys)
        assert reading.wait(20)
        closed = pool.submit(dataset.close)
        closing.set()
        assert len(answer.result(60)) == 7
        closed.result(60)
        for ask in (lambda: session.sql(COUNT), lambda: dataset.session(ANALYST)):
            with fails_with("closed"):
                ask()
    # An engine that is closed has not failed: nobody is suspended, and nothing more was charged.
    with dpsql.open_dataset(path, policy(), own_ledger) as again, again.session(ANALYST) as found:
        assert found.budget().queries == 1
        assert len(found.sql(COUNT)) == 7


# -- prepared statements ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_prepared_statement_tells_its_columns_parameters_and_price(
    dataset: dpsql.Dataset,
) -> None:
    with dataset.session(ANALYST) as session:
        prepared = session.prepare(ABOVE, epsilon=2.0)
        assert [column.name for column in prepared.columns] == ["n"]
        assert [parameter.name for parameter in prepared.parameters] == ["1"]
        assert prepared.price([3]).reserved == session.explain(ABOVE, [3], epsilon=2.0).reserved
        assert session.budget().queries == 0
        (first,) = prepared.run([3])
        assert session.sql(ABOVE, [3], epsilon=2.0).cost.stored
        assert prepared.run([3]).fetchall() == [first]
        assert not prepared.run([3], fresh=True).cost.stored
        assert not prepared.run([4]).cost.stored
        listed = session.prepare("SHOW TABLES")
        assert listed.run().columns == [column.name for column in listed.columns]


@pytest.mark.parametrize("seconds", [0, -1, True, "5", float("nan"), float("inf")])
def test_an_end_that_is_none_is_refused(dataset: dpsql.Dataset, seconds: float) -> None:
    with dataset.session(ANALYST) as session:
        prepared = session.prepare(COUNT)
        with pytest.raises(dpsql.ParameterError, match="seconds"):
            prepared.run(seconds=seconds)
        assert session.budget().queries == 0


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have generated statements run inside of another one."""
    pattern = ["{0}"]
    sent_inside(monkeypatch, lambda: pattern[0])

    def inside(other: str) -> None:
        pattern[0] = other

    return inside


def code_of(ask: Callable[[], object]) -> str:
    """The code of the failure that a question ends with."""
    with pytest.raises(dpsql.EngineError) as caught:
        ask()
    return caught.value.code


@pytest.mark.slow
def test_the_end_of_a_statement_ends_that_one_alone(
    dataset: dpsql.Dataset, lasting: Callable[[str], None]
) -> None:
    with dataset.session(ANALYST) as session:
        lasting(FOREVER)
        with fails_with("statement_timeout"):
            session.prepare(COUNT).run(seconds=0.1)
        lasting("{0}")
        # What was reserved stays spent; nothing is suspended by what the caller has ended.
        assert (session.budget().unsettled, len(session.sql(COUNT))) == (1, 7)
        assert len(session.prepare(COUNT).run(seconds=60.0)) == 7


def test_the_end_of_a_statement_ends_its_planning_and_nothing_is_spent(
    dataset: dpsql.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = generated("SELECT count(*) FROM range(10000000) a, range(10000000) b")

    def tried(self: Twin, source: Sql, expressions: Sequence[Sql]) -> int:
        self._in_time(lambda: execute(self._connection, endless).fetchall())
        return 1

    monkeypatch.setattr(Twin, "_try", tried)
    asked = "SELECT count(*) FROM visits WHERE abs(k) + 1 > 2"
    with dataset.session(ANALYST) as session:
        for run in (
            lambda: session.prepare(asked, seconds=0.2),
            lambda: session._answer(asked, Arguments.of((), None, {}), seconds=0.2),
        ):
            began = time.monotonic()
            with fails_with("statement_timeout") as caught:
                run()
            assert time.monotonic() - began < 1.5
            assert "Nothing was spent" in str(caught.value.hint)
        assert session.budget().queries == 0


@pytest.mark.slow
def test_the_end_of_a_statement_ends_its_tail_and_the_release_is_kept(
    dataset: dpsql.Dataset,
) -> None:
    inner = "SELECT k, count(*) AS n FROM visits GROUP BY k"
    numbers = "(SELECT unnest(range(100000)) AS i)"
    asked = f"SELECT sum(a.n + b.i * c.i) FROM ({inner}) AS a, {numbers} AS b, {numbers} AS c"
    with dataset.session(ANALYST) as session:
        prepared = session.prepare(asked)
        for said in ("is kept", "Nothing was spent"):
            with fails_with("statement_timeout") as caught:
                prepared.run(seconds=1.0)
            assert said in str(caught.value.hint)
        assert session.sql(inner).cost.stored


@pytest.mark.slow
def test_no_end_of_a_statement_is_left_by_ctrl_c(
    dataset: dpsql.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[object] = []
    kept: list[KeyboardInterrupt] = []  # as interactive programs do, with the frames
    with dataset.session(ANALYST) as session:
        monkeypatch.setattr(session._answerer, "interrupt", lambda: ends.append(1))
        prepared = session.prepare("SELECT 1")
        for line in range(6, 100):
            caught = interrupted_in(deadline.__file__, lambda: prepared.run(seconds=0.01), line)
            if caught is None:
                break
            kept.append(caught)
            ends.clear()
            time.sleep(0.025)
            assert not ends
        assert len(kept) > 7


@pytest.mark.slow
def test_a_statement_is_cancelled_where_it_runs_and_no_other_is(
    dataset: dpsql.Dataset, lasting: Callable[[str], None]
) -> None:
    with dataset.session(ANALYST) as session, ThreadPoolExecutor(1) as pool:
        prepared, other = session.prepare(COUNT), session.prepare(ABOVE)
        lasting(FOREVER)
        found = pool.submit(code_of, prepared.run)
        while session._answerer.buyer._run is None:
            time.sleep(0.01)
        for _ in range(20):
            other.cancel()
            time.sleep(0.005)
        assert not found.done()
        prepared.cancel()  # once is enough, wherever it is
        assert found.result(20) == "interrupted"
        lasting("{0}")
        prepared.cancel()
        assert len(prepared.run()) == 7


CHECKED = {
    "in the room": "SELECT s.name, q.n FROM ({}) q JOIN shops s USING (k)",
    "apart": "SELECT repeat('x', q.n::INT) FROM ({}) q",
}


@pytest.mark.slow
@pytest.mark.parametrize("tail", CHECKED)
def test_who_ends_a_statement_while_it_is_checked_pays_nothing(
    dataset: dpsql.Dataset, tail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object, **__: object) -> None:
        session.interrupt()
        raise duckdb.InterruptException

    started = subprocess.Popen.communicate

    def killed(self: Any, *given: Any) -> Any:
        session.interrupt()
        return started(self, *given)

    with dataset.session(ANALYST) as session, monkeypatch.context() as patch:
        patch.setattr("dpsql.engines.embedded.constants.execute", ended)
        patch.setattr("dpsql.engines.embedded.constants.serialized_plan", ended)
        patch.setattr(subprocess.Popen, "communicate", killed)
        assert code_of(lambda: session.sql(CHECKED[tail].format(COUNT))) == "interrupted"
        patch.undo()
        assert session.budget().queries == 0
        assert len(session.sql(CHECKED[tail].format(COUNT))) == 7


def test_progress_of_one_question_goes_to_its_own_listener(dataset: dpsql.Dataset) -> None:
    usual: list[int] = []
    own: list[int] = []
    keys = "SELECT DISTINCT k FROM visits"
    with dataset.session(ANALYST, progress=usual.append) as session:
        session.prepare(keys).run(progress=own.append)
        assert (own[-1], usual) == (100, [])
        session.sql(keys, fresh=True)
        assert usual[-1] == 100


# -- rights ----------------------------------------------------------------------------------------

VIEW = (
    "CREATE MATERIALIZED VIEW v WITH (step = '1 day', steps = 3, start = '2024-01-01') AS "
    "SELECT COUNT(*) AS n FROM visits"
)
NEEDED = {
    COUNT: Right.ASK,
    "SELECT name FROM shops": Right.ASK,
    "SET epsilon = 0.5": Right.SET,
    "RESET epsilon": Right.SET,
    VIEW: Right.CREATE_VIEWS,
    "DROP MATERIALIZED VIEW v": Right.CREATE_VIEWS,
    "REFRESH MATERIALIZED VIEW v": Right.REFRESH_VIEWS,
}


@pytest.mark.parametrize("sql", NEEDED)
def test_what_a_session_may_not_do_is_refused_and_costs_nothing(
    dataset: dpsql.Dataset, sql: str
) -> None:
    with dataset.session(ANALYST, rights=ALL_RIGHTS - {NEEDED[sql]}) as session:
        with fails_with("not_allowed"):
            session.sql(sql)
        with pytest.raises(dpsql.NotSupportedError):
            session.prepare(COUNT).run() if sql == COUNT else session.sql(sql)
        assert session.budget().queries == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 9) COUNT(*) AS n FROM visits",
        "FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = true) COUNT(*) AS n FROM mails)",
        "SELECT COUNT(*, max_error => 20) AS n FROM visits",
        VIEW.replace("steps = 3", "steps = 3, epsilon = 9"),
    ],
)
def test_options_of_a_statement_need_the_right_to_set(dataset: dpsql.Dataset, sql: str) -> None:
    with dataset.session(ANALYST, rights=ALL_RIGHTS - {Right.SET}) as session:
        for ask in (session.sql, session.tune) if sql.startswith("SELECT WITH") else (session.sql,):
            with fails_with("not_allowed"):
                ask(sql)
        assert session.budget().queries == 0
        if not sql.startswith("CREATE"):
            assert session.explain(sql).blocks
        # What the program passes is its own.
        assert session.sql(COUNT, epsilon=2.0).cost.reserved.rho > 0


@pytest.mark.slow
def test_a_session_without_rights_can_explain_and_look_around(dataset: dpsql.Dataset) -> None:
    with dataset.session(ANALYST, rights=frozenset()) as session:
        assert session.explain(COUNT).blocks
        assert session.sql(f"EXPLAIN {COUNT}").columns == ["plan"]
        assert len(session.sql("SHOW TABLES")) == 3
        session.tune(COUNT, groups=[1, 2], dry_run=True)
        with pytest.raises(dpsql.NotSupportedError):
            session.tune(COUNT, groups=[1, 2])


# -- observers -------------------------------------------------------------------------------------


def test_an_observer_is_told_of_all_that_happens_to_a_question(dataset: dpsql.Dataset) -> None:
    seen: list[SessionEvent] = []
    with dataset.session(ANALYST, observer=seen.append) as session:
        cost = session.sql(COUNT).cost
        session.sql(COUNT)
        with pytest.raises(dpsql.Error):
            session.sql("SELECT * FROM visits")
    opened, asked, reserved, settled, answered, again, stored, bad, refused = seen
    assert {event.account for event in seen} == {f"world/{ANALYST}"}
    assert isinstance(opened, SessionOpened)
    assert isinstance(asked, StatementAsked)
    assert isinstance(reserved, ChargeReserved)
    assert isinstance(settled, ChargeSettled)
    assert isinstance(answered, QuestionAnswered)
    assert isinstance(stored, QuestionAnswered)
    assert isinstance(bad, StatementAsked)
    assert isinstance(refused, StatementRefused)
    assert asked.text == COUNT
    assert again == asked
    assert reserved.entry == settled.entry
    assert settled.amount.rho <= reserved.amount.rho
    assert settled.kept
    assert reserved.fingerprint == answered.fingerprint == stored.fingerprint
    assert answered.cost == cost
    assert stored.cost.stored
    assert refused.code == "raw_rows"


def test_an_observer_is_told_of_failures(
    dataset: dpsql.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError

    seen: list[SessionEvent] = []
    with dataset.session(ANALYST, observer=seen.append) as session:
        seen.clear()
        monkeypatch.setattr("dpsql.engines.duckdb.engine.discreetly", fail)
        with pytest.raises(dpsql.EngineError):
            session.sql(COUNT)
    assert [type(event) for event in seen] == [
        StatementAsked,
        ChargeReserved,
        AccountSuspended,
        ReadingFailed,
    ]


@pytest.mark.slow
def test_what_was_charged_is_never_told_as_refused(dataset: dpsql.Dataset) -> None:
    def watch(event: SessionEvent) -> None:
        seen.append(event)
        if asks and isinstance(event, ChargeReserved):
            session.sql("SELECT 1")  # refused: it would wait for its own end

    seen: list[SessionEvent] = []
    asks: list[bool] = []
    paid = [StatementAsked, ChargeReserved, ChargeSettled, StatementFailed]
    with dataset.session(ANALYST, observer=watch) as session:
        seen.clear()
        with pytest.raises(dpsql.DataError):
            session.sql(f"SELECT (SELECT unnest([n, n + 1])) FROM ({COUNT})")
        assert [type(event) for event in seen] == paid
        seen.clear()
        asks.append(True)
        with pytest.raises(dpsql.InterfaceError, match="another statement"):
            session.sql(COUNT, fresh=True)
        assert [type(event) for event in seen] == [StatementAsked, ChargeReserved, StatementFailed]
        assert seen[-1] == StatementFailed(f"world/{ANALYST}", "connection_busy")
        assert session.budget().unsettled == 1


@pytest.mark.slow
def test_an_observer_is_told_of_views_and_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[SessionEvent] = []
    with duckdb.connect(str(tmp_path / "plays.duckdb")) as writer:
        writer.execute(PLAYS)
    place, ledger = tmp_path / "plays.duckdb", tmp_path / "plays.db"
    with (
        dpsql.open_dataset(place, plays_policy(8), ledger) as dataset,
        dataset.session(ANALYST, observer=seen.append) as session,
    ):
        session.sql(f"CREATE MATERIALIZED VIEW v {VIEW_WITH} AS SELECT COUNT(*) AS n FROM plays")
        *_, bounds, settled, reserved, created = seen  # its number of rows is drawn first
        assert isinstance(bounds, ChargeReserved)
        assert isinstance(settled, ChargeSettled)
        assert isinstance(reserved, ChargeReserved)
        assert isinstance(created, ViewCreated)
        seen.clear()
        session.sql("REFRESH MATERIALIZED VIEW v UNTIL '2024-01-03'")
        steps = [event for event in seen if isinstance(event, StepPublished)]
        assert [(each.stream, each.step) for each in steps] == [
            (created.stream, 1),
            (created.stream, 2),
        ]
        seen.clear()
        monkeypatch.setattr("dpsql.engines.duckdb.engine.discreetly", None)
        with pytest.raises(dpsql.EngineError):
            session.sql("REFRESH MATERIALIZED VIEW v UNTIL '2024-01-04'")
    assert StepFailed(f"plays/{ANALYST}", created.stream, 3, "engine_failed") in seen
    assert not any(isinstance(event, StepPublished | StatementFailed) for event in seen)


@pytest.mark.parametrize(("kind", "spent"), [(StatementAsked, 0), (ChargeReserved, 1)])
def test_an_observer_that_cannot_write_refuses_before_data_are_read(
    dataset: dpsql.Dataset, kind: type[SessionEvent], spent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def audit(event: SessionEvent) -> None:
        if isinstance(event, kind) and broken.is_set():
            raise OSError("no space is left")

    broken = threading.Event()
    with dataset.session(ANALYST, observer=audit) as session:
        broken.set()
        with monkeypatch.context() as patch:
            patch.setattr("dpsql.pipeline.buyer.PurchaseReader", None)
            with pytest.raises(OSError, match="no space"):
                session.sql(COUNT)
        assert session.budget().unsettled == spent
        broken.clear()
        assert len(session.sql(COUNT)) == 7


@pytest.mark.slow
def test_who_ends_the_spelling_of_keys_loses_no_release_and_pays_for_none_again(
    dataset: dpsql.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of dates are kept as texts, which the room's engine writes, and reads again."""

    def ended(*_: object, **__: object) -> None:
        raise duckdb.InterruptException("Interrupted!")

    by_month = "SELECT date_trunc('month', d) AS m, COUNT(*) AS n FROM visits GROUP BY m"
    with dataset.session(ANALYST) as session:
        with monkeypatch.context() as patch:
            patch.setattr("dpsql.pipeline.tail.key_spelling.execute", ended)
            assert code_of(lambda: session.sql(by_month)) == "interrupted"
        assert session.budget().unsettled == 1
        answered = session.sql(by_month).fetchall()
        assert answered
        entries = session.budget().queries
        with monkeypatch.context() as patch:
            patch.setattr("dpsql.pipeline.tail.key_spelling.materialized", ended)
            assert code_of(lambda: session.sql(by_month)) == "interrupted"
        assert session.budget().queries == entries
        again = session.sql(by_month)
        assert again.cost.stored
        assert again.fetchall() == answered
