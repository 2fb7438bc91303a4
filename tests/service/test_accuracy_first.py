"""Asking for a maximum error: the nearest setting holds, answers keep it, refusals cost nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.present import present
from helpers.support import ANALYST, FILL, connect, policy, world_file

import dpsql
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.policy.parameters import Maxima
from dpsql.privacy.accounting.zcdp import Composition

COUNT = "SELECT k, COUNT(*) AS n FROM visits GROUP BY k"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with connect(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """A connection for tests that only explain or are refused."""
    with connect(tmp_path_factory.mktemp("shared")) as opened:
        yield opened


@contextlib.contextmanager
def under(directory: Path, rules: Policy) -> Iterator[dpsql.Connection]:
    with (
        world_file(directory / "world.duckdb", *FILL) as path,
        dpsql.connect(path, rules, directory / "budget.db", ANALYST) as opened,
    ):
        yield opened


def epsilons(connection: dpsql.Connection, sql: str, **parameters: Any) -> list[float]:
    return [block.epsilon for block in connection.explain(sql, **parameters).blocks]


def refused(ask: Callable[[], object]) -> dpsql.Error:
    with pytest.raises(dpsql.Error) as caught:
        ask()
    return caught.value


# -- what is answered -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "error"),
    [
        (COUNT, 20),
        ("SELECT COUNT(*) AS n FROM visits", 3.5),
        ("SELECT c, SUM(x) AS n FROM visits GROUP BY c", 40),
        ("SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 3", 5),
        ("SELECT c, COUNT(DISTINCT s) AS n FROM visits GROUP BY c", 20),
    ],
)
def test_an_answer_is_within_the_error_and_costs_what_it_takes(
    connection: dpsql.Connection, sql: str, error: float
) -> None:
    result = connection.sql(sql, max_error=error)
    interval = result.intervals()["n"]
    values = [row[-1] for row in result.fetchall()]
    assert len(values) > 0
    for value, low, high in zip(values, interval.low, interval.high, strict=True):
        assert high - value <= error
        assert value - low <= error
    spent = connection.budget().epsilon_spent
    assert spent > 0
    # The epsilon that was found asks the same question: its answer is there.
    (found,) = epsilons(connection, sql, max_error=error)
    assert connection.sql(sql, epsilon=found).cost.stored
    assert connection.budget().epsilon_spent == spent


@pytest.mark.slow
def test_every_way_to_ask_for_an_error_asks_the_same(connection: dpsql.Connection) -> None:
    asked = "SELECT {} k, COUNT(*{}) AS n FROM visits GROUP BY k"
    plain = asked.format("", "")
    first = connection.sql(plain, max_error=20)
    assert not first.cost.stored
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_error = 20)"
    beside = asked.format("", ", max_error => 20")
    again = [connection.sql(asked.format(options, "")), connection.sql(beside)]
    connection.sql("SET max_error = 20")
    again.append(connection.sql(plain))
    connection.sql("RESET max_error")
    cursor = connection.cursor()
    cursor.execute(plain, max_error=20)
    assert cursor.fetchall() == first.fetchall()
    assert all(result.cost.stored for result in again)


@pytest.mark.slow
def test_intervals_are_kept_at_the_confidence_they_are_asked_with(
    connection: dpsql.Connection,
) -> None:
    sql = (
        "SELECT n, DP_INTERVAL_LOW(n, 0.99), DP_INTERVAL_HIGH(n, 0.99) FROM "
        "(SELECT k, COUNT(*, max_error => 20) AS n FROM visits GROUP BY k)"
    )
    rows = connection.sql(sql).fetchall()
    assert rows
    assert all(n - low <= 20 and high - n <= 20 for n, low, high in rows)
    assert epsilons(connection, sql)[0] > 1.2 * epsilons(connection, COUNT, max_error=20)[0]


@pytest.mark.slow
def test_an_error_beside_one_aggregate_leaves_the_others_alone(
    shared: dpsql.Connection,
) -> None:
    sql = "SELECT k, COUNT(*, max_error => 30), SUM(x), AVG(x), MEDIAN(x) FROM visits GROUP BY k"
    (count, total, *_) = shared.explain(sql).blocks[0].columns
    assert present(count.margin95) <= 30
    assert present(total.margin95) > 30
    # The nearest holds, and of two on one aggregate the smaller.
    both = COUNT.replace("(*)", "(*, max_error => 20)")
    assert epsilons(shared, both, max_error=5) == epsilons(shared, COUNT, max_error=20)
    twice = f"{COUNT} HAVING COUNT(*, max_error => 20) > 0"
    assert epsilons(shared, twice, max_error=50) == epsilons(shared, COUNT, max_error=20)


@pytest.mark.slow
def test_the_nearer_of_error_and_epsilon_holds(tmp_path: Path) -> None:
    wanted = 20
    with connect(tmp_path, max_error=wanted) as connection:
        (needed,) = epsilons(connection, COUNT)
        assert needed != 5.0
        assert epsilons(connection, COUNT, epsilon=2) == [2.0]
        connection.sql("SET epsilon = 3")
        assert epsilons(connection, COUNT) == [3.0]
        listed = {row[0]: row[1:3] for row in connection.sql("SHOW PARAMETERS").fetchall()}
        assert listed["epsilon"] == ("3.0", "SET")
        assert listed["max_error"] == ("none", "SET")
        assert epsilons(connection, COUNT, max_error=wanted) == [needed]
        connection.sql("SET max_error = 50")
        listed = {row[0]: row[1:3] for row in connection.sql("SHOW PARAMETERS").fetchall()}
        assert listed["epsilon"] == ("as max_error needs", "SET")
        assert listed["max_error"] == ("50.0", "SET")
        assert epsilons(connection, COUNT)[0] < needed
        own = COUNT.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4)")
        assert epsilons(connection, own) == [4.0]
        assert epsilons(connection, COUNT, max_error=None) == [5.0]
        connection.sql("RESET max_error")
        assert epsilons(connection, COUNT) == [needed]


def test_a_policy_may_ask_for_an_error_by_default(tmp_path: Path) -> None:
    rules = policy()
    rules = replace(rules, defaults=replace(rules.defaults, max_error=20.0))
    with under(tmp_path, rules) as connection:
        assert epsilons(connection, COUNT) == epsilons(connection, COUNT, max_error=20)
        assert epsilons(connection, COUNT, epsilon=0.5) == [0.5]


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code", "marked"),
    [
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_error = 20) COUNT(*) "
            "FROM visits",
            "epsilon_and_max_error",
            "max_error = 20",
        ),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*, max_error => 20) "
            "FROM visits",
            "epsilon_and_max_error",
            "max_error => 20",
        ),
        ("SELECT AVG(x, max_error => 1) FROM visits", "error_not_public", "AVG(x, max_error => 1)"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_error = 9) COUNT(*), MEDIAN(x) "
            "FROM visits",
            "error_not_public",
            "MEDIAN(x)",
        ),
        ("SELECT STDDEV(x, max_error => 1) FROM visits", "error_not_public", None),
        (
            "SELECT SUM(x, max_error => 1e-9) FROM visits",
            "max_error_too_small",
            "max_error => 1e-9",
        ),
        ("SELECT COUNT(*, max_error => 0) FROM visits", "parameter_out_of_range", "max_error => 0"),
        ("SELECT COUNT(*, max_error => 'a') FROM visits", "parameter_not_number", None),
        ("SELECT COUNT(*, max_error => (0, 5)) FROM visits", "parameter_not_number", None),
        ("SELECT COUNT(*, max_errors => 5) FROM visits", None, None),
        ("SELECT COUNT(*, max_error => 5, max_error => 6) FROM visits", "bad_bounds", None),
        ("SELECT MAX(x, max_error => 5) FROM visits", "error_not_public", None),
        (
            "SELECT SUM(n, max_error => 5) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY k)",
            "bounds_not_private",
            None,
        ),
        (
            "SELECT SUM(n) FROM (SELECT uid, COUNT(*, max_error => 5) AS n FROM visits "
            "GROUP BY uid)",
            "bounds_do_not_apply",
            None,
        ),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_error = 9) DISTINCT k FROM visits",
            "error_not_public",
            None,
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_in_its_place(
    shared: dpsql.Connection, sql: str, code: str | None, marked: str | None
) -> None:
    spent = shared.budget().epsilon_spent
    error = refused(lambda: shared.sql(sql))
    assert code in (None, error.code)
    assert shared.budget().epsilon_spent == spent
    if marked is not None:
        place = present(error.place)
        assert place.excerpt[place.column - 1 :][: place.length] == marked


def test_an_error_and_an_epsilon_in_one_place_are_refused(
    shared: dpsql.Connection, tmp_path: Path
) -> None:
    both: dict[str, Any] = {"epsilon": 1.0, "max_error": 20}
    assert refused(lambda: shared.sql(COUNT, **both)).code == "epsilon_and_max_error"
    assert refused(lambda: connect(tmp_path, **both)).code == "epsilon_and_max_error"


def test_noise_that_is_chosen_on_the_way_has_no_error_beforehand(
    shared: dpsql.Connection,
) -> None:
    auto: dict[str, Any] = {"max_groups_contributed": "auto"}
    beside = COUNT.replace("(*)", "(*, max_error => 20)")
    for ask in (
        lambda: shared.sql(COUNT, max_error=20, **auto),
        lambda: shared.explain(beside, **auto),
    ):
        error = refused(ask)
        assert error.code == "error_not_public"
        assert error.place is not None
    assert shared.explain(COUNT, **auto).blocks[0].rates == ()
    # Where keys are declared it means no cap, and the noise is as public as ever.
    declared = "SELECT c, COUNT(*) AS n FROM visits GROUP BY c"
    assert epsilons(shared, declared, max_error=20, **auto)[0] > 0


def test_a_view_has_no_maximum_error(shared: dpsql.Connection) -> None:
    created = "EXPLAIN CREATE MATERIALIZED VIEW v WITH (max_error = 5, step = '1 day', start = "
    error = refused(lambda: shared.sql(f"{created}'2026-01-01') AS {COUNT}"))
    assert error.code == "no_view"


@pytest.mark.slow
def test_the_policy_s_maximum_refuses_and_says_what_it_allows(tmp_path: Path) -> None:
    rules = replace(policy(), maxima=Maxima(epsilon=0.5))
    rules = replace(rules, defaults=replace(rules.defaults, epsilon=0.25))
    with under(tmp_path, rules) as connection:
        error = refused(lambda: connection.sql(COUNT, max_error=20))
        assert error.code == "max_error_too_small"
        allowed = float(error.reason.rsplit("± ", 1)[1].replace(",", ""))
        assert connection.budget().epsilon_spent == 0
        assert allowed > 20
        result = connection.sql(COUNT, max_error=allowed)
        assert result.plan.blocks[0].epsilon <= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("composition", Composition)
def test_an_account_that_is_too_small_refuses_and_says_what_it_allows(
    composition: Composition, tmp_path: Path
) -> None:
    account = AccountPolicy(ANALYST, 0.5, 1e-5, composition)
    rules = policy(None, **{ANALYST: account})
    rules = replace(rules, defaults=replace(rules.defaults, delta=1e-6, epsilon=0.1))
    with under(tmp_path, rules) as connection:
        error = refused(lambda: connection.sql(COUNT, max_error=10))
        assert error.code == "budget_exceeded"
        allowed = float(present(error.hint).split("± ")[1].split(".")[0].replace(",", ""))
        assert connection.budget().epsilon_spent == 0
        assert allowed > 10
        assert len(connection.sql(COUNT, max_error=allowed).fetchall()) >= 0
        assert 0 < connection.budget().epsilon_spent <= 0.5


# -- EXPLAIN ----------------------------------------------------------------------------------


def test_explain_tells_the_rate_in_both_directions(shared: dpsql.Connection) -> None:
    plan = shared.explain(COUNT, epsilon=1)
    (block,) = plan.blocks
    assert [rate.epsilon for rate in block.rates if rate.epsilon == 1.0] == [1.0]
    text = str(plan)
    assert "1 (this query)" in text
    for rate in block.rates:
        again = shared.explain(COUNT, epsilon=rate.epsilon).blocks[0].columns[0]
        assert present(rate.margins[0]) >= present(again.margin95)
        assert f"± {rate.margins[0]:,.0f}" in text
    assert '"rates"' in plan.to_json()
