"""Queries that were given a name, kept as plain SQL in the user's configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dpsql.core.formatting import printable
from dpsql.errors import InterfaceError
from dpsql.policy.parameters import suggestion

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_END: Final = ".sql"


@dataclass(frozen=True, slots=True)
class SavedQueries:
    """The named queries of a directory, a file each, for their owner's eyes; None keeps none."""

    directory: Path | None

    @classmethod
    def of_user(cls, environment: Mapping[str, str]) -> SavedQueries:
        """Find the user's: below XDG_CONFIG_HOME."""
        given = environment.get("XDG_CONFIG_HOME", "")
        try:
            base = Path(given) if os.path.isabs(given) else Path.home() / ".config"
        except RuntimeError:  # this user has no home directory
            return cls(None)
        return cls(base / "dpsql" / "queries")

    def names(self) -> tuple[str, ...]:
        """List the names, in order; none where they cannot be read."""
        try:
            found = [] if self.directory is None else sorted(os.listdir(self.directory))
        except OSError:
            return ()
        names = (each.removesuffix(_END) for each in found if each.endswith(_END))
        return tuple(name for name in names if _NAME.fullmatch(name))

    def file(self, name: str) -> Path:
        """Return the file of a query. Raises ``InterfaceError`` (``unknown_query``)."""
        if self.directory is None or name not in self.names():
            raise InterfaceError(
                f"there is no saved query {printable(name, 64)}",
                code="unknown_query",
                hint=suggestion(name, self.names())
                or "\\run lists those that there are, \\save NAME makes one.",
            )
        return self.directory / f"{name}{_END}"

    def text(self, name: str) -> str:
        """Read a query in one line, for a list; empty where it cannot be read."""
        try:
            return " ".join(self.file(name).read_text(encoding="utf-8").split())
        except (OSError, UnicodeError):
            return ""

    def save(self, name: str, text: str) -> bool:
        """Keep a query; True if it replaces another of that name.

        Raises ``InterfaceError`` (``bad_query_name``, ``file_not_writable``).
        """
        if not _NAME.fullmatch(name):
            raise InterfaceError(
                "a query's name has up to 64 letters, digits, - and _",
                code="bad_query_name",
                hint="For example: \\save patients-by-ward",
            )
        if self.directory is None:
            raise InterfaceError(
                "there is no home directory to keep queries in",
                code="file_not_writable",
                hint="Set XDG_CONFIG_HOME to a directory.",
            )
        replaces = name in self.names()
        part = self.directory / f".{name}.{os.getpid()}.part"
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.unlink(missing_ok=True)
            descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{text.strip().removesuffix(';').rstrip()};\n")
            os.replace(part, self.directory / f"{name}{_END}")
        except OSError as error:
            raise _not_writable(self.directory, error) from None
        return replaces

    def forget(self, name: str) -> None:
        """Remove a query. Raises ``InterfaceError`` (``unknown_query``, ``file_not_writable``)."""
        path = self.file(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _not_writable(path, error) from None


def _not_writable(path: Path, error: OSError) -> InterfaceError:
    reason = (error.strerror or "not a path").lower()
    return InterfaceError(f"{path} cannot be written: {reason}", code="file_not_writable")
