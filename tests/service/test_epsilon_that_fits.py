"""A refusal for lack of budget names an ε that would fit, and it does."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.support import ANALYST, FILL, policy, world_file

import dpsql
from dpsql.policy.model import AccountPolicy
from dpsql.privacy.accounting.zcdp import Composition

SPENT = "SELECT count(DISTINCT uid) FROM visits WHERE k = 3"
ONE = "SELECT k, count(*) AS n FROM visits GROUP BY k"
ALL = "SELECT count(DISTINCT uid) AS n FROM visits"
TWO = "SELECT (SELECT count(*) FROM visits) - (SELECT count(*) FROM mails) AS gap"


@pytest.mark.slow
@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize("asked", [ONE, ALL, TWO])
def test_the_epsilon_that_a_refusal_names_is_answered(
    asked: str, composition: Composition, tmp_path: Path
) -> None:
    account = AccountPolicy(ANALYST, 2.0, 1e-3, composition=composition)
    rules = replace(policy(), accounts={ANALYST: account})
    with (
        world_file(tmp_path / "world.duckdb", *FILL) as path,
        dpsql.connect(path, rules, tmp_path / "budget.db", ANALYST) as con,
    ):
        with contextlib.suppress(dpsql.BudgetExceeded):
            for _ in range(100):
                con.sql(SPENT, epsilon=0.8, delta=1e-6, fresh=True, combine="off")
        with pytest.raises(dpsql.BudgetExceeded) as refused:
            con.sql(asked, epsilon=1.9, delta=1e-6)
        found = re.search(r"what is left is enough with epsilon = ([\d.]+)", str(refused.value))
        assert found is not None, refused.value
        fits = float(found[1])
        assert 0 < fits < 1.9
        con.sql(asked, epsilon=fits, delta=1e-6)
