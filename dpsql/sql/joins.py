"""Which joins keep every row with one privacy unit, and whose unit that is."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

from sqlglot import exp

from dpsql.schema import base_type, is_integer
from dpsql.sql.expressions import refusal
from dpsql.sql.relation import Pending, Relation


class Pair(NamedTuple):
    """Two columns, by their names in generated SQL, that a join condition makes equal."""

    one: str
    other: str


class Links(Protocol):
    """What a join needs of the lineage: the text for messages, and following links."""

    text: str

    def settled(self, relation: Relation) -> Relation: ...


_KEPT = {"": "inner", "INNER": "inner", "CROSS": "inner", "SEMI": "semi", "ANTI": "anti"}
_OUTER = {"LEFT": "left", "RIGHT": "right"}
_WORDS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}


def joined(
    left: Relation,
    right: Relation,
    join: exp.Join,
    conditions: list[str],
    pairs: list[Pair],
    links: Links,
) -> Relation:
    """The join of two relations on conditions in generated SQL.

    ``pairs`` are the equalities that hold for every row that the statement keeps. Raises
    ``QueryRefused`` if a row could belong to two units or to none.
    """
    kind = _kind(left, right, join, links)
    if left.private and right.private:
        left, right = _as_one_unit(left, right, pairs, join, links, kind)
    keeper, other = (right, left) if kind == "right" else (left, right)
    if not keeper.private:
        keeper, other = other, keeper
    on = " AND ".join(f"({c})" for c in conditions) or "TRUE"
    visible = left.fields if kind in ("semi", "anti") else left.fields + right.fields
    return Relation(
        sql=f"{left.sql} {_WORDS[kind]} {right.sql} ON ({on})",
        fields=visible,
        unit_name=keeper.unit_name,
        unit=keeper.unit,
        pending=keeper.pending,
        tables=tuple(dict.fromkeys(left.tables + right.tables)),
    )


def _kind(left: Relation, right: Relation, join: exp.Join, links: Links) -> str:
    method, side, kind = join.method, join.side, join.kind
    found = _OUTER.get(side) if side else _KEPT.get(kind)
    if method not in ("", "NATURAL") or found is None or (side and kind not in ("", "OUTER")):
        raise refusal(
            links.text,
            f"{' '.join(filter(None, (method, side, kind)))} JOIN is not available over private "
            "rows",
            "join_kind",
            join,
            hint="Available: INNER, LEFT, RIGHT, SEMI and ANTI JOIN.",
        )
    drops_private = (found == "left" and not left.private) or (
        found in ("right", "semi", "anti") and not (right if found == "right" else left).private
    )
    if drops_private:
        raise refusal(
            links.text,
            "an outer join must keep the private side: public rows without a match belong to no "
            "unit",
            "join_keeps_public",
            join,
            hint="Exchange the sides, or aggregate first and join the result.",
        )
    return found


def _as_one_unit(
    left: Relation, right: Relation, pairs: list[Pair], join: exp.Join, links: Links, kind: str
) -> tuple[Relation, Relation]:
    """Both sides with the same unit in every joined row, or a refusal."""
    if left.unit_name != right.unit_name:
        raise refusal(
            links.text,
            f"{left.tables[0]} and {right.tables[0]} protect different privacy units",
            "join_units_differ",
            join,
            hint="Aggregate each on its own, then join the results in an outer query.",
        )
    if right.pending is not None and _refers(right.pending, right, left, pairs):
        # A child row goes with its parent's row: whatever unit that has.
        return left, replace(right, unit=left.unit, pending=left.pending)
    if left.pending is not None and _refers(left.pending, left, right, pairs):
        if kind in ("semi", "anti"):
            return left, right  # the parent's columns are not kept: the link is followed later
        return replace(left, unit=right.unit, pending=right.pending), right
    if _same_unit(left, right, pairs):
        return left, right
    raise refusal(
        links.text,
        "a join of private tables must make each pair of rows belong to one privacy unit",
        "join_needs_unit",
        join,
        hint=_hint(left, right),
    )


def _same_unit(left: Relation, right: Relation, pairs: list[Pair]) -> bool:
    """Whether an equality compares the units themselves, or two references to one parent."""
    if left.unit is not None and right.unit is not None:
        return _equal(left.unit, left, right.unit, right, pairs)
    if left.pending is not None and right.pending is not None:
        same_parent = left.pending.parent == right.pending.parent
        columns = (left.pending.column, left, right.pending.column, right)
        return same_parent and _equal(*columns, pairs)
    return False


def _refers(pending: Pending, child: Relation, parent: Relation, pairs: list[Pair]) -> bool:
    """Whether an equality follows the child's link into the parent."""
    keys = [f.column for f in parent.fields if f.origin == pending.parent]
    return any(_equal(pending.column, child, key, parent, pairs) for key in keys)


def _equal(one: str, left: Relation, other: str, right: Relation, pairs: list[Pair]) -> bool:
    """Whether two columns are compared, and as what they are: a cast could make two units one."""
    if Pair(one, other) not in pairs and Pair(other, one) not in pairs:
        return False
    fields = left.field_of(one), right.field_of(other)
    types = [base_type(f.type) for f in fields if f is not None]
    return len(types) == 2 and (types[0] == types[1] or all(map(is_integer, types)))


def _hint(left: Relation, right: Relation) -> str:
    unit = f"Join on the privacy unit: … ON {_named(left)} = {_named(right)}"
    return f"{unit}, or along a declared link." if left.pending or right.pending else f"{unit}."


def _named(relation: Relation) -> str:
    wanted: str | None = relation.unit if relation.pending is None else relation.pending.column
    field = next((f for f in relation.fields if f.column == wanted), None)
    if field is None:
        return f"{relation.tables[0]}.unit"
    return f"{field.qualifier}.{field.name}" if field.qualifier else field.name
