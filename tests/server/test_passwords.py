"""Passwords: SASLprep as PostgreSQL does it, and hashes."""

from __future__ import annotations

import builtins
from types import ModuleType
from typing import Any

import pytest
from helpers.failures import fails_with
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.server.people.passwords import (
    MOST_PASSWORD_BYTES,
    hash_password,
    matches_hash,
    prepare_password,
    require_good_password,
)

pytestmark = pytest.mark.few(20)  # all of them: they are quick


@pytest.mark.parametrize(
    ("given_", "prepared"),
    [
        ("I\u00adX", "IX"),  # RFC 4013, section 3
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b\u3000c", "a b c"),
        ("a\u200bb", "a b"),  # in two tables: a space first
        ("\u00e9", "\u00e9"),
        ("e\u0301", "\u00e9"),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
        ("\u0007", "\u0007"),  # forbidden, but ASCII is left alone
        # What cannot be prepared stays as it is.
        ("\u0627\u0031", "\u0627\u0031"),
        ("\u0627a\u0628\u2168", "\u0627a\u0628\u2168"),
        ("\u2168\u0007", "\u2168\u0007"),
        ("\u2168\ue000", "\u2168\ue000"),
        ("\u2168\U0001f40e", "\u2168\U0001f40e"),  # younger than Unicode 3.2
        ("\u00ad", "\u00ad"),  # nothing would be left
        ("", ""),
    ],
)
def test_passwords_are_prepared_as_postgresql_prepares_them(given_: str, prepared: str) -> None:
    assert prepare_password(given_) == prepared.encode()
    assert prepare_password(given_.encode()) == prepared.encode()


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    assert prepare_password(b"\xe9t\xe9") == b"\xe9t\xe9"
    assert prepare_password("\udce9t\udce9") == b"\xe9t\xe9"  # as a terminal gives them
    assert prepare_password("\ud800") == b"\xed\xa0\x80"


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.text(max_size=12) | st.binary(max_size=12))
def test_every_password_can_be_prepared_and_ascii_is_left_alone(password: str | bytes) -> None:
    prepared = prepare_password(password)
    if isinstance(password, bytes) and password.isascii():
        assert prepared == password
    if password:
        assert prepared


@pytest.mark.parametrize(
    "password",
    [
        "",
        "short",
        "eleven chars"[:11],
        "\u00ad" * 11,
        "Margaret.Atwood",
        "a" * 5_000,
        "zero\0inside it",
    ],
)
def test_bad_passwords_are_refused_and_not_quoted(password: str) -> None:
    with fails_with("bad_password") as told:
        require_good_password("margaret.atwood", password)
    assert not password or password not in str(told.value)


def test_nothing_but_length_is_asked_of_a_password() -> None:
    require_good_password("ana", "twelve chars")
    require_good_password("ana", "ü" * 12)
    require_good_password("ana", "x" * MOST_PASSWORD_BYTES)


@pytest.mark.slow
def test_a_hash_is_argon2id_and_checks_the_prepared_password() -> None:
    hashed = hash_password("correct horse \u2168")
    assert hashed.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert matches_hash(hashed, "correct horse IX")
    assert not matches_hash(hashed, "correct horse X")
    assert not matches_hash(hashed, "a" * 5_000)
    assert not matches_hash("no hash", "correct horse IX")


def test_without_argon2_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> ModuleType:
        if name.split(".")[0] == "argon2":
            raise ImportError
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with fails_with("missing_package") as told:
        hash_password("correct horse battery")
    assert "Install it with: pip install " in str(told.value)
