"""Speed of the ledger: reservations settled per second, on disk, and whether size matters.

Run with ``make ledger-bench`` or ``python benchmarks/ledger.py [--entries N] [--directory D]``.
Measures, as medians over rounds:

* syncs per second of the disk alone, which two commits per entry cannot exceed;
* entries (a reservation, its settling, a stored answer) per second with every commit on disk;
* the computing time of one entry, the disk left out, in a ledger of few and of many entries;
* verification, in microseconds per event.

The many entries are made by the ledger's own code, in large transactions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpsql.ledger import Account, Ledger
from dpsql.privacy.accounting.zcdp import Amount

ACCOUNT = "sales/alice/notebook"
LIMITS = (
    Account("sales", Amount(rho=10**15, delta=10**15)),
    Account("sales/alice", Amount(rho=10**15, delta=10**15)),
)
PLAN = json.dumps([{"mechanism": "gaussian_top_k", "parameters": {"epsilon": 0.1, "k_bar": 100}}])
ANSWER = b"an answer of a few rows " * 20
ROUND = 500


def entry(ledger: Ledger, number: int) -> None:
    """One question, asked and answered."""
    reserved, actual = Amount(rho=100, delta=1), Amount(rho=40, delta=1)
    charge = ledger.reserve(ACCOUNT, reserved, query=f"{number:064x}", plan=PLAN, limits=LIMITS)
    ledger.settle(charge, actual, ANSWER)


def rate(work: Callable[[int], None], rounds: int = 5) -> float:
    """Runs per second: the median of rounds."""
    rates = []
    for turn in range(rounds):
        start = time.perf_counter()
        for number in range(ROUND):
            work(turn * ROUND + number)
        rates.append(ROUND / (time.perf_counter() - start))
    return statistics.median(rates)


def syncs(directory: Path) -> float:
    """Writes of 4 KiB per second, each synced."""
    descriptor = os.open(directory / "probe", os.O_RDWR | os.O_CREAT)

    def write(_: int) -> None:
        os.write(descriptor, bytes(4096))
        os.fdatasync(descriptor)

    try:
        return rate(write)
    finally:
        os.close(descriptor)


@contextmanager
def without_disk(ledger: Ledger) -> Iterator[None]:
    """One transaction for all that is done inside: only computing is left."""
    link = ledger._link
    sql = link._live()
    sql.begin_write()
    link.write = lambda work: work(sql)  # type: ignore[method-assign]
    try:
        yield
        sql.commit()
    finally:
        del link.write


def computing(ledger: Ledger) -> float:
    """Microseconds of one entry without the disk."""
    with without_disk(ledger):
        return 1e6 / rate(lambda number: entry(ledger, number))


def grow(ledger: Ledger, entries: int) -> None:
    """Make many entries."""
    for first in range(0, entries, 50_000):
        with without_disk(ledger):
            for number in range(first, min(entries, first + 50_000)):
                entry(ledger, number)


def measure(directory: Path, entries: int) -> dict[str, float]:
    """All figures."""
    figures = {"syncs per second": syncs(directory)}
    with Ledger.open(directory / "ledger") as ledger:
        entry(ledger, 0)
        figures["entries per second"] = rate(lambda number: entry(ledger, number))
        figures["computing, few entries (µs)"] = computing(ledger)
        start = time.perf_counter()
        found = ledger.verify()
        assert found.sound
        figures["verification (µs per event)"] = (time.perf_counter() - start) / found.events * 1e6
        grow(ledger, entries)
        more = f"{entries:,} entries more"
        figures[f"computing, {more} (µs)"] = computing(ledger)
        figures[f"entries per second, {more}"] = rate(lambda number: entry(ledger, number))
        figures["bytes per entry"] = (directory / "ledger").stat().st_size / entries
        start = time.perf_counter()
        ledger.spent("sales"), ledger.stored("sales", f"{7:064x}")
        figures["spent and stored (µs)"] = (time.perf_counter() - start) * 1e6
        start = time.perf_counter()
        assert len(ledger.history("sales")) == 100
        figures["history of the dataset (µs)"] = (time.perf_counter() - start) * 1e6
        start = time.perf_counter()
        assert ledger.verify().sound
        figures["verification of all (s)"] = time.perf_counter() - start
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, default=None, help="on the disk to be measured")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        for name, figure in measure(Path(directory), given.entries).items():
            print(f"{name:45} {figure:12,.1f}", flush=True)


if __name__ == "__main__":
    main()
