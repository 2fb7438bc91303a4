"""dbt with its adapter for PostgreSQL: it connects, compiles and shows, and is refused tables.

It lies in an environment of its own, ``dbt`` of this one (``make tools``), or is the program that
``DPSQL_DBT`` names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.serving import PASSWORD, Serving, encrypted, ended, not_installed

pytestmark = pytest.mark.slow
PROGRAM = Path(os.environ.get("DPSQL_DBT", Path(sys.prefix) / "dbt" / "bin" / "dbt"))
PROJECT = """
name: clinic
version: "1.0.0"
config-version: 2
profile: clinic
model-paths: [models]
"""
MODEL = "SELECT ward, COUNT(*) AS n FROM {{ source('clinic', 'visits') }} GROUP BY ward"
SOURCES = """
version: 2
sources: [{name: clinic, database: clinic, schema: public, tables: [{name: visits}]}]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    if not PROGRAM.exists():
        not_installed("dbt")
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


@pytest.fixture
def project(server: Serving, tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text(PROJECT)
    (tmp_path / "models" / "sources.yml").write_text(SOURCES)
    (tmp_path / "models" / "counts.sql").write_text(MODEL)
    target = {
        "type": "postgres",
        "host": "127.0.0.1",
        "port": server.port,
        "user": "ana",
        "password": PASSWORD,
        "dbname": "clinic",
        "schema": "public",
        "sslmode": "verify-full",
        "sslrootcert": str(server.directory / "both.pem"),
        "threads": 1,
    }
    profiles = {"clinic": {"target": "dev", "outputs": {"dev": target}}}
    (tmp_path / "profiles.yml").write_text(json.dumps(profiles))  # JSON is YAML
    return tmp_path


def dbt(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    given = ("--no-use-colors", "--no-version-check", "--no-send-anonymous-usage-stats")
    return subprocess.run(
        [str(PROGRAM), *given, *words, "--profiles-dir", str(project)],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def shown(project: Path, *words: str) -> list[dict[str, Any]]:
    done = dbt(project, "--quiet", "show", "--output", "json", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{") :])["show"]
    return found


def test_it_connects(project: Path) -> None:
    done = dbt(project, "debug")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Connection test: [OK" in done.stdout


def test_models_are_compiled_and_shown(project: Path) -> None:
    done = dbt(project, "compile", "--select", "counts")
    assert done.returncode == 0, done.stdout + done.stderr
    compiled = project / "target" / "compiled" / "clinic" / "models" / "counts.sql"
    assert '"clinic"."public"."visits"' in compiled.read_text()
    rows = shown(project, "--select", "counts")
    assert [row["ward"] for row in rows] == ["a", "b"]
    assert all(900 < row["n"] < 1100 for row in rows)
    assert shown(project, "--select", "counts") == rows
    assert shown(project, "--inline", "SELECT beds FROM wards") == [{"beds": 3}]


def test_rows_and_tables_are_refused(project: Path) -> None:
    done = dbt(project, "show", "--inline", "SELECT * FROM visits")
    assert done.returncode != 0
    assert "private table" in done.stdout
    done = dbt(project, "run", "--select", "counts")
    assert done.returncode != 0
    assert "ERROR" in done.stdout
