"""Ask a statement of dpsql without noise, and of the engine, and say by which rules they differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pytest
from helpers.zero_noise import silence
from numpy.typing import NDArray

import dpsql
from dpsql.kinds.base import ReleaseKind
from dpsql.kinds.released import NumericArray
from dpsql.policy.model import AccountPolicy
from dpsql.privacy.mechanisms.bounds_choice import BoundDraw
from dpsql.privacy.mechanisms.quantiles import ExponentialQuantile, Histograms, _stretches
from dpsql.syntax.parse import parse
from dpsql.syntax.text import to_sql

from .rules import Row, equal, gives_groups, has_ties, is_bounded, rules_between
from .worlds import NOW, World, world

WIDE: Final[dict[str, Any]] = {
    "epsilon": 20.0,
    "max_groups_contributed": 1000,
    "max_rows_contributed": 100,
    "k_bar": 10_000,
    "left_out_share": 0.0,
    "combine": "off",
}
"""Bounds that cut nothing of the worlds' rows."""
_BITS: Final = 31
"""Of the most that a unit adds to a sum, in steps: finer than in the product."""


def without_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no noise, found bounds that cut nothing, exact quantiles, and time that stands still."""
    silence(monkeypatch)

    def widest(self: BoundDraw, weights: Sequence[int], source: object) -> int:
        over = list(accumulate(reversed(weights)))[-2::-1]
        return next(
            (rung for rung, tail in zip(self.rungs, over, strict=True) if not tail), self.rungs[-1]
        )

    def nearest(
        self: ExponentialQuantile, histograms: Histograms, source: object
    ) -> NDArray[np.int64]:
        found = _stretches(histograms, self)
        ends = np.append(found.first[1:], len(found.low))
        drawn = []
        for first, end in zip(found.first, ends, strict=True):
            there = [i for i in range(first, end) if found.width[i] > 0]
            drawn.append(
                found.low[min(there, key=lambda i: (found.distance[i], (i - first + 1) % 2))]
            )
        return np.array(drawn, dtype=np.int64)

    def finer(sensitivity: int) -> int:
        return 1 << max(0, sensitivity.bit_length() - _BITS)

    def certain(self: ReleaseKind, answers: dict[str, NumericArray]) -> dict[str, NumericArray]:
        """Have intervals, which conditions of any row read, end at the value itself."""
        block = self.plan.block
        named = [block.interval_columns(asked.aggregate) for asked in block.noise_columns]
        # Of a spread, which has several, the formulas that ask do not divide by 0 themselves.
        values = [answers[n[0]] if len(n) == 1 else np.ones(len(answers[n[0]])) for n in named]
        ends = {block.noise_column(place): value for place, value in enumerate(values)}
        return answers | ends

    monkeypatch.setattr(ReleaseKind, "with_noise_columns", certain)
    monkeypatch.setattr(BoundDraw, "draw", widest)
    monkeypatch.setattr(ExponentialQuantile, "_draw", nearest)
    monkeypatch.setattr(ExponentialQuantile, "beyond", property(lambda self: 0))
    for module in ("dpsql.ir.measures", "dpsql.sql.expressions.lattices"):
        monkeypatch.setattr(f"{module}.coarsening_for", finer)
    monkeypatch.setattr("dpsql.pipeline.clock.present_moment", lambda: NOW.replace(tzinfo=UTC))


_CLOCK = re.compile(
    r"\b(?:(current_date|today\(\)|curdate\(\))|(now\(\)|current_timestamp|localtimestamp|getdate\(\)))(?:\(\))?",
    re.IGNORECASE,
)
_AGE = re.compile(r"\bAGE\((?=(?:[^(),]|\([^()]*\))*\))", re.IGNORECASE)  # of one moment: today's
_PRIVATE = r"\b(WITH (?:DIFFERENTIAL_PRIVACY|ANONYMIZATION))\b"
_OPTIONS = re.compile(rf"{_PRIVATE} OPTIONS \((?:[^()]|\([^()]*\))*\)", re.IGNORECASE)
_BOUNDS = re.compile(
    r"\s+CLAMPED BETWEEN \S+ AND [^\s)]+|,\s*contribution_bounds_per_\w+ => \([^()]*\)",
    re.IGNORECASE,
)
# Words of other systems, as docs/sql.md says that they are read.
_WORDS: Final = (
    "date_format(t, f) AS strftime(t, f)",
    "to_char(t, f) AS "
    "strftime(t, replace(replace(replace(replace(replace(replace(replace("
    "f, 'IYYY', '%G'), 'IW', '%V'), "
    "'YYYY', '%Y'), 'MM', '%m'), 'DD', '%d'), 'HH24:MI', '%H:%M'), 'Mon', '%b'))",
    "width_bucket(x, low, high, n) AS CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 "
    "ELSE CAST(floor((x - low) * n / (high - low)) AS INTEGER) + 1 END",
)
# Casts that other systems make without a word, which the engine wants to be written.
_SILENT: Final = (
    (re.compile(r"'\\m(\w+)\\M'"), r"'\\b\1\\b'"),
    (re.compile(r"\b(\w+_date|birthday|day) LIKE\b"), r"\1::VARCHAR LIKE"),
    (re.compile(r"\bsubstr\(birthday\b", re.I), "substr(birthday::VARCHAR"),
    (re.compile(r"\bTO_CHAR\((\w+), 'YYYY-\"Q\"Q'\)"), r"year(\1) || '-Q' || quarter(\1)"),
    (re.compile(r"\bDATE_FORMAT\((\w+), 'MMM'\)"), r"strftime(\1, '%b')"),
    (re.compile(r"\bEXTRACT\(ISOWEEK\b"), "EXTRACT(WEEK"),
    (re.compile(r"\bEXTRACT\(DATE FROM (\w+)\)"), r"\1::DATE"),
    (re.compile(r"\b(?:FORMAT|DATE_FORMAT)\((\w+), 'yyyy-MM'\)", re.I), r"strftime(\1, '%Y-%m')"),
    (
        re.compile(r"\bCROSS APPLY STRING_SPLIT\((\w+), ','\) AS s"),
        r", LATERAL (SELECT UNNEST(string_split(\1, ',')) AS value) s",
    ),
    (
        re.compile(r"\bFROM_UNIXTIME\((.*?)\) AS bucket"),
        r"make_timestamp((\1) * 1000000) AS bucket",
    ),
    (re.compile(r"\bFROM_UNIXTIME\(UNIX_TIMESTAMP\(ts\), '%Y'\)"), "STRFTIME(ts, '%Y')"),
    (re.compile(r"\bTO_CHAR\((\w+), 'Day'\)", re.I), r"rpad(strftime(\1, '%A'), 9, ' ')"),
    (re.compile(r"\bSTUFF\((\w+), 1, 3, ''\)"), r"CASE WHEN \1 <> '' THEN substr(\1, 4) END"),
    (re.compile(r"\bCONVERT\(VARCHAR, (\w+), 120\)"), r"strftime(\1, '%Y-%m-%d %H:%M:%S')"),
    (
        re.compile(r"\bSUBSTRING_INDEX\((\w+), '/', 3\)"),
        r"array_to_string(string_split(\1, '/')[1:3], '/')",
    ),
    (re.compile(r"\btoUInt8\((\w+)\)"), r"\1::INT"),
    (
        re.compile(r"\bPERIOD_DIFF\(DATE_FORMAT\((.+?), '%Y%m'\), DATE_FORMAT\((\w+), '%Y%m'\)\)"),
        r"date_diff('month', \2, \1)",
    ),
    (re.compile(r"\b(STRFTIME\(\w+, '%Y'\)) - (STRFTIME\(\w+, '%Y'\))"), r"\1::INT - \2::INT"),
)


def without_options(sql: str) -> str:
    """Return the statement without numbers of groups and rows that would cut something."""
    return _OPTIONS.sub(r"\1", sql)


def at_the_moment(sql: str) -> str:
    """Put constants in the place of the clock, and leave words about privacy out."""
    sql = _BOUNDS.sub("", re.sub(_PRIVATE, "", without_options(sql), flags=re.IGNORECASE))
    sql = _AGE.sub(f"AGE(TIMESTAMP '{NOW.date()}', ", sql)
    return _CLOCK.sub(
        lambda found: f"DATE '{NOW.date()}'" if found[1] else f"TIMESTAMP '{NOW}'",
        re.sub(r"\bANON_(?=[A-Z_]+\()", "", sql),
    )


@dataclass(frozen=True)
class Verdict:
    """By which rules an answer differs; or how it differs by none of them."""

    rules: frozenset[str]
    difference: str = ""


class Comparison:
    """A world's connections, and the engine with the rows that are somebody's."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world, self.name = world, world.name
        path = directory / f"{world.name}.duckdb"
        with duckdb.connect(str(path)) as owner:
            world.fill(owner, nobodys=True)
        self.own = duckdb.connect(":memory:")
        world.fill(self.own, nobodys=False)
        for macro in _WORDS:
            self.own.execute(f"CREATE MACRO {macro}")
        undeclared = {
            key: replace(
                table, columns={n: replace(c, domain=None) for n, c in table.columns.items()}
            )
            for key, table in world.policy.tables.items()
        }
        rich = replace(world.policy, accounts={"ana": AccountPolicy("ana", 1e6, 0.9)})
        # Preparations are kept by a connection, so each way of asking has its own.
        policies = {
            "usual": rich,
            "known keys": rich,
            "declared values": replace(rich, tables=undeclared),
        }
        self.connections = {
            name: dpsql.connect(path, policy, directory / f"{name}.db", "ana", **WIDE)
            for name, policy in policies.items()
        }

    def close(self) -> None:
        """Close all that was opened."""
        for connection in self.connections.values():
            connection.close()
        self.own.close()

    def own_text(self, sql: str) -> str:
        """Return the statement as the engine reads it; words it lacks are read by dpsql.

        It has no columns that keys decide, but proposes another way to write them.
        """
        text = at_the_moment(sql).replace(f"{self.name}.", "main.")
        for silent, written in _SILENT:
            text = silent.sub(written, text)
        try:
            while (found := self._ungrouped(text)) is not None:
                parts = re.split(r"( FROM .* GROUP BY )", text)  # whose keys are others
                one = re.compile(rf"(?<![(.])\b((?:\w+\.)?{found})\b")
                before, text = (
                    text,
                    "".join(
                        part if place % 2 else one.sub(r"ANY_VALUE(\1)", part)
                        for place, part in enumerate(parts)
                    ),
                )
                assert text != before, text
        except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException):
            return to_sql(parse(text))
        return text

    def _ungrouped(self, text: str) -> str | None:
        """Name a column that the engine misses among the keys. Raises its other errors."""
        try:
            self.own.execute(f"EXPLAIN {text}")
        except duckdb.BinderException as error:
            found = re.search(r'column "(\w+)" must appear in the GROUP BY', str(error))
            if found is None:
                raise
            return found[1]
        return None

    def ask(self, sql: str, connection: str = "usual") -> list[Row]:
        """Ask dpsql. Raises ``dpsql.Error``."""
        return self.connections[connection].sql(without_options(sql), fresh=True).fetchall()

    def verdict(self, sql: str, monkeypatch: pytest.MonkeyPatch) -> Verdict:
        """Compare the answer to a statement with the engine's own. Raises ``dpsql.Error``."""
        answer = self.ask(sql)
        text = self.own_text(sql)
        try:
            found = self.rules(answer, text)
        except (duckdb.ConversionException, duckdb.InvalidInputException):
            return Verdict(frozenset({"no error"}))
        if found is not None or is_bounded(sql):
            return Verdict(found or frozenset())
        with monkeypatch.context() as patched:
            patched.setattr("dpsql.pipeline.prepare.with_keys_made", lambda block, *_: block)
            for rule in ("known keys", "declared values"):
                try:
                    other = self.ask(sql, rule)
                except dpsql.Error:
                    continue
                found = self.rules(other, text)
                if found is not None:
                    return Verdict(found | {rule})
        own = self.own.execute(text).fetchall()
        if gives_groups(text) and all(any(equal(row, each) for row in answer) for each in own):
            return Verdict(frozenset({"given groups"}))
        extra = [row for row in answer if not any(equal(row, each) for each in own)]
        missing = [each for each in own if not any(equal(row, each) for row in answer)]
        return Verdict(
            frozenset(),
            f"{sql}\n{len(answer)} rows, {len(own)} of the engine\n{extra[:4]}\nnot {missing[:4]}",
        )

    def rules(self, rows: Sequence[Row], text: str) -> frozenset[str] | None:
        """Find the rules between rows and what the engine answers."""
        return rules_between(rows, lambda each: self.own.execute(each).fetchall(), text)


class Comparisons:
    """The comparisons of a world: of its rows, and of rows without ties, made when needed."""

    def __init__(self, name: str, statements: tuple[str, ...], directory: Path) -> None:
        self._of = name, statements, directory
        self._made: dict[bool, Comparison] = {}

    def of(self, *, ties: bool) -> Comparison:
        """Return one of them."""
        if ties not in self._made:
            name, statements, directory = self._of
            place = directory / f"{name}-{ties}"
            place.mkdir()
            self._made[ties] = Comparison(world(name, statements, ties=ties), place)
        return self._made[ties]

    def close(self) -> None:
        """Close those that were made."""
        for each in self._made.values():
            each.close()

    def verdict(self, sql: str, monkeypatch: pytest.MonkeyPatch) -> Verdict:
        """Compare, with rows that have no ties where ties are all that is different."""
        found = self.of(ties=True).verdict(sql, monkeypatch)
        if found.difference and has_ties(sql):
            again = self.of(ties=False).verdict(sql, monkeypatch)
            return again if again.difference else replace(again, rules=again.rules | {"ties"})
        return found
