"""Statements beside SELECT: read by a grammar of our own, free, and never sent to an engine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.present import present
from helpers.support import ANALYST, FILL, POLICY_TABLES, connect, world_file
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.core.sql import Sql
from dpsql.engines.base.scratch import Reader
from dpsql.engines.duckdb import engine as engine_module
from dpsql.engines.duckdb.engine import DuckDBScratch, OpenDuckDB
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Link, Policy, TablePolicy
from dpsql.policy.parameters import Maxima, Parameters
from dpsql.privacy.accounting.zcdp import ZERO
from dpsql.syntax.client_settings import NO_TRANSACTION, Unchanged
from dpsql.syntax.statements import (
    CreateView,
    Describe,
    DropView,
    Explain,
    RefreshView,
    Reset,
    Select,
    Set,
    Show,
    ShowSubject,
    Statement,
    read_statement,
)

QUESTION = "SELECT k, count(DISTINCT uid) AS n FROM visits GROUP BY k"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with connect(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """A connection for tests that set nothing."""
    with connect(tmp_path_factory.mktemp("shared")) as opened:
        yield opened


def scale(connection: dpsql.Connection, text: str = QUESTION, **parameters: Any) -> float:
    """The noise scale of a query's first column, by which one sees its parameters."""
    return connection.explain(text, **parameters).blocks[0].columns[0].noise_scale


def refused(connection: dpsql.Connection, text: str, **arguments: Any) -> dpsql.Error:
    """The error a statement raises, after checking that it cost nothing."""
    before = connection.budget()
    with pytest.raises(dpsql.Error) as caught:
        connection.sql(text, **arguments)
    assert connection.budget() == before
    return caught.value


def marked(error: dpsql.Error) -> str:
    """The text an error underlines."""
    assert error.place is not None
    start = error.place.column - 1
    return error.place.excerpt[start : start + error.place.length]


# -- reading --------------------------------------------------------------------------------------


def unplaced(statement: Statement) -> object:
    """What a statement says, without where its parts stand."""
    match statement:
        case Set(name, value):
            return name, value
        case Reset(name):
            return name
        case Show(what):
            return what
        case Describe(table):
            return table
        case Explain(_, text) | Select(text):
            return type(statement), text
        case CreateView(name, options, _, text, _, explained):
            return name, dict(options), text, explained
        case RefreshView(name, until):
            return name, until
        case DropView(name):
            return name
        case Unchanged(name, value):
            return name, value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHOW BUDGET", ShowSubject.BUDGET),
        ("SHOW MATERIALIZED VIEWS", ShowSubject.VIEWS),
        ("SHOW ALL TABLES", ShowSubject.ALL_TABLES),
        ("SHOW DATABASES", ShowSubject.DATABASES),
        ("USE main", ShowSubject.SCHEMAS),
        ("PRAGMA show_tables;", ShowSubject.TABLES),
        ('refresh Materialized view "V 1";', ("V 1", None)),
        ("REFRESH MATERIALIZED VIEW v UNTIL TIMESTAMP '2026-01-01'", ("v", "2026-01-01")),
        ("DROP MATERIALIZED VIEW v", "v"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", ("v", {}, " SELECT 1", False)),
        (
            "EXPLAIN CREATE MATERIALIZED VIEW v WITH (step = '1 day', steps = 3) AS SELECT 1;",
            ("v", {"step": "1 day", "steps": 3}, " SELECT 1;", True),
        ),
        ("EXPLAIN CREATE TABLE t", (Explain, "CREATE TABLE t")),
        ("show tables;", ShowSubject.TABLES),
        (
            "\n-- comment\nShow /* of /* nested */ kind */ Parameters ; ; -- end",
            ShowSubject.PARAMETERS,
        ),
        ("SET epsilon = 0.5", ("epsilon", 0.5)),
        ("set EPSILON to .5;", ("epsilon", 0.5)),
        ('SET "k_bar"=500', ("k_bar", 500)),
        ("SET delta = 1e-9", ("delta", 1e-9)),
        ("SET epsilon = -1", ("epsilon", -1)),
        ("SET epsilon = + 2", ("epsilon", 2)),
        ("SET max_groups_contributed = unlimited", ("max_groups_contributed", "unlimited")),
        ("SET max_groups_contributed = NULL", ("max_groups_contributed", "auto")),
        ("SET max_age = NULL", ("max_age", None)),
        ("SET contribution_bounding = 'weight'", ("contribution_bounding", "weight")),
        ("SET k_bar = true", ("k_bar", True)),
        ("RESET k_bar", "k_bar"),
        ("DESCRIBE visits", ("visits",)),
        ('desc "odd ""name"', ('odd "name',)),
        ("describe main . visits;", ("main", "visits")),
        ("EXPLAIN SELECT 1", (Explain, "SELECT 1")),
        ("explain/**/select 1; select 2", (Explain, "select 1; select 2")),
        ("SELECT 1", (Select, "SELECT 1")),
        ("/* EXPLAIN */ SELECT 1", (Select, "/* EXPLAIN */ SELECT 1")),
        ("/* SHOW BUDGET", (Select, "/* SHOW BUDGET")),
        ('"show" budget', (Select, '"show" budget')),
        ("showbudget", (Select, "showbudget")),
        ("", (Select, "")),
    ],
)
def test_a_statement_is_told_by_its_first_word_whatever_its_case_and_comments(
    text: str, expected: object
) -> None:
    assert unplaced(read_statement(text)) == expected


@pytest.mark.parametrize(
    ("text", "code", "underlined"),
    [
        ("SHOW", "syntax_error", ""),
        ("SHOW VIEWS", "syntax_error", "VIEWS"),
        ("SHOW ALL VIEWS", "syntax_error", "ALL"),
        ("SHOW BUDGET OF ana", "syntax_error", "OF"),
        ("SHOW 'budget'", "syntax_error", "'budget'"),
        ("SET", "syntax_error", ""),
        ("SET epsilon", "syntax_error", ""),
        ("SET epsilon 3", "syntax_error", "3"),
        ("SET epsilon =", "syntax_error", ""),
        ("SET epsilon = (1)", "syntax_error", "("),
        ("SET epsilon = 1 + 1", "syntax_error", "+"),
        ("SET epsilon = 1, delta = 1e-9", "syntax_error", ","),
        ("SET epsilon = -'1'", "syntax_error", "'1'"),
        ("SET 'epsilon' = 1", "syntax_error", "'epsilon'"),
        ("SET epsilon = 0.5.5", "syntax_error", ".5"),
        ("RESET", "syntax_error", ""),
        ("RESET epsilon, delta", "syntax_error", ","),
        ("DESCRIBE", "syntax_error", ""),
        ("DESCRIBE SELECT 1", "syntax_error", "SELECT"),
        ("DESCRIBE 'visits'", "syntax_error", "'visits'"),
        ("DESCRIBE visits mails", "syntax_error", "mails"),
        ("SHOW BUDGET; DROP TABLE visits", "several_statements", "DROP"),
        ("SET epsilon = 1; SELECT 1", "several_statements", "SELECT"),
        ("DESCRIBE visits; DESCRIBE mails", "several_statements", "DESCRIBE"),
        ("EXPLAIN ANALYZE SELECT 1", "explain_analyze", "ANALYZE"),
        ("SET threads = 4", "unknown_parameter", "threads"),
        ("SET enable_external_access = true", "unknown_parameter", "enable_external_access"),
        ("SET VARIABLE a = 1", "unknown_parameter", "VARIABLE"),
        ("SET SESSION epsilon = 1", "unknown_parameter", "SESSION"),
        ("SET GLOBAL threads = 1", "unknown_parameter", "GLOBAL"),
        ("SET schema = 'x'", "unknown_parameter", "schema"),
        ("SET mechanism = 'gumbel_top_k'", "unknown_parameter", "mechanism"),
        ("SET epsilom = 1", "unknown_parameter", "epsilom"),
        ("RESET ALL", "unknown_parameter", "ALL"),
        ("RESET threads", "unknown_parameter", "threads"),
        ("SET timezone = 'Europe/Berlin'", "bad_parameter", "'Europe/Berlin'"),
        ("SET TIME ZONE 'CET'", "bad_parameter", "'CET'"),
        ("SET TIME LIMIT 1", "syntax_error", "LIMIT"),
        ("SET search_path TO secret", "bad_parameter", "secret"),
        ("SET search_path TO main, secret", "syntax_error", ","),
        ("SHOW search_path OF ana", "syntax_error", "OF"),
        ("ROLLBACK TO SAVEPOINT a", "syntax_error", "TO"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "syntax_error", "ISOLATION"),
        ("BEGIN; SELECT 1", "several_statements", "SELECT"),
        ("START ALL", "not_a_query", "START"),
        ("PRAGMA threads = 4", "not_a_query", "PRAGMA"),
        ("-- hi\nUSE elsewhere", "not_a_query", "USE"),
        ("EXPLAIN SHOW BUDGET", "not_a_query", "SHOW"),
        ("EXPLAIN EXPLAIN SELECT 1", "not_a_query", "EXPLAIN"),
        ("EXPLAIN INSERT INTO visits VALUES (1)", "not_a_query", "INSERT"),
    ],
)
def test_a_statement_that_is_not_well_formed_is_refused_with_its_place(
    text: str, code: str, underlined: str, shared: dpsql.Connection
) -> None:
    error = refused(shared, text)
    assert (error.code, marked(error)) == (code, underlined)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("SET epsilom = 1", "Did you mean `epsilon`?"),
        ("SET threads = 4", "of the engine cannot be changed"),
        ("PRAGMA threads = 4", "SET epsilon = 0.5"),
        ("DESCRIBE SELECT 1", "EXPLAIN SELECT"),
        ("INSERT INTO visits SELECT 1", "reading only"),
        ("COPY visits TO 'x'", "--format csv"),
        ("SAVEPOINT a", "nothing to commit"),
        ("SET timezone = 'Europe/Berlin'", "cannot be changed"),
        ("ATTACH 'x'", "one database"),
        ("PREPARE a AS SELECT 1", "sql("),
        ("DESCRIBE visit", "`visits`"),
    ],
)
def test_a_refusal_says_what_to_write_instead(
    text: str, advice: str, shared: dpsql.Connection
) -> None:
    assert advice in (refused(shared, text).hint or "")


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SHOW search_path", "search_path", "main"),
        ("show TimeZone;", "timezone", "UTC"),
        ("SET search_path TO main", "search_path", "main"),
        ("SET TIME ZONE 'utc'", "timezone", "UTC"),
        ("SET client_encoding = 'UTF-8'", "client_encoding", "UTF8"),
        ("SET standard_conforming_strings = on", "standard_conforming_strings", "on"),
        ("SET application_name = 'a tool'", "application_name", ""),
        ("SET extra_float_digits = 3", "extra_float_digits", ""),
        ("RESET search_path", "search_path", "main"),
        *((text, "transaction", NO_TRANSACTION) for text in (
            "BEGIN", "BEGIN TRANSACTION READ ONLY", "start transaction", "COMMIT", "commit work;",
            "END", "ROLLBACK", "ABORT",
        )),
    ],
)  # fmt: skip
def test_what_drivers_say_of_a_connection_is_answered_and_changes_nothing(
    text: str, name: str, value: str, shared: dpsql.Connection
) -> None:
    before = shared.budget(), shared.sql("SHOW PARAMETERS").fetchall()
    found = shared.sql(text)
    assert (found.columns, found.fetchall()) == ([name], [(value,)])
    assert [column.name for column in shared.describe(text).columns] == [name]
    cursor = shared.cursor()
    cursor.execute(text)
    assert cursor.fetchone() == (value,)
    assert (shared.budget(), shared.sql("SHOW PARAMETERS").fetchall()) == before


@pytest.mark.slow
@given(st.text(alphabet="EXPLAINSHOWBUDGETset epsilon=.5'\"/*-;\n(", max_size=30))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_reading_any_text_raises_nothing_but_errors_of_our_own(text: str) -> None:
    for prefix in ("", "SET epsilon = ", "SHOW ", "DESCRIBE ", "EXPLAIN "):
        with contextlib.suppress(dpsql.Error):
            read_statement(prefix + text)


def test_a_huge_number_is_out_of_range_rather_than_slow_or_a_crash(
    shared: dpsql.Connection,
) -> None:
    assert refused(shared, f"SET k_bar = {'9' * 90_000}").code == "parameter_not_finite"
    assert refused(shared, f"SET k_bar = {'9' * 300}").code == "parameter_out_of_range"


# -- EXPLAIN --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_explain_answers_the_plan_in_lines_reads_nothing_and_costs_nothing(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("private rows were read")

    monkeypatch.setattr(engine_module, "discreetly", never)
    result = connection.sql(f"EXPLAIN {QUESTION}", epsilon=0.25)
    assert (result.columns, result.types) == (["plan"], ["VARCHAR"])
    assert result.plan.blocks[0].mechanism == connection.explain(QUESTION).blocks[0].mechanism
    assert result.plan.query == QUESTION
    assert result.plan.blocks[0].columns[0].noise_scale == scale(connection, epsilon=0.25)
    lines = [line for (line,) in result.fetchall()]
    assert "\n".join(lines) == str(result.plan)
    assert repr(result) == str(result.plan)
    assert result.cost.reserved_epsilon == result.cost.settled_epsilon == 0.0
    assert connection.budget().queries == 0


@pytest.mark.slow
def test_explain_fits_a_screen_and_shows_sql_where_it_is_asked_for(
    shared: dpsql.Connection,
) -> None:
    lines = [line for (line,) in shared.sql(f"EXPLAIN {QUESTION}").fetchall()]
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100
    assert "Private SQL" not in "\n".join(lines)
    assert any(line.startswith("Reserves") and "of what is left" in line for line in lines)
    some = ", ".join(map(str, range(5000)))
    many = QUESTION.replace(" GROUP", f" WHERE k IN ({some}) GROUP")
    for spelling in ("(SQL)", "( sql ) /* all */"):
        for asked in (QUESTION, many):
            told = "\n".join(line for (line,) in shared.sql(f"EXPLAIN {spelling} {asked}"))
            assert "Private SQL" in told
            assert "…" not in told
    assert "4999" in told
    assert "Private SQL" in shared.explain(f"EXPLAIN (SQL) {QUESTION}")._repr_html_()
    for wrong in ("EXPLAIN (SQL SELECT 1", "EXPLAIN () SELECT 1", "EXPLAIN (JSON) SELECT 1"):
        with pytest.raises(dpsql.Error):
            shared.sql(wrong)


def test_explain_takes_values_mechanisms_and_options_like_the_query_itself(
    shared: dpsql.Connection,
) -> None:
    ranked = f"{QUESTION} ORDER BY n DESC LIMIT 3"
    forced = shared.sql(f"EXPLAIN {ranked}", mechanism="gumbel_top_k")
    assert forced.plan.blocks[0].mechanism == "gumbel_top_k"
    options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.125) count(*) FROM visits"
    assert scale(shared, f"EXPLAIN {options}") == scale(
        shared, "SELECT count(*) FROM visits", epsilon=0.125
    )
    asked = "EXPLAIN SELECT count(*) FROM visits WHERE k = ?"
    assert "'a'" in shared.sql(asked.replace("k =", "s ="), ["a"]).plan.blocks[0].sql
    assert refused(shared, asked).code == "parameter_missing"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("EXPLAIN SELECT kk, count(*) FROM visits GROUP BY kk", 1, 16),
        ("EXPLAIN\nSELECT kk, count(*) FROM visits GROUP BY kk", 2, 8),
        ("-- why\n EXPLAIN SELECT\n  kk, count(*) FROM visits GROUP BY kk", 3, 3),
        ("EXPLAIN SELECT count(*) FROM visits WHERE kk = ?", 1, 48),
    ],
)
def test_errors_inside_explain_point_into_the_whole_text(
    text: str, line: int, column: int, shared: dpsql.Connection
) -> None:
    for ask in (shared.sql, shared.explain):
        with pytest.raises(dpsql.Error) as caught:
            ask(text)
        place = caught.value.place
        assert place is not None
        assert (place.line, place.column) == (line, column)
        assert place.excerpt == text.split("\n")[line - 1]


def test_syntax_errors_inside_explain_point_into_the_whole_text(shared: dpsql.Connection) -> None:
    error = refused(shared, "EXPLAIN SELECT count(*)) FROM visits")
    assert error.code == "syntax_error"
    assert error.place is not None
    assert error.place.excerpt == "EXPLAIN SELECT count(*)) FROM visits"
    assert error.place.column >= 24


# -- SET and RESET --------------------------------------------------------------------------------


def test_what_is_set_holds_for_later_queries_until_it_is_reset(
    connection: dpsql.Connection,
) -> None:
    usual = scale(connection)
    connection.sql("SET epsilon = 0.5")
    assert scale(connection) == scale(connection, epsilon=0.5) > 2 * usual
    assert connection.sql(QUESTION).cost.reserved_epsilon <= 0.5
    connection.sql("SET epsilon = 0.25")
    connection.sql("SET max_rows_contributed = 2")
    assert scale(connection) == scale(connection, epsilon=0.25)
    connection.sql("RESET epsilon")
    assert scale(connection) == usual
    row = connection.sql("RESET max_rows_contributed").fetchall()
    assert row == [("max_rows_contributed", "10", "policy", None)]


@pytest.mark.slow
def test_the_nearest_setting_wins(tmp_path: Path) -> None:
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={}) count(*) FROM visits"
    plain = "SELECT count(*) FROM visits"
    with connect(tmp_path, epsilon=4.0) as opened:
        assert scale(opened, plain) == scale(opened, plain, epsilon=4.0)
        opened.sql("SET epsilon = 2")
        assert scale(opened, plain) == scale(opened, plain, epsilon=2.0)
        assert scale(opened, plain, epsilon=1.0) == scale(opened, clause.format(1.0))
        assert scale(opened, clause.format(0.5), epsilon=1.0) == scale(opened, clause.format(0.5))
        opened.sql("RESET epsilon")
        assert scale(opened, plain) == scale(opened, plain, epsilon=4.0)
    assert len({scale_of(e, tmp_path) for e in (0.5, 1.0, 2.0, 4.0)}) == 4


def scale_of(epsilon: float, directory: Path) -> float:
    path, ledger = directory / "world.duckdb", directory / "budget.db"
    with dpsql.connect(path, rules(), ledger, ANALYST, epsilon=epsilon) as opened:
        return scale(opened, "SELECT count(*) FROM visits")


def rules(**changes: Any) -> Policy:
    accounts = {ANALYST: AccountPolicy(ANALYST, 1000.0, 1e-3)}
    defaults = Parameters(epsilon=5.0, delta=1e-6)
    return Policy("world", defaults, accounts=accounts, tables=POLICY_TABLES, **changes)


@pytest.mark.parametrize(
    ("text", "code", "underlined"),
    [
        ("SET epsilon = 9", "parameter_out_of_range", "9"),
        ("SET epsilon TO -1", "parameter_out_of_range", "-1"),
        ("SET epsilon = 1e999", "parameter_not_finite", "1e999"),
        ("SET epsilon = nan", "parameter_not_number", "nan"),
        ("SET epsilon = '1'", "parameter_not_number", "'1'"),
        ("SET k_bar = 1.5", "parameter_not_integer", "1.5"),
        ("SET k_bar = NULL", "parameter_not_integer", "NULL"),
        ("SET max_groups_contributed = unlimited", "parameter_out_of_range", "unlimited"),
        ("SET min_units_per_group = 0", "parameter_out_of_range", "0"),
        ("SET contribution_bounding = none", "parameter_not_a_choice", "none"),
    ],
)
def test_what_is_set_is_checked_against_the_policy_and_refused_values_change_nothing(
    text: str, code: str, underlined: str, tmp_path: Path
) -> None:
    maxima = Maxima(epsilon=8.0, max_groups_contributed=20)
    with (
        world_file(tmp_path / "world.duckdb") as path,
        dpsql.connect(path, rules(maxima=maxima), tmp_path / "b.db", ANALYST) as opened,
    ):
        opened.sql("SET epsilon = 7")
        before = opened.sql("SHOW PARAMETERS").fetchall()
        error = refused(opened, text)
        assert isinstance(error, dpsql.ParameterError)
        assert (error.code, marked(error)) == (code, underlined)
        assert opened.sql("SHOW PARAMETERS").fetchall() == before


@pytest.mark.slow
def test_settings_belong_to_one_connection(tmp_path: Path) -> None:
    with connect(tmp_path) as one:
        one.sql("SET epsilon = 0.5")
        path, ledger = tmp_path / "world.duckdb", tmp_path / "budget.db"
        with dpsql.connect(path, rules(), ledger, ANALYST) as other:
            assert ("epsilon", "5.0", "policy", None) in other.sql("SHOW PARAMETERS").fetchall()


def test_show_parameters_says_what_is_in_force_and_where_it_comes_from(tmp_path: Path) -> None:
    maxima = Maxima(epsilon=8.0, k_bar=5000)
    with (
        world_file(tmp_path / "world.duckdb") as path,
        dpsql.connect(
            path, rules(maxima=maxima), tmp_path / "b.db", ANALYST, k_bar=70, epsilon=3.0
        ) as opened,
    ):
        opened.sql("SET epsilon = 2")
        opened.sql("SET max_groups_contributed = unlimited")
        result = opened.sql("SHOW PARAMETERS")
        assert result.columns == ["parameter", "value", "source", "limit"]
        shown = {name: rest for name, *rest in result.fetchall()}
        assert shown["epsilon"] == ["2.0", "SET", "at most 8.0"]
        assert shown["k_bar"] == ["70", "connect()", "at most 5000"]
        assert shown["max_groups_contributed"] == ["unlimited", "SET", None]
        assert shown["delta"] == ["1e-06", "policy", None]
        assert shown["min_units_per_group"] == ["1", "policy", "at least 1"]


# -- SHOW and DESCRIBE ----------------------------------------------------------------------------


def test_show_budget_says_what_budget_says(connection: dpsql.Connection) -> None:
    connection.sql(QUESTION)
    result, report = connection.sql("SHOW BUDGET"), connection.budget()
    assert result.columns == ["account", "quantity", "spent", "remaining", "limit"]
    rows = result.fetchall()
    assert list(dict.fromkeys(row[0] for row in rows)) == [a.path for a in report.accounts]
    promise = present(report.promise)
    assert [row[4] for row in rows[-2:]] == [promise.epsilon, promise.delta]
    shown = {name: rest for account, name, *rest in rows if account == report.account}
    assert shown["rho"] == [report.rho_spent, report.rho_remaining, report.rho_limit]
    assert shown["delta"] == [report.delta_spent, report.delta_remaining, report.delta_limit]
    assert shown["epsilon"] == [report.epsilon_spent, report.epsilon_remaining, report.epsilon]
    assert shown["queries"] == [1.0, None, None]
    assert connection.budget() == report


@pytest.mark.slow
def test_show_budget_needs_a_ledger_as_budget_does(tmp_path: Path) -> None:
    with (
        world_file(tmp_path / "world.duckdb") as path,
        dpsql.connect(path, rules(), None, ANALYST) as opened,
    ):
        assert opened.sql("SHOW TABLES").fetchall()
        assert opened.sql(f"EXPLAIN {QUESTION}").plan.blocks
        with fails_with("no_ledger"):
            opened.sql("SHOW BUDGET")


def test_tables_that_the_policy_does_not_list_do_not_exist(shared: dpsql.Connection) -> None:
    assert shared.sql("SHOW TABLES").fetchall() == [
        ("mails", "private", "mailbox", None, None),
        ("shops", "public", None, None, None),
        ("visits", "private", "person", None, None),
    ]
    hidden, absent = refused(shared, "DESCRIBE secret"), refused(shared, "DESCRIBE nothng")
    assert hidden.code == absent.code == "unknown_table"
    assert hidden.reason.replace("secret", "") == absent.reason.replace("nothng", "")
    assert hidden.hint == absent.hint
    assert refused(shared, "DESCRIBE other.visits").code == "unknown_table"
    described = shared.sql("DESCRIBE visits").fetchall()
    for name in ("main.visits", "PUBLIC.Visits", '"main"."visits"'):
        assert shared.sql(f"DESCRIBE {name}").fetchall() == described


def test_describe_shows_types_and_what_the_policy_declares(shared: dpsql.Connection) -> None:
    result = shared.sql("describe VISITS")
    assert result.columns == [
        "column_name",
        "column_type",
        "access",
        "lower",
        "upper",
        "domain",
    ]
    columns = {name: rest for name, *rest in result.fetchall()}
    assert columns["Uid"] == ["BIGINT", "privacy unit: person", None, None, None]
    assert columns["x"] == ["DOUBLE", "private", -2.5, 10.0, None]
    assert columns["amount"] == ["DECIMAL(12,2)", "private", 0.0, 100.0, None]
    assert columns["c"] == ["VARCHAR", "private", None, None, "'red', 'green', 'blue'"]
    assert list(columns)[:3] == ["Uid", "k", "s"]
    public = shared.sql("DESCRIBE shops").fetchall()
    assert {row[2] for row in public} == {"public"}


def test_describe_names_the_link_that_leads_to_the_unit(tmp_path: Path) -> None:
    lines = TablePolicy("lines", None, {"price": ColumnPolicy(0, 10)}, Link("order", "visits", "k"))
    tables = {**POLICY_TABLES, "lines": lines}
    linked = Policy("world", accounts=rules().accounts, tables=tables)
    create = 'CREATE TABLE lines ("order" INTEGER, price DOUBLE)'
    with (
        world_file(tmp_path / "world.duckdb", create) as path,
        dpsql.connect(path, linked, None, ANALYST) as opened,
    ):
        rows = opened.sql("DESCRIBE lines").fetchall()
        assert rows[0][2] == "link to visits.k, privacy unit: person"
        assert rows[1][2:5] == ("private", 0.0, 10.0)
        listed = {name: rest for name, *rest in opened.sql("SHOW TABLES").fetchall()}
        assert listed["lines"] == ["private", "person", None, None]


@pytest.mark.parametrize(
    "text", ["SHOW BUDGET", "SHOW TABLES", "SHOW PARAMETERS", "DESCRIBE visits", "SET k_bar = 9"]
)
def test_answers_beside_queries_are_ordinary_results_without_cost(
    text: str, connection: dpsql.Connection
) -> None:
    before = connection.budget()
    result = connection.sql(text)
    assert connection.budget() == before
    assert result.cost.settled == result.cost.reserved == ZERO
    assert result.cost.settled_epsilon == 0.0
    assert (result.released, result.intervals(), result.plan.blocks) == (False, {}, ())
    assert len(result.columns) == len(result.types) == len(result.fetchall()[0])
    assert result.arrow().column_names == list(result.df().columns) == result.columns
    assert result.arrow().num_rows == len(list(result)) == len(result)
    printed, html = repr(result), result._repr_html_()
    for shown in (printed, html):
        assert "paid" not in shown
        assert all(column in shown for column in result.columns)
    assert result.plan.query == text


@pytest.mark.parametrize("text", ["SHOW BUDGET", "DESCRIBE visits", "SET k_bar = 9", "RESET k_bar"])
@pytest.mark.parametrize("arguments", [{"values": [1]}, {"mechanism": "x"}, {"epsilon": 1.0}])
def test_arguments_of_queries_are_not_silently_ignored(
    text: str, arguments: dict[str, object], shared: dpsql.Connection
) -> None:
    assert refused(shared, text, **arguments).code == "arguments_not_taken"


def test_statements_do_nothing_on_a_closed_connection(connection: dpsql.Connection) -> None:
    connection.close()
    for text in ("SHOW TABLES", "SET epsilon = 1", "EXPLAIN SELECT 1", "nonsense"):
        with fails_with("closed"):
            connection.sql(text)


@pytest.mark.slow
def test_threads_may_set_and_ask_at_once(connection: dpsql.Connection) -> None:
    usual = {scale(connection, epsilon=epsilon) for epsilon in (0.5, 1.0)}
    connection.sql("SET epsilon = 0.5")
    seen: list[float] = []

    def work(epsilon: float) -> None:
        for _ in range(10):
            connection.sql(f"SET epsilon = {epsilon}")
            seen.append(scale(connection))

    threads = [threading.Thread(target=work, args=(epsilon,)) for epsilon in (0.5, 1.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 20
    assert set(seen) <= usual


def test_no_statement_of_ours_reaches_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    for owner, name in (
        (OpenDuckDB, "bind"),
        (Reader, "exact"),
        (DuckDBScratch, "store"),
        (DuckDBScratch, "exact"),
    ):
        original = getattr(owner, name)

        def watched(
            self: object, *arguments: Any, original: Callable[..., object] = original
        ) -> object:
            sent.extend(part.render(DUCKDB_TEXT) for part in arguments if isinstance(part, Sql))
            return original(self, *arguments)

        monkeypatch.setattr(owner, name, watched)
    with connect(tmp_path, *FILL) as opened:
        for text in ("SHOW BUDGET", "SHOW TABLES", "DESCRIBE visits", "SET k_bar = 9"):
            opened.sql(text)
        assert not sent
