# ruff: noqa: E501
"""With noise of zero an answer is the engine's own: what both worlds do wrong alike is found here.

Random statements over ordinary rows, whose bounds cut nothing off, are asked of dpsql on each
engine, and as they are of DuckDB over the same rows.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import duckdb

import dpsql
from dpsql.views import views

from .programs import WorldsGrammar
from .readers import Reader, policy_tables
from .rows import ordinary

WIDE: Final[dict[str, Any]] = {
    "epsilon": 5.0, "max_groups_contributed": 1000, "max_rows_contributed": 1000,
}  # fmt: skip
"""Bounds that cut off nothing of ordinary rows."""


@dataclass
class Compared:
    """What became of statements."""

    asked: int = 0
    answered: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)


class Questions:
    """Random conditions and keys, the same by the same seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._grammar = WorldsGrammar(seed)
        self._grammar._reweigh()

    def draw(self) -> str:
        """The next question: an aggregate by a key, under conditions."""
        rng = self._rng
        where = " AND ".join(self._condition() for _ in range(rng.choice((1, 1, 2))))
        aggregate = rng.choice(
            ("count(*)", "count(*)", "count(DISTINCT uid)", "sum(i32)", "count(s)", "count(DISTINCT i32)", "avg(f64)", f"count(*) FILTER (WHERE {self._condition()})")
        )  # fmt: skip
        key = rng.choice(("s", "d", "i32 % 4", "upper(s)", self._value(), ""))
        if not key:
            return f"SELECT {aggregate} AS n FROM t WHERE {where}"
        return f"SELECT {key} AS g, {aggregate} AS n FROM t WHERE {where} GROUP BY 1"

    def _value(self) -> str:
        rng = self._rng
        a, b = rng.randrange(-3, 18), rng.randrange(1, 9)
        return rng.choice(
            (
                f"i32 + {a}", f"i32 * {b}", f"i32 // {b}", f"i32 % {b}", f"abs(i32 - {b})", f"greatest(i32, {a})", f"least(i32, {a}, {b})",
                f"greatest(i32 // (i32 - {b}), {a})", f"least(i32 % (i32 - {b}), {b})", f"coalesce(i32 // (i32 - {b}), {a})", f"nullif(i32, {b})",
                f"CASE WHEN i32 > {a} THEN 'x' ELSE s END", f"concat(s, '{b}')", f"concat(s, i32 // (i32 - {b}))", "lower(upper(s))", f"substring(s, {b}, 1)",
                "length(s)", f"CAST(i32 AS VARCHAR) || '{b}'", f"CAST(f64 AS INTEGER) + {a}", f"round(f64 / {b})", "date_trunc('month', d)",
                "extract(day FROM ts)", "d + INTERVAL 1 DAY", f"if(i32 > {a}, {a}, {b})", f"i32 - {a} > {b}", f"TRY_CAST(substring(s, 2, 1) AS INTEGER) + {a}",
            )
        )  # fmt: skip

    def _condition(self) -> str:
        rng = self._rng
        if rng.random() < 0.15:
            self._grammar.rng = random.Random(rng.random())
            self._grammar._made, self._grammar._values = [], []
            self._grammar._enter("two")
            self._grammar.table = "t"
            return self._grammar._condition(1)
        a, b, text = rng.randrange(18), rng.randrange(18), f"s{rng.randrange(6)}"
        no = rng.choice(("", "NOT "))
        return rng.choice(
            (
                f"s {no}LIKE '{text}'", f"s {no}LIKE '{text[0]}%'", f"s {no}ILIKE '{text.upper()}'", f"s {no}LIKE '_{text[1]}'", f"s {no}SIMILAR TO '{text}|s1'",
                f"i32 {no}BETWEEN {a} AND {b}", f"i32 {no}BETWEEN SYMMETRIC {a} AND {b}", f"i32 BETWEEN ASYMMETRIC {a} AND {b}", f"s {no}IN ('{text}', 's1')",
                f"i32 {no}IN ({a}, {b}, NULL)", f"s IS {no}NULL", f"(i32 > {a}) IS {no}TRUE", f"i32 IS {no}DISTINCT FROM {a}", f"{no}(s = '{text}' OR i32 < {a})",
                f"i32 {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {a}", f"f64 > {a / 2}", f"{no}starts_with(s, '{text}')", f"{no}contains(s, '{text[1]}')",
                f"greatest(i32, {a}) > {b}", f"least(i32 // (i32 - {b}), {a}) >= 0", f"coalesce(nullif(i32, {a}), {b}) > 5", f"d {no}BETWEEN DATE '2026-01-03' AND DATE '2026-01-06'",
                f"ts >= TIMESTAMP '2026-01-0{1 + a % 9} 10:00'", f"extract(hour FROM ts) {no}IN ({a}, {b})", f"length(s || '{text}') > 3", f"(i32 > {a}) <> (i32 > {b})",
                f"{self._value()} IS NOT NULL", f"i32 % 2 = {a % 2} {rng.choice(('AND', 'OR'))} f64 < {b}", f"s {no}LIKE '%' || '{text[1]}'", f"s {no}LIKE 's!_' ESCAPE '!'",
            )
        )  # fmt: skip


def compare(reader: Reader, directory: Path, statements: int, seed: int = 1) -> Compared:
    """Ask statements of a reader's engine, in whose rows the unit is not; noise is zero already."""

    found, questions = Compared(), Questions(seed)
    own = duckdb.connect(":memory:", config={"threads": "1"})
    for table in ordinary().values():
        given = table.arrow
        own.register("__given", given)
        own.execute(f"CREATE TABLE {table.name} AS SELECT * FROM __given")
    reader.make(directory / "made", directory / "world", 0, False)
    before = os.getcwd()
    os.chdir(directory / "world")
    try:
        policy = dpsql.parse_policy(
            '{"version": 1, "dataset": "two", "defaults": {"left_out_share": 0},'
            '"accounts": {"ana": {"epsilon": 1000, "delta": 0.4}},'
            + policy_tables(reader.listed, typed=reader.typed).replace("MINIMUM", "1")
            + "}"
        )
        database = reader.database()
        number = 0
        while found.asked < statements:
            with dpsql.connect(database, policy, f"ledger{number}.db", "ana") as connection:
                for _ in range(60):
                    _ask(connection, own, questions.draw(), found)
            number += 1
        if hasattr(database, "close"):
            database.close()
    finally:
        os.chdir(before)
        own.close()
    return found


def _ask(
    connection: dpsql.Connection, own: duckdb.DuckDBPyConnection, text: str, found: Compared
) -> None:
    found.asked += 1
    try:
        answered = connection.sql(text, **WIDE).fetchall()
    except dpsql.Error as error:
        found.codes[error.code] += 1
        if isinstance(error, dpsql.EngineError):
            found.different.append(f"{text}: {error.code}")
        return
    found.answered += 1
    grouped = " GROUP BY 1" in text
    try:
        expected = own.execute(_as_dpsql_means(text)).fetchall()
    except duckdb.Error:
        return  # it fails on a row, which dpsql makes NULL: there is nothing to compare with
    if not same(answered, expected, grouped=grouped):
        found.different.append(
            f"{text}: {sorted(answered, key=repr)[:4]} and {sorted(expected, key=repr)[:4]}"
        )


def compare_views(reader: Reader, directory: Path, window: int | None) -> list[str]:
    """Publish views of counts step by step, over all steps or a window of them; list differences.

    Noise is zero already, and every group that anybody is in is shown.
    """
    rows = ordinary()["t"].arrow
    own = duckdb.connect(":memory:", config={"threads": "1"})
    own.register("t", rows)
    reader.make(directory / "made", directory / "world", 0, False)
    different: list[str] = []
    before, now = os.getcwd(), views._now
    os.chdir(directory / "world")
    try:
        database = reader.database()
        policy = dpsql.parse_policy(
            '{"version": 1, "dataset": "two", "accounts": {"ana": {"epsilon": 1000, "delta": 0.4}},'
            '"views": {"directory": "states"},'
            + policy_tables(reader.listed, typed=reader.typed).replace("MINIMUM", "1")
            + "}"
        )
        views._now = lambda: datetime(2026, 1, 7, 1, tzinfo=UTC)
        over = "" if window is None else f", window = '{window} days'"
        given = f"step = '1 day', start = '2026-01-01', steps = 6, epsilon = 50{over}"
        bounds = "max_groups_contributed = 1000, max_rows_contributed = 1000"
        for number, aggregate in enumerate(("count(DISTINCT uid)", "count(*)")):
            made = (
                f"CREATE MATERIALIZED VIEW v{number} WITH ({given}, {bounds}) AS "
                f"SELECT f64 > 4 AS g, {aggregate} AS n FROM t GROUP BY g"
            )
            with dpsql.connect(database, policy, f"views{number}.db", "ana") as connection:
                connection.sql(made)
                connection.sql(f"REFRESH MATERIALIZED VIEW v{number}")
                found = connection.sql(f"SELECT step, g, n FROM v{number}").fetchall()
            different += _steps(own, aggregate, window, found)
    finally:
        views._now = now
        os.chdir(before)
        own.close()
    return different


def _steps(
    own: duckdb.DuckDBPyConnection, aggregate: str, window: int | None, found: list[Any]
) -> Iterator[str]:
    for step in range(1, 7):
        first = 1 if window is None else max(1, step - window + 1)
        sql = (
            f"SELECT f64 > 4, {aggregate} FROM t WHERE ts >= DATE '2026-01-01' + {first - 1} "
            f"AND ts < DATE '2026-01-01' + {step} GROUP BY 1"
        )
        expected = dict(own.execute(sql).fetchall())
        answered = {g: n for at, g, n in found if at == step}
        shown = {g: n for g, n in answered.items() if n}
        if shown != expected:
            yield f"{aggregate}, step {step}: {answered} and {expected}"


def _as_dpsql_means(text: str) -> str:
    """A statement as it is, with what sums and averages of nothing are where noise is added."""
    text = text.replace("sum(i32)", "coalesce(sum(i32), 0)")
    return text.replace("avg(f64)", "coalesce(avg(f64), 3.75)")  # the middle of its bounds


def same(one: Sequence[Any], other: Sequence[Any], *, grouped: bool) -> bool:
    """Whether two answers are the same rows, averages and sums up to the steps they come in.

    Groups that nobody is counted in may be left out: with counts of zero they are not named.
    """
    left, right = (_by_key(rows) for rows in (one, other))
    if grouped:
        right = {
            key: value for key, value in right.items() if value not in (0, None) or key in left
        }
    if left.keys() != right.keys():
        return False
    return all(_close(left[key], right[key]) for key in left)


def _by_key(rows: Sequence[Any]) -> dict[Any, Any]:
    return {tuple(map(_normal, row[:-1])): row[-1] for row in rows}


def _normal(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9) + 0.0
    return str(value) if value is not None and not isinstance(value, bool | int) else value


def _close(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other or (one in (0, None) and other in (0, None))
    return math.isclose(float(one), float(other), rel_tol=1e-3, abs_tol=1e-2)
