"""What noise is added to beside what was asked for: the number of units of a group."""

from __future__ import annotations

from typing import Final

from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.query import Block

UNITS: Final = Measure(MeasureKind.UNITS)


def with_units(block: Block) -> tuple[Measure, ...]:
    """Return the measures of a block, and the number of units if it is not among them."""
    return block.measures if UNITS in block.measures else (*block.measures, UNITS)


def measured(block: Block) -> tuple[Measure, ...]:
    """Tell what noise is added to where all keys are declared."""
    return with_units(block) if block.hides_small_groups else block.measures
