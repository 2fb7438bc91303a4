"""What bounding costs on each engine: CPU seconds of questions beside the plain queries' there.

``make bench``, or ``python benchmarks/engines.py [--rows N] [--engines DuckDB PostgreSQL Spark]``,
asks the same questions (``questions.py``) of every engine that is installed, over the same rows.
It prints one table, and writes ``benchmarks/results/engines.json``, from which tools/docs/tables.py
makes that of docs/engines. Figures of engines that are not installed stay there as they were.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from measured_engines import ENGINES, Filled, MeasuredEngine
from questions import QUESTIONS, Question, rows

RESULT = Path(__file__).parent / "results" / "engines.json"
PACKAGES = {"DuckDB": "duckdb", "PostgreSQL": "adbc-driver-postgresql", "Spark": "pyspark"}


def main() -> None:
    """Measure, print and write."""
    options = _options()
    chosen = [engine for engine in ENGINES if engine.name in options.engines]
    found = {}
    for engine in chosen:
        missing = engine.missing()
        found[engine.name] = (
            {"missing": missing} if missing else measured(engine, options.rows, options.runs)
        )
    print(shown(found))
    earlier = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    kept = {name: figures for name, figures in found.items() if "missing" not in figures}
    if options.rows == 1_000_000:
        RESULT.write_text(json.dumps(earlier | kept, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="others are not written")
    parser.add_argument("--runs", type=int, default=3)
    names = [engine.name for engine in ENGINES]
    parser.add_argument("--engines", nargs="+", choices=names, default=names)
    return parser.parse_args()


def measured(engine: MeasuredEngine, count: int, runs: int) -> dict[str, Any]:
    """Measure all questions on one engine: for each its plain CPU seconds, dpsql's, their ratio."""
    with tempfile.TemporaryDirectory() as place, engine.filled(rows(count), Path(place)) as filled:
        questions = {name: compared(filled, each, runs) for name, each in QUESTIONS.items()}
    return {
        "rows": count,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "package": f"{PACKAGES[engine.name]} {version(PACKAGES[engine.name])}",
        "cpu_seconds": engine.counted,
        "questions": questions,
    }


def compared(engine: Filled, question: Question, runs: int) -> dict[str, float]:
    """Alternate the plain query and the question, each once before it counts; medians."""

    def asked() -> object:
        return engine.connection.sql(question.sql, fresh=True, **question.parameters).fetchall()

    def plain() -> object:
        return engine.plain(question.sql)

    plain(), asked()
    pairs = [(_seconds(engine, plain), _seconds(engine, asked)) for _ in range(runs)]
    alone, bounded = (median(each) for each in zip(*pairs, strict=True))
    return {"plain": round(alone, 3), "dpsql": round(bounded, 3)}


def _seconds(engine: Filled, run: Callable[[], object]) -> float:
    before = engine.cpu()
    run()
    return engine.cpu() - before


def shown(found: dict[str, dict[str, Any]]) -> str:
    """Write one table: each engine's ratio to its own plain query in the same run."""
    heads = [f"{'':34}", *(f"{name:>22}" for name in found)]
    lines = ["".join(heads)]
    for name in QUESTIONS:
        lines.append(f"{name:34}" + "".join(f"{_cell(each, name):>22}" for each in found.values()))
    missing = [(name, each["missing"]) for name, each in found.items() if "missing" in each]
    lines += [f"{name} is not installed: {reason}" for name, reason in missing]
    lines.append("times the plain query's CPU seconds there (plain → dpsql)")
    return "\n".join(lines)


def _cell(figures: dict[str, Any], question: str) -> str:
    if "missing" in figures:
        return "not installed"
    plain, bounded = (figures["questions"][question][key] for key in ("plain", "dpsql"))
    return f"{bounded / max(plain, 1e-3):.1f} ({plain:.2f} → {bounded:.2f})"


if __name__ == "__main__":
    main()
