"""The steps of a view: calendar periods of one length, from a start, in a time zone.

Step t, of 1 to ``count``, covers the rows from its start up to its end, and is closed once the
clock has passed that end. Steps are counted in wall time: a day is a day where clocks change too.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from dpsql.core.periods import Period, zone_named
from dpsql.errors import ParameterError
from dpsql.privacy.streams.factorisation import MAX_STEPS

_EPOCH: Final = datetime(1970, 1, 1)
_FIRST_YEAR: Final = 1000
_LAST_YEAR: Final = 9000  # so that no sum of dates leaves the calendar


@dataclass(frozen=True, slots=True)
class ViewSteps:
    """``count`` steps of one ``period`` each, from the wall time ``start`` in ``zone``.

    Raises ``ParameterError`` for a number of steps, a zone or a start that cannot be.
    """

    period: Period
    start: datetime
    count: int
    zone: str

    def __post_init__(self) -> None:
        if not (type(self.count) is int and 1 <= self.count <= MAX_STEPS):
            raise ParameterError(
                f"steps must be a whole number from 1 to {MAX_STEPS:,}",
                code="bad_steps",
                hint="It is how often the view is refreshed in all: 365 for each day of a year.",
            )
        zone_named(self.zone)
        if not (self.period.months or self.period.whole_days or self.zone == "UTC"):
            raise ParameterError(
                f"steps of {self.period} can only be counted in UTC, not in {self.zone}",
                code="bad_steps",
                hint="An hour is lost or doubled where clocks change: take days, or zone: UTC.",
            )
        if self.start.year + self._years > _LAST_YEAR:
            raise ParameterError(
                "the steps of the view reach beyond the calendar",
                code="bad_steps",
                hint="Choose fewer or shorter steps.",
            )

    def end(self, step: int) -> datetime:
        """Return the wall time at which a step ends; 0 gives the start of the first."""
        return self.period.after(self.start, step)

    def end_instant(self, step: int) -> datetime:
        """Return the instant at which a step ends, in UTC."""
        return self.end(step).replace(tzinfo=zone_named(self.zone)).astimezone(UTC)

    def as_long(self, now: datetime) -> tuple[datetime, datetime]:
        """Return two wall times as far apart as start and end of all steps, the later one past.

        That is the end of the last step that has closed at the instant ``now``, or else the start.
        """
        closed = self.closed(now)
        if self.start.year - self._years < _FIRST_YEAR:
            return datetime(_FIRST_YEAR, 1, 1), self.end(closed)
        return self.end(closed - self.count), self.end(closed)

    @property
    def _years(self) -> float:
        """At least as many years as the steps take."""
        return self.count * (self.period.seconds / 31_000_000 + self.period.months / 12)

    def consist_of(self, period: Period) -> bool:
        """Tell whether no period, of those that follow each other since 1970, is in two steps."""
        ends = (self.end(step) for step in range(self.count + 1))
        if period.months:
            return all(
                end == datetime(end.year, end.month, 1)
                and (12 * end.year + end.month - _EPOCH.month - 12 * _EPOCH.year) % period.months
                == 0
                for end in ends
            )
        every = timedelta(seconds=period.seconds)
        return all((end - _EPOCH) % every == timedelta() for end in ends)

    def closed(self, now: datetime) -> int:
        """Count the steps that have closed at an instant (with a time zone)."""
        return bisect_right(range(1, self.count + 1), now, key=self.end_instant)


def read_wall_time(what: str, text: str) -> datetime:
    """Read the wall time in ``2026-01-01`` or ``2026-01-01 06:00``; errors call it ``what``.

    Raises ``ParameterError`` (``bad_time``).
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        found = None
    if found is None or found.tzinfo is not None:
        raise ParameterError(
            f"{what} must be a date or a time without a zone, not {text[:40]!r}",
            code="bad_time",
            hint="Write '2026-01-01' or '2026-01-01 06:00'; the zone is that of the table's "
            "time in the policy.",
        )
    return found
