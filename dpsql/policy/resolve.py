"""The privacy parameters of a question: the nearest setting of each, within the policy's maxima."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpsql.core.periods import Period
from dpsql.core.table_name import TableName
from dpsql.policy.model import Policy, TablePolicy
from dpsql.policy.parameters import (
    NOT_GIVEN,
    PARAMETER_NAMES,
    PARAMETERS,
    TABLE_PARAMETERS,
    Automatic,
    Overrides,
    Parameters,
    ParameterValue,
    Several,
    asked_by_error,
    check_maximum,
    check_minimum,
    check_value,
)


def resolve(policy: Policy, *overrides: Overrides, base: Parameters | None = None) -> Parameters:
    """Return the parameters of a query: ``base``, then each override, the last one winning.

    ``base`` is the policy's defaults unless given; order overrides from far to near: connection,
    session, query, a SELECT's OPTIONS. Of ``epsilon`` and ``max_error`` the nearer one holds.
    Raises ParameterError (``parameter_not_number``, ``parameter_not_integer``,
    ``parameter_not_finite``, ``parameter_not_a_choice``, ``bad_period`` or
    ``parameter_out_of_range``) for the first winning value outside its range, and
    (``epsilon_and_max_error``) where one override gives both.
    """
    start = base or policy.defaults
    chosen: dict[str, object] = {n: getattr(start, n) for n in PARAMETER_NAMES}
    asked = set(start.given)
    for settings in overrides:
        given = {n: v for n in PARAMETER_NAMES if (v := getattr(settings, n)) is not NOT_GIVEN}
        if asked_by_error(given) is False:
            chosen["max_error"] = None
        chosen |= given
        asked |= given.keys()
    checked: dict[str, Any] = {n: check_setting(policy, n, value) for n, value in chosen.items()}
    return Parameters(**checked, given=frozenset(asked))


@dataclass(frozen=True, slots=True)
class TableDefault:
    """A privacy parameter that a question takes from the default of a table."""

    parameter: str
    value: ParameterValue
    table: TableName

    def replaced(self, parameters: Parameters) -> bool:
        """Tell whether the question asked for another value."""
        return bool(_EITHER.get(self.parameter, {self.parameter}) & parameters.given)


_EITHER = {"epsilon": frozenset({"epsilon", "max_error"})}  # each decides the other


def over_tables(
    policy: Policy, parameters: Parameters, tables: Sequence[TableName]
) -> tuple[Policy, Parameters, tuple[TableDefault, ...]]:
    """Return the policy and parameters of a question over these tables, with the defaults used.

    The defaults of tables stand in for the policy's where nobody has asked for anything: those of
    the only table that has one, or the largest or the least of several, as the parameter says. The
    returned policy has them as its own; a minimum reaches the tables that are linked to its table
    (:func:`defaults_of`). Raises ParameterError (``parameter_out_of_range``) where
    less than a table's ``min_units_per_group`` was asked for.
    """
    found = tuple(_table_defaults(policy, tables))
    if not found:
        return policy, parameters, ()
    values: dict[str, Any] = {each.parameter: each.value for each in found}
    if "epsilon" in values:
        values["max_error"] = None
    over = replace(policy, defaults=replace(policy.defaults, **values))
    left = tuple(each for each in found if not each.replaced(parameters))
    return over, again(over, parameters), left


def again(policy: Policy, parameters: Parameters) -> Parameters:
    """Resolve the given parameters under another policy, which supplies all others.

    Raises ParameterError as :func:`resolve` does, for what this policy does not allow.
    """
    asked = {name: getattr(parameters, name) for name in parameters.given}
    if parameters.max_error is not None:
        asked.pop("epsilon", None)
    return replace(resolve(policy, Overrides.of(asked)), given=parameters.given)


def defaults_of(policy: Policy, table: TablePolicy) -> Iterator[TableDefault]:
    """Yield the defaults that questions over a table have: its own, and minima of linked tables.

    A row that refers to rows of other tables is about the units of these, whichever column says
    whose it is: a group of fewer than their minimum is as small here as there. Of several minima
    the largest holds.
    """
    for name, value in table.defaults.items():
        if not PARAMETERS[name].least:
            yield TableDefault(name, value, table.name)
    for name in TABLE_PARAMETERS:
        if PARAMETERS[name].least:
            said = [t for t in _upwards(policy, table) if name in t.defaults]
            least = (TableDefault(name, each.defaults[name], each.name) for each in said)
            yield from ([max(least, key=_size)] if said else ())


def _upwards(policy: Policy, table: TablePolicy) -> Iterator[TablePolicy]:
    """Yield a table and the tables that its links lead to, also those beside a unit of its own."""
    seen: set[str] = set()
    ahead: list[TablePolicy | None] = [table]
    for found in ahead:
        if found is not None and found.name.key not in seen:
            seen.add(found.name.key)
            ahead += [policy.table(link.parent) for link in found.links]
            yield found


def _table_defaults(policy: Policy, tables: Sequence[TableName]) -> Iterator[TableDefault]:
    """Yield the defaults of these tables, one of each parameter that has any."""
    read = [table for name in tables if (table := policy.table(name)) is not None]
    known = [default for table in read for default in defaults_of(policy, table)]
    for name in TABLE_PARAMETERS:
        said = [default for default in known if default.parameter == name]
        if said:
            largest = PARAMETERS[name].several is Several.LARGEST
            yield (max if largest else min)(said, key=_size)


def _size(default: TableDefault) -> tuple[int, float]:
    """Return the sort key of a parameter's defaults: a word for no limit is the largest."""
    match default.value:
        case None:
            return 2, 0.0
        case Automatic():
            return 1, 0.0
        case Period() as period:
            return 0, period.length
        case value:
            assert isinstance(value, int | float)
            return 0, value


def check_setting(policy: Policy, name: str, value: object) -> ParameterValue:
    """Check one parameter of a query against dpsql's limits and the policy's.

    Raises ParameterError as :func:`resolve` does.
    """
    checked, spec = check_value(name, value), PARAMETERS[name]
    if isinstance(checked, str | Period):
        return checked
    if isinstance(checked, Automatic):
        return replace(checked, most=getattr(policy.maxima, name))
    if spec.least:
        check_minimum(name, getattr(policy.defaults, name), checked)
    elif spec.maximum is not None:
        check_maximum(policy.maxima, name, checked)
    return checked
