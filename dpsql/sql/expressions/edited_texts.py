"""Texts that are edited at constant places, and the bytes of texts, by lengths and parts of them.

STUFF(s, 2, 3, 'x')                      left(s, 1) || 'x' || substr(s, 5)
OVERLAY(s PLACING 'x' FROM 2 FOR 3)      the same
SUBSTRING_INDEX(s, '/', 2)               split_part(s, '/', 1) || '/' || split_part(s, '/', 2)
BIT_LENGTH(s)                            8 * strlen(s)
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from sqlglot import exp

from dpsql.core.sql_types import VARCHAR
from dpsql.sql.expressions.row_constants import text_literal_of, whole_of
from dpsql.sql.expressions.silent_casts import TypeHere
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.patterns import read_pattern

_FIRST_LONGER: Final = ("\x80", "\u0800", "\U00010000")
"""The first characters that take two, three and four bytes in UTF-8."""
_LAST: Final = "\U0010ffff"
_BITS: Final = 8
_MOST_PARTS: Final = 9
_MOST_NODES: Final = 8
"""Nodes of a text that stands in several places."""
_MOST_PLACE: Final = 10**9
_STUFF: Final = NodeArguments("this start length expression")
_OVERLAY: Final = NodeArguments("this expression from_ for_")


def _side_by_side(*parts: exp.Expr) -> exp.Expr:
    """Write texts one behind the other, NULL if one is."""
    return exp.paren(reduce(lambda one, other: exp.DPipe(this=one, expression=other), parts))


def marks_in(text: exp.Expr, mark: str) -> exp.Expr:
    """Write how often a mark stands in a text."""
    without = exp.Replace(
        this=text.copy(), expression=exp.Literal.string(mark), replacement=exp.Literal.string("")
    )
    gone = exp.Sub(this=exp.Length(this=text.copy()), expression=exp.Length(this=without))
    if len(mark) == 1:
        return exp.paren(gone)
    return exp.IntDiv(this=exp.paren(gone), expression=exp.Literal.number(len(mark)))


def replaced_at(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write T-SQL's STUFF, which is NULL where the text is shorter than the place."""
    put = text_literal_of(node.args.get("expression"))
    start, size = whole_of(node.args.get("start")), whole_of(node.args.get("length"))
    if not _STUFF.hold(node) or put is None or start is None or size is None:
        return None
    found = _replaced(node.this, put, start, size)
    if found is None:
        return None
    reached = exp.GTE(this=exp.Length(this=node.this.copy()), expression=_number(start))
    return exp.Case(ifs=[exp.If(this=reached, true=found)])


def overlaid(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write OVERLAY(s PLACING 'x' FROM 2 FOR 3); without FOR it replaces as many characters."""
    put, start = text_literal_of(node.expression), whole_of(node.args.get("from_"))
    length = node.args.get("for_")
    if not _OVERLAY.hold(node) or put is None or start is None:
        return None
    size = len(put) if length is None else whole_of(length)
    return None if size is None else _replaced(node.this, put, start, size)


def _replaced(text: exp.Expr, put: str, start: int, size: int) -> exp.Expr | None:
    if not 0 < start < _MOST_PLACE or not 0 <= size < _MOST_PLACE or not _is_small(text):
        return None
    before = exp.Left(this=text.copy(), expression=_number(start - 1))
    behind = exp.Substring(this=text.copy(), start=_number(start + size))
    return _side_by_side(before, exp.Literal.string(put), behind)


def part_before(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write MySQL's SUBSTRING_INDEX(s, '/', 3): all before the third mark, or the whole text."""
    match node.expressions:
        case [text, delimiter, count]:
            mark, number = text_literal_of(delimiter), whole_of(count)
        case _:
            return None
    if not mark or number is None or not 1 < number <= _MOST_PARTS or not _is_small(text):
        return None
    parts: list[exp.Expr] = []
    for place in range(1, number + 1):
        parts += [exp.Literal.string(mark)] if parts else []
        parts.append(part_at(text, mark, place))
    enough = exp.GTE(this=marks_in(text, mark), expression=_number(number))
    return exp.Case(ifs=[exp.If(this=enough, true=_side_by_side(*parts))], default=text.copy())


def part_at(text: exp.Expr, mark: str, place: int) -> exp.Expr:
    """Write the part of a text at a constant place between marks."""
    return exp.SplitPart(
        this=text.copy(), delimiter=exp.Literal.string(mark), part_index=_number(place)
    )


def bytes_of(text: exp.Expr) -> exp.Expr:
    """Write the bytes of a text: characters, and those of two, three and four again.

    What is left of a text is searched for the longer ones.
    """
    left = text.copy()
    found: exp.Expr = exp.Length(this=text.copy())
    for first in _FIRST_LONGER:
        left = exp.RegexpReplace(
            this=left.copy(),
            expression=exp.Literal.string(read_pattern(f"[^{first}-{_LAST}]").text),
            replacement=exp.Literal.string(""),
            modifiers=exp.Literal.string("g"),
            single_replace=True,
        )
        found = exp.Add(this=found, expression=exp.Length(this=left))
    return exp.paren(found)


def bytes_called(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write strlen(s)."""
    return bytes_of(node.expressions[0]) if len(node.expressions) == 1 else None


def octets(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write octet_length(s) of a column of texts; of bytes it is left as it is."""
    match node.expressions:
        case [exp.Column() as text] if type_of(text) == VARCHAR:
            return bytes_of(text)
    return None


def bits_called(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write bit_length(s) of a text."""
    text = node.this.unnest()
    if not isinstance(text, exp.Column) or type_of(text) != VARCHAR:
        return None
    return exp.paren(exp.Mul(this=bytes_of(text), expression=_number(_BITS)))


def _is_small(text: exp.Expr) -> bool:
    return sum(1 for _ in text.walk()) <= _MOST_NODES


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)
