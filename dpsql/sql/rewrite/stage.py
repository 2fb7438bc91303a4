"""Stages: private rows, grouped by unit and keys once for all that a question reads of them.

A draw of bounds and the answer that is bounded read the same pairs of units and groups. What is
kept of a pair are aggregates of its rows before any bounds, so the bounds that come out decide
nothing of it.

Whose rows a stage has is told by its statement alone, which is written of a plan and has no salt. A
block reads a stage if its own plan, with the bounds that were found, writes the same statement:
another condition, other keys, or values on another lattice are another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dpsql.core.sql import Sql
from dpsql.ir.measures import MeasureKind
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged
from dpsql.sql.rewrite.rewrite import Rewriter
from dpsql.sql.rewrite.rows import PrivateRows, Staged

_LARGEST: Final = 2**62
_BEYOND: Final = MOST_ROWS // 2**32


@dataclass(frozen=True, slots=True)
class Stage:
    """The grouping of private rows by unit and keys, with the aggregates of each pair."""

    statement: Sql
    columns: Mapping[Sql, Ranged] = field(compare=False, repr=False)

    def under(self, rows: PrivateRows, table: Sql) -> PrivateRows:
        """Return the rows as they are once the statement is stored as a table."""
        return replace(rows, staged=Staged(table, self.columns))


def stage_of(rows: PrivateRows) -> Stage | None:
    """Write the stage of some rows; None where more is read of them than pairs.

    Those are distinct values, samples of units (which have a salt), and values whose bounds are to
    be found.
    """
    block, plan = rows.plan.block, rows.plan
    distinct = any(measure.kind is MeasureKind.DISTINCT for measure in block.measures)
    if distinct or block.source.share is not None or plan.value_bounds:
        return None
    rewriter = Rewriter(rows)
    columns, written = {}, {}
    for number, aggregate in enumerate(rewriter.aggregates()):
        name, kept = rows.internal(f"of{number}"), _narrow(aggregate)
        columns[aggregate.sql], written[name] = kept.named(name), kept.sql
    return Stage(rewriter.by_pair(lambda _: written), columns)


def _narrow(aggregate: Ranged) -> Ranged:
    """Write an aggregate in 64 bits, for half the time, where 2³² rows cannot exceed them.

    A unit with more rows in one group keeps what fits: as before, its own rows decide that, and
    what it contributes is bounded afterwards.
    """
    low, high = max(aggregate.low, -_LARGEST), min(aggregate.high, _LARGEST)
    if not aggregate.wide or max(-aggregate.low, aggregate.high) > _LARGEST * _BEYOND:
        return aggregate
    return aggregate.clamped(low, high).narrowed().unless_null(aggregate.sql)
