"""Describes a route as data: its roles, its request and its reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from dpsql.agents.replies import ReplyPart
from dpsql.server.people.records import Role

ANALYSTS: Final = frozenset({Role.ANALYST})


@dataclass(frozen=True, slots=True)
class Operation:
    """A route: the name of its handler, method, path, and the bodies that go in and out.

    ``roles``: one of these is needed; None for what needs no login. ``numbers``: what may follow a
    question mark, whole numbers from 1 up to these.
    """

    name: str
    method: str
    path: str
    summary: str
    gives: type[ReplyPart] | None
    takes: type[ReplyPart] | None = None
    roles: frozenset[Role] | None = ANALYSTS
    numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
