"""The page of what differs by engine is what dpsql makes of each call, and leaves none out."""

from __future__ import annotations

import re

import pytest
from sqlglot import exp
from test_docs_pages import generator, text_of

import dpsql
from dpsql.sql.expressions.legality import CAST_TYPES
from dpsql.syntax.parse import parse
from dpsql.syntax.row_nodes import ROW_NODES

FUNCTIONS = generator("functions")
# DATE_TRUNC is read as TimestampTrunc.
NOT_SHOWN = {exp.DateTrunc}
# What the twin casts as another that is shown, and types whose columns no table shows.
CASTS_NOT_SHOWN = {"TEXT", "TIMESTAMPNTZ", "TIMESTAMPTZ", "UINT", "USMALLINT", "UTINYINT"}


def calls() -> list[tuple[str, str]]:
    return [(call, type_) for call, types in FUNCTIONS.CALLS.items() for type_ in types]


@pytest.mark.slow
def test_the_page_is_what_is_written_today() -> None:
    assert FUNCTIONS.page() == text_of(FUNCTIONS.PAGE), "run make pictures"


@pytest.mark.slow
def test_all_that_may_be_called_is_on_the_page() -> None:
    seen: set[type[exp.Expr]] = set()
    for call, type_ in calls():
        seen |= {type(node) for node in parse(f"SELECT {call} AS e FROM r").walk()}
        try:
            seen |= {type(node) for node in FUNCTIONS._validated(call, type_).walk()}
        except dpsql.QueryRefused:
            continue
    assert ROW_NODES - seen == NOT_SHOWN
    cast = {kind.name for kind in CAST_TYPES}
    shown = {found[1] for call, _ in calls() if (found := re.search(r"AS (\w+)", call))}
    assert cast - shown - {"INT", "DECIMAL"} == CASTS_NOT_SHOWN


@pytest.mark.parametrize(
    ("call", "type_", "verdicts"),
    [
        ("a < b", "VARCHAR", ("same", "same", "same")),
        ("upper(a)", "VARCHAR", ("same", "rewritten", "same")),
        ("a // b", "BIGINT", ("same", "rewritten", "rewritten")),
        ("date_trunc('month', a)", "TIMESTAMP", ("same", "rewritten", "rewritten")),
        ("sign(a)", "DOUBLE", ("same", "rewritten", "refused")),
        ("exp(a)", "DOUBLE", ("same", "rewritten", "same; but")),
        ("a + b", "UUID", ("refused", "refused", "refused")),
    ],
)
def test_verdicts_are_what_the_dialects_do(
    call: str, type_: str, verdicts: tuple[str, ...]
) -> None:
    found = FUNCTIONS.written(call, type_)
    for verdict, cell in zip(verdicts, found, strict=True):
        assert cell.startswith(verdict), found
