"""TPC-H with customers as privacy units: the 22 queries, answered or refused, on generated data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsFloat, TypeGuard

import duckdb
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.sensitivity import Difference, TableLab
from helpers.support import Planned, planned
from tpch_queries import PUBLIC, QUERIES, REFUSED, RUNNING, TpchQuery, text
from tpch_world import ANALYST, POLICY, SCHEMA, TABLES, database, exact, plain

import dpsql
from dpsql.core.schema import Schema, Table, schema_of
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.sql.expressions.totality import total, total_condition
from dpsql.sql.relations.from_clause import from_clause
from dpsql.syntax.text import to_sql

Row = tuple[Any, ...]
ROUNDING = 1e-5  # of sums and averages to the steps of their lattices
AVERAGE = 4500.0  # stands for the released average of query 22 where nothing is released

each_query = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
each_running = pytest.mark.parametrize("query", RUNNING, ids=lambda query: query.name)


def values_for(query: TpchQuery, average: object = AVERAGE) -> dict[str, object]:
    return {"average": average} if query.first else {}


# -- without data ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """A connection to empty tables that can explain, and nothing else."""
    path = tmp_path_factory.mktemp("tpch") / "empty.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute(SCHEMA)
    with dpsql.connect(path, POLICY, None, ANALYST) as connection:
        yield connection


@pytest.mark.slow
@each_query
def test_each_query_is_planned_or_refused_with_its_reason(
    query: TpchQuery, empty: dpsql.Connection
) -> None:
    if query.refusal is None:
        plan = empty.explain(query.asked, values_for(query), **query.parameters)
        assert bool(plan.blocks) is not query.public
        return
    with fails_with(query.refusal.code):
        empty.explain(query.asked)


def test_all_22_queries_are_accounted_for() -> None:
    assert [query.number for query in QUERIES] == list(range(1, 23))
    assert {query.name for query in REFUSED if query.edits} == set()
    edited = {path.stem for path in (Path(__file__).parent / "edited").glob("*.sql")}
    first = {query.first for query in QUERIES if query.first}
    within = {query.within for query in QUERIES if query.within}
    assert edited == {query.name for query in QUERIES if query.edits} | first | within


REPHRASED = [q for q in RUNNING if q.edits and q.same_question and not q.first]


@pytest.mark.parametrize("query", REPHRASED, ids=lambda query: query.name)
def test_a_query_that_was_rephrased_is_refused_as_it_stands(
    query: TpchQuery, empty: dpsql.Connection
) -> None:
    with pytest.raises(dpsql.QueryRefused):
        empty.explain(query.original)


# -- on data --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data() -> Path:
    return database()


@pytest.fixture
def private(data: Path, tmp_path: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(data, POLICY, tmp_path / "budget.db", ANALYST) as connection:
        yield connection


@pytest.fixture(scope="module")
def duck(data: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with plain(data) as connection:
        yield connection


def ask(private: dpsql.Connection, query: TpchQuery, **more: Any) -> dpsql.Result:
    """The answer to a query, after that to the query it needs first."""
    average = None
    if query.first:
        ((average,),) = private.sql(text("edited", query.first), max_rows_contributed=1).fetchall()
    return private.sql(query.asked, values_for(query, average), **query.parameters, **more)


def is_number(value: object) -> TypeGuard[SupportsFloat]:
    return not isinstance(value, str | bool) and hasattr(value, "__float__")


def same(value: object, right: object) -> bool:
    if is_number(value) and is_number(right):
        return math.isclose(float(value), float(right), rel_tol=ROUNDING)
    return value == right


def agree(answer: dpsql.Result, right: Sequence[Row], keys: int) -> None:
    """Assert that the rows are the right ones in their order.

    Declared keys without rows come out as well: their counts and sums are zero.
    """
    wanted = {row[:keys] for row in right}
    found = [row for row in answer if row[:keys] in wanted]
    assert len(found) == len(right)
    for row, expected in zip(found, right, strict=True):
        assert all(map(same, row, expected)), f"{row} is not {expected}"
    totals = [
        i for i in range(keys, len(answer.columns)) if not answer.columns[i].startswith("avg")
    ]
    for row in answer:
        if row[:keys] not in wanted:
            assert all(row[i] == 0 for i in totals), row


@pytest.mark.slow
@each_running
@pytest.mark.usefixtures("no_noise")
def test_without_noise_answers_equal_those_of_plain_duckdb(
    query: TpchQuery, private: dpsql.Connection, duck: duckdb.DuckDBPyConnection
) -> None:
    answer = ask(private, query)
    agree(answer, exact(duck, query.reference), query.keys)


@pytest.mark.slow
@pytest.mark.parametrize("query", PUBLIC, ids=lambda query: query.name)
def test_queries_over_public_tables_are_answered_exactly_and_free(
    query: TpchQuery, private: dpsql.Connection, duck: duckdb.DuckDBPyConnection
) -> None:
    before = private.budget()
    answer = private.sql(query.asked)
    right = exact(duck, query.reference)
    assert len(right) > 0
    assert len(answer.fetchall()) == len(right)
    for row, expected in zip(answer, right, strict=True):
        assert all(map(same, row, expected))
    assert not answer.released
    assert private.budget() == before


@pytest.mark.slow
@each_running
def test_the_comparison_notices_noise(
    query: TpchQuery, private: dpsql.Connection, duck: duckdb.DuckDBPyConnection
) -> None:
    answer = ask(private, query)
    with pytest.raises(AssertionError):
        agree(answer, exact(duck, query.reference), query.keys)


@pytest.mark.slow
def test_the_bounds_and_domains_of_the_specification_hold_the_data(
    duck: duckdb.DuckDBPyConnection,
) -> None:
    for name, table in POLICY.tables.items():
        for column, known in table.columns.items():
            outside = "FALSE"
            if known.lower is not None:
                outside = f"{column} NOT BETWEEN {known.lower} AND {known.upper}"
            if known.domain is not None:
                outside = f"{column} NOT IN {known.domain}"
            ((count,),) = exact(duck, f"SELECT count(*) FROM {name} WHERE {outside}")
            assert count == 0, column


# -- with noise -----------------------------------------------------------------------------------

KNOWN = ("q01", "q04", "q05", "q06", "q12", "q19")  # nothing decides which of their groups appear
RUNS = 20


CONFIDENCES = (0.95, 0.5)


def covered(
    private: dpsql.Connection, query: TpchQuery, right: dict[Row, Row], run: int
) -> list[float]:
    """Which share of an answer's values lies within its intervals, for each confidence."""
    answer = ask(private, query, epsilon=5 - run / 1000)  # no run repeats another's statement
    shares = []
    for confidence in CONFIDENCES:
        hits: list[bool] = []
        for name, interval in answer.intervals(confidence).items():
            position = answer.columns.index(name)
            for row, low, high in zip(answer, interval.low, interval.high, strict=True):
                if row[: query.keys] in right:
                    value = float(right[row[: query.keys]][position])
                    hits.append(low <= value <= high)
        shares.append(sum(hits) / len(hits))
    return shares


def least_mean(runs: int, promised: float = 0.95) -> float:
    """A mean share that independent runs stay below once in 1e9, if they keep the promise.

    Chernoff's bound, which holds for shares as for single trials.
    """
    share = promised
    while True:
        divergence = share * math.log(share / promised)
        divergence += (1 - share) * math.log((1 - share) / (1 - promised))
        if runs * divergence > math.log(1e9):
            return share
        share -= 0.001


@pytest.mark.slow
def test_exact_answers_lie_within_the_stated_intervals_as_often_as_promised(
    private: dpsql.Connection, duck: duckdb.DuckDBPyConnection
) -> None:
    shares = []
    for query in RUNNING:
        if query.name in KNOWN:
            rows = {row[: query.keys]: row for row in exact(duck, query.reference)}
            shares += [covered(private, query, rows, run) for run in range(RUNS)]
    promised, half = (sum(share) / len(shares) for share in zip(*shares, strict=True))
    assert promised >= least_mean(len(shares))
    assert half < least_mean(len(shares))  # intervals that are too narrow are noticed


@pytest.mark.slow
def test_large_groups_come_out_with_narrow_intervals(
    private: dpsql.Connection, duck: duckdb.DuckDBPyConnection
) -> None:
    query = RUNNING[0]
    answer = ask(private, query)
    rows: list[tuple[Any, ...]] = [*exact(duck, query.reference)]
    largest = max(rows, key=lambda row: row[-1])
    (index,) = [i for i, row in enumerate(answer) if row[:2] == largest[:2]]
    for name, interval in answer.intervals(0.95).items():
        width = interval.high[index] - interval.low[index]
        exact_value = float(largest[answer.columns.index(name)])
        assert width / exact_value < 0.1, name


@pytest.mark.slow
@pytest.mark.parametrize("query", REFUSED, ids=lambda query: query.name)
def test_a_refused_query_is_never_charged_for(query: TpchQuery, private: dpsql.Connection) -> None:
    before = private.budget()
    with pytest.raises(dpsql.Error) as caught:
        private.sql(query.asked)
    assert query.refusal is not None
    assert caught.value.code == query.refusal.code
    assert private.budget() == before


def test_orders_of_single_customers_cannot_be_asked_for(empty: dpsql.Connection) -> None:
    query = next(query for query in RUNNING if query.name == "q03")
    with fails_with("groups_by_unit"):
        empty.explain(query.original, **query.parameters)


# -- one customer less ----------------------------------------------------------------------------


class Customers(TableLab):
    """A copy of the tables, from which a customer can be taken with all that is theirs."""

    def __init__(self, path: Path) -> None:
        super().__init__("none", ())
        self._connection.execute(f"ATTACH '{path}' AS tpch (READ_ONLY)")
        for table in TABLES:
            self._connection.execute(f"CREATE TABLE {table} AS FROM tpch.{table}")

    def leave(self, customer: object) -> None:
        """Take a customer away, until :meth:`back`."""
        run = self._connection.execute
        run("BEGIN")
        run(
            "DELETE FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM orders WHERE "
            "o_custkey = $1)",
            [customer],
        )
        run("DELETE FROM orders WHERE o_custkey = $1", [customer])
        run("DELETE FROM customer WHERE c_custkey = $1", [customer])

    def back(self) -> None:
        """Everybody is there again."""
        self._connection.execute("ROLLBACK")

    def schema(self) -> Schema:
        return schema_of(
            *(
                Table(name, tuple(column_of(*row[:2]) for row in self.rows(f"DESCRIBE {name}")))
                for name in TABLES
            )
        )

    def busiest(self, found: Planned, count: int) -> list[object]:
        """The customers with the most rows in what a query reads."""
        (block,) = found.query.blocks
        table = block.source.table
        where = (
            "TRUE"
            if block.condition is None
            else to_sql(total_condition(block.condition, table, DUCKDB))
        )
        keys = [to_sql(total(key.expression, table, DUCKDB)) for key in block.keys]
        read = from_clause(block.source.rows, DUCKDB).render(DUCKDB.renderer)
        number = f"count(*) * count(DISTINCT ({', '.join(keys)}))" if keys else "count(*)"
        rows = self.rows(
            f"SELECT {block.unit_column} AS u FROM {read} WHERE {where} "
            f"GROUP BY u ORDER BY {number} DESC, u LIMIT {count}"
        )
        return [unit for (unit,) in rows]


@pytest.fixture(scope="module")
def customers(data: Path) -> Customers:
    return Customers(data)


def plan_of(sql: str, customers: Customers, parameters: Mapping[str, Any]) -> Planned:
    bound = sql.replace("$average", str(AVERAGE))
    return planned(bound, customers.schema(), POLICY, **parameters)


def violations(customers: Customers, found: Planned, statement: str) -> dict[object, list[str]]:
    """How much too far the busiest customers move the exact rows of a statement."""
    (plan,) = found.plans
    everybody = customers.groups(statement, plan)
    units = customers.busiest(found, 3)
    differences = {}
    for unit in units:
        customers.leave(unit)
        try:
            differences[unit] = Difference(customers.groups(statement, plan), everybody)
        finally:
            customers.back()
    assert any(d.without != d.with_unit for d in differences.values()), "nobody matters"
    found_ = {unit: difference.violations(plan) for unit, difference in differences.items()}
    return {unit: reasons for unit, reasons in found_.items() if reasons}


TIGHT = {"max_groups_contributed": 1, "max_rows_contributed": 1}


ASKED = {query.name: (query.asked, query.parameters) for query in RUNNING if not query.within}
ASKED |= {
    within: (text("edited", within), query.parameters)
    for query in RUNNING
    if (within := query.within)
}
ASKED |= {first: (text("edited", first), TIGHT) for query in RUNNING if (first := query.first)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("tight", [True, False])
def test_one_customer_moves_exact_rows_within_the_declared_bounds(
    name: str, tight: bool, customers: Customers
) -> None:
    sql, wide = ASKED[name]
    found = plan_of(sql, customers, TIGHT if tight else wide)
    assert violations(customers, found, found.statements[0]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["q01", "q09", "q12", "q15"])
def test_a_customer_who_is_not_bounded_is_noticed(name: str, customers: Customers) -> None:
    sql, wide = ASKED[name]
    found, unbounded = (plan_of(sql, customers, bounds) for bounds in (TIGHT, wide))
    assert violations(customers, found, unbounded.statements[0])
