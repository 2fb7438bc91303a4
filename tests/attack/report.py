# ruff: noqa: E501
"""What was tried and found, as figures and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .grammar import Statement
from .nets import Finding, Outcome


@dataclass
class Hole:
    """Findings with one signature: how many, the first, and the smallest statement."""

    net: str
    world: str
    signature: str
    detail: str
    statement: str
    parameters: dict[str, str]
    count: int = 1
    minimal: str = ""
    rows: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parameters = f"  with {self.parameters}" if self.parameters else ""
        text = self.minimal or self.statement
        return f"[{self.net}] ({self.world}, {self.count}×) {text}{parameters}\n    {self.detail}"


@dataclass
class Report:
    """The figures of a run."""

    seed: int
    statements: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    slowest_planning: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    worlds: Counter[str] = field(default_factory=Counter)
    stacks: Counter[str] = field(default_factory=Counter)
    productions: dict[str, int] = field(default_factory=dict)
    holes: dict[str, Hole] = field(default_factory=dict)

    def note(self, statement: Statement, outcome: Outcome) -> list[Hole]:
        """Count a statement; returns the holes that are new."""
        self.statements += 1
        self.outcomes[outcome.kind] += 1
        self.worlds[statement.world] += 1
        self.shapes[f"{statement.shape}: {outcome.kind}"] += 1
        self.slowest_planning = max(self.slowest_planning, outcome.seconds)
        if outcome.code:
            self.refusals[outcome.code] += 1
        return [hole for f in outcome.findings for hole in self._hole(statement, f)]

    def _hole(self, statement: Statement, finding: Finding) -> list[Hole]:
        signature = f"{statement.world} {finding.signature}"
        known = self.holes.get(signature)
        if known is not None:
            known.count += 1
            if len(statement.text) < len(known.statement):
                known.statement = statement.text
            return []
        parameters = {name: repr(value) for name, value in statement.parameters.items()}
        detail = f"{finding.detail} {finding.place}".strip()
        hole = Hole(finding.net, statement.world, signature, detail, statement.text, parameters)
        self.holes[signature] = hole
        return [hole]

    @property
    def nets(self) -> Counter[str]:
        """Findings by net."""
        return Counter(
            {
                net: sum(h.count for h in self.holes.values() if h.net == net)
                for net in {h.net for h in self.holes.values()}
            }
        )

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        accepted = sum(1 for n in self.productions.values() if n)
        return {
            "seed": self.seed,
            "statements": self.statements,
            "seconds": round(self.seconds),
            "cpu_seconds": round(self.cpu_seconds),
            "slowest_planning_cpu_seconds": round(self.slowest_planning, 2),
            "outcomes": dict(self.outcomes.most_common()),
            "refusals": dict(self.refusals.most_common()),
            "shapes": dict(sorted(self.shapes.items())),
            "worlds": dict(self.worlds.most_common()),
            "full_stack": dict(self.stacks.most_common()),
            "productions": {"tried": len(self.productions), "accepted": accepted},
            "findings_by_net": dict(self.nets.most_common()),
            "findings": [
                {
                    "net": h.net,
                    "world": h.world,
                    "count": h.count,
                    "minimal": h.minimal or h.statement,
                    "parameters": h.parameters,
                    "detail": h.detail,
                    "rows": h.rows,
                }
                for h in sorted(self.holes.values(), key=lambda h: (h.net, -h.count))
            ],
        }

    def write(self, path: Path) -> None:
        """Leave it as a file."""
        path.write_text(json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n", "utf-8")

    def __str__(self) -> str:
        lines = [
            f"{self.statements:,} statements in {self.seconds:,.0f} s ({self.cpu_seconds:,.0f} s of "
            f"CPU): {', '.join(f'{n:,} {kind}' for kind, n in self.outcomes.most_common())}",
            f"worlds: {dict(self.worlds.most_common())}",
            f"full stack: {dict(self.stacks.most_common())}",
            f"refusals: {dict(self.refusals.most_common(12))}",
            f"slowest planning: {self.slowest_planning:.2f} s of CPU",
            f"{len(self.holes)} findings {dict(self.nets)}",
        ]
        return "\n".join([*lines, *map(str, sorted(self.holes.values(), key=lambda h: h.net))])
