"""Compares two policies, and refuses changes of protection by remote owners.

Whoever can change a policies file can give rows away: a table that is declared public is read as
it is. Over a network that is refused, whatever the role, as a token can be stolen. Which tables
there are, whom they protect and by which links is changed in the file itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass

from dpsql.core.table_name import TableName
from dpsql.errors import NotSupportedError
from dpsql.policy.ledger_place import without_password
from dpsql.policy.model import Policy


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A setting that differs between two policies; None where a policy lacks the setting."""

    where: str
    before: str | None
    after: str | None


def policy_changes(before: Policy, after: Policy) -> tuple[PolicyChange, ...]:
    """List the settings that differ, by their paths. A ledger's password is left out."""
    old, new = _settings(before), _settings(after)
    return tuple(
        PolicyChange(where, old.get(where), new.get(where))
        for where in sorted(old.keys() | new.keys())
        if old.get(where) != new.get(where)
    )


def require_same_protection(before: Policy, after: Policy) -> None:
    """Refuse a policy of other tables, or that protects others, than the present one.

    Raises ``NotSupportedError`` (``protection_changed``).
    """
    if before.dataset != after.dataset:
        raise _refused("the dataset")
    if (before.ledger, before.views.directory) != (after.ledger, after.views.directory):
        raise _refused("where the ledger or the materialized views are kept")
    for key, table in after.tables.items():
        known = before.tables.get(key)
        if known is None:
            raise _refused(f"the table {table.name}, which is not served")
        same = (table.privacy_unit, table.link, table.unit_links)
        if same != (known.privacy_unit, known.link, known.unit_links):
            raise _refused(f"the privacy unit or a link of the table {table.name}")


def _refused(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"policies that come over the network cannot change {what}",
        code="protection_changed",
        hint="Change the policies file where the server runs, and send it SIGHUP.",
    )


def _settings(policy: Policy) -> dict[str, str]:
    """Return the settings of a policy as texts, by their paths."""
    found: dict[str, str] = {}
    _collect("", policy, found)
    if "ledger" in found:
        found["ledger"] = without_password(found["ledger"])
    return found


def _collect(path: str, value: object, found: dict[str, str]) -> None:
    start = f"{path}." if path else ""
    if is_dataclass(value) and not isinstance(value, TableName):
        for each in fields(value):
            _collect(start + each.name, getattr(value, each.name), found)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            _collect(f"{start}{name}", each, found)
    elif value is not None and value not in ((), ""):
        found[path] = _text(value)


def _text(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_text, value))}]"
    if is_dataclass(value) and not isinstance(value, TableName):
        parts = ((each.name, getattr(value, each.name)) for each in fields(value))
        return f"{{{', '.join(f'{name}: {_text(v)}' for name, v in parts if v is not None)}}}"
    return str(value)
