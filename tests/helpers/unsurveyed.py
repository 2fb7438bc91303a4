"""A version of an engine without verdicts, and its refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.engines.evidence.verdicts import EngineVersion
from helpers.failures import fails_with

UNHEARD_OF = "99.9"


def pretend(patch: pytest.MonkeyPatch, engine: str, data: Path) -> EngineVersion:
    """Have all servers of a kind say that they are of a version without a table.

    ``data`` is where the owner's data lie meanwhile.
    """
    patch.setenv("XDG_DATA_HOME", str(data))
    real = EngineVersion.of

    def of(name: str, told: str) -> EngineVersion:
        return real(name, UNHEARD_OF if name == engine else told)

    patch.setattr(EngineVersion, "of", of)
    return of(engine, "")


def refused_unseen(database: Any, policy: Any, analyst: str, directory: Path) -> None:
    """A connection is refused with the command that helps, before there is a ledger."""
    ledger = directory / "never.db"
    with fails_with("engine_not_surveyed") as raised:
        dpsql.connect(database, policy, ledger, analyst)
    assert UNHEARD_OF[:2] in raised.value.reason
    assert "dpsql check --survey" in str(raised.value.hint)
    assert not ledger.exists()
