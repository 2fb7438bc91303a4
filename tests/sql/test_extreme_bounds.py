"""Whatever bounds are chosen and whatever rows hold: refused for free, or kept by every unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.columns import column_of
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import Row, TableLab, audit
from helpers.support import Planned, planned
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.core.schema import Table, schema_of
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.query import BoundsFound
from dpsql.kinds.cascade import CascadeKind, units_alone
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.mechanisms.cascade import CAP_CHOICES, Caps

HUGE, LONG = 2**127 - 1, "9" * 38
VALUES: dict[str, tuple[str, tuple[str, ...]]] = {
    "i8": ("TINYINT", ("-128", "3", "127")),
    "i16": ("SMALLINT", ("-32768", "3", "32767")),
    "i32": ("INTEGER", ("-2147483648", "3", "2147483647")),
    "i64": ("BIGINT", (str(-(2**63)), "3", str(2**53 + 1), str(2**63 - 1))),
    "i128": ("HUGEINT", (str(-(2**127)), "3", str(2**64), str(HUGE))),
    "u8": ("UTINYINT", ("0", "3", "255")),
    "u16": ("USMALLINT", ("0", "3", "65535")),
    "u32": ("UINTEGER", ("0", "3", str(2**32 - 1))),
    "u64": ("UBIGINT", ("0", "3", str(2**63), str(2**64 - 1))),
    "u128": ("UHUGEINT", ("0", "3", str(2**127), str(2**128 - 1))),
    "f32": ("FLOAT", ("nan", "inf", "-inf", "1e-45", "3.4e38", "-2.5")),
    "f64": ("DOUBLE", ("nan", "inf", "-inf", "5e-324", "1e-15", "1e308", "-1e308", "2.5")),
    "d4": ("DECIMAL(4, 1)", ("-999.9", "2.5", "999.9")),
    "d18": ("DECIMAL(18, 3)", ("-999999999999999.999", "2.5", "999999999999999.999")),
    "d38": ("DECIMAL(38, 0)", (f"-{LONG}", "7", LONG)),
    "tiny": ("DECIMAL(38, 37)", ("-9.9", "0." + "0" * 36 + "1", "9.9")),
    "yes": ("BOOLEAN", ("true", "false")),
}
COLUMNS = (
    ("u", "BIGINT"),
    ("k", "INTEGER"),
    *((name, type_) for name, (type_, _) in VALUES.items()),
)
SCHEMA = schema_of(Table("r", tuple(column_of(*column) for column in COLUMNS)))
RULES = Policy(
    "extremes",
    defaults=Parameters(epsilon=5.0, delta=1e-6),
    accounts={"a": AccountPolicy("a", 1000.0, 1e-3)},
    tables={"r": TablePolicy("r", PrivacyUnit("unit", "u"), {"k": ColumnPolicy(domain=(0, 1))})},
)


class Units(TableLab):
    """A lab that keeps the rows it was last given, to fill its table with some of their units."""

    def __init__(self) -> None:
        super().__init__("r", COLUMNS)
        self._kept: Sequence[Row] = ()

    def keep(self, rows: Sequence[Row]) -> None:
        if rows != self._kept:
            super().fill(rows)
            self._connection.execute("CREATE OR REPLACE TABLE kept AS FROM r")
            self._kept = rows

    def fill(self, rows: Sequence[Row]) -> None:
        units = ", ".join(str(unit) for unit in {row[0] for row in rows})
        self._connection.execute(
            f"CREATE OR REPLACE TABLE r AS FROM kept WHERE u IN ({units or 'NULL'})"
        )


LAB = Units()

SIZES: tuple[float, ...] = (
    0.0,
    5e-324,
    1e-306,
    1e-101,
    1e-99,
    1e-15,
    0.3,
    1.0,
    2.0**31,
    2.0**53,
    1e14,
    1e15,
)
SIZES = (*SIZES, 1.0000000000000002e15, 2.0**62, 1e300, 1.7e308)
BOUNDS = sorted({sign * size for sign in (-1, 1) for size in SIZES})
FREE = frozenset({"bounds_too_large", "bounds_too_small", "no_mechanism", "noise_scale"})
PER_ROW, PER_GROUP = "contribution_bounds_per_row", "contribution_bounds_per_group"

intervals = st.lists(st.sampled_from(BOUNDS), min_size=2, max_size=2, unique=True).map(sorted)
ROWED = ("avg", "var_pop", "stddev", "variance", "median", "quantile")


def written(name: str, bounds: Sequence[float]) -> str:
    return f"{name} => ({bounds[0]!r}, {bounds[1]!r})"


@st.composite
def aggregates(draw: st.DrawFn) -> str:
    """An aggregate of some column, its bounds drawn from the extremes."""
    name = draw(st.sampled_from([name for name in VALUES if name != "yes"]))
    argument = draw(st.sampled_from([name, name, name, f"{name} * 3", f"least({name}, 7)"]))
    kind = draw(st.sampled_from(["sum", "sum", "sum", "count", "distinct", *ROWED]))
    given: list[str] = []
    if kind in ("count", "distinct"):
        if draw(st.booleans()):
            most = draw(st.sampled_from([1, 2**31 - 1]))
            given.append(f"{PER_GROUP} => (0, {most})")
        text = f"count(DISTINCT {argument}" if kind == "distinct" else f"count({argument}"
    else:
        shape = draw(st.integers(0, 2)) if kind == "sum" else 0
        if shape in (0, 1):
            given.append(written(PER_ROW, draw(intervals)))
        if shape in (1, 2):
            given.append(written(PER_GROUP, draw(intervals)))
        text = f"{kind}({argument}" + (", 0.25" if kind == "quantile" else "")
    condition = draw(st.sampled_from(["", "", " FILTER (WHERE yes)"]))
    return f"{', '.join([text, *given])}){condition}"


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A statement and its parameters."""
    measures = draw(st.lists(aggregates(), min_size=1, max_size=2, unique=True))
    key = draw(st.sampled_from(["", "k", "u8", "f64"]))
    parameters: dict[str, Any] = {
        "max_groups_contributed": draw(st.sampled_from([1, 3, 2**31 - 1])),
        "max_rows_contributed": draw(st.sampled_from([1, 10, 2**31 - 1])),
        "contribution_bounding": draw(st.sampled_from(["sample", "weight"])),
    }
    columns, group = (f"{key}, ", f" GROUP BY {key}") if key else ("", "")
    return f"SELECT {columns}{', '.join(measures)} FROM r{group}", parameters


def planned_or_free(sql: str, parameters: dict[str, Any]) -> Planned | None:
    """The plan, or None where the question is refused, which costs nothing."""
    try:
        return planned(sql, SCHEMA, RULES, **parameters)
    except (QueryRefused, ParameterError) as refused:
        if refused.code not in FREE:
            raise
        return None


@cache
def rows_of(units: int, repeats: int) -> list[Row]:
    """Units that all hold the most awkward values, in several groups."""
    longest = max(len(values) for _, values in VALUES.values())
    return [
        (unit, turn % 3, *(values[(turn + unit) % len(values)] for _, values in VALUES.values()))
        for unit in range(units)
        for turn in range(longest)
        for _ in range(repeats)
    ] + [(0, None, *([None] * len(VALUES)))]


def check(question: tuple[str, dict[str, Any]], rows: list[Row]) -> None:
    found = planned_or_free(*question)
    if found is None:
        return
    (plan,), (statement,) = found.plans, found.statements
    LAB.keep(rows)
    LAB.fill(rows)
    LAB.rows(statement)
    if not plan.quantiles and len(rows) < 100:
        assert audit(LAB, rows, plan, statement) == {}


@pytest.mark.slow
@settings(many_examples_of(1000))
@given(questions(), st.sampled_from([(1, 1), (1, 12), (3, 2), (7, 1)]))
def test_extreme_bounds_are_refused_or_kept(
    question: tuple[str, dict[str, Any]], size: tuple[int, int]
) -> None:
    check(question, rows_of(*size))


# -- what used to fail ----------------------------------------------------------------------------

FAR_APART = (
    (f"sum(f64, {PER_ROW} => (0, 1e-15), {PER_GROUP} => (-1e15, -5e14))", "weight", False),
    (f"sum(f64, {PER_ROW} => (0, 1e-15), {PER_GROUP} => (-1e15, -5e14))", "sample", False),
    (f"sum(f64, {PER_ROW} => (0, 1e-15), {PER_GROUP} => (1e14, 1.5e14))", "weight", False),
    (f"sum(f64, {PER_ROW} => (0, 1e-15), {PER_GROUP} => (1e14, 1.5e14))", "sample", True),
    (f"sum(f64, {PER_ROW} => (0, 1e-30), {PER_GROUP} => (1e14, 1.5e14))", "sample", False),
    (f"sum(f64, {PER_ROW} => (0, 1e-306))", "sample", False),
    (f"sum(f64, {PER_ROW} => (0, 5e-324))", "weight", False),
    (f"stddev(f64, {PER_ROW} => (0, 1e-306))", "sample", False),
    (f"median(f64, {PER_ROW} => (0, 1e-306))", "sample", False),
    (f"median(f64, {PER_ROW} => (-1.7e308, 1.7e308))", "sample", False),
    (f"sum(u128, {PER_ROW} => (-1, 5))", "sample", True),
    (f"avg(u128, {PER_ROW} => (-1, 5))", "weight", True),
    (f"median(u128, {PER_ROW} => (-1, 5))", "sample", True),
)


UNDECLARED = replace(RULES, tables={"r": replace(RULES.tables["r"], columns={})})


@pytest.mark.slow
@settings(examples_of(40))
@given(
    st.lists(aggregates(), min_size=1, max_size=2, unique=True),
    st.sampled_from([1e-6, 1e-3, 5.0, 1000.0]),
    st.sampled_from([1, 10, 2**31 - 1]),
    st.sampled_from([1, 1000, 2**31 - 1]),
)
def test_bounds_that_the_usual_number_bears_are_borne_without_one(
    measures: list[str], epsilon: float, rows: int, minimum: int
) -> None:
    """By the statements of every step, too, at the least and the largest cap.

    Also where the number of rows is one that was drawn, of which many times as many count.
    """
    sql = f"SELECT k, {', '.join(measures)} FROM r GROUP BY k"
    parameters: dict[str, Any] = {
        "epsilon": epsilon,
        "max_rows_contributed": rows,
        "min_units_per_group": minimum,
    }
    try:
        number = planned(sql, SCHEMA, UNDECLARED, **parameters)
    except (QueryRefused, ParameterError):
        return
    found = planned(sql, SCHEMA, UNDECLARED, usual=False, **parameters)
    (plan,) = found.plans
    if not CascadeKind.fits(plan):  # a number that is drawn first leaves less for the answer
        drawn = plan.bounds_choice is not None and plan.bounds_choice.groups is not None
        assert drawn or found.fingerprint == number.fingerprint
        return
    scaled = BoundsFound(rows=True, known=True)
    scale = replace(plan, block=replace(plan.block, bounds_found=scaled))
    for one in (plan, scale):
        steps = CascadeKind(one).sql(7, DUCKDB)
        for cap in (CAP_CHOICES[0], CAP_CHOICES[-1]):
            assert steps.totals(Caps(cap, cap))
        if not units_alone(one):
            assert steps.unit_norms
            assert steps.norm_shares


def chosen(bounding: str) -> dict[str, Any]:
    return {"contribution_bounding": bounding, "max_groups_contributed": 1}


@pytest.mark.parametrize("units", [1, 3, 40])
@pytest.mark.parametrize(("measure", "bounding", "possible"), FAR_APART)
def test_bounds_that_are_far_apart(measure: str, bounding: str, possible: bool, units: int) -> None:
    question = f"SELECT k, {measure} FROM r GROUP BY k", chosen(bounding)
    assert (planned_or_free(*question) is not None) == possible
    if possible:
        check(question, rows_of(units, 1))


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("units", [1, 3, 40])
def test_refusals_of_bounds_are_free_and_answers_do_not_fail(tmp_path: Path, units: int) -> None:
    path = database(tmp_path / "r.duckdb", units)
    with dpsql.connect(path, RULES, tmp_path / "budget.db", "a") as connection:
        for measure, bounding, possible in FAR_APART:
            before = connection.budget().queries
            asked = f"SELECT k, {measure} FROM r GROUP BY k"
            if possible:
                connection.sql(asked, **chosen(bounding)).fetchall()
            else:
                with pytest.raises(QueryRefused, match="bounds"):
                    connection.sql(asked, **chosen(bounding))
                assert connection.budget().queries == before


def database(path: Path, units: int) -> Path:
    with duckdb.connect(str(path)) as writer:
        columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS)
        writer.execute(f"CREATE TABLE r ({columns})")
        writer.executemany(
            f"INSERT INTO r VALUES ({', '.join('?' * len(COLUMNS))})", rows_of(units, 1)
        )
    return path


@pytest.mark.parametrize("name", ["i128", "u128", "u64", "i64"])
def test_integers_beyond_the_bounds_count_as_the_bounds(name: str) -> None:
    sql = f"SELECT sum({name}, {PER_ROW} => (-2, 5)), count({name}) FROM r"
    found = planned(sql, SCHEMA, RULES)
    for value in VALUES[name][1]:
        blank: list[Any] = [None] * (len(VALUES) + 2)
        blank[0], blank[[column for column, _ in COLUMNS].index(name)] = 1, value
        LAB.keep([tuple(blank)])
        LAB.fill([tuple(blank)])
        ((total, number),) = LAB.groups(found.statements[0], found.plans[0]).values()
        assert (total, number) == (min(5, max(-2, int(value))), 1)


EXPRESSIONS = (
    "x",
    "-x",
    "round(x) * round(x) * round(x)",
    "ceil(x) / floor(x)",
    "x * x - x / x",
    "pow(x, 4)",
    "sqrt(x)",
    "x % 3 + 3 % x",
    "round(x, 15)",
    "round(x, -15) * 1e308",
    "CAST(x AS BIGINT) * CAST(x AS BIGINT)",
    "x // 3",
    "abs(x) - 1e308 * 10",
    "least(x, 1e400)",
    "CASE WHEN x > 1 THEN x ELSE 1e-320 END",
    "CAST(x AS INT) // 7",
)


DECLARED = (
    *((0, 5e-324), (0, 1e-306), (1e-99, 1e-15), (-1e-15, 1), (0, 0), (3, 1e15), (-(2**53), 2**53)),
    *((0, 1.0000000000000002e15), (-1e200, 1e200), (1e300, 1.7e308), (-1.7e308, 1.7e308)),
    *((-1.7e308, -5e-324), (0, 10**400), (-(10**400), 7)),
)


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.slow
def test_bounds_of_the_policy_are_refused_or_kept(text: str) -> None:
    """Those of a policy made in Python may be integers larger than any float."""
    schema = schema_of(Table("p", (column_of("u", "BIGINT"), column_of("x", "DOUBLE"))))
    for low, high in DECLARED:
        bounds = ColumnPolicy(low, high)
        tables = {"p": TablePolicy("p", PrivacyUnit("unit", "u"), {"x": bounds})}
        rules = Policy("p", accounts=RULES.accounts, tables=tables)
        for call in ("sum({})", "var_pop({})", "quantile({}, 0.1)"):
            try:
                planned(f"SELECT {call.format(text)} FROM p", schema, rules)
            except (QueryRefused, ParameterError) as refused:
                if refused.code not in (*FREE, "unbounded_sum"):
                    raise


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_sums_beyond_64_bits_are_released_as_the_largest_integer(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "r.duckdb")) as writer:
        writer.execute(f"CREATE TABLE r ({', '.join(f'{n} {t}' for n, t in COLUMNS)})")
        writer.execute("INSERT INTO r (u, k, i64) SELECT i % 2, 1, 10**15 FROM range(20000) r(i)")
    with dpsql.connect(tmp_path / "r.duckdb", RULES, tmp_path / "budget.db", "a") as connection:
        for sign in (1, -1):
            sql = f"SELECT sum({sign} * i64, {PER_ROW} => (-1e15, 1e15)) FROM r"
            ((total,),) = connection.sql(sql, max_rows_contributed=100_000).fetchall()
            assert abs(total - sign * 2**63) <= 2**48


def test_bounds_are_not_lost_among_the_arguments_of_a_quantile() -> None:
    for call in ("quantile", "quantile_cont", "quantile_disc", "approx_quantile"):
        found = planned(f"SELECT {call}(f64, 0.9, {PER_ROW} => (2, 3)) FROM r", SCHEMA, RULES)
        lattice = found.plans[0].quantiles[0].quantile.ranked.lattice
        assert (lattice.lower, lattice.upper) == (2.0, 3.0)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    directory = tmp_path_factory.mktemp("extremes")
    rules = replace(RULES, accounts={"a": AccountPolicy("a", 1e6, 0.4)})
    path = database(directory / "r.duckdb", 5)
    with dpsql.connect(path, rules, directory / "budget.db", "a") as opened:
        yield opened


@pytest.mark.slow
@settings(examples_of(40))
@given(question=questions())
def test_what_is_not_refused_is_explained_and_answered(
    question: tuple[str, dict[str, Any]], connection: dpsql.Connection
) -> None:
    sql, parameters = question
    try:
        assert connection.explain(sql, **parameters).query == sql
    except (QueryRefused, ParameterError) as refused:
        before = connection.budget().queries
        with pytest.raises(type(refused)):
            connection.sql(sql, **parameters)
        assert connection.budget().queries == before
        return
    answer = connection.sql(sql, **parameters)
    answer.fetchall()
    answer.intervals()
    assert str(answer)
