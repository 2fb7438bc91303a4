"""Rows of the catalogs, from a policy and the schema of its tables alone.

No size, no count and no statistic is among them: these would be answers about private rows that
nobody has paid for. OIDs follow from names, so they are the same after each start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dpsql.core.schema import Column, Schema, Table, fold
from dpsql.policy.model import ColumnPolicy, Policy, TablePolicy
from dpsql.server.catalog.constraints import CatalogKey, CatalogReference, declared_keys
from dpsql.server.catalog.structure import INFORMATION_SCHEMA, PG_CATALOG, Structure
from dpsql.server.wire.probes import SHOWN_SETTINGS
from dpsql.server.wire.values import wire_type

CATALOG_OWNER: Final = "owner"
OWNER_OID, USER_OID = 10, 16_384
USER_NAME: Final = ""
"""Stands for the name of whoever asks: rooms are the same for many users."""
PUBLIC_OF_CATALOGS: Final = "public"
_FIRST_OID: Final = 20_000
_OIDS: Final = 2**31 - 1 - _FIRST_OID
_PG_CLASS, _PG_NAMESPACE = 1259, 2615
_PUBLIC_OID, _HEAP, _BTREE, _TABLESPACE, _DEFAULT_COLLATION = 2200, 2, 403, 1663, 100
_TEXT_OIDS: Final = frozenset({19, 25, 1042, 1043})
_UTF8: Final = 6
_MOST_VALUES: Final = 20
_NAMES: Final = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
}
"""The names that the standard has for types, where PostgreSQL's own are others."""

CatalogFields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table of the policy, as the catalogs list it."""

    oid: int
    schema: str
    schema_oid: int
    name: str
    policy: TablePolicy
    table: Table

    @property
    def type_oid(self) -> int:
        """The OID of the type of its rows, which nothing has."""
        return 0


def oids_of(names: Iterable[str]) -> dict[str, int]:
    """Return a number for each name: the same whatever other names there are, but for accidents."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(set(names)):
        digest = hashlib.sha256(name.encode()).digest()
        oid = int.from_bytes(digest[:8]) % _OIDS
        while oid in taken:
            oid = (oid + 1) % _OIDS
        taken.add(oid)
        found[name] = _FIRST_OID + oid
    return found


def listed_tables(policy: Policy, schema: Schema) -> tuple[CatalogTable, ...]:
    """List the tables of a policy with their OIDs."""
    schemas = {
        fold(each.name.schema): each.name.schema
        for each in policy.tables.values()
        if not each.name.in_main
    }
    numbers = oids_of([f"schema {key}" for key in schemas] + [f"table {t}" for t in policy.tables])
    found = []
    for key, table in policy.tables.items():
        if key not in schema:
            continue
        name = PUBLIC_OF_CATALOGS if table.name.in_main else schemas[fold(table.name.schema)]
        number = _PUBLIC_OID if table.name.in_main else numbers[f"schema {fold(name)}"]
        oid = numbers[f"table {key}"]
        found.append(CatalogTable(oid, name, number, schema[key].name.table, table, schema[key]))
    return tuple(found)


def catalog_rows(
    structure: Structure, policy: Policy, schema: Schema
) -> dict[tuple[str, str], list[CatalogFields]]:
    """Return the rows of each relation that has any, as the values of some of its columns."""
    tables = listed_tables(policy, schema)
    constraints = _Constraints.of(policy, tables)
    schemas = {PUBLIC_OF_CATALOGS: _PUBLIC_OID} | {t.schema: t.schema_oid for t in tables}
    of_catalog: dict[str, list[CatalogFields]] = {
        "pg_namespace": [
            {"oid": oid, "nspname": name, "nspowner": OWNER_OID}
            for name, oid in schemas.items()
            if name != PUBLIC_OF_CATALOGS
        ],
        "pg_class": [
            *(_class_row(each, constraints) for each in tables),
            *_index_classes(constraints),
            *_system_classes(structure),
        ],
        "pg_index": [*_indexes(constraints)],
        "pg_constraint": [*_constraint_rows(constraints)],
        "pg_attribute": [
            *_attributes(tables),
            *_index_attributes(constraints),
            *_system_attributes(structure),
        ],
        "pg_description": [*_descriptions(policy, tables)],
        "pg_roles": [*_roles()],
        "pg_user": [{"usename": row["rolname"], "usesysid": row["oid"]} for row in _roles()],
        "pg_authid": [*_roles()],
        "pg_settings": [*_settings()],
        "pg_database": [_database(policy)],
        "pg_tables": [
            {"schemaname": t.schema, "tablename": t.name, "tableowner": CATALOG_OWNER}
            for t in tables
        ],
        "pg_stat_user_tables": [
            {"relid": t.oid, "schemaname": t.schema, "relname": t.name} for t in tables
        ],
    }
    of_standard: dict[str, list[CatalogFields]] = {
        "information_schema_catalog_name": [{"catalog_name": policy.dataset}],
        "schemata": [
            {"catalog_name": policy.dataset, "schema_name": name, "schema_owner": CATALOG_OWNER}
            for name in (*schemas, PG_CATALOG, INFORMATION_SCHEMA)
        ],
        "tables": [*_standard_tables(policy.dataset, tables)],
        "columns": [*_standard_columns(policy.dataset, tables)],
        "table_constraints": [*_standard_constraints(policy.dataset, constraints)],
        "key_column_usage": [*_standard_key_columns(policy.dataset, constraints)],
        "referential_constraints": [*_standard_references(policy.dataset, constraints)],
        "table_privileges": [*_grants(policy.dataset, tables)],
        "role_table_grants": [*_grants(policy.dataset, tables)],
        "enabled_roles": [{"role_name": USER_NAME}],
    }
    found = {(PG_CATALOG, name): rows for name, rows in of_catalog.items()}
    return found | {(INFORMATION_SCHEMA, name): rows for name, rows in of_standard.items()}


def _class_row(table: CatalogTable, constraints: _Constraints) -> CatalogFields:
    key = table.policy.name.key
    return {
        "relhasindex": any(each.table == key for each in constraints.keys),
        # Tools look for references where there are triggers: PostgreSQL keeps them by these.
        "relhastriggers": any(key in (r.table, r.key.table) for r in constraints.references),
        "oid": table.oid,
        "relname": table.name,
        "relnamespace": table.schema_oid,
        "reltype": table.type_oid,
        "relowner": OWNER_OID,
        "relam": _HEAP,
        "reltuples": -1,
        "relpersistence": "p",
        "relkind": "r",
        "relnatts": len(table.table.columns),
        "relispopulated": True,
        "relreplident": "d",
    }


def _system_classes(structure: Structure) -> Iterator[CatalogFields]:
    spaces = {row[1]: row[0] for row in structure.rows["pg_namespace"]}
    for each in structure.system:
        yield {
            "oid": each.oid,
            "relname": each.name,
            "relnamespace": spaces[each.schema],
            "relowner": OWNER_OID,
            "relam": _HEAP if each.kind == "r" else 0,
            "reltuples": -1,
            "relpersistence": "p",
            "relkind": each.kind,
            "relnatts": len(structure.relations[each.schema, each.name]),
            "relispopulated": True,
            "relreplident": "n",
        }


def _attributes(tables: Iterable[CatalogTable]) -> Iterator[CatalogFields]:
    for table in tables:
        for place, column in enumerate(table.table.columns, 1):
            yield _column_attribute(table.oid, place, column)


def _column_attribute(relation: int, place: int, column: Column) -> CatalogFields:
    type_ = wire_type(str(column.type))
    return _attribute(relation, place, column.name, type_.oid, type_.size, _modifier(column))


def _modifier(column: Column) -> int:
    """Return PostgreSQL's number for the digits of a decimal; -1 for other types."""
    if not column.type.is_decimal:
        return -1
    width, scale = column.type.digits
    return (width << 16 | scale) + 4


def _attribute(
    relation: int, place: int, name: str, type_: int, size: int, modifier: int = -1
) -> CatalogFields:
    return {
        "attrelid": relation,
        "attname": name,
        "atttypid": type_,
        "attlen": size,
        "attnum": place,
        "attcacheoff": -1,
        "attstattarget": -1,
        "atttypmod": modifier,
        "attbyval": size > 0,
        "attalign": "i",
        "attstorage": "x" if size < 0 else "p",
        "attislocal": True,
        "attcollation": _DEFAULT_COLLATION if type_ in _TEXT_OIDS else 0,
    }


def _system_attributes(structure: Structure) -> Iterator[CatalogFields]:
    types = {row[1]: (row[0], row[4]) for row in structure.rows["pg_type"]}
    for each in structure.system:
        for place, column in enumerate(structure.relations[each.schema, each.name], 1):
            oid, size = types.get(column.type, types["text"])
            assert isinstance(oid, int)
            assert isinstance(size, int)
            yield _attribute(each.oid, place, column.name, oid, size)


# -- constraints --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Constraints:
    """The declared keys and references, with their tables and OIDs."""

    tables: Mapping[str, CatalogTable]
    keys: tuple[CatalogKey, ...]
    references: tuple[CatalogReference, ...]
    oids: Mapping[str, int]

    @classmethod
    def of(cls, policy: Policy, tables: Iterable[CatalogTable]) -> _Constraints:
        known = {each.policy.name.key: each for each in tables}
        keys, references = declared_keys(policy, {key: t.table for key, t in known.items()})
        every: tuple[CatalogKey | CatalogReference, ...] = (*keys, *references)
        listed = [f"index {one.table}.{one.name}" for one in keys]
        listed += [f"constraint {one.table}.{one.name}" for one in every]
        return cls(known, keys, references, oids_of(listed))

    @property
    def all(self) -> tuple[CatalogKey | CatalogReference, ...]:
        return *self.keys, *self.references

    def index(self, key: CatalogKey) -> int:
        return self.oids[f"index {key.table}.{key.name}"]

    def number(self, one: CatalogKey | CatalogReference) -> int:
        return self.oids[f"constraint {one.table}.{one.name}"]


def _index_classes(constraints: _Constraints) -> Iterator[CatalogFields]:
    for key in constraints.keys:
        yield {
            "oid": constraints.index(key),
            "relname": key.name,
            "relnamespace": constraints.tables[key.table].schema_oid,
            "relowner": OWNER_OID,
            "relam": _BTREE,
            "reltuples": -1,
            "relpersistence": "p",
            "relkind": "i",
            "relnatts": len(key.places),
            "relispopulated": True,
            "relreplident": "n",
        }


def _index_attributes(constraints: _Constraints) -> Iterator[CatalogFields]:
    for key in constraints.keys:
        columns = constraints.tables[key.table].table.columns
        for number, place in enumerate(key.places, 1):
            yield _column_attribute(constraints.index(key), number, columns[place - 1])


def _indexes(constraints: _Constraints) -> Iterator[CatalogFields]:
    for key in constraints.keys:
        yield {
            "indexrelid": constraints.index(key),
            "indrelid": constraints.tables[key.table].oid,
            "indnatts": len(key.places),
            "indnkeyatts": len(key.places),
            "indisunique": True,
            "indisprimary": key.primary,
            "indimmediate": True,
            "indisvalid": True,
            "indisready": True,
            "indislive": True,
            "indkey": list(key.places),
            "indcollation": [0 for _ in key.places],
            "indclass": [0 for _ in key.places],
            "indoption": [0 for _ in key.places],
        }


def _constraint_rows(constraints: _Constraints) -> Iterator[CatalogFields]:
    for one in constraints.all:
        table = constraints.tables[one.table]
        found: dict[str, object] = {
            "oid": constraints.number(one),
            "conname": one.name,
            "connamespace": table.schema_oid,
            "convalidated": True,
            "conrelid": table.oid,
            "conislocal": True,
            "connoinherit": True,
            "conkey": list(one.places),
        }
        if isinstance(one, CatalogKey):
            found |= {"contype": "p" if one.primary else "u", "conindid": constraints.index(one)}
        else:
            found |= {
                "contype": "f",
                "conindid": constraints.index(one.key),
                "confrelid": constraints.tables[one.key.table].oid,
                "confupdtype": "a",
                "confdeltype": "a",
                "confmatchtype": "s",
                "confkey": list(one.parent_places),
            }
        yield found


def _standard_constraint(
    dataset: str, constraints: _Constraints, one: CatalogKey | CatalogReference
) -> CatalogFields:
    table = constraints.tables[one.table]
    return {
        "constraint_catalog": dataset,
        "constraint_schema": table.schema,
        "constraint_name": one.name,
        "table_catalog": dataset,
        "table_schema": table.schema,
        "table_name": table.name,
    }


def _standard_constraints(dataset: str, constraints: _Constraints) -> Iterator[CatalogFields]:
    for one in constraints.all:
        kind = "FOREIGN KEY"
        if isinstance(one, CatalogKey):
            kind = "PRIMARY KEY" if one.primary else "UNIQUE"
        yield {
            **_standard_constraint(dataset, constraints, one),
            "constraint_type": kind,
            "is_deferrable": "NO",
            "initially_deferred": "NO",
            "enforced": "YES",
        }


def _standard_key_columns(dataset: str, constraints: _Constraints) -> Iterator[CatalogFields]:
    for one in constraints.all:
        columns = constraints.tables[one.table].table.columns
        for number, place in enumerate(one.places):
            within = None
            if isinstance(one, CatalogReference):
                within = one.key.places.index(one.parent_places[number]) + 1
            yield {
                **_standard_constraint(dataset, constraints, one),
                "column_name": columns[place - 1].name,
                "ordinal_position": number + 1,
                "position_in_unique_constraint": within,
            }


def _standard_references(dataset: str, constraints: _Constraints) -> Iterator[CatalogFields]:
    for one in constraints.references:
        yield {
            "constraint_catalog": dataset,
            "constraint_schema": constraints.tables[one.table].schema,
            "constraint_name": one.name,
            "unique_constraint_catalog": dataset,
            "unique_constraint_schema": constraints.tables[one.key.table].schema,
            "unique_constraint_name": one.key.name,
            "match_option": "NONE",
            "update_rule": "NO ACTION",
            "delete_rule": "NO ACTION",
        }


# -- descriptions -------------------------------------------------------------------------------


def _descriptions(policy: Policy, tables: Iterable[CatalogTable]) -> Iterator[CatalogFields]:
    for table in tables:
        told = {0: described_table(policy, table.policy)}
        for place, column in enumerate(table.table.columns, 1):
            told[place] = described_column(policy, table.policy, column)
        for place, text in told.items():
            if text:
                yield {
                    "objoid": table.oid,
                    "classoid": _PG_CLASS,
                    "objsubid": place,
                    "description": text,
                }


def described_table(policy: Policy, table: TablePolicy) -> str:
    """Say what a table protects."""
    if table.public:
        return "public"
    unit = policy.unit_of(table)
    assert unit is not None
    rows = f", at most {table.rows_per_unit} rows of each" if table.rows_per_unit else ""
    return f"private: protects each {unit.name}{rows}"


def described_column(policy: Policy, table: TablePolicy, column: Column) -> str:
    """Say what the policy declares about a column, if anything."""
    found = []
    unit = table.privacy_unit
    if unit is not None and fold(unit.column) == fold(column.name):
        found.append(f"privacy unit: {unit.name}")
    for link in table.links:
        for own, parent in link.pairs:
            if fold(own) == fold(column.name):
                found.append(f"link to {link.parent}.{parent}")
    declared = table.column(column.name)
    if declared is not None:
        found += _declared(declared, policy.unit_name(table))
    return ", ".join(found)


def _declared(declared: ColumnPolicy, unit: str | None) -> Iterator[str]:
    if declared.lower is not None:
        yield f"{declared.lower} to {declared.upper}"
    if declared.domain is not None:
        values = [str(value) for value in declared.domain[:_MOST_VALUES]]
        more = ["…"] if len(declared.domain) > _MOST_VALUES else []
        yield f"one of: {', '.join(values + more)}"
    if declared.one_per_unit and unit is not None:
        yield f"one value per {unit}"


# -- the server itself --------------------------------------------------------------------------


def _roles() -> Iterator[CatalogFields]:
    for name, oid in ((CATALOG_OWNER, OWNER_OID), (USER_NAME, USER_OID)):
        yield {
            "oid": oid,
            "rolname": name,
            "rolinherit": True,
            "rolcanlogin": name != CATALOG_OWNER,
            "rolconnlimit": -1,
        }


def _settings() -> Iterator[CatalogFields]:
    for name, value in SHOWN_SETTINGS.items():
        if " " not in name:
            yield {
                "name": name,
                "setting": value,
                "category": "Preset Options",
                "context": "internal",
                "vartype": "string",
                "source": "default",
                "boot_val": value,
                "reset_val": value,
            }


def _database(policy: Policy) -> CatalogFields:
    return {
        "oid": oids_of([f"database {policy.dataset}"])[f"database {policy.dataset}"],
        "datname": policy.dataset,
        "datdba": OWNER_OID,
        "encoding": _UTF8,
        "datlocprovider": "c",
        "datallowconn": True,
        "datconnlimit": -1,
        "dattablespace": _TABLESPACE,
        "datcollate": "C",
        "datctype": "C",
    }


# -- information_schema -------------------------------------------------------------------------


def _standard_tables(dataset: str, tables: Iterable[CatalogTable]) -> Iterator[CatalogFields]:
    for table in tables:
        yield {
            "table_catalog": dataset,
            "table_schema": table.schema,
            "table_name": table.name,
            "table_type": "BASE TABLE",
            "is_insertable_into": "NO",
            "is_typed": "NO",
        }


def _standard_columns(dataset: str, tables: Iterable[CatalogTable]) -> Iterator[CatalogFields]:
    for table in tables:
        for place, column in enumerate(table.table.columns, 1):
            type_ = wire_type(str(column.type))
            width, scale = column.type.digits if column.type.is_decimal else (None, None)
            yield {
                "table_catalog": dataset,
                "table_schema": table.schema,
                "table_name": table.name,
                "column_name": column.name,
                "ordinal_position": place,
                "is_nullable": "YES",
                "data_type": _NAMES.get(type_.name, type_.name),
                "numeric_precision": width,
                "numeric_scale": scale,
                "udt_catalog": dataset,
                "udt_schema": PG_CATALOG,
                "udt_name": type_.name,
                "dtd_identifier": str(place),
                "is_self_referencing": "NO",
                "is_identity": "NO",
                "is_generated": "NEVER",
                "is_updatable": "NO",
            }


def _grants(dataset: str, tables: Iterable[CatalogTable]) -> Iterator[CatalogFields]:
    for table in tables:
        yield {
            "grantor": CATALOG_OWNER,
            "grantee": USER_NAME,
            "table_catalog": dataset,
            "table_schema": table.schema,
            "table_name": table.name,
            "privilege_type": "SELECT",
            "is_grantable": "NO",
        }
