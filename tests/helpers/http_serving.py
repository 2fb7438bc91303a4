"""A real server process with a door for HTTP, and requests to it, byte by byte where need be."""

from __future__ import annotations

import http.client
import json
import re
import secrets
import socket
import ssl
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from dpsql.server.people.records import Role, TokenScope
from dpsql.server.people.users import Users

POLICY = """
version: 1
dataset: clinic
defaults: {epsilon: 1.0, delta: 1e-9}
accounts: {ana: {epsilon: 1000, delta: 1e-3}, bob: {epsilon: 1, delta: 1e-6}}
agents: {ana: {epsilon_per_run: 8, epsilon_per_question: 5, confirm_above: 3}}
tables:
  visits:
    privacy_unit: {name: patient, column: patient_id}
    columns:
      cost: {lower: 0, upper: 100}
      ward: {domain: [a, b]}
  wards: {public: true}
"""
ACCOUNTS = {"ana": ["ana", "bob"], "bert": ["bob"], "dora": ["ana"], "eve": ["ana"]}


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        found: str = self.json["code"]
        return found


@dataclass
class HttpServing:
    """A server's process, its port for HTTP, its users' tokens, and where its log goes."""

    process: subprocess.Popen[str]
    port: int
    directory: Path
    log: Path
    tokens: dict[str, str]
    secure: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        scheme = "http" if self.secure is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def ledger(self) -> bytes:
        return (self.directory / "clinic.budget.db").read_bytes()

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        token: str | None = "ana",
        **headers: str,
    ) -> Reply:
        """Ask a route, of /v1 unless it begins with /; a body that is no bytes is sent as JSON."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given.setdefault("authorization", f"Bearer {self.tokens.get(token, token)}")
        if body is not None:
            given.setdefault("content-type", "application/json")
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if self.secure is None:
            con = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        else:
            con = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=60, context=self.secure
            )
        try:
            con.request(method, path if path.startswith("/") else f"/v1/{path}", data, given)
            found = con.getresponse()
            names = {name.lower(): value for name, value in found.getheaders()}
            return Reply(found.status, names, found.read())
        finally:
            con.close()

    @property
    def database(self) -> bytes:
        return (self.directory / "clinic.duckdb").read_bytes()

    @property
    def wire_port(self) -> int:
        found = re.search(r"is served on 127\.0\.0\.1:(\d+)", self.log.read_text())
        assert found is not None
        return int(found[1])

    def query(self, sql: str, token: str = "ana", *, accept: str = "*/*", **more: Any) -> Reply:
        return self.ask("POST", "query", {"sql": sql, **more}, token, accept=accept)

    def raw(self, data: bytes, *, shut: bool = True, seconds: float = 30) -> bytes:
        """Send bytes and return all that comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as con:
            con.sendall(data)
            if shut:
                con.shutdown(socket.SHUT_WR)
            found = b""
            try:
                while more := con.recv(65_536):
                    found += more
            except ConnectionError:
                pass
            return found


def filled_with_tokens(directory: Path) -> dict[str, str]:
    """A database, its policy, and users with a token each; bea's has expired, carl is disabled."""
    with duckdb.connect(str(directory / "clinic.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE visits AS SELECT range AS patient_id, 10.0 AS cost, "
            "CASE WHEN range % 2 = 0 THEN 'a' ELSE 'b' END AS ward, "
            "DATE '2026-01-01' + (range % 9)::INTEGER AS day FROM range(2000)"
        )
        owner.execute("CREATE TABLE wards AS SELECT 'a' AS ward, 3 AS beds, NULL::TEXT AS note")
    (directory / "policies.yaml").write_text(POLICY, encoding="utf-8")
    with Users.create(directory / "users.db", iterations=4096) as users:
        for name, accounts in ACCOUNTS.items():
            users.add(name, secrets.token_hex(12), [Role.ANALYST], accounts)
        users.add("olga", secrets.token_hex(12), [Role.OWNER], [])
        users.add("carl", secrets.token_hex(12), [Role.ANALYST], ["ana"])
        found = {
            name: users.issue_token(name, "laptop").secret for name in (*ACCOUNTS, "olga", "carl")
        }
        users.disable("carl")
        for scope in (TokenScope.EXPLAIN, TokenScope.ASK, TokenScope.VIEWS, TokenScope.AGENT):
            issued = users.issue_token("ana", scope.value, accounts=["ana"], scopes=[scope])
            found[f"ana-{scope.value}"] = issued.secret
        found["ana-loop"] = users.issue_token("ana", "loop", scopes=[TokenScope.AGENT]).secret
        found["eves-old"] = users.issue_token("eve", "old").secret
        users.revoke_token("eve", "old")
    # One that was good yesterday.
    past = datetime.now(UTC) - timedelta(days=1)
    with Users(directory / "users.db", clock=lambda: past) as users:
        soon = past + timedelta(minutes=1)
        found["doras-old"] = users.issue_token("dora", "old", expires=soon).secret
    return found


def http_started(
    directory: Path,
    tokens: dict[str, str],
    *more: str,
    secure: ssl.SSLContext | None = None,
    program: tuple[str, ...] = ("-m", "dpsql"),
) -> HttpServing:
    """Start a server with a door for HTTP on a port of its own."""
    log = directory / f"log-{secrets.token_hex(3)}"
    command = [sys.executable, *program, "serve", "-d", "clinic.duckdb", *more]
    command += ["--users", "users.db", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with log.open("w") as written:
        process = subprocess.Popen(
            command, cwd=directory, stdout=written, stderr=written, text=True
        )
    for _ in range(600):
        found = re.search(r"over HTTP on https?://127\.0\.0\.1:(\d+)", log.read_text())
        if found:
            return HttpServing(process, int(found[1]), directory, log, tokens, secure)
        if process.poll() is not None:
            break
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(log.read_text())
