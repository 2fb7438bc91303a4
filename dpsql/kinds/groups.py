"""Groups with measures: all declared ones, or those that a selection names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.appearance import Appearance, large_enough
from dpsql.accuracy.chosen import ChosenNoise
from dpsql.accuracy.intervals import chosen_noise
from dpsql.accuracy.wording import (
    Part,
    groups_chosen,
    rows_per_group,
    score_unit,
    unit_words,
)
from dpsql.core.formatting import figure_above, several
from dpsql.core.sql import Sql, name, sql
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import ExactRows, PrivateReader, Scratch
from dpsql.ir.plan import BlockPlan, BoundedBy, Maker, ReleaseNoise
from dpsql.ir.query import DECLARED_BOUNDS, DECLARED_VALUES, Block
from dpsql.kinds.base import (
    FEW,
    GROUPS,
    MANY,
    BlockReading,
    KeysOf,
    ReleaseKind,
    keys_at,
    keys_in,
    stored_groups,
)
from dpsql.kinds.left_out import ExactLeftOut, read_left_out_of
from dpsql.kinds.released import NumericArray, ReleasedRows, aggregate_answers, drawn_columns
from dpsql.kinds.streamed import bounded_by, streamed_rows
from dpsql.policy.limits import BoundingLimit
from dpsql.policy.parameters import ContributionBounding
from dpsql.privacy.mechanisms.additive import Steps
from dpsql.privacy.mechanisms.pooling import published
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.rewrite.left_out import shared_sql
from dpsql.sql.rewrite.rewrite import Rewriter, declared_groups, numbered
from dpsql.sql.rewrite.rows import PrivateRows


@dataclass(frozen=True, slots=True)
class ExactGroups:
    """The exact rows of a block's groups.

    ``keys_of`` reads the keys of released groups, None where ``rows`` has those of all groups.
    ``estimates`` are those that were taken at the same rows, by fingerprint.
    """

    rows: ExactRows
    keys_of: KeysOf | None = None
    estimates: Mapping[str, ExactLeftOut] = field(default_factory=dict)

    def release(self, plan: BlockPlan, source: EntropySource) -> ReleasedRows:
        """Draw which groups come out, and the noise on their values.

        Guarantee: ``plan.loss(released)``, as δ-approximate zCDP, for exact rows within the plan's
        sensitivities; see the mechanisms for sources and tests.
        """
        exact, block = self.rows, plan.block
        columns = [exact.measures[block.measure_column(i)] for i in range(len(plan.measures))]
        ids = exact.row_ids
        if plan.declared:
            *columns, ids = _dense(block, exact, [*columns, ids])
        # Without a score all groups come out, and only their number matters.
        selected = plan.selection.select(ids if plan.score is None else columns[plan.score], source)
        chosen = selected.indices
        in_order = np.arange(len(chosen), 0, -1, dtype=np.float64)
        scores = in_order if selected.noisy is None else selected.noisy
        noisy = [
            scores if measure.noise is None else measure.noise.add(column[chosen], source)
            for measure, column in zip(plan.measures, columns, strict=True)
        ]
        named = ids[chosen]
        answers = aggregate_answers(plan, noisy)
        answers |= self.beside(plan, named, source)
        keys = None
        if not plan.declared:
            keys = keys_at(exact, chosen) if self.keys_of is None else self.keys_of(named)
        found = ReleasedRows(
            row_ids=chosen if plan.declared else named,
            keys=keys,
            values={name: answers[name] for name in drawn_columns(block)},
            loss=plan.loss(len(named)),
        )
        units = plan.units_measure
        return found if units is None else _large_enough(plan, found, noisy[units])

    def beside(
        self, plan: BlockPlan, ids: NDArray[np.int64], source: EntropySource
    ) -> dict[str, NumericArray]:
        """Draw the values other than noisy measures, of the groups with these row ids."""
        return {}

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for keys of few groups and of many."""
        if self.keys_of is not None:
            for ids in (FEW, MANY):
                self.keys_of(ids)


class GroupsKind(ReleaseKind):
    """Groups with measures."""

    staged = True

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Take every plan that is of no other kind."""
        return True

    def statement(self, salt: int, dialect: Dialect) -> Sql:
        """Write the exact rows of groups: row id, keys, measures."""
        return self._numbered_groups(self.private_rows(salt, dialect))

    def _numbered_groups(self, rows: PrivateRows) -> Sql:
        if not self.plan.measures:
            return declared_groups(rows)
        return self.numbered(rows, Rewriter(rows).groups())

    def numbered(self, rows: PrivateRows, groups: Sql) -> Sql:
        """Number the groups that are read."""
        return numbered(rows, groups)

    @contextmanager
    def read(self, reading: BlockReading) -> Iterator[ExactGroups]:
        """Read groups by one statement, or by several where they are stored first."""
        rows = reading.rows
        if reading.block.bounded_by.maker is Maker.NUMPY:
            with rows.scratch() as scratch:
                exact, told = streamed_rows(reading, scratch)
                keys_of = None if self.plan.declared else keys_in(scratch, reading)
                yield ExactGroups(exact, keys_of, told)
            return
        if reading.estimates:
            with rows.scratch() as scratch:
                yield self._shared(reading, scratch)
            return
        statement = self._numbered_groups(self.rows_of(reading))
        if self.read_at_once:
            yield ExactGroups(_exact_rows(reading, rows, statement))
            return
        with rows.scratch() as scratch:
            scratch.store(GROUPS, statement)
            yield groups_stored(reading, scratch)

    def bounded_by(self, dialect: Dialect, bounding: BoundingLimit) -> BoundedBy:
        """Choose NumPy where it bounds all that is asked."""
        if type(self) is not GroupsKind:
            return super().bounded_by(dialect, bounding)
        return bounded_by(self.private_rows(0, dialect), bounding)

    @property
    def read_at_once(self) -> bool:
        """True if the statement bounds the number of groups that are read."""
        return self.plan.declared

    def _shared(self, reading: BlockReading, scratch: Scratch) -> ExactGroups:
        """Read the exact rows of a block and of its estimates, over rows stored once."""
        rows, estimates = self.rows_of(reading), reading.estimates
        shared = shared_sql(rows, [estimate.plan for estimate in estimates])
        groups = self.numbered(rows, shared.groups)
        for stored, statement in shared.stored:
            scratch.store(stored, statement)
        told = {
            estimate.fingerprint: read_left_out_of(scratch, estimate, statement)
            for estimate, statement in zip(estimates, shared.estimates, strict=True)
        }
        if self.read_at_once:
            return ExactGroups(_exact_rows(reading, scratch, groups), estimates=told)
        scratch.store(GROUPS, groups)
        for stored, _ in shared.stored:
            scratch.drop(stored)
        return replace(groups_stored(reading, scratch), estimates=told)

    def chosen(self, released: int, index: int, confidence: float) -> ChosenNoise | None:
        """Describe the noise of an aggregate of one measure given LIMIT's choice by it."""
        measures = self.plan.block.aggregates[index].measures
        if not self.drawn or len(measures) != 1:
            return None
        return chosen_noise(self.plan, released, measures[0], confidence)

    def sentences(self, part: Part, confidence: float) -> Iterator[str]:
        """Yield sentences on values, on the groups that appear, and on a unit's bounds."""
        yield from self.of_values(part, confidence)
        yield from self.appearing(part)
        if self.plan.bounding is not None:
            yield from groups_chosen(self.plan)

    def of_values(self, part: Part, confidence: float) -> Iterator[str]:
        """Yield sentences on values beside their margins: none for noise on measures."""
        yield from ()

    def appearing(self, part: Part) -> Iterator[str]:
        """Yield which groups appear."""
        plan, selection = self.plan, self.plan.selection
        large = large_enough(plan)
        if plan.answers_all:
            if large is not None:
                yield self.small_left_out(part, large)
            elif plan.block.keys:
                verb = "appear" if part.told and part.rows >= part.released else "were answered"
                groups = f"{part.released:,} {plan.block.known_word} groups"
                yield f"All {groups} {verb}, whether they hold rows or not."
                if selection.declared is not None and part.released < selection.declared:
                    yield "No number says that a group of NULL has rows: none is shown."
                origins = {key.origin for key in plan.block.keys}
                for origin in (DECLARED_BOUNDS, DECLARED_VALUES):
                    if origin in origins:
                        yield f"Rows outside of {origin} are in none of them."
            return
        found = self.appearance()
        if found is not None:
            yield self._histogram(part, found)

    def _histogram(self, part: Part, found: Appearance) -> str:
        """State a threshold on the number of units."""
        plan = self.plan
        text = (
            f"A group that keeps {figure_above(found.half)} {score_unit(plan)} appears at least "
            f"half the time, one with {figure_above(found.surely)} at least 95%"
        )
        if found.rarely >= plan.block.parameters.min_units_per_group:
            text += f", one with {found.rarely:,.0f} or fewer at most 5%"
        return f"{text}{self.counted_too_high(part, found.half)}{whole_units(plan)}."

    def small_left_out(self, part: Part, large: Appearance) -> str:
        """State a minimum of units that declared groups must reach, noise included."""
        plan, least = self.plan, self.plan.block.parameters.min_units_per_group
        text = (
            f"{plan.block.known_word.capitalize()} groups are left out where the noisy number of "
            f"{unit_words(plan)} is below {least:,}: one that keeps {figure_above(large.half)} "
            f"appears at least half the time, one with {figure_above(large.surely)} at least 95%"
        )
        if large.rarely >= 0:
            text += f", one with {large.rarely:,.0f} or fewer at most 5%"
        return f"{text}{self.counted_too_high(part, large.half)}."

    def counted_too_high(self, part: Part, half: float) -> str:
        """Name the size below which appearing groups are counted too high; empty if none are."""
        behind = [shown.aggregate for shown in part.shown]
        behind += [aggregate for one in part.computed for aggregate in one.aggregates]
        selected = any(map(self.selected, behind))
        return f"; below {figure_above(half)} what appears is counted too high" * selected

    def selected(self, aggregate: int) -> bool:
        """Tell whether the noise on an aggregate also decided which groups appear."""
        plan = self.plan
        measures = plan.block.aggregates[aggregate].measures
        if plan.units_measure is not None and measures == (plan.units_measure,):
            return True
        return plan.selection.score_noise is not None and measures == (plan.score,)

    @property
    def bounding(self) -> str:
        """In how many groups a unit counts, and how much in each."""
        plan = self.plan
        parameters, bounding = plan.block.parameters, plan.bounding
        rows = rows_per_group(plan)
        if bounding is not None and bounding.weighted:
            return (
                f"at most {several(bounding.kept, 'group')} per unit (sampled by a salted hash), "
                f"weighing at most {bounding.groups} together in l2, {rows}"
            )
        if bounding is not None:
            weighing = parameters.contribution_bounding is ContributionBounding.WEIGHT
            cannot = "this mechanism" if plan.block.weighted else "a count of distinct values"
            why = f", as {cannot} cannot weigh units" if weighing else ""
            sampled = f"(sampled by a salted hash{why})"
            return f"at most {several(bounding.groups, 'group')} per unit {sampled}, {rows}"
        if not plan.block.keys:
            return rows.replace("unit and group", "unit")
        return f"a unit may touch all {plan.groups} {plan.block.known_word} groups, {rows}"

    def published(self, released: int, *, alone: bool) -> ReleaseNoise | None:
        """Describe the noise in a release; None for keys alone."""
        plan, block = self.plan, self.plan.block
        if not block.aggregates:
            return None
        groups = plan.spread_groups(released)
        noises = [published(plan.noise_of(index), groups) for index in range(len(block.measures))]
        known = tuple(noise for noise in noises if noise is not None)
        if len(known) < len(noises):
            return None
        found = self.appearance()
        half, surely = (None, None) if found is None else (found.half, found.surely)
        return ReleaseNoise(known, deciding_measure(plan), half, surely, alone)

    @property
    def adds_up(self) -> bool:
        """True for declared keys if all are released, each unit in full or not at all."""
        plan = self.plan
        whole = all(noisy.measure.weights is None for noisy in plan.measures)
        every = plan.answers_all and plan.units_measure is None
        return every and whole and bool(plan.block.keys)

    @property
    def groups_added(self) -> int | None:
        """The most groups that a unit adds to in full; None in Gaussian DP."""
        plan, block = self.plan, self.plan.block
        if plan.gaussian:
            return None
        if plan.bounding is not None:
            return None if plan.bounding.weighted else plan.bounding.kept
        return block.domain_size if block.known_domain else None

    @property
    def leaves_out_groups(self) -> bool:
        """True if a unit has a number of groups."""
        return self.plan.bounding is not None


def deciding_measure(plan: BlockPlan) -> int | None:
    """Find the measure whose released noise also selected the groups; None if there is none."""
    if plan.units_measure is not None:
        return plan.units_measure
    return plan.score if plan.selection.score_noise is not None else None


def whole_units(plan: BlockPlan) -> str:
    """Say which units are no whole ones, if units are weighed."""
    if plan.bounding is None or not plan.bounding.weighted:
        return ""
    return f". A unit with more than {plan.bounding.groups:,} groups is no whole one"


def groups_stored(reading: BlockReading, scratch: Scratch) -> ExactGroups:
    """Read the groups that are stored as GROUPS: declared ones whole.

    Of others, however many there are, measures are read, and keys of those alone that come out.
    """
    if reading.plan.declared:
        return ExactGroups(_exact_rows(reading, scratch, sql("SELECT * FROM {}", name(GROUPS))))
    measures = _measure_columns(reading.plan)
    exact = scratch.exact(stored_groups(measures), (), measures)
    return ExactGroups(exact, keys_in(scratch, reading))


def _exact_rows(reading: BlockReading, rows: PrivateReader | Scratch, statement: Sql) -> ExactRows:
    keys, measures = reading.block.keys, _measure_columns(reading.plan)
    if reading.plan.declared:
        # Declared keys are read as positions, which are numbers like any measure.
        return rows.exact(statement, (), [*(k.name for k in keys), *measures])
    return rows.exact(statement, keys, measures)


def _measure_columns(plan: BlockPlan) -> list[str]:
    return [plan.block.measure_column(i) for i in range(len(plan.measures))]


def _large_enough(plan: BlockPlan, released: ReleasedRows, units: Steps | None) -> ReleasedRows:
    """Keep the declared groups whose noisy number of units reaches the minimum.

    Post-processing of numbers that are paid for: what it costs stays what it was.
    """
    assert units is not None, "only a selection releases a noisy score"
    assert plan.units_measure is not None
    step = plan.measures[plan.units_measure].measure.step
    kept = units * step >= plan.block.parameters.min_units_per_group
    values = {name: column[kept] for name, column in released.values.items()}
    return replace(released, row_ids=released.row_ids[kept], values=values)


def _dense(
    block: Block, exact: ExactRows, columns: list[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    """Return all declared groups' measures, in the domain's order; zero for those without rows."""
    positions = np.zeros(len(exact.row_ids), dtype=np.int64)
    for index, key in enumerate(block.keys):
        assert key.domain is not None
        positions = positions * len(key.domain) + exact.measures[block.key_column(index)] - 1
    dense = [np.zeros(block.domain_size, dtype=np.int64) for _ in columns]
    for whole, column in zip(dense, columns, strict=True):
        whole[positions] = column
    return dense
