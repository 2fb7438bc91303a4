# ruff: noqa: E501
"""Broken twins: one net taken out of dpsql at a time, which the attacker has to notice.

What a twin lets through is a finding, or a statement that the whole of dpsql refuses and the twin
accepts: with several nets over each other, the next one may catch what the first let fall.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpsql.core.sql import sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.reading import ReadStatement

from .grammar import Grammar, Statement
from .nets import examine
from .report import Report
from .run import known_statements
from .seams import Patch
from .world import WORLDS, Pair


@dataclass(frozen=True, slots=True)
class Twin:
    """A net of dpsql's and how it is taken away; the attacker's nets that should notice."""

    name: str
    patches: tuple[Patch, ...]
    notices: tuple[str, ...]


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda original: lambda *args, **kwargs: value


def _as_written(original: Any) -> Any:
    """In place of a function that makes an expression safe: its SQL as it is."""

    return lambda node, table, dialect: dialect.expression(node, table)


def _uncapped(original: Any) -> Any:
    return lambda self, ranked: sql("{} WHERE TRUE", ranked)


def _said_to_be_clamped(original: Any) -> Any:
    """What a unit adds to a group as it was gathered, with the range it would have if clamped."""

    def unclamped(measure: Any, found: Any, rows: int) -> Any:
        within = original(measure, found, rows)
        return replace(found, low=within.low, high=within.high)

    return unclamped


def _owners_macros(original: Any) -> Any:
    """Names in generated SQL are looked up among the owner's, as in one database with the data."""

    def publish_in(connection: Any, place: str, *others: Any) -> Any:
        macros = connection.execute(
            "SELECT function_name, parameters, macro_definition FROM duckdb_functions() "
            "WHERE database_name LIKE '%data%' AND function_type = 'macro'"
        ).fetchall()
        found = original(connection, place, *others)
        for name, parameters, definition in macros:
            given = ", ".join(parameters)
            connection.execute(
                f"CREATE OR REPLACE MACRO {place}.main.{name}({given}) AS {definition}"
            )
        return found

    return publish_in


def _as_they_are(original: Any) -> Any:
    """Types as the owner has them, dictionaries of ENUMs among them."""
    return lambda type_: SqlType.of(str(type_))


def _leaks(original: Any) -> Any:
    def bind(self: Any, sql: str) -> Any:
        from dpsql.errors import QueryRefused

        try:
            return original(self, sql)
        except QueryRefused as refused:
            values = self._cursor().execute("SELECT max(s) FROM t").fetchall()
            raise QueryRefused(f"{refused.reason} {values}", code=refused.code) from None

    return bind


def _counts_rows(original: Any) -> Any:
    """A plan that looks at the data: more rows, a higher reservation."""

    def plan(self: Any, question: Any, *stages: Any) -> Any:
        from dataclasses import replace

        found = original(self, question, *stages)
        if not found.plan.blocks:
            return found
        ((rows,),) = self._engine._cursor().execute("SELECT count(*) FROM t").fetchall()
        reserved = found.plan.reserved
        dearer = replace(reserved, delta=reserved.delta * (1 + rows))
        return replace(found, plan=replace(found.plan, reserved=dearer))

    return plan


def _raises(original: Any) -> Any:
    def validate(tree: Any, *args: Any, **named: Any) -> Any:
        from sqlglot import exp

        if tree.find(exp.Case):
            raise RuntimeError("case")
        return original(tree, *args, **named)

    return validate


def _burns(original: Any) -> Any:
    def validate(tree: Any, *args: Any, **named: Any) -> Any:
        import time

        large = sum(1 for _ in tree.walk()) > 30
        until = time.process_time() + (1.2 if large else 0)
        while time.process_time() < until:
            pass
        return original(tree, *args, **named)

    return validate


TRY = (  # where private rows are read: what is examined before keeps it
    Patch("dpsql.sql.rewrite.rows", "total_sql", _as_written),
    Patch("dpsql.sql.rewrite.rows", "total_condition_sql", _as_written),
    Patch("dpsql.sql.rewrite.rewrite", "total_sql", _as_written),
    Patch("dpsql.kinds.quantiles", "total_sql", _as_written),
)
EVIDENCE = Patch("dpsql.engines.evidence.evidence", "Evidence.objection", _constant(None))
DRY_RUN = Patch("dpsql.engines.base.twin", "Twin._try", _constant(None))
# Constants that fail are found in what was typed, and by the dry run.
AS_TYPED = Patch("dpsql.sql.blocks.examined", "AS_TYPED", lambda _: DUCKDB)
# What the engine cannot write a plan of is refused by the last reading, too.
LAST_READING = (
    Patch(
        "dpsql.engines.duckdb.reading",
        "LastReading.read",
        _constant((ReadStatement(0, True), None)),
    ),
    Patch("dpsql.engines.duckdb.reading", "KnownStatements.add", _constant(None)),
)
TWINS: tuple[Twin, ...] = (
    # What fails says "out of range" in expressions and in sums alike.
    Twin("typed allow-list", (EVIDENCE,), ("totality", "ranges")),
    Twin(
        "constants, dry run and last reading",
        (AS_TYPED, DRY_RUN, *LAST_READING),
        ("totality", "ranges"),
    ),
    Twin("typed allow-list and dry run", (EVIDENCE, DRY_RUN), ("totality", "ranges")),
    Twin("TRY", TRY, ("totality", "ranges")),
    Twin(
        "contribution cap",
        (Patch("dpsql.sql.rewrite.rows", "PrivateRows.first_places", _uncapped),),
        ("sensitivity",),
    ),
    Twin(
        "a unit's whole weight in the draws of bounds",
        (Patch("dpsql.kinds.bounds_choice", "WHOLE_WEIGHT", lambda whole: 4 * whole),),
        ("sensitivity",),
    ),
    Twin(
        "a unit's whole weight in the draws of bounds of values",
        (Patch("dpsql.kinds.value_bounds", "WHOLE_WEIGHT", lambda whole: 4 * whole),),
        ("sensitivity",),
    ),
    Twin(
        "clamped rows",
        (Patch("dpsql.sql.rewrite.contributions", "_bounded", _said_to_be_clamped),),
        ("sensitivity", "ranges"),
    ),
    Twin(
        "engine isolation",
        (Patch("dpsql.engines.duckdb.engine", "publish_in", _owners_macros),),
        ("names",),
    ),
    Twin(
        "plain types",
        (Patch("dpsql.engines.duckdb.attached", "plain_type", _as_they_are),),
        ("schema", "leak", "cost"),
    ),
    Twin(
        "proven ranges",
        (Patch("dpsql.sql.expressions.proven_integers", "_refuse_beyond", lambda _: lambda *_: None),),
        ("ranges",),
    ),
    Twin("a price without the data", (Patch("dpsql.pipeline.prepare", "Preparer._plan", _counts_rows),), ("cost",)),
    Twin("quiet messages", (Patch("dpsql.engines.base.engine_base", "EngineBase.bind", _leaks),), ("leak", "schema")),
    Twin("dpsql's own errors", (Patch("dpsql.pipeline.prepare", "validate", _raises),), ("exception",)),
    Twin("planning in bounded work", (Patch("dpsql.pipeline.prepare", "validate", _burns),), ("time",)),
)  # fmt: skip


@dataclass
class Shown:
    """What a twin let through."""

    name: str
    present: bool
    statements: int = 0
    findings: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)  # refused by the whole

    @property
    def caught(self) -> bool:
        """True if the attacker noticed."""
        return bool(self.findings or self.accepted)


def statements(seed: int, most: int) -> list[Statement]:
    """What twins are asked: what was found before, then what comes by the seed."""
    grammar = Grammar(seed, tuple(WORLDS))
    return [*known_statements(), *(grammar.draw() for _ in range(most))]


@contextlib.contextmanager
def without(twin: Twin) -> Iterator[bool]:
    """dpsql without one of its nets; yields whether it has it."""
    with contextlib.ExitStack() as stack:
        there = [stack.enter_context(patch.applied()) for patch in twin.patches]
        yield any(there)


def try_twin(
    twin: Twin, asked: Sequence[Statement], whole: dict[str, str], enough: int = 5
) -> Shown:
    """Ask a twin, until ``enough`` findings tell it from the whole."""
    with without(twin) as present, tempfile.TemporaryDirectory() as place:
        shown = Shown(twin.name, present)
        if not present:
            return shown
        pairs = {n: Pair.open(w, Path(place) / n) for n, w in WORLDS.items()}
        report = Report(0)
        for statement in asked:
            pair = pairs[statement.world]
            if not pair.usable:
                continue
            shown.statements += 1
            outcome = examine(pair, statement)
            known = whole.get(f"{statement.world}: {statement.text}", "")
            new = [f for f in outcome.findings if f.signature not in known]
            for finding in new:
                shown.findings[finding.net] = shown.findings.get(finding.net, 0) + 1
                if len(shown.examples) < 4:
                    shown.examples.append(f"{statement.text[:200]} → {finding.detail[:120]}")
            if known.startswith("refused") and outcome.kind == "answered":
                shown.accepted.append(statement.text[:200])
            if sum(shown.findings.values()) >= enough:
                break
        del report
        for pair in pairs.values():
            pair.close()
        return shown


def whole_of(asked: Sequence[Statement]) -> dict[str, str]:
    """What becomes of the statements with every net in place."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        pairs = {n: Pair.open(w, Path(place) / n) for n, w in WORLDS.items()}
        for statement in asked:
            pair = pairs[statement.world]
            if pair.usable:
                outcome = examine(pair, statement)
                signatures = " ".join(f.signature for f in outcome.findings)
                found[f"{statement.world}: {statement.text}"] = f"{outcome.kind} {signatures}"
        for pair in pairs.values():
            pair.close()
    return found


def report_twins(seed: int, most: int, path: Path | None) -> int:
    """Try every twin, print, write; 1 if one went unnoticed."""
    asked = statements(seed, most)
    whole = whole_of(asked)
    shown = [try_twin(twin, asked, whole) for twin in TWINS]
    for one in shown:
        state = "caught" if one.caught else ("NOT CAUGHT" if one.present else "absent")
        print(
            f"{one.name}: {state} after {one.statements}: {one.findings}, {len(one.accepted)} accepted"
        )
        for example in [*one.examples, *one.accepted[:2]]:
            print(f"    {example}")
    if path is not None:
        figures = {
            one.name: {
                "present": one.present,
                "caught": one.caught,
                "statements": one.statements,
                "findings": one.findings,
                "examples": one.examples,
                "accepted": one.accepted[:4],
            }
            for one in shown
        }
        path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0 if all(one.caught or not one.present for one in shown) else 1
