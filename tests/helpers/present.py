"""What is optional by its type and given in a test."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """The value itself; fails the test where there is none."""
    assert value is not None
    return value
