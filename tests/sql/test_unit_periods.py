"""Units of one period: one user's day moves exact rows within the declared sensitivity."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import Groups, Row, TableLab, moved_by_units, plan_violations
from helpers.support import Planned, planned
from hypothesis import given
from hypothesis import strategies as st

from dpsql.core.periods import Period
from dpsql.core.schema import Table, schema_of
from dpsql.policy.model import (
    AccountPolicy,
    ColumnPolicy,
    Link,
    Policy,
    PrivacyUnit,
    TablePolicy,
    UnitPeriod,
)
from dpsql.policy.parameters import Parameters
from dpsql.sql.lineage import tables
from dpsql.sql.lineage.tables import per_period

COLUMNS = (("who", "VARCHAR"), ("played", "TIMESTAMP"), ("k", "INTEGER"), ("n", "INTEGER"))
NANOSECONDS = (("who", "VARCHAR"), ("played", "TIMESTAMP_NS"), ("k", "INTEGER"), ("n", "INTEGER"))
DAYS = (("who", "VARCHAR"), ("played", "DATE"), ("k", "INTEGER"), ("n", "INTEGER"))
EPOCH = datetime.datetime(1970, 1, 1)


def rules(every: str) -> Policy:
    unit = PrivacyUnit("user-period", "who", UnitPeriod("played", Period.read(every, "every")))
    return Policy(
        "music",
        defaults=Parameters(epsilon=5.0, delta=1e-6),
        accounts={"ana": AccountPolicy("ana", 1000.0, 0.4)},
        tables={
            "plays": TablePolicy("plays", unit, {"n": ColumnPolicy(-5, 20)}),
            "parts": TablePolicy("parts", None, {}, Link("k", "plays", "n")),
            "songs": TablePolicy("songs", None),
        },
    )


def planned_for(sql: str, every: str, columns: Any = COLUMNS, **parameters: Any) -> Planned:
    schema = schema_of(
        Table("plays", tuple(column_of(*c) for c in columns)),
        Table("parts", (column_of("k", "INTEGER"), column_of("m", "INTEGER"))),
        Table("songs", (column_of("k", "INTEGER"), column_of("title", "VARCHAR"))),
    )
    return planned(sql, schema, rules(every), **parameters)


def period_start(at: datetime.datetime, every: str) -> int:
    """The number of a period, by the calendar of Python."""
    period = Period.read(every, "every")
    if period.months:
        return ((at.year - 1970) * 12 + at.month - 1) // period.months
    return (at - EPOCH) // datetime.timedelta(seconds=period.seconds)


def unit_of(row: Row, every: str) -> object:
    who, at, *_ = row
    if who is None or at is None or at == datetime.datetime.max:  # which stands for infinity
        return None
    return who, period_start(at, every)


def audited(
    rows: Sequence[Row], found: Planned, every: str, columns: Any = COLUMNS
) -> dict[object, list[str]]:
    """What the removal of each user's period violates."""
    lab, plan = TableLab("plays", columns), found.plans[0]

    def read(kept: Sequence[Row]) -> Groups:
        lab.fill(kept)
        return lab.groups(found.statements[0], plan)

    def without(whole: Sequence[Row], unit: object) -> Sequence[Row]:
        return [row for row in whole if unit_of(row, every) != unit]

    units = {unit_of(row, every) for row in rows} - {None}
    return moved_by_units(rows, units, without, read, plan_violations(plan))


EVERY = ["1 day", "15 minutes", "36 hours", "2 weeks", "month", "2 quarters"]
QUESTIONS = [
    "SELECT k, COUNT(*), SUM(n) FROM plays GROUP BY k",
    "SELECT k, COUNT(DISTINCT who) FROM plays GROUP BY k",
    "SELECT k, COUNT(DISTINCT n) FROM (FROM plays UNION ALL FROM plays) GROUP BY k",
    "SELECT hour(played), COUNT(*) FROM plays WHERE n > 0 GROUP BY 1",
]
TIMES = st.one_of(
    st.none(),
    st.just(datetime.datetime.max),
    st.integers(-3, 3).map(lambda n: EPOCH + datetime.timedelta(hours=11 * n)),
    st.integers(-2, 2).map(lambda n: EPOCH + datetime.timedelta(days=n, microseconds=-1)),
    st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["1", "1:1", ":", "", "0:", None]),
        TIMES,
        st.integers(0, 4),
        st.integers(-9, 30),
    ),
    max_size=14,
)


STREAMS = (st.sampled_from(EVERY), st.sampled_from(QUESTIONS), st.integers(1, 3), ROWS)


@examples_of(12)
@given(*STREAMS)
@pytest.mark.slow
def test_one_period_moves_exact_rows_within_the_declared_sensitivity(
    every: str, sql: str, groups: int, rows: list[Row]
) -> None:
    found = planned_for(sql, every, max_groups_contributed=groups, max_rows_contributed=2)
    assert audited(rows, found, every) == {}


@pytest.mark.slow
@many_examples_of(150)
@given(*STREAMS)
def test_one_period_moves_exact_rows_within_the_declared_sensitivity_at_length(
    every: str, sql: str, groups: int, rows: list[Row]
) -> None:
    found = planned_for(sql, every, max_groups_contributed=groups, max_rows_contributed=2)
    assert audited(rows, found, every) == {}


MANY_HOURS = [("u", EPOCH + datetime.timedelta(hours=h), h % 3, 1) for h in range(24)]


def test_the_audit_notices_periods_that_are_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a user's day whose hours are units of their own moves more than it may."""
    settings = {"max_groups_contributed": 1, "max_rows_contributed": 2}
    good = planned_for(QUESTIONS[0], "1 day", **settings)
    assert audited(MANY_HOURS, good, "1 day") == {}

    def hourly(rows: Any, table: Table, unit: PrivacyUnit) -> Any:
        assert unit.per is not None
        hour = UnitPeriod(unit.per.column, Period.read("1 hour", "every"))
        return per_period(rows, table, PrivacyUnit(unit.name, unit.column, hour))

    monkeypatch.setattr(tables, "per_period", hourly)
    broken = planned_for(QUESTIONS[0], "1 day", **settings)
    assert audited(MANY_HOURS, broken, "1 day")


def units_found(rows: Sequence[Row], every: str, columns: Any = COLUMNS) -> list[object]:
    """The unit that each row is given, in order of ``n``."""
    lab = TableLab("plays", columns)
    lab.fill(rows)
    block = planned_for(QUESTIONS[0], every, columns).plans[0].block
    inner = planned_for(QUESTIONS[0], every, columns).statements[0]
    start = inner.index("(SELECT *, TRY(")
    depths = accumulate((c == "(") - (c == ")") for c in inner[start:])
    end = start + next(place for place, depth in enumerate(depths, 1) if depth == 0)
    found = lab.rows(f'SELECT "{block.unit_column}" FROM {inner[start:end]} ORDER BY n')
    return [unit for (unit,) in found]


@pytest.mark.slow
@pytest.mark.parametrize("every", ["1 day", "15 minutes"])
def test_times_to_the_nanosecond_are_of_the_periods_of_their_microseconds(every: str) -> None:
    times = [EPOCH + datetime.timedelta(hours=11 * n, microseconds=n % 2) for n in range(-9, 9)]
    rows = [("1", at, n % 3, n) for n, at in enumerate(times)]
    assert units_found(rows, every, NANOSECONDS) == units_found(rows, every)
    settings = {"max_groups_contributed": 1, "max_rows_contributed": 2}
    found = planned_for(QUESTIONS[0], every, NANOSECONDS, **settings)
    assert audited(MANY_HOURS, found, every, NANOSECONDS) == {}


@pytest.mark.parametrize("near", ["1970-01-01 23:59:59.9999996", "infinity", "-infinity"])
def test_what_lies_between_two_microseconds_is_of_one_period(near: str) -> None:
    lab = TableLab("plays", NANOSECONDS)
    found = planned_for(
        "SELECT COUNT(*) FROM plays", "15 minutes", NANOSECONDS, max_rows_contributed=2
    )
    lab.fill([])
    lab.rows(f"INSERT INTO plays SELECT '1', '{near}'::TIMESTAMP_NS, 0, 1 FROM range(9)")
    ((_, rows, *_),) = lab.rows(found.statements[0])
    assert rows == (0 if "infinity" in near else 2)


@pytest.mark.few(6)
@pytest.mark.parametrize("every", EVERY)
def test_rows_are_of_one_unit_exactly_where_user_and_period_are_the_same(every: str) -> None:
    minutes = [0, 14, 15, 60, 719, 1439, 1440, 2159, 2160, 20159, 20160, 44640, 260640]
    times = [EPOCH + datetime.timedelta(minutes=s * m) for m in minutes for s in (1, -1)]
    times += [t - datetime.timedelta(microseconds=1) for t in times]
    rows = [(who, at, 0, 0) for who in ("1", ":1", "1:") for at in times]
    rows = [(*row[:3], n) for n, row in enumerate(rows)]
    found = units_found(rows, every)
    pairs = set(zip(found, (unit_of(row, every) for row in rows), strict=True))
    assert None not in found
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


@pytest.mark.slow
def test_days_without_a_time_are_divided_as_their_midnights_are() -> None:
    days = [datetime.date(1969, 12, 25) + datetime.timedelta(days=n) for n in range(14)]
    rows = [("1", day, 0, n) for n, day in enumerate(days)]
    timed = [("1", datetime.datetime.combine(day, datetime.time()), 0, n) for _, day, _, n in rows]
    for every in EVERY:
        assert units_found(rows, every, DAYS) == units_found(timed, every)


def test_rows_of_no_user_or_no_period_belong_to_nobody() -> None:
    lab = TableLab("plays", COLUMNS)
    found = planned_for("SELECT COUNT(*) FROM plays", "1 day")
    lab.fill([(None, EPOCH, 0, 1), ("1", None, 0, 1), ("1", EPOCH, 0, 1)])
    lab.rows("INSERT INTO plays VALUES ('1', 'infinity', 0, 1), ('1', '-infinity', 0, 1)")
    ((_, rows, *_),) = lab.rows(found.statements[0])
    assert rows == 1


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT who, COUNT(*) FROM plays GROUP BY who", "groups_by_unit"),
        ("SELECT COUNT(*) FROM plays a JOIN plays b ON a.who = b.who", "join_needs_unit"),
        (
            "SELECT COUNT(*) FROM plays a JOIN plays b ON a.who = b.who AND a.played = b.played",
            "join_needs_unit",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT who FROM plays UNION SELECT who FROM plays)",
            "set_operation_unit",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM plays GROUP BY who) WHERE n > 1",
            "groups_by_unit",
        ),
    ],
)
def test_a_user_is_no_unit_where_its_periods_are(sql: str, code: str) -> None:
    with fails_with(code):
        planned_for(sql, "1 day")


def test_users_are_counted_as_values_that_several_units_share() -> None:
    """Two users on ten days are two: no unit is counted, and none adds more than one user."""
    rows = [(who, EPOCH + datetime.timedelta(days=d), 0, 1) for who in "ab" for d in range(10)]
    found = planned_for("SELECT COUNT(DISTINCT who) FROM plays", "1 day")
    lab = TableLab("plays", COLUMNS)
    lab.fill(rows)
    ((_, users, *_),) = lab.rows(found.statements[0])
    assert users == 2


def test_a_linked_row_belongs_to_the_unit_of_its_parent() -> None:
    lab = TableLab("plays", COLUMNS)
    lab.fill([("a", EPOCH, 0, 1), ("a", EPOCH, 0, 2), ("a", None, 0, 3)])
    lab.rows("CREATE TABLE parts AS SELECT 1 + range % 3 AS k, 1 AS m FROM range(30)")
    found = planned_for("SELECT COUNT(*) FROM parts", "1 day", max_rows_contributed=7)
    ((_, rows, *_),) = lab.rows(found.statements[0])
    assert rows == 7  # of one unit's twenty; ten belong to nobody


def test_public_rows_join_as_ever_and_the_promise_is_said_in_words() -> None:
    sql = "SELECT title, COUNT(*) FROM plays JOIN songs USING (k) GROUP BY title"
    assert planned_for(sql, "1 day").plans[0].block.unit_name == "user-period"
    block = planned_for(QUESTIONS[0], "90 minutes").plans[0].block
    assert block.unit_column == "who per 90 minutes of played"
