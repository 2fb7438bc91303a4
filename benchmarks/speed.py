"""Speed of dpsql as ratios to plain DuckDB, measured side by side on the same data and threads.

Run with ``make bench`` or ``python benchmarks/speed.py [--rows N]``. Generates rows once (10M rows,
1M units with zipf activity, 100k items by default), then prints and writes as JSON:

* capped COUNT(DISTINCT unit) per item with LIMIT k_bar+1, against the plain query;
* unrestricted top-k, against the plain top-k;
* counts and sums by item and by 20 declared keys, weighted units, a cast that fails on 22% of rows:
  the generated SQL that bounds contributions, against the plain query, in the engine's CPU seconds;
* the same of them that NumPy bounds, as whole questions, against the plain query and against SQL;
* questions without an option, which find all numbers themselves, in NumPy and in SQL;
* some of these against SQL by hand that bounds the same in floating point, with sums that depend on
  the order of rows: what an engine takes to group by unit in any case;
* questions with the look at what bounding leaves out that they take by default, asked for the first
  time, against the same without, in CPU seconds;
* the whole overhead of a small query; the examination of a new condition before it may read
  private rows; the time of ``import dpsql``; noise draws per second.

Each figure is the median of alternating runs, with the smallest and largest beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import dpsql
from dpsql.core.sql import name as quoted
from dpsql.core.sql import sql as template
from dpsql.policy.limits import BoundingLimit, Limits
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.sampling.noise import DiscreteGaussian, OSEntropy

SEED = 20240607
CATEGORIES = 20


@dataclass(frozen=True)
class Ratio:
    """Seconds of dpsql and of the baseline, and their ratio, run by run."""

    name: str
    limit: float
    baseline: float
    dpsql: float
    ratio: float
    lowest: float
    highest: float


def zipf(rng: np.random.Generator, size: int, exponent: float, draws: int) -> np.ndarray:
    """Ranks drawn by inverse CDF with probability proportional to rank^-exponent."""
    weights = np.cumsum(np.arange(1, size + 1) ** -exponent)
    return np.searchsorted(weights / weights[-1], rng.random(draws)).astype(np.int64)


def build(path: Path, rows: int) -> None:
    """A database of ``rows`` visits by rows/10 units to 100,000 items."""
    rng = np.random.default_rng(SEED)
    units = rows // 10
    unit = rng.permutation(units)[zipf(rng, units, 0.6, rows)]
    item = zipf(rng, 100_000, 1.0, rows)
    data = {"unit": unit, "item": item, "amount": np.round(rng.lognormal(3.0, 1.2, rows), 2)}
    data["category"] = zipf(rng, CATEGORIES, 0.8, rows)
    with duckdb.connect(str(path)) as connection:
        connection.register("data", data)
        connection.execute(
            "CREATE TABLE visits AS "
            "SELECT unit AS user_id, 'item' || item AS item, item % 20 AS shelf, amount, "
            "'c' || category AS category, "
            "CASE WHEN unit % 9 < 2 THEN 'x' ELSE '' END || amount::BIGINT AS typed FROM data"
        )
        connection.execute("CREATE TABLE few AS SELECT * FROM visits LIMIT 2000")
        connection.execute(
            "CREATE TABLE people AS SELECT DISTINCT user_id, user_id % 25 AS region_id FROM few"
        )
        connection.execute(
            "CREATE TABLE regions AS SELECT range AS region_id, 'region ' || range % 5 AS region "
            "FROM range(25)"
        )


POLICY = Policy(
    dataset="benchmark",
    # Bounds are given: no number of rows is found first, which would be a statement more.
    defaults=Parameters(
        epsilon=1.0,
        delta=1e-6,
        max_groups_contributed=10,
        max_rows_contributed=10,
        left_out_share=0.0,
    ),
    accounts={"bench": AccountPolicy("bench", 1000.0, 0.01)},
    limits=Limits(bounding=BoundingLimit.SQL),
    tables={
        name: TablePolicy(
            name,
            PrivacyUnit("user", "user_id"),
            {
                "amount": ColumnPolicy(lower=0, upper=100),
                "shelf": ColumnPolicy(domain=tuple(range(20))),
                "category": ColumnPolicy(domain=tuple(f"c{i}" for i in range(CATEGORIES))),
            },
        )
        for name in ("visits", "few")
    }
    | {
        "people": TablePolicy("people", PrivacyUnit("user", "user_id")),
        "regions": TablePolicy("regions", None),
    },
)
JOIN = (
    "SELECT region, item, COUNT(*) AS n, SUM(amount) AS total FROM few JOIN people USING (user_id) "
    "JOIN regions USING (region_id) WHERE amount > 1 GROUP BY region, item"
)


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def cpu_seconds(action: Callable[[], object]) -> float:
    """Measure the work of all threads, which a busy machine changes less than the time."""
    start = time.process_time()
    action()
    return time.process_time() - start


def compare(
    name: str,
    limit: float,
    runs: int,
    plain: Callable[[], object],
    private: Callable[[], object],
    taken: Callable[[Callable[[], object]], float] = seconds,
) -> Ratio:
    """Alternate the two, so that whatever else the machine does meets both."""
    plain()
    private()
    pairs = [(taken(plain), taken(private)) for _ in range(runs)]
    ratios = sorted(ours / theirs for theirs, ours in pairs)
    return Ratio(
        name=name,
        limit=limit,
        baseline=statistics.median(theirs for theirs, _ in pairs),
        dpsql=statistics.median(ours for _, ours in pairs),
        ratio=statistics.median(ratios),
        lowest=ratios[0],
        highest=ratios[-1],
    )


def big_queries(con: dpsql.Connection, plain: duckdb.DuckDBPyConnection, runs: int) -> list[Ratio]:
    every = "SELECT item, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY item"
    top = f"{every} ORDER BY n DESC LIMIT 10"
    return [
        compare(
            "capped COUNT(DISTINCT unit) per item, LIMIT k_bar+1 / plain query",
            1.6,
            runs,
            lambda: plain.execute(every).fetchnumpy(),
            lambda: con.sql(top, mechanism="gaussian_top_k", max_groups_contributed=10, fresh=True),
        ),
        compare(
            "unrestricted top-k / plain top-k",
            1.2,
            runs,
            lambda: plain.execute(top).fetchnumpy(),
            lambda: con.sql(top, mechanism="gumbel_top_k", max_groups_contributed=None, fresh=True),
        ),
        compare(
            "every item with a large enough count / plain query",
            1.6,
            runs,
            lambda: plain.execute(every).fetchnumpy(),
            lambda: con.sql(every, max_groups_contributed=10, fresh=True),
        ),
    ]


_FOUR = "category, SUM(amount), AVG(amount), VARIANCE(amount), COUNT(*)"
_FAILS_ON_SOME = "SELECT item, COUNT(*) FROM visits WHERE {}(typed AS BIGINT) > 3 GROUP BY item"
# What is asked, with parameters, the plain query where it reads otherwise, and an aim.
BOUNDED: dict[str, tuple[str, dict[str, Any], str, float]] = {
    "COUNT(*) by item": ("SELECT item, COUNT(*) FROM visits GROUP BY item", {}, "", 14.0),
    "SUM by item": ("SELECT item, SUM(amount) FROM visits GROUP BY item", {}, "", 12.0),
    "SUM by 20 declared keys": (
        "SELECT category, SUM(amount) FROM visits GROUP BY category",
        {},
        "",
        12.0,
    ),
    "SUM, AVG, VARIANCE, COUNT by 20 declared keys": (
        f"SELECT {_FOUR} FROM visits GROUP BY category",
        {},
        "",
        20.0,
    ),
    "the same without a cap": (
        f"SELECT {_FOUR} FROM visits GROUP BY category",
        {"max_groups_contributed": CATEGORIES},
        "",
        20.0,
    ),
    "COUNT(*) by item, weighted units": (
        "SELECT item, COUNT(*) FROM visits GROUP BY item",
        {"contribution_bounding": "weight"},
        "",
        0.0,
    ),
    "COUNT(*) by item, a condition that fails on 22% of rows": (
        _FAILS_ON_SOME.format("CAST"),
        {},
        _FAILS_ON_SOME.format("TRY_CAST"),
        14.0,
    ),
}


def bounded_queries(
    con: dpsql.Connection, plain: duckdb.DuckDBPyConnection, runs: int
) -> list[Ratio]:
    """Set what the engine does for bounded contributions beside the plain query."""

    def of(name: str) -> Ratio:
        asked, parameters, exact, aim = BOUNDED[name]
        bounded = con.explain(asked, max_rows_contributed=5, **parameters).blocks[0].sql
        return compare(
            f"{name}: SQL that bounds / plain query",
            aim,
            runs,
            lambda: plain.execute(exact or asked).fetchnumpy(),
            lambda: plain.execute(bounded).fetchnumpy(),
            cpu_seconds,
        )

    return [of(name) for name in BOUNDED]


def makers(
    con: dpsql.Connection, in_sql: dpsql.Connection, plain: duckdb.DuckDBPyConnection, runs: int
) -> list[Ratio]:
    """Set whole questions that NumPy bounds beside the plain queries, and beside SQL's maker."""

    def ask(asked: str, parameters: dict[str, Any], by: dpsql.Connection) -> object:
        return by.sql(asked, max_rows_contributed=5, fresh=True, **parameters)

    found = []
    for name, (asked, parameters, exact, aim) in BOUNDED.items():
        maker = con.explain(asked, max_rows_contributed=5, **parameters).blocks[0].maker
        if not maker.startswith("NumPy"):
            continue
        for what, other in (
            ("plain query", partial(plain.execute, exact or asked)),
            ("bounded in SQL", partial(ask, asked, parameters, in_sql)),
        ):
            by_numpy = partial(ask, asked, parameters, con)
            limit = aim if what == "plain query" else 1.0
            found.append(
                compare(
                    f"{name}: bounded in NumPy / {what}", limit, runs, other, by_numpy, cpu_seconds
                )
            )
    return found


WITHOUT_OPTIONS = {
    "COUNT(*) by item": "SELECT item, COUNT(*) AS n FROM visits WHERE amount > {} GROUP BY item",
    "SUM by item": "SELECT item, SUM(amount) AS s FROM visits WHERE amount > {} GROUP BY item",
    "units by item": "SELECT item, COUNT(DISTINCT user_id) AS n FROM visits WHERE amount > {} "
    "GROUP BY item",
    "SUM by 20 declared keys": "SELECT category, SUM(amount) AS s FROM visits WHERE amount > {} "
    "GROUP BY category",
    "MEDIAN by item": "SELECT item, MEDIAN(amount) AS m FROM visits WHERE amount > {} "
    "GROUP BY item",
    "MEDIAN by 20 declared keys": "SELECT shelf, MEDIAN(amount) AS m FROM visits WHERE "
    "amount > {} GROUP BY shelf",
    "items by 20 declared keys": "SELECT category, COUNT(DISTINCT item) AS n FROM visits WHERE "
    "amount > {} GROUP BY category",
    "items": "SELECT DISTINCT item FROM visits WHERE amount > {}",
}


def without_options(
    database: Path, ledger: Path, plain: duckdb.DuckDBPyConnection, runs: int
) -> list[Ratio]:
    """Set questions without an option, which find all numbers themselves, beside plain ones."""
    found, conditions = [], count(1)

    def ask(con: dpsql.Connection, asked: str) -> object:
        # Another condition each time: what was found before is known.
        return con.sql(asked.format(-next(conditions)))

    for limit, where in ((BoundingLimit.ANY, "NumPy"), (BoundingLimit.SQL, "SQL")):
        policy = replace(
            POLICY, defaults=Parameters(epsilon=1.0, delta=1e-6), limits=Limits(bounding=limit)
        )
        with dpsql.connect(database, policy, ledger, "bench") as con:
            for name, asked in WITHOUT_OPTIONS.items():
                found.append(
                    compare(
                        f"{name}, without an option: bounded in {where} / plain query",
                        0.0,
                        runs,
                        partial(plain.execute, asked.format(0)),
                        partial(ask, con, asked),
                        cpu_seconds,
                    )
                )
    return found


_VISITED = "visits GROUP BY user_id, category"
_FIRST = "dense_rank() OVER (PARTITION BY user_id ORDER BY hash(user_id, category), category)"
_SUM = "least(greatest(sum(least(greatest(amount, 0), 100)), 0), 500)"
_SPREAD = (
    f"{_SUM} AS s, sum(pow(least(greatest(amount, 0), 100), 2)) AS q, least(count(*), 5) AS n "
    f"FROM {_VISITED}"
)
_SPREADS = "SELECT category, sum(s), sum(least(q, 50000)), sum(n) FROM"
BY_HAND = {
    "COUNT(*) by item": (
        "SELECT item, sum(least(n, 5)) FROM (SELECT item, n, dense_rank() OVER (PARTITION BY "
        "user_id ORDER BY hash(user_id, item), item) AS place FROM (SELECT user_id, item, count(*) "
        "AS n FROM visits GROUP BY user_id, item)) WHERE place <= 10 GROUP BY item"
    ),
    "SUM by item": (
        "SELECT item, sum(s) FROM (SELECT item, s, dense_rank() OVER (PARTITION BY user_id "
        "ORDER BY hash(user_id, item), item) AS place FROM (SELECT user_id, item, "
        f"{_SUM} AS s FROM visits GROUP BY user_id, item)) WHERE place <= 10 GROUP BY item"
    ),
    "SUM by 20 declared keys": (
        f"SELECT category, sum(s) FROM (SELECT category, {_SUM} AS s FROM {_VISITED}) "
        "GROUP BY category"
    ),
    "SUM, AVG, VARIANCE, COUNT by 20 declared keys": (
        f"{_SPREADS} (SELECT *, {_FIRST} AS place FROM (SELECT user_id, category, {_SPREAD})) "
        "WHERE place <= 10 GROUP BY category"
    ),
    "the same without a cap": f"{_SPREADS} (SELECT category, {_SPREAD}) GROUP BY category",
}


def floors(con: dpsql.Connection, plain: duckdb.DuckDBPyConnection, runs: int) -> list[Ratio]:
    """Set the generated SQL beside SQL by hand that bounds the same."""

    def of(name: str) -> Ratio:
        asked, parameters, _, _ = BOUNDED[name]
        bounded = con.explain(asked, max_rows_contributed=5, **parameters).blocks[0].sql
        return compare(
            f"{name}: SQL that bounds / the same by hand, in doubles",
            1.15,
            runs,
            lambda: plain.execute(BY_HAND[name]).fetchnumpy(),
            lambda: plain.execute(bounded).fetchnumpy(),
            cpu_seconds,
        )

    return [of(name) for name in BY_HAND]


ESTIMATED = {
    "units by item": "SELECT item, COUNT(DISTINCT user_id) AS n FROM visits {} GROUP BY item",
    "rows by item": "SELECT item, COUNT(*) AS n FROM visits {} GROUP BY item",
    "sum by item": "SELECT item, SUM(amount) AS s FROM visits {} GROUP BY item",
    "rows by 20 declared shelves": "SELECT shelf, COUNT(*) AS n FROM visits {} GROUP BY shelf",
    "sum by 20 declared shelves": "SELECT shelf, SUM(amount) AS s FROM visits {} GROUP BY shelf",
    "all rows": "SELECT COUNT(*) AS n FROM visits {}",
}


def looks(con: dpsql.Connection, runs: int) -> list[Ratio]:
    """Set questions that look at what bounding leaves out beside the same without a look."""
    numbers = count(1)
    usual = Parameters().left_out_share

    def ask(sql: str, share: float) -> object:
        # Another condition each time: what is known is not looked at again.
        text = sql.format(f"WHERE amount > -{next(numbers)}")
        return con.sql(text, left_out_share=share, fresh=True)

    return [
        compare(
            f"{name}, with the default look / without",
            1.3,
            runs,
            partial(ask, sql, 0.0),
            partial(ask, sql, usual),
            cpu_seconds,
        )
        for name, sql in ESTIMATED.items()
    ]


def small_overheads(con: dpsql.Connection, plain: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """Milliseconds that dpsql adds to small queries: median of differences of paired runs."""
    queries: dict[str, tuple[str, dict[str, Any]]] = {
        "top-10, unlimited groups": ("LIMIT 10", {"max_groups_contributed": "unlimited"}),
        "top-10, 10 groups per unit": ("LIMIT 10", {"max_groups_contributed": 10}),
        "histogram, 10 groups per unit": ("", {"max_groups_contributed": 10}),
    }
    figures = {}
    cases = [(name, *case, new) for name, case in queries.items() for new in (False, True)]
    for name, limit, parameters, new in cases:
        groups = "SELECT item, COUNT(DISTINCT user_id) AS n FROM few GROUP BY item"
        sql = f"{groups} ORDER BY n DESC {limit}"

        numbers = count()

        def private(
            sql: str = sql, parameters: dict[str, Any] = parameters, new: bool = new
        ) -> object:
            text = f"{sql} -- {next(numbers)}" if new else sql  # noqa: B023 (used at once)
            return con.sql(text, fresh=True, **parameters).fetchall()

        def exact(sql: str = sql) -> object:
            return plain.execute(sql).fetchall()

        private(), exact()
        differences = []
        for _ in range(101):
            baseline = seconds(exact)
            differences.append(seconds(private) - baseline)
        asked = "asked for the first time" if new else "asked again"
        figures[f"{name}, {asked}"] = 1000 * statistics.median(differences)
    return figures


def join_overheads(con: dpsql.Connection, plain: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """Milliseconds that dpsql adds to a join of three tables, asked for the first time.

    To the query as it was asked, and to the generated SQL that bounds contributions.
    """
    numbers = count()
    bounded = con.explain(JOIN).blocks[0].sql
    beside_query, beside_bounded = [], []
    for _ in range(101):
        asked = seconds(lambda: plain.execute(JOIN).fetchall())
        engine = seconds(lambda: plain.execute(bounded).fetchall())
        ours = seconds(lambda: con.sql(f"{JOIN} -- {next(numbers)}", fresh=True).fetchall())
        beside_query.append(ours - asked)
        beside_bounded.append(ours - engine)
    return {
        "join, over the query as asked": 1000 * statistics.median(beside_query),
        "join, over the SQL that bounds": 1000 * statistics.median(beside_bounded),
    }


def examination_ms(database: Path) -> float:
    """Median milliseconds to look up and try what a new statement computes of private rows."""
    engine = dpsql.DuckDBEngine(database)
    try:
        numbers, opened = count(), engine.open(engine.catalog().tables)

        def examine() -> object:
            return opened.examine(
                quoted("few"),
                [quoted("item"), template("{} > {}", quoted("user_id"), next(numbers))],
            )

        examine()
        return 1000 * statistics.median(seconds(examine) for _ in range(201))
    finally:
        engine.close()


def import_seconds(then: str = "None") -> float:
    """Median time of ``import dpsql`` (and one more thing) in a fresh interpreter."""
    code = "import time; t = time.perf_counter(); import dpsql; {0}; print(time.perf_counter() - t)"
    runs = [
        float(
            subprocess.run(
                [sys.executable, "-c", code.format(then)], capture_output=True, check=True
            ).stdout
        )
        for _ in range(5)
    ]
    return statistics.median(runs)


def draws_per_second() -> dict[str, float]:
    """Exact discrete Gaussian draws from OS entropy, in millions per second, by scale."""
    figures = {}
    for scale in (1.0, 30.0, 1e3, 1e4, 1e6, 1e9):
        noise, source = DiscreteGaussian(scale), OSEntropy()
        noise.sample(1000, source)
        figures[f"{scale:g}"] = 5 / seconds(partial(noise.sample, 5_000_000, source))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "benchmark.duckdb"
        build(database, options.rows)
        ledger = Path(directory) / "budget.db"
        plain = duckdb.connect(str(database), read_only=True)
        with dpsql.connect(database, POLICY, ledger, "bench") as con:
            ratios = big_queries(con, plain, options.runs)
            ratios += bounded_queries(con, plain, options.runs)
            ratios += floors(con, plain, options.runs) + looks(con, options.runs)
            in_numpy = replace(POLICY, limits=Limits(bounding=BoundingLimit.ANY))
            with dpsql.connect(database, in_numpy, ledger, "bench") as other:
                ratios += makers(other, con, plain, options.runs)
            ratios += without_options(database, ledger, plain, min(3, options.runs))
            overheads = small_overheads(con, plain) | join_overheads(con, plain)
        plain.close()
        examination = examination_ms(database)
    report = {
        "rows": options.rows,
        "ratios": [asdict(ratio) for ratio in ratios],
        "small_query_overhead_ms": overheads,
        "examination_ms": examination,
        "import_seconds": import_seconds(),
        "import_and_load_seconds": import_seconds("dpsql.connect"),
        "gaussian_draws_millions_per_second": draws_per_second(),
        "versions": {"duckdb": duckdb.__version__, "dpsql": dpsql.__version__},
    }
    show(report, ratios)
    target = Path(__file__).parent / "results" / "speed.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n")


def show(report: dict[str, object], ratios: list[Ratio]) -> None:
    for ratio in ratios:
        aim = f"aim <= {ratio.limit}" if ratio.limit else "no aim"
        print(
            f"{ratio.ratio:5.2f}x [{ratio.lowest:.2f}-{ratio.highest:.2f}]  {ratio.name}"
            f"  ({ratio.dpsql:.2f}s / {ratio.baseline:.2f}s, {aim})"
        )
    for name, value in report["small_query_overhead_ms"].items():  # type: ignore[attr-defined]
        print(f"{value:5.1f} ms overhead  {name}  (aim <= {10 if 'join' in name else 8})")
    print(f"{report['examination_ms']:5.1f} ms to examine a new condition  (aim <= 1.5)")
    print(f"{report['import_seconds']:5.2f} s  import dpsql  (aim <= 0.5)")
    print(f"{report['import_and_load_seconds']:5.2f} s  import dpsql and everything it loads later")
    for scale, rate in report["gaussian_draws_millions_per_second"].items():  # type: ignore[attr-defined]
        print(f"{rate:5.0f} M draws/s  discrete Gaussian, sigma {scale}  (aim >= 10)")


if __name__ == "__main__":
    main()
