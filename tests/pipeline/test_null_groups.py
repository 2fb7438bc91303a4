"""Groups of NULL keys are shown where a released value says that they have rows, and else not."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql

pytestmark = pytest.mark.usefixtures("no_noise")

POLICY = """
version: 1
dataset: stays
defaults: {epsilon: 5, delta: 1e-8}
maxima: {epsilon: 20}
accounts: {ana: {epsilon: 1000, delta: 1e-2}}
tables:
  stays:
    privacy_unit: {name: patient, column: patient_id}
    columns:
      cost: {lower: 0, upper: 1000}
      ward: {domain: [north, south]}
"""
ROWS = """
    CREATE TABLE stays AS
    SELECT i % 3000 AS patient_id,
        TIMESTAMP '2024-01-01' + to_hours((i * 7) % 2000) AS came,
        CASE WHEN i % 3 = 0 THEN TIMESTAMP '2024-03-01' + to_hours(i % 100) END AS went,
        100.0 + i % 50 AS cost,
        CASE WHEN i % 2 = 0 THEN 'north' ELSE 'south' END AS ward
    FROM range(9000) r(i)
"""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """A connection to stays that all came, two thirds of which have not gone yet."""
    directory = tmp_path_factory.mktemp("stays")
    with duckdb.connect(str(directory / "stays.duckdb")) as made:
        made.execute(ROWS)
    policy = dpsql.parse_policy(POLICY)
    with dpsql.connect(
        directory / "stays.duckdb", policy, directory / "budget.db", "ana"
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    "measured",
    [
        "COUNT(*)",
        "COUNT(DISTINCT patient_id)",
        "SUM(cost)",
        "AVG(cost)",
        "STDDEV(cost)",
        "MEDIAN(cost)",
        "COUNT(*), MEDIAN(cost)",
        "COUNT_IF(cost > 120)",
    ],
)
def test_a_group_of_null_without_rows_is_not_shown(
    connection: dpsql.Connection, measured: str
) -> None:
    found = connection.sql(f"SELECT dayname(came) AS day, {measured} FROM stays GROUP BY day")
    assert len(found) == 7
    assert None not in found["day"]
    block = found.plan.blocks[0]
    assert block.keys == ("dayname(came): 8 values, from dayname()",)
    assert "No number says that a group of NULL has rows" in found.summary()


@pytest.mark.parametrize("measured", ["COUNT(*)", "COUNT(DISTINCT patient_id)", "AVG(cost)"])
def test_a_group_of_null_with_rows_is_shown(connection: dpsql.Connection, measured: str) -> None:
    found = connection.sql(f"SELECT hour(went) AS hour, {measured} AS n FROM stays GROUP BY hour")
    assert None in found["hour"]
    if measured != "AVG(cost)":
        assert found["n"][found["hour"].index(None)] > 1000


def test_what_is_computed_of_the_groups_is_of_those_that_are_shown(
    connection: dpsql.Connection,
) -> None:
    days = "SELECT dayname(came) AS day, COUNT(*) AS n, AVG(cost) AS cost FROM stays GROUP BY day"
    (least, largest, days_shown) = connection.sql(
        f"SELECT MIN(n), MAX(cost), COUNT(*) FROM ({days})"
    ).fetchall()[0]
    assert least > 500
    assert 80 < largest < 200
    assert days_shown == 7
    (first,) = connection.sql(f"SELECT day FROM ({days}) ORDER BY n LIMIT 1").fetchall()
    assert first != (None,)


def test_null_of_a_case_is_a_value_where_no_number_tells(connection: dpsql.Connection) -> None:
    """With numbers it is shown for these, as any other."""
    outcome = "CASE WHEN went IS NULL THEN NULL WHEN cost > 0 THEN 'gone' END"
    for measured, known in (("MEDIAN(cost)", True), ("COUNT(*)", True)):
        found = connection.sql(f"SELECT {outcome} AS s, {measured} FROM stays GROUP BY s")
        assert (None in found["s"]) is known
    never = "CASE WHEN cost >= 0 THEN 'paid' END"
    assert connection.sql(f"SELECT {never} AS s, COUNT(*) FROM stays GROUP BY s")["s"] == ["paid"]


def test_of_two_keys_each_may_be_null(connection: dpsql.Connection) -> None:
    found = connection.sql(
        "SELECT dayname(came) AS day, went IS NULL AS here, COUNT(*) AS n FROM stays GROUP BY ALL"
    )
    assert {(day, here) for day, here, _ in found.fetchall()} == {
        (day, here) for day in found["day"] for here in (False, True)
    }
    assert None not in found["day"]


def test_declared_values_are_all_shown(connection: dpsql.Connection) -> None:
    found = connection.sql("SELECT ward, COUNT(*) FROM stays WHERE cost > 900 GROUP BY ward")
    assert found["ward"] == ["north", "south"]
