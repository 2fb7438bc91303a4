"""Groups that are named by their rank: which plans they are, what is read of them, what is said."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest
from helpers.blocks import UNITS, block
from helpers.columns import column_of
from helpers.support import USUAL, planned, policy

from dpsql.accuracy.wording import Part
from dpsql.core.schema import Table, schema_of
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.base import ReleaseKind
from dpsql.kinds.groups import GroupsKind
from dpsql.kinds.quantiles import QuantilesKind
from dpsql.kinds.ranked import RankedKind, RankedQuantilesKind
from dpsql.kinds.registry import release_kind
from dpsql.planner import plan_block

SALT, K_BAR = 7, 4
VISITS = Table("visits", tuple(column_of(name, "BIGINT") for name in ("uid", "k", "n")))
RANKED = "SELECT k, COUNT(DISTINCT uid) AS c FROM visits GROUP BY k ORDER BY c DESC LIMIT 2"
MEDIAN = RANKED.replace(" FROM", ", MEDIAN(n) FROM")
UNKNOWN = "above the 5th largest (above 0 if there are not so many)"
ALL = "SELECT k, MEDIAN(n) FROM visits GROUP BY k"


def plan_of(statement: str, mechanism: str | None = None) -> BlockPlan:
    asked = planned(statement, schema_of(VISITS), policy(), mechanism=mechanism, k_bar=K_BAR)
    return asked.plans[0]


def declared() -> BlockPlan:
    return plan_block(block(USUAL, UNITS, domain=20, limit=2), "known_domain_top_k")


@pytest.mark.parametrize(
    ("plan", "kind"),
    [
        (plan_of(RANKED, "gumbel_top_k"), RankedKind),
        (plan_of(RANKED, "gaussian_top_k"), RankedKind),
        (declared(), RankedKind),
        (plan_of(MEDIAN, "gumbel_top_k"), RankedQuantilesKind),
        (plan_of(RANKED, "gaussian_positive_counts"), GroupsKind),
        (plan_of(ALL), QuantilesKind),
    ],
)
def test_a_plan_is_of_one_kind(plan: BlockPlan, kind: type[ReleaseKind]) -> None:
    assert type(release_kind(plan)) is kind


def scores_read(kind: ReleaseKind) -> list[int]:
    """The scores of the groups that are read, of eight with 1 to 8 units."""
    measure = kind.plan.block.measure_column(0)
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT u AS uid, k, 1::BIGINT AS n "
            "FROM range(8) a(k), range(8) b(u) WHERE u <= k"
        )
        statement = kind.statement(SALT, DUCKDB).render(DUCKDB.renderer)
        found = connection.execute(f'SELECT "{measure}" FROM ({statement})').fetchall()
    return [score for (score,) in found]


def test_the_largest_groups_are_read_and_one_more() -> None:
    plan = plan_of(RANKED, "gumbel_top_k")
    assert scores_read(release_kind(plan)) == [8, 7, 6, 5, 4]
    assert len(scores_read(GroupsKind(plan))) == 8, "a twin that does not rank reads all of them"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (plan_of(RANKED, "gumbel_top_k"), UNKNOWN),
        (plan_of(MEDIAN, "gumbel_top_k"), UNKNOWN),
        (declared(), "above the 3rd largest, and at least 95% of the time"),
    ],
)
def test_sizes_count_from_the_first_group_that_cannot_come_out(plan: BlockPlan, said: str) -> None:
    sentences = " ".join(release_kind(plan).sentences(Part(plan, 2, (), 2), 0.95))
    assert said in sentences
    assert said not in " ".join(GroupsKind(plan).sentences(Part(plan, 2, (), 2), 0.95))


def test_releases_of_ranked_groups_are_not_pooled() -> None:
    plan = plan_of(RANKED, "gaussian_top_k")
    assert release_kind(plan).published(2, alone=False) is None
    assert GroupsKind(plan).published(2, alone=False) is not None, "a twin that says they could be"


def test_more_groups_than_are_shown_may_have_scores() -> None:
    named, scored = (plan_of(RANKED, name) for name in ("gumbel_top_k", "gaussian_top_k"))
    assert release_kind(named).most_released == 2
    assert release_kind(scored).most_released == K_BAR
    assert release_kind(replace(scored, selection=named.selection)).most_released is None
