"""Types of SQL are values: text is read where it enters, and written where it leaves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parents[2] / "dpsql"
NAMED: Final = re.compile(r"(\w*_)?types?_?(_of|_text|_name)?")
NAMES: Final = re.compile(r"(dict|Mapping)\[str, ")
READ: Final = "what an owner or a program wrote, which is read"
SHOWN: Final = "what people and programs read"
VERDICTS: Final = "the names of calls in tables of verdicts"
PLANS: Final = "the words of an engine's own plans and trees"
TEXT: Final = {
    "agents/replies.py": SHOWN,
    "core/plain.py": "types of Python",
    "core/sql_types.py": "the reader",
    "syntax/clock.py": "what a word that asks the clock is, for the parser's own casts",
    "engines/duckdb/engine.py": READ,
    "engines/duckdb/plan.py": PLANS,
    "engines/evidence/evidence.py": VERDICTS,
    "engines/evidence/verdicts.py": VERDICTS,
    "engines/postgresql/views.py": PLANS,
    "engines/spark/plan.py": PLANS,
    "engines/spark/schema.py": "the reason why a column has no type",
    "ledger/schema.py": "types of the ledger's own database",
    "owner/conformance.py": SHOWN,
    "owner/profile.py": "values of ENUMs, for the owner's draft",
    "policy/fields.py": READ,
    "present/result.py": SHOWN,
    "present/result_files.py": SHOWN,
    "results/description.py": SHOWN,
    "results/reading.py": SHOWN,
    "server/http/bodies.py": SHOWN,
    "server/wire/portals.py": SHOWN,
    "server/wire/values.py": SHOWN,
    "service/answering.py": SHOWN,
    "server/catalog/room_process.py": SHOWN,
    "server/catalog/structure.py": "types of PostgreSQL, as its catalogs name them",
}
"""The modules with text of types, and what it is."""


def texts_of_types(source: str) -> Iterator[str]:
    """The names for types in a module that are annotated as text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                pass
            case ast.FunctionDef(name=name, returns=ast.expr() as annotation):
                pass
            case _:
                continue
        values = NAMES.sub("", ast.unparse(annotation))
        if NAMED.fullmatch(name) and re.search(r"\bstr\b", values):
            yield name


def predicates_over_text(source: str) -> Iterator[str]:
    """The functions of a module that tell something of a text."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name):
            given = [ast.unparse(each.annotation) for each in node.args.args if each.annotation]
            if node.returns.id == "bool" and given == ["str"]:
                yield node.name


@pytest.mark.slow
def test_types_are_text_only_where_they_enter_and_leave() -> None:
    found = {
        str(path.relative_to(PACKAGE)): names
        for path in sorted(PACKAGE.rglob("*.py"))
        if (names := [*texts_of_types(path.read_text("utf-8"))])
    }
    assert {module: names for module, names in found.items() if module not in TEXT} == {}
    assert found.keys() == TEXT.keys(), "what is listed exists"


@pytest.mark.parametrize("module", ["core/schema.py", "core/sql_types.py"])
def test_what_a_type_is_is_asked_of_the_value(module: str) -> None:
    assert [*predicates_over_text((PACKAGE / module).read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "source",
    [
        "class Column:\n    type: str",
        "def cast(value: Sql, type_: str) -> Sql: ...",
        "def bound(types: Sequence[str | None]) -> None: ...",
        "def unit_type(table: Table) -> str | None: ...",
    ],
)
def test_text_of_a_type_is_noticed(source: str) -> None:
    assert len([*texts_of_types(source)]) == 1


def test_a_predicate_over_text_is_noticed() -> None:
    assert [*predicates_over_text("def is_integer(type_: str) -> bool: ...")] == ["is_integer"]
