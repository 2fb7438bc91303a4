"""GoogleSQL's clause and aggregates: the same questions as ours, or refused with what to write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.support import connect

import dpsql


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("googlesql")) as found:
        yield found


DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
SAME = [
    (f"{DP} (epsilon = 0.5, privacy_unit_column = uid) k, COUNT(*) FROM visits GROUP BY k",
     f"{DP} (epsilon = 0.5) k, COUNT(*) FROM visits GROUP BY k"),
    (f"{DP} (privacy_unit_column = v.u) COUNT(*) FROM (SELECT uid AS u FROM visits) AS v",
     "SELECT COUNT(*) FROM visits"),
    (f"{DP} (min_privacy_units_per_group = 9) s, COUNT(DISTINCT uid) FROM visits GROUP BY s",
     f"{DP} (min_units_per_group = 9) s, COUNT(DISTINCT uid) FROM visits GROUP BY s"),
    ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS (threshold = 11, privacy_unit_column = uid) s, "
     "COUNT(*) FROM visits GROUP BY s",
     f"{DP} (min_units_per_group = 11) s, COUNT(*) FROM visits GROUP BY s"),
    (f"{DP} (group_selection_strategy = LAPLACE_THRESHOLD) k, SUM(n) FROM visits GROUP BY k",
     "SELECT k, SUM(n) FROM visits GROUP BY k"),
    ("SELECT WITH ANONYMIZATION OPTIONS (epsilon = 2, kappa = 3) k, ANON_COUNT(*), "
     "ANON_COUNT(x CLAMPED BETWEEN 0 AND 2) FROM visits GROUP BY k",
     f"{DP} (epsilon = 2, max_groups_contributed = 3) k, COUNT(*), "
     "COUNT(x, contribution_bounds_per_group => (0, 2)) FROM visits GROUP BY k"),
    ("SELECT ANON_SUM(n CLAMPED BETWEEN -3 AND 9), ANON_SUM(x) FILTER (WHERE k > 2) FROM visits",
     "SELECT SUM(n, contribution_bounds_per_group => (-3, 9)), SUM(x) FILTER (WHERE k > 2) "
     "FROM visits"),
    ("SELECT ANON_VAR_POP(n CLAMPED BETWEEN 0 AND 9), ANON_STDDEV_POP(x), "
     "ANON_PERCENTILE_CONT(n, 0.25 CLAMPED BETWEEN 0 AND 7) FROM visits",
     "SELECT VAR_POP(n, contribution_bounds_per_row => (0, 9)), STDDEV_POP(x), "
     "PERCENTILE_CONT(n, 0.25, contribution_bounds_per_row => (0, 7)) FROM visits"),
    ("SELECT k, ANON_AVG(n CLAMPED BETWEEN -3 AND 9) FROM visits GROUP BY k",
     "SELECT k, AVG(n, contribution_bounds_per_group => (-3, 9)) FROM visits GROUP BY k"),
    (f"{DP} (epsilon = 0.125) ANON_COUNT(DISTINCT uid) FROM visits",
     f"{DP} (epsilon = 0.125) COUNT(DISTINCT uid, contribution_bounds_per_group => (0, 1)) "
     "FROM visits"),
    (f"{DP} (epsilon = 0.25, max_groups_contributed = NULL) k, COUNT(*) FROM visits GROUP BY k",
     f"{DP} (epsilon = 0.25, max_groups_contributed = 'auto') k, COUNT(*) FROM visits GROUP BY k"),
    ("SELECT k, ANON_SUM(n CLAMPED BETWEEN 0 AND 5 WITH REPORT(FORMAT JSON)) FROM visits "
     "GROUP BY k",
     "SELECT k, SUM(n, contribution_bounds_per_group => (0, 5), report_format => 'json') "
     "FROM visits GROUP BY k"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "ours"), SAME)
def test_the_words_of_googlesql_ask_the_same_question(
    connection: dpsql.Connection, asked: str, ours: str
) -> None:
    first, again = connection.sql(asked), connection.sql(ours)
    assert not first.cost.stored
    assert again.cost.stored


@pytest.mark.parametrize(
    ("question", "code", "told"),
    [
        (f"{DP} (privacy_unit_column = k) COUNT(*) FROM visits", "bad_option", "Uid"),
        (f"{DP} (privacy_unit_column = other.uid) COUNT(*) FROM visits", "bad_option", "Uid"),
        (f"{DP} (privacy_unit_column = 'uid') COUNT(*) FROM visits", "bad_option", "Options"),
        (f"{DP} (privacy_unit_column = u) COUNT(*) FROM (SELECT uid + 0 AS u, uid FROM visits)",
         "bad_option", "Uid"),
        (f"{DP} (min_privacy_units_per_group = 0) COUNT(*) FROM visits",
         "parameter_out_of_range", ""),
        (f"{DP} (min_privacy_units_per_group = 3, min_units_per_group = 2) COUNT(*) FROM visits",
         "option_twice", ""),
        ("SELECT WITH AGGREGATION_THRESHOLD COUNT(*) FROM visits", "bad_option", "threshold = 50"),
        ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS (privacy_unit_column = uid) COUNT(*) "
         "FROM visits", "bad_option", "threshold = 50"),
        ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS (threshold = 9, epsilon = 1) COUNT(*) "
         "FROM visits", "bad_option", "DIFFERENTIAL_PRIVACY"),
        ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS (threshold = 9, mechanism = 'x') COUNT(*) "
         "FROM visits", "bad_option", "DIFFERENTIAL_PRIVACY"),
        ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS (threshold = 0) COUNT(*) FROM visits",
         "parameter_out_of_range", ""),
        ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS (threshold = 9, threshold = 3) COUNT(*) "
         "FROM visits", "option_twice", ""),
        ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS (threshold = 9, privacy_unit_column = k) "
         "COUNT(*) FROM visits", "bad_option", "Uid"),
        ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS (threshold = 9) k FROM (SELECT k, COUNT(*) "
         "FROM visits GROUP BY k)", "options_not_private", ""),
        (f"{DP} (threshold = 9) COUNT(*) FROM visits", "unknown_parameter", ""),
        (f"{DP} (group_selection_strategy = OTHER) k, COUNT(*) FROM visits GROUP BY k",
         "bad_option", ""),
        ('SELECT COUNT(*, report_format => "PROTO") FROM visits', "aggregate_not_supported",
         "DP_INTERVAL_LOW"),
        ("SELECT SUM(n, report_format => JSON, report_format => JSON) FROM visits", "bad_bounds",
         "once"),
        ("SELECT ANON_COUNT(* WITH REPORT(FORMAT PROTO)) FROM visits", "aggregate_not_supported",
         "report_format => JSON"),
        ("SELECT ANON_COUNT(* WITH REPORT(FORMAT)) FROM visits", "aggregate_not_supported",
         "report_format => JSON"),
        ("SELECT COUNT(*, epsilon => 0.5) FROM visits", "aggregate_not_supported", "max_error"),
        ("SELECT VAR_POP(n, contribution_bounds_per_group => (0, 5)) FROM visits",
         "bounds_do_not_apply", "contribution_bounds_per_row"),
        ("SELECT COUNT(DISTINCT uid, contribution_bounds_per_group => (0.5, 1)) FROM visits",
         "bad_bounds", "(0, 5)"),
        ("SELECT ANON_AVG(n) FROM visits", "expression_not_allowed", "CLAMPED BETWEEN"),
        ("SELECT ANON_SUM(n CLAMPED BETWEEN 9 AND 0) FROM visits", "bad_bounds", ""),
        ("SELECT ANON_SUM(n CLAMPED BETWEEN 0 AND k) FROM visits", "bad_bounds", ""),
        ("SELECT ANON_SUM(n CLAMPED BETWEEN 0) FROM visits", "syntax_error", ""),
    ],
)  # fmt: skip
def test_what_means_something_else_is_refused(
    connection: dpsql.Connection, question: str, code: str, told: str
) -> None:
    with fails_with(code) as refused:
        connection.sql(question)
    assert told in str(refused.value.hint)
    assert refused.value.place is not None


def test_a_wrong_column_is_no_way_to_another_unit(connection: dpsql.Connection) -> None:
    """The clause says nothing of whose rows they are: the policy does."""
    with fails_with("groups_by_unit"):
        connection.sql(f"{DP} (privacy_unit_column = uid) uid, COUNT(*) FROM visits GROUP BY uid")


# -- averages of the averages of units ------------------------------------------------------------

AVERAGES = {
    "n": (-2, 9),
    "x": (-1.5, 3),
    "n * x": (-20, 20),
    "amount": (2, 5),
    "CASE WHEN k > 2 THEN n END": (0, 4),
}


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise", "discovered_keys")
@pytest.mark.parametrize("of", AVERAGES)
def test_an_average_of_units_is_that_of_their_averages(
    connection: dpsql.Connection, of: str
) -> None:
    """Without noise it is what a subquery with an average for each unit answers."""
    bounds = f"({AVERAGES[of][0]}, {AVERAGES[of][1]})"
    wide: dict[str, Any] = {
        "max_groups_contributed": 60,
        "max_rows_contributed": 1000,
        "fresh": True,
    }
    for key in ("s", "c"):
        found, said = (
            connection.sql(f"{sql} ORDER BY 1", **wide).fetchall()
            for sql in (
                f"SELECT {key}, AVG({of}, contribution_bounds_per_group => {bounds}), COUNT(*) "
                f"FROM visits GROUP BY {key}",
                f"SELECT {key}, AVG(a, contribution_bounds_per_row => {bounds}) FROM (SELECT uid, "
                f"{key}, AVG({of}) AS a FROM visits GROUP BY ALL) GROUP BY {key}",
            )
        )
        assert len(found) > 1
        assert len(found) == len(said)
        for one, other in zip(found, said, strict=True):
            assert one[0] == other[0]
            assert one[1] == pytest.approx(other[1], rel=1e-6, abs=1e-6)


def test_a_unit_of_many_rows_counts_once_in_an_average_of_units(
    connection: dpsql.Connection,
) -> None:
    """However many rows it may have: nothing has to be found of these."""
    sql = "SELECT AVG(n, contribution_bounds_per_group => (0, 10)) FROM visits"
    settings: tuple[dict[str, Any], ...] = (
        {"max_rows_contributed": 1},
        {"max_rows_contributed": 1000},
        {},
    )
    plans = [connection.explain(sql, **each).blocks[0] for each in settings]
    assert len({plan.columns[0].noise_scale for plan in plans}) == 1


# -- reports --------------------------------------------------------------------------------------


def test_a_report_has_the_value_and_its_interval(connection: dpsql.Connection) -> None:
    result = connection.sql(
        "SELECT k, SUM(n, report_format => JSON) FILTER (WHERE n > 0), "
        "SUM(n) FILTER (WHERE n > 0) FROM visits GROUP BY k"
    )
    name = "sum(n) FILTER (WHERE (n > 0))"
    assert result.columns == ["k", name, f"{name}_1"]
    interval = result.intervals(0.95)[f"{name}_1"]
    for place, (_, report, value) in enumerate(result.fetchall()):
        told = json.loads(report)
        assert told["result"] == {"value": value}
        ends = told["noise_confidence_interval"]
        assert ends["lower_bound"] == interval.low[place]
        assert ends["upper_bound"] == interval.high[place]
        assert ends["confidence_level"] == 0.95


def test_what_is_drawn_has_a_report_without_an_interval(connection: dpsql.Connection) -> None:
    sql = "SELECT PERCENTILE_CONT(n, 0.5, report_format => JSON) AS r, MEDIAN(n) FROM visits"
    ((report, value),) = connection.sql(sql).fetchall()
    assert json.loads(report) == {"result": {"value": value}}
