"""Completion: suggestions at a place in a typed text, a pure function of text and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dpsql.core.quoting import quote_text
from dpsql.core.schema import fold
from dpsql.core.table_name import MAIN, unquoted
from dpsql.interfaces.shell.candidates import (
    AGGREGATES,
    KEYWORDS,
    NOISE,
    SHOW_WORDS,
    SQL_FUNCTIONS,
    STARTS,
    VIEW_OPTIONS,
    Argument,
    Known,
    Suggestion,
    matching,
    spelled,
)
from dpsql.interfaces.shell.settings import SHELL_SETTINGS, Format
from dpsql.planner import MECHANISM_NAMES
from dpsql.policy.parameters import PARAMETER_NAMES


def candidates(before: str, after: str, known: Known) -> list[Suggestion]:
    """List suggestions between two parts of a typed text, likely ones first."""
    start = before.lstrip()
    if start.startswith("\\"):
        return list(_in_command(start, after, known))
    return list(in_sql(before, after, known))


def _in_command(text: str, after: str, known: Known) -> Iterator[Suggestion]:
    name, blank, argument = text.partition(" ")
    if not blank:
        yield from matching(name, known.commands, "command")
        return
    takes = known.commands.get(name, Argument.NOTHING)
    if takes is Argument.SQL:
        yield from in_sql(argument, after, known)
        return
    words = argument.split(" ")
    if takes is Argument.NAMED_SQL and len(words) > 1:
        yield from in_sql(argument.partition(" ")[2], after, known)
    elif takes is Argument.FILE:
        yield from _files(argument)
    elif len(words) == 1:
        yield from _first_words(words[0], takes, known)
    elif len(words) == 2 and takes is Argument.SETTING:
        yield from matching(words[1], _setting_values(words[0], known), words[0])


def _first_words(word: str, takes: Argument, known: Known) -> Iterator[Suggestion]:
    match takes:
        case Argument.TABLE:
            yield from matching(word, known.catalog.tables, "table")
        case Argument.NAME | Argument.SETTING:
            yield from matching(word, PARAMETER_NAMES, "privacy parameter")
            yield from matching(word, SHELL_SETTINGS, "setting")
        case Argument.FORMAT:
            yield from matching(word, tuple(Format), "format")
        case Argument.SHARE:
            yield from matching(word, SHELL_SETTINGS["confirm"].values, "share of what is left")
        case Argument.SWITCH:
            yield from matching(word, SHELL_SETTINGS["expanded"].values, "")
        case Argument.TOPIC:
            yield from matching(word, (c.removeprefix("\\") for c in known.commands), "command")
        case Argument.QUERY | Argument.NAMED_SQL:
            yield from matching(word, known.saved, "saved query")
        case Argument.COLUMN:
            yield from matching(word, known.answer, "column of the last answer")


def _setting_values(name: str, known: Known) -> Sequence[str]:
    setting = SHELL_SETTINGS.get(fold(name))
    return known.catalog.parameters.get(fold(name), ()) if setting is None else setting.values


def _files(typed: str) -> Iterator[Suggestion]:
    directory, _, prefix = typed.rpartition("/")
    folder = Path(f"{directory}/" if "/" in typed else ".").expanduser()
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(prefix) and (prefix or not entry.name.startswith(".")):
            yield Suggestion(entry.name + "/" * entry.is_dir(), len(prefix), "file")


_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+)
    |(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>'(?:[^']|'')*(?:'|\Z))
    |(?P<name>"(?:[^"]|"")*(?:"|\Z))
    |(?P<word>[^\W\d]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = frozenset(
    fold(word) for keyword in (*KEYWORDS, *STARTS) for word in keyword.split()
)
_TABLE_WORDS: Final = frozenset({"from", "join"})
_CLAUSES: Final = _TABLE_WORDS | {
    *("select", "where", "by", "having", "on", "using", "qualify", "limit", "over", "when"),
    *("then", "else", "filter", "union", "except", "intersect", "with"),
}
_ROW_CLAUSES: Final = frozenset({"where", "on", "using"})
"""Clauses about single rows, where no aggregate may stand."""
_PARAMETER: Final = "privacy parameter"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The folded word, or an empty text for anything else."""
        return fold(self.text) if self.kind == "word" else ""

    @property
    def open(self) -> bool:
        """True for quotes or a comment that may go on."""
        if self.kind == "comment":
            return not self.text.endswith("*/")
        return self.kind in ("string", "name") and (
            len(self.text) == 1 or self.text.count(self.text[0]) % 2 == 1
        )

    @property
    def operand(self) -> bool:
        """True for what an expression may end with."""
        ends = self.kind in ("string", "number", "name") or self.text == ")"
        return ends or (self.kind == "word" and self.word not in _WORDS)


def _tokens(text: str) -> list[_Token]:
    found = [_Token(str(m.lastgroup), m.group()) for m in _TOKEN.finditer(text)]
    return [token for token in found if token.kind != "blank"]


def _statement(tokens: list[_Token]) -> list[_Token]:
    """Return the tokens after the last semicolon."""
    ends = [index for index, token in enumerate(tokens) if token.text == ";"]
    return tokens[ends[-1] + 1 :] if ends else tokens


def in_sql(before: str, after: str, known: Known) -> Iterator[Suggestion]:
    """Yield suggestions between two parts of a text in SQL."""
    tokens = _statement(_tokens(before))
    prefix = ""
    touching = tokens and before.endswith(tokens[-1].text)
    if touching and tokens[-1].kind == "comment" and tokens[-1].open:
        return
    if touching and (tokens[-1].kind == "word" or tokens[-1].open):
        prefix = tokens.pop().text
    tokens = [token for token in tokens if token.kind != "comment"]
    if prefix.startswith("'") and not _in_options(tokens):
        return
    lower = (prefix or next((t.text for t in tokens if t.word in _WORDS), "")).islower()
    for text, note in _expected(tokens, after, known, bool(prefix)):
        shown = text.lower() if lower and note in ("keyword", "function") else text
        yield from matching(prefix, (shown,), note)


def _expected(
    tokens: list[_Token], after: str, known: Known, begun: bool
) -> Iterator[tuple[str, str]]:
    """Yield suggestions after some tokens of a statement, with notes.

    Unless a word is ``begun`` only what is likely is among it, as everything would be too much.
    """
    first = tokens[0].word if tokens else ""
    if first == "explain":
        tokens, first = tokens[1:], tokens[1].word if len(tokens) > 1 else ""
    if not tokens:
        yield from _noted(STARTS, "keyword")
    elif first in ("set", "reset"):
        yield from _assigned(tokens[1:], first == "set", known)
    elif first == "show":
        yield from _noted(SHOW_WORDS, "keyword")
    elif first in ("describe", "desc"):
        yield from _tables(tokens[1:], known)
    elif first in ("create", "refresh", "drop") and not _defined(tokens):
        yield from _of_view(tokens, known)
    elif _in_options(tokens):
        yield from _options(tokens, known)
    elif tokens[-1].text == ".":
        yield from _after_dot(tokens, after, known)
    else:
        yield from _in_query(tokens, after, known, begun)


def _tables(tokens: Sequence[_Token], known: Known) -> Iterator[tuple[str, str]]:
    """Yield the tables that may be named behind some tokens: all, or those of a schema."""
    before = _before_dot(tokens)
    for name in known.catalog.tables:
        if not before:
            yield name, "table"
        elif fold(name).startswith(before):
            yield name[len(before) :], "table"


def _before_dot(tokens: Sequence[_Token]) -> str:
    """Return the folded ``schema.`` that some tokens end in, as the catalog spells it, if any."""
    if len(tokens) < 2 or tokens[-1].text != ".":
        return ""
    part = tokens[-2].text
    return f"{fold(spelled(unquoted(part)))}."


def _after_dot(tokens: list[_Token], after: str, known: Known) -> Iterator[tuple[str, str]]:
    """Yield suggestions after a dot: tables of a schema, or columns of a table."""
    named = tokens[:-2]
    if _clause(named) in _TABLE_WORDS and not (named and named[-1].operand):
        yield from _tables(tokens, known)
        return
    sources = _sources([*tokens, *_tokens(after)], known)
    whole = _before_dot(named) + fold(tokens[-2].text)
    yield from _columns(sources, known, whole if whole in sources else tokens[-2].text)


def _defined(tokens: Sequence[_Token]) -> bool:
    """Tell whether the query of CREATE MATERIALIZED VIEW … AS has begun."""
    return tokens[0].word == "create" and any(token.word == "as" for token in tokens)


def _of_view(tokens: Sequence[_Token], known: Known) -> Iterator[tuple[str, str]]:
    """Yield suggestions in a statement about a view, in front of its query."""
    verb, last = tokens[0].word, tokens[-1]
    if len(tokens) == 1:
        yield "MATERIALIZED VIEW", "keyword"
    elif last.word == "materialized":
        yield "VIEW", "keyword"
    elif last.word == "view":
        yield from _noted(() if verb == "create" else known.catalog.views, "view")
    elif verb == "refresh":
        yield from _noted(("UNTIL",) if len(tokens) == 4 else ("TIMESTAMP",), "keyword")
    elif verb == "create" and last.text in ("(", ","):
        yield from _noted((f"{name} = " for name in VIEW_OPTIONS), "option of the view")
        yield from _noted((f"{name} = " for name in PARAMETER_NAMES), _PARAMETER)
    elif verb == "create" and last.text == ")":
        yield "AS SELECT", "keyword"
    elif verb == "create" and len(tokens) == 4:
        yield from _noted(("WITH (", "AS SELECT"), "keyword")


def _in_query(
    tokens: list[_Token], after: str, known: Known, begun: bool
) -> Iterator[tuple[str, str]]:
    last = tokens[-1]
    if _clause(tokens) in _TABLE_WORDS:
        if last.word in _TABLE_WORDS or last.text == ",":
            yield from _tables((), known)
            return
        yield from _noted(KEYWORDS, "keyword")
        return
    if not last.operand:
        yield from _columns(_sources([*tokens, *_tokens(after)], known), known)
        inside = last.text == "(" or last.word == "distinct"
        if _clause(tokens) not in _ROW_CLAUSES and (begun or not inside):
            yield from _noted((f"{name}(" for name in (*AGGREGATES, *NOISE)), "function")
        if begun:
            others = (name for name in SQL_FUNCTIONS if name not in (*AGGREGATES, *NOISE))
            yield from _noted((f"{name}(" for name in others), "function")
    if begun or last.operand:
        yield from _noted(KEYWORDS, "keyword")


def _clause(tokens: Sequence[_Token]) -> str:
    """Find the word that opens the clause at the end of the tokens, through open brackets."""
    depth = 0
    for token in reversed(tokens):
        if token.text == ")":
            depth += 1
        elif token.text == "(":
            depth = max(0, depth - 1)
        elif depth == 0 and token.word in _CLAUSES:
            return token.word
    return ""


def _sources(tokens: Sequence[_Token], known: Known) -> dict[str, str]:
    """Find the tables that a statement reads from, by folded alias and by folded name."""
    tables = {fold(name): name for name in known.catalog.tables}
    found: dict[str, str] = {}
    expecting = listing = False
    for position, token in enumerate(tokens):
        if token.word in _TABLE_WORDS or (listing and token.text == ","):
            expecting = listing = True
        elif token.word in _CLAUSES:
            expecting = listing = False
        elif expecting and (name := _name_at(tokens, position)) in tables:
            table = tables[name]
            found[fold(table)] = found[fold(token.text)] = table
            alias = _alias(tokens[position + 1 : position + 3])
            if alias:
                found[alias] = table
            expecting = False
        elif expecting and token.text != ".":
            expecting = token.kind in ("word", "name")  # the catalog or schema before the name
    return found


def _name_at(tokens: Sequence[_Token], position: int) -> str:
    """Return the folded name that ends in a token, with its schema unless this is ``main``."""
    last = tokens[position]
    if position + 1 < len(tokens) and tokens[position + 1].text == ".":
        return ""
    before = _before_dot(tokens[:position])
    schema = "" if before == f"{MAIN}." else before
    return schema + fold(spelled(unquoted(last.text)))


def _alias(tokens: Sequence[_Token]) -> str:
    named = [token for token in tokens if token.word != "as"][:1]
    good = named and (named[0].kind == "name" or (named[0].word and named[0].word not in _WORDS))
    return fold(named[0].text) if good else ""


def _columns(
    sources: Mapping[str, str], known: Known, qualifier: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the columns of one source, or of all, or of all tables where none is named yet."""
    tables: Iterable[str]
    if qualifier:
        tables = filter(None, [sources.get(fold(qualifier))])
    else:
        tables = dict.fromkeys(sources.values()) or known.catalog.tables
    seen: set[str] = set()
    for table in tables:
        for column in known.catalog.tables[table]:
            if column not in seen:
                seen.add(column)
                yield column, f"column of {table}"
    if not qualifier:
        yield from _noted((alias for alias in sources if fold(sources[alias]) != alias), "alias")


def _assigned(tokens: list[_Token], valued: bool, known: Known) -> Iterator[tuple[str, str]]:
    """Yield suggestions after SET or RESET."""
    if not tokens:
        yield from _noted(PARAMETER_NAMES, _PARAMETER)
    elif valued and len(tokens) == 2 and (tokens[1].text == "=" or tokens[1].word == "to"):
        yield from _noted(known.catalog.parameters.get(tokens[0].word, ()), tokens[0].word)


def _in_options(tokens: Sequence[_Token]) -> bool:
    """Tell whether the tokens end inside the brackets of OPTIONS."""
    openings = [index for index, token in enumerate(tokens) if token.text == "("]
    closed = any(token.text == ")" for token in tokens[openings[-1] :]) if openings else True
    return not closed and openings[-1] > 0 and tokens[openings[-1] - 1].word == "options"


def _options(tokens: Sequence[_Token], known: Known) -> Iterator[tuple[str, str]]:
    last = tokens[-1]
    if last.text in ("(", ","):
        yield from _noted((f"{name} = " for name in (*PARAMETER_NAMES, "mechanism")), _PARAMETER)
    elif last.text == "=" and tokens[-2].word == "mechanism":
        yield from _noted(map(quote_text, MECHANISM_NAMES), "mechanism")
    elif last.text == "=":
        yield from _noted(known.catalog.parameters.get(tokens[-2].word, ()), tokens[-2].word)


def _noted(texts: Iterable[str], note: str) -> Iterator[tuple[str, str]]:
    return ((text, note) for text in texts)
