"""A public name says which idea it is: no two modules of the package define the same one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "dpsql"


def defined(source: str) -> Iterator[str]:
    """Find the public names that a module defines itself, in branches and loops at its top too."""
    open_: list[ast.AST] = [ast.parse(source)]
    while open_:
        node = open_.pop()
        names: list[str] = []
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names = [node.name]
            case ast.Name(ctx=ast.Store()):
                names = [node.id]
            case ast.comprehension():
                pass  # its names are its own
            case _:
                open_ += ast.iter_child_nodes(node)
        yield from (name for name in names if not name.startswith("_"))


def defined_twice(sources: dict[str, str]) -> dict[str, list[str]]:
    """Find the public names that several of these modules define, with the modules."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for name in set(defined(source)):
            homes[name].append(module)
    return {name: modules for name, modules in homes.items() if len(modules) > 1}


@pytest.mark.slow
def test_no_public_name_is_defined_twice() -> None:
    sources = {
        str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")
    }
    assert len(sources) > 200
    assert defined_twice(sources) == {}


@pytest.mark.parametrize(
    "definition",
    [
        "def sums(): pass",
        "async def sums(): pass",
        "class sums: pass",
        "@command()\ndef sums(): pass",
        "sums = 1",
        "sums: int = 1",
        "first, sums = 1, 2",
        "if typing:\n    sums = 1",
        "try:\n    pass\nexcept ImportError:\n    sums = 1",
        "for sums in (1, 2):\n    pass",
    ],
)
def test_every_kind_of_definition_is_seen(definition: str) -> None:
    assert defined_twice({"a.py": "sums = 1", "b.py": definition}) == {"sums": ["a.py", "b.py"]}


def test_imports_and_private_names_define_nothing() -> None:
    others = {"b.py": "from a import sums, _own\n__all__ = ['sums']\n_own = 2", "c.py": "import a"}
    assert defined_twice({"a.py": "sums = 1\n_own = 1\n__all__ = []", **others}) == {}
