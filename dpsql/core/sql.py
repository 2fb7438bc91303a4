"""SQL as a value: constant text, names and literals in pieces, which nothing reads again.

A text of SQL that is searched or filled twice lets what was filled in first out of its quotes. So
generated SQL is no text. :func:`sql` takes a constant template of our own code and puts pieces into
its holes; :func:`join` puts pieces side by side. What an analyst or an owner wrote gets in as a
:class:`Name` or a :class:`Text`, or as a tree that a dialect has checked and written
(:class:`Written`). Only an engine makes text of it, when it sends it, by the one :class:`Renderer`
of its SQL.

A :class:`Sql` cannot be joined with a ``str``, formatted or printed into one: all of these raise
``TypeError``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import LiteralString, NoReturn, Protocol, TypeAlias


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


class Renderer(Protocol):
    """How an engine writes names and literals: the one place where its text is made."""

    def name(self, text: str) -> str:
        """Write an identifier in quotes."""

    def text(self, value: str) -> str:
        """Write a string literal."""


_Piece: TypeAlias = "str | Name | Text | Written"  # a str is constant text of our own code


class Sql:
    """A statement or a part of one. Equal where the pieces are, however they were put together."""

    __slots__ = ("_hash", "_pieces")

    def __init__(self, *pieces: Name | Text | Written | Sql) -> None:
        """Make SQL of names, literals and SQL, side by side."""
        for piece in pieces:
            if not isinstance(piece, Name | Text | Written | Sql):
                raise TypeError(f"{type(piece).__name__} is no piece of SQL")
        self._pieces: tuple[_Piece, ...] = _merged(_flat(pieces))
        self._hash: int | None = None

    @property
    def pieces(self) -> tuple[_Piece, ...]:
        """The pieces in order: constant texts as ``str``, and what was put between them."""
        return self._pieces

    def render(self, renderer: Renderer) -> str:
        """Write the text that an engine reads."""
        return "".join(_rendered(piece, renderer) for piece in self._pieces)

    def __eq__(self, other: object) -> bool:
        return self._pieces == other._pieces if isinstance(other, Sql) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._pieces)
        return self._hash

    def __bool__(self) -> bool:
        """Tell whether there is anything in it."""
        return bool(self._pieces)

    def __repr__(self) -> str:
        return f"<Sql of {len(self._pieces)} pieces>"

    def _no_text(self, *_: object) -> NoReturn:
        raise TypeError("SQL is no text: put it into a template with sql(), or render it")

    __str__ = __format__ = __add__ = __radd__ = __mod__ = __rmod__ = __contains__ = _no_text


def sql(template: LiteralString, *holes: Sql, **named: Sql) -> Sql:
    """Put SQL into the holes of a template, a constant text of our own code.

    Holes are ``{}``, in order, or ``{name}``; ``{{`` and ``}}`` are braces. What is put in is never
    read for holes. Raises ``TypeError`` where holes and SQL do not correspond.

    >>> sql("SELECT {} FROM {rows}", Sql(Name("a")), rows=Sql(Name("t"))).pieces
    ('SELECT ', Name(text='a'), ' FROM ', Name(text='t'))
    """
    parts, unnamed, names = _parsed(template)
    if unnamed != len(holes) or names != named.keys():
        raise TypeError(f"the holes of {template!r} are not those that are filled")
    filling = iter(holes)
    found: list[_Piece] = []
    for constant, hole in parts:
        if constant:
            found.append(constant)
        if hole is not None:
            filled = named[hole] if hole else next(filling)
            if not isinstance(filled, Sql):
                raise TypeError(f"{type(filled).__name__} is no SQL")
            found.extend(filled.pieces)
    return _of(found)


def join(separator: LiteralString, parts: Iterable[Sql]) -> Sql:
    """Put SQL side by side, with a constant text between."""
    found: list[_Piece] = []
    for place, part in enumerate(parts):
        if not isinstance(part, Sql):
            raise TypeError(f"{type(part).__name__} is no SQL")
        if place and separator:
            found.append(separator)
        found.extend(part.pieces)
    return _of(found)


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


def _of(pieces: Iterable[_Piece]) -> Sql:
    made = Sql()
    made._pieces = _merged(pieces)
    return made


def _flat(pieces: Iterable[Name | Text | Written | Sql]) -> Iterator[_Piece]:
    for piece in pieces:
        if isinstance(piece, Sql):
            yield from piece.pieces
        else:
            yield piece


def _merged(pieces: Iterable[_Piece]) -> tuple[_Piece, ...]:
    """Put constant texts that stand side by side together."""
    found: list[_Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        else:
            found.append(piece)
    return tuple(found)


def _rendered(piece: _Piece, renderer: Renderer) -> str:
    match piece:
        case Name():
            return renderer.name(piece.text)
        case Text():
            return renderer.text(piece.value)
        case Written():
            return piece.text
        case str():
            return piece
