"""Differences between versions of DuckDB: their settings, and their spelling of plans.

dpsql speaks of both as DuckDB 2.0.0 does. What another version lacks, has beside or writes in its
own way stands here, and nowhere else. A version that is not listed is taken for the last one before
it: settings that it does not take, and parts of plans that it writes in yet another way, are
refused where they are met.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

import duckdb

from dpsql.engines.embedded.plan_spellings import Spelling, of_1_5, of_2_0_1


@dataclass(frozen=True, slots=True)
class DuckDBVersion:
    """How a version of DuckDB differs from 2.0.0."""

    lacks: frozenset[str] = frozenset()
    """Settings that it does not have, as it leaves no choice."""
    own: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Settings that decide values there and are not in 2.0.0, or are called by other words."""
    unlisted: frozenset[str] = frozenset()
    """Settings that it has, and does not list in ``duckdb_settings()``."""
    spelling: Spelling | None = None
    """How its plans are read; None for those of 2.0.0."""
    ended_by_zero: bool = False
    """Whether it reads a statement no further than to the first character of code 0."""
    keeps_rows: bool = True
    """Whether a relation in Python can be run once and keep its rows."""


_CHOICES_OF_2_0: Final = frozenset(
    {"error_on_division_by_zero", "legacy_disable_null_type", "regex_match_operator_semantics"}
    | {"table_function_identifier_conversion"}
)
_SINCE: Final[Mapping[tuple[int, ...], DuckDBVersion]] = {
    (1, 5): DuckDBVersion(
        lacks=_CHOICES_OF_2_0
        | {"async_threads", "dialect_compatibility_mode", "enable_optimizer", "max_execution_time"},
        own={
            "lambda_syntax": "default",
            "old_implicit_casting": "false",
            "preserve_identifier_case": "true",
            "produce_arrow_string_view": "false",
        },
        spelling=of_1_5,
        ended_by_zero=True,
        keeps_rows=False,
    ),
    (2, 0, 0): DuckDBVersion(),
    (2, 0, 1): DuckDBVersion(
        # A row whose value is NaN is kept, whatever other rows of its file hold.
        own={"parquet_can_have_nan": "true"},
        unlisted=_CHOICES_OF_2_0,
        spelling=of_2_0_1,
    ),
}


def version_of(told: str) -> DuckDBVersion:
    """Find the differences of a version, listed at the newest entry that is not newer."""
    numbers = tuple(map(int, re.findall(r"\d+", told)[:3]))
    known = [version for since, version in _SINCE.items() if since <= numbers]
    return known[-1] if known else _SINCE[min(_SINCE)]


INSTALLED: Final = version_of(duckdb.__version__)
"""How this process's DuckDB differs."""

IN_USE: Final[type[duckdb.Error] | tuple[()]] = getattr(duckdb, "ResourceInUseException", ())
"""The error of a file that somebody else has; empty for versions where only its text says so."""
Config: TypeAlias = dict[str, str | bool | int | float | list[str]]
ONE_THREAD: Final[Config] = {
    name: count
    for name, count in (("threads", "1"), ("async_threads", "0"))
    if name not in INSTALLED.lacks
}
"""Settings of a database that computes on one thread."""
