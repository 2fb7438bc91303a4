"""Evidence of totality: which calls of the engine were seen never to fail, or to fail into NULL.

*The data must not be able to make the engine fail.* Whether a call can is a matter of the function,
of the types it is bound to, of constants that say what it computes, and of the engine's version. So
the table of :mod:`dpsql.engines.survey` has a verdict for each of them, and what is not in the
table is refused. The engine's own plan of a statement says what its expressions are bound to,
implicit casts and all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from operator import le
from typing import Any, Final

from dpsql.core.sql_types import SqlType
from dpsql.engines.evidence.edges import is_stored_wider
from dpsql.engines.evidence.verdicts import EngineVersion, Verdicts, verdicts_on

SPECIFIED: Final = frozenset({"date_diff", "date_trunc"})
"""Functions that a constant first argument selects."""
PATTERNED: Final = frozenset(
    {"like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape", "strftime"}
    | {"regexp_matches", "regexp_full_match", "regexp_extract", "regexp_replace"}
    | {"json_extract_string", "struct_extract"}
)
"""Functions that fail on malformed patterns: all arguments after the first must be constants."""
BUCKETS: Final = frozenset({"time_bucket"})
"""Functions whose first argument, a width, must be a constant."""
_VARIADIC: Final = frozenset({"concat", "greatest", "least"})

# What a plan may hold beside functions: it computes nothing that could fail.
_LEAVES: Final = frozenset({"BOUND_REF", "BOUND_COLUMN_REF", "BOUND_CONSTANT"})
_FORMS: Final = frozenset({"BOUND_CASE", "BOUND_CONJUNCTION"})
_OPERATORS: Final = frozenset(
    {"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_NOT", "OPERATOR_COALESCE", "COMPARE_IN"}
)
# Aggregates of rows, each of one argument at most: max(x, n) fails where n is no count.
_AGGREGATES: Final = frozenset({"count", "count_star", "min", "max"})
# Of types in which the sum of 2**40 rows does not overflow.
_SUMS: Final = frozenset({"sum(BIGINT)", "sum_no_overflow(BIGINT)"})
_WIDEST_SUMMED: Final = 25  # digits of a DECIMAL: sums have 38
_WINDOWS: Final = frozenset(
    {"WINDOW_FIRST_VALUE", "WINDOW_LAG", "WINDOW_LEAD", "WINDOW_RANK", "WINDOW_ROW_NUMBER"}
)
_BUILT_IN: Final = ["system", "main"]
# What is computed of values as storage holds them, which may be none of their type. Verdicts are
# of values that are; these are calls that fail on others, found by trying all that are listed.
_WIDEST_OF_INTEGERS: Final = 18  # digits of a DECIMAL that 64 bits hold
_MOMENT: Final = r"(TIME|TIMESTAMP)(_\w+)?( WITH TIME ZONE)?"
_FAIL_AS_STORED: Final = re.compile(
    rf"(TRY_)?CAST\({_MOMENT} AS (VARCHAR|TIMESTAMP WITH TIME ZONE|TIME_NS)\)"
    rf"|TRY_CAST\({_MOMENT} AS ({_MOMENT}|DATE)\)"
    r"|date_diff\(.* WITH TIME ZONE\)"
    r"|-\(DECIMAL\)|CAST\(DECIMAL AS WIDER DECIMAL\)"
)
"""Calls that fail, inside of TRY as well."""
_FAIL_AS_STORED_WIDE: Final = re.compile(
    r"(TRY_)?CAST\(DECIMAL AS (DECIMAL|DOUBLE|FLOAT|VARCHAR)\)|round\(DECIMAL\)"
)
"""The same of decimals that need more than 64 bits."""
_FAIL_OUTSIDE_OF_TRY: Final = re.compile(
    rf"CAST\({_MOMENT} AS {_MOMENT}\)|CAST\(TIMESTAMP_\w+ AS DATE\)"
    r"|date_trunc\(.*|strftime\(.*|time_bucket\(.*|nanosecond\(.*|%\(DECIMAL, DECIMAL\)"
    r"|TRY_CAST\(DECIMAL AS DECIMAL\)|round\(DECIMAL\)"
)

_Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The verdicts on a version of DuckDB, applied to whole plans.

    ``as_stored``: plans compute with values as storage holds them, and not with those that are of
    their types (:func:`~dpsql.engines.evidence.edges.within`).
    """

    verdicts: Verdicts
    as_stored: bool = False

    def objection(self, plan: object) -> str | None:
        """Find the first call in a plan that may fail in its place; None if all are safe.

        What fails into NULL must stand inside TRY. Anything that is not known is an objection.
        """
        todo: list[tuple[Any, bool]] = [(plan, False)]
        while todo:
            node, tried = todo.pop()
            if isinstance(node, list):
                todo.extend((each, tried) for each in node)
            elif isinstance(node, dict):
                kind = node.get("expression_class")
                if kind is not None and kind not in _LEAVES:
                    if node["type"] == "OPERATOR_TRY":
                        tried = True
                    else:
                        found = self._objection(node, kind, tried)
                        if found is not None:
                            return found
                todo.extend((each, tried) for each in node.values() if type(each) in (dict, list))
        return None

    def _objection(self, node: _Node, kind: str, tried: bool) -> str | None:
        if kind in _FORMS or (kind == "BOUND_OPERATOR" and node["type"] in _OPERATORS):
            return None
        widest = _WIDEST_OF_INTEGERS if self.as_stored else _WIDEST_SUMMED
        if kind == "BOUND_AGGREGATE":
            return None if _is_total_aggregate(node, widest) else call_of(node)
        if kind == "BOUND_WINDOW" and _is_total_window(node, widest):
            return None
        if kind != "BOUND_FUNCTION":
            return str(node["type"]).lower()
        name = call_of(node)
        path = node["qname"]["path"]
        if len(path) > 1 and path[:2] != _BUILT_IN:
            return name
        if _changes_nothing(node):
            return None
        # What constants alone fail with, no data decides: it fails where it is tried.
        caught = tried or _is_constant(node)
        if self.as_stored and not _is_constant(node) and _fails_as_stored(node, name, tried):
            return name
        return None if self.verdicts.objection(name, caught=caught) is None else name


def evidence_for(version: str) -> Evidence:
    """Load the evidence for a version of DuckDB.

    Raises ``InterfaceError`` (``engine_not_surveyed``) for versions without a table.
    """
    return Evidence(verdicts_on(EngineVersion.of("duckdb", version)))


def _fails_as_stored(node: _Node, name: str, tried: bool) -> bool:
    """Tell whether a call fails on stored values beyond their type."""
    if _FAIL_AS_STORED.fullmatch(name) or not (tried or not _FAIL_OUTSIDE_OF_TRY.fullmatch(name)):
        return True
    wide = any(_is_wide(child) for child in node["children"])
    return wide and _FAIL_AS_STORED_WIDE.fullmatch(name) is not None


def _is_wide(node: _Node) -> bool:
    """Tell whether a decimal needs more than 64 bits."""
    found = _found_type(node)
    if found is None or found["id"] != "DECIMAL":
        return False
    return bool(found["type_info"]["width"] > _WIDEST_OF_INTEGERS)


def _is_total_aggregate(node: _Node, widest: int) -> bool:
    """Tell whether an aggregate cannot fail, whatever rows there are."""
    path, children = node["qname"]["path"], node["children"]
    if path[:-1] != _BUILT_IN or len(children) > 1:
        return False
    if path[-1] in _AGGREGATES or call_of(node) in _SUMS:
        return True
    summed = _found_type(children[0]) if path[-1] == "sum" and children else None
    if summed is None or summed["id"] != "DECIMAL":
        return False
    return bool(summed["type_info"]["width"] <= widest)


def _is_total_window(node: _Node, widest: int) -> bool:
    """Tell whether a window function cannot fail: none does by itself where its frame ends well."""
    if not all(_is_total_end(str(node[end]), node[f"{end}_expr"]) for end in ("start", "end")):
        return False
    if node["type"] != "WINDOW_AGGREGATE":
        return node["type"] in _WINDOWS
    return _is_total_aggregate(node, widest)  # whose rows are some of a group's


def _is_total_end(end: str, distance: _Node | None) -> bool:
    """Tell whether an end of a frame is one on every row: so many rows, or a DOUBLE, from it."""
    if distance is None:
        return True
    if end.endswith("_ROWS"):
        return _is_constant(distance)
    *_, constant = distance.get("children") or [distance]
    return _is_constant(constant) and distance.get("return_type", {}).get("id") == "DOUBLE"


def _changes_nothing(node: _Node) -> bool:
    """Tell whether a node casts a type to itself, or NULL."""
    if node["type"] != "OPERATOR_CAST":
        return False
    (child,) = node["children"]
    source, target = _found_type(child), node["return_type"]
    return source is not None and (source["id"] == "NULL" or source == target)


def _is_constant(node: _Node) -> bool:
    kind = node.get("expression_class")  # what a view passes on as it is has none
    if kind == "BOUND_CONSTANT":
        return True
    return kind == "BOUND_FUNCTION" and all(map(_is_constant, node["children"]))


# -- the names of calls ---------------------------------------------------------------------------


def calls(plan: object) -> Iterator[_Node]:
    """Yield all calls of functions in a serialized plan."""
    todo = [plan]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(node)
        elif isinstance(node, dict):
            if node.get("expression_class") == "BOUND_FUNCTION":
                yield node
            todo.extend(node.values())


def call_of(node: _Node) -> str:
    """Name a call in a plan, as ``week(DATE)`` or ``CAST(VARCHAR AS DATE)``.

    DECIMAL stands for any width and scale, WIDER DECIMAL for one that has room for all values of
    the integer or DECIMAL that is cast, LIST and the like for any element.
    """
    children = node["children"]
    types = [_type_of(child) for child in children]
    path = node["qname"]["path"]
    name = path[-1]
    if node["type"] == "OPERATOR_CAST":
        word = "TRY_CAST" if node["function_data"]["try_cast"] else "CAST"
        target = _type_name(node["return_type"])
        if target == "VARCHAR" and _holds_moments(_found_type(children[0])):
            types[0] += " OF MOMENTS"
        if (
            word == "CAST"
            and target == "DECIMAL"
            and _has_room(node["return_type"], _found_type(children[0]))
        ):
            target = "WIDER DECIMAL"
        return f"{word}({types[0]} AS {target})"
    if name in SPECIFIED:
        types[0] = _specifier(children[0])
    elif name in BUCKETS and children[0]["expression_class"] == "BOUND_CONSTANT":
        types[0] = "CONSTANT"
    elif name in PATTERNED:
        constant = all(child["expression_class"] == "BOUND_CONSTANT" for child in children[1:])
        types[1:] = ["CONSTANT"] if constant else types[1:]
    elif name in _VARIADIC and len(set(types)) == 1:
        types = [types[0], "..."]
    return f"{name}({', '.join(types)})"


def _specifier(node: _Node) -> str:
    if node["expression_class"] != "BOUND_CONSTANT":
        return "VARCHAR"
    return f"'{str(node['value'].get('value')).lower()}'"


def _type_of(node: _Node) -> str:
    found = _found_type(node)
    # Conjunctions say nothing of their type.
    return "BOOLEAN" if found is None else _type_name(found)


def _found_type(node: _Node) -> _Node | None:
    found: _Node | None = node.get("return_type") or node.get("value", {}).get("type")
    return found


def _has_room(decimal: _Node, type_: _Node | None) -> bool:
    """Tell whether a DECIMAL has a value for each value of another type, as digits go."""
    needed, room = _digits(type_), _digits(decimal)
    return needed is not None and room is not None and all(map(le, needed, room))


def _digits(type_: _Node | None) -> tuple[int, int] | None:
    """Count the digits before and behind the point of an integer or DECIMAL; None for others."""
    if type_ is None:
        return None
    info = type_.get("type_info") or {}
    if "width" in info:
        return info["width"] - info["scale"], info["scale"]
    found = SqlType.of(str(type_["id"]))
    return found.digits if found.is_integer else None


def _holds_moments(type_: _Node | None) -> bool:
    """Tell whether a type has parts that storage may hold other values of than it should.

    Nobody has looked at each: a moment may have no text, a decimal too many digits
    (:mod:`dpsql.engines.evidence.edges`).
    """
    todo: list[Any] = [] if type_ is None else [type_.get("type_info")]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if is_stored_wider(SqlType.of(str(part.get("id")))):
                return True
            todo.extend(part.values())
        elif isinstance(part, list):
            todo.extend(part)
    return False


def _type_name(type_: _Node) -> str:
    info = type_.get("type_info")
    return str((info and info.get("alias")) or type_["id"])
