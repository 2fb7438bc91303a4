"""Known keys of a stream's steps, and states of views that have them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dpsql.privacy.streams.keyed import KEY_BYTES, StepKey
from dpsql.views import state as state_module
from dpsql.views.state import ViewState


def step_keys(count: int, stream: str = "") -> list[StepKey]:
    """The keys of so many steps, the same for a stream's name every time."""
    return [
        StepKey(hashlib.blake2b(f"{stream}/{i}".encode(), digest_size=KEY_BYTES).digest())
        for i in range(count)
    ]


@pytest.fixture
def repeat_keys(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[StepKey]], None]:
    """Gives all states of a test the same keys: to compare what they count and draw.

    That is what must never happen; without it each state draws its own.
    """

    def repeat(keys: Sequence[StepKey]) -> None:
        original = ViewState.absorb

        def absorb(self: ViewState, step: int, rows: Any) -> None:
            known = iter(keys[self.read_steps : step])
            source = SimpleNamespace(token_bytes=lambda _: next(known).secret)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(state_module, "secrets", source)
                original(self, step, rows)

        monkeypatch.setattr(ViewState, "absorb", absorb)

    return repeat


@pytest.fixture
def repeated_keys(repeat_keys: Callable[[Sequence[StepKey]], None]) -> None:
    """The same keys in all states of a test."""
    repeat_keys(step_keys(60))
