"""Problems in a policies file, in words and with their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dpsql.core.schema import fold
from dpsql.errors import Place, PolicyError
from dpsql.policy.document import (
    NEEDS_UNIT,
    UNIT_HINT,
    AccountSection,
    AgentSection,
    ColumnSection,
    DefaultsSection,
    LimitsSection,
    MaximaSection,
    PerSection,
    PoliciesFile,
    Section,
    TableDefaultsSection,
    TableSection,
    TimeSection,
    TotalSection,
    UnitSection,
    ViewsSection,
)
from dpsql.policy.fields import kind_in_words, link_of, table_key
from dpsql.policy.parameters import PARAMETERS, suggestion
from dpsql.policy.yaml_tree import Path, Problem, Tree

MAX_LISTED: Final = 40
_SECTIONS: Final[Mapping[Path, type[Section]]] = {
    (): PoliciesFile,
    ("defaults",): DefaultsSection,
    ("maxima",): MaximaSection,
    ("limits",): LimitsSection,
    ("accounts", "*"): AccountSection,
    ("total",): TotalSection,
    ("views",): ViewsSection,
    ("agents", "*"): AgentSection,
    ("tables", "*"): TableSection,
    ("tables", "*", "privacy_unit"): UnitSection,
    ("tables", "*", "privacy_unit", "per"): PerSection,
    ("tables", "*", "time"): TimeSection,
    ("tables", "*", "defaults"): TableDefaultsSection,
    ("tables", "*", "columns", "*"): ColumnSection,
}
_MAY_BE_EMPTY: Final = frozenset(
    {(), ("defaults",), ("maxima",), ("limits",), ("accounts",), ("tables",), ("links",)}
    | {("views",), ("agents",), ("tables", "*", "columns"), ("tables", "*", "defaults")}
)
_MISSING_HINTS: Final[Mapping[str, str]] = {
    "version": "Add `version: 1` at the top.",
    "dataset": "Add `dataset: <name>`: it names the budget, so keep it for as long as the data.",
    "tables": "Add `tables:` and below it each table that analysts may use.",
}
_GROUP: Final = ("a group of names", "Write `name: value` lines, indented below it.")
_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "string_type": ("text", "Put it in quotes."),
    "bool_type": ("true or false", "Write true or false, without quotes."),
    "list_type": ("a list", "Write it as [a, b, c], or each item on a line of its own, with -."),
    "dict_type": _GROUP,
    "model_type": _GROUP,
}
"""The expected kind of value for pydantic's type errors, with its spelling."""
_CONSTRAINTS: Final[Mapping[str, tuple[str, str]]] = {
    "string_too_short": ("is empty", "Name a column of the table."),
    "too_short": ("lists no values", "List every possible value, or remove the line."),
    "enum": (
        "must be zcdp, basic or gdp",
        "Write `composition: zcdp` (rho adds up: best for a session), `composition: basic` "
        "(epsilon and delta add up: best for a single publication) or `composition: gdp` (mu adds "
        "up: best for a session of counts and sums), or remove it.",
    ),
}
"""The words for the constraints that only one field has."""


def null_problems(tree: Tree) -> Iterator[Problem]:
    """Collect every known name with nothing after it, except groups that may be empty."""
    for path in tree.names:
        section = _SECTIONS.get(_pattern(path[:-1]))
        unknown = section is not None and path[-1] not in section.model_fields
        if unknown or _pattern(path) in _MAY_BE_EMPTY or _at(tree.value, path) is not None:
            continue
        if _pattern(path) == ("tables", "*"):
            hint = "Give it privacy_unit, or public: true. Write {} if links say whose it is."
        else:
            hint = "Write a value after the colon, or remove the line."
        yield Problem(path, tree.name_span(path), f"{_label(path)}: has no value", hint)


def unprotected_problems(tree: Tree) -> Iterator[Problem]:
    """Collect every table that has neither a unit nor a link, and is not public."""
    document = tree.value if isinstance(tree.value, dict) else {}
    tables, links = document.get("tables"), document.get("links")
    found = map(link_of, links if isinstance(links, list) else ())
    children = {link[0].key for link in found if link is not None}
    for name, table in tables.items() if isinstance(tables, dict) else ():
        if not isinstance(table, dict) or table_key(name) in children:
            continue
        if "privacy_unit" not in table and table.get("public", False) is False:
            path = ("tables", name)
            what = f"{_label(path)}: {NEEDS_UNIT}"
            yield Problem(path, tree.name_span(path), what, UNIT_HINT)


def model_problems(error: ValidationError, tree: Tree, known: set[Path]) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        path: Path = details["loc"]
        path = path[:-1] if path[-1:] == ("[key]",) else path  # a name that is wrong itself
        # What was reported as broken YAML is not reported again as a broken value.
        if not any(path[:n] in known for n in range(len(path) + 1)):
            message, hint = _in_words(details, path)
            about_name = details["type"] in ("extra_forbidden", "missing")
            about_name = about_name or isinstance(_at(tree.value, path), dict)
            span = tree.name_span(path) if about_name else tree.value_span(path)
            yield Problem(path, span, f"{_label(path)}: {message}" if path else message, hint)


def _in_words(details: ErrorDetails, path: Path) -> tuple[str, str | None]:
    context = details.get("ctx", {})
    match details["type"]:
        case "policy":
            return context["message"], context["hint"]
        case "missing":
            name = str(path[-1])
            return "missing", _MISSING_HINTS.get(name, f"Add `{name}: <value>`.")
        case "extra_forbidden":
            return "unknown key", _unknown_key_hint(path)
        case kind if kind in _TYPES:
            type_, hint = _TYPES[kind]
            return f"must be {type_}, but is {kind_in_words(details['input'])}", hint
        case _:
            return _CONSTRAINTS.get(details["type"], (details["msg"], None))


def _unknown_key_hint(path: Path) -> str:
    section = _SECTIONS[_pattern(path[:-1])]
    name = str(path[-1])
    parameter = PARAMETERS.get(fold(name)) if section is MaximaSection else None
    if parameter is not None and parameter.least:
        return f"Set it under defaults: defaults.{name} is already the least a query may use."
    if parameter is not None:
        return f"Set it under defaults: defaults.{name}. A query may choose any."
    if section is TableDefaultsSection and fold(name) in PARAMETERS:
        return f"It is not for one table: set defaults.{name} at the top."
    known = tuple(section.model_fields)
    return suggestion(name, known) or f"Known here: {', '.join(known)}."


def _pattern(path: Path) -> Path:
    """Replace the owner's names in a path (accounts, tables, columns) by ``*``."""
    named = {1} if path[:1] in (("tables",), ("accounts",), ("agents",)) else set()
    named |= {3} if path[2:3] == ("columns",) else set()
    return tuple("*" if i in named else step for i, step in enumerate(path))


def _at(value: object, path: Path) -> object:
    """Return the value at a path, or Ellipsis when the document has none there."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, ...)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return ...
    return value


def _label(path: Path) -> str:
    """Shorten ``tables.flights.columns.dep_delay.lower`` to ``flights.dep_delay.lower``."""
    steps = [str(s) if isinstance(s, str) else f"item {s + 1}" for s in path]
    if len(steps) > 1 and steps[0] == "tables":
        steps = steps[1:2] + steps[3 if steps[2:3] == ["columns"] and len(steps) > 3 else 2 :]
    return ".".join(steps)


def policy_error(code: str, problems: list[Problem], text: str, source: str) -> PolicyError:
    """Build one error for all problems: the first in front, all of them listed if several."""
    ordered = sorted(problems, key=lambda problem: problem.span)
    places = [replace(Place.in_text(text, *p.span), source=source) for p in ordered[:MAX_LISTED]]
    first = ordered[0]
    if len(ordered) == 1:
        return PolicyError(first.message, code=code, place=places[0], hint=first.hint)
    lines = [f"{len(ordered)} problems in all:"]
    for place, problem in zip(places, ordered, strict=False):
        advice = f" ({problem.hint})" if problem.hint else ""
        lines.append(f"  line {place.line}, column {place.column}: {problem.message}{advice}")
    if len(ordered) > MAX_LISTED:
        lines.append(f"  and {len(ordered) - MAX_LISTED} more")
    hint = "\n".join(([first.hint] if first.hint else []) + lines)
    return PolicyError(
        f"{first.message}; {len(ordered) - 1} more below", code=code, place=places[0], hint=hint
    )
