"""Writes the tables of docs/mechanisms from the package and its benchmarks: ``make pictures``.

A table lives between ``<!-- table: name -->`` and ``<!-- end -->``; what is between is replaced.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dpsql.accounting.composition import comparisons, queries_that_fit
from dpsql.accounting.zcdp import Amount, Budget, PrivacyLoss, rho_from_epsilon
from dpsql.mechanisms.additive import gaussian
from dpsql.mechanisms.histogram import PositiveCounts
from dpsql.mechanisms.sparse_histogram import sparse_histogram
from dpsql.mechanisms.topk import GumbelTopK, gumbel_top_k

HERE = Path(__file__).parent
PAGES = sorted((HERE / "mechanisms").glob("*.md"))
MEASURED = HERE.parent / "benchmarks" / "results" / "utility.json"

ACCOUNT = PrivacyLoss(0.0, 1e-6, 1.0)
QUERY = Amount.limit(PrivacyLoss(0.0, 1e-10, 0.1)).loss  # in whole ledger units, as planned
K, K_BAR = 10, 100


def composition_table() -> str:
    """Total epsilon by theorem, for a grid of queries."""
    rows = comparisons((0.01, 0.1, 1.0), (1, 10, 100, 1_000, 10_000), 1e-6)
    heads = ["each ε", "queries", *(c.theorem.replace("_", " ") for c in rows[0].composed)]
    return _table(
        heads,
        [
            [f"{row.epsilon:g}", f"{row.queries:,}", *(_figure(c.epsilon) for c in row.composed)]
            for row in rows
        ],
    )


def session_query() -> GumbelTopK:
    """The top-k selection that one query of :data:`QUERY` pays for."""
    half = QUERY.delta / 2
    rho = rho_from_epsilon(QUERY.epsilon, half)
    found = gumbel_top_k(rho, sensitivity=1, k=K, k_bar=K_BAR, delta=half, floor=0)
    assert found is not None
    return found


def session_counts(returned: int) -> dict[str, int]:
    """How many such queries an account of :data:`ACCOUNT` affords if each returns so many groups.

    Every line but the last charges for all k picks, whatever comes back.
    """
    query = session_query()
    account = Budget.zcdp(ACCOUNT.epsilon, ACCOUNT.delta)
    tight = account.most
    simple = replace(tight, rho=_rho_simple(account.epsilon, account.delta_conversion))
    worst = PrivacyLoss(query.rho(None), query.delta)
    actual = PrivacyLoss(query.rho(returned), query.delta)
    return {
        "basic composition": queries_that_fit(ACCOUNT, QUERY, QUERY),
        "zCDP, simple conversion": queries_that_fit(simple, worst, worst),
        "zCDP, tight conversion": queries_that_fit(tight, worst, worst),
        "zCDP, tight conversion, pay-what-you-get": queries_that_fit(tight, worst, actual),
    }


def session_table() -> str:
    """The account's worth in queries, by how costs are added and how many groups come back."""
    cases = {"all 10 come back": 10, "4 come back": 4, "none comes back": 0}
    columns = [session_counts(returned) for returned in cases.values()]
    return _table(
        ["how costs are added", *cases],
        [[rule, *(f"{column[rule]:,}" for column in columns)] for rule in columns[0]],
    )


def account_thresholds(queries: int) -> tuple[int, int]:
    """What a group needs on a zCDP and on a basic account that so many equal histograms share."""
    groups = 10
    most = Budget.zcdp(ACCOUNT.epsilon, ACCOUNT.delta).most
    noise = gaussian(most.rho / queries, 1, groups)
    composed = PositiveCounts(noise, groups, most.delta / queries, 0)
    exact = sparse_histogram(ACCOUNT.epsilon / queries, ACCOUNT.delta / queries, groups)
    return composed.threshold, exact.threshold


def accounts_table() -> str:
    """The threshold of each of n histograms that spend an account together."""
    counts = (1, 2, 3, 5, 10)
    thresholds = [account_thresholds(count) for count in counts]
    return _table(
        ["histograms in all", *map(str, counts)],
        [
            ["threshold on a zCDP account", *(f"{zcdp}" for zcdp, _ in thresholds)],
            ["threshold on a basic account", *(f"{basic}" for _, basic in thresholds)],
        ],
    )


def weighting_table() -> str:
    """What sampling and weighting came to in benchmarks/utility.py."""
    worth = json.loads(MEASURED.read_text(encoding="utf-8"))["worth"]
    found = {(row["max_groups_contributed"], row["bounding"]): row for row in worth}
    caps = sorted({cap for cap, kind in found if kind != "auto"})
    kinds = ("sample", "weight")
    return _table(
        [
            "max_groups_contributed",
            *(f"{kind}: {x}" for kind in kinds for x in ("groups", "error")),
        ],
        [
            [str(cap)] + [f"{found[cap, k][x]:,.0f}" for k in kinds for x in ("groups", "error")]
            for cap in caps
        ],
    )


def cascade_table() -> str:
    """What a cascade came to beside the best of fixed numbers in benchmarks/utility.py."""
    worth = json.loads(MEASURED.read_text(encoding="utf-8"))["worth"]
    return _table(
        ["bounding", "max_groups_contributed", "groups", "error", "times plain DuckDB"],
        [
            [
                row["bounding"] if row["bounding"] != "auto" else "rounds",
                str(row["max_groups_contributed"]),
                f"{row['groups']:,.0f}",
                f"{row['error']:,.0f}",
                f"{row['times_plain']:.1f}",
            ]
            for row in worth
        ],
    )


TABLES: dict[str, Callable[[], str]] = {
    "composition": composition_table,
    "session": session_table,
    "accounts": accounts_table,
    "weighting": weighting_table,
    "cascade": cascade_table,
}


def rewritten(page: str) -> str:
    """A page with its tables as they are now."""

    def fresh(match: re.Match[str]) -> str:
        name = match.group(1)
        return f"<!-- table: {name} -->\n{TABLES[name]()}<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", fresh, page, flags=re.DOTALL)


def _rho_simple(epsilon: float, delta: float) -> float:
    """What rho + 2 sqrt(rho ln(1/delta)) turns into epsilon (Bun & Steinke 2016)."""
    log = -math.log(delta)
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def main() -> None:
    for page in PAGES:
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
