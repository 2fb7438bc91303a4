"""A PostgreSQL server of the tests' own: a new cluster on a free loopback port."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg


def binaries() -> Path | None:
    """The directory of initdb and postgres: ``DPSQL_POSTGRES``, or this machine's, if any."""
    chosen = os.environ.get("DPSQL_POSTGRES")
    if chosen:
        return Path(chosen)
    found = [os.path.dirname(os.path.realpath(shutil.which("postgres") or ""))]
    found += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    for directory in found:
        if directory and all((Path(directory) / name).exists() for name in ("initdb", "postgres")):
            return Path(directory)
    return None


@dataclass
class Server:
    """A server, whose superuser is ``dpsql``."""

    port: int
    password: str
    command: list[str]
    directory: Path
    user: str | None

    def start(self) -> None:
        """Run it, and wait until it answers."""
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.directory,
            user=self.user,
            extra_groups=None if self.user is None else [],
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        _wait(self)

    def crash(self) -> None:
        """End it at once: what it has in memory only is lost."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(60)

    def url(self, database: str, user: str = "dpsql", password: str = "") -> str:
        secret = password or self.password
        return f"postgresql://{user}:{secret}@127.0.0.1:{self.port}/{database}"

    def run(self, sql: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(sql.encode())

    def without_ledger(self) -> str:
        """The URL of a database that has no ledger; an earlier test's is dropped."""
        self.run("DROP SCHEMA IF EXISTS dpsql_ledger CASCADE")
        return self.url("postgres")


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server for the length of a block. PostgreSQL refuses to run as root: another user does."""
    where = binaries()
    assert where is not None
    user = _ordinary_user()
    directory = Path(tempfile.mkdtemp(prefix="dpsql-postgres-", dir="/tmp"))
    password = secrets.token_hex(16)
    try:
        secret = directory / "password"
        secret.write_text(password)
        secret.chmod(0o600)
        if user is not None:
            for path in (directory, secret):
                shutil.chown(path, user)
        data = directory / "data"
        create = (
            f"{where}/initdb --auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync -U dpsql"
        )
        _run([*create.split(), "-D", str(data), "--pwfile", str(secret)], user, directory)
        port = _free_port()
        serve = (
            f"{where}/postgres -p {port} -c listen_addresses=127.0.0.1 "
            "-c unix_socket_directories= -c max_connections=60 -c shared_buffers=32MB"
        )
        server = Server(port, password, [*serve.split(), "-D", str(data)], directory, user)
        try:
            server.start()
            yield server
        finally:
            server.crash()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _end_with_parent() -> None:
    """Have the kernel end this process when the tests are killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def _ordinary_user() -> str | None:
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _run(command: list[str], user: str | None, directory: Path) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=directory,
        user=user,
        extra_groups=None if user is None else [],
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: Server) -> None:
    until = time.monotonic() + 60
    while True:
        assert server.process.poll() is None, "the server ended at once"
        try:
            psycopg.connect(server.url("postgres"), connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.05)
