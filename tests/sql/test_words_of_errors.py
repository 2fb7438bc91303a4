"""Errors speak of what was typed: its words, its place, and what may have been meant."""

from __future__ import annotations

import re

import pytest
from helpers.attacks import ANSWERS, ATTACKS, TELLS, Attack
from helpers.support import connect

import dpsql
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.errors import Place

OUTCOMES = (ANSWERS, TELLS)
REFUSED = [attack for attack in ATTACKS if attack.outcome not in OUTCOMES]
NAMED = re.compile(r"\bthe (?:function|aggregate) (\w+)")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> dpsql.Connection:
    return connect(tmp_path_factory.mktemp("words"))


def refusal(connection: dpsql.Connection, sql: str) -> dpsql.Error:
    with pytest.raises(dpsql.Error) as refused:
        connection.sql(sql)
    return refused.value


def pointed_at(error: dpsql.Error) -> str:
    place = error.place
    assert isinstance(place, Place)
    return place.excerpt[place.column - 1 :][: place.length]


# -- functions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("random()", "random"),
        ("unnest([n])", "unnest"),
        ("damerau_levenshtein(s, 'a')", "damerau_levenshtein"),
        ("now(3)", "now"),
        ("CURRENT_DATE('Nowhere')", "current_date"),
        ("RegExp_Split_To_Array(s, 'a')", "regexp_split_to_array"),
        ("epoch_ms(ts)", "epoch_ms"),
        ("Nonsense(s)", "nonsense"),
    ],
)
def test_a_function_is_called_what_it_was_called(
    connection: dpsql.Connection, call: str, name: str
) -> None:
    error = refusal(connection, f"SELECT count(*) FROM visits WHERE {call} IS NULL")
    assert error.code == "expression_not_allowed"
    assert f"the function {name} is" in str(error)
    assert pointed_at(error).lower().startswith(name)


@pytest.mark.parametrize(
    "name", ["string_agg", "group_concat", "list", "array_agg", "approx_top_k"]
)
def test_an_aggregate_is_called_what_it_was_called(connection: dpsql.Connection, name: str) -> None:
    error = refusal(connection, f"SELECT {name}(s) FROM visits")
    assert error.code == "aggregate_not_supported"
    assert f"the aggregate {name} is" in str(error)
    assert pointed_at(error) == f"{name}(s)"


def test_an_operator_is_called_no_function(connection: dpsql.Connection) -> None:
    error = refusal(connection, "SELECT count(*) FROM visits WHERE s -> 'q' = 'a'")
    assert error.code == "expression_not_allowed"
    assert "the function" not in str(error).split("\n", 1)[0]


@pytest.mark.slow
def test_no_refusal_names_a_function_that_was_not_typed(connection: dpsql.Connection) -> None:
    named = [(name, attack.sql) for attack in REFUSED for name in names_in(connection, attack)]
    assert len(named) > 50
    assert [(n, sql) for n, sql in named if not re.search(rf"\b{n}\b", sql, re.IGNORECASE)] == []


def names_in(connection: dpsql.Connection, attack: Attack) -> list[str]:
    return NAMED.findall(str(refusal(connection, attack.sql)).split("\n", 1)[0])


# -- what was meant -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "typed", "meant"),
    [
        ("SELECT coutn(*) FROM visits", "coutn(*)", "count"),
        ("SELECT summ(n) FROM visits", "summ(n)", "sum"),
        ("SELECT k, averge(n) FROM visits GROUP BY k", "averge(n)", None),
        ("SELECT count(*) FROM visits WHERE uper(s) = 'A'", "uper(s)", "upper"),
        ("SELECT count(*) FROM visits WHERE lenght(s) = 3", "lenght(s)", "length"),
        ("SELECT histogram(n, 3) FROM visits", "histogram(n, 3)", None),
    ],
)
def test_a_misspelled_function_is_no_matter_of_privacy(
    connection: dpsql.Connection, sql: str, typed: str, meant: str | None
) -> None:
    error = refusal(connection, sql)
    assert error.code == "expression_not_allowed"
    assert pointed_at(error) == typed
    said = re.findall(r"Did you mean (\w+)", error.hint or "")
    assert said == ([] if meant is None else [meant])


@pytest.mark.parametrize(
    ("sql", "typed", "meant"),
    [
        ("selct count(*) from visits", "selct", "SELECT"),
        ("select count(*) form visits", "form", "FROM"),
        ("select count(*) from visits wehre k = 3", "wehre", "WHERE"),
        ("select k, count(*)\nfrom visits\ngrop by k", "grop", "GROUP"),
        ("select k, count(*) from visits group by k oder by 2", "oder", "ORDER"),
        ("select k, count(*) from visits group by k limt 3", "limt", "LIMIT"),
    ],
)
def test_a_misspelled_keyword_is_pointed_at(
    connection: dpsql.Connection, sql: str, typed: str, meant: str
) -> None:
    error = refusal(connection, sql)
    assert error.code == "syntax_error"
    assert (pointed_at(error), error.hint) == (typed, f"Did you mean {meant}?")


@pytest.mark.parametrize(
    "sql", ["select count(*) from orders group k", "select count(*) from orders where", "select )"]
)
def test_a_table_with_a_name_like_a_keyword_is_no_misspelling(
    connection: dpsql.Connection, sql: str
) -> None:
    error = refusal(connection, sql)
    assert error.code == "syntax_error"
    assert "Did you mean" not in (error.hint or "")


# -- what an engine says --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "typed"),
    [
        ("SELECT count(*) FROM visits WHERE year(s) = 3", "year"),
        ("SELECT k, coutn(*) + 1 FROM visits GROUP BY k", "coutn"),
    ],
)
def test_what_does_not_bind_is_pointed_at(
    connection: dpsql.Connection, sql: str, typed: str
) -> None:
    error = refusal(connection, sql)
    assert error.code == "does_not_bind"
    assert pointed_at(error) == typed
    assert "Error:" not in str(error)


def test_a_part_of_a_column_is_no_missing_column(connection: dpsql.Connection) -> None:
    error = refusal(connection, "SELECT count(*) FROM visits WHERE s.a = 1")
    assert error.code == "unknown_column"
    assert "s is a column" in str(error)


def test_an_unknown_table_is_named_without_its_alias(connection: dpsql.Connection) -> None:
    error = refusal(connection, "SELECT count(*) FROM visits v JOIN ghosts AS g ON g.k = v.k")
    assert "there is no table ghosts (" in str(error)


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        ("SELECT sum(t) FROM (SELECT uid, s || 'a' AS t FROM visits)", "not_numeric", "column t "),
        (
            "SELECT sum(t) FROM (SELECT uid, max(s) AS t FROM visits GROUP BY uid)",
            "not_numeric",
            "CAST(t AS DOUBLE)",
        ),
        (
            'SELECT sum("a b") FROM (SELECT uid, ts - ts AS "a b" FROM visits)',
            "not_numeric",
            'epoch("a b")',
        ),
        (
            "SELECT r, count(*) FROM (SELECT uid, rank() OVER (ORDER BY count(*)) AS r FROM visits "
            "GROUP BY uid) GROUP BY r",
            "window_over_private_rows",
            "PARTITION BY has to name Uid",
        ),
    ],
)
def test_columns_of_subqueries_are_called_what_the_statement_calls_them(
    connection: dpsql.Connection, sql: str, code: str, words: str
) -> None:
    error = refusal(connection, sql)
    assert error.code == code
    assert words in str(error)
    assert INTERNAL_PREFIX not in str(error)


def test_no_refusal_speaks_of_names_that_the_statement_does_not_have(
    connection: dpsql.Connection,
) -> None:
    told = {}
    for attack in REFUSED:
        try:
            connection.explain(attack.sql)
        except dpsql.Error as error:
            if INTERNAL_PREFIX in str(error) and INTERNAL_PREFIX not in attack.sql.lower():
                told[attack.sql] = str(error)
    assert told == {}
