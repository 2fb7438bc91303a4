"""Statements of ours token by token, as the query parser reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from sqlglot import Token, TokenType
from sqlglot.errors import TokenError

from dpsql.core.schema import fold
from dpsql.errors import Place, SQLSyntaxError
from dpsql.syntax.dialect import PrivateDuckDB
from dpsql.syntax.parse import several_statements

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
