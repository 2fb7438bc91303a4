"""A kind of release is one class: with its line in the registry, all that is asked reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.support import connect

from dpsql.accuracy.wording import Part
from dpsql.core.sql import Sql, sql
from dpsql.ir.plan import BlockPlan, ReleaseNoise
from dpsql.kinds import registry
from dpsql.kinds.base import BlockReading
from dpsql.kinds.groups import ExactGroups, GroupsKind
from dpsql.sql.rewrite.rows import PrivateRows

QUESTION = "SELECT k, COUNT(*) AS n FROM visits GROUP BY k"
READ: list[str] = []


class OddKind(GroupsKind):
    """Groups of odd keys, whose intervals are a thousand wide."""

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        return bool(plan.block.keys)

    def numbered(self, rows: PrivateRows, groups: Sql) -> Sql:
        found = rows.dialect.derived(super().numbered(rows, groups))
        return sql("SELECT * FROM {} WHERE {} % 2 = 1", found, rows.keys[0])

    @contextmanager
    def read(self, reading: BlockReading) -> Iterator[ExactGroups]:
        READ.append(reading.block.name)
        with super().read(reading) as exact:
            yield exact

    def reach(self, released: int, index: int, whole: bool, confidence: float, way: int) -> float:
        return 500.0

    def sentences(self, part: Part, confidence: float) -> Iterator[str]:
        yield "Even keys are nobody's business."

    @property
    def bounding(self) -> str:
        return "odd keys alone"

    def published(self, released: int, *, alone: bool) -> ReleaseNoise | None:
        return None


@pytest.mark.slow
def test_a_kind_that_is_registered_is_asked_for_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "KINDS", (OddKind, *registry.KINDS))
    READ.clear()
    with connect(tmp_path, max_groups_contributed=7) as con:
        explained, answer = str(con.explain(QUESTION)), con.sql(QUESTION)
        assert sorted(key for key, _ in answer.fetchall()) == [1, 3, 5]
        interval = answer.intervals()["n"]
        assert set((interval.high - interval.low).tolist()) == {1000.0}
        assert "Even keys are nobody's business." in answer.summary()
        assert "odd keys alone" in explained
        assert "% 2 = 1" in con.explain(QUESTION).blocks[0].sql
        assert len(READ) == 2, "rehearsed once, then read"
        assert con.sql(QUESTION).fetchall() == answer.fetchall(), "kept as any other release"
        assert len(READ) == 2


def test_without_its_line_nobody_asks_it(tmp_path: Path) -> None:
    READ.clear()
    with connect(tmp_path, max_groups_contributed=7) as con:
        answer = con.sql(QUESTION)
        assert len(answer.fetchall()) == 7
        assert "Even keys" not in answer.summary()
    assert not READ
