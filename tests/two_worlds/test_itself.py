"""With noise of zero answers are the engine's own, on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.zero_noise import silence

from .itself import Compared, compare
from .sources import READERS


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch, discovered_keys: None) -> None:
    """Noise of zero, and no groups without rows."""
    silence(monkeypatch)


@pytest.fixture
def postgresql(postgres_server: object) -> Iterator[str]:
    """A reader whose server ends with the test; skipped where there is no PostgreSQL."""
    yield "postgresql"
    READERS["postgresql"].close()


def held(found: Compared, statements: int) -> None:
    """Nothing is different, and enough was compared."""
    print(found.asked, found.answered, found.codes)
    assert found.different == []
    assert found.asked >= statements
    assert found.answered >= found.asked / 3


@pytest.mark.slow
def test_answers_without_noise_are_the_engines_own(still: None, tmp_path: Path) -> None:
    held(compare(READERS["duckdb"], tmp_path, 40), 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_many_answers_without_noise_are_the_engines_own(
    still: None, tmp_path: Path, seed: int
) -> None:
    held(compare(READERS["duckdb"], tmp_path, 600, seed), 600)


@pytest.mark.slow
def test_answers_of_postgresql_are_those_of_duckdb(
    still: None, tmp_path: Path, postgresql: str
) -> None:
    held(compare(READERS[postgresql], tmp_path, 300), 300)
