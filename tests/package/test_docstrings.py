"""Docstrings of the mechanisms say of every array which shape it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

MECHANISMS = Path(__file__).parents[2] / "dpsql" / "privacy"
PROTOCOLS = {"select": "selection.py", "add": "additive.py"}
"""Methods that every mechanism has, and the module of the protocol that documents them."""


def public_functions(tree: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """Find the public functions of a module, and the public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def handles_arrays(function: ast.FunctionDef) -> bool:
    """Tell whether a function takes or returns arrays, by its annotations."""
    given = function.args
    arguments = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    annotations = (*(argument.annotation for argument in arguments), function.returns)
    return any("NDArray" in ast.unparse(each) for each in annotations if each is not None)


def without_shape(folder: Path) -> list[str]:
    """List the functions over arrays whose docstrings name no shape.

    A method that implements a protocol and has nothing to add is documented there.
    """
    found = []
    for path in sorted(folder.rglob("*.py")):
        for function in public_functions(ast.parse(path.read_text("utf-8"))):
            text = ast.get_docstring(function) or ""
            documented = not text and PROTOCOLS.get(function.name) not in (None, path.name)
            if handles_arrays(function) and not documented and "shape" not in text:
                found.append(f"{path.name}: {function.name}")
    return found


@pytest.mark.slow
def test_every_array_of_a_mechanism_has_its_shape_in_words() -> None:
    assert (MECHANISMS / "mechanisms").is_dir()
    assert without_shape(MECHANISMS) == []


def test_a_function_without_a_shape_is_found(tmp_path: Path) -> None:
    text = 'def noisy(x: NDArray[int]) -> NDArray[int]:\n    """Add noise{}."""\n'
    (tmp_path / "additive.py").write_text(text.format(""))
    (tmp_path / "topk.py").write_text(text.format(" to an array of shape (n,)"))
    assert without_shape(tmp_path) == ["additive.py: noisy"]
