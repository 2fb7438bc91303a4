"""Which questions this shell has had answered: asked again they are free, and need no asking."""

from __future__ import annotations

from typing import Any, TypeAlias

from dpsql.record import read_record
from dpsql.result import Result
from dpsql.schema import fold
from dpsql.shell.source import Source

_Key: TypeAlias = tuple[str, tuple[tuple[Any, ...], ...]]


class Given:
    """The fingerprints of answered statements, each under the parameters it was asked with."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._fingerprints: dict[_Key, str] = {}

    def note(self, text: str, result: Result) -> None:
        """Remember a statement that was just answered, if the ledger kept its answer."""
        if not result.released or result.cost.stored:
            return
        for entry in self._source.ledger.history(self._source.payer.path, 1):
            if entry.stored and read_record(entry.plan).statement == text:
                self._fingerprints[self._key(text)] = entry.query

    def free(self, text: str) -> bool:
        """True if a statement would be answered from the ledger, at no cost."""
        fingerprint = self._fingerprints.get(self._key(text))
        if fingerprint is None or "fresh" in fold(text):  # OPTIONS (fresh = true) pays anew
            return False
        return self._source.ledger.stored(self._source.payer.analyst, fingerprint) is not None

    def _key(self, text: str) -> _Key:
        parameters = self._source.connection.sql("SHOW PARAMETERS").fetchall()
        return text, tuple(parameters)
