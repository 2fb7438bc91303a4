"""Reads the plans of the owner's tables and views: their files, and the parts dpsql must refuse.

A view is SQL of the owner's that runs inside every statement over it. So it must be bound, mean the
same each time, never fail on a row, compare text as text, and read nothing but tables of the same
file, or Parquet files and nothing else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb

from dpsql.core.data_files import MAX_FILES, as_read, is_address, only_file
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Remark, fold
from dpsql.core.sql import Sql, Written, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.base import view_words
from dpsql.engines.base.engine import Definition
from dpsql.engines.base.view_words import (
    changing_call,
    failing_call,
    foreign_call,
    over_several,
    unknown_part,
    unknown_way,
)
from dpsql.engines.duckdb.plan import fits
from dpsql.engines.duckdb.untyped import directory_keys
from dpsql.engines.duckdb.view_forms import FRAMES, VIEW_OPERATORS
from dpsql.engines.embedded.plans import Plan, PlanNode, has_collation, nodes, plan_of
from dpsql.engines.embedded.running import execute, relation
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.engines.embedded.types import has_enum
from dpsql.engines.evidence.evidence import Evidence

DATA: Final = f"{INTERNAL_PREFIX}data"
"""The catalog of the owner's data."""

_OVER_SEVERAL: Final = {
    "LOGICAL_AGGREGATE_AND_GROUP_BY": view_words.AGGREGATES_ROWS,
    "LOGICAL_DISTINCT": view_words.DISTINCT,
    "LOGICAL_EXCEPT": view_words.EXCEPT,
    "LOGICAL_INTERSECT": view_words.INTERSECT,
    "LOGICAL_LIMIT": view_words.LIMIT,
    "LOGICAL_TOP_N": view_words.LIMIT,
    "LOGICAL_WINDOW": view_words.WINDOWS,
    "LOGICAL_ASOF_JOIN": "joins each row to the one before it",
    "LOGICAL_POSITIONAL_JOIN": "joins rows by their position",
}
"""Parts of plans whose rows may depend on the rows of several units."""
_COMPARES: Final = frozenset(
    {"LOGICAL_DISTINCT", "LOGICAL_EXCEPT", "LOGICAL_INTERSECT", "LOGICAL_MATERIALIZED_CTE"}
)
_COUNTING: Final = frozenset({"range", "generate_series"})
_PARQUET: Final = frozenset({"read_parquet", "parquet_scan"})
_PARQUET_OPTIONS: Final = frozenset({"hive_partitioning", "union_by_name", "filename"})
_TOTAL_WINDOWS: Final = frozenset({"WINDOW_ROW_NUMBER", "WINDOW_RANK", "WINDOW_RANK_DENSE"})
_TOTAL_AGGREGATES: Final = frozenset({"any_value", "first", "last", "bool_and", "bool_or"})
_TOTAL_FUNCTIONS: Final = frozenset({"hash", "list_value", "struct_extract", "struct_pack"})
"""Functions of any values, without evidence, as analysts may not call them."""
_CHANGING: Final = frozenset({"reservoir_quantile", "version"})
"""Functions that the engine calls consistent, of chance or of its own version."""

_OUTSIDE: Final = Remark(
    "reads Parquet files outside of the database",
    "Let nobody write them who may not change the database; the ledger counts for both.",
)
_AS_TABLE = "Load what it reads into the database as a table, and list that."


def owned(name: TableName) -> Sql:
    """Write the name of a table of the owner's, in the owner's own catalog."""
    return sql("{}.{}.{}", quoted(DATA), quoted(name.schema), quoted(name.table))


def definition(
    connection: duckdb.DuckDBPyConnection,
    name: TableName,
    files: ParquetView | Remark | None,
    evidence: Evidence,
) -> Definition:
    """Describe the definition of one of the owner's tables or views: its files and problems.

    ``files`` are what a view of Parquet files was found to read.
    """
    source = owned(name)
    plan = plan_of(connection, sql("SELECT * FROM {}", source))
    if plan is not None:
        remarks = (*_enums(connection, source), *_over_several(plan))
        return Definition(_refusal(connection, plan, evidence), remarks=remarks)
    if files is None or isinstance(files, Remark):
        return Definition(files or _UNKNOWN)
    over = over_parquet(connection, files.paths)
    return replace(over, remarks=(_OUTSIDE, *over.remarks))


_NO_FILES = Remark(
    "reads no Parquet files that are there, or too many", "Look at the paths in its definition."
)
_UNKNOWN = Remark(
    "reads files, or another program's data, in a way that dpsql cannot examine",
    "Load its data into the database as a table. A view that only selects columns of Parquet "
    "files, with read_parquet and nothing else, is read as it stands.",
)
_ELSEWHERE = Remark(
    "reads Parquet files of the network, or of whatever directory a program runs in",
    "Give the whole paths of files of this computer, which begin with a slash. Files of the "
    "network are tables of their own: DuckDBEngine(files={...}).",
)


# -- plans ----------------------------------------------------------------------------------------


def _refusal(
    connection: duckdb.DuckDBPyConnection, plan: Plan, evidence: Evidence
) -> Remark | None:
    for node in nodes(plan.root):
        found = _operator(node) or _function(node)
        if found is not None:
            return found
    if _compares_collated(plan):
        return view_words.COLLATED
    failing = replace(evidence, as_stored=True).objection(_passing(plan.root))
    if failing is not None:
        return failing_call(
            failing,
            "Compute it inside TRY or TRY_CAST, which give NULL instead, or store its rows as a "
            "table. Of a date, a time or a decimal, hand on the column: questions can compute it.",
        )
    return None


def _passing(plan: PlanNode) -> PlanNode:
    """Remove calls that never fail from a plan, but not their arguments."""
    for node in nodes(plan):
        kind, name = node.get("expression_class"), (node.get("qname") or {"path": [""]})["path"][-1]
        if (
            (kind == "BOUND_WINDOW" and node["type"] in _TOTAL_WINDOWS)
            or (kind == "BOUND_AGGREGATE" and name in _TOTAL_AGGREGATES)
            or (kind == "BOUND_FUNCTION" and name in _TOTAL_FUNCTIONS)
            or kind == "BOUND_UNNEST"
        ):
            del node["expression_class"]
    return plan


def _operator(node: PlanNode) -> Remark | None:
    kind = node.get("type")
    if not isinstance(kind, str) or not kind.startswith("LOGICAL_"):
        return None
    if kind == "LOGICAL_SAMPLE":
        return view_words.SAMPLE
    if kind not in VIEW_OPERATORS:
        if node.get("join_type") == "SINGLE":
            return view_words.LOOKUP
        return unknown_part(kind.removeprefix("LOGICAL_").lower().replace("_", " "))
    return (_scan(node) if kind == "LOGICAL_GET" else None) or _form(node)


def _form(node: PlanNode) -> Remark | None:
    """Find a problem in the fields of a known operator."""
    kind = node["type"]
    if kind == "LOGICAL_WINDOW" and any(
        each.get(frame) is not None for each in node["expressions"] for frame in FRAMES
    ):
        return view_words.FRAME
    if fits(node, VIEW_OPERATORS[kind]):
        return None
    if node.get("join_type") == "SINGLE":
        return view_words.LOOKUP
    if kind == "LOGICAL_LIMIT":
        return view_words.COMPUTED_LIMIT
    if kind == "LOGICAL_GET" and _path(node)[-1] in _COUNTING:
        return view_words.COUNTED_AGAIN
    return unknown_way(kind.removeprefix("LOGICAL_").lower().replace("_", " "))


def _scan(node: PlanNode) -> Remark | None:
    """Find a problem in a leaf of a plan: a table, or a function that makes rows."""
    path = _path(node)
    if path == ["seq_scan"]:
        read = node["function_data"]
        if read["catalog"] == DATA and not fold(read["table"]).startswith(INTERNAL_PREFIX):
            return None
        return Remark(
            f"reads a table whose name begins with {INTERNAL_PREFIX}, which is reserved",
            "Rename that table.",
        )
    if path[:-1] == ["system", "main"] and path[-1] in _COUNTING:
        return None
    return Remark(f"reads {path[-1]}(), which is no table of the database", _AS_TABLE)


def _function(node: PlanNode) -> Remark | None:
    """Find a problem in a call of a plan, if the node is a call."""
    if "expression_class" not in node or node.get("qname") is None:
        return None
    path = _path(node)
    if path[-1] == "error":  # of subqueries with several rows: it always means the same
        return None
    if len(path) == 1:  # an operator of the engine's: comparisons and casts
        known = node["type"].startswith("COMPARE_") or node["type"] == "OPERATOR_CAST"
    else:
        known = path[:-1] == ["system", "main"]
    if not known:
        return foreign_call(path[-1])
    clock = path[-1] == "age" and len(node["children"]) == 1
    if len(path) > 1 and (path[-1] not in _consistent() or clock):
        return changing_call(path[-1])
    return None


def _path(node: PlanNode) -> list[str]:
    return list(node["qname"]["path"])


@cache
def _consistent() -> frozenset[str]:
    """List the engine's functions that depend on their arguments alone, in all their forms.

    Asked of an engine without anything of the owner's, once for all databases.
    """
    with duckdb.connect(":memory:", config={"threads": "1"}) as empty:
        asked = sql(
            "SELECT function_name FROM duckdb_functions() WHERE database_name = 'system' "
            "AND function_type IN ('scalar', 'aggregate') GROUP BY function_name "
            "HAVING bool_and(stability = 'CONSISTENT' AND NOT has_side_effects)"
        )
        rows = execute(empty, asked).fetchall()
    return frozenset(name for (name,) in rows) - _CHANGING


def _compares_collated(plan: Plan) -> bool:
    """Tell whether a collation is more than handed on from a table's to a view's column."""
    operators = [node for node in nodes(plan.root) if _is_operator(node)]
    handed = False
    for node in operators:
        own = {key: value for key, value in node.items() if key != "children"}
        if node["type"] == "LOGICAL_GET":
            own.pop("returned_types", None)
        if not has_collation(own):
            continue
        handed = True
        bare = node["type"] == "LOGICAL_PROJECTION" and not any(
            has_collation(each) and each["expression_class"] != "BOUND_REF"
            for each in node["expressions"]
        )
        if not bare:
            return True
    return handed and any(node["type"] in _COMPARES for node in operators)


def _is_operator(node: PlanNode) -> bool:
    return isinstance(node.get("type"), str) and node["type"].startswith("LOGICAL_")


def _over_several(plan: Plan) -> Iterator[Remark]:
    """Yield remarks on a view's effects on rows of several units, each once."""
    kinds = (node["type"] for node in nodes(plan.root) if _is_operator(node))
    for said in dict.fromkeys(_OVER_SEVERAL[kind] for kind in kinds if kind in _OVER_SEVERAL):
        yield over_several(said)


def _enums(connection: duckdb.DuckDBPyConnection, source: Sql) -> Iterator[Remark]:
    """Yield a remark on columns of ENUM types, whose values become texts."""
    found = relation(connection, sql("SELECT * FROM {}", source))
    names = [n for n, type_ in zip(found.columns, found.types, strict=True) if has_enum(type_)]
    if names:
        yield Remark(
            f"has ENUM values in {', '.join(names)}: they are text here, and compared as text",
            "Nothing need be done. The list of an ENUM's values is data: no analyst sees it.",
        )


# -- views of Parquet files -------------------------------------------------------------------


def over_parquet(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> Definition:
    """Describe the definition of a table over Parquet files, by whole paths or addresses."""
    if not _alike(connection, paths):
        return Definition(
            Remark(
                "reads Parquet files of different columns or types: a value could fail to fit",
                "Write them again with the same columns and types, or load them as a table.",
            )
        )
    # The engine asks for a file by its path, and by the pattern that it is read by.
    named = [path if is_address(path) else only_file(path) or path for path in paths]
    return Definition(None, files=tuple(dict.fromkeys([*named, *paths])), proved=tuple(named))


def _alike(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> bool:
    """Tell whether there are such files, all with the same columns of the same types."""
    asked = sql(
        "SELECT count(DISTINCT shape), count(*) FROM (SELECT list((name, type, type_length, "
        "num_children, converted_type, scale, precision, logical_type)) AS shape "
        "FROM parquet_schema([{}]) GROUP BY file_name)",
        join(", ", map(literal, paths)),
    )
    try:
        ((shapes, files),) = execute(connection, asked).fetchall()
    except duckdb.Error:
        return False
    return bool(shapes == 1 and files <= MAX_FILES)


@dataclass(frozen=True, slots=True)
class ParquetView:
    """A view of the owner's that selects columns of Parquet files and no more.

    ``paths`` are its files, listed once; ``query`` is its SELECT over these files, in which columns
    that directories name (``key=value``) are texts. ``directories`` are their names, folded.
    """

    paths: tuple[str, ...]
    query: Sql
    directories: frozenset[str]


def parquet_view(
    connection: duckdb.DuckDBPyConnection, name: TableName
) -> ParquetView | Remark | None:
    """List the files of a view over Parquet whose plan the engine cannot write down.

    None if it is none of Parquet files alone; a remark if they cannot be read from here.
    """
    found = _parquet_select(connection, name)
    if found is None:
        return None
    tree, patterns = found
    if not all(os.path.isabs(pattern) and not is_address(pattern) for pattern in patterns):
        return _ELSEWHERE
    files = [
        file
        for pattern in patterns
        for (file,) in execute(
            connection, sql("SELECT file FROM glob({}) ORDER BY 1", literal(pattern))
        ).fetchall()
    ]
    paths = tuple(map(as_read, files))
    if not 0 < len(paths) <= MAX_FILES:
        return _NO_FILES
    query = _over_files(connection, tree, paths)
    asked = sql("SELECT DISTINCT name FROM parquet_schema({})", literal(paths[0]))
    stored = execute(connection, asked).fetchall()
    keys = {*directory_keys(paths)} - {fold(name) for (name,) in stored}
    return ParquetView(paths, query, frozenset(keys))


def _over_files(connection: duckdb.DuckDBPyConnection, tree: PlanNode, paths: Sequence[str]) -> Sql:
    """Write a view's SELECT over files by their names, without types that values would decide."""
    node = tree["statements"][0]["node"]
    rows = sql(
        "SELECT * FROM read_parquet([{}], hive_types_autocast => false, can_have_nan => true)",
        join(", ", map(literal, paths)),
    )
    text = _tree_of(connection, rows.render(DUCKDB_TEXT))
    source = json.loads(text)["statements"][0]["node"]["from_table"]
    before = node["from_table"]
    if before["type"] == "TABLE_FUNCTION":
        source["function"]["arguments"][1:1] = before["function"]["arguments"][1:]
        source["alias"] = before["alias"] or before["function"]["qualified_name"]["path"][-1]
    else:
        source["alias"] = before["alias"] or Path(before["qualified_name"]["path"][-1]).stem
    source["column_name_alias"] = before["column_name_alias"]
    node["from_table"] = source
    written = sql("SELECT json_deserialize_sql(?)")
    ((query,),) = execute(connection, written, [json.dumps(tree)]).fetchall()
    return Sql(Written(str(query).removesuffix(";")))


def _tree_of(connection: duckdb.DuckDBPyConnection, text: str) -> str:
    """Ask the engine for the syntax tree of a text, as JSON."""
    ((tree,),) = execute(connection, sql("SELECT json_serialize_sql(?)"), [text]).fetchall()
    return str(tree)


def _parquet_select(
    connection: duckdb.DuckDBPyConnection, name: TableName
) -> tuple[PlanNode, list[str]] | None:
    """Parse a view that selects columns of Parquet files and no more; returns their patterns too.

    The engine cannot write down the plan of such a view, but its text says it all.
    """
    select = _select_of(connection, name)
    if select is None or _redefines(connection, [*_PARQUET, "list_value"]):
        return None
    found = json.loads(_tree_of(connection, select))
    if found["error"] or len(found["statements"]) != 1:
        return None
    node = found["statements"][0]["node"]
    plain = {"type": "SELECT_NODE", "aggregate_handling": "STANDARD_HANDLING"}
    if any(node.get(key) != value for key, value in plain.items()):
        return None
    empty = ("modifiers", "where_clause", "group_expressions", "group_sets", "having", "sample")
    if any(node.get(key) for key in (*empty, "qualify")) or node["cte_map"]["map"]:
        return None
    if not all(map(_is_plain_column, node["select_list"])):
        return None
    patterns = _patterns(node["from_table"])
    return None if patterns is None or _is_owned(connection, patterns) else (found, patterns)


def _is_plain_column(node: PlanNode) -> bool:
    if node["class"] == "COLUMN_REF":
        return True
    lists = ("replace_list", "columns", "expr")
    return node["class"] == "STAR" and not any(node.get(key) for key in lists)


def _patterns(source: PlanNode) -> list[str] | None:
    """List the files that the FROM clause of a view names, if it names Parquet files."""
    if source.get("sample") is not None or source.get("at_clause") is not None:
        return None
    if source["type"] == "BASE_TABLE":
        (*before, last) = _called(source)
        return [last] if not before and last.lower().endswith(".parquet") else None
    if source["type"] != "TABLE_FUNCTION" or source["with_ordinality"] != "WITHOUT_ORDINALITY":
        return None
    function = source["function"]
    if _called(function)[-1] not in _PARQUET or not function["arguments"]:
        return None
    first, *options = function["arguments"]
    if not all(map(_is_known_option, options)) or first["name"]:
        return None
    return _texts(first["expression"])


def _called(node: PlanNode) -> list[str]:
    """Return what a table or a function of a syntax tree is called; nothing where no path says it.

    Trees of DuckDB 1 have none: views of Parquet files are none of ours there.
    """
    path: list[str] = (node.get("qualified_name") or {"path": [""]})["path"]
    return path


def _is_known_option(argument: PlanNode) -> bool:
    """Tell whether an argument is ``filename => true`` or the like, in both spellings."""
    name, value = argument["name"], argument["expression"]
    if not name and value["type"] == "COMPARE_EQUAL":
        (name,), value = value["left"].get("column_names", [""])[-1:], value["right"]
    if value["class"] == "CAST":  # how the engine writes true and false
        value = value["child"]
    return name in _PARQUET_OPTIONS and value["class"] == "CONSTANT"


def _texts(node: PlanNode) -> list[str] | None:
    """List the texts of a constant, or of a list of constants."""
    if node["class"] == "FUNCTION" and node["qualified_name"]["path"][-1] == "list_value":
        parts = [_texts(argument["expression"]) for argument in node["arguments"]]
        flat = [text for part in parts if part is not None for text in part]
        return flat if flat and all(part is not None for part in parts) else None
    text = node.get("literal")
    if node["class"] == "CONSTANT" and isinstance(text, dict) and text["kind"] == "STRING":
        return [str(text["text"])]
    return None


def _select_of(connection: duckdb.DuckDBPyConnection, name: TableName) -> str | None:
    """Read the query of a view: what stands after AS in its definition."""
    asked = sql(
        "SELECT sql FROM duckdb_views() "
        "WHERE database_name = ? AND schema_name = ? AND view_name = ?"
    )
    given = [DATA, name.schema, name.table]
    rows: list[tuple[Any]] = execute(connection, asked, given).fetchall()
    if len(rows) != 1:
        return None
    found = _definition_pattern().match(rows[0][0])
    return None if found is None else found[1]


@cache
def _definition_pattern() -> re.Pattern[str]:
    word = r'(?:"(?:[^"]|"")*"|[^\s"().]+)'
    names = rf"\({word}(?:, {word})*\)"
    return re.compile(rf"CREATE VIEW {word}(?:\.{word})* (?:{names} )?AS (.*);\s*", re.DOTALL)


def _redefines(connection: duckdb.DuckDBPyConnection, functions: list[str]) -> bool:
    """Tell whether the owner has a function of such a name, anywhere."""
    asked = sql(
        "SELECT count(*) FROM duckdb_functions() "
        "WHERE database_name = {} AND lower(function_name) IN ({})",
        literal(DATA),
        join(", ", map(literal, functions)),
    )
    ((found,),) = execute(connection, asked).fetchall()
    return bool(found)


def _is_owned(connection: duckdb.DuckDBPyConnection, names: list[str]) -> bool:
    """Tell whether the owner has a table or view that is called like a file."""
    asked = sql(
        "SELECT count(*) FROM (SELECT table_name AS name FROM duckdb_tables() UNION ALL "
        "SELECT view_name FROM duckdb_views()) WHERE lower(name) IN ({})",
        join(", ", (literal(fold(name)) for name in names)),
    )
    ((found,),) = execute(connection, asked).fetchall()
    return bool(found)
