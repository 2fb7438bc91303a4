"""Ordinary questions where nobody gives an option: sizes, groups, and what is told.

Sizes are such that an answer misses by chance less than once in 10**5 runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.ledger import LEFT_OUT_MECHANISM, Ledger
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

EPSILON = 4.0
SITES = ("Aalen", "Bonn", "Celle", "Dachau", "Emden", "Fulda")
DATA = """
CREATE TABLE flights AS SELECT plane, ['AA', 'UA', 'DL', 'EV', 'B6'][1 + plane % 5] AS carrier
    FROM (SELECT range AS plane FROM range(4000)), range(40 + 10 * (plane % 5));
CREATE TABLE person AS SELECT range AS id, 's' || range % 6 AS site FROM range(6000);
CREATE TABLE site_names AS SELECT 's' || range AS site,
    ['Aalen', 'Bonn', 'Celle', 'Dachau', 'Emden', 'Fulda'][1 + range] AS name FROM range(6);
CREATE TABLE sales AS SELECT range % 3000 AS customer, DATE '2026-01-01' + (range % 365)::INT AS d,
    ['classic', 'supreme', 'veggie', 'chicken'][1 + (range * 7919 % 30011) % 4] AS type,
    1970 + range % 15 AS year, (range % 40)::DOUBLE AS price, range % 2 = 0 AS online
    FROM range(60000);
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("first")
    with duckdb.connect(str(found / "x.duckdb")) as owner:
        owner.execute(DATA)
    return found


@pytest.fixture
def con(world: Path, tmp_path: Path) -> Iterator[dpsql.Connection]:
    """An account that has bought nothing, under a policy with defaults alone."""
    sales = {
        "type": ColumnPolicy(domain=("classic", "supreme", "veggie", "chicken")),
        "year": ColumnPolicy(domain=tuple(range(1970, 1985))),
        "price": ColumnPolicy(0.0, 40.0),
    }
    rules = Policy(
        "first",
        Parameters(EPSILON, 1e-6),
        accounts={"ana": AccountPolicy("ana", 1000.0, 1e-2)},
        tables={
            "flights": TablePolicy("flights", PrivacyUnit("plane", "plane")),
            "person": TablePolicy("person", PrivacyUnit("person", "id"), rows_per_unit=1),
            "sales": TablePolicy("sales", PrivacyUnit("customer", "customer"), sales),
            "site_names": TablePolicy("site_names", None),
        },
    )
    with dpsql.connect(world / "x.duckdb", rules, str(tmp_path / "l.db"), "ana") as opened:
        yield opened


def exact(world: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(world / "x.duckdb"), read_only=True) as owner:
        return owner.execute(sql).fetchall()


# -- sizes ------------------------------------------------------------------------------------


BUSIEST = "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier ORDER BY n DESC LIMIT 3"


@pytest.mark.slow
def test_the_busiest_carriers_are_those_with_about_as_many_flights(
    con: dpsql.Connection, world: Path
) -> None:
    """Not a tenth of their flights, in the order of their planes."""
    truth = dict(exact(world, BUSIEST))
    found = {str(carrier): float(n) for carrier, n in con.sql(BUSIEST).fetchall()}
    assert found.keys() == truth.keys()
    assert all(abs(n - truth[carrier]) < 0.25 * truth[carrier] for carrier, n in found.items())


@pytest.mark.slow
def test_with_ten_rows_of_a_plane_most_flights_are_missing(con: dpsql.Connection) -> None:
    given = con.sql(BUSIEST, max_rows_contributed=10, max_groups_contributed=5).fetchall()
    assert all(n < 20_000 for _, n in given)


def test_the_largest_sites_are_found_as_all_of_them_are(con: dpsql.Connection) -> None:
    """A LIMIT raises no threshold beyond all that there is."""
    asked = "SELECT site, COUNT(*) AS n FROM person GROUP BY site ORDER BY n DESC"
    assert len(con.sql(asked)) == 6
    shown = con.sql(f"{asked} LIMIT 3").fetchall()
    assert len(shown) == 3
    assert all(abs(n - 1000) < 300 for _, n in shown)


# -- groups -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "groups"),
    [
        ("SELECT type, COUNT(*) AS n FROM sales WHERE type = 'classic' GROUP BY type", 1),
        ("SELECT type, AVG(price) AS p FROM sales WHERE type = 'classic' GROUP BY type", 1),
        ("SELECT year, COUNT(*) AS n FROM sales WHERE year IN (1970, 1980) GROUP BY year", 2),
        ("SELECT year, COUNT(*) AS n FROM sales WHERE year BETWEEN 1971 AND 1973 GROUP BY 1", 3),
        ("SELECT month(d) AS m, COUNT(*) AS n FROM sales GROUP BY m", 13),  # with NULL, as below
        ("SELECT price > 15 AS dear, COUNT(*) AS n FROM sales GROUP BY dear", 3),
        (
            "SELECT CASE WHEN price > 15 THEN 'dear' ELSE 'cheap' END AS kind, COUNT(*) AS n "
            "FROM sales GROUP BY kind",
            2,
        ),
        ("SELECT online, COUNT(*) AS n FROM sales GROUP BY online", 3),
    ],
)
def test_keys_that_the_question_says_come_out_and_no_others(
    asked: str, groups: int, con: dpsql.Connection
) -> None:
    (block,) = con.explain(asked).blocks
    assert block.appears_half is None  # no threshold
    assert len(con.sql(asked)) == groups


@pytest.mark.slow
def test_names_of_public_tables_are_known_keys(con: dpsql.Connection) -> None:
    asked = "SELECT name, COUNT(*) AS n FROM person JOIN site_names USING (site) GROUP BY name"
    (block,) = con.explain(asked).blocks
    assert block.appears_half is None
    found = con.sql(asked).fetchall()
    assert sorted(name for name, _ in found) == list(SITES)
    assert all(abs(n - 1000) < 100 for _, n in found)


# -- what is told -----------------------------------------------------------------------------


def test_of_one_row_per_person_nothing_is_left_out_or_paid_for(
    con: dpsql.Connection, tmp_path: Path
) -> None:
    result = con.sql("SELECT COUNT(*) AS n FROM person")
    assert abs(result.fetchall()[0][0] - 6000) < 50
    assert "left out" not in result.summary()
    with Ledger.open(tmp_path / "l.db") as ledger:
        assert not any(LEFT_OUT_MECHANISM in entry.plan for entry in ledger.history("first"))


@pytest.mark.slow
def test_a_value_is_inside_of_its_own_interval(con: dpsql.Connection) -> None:
    """Also of keys that were named in rounds."""
    asked = (
        "SELECT w, n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM (SELECT "
        "date_trunc('week', d) AS w, COUNT(DISTINCT customer) AS n FROM sales GROUP BY w) AS t"
    )
    found = con.sql(asked).fetchall()
    assert len(found) > 40
    assert all(low <= n <= high for _, n, low, high in found)
