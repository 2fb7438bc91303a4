"""Messages and requests that nobody would send, in all states: the server answers, and lives on.

``DPSQL_FUZZ_CASES`` is how many messages and requests are sent; a failure prints the seed that
sends the same again.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from helpers.http_serving import HttpServing, filled_with_tokens, http_started
from helpers.serving import PASSWORD, Serving, ended, filled, started

CASES: Final = int(os.environ.get("DPSQL_FUZZ_CASES", "4000"))
SEED: Final = int(os.environ.get("DPSQL_FUZZ_SEED", str(secrets.randbits(32))))
BATCH: Final = 10  # messages before a Sync
STATEMENTS: Final = (
    "SELECT beds FROM wards",
    "SELECT ward, beds AS b FROM wards WHERE ward = $1",
    "EXPLAIN SELECT COUNT(*) AS n FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE cost > $1",
    "SELECT * FROM visits",
    "SHOW TABLES",
    "SET epsilon = 0.5",
    "RESET epsilon",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "DECLARE c CURSOR FOR SELECT ward FROM wards",
    "FETCH 1 FROM c",
    "CLOSE c",
    "COPY (SELECT ward FROM wards) TO STDOUT",
    "DISCARD ALL",
    "SELECT relname FROM pg_catalog.pg_class",
    "SET statement_timeout = '5s'",
    "",
    ";",
    "SELECT 1; SELECT 2",
    "\x01\ufeff SELECT",
    "SELECT '" + "a" * 3_000,
)
"""Statements of all kinds; the one that is paid for is the same whenever it has the same value."""

pytestmark = pytest.mark.slow


def frame(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def text(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass") + b"\0"


def sound_message(draw: random.Random) -> tuple[bytes, bytes]:
    """A message as a client may send it: kind and body."""
    name = draw.choice(["", "", "s", "c", "x" * 70])
    statement = draw.choice(STATEMENTS)
    number = draw.randrange(4)
    kind = draw.choice("PPBBDDEECQQQQHFpdcf")
    match kind:
        case "P":
            types = draw.choices([0, 23, 25, 701, 1082, 1700, 2**31 - 1], k=number)
            body = text(name) + text(statement) + struct.pack(f"!H{number}i", number, *types)
        case "B":
            body = text(name) + text(name) + struct.pack("!HH", 0, number)
            for value in draw.choices([None, b"a", b"\x00\x00\x00\x05", b"12.5"], k=number):
                body += struct.pack("!i", -1 if value is None else len(value)) + (value or b"")
            body += struct.pack("!Hh", 1, draw.choice([0, 1, 7]))
        case "D" | "C":
            body = draw.choice([b"S", b"P", b"X"]) + text(name)
        case "E":
            body = text(name) + struct.pack("!i", draw.choice([0, 1, -1, 2**31 - 1]))
        case "Q":
            body = text(statement)
        case _:
            body = draw.randbytes(draw.randrange(12))
    return kind.encode(), body


def mutated(draw: random.Random, body: bytes) -> bytes:
    """The same body, with something wrong about it."""
    found = bytearray(body)
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(found) + 1)
        match draw.randrange(4):
            case 0:
                found[place:place] = draw.randbytes(draw.randrange(1, 9))
            case 1:
                del found[place : place + draw.randrange(1, 9)]
            case 2 if found:
                found[place % len(found)] = draw.randrange(256)
            case _:
                found[place : place + 4] = struct.pack("!i", draw.choice([-1, 0, 2**31 - 1, -2]))
    return bytes(found)


def message(draw: random.Random) -> bytes:
    kind, body = sound_message(draw)
    if draw.random() < 0.4:
        body = mutated(draw, body)
    if draw.random() < 0.02:
        kind = bytes([draw.randrange(256)])
    return frame(kind, body)


def until_ready(con: socket.socket) -> bool:
    """Read to the end of an answer; False once the server has closed the connection."""
    found = b""
    while True:
        try:
            more = con.recv(1 << 16)
        except ConnectionError:
            return False
        if not more:
            return False
        found += more
        while len(found) >= 5:
            length = struct.unpack("!i", found[1:5])[0] + 1
            assert length >= 5, "a length that is none"
            if len(found) < length:
                break
            if found[:1] == b"Z" and len(found) == length:
                return True
            found = found[length:]


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    directory = tmp_path_factory.mktemp("wire")
    filled(directory)
    found = started(directory)
    yield found
    ended(found)


def test_an_error_is_told_at_once_and_what_came_before_it_first(wire: Serving) -> None:
    """PostgreSQL does not keep it until the client says Sync, which some say after an answer."""
    good = text("") + text("SELECT beds FROM wards") + struct.pack("!h", 0)
    bad = text("") + text("SELECT beds FROM nowhere") + struct.pack("!h", 0)
    describe = frame(b"D", b"S" + text(""))
    with wire.connect() as login, socket.socket(fileno=os.dup(login.pgconn.socket)) as con:
        con.settimeout(20)
        con.sendall(frame(b"P", good) + frame(b"P", bad) + describe)
        found = b""
        while b"unknown_table" not in found:
            more = con.recv(1 << 16)
            assert more, "the server has closed the connection"
            found += more
        parsed = frame(b"1", b"")
        assert found.startswith(parsed + parsed + b"E")
        con.sendall(frame(b"S", b""))
        assert until_ready(con)


def test_messages_of_all_kinds_after_a_login_are_answered(wire: Serving) -> None:
    draw = random.Random(SEED)
    sent = 0
    while sent < CASES:
        with wire.connect() as login, socket.socket(fileno=os.dup(login.pgconn.socket)) as con:
            con.settimeout(60)
            for _ in range(50):
                batch = b"".join(message(draw) for _ in range(BATCH))
                sent += BATCH
                try:
                    con.sendall(batch + frame(b"S", b""))
                except ConnectionError:
                    break
                if not until_ready(con):
                    break
        assert wire.process.poll() is None, f"DPSQL_FUZZ_SEED={SEED}"
    assert "Traceback" not in wire.log.read_text(), f"DPSQL_FUZZ_SEED={SEED}"
    with wire.connect() as con:
        con.execute("RESET epsilon")
        assert con.execute("SELECT beds FROM wards").fetchall() == [(3,)]


def startup(draw: random.Random) -> bytes:
    """The first bytes of a client."""
    version = draw.choice([196608, 196610, 131072, 80877103, 80877104, 80877102, 0, -1])
    words = b""
    for name in draw.sample(["user", "database", "options", "_pq_.x", "user", "replication"], 3):
        words += text(name) + text(draw.choice(["ana", "clinic", "-c x=y", "\u20ac" * 9, ""]))
    body = struct.pack("!i", version) + words + b"\0"
    if draw.random() < 0.5:
        body = mutated(draw, body)
    length = len(body) + 4 if draw.random() < 0.8 else draw.choice([0, 4, -5, 2**31 - 1, 10_001])
    return struct.pack("!i", length) + body


def test_bytes_of_all_kinds_before_a_login_end_in_an_error(wire: Serving) -> None:
    draw = random.Random(SEED)
    for _ in range(max(1, CASES // 20)):
        with socket.create_connection(("127.0.0.1", wire.port), timeout=60) as con:
            try:
                con.sendall(startup(draw))
                if draw.random() < 0.3:
                    con.sendall(message(draw))
                con.shutdown(socket.SHUT_WR)
                while con.recv(1 << 16):
                    continue
            except OSError:  # the server has closed it already
                continue
    assert wire.process.poll() is None, f"DPSQL_FUZZ_SEED={SEED}"
    assert "Traceback" not in wire.log.read_text(), f"DPSQL_FUZZ_SEED={SEED}"
    with psycopg.connect(wire.address("ana", PASSWORD)) as con:
        assert con.execute("SELECT beds FROM wards").fetchall() == [(3,)]


# -- over HTTP ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServing]:
    directory: Path = tmp_path_factory.mktemp("http")
    found = http_started(directory, filled_with_tokens(directory))
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()


ODD: Final[tuple[object, ...]] = (
    *(None, True, 0, -1, 1.5, 2**70, "", "x", "\x00", "\ud800", [], {}, [None], {"a": {}}),
    *([[]] * 3, "a" * 70_000, {"type": "date", "value": "2026-13-01"}, [1, "2", None]),
)


def value_of(draw: random.Random, schema: dict[str, Any], whole: dict[str, Any]) -> object:
    """A value that a schema allows, or nearly."""
    if draw.random() < 0.15:
        return draw.choice(ODD)
    if "$ref" in schema:
        return value_of(draw, whole["components"]["schemas"][schema["$ref"].split("/")[-1]], whole)
    if "anyOf" in schema:
        return value_of(draw, draw.choice(schema["anyOf"]), whole)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    makers: dict[str, Callable[[], object]] = {
        "object": lambda: {
            name: value_of(draw, part, whole)
            for name, part in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or draw.random() < 0.4
        },
        "array": lambda: [
            value_of(draw, schema.get("items", {}), whole) for _ in range(draw.randrange(3))
        ],
        "string": lambda: draw.choice(STATEMENTS),
        "integer": lambda: draw.choice([0, 1, -7, 2**63]),
        "number": lambda: draw.choice([0.5, -1.0, 1e300]),
        "boolean": lambda: draw.random() < 0.5,
    }
    return makers.get(schema.get("type", ""), lambda: None)()


def test_requests_of_all_kinds_are_answered_or_refused(http: HttpServing) -> None:
    draw = random.Random(SEED)
    document = http.ask("GET", "openapi.json", token=None).json
    routes = [
        (path.removeprefix("/v1/"), method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    for _ in range(max(1, CASES // 10)):
        path, method, operation = draw.choice(routes)
        path = path.replace("{name}", draw.choice(["visits", "nope", "%00", "a%2Fb"]))
        path = path.replace("{id}", draw.choice(["x", "%20", "a" * 100]))
        body: object = None
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = json.dumps(value_of(draw, schema, document), allow_nan=True).encode()
            if draw.random() < 0.2:
                body = mutated(draw, body)
        reply = http.ask(method, path, body, draw.choice(["ana", "ana", "ana", "bert"]))
        assert reply.status < 500 or reply.code == "server_busy", (SEED, method, path, body, reply)
        if reply.status >= 400:
            assert set(reply.json) >= {"code", "detail", "kind", "status", "title", "type"}
    assert "Traceback" not in http.log.read_text(), f"DPSQL_FUZZ_SEED={SEED}"
    assert http.ask("GET", "tables").status == 200
