"""Patterns of LIKE on Spark: what they match, and that no text makes them slow."""

from __future__ import annotations

import itertools
import random
import re
import time

import pytest
import sqlglot
from helpers.columns import column_of
from helpers.dialects import SPARK

from dpsql.core.schema import Table
from dpsql.syntax.patterns import like_pattern

_TABLE = Table("t", (column_of("s", "VARCHAR"),))


def like(text: str, pattern: str) -> bool:
    """Match by the definition."""
    reached = {0}
    for each in pattern:
        if each == "%":
            reached = set(range(min(reached), len(text) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(text) and each in ("_", text[at])}
    return len(text) in reached


def compiled(pattern: str) -> re.Pattern[str]:
    found = like_pattern(pattern, backtracks=True)
    assert found is not None
    return re.compile(found.replace(r"\z", r"\Z"))  # as Python writes the end of a text


def test_all_short_patterns_match_what_they_say() -> None:
    texts = ["".join(each) for n in range(5) for each in itertools.product("ab", repeat=n)]
    tried = 0
    for n in range(2, 6):
        for each in itertools.product("ab_%", repeat=n):
            pattern = "".join(each)
            if like_pattern(pattern, backtracks=True) is None:
                continue
            written = compiled(pattern)
            tried += 1
            for text in texts:
                assert bool(written.search(text)) == like(text, pattern), (text, pattern)
    assert tried > 400


@pytest.mark.slow
def test_characters_that_mean_something_elsewhere_mean_themselves() -> None:
    chance = random.Random(5)
    alphabet = [*r".*+?()[]{}|^$\/-#&~ ", "\n", "\t", "é", "日", "\x00", "%", "_", "E", "Q"]
    for _ in range(3000):
        pattern = "%" + "".join(chance.choices(alphabet, k=5)) + "%x%"
        text = pattern.replace("%", chance.choice(["", "\n", "yx"])) + chance.choice(["", "x"])
        assert bool(compiled(pattern).search(text)) == like(text, pattern), (text, pattern)


@pytest.mark.parametrize(
    "pattern",
    ["%a%a%a%a%b", "%a_%a_%a_%a_%b", "%_%_%_%_%b", "a%a%a%a%b", "%%%%%%b", "%a%%%a%%b", "a%%%%b"],
)
def test_time_grows_with_the_text_and_not_with_its_power(pattern: str) -> None:
    took = []
    for size in (20_000, 80_000):
        began = time.process_time()
        assert not compiled(pattern).search("a" * size)
        took.append(time.process_time() - began)
    assert took[1] < 1.0


@pytest.mark.slow
def test_what_spark_itself_makes_of_such_a_pattern_is_not_so() -> None:
    """The regular expression of LIKE as Spark writes it."""
    began = time.process_time()
    assert not re.search(r"(?s)\A.*a.*a.*b\Z", "a" * 600)
    few = time.process_time() - began
    began = time.process_time()
    assert not re.search(r"(?s)\A.*a.*a.*b\Z", "a" * 1800)
    assert time.process_time() - began > 8 * few


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        *(("a", "LIKE"), ("a%", "LIKE"), ("%a", "LIKE"), ("%a%", "LIKE"), ("a%b", "LIKE")),
        *(("a%b%", "RLIKE"), ("%%b", "RLIKE"), ("%a%b", "RLIKE"), ("%%", "LIKE")),
    ],
)
def test_only_patterns_that_are_searched_for_several_places_are_written_otherwise(
    pattern: str, word: str
) -> None:
    for negation in ("", "NOT "):
        tree = sqlglot.parse_one(f"s {negation}LIKE '{pattern}'", dialect="duckdb")
        written = SPARK.expression(tree, _TABLE).render(SPARK.renderer)
        assert f" {word} " in written
        assert ("NOT " in written) == bool(negation)
