"""MEDIAN and quantiles in SQL: what is accepted, what one unit can change, what is answered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.laws import IMPOSSIBLE, SeededSource, chi_square_p, lower_bound, upper_bound
from helpers.present import present
from helpers.sensitivity import Row, TableLab, moved_by_units, normal, rows_without, units_of
from helpers.sql_text import text
from helpers.support import Planned, planned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sqlglot import exp

import dpsql
from dpsql.core.schema import Schema, Table, schema_of
from dpsql.core.sql import sql
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.quantiles import point_sql
from dpsql.planner import plan_block
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.quantiles import ExponentialQuantile, Histograms
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.sql.blocks.quantiles import MAX_POINTS, points_for
from dpsql.sql.expressions.proven_integers import column as ranged

COLUMNS = (
    ("u", "BIGINT"),
    ("a", "INTEGER"),
    ("f", "DOUBLE"),
    ("c", "VARCHAR"),
    ("i", "INTEGER"),
    ("x", "DOUBLE"),
    ("s", "VARCHAR"),
    ("free", "DOUBLE"),
)
SCHEMA: Schema = schema_of(Table("r", tuple(column_of(*c) for c in COLUMNS)))
TABLE = TablePolicy(
    "r",
    PrivacyUnit("unit", "u"),
    {"i": ColumnPolicy(-3, 5), "x": ColumnPolicy(-2.0, 3.5), "c": ColumnPolicy(domain=("p", "q"))},
)
RULES = Policy("audit", accounts={"a": AccountPolicy("a", 100.0, 1e-3)}, tables={"r": TABLE})
NAN, INF = math.nan, math.inf
VALUE = exp.column("i")


def prepared(sql: str, **parameters: Any) -> Planned:
    return planned(sql, SCHEMA, RULES, **parameters)


# -- what is accepted -------------------------------------------------------------------------

SPELLINGS = {
    "median(x)": (Fraction(1, 2), False),
    "MEDIAN(i)": (Fraction(1, 2), False),
    "quantile(i, 0.9)": (Fraction(9, 10), True),
    "quantile_disc(i, .25)": (Fraction(1, 4), True),
    "quantile_disc(x, 0.25)": (Fraction(1, 4), False),
    "quantile_cont(i, 0)": (Fraction(0), False),
    "approx_quantile(i, 1)": (Fraction(1), True),
    "percentile_cont(0.9) WITHIN GROUP (ORDER BY x)": (Fraction(9, 10), False),
    "percentile_disc(0.9) WITHIN GROUP (ORDER BY i DESC)": (Fraction(1, 10), True),
    "quantile(i, 0.000001) FILTER (WHERE a > 1)": (Fraction(1, 10**6), True),
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY i) FILTER (WHERE a > 1)": (Fraction(1, 2), False),
    "median(free, contribution_bounds_per_row => (0, 10))": (Fraction(1, 2), False),
    "median(i * 2 + x)": (Fraction(1, 2), False),
    "max(i)": (Fraction(1), True),
    "MIN(x)": (Fraction(0), False),
    "max(i) FILTER (WHERE a > 1)": (Fraction(1), True),
}


@pytest.mark.parametrize(("spelling", "meaning"), SPELLINGS.items())
def test_every_spelling_means_its_fraction_and_type(
    spelling: str, meaning: tuple[Fraction, bool]
) -> None:
    (quantile,) = prepared(f"SELECT {spelling} FROM r").query.blocks[0].quantiles
    assert (quantile.fraction, quantile.whole) == meaning


def test_conditions_and_bounds_belong_to_the_values() -> None:
    sql = (
        "SELECT median(x), median(x) FILTER (WHERE a > 1), quantile(x, 0.5), quantile(x, 0.9), "
        "median(x, contribution_bounds_per_row => (0, 1)) FROM r"
    )
    block = prepared(sql).query.blocks[0]
    assert len(block.quantiles) == 4
    assert len({quantile.ranked for quantile in block.quantiles}) == 3


def test_other_fractions_and_other_bounds_are_other_statements() -> None:
    texts = ["median(x)", "quantile_cont(x, 0.6)", "quantile_cont(i, 0.5)", "quantile_disc(i, 0.5)"]
    texts += ["median(x, contribution_bounds_per_row => (0, 1))"]
    prints = {prepared(f"SELECT {text} AS m FROM r").fingerprint for text in texts}
    assert len(prints) == len(texts)


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("quantile(x, 1.5)", "bad_fraction"),
        ("quantile(x, -0.25)", "bad_fraction"),
        ("quantile(x, '0.5')", "bad_fraction"),
        ("quantile(x, a)", "bad_fraction"),
        ("quantile(x, 0.1234567)", "bad_fraction"),
        ("quantile_cont(x, [])", "bad_fraction"),
        ("quantile_cont(x, [0.25, a])", "bad_fraction"),
        ("quantile_cont(x, [0.25, [0.5]])", "bad_fraction"),
        ("quantile_cont(x, 0.5 ORDER BY x)", "bad_fraction"),
        ("percentile_cont(a) WITHIN GROUP (ORDER BY x)", "bad_fraction"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY x, i)", "aggregate_not_supported"),
        ("percentile_cont(x, 0.5) WITHIN GROUP (ORDER BY i)", "aggregate_not_supported"),
        ("median(x) WITHIN GROUP (ORDER BY i)", "aggregate_not_supported"),
        ("sum(x) WITHIN GROUP (ORDER BY i)", "aggregate_not_supported"),
        ("median(DISTINCT x)", "aggregate_not_supported"),
        ("median(s)", "not_numeric"),
        ("median(a > 1)", "not_numeric"),
        ("median(free)", "unbounded_sum"),
        ("median(x, contribution_bounds_per_group => (0, 3))", "bounds_do_not_apply"),
        ("max(i, 2)", "aggregate_not_supported"),
        ("max(DISTINCT i)", "aggregate_not_supported"),
        ("min(s)", "not_numeric"),
        ("max(x, contribution_bounds_per_group => (0, 3))", "bounds_do_not_apply"),
        ("max(x, max_error => 3)", "error_not_public"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(expression: str, code: str) -> None:
    with fails_with(code) as refused:
        prepared(f"SELECT {expression} FROM r")
    assert refused.value.hint or code != "aggregate_not_supported"


def test_extremes_are_no_quantiles_of_the_same_fraction() -> None:
    texts = ["max(i)", "quantile(i, 1)", "min(i)", "quantile(i, 0)"]
    block = prepared(f"SELECT {', '.join(texts)} FROM r").query.blocks[0]
    asked = [(int(q.fraction), q.extreme) for q in block.quantiles]
    assert asked == [(1, True), (1, False), (0, True), (0, False)]
    assert len({prepared(f"SELECT {text} AS m FROM r").fingerprint for text in texts}) == 4


def test_a_quantile_is_no_score_for_the_largest_groups() -> None:
    block = prepared("SELECT a, median(i) AS m FROM r GROUP BY a ORDER BY m DESC LIMIT 3").query
    assert block.blocks[0].top_k is None


@pytest.mark.parametrize(
    ("bounds", "integral"),
    [
        ((0, 10), True),
        ((0, 2**16), True),
        ((-5, 2**40), True),
        ((0.5, 9.5), True),
        ((0, 100), False),
        ((-1e-9, 1e-9), False),
        ((1e15, 1e15 + 1), False),
        ((3.0, 3.0), False),
        ((-1e300, 1e300), False),
    ],
)
def test_grids_hold_the_bounds_in_few_points(bounds: tuple[float, float], integral: bool) -> None:
    ranked = points_for(VALUE, (float(bounds[0]), float(bounds[1])), integral)
    grid = ranked.lattice
    assert grid.low * grid.quantum <= bounds[0] <= bounds[1] <= grid.high * grid.quantum
    assert ranked.points <= MAX_POINTS + 3
    assert max(abs(grid.low), abs(grid.high)) < 2**63
    if integral:
        assert grid.quantum >= 1
        narrow, wide = bounds[1] - bounds[0] <= MAX_POINTS, ranked.bits is not None
        assert (grid.quantum == 1) == (narrow or wide)


WIDE = [(0, 2**53), (-(2**40), 2**40), (7, 2**30), (-(2**30), -7), (-(10**18), 10**18), (-3, 2**53)]


@pytest.mark.parametrize("bounds", WIDE)
def test_between_wide_bounds_points_are_as_far_apart_as_values_are_large(
    bounds: tuple[int, int],
) -> None:
    """The engine numbers points as the plan does, and each stands for a value near by."""
    ranked = points_for(VALUE, (float(bounds[0]), float(bounds[1])), True)
    sizes = [m * 2**e + d for e in range(60) for m in (1, 3) for d in (-1, 0, 1)]
    sizes += [*range(1100), *bounds]
    steps = sorted({s for size in sizes for s in (size, -size) if bounds[0] <= s <= bounds[1]})
    step = ranged(sql("step"), *bounds, dialect=DUCKDB)
    asked = text(sql("SELECT {} FROM unnest(?::BIGINT[]) t(step)", point_sql(ranked, step)))
    points = np.array([p for (p,) in duckdb.execute(asked, [steps]).fetchall()])
    assert points.tolist() == [ranked.number(s) - ranked.number(bounds[0]) for s in steps]
    assert np.all(np.diff(points) >= 0)
    assert (points[0], points[-1]) == (0, ranked.points - 1)
    assert ranked.bits is not None
    for stood, value in zip(ranked.first_steps(points).tolist(), steps, strict=True):
        assert abs(stood) <= abs(value) <= abs(stood) * (1 + 2**-ranked.bits)
        assert stood == value or abs(value) >= 2 ** (ranked.bits + 1)


# -- what one unit can change -----------------------------------------------------------------

KEYS = ("a", "f", "c", "a % 2", "CASE WHEN a > 1 THEN c END", "f + f")
VALUES = (
    "median(i)",
    "quantile(x, 0.9)",
    "median(x) FILTER (WHERE a > 0)",
    "median(CAST(s AS INT), contribution_bounds_per_row => (0, 9))",
    "median(i * i)",
    "max(i)",
    "max(make_date(2000, 1, i), contribution_bounds_per_row => ('2000-01-01', '2000-02-01'))",
    "min(CAST(s AS TIMESTAMP), contribution_bounds_per_row => ('2000-01-01', '2000-02-01'))",
)
rows_of_units = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2, 2, 3, 4, None]),
        st.sampled_from([0, 1, 2, 3, None]),
        st.sampled_from([0.0, -0.0, 1.5, NAN, INF, None]),
        st.sampled_from(["p", "q", "other", None]),
        st.sampled_from([-3, -1, 0, 2, 5, 100, 2**31 - 1, None]),
        st.sampled_from([-2.0, 0.1, 3.5, 1e308, NAN, INF, -INF, -0.0, None]),
        st.sampled_from(["", "1", "7", "bad", "2000-01-09", "2000-01-31 10:00", "infinity", None]),
        st.none(),
    ),
    max_size=24,
)
Counted = dict[tuple[object, ...], list[Counter[int]]]


@st.composite
def questions(draw: st.DrawFn) -> Planned:
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    asked = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True))
    asked += draw(st.sampled_from([[], ["count(*)"], ["sum(i)", "count(DISTINCT u)"]]))
    parameters: dict[str, Any] = {
        "max_groups_contributed": draw(st.integers(1, 3)),
        "max_rows_contributed": draw(st.integers(1, 3)),
        "contribution_bounding": draw(st.sampled_from(["sample", "weight"])),
        "k_bar": 10**6,
        "epsilon": 5.0,
        "delta": 1e-4,
    }
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    if len(keys) > 0 and draw(st.booleans()):
        group += " ORDER BY count(DISTINCT u) DESC LIMIT 2"
        if draw(st.booleans()):
            parameters["max_groups_contributed"] = None
    return prepared(f"SELECT {', '.join([*keys, *asked])} FROM r{group}", **parameters)


@pytest.fixture(scope="module")
def lab() -> TableLab:
    return TableLab("r", COLUMNS)


def counted(lab: TableLab, statement: str, plan: BlockPlan) -> Counted:
    """Of each group the rows of each point, for each kind of value."""
    kinds = len({noisy.quantile.ranked for noisy in plan.quantiles})
    keys = len(plan.block.keys)
    return {
        tuple(map(normal, row[1 : 1 + keys])): [Counter(dict(part or ())) for part in row[-kinds:]]
        for row in lab.rows(statement)
    }


def violations(before: Counted, after: Counted, plan: BlockPlan) -> list[str]:
    """How a unit changes counts beyond what the plan declares, ``after`` being with the unit."""
    rows, bounding = plan.block.parameters.rows_limit, plan.bounding
    found = []
    for kind in range(len({noisy.quantile.ranked for noisy in plan.quantiles})):
        touched = 0
        for key in before.keys() | after.keys():
            old, new = (side[key][kind] if key in side else Counter() for side in (before, after))
            added, lost = new - old, old - new
            touched += bool(added or lost)
            if lost:
                found.append(f"rows of {key} vanish when a unit is added: {lost}")
            if added.total() > rows:
                found.append(f"{key} gains {added.total()} rows, more than {rows}")
        if bounding is not None and touched > bounding.groups:
            found.append(f"{touched} groups change, more than {bounding.groups}")
    return found


def audit(
    lab: TableLab, rows: Sequence[Row], plan: BlockPlan, statement: str
) -> dict[object, list[str]]:
    def read(kept: Sequence[Row]) -> Counted:
        lab.fill(kept)
        return counted(lab, statement, plan)

    def changed(without: Counted, whole: Counted) -> list[str]:
        return violations(without, whole, plan)

    return moved_by_units(rows, units_of(rows), rows_without, read, changed)


@pytest.mark.slow
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(question=questions(), rows=rows_of_units)
def test_one_unit_moves_counts_within_what_the_plan_declares(
    lab: TableLab, question: Planned, rows: list[Row]
) -> None:
    assert audit(lab, rows, question.plans[0], question.statements[0]) == {}


MANY = [(1, key, 0.0, "p", value, 0.1, "1", None) for key in range(4) for value in (0, 1, 2, 3, 4)]


def test_the_bounds_are_reached(lab: TableLab) -> None:
    parameters: dict[str, Any] = {
        "max_groups_contributed": 2,
        "max_rows_contributed": 3,
        "delta": 1e-4,
    }
    question = prepared("SELECT a, median(i) FROM r GROUP BY a", **parameters)
    lab.fill(MANY)
    groups = counted(lab, question.statements[0], question.plans[0])
    assert sorted(parts[0].total() for parts in groups.values()) == [3, 3]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ('"__dpsql_size" <= 3 OR', "TRUE OR"),
        ('"__dpsql_rank" <= 2', "TRUE"),
        ('PARTITION BY "__dpsql_rid", "__dpsql_unit"', 'PARTITION BY "__dpsql_rid"'),
    ],
    ids=["rows", "groups", "units"],
)
def test_sql_without_its_bounds_is_caught(lab: TableLab, text: str, broken: str) -> None:
    parameters: dict[str, Any] = {
        "max_groups_contributed": 2,
        "max_rows_contributed": 3,
        "delta": 1e-4,
    }
    question = prepared("SELECT a, median(i) FROM r GROUP BY a", **parameters)
    (statement,) = question.statements
    others = [(unit, 1, 0.0, "p", value, 0.1, "1", None) for unit in (2, 3) for value in (0, 2, 4)]
    assert text in statement
    assert audit(lab, [*MANY, *others], question.plans[0], statement) == {}
    assert audit(lab, [*MANY, *others], question.plans[0], statement.replace(text, broken)) != {}


@pytest.mark.slow
def test_each_row_of_a_unit_is_as_likely_to_be_kept(lab: TableLab) -> None:
    """Of ten rows three are kept, each in three of ten cases, and never two that lie close."""
    question = prepared(
        "SELECT a, median(i, contribution_bounds_per_row => (0, 9)) FROM r GROUP BY a",
        max_groups_contributed=5000,
        max_rows_contributed=3,
        delta=1e-4,
    )
    groups = 400
    lab.fill(
        [(1, a, 0.0, "p", value, 0.1, "1", None) for a in range(groups) for value in range(10)]
    )
    kept = [parts[0] for parts in counted(lab, question.statements[0], question.plans[0]).values()]
    assert len(kept) == groups
    assert all(sorted(c.values()) == [1, 1, 1] for c in kept)
    assert all(np.diff(sorted(c)).min() >= 3 for c in kept)
    # The three rows of a group follow from where its first one lies: one choice of ten each.
    starts: Counter[int] = Counter(sum(3**place for place in sorted(c)) for c in kept)
    assert chi_square_p(starts, dict.fromkeys(starts, 0.1)) > IMPOSSIBLE
    assert len(starts) == 10


# -- what is answered -------------------------------------------------------------------------


@pytest.fixture
def exact(no_noise: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise, and quantiles so certain that only ranks within one row come out."""
    draw = ExponentialQuantile.draw

    def certain(
        self: ExponentialQuantile, histograms: Histograms, source: EntropySource
    ) -> NDArray[np.int64]:
        return draw(replace(self, rate=1e9), histograms, source)

    monkeypatch.setattr(ExponentialQuantile, "draw", certain)


Connect = Callable[..., dpsql.Connection]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    opened: list[dpsql.Connection] = []

    def connect(
        fill: str, account: AccountPolicy | None = None, **parameters: Any
    ) -> dpsql.Connection:
        path = tmp_path / f"{len(opened)}.duckdb"
        with duckdb.connect(str(path)) as writer:
            columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS)
            writer.execute(f"CREATE TABLE r ({columns})")
            writer.execute(f"INSERT INTO r {fill}")
        account = account or AccountPolicy("a", 1000.0, 1e-3)
        rules = replace(RULES, accounts={"a": account})
        ledger = tmp_path / f"{len(opened)}.db"
        usual: dict[str, Any] = {"max_groups_contributed": 50, "max_rows_contributed": 50}
        opened.append(dpsql.connect(path, rules, ledger, "a", **(usual | parameters)))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


SPREAD = """SELECT n % 97, n % 5, CASE n % 4 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN -0.0
    WHEN 2 THEN 0.0 END, ['p', 'q', 'z'][1 + n % 3], (n * 7919) % 9 - 3, (n * 104729 % 5501) / 1000
    - 2, NULL, n FROM range(3000) t(n)"""
UNEVEN = """SELECT u, a, NULL, 'p', value, value / 2, NULL, NULL FROM (VALUES
    (1, 1, 0), (2, 1, 4), (3, 1, 4), (4, 2, -3), (5, 2, 5), (6, 3, 5), (7, 3, 5), (8, 3, 5),
    (9, 3, NULL)) t(u, a, value)"""


def within(value: float, rows: list[float], fraction: Fraction, tolerance: float) -> bool:
    """Whether so many rows lie below that this is the quantile by some definition."""
    below = sum(row < value - tolerance for row in rows)
    upto = sum(row <= value + tolerance for row in rows)
    return below <= fraction * len(rows) <= upto


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("fill", "keys"),
    [(SPREAD, "a"), (SPREAD, "f"), (SPREAD, "c, a"), (SPREAD, ""), (UNEVEN, "a"), (UNEVEN, "c")],
)
@pytest.mark.usefixtures("exact")
def test_without_noise_answers_are_quantiles_of_their_group(
    connect: Connect, fill: str, keys: str
) -> None:
    asked = {
        "median(x)": ("x", Fraction(1, 2), 1e-4),
        "quantile_cont(x, 0.9)": ("x", Fraction(9, 10), 1e-4),
        "quantile_disc(i, 0.25)": ("i", Fraction(1, 4), 0.0),
        "quantile(i, 0)": ("i", Fraction(0), 0.0),
        "quantile(i, 1) FILTER (WHERE i < 4)": ("CASE WHEN i < 4 THEN i END", Fraction(1), 0.0),
    }
    connection = connect(fill, max_rows_contributed=3000)
    tail = f" GROUP BY {keys}" if keys else ""
    head = f"{keys}, " if keys else ""
    answer = connection.sql(f"SELECT {head}{', '.join(asked)} FROM r{tail}").fetchall()
    width = len(keys.split(",")) if keys else 0
    found = {tuple(map(normal, row[:width])): row[width:] for row in answer}
    for position, (column, fraction, tolerance) in enumerate(asked.values()):
        lists = plain(
            fill, f"SELECT {head}list({column}) FILTER ({column} IS NOT NULL) FROM r{tail}"
        )
        for *key, rows in lists:
            group = tuple(map(normal, key))
            if rows and "z" not in group:  # not in the declared domain
                assert within(found[group][position], rows, fraction, tolerance)


def plain(fill: str, sql: str) -> list[Row]:
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE r ({', '.join(f'{n} {t}' for n, t in COLUMNS)})")
        connection.execute(f"INSERT INTO r {fill}")
        return connection.execute(sql).fetchall()


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
def test_extremes_are_values_near_the_ends_of_their_group(connect: Connect) -> None:
    """Without noise one row is meant to lie beyond, which is the end itself if two rows have it."""
    connection = connect(SPREAD, max_rows_contributed=3000)
    asked = "a, min(i), max(i), max(i) FILTER (WHERE i < 4)"
    found = connection.sql(f"SELECT {asked} FROM r GROUP BY a ORDER BY a").fetchall()
    assert found == plain(SPREAD, f"SELECT {asked} FROM r GROUP BY a ORDER BY a")
    ((low, high),) = connection.sql("SELECT min(x), max(x) FROM r").fetchall()
    lows = [x for (x,) in plain(SPREAD, "SELECT x FROM r ORDER BY x LIMIT 2")]
    highs = [x for (x,) in plain(SPREAD, "SELECT x FROM r ORDER BY x DESC LIMIT 2")]
    assert lows[0] - 1e-3 <= low <= lows[1] + 1e-3
    assert highs[1] - 1e-3 <= high <= highs[0] + 1e-3


def test_an_answer_and_its_plan_say_how_many_rows_lie_beyond_an_extreme(connect: Connect) -> None:
    connection, sql = connect(SPREAD, max_rows_contributed=1), "SELECT max(i) AS m FROM r"
    (column,) = connection.explain(sql).blocks[0].columns
    beyond = present(column.beyond)
    assert f"{beyond} rows from the end, ±" in str(connection.explain(sql))
    words = connection.sql(sql).summary()
    assert f"of {2 * beyond} rows or more about {beyond} rows are larger" in words


@pytest.mark.slow
def test_the_smallest_is_never_above_the_largest(connect: Connect) -> None:
    connection = connect(UNEVEN, epsilon=0.01)
    for _ in range(20):
        ((high, low),) = connection.sql("SELECT max(x), min(x) FROM r").fetchall()
        assert low <= high


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
def test_quantiles_stand_beside_the_counts_of_their_group(connect: Connect) -> None:
    """The largest groups come in the order of their counts, each with its own median."""
    fill = (
        "SELECT n, n % 7 * (n % 2), NULL, 'p', 0, (n % 7 * (n % 2)) / 2, NULL, NULL "
        "FROM range(7000) t(n)"
    )
    sql = "SELECT a, count(*) AS n, median(x) AS m FROM r GROUP BY a ORDER BY n DESC, a LIMIT 5"
    for parameters in ({}, {"max_groups_contributed": None}):
        rows = connect(fill, k_bar=20, **parameters).sql(sql).fetchall()
        assert len(rows) == 5
        assert all(abs(median - a / 2) < 1e-3 for a, _, median in rows)


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
def test_grouping_sets_leave_the_arguments_of_aggregates_alone(connect: Connect) -> None:
    """A key that a set leaves out is NULL in the answer, not in the rows that are aggregated."""
    asked = (
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY i)",
        "median(i) FILTER (WHERE i > 0)",
        "count(*) FILTER (WHERE i > 0)",
    )
    sql = f"SELECT i, {', '.join(asked)} FROM r WHERE i > -2 GROUP BY ROLLUP (i) ORDER BY i"
    *groups, every = connect(SPREAD, max_rows_contributed=3000).sql(sql).fetchall()
    assert [row[:3] for row in groups if row[0] > 0] == [(i, i, i) for i in range(1, 6)]
    *_, right = plain(SPREAD, f"SELECT {', '.join(asked)} FROM r WHERE i > -2 AND i IS NOT NULL")
    assert every == (None, *right)


@pytest.mark.parametrize("fill", ["SELECT * FROM r", "SELECT 1, 1, 1, 'p', NULL, 'nan', '', NULL"])
@pytest.mark.parametrize(
    ("sql", "groups"),
    [
        ("SELECT median(x) FROM r", 1),
        ("SELECT quantile(i, 0.99), count(*) FROM r", 1),
        ("SELECT c, median(x) FROM r GROUP BY c", 2),
        ("SELECT c, median(x), sum(i) FROM r GROUP BY c ORDER BY 1", 2),
        ("SELECT c, count(*) AS n, median(x) FROM r GROUP BY c ORDER BY n DESC LIMIT 1", 1),
        ("SELECT a, median(x) FROM r GROUP BY a", 0),
    ],
)
def test_groups_without_rows_are_answered_within_the_bounds(
    connect: Connect, sql: str, groups: int, fill: str
) -> None:
    rows = connect(fill).sql(sql).fetchall()
    assert len(rows) == groups
    for row in rows:
        medians = [value for value in row if isinstance(value, float)]
        assert all(-2 <= value <= 3.5 for value in medians)


@pytest.mark.slow
def test_quantiles_of_the_same_values_never_cross(connect: Connect) -> None:
    connection = connect(UNEVEN, epsilon=0.01)
    sql = "SELECT quantile(x, 0.9), quantile(x, 0.1), median(x), quantile(x, 0.4) FROM r"
    for _ in range(30):
        ((high, low, middle, lower),) = connection.sql(sql).fetchall()
        assert low <= lower <= middle <= high


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "poison",
    ["NULL", "'nan'", "'-inf'", "'-0.0'", "1e308"],
)
def test_no_value_fails_or_changes_schema_and_charge(connect: Connect, poison: str) -> None:
    sql = (
        "SELECT a, median(x) AS m, quantile(i, 0.9) AS q, median(x * x) AS y, "
        "median(CAST(s AS INT), contribution_bounds_per_row => (0, 9)) AS z FROM r GROUP BY a"
    )
    ordinary = "SELECT n, n % 2, 0.0, 'p', n % 5, 1.5, '1', 0 FROM range(400) t(n)"
    last = f"SELECT 9999, 1, {poison}, NULL, 2147483647, {poison}, 'bad', {poison}"
    without, with_unit = connect(ordinary), connect(f"{ordinary} UNION ALL {last}")
    one, other = without.sql(sql), with_unit.sql(sql)
    assert (one.columns, one.types) == (other.columns, other.types)
    assert one.types == ["INTEGER", "DOUBLE", "BIGINT", "DOUBLE", "DOUBLE"]
    assert one.cost == other.cost
    assert all(None not in row for row in other.fetchall())


# -- what it costs ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT median(x) FROM r",
        "SELECT c, median(x), quantile(x, 0.9), quantile(i, 0.1) FROM r GROUP BY c",
        "SELECT a, median(x), count(*), avg(i) FROM r GROUP BY a",
        "SELECT a, count(DISTINCT u) AS n, median(x) FROM r GROUP BY a ORDER BY n DESC LIMIT 3",
        "SELECT c, count(*) AS n, median(x) FROM r GROUP BY c ORDER BY n DESC LIMIT 1",
    ],
)
def test_a_query_for_all_of_an_account_fits_into_it(
    connect: Connect, sql: str, composition: Composition
) -> None:
    account = AccountPolicy("a", 1.0, 1e-6, composition=composition)
    connection = connect(SPREAD, account, epsilon=1.0, delta=1e-6)
    result = connection.sql(sql)
    assert result.cost.settled.rho <= result.cost.reserved.rho
    assert result.cost.reserved_epsilon <= 1.0 + 1e-9
    with pytest.raises(dpsql.Error):
        connection.sql(sql.replace("median(x)", "median(i)"))


@pytest.mark.parametrize(
    ("sql", "pure"),
    [
        ("SELECT median(x) FROM r", True),
        ("SELECT median(x), quantile(x, 0.9), quantile(i, 1) FROM r", True),
        ("SELECT c, median(x) FROM r GROUP BY c", True),
        ("SELECT median(x), count(*) FROM r", False),
        ("SELECT a, median(x) FROM r GROUP BY a", False),
    ],
)
def test_a_single_publication_of_quantiles_alone_spends_epsilon_or_rho(
    sql: str, pure: bool
) -> None:
    parameters: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "max_groups_contributed": 2}
    (block,) = prepared(sql, **parameters).query.blocks
    basic, composed = plan_block(block, None, Composition.BASIC), plan_block(block)
    assert basic.loss(None).epsilon == 1.0
    assert basic.loss(None).delta == pytest.approx(1e-6)
    assert basic.groups is not None
    ranges = [
        noisy.mechanism.rate * noisy.mechanism.rows * float(range_of(noisy.quantile.fraction))
        for noisy in basic.quantiles
    ]
    assert (basic.groups * sum(ranges) == pytest.approx(1.0)) == pure
    assert basic.groups * sum(ranges) <= 1.0 or not pure
    rates = zip(basic.quantiles, composed.quantiles, strict=True)
    gains = [one.mechanism.rate / other.mechanism.rate for one, other in rates]
    assert all(gain > 1.01 if pure else gain <= 1 + 1e-9 for gain in gains)


def range_of(fraction: Fraction) -> Fraction:
    return Fraction(1) if fraction in (0, 1) else 2 * max(fraction, 1 - fraction)


def test_quantiles_get_as_much_of_the_budget_as_anything_else() -> None:
    sql = "SELECT a, sum(i), median(x), quantile(x, 0.9) FROM r GROUP BY a"
    (plan,) = prepared(sql, epsilon=1.0, delta=1e-6).plans
    groups = plan.groups
    assert groups is not None
    noises = [plan.noise_of(i).rho(groups) for i in range(len(plan.measures))]
    costs = [*noises, *(noisy.mechanism.rho(groups) for noisy in plan.quantiles)]
    assert len(costs) == 4
    assert max(costs) == pytest.approx(min(costs), rel=1e-6)
    assert sum(costs) == pytest.approx(plan.loss(None).rho)


def test_a_top_k_pays_for_the_quantiles_of_the_groups_that_came_out() -> None:
    sql = "SELECT a, count(DISTINCT u) AS n, median(x) FROM r GROUP BY a ORDER BY n DESC LIMIT 10"
    (plan,) = prepared(sql, max_groups_contributed=None).plans
    quantile = plan.quantiles[0].mechanism
    for released in (0, 3, 10):
        others = replace(plan, quantiles=()).loss(released).rho
        assert plan.loss(released).rho == pytest.approx(others + quantile.rho(released))
    assert plan.loss(10).rho > plan.loss(3).rho > plan.loss(0).rho


@pytest.mark.slow
def test_a_plan_says_how_far_ranks_may_be_off_and_in_which_steps(connect: Connect) -> None:
    explanation = connect(UNEVEN).explain("SELECT c, median(x), quantile(i, 0.9) FROM r GROUP BY c")
    (block,) = explanation.blocks
    median, quantile = block.columns
    assert median.noise == quantile.noise == "exponential_mechanism"
    assert (median.resolution, quantile.resolution) == (2.0**-13, 1.0)
    assert present(median.margin95) > median.noise_scale > 0
    assert "ranks, in steps of" in str(explanation)
    assert "__dpsql_point" in block.sql


@pytest.mark.slow
def test_quantiles_have_no_intervals_and_other_columns_keep_theirs(connect: Connect) -> None:
    result = connect(SPREAD).sql("SELECT c, count(*) AS n, median(x) AS m FROM r GROUP BY c")
    assert list(result.intervals()) == ["n"]


# -- the whole way ----------------------------------------------------------------------------


def epsilon_seen(one: NDArray[np.int64], other: NDArray[np.int64], points: int) -> float:
    """A lower bound on epsilon: events chosen on one half of the draws, judged on the other."""
    best = 0.0
    half = len(one) // 2
    for p, q in ((one, other), (other, one)):
        ratio = np.bincount(p[:half], minlength=points) / np.maximum(
            1, np.bincount(q[:half], minlength=points)
        )
        for cut in np.unique(ratio):
            event = ratio >= cut
            hits, others = int(event[p[half:]].sum()), int(event[q[half:]].sum())
            least = lower_bound(hits, half, IMPOSSIBLE)
            if least > 0:
                best = max(best, math.log(least / upper_bound(others, half, IMPOSSIBLE)))
    return best


@pytest.mark.slow
def test_many_answers_do_not_tell_a_unit_apart_and_broken_ones_do(lab: TableLab) -> None:
    """The counts of the generated SQL with and without a unit, and draws from each."""
    question = prepared("SELECT median(i) FROM r", max_rows_contributed=3, epsilon=3.0)
    (plan,), (statement,) = question.plans, question.statements
    others: list[Row] = [(unit, 0, 0.0, "p", unit % 2, 0.1, "1", None) for unit in range(2, 6)]
    leaver: list[Row] = [(1, 0, 0.0, "p", 5, 0.1, "1", None)] * 9
    mechanism = plan.quantiles[0].mechanism
    claim = math.sqrt(8 * mechanism.rho(1))

    def draws(rows: list[Row], mechanism: ExponentialQuantile, sql: str) -> NDArray[np.int64]:
        lab.fill(rows)
        ((counts,),) = counted(lab, sql, plan).values()
        runs, points = 40_000, sorted(counts)
        repeated = Histograms(
            np.arange(1, runs + 1) * len(points),
            np.tile(np.array(points, dtype=np.int64), runs),
            np.tile(np.array([counts[p] for p in points], dtype=np.int64), runs),
        )
        return mechanism.draw(repeated, SeededSource(len(rows)))

    def seen(mechanism: ExponentialQuantile, sql: str) -> float:
        one, other = draws(others, mechanism, sql), draws([*others, *leaver], mechanism, sql)
        return epsilon_seen(one, other, mechanism.size)

    assert 0.3 * claim < seen(mechanism, statement) <= claim
    assert seen(replace(mechanism, rate=mechanism.rate * 3), statement) > claim
    unbounded = statement.replace('"__dpsql_size" <= 3 OR', "TRUE OR")
    assert seen(mechanism, unbounded) > claim
