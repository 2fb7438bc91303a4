"""DP_INTERVAL_LOW, DP_INTERVAL_HIGH and DP_NOISE_SCALE say in SQL what a result's intervals say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from helpers.failures import fails_with
from helpers.support import ANALYST, FILL, connect, policy, world_file

import dpsql
from dpsql.policy.model import AccountPolicy

COUNTS = "SELECT k, count(*) AS c FROM visits GROUP BY k"
HIDDEN = "__dpsql"


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """Every group of seven comes out at this epsilon, unless noise is 20 standard deviations."""
    account = AccountPolicy(ANALYST, 1e6, 1e-3)
    directory = tmp_path_factory.mktemp("noise")
    with (
        world_file(directory / "world.duckdb", *FILL) as path,
        dpsql.connect(
            path,
            policy(None, **{ANALYST: account}),
            directory / "budget.db",
            ANALYST,
            epsilon=15.0,
            max_groups_contributed=7,
        ) as opened,
    ):
        yield opened


def column(result: dpsql.Result, name: str) -> list[float]:
    position = result.columns.index(name)
    return [row[position] for row in result.fetchall()]


def refused(connection: dpsql.Connection, text: str) -> dpsql.Error:
    before = connection.budget()
    with pytest.raises(dpsql.Error) as caught:
        connection.sql(text)
    assert connection.budget() == before
    return caught.value


# -- the same as intervals() ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "aggregate",
    [
        "count(*)",
        "count(DISTINCT uid)",
        "count(n)",
        "sum(n)",
        "sum(amount)",
        "sum(wide)",
        "avg(x)",
        "stddev(x)",
        "var_pop(n)",
        "count(*) FILTER (WHERE flag)",
    ],
)
@pytest.mark.parametrize("keys", ["c", "k", ""])
def test_the_ends_are_those_of_the_results_intervals(
    aggregate: str, keys: str, connection: dpsql.Connection
) -> None:
    group = f"{keys}," if keys else ""
    result = connection.sql(
        f"SELECT {group} {aggregate} AS v, DP_INTERVAL_LOW(v) AS low, DP_INTERVAL_HIGH(v) AS high,"
        f" dp_interval_low({aggregate}, 0.999999) AS far FROM visits"
        + (f" GROUP BY {keys} ORDER BY v DESC" if keys else "")
    )
    assert len(result) > 0
    usual, wide = result.intervals()["v"], result.intervals(0.999999)["v"]
    assert column(result, "low") == usual.low.tolist()
    assert column(result, "high") == usual.high.tolist()
    assert column(result, "far") == wide.low.tolist()
    assert np.all(wide.low <= usual.low)
    if aggregate.startswith(("count", "sum")):  # others are cut off at their bounds
        assert np.all(wide.low < usual.low)
    assert result.types[-3:] == ["DOUBLE"] * 3


@pytest.mark.parametrize("bounding", ["sample", "weight"])
def test_weighted_and_ranked_answers_have_them_too(
    bounding: Literal["sample", "weight"], connection: dpsql.Connection
) -> None:
    result = connection.sql(
        "SELECT k, count(DISTINCT uid) AS v, dp_interval_low(v) AS low FROM visits GROUP BY k "
        "ORDER BY v DESC LIMIT 3",
        contribution_bounding=bounding,
    )
    assert column(result, "low") == result.intervals()["v"].low.tolist()


def test_the_noise_scale_is_the_one_that_explain_shows(connection: dpsql.Connection) -> None:
    text = (
        "SELECT k, count(*) AS c, sum(x) AS total, dp_noise_scale(c) AS one, "
        "dp_noise_scale(total) AS other FROM visits GROUP BY k"
    )
    result = connection.sql(text)
    scales = [figure.noise_scale for figure in result.plan.blocks[0].columns]
    assert set(column(result, "one")) == {scales[0]}
    assert set(column(result, "other")) == {scales[1]}
    assert scales[0] != scales[1]


def test_asking_for_them_costs_nothing_more_and_changes_no_noise(
    connection: dpsql.Connection,
) -> None:
    plain = connection.explain("SELECT k, count(*) AS c FROM visits GROUP BY k")
    asked = connection.explain("SELECT k, count(*) AS c, dp_interval_low(c) FROM visits GROUP BY k")
    assert asked.reserved == plain.reserved
    assert asked.blocks[0].columns == plain.blocks[0].columns


def test_an_aggregate_may_be_asked_about_without_being_selected(
    connection: dpsql.Connection,
) -> None:
    result = connection.sql("SELECT k, dp_interval_low(sum(x)) AS low FROM visits GROUP BY k")
    assert result.columns == ["k", "low"]
    assert [figure.aggregate for figure in result.plan.blocks[0].columns] == ["sum(x)"]


def test_they_can_be_computed_with_sorted_by_and_filtered_on(connection: dpsql.Connection) -> None:
    result = connection.sql(
        "SELECT k, count(*) AS v, (dp_interval_high(v) - dp_interval_low(v)) / 2 AS half "
        "FROM visits GROUP BY k HAVING dp_interval_low(v, 0.5) > 1 "
        "ORDER BY dp_interval_low(v) LIMIT 4"
    )
    lows = result.intervals()["v"].low
    assert 0 < len(result) <= 4
    assert lows.tolist() == sorted(lows.tolist())
    assert column(result, "half") == ((result.intervals()["v"].high - lows) / 2).tolist()


def test_an_alias_comes_before_a_column_of_the_same_name(connection: dpsql.Connection) -> None:
    result = connection.sql(
        "SELECT k, count(*) AS n, dp_interval_low(n) AS l FROM visits GROUP BY k"
    )
    assert column(result, "l") == result.intervals()["n"].low.tolist()


def test_each_grouping_set_has_its_own(connection: dpsql.Connection) -> None:
    result = connection.sql(
        "SELECT c, count(*) AS v, dp_noise_scale(v) AS s, dp_interval_low(v) AS low "
        "FROM visits GROUP BY ROLLUP (c)"
    )
    assert [block.columns[0].noise_scale for block in result.plan.blocks]
    scales = {block.columns[0].noise_scale for block in result.plan.blocks}
    assert set(column(result, "s")) == scales
    assert all(
        low < value for low, value in zip(*(column(result, n) for n in ("low", "v")), strict=True)
    )


# -- outside the SELECT that aggregates -----------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT c, dp_interval_low(c) AS low FROM ({COUNTS})",
        f"SELECT t.c, dp_interval_low(t.c) AS low FROM ({COUNTS}) AS t",
        f"SELECT *, dp_interval_low(c) AS low FROM ({COUNTS})",
        f"SELECT t.*, dp_interval_low(c) AS low FROM ({COUNTS}) t",
        f"WITH t AS ({COUNTS}) SELECT c, dp_interval_low(c) AS low FROM t",
        f"WITH t AS ({COUNTS}) SELECT T.c, dp_interval_low(C) AS low FROM T",
        f"WITH t AS ({COUNTS}), u AS (SELECT * FROM t) SELECT *, dp_interval_low(c) AS low FROM u",
        f"WITH t AS ({COUNTS}), u AS (SELECT k, c AS c FROM t WHERE k > 1) "
        "SELECT c, dp_interval_low(c) AS low FROM (SELECT * FROM u) AS v",
        f"SELECT c, dp_interval_low(c) AS low FROM shops JOIN ({COUNTS}) USING (k)",
        f"SELECT c, low FROM (SELECT c, dp_interval_low(c) AS low FROM ({COUNTS}))",
        f"SELECT d AS c, dp_interval_low(d) AS low FROM (SELECT c AS d FROM ({COUNTS}))",
        f"SELECT c, dp_interval_low(c) AS low FROM ({COUNTS}) ORDER BY dp_interval_low(c)",
        f"SELECT c, dp_interval_low(c) AS low FROM ({COUNTS}) WHERE dp_interval_high(c) > 1",
        f"SELECT c, max(dp_interval_low(c)) AS low FROM ({COUNTS}) GROUP BY c",
        f"(SELECT c, dp_interval_low(c) AS low FROM ({COUNTS}))",
    ],
)
def test_an_aggregate_can_be_asked_about_by_name_in_outer_queries(
    text: str, connection: dpsql.Connection
) -> None:
    result = connection.sql(text)
    assert len(result) > 0
    assert set(result.columns) <= {"k", "c", "low"}
    distances = {
        value - low for value, low in zip(column(result, "c"), column(result, "low"), strict=True)
    }
    assert len(distances) == 1  # the margin of a count is the same for all groups
    assert distances.pop() > 1


def test_averages_in_outer_queries_have_their_own_ends_in_every_row(
    connection: dpsql.Connection,
) -> None:
    result = connection.sql(
        "SELECT k, m, l, dp_interval_low(m) AS low FROM "
        "(SELECT k, avg(x) AS m, dp_interval_low(m) AS l FROM visits GROUP BY k)"
    )
    assert column(result, "low") == column(result, "l")
    assert len(set(column(result, "low"))) > 1


def test_two_blocks_in_one_statement_keep_their_noise_apart(connection: dpsql.Connection) -> None:
    result = connection.sql(
        "WITH a AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 4) count(*) AS v "
        "FROM visits), b AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) count(*) AS v "
        "FROM visits) SELECT dp_noise_scale(a.v) AS one, dp_noise_scale(b.v) AS two, * FROM a, b"
    )
    ((one, two, *values),) = result.fetchall()
    assert [one, two] == [block.columns[0].noise_scale for block in result.plan.blocks]
    assert one < two
    assert len(values) == 2


def test_what_is_handed_on_appears_nowhere_else(connection: dpsql.Connection) -> None:
    result = connection.sql(
        f"WITH t AS ({COUNTS}) SELECT dp_interval_low(c), (SELECT max(dp_noise_scale(c)) FROM t), "
        "dp_interval_high(c) + 1, u.* FROM (SELECT * FROM t) u "
        "WHERE k IN (SELECT k FROM (SELECT * FROM t))"
    )
    assert result.columns[-2:] == ["k", "c"]
    assert result.columns[0] == "dp_interval_low(c)"
    assert not any(HIDDEN in name for name in result.columns)
    assert len(result.columns) == 5
    united = connection.sql(
        f"WITH t AS ({COUNTS}) SELECT * FROM t WHERE c > (SELECT min(dp_interval_low(c)) FROM t) "
        "UNION ALL SELECT * FROM t"
    )
    assert united.columns == ["k", "c"]


# -- what has no known noise ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, dp_interval_low(k) FROM visits GROUP BY k",
        "SELECT dp_interval_low(count(*) + 1) FROM visits",
        "SELECT dp_interval_low(3), count(*) FROM visits",
        "SELECT dp_interval_low(count(*), 0.5, 1) FROM visits",
        "SELECT dp_noise_scale(count(*), 0.5) FROM visits",
        "SELECT dp_noise_scale(avg(x)) FROM visits",
        "SELECT dp_noise_scale(stddev(x)) FROM visits",
        f"SELECT dp_interval_low(k) FROM ({COUNTS})",
        f"SELECT dp_interval_low(c * 2) FROM ({COUNTS})",
        f"SELECT dp_interval_low(d) FROM (SELECT c + 1 AS d FROM ({COUNTS}))",
        f"SELECT dp_interval_low(d) FROM (SELECT sum(c) AS d FROM ({COUNTS}))",
        f"SELECT dp_interval_low(c) FROM (SELECT DISTINCT * FROM ({COUNTS}))",
        f"SELECT dp_interval_low(c) FROM (SELECT c FROM ({COUNTS}) GROUP BY c)",
        f"SELECT dp_interval_low(c) FROM ({COUNTS} UNION ALL SELECT 1, 2)",
        f"SELECT dp_interval_low(b) FROM ({COUNTS}) AS t(a, b)",
        f"SELECT dp_interval_low(nothing) FROM ({COUNTS})",
        f"SELECT dp_interval_low(x.c) FROM ({COUNTS}) AS t",
        f"SELECT dp_interval_low(c) FROM ({COUNTS}) a JOIN ({COUNTS}) b USING (k)",
        f"SELECT dp_interval_low(c) FROM shops NATURAL JOIN ({COUNTS})",
        f"SELECT dp_interval_low(size), c FROM shops JOIN ({COUNTS}) USING (k)",
        f"SELECT (SELECT dp_interval_low(t.c)) FROM ({COUNTS}) AS t",
        f"WITH t(a, b) AS ({COUNTS}) SELECT dp_interval_low(b) FROM t",
        f"SELECT * FROM (SELECT dp_interval_low(c) AS l, k FROM ({COUNTS})) "
        "PIVOT (sum(l) FOR k IN (1))",
    ],
)
def test_what_is_no_aggregate_as_released_is_refused_with_a_hint(
    text: str, connection: dpsql.Connection
) -> None:
    error = refused(connection, text)
    assert isinstance(error, dpsql.QueryRefused)
    assert error.code == "no_noise_known"
    assert "DP_INTERVAL_LOW(n) AS low" in (error.hint or "")
    assert error.place is not None
    start = error.place.column - 1
    assert error.place.excerpt[start:].startswith("dp_")


def test_the_confidence_is_a_number_between_0_and_1(connection: dpsql.Connection) -> None:
    for confidence in ("0", "1", "1.5", "-0.5", "'0.5'", "k", "NULL", "0.5 + 0.1", "1e-400"):
        text = f"SELECT k, dp_interval_low(count(*), {confidence}) FROM visits GROUP BY k"
        error = refused(connection, text)
        assert isinstance(error, dpsql.ParameterError)
        assert error.code == "confidence_out_of_range"
    with fails_with("confidence_out_of_range"):
        connection.sql("SELECT count(*) FROM visits").intervals(1.0)


def test_they_cannot_stand_over_private_rows(connection: dpsql.Connection) -> None:
    for text in (
        "SELECT count(*) FROM visits WHERE dp_interval_low(n) > 0",
        "SELECT sum(dp_interval_low(n)) FROM visits",
        "SELECT k, count(*) FROM (SELECT dp_interval_low(n) AS k FROM visits) GROUP BY k",
    ):
        assert refused(connection, text).code == "expression_not_allowed"


def test_another_confidence_asks_nothing_new_and_costs_nothing(tmp_path: Path) -> None:
    with connect(tmp_path) as opened:
        narrow, wide = (
            opened.sql(f"SELECT dp_interval_low(count(*), {confidence}) AS l FROM visits")
            for confidence in (0.5, 0.9)
        )
    assert not narrow.cost.stored
    assert wide.cost.stored
    assert wide.fetchall() < narrow.fetchall()
