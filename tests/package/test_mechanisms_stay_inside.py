"""Which class a mechanism or a noise is of is asked within the library alone.

Others ask what it costs, draws and says of itself: so a new one needs nothing of theirs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from test_architecture import modules

LIBRARY = "dpsql.privacy"
KINDS = (f"{LIBRARY}.mechanisms", f"{LIBRARY}.sampling", f"{LIBRARY}.streams")


def told_apart(source: str, homes: tuple[str, ...] = KINDS) -> Iterator[str]:
    """The classes of these packages that a module tells apart: by default mechanisms and noises."""
    tree = ast.parse(source)
    kinds = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(homes)
        for alias in node.names
    }
    for node in ast.walk(tree):
        asked: list[ast.expr] = []
        match node:
            case ast.Call(func=ast.Name("isinstance" | "issubclass" | "type")):
                asked = node.args[1:]
            case ast.MatchClass():
                asked = [node.cls]
            case ast.Compare(left=ast.Call(func=ast.Name("type"))):
                asked = node.comparators
        names = (name for one in asked for name in ast.walk(one) if isinstance(name, ast.Name))
        yield from (name.id for name in names if name.id in kinds)


@pytest.mark.slow
def test_nobody_outside_of_the_library_asks_for_a_class() -> None:
    found = {
        name: classes
        for name, path in modules().items()
        if not name.startswith(LIBRARY) and (classes := sorted(told_apart(path.read_text("utf-8"))))
    }
    assert not found, "ask the mechanism, or give it an answer: see Usual and UsualNoise"


@pytest.mark.parametrize(
    "asked",
    [
        "isinstance(x, SetUnion)",
        "isinstance(x, str | SetUnion)",
        "isinstance(x, (int, SetUnion))",
        "type(x) is SetUnion",
        "match x:\n    case SetUnion():\n        pass",
        "match x:\n    case [int(), SetUnion(norm=1)]:\n        pass",
    ],
)
def test_a_question_for_a_class_is_found(asked: str) -> None:
    imports = "from dpsql.privacy.mechanisms.set_union import SetUnion\n"
    assert list(told_apart(imports + asked)) == ["SetUnion"]
    assert not list(told_apart(imports.replace("dpsql.", "other.") + asked))
