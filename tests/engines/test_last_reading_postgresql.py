"""The last reading on PostgreSQL: nothing is sent to rows whose tree is not what dpsql sends."""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_world import Filled
from helpers.attacks import ANSWERS, ATTACKS
from helpers.failures import fails_with
from helpers.postgresql_server import Server
from helpers.present import present
from helpers.sql_text import text
from helpers.support import ANALYST, policy
from postgresql_world import PostgreSQLWorld
from test_last_reading import MORE
from tree_versions import is_of
from worlds import small_tables

import dpsql
from dpsql.core.sql import Sql, Written, join, name, sql
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import Reads
from dpsql.engines.evidence.edges import COMPARED
from dpsql.engines.postgresql import engine as door
from dpsql.engines.postgresql.engine import OpenPostgreSQL
from dpsql.engines.postgresql.forms import CALLED, NODES, ON_ROWS, SIGNS
from dpsql.engines.postgresql.last import ServerReading
from dpsql.engines.postgresql.trees import (
    TREE_FORMS,
    KnownNumbers,
    Node,
    TreeForms,
    UnknownTree,
    all_nodes,
    parsed_query,
    relations_of,
)
from dpsql.engines.postgresql.types import sql_type
from dpsql.errors import EngineError
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.survey.forms import ComparedForm, forms
from dpsql.survey.sameness import case_of, unjudged

pytestmark = pytest.mark.slow  # they start a server

pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")

VISITS = Reads((TableName("visits"),))
SENT = "SELECT row_number() OVER () AS __dpsql_rid, k, count(*) AS m FROM public.visits GROUP BY k"
TABLES = {
    "visits": Filled(
        (("uid", "BIGINT"), ("k", "INTEGER"), ("s", "VARCHAR"), ("n", "INTEGER")),
        [(i % 60, i % 3, "a", i % 5) for i in range(600)],
    )
}
POLICY = Policy(
    "d",
    defaults=Parameters(epsilon=5.0, delta=1e-6, max_groups_contributed=10),
    accounts={"ana": AccountPolicy("ana", 1000.0, 1e-3)},
    tables={"visits": TablePolicy("visits", PrivacyUnit("person", "uid"))},
)
KINDS = list(COMPARED)
SETUP = (
    "CREATE TABLE edges ("
    + ", ".join(
        f"{side}{place} {text(present(sql_type(k)))}"
        for place, k in enumerate(KINDS)
        for side in "ab"
    )
    + ")",
    "CREATE TABLE hidden (k INTEGER, v TEXT)",
    "CREATE VIEW seen AS SELECT * FROM visits",
    "CREATE SCHEMA s",
    "CREATE TABLE s.visits (k INTEGER)",
    "CREATE FUNCTION least_of(x INTEGER) RETURNS INTEGER LANGUAGE sql AS 'SELECT 7'",
    "CREATE FUNCTION rows_of() RETURNS SETOF hidden LANGUAGE sql AS 'SELECT * FROM hidden'",
    "CREATE FUNCTION same(a TEXT, b INTEGER) RETURNS BOOLEAN LANGUAGE sql AS 'SELECT true'",
    "CREATE OPERATOR = (LEFTARG = text, RIGHTARG = integer, FUNCTION = same)",
    "CREATE TYPE colour AS ENUM ('red')",
    "GRANT USAGE ON SCHEMA s TO PUBLIC",
    "GRANT SELECT ON ALL TABLES IN SCHEMA public, s TO PUBLIC",
)


@pytest.fixture(scope="module")
def engine(postgres_server: Server) -> Iterator[OpenPostgreSQL]:
    world = PostgreSQLWorld(postgres_server, f"read_{os.getpid()}")
    world.engine(TABLES)
    for statement in SETUP:
        world.run(statement)
    yield world.engine(TABLES)
    world.close()


def sent(engine: OpenPostgreSQL, text: str, reads: Reads = VISITS) -> Any:
    """Send a statement, as questions are."""
    with engine.run() as run:
        return run.over(reads).pairs(Sql(Written(text)))


def test_what_dpsql_sends_is_sent(engine: OpenPostgreSQL) -> None:
    sent(engine, SENT)
    sent(engine, "SELECT k FROM s.visits", Reads((TableName("visits", "s"),)))
    sent(
        engine,
        "SELECT a.k FROM public.visits a JOIN public.visits b USING (uid)",
        Reads(VISITS.tables * 2),
    )


@pytest.fixture(scope="module")
def written(
    engine: OpenPostgreSQL,
) -> dict[tuple[SqlType, ...], list[tuple[ComparedForm, Sql]]]:
    """Every expression that has a verdict, of every type, by types."""
    found: dict[tuple[SqlType, ...], list[tuple[ComparedForm, Sql]]] = {}
    for form in forms():
        case = case_of(form, unjudged(engine.verdicts.made_with))
        if case is not None:
            found.setdefault(form.types, []).append((form, case.server))
    return found


def over_edges(types: tuple[SqlType, ...], values: list[Sql]) -> Sql:
    """A statement that computes expressions of these types."""
    columns = join(
        ", ",
        (
            sql("{} AS {}", name(f"{side}{KINDS.index(type_)}"), name(side))
            for side, type_ in zip("ab", types, strict=False)
        ),
    )
    return sql("SELECT {} FROM (SELECT {} FROM public.edges) t", _listed(values), columns)


def test_what_analysts_may_compute_of_rows_is_sent(
    engine: OpenPostgreSQL, written: dict[tuple[SqlType, ...], list[tuple[ComparedForm, Sql]]]
) -> None:
    """Those of the same types at once."""
    edges = Reads((TableName("edges"),))
    with engine.run() as run:
        sheet = engine.last_reading.over(edges, lambda: run.session)

        def is_read(types: tuple[SqlType, ...], values: list[Sql]) -> bool:
            try:
                sheet.read(over_edges(types, values))
            except EngineError:
                return False
            return True

        unknown = []
        for types, each in written.items():
            for at in range(0, len(each), 20):
                several = each[at : at + 20]
                if not is_read(types, [value for _, value in several]):
                    unknown += [form for form, value in several if not is_read(types, [value])]
    assert unknown == []
    assert sum(map(len, written.values())) > 3000


def _listed(values: list[Sql]) -> Sql:
    return join(", ", (sql("{} AS {}", v, name(f"x{n}")) for n, v in enumerate(values)))


PLANTED = {
    "a second scan": "SELECT a.k FROM public.visits a JOIN public.visits b USING (uid)",
    "a second scan in a subquery": "SELECT k FROM public.visits "
    "WHERE k IN (SELECT k FROM public.visits)",
    "a foreign table": "SELECT k FROM public.hidden",
    "a foreign table beside": "SELECT v.k FROM public.visits v JOIN public.hidden s USING (k)",
    "a table of that name elsewhere": "SELECT k FROM s.visits",
    "a view for its table": "SELECT k FROM public.seen",
    "the catalog": "SELECT rolname FROM pg_catalog.pg_roles",
    "a function of the owner's": "SELECT public.least_of(k) FROM public.visits",
    "a function of rows": "SELECT v FROM public.rows_of()",
    "an operator of the owner's": "SELECT s OPERATOR(public.=) k FROM public.visits",
    "a type of the owner's": "SELECT CAST(s AS public.colour) FROM public.visits",
    "another query by text": "SELECT query_to_xml('SELECT 1', true, true, '') FROM public.visits",
    "a file": "SELECT pg_catalog.pg_read_file('x') FROM public.visits",
    "chance": "SELECT random() FROM public.visits",
    "the clock": "SELECT now() FROM public.visits",
    "a setting": "SELECT current_setting('port') FROM public.visits",
    "a lock": "SELECT pg_advisory_lock(1) FROM public.visits",
    "sleep": "SELECT pg_sleep(0) FROM public.visits",
    "the user": "SELECT current_user FROM public.visits",
    "a list of all rows": "SELECT array_agg(k) FROM public.visits",
    "an aggregate in an order": "SELECT sum(k ORDER BY uid) FROM public.visits",
    "a filter in an aggregate": "SELECT count(*) FILTER (WHERE k > 1) FROM public.visits",
    "a sample": "SELECT k FROM public.visits TABLESAMPLE SYSTEM (50)",
    "a limit by rows": "SELECT k FROM public.visits LIMIT (SELECT 1 FROM public.visits LIMIT 1)",
    "a lookup": "SELECT (SELECT b.k FROM public.visits b) FROM public.visits a",
    "all of them": "SELECT k > ALL (SELECT 1) FROM public.visits",
    "numbers up to a value": "SELECT k, n FROM public.visits, generate_series(1, k) AS n",
    "numbers in a select list": "SELECT generate_series(1, k) FROM public.visits",
    "constant numbers in a select list": "SELECT generate_series(1, 2) FROM public.visits",
    "numbers in a subquery": "SELECT k FROM public.visits "
    "WHERE 1 IN (SELECT generate_series(1, k))",
    "a lateral subquery": "SELECT k, n FROM public.visits v, LATERAL (SELECT v.k + 1 AS n) x",
    "a full join": "SELECT 1 FROM public.visits a FULL JOIN (SELECT 1 AS uid) b USING (uid)",
    "a window of integers some way off": "SELECT sum(k) OVER (ORDER BY uid RANGE 1 PRECEDING) "
    "FROM public.visits",
    "the share of rows before": "SELECT percent_rank() OVER (ORDER BY uid) FROM public.visits",
    "another test of truth": "SELECT (k > 1) IS UNKNOWN FROM public.visits",
    "several groupings": "SELECT k FROM public.visits GROUP BY GROUPING SETS ((k), ())",
    "recursion": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) "
    "SELECT n FROM r",
    "rows of its own": "VALUES (1)",
    "locked rows": "SELECT k FROM public.visits FOR SHARE",
    "two statements": f"{SENT}; {SENT}",
    "the end of a body": f"{SENT}; END; SELECT 1",
    "another statement": "CREATE TEMP TABLE x AS SELECT 1",
    "no statement": "SELECT FROM WHERE",
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_what_dpsql_does_not_send_is_not_sent(text: str, engine: OpenPostgreSQL) -> None:
    with pytest.raises(EngineError) as caught:
        sent(engine, text)
    assert caught.value.reason == EngineError.FIXED_REASON
    assert caught.value.__context__ is None
    with engine.run() as run, run.over(VISITS).scratch() as scratch, pytest.raises(EngineError):
        scratch.store("__dpsql_stage", Sql(Written(text)))


def test_stored_tables_are_those_of_the_same_question(engine: OpenPostgreSQL) -> None:
    stored = Sql(Written("SELECT a.k FROM __dpsql_stage a JOIN __dpsql_stage b USING (uid)"))
    with engine.run() as run, run.over(VISITS).scratch() as one:
        one.store("__dpsql_stage", Sql(Written("SELECT uid, k FROM public.visits")))
        one.pairs(stored)
        one.integers(Sql(Written("SELECT k FROM __dpsql_stage WHERE k = ANY($1)")), [1, 2])
        run.over(VISITS).pairs(Sql(Written(SENT)))
        with pytest.raises(EngineError):
            run.over(VISITS).pairs(stored)


def test_nothing_is_left_of_a_reading(engine: OpenPostgreSQL) -> None:
    with engine.run() as run:
        run.over(VISITS).pairs(Sql(Written(SENT)))
        left = run.session.ask(
            Sql(Written("SELECT count(*) FROM pg_catalog.pg_proc WHERE proname ~ '^__dpsql'"))
        )
    assert left == [(0,)]


def test_a_question_is_read_before_it_is_paid_for(
    engine: OpenPostgreSQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "SELECT k, count(*) FROM public.visits WHERE n > {} GROUP BY k"
    with dpsql.connect(door_of(engine), POLICY, tmp_path / "budget.db", "ana") as connection:
        connection.sql(asked.format(1))
        opened = connection._answerer.engine
        assert isinstance(opened, OpenPostgreSQL)
        assert opened.last_reading.count > 1
        spent = connection.budget()
        narrow = ServerReading(replace(TREE_FORMS, called=frozenset({"count"})))
        monkeypatch.setattr(opened, "last_reading", narrow)
        with fails_with("statement_unrecognised"):
            connection.sql(asked.format(2))
        assert connection.budget() == spent
        monkeypatch.setattr(OpenPostgreSQL, "rehearse", lambda self, read: None)
        with pytest.raises(dpsql.EngineError):
            connection.sql(asked.format(3))
        assert connection.budget() != spent


def door_of(engine: OpenPostgreSQL) -> str:
    return engine._sessions._url


def test_a_reading_takes_some_milliseconds(engine: OpenPostgreSQL) -> None:
    with engine.run() as run:
        sheet = engine.last_reading.over(VISITS, lambda: run.session)
        best = 1.0
        for _ in range(20):
            began = time.perf_counter()
            sheet.read(Sql(Written(SENT)))
            best = min(best, time.perf_counter() - began)
    assert best < 0.02


def test_there_is_one_way_to_rows() -> None:
    module = ast.parse(inspect.getsource(door))
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    sent = {
        f"{name}.{method.name}"
        for name in ("PostgreSQLRun", "PostgreSQLScratch", "_PlannedOnServer")
        for method in classes[name].body
        if isinstance(method, ast.FunctionDef)
        if any(f"_session.{way}(" in ast.unparse(method) for way in ("rows", "store", "run", "ask"))
    }
    assert sent == {
        *("PostgreSQLScratch._rows", "PostgreSQLScratch._store", "PostgreSQLScratch._drop"),
        *(f"_PlannedOnServer.{name}" for name in ("_planned", "_make", "_drop")),
    }


def test_the_lists_are_of_what_a_server_has(engine: OpenPostgreSQL) -> None:
    with engine.run() as run:
        functions = run.session.ask(
            Sql(Written("SELECT DISTINCT proname::text FROM pg_catalog.pg_proc WHERE oid < 16384"))
        )
        operators = run.session.ask(
            Sql(Written("SELECT DISTINCT oprname::text FROM pg_catalog.pg_operator"))
        )
    assert {each for (each,) in functions} >= CALLED | ON_ROWS
    assert {each for (each,) in operators} >= SIGNS
    assert len(NODES) > 30


# -- the lists ------------------------------------------------------------------------------------


QUESTIONS = [attack.sql for attack in ATTACKS if attack.outcome == ANSWERS]
HERE: dict[str, dict[str, Any]] = {
    "SELECT k, avg(n), count(n) FROM visits GROUP BY k": {"max_rows_contributed": 3},
    "SELECT k, count(*), sum(n) FROM visits GROUP BY k": {"max_rows_contributed": 3},
    "SELECT k, count(*), count(DISTINCT n) FROM visits GROUP BY k": {"left_out_share": 0.05},
    "SELECT count(*), count(DISTINCT n), sum(n) FROM visits": {"max_rows_contributed": 3},
    "SELECT count(*) FROM visits WHERE (k > 1) IS TRUE AND (n > 2) IS FALSE": {},
    "SELECT k, sum(n) FROM visits GROUP BY k": {"left_out_share": 0.1, "max_rows_contributed": 2},
}


@pytest.fixture(scope="module")
def corpus(
    postgres_server: Server,
    engine: OpenPostgreSQL,
    written: dict[tuple[SqlType, ...], list[tuple[ComparedForm, Sql]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[list[Node]]:
    """The nodes of what answered questions send, and of each expression over rows."""
    trees: dict[str, None] = {}
    real = ServerReading.relations

    def noted(self: ServerReading, ask: Any, tree: str) -> Any:
        trees.setdefault(tree)
        return real(self, ask, tree)

    world = PostgreSQLWorld(postgres_server, f"corpus_{os.getpid()}")
    world.engine(small_tables())
    place = tmp_path_factory.mktemp("corpus") / "budget.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerReading, "relations", noted)
        with dpsql.connect(world.url, policy(), place, ANALYST) as connection:
            for question in dict.fromkeys((*QUESTIONS, *MORE, *HERE)):
                with contextlib.suppress(dpsql.QueryRefused):
                    connection.sql(question, **{**MORE, **HERE}.get(question, {}))
        with engine.run() as run:
            sheet = engine.last_reading.over(Reads((TableName("edges"),)), lambda: run.session)
            for types, each in written.items():
                for at in range(0, len(each), 20):
                    values = [value for _, value in each[at : at + 20]]
                    sheet.read(over_edges(types, values))
    world.close()
    return [*_telling([*all_nodes(parsed_query(tree))] for tree in trees)]


def _telling(trees: Iterable[list[Node]]) -> Iterator[list[Node]]:
    """The trees that hold something which those before did not."""
    seen: set[tuple[str, str, object]] = set()
    named = ("funcid", "aggfnoid", "winfnoid", "opno")
    for nodes in trees:
        held: set[tuple[str, str, object]] = {
            (node.kind, field, value if NODES[node.kind][field] or field in named else None)
            for node in nodes
            for field, value in node.fields.items()
            if isinstance(value, str) or NODES[node.kind][field] is None
        }
        if not held <= seen:
            seen |= held
            yield nodes


def entries() -> Iterator[tuple[str, TreeForms]]:
    """Every entry of the lists, with the lists without it."""
    for kind, fields in NODES.items():
        less = {key: value for key, value in NODES.items() if key != kind}
        yield kind, replace(TREE_FORMS, nodes=less)
        for field, values in fields.items():
            rest = {key: value for key, value in fields.items() if key != field}
            yield f"{kind} {field}", replace(TREE_FORMS, nodes={**NODES, kind: rest})
            for one in values or ():
                held = {**fields, field: (values or frozenset()) - {one}}
                yield f"{kind} {field} {one}", replace(TREE_FORMS, nodes={**NODES, kind: held})
    for called in TREE_FORMS.called:
        yield called, replace(TREE_FORMS, called=TREE_FORMS.called - {called})
    for sign in TREE_FORMS.operators:
        yield sign, replace(TREE_FORMS, operators=TREE_FORMS.operators - {sign})


@pytest.fixture(scope="module")
def numbers(engine: OpenPostgreSQL) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """The names of functions by number, and of operators with their functions."""
    with engine.run() as run:
        functions = run.session.ask(
            Sql(Written("SELECT oid::bigint, proname::text FROM pg_catalog.pg_proc"))
        )
        operators = run.session.ask(
            Sql(
                Written(
                    "SELECT oid::bigint, oprname::text, oprcode::oid::bigint "
                    "FROM pg_catalog.pg_operator"
                )
            )
        )
    return (
        {str(number): each for number, each in functions},
        {str(number): (sign, str(function)) for number, sign, function in operators},
    )


def test_without_any_entry_of_the_lists_something_is_refused(
    engine: OpenPostgreSQL,
    corpus: list[list[Node]],
    numbers: tuple[dict[str, str], dict[str, tuple[str, str]]],
) -> None:
    version = int(engine.verdicts.made_with.version)
    functions, operators = numbers

    def reads_all(forms: TreeForms) -> bool:
        known = KnownNumbers(
            frozenset(number for number, each in functions.items() if each in forms.called),
            {n: code for n, (sign, code) in operators.items() if sign in forms.operators},
        )
        try:
            for nodes in corpus:
                relations_of(nodes, known, forms)
        except UnknownTree:
            return False
        return True

    assert reads_all(TREE_FORMS)
    idle = [what for what, forms in entries() if is_of(version, what) and reads_all(forms)]
    assert not idle, "; ".join(idle)
