"""Steps of a view, and the periods that lie within one of them each."""

from __future__ import annotations

from datetime import datetime

import pytest

from dpsql.core.periods import Period
from dpsql.views.steps import ViewSteps

MIDNIGHT = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("step", "start", "period", "fits"),
    [
        ("1 day", MIDNIGHT, "1 day", True),
        ("1 day", MIDNIGHT, "6 hours", True),
        ("1 day", MIDNIGHT, "5 hours", False),
        ("1 week", MIDNIGHT, "1 day", True),
        ("1 week", MIDNIGHT, "1 week", True),  # 2026 begins on a Thursday, as 1970 did
        ("1 week", datetime(2026, 1, 2), "1 week", False),
        ("1 day", datetime(2026, 1, 1, 6), "1 day", False),
        ("12 hours", MIDNIGHT, "1 day", False),
        ("month", MIDNIGHT, "1 day", True),
        ("month", MIDNIGHT, "2 days", False),
        ("month", MIDNIGHT, "month", True),
        ("month", MIDNIGHT, "quarter", False),
        ("quarter", MIDNIGHT, "month", True),
        ("quarter", datetime(2026, 2, 1), "quarter", False),
        ("month", datetime(2026, 1, 15), "month", False),
        ("30 days", MIDNIGHT, "month", False),
    ],
)
def test_periods_lie_within_steps_that_begin_with_one(
    step: str, start: datetime, period: str, fits: bool
) -> None:
    steps = ViewSteps(Period.read(step, "step"), start, 40, "UTC")
    assert steps.consist_of(Period.read(period, "every")) == fits
