"""The steps of a view: calendar periods of one length, from a start, in a time zone.

Step t, of 1 to ``count``, covers the rows from its start up to its end, and is closed once the
clock has passed that end. Steps are counted in wall time: a day is a day where clocks change too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dpsql.errors import ParameterError
from dpsql.mechanisms.continual.factorisation import MAX_STEPS

_PERIODS: Final = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_WRITTEN: Final = re.compile(r"\s*(?:(\d{1,4})\s+)?([a-z]+?)s?\s*", re.IGNORECASE)
_LAST_YEAR: Final = 9000  # so that no sum of dates leaves the calendar


@dataclass(frozen=True, slots=True)
class Period:
    """A length of calendar time: so many seconds, or so many months."""

    seconds: int = 0
    months: int = 0

    @classmethod
    def read(cls, text: str, what: str) -> Period:
        """Read ``1 day``, ``15 minutes``, ``month``, ``2 quarters``.

        Raises ``ParameterError`` (``bad_period``) for anything else; ``what`` names it there.
        """
        found = _WRITTEN.fullmatch(text)
        if found is not None:
            number, unit = int(found[1] or 1), found[2].lower()
            if number and unit in _PERIODS:
                return cls(seconds=number * _PERIODS[unit])
            if number and unit in _MONTHS:
                return cls(months=number * _MONTHS[unit])
        units = ", ".join([*_PERIODS, *_MONTHS])
        raise ParameterError(
            f"{what} must be a period such as '1 day', not {text[:40]!r}",
            code="bad_period",
            hint=f"Write a number and one of: {units}.",
        )

    def after(self, start: datetime, times: int) -> datetime:
        """The wall time so many periods after ``start``; the last day of shorter months."""
        if not self.months:
            return start + timedelta(seconds=self.seconds * times)
        month = start.month - 1 + self.months * times
        year, month = start.year + month // 12, month % 12 + 1
        return start.replace(year=year, month=month, day=min(start.day, _days(year, month)))

    def times_in(self, other: Period) -> int | None:
        """How many of these periods make the ``other``; None if no whole number does."""
        for one, all_ in ((self.seconds, other.seconds), (self.months, other.months)):
            if one and all_ and not (self.seconds and other.months):
                return all_ // one if all_ % one == 0 else None
        return None

    @property
    def whole_days(self) -> bool:
        """True if it begins and ends at midnight where its start does."""
        return self.seconds % _PERIODS["day"] == 0

    def __str__(self) -> str:
        units = [("month", 1)] if self.months else [(u, s) for u, s in _PERIODS.items()][::-1]
        amount = self.months or self.seconds
        unit, size = next((unit, size) for unit, size in units if amount % size == 0)
        number = amount // size
        return f"{number} {unit}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Steps:
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
        years = self.count * (self.period.seconds / 31_000_000 + self.period.months / 12)
        if self.start.year + years > _LAST_YEAR:
            raise ParameterError(
                "the steps of the view reach beyond the calendar",
                code="bad_steps",
                hint="Choose fewer or shorter steps.",
            )

    def end(self, step: int) -> datetime:
        """The wall time at which a step ends; 0 gives the start of the first."""
        return self.period.after(self.start, step)

    def end_instant(self, step: int) -> datetime:
        """The instant at which a step ends, in UTC."""
        return self.end(step).replace(tzinfo=zone_named(self.zone)).astimezone(UTC)

    def closed(self, now: datetime) -> int:
        """How many steps have closed at an instant (with a time zone)."""
        return bisect_right(range(1, self.count + 1), now, key=self.end_instant)


def read_wall_time(what: str, text: str) -> datetime:
    """The wall time in ``2026-01-01`` or ``2026-01-01 06:00``; ``what`` names it in errors.

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


def zone_named(name: str) -> ZoneInfo:
    """The time zone of that name. Raises ``ParameterError`` (``unknown_zone``)."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ParameterError(
            f"there is no time zone {name[:60]!r}",
            code="unknown_zone",
            hint="Write a name of the IANA database, such as UTC or Europe/Berlin.",
        ) from None


def _days(year: int, month: int) -> int:
    following = date(year + month // 12, month % 12 + 1, 1)
    return (following - timedelta(days=1)).day
