"""Limits on the work of reading private rows, and what a failure of resources does."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from dpsql.errors import PolicyError

SECONDS_LIMIT: Final = 86_400
MEMORY_LIMITS: Final = ("64MB", "64TB")
PRIVATE_RELATIONS_LIMITS: Final = (1, 64)


class ResourceFailures(StrEnum):
    """The state of an account after a statement on private rows ran out of time or memory.

    Rows decide whether a statement does, so its failing says something about them. SUSPEND lets
    the account ask no further private question until the owner reopens it. KEEP keeps the
    reservation and nothing else: for owners who trust their analysts not to ask that way.
    """

    SUSPEND = "suspend"
    KEEP = "keep"


class BoundingLimit(StrEnum):
    """The makers that may bound the contributions of units: generated SQL alone, or NumPy, too.

    NumPy wherever it can, or where it takes no longer on the clock either.
    """

    AUTO = "auto"
    ANY = "any"
    SQL = "sql"


@dataclass(frozen=True, slots=True)
class Limits:
    """The work one private statement may be.

    ``seconds`` and ``memory`` (a size as DuckDB writes it, None for the engine's own limit) bound
    its run; ``private_relations`` how many private tables it joins, each as often as it is read.
    ``bounding`` says where rows are bounded: outside of the engine as well, or inside alone.
    Raises PolicyError (``policy_invalid``) for a value that is none, or outside dpsql's limits.
    """

    seconds: float = 600.0
    memory: str | None = None
    private_relations: int = 8
    resource_failures: ResourceFailures = ResourceFailures.SUSPEND
    bounding: BoundingLimit = BoundingLimit.AUTO

    def __post_init__(self) -> None:
        for setting in fields(self):
            problem = limit_problem(setting.name, getattr(self, setting.name))
            if problem is not None:
                reason, hint = problem
                raise PolicyError(
                    f"limits.{setting.name} {reason}", code="policy_invalid", hint=hint
                )


def limit_problem(name: str, value: object) -> tuple[str, str] | None:
    """Find a problem in a limit: reason and hint, or None."""
    match name:
        case "seconds":
            right = type(value) in (int, float) and 0 < value <= SECONDS_LIMIT  # type: ignore[operator]
            reason = f"must be a number above 0 and at most {SECONDS_LIMIT}"
            hint = "Give the seconds one private statement may run."
        case "memory":
            right = value is None or (type(value) is str and _is_memory(value))
            least, most = MEMORY_LIMITS
            reason = f"must be a size from {least} to {most}"
            hint = "Write it as the engine does, for example 8GB or 512MB."
        case "private_relations":
            low, high = PRIVATE_RELATIONS_LIMITS
            right = type(value) is int and low <= value <= high
            reason = f"must be a whole number from {low} to {high}"
            hint = "Give how many private tables one statement may join."
        case "bounding":
            right = isinstance(value, BoundingLimit)
            reason = "must be `auto`, `any` or `sql`"
            hint = (
                "`sql` keeps rows in the engine, `any` takes what is least work, and `auto` does "
                "where it takes no longer."
            )
        case _:
            right = isinstance(value, ResourceFailures)
            reason = "must be `suspend` or `keep`"
            hint = (
                "`suspend` closes the account until the owner reopens it, `keep` only keeps what "
                "was reserved."
            )
    return None if right else (reason, hint)


MEMORY: Final = re.compile(r"([1-9][0-9]{0,8})([KMGT])(i?)B")
"""A size of memory as the engine reads it."""


def _is_memory(text: str) -> bool:
    low, high = (memory_bytes(limit) or 0 for limit in MEMORY_LIMITS)
    return low <= (memory_bytes(text) or 0) <= high


def memory_bytes(text: str) -> int | None:
    """Read the bytes of a size, or None if the text is none."""
    found = MEMORY.fullmatch(text)
    if found is None:
        return None
    number, unit, binary = found.groups()
    exponent = " KMGT".index(unit)
    return int(number) << 10 * exponent if binary else int(number + "000" * exponent)
