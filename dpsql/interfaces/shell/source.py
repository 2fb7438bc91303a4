"""What a shell asks: data of one's own, or a server. One class of each kind is its source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from rich.console import RenderableType

from dpsql.core.progress import Percent
from dpsql.interfaces.shell.cancel import Work
from dpsql.interfaces.shell.candidates import Nameable
from dpsql.interfaces.shell.costs import Price, ShownBalance
from dpsql.results.reading import ReadableAnswer


class StatementAnswerer(Protocol):
    """A connection, as far as a shell asks it statements."""

    def sql(self, query: str, /) -> ReadableAnswer:
        """Answer a statement."""


class ShellSource(ABC):
    """An open source: what is asked, who pays, and how its costs are told.

    ``connection`` answers statements, one at a time, run by ``work``.
    """

    connection: StatementAnswerer
    work: Work

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name of what is asked."""

    @property
    @abstractmethod
    def payer(self) -> str:
        """The name of the account that pays."""

    @property
    @abstractmethod
    def dataset(self) -> str:
        """The name of the dataset."""

    @property
    @abstractmethod
    def files(self) -> tuple[str | Path | None, ...]:
        """The source's own files: no answer may be written over one of them."""

    @property
    @abstractmethod
    def news(self) -> str:
        """What a person is to be told at the beginning; empty for nothing."""

    @abstractmethod
    def facts(self) -> list[tuple[str, str]]:
        r"""List what ``\l`` tells of the connection, each with its name."""

    @abstractmethod
    def names(self) -> Nameable:
        """Collect the names of tables, columns and parameters."""

    @abstractmethod
    def balance(self) -> ShownBalance | None:
        """Read where the account stands; None without a limit. Raises ``Error``."""

    @abstractmethod
    def price(self, text: str) -> Price | None:
        """Price a query; None for one that costs nothing. Raises ``Error``."""

    @abstractmethod
    def explained(self, text: str, as_json: bool) -> RenderableType:
        """Explain a query, at no cost. Raises ``Error``."""

    @abstractmethod
    def budget(self, as_json: bool) -> RenderableType:
        """Show spending and rest of the account. Raises ``Error``."""

    @abstractmethod
    def history(self, limit: int) -> RenderableType:
        """List the latest charges. Raises ``Error``."""

    @abstractmethod
    def paid(self, answer: ReadableAnswer) -> str:
        """Word what an answer cost, for the line below the prompt; empty for nothing released."""


class Target(Protocol):
    """A source that can be opened."""

    @property
    def name(self) -> str:
        """A short name of it."""

    def opened(self, progress: Percent) -> AbstractContextManager[ShellSource]:
        """Open it, until the end. Raises ``Error``."""
