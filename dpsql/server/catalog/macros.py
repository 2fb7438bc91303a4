"""PostgreSQL's functions over its catalogs, as macros of DuckDB with a prefix of their own.

What is asked of expressions, indexes and sizes has no answer here: there are none.
"""

from __future__ import annotations

import re
from typing import Final

from dpsql.core.sql import sql

MACROS: Final = sql("""
CREATE VIEW pg.fn_classes AS SELECT oid AS fn_oid, relname AS fn_name, relnamespace AS fn_space
    FROM pg.pg_class;
CREATE VIEW pg.fn_spaces AS SELECT oid AS fn_number, nspname AS fn_schema FROM pg.pg_namespace;
CREATE VIEW pg.fn_types AS SELECT f.oid AS fn_oid, f.written AS fn_written, t.typname AS fn_type,
    t.typarray AS fn_array FROM pg.formats f JOIN pg.pg_type t ON t.oid = f.oid;
CREATE VIEW pg.fn_texts AS SELECT objoid AS fn_oid, objsubid AS fn_place, description AS fn_text
    FROM pg.pg_description;
CREATE VIEW pg.fn_settings AS SELECT name AS fn_name, setting AS fn_setting FROM pg.pg_settings;

CREATE MACRO fn_pg_table_is_visible(o) AS
    coalesce((SELECT fn_space IN (11, 2200) FROM pg.fn_classes WHERE fn_oid = o), false);
CREATE MACRO fn_pg_type_is_visible(o) AS true;
CREATE MACRO fn_pg_function_is_visible(o) AS true;
CREATE MACRO fn_pg_collation_is_visible(o) AS true;
CREATE MACRO fn_pg_conversion_is_visible(o) AS true;
CREATE MACRO fn_pg_operator_is_visible(o) AS true;
CREATE MACRO fn_pg_opclass_is_visible(o) AS true;
CREATE MACRO fn_pg_opfamily_is_visible(o) AS true;
CREATE MACRO fn_pg_statistics_obj_is_visible(o) AS true;
CREATE MACRO fn_pg_ts_config_is_visible(o) AS true;
CREATE MACRO fn_pg_ts_dict_is_visible(o) AS true;
CREATE MACRO fn_pg_ts_parser_is_visible(o) AS true;
CREATE MACRO fn_pg_ts_template_is_visible(o) AS true;

CREATE MACRO fn_format_type(o, m) AS (
    SELECT CASE
        WHEN m IS NULL OR m < 0 THEN fn_written
        WHEN fn_oid = 1700
        THEN fn_written || '(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')'
        WHEN fn_oid IN (1042, 1043) THEN fn_written || '(' || (m - 4) || ')'
        ELSE fn_written
    END FROM pg.fn_types WHERE fn_oid = o);
CREATE MACRO fn_to_regtype(t) AS (
    SELECT min(CASE WHEN ends_with(t, '[]') THEN fn_array ELSE fn_oid END) FROM pg.fn_types
    WHERE trim(replace(replace(lower(t), 'pg_catalog.', ''), '[]', ''), ' "')
    IN (lower(fn_written), fn_type));
CREATE MACRO fn_to_regclass(t) AS (
    SELECT min(fn_oid) FROM pg.fn_classes JOIN pg.fn_spaces ON fn_number = fn_space
    WHERE CASE WHEN contains(t, '.')
        THEN lower(replace(t, '"', '')) = lower(fn_schema || '.' || fn_name)
        ELSE lower(trim(t, ' "')) = lower(fn_name) AND fn_space IN (11, 2200) END);
CREATE MACRO fn_to_regnamespace(t) AS (
    SELECT min(fn_number) FROM pg.fn_spaces WHERE fn_schema = trim(t, ' "'));
CREATE MACRO fn_to_regproc(t) AS CASE WHEN t = '-' THEN t ELSE replace(t, 'pg_catalog.', '') END;
CREATE MACRO fn_to_regrole(t) AS CASE WHEN t = 'owner' THEN 10 ELSE 16384 END;
CREATE MACRO fn_regclass_name(o) AS (
    SELECT CASE WHEN fn_space IN (11, 2200) THEN fn_name ELSE fn_schema || '.' || fn_name END
    FROM pg.fn_classes JOIN pg.fn_spaces ON fn_number = fn_space WHERE fn_oid = o);
CREATE MACRO fn_regtype_name(o) AS (SELECT fn_written FROM pg.fn_types WHERE fn_oid = o);
CREATE MACRO fn_regnamespace_name(o) AS (SELECT fn_schema FROM pg.fn_spaces WHERE fn_number = o);
CREATE MACRO fn_regproc_name(o) AS CAST(o AS VARCHAR);
CREATE MACRO fn_regrole_name(o) AS CASE o WHEN 10 THEN 'owner' ELSE CAST(o AS VARCHAR) END;

CREATE MACRO fn_pg_get_userbyid(o, u) AS
    CASE WHEN o = 10 THEN 'owner' WHEN o = 16384 THEN u ELSE 'unknown (OID=' || o || ')' END;
CREATE MACRO fn_obj_description(o) AS (
    SELECT min(fn_text) FROM pg.fn_texts WHERE fn_oid = o AND fn_place = 0),
    (o, k) AS (
    SELECT min(fn_text) FROM pg.fn_texts WHERE fn_oid = o AND fn_place = 0 AND k = 'pg_class');
CREATE MACRO fn_col_description(o, n) AS (
    SELECT min(fn_text) FROM pg.fn_texts WHERE fn_oid = o AND fn_place = n AND n > 0);
CREATE MACRO fn_shobj_description(o, k) AS NULL::VARCHAR;

CREATE MACRO fn_pg_get_expr(e, o) AS NULL::VARCHAR, (e, o, p) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_viewdef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_ruledef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_triggerdef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_functiondef(o) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_function_result(o) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_function_arguments(o) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_function_identity_arguments(o) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_function_sqlbody(o) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_partkeydef(o) AS NULL::VARCHAR;
CREATE MACRO fn_pg_partition_ancestors(o) AS unnest([]::BIGINT[]);
CREATE MACRO fn_pg_get_partition_constraintdef(o) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_statisticsobjdef(o) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_statisticsobjdef_columns(o) AS NULL::VARCHAR;
CREATE MACRO fn_pg_get_serial_sequence(t, c) AS NULL::VARCHAR;
CREATE MACRO fn_pg_describe_object(c, o, n) AS NULL::VARCHAR;
CREATE MACRO fn_pg_relation_filenode(o) AS NULL::BIGINT;
CREATE MACRO fn_pg_table_size(o) AS 0::BIGINT;
CREATE MACRO fn_pg_relation_size(o) AS 0::BIGINT, (o, f) AS 0::BIGINT;
CREATE MACRO fn_pg_total_relation_size(o) AS 0::BIGINT;
CREATE MACRO fn_pg_indexes_size(o) AS 0::BIGINT;
CREATE MACRO fn_pg_database_size(o) AS 0::BIGINT;
CREATE MACRO fn_pg_tablespace_size(o) AS 0::BIGINT;
CREATE MACRO fn_pg_size_pretty(n) AS n || ' bytes';
CREATE MACRO fn_pg_tablespace_location(o) AS '';
CREATE MACRO fn_pg_relation_is_publishable(o) AS false;
CREATE MACRO fn_pg_relation_is_updatable(o, b) AS 0::INTEGER;
CREATE MACRO fn_pg_column_is_updatable(o, n, b) AS false;

CREATE MACRO fn_current_schemas(b) AS
    CASE WHEN b THEN ['pg_catalog', 'public'] ELSE ['public'] END;
CREATE MACRO fn_current_schema() AS 'public';
CREATE MACRO fn_current_setting(n) AS (
    SELECT min(fn_setting) FROM pg.fn_settings WHERE lower(fn_name) = lower(n)),
    (n, m) AS (SELECT min(fn_setting) FROM pg.fn_settings WHERE lower(fn_name) = lower(n));
CREATE MACRO fn_set_config(n, v, l) AS v;
CREATE MACRO fn_pg_encoding_to_char(n) AS 'UTF8';
CREATE MACRO fn_pg_char_to_encoding(n) AS 6::INTEGER;
CREATE MACRO fn_getdatabaseencoding() AS 'UTF8';
CREATE MACRO fn_pg_client_encoding() AS 'UTF8';
CREATE MACRO fn_pg_my_temp_schema() AS 0::BIGINT;
CREATE MACRO fn_pg_is_other_temp_schema(o) AS false;
CREATE MACRO fn_pg_is_in_recovery() AS false;
CREATE MACRO fn_pg_is_wal_replay_paused() AS false;
CREATE MACRO fn_age(x) AS NULL::INTEGER;
CREATE MACRO fn_pg_backend_pid() AS 0::INTEGER;
CREATE MACRO fn_pg_advisory_unlock_all() AS NULL::VARCHAR;
CREATE MACRO fn_inet_server_addr() AS NULL::VARCHAR;
CREATE MACRO fn_inet_server_port() AS NULL::INTEGER;
CREATE MACRO fn_inet_client_addr() AS NULL::VARCHAR;
CREATE MACRO fn_pg_has_role(r, p) AS true, (u, r, p) AS true;

CREATE MACRO fn_is_reading(p) AS
    upper(p) IN ('SELECT', 'USAGE', 'CONNECT', 'EXECUTE', 'MEMBER');
CREATE MACRO fn_has_table_privilege(o, p) AS fn_is_reading(p), (u, o, p) AS fn_is_reading(p);
CREATE MACRO fn_has_any_column_privilege(o, p) AS fn_is_reading(p), (u, o, p) AS fn_is_reading(p);
CREATE MACRO fn_has_column_privilege(o, c, p) AS fn_is_reading(p),
    (u, o, c, p) AS fn_is_reading(p);
CREATE MACRO fn_has_schema_privilege(o, p) AS fn_is_reading(p), (u, o, p) AS fn_is_reading(p);
CREATE MACRO fn_has_database_privilege(o, p) AS fn_is_reading(p), (u, o, p) AS fn_is_reading(p);
CREATE MACRO fn_has_function_privilege(o, p) AS fn_is_reading(p), (u, o, p) AS fn_is_reading(p);
CREATE MACRO fn_has_language_privilege(o, p) AS fn_is_reading(p), (u, o, p) AS fn_is_reading(p);
CREATE MACRO fn_has_sequence_privilege(o, p) AS fn_is_reading(p), (u, o, p) AS fn_is_reading(p);
CREATE MACRO fn_has_tablespace_privilege(o, p) AS false, (u, o, p) AS false;
CREATE MACRO fn_has_type_privilege(o, p) AS fn_is_reading(p), (u, o, p) AS fn_is_reading(p);

CREATE MACRO fn_quote_ident(s) AS
    CASE WHEN regexp_full_match(s, '[a-z_][a-z0-9_$]*') THEN s
    ELSE '"' || replace(s, '"', '""') || '"' END;
CREATE MACRO fn_quote_literal(s) AS '''' || replace(s, '''', '''''') || '''';
CREATE MACRO fn_parse_ident(s) AS string_split(replace(s, '"', ''), '.');
CREATE MACRO fn_array_to_string(a, s) AS array_to_string(CAST(a AS VARCHAR[]), s),
    (a, s, n) AS array_to_string(
        list_transform(CAST(a AS VARCHAR[]), lambda x: coalesce(x, n)), s);
CREATE MACRO fn_array_upper(a, d) AS nullif(len(a), 0);
CREATE MACRO fn_array_lower(a, d) AS CASE WHEN len(a) > 0 THEN 1 END;
CREATE MACRO fn_array_length(a, d) AS nullif(len(a), 0);
CREATE MACRO fn_array_ndims(a) AS CASE WHEN len(a) > 0 THEN 1 END;
CREATE MACRO fn_cardinality(a) AS len(a);
CREATE MACRO fn__pg_expandarray(a) AS
    unnest(list_transform(a, lambda v, i: {{'x': v, 'n': i}}));
CREATE MACRO fn__pg_char_max_length(t, m) AS CASE WHEN m >= 4 THEN m - 4 END;
CREATE MACRO fn__pg_truetypid(a, t) AS a.atttypid;
CREATE MACRO fn__pg_truetypmod(a, t) AS a.atttypmod;

CREATE VIEW pg.fn_places AS
    SELECT attrelid AS fn_relation, attnum AS fn_place, fn_quote_ident(attname) AS fn_column
    FROM pg.pg_attribute;
CREATE VIEW pg.fn_constraints AS SELECT oid AS fn_oid,
    CASE contype WHEN 'p' THEN 'PRIMARY KEY (' WHEN 'u' THEN 'UNIQUE (' ELSE 'FOREIGN KEY (' END
    || (SELECT string_agg(fn_column, ', ' ORDER BY list_position(conkey, fn_place))
        FROM pg.fn_places WHERE fn_relation = conrelid AND list_contains(conkey, fn_place)) || ')'
    || CASE contype WHEN 'f' THEN ' REFERENCES ' || fn_quote_ident(fn_regclass_name(confrelid))
        || '(' || (SELECT string_agg(fn_column, ', ' ORDER BY list_position(confkey, fn_place))
        FROM pg.fn_places WHERE fn_relation = confrelid AND list_contains(confkey, fn_place)) || ')'
    ELSE '' END AS fn_definition
    FROM pg.pg_constraint;
CREATE VIEW pg.fn_indexes AS SELECT indexrelid AS fn_oid,
    'CREATE UNIQUE INDEX ' || fn_quote_ident(fn_regclass_name(indexrelid)) || ' ON '
    || fn_quote_ident(fn_regclass_name(indrelid)) || ' USING btree ('
    || (SELECT string_agg(fn_column, ', ' ORDER BY list_position(indkey, fn_place))
        FROM pg.fn_places WHERE fn_relation = indrelid AND list_contains(indkey, fn_place)) || ')'
    AS fn_definition, indrelid AS fn_relation, indkey AS fn_columns
    FROM pg.pg_index;
CREATE MACRO fn_pg_get_constraintdef(o) AS (
    SELECT min(fn_definition) FROM pg.fn_constraints WHERE fn_oid = o),
    (o, p) AS (SELECT min(fn_definition) FROM pg.fn_constraints WHERE fn_oid = o);
CREATE MACRO fn_pg_get_indexdef(o) AS (
    SELECT min(fn_definition) FROM pg.fn_indexes WHERE fn_oid = o),
    (o, n, p) AS (
    SELECT min(CASE WHEN n = 0 THEN fn_definition ELSE fn_column END)
    FROM pg.fn_indexes LEFT JOIN pg.fn_places
    ON pg.fn_places.fn_relation = pg.fn_indexes.fn_relation AND fn_place = fn_columns[n]
    WHERE fn_oid = o);
""")
"""The macros, over the tables of a room.

What is given to a macro is put into its text: so columns of tables inside have names of their own.
"""

CATALOG_FUNCTIONS: Final = frozenset(
    re.findall(r"MACRO fn_(\w+)\(", "".join(map(str, MACROS.pieces)))
) | {"version", "pg_get_keywords"}
"""The names of these functions in PostgreSQL."""
