"""GoogleSQL's clause and aggregates: the same questions as ours, or refused with what to write."""

from __future__ import annotations

from collections.abc import Iterator

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
        (f"{DP} (group_selection_strategy = OTHER) k, COUNT(*) FROM visits GROUP BY k",
         "bad_option", ""),
        ("SELECT SUM(n, report_format => 'JSON') FROM visits", "aggregate_not_supported",
         "DP_INTERVAL_LOW"),
        ('SELECT COUNT(*, report_format => "PROTO") FROM visits', "aggregate_not_supported",
         "DP_INTERVAL_LOW"),
        ("SELECT COUNT(DISTINCT uid, report_format => JSON) FROM visits",
         "aggregate_not_supported", "DP_INTERVAL_LOW"),
        ("SELECT COUNT(*, epsilon => 0.5) FROM visits", "aggregate_not_supported", "max_error"),
        ("SELECT AVG(n, contribution_bounds_per_group => (0, 5)) FROM visits",
         "bounds_do_not_apply", "SELECT Uid, k, AVG(x)"),
        ("SELECT ANON_AVG(n) FROM visits", "expression_not_allowed", "AVG(a)"),
        ("SELECT ANON_AVG(n CLAMPED BETWEEN 0 AND 9) FROM visits", "expression_not_allowed",
         "AVG(a)"),
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
