"""The hash of a certificate that a login is bound to, by the certificate's own signature."""

from __future__ import annotations

import hashlib

import pytest
from helpers.certificates import made
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.server.people.certificates import end_point_binding

pytestmark = pytest.mark.few(20)  # all of them: they are quick


@pytest.mark.parametrize(
    ("key", "signed_with", "hashed_with"),
    [
        ("ec", "sha256", "sha256"),
        ("ec", "sha384", "sha384"),
        ("ec", "sha512", "sha512"),
        ("rsa", "sha224", "sha224"),
        ("rsa", "sha256", "sha256"),
        ("rsa", "sha512", "sha512"),
    ],
)
def test_the_hash_is_that_of_the_signature(key: str, signed_with: str, hashed_with: str) -> None:
    der = made(key, signed_with).der
    assert end_point_binding(der) == hashlib.new(hashed_with, der).digest()


def test_sha_1_and_md5_become_sha_256() -> None:
    der = made("rsa", "sha256").der
    for weak in ("2a864886f70d010104", "2a864886f70d010105"):
        changed = der.replace(bytes.fromhex("2a864886f70d01010b"), bytes.fromhex(weak))
        assert changed != der
        assert end_point_binding(changed) == hashlib.sha256(changed).digest()


@pytest.mark.parametrize("key", ["ed25519", "rsa-pss"])
def test_where_the_hash_is_not_agreed_on_binding_is_not_offered(key: str) -> None:
    assert end_point_binding(made(key, "sha256").der) is None


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 200))
def test_what_is_no_certificate_has_no_hash(text: bytes, cut: int) -> None:
    assert end_point_binding(text) is None
    assert end_point_binding(made("ec", "sha256").der[:cut]) is None
