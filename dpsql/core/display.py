"""How values show themselves, without knowing who draws them.

What draws stands above what is drawn: the renderer is made known once, and loaded when something is
shown for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Renderer(Protocol):
    """Draws results, explanations and reports of budgets."""

    def value_text(self, value: Any) -> str:
        """Draw a value as plain text."""

    def value_html(self, value: Any) -> str:
        """Draw a value as HTML."""

    def value_plot(self, value: Any, *how: Any) -> Any:
        """Draw a value with matplotlib."""


_loaders: list[Callable[[], Renderer]] = []


def use(load: Callable[[], Renderer]) -> None:
    """Register what loads the renderer."""
    _loaders[:] = [load]


def text(value: object) -> str:
    """Draw a value as plain text."""
    return _loaders[0]().value_text(value)


def html(value: object) -> str:
    """Draw a value as HTML."""
    return _loaders[0]().value_html(value)


def plot(value: object, *how: object) -> Any:
    """Draw a value with matplotlib, and return its Axes."""
    return _loaders[0]().value_plot(value, *how)
