"""Generated SQL is a value: nothing in the package makes a text of it, or reads one.

A template is a constant of our own code. What is put into it are names, literals, numbers and other
SQL. Text becomes SQL in a few listed places, and SQL becomes text where an engine is about to read
it. So no text of an analyst's, an owner's or a row's can be taken for SQL, wherever it stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parents[2] / "dpsql"
PARTS: Final = (
    *("sql/dialects", "sql/rewrite", "sql/relations", "sql/expressions", "sql/tail"),
    *("engines", "continual", "pipeline", "results/rows.py"),
)
"""Where SQL is generated, or sent."""
WRITTEN: Final = {
    "connection/answering.py": "values of query parameters, as the parser's generator writes them",
    "engines/sandbox_child.py": "statements that the parent process has rendered",
    "engines/views.py": "the query of an owner's view, as the engine itself writes its tree",
    "ir/query.py": "a validated tail, as the parser's generator writes it",
    "sql/dialects/duckdb.py": "checked expressions, as the parser's generator writes them",
}
"""The modules in which text becomes SQL, and which text."""
SENDING: Final = {
    "engines/running.py": "DuckDB",
    "engines/postgresql.py": "PostgreSQL",
    "engines/spark.py": "Spark",
    "engines/spark_reading.py": "Spark, which analyses queries over empty views, and runs none",
    "engines/spark_schema.py": "Spark, which describes its tables",
    "engines/survey.py": "no database of anybody's: it makes the table of evidence",
}
"""The modules that have engines run text, and whose."""
NO_DATABASE: Final = (
    *("engines/survey.py", "engines/evidence.py"),  # names of calls in the table of evidence
    "sql/dialects/postgresql_rows.py",  # names of calls in the table of verdicts
)
"""Modules that make text which looks like SQL, and send it to nobody's rows."""
WORDS: Final = (
    *(
        "SELECT ",
        "FROM ",
        "WHERE ",
        "CREATE ",
        "INSERT ",
        "DROP ",
        "CAST(",
        " AS ",
        "SET ",
        "ATTACH ",
    ),
    *("ATTACH ", "UNION ", "ORDER BY", "GROUP BY", "LIMIT ", "CASE ", "COPY ", "LOAD "),
)
"""What a text has that is SQL."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Find all modules of the package that generate SQL or send it, by their paths."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(PARTS) or name in WRITTEN:
            yield name, ast.parse(path.read_text("utf-8"))


def is_constant(node: ast.expr, constants: frozenset[str]) -> bool:
    """Tell whether a node is text of our own code: a constant, or one of the module's constants."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.Name) and node.id in constants


def constants_of(tree: ast.Module) -> frozenset[str]:
    """Find the names that a module gives to constant texts, or to each in a table of such."""
    found: set[str] = set()
    tables: set[str] = set()
    for node in tree.body:
        target: ast.expr | None = None
        value: ast.expr | None = None
        if isinstance(node, ast.AnnAssign):
            target, value = node.target, node.value
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        if not isinstance(target, ast.Name):
            continue
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            found.add(target.id)
        if isinstance(value, ast.Dict) and all(isinstance(v, ast.Constant) for v in value.values):
            tables.add(target.id)
    loops = (part for part in ast.walk(tree) if isinstance(part, ast.comprehension))
    for loop in loops:
        last = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else None
        if _items_of(loop.iter) in tables and isinstance(last, ast.Name):
            found.add(last.id)
    return frozenset(found)


def imported_by(tree: ast.Module) -> frozenset[str]:
    """Find the constant texts that a module has of other modules of the package."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpsql."):
            path = PACKAGE.parent / f"{(node.module or '').replace('.', '/')}.py"
            if path.is_file():
                known = constants_of(ast.parse(path.read_text("utf-8")))
                found |= {each.name for each in node.names} & known
    return frozenset(found)


def _items_of(node: ast.expr) -> str | None:
    """The table whose items are gone through: ``TABLE.items()``."""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr == "items":
        return called.value.id if isinstance(called.value, ast.Name) else None
    return None


def called(node: ast.AST) -> str | None:
    """The name of the function that a node calls, if it calls one by a name."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    return None


def objections(name: str, tree: ast.Module) -> Iterator[str]:
    """What makes SQL of text in a module, or text of SQL, and where."""
    constants = constants_of(tree) | imported_by(tree)
    quiet = {id(part) for node in ast.walk(tree) for part in _of_no_engine(node)}
    for node in ast.walk(tree):
        if called(node) in ("sql", "join"):
            assert isinstance(node, ast.Call)
            if not node.args or not is_constant(node.args[0], constants):
                yield f"{name}:{getattr(node, 'lineno', 0)}: the template is no constant"
        if called(node) == "Written" and name not in WRITTEN:
            yield f"{name}:{getattr(node, 'lineno', 0)}: text becomes SQL here"
        if called(node) == "Sql":
            assert isinstance(node, ast.Call)
            if any(called(part) not in ("Name", "Text", "Written") for part in node.args):
                yield f"{name}:{getattr(node, 'lineno', 0)}: Sql() of what is no piece"
        if name not in NO_DATABASE and id(node) not in quiet and _is_text(node):
            yield f"{name}:{getattr(node, 'lineno', 0)}: a text that is SQL is put together"
        if name not in SENDING and _sends(node):
            yield f"{name}:{getattr(node, 'lineno', 0)}: text is sent to an engine"


def _of_no_engine(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of errors and remarks, which people read, and of patterns."""
    if isinstance(node, ast.Raise):
        yield from ast.walk(node)
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "hint":
        yield from ast.walk(node)
    name = node.func if isinstance(node, ast.Call) else None
    word = name.id if isinstance(name, ast.Name) else getattr(name, "attr", "")
    if word.lower().endswith(("error", "refused", "remark", "finding", "_may", "compile")):
        yield from ast.walk(node)


def _is_text(node: ast.AST) -> bool:
    """Tell whether a node puts together a text that is SQL, by any of Python's ways."""
    match node:
        case ast.JoinedStr():
            parts = [v for v in node.values if isinstance(v, ast.Constant)]
        case ast.BinOp(op=ast.Add() | ast.Mod()):
            parts = [v for v in (node.left, node.right) if isinstance(v, ast.Constant)]
        case ast.Call(func=ast.Attribute(attr="format" | "replace" | "join", value=value)):
            parts = [v for v in (value, *node.args) if isinstance(v, ast.Constant)]
        case _:
            return False
    texts = [part.value for part in parts if isinstance(part.value, str)]
    return any(word in text for text in texts for word in WORDS)


def _sends(node: ast.AST) -> bool:
    """Tell whether a node calls a method of an engine's that runs text."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in ("execute", "executemany", "sql", "query", "from_query") and not (
        # Of the package's own: they take SQL, or trees.
        ast.unparse(node.func.value) in ("self", "values", "values.data", "table.data", "node")
        or (node.func.attr in ("query", "sql") and not _is_cursor(node.func.value))
    )


def _is_cursor(node: ast.expr) -> bool:
    """Tell whether an expression is a connection, a cursor or a session, by what it is called."""
    words = ast.unparse(node).lower()
    return any(word in words for word in ("connection", "cursor", "session", "duckdb", "room"))


def test_nothing_but_values_makes_sql() -> None:
    found = [each for name, tree in modules() for each in objections(name, tree)]
    assert found == []


def test_all_listed_places_are_in_use() -> None:
    trees = dict(modules())
    made = {name for name, tree in trees.items() if "Written" in map(called, ast.walk(tree))}
    assert made == WRITTEN.keys()
    assert {name for name in trees if any(map(_sends, ast.walk(trees[name])))} == SENDING.keys()


PLANTED: Final = {
    "SQL of a text": "Sql(some_string)",
    "SQL of a text in a piece": "Sql(Written(some_string))",
    "a template that is a variable": "sql(some_string, name(x))",
    "a template that is put together": 'sql("SELECT " + some_string)',
    "a template that is formatted": 'sql(f"SELECT {x}")',
    "a separator that is a variable": "join(some_string, parts)",
    "a template that is searched": 'made = "contains({0}, CAST({1} AS TEXT))".replace("{0}", x)',
    "a text with a place": 'made = f"SELECT * FROM {x}"',
    "a text by format": 'made = "SELECT * FROM {}".format(x)',
    "a text by percent": 'made = "SELECT * FROM %s" % x',
    "a text by plus": 'made = "SELECT * FROM " + x',
    "texts that are joined": 'made = " UNION ALL ".join(parts)',
    "a text that is sent": 'connection.execute(f"DROP TABLE {x}")',
    "a constant that is sent": 'cursor.execute("COMMIT")',
    "a text that is bound": "self._connection.sql(x)",
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_what_is_planted_is_found(planted: str) -> None:
    assert list(objections("engines/planted.py", ast.parse(planted))) != []


@pytest.mark.parametrize(
    "fine",
    [
        'sql("SELECT {} FROM {}", name(x), rows)',
        'join(", ", parts)',
        '_TABLE = "SELECT 1"\nsql(_TABLE)',
        "Sql(Name(x), Text(y))",
        'raise EngineError(f"SELECT {x} failed")',
        'execute(connection, sql("COMMIT"))',
    ],
)
def test_what_is_generated_is_fine(fine: str) -> None:
    assert list(objections("engines/planted.py", ast.parse(fine))) == []
