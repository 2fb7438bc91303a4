"""The privacy parameters a SELECT states for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.core.table_name import TableName
from dpsql.errors import ParameterError, QueryRefused
from dpsql.policy.model import Policy
from dpsql.policy.parameters import (
    PARAMETER_NAMES,
    Automatic,
    Overrides,
    Parameters,
    asked_by_error,
    of_null,
)
from dpsql.policy.resolve import TableDefault, over_tables, resolve
from dpsql.syntax.dialect import MAX_ERROR, PrivacyOption, PrivacyOptions
from dpsql.syntax.parse import parse, place_of, understood

_STRATEGY: Final = "group_selection_strategy"
_PUBLIC_GROUPS: Final = "PUBLIC_GROUPS"
"""GoogleSQL's words for groups that are not discovered."""
_DISCOVERED: Final = "LAPLACE_THRESHOLD"
"""GoogleSQL's word for groups that are found by thresholds; the planner chooses their noise."""
_UNIT_COLUMN: Final = "privacy_unit_column"
_ALSO: Final = {
    "min_privacy_units_per_group": "min_units_per_group",
    "kappa": "max_groups_contributed",
}
"""GoogleSQL's names of our parameters."""
_THRESHOLD: Final = "threshold"
_OF_THRESHOLD: Final = (_THRESHOLD, _UNIT_COLUMN)
"""The options of WITH AGGREGATION_THRESHOLD, whose answers have no noise in BigQuery."""


@dataclass(frozen=True, slots=True)
class AskedOptions:
    """The options of a private SELECT: its parameters, and a forced mechanism.

    ``fresh`` asks for new noise, and to pay for it, even if the same was answered before.
    ``own_epsilon`` says that its OPTIONS give an epsilon. ``table_defaults`` are those parameters
    that are as a table's defaults say. ``public_groups`` asks for an answer only if all its groups
    are known without a look at private rows. ``unit_column`` is the column that it names as that of
    the privacy unit, which must be right.
    """

    parameters: Parameters
    mechanism: str | None
    fresh: bool = False
    own_epsilon: bool = False
    table_defaults: tuple[TableDefault, ...] = ()
    public_groups: bool = False
    unit_column: exp.Column | None = None

    def with_most_rows(self, most: int | None) -> AskedOptions:
        """Return the options where no unit has more rows than so many, if that is known."""
        rows = self.parameters.max_rows_contributed
        if most is None or (not isinstance(rows, Automatic) and most >= rows):
            return self
        if isinstance(rows, Automatic) and most > 1:
            limit = most if rows.most is None else min(rows.most, most)
            return self.with_rows(replace(rows, most=limit))
        return self.with_rows(most)

    def with_rows(self, rows: int | Automatic) -> AskedOptions:
        """Return the options with a number of rows per unit, or ``auto``."""
        parameters = replace(self.parameters, max_rows_contributed=rows)
        return replace(self, parameters=parameters)

    def with_groups(self, groups: int) -> AskedOptions:
        """Return the options with a number of groups per unit."""
        parameters = replace(self.parameters, max_groups_contributed=groups)
        return replace(self, parameters=parameters)


def take_options(
    select: exp.Select,
    text: str,
    policy: Policy,
    outer: Parameters,
    tables: Sequence[TableName],
) -> AskedOptions:
    """Take a private SELECT's parameters: its OPTIONS, else those of the statement.

    ``tables`` are those it reads, whose defaults stand in for what nobody asked for. Removes the
    clause from the tree. Raises ``ParameterError`` or ``QueryRefused`` with the place
    of an option that is unknown, given twice, not a literal, or outside its range.
    """
    policy, outer, defaults = over_tables(policy, outer, tables)
    clause = select.args.get("hint")
    if not isinstance(clause, PrivacyOptions):
        return AskedOptions(outer, None, table_defaults=defaults)
    clause.pop()
    _check_threshold(clause, text)
    mechanism: str | None = None
    fresh = public_groups = False
    unit_column: exp.Column | None = None
    seen: dict[str, object] = {}
    parameters = outer
    for option in clause.expressions:
        name = fold(option.this)
        if clause.args.get("threshold") and name == _THRESHOLD:
            name = "min_units_per_group"
        name = _ALSO.get(name, name)
        if name in seen:
            raise _at(f"the option {name} is given twice", "option_twice", option, text)
        if name == _UNIT_COLUMN:
            if not isinstance(option.expression, exp.Column):
                raise _at(f"{_UNIT_COLUMN} is the name of a column", "bad_option", option, text)
            seen[name] = unit_column = option.expression
            continue
        seen[name] = value = _value(name, option, text)
        if name == "mechanism":
            if not isinstance(value, str):
                raise _at("mechanism must be a name in quotes", "bad_option", option, text)
            mechanism = value
            continue
        if name == "fresh":
            if not isinstance(value, bool):
                raise _at("fresh must be true or false", "bad_option", option, text)
            fresh = value
            continue
        if name == _STRATEGY:
            if str(value).upper() not in (_PUBLIC_GROUPS, _DISCOVERED):
                raise _at(
                    f"{_STRATEGY} is {_PUBLIC_GROUPS} or {_DISCOVERED}", "bad_option", option, text
                )
            public_groups = str(value).upper() == _PUBLIC_GROUPS
            continue
        try:
            parameters = resolve(policy, Overrides.of({name: value}), base=parameters)
            asked_by_error(seen)
        except ParameterError as error:
            error.place = place_of(text, option)
            raise
    left = tuple(each for each in defaults if not each.replaced(parameters))
    given = "epsilon" in seen
    return AskedOptions(parameters, mechanism, fresh, given, left, public_groups, unit_column)


def _check_threshold(clause: PrivacyOptions, text: str) -> None:
    """Refuse WITH AGGREGATION_THRESHOLD without a threshold, or with options of another clause."""
    if not clause.args.get("threshold"):
        return
    given = {fold(option.this): option for option in clause.expressions}
    other = next((option for name, option in given.items() if name not in _OF_THRESHOLD), None)
    if other is None and _THRESHOLD in given:
        return
    raise QueryRefused(
        "WITH AGGREGATION_THRESHOLD needs the option threshold"
        if other is None
        else f"{str(other.this)[:60]} is no option of WITH AGGREGATION_THRESHOLD",
        code="bad_option",
        place=place_of(text, other or clause),
        hint="Write OPTIONS (threshold = 50): how many units a group has at least. All other "
        "options are those of WITH DIFFERENTIAL_PRIVACY, which has min_privacy_units_per_group.",
    )


def sets_parameters(text: str) -> bool:
    """Tell whether a query states anything in OPTIONS, or an error that an aggregate may have.

    Raises what ``parse`` does.
    """
    with understood():
        nodes = parse(text).walk()
        return any(
            isinstance(node, PrivacyOption)
            or (isinstance(node, exp.Kwarg) and fold(node.this.name) == MAX_ERROR)
            for node in nodes
        )


def refuse_options(select: exp.Select, text: str) -> None:
    """Refuse the clause on a SELECT that reads no private table. Raises ``QueryRefused``."""
    clause = select.args.get("hint")
    if isinstance(clause, PrivacyOptions):
        threshold = clause.args.get("threshold")
        word = "WITH AGGREGATION_THRESHOLD" if threshold else "WITH DIFFERENTIAL_PRIVACY"
        raise QueryRefused(
            f"{word} belongs to a SELECT that reads a private table",
            code="options_not_private",
            place=place_of(text, clause),
            hint="Move it to the SELECT that aggregates the private table.",
        )


def _value(name: str, option: PrivacyOption, text: str) -> object:
    node, sign = option.expression, 1
    if isinstance(node, exp.Neg):
        node, sign = node.this, -1
    if isinstance(node, exp.Literal) and not node.is_string:
        return sign * (int(node.this) if node.is_int else float(node.this))
    if sign == 1 and isinstance(node, exp.Literal):
        return str(node.this)
    if sign == 1 and isinstance(node, exp.Null):
        return of_null(name)
    if sign == 1 and isinstance(node, exp.Boolean):
        return bool(node.this)
    if sign == 1 and isinstance(node, exp.Column) and not node.table:
        return str(node.name)
    raise _at("the value of an option must be a literal", "bad_option", option, text)


def _at(reason: str, code: str, node: exp.Expr, text: str) -> QueryRefused:
    names = ", ".join([*PARAMETER_NAMES, "mechanism", "fresh", _STRATEGY, _UNIT_COLUMN])
    return QueryRefused(reason, code=code, place=place_of(text, node), hint=f"Options: {names}.")
