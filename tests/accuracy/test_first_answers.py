"""Ordinary questions without options: how often their intervals hold the truth, and how wide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.policy.load import parse_policy

POLICY = """
version: 1
dataset: shop
defaults: {epsilon: 1.0, delta: 1e-8}
accounts: {ana: {epsilon: 1000, delta: 1e-3}}
tables:
  orders:
    privacy_unit: {name: customer, column: customer}
    columns:
      kind: {domain: [book, disc, game, toy]}
      price: {lower: 0, upper: 20}
"""
ROUNDS = 40
BY_KIND = "SELECT kind, COUNT(*) AS n FROM orders GROUP BY kind"
TOP = "SELECT kind, COUNT(*) AS n FROM orders GROUP BY kind ORDER BY n DESC LIMIT 2"
TOTAL = "SELECT COUNT(*) AS n FROM orders"
SUMS = "SELECT kind, SUM(price) AS n FROM orders GROUP BY kind"
AVERAGES = "SELECT kind, AVG(price) AS n FROM orders GROUP BY kind"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 1,250 customers with 40 orders each, of four kinds."""
    rng = np.random.default_rng(20)
    orders = np.maximum(1, rng.poisson(40, size=1250))
    customer = np.repeat(np.arange(1250), orders)
    kind = rng.choice(4, size=len(customer), p=[0.5, 0.3, 0.15, 0.05])
    price = np.round(rng.gamma(2.0, 3.0, size=len(customer)), 2)
    path = tmp_path_factory.mktemp("shop") / "shop.duckdb"
    with duckdb.connect(str(path)) as writer:
        table = {"customer": customer, "kind": kind, "price": price}
        writer.register("rows", dpsql_table(table))
        writer.execute(
            "CREATE TABLE orders AS SELECT customer, ['book', 'disc', 'game', 'toy'][1 + kind] "
            "AS kind, price FROM rows"
        )
    return path


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 customers, of whom a few have a large part of all orders."""
    rng = np.random.default_rng(21)
    orders = np.minimum(np.floor(20 * (rng.pareto(2.0, size=600) + 1)), 1000).astype(int)
    customer = np.repeat(np.arange(600), orders)
    path = tmp_path_factory.mktemp("heavy") / "shop.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.register("rows", dpsql_table({"customer": customer}))
        writer.execute("CREATE TABLE orders AS SELECT *, 'book' AS kind, 1.0 AS price FROM rows")
    return path


def dpsql_table(columns: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.table(columns)


def held(shop: Path, asked: str, directory: Path, **given: Any) -> tuple[float, float]:
    """How often the truth is in an interval, and the widths in parts of the real error's."""
    with duckdb.connect(str(shop), read_only=True) as reader:
        exact = asked.replace("LIMIT 2", "").replace("(price)", "(least(price, 20))")
        truth = {row[:-1]: float(row[-1]) for row in reader.execute(exact).fetchall()}
    inside: list[bool] = []
    widths: list[float] = []
    errors: list[float] = []
    for number in range(ROUNDS):  # each finds its number of rows anew
        with dpsql.connect(shop, parse_policy(POLICY), directory / f"{number}.db", "ana") as con:
            result = con.sql(asked, **given)
            ends = result.intervals(0.95)["n"]
            for row, low, high in zip(result.fetchall(), ends.low, ends.high, strict=True):
                inside.append(bool(low <= truth[row[:-1]] <= high))
                widths.append(float(high - low) / 2)
                errors.append(abs(float(row[-1]) - truth[row[:-1]]))
    return float(np.mean(inside)), float(np.mean(widths) / np.quantile(errors, 0.95))


@pytest.mark.slow
@pytest.mark.parametrize("asked", [BY_KIND, TOP, TOTAL, SUMS, AVERAGES])
def test_intervals_of_ordinary_questions_hold_the_truth_and_are_not_too_wide(
    asked: str, shop: Path, tmp_path: Path
) -> None:
    share, wide = held(shop, asked, tmp_path)
    assert share > 0.75  # 0.93 to 0.97 over 200 rounds; of 40, fewer once in 10⁵ runs
    assert wide < 2.5


@pytest.mark.slow
def test_intervals_allow_for_the_rows_of_heavy_units(heavy: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(heavy), read_only=True) as reader:
        ((truth,),) = reader.execute(TOTAL).fetchall()
    held, by_noise = 0, 0
    for number in range(ROUNDS):
        with dpsql.connect(heavy, parse_policy(POLICY), tmp_path / f"{number}.db", "ana") as con:
            result = con.sql(TOTAL)
            (low,), (high,) = (ends.tolist() for ends in astuple(result.intervals(0.95)["n"]))
            ((value,),) = result.fetchall()
        assert high - value > value - low
        assert "Intervals reach further up" in result.summary()
        held += low <= truth <= high
        by_noise += low <= truth <= 2 * value - low
    assert held > 0.5 * ROUNDS  # 0.81 of 500 rounds; of 40, half once in 10⁵ runs
    assert by_noise < held - 2


def counted_rows(
    directory: Path, orders: Sequence[int], asked: str, rules: str = POLICY, **given: Any
) -> dpsql.Result:
    """The answer to a question about customers with so many orders each, one after the other."""
    engine = dpsql.DuckDBEngine()
    customer = np.repeat(np.arange(len(orders)), orders)
    engine.register("orders", {"customer": customer, "kind": np.full(len(customer), "book")})
    policy = parse_policy(rules.replace("      price: {lower: 0, upper: 20}\n", ""))
    with dpsql.connect(engine, policy, directory / "budget.db", "ana") as con:
        return con.sql(asked, **given)


UNKNOWN = POLICY.replace("      kind: {domain: [book, disc, game, toy]}\n", "").replace(
    "    columns:\n", ""
)


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("keys", ["none", "known", "unknown"])
def test_intervals_allow_for_further_rows_where_one_of_a_unit_was_drawn(
    keys: str, summed: bool, tmp_path: Path
) -> None:
    """Rows are counted as units then, of whom a few have more: a count of units lacks nothing."""
    key = "" if keys == "none" else "kind, "
    also = ", SUM(1.0, contribution_bounds_per_row => (0, 2)) AS s" if summed else ""
    asked = f"SELECT {key}COUNT(*) AS n, COUNT(DISTINCT customer) AS customers{also} FROM orders"
    asked += f" GROUP BY {key[:-2]}" if key else ""
    rules = UNKNOWN if keys == "unknown" else POLICY
    found = "max_rows_contributed is 1, found"
    for attempt in range(8):  # a larger number is drawn now and then
        (place := tmp_path / str(attempt)).mkdir()
        result = counted_rows(place, [1] * 3000 + [2] * 4, asked, rules, epsilon=0.5)
        if any(found in said for said in result.plan.blocks[0].declared):
            break
    else:
        pytest.fail(f"no answer says {found}")
    assert "Intervals reach further up" in result.summary()
    rows, units = (result.intervals(0.95)[name] for name in ("n", "customers"))
    most = int(np.argmax(units.high))
    assert rows.low[most] == units.low[most]
    width = units.high[most] - units.low[most]
    assert units.high[most] + 8 < rows.high[most] <= units.high[most] + width


ALONE = "SELECT {}COUNT(*) AS n, COUNT(DISTINCT customer) AS customers{} FROM orders{}"


@pytest.mark.parametrize(
    "beside", ["", ", AVG(1.0 * customer % 20, {}) AS a", ", COUNT(DISTINCT 7)"]
)
@pytest.mark.parametrize("keys", ["none", "known", "unknown", "unknown, given groups"])
def test_they_do_not_reach_further_than_noise_whatever_is_asked_beside(
    keys: str, beside: str, tmp_path: Path
) -> None:
    """All units have one row: a count of rows lacks nothing."""
    beside = beside.format("contribution_bounds_per_row => (0, 20)")
    key = ("", "") if keys == "none" else ("kind, ", " GROUP BY kind")
    rules = UNKNOWN if keys.startswith("unknown") else POLICY
    given = {"max_groups_contributed": 1} if keys.endswith("groups") else {}
    asked = ALONE.format(key[0], beside, key[1])
    result = counted_rows(tmp_path, [1] * 3000, asked, rules, epsilon=2.0, **given)
    rows, units = (result.intervals(0.95)[name] for name in ("n", "customers"))
    if "max_rows_contributed is 1, found" in " ".join(result.plan.blocks[0].declared):
        assert np.all(rows.high - units.high <= (units.high - units.low) / 2 + 1)


def test_a_count_with_a_given_bound_of_one_lacks_no_rows_that_a_number_cuts(tmp_path: Path) -> None:
    asked = (
        "SELECT COUNT(*, contribution_bounds_per_group => (0, 1)) AS n, "
        "SUM(1.0, contribution_bounds_per_row => (0, 2)) AS s, "
        "COUNT(DISTINCT customer) AS customers FROM orders"
    )
    result = counted_rows(tmp_path, [1] * 20, asked)
    given, units = (result.intervals(0.95)[name] for name in ("n", "customers"))
    assert (given.low, given.high) == (units.low, units.high)
    assert not any("n and s are too small" in said.text for said in result.warnings)


TOO_FEW = "too small to tell how many rows a unit has"
WIDE = "SELECT SUM(LENGTH(kind), contribution_bounds_per_row => (0, 1000000)) AS s FROM orders"


@pytest.mark.parametrize(
    ("asked", "rules"),
    [
        (TOTAL, POLICY),
        (BY_KIND, POLICY),
        (BY_KIND, UNKNOWN),
        (f"WITH a AS ({TOTAL}) SELECT 2 * n AS n FROM a", POLICY),
    ],
)
def test_counts_of_few_units_say_that_a_number_of_rows_was_drawn_of_too_few(
    asked: str, rules: str, tmp_path: Path
) -> None:
    """All of them have forty rows, and one counts: of so few a small number is drawn."""
    result = counted_rows(tmp_path, [40] * 30, asked, rules, epsilon=0.8)
    if len(result) == 0:
        return  # thirty units are named by chance alone
    (said,) = [each for each in result.warnings if TOO_FEW in each.text]
    assert said.strong
    assert said.kind == "bounds_found"
    assert TOO_FEW in " ".join(result.summary().split())


@pytest.mark.parametrize(
    ("orders", "asked", "given"),
    [
        ([1] * 3000, TOTAL, {}),
        ([3] * 2000, BY_KIND, {"epsilon": 2.0}),
        ([1] * 20, TOTAL, {"max_rows_contributed": 1}),
        ([1] * 3000, "SELECT COUNT(*) AS n, COUNT_IF(kind = 'toy') AS none FROM orders", {}),
        ([1] * 20, "SELECT COUNT(DISTINCT customer) AS n FROM orders", {}),
        ([1] * 3000, WIDE, {}),
    ],
)
def test_others_do_not(
    orders: Sequence[int], asked: str, given: dict[str, Any], tmp_path: Path
) -> None:
    result = counted_rows(tmp_path, orders, asked, **given)
    assert TOO_FEW not in " ".join(result.summary().split())


@pytest.mark.slow
def test_with_a_number_that_cuts_they_do_not(shop: Path, tmp_path: Path) -> None:
    share, _ = held(shop, BY_KIND, tmp_path, max_rows_contributed=2)
    assert share < 0.1


LIMIT_K = "ORDER BY n DESC LIMIT 50"


@pytest.mark.slow
def test_a_limit_misses_no_more_of_the_largest_groups_than_all_groups_cut_to_it(
    tmp_path: Path,
) -> None:
    """Of 12,000 people with some 12 of 5,000 keys each, whose sizes fall off like 1/rank."""
    rng = np.random.default_rng(12)
    chances = 1 / np.arange(1, 5001)
    of_each = np.minimum(rng.geometric(1 / 12, 12_000), 200)
    keys = rng.choice(5000, size=of_each.sum(), p=chances / chances.sum())
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as writer:
        table = {"customer": np.repeat(np.arange(12_000), of_each), "kind": keys}
        writer.register("rows", dpsql_table(table))
        writer.execute("CREATE TABLE orders AS SELECT *, 1.0 AS price FROM rows")
        counted = "SELECT kind, COUNT(DISTINCT customer) AS n FROM orders GROUP BY kind"
        truth = dict(writer.execute(counted).fetchall())
    largest = sum(sorted(truth.values())[-50:])
    undeclared = POLICY.replace("      kind: {domain: [book, disc, game, toy]}\n", "")
    policy = parse_policy(undeclared)

    def missed(asked: str, name: str, **given: Any) -> float:
        with dpsql.connect(path, policy, tmp_path / f"{name}.db", "ana") as con:
            named = con.sql(asked, **given).fetchall()
        return 1 - float(sum(truth[row[0]] for row in named)) / float(largest)

    direct = f"{counted} {LIMIT_K}"
    for number in range(3):
        cut = missed(f"SELECT * FROM ({counted}) {LIMIT_K}", f"cut{number}")
        assert missed(direct, f"direct{number}") < cut + 0.02
    assert missed(direct, "ten", max_groups_contributed=10, mechanism="gumbel_top_k") > 0.02


@pytest.fixture(scope="module")
def menu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 1,250 customers with 40 orders each, of 32 dishes and in 53 weeks."""
    rng = np.random.default_rng(22)
    orders = np.maximum(1, rng.poisson(40, size=1250))
    customer = np.repeat(np.arange(1250), orders)
    chances = rng.uniform(0.5, 2.0, size=32)
    kind = rng.choice(32, size=len(customer), p=chances / chances.sum())
    week = rng.integers(0, 53, size=len(customer))
    path = tmp_path_factory.mktemp("menu") / "menu.duckdb"
    with duckdb.connect(str(path)) as writer:
        table = {"customer": customer, "kind": kind, "week": week}
        writer.register("rows", dpsql_table(table))
        writer.execute("CREATE TABLE orders AS SELECT *, 1.0 AS price FROM rows")
    return path


UNDECLARED = POLICY.replace("      kind: {domain: [book, disc, game, toy]}\n", "")
DISHES = "SELECT kind, COUNT(DISTINCT customer) AS n FROM orders GROUP BY kind {}"
WEEKS = "SELECT week, COUNT(DISTINCT customer) AS n FROM orders GROUP BY week {}"


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "tail"), [(DISHES, "ORDER BY n DESC LIMIT 10"), (WEEKS, "")])
def test_customers_of_unknown_dishes_and_weeks_are_counted(
    asked: str, tail: str, menu: Path, tmp_path: Path
) -> None:
    with duckdb.connect(str(menu), read_only=True) as reader:
        truth = dict(reader.execute(asked.format("")).fetchall())

    def counted(**given: Any) -> tuple[float, float, float]:
        """The share of values whose interval holds the truth, their error, and their width."""
        inside, errors, widths = [], [], []
        for number in range(6):
            ledger = tmp_path / f"{number}{len(given)}.db"
            with dpsql.connect(menu, parse_policy(UNDECLARED), ledger, "ana") as con:
                result = con.sql(asked.format(tail), **given)
                ends = result.intervals(0.95)["n"]
                for (key, n), low, high in zip(result.fetchall(), ends.low, ends.high, strict=True):
                    inside.append(low <= truth[key] <= high)
                    errors.append(abs(n - truth[key]))
                    widths.append((high - low) / 2)
        return float(np.mean(inside)), float(np.mean(errors)), float(np.mean(widths))

    held, error, width = counted()
    assert held > 0.8
    assert error < 120  # of some 900 and 660
    assert width < 12 * error  # 3 and 6 times
    few, *_ = counted(max_groups_contributed=10)
    assert few < 0.2
