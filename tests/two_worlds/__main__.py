"""``python tests/two_worlds``: play programs on pairs of worlds at length, and leave a report."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

if not __package__:  # run as a directory: make it the package that it is
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
    __package__ = "two_worlds"
    import two_worlds as _two_worlds  # noqa: F401

from two_worlds.run import run, told, write
from two_worlds.sources import READERS


def main() -> int:
    """Play, print, write; 1 if anything was found or a net was off."""
    parser = argparse.ArgumentParser(prog="two_worlds", description=__doc__)
    parser.add_argument("--programs", type=int, default=300, help="of each reader")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=600.0, help="of each reader at most")
    parser.add_argument("--readers", nargs="*", default=list(READERS), choices=list(READERS))
    parser.add_argument("--report", type=Path, help="a JSON file to write")
    given = parser.parse_args()
    reports = []
    for name in given.readers:
        found = run(
            READERS[name], given.programs, first=given.first, minutes=given.minutes, told=told
        )
        reports.append(found)
        print(found, flush=True)
        if given.report is not None:
            write(given.report, reports)
    bad = any(report.findings or report.off for report in reports)
    sys.stdout.flush()
    # DuckDB's bindings complain at length of what is left of connections; nothing is.
    os._exit(1 if bad else 0)


if __name__ == "__main__":
    sys.exit(main())
