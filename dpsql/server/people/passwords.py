"""Passwords: their form, SASLprep as PostgreSQL does it, and hashes by argon2."""

from __future__ import annotations

import stringprep
import unicodedata
from typing import TYPE_CHECKING, Final

from dpsql.core.extras import install_hint
from dpsql.errors import InterfaceError, ParameterError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LEAST_PASSWORD: Final = 12
"""The least number of characters of a password: nothing else is asked of it."""

MOST_PASSWORD_BYTES: Final = 1024
"""A longer password is refused before anything is computed of it."""

# The second choice of RFC 9106, section 4, for servers that hash for several people at once. Other
# numbers need another version of the file of users: where some hashes take longer than others, and
# than the one for names that nobody has, the time tells who exists.
_PASSES: Final = 3
_KIBIBYTES: Final = 65_536
_LANES: Final = 4


def prepare_password(password: str | bytes) -> bytes:
    """Prepare a password by SASLprep (RFC 4013); return the bytes as they are where that fails.

    Clients that use libpq do the same, so both ends arrive at the same bytes. Like PostgreSQL, this
    looks for forbidden characters before it normalises, and leaves ASCII alone.
    """
    given = _encoded(password) if isinstance(password, str) else password
    if given.isascii():
        return given
    try:
        text = given.decode("utf-8")
    except UnicodeDecodeError:
        return given
    # U+200B is in both tables: to PostgreSQL it is a space.
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c
        for c in text
        if stringprep.in_table_c12(c) or not stringprep.in_table_b1(c)
    )
    if not mapped or any(map(_is_forbidden, mapped)) or not _keeps_direction(mapped):
        return given
    return unicodedata.normalize("NFKC", mapped).encode("utf-8")


def require_good_password(user: str, password: str | bytes) -> None:
    """Refuse a password that is too short, too long, or the user's own name.

    Raises ``ParameterError`` (``bad_password``), which does not quote it.
    """
    prepared = prepare_password(password)
    length = len(prepared.decode("utf-8", "replace"))
    if length < LEAST_PASSWORD:
        reason = f"the password has {length} characters: too few"
    elif len(prepared) > MOST_PASSWORD_BYTES:
        reason = "the password is too long"
    elif b"\0" in prepared:
        reason = "the password holds a zero byte, which clients cannot send"
    elif prepared.decode("utf-8", "replace").casefold() == user.casefold():
        reason = "the password is the user's name"
    else:
        return
    raise ParameterError(
        reason,
        code="bad_password",
        hint=f"Take one of {LEAST_PASSWORD} or more characters, such as four words chosen by dice.",
    )


def hash_password(password: str | bytes) -> str:
    """Hash a password by argon2id, with a salt of its own.

    Raises ``InterfaceError`` (``missing_package``) where argon2-cffi is not installed.
    """
    return _hasher().hash(prepare_password(password))


def matches_hash(hashed: str, password: str | bytes) -> bool:
    """Tell whether a password is that of a hash; a long one is none, and is not computed with.

    Takes 64 MiB and some ten milliseconds: callers limit how many of these run at once.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    prepared = prepare_password(password)
    if len(prepared) > MOST_PASSWORD_BYTES:
        return False
    try:
        return _hasher().verify(hashed, prepared)
    except (InvalidHashError, VerificationError):
        return False


def require_argon2() -> None:
    """Raise ``InterfaceError`` (``missing_package``) where argon2-cffi is not installed."""
    _hasher()


def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise InterfaceError(
            "passwords of a server's users need the package argon2-cffi",
            code="missing_package",
            hint=install_hint("server"),
        ) from None
    return PasswordHasher(time_cost=_PASSES, memory_cost=_KIBIBYTES, parallelism=_LANES)


def _encoded(password: str) -> bytes:
    """Encode a text; bytes that a terminal could not decode become themselves again."""
    try:
        return password.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a pair, as JSON can have it
        return password.encode("utf-8", "surrogatepass")


def _is_forbidden(character: str) -> bool:
    return (
        stringprep.in_table_c12(character)
        or stringprep.in_table_c21_c22(character)
        or stringprep.in_table_c3(character)
        or stringprep.in_table_c4(character)
        or stringprep.in_table_c5(character)
        or stringprep.in_table_c6(character)
        or stringprep.in_table_c7(character)
        or stringprep.in_table_c8(character)
        or stringprep.in_table_c9(character)
        or stringprep.in_table_a1(character)
    )


def _keeps_direction(text: str) -> bool:
    """Tell whether a text goes from right to left from its first character to its last, or not."""
    right = stringprep.in_table_d1
    if not any(map(right, text)):
        return True
    return not any(map(stringprep.in_table_d2, text)) and right(text[0]) and right(text[-1])
