"""Privacy parameters of one question: what was set nearest to it, within the policy's maxima."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpsql.core.periods import Period
from dpsql.policy.model import Policy
from dpsql.policy.parameters import (
    NOT_GIVEN,
    PARAMETER_NAMES,
    PARAMETERS,
    AutomaticGroups,
    Overrides,
    Parameters,
    ParameterValue,
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
    ``parameter_out_of_range``) for the first winning value outside its range, and (``epsilon_and_max_error``) where one override gives
    both.
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


def check_setting(policy: Policy, name: str, value: object) -> ParameterValue:
    """Check one parameter of a query against dpsql's limits and the policy's.

    Raises ParameterError as :func:`resolve` does.
    """
    checked, spec = check_value(name, value), PARAMETERS[name]
    if isinstance(checked, str | Period):
        return checked
    if isinstance(checked, AutomaticGroups):
        return replace(checked, most=policy.maxima.max_groups_contributed)
    if spec.least:
        check_minimum(name, getattr(policy.defaults, name), checked)
    elif spec.maximum is not None:
        check_maximum(policy.maxima, name, checked)
    return checked
