"""What tests of views share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from step_keys import step_keys

from dpsql.continual import state as state_module
from dpsql.continual.state import ViewState
from dpsql.mechanisms.continual.keyed import StepKey


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
