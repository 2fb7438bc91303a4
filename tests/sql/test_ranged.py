"""Generated integers stay within the ranges they are said to have, on an engine, at the extremes.

Every expression that the rewriting builds is noted with its range and type, then evaluated with its
columns and sums at the ends of theirs.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import duckdb
import pytest
from helpers.columns import column_of
from helpers.installed_duckdb import NULL_FOR_ZERO
from helpers.present import present
from helpers.sql_text import generated, text
from helpers.support import planned
from sqlglot import exp

from dpsql.core.schema import Table, schema_of
from dpsql.core.sql_types import BIGINT, SqlType
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.measures import Lattice
from dpsql.kinds.union import _share
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.privacy.mechanisms.set_union_weights import UNIT_WEIGHT_STEPS
from dpsql.sql.blocks.quantiles import points_for
from dpsql.sql.expressions import proven_integers as ranged
from dpsql.sql.expressions.lattices import lattice_for
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column, count
from dpsql.sql.relations import from_clause
from dpsql.sql.rewrite.contributions import RowValue, clamped_step
from dpsql.syntax.parse import parse

NAN, INF = float("nan"), float("inf")
ENGINE = duckdb.connect(":memory:", config={"threads": "1"})
ENGINE.execute(NULL_FOR_ZERO)

SCHEMA = schema_of(
    Table("r", (column_of("u", "BIGINT"), column_of("a", "INTEGER"), column_of("x", "DOUBLE")))
)
RULES = Policy(
    "ranges",
    accounts={"a": AccountPolicy("a", 100.0, 1e-3)},
    tables={"r": TablePolicy("r", PrivacyUnit("unit", "u"), {"a": ColumnPolicy(-3, 5)})},
)

# -- every intermediate ---------------------------------------------------------------------------


@contextmanager
def noted() -> Iterator[list[Ranged]]:
    """Notes every expression that is built."""
    found: list[Ranged] = []
    checked = Ranged.__post_init__

    def note(self: Ranged) -> None:
        checked(self)
        found.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ranged, "__post_init__", note)
        yield found


@dataclass(frozen=True)
class Leaf:
    """A column or an aggregate: its range and type, and values at which something may change."""

    low: int
    high: int
    type: SqlType
    ends: frozenset[int]

    def within(self, other: Leaf) -> Leaf:
        """Both are known. Inside a CASE that asks for its size, a value is known more closely."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Leaf(low, high, self.type, self.ends | other.ends)

    def values(self) -> list[int | None]:
        """Values at the ends and between them, and NULL."""
        near = {end + step for end in self.ends for step in (-1, 0, 1)}
        tried = {*near, -1, 0, 1, (self.low + self.high) // 2}
        return [None, *sorted(value for value in tried if self.low <= value <= self.high)]


def leaves(node: Ranged) -> dict[str, Leaf]:
    """The columns and aggregates of an expression."""
    if not node.parts:
        return {
            text(node.sql): Leaf(node.low, node.high, node.type, frozenset((node.low, node.high)))
        }
    found: dict[str, Leaf] = {}
    for part in node.parts:
        for sql, leaf in leaves(part).items():
            found[sql] = leaf.within(found[sql]) if sql in found else leaf
    if text(node.sql).startswith(f"CASE WHEN {text(node.parts[0].sql)} <= "):
        for sql, leaf in leaves(node.parts[0]).items():
            found[sql] = replace(leaf, ends=found[sql].ends)
    return found


def written(value: int | None) -> str:
    return "NULL" if value is None else f"'{value}'"


def wrong(node: Ranged) -> str | None:
    """What is wrong with an expression's range or type, or None."""
    found = leaves(node)
    names = sorted(found, key=len, reverse=True)
    sql = text(node.sql)
    for index, name in enumerate(names):
        sql = sql.replace(name, f"<{index}>")
    for index in range(len(names)):
        sql = sql.replace(f"<{index}>", f"c{index}")
    types = [found[name].type for name in names]
    ENGINE.execute(
        f"CREATE OR REPLACE TABLE v ({', '.join(f'c{i} {t}' for i, t in enumerate(types))})"
    )
    rows = list(itertools.product(*(found[name].values() for name in names)))
    values = ", ".join(f"({', '.join(map(written, row))})" for row in rows)
    ENGINE.execute(f"INSERT INTO v VALUES {values}")
    try:
        results = ENGINE.execute(f"SELECT {sql}, typeof({sql}) FROM v").fetchall()
    except duckdb.Error as error:
        return f"{text(node.sql)} fails: {error}"
    for value, type_ in results:
        if value is not None and not node.low <= value <= node.high:
            return f"{text(node.sql)} is {value}, outside of {node.low} to {node.high}"
        if type_ != str(node.type):
            return f"{text(node.sql)} is of type {type_}, not {node.type}"
    return None


def built(sql: str, **parameters: Any) -> list[Ranged]:
    """The different expressions in the statement of a query, or in what there is of it."""
    with noted() as found:
        try:
            planned(sql, SCHEMA, RULES, epsilon=90, **parameters)
        except (QueryRefused, ParameterError) as refused:
            if refused.code not in ("bounds_too_large", "no_mechanism", "noise_scale"):
                raise
    return list(dict.fromkeys(node for node in found if node.parts))


PER_ROW, PER_GROUP = "contribution_bounds_per_row", "contribution_bounds_per_group"
SUMS = (
    "sum(x, {row} => (0, 1e-15), {group} => (-1e15, -5e14))",
    "sum(x, {row} => (0, 1e-15), {group} => (1e14, 1.5e14))",
    "sum(x, {row} => (-1e15, 1e15), {group} => (1e-15, 2e-15))",
    "sum(x, {row} => (-1e15, 1e15), {group} => (-1e15, 1e15))",
    "sum(x, {row} => (-1e15, 1e15))",
    "sum(x, {row} => (1e14, 1e15), {group} => (5, 1e15))",
    "sum(a), avg(a), var_pop(a), stddev(a)",
    "var_pop(x, {row} => (-1e15, 1e15))",
    "avg(x, {row} => (1, 3)), variance(x, {row} => (-1e-15, 1)), count(x)",
    "count(*), count(*, {group} => (0, 2147483647)), count(DISTINCT u)",
    "median(x, {row} => (-1e300, 1e300)), quantile_disc(a, 0.3)",
)
ROWS = (1, 10, 2**23, 2**31 - 1)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("sums", SUMS)
def test_every_intermediate_keeps_to_its_range(sums: str, rows: int) -> None:
    sql = f"SELECT a, {sums.format(row=PER_ROW, group=PER_GROUP)} FROM r GROUP BY a"
    for bounding in ("sample", "weight"):
        for groups in (1, 2**31 - 1) if sums == SUMS[0] else (50,):
            nodes = built(
                sql,
                max_rows_contributed=rows,
                max_groups_contributed=groups,
                contribution_bounding=bounding,
            )
            assert [found for found in map(wrong, nodes) if found] == []


def unclamped_product(self: Ranged, other: Ranged | int) -> Ranged:
    low, high = ranged._ends(other)
    return self._with(ranged._joined_by(generated("*")), other, self.low * low, self.high * high)


def unsigned_remainder(self: Ranged, divisor: Ranged | int) -> Ranged:
    return self._with(DUCKDB.remainder, divisor, 0, ranged._ends(divisor)[1] - 1)


def floored_quotient(self: Ranged, divisor: Ranged | int) -> Ranged:
    high = ranged._ends(divisor)[1]
    return self._with(
        partial(DUCKDB.divided, wide=False), divisor, self.low // high, self.high // high
    )


def widened_too_late(self: Ranged) -> Ranged:
    return Ranged(self.sql, self.low, self.high, True, self.parts, dialect=DUCKDB)


def unlimited(self: Ranged, low: int, high: int) -> Ranged:
    return Ranged(self.sql, low, high, self.wide, (self,), dialect=DUCKDB)


BROKEN: dict[str, tuple[object, str, object]] = {
    "products of like signs": (Ranged, "__mul__", unclamped_product),
    "remainders without sign": (Ranged, "__mod__", unsigned_remainder),
    "quotients by the largest": (Ranged, "__floordiv__", floored_quotient),
    "no cast to the wider type": (Ranged, "widened", widened_too_late),
    "limits that are not there": (Ranged, "clamped", unlimited),
    "a type that holds less": (ranged, "_NARROW", (-(2**70), 2**70)),
}


def faults() -> Iterator[str]:
    """What is wrong with the expressions of all statements."""
    for sums, rows in itertools.product(SUMS, (10, 2**31 - 1)):
        sql = f"SELECT a, {sums.format(row=PER_ROW, group=PER_GROUP)} FROM r GROUP BY a"
        for bounding in ("sample", "weight"):
            nodes = built(sql, max_rows_contributed=rows, contribution_bounding=bounding)
            yield from (fault for fault in map(wrong, nodes) if fault)


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_wrong_ranges_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BROKEN[name])
    assert next(faults(), None) is not None


# -- where ranges come from -----------------------------------------------------------------------


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("low", "high"), [(-3, 5), (2, 5), (-7, -2), (0, 0), (-(2**60), 2**60)])
def test_sums_and_counts_are_of_as_many_rows_as_there_can_be(
    low: int, high: int, wide: bool
) -> None:
    total = column(generated("x"), low, high, wide=wide, dialect=DUCKDB).sum()
    assert (total.low, total.high) == (min(low, low * 2**40), max(high, high * 2**40))
    ((found,),) = ENGINE.execute(
        f"SELECT typeof(sum(x::{'HUGEINT' if wide else 'BIGINT'})) FROM range(3) r(x)"
    ).fetchall()
    assert found == str(total.type)
    rows = count(generated("x"), dialect=DUCKDB)
    assert (rows.low, rows.high) == (0, 2**40)


@pytest.mark.parametrize("divisor", [1, 2, 2**10, 2**40])
@pytest.mark.parametrize("size", [0, 1, 2**62, 2**86, 2**87 - 1, 2**87, 2**100, 2**126])
def test_what_is_divided_before_it_is_added_up_moves_by_one_step_more(
    size: int, divisor: int
) -> None:
    values = column(generated("x"), -size, size, wide=True, dialect=DUCKDB)
    if size // divisor * MOST_ROWS >= 2**127:
        with pytest.raises(QueryRefused, match="exceed the largest integers"):
            values.sum_over(divisor)
        return
    total = text(values.sum_over(divisor).sql)
    ENGINE.execute("CREATE OR REPLACE TABLE s (n INTEGER, x HUGEINT)")
    others = [size, -size, size // 2, 1 - size // 3, -(size // 7), divisor - 1, 1]
    ENGINE.executemany("INSERT INTO s VALUES (?, ?::HUGEINT)", list(enumerate(map(str, others))))
    totals = [
        ENGINE.execute(f"SELECT {total} FROM s WHERE n < {n}").fetchall()[0][0]
        for n in range(len(others) + 1)
    ]
    for (before, after), value in zip(itertools.pairwise(totals), others, strict=True):
        assert abs(after - before) <= abs(value) // divisor + (divisor > 1)
    assert abs(totals[-1] - Fraction(sum(others), divisor)) <= len(others) + 1


NUMBERS: dict[str, list[Any]] = {
    "TINYINT": [-128, 0, 127],
    "SMALLINT": [-(2**15), 5, 2**15 - 1],
    "INTEGER": [-(2**31), 5, 2**31 - 1],
    "BIGINT": [-(2**63), -5, 7, 2**53 + 1, 2**63 - 1],
    "HUGEINT": [-(2**127), -(2**63) - 1, 5, 2**64, 2**127 - 1],
    "UTINYINT": [0, 5, 255],
    "USMALLINT": [0, 5, 2**16 - 1],
    "UINTEGER": [0, 5, 2**32 - 1],
    "UBIGINT": [0, 5, 2**63, 2**64 - 1],
    "UHUGEINT": [0, 5, 2**127 - 1, 2**127, 2**128 - 1],
    "FLOAT": ["nan", "inf", "-inf", "-0.0", 1e-45, 3.4e38, 2.5],
    "DOUBLE": ["nan", "inf", "-inf", "-0.0", 5e-324, 1e-15, -1e308, 1e308, 2.5, 1e15, 2.0**62],
    "DECIMAL(4, 1)": ["-999.9", "0.1", "999.9"],
    "DECIMAL(18, 3)": ["-999999999999999.999", "2.5", "999999999999999.999"],
    "DECIMAL(38, 0)": ["-" + "9" * 38, "7", "9" * 38],
    "DECIMAL(38, 37)": ["-9." + "9" * 37, "0." + "0" * 36 + "1", "9." + "9" * 37],
    "BOOLEAN": ["true", "false"],
}
ENDS = (0.0, 5e-324, 1e-15, 0.3, 1.0, 7.0, 2.0**31, 2.0**53 - 1, 1e14, 1e15)


def points_over(bounds: tuple[float, float], integral: bool) -> Lattice:
    """The lattice that the points of quantiles lie on."""
    return points_for(exp.column("v"), bounds, integral).lattice


def grids() -> Iterator[tuple[str, bool, Lattice]]:
    """Lattices of sums and of quantiles over all pairs of ends, for integers and for others."""
    ends = sorted({sign * end for end in ENDS for sign in (-1, 1)})
    for bounds in itertools.combinations(ends, 2):
        for integral in (False, True):
            makers: list[Callable[[], Lattice]] = [
                partial(lattice_for, bounds, integral, 10),
                partial(lattice_for, bounds, integral, 10, (0, 1e-15)),
                partial(points_over, bounds, integral),
            ]
            for make in makers:
                try:
                    yield str(bounds), integral, make()
                except QueryRefused as refused:
                    if refused.code not in ("bounds_too_large", "bounds_too_small"):
                        raise


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("type_", NUMBERS)
def test_whatever_a_row_holds_its_steps_are_within_the_bounds(type_: str) -> None:
    table = Table("n", (column_of("v", type_),))
    tree = present(parse("SELECT v FROM n").find(exp.Column))
    integral = "INT" in type_
    ENGINE.execute(f"CREATE OR REPLACE TABLE n (v {type_})")
    ENGINE.executemany("INSERT INTO n VALUES (?)", [[str(v)] for v in [*NUMBERS[type_]]])
    ENGINE.execute("INSERT INTO n VALUES (NULL)")
    for name, whole, lattice in grids():
        if whole != integral:
            continue
        found = clamped_step(lattice, RowValue.of(tree, generated("v"), table, DUCKDB), DUCKDB)
        rows = ENGINE.execute(
            f"SELECT v::DOUBLE, {text(found.sql)}, typeof({text(found.sql)}) FROM n"
        ).fetchall()
        for value, step, kind in rows:
            assert kind == str(found.type) == "BIGINT"
            if value is None or math.isnan(value):
                assert step is None
                continue
            nearest = min(max(value, lattice.lower), lattice.upper) / lattice.quantum
            assert found.low <= step <= found.high, (name, value)
            assert abs(step - nearest) <= 0.5 + abs(nearest) * 2**-52, (name, value)


# -- and where they are stated --------------------------------------------------------------------


@pytest.mark.parametrize("norm", [1, 2])
def test_no_share_of_a_set_union_is_larger_than_a_whole_weight(norm: int) -> None:
    share = _share(generated('"__dpsql_size"'), norm, DUCKDB)
    assert (share.low, share.high, share.type) == (0, UNIT_WEIGHT_STEPS, BIGINT)
    sizes = ", ".join(
        f"({size})" for size in (1, 2, 3, UNIT_WEIGHT_STEPS, UNIT_WEIGHT_STEPS + 1, 2**40)
    )
    written = text(share.sql)
    rows = ENGINE.execute(
        f'SELECT {written}, typeof({written}) FROM (VALUES {sizes}) v("__dpsql_size")'
    ).fetchall()
    assert all(share.low <= value <= share.high for value, _ in rows)
    assert {type_ for _, type_ in rows} == {"BIGINT"}


def test_decimals_that_are_summed_per_unit_cannot_overflow() -> None:
    found = re.fullmatch(r"DECIMAL\((\d+), 8\)", from_clause._EXACT.text)
    assert found is not None
    assert (10 ** int(found[1]) - 1) * MOST_ROWS < 10**38
    largest = f"{'9' * (int(found[1]) - 8)}.99999999"
    ((type_, total),) = ENGINE.execute(
        f"SELECT typeof(sum(x)), sum(x) FROM (SELECT '{largest}'::{from_clause._EXACT} AS x "
        "FROM range(1000))"
    ).fetchall()
    assert type_ == "DECIMAL(38,8)"
    assert total == 1000 * Decimal(largest)
