"""A real server process over a small dataset, for the tests of its doors."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import psycopg
import pytest

from dpsql.server.people.records import Role
from dpsql.server.people.users import Users
from helpers.certificates import made

PASSWORD = "correct horse battery"
POLICY = """
version: 1
dataset: clinic
defaults: {epsilon: 1.0, delta: 1e-9}
accounts: {ana: {epsilon: 1000, delta: 1e-3}, bob: {epsilon: 1, delta: 1e-6}}
tables:
  visits:
    privacy_unit: {name: patient, column: patient_id}
    columns:
      cost: {lower: 0, upper: 100}
      ward: {domain: [a, b]}
  wards: {public: true}
"""


def psql_program() -> str:
    """Find psql. Without it, its tests are skipped, except in CI."""
    found = shutil.which("psql")
    if found is None and os.environ.get("DPSQL_REQUIRE_POSTGRES"):
        pytest.fail("there is no psql")
    if found is None:
        pytest.skip("there is no psql")
    return found


def not_installed(client: str) -> NoReturn:
    """Skip the tests of a client, or fail where each has to be tried."""
    if os.environ.get("DPSQL_REQUIRE_CLIENTS"):
        pytest.fail(f"{client} is not installed")
    pytest.skip(f"{client} is not installed")


@dataclass
class Serving:
    """A server's process, its port, and where its log goes."""

    process: subprocess.Popen[str]
    port: int
    directory: Path
    log: Path

    def address(self, user: str = "ana", password: str = PASSWORD, **more: str) -> str:
        given = {"host": "127.0.0.1", "port": str(self.port), "dbname": "clinic", "user": user}
        given |= {"password": password, "sslmode": "disable", "gssencmode": "disable"} | more
        return psycopg.conninfo.make_conninfo("", **given)

    def connect(self, *given: str, autocommit: bool = True, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.address(*given, **more), autocommit=autocommit)


def filled(directory: Path) -> None:
    """A database, its policy, and users: ana, who also has bob's account, and olga, an owner."""
    with duckdb.connect(str(directory / "clinic.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE visits AS SELECT range AS patient_id, 10.0 AS cost, "
            "CASE WHEN range % 2 = 0 THEN 'a' ELSE 'b' END AS ward, "
            "DATE '2026-01-01' + (range % 9)::INTEGER AS day FROM range(2000)"
        )
        owner.execute("CREATE TABLE wards AS SELECT 'a' AS ward, 3 AS beds, NULL::TEXT AS note")
    (directory / "policies.yaml").write_text(POLICY, encoding="utf-8")
    with Users.create(directory / "users.db", iterations=4096) as users:
        users.add("ana", PASSWORD, [Role.ANALYST], ["ana", "bob"])
        users.add("olga", PASSWORD, [Role.OWNER], [])


def encrypted(directory: Path) -> Serving:
    """Start a server that encrypts all, over a dataset of its own; ``both.pem`` is trusted."""
    filled(directory)
    (directory / "both.pem").write_bytes(made("rsa", "sha256").pem)
    return started(directory, "--certificate", "both.pem", "--certificate-key", "both.pem")


def ended(server: Serving) -> None:
    """End a server: nothing has gone wrong inside."""
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.log.read_text()


def started(directory: Path, *more: str) -> Serving:
    """Start a server on a port of its own."""
    log = directory / f"log-{secrets.token_hex(3)}"
    command = [sys.executable, "-m", "dpsql", "serve", "-d", "clinic.duckdb", *more]
    with log.open("w") as written:
        process = subprocess.Popen(
            [*command, "--users", "users.db", "--listen", "127.0.0.1:0"],
            cwd=directory,
            stdout=written,
            stderr=written,
            text=True,
        )
    for _ in range(600):
        found = re.search(r"served on 127\.0\.0\.1:(\d+)", log.read_text())
        if found:
            return Serving(process, int(found[1]), directory, log)
        if process.poll() is not None:
            break
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(log.read_text())
