"""libpq, the client of nearly everything that speaks PostgreSQL, logs in by our side of SCRAM.

The server is as small as a login needs it. The other way round, PostgreSQL itself takes our
verifiers for its own.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from helpers.certificates import Certificate, made

from dpsql.errors import OperationalError
from dpsql.server.people.certificates import end_point_binding
from dpsql.server.people.scram import ScramExchange, ScramVerifier

if TYPE_CHECKING:
    from helpers.postgresql_server import Server

PASSWORDS = [
    "correct horse battery",
    " spaces, commas=equals ",
    "\u2168 \u00ad\u00a0 e\u0301 \u00aa",
    "\u0627\u0628 right to left \u2168",
    "younger than 3.2: \U0001f40e\u2168",
    "a\u200bb\u2168",
    "\u0627\u0031\u0628\u2168"[:3],
]


class Login:
    """One connection's login, on a thread of its own; ``told`` is how it ended."""

    def __init__(self, verifier: ScramVerifier, tls: Certificate | None, hide: bool) -> None:
        self.verifier, self.tls, self.hide = verifier, tls, hide
        self.told = self.mechanism = ""

    def serve(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        connection, _ = listener.accept()
        with closing(connection):
            connection.settimeout(10)
            (size, code) = struct.unpack("!ii", read(connection, 8))
            if code == 80877103:  # whether there is TLS
                connection.sendall(b"S" if context else b"N")
                if context:
                    connection = context.wrap_socket(connection, server_side=True)
                (size, code) = struct.unpack("!ii", read(connection, 8))
            read(connection, size - 8)
            with closing(connection):
                self.talk(connection)

    def talk(self, connection: socket.socket) -> None:
        binding = end_point_binding(self.tls.der) if self.tls else None
        exchange = ScramExchange(self.verifier, allowed=True, binding=binding)
        # Who stands between could hide the better mechanism from the client.
        offered = exchange.mechanisms[-1:] if self.hide else exchange.mechanisms
        names = b"".join(name.encode() + b"\0" for name in offered)
        send(connection, 10, names + b"\0")
        name, _, rest = answer(connection).partition(b"\0")
        self.mechanism = name.decode()
        try:
            send(connection, 11, exchange.begin(self.mechanism, rest[4:]))
            send(connection, 12, exchange.finish(answer(connection)))
        except OperationalError as error:
            self.told = error.code
            fields = b"SFATAL\0C28P01\0M" + error.reason.encode() + b"\0\0"
            connection.sendall(b"E" + struct.pack("!i", len(fields) + 4) + fields)
            return
        self.told = "in"
        connection.sendall(struct.pack("!cii", b"R", 8, 0) + struct.pack("!ci", b"Z", 5) + b"I")
        connection.recv(100)


def read(connection: socket.socket, size: int) -> bytes:
    text = b""
    while len(text) < size:
        got = connection.recv(size - len(text))
        if not got:
            raise ConnectionError
        text += got
    return text


def answer(connection: socket.socket) -> bytes:
    kind, size = struct.unpack("!ci", read(connection, 5))
    assert kind == b"p"
    return read(connection, size - 4)


def send(connection: socket.socket, kind: int, text: bytes) -> None:
    connection.sendall(struct.pack("!cii", b"R", len(text) + 8, kind) + text)


@contextmanager
def server(login: Login, directory: Path) -> Iterator[int]:
    context = None
    if login.tls is not None:
        (directory / "key.pem").write_bytes(login.tls.pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        thread = threading.Thread(target=login.serve, args=(listener, context))
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


def logged_in(login: Login, directory: Path, password: str, **options: str) -> str:
    """``in``, as the server told it, or what libpq says instead."""
    with server(login, directory) as port:
        given = {"host": "127.0.0.1", "port": str(port), "user": "ana", "dbname": "clinic"}
        place = psycopg.conninfo.make_conninfo(
            "", **given, **options, password=password, connect_timeout="10", gssencmode="disable"
        )
        try:
            psycopg.connect(place).close()
        except psycopg.OperationalError as error:
            return str(error)
    return login.told


@pytest.mark.parametrize("password", PASSWORDS)
def test_libpq_prepares_passwords_as_we_do(password: str, tmp_path: Path) -> None:
    login = Login(ScramVerifier.of_password(password, 4096), None, False)
    assert logged_in(login, tmp_path, password, sslmode="disable") == "in"
    wrong = Login(ScramVerifier.of_password(password, 4096), None, False)
    assert "the login failed" in logged_in(wrong, tmp_path, password + "!", sslmode="disable")
    assert wrong.told == "login_failed"


def test_libpq_binds_a_login_to_the_certificate(tmp_path: Path) -> None:
    verifier = ScramVerifier.of_password("correct horse", 4096)
    for kind, hashed in (("ec", "sha256"), ("ec", "sha384"), ("rsa", "sha512")):
        login = Login(verifier, made(kind, hashed), False)
        options = {"sslmode": "require", "channel_binding": "require"}
        assert logged_in(login, tmp_path, "correct horse", **options) == "in"
        assert login.mechanism == "SCRAM-SHA-256-PLUS"


def test_libpq_does_without_where_binding_is_not_agreed_on(tmp_path: Path) -> None:
    login = Login(
        ScramVerifier.of_password("correct horse", 4096), made("rsa-pss", "sha256"), False
    )
    assert (
        logged_in(login, tmp_path, "correct horse", sslmode="require", channel_binding="prefer")
        == "in"
    )
    assert login.mechanism == "SCRAM-SHA-256"


def test_libpq_and_we_notice_a_downgrade(tmp_path: Path) -> None:
    login = Login(ScramVerifier.of_password("correct horse", 4096), made("ec", "sha256"), True)
    assert "the login failed" in logged_in(login, tmp_path, "correct horse", sslmode="require")
    assert (login.mechanism, login.told) == ("SCRAM-SHA-256", "login_failed")


@pytest.mark.slow
def test_postgresql_takes_our_verifiers_for_its_own(postgres_server: Server) -> None:
    for i, password in enumerate(PASSWORDS):
        verifier = ScramVerifier.of_password(password, 4096).text()
        postgres_server.run(f"CREATE ROLE scram_{i} LOGIN PASSWORD '{verifier}'")
        place = f"host=127.0.0.1 port={postgres_server.port} dbname=postgres user=scram_{i}"
        with psycopg.connect(place, password=password) as connection:
            found = connection.execute("SELECT current_user").fetchone()
        assert found == (f"scram_{i}",)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(place, password=password + "!")
        postgres_server.run(f"DROP ROLE scram_{i}")
