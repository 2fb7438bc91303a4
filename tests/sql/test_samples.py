# ruff: noqa: E501
"""Samples of private rows are samples of privacy units, each with all of its rows or none."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from helpers.linked_tables import COLUMNS, planned_here
from helpers.sensitivity import WorldLab
from helpers.support import SALT, connect

import dpsql
from dpsql.errors import QueryRefused

READ = {
    "SELECT count(*) FROM visits TABLESAMPLE 10%": "1/10",
    "SELECT count(*) FROM visits TABLESAMPLE 2.5 PERCENT": "1/40",
    "SELECT count(*) FROM visits v TABLESAMPLE BERNOULLI (10)": "1/10",
    "SELECT count(*) FROM visits TABLESAMPLE SYSTEM (10)": "1/10",
    "SELECT count(*) FROM visits TABLESAMPLE SYSTEM (10 PERCENT)": "1/10",
    "SELECT count(*) FROM visits TABLESAMPLE (10 PERCENT)": "1/10",
    "SELECT count(*) FROM visits SAMPLE (10)": "1/10",
    "SELECT count(*) FROM visits AS v SAMPLE (10 PERCENT) WHERE v.k > 1": "1/10",
    "SELECT count(*) FROM visits sample (a, b) WHERE sample.a > 1": None,
    "SELECT count(*) FROM visits USING SAMPLE 10%": "1/10",
    "SELECT count(*) FROM visits USING SAMPLE 10 PERCENT (bernoulli)": "1/10",
    "SELECT count(*) FROM visits WHERE random() < 0.1": "1/10",
    "SELECT count(*) FROM visits WHERE k > 1 AND (rand() <= 0.1)": "1/10",
    "SELECT count(*) FROM visits WHERE 0.9 < random() AND k > 1": "1/10",
    "SELECT count(*) FROM visits WHERE random() >= .75": "1/4",
    "SELECT count(*) FROM (SELECT k FROM visits TABLESAMPLE 10% WHERE n > 0)": "1/10",
    "SELECT count(*) FROM (SELECT k FROM visits) TABLESAMPLE 10%": "1/10",
    "WITH a AS (FROM visits USING SAMPLE 10%) SELECT count(*) FROM a": "1/10",
    "SELECT n, count(*) FROM (SELECT uid, count(*) AS n FROM visits TABLESAMPLE 10% GROUP BY uid) "
    "GROUP BY n": "1/10",
    "SELECT n, count(*) FROM (SELECT uid, max(k) AS n FROM visits USING SAMPLE 10% GROUP BY uid) "
    "GROUP BY n": "1/10",
    "SELECT city, count(*) FROM people JOIN visits TABLESAMPLE 10% USING (uid) GROUP BY city": "1/10",
    "SELECT city, count(*) FROM people TABLESAMPLE 10% LEFT JOIN visits USING (uid) "
    "GROUP BY city": "1/10",
    "SELECT name, count(*) FROM visits TABLESAMPLE 10% JOIN shops USING (k) GROUP BY name": "1/10",
    "SELECT k, count(*) FROM items TABLESAMPLE 10% GROUP BY k": "1/10",
    "SELECT count(*) FROM visits TABLESAMPLE 10% WHERE k IN (SELECT k FROM shops)": "1/10",
    "SELECT s.name, count(v.k) FROM shops s LEFT JOIN visits v TABLESAMPLE 10% ON v.k = s.k "
    "GROUP BY s.name": "1/10",
    "SELECT count(*) FROM visits TABLESAMPLE 100%": "1",
    "SELECT count(*) FROM visits": None,
}
REFUSED = {
    "SELECT count(*) FROM visits TABLESAMPLE 1000 ROWS": "sample_not_available",
    "SELECT count(*) FROM visits TABLESAMPLE (10)": "sample_not_available",
    "SELECT count(*) FROM visits TABLESAMPLE BERNOULLI (10 ROWS)": "sample_not_available",
    "SELECT count(*) FROM visits SAMPLE (1000 ROWS)": "sample_not_available",
    "SELECT count(*) FROM visits SAMPLE (10) SEED (7)": "sample_not_available",
    "SELECT count(*) FROM visits USING SAMPLE 1000": "sample_not_available",
    "SELECT count(*) FROM visits USING SAMPLE reservoir(10%)": "sample_not_available",
    "SELECT count(*) FROM visits TABLESAMPLE BERNOULLI (10) REPEATABLE (3)": "sample_not_available",
    "SELECT count(*) FROM visits USING SAMPLE 10% (system, 7)": "sample_not_available",
    "SELECT count(*) FROM visits TABLESAMPLE (BUCKET 3 OUT OF 10)": "sample_not_available",
    "SELECT count(*) FROM visits TABLESAMPLE 0%": "sample_not_available",
    "SELECT count(*) FROM visits TABLESAMPLE 110%": "sample_not_available",
    "SELECT count(*) FROM visits TABLESAMPLE 1e-1%": "sample_not_available",
    f"SELECT count(*) FROM visits TABLESAMPLE 0.{'0' * 30}1%": "sample_not_available",
    # of a sample, and of parts of the rows
    "SELECT count(*) FROM visits WHERE random() < 0.5 AND random() < 0.5": "sample_not_available",
    "SELECT count(*) FROM visits TABLESAMPLE 10% WHERE rand() < 0.5": "sample_not_available",
    "SELECT count(*) FROM people TABLESAMPLE 10% JOIN visits TABLESAMPLE 10% "
    "USING (uid)": "sample_not_available",
    "SELECT count(*) FROM people LEFT JOIN visits TABLESAMPLE 10% USING (uid)": "sample_not_available",
    "SELECT count(*) FROM visits TABLESAMPLE 10% RIGHT JOIN people "
    "USING (uid)": "sample_not_available",
    "SELECT count(*) FROM people FULL JOIN visits TABLESAMPLE 10% USING (uid)": "sample_not_available",
    "SELECT count(*) FROM people ANTI JOIN visits TABLESAMPLE 10% USING (uid)": "sample_not_available",
    "SELECT count(*) FROM people WHERE uid NOT IN (SELECT uid FROM visits "
    "TABLESAMPLE 10%)": "sample_not_available",
    "SELECT count(*) FROM (SELECT k FROM visits TABLESAMPLE 10% UNION ALL SELECT k FROM "
    "orders)": "sample_not_available",
    "SELECT count(*) FROM people p WHERE (SELECT count(*) FROM visits TABLESAMPLE 10% "
    "WHERE visits.uid = p.uid) > 1": "sample_not_available",
    "SELECT count(*) FROM visits JOIN shops TABLESAMPLE 10% USING (k)": "sample_not_available",
    "SELECT count(*) FROM visits JOIN (SELECT * FROM shops USING SAMPLE 10%) "
    "USING (k)": "sample_not_available",
    # random() anywhere else
    "SELECT count(*) FROM visits WHERE random() < 0.1 OR k = 1": "expression_not_allowed",
    "SELECT count(*) FROM visits WHERE NOT random() < 0.1": "expression_not_allowed",
    "SELECT count(*) FROM visits WHERE random() < 1.5": "expression_not_allowed",
    "SELECT count(*) FROM visits WHERE random() < 0": "expression_not_allowed",
    "SELECT count(*) FROM visits WHERE random() = 0.5": "expression_not_allowed",
    "SELECT count(*) FROM visits WHERE random() < k": "expression_not_allowed",
    "SELECT count(*) FROM visits WHERE random() < '0.1'": "expression_not_allowed",
    "SELECT count(*) FROM visits WHERE rand(7) < 0.1": "expression_not_allowed",
    "SELECT count(*) FROM visits WHERE random() * 10 < 1": "expression_not_allowed",
    "SELECT count(*) FILTER (WHERE random() < 0.1) FROM visits": "expression_not_allowed",
    "SELECT random() < 0.1 AS z, count(*) FROM visits GROUP BY z": "expression_not_allowed",
    "SELECT count(*) FROM people p JOIN visits v ON p.uid = v.uid AND "
    "random() < 0.1": "expression_not_allowed",
}


@pytest.mark.parametrize("asked", READ)
def test_a_share_is_one_of_the_units_of_a_block(asked: str) -> None:
    source = planned_here(asked).plans[0].block.source
    share = READ[asked]
    assert source.share == (None if share is None else Fraction(share))


@pytest.mark.parametrize("asked", REFUSED)
def test_all_other_samples_are_refused(asked: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        planned_here(asked)
    assert caught.value.code == REFUSED[asked]
    assert caught.value.hint is not None
    assert "random() < 0.1" in caught.value.hint


@pytest.mark.slow
def test_a_sample_has_units_as_a_whole_and_about_as_many_as_it_says() -> None:
    (statement,) = planned_here(
        "SELECT k, count(*) FROM visits WHERE random() < 0.3 GROUP BY k", max_rows_contributed=5
    ).statements
    lab = WorldLab(COLUMNS)
    lab.fill({"visits": [(uid, uid % 40, "", 0, 0.0) for uid in range(2000) for _ in range(5)]})
    kept = []
    for salt in range(2**61, 2**61 + 20):
        groups = lab.rows(statement.replace(f"hash({SALT},", f"hash({salt},"))
        assert all(rows == 5 * units for *_, rows, units in groups)  # all rows of a unit, or none
        kept.append(sum(units for *_, units in groups))
    assert all(500 < each < 700 for each in kept)
    assert len(set(kept)) > 5


def test_whether_a_unit_is_in_the_sample_depends_on_no_other_unit() -> None:
    (statement,) = planned_here(
        "SELECT k, count(*) FROM visits TABLESAMPLE 50% GROUP BY k", max_groups_contributed=1
    ).statements
    lab = WorldLab(COLUMNS)
    rows = [(uid, uid, "", 0, 0.0) for uid in range(200)]
    lab.fill({"visits": rows})
    whole = {row[1] for row in lab.rows(statement)}
    lab.fill({"visits": rows[::3]})
    assert {row[1] for row in lab.rows(statement)} == whole & {row[0] for row in rows[::3]}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with connect(tmp_path) as opened:
        yield opened


@pytest.mark.slow
def test_the_share_is_a_part_of_the_question_and_its_repeat_is_free(
    connection: dpsql.Connection,
) -> None:
    first = connection.sql("SELECT count(DISTINCT uid) AS n FROM visits TABLESAMPLE 50%")
    again = connection.sql("SELECT count(DISTINCT uid) AS n FROM visits WHERE random() < 0.50")
    assert again.cost.stored
    assert again.fetchall() == first.fetchall()
    other = connection.sql("SELECT count(DISTINCT uid) AS n FROM visits TABLESAMPLE 51%")
    assert not other.cost.stored
    assert not connection.sql("SELECT count(DISTINCT uid) AS n FROM visits").cost.stored


def test_the_sample_is_told(connection: dpsql.Connection) -> None:
    asked = "SELECT count(DISTINCT uid) AS n FROM visits TABLESAMPLE 12.5%"
    told = "each person is in it with probability 12.5%"
    assert told in " ".join(connection.explain(asked).blocks[0].declared)
    assert told in connection.sql(asked).summary()


@pytest.mark.slow
def test_each_reading_draws_its_own_sample(connection: dpsql.Connection) -> None:
    asked = "SELECT count(DISTINCT uid) AS n FROM visits TABLESAMPLE 50%"
    found = [connection.sql(asked, fresh=True, epsilon=8).fetchall()[0][0] for _ in range(8)]
    assert max(found) - min(found) > 3  # of 60 people; noise alone is less than 1
    assert all(10 < each < 50 for each in found)


@pytest.mark.slow
def test_releases_of_two_samples_are_not_pooled(connection: dpsql.Connection) -> None:
    asked = "SELECT COUNT(*) FROM visits TABLESAMPLE 50%"
    pooled = [connection.sql(asked, epsilon=epsilon).pooled for epsilon in (0.5, 1.0, 2.0)]
    assert pooled == [1, 1, 1]
    whole = asked.removesuffix(" TABLESAMPLE 50%")
    assert [connection.sql(whole, epsilon=epsilon).pooled for epsilon in (0.5, 1.0)] == [1, 2]


def test_rows_that_are_units_have_no_samples(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "survey.duckdb")) as owner:
        owner.execute("CREATE TABLE answers (k INTEGER)")
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "version: 1\ndataset: survey\naccounts:\n  ana: {epsilon: 10, delta: 1e-6}\n"
        "tables:\n  answers: {privacy_unit: row}\n",
        encoding="utf-8",
    )
    with (
        dpsql.connect(tmp_path / "survey.duckdb", rules, tmp_path / "b.db", "ana") as opened,
        pytest.raises(QueryRefused) as caught,
    ):
        opened.sql("SELECT count(*) FROM answers TABLESAMPLE 10%")
    assert caught.value.code == "sample_not_available"
