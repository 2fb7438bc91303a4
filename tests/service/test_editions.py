"""Data that changes: answers of before say so, and an edition makes every question new."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from helpers.failures import fails_with
from helpers.support import listed_engine

import dpsql
from dpsql.present.result_files import result_json

SQL = "SELECT k, count(*) AS n FROM visits GROUP BY k ORDER BY k"
POLICY = """
version: 1
dataset: shop{edition}
defaults: {{epsilon: 1, max_groups_contributed: 3, max_rows_contributed: 10}}
accounts: {{ana: {{epsilon: 50, delta: 1e-4}}}}
tables:
  visits:
    privacy_unit: {{name: person, column: uid}}
    columns: {{k: {{domain: [a, b, c]}}, m: {{domain: [0, 1]}}}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    loaded(tmp_path, 300)
    policies(tmp_path)
    return tmp_path


def loaded(directory: Path, rows: int) -> None:
    """A load as the guide says: into another file, which then takes the place of the first."""
    new = directory / "next.duckdb"
    with duckdb.connect(str(new)) as writer:
        writer.execute(
            "CREATE TABLE visits AS SELECT i % 90 AS uid, ['a', 'b', 'c'][1 + i % 3] AS k, "
            f"i % 2 AS m FROM range({rows}) r(i)"
        )
    os.replace(new, directory / "shop.duckdb")


def policies(directory: Path, edition: str = "") -> None:
    line = f"\nedition: {edition}" if edition else ""
    (directory / "policies.yaml").write_text(POLICY.format(edition=line), encoding="utf-8")


def opened(place: Path) -> dpsql.Connection:
    return dpsql.connect(place / "shop.duckdb", place / "policies.yaml", place / "b.db", "ana")


def later(place: Path) -> None:
    """The file as if it had been written in an hour's time."""
    moment = time.time() + 3600
    os.utime(place / "shop.duckdb", (moment, moment))


# -- the file that is open ----


@pytest.mark.slow
@pytest.mark.parametrize("how", ["replaced", "linked", "removed", "csv"])
def test_no_connection_answers_from_a_file_that_is_no_more(place: Path, how: str) -> None:
    source = place / "shop.duckdb"
    if how == "linked":
        source.rename(place / "november.duckdb")
        source.symlink_to("november.duckdb")
    if how == "csv":
        source = place / "visits.csv"
        source.write_text("uid,k,m\n" + "".join(f"{i},a,1\n" for i in range(300)))
        types = (
            "uid: BIGINT, k: {type: VARCHAR, domain: [a, b, c]}, m: {type: BIGINT, domain: [0, 1]}"
        )
        old = "k: {domain: [a, b, c]}, m: {domain: [0, 1]}"
        policy = place / "policies.yaml"
        policy.write_text(policy.read_text().replace(old, types))

    def connected() -> dpsql.Connection:
        return dpsql.connect(source, place / "policies.yaml", place / "b.db", "ana")

    with connected() as con:
        con.sql(SQL)
        spent = con.budget().rho_spent
        if how in ("replaced", "linked"):
            loaded(place, 600)
        elif how == "removed":
            source.unlink()
        else:
            source.write_text("uid,k,m\n")
        with fails_with("files_changed"):
            con.sql(SQL, fresh=True)
        with fails_with("files_changed"):
            con.sql("SELECT COUNT(DISTINCT uid) AS n FROM visits")
        assert con.budget().rho_spent == spent
        assert con.sql(SQL).cost.stored
    if how != "removed":
        with connected() as con:
            assert con.sql(SQL).staleness
            assert not con.sql(SQL, fresh=True).staleness


@pytest.mark.slow
def test_a_file_moved_here_is_new_however_old_it_is(place: Path) -> None:
    os.utime(place / "shop.duckdb", (0, 0))
    with opened(place) as con:
        con.sql(SQL)
    time.sleep(0.02)  # times of files are as coarse as the clock that the kernel reads
    (place / "shop.duckdb").rename(place / "moved")
    (place / "moved").rename(place / "shop.duckdb")
    with opened(place) as con:
        assert con.sql(SQL).staleness


# -- the file's time ------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_answer_given_again_says_that_the_data_was_written_since(place: Path) -> None:
    with opened(place) as con:
        assert con.sql(SQL).staleness == ""
        again = con.sql(SQL)
        assert (again.cost.stored, again.cost.data_written, again.staleness) == (True, None, "")
    later(place)
    with opened(place) as con:
        spent = con.budget().epsilon_spent
        stale = con.sql(SQL)
        assert stale.cost.stored
        assert stale.cost.data_written is not None
        assert stale.summary().startswith(stale.staleness)
        assert "The data was written or replaced since" in stale.staleness
        assert con.budget().epsilon_spent == spent
        fresh = con.sql(SQL, fresh=True)
        assert (fresh.cost.stored, fresh.staleness) == (False, "")


@pytest.mark.slow
def test_frames_and_other_tools_are_told_as_well(place: Path) -> None:
    with opened(place) as con:
        first = con.sql(SQL).df()
        assert first.attrs["dpsql_data_written"] is None
    later(place)
    with opened(place) as con:
        with pytest.warns(dpsql.StaleAnswerWarning, match="The data was written or replaced since"):
            frame = con.sql(SQL).df()
        assert frame.attrs["dpsql_answered"] < frame.attrs["dpsql_data_written"]
        with pytest.warns(dpsql.StaleAnswerWarning, match="The data was written or replaced since"):
            con.cursor().execute(SQL)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pd.read_sql(SQL, con)
        assert any(issubclass(each.category, dpsql.StaleAnswerWarning) for each in caught)


def test_a_frame_is_made_without_reading_rows_one_by_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(self: dpsql.Result) -> list[tuple[object, ...]]:
        raise AssertionError("rows were read into Python")

    with opened(place) as con:
        answer = con.sql(SQL)
        monkeypatch.setattr(dpsql.Result, "fetchall", unwanted)
        assert len(answer.df()) == 3
        assert answer.arrow().num_rows == 3
        with pytest.raises(AssertionError, match="into Python"):
            list(answer)


@pytest.mark.slow
def test_an_answer_of_the_data_as_it_is_warns_of_nothing(place: Path) -> None:
    with opened(place) as con:
        for _ in range(2):
            con.cursor().execute(SQL)  # warnings are errors


@pytest.mark.slow
def test_what_follows_from_a_release_is_as_old_as_that(place: Path) -> None:
    with opened(place) as con:
        con.sql("SELECT k, m, count(*) FROM visits GROUP BY k, m")
    later(place)
    with opened(place) as con:
        found = con.sql("SELECT k, count(*) FROM visits GROUP BY k", answer_from="released")
        assert found.staleness


def test_data_in_memory_was_written_at_no_time(tmp_path: Path) -> None:
    policies(tmp_path)
    engine = dpsql.DuckDBEngine()
    engine.register("visits", pa.table({"uid": [1, 2], "k": ["a", "b"], "m": [0, 1]}))
    assert listed_engine(engine).written is None
    with dpsql.connect(engine, tmp_path / "policies.yaml", tmp_path / "b.db", "ana") as con:
        con.sql(SQL)
        assert con.sql(SQL).cost.data_written is None


# -- editions -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_under_another_edition_every_question_is_new_on_the_same_account(place: Path) -> None:
    asked = (SQL, "SELECT count(*) FROM visits")
    spent = []
    for edition in ("2026-11", "2026-12"):
        policies(place, edition)
        with opened(place) as con:
            for sql in asked:
                assert not con.sql(sql).cost.stored
                assert con.sql(sql).cost.stored
            spent.append(con.budget().rho_spent)
    assert spent[1] == pytest.approx(2 * spent[0])


@pytest.mark.slow
def test_releases_of_another_edition_are_not_put_together_or_added_up(place: Path) -> None:
    policies(place, "one")
    with opened(place) as con:
        con.sql("SELECT k, m, count(*) FROM visits GROUP BY k, m")
        con.sql(SQL, epsilon=0.5)
        assert con.sql(SQL, epsilon=0.6).pooled == 2
    policies(place, "two")
    with opened(place) as con:
        assert con.sql(SQL, epsilon=0.7).pooled == 1
        with fails_with("nothing_released"):
            con.sql("SELECT m, count(*) FROM visits GROUP BY m", answer_from="released")


@pytest.mark.slow
def test_an_edition_says_of_which_data_an_answer_is_whatever_the_files_time(place: Path) -> None:
    policies(place, "one")
    with opened(place) as con:
        con.sql(SQL)
    later(place)
    with opened(place) as con:
        again = con.sql(SQL)
        assert (again.cost.stored, again.staleness) == (True, "")


@pytest.mark.slow
def test_without_an_edition_questions_are_those_of_before_there_were_any(place: Path) -> None:
    with opened(place) as con:
        con.sql(SQL)
    loaded(place, 600)
    with opened(place) as con:
        assert con.sql(SQL).cost.stored


@pytest.mark.parametrize("edition", ['""', "[1]", '"a\\nb"', "null"])
def test_an_edition_is_a_word_or_two(place: Path, edition: str) -> None:
    policies(place, edition)
    with pytest.raises(dpsql.PolicyError):
        opened(place)


@pytest.mark.slow
def test_the_json_of_an_answer_says_of_when_it_is(place: Path) -> None:
    with opened(place) as con:
        con.sql(SQL)
    later(place)
    with opened(place) as con:
        written = result_json(con.sql(SQL), 0.95)
    assert '"data_written": "' in written
