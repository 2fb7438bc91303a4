"""Reads requests: their headers, and bodies of JSON that have one meaning.

A body is refused where parsers differ over it or none should go on: the same key twice, ``NaN``,
numbers beyond all types, nesting without end.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from dpsql.agents.replies import ReplyPart
from dpsql.errors import InterfaceError
from dpsql.server.people.scram import login_failed

MOST_BODY: Final = 1_000_000
"""The most bytes of a body."""
SECONDS_FOR_BODY: Final = 20.0
MOST_TOKEN: Final = 8_192
_MOST_DEPTH: Final = 8
_MOST_DIGITS: Final = 60

_Request = TypeVar("_Request", bound=ReplyPart)


def bearer_of(headers: Headers) -> str:
    """Return the token of a request. Raises ``login_failed`` where there is none, or several."""
    given = headers.getlist("authorization")
    scheme, _, secret = (given[0] if len(given) == 1 else "").partition(" ")
    secret = secret.strip(" ")
    if scheme.lower() != "bearer" or not 0 < len(secret) <= MOST_TOKEN:
        raise login_failed()
    return secret


def require_host(headers: Headers, hosts: frozenset[str] | None) -> None:
    """Refuse a request for a host of another name, as DNS can make any name lead here.

    None takes any: a certificate says then whose name it is. Raises ``InterfaceError``.
    """
    given = headers.getlist("host")
    found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
    if found is None or (hosts is not None and found[1].lower() not in hosts):
        raise InterfaceError(
            "the request is for another host",
            code="wrong_host",
            hint="Without a certificate this server answers to localhost and 127.0.0.1 alone.",
        )


_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(?::\d{1,5})?")


def require_one_length(headers: Headers) -> None:
    """Refuse a request whose end could be read in two ways. Raises ``InterfaceError``."""
    coded = headers.getlist("transfer-encoding")
    if coded and (headers.getlist("content-length") or coded != ["chunked"]):
        raise bad_request("the request has several lengths")


def require_no_body(headers: Headers) -> None:
    """Refuse a body where none is taken. Raises ``InterfaceError``."""
    if headers.getlist("transfer-encoding") or headers.get("content-length", "0") != "0":
        raise bad_request("this request takes no body")


async def read_body(request: Request) -> bytes:
    """Read the body of a request in its time. Raises ``InterfaceError`` for what is too much."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or request.headers.get("content-encoding") is not None:
        raise InterfaceError(
            "the body is not JSON",
            code="not_json",
            hint="Send it as it is, with Content-Type: application/json.",
        )
    if int(request.headers.get("content-length", "0")) > MOST_BODY:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(SECONDS_FOR_BODY):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BODY:
                    raise _too_large()
    except TimeoutError:
        raise InterfaceError("the body came too slowly", code="too_slow") from None
    except ClientDisconnect:
        raise bad_request("the request has no end") from None
    return bytes(body)


def parsed_body(body: bytes, kind: type[_Request]) -> _Request:
    """Read a body as one of its kind. Raises ``InterfaceError``, which quotes nothing of it."""
    return _checked(object_of_json(body, _MOST_DEPTH), kind)


def object_of_json(body: bytes, most_depth: int) -> dict[str, Any]:
    """Read a body as an object of JSON. Raises ``InterfaceError``, which quotes nothing of it."""
    try:
        found = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_without_twins,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_whole,
        )
    except (ValueError, RecursionError):  # bad UTF-8 is a ValueError, too
        found = None
    if not isinstance(found, dict) or _depth(found, most_depth) > most_depth:
        raise bad_request(
            "the body is no JSON object",
            "Keys are there once, numbers are finite, and nothing is nested deeply.",
        )
    return found


def _checked(found: dict[str, Any], kind: type[_Request]) -> _Request:
    """Check fields. Raises ``InterfaceError`` that names the first one that does not fit."""
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = str(first["loc"][0]) if first["loc"] else ""
    # A name that is no field is the client's text: it is not repeated.
    what = f"the field {where}" if where in kind.model_fields else "a field"
    wrong = {"missing": "is missing", "extra_forbidden": "is unknown"}.get(
        first["type"], "is of another type, too long, or out of range"
    )
    raise bad_request(f"{what} {wrong}", f"Fields: {', '.join(kind.model_fields)}.")


def query_numbers(pairs: Sequence[tuple[str, str]], most: Mapping[str, int]) -> dict[str, int]:
    """Read whole numbers of an address, such as ``limit=20``, each from 1 up to its most.

    A larger one is taken for that, up to :func:`most_taken`.
    Raises ``InterfaceError`` for anything else.
    """
    found: dict[str, int] = {}
    for name, text in pairs:
        fits = name in most and name not in found and _NUMBER.fullmatch(text)
        if not fits or not 0 < int(text) <= most_taken(most[name]):
            taken = ", ".join(most) or "nothing"
            raise bad_request(f"the address takes {taken}: whole numbers from 1, each once")
        found[name] = min(int(text), most[name])
    return found


def most_taken(most: int) -> int:
    """Return the largest number taken for a limit of ``most``."""
    return 10 * most - 1


_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def bad_request(reason: str, hint: str | None = None) -> InterfaceError:
    """Return the error of a request that cannot be read."""
    return InterfaceError(reason, code="bad_request", hint=hint)


def _too_large() -> InterfaceError:
    return InterfaceError(
        "the body is too large",
        code="body_too_large",
        hint=f"A request has {MOST_BODY:,} bytes at most.",
    )


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_number(text: str) -> float:
    raise ValueError("no number of JSON")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError("beyond all doubles")
    return found


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError("beyond all integers")
    return int(text)


def _depth(value: object, most: int) -> int:
    """Return how deeply a value is nested; beyond ``most`` it is not counted on."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_depth(each, most - 1) for each in inner), default=0) if most >= 0 else 1
