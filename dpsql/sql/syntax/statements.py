"""What a text asks for: an answer, a plan, a setting, or something about the connection.

    SELECT ...                       EXPLAIN SELECT ...
    SET epsilon = 0.5                RESET epsilon
    SHOW BUDGET | TABLES | PARAMETERS
    DESCRIBE visits

Statements beside SELECT are ours: none of their text reaches an engine. They are told apart by
their first word, and everything that does not begin with one of theirs is left to the query parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NoReturn, TypeAlias

from sqlglot import Token, TokenType
from sqlglot.errors import TokenError

from dpsql.core.schema import fold
from dpsql.errors import ParameterError, Place, QueryRefused, SQLSyntaxError
from dpsql.policy.parameters import UNLIMITED, check_parameter_name
from dpsql.sql.syntax.dialect import PrivateDuckDB
from dpsql.sql.syntax.parse import check_text, several_statements, word_at


class ShowSubject(StrEnum):
    """What SHOW can show."""

    BUDGET = "budget"
    TABLES = "tables"
    PARAMETERS = "parameters"


@dataclass(frozen=True, slots=True)
class Select:
    """A query to answer, or text that the query parser will refuse."""

    text: str


@dataclass(frozen=True, slots=True)
class Explain:
    """A query to explain. ``before`` is the text in front of it, so that places can be moved."""

    before: str
    text: str


@dataclass(frozen=True, slots=True)
class Set:
    """A privacy parameter for the rest of the connection, its value yet to be checked."""

    name: str
    value: object
    place: Place


@dataclass(frozen=True, slots=True)
class Reset:
    """A privacy parameter that is to be what it was before any SET."""

    name: str


@dataclass(frozen=True, slots=True)
class Show:
    """The account's budget, the tables, or the privacy parameters in force."""

    what: ShowSubject


@dataclass(frozen=True, slots=True)
class Describe:
    """The columns of a table."""

    table: str
    place: Place


Statement: TypeAlias = Select | Explain | Set | Reset | Show | Describe

_WORDS: Final = {"null": UNLIMITED, "true": True, "false": False}  # as in OPTIONS
_MAX_PARTS: Final = 3  # of a table's name: catalog, schema, table
_MAX_DIGITS: Final = 400  # beyond, a number is infinite to every parameter
_DIALECT: Final = PrivateDuckDB()
_KINDS: Final = {
    TokenType.IDENTIFIER: "name",
    TokenType.STRING: "string",
    TokenType.NUMBER: "number",
}


def read_statement(text: str) -> Statement:
    """The statement a text holds; nothing is looked up but the names of privacy parameters.

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
    return Select(text) if read is None else read(_Reader(text, end))


def _explain(text: str, end: int) -> Statement:
    start, end = word_at(text, end)
    if fold(text[start:end]) in ("analyze", "analyse"):
        raise QueryRefused(
            "EXPLAIN ANALYZE would run the query, and how long its steps take depends on the data",
            code="explain_analyze",
            place=Place.in_text(text, start, end),
            hint="Write EXPLAIN SELECT …: it shows the plan, the noise and the price.",
        )
    return Explain(text[:start], text[start:])


def _set(reader: _Reader) -> Statement:
    name = _parameter(reader, "SET")
    sign = reader.take()
    if sign.text != "=" and sign.word != "to":
        reader.fail(sign, "SET needs a value", "Write SET epsilon = 0.5.")
    first = reader.peek()
    value = _value(reader)
    reader.end()
    return Set(name, value, reader.place(first, reader.last))


def _value(reader: _Reader) -> object:
    """A literal: what OPTIONS accepts as the value of a parameter."""
    token = reader.take()
    if token.kind == "string":
        return token.value
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


def _reset(reader: _Reader) -> Statement:
    name = _parameter(reader, "RESET")
    reader.end()
    return Reset(name)


def _parameter(reader: _Reader, verb: str) -> str:
    """The name of a privacy parameter. Raises ``ParameterError`` for any other name."""
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


def _show(reader: _Reader) -> Statement:
    token = reader.take()
    if token.word not in tuple(ShowSubject):
        reader.fail(
            token,
            "SHOW shows the budget, the tables or the privacy parameters",
            "Write SHOW BUDGET, SHOW TABLES, SHOW PARAMETERS, or DESCRIBE and a table's name.",
        )
    reader.end()
    return Show(ShowSubject(token.word))


def _describe(reader: _Reader) -> Statement:
    first = reader.take()
    names = [first.value]
    if not first.names or first.word in ("select", "with", "from", "values", "table"):
        reader.fail(
            first,
            "DESCRIBE takes the name of a table",
            "How a query would be answered, and as what columns, is shown by EXPLAIN SELECT ….",
        )
    while len(names) < _MAX_PARTS and reader.peek().text == ".":
        reader.take()
        names.append(reader.take().value)
    reader.end()
    return Describe(".".join(names), reader.place(first, reader.last))


_READERS: Final = {
    "set": _set,
    "reset": _reset,
    "show": _show,
    "describe": _describe,
    "desc": _describe,
}


@dataclass(frozen=True, slots=True)
class _Token:
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


class _Reader:
    """A text, token by token as the query parser reads it, from the end of its first word on."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self._tokens: list[_Token] = []
        try:
            for found in _DIALECT.tokenize(text[start:]):
                self._add(found, start)
        except TokenError:
            self.fail(_Token("sign", text[start:], start), "a quote or a comment has no end", None)
        self._tokens = [_Token("end", "", len(text)), *reversed(self._tokens)]
        self.last = self._tokens[0]

    def _add(self, found: Token, offset: int) -> None:
        start = offset + found.start
        text = self.text[start : offset + found.end + 1]
        kind = _KINDS.get(found.token_type, "word" if text.isidentifier() else "sign")
        before = self._tokens[-1] if self._tokens else None
        if kind == "number" and before and before.text == "." and before.end == start:
            self._tokens[-1] = _Token(kind, f".{text}", before.start, f".{found.text}")
        else:
            self._tokens.append(_Token(kind, text, start, found.text))

    def peek(self) -> _Token:
        """The next token."""
        return self._tokens[-1]

    def take(self) -> _Token:
        """The next token, which then is the last one."""
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

    def place(self, first: _Token, last: _Token | None = None) -> Place:
        """Where a token stands, or all from one token to another."""
        return Place.in_text(self.text, first.start, (last or first).end)

    def fail(self, token: _Token, reason: str, hint: str | None) -> NoReturn:
        raise SQLSyntaxError(reason, code="syntax_error", place=self.place(token), hint=hint)
