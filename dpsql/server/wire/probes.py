"""Questions that drivers ask of every server when they connect: its version, its settings, itself.

They are answered here, as PostgreSQL answers them, and reach no session. They are told by all of
their tokens, so that nothing else is taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from dpsql import __version__
from dpsql.syntax.connection_statements import words_of

_LONGEST: Final = 200
# What has none of these words is no probe, whatever its tokens are.
_MAY_BE: Final = re.compile(
    "version|current_(?:schema|database|user)|user|set|unlisten|show", re.IGNORECASE
)
SERVER_VERSION: Final = "15.0"
SERVER_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "server_version": f"{SERVER_VERSION} (dpsql)",
        "server_encoding": "UTF8",
        "client_encoding": "UTF8",
        "DateStyle": "ISO, MDY",
        "IntervalStyle": "postgres",
        "TimeZone": "UTC",
        "integer_datetimes": "on",
        "standard_conforming_strings": "on",
        "is_superuser": "off",
        "default_transaction_read_only": "off",
        "in_hot_standby": "off",
    }
)
"""The settings of each connection, which clients are told when they connect."""
SHOWN_SETTINGS: Final = {
    **{name.lower(): value for name, value in SERVER_SETTINGS.items()},
    "transaction isolation level": "read committed",
    "transaction_isolation": "read committed",
    "default_transaction_isolation": "read committed",
    "transaction_read_only": "off",
    "search_path": '"$user", public',
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "server_version_num": "150000",
    "lc_collate": "C",
    "lc_ctype": "C",
}
_UNCHANGED: Final = ("set session characteristics as transaction", "set transaction", "set names")


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer to a probe: one text under a name; None where there is nothing to show."""

    column: str
    value: str | None
    tag: str


EDITION_SETTING: Final = "dpsql.edition"
"""Shown like a setting, and told when it changes: which opening of the data is asked."""


def probe_of(text: str, user: str, dataset: str, edition: Callable[[], str]) -> Probe | None:
    """Answer a probe by the user of this name; None for any other statement."""
    if len(text) > _LONGEST or _MAY_BE.search(text) is None:
        return None
    words = " ".join(words_of(text)).replace("pg_catalog . ", "")
    known = {
        "select version ( )": ("version", f"PostgreSQL {SERVER_VERSION} (dpsql {__version__})"),
        "select current_schema ( )": ("current_schema", "public"),
        "select current_schema": ("current_schema", "public"),
        "select current_database ( )": ("current_database", dataset),
        "select current_user": ("current_user", user),
        "select session_user": ("session_user", user),
        "select user": ("user", user),
    }.get(words)
    if known is not None:
        return Probe(*known, "SELECT 1")
    if words.startswith(_UNCHANGED):
        return Probe("", None, "SET")
    if words.startswith("unlisten "):  # by whoever gives a connection back to its pool
        return Probe("", None, "UNLISTEN")
    if words == "show dpsql . edition":
        return Probe(EDITION_SETTING, edition(), "SHOW")
    shown = SHOWN_SETTINGS.get(words.removeprefix("show "))
    if words.startswith("show ") and shown is not None:
        return Probe(words.removeprefix("show ").replace(" ", "_"), shown, "SHOW")
    return None
