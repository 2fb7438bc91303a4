"""Statements of a text: a query, a plan, a setting, or a command about the connection.

    SELECT ...                       EXPLAIN SELECT ...
    SET epsilon = 0.5                RESET epsilon
    SHOW BUDGET | TABLES | PARAMETERS
    DESCRIBE visits                  PRAGMA table_info('visits')
    CREATE MATERIALIZED VIEW v WITH (step = '1 day', start = '2026-01-01') AS SELECT ...
    REFRESH MATERIALIZED VIEW v      DROP MATERIALIZED VIEW v
    SHOW search_path                 BEGIN, COMMIT, ROLLBACK

Statements beside SELECT are ours: none of their text reaches an engine. They are told apart by
their first word, and everything that does not begin with one of theirs is left to the query parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NoReturn, TypeAlias

from sqlglot import Token, TokenType
from sqlglot.errors import TokenError

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.core.table_name import read_parts
from dpsql.errors import ParameterError, Place, QueryRefused, SQLSyntaxError
from dpsql.policy.parameters import check_parameter_name, of_null
from dpsql.syntax.client_settings import (
    CLIENT_SETTINGS,
    NO_TRANSACTION,
    TRANSACTION,
    Unchanged,
    holds,
    unchanged,
)
from dpsql.syntax.dialect import PrivateDuckDB
from dpsql.syntax.parse import check_text, several_statements, word_at

_DIALECT: Final = PrivateDuckDB()
_KINDS: Final = {
    TokenType.IDENTIFIER: "name",
    TokenType.STRING: "string",
    TokenType.NUMBER: "number",
}


@dataclass(frozen=True, slots=True)
class StatementToken:
    """A piece of a statement; at the end of the text its kind is ``end``.

    ``value`` is what ``text`` says: without quotes, and without the underscores of a number.
    """

    kind: str
    text: str
    start: int
    value: str = ""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The folded word, or an empty text for anything else."""
        return fold(self.text) if self.kind == "word" else ""

    @property
    def names(self) -> bool:
        """True if it can name a table or a parameter."""
        return self.kind in ("word", "name")


class TokenReader:
    """A text, token by token as the query parser reads it, from the end of its first word on."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self._tokens: list[StatementToken] = []
        try:
            for found in _DIALECT.tokenize(text[start:]):
                self._add(found, start)
        except TokenError:
            self.fail(
                StatementToken("sign", text[start:], start), "a quote or a comment has no end", None
            )
        self._tokens = [StatementToken("end", "", len(text)), *reversed(self._tokens)]
        self.last = self._tokens[0]

    def _add(self, found: Token, offset: int) -> None:
        start = offset + found.start
        text = self.text[start : offset + found.end + 1]
        kind = _KINDS.get(found.token_type, "word" if text.isidentifier() else "sign")
        before = self._tokens[-1] if self._tokens else None
        if kind == "number" and before and before.text == "." and before.end == start:
            self._tokens[-1] = StatementToken(kind, f".{text}", before.start, f".{found.text}")
        else:
            self._tokens.append(StatementToken(kind, text, start, found.text))

    def peek(self) -> StatementToken:
        """Return the next token."""
        return self._tokens[-1]

    def take(self) -> StatementToken:
        """Return the next token, which then is the last one."""
        self.last = self._tokens.pop() if len(self._tokens) > 1 else self._tokens[0]
        return self.last

    def end(self) -> None:
        """Refuse anything but semicolons up to the end of the text."""
        last, token = self.last, self.take()
        ended = token.text == ";"
        while token.text == ";":
            token = self.take()
        if token.kind != "end":
            if ended:
                raise several_statements(self.place(token))
            self.fail(token, "the statement should end here", None)
        self.last = last

    def place(self, first: StatementToken, last: StatementToken | None = None) -> Place:
        """Find the place of a token, or of all from one token to another."""
        return Place.in_text(self.text, first.start, (last or first).end)

    def fail(self, token: StatementToken, reason: str, hint: str | None) -> NoReturn:
        raise SQLSyntaxError(reason, code="syntax_error", place=self.place(token), hint=hint)


class ShowSubject(StrEnum):
    """A subject of SHOW."""

    BUDGET = "budget"
    VIEWS = "materialized views"
    TABLES = "tables"
    ALL_TABLES = "all tables"
    DATABASES = "databases"
    SCHEMAS = "schemas"
    PARAMETERS = "parameters"


@dataclass(frozen=True, slots=True)
class Select:
    """A query to answer, or text that the query parser will refuse."""

    text: str


@dataclass(frozen=True, slots=True)
class Explain:
    """A query to explain. ``before`` is the text in front of it, so that places can be moved.

    ``sql`` asks for the generated SQL as well.
    """

    before: str
    text: str
    sql: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """A privacy parameter for the rest of the connection, its value yet to be checked."""

    name: str
    value: object
    place: Place


@dataclass(frozen=True, slots=True)
class Reset:
    """RESET of a privacy parameter: back to its value before any SET."""

    name: str


@dataclass(frozen=True, slots=True)
class Show:
    """The account's budget, what there is to ask, or the privacy parameters in force."""

    what: ShowSubject


@dataclass(frozen=True, slots=True)
class Describe:
    """The columns of a table, by the parts of its name.

    What is declared of them, or in the ``engine``'s own way.
    """

    names: tuple[str, ...]
    place: Place
    engine: bool = False


@dataclass(frozen=True, slots=True)
class CreateView:
    """A materialized view to create, or to explain: its name, its options and its query.

    ``before`` is the text in front of the query, so that places can be moved; ``place`` is that of
    the name.
    """

    name: str
    options: Mapping[str, object]
    before: str
    text: str
    place: Place
    explained: bool = False
    sql: bool = False


@dataclass(frozen=True, slots=True)
class RefreshView:
    """A materialized view to refresh, up to a wall time if one is given."""

    name: str
    until: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class DropView:
    """A materialized view to drop."""

    name: str
    place: Place


Command: TypeAlias = Set | Reset | Show | Describe | CreateView | RefreshView | DropView | Unchanged
"""A statement of ours, which answers with a listing."""

Statement: TypeAlias = Select | Explain | Command

_WORDS: Final = {"true": True, "false": False}  # as in OPTIONS
_MAX_PARTS: Final = 3  # of a table's name: catalog, schema, table
_MAX_DIGITS: Final = 400  # beyond, a number is infinite to every parameter


def read_statement(text: str) -> Statement:
    """Read the statement a text holds; only names of privacy parameters are looked up.

    Raises ``SQLSyntaxError`` for a statement of ours that is not well formed, ``ParameterError``
    for one that sets anything but a privacy parameter, and ``QueryRefused`` for EXPLAIN ANALYZE,
    for several statements, and for text too long or too deeply nested.
    """
    check_text(text)
    start, end = word_at(text)
    word = fold(text[start:end])
    if word == "explain":
        return _explain(text, end)
    read = _READERS.get(word)
    if word in _OF_VIEWS and not _is_view(text, end):
        read = None
    if word in _OTHERS_WORDS and not _is_known(text, word, end):
        read = None
    return Select(text) if read is None else read(TokenReader(text, end))


def _explain(text: str, end: int) -> Statement:
    begun, end = end, _after_sql(text, end)
    sql = end > begun
    start, end = word_at(text, end)
    if fold(text[start:end]) in ("analyze", "analyse"):
        raise QueryRefused(
            "EXPLAIN ANALYZE would run the query, and how long its steps take depends on the data",
            code="explain_analyze",
            place=Place.in_text(text, start, end),
            hint="Write EXPLAIN SELECT …: it shows the plan, the noise and the price.",
        )
    if fold(text[start:end]) == "create" and _is_view(text, end):
        return replace(_create(TokenReader(text, end)), explained=True, sql=sql)
    return Explain(text[:start], text[start:], sql)


def _after_sql(text: str, end: int) -> int:
    """Return the place after ``(SQL)``, or the one given where something else comes next."""
    opened = word_at(text, end)[0]
    if text[opened : opened + 1] == "(":
        start, close = word_at(text, opened + 1)
        closed = word_at(text, close)[0]
        if fold(text[start:close]) == "sql" and text[closed : closed + 1] == ")":
            return closed + 1
    return end


def _is_view(text: str, end: int) -> bool:
    """Tell whether MATERIALIZED comes next: views of the engine are left to the parser."""
    start, end = word_at(text, end)
    return fold(text[start:end]) == "materialized"


def _is_known(text: str, word: str, end: int) -> bool:
    """Tell whether a statement of the engine's is one that tools send to find columns."""
    start, end = word_at(text, end)
    return fold(text[start:end]) in _OTHERS_WORDS[word]


def _pragma(reader: TokenReader) -> Statement:
    hint = "Write PRAGMA table_info('visits'), or DESCRIBE visits."
    if reader.take().word == "show_tables":
        reader.end()
        return Show(ShowSubject.TABLES)
    sign, name = reader.take(), reader.take()
    if sign.text != "(" or not (name.names or name.kind == "string"):
        reader.fail(name, "table_info takes the name of a table", hint)
    sign = reader.take()
    if sign.text != ")":
        reader.fail(sign, "a parenthesis is missing", hint)
    reader.end()
    parts = read_parts(name.value) if name.kind == "string" else [name.value]
    return Describe(tuple(parts or [name.value]), reader.place(name), engine=True)


def _use(reader: TokenReader) -> Statement:
    reader.take()
    reader.end()
    return Show(ShowSubject.SCHEMAS)


def _create(reader: TokenReader) -> CreateView:
    name, place = _view(reader, "CREATE")
    options: dict[str, object] = {}
    if reader.peek().word == "with":
        reader.take()
        _options(reader, options)
    token = reader.take()
    if token.word != "as":
        reader.fail(token, "the view's query is missing", "Write AS SELECT … at the end.")
    start = reader.last.end
    return CreateView(name, options, reader.text[:start], reader.text[start:], place)


def _options(reader: TokenReader, options: dict[str, object]) -> None:
    """Read ``(step = '1 day', steps = 365)``."""
    sign = reader.take()
    if sign.text != "(":
        reader.fail(sign, "the options of a view stand in parentheses", _WRITE_OPTIONS)
    while True:
        name, sign = reader.take(), reader.take()
        if not name.names or sign.text != "=":
            reader.fail(name, "an option of a view is a name and a value", _WRITE_OPTIONS)
        option = fold(name.value)
        if option in options:
            reader.fail(name, f"the option {option} is given twice", "Keep one of the two.")
        options[option] = _value(option, reader)
        sign = reader.take()
        if sign.text == ")":
            return
        if sign.text != ",":
            reader.fail(sign, "a comma or a parenthesis is missing", _WRITE_OPTIONS)


def _refresh(reader: TokenReader) -> RefreshView:
    name, place = _view(reader, "REFRESH")
    until = None
    if reader.peek().word == "until":
        reader.take()
        token = reader.take()
        if token.word == "timestamp":
            token = reader.take()
        if token.kind != "string":
            reader.fail(token, "UNTIL needs a time", "Write UNTIL TIMESTAMP '2026-02-01'.")
        until = token.value
    reader.end()
    return RefreshView(name, until, place)


def _drop(reader: TokenReader) -> DropView:
    name, place = _view(reader, "DROP")
    reader.end()
    return DropView(name, place)


def _view(reader: TokenReader, verb: str) -> tuple[str, Place]:
    """Read MATERIALIZED VIEW and a name."""
    hint = f"Write {verb} MATERIALIZED VIEW and a name."
    reader.take()
    word = reader.take()
    if word.word != "view":
        reader.fail(word, f"{verb} MATERIALIZED needs the word VIEW", hint)
    name = reader.take()
    if not name.names or not name.value:
        reader.fail(name, "the name of the view is missing", hint)
    if fold(name.value).startswith(INTERNAL_PREFIX) or len(name.value) > _MAX_NAME:
        reader.fail(name, "this cannot be the name of a view", "Choose another, shorter name.")
    if reader.peek().text == ".":
        reader.fail(reader.take(), "views have plain names", "Leave out catalog and schema.")
    return name.value, reader.place(name)


def _set(reader: TokenReader) -> Statement:
    client = _client_setting(reader)
    name = client or _parameter(reader, "SET")
    if reader.last.word != "zone":  # TIME ZONE has no sign
        sign = reader.take()
        if sign.text != "=" and sign.word != "to":
            reader.fail(sign, "SET needs a value", "Write SET epsilon = 0.5.")
    first = reader.peek()
    value = _value(name, reader)
    reader.end()
    place = reader.place(first, reader.last)
    if client is None:
        return Set(name, value, place)
    kept = unchanged(client)
    if not holds(client, value):
        raise ParameterError(
            f"{client} is {kept.value} here, and cannot be changed",
            code="bad_parameter",
            place=place,
            hint="Settings of the engine cannot be changed: answers depend on them.",
        )
    return kept


def _client_setting(reader: TokenReader) -> str | None:
    """Take the name of a setting of drivers; None if something else comes next."""
    name = reader.peek().word
    if name == "time":
        reader.take()
        if reader.take().word != "zone":
            reader.fail(reader.last, "SET TIME needs the word ZONE", "Write SET TIME ZONE 'UTC'.")
        return "timezone"
    if name not in CLIENT_SETTINGS:
        return None
    reader.take()
    return name


def _transaction(reader: TokenReader) -> Unchanged:
    while reader.peek().word in _OF_TRANSACTIONS:
        reader.take()
    reader.end()
    return Unchanged(TRANSACTION, NO_TRANSACTION)


def _value(name: str, reader: TokenReader) -> object:
    """Read a literal: what OPTIONS accepts as the value of a parameter."""
    token = reader.take()
    if token.kind == "string":
        return token.value
    if token.word == "null":
        return of_null(name)
    if token.kind == "word":
        return _WORDS.get(token.word, token.value)
    negative = token.text == "-"
    if token.text in ("-", "+"):
        token = reader.take()
    number = _number(token.value) if token.kind == "number" else None
    if number is None:
        reader.fail(token, "SET needs a literal value", "Write SET epsilon = 0.5.")
    return -number if negative else number


def _number(digits: str) -> float | int | None:
    whole = digits.isdecimal() and len(digits) <= _MAX_DIGITS
    try:
        return int(digits) if whole else float(digits)
    except ValueError:  # 1.5e, which the tokenizer takes for a number
        return None


def _reset(reader: TokenReader) -> Statement:
    client = _client_setting(reader)
    name = client or _parameter(reader, "RESET")
    reader.end()
    return Reset(name) if client is None else unchanged(client)


def _parameter(reader: TokenReader, verb: str) -> str:
    """Read the name of a privacy parameter. Raises ``ParameterError`` for any other name."""
    token = reader.take()
    if not token.names:
        reader.fail(token, f"{verb} needs a privacy parameter", f"Write {verb} epsilon …")
    try:
        check_parameter_name(token.value)
    except ParameterError as error:
        error.place = reader.place(token)
        error.hint = f"{error.hint} Settings and variables of the engine cannot be changed."
        raise
    return fold(token.value)


def _show(reader: TokenReader) -> Statement:
    client = _client_setting(reader)
    if client is not None:
        reader.end()
        return unchanged(client)
    token = reader.take()
    subject = token.word
    if subject in ("materialized", "all"):
        subject = f"{subject} {reader.take().word}"
    if subject not in tuple(ShowSubject):
        reader.fail(
            token,
            "SHOW shows the budget, the tables, the views or the privacy parameters",
            "Write SHOW BUDGET, SHOW TABLES, SHOW MATERIALIZED VIEWS, SHOW PARAMETERS, or DESCRIBE "
            "and a table's name.",
        )
    reader.end()
    return Show(ShowSubject(subject))


def _describe(reader: TokenReader) -> Statement:
    first = reader.take()
    names = [first.value]
    if not first.names or first.word in ("select", "with", "from", "values", "table"):
        reader.fail(
            first,
            "DESCRIBE takes the name of a table",
            "The plan of a query and its columns are shown by EXPLAIN SELECT ….",
        )
    while len(names) < _MAX_PARTS and reader.peek().text == ".":
        reader.take()
        names.append(reader.take().value)
    reader.end()
    return Describe(tuple(names), reader.place(first, reader.last))


_READERS: Final = {
    "set": _set,
    "reset": _reset,
    "show": _show,
    "describe": _describe,
    "desc": _describe,
    "create": _create,
    "refresh": _refresh,
    "drop": _drop,
    "pragma": _pragma,
    "use": _use,
    **dict.fromkeys(("begin", "start", "commit", "end", "rollback", "abort"), _transaction),
}
_OF_TRANSACTIONS: Final = ("transaction", "work", "read", "only")
_OF_VIEWS: Final = frozenset({"create", "refresh", "drop"})
_OTHERS_WORDS: Final = {
    "pragma": ("table_info", "show_tables"),
    "use": ("main",),
    "start": ("transaction",),
}
"""Statements of the engine's that are answered, by the word that comes second."""
_WRITE_OPTIONS: Final = "Write WITH (step = '1 day', start = '2026-01-01', steps = 365)."
_MAX_NAME: Final = 63  # as in PostgreSQL
