"""Elements of lists in private rows are counted as DuckDB counts them, up to the most of a row."""

from __future__ import annotations

import duckdb
import pytest
from test_spellings import compare, connections

import dpsql
from dpsql.sql.lineage.elements import MOST_ELEMENTS

__all__ = ["connections"]

_GROUPED = "SELECT w AS v, count(*) AS c FROM {} GROUP BY w ORDER BY ALL"
LISTED = (
    "(SELECT uid, unnest(string_split(c, 'e')) AS w FROM visits)",
    "(SELECT uid, upper(unnest(string_split(ts::VARCHAR, ':'))) AS w FROM visits WHERE k > 1)",
    "(SELECT uid, unnest(string_split(nullif(s, 's1'), 's')) AS w FROM visits)",
    "(SELECT t.w FROM visits v, unnest(string_split(v.c, 'e')) AS t(w))",
    "(SELECT w FROM visits CROSS JOIN LATERAL unnest(string_split(c, 'r')) AS t(w) WHERE w <> '')",
)


@pytest.mark.parametrize("listed", LISTED)
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_elements_are_those_of_duckdb(
    listed: str, connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection]
) -> None:
    assert compare(*connections, _GROUPED, listed) == "same"


@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_elements_behind_the_last_number_are_left_out(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    long = ",".join(f"e{place}" for place in range(MOST_ELEMENTS + 10))
    asked = f"SELECT uid, unnest(string_split(concat('{long}', left(s, 0)), ',')) AS w FROM visits"
    rows = connections[0].sql(f"SELECT w, count(*) FROM ({asked}) GROUP BY w").fetchall()
    assert {word for word, _ in rows} == {f"e{place}" for place in range(MOST_ELEMENTS)}


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT unnest(string_split(s, '1')) AS w, unnest(string_split(c, 'e')) FROM visits)",
        "(SELECT unnest(string_split(s, c)) AS w FROM visits)",
        "visits v LEFT JOIN LATERAL unnest(string_split(v.s, '1')) t(w) ON true",
        "visits v, unnest(string_split(v.s, '1')) WITH ORDINALITY AS t(w, place)",
    ],
)
def test_other_forms_of_lists_are_refused(
    source: str, connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection]
) -> None:
    with pytest.raises(dpsql.Error):
        connections[0].sql(f"SELECT w, count(*) FROM {source} GROUP BY w")
