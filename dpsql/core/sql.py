"""SQL as a value: constant text, names and literals in pieces, which nothing reads again.

A text of SQL that is searched or filled twice lets what was filled in first out of its quotes. So
generated SQL is no text. :func:`sql` takes a constant template of our own code and puts pieces into
its holes; :func:`join` puts pieces side by side. What an analyst or an owner wrote gets in as a
:class:`Name` or a :class:`Text`, or as a tree that a dialect has checked and written
(:class:`Written`). Only an engine makes text of it, when it sends it, by the one
:class:`SqlRenderer` of its SQL.

A :class:`Sql` cannot be joined with a ``str``, formatted or printed into one: all of these raise
``TypeError``. What is put into a template is kept as it is, so that a large statement is put
together without being copied at every step; the pieces are laid side by side once they are asked
for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from string import Formatter
from typing import Final, LiteralString, NoReturn, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier: any text is a name and nothing more, its case kept."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal, which no text can end early."""

    value: str


@dataclass(frozen=True, slots=True)
class Written:
    """A checked tree, as the generator of an engine's dialect wrote it."""

    text: str


class SqlRenderer(Protocol):
    """How an engine writes names and literals: the one place where its text is made."""

    def name(self, text: str) -> str:
        """Write an identifier in quotes."""

    def text(self, value: str) -> str:
        """Write a string literal."""


_Piece: TypeAlias = "str | Name | Text | Written"  # a str is constant text of our own code


class Sql:
    """A statement or a part of one. Equal where the pieces are, however they were put together."""

    __slots__ = ("_found", "_parts")
    _parts: tuple[_Piece | Sql, ...]
    _found: _Found | None

    def __init__(self, *parts: Name | Text | Written | Sql) -> None:
        """Make SQL of names, literals and SQL, side by side."""
        for part in parts:
            if not isinstance(part, Name | Text | Written | Sql):
                raise TypeError(f"{type(part).__name__} is no piece of SQL")
        self._parts = parts
        self._found = None

    @property
    def pieces(self) -> tuple[_Piece, ...]:
        """The pieces in order: constant texts as ``str``, and the typed pieces between them."""
        known = self._known
        if known.pieces is None:
            known.pieces = _merged(self._flat())
        return known.pieces

    @property
    def size(self) -> int:
        """About as many characters as its text has; what has to be escaped counts once."""
        known = self._known
        if known.size is None:
            known.size = sum(_length(part) for part in self._up_to_known())
        return known.size

    @property
    def names(self) -> frozenset[str]:
        """The identifiers put into it, without the names in checked trees."""
        return frozenset(piece.text for piece in self.pieces if isinstance(piece, Name))

    def render(self, renderer: SqlRenderer) -> str:
        """Write the text that an engine reads."""
        known = self._known
        if known.text is None or known.text[0] is not renderer:
            known.text = renderer, "".join(self._written(renderer))
        return known.text[1]

    @property
    def _known(self) -> _Found:
        if self._found is None:
            self._found = _Found()
        return self._found

    def _flat(self) -> Iterator[_Piece]:
        todo = list(reversed(self._parts))
        while todo:
            part = todo.pop()
            if not isinstance(part, Sql):
                yield part
            elif part._found is not None and part._found.pieces is not None:
                yield from part._found.pieces
            else:
                todo.extend(reversed(part._parts))

    def _up_to_known(self) -> Iterator[_Piece | Sql]:
        """Yield the pieces in any order, and SQL whose size is known as a whole."""
        todo = list(self._parts)
        while todo:
            part = todo.pop()
            if isinstance(part, Sql) and (part._found is None or part._found.size is None):
                todo.extend(part._parts)
            else:
                yield part

    def _written(self, renderer: SqlRenderer) -> list[str]:
        """Write the pieces one by one; ``str`` is tested first, as most pieces are texts."""
        found: list[str] = []
        todo = list(reversed(self._parts))
        while todo:
            part = todo.pop()
            if isinstance(part, str):
                found.append(part)
            elif isinstance(part, Sql):
                known = part._found
                if known is not None and known.text is not None and known.text[0] is renderer:
                    found.append(known.text[1])
                else:
                    todo.extend(reversed(part._parts))
            elif isinstance(part, Name):
                found.append(renderer.name(part.text))
            elif isinstance(part, Text):
                found.append(renderer.text(part.value))
            else:
                found.append(part.text)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.pieces == other.pieces if isinstance(other, Sql) else NotImplemented

    def __hash__(self) -> int:
        known = self._known
        if known.hash is None:
            known.hash = hash(self.pieces)
        return known.hash

    def __bool__(self) -> bool:
        """Tell whether there is anything in it."""
        return bool(self._parts) and bool(self.pieces)

    def __repr__(self) -> str:
        return f"<Sql of {len(self.pieces)} pieces>"

    def _no_text(self, *_: object) -> NoReturn:
        raise TypeError("SQL is no text: put it into a template with sql(), or render it")

    __str__ = __format__ = __add__ = __radd__ = __mod__ = __rmod__ = __contains__ = _no_text
    __iter__ = __getitem__ = __len__ = __mul__ = __rmul__ = _no_text


class _Found:
    """Lazily computed properties of a piece of SQL."""

    __slots__ = ("hash", "pieces", "size", "text")

    def __init__(self) -> None:
        self.hash: int | None = None
        self.pieces: tuple[_Piece, ...] | None = None
        self.size: int | None = None
        self.text: tuple[SqlRenderer, str] | None = None


def sql(template: LiteralString, *holes: Sql | int, **named: Sql | int) -> Sql:
    """Put SQL and integers into the holes of a template, a constant text of our own code.

    Holes are ``{}``, in order, or ``{name}``; ``{{`` and ``}}`` are braces. What is put in is never
    read for holes. An integer is written as :func:`number` does. Raises ``TypeError`` where holes
    and what fills them do not correspond.

    >>> sql("SELECT {} FROM {rows}", Sql(Name("a")), rows=Sql(Name("t"))).pieces
    ('SELECT ', Name(text='a'), ' FROM ', Name(text='t'))
    """
    parts, unnamed, names = _parsed(template)
    if unnamed != len(holes) or ((names or named) and names != named.keys()):
        raise TypeError(f"the holes of {template!r} are not those that are filled")
    filling = iter(holes)
    found: list[_Piece | Sql] = []
    for constant, hole in parts:
        if constant:
            found.append(constant)
        if hole is not None:
            filled = named[hole] if hole else next(filling)
            found.append(filled if isinstance(filled, Sql) else number(filled))
    return _of(found)


def written_as(template: LiteralString) -> Callable[..., Sql]:
    """Make a method of a template: its arguments go into the named holes, in their order.

    So a class whose methods are spelling alone is a table of templates. Each is a constant text of
    our own code, filled as by :func:`sql`.

    >>> class Engine:
    ...     same = written_as("{one} IS NOT DISTINCT FROM {other}")
    >>> Engine().same(Sql(Name("a")), Sql(Name("b"))).pieces
    (Name(text='a'), ' IS NOT DISTINCT FROM ', Name(text='b'))
    """
    parts, unnamed, _ = _parsed(template)
    names = tuple(dict.fromkeys(hole for _, hole in parts if hole))
    if unnamed:
        raise TypeError(f"the holes of {template!r} have no names")

    def spelling(_: object, *holes: Sql | int) -> Sql:
        if len(holes) != len(names):
            raise TypeError(f"the holes of {template!r} are not those that are filled")
        return sql(template, **dict(zip(names, holes, strict=True)))

    return spelling


def join(separator: LiteralString, parts: Iterable[Sql]) -> Sql:
    """Put SQL side by side, with a constant text between."""
    found: list[_Piece | Sql] = []
    for part in parts:
        if not isinstance(part, Sql):
            raise TypeError(f"{type(part).__name__} is no SQL")
        if found and separator:
            found.append(separator)
        found.append(part)
    return _of(found)


@lru_cache(maxsize=4096)
def name(text: str) -> Sql:
    """Make SQL of an identifier."""
    return Sql(Name(text))


def literal(value: object) -> Sql:
    """Make SQL of the text of a value, as a string literal."""
    return Sql(Text(str(value)))


def number(value: int) -> Sql:
    """Make SQL of an integer's digits, in brackets if it is negative: no two signs meet."""
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} is no integer")
    return _of([str(value) if value >= 0 else f"({value})"])


def digits(value: int | float | Decimal) -> Sql:
    """Make SQL of a finite number as Python writes it, its sign before it; a Decimal in full.

    It is for places behind a blank, a comma or a bracket: two signs would begin a comment.
    """
    if type(value) not in (int, float, Decimal) or not math.isfinite(value):
        raise TypeError(f"{type(value).__name__} is no finite number")
    return _of([f"{value:f}" if isinstance(value, Decimal) else repr(value)])


def bare_word(text: str) -> Sql:
    """Make SQL of a single word of letters, digits and underscores; ``ValueError`` for another."""
    if _WORD.fullmatch(text) is None:
        raise ValueError("this is not a word")
    return _of([text])


_WORD: Final = re.compile(r"\w+")
EMPTY_SQL: Final = Sql()
"""No SQL at all, for what is left out of a template."""


@lru_cache(maxsize=4096)
def _parsed(template: str) -> tuple[tuple[tuple[str, str | None], ...], int, frozenset[str]]:
    """Split a template into constants and the holes after them; count and name the holes."""
    parts = []
    for constant, hole, form, conversion in Formatter().parse(template):
        if form or conversion or (hole and not hole.isidentifier()):
            raise TypeError(f"a hole of {template!r} is more than a name")
        parts.append((constant, hole))
    holes = [hole for _, hole in parts if hole is not None]
    return tuple(parts), holes.count(""), frozenset(filter(None, holes))


def _of(parts: Iterable[_Piece | Sql]) -> Sql:
    made = Sql.__new__(Sql)
    made._parts = tuple(parts)
    made._found = None
    return made


def _length(part: _Piece | Sql) -> int:
    if isinstance(part, Sql):
        return part.size
    if isinstance(part, str):
        return len(part)
    return len(part.value if isinstance(part, Text) else part.text)


def _merged(pieces: Iterable[_Piece]) -> tuple[_Piece, ...]:
    """Put constant texts that stand side by side together."""
    found: list[_Piece] = []
    constants: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            constants.append(piece)
            continue
        if constants:
            found.append("".join(constants))
            constants.clear()
        found.append(piece)
    if constants:
        found.append("".join(constants))
    return tuple(found)
