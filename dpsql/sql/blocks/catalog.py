"""The catalog as statements see it: tables and columns that DESCRIBE shows, and no others.

``information_schema`` and DuckDB's functions of its catalog stand for constants that are written
from the policy and the schema, so that a statement over them reads no table at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from sqlglot import exp, parse_one

from dpsql.core.schema import Schema, Table, fold
from dpsql.core.sql import Sql, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BOOLEAN, INTEGER, VARCHAR, SqlType
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.policy.model import Policy
from dpsql.syntax.dialect import PrivateDuckDB
from dpsql.syntax.text import output_name

MAIN_SCHEMA: Final = "main"
"""The schema that all tables are in, as far as anybody can see."""

_Value: TypeAlias = str | int | bool | None
_Rows: TypeAlias = Iterator[tuple[_Value, ...]]

_TABLES: Final = {
    "table_catalog": VARCHAR,
    "table_schema": VARCHAR,
    "table_name": VARCHAR,
    "table_type": VARCHAR,
}
_COLUMNS: Final = {
    "table_catalog": VARCHAR,
    "table_schema": VARCHAR,
    "table_name": VARCHAR,
    "column_name": VARCHAR,
    "ordinal_position": INTEGER,
    "column_default": VARCHAR,
    "is_nullable": VARCHAR,
    "data_type": VARCHAR,
}
_SCHEMATA: Final = {"catalog_name": VARCHAR, "schema_name": VARCHAR}
_DUCKDB_TABLES: Final = {
    "database_name": VARCHAR,
    "schema_name": VARCHAR,
    "table_name": VARCHAR,
    "internal": BOOLEAN,
    "temporary": BOOLEAN,
    "column_count": INTEGER,
}
_DUCKDB_COLUMNS: Final = {
    "database_name": VARCHAR,
    "schema_name": VARCHAR,
    "table_name": VARCHAR,
    "column_name": VARCHAR,
    "column_index": INTEGER,
    "internal": BOOLEAN,
    "column_default": VARCHAR,
    "is_nullable": BOOLEAN,
    "data_type": VARCHAR,
}


def tables_of_policy(policy: Policy, schema: Schema) -> list[Table]:
    """List the tables that an analyst may name, as the database spells them, by name."""
    return [schema[name] for name in sorted(policy.tables) if name in schema]


def place_catalog(tree: exp.Query, policy: Policy, schema: Schema, catalog: str) -> None:
    """Put constants in the place of the catalog's tables and of its name; ``tree`` is changed.

    ``catalog`` is the database's name, as names of tables may have it in front.
    """
    for asked in list(tree.find_all(exp.CurrentDatabase, exp.CurrentCatalog)):
        named: exp.Expr = exp.Literal.string(catalog)
        if isinstance(asked.parent, exp.Select):
            named = exp.alias_(named, output_name(asked), quoted=True)
        asked.replace(named)
    for table in list(tree.find_all(exp.Table)):
        known = _known(table)
        if known is None:
            continue
        types, rows = known
        alias = table.alias or _name(table)
        constants = exp.Subquery(
            this=parse_one(
                _constants(types, list(rows(catalog, tables_of_policy(policy, schema)))).render(
                    DUCKDB_TEXT
                ),
                dialect=PrivateDuckDB(),
            ),
            alias=table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(alias)),
        )
        for node in constants.this.walk():
            node.meta.clear()  # places in a text that nobody has written
        table.replace(constants)


def _known(
    table: exp.Table,
) -> tuple[Mapping[str, SqlType], Callable[[str, list[Table]], _Rows]] | None:
    """Find the catalog's table behind a reference; None for all other tables."""
    if any(value for part, value in table.args.items() if part not in ("this", "db", "alias")):
        return None
    if isinstance(table.this, exp.Anonymous):
        plain = not table.db and not table.this.expressions
        return _FUNCTIONS.get(_name(table)) if plain else None
    if fold(table.db) != "information_schema":
        return None
    return _VIEWS.get(_name(table))


def _name(table: exp.Table) -> str:
    return fold(table.this.name)


def _constants(types: Mapping[str, SqlType], rows: Sequence[tuple[_Value, ...]]) -> Sql:
    columns = (
        sql("CAST({name} AS {type}) AS {name}", name=quoted(n), type=type_.sql)
        for n, type_ in types.items()
    )
    shown = rows or [(None,) * len(types)]
    values = (sql("({})", join(", ", map(_value, row))) for row in shown)
    listed = sql("listed({})", join(", ", map(quoted, types)))
    made = sql("SELECT {} FROM (VALUES {}) AS {}", join(", ", columns), join(", ", values), listed)
    return made if rows else sql("{} WHERE FALSE", made)


def _value(value: _Value) -> Sql:
    if value is None:
        return sql("NULL")
    if isinstance(value, bool):
        return sql("TRUE") if value else sql("FALSE")
    return literal(value) if isinstance(value, str) else sql("{}", value)


def _tables(catalog: str, tables: list[Table]) -> _Rows:
    for table in tables:
        yield catalog, table.name.schema, table.name.table, "BASE TABLE"


def _columns(catalog: str, tables: list[Table]) -> _Rows:
    for table in tables:
        for place, column in enumerate(table.columns, 1):
            where = (catalog, table.name.schema, table.name.table)
            yield *where, column.name, place, None, "YES", str(column.type)


def _schemata(catalog: str, tables: list[Table]) -> _Rows:
    others = {table.name.schema for table in tables if not table.name.in_main}
    for schema in (MAIN_SCHEMA, *sorted(others)):
        yield catalog, schema


def _duckdb_tables(catalog: str, tables: list[Table]) -> _Rows:
    for table in tables:
        yield catalog, table.name.schema, table.name.table, False, False, len(table.columns)


def _duckdb_columns(catalog: str, tables: list[Table]) -> _Rows:
    for table in tables:
        for place, column in enumerate(table.columns, 1):
            where = (catalog, table.name.schema, table.name.table)
            yield *where, column.name, place, False, None, True, str(column.type)


_VIEWS: Final = {
    "tables": (_TABLES, _tables),
    "columns": (_COLUMNS, _columns),
    "schemata": (_SCHEMATA, _schemata),
}
_FUNCTIONS: Final = {
    "duckdb_tables": (_DUCKDB_TABLES, _duckdb_tables),
    "duckdb_columns": (_DUCKDB_COLUMNS, _duckdb_columns),
}
