"""Stored releases of an account's questions: to give again, to pool, to roll up.

Whatever a question is answered from that was released before is looked up here, so that nothing
older than its ``max_age`` has a part in its answer. Ages are counted from the release, by the
ledger's clock; they are of the account's own releases, and say nothing of rows. What follows from
finer releases, rolled up, is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import compress, islice, product

from dpsql.core.periods import Period
from dpsql.errors import QueryRefused
from dpsql.ir.plan import PreparedBlock
from dpsql.ir.query import Block
from dpsql.kinds.pooled import MAX_POOLED
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import ReleasedBlock
from dpsql.kinds.rolled_up import RolledUpKind
from dpsql.ledger import Ledger, Stored
from dpsql.pipeline.kept.fingerprint import (
    STATISTIC_DIGITS,
    rows_fingerprint,
    rows_fingerprints,
)
from dpsql.pipeline.kept.pooling import Release, pool_releases
from dpsql.pipeline.kept.release_codec import decode_release, decode_roll_up_source
from dpsql.pipeline.kept.roll_up import may_roll_up, rolled_up
from dpsql.pipeline.prepare import Prepared, Preparer, Question
from dpsql.pipeline.tail.key_spelling import KeySpelling
from dpsql.policy.parameters import Parameters, Pooling
from dpsql.privacy.mechanisms.bounds_choice import FoundBounds
from dpsql.privacy.mechanisms.summation import summed_std


@dataclass(frozen=True, slots=True)
class AgeLimit:
    """The most that releases may be away from a moment; without one, they may be of any age.

    A release of a time to come, of a clock that was wrong, is as old as it is far ahead: a little
    does not matter, and one of next year is not given for a year to come.
    """

    age: Period | None = None
    now: datetime | None = None

    def keeps(self, settled: str) -> bool:
        """Tell whether a release of that time (a UTC time in ISO 8601) may be given."""
        if self.age is None or self.now is None:
            return True
        earlier, later = sorted((datetime.fromisoformat(settled), self.now))
        return later <= self.age.after(earlier, 1)


ANY_AGE = AgeLimit()


@dataclass(frozen=True, slots=True, eq=False)
class KeptReleases:
    """The releases paid for by one account and its sessions, within an age. All is free."""

    _ledger: Callable[[], Ledger]
    _analyst: str

    def limit(self, age: Period | None) -> AgeLimit:
        """Turn a maximum age into a moment, the same for all look-ups of a question."""
        return ANY_AGE if age is None else AgeLimit(age, self._ledger().now())

    def latest(self, fingerprint: str, limit: AgeLimit) -> Stored | None:
        """Return the latest release of just this question; None if there is none, or too old."""
        kept = self._ledger().stored(self._analyst, fingerprint)
        return kept if kept is not None and limit.keeps(kept.settled) else None

    def pieces(self, stored: Stored) -> Iterator[bytes]:
        """Read a release, a piece at a time."""
        return self._ledger().release_parts(stored)

    def alike(self, start: str, most: int, limit: AgeLimit) -> tuple[Stored, ...]:
        """List the releases of one statistic, the oldest first."""
        return _kept(self._ledger().stored_alike(self._analyst, start, most), limit)

    def on_rows(self, rows: str, most: int, limit: AgeLimit) -> tuple[Stored, ...]:
        """List the releases of the same rows whose groups add up, the oldest first."""
        return _kept(self._ledger().stored_on_rows(self._analyst, rows, most), limit)

    def on_each(self, rows: Sequence[str], limit: AgeLimit) -> tuple[bool, ...]:
        """Tell of each of these rows whether the latest release whose groups add up is kept."""
        found = self._ledger().stored_on_each(self._analyst, rows, 1)
        return tuple(bool(_kept(each, limit)) for each in found)


def _kept(found: Iterable[Stored], limit: AgeLimit) -> tuple[Stored, ...]:
    return tuple(each for each in found if limit.keeps(each.settled))


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A release that was paid for at a time (a UTC time in ISO 8601), with its ledger's entry."""

    entry: int
    settled: str
    blocks: Release

    @property
    def poolable(self) -> bool:
        """True if all noise of the release is known, as pooling needs it."""
        return all(block.noise is not None for block in self.blocks)

    @property
    def alone(self) -> bool:
        """True for a release of a ``fresh`` question, which begins a new series."""
        return any(block.noise is not None and block.noise.alone for block in self.blocks)


@dataclass(frozen=True, slots=True)
class PooledReleases:
    """A question prepared for pooling, with its releases, the oldest first."""

    prepared: Prepared
    releases: tuple[StoredRelease, ...]

    def with_new(self, blocks: Release) -> PooledReleases:
        """Add a release that has just been drawn."""
        return replace(self, releases=(*self.releases, StoredRelease(0, "", blocks)))


@dataclass(frozen=True, slots=True, eq=False)
class StoredReleases:
    """Finds the releases that one account and its sessions have paid for. All of it is free."""

    _kept: KeptReleases
    _preparer: Preparer
    _keys: KeySpelling

    def latest(self, prepared: Prepared, limit: AgeLimit) -> Stored | None:
        """Find the latest release of just this question, in any session, unless it is too old.

        A question has none while its bounds are open.
        """
        if prepared.open_bounds:
            return None
        return self._kept.latest(prepared.fingerprint, limit)

    def alike(
        self, prepared: Prepared, limit: AgeLimit, combine: Pooling | None = None
    ) -> tuple[Stored, ...]:
        """List the releases from which pooling chooses, the oldest first.

        Whether any are, ``combine`` decides, left out that of the question.
        """
        if (combine or prepared.combine) is Pooling.OFF or not _poolable(prepared):
            return ()
        return self._kept.alike(prepared.fingerprint[:STATISTIC_DIGITS], MAX_POOLED, limit)

    def before(
        self,
        prepared: Prepared,
        alike: Sequence[Stored],
        release: StoredRelease | None = None,
        combine: Pooling | None = None,
    ) -> tuple[StoredRelease, ...]:
        """List those of :meth:`alike` releases that a release is pooled with, the oldest first.

        That is a new one, or one that is stored: then those before it, so that an answer given
        again is what it was, for as long as none of them is too old. Which they are, ``combine``
        decides, left out that of the question.
        """
        series = (combine or prepared.combine) is Pooling.SERIES
        if release is not None and (not release.poolable or (series and release.alone)):
            return ()
        older = [each for each in alike if release is None or each.entry < release.entry]
        found: list[StoredRelease] = []
        for each in reversed(older[-(MAX_POOLED - 1) :]):
            one = self.read(prepared, each)
            if one is not None and one.poolable:
                found.append(one)
                if series and one.alone:
                    break
        return tuple(reversed(found))

    def pool(self, question: Question, releases: Sequence[StoredRelease]) -> PooledReleases | None:
        """Prepare a question for pooling these releases and a new one; None without releases."""
        if not releases:
            return None
        prepared = self._preparer.prepare(replace(question, pooling=True))
        return PooledReleases(prepared, tuple(releases))

    def pooled(self, found: PooledReleases) -> Release | None:
        """Pool the releases; None if their noise or keys do not allow it."""
        blocks = [release.blocks for release in found.releases]
        return pool_releases(self._keys, found.prepared.blocks, blocks)

    def read(self, prepared: Prepared, kept: Stored) -> StoredRelease | None:
        """Unpack a release; None if it is of another format, or of other blocks."""
        blocks = decode_release(self._keys, prepared.blocks, self._kept.pieces(kept))
        return None if blocks is None else StoredRelease(kept.entry, kept.settled, blocks)


def _poolable(prepared: Prepared) -> bool:
    """Tell whether releases of a question can be pooled, by the kind of its plans."""
    plans = [block.plan for block in prepared.blocks]
    return bool(plans) and all(release_kind(plan).published(1, alone=False) for plan in plans)


MAX_ROLL_UP_SOURCES = 32
"""How many releases of the same rows a coarser question is looked for in, the latest."""


@dataclass(frozen=True, slots=True)
class RollUp:
    """The rolled-up blocks of a question, and when the latest release among them was paid for."""

    settled: str
    blocks: tuple[ReleasedBlock, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RollUps:
    """Finds stored releases of an account and its sessions that answer a question by roll-up."""

    _kept: KeptReleases

    def roll_up(self, prepared: Prepared, limit: AgeLimit) -> RollUp | None:
        """Answer a question from releases by more keys; None if a block has no such release.

        Releases older than the limit are not used.
        """
        if not all(_may_roll_up(block) for block in prepared.blocks):
            return None
        blocks: list[ReleasedBlock] = []
        for block in prepared.blocks:
            series = prepared.combine is not Pooling.ALL
            found = self._nearest(block, limit, series=series)
            if found is None:
                return None
            blocks.append(found)
        times = [RolledUpKind(each.block.plan).rolled_up.settled for each in blocks]
        return RollUp(max(times), tuple(blocks)) if blocks else None

    def bounds_of(
        self, prepared: Prepared, limit: AgeLimit
    ) -> Iterator[tuple[FoundBounds | None, ...]]:
        """Yield numbers of rows per unit with which a question's rows have releases.

        For a question whose numbers are open: one for each of its blocks.
        """
        blocks = prepared.blocks if prepared.open_bounds else ()
        if not all(_may_roll_up(block) for block in blocks):
            return
        found: list[list[FoundBounds | None]] = []
        for block in blocks:
            asked, choice = block.plan.block, block.plan.bounds_choice
            draw = None if choice is None else choice.rows
            given = [None] if draw is None else [FoundBounds(rows) for rows in draw.rungs]
            marks = rows_fingerprints(asked, (_with_rows(asked, bounds) for bounds in given))
            kept = self._kept.on_each(tuple(marks), limit)
            found.append(list(compress(given, kept)))
        yield from islice(product(*found) if found else (), MAX_ROLL_UP_SOURCES)

    def _nearest(
        self, block: PreparedBlock, limit: AgeLimit, *, series: bool
    ) -> ReleasedBlock | None:
        """Find the roll-up with the least noise, of equal ones the latest.

        That depends on the laws of their noise alone, which are public. In a ``series`` nothing
        before the latest that was asked for afresh is looked at: the rows were others then.
        """
        rows = rows_fingerprint(block.plan.block)
        kept = self._kept.on_rows(rows, MAX_ROLL_UP_SOURCES, limit)
        found: list[ReleasedBlock] = []
        for each in reversed(kept):
            source = decode_roll_up_source(self._kept.pieces(each))
            answer = None if source is None else rolled_up(block, source, each.settled)
            if source is None or answer is None:
                continue
            found.append(answer)
            if series and source.noise.alone:
                break
        return min(found, key=_noise_of, default=None)


def _may_roll_up(block: PreparedBlock) -> bool:
    """Tell whether a block can be rolled up; until its values have bounds, it is no statistic."""
    return not block.plan.value_bounds and may_roll_up(block.plan.block)


def _with_rows(block: Block, bounds: FoundBounds | None) -> Parameters:
    asked = block.parameters
    if bounds is None or bounds.rows is None:
        return asked
    return replace(asked, max_rows_contributed=bounds.rows)


def nothing_released(*, fresh: bool, aged: bool) -> QueryRefused:
    """Build the error for a question for stored releases alone that none of them answers.

    ``aged``: it has a maximum age, beyond which nothing was looked for.
    """
    if fresh:
        return QueryRefused(
            "an answer cannot be fresh and come from stored releases",
            code="nothing_released",
            hint="Leave out fresh, or ask with answer_from = rows.",
        )
    return QueryRefused(
        f"no stored release of the account answers the question{_YOUNG * aged}",
        code="nothing_released",
        hint="Ask with answer_from = rows, and pay for it. A stored release answers the same "
        "question, and counts and sums over the same rows by fewer of its keys, if all of these "
        "have declared values.",
    )


_YOUNG = " within max_age"


def _noise_of(answer: ReleasedBlock) -> float:
    """Compute the product of the standard deviations of all measures, as its logarithm."""
    added = RolledUpKind(answer.block.plan).rolled_up
    return _log_product([summed_std(noise, added.groups) for noise in added.noises])


def _log_product(factors: Sequence[float]) -> float:
    return math.fsum(math.log(max(factor, 1e-300)) for factor in factors)
