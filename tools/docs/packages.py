"""Writes docs/packages.svg, the picture of the packages and their imports: ``make pictures``.

Packages stand in the layers of docs/layers.json, which ``tests/package/test_architecture.py``
checks; an arrow is an import, which may point down only.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dpsql"
PICTURE = ROOT / "docs" / "packages.svg"
HIDDEN = {"__main__", "__init__"}  # the package itself
LAYERS = [
    [name for name in layer if name not in HIDDEN]
    for layer in json.loads((ROOT / "docs" / "layers.json").read_text("utf-8"))["dpsql"]
    if not HIDDEN.issuperset(layer)
]
WIDTH, ROW, BOX, HEIGHT = 760, 62, 150, 34
SAYS = {
    "interfaces": "command line, shell, demo, SQLAlchemy",
    "notebook": "magics",
    "dbapi": "PEP 249",
    "client": "asks a server",
    "agents": "tools for models",
    "server": "doors and people",
    "present": "text, HTML, plots, files",
    "service": "answers one analyst",
    "owner": "init and check",
    "views": "materialized views",
    "pipeline": "prepare, read, release, tail",
    "budget": "who pays, what is left",
    "results": "answers, explanations",
    "survey": "what engines compute",
    "planner": "chooses mechanisms",
    "kinds": "kinds of release",
    "sql": "bound, rewrite",
    "accuracy": "intervals, wording",
    "bounding": "units bounded in NumPy",
    "ir": "queries, measures, plans",
    "policy": "what the owner declares",
    "ledger": "the durable budget",
    "engines": "where the data lie",
    "syntax": "text to trees",
    "core": "schemas, names, quoting",
    "privacy": "accounting, mechanisms",
    "errors": "one tree",
}


def arrows() -> Counter[tuple[str, str]]:
    """How many modules of one package import from another."""
    found: Counter[tuple[str, str]] = Counter()
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        tree = ast.parse(path.read_text("utf-8"))
        names = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        others = {n.split(".")[1] for n in names if n.startswith("dpsql.")} - {own}
        found.update((own, other) for other in others)
    return found


def places() -> dict[str, tuple[float, float]]:
    """The middle of every package's box."""
    found: dict[str, tuple[float, float]] = {}
    for row, layer in enumerate(LAYERS):
        for place, name in enumerate(layer):
            x = WIDTH / 2 + (place - (len(layer) - 1) / 2) * (BOX + 70)
            found[name] = (x, 30 + row * ROW)
    return found


def drawn() -> Iterator[str]:
    """The lines of the picture."""
    at, height = places(), 30 + len(LAYERS) * ROW
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">'
    )
    for (one, other), number in sorted(arrows().items()):
        if one not in at or other not in at:
            continue
        (x, y), (u, v) = at[one], at[other]
        bend = (x + u) / 2 + (90 if (v - y) > ROW else 0) * (1 if (x + u) >= WIDTH else -1)
        yield (
            f'<path d="M{x:.0f} {y:.0f} Q{bend:.0f} {(y + v) / 2:.0f} {u:.0f} {v:.0f}" fill="none" '
            f'stroke="#8aa" stroke-opacity="0.5" stroke-width="{min(0.6 + number / 8, 3):.1f}"/>'
        )
    for name, (x, y) in at.items():
        yield (
            f'<rect x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{BOX}" '
            f'height="{HEIGHT}" rx="6" fill="#f4f8f8" stroke="#466"/>'
        )
        yield f'<text x="{x:.0f}" y="{y - 2:.0f}" text-anchor="middle">{name}</text>'
        yield (
            f'<text x="{x:.0f}" y="{y + 12:.0f}" text-anchor="middle" font-size="9" '
            f'fill="#466">{SAYS[name]}</text>'
        )
    yield "</svg>"


def figures() -> str:
    """Count packages and modules at the top, arrows between them, and arrows that point up."""
    rank = {name: row for row, layer in enumerate(LAYERS) for name in layer}
    known = {pair for pair in arrows() if pair[0] in rank and pair[1] in rank}
    up = [pair for pair in known if rank[pair[0]] >= rank[pair[1]]]
    return f"{len(rank)} rooms, {len(known)} arrows, {len(up)} pointing up"


if __name__ == "__main__":
    PICTURE.write_text("\n".join(drawn()) + "\n", "utf-8")
    sys.stdout.write(figures() + "\n")
