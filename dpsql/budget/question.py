"""The ledger's record of a question beside its price: statement, values, mechanisms.

All of it is a function of the statement, the policy and the account: it says nothing about rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from dpsql.core.periods import Period
from dpsql.ir.plan import BlockPlan, PrivacyPlan
from dpsql.ledger import LEFT_OUT_MECHANISM
from dpsql.policy.parameters import PARAMETER_NAMES, Automatic, Parameters
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.syntax.placeholders import PlaceholderValues

MAX_LOGGED_STATEMENT = 10_000
"""The longest statement that is kept whole, in characters."""
MAX_LOGGED_VALUES = 100
"""How many values of query parameters are kept."""
MAX_VALUE = 200
"""The longest value of a query parameter that is kept whole, in characters."""


@dataclass(frozen=True, slots=True)
class AskedBlock:
    """One private block of a question. ``limit`` is the k of a top-k, else None.

    ``parameters`` are its privacy parameters by name. ``conversion_delta`` is the delta at which
    its rho was worth the epsilon asked for, 0 where nothing was converted.
    """

    table: str = ""
    mechanism: str = ""
    limit: int | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    conversion_delta: float = 0.0

    def number(self, name: str) -> float | None:
        """Return a numeric privacy parameter; None if it is missing."""
        value = self.parameters.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        return float(value) if abs(value) < 2.0**63 else None


@dataclass(frozen=True, slots=True)
class LoggedStream:
    """The stream that an entry pays for: its name, and how many steps it may publish."""

    name: str
    steps: int


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """A question as the ledger remembers it; empty where it does not.

    ``values`` are those of query parameters, as text. ``stream`` is None for a question that was
    asked once; that of a stream is asked anew in each of its steps.
    """

    statement: str = ""
    values: tuple[str, ...] = ()
    blocks: tuple[AskedBlock, ...] = ()
    stream: LoggedStream | None = None

    @property
    def is_estimate(self) -> bool:
        """True if the entry is a left-out estimate, and not a question."""
        return any(block.mechanism == LEFT_OUT_MECHANISM for block in self.blocks)

    @property
    def shape(self) -> tuple[tuple[str, str], ...]:
        """The tables and mechanisms, by which questions are grouped."""
        return tuple((block.table, block.mechanism) for block in self.blocks)

    @property
    def kind(self) -> str:
        """The question in a few words, such as ``top-10 of flights`` or ``stream visits``."""
        if self.stream is not None:
            return f"stream {self.stream.name}"
        if self.is_estimate:
            return LEFT_OUT_MECHANISM
        return " + ".join(dict.fromkeys(map(_kind, self.blocks)))

    @property
    def settings(self) -> tuple[tuple[float, float], ...]:
        """The (epsilon, delta) of each block, where they are known."""
        pairs = ((block.number("epsilon"), block.number("delta")) for block in self.blocks)
        return tuple((e, d) for e, d in pairs if e is not None and d is not None)


def plan_record(plan: PrivacyPlan, statement: str = "", values: PlaceholderValues = ()) -> str:
    """Return a question as the ledger keeps it: JSON text that :func:`read_record` reads."""
    return json.dumps(_record(statement, values, map(_block, plan.blocks)), sort_keys=True)


def _record(
    statement: str, values: PlaceholderValues, blocks: Iterable[dict[str, Any]]
) -> dict[str, Any]:
    shown = values.items() if isinstance(values, Mapping) else enumerate(values, start=1)
    kept = [f"{name} = {value!r}" for name, value in islice(shown, MAX_LOGGED_VALUES)]
    return {
        "statement": _short(statement, MAX_LOGGED_STATEMENT),
        "values": [_short(value, MAX_VALUE) for value in kept],
        "blocks": list(blocks),
    }


def record_beside(loss: PrivacyLoss, statement: str = "", values: PlaceholderValues = ()) -> str:
    """Return the ledger's record of what is bought beside a question, by a mechanism of its own.

    That is a left-out estimate, or the number of rows per unit. It has no statement where the
    question's own entry follows.
    """
    record = {
        "mechanism": LEFT_OUT_MECHANISM,
        "rho": loss.rho,
        "epsilon": loss.epsilon,
        "delta": 0.0,
    }
    return json.dumps(_record(statement, values, [record]), sort_keys=True)


def read_record(text: str) -> LoggedQuery:
    """Read the record of a ledger's entry, as far as it is well-formed; never an error.

    Older versions kept the list of blocks alone, other callers of a ledger keep what they like.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return LoggedQuery()
    if isinstance(record, list):
        record = {"blocks": record}
    if not isinstance(record, dict):
        return LoggedQuery()
    return LoggedQuery(
        _text(record.get("statement")) or _text(record.get("text")),
        tuple(map(_text, _list(record.get("values")))),
        tuple(_read_blocks(_list(record.get("blocks")))),
        _read_stream(record.get("stream")),
    )


def _block(plan: BlockPlan) -> dict[str, Any]:
    block, worst = plan.block, plan.loss(None)
    return {
        "table": block.table,
        "privacy_unit": block.unit_name,
        "mechanism": plan.selection.name,
        "limit": None if block.top_k is None else block.top_k.limit,
        "parameters": {name: _logged(block.parameters, name) for name in PARAMETER_NAMES},
        "rho": worst.rho,
        "epsilon": worst.epsilon,
        "delta": worst.delta,
        "conversion_delta": plan.conversion_delta,
    }


def _logged(parameters: Parameters, name: str) -> object:
    """Return the value of a privacy parameter to keep: a number, a word, None for unlimited."""
    value = getattr(parameters, name)
    return str(value) if isinstance(value, Automatic | Period) else value


def _read_blocks(blocks: list[object]) -> Iterator[AskedBlock]:
    for block in blocks:
        if isinstance(block, dict):
            limit, parameters = block.get("limit"), block.get("parameters")
            conversion = block.get("conversion_delta")
            yield AskedBlock(
                _text(block.get("table")),
                _text(block.get("mechanism")),
                limit if type(limit) is int else None,
                parameters if isinstance(parameters, dict) else {},
                conversion if type(conversion) is float and 0.0 <= conversion < 1.0 else 0.0,
            )


def _read_stream(stream: object) -> LoggedStream | None:
    if not isinstance(stream, dict):
        return None
    steps = stream.get("steps")
    return LoggedStream(_text(stream.get("name")), steps if type(steps) is int else 0)


def _kind(block: AskedBlock) -> str:
    top = "" if block.limit is None else f"top-{block.limit} of "
    return f"{top}{block.table}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
