"""What a server costs beside the same questions in process: processor time, memory, turns.

Run with ``make serve-bench`` or ``python benchmarks/serve.py [--rows N] [--rounds N]``. A server of
``dpsql serve`` with a certificate, and a connection in this process, are asked the same over equal
datasets of their own. Processor time is that of the server's process, all threads, and of this one;
what the clients take is not counted. Measured, in one run:

* stored: what one stored answer of two rows takes longer at each door;
* new: the same of new answers over N rows, each under a condition of its own, as a ratio;
* value: what a value of a large public answer costs to send, after the rows are there;
* login: with TLS and SCRAM-SHA-256-PLUS, in processor time and in time;
* idle: memory of 500 connections that do nothing;
* sixteen: stored and new answers per second for 16 clients at each door, beside one;
* catalogs: what psql's ``\\d`` and ``\\dt`` ask, asked before.

Prints a table and writes benchmarks/results/serve.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import duckdb
import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import dpsql
from dpsql.server.people.records import Role
from dpsql.server.people.users import Users

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results" / "serve.json"
ACCOUNTS: Final = tuple(f"analyst_{number}" for number in range(8))
PASSWORD: Final = secrets.token_hex(12)
STORED: Final = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
PUBLIC: Final = "SELECT * FROM readings"
VALUES: Final = 200_000 * 5
IDLE: Final = 500
DESCRIBED: Final = (
    "SELECT n.nspname, c.relname, c.relkind, pg_catalog.pg_get_userbyid(c.relowner) "
    "FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r','v','m') AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1, 2"
)


def new_question(number: int) -> str:
    """Return a question that nobody has asked."""
    return f"SELECT ward, SUM(cost) AS s FROM visits WHERE patient_id <> {number} GROUP BY ward"


@dataclass(frozen=True)
class Server:
    """A server's process, the ports of its doors, and the token of each user."""

    process: subprocess.Popen[bytes]
    wire: int
    http: int
    directory: Path
    tokens: dict[str, str]

    def connect(self, user: str = ACCOUNTS[0]) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.wire,
            user=user,
            password=PASSWORD,
            dbname="bench",
            sslmode="verify-full",
            sslrootcert=str(self.directory / "certificate.pem"),
            autocommit=True,
        )

    def client(self, user: str = ACCOUNTS[0]) -> dpsql.RemoteConnection:
        certificate = str(self.directory / "certificate.pem")
        address = f"https://127.0.0.1:{self.http}"
        return dpsql.connect(address, token=self.tokens[user], certificate=certificate)

    @property
    def processor(self) -> float:
        """Seconds that the process and its children took, those that have ended among them."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> float:
        """Megabytes in memory that are the process's own."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) / 1000


def fill(directory: Path, rows: int) -> None:
    """Write a database with ``rows`` visits and a public table, and its policies file."""
    with duckdb.connect(str(directory / "bench.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE visits AS SELECT (range // 2)::BIGINT AS patient_id, "
            "(range % 97)::DOUBLE AS cost, "
            "CASE WHEN range % 3 = 0 THEN 'a' ELSE 'b' END AS ward FROM range(?)",
            [rows],
        )
        owner.execute(
            "CREATE TABLE readings AS SELECT range AS id, range / 7.0 AS level, "
            "'station ' || range % 50 AS station, range % 2 = 0 AS checked, "
            "DATE '2020-01-01' + (range % 999)::INTEGER AS day FROM range(200000)"
        )
    accounts = ", ".join(f"{name}: {{epsilon: 900, delta: 1e-3}}" for name in ACCOUNTS)
    (directory / "policies.yaml").write_text(
        f"""\
version: 1
dataset: bench
defaults: {{epsilon: 0.1, delta: 1e-9, max_rows_contributed: 2}}
accounts: {{{accounts}}}
tables:
  visits:
    privacy_unit: {{name: patient, column: patient_id}}
    columns:
      cost: {{lower: 0, upper: 100}}
      ward: {{domain: [a, b]}}
  readings: {{public: true}}
"""
    )


def write_certificate(directory: Path) -> None:
    """Write a certificate of this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now, here = datetime.now(UTC), x509.IPAddress(ip_address("127.0.0.1"))
    found = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (directory / "certificate.pem").write_bytes(found.public_bytes(serialization.Encoding.PEM))
    (directory / "key.pem").write_bytes(private)
    (directory / "key.pem").chmod(0o600)


@contextmanager
def serving(rows: int) -> Iterator[Server]:
    """Start a server over a dataset of its own, and end it."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        fill(directory, rows)
        write_certificate(directory)
        tokens = {}
        with Users.create(directory / "users.db") as users:
            for name in ACCOUNTS:
                users.add(name, PASSWORD, [Role.ANALYST], [name])
                tokens[name] = users.issue_token(name, "bench").secret
        command = [sys.executable, "-m", "dpsql", "serve", "-d", "bench.duckdb", "--users"]
        command += ["users.db", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        command += ["--certificate", "certificate.pem", "--certificate-key", "key.pem"]
        log = directory / "log"
        with log.open("wb") as written:
            process = subprocess.Popen(command, cwd=directory, stdout=written, stderr=written)
        try:
            wire, http = _ports(process, log)
            yield Server(process, wire, http, directory, tokens)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _ports(process: subprocess.Popen[bytes], log: Path) -> tuple[int, int]:
    """Wait until both doors are open."""
    for _ in range(600):
        text = log.read_text()
        wire = re.search(r"served on 127\.0\.0\.1:(\d+)", text)
        http = re.search(r"over HTTP on https://127\.0\.0\.1:(\d+)", text)
        if wire and http:
            return int(wire[1]), int(http[1])
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(log.read_text())


def in_process(rows: int, rounds: int) -> tuple[float, float, float]:
    """Measure a stored answer, a new one, and the public table, in seconds of processor time."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        fill(directory, rows)
        with dpsql.connect(
            directory / "bench.duckdb",
            directory / "policies.yaml",
            directory / "budget.db",
            ACCOUNTS[0],
        ) as con:
            con.sql(STORED)
            stored = _each(lambda _: con.sql(STORED).fetchall(), rounds, time.process_time)
            new = _each(lambda n: con.sql(new_question(n)).fetchall(), rounds, time.process_time)
            public = _each(lambda _: con.sql(PUBLIC).fetchall(), 3, time.process_time)
    return stored, new, public


def _each(work: Callable[[int], object], rounds: int, clock: Callable[[], float]) -> float:
    """Return what one round takes; a first one is not counted."""
    work(-1)
    begun = clock()
    for number in range(rounds):
        work(number)
    return (clock() - begun) / rounds


def over_the_wire(server: Server, rounds: int) -> dict[str, float]:
    """Measure the same at the doors, in seconds of the server's processor time."""

    def clock() -> float:
        return server.processor

    with server.connect(ACCOUNTS[1]) as con, server.client(ACCOUNTS[2]) as client:
        con.execute(STORED)
        client.sql(STORED)
        found = {
            "stored": _each(lambda _: con.execute(STORED).fetchall(), rounds, clock),
            "new": _each(lambda n: con.execute(new_question(n)).fetchall(), rounds, clock),
            "public": _each(lambda _: con.execute(PUBLIC).fetchall(), 3, clock),
            "public, binary": _each(lambda _: _binary(con), 3, clock),
            "http stored": _each(lambda _: client.sql(STORED), rounds, clock),
            "http new": _each(lambda n: client.sql(new_question(-2 - n)), rounds, clock),
            "http public": _each(lambda _: client.sql(PUBLIC), 3, clock),
        }
        con.execute(DESCRIBED)
        found["catalog"] = _each(lambda _: con.execute(DESCRIBED).fetchall(), rounds, clock)
    return found


def _binary(con: psycopg.Connection[Any]) -> list[Any]:
    with con.cursor(binary=True) as cursor:
        return cursor.execute(PUBLIC).fetchall()


def logins(server: Server, rounds: int) -> tuple[float, float]:
    """Measure a login: the server's processor time, and time, in seconds."""
    times = []
    server.connect().close()
    begun = server.processor
    for _ in range(rounds):
        start = time.perf_counter()
        server.connect().close()
        times.append(time.perf_counter() - start)
    return (server.processor - begun) / rounds, statistics.median(times)


def idle(server: Server) -> float:
    """Return the megabytes that connections take which do nothing."""
    before = server.memory
    with ExitStack() as stack:
        for number in range(IDLE):
            stack.enter_context(server.connect(ACCOUNTS[number % len(ACCOUNTS)]))
        return server.memory - before


def rate(
    connect: Callable[[str], Any],
    clients: int,
    ask: Callable[[Any, int], object],
    seconds: float,
) -> float:
    """Return answers per second of so many clients at once, on all accounts in turn."""
    counts = [0] * clients
    ready = threading.Barrier(clients + 1)
    stop = threading.Event()

    def work(number: int) -> None:
        with connect(ACCOUNTS[number % len(ACCOUNTS)]) as con:
            ask(con, number * 1_000_000 - 1)
            ready.wait()
            while not stop.is_set():
                ask(con, number * 1_000_000 + counts[number])
                counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    ready.wait()
    begun = time.perf_counter()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    stored, new, public = in_process(given.rows, given.rounds)
    with serving(given.rows) as server:
        wire = over_the_wire(server, given.rounds)
        login_cpu, login_time = logins(server, 50)
        memory = idle(server)
        fresh = secrets.randbelow(10**9) * 10**9

        def ask_stored(con: psycopg.Connection[Any], number: int) -> None:
            con.execute(STORED).fetchall()

        def ask_new(con: psycopg.Connection[Any], number: int) -> None:
            con.execute(new_question(fresh + number)).fetchall()

        def ask_stored_by_http(client: dpsql.RemoteConnection, number: int) -> None:
            client.sql(STORED)

        def ask_new_by_http(client: dpsql.RemoteConnection, number: int) -> None:
            client.sql(new_question(fresh + number))

        rates = {}
        asking: dict[str, tuple[Callable[[str], Any], Callable[[Any, int], object]]] = {
            "stored": (server.connect, ask_stored),
            "new": (server.connect, ask_new),
            "http stored": (server.client, ask_stored_by_http),
            "http new": (server.client, ask_new_by_http),
        }
        for name, (connect, ask) in asking.items():
            for clients in (1, 16):
                rates[f"{name}, {clients}"] = rate(connect, clients, ask, given.seconds)
                fresh += 10**8
    figures = {
        "stored answer, ms": (1e3 * stored, 1e3 * wire["stored"], 1e3 * wire["http stored"]),
        "new answer, ms": (1e3 * new, 1e3 * wire["new"], 1e3 * wire["http new"]),
        "value, µs": tuple(
            1e6 * each / VALUES
            for each in (public, wire["public"], wire["public, binary"], wire["http public"])
        ),
        "login, ms": (1e3 * login_cpu, 1e3 * login_time),
        "500 idle connections, MB": (memory,),
        "catalogs, ms": (1e3 * wire["catalog"],),
        **{f"answers per second: {name}": (found,) for name, found in rates.items()},
    }
    for name, values in figures.items():
        print(f"{name:34}", *(f"{value:10.3f}" for value in values))
    RESULTS.write_text(json.dumps({"rows": given.rows, **figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
