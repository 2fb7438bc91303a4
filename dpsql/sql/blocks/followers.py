"""Puts keys into a tail that other keys decide: the release does not have them.

``GROUP BY s.site, s.name`` over public rows with a name for each site has the groups of ``site``.
The name of each is public, so that the tail says it, by constants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.ir.query import Block, Follower
from dpsql.sql.lineage.names import generated_column
from dpsql.syntax.text import put

_KEY: Final = f"{INTERNAL_PREFIX}k"


def place_followers(tree: exp.Query, blocks: Iterable[Block]) -> None:
    """Write the keys that follow others as expressions of these, and number the others anew."""
    for block in blocks:
        if block.followers:
            numbers = _numbers(block)
            followers = {f"{_KEY}{each.place}": each for each in block.followers}
            for column in list(_columns_over(tree, block)):
                if column.name in followers:
                    put(column, _decided(followers[column.name], numbers))
                elif column.name in numbers:
                    put(column, generated_column(numbers[column.name]))


def _numbers(block: Block) -> dict[str, str]:
    """Map the columns of keys as they were asked for to those of the release."""
    gone = {each.place for each in block.followers}
    asked = (place for place in range(len(block.keys) + len(gone)) if place not in gone)
    return {f"{_KEY}{place}": block.key_column(index) for index, place in enumerate(asked)}


def _columns_over(tree: exp.Query, block: Block) -> Iterable[exp.Column]:
    """Yield the columns of the released table of a block."""
    for column in tree.find_all(exp.Column):
        select = column.find_ancestor(exp.Select)
        from_ = None if select is None else select.args.get("from_")
        if from_ is not None and from_.this.name == block.name:
            yield column


def _decided(follower: Follower, numbers: dict[str, str]) -> exp.Expr:
    """Write a CASE over the values of the key that decides another one."""
    other = generated_column(numbers[f"{_KEY}{follower.by}"])
    cases = [
        exp.If(this=_is(other.copy(), given), true=_constant(value))
        for given, value in follower.values
    ]
    return exp.cast(exp.Case(ifs=cases), follower.type.text, dialect="duckdb")


def _is(column: exp.Expr, value: object) -> exp.Expr:
    if value is None:
        return exp.Is(this=column, expression=exp.Null())
    return exp.EQ(this=column, expression=_constant(value))


def _constant(value: object) -> exp.Expr:
    if value is None:
        return exp.Null()
    if isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), exp.DType.TIMESTAMP)
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, float):
        return exp.cast(exp.Literal.string(repr(value)), exp.DType.DOUBLE)
    if isinstance(value, Decimal):
        return exp.Literal.number(format(value, "f"))
    assert isinstance(value, int)
    return exp.Boolean(this=value) if isinstance(value, bool) else exp.Literal.number(value)


def followers_of(
    rows: Sequence[tuple[object, ...]], measured: Collection[int] = ()
) -> tuple[tuple[int, int], ...]:
    """Find the columns of rows that others decide, from the last on: places, each with another's.

    Columns that are ``measured``, of fractions, decide no others.

    >>> followers_of([(1, "a", True), (2, "b", True), (3, "b", True)])
    ((1, 0), (2, 0))
    >>> followers_of([(0.5, "a"), (1.5, "b")], measured=[0])
    ((0, 1),)
    """
    kept = list(range(len(rows[0])))
    for place in sorted(kept, key=lambda place: (place not in measured, -place)):
        deciding = (other for other in kept if other != place and other not in measured)
        if any(_decides(rows, other, place) for other in deciding):
            kept.remove(place)
    gone = (place for place in range(len(rows[0])) if place not in kept)
    return tuple(
        (place, next(o for o in kept if o not in measured and _decides(rows, o, place)))
        for place in gone
    )


def _decides(rows: Sequence[tuple[object, ...]], one: int, other: int) -> bool:
    return len({(row[one], row[other]) for row in rows}) == len({row[one] for row in rows})
