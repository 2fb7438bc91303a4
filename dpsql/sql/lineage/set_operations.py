"""UNION, EXCEPT and INTERSECT over private rows of the same unit.

The unit goes with every row as a column, so rows are compared with rows of their own unit only.
What compares rows must select the unit in the same place on both sides: then SQL means the same.
UNION ALL compares none. Checked by ``tests/sql/test_lineage_sensitivity.py``.

    SELECT product FROM orders INTERSECT SELECT product FROM returns

INTERSECT and EXCEPT without the unit ask which values are on both sides, or on one alone, whoever
has them. They are no rows of a unit: each side is a release of its keys, and these are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.core.sql_types import DATE, DOUBLE, TIMESTAMP, SqlType
from dpsql.ir.relations import Combined, RowSet, SetOperator, Typed
from dpsql.policy.model import ColumnPolicy
from dpsql.sql.lineage.names import Names, generated_column
from dpsql.sql.lineage.operators import Operators
from dpsql.sql.lineage.preaggregate import linking_field
from dpsql.sql.lineage.relation import Field, Identity, Origin, Relation
from dpsql.syntax.arguments import NodeArguments

_OPERATORS = {
    exp.Union: SetOperator.UNION,
    exp.Except: SetOperator.EXCEPT,
    exp.Intersect: SetOperator.INTERSECT,
}
_NO_TYPE = SqlType.of('"NULL"')
"""Of a column that is NULL in every row."""
_OF_VALUES = NodeArguments("this expression distinct! with_? order? limit? offset?")
_PARTS = frozenset({"this", "expression", "distinct", "with_", "by_name"})


def combined(
    names: Names,
    operators: Operators,
    query: exp.SetOperation,
    one: Relation | None,
    other: Relation | None,
    link_keys: Collection[Origin],
) -> Relation | None:
    """Combine both sides of a set operation; None if neither is private, or keys are compared.

    ``link_keys`` are the columns that link tables, each value of which is one unit's.
    Raises ``QueryRefused`` for sides that are not rows of one unit, or of different columns.
    """
    private = [side for side in (one, other) if side is not None and side.private]
    if not private:
        return None
    if _asks_for_values(query) and not any(_tells_units(side, link_keys) for side in private):
        return None
    left, right = (None if side is None else operators.settled(side) for side in (one, other))
    if left is None or right is None or left.unit_name != right.unit_name:
        raise names.refuse(
            "both sides of a set operation must hold private rows of the same unit",
            "set_operation_mixed",
            query,
            hint="Aggregate each side on its own, then combine the results.",
        )
    parts = {name for name, value in query.args.items() if value}
    if parts - _PARTS or ("by_name" in parts and not isinstance(query, exp.Union)):
        raise names.refuse(
            "this form of set operation is not available over private rows",
            "clause_not_allowed",
            query,
        )
    return _SetOperation(names, operators, query, left, right).relation()


def _asks_for_values(query: exp.SetOperation) -> bool:
    """Tell whether a set operation asks which values there are, and not how often.

    UNION does so too, but where UNION ALL is meant as often as not.
    """
    return isinstance(query, exp.Intersect | exp.Except) and _OF_VALUES.hold(query)


def _tells_units(side: Relation, link_keys: Collection[Origin]) -> bool:
    """Tell whether columns of a side are the unit, say something of it, or link rows to it."""
    told = any(field.identity is not Identity.NONE for field in side.fields)
    return told or linking_field(side.fields, link_keys) is not None


@dataclass(eq=False)
class _SetOperation:
    names: Names
    operators: Operators
    query: exp.SetOperation
    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        self.shown = _shown(self.left), _shown(self.right)
        if self.query.args.get("by_name"):
            self.shown = self.shown[0], self._by_name(*self.shown)
        types = [_common(a, b) for a, b in zip(*self.shown, strict=False)]
        ones, others = self.shown
        self.left, ones = self._cast(self.left, ones, types)
        self.right, others = self._cast(self.right, others, types)
        self.shown = ones, others

    def _cast(
        self, rows: Relation, shown: Sequence[Field], types: Sequence[SqlType | None]
    ) -> tuple[Relation, list[Field]]:
        """Cast the columns of one side to the types of both; a type of None changes nothing."""
        found = list(shown)
        for place, (field, type_) in enumerate(zip(shown, types, strict=False)):
            if type_ is None or field.type == type_:
                continue
            column = self.names.new_column()
            value = exp.null() if field.type == _NO_TYPE else generated_column(field.column)
            cast = exp.cast(value, type_.text, dialect="duckdb")
            rows = self.operators.extended(rows, {column: cast})
            found[place] = replace(rows.fields[-1], name=field.name, merged=False)
        return rows, found

    def _by_name(self, ones: list[Field], others: list[Field]) -> list[Field]:
        """List the columns of the right side in the order of their names on the left.

        Raises ``QueryRefused`` where a name is on one side alone, or stands there twice.
        """
        named = {fold(field.name): field for field in others}
        names = [fold(field.name) for field in ones]
        if not len(set(names)) == len(names) == len(others) or named.keys() != set(names):
            raise self.names.refuse(
                "both sides of a set operation BY NAME must have columns of the same names",
                "set_operation_types",
                self.query,
                hint="Select the same columns on both sides, NULL AS name where there is none.",
            )
        return [named[name] for name in names]

    def relation(self) -> Relation:
        self._check_alike()
        distinct = bool(self.query.args.get("distinct"))
        operator = _OPERATORS[type(self.query)]
        names = [self.names.new_column() for _ in self.shown[0]]
        unit = self.names.new_column()
        found = self._typed(self._combined(operator, distinct, names, unit))
        types = [column.type for column in found.columns[:-1]]
        adds = operator is SetOperator.UNION
        fields = tuple(
            Field(
                qualifier="",
                name=a.name,
                column=name,
                type=type_,
                policy=_hull(a.policy, b.policy),
                identity=_combined_identity(a.identity, b.identity),
                single=a.single if not adds else a.identity is b.identity is Identity.UNIT,
                enumerated=a.enumerated or b.enumerated,
            )
            for a, b, name, type_ in zip(*self.shown, names, types, strict=True)
        )
        tables = tuple(dict.fromkeys(self.left.tables + self.right.tables))
        # Unlike those of a join, the rows of the sides add up.
        most = max(self.left.joined, self.right.joined)
        rows = Relation(
            rows=found,
            fields=fields,
            unit_name=self.left.unit_name,
            unit=unit,
            tables=tables,
            joined=most,
        ).of_rows_per_unit(self._most_rows(operator))
        self.operators.check_size(rows, self.query)
        added_up = adds and not distinct
        return rows if added_up else self.operators.one_spelling(rows, self.query)

    def _most_rows(self, operator: SetOperator) -> int | None:
        """Return how many of the rows a unit has at most; None where that is not known."""
        ones, others = self.left.rows_per_unit, self.right.rows_per_unit
        if operator is not SetOperator.UNION:
            return ones  # all of them are rows of the left side
        return None if ones is None or others is None else ones + others

    def _check_alike(self) -> None:
        pairs = list(zip(*self.shown, strict=False))
        alike = all(a.type.compares_exactly(b.type) for a, b in pairs)
        if len(self.shown[0]) != len(self.shown[1]) or not alike:
            raise self.names.refuse(
                "both sides of a set operation must have columns of the same types",
                "set_operation_types",
                self.query,
                hint="Write CAST(… AS …) on one side.",
            )
        keeps_all = isinstance(self.query, exp.Union) and not self.query.args.get("distinct")
        if not keeps_all and not any(a.identity is b.identity is Identity.UNIT for a, b in pairs):
            raise self.names.refuse(
                "a set operation that compares rows must select the privacy unit on both sides",
                "set_operation_unit",
                self.query,
                hint="Select the unit's column in the same place on both sides, or use UNION ALL.",
            )

    def _combined(
        self, operator: SetOperator, distinct: bool, names: list[str], unit: str
    ) -> RowSet:
        """Combine the rows of both sides under common names, each with its unit last."""
        left, right = self.left, self.right
        assert left.unit is not None
        assert right.unit is not None
        ones, others = ([f.column for f in shown] for shown in self.shown)
        columns = (*zip(ones, others, names, strict=True), (left.unit, right.unit, unit))
        return Combined(left.rows, right.rows, operator, distinct, columns)

    def _typed(self, rows: RowSet) -> RowSet:
        """Give the rows their types; units of types that cannot be compared are refused."""
        if not self._unit_type(self.left).compares_exactly(self._unit_type(self.right)):
            raise self.names.refuse(
                "the privacy units of both sides are of different types",
                "set_operation_types",
                self.query,
            )
        types, others = ([f.type for f in shown] for shown in self.shown)
        return rows if types == others else Typed(rows, self.operators.bind(rows))

    def _unit_type(self, side: Relation) -> SqlType:
        assert side.unit is not None
        shown = [f.type for f in side.fields if f.identity is Identity.UNIT]
        if shown:
            return shown[0]
        return self.operators.bind(side.rows, side.unit)[0].type


def _common(one: Field, other: Field) -> SqlType | None:
    """Return the type that values of two columns become beside each other, where none is lost.

    None where they are of one type, where another than the engine's might come out, and for the
    unit, whose values are compared as they are.
    """
    types = one.type, other.type
    units = Identity.UNIT in (one.identity, other.identity)
    if units or types[0].compares_exactly(types[1]):
        return None
    if _NO_TYPE in types:
        (found,) = {*types} - {_NO_TYPE}
        return None if found.is_nested or found.is_opaque else found
    if DOUBLE in types and all(type_.is_numeric for type_ in types):
        return DOUBLE
    return TIMESTAMP if set(types) == {DATE, TIMESTAMP} else None


def _shown(relation: Relation) -> list[Field]:
    return [f for f in relation.fields if not f.merged]


def _hull(one: ColumnPolicy | None, other: ColumnPolicy | None) -> ColumnPolicy | None:
    """Return the public facts about values from either of two columns."""
    if one is None or other is None:
        return None
    domain = one.domain if one.domain == other.domain else None
    ends = (one.lower, one.upper, other.lower, other.upper)
    if None in ends or len({isinstance(end, date) + isinstance(end, datetime) for end in ends}) > 1:
        return None if domain is None else ColumnPolicy(domain=domain)
    lower, upper = min(one.lower, other.lower), max(one.upper, other.upper)  # type: ignore[type-var]
    return ColumnPolicy(lower, upper, domain)


def _combined_identity(one: Identity, other: Identity) -> Identity:
    lower, higher = min(one, other), max(one, other)
    if lower >= Identity.NULLABLE or higher is Identity.NONE:
        return lower
    return Identity.DERIVED
