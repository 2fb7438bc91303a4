"""Catalogs of a server: statements over them, and rooms for these."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from dpsql import __version__
from dpsql.errors import Error, NotSupportedError
from dpsql.policy.model import Policy
from dpsql.server.audit import LOG
from dpsql.server.catalog.asking import CatalogAsking
from dpsql.server.catalog.macros import CATALOG_FUNCTIONS
from dpsql.server.catalog.room import CatalogRoom
from dpsql.server.catalog.room_process import CatalogAnswer
from dpsql.server.catalog.structure import structure
from dpsql.server.wire.probes import SERVER_VERSION
from dpsql.server.wire.values import ARRAY_PARAMETERS, ARRAYS, PARAMETER_TYPES
from dpsql.service.session import Dataset
from dpsql.syntax.catalog_spelling import (
    CatalogNames,
    CatalogQuery,
    CatalogSpeaker,
    catalog_query,
    may_be_catalog_query,
    shape_of,
)

VERSION_TEXT: Final = f"PostgreSQL {SERVER_VERSION} (dpsql {__version__})"
_KEPT: Final = 128
_LONGEST_KEPT: Final = 8_000  # characters: what tools send is shorter, and all users share the room
_LONGEST_SHAPE: Final = 2_000


class Catalogs:
    """The catalogs of the dataset that is ``served`` now, for all users. Safe for threads."""

    def __init__(self, served: Callable[[], Dataset]) -> None:
        self._served = served
        self._of: Dataset | None = None
        self._rooms: list[tuple[Policy, CatalogRoom]] = []
        self._lock = threading.Lock()

    def reader(self, user: str, account: str) -> CatalogReader:
        """Make the reader of a user who asks for an account."""
        return CatalogReader(self, user, account)

    @property
    def dataset(self) -> Dataset:
        """The dataset that is served at present."""
        return self._served()

    def room(self, policy: Policy) -> CatalogRoom:
        """Return the room of a policy: the same for all that list the same tables alike."""
        with self._lock:
            dataset = self._served()
            if dataset is not self._of:
                self._close_rooms()
                self._of = dataset
            for other, room in self._rooms:
                if other.tables == policy.tables:
                    return room
            room = CatalogRoom(structure(), policy, dataset.engine.schema)
            self._rooms.append((policy, room))
            return room

    def _close_rooms(self) -> None:
        for _, room in self._rooms:
            room.close()
        self._rooms.clear()

    def close(self) -> None:
        """Close all rooms."""
        with self._lock:
            self._close_rooms()


@dataclass(frozen=True, slots=True)
class CatalogView:
    """What an account sees of an edition of the dataset."""

    dataset: Dataset
    policy: Policy
    names: CatalogNames

    @classmethod
    def of(cls, dataset: Dataset, account: str) -> CatalogView:
        """Return what an account sees. Raises ``UnknownName`` if there is no such account."""
        policy = dataset.policy.of_account(account)
        tables = frozenset(policy.tables)
        return cls(dataset, policy, CatalogNames(structure().names, CATALOG_FUNCTIONS, tables))


class CatalogReader:
    """One user's way to the catalogs."""

    def __init__(self, catalogs: Catalogs, user: str, account: str) -> None:
        self._catalogs = catalogs
        self._account = account
        self._view: CatalogView | None = None
        self._speaker = CatalogSpeaker(user, catalogs.dataset.policy.dataset, VERSION_TEXT)
        self._asking: CatalogAsking | None = None

    def _current(self) -> CatalogView:
        """Return what the account sees now: the dataset may have been opened again."""
        dataset = self._catalogs.dataset
        view = self._view
        if view is None or view.dataset is not dataset:
            self._view = view = CatalogView.of(dataset, self._account)
        return view

    @staticmethod
    def may_read(text: str) -> bool:
        """Tell quickly whether a statement may be one over catalogs."""
        return may_be_catalog_query(text)

    def read(self, text: str) -> CatalogStatement | None:
        """Read a statement over catalogs; None for all others.

        Raises ``NotSupportedError`` for one that mixes them with other tables.
        """
        try:
            read = _read if len(text) <= _LONGEST_KEPT else catalog_query
            query = read(text, self._current().names)
        except Error:
            _log(text)
            raise
        return None if query is None else CatalogStatement(self, text, query)

    def interrupt(self) -> None:
        """End the query that another thread asks; it fails. For other threads to call."""
        asking = self._asking
        if asking is not None:
            asking.stop()

    def ask(
        self,
        statement: CatalogStatement,
        values: Sequence[object] | None,
        seconds: float,
        *,
        rows: bool,
    ) -> CatalogAnswer:
        """Answer a statement, or describe its columns where no ``rows`` are wanted.

        ``seconds`` are the client's limit, 0 for none. Raises ``NotSupportedError`` for what cannot
        be answered, and ``EngineError`` where it was interrupted.
        """
        self._asking = asking = CatalogAsking(seconds)
        try:
            room = self._catalogs.room(self._current().policy)
            return room.ask(self._written(statement, values), asking, rows=rows)
        except NotSupportedError:
            _log(statement.text)
            raise
        finally:
            self._asking = None

    def _written(self, statement: CatalogStatement, values: Sequence[object] | None) -> str:
        """Write a statement, with its values, for the room."""
        known = _Values(values)
        if len(statement.text) > _LONGEST_KEPT or known.size > _LONGEST_KEPT:
            return statement.query.spelled(values, self._speaker)
        return _written(statement.query, known, self._speaker)


@dataclass(frozen=True, slots=True)
class CatalogStatement:
    """A statement over catalogs alone, for one user."""

    reader: CatalogReader
    text: str
    query: CatalogQuery

    @property
    def parameters(self) -> tuple[int, ...]:
        """The OIDs of the types of its parameters, 0 where nothing tells."""
        return tuple(map(_oid_of, self.query.parameters))

    def describe(self, values: Sequence[object] | None, seconds: float = 0.0) -> CatalogAnswer:
        """Describe the columns of its answer, without rows: it is planned, and does not run.

        ``values`` are None if they are not known yet; ``seconds`` are the client's limit.
        """
        return self.reader.ask(self, values, seconds, rows=False)

    def answer(self, values: Sequence[object], seconds: float = 0.0) -> CatalogAnswer:
        """Answer it with values for its parameters, within the client's ``seconds`` if any."""
        return self.reader.ask(self, values, seconds, rows=True)


class _Values:
    """Values of parameters, equal to others only where their types are equal as well."""

    def __init__(self, values: Sequence[object] | None) -> None:
        self.values = values
        self._key = None if values is None else repr(tuple(values))

    @property
    def size(self) -> int:
        """About how long the values are as text."""
        return len(self._key or "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Values) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(_KEPT)
def _read(text: str, names: CatalogNames) -> CatalogQuery | None:
    return catalog_query(text, names)


@lru_cache(_KEPT)
def _written(query: CatalogQuery, values: _Values, speaker: CatalogSpeaker) -> str:
    return query.spelled(values.values, speaker)


def _oid_of(kind: str) -> int:
    """Return the OID of a type by any of its names; 0 for none. Lists of numbers are of OIDs."""
    if kind == "bigint[]":
        return ARRAYS[_OID]
    name = _ALIASES.get(kind.removesuffix("[]"), kind.removesuffix("[]"))
    base = _oids().get(name, 0)
    found = ARRAYS.get(base, 0) if kind.endswith("[]") else base
    return found if found in PARAMETER_TYPES or found in ARRAY_PARAMETERS else 0


_OID: Final = 26
_ALIASES: Final = {"int": "int4", "decimal": "numeric", "double": "float8"}


@cache
def _oids() -> dict[str, int]:
    rows = structure().rows
    found = {str(row[1]): row[0] for row in (*rows["formats"], *rows["pg_type"])}
    return {name: oid for name, oid in found.items() if isinstance(oid, int)}


def _log(text: str) -> None:
    """Log a query over catalogs that was not answered, without the values in it."""
    shape = "".join(c if c.isprintable() else " " for c in shape_of(text))
    LOG.warning("not answered: %s", shape[:_LONGEST_SHAPE])
