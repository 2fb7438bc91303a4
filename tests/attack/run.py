"""A run: so many statements by one seed, findings reduced, figures in the end."""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import seams
from .grammar import Grammar, Statement
from .nets import Finding, examine
from .reduce import fewest_rows, reduced
from .report import Hole, Report
from .stacks import STACKS, through
from .world import WORLDS, Pair


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to attack, and what."""

    statements: int = 1000
    minutes: float = 600.0
    seed: int = 1
    worlds: tuple[str, ...] = tuple(WORLDS)
    full: float = 0.02  # of the statements go through a whole stack
    stacks: tuple[str, ...] = STACKS
    reductions: int = 40
    rows: int = 6  # findings whose rows are reduced too
    known: bool = True  # what was found before comes first
    told: bool = False
    path: Path | None = None  # where figures are left on the way, as a long run may be ended


KNOWN = Path(__file__).with_name("known.sql")
"""Statements that once were findings, and those that are tried of every awkward value."""


def known_statements() -> list[Statement]:
    """What was found before: a world and a statement on each line."""
    lines = [line.strip() for line in KNOWN.read_text("utf-8").splitlines()]
    pairs = [line.split(": ", 1) for line in lines if line and not line.startswith("--")]
    return [Statement(text, world, shape="known") for world, text in pairs]


def attack(plan: Plan) -> Report:
    """Attack what is imported as dpsql."""
    with tempfile.TemporaryDirectory() as place:
        pairs = {n: Pair.open(WORLDS[n], Path(place) / n) for n in plan.worlds}
        try:
            return _Attack(plan, pairs).run()
        finally:
            for pair in pairs.values():
                pair.close()


class _Attack:
    def __init__(self, plan: Plan, pairs: dict[str, Pair]) -> None:
        self.plan = plan
        self.pairs = pairs
        self.report = Report(plan.seed)
        self.grammar = Grammar(plan.seed, plan.worlds)
        self.rng = random.Random(plan.seed)

    def run(self) -> Report:
        began, cpu = time.monotonic(), time.process_time()
        until = began + 60 * self.plan.minutes
        self._opened()
        if self.plan.known:
            for statement in known_statements():
                if statement.world in self.pairs:
                    self._one(statement, full=True)
        while self.report.statements < self.plan.statements and time.monotonic() < until:
            statement = self.grammar.draw()
            self._one(statement, full=self.rng.random() < self.plan.full)
            if self.report.statements % 2000 == 0:
                self._figures(began, cpu)
                if self.plan.told:
                    told = f"{self.report.statements:,} statements, {self.report.seconds:,.0f} s"
                    print(told, file=sys.stderr)
        self._figures(began, cpu)
        return self.report

    def _figures(self, began: float, cpu: float) -> None:
        """Bring the report up to date, and write it if it is to be written."""
        self.report.seconds = time.monotonic() - began
        self.report.cpu_seconds = time.process_time() - cpu
        experience = self.grammar.experience
        self.report.productions = {p: experience.accepted[p] for p in experience.tried}
        if self.plan.path is not None:
            self.report.write(self.plan.path)

    def _opened(self) -> None:
        """A world is refused on both sides alike, or on none."""
        for name, pair in self.pairs.items():
            if pair.refused[0] != pair.refused[1]:
                statement = Statement("connect", name, shape="connect")
                finding = Finding("schema", "opening differs", "; ".join(pair.refused)[:300])
                self.report._hole(statement, finding)

    def _one(self, statement: Statement, *, full: bool) -> None:
        pair = self.pairs[statement.world]
        if not pair.usable:
            self.report.statements += 1
            self.report.outcomes["world refused"] += 1
            return
        outcome = examine(pair, statement)
        if outcome.kind == "stopped":
            pair.reopen()
        self.grammar.experience.note(statement, accepted=outcome.kind == "answered")
        new = self.report.note(statement, outcome)
        if full and outcome.kind != "stopped" and not outcome.findings:
            new += self._full(pair, statement)
        for hole in new:
            self._reduce(pair, statement, hole)

    def _full(self, pair: Pair, statement: Statement) -> list[Hole]:
        stack = self.rng.choice(self.plan.stacks)
        label, findings = through(stack, pair, statement)
        self.report.stacks[label] += 1
        if pair.usable:
            for connection in pair.sides:
                seams.forget(connection)
        return [hole for f in findings for hole in self.report._hole(statement, f)]

    def _reduce(self, pair: Pair, statement: Statement, hole: Hole) -> None:
        finding = Finding(hole.net, hole.detail)
        if self.plan.told:
            print(f"new: {hole}", file=sys.stderr)
        if self.plan.reductions <= self._reduced() or statement.shape == "known":
            return
        found = [f for f in examine(pair, statement).findings if f.net == hole.net]
        if not found:
            return
        finding = found[0]
        try:
            smaller = reduced(pair, statement, finding)
        except Exception:  # noqa: BLE001 (what cannot even be written back is left as it is)
            return
        hole.minimal = re.sub(r"\s+", " ", smaller.text)
        hole.parameters = {name: repr(value) for name, value in smaller.parameters.items()}
        if self._rowed() < self.plan.rows and finding.net in ("totality", "ranges", "sensitivity"):
            hole.rows = [row[:300] for row in fewest_rows(pair, smaller, finding)][:4]
        if self.plan.told:
            print(f"  minimal: {hole}", file=sys.stderr)

    def _reduced(self) -> int:
        return sum(bool(hole.minimal) for hole in self.report.holes.values())

    def _rowed(self) -> int:
        return sum(bool(hole.rows) for hole in self.report.holes.values())


def summary(reports: Sequence[Report]) -> str:
    """Several runs in lines."""
    return "\n\n".join(map(str, reports))
