"""Recorded attempts: what a refusal proposes is asked as it stands, and answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.agent_worlds import answer, clinic, refused, toolbox

from dpsql.agents.proposals import proposals
from dpsql.agents.tools import Toolbox
from dpsql.errors import Place, QueryRefused

ATTEMPTS = {
    # Names.
    "SELECT AVG(csot) AS mean FROM visits": "SELECT AVG(cost) AS mean FROM visits",
    "SELECT COUNT(*) FROM visit": "SELECT COUNT(*) FROM visits",
    "SELECT date_trunk('day', DATE '2026-01-02') AS d, COUNT(*) FROM visits WHERE "
    "lenght(ward) > 2 GROUP BY d": None,  # two mistakes: one is corrected at a time
    "SELECT COUNT(*) FROM visits WHERE lenght(ward) > 4": (
        "SELECT COUNT(*) FROM visits WHERE length(ward) > 4"
    ),
    # Rows.
    "SELECT ward FROM visits LIMIT 3": (
        "SELECT ward, COUNT(DISTINCT patient) AS n FROM visits GROUP BY ward"
    ),
    "SELECT * FROM visits": "SELECT COUNT(DISTINCT patient) AS n FROM visits",
    "SELECT * FROM visits WHERE cost > 80 ORDER BY cost DESC LIMIT 3": (
        "SELECT COUNT(*) AS n FROM (\nSELECT * FROM visits WHERE cost > 80\n) AS asked"
    ),
    "SELECT ward, cost FROM visits WHERE cost > 80;": (
        "SELECT ward, COUNT(*) AS n FROM (\nSELECT ward, cost FROM visits WHERE cost > 80\n"
        ") AS asked GROUP BY ward"
    ),
    "SELECT v.ward FROM visits v JOIN (VALUES ('a')) AS w(ward) ON v.ward = w.ward": (
        "SELECT ward, COUNT(*) AS n FROM (\nSELECT v.ward FROM visits v JOIN (VALUES ('a')) "
        "AS w(ward) ON v.ward = w.ward\n) AS asked GROUP BY ward"
    ),
    # Words in comments and in quotes are none of the statement: no condition is lost by them.
    "SELECT ward FROM visits -- ORDER BY cost\nWHERE cost > 80": (
        "SELECT ward, COUNT(*) AS n FROM (\nSELECT ward FROM visits                 \n"
        "WHERE cost > 80\n) AS asked GROUP BY ward"
    ),
    "SELECT ward, COUNT(*) FROM visits /* having */ WHERE cost > 80 -- ?": (
        "SELECT ward, COUNT(*) FROM visits              WHERE cost > 80 GROUP BY ward"
    ),
    "SELECT ward, COUNT(*) FROM visits WHERE ward <> 'GROUP BY k'": None,
    # Groups of one unit.
    "SELECT patient, SUM(cost) AS paid FROM visits GROUP BY patient HAVING SUM(cost) > 100 "
    "ORDER BY 2 LIMIT 5": (
        "SELECT COUNT(*) AS n FROM (\nSELECT patient, SUM(cost) AS paid FROM visits "
        "GROUP BY patient HAVING SUM(cost) > 100\n) AS asked"
    ),
    # Columns that are no key.
    "SELECT ward, cost, COUNT(*) FROM visits GROUP BY ward": (
        "SELECT ward, cost, COUNT(*) FROM visits GROUP BY cost, ward"
    ),
    "SELECT ward, COUNT(*) FROM visits ORDER BY 2": (
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY 2"
    ),
    # Joins of private rows.
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.ward = b.ward": (
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.ward = b.ward AND a.patient = b.patient"
    ),
    "SELECT COUNT(*) FROM visits a, visits b WHERE a.cost < b.cost": (
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient = b.patient WHERE a.cost < b.cost"
    ),
    "SELECT day, COUNT(*) FROM (VALUES (1), (2)) AS d(day) LEFT JOIN visits ON cost = day "
    "GROUP BY day": (
        "SELECT day, COUNT(DISTINCT patient) FROM (VALUES (1), (2)) AS d(day) LEFT JOIN visits "
        "ON cost = day GROUP BY day"
    ),
    # Windows over the rows of all units.
    "SELECT COUNT(*) FROM (SELECT row_number() OVER (ORDER BY cost) AS place FROM visits) "
    "WHERE place = 1": (
        "SELECT COUNT(*) FROM (SELECT row_number() OVER (PARTITION BY patient ORDER BY cost) "
        "AS place FROM visits) WHERE place = 1"
    ),
    # One row's values.
    "SELECT FIRST(ward) FROM visits": "SELECT MODE(ward) FROM visits",
    "SELECT MIN(ward) AS w FROM visits": "SELECT MODE(ward) AS w FROM visits",
    "SELECT LIST(ward) FROM visits": "SELECT LIST(DISTINCT ward) FROM visits",
    # Constants, samples, other statements.
    "SELECT COUNT(*) FROM visits WHERE ward = 3": "SELECT COUNT(*) FROM visits WHERE ward = '3'",
    "SELECT COUNT(*) FROM visits USING SAMPLE 10 ROWS": "SELECT COUNT(*) FROM visits",
    "CREATE TABLE counts AS SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward": (
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    ),
    "COPY (SELECT COUNT(*) AS n FROM visits) TO 'n.csv'": "SELECT COUNT(*) AS n FROM visits",
    "EXPLAIN SELECT COUNT(*) AS n FROM visits": "SELECT COUNT(*) AS n FROM visits",
    "SELECT COUNT(*) AS n FROM visits; SELECT 1": "SELECT COUNT(*) AS n FROM visits",
    # Nothing that would be answered is near.
    "SELECT AVG(weight) FROM visits": None,
    "DELETE FROM visits": None,
    'SELECT AVG("at most 1-2") FROM visits': None,
    'SELECT COUNT(*) FROM "at most 1.2.3"': None,
    "SELECT COUNT(*) FROM visits a, visits b WHERE a.cost < b.cost OR (SELECT 1": None,
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    account = "{epsilon: 300.0, delta: 1e-3}"
    with clinic(tmp_path_factory.mktemp("attempts"), account=account) as dataset:
        yield toolbox(dataset, epsilon_per_run=200.0)


@pytest.mark.parametrize("sql", ATTEMPTS, ids=lambda sql: sql[:60])
@pytest.mark.few(8)
def test_what_a_refusal_proposes_is_answered(sql: str, box: Toolbox) -> None:
    for name in ("explain", "ask"):
        accepted = refused(box, name, sql=sql)["accepted"]
        assert (None if accepted is None else accepted["sql"]) == ATTEMPTS[sql]
    if accepted is not None:
        again = answer(box, "ask", sql=accepted["sql"], epsilon=accepted["epsilon"])
        assert again["cost"]["epsilon_reserved"] <= accepted["price_epsilon"]


def test_a_proposal_follows_from_text_and_refusal_alone() -> None:
    """Whatever place a refusal has, also one that is not in the statement."""
    codes = ("raw_rows", "column_not_grouped", "join_needs_unit", "several_statements")
    for code in codes:
        for place in (None, Place(1, 1, 1, ""), Place(9, 99, 9, "x"), Place(1, 1, 1, "", "a file")):
            hint = "Did you mean ward? … ON a.x = b.x."
            error = QueryRefused("no", code=code, hint=hint, place=place)
            for sql in ("", "SELECT", "SELECT 1\nFROM a,\nb", "'" * 50):
                found = list(proposals(sql, error))
                assert found == list(proposals(sql, error))
                assert all(isinstance(each, str) for each in found)
