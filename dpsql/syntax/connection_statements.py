"""Statements that are the connection's own: cursors, COPY to the client, the end of transactions.

All others go to the session as they were typed. They are told apart by their tokens, never by text
in quotes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sqlglot import Token, TokenType
from sqlglot.errors import TokenError

from dpsql.core.schema import fold
from dpsql.errors import Place, SQLSyntaxError
from dpsql.syntax.dialect import PrivateDuckDB

_DIALECT: Final = PrivateDuckDB()
_BRACKET: Final = "("
_LONGEST: Final = 100_000
_DIGITS: Final = 9  # of a number, at most
_BEGINNINGS: Final = frozenset({"BEGIN", "START"})
_ENDINGS: Final = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT"})
_COPY_FORMATS: Final = frozenset({"text", "csv", "binary"})


@dataclass(frozen=True, slots=True)
class Begin:
    """BEGIN."""


@dataclass(frozen=True, slots=True)
class End:
    """COMMIT or ROLLBACK, by the word of its tag. ``to`` a savepoint it ends nothing."""

    tag: str
    to: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """SAVEPOINT or RELEASE, by its tag: nothing is undone, so nothing is marked."""

    tag: str


@dataclass(frozen=True, slots=True)
class Declare:
    """DECLARE name CURSOR FOR a query, which begins at ``start``."""

    name: str
    start: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH of so many rows from a cursor, all if None."""

    name: str
    rows: int | None


@dataclass(frozen=True, slots=True)
class Shut:
    """CLOSE of a cursor or DEALLOCATE of a prepared statement; None for all of them."""

    tag: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Discard:
    """DISCARD ALL, or RESET ALL (``settings`` alone)."""

    settings: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY (query) TO STDOUT: the query is ``text[start:end]``."""

    start: int
    end: int
    format: str
    header: bool
    delimiter: str
    null: str


@dataclass(frozen=True, slots=True)
class Timeout:
    """SET statement_timeout, in seconds; 0 is none. ``local``: until the transaction ends."""

    seconds: float
    local: bool = False


@dataclass(frozen=True, slots=True)
class ShowIntervals:
    """SET dpsql.intervals: whether the ends of intervals are columns. ``local`` as above."""

    on: bool
    local: bool = False


@dataclass(frozen=True, slots=True)
class SetLocal:
    """SET LOCAL of another setting, until the transaction ends; ``text`` is the SET without LOCAL.

    Blanks stand for the word, so that places of errors stay true.
    """

    text: str


Own: TypeAlias = (
    Begin
    | End
    | Mark
    | Declare
    | Fetch
    | Shut
    | Discard
    | Copy
    | Timeout
    | ShowIntervals
    | SetLocal
)
_INTERVALS: Final = ("DPSQL", ".", "INTERVALS")
_TRUTH: Final = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0", "default"), False),
}


class _Words:
    """The tokens of a statement, taken from the front."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        """Return a token as an unquoted word in capitals; empty for quoted ones and the end."""
        place = self.at + ahead
        if place >= len(self._tokens):
            return ""
        token = self._tokens[place]
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return token.text.upper()

    def skip(self, *words: str) -> bool:
        """Take these words if they come next."""
        if all(self.peek(ahead) == word for ahead, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    @property
    def done(self) -> bool:
        return self.at >= len(self._tokens)

    def token(self) -> Token:
        """Take the next token. Raises ``SQLSyntaxError`` at the end."""
        if self.done:
            raise self.wrong()
        self.at += 1
        return self._tokens[self.at - 1]

    def name(self) -> str:
        """Take a name, folded unless it is quoted."""
        token = self.token()
        if token.token_type == TokenType.STRING:
            raise self.wrong()
        return token.text if token.token_type == TokenType.IDENTIFIER else fold(token.text)

    def string(self) -> str:
        token = self.token()
        if token.token_type != TokenType.STRING:
            raise self.wrong()
        return token.text

    def end(self) -> None:
        if not self.done:
            raise self.wrong()

    def wrong(self) -> SQLSyntaxError:
        """Build the error for what cannot stand here."""
        tokens = self._tokens
        last = tokens[min(self.at, len(tokens) - 1)]
        place = Place.in_text(self.text, _start(last), last.end + 1 - len(_BRACKET))
        return SQLSyntaxError(
            "the statement is not one that is known", code="syntax_error", place=place
        )


def words_of(text: str) -> tuple[str, ...]:
    """Split a statement into its tokens in small letters, names and texts in their quotes.

    Empty for a text that ends inside of quotes.
    """
    try:
        tokens = _DIALECT.tokenize(_BRACKET + text)[len(_BRACKET) :]
    except TokenError:
        return ()
    return tuple(text[_start(token) : token.end + 1 - len(_BRACKET)].lower() for token in tokens)


def own_statement(text: str) -> Own | None:
    """Read a statement of the connection's own; None for all that the session answers.

    Raises ``SQLSyntaxError`` for one that begins like these and goes on differently.
    """
    first = text.lstrip()[:12].upper()
    if not first.startswith(_FIRST) or len(text) > _LONGEST:
        return None  # what is too long is refused by the session
    try:
        # Behind a bracket no word is one of those whose rest the lexer takes for a text.
        tokens = _DIALECT.tokenize(_BRACKET + text)[len(_BRACKET) :]
    except TokenError:
        return None  # refused by the session, with a place
    words = _Words(text, tokens)
    found = _read(words, tokens)
    if found is not None:
        words.end()
    return found


_FIRST: Final = (
    *("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "DECLARE"),
    *("FETCH", "CLOSE", "DEALLOCATE", "DISCARD", "RESET", "COPY", "SET"),
)


def _read(words: _Words, tokens: list[Token]) -> Own | None:
    word = words.peek()
    if word in _BEGINNINGS:
        words.at = len(tokens)  # isolation levels and modes change nothing
        return Begin()
    if word in _ENDINGS:
        return _ending(words, word)
    if words.skip("SAVEPOINT") or words.skip("RELEASE"):
        words.skip("SAVEPOINT")
        words.name()
        return Mark(word)
    if words.skip("DECLARE"):
        return _declared(words)
    if words.skip("FETCH"):
        return _fetched(words)
    if words.skip("CLOSE"):
        return Shut("CLOSE CURSOR", None if words.skip("ALL") else words.name())
    if words.skip("DEALLOCATE"):
        words.skip("PREPARE")
        return Shut("DEALLOCATE", None if words.skip("ALL") else words.name())
    if words.skip("DISCARD", "ALL"):
        return Discard(settings=False)
    if words.skip("RESET", "ALL"):
        return Discard(settings=True)
    if words.skip("COPY", "("):
        return _copied(words)
    if words.skip("SET", "STATEMENT_TIMEOUT") or words.skip("SET", "SESSION", "STATEMENT_TIMEOUT"):
        return _timeout(words)
    if words.skip("SET", "LOCAL", "STATEMENT_TIMEOUT"):
        return replace(_timeout(words), local=True)
    if words.skip("SET", *_INTERVALS) or words.skip("SET", "SESSION", *_INTERVALS):
        return _intervals(words)
    if words.skip("SET", "LOCAL", *_INTERVALS):
        return replace(_intervals(words), local=True)
    if words.skip("RESET", *_INTERVALS):
        return ShowIntervals(on=False)
    if words.peek() == "SET" and words.peek(1) == "LOCAL":
        return _set_locally(words, tokens)
    return None


def _start(token: Token) -> int:
    """Return where a token begins in the statement itself."""
    return token.start - len(_BRACKET)


def _ending(words: _Words, word: str) -> End:
    words.token()
    if not words.skip("WORK"):
        words.skip("TRANSACTION")
    tag = "ROLLBACK" if word in ("ROLLBACK", "ABORT") else "COMMIT"
    if words.skip("TO"):
        words.skip("SAVEPOINT")
        words.name()
        return End(tag, to=True)
    return End(tag)


def _declared(words: _Words) -> Declare:
    name = words.name()
    while words.peek() and words.peek() != "CURSOR":
        words.token()  # BINARY, INSENSITIVE, [NO] SCROLL
    if not words.skip("CURSOR"):
        raise words.wrong()
    words.skip("WITH", "HOLD")
    words.skip("WITHOUT", "HOLD")
    if not words.skip("FOR"):
        raise words.wrong()
    start = _start(words.token())
    words.at = len(words._tokens)
    return Declare(name, start)


def _fetched(words: _Words) -> Fetch:
    rows: int | None = 1
    if words.skip("FORWARD") or words.skip("NEXT"):
        pass
    if words.skip("ALL"):
        rows = None
    elif words.peek().isdecimal():
        rows = _number(words, words.token().text)
    if not words.skip("FROM"):
        words.skip("IN")
    return Fetch(words.name(), rows)


def _copied(words: _Words) -> Copy:
    """Read a COPY after its opening bracket."""
    start, depth = words.token(), 1
    token = start
    while depth:
        token = words.token()
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
    if not words.skip("TO", "STDOUT"):
        raise words.wrong()
    given: dict[str, str] = {}
    if words.skip("WITH") or words.peek():
        _options(words, given)
    format_ = given.get("format", "text")
    if format_ not in _COPY_FORMATS:
        raise words.wrong()
    if len(given.get("delimiter", ",")) != 1:
        raise words.wrong()
    csv = format_ == "csv"
    return Copy(
        *(_start(start), _start(token), format_),
        header=given.get("header", "false") in ("true", "on", "1"),
        delimiter=given.get("delimiter", "," if csv else "\t"),
        null=given.get("null", "" if csv else "\\N"),
    )


def _options(words: _Words, given: dict[str, str]) -> None:
    """Read the options of a COPY, in brackets or, as they were once written, without."""
    if not words.skip("("):
        while not words.done:
            word = words.token().text.lower()
            if word in _COPY_FORMATS:
                given["format"] = word
            elif word == "header":
                given["header"] = "true"
            else:
                raise words.wrong()
        return
    while True:
        name = words.token().text.lower()
        if name not in ("format", "header", "delimiter", "null", "encoding"):
            raise words.wrong()
        alone = words.peek() in (",", ")")
        given[name] = "true" if alone else words.token().text
        if name in ("format", "header"):
            given[name] = given[name].lower()
        if words.skip(")"):
            return
        if not words.skip(","):
            raise words.wrong()


def _set_locally(words: _Words, tokens: list[Token]) -> SetLocal:
    words.at = len(tokens)
    local, text = tokens[1], words.text
    start, end = _start(local), local.end + 1 - len(_BRACKET)
    return SetLocal(text[:start] + " " * (end - start) + text[end:])


_UNITS: Final = {
    "": 0.001,
    "us": 1e-6,
    "ms": 0.001,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def _timeout(words: _Words) -> Timeout:
    if not words.skip("="):
        words.skip("TO")
    if words.skip("DEFAULT"):
        return Timeout(0.0)
    text = words.token().text.strip().lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip()
    if unit not in _UNITS:
        raise words.wrong()
    return Timeout(_number(words, digits) * _UNITS[unit])


def _intervals(words: _Words) -> ShowIntervals:
    if not words.skip("="):
        words.skip("TO")
    on = _TRUTH.get(words.token().text.strip().lower())
    if on is None:
        raise words.wrong()
    return ShowIntervals(on)


def _number(words: _Words, digits: str) -> int:
    if not digits.isdecimal() or len(digits) > _DIGITS:
        raise words.wrong()
    return int(digits)
