"""The fingerprint of a question: the same for two statements that ask for the same release.

It covers the plan of every private block, which is all that a release depends on beside the data:
rows, keys, bounds, mechanism, noise. It leaves out what comes after the release, or is only a name:
the tail, aliases, layout, comments, parameters that the plan shows, what it was chosen from.
So a question is recognised however it is written, and not under a policy that changes its plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dpsql.ir.measures import Measure
from dpsql.ir.plan import BlockPlan, LeftOutPlan
from dpsql.ir.query import Block, Key, UnboundedValue
from dpsql.kinds.registry import release_kind
from dpsql.pipeline.kept.description import VERSION, VOCABULARY, Descriptions, Vocabulary, digest
from dpsql.planner.bounds_choice import few_shown
from dpsql.policy.parameters import Parameters
from dpsql.privacy.mechanisms.value_bounds import ValueBounds

STATISTIC_DIGITS: Final = 32
"""How many digits of a fingerprint name the statistic that is released, the first ones."""
_DESCRIPTIONS: Final = Descriptions(VOCABULARY)
"""Of all questions: a relation that several parts of one share is described once."""


def fingerprint(plans: Sequence[BlockPlan], vocabulary: Vocabulary = VOCABULARY) -> str:
    """Digest what the release of these blocks depends on: 64 hexadecimal digits, or 96.

    The first 32 are of the statistic alone: of all but mechanism, noise and price. So releases of
    one statistic are found by the start of their fingerprints. Where the released groups can be
    added up, 32 more at the end name their rows: see :func:`rows_fingerprint`. Each part is half a
    SHA-256. ``vocabulary`` has the words of all that the plans are made of.
    """
    shared = vocabulary is VOCABULARY
    described = _DESCRIPTIONS if shared else Descriptions(vocabulary)
    statistic = _digest_of(described.of(tuple(map(_statistic, plans))))[:STATISTIC_DIGITS]
    whole = _digest_of(described.of(tuple(plans)))[:STATISTIC_DIGITS]
    adds = len(plans) == 1 and release_kind(plans[0]).adds_up
    return statistic + whole + (rows_fingerprint(plans[0].block) if adds else "")


def rows_fingerprint(block: Block) -> str:
    """Hash the rows of a block: table, filter, unit, and the bound on a unit's rows per group.

    Blocks that differ in nothing but keys, measures and price have the same.
    """
    return next(rows_fingerprints(block, (block.parameters,)))


def rows_fingerprints(block: Block, parameters: Iterable[Parameters]) -> Iterator[str]:
    """Hash the rows of a block with each of these parameters in place of its own."""
    described = _DESCRIPTIONS
    rows = ("rows", block.source, block.unit_name, block.unit_column, block.condition)
    begins = described.together(rows)  # once
    for each in parameters:
        asked = f"({begins},{described.together((each,))})"
        yield _digest_of(asked)[:STATISTIC_DIGITS]


def part_fingerprint(part: Key | Measure) -> str:
    """Digest a key with its declared values, or a measure with its bounds."""
    return _digest(part)[:STATISTIC_DIGITS]


def _statistic(plan: BlockPlan) -> tuple[object, ...]:
    """List the inputs of the exact values: rows, keys, measures and the bounding of units."""
    block = plan.block
    measures = tuple(noisy.measure for noisy in plan.measures[: len(block.measures)])
    return block, plan.bounding, measures


def estimate_fingerprints(plan: BlockPlan, estimates: Iterable[LeftOutPlan]) -> Iterator[str]:
    """Hash the inputs of left-out estimates: table, filter, keys, bounds.

    The price is no input: a release at one price answers an estimate at another.
    """
    block, described = plan.block, _DESCRIPTIONS
    # Of all estimates at a block, and described once.
    rows = ("left out", block.source, block.unit_column, block.condition, block.keys)
    begins = described.together(rows)
    for estimate in estimates:
        noise = estimate.noise
        asked = (
            *(estimate.subject.bounded_measure(plan), plan.bounding, plan.declared),
            *(block.parameters.rows_limit, noise.most, noise.ladder, estimate.clamped),
        )
        yield _digest_of(f"({begins},{described.together(asked)})")


def bounds_choice_fingerprint(plan: BlockPlan, steps: int | None = None) -> str:
    """Hash the inputs of the choice of contribution bounds: table, filter, unit, keys, limits.

    And the ε of its question, within a factor of 2, and whether totals are asked for: others are
    best for averages, and at another price. And of which sums, averages or distinct values, where
    nothing else is, as it is these that are clamped, deviate or are named. And for which bounds a
    maximum error has that ε, and whether groups are ranked, for which fewer are best, or so few of
    them shown that others are, or the number of ``steps`` of a view, whose noise is wider than that
    of one answer.
    """
    block, found = plan.block, plan.block.bounds_found
    assert found is not None
    asked = (
        *("bounds choice", block.source, block.unit_column, block.condition, block.keys),
        *(found.rows, found.most_rows, found.groups, found.most_groups),
        *(plan.declared, _size(block.parameters.epsilon), block.totals),
        *(() if steps is None else ("steps", steps)),
    )
    named = ("named",) if not plan.declared and block.top_k is None else ()
    shown = few_shown(block)
    few = () if shown is None else ("shown", _size(shown))
    error = ("max_error", *block.bounds_to_find.values()) if plan.price_open else ()
    alone: list[tuple[str, tuple[Measure, ...]]] = []
    if found.rows:
        alone = [("sums", block.sums_alone), ("values", block.values_alone)]
        alone += [("averages", block.averages_alone)] if steps is None else []
    marks = (
        mark
        for word, measures in alone
        if measures
        for mark in (word, *((m.argument, m.lattice) for m in measures))
    )
    return _digest((*asked, *named, *few, *error, *marks))


def value_bounds_fingerprint(
    plan: BlockPlan, value: UnboundedValue, draw: ValueBounds, steps: int | None = None
) -> str:
    """Hash the inputs of the choice of a value's bounds: table, filter, unit, and the value.

    And, as other bounds are best at another price and for another number of groups, the ε of its
    question and what is to be cut, each within a factor of 2; and the number of ``steps`` of a
    view.
    """
    block = plan.block
    asked = (
        *("value bounds", block.source, block.unit_column, block.condition),
        *(value.argument, value.whole),
        *(_size(block.parameters.epsilon), _size(draw.size.targets[0])),
        *(() if steps is None else ("steps", steps)),
        *(("max_error",) if draw.size.lasting else ()),
    )
    return _digest(asked)


def _size(number: float) -> int:
    """Round a positive number to a power of 4, and return its exponent."""
    return round(math.log2(number) / 2)


def _digest(asked: object) -> str:
    return _digest_of(_DESCRIPTIONS.of(asked))


def _digest_of(description: str) -> str:
    return digest(f"question {VERSION}: {description}")
