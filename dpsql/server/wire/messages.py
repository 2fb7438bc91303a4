"""Messages of the PostgreSQL protocol as bytes: nothing here reads a socket or waits.

What a client sends is parsed into frozen values, within limits on its length; what the server sends
is written. Source: PostgreSQL's documentation, chapter "Frontend/Backend Protocol". Checked by
``tests/server/test_wire_messages.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

PROTOCOL_VERSION: Final = 3 << 16
"""The protocol's version 3.0, as a startup packet has it."""
_CANCEL: Final = 80877102
_TLS: Final = 80877103
_GSSAPI: Final = 80877104

MOST_AT_START: Final = 10_000
"""The longest message before a client has said who it is, in bytes."""
MOST: Final = 4_000_000
"""The longest message after that, in bytes."""
_MOST_PARAMETERS: Final = 65_535


class ProtocolError(Exception):
    """Raised for bytes that are no message of a client.

    ``sqlstate`` is the code that the client is told.
    """

    def __init__(self, text: str, sqlstate: str = "08P01") -> None:
        super().__init__(text)
        self.text = text
        self.sqlstate = sqlstate


# -- what a client sends ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartupMessage:
    """The first message of a session: its parameters, and the minor version of the protocol."""

    parameters: Mapping[str, str]
    minor: int


@dataclass(frozen=True, slots=True)
class TlsMessage:
    """The question whether the connection can be encrypted."""


@dataclass(frozen=True, slots=True)
class GssapiMessage:
    """The question whether the connection can be encrypted by GSSAPI."""


@dataclass(frozen=True, slots=True)
class CancelMessage:
    """The wish to stop the statement of another connection, with the key of that."""

    process: int
    key: bytes


@dataclass(frozen=True, slots=True)
class PasswordMessage:
    """A password, or words of SASL."""

    body: bytes


@dataclass(frozen=True, slots=True)
class QueryMessage:
    """SQL text of any number of statements."""

    text: str


@dataclass(frozen=True, slots=True)
class ParseMessage:
    """A statement to prepare under a name; ``types`` are the OIDs of its first parameters."""

    name: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BindMessage:
    """Values for a prepared statement, which becomes a portal.

    ``formats`` and ``results`` are 0 for text and 1 for binary: none, one for all, or one each.
    """

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribeMessage:
    """A question for the columns of a statement (``portal`` False) or a portal."""

    portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class ExecuteMessage:
    """The wish for rows of a portal, all of them if ``rows`` is 0."""

    portal: str
    rows: int


@dataclass(frozen=True, slots=True)
class CloseMessage:
    """The end of a statement (``portal`` False) or a portal."""

    portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class SyncMessage:
    """The end of a batch of messages: what went wrong in it is over."""


@dataclass(frozen=True, slots=True)
class FlushMessage:
    """The wish to be sent what is ready."""


@dataclass(frozen=True, slots=True)
class TerminateMessage:
    """The end of the session."""


@dataclass(frozen=True, slots=True)
class CopyMessage:
    """A message of a COPY from the client, which no statement here asks for."""


@dataclass(frozen=True, slots=True)
class CallMessage:
    """A call of a function by its OID: nothing here has one."""


First: TypeAlias = StartupMessage | TlsMessage | GssapiMessage | CancelMessage
Frontend: TypeAlias = (
    PasswordMessage
    | QueryMessage
    | ParseMessage
    | BindMessage
    | DescribeMessage
    | ExecuteMessage
    | CloseMessage
    | SyncMessage
    | FlushMessage
    | TerminateMessage
    | CopyMessage
    | CallMessage
)


class _Body:
    """The bytes of a message, taken from the front. Raises ``ProtocolError`` where they end."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._body):
            raise ProtocolError("a message is shorter than it says")
        found = self._body[self._at : end]
        self._at = end
        return found

    def text(self) -> str:
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError("a text in a message has no end")
        found = self._body[self._at : end]
        self._at = end + 1
        return utf8(found)

    def small(self) -> int:
        return int.from_bytes(self.take(2))

    def integer(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def value(self) -> bytes | None:
        length = self.integer()
        return None if length == -1 else self.take(length)

    def codes(self) -> tuple[int, ...]:
        """Take formats: a number of them, then each."""
        found = tuple(self.small() for _ in range(self.small()))
        if not set(found) <= {0, 1}:
            raise ProtocolError("a format is neither text nor binary")
        return found

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._at)

    def end(self) -> None:
        if self._at != len(self._body):
            raise ProtocolError("a message is longer than what it has to say")


def utf8(text: bytes) -> str:
    """Read text of a client. Raises ``ProtocolError`` for what is no UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        pass
    # Outside the handler, so that its context quotes nothing.
    raise ProtocolError("a text is no UTF-8", "22021")


def first_length(head: bytes) -> int:
    """Return how many bytes the first message of a connection still has after these four.

    Raises ``ProtocolError`` if they are too many, or too few for any.
    """
    length = int.from_bytes(head) - 4
    if not 4 <= length <= MOST_AT_START:
        raise ProtocolError("this is no first message of a client")
    return length


def read_first(body: bytes) -> First:
    """Parse the first message of a connection, without its length."""
    rest = _Body(body)
    code = rest.integer()
    if code == _TLS:
        rest.end()
        return TlsMessage()
    if code == _GSSAPI:
        rest.end()
        return GssapiMessage()
    if code == _CANCEL:
        return CancelMessage(rest.integer(), rest.rest())
    major, minor = divmod(code, 1 << 16)
    if major != PROTOCOL_VERSION >> 16:
        raise ProtocolError("clients speak version 3 of the protocol here", "0A000")
    parameters: dict[str, str] = {}
    while name := rest.text():
        parameters[name] = rest.text()
    rest.end()
    return StartupMessage(parameters, minor)


def next_length(head: bytes, most: int) -> int:
    """Return how many bytes a message still has after its kind and its length, these five bytes.

    Raises ``ProtocolError`` if it has more than ``most``.
    """
    length = int.from_bytes(head[1:]) - 4
    if not 0 <= length <= most:
        raise ProtocolError("a message is too long", "54000")
    return length


def read_message(kind: bytes, body: bytes) -> Frontend:
    """Parse a message after the first one, of this kind. Raises ``ProtocolError``."""
    rest = _Body(body)
    found = _of_kind(kind, rest)
    rest.end()
    return found


def _of_kind(kind: bytes, rest: _Body) -> Frontend:
    match kind:
        case b"p":
            return PasswordMessage(rest.rest())
        case b"Q":
            return QueryMessage(rest.text())
        case b"P":
            name, text = rest.text(), rest.text()
            return ParseMessage(name, text, tuple(rest.integer() for _ in range(rest.small())))
        case b"B":
            portal, statement, formats = rest.text(), rest.text(), rest.codes()
            values = tuple(rest.value() for _ in range(rest.small()))
            return BindMessage(portal, statement, formats, values, rest.codes())
        case b"D" | b"C":
            which = rest.take(1)
            if which not in (b"S", b"P"):
                raise ProtocolError("it is neither a statement nor a portal")
            named = DescribeMessage if kind == b"D" else CloseMessage
            return named(which == b"P", rest.text())
        case b"E":
            return ExecuteMessage(rest.text(), max(0, rest.integer()))
        case b"S":
            return SyncMessage()
        case b"H":
            return FlushMessage()
        case b"X":
            return TerminateMessage()
        case b"d" | b"c" | b"f":
            rest.rest()
            return CopyMessage()
        case b"F":
            rest.rest()
            return CallMessage()
    raise ProtocolError("there is no message of this kind")


def read_sasl_initial(body: bytes) -> tuple[str, bytes]:
    """Parse the first answer of SASL: the mechanism, and the client's first words."""
    rest = _Body(body)
    mechanism = rest.text()
    words = rest.value()
    rest.end()
    return mechanism, words or b""


# -- what the server sends ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column of an answer, as the protocol describes it: ``size`` is -1 where it varies."""

    name: str
    type: int
    size: int
    modifier: int = -1


def _message(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return kind + struct.pack("!i", len(body) + 4) + body


def _text(text: str) -> bytes:
    """Write a text, which ends at its first zero byte: none is in it."""
    return text.replace("\0", "").encode(errors="replace") + b"\0"


REFUSES_TLS: Final = b"N"
ACCEPTS_TLS: Final = b"S"
AUTHENTICATED: Final = _message(b"R", struct.pack("!i", 0))
PARSED: Final = _message(b"1")
BOUND: Final = _message(b"2")
CLOSED: Final = _message(b"3")
NO_DATA: Final = _message(b"n")
SUSPENDED: Final = _message(b"s")
EMPTY_QUERY: Final = _message(b"I")
COPY_DONE: Final = _message(b"c")


def sasl_offered(mechanisms: Sequence[str]) -> bytes:
    """Write the request to authenticate by one of these mechanisms."""
    return _message(b"R", struct.pack("!i", 10), *map(_text, mechanisms), b"\0")


def sasl_words(words: bytes, *, final: bool = False) -> bytes:
    """Write the server's words in SASL, its last ones if ``final``."""
    return _message(b"R", struct.pack("!i", 12 if final else 11), words)


def negotiated(minor: int, unknown: Sequence[str]) -> bytes:
    """Write the answer to a newer version: the minor version spoken, and options not known."""
    return _message(b"v", struct.pack("!ii", minor, len(unknown)), *map(_text, unknown))


def parameter_status(name: str, value: str) -> bytes:
    """Write the value of a setting of the session."""
    return _message(b"S", _text(name), _text(value))


def key_data(process: int, key: bytes) -> bytes:
    """Write what a client needs to cancel."""
    return _message(b"K", struct.pack("!i", process), key)


def ready_for_query(status: bytes) -> bytes:
    """Write that the next statement can come: ``I``, in a transaction ``T``, failed ``E``."""
    return _message(b"Z", status)


def row_description(fields: Sequence[WireColumn], formats: Sequence[int]) -> bytes:
    """Write the columns of the rows that follow."""
    parts = [struct.pack("!h", len(fields))]
    for field, format_ in zip(fields, formats, strict=True):
        parts.append(_text(field.name))
        parts.append(struct.pack("!ihihih", 0, 0, field.type, field.size, field.modifier, format_))
    return _message(b"T", *parts)


def parameter_description(types: Sequence[int]) -> bytes:
    """Write the types of a statement's parameters."""
    return _message(b"t", struct.pack(f"!H{len(types)}i", len(types), *types))


def data_rows(columns: Sequence[Sequence[bytes]]) -> bytes:
    """Write rows; each column has its values with their lengths before them."""
    count = struct.pack("!h", len(columns))
    pack = struct.Struct("!i").pack
    rows = (b"".join(row) for row in zip(*columns, strict=True))
    return b"".join(b"D" + pack(len(row) + 6) + count + row for row in rows)


def empty_rows(number: int) -> bytes:
    """Write rows without columns."""
    return _message(b"D", b"\0\0") * number


def complete(tag: str) -> bytes:
    """Write that a statement is done."""
    return _message(b"C", _text(tag))


def copy_out(columns: int, format_: int) -> bytes:
    """Write that a COPY to the client follows."""
    codes = struct.pack(f"!{columns}h", *[format_] * columns)
    return _message(b"H", struct.pack("!bh", format_, columns), codes)


def copy_data(data: bytes) -> bytes:
    """Write a part of a COPY."""
    return _message(b"d", data)


def _fields(fields: Iterable[tuple[str, str]]) -> Iterable[bytes]:
    for code, value in fields:
        yield code.encode() + _text(value)
    yield b"\0"


def error(fields: Mapping[str, str]) -> bytes:
    """Write an error: its fields by their letters, as ``C`` for the SQLSTATE."""
    return _message(b"E", *_fields(fields.items()))


def notice(fields: Mapping[str, str]) -> bytes:
    """Write a notice, with fields as those of an error."""
    return _message(b"N", *_fields(fields.items()))
