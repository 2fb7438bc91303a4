"""Requests to a server, on the standard library alone.

A server is believed nothing but its words: no redirect is followed, nothing of a reply is run, an
error has one of dpsql's own classes or none. A token goes to the one address that was given, and
without encryption to this machine alone.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import re
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from dpsql import errors
from dpsql.core.codes import CODES
from dpsql.core.formatting import printable
from dpsql.errors import InterfaceError, OperationalError, Place

MOST_REPLY: Final = 1 << 29
"""The most bytes of a reply that are read."""
USUAL_SECONDS: Final = 600.0
_SECONDS_IDLE: Final = 3.0  # a server waits for five
_MOST_IDLE: Final = 4
HTTP_PORT: Final = 8439
TOKEN_VARIABLE: Final = "DPSQL_TOKEN"  # noqa: S105 - a name
"""The environment variable that the command line and notebooks read a token from."""
_PROBLEM: Final = "application/problem+json"
_SCHEMES: Final = ("http://", "https://")


def is_server_address(database: object) -> bool:
    """Tell whether this is the address of a server, and no database: files have a path."""
    if not isinstance(database, str) or not database.lower().startswith(_SCHEMES):
        return False
    return _split(database) is not None


class IdleConnections:
    """The connections of the last moment, for the next requests. Safe for threads.

    A request is never sent twice, as it may be paid for twice. So what the server may be about to
    close is not used again, nor a connection that another process has as well.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[http.client.HTTPConnection, float, int]] = deque()

    def take(self, seconds: float) -> http.client.HTTPConnection | None:
        """Take a connection, with a time limit; None if there is none."""
        while True:
            try:
                connection, left, process = self._kept.pop()
            except IndexError:
                return None
            young = time.monotonic() - left < _SECONDS_IDLE
            if young and process == os.getpid() and _quiet(connection.sock):
                connection.sock.settimeout(seconds)
                return connection
            connection.close()

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection after its reply, and close the oldest ones beyond a number."""
        self._kept.append((connection, time.monotonic(), os.getpid()))
        if len(self._kept) > _MOST_IDLE:
            with suppress(IndexError):
                self._kept.popleft()[0].close()

    def close(self) -> None:
        """Close all."""
        with suppress(IndexError):
            while True:
                self._kept.pop()[0].close()

    def __del__(self) -> None:
        self.close()


def _quiet(sock: socket.socket | None) -> bool:
    """Tell whether a connection is open, and nothing has come that nobody asked for."""
    if sock is None:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return not selector.select(0)


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server's address with a token for it, and the certificate that its own is checked by.

    ``account`` is the one that pays, the token's usual one if empty.
    """

    host: str
    port: int
    secure: ssl.SSLContext | None
    token: str = field(repr=False)
    account: str = ""
    seconds: float = USUAL_SECONDS
    idle: IdleConnections = field(default_factory=IdleConnections, repr=False, compare=False)

    @classmethod
    def at(
        cls,
        address: str,
        token: str,
        account: str = "",
        certificate: str | None = None,
        seconds: float = USUAL_SECONDS,
    ) -> RemoteServer:
        """Read an address. Raises ``InterfaceError`` for one that a token must not be sent to."""
        found = _split(address)
        if found is None or found.hostname is None:
            raise InterfaceError(
                "this is no address of a server",
                code="bad_address",
                hint="Write https://host:8439 and nothing behind it; the token is an argument.",
            )
        if re.fullmatch(r"[!-~]{1,8192}", token) is None:
            raise InterfaceError(
                "this is no token",
                code="token_missing",
                hint="Give token=…, as `dpsql user token` has shown it once.",
            )
        if re.fullmatch(r"[\x20-\x7e\xa0-\xff]*", account) is None:
            raise InterfaceError("this is no account", code="bad_address")
        secure = None
        if found.scheme == "https":
            wrong = False
            try:
                secure = ssl.create_default_context(cafile=certificate)
            except OSError:
                wrong = True
            if wrong:
                raise InterfaceError(
                    "the certificate cannot be used",
                    code="bad_certificate",
                    hint="Give a file of PEM with the certificates to trust.",
                )
        elif certificate is not None:
            raise InterfaceError(
                "without encryption there is no certificate to check",
                code="bad_certificate",
                hint="Write https://, or leave the file of certificates out.",
            )
        elif not _is_here(found.hostname):
            raise InterfaceError(
                "without encryption a token is sent to no other machine",
                code="plaintext_refused",
                hint="Write https://, or http://127.0.0.1 for a server on this machine.",
            )
        return cls(found.hostname, found.port or HTTP_PORT, secure, token, account, seconds)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Make a request and return its reply. Raises a ``dpsql.Error``, the server's own, too."""
        headers = {"authorization": f"Bearer {self.token}", "accept": "application/json"}
        if self.account:
            headers["dpsql-account"] = self.account
        data = None
        if body is not None:
            headers["content-type"] = "application/json"
            data = json.dumps(body, allow_nan=False).encode()
        status, kind, found = self._asked(method, path, data, headers, seconds)
        if status == 204:
            return {}
        reply = _parsed(found)
        if status != 200 or kind != "application/json":
            raise _error_of(reply if kind == _PROBLEM else {}, str((body or {}).get("sql", "")))
        return reply

    def close(self) -> None:
        """Close the connections that wait for another request."""
        self.idle.close()

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        if self.secure is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        return http.client.HTTPSConnection(
            self.host, self.port, timeout=seconds, context=self.secure
        )

    def _asked(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
        seconds: float | None,
    ) -> tuple[int, str, bytes]:
        reason = ""
        wait = self.seconds if seconds is None else seconds
        connection, kept = self.idle.take(wait) or self._connection(wait), False
        try:
            connection.request(method, f"/v1/{path}", data, headers)
            response = connection.getresponse()
            kind = response.headers.get_content_type()
            found = response.read(MOST_REPLY + 1)
            if len(found) <= MOST_REPLY:
                kept = not response.will_close
                if kept:
                    self.idle.keep(connection)
                return response.status, kind, found
            reason = "its reply is too large"
        except ssl.SSLCertVerificationError:
            reason = "its certificate is not trusted"
        except TimeoutError:
            reason = "it has not answered in time"
        except (OSError, http.client.HTTPException):
            reason = "the connection failed"
        finally:
            if not kept:
                connection.close()
        raise OperationalError(
            f"the server cannot be reached: {reason}",
            code="server_not_reached",
            hint="If it was asked a question, that may have been answered: asked again, it is free "
            "then.",
        )


def bad_reply() -> OperationalError:
    """Return the error of a reply that is not one of dpsql's."""
    return OperationalError(
        "the reply is not one of a dpsql server",
        code="bad_reply",
        hint="Another program may answer at this address, or a server of another version.",
    )


def _split(address: str) -> SplitResult | None:
    with suppress(ValueError):
        found = urlsplit(address.strip())
        plain = found.username is None and found.password is None and found.path in ("", "/", "/v1")
        if plain and not found.query and not found.fragment and (found.port or 1) > 0:
            return found
    return None


def _is_here(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise bad_reply()
    return found


def _error_of(found: Mapping[str, Any], statement: str) -> errors.Error:
    """Return the error that a server has told, of its class; its words are made printable."""
    code, detail = found.get("code"), found.get("detail")
    if not isinstance(code, str) or not isinstance(detail, str):
        return bad_reply()
    code, detail = printable(code, 60), printable(detail, 2_000)
    hint = found.get("hint")
    hint = printable(hint, 2_000) if isinstance(hint, str) else None
    known = CODES.get(code)
    kind = OperationalError if known is None else known.kind
    if issubclass(kind, errors.BudgetExceeded):
        asked = _pair(found.get("requested")) or (0.0, 0.0)
        remaining = _pair(found.get("remaining"))
        return kind(detail, remaining=remaining, requested=asked, hint=hint)
    error = kind(detail, code=code, hint=hint)
    error.place = _place(found.get("line"), found.get("column"), statement)
    return error


def _pair(found: object) -> tuple[float, float] | None:
    if isinstance(found, list) and len(found) == 2:
        one, other = found
        if isinstance(one, int | float) and isinstance(other, int | float):
            return float(one), float(other)
    return None


def _place(line: object, column: object, statement: str) -> Place | None:
    """Return a place in a statement of ours, if it is one."""
    if not isinstance(line, int) or not isinstance(column, int):
        return None
    lines = statement.split("\n")
    if not (0 < line <= len(lines) and 0 < column <= len(lines[line - 1]) + 1):
        return None
    return Place(line, column, 1, lines[line - 1])
