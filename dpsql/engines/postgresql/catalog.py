"""The catalog of a PostgreSQL server: version, rights of the role, tables and views.

Only catalogs are read here, by fixed statements. What a role could change is refused: generated SQL
changes nothing, and a role that cannot either is what makes sure of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dpsql.core.catalog import Catalog
from dpsql.core.constraints import ConstraintsOf, ForeignKey, gathered
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column, LeftOut, Remark, Table, fold
from dpsql.core.sql import sql
from dpsql.core.sql_types import UNKNOWN, VARCHAR
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import Definition
from dpsql.engines.base.view_words import AS_TABLE, over_several
from dpsql.engines.evidence.verdicts import EngineVersion
from dpsql.engines.postgresql.definitions import OWN_ADDITIONS
from dpsql.engines.postgresql.reading import duckdb_type
from dpsql.engines.postgresql.views import Ask, ServerParts, read_view, server_parts, view_trees
from dpsql.errors import InterfaceError

OLDEST: Final = 150_000
_SERVER: Final = re.compile(r"PostgreSQL \d+(\.\d+)*(beta\d+|rc\d+)?( \([^)]*\))? on ")
_NOT_REALLY: Final = re.compile(r"redshift|greenplum|-yb-|cockroach|materialize|enterprisedb", re.I)

SETTINGS: Final[Mapping[str, str]] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "search_path": "pg_catalog, pg_temp",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "transform_null_equals": "off",
    "row_security": "off",
    "synchronize_seqscans": "off",
    "jit": "off",
    "lock_timeout": "60s",
    "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "off",
    "client_min_messages": "error",
}
"""The settings of dpsql's sessions, on which meaning or safety depends."""

_ABOUT: Final = """
SELECT version(), current_setting('server_version_num'),
  current_setting('server_encoding'), CAST(current_database() AS TEXT), CAST(current_user AS TEXT)
"""
_ROLE: Final = """
SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication,
  EXISTS (SELECT 1 FROM pg_roles s WHERE s.rolsuper AND pg_has_role(current_user, s.oid, 'MEMBER')),
  EXISTS (SELECT 1 FROM pg_roles s WHERE pg_has_role(current_user, s.oid, 'MEMBER') AND s.rolname IN
    ('pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files',
     'pg_execute_server_program', 'pg_maintain', 'pg_create_subscription')),
  has_database_privilege(current_database(), 'CREATE'),
  has_database_privilege(current_database(), 'TEMP')
FROM pg_roles WHERE rolname = current_user
"""
_CREATES: Final = """
SELECT CAST(nspname AS TEXT) FROM pg_namespace
WHERE nspname !~ '^pg_(toast|temp)' AND has_schema_privilege(oid, 'CREATE') ORDER BY 1
"""
_TABLES: Final = """
SELECT CAST(n.nspname AS TEXT), CAST(c.relname AS TEXT), CAST(c.relkind AS TEXT),
  CAST(c.oid AS BIGINT),
  row_security_active(c.oid),
  has_schema_privilege(n.oid, 'USAGE'),
  has_table_privilege(c.oid, 'INSERT') OR has_table_privilege(c.oid, 'UPDATE')
    OR has_table_privilege(c.oid, 'DELETE') OR has_table_privilege(c.oid, 'TRUNCATE')
    OR has_table_privilege(c.oid, 'TRIGGER') OR has_table_privilege(c.oid, 'REFERENCES')
    OR has_any_column_privilege(c.oid, 'INSERT') OR has_any_column_privilege(c.oid, 'UPDATE'),
  EXISTS (WITH RECURSIVE parts(oid) AS (
    SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = c.oid
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON i.inhparent = p.oid)
    SELECT 1 FROM parts p JOIN pg_class f ON f.oid = p.oid WHERE f.relkind = 'f'),
  c.relkind IN ('r', 'p', 'v') AND has_table_privilege(c.oid, 'SELECT'),
  c.relrowsecurity,
  EXISTS (SELECT 1 FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attgenerated = 'v' AND NOT a.attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'dpsql_ledger')
  AND n.nspname !~ '^pg_(toast|temp)'
ORDER BY 1, 2
"""
_COLUMNS: Final = """
SELECT CAST(a.attrelid AS BIGINT), CAST(a.attname AS TEXT), CAST(t.typname AS TEXT),
  CAST(tn.nspname AS TEXT), format_type(a.atttypid, a.atttypmod),
  coalesce(co.collisdeterministic, TRUE),
  has_column_privilege(a.attrelid, a.attnum, 'SELECT'), CAST(a.attgenerated AS TEXT),
  t.typtype = 'e' AND NOT EXISTS (SELECT 1 FROM pg_cast k
    WHERE k.castsource = t.oid AND k.casttarget = CAST('pg_catalog.text' AS REGTYPE))
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
  JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace tn ON tn.oid = t.typnamespace
  LEFT JOIN pg_collation co ON co.oid = a.attcollation
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
ORDER BY a.attrelid, a.attnum
"""

# A table whose rows are partly its children's is held to nothing by its own keys, and where it is
# partitioned by all of them. Constraints that are NOT VALID, or NOT ENFORCED, are not validated.
_HELD: Final = """
  (c.relkind = 'p' OR c.relkind = 'r'
    AND NOT EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhparent = c.oid))
"""
# A deferrable key may have duplicates while a transaction lasts; an index that is not valid, or is
# of some rows, proves nothing of a column. An expression in an index is no column of any number.
_KEYS: Final = """
SELECT CAST(n.nspname AS TEXT), CAST(c.relname AS TEXT), CAST(a.attname AS TEXT)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
WHERE i.indisunique AND i.indnkeyatts = 1 AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND {held}
ORDER BY 1, 2, 3
"""
_COMBINATIONS: Final = """
SELECT CAST(n.nspname AS TEXT), CAST(c.relname AS TEXT), CAST(i.indexrelid AS TEXT),
  CAST(a.attname AS TEXT), a.attnotnull
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN generate_series(0, i.indnkeyatts - 1) AS p(place)
  LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[p.place]
WHERE i.indisunique AND i.indnkeyatts > 1 AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND {held}
ORDER BY 1, 2, 3, 4
"""
_REFERENCES: Final = """
SELECT CAST(n.nspname AS TEXT), CAST(c.relname AS TEXT), CAST(a.attname AS TEXT),
  CAST(pn.nspname AS TEXT), CAST(p.relname AS TEXT), CAST(pa.attname AS TEXT)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_class p ON p.oid = k.confrelid JOIN pg_namespace pn ON pn.oid = p.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.conkey[1]
  JOIN pg_attribute pa ON pa.attrelid = p.oid AND pa.attnum = k.confkey[1]
WHERE k.contype = 'f' AND k.convalidated AND cardinality(k.conkey) = 1 AND k.conparentid = 0
  AND NOT EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhparent = p.oid AND p.relkind = 'r')
  AND {held}
ORDER BY 1, 2, 3, 4, 5, 6
"""
_CONDITIONS: Final = """
SELECT CAST(n.nspname AS TEXT), CAST(c.relname AS TEXT), pg_get_expr(k.conbin, k.conrelid)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'c' AND k.convalidated AND {held}
ORDER BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class ServerRelation:
    """A table of the server, with the role's rights on it.

    ``lockable``: LOCK TABLE keeps it as it is. ``below`` says why it may not stand below a view.
    """

    table: Table
    oid: int
    kind: str
    writable: bool
    lockable: bool = False
    below: Remark | None = None


@dataclass(frozen=True, slots=True)
class ServerCatalog:
    """The catalog of a server's database."""

    database: str
    relations: Mapping[str, ServerRelation]
    views: Mapping[int, str]
    parts: ServerParts

    @property
    def all(self) -> Catalog:
        """The tables in DuckDB's types."""
        return Catalog.of(*(relation.table for relation in self.relations.values()))

    def is_same(self, other: ServerCatalog, listed: Iterable[str]) -> bool:
        """Tell whether some tables are here what they are in another catalog."""
        return all(
            key in self.relations
            and self.relations[key].table == other.relations[key].table
            and self.definition(self.relations[key].table.name)
            == other.definition(other.relations[key].table.name)
            for key in listed
        )

    def definition(self, name: TableName) -> Definition:
        """Describe a table or view: of views, what they call."""
        found = self.relations[name.key]
        if found.kind != "v":
            return Definition(None)
        several: dict[str, None] = {}
        refusal = self._refusal(found.oid, set(), several)
        if refusal is not None:
            return Definition(refusal)
        return Definition(None, remarks=tuple(map(over_several, several)))

    def _refusal(self, oid: int, seen: set[int], several: dict[str, None]) -> Remark | None:
        """Find a forbidden part of a view, or of views below; note its effects on several rows."""
        if oid in seen:
            return None
        seen.add(oid)
        tree = self.views.get(oid)
        if tree is None:
            found = next((each for each in self.relations.values() if each.oid == oid), None)
            if found is None or found.kind not in ("r", "p", "m", "f"):
                return Remark("reads what is no table of this database", AS_TABLE)
            return found.below
        read = read_view(tree, self.parts)
        several.update(dict.fromkeys(read.several))
        below = (self._refusal(each, seen, several) for each in read.below)
        return read.refusal or next(filter(None, below), None)


def check_server(ask: Ask) -> tuple[str, EngineVersion]:
    """Return the name of the database, and the server's version.

    Raises ``InterfaceError`` for servers of other kinds.
    """
    ((version, number, encoding, database, _),) = ask(sql(_ABOUT))
    if _SERVER.match(version) is None or _NOT_REALLY.search(version):
        raise InterfaceError(
            "the server is no PostgreSQL, or one that was changed",
            code="server_unsupported",
            hint="dpsql asks PostgreSQL 15 or later itself; others answer some things differently.",
        )
    if int(number) < OLDEST:
        raise InterfaceError(
            f"the server is PostgreSQL {int(number) // 10_000}, which is too old",
            code="server_unsupported",
            hint="dpsql asks PostgreSQL 15 or later.",
        )
    if encoding != "UTF8":
        raise InterfaceError(
            f"the database has the encoding {encoding}, whose texts need not be valid",
            code="server_unsupported",
            hint="Copy the tables into a database with ENCODING 'UTF8'.",
        )
    return str(database), EngineVersion.of("postgresql", str(int(number) // 10_000))


def check_role(ask: Ask) -> None:
    """Require a role that can change nothing. Raises ``InterfaceError`` with what to do."""
    ((superuser, roles, databases, replication, above, files, creates, temporary),) = ask(
        sql(_ROLE)
    )
    found = [
        (superuser, "is a superuser", "Connect as a role of its own, made for dpsql."),
        (above, "may become a superuser", "REVOKE that role from it."),
        (roles, "may create roles", "ALTER ROLE … NOCREATEROLE."),
        (databases, "may create databases", "ALTER ROLE … NOCREATEDB."),
        (replication, "may replicate", "ALTER ROLE … NOREPLICATION."),
        (files, "may write all data, or reach files or programs", "REVOKE the pg_… role from it."),
        (creates, "may create schemas", "REVOKE CREATE ON DATABASE … FROM …."),
        (
            not temporary,
            "may not make temporary tables, which questions of several steps need",
            "GRANT TEMP ON DATABASE … TO ….",
        ),
    ]
    schemas = [name for (name,) in ask(sql(_CREATES))]
    if schemas:
        hint = f"REVOKE CREATE ON SCHEMA {schemas[0]} FROM …, and from PUBLIC."
        found.append((True, f"may create tables in the schema {schemas[0]}", hint))
    for wrong, what, hint in found:
        if wrong:
            raise _may(what, hint)


def check_own(ask: Ask) -> None:
    """Require that PostgreSQL's own casts, functions and operators are all there are.

    Generated SQL calls them by names that one of the owner's would take from them.
    """
    for (what,) in ask(sql(OWN_ADDITIONS)):
        raise InterfaceError(
            f"the database has a {what}, which stands in the place of PostgreSQL's own",
            code="server_unsupported",
            hint="Drop it, or copy the tables into a database without it.",
        )


def check_writable(relations: Sequence[ServerRelation]) -> None:
    """Require a role that may read these tables and change none of them."""
    for relation in relations:
        if relation.writable:
            name = relation.table.name
            hint = (
                f"REVOKE ALL ON {name} FROM … and GRANT SELECT ON {name} TO …; it may own nothing."
            )
            raise _may(f"may change the table {name}", hint)


def _may(what: str, hint: str) -> InterfaceError:
    return InterfaceError(
        f"the role that dpsql connects as {what}",
        code="server_privileges",
        hint=f"{hint} It needs CONNECT and TEMP on the database, USAGE on schemas and SELECT on "
        "the tables of the policy, and nothing else.",
    )


def read_catalog(ask: Ask, database: str) -> ServerCatalog:
    """Read the tables of a server, with the columns that dpsql can read."""
    columns: dict[int, list[tuple[Any, ...]]] = {}
    for oid, *column in ask(sql(_COLUMNS)):
        columns.setdefault(int(oid), []).append(tuple(column))
    relations: dict[str, ServerRelation] = {}
    for schema, name, kind, oid, secured, usable, writable, foreign, *more in ask(sql(_TABLES)):
        lockable, policies, computed = more
        reason = _unreadable(
            name, schema, kind, database, secured=secured, usable=usable, foreign=foreign
        )
        table = _table(TableName(name, _schema(schema)), kind, columns.get(int(oid), ()), reason)
        key = table.name.key
        if key in relations:  # told apart by the case of letters alone, which analysts cannot
            table = _refused(relations[key].table, _ALIKE)
        below = None
        if kind == "f" or foreign:
            below = Remark("reads what another server keeps, wholly or in part", AS_TABLE)
        elif policies:
            below = Remark("reads a table with row-level security", AS_TABLE)
        elif computed:
            below = Remark(
                "reads a table with columns that are computed when they are read", AS_TABLE
            )
        relations[key] = ServerRelation(
            table, int(oid), kind, bool(writable), bool(lockable), below
        )
    views = view_trees(ask)
    return ServerCatalog(database, relations, views, server_parts(ask, views.values()))


def server_constraints(ask: Ask) -> ConstraintsOf:
    """Read the constraints that the server holds all committed rows of tables to."""
    held = sql(_HELD)
    return gathered(
        [
            (TableName(name, _schema(schema)), column)
            for schema, name, column in ask(sql(_KEYS, held=held))
        ],
        [
            (
                TableName(name, _schema(schema)),
                ForeignKey(column, TableName(parent, _schema(above)), key),
            )
            for schema, name, column, above, parent, key in ask(sql(_REFERENCES, held=held))
        ],
        [
            (TableName(name, _schema(schema)), text)
            for schema, name, text in ask(sql(_CONDITIONS, held=held))
        ],
        _combinations(ask(sql(_COMBINATIONS, held=held))),
    )


def _combinations(
    rows: Iterable[tuple[Any, ...]],
) -> Iterator[tuple[TableName, frozenset[str]]]:
    """Yield the columns of each unique index of several, none of them an expression or NULL."""
    columns: dict[tuple[str, str, str], list[str | None]] = {}
    for schema, name, index, column, filled in rows:
        columns.setdefault((schema, name, index), []).append(column if filled else None)
    for (schema, name, _), found in columns.items():
        plain = frozenset(column for column in found if column is not None)
        if len(plain) == len(found):
            yield TableName(name, _schema(schema)), plain


def _schema(name: str) -> str:
    return "main" if name == "public" else name


_ALIKE: Final = Remark("has the name of another but for the case of letters", "Rename one of them.")
_OF_THE_TWIN: Final = frozenset({"pg_catalog", "information_schema", "memory", "system", "temp"})
_EMPTY: Final = Remark("has no column that dpsql can read", "Leave it out of the policy.")


def _unreadable(
    name: str, schema: str, kind: str, database: str, *, secured: bool, usable: bool, foreign: bool
) -> Remark | None:
    if fold(name).startswith(INTERNAL_PREFIX) or fold(schema).startswith(INTERNAL_PREFIX):
        reason = f"has a name that begins with {INTERNAL_PREFIX}, which is reserved"
        return Remark(reason, "Rename it.")
    if fold(schema) in _OF_THE_TWIN:
        return Remark(
            "is in a schema that is called like one of DuckDB's own", "Rename the schema."
        )
    if fold(schema) == "main":
        return Remark("is in a schema called main, which stands for public", "Rename the schema.")
    if fold(schema) == fold(database):
        return Remark("is in a schema with the name of the database", "Rename the schema.")
    if not usable:
        return Remark(
            "is in a schema that the role may not use", f"GRANT USAGE ON SCHEMA {schema} TO …."
        )
    if kind == "f" or foreign:
        return Remark("is kept by another server, wholly or in part", "Store its rows as a table.")
    if secured:
        return Remark(
            "has row-level security for the role: which rows there are depends on who asks",
            "Let the role see all rows by a policy of its own table, or grant BYPASSRLS.",
        )
    return None


def _table(
    name: TableName, kind: str, found: Sequence[tuple[Any, ...]], reason: Remark | None
) -> Table:
    columns: list[Column] = []
    left_out: list[LeftOut] = []
    for column, problem in _columns(found):
        if problem is None:
            columns.append(column)
        else:
            left_out.append(LeftOut(column.name, problem))
    kept = () if reason is not None else tuple(columns)
    if reason is None and not columns:
        reason = _EMPTY
    return Table(name, kept, kind == "v", reason, tuple(left_out))


def _columns(found: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Column, str | None]]:
    """Yield columns, and why they are left out if they are."""
    seen: set[str] = set()
    for name, type_, namespace, shown, deterministic, readable, generated, listed in found:
        known = duckdb_type(type_, shown) if namespace == "pg_catalog" else None
        if listed:  # an enum, which no cast of the owner's makes text
            known = VARCHAR
        problem = None
        if not readable:
            problem = "the role may not read it"
        elif known is None:
            problem = (
                f"dpsql has no equal of the type {shown if namespace == 'pg_catalog' else type_}"
            )
        elif not deterministic:
            problem = "its collation makes different texts equal"
        elif generated == "v":
            problem = "it is computed when it is read"
        elif fold(name).startswith(INTERNAL_PREFIX):
            problem = f"its name begins with {INTERNAL_PREFIX}, which is reserved"
        elif fold(name) in seen:
            problem = "its name is that of another but for the case of letters"
        seen.add(fold(name))
        yield Column(name, known or UNKNOWN, enumerated=bool(listed)), problem


def _refused(table: Table, reason: Remark) -> Table:
    return Table(table.name, (), table.is_view, reason)
