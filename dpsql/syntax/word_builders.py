"""Builders of calls by the words of other systems, as :mod:`dpsql.syntax.other_words` lists them.

A builder takes the arguments of a call. What it has no reading for it leaves as it is written, to
be refused by that name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

Build: TypeAlias = Callable[[list[exp.Expr]], exp.Expr]
"""A builder of a call of its arguments."""

UNITS_OF_TIME: Final = frozenset({"SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "QUARTER", "YEAR"})
FROM_MONDAY: Final = frozenset({"ISOWEEK", "ISO_WEEK"})
BARE: Final = UNITS_OF_TIME | FROM_MONDAY | {"WEEK"}
"""Units that may stand without quotes. A column of such a name is none there, as in no system."""
TWO, THREE = 2, 3
READ_WHOLE: Final = "read_whole"
"""The key, among the metadata of a call, which says that all its arguments were read."""
_OTHER_PARTS: Final = frozenset(
    {"WEEKDAY", "DW", "DAYOFYEAR", "DOY", "DY", "DAYOFWEEK", "MILLISECOND", "MICROSECOND", "MM"}
)
"""Further words for parts of moments, which are no columns in a refusal."""


def unit_of(node: exp.Expr) -> str | None:
    """Return the unit of time that a bare word or a text names; None for anything else."""
    if isinstance(node, exp.Literal):
        word = str(node.this).upper() if node.is_string else ""
        return word if word in UNITS_OF_TIME | {"WEEK"} else None
    return bare_unit(node)


def bare_unit(node: exp.Expr) -> str | None:
    """Return the unit of time that a word without quotes names, ``WEEK(MONDAY)`` as ISOWEEK."""
    if isinstance(node, exp.Week) and isinstance(node.this, exp.Column):
        return "ISOWEEK" if part_named(node.this) == "MONDAY" else None
    word = part_named(node)
    return word if word in BARE else None


def part_named(node: exp.Expr) -> str | None:
    """Return a word without quotes, in upper case; None for anything else."""
    if not isinstance(node, exp.Column) or node.table or node.this.args.get("quoted"):
        return None
    return str(node.name).upper()


def written_text(node: object) -> str | None:
    """Return a constant text; None for anything else."""
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


_RAW: Final = "raw"


def raw_text(text: str) -> exp.Expr:
    """Return the constant text that is written r'…', as GoogleSQL and Spark do."""
    found = exp.Literal.string(text)
    found.meta[_RAW] = True
    return found


def is_raw(node: object) -> bool:
    """Tell whether a constant text was written r'…'."""
    return isinstance(node, exp.Literal) and bool(node.meta.get(_RAW))


def operand(node: exp.Expr) -> exp.Expr:
    """Return a node as one side of an operator."""
    plain = isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Func | exp.Placeholder)
    return node if plain else exp.Paren(this=node)


def left_as_written(name: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """Leave a call as it is, to be refused; what can be a unit is no column in the refusal."""
    kept = [exp.var(each.name) if _is_part(each) else each for each in arguments]
    return exp.Anonymous(this=name, expressions=kept)


def _is_part(node: exp.Expr) -> bool:
    return bare_unit(node) is not None or part_named(node) in _OTHER_PARTS


def by_number(name: str, **builds: Callable[..., exp.Expr]) -> Build:
    """Build a call by how many arguments it has: ``two`` takes two. Others are left as they are."""
    of_number = {_NUMBERS[word]: build for word, build in builds.items()}

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        found = of_number.get(len(arguments))
        return left_as_written(name, arguments) if found is None else found(*arguments)

    return build


_NUMBERS: Final = {"one": 1, "two": 2, "three": 3}


def twice(name: str, build: Build) -> Build:
    """Build a call that uses its arguments twice, if few such calls stand within each other.

    Each of them would double the statement. Others are left as they are.
    """

    def built(arguments: list[exp.Expr]) -> exp.Expr:
        within = (node.meta.get(_DOUBLINGS, 0) for each in arguments for node in each.walk())
        doublings = max(within, default=0) + 1
        if doublings > _MOST_DOUBLINGS:
            return left_as_written(name, arguments)
        found = build(arguments)
        found.meta[_DOUBLINGS] = doublings
        return found

    return built


_DOUBLINGS: Final = "doublings"
_MOST_DOUBLINGS: Final = 2
