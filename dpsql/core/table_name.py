"""Names of tables: a table's own and its schema's, never two texts joined by a dot.

Owners and analysts write ``orders``, ``mart.fact`` or ``"my schema"."t"``. A table called
``mart.fact`` is another than the table ``fact`` of the schema ``mart``, so parts with a dot stand
in double quotes wherever a name is one text.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

MAIN: Final = "main"
"""The schema of names without one."""
_MAIN_ELSEWHERE: Final = frozenset({"public", "dbo"})
"""What tools for PostgreSQL and SQL Server call that schema."""
_FOLD: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_PART: Final = re.compile(r'("(?:[^"]|"")+"|[^".][^.]*)(\.|\Z)', re.DOTALL)
_WORD: Final = re.compile(r"[^\W\d]\w*")


def fold(name: str) -> str:
    """Return the form under which DuckDB compares two identifiers: ASCII letters in lower case.

    Only ASCII: to DuckDB ``É`` and ``é`` are two different columns, so they are to us.
    """
    return name.lower() if name.isascii() else name.translate(_FOLD)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's own name and its schema's, equal to all names that DuckDB takes for the same.

    ``key`` is one text for each table, and another for every other table.

    >>> print(TableName("fact", "mart"), TableName("mart.fact"), TableName("orders", "MAIN"))
    mart.fact "mart.fact" orders
    >>> TableName("Fact", "mart") == TableName("fact", "Mart")
    True
    """

    table: str = field(compare=False)
    schema: str = field(default=MAIN, compare=False)
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", fold(str(self)))

    @classmethod
    def of(cls, name: TableName | str) -> TableName:
        """Return the name itself; a text is that of a table without a schema, dots and all."""
        return name if isinstance(name, TableName) else cls(name)

    @classmethod
    def read(cls, text: str) -> TableName | None:
        """Read ``table`` or ``schema.table``, each with or without quotes; None if it is neither.

        >>> TableName.read('"my.schema".t')
        TableName(table='t', schema='my.schema')
        """
        parts = read_parts(text)
        return cls(*reversed(parts)) if 1 <= len(parts) <= 2 else None

    @property
    def in_main(self) -> bool:
        """True if the table is in the schema of names without one."""
        return fold(self.schema) == MAIN

    def __str__(self) -> str:
        return written_part(self.table) if self.in_main else written(self.schema, self.table)


def written_part(name: str) -> str:
    """Write a name alone, in quotes only where it could be read as something else."""
    plain = name and "." not in name and not name.startswith('"')
    return name if plain else _quoted(name)


def written(*names: str) -> str:
    """Write the parts of a name with dots between them, in quotes where they are no plain words."""
    return ".".join(name if _WORD.fullmatch(name) else _quoted(name) for name in names)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'


def read_parts(text: str) -> list[str]:
    """Read the parts of a name, with or without quotes; none if the text is no name.

    >>> read_parts('a b."c.d"')
    ['a b', 'c.d']
    """
    parts: list[str] = []
    dot, end = ".", 0
    while dot:
        found = _PART.match(text, end)
        if found is None:
            return []
        part, dot = found.groups()
        parts.append(unquoted(part))
        end = found.end()
    return parts


def unquoted(part: str) -> str:
    """Read one part of a name, which may stand in double quotes."""
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def only_namesake(name: TableName, known: Iterable[TableName]) -> TableName | None:
    """Return the only table that is called the same, whatever its schema; None if several are."""
    found = [each for each in known if fold(each.table) == fold(name.table)]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class NameRules:
    """How the names of tables are read: by the database's own name and those of its schemas.

    ``listed`` are the schemas that analysts may know of.
    """

    catalog: str = ""
    schemas: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, names: Iterable[TableName], catalog: str = "", listed: Iterable[TableName] = ()
    ) -> NameRules:
        """Make the rules of a database from its tables, and the tables a policy lists."""
        schemas, known = ({fold(n.schema) for n in found} for found in (names, listed))
        return cls(fold(catalog), frozenset(schemas), frozenset(known | {MAIN}))

    def named(self, parts: Sequence[str]) -> TableName | None:
        """Read a name of up to three parts; None for those of another database.

        A name alone means the schema ``main``. So does ``public``, where the database has no schema
        of that name, and the name of the database, where it has none of that one.
        """
        *before, table = parts
        if len(before) > 2 or (len(before) == 2 and fold(before[0]) != self.catalog):
            return None
        schema = before[-1] if before else MAIN
        if fold(schema) not in self.schemas and (
            fold(schema) in _MAIN_ELSEWHERE or (len(before) == 1 and fold(schema) == self.catalog)
        ):
            schema = MAIN
        return TableName(table, schema)
