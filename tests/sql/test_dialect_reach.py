"""A dialect is asked for everything that is not the same in all of them.

In place of another engine there is a dialect that writes what DuckDB's does, and marks it. What is
left of a statement once all marked text is taken out is what the rewriting writes for every engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from golden_files import Case, cases, files, statements
from helpers import linked_tables as lineage_world
from helpers import support
from helpers.sql_text import generated

from dpsql.core.schema import Schema
from dpsql.core.sql import Sql, sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.dialect import COPIES_IN_EACH_ROW, Dialect
from dpsql.engines.duckdb.dialect import DUCKDB, DuckDBDialect
from dpsql.sql.lineage.operators import Bind

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


def marked(method: str) -> Callable[..., Any]:
    """The method with all of its own text marked, and none of what it is given."""
    plain = getattr(DuckDBDialect, method)

    def spell(self: Dialect, *args: Any, **named: Any) -> Sql:
        passed = {name: _unmarked(value) for name, value in named.items()}
        return sql("«{}»", plain(self, *map(_unmarked, args), **passed))

    return spell


def _unmarked(value: Any) -> Any:
    if isinstance(value, Sql):
        return sql("»{}«", value) if value else value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_unmarked(part) for part in value]
    return value


def spelled_once(self: Dialect, value: Sql, type_: SqlType) -> Sql:
    """The spelling of a value, marked where it is not the value as it is."""
    same = DUCKDB.one_spelling(value, type_) == value
    found: Sql = value if same else marked("one_spelling")(self, value, type_)
    return found


def shortened(self: Dialect, value: Sql, type_: SqlType, copies: int = COPIES_IN_EACH_ROW) -> Sql:
    """A value that is not too long, marked where it is not the value as it is."""
    same = DUCKDB.short(value, type_, copies) == value
    found: Sql = value if same else marked("short")(self, value, type_, copies)
    return found


class Marks:
    """A renderer that marks names and literals."""

    def name(self, text: str) -> str:
        return f"{OPEN}{DUCKDB.renderer.name(text)}{CLOSE}"

    def text(self, value: str) -> str:
        return f"{OPEN}{DUCKDB.renderer.text(value)}{CLOSE}"


KEPT = {
    "name",
    "renderer",
    "sorts_rows",
    "to_group",
    "type_of",
    "copies",
    "try_",
    "try_truth",
    "comparison_family",
    "widest",
    "integer_type",
}
"""What makes no text, or text that is given to other methods."""
MARKED: Dialect = type(
    "Marked",
    (DuckDBDialect,),
    {
        "__slots__": (),
        "renderer": Marks(),
        **{m: marked(m) for m in vars(Dialect) if m[0] != "_" and m not in KEPT},
        "one_spelling": spelled_once,
        "short": shortened,
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

    def binding_of(bind: Bind) -> Bind:
        return lambda asked: bind(generated(stripped(asked.render(MARKED.renderer))))

    def binding(schema: Schema) -> Bind:
        return binding_of(plain(schema))

    bind_here = lineage_world.BIND
    monkeypatch.setattr(support, "binding", binding)
    bind_marked = binding_of(bind_here)
    monkeypatch.setattr(lineage_world, "BIND", bind_marked)


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
