"""Answers of a server, which are read like those of a connection of one's own."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np

from dpsql.accuracy.appearance import Threshold
from dpsql.accuracy.intervals import Interval, check_confidence
from dpsql.client.transport import bad_reply
from dpsql.core.formatting import json_text, printable, significant
from dpsql.core.sql_types import VARCHAR, SqlType
from dpsql.errors import AnswerWarning, ParameterError, StaleAnswerWarning
from dpsql.results.edition import DataEdition
from dpsql.results.reading import ReadableAnswer
from dpsql.results.rows import HeldAnswer

_CONFIDENCE: Final = 0.95
_WHOLE: Final = frozenset(
    {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")}
    | {"INTEGER", "UINTEGER"}
)


@dataclass(frozen=True, slots=True)
class RemoteCost:
    """The cost of an answer, in epsilon, and the rest of the account."""

    epsilon_paid: float
    epsilon_reserved: float
    free: bool
    answered: str | None
    epsilon_left: float | None

    @property
    def stored(self) -> bool:
        """True if it was paid for before, and cost nothing now."""
        return self.answered is not None

    @property
    def words(self) -> str:
        """What was paid, in words."""
        if self.answered is not None:
            when = printable(self.answered)[:16].replace("T", " ")
            return f"paid for before, at {when} UTC"
        paid, reserved = significant(self.epsilon_paid), significant(self.epsilon_reserved)
        return f"paid ε {paid} of {reserved} reserved" if paid != reserved else f"paid ε {paid}"


@dataclass(frozen=True, slots=True)
class RemoteWarning:
    """What limits the meaning of an answer, in a sentence; frames raise ``strong`` ones."""

    kind: str
    text: str
    strong: bool

    def python_warning(self) -> AnswerWarning:
        """Return the Python warning that says the same."""
        return (StaleAnswerWarning if self.kind == "stale" else AnswerWarning)(self.text)


class RemoteAnswer(ReadableAnswer):
    """The answer of a server to one statement.

    ``columns``, rows and data frames are those of a ``Result``; intervals have 95% confidence.
    Values of types that JSON has no form for (lists, structs) are text in data frames. ``edition``
    is the opening of the data that was asked, and ``from_edition`` is True if all values were
    computed on it, None where that is not known.
    """

    def __init__(self, reply: dict[str, Any], *, explains: bool = False) -> None:
        try:
            names = [str(one["name"]) for one in reply["columns"]]
            kinds = [_type(one["type"]) for one in reply["columns"]]
            readers = [_reader(kind) for kind in kinds]
            rows = [
                tuple(read(cell) for read, cell in zip(readers, row, strict=True))
                for row in reply["rows"]
            ]
            cost = reply["cost"]
            self.cost = RemoteCost(
                float(cost["epsilon_paid"]),
                float(cost["epsilon_reserved"]),
                bool(cost["free"]),
                _text_or_none(cost["answered"]),
                _number_or_none(cost["epsilon_left"]),
            )
            self._told = tuple(
                RemoteWarning(str(one["kind"]), str(one["text"]), bool(one["strong"]))
                for one in reply["warnings"]
            )
            self.mechanisms = tuple(str(one) for one in reply["mechanisms"])
            self._intervals = {
                str(one["column"]): Interval(
                    _numbers(one["low"], len(rows)), _numbers(one["high"], len(rows))
                )
                for one in reply["intervals"]
            }
            self._reading = str(reply["reading"])
            self.release_id = _text_or_none(reply["release_id"])
            opened = reply["edition"]
            self.edition = DataEdition(
                int(opened["number"]), str(opened["opened"]), _text_or_none(opened["name"]) or ""
            )
            self.from_edition = True if opened["made_on"] == "this" else None
            known = set(self._intervals) <= set(names)
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
            known = False
        if not known:
            raise bad_reply()
        self._warned = False
        self._explains = explains and len(names) == 1
        super().__init__(HeldAnswer(names, kinds, rows), len(names))

    @property
    def warnings(self) -> tuple[RemoteWarning, ...]:
        """What the numbers alone do not say."""
        return self._told

    @property
    def released(self) -> bool:
        """True if the rows were computed from private ones, by drawing noise."""
        return bool(self.mechanisms)

    @property
    def explanation_shown(self) -> str | None:
        """The text of the plan, where the answer is one to EXPLAIN."""
        return "\n".join(str(line) for (line,) in self.fetchall()) if self._explains else None

    @property
    def footer(self) -> str:
        """The mechanisms, and what the answer cost."""
        return f"{' + '.join(dict.fromkeys(self.mechanisms))} · {self.cost.words}"

    def circumstances(self, confidence: float) -> dict[str, object]:
        """Return how the answer came about: mechanisms, cost, warnings."""
        cost = self.cost
        return {
            "confidence": confidence,
            "mechanisms": list(self.mechanisms),
            "cost": {"reserved": cost.epsilon_reserved, "settled": cost.epsilon_paid},
            "answered": cost.answered,
            "warnings": [asdict(one) for one in self.warnings],
        }

    def thresholds(self) -> dict[str, Threshold]:
        """Return nothing: a server tells thresholds in sentences."""
        return {}

    def intervals(self, confidence: float = _CONFIDENCE) -> dict[str, Interval]:
        """Return the confidence intervals of the noisy columns.

        Raises ``ParameterError`` for another confidence than that of the server's, 0.95.
        """
        if check_confidence(confidence) != _CONFIDENCE:
            raise ParameterError(
                "a server tells intervals of 95% confidence",
                code="parameter_out_of_range",
                hint="Leave confidence out.",
            )
        return dict(self._intervals)

    def summary(self, confidence: float = _CONFIDENCE) -> str:
        """Say in sentences how close the values are, and what was left out."""
        check_confidence(confidence)
        self._warned = True
        return self._reading

    def warn(self, stacklevel: int) -> None:
        """Raise the warnings as Python warnings, once for an answer."""
        if self._warned:
            return
        self._warned = True
        for one in self.warnings:
            if one.strong:
                warnings.warn(one.python_warning(), stacklevel=stacklevel)

    def attributes(self) -> dict[str, object]:
        """Return facts for the ``attrs`` of pandas frames."""
        if not self.released:
            return {}
        found = [asdict(one) for one in self.warnings]
        return {"dpsql_answered": self.cost.answered, "dpsql_warnings": found}


def _type(text: object) -> SqlType:
    """Read a type that values of Python have; any other is text."""
    found = SqlType.of(str(text)[:100])
    kind = found.kind
    if kind == "DECIMAL":
        width, scale = found.digits
        return SqlType.decimal(width, scale) if 0 <= scale <= width <= 38 else VARCHAR
    return SqlType.of(kind) if kind in _WHOLE or kind in _READERS else VARCHAR


def _reader(kind: SqlType) -> Callable[[Any], Any]:
    read = Decimal if kind.is_decimal else int if kind.kind in _WHOLE else _READERS[kind.kind]
    return lambda cell: None if cell is None else read(cell)


def _text(cell: object) -> str:
    return cell if isinstance(cell, str) else json_text(cell)


def _truth(cell: object) -> bool:
    if not isinstance(cell, bool):
        raise ValueError("no truth value")
    return cell


def _bytes(cell: str) -> bytes:
    return bytes.fromhex(cell.removeprefix("\\x"))


def _moment(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make a reader of moments; one that Python has not stays a text, as in ``fetchall``."""

    def moment(cell: str) -> Any:
        try:
            return read(cell)
        except ValueError:
            if _NO_MOMENT.fullmatch(cell):
                return cell
            raise

    return moment


_NO_MOMENT: Final = re.compile(
    r"-?infinity|(?:\d{5,6}-\d\d-\d\d|\d{1,6}-\d\d-\d\d \(BC\))(?: [0-9:.+]{8,24})?"
)
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "BOOLEAN": _truth,
    "FLOAT": float,
    "DOUBLE": float,
    "VARCHAR": _text,
    "DATE": _moment(date.fromisoformat),
    "TIME": time.fromisoformat,
    "TIMESTAMP": _moment(datetime.fromisoformat),
    "TIMESTAMP WITH TIME ZONE": _moment(datetime.fromisoformat),
    "UUID": UUID,
    "BLOB": _bytes,
}


def _numbers(found: Sequence[Any], count: int) -> Any:
    if len(found) != count:
        raise ValueError("an interval for each row")
    return np.array([np.nan if one is None else float(one) for one in found], dtype=np.float64)


def _text_or_none(found: object) -> str | None:
    return None if found is None else str(found)


def _number_or_none(found: Any) -> float | None:
    return None if found is None else float(found)
