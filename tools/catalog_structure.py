"""Writes the structure of PostgreSQL's catalogs: ``tools/catalog_structure.py [URL]``.

It is read from a real server: one at the URL, or a new one of this machine's PostgreSQL 15. What is
written are facts: names and types of columns, and the rows that every server has alike.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.postgresql_server import running  # type: ignore[import-not-found,unused-ignore] # noqa: E402

TARGET: Final = ROOT / "dpsql" / "server" / "catalog" / "structure.json.gz"
VERSION: Final = 15
COLUMNS: Final = """
SELECT n.nspname, c.relname, a.attname, t.typname
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = a.atttypid
WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v')
  AND a.attnum > 0 AND c.relname !~ '^(_pg|sql_)'
ORDER BY n.nspname, c.relname, a.attnum
"""
DOMAINS: Final = """
SELECT t.typname, b.typname FROM pg_type t JOIN pg_type b ON b.oid = t.typbasetype
WHERE t.typtype = 'd'
"""
ROWS: Final[dict[str, LiteralString]] = {
    "pg_type": """
        SELECT * FROM pg_type t WHERE typnamespace = 'pg_catalog'::regnamespace AND typrelid = 0
        AND NOT EXISTS (SELECT FROM pg_type e WHERE e.oid = t.typelem AND e.typrelid <> 0)
        ORDER BY oid""",
    "pg_am": "SELECT * FROM pg_am ORDER BY oid",
    "pg_namespace": "SELECT * FROM pg_namespace WHERE nspname !~ '^pg_temp' ORDER BY oid",
    "pg_language": "SELECT * FROM pg_language ORDER BY oid",
    "pg_tablespace": "SELECT * FROM pg_tablespace ORDER BY oid",
    "pg_collation": "SELECT * FROM pg_collation WHERE oid < 1000 ORDER BY oid",
    "pg_range": "SELECT * FROM pg_range ORDER BY rngtypid",
    "formats": """
        SELECT oid, format_type(oid, NULL) FROM pg_type t
        WHERE typnamespace = 'pg_catalog'::regnamespace AND typrelid = 0
        AND NOT EXISTS (SELECT FROM pg_type e WHERE e.oid = t.typelem AND e.typrelid <> 0)
        ORDER BY oid""",
    "keywords": "SELECT word, catcode, catdesc FROM pg_get_keywords() ORDER BY word",
    "numbers": """
        SELECT n.nspname, c.relname, c.oid, c.relkind
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v')
        AND c.relname !~ '^(_pg|sql_)' ORDER BY c.oid""",
}
HIDDEN: Final = frozenset({"nspacl", "nspowner", "typacl", "lanacl", "spcacl", "collversion"})
"""Columns whose values are a server's own."""


def structure(url: str) -> dict[str, Any]:
    """Read the structure from a server."""
    with psycopg.connect(url) as connection:
        assert connection.info.server_version // 10_000 == VERSION, "this is another version"
        bases: dict[str, str] = dict(connection.execute(DOMAINS).fetchall())
        relations: dict[str, dict[str, list[list[str]]]] = {}
        for schema, relation, column, type_ in connection.execute(COLUMNS):
            columns = relations.setdefault(schema, {}).setdefault(relation, [])
            columns.append([str(column), str(bases.get(type_, type_))])
        rows: dict[str, list[list[Any]]] = {}
        for name, asked in ROWS.items():
            found = connection.execute(asked)
            names = [column.name for column in found.description or ()]
            rows[name] = [
                [None if name in HIDDEN else value for name, value in zip(names, row, strict=True)]
                for row in found.fetchall()
            ]
    return {"relations": relations, "rows": rows}


def main() -> None:
    """Write the file."""
    if sys.argv[1:]:
        found = structure(sys.argv[1])
    else:
        with running() as server:
            found = structure(server.url("postgres"))
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=True, default=str)
    TARGET.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
