"""Failures on private rows: one may tell something of them, and then the account is suspended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.sql_text import generated, text
from helpers.support import ANALYST, FILL, policy, world_file
from helpers.unchecked_runs import beyond, sent_inside

import dpsql
from dpsql import dbapi
from dpsql.engines.duckdb.engine import DuckDBScratch
from dpsql.interfaces.cli import cli
from dpsql.ledger import Ledger
from dpsql.policy.limits import Limits, ResourceFailures
from dpsql.policy.model import AccountPolicy

ACCOUNT = f"world/{ANALYST}"
QUESTION = "SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k"
OTHER = "SELECT s, COUNT(DISTINCT uid) AS n FROM visits GROUP BY s"
SET_UNION = "SELECT DISTINCT k FROM visits"
FAILS = "SELECT * FROM ({0}) WHERE error('row 4711') IS NULL"
LASTS = "SELECT q.* FROM ({0}) q JOIN range(20_000_000_000) r(i) ON hash(r.i) = 7"
GROWS = (
    "SELECT q.* FROM ({0}) q JOIN (SELECT list(i) AS l FROM range(1_000_000_000) r(i)) ON l <> []"
)

Opened = Callable[..., dpsql.Connection]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Connections to one world and one ledger, with the limits they are given."""
    with world_file(tmp_path / "world.duckdb", *FILL) as path:
        pass

    def open_one(
        limits: Limits | None = None, analyst: str = ANALYST, **parameters: Any
    ) -> dpsql.Connection:
        accounts = {name: AccountPolicy(name, 1000.0, 1e-3) for name in (ANALYST, "bob")}
        rules = replace(policy(None, **accounts), limits=limits or Limits())
        return dpsql.connect(path, rules, tmp_path / "budget.db", analyst, **parameters)

    return open_one


def made(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    """Have generated SQL, once it has been read, run inside other SQL."""
    sent_inside(monkeypatch, lambda: pattern)


def failed(con: dpsql.Connection, sql: str = QUESTION) -> dpsql.EngineError:
    """The failure of a question, which quotes nothing."""
    with pytest.raises(dpsql.EngineError) as caught:
        con.sql(sql)
    error = caught.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert "4711" not in str(error)
    assert "stays spent" in str(error.hint)
    return error


def suspended(con: dpsql.Connection, sql: str = OTHER) -> bool:
    """Whether the account is refused a question."""
    try:
        con.sql(sql)
    except dpsql.LedgerError as error:
        return error.code == "account_suspended"
    return False


@pytest.mark.slow
def test_a_failing_engine_suspends_the_account_everywhere(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bit for each failing query made a salary of 17 bits in 17 queries."""
    with opened() as con, opened() as same, opened(session="notebook") as session:
        known = con.sql(QUESTION).fetchall()
        with monkeypatch.context() as patch:
            made(patch, FAILS)
            error = failed(con, OTHER)
        assert error.code == "engine_failed"
        assert f"dpsql budget owner reopen {ACCOUNT}" in str(error.hint)
        assert all(suspended(each) for each in (con, same, session))
        with opened() as later, opened(session="other") as sub:
            assert suspended(later)
            assert suspended(sub)
            assert later.sql(QUESTION).fetchall() == known, "what it knows, it may have again"
            assert later.explain(OTHER) is not None
            assert later.budget().unsettled == 1
        with opened(analyst="bob") as bob:
            assert not suspended(bob)
    with Ledger.open(tmp_path / "budget.db") as ledger:
        ledger.owner("olga").reopen(ACCOUNT)
    with opened() as con:
        assert not suspended(con)


@pytest.mark.slow
def test_a_failure_in_a_session_suspends_the_analyst(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(session="one") as con:
        with monkeypatch.context() as patch:
            made(patch, FAILS)
            failed(con)
        assert suspended(con)
    for session in ("one", "two", ""):
        with opened(session=session) as con:
            assert suspended(con)


@pytest.mark.slow
@pytest.mark.parametrize("sql", [QUESTION, SET_UNION, "SELECT MEDIAN(n) FROM visits"])
@pytest.mark.parametrize("what", ["store", "integers", "exact", "keys"])
def test_failures_on_stages_are_failures(
    sql: str, what: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = getattr(DuckDBScratch, what)
    called: list[str] = []

    def failing(self: DuckDBScratch, *given: Any) -> object:
        position = 1 if what == "store" else 0
        called.append(what)
        statement = generated(f"SELECT error('row 4711') FROM ({text(given[position])})")
        unread = beyond(self)
        return step(unread, *given[:position], statement, *given[position + 1 :])

    with opened() as con:
        with monkeypatch.context() as patch:
            patch.setattr(DuckDBScratch, what, failing)
            with suppress(dpsql.EngineError):
                con.sql(sql, max_groups_contributed=3)
        assert suspended(con) is bool(called)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("resource_failures", ResourceFailures)
@pytest.mark.parametrize(
    ("limits", "pattern", "code"),
    [
        (Limits(seconds=0.3), LASTS, "time_limit"),
        (Limits(seconds=60, memory="100MB"), GROWS, "memory_limit"),
    ],
    ids=["time", "memory"],
)
def test_limits_end_a_statement_and_the_policy_says_what_then(
    limits: Limits,
    pattern: str,
    code: str,
    resource_failures: ResourceFailures,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = replace(limits, resource_failures=resource_failures)
    suspends = resource_failures is ResourceFailures.SUSPEND
    with opened(limits) as con:
        with monkeypatch.context() as patch:
            made(patch, pattern)
            started = time.monotonic()
            error = failed(con)
        assert error.code == code
        assert time.monotonic() - started < 30
        assert ("reopen" in str(error.hint)) is suspends
        assert suspended(con) is suspends
        assert con.budget().unsettled == 1


@pytest.mark.slow
def test_a_fast_query_is_left_alone_by_the_limit_of_time(opened: Opened) -> None:
    with opened(Limits(seconds=20)) as con:
        assert con.sql(QUESTION).fetchall()
        threads = threading.active_count()
        for _ in range(5):
            con.sql(QUESTION, fresh=True)
        time.sleep(0.1)
        assert threading.active_count() <= threads


def test_what_fails_even_where_the_policy_keeps_accounts_open_for_resources(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(Limits(resource_failures=ResourceFailures.KEEP)) as con:
        with monkeypatch.context() as patch:
            made(patch, FAILS)
            failed(con)
        assert suspended(con)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OverflowError("row 4711"), "engine_failed"),
        (ValueError("row 4711"), "engine_failed"),
        (MemoryError(), "memory_limit"),
        (AssertionError("row 4711"), "engine_failed"),
    ],
)
@pytest.mark.parametrize(
    "where", ["dpsql.kinds.groups.ExactGroups.release", "dpsql.pipeline.purchase.encode_release"]
)
def test_errors_of_ours_on_private_rows_are_failures(
    where: str, error: Exception, code: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    with opened() as con:
        with monkeypatch.context() as patch:
            patch.setattr(where, fail)
            assert failed(con).code == code
        assert suspended(con)


@pytest.mark.slow
def test_interrupts_keep_the_reservation_and_nothing_else(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened() as con:
        with monkeypatch.context() as patch:
            made(patch, LASTS)
            over = threading.Event()

            def interrupting() -> None:
                while not over.wait(0.1):
                    con.interrupt()

            thread = threading.Thread(target=interrupting)
            thread.start()
            try:
                assert failed(con).code == "interrupted"
            finally:
                over.set()
                thread.join()
        assert con.budget().unsettled == 1
        assert not suspended(con)


@pytest.mark.slow
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_is_no_failure(
    error: type[BaseException], opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    with opened() as con:
        with monkeypatch.context() as patch:
            patch.setattr("dpsql.kinds.groups.ExactGroups.release", fail)
            with pytest.raises(error):
                con.sql(QUESTION)
        assert con.budget().unsettled == 1
        assert not suspended(con)


@pytest.mark.slow
def test_who_listens_to_the_progress_may_end_a_query(opened: Opened) -> None:
    class Enough(Exception):
        pass

    def told(percent: int) -> None:
        if percent >= 50:
            raise Enough

    with opened(progress=told) as con:
        with pytest.raises(Enough):
            con.sql(SET_UNION, mechanism="policy_laplace_set_union")
        assert con.budget().unsettled == 1
        assert not suspended(con)


@pytest.mark.slow
def test_nothing_is_asked_until_the_ledger_knows_of_a_failure(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise dpsql.LedgerError("the ledger is busy", code="ledger_busy")

    with opened() as con:
        with monkeypatch.context() as patch:
            made(patch, FAILS)
            patch.setattr(Ledger, "fail", refuse)
            with pytest.raises(dpsql.LedgerError, match="busy"):
                con.sql(QUESTION)
            with pytest.raises(dpsql.LedgerError, match="busy"):
                con.sql(OTHER)
            assert con.budget().queries == 1, "the second was not even reserved"
        assert suspended(con), "the ledger is told as soon as it listens"


@pytest.mark.slow
def test_cursors_of_the_db_api_are_suspended_too(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened() as con:
        with monkeypatch.context() as patch:
            made(patch, FAILS)
            with pytest.raises(dbapi.OperationalError) as caught:
                con.cursor().execute(QUESTION)
        assert caught.value.code == "engine_failed"
        with pytest.raises(dbapi.OperationalError) as caught:
            con.cursor().execute(OTHER)
        assert caught.value.code == "account_suspended"


@pytest.mark.slow
def test_the_shell_and_the_command_line_say_what_to_do(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened().close()
    (tmp_path / "policies.yaml").write_text(
        "version: 1\ndataset: world\n"
        "defaults: {epsilon: 1, delta: 1e-6, max_groups_contributed: 10, left_out_share: 0}\n"
        "accounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
        "tables:\n  visits: {privacy_unit: {column: Uid, name: person}}\n"
    )
    files = ["-d", str(tmp_path / "world.duckdb"), "-p", str(tmp_path / "policies.yaml")]
    files += ["-l", str(tmp_path / "budget.db"), "-a", "ana"]
    with monkeypatch.context() as patch:
        made(patch, FAILS)
        first = CliRunner().invoke(cli, ["shell", *files, "-c", QUESTION])
    said = " ".join((first.output + first.stderr).split())
    assert first.exit_code == 2
    assert "4711" not in said
    assert f"dpsql budget owner reopen {ACCOUNT}" in said
    for command in (["shell", *files, "-c", OTHER], ["query", *files, OTHER]):
        again = CliRunner().invoke(cli, command)
        assert again.exit_code == 2
        assert "account_suspended" in again.output + again.stderr


@pytest.mark.slow
def test_explain_says_the_limits_beforehand(opened: Opened) -> None:
    with opened(Limits(seconds=42, memory="3GB")) as con:
        text = repr(con.explain(QUESTION))
        assert "42 seconds and 3GB of memory" in text
        assert "suspended" in text
        assert "Limits" not in repr(con.explain("SELECT COUNT(*) FROM shops"))
    with opened(Limits(resource_failures=ResourceFailures.KEEP)) as con:
        assert "stays spent" in repr(con.explain(QUESTION))


def test_a_limit_of_memory_below_what_the_data_take_is_refused(tmp_path: Path) -> None:
    engine = dpsql.DuckDBEngine()
    engine.register("t", {"unit": np.arange(3_000_000)})
    with pytest.raises(dpsql.InterfaceError) as caught:
        engine.open((), "1MB")
    assert caught.value.code == "memory_too_small"
    engine.close()
