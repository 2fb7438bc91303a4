"""Draws the pictures of docs from the package and its benchmarks: ``make pictures``.

Each function in :data:`PICTURES` draws one file of docs/pictures. Nothing here is copied from a
paper except where a line is labelled "published". Backgrounds are transparent and every colour
reads on white as well as on a dark page.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import ArrayLike, NDArray

from dpsql.dbapi.connection import connect
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.composition import compare
from dpsql.privacy.accounting.zcdp import PrivacyLoss, rho_from_epsilon
from dpsql.privacy.mechanisms.additive import correlated_gaussian, gaussian, laplace
from dpsql.privacy.mechanisms.bounds_choice import (
    POWER_OF_ROWS,
    WHOLE_WEIGHT,
    bound_draw,
    rows_target,
)
from dpsql.privacy.mechanisms.bounds_choice import ladder as rows_ladder
from dpsql.privacy.mechanisms.calibration import analytic_gaussian_sigma
from dpsql.privacy.mechanisms.correlated_histogram import (
    CorrelatedAnalysis,
    correlated_tau,
    half_distance,
)
from dpsql.privacy.mechanisms.correlated_topk import correlated_top_k
from dpsql.privacy.mechanisms.elliptic import elliptic_gaussian
from dpsql.privacy.mechanisms.left_out import LADDER_STEPS, Ladder
from dpsql.privacy.mechanisms.pooling import PublishedNoise, pooled_margin
from dpsql.privacy.mechanisms.sparse_histogram import DeltaAnalysis, sparse_histogram_tau
from dpsql.privacy.mechanisms.topk import GaussianTopK, gumbel_top_k
from dpsql.privacy.mechanisms.value_bounds import POWER_OF_VALUES, value_bounds
from dpsql.privacy.streams.factorisation import (
    SlidingWindow,
    SquareRoot,
    TreeFromBelow,
    best_tree,
)

HERE = Path(__file__).parents[2] / "docs"
OUTPUT = HERE / "pictures"
RESULTS = HERE.parent / "benchmarks" / "results"
MEASURED = RESULTS / "set_union.json"

INK = "#777e87"
BLUE, ORANGE, GREEN, RED = "#3b82c4", "#cf7a1f", "#2a9d6f", "#d1495b"
PURPLE, BROWN = "#9467bd", "#8c6243"
STYLE: dict[Any, Any] = {  # matplotlib types every name
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.5,
    "grid.alpha": 0.25,
    "grid.color": INK,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "path.simplify": False,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "dpsql",
    "xtick.color": INK,
    "ytick.color": INK,
}


def threshold_by_noise(axes: Axes) -> None:
    """Lebeda & Retschmeier 2024, Figure 3(a): the least threshold for a given noise."""
    epsilon, delta, groups = 0.35, 1e-5, 51_914
    above = np.exp(np.linspace(math.log(1e-4), 0.0, 60))  # the minimum is close to the left end
    least = analytic_gaussian_sigma(epsilon, delta, math.sqrt(groups))
    for label, colour, analysis in (
        ("independent, add the deltas", ORANGE, DeltaAnalysis.ADD_THE_DELTAS),
        ("independent, exact", RED, DeltaAnalysis.EXACT),
    ):
        sigmas = least * (1 + 0.4 * above)
        taus = [sparse_histogram_tau(epsilon, delta, s, groups, analysis) for s in sigmas]
        line(axes, sigmas, taus, label, colour)
    distance = float(half_distance(np.array([groups]), groups)[0])
    least = analytic_gaussian_sigma(epsilon, delta, distance)
    for label, colour, shared in (
        ("correlated, add the deltas", BLUE, CorrelatedAnalysis.ADD_THE_DELTAS),
        ("correlated, tight", PURPLE, CorrelatedAnalysis.TIGHT),
        ("correlated, integrated", GREEN, CorrelatedAnalysis.INTEGRATED),
    ):
        sigmas = least * (1 + 1.5 * above)
        taus = [correlated_tau(epsilon, delta, s, groups, shared) for s in sigmas]
        line(axes, sigmas, taus, label, colour)
    axes.set_xlabel("noise scale σ")
    axes.set_ylabel("threshold τ")
    axes.set_ylim(6_500, 20_000)
    thousands(axes.xaxis, axes.yaxis)
    axes.set_title("ε = 0.35, δ = 10⁻⁵, k = 51,914")


def set_union_size(axes: Axes) -> None:
    """Gopi et al. 2020, Figure 5: keys named by six algorithms, and the paper's own figures."""
    rows = json.loads(MEASURED.read_text(encoding="utf-8"))["rows"]
    colours = {"count": ORANGE, "weighted": BLUE, "policy": GREEN}
    for weighting, colour in colours.items():
        for noise, dash in (("laplace", "--"), ("gaussian", "-")):
            name = f"{weighting}_{noise}"
            own = sorted((r for r in rows if r["algorithm"] == name), key=lambda r: r["groups"])
            groups = [row["groups"] for row in own]
            label = f"{weighting} {noise.capitalize()}"
            line(axes, groups, [row["named"] for row in own], label, colour, dash, marker="o")
            published = [row["published"] for row in own]
            line(axes, groups, published, "", colour, "", marker="x", key=f"{name}-published")
    axes.plot([], [], color=INK, linestyle="", marker="x", label="published")
    axes.set_xlabel("max_groups_contributed")
    axes.set_ylabel("keys named")
    thousands(axes.yaxis)
    axes.set_title("223,388 units, ε = 3, δ = e⁻¹⁰")


def cascade_worth(axes: Axes) -> None:
    """Groups named and their error on 5,000,000 rows: one round at many caps, and a cascade."""
    rows = json.loads((RESULTS / "utility.json").read_text(encoding="utf-8"))["worth"]
    kinds = (("sample", "sampled", ORANGE), ("weight", "weighted", BLUE), ("auto", "auto", GREEN))
    for bounding, label, colour in kinds:
        own = [row for row in rows if row["bounding"] == bounding]
        groups, errors = [row["groups"] for row in own], [row["error"] for row in own]
        line(axes, groups, errors, label, colour, marker="o")
    axes.set_xlabel("groups named")
    axes.set_ylabel("mean error of their counts")
    axes.set_ylim(0, 650)
    thousands(axes.xaxis)
    axes.set_title("ε = 1, δ = 10⁻⁶; caps 3, 7, 10, or auto")


def beside_peers(axes: Axes) -> None:
    """Items named and the computing it took, of dpsql and its peers at one price."""
    answers = json.loads((RESULTS / "peers.json").read_text(encoding="utf-8"))["answers"]
    rows = [row for row in answers if row["task"] == "users" and row["seconds"] is not None]
    plain, *private = rows
    marks = {"dpsql": (BLUE, "o"), "dpsql, auto": (GREEN, "o"), "OpenDP": (ORANGE, "s")}
    marks |= {"Qrlew": (RED, "^"), "SmartNoise SQL": (PURPLE, "v")}
    marks |= {"PipelineDP": (BROWN, "D"), "Tumult Analytics": (INK, "P")}
    for row in private:
        colour, marker = marks[row["peer"]]
        times = row["cpu_seconds"] / plain["cpu_seconds"]
        label = row["peer"]
        (point,) = axes.plot([times], [row["groups"]], marker, label=label, color=colour)
        point.set(markersize=9, gid=f"curve-{label.replace(',', '').replace(' ', '-')}")
    axes.set_xscale("log")
    axes.set_xlim(1, 1_000)
    axes.set_ylim(0)
    axes.set_xlabel("CPU time, as a multiple of the plain query's")
    axes.set_ylabel("items named")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    thousands(axes.yaxis)
    axes.set_title("Users per unknown item, 5,000,000 rows; ε = 1, δ = 10⁻⁶")


def quantile_error(axes: Axes) -> None:
    """How many ranks a private quantile is off, by the number of rows, in three ways."""
    figures = json.loads((RESULTS / "quantiles.json").read_text(encoding="utf-8"))
    colours = {"exponential mechanism": GREEN, "tree": ORANGE, "search": BLUE}
    for method, colour in colours.items():
        for asked, dash in (("0.5", "-"), ("0.25, 0.5, 0.75", "--")):
            own = [f for f in figures if (f["method"], f["fractions"]) == (method, asked)]
            label = f"{method.split()[0]}, {'median' if asked == '0.5' else 'quartiles'}"
            rows, ranks = [f["rows"] for f in own], [f["ranks"] for f in own]
            line(axes, rows, ranks, label, colour, dash, marker="o")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows in the group")
    axes.set_ylabel("error in ranks")
    thousands(axes.xaxis, axes.yaxis)
    axes.set_title("ε = 1, δ = 10⁻⁶, ten groups per unit")


def correlated_variance(axes: Axes) -> None:
    """The variance of correlated Gaussian noise relative to independent noise at equal ρ."""
    rho = rho_from_epsilon(1.0, 1e-6)
    domains = sorted({round(10 ** (i / 12)) for i in range(49)} - {1})
    ratios = [
        (
            correlated_gaussian(PrivacyLoss(rho), 1, d).std(d)
            / gaussian(PrivacyLoss(rho), 1, d).std(d)
        )
        ** 2
        for d in domains
    ]
    line(axes, domains, ratios, "as drawn", GREEN)
    axes.axhline(0.25, color=INK, linestyle=":", label="limit 1/4")
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    thousands(axes.xaxis)
    axes.set_xlabel("declared keys d")
    axes.set_ylabel("variance, correlated / independent")
    axes.set_title("one unit may touch every group")


def elliptic_variance(axes: Axes) -> None:
    """The variance of a value at one price, by how many of 24 groups a unit may raise."""
    rho, size = rho_from_epsilon(1.0, 1e-6), 24
    caps = list(range(1, size + 1))
    alone = [gaussian(PrivacyLoss(rho), 1, cap).std(cap) ** 2 for cap in caps]
    every = correlated_gaussian(PrivacyLoss(rho), 1, size).std(size) ** 2
    some = [(cap, elliptic_gaussian(PrivacyLoss(rho), 1, cap, size)) for cap in caps[:15]]
    drawn = [(cap, noise.std(cap) ** 2) for cap, noise in some if noise is not None]
    line(axes, caps, alone, "independent", ORANGE)
    line(axes, caps, [every] * size, "correlated, every group", PURPLE)
    line(axes, [c for c, _ in drawn], [v for _, v in drawn], "elliptic", GREEN)
    axes.set_ylim(0, 2 * every)
    axes.set_xlim(0, size)
    axes.set_xlabel("groups of a unit, of 24")
    axes.set_ylabel("variance of a count")
    axes.set_title("ε = 1, δ = 10⁻⁶")


def pooled(axes: Axes) -> None:
    """The margin of m pooled releases, and of one at the price of all, in margins of one."""
    epsilon, groups, numbers = 0.5, 10, range(1, 9)
    rho = rho_from_epsilon(epsilon, 1e-6)
    gaussians = [gaussian(PrivacyLoss(rho * m), 1, groups) for m in numbers]
    laplaces = [laplace(PrivacyLoss(epsilon=epsilon * m), 1, groups) for m in numbers]
    for name, colour, noises in (("Gaussian", GREEN, gaussians), ("Laplace", BLUE, laplaces)):
        alone = PublishedNoise(noises[0], groups)
        margin = pooled_margin([alone], 0.05)
        margins = [pooled_margin([alone] * m, 0.05) / margin for m in numbers]
        line(axes, numbers, margins, f"{name}, m releases", colour, marker="o")
        at_once = [noise.margin(0.95, groups) / margin for noise in noises]
        line(axes, numbers, at_once, f"{name}, one at the price of m", colour, ":", marker="x")
        if name == "Gaussian":
            risks = [0.05 / 2 ** (m - 1) for m in numbers]
            chosen = [
                pooled_margin([alone] * m, r) / margin for m, r in zip(numbers, risks, strict=True)
            ]
            line(axes, numbers, chosen, "counts that decide, m releases", ORANGE, marker="o")
    axes.set_xlabel("releases m")
    axes.set_ylabel("95% margin, in that of one release")
    axes.set_ylim(0, 1.05)
    axes.set_title("ε = 0.5 each, ten groups per unit")


def ladder(axes: Axes) -> None:
    """On which rungs a unit stands, by how much it has left out, where it keeps one at most."""
    rungs = Ladder.reaching(1)
    left = range(1, 65)
    stands = [
        rungs.standing([min(max(x - low, 0), span) for low, span in rungs.spans]) / LADDER_STEPS
        for x in left
    ]
    colours = (ORANGE, BLUE, GREEN, RED, PURPLE, INK)
    for place, (height, colour) in enumerate(zip(rungs.heights, colours, strict=True)):
        line(axes, left, [parts[place] for parts in stands], f"rung at {height}", colour)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("what one unit has left out")
    axes.set_ylabel("part of it on each rung")
    axes.set_ylim(0, 1.05)
    thousands(axes.xaxis)
    axes.set_title("max_groups_contributed 1: the ladder has six rungs")


def rows_drawn(axes: Axes) -> None:
    """The error of a count by the number of rows of a unit that count, and the law of the draw."""
    units, groups, rho = 5000, 12, 0.02
    tops = np.linspace(1, 0, units, endpoint=False)  # the part of the units with as many rows
    rows = np.ceil(8 * (tops ** (-1 / 1.5) - 1) + 1)
    rungs = [rung for rung in rows_ladder() if rung <= 1024]
    sigma = 1 / math.sqrt(2 * 0.95 * rho)
    cut = np.array([np.maximum(rows - rung, 0).sum() / groups for rung in rungs])
    noise = np.array([0.8 * rung * math.sqrt(groups) * sigma for rung in rungs])
    targets = [rows_target(groups, 1, sigma)] * len(rows_ladder())
    draw = bound_draw(PrivacyLoss(0.05 * rho), rows_ladder(), POWER_OF_ROWS, targets)
    tails = np.array([(rows > rung).sum() - draw.targets[0] / WHOLE_WEIGHT for rung in rungs])
    law = np.array(rungs, float) ** -5 * np.exp(-draw.rate * np.maximum(tails, 0))
    least = (cut + noise).min()
    line(axes, rungs, cut / least, "rows that are cut", ORANGE)
    line(axes, rungs, noise / least, "noise", BLUE)
    line(axes, rungs, (cut + noise) / least, "error: both", INK)
    line(axes, rungs, law / law.sum(), "chance to be drawn", GREEN)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("rows of a unit that count in a group")
    axes.set_ylabel("in units of the least error, or chance")
    axes.set_ylim(0, 4)
    thousands(axes.xaxis)
    axes.set_title("5,000 units with a heavy tail, 12 groups, ρ 0.02")


def values_drawn(axes: Axes) -> None:
    """The error of a sum by the upper bound of its values, and the law of the draw."""
    units, rho = 3000, 0.02
    tops = (np.arange(units) + 0.5) / units
    values = np.array([30_000 * math.exp(0.7 * NormalDist().inv_cdf(top)) for top in tops])
    sigma = 1 / math.sqrt(2 * 0.8 * rho)
    prices = PrivacyLoss(0.14 * rho), PrivacyLoss(0.03 * rho)
    side = value_bounds(*prices, 0.6 * sigma, whole=True).size
    rungs = np.array([rung for rung in side.rungs if rung > 0], float)
    cut = np.array([np.maximum(values - rung, 0).sum() for rung in rungs])
    noise = 0.8 * sigma * rungs
    tails = np.array([(values > rung).sum() - 0.6 * sigma for rung in rungs])
    law = rungs ** (-POWER_OF_VALUES / 2) * np.exp(-side.rate * np.maximum(tails, 0))
    least = (cut + noise).min()
    line(axes, rungs, cut / least, "what is cut", ORANGE)
    line(axes, rungs, noise / least, "noise", BLUE)
    line(axes, rungs, (cut + noise) / least, "error: both", INK)
    line(axes, rungs, law / law.sum(), "chance to be drawn", GREEN)
    axes.set_xscale("log", base=2)
    axes.set_xlim(2**12, 2**20)
    axes.set_xlabel("upper bound of a value")
    axes.set_ylabel("in units of the least error, or chance")
    axes.set_ylim(0, 4)
    thousands(axes.xaxis)
    axes.set_title("3,000 units with an income each, ρ 0.02")


def top_k_threshold(axes: Axes) -> None:
    """What a group needs above the (k_bar+1)-th count, for one query, by mechanism."""
    epsilon, delta, k = 1.0, 1e-6, 10
    rho, rest = rho_from_epsilon(epsilon, delta / 2), delta / 2
    sizes = sorted({round(10 ** (i / 10)) for i in range(10, 41)})
    price = PrivacyLoss(rho, rest)
    gumbel = [gumbel_top_k(price, sensitivity=1, k=k, k_bar=n, floor=0) for n in sizes]
    line(axes, sizes, [m.threshold for m in gumbel if m], "Gumbel, k = 10, names", GREEN)
    shared = [correlated_top_k(price, sensitivity=1, k=n, k_bar=n, floor=0) for n in sizes]
    line(axes, sizes, [m.threshold for m in shared if m], "correlated, names and counts", PURPLE)
    for groups, colour in ((10, BLUE), (100, ORANGE)):
        noise = gaussian(PrivacyLoss(rho * (1 - 4e-7)), 1, groups)
        capped = [GaussianTopK(noise, groups, n, rest, 0).threshold for n in sizes]
        label = f"Gaussian, {groups} groups per unit"
        line(axes, sizes, capped, label, colour)
    axes.set_xscale("log")
    axes.set_yscale("log")
    thousands(axes.xaxis, axes.yaxis)
    axes.set_xlabel("k_bar")
    axes.set_ylabel("threshold above the (k_bar+1)-th count")
    axes.set_title("ε = 1, δ = 10⁻⁶, counts of units")


def composition(axes: Axes) -> None:
    """Total epsilon of equal queries by composition theorem."""
    epsilon, delta = 0.1, 1e-6
    counts = [1, *range(5, 301, 5)]
    totals = [{c.theorem: c.epsilon for c in compare(epsilon, m, delta)} for m in counts]
    for label, colour, theorem, dash in (
        ("basic", ORANGE, "basic", "-"),
        ("advanced", RED, "advanced", "-"),
        ("zCDP, simple conversion", BLUE, "zcdp_simple", ":"),
        ("zCDP, tight conversion", BLUE, "zcdp_tight", "-"),
        ("optimal", PURPLE, "optimal", "-"),
        ("selections: bounded range", GREEN, "bounded_range", "--"),
        ("selections: zCDP, tight", GREEN, "bounded_range_zcdp", "-"),
    ):
        line(axes, counts, [total[theorem] for total in totals], label, colour, dash)
    axes.set_ylim(0, 12)
    axes.set_xlabel("queries")
    axes.set_ylabel("total ε")
    axes.set_title("ε = 0.1 each, δ = 10⁻⁶ in all")


def continual_noise(axes: Axes) -> None:
    """The noise of every step of a year, by factorisation, in single answers of the same cost."""
    steps = np.arange(1, 366, dtype=np.float64)
    for label, colour, factorisation in (
        ("tree, base 5", ORANGE, best_tree(365)),
        ("tree from below", RED, TreeFromBelow(365)),
        ("Toeplitz", BLUE, SquareRoot(365)),
        ("Toeplitz, 30 steps", GREEN, SlidingWindow(365, 30)),
    ):
        line(axes, steps, factorisation.relative_std(), label, colour)
    axes.set_xlabel("step")
    axes.set_ylabel("std, in single answers' std")
    axes.set_ylim(0, 8)
    axes.set_title("365 steps; one answer at each of its own costs 19.1")


def thousands(*axes: Axis) -> None:
    """Plain numbers on an axis, not powers of ten."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def line(
    axes: Axes,
    x: ArrayLike,
    y: ArrayLike,
    label: str,
    colour: str,
    dash: str = "-",
    *,
    marker: str = "",
    key: str = "",
) -> None:
    """One curve, with an id by which a test finds it in the file."""
    gid = key or label.replace(" ", "-").replace(",", "").replace(":", "").replace("=", "")
    axes.plot(
        x,
        y,
        color=colour,
        linestyle=dash,
        marker=marker,
        markersize=4.5,
        label=label or "_nolegend_",
        gid=f"curve-{gid}",
    )


class Repeatable:
    """Words that are the same each time: a picture of noise that `make pictures` can draw again."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)

    def words(self, n: int) -> NDArray[np.uint64]:
        return self._random.integers(0, 2**64, size=n, dtype=np.uint64)


def an_answer(axes: Axes) -> None:
    """An answer as ``Result.plot`` draws it: counts, 95% intervals, the threshold, the cost."""
    units = np.arange(2_000)
    doctor = np.minimum(np.floor(np.log2(1 + units / 40) * 1.6), 8)
    names = [f"Dr. {'ABCDEFGHI'[int(d)]}" if d < 8 else None for d in doctor]
    engine = DuckDBEngine()
    engine.register("visits", {"patient_id": units, "doctor": names}, types={"doctor": "VARCHAR"})
    engine._connection.execute("SET threads = 1")  # groups in one order, each with its own noise
    policy = Policy(
        "clinic",
        tables={"visits": TablePolicy("visits", PrivacyUnit("patient", "patient_id"))},
        accounts={"ana": AccountPolicy("ana", 1.0, 1e-6)},
        defaults=Parameters(epsilon=0.5, delta=1e-7, max_groups_contributed=1),
    )
    with TemporaryDirectory() as folder, connect(engine, policy, f"{folder}/b.db", "ana") as con:
        con._answerer.buyer.entropy = Repeatable()
        con.sql(
            "SELECT doctor, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY doctor"
        ).plot(ax=axes)
    for number, bar in enumerate(axes.patches):
        bar.set_gid(f"curve-{number}")


PICTURES: dict[str, Callable[[Axes], None]] = {
    "continual-noise.svg": continual_noise,
    "an-answer.svg": an_answer,
    "threshold-by-noise.svg": threshold_by_noise,
    "set-union-size.svg": set_union_size,
    "correlated-variance.svg": correlated_variance,
    "elliptic-variance.svg": elliptic_variance,
    "top-k-threshold.svg": top_k_threshold,
    "composition.svg": composition,
    "quantile-error.svg": quantile_error,
    "cascade.svg": cascade_worth,
    "peers.svg": beside_peers,
    "pooling.svg": pooled,
    "ladder.svg": ladder,
    "rows.svg": rows_drawn,
    "values.svg": values_drawn,
}


def draw(name: str, folder: Path = OUTPUT) -> Path:
    """Draw one picture and return its file."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.6, 3.8))
        axes = figure.add_axes((0.12, 0.15, 0.48, 0.74))
        PICTURES[name](axes)
        axes.title.set(color=INK, fontsize=10.5)
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), borderaxespad=0.0)
        path = folder / name
        title = (PICTURES[name].__doc__ or name).strip()
        metadata = {"Title": title, "Date": None, "Creator": None}
        # Tight, so that no legend and no title is cut off, however long.
        figure.savefig(path, metadata=metadata, bbox_inches="tight", pad_inches=0.1)
    # One trailing newline and no trailing blanks, as in every file of the repository.
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(text.rstrip() for text in lines) + "\n", encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name in PICTURES:
        draw(name, folder)


if __name__ == "__main__":
    main()
