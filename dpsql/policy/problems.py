"""What is wrong with a policies file, in words and with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from pydantic import (
    ValidationError,
)
from pydantic_core import ErrorDetails

from dpsql.core.schema import fold
from dpsql.errors import Place, PolicyError
from dpsql.policy.document import (
    _NEEDS_UNIT,
    _UNIT_HINT,
    _Account,
    _Column,
    _Defaults,
    _File,
    _Limits,
    _Maxima,
    _Section,
    _Table,
    _Total,
    _Unit,
)
from dpsql.policy.fields import _LINK, _kind
from dpsql.policy.parameters import (
    PARAMETERS,
    suggestion,
)
from dpsql.policy.yaml_tree import Path, Problem, Tree

MAX_LISTED: Final = 40
_SECTIONS: Final[Mapping[Path, type[_Section]]] = {
    (): _File,
    ("defaults",): _Defaults,
    ("maxima",): _Maxima,
    ("limits",): _Limits,
    ("accounts", "*"): _Account,
    ("total",): _Total,
    ("tables", "*"): _Table,
    ("tables", "*", "privacy_unit"): _Unit,
    ("tables", "*", "columns", "*"): _Column,
}
_MAY_BE_EMPTY: Final = frozenset(
    {(), ("defaults",), ("maxima",), ("limits",), ("accounts",), ("tables",), ("links",)}
    | {("tables", "*", "columns")}
)
_MISSING_HINTS: Final[Mapping[str, str]] = {
    "version": "Add `version: 1` at the top.",
    "dataset": "Add `dataset: <name>`: it names the budget, so keep it for as long as the data.",
    "tables": "Add `tables:` and below it each table that analysts may use.",
}


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
    matches = [_LINK.fullmatch(str(link)) for link in (links if isinstance(links, list) else ())]
    children = {fold(match[1].strip('"')) for match in matches if match is not None}
    for name, table in tables.items() if isinstance(tables, dict) else ():
        if not isinstance(table, dict) or fold(name) in children:
            continue
        if "privacy_unit" not in table and table.get("public", False) is False:
            path = ("tables", name)
            what = f"{_label(path)}: {_NEEDS_UNIT}"
            yield Problem(path, tree.name_span(path), what, _UNIT_HINT)


def model_problems(error: ValidationError, tree: Tree, known: set[Path]) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        path: Path = details["loc"]
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
        case "model_type" | "dict_type":
            hint = "Write `name: value` lines, indented below it."
            return f"must be a group of names, but is {_kind(details['input'])}", hint
        case "bool_type":
            hint = "Write true or false, without quotes."
            return f"must be true or false, but is {_kind(details['input'])}", hint
        case _:
            return details["msg"], None


def _unknown_key_hint(path: Path) -> str:
    section = _SECTIONS[_pattern(path[:-1])]
    name = str(path[-1])
    parameter = PARAMETERS.get(fold(name)) if section is _Maxima else None
    if parameter is not None and parameter.least:
        return f"Set it under defaults: defaults.{name} is already the least a query may use."
    if parameter is not None:
        return f"Set it under defaults: defaults.{name}. A query may choose either."
    known = tuple(section.model_fields)
    return suggestion(name, known) or f"Known here: {', '.join(known)}."


def _pattern(path: Path) -> Path:
    """The path with the owner's names (accounts, tables, columns) replaced by ``*``."""
    return tuple(
        "*" if i in (1, 3) and path[0] in ("tables", "accounts") else step
        for i, step in enumerate(path)
    )


def _at(value: object, path: Path) -> object:
    """The value at a path, or Ellipsis when the document has none there."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, ...)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return ...
    return value


def _label(path: Path) -> str:
    """``tables.flights.columns.dep_delay.lower`` as people say it: ``flights.dep_delay.lower``."""
    steps = [str(s) if isinstance(s, str) else f"item {s + 1}" for s in path]
    if len(steps) > 1 and steps[0] == "tables":
        steps = steps[1:2] + steps[3 if steps[2:3] == ["columns"] and len(steps) > 3 else 2 :]
    return ".".join(steps)


def policy_error(code: str, problems: list[Problem], text: str, source: str) -> PolicyError:
    """One error for all problems: the first in front, all of them listed when there are several."""
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
