"""The package keeps its shape: imports in one direction, libraries where they belong."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "dpsql"

# From the outside in. A module may import from its own layer's package and from layers below it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__", "__init__"),
    ("cli", "notebook"),
    ("shell",),
    ("demo",),
    ("demo_data", "output", "output_budget", "plot"),
    ("render",),
    ("sqlalchemy_dialect",),
    ("dbapi",),
    ("session",),
    ("cursor",),
    ("show",),
    ("result",),
    ("stored", "prepare", "read"),
    ("tail",),
    ("budget", "draft"),
    ("release", "explain", "scaffold", "fingerprint", "reading"),
    ("record",),
    ("planner", "engines", "sql", "policy_file", "calibrate"),
    ("intervals",),
    ("plan", "yaml_tree", "estimates"),
    ("query", "ledger"),
    ("measures",),
    ("mechanisms", "composition"),
    ("policy",),
    ("accounting",),
    ("schema", "quoting", "figures", "names", "plain", "kept"),
    ("codes",),
    ("errors",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# Reprs render themselves; rendering is imported when one is asked for.
LAZY = {
    ("result", "render"),
    ("result", "plot"),
    ("explain", "render"),
    ("budget", "render"),
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def imported(path: Path) -> set[str]:
    """Full names of the modules a file imports, in functions too, type checking included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_inwards(path: Path) -> None:
    own = layer_of(path)
    for name in imported(path):
        if not name.startswith("dpsql."):
            continue
        other = name.split(".")[1]
        if other == own or (own, other) in LAZY:
            continue
        assert RANK[own] < RANK[other], f"{own} may not import {other}"


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("sqlglot", {"fingerprint", "sql", "query", "measures"}),
        ("duckdb", {"engines", "tail", "demo", "demo_data"}),
        ("sqlalchemy", {"sqlalchemy_dialect"}),
        ("sqlite3", {"ledger"}),
        ("matplotlib", {"plot", "result", "notebook"}),
        ("IPython", {"notebook"}),
        ("psycopg", {"ledger"}),
        ("pydantic", {"policy_file"}),
        ("ruamel", {"yaml_tree"}),
        (
            "rich",
            {
                *("render",),
                *("cli", "shell", "demo", "output"),
            },
        ),
        ("click", {"cli", "demo"}),
        ("prompt_toolkit", {"shell"}),
        ("pygments", {"shell"}),
    ],
)
def test_a_library_is_used_only_where_it_belongs(library: str, homes: set[str]) -> None:
    users = {
        layer_of(path)
        for path in modules()
        if any(name.split(".")[0] == library for name in imported(path))
    }
    assert users <= homes


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_seedable_randomness_in_the_product(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "numpy.random" not in text
    assert "np.random" not in text
    assert not imported(path) & {"random"}
