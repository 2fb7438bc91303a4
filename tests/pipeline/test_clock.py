"""What a statement asks of the clock is a constant, told, and a part of the question."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with
from sqlglot import exp

import dpsql
from dpsql.pipeline.clock import _OF_DAYS
from dpsql.results.caveats import CaveatKind
from dpsql.syntax.row_functions import MOMENTS, ROW_FUNCTIONS

POLICY = """
version: 1
dataset: shop
defaults: {epsilon: 1, delta: 1e-8, max_groups_contributed: 3, max_rows_contributed: 2}
accounts:
  ana: {epsilon: 100, delta: 1e-4}
tables:
  orders:
    privacy_unit: {name: user, column: id}
    time: {column: ts, zone: UTC}
  facts: {public: true}
"""
ROWS = 300
NOON = datetime.datetime(2026, 11, 28, 12, 30, 15, 250_000, tzinfo=datetime.UTC)
HOUR, DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)
Clock = Callable[[datetime.datetime], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Sets the moment of the questions that follow."""

    def to(moment: datetime.datetime) -> None:
        monkeypatch.setattr("dpsql.pipeline.clock.present_moment", lambda: moment)

    to(NOON)
    return to


@pytest.fixture
def connection(tmp_path: Path, clock: Clock, no_noise: None) -> Iterator[dpsql.Connection]:
    """A user each with an order on every day up to 2026-11-28, at 00:15."""
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(
            f"CREATE TABLE orders AS SELECT {ROWS} - i AS id, DATE '2026-11-28' - i::INT AS day, "
            f"(DATE '2026-11-28' - i::INT) + INTERVAL 15 MINUTE AS ts FROM range({ROWS}) r(i)"
        )
        made.execute("CREATE TABLE facts AS SELECT i AS x FROM range(3) r(i)")
    (tmp_path / "policies.yaml").write_text(POLICY, encoding="utf-8")
    with dpsql.connect(
        path, policies=tmp_path / "policies.yaml", ledger=tmp_path / "b.db", analyst="ana"
    ) as found:
        yield found


def count(connection: dpsql.Connection, condition: str) -> int:
    (row,) = connection.sql(f"SELECT COUNT(*) FROM orders WHERE {condition}").fetchall()
    return int(row[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("day >= CURRENT_DATE - INTERVAL '6 days'", 7),
        ("day > current_date() - 7 AND day <= today()", 7),
        ("CURDATE() = day", 1),
        ("ts > now() - INTERVAL 1 DAY", 1),
        ("ts > CURRENT_TIMESTAMP - INTERVAL '1' DAY", 1),
        ("ts >= GETDATE() - INTERVAL 37 HOUR", 2),
        ("ts > LOCALTIMESTAMP", 0),
        ("ts::DATE = now()::DATE", 1),
        ("date_trunc('month', day) = date_trunc('month', now())", 28),
        ("month(day) = month(current_date) AND year(day) = EXTRACT(YEAR FROM now())", 28),
        ("day BETWEEN date_trunc('week', CURRENT_DATE) - INTERVAL 7 DAY AND CURRENT_DATE", 13),
        ("date_diff('day', day, CURRENT_DATE) < 3", 3),
        ("day = (now() AT TIME ZONE 'Pacific/Auckland')::DATE - 1", 1),
        ("day = CURRENT_DATE('Pacific/Auckland') - 1", 1),
        ("ts::TIME > CURRENT_TIME", 0),
        ("CASE WHEN day = CURRENT_DATE THEN TRUE END", 1),
    ],
)
def test_conditions_on_the_clock_are_those_on_its_constants(
    connection: dpsql.Connection, condition: str, rows: int
) -> None:
    assert count(connection, condition) == rows


@pytest.mark.slow
def test_all_of_a_statement_is_of_one_moment(connection: dpsql.Connection) -> None:
    result = connection.sql(
        "WITH n AS (SELECT now() AS at, COUNT(*) AS c FROM orders WHERE ts < now()) "
        "SELECT at = CURRENT_TIMESTAMP AND at = LOCALTIMESTAMP, at::DATE = today(), at FROM n"
    )
    assert result.fetchall() == [(True, True, NOON.replace(tzinfo=None))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("items", "names"),
    [
        ("current_date, COUNT(*)", ["current_date", "count_star()"]),
        ("now() AS at, COUNT(*)", ["at", "count_star()"]),
        ("day = CURRENT_DATE, COUNT(*)", ["day = current_date", "count_star()"]),
        ("localtimestamp, COUNT(*)", ["localtimestamp", "count_star()"]),
    ],
)
def test_columns_keep_the_names_of_the_words(
    connection: dpsql.Connection, items: str, names: list[str]
) -> None:
    assert list(connection.sql(f"SELECT {items} FROM orders GROUP BY ALL").columns) == names


OF_A_DAY = [
    "day >= CURRENT_DATE - 7",
    "day = now()::DATE",
    "ts > date_trunc('day', now()) - INTERVAL 1 MONTH",
    "year(day) = year(now())",
    "day = DATE '2026-11-01' AND today() > day",
]
OF_A_MOMENT = [
    "ts > now() - INTERVAL 1 DAY",
    "day = CURRENT_DATE AND ts < now()",
    "ts::TIME < CURRENT_TIME",
    "hour(ts) = hour(now())",
    "ts > date_trunc('hour', now())",
    "day = (now() - INTERVAL 13 HOUR)::DATE",
    "epoch(ts) > epoch(now()) - 86400",
    "strftime(ts, '%H') = strftime(now(), '%H')",
]


@pytest.mark.slow
@pytest.mark.parametrize("condition", OF_A_DAY)
def test_what_asks_for_the_day_alone_is_the_same_question_all_day(
    connection: dpsql.Connection, clock: Clock, condition: str
) -> None:
    question = f"SELECT COUNT(*) FROM orders WHERE {condition}"
    assert not connection.sql(question).cost.stored
    clock(NOON + HOUR)
    assert connection.sql(question).cost.stored
    assert "today is 2026-11-28 (UTC)" in str(connection.explain(question))
    clock(NOON + 400 * DAY)
    assert not connection.sql(question).cost.stored


@pytest.mark.slow
@pytest.mark.parametrize("condition", OF_A_MOMENT)
def test_what_asks_for_more_is_of_its_moment(
    connection: dpsql.Connection, clock: Clock, condition: str
) -> None:
    question = f"SELECT COUNT(*) FROM orders WHERE {condition}"
    assert not connection.sql(question).cost.stored
    clock(NOON + 12 * HOUR - datetime.timedelta(seconds=1))
    assert not connection.sql(question).cost.stored
    told = " ".join(str(connection.explain(question)).split())
    assert "now is 2026-11-29 00:30:14.250000 (UTC)" in told
    assert "CURRENT_DATE is the same all day" in told


@pytest.mark.slow
@pytest.mark.parametrize("node", [n for n, f in ROW_FUNCTIONS.items() if f.takes == MOMENTS])
def test_functions_that_are_of_the_day_are_the_same_at_all_its_times(node: type[exp.Expr]) -> None:
    function = ROW_FUNCTIONS[node]
    more = "".join(f", {each}" for each in function.beside[:1])
    times = (f"TIMESTAMP '2026-11-28 {time}'" for time in ("00:00:00", "23:59:59.999999"))
    columns = ", ".join(f"{function.name}({time}{more})" for time in times)
    first, last = duckdb.execute(f"SELECT {columns}").fetchall()[0]
    assert (first == last) == (node in _OF_DAYS)


@pytest.mark.parametrize(
    "asked", ["epoch(now())", "strftime(now(), '%H:%M')", "EXTRACT(epoch FROM now())"]
)
def test_times_of_a_day_are_no_part_of_a_daily_question(
    connection: dpsql.Connection, clock: Clock, asked: str
) -> None:
    question = f"SELECT {asked} AS at, COUNT(*) AS n FROM orders"
    first = connection.sql(question).fetchall()[0]
    assert "now is 2026-11-28 12:30" in str(connection.explain(question))
    clock(NOON + HOUR)
    assert connection.sql(question).fetchall()[0] != first


def test_a_remembered_statement_does_not_remember_the_day(
    connection: dpsql.Connection, clock: Clock
) -> None:
    condition = "day = CURRENT_DATE - 0"
    assert count(connection, condition) == 1
    clock(NOON + DAY)
    assert count(connection, condition) == 0
    clock(NOON)
    assert connection.sql(f"SELECT COUNT(*) FROM orders WHERE {condition}").cost.stored


@pytest.mark.slow
def test_the_answer_tells_the_day(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT COUNT(*) FROM orders WHERE day > CURRENT_DATE - 7")
    told = [caveat for caveat in result.warnings if caveat.kind is CaveatKind.CLOCK]
    assert [caveat.text for caveat in told] == ["In this answer today is 2026-11-28 (UTC)."]
    assert not any(caveat.strong for caveat in told)
    assert "today is 2026-11-28" in str(result)
    without = connection.sql("SELECT COUNT(*) FROM orders WHERE day > DATE '2026-11-21'")
    assert CaveatKind.CLOCK not in {caveat.kind for caveat in without.warnings}
    assert without.cost.stored, "the same question"


@pytest.mark.slow
def test_keys_are_known_by_conditions_on_the_clock(connection: dpsql.Connection) -> None:
    question = "SELECT day, COUNT(*) FROM orders WHERE day > CURRENT_DATE - INTERVAL 3 DAY AND "
    result = connection.sql(f"{question} day <= CURRENT_DATE GROUP BY day ORDER BY day")
    assert [row[0].day for row in result.fetchall()] == [26, 27, 28]
    assert "3 values, from the conditions on it" in str(result.plan)


@pytest.mark.slow
def test_prepared_statements_and_cursors_ask_at_their_own_time(
    connection: dpsql.Connection, clock: Clock
) -> None:
    question = "SELECT COUNT(*) FROM orders WHERE day > CURRENT_DATE - ?"
    cursor = connection.cursor()
    cursor.execute(question, [7])
    assert cursor.fetchall() == [(7,)]
    clock(NOON + DAY)
    cursor.execute(question, [7])
    assert cursor.fetchall() == [(6,)]


def test_views_do_not_ask_the_clock(connection: dpsql.Connection) -> None:
    create = (
        "CREATE MATERIALIZED VIEW v WITH (step = '1 day', start = '2026-01-01', steps = 365) AS "
        "SELECT COUNT(*) AS n FROM orders WHERE "
    )
    for condition in ("day = CURRENT_DATE", "ts < now()", "ts < getdate()"):
        with fails_with("no_view") as refused:
            connection.sql(create + condition)
        assert "DATE '2026-01-01'" in str(refused.value.hint)
        assert refused.value.place is not None


@pytest.mark.parametrize(
    "condition",
    [
        "ts > now() AT TIME ZONE 'Nowhere/Else'",
        "ts > now() AT TIME ZONE '../etc/passwd'",
        "ts > now() AT TIME ZONE id",
        "day > CURRENT_DATE('Nowhere')",
        "ts > now(3)",
        "ts > CURRENT_TIMESTAMP(3)",
        "ts > ts.now()",
    ],
)
def test_other_forms_are_refused(connection: dpsql.Connection, condition: str) -> None:
    with pytest.raises(dpsql.QueryRefused):
        count(connection, condition)


@pytest.mark.slow
def test_a_subquery_keeps_the_names_of_the_words(connection: dpsql.Connection) -> None:
    columns = connection.sql("SELECT (SELECT year(now())), COUNT(*) FROM orders").columns
    assert list(columns) == ["(SELECT year(now()))", "count_star()"]


def test_columns_in_quotes_are_no_words(connection: dpsql.Connection) -> None:
    found = connection.sql('SELECT "current_date" + 1 FROM (SELECT 1 AS "current_date")')
    assert found.fetchall() == [(2,)]


@pytest.mark.slow
def test_a_long_sum_of_moments_takes_no_time(connection: dpsql.Connection) -> None:
    """Each part is computed once, however many words it has."""
    days = " + ".join(["(now() - now())"] * 80)
    assert count(connection, f"ts > now() - ({days})") == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            "SELECT CASE WHEN id > 3 THEN now() ELSE ts END, COUNT(*) FROM orders GROUP BY 1",
            "CASE WHEN id > 3 THEN now() ELSE ts END",
        ),
        (
            "SELECT id, COUNT(*) FROM orders WHERE ts > LOCALTIMESTAMP GROUP BY id "
            "HAVING median(day) > date_trunc('month', LOCALTIMESTAMP)",
            "",
        ),
        (
            "SELECT id + year(CURRENT_DATE) AS k, COUNT(*) FROM orders GROUP BY k",
            "id + year(current_date)",
        ),
    ],
)
def test_refusals_say_the_words_of_the_clock(
    asked: str, said: str, connection: dpsql.Connection, clock: Clock
) -> None:
    """And not the moment: another moment's are the same."""
    told = []
    for moment in (NOON, NOON + HOUR):
        clock(moment)
        with pytest.raises(dpsql.QueryRefused) as refused:
            connection.sql(asked)
        told.append(str(refused.value))
    assert said in told[0]
    assert told[0] == told[1]
    assert "2026" not in told[0]
