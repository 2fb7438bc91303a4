"""One set of parameters decides the price of a view, its noise, its bounds and its minimum."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.plays import REFRESH, rows, spent
from helpers.plays import clock as clock
from test_materialized_views import connect, policy
from test_materialized_views import place as place

import dpsql
from dpsql.dbapi.connection import Connection
from dpsql.policy.model import Policy, ViewsPolicy
from dpsql.policy.parameters import Maxima
from dpsql.views.plan import ViewPlan

STEPS = "step = '1 day', start = '2026-01-01', steps = 12"


def create(options: str = "", given: str = "", select: str = "SELECT") -> str:
    clause = f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})" if options else ""
    return (
        f"CREATE MATERIALIZED VIEW v WITH ({STEPS}{given}) AS {select}{clause} artist, "
        "COUNT(DISTINCT user_id) AS users FROM plays GROUP BY artist"
    )


def with_table(**defaults: Any) -> Policy:
    """A policy whose table has defaults of its own."""
    found = policy()
    table = replace(found.tables["plays"], defaults=defaults)
    return replace(found, tables={**found.tables, "plays": table})


def opened(place: Path, given: Policy) -> Connection:
    return dpsql.connect(place / "x.duckdb", given, str(place / "l.db"), "ana")


def plan_of(connection: Connection) -> ViewPlan:
    views = connection._answerer.views
    found = views.plan_of(views.named("v")).plan
    assert isinstance(found, ViewPlan)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        "min_units_per_group = 1",
        "min_units_per_group = 49",
        "MIN_UNITS_PER_GROUP = 20",
    ],
)
def test_no_way_of_asking_undercuts_the_minimum_of_a_table(
    asked: str, place: Path, clock: Callable[[int], None]
) -> None:
    with closing(opened(place, with_table(min_units_per_group=50))) as ana:
        for statement in (create(asked), create(given=f", {asked}")):
            with fails_with("parameter_out_of_range"):
                ana.sql(statement)
        ana.sql(f"SET {asked}")
        with fails_with("parameter_out_of_range"):
            ana.sql(create())
        assert spent(ana) == 0
        ana.sql("RESET min_units_per_group")
        ana.sql(create())
        assert getattr(plan_of(ana).mechanism, "floor", None) == 49


@pytest.mark.slow
def test_options_in_the_select_of_a_view_are_its_price(
    place: Path, clock: Callable[[int], None]
) -> None:
    paid = {}
    for name, statement in {
        "select": create("epsilon = 0.5, delta = 1e-7", ", epsilon = 9, delta = 1e-3"),
        "with": create(given=", epsilon = 0.5, delta = 1e-7"),
        "default": create(),
    }.items():
        with closing(connect(place)) as ana:
            told = "\n".join(line for (line,) in ana.sql(f"EXPLAIN {statement}").fetchall())
            before = spent(ana)
            ana.sql(statement)
            paid[name] = spent(ana) - before
            parameters = plan_of(ana).definition.parameters
            assert f"ε {parameters.epsilon:g} at" in told
            assert (parameters.epsilon, parameters.delta) == (
                (1.0, 1e-6) if name == "default" else (0.5, 1e-7)
            )
            clock(2)
            ana.sql(REFRESH)
            ana.sql("DROP MATERIALIZED VIEW v")
            clock(1)
    assert paid["select"] == pytest.approx(paid["with"])
    assert paid["with"] < paid["default"]


@pytest.mark.slow
def test_bounds_in_the_select_of_a_view_are_those_of_its_rows(
    place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as ana:
        ana.sql(create("max_groups_contributed = 2, min_units_per_group = 4"))
        plan = plan_of(ana)
        assert plan.groups == 2
        assert getattr(plan.mechanism, "floor", None) == 3
        clock(3)
        ana.sql(REFRESH)
    with closing(connect(place)) as ana:
        assert plan_of(ana) == plan
        assert rows(ana)


@pytest.mark.parametrize(
    "options",
    ["mechanism = 'gaussian_positive_counts'", "fresh = true", "answer_from = released",
     "max_age = '1 day'"],
)  # fmt: skip
def test_options_that_a_view_has_not_are_refused_and_not_ignored(
    options: str, place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as ana:
        with fails_with("no_view"):
            ana.sql(create(options))
        assert spent(ana) == 0


TIGHTENED: list[tuple[str, Callable[[Policy], Policy]]] = [
    ("epsilon", lambda p: replace(p, maxima=Maxima(epsilon=1.5),
                                  defaults=replace(p.defaults, epsilon=1.0))),
    ("delta", lambda p: replace(p, maxima=Maxima(delta=1e-7),
                                defaults=replace(p.defaults, delta=1e-8))),
    ("max_groups_contributed", lambda p: replace(
        p, maxima=Maxima(max_groups_contributed=2),
        defaults=replace(p.defaults, max_groups_contributed=1))),
    ("min_units_per_group", lambda p: replace(
        p, defaults=replace(p.defaults, min_units_per_group=7))),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tighter"), TIGHTENED)
def test_a_policy_that_is_tightened_ends_the_views_beyond_it(
    name: str, tighter: Callable[[Policy], Policy], place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as ana:
        ana.sql(create(given=", epsilon = 2, delta = 1e-6"))
        clock(2)
        ana.sql(REFRESH)
    clock(4)
    with closing(opened(place, tighter(policy()))) as ana:
        with fails_with("view_changed") as caught:
            ana.sql(REFRESH)
        assert name in str(caught.value)
    with closing(connect(place)) as ana:
        ana.sql(REFRESH)  # nothing was used up


@pytest.mark.slow
def test_a_minimum_of_the_table_that_comes_later_ends_its_views(
    place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as ana:
        ana.sql(create())
    clock(3)
    with (
        closing(opened(place, with_table(min_units_per_group=5))) as ana,
        fails_with("view_changed"),
    ):
        ana.sql(REFRESH)


@pytest.mark.slow
def test_other_defaults_do_not_change_a_view(place: Path, clock: Callable[[int], None]) -> None:
    """What was in force when it was paid for stays, as far as the policy allows it."""
    with closing(opened(place, with_table(max_rows_contributed=3, max_age=None))) as ana:
        ana.sql(create())
        paid, plan = spent(ana), plan_of(ana)
    clock(3)
    found = with_table(max_rows_contributed=5, epsilon=0.25)
    found = replace(found, defaults=replace(found.defaults, epsilon=0.5, max_groups_contributed=2))
    with closing(opened(place, found)) as ana:
        ana.sql(REFRESH)
        assert spent(ana) == paid
        assert plan_of(ana).noises == plan.noises
        assert plan_of(ana).groups == 3


@pytest.mark.slow
def test_an_account_that_may_have_no_views_refreshes_none(
    place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as ana:
        ana.sql(create())
        clock(2)
        ana.sql(REFRESH)
        published = rows(ana)
    clock(4)
    with closing(connect(place, views=ViewsPolicy(create=("bob",)))) as ana:
        with fails_with("view_not_allowed"):
            ana.sql(REFRESH)
        assert rows(ana) == published  # what was paid for is still there
        ana.sql("DROP MATERIALIZED VIEW v")
