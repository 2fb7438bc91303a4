"""Writes the tables of docs/mechanisms, docs/peers.md and docs/first.md: ``make pictures``.

They come from the package and its benchmarks.

A table lives between ``<!-- table: name -->`` and ``<!-- end -->``; what is between is replaced.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from dpsql.engines.evidence.verdicts import REWRITTEN, SAME, EngineVersion, verdicts_on
from dpsql.privacy.accounting.composition import comparisons, queries_that_fit
from dpsql.privacy.accounting.zcdp import Amount, Budget, Composition, PrivacyLoss, rho_from_epsilon
from dpsql.privacy.mechanisms.additive import gaussian
from dpsql.privacy.mechanisms.histogram import PositiveCounts
from dpsql.privacy.mechanisms.set_union import Weighting, set_union_for
from dpsql.privacy.mechanisms.set_union_weights import UNIT_WEIGHT_STEPS
from dpsql.privacy.mechanisms.sparse_histogram import sparse_histogram
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK, gumbel_top_k
from dpsql.privacy.mechanisms.topk_laplace import LaplaceTopK
from dpsql.privacy.sampling.noise import difference_quantile_sf

HERE = Path(__file__).parents[2] / "docs"
PAGES = [
    *sorted((HERE / "mechanisms").glob("*.md")),
    *sorted((HERE / "engines").glob("*.md")),
    HERE / "peers.md",
    HERE / "first.md",
]
RESULTS = HERE.parent / "benchmarks" / "results"
MEASURED = RESULTS / "utility.json"
ROBUST = RESULTS / "robust.json"
FIRST = RESULTS / "first.json"

ACCOUNT = PrivacyLoss(0.0, 1e-6, 1.0)
QUERY = Amount.limit(PrivacyLoss(0.0, 1e-10, 0.1)).loss  # in whole ledger units, as planned
K, K_BAR = 10, 100
WIDE, HIDDEN = 1_000, 1e-6
"""The k_bar, and the delta of each kind, that top-k thresholds are compared at."""


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
    found = gumbel_top_k(PrivacyLoss(rho, half), sensitivity=1, k=K, k_bar=K_BAR, floor=0)
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
    noise = gaussian(PrivacyLoss(most.rho / queries), 1, groups)
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


def gaussian_thresholds(epsilon: float, groups: int) -> tuple[int | None, int]:
    """Gaussian top-k thresholds by conditioning, which has none for sigma < 1, and by coupling."""
    rho = rho_from_epsilon(epsilon, HIDDEN)
    coupled = GaussianTopK(gaussian(PrivacyLoss(rho), 1, groups), groups, WIDE, HIDDEN, 0).threshold
    sigma = gaussian(PrivacyLoss(rho * (1 - 4e-7)), 1, groups).scale
    if sigma < 1:
        return None, coupled
    tail = HIDDEN / (2 * groups) * (1 - 1e-12)
    return 1 + difference_quantile_sf(sigma, sigma, tail), coupled


def laplace_thresholds(epsilon: float, groups: int) -> tuple[int, int, int]:
    """Laplace top-k thresholds: as printed, with its exact tail, and by coupling."""
    each = epsilon / groups
    paid = HIDDEN / (math.exp(epsilon) + 1)
    share = paid
    for _ in range(200):  # Durfee & Rogers 2019, Lemma 6.1, solved for its offset ln(groups/share)
        share = 4 * paid / (3 + math.log(groups / share))
    printed = math.ceil(1 + math.log(groups / share) / each)
    conditioned, coupled = (
        LaplaceTopK(each, groups, WIDE, delta, 0).threshold for delta in (paid, HIDDEN)
    )
    return printed, conditioned, coupled


def coupling_thresholds_table() -> str:
    """Top-k thresholds by conditioning and by coupling, for a grid of epsilons and caps."""
    heads = ["ε", "groups per unit", "Gaussian, conditioned", "Gaussian, coupled"]
    heads += ["Laplace, printed bound", "Laplace, paid e^ε + 1 times", "Laplace, coupled"]
    rows = []
    for epsilon in (0.1, 1.0, 3.0, 10.0):
        for groups in (1, 3, 10, 100):
            found = (*gaussian_thresholds(epsilon, groups), *laplace_thresholds(epsilon, groups))
            cells = ["none" if t is None else f"{t:,}" for t in found]
            rows.append([f"{epsilon:g}", f"{groups}", *cells])
    return _table(heads, rows)


def coupling_picks_table() -> str:
    """The price of a Gumbel pick by conditioning and by coupling."""
    rows = []
    for epsilon, delta in ((0.001, 1e-6), (0.01, 1e-6), (0.1, 1e-6), (0.01, 1e-4), (0.1, 1e-2)):
        coupled = GumbelTopK(epsilon, 1, K, K_BAR, delta, 0).pick_cost(Composition.ZCDP)
        conditioned = (epsilon - 2 * math.log1p(-delta)) ** 2 / 8
        less = f"{1 - coupled / conditioned:.3%}"
        rows.append([f"{epsilon:g}", f"{delta:g}", f"{conditioned:.5g}", f"{coupled:.5g}", less])
    return _table(["ε of a pick", "δ", "conditioned", "coupled", "less"], rows)


def set_union_table() -> str:
    """One-shot Gaussian set unions: delta in halves, as printed, and at its lowest threshold."""
    kinds = tuple(Weighting)
    heads = ["ε, δ", "groups per unit"]
    heads += [f"{kind.value}: {how}" for kind in kinds for how in ("halves", "now")]
    rows = []
    for epsilon, delta, name in ((1.0, 1e-6, "1, 1e-06"), (3.0, math.exp(-10), "3, e^-10")):
        for groups in (1, 10, 100):
            unions = [
                set_union_for(
                    kind, 2, PrivacyLoss(0.0, delta, epsilon), groups=groups, halves=halves
                )
                for kind in kinds
                for halves in (True, False)
            ]
            found = [f"{union.threshold / UNIT_WEIGHT_STEPS:.2f}" for union in unions]
            rows.append([name, f"{groups}", *found])
    return _table(heads, rows)


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


def robust_table() -> str:
    """What a cascade came to beside the best number in hindsight, in benchmarks/robust.py."""
    verdicts = json.loads(ROBUST.read_text(encoding="utf-8"))["verdicts"]
    heads = ["data", "best number", "groups", "error", "groups with auto", "error with auto"]
    rows = []
    for verdict in verdicts:
        best, auto = verdict["best"], verdict["auto"]
        number = f"{best['max_groups_contributed']}, {best['bounding']}"
        figures = [
            f"{way[x]:,.{d}f}" for way in (best, auto) for x, d in (("groups", 0), ("error", 1))
        ]
        rows.append([verdict["words"], number, *figures])
    return _table(heads, rows)


def first_table() -> str:
    """What benchmarks/first.py saw of each data set: means over the values of its questions."""
    by_data_set: dict[str, list[dict[str, Any]]] = {}
    everything = json.loads(FIRST.read_text(encoding="utf-8"))["measured"]
    for one in everything:
        name = one["data_set"] + " (held out)" * one["held_out"]
        by_data_set.setdefault(name, []).append(one)
    by_data_set["**all**"] = everything
    heads = [
        "data set",
        "values",
        "asked",
        "holds the truth",
        "least",
        "largest groups",
        "median error",
    ]
    heads += ["worst error", "miss a target", "holds with 10 and 10", "median error"]
    rows = []
    for name, some in by_data_set.items():
        covered = _told(some, "covered")
        ratios = [one["ratio"] for one in some if one["ratio"] is not None]
        cells = [f"{fmean(covered):.0%}", f"{min(covered):.0%}"]
        cells += [f"{fmean(_told(some, 'largest')):.0%}"]
        cells += [f"{median(ratios):.2f}", f"{max(ratios):.1f}"] if ratios else ["", ""]
        missed = sum(bool(one["failures"]) for one in some)
        asked = f"{min(one['repeats'] for one in some)} times"
        ten = [one["ten_covered"] for one in some if one["ten_covered"] is not None]
        beside = [one["ten_ratio"] for one in some if one["ten_ratio"] is not None]
        ends = [f"{fmean(ten):.0%}", f"{median(beside):.1f}" if beside else ""]
        rows.append([name, str(len(some)), asked, *cells, str(missed), *ends])
    return _table(heads, rows)


def _told(measured: list[dict[str, Any]], name: str) -> list[float]:
    told = [one["figures"][name] for one in measured if one["figures"] is not None]
    return [value for value in told if value is not None]


def first_misses_table() -> str:
    """The values that miss a target in benchmarks/first.py, but those of held-out data."""
    heads = ["data set", "question", "misses", "holds the truth", "largest groups", "error"]
    heads += ["empty", "rows drawn", "best options"]
    rows = []
    for one in json.loads(FIRST.read_text(encoding="utf-8"))["measured"]:
        if one["held_out"] or not one["failures"]:
            continue
        found = one["figures"] or dict.fromkeys(("covered", "largest", "empty"))
        parts = ["" if value is None else f"{value:.0%}" for value in map(found.get, _PARTS)]
        error = "" if one["ratio"] is None else f"{one['ratio']:.1f}"
        cells = [*parts[:2], error, parts[2], str(one["rows"] or ""), one["best"]]
        asked, missed = f"`{one['question']}`", ", ".join(one["failures"])
        rows.append([one["data_set"], asked, missed, *cells])
    return _table(heads, rows)


_PARTS = ("covered", "largest", "empty")


def peers_users_table() -> str:
    """What benchmarks/peers.py saw of users per unknown item."""
    heads = ["", "times plain", "CPU, times plain", "seconds", "groups named", "mean error"]
    heads += ["median relative error", "error of the 1,000 largest", "peak memory"]
    rows = []
    for row, plain in _peers("users"):
        cells = []
        if row["seconds"]:
            cells = [f"{row['groups']:,.0f}", _figure(row["error"])]
            cells += [f"{row['relative_error']:.1%}", _figure(row["error_of_largest"])]
        rows.append(_peer_cells(row, plain, cells, len(heads)))
    return _table(heads, rows)


def peers_sums_table() -> str:
    """What benchmarks/peers.py saw of clamped sums of declared regions."""
    heads = ["", "times plain", "CPU, times plain", "seconds", "mean error"]
    heads += ["median relative error", "peak memory"]
    rows = []
    for row, plain in _peers("sums"):
        cells = [f"{row['error']:,.0f}", f"{row['relative_error']:.2%}"] if row["seconds"] else []
        rows.append(_peer_cells(row, plain, cells, len(heads)))
    return _table(heads, rows)


def peers_asked_table() -> str:
    """Versions and public API of each row of benchmarks/peers.py."""
    rows = []
    for task in ("users", "sums"):
        for row, _ in _peers(task):
            versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
            said = [row["asked"], *row["notes"]]
            said += [f"*{row['failure']}*"] if row["failure"] else []
            runs = f"{row['runs']}"
            rows.append([row["peer"], task, versions, ". ".join(filter(None, said)), runs])
    lines = [["", "task", "versions", "how it was asked", "runs"], ["---"] * 4 + ["--:"], *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _peers(task: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The rows of a task, each with that of the plain query."""
    answers = json.loads((RESULTS / "peers.json").read_text(encoding="utf-8"))["answers"]
    rows = [row for row in answers if row["task"] == task]
    return [(row, rows[0]) for row in rows]


def _peer_cells(
    row: dict[str, Any], plain: dict[str, Any], cells: list[str], width: int
) -> list[str]:
    """A line of a table: times, then the cells of the task, or why there are none."""
    if row["seconds"] is None:
        return [row["peer"], row["failure"], *[""] * (width - 2)]
    times = [row["times_plain"], row["cpu_seconds"] / plain["cpu_seconds"]]
    memory = f"{row['peak_bytes'] / 2**30:.1f} GiB"
    return [row["peer"], *map(_times, times), f"{row['seconds']:.1f}", *cells, memory]


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _badness(verdict: str) -> int:
    return (SAME, REWRITTEN, verdict).index(verdict)


def _calls_by_name(version: EngineVersion) -> dict[str, list[tuple[str, str]]]:
    """The calls of an engine's survey: by their names, the types and the verdict."""
    found: dict[str, list[tuple[str, str]]] = {}
    whole: dict[str, str] = {}  # decimals of all widths, with the worst of their verdicts
    known = verdicts_on(version)
    for call, verdict in known.calls.items():
        if known.objection(call) is not None:
            continue
        family = re.sub(r"DECIMAL\(\d+\)", "DECIMAL", call)
        whole[family] = max(whole.get(family, verdict), verdict, key=_badness)
    for call, verdict in whole.items():
        word, _, types = call.rpartition("(")
        parts = list(dict.fromkeys(types.removesuffix(")").split(", ")))
        shown = " with ".join(part for part in parts if part not in ("", "...", "CONSTANT"))
        found.setdefault(word, []).append((shown, verdict))
    return found


def postgresql_calls_table() -> str:
    """What rows may be computed of on PostgreSQL, and how it is written there."""
    rows = []
    for word, calls in sorted(_calls_by_name(EngineVersion("postgresql", "15")).items()):
        types = dict.fromkeys(types or "any" for types, _ in calls)
        verdicts = sorted({verdict for _, verdict in calls})
        shown = "as it is" if verdicts == [SAME] else "rewritten"
        rows.append([f"`{word}`".replace("|", "\\|"), ", ".join(types), shown])
    return _table(["operation", "of values of type", "written there"], rows)


def engine_costs_table() -> str:
    """What bounding costs on each engine, beside its own plain query."""
    found = json.loads((RESULTS / "engines.json").read_text(encoding="utf-8"))
    rows = []
    for name in next(iter(found.values()))["questions"]:
        pairs = [engine["questions"][name] for engine in found.values()]
        rows.append([name, *(_costs(each["plain"], each["dpsql"]) for each in pairs)])
    return _table(["question", *found], rows)


def _costs(plain: float, bounded: float) -> str:
    return f"{bounded / plain:.1f} ({plain:.2f} → {bounded:.2f})"


TABLES: dict[str, Callable[[], str]] = {
    "composition": composition_table,
    "session": session_table,
    "accounts": accounts_table,
    "coupling_thresholds": coupling_thresholds_table,
    "coupling_picks": coupling_picks_table,
    "set_union": set_union_table,
    "weighting": weighting_table,
    "cascade": cascade_table,
    "robust": robust_table,
    "first": first_table,
    "first_misses": first_misses_table,
    "peers_users": peers_users_table,
    "peers_sums": peers_sums_table,
    "peers_asked": peers_asked_table,
    "postgresql_calls": postgresql_calls_table,
    "engine_costs": engine_costs_table,
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
