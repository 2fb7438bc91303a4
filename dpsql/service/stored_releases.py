"""What the ledger keeps of an account's questions: a release to give again, releases to combine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.kinds.pooled import MAX_POOLED
from dpsql.kinds.registry import release_kind
from dpsql.ledger import Stored
from dpsql.pipeline.kept.fingerprint import STATISTIC_DIGITS
from dpsql.pipeline.kept.pooling import Release, pool_releases
from dpsql.pipeline.kept.release_codec import decode_release
from dpsql.pipeline.prepare import Prepared, Preparer, Question
from dpsql.pipeline.tail.key_spelling import KeySpelling
from dpsql.policy.parameters import Pooling
from dpsql.service.ages import AgeLimit, KeptReleases


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


class StoredReleases:
    """Finds the releases that one account and its sessions have paid for. All of it is free."""

    def __init__(
        self,
        kept: KeptReleases,
        preparer: Preparer,
        keys: KeySpelling,
    ) -> None:
        self._kept = kept
        self._preparer = preparer
        self._keys = keys

    def given(self, prepared: Prepared, limit: AgeLimit) -> StoredRelease | None:
        """Find the latest release of just this question, in any session, unless it is too old."""
        kept = self._kept.latest(prepared.fingerprint, limit)
        return None if kept is None else self._read(prepared, kept)

    def before(
        self,
        prepared: Prepared,
        limit: AgeLimit,
        release: StoredRelease | None = None,
        combine: Pooling | None = None,
    ) -> tuple[StoredRelease, ...]:
        """List the earlier releases that a release is pooled with, the oldest first.

        That is a new one, or one that is stored: then those before it, so that an answer given
        again is what it was, for as long as none of them is too old. Which they are, ``combine``
        decides, left out that of the question.
        """
        combine = combine or prepared.combine
        if combine is Pooling.OFF or not _poolable(prepared):
            return ()
        series = combine is Pooling.SERIES
        if release is not None and (not release.poolable or (series and release.alone)):
            return ()
        start = prepared.fingerprint[:STATISTIC_DIGITS]
        kept = self._kept.alike(start, MAX_POOLED, limit)
        older = [each for each in kept if release is None or each.entry < release.entry]
        found: list[StoredRelease] = []
        for each in reversed(older[-(MAX_POOLED - 1) :]):
            one = self._read(prepared, each)
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

    def _read(self, prepared: Prepared, kept: Stored) -> StoredRelease | None:
        """Unpack a release; None if it is of another format, or of other blocks."""
        blocks = decode_release(self._keys, prepared.blocks, self._kept.pieces(kept))
        return None if blocks is None else StoredRelease(kept.entry, kept.settled, blocks)


def _poolable(prepared: Prepared) -> bool:
    """Tell whether releases of a question can be pooled, by the kind of its plans."""
    plans = [block.plan for block in prepared.blocks]
    return bool(plans) and all(release_kind(plan).published(1, alone=False) for plan in plans)
