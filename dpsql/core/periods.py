"""Calendar time: periods of one length, and time zones, as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dpsql.errors import ParameterError

_PERIODS: Final = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_WRITTEN: Final = re.compile(r"\s*(?:(\d{1,4})\s+)?([a-z]+?)s?\s*", re.IGNORECASE)


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
        """Return the wall time so many periods after ``start``; the last day of shorter months."""
        if not self.months:
            return start + timedelta(seconds=self.seconds * times)
        month = start.month - 1 + self.months * times
        year, month = start.year + month // 12, month % 12 + 1
        return start.replace(year=year, month=month, day=min(start.day, _days(year, month)))

    def times_in(self, other: Period) -> int | None:
        """Count how many of these periods make the ``other``; None if no whole number does."""
        for one, all_ in ((self.seconds, other.seconds), (self.months, other.months)):
            if one and all_ and not (self.seconds and other.months):
                return all_ // one if all_ % one == 0 else None
        return None

    @property
    def length(self) -> int:
        """About how many seconds it has, to compare periods by: a month counts as 30 days."""
        return self.seconds + 30 * _PERIODS["day"] * self.months

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


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone of that name. Raises ``ParameterError`` (``unknown_zone``)."""
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
