"""Golden files: what analysts write, and the SQL that is generated for it.

A file holds cases one after the other. Each has a title, the world it is asked in, parameters if
any, the statement; then, for every private block, the statement that reads its rows, and the steps
that do not stand in it word for word, laid out over several lines. As layout hides how a statement
is spelled, a digest of its exact text stands above. What other engines are asked is a digest alone.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
from helpers.columns import column_of
from helpers.dialects import POSTGRESQL, SPARK
from helpers.linked_tables import planned_here
from helpers.support import SALT, TABLES, Planned, planned, policy
from sqlglot.errors import ParseError

from dpsql.core.schema import Schema, Table, schema_of
from dpsql.core.sql import Sql
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.errors import QueryRefused
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.base import chosen_groups, stored_groups
from dpsql.kinds.cascade import LEFT_PAIRS, STAGED_PAIRS, CascadeKind, units_alone
from dpsql.kinds.quantiles import QuantilesKind
from dpsql.kinds.registry import release_kind
from dpsql.kinds.union import UnionKind
from dpsql.privacy.mechanisms.cascade import Caps
from dpsql.syntax.text import pretty

PLACE = Path(__file__).parent / "golden"
_TITLE = "-- title: "


@dataclass(frozen=True)
class Case:
    """One statement with its world and parameters; ``text`` is the whole section of the file."""

    file: str
    title: str
    world: str
    parameters: dict[str, Any]
    statement: str
    text: str


def files() -> list[Path]:
    """The golden files."""
    return sorted(PLACE.glob("*.sql"))


def cases(file: Path) -> Iterator[Case]:
    """The cases of a file."""
    sections = file.read_text(encoding="utf-8").split(_TITLE)
    assert sections[0] == "", "a file begins with a title"
    for section in sections[1:]:
        title, _, rest = section.partition("\n")
        found = re.match(r"((?:-- \w+: [^\n]*\n)*)(.*?);\n", rest, re.DOTALL)
        assert found is not None, f"{title}: no statement"
        header = dict(line[3:].split(": ", 1) for line in found[1].splitlines())
        given = ast.literal_eval(f"{{{header.get('with', '')}}}")
        parameters = dict(given) if given else {}
        yield Case(file.name, title, header["world"], parameters, found[2], _TITLE + section)


def written(case: Case) -> str:
    """The section of the file as it should be."""
    parts = [f"{_TITLE}{case.title}\n-- world: {case.world}\n"]
    if case.parameters:
        given = ", ".join(f"{name!r}: {value!r}" for name, value in case.parameters.items())
        parts.append(f"-- with: {given}\n")
    parts.append(f"{case.statement};\n\n")
    for name, sql in statements(case, DUCKDB):
        digest = hashlib.sha256(sql.encode()).hexdigest()[:16]
        parts.append(f"-- {name}: {digest}\n{_laid_out(sql)};\n\n")
    parts += (f"-- {dialect.name}: {_digest(case, dialect)}\n" for dialect in (POSTGRESQL, SPARK))
    return "".join((*parts, "\n"))


def _digest(case: Case, dialect: Dialect) -> str:
    """A digest of all that another engine is asked, or why there is none."""
    try:
        texts = [f"{name}: {sql}" for name, sql in statements(case, dialect)]
    except QueryRefused:
        return "refused"
    except duckdb.CatalogException:
        return "not bound"  # tables are bound there by the names that they have on DuckDB
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def statements(case: Case, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """What is generated for a case: for every block one statement, and steps that differ."""
    for plan in _WORLDS[case.world](case.statement, dialect, case.parameters).plans:
        whole = release_kind(plan).statement(SALT, dialect).render(dialect.renderer)
        written = ((name, sql.render(dialect.renderer)) for name, sql in _steps(plan, dialect))
        steps = ((name, text) for name, text in written if text not in whole)
        for name, sql in (("as one", whole), *steps):
            yield f"{plan.block.name}, {name}", sql


def _steps(plan: BlockPlan, dialect: Dialect) -> Iterator[tuple[str, Sql]]:
    """The statements of the steps that a block is read in, if it is not read at once."""
    if UnionKind.fits(plan):
        union = UnionKind(plan).sql(SALT, dialect)
        yield from ((f"table {name}", sql) for name, sql in union.tables)
        yield from (("some pairs", sql) for sql in [union.pairs] if sql is not None)
        yield from (("weights", sql) for sql in [union.weights] if sql is not None)
        yield "named keys", union.named
    if CascadeKind.fits(plan):
        cascade = CascadeKind(plan).sql(SALT, dialect)
        yield from ((f"table {name}", sql) for name, sql in cascade.tables)
        yield "named groups", cascade.named
        yield "what is left", cascade.left
        yield "what is counted", cascade.counted
        yield "a look", cascade.unit_sizes(STAGED_PAIRS)
        yield "a round", cascade.weights(LEFT_PAIRS, 30)
        if CascadeKind(plan).cascade.votes is not None:
            yield "units in order", cascade.units
            yield "pairs in order", cascade.passed
        if any(noisy.noise is not None for noisy in plan.measures):
            if not units_alone(plan):
                yield "norms", cascade.unit_norms
                yield "shares of norms", cascade.norm_shares
            yield "counting", cascade.totals(Caps(20, 10))
    if QuantilesKind.fits(plan):
        kind = release_kind(plan)
        assert isinstance(kind, QuantilesKind)
        steps = kind.sql(SALT, dialect)
        keys = [plan.block.key_column(i) for i in range(len(plan.block.keys))]
        yield "groups", steps.groups
        yield "stored groups", stored_groups(keys)
        yield "few chosen groups", chosen_groups(keys, 1, dialect)
        yield "many chosen groups", chosen_groups(keys, 1000, dialect)
        yield from ((f"values {i}", sql) for i, (_, sql) in enumerate(steps.counts))


def _laid_out(sql: str) -> str:
    """The statement over several lines, or as it is where it has what the parser cannot read."""
    try:
        return pretty(sql)
    except ParseError:
        return sql


@cache
def _small_schema() -> Schema:
    with duckdb.connect(":memory:") as empty:
        for statement in TABLES.values():
            empty.execute(statement)
        tables = []
        for name in TABLES:
            found = empty.table(name)
            pairs = zip(found.columns, found.types, strict=True)
            tables.append(Table(name, tuple(column_of(c, str(t)) for c, t in pairs)))
    return schema_of(*tables)


def _small(statement: str, dialect: Dialect, parameters: dict[str, Any]) -> Planned:
    return planned(statement, _small_schema(), policy(), dialect=dialect, **parameters)


def _lineage(statement: str, dialect: Dialect, parameters: dict[str, Any]) -> Planned:
    return planned_here(statement, dialect=dialect, **parameters)


_WORLDS: dict[str, Callable[[str, Dialect, dict[str, object]], Planned]] = {
    "small": _small,
    "lineage": _lineage,
}
