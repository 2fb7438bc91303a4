"""SCRAM-SHA-256: the RFC's example, attacks on a login, and that nobody learns who exists."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.scram_client import ScramClient as Client
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import InterfaceError, OperationalError
from dpsql.server.people.scram import (
    LEAST_ITERATIONS,
    SCRAM,
    SCRAM_PLUS,
    USUAL_ITERATIONS,
    ScramExchange,
    ScramVerifier,
)

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
pytestmark = pytest.mark.few(20)  # all of them: they are quick

PENCIL = ScramVerifier.of_password("pencil", LEAST_ITERATIONS, SALT)
MOCK = ScramVerifier.mock(b"k" * 32, "mallory", LEAST_ITERATIONS)
BINDING = b"b" * 32
END_POINT = "p=tls-server-end-point,,"


def log_in(client: Client, exchange: ScramExchange, mechanism: str = SCRAM) -> bytes:
    return exchange.finish(client.last(exchange.begin(mechanism, client.first())))


def test_the_example_of_rfc_7677() -> None:
    exchange = ScramExchange(PENCIL, allowed=True, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.mechanisms == ("SCRAM-SHA-256",)
    nonce = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = exchange.begin(SCRAM, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    last = exchange.finish(b"c=biws," + nonce + b"," + proof)
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.succeeded


def test_a_client_of_another_code_logs_in_and_knows_the_server() -> None:
    client, exchange = Client("pencil"), ScramExchange(PENCIL, allowed=True)
    assert log_in(client, exchange) == b"v=" + b64encode(client.expected)
    assert exchange.succeeded


def test_the_wrong_password_is_refused() -> None:
    exchange = ScramExchange(PENCIL, allowed=True)
    with fails_with("login_failed"):
        log_in(Client("pencils"), exchange)
    assert not exchange.succeeded


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("password", ["", "pencil", "mallory"])
def test_mallory_with_an_empty_password_is_refused(password: str, allowed: bool) -> None:
    """Nobody has the name. Not even a mistake that allowed it would let anybody in."""
    with fails_with("login_failed"):
        log_in(Client(password), ScramExchange(MOCK, allowed=allowed))


def test_a_server_that_made_up_a_password_would_let_mallory_in() -> None:
    """What the test above would notice."""
    hole = ScramVerifier.of_password("", LEAST_ITERATIONS)
    log_in(Client(""), ScramExchange(hole, allowed=True))
    with fails_with("login_failed"):
        log_in(Client(""), ScramExchange(hole, allowed=False))


def test_who_is_not_allowed_is_refused_with_the_right_password() -> None:
    with fails_with("login_failed"):
        log_in(Client("pencil"), ScramExchange(PENCIL, allowed=False))


def test_a_replayed_proof_is_refused() -> None:
    client, exchange = Client("pencil"), ScramExchange(PENCIL, allowed=True)
    heard = client.last(exchange.begin(SCRAM, client.first()))
    exchange.finish(heard)
    with fails_with("login_failed"):  # in the same exchange
        exchange.finish(heard)
    assert not exchange.succeeded
    later = ScramExchange(PENCIL, allowed=True)
    nonce = later.begin(SCRAM, client.first()).split(b",")[0]
    with fails_with("login_failed"):
        later.finish(heard)
    again = ScramExchange(PENCIL, allowed=True)
    nonce = again.begin(SCRAM, client.first()).split(b",")[0]
    with fails_with("login_failed"):  # the old proof below the new nonce
        again.finish(b"c=biws," + nonce + b",p=" + heard.rpartition(b",p=")[2])


@pytest.mark.parametrize("change", [lambda r: r + "x", lambda r: r[:-1], lambda r: r[:24]])
def test_the_wrong_nonce_is_refused(change: Callable[[str], str]) -> None:
    client, exchange = Client("pencil"), ScramExchange(PENCIL, allowed=True)
    first = exchange.begin(SCRAM, client.first())
    nonce = first.decode().split(",")[0].removeprefix("r=")
    with fails_with("login_failed"):  # though the proof fits it
        exchange.finish(client.last(first, r=change(nonce)))


def test_nonces_are_never_the_same() -> None:
    seen = {ScramExchange(PENCIL, allowed=True).begin(SCRAM, b"n,,n=,r=a") for _ in range(50)}
    assert len(seen) == 50


def test_a_login_is_bound_to_the_certificate() -> None:
    exchange = ScramExchange(PENCIL, allowed=True, binding=BINDING)
    assert exchange.mechanisms == ("SCRAM-SHA-256-PLUS", "SCRAM-SHA-256")
    log_in(Client("pencil", END_POINT, BINDING), exchange, SCRAM_PLUS)
    assert exchange.succeeded
    for header, binding in ((END_POINT, b"c" * 32), (END_POINT, b""), (END_POINT, BINDING + b"b")):
        with fails_with("login_failed"):
            client = Client("pencil", header, binding)
            log_in(client, ScramExchange(PENCIL, allowed=True, binding=BINDING), SCRAM_PLUS)


def test_a_downgrade_is_noticed() -> None:
    """The client can bind, and did not see that the server can: somebody between hid it."""
    with fails_with("login_failed"):
        log_in(Client("pencil", "y,,"), ScramExchange(PENCIL, allowed=True, binding=BINDING))
    log_in(Client("pencil", "y,,"), ScramExchange(PENCIL, allowed=True))
    # A client that cannot bind at all is let in.
    log_in(Client("pencil", "n,,"), ScramExchange(PENCIL, allowed=True, binding=BINDING))


def test_what_was_said_on_binding_cannot_be_changed_on_the_way() -> None:
    client, exchange = Client("pencil", "y,,"), ScramExchange(PENCIL, allowed=True, binding=BINDING)
    first = exchange.begin(SCRAM, b"n,," + client.bare.encode())  # "y" became "n"
    with fails_with("login_failed"):
        exchange.finish(client.last(first))


@pytest.mark.parametrize(
    ("mechanism", "header"),
    [
        (SCRAM_PLUS, "n,,"),
        (SCRAM_PLUS, "y,,"),
        (SCRAM_PLUS, "p=tls-unique,,"),
        (SCRAM, END_POINT),
        ("SCRAM-SHA-1", "n,,"),
        ("", "n,,"),
    ],
)
def test_a_mechanism_and_a_binding_that_do_not_fit_are_refused(mechanism: str, header: str) -> None:
    with fails_with("login_failed"):
        exchange = ScramExchange(PENCIL, allowed=True, binding=BINDING)
        exchange.begin(mechanism, f"{header}n=,r=abc".encode())
    with fails_with("login_failed"):
        ScramExchange(PENCIL, allowed=True).begin(SCRAM_PLUS, f"{END_POINT}n=,r=abc".encode())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=",
        b"n,a=other,n=,r=abc",
        b"n,,m=x,n=,r=abc",
        b"n,,n=a,b,r=abc",
        b"n,,n=,r=a b",
        b"n,,n=,r=abc,",
        b"n,,n=,r=abc\0",
        b"n,,n=\xff,r=abc",
        b"n,,n=,r=" + b"a" * 5_000,
        b"n,,r=abc,n=",
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    exchange = ScramExchange(PENCIL, allowed=True)
    with fails_with("login_failed"):
        exchange.begin(SCRAM, message)
    with fails_with("login_failed"):  # there is no second try
        exchange.begin(SCRAM, b"n,,n=,r=abc")


def test_messages_out_of_turn_are_refused() -> None:
    with fails_with("login_failed"):
        ScramExchange(PENCIL, allowed=True).finish(b"c=biws,r=abc,p=AAAA")
    client, exchange = Client("pencil"), ScramExchange(PENCIL, allowed=True)
    first = exchange.begin(SCRAM, client.first())
    with fails_with("login_failed"):
        exchange.begin(SCRAM, client.first())
    with fails_with("login_failed"):
        exchange.finish(client.last(first))


ALPHABET = st.sampled_from(
    [*"nyprcmvi=,+/aZ0 \0\n", "p=tls-server-end-point", "n=", ",r=", ",p=", "ü"]
)
TEXTS = st.lists(ALPHABET, max_size=30).map("".join).map(str.encode) | st.binary(max_size=40)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from([SCRAM, SCRAM_PLUS, "PLAIN"]), TEXTS, TEXTS, st.booleans())
def test_whatever_a_client_sends_there_is_one_error(
    mechanism: str, first: bytes, last: bytes, bound: bool
) -> None:
    exchange = ScramExchange(PENCIL, allowed=True, binding=BINDING if bound else None)
    with suppress(OperationalError):
        exchange.begin(mechanism, first)
    with fails_with("login_failed"):
        exchange.finish(last)
    assert not exchange.succeeded


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_proof_that_differs_anywhere_is_refused(data: st.DataObject) -> None:
    client, exchange = Client("pencil"), ScramExchange(PENCIL, allowed=True, nonce="x")
    right = client.last(exchange.begin(SCRAM, client.first()))
    at = data.draw(st.integers(0, len(right) - 1))
    wrong = right[:at] + data.draw(st.binary(max_size=2)) + right[at + 1 :]
    # The last character before "=" has two bits that stand for nothing.
    if b64like(wrong) == b64like(right):
        return
    with fails_with("login_failed"):
        exchange.finish(wrong)


def b64like(message: bytes) -> tuple[bytes, bytes] | bytes:
    unproved, _, proof = message.rpartition(b",p=")
    try:
        return unproved, b64decode(proof, validate=True)
    except ValueError:
        return message


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20).filter(lambda name: "," not in name and "\0" not in name))
def test_the_name_inside_is_passed_over(name: str) -> None:
    client, exchange = Client("pencil"), ScramExchange(PENCIL, allowed=True)
    client.bare = f"n={name.encode('utf-8', 'replace').decode()},r=abc,x=later extension"
    log_in(client, exchange)
    assert exchange.succeeded


@pytest.mark.parametrize("allowed", [True, False])
def test_the_work_of_known_and_unknown_users_is_the_same(
    allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    digest = hmac.digest

    def counted(key: bytes, text: bytes, name: str) -> bytes:
        sizes.append(len(text))
        return digest(key, text, name)

    work = {}
    for known, verifier in (("known", PENCIL), ("unknown", MOCK)):
        client = Client("wrong password")
        exchange = ScramExchange(verifier, allowed=known == "known" and allowed, nonce="x" * 24)
        last = client.last(exchange.begin(SCRAM, client.first()))
        with monkeypatch.context() as patch:
            patch.setattr("dpsql.server.people.scram.hmac.digest", counted)
            with fails_with("login_failed") as told:
                exchange.finish(last)
        work[known] = (sizes.copy(), str(told.value))
        sizes.clear()
    assert work["known"] == work["unknown"]
    assert len(work["known"][0]) == 2


def test_a_mock_verifier_is_the_same_each_time_and_looks_like_others() -> None:
    def first(name: str, secret: bytes = b"k" * 32) -> tuple[str, ...]:
        mock = ScramVerifier.mock(secret, name, LEAST_ITERATIONS)
        told = ScramExchange(mock, allowed=False, nonce="x").begin(SCRAM, b"n,,n=,r=abc")
        return tuple(told.decode().split(","))

    assert first("mallory") == first("mallory")
    others = {first("mallory"), first("malory"), first("mallory", b"l" * 32), first("\udce9")}
    assert len(others) == 4
    real = ScramExchange(PENCIL, allowed=True, nonce="x").begin(SCRAM, b"n,,n=,r=abc").decode()
    assert [len(part) for part in first("mallory")] == [len(part) for part in real.split(",")]


def test_a_verifier_is_written_and_read_as_postgresql_has_it() -> None:
    text = (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
        ":wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )
    assert PENCIL.text() == text
    assert ScramVerifier.parse(text) == PENCIL
    assert ScramVerifier.of_password("pencil").iterations == USUAL_ITERATIONS == 100_000
    assert len({ScramVerifier.of_password("pencil", 4096).salt for _ in range(5)}) == 5


@pytest.mark.parametrize(
    "change", [("4096", "4095"), ("qY=", "q=="), ("SHA-256", "SHA-1"), ("$W", "$ü")]
)
def test_other_texts_are_no_verifiers(change: tuple[str, str]) -> None:
    with fails_with("bad_verifier") as told:
        ScramVerifier.parse(PENCIL.text().replace(*change))
    assert "WG5d" not in str(told.value)


@pytest.mark.parametrize("iterations", [0, 4095, 10_000_001])
def test_too_few_iterations_and_too_many_are_refused(iterations: int) -> None:
    with fails_with("bad_iterations"):
        ScramVerifier.of_password("pencil", iterations)


def test_what_is_shown_of_a_verifier_are_no_keys() -> None:
    shown: Any = repr(PENCIL)
    assert "key" not in shown
    assert repr(PENCIL.stored_key) not in shown


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=20)
    | st.binary(min_size=1, max_size=40).map(
        lambda salt: ScramVerifier(4096, salt, b"s" * 32, b"k" * 32).text()
    )
)
def test_a_text_is_a_verifier_or_refused(text: str) -> None:
    with suppress(InterfaceError):
        assert ScramVerifier.parse(text).text() == text
