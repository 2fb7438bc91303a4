"""A dialect is asked for everything that is not the same in all of them.

In place of another engine there is a dialect that writes what DuckDB's does, and marks it. What is
left of a statement once all marked text is taken out is what the rewriting writes for every engine.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import lineage_world
import pytest
import support
from golden_files import Case, cases, files, statements

from dpsql.core.schema import Column, Schema
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.dialects.duckdb import DUCKDB, DuckDBDialect

CASES = [case for file in files() for case in cases(file)]
OPEN, CLOSE = "«", "»"
ALIKE = frozenset(
    re.findall(
        r"\w+",
        "ALL AND AS BY CASE COALESCE COUNT DENSE_RANK DISTINCT ELSE END EXCEPT FROM GROUP HAVING "
        "INTERSECT IS JOIN LEFT MAX MIN NOT NULL ON OR ORDER OVER PARTITION RANGE RANK RIGHT ROW "
        "ROW_NUMBER BETWEEN CURRENT SELECT THEN TRUE UNION USING WHEN WHERE WITH",
    )
)
"""All words that generated SQL may have of its own, as the dialects' module lists them."""
TEXTS = frozenset(
    {"sql", "one", "other", "dividend", "divisor", "columns", "values", "name", "alias", "column"}
    | {"left", "right", "condition"}
)
"""Arguments that are generated SQL themselves."""


def marked(method: str) -> Callable[..., Any]:
    """The method with all of its own text marked, and none of what it is given."""
    plain = getattr(DuckDBDialect, method)
    given = list(inspect.signature(plain).parameters)

    def spell(self: Dialect, *args: Any, **named: Any) -> Any:
        if method in ("quote", "table"):
            return f"{OPEN}{plain(self, *args)}{CLOSE}"
        arguments = dict(zip(given[1:], args, strict=False)) | named
        passed = {
            name: value if name not in TEXTS or isinstance(value, int) else _unmarked(value)
            for name, value in arguments.items()
        }
        return f"{OPEN}{plain(self, **passed)}{CLOSE}".replace(f"{OPEN}{CLOSE}", "")

    return spell


def _unmarked(value: str | Sequence[str]) -> str | list[str]:
    if isinstance(value, str):
        return f"{CLOSE}{value}{OPEN}" if value else ""
    return [f"{CLOSE}{part}{OPEN}" for part in value]


KEPT = {"name", "type_of", "try_", "try_truth", "comparison_family", "widest", "integer_type"}
"""What makes no text, or text that is given to other methods."""
MARKED: Dialect = type(
    "Marked",
    (DuckDBDialect,),
    {
        "__slots__": (),
        **{m: marked(m) for m in Dialect.__abstractmethods__ - KEPT},
    },
)()


def stripped(sql: str) -> str:
    """The statement without the marks."""
    return sql.replace(OPEN, "").replace(CLOSE, "")


def left_over(sql: str) -> list[str]:
    """The words, signs and quotes outside of all marks that are not alike in all dialects."""
    depth, own = 0, []
    for part in re.split(f"([{OPEN}{CLOSE}])", sql):
        depth += (part == OPEN) - (part == CLOSE)
        own.append(" " if depth > 0 else part.strip(CLOSE))
    words = re.findall(r"[A-Za-z_]\w*|[^\s\w]+|\d+", "".join(own))
    alike = re.compile(r"[(),*.+\-<>=]+|/|\d+|[pgk]\d*")
    return [w for w in words if w.upper() not in ALIKE and not alike.fullmatch(w)]


@pytest.fixture(autouse=True)
def _binds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is marked is bound without the marks."""
    plain = support.binding

    def binding(schema: Schema) -> Callable[[str], tuple[Column, ...]]:
        bind = plain(schema)
        return lambda sql: bind(stripped(sql))

    bind_here = lineage_world.BIND
    monkeypatch.setattr(support, "binding", binding)
    monkeypatch.setattr(lineage_world, "BIND", lambda sql: bind_here(stripped(sql)))


@pytest.mark.few(1000)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}: {case.title}")
def test_all_that_engines_spell_in_their_own_way_is_asked_of_the_dialect(case: Case) -> None:
    found = list(statements(case, MARKED))
    assert [left_over(sql) for _, sql in found if left_over(sql)] == []
    assert [(name, stripped(sql)) for name, sql in found] == list(statements(case, DUCKDB))


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT x // 2 FROM {OPEN}t{CLOSE}",
        f'SELECT {OPEN}TRY_CAST({CLOSE}"x"{OPEN} AS INT){CLOSE}',
        f"SELECT {OPEN}hash({CLOSE}isnan(1){OPEN}){CLOSE}",
        f"SELECT * FROM {OPEN}t{CLOSE} LIMIT 5",
    ],
)
def test_what_is_not_asked_for_is_noticed(sql: str) -> None:
    assert left_over(sql) != []
