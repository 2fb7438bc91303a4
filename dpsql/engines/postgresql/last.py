"""The last reading on PostgreSQL: statements are checked as the server has analysed them.

The statement becomes the body of a function in the session's own temporary schema, of which the
catalog has the analysed tree: relations, functions and operators by number, before anything is
planned, with views as one relation each. The function is dropped in the same transaction and never
called. As definitions may change on a server, every statement is read each time it is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, join, literal, name, sql
from dpsql.engines.base.engine import GivenValues, Reads
from dpsql.engines.postgresql.trees import (
    BUILT_IN,
    TREE_FORMS,
    KnownNumbers,
    TreeForms,
    UnknownTree,
    relations_read,
)
from dpsql.errors import EngineError

Asking: TypeAlias = "Callable[[Sql], list[tuple[Any, ...]]]"
_READ: Final = f"{INTERNAL_PREFIX}read"


class Asked(Protocol):
    """A session of the server's, in whose transaction statements are read."""

    def ask(self, statement: Sql) -> list[tuple[Any, ...]]:
        """Run a fixed statement over the catalogs."""

    def run(self, statement: Sql) -> None:
        """Run a statement without rows."""


class ServerReading:
    """Reads statements on one server; ``count`` says how many."""

    def __init__(self, forms: TreeForms = TREE_FORMS) -> None:
        self._forms = forms
        self._known: KnownNumbers | None = None
        self.count = 0

    def over(self, reads: Reads, session: Callable[[], Asked]) -> ServerSheet:
        """Return the last reading for statements over these tables, in a session's transaction."""
        return ServerSheet(self, reads, session)

    def relations(self, ask: Asking, tree: str) -> Counter[str]:
        """Return the numbers of relations that a tree scans. Raises ``UnknownTree``."""
        self.count += 1
        if self._known is None:
            self._known = _known(ask, self._forms)
        return relations_read(tree, self._known, self._forms)


class ServerSheet:
    """The last reading of one question's statements over some tables, in its transaction."""

    def __init__(self, reading: ServerReading, reads: Reads, session: Callable[[], Asked]) -> None:
        self._reading = reading
        self._session = session
        self._tables = Counter(
            ("public" if table.in_main else table.schema, table.table) for table in reads.tables
        )
        self._stored: set[str] = set()
        self.objected = False

    def read(self, statement: Sql, given: GivenValues = ()) -> None:
        """Read a statement. Raises ``EngineError`` for what it may not be."""
        session = self._session()
        types = join(", ", (_type_of(value) for value in given))
        made = sql(
            "CREATE FUNCTION pg_temp.{}({}) RETURNS SETOF record LANGUAGE sql BEGIN ATOMIC {}; END",
            name(_READ),
            types,
            statement,
        )
        session.run(made)
        bodies = session.ask(
            sql(
                "SELECT prosqlbody::text FROM pg_catalog.pg_proc "
                "WHERE proname = {} AND pronamespace = pg_catalog.pg_my_temp_schema()",
                literal(_READ),
            )
        )
        session.run(sql("DROP FUNCTION pg_temp.{}({})", name(_READ), types))
        if not self._is_known(session.ask, bodies):
            self.objected = True
            raise EngineError()

    def _is_known(self, ask: Asking, bodies: list[tuple[Any, ...]]) -> bool:
        if len(bodies) != 1 or not isinstance(bodies[0][0], str):
            return False
        try:
            found = self._reading.relations(ask, bodies[0][0])
        except (UnknownTree, RecursionError):
            return False
        names = self._names(ask, found)
        if names is None:
            return False
        return not names or names == self._tables

    def _names(self, ask: Asking, found: Counter[str]) -> Counter[tuple[str, str]] | None:
        """Name the relations of the owner's; None if there is any of another kind."""
        if not found:
            return Counter()
        numbers = join(", ", (sql("{}", int(number)) for number in sorted(found)))
        rows = ask(
            sql(
                "SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, "
                "n.oid = pg_catalog.pg_my_temp_schema() FROM pg_catalog.pg_class AS c "
                "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid IN ({})",
                numbers,
            )
        )
        if len(rows) != len(found):
            return None
        named: Counter[tuple[str, str]] = Counter()
        for number, schema, table, _, temporary in rows:
            if not temporary:
                named[schema, table] += found[str(number)]
            elif table not in self._stored:
                return None
        return named

    def stored(self, name: str, statement: Sql, given: GivenValues = ()) -> None:
        """Record that the rows of a statement have been stored as a table."""
        self._stored.add(name)

    def dropped(self, name: str) -> None:
        """Forget a stored table."""
        self._stored.discard(name)


def _type_of(value: int | list[int]) -> Sql:
    return sql("bigint") if isinstance(value, int) else sql("bigint[]")


def _known(ask: Asking, forms: TreeForms) -> KnownNumbers:
    """Look up the numbers of the listed functions and operators that came with the server."""
    called = join(", ", map(literal, sorted(forms.called)))
    functions = ask(
        sql(
            "SELECT oid::bigint FROM pg_catalog.pg_proc WHERE pronamespace = "
            "'pg_catalog'::pg_catalog.regnamespace AND oid < {} AND proname IN ({})",
            BUILT_IN,
            called,
        )
    )
    signs = join(", ", map(literal, sorted(forms.operators)))
    operators = ask(
        sql(
            "SELECT oid::bigint, oprcode::oid::bigint FROM pg_catalog.pg_operator WHERE "
            "oprnamespace = 'pg_catalog'::pg_catalog.regnamespace AND oid < {} "
            "AND oprname IN ({})",
            BUILT_IN,
            signs,
        )
    )
    return KnownNumbers(
        frozenset(str(number) for (number,) in functions),
        {str(number): str(function) for number, function in operators},
    )
