"""Words of other systems mean one thing, or are refused with the word to write."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import pytest
from helpers.failures import fails_with
from helpers.support import connect
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

import dpsql
from dpsql.syntax.dialect import PrivateDuckDB
from dpsql.syntax.parse import MISREAD, parse
from dpsql.syntax.text import to_sql


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("words")) as found:
        yield found


SAME = [
    ("SELECT quantile(0.9)(n), quantileExact(0.5)(x) FROM visits",
     "SELECT QUANTILE(n, 0.9), QUANTILE(x, 0.5) FROM visits"),
    ("SELECT GROUP_CONCAT(DISTINCT upper(s) SEPARATOR '|') FROM visits",
     "SELECT STRING_AGG(DISTINCT upper(s), '|') FROM visits"),
    ("SELECT HLL(s), uniqCombined(k) FROM visits WITH (NOLOCK) WHERE k > 0",
     "SELECT COUNT(DISTINCT s), COUNT(DISTINCT k) FROM visits WHERE k > 0"),
    ("SELECT VAR(n), VARP(n), STDEVP(n) FROM visits",
     "SELECT VAR_SAMP(n), VAR_POP(n), STDDEV_POP(n) FROM visits"),
    ("SELECT std(n), STD(x) FILTER (WHERE k > 1) FROM visits",
     "SELECT STDDEV(n), STDDEV_SAMP(x) FILTER (WHERE k > 1) FROM visits"),
    ("SELECT APPROX_COUNT_DISTINCT(s), approx_distinct(k) FROM visits",
     "SELECT COUNT(DISTINCT s), COUNT(DISTINCT k) FROM visits"),
    ("SELECT NDV(s, contribution_bounds_per_group => (0, 3)) FROM visits",
     "SELECT COUNT(DISTINCT s, contribution_bounds_per_group => (0, 3)) FROM visits"),
    ("SELECT ndv(uid) FROM visits", "SELECT COUNT(DISTINCT uid) FROM visits"),
    ("SELECT APPROX_QUANTILES(n, 4)[OFFSET(1)], APPROX_QUANTILES(n, 100)[ORDINAL(91)] FROM visits",
     "SELECT QUANTILE(n, 0.25), QUANTILE(n, 0.9) FROM visits"),
    ("SELECT percentile_approx(n, 0.5), approx_percentile(n, 0.9, 100), approx_quantile(n, 0.1) "
     "FROM visits",
     "SELECT QUANTILE(n, 0.5), QUANTILE(n, 0.9), QUANTILE(n, 0.1) FROM visits"),
    ("SELECT APPROX_MEDIAN(n) FROM visits", "SELECT MEDIAN(n) FROM visits"),
    ("SELECT COUNT_BIG(*), COUNT_BIG(DISTINCT s) FROM visits GROUP BY DATEPART(year, d)",
     "SELECT COUNT(*), COUNT(DISTINCT s) FROM visits GROUP BY EXTRACT(YEAR FROM d)"),
    ("SELECT sumIf(n, k > 1), avgIf(n, k > 1), uniqExact(s) FROM visits WHERE toHour(ts) = 1",
     "SELECT SUM(n) FILTER (WHERE k > 1), AVG(n) FILTER (WHERE k > 1), COUNT(DISTINCT s) "
     "FROM visits WHERE EXTRACT(HOUR FROM ts) = 1"),
    ("SELECT toDate(ts) AS a, COUNT(*) FROM visits WHERE toYYYYMM(d) > 202001 GROUP BY a",
     "SELECT DATE(ts) AS a, COUNT(*) FROM visits "
     "WHERE (EXTRACT(YEAR FROM d) * 100 + EXTRACT(MONTH FROM d)) > 202001 GROUP BY a"),
    ("SELECT toStartOfHour(ts) AS a, toMonday(d) AS b, COUNT(*) FROM visits GROUP BY a, b",
     "SELECT date_trunc('hour', ts) AS a, DATE(date_trunc('week', d)) AS b, COUNT(*) FROM visits "
     "GROUP BY a, b"),
    ("SELECT FORMAT_DATE('%Y-%m', d) AS m, COUNT(*) FROM visits GROUP BY m",
     "SELECT strftime(d, '%Y-%m') AS m, COUNT(*) FROM visits GROUP BY m"),
    ("SELECT date_format(d, 'dd MMM yyyy') AS m, COUNT(*) FROM visits GROUP BY m",
     "SELECT strftime(d, '%d %b %Y') AS m, COUNT(*) FROM visits GROUP BY m"),
    ("SELECT EXTRACT(ISOWEEK FROM ts) AS w, EXTRACT(DATE FROM ts) AS a, COUNT(*) FROM visits "
     "GROUP BY w, a",
     "SELECT EXTRACT(WEEK FROM ts) AS w, DATE(ts) AS a, COUNT(*) FROM visits GROUP BY w, a"),
    ("SELECT SUBSTRING_INDEX(s, '-', 1) AS a, SUBSTRING_INDEX(s, '-', -1) AS b, COUNT(*) "
     "FROM visits GROUP BY a, b",
     "SELECT split_part(s, '-', 1) AS a, split_part(s, '-', -1) AS b, COUNT(*) FROM visits "
     "GROUP BY a, b"),
    ("SELECT COUNT(*) FROM visits WHERE s GLOB 'a*b' AND SQUARE(n) > 4",
     "SELECT COUNT(*) FROM visits WHERE s LIKE 'a%b' AND n ** 2 > 4"),
    ("SELECT s, RATIO_TO_REPORT(COUNT(*)) OVER () AS share FROM visits GROUP BY s",
     "SELECT s, COUNT(*) / NULLIF(SUM(COUNT(*)) OVER (), 0) AS share FROM visits GROUP BY s"),
    ("SELECT COUNTIF(n > 3) FROM visits", "SELECT COUNT_IF(n > 3) FROM visits"),
    ("SELECT quantile_cont(n, [0.2, 0.7])[1], quantile_disc(n, [0.2, 0.7])[2] + 1, "
     "quantiles(0.3, 0.6)(n)[2], (quantile_cont(n, [0.2, 0.7]))[-2] FROM visits",
     "SELECT quantile_cont(n, 0.2), quantile_disc(n, 0.7) + 1, quantile_cont(n, 0.6), "
     "(quantile_cont(n, 0.2)) FROM visits"),
    ("SELECT quantile(0.8)(n) FILTER (WHERE k > 1), quantiles(0.1, 0.4)(n) FILTER (WHERE k > 2) "
     "FROM visits",
     "SELECT QUANTILE(n, 0.8) FILTER (WHERE k > 1), QUANTILE_CONT(n, [0.1, 0.4]) FILTER "
     "(WHERE k > 2) FROM visits"),
    ("SELECT PERCENTILE_CONT(n, 0.31) OVER () AS m FROM visits LIMIT 1",
     "SELECT PERCENTILE_CONT(0.31) WITHIN GROUP (ORDER BY n) AS m FROM visits"),
    ("SELECT DISTINCT s, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY n) OVER (PARTITION BY s) "
     "AS p, COUNT(*) OVER (PARTITION BY s) + 1 AS c FROM visits WHERE k > 0 ORDER BY p, s",
     "SELECT s, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY n) AS p, COUNT(*) + 1 AS c "
     "FROM visits WHERE k > 0 GROUP BY s ORDER BY p, s"),
    ("SELECT DISTINCT SUM(n) OVER () / 2 AS h FROM visits", "SELECT SUM(n) / 2 AS h FROM visits"),
    ("SELECT v.s:a.\"b c\"[0].d::INT AS j, COUNT(*) FROM visits v "
     "WHERE s:e <> '' AND k > 0 GROUP BY 1",
     "SELECT CAST(v.s->>'$.a.\"b c\"[0].d' AS INT) AS j, COUNT(*) FROM visits v "
     "WHERE s->>'$.e' <> '' AND k > 0 GROUP BY 1"),
    ("SELECT TOP 3 s, COUNT(*) AS c FROM visits GROUP BY s ORDER BY c DESC",
     "SELECT s, COUNT(*) AS c FROM visits GROUP BY s ORDER BY c DESC LIMIT 3"),
    ("SELECT DISTINCT TOP 3 s FROM visits", "SELECT DISTINCT s FROM visits LIMIT 3"),
    ("SELECT `c`, COUNT(*) FROM `visits` GROUP BY `c`",
     "SELECT c, COUNT(*) FROM visits GROUP BY c"),
    ("SELECT c, SUM(IFF(n > 3, 1, 0)) FROM visits WHERE DATEDIFF(day, d, ts) < 9 GROUP BY c",
     "SELECT c, SUM(IF(n > 3, 1, 0)) FROM visits WHERE date_diff('day', d, ts) < 9 GROUP BY c"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "duckdb"), SAME)
def test_words_of_others_ask_the_same_question(
    connection: dpsql.Connection, asked: str, duckdb: str
) -> None:
    first = connection.sql(asked)
    again = connection.sql(duckdb)
    assert not first.cost.stored
    assert again.cost.stored
    assert again.fetchall() == first.fetchall()


@pytest.mark.parametrize(
    "windows",
    [
        *(
            "s, n, AVG(n) OVER (PARTITION BY s)",
            "s, AVG(n) OVER (PARTITION BY s), COUNT(*) OVER ()",
        ),
        *("AVG(n) OVER (PARTITION BY s)", "s, AVG(n) OVER (PARTITION BY s ORDER BY n)"),
        *("s, LAG(n) OVER (PARTITION BY s)", "s, FIRST_VALUE(n) OVER (PARTITION BY s)"),
        *("s, AVG(n) OVER (PARTITION BY s) + n", "s, SUM(n) OVER (PARTITION BY s), (SELECT k)"),
        "s, SUM(n) OVER (PARTITION BY s ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    ],
)
def test_windows_that_differ_within_a_group_are_none_of_groups(
    connection: dpsql.Connection, windows: str
) -> None:
    for text in (f"SELECT DISTINCT {windows} FROM visits", f"SELECT {windows} FROM visits LIMIT 1"):
        with pytest.raises(dpsql.Error) as refused:
            connection.sql(text)
        assert refused.value.code in ("raw_rows", "subquery_over_private_rows", "unknown_column")


def test_no_rows_of_a_subquery_stay_none_under_a_window(connection: dpsql.Connection) -> None:
    none = "WITH g AS (SELECT 1 AS n FROM range(0)) SELECT DISTINCT SUM(n) OVER () FROM "
    assert connection.sql(f"{none} g").fetchall() == []
    assert connection.sql(f"{none} (SELECT * FROM g)").fetchall() == []
    assert connection.sql(f"{none} g LIMIT 1").fetchall() == []
    for window in ("DISTINCT MAX(n) OVER () FROM g", "COUNT(*) OVER () FROM g LIMIT 1"):
        one = f"WITH g AS (SELECT 1 AS n WHERE 1 > 2) SELECT 5 NOT IN (SELECT {window})"
        assert connection.sql(one).fetchall() == [(True,)]
        assert connection.sql(one.replace(" g LIMIT", " (FROM g) LIMIT")).fetchall() == [(True,)]


@pytest.mark.parametrize(
    ("window", "read"),
    [
        (
            "DISTINCT s, COUNT(*) OVER (PARTITION BY s) AS c FROM visits "
            "ORDER BY COUNT(*) OVER (PARTITION BY s) DESC, s LIMIT 2",
            "s, COUNT(*) AS c FROM visits GROUP BY s ORDER BY COUNT(*) DESC, s LIMIT 2",
        ),
        (
            "DISTINCT SUM(COUNT(*)) OVER () FROM visits",
            "DISTINCT SUM(COUNT(*)) OVER () FROM visits",
        ),
        *(
            (f"DISTINCT s, {item}, COUNT(*) OVER (PARTITION BY s) FROM visits", "")
            for item in ("random()", "gen_random_uuid()", "random() < 0.5 OR s = 's1'")
        ),
        ("DISTINCT 2, COUNT(*) OVER (PARTITION BY 2) FROM visits", ""),
        ("DISTINCT 5 IN (SELECT COUNT(*) OVER () FROM visits LIMIT 1)", ""),
    ],
)
def test_windows_are_read_as_aggregates_where_these_say_the_same(window: str, read: str) -> None:
    assert to_sql(parse(f"SELECT {window}")) == to_sql(
        parse_one(f"SELECT {read or window}", read="duckdb")
    )


def test_what_stands_behind_colons_is_read_once_at_each_level() -> None:
    many = 25
    for opened, closed in (("a:b + (", ")"), ("a:b + (SELECT ", ")"), ("a: (", ")")):
        started = perf_counter()
        parse(f"SELECT {opened * many}1{closed * many} FROM t")
        assert perf_counter() - started < 5


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        ("c: 1, d: 2 + 1", "1 as c, 2 + 1 as d"),
        ("[1, 2][1:2], {'a': 1}", "[1, 2][1:2], {'a': 1}"),
        ("list_transform(x, lambda y: y + 1)", "list_transform(x, lambda y : y + 1)"),
        ("c[a:b], {a: b}, map {a: b}", "c[a:b], {'a': b}, map {a: b}"),
    ],
)
def test_a_colon_means_something_else_in_duckdb(asked: str, read: str) -> None:
    here, there = parse(f"SELECT {asked} FROM t"), parse_one(f"SELECT {read} FROM t", read="duckdb")
    assert here.find(exp.JSONExtractScalar) is None
    assert to_sql(here) == to_sql(there)


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        ("date_trunc('month', day)", "date_trunc('MONTH', \"day\")"),
        ("datetrunc('month', month)", "date_trunc('MONTH', \"month\")"),
        ("date_diff('day', start, day)", 'date_diff(\'DAY\', "start", "day")'),
        ("datediff('day', day, year)", 'date_diff(\'DAY\', "day", "year")'),
        ("date_trunc(t.day, MONTH)", 'date_trunc(\'MONTH\', "t"."day")'),
        ('date_trunc("day", MONTH)', "date_trunc('MONTH', \"day\")"),
        ("datetrunc(month, day)", "date_trunc('MONTH', \"day\")"),
        ("date_diff(day, month, DAY)", 'date_diff(\'DAY\', "month", "day")'),
        ("datediff(day, day, month)", 'date_diff(\'DAY\', "day", "month")'),
        ("dateadd(day, 1, day)", "((\"day\") + INTERVAL '1' DAY)"),
    ],
)
def test_columns_may_have_the_names_of_units(asked: str, read: str) -> None:
    assert to_sql(parse(f"SELECT {asked}")).lower() == f"SELECT {read}".lower()


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("DATE_TRUNC(d, WEEK) = d", "'week'"),
        ("DATETRUNC(week, d) = d", "'week'"),
        ("DATE_TRUNC(day, MONTH) = d", "date_trunc('month', d)"),
        ("DATEDIFF(week, d, ts) = 1", "date_diff('day', a, b)"),
        ("TIMESTAMP_DIFF(ts, ts, MONTH) = 1", "midnights"),
        ("DATEPART(weekday, d) = 1", "isodow(d)"),
        ("TRUNC(d, 'DAY') = d", "date_trunc('month', d)"),
        ("CONVERT(VARCHAR(20), ts, 120) = 'x'", "strftime"),
        ("TO_DATE(s, 'YYYY-MM-DD') = d", "CAST(s AS DATE)"),
        ("TO_DATE('2024-01-05 10:00:00', 'YYYY-MM-DD HH24:MI:SS') = ts", "CAST(s AS DATE)"),
        ("toStartOfInterval(ts, INTERVAL 7 hour) = ts", "time_bucket"),
        ("FROM_UNIXTIME(x) = ts", "whole numbers"),
        ("TO_NUMBER(s) = 1", "CAST(s AS INT)"),
        ("k & n = 1", "constant"),
        ("REGEXP_EXTRACT(s, r'(s)(1)') = 's'", "regexp_extract(s, '(a)(b)', 1)"),
        ("s ~* 's\\b1'", "\\bno\\b"),
        ("SINH(x) > 0", "sqrt"),
        ("TIMESTAMPDIFF(DAY, ts, ts) = 1", "midnights"),
        ("DATEADD(day, k + 1, d) = d", "INTERVAL 1 DAY"),
        ("ADD_MONTHS(d, k) = d", "INTERVAL (n) MONTH"),
        ("DATEPART(week, d) = 1", "date_part('week', d)"),
        ("DATETIME(ts) = ts", "CAST(x AS TIMESTAMP)"),
    ],
)
def test_what_systems_read_differently_is_refused_with_the_words_to_write(
    connection: dpsql.Connection, condition: str, told: str
) -> None:
    with fails_with("expression_not_allowed") as refused:
        connection.sql(f"SELECT COUNT(*) FROM visits WHERE {condition}")
    assert told in str(refused.value.hint)
    assert refused.value.place is not None


def test_an_asof_join_of_several_units_is_refused_by_its_own_name(
    connection: dpsql.Connection,
) -> None:
    with fails_with("window_over_private_rows") as refused:
        connection.sql(
            "SELECT count(*) FROM visits v ASOF JOIN visits w ON w.k = v.k AND w.d < v.d"
        )
    assert refused.value.reason.startswith("an ASOF JOIN")
    assert "ON a.Uid = w.Uid" in str(refused.value.hint)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TOP 10 PERCENT s, COUNT(*) FROM visits GROUP BY s",
        "SELECT TOP 3 WITH TIES s, COUNT(*) FROM visits GROUP BY s",
        "SELECT TOP 3 s, COUNT(*) FROM visits GROUP BY s LIMIT 2",
        "SELECT TOP s, COUNT(*) FROM visits GROUP BY s",
        "SELECT `s, COUNT(*) FROM visits",
        "SELECT APPROX_QUANTILES(n, 3) FROM visits",
        "SELECT APPROX_QUANTILES(n, 0) FROM visits",
        "SELECT APPROX_QUANTILES(n, k) FROM visits",
        "SELECT APPROX_QUANTILES(n, 3)[OFFSET(1)] FROM visits",
        "SELECT APPROX_QUANTILES(n, 4)[OFFSET(5)] FROM visits",
        "SELECT APPROX_QUANTILES(n, 4)[1] FROM visits",
        "SELECT APPROX_COUNT_DISTINCT(s, 0.01) FROM visits",
    ],
)
def test_other_forms_are_refused(connection: dpsql.Connection, text: str) -> None:
    with pytest.raises(dpsql.Error):
        connection.sql(text)


def test_top_is_a_name_where_no_number_follows() -> None:
    assert to_sql(parse("SELECT top FROM t AS top")) == 'SELECT "top" FROM "t" AS "top"'


def test_top_in_a_union_is_that_of_its_own_select() -> None:
    union = "SELECT a FROM t UNION ALL (SELECT b FROM u ORDER BY b LIMIT 2) LIMIT 5"
    with_top = "SELECT a FROM t UNION ALL (SELECT TOP 2 b FROM u ORDER BY b) LIMIT 5"
    assert to_sql(parse(with_top)) == to_sql(parse(union))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TOP 2 s FROM t UNION ALL SELECT s FROM t",
        "SELECT s FROM t UNION SELECT TOP 2 s FROM t",
    ],
)
def test_top_without_brackets_in_a_union_is_refused(text: str) -> None:
    with fails_with("syntax_error") as refused:
        parse(text)
    assert "brackets" in str(refused.value.hint)


@pytest.mark.parametrize(
    "call", ["date_trunc('month', day)", "date_diff('year', a, month)", "datediff('day', day, b)"]
)
def test_a_column_that_is_called_like_a_unit_stands_behind_one_in_quotes(call: str) -> None:
    tree = parse(f"SELECT {call} FROM t").expressions[0]
    named = {column.name for column in tree.find_all(exp.Column)}
    assert named in ({"day"}, {"a", "month"}, {"day", "b"})


def test_calls_within_each_other_grow_by_what_is_written() -> None:
    """A call that uses an argument twice would double the statement at every step."""
    grown = {
        name
        for name in {*PrivateDuckDB.Parser.FUNCTIONS, *PrivateDuckDB.Parser.FUNCTION_PARSERS}
        for form in ("{}", "{}, 1", "1, {}", "{}, 1, 2", "1, {}, 2", "1, 2, {}", "day, {}, 1")
        if _doubles(f"{name}({form})")
    }
    assert grown == set()
    assert isinstance(parse("SELECT toYYYYMM(toYYYYMM(d)) FROM t").expressions[0], exp.Paren)
    assert isinstance(parse("SELECT WAVG(toYYYYMM(d), n) FROM t").expressions[0], exp.Paren)


def _doubles(call: str) -> bool:
    """Tell whether each further step of a call within itself is much larger than the one before."""
    sizes, text = [], "d"
    for _ in range(9):
        text = call.format(text)
        try:
            tree = parse_one(text, read=PrivateDuckDB)
        except (SqlglotError, *MISREAD):
            return False
        sizes.append(sum(1 for _ in tree.walk()))
    return sizes[8] - sizes[6] > 2 * (sizes[6] - sizes[4]) + 10


def test_an_average_of_a_condition_is_called_as_it_was_typed(
    connection: dpsql.Connection,
) -> None:
    found = connection.sql("SELECT avg(s = 's1'), AVG((k > 2 AND n > 1)) * 2 FROM visits")
    assert list(found.columns) == ["avg(s = 's1')", "avg(k > 2 AND n > 1) * 2"]
