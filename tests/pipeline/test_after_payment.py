"""What is accepted is answered: nothing that was known before fails once it has been paid for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.support import ANALYST, FILL, POLICY_TABLES, world_file

import dpsql
from dpsql.ledger import Ledger
from dpsql.planner import MECHANISM_NAMES
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.policy.parameters import Parameters

RULES = Policy(
    "world",
    defaults=Parameters(5.0, 1e-6, max_rows_contributed=10, left_out_share=0.0),
    accounts={ANALYST: AccountPolicy(ANALYST, 1000.0, 0.4)},
    tables=POLICY_TABLES,
)

AGGREGATES = [
    *("count(*)", "count(DISTINCT uid)", "count(DISTINCT n)", "count(n)", "count_if(flag)"),
    *("sum(n)", "sum(x)", "sum(amount)", "sum(big)", "sum(wide)", "sum(x * x)", "sum(x / 3)"),
    *("avg(x)", "avg(n % 3)", "variance(x)", "var_pop(x)", "stddev(wide)", "stddev_pop(n)"),
    *("median(x)", "quantile_cont(n, 0)", "quantile_cont(x, 1)", "quantile_disc(n, 0.99999)"),
    *("count(DISTINCT x)", "count(DISTINCT ts)"),
]
BOUNDS = [
    *("(0, 1e-300)", "(0, 1e-306)", "(-1e300, 1e300)", "(0, 1e15)", "(1e-15, 2e-15)"),
    *("(-1e15, -5e14)", "(0, 9007199254740992)", "(1e14, 1.5e14)", "(-0.0, 1)", "(0, 1e-15)"),
    *("(0.1, 0.30000000000000004)", "(5, 5.000001)", "(0, 1)", "(-1, 0)"),
]
KEYS = [
    *("k", "s", "x", "amount", "d", "ts", "flag", "c", '"order"', "k, s", "c, flag", "c, k"),
    *(
        "k::HUGEINT",
        "k::UTINYINT",
        "x::FLOAT",
        "x::DECIMAL(38, 10)",
        "ts::TIMESTAMP_NS",
        "ts::TIME",
    ),
    *(
        "ts::TIMESTAMPTZ",
        "s::BLOB",
        "k::VARCHAR",
        "date_trunc('month', d)",
        "s || 'a'",
        "NULLIF(k, 3)",
    ),
    *("CASE WHEN flag THEN k END", "d - DATE '2024-01-01'", "k IS NULL", "x > 3", "year(d)"),
    *("upper(s)", "ts - ts", "INTERVAL (k) DAY", "d + INTERVAL 1 DAY", "k / 2", "k * 1.5", "ln(k)"),
]
LEVELS = ["0.999999999999", "0.9999999999999999", "1e-9", "5e-324", "0.5"]
ENDS = [
    *(
        "LIMIT 0",
        "LIMIT 9223372036854775807",
        "LIMIT 9223372036854775808",
        "LIMIT NULL",
        "LIMIT 10%",
    ),
    *("LIMIT 1 OFFSET 9223372036854775807", "LIMIT 1.5", "LIMIT -1", "LIMIT 1 + 1", "LIMIT ALL"),
    *("LIMIT (SELECT 1)", "LIMIT (SELECT count(*) FROM shops)", "LIMIT (SELECT -1)", "LIMIT '3'"),
    *("OFFSET 3", "OFFSET -1", "OFFSET 9999999999999999999999", "OFFSET NULL", "LIMIT 1e18"),
    *("LIMIT 2 OFFSET 1.5", "LIMIT 101%", "LIMIT -5%", "LIMIT true", "LIMIT 1::HUGEINT", "LIMIT k"),
    *("FETCH FIRST 3 ROWS ONLY", "ORDER BY random()", "ORDER BY n / 0", "ORDER BY ALL DESC"),
    *("ORDER BY n DESC LIMIT 0", "ORDER BY n DESC LIMIT 3 OFFSET 9223372036854775807"),
    "ORDER BY n DESC LIMIT 9223372036854775807 OFFSET 9223372036854775807",
    "ORDER BY 2 DESC NULLS FIRST LIMIT 3",
]
TAILS = [
    *("n / 0", "n // 0", "n % 0", "k::BOOLEAN", "sqrt(n - n)", "n * 1e308", "'a'::INT", "1e400"),
    *(
        "nullif('x', 1)",
        "(n || 'a')",
        "n = 'a'",
        "n IN ('a')",
        "n BETWEEN 'a' AND 'b'",
        "power(10, 400)",
    ),
    *(
        "error('x')",
        "CASE WHEN n > 1e300 THEN error('a') END",
        "list_value(n)[n]",
        "range(3)",
        "hash(n)",
    ),
    *(
        "regexp_matches('a', '(')",
        "strptime('x', '%Y')",
        "json_extract('{', '$.a')",
        "format('{}', n)",
    ),
    *(
        "format('{:d}', 'a')",
        "struct_pack(a := n).a",
        "unnest([n, n])",
        "md5(n::VARCHAR)",
        "chr(-1)",
    ),
    *("date_trunc('foo', DATE '2024-01-01')", "make_date(2024, 13, 1)", "try_cast('a' AS INT)"),
    *(
        "current_date",
        "random()",
        "n::VARCHAR",
        "INTERVAL 1 DAY * n",
        "n::DECIMAL(38, 0)",
        "NULL",
        "[]",
    ),
]
OPTIONS = [
    *(
        "epsilon = 1e-6",
        "epsilon = 900",
        "delta = 1e-18",
        "delta = 0.3",
        "contribution_bounding = 'weight'",
    ),
    *(
        "max_groups_contributed = 1",
        "max_groups_contributed = 2147483647",
        "max_groups_contributed = NULL",
    ),
    *(
        "max_rows_contributed = 1",
        "max_rows_contributed = 2147483647",
        "k_bar = 1",
        "k_bar = 2147483647",
    ),
    *("min_units_per_group = 50", "min_units_per_group = 2147483647"),
    *(f"mechanism = '{name}'" for name in MECHANISM_NAMES),
]
SHAPES = [
    *(
        "k, count(*) AS n FROM visits GROUP BY k",
        "c, sum(x) AS n, median(n) FROM visits GROUP BY c",
    ),
    *("DISTINCT k FROM visits", "avg(x), stddev(wide) FROM visits"),
    "k, count(DISTINCT uid) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 3",
]
GROUPED = "SELECT k, count(*) AS n FROM visits GROUP BY k"


def statements() -> Iterator[str]:
    for aggregate, key in product(AGGREGATES, ("k", "c")):
        yield f"SELECT {key}, {aggregate} AS a FROM visits GROUP BY {key}"
        yield f"SELECT {key}, {aggregate} AS a FROM visits GROUP BY {key} ORDER BY a DESC LIMIT 3"
    for level, aggregate in product(LEVELS, AGGREGATES):
        yield f"SELECT {aggregate} AS a, DP_INTERVAL_LOW(a, {level}) FROM visits"
        yield f"SELECT c, {aggregate} AS a, DP_INTERVAL_HIGH(a, {level}) FROM visits GROUP BY c"
    for name, bounds, column in product(("sum", "avg", "variance", "median"), BOUNDS, ("n", "x")):
        argument = f"{column}, contribution_bounds_per_row => {bounds}"
        yield f"SELECT k, {name}({argument}) AS a FROM visits GROUP BY k"
    for row, group in product(BOUNDS, BOUNDS):
        argument = f"contribution_bounds_per_row => {row}, contribution_bounds_per_group => {group}"
        yield f"SELECT c, sum(x, {argument}) FROM visits GROUP BY c"
    for key in KEYS:
        yield f"SELECT {key}, count(*) AS n FROM visits GROUP BY ALL"
        yield f"SELECT {key}, count(*) AS n FROM visits GROUP BY ALL ORDER BY n DESC LIMIT 2"
        yield f"SELECT DISTINCT {key} FROM visits"
        yield f"SELECT * FROM (SELECT {key}, median(x) AS n FROM visits GROUP BY ALL) t WHERE n > 0"
    for end in ENDS:
        yield f"{GROUPED} {end}"
        yield f"SELECT * FROM ({GROUPED}) t {end}"
    for tail in TAILS:
        yield f"SELECT k, {tail} AS y FROM ({GROUPED}) t"
        yield f"SELECT k, count(*) AS n, {tail} AS y FROM visits GROUP BY k"
    for option, shape in product(OPTIONS, SHAPES):
        yield f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({option}) {shape}"


STATEMENTS = list(statements())


class Paid:
    """Connections to one world, each with a ledger of its own once the last is used up."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.number = directory, 0
        with world_file(directory / "world.duckdb", *FILL):
            pass
        self.connection = self.opened()

    def opened(self) -> dpsql.Connection:
        self.number += 1
        ledger = self.directory / f"{self.number}.db"
        return dpsql.connect(self.directory / "world.duckdb", RULES, ledger, ANALYST)

    def renew(self) -> None:
        self.connection.close()
        self.connection = self.opened()


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paid]:
    found = Paid(tmp_path_factory.mktemp("paid"))
    yield found
    found.connection.close()


def failures(
    paid: Paid, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, list[str]]:
    """How many statements were answered, and which failed although they were paid for."""
    reserve, charges = Ledger.reserve, []

    def counted(*given: Any, **named: Any) -> object:
        charges.append(1)
        return reserve(*given, **named)

    monkeypatch.setattr(Ledger, "reserve", counted)
    answered, failed = 0, []
    for statement in asked:
        charges.clear()
        try:
            read(paid.connection.sql(statement))
            answered += 1
        except dpsql.BudgetExceeded:
            paid.renew()
        except dpsql.Error as error:
            if charges:
                failed.append(f"{error.code}: {statement}")
                paid.renew()
    return answered, failed


def read(result: dpsql.Result) -> None:
    """Everything that an answer can be asked for."""
    result.intervals()
    result.summary()
    result.arrow()
    assert len(result.columns) == len(result.types)
    assert repr(result)
    result.fetchall()


@pytest.mark.slow
def test_what_is_accepted_is_answered(paid: Paid, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, failed = failures(paid, STATEMENTS[::7], monkeypatch)
    assert failed == []
    assert answered > 80


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_hundreds_of_odd_statements_are_answered_if_they_are_accepted(
    paid: Paid, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, failed = failures(paid, STATEMENTS[part::8], monkeypatch)
    assert failed == []
    assert answered > 60


@pytest.mark.slow
def test_the_harness_notices_what_fails_after_payment(
    paid: Paid, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise dpsql.DataError("broken", code="tail_failed")

    monkeypatch.setattr("dpsql.pipeline.purchase.encode_release", fails)
    asked = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = true) count(*) FROM visits"
    assert failures(paid, [asked], monkeypatch) == (0, [f"engine_failed: {asked}"])


@pytest.mark.parametrize("level", ["0.9999999999999999", "0.9999999999995", "1", "0", "-1", "'a'"])
def test_a_confidence_too_near_to_one_is_refused_before_it_is_paid_for(
    paid: Paid, level: str
) -> None:
    before = paid.connection.budget()
    for aggregate in ("avg(x)", "stddev(x)", "count(*)", "sum(n)"):
        with fails_with("confidence_out_of_range"):
            paid.connection.sql(f"SELECT {aggregate} AS a, DP_INTERVAL_LOW(a, {level}) FROM visits")
    assert paid.connection.budget() == before
    with pytest.raises(dpsql.ParameterError):
        paid.connection.sql("SELECT k FROM shops").intervals(1 - 1e-13)


def test_declared_keys_of_which_none_comes_out_are_answered_with_no_rows(paid: Paid) -> None:
    asked = "SELECT c, sum(x) AS n, median(n) FROM visits GROUP BY c"
    assert paid.connection.sql(asked, min_units_per_group=10**6).fetchall() == []


def test_a_type_that_a_frame_does_not_have_is_told_and_the_answer_stays_readable(
    paid: Paid,
) -> None:
    result = paid.connection.sql("SELECT DATE 'infinity' AS gap")
    with fails_with("no_frame_type"):
        result.pl()
    assert len(result.fetchall()) == 1


NEVER = [
    *("CAST(n AS STRUCT(a INT))", "CAST(n AS INT[3])", "CAST(n AS MAP(INT, INT))"),
    *("CAST(n AS ENUM('a'))", "CAST(n AS UNION(a VARCHAR[], b DATE))", "CAST({'a': n} AS INT)"),
    *("c LIKE 'a' ESCAPE 'bb'", "c NOT LIKE 'a' ESCAPE 'bb'", "c ILIKE 'a' ESCAPE 'bb'"),
    *("n + (170141183460469231731687303715884105727 + 1)", "CASE WHEN c THEN 1 END"),
    *("sum(n) FILTER (WHERE c) OVER ()", "CAST(n AS DATE)"),
]


@pytest.mark.slow
@pytest.mark.parametrize("never", NEVER)
def test_what_can_never_be_computed_is_refused_before_it_is_paid_for(
    paid: Paid, never: str
) -> None:
    before = paid.connection.budget()
    with pytest.raises(dpsql.QueryRefused) as refused:
        paid.connection.sql(f"SELECT {never} FROM (SELECT c, count(*) AS n FROM visits GROUP BY c)")
    assert refused.value.code in ("constant_fails", "text_compared")
    assert paid.connection.budget() == before


@pytest.mark.parametrize("condition", ["c", "NOT c", "c AND n > 0"])
def test_a_text_is_no_condition(paid: Paid, condition: str) -> None:
    before = paid.connection.budget()
    with fails_with("text_compared"):
        paid.connection.sql(
            f"SELECT n FROM (SELECT c, count(*) AS n FROM visits GROUP BY c) WHERE {condition}"
        )
    assert paid.connection.budget() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "fine", ["c LIKE 'a!%' ESCAPE '!'", "{'a': n}.a", "[n, 1][1]", "n::DOUBLE::INT", "c = 'a'"]
)
def test_what_can_be_computed_is(paid: Paid, fine: str) -> None:
    asked = f"SELECT {fine} AS x FROM (SELECT c, count(*) AS n FROM visits GROUP BY c)"
    assert len(paid.connection.sql(asked).fetchall()) >= 0
