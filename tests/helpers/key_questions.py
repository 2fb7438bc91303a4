"""Questions whose keys are public by themselves, over rows that try to leave their domains."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb

Row = tuple[Any, ...]

POLICY = """
version: 1
dataset: shop
defaults: {epsilon: 1, delta: 1e-8, max_rows_contributed: 4}
accounts:
  ana: {epsilon: 1000, delta: 1e-2}
tables:
  menu:
    privacy_unit: {name: user, column: id}
    columns:
      plan: {domain: [free, paid]}
      x: {lower: 0, upper: 59}
  codes: {public: true}
"""
CODES = (("name", "VARCHAR"), ("x", "INTEGER"), ("since", "DATE"), ("label", "VARCHAR"))
CODE_ROWS = (
    ("a", 1, datetime.date(2024, 1, 1), "one"),
    ("A", 6, datetime.date(2024, 2, 29), "six"),
    ("zz", 8, datetime.date(1969, 12, 31), None),
)
OVER_CODES = (
    ("label", "JOIN codes c USING (name)", 3),
    ("m.name", "JOIN codes c USING (name)", 3),
    ("since", "JOIN codes c ON m.x = c.x", 3),
    ("m.x", "SEMI JOIN codes c ON m.x = c.x", 3),
    ("label", "JOIN codes c USING (name) WHERE c.x < 7 AND c.label <> 'one'", 1),
    ("label", "LEFT JOIN codes c USING (name)", 3),
    ("label", "JOIN codes c USING (name) WHERE c.x % 2 = 0 AND length(c.label) = 3", 1),
    ("year(since)", "JOIN codes c ON m.x = c.x", 2),
    ("label, m.name, since", "JOIN codes c USING (name)", 3),
    ("label, c.x, m.ok", "LEFT JOIN codes c USING (name)", 12),
    ("date_trunc('month', since)", "LEFT JOIN codes c ON m.x = c.x AND c.x < 7", 4),
    ("m.x % 4", "JOIN codes c ON m.x = c.x", 3),
    ("c.name || label", "JOIN codes c USING (name)", 3),
    ("substr(c.name, 1, 1) || c.x", "LEFT JOIN codes c USING (name)", 4),
    ("coalesce(label, 'none')", "LEFT JOIN codes c USING (name)", 3),
    ("e.label", "JOIN codes c USING (name) JOIN codes e ON c.x < e.x WHERE c.label = 'one'", 2),
    (
        "c.name || length(e.label)",
        "JOIN codes c ON m.x = c.x JOIN codes e ON m.x = e.x WHERE e.label >= 'a'",
        2,
    ),
    ("c.x, e.label", "JOIN codes c USING (name) JOIN codes e ON c.x = e.x AND e.x < 7", 2),
)
"""A key, a join of ``menu m`` with the public table, and how many values the key can have."""
GIVEN = (
    ("label", "codes c LEFT JOIN menu m USING (name)", "m.x"),
    ("c.name", "menu m RIGHT JOIN (SELECT * FROM codes WHERE x % 2 = 0) c ON m.x = c.x", "m.x"),
    ("since", "codes c LEFT JOIN menu m ON m.x = c.x AND m.ok WHERE c.x > 5", "m.x"),
    ("c.x + 1", "codes c LEFT JOIN menu m ON m.x >= c.x AND m.name <> c.name", "m.price"),
    ("k", "(VALUES ('a'), ('ä'), ('zz'), (NULL)) v(k) LEFT JOIN menu m ON m.name = k", "m.name"),
    ("k", "(VALUES (DATE '2024-02-29'), (NULL)) v(k) LEFT JOIN menu m ON m.d = k", "d"),
    ("k", "(VALUES (TRUE), (FALSE)) v(k) LEFT JOIN menu m ON m.ok = k", "CAST(x AS BIGINT) + 1"),
    (
        "lo",
        "(VALUES (-9, 0), (0, 7), (7, 900)) v(lo, hi) LEFT JOIN menu ON x >= lo AND x < hi",
        "x",
    ),
    ("c.x, c.name, label, since", "codes c LEFT JOIN menu m ON m.x = c.x", "m.id"),
    ("year(since), c.x, month(since)", "codes c LEFT JOIN menu m ON m.x = c.x", "m.id"),
    ("k", "unnest(['a', 'b', 'b ', NULL]) k LEFT JOIN menu m ON m.name = k", "m.id"),
    ("lo", "range(-10, 60, 10) r(lo) LEFT JOIN menu ON x >= lo AND x < lo + 10", "id"),
    ("k, l", "(VALUES (1), (7)) v(k), (VALUES ('a'), ('b')) w(l) LEFT JOIN menu ON x = k", "id"),
)
"""Keys of public rows that an outer join keeps, the join, and a private value to count."""
COLUMNS = (
    ("id", "BIGINT"),
    ("name", "VARCHAR"),
    ("plan", "VARCHAR"),
    ("x", "INTEGER"),
    ("price", "DOUBLE"),
    ("amount", "DECIMAL(8,2)"),
    ("ok", "BOOLEAN"),
    ("d", "DATE"),
    ("ts", "TIMESTAMP"),
)
_NAMES = ("a", "a ", "A", "ä", "", "b", None)
_PRICES = (0.0, -0.0, 15.0, 15.000000000000002, math.nan, math.inf, -math.inf, None)
_DAYS = (
    datetime.date(1, 1, 1),
    datetime.date(1969, 12, 31),
    datetime.date(2024, 1, 1),
    datetime.date(2024, 1, 31),
    datetime.date(2024, 2, 29),
    datetime.date(2024, 3, 1),
    datetime.date(9999, 12, 31),
    None,
)
_MOMENTS = (
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(2023, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(2024, 1, 1),
    datetime.datetime(2024, 1, 1, 0, 0, 0, 1),
    datetime.datetime(2024, 2, 9, 23, 59, 59, 999_999),
    datetime.datetime(2024, 2, 10),
    datetime.datetime(2024, 5, 5, 12, 30),
    None,
)
_NUMBERS = (-2_147_483_648, -8, -1, 0, 1, 6, 7, 50, 51, 59, 2_147_483_647, None)


def fill(made: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> None:
    """Make the tables in a database, with some rows."""
    for table, columns, held in (("menu", COLUMNS, rows), ("codes", CODES, CODE_ROWS)):
        made.execute(f"CREATE TABLE {table} ({', '.join(f'{n} {t}' for n, t in columns)})")
        if held:
            marks = ", ".join([f"({', '.join('?' * len(columns))})"] * len(held))
            values = [value for row in held for value in row]
            made.execute(f"INSERT INTO {table} VALUES {marks}", values)


def with_buckets(made: duckdb.DuckDBPyConnection) -> None:
    """Give a DuckDB the function that PostgreSQL and Spark have."""
    inside = "CAST(floor((x - lo) * n / (hi - lo)) AS BIGINT) + 1"
    made.execute(
        "CREATE MACRO width_bucket(x, lo, hi, n) AS CASE WHEN x < lo THEN 0 "
        f"WHEN x >= hi THEN n + 1 WHEN x IS NOT NULL THEN {inside} END"
    )


def menu(rows: int = 700) -> list[Row]:
    """Rows in which all values of all columns meet, one of each unit."""
    return [
        (
            i,
            _NAMES[i % 7],
            ("free", "paid")[i % 2],
            _NUMBERS[i % 12],
            _PRICES[i % 8],
            Decimal(i % 5) / 2,
            (True, False, None)[i % 3],
            _DAYS[(i // 3) % 8],
            _MOMENTS[(i // 5) % 8],
        )
        for i in range(rows)
    ]


OF_QUOTIENTS = (
    ("least(greatest(x // 10, 0), 5)", "TRUE", 6),
    ("1 + greatest(-1, least(x // 7, 2))", "TRUE", 5),
)
"""Some of ``KNOWN`` that servers refuse: there a quotient may fail, and an extreme skips NULL."""
KNOWN = (
    # Conditions make the domain.
    ("name", "name IN ('a', 'ä', 'zz')", 3),
    ("name", "'a' = name", 1),
    ("name", "name IN ('a', NULL)", 1),
    ("name", "(name = 'a' AND x > 3) OR (name = 'b' AND price < 2)", 2),
    ("name", "name IN ('a', 'b') AND name <> 'b'", 1),
    ("x", "x BETWEEN 0 AND 7", 8),
    ("x", "x > -9 AND x <= 1 AND x <> 0", 9),
    ("x", "x IN (1, -1, 6) OR x = 7", 4),
    ("x", "x > 2147483640", 7),
    ("d", "d >= '2024-02-27' AND d < DATE '2024-03-02'", 4),
    ("d", "d BETWEEN DATE '2024-01-01' AND '2024-01-31'", 31),
    ("ts", "ts IN ('2024-01-01', '2024-01-01 00:00:00.000001')", 2),
    ("ok", "ok", 1),
    ("month(d)", "month(d) IN (1, 2)", 2),
    ("x % 7", "x % 7 = 1 AND ok", 1),
    # Conditions on the column of an expression do.
    ("month(d)", "d BETWEEN '2024-02-01' AND '2024-03-31'", 2),
    ("date_trunc('month', d)", "d >= '2024-01-01' AND d < '2024-03-01'", 2),
    ("date_trunc('month', ts)", "ts >= '2024-01-01 00:00:00.000001' AND ts < '2024-02-10'", 2),
    ("date_trunc('day', ts)", "ts > '2024-02-09' AND ts <= TIMESTAMP '2024-02-10 00:00:00'", 2),
    ("CAST(ts AS DATE)", "ts >= '2023-12-31 23:59:59' AND ts < '2024-01-01 00:00:00.000001'", 2),
    ("hour(ts)", "ts > '2023-12-31 23:00:00' AND ts < '2024-01-01 01:00:00'", 2),
    ("dayname(ts)", "ts >= '2024-02-09' AND ts < '2024-02-11'", 2),
    ("monthname(d)", "d BETWEEN '2024-02-01' AND '2024-03-31'", 2),
    ("x % 7", "x BETWEEN 0 AND 50", 7),
    ("x // 10", "x >= -8 AND x <= 51", 6),
    ("x > 5", "x BETWEEN 6 AND 7", 1),
    ("date_trunc('year', d)", "d IN ('2024-01-01', '1969-12-31')", 2),
    # Conditions on the day, the year or the period of a column leave values of it, too.
    ("month(d)", "year(d) = 2024", 12),
    ("month(d), plan", "EXTRACT(YEAR FROM d) BETWEEN 2024 AND 2024", 24),
    ("d", "date_trunc('month', d) = '2024-02-01'", 29),
    ("d", "'2024-02-27' <= date_trunc('day', d) AND year(d) < 2025 AND d < '2024-03-02'", 4),
    ("date_trunc('hour', ts)", "CAST(ts AS DATE) = DATE '2024-02-09'", 24),
    ("date_trunc('month', ts)", "date_part('year', ts) IN (2023, 2024)", 24),
    ("CAST(ts AS DATE)", "date_trunc('week', ts) >= '2024-02-05' AND ts < '2024-02-12'", 7),
    (
        "date_trunc('day', ts)",
        "date_trunc('quarter', ts) < '2024-04-01' AND ts >= '2024-02-09'",
        52,
    ),
    # The form of an expression does.
    ("ok", "TRUE", 3),
    ("month(d)", "TRUE", 13),
    ("quarter(d)", "d IS NOT NULL", 5),
    ("dayofweek(d)", "TRUE", 8),
    ("isodow(d)", "TRUE", 8),
    ("dayname(d)", "TRUE", 8),
    ("monthname(ts)", "TRUE", 13),
    ("extract(week FROM d)", "TRUE", 54),
    ("hour(ts)", "TRUE", 25),
    ("minute(ts)", "TRUE", 61),
    ("x % 7", "TRUE", 14),
    # Rows without a unit are not read, and what conditions say is not NULL.
    ("id % 3", "TRUE", 5),
    ("id > 5", "TRUE", 2),
    ("x % 3", "x IS NOT NULL", 5),
    ("x > 6", "ok AND NOT (x IS NULL)", 2),
    ("dayname(d)", "d IS NOT NULL", 8),
    ("dayname(d)", "d > '1900-01-01'", 8),
    ("dayname(d)", "d BETWEEN '1900-01-01' AND '2100-01-01'", 7),
    ("month(ts)", "ts >= '1900-01-01' AND ts < '2100-01-01'", 12),
    ("sign(id), ok", "ok IS NOT NULL AND id > -3", 6),
    ("x % 7", "x > 3", 13),
    ("price > 15", "TRUE", 3),
    ("price = 0", "TRUE", 3),
    ("price > 15 OR ok", "TRUE", 3),
    ("name = 'a'", "TRUE", 3),
    ("name LIKE 'a%'", "TRUE", 3),
    ("name IS NULL", "TRUE", 2),
    ("x > 5", "x >= -8", 2),
    ("NOT ok", "ok IN (TRUE, FALSE)", 2),
    ("least(greatest(x, 0), 59) // 10", "TRUE", 6),
    ("greatest(-1, least(x, 2)) + 1", "TRUE", 5),
    *OF_QUOTIENTS,
    ("month(d) - 1", "TRUE", 13),
    ("CASE WHEN price > 15 THEN 'dear' ELSE 'cheap' END", "TRUE", 2),
    ("CASE WHEN price > 15 THEN 'dear' WHEN price < 1 THEN 'cheap' END", "TRUE", 3),
    ("width_bucket(x, 0, 60, 6)", "TRUE", 9),
    ("width_bucket(price, -1, 16, 17)", "ok", 20),
    ("width_bucket(x, 0, 50, 3)", "x BETWEEN 6 AND 50", 4),
    ("CASE name WHEN 'a' THEN 1 WHEN 'b' THEN -2 ELSE 1 END", "TRUE", 2),
)
"""A key, a condition, and how many values the key can have."""
SEVERAL = (
    ("ok, month(d)", "TRUE", 39),
    ("plan, price > 15", "plan = 'free'", 3),
    ("name, dayofweek(d)", "name IN ('a', 'b')", 16),
)
UNKNOWN = (
    ("name", "name = 'a' OR x = 3"),
    ("name", "NOT (name <> 'a')"),
    ("name", "CASE WHEN ok THEN name = 'a' ELSE name = 'b' END"),
    ("name", "name IN ('a', plan)"),
    ("name", "lower(name) = 'a'"),
    ("name", "name LIKE 'a'"),
    ("name", "name <= 'b'"),
    ("name", "(name = 'a') IS NOT TRUE"),
    ("name", "COALESCE(name, 'a') = 'a'"),
    ("x", "x BETWEEN 0 AND 7000"),
    ("x", "x > 3"),
    ("x", "x = 1.0"),
    ("x", "x + 1 = 2"),
    ("x", "x BETWEEN 0 AND price"),
    ("price", "price IN (0.0, 15.0)"),
    ("amount", "amount IN (1, 1.50)"),
    ("d", "d >= '2024-01-01'"),
    ("date_trunc('month', d)", "d >= '2024-01-01'"),
    ("date_trunc('minute', ts)", "ts >= '2024-01-01' AND ts < '2024-01-02'"),
    ("year(d)", "TRUE"),
    ("length(name)", "TRUE"),
    ("x // 7 + x % 3", "TRUE"),
    ("least(greatest(x * 2, 0), 9)", "TRUE"),
    ("least(amount, 9)", "TRUE"),
    ("CASE WHEN ok THEN name ELSE 'a' END", "TRUE"),
    ("CASE WHEN ok THEN 1 ELSE 1.5 END", "TRUE"),
    ("name, month(d)", "TRUE"),
)
"""Keys whose values nothing tells."""
