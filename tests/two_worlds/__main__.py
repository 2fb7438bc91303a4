"""``python tests/two_worlds``: play programs on pairs of worlds at length, and leave a report."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

if not __package__:  # run as a directory: make it the package that it is
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
    __package__ = "two_worlds"
    import two_worlds as _two_worlds  # noqa: F401

from two_worlds.run import how_soon, run, told, write
from two_worlds.sources import READERS


def main() -> int:
    """Play, print, write; 1 if anything was found or a net was off."""
    parser = argparse.ArgumentParser(prog="two_worlds", description=__doc__)
    parser.add_argument("--programs", type=int, default=300, help="of each reader")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=600.0, help="of each reader at most")
    parser.add_argument("--readers", nargs="*", default=list(READERS), choices=list(READERS))
    parser.add_argument("--jobs", type=int, default=1, help="readers at a time")
    parser.add_argument("--report", type=Path, help="a JSON file to write")
    parser.add_argument("--holes", action="store_true", help="how soon each hole is noticed")
    given = parser.parse_args()
    if given.holes:
        for line in how_soon(given.programs):
            print(line, flush=True)
        return _end(0)
    if given.jobs > 1:
        return _end(_in_processes(given))
    reports = []
    for name in given.readers:
        missing = READERS[name].missing()
        if missing is not None:
            told(f"{name} is not played: {missing}")
            continue
        found = run(
            READERS[name], given.programs, first=given.first, minutes=given.minutes, told=told
        )
        reports.append(found)
        print(found, flush=True)
        if given.report is not None:
            write(given.report, [report.as_json() for report in reports])
    return _end(1 if any(report.findings or report.off for report in reports) else 0)


def _in_processes(given: argparse.Namespace) -> int:
    """Play each reader in a process of its own, some at a time; put their reports together."""
    with tempfile.TemporaryDirectory() as place:

        def play(number: int) -> tuple[int, list[dict[str, Any]]]:
            report = Path(place) / f"{number}.json"
            command = [sys.executable, str(Path(__file__).parent), "--report", str(report)]
            command += ["--programs", str(given.programs), "--first", str(given.first)]
            command += ["--minutes", str(given.minutes), "--readers", given.readers[number]]
            code = subprocess.run(command, check=False).returncode
            found = json.loads(report.read_text("utf-8"))["readers"] if report.exists() else []
            return code, found

        with ThreadPoolExecutor(given.jobs) as pool:
            played = list(pool.map(play, range(len(given.readers))))
    if given.report is not None:
        write(given.report, [report for _, found in played for report in found])
    return max(code for code, _ in played)


def _end(code: int) -> int:
    """Leave at once: DuckDB's bindings complain at length of what is left of connections."""
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
