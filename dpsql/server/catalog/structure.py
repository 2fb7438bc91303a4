"""The structure of PostgreSQL's catalogs: their relations, and rows that every server has alike.

The file beside this module is made from a real server by ``tools/catalog_structure.py``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, TypeAlias

PG_CATALOG, INFORMATION_SCHEMA = "pg_catalog", "information_schema"
CatalogRow: TypeAlias = tuple[object, ...]
_TYPES: Final = {
    "bool": "BOOLEAN",
    "bytea": "BLOB",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "int2vector": "USMALLINT[]",  # places of columns, told from other lists by this type
    "interval": "INTERVAL",
    "numeric": "DOUBLE",
    "oid": "BIGINT",
    "oidvector": "BIGINT[]",
    "regtype": "BIGINT",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "xid": "BIGINT",
    "_aclitem": "VARCHAR[]",
    "_bool": "BOOLEAN[]",
    "_char": "VARCHAR[]",
    "_float4": "FLOAT[]",
    "_float8": "DOUBLE[]",
    "_int2": "SMALLINT[]",
    "_name": "VARCHAR[]",
    "_oid": "BIGINT[]",
    "_regtype": "BIGINT[]",
    "_text": "VARCHAR[]",
}
"""DuckDB's type for each of PostgreSQL's that its catalogs have; of others it is text."""


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column of a catalog, with its type in PostgreSQL and in DuckDB."""

    name: str
    type: str

    @property
    def stored(self) -> str:
        """The type in DuckDB."""
        return _TYPES.get(self.type, "VARCHAR")


@dataclass(frozen=True, slots=True)
class SystemRelation:
    """A catalog's own row in the catalogs."""

    schema: str
    name: str
    oid: int
    kind: str


@dataclass(frozen=True, slots=True)
class Structure:
    """The columns of all relations by schema and name, and the rows of every server."""

    relations: Mapping[tuple[str, str], tuple[CatalogColumn, ...]]
    rows: Mapping[str, tuple[CatalogRow, ...]]

    @property
    def system(self) -> tuple[SystemRelation, ...]:
        """The relations with their OIDs."""
        return tuple(SystemRelation(*map(_same, row)) for row in self.rows["numbers"])

    @property
    def names(self) -> frozenset[str]:
        """The names of the relations of ``pg_catalog``, which need no schema before them."""
        return frozenset(name for schema, name in self.relations if schema == PG_CATALOG)


def _same(value: object) -> Any:
    return value


@cache
def structure() -> Structure:
    """Read the structure."""
    written = files("dpsql.server.catalog").joinpath("structure.json.gz").read_bytes()
    found = json.loads(gzip.decompress(written))
    relations = {
        (schema, name): tuple(CatalogColumn(*column) for column in columns)
        for schema, listed in found["relations"].items()
        for name, columns in listed.items()
    }
    rows = {name: tuple(map(tuple, listed)) for name, listed in found["rows"].items()}
    return Structure(MappingProxyType(relations), MappingProxyType(rows))
