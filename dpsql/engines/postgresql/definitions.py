"""Definitions of a PostgreSQL server's listed tables, as one digest each.

What is proved of a table when a database is opened holds for its definition of that moment: the
views and tables below it, their columns and rules, policies of their rows, and casts of the
database's own. Each question compares the digests of what it reads, under locks that keep them as
they are until it is over, before anything is reserved. A further part of a partitioned table, kept
by this server, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dpsql.core.sql import Sql, join, literal, name, sql
from dpsql.core.table_name import TableName

OWN: Final = ""
"""The name of the digest of the server: its version, and what the owner added to its functions."""

# Beside each listed table: the tables below views, and the parts of tables, whose definition
# follows from the whole's unless another server keeps them.
_DIGESTS: Final = """
WITH RECURSIVE below(root, oid, part) AS (
  SELECT listed.root, c.oid, FALSE
  FROM (VALUES {listed}) AS listed(root, nspname, relname)
  JOIN pg_namespace n ON n.nspname = listed.nspname
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = listed.relname
  UNION
  SELECT b.root, further.oid, further.part FROM below b CROSS JOIN LATERAL (
    SELECT i.inhrelid, TRUE FROM pg_inherits i WHERE i.inhparent = b.oid
    UNION ALL
    SELECT d.refobjid, FALSE FROM pg_rewrite r JOIN pg_depend d
      ON d.classid = CAST('pg_rewrite' AS REGCLASS) AND d.objid = r.oid
      AND d.refclassid = CAST('pg_class' AS REGCLASS)
    WHERE r.ev_class = b.oid AND d.refobjid <> b.oid
  ) AS further(oid, part)
), lines(root, line) AS (
  SELECT b.root, concat_ws(' ', 'relation', c.oid, c.relnamespace, quote_ident(c.relname),
    c.relkind, c.relrowsecurity, row_security_active(c.oid),
    CASE WHEN c.relkind = 'v' THEN concat(c.relowner, c.reloptions) END)
  FROM below b JOIN pg_class c ON c.oid = b.oid WHERE NOT b.part
  UNION ALL
  SELECT DISTINCT b.root, concat('part ', CASE WHEN c.relkind IN ('r', 'p') THEN 'here'
    ELSE concat(c.relkind, c.oid) END)
  FROM below b JOIN pg_class c ON c.oid = b.oid WHERE b.part
  UNION ALL
  SELECT b.root, concat_ws(' ', 'column', a.attrelid, a.attnum, quote_ident(a.attname), a.atttypid,
    a.atttypmod, a.attcollation, a.attgenerated)
  FROM below b JOIN pg_attribute a ON a.attrelid = b.oid
  WHERE NOT b.part AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.root, concat_ws(' ', 'computed', d.adrelid, d.adnum, d.adbin)
  FROM below b JOIN pg_attrdef d ON d.adrelid = b.oid
  JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
  WHERE NOT b.part AND a.attgenerated <> ''
  UNION ALL
  SELECT b.root, concat_ws(' ', 'rule', r.ev_class, r.ev_type, r.ev_enabled, r.ev_qual, r.ev_action)
  FROM below b JOIN pg_rewrite r ON r.ev_class = b.oid WHERE NOT b.part
  UNION ALL
  SELECT b.root, concat_ws(' ', 'policy', p.polrelid, p.polcmd, p.polpermissive, p.polroles,
    p.polqual)
  FROM below b JOIN pg_policy p ON p.polrelid = b.oid WHERE NOT b.part
  UNION ALL
  SELECT '', concat_ws(' ', 'cast', k.castsource, k.casttarget, k.castfunc, k.castcontext,
    k.castmethod)
  FROM pg_cast k WHERE k.oid >= 16384 AND k.casttarget < 16384
  UNION ALL
  SELECT '', concat_ws(' ', 'function', quote_ident(p.proname), p.proargtypes)
  FROM pg_proc p WHERE p.oid >= 16384 AND p.pronamespace = CAST('pg_catalog' AS REGNAMESPACE)
  UNION ALL
  SELECT '', concat_ws(' ', 'operator', o.oprname, o.oprleft, o.oprright)
  FROM pg_operator o
  WHERE o.oid >= 16384 AND o.oprnamespace = CAST('pg_catalog' AS REGNAMESPACE)
  UNION ALL
  SELECT '', concat('version ', CAST(current_setting('server_version_num') AS INTEGER) / 10000)
)
SELECT root, encode(sha256(convert_to(string_agg(line, chr(10) ORDER BY line COLLATE "C"), 'UTF8')),
  'hex')
FROM lines GROUP BY root
"""
OWN_ADDITIONS: Final = """
SELECT 'cast from ' || format_type(castsource, NULL) || ' to ' || format_type(casttarget, NULL)
FROM pg_cast WHERE oid >= 16384 AND castsource < 16384 AND casttarget < 16384
UNION ALL
SELECT 'function pg_catalog.' || p.proname FROM pg_proc p
WHERE p.oid >= 16384 AND p.pronamespace = CAST('pg_catalog' AS REGNAMESPACE) AND EXISTS (
  SELECT 1 FROM pg_proc q WHERE q.proname = p.proname AND q.oid < 16384
  AND q.pronamespace = p.pronamespace)
UNION ALL
SELECT 'operator ' || o.oprname FROM pg_operator o
WHERE o.oid >= 16384 AND o.oprnamespace = CAST('pg_catalog' AS REGNAMESPACE)
ORDER BY 1
"""
"""What the owner put among PostgreSQL's own casts, functions and operators, in words."""


def digests_sql(tables: Iterable[TableName]) -> Sql:
    """Write the statement that computes the digests of some tables, by the keys of their names."""
    listed = [
        sql("({}, {}, {})", literal(each.key), literal(schema_of_server(each)), literal(each.table))
        for each in tables
    ]
    nobody = sql("(CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT))")
    return sql(_DIGESTS, listed=join(", ", listed or [nobody]))


def digests_of(rows: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Read the rows of the digest statement into a mapping by table."""
    return {OWN: "", **dict(rows)}


def lock_sql(tables: Iterable[TableName]) -> Sql | None:
    """Write LOCK TABLE, which keeps tables' definitions and rows in place; None for no table."""
    listed = [*map(server_name, tables)]
    return sql("LOCK TABLE {} IN ACCESS SHARE MODE", join(", ", listed)) if listed else None


def touch_sql(table: TableName) -> Sql:
    """Write a statement that locks a table where LOCK TABLE does not; it reads no row."""
    return sql("SELECT 1 AS n FROM {} LIMIT 0", server_name(table))


def server_name(table: TableName) -> Sql:
    """Write the name of a table as the server has it."""
    return sql("{}.{}", name(schema_of_server(table)), name(table.table))


def schema_of_server(table: TableName) -> str:
    """Name the schema of a table as the server does."""
    return "public" if table.in_main else table.schema
