"""Certificates that sign themselves, for tests of TLS on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """A certificate for 127.0.0.1, as DER, and with its key as PEM."""

    der: bytes
    pem: bytes


@cache
def made(kind: str, signed_with: str) -> Certificate:
    """A new certificate: ``ec``, ``rsa``, ``rsa-pss`` or ``ed25519``, signed with a hash."""
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
    match kind:
        case "ec":
            key = ec.generate_private_key(ec.SECP256R1())
        case "ed25519":
            key = ed25519.Ed25519PrivateKey.generate()
        case _:
            key = rsa.generate_private_key(65537, 2048)
    hashed = {
        each.name: each
        for each in (hashes.SHA224(), hashes.SHA256(), hashes.SHA384(), hashes.SHA512())
    }
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
    )
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32) if kind == "rsa-pss" else None
    with_hash = None if kind == "ed25519" else hashed[signed_with]
    found = builder.sign(key, with_hash, rsa_padding=pss)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = found.public_bytes(serialization.Encoding.PEM)
    return Certificate(found.public_bytes(serialization.Encoding.DER), private + public)
