"""A shell: its connection, settings and last answer, and the way it runs a query."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from dpsql.core.quoting import quote
from dpsql.errors import Error
from dpsql.interfaces.shell.cancel import Cancelled
from dpsql.interfaces.shell.costs import ShownBalance, spent_between
from dpsql.interfaces.shell.formats import formatted
from dpsql.interfaces.shell.saved import SavedQueries
from dpsql.interfaces.shell.screen import Screen
from dpsql.interfaces.shell.settings import ShellSettings
from dpsql.interfaces.shell.source import ShellSource
from dpsql.present.result_files import told_beside
from dpsql.results.reading import ReadableAnswer
from dpsql.syntax.statements import CreateView, DropView, Select, read_statement

_T = TypeVar("_T")
_FREE = "Nothing was spent."


class Shell:
    """The state of a shell, and the effect of its statements on it.

    ``ask`` puts a question to a person, ``edit`` lets one edit a text for the next prompt; both are
    None where there is nobody.
    """

    def __init__(
        self,
        source: ShellSource,
        screen: Screen,
        settings: ShellSettings | None = None,
        ask: Callable[[str], bool] | None = None,
        saved: SavedQueries | None = None,
    ) -> None:
        self.source = source
        self.screen = screen
        self.settings = settings or ShellSettings()
        self.ask = ask
        self.edit: Callable[[str], object] | None = None
        self.saved = saved or SavedQueries.of_user(os.environ)
        self.catalog = source.names()
        self._find_views()
        self.result: ReadableAnswer | None = None
        self.query = ""
        self.last = ""
        self.files = 0  # that are being read, one within the other

    def answer(self, text: str) -> None:
        """Run a statement and show its answer.

        Raises ``Error``, and ``Cancelled`` with what that cost after Ctrl-C.
        """
        statement = read_statement(text)
        query = isinstance(statement, Select)
        if query:
            self.query = text
            if not self._agreed(text):
                self.screen.say(f"Not run. {_FREE}")
                return
            self.last = ""
        started = time.perf_counter()
        result = self._charged(lambda: self.source.connection.sql(text))
        took = _duration(time.perf_counter() - started)
        if isinstance(statement, CreateView | DropView):
            self._find_views()
        if query:
            self.result = result
            self.last = f"last: {self.source.paid(result)}{took}"
        self.screen.show(
            formatted(result, self.settings, self.screen.width), paged=self.settings.pager
        )
        for warning in told_beside(result, self.settings.format):
            self.screen.warn(warning)
        if self.settings.timing:
            self.screen.say(f"Time: {took}")

    def balance(self) -> ShownBalance | None:
        """Read where the account stands, None if nothing says."""
        try:
            return self.source.balance()
        except Error:
            return None

    def run(self, work: Callable[[], _T]) -> _T:
        """Run work that costs nothing. Raises ``Cancelled`` after Ctrl-C."""
        try:
            return self._run(work)
        except Cancelled:
            raise Cancelled(_FREE) from None

    def _find_views(self) -> None:
        """List the views, for completion; none where listing fails."""
        ask = self.source.connection.sql
        found: dict[str, tuple[str, ...]] = {}
        with suppress(Error):
            for name, *_ in ask("SHOW MATERIALIZED VIEWS"):
                found[str(name)] = ()
                with suppress(Error):  # of a view that the policy allows no longer
                    columns = ask(f"DESCRIBE {quote(str(name))}")
                    found[str(name)] = tuple(str(row[0]) for row in columns)
        self.catalog = self.catalog.with_views(found)

    def _agreed(self, text: str) -> bool:
        """Ask before a query that is expensive; False if somebody says no to it."""
        most = self.settings.confirm
        if self.ask is None or most is None:
            return True
        found = self.run(lambda: self.source.price(text))
        if found is None:
            return True
        if not found.open and (found.affordable == 0 or found.share <= most):
            return True  # what cannot be paid for is refused, for nothing
        return self.ask(found.question)

    def _charged(self, work: Callable[[], _T]) -> _T:
        """Run work; if it fails, report its cost."""
        before = self.balance()
        try:
            return self._run(work)
        except Cancelled:
            raise Cancelled(self._taken(before) or _FREE) from None
        except Error as error:
            taken = self._taken(before)
            if taken is not None:
                error.hint = " ".join(filter(None, [error.hint, taken]))
            raise

    def _taken(self, before: ShownBalance | None) -> str | None:
        after = self.balance()
        if before is None or after is None:
            return "What it reserved stays spent, if it had begun to read."
        return spent_between(before, after)

    def _run(self, work: Callable[[], _T]) -> _T:
        with self.screen.busy() as turn:
            return self.source.work.run(work, turn)


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
