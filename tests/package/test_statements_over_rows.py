"""Each statement over an owner's rows passes the last reading, or is listed here with its reason.

What runs SQL in an engine is found in the syntax trees of the package, by the function that it
stands in. Those that send what is about to be answered are the doors; all others are listed by what
they are over. A new one, or one that is gone, fails.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parents[2] / "dpsql"

DOOR: Final = "what is sent has been read: the doors of each engine"
READING: Final = "binds or analyses a statement, to read it"
NOTHING: Final = "names, types, definitions, settings and lists of files: no row is read"
SYNTHETIC: Final = "over empty tables, constants, or rows that dpsql makes up"
RELEASED: Final = "over what came through a door and was released, and public tables"
STATE: Final = "the private state of materialized views, which dpsql itself has made"
OWNER: Final = "for the owner alone, who runs a command and reads what it says"
OPENED: Final = "whether data can be read at all, and how: when they are opened, for all alike"

PLACES: Final[dict[str, tuple[str, ...]]] = {
    DOOR: (
        *(
            f"engines/duckdb/engine.py:DuckDBScratch.{name}"
            for name in ("_executed", "_materialized", "_stream")
        ),
        *(f"engines/duckdb/engine.py:DuckDBScratch.{name}" for name in ("_store", "_drop")),
        "engines/duckdb/engine.py:_from_arrow",  # columns of what a door has returned
        *(
            f"engines/postgresql/engine.py:PostgreSQLScratch.{n}"
            for n in ("_rows", "_store", "_drop")
        ),
        *(
            f"engines/postgresql/engine.py:_PlannedOnServer.{n}"
            for n in ("_planned", "_make", "_drop")
        ),
        *(
            f"engines/spark/engine.py:SparkScratch.{name}"
            for name in ("_exact", "_pairs", "_integers")
        ),
        *(
            "engines/spark/engine.py:SparkScratch.analyse.run",
            "engines/spark/engine.py:SparkScratch._given",
        ),
        # A listed table, for a statement that was read.
        "engines/spark/engine.py:SparkScratch._show",
        # What doors are made of.
        *(
            "engines/postgresql/sessions.py:PostgreSQLSession._execute",
            "engines/spark/engine.py:_frame",
        ),
        *("engines/embedded/running.py:execute", "engines/embedded/running.py:relation"),
        "engines/embedded/running.py:serialized_plan",
    ),
    READING: (
        *("engines/duckdb/reading.py:DuckDBSheet._bound",),
        *("engines/duckdb/reading.py:_Bench._bring", "engines/embedded/plans.py:plan_of"),
        *("engines/postgresql/last.py:ServerSheet.read", "engines/postgresql/last.py:_known"),
        "engines/postgresql/last.py:ServerSheet._names",
        *("engines/spark/reading.py:SparkReading._planned",),
        "engines/spark/reading.py:SparkReading._opened",
    ),
    NOTHING: (
        *(
            f"engines/duckdb/attached.py:{name}"
            for name in ("ours", "attached", "forget", "publish_in")
        ),
        *(
            f"engines/duckdb/attached.py:{n}"
            for n in ("_owned", "_published", "_sources", "_columns")
        ),
        *(
            "engines/duckdb/engine.py:DuckDBEngine._create",
            "engines/duckdb/engine.py:DuckDBEngine._read_as",
        ),
        *(
            "engines/duckdb/engine.py:DuckDBEngine._cut",
            "engines/duckdb/engine.py:OpenDuckDB.reads",
        ),
        "engines/duckdb/engine.py:DuckDBEngine._limit_memory",
        "engines/duckdb/streaming.py:memory_taken",
        *(
            "engines/duckdb/engine.py:OpenDuckDB._cursor",
            "engines/duckdb/extensions.py:load_extension",
        ),
        *("engines/duckdb/lakes.py:_of_delta", "engines/duckdb/lakes.py:_of_iceberg"),
        *("engines/duckdb/lakes.py:attach_ducklake", "engines/duckdb/lakes.py:ducklake_definition"),
        *("engines/embedded/lockdown.py:allow", "engines/embedded/lockdown.py:lock_down"),
        *("engines/embedded/lockdown.py:settings_of", "engines/embedded/lockdown.py:_value"),
        *(f"server/catalog/room.py:{n}" for n in ("_fill", "_insert")),
        *(f"server/catalog/room_child.py:{n}" for n in ("_answer", "_described")),
        *("engines/duckdb/network.py:listed", "engines/duckdb/network.py:_create"),
        *(
            "engines/postgresql/engine.py:PostgreSQLEngine.open",
            "engines/postgresql/engine.py:Proved.begin",
        ),
        *(f"engines/postgresql/catalog.py:check_{name}" for name in ("server", "role", "own")),
        *(
            "engines/postgresql/catalog.py:read_catalog",
            "engines/postgresql/catalog.py:server_constraints",
        ),
        *(f"engines/duckdb/constraints.py:{n}" for n in ("read_constraints", "_unique_indexes")),
        *("engines/postgresql/views.py:view_trees", "engines/postgresql/views.py:server_parts"),
        "engines/postgresql/views.py:_called",
        "engines/duckdb/proofs.py:_remote_identity",
        "engines/spark/schema.py:format_remark",
        *(
            f"engines/duckdb/views.py:{n}"
            for n in ("_consistent", "_enums", "_alike", "parquet_view")
        ),
        *(f"engines/duckdb/views.py:{n}" for n in ("_over_files", "_tree_of", "_select_of")),
        *("engines/duckdb/views.py:_redefines", "engines/duckdb/views.py:_is_owned"),
    ),
    SYNTHETIC: (
        *("engines/embedded/constants.py:_plan", "engines/embedded/constants.py:_unplanned"),
        *("engines/embedded/constants.py:_are_computed", "engines/embedded/constants.py:_failure"),
        "engines/embedded/letters.py:other_case",
        "engines/postgresql/engine.py:OpenPostgreSQL._computed",
        "engines/postgresql/engine.py:PostgreSQLEngine.over_constants",
        "engines/spark/engine.py:SparkEngine.over_constants",
        *("survey/totality.py:_catalog", "survey/totality.py:_Surveyor._failure_of_any"),
        *("survey/totality.py:_Surveyor._create", "survey/totality.py:_Surveyor._plan"),
        *("survey/totality.py:_Surveyor._failure", "survey/totality.py:_Surveyor._after"),
        *("survey/sameness.py:_Comparison._fill", "survey/sameness.py:_Comparison._expected"),
        *(
            f"engines/base/twin.py:Twin.{n}"
            for n in ("__init__", "bind", "_plan", "_try", "_fill", "compute_constants")
        ),
    ),
    RELEASED: (
        "views/rows.py:ViewRows.make",
        "engines/embedded/sandbox_child.py:_done",
        *(f"pipeline/tail/key_spelling.py:KeySpelling.{n}" for n in ("key_texts", "exact")),
        *(
            f"pipeline/tail/key_spelling.py:KeySpelling.{n}"
            for n in ("texts_in_order", "keys_of_texts")
        ),
        *(f"pipeline/tail/public_tables.py:PublicTables.{n}" for n in ("_copy", "_read_rows")),
        "pipeline/tail/public_tables.py:PublicTables.computed",
        *("pipeline/tail/rooms.py:Room.empty", "pipeline/tail/rooms.py:Stay.drop_unused"),
        *("pipeline/tail/runner.py:_stored", "pipeline/tail/runner.py:run_apart"),
        *("pipeline/tail/runner.py:_copy", "pipeline/tail/tables.py:load_release"),
        *("results/frames.py:AnswerTable._converted", "results/frames.py:_out"),
        "results/frames.py:_stream",
        *("results/frames.py:_all", "results/frames.py:_failing"),
        *(f"results/rows.py:StoredAnswer.{n}" for n in ("types", "_read", "relation", "_texts")),
        *("results/rows.py:HeldAnswer.relation", "results/rows.py:_restored"),
    ),
    STATE: (
        "views/choices.py:KeptChoices._execute",
        *(f"views/state.py:ViewState.{n}" for n in ("__init__", "create", "open", "_run")),
    ),
    OWNER: (
        "engines/duckdb/attached.py:count_beyond",
        *("engines/duckdb/misfits.py:misfits", "engines/duckdb/misfits.py:_of_lines"),
        "engines/duckdb/misfits.py:_of_objects",
        *("engines/duckdb/misfits.py:_of_long_lines", "engines/duckdb/misfits.py:_of_nested"),
        *("owner/profile.py:_most_per_unit", "owner/profile.py:values_of_types"),
        "owner/profile.py:_seen",
        *("engines/duckdb/proofs.py:_reads_all", "engines/spark/engine.py:SparkEngine._reads_all"),
        *(
            "engines/duckdb/untyped.py:UntypedFiles.proposed",
            "engines/duckdb/untyped.py:UntypedFiles._names",
        ),
    ),
    OPENED: (
        "engines/spark/engine.py:SparkEngine._prove",  # one row, or none
        "engines/duckdb/untyped.py:_first_line_by_duckdb",  # names of columns
        *(
            "engines/duckdb/untyped.py:_is_array",
            "engines/duckdb/untyped.py:_contents",
        ),  # of a file as a whole
        "engines/duckdb/attached.py:_has_beyond",  # whether a column has moments without a text
    ),
}
"""The functions that have an engine run something, by what it is over."""
ASKING: Final = (
    *("agents/", "ledger/", "interfaces/", "service/", "dbapi/", "notebook.py"),
    *("server/people/", "server/wire/", "server/http/", "server/guard.py"),
    "server/serving.py",
)
"""Modules that ask dpsql itself, or keep the budget or users: they hold no engine of an owner's."""
BY_OWNERS: Final = {
    "misfits": {"engines/duckdb/engine.py", "interfaces/cli/check.py"},
    "prove": {"engines/duckdb/engine.py", "interfaces/cli/check.py"},
    "proposed": {
        "engines/duckdb/engine.py",
        "owner/profile.py",
        "interfaces/cli/init_questions.py",
    },
}
"""What reads an owner's rows for the owner, and the modules that call it: commands in the end."""
IMPORTED: Final = {
    "dpsql.owner.profile": {"interfaces/cli/init_questions.py"},
    "dpsql.engines.duckdb.misfits": {"engines/duckdb/engine.py"},
    "dpsql.engines.duckdb.proofs": {"engines/duckdb/engine.py"},
}
"""The modules that all of it is in, and who has them."""


def functions() -> Iterator[tuple[str, str]]:
    """Each function of the package that runs SQL in an engine, with its module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        if not module.startswith(ASKING):
            yield from ((module, name) for name in sending(ast.parse(path.read_text("utf-8"))))


def sending(tree: ast.Module) -> Iterator[str]:
    """The functions of a module that run SQL, each once."""
    ran = {
        each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dpsql.engines.embedded.running"
        for each in node.names
    }
    found: dict[str, None] = {}

    def walk(node: ast.AST, within: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = within
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = (*within, child.name)
            if isinstance(child, ast.Call) and runs(child, ran):
                found.setdefault(".".join(inner))
            walk(child, inner)

    walk(tree, ())
    yield from found


_SESSION: Final = re.compile(r"session\b|\bowner\b|cursor\b|connection\b", re.IGNORECASE)
_METHODS: Final = frozenset(
    {"ask", "rows", "store", "run", "sql", "execute", "query", "collect", "toArrow", "toPandas"}
)


def runs(node: ast.Call, imported: set[str]) -> bool:
    """Tell whether a call has an engine run something."""
    if isinstance(node.func, ast.Name):
        return node.func.id in imported or node.func.id in ("_frame", "ask")
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in ("collect", "toArrow", "toPandas"):
        return True
    return node.func.attr in _METHODS and bool(_SESSION.search(ast.unparse(node.func.value)))


@pytest.mark.slow
def test_all_that_engines_run_is_listed_by_what_it_is_over() -> None:
    listed = [place for places in PLACES.values() for place in places]
    assert len(listed) == len(set(listed))
    assert {f"{module}:{name}" for module, name in functions()} == set(listed)


@pytest.mark.slow
def test_what_reads_rows_for_owners_is_called_by_their_commands_alone() -> None:
    calling: dict[str, set[str]] = {name: set() for name in BY_OWNERS}
    importing: dict[str, set[str]] = {name: set() for name in IMPORTED}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            function = node.func if isinstance(node, ast.Call) else None
            name = getattr(function, "attr", getattr(function, "id", None))
            if name in calling:
                calling[name].add(module)
            if isinstance(node, ast.ImportFrom) and node.module in importing:
                importing[node.module].add(module)
    assert calling == BY_OWNERS
    assert importing == IMPORTED


def test_the_page_says_which_statements_are_not_read() -> None:
    page = (PACKAGE.parent / "docs" / "engines" / "last-reading.md").read_text("utf-8")
    _, _, after = page.partition("## What is not read")
    said = " ".join(after.partition("\n## ")[0].split())
    for module in {place.partition(":")[0] for key in (OWNER, OPENED) for place in PLACES[key]}:
        assert f"`dpsql/{module}`" in said, module


PLANTED: Final = {
    "a query": "from dpsql.engines.embedded.running import execute\ndef f(c):\n    execute(c, x)",
    "a relation": (
        "from dpsql.engines.embedded.running import relation\ndef f(c):\n    relation(c, x)"
    ),
    "rows of a server": "class A:\n    def f(self):\n        self._session.rows(x)",
    "a frame of Spark's": "def f(session):\n    return session.sql(x).toArrow()",
    "rows of Spark's": "def f(frame):\n    return frame.collect()",
    "a text that is sent": "def f(connection):\n    connection.execute(x)",
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_what_is_planted_is_found(planted: str) -> None:
    assert [*sending(ast.parse(planted))] != []
