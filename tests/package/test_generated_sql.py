"""Generated SQL is a value: nothing in the package makes a text of it, or reads one.

A template is a constant of our own code. What is put into it are names, literals, numbers and other
SQL. Text becomes SQL in a few listed places, and SQL becomes text where an engine is about to read
it. So no text of an analyst's, an owner's or a row's can be taken for SQL, wherever it stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parents[2] / "dpsql"
PARTS: Final = (
    *("kinds", "sql/rewrite", "sql/relations", "sql/expressions", "sql/tail"),
    *("engines", "views", "owner", "pipeline", "survey", "results/rows.py", "server/catalog"),
)
"""Where SQL is generated, or sent."""
WRITTEN: Final = {
    "service/answering.py": "values of query parameters, as the parser's generator writes them",
    "engines/embedded/sandbox_child.py": "statements that the parent process has rendered",
    "engines/duckdb/views.py": "the query of an owner's view, as the engine itself writes its tree",
    "server/catalog/room_child.py": "queries over catalogs, as the parser's generator writes them",
    "ir/query.py": "a validated tail, as the parser's generator writes it",
    "engines/duckdb/dialect.py": "checked expressions, as the parser's generator writes them",
}
"""The modules in which text becomes SQL, and which text."""
SENDING: Final = {
    "engines/embedded/running.py": "DuckDB",
    "engines/postgresql/sessions.py": "PostgreSQL",
    "engines/spark/engine.py": "Spark",
    "engines/spark/reading.py": "Spark, which analyses queries over empty views, and runs none",
    "engines/spark/schema.py": "Spark, which describes its tables",
}
"""The modules that have engines run text, and whose."""
NO_DATABASE: Final = (
    "engines/evidence/evidence.py",  # names of calls in the table of evidence
    "engines/postgresql/expressions.py",  # names of calls in the table of verdicts
    "survey/forms.py",  # what analysts may write, which is parsed as theirs is
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
    for name, tree in everything():
        if name.startswith(PARTS) or name in WRITTEN:
            yield name, tree


@cache
def everything() -> tuple[tuple[str, ast.Module], ...]:
    """Find all modules of the package."""
    return tuple(
        (path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text("utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    )


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
        if called(node) in ("sql", "join", "written_as"):
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


# -- names and literals, anywhere -----------------------------------------------------------------


WRITERS: Final = {
    "core/quoting.py": "DuckDB's and PostgreSQL's spelling, which their renderers use",
    "core/table_name.py": "the name of a table as people read and write it in policies",
    "engines/spark/text.py": "Spark's spelling, which its renderer uses",
    "server/wire/portals.py": "cells of CSV, which COPY sends",
    "engines/postgresql/expressions.py": "texts within a format of to_char, itself a literal",
    "engines/spark/expressions.py": "texts within a format of date_format, itself a literal",
}
"""The modules that put names and texts in quotes."""
TYPES: Final = "the text of a type, which core/sql_types.py reads word by word"
SHOWN: Final = "what people read"
ASKED: Final = "a statement to dpsql itself, which is read as an analyst's is"
QUOTING: Final = {
    "agents/facts.py": ASKED,
    "agents/proposals.py": ASKED,
    "core/sql_types.py": TYPES,
    "core/formatting.py": SHOWN,
    "service/listings.py": SHOWN,
    "engines/embedded/plan_sql.py": TYPES,
    "engines/embedded/spelling.py": "DuckDB's renderer",
    "engines/postgresql/reading.py": "PostgreSQL's renderer",
    "engines/spark/engine.py": "names of views, which Spark's own interface takes as text",
    "engines/spark/reading.py": "names of views, which Spark's own interface takes as text",
    "engines/spark/schema.py": "names of databases, which Spark's own interface takes as text",
    "engines/embedded/types.py": TYPES,
    "interfaces/cli/refresh.py": ASKED,
    "interfaces/shell/candidates.py": ASKED,
    "interfaces/shell/commands_settings.py": ASKED,
    "interfaces/shell/completion.py": ASKED,
    "interfaces/shell/state.py": ASKED,
    "interfaces/sqlalchemy.py": ASKED,
    "pipeline/trace.py": SHOWN,
    "owner/draft_text.py": "names in a policies file",
    "sql/blocks/aggregates.py": SHOWN,
}
"""The modules that use them, and what for: nowhere else is a name or a text made a part of text."""
QUOTES: Final = frozenset({"quote", "quote_text", "quote_table", "spark_quote", "Quoted"})
NO_SQL: Final = {
    "agents/proposals.py": ASKED,
    "interfaces/shell/command.py": "help",
    "planner/topk.py": "the reason of a refusal",
    "sql/blocks/build.py": "the hints of refusals",
    "interfaces/demo/tour.py": "what is told on the way",
    "interfaces/shell/commands_settings.py": ASKED,
    "interfaces/shell/commands_inspect.py": ASKED,
    "interfaces/cli/refresh.py": ASKED,
    "interfaces/sqlalchemy.py": ASKED,
    "sql/blocks/aggregates.py": "the hint of a refusal",
    "interfaces/demo/data.py": "the file of the demonstration, of constants",
    "ledger/schema.py": "tables and triggers, of constants when the module is imported",
    "server/wire/conversation.py": "the tags of statements that are done",
    "server/people/users.py": "the file of users, whose columns are constants",
}
"""Modules outside of those that generate SQL, in which a text looks like it."""


IN_QUOTES: Final = {
    "core/extras.py": SHOWN,
    "engines/evidence/evidence.py": "names of calls in the table of evidence",
    "engines/spark/masked.py": "digests in the place of names, in a statement that is read",
    "interfaces/cli/config.py": SHOWN,
    "owner/draft_text.py": "texts in a policies file",
    "policy/parameters.py": SHOWN,
    "syntax/row_functions.py": "constants that a call is tried with, as an analyst types them",
}
"""The modules that put a text in quotes without looking into it, and what for."""


def doubles_quotes(node: ast.AST) -> bool:
    """Tell whether a node makes quotes inside a text harmless, which only writers of SQL do."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr not in ("replace", "sub") or len(node.args) < 2:
        return False
    values = [each.value if isinstance(each, ast.Constant) else None for each in node.args[:2]]
    old, new = values
    return isinstance(old, str) and old in ("'", '"', "`") and new != ""


def stands_in_quotes(node: ast.AST) -> bool:
    """Tell whether a node puts a value between single quotes and nothing else: a literal."""
    match node:
        case ast.JoinedStr():
            texts = [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
            made = "".join(map(str, texts))
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str() as text))):
            made = text.replace("{}", "\0")
        case ast.BinOp(left=ast.BinOp(left=ast.Constant(value="'")), right=ast.Constant(value="'")):
            return True
        case _:
            return False
    return made in ("'\0'", '"\0"', "`\0`")


def uses_quotes(tree: ast.Module) -> bool:
    """Tell whether a module has any of what puts names and texts in quotes."""
    return any(
        isinstance(node, ast.ImportFrom) and any(each.name in QUOTES for each in node.names)
        for node in ast.walk(tree)
    )


def quoted_by_hand(name: str, tree: ast.Module) -> Iterator[str]:
    """What makes a name or a literal of text in a module, and where."""
    for node in ast.walk(tree):
        doubled = doubles_quotes(node) and name not in WRITERS
        beside = stands_in_quotes(node) and name not in (*WRITERS, *IN_QUOTES)
        if doubled or beside:
            yield f"{name}:{getattr(node, 'lineno', 0)}: a name or literal is written here"
    if uses_quotes(tree) and name not in QUOTING:
        yield f"{name}: a name or literal is made a part of text"


def test_what_is_listed_exists() -> None:
    listed = (*PARTS, *WRITTEN, *SENDING, *NO_DATABASE, *NO_SQL, *QUOTING)
    assert [name for name in listed if not (PACKAGE / name).exists()] == []


@pytest.mark.slow
def test_names_and_literals_are_written_by_renderers_alone() -> None:
    found = [each for name, tree in everything() for each in quoted_by_hand(name, tree)]
    assert found == []


@pytest.mark.slow
def test_all_modules_that_quote_do() -> None:
    trees = dict(everything())
    assert {name for name, tree in trees.items() if uses_quotes(tree)} == QUOTING.keys()
    writing = {n for n, tree in trees.items() if any(map(doubles_quotes, ast.walk(tree)))}
    assert writing == WRITERS.keys()
    beside = {n for n, tree in trees.items() if any(map(stands_in_quotes, ast.walk(tree)))}
    assert beside - WRITERS.keys() == IN_QUOTES.keys()


def put_together(name: str, tree: ast.Module) -> Iterator[str]:
    """Texts that are SQL, of more than a module's constants; values have question marks there."""
    found = [node for node in ast.walk(tree) if _is_text(node)]
    quiet = {id(part) for node in ast.walk(tree) for part in _of_no_engine(node)} if found else ()
    scopes = Scopes(tree) if found else None
    for node in found:
        if id(node) not in quiet and scopes is not None and not scopes.is_constant(node):
            yield f"{name}:{getattr(node, 'lineno', 0)}: a text that is SQL is put together"


@pytest.mark.slow
def test_no_text_is_put_together_to_sql_elsewhere() -> None:
    """In the ledger and wherever else no SQL is generated, statements are of constants."""
    found = [
        each
        for name, tree in everything()
        if not name.startswith(PARTS) and name not in (*WRITTEN, *NO_SQL)
        for each in put_together(name, tree)
    ]
    assert found == []


class Scopes:
    """What in a module is made of its constants alone."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._parents = {
            id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self._functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        self._seen: set[int] = set()

    def is_constant(self, node: ast.AST) -> bool:
        """Tell whether a value follows from the module's text."""
        match node:
            case ast.Constant() | ast.Compare() | ast.Lambda():
                return True
            case ast.Name():
                return self._is_constant_name(node)
            case ast.Attribute() | ast.Subscript() | ast.FormattedValue() | ast.Starred():
                return self.is_constant(node.value)
            case ast.JoinedStr():
                return all(map(self.is_constant, node.values))
            case ast.BinOp():
                return self.is_constant(node.left) and self.is_constant(node.right)
            case ast.IfExp():
                return self.is_constant(node.body) and self.is_constant(node.orelse)
            case ast.Tuple() | ast.List() | ast.Set():
                return all(map(self.is_constant, node.elts))
            case ast.Dict():
                return all(map(self.is_constant, node.values))
            case ast.GeneratorExp() | ast.ListComp() | ast.SetComp():
                return self.is_constant(node.elt)
            case ast.Call():
                return self._is_constant_call(node)
        return False

    def _is_constant_call(self, node: ast.Call) -> bool:
        if isinstance(node.func, ast.Attribute):  # a method of a constant: join, format, items
            if node.func.attr == "values":
                return False
            return all(map(self.is_constant, (node.func.value, *node.args)))
        if not isinstance(node.func, ast.Name):
            return False
        if node.func.id == "len":  # a number
            return True
        if node.func.id in self._functions:
            function = self._functions[node.func.id]
            returns = [n for n in ast.walk(function) if isinstance(n, ast.Return)]
            return all(n.value is not None and self.is_constant(n.value) for n in returns)
        return all(map(self.is_constant, node.args)) and node.func.id in (
            *("sorted", "tuple", "list", "zip", "enumerate", "str", "range", "map"),
        )

    def _is_constant_name(self, node: ast.Name) -> bool:
        if node.id.lstrip("_").isupper():
            return True
        found = [*self._values_of(node)]
        if not found or any(id(each) in self._seen for each in found):
            return False
        self._seen.update(map(id, found))
        try:
            return all(map(self.is_constant, found))
        finally:
            self._seen.difference_update(map(id, found))

    def _values_of(self, node: ast.Name) -> Iterator[ast.expr]:
        """What a name has got, in the comprehensions and the function that it stands in."""
        place: ast.AST | None = node
        while place is not None:
            for loop in getattr(place, "generators", ()):
                if node.id in {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}:
                    yield loop.iter
                    return
            if isinstance(place, ast.FunctionDef | ast.Module):
                yield from _assigned(place, node.id)
                if isinstance(place, ast.FunctionDef):
                    yield from self._arguments(place, node.id)
                return
            place = self._parents.get(id(place))

    def _arguments(self, function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
        """What a parameter of a function of the module is given, wherever it is called."""
        named = function.args.kwarg
        if named is not None and named.arg == name:  # whose names are words of our own code
            yield ast.Constant(name)
        names = [each.arg for each in function.args.args]
        if name in names:
            calls = [n for n in ast.walk(self._tree) if called(n) == function.name]
            given = [n.args[names.index(name)] for n in calls if isinstance(n, ast.Call)]
            yield from given or [ast.Name(id="unknown")]


def _assigned(place: ast.AST, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(place):
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                yield value
            case ast.For(target=target, iter=values):
                if name in {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}:
                    yield values
            case ast.AugAssign(target=ast.Name(id=found), value=value) if found == name:
                yield value


BY_HAND: Final = {
    "a name in quotes": """made = '"' + x.replace('"', '""') + '"'""",
    "a literal": """made = x.replace("'", "''")""",
    "a literal of Spark's": """made = x.replace("'", "\\\\'")""",
    "a name of Spark's": """made = x.replace("`", "``")""",
    "a literal in quotes": """made = f"'{x}'" """,
    "a literal by format": """made = "'{}'".format(x)""",
    "a literal by plus": """made = "'" + x + "'" """,
    "a name by the function": "from dpsql.core.quoting import quote",
    "a literal by the function": "from dpsql.core.quoting import quote_text",
}


@pytest.mark.parametrize("planted", BY_HAND.values(), ids=BY_HAND)
@pytest.mark.parametrize("place", ["ledger/planted.py", "results/planted.py", "planted.py"])
def test_what_is_quoted_by_hand_is_found(planted: str, place: str) -> None:
    assert list(quoted_by_hand(place, ast.parse(planted))) != []


OF_VALUES: Final = {
    "a parameter": "def f(x):\n    return f'SELECT {x} FROM t'",
    "a value that is looked up": "def f(x):\n    y = g(x)\n    return f'SELECT {y} FROM t'",
    "a value of a loop": "def f(xs):\n    return [f'SELECT {x} FROM t' for x in xs]",
    "values that are joined": "def f(xs):\n    return 'SELECT ' + ', '.join(xs)",
    "an argument": "def f(x):\n    return f'SELECT {x} FROM t'\n\ndef g(y):\n    return f(y)",
    "values by name": "def f(**xs):\n    return 'SELECT ' + ', '.join(xs.values())",
    "a value by format": "def f(x):\n    return 'SELECT {} FROM t'.format(x)",
}


@pytest.mark.parametrize("planted", OF_VALUES.values(), ids=OF_VALUES)
def test_statements_of_values_are_found(planted: str) -> None:
    assert list(put_together("ledger/planted.py", ast.parse(planted))) != []


@pytest.mark.parametrize(
    "fine",
    [
        "_PARTS = ('a', 'b')\ndef f(x):\n    n = ', '.join(_PARTS)\n"
        "    return sql.execute(f'SELECT {n} FROM t WHERE k = ?', (x,))",
        "def marks(n):\n    return ', '.join(['?'] * n)\ndef f(xs):\n"
        "    return f'SELECT 1 FROM t WHERE k IN ({marks(len(xs))})'",
    ],
)
def test_statements_of_constants_are_fine(fine: str) -> None:
    assert list(put_together("ledger/planted.py", ast.parse(fine))) == []


@pytest.mark.slow
def test_nothing_but_values_makes_sql() -> None:
    found = [each for name, tree in modules() for each in objections(name, tree)]
    assert found == []


@pytest.mark.slow
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
    "a spelling that is a variable": "written_as(some_string)",
    "a spelling that is put together": 'written_as("isnan(" + some_string)',
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
        'is_nan = written_as("isnan({value})")',
        '_TABLE = "SELECT 1"\nsql(_TABLE)',
        "Sql(Name(x), Text(y))",
        'raise EngineError(f"SELECT {x} failed")',
        'execute(connection, sql("COMMIT"))',
    ],
)
def test_what_is_generated_is_fine(fine: str) -> None:
    assert list(objections("engines/planted.py", ast.parse(fine))) == []
