"""Renewal windows: the days or months in which an account's limits start afresh."""

from __future__ import annotations

from enum import StrEnum

from dpsql.ledger.chain import iso


class Renewal(StrEnum):
    """How often an account's window is renewed, by the calendar in UTC."""

    DAY = "day"
    MONTH = "month"


_LENGTH = {Renewal.DAY: len("2026-01-31"), Renewal.MONTH: len("2026-01")}


def period(renews: Renewal | None, at: int) -> str:
    """Return the day or month that ``at`` lies in, such as ``2026-01``; empty without renewal."""
    return "" if renews is None else iso(at)[: _LENGTH[renews]]


def is_over(renews: Renewal | None, current: str, at: int) -> bool:
    """Tell whether a new window is due at ``at`` for an account whose window was of ``current``.

    Only a later period renews: a clock that was wrong and went back never buys a new window.
    """
    return renews is not None and period(renews, at) > current
