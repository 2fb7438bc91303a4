"""Connections of the commands that ask: to data of one's own, or to a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from dpsql.client.transport import is_server_address
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget.ledgers import announce, located
from dpsql.interfaces.cli.servers import AskedServer, asked_server

if TYPE_CHECKING:
    from dpsql.core.progress import Percent
    from dpsql.dbapi.connection import Connection
    from dpsql.dbapi.remote import RemoteConnection

    AskedConnection: TypeAlias = Connection | RemoteConnection


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

    def server(self) -> AskedServer | None:
        """Return the server that is asked; None for data of one's own.

        Raises ``UsageError`` for options of the other kind of source.
        """
        return asked_server(self.database, self.analyst, self.token_file, self.ca_file)

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

        server = self.server()
        if server is not None:
            with connect(
                server.address,
                token=server.token(),
                analyst=server.account,
                certificate=server.certificate,
            ) as remote:
                yield remote
            return
        analyst = self.required_analyst()
        place = None if explains else located(self.ledger, self.policies, self.database)
        with connect(
            *(self.database, self.policies, place, analyst),
            session=self.session,
            progress=progress,
        ) as found:
            if place is not None:
                announce(found.ledger_created, place)
            yield found

    def required_analyst(self) -> str:
        """Return the analyst. Raises ``UsageError`` where there is none."""
        if self.analyst is None:
            raise click.UsageError("Missing option '--analyst' / '-a'.")
        return self.analyst


def asks(command: options.CommandFunction) -> options.CommandFunction:
    """Add the options of a source to a command, which gets it as its first argument."""

    @wraps(command)
    def with_source(**given: Any) -> None:
        source = AskedSource(**{one.name: given.pop(one.name) for one in fields(AskedSource)})
        command(source, **given)

    return options.of_a_source(with_source)
