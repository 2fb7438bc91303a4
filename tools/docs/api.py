"""Writes docs/api.md, the reference of the Python API, from signatures and docstrings:
``make pictures``.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import dpsql
from dpsql import errors
from dpsql.engines.base.engine import Database

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
WIDTH = 100  # of a signature that stays on one line

SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Connecting",
        "dpsql",
        ("connect", "Connection", "DuckDBEngine", "PostgreSQLEngine", "SparkEngine"),
    ),
    (
        "Connecting to a server",
        "dpsql.dbapi.remote",
        ("RemoteConnection", "RemotePrice", "RemoteBudget", "RemoteTable", "RemoteQuestion"),
    ),
    (
        "Answers of a server",
        "dpsql.client.answers",
        ("RemoteAnswer", "RemoteCost", "RemoteWarning"),
    ),
    (
        "Sessions of many analysts",
        "dpsql",
        ("open_dataset", "Dataset", "Session", "PreparedStatement", "Right"),
    ),
    (
        "Events of sessions",
        "dpsql.pipeline.events",
        (
            *("SessionEvent", "SessionOpened", "StatementAsked", "StatementRefused"),
            *(
                "StatementFailed",
                "ChargeReserved",
                "ChargeSettled",
                "QuestionAnswered",
                "ReadingFailed",
            ),
            *("AccountSuspended", "ViewCreated", "StepPublished", "StepFailed"),
        ),
    ),
    ("Answers", "dpsql", ("Result", "Cost", "Interval")),
    ("Warnings of answers", "dpsql.results.caveats", ("Caveat", "CaveatKind")),
    ("Plans and budgets", "dpsql", ("Explanation", "BudgetReport")),
    ("Tuning", "dpsql.results.tuning", ("Tuning", "TunedAggregate", "TriedSetting")),
    (
        "Descriptions of statements",
        "dpsql.results.description",
        ("Description", "AnswerColumn", "QueryParameter"),
    ),
    (
        "Figures of a plan",
        "dpsql.results.explanation",
        ("BlockExplanation", "ColumnFigure", "StepFigure"),
    ),
    ("Policies", "dpsql", ("load_policy", "parse_policy", "Policy")),
    ("Policy against database", "dpsql.owner.conformance", ("check_policy", "Finding")),
    ("Who pays", "dpsql.budget", ("payer", "Payer", "Guarantee", "StreamReport")),
    ("Costs", "dpsql.privacy.accounting", ("PrivacyLoss", "Amount", "Budget", "Composition")),
    ("The ledger", "dpsql.ledger", ("Ledger", "Owner", "Renewal", "Account", "Standing")),
    ("What the ledger tells", "dpsql.ledger", ("Window", "Spent", "Entry", "Event", "Kind")),
    (
        "Streams in the ledger",
        "dpsql.ledger",
        ("StreamRecord", "PublishedStep", "StepTicket", "StreamProgress"),
    ),
    ("Verification", "dpsql.ledger", ("Head", "Verification", "Charge", "Stored")),
    ("DB-API 2.0", "dpsql.dbapi", ("Cursor",)),
)

MADE_BY_DPSQL = (
    *("RemoteConnection", "RemoteAnswer"),
    *("Connection", "Session", "PreparedStatement", "Result", "Cursor", "Ledger", "Owner"),
)
"""Classes whose constructor is not for callers."""
ENGINES = ("DuckDBEngine", "PostgreSQLEngine", "SparkEngine")
"""Classes of which only what is not of the protocol is for callers."""
INTERNAL = {"over_constants", "refuse_closed", "ends", "schema", "warn"}
"""Methods that one part of dpsql offers another."""

INTRODUCTION = """\
# Python API

Signatures and docstrings, as they are in the package: written by `tools/docs/api.py`. How to use
them is in [the tutorial](tutorial.md) and the guides for [owners](how-to/owner.md) and
[analysts](how-to/analyst.md); what can be asked is in [SQL](sql.md).

`import dpsql` has what most programs need; the rest is for owners, and named with its module.
"""

ERRORS = """\
## Errors

All are in `dpsql`, and in `dpsql.errors`. An error has a `code` that programs can rely on, a
`reason`, a `place` in the query or the file (`line`, `column`, `length`, `excerpt`, `source`) or
None, and a `hint` or None. [Errors](errors.md) lists all codes.
"""

DBAPI = """\
`dpsql.dbapi` is the module that PEP 249 asks for: `connect` and `Connection` as above, the classes
of errors, type objects and constructors. [DB-API 2.0](dbapi.md) says what differs from other
databases.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION, "\n".join(_contents())]
    for title, module, names in SECTIONS:
        parts.append(f"## {title}\n")
        if module == "dpsql.dbapi":
            parts += [DBAPI, "\n".join(_constants(importlib.import_module(module)))]
        elif module != "dpsql":
            parts.append(f"In `{module}`.\n")
        home = importlib.import_module(module)
        parts += [_documented(name, getattr(home, name)) for name in names]
    parts += [ERRORS, "\n".join(_errors())]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, inherited ones too but those of a session.

    Of an engine, those that its owner calls: what :class:`Database` asks for is for dpsql itself.
    """
    protocol = set(dir(Database)) - {"catalog", "close"} if cls.__name__ in ENGINES else set()
    seen: dict[str, Any] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("dpsql") and (base is cls or base is not dpsql.Session):
            for name, value in vars(base).items():
                plain = inspect.isfunction(value) or isinstance(value, property | classmethod)
                if plain and not name.startswith("_") and name not in protocol | INTERNAL:
                    seen.setdefault(name, value)
    yield from seen.items()


def _contents() -> Iterator[str]:
    for title, module, names in SECTIONS:
        home = importlib.import_module(module)
        links = (f"[`{name}`](#{_anchor(name, getattr(home, name))})" for name in names)
        yield f"* {title}: {', '.join(links)}"
    yield "* [Errors](#errors)"


def _anchor(name: str, value: Any) -> str:
    return f"class-{name.lower()}" if inspect.isclass(value) else name


def _documented(name: str, value: Any) -> str:
    title = f"class {name}" if inspect.isclass(value) else name
    head = [f"### {title}", "", *_code(_declared(name, value)), "", text(value)]
    if not inspect.isclass(value) or issubclass(value, Enum):
        return "\n".join(head)
    found = list(members(value))
    if properties := [(n, each) for n, each in found if isinstance(each, property)]:
        head += ["", *(f"* `{n}: {_returned(each)}`. {text(each)}" for n, each in properties)]
    for member, each in found:
        if not isinstance(each, property):
            function = each.__func__ if isinstance(each, classmethod) else each
            prefix = "@classmethod\n" if isinstance(each, classmethod) else ""
            declared = _code(prefix + _signature(member, function))
            head += ["", f"#### {name}.{member}", "", *declared, "", text(function)]
    return "\n".join(head)


def _returned(found: property) -> str:
    assert found.fget is not None
    return _type(inspect.signature(found.fget).return_annotation)


def _declared(name: str, value: Any) -> str:
    """A function's signature, or a class with its fields or its arguments."""
    if not inspect.isclass(value):
        return _signature(name, value)
    if issubclass(value, Enum):
        return "\n".join([f"class {name}:", *(f"    {e.name} = {str(e)!r}" for e in value)])
    if dataclasses.is_dataclass(value):
        given = [f for f in dataclasses.fields(value) if not f.name.startswith("_")]
        fields = [f"    {f.name}: {_type(f.type)}{_default(f)}" for f in given]
        return "\n".join([f"class {name}:", *fields])
    if name in MADE_BY_DPSQL:
        return f"class {name}"
    return f"class {_signature(name, value.__init__).removesuffix(' -> None')}"


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {field.default!r}"
    return " = …" if field.default_factory is not dataclasses.MISSING else ""


def _signature(name: str, function: Any) -> str:
    """A call with its types, on one line if it fits, without self."""
    signature = inspect.signature(function)
    given = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    parts: list[str] = []
    for position, parameter in enumerate(given):
        keyword = parameter.kind is parameter.KEYWORD_ONLY
        if keyword and all(p.kind is not p.KEYWORD_ONLY for p in given[:position]):
            parts.append("*")
        parts.append(_parameter(parameter))
    returns = signature.return_annotation
    end = "" if returns is signature.empty else f" -> {_type(returns)}"
    line = f"{name}({', '.join(parts)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){end}"])


def _parameter(parameter: inspect.Parameter) -> str:
    many = {inspect.Parameter.VAR_POSITIONAL.name: "*", inspect.Parameter.VAR_KEYWORD.name: "**"}
    stars = many.get(parameter.kind.name, "")
    annotation = "" if parameter.annotation is parameter.empty else _type(parameter.annotation)
    written = f"{stars}{parameter.name}" + (f": {annotation}" if annotation else "")
    if parameter.default is parameter.empty:
        return written
    shown = parameter.default.__name__ if callable(parameter.default) else repr(parameter.default)
    return f"{written} = {'…' if shown.startswith('_') else shown}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _code(declaration: str) -> list[str]:
    return ["```text", *declaration.split("\n"), "```"]


def text(value: Any) -> str:
    """A docstring as Markdown: paragraphs on lines of their own, names in code."""
    found = inspect.getdoc(value) or inspect.getdoc(getattr(Database, value.__name__, None))
    assert found, f"{value} has no docstring"
    plain = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", found.replace("``", "`"))
    # Indented parts are code, kept line by line.
    paragraphs = re.split(r"\n\s*\n", plain)
    return "\n\n".join(p if p.startswith("    ") else " ".join(p.split()) for p in paragraphs)


def _constants(module: Any) -> Iterator[str]:
    """The names of the DB-API module that are no classes of errors."""
    yield from ("| Name | |", "|---|---|")
    for name in ("apilevel", "threadsafety", "paramstyle"):
        yield f"| `{name}` | `{getattr(module, name)!r}` |"
    for name in ("STRING", "BINARY", "NUMBER", "DATETIME", "ROWID"):
        yield f"| `{name}` | equal to the type codes of its kind |"
    for name in ("Date", "Time", "Timestamp", "Binary"):
        kind = getattr(module, name)
        yield f"| `{name}` | `{kind.__module__}.{kind.__qualname__}` |".replace("builtins.", "")
    for name in ("DateFromTicks", "TimeFromTicks", "TimestampFromTicks"):
        yield f"| `{_signature(name, getattr(module, name))}` | {text(getattr(module, name))} |"


def _errors() -> Iterator[str]:
    yield from ("| Class | Is a | Meaning |", "|---|---|---|")
    for name in dpsql.__all__:
        kind = getattr(dpsql, name)
        if inspect.isclass(kind) and issubclass(kind, errors.Error | errors.Warning | UserWarning):
            first, *more = text(kind).split("\n\n")
            meaning = " ".join([first, *more])
            yield f"| `{name}` | `{kind.__bases__[0].__name__}` | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
