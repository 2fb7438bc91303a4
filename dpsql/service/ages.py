"""How old a release may be to be given again: counted from its release, by the ledger's clock.

Whatever a question is answered from that was released before is looked up here, so that nothing
older than its ``max_age`` has a part in its answer. Ages are of the account's own releases, and
say nothing of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from dpsql.core.periods import Period
from dpsql.ledger import Ledger, Stored


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


class KeptReleases:
    """The releases paid for by one account and its sessions, within an age. All is free."""

    def __init__(self, ledger: Callable[[], Ledger], analyst: str) -> None:
        self._ledger = ledger
        self._analyst = analyst

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


def _kept(found: Iterable[Stored], limit: AgeLimit) -> tuple[Stored, ...]:
    return tuple(each for each in found if limit.keeps(each.settled))
