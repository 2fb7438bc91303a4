"""Materialized views from CREATE to SELECT, on a real database, ledger and clock."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.failures import fails_with
from helpers.plays import COUNTED, REFRESH, ROWS, WITH, change, rows, spent
from helpers.plays import clock as clock
from helpers.present import present
from helpers.step_keys import repeat_keys as repeat_keys
from helpers.step_keys import repeated_keys as repeated_keys

import dpsql
from dpsql.core.periods import Period
from dpsql.core.table_name import TableName
from dpsql.dbapi.connection import Connection
from dpsql.ledger import Ledger
from dpsql.policy.ledger_place import place_beside
from dpsql.policy.limits import Limits, ResourceFailures
from dpsql.policy.model import (
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
    TimeColumn,
    UnitPeriod,
    ViewsPolicy,
)
from dpsql.policy.parameters import Parameters
from dpsql.privacy.streams.keyed import StepKey
from dpsql.views import views as views_module
from dpsql.views.drawing import draw_step
from dpsql.views.publication import GroupTexts
from dpsql.views.state import Totals, ViewState

SUMMED = "SELECT artist, COUNT(*) AS n, SUM(score) AS s FROM plays GROUP BY artist"
CREATE = f"CREATE MATERIALIZED VIEW v {WITH} AS {COUNTED}"


def policy(**others: Any) -> Policy:
    unit = PrivacyUnit("user", "user_id")
    columns = {"score": ColumnPolicy(-4, 4)}
    table = TablePolicy("plays", unit, columns, time=TimeColumn("played_at"))
    accounts = {name: AccountPolicy(name, 500.0, 0.1) for name in ("ana", "bob")}
    parameters = Parameters(
        epsilon=1.0, delta=1e-6, max_groups_contributed=3, max_rows_contributed=2
    )
    tables = {"plays": table, "genres": TablePolicy("genres", None)}
    return Policy("d", parameters, accounts=accounts, tables=tables, **others)


def with_plays(**said: Any) -> Policy:
    """The policy with something else said of its table."""
    found = policy()
    table = replace(found.tables["plays"], **said)
    return replace(found, tables={**found.tables, "plays": table})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    found = tmp_path / "here"
    found.mkdir()
    with duckdb.connect(str(found / "x.duckdb")) as connection:
        connection.execute(ROWS)
        connection.execute("CREATE TABLE genres AS SELECT 'a' || range AS artist FROM range(3)")
    return found


def connect(place: Path, analyst: str = "ana", **others: Any) -> Connection:
    ledger = str(place / "l.db")
    return dpsql.connect(place / "x.duckdb", policy(**others), ledger, analyst)


@pytest.fixture
def connection(place: Path) -> Iterator[Connection]:
    with connect(place) as opened:
        yield opened


# -- what it does ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_view_is_paid_for_once_and_read_for_nothing(
    connection: Connection, clock: Callable[[int], None]
) -> None:
    connection.sql(CREATE)
    paid = spent(connection)
    assert paid > 0
    for day in (2, 5, 11):
        clock(day)
        connection.sql(REFRESH)
    last = rows(connection, "SELECT step, count(*) FROM v GROUP BY step ORDER BY step")
    assert last == [(step, 6) for step in range(1, 11)]
    assert spent(connection) == paid
    assert connection.budget().streams
    # A view goes on over all editions of the data: its rows are not known to be of this one.
    assert connection.sql("SELECT * FROM v").from_edition is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["duckdb_tables", "sqlite_master", "pragma_database_list"])
def test_a_view_may_have_a_name_that_the_engine_has_views_by(
    name: str, place: Path, clock: Callable[[int], None]
) -> None:
    for day in (3, 5):
        with connect(place) as connection:
            if day == 3:
                connection.sql(CREATE.replace("VIEW v", f"VIEW {name}"))
            clock(day)
            connection.sql(REFRESH.replace("VIEW v", f"VIEW {name}"))
            found = rows(connection, f"SELECT max(step), count(*) > 0 FROM {name}")
            assert found == [(day - 1, True)]


def test_values_are_running_counts_and_noise(
    connection: Connection, clock: Callable[[int], None]
) -> None:
    connection.sql(CREATE)
    clock(11)
    connection.sql(REFRESH)
    counted = present(
        duckdb.sql(
            "SELECT step, artist, count(DISTINCT u) FROM (SELECT r * 7919 % 400 AS u, "
            "r * 31 % 6 AS artist, r // 480 AS d FROM range(4800) t(r)) JOIN range(1, 11) s(step) "
            "ON d < step GROUP BY ALL"
        )
    ).fetchall()
    exact = {(step, f"a{artist}"): count for step, artist, count in counted}
    found = rows(
        connection, "SELECT step, artist, users, DP_NOISE_SCALE(users) AS std FROM v ORDER BY ALL"
    )
    errors = [(users - exact[step, artist]) / std for step, artist, users, std in found]
    assert len(errors) == 60  # every unit has three groups, and counts in each
    assert max(map(abs, errors)) < 6.5
    assert len({round(error, 2) for error in errors}) > 5


@pytest.mark.slow
def test_a_top_k_shows_the_largest_of_each_step(
    connection: Connection, clock: Callable[[int], None]
) -> None:
    top = "SELECT artist, COUNT(*) AS n, AVG(score) AS mean FROM plays GROUP BY artist"
    connection.sql(f"CREATE MATERIALIZED VIEW v {WITH} AS {top} ORDER BY n DESC LIMIT 2")
    clock(4)
    connection.sql(REFRESH)
    assert rows(connection, "SELECT step, count(*) FROM v GROUP BY ALL ORDER BY 1") == [
        (1, 2),
        (2, 2),
        (3, 2),
    ]


@pytest.mark.slow
def test_declared_keys_are_all_there_from_the_first_step(
    place: Path, clock: Callable[[int], None]
) -> None:
    declared = policy()
    table = declared.tables["plays"]
    columns = {**table.columns, "artist": ColumnPolicy(domain=("a5", "zz", "a0"))}
    tables = {
        **declared.tables,
        "plays": TablePolicy("plays", table.privacy_unit, columns, time=table.time),
    }
    known = Policy("d", declared.defaults, accounts=declared.accounts, tables=tables)
    with dpsql.connect(place / "x.duckdb", known, str(place / "l.db"), "ana") as opened:
        opened.sql(CREATE)
        clock(3)
        opened.sql(REFRESH)
        found = rows(opened, "SELECT step, artist, users FROM v ORDER BY ALL")
    assert [(step, artist) for step, artist, _ in found] == [
        (step, artist) for step in (1, 2) for artist in ("a0", "a5", "zz")
    ]
    counts = {artist: users for step, artist, users in found if step == 2}
    assert counts["a0"] > 30 > abs(counts["zz"])


@pytest.mark.slow
def test_a_window_slides_over_units_of_one_step(place: Path, clock: Callable[[int], None]) -> None:
    """Of units of a day: as many count at the end as at the beginning."""
    options = WITH.replace("epsilon", "window = '2 days', epsilon")
    sql = "SELECT artist, COUNT(*) AS n FROM plays GROUP BY artist"
    days = UnitPeriod("played_at", Period.read("1 day", "every"))
    given = with_plays(privacy_unit=PrivacyUnit("user", "user_id", days))
    ledger = str(place / "l.db")
    with closing(dpsql.connect(place / "x.duckdb", given, ledger, "ana")) as opened:
        opened.sql(f"CREATE MATERIALIZED VIEW v {options} AS {sql}")
        clock(11)
        opened.sql(REFRESH)
        found = rows(opened, "SELECT step, sum(n) FROM v GROUP BY step ORDER BY step")
    for step, n in found[1:]:
        assert step > 1
        assert n == pytest.approx(960, abs=200)
    assert len(found) == 10


@pytest.mark.slow
def test_a_window_over_units_that_come_back_is_refused(
    place: Path, clock: Callable[[int], None]
) -> None:
    options = WITH.replace("epsilon", "window = '2 days', epsilon")
    half = UnitPeriod("played_at", Period.read("12 hours", "every"))
    longer = UnitPeriod("played_at", Period.read("2 days", "every"))
    whole = options.replace("2 days", "12 days")
    count = "SELECT COUNT(*) AS n FROM plays"
    total = "SELECT artist, SUM(score) AS s FROM plays GROUP BY artist"
    for table, select, given, allowed in [
        (with_plays(), COUNTED, options, False),
        (with_plays(), count, options, False),
        (with_plays(), total, options, False),
        (with_plays(privacy_unit=PrivacyUnit("user", "user_id", longer)), count, options, False),
        (with_plays(privacy_unit=PrivacyUnit("user", "user_id", half)), count, options, True),
        (with_plays(rows_per_unit=1), total, options, True),
        (with_plays(rows_per_unit=2), total, options, False),
        (with_plays(), COUNTED, whole, True),  # all steps since the start
    ]:
        ledger = str(place / "l.db")
        with closing(dpsql.connect(place / "x.duckdb", table, ledger, "ana")) as opened:
            statement = f"EXPLAIN CREATE MATERIALIZED VIEW v {given} AS {select}"
            if allowed:
                assert opened.sql(statement).fetchall()
                continue
            with fails_with("no_view") as caught:
                opened.sql(statement)
            assert "window" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("factoring", ["toeplitz", "tree", "honaker", "blt"])
def test_every_factorisation_goes_on_after_a_restart(
    factoring: str, place: Path, clock: Callable[[int], None]
) -> None:
    options = WITH.replace("epsilon", f"continual = '{factoring}', epsilon")
    with closing(connect(place)) as opened:
        opened.sql(f"CREATE MATERIALIZED VIEW v {options} AS {COUNTED}")
    for day in (3, 7):
        clock(day)
        with closing(connect(place)) as opened:
            opened.sql(REFRESH)
            assert len(rows(opened, "SELECT DISTINCT step FROM v")) == day - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "type_", ["DATE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"]
)
def test_times_of_every_type_are_told_apart_by_steps(
    type_: str,
    place: Path,
    clock: Callable[[int], None],
    counted: list[dict[GroupTexts, list[int]]],
) -> None:
    change(place, f"ALTER TABLE plays ALTER played_at TYPE {type_}")
    change(place, "INSERT INTO plays VALUES (5000, 'a0', 'infinity', 1), (5001, 'a0', NULL, 1)")
    with closing(connect(place)) as opened:
        opened.sql(CREATE)
        clock(4)
        opened.sql(REFRESH)
    users = [sum(units for (units,) in step.values()) for step in counted]
    assert users[0] < users[1] < users[2] <= 1200


@pytest.mark.slow
def test_intervals_hold_what_was_counted(
    connection: Connection, clock: Callable[[int], None]
) -> None:
    connection.sql(CREATE.replace("epsilon = 20", "epsilon = 2"))
    clock(11)
    connection.sql(REFRESH)
    (ends,) = rows(
        connection,
        "SELECT min(users - DP_INTERVAL_LOW(users)), max(DP_INTERVAL_HIGH(w.users, 0.95) - users), "
        "min(DP_INTERVAL_HIGH(users, 0.5) - users), min(DP_NOISE_SCALE(users)) FROM v w",
    )
    low, high, half, scale = ends
    assert 1.5 * scale < low < high < 8 * scale
    assert 0 < half < low
    for column, code in (("artist", "no_noise_known"), ("nothing", "no_noise_known")):
        with fails_with(code):
            connection.sql(f"SELECT DP_INTERVAL_LOW({column}) FROM v")


@pytest.mark.slow
def test_intervals_allow_for_what_limit_chooses_among_declared_groups(
    place: Path, clock: Callable[[int], None]
) -> None:
    domain = tuple(f"a{number}" for number in range(6))
    declared = with_plays(columns={"artist": ColumnPolicy(domain=domain)})
    ledger, opened = str(place / "l.db"), place / "x.duckdb"
    with closing(dpsql.connect(opened, declared, ledger, "ana")) as con:
        con.sql(CREATE)
        con.sql(f"{CREATE} ORDER BY users DESC LIMIT 2".replace("VIEW v", "VIEW largest"))
        clock(3)
        con.sql(REFRESH)
        con.sql(REFRESH.replace("VIEW v", "VIEW largest"))
        asked = "SELECT max(DP_INTERVAL_HIGH(users, {}) - users) FROM {}"
        ((plain,),) = rows(con, asked.format(0.9, "v"))
        ((each,),) = rows(con, asked.format(1 - 0.1 * 2 / 6, "v"))
        ((chosen,),) = rows(con, asked.format(0.9, "largest"))
    assert plain < chosen == each


@pytest.mark.slow
def test_a_cte_named_like_a_view_hides_it_and_has_no_noise_of_its(
    connection: Connection, clock: Callable[[int], None]
) -> None:
    connection.sql(CREATE)
    clock(5)
    connection.sql(REFRESH)
    assert rows(connection, "WITH v AS (SELECT 7 AS m) SELECT m FROM v") == [(7,)]
    assert rows(connection, "WITH v AS (SELECT max(step) AS m FROM v) SELECT m FROM v") == [(4,)]
    both = "WITH w AS (SELECT max(step) AS m FROM v), v AS (SELECT 3 AS n) SELECT m, n FROM v, w"
    assert rows(connection, both) == [(4, 3)]
    apart = "SELECT (WITH v AS (SELECT 7 AS m) SELECT m FROM v), max(step) FROM v"
    assert rows(connection, apart) == [(7, 4)]
    for made in ("step, 100 * users AS users FROM v", "1 AS step, 5 AS users"):
        with fails_with("no_noise_known"):
            connection.sql(f"WITH v AS (SELECT {made}) SELECT DP_INTERVAL_LOW(users) FROM v")
    with fails_with("recursive_name"):
        connection.sql("WITH RECURSIVE v AS (SELECT 7 AS m) SELECT m FROM v")


@pytest.mark.slow
def test_a_view_is_joined_with_public_tables_and_released_rows(
    connection: Connection, clock: Callable[[int], None]
) -> None:
    connection.sql(CREATE)
    clock(3)
    connection.sql(REFRESH)
    joined = "SELECT step, artist, users - lag(users) OVER (PARTITION BY artist ORDER BY step) "
    assert len(rows(connection, f"{joined} FROM v JOIN genres USING (artist)")) == 6
    both = "SELECT * FROM (SELECT artist, COUNT(*) AS n FROM plays GROUP BY artist)"
    assert rows(connection, f"{both} JOIN (SELECT artist FROM v WHERE step = 2) USING (artist)")
    clock(4)
    connection.sql(REFRESH)
    assert rows(connection, "SELECT max(step) FROM v") == [(3,)]
    with fails_with("view_beside_rows"):
        connection.sql("SELECT artist, COUNT(*) FROM plays JOIN v USING (artist) GROUP BY artist")


@pytest.mark.slow
def test_views_go_along_when_an_account_is_renamed(
    place: Path, clock: Callable[[int], None]
) -> None:
    views = ViewsPolicy(shared=("ana",))
    with connect(place, views=views) as ana, connect(place, "bob", views=views) as bob:
        ana.sql(CREATE)
        clock(3)
        ana.sql(REFRESH)
        published = rows(bob)
        assert published
        with Ledger.open(place / "l.db") as ledger:
            ledger.owner("olga").rename("d/ana", "d/zoe")
        clock(4)
        for sql in (REFRESH, "SELECT * FROM v", "DROP MATERIALIZED VIEW v", CREATE):
            with fails_with("account_renamed"):
                ana.sql(sql)
        # What the policy shares is the view of an account that has another name now.
        assert rows(bob, "SHOW MATERIALIZED VIEWS") == []
        assert rows(bob, "SELECT count(*) FROM genres") == [(3,)]
    accounts = {name: AccountPolicy(name, 500.0, 0.1) for name in ("zoe", "bob")}
    present_policy = replace(
        policy(), accounts=accounts, views=ViewsPolicy(create=("zoe",), shared=("zoe",))
    )
    ledger_place = str(place / "l.db")
    with dpsql.connect(place / "x.duckdb", present_policy, ledger_place, "zoe") as zoe:
        assert rows(zoe) == published
        zoe.sql(REFRESH)
        assert len(rows(zoe)) > len(published)
        with dpsql.connect(place / "x.duckdb", present_policy, ledger_place, "bob") as bob:
            assert rows(bob) == rows(zoe)
    with Ledger.open(place / "l.db") as ledger:
        assert ledger.verify().sound


@pytest.mark.slow
def test_views_of_the_owner_are_shared_and_paid_for_once(
    place: Path, clock: Callable[[int], None]
) -> None:
    views = ViewsPolicy(create=("bob",), shared=("bob",))
    with connect(place, "bob", views=views) as owner, connect(place, views=views) as ana:
        with fails_with("view_not_allowed"):
            ana.sql(CREATE)
        owner.sql(CREATE)
        clock(3)
        owner.sql(REFRESH)
        assert rows(ana) == rows(owner) != []
        assert spent(ana) == 0
        for statement in (REFRESH, "DROP MATERIALIZED VIEW v"):
            with fails_with("view_of_another"):
                ana.sql(statement)


@pytest.mark.slow
def test_a_state_of_an_account_that_is_gone_is_removed_by_the_next_statement_of_any(
    place: Path, clock: Callable[[int], None]
) -> None:
    """Its rows of units are nobody's to remove else: the account may ask for nothing any more."""
    with connect(place) as ana:
        ana.sql(CREATE)
        clock(3)
        ana.sql(REFRESH)
    (state,) = (place / "x.views").iterdir()
    left = state.with_name(f"{state.name}.of-a-killed-process")
    left.mkdir()
    with Ledger.open(place / "l.db") as ledger:
        owner = ledger.owner("olga")
        owner.rename("d/ana", "d/zoe")
        with connect(place, "bob") as bob:
            bob.sql("SHOW MATERIALIZED VIEWS")
            assert state.exists()  # it goes on
            owner.forget("d/zoe")
            bob.sql("SHOW MATERIALIZED VIEWS")
    assert list((place / "x.views").iterdir()) == []


@pytest.mark.slow
def test_a_promise_has_what_was_read_while_it_was_shared(
    place: Path, clock: Callable[[int], None]
) -> None:
    shared, alone = (ViewsPolicy(create=("bob",), shared=whose) for whose in (("bob",), ()))
    with connect(place, "bob", views=shared) as owner:
        owner.sql(CREATE)
        clock(3)
        owner.sql(REFRESH)
    with connect(place, views=alone) as ana:
        assert ana.budget().shown.views == 0
    with connect(place, views=shared) as ana:
        promised = ana.budget().promise
        assert promised is not None
        assert promised.views == 1
        before = ana.budget().account
    with connect(place, views=alone) as ana:  # she might have read it, and has not
        assert ana.budget().shown.views == 0
    with connect(place, views=shared) as ana:
        for _ in range(2):
            assert rows(ana)
    with connect(place, views=alone) as ana, Ledger.open(place / "l.db") as ledger:
        assert ana.budget().promise == promised
        assert ana.budget().account == before
        assert spent(ana) == 0
        with pytest.raises(dpsql.UnknownName):
            rows(ana)
        assert "that may be read or were read" in " ".join(repr(ana.budget()).split())
        assert [e.account for e in ledger.events() if e.kind == "read"] == ["d/ana"]
        ledger.owner("olga").open_window("d/ana")
        assert ana.budget().shown.views == 0
        assert ledger.verify().sound


@pytest.mark.slow
def test_a_dropped_view_is_gone_and_its_price_is_not_returned(
    place: Path, connection: Connection, clock: Callable[[int], None]
) -> None:
    connection.sql(CREATE)
    paid = spent(connection)
    (state,) = (place / "x.views").iterdir()
    (state / "state.duckdb.wal").write_bytes(b"what a killed process left")
    connection.sql("DROP MATERIALIZED VIEW v")
    assert list((place / "x.views").iterdir()) == []
    assert spent(connection) == paid
    with pytest.raises(dpsql.UnknownName):
        connection.sql("SELECT * FROM v")
    connection.sql(CREATE)
    assert spent(connection) == pytest.approx(2 * paid)


# -- rows that come and go ------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[dict[GroupTexts, list[int]]]:
    """What is counted at each step, before any noise."""
    found: list[dict[GroupTexts, list[int]]] = []
    original = ViewState.totals

    def recorded(self: ViewState, step: int) -> Totals:
        totals = original(self, step)
        groups = zip(*totals.keys, strict=True)
        values = np.array(totals.values).T.tolist()  # of all groups so far
        found.append(dict(zip(groups, values, strict=True)))
        return totals

    monkeypatch.setattr(ViewState, "totals", recorded)
    return found


@pytest.mark.slow
def test_late_rows_count_in_the_step_that_first_reads_them(
    place: Path, clock: Callable[[int], None], counted: list[dict[GroupTexts, list[int]]]
) -> None:
    with closing(connect(place)) as opened:
        opened.sql(CREATE)
        clock(3)
        opened.sql(REFRESH)
    change(place, "INSERT INTO plays SELECT 1000 + range, 'a0', '2026-01-01', 0 FROM range(50)")
    change(place, "DELETE FROM plays WHERE played_at < '2026-01-03' AND user_id < 1000")
    with closing(connect(place)) as opened:
        clock(4)
        opened.sql(REFRESH)
    second, third = counted[1], counted[2]
    grown = {group: third[group][0] - second[group][0] for group in second}
    assert grown["a0",] >= 50
    assert all(growth >= 0 for growth in grown.values())


@pytest.mark.slow
@pytest.mark.parametrize("select", [
    COUNTED,
    "SELECT artist, COUNT(*) AS n, SUM(score) AS s, AVG(score) AS m FROM plays GROUP BY artist",
])  # fmt: skip
@pytest.mark.few(1)
@pytest.mark.usefixtures("repeated_keys")
def test_no_unit_changes_more_than_it_may_whatever_the_rows_do(
    select: str,
    place: Path,
    clock: Callable[[int], None],
    counted: list[dict[GroupTexts, list[int]]],
) -> None:
    """By SQL, in l1 per group over all steps; with and without one unit, on the same keys."""
    change(
        place,
        "INSERT INTO plays SELECT 7777, 'a' || range % 6, TIMESTAMP '2026-01-01' + "
        "INTERVAL (range * 97) MINUTE, 4 - range % 9 FROM range(140)",
    )
    with closing(connect(place)) as opened:
        opened.sql(f"CREATE MATERIALIZED VIEW v {WITH} AS {select}")
        (view,) = opened._answerer.views.all()
        shape = opened._answerer.views.plan_of(view).shape
    other = place.parent / "without"
    shutil.copytree(place, other)
    change(other, "DELETE FROM plays WHERE user_id = 7777")
    for where in (place, other):
        for day in (2, 3, 5, 6, 9, 12):
            if day == 5:  # rows change under our feet
                change(where, "DELETE FROM plays WHERE user_id = 7777 AND score < 0")
            if day == 9:
                change(where, "UPDATE plays SET score = -4, artist = 'a1' WHERE user_id = 7777")
            with closing(connect(where)) as opened:
                clock(day)
                opened.sql(REFRESH)
    one, two = counted[: len(counted) // 2], counted[len(counted) // 2 :]
    bounds = [each.reach for each in shape.contributions]
    moved = {}
    for group in {key for step in one for key in step}:
        nothing = [0] * len(bounds)
        change_ = [
            np.subtract(a.get(group, nothing), b.get(group, nothing))
            for a, b in zip(one, two, strict=True)
        ]
        moved[group] = np.abs(np.diff([np.zeros(len(bounds)), *change_], axis=0)).sum(axis=0)
    changed = [most for most in moved.values() if most.any()]
    assert 0 < len(changed) <= 3
    assert all((most <= bounds).all() for most in changed)
    assert any((most == bounds).any() for most in changed)  # the bounds are reached


# -- prices and ends ------------------------------------------------------------------------------


@pytest.mark.slow
def test_creating_a_view_costs_what_is_charged(
    connection: Connection, clock: Callable[[int], None]
) -> None:
    before = spent(connection)
    result = connection.sql(CREATE)
    assert result.cost.settled.rho == pytest.approx(spent(connection) - before, rel=1e-9)
    assert result.cost.reserved == result.cost.settled
    assert result.cost.settled_epsilon == pytest.approx(20, rel=0.01)
    clock(3)
    for statement in (f"EXPLAIN {CREATE}", REFRESH, "SHOW MATERIALIZED VIEWS"):
        assert connection.sql(statement).cost.settled_epsilon == 0


def states(place: Path) -> list[Path]:
    return sorted((place / "x.views").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("after", [CREATE.replace(" v ", " w "), REFRESH, "DROP"])
def test_the_state_of_a_view_that_has_ended_goes_with_the_next_statement(
    after: str, place: Path, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the process is killed between the ledger's event and the directory's end."""
    with closing(connect(place)) as opened:
        opened.sql(CREATE)
        opened.sql(CREATE.replace(" v ", " u "))
        clock(2)
        opened.sql(REFRESH)
        with monkeypatch.context() as patch:
            patch.setattr(ViewState, "remove", lambda *_: None)
            opened.sql("DROP MATERIALIZED VIEW v")
    assert len(states(place)) == 2
    with closing(connect(place)) as opened:
        with suppress(dpsql.Error):
            opened.sql("DROP MATERIALIZED VIEW u" if after == "DROP" else after)
        left = {view.record.stream for view in opened._answerer.views.all()}
    assert {found.name for found in states(place)} == left


@pytest.mark.slow
def test_what_the_owner_forgets_is_gone_with_its_view_and_its_state(
    place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as opened, closing(connect(place, "bob")) as bob:
        opened.sql(CREATE)
        bob.sql(CREATE)
        clock(3)
        opened.sql(REFRESH)
        bob.sql(REFRESH)
        opened.sql(CREATE.replace(" v ", " w "))  # has published nothing
        paid = spent(opened)
    with Ledger.open(place / "l.db") as ledger:
        owner = ledger.owner("olga")
        assert owner.forget("d/ana", before=datetime(2020, 1, 1, tzinfo=UTC)) == 0
        ids = [stream.stream for stream in ledger.streams("d/ana")]
        assert owner.forget("d/ana") == 2
        assert owner.forget("d/ana") == 0
        assert ledger.ended_streams(ids) == (ids[0],)
        assert [stream.name for stream in ledger.streams("d/ana")] == ["w"]
        assert ledger.verify().sound
        with pytest.raises(dpsql.LedgerError):
            list(ledger.step_releases("d/ana", ids[0]))
    with closing(connect(place)) as opened, closing(connect(place, "bob")) as bob:
        assert spent(opened) == paid
        with pytest.raises(dpsql.UnknownName):
            opened.sql(REFRESH)
        assert rows(bob)
        kept = [*opened._answerer.views.all(), *bob._answerer.views.all()]
    assert {found.name for found in states(place)} == {view.record.stream for view in kept}


_MADE = """
import os, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from views.test_materialized_views import CREATE, connect
from dpsql.views import state
from dpsql.ledger import Ledger
def killed(owner, name, after, place=""):
    kept = getattr(owner, name)
    def work(*given, **named):
        if place not in str(given[0]):
            return kept(*given, **named)
        found = kept(*given, **named) if after else None
        os.kill(os.getpid(), 9)
    setattr(owner, name, work)
moment, after = sys.argv[2], sys.argv[3] == "after"
if moment == "charge": killed(Ledger, "create_stream", after)
if moment == "directory": killed(Path, "mkdir", after, "x.views/")
if moment == "file": killed(state.duckdb, "connect", after, "x.views/")
if moment == "tables": killed(state, "execute", after)
if moment == "name": killed(Path, "rename", after)
connect(Path(sys.argv[1])).sql(CREATE)
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("moment", ["charge", "directory", "file", "tables", "name"])
def test_a_view_is_paid_for_and_goes_on_or_nothing_is_left_of_it(
    moment: str, when: str, place: Path, clock: Callable[[int], None]
) -> None:
    """Wherever its process is killed while it is created."""
    (place / "x.views").mkdir(mode=0o700, exist_ok=True)
    tests = str(Path(__file__).parent.parent)
    command = [sys.executable, "-c", _MADE.format(tests=tests), str(place), moment, when]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -9
    unpaid = (moment, when) == ("charge", "before")
    clock(3)
    with closing(connect(place)) as opened:
        if unpaid:
            assert spent(opened) == 0
            assert list((place / "x.views").iterdir()) == []
            opened.sql(CREATE)
        paid = spent(opened)
        opened.sql(REFRESH)
        assert [step for (step,) in rows(opened, "SELECT DISTINCT step FROM v")] == [1, 2]
        assert spent(opened) == paid > 0
        opened.sql("DROP MATERIALIZED VIEW v")
    assert list((place / "x.views").iterdir()) == []


@pytest.mark.slow
def test_the_state_of_a_view_without_steps_is_made_again_and_no_other(
    place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as opened:
        opened.sql(CREATE)
        shutil.rmtree(place / "x.views")
        clock(2)
        opened.sql(REFRESH)
        shutil.rmtree(place / "x.views")
        clock(3)
        with fails_with("state_missing"):
            opened.sql(REFRESH)


@pytest.mark.slow
def test_a_view_whose_state_cannot_be_made_costs_nothing(
    connection: Connection, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = spent(connection)
    (place / "x.views").write_text("in the way")
    with fails_with("state_in_the_way"):
        connection.sql(CREATE)
    assert spent(connection) == before


def test_no_directory_is_named_by_what_the_ledger_says(
    connection: Connection, place: Path, clock: Callable[[int], None]
) -> None:
    """Whoever may write the ledger could have others removed."""
    for stream in ("..", "../here", "a" * 31, "A" * 32, f"{'a' * 32}/.."):
        with fails_with("ledger_corrupt"):
            connection._answerer.views._state_of(stream)


# -- crashes and restarts -------------------------------------------------------------------------

WORKER = """
import sys, os
from datetime import datetime, UTC
sys.path.insert(0, {tests!r})
from pathlib import Path
from views.test_materialized_views import connect, REFRESH
from dpsql.views import views
views._now = lambda: datetime(2026, 1, int(sys.argv[2]), 0, 30, tzinfo=UTC)
moment = sys.argv[3]
def kill(*_, **__): os.kill(os.getpid(), 9)
if moment == "read": views.Views._step.__globals__["draw_step"] = kill
if moment == "begun":
    from dpsql.views.state import ViewState
    ViewState.absorb = kill
if moment == "drawn":
    from dpsql.ledger import Ledger
    Ledger.publish_step = kill
with connect(Path(sys.argv[1])) as opened:
    opened.sql(REFRESH)
    if moment == "out": kill()
"""


def in_another_process(place: Path, day: int, moment: str = "") -> int:
    tests = str(Path(__file__).parent.parent)
    command = [sys.executable, "-c", WORKER.format(tests=tests), str(place), str(day), moment]
    return subprocess.run(command, check=False, capture_output=True).returncode


@pytest.mark.slow
def test_another_process_goes_on_with_the_same_rows(
    place: Path,
    clock: Callable[[int], None],
    repeat_keys: Callable[[Sequence[StepKey]], None],
) -> None:
    """Its keys are those of one process that goes through all steps here."""
    with closing(connect(place)) as opened:
        opened.sql(CREATE)
    shutil.copytree(place, place.parent / "whole")
    for day in (3, 6, 9):
        assert in_another_process(place, day) == 0
    (state,) = (place / "x.views").rglob("*.duckdb")
    with duckdb.connect(str(state), read_only=True) as inside:
        keys = inside.execute("SELECT key FROM read ORDER BY step").fetchall()
    repeat_keys([StepKey(key) for (key,) in keys])
    clock(9)
    with closing(connect(place.parent / "whole")) as whole, closing(connect(place)) as parts:
        whole.sql(REFRESH)
        assert rows(whole) == rows(parts) != []


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["begun", "read", "drawn", "out"])
def test_a_step_is_out_or_used_and_never_read_again(
    moment: str, place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as opened:
        opened.sql(CREATE)
    assert in_another_process(place, 2, moment) == -9
    clock(4)
    with closing(connect(place)) as opened:
        opened.sql(REFRESH)
        steps = [step for (step,) in rows(opened, "SELECT DISTINCT step FROM v ORDER BY step")]
    assert steps == ([1, 2, 3] if moment == "out" else [2, 3])
    with Ledger.open(place / "l.db") as ledger:
        assert ledger.verify().sound


@pytest.mark.slow
def test_a_ledger_or_a_state_that_was_put_back_repeats_no_step(
    place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as opened:
        opened.sql(CREATE)
    shutil.copytree(place, place.parent / "before")
    clock(4)
    with closing(connect(place)) as opened:
        opened.sql(REFRESH)
    shutil.copytree(place, place.parent / "other")
    shutil.copy(place.parent / "before" / "l.db", place / "l.db")
    clock(5)
    with closing(connect(place)) as opened:
        opened.sql(REFRESH)
        assert rows(opened, "SELECT DISTINCT step FROM v") == [(4,)]
    (state,) = (place.parent / "before" / "x.views").iterdir()
    shutil.copytree(state, place.parent / "other" / "x.views" / state.name, dirs_exist_ok=True)
    opened = connect(place.parent / "other")
    with closing(opened), fails_with("state_behind"):
        opened.sql(REFRESH)


@pytest.mark.slow
def test_a_failure_uses_the_step_and_suspends_the_account(
    connection: Connection, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.sql(CREATE)
    clock(3)

    def fail(*_: object) -> None:
        raise ValueError("row 4711")

    with monkeypatch.context() as patch:
        patch.setattr(ViewState, "absorb", fail)
        with pytest.raises(dpsql.EngineError) as caught:
            connection.sql(REFRESH)
    assert caught.value.code == "engine_failed"
    assert "4711" not in f"{caught.value!r} {caught.value.__context__!r}"
    assert "Steps 1 to 2" in str(caught.value)
    clock(4)
    with fails_with("account_suspended"):
        connection.sql(REFRESH)


# -- what is refused ------------------------------------------------------------------------------


def view(options: str = "", select: str = COUNTED) -> str:
    given = "step = '1 day', start = '2026-01-01', steps = 12"
    return f"CREATE MATERIALIZED VIEW w WITH ({given}{options}) AS {select}"


REFUSED = [
    (view().replace("steps = 12", "steps = 0"), "bad_steps"),
    (view().replace("steps = 12", "steps = 1000000000"), "bad_steps"),
    (view().replace("steps = 12", "steps = '12'"), "bad_steps"),
    (view().replace("'1 day'", "'1 fortnight'"), "bad_period"),
    (view().replace("'1 day'", "1"), "bad_view_option"),
    (view().replace("'2026-01-01'", "'yesterday'"), "bad_time"),
    (view().replace("step = '1 day', ", ""), "view_option_missing"),
    (view(", rows = 3"), "view_option_unknown"),
    (view(", epsilon = -1"), "parameter_out_of_range"),
    (view(", window = '36 hours'"), "bad_window"),
    (view(", window = '99 days'"), "bad_window"),
    (view(", continual = 'none'"), "unknown_factorisation"),
    (view(", steps = 3"), "syntax_error"),
    (view().replace(" AS ", " "), "syntax_error"),
    (view().replace("VIEW w", "VIEW plays"), "name_taken"),
    (view(", max_groups_contributed = unlimited"), "no_view"),
    (view(select="SELECT artist FROM plays GROUP BY artist"), "no_view"),
    (
        view(
            ", continual = 'scheduled_top_k'",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = auto) "
            "artist, COUNT(*) AS n FROM plays GROUP BY artist ORDER BY n DESC LIMIT 2",
        ),
        "no_view",
    ),
    (view(select="SELECT artist, COUNT(*) + 1 AS n FROM plays GROUP BY artist"), "no_view"),
    (view(select="SELECT artist, MEDIAN(score) AS n FROM plays GROUP BY artist"), "no_view"),
    (view(select="SELECT COUNT(DISTINCT artist) AS n FROM plays"), "no_view"),
    (view(select="SELECT artist, COUNT(*) AS step FROM plays GROUP BY artist"), "no_view"),
    (view(select="SELECT artist, COUNT(*) AS n FROM plays GROUP BY artist LIMIT 3"), "no_view"),
    (view(select="SELECT COUNT(*) AS n FROM genres"), "no_view"),
    (view(select="SELECT COUNT(*) AS n FROM (SELECT * FROM plays) p"), "no_view"),
    (view(select="SELECT COUNT(*) AS n FROM plays p JOIN plays q USING (user_id)"), "no_view"),
    (view(select="SELECT now() AS t, COUNT(*) AS n FROM plays GROUP BY 1"), "no_view"),
    (view(select="SELECT nothing, COUNT(*) AS n FROM plays GROUP BY 1"), "unknown_column"),
    ("REFRESH MATERIALIZED VIEW nothing", "unknown_view"),
    ("DROP MATERIALIZED VIEW nothing", "unknown_view"),
    (CREATE, "ledger_stream_exists"),
    (REFRESH, "no_step_closed"),
    ("CREATE VIEW w AS SELECT 1", "not_a_query"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "code"), REFUSED)
def test_what_is_refused_reads_nothing_and_costs_nothing(
    statement: str,
    code: str,
    place: Path,
    connection: Connection,
    clock: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection.sql(CREATE)
    paid, states = spent(connection), sorted((place / "x.views").iterdir())
    monkeypatch.setattr(ViewState, "absorb", None)
    with fails_with(code):
        connection.sql(statement)
    assert spent(connection) == paid
    assert sorted((place / "x.views").iterdir()) == states


@pytest.mark.slow
def test_a_view_that_is_full_says_so(connection: Connection, clock: Callable[[int], None]) -> None:
    connection.sql(CREATE)
    clock(20)
    connection.sql(REFRESH)
    with fails_with("view_full"):
        connection.sql(REFRESH)


@pytest.mark.slow
def test_a_view_whose_policy_changed_does_not_go_on(
    place: Path, clock: Callable[[int], None]
) -> None:
    with closing(connect(place)) as opened:
        opened.sql(CREATE)
    changed = policy()
    table = changed.tables["plays"]
    other = TablePolicy("plays", PrivacyUnit("user", "score"), table.columns, time=table.time)
    tables = {**changed.tables, "plays": other}
    new = Policy("d", changed.defaults, accounts=changed.accounts, tables=tables)
    clock(3)
    opened = dpsql.connect(place / "x.duckdb", new, str(place / "l.db"), "ana")
    with opened, fails_with("view_changed"):
        opened.sql(REFRESH)
    gone = TablePolicy("plays", table.privacy_unit, time=table.time)  # no bounds any more
    refused = Policy("d", changed.defaults, accounts=changed.accounts, tables={"plays": gone})
    with closing(connect(place)) as opened:
        opened.sql(f"CREATE MATERIALIZED VIEW w {WITH} AS {SUMMED}")
    with dpsql.connect(place / "x.duckdb", refused, str(place / "l.db"), "ana") as opened:
        with fails_with("view_changed") as caught:
            opened.sql(REFRESH.replace("VIEW v", "VIEW w"))
        assert isinstance(caught.value.__cause__, dpsql.QueryRefused)
        assert caught.value.__cause__.reason in str(caught.value.hint)  # which says what changed


@pytest.mark.slow
def test_averages_and_deviations_are_those_of_the_rows(
    place: Path, clock: Callable[[int], None]
) -> None:
    """With hardly any noise, and with bounds that cut nothing off."""
    select = "AVG(score) AS a, VARIANCE(score) AS v, STDDEV_POP(score) AS d, SUM(score) AS s"
    options = WITH.replace("epsilon = 20", "epsilon = 400, max_rows_contributed = 12")
    with closing(connect(place)) as opened:
        opened.sql(f"CREATE MATERIALIZED VIEW v {options} AS SELECT {select} FROM plays")
        clock(11)
        opened.sql(REFRESH)
        found = rows(opened, "SELECT a, v, d, s, DP_NOISE_SCALE(s) FROM v ORDER BY step")
    with duckdb.connect(str(place / "x.duckdb"), read_only=True) as owner:
        for day, values in list(enumerate(found, start=1))[5:]:
            until = f"played_at < TIMESTAMP '2026-01-01' + INTERVAL {day} DAY"
            ((a, v, d, s),) = owner.execute(f"SELECT {select} FROM plays WHERE {until}").fetchall()
            assert values[:3] == pytest.approx((a, v, d), abs=0.3)
            assert values[3] == pytest.approx(s, abs=6.5 * values[4])


@pytest.mark.slow
def test_a_limit_of_time_is_told_as_that_and_as_the_policy_says(
    place: Path, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is the private state that takes so long, not the engine."""
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    monkeypatch.setattr(ViewState, "_absorb", lambda self, *_: self._connection.execute(endless))
    keep = Limits(seconds=0.3, resource_failures=ResourceFailures.KEEP)
    for limits, suspended in ((keep, False), (Limits(seconds=0.3), True)):
        with closing(connect(place, limits=limits)) as opened:
            if not suspended:
                opened.sql(CREATE)
            clock(4 if suspended else 3)
            with fails_with("time_limit") as caught:
                opened.sql(REFRESH)
            assert ("reopens" in str(caught.value)) == suspended


@pytest.mark.slow
def test_what_counts_for_too_long_is_interrupted(
    place: Path, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    with closing(connect(place)) as opened:
        opened.sql(CREATE)
        clock(3)
        with monkeypatch.context() as patch:
            patch.setattr(ViewState, "_absorb", lambda self, *_: self._connection.execute(endless))
            timer = threading.Timer(0.5, opened.interrupt)
            timer.start()
            with pytest.raises(dpsql.EngineError) as caught:
                opened.sql(REFRESH)
        assert caught.value.code == "interrupted"
        clock(4)
        opened.sql(REFRESH)
        assert rows(opened, "SELECT DISTINCT step FROM v") == [(3,)]


def test_states_lie_beside_the_database_whatever_it_is_called(tmp_path: Path) -> None:
    names = {"a.duckdb": "a", "a.b.duckdb": "a.b", "a.b": "a.b", "a": "a", "a.csv": "a"}
    for name, stem in names.items():
        assert place_beside(tmp_path / name, None) == tmp_path.resolve() / f"{stem}.views"
    assert place_beside(tmp_path / "a", str(tmp_path / "other")) == tmp_path / "other"
    assert place_beside(None, None) is None


@pytest.mark.slow
def test_a_view_counts_the_table_of_its_schema(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    """Two tables of one name, and a third whose name is both of theirs: each has its own view."""
    rows = "SELECT range AS user_id, 'a' AS artist, TIMESTAMP '2026-01-01' AS played_at"
    names = {"fact": 1000, "mart.fact": 3000, '"mart.fact"': 9000}
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as owner:
        owner.execute("CREATE SCHEMA mart")
        for name, users in names.items():
            owner.execute(f"CREATE TABLE {name} AS {rows} FROM range({users})")
    found = [TableName.read(name) for name in names]
    unit, time = PrivacyUnit("user", "user_id"), TimeColumn("played_at")
    tables = {n.key: TablePolicy(n, unit, time=time) for n in found if n is not None}
    accounts = {"ana": AccountPolicy("ana", 500.0, 0.1)}
    rules = Policy("d", Parameters(epsilon=1.0, delta=1e-6), accounts=accounts, tables=tables)
    with dpsql.connect(tmp_path / "shop.duckdb", rules, tmp_path / "l.db", "ana") as opened:
        spellings = ["public.fact", "shop.mart.fact", 'main."mart.fact"']
        for place, (source, users) in enumerate(zip(spellings, names.values(), strict=True)):
            asked = f"SELECT artist, COUNT(DISTINCT user_id) AS users FROM {source} GROUP BY artist"
            opened.sql(f'CREATE MATERIALIZED VIEW "v.{place}" {WITH} AS {asked}')
            clock(3)
            opened.sql(f'REFRESH MATERIALIZED VIEW "v.{place}"')
            clock(1)
            for read in (f'"v.{place}"', f'main."v.{place}"', f'public."v.{place}"'):
                asked = f"SELECT max(users) FROM {read}"
                ((counted,),) = opened.sql(asked).fetchall()
                assert float(str(counted)) == pytest.approx(users, abs=300)
            described = opened.sql(f'DESCRIBE main."v.{place}"').fetchall()
            assert [row[0] for row in described][:2] == ["step", "as_of"]
            error = caught(opened, f'SELECT max(users) FROM v."{place}"')
            assert error.code == "unknown_table"


def caught(opened: Connection, sql: str) -> dpsql.Error:
    with pytest.raises(dpsql.Error) as raised:
        opened.sql(sql)
    return raised.value


@pytest.mark.slow
def test_what_others_have_published_until_a_refresh_is_its_own_is_not_forgotten(
    place: Path, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else comes between what is looked up first and the state that is opened."""
    given: list[frozenset[GroupTexts]] = []
    draw, opened = draw_step, ViewState.open

    def drawn(*arguments: Any) -> Any:
        given.append(frozenset(arguments[-1]))
        return draw(*arguments)

    monkeypatch.setattr(views_module, "draw_step", drawn)
    late = "SELECT 1000 + range, 'late', TIMESTAMP '2026-01-05 12:00', 0 FROM range(300)"
    change(place, f"INSERT INTO plays {late}")
    with connect(place) as one, connect(place) as other:

        def refresh_after(statement: str) -> Any:
            def raced(*arguments: Any) -> Any:
                monkeypatch.setattr(ViewState, "open", opened)
                other.sql(statement)
                given.clear()
                return opened(*arguments)

            monkeypatch.setattr(ViewState, "open", raced)
            return one.sql(REFRESH).fetchall()

        one.sql(CREATE)
        clock(4)
        one.sql(REFRESH)
        clock(9)
        ((_, published, *_),) = refresh_after(f"{REFRESH} UNTIL '2026-01-08'")
        shown = frozenset(row[:1] for row in one.sql("SELECT artist FROM v WHERE step = 7"))
        assert published == 1
        assert given == [shown]
        assert ("late",) in shown
        clock(10)
        with fails_with("no_step_closed"):
            refresh_after(REFRESH)
        clock(11)
        with pytest.raises(dpsql.Error) as refused:
            refresh_after("DROP MATERIALIZED VIEW v")
        assert refused.value.code in ("unknown_view", "state_missing")


def test_a_lookup_of_one_value_in_a_view_is_refused_for_nothing(
    connection: Connection, clock: Callable[[int], None]
) -> None:
    """A view has rows of several steps for a key; the largest of them is one value."""
    connection.sql(CREATE)
    clock(3)
    connection.sql(REFRESH)
    before = spent(connection)
    asked = "SELECT artist, {} FROM plays AS p GROUP BY artist"
    found = "(SELECT {} FROM v WHERE v.artist = p.artist)"
    for looked_up in (found.format("users"), f"count(*), {found.format('users')}"):
        with fails_with("several_rows"):
            connection.sql(asked.format(looked_up))
    assert spent(connection) == before
    assert rows(connection, asked.format(f"count(*), {found.format('max(users)')}"))
