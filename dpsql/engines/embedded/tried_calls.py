"""Calls with constant arguments, written down to be tried beside values of the other arguments.

``date_diff('foo', a, b)`` binds, and fails on the first row that there is. Its constants are to
blame, as it fails whatever a and b are. So each call that has constants beside what depends on rows
is written with samples in place of the latter: one that fails with all samples is refused.

What is not known of a text is what it says, and functions that read texts, such as ``strptime``,
fail with any sample for reasons of the sample. Texts, lists and JSON are given to functions that
take any of them alone. Numbers, dates and the like are given to all: their samples are so many that
none of them is the reason. Casts are not tried, as they fail by the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, product
from typing import Any, Final

from dpsql.core.sql import Sql, digits, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import SqlType
from dpsql.engines.embedded.plan_sql import (
    INTEGER_IDS,
    any_plan_type,
    constant_sql,
    is_cast,
    is_null,
    plan_type,
)
from dpsql.engines.embedded.plans import PlanNode

_WHOLE: Final = (1, 0, -1, 2, 3, 7, 12, 31, 100, 2000)
_TEXTS: Final = ("abc", "a", "", "1")
_DAYS: Final = ("2000-02-29", "1970-01-01", "2024-12-31", "0001-01-01", "9999-12-31")
_MOMENTS: Final = tuple(f"{day} {time}" for day in _DAYS for time in ("00:00:00", "12:34:56"))
_SAMPLES: Final[dict[str, tuple[str, ...]]] = (
    dict.fromkeys(("VARCHAR", "BLOB"), _TEXTS)
    | dict.fromkeys(("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S"), _MOMENTS)
    | dict.fromkeys(("TIMESTAMP_MS", "TIMESTAMP_NS"), _MOMENTS[:6])
    | dict.fromkeys(("TIME", "TIME WITH TIME ZONE", "TIME_NS"), ("12:34:56", "00:00:00"))
    | {
        "DATE": _DAYS,
        "INTERVAL": ("1 day", "0 days", "1 month", "-1 hour", "1 second"),
        "BOOLEAN": ("true", "false"),
        "JSON": ("1", "{}", "[]", '"abc"'),
    }
)
"""What stands for a value, as a text, by type."""
_TAKES_ANY_TEXT: Final = frozenset(
    {"lpad", "rpad", "printf", "format", "repeat", "translate", "replace", "to_base", "bar"}
    | {"substring", "substr", "substring_grapheme", "left", "right", "left_grapheme"}
    | {"right_grapheme", "array_slice", "list_slice", "array_extract", "list_extract"}
    | {"regexp_matches", "regexp_full_match", "regexp_replace", "regexp_extract"}
    | {"regexp_extract_all", "regexp_split_to_array", "string_split_regex", "str_split_regex"}
    | {"map", "map_from_entries", "generate_subscripts", "array_length", "list_resize"}
    | {"array_resize", "json_contains", "json_extract", "json_extract_string", "json_transform"}
    | {"max", "min", "max_by", "min_by", "arg_max", "arg_min", "arg_max_null", "arg_min_null"}
    | {"approx_top_k", "string_agg", "list", "mode", "histogram"}
    | {"list_distance", "list_cosine_similarity", "list_cosine_distance", "list_inner_product"}
    | {"list_dot_product", "list_negative_inner_product", "list_negative_dot_product"}
    | {"array_cross_product", "array_distance", "array_inner_product"}
    | {"array_cosine_similarity", "array_cosine_distance", "array_negative_inner_product"}
)
"""Functions that no text and no list makes fail beside good constants."""
_MADE_OF_PARTS: Final = frozenset({"list_value", "list_pack", "array_value", "row"})
_NEVER_AT_FAULT: Final = frozenset({"+", "-", "*", "/", "%", "||", "concat", "struct_pack"})
_GROWING: Final = frozenset(
    {"range", "generate_series", "repeat", "lpad", "rpad", "list_resize", "array_resize"}
)
"""Functions whose results are as large as a number says."""
_MANY: Final = 1_000_000
_READ: Final = frozenset({"VARCHAR", "BLOB", "BIT", "JSON"})
_OF_PARTS: Final = frozenset({"LIST", "ARRAY", "MAP", "STRUCT", "UNION"})
_WAYS: Final = 1_000  # to combine samples of several arguments, for a call that seems to fail
_SERIES: Final = frozenset({"range", "generate_series"})
_UNITS: Final = {"ROWS": sql("ROWS"), "RANGE": sql("RANGE"), "GROUPS": sql("GROUPS")}


@dataclass(frozen=True, slots=True)
class TriedCall:
    """A call beside samples, which stand in for its arguments, and the constants in it as SQL.

    ``arguments`` are the samples of each, one for a constant, and ``write`` makes an expression of
    arguments. ``binding``: it may be that the engine objects already when it binds the call.
    """

    write: Callable[[Sql], Sql]
    arguments: tuple[tuple[Sql, ...], ...]
    literals: tuple[str, ...]
    binding: bool = False

    @property
    def first(self) -> Sql:
        """The call beside the first samples."""
        return next(self.samples())

    def samples(self) -> Iterator[Sql]:
        """Yield the call beside all samples: first one by one, then in many ways."""
        many = islice(product(*self.arguments), _WAYS)
        yield from map(self.write, chain(_side_by_side(self.arguments), map(_listed, many)))


def tried_calls(plan: PlanNode) -> Iterator[TriedCall]:
    """Yield the calls of a plan with constants beside row-dependent arguments.

    Those inside TRY are passed over, as it makes NULL of what fails.
    """
    todo: list[Any] = [plan]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(reversed(node))
        elif isinstance(node, dict) and node.get("type") != "OPERATOR_TRY":
            match node.get("expression_class"):
                case "BOUND_FUNCTION" | "BOUND_AGGREGATE":
                    yield from _call(node)
                case "BOUND_WINDOW":
                    yield from _window(node)
            if node.get("type") == "LOGICAL_GET":
                yield from _series(node)
            if node.get("type") == "LOGICAL_PROJECTION":
                yield from _single_value(node)
            for value in (node.get("limit_val"), node.get("offset_val")):
                yield from _limit(value)
            todo.extend(reversed(node.values()))


def _call(node: PlanNode) -> Iterator[TriedCall]:
    """Yield a function or an aggregate, if some of its arguments are constants and some are not."""
    children = node.get("children") or ()
    if node["type"] == "OPERATOR_CAST":
        yield from _cast(node)
        return
    function = _function(node)
    constants = [part for child in children if (part := constant_sql(child)) is not None]
    known = [_known(child) for child in children]
    if not any(known) or (len(constants) == len(children) and node["type"] == "BOUND_FUNCTION"):
        return  # none of it is known, or all of it: that is computed elsewhere
    if function in _NEVER_AT_FAULT or node["type"] not in ("BOUND_FUNCTION", "BOUND_AGGREGATE"):
        return
    if function not in _TAKES_ANY_TEXT and any(map(_is_read, children)):
        return
    if function in _GROWING and any(map(_is_many, chain(*(each.literals for each in constants)))):
        return  # it would take as long as the query itself
    arguments = [_samples(child) for child in children]
    if all(arguments):
        yield TriedCall(
            lambda each: sql("{}({})", quoted(function), each),
            tuple(arguments),
            _literals(children),
        )


def _is_many(text: str) -> bool:
    """Tell whether a constant is a number of so many parts that they take long to make."""
    try:
        return abs(float(text)) > _MANY
    except ValueError:
        return False


def _cast(node: PlanNode) -> Iterator[TriedCall]:
    """Yield the cast of a list of so many parts to one of so many: it fails by their number."""
    (child,) = node["children"]
    if (
        not is_cast(node)
        or node["return_type"]["id"] != "ARRAY"
        or _function(child) != "list_value"
    ):
        return
    target, found = any_plan_type(node["return_type"]), _samples(child)
    if target is not None and found and node["return_type"]["type_info"]["child_type"]:
        numbers = {"BOOLEAN", *INTEGER_IDS, "DOUBLE", "FLOAT"}
        if str(_inner(child["return_type"])) in numbers:
            type_ = target.sql
            yield TriedCall(
                lambda each: sql("CAST({} AS {})", each, type_), (found,), _literals([child])
            )


def _window(node: PlanNode) -> Iterator[TriedCall]:
    """Yield the constants of a window: of ``ntile``, and of a frame."""
    if node["type"] == "WINDOW_NTILE":
        for each in filter(None, map(constant_sql, node["children"])):
            yield _tried(sql("ntile({}) OVER ()", each.sql), each.literals)
    orders = node.get("orders") or ()
    ordered = _samples(orders[0]["expression"]) if orders else ()
    for end in ("start", "end"):
        _, _, unit = str(node.get(end)).rpartition("_")
        offset = node.get(f"{end}_expr")
        if offset is None or unit not in _UNITS:
            continue
        if unit == "RANGE" and offset.get("children"):
            offset = offset["children"][-1]  # from the row's own value on
        part = constant_sql(offset)
        if part is not None and (ordered or unit == "ROWS"):
            frame = sql("{} BETWEEN {} PRECEDING AND CURRENT ROW", _UNITS[unit], part.sql)
            by = ordered or (sql("1"),)
            yield TriedCall(_framed(frame), (by,), part.literals)


def _framed(frame: Sql) -> Callable[[Sql], Sql]:
    return lambda by: sql("count(*) OVER (ORDER BY {} {})", by, frame)


def _series(node: PlanNode) -> Iterator[TriedCall]:
    """Yield a series of numbers between constants, to be tested for a row."""
    function = _function(node)
    if function not in _SERIES:
        return
    given = [
        constant_sql({"expression_class": "BOUND_CONSTANT", "value": value})
        for value in node.get("parameters") or ()
    ]
    if given and all(given):
        parts = [part for part in given if part is not None]
        series = sql("{}({})", quoted(function), join(", ", (part.sql for part in parts)))
        asked = sql("(SELECT count(*) FROM (SELECT 1 FROM {} LIMIT 1))", series)
        literals = tuple(text for part in parts for text in part.literals)
        yield replace(_tried(asked, literals), binding=True)


def _single_value(node: PlanNode) -> Iterator[TriedCall]:
    """Yield a subquery that stands for one value and lists several.

    It is planned as the first value, with an error where the number of rows is more than one.
    """
    checks = [check for each in node["expressions"] for check in each.get("case_checks") or ()]
    (below,) = node.get("children") or (node,)
    if not any(_function(check["then_expr"]) == "error" for check in checks):
        return
    while below["type"] in ("LOGICAL_AGGREGATE_AND_GROUP_BY", "LOGICAL_PROJECTION"):
        (below,) = below["children"]
    if below["type"] == "LOGICAL_EXPRESSION_GET" and len(below["expressions"]) > 1:
        yield _tried(sql("(SELECT v FROM (VALUES (1), (2)) r(v))"), ())


def _limit(value: object) -> Iterator[TriedCall]:
    """Yield a number of rows that is computed of constants."""
    if isinstance(value, dict) and isinstance(value.get("expression"), dict):
        part = constant_sql(value["expression"])
        if part is not None:
            yield _tried(sql("CAST({} AS UBIGINT)", part.sql), part.literals)


def _tried(whole: Sql, literals: tuple[str, ...]) -> TriedCall:
    """Describe a call with constant arguments alone."""
    return TriedCall(lambda each: each, ((whole,),), literals)


# -- arguments --------------------------------------------------------------------------------


def _function(node: PlanNode) -> str:
    return str((node.get("qname") or {}).get("path", [""])[-1])


def _is_made(node: PlanNode) -> bool:
    """Tell whether an argument is a list or a row that is written out, part by part."""
    if node["expression_class"] != "BOUND_FUNCTION":
        return False
    if node["type"] == "OPERATOR_CAST":  # of all parts, to another type
        return node["return_type"]["id"] in ("LIST", "ARRAY") and _is_made(node["children"][0])
    return _function(node) in _MADE_OF_PARTS


def _known(node: PlanNode) -> bool:
    """Tell whether something of an argument is known: a constant, or how many parts it has."""
    return constant_sql(node) is not None or _is_made(node)


def _is_read(node: PlanNode) -> bool:
    """Tell whether an argument is an unknown text or list."""
    if node["expression_class"] == "BOUND_CONSTANT" or constant_sql(node) is not None:
        return False
    if _is_made(node):
        return any(map(_is_read, node.get("children") or ()))
    type_ = node.get("return_type")
    return type_ is not None and (str(plan_type(type_)) in _READ or type_["id"] in _OF_PARTS)


def _samples(node: PlanNode) -> tuple[Sql, ...]:
    """Write samples of an argument: a constant itself, or values of its type; none if unknown."""
    constant, of_type = constant_sql(node), any_plan_type(node.get("return_type"))
    if constant is not None:
        return (constant.sql,)
    if is_null(node):
        return (sql("NULL") if of_type is None else sql("CAST(NULL AS {})", of_type.sql),)
    if node["expression_class"] == "BOUND_CONSTANT":
        return ()  # of a type that is not written
    if _is_made(node):
        parts = [_samples(child) for child in node.get("children") or ()]
        if not all(parts):
            return ()
        if node["type"] == "OPERATOR_CAST":
            if of_type is None:
                return ()
            return tuple(sql("CAST({} AS {})", each, of_type.sql) for each in parts[0])
        made = quoted(_function(node))
        return tuple(sql("{}({})", made, each) for each in _side_by_side(parts))
    return _samples_of(node.get("return_type"))


def _samples_of(type_: PlanNode | None) -> tuple[Sql, ...]:
    found = plan_type(type_)
    if type_ is None or found is None:
        return ()
    if type_["id"] == "LIST":
        inner = _samples_of(type_["type_info"]["child_type"])
        lists = (inner[:size] for size in (2, 1, 3, 0)) if inner else ()
        return tuple(
            sql("CAST(list_value({}) AS {})", join(", ", some), found.sql) for some in lists
        )
    of_type = found.sql
    if type_["id"] in INTEGER_IDS or type_["id"] in ("DOUBLE", "FLOAT", "DECIMAL"):
        zero = sql("CAST(0 AS {})", of_type)
        return tuple(
            sql("coalesce(TRY_CAST({} AS {}), {})", digits(each), of_type, zero) for each in _WHOLE
        )
    texts = _SAMPLES.get(found.text, ())
    return tuple(sql("CAST({} AS {})", literal(each), of_type) for each in texts)


def _side_by_side(arguments: Sequence[Sequence[Sql]]) -> Iterator[Sql]:
    """Put the samples of all arguments side by side."""
    most = max((len(samples) for samples in arguments), default=1)
    for turn in range(most):
        yield _listed([samples[turn % len(samples)] for samples in arguments])


def _listed(arguments: Sequence[Sql]) -> Sql:
    return join(", ", arguments)


def _literals(children: Sequence[PlanNode]) -> tuple[str, ...]:
    """List the constants of arguments, those of their parts among them."""
    found: list[tuple[str, ...]] = []
    for child in children:
        constant = constant_sql(child)
        if constant is not None:
            found.append(constant.literals)
        elif _is_made(child):
            found.append(_literals(child.get("children") or ()))
    return tuple(chain.from_iterable(found))


def _inner(type_: PlanNode) -> SqlType | None:
    info = type_.get("type_info") or {}
    return plan_type(info.get("child_type"))
