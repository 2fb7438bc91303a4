"""A connection charges before it reads, settles before it shows, and keeps the engine quiet."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.present import present
from helpers.sql_text import generated, text
from helpers.support import ANALYST, FILL, connect, policy, world_file
from helpers.unchecked_runs import unread

import dpsql
from dpsql.core.sql import Sql
from dpsql.dbapi.connection import Connection
from dpsql.engines.base.scratch import Reader
from dpsql.engines.base.twin import Twin
from dpsql.engines.duckdb import engine as engine_module
from dpsql.engines.duckdb.engine import DuckDBScratch, OpenDuckDB
from dpsql.engines.evidence.evidence import evidence_for
from dpsql.pipeline.tail.runner import TailRunner
from dpsql.policy.model import AccountPolicy
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss

QUESTION = "SELECT k, count(DISTINCT uid) AS n FROM visits GROUP BY k"
TOP = f"{QUESTION} ORDER BY n DESC LIMIT 3"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with connect(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """A connection for tests that spend nothing or do not look at the budget."""
    with connect(tmp_path_factory.mktemp("shared")) as opened:
        yield opened


READING = (engine_module, "discreetly")
"""What every read of private rows goes through."""


def before(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, look: Callable[[], None]
) -> None:
    """Call ``look`` just before a method runs."""
    original = getattr(owner, name)

    def watched(*arguments: object, **named: object) -> object:
        look()
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, watched)


# -- the order of things --------------------------------------------------------------------------


def test_the_worst_case_is_reserved_before_any_private_row_is_read(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    before(monkeypatch, *READING, lambda: seen.append(connection.budget()))
    answer = connection.sql(TOP, max_groups_contributed=None)
    assert [report.unsettled for report in seen] == [1]
    assert seen[0].rho_spent == pytest.approx(answer.cost.reserved.rho, rel=1e-6)
    assert seen[0].rho_spent >= answer.cost.reserved.rho


@pytest.mark.slow
def test_the_charge_is_settled_before_the_tail_runs(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    before(monkeypatch, TailRunner, "run", lambda: seen.append(connection.budget()))
    connection.sql(QUESTION)
    assert [(report.queries, report.unsettled) for report in seen] == [(1, 0)]


@pytest.mark.slow
def test_a_statement_asked_afresh_is_paid_again_with_new_noise_and_another_salt(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = []
    original = DuckDBScratch.store

    def watched(self: DuckDBScratch, name: str, sql: Sql) -> int:
        statements.append(sql)
        return original(self, name, sql)

    monkeypatch.setattr(DuckDBScratch, "store", watched)
    asked = "SELECT k, count(DISTINCT uid) AS n, sum(x) AS s FROM visits GROUP BY k"
    for _ in range(3):
        connection.sql(asked, epsilon=0.01, fresh=True)
    assert len(set(statements)) == 3
    assert connection.budget().queries == 3
    counted = "SELECT count(*) FROM visits"
    one = connection.sql(counted).fetchall()
    assert any(connection.sql(counted, fresh=True).fetchall() != one for _ in range(9))


@pytest.mark.slow
def test_what_is_remembered_depends_on_the_parameters_and_is_bounded(
    connection: dpsql.Connection,
) -> None:
    for rows in range(1, 300):
        connection.explain("SELECT count(*) FROM visits", max_rows_contributed=1 + rows % 90)
        connection.explain(f"SELECT count(*) + {rows} FROM visits")
    small = connection.explain("SELECT count(*) FROM visits", max_rows_contributed=2)
    large = connection.explain("SELECT count(*) FROM visits", max_rows_contributed=80)
    assert small.blocks[0].columns[0].noise_scale < large.blocks[0].columns[0].noise_scale / 30
    assert len(connection._answerer.preparer._shared) <= 256


@pytest.mark.few(1)
@pytest.mark.parametrize("odd", [None, 7, b"SELECT 1", ["SELECT 1"], {}])
def test_queries_and_mechanisms_that_are_no_text_are_refused(
    connection: dpsql.Connection, odd: object
) -> None:
    with pytest.raises(dpsql.Error):
        connection.sql(odd)  # type: ignore[arg-type]
    if odd is not None:
        with pytest.raises(dpsql.Error):
            connection.sql(QUESTION, mechanism=odd)  # type: ignore[arg-type]
    assert connection.budget().queries == 0


def test_explaining_reads_nothing_and_costs_nothing(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("private rows were read")

    monkeypatch.setattr(*READING, never)
    assert connection.explain(QUESTION) is not None
    assert connection.budget().queries == 0


@pytest.mark.slow
def test_a_top_k_answer_pays_for_what_it_returned(connection: dpsql.Connection) -> None:
    answer = connection.sql(
        "SELECT k, count(DISTINCT uid) AS n FROM visits WHERE k > 4 GROUP BY k ORDER BY n DESC "
        "LIMIT 7",
        max_groups_contributed=None,
    )
    assert len(answer.fetchall()) < 7
    assert answer.cost.settled.rho < answer.cost.reserved.rho
    assert answer.cost.settled.delta == answer.cost.reserved.delta
    spent = connection.budget().rho_spent
    assert answer.cost.settled.rho <= spent < answer.cost.settled.rho + 1e-9


@pytest.mark.parametrize("failure", [dpsql.EngineError(code="interrupted"), KeyboardInterrupt()])
def test_an_interrupt_after_reserving_keeps_the_whole_reservation(
    failure: BaseException, connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(*READING, fail)
        with pytest.raises(type(failure)):
            connection.sql(QUESTION)
    report = connection.budget()
    assert report.unsettled == 1
    assert report.rho_spent > 0
    assert len(connection.sql(QUESTION).fetchall()) > 0, "the connection still works"


@pytest.mark.slow
def test_a_failing_tail_costs_its_release_and_names_no_value(connection: dpsql.Connection) -> None:
    with fails_with("tail_failed") as caught:
        connection.sql("SELECT (SELECT unnest([n, n + 1])) FROM (SELECT count(*) AS n FROM visits)")
    assert not any(character.isdigit() for character in caught.value.reason)
    assert connection.budget().rho_spent > 0
    assert connection.budget().unsettled == 0


def test_the_engines_message_never_reaches_the_caller(connection: dpsql.Connection) -> None:
    engine = connection._answerer.engine
    assert isinstance(engine, OpenDuckDB)
    with pytest.raises(dpsql.EngineError) as caught:
        unread(engine.run()).exact('SELECT 1 AS "r", error(s) AS "m" FROM visits', (), ["r", "m"])
    assert "s1" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


# -- budgets --------------------------------------------------------------------------------------


def test_a_query_beyond_the_budget_reads_nothing_and_spends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = policy(None, ana=AccountPolicy(ANALYST, 1.0, 1e-6))
    with (
        world_file(tmp_path / "w.duckdb", *FILL) as path,
        dpsql.connect(path, poor, tmp_path / "b.db", ANALYST) as opened,
    ):
        reads: list[None] = []
        before(monkeypatch, *READING, lambda: reads.append(None))
        with pytest.raises(dpsql.BudgetExceeded) as caught:
            opened.sql(QUESTION)
        assert present(caught.value.requested)[0] > present(caught.value.remaining)[0]
        assert not reads
        assert opened.budget().queries == 0


def open_account(
    directory: Path, composition: Composition, budget: tuple[float, float], **parameters: Any
) -> dpsql.Connection:
    """A connection whose account has this budget; a second one shares file and ledger."""
    rules = policy(None, ana=AccountPolicy(ANALYST, *budget, composition))
    path = directory / "w.duckdb"
    if not path.exists():
        with world_file(path, *FILL):
            pass
    return dpsql.connect(path, rules, directory / "b.db", ANALYST, **parameters)


DELTA = 2.0**-20  # whole ledger units, so that sums of it are exact
ONE_QUERY = PrivacyLoss(rho=0.0, delta=DELTA, epsilon=0.5)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "question", [QUESTION, TOP, "SELECT c, avg(x), count(*) AS n FROM visits GROUP BY c"]
)
def test_a_basic_account_is_charged_the_epsilon_and_delta_of_each_query_until_they_are_gone(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_account(
        tmp_path, Composition.BASIC, (1.0, 3 * DELTA), epsilon=0.5, delta=DELTA
    ) as opened:
        explained = opened.explain(question)
        assert (explained.reserved, explained.reserved_epsilon) == (ONE_QUERY, 0.5)
        for asked in (1, 2):
            cost = opened.sql(question, fresh=True).cost
            assert cost.reserved == cost.settled == ONE_QUERY
            assert cost.reserved_epsilon == cost.settled_epsilon == 0.5
            assert cost.conversion_delta == 0.0
            report = opened.budget()
            assert (report.epsilon_spent, report.delta_spent) == (0.5 * asked, DELTA * asked)
            assert report.epsilon_remaining == 1.0 - 0.5 * asked
            assert report.delta_remaining == DELTA * (3 - asked)
            assert (report.queries, report.unsettled) == (asked, 0)
        reads: list[None] = []
        before(monkeypatch, *READING, lambda: reads.append(None))
        small: dict[str, Any] = {"epsilon": 2.0**-19, "delta": DELTA / 4}
        for parameters in ({}, small, {"delta": 2 * DELTA}):
            with pytest.raises(dpsql.BudgetExceeded) as caught:
                opened.sql(question, fresh=True, **parameters)
            assert caught.value.remaining == (0.0, DELTA)
            assert "epsilon 0 and delta" in caught.value.reason
            assert "rho" not in caught.value.reason
        assert not reads
        assert opened.budget() == report


@pytest.mark.slow
def test_a_new_connection_buys_no_new_budget(tmp_path: Path) -> None:
    with connect(tmp_path) as first:
        first.sql(QUESTION)
        spent = first.budget().rho_spent
    with dpsql.connect(
        tmp_path / "world.duckdb", policy(), tmp_path / "budget.db", ANALYST
    ) as second:
        assert second.budget().rho_spent == spent


@pytest.mark.slow
def test_threads_share_one_connection_and_every_query_is_charged(
    connection: dpsql.Connection,
) -> None:
    errors: list[dpsql.Error] = []

    def ask() -> None:
        try:
            for _ in range(5):
                assert len(connection.sql(QUESTION, fresh=True).fetchall()) <= 7
        except dpsql.Error as error:
            errors.append(error)

    one = connection.sql(QUESTION).cost.settled.rho
    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert connection.budget().queries == 31
    assert connection.budget().rho_spent == pytest.approx(31 * one, rel=1e-6)


LONG_TAILS = {
    "in the room": "SELECT sum(a.size * b.size + n) "
    "FROM {shops}, (SELECT count(*) AS n FROM visits)",
    "in a process of its own": "SELECT list_sum(list_transform(range(n, 100000000), x -> sin(x))) "
    "FROM (SELECT count(*) AS n FROM visits)",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("tail", LONG_TAILS)
def test_a_tail_can_be_interrupted_and_asked_again(
    tail: str, connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    shops = ", ".join(f"shops AS {letter}" for letter in "abcdefghijkl")
    running = threading.Event()
    before(monkeypatch, TailRunner, "run", running.set)

    def interrupt() -> None:
        running.wait()
        while not over.is_set():
            connection.interrupt()
            over.wait(0.1)

    over = threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    start = time.monotonic()
    try:
        with pytest.raises(dpsql.DataError) as caught:
            connection.sql(LONG_TAILS[tail].format(shops=shops))
    finally:
        over.set()
        running.set()
        thread.join()
    assert caught.value.code == "tail_failed"
    assert time.monotonic() - start < 20
    monkeypatch.undo()
    assert connection.sql("SELECT count(*) FROM visits").cost.stored
    assert connection.budget().queries == 1


@pytest.mark.parametrize(
    "question",
    [QUESTION, f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2){TOP[6:]}"],
)
def test_every_read_draws_a_salt_that_is_not_shown(
    question: str, connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    reads: tuple[tuple[type, str], ...] = ((Reader, "exact"), (DuckDBScratch, "store"))
    for kind, method in reads:
        original = getattr(kind, method)

        def recorded(
            self: object, first: Any, *rest: Any, _original: Callable[..., object] = original
        ) -> object:
            ran.append(text(rest[0] if _original.__name__ == "store" else first))
            return _original(self, first, *rest)

        monkeypatch.setattr(kind, method, recorded)
    for _ in range(3):
        connection.sql(question, fresh=True)
    shown = connection.explain(question).blocks[0].sql
    numbers = [int(present(re.search(r"hash\((\d+)", sql))[1]) for sql in [*ran, shown]]
    assert len(numbers) == 4
    assert len(set(numbers)) == 4


# -- ends and mistakes ----------------------------------------------------------------------------


def test_a_closed_connection_answers_nothing(connection: dpsql.Connection) -> None:
    connection.close()
    connection.close()
    for ask in (
        lambda: connection.sql(QUESTION),
        lambda: connection.explain(QUESTION),
        connection.budget,
    ):
        with fails_with("closed"):
            ask()


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"epsilon": float("nan")}, "parameter_not_finite"),
        ({"epsilon": -1}, "parameter_out_of_range"),
        ({"epsilon": 0}, "parameter_out_of_range"),
        ({"epsilon": 10**400}, None),
        ({"epsilon": "1"}, "parameter_not_number"),
        ({"epsilon": True}, None),
        ({"delta": 2.0}, "parameter_out_of_range"),
        ({"k_bar": 0}, "parameter_out_of_range"),
        ({"k_bar": 2**63}, "parameter_out_of_range"),
        ({"k_bar": 1.5}, "parameter_not_integer"),
        ({"max_groups_contributed": 0}, "parameter_out_of_range"),
        ({"max_rows_contributed": None}, None),
        ({"min_units_per_group": 0}, "parameter_out_of_range"),
        ({"noise": False}, "unknown_parameter"),
        ({"seed": 1}, "unknown_parameter"),
    ],
)
def test_a_parameter_out_of_range_is_refused_at_no_cost(
    parameters: dict[str, Any], code: str | None, shared: dpsql.Connection
) -> None:
    spent = shared.budget()
    with pytest.raises(dpsql.ParameterError) as caught:
        shared.sql(QUESTION, **parameters)
    assert code in (None, caught.value.code)
    assert shared.budget() == spent


def test_an_unknown_analyst_cannot_connect(tmp_path: Path) -> None:
    with (
        world_file(tmp_path / "w.duckdb") as path,
        fails_with("unknown_account"),
    ):
        dpsql.connect(path, policy(), tmp_path / "b.db", "eve")
    assert not (tmp_path / "b.db").exists()


def test_errors_say_where_in_the_text_and_what_to_do(connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.UnknownName) as caught:
        connection.sql("SELECT k,\n  count(*) FROM visits\nWHERE amuont > 3 GROUP BY k")
    place = caught.value.place
    assert place is not None
    assert (place.line, place.column, place.length) == (3, 7, 6)
    assert caught.value.hint == "Did you mean amount?"


# -- locks ----------------------------------------------------------------------------------------

FORBIDDEN = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "COPY (SELECT 1) TO '/tmp/dpsql_must_not_exist.csv'",
    "ATTACH '/tmp/dpsql_must_not_exist.duckdb'",
    "EXPORT DATABASE '/tmp/dpsql_must_not_exist'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '/tmp/dpsql_must_not_exist.duckdb_extension'",
    "SET enable_external_access = true",
    "SET threads = 1",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "PRAGMA threads = 1",
    "SET disabled_optimizers = ''",
    "SELECT * FROM python_object_in_scope",
]


@pytest.mark.parametrize("sql", FORBIDDEN)
@pytest.mark.parametrize("room", ["private", "twin", "tail"])
def test_locked_connections_reach_no_file_setting_or_object(
    room: str, sql: str, shared: dpsql.Connection
) -> None:
    python_object_in_scope = {"a": [1]}
    shared.explain("SELECT upper(s), count(*) FROM visits GROUP BY 1")
    inner = inside(shared, room)
    with pytest.raises(duckdb.Error):
        inner.execute(sql).fetchall()
    assert python_object_in_scope
    assert not list(Path("/tmp").glob("dpsql_must_not_exist*"))


def inside(connection: Connection, room: str) -> duckdb.DuckDBPyConnection:
    engine = connection._answerer.engine
    assert isinstance(engine, OpenDuckDB)
    if room == "twin":
        assert engine._twin is not None
        return engine._twin._connection.cursor()
    held = (
        engine._connection if room == "private" else connection._answerer.tails.tenant.stay().cursor
    )
    return held.cursor()


def test_the_private_file_cannot_be_written(connection: dpsql.Connection) -> None:
    for sql in (
        *("INSERT INTO secret VALUES (1)", "DROP TABLE mails"),
        *("INSERT INTO __dpsql_data.main.secret VALUES (1, 'x')", "DROP TABLE __dpsql_data.secret"),
        *("CREATE TABLE __dpsql_data.main.z (a INT)", "UPDATE __dpsql_data.main.secret SET k = 1"),
    ):
        with pytest.raises(duckdb.Error):
            inside(connection, "private").execute(sql)


@pytest.mark.slow
def test_the_twin_and_the_tail_hold_no_private_rows(connection: dpsql.Connection) -> None:
    counts = "SELECT k, count(*) AS n FROM visits GROUP BY k"
    connection.sql(f"SELECT name, n FROM shops JOIN ({counts}) USING (k)")
    connection.sql("SELECT upper(s), count(*) FROM visits GROUP BY 1")
    twin = inside(connection, "twin")
    alone = Twin(connection._answerer.engine.schema, evidence_for(duckdb.__version__))
    # Which fills it, from the schema and nothing else.
    alone.examine(generated("visits"), [generated("1")])
    rows = "SELECT hash(COLUMNS(*)) FROM visits"
    assert twin.execute(rows).fetchall() == alone._connection.execute(rows).fetchall()
    tables = inside(connection, "tail").execute("SELECT table_name FROM duckdb_tables()").fetchall()
    private = {"visits", "mails", "secret"}
    assert not private & {name for (name,) in tables}


@pytest.mark.slow
def test_a_statement_inside_of_another_is_refused_and_does_not_wait_for_itself(
    tmp_path: Path,
) -> None:
    """A listener to the progress asks its own connection, which is answering."""
    refused: list[str] = []

    def listen(percent: int) -> None:
        if percent == 50:
            assert con.budget().unsettled == 1, "a report is no statement"
            asked = (con.sql, con.explain, con.describe, lambda _: con.close())
            for ask in asked:
                with pytest.raises(dpsql.InterfaceError) as caught:
                    ask("SELECT 1")
                refused.append(caught.value.code)

    con = connect(tmp_path, progress=listen)
    assert len(con.sql("SELECT DISTINCT s FROM visits").fetchall()) == 5
    assert refused == ["connection_busy"] * 4
    assert con.sql("SELECT 1").fetchall() == [(1,)]
    con.close()
