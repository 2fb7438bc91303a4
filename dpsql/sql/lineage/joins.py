"""Joins of private rows that keep one privacy unit per row, and the unit of their rows.

Writing R(u) for the rows of a relation that belong to unit u, a join of private R and S is legal if
its rows that belong to u are a function of R(u), S(u) and public rows. So the condition must hold
an equality of the units (or along a whole link) wherever a pair is joined, matched, or kept from
being kept (ANTI): any further condition only compares rows of one unit. A join with public rows is
legal if each of its rows holds a private row. An outer join that keeps public rows is the inner
join, and the rows it keeps are ``given``: all that a question may ask of those without a match are
their groups, which are public. Checked by ``tests/sql/test_lineage_sensitivity.py``.

Equalities add up: after ``a JOIN b ON a.x = b.x``, whatever is equal to a.x is equal to b.x. Only
inner joins add to what holds in every row, as the condition of an outer or ANTI join is not true of
the rows that find no match; and only columns that are compared as what they are, because 2^53 and
2^53 + 1 are both equal to the same DOUBLE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from dpsql.core.sql_types import UNKNOWN
from dpsql.ir.relations import Join, JoinKind, RowSet, SemiJoin, most_rows
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.lineage.names import generated_column
from dpsql.sql.lineage.relation import Field, Identity, Pending, Relation


class Pair(NamedTuple):
    """Two columns, by their names in generated SQL, that a join condition makes equal."""

    one: str
    other: str


Equal: TypeAlias = tuple[frozenset[str], ...]
"""Sets of columns that are equal to each other."""

_KEPT = {"": "inner", "INNER": "inner", "CROSS": "inner", "SEMI": "semi", "ANTI": "anti"}
_OUTER = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}
_PARTS = frozenset({"this", "on", "using", "method", "side", "kind"})


def joined(
    left: Relation,
    right: Relation,
    join: exp.Join,
    conditions: Sequence[exp.Expr],
    pairs: list[Pair],
    text: str,
) -> Relation:
    """Join two relations on resolved conditions.

    ``pairs`` are the equalities that hold for every joined pair of rows that the statement keeps.
    Raises ``QueryRefused`` if a row could belong to two units or to none.
    """
    kind = kind_of(join, text)
    if right.given is not None or (
        left.given is not None and not (kind == "left" and right.private)
    ):
        raise _keeps_public(join, text)
    equal = _equalities(left, right, pairs)
    most, unique = _most_rows(left, right, equal, kind), _unique(left, right, equal, kind)
    if left.private and right.private:
        units = units_equal(left, right, pairs)
        if units is None:
            left, right = _as_one_unit(left, right, equal, join, kind, text)
        else:
            conditions = [*conditions, units]
    keeper, other = (right, left) if kind == "right" else (left, right)
    given = left.given
    if not keeper.private and other.private:
        if kind in ("semi", "anti"):
            raise _keeps_public(join, text)
        if kind != "inner":  # of rows without a match only the keys are asked for
            given, kind = keeper.rows, "inner"
        keeper = other
    per_unit = len(conditions) == 1 and any(units_meet(left, right, pair) for pair in pairs)
    if kind == "left":
        right = right.filled_with_nulls(per_unit=per_unit)
    if kind == "right":
        left = left.filled_with_nulls(per_unit=per_unit)
    tests = kind in ("semi", "anti")
    return Relation(
        rows=_paired(left, right, conditions, kind),
        fields=left.fields if tests else left.fields + right.fields,
        unit_name=keeper.unit_name,
        unit=keeper.unit,
        pending=keeper.pending,
        tables=tuple(dict.fromkeys(left.tables + right.tables)),
        equal=_lasting(left, right, equal, kind),
        joined=left.joined + right.joined,
        given=given,
        unique=unique,
        parents=left.parents if tests else left.parents + right.parents,
        shared=left.shared if tests else left.shared + right.shared,
    ).of_rows_per_unit(most)


def _most_rows(left: Relation, right: Relation, equal: Equal, kind: str) -> int | None:
    """Return how many rows of the join a unit has at most; None where that is not known.

    A row of a child meets one row of its parent. Any other row meets all rows of its unit, or of a
    public relation; one that meets none stands alone in an outer join, which is no more than that.
    """
    if kind in ("semi", "anti"):
        return left.rows_per_unit
    if not (left.private and right.private):
        own, public = (left, right) if left.private else (right, left)
        others = most_rows(public.rows)
        if own.rows_per_unit is None or others is None:
            return None
        return own.rows_per_unit * max(1, others)
    if kind != "right" and left.pending is not None and _refers(left.pending, right, equal):
        return left.rows_per_unit
    if kind != "left" and right.pending is not None and _refers(right.pending, left, equal):
        return right.rows_per_unit
    if left.rows_per_unit is None or right.rows_per_unit is None:
        return None
    return left.rows_per_unit * right.rows_per_unit


def _unique(left: Relation, right: Relation, equal: Equal, kind: str) -> tuple[frozenset[str], ...]:
    """List the columns in which no two of a unit's rows of the join are the same.

    They are those of a side each of whose rows is in one row of the join. A row that an outer join
    keeps of the other side has NULL in all of them.
    """
    if kind in ("semi", "anti"):
        return left.unique
    if not (left.private and right.private):
        own, public = (left, right) if left.private else (right, left)
        others = most_rows(public.rows)
        return () if others is None or others > 1 else own.unique
    lasting = left.unique if kind != "right" and _meets_one(left, right, equal) else ()
    return lasting + (right.unique if kind != "left" and _meets_one(right, left, equal) else ())


def _meets_one(rows: Relation, others: Relation, equal: Equal) -> bool:
    """Tell whether a row meets one of its unit's other rows at most."""
    if rows.pending is not None and _refers(rows.pending, others, equal):
        return True
    columns = {f.column for f in rows.fields}
    return others.one_row_at({c for same in equal if same & columns for c in same})


def _paired(left: Relation, right: Relation, conditions: Sequence[exp.Expr], kind: str) -> RowSet:
    """Build the rows of the join."""
    if kind in ("semi", "anti"):
        return SemiJoin(left.rows, right.rows, tuple(conditions), negated=kind == "anti")
    return Join(left.rows, right.rows, JoinKind(kind), tuple(conditions))


def kind_of(join: exp.Join, text: str) -> str:
    """Name the kind of a join: inner, left, right, full, semi or anti.

    Raises ``QueryRefused`` for others.
    """
    method, side, kind = join.method, join.side, join.kind
    found = _OUTER.get(side) if side else _KEPT.get(kind)
    odd = {name for name, value in join.args.items() if value} - _PARTS
    if odd or method not in ("", "NATURAL") or (side and kind not in ("", "OUTER")):
        found = None
    if found is None:
        words = " ".join(filter(None, (method, side, kind)))
        raise refusal(
            text,
            f"{words or 'this form of'} JOIN is not available over private rows",
            "join_kind",
            join,
            hint="Available: INNER, LEFT, RIGHT, FULL, SEMI, ANTI and ASOF JOIN.",
        )
    return found


def refuse_many(rows: Relation, most: int, join: exp.Expr, text: str) -> None:
    """Refuse joins of more private tables than the policy allows. Raises ``QueryRefused``."""
    if rows.joined > most:
        raise refusal(
            text,
            f"more than {most} private tables are joined",
            "too_many_relations",
            join,
            hint="Each counts as often as it is read, also through a CTE. Aggregate per unit "
            "or per group first, or ask the data owner to raise limits.private_relations in "
            "the policies file.",
        )


def refuse_right_after_comma(joins: Sequence[exp.Join], text: str) -> None:
    """Refuse a RIGHT or FULL JOIN in a FROM with commas. Raises ``QueryRefused``."""
    right = next((join for join in joins if join.side in ("RIGHT", "FULL")), None)
    if right is not None and any(map(_is_comma, joins)):
        raise refusal(
            text,
            f"{right.side} JOIN after a comma is not available over private rows",
            "join_kind",
            right,
            hint="Write JOIN … ON instead of the comma.",
        )


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(name) for name in ("on", "using", "method", "side", "kind"))


def _keeps_public(join: exp.Join, text: str) -> Exception:
    return refusal(
        text,
        "an outer join must keep the private side: public rows without a match belong to no unit",
        "join_keeps_public",
        join,
        hint="Exchange the sides, or aggregate first and join the result. LEFT and RIGHT JOIN may "
        "keep public rows in the SELECT that groups by their columns and counts private ones.",
    )


def _equalities(left: Relation, right: Relation, pairs: Sequence[Pair]) -> Equal:
    """Collect the columns that are equal in all joined rows.

    A pair counts if it is compared as what it is: a cast could make two units one.
    """
    classes = [*left.equal, *right.equal]
    for pair in pairs:
        found = [left.field_of(c) or right.field_of(c) for c in pair]
        one, other = (None if f is None else f.type for f in found)
        if one is not None and other is not None and one.compares_exactly(other):
            classes.append(frozenset(pair))
    return _merged(classes)


def _merged(classes: list[frozenset[str]]) -> Equal:
    """Merge the sets of columns that share a column."""
    of: dict[str, set[str]] = {}
    for found in classes:
        touched = {id(of[c]): of[c] for c in found if c in of}
        whole = max(touched.values(), key=len, default=set())
        for part in (*touched.values(), found):
            if part is not whole:
                whole |= part
                of.update(dict.fromkeys(part, whole))
    return tuple(frozenset(columns) for columns in {id(s): s for s in of.values()}.values())


def _lasting(left: Relation, right: Relation, equal: Equal, kind: str) -> Equal:
    """Return the equalities that hold in every row of the join, with a match or without."""
    if kind == "inner":
        return equal
    return right.equal if kind == "right" else left.equal


def _as_one_unit(
    left: Relation, right: Relation, equal: Equal, join: exp.Expr, kind: str, text: str
) -> tuple[Relation, Relation]:
    """Return both sides with the same unit in every joined row, or refuse."""
    if left.unit_name != right.unit_name:
        raise refusal(
            text,
            f"{left.tables[0]} and {right.tables[0]} protect different privacy units",
            "join_units_differ",
            join,
            hint="Aggregate each on its own, then join the results in an outer query.",
        )
    if left.rows_are_units or right.rows_are_units:
        of = (left if left.rows_are_units else right).tables[0]
        raise refusal(
            text,
            f"each row of {of} is a privacy unit, which has no rows in another table",
            "join_units_differ",
            join,
            hint="Aggregate each on its own, then join the results in an outer query.",
        )
    # A child's row goes with its parent's row, whatever unit that has.
    if right.pending is not None and _refers(right.pending, left, equal):
        return left, right
    if left.pending is not None and _refers(left.pending, right, equal):
        if kind == "inner":
            return replace(left, unit=right.unit, pending=right.pending), right
        return left, right  # the child may stand without its parent: its link is followed later
    if _same_unit(left, right, equal) or _same_parent(left, right, equal):
        return left, right
    what = "a join" if isinstance(join, exp.Join) else "IN or EXISTS"
    raise refusal(
        text,
        f"{what} of private tables must make each pair of rows belong to one privacy unit",
        "join_needs_unit",
        join,
        hint=_hint(left, right, join),
    )


def is_one_unit(left: Relation, right: Relation, pairs: Sequence[Pair]) -> bool:
    """Tell whether two rows of which these columns are equal belong to one unit."""
    equal = _equalities(left, right, pairs)
    if left.unit_name != right.unit_name or left.rows_are_units or right.rows_are_units:
        return False
    along = (right.pending is not None and _refers(right.pending, left, equal)) or (
        left.pending is not None and _refers(left.pending, right, equal)
    )
    return along or _same_unit(left, right, equal) or _same_parent(left, right, equal)


def refuse_two_units(
    left: Relation, right: Relation, pairs: Sequence[Pair], node: exp.Expr, text: str
) -> None:
    """Refuse rows that may belong to two units though these columns are equal.

    Raises ``QueryRefused``.
    """
    if not left.private:
        raise refusal(
            text,
            f"public rows cannot be chosen by rows of {right.tables[0]}",
            "join_keeps_public",
            node,
            hint="Join the private rows with the public ones, and test the private rows.",
        )
    _as_one_unit(left, right, _equalities(left, right, pairs), node, "semi", text)


def depending_on(left: Relation, right: Relation) -> Relation:
    """Return the left rows as rows that depend on those of the same unit on the right."""
    tables = tuple(dict.fromkeys(left.tables + right.tables))
    return replace(left, tables=tables, joined=left.joined + right.joined)


def _same_unit(left: Relation, right: Relation, equal: Equal) -> bool:
    """Tell whether two columns that hold the unit are equal, and so not NULL.

    Only while neither side waits for its link: until then no column holds its unit for sure.
    """
    if left.unit is None or right.unit is None:
        return False
    ones, others = (
        [f.column for f in side.fields if f.identity >= Identity.NULLABLE] for side in (left, right)
    )
    return _meet(ones, others, equal)


def units_meet(left: Relation, right: Relation, pair: Pair) -> bool:
    """Tell whether two columns that are equal hold the unit, in all rows of either side."""
    one, other = pair
    return (left.is_unit(one) and right.is_unit(other)) or (
        left.is_unit(other) and right.is_unit(one)
    )


def _same_parent(left: Relation, right: Relation, equal: Equal) -> bool:
    """Tell whether two links to one parent are equal."""
    one, other = left.pending, right.pending
    if one is None or other is None or one.parent != other.parent:
        return False
    return _all_meet(one.columns, other.columns, equal)


def _refers(pending: Pending, parent: Relation, equal: Equal) -> bool:
    """Tell whether equalities follow a child's link into one row of the parent.

    Of a key of several columns, all are compared, and with columns of the same row.
    """
    keys = [key.columns for key in parent.parents if key.of == pending.parent]
    if len(pending.parent) == 1:
        keys += [(field.column,) for field in parent.fields if field.origin in pending.parent]
    return any(_all_meet(pending.columns, key, equal) for key in keys)


def units_equal(left: Relation, right: Relation, pairs: Sequence[Pair]) -> exp.EQ | None:
    """Return the equality of units to add to a join along a key whose rows have one unit.

    So each pair of rows belongs to one unit, whether or not that is true of the key. None where
    the rows do so already, no such key is compared as a whole, or units cannot be compared.
    """
    if is_one_unit(left, right, pairs) or left.unit_name != right.unit_name:
        return None
    if left.unit is None or right.unit is None or left.rows_are_units or right.rows_are_units:
        return None
    equal = _equalities(left, right, pairs)
    along = any(
        one.of == other.of and _all_meet(one.columns, other.columns, equal)
        for one in left.shared
        for other in right.shared
    )
    types = [
        next(column.type for column in side.rows.columns if column.name == side.unit)
        for side in (left, right)
    ]
    if not along or not types[0].compares_exactly(types[1]):
        return None
    return exp.EQ(this=generated_column(left.unit), expression=generated_column(right.unit))


def _all_meet(ones: Sequence[str], others: Sequence[str], equal: Equal) -> bool:
    """Tell whether each of the first columns is equal to the other in its place."""
    return all(_meet([one], [other], equal) for one, other in zip(ones, others, strict=True))


def _meet(ones: Sequence[str], others: Sequence[str], equal: Equal) -> bool:
    """Tell whether one of the first columns is equal to one of the others."""
    return any(not c.isdisjoint(ones) and not c.isdisjoint(others) for c in equal)


def _hint(left: Relation, right: Relation, node: exp.Expr) -> str:
    """Say how to join the two, in the analyst's words."""
    if not isinstance(node, exp.Join):
        return f"Compare it inside the subquery: … {_named(right)} = {_named(left)}."
    sides = ((right, left), (left, right))
    links = [(one, one.pending, other) for one, other in sides if one.pending is not None]
    for child, link, other in links:
        keys = [next((f for f in other.fields if f.origin == end), None) for end in link.parent]
        if None not in keys:
            return f"Join along the link: … ON {_all_equal(_fields(child, link.columns), keys)}."
    alike = len({link.parent for _, link, _ in links}) == 1 and len(links) == 2
    for one in () if alike else left.shared:
        for two in right.shared:
            found = _all_equal(_fields(left, one.columns), _fields(right, two.columns))
            if one.of == two.of and found:
                return f"Join along the link: … ON {found}."
    if links and not alike:
        child, link, _ = links[0]
        ends = [Field(table, name, name, UNKNOWN) for table, name in link.parent]
        return (
            f"First join {link.parent[0][0]}, where the link leads: … ON "
            f"{_all_equal(_fields(child, link.columns), ends)}. Then join on the privacy unit."
        )
    if alike:
        (second, theirs, _), (first, link, _) = links
        on = _all_equal(_fields(first, link.columns), _fields(second, theirs.columns))
        return f"Join on the link: … ON {on}."
    return f"Join on the privacy unit: … ON {_named(left)} = {_named(right)}."


def _fields(relation: Relation, columns: Sequence[str]) -> list[Field | None]:
    return [relation.field_of(column) for column in columns]


def _all_equal(ones: Sequence[Field | None], others: Sequence[Field | None]) -> str:
    """Write the equalities of columns, pair by pair; nothing where a column has no name here."""
    pairs = list(zip(ones, others, strict=True))
    if any(one is None or other is None for one, other in pairs):
        return ""
    return " AND ".join(f"{_written(a)} = {_written(b)}" for a, b in pairs if a and b)


def _named(relation: Relation) -> str:
    """Write the analyst's name of the column that holds a row's unit."""
    if relation.pending is None:
        found = next((f for f in relation.fields if f.identity is Identity.UNIT), None)
    else:
        found = relation.field_of(relation.pending.columns[0])
    return f"the {relation.unit_name} of {relation.tables[0]}" if found is None else _written(found)


def _written(field: Field) -> str:
    return f"{field.qualifier}.{field.name}" if field.qualifier else field.name
