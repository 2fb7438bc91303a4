"""Statements meant to do harm are refused before anything is spent, or answered like any other."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.attacks import ANSWERS, ATTACKS, TELLS, Attack
from helpers.support import NO_NUMBER, connect
from helpers.work import within
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsql


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("attacks"), defaults=NO_NUMBER) as opened:
        opened.sql("SELECT count(*) FROM visits")  # what is set up once is not timed below
        yield opened


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.sql[:60])
def test_an_attack_has_its_stated_outcome_and_a_refusal_is_free(
    attack: Attack, connection: dpsql.Connection
) -> None:
    before = connection.budget()
    if attack.outcome == ANSWERS:
        connection.sql(attack.sql, fresh=True)
        assert connection.budget().rho_spent > before.rho_spent, attack.why
        return
    if attack.outcome == TELLS:
        connection.sql(attack.sql)
        assert connection.budget() == before, attack.why
        return
    took = []
    for _ in range(2):  # whatever else this process does, it does not do twice
        began = time.process_time()
        with pytest.raises(dpsql.Error) as caught:
            connection.sql(attack.sql)
        took.append(time.process_time() - began)
    assert caught.value.code == attack.outcome, attack.why
    assert not isinstance(caught.value, dpsql.EngineError | dpsql.DataError)
    assert caught.value.__cause__ is None
    assert connection.budget() == before
    assert within(min(took), 1.0)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.sql[:60])
def test_what_the_usual_number_answers_is_answered_without_one(
    attack: Attack, connection: dpsql.Connection
) -> None:
    """And what is refused with a number is refused without one, for the same reason."""
    if attack.outcome == TELLS:
        return

    def outcome(**parameters: Any) -> str:
        try:
            connection.explain(attack.sql, **parameters)
        except dpsql.Error as error:
            return str(error.code)
        return ANSWERS

    assert outcome() == outcome(max_groups_contributed=10)


def nested(start: str, end: str, times: int) -> str:
    return start * times + "s" + end * times


DOUBLING = ["k AS a0", *(f"a{i - 1} + a{i - 1} AS a{i}" for i in range(1, 60))]
OVERSIZED = {
    "five thousand conditions": ("k = 1 AND " * 5000 + "k = 1", "query_too_large"),
    "a thousand terms": ("n + " * 1000 + "n > 0", "query_too_deep"),
    "ten thousand terms": ("n + " * 10_000 + "n > 0", "query_too_large"),
    "a thousand parentheses": ("(" * 1000 + "k = 1" + ")" * 1000, "query_too_deep"),
    "three thousand NOTs": ("NOT " * 3000 + "flag", "query_too_deep"),
    "five thousand NOTs": ("NOT " * 5000 + "flag", "query_too_large"),
    "three thousand minus signs": ("- " * 3000 + "k = 1", "query_too_deep"),
    "five thousand minus signs": ("- " * 5000 + "k = 1", "query_too_large"),
    "nested CASE": ("CASE WHEN flag THEN " * 300 + "flag" + " END" * 300, "query_too_deep"),
    "chained IS NULL": ("k" + " IS NULL" * 1900, "query_too_deep"),
    "parts of parts": (nested("string_split(", ", ',')[2]", 12) + " = 'a'", "query_too_large"),
    "bytes of bytes": (nested("strlen(", ")::VARCHAR", 9) + " = 'a'", "query_too_large"),
    "patterns of patterns": (nested("(s LIKE ", ")::VARCHAR", 11) + " = 'a'", "query_too_large"),
    "signs of signs": (
        nested("(", " LIKE 'a!%%b' ESCAPE '!')::VARCHAR", 12) + " = 'a'",
        "query_too_large",
    ),
    "twice as many": ("k" + " IS NULL" * 4000, "query_too_large"),
    "a megabyte of text": (f"s = '{'x' * (1 << 20)}'", "query_too_long"),
    "a number of 39 digits": ("k > 1" + "0" * 38, "number_too_long"),
    "half a character": ("s = '\ud800'", "syntax_error"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OVERSIZED)
def test_an_oversized_condition_is_refused_at_once(name: str, connection: dpsql.Connection) -> None:
    condition, code = OVERSIZED[name]
    refused_at_once(connection, f"SELECT count(*) FROM visits WHERE {condition}", code)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (f"SELECT {', '.join(DOUBLING)}, count(*) FROM visits GROUP BY ALL", "query_too_large"),
        (f"SELECT {'count(*) + ' * 700}count(*) FROM visits", "query_too_deep"),
        (f"SELECT {'count(*) + ' * 5000}count(*) FROM visits", "query_too_large"),
        ("SELECT count(*) FROM visits" + " UNION ALL SELECT 1" * 500, "query_too_deep"),
        (f"SELECT count(*) FROM {'a' * 90_000}", "unknown_table"),
        (f"SELECT {'a' * 90_000} FROM visits", "unknown_column"),
        ("SELECT count(*) FROM visits\0; DROP TABLE x", "several_statements"),
        ("\0", "not_a_query"),
        ("", "syntax_error"),
        ('SELECT count(*) AS "" FROM visits', "does_not_bind"),
        ('SELECT count(*) AS "\udfff" FROM visits', "syntax_error"),
        ("\ufeffSELECT count(*) FROM visits", "syntax_error"),
    ],
    ids=range(12),
)
def test_an_oversized_or_garbled_statement_is_refused_at_once(
    sql: str, code: str, connection: dpsql.Connection
) -> None:
    refused_at_once(connection, sql, code)


def refused_at_once(connection: dpsql.Connection, sql: str, code: str) -> None:
    before = connection.budget()
    for _ in range(3):  # a busy machine can be slow once
        began = time.process_time()
        with pytest.raises(dpsql.Error) as caught:
            connection.sql(sql)
        if quick := within(time.process_time() - began, 1.0):
            break
    assert caught.value.code == code
    assert connection.budget() == before
    assert len(str(caught.value)) < 1000 or "a" * 1000 in str(caught.value)
    assert quick


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM visits WHERE s = 'a\0b'",
        "SELECT count(*) FROM visits WHERE s = '\u202e'",
        "SELECT\u00a0count(*) FROM visits",
        f"SELECT count(*) AS {'a' * 90_000} FROM visits",
        f"SELECT count(*) FROM visits WHERE s = '{'x' * 99_000}'",
        f"SELECT count(*) FROM visits WHERE k IN ({', '.join(map(str, range(7_000)))})",
    ],
    ids=range(6),
)
def test_odd_but_legal_text_is_answered(sql: str, connection: dpsql.Connection) -> None:
    assert len(connection.sql(sql).fetchall()) == 1


@pytest.mark.parametrize("query", [None, 5, b"SELECT 1", ["SELECT 1"], object()])
def test_what_is_not_text_is_refused(query: Any, connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.SQLSyntaxError):
        connection.sql(query)


WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "OFFSET",
    "DISTINCT",
    "ALL",
    "AS",
    "WITH",
    "RECURSIVE",
    "UNION",
    "EXCEPT",
    "VALUES",
    "JOIN",
    "LEFT",
    "LATERAL",
    "USING",
    "ON",
    "OVER",
    "PARTITION BY",
    "FILTER",
    "QUALIFY",
    "WINDOW",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS",
    "NULL",
    "BETWEEN",
    "LIKE",
    "CAST",
    "EXTRACT",
    "INTERVAL",
    "DAY",
    "EXISTS",
    "ROLLUP",
    "visits",
    "mails",
    "shops",
    "secret",
    "uid",
    "k",
    "s",
    "n",
    "x",
    "d",
    "v",
    "t",
    "count(*)",
    "count",
    "sum",
    "avg",
    "max",
    "count(DISTINCT uid)",
    "sum(n)",
    "unnest",
    "range",
    "(",
    ")",
    "(",
    ")",
    ",",
    ",",
    "*",
    "+",
    "-",
    "/",
    "//",
    "%",
    "=",
    "<",
    ">",
    "<>",
    ".",
    "::",
    ";",
    "--",
    "/*",
    "*/",
    "'a'",
    '"a"',
    "'",
    '"',
    "1",
    "0",
    "-1",
    "1.5",
    "1e400",
    "[",
    "]",
    "{",
    "}",
    "?",
    "$1",
    ":a",
    "@",
    "#1",
    "->",
    "",
    "",
    "PIVOT",
    "TABLE",
    "EXCLUDE",
    "COLUMNS(*)",
    "INT",
    "VARCHAR",
    "desc",
    "nulls first",
]
FRAMES = (
    "{}",
    "SELECT {} FROM visits",
    "SELECT count(*) FROM visits WHERE {}",
    "SELECT k, count(*) AS v FROM visits GROUP BY {}",
    "SELECT k, count(*) AS v FROM visits GROUP BY k ORDER BY {}",
    "SELECT k, {} FROM visits GROUP BY k",
    "SELECT {} FROM (SELECT k, count(*) AS v FROM visits GROUP BY k) AS t",
    "WITH t AS ({}) SELECT * FROM t",
    "SELECT sum({}) FROM visits",
)


@pytest.mark.slow
@given(st.sampled_from(FRAMES), st.lists(st.sampled_from(WORDS), min_size=1, max_size=9))
@settings(
    max_examples=600,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_random_words_raise_nothing_but_errors_of_our_own(
    connection: dpsql.Connection, frame: str, words: list[str]
) -> None:
    with contextlib.suppress(dpsql.Error):
        connection.explain(frame.format(" ".join(words)))
