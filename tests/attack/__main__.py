"""``python tests/attack``: attack this dpsql at length, and leave a report."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

if not __package__:  # run as a directory: make it the package that it is
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
    __package__ = "attack"
    import attack as _attack  # noqa: F401

from attack.run import Plan, attack
from attack.stacks import STACKS
from attack.world import WORLDS


def main() -> int:
    """Attack, print, write; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("--statements", type=int, help="2000; of a sweep, all")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--full", type=float, default=0.02, help="share that is paid and answered")
    parser.add_argument("--stacks", nargs="*", default=list(STACKS), choices=sorted({*STACKS}))
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--reductions", type=int, default=40, help="findings made minimal")
    parser.add_argument("--rows", type=int, default=6, help="findings whose rows are reduced too")
    parser.add_argument("--report", type=Path, help="a JSON file to write")
    parser.add_argument("--sweep", action="store_true", help="every function × types × constants")
    parser.add_argument("--twins", action="store_true", help="take away one net after the other")
    given = parser.parse_args()
    if given.twins:
        from attack.twins import report_twins

        return report_twins(given.seed, given.statements or 700, given.report)
    if given.sweep:
        from attack.sweep import report_sweep

        return report_sweep(given.report, given.statements)
    plan = Plan(
        given.statements or 2000,
        given.minutes,
        given.seed,
        tuple(given.worlds),
        given.full,
        tuple(given.stacks),
        given.reductions,
        given.rows,
        told=True,
        path=given.report,
    )
    found = attack(plan)
    print(found)
    sys.stdout.flush()
    # DuckDB's bindings complain at length of what is left of connections; nothing is.
    os._exit(1 if found.holes else 0)


if __name__ == "__main__":
    sys.exit(main())
