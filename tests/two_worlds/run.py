"""A run of programs on pairs of worlds, and what came of it in figures."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .holes import HOLES
from .invariants import INVARIANTS
from .play import Finding, TwoWorlds, ready
from .programs import LEAST, draw
from .readers import Reader
from .sources import READERS

NEEDED = (
    "comparisons", "texts searched", "files compared", "statements sent", "ids drawn",
    "noise words", "release_block", "release_bounds", "draw_step", "parameters compared",
    "words compared", "steps compared", "accounts priced", "asked again", "primitives",
)  # fmt: skip
"""The counters of all nets: one that counts nothing was off."""
OF_VIEWS = ("draw_step", "steps compared")
"""Those of materialized views, which are made of DuckDB's rows alone."""


@dataclass
class Report:
    """What became of programs of one reader."""

    reader: str
    has_views: bool = True
    programs: int = 0
    statements: int = 0
    answered: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[str, Finding]] = field(default_factory=list)

    @property
    def off(self) -> list[str]:
        """Nets that tried nothing."""
        needed = NEEDED if self.has_views else [n for n in NEEDED if n not in OF_VIEWS]
        return [name for name in needed if not self.counted[name]]

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "reader": self.reader,
            "programs": self.programs,
            "statements": self.statements,
            "answered": self.answered,
            "seconds": round(self.seconds),
            "outcomes": dict(self.outcomes.most_common()),
            "refusals": dict(self.refusals.most_common()),
            "nets": dict(sorted(self.counted.items())),
            "findings": [f"{seed}: {finding}" for seed, finding in self.findings],
        }

    def __str__(self) -> str:
        nets = Counter(finding.net for _, finding in self.findings)
        head = (
            f"{self.reader}: {self.programs} programs, {self.statements:,} statements, "
            f"{self.answered:,} answered, {self.seconds:,.0f} s, findings {dict(nets)}"
        )
        return "\n".join([head, *(f"  {seed} {finding}" for seed, finding in self.findings)])


def run(
    reader: Reader,
    programs: int,
    *,
    first: int = 0,
    minutes: float = 600.0,
    statements: int = LEAST,
    same: bool = False,
    told: Callable[[str], None] = lambda line: None,
    enough: int | None = None,
) -> Report:
    """Play programs on pairs of worlds of a reader; roles change from one to the next.

    ``same``: without a difference. ``enough``: end after so many programs with findings.
    """
    report, began = Report(reader.name, reader.has_views), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpsql-worlds-") as home, ready():
        for number in range(first, first + programs):
            if time.monotonic() - began > 60 * minutes:
                break
            program = draw(f"{reader.name}:{number}", reader, statements)
            played = TwoWorlds(reader, program, Path(home), number % 2, same).play(INVARIANTS)
            report.programs += 1
            report.statements += played.statements
            report.answered += played.answered
            report.outcomes.update(played.outcomes)
            report.refusals.update(played.codes)
            report.counted.update(played.counted)
            report.findings += [(program.seed, finding) for finding in played.findings]
            for finding in played.findings[:1]:
                told(f"{program.seed} {finding}")
            if enough is not None and len({seed for seed, _ in report.findings}) >= enough:
                break
        reader.close()
    report.seconds = time.monotonic() - began
    return report


def write(path: Path, reports: Sequence[Any]) -> None:
    """Leave figures of some runs as a file."""
    document = {"readers": reports}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")


def how_soon(most: int) -> Iterator[str]:
    """Play random programs with each hole put back, until a net notices; say after how many."""
    for hole in HOLES:
        reader = READERS.get(hole.reader)
        if reader is None or not hole.steps:
            continue
        with hole.put_back():
            report = run(reader, most, enough=1)
        found = f"{report.findings[0][1].net}" if report.findings else "nothing"
        yield f"{hole.name}: {found} after {report.statements} statements of {report.programs}"


def told(line: str) -> None:
    """Say something on the way."""
    print(line, file=sys.stderr, flush=True)
