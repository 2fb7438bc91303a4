"""Connections of the commands that ask: to data of one's own, or to a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from click.core import ParameterSource

from dpsql.client.transport import TOKEN_VARIABLE, is_server_address
from dpsql.errors import InterfaceError
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget.ledgers import announce, located

if TYPE_CHECKING:
    from dpsql.core.progress import Percent
    from dpsql.dbapi.connection import Connection
    from dpsql.dbapi.remote import RemoteConnection

    AskedConnection: TypeAlias = Connection | RemoteConnection

_MOST_TOKEN: Final = 1_000  # bytes of a file that may hold one
_OF_FILES: Final = ("policies", "ledger", "session")
_OF_SERVERS: Final = ("token_file", "ca_file")


@dataclass(frozen=True, slots=True)
class AskedSource:
    """Where a command asks, and who asks; the arguments of its options.

    ``database`` is data of one's own, or the address of a server. A server has policies and a
    ledger itself, and ``token_file`` holds the token for it.
    """

    database: str | Path
    policies: Path
    ledger: str | None
    analyst: str | None
    session: str
    token_file: Path | None
    ca_file: Path | None

    @property
    def at_server(self) -> bool:
        """True if a server is asked."""
        return is_server_address(self.database)

    @property
    def ledger_place(self) -> str | None:
        """The place of the ledger; None where a server has it."""
        return None if self.at_server else located(self.ledger, self.policies, self.database)

    @property
    def files(self) -> tuple[str | Path | None, ...]:
        """The files that no answer may be written over."""
        if self.at_server:
            return self.token_file, self.ca_file, options.settings_file()
        return self.ledger_place, self.database, self.policies, options.settings_file()

    @contextmanager
    def connected(
        self, progress: Percent | None = None, *, explains: bool = False
    ) -> Iterator[AskedConnection]:
        """Connect, until the end; ``explains`` needs no ledger. Raises as ``dpsql.connect``."""
        from dpsql.dbapi.connection import connect

        self._refuse_others()
        if self.at_server:
            trusted = None if self.ca_file is None else str(self.ca_file)
            server, token = str(self.database), self._token()
            with connect(
                server, token=token, analyst=self.analyst or "", certificate=trusted
            ) as remote:
                yield remote
            return
        if self.analyst is None:
            raise click.UsageError("Missing option '--analyst' / '-a'.")
        place = None if explains else located(self.ledger, self.policies, self.database)
        with connect(
            *(self.database, self.policies, place, self.analyst),
            session=self.session,
            progress=progress,
        ) as found:
            if place is not None:
                announce(found.ledger_created, place)
            yield found

    def _refuse_others(self) -> None:
        """Refuse options of the command line that belong to the other kind of source."""
        ctx = click.get_current_context()
        what = "data of one's own" if self.at_server else "the address of a server"
        for name in _OF_FILES if self.at_server else _OF_SERVERS:
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{name.replace('_', '-')} is for {what}")

    def _token(self) -> str:
        """Read the token of the file, or of the environment.

        Raises ``InterfaceError`` (``token_missing``).
        """
        if self.token_file is None:
            found = os.environ.get(TOKEN_VARIABLE, "")
        else:
            try:
                with self.token_file.open("rb") as file:
                    found = file.read(_MOST_TOKEN).decode("ascii")
            except (OSError, UnicodeError):
                found = ""
        if not found.strip():
            raise InterfaceError(
                "there is no token for the server",
                code="token_missing",
                hint=f"Name a file that holds it with --token-file, or set {TOKEN_VARIABLE}. "
                "`dpsql user token` makes one.",
            )
        return found.strip()


def asks(command: options.CommandFunction) -> options.CommandFunction:
    """Add the options of a source to a command, which gets it as its first argument."""

    @wraps(command)
    def with_source(**given: Any) -> None:
        source = AskedSource(**{one.name: given.pop(one.name) for one in fields(AskedSource)})
        command(source, **given)

    return options.of_a_source(with_source)
