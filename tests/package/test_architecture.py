"""The package keeps its shape: imports in one direction, libraries where they belong."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dpsql"

# From the outside in. What stands in a layer may import from its own part and from layers below it.
LAYERS: dict[str, list[list[str]]] = json.loads((ROOT / "docs" / "layers.json").read_text("utf-8"))
LIBRARIES = {
    "sqlglot": {"pipeline", "sql", "engines", "syntax", "owner", "ir"},
    "duckdb": {"engines", "views", "owner", "pipeline", "results", "interfaces", "survey"}
    | {"server"},  # the room of the catalogs
    "sqlalchemy": {"interfaces"},
    "sqlite3": {"ledger", "server"},
    "argon2": {"server"},
    "jwt": {"server"},
    "matplotlib": {"present", "results", "notebook"},
    "IPython": {"notebook"},
    "psycopg": {"ledger"},
    "pydantic": {"policy", "agents", "server"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "prometheus_client": {"server"},
    # `dpsql mcp` answers sooner than this is imported: it speaks the protocol itself.
    "mcp": {"server"},
    "mcp_types": {"server"},
    "ruamel": {"policy"},
    "rich": {"present", "interfaces"},
    "click": {"interfaces"},
    "prompt_toolkit": {"interfaces"},
    "pygments": {"interfaces"},
}


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its full name; a package is its ``__init__``."""
    paths = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in PACKAGE.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in sorted(paths.items())}


@cache
def imported(module: str) -> frozenset[str]:
    """The modules that one imports, in functions too, type checking included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(modules()[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} uses a relative import"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names.update(n if n in modules() else str(node.module) for n in whole)
    return frozenset(names - {module})


def parts_of(module: str, package: str) -> str:
    """Which part of a package a module is in: ``__init__`` for the package itself."""
    return module.removeprefix(package).lstrip(".").split(".")[0] or "__init__"


def climbing(package: str) -> Iterator[str]:
    rank = {name: place for place, layer in enumerate(LAYERS[package]) for name in layer}
    inside = [m for m in modules() if f"{m}.".startswith(f"{package}.")]
    for module in inside:
        for other in imported(module) & {*inside}:
            one, two = parts_of(module, package), parts_of(other, package)
            # Whatever is imported, the package itself comes with it: it is no arrow of its own.
            if one != two and two != "__init__" and not rank[one] < rank[two]:
                yield f"{module} imports {other}"


@pytest.mark.parametrize("package", LAYERS)
def test_imports_point_inwards(package: str) -> None:
    assert list(climbing(package)) == []


def circles() -> list[list[str]]:
    """Modules that import each other, however many stand between them."""
    reached: dict[str, set[str]] = {}
    for module in modules():
        found: set[str] = set()
        todo = [module]
        while todo:
            fresh = {n for n in imported(todo.pop()) if n in modules()} - found
            found |= fresh
            todo += fresh
        reached[module] = found
    mutual = {m: sorted(n for n in reached[m] if m in reached[n]) for m in reached}
    return [list(names) for names in sorted({tuple(names) for names in mutual.values() if names})]


def test_no_modules_import_each_other() -> None:
    # ``import dpsql`` alone is for what is at hand in the package: its version.
    assert [names for names in circles() if set(names) != {"dpsql"}] == []


# What of the package is a library of its own, and what it needs beside itself.
ALONE = {
    "dpsql.privacy": {"dpsql.errors"},
    "dpsql.ledger": {
        "dpsql.core.extras",
        "dpsql.core.names",
        "dpsql.errors",
        "dpsql.privacy.accounting",
    },
    "dpsql.server.people": {"dpsql.core", "dpsql.errors"},
}


def needed(library: str) -> set[str]:
    """The modules outside of a library that it needs, however many stand between them."""
    found: set[str] = set()
    todo = [module for module in modules() if f"{module}.".startswith(f"{library}.")]
    while todo:
        fresh = {name for name in imported(todo.pop()) if name in modules()} - found
        found |= fresh
        todo += fresh
    return {name for name in found if not f"{name}.".startswith(f"{library}.")}


@pytest.mark.parametrize("library", ALONE)
def test_a_library_of_its_own_needs_little_else(library: str) -> None:
    allowed = tuple(f"{name}." for name in ALONE[library])
    assert {name for name in needed(library) if not f"{name}.".startswith(allowed)} == set()


def test_what_needs_the_whole_package_is_noticed() -> None:
    assert {"dpsql.policy.model", "dpsql.privacy.accounting.zcdp"} <= needed("dpsql.budget")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_used_only_where_it_belongs(library: str) -> None:
    users = {
        parts_of(module, "dpsql")
        for module in modules()
        if any(name.split(".")[0] == library for name in imported(module))
    }
    assert users <= LIBRARIES[library]


def test_no_seedable_randomness_in_the_product() -> None:
    for module, path in modules().items():
        text = path.read_text("utf-8")
        assert "numpy.random" not in text, module
        assert "np.random" not in text, module
        assert not imported(module) & {"random"}, module


# Who may hold all that a database has, whether or not a policy lists it.
CATALOG_HOLDERS = {
    "dpsql.core.catalog",
    "dpsql.service.opening",
    "dpsql.dbapi.connection",
    "dpsql.owner.profile",
    "dpsql.interfaces.cli.check",
    "dpsql.interfaces.cli.init_questions",
    "dpsql.interfaces.demo.data",
}
OWNERS_NAMES = {"Catalog", "Database", "DuckDBEngine", "PostgreSQLEngine", "SparkEngine"}
OWNERS_CALLS = {"catalog", "definition"}
OPENING = {"open_engine", "open_database", "engine_of_session"}
OPENERS = {"dpsql.interfaces.shell.target"}  # hand what they open to ``connect``
IN_PUBLIC = {"dpsql"}  # names for whoever imports them


def holding_catalogs(module: str, source: str) -> set[str]:
    """Names of a catalog's, and calls for one, in the text of a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            found |= names & (OWNERS_NAMES | (set() if module in OPENERS else OPENING))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if node.func.attr in OWNERS_CALLS and owner != "re":
                found.add(f"{owner}.{node.func.attr}()")
    return found


@pytest.mark.slow
def test_nothing_but_opening_init_and_check_holds_a_catalog() -> None:
    free = {m for m in modules() if m.startswith("dpsql.engines.")} | CATALOG_HOLDERS | IN_PUBLIC
    found = {
        module: holding
        for module, path in modules().items()
        if module not in free
        and (holding := holding_catalogs(module, path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "from dpsql.core.catalog import Catalog",
        "from dpsql.engines.base.engine import Database",
        "def f():\n    from dpsql.engines.opening import open_engine",
        "def f(x):\n    return x.engine.catalog().tables",
        "from dpsql.engines.duckdb.engine import DuckDBEngine as Engine",
    ],
)
def test_a_catalog_elsewhere_is_noticed(source: str) -> None:
    assert holding_catalogs("dpsql.pipeline.prepare", source) != set()
