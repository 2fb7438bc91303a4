"""Many steps that are read at once are what they would be one by one, whatever is counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.step_keys import repeat_keys as repeat_keys
from helpers.step_keys import repeated_keys as repeated_keys

import dpsql
from dpsql.core.periods import Period
from dpsql.dbapi.connection import Connection
from dpsql.engines.base.scratch import Reader
from dpsql.engines.duckdb.engine import DuckDBScratch
from dpsql.policy.model import (
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
    TimeColumn,
    UnitPeriod,
)
from dpsql.policy.parameters import Parameters
from dpsql.views import views as views_module
from dpsql.views.publication import GroupTexts
from dpsql.views.state import Totals, ViewState

ROWS = """
CREATE TABLE plays AS SELECT (range * 7919 % 90) AS user_id,
    CASE WHEN range % 11 > 0 THEN 'a' || (range * 31 % 6) END AS artist,
    (TIMESTAMP '2026-03-26' + INTERVAL (range * 9) MINUTE)::{type} AS played_at,
    (range % 9 - 4) AS score, (range * 37 % 1000) / 7.0 AS ratio
FROM range(1200);
INSERT INTO plays VALUES (7, 'a1', NULL, 1, 1), (8, 'a1', 'infinity', 1, 1), (NULL, 'a1',
    '2026-03-27', 1, 1);
CREATE TABLE genres AS SELECT 'a' || range AS artist, range % 2 AS genre FROM range(5)
"""  # seven days and a half, over a Sunday on which Berlin's clocks change
FIRST = datetime(2026, 3, 26)


def policy(
    zone: str = "UTC", per: str | None = None, columns: dict[str, ColumnPolicy] | None = None
) -> Policy:
    unit = PrivacyUnit("user", "user_id")
    if per is not None:
        period = UnitPeriod("played_at", Period.read(per, "every"))
        unit = PrivacyUnit("user", "user_id", period)
    bounds = {"score": ColumnPolicy(-4, 4), "ratio": ColumnPolicy(0.0, 150.0)} | (columns or {})
    table = TablePolicy("plays", unit, bounds, time=TimeColumn("played_at", zone))
    return Policy(
        "d",
        Parameters(epsilon=1.0, delta=1e-6, max_groups_contributed=3, max_rows_contributed=4),
        accounts={"ana": AccountPolicy("ana", 5000.0, 0.1)},
        tables={"plays": table, "genres": TablePolicy("genres", None)},
    )


@pytest.fixture
def set_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    def setter(now: datetime) -> None:
        monkeypatch.setattr(views_module, "_now", lambda: now.replace(tzinfo=UTC))

    setter(FIRST)
    return setter


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[dict[GroupTexts, tuple[int, ...]]]:
    """What is counted at each step, before any noise."""
    found: list[dict[GroupTexts, tuple[int, ...]]] = []
    original = ViewState.totals

    def recorded(self: ViewState, step: int) -> Totals:
        totals = original(self, step)
        groups = list(zip(*totals.keys, strict=True)) if totals.keys else [()]
        values = zip(*(column.tolist() for column in totals.values), strict=True)
        found.append(dict(zip(groups, values, strict=False)))
        return totals

    monkeypatch.setattr(ViewState, "totals", recorded)
    return found


@contextmanager
def connected(place: Path, given: Policy) -> Iterator[Connection]:
    with closing(dpsql.connect(place / "x.duckdb", given, str(place / "l.db"), "ana")) as opened:
        yield opened


def made(place: Path, given: Policy, select: str, step: str, steps: int, type_: str) -> None:
    place.mkdir()
    with duckdb.connect(str(place / "x.duckdb")) as owner:
        owner.execute("SET TimeZone = 'UTC'")
        owner.execute(ROWS.format(type=type_))
    options = f"step = '{step}', start = '2026-03-26', steps = {steps}, epsilon = 40, delta = 1e-3"
    with connected(place, given) as opened:
        opened.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {select}")


def refreshed(place: Path, given: Policy) -> list[Any]:
    with connected(place, given) as opened:
        opened.sql("REFRESH MATERIALIZED VIEW v")
        return list(opened.sql("SELECT * FROM v ORDER BY ALL"))


ALL = "COUNT(*) AS n, COUNT(DISTINCT user_id) AS u"
MEANS = "SUM(ratio) AS s, AVG(score) AS m, STDDEV(score) AS d, VARIANCE(score) AS v"
DOMAIN = {"artist": ColumnPolicy(domain=("a4", "a1", "none"))}
SELECTS: list[tuple[str, dict[str, ColumnPolicy]]] = [
    (f"SELECT artist, {ALL} FROM plays GROUP BY artist", {}),
    (f"SELECT artist, score, {ALL} FROM plays GROUP BY ALL", {}),
    (f"SELECT {ALL} FROM plays", {}),
    (f"SELECT artist, {MEANS} FROM plays GROUP BY 1", {}),
    (
        "SELECT upper(artist) AS a, COUNT(*) FILTER (WHERE score > 0) AS f, SUM(score, "
        "contribution_bounds_per_row => (-4, 4), contribution_bounds_per_group => (-6, 6)) AS s "
        "FROM plays WHERE score <> 2 GROUP BY upper(artist)",
        {},
    ),
    (f"SELECT g.genre, {ALL} FROM plays p JOIN genres g USING (artist) GROUP BY g.genre", {}),
    (f"SELECT artist, {ALL}, SUM(score) AS s FROM plays GROUP BY artist", DOMAIN),
    ("SELECT artist, COUNT(*) AS n FROM plays GROUP BY artist ORDER BY n DESC LIMIT 2", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("select", "columns"), SELECTS)
@pytest.mark.few(1)
@pytest.mark.usefixtures("repeated_keys")
def test_steps_that_are_read_at_once_are_those_that_are_read_one_by_one(
    select: str,
    columns: dict[str, ColumnPolicy],
    tmp_path: Path,
    set_time: Callable[[datetime], None],
    counted: list[dict[GroupTexts, tuple[int, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views_module, "_AT_ONCE", 4)
    given, one, other = policy(columns=columns), tmp_path / "one", tmp_path / "other"
    made(one, given, select, "18 hours", 10, "TIMESTAMP")
    shutil.copytree(one, other)
    for step in range(1, 11):
        set_time(FIRST + timedelta(hours=18 * step))
        found = refreshed(one, given)
    together, scans = refreshed(other, given), counted[10:]
    assert len(counted) == 20
    assert counted[:10] == scans
    assert any(scans[0].items() ^ scans[9].items())
    assert together == found != []


@pytest.mark.slow
def test_rows_are_read_once_for_many_steps(
    tmp_path: Path, set_time: Callable[[datetime], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def noted(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def note(self: Any, *args: Any) -> Any:
            if "plays" in args[-1].names:
                reads.append(f"{owner.__name__}.{name}")
            return real(self, *args)

        monkeypatch.setattr(owner, name, note)

    noted(Reader, "pairs")
    noted(DuckDBScratch, "store")
    noted(DuckDBScratch, "pairs")
    made(tmp_path / "x", policy(), SELECTS[0][0], "4 hours", 45, "TIMESTAMP")
    set_time(datetime(2026, 4, 20))
    steps = {row[0] for row in refreshed(tmp_path / "x", policy())}
    assert 45 in steps  # the first steps may have no group that stands out
    assert steps <= set(range(1, 46))
    assert reads == ["DuckDBScratch.store"] * 2  # of 32 steps, and of 13


# -- zones and units of periods -------------------------------------------------------------------


def plays_by_step(place: Path, zone: str, days: int) -> list[int]:
    """The units of each step so far, as another engine's arithmetic has them."""
    with duckdb.connect(str(place / "x.duckdb"), read_only=True) as owner:
        owner.execute(f"SET TimeZone = '{zone}'")
        return [
            owner.execute(
                "SELECT count(DISTINCT user_id) FROM plays WHERE "
                f"played_at >= '2026-03-26' AND played_at < DATE '2026-03-26' + {day}"
            ).fetchall()[0][0]
            for day in range(1, days + 1)
        ]


@pytest.mark.slow
@pytest.mark.parametrize("session", ["America/New_York", "Pacific/Kiritimati"])
def test_instants_fall_into_the_steps_of_the_policys_zone_in_any_session(
    session: str,
    tmp_path: Path,
    set_time: Callable[[datetime], None],
    counted: list[dict[GroupTexts, tuple[int, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over a Sunday of 23 hours; the zone of the process is one of those a session may have."""
    monkeypatch.setenv("TZ", session)
    given = policy("Europe/Berlin")
    select = "SELECT COUNT(DISTINCT user_id) AS u FROM plays"
    made(tmp_path / "x", given, select, "1 day", 7, "TIMESTAMPTZ")
    set_time(datetime(2026, 3, 28, 22, 59))  # 23:59 in Berlin: two days have closed
    assert len(refreshed(tmp_path / "x", given)) == 2
    set_time(datetime(2026, 3, 29, 21, 59))  # the 29th closes at 22:00, as clocks went forward
    assert len(refreshed(tmp_path / "x", given)) == 3
    set_time(datetime(2026, 3, 29, 22, 0))
    assert len(refreshed(tmp_path / "x", given)) == 4
    set_time(datetime(2026, 4, 20))
    refreshed(tmp_path / "x", given)
    found = [values[0] for step in counted for values in step.values()]
    assert found == plays_by_step(tmp_path / "x", "Europe/Berlin", 7)


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMPTZ", "DATE"])
@pytest.mark.parametrize(("per", "step", "steps"), [("2 days", "1 day", 7), ("1 day", "3 days", 2)])
def test_units_of_periods_count_once_in_each(
    type_: str,
    per: str,
    step: str,
    steps: int,
    tmp_path: Path,
    set_time: Callable[[datetime], None],
    counted: list[dict[GroupTexts, tuple[int, ...]]],
) -> None:
    """Several steps in a period, and several periods in a step; a restart between them."""
    given = policy("Europe/Berlin" if type_ == "TIMESTAMP" else "UTC", per)
    select = "SELECT COUNT(*) AS n FROM plays"
    if type_ == "TIMESTAMPTZ":  # in which day an instant is depends on the zone
        with pytest.raises(dpsql.Error) as refused:
            made(tmp_path / "x", given, select, step, steps, type_)
        assert refused.value.code
        return
    made(tmp_path / "x", given, select, step, steps, type_)
    for now in (datetime(2026, 3, 29, 1), datetime(2026, 4, 20)):
        set_time(now)
        refreshed(tmp_path / "x", given)
    length, days = int(per.split()[0]), int(step.split()[0])
    with duckdb.connect(str(tmp_path / "x" / "x.duckdb"), read_only=True) as owner:
        pairs = (
            f"SELECT user_id, (played_at::DATE - DATE '1970-01-01') // {length} AS part, "
            "least(count(*), 4) AS n FROM plays WHERE played_at >= '2026-03-26' "
            "AND user_id IS NOT NULL AND played_at < DATE '2026-03-26' + {} GROUP BY ALL"
        )
        expected = [
            owner.execute(f"SELECT sum(n)::BIGINT FROM ({pairs.format(days * number)})").fetchall()[
                0
            ]
            for number in range(1, steps + 1)
        ]
    assert [values for each in counted for values in each.values()] == expected


def internal_number(steps: int) -> str:
    """The expression by which steps that are read together are told apart, as an analyst's own."""
    ends = [FIRST + timedelta(hours=18 * each) for each in range(1, steps)]
    whens = " ".join(
        f"WHEN p.played_at < CAST('{end:%Y-%m-%d %H:%M:%S}' AS TIMESTAMP) THEN {place}"
        for place, end in enumerate(ends)
    )
    return f"CASE {whens} ELSE {len(ends)} END"


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["{}, p.artist", "p.artist, {}", "{}"])
def test_a_key_that_is_written_like_the_number_of_a_step_is_a_key(
    keys: str,
    tmp_path: Path,
    set_time: Callable[[datetime], None],
    counted: list[dict[GroupTexts, tuple[int, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views_module, "_AT_ONCE", 4)
    given, items = policy(), keys.format(internal_number(4))
    given = replace(given, defaults=replace(given.defaults, max_groups_contributed=40))
    select = f"SELECT {items}, COUNT(*) AS n FROM plays p GROUP BY {items}"
    made(tmp_path / "x", given, select, "18 hours", 4, "TIMESTAMP")
    set_time(FIRST + timedelta(hours=18 * 4))
    refreshed(tmp_path / "x", given)
    numbers = [{group[0 if keys.startswith("{") else 1] for group in step} for step in counted]
    assert numbers == [{"0"}, {"0", "1"}, {"0", "1", "2"}, {"0", "1", "2", "3"}]
