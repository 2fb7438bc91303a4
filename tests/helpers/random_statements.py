# ruff: noqa: E501, SIM905
"""Statements that nobody meant to write: the corpora of the other tests, cut up and put together."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import strategies as st
from test_grouping_sets import QUESTIONS

from helpers.attacks import ATTACKS

MARK = "zqmark"
"""A word that stands in no corpus: where it comes out again, text of the query does."""

_HERE = Path(__file__).parents[1] / "sql"
CORPUS = [
    *(attack.sql for attack in ATTACKS if len(attack.sql) < 2000),
    *(_HERE / "equivalence.sql").read_text().splitlines(),
    *(_HERE / "lineage_equivalence.sql").read_text().splitlines(),
    *QUESTIONS,
]
_PIECE = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|\s+|.", re.DOTALL)

KEYWORDS = """
    ALL ANTI ANY ASC ASOF AT BETWEEN BY CASE CAST COLLATE COLUMNS CROSS CUBE DAY DESC DISTINCT ELSE
    END ESCAPE EXCEPT EXCLUDE EXISTS EXPLAIN EXTRACT FETCH FILTER FOR FROM FULL GLOB GROUP GROUPING
    HAVING IGNORE ILIKE IN INTERSECT INTERVAL INTO IS ISNULL JOIN LAMBDA LATERAL LEFT LIKE LIMIT
    MATERIALIZED NATURAL NOT NOTNULL NULL NULLS OFFSET ON OPTIONS OR ORDER ORDINALITY OVER PARTITION
    PIVOT POSITIONAL QUALIFY RECURSIVE REPLACE RIGHT ROLLUP SELECT SEMI SET SETS SHOW SIMILAR SOME
    SUMMARIZE TABLE TABLESAMPLE THEN TO TRY TRY_CAST UNION UNNEST UNPIVOT USING VALUES WHEN WHERE
    WINDOW WITH WITHIN
""".split()
NAMES = """
    visits people orders items mails shops secret uid k s n x d ts flag c v t a city price count sum
    avg min max median unnest range struct_pack list_value row date_trunc extract coalesce replace
    information_schema duckdb_settings sqlite_master pg_catalog main memory rowid excluded stdin
    __dpsql_released_0 __dpsql_k0 epsilon dp_interval_low contribution_bounds_per_row
""".split()
OPERATORS = """
    ( ) ( ) [ ] { } , , ; : :: := . .. ... * ** ^ ^@ @ @> <@ && || | & ~ ~~ ~~* !~~ !~ !~* ~* # ## $
    ? ! !! != <> = == === < > <= >= << >> -> ->> => + - / // % \\ ` ' " -- /* */ ;;
""".split()
LITERALS = [
    "0", "-0", "1_000", "1__0", "0x1F", "0b101", "0o17", "1e400", "1e-400", ".5", "5.", "1.e3",
    "9" * 19, "9" * 39, "9" * 400, "99999999999999999999.5",
    "170141183460469231731687303715884105728", "'a' 'b'", "'a'\n'b'", "'it''s'", "'a\\'",
    "e'a\\'b'", "E'\\x41'", "x'4142'", "b'01'", "U&'a'", "$$a$$", "$tag$ a' $tag$", "$1", "$x",
    ":x", "?", "#1", "N'a'", "r'a'", '"a""b"', '""', "`a`", "DATE '2024-01-01'",
    "INTERVAL 1 DAY", "INTERVAL '1' YEAR", "INTERVAL (k) DAY", "[1, 2]", "{'a': 1}",
    "MAP {'a': 1}", "(1, 2)", "row(1, 2)", "NULL::INT[]", "INT[3]",
]  # fmt: skip
CLAUSES = [
    "!true", "!flag", "k: 1", "a: count(*)", "x -> x + 1", "lambda x: x", "k::INT[]", "s[1]",
    "s[1:2]", "s.a.b", "a.b.c.d.e", "k ** 2", "k ^ 2", "k // 2", "k == 1", "s ~ 'a'",
    "s GLOB 'a*'", "-- x\n", "s COLLATE nocase", "s LIKE 'a!%' ESCAPE '!'", "s SIMILAR TO 'a'",
    "k NOT NULL", "k ISNULL", "date_trunc(d, 'month')", "date_trunc('month', d)",
    "datediff('day', d, d)", "d AT TIME ZONE 'UTC'", "extract(year FROM d)",
    "extract('year' FROM d)", "position('a' IN s)", "substring(s FROM 1 FOR 2)",
    "overlay(s PLACING 'a' FROM 1)", "trim(BOTH 'a' FROM s)", "s IN 'abc'", "k IN (VALUES (1))",
    "*COLUMNS(*)", "COLUMNS('.*')", "* EXCLUDE (k)", "* REPLACE (1 AS k)", "* LIKE 'k%'", "v.*",
    "count(*) OVER ()", "sum(n) FILTER (WHERE k > 1)", "count(DISTINCT k, s)",
    "max(n ORDER BY k)", "FROM visits", "JOIN people USING (uid)", "NATURAL JOIN shops",
    "(SELECT count(*) FROM visits)", "(SELECT 1)", "EXISTS (SELECT 1 FROM shops)",
    "LATERAL (SELECT 1)", "UNION ALL SELECT 1", "VALUES (1)", "WITH RECURSIVE t AS (SELECT 1)",
    "AS MATERIALIZED (SELECT 1)", "AT (VERSION => 1)", "TABLESAMPLE 1%",
    "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)", "contribution_bounds_per_row => (0, 1)",
    "CASE WHEN flag THEN 1 END", "CASE k WHEN 1 THEN 's' ELSE n END", "GROUP BY ALL",
    "ORDER BY ALL", "((((((((", "))))))))", "[[[[[[[[", "{'a': {'a': {'a': 1}}}", "NOT NOT NOT",
    "- - - 1", "~ ~ 1", "/*", "*/", "/* a /* b */ c */", "--", "\n", "\r", "\t", "\0", "\x1b",
    "\x7f", "\u00a0", "\u200b", "\u202e", "\ufeff", "ß", "İ", "ı", "K", "\u0301", "１", "²", "٣",
    "𝒗", "😀", "ｆrom", "'\u2019'",
]  # fmt: skip
FRAGMENTS = [
    *KEYWORDS,
    *NAMES,
    *OPERATORS,
    *LITERALS,
    *CLAUSES,
    *(f"/* {MARK} */", f"-- {MARK}\n", MARK, f"'{MARK}'", f'"{MARK}"', f"{MARK}()", f"AS {MARK}"),
]

_VALUE = re.compile(
    r"(?!(?:select|from|where|group|by|having|order|limit|as|on|join|using|with|and|or|in)\b)"
    r"(?:\w|'|\").*",
    re.IGNORECASE | re.DOTALL,
)
"""A piece in whose place another value may well stand."""
_GENTLE = [*LITERALS, *CLAUSES, *NAMES, f"{MARK}()", f"'{MARK}'", f'"{MARK}"', MARK]

_positions = st.integers(0, 10_000)
_steps = st.one_of(
    st.tuples(st.just("delete"), _positions, st.integers(1, 3)),
    st.tuples(st.just("double"), _positions, st.integers(1, 12)),
    st.tuples(st.just("swap"), _positions, _positions),
    st.tuples(st.just("value"), _positions, st.sampled_from(_GENTLE)),
    st.tuples(st.just("value"), _positions, st.sampled_from(_GENTLE)),
    st.tuples(st.just("comment"), _positions, st.just(0)),
    st.tuples(st.just("insert"), _positions, st.sampled_from(FRAGMENTS)),
    st.tuples(st.just("replace"), _positions, st.sampled_from(FRAGMENTS)),
    st.tuples(st.just("splice"), _positions, st.sampled_from(CORPUS)),
    st.tuples(st.just("nest"), _positions, st.integers(1, 80)),
    st.tuples(st.just("case"), _positions, st.just(0)),
    st.tuples(st.just("text"), _positions, st.text(max_size=3)),
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A statement of the corpora after a few changes."""
    pieces = _PIECE.findall(draw(st.sampled_from(CORPUS)))
    for kind, position, what in draw(st.lists(_steps, min_size=1, max_size=4)):
        pieces = _changed(pieces or [" "], kind, position, what)
    return "".join(pieces)


def _changed(pieces: list[str], kind: str, position: int, what: int | str) -> list[str]:
    at = position % len(pieces)
    if kind in ("value", "nest"):
        values = [i for i, piece in enumerate(pieces) if _VALUE.fullmatch(piece)] or [at]
        at = values[position % len(values)]
    before, here, after = pieces[:at], pieces[at], pieces[at + 1 :]
    match kind, what:
        case "comment", _:
            return [*before, f" /* {MARK} */ ", here, f" -- {MARK}\n", *after]
        case "value", str():
            return [*before, what, *after]
        case "delete", int():
            return before + pieces[at + what :]
        case "double", int():
            return before + [*pieces[at : at + what], " "] * 2 + pieces[at + what :]
        case "swap", int():
            other = what % len(pieces)
            swapped = list(pieces)
            swapped[at], swapped[other] = pieces[other], here
            return swapped
        case "insert", str():
            return [*before, here, " ", what, " ", *after]
        case "replace", str():
            return [*before, what, *after]
        case "splice", str():
            others = _PIECE.findall(what)
            return before + others[len(others) * at // len(pieces) :]
        case "nest", int():
            return [*before, "(" * what, here, ")" * what, *after]
        case "case", _:
            return [*before, here.swapcase(), *(piece.swapcase() for piece in after)]
        case _:
            return [*before, here, str(what), *after]


def _ctes(n: int) -> str:
    return ", ".join(f"t{i} AS (SELECT * FROM {f't{i - 1}' if i else 'visits'})" for i in range(n))


def _released_ctes(n: int) -> str:
    first = "r0 AS (SELECT k, count(*) AS n FROM visits GROUP BY k)"
    return ", ".join(
        [
            first,
            *(
                f"r{i} AS (SELECT * FROM r{i - 1} UNION ALL SELECT * FROM r{i - 1})"
                for i in range(1, n)
            ),
        ]
    )


def _around(before: str, middle: str, after: str, n: int) -> str:
    return before * n + middle + after * n


_JOINED = "SELECT count(*) FROM visits v0" + "".join(
    f" JOIN visits v{i} ON v{i - 1}.uid = v{i}.uid" for i in range(1, 65)
)
_GROUPED = "(SELECT k, count(*) AS n FROM visits GROUP BY k)"
LARGE = {
    "10,000 terms": f"SELECT {'count(*) + ' * 9_999}count(*) FROM visits",
    "10,000 terms over rows": f"SELECT count(*) FROM visits WHERE {'n + ' * 9_999}n > 0",
    "1,000 parentheses": f"SELECT {'(' * 1000}count(*){')' * 1000} FROM visits",
    "1,000 brackets": f"SELECT {'[' * 1000}count(*){']' * 1000} FROM visits",
    "1,000 braces": "SELECT " + _around("{'a': ", "count(*)", "}", 1000) + " FROM visits",
    "100,000 parentheses": "(" * 100_000,
    "90,000 opening brackets": "[" * 90_000,
    "parentheses in a comment": f"SELECT count(*) FROM visits -- {'(' * 5000}",
    "a megabyte of text": f"SELECT count(*) FROM visits WHERE s = '{'x' * 1_000_000}'",
    "a megabyte of blanks": f"SELECT count(*) FROM visits{' ' * 1_000_000}",
    "a megabyte of comment": f"SELECT count(*) FROM visits /* {'x' * 1_000_000} */",
    "99,000 blanks": f"SELECT count(*) FROM visits{' ' * 99_000}",
    "40,000 nested comments": f"{'/*' * 24_000}{'*/' * 24_000} SELECT count(*) FROM visits",
    "unclosed comments": "/*" * 49_000,
    "dashes": "-" * 99_000,
    "quotes": "'" * 99_001,
    "double quotes": '"' * 99_001,
    "dollars": "$" * 99_000,
    "dollar tags": "$a" * 49_000,
    "semicolons": ";" * 99_000,
    "commas": "SELECT " + "," * 99_000,
    "dots": "SELECT a" + ".a" * 49_000 + " FROM visits",
    "stars": "SELECT " + "*" * 99_000,
    "colons": "SELECT k" + "::INT" * 19_000 + " FROM visits",
    "prefix aliases": "SELECT " + "a: " * 30_000 + "1 FROM visits",
    "arrows": "SELECT " + "x -> " * 19_000 + "x FROM visits",
    "tildes": "SELECT " + "~" * 99_000 + "k FROM visits",
    "exclamation marks": "SELECT " + "!" * 99_000 + "k FROM visits",
    "signs": "SELECT " + "+" * 99_000 + "k FROM visits",
    "ten thousand columns": "SELECT " + "k, " * 9_999 + "count(*) FROM visits GROUP BY k",
    "ten thousand counts": "SELECT " + ", ".join(["count(*)"] * 9_900) + " FROM visits",
    "ten thousand named columns": f"SELECT {', '.join(f'k a{i}' for i in range(9_900))} FROM visits",
    "a thousand aggregates": f"SELECT {', '.join(f'sum(n + {i})' for i in range(1000))} FROM visits",
    "a thousand medians": f"SELECT {', '.join(f'median(n + {i})' for i in range(1000))} FROM visits",
    "a thousand keys": f"SELECT count(*) FROM visits GROUP BY {', '.join(f'k + {i}' for i in range(1000))}",
    "ten thousand keys": f"SELECT count(*) FROM visits GROUP BY {', '.join(['k'] * 10_000)}",
    "a thousand orders": f"SELECT k, count(*) FROM visits GROUP BY k ORDER BY {', '.join(f'k + {i}' for i in range(1000))}",
    "5,000 CTEs of rows": f"WITH {_ctes(2500)} SELECT count(*) FROM t2499",
    "1,000 CTEs of rows": f"WITH {_ctes(1000)} SELECT count(*) FROM t999",
    "100 CTEs of rows": f"WITH {_ctes(100)} SELECT count(*) FROM t99",
    "5,000 idle CTEs": f"WITH {', '.join(f't{i} AS (SELECT 1)' for i in range(4000))} SELECT count(*) FROM visits",
    "CTEs that double": f"WITH {_released_ctes(40)} SELECT count(*) FROM r39",
    "CTEs of rows that double": "WITH t0 AS (SELECT uid, k FROM visits), "
    + ", ".join(
        f"t{i} AS (SELECT a.uid, a.k FROM t{i - 1} a JOIN t{i - 1} b ON a.uid = b.uid)"
        for i in range(1, 40)
    )
    + " SELECT count(*) FROM t39",
    "300 nested CASEs": f"SELECT count(*) FROM visits WHERE {'CASE WHEN flag THEN ' * 300}flag{' END' * 300}",
    "CASE of 5,000 branches": f"SELECT CASE k {' '.join(f'WHEN {i} THEN {i}' for i in range(4000))} END AS c, count(*) FROM visits GROUP BY 1",
    "30 nested subqueries": "SELECT count(*) FROM " + _around("(SELECT * FROM ", "visits", ")", 30),
    "50 nested subqueries": "SELECT count(*) FROM " + _around("(SELECT * FROM ", "visits", ")", 50),
    "1,000 nested subqueries": "SELECT count(*) FROM "
    + _around("(SELECT * FROM ", "visits", ")", 1000),
    "50 nested queries above": _around("SELECT * FROM (", _GROUPED[1:-1], ")", 50),
    "1,000 unions": _GROUPED + f" UNION ALL {_GROUPED}" * 1000,
    "150 unions": _GROUPED + f" UNION ALL {_GROUPED}" * 150,
    "1,000 blocks side by side": "SELECT * FROM " + ", ".join([_GROUPED] * 1000),
    "100 blocks side by side": "SELECT * FROM " + ", ".join([_GROUPED] * 100),
    "50 blocks in each other": _around(
        "SELECT count(*) FROM visits WHERE n > (", "SELECT 1", ")", 50
    ),
    "50 scalar blocks": "SELECT " + ", ".join(["(SELECT count(*) FROM visits)"] * 50),
    "long names": f'SELECT count(*) AS "{"x" * 90_000}" FROM visits',
    "a long name of a table": f"SELECT count(*) FROM {'visits' * 15_000}",
    "a long list": f"SELECT count(*) FROM visits WHERE k IN ({', '.join(map(str, range(15_000)))})",
    "a long list of columns": f"SELECT count(*) FROM visits WHERE k IN ({', '.join(['n'] * 5_000)})",
    "a long list of texts": f"SELECT count(*) FROM visits WHERE s IN ({', '.join(['NULL'] * 15_000)})",
    "a long list of values": f"SELECT * FROM (VALUES {', '.join(['(1)'] * 15_000)}) t(a), {_GROUPED}",
    "aliases that double": f"SELECT k AS a0, {', '.join(f'a{i} + a{i} AS a{i + 1}' for i in range(60))}, count(*) FROM visits GROUP BY ALL",
    "subqueries of aliases that double": "SELECT a, count(*) FROM "
    + _around("(SELECT *, a + a AS a FROM ", "(SELECT k AS a FROM visits)", ")", 40)
    + " GROUP BY a",
    "subqueries of sums that double": "SELECT a, count(*) FROM "
    + _around("(SELECT a + a AS a FROM ", "(SELECT k AS a FROM visits)", ")", 40)
    + " GROUP BY a",
    "64 joins": _JOINED,
    "64 public joins": "SELECT count(*) FROM visits"
    + "".join(f" JOIN shops s{i} ON visits.k = s{i}.k" for i in range(64)),
    "64 commas": "SELECT count(*) FROM visits" + "".join(f", shops s{i}" for i in range(64)),
    "64 natural joins": "SELECT count(*) FROM visits" + " NATURAL JOIN shops" * 64,
    "1,000 joins": "SELECT count(*) FROM visits"
    + "".join(f" JOIN shops s{i} USING (k)" for i in range(1000)),
    "1,000 semi-joins": "SELECT count(*) FROM visits WHERE "
    + " AND ".join(["k IN (SELECT k FROM shops)"] * 150),
    "cubes of cubes": "SELECT count(*) FROM visits GROUP BY " + ", ".join(["CUBE (k, s)"] * 1000),
    "1,000 grouping sets": f"SELECT count(*) FROM visits GROUP BY GROUPING SETS ({', '.join(['(k)'] * 1000)})",
    "intervals of intervals": "SELECT d + " + "INTERVAL " * 10_000 + "1 DAY FROM visits",
    "NOTs": "SELECT count(*) FROM visits WHERE " + "NOT " * 20_000 + "flag",
    "powers": "SELECT sum(" + "n ^ " * 10_000 + "n) FROM visits",
    "multiplied": "SELECT sum(" + "n * " * 150 + "n) FROM visits",
    "a number of 90,000 digits": f"SELECT {'9' * 90_000}, count(*) FROM visits",
    "a LIMIT of 90,000 digits": f"SELECT k, count(*) FROM visits GROUP BY k LIMIT {'9' * 90_000}",
    "an ordinal of 90,000 digits": f"SELECT k, count(*) FROM visits GROUP BY {'9' * 90_000}",
    "an order of 90,000 digits": f"SELECT k, count(*) FROM visits GROUP BY k ORDER BY {'9' * 90_000}",
    "an option of 90,000 digits": f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (k_bar = {'9' * 90_000}) count(*) FROM visits",
    "bounds of 90,000 digits": f"SELECT sum(n, contribution_bounds_per_row => (0, {'9' * 90_000})) FROM visits",
    "a fraction of 90,000 digits": f"SELECT quantile_cont(n, 0.{'9' * 90_000}) FROM visits",
    "a type of 90,000 digits": f"SELECT sum(n::DECIMAL({'9' * 90_000}, 2)) FROM visits",
    "an exponent": "SELECT sum(n + 1e999999999) FROM visits",
    "SET of 90,000 digits": f"SET epsilon = {'9' * 90_000}",
    "EXPLAIN of EXPLAIN": "EXPLAIN " * 12_000,
    "DESCRIBE of dots": "DESCRIBE a" + ".a" * 49_000,
    "words": "SELECT " * 14_000,
    "FROM first": "FROM " * 19_000,
    "WITH": "WITH a AS (" * 9_000,
    "CASE": "SELECT " + "CASE " * 19_000,
    "BETWEEN": "SELECT count(*) FROM visits WHERE k " + "BETWEEN 1 AND " * 7_000 + "1",
    "OVER": "SELECT count(*) " + "OVER (" * 15_000,
    "functions": "SELECT " + _around("abs(", "count(*)", ")", 1000) + " FROM visits",
    "collations": "SELECT s" + " COLLATE a" * 9_000 + " FROM visits",
    "time zones": "SELECT ts" + " AT TIME ZONE 'UTC'" * 5_000 + " FROM visits",
    "subscripts": "SELECT s" + "[1]" * 19_000 + " FROM visits",
    "lambdas": "SELECT " + "lambda x: " * 9_000 + "1 FROM visits",
    "filters": "SELECT count(*)" + " FILTER (WHERE flag)" * 4_500 + " FROM visits",
    "pivots": f"SELECT * FROM {_GROUPED}" + " PIVOT (sum(n) FOR k IN (1))" * 3_000,
    "as many sums as may be": f"SELECT {', '.join(f'sum(n + {i})' for i in range(100))} FROM visits",
    "as many medians as may be": f"SELECT {', '.join(f'median(n + {i})' for i in range(100))} FROM visits",
    "as many keys as may be": f"SELECT count(*) FROM visits GROUP BY {', '.join(f'k + {i}' for i in range(250))}",
    "as many columns as may be": f"SELECT k, {', '.join(f'k + {i}' for i in range(249))} FROM visits GROUP BY k ORDER BY {', '.join(f'k + {i}' for i in range(250))}",
    "as many joins as may be": "SELECT count(*) FROM visits"
    + "".join(f" JOIN shops s{i} USING (k)" for i in range(250)),
    "as many CTEs as may be": f"WITH {_ctes(249)} SELECT count(*) FROM t248",
    "as many blocks as may be": "SELECT * FROM " + ", ".join([_GROUPED] * 249),
    "as many branches as may be": f"SELECT CASE k {' '.join(f'WHEN {i} THEN {i}' for i in range(250))} END AS c, count(*) FROM visits GROUP BY 1",
    "many branches many times": "SELECT "
    + ", ".join([f"sum(CASE k {' '.join(f'WHEN {i} THEN {i}' for i in range(50))} END)"] * 80)
    + " FROM visits",
    "many different branches": "SELECT "
    + ", ".join(
        f"sum(CASE k {' '.join(f'WHEN {i + j} THEN {i}' for i in range(50))} END)"
        for j in range(80)
    )
    + " FROM visits",
    "many columns in many blocks": " UNION ALL ".join(
        [f"SELECT {', '.join(f'sum(n + {i})' for i in range(10))} FROM visits"] * 60
    ),
    "a list as long as may be": f"SELECT count(*) FROM visits WHERE k IN ({', '.join(map(str, range(14_900)))})",
    "a list of columns as long as may be": f"SELECT count(*) FROM visits WHERE k IN ({', '.join(['n'] * 12_400)})",
    "a thousand sums in lists": f"SELECT [{', '.join(f'sum(n + {i})' for i in range(1000))}] FROM visits",
    "a fraction of many digits": "SELECT quantile_cont(n, 1e-999999999) FROM visits",
    "windows": f"SELECT k, {', '.join(['sum(count(*)) OVER ()'] * 1000)} FROM visits GROUP BY k",
}
"""Statements of a size that nobody means, by what there is so much of."""
