"""Statements that are the connection's own are told by their tokens, and all others are left."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import SQLSyntaxError
from dpsql.syntax.connection_statements import (
    Begin,
    Copy,
    Declare,
    Discard,
    End,
    Fetch,
    Mark,
    Own,
    SetLocal,
    ShowIntervals,
    Shut,
    Timeout,
    own_statement,
)

READ: dict[str, Own | None] = {
    "BEGIN": Begin(),
    "start transaction isolation level serializable": Begin(),
    "COMMIT WORK": End("COMMIT"),
    "end": End("COMMIT"),
    "ABORT": End("ROLLBACK"),
    "ROLLBACK TO SAVEPOINT a": End("ROLLBACK", to=True),
    "SAVEPOINT a": Mark("SAVEPOINT"),
    'RELEASE SAVEPOINT "A"': Mark("RELEASE"),
    'DECLARE "K k" NO SCROLL CURSOR WITH HOLD FOR SELECT 1': Declare("K k", 45),
    "DECLARE K CURSOR FOR SELECT 1": Declare("k", 21),
    "FETCH FORWARD 2 FROM k": Fetch("k", 2),
    "FETCH ALL IN k": Fetch("k", None),
    "fetch k": Fetch("k", 1),
    "CLOSE ALL": Shut("CLOSE CURSOR", None),
    "DEALLOCATE PREPARE s": Shut("DEALLOCATE", "s"),
    "DISCARD ALL": Discard(settings=False),
    "RESET ALL": Discard(settings=True),
    "SET statement_timeout TO '2s'": Timeout(2.0),
    "SET SESSION statement_timeout = 1500": Timeout(1.5),
    "SET LOCAL statement_timeout = 1500": Timeout(1.5, local=True),
    "SET dpsql.intervals = on": ShowIntervals(on=True),
    "set session dpsql.intervals to 'off'": ShowIntervals(on=False),
    "SET LOCAL dpsql.intervals = true": ShowIntervals(on=True, local=True),
    "RESET dpsql.intervals": ShowIntervals(on=False),
    "set local epsilon = 0.5": SetLocal("set       epsilon = 0.5"),
    'SET "local" = 1': None,
    "SET SESSION epsilon = 1": None,
    "COPY (SELECT 1) TO STDOUT": Copy(6, 14, "text", False, "\t", "\\N"),
    "COPY (SELECT (1)) TO STDOUT (FORMAT csv, HEADER, DELIMITER ';', NULL 'N')": Copy(
        6, 16, "csv", True, ";", "N"
    ),
    "copy (select ')') to stdout with binary": Copy(6, 16, "binary", False, "\t", "\\N"),
    "SELECT 'BEGIN'": None,
    "SET epsilon = 1": None,
    "RESET epsilon": None,
    "COPY visits TO STDOUT": None,
    "BEGINNING": None,
    "FETCH 'a": None,
}


@pytest.mark.parametrize("text", READ)
def test_a_statement_is_told_by_its_tokens(text: str) -> None:
    assert own_statement(text) == READ[text]


@pytest.mark.parametrize(
    "text",
    [
        "COMMIT AND CHAIN",
        "DECLARE k FOR SELECT 1",
        "FETCH 99999999999999 FROM k",
        "FETCH FROM",
        "COPY (SELECT 1) TO '/tmp/x'",
        "COPY (SELECT 1) TO PROGRAM 'x'",
        "COPY (SELECT 1) TO STDOUT (FORMAT parquet)",
        "COPY (SELECT 1) TO STDOUT (DELIMITER 'ab')",
        "COPY (SELECT 1) TO STDOUT (HEADER",
        "COPY (SELECT 1",
        "SET statement_timeout = soon",
        "SET dpsql.intervals = perhaps",
        "SET dpsql.intervals",
        f"SET statement_timeout = {'9' * 5000}",
        "CLOSE 'a'",
    ],
)
def test_what_begins_like_one_and_goes_on_differently_is_refused(text: str) -> None:
    with pytest.raises(SQLSyntaxError) as refused:
        own_statement(text)
    assert refused.value.place is not None


@pytest.mark.slow
@given(
    st.sampled_from(["BEGIN", "DECLARE", "FETCH", "COPY (", "SET statement_timeout", "CLOSE", ""]),
    st.text(max_size=30),
)
def test_any_other_text_is_left_or_refused(beginning: str, text: str) -> None:
    with suppress(SQLSyntaxError):
        own_statement(f"{beginning} {text}")
