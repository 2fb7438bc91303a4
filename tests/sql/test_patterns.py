"""Patterns that are written anew mean what they meant to DuckDB, and cost no engine much."""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import pytest
from helpers.random_examples import LENGTH

from dpsql.engines.spark.expressions import SPARK_ROWS
from dpsql.errors import QueryRefused
from dpsql.syntax.patterns import MOST_ATOMS, Pattern, PatternRefused, read_pattern

PIECES = (
    *("a", "b", "K", "s", "é", "😀", " ", "-", "]", "}", ",", "\\d", "\\w", "\\S", "\\s"),
    *("[a-c]", "[^b-d]", "[\\d-]", "[k-t]", "[^\\w]", "[[:alpha:]_]", "[]a]", "[\\]^-]"),
    *("[A-F]", "\\D", ".", "^", "$", "\\A", "\\z", "(", "(?:", ")", "|", "*", "+", "?", "{2}"),
    *("{1,3}", "{0,}", "+?"),
    *("\\.", "\\n", "\\-", "\\\\", "\\$", "/", "'", '"', "#", "&&", "~", "\n"),
)  # fmt: skip
TEXTS = (
    *("", "a", "ab", "aab", "B", "K", "\u212a", "s", "S", "ſ", "é", "É", "😀", "a\nb", "\n"),
    *("0", "42", "a b", "-", "]", "^", "$", ".", "\\", "aé😀b", "x" * 50, "a1_b-2", "bcd", "{2}"),
    *("\t", "\x0b", "\r"),
)  # fmt: skip


def drawn(seed: int, number: int) -> Iterator[tuple[str, bool, Pattern]]:
    """Random patterns that are taken, with whether case is ignored."""
    source = random.Random(seed)
    found = 0
    while found < number:
        text = "".join(source.choices(PIECES, k=source.randint(1, 7)))
        ignore_case = source.random() < 0.4
        try:
            pattern = read_pattern(text, ignore_case=ignore_case)
        except PatternRefused:
            continue
        found += 1
        yield text, ignore_case, pattern


def differing(patterns: Iterator[tuple[str, bool, str]]) -> list[tuple[str, str, str]]:
    """Those that find something else in a text than they did as they were typed."""
    wrong = []
    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (x VARCHAR)")
        connection.executemany("INSERT INTO t VALUES (?)", [(text,) for text in TEXTS])
        for typed, ignore_case, written in patterns:
            constants = [each.replace("'", "''") for each in (typed, written)]
            flag = "i" if ignore_case else "c"
            one = f"regexp_matches(x, '{constants[0]}', '{flag}')"
            found = connection.execute(
                f"SELECT x FROM t WHERE {one} IS DISTINCT FROM regexp_matches(x, '{constants[1]}')"
            ).fetchall()
            wrong += [(typed, written, text) for (text,) in found]
    return wrong


@pytest.mark.parametrize("number", [150, pytest.param(4000, marks=pytest.mark.slow)])
def test_a_pattern_that_is_written_anew_finds_what_it_found(number: int) -> None:
    some = max(10, int(number * min(1, LENGTH)))
    assert differing((t, i, p.text) for t, i, p in drawn(number, some)) == []


def test_what_would_find_something_else_is_noticed() -> None:
    assert differing(iter([("a.b", False, "a(?s:.)b"), ("k", True, "[kK]")])) != []


def test_a_pattern_that_was_written_anew_is_read_as_it_stands() -> None:
    for _, _, pattern in drawn(7, 300):
        again = read_pattern(pattern.text)
        assert again.text == pattern.text
        assert (again.least, again.ways, again.endless) == (
            *(pattern.least, pattern.ways),
            pattern.endless,
        )


@pytest.mark.parametrize(
    "text",
    [
        *("(a+)+$", "(a*)*", "(a|a)*b", "(a?){50}a", "((a{1,9}){1,9})", "(a|b)+", "a**", "(a+)?+"),
        *("a(?i)b", "(?i)(?i)a", "(?i:a)", "(?-i)a"),
        *("a^", "$a", "(a)\\1", "a(?P<x>b)", "\\bword\\b", "\\p{L}", "\\x41", "\\Qa"),
        *("a)", "a{", "{2}", "*a", "[z-a]", "[[:punct:]]", "a{101}", "(?:[a-z]{100}){100}", "\0"),
        *("[a", "\\", "(?=a)", "(a"),
    ],
)  # fmt: skip
def test_a_pattern_that_engines_read_otherwise_or_search_long_is_refused(text: str) -> None:
    with pytest.raises(PatternRefused):
        read_pattern(text)


@pytest.mark.parametrize(
    ("text", "searched"),
    [
        *(("^[a-z]+@x", True), ("[0-9]{4}-[0-9]{2}", True), ("a|b|c?d", True), ("^a.*", True)),
        *(("[0-9]+", True), ("ab?c*", True), ("x+|y+", True), ("[0-9]+$", False)),
        *(("[a-z]+@x", False), ("^a*b*c", False), ("a.*b.*c", False), ("a?" * 12 + "b", False)),
        *(("^a+b|b+b", False), ("(?:^a)?b+c", False)),
    ],
)
def test_spark_searches_for_what_needs_few_tries(text: str, searched: bool) -> None:
    """Java tries one way after the other: a text of n characters must not take n² steps."""
    write = SPARK_ROWS.operations["regexp_matches"]
    if searched:
        write(SPARK_ROWS.text("x"), text)
        return
    with pytest.raises(QueryRefused, match="regular expression"):
        write(SPARK_ROWS.text("x"), text)


@pytest.mark.parametrize("text", ["ab|Cd+", "[a-m]x", "(a)(B)?", "^a$", "é"])
def test_case_is_ignored_where_the_pattern_says_so_in_front(text: str) -> None:
    def read(pattern: str, *, captures: bool, ignore_case: bool = False) -> object:
        try:
            return read_pattern(pattern, ignore_case=ignore_case, captures=captures)
        except PatternRefused as refused:
            return str(refused)

    for captures in (False, True):
        ignored = read(text, ignore_case=True, captures=captures)
        assert read(f"(?i){text}", captures=captures) == ignored
        assert read(f"(?i){text}", ignore_case=True, captures=captures) == ignored
        assert ignored != read(text, captures=captures)


def test_sizes_of_patterns_are_counted() -> None:
    assert read_pattern("^(?:ab){3}[0-9]+x?").least == 7
    assert read_pattern("a{2,5}b?").ways == 8
    assert read_pattern("[a-z]{100}" * (MOST_ATOMS // 100)).atoms == MOST_ATOMS
