"""Answers as Arrow, pandas and polars: every type of key, and every reader of Arrow."""

from __future__ import annotations

import copy
import datetime
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from helpers.failures import fails_with

import dpsql
from dpsql.results.rows import named_row

NOON = datetime.datetime(2024, 2, 29, 12)
DAY = datetime.date(2024, 2, 29)
BIG = 2**127 - 1
ONE = UUID(int=1)
TEXT = "1 month 2 days"

# By name of a column: its type, a value, and what Arrow (and with it polars) and pandas make of it.
KEYS: dict[str, tuple[str, str, object, object]] = {
    "boolean": ("BOOLEAN", "true", True, True),
    "tinyint": ("TINYINT", "-1", -1, -1),
    "smallint": ("SMALLINT", "-1", -1, -1),
    "integer": ("INTEGER", "-1", -1, -1),
    "bigint": ("BIGINT", "-1", -1, -1),
    "utinyint": ("UTINYINT", "255", 255, 255),
    "usmallint": ("USMALLINT", "1", 1, 1),
    "uinteger": ("UINTEGER", "1", 1, 1),
    "ubigint": ("UBIGINT", str(2**64 - 1), 2**64 - 1, 2**64 - 1),
    "hugeint": ("HUGEINT", "7", Decimal(7), 7),
    "huger": ("HUGEINT", str(2**70), Decimal(2**70), str(2**70)),
    "hugest": ("HUGEINT", str(BIG), str(BIG), str(BIG)),
    "uhugeint": ("UHUGEINT", str(2**128 - 1), str(2**128 - 1), str(2**128 - 1)),
    "uhuge_small": ("UHUGEINT", "7", Decimal(7), 7),
    "bignum": ("BIGNUM", "123", "123", "123"),
    "float": ("FLOAT", "1.5", 1.5, 1.5),
    "double": ("DOUBLE", "1.5", 1.5, 1.5),
    "decimal": ("DECIMAL(9, 2)", "1.25", Decimal("1.25"), 1.25),
    "wide": ("DECIMAL(38, 2)", "1.25", Decimal("1.25"), 1.25),
    "varchar": ("VARCHAR", "'x'", "x", "x"),
    "blob": ("BLOB", "'x'::BLOB", b"x", b"x"),
    "bit": ("BIT", "'0101'::BIT", "0101", "0101"),
    "date": ("DATE", "'2024-02-29'", DAY, NOON.replace(hour=0)),
    "time": ("TIME", "'12:00:00'", NOON.time(), NOON.time()),
    "time_ns": ("TIME_NS", "'12:00:00'", NOON.time(), NOON.time()),
    "timetz": ("TIMETZ", "'12:00:00+02'", "12:00:00+02", "12:00:00+02"),
    "timestamp": ("TIMESTAMP", "'2024-02-29 12:00'", NOON, NOON),
    "timestamp_s": ("TIMESTAMP_S", "'2024-02-29 12:00'", NOON, NOON),
    "timestamp_ms": ("TIMESTAMP_MS", "'2024-02-29 12:00'", NOON, NOON),
    "timestamp_ns": ("TIMESTAMP_NS", "'2024-02-29 12:00'", NOON, NOON),
    "timestamptz": (
        *("TIMESTAMPTZ", "'2024-02-29 12:00+00'"),
        *(NOON.replace(tzinfo=datetime.UTC), NOON.replace(tzinfo=datetime.UTC)),
    ),
    "interval": ("INTERVAL", f"'{TEXT}'", TEXT, datetime.timedelta(days=32)),
    "uuid": ("UUID", f"'{ONE}'", str(ONE), ONE),
    "enum": ("ENUM('x', 'y')", "'x'", "x", "x"),
    "json": ("JSON", """'{"a":1}'""", '{"a":1}', '{"a":1}'),
    "list": ("INTEGER[]", "[1, 2]", [1, 2], [1, 2]),
    "array": ("INTEGER[2]", "[1, 2]", [1, 2], [1, 2]),
    "struct": (
        "STRUCT(a INTEGER, b TEXT)",
        "{'a': 1, 'b': 'x'}",
        {"a": 1, "b": "x"},
        {"a": 1, "b": "x"},
    ),
    "map": ("MAP(TEXT, INTEGER)", "MAP {'a': 1}", [("a", 1)], {"a": 1}),
    "union": ("UNION(n INTEGER, s TEXT)", "union_value(n := 1)", "1", 1),
    "many_huge": ("UHUGEINT[]", "[1]", ["1"], ["1"]),
    "many_signed": ("HUGEINT[]", "[1]", ["1"], ["1"]),
    "many_bits": ("BIT[]", "['01'::BIT]", ["01"], ["01"]),
    "many_ids": ("UUID[]", f"['{ONE}']", [str(ONE)], [ONE]),
    "many_times": ("TIMETZ[]", "['12:00:00+02'::TIMETZ]", ["12:00:00+02"], ["12:00:00+02"]),
    "bits_within": (
        *("STRUCT(b BIT, n INTEGER)", "{'b': '01'::BIT, 'n': 1}"),
        *({"b": "01", "n": 1}, {"b": "01", "n": 1}),
    ),
    "many_flags": ("BOOLEAN[]", "[true]", [True], [True]),
    "union_within": (
        *("STRUCT(u UNION(n INTEGER, s TEXT))", "{'u': union_value(n := 1)}"),
        *({"u": "1"}, {"u": 1}),
    ),
}
INFINITE = {
    "day": ("DATE", "'infinity'"),
    "moment": ("TIMESTAMP", "'-infinity'"),
    "zoned": ("TIMESTAMPTZ", "'infinity'"),
    "within": ("DATE[]", "['infinity'::DATE]"),
}
POLICY = """
version: 1
dataset: d
defaults: {epsilon: 5, delta: 1e-6, max_groups_contributed: 1, max_rows_contributed: 1,
  left_out_share: 0}
accounts: {ana: {epsilon: 1000, delta: 1e-3}}
tables: {t: {privacy_unit: {name: u, column: u}, columns: {v: {lower: 0, upper: 3}}}}
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    place = tmp_path_factory.mktemp("frames")
    columns = {**{n: (t, v) for n, (t, v, *_) in KEYS.items()}, **INFINITE}
    with duckdb.connect(str(place / "d.duckdb")) as owner:
        typed = ", ".join(f'"k_{name}" {type_}' for name, (type_, _) in columns.items())
        owner.execute(f"CREATE TABLE t (u BIGINT, g INTEGER, v DOUBLE, {typed})")
        values = ", ".join(f"CASE WHEN range < 300 THEN {v} END" for _, v in columns.values())
        owner.execute(f"INSERT INTO t SELECT range, range % 10, 1.5, {values} FROM range(600)")
    policy = dpsql.parse_policy(POLICY)
    with dpsql.connect(place / "d.duckdb", policy, place / "b.db", "ana") as opened:
        yield opened


def asked(con: dpsql.Connection, name: str) -> dpsql.Result:
    """Counts by a key: one of a value, one of NULL."""
    where = "WHERE k_boolean OR k_boolean IS NULL" if name == "boolean" else ""  # all 3 are known
    sql = f"SELECT k_{name} AS k, count(*) AS n FROM t {where} GROUP BY 1 ORDER BY k IS NULL"
    return con.sql(sql)


def plain(value: Any) -> Any:
    """A value as Python compares it."""
    if isinstance(value, np.ndarray):
        return [plain(each) for each in value.tolist()]
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, pandas.Timestamp):
        return value.to_pydatetime(warn=False)
    return value


@pytest.mark.slow
@pytest.mark.few(12)
@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_any_type_is_its_value_or_its_text_in_every_frame(
    name: str, con: dpsql.Connection
) -> None:
    *_, in_arrow, in_pandas = KEYS[name]
    answer = asked(con, name)
    found, missing = answer.arrow().column("k").to_pylist()
    assert (plain(found), missing) == (in_arrow, None)
    series = answer.pl()["k"]
    assert series.is_null().to_list() == [False, True]
    assert plain(series.to_list()[0]) == ({"a": 1} if name == "map" else in_arrow)
    found, missing = answer.df()["k"].astype(object).tolist()
    assert plain(found) == in_pandas
    assert pandas.isna(missing)


@pytest.mark.few(12)
@pytest.mark.parametrize("name", KEYS)
def test_whoever_reads_arrow_reads_an_answer_of_any_type(name: str, con: dpsql.Connection) -> None:
    answer = asked(con, name)
    table = pyarrow.table(answer)
    assert table.equals(answer.arrow())
    assert not any(isinstance(t, pyarrow.BaseExtensionType) for t in table.schema.types)
    assert polars.DataFrame(answer).equals(answer.pl())
    counted = duckdb.sql("SELECT count(k), count(*), sum(n) > 0 FROM answer")
    assert counted is not None
    assert counted.fetchall() == [(1, 2, True)]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", KEYS)
def test_an_answer_comes_back_from_a_pickle_or_says_which_column_cannot(
    name: str, con: dpsql.Connection
) -> None:
    answer = asked(con, name)
    assert copy.deepcopy(answer).fetchall() == answer.fetchall()
    if "union" in name:
        with fails_with("not_pickled", match="'k'"):
            pickle.dumps(answer)
        return
    again: dpsql.Result = pickle.loads(pickle.dumps(answer))
    assert (again.columns, again.types) == (answer.columns, answer.types)
    assert again.fetchall() == answer.fetchall()
    assert again.df().equals(answer.df())
    assert again.arrow().equals(answer.arrow())
    assert repr(again) == repr(answer)
    assert str(again.plan) == str(answer.plan)
    assert again.cost == answer.cost
    assert again.intervals()["n"].low.tolist() == answer.intervals()["n"].low.tolist()


@pytest.mark.parametrize("name", INFINITE)
def test_infinite_dates_are_refused_by_name_and_never_shown_as_days(
    name: str, con: dpsql.Connection
) -> None:
    answer = asked(con, name)
    for read in (answer.df, answer.pl, answer.arrow, answer.__arrow_c_stream__):
        with fails_with("no_frame_type", match=r"infinite dates .* 'k'") as refused:
            read()
        assert refused.value.__cause__ is refused.value.__context__ is None
    text = con.sql(
        f"SELECT k::VARCHAR AS k, n FROM (SELECT k_{name} AS k, count(*) AS n FROM t GROUP BY 1)"
    )
    assert text.cost.stored
    assert text.df()["k"].notna().sum() == 1


@pytest.mark.slow
def test_an_answer_outside_of_any_process_needs_no_connection(
    con: dpsql.Connection, tmp_path: Path
) -> None:
    answer = con.sql("SELECT k_uuid AS k, count(*) AS n FROM t GROUP BY 1 ORDER BY n")
    (tmp_path / "answer").write_bytes(pickle.dumps(answer))
    text = (
        "import pickle, sys; r = pickle.load(open(sys.argv[1], 'rb')); "
        "print(len(r), r.columns, r.intervals()['n'].low.shape, '95%' in r.summary())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path / "answer")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == "2 ['k', 'n'] (2,) True"


@pytest.mark.slow
def test_arrow_streams_need_neither_pyarrow_nor_polars(con: dpsql.Connection) -> None:
    text = """
import sys, duckdb
for name in ("pyarrow", "polars", "pandas"):
    sys.modules[name] = None
import dpsql, pickle
answer = pickle.load(sys.stdin.buffer)
print(type(answer.__arrow_c_stream__()).__name__)
for read in (answer.arrow, answer.pl, answer.df):
    try:
        read()
    except dpsql.InterfaceError as error:
        print(error.code, error.hint)
"""
    data = pickle.dumps(asked(con, "boolean"))
    ran = subprocess.run([sys.executable, "-c", text], input=data, capture_output=True, check=True)
    capsule, *refused = ran.stdout.decode().splitlines()
    assert capsule == "PyCapsule"
    named = [re.match(r"[a-z]+", line.split("'")[1]) for line in refused]
    assert [name and name.group() for name in named] == ["pyarrow", "polars", "pandas"]


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_frames_made_of_an_answer_or_its_rows_have_its_names(
    con: dpsql.Connection, frame: Any
) -> None:
    answer = con.sql('SELECT k_boolean AS "no name", count(*) AS n FROM t GROUP BY 1 ORDER BY 1')
    assert list(frame(answer).columns) == ["no name", "n"]
    assert list(frame([*answer]).columns) == ["no name", "n"]
    rows = list(answer)
    assert rows == answer.fetchall()
    assert type(pickle.loads(pickle.dumps(rows))[0]) is tuple
    assert type(copy.deepcopy(rows)[0]) is tuple


@pytest.mark.slow
def test_frames_have_the_ends_of_intervals_beside_each_noisy_column(con: dpsql.Connection) -> None:
    sql = (
        "SELECT k_uuid AS k, count(*) AS n, count(*) + 1 AS more, avg(v) AS n_low, "
        'count(DISTINCT u) AS "N_LOW_1" FROM t GROUP BY 1 ORDER BY k'
    )
    answer = con.sql(sql)
    names = ["k", "n", "n_low_2", "n_high", "more", "more_low", "more_high"]
    names += ["n_low", "n_low_low", "n_low_high", "N_LOW_1", "N_LOW_1_low", "N_LOW_1_high"]
    intervals = answer.intervals(0.5)
    for frame in (
        answer.df(intervals=True, confidence=0.5),
        answer.pl(intervals=True, confidence=0.5),
        answer.arrow(intervals=True, confidence=0.5).to_pandas(),
        copy.deepcopy(answer).df(intervals=True, confidence=0.5),
        pickle.loads(pickle.dumps(answer)).df(intervals=True, confidence=0.5),
    ):
        assert list(frame.columns) == names
        assert list(frame["n"]) == answer["n"]
        for column, low, high in (
            ("n", "n_low_2", "n_high"),
            ("more", "more_low", "more_high"),
            ("n_low", "n_low_low", "n_low_high"),
            ("N_LOW_1", "N_LOW_1_low", "N_LOW_1_high"),
        ):
            assert list(frame[low]) == intervals[column].low.tolist()
            assert list(frame[high]) == intervals[column].high.tolist()
    assert answer.arrow(intervals=True).schema.field("n_high").type == pyarrow.int64()
    wider = answer.df(intervals=True, confidence=0.99)
    assert (wider["n_low_2"] < answer.df(intervals=True, confidence=0.5)["n_low_2"]).all()
    with pytest.raises(dpsql.ParameterError):
        answer.df(intervals=True, confidence=1.0)


def test_intervals_are_null_where_a_value_is(con: dpsql.Connection) -> None:
    answer = con.sql(
        "SELECT * FROM (SELECT 1 AS one) LEFT JOIN (SELECT count(*) AS n FROM t) ON one = 2"
    )
    frame = answer.pl(intervals=True)
    assert frame.row(0) == (1, *[None] * (len(frame.columns) - 1))


def test_stored_answers_keep_their_order_beside_their_intervals(
    con: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though this one would fit among Python's values."""
    monkeypatch.setattr("dpsql.results.rows.FEW_VALUES", 0)
    answer = con.sql("SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY hash(g)")
    assert len(answer) > 5
    frame = answer.pl(intervals=True)
    assert frame["g"].to_list() == answer["g"]
    assert answer["g"] != sorted(answer["g"])
    assert frame["n"].to_list() == answer["n"]
    assert frame["n_low"].to_list() == answer.intervals()["n"].low.tolist()


def test_huge_sums_are_numbers_wherever_they_fit(con: dpsql.Connection) -> None:
    answer = con.sql("SELECT sum(n) AS total FROM (SELECT k_uuid, count(*) AS n FROM t GROUP BY 1)")
    assert answer.types == ["HUGEINT"]
    assert str(answer.arrow().schema.types[0]) == "decimal128(38, 0)"
    assert answer.df()["total"].dtype == "int64"
    (total,) = answer.fetchone() or ()
    assert answer.df()["total"][0] == answer.pl()["total"][0] == total


def test_what_a_library_panics_at_is_an_error_of_ours(
    con: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        """As pyo3's."""

    def panics(*_: object) -> None:
        raise PanicException("secret value")

    answer = asked(con, "uuid")
    monkeypatch.setattr(polars, "DataFrame", panics)
    with fails_with("no_frame_type", match=r"polars has no type .* column 'k'") as refused:
        answer.pl()
    assert "secret" not in str(refused.value)
    assert refused.value.__context__ is None

    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(polars, "DataFrame", stops)
    with pytest.raises(KeyboardInterrupt):
        answer.pl()


# -- other ways to read ---------------------------------------------------------------------------


def test_columns_and_rows_are_found_by_name_and_number(con: dpsql.Connection) -> None:
    answer = asked(con, "uuid")
    rows = answer.fetchall()
    assert answer["k"] == [row[0] for row in rows]
    assert answer["N"] == [row[1] for row in rows]
    assert (answer[0], answer[-1], answer[np.int64(1)]) == (rows[0], rows[-1], rows[1])
    assert answer[:1] == rows[:1]
    for wrong in ("m", 2, -3, 1.5, None, True):
        with pytest.raises(dpsql.ParameterError) as refused:
            answer[wrong]  # type: ignore[index]
        assert refused.value.code in ("column_not_in_answer", "no_such_row")


def test_fetchone_reads_row_after_row(con: dpsql.Connection) -> None:
    answer = asked(con, "uuid")
    read = [answer.fetchone() for _ in range(4)]
    assert read == [*answer.fetchall(), None, None]
    assert len(answer) == len(list(answer)) == 2


def test_names_from_other_libraries_read_the_same(con: dpsql.Connection) -> None:
    answer = asked(con, "uuid")
    assert answer.to_pandas().equals(answer.df())
    assert answer.fetchdf(intervals=True).equals(answer.df(intervals=True))
    assert answer.to_polars().equals(answer.pl())
    assert answer.to_arrow().equals(answer.arrow())
    assert answer.to_html() == answer._repr_html_()
    axes = answer.plot("k", "n")
    assert axes.get_ylabel() or axes.get_xlabel()


def test_execute_answers_with_a_cursor_that_makes_frames(con: dpsql.Connection) -> None:
    before = con.budget().queries
    cursor = con.execute("SELECT k_uuid AS k, count(*) AS n FROM t WHERE v > ? GROUP BY 1", (-1,))
    assert con.budget().queries == before + 1
    first = cursor.fetchone()
    assert [first, *cursor.fetchall()] == cursor.result.fetchall()
    for frame in (cursor.df(intervals=True), cursor.pl(intervals=True)):
        assert list(frame.columns) == ["k", "n", "n_low", "n_high"]
    assert cursor.arrow().equals(cursor.result.arrow())
    assert cursor.fetchdf().equals(cursor.df())
    assert con.budget().queries == before + 1
    assert con.execute("SELECT ? + 1 AS n", [1]).fetchone() == (2,)


def test_a_named_row_is_replaced_as_a_namedtuple_is() -> None:
    (row,) = map(named_row(["ward", "count_star()"]), [("eyes", 7)])
    replaced: Any = row
    assert replaced._replace(**{"count_star()": 8}) == ("eyes", 8)
    with pytest.raises(ValueError, match=r"^Got unexpected field names: \['Ward'\]$"):
        replaced._replace(Ward="ears")
