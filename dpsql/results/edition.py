"""Editions of the data: which opening of it an answer was computed on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataEdition:
    """An opening of the data, by public facts alone: nothing of it follows from rows.

    ``number`` counts the openings of a server, ``opened`` is the time of this one in UTC, and
    ``name`` is the ``edition`` of the policies file, or the snapshot of a lake; empty for neither.
    """

    number: int
    opened: str
    name: str

    def __str__(self) -> str:
        """Write it in a line."""
        name = f"{self.name}, " if self.name else ""
        return f"{name}opening {self.number} at {self.opened}"
