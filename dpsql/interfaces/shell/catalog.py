"""The names that the shell suggests: those of the policy, as nothing else exists for analysts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.core.quoting import quote
from dpsql.core.schema import Schema, fold
from dpsql.interfaces.shell.vocabulary import KEYWORDS
from dpsql.policy.model import Policy
from dpsql.policy.parameters import PARAMETER_NAMES, PARAMETERS, UNLIMITED

_PLAIN = re.compile(r"[^\W\d]\w*")
_RESERVED = frozenset(fold(word) for keyword in KEYWORDS for word in keyword.split())


@dataclass(frozen=True, slots=True)
class Catalog:
    """``tables`` are the columns of each table, ``parameters`` values for each privacy parameter:
    the policy's default and its maximum."""

    tables: Mapping[str, tuple[str, ...]]
    parameters: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, policy: Policy, schema: Schema) -> Catalog:
        """What a policy lets analysts name."""
        tables = {
            spelled(table.name): tuple(spelled(c.name) for c in schema[fold(table.name)].columns)
            for table in policy.tables.values()
        }
        return cls(tables, {name: _values(policy, name) for name in PARAMETER_NAMES})


def spelled(name: str) -> str:
    """A name as it is written in SQL, quoted where it has to be."""
    return name if _PLAIN.fullmatch(name) and fold(name) not in _RESERVED else quote(name)


def _values(policy: Policy, name: str) -> tuple[str, ...]:
    spec = PARAMETERS[name]
    if spec.words:
        return spec.words
    given = [getattr(policy.defaults, name), getattr(policy.maxima, name, None)]
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in given if value]
    if spec.unlimited and getattr(policy.maxima, name) is UNLIMITED:
        texts.append("unlimited")
    return tuple(dict.fromkeys(texts))
