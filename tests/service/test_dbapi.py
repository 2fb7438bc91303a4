"""DB-API 2.0 beyond the public suite: an answer is paid once, types, threads, pandas, polars."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest
from helpers.support import ANALYST, connect, policy

import dpsql
from dpsql import dbapi

COLOURS = "SELECT c, COUNT(*) AS n FROM visits GROUP BY c ORDER BY c"
EXACT: dict[str, Any] = {"max_groups_contributed": 100, "max_rows_contributed": 100}


@pytest.fixture
def con(tmp_path: Path) -> Iterator[dbapi.Connection]:
    with connect(tmp_path) as opened:
        yield opened


def code_of(error: pytest.ExceptionInfo[dbapi.Error]) -> str:
    return error.value.code


# -- one answer, paid once ------------------------------------------------------------------------


def test_the_connection_of_the_package_is_that_of_the_module() -> None:
    assert dbapi.connect is dpsql.connect
    assert dbapi.Connection is dpsql.Connection


def test_execute_pays_and_nothing_after_it_does(con: dbapi.Connection) -> None:
    cur = con.cursor()
    assert con.budget().queries == 0
    assert cur.execute(COLOURS) is cur
    paid = con.budget()
    assert paid.queries == 1
    assert paid.rho_spent == pytest.approx(cur.cost.settled.rho)
    first = cur.fetchone()
    rest = cur.fetchmany(1) + cur.fetchall()
    assert cur.fetchall() == []
    assert cur.fetchone() is None
    assert [first, *rest] == cur.result.fetchall()
    assert cur.rowcount == len(cur.intervals()["n"].low) == 3
    assert cur.explanation.blocks[0].mechanism == "known_domain"
    con.commit()
    con.rollback()
    cur.close()
    assert con.budget() == paid


@pytest.mark.slow
def test_rows_come_in_order_however_they_are_read(con: dbapi.Connection) -> None:
    cur = con.cursor().execute("SELECT k, n FROM shops CROSS JOIN (SELECT COUNT(*) n FROM visits)")
    rows = cur.result.fetchall()
    assert len(rows) == 7
    assert cur.rownumber == 0
    assert next(cur) == rows[0]
    assert cur.fetchmany() == rows[1:2]
    cur.arraysize = 2
    assert cur.fetchmany() == rows[2:4]
    assert cur.fetchmany(0) == []
    assert cur.rownumber == 4
    assert list(cur) == rows[4:]
    assert cur.fetchmany(5) == []
    with pytest.raises(dbapi.ProgrammingError) as refused:
        cur.fetchmany(-1)
    assert code_of(refused) == "bad_size"


def test_a_statement_that_fails_leaves_no_answer_behind(con: dbapi.Connection) -> None:
    cur = con.cursor()
    assert (cur.description, cur.rowcount, cur.rownumber) == (None, -1, None)
    cur.execute(COLOURS)
    before = con.budget()
    with pytest.raises(dbapi.ProgrammingError):
        cur.execute("SELECT COUNT(*) FROM nowhere")
    assert con.budget() == before
    assert (cur.description, cur.rowcount, cur.rownumber) == (None, -1, None)
    for read in (cur.fetchone, cur.fetchmany, cur.fetchall, cur.intervals, lambda: cur.cost):
        with pytest.raises(dbapi.ProgrammingError) as refused:
            read()
        assert code_of(refused) == "no_answer"


def test_closed_cursors_and_connections_refuse_but_keep_what_was_paid_for(tmp_path: Path) -> None:
    con = connect(tmp_path)
    closed, left = (con.cursor().execute(COLOURS, fresh=True) for _ in range(2))
    with closed:
        pass
    con.close()
    operations: list[Callable[[], object]] = [con.cursor, con.commit, con.rollback]
    for cur in (closed, left):
        operations += [cur.fetchone, cur.fetchmany, cur.fetchall, partial(next, cur)]
        operations += [partial(cur.execute, COLOURS), partial(cur.executemany, COLOURS, [])]
    for operation in operations:
        with pytest.raises(dbapi.InterfaceError) as refused:
            operation()
        assert code_of(refused) == "closed"
    for cur in (closed, left):
        cur.close()
        assert len(cur.result.fetchall()) == 3
        assert cur.cost.settled.rho > 0
        assert cur.intervals()


def test_a_closed_cursor_leaves_its_connection_open(con: dbapi.Connection) -> None:
    cur = con.cursor()
    cur.close()
    with pytest.raises(dbapi.InterfaceError) as refused:
        cur.execute("SHOW TABLES")
    assert code_of(refused) == "closed"
    assert con.cursor().execute("SHOW TABLES").rowcount == 3


def test_nothing_is_inserted_and_no_message_of_an_engine_is_shown(con: dbapi.Connection) -> None:
    cur = con.cursor().execute(COLOURS)
    assert cur.lastrowid is None
    assert cur.messages == []
    assert cur.connection is con


def test_executemany_is_refused_before_anything_runs(con: dbapi.Connection) -> None:
    before = con.budget()
    with pytest.raises(dbapi.NotSupportedError) as refused:
        con.cursor().executemany("SELECT COUNT(*) FROM visits WHERE k = ?", [(1,), (2,)])
    assert code_of(refused) == "executemany"
    assert "once per set" in str(refused.value)
    assert con.budget() == before


def test_statements_beside_select_have_rows_too_and_cost_nothing(con: dbapi.Connection) -> None:
    cur = con.cursor()
    assert cur.execute("SHOW TABLES").fetchone() == ("mails", "private", "mailbox", None, None)
    assert cur.execute("SET epsilon = 0.25").fetchall()[0][:2] == ("epsilon", "0.25")
    assert cur.execute(f"EXPLAIN {COLOURS}").fetchall()
    assert cur.cost.settled.rho == 0
    assert con.budget().queries == 0


# -- values and parameters ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("s = ? AND n > ?", ("s1", -2)),
        ("s = $1 AND n > $2", ["s1", -2]),
        ("s = :s AND n > :n", {"s": "s1", "n": -2}),
        ("s = $s AND n > $n", {"s": "s1", "n": -2}),
        ("s = 's1' AND n > -2", None),
    ],
)
def test_every_style_of_parameters_means_the_same(
    con: dbapi.Connection, condition: str, values: object
) -> None:
    sql = f"SELECT k, COUNT(*) FROM visits WHERE {condition} GROUP BY k ORDER BY k"
    rows = con.cursor().execute(sql, values, **EXACT).fetchall()  # type: ignore[arg-type]
    kept = [i % 7 for i in range(1200) if i % 5 == 1 and i % 23 - 4 > -2]
    assert rows == [(k, kept.count(k)) for k in range(7)]


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_what_the_constructors_make_can_be_compared_to_columns(con: dbapi.Connection) -> None:
    def count(condition: str, value: object) -> object:
        sql = f"SELECT COUNT(*) FROM visits WHERE {condition}"
        row = con.cursor().execute(sql, (value,), max_rows_contributed=100).fetchone()
        return row and row[0]

    assert count("d = ?", dbapi.Date(2024, 1, 2)) == 24
    assert count("ts < ?", dbapi.Timestamp(2024, 1, 2, 0, 0, 0)) == 24
    assert count("CAST(ts AS TIME) = ?", dbapi.Time(5, 0, 0)) == 50
    with pytest.raises(dbapi.ProgrammingError) as refused:
        count("s = ?", dbapi.Binary(b"s1"))
    assert code_of(refused) == "bad_value"


def test_ticks_are_local_time() -> None:
    moment = datetime.datetime(2002, 12, 25, 13, 45, 30)
    ticks = time.mktime(moment.timetuple())
    assert dbapi.TimestampFromTicks(ticks) == moment
    assert dbapi.DateFromTicks(ticks) == moment.date()
    assert dbapi.TimeFromTicks(ticks) == moment.time()


@pytest.mark.slow
def test_privacy_parameters_of_one_query_can_be_given_to_execute(con: dbapi.Connection) -> None:
    cur = con.cursor()
    costs = [cur.execute(COLOURS, epsilon=e).cost.settled_epsilon for e in (0.25, 0.5)]
    assert costs == pytest.approx([0.25, 0.5], rel=0.1)
    cur.execute(COLOURS, mechanism="known_domain")
    with pytest.raises(dbapi.ProgrammingError):
        cur.execute(COLOURS, epsilon=-1)


# -- types ----------------------------------------------------------------------------------------

KINDS = (dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.ROWID)
TYPED = """SELECT 'a' AS text, CAST('a' AS ENUM ('a')) AS choice, 1 AS whole, 1.5::DOUBLE AS real,
    1.25::DECIMAL(9, 2) AS exact, 170141183460469231731687303715884105727 AS huge,
    DATE '2024-02-29' AS day, TIME '01:02:03' AS hour, TIMESTAMP '2024-02-29 01:02:03' AS moment,
    'a'::BLOB AS bytes, TRUE AS truth, INTERVAL 1 DAY AS duration, [1] AS many, {'a': 1} AS parts,
    NULL AS nothing FROM (SELECT COUNT(*) FROM visits)"""


@pytest.mark.parametrize("name", ["query", "values", "statement", "", "epsilom"])
def test_unknown_options_of_execute_are_errors_of_ours(con: dbapi.Connection, name: str) -> None:
    odd: dict[str, Any] = {name: "x"}
    with pytest.raises(dbapi.ProgrammingError) as refused:
        con.cursor().execute("SELECT 1", **odd)
    assert code_of(refused) == "unknown_parameter"


@pytest.mark.parametrize("size", [-1, 1.5, "2", None, True, object(), 10**40])
def test_fetchmany_reads_whole_numbers_of_rows(con: dbapi.Connection, size: object) -> None:
    cur = con.cursor().execute("SELECT 1")
    cur.arraysize = size  # type: ignore[assignment]
    if size == 10**40:
        assert cur.fetchmany() == [(1,)]
        return
    with pytest.raises(dbapi.ProgrammingError) as refused:
        cur.fetchmany()
    assert code_of(refused) == "bad_size"


@pytest.mark.parametrize(
    "arguments",
    [(7,), (b"x",), (None,), ("x", 7), ("x", None), ("x", {}, 7), ("x", "p", 7), ("x", "p", b"")],
)
def test_connect_refuses_what_is_no_path(tmp_path: Path, arguments: tuple[object, ...]) -> None:
    with pytest.raises(dbapi.Error):
        dbapi.connect(*arguments, analyst="ana")  # type: ignore[call-overload]


@pytest.mark.slow
def test_type_codes_are_names_of_types_and_equal_their_kind_alone(con: dbapi.Connection) -> None:
    cur = con.cursor().execute(TYPED)
    assert cur.description is not None
    assert all(len(column) == 7 for column in cur.description)
    kinds = {column[0]: [k for k in KINDS if k == column[1]] for column in cur.description}
    assert kinds == {
        "text": [dbapi.STRING],
        "choice": [dbapi.STRING],
        "whole": [dbapi.NUMBER],
        "real": [dbapi.NUMBER],
        "exact": [dbapi.NUMBER],
        "huge": [dbapi.NUMBER],
        "day": [dbapi.DATETIME],
        "hour": [dbapi.DATETIME],
        "moment": [dbapi.DATETIME],
        "bytes": [dbapi.BINARY],
        "truth": [],
        "duration": [],
        "many": [],
        "parts": [],
        "nothing": [],
    }
    described = {column[0]: column[1:] for column in cur.description}
    assert described["exact"] == ("DECIMAL(9,2)", None, None, 9, 2, None)
    assert described["text"] == ("VARCHAR", None, None, None, None, None)
    assert cur.fetchone() == (
        *("a", "a", 1, 1.5, Decimal("1.25"), 2**127 - 1),
        *(datetime.date(2024, 2, 29), datetime.time(1, 2, 3)),
        datetime.datetime(2024, 2, 29, 1, 2, 3),
        *(b"a", True, datetime.timedelta(days=1), [1], {"a": 1}, None),
    )


def test_type_objects_are_equal_to_themselves_and_not_to_each_other() -> None:
    for kind in KINDS:
        assert [other for other in KINDS if other == kind] == [kind]
        assert getattr(dbapi, repr(kind)) is kind
        assert kind != 1
        with pytest.raises(TypeError):
            hash(kind)


@pytest.mark.slow
def test_values_that_python_cannot_hold_leave_the_answer_readable_otherwise(
    con: dbapi.Connection,
) -> None:
    sql = "SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' AS t FROM (SELECT COUNT(*) FROM visits)"
    cur = con.cursor().execute(sql)
    if cur.rowcount == -1:  # without the package pytz
        with pytest.raises(dbapi.InterfaceError) as refused:
            cur.fetchall()
        assert code_of(refused) == "no_python_value"
    assert cur.result.arrow().num_rows == 1
    assert con.budget().queries == 1


# -- threads --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_threads_may_share_a_connection(con: dbapi.Connection) -> None:
    """Level 2: every thread reads its own answer in full, and all of them are charged for."""
    assert dbapi.threadsafety == 2

    def asked(n: int) -> dbapi.Cursor:
        value = "COUNT(*)" if n < 2 else "COUNT(*) + 1"  # held in Python, or stored in a table
        sql = f"SELECT k, {value} FROM visits WHERE n > ? GROUP BY k ORDER BY k"
        return con.cursor().execute(sql, (n,), fresh=True, **EXACT, epsilon=0.1)

    wanted = {n: asked(n).fetchall() for n in range(4)}
    assert len({str(rows) for rows in wanted.values()}) == 4
    each = con.budget().rho_spent / 4

    def ask(turn: int) -> bool:
        n = turn % 4
        cur = asked(n)
        rows = [*cur.fetchmany(2), cur.fetchone(), *cur]
        return rows == wanted[n]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(40)))
    assert con.budget().queries == 44
    assert con.budget().rho_spent == pytest.approx(44 * each)


@pytest.mark.slow
def test_closing_waits_for_the_answer_that_another_thread_is_paying_for(tmp_path: Path) -> None:
    asked = threading.Event()
    answers: list[list[tuple[Any, ...]]] = []
    codes: list[str] = []
    con = connect(tmp_path)

    def ask() -> None:
        asked.set()
        try:
            while True:
                answers.append(con.cursor().execute(COLOURS, epsilon=0.01, fresh=True).fetchall())
        except dbapi.InterfaceError as error:
            codes.append(error.code)

    thread = threading.Thread(target=ask)
    thread.start()
    asked.wait()
    time.sleep(0.1)
    con.close()
    thread.join(30)
    assert codes == ["closed"]
    assert all(len(rows) == 3 for rows in answers)
    with dbapi.connect(tmp_path / "world.duckdb", policy(), tmp_path / "budget.db", ANALYST) as con:
        assert con.budget().unsettled == 0


# -- data frames ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy:UserWarning")
def test_pandas_reads_through_the_connection(con: dbapi.Connection) -> None:
    con.cursor().execute("SET max_groups_contributed = 100")
    con.cursor().execute("SET max_rows_contributed = 100")
    frame = pandas.read_sql(COLOURS, con)
    assert frame["n"].to_dict() == {0: 400, 1: 400, 2: 400}
    assert frame["c"].tolist() == ["blue", "green", "red"]
    sql = "SELECT d, AVG(x) AS x, COUNT(*) AS n FROM visits WHERE k < ? GROUP BY d ORDER BY d"
    frame = pandas.read_sql(sql, con, params=(4,), index_col="d", parse_dates=["d"])
    assert frame.index[0] == pandas.Timestamp("2024-01-01")
    assert frame["n"].dtype == "int64"
    assert frame["x"].dtype == "float64"
    chunks = list(pandas.read_sql(COLOURS, con, chunksize=2))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    assert con.budget().queries == 2  # the colours were asked for before


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_polars_reads_through_the_connection(con: dbapi.Connection) -> None:
    con.cursor().execute("SET max_groups_contributed = 100")
    con.cursor().execute("SET max_rows_contributed = 100")
    frame = polars.read_database(COLOURS, con)
    assert frame.schema == {"c": polars.String, "n": polars.Int64}
    assert frame.rows() == [("blue", 400), ("green", 400), ("red", 400)]
    sql = "SELECT d, AVG(x) AS x FROM visits WHERE k < ? GROUP BY d ORDER BY d"
    frame = polars.read_database(sql, con, execute_options={"parameters": [4], "epsilon": 0.5})
    assert frame.schema == {"d": polars.Date, "x": polars.Float64}
    batches = polars.read_database(COLOURS, con.cursor(), iter_batches=True, batch_size=2)
    assert [len(batch) for batch in batches] == [2, 1]
    assert con.budget().queries == 2  # the colours were asked for before
