"""The maker of bounds follows from public facts alone: the policy, the machine, the plan."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.support import ANALYST, policy, world_file

import dpsql
from dpsql.policy.limits import BoundingLimit, Limits

SUM = "SELECT k, SUM(n) AS t FROM visits GROUP BY k"
CHOSEN = {
    (BoundingLimit.AUTO, 1): "NumPy",
    (BoundingLimit.AUTO, 2): "NumPy",
    (BoundingLimit.AUTO, 3): "SQL: it uses all processors",
    (BoundingLimit.ANY, 64): "NumPy",
    (BoundingLimit.SQL, 1): "SQL: limits.bounding",
}


@pytest.mark.parametrize("bounding", list(BoundingLimit))
def test_processors_and_the_policy_choose(
    bounding: BoundingLimit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world_file(tmp_path / "world.duckdb", "SELECT 1") as path:
        pass
    rules = replace(policy(), limits=Limits(bounding=bounding))
    with dpsql.connect(path, rules, tmp_path / "budget.db", ANALYST) as con:
        for (limit, number), maker in CHOSEN.items():
            if limit is bounding:
                monkeypatch.setattr("dpsql.kinds.streamed.processors", partial(int, number))
                # Another text: plans of the same one are remembered.
                block = con.explain(f"{SUM} ORDER BY {number} + t").blocks[0]
                assert block.maker.startswith(maker)


def test_pairs_that_rounds_read_again_are_worth_it_on_more_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world_file(tmp_path / "world.duckdb", "SELECT 1") as path:
        pass
    with dpsql.connect(path, policy(), tmp_path / "budget.db", ANALYST) as con:
        for question in (SUM, "SELECT k, COUNT(DISTINCT uid) AS t FROM visits GROUP BY k"):
            for number, maker in {2: "NumPy", 4: "NumPy", 5: "SQL: it uses all proc"}.items():
                monkeypatch.setattr("dpsql.kinds.streamed.processors", partial(int, number))
                text = f"{question} ORDER BY {number} + t"
                block = con.explain(text, max_groups_contributed="auto").blocks[0]
                assert block.maker.startswith(maker)


def test_the_usual_limit_is_auto() -> None:
    assert Limits().bounding is BoundingLimit.AUTO


def test_quantiles_are_bounded_where_sums_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world_file(tmp_path / "world.duckdb", "SELECT 1") as path:
        pass
    with dpsql.connect(path, policy(), tmp_path / "budget.db", ANALYST) as con:
        for number, maker in {2: "NumPy: less work", 3: "SQL: it uses all proc"}.items():
            monkeypatch.setattr("dpsql.kinds.streamed.processors", partial(int, number))
            text = f"SELECT k, MEDIAN(n) AS m FROM visits GROUP BY k ORDER BY {number} + m"
            assert con.explain(text).blocks[0].maker.startswith(maker)


@pytest.mark.parametrize("bounds", [{}, {"max_groups_contributed": 2}])
def test_keys_alone_are_bounded_in_numpy_on_up_to_three_processors(
    bounds: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world_file(tmp_path / "world.duckdb", "SELECT 1") as path:
        pass
    with dpsql.connect(path, policy(), tmp_path / "budget.db", ANALYST) as con:
        for number, maker in {3: "NumPy: less work", 4: "SQL: it uses all proc"}.items():
            monkeypatch.setattr("dpsql.kinds.streamed.processors", partial(int, number))
            text = f"SELECT DISTINCT k FROM visits ORDER BY {number} + k"
            assert con.explain(text, **bounds).blocks[0].maker.startswith(maker)
