"""A maximum age: what was released before it is not given again, and no part of any answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy
from click.testing import CliRunner
from helpers.failures import fails_with

import dpsql
from dpsql.core.periods import Period
from dpsql.interfaces.cli import cli
from dpsql.ledger.sqlite_file import SQLiteBackend
from dpsql.service.stored_releases import ANY_AGE, AgeLimit

SQL = "SELECT k, count(*) AS n FROM visits GROUP BY k ORDER BY k"
FINER = "SELECT k, m, count(*) AS n FROM visits GROUP BY k, m ORDER BY k, m"
POLICY = """
version: 1
dataset: shop
defaults: {{epsilon: 1, max_groups_contributed: 3{defaults}}}
accounts: {{ana: {{epsilon: 90, delta: 1e-4}}}}
tables:
  visits:
    privacy_unit: {{name: person, column: uid}}
    time: {{column: at}}
    defaults: {{{table}}}
    columns: {{k: {{domain: [a, b, c]}}, m: {{domain: [0, 1]}}, x: {{lower: 0, upper: 2}}}}
  calls:
    privacy_unit: {{name: person, column: uid}}
    columns: {{k: {{domain: [a, b, c]}}}}
"""
Opened = Callable[..., dpsql.Connection]
Later = Callable[..., None]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as writer:
        writer.execute(
            "CREATE TABLE visits AS SELECT i % 90 AS uid, ['a', 'b', 'c'][1 + i % 3] AS k, "
            "i % 2 AS m, i % 5 AS x, TIMESTAMP '2026-01-01' AS at FROM range(300) r(i)"
        )
        writer.execute("CREATE TABLE calls AS SELECT uid, k FROM visits")
    made: list[dpsql.Connection] = []

    def opened(
        defaults: str = ", max_rows_contributed: 10", table: str = "", **given: Any
    ) -> dpsql.Connection:
        place = tmp_path / "policies.yaml"
        place.write_text(POLICY.format(defaults=defaults, table=table), encoding="utf-8")
        con = dpsql.connect(tmp_path / "shop.duckdb", place, tmp_path / "b.db", "ana", **given)
        made.append(con)
        return con

    yield opened
    for con in made:
        con.close()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """Sets the ledger's clock, from the time that it really is."""
    clock = SQLiteBackend.now

    def later(**by: float) -> None:
        ahead = timedelta(**by) // timedelta(microseconds=1)
        monkeypatch.setattr(SQLiteBackend, "now", lambda self: clock(self) + ahead)

    return later


def spent(con: dpsql.Connection) -> float:
    return con.budget().epsilon_spent


# -- given again, or asked anew -------------------------------------------------------------------


@pytest.mark.slow
def test_an_answer_that_is_too_old_is_asked_anew_and_paid_for(opened: Opened, later: Later) -> None:
    con = opened()
    con.sql(SQL)
    paid = spent(con)
    later(hours=23)
    assert con.sql(SQL, max_age="1 day").cost.stored
    later(hours=25)
    assert con.sql(SQL).cost.stored
    assert con.sql(SQL, max_age="2 days").cost.stored
    assert spent(con) == paid
    assert not con.sql(SQL, max_age="1 day").cost.stored
    assert spent(con) > paid


@pytest.mark.slow
def test_explain_and_prices_say_so_before(opened: Opened, later: Later, tmp_path: Path) -> None:
    con = opened()
    when = con.sql(SQL).cost
    assert con.explain(SQL, max_age="1 day").anew == ""
    again = con.explain(SQL, max_age="1 day")
    assert (again.answered is None, again.outdated, again.max_age) == (False, None, None)
    later(days=2)
    told = con.explain(SQL, max_age="1 day")
    assert (told.answered, told.max_age) == (None, "1 day")
    assert told.outdated is not None
    assert told.anew == f"the stored answer of {told.outdated[:10]} is older than max_age, 1 day"
    assert told.anew in " ".join(str(told).split())
    assert told.reserved.rho == when.settled.rho
    assert con.explain(SQL, max_age="none").answered is not None
    place = ["-d", f"{tmp_path}/shop.duckdb", "-p", f"{tmp_path}/policies.yaml"]
    command = ["budget", "estimate", *place, "--ledger", f"{tmp_path}/b.db", "-a", "ana"]
    said = CliRunner().invoke(cli, [*command, "--max-age", "1 day", SQL])
    assert "It is asked anew, as the stored answer of" in said.output


@pytest.mark.slow
@pytest.mark.parametrize("way", ["default", "table", "connect", "set", "options", "cursor"])
def test_every_way_to_ask_for_it(opened: Opened, later: Later, way: str) -> None:
    opened().sql(SQL)
    later(days=2)
    asked = SQL
    con = opened(
        defaults=", max_rows_contributed: 10, max_age: 1 day"
        if way == "default"
        else ", max_rows_contributed: 10",
        table="max_age: 1 day" if way == "table" else "",
        **({"max_age": "1 day"} if way == "connect" else {}),
    )
    if way == "set":
        con.sql("SET max_age = '1 day'")
        assert con.sql("SHOW PARAMETERS").fetchall()[-1] == ("max_age", "1 day", "SET", None)
    if way == "options":
        asked = SQL.replace(
            "SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_age = '1 day')", 1
        )
    if way == "cursor":
        cursor = con.cursor()
        cursor.execute(asked, max_age="1 day")
        assert not cursor.cost.stored
        return
    assert not con.sql(asked).cost.stored


@pytest.mark.slow
def test_a_question_can_take_older_answers_than_the_policys_default(
    opened: Opened, later: Later
) -> None:
    con = opened(defaults=", max_rows_contributed: 10, max_age: 1 day", table="max_age: 2 hours")
    assert con.explain(SQL).blocks[0].declared == ("max_age is 2 hours, the default of visits",)
    con.sql(SQL)
    later(hours=3)
    assert con.explain(SQL).answered is None
    assert con.sql(SQL, max_age="1 year").cost.stored
    assert con.sql(SQL, max_age=None).cost.stored
    con.sql("SET max_age = none")
    assert con.sql(SQL).cost.stored


@pytest.mark.slow
def test_an_address_of_sqlalchemy_takes_it(opened: Opened, later: Later, tmp_path: Path) -> None:
    opened().sql(SQL)
    later(days=2)
    places = f"policies={tmp_path / 'policies.yaml'}&ledger={tmp_path / 'b.db'}&analyst=ana"
    engine = sqlalchemy.create_engine(f"dpsql:///{tmp_path / 'shop.duckdb'}?{places}&max_age=1 day")
    with engine.connect() as con:
        assert not con.exec_driver_sql(SQL).cursor.cost.stored
        found = con.execution_options(dpsql={"max_age": "3 days"}).exec_driver_sql(SQL)
        assert found.cursor.cost.stored
    engine.dispose()


@pytest.mark.slow
def test_of_several_blocks_the_strictest_age_counts_for_the_answer(
    opened: Opened, later: Later
) -> None:
    both = "SELECT (SELECT count(*) FROM visits) / (SELECT count(*) FROM calls) AS r"
    con = opened(table="max_age: 1 day")
    con.sql(both)
    con.sql("SELECT count(*) FROM calls")
    later(days=2)
    assert con.explain(both).answered is None
    assert con.explain("SELECT count(*) FROM calls").answered is not None


# -- nothing older has a part ---------------------------------------------------------------------


@pytest.mark.slow
def test_older_releases_are_not_combined(opened: Opened, later: Later) -> None:
    con = opened()
    con.sql(SQL)
    later(days=2)
    assert con.explain(SQL, epsilon=0.5).earlier == 1
    assert con.explain(SQL, epsilon=0.5, max_age="1 day").earlier == 0
    alone = con.sql(SQL, epsilon=0.5, max_age="1 day")
    assert alone.pooled == 1
    assert con.sql(SQL, epsilon=0.5).pooled == 2  # the same release, with the old one again


@pytest.mark.slow
def test_an_answer_given_again_loses_the_parts_that_are_too_old(
    opened: Opened, later: Later
) -> None:
    con = opened()
    con.sql(SQL)
    later(days=2)
    both = con.sql(SQL, epsilon=0.5)
    assert both.pooled == 2
    paid = spent(con)
    again = con.sql(SQL, epsilon=0.5, max_age="3 days")
    assert (again.cost.stored, again.pooled, again.fetchall()) == (True, 2, both.fetchall())
    alone = con.sql(SQL, epsilon=0.5, max_age="1 day")
    assert (alone.cost.stored, alone.pooled) == (True, 1)
    assert spent(con) == paid


@pytest.mark.slow
def test_what_follows_from_finer_releases_follows_from_young_ones(
    opened: Opened, later: Later
) -> None:
    con = opened()
    con.sql(FINER)
    later(days=2)
    assert con.sql(SQL, answer_from="released").cost.stored
    assert con.explain(SQL, max_age="1 day").follows is None
    with fails_with("nothing_released", match="within max_age"):
        con.sql(SQL, answer_from="released", max_age="1 day")


@pytest.mark.slow
def test_what_is_known_of_what_was_left_out_is_asked_anew_as_well(
    opened: Opened, later: Later
) -> None:
    asked = "SELECT k, sum(x) AS s FROM visits GROUP BY k"
    con = opened(defaults=", left_out_share: 0.1, max_rows_contributed: 1")
    whole = con.explain(asked).reserved.rho
    con.sql(asked)
    later(days=2)
    known = con.explain(asked, epsilon=0.9)
    anew = con.explain(asked, epsilon=0.9, max_age="1 day")
    assert known.reserved.rho < anew.reserved.rho < whole
    paid = con.sql(asked, epsilon=0.9, max_age="1 day").cost.settled.rho
    assert paid == pytest.approx(anew.reserved.rho)


@pytest.mark.slow
def test_a_refused_question_costs_nothing_and_leaves_what_there_is(
    opened: Opened, later: Later
) -> None:
    con = opened()
    con.sql(SQL, epsilon=80)
    later(days=2)
    paid = spent(con)
    with pytest.raises(dpsql.BudgetExceeded):
        con.sql(SQL, epsilon=80, max_age="1 day")
    assert spent(con) == paid
    assert con.sql(SQL, epsilon=80).cost.stored


# -- clocks and values ----------------------------------------------------------------------------


def test_a_clock_that_was_a_little_ahead_does_not_matter_and_one_far_ahead_is_no_clock() -> None:
    opened = "2026-11-23T12:00:00.000000+00:00"
    day = Period.read("1 day", "max_age")

    def keeps(now: str, age: Period = day) -> bool:
        return AgeLimit(age, datetime.fromisoformat(f"{now}+00:00")).keeps(opened)

    assert keeps("2026-11-24T12:00:00")
    assert not keeps("2026-11-24T12:00:00.000001")
    assert keeps("2026-11-23T11:59:58")
    assert keeps("2026-11-22T12:00:00")
    assert not keeps("2026-11-22T11:59:59")
    month = Period.read("1 month", "max_age")
    assert keeps("2026-12-23T12:00:00", month)
    assert not keeps("2026-12-23T12:00:01", month)
    assert ANY_AGE.keeps(opened)


@pytest.mark.slow
def test_a_clock_set_back_gives_nothing_that_lies_ahead_by_more_than_the_age(
    opened: Opened, later: Later
) -> None:
    con = opened()
    con.sql(SQL)
    later(days=-2)
    assert con.explain(SQL, max_age="1 day").answered is None
    assert con.explain(SQL, max_age="3 days").answered is not None


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("soon", "bad_period"),
        ("0 days", "bad_period"),
        ("-1 day", "bad_period"),
        ("", "bad_period"),
        (7, "bad_period"),
        (True, "bad_period"),
        (1.5, "bad_period"),
        (b"1 day", "bad_period"),
        ([1], "bad_period"),
        ("101 years", "parameter_out_of_range"),
        ("9999 weeks", "parameter_out_of_range"),
    ],
)
def test_what_is_no_age_is_refused(opened: Opened, value: Any, code: str) -> None:
    con = opened()
    with fails_with(code):
        con.sql(SQL, max_age=value)
    assert spent(con) == 0
    assert con.sql(SQL, max_age="100 years").fetchall()


def test_an_option_that_is_no_age_has_its_place(opened: Opened) -> None:
    asked = SQL.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_age = 'soon')", 1)
    with pytest.raises(dpsql.ParameterError, match="max_age must be a period") as caught:
        opened().sql(asked)
    assert caught.value.place is not None
    assert caught.value.place.column == asked.index("max_age") + 1


@pytest.mark.slow
def test_a_view_has_steps_and_no_age(opened: Opened) -> None:
    con = opened(defaults=", max_rows_contributed: 10, max_age: 1 day")
    view = "CREATE MATERIALIZED VIEW v WITH (step = '1 day', start = '2026-01-01', steps = 3{}) AS "
    view += "SELECT k, count(*) AS n FROM visits GROUP BY k"
    with fails_with("view_option_unknown", match="no option max_age"):
        con.sql(view.format(", max_age = '1 day'"))
    con.sql(view.format(""))
    con.sql("REFRESH MATERIALIZED VIEW v")
    assert con.sql("SELECT * FROM v").cost.stored is False
    assert len(con.sql("SELECT * FROM v").fetchall()) == 9
