"""Which columns a join compares: by ON, USING or NATURAL, or by the WHERE around it.

    a JOIN b ON a.x = b.y      a JOIN b USING (x)      a NATURAL JOIN b
    FROM a, b WHERE a.x = b.y  (where the names mean the same at every join)

USING and NATURAL make one column of two: unqualified, its name means the side that is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.sql.expressions.comparisons import refuse_unlike_columns
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.lineage.joins import Pair
from dpsql.sql.lineage.names import opaque
from dpsql.sql.lineage.relation import Field, Relation


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conditions that AND puts together."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def side_by_side(left: Relation, right: Relation) -> Relation:
    """Return the scope of a join's condition: the fields and tables of both sides."""
    return replace(left, fields=left.fields + right.fields, tables=left.tables + right.tables)


def pairs_of(conditions: Sequence[exp.Expr]) -> Iterator[Pair]:
    """Yield the pairs of columns that resolved conditions make equal."""
    for condition in conditions:
        if isinstance(condition, exp.EQ):
            one, other = condition.this.unnest(), condition.expression.unnest()
            if isinstance(one, exp.Column) and isinstance(other, exp.Column):
                yield Pair(one.name, other.name)


def column_equalities(where: exp.Where, pieces: Sequence[Relation]) -> Iterator[exp.EQ]:
    """Yield a WHERE's equalities between columns that mean the same at every join."""
    fields = tuple(f for piece in pieces for f in piece.fields)
    whole = replace(pieces[0], fields=fields)
    for condition in conjuncts(where.this):
        sides = (condition.args.get("this"), condition.args.get("expression"))
        if isinstance(condition, exp.EQ) and all(
            isinstance(s, exp.Column) and len(whole.matches(s.table, s.name)) == 1 for s in sides
        ):
            yield condition


def filter_pairs(filters: Sequence[exp.EQ], both: Relation) -> Iterator[Pair]:
    """Yield the pairs of columns of a join that such equalities compare."""
    for condition in filters:
        sides = (condition.this, condition.expression)
        found = [both.matches(side.table, side.name) for side in sides]
        if [len(matches) for matches in found] == [1, 1]:
            yield Pair(found[0][0].column, found[1][0].column)


def shared_columns(
    left: Relation, right: Relation, join: exp.Join, text: str
) -> list[tuple[Field, Field]]:
    """Pair the columns of both sides that USING or NATURAL makes one. Raises ``QueryRefused``.

    A text and a number are not compared: see :mod:`dpsql.sql.expressions.comparisons`.
    """
    names = [identifier.name for identifier in join.args.get("using") or ()]
    if join.method == "NATURAL":
        names = [f.name for f in left.fields if not f.merged and right.matches("", f.name)]
        if not names:
            raise refusal(
                text,
                "NATURAL JOIN needs a column of the same name on both sides",
                "join_column",
                join,
                hint="Write JOIN … ON with the columns to compare.",
            )
    shared: list[tuple[Field, Field]] = []
    for name in dict.fromkeys(map(fold, names)):
        one, other = (relation.matches("", name) for relation in (left, right))
        if len(one) != 1 or len(other) != 1:
            raise refusal(
                text,
                f"USING ({name}) needs that column exactly once on both sides",
                "join_column",
                join,
                hint="Write JOIN … ON with the columns to compare.",
            )
        types = [one[0].type, other[0].type]
        if types[0].is_opaque or types[1].is_opaque:
            raise opaque(one[0] if types[0].is_opaque else other[0], join, text)
        refuse_unlike_columns(one[0].name, types, join, text)
        shared.append((one[0], other[0]))
    return shared


def made_one(rows: Relation, shared: Sequence[tuple[Field, Field]], kind: str) -> Relation:
    """Merge the columns of a join with USING: an unqualified name means the side that is kept.

    Among the columns of a star it has the place of the left one.
    """
    if kind != "right":
        hidden = {right.column for _, right in shared}
        return replace(
            rows, fields=tuple(_hide(f) if f.column in hidden else f for f in rows.fields)
        )
    kept = {left.column: rows.field_of(right.column) for left, right in shared}
    hidden = {field.column for pair in shared for field in pair}
    fields: list[Field] = []
    for f in rows.fields:
        stands_for = None if f.merged else kept.get(f.column)
        if stands_for is not None:
            fields.append(replace(stands_for, qualifier="", name=f.name))
        fields.append(_hide(f) if f.column in hidden else f)
    return replace(rows, fields=tuple(fields))


def _hide(field: Field) -> Field:
    return replace(field, merged=True)
