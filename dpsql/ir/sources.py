"""What the name of a public table meant, for whatever loads its rows or shows its columns.

A name is looked up once, when a statement is validated. What was found travels as one of these: no
name finds it a second time, by another rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dpsql.core.schema import Table


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A table that the policy lists as public: its rows are the owner's."""

    table: Table


@dataclass(frozen=True, slots=True)
class PublishedView:
    """A materialized view: its rows are what the stream of that id has published."""

    table: Table
    stream: str


@dataclass(frozen=True, slots=True)
class TypesAlone:
    """A private table in a statement that has no rows: its names and types, and never a row."""

    table: Table


PublicSource: TypeAlias = PublicTable | PublishedView | TypesAlone
"""Where the rows of a public table come from."""
