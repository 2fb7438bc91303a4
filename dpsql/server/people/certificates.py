"""The hash of a server's certificate, to which SCRAM binds a login: RFC 5929, section 4.

A client hashes the certificate that it was shown. Where somebody between shows another one, the
hashes differ, and the login fails.
"""

from __future__ import annotations

import hashlib
from typing import Final

# The object identifiers of signatures, as DER encodes them, and the hash of each. MD5 and SHA-1
# become SHA-256, as the RFC says.
_HASH_OF_SIGNATURE: Final = {
    bytes.fromhex("2a864886f70d010104"): "sha256",  # md5WithRSAEncryption
    bytes.fromhex("2a864886f70d010105"): "sha256",  # sha1WithRSAEncryption
    bytes.fromhex("2a864886f70d01010b"): "sha256",  # sha256WithRSAEncryption
    bytes.fromhex("2a864886f70d01010c"): "sha384",
    bytes.fromhex("2a864886f70d01010d"): "sha512",
    bytes.fromhex("2a864886f70d01010e"): "sha224",
    bytes.fromhex("2a8648ce3d0401"): "sha256",  # ecdsa-with-SHA1
    bytes.fromhex("2a8648ce3d040301"): "sha224",
    bytes.fromhex("2a8648ce3d040302"): "sha256",  # ecdsa-with-SHA256
    bytes.fromhex("2a8648ce3d040303"): "sha384",
    bytes.fromhex("2a8648ce3d040304"): "sha512",
}
_SEQUENCE: Final = 0x30
_OBJECT_IDENTIFIER: Final = 0x06


def end_point_binding(certificate: bytes) -> bytes | None:
    """Hash a certificate, given as DER, for ``tls-server-end-point``.

    None where the RFC does not say how, as for Ed25519, or clients do not agree, as for RSA-PSS:
    then binding cannot be offered.
    """
    try:
        start, end = _content(certificate, 0, len(certificate), _SEQUENCE)
        _, at = _content(certificate, start, end, _SEQUENCE)  # what is signed
        start, end = _content(certificate, at, end, _SEQUENCE)  # by which algorithm
        start, end = _content(certificate, start, end, _OBJECT_IDENTIFIER)
    except ValueError:
        return None
    name = _HASH_OF_SIGNATURE.get(certificate[start:end])
    return None if name is None else hashlib.new(name, certificate).digest()


def _content(der: bytes, at: int, end: int, tag: int) -> tuple[int, int]:
    """Find the content of the element at a place: its start and its end."""
    if at + 2 > end or der[at] != tag:
        raise ValueError
    length, start = der[at + 1], at + 2
    if length >= 0x80:
        size = length - 0x80
        length, start = int.from_bytes(der[start : start + size]), start + size
    if start + length > end:
        raise ValueError
    return start, start + length
