"""The examples in docstrings hold: of every module that has some, found in the text."""

from __future__ import annotations

import doctest
import importlib
import io
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path for path in (ROOT / "dpsql").rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")
)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def failures(module: ModuleType) -> tuple[int, str]:
    """How many examples a module has, and what is wrong with them."""
    runner, told = doctest.DocTestRunner(), io.StringIO()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test, out=told.write)
    return runner.tries, told.getvalue()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_examples_in_docstrings_hold(path: Path) -> None:
    assert path.name != "__main__.py", "importing it would run it"
    tried, wrong = failures(importlib.import_module(name_of(path)))
    assert tried > 0, "an example that doctest does not find"
    assert wrong == ""


def test_some_modules_have_examples() -> None:
    assert MODULES


def test_a_wrong_example_is_noticed() -> None:
    module = ModuleType("wrong", ">>> 1 + 1\n3\n")
    tried, wrong = failures(module)
    assert tried == 1
    assert "Got:\n    2" in wrong
