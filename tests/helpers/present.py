"""The value of an optional, for type checkers: tests know that it is there."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """The value itself; fails the test where there is none."""
    assert value is not None
    return value
