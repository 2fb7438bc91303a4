"""The SQL front door: whatever stands there, it is answered as meant or refused with our errors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.linked_tables import COLUMNS
from helpers.linked_tables import POLICY_TABLES as LINEAGE_TABLES
from helpers.random_examples import long
from helpers.random_statements import LARGE, MARK, mutated
from helpers.support import ANALYST, POLICY_TABLES, TABLES
from helpers.work import within
from hypothesis import HealthCheck, given, settings

import dpsql
from dpsql.engines.duckdb import dialect as duckdb_dialect
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.policy.parameters import Parameters
from dpsql.results.result import FREE

RULES = Policy(
    "world",
    defaults=Parameters(epsilon=1.0, delta=1e-9),
    accounts={ANALYST: AccountPolicy(ANALYST, 1e6, 0.4)},
    tables={**LINEAGE_TABLES, **POLICY_TABLES},
)
CREATE = {
    **{
        name: f"CREATE TABLE {name} ({', '.join(f'{c} {t}' for c, t in columns)})"
        for name, columns in COLUMNS.items()
    },
    **TABLES,
}
SECONDS = 1.0


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """The tables of both worlds, empty: nothing here depends on rows."""
    directory = tmp_path_factory.mktemp("fuzz")
    with duckdb.connect(str(directory / "world.duckdb")) as writer:
        for statement in CREATE.values():
            writer.execute(statement)
    path, ledger = directory / "world.duckdb", directory / "budget.db"
    with dpsql.connect(path, RULES, ledger, ANALYST) as opened:
        opened.explain("SELECT count(*) FROM visits")  # what is set up once is not timed
        yield opened


# -- what a text may lead to ----------------------------------------------------------------------

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_PARSER = duckdb.connect(":memory:")
PRIVATE = {name for name, table in RULES.tables.items() if not table.public}
PUBLIC = set(RULES.tables) - PRIVATE


def tables_of(sql: str) -> set[str]:
    """The tables that a statement reads, its own CTEs left out, as DuckDB's parser sees them."""
    (text,) = _PARSER.execute("SELECT json_serialize_sql(?)", [sql]).fetchone() or ("",)
    tree = json.loads(text)
    assert not tree["error"], f"{tree['error_message']}: {sql}"
    found: set[str] = set()
    _collect(tree, frozenset(), found)
    return found


def _collect(node: Any, ctes: frozenset[str], found: set[str]) -> None:
    if isinstance(node, list):
        for child in node:
            _collect(child, ctes, found)
    if not isinstance(node, dict):
        return
    if "cte_map" in node:
        ctes = ctes | {entry["key"].casefold() for entry in node["cte_map"]["map"]}
    if node.get("type") == "BASE_TABLE":
        path = [node.get("catalog_name"), node.get("schema_name"), node["table_name"]]
        name = ".".join(part for part in path if part).casefold()
        if name not in ctes:
            found.add(name)
    for child in node.values():
        _collect(child, ctes, found)


def check(connection: dpsql.Connection, text: str) -> bool:
    """Assert what holds for every text; True if it would be answered."""
    before = connection.budget()
    for blanks in range(2):  # a busy machine can be slow once
        began = time.process_time()
        explained = explanation(connection, text + " " * blanks)
        if quick := within(time.process_time() - began, SECONDS):
            break
    assert quick
    if isinstance(explained, dpsql.Error):
        assert not isinstance(explained, dpsql.EngineError | dpsql.DataError)
        assert explained.__cause__ is None
        assert explained.code
        assert str(explained)
        run_refused(connection, text)
    assert connection.budget() == before
    if isinstance(explained, dpsql.Error):
        return False
    for block in explained.blocks:
        unknown = {t for t in tables_of(block.sql) if not t.startswith("__dpsql_")} - set(
            RULES.tables
        )
        assert not unknown, f"{unknown} in {block.sql}"
        assert MARK not in _QUOTED.sub("", block.sql), block.sql
    if not explained.blocks and not reads_public_tables_alone(explained.tail):
        # Of columns alone nothing runs: what would have been its tail is the text.
        asked = connection.sql(text)
        assert (len(asked), asked.cost, connection.budget()) == (0, FREE, before)
        return True
    released = {f"__dpsql_released_{i}" for i in range(len(explained.blocks))}
    assert tables_of(explained.tail) <= released | PUBLIC, explained.tail
    assert f"/* {MARK}" not in explained.tail
    return True


def reads_public_tables_alone(sql: str) -> bool:
    """Whether that can be seen of a statement; the engine's parser reads less than dpsql's."""
    try:
        return tables_of(sql) <= PUBLIC
    except AssertionError:
        return False


def explanation(connection: dpsql.Connection, text: str) -> dpsql.Explanation | dpsql.Error:
    try:
        return connection.explain(text)
    except dpsql.Error as refusal:
        return refusal


def run_refused(connection: dpsql.Connection, text: str) -> None:
    """Run what is not explained: it may be about the connection itself, and costs nothing."""
    with contextlib.suppress(dpsql.Error):
        connection.sql(text)
    connection._statements.reset()  # as SET may have set something


FAST: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


@pytest.mark.slow
@given(mutated())
@settings(max_examples=500, **FAST)
def test_a_mangled_statement_is_answered_as_planned_or_refused_for_nothing(
    connection: dpsql.Connection, text: str
) -> None:
    check(connection, text)


@pytest.mark.slow
@given(mutated())
@settings(max_examples=long(2500), **FAST)
def test_thousands_of_mangled_statements_are_answered_or_refused(
    connection: dpsql.Connection, text: str
) -> None:
    check(connection, text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("pipeline.prepare.validate", "SELECT count(*) FROM visits"),
        (
            "engines.duckdb.dialect._GENERATOR.generator",
            f"SELECT count(*) FROM visits WHERE k /* {MARK} */ > 1",
        ),
    ],
)
def test_the_checks_notice_a_broken_front_door(
    broken: str, text: str, connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = duckdb_dialect._GENERATOR.generator

    def comments(**options: Any) -> object:
        return make(**{**options, "comments": True})

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError

    check(connection, text)
    connection._answerer.preparer._shared.clear()
    monkeypatch.setattr(f"dpsql.{broken}", comments if MARK in text else fails)
    with pytest.raises((AssertionError, RuntimeError)):
        check(connection, text)


def test_a_broken_front_door_leads_to_no_unlisted_table(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dpsql.sql.blocks.validate._Splitter._check_tail_table", lambda *_, **__: None
    )
    with fails_with("does_not_bind"):
        connection.sql("SELECT * FROM secret, (SELECT count(*) FROM visits)")


# -- statements of enormous size ------------------------------------------------------------------

_CHILD = """
    import json, pathlib, sys, tempfile, time
    import dpsql
    from helpers.random_statements import LARGE
    from helpers.support import connect
    with tempfile.TemporaryDirectory() as place:
        connection = connect(pathlib.Path(place))
        before = connection.budget()
        for name in list(LARGE)[int(sys.argv[1]):]:
            print(json.dumps([name, "started", 0]), flush=True)
            began = time.process_time()
            try:
                connection.explain(LARGE[name])
                outcome = "answers"
            except dpsql.Error as error:
                outcome = error.code
                assert not isinstance(error, dpsql.EngineError | dpsql.DataError)
            except BaseException as error:
                outcome = "raises " + type(error).__name__
            print(json.dumps([name, outcome, time.process_time() - began]), flush=True)
        assert connection.budget() == before
"""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[str, float]]:
    """What becomes of each large statement, and after how many seconds of CPU time.

    They are read in another process, so that none of them can end this one.
    """
    found: dict[str, tuple[str, float]] = {}
    while len(found) < len(LARGE):
        child = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(_CHILD), str(len(found))],
            cwd=Path(__file__).parents[1],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        assert lines, child.stderr
        found |= {name: (outcome, seconds) for name, outcome, seconds in lines}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_statement_of_enormous_size_is_refused_within_a_second(
    name: str, outcomes: dict[str, tuple[str, float]]
) -> None:
    outcome, seconds = outcomes[name]
    assert re.fullmatch("[a-z_]+", outcome), outcome
    assert outcome != "started", "the process died"
    assert within(seconds, 2 * SECONDS if outcome == "answers" else SECONDS)
