"""The fingerprint of a question: the same for two statements that ask for the same release.

It covers the plan of every private block, which is all that a release depends on beside the data:
rows, keys, bounds, mechanism, noise. It leaves out what comes after the release, or is only a name:
the tail, aliases, layout, comments, parameters that the plan shows, what it was chosen from.
So a question is recognised however it is written, and not under a policy that changes its plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.ir.measures import Aggregate, Measure
from dpsql.ir.plan import BlockPlan, LeftOutLook
from dpsql.ir.query import Block, Key, Source
from dpsql.ir.relations import RowSet, bottom_up
from dpsql.policy.parameters import PARAMETERS, Parameters
from dpsql.sql.syntax.text import put

_LEFT_OUT: dict[type, frozenset[str]] = {
    Block: frozenset(
        {"name", "table", "mechanism", "noise_columns", "fresh", "combines", "counted"}
        | {"groups_chosen", "most_rows", "most_groups", "table_defaults", "step_number"}
    ),
    Parameters: frozenset(spec.name for spec in PARAMETERS.values() if spec.in_plan),
    BlockPlan: frozenset({"candidates", "combined", "looks", "added"}),
    Key: frozenset({"text"}),
    # Its columns are among those of the rows; what else is declared is none of the question's.
    Source: frozenset({"table", "declared"}),
    Measure: frozenset({"text"}),
    Aggregate: frozenset({"text"}),
}
_PLAIN = (str, int, float, bytes, date, time, Decimal, Fraction)


STATISTIC_DIGITS = 32
"""How many digits of a fingerprint name the statistic that is released, the first ones."""


def fingerprint(plans: Sequence[BlockPlan]) -> str:
    """Digest what the release of these blocks depends on: 64 hexadecimal digits, or 96.

    The first 32 are of the statistic alone: of all but mechanism, noise and price. So releases of
    one statistic are found by the start of their fingerprints. Where the released groups can be
    added up, 32 more at the end name their rows: see :func:`rows_fingerprint`. Each part is half a
    SHA-256.
    """
    statistic = _digest(_canonical(tuple(map(_statistic, plans))))[:STATISTIC_DIGITS]
    whole = _digest(_canonical(tuple(plans)))[:STATISTIC_DIGITS]
    adds = len(plans) == 1 and adds_up(plans[0])
    return statistic + whole + (rows_fingerprint(plans[0].block) if adds else "")


def adds_up(plan: BlockPlan) -> bool:
    """Tell whether groups of this plan can be added up to those of fewer keys, as they come out.

    Those of declared keys can, if all of them are released, each unit in full or not at all.
    """
    whole = all(noisy.measure.weights is None for noisy in plan.measures)
    every = plan.answers_all and plan.units_measure is None
    return every and whole and bool(plan.block.keys) and not plan.block.quantiles


def rows_fingerprint(block: Block) -> str:
    """Digest whose rows a block reads, which of them, and how many of a unit in a group.

    Blocks that differ in nothing but keys, measures and price have the same.
    """
    asked = (
        *("rows", block.source, block.unit_name, block.unit_column),
        *(block.condition, block.parameters),
    )
    return _digest(_canonical(asked))[:STATISTIC_DIGITS]


def part_fingerprint(part: Key | Measure) -> str:
    """Digest a key with its declared values, or a measure with its bounds."""
    return _digest(_canonical(part))[:STATISTIC_DIGITS]


def _statistic(plan: BlockPlan) -> tuple[object, ...]:
    """List what the exact values depend on: rows, keys, measures and how a unit is bounded."""
    block = plan.block
    measures = tuple(noisy.measure for noisy in plan.measures[: len(block.measures)])
    return block, plan.bounding, measures


def look_fingerprint(plan: BlockPlan, look: LeftOutLook) -> str:
    """Digest what a look asks: whose rows, which, by which keys, under which bounds.

    Not how precisely: what was learned at one price is known at another.
    """
    block, noise = plan.block, look.noise
    asked = (
        *("left out", block.source, block.unit_column, block.condition, block.keys),
        *(plan.looked_measure(look.subject), plan.bounding, plan.declared),
        *(block.parameters.max_rows_contributed, noise.most, noise.ladder, look.clamped),
    )
    return _digest(_canonical(asked))


def _canonical(value: object) -> str:
    """Write a text that two values share only if they are equal and of the same types.

    Every part says where it ends: text is quoted, all else is a name, a number or in brackets.
    """
    if type(value) is str:  # as most are
        return repr(value)
    match value:
        case None:
            return "-"
        case exp.Column():
            return f"Column({value.table!r},{value.name!r})"
        case exp.Expr():
            return _of_tree(_plainly(value))
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case tuple():
            return f"({','.join(map(_canonical, value))})"
        case Table():
            return _of_table(value)
        case _ if isinstance(value, _PLAIN):
            return repr(value)
        case RowSet():
            return _of_rows(value)
        case _ if is_dataclass(value):
            parts = ",".join(f"{name}={_canonical(part)}" for name, part in _parts(value))
            return f"{type(value).__name__}({parts})"
    raise TypeError(f"a plan holds a {type(value).__name__}, which has no fingerprint")


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """Yield the fields of a dataclass that play a part, by name."""
    names = _compared(type(value))  # type: ignore[arg-type]  # a type can be hashed
    if isinstance(value, Source) and not value.edition:
        names = tuple(name for name in names if name != "edition")
    return ((name, getattr(value, name)) for name in names)


@cache
def _compared(kind: type) -> tuple[str, ...]:
    """Return the names of these fields."""
    left_out = _LEFT_OUT.get(kind, frozenset())
    return tuple(f.name for f in fields(kind) if f.compare and f.name not in left_out)


def _of_table(table: Table) -> str:
    """Write a table: by its name alone in the schema ``main``, or by both of its names."""
    name = (table.name.schema, table.name.table)
    parts: dict[str, object] = {
        "name": name[1] if table.name.in_main else name,
        "columns": table.columns,
    }
    parts |= {"is_view": table.is_view, "unreadable": table.unreadable, "left_out": table.left_out}
    return f"Table({', '.join(f'{part}={value!r}' for part, value in parts.items())})"


def _of_rows(rows: RowSet) -> str:
    """Digest a relation: by its last node, which names its sources by theirs.

    A part that is read twice is looked at once, as it would double with every step else.
    """
    known: dict[int, str] = {}
    for node in bottom_up(rows):
        parts = (
            f"{name}={known[id(part)] if isinstance(part, RowSet) else _canonical(part)}"
            for name, part in _parts(node)
        )
        text = f"{type(node).__name__}({','.join(parts)})"
        known[id(node)] = f"Rows.{_digest(text)}"
    return known[id(rows)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _of_tree(part: object) -> str:
    """Write the same for an expression: its node types and arguments, those left out apart."""
    match part:
        case exp.Expr():
            given = {k: v for k, v in part.args.items() if v is not None and v != []}
            parts = ",".join(f"{name}={_of_tree(given[name])}" for name in sorted(given))
            return f"{type(part).__name__}[{parts}]"
        case list() | tuple():
            return f"[{','.join(map(_of_tree, part))}]"
    return _canonical(part)


def _plainly(tree: exp.Expr) -> exp.Expr:
    """Strip a tree of comments and parentheses, which its shape says; write numbers one way.

    7 for 007, 0.5 for .5, 100.0e0 for 1E2. Digits after the point stay: 1.0 and 1.00 are decimals
    of different types.
    """
    tree = exp.Paren(this=tree.copy())
    for node in list(tree.walk()):
        node.comments = None
        if isinstance(node, exp.Literal) and not node.is_string:
            node.set("this", _number(str(node.this)))
        elif isinstance(node, exp.Paren) and node is not tree:
            put(node, node.this)
    return tree


def _number(text: str) -> str:
    if "e" in text.lower():
        return f"{float(text)!r}e0"  # a double, unlike decimals
    whole, point, fraction = text.partition(".")
    return f"{whole.lstrip('0') or '0'}{point}{fraction}"
