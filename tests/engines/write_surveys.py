"""Writes the package's tables of verdicts again: ``python tests/engines/write_surveys.py spark``.

For the engines that are named, of the versions that are installed; it needs their servers, and some
minutes. With ``--changed`` servers compute those calls alone that are written otherwise than in the
last survey. Read the difference before it is committed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]

import surveyed_sql  # noqa: E402
from helpers.postgresql_server import running  # noqa: E402
from spark_sessions import started  # noqa: E402

from dpsql.engines.evidence.verdicts import Verdicts, verdicts_on  # noqa: E402
from dpsql.engines.postgresql.engine import PostgreSQLEngine  # noqa: E402
from dpsql.engines.spark.engine import SparkEngine  # noqa: E402
from dpsql.survey.sameness import Server, survey_sameness  # noqa: E402
from dpsql.survey.totality import survey_totality  # noqa: E402


@contextmanager
def server_of(engine: str) -> Iterator[Server]:
    """Start a server of an engine."""
    if engine == "spark":
        session = started()
        yield SparkEngine(session)
        session.stop()
        return
    with running() as server:
        server.run("CREATE DATABASE survey TEMPLATE template0 ENCODING 'UTF8'")
        yield PostgreSQLEngine(server.url("survey"))


def surveyed(engine: str, *, changed: bool) -> Verdicts:
    """Survey an engine, or what has changed of it."""
    if engine == "duckdb":
        return survey_totality()
    with server_of(engine) as server:
        if not changed:
            return survey_sameness(server)
        version = server.version
        found = survey_sameness(server, surveyed_sql.changed(version))
        known = {**verdicts_on(version).calls, **found.calls}
        return Verdicts(version, {call: known[call] for call in surveyed_sql.digests(version)})


if __name__ == "__main__":
    only_changed = "--changed" in sys.argv
    named = [word for word in sys.argv[1:] if word != "--changed"]
    for name in named or ("duckdb", "postgresql", "spark"):
        found = surveyed(name, changed=only_changed)
        place = ROOT / "dpsql" / "engines" / "evidence" / "surveys" / found.made_with.file_name
        place.write_text(found.text(), encoding="utf-8")
        if found.made_with.engine != "duckdb":
            surveyed_sql.keep(found.made_with)
        print(found.made_with, len(found.calls), "calls")
