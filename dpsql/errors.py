"""The errors dpsql raises: PEP 249's tree, each with a code, a reason, a place and a hint.

    Error
     ├── InterfaceError
     │    └── PolicyError             the policies file is missing, malformed, or does not fit
     └── DatabaseError
          ├── DataError
          ├── IntegrityError
          ├── InternalError
          ├── OperationalError
          │    ├── BudgetExceeded     the account cannot pay the query's worst case
          │    ├── LedgerError        the ledger file cannot be used
          │    └── EngineError        the engine failed, or met a limit; its own text is withheld
          ├── ProgrammingError
          │    ├── SQLSyntaxError     the text is not SQL
          │    ├── UnknownName        a table, column, function or account that does not exist
          │    └── ParameterError     a privacy parameter outside its range
          └── NotSupportedError
               └── QueryRefused       SQL that cannot be answered privately

An error never carries a data value: reasons are written from the query text, the policy and the
catalog alone, and whatever an engine says is replaced by one fixed sentence.
"""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a text something is wrong: one-based line and column, length in characters.

    ``source`` is the whole text (a query) or the name of a file; ``excerpt`` is the line itself.
    """

    line: int
    column: int
    length: int
    excerpt: str
    source: str = "query"

    @classmethod
    def in_text(cls, text: str, start: int, end: int) -> Place:
        """Find the place of ``text[start:end]`` (end exclusive)."""
        start = max(0, min(start, len(text)))
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        length = max(1, min(end, line_end) - start)
        return cls(
            line=text.count("\n", 0, start) + 1,
            column=start - line_start + 1,
            length=length,
            excerpt=text[line_start:line_end],
        )

    def after(self, text: str) -> Place:
        """Move a place to where it is once ``text`` comes before the whole of the old text."""
        if self.line > 1 or not text:
            return replace(self, line=self.line + text.count("\n"))
        line = text[text.rfind("\n") + 1 :]
        return replace(
            self,
            line=1 + text.count("\n"),
            column=self.column + len(line),
            excerpt=line + self.excerpt,
        )

    def pointer(self, width: int = 100) -> str:
        """Underline the offending part of the line, cut to about ``width`` characters."""
        first = max(0, self.column - 1 - width // 2)
        cut = self.excerpt[first : first + width]
        offset = self.column - 1 - first
        underline = "^" * max(1, min(self.length, len(cut) - offset))
        return f"{cut}\n{' ' * offset}{underline}"


class Warning(Exception):
    """PEP 249: an important warning."""


class Error(Exception):
    """Root of every error dpsql raises.

    Attributes: ``code`` (a stable identifier such as ``unknown_table``), ``reason`` (one sentence),
    ``place`` (where in the query or file, or None), ``hint`` (what to do, or None).
    """

    def __init__(
        self,
        reason: str,
        *,
        code: str = "error",
        place: Place | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        where = ""
        if self.place is not None:
            source = "" if self.place.source == "query" else f"{self.place.source}, "
            where = f" ({source}line {self.place.line}, column {self.place.column})"
        parts = [f"{self.reason}{where} [{self.code}]"]
        if self.place is not None and self.place.excerpt:
            parts.append("\n".join("  " + line for line in self.place.pointer().split("\n")))
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)

    def _render_traceback_(self) -> list[str]:
        """Write the error as notebooks show it: with the frames of who called, not with our own."""
        ours = (str(Path(__file__).parent), f"{os.sep}IPython{os.sep}")
        frames = traceback.extract_tb(self.__traceback__)
        theirs = [frame for frame in frames if not any(part in frame.filename for part in ours)]
        calls = [line.rstrip("\n") for line in traceback.format_list(theirs)]
        return [*calls, f"{type(self).__name__}: {self}"]


class InterfaceError(Error):
    """PEP 249: an error of the interface rather than of the database."""


class DatabaseError(Error):
    """PEP 249: an error of the database."""


class DataError(DatabaseError):
    """PEP 249: a problem with the processed data."""


class OperationalError(DatabaseError):
    """PEP 249: an error of the database's operation."""


class IntegrityError(DatabaseError):
    """PEP 249: the relational integrity is affected."""


class InternalError(DatabaseError):
    """PEP 249: the database is in an inconsistent state."""


class ProgrammingError(DatabaseError):
    """PEP 249: a mistake in the query or its parameters."""


class NotSupportedError(DatabaseError):
    """PEP 249: a feature that is not supported."""


class PolicyError(InterfaceError):
    """The policies file is missing, malformed, or does not fit the database."""


class SQLSyntaxError(ProgrammingError):
    """The text cannot be parsed as one SQL query."""


class UnknownName(ProgrammingError):
    """A table, column, function or account that does not exist for this analyst."""


class ParameterError(ProgrammingError):
    """A privacy parameter that is not finite, not positive, or outside the policy's range."""


class QueryRefused(NotSupportedError):
    """SQL that is understood but cannot be answered under differential privacy."""

    _subquery: int | None = None  # the number of the one that it could be answered after
    _keys: tuple[tuple[int, str], ...] = ()  # the conditions by which that is asked for groups


class NewLedgerWarning(UserWarning):
    """A ledger was created at a place that the call did not name: nothing has been spent in it."""


class AnswerWarning(UserWarning):
    """What the numbers of an answer do not say: much was left out, noise hides them, or the like.

    Raised once for an answer, by ``Cursor.execute`` or where a ``Result`` becomes a data frame that
    was not shown with its sentences before.
    """


class StaleAnswerWarning(AnswerWarning):
    """An answer was given again that was paid for before the data was last written."""


class LedgerError(OperationalError):
    """The budget ledger cannot be opened, read or written. Nothing runs without it."""


class EngineError(OperationalError):
    """A query did not come to its end. What an engine says may quote rows: it is never shown.

    Its code says whether it failed, met a limit of the policy, or was interrupted by the caller.
    """

    FIXED_REASON = "the engine could not run the query (its message is withheld: it may quote data)"

    def __init__(
        self, reason: str = FIXED_REASON, *, code: str = "engine_failed", hint: str | None = None
    ) -> None:
        super().__init__(reason, code=code, hint=hint)


class BudgetExceeded(OperationalError):
    """The account cannot pay the query's worst case. Nothing was spent.

    ``remaining`` and ``requested`` are pairs of floats: (rho, delta), or (epsilon, delta) where the
    account's composition is basic. ``remaining`` is what the analyst's own accounts have left, None
    where they have no limit; of a total that others pay from too, an error tells no figures.
    """

    def __init__(
        self,
        reason: str,
        *,
        remaining: tuple[float, float] | None,
        requested: tuple[float, float],
        hint: str | None = None,
    ) -> None:
        super().__init__(reason, code="budget_exceeded", hint=hint)
        self.remaining = remaining
        self.requested = requested
