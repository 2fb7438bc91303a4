"""pgJDBC, which dashboards and database tools on Java use: structure, questions, cursors, refusals.

Its jar is that of Debian's libpostgresql-jdbc-java, or the one that ``DPSQL_PGJDBC`` names.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.certificates import made
from helpers.serving import PASSWORD, Serving, encrypted, ended, not_installed

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).parent / "clients" / "PgJdbc.java"
JAR = Path(os.environ.get("DPSQL_PGJDBC", "/usr/share/java/postgresql.jar"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    if shutil.which("java") is None or not JAR.exists():
        not_installed("pgJDBC")
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


@pytest.fixture(scope="module")
def told(server: Serving) -> list[str]:
    """What the program prints, after it has asked a server."""
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/clinic"
    trusted = server.directory / "certificate.pem"  # Java reads no file that has a key as well
    trusted.write_text(ssl.DER_cert_to_PEM_cert(made("rsa", "sha256").der))
    done = subprocess.run(
        ["java", "-cp", str(JAR), str(PROGRAM), url, "ana", PASSWORD, str(trusted)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def those(told: list[str], name: str) -> list[str]:
    return [line.removeprefix(f"{name} ") for line in told if line.startswith(f"{name} ")]


def test_structure_is_that_of_the_policy(told: list[str]) -> None:
    assert those(told, "product") == ["PostgreSQL"]
    assert "public" in those(told, "schemas")[0]
    assert those(told, "tables") == ["[visits, wards]"]
    assert those(told, "columns") == ["[patient_id, cost, ward, day]"]
    assert those(told, "types") == ["[int8, numeric, text, date]"]
    assert [those(told, name) for name in ("keys", "links", "indexes")] == [["[]"]] * 3
    assert those(told, "known types") == those(told, "functions") == ["true"]


def test_questions_are_answered_and_their_price_is_a_warning(told: list[str]) -> None:
    assert those(told, "answer") == ["text int8"]
    rows = [line.split() for line in those(told, "row")]
    assert [ward for ward, _ in rows] == ["a", "b"]
    assert all(900 < int(count) < 1100 for _, count in rows)
    assert those(told, "price") == ["true"]
    assert those(told, "parameters") == ["2"]
    # The same question has the same answer, under a name of the server's and without one.
    counts = those(told, "prepared")
    assert len(counts) == 7
    assert len(set(counts)) == 2


def test_cursors_fetch_in_parts(told: list[str]) -> None:
    assert those(told, "fetched") == ["[0, 1, 2, 3, 4]"]


def test_refusals_are_those_of_sql(told: list[str]) -> None:
    states = those(told, "refused")
    assert states[:2] == ["0A000", "42601"]
    assert re.fullmatch(r"0A000|42601|25006", states[2])
    assert not any(line.startswith("not refused") for line in told)
    assert those(told, "login") == ["28P01"]
