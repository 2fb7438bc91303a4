"""Answers of a run that are kept for a while: for further rows, as CSV, and to check texts."""

from __future__ import annotations

import csv
import io
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Final

from pydantic import JsonValue

from dpsql.agents.prose import ReleasedNumber
from dpsql.agents.replies import AnswerField, AnswerRows, EditionFacts, Ends
from dpsql.agents.values import json_cell, row_texts
from dpsql.core.formatting import DEFAULT_CONFIDENCE, json_text, plain_cell
from dpsql.errors import UnknownName
from dpsql.results.result import Result

PAGE_ROWS: Final = 200
PAGE_BYTES: Final = 400_000
"""The most rows of a reply, and the most bytes of them as JSON."""
MAX_KEPT: Final = 64
MAX_KEPT_CELLS: Final = 2_000_000
"""How many answers are kept, and how many values in all."""
_CELL_TEXT: Final = 64
"""How many characters of a text, or bytes, count as a value."""
RESOURCES: Final = "dpsql://answers/"


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The rows of an answer, and the ends of the 95% intervals of noisy columns by their places."""

    columns: tuple[AnswerField, ...]
    rows: Sequence[Sequence[object]]
    ends: Mapping[int, tuple[Sequence[object], Sequence[object]]]
    edition: EditionFacts

    @classmethod
    def of(cls, result: Result) -> KeptAnswer:
        """Read all of an answer."""
        found = result.ends(DEFAULT_CONFIDENCE)
        columns = tuple(
            AnswerField(name=name, type=type_, noisy=name in found)
            for name, type_ in zip(result.columns, result.types, strict=True)
        )
        ends = {
            place: (found[column.name][0].values, found[column.name][1].values)
            for place, column in enumerate(columns)
            if column.noisy
        }
        return cls(columns, result.fetchall(), ends, edition_facts(result))

    @property
    def cells(self) -> int:
        """How many values it holds; a long text, or a list, counts as several."""
        own = sum(_cells(value) for row in self.rows for value in row)
        return own + 2 * len(self.ends) * len(self.rows)

    def page(self, release: str, offset: int) -> AnswerRows:
        """Return the rows from a place on, as many as a reply may have."""
        rows: list[list[JsonValue]] = []
        size, last = 0, min(offset + PAGE_ROWS, len(self.rows))
        for place in range(offset, last):
            row = [json_cell(value) for value in self.rows[place]]
            ends = [json_cell(each[place]) for pair in self.ends.values() for each in pair]
            size += len(json_text([row, ends]).encode())
            if size > PAGE_BYTES and rows:
                break
            rows.append(row)
        after = offset + len(rows)
        more = after < len(self.rows)
        return AnswerRows(
            release_id=release,
            columns=list(self.columns),
            rows=rows,
            intervals=[
                Ends(
                    column=self.columns[place].name,
                    low=[json_cell(value) for value in low[offset:after]],
                    high=[json_cell(value) for value in high[offset:after]],
                )
                for place, (low, high) in self.ends.items()
            ],
            rows_total=len(self.rows),
            offset=offset,
            next_offset=after if more else None,
            resource=f"{RESOURCES}{release}.csv" if more or offset else None,
            edition=self.edition,
        )

    def lines(self, first: int, last: int) -> list[str]:
        """Write some of the rows, each as a line."""
        ends = {
            place: (low[first:last], high[first:last]) for place, (low, high) in self.ends.items()
        }
        return row_texts([c.name for c in self.columns], self.rows[first:last], ends)

    def csv(self) -> str:
        """Write all rows, each noisy value followed by the ends of its interval."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(
            name
            for place, column in enumerate(self.columns)
            for name in self._with_ends(
                place, column.name, f"{column.name}_low", f"{column.name}_high"
            )
        )
        for at, row in enumerate(self.rows):
            cells: list[object] = []
            for place, value in enumerate(row):
                low, high = self.ends.get(place, ((), ()))
                known = (value, low[at], high[at]) if place in self.ends else (value,)
                cells += self._with_ends(place, *known)
            writer.writerow(map(plain_cell, cells))
        return buffer.getvalue()

    def _with_ends(self, place: int, *values: object) -> Sequence[object]:
        return values if place in self.ends else values[:1]

    def released(self) -> Iterator[ReleasedNumber]:
        """List its numbers, with the keys by which a text speaks of each."""
        for at, row in enumerate(self.rows):
            names = tuple(
                str(json_cell(value)).casefold()
                for place, value in enumerate(row)
                if place not in self.ends and value is not None
            )
            for place, value in enumerate(row):
                number = _number(value)
                if number is None:
                    continue
                low, high = self.ends.get(place, (None, None))
                yield ReleasedNumber(
                    column=self.columns[place].name,
                    row=at,
                    value=number,
                    low=None if low is None else _number(low[at]),
                    high=None if high is None else _number(high[at]),
                    names=names,
                    noisy=place in self.ends,
                )


def edition_facts(result: Result) -> EditionFacts:
    """Tell which opening of the data an answer is of."""
    edition = result.edition
    assert edition is not None, "sessions tell it of their answers"
    return EditionFacts(
        number=edition.number,
        opened=edition.opened,
        name=edition.name or None,
        made_on="this" if result.from_edition else "unknown",
    )


def _cells(value: object) -> int:
    """Count a value as so many, by the room that it takes."""
    if isinstance(value, str | bytes):
        return 1 + len(value) // _CELL_TEXT
    if isinstance(value, Mapping):
        return 1 + sum(_cells(inner) for pair in value.items() for inner in pair)
    if isinstance(value, list | tuple):
        return 1 + sum(map(_cells, value))
    return 1


def _number(value: object) -> Decimal | None:
    """Return a finite number exactly as it is written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if not isfinite(value):
        return None
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


class KeptAnswers:
    """The latest answers of a run, by release id. Safe for threads."""

    def __init__(self, most_cells: int = MAX_KEPT_CELLS) -> None:
        self._most_cells = most_cells
        self._kept: OrderedDict[str, tuple[KeptAnswer, int]] = OrderedDict()
        self._cells = 0
        self._lock = threading.Lock()

    def add(self, answer: KeptAnswer) -> str:
        """Keep an answer and return its id; the oldest are forgotten where they are too many."""
        release, cells = secrets.token_hex(6), answer.cells
        with self._lock:
            self._kept[release] = answer, cells
            self._cells += cells
            while len(self._kept) > 1 and (
                len(self._kept) > MAX_KEPT or self._cells > self._most_cells
            ):
                self._cells -= self._kept.popitem(last=False)[1][1]
        return release

    def find(self, release_id: str) -> KeptAnswer:
        """Find an answer. Raises ``UnknownName`` for one that is not kept, or is not the run's."""
        with self._lock:
            found = self._kept.get(release_id)
        if found is None:
            raise UnknownName(
                "this run keeps no such answer",
                code="unknown_release",
                hint="Ask the question again: it is free, and has a new release_id.",
            )
        return found[0]
