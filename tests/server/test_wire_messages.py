"""Messages of clients are what was written, or one error; those of the server have lengths."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.server.wire import messages
from dpsql.server.wire.messages import (
    BindMessage,
    CancelMessage,
    CloseMessage,
    DescribeMessage,
    ExecuteMessage,
    GssapiMessage,
    ParseMessage,
    ProtocolError,
    QueryMessage,
    StartupMessage,
    TlsMessage,
    WireColumn,
)

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
OIDS = st.integers(-(2**31), 2**31 - 1)
CODES = st.lists(st.sampled_from([0, 1]), max_size=4).map(tuple)
VALUES = st.lists(st.none() | st.binary(max_size=9), max_size=5).map(tuple)
KINDS = [bytes([kind]) for kind in range(256)]


def text(word: str) -> bytes:
    return word.encode() + b"\0"


def numbers(form: str, found: tuple[int, ...]) -> bytes:
    return struct.pack(f"!H{len(found)}{form}", len(found), *found)


def written_bind(bind: BindMessage) -> bytes:
    values = (
        b"\xff\xff\xff\xff" if v is None else struct.pack("!i", len(v)) + v for v in bind.values
    )
    count = struct.pack("!H", len(bind.values))
    head = text(bind.portal) + text(bind.statement) + numbers("h", bind.formats)
    return head + count + b"".join(values) + numbers("h", bind.results)


@pytest.mark.slow
@given(WORDS, WORDS, st.lists(OIDS, max_size=5).map(tuple))
def test_a_statement_to_prepare_is_read(name: str, sql: str, types: tuple[int, ...]) -> None:
    body = text(name) + text(sql) + numbers("i", types)
    assert messages.read_message(b"P", body) == ParseMessage(name, sql, types)


@pytest.mark.slow
@given(WORDS, WORDS, CODES, VALUES, CODES)
def test_values_are_read(
    portal: str,
    statement: str,
    formats: tuple[int, ...],
    values: tuple[bytes | None, ...],
    results: tuple[int, ...],
) -> None:
    bind = BindMessage(portal, statement, formats, values, results)
    assert messages.read_message(b"B", written_bind(bind)) == bind


@given(WORDS, st.integers(0, 2**31 - 1))
def test_small_messages_are_read(name: str, rows: int) -> None:
    assert messages.read_message(b"Q", text(name)) == QueryMessage(name)
    assert messages.read_message(b"E", text(name) + struct.pack("!i", rows)) == ExecuteMessage(
        name, rows
    )
    assert messages.read_message(b"D", b"P" + text(name)) == DescribeMessage(portal=True, name=name)
    assert messages.read_message(b"C", b"S" + text(name)) == CloseMessage(portal=False, name=name)


@pytest.mark.slow
@given(st.dictionaries(WORDS.filter(bool), WORDS, max_size=4), st.integers(0, 2))
def test_first_messages_are_read(parameters: dict[str, str], minor: int) -> None:
    pairs = b"".join(text(name) + text(value) for name, value in parameters.items())
    body = struct.pack("!i", messages.PROTOCOL_VERSION + minor) + pairs + b"\0"
    assert messages.read_first(body) == StartupMessage(parameters, minor)
    assert messages.read_first(struct.pack("!i", 80877103)) == TlsMessage()
    assert messages.read_first(struct.pack("!i", 80877104)) == GssapiMessage()
    assert messages.read_first(struct.pack("!ii", 80877102, 7) + b"keys") == CancelMessage(
        7, b"keys"
    )


@pytest.mark.parametrize("length", [0, 3, 7, 10_009, 2**31])
def test_a_first_message_of_another_length_is_none(length: int) -> None:
    with pytest.raises(ProtocolError):
        messages.first_length(struct.pack("!I", length))


def test_a_message_has_a_longest_length() -> None:
    assert messages.next_length(b"Q" + struct.pack("!i", 104), 100) == 100
    for length in (105, 3, 2**31 - 1):
        with pytest.raises(ProtocolError):
            messages.next_length(b"Q" + struct.pack("!I", length), 100)


@given(st.sampled_from(KINDS), st.binary(max_size=40))
def test_other_bytes_are_one_error(kind: bytes, body: bytes) -> None:
    with suppress(ProtocolError):
        messages.read_message(kind, body)
    with suppress(ProtocolError):
        messages.read_first(body)


BIND = BindMessage("p", "s", (0,), (b"1", None), (1,))
WHOLE: dict[bytes, bytes] = {
    b"P": text("s") + text("SELECT 1") + numbers("i", (23,)),
    b"B": written_bind(BIND),
    b"E": text("p") + struct.pack("!i", 0),
    b"Q": text("SELECT 1"),
    b"D": b"S" + text("s"),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_message_that_ends_early_or_late_is_refused(kind: bytes) -> None:
    messages.read_message(kind, WHOLE[kind])
    for end in range(len(WHOLE[kind])):
        with pytest.raises(ProtocolError):
            messages.read_message(kind, WHOLE[kind][:end])
    with pytest.raises(ProtocolError):
        messages.read_message(kind, WHOLE[kind] + b"\0")


ANSWERS: dict[str, Callable[[], bytes]] = {
    "columns": lambda: messages.row_description(
        [WireColumn("a", 23, 4), WireColumn("b", 25, -1)], [0, 1]
    ),
    "types": lambda: messages.parameter_description([23, 25]),
    "error": lambda: messages.error({"S": "ERROR", "C": "42601", "M": "no\0body"}),
    "ready": lambda: messages.ready_for_query(b"T"),
    "tag": lambda: messages.complete("SELECT 3"),
    "copy": lambda: messages.copy_out(2, 1),
    "mechanisms": lambda: messages.sasl_offered(["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]),
    "version": lambda: messages.negotiated(0, ["_pq_.x"]),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_the_server_says_has_its_length(name: str) -> None:
    written = ANSWERS[name]()
    assert struct.unpack("!i", written[1:5]) == (len(written) - 1,)


def test_rows_are_written_one_after_another() -> None:
    one, null = struct.pack("!i", 1) + b"x", struct.pack("!i", -1)
    row = b"D" + struct.pack("!ih", 6 + len(one + null), 2) + one + null
    assert messages.data_rows([[one, one], [null, null]]) == row * 2
