"""Servers as the sources of commands: an address, and a token for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from dpsql.client.transport import TOKEN_VARIABLE, RemoteServer, is_server_address
from dpsql.errors import InterfaceError

_MOST_TOKEN: Final = 9_000  # bytes of a file that may hold one
_OF_FILES: Final = ("policies", "ledger", "session", "everybody", "compare", "before")
_OF_SERVERS: Final = ("token_file", "ca_file")


@dataclass(frozen=True, slots=True)
class AskedServer:
    """The address of a server, the files with a token and with certificates, and who pays there."""

    address: str
    token_file: Path | None
    ca_file: Path | None
    account: str = ""

    @property
    def certificate(self) -> str | None:
        """The certificates that the server's own is checked by; None for the system's."""
        return None if self.ca_file is None else str(self.ca_file)

    def remote(self) -> RemoteServer:
        """Return the server with its token. Raises ``InterfaceError`` for what cannot be used."""
        return RemoteServer.at(self.address, self.token(), self.account, self.certificate)

    def token(self) -> str:
        """Read the token of the file, or of the environment.

        Raises ``InterfaceError`` (``token_missing``, ``token_not_private``).
        """
        if self.token_file is None:
            found = os.environ.get(TOKEN_VARIABLE, "")
        else:
            found = _token_of(self.token_file)
        if not found.strip():
            raise InterfaceError(
                "there is no token for the server",
                code="token_missing",
                hint=f"Name a file that holds it with --token-file, or set {TOKEN_VARIABLE}. "
                "`dpsql user token` makes one.",
            )
        return found.strip()


def asked_server(
    database: str | Path | None, account: str | None, token_file: Path | None, ca_file: Path | None
) -> AskedServer | None:
    """Return the server that a command is to ask; None for data of one's own.

    Raises ``UsageError`` for options of the command line that belong to the other kind.
    """
    at_server = is_server_address(database)
    ctx = click.get_current_context()
    what = "data of one's own" if at_server else "the address of a server"
    for option in ctx.command.params:
        wrong = option.name in (_OF_FILES if at_server else _OF_SERVERS)
        if wrong and ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[0]} is for {what}")
    return AskedServer(str(database), token_file, ca_file, account or "") if at_server else None


def _token_of(path: Path) -> str:
    """Read the token of a file; empty without one."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            text = file.read(_MOST_TOKEN).decode("ascii")
    except (OSError, UnicodeError):
        return ""
    # As ssh does with keys: of one's own files alone, others' are not ours to protect.
    if os.name == "posix" and found.st_uid == os.getuid() and found.st_mode & 0o077:
        raise InterfaceError(
            "others than its owner may read the file with the token",
            code="token_not_private",
            hint="It is as secret as a password: chmod 600, and ask for another token if somebody "
            "may have read it.",
        )
    return text
