"""SQL as text: for tests that say what a text means, or hand one of their own to an engine."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from dpsql.core.sql import Name, Sql, Written
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.embedded.spelling import DUCKDB_TEXT


def generated(text: str) -> Sql:
    """The SQL of a text, as if a dialect had written it; words in backticks are names."""
    parts = re.split(r"`(\w+)`", text)
    return Sql(*(Name(part) if at % 2 else Written(part) for at, part in enumerate(parts)))


def text(statement: Sql) -> str:
    """The text that DuckDB reads."""
    return statement.render(DUCKDB_TEXT)


class Spelled:
    """A dialect whose methods take and return text, types among it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def quote(self, name: str) -> str:
        """An identifier."""
        return self.dialect.renderer.name(name)

    def literal(self, value: object) -> str:
        """A string literal."""
        return self.dialect.renderer.text(str(value))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.dialect, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            known = inspect.signature(getattr(Dialect, name)).bind(self, *arguments, **named)
            parameters = known.signature.parameters
            for each, value in known.arguments.items():
                known.arguments[each] = _as_sql(value, str(parameters[each].annotation))
            made = found(*known.args[1:], **known.kwargs)
            return _as_text(made, self.dialect)

        return called


def of_text(method: str, spelled: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a dialect, from a function that takes and returns text."""
    makes = str(inspect.signature(getattr(Dialect, method)).return_annotation)

    @wraps(spelled)
    def called(self: Dialect, *arguments: Any, **named: Any) -> Any:
        texts = [_as_text(value, self) for value in arguments]
        made = spelled(Spelled(self), *texts, **{n: _as_text(v, self) for n, v in named.items()})
        return _as_sql(made, makes)

    return called


def _as_sql(value: Any, annotation: str) -> Any:
    if annotation == "Sql" and isinstance(value, str):
        return generated(value)
    if annotation == "SqlType" and isinstance(value, str):
        return SqlType.of(value)
    if annotation == "Sequence[Sql]":
        return [generated(each) if isinstance(each, str) else each for each in value]
    return value


def _as_text(value: Any, dialect: Dialect) -> Any:
    if isinstance(value, Sql):
        return value.render(dialect.renderer)
    if isinstance(value, SqlType):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_as_text(each, dialect) for each in value]
    return value
