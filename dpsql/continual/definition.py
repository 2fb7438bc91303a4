"""What a materialized view is: its query, its steps, how noise is spread over them, its price.

All of it is public. It is written down once, when the view is created, and never changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Final

from dpsql.continual.steps import ViewSteps, read_wall_time
from dpsql.core.periods import Period
from dpsql.errors import LedgerError, ParameterError
from dpsql.policy.parameters import PARAMETER_NAMES, Parameters

DEFAULT_STEPS: Final = 1_000
"""Steps of a view that does not say how many: ten times as many cost a tenth more noise."""


class Factoring(StrEnum):
    """How the noise of all steps is factored. TOEPLITZ adds the least of it."""

    TOEPLITZ = "toeplitz"  # the square root of the running sum
    TREE = "tree"  # partial sums in a tree of the best base
    HONAKER = "honaker"  # a binary tree, each node estimated from all below it
    BLT = "blt"  # a few buffers: hardly more noise, and a state that does not grow


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view as it was created: ``text`` is its SELECT, ``name`` as it was written.

    ``window`` is the number of steps that a value covers, None for all since the start.
    ``buffers`` are the decays and weights of a BLT factorisation: an optimiser may find others
    another time, and the noise of a view must stay what it was.
    """

    name: str
    text: str
    steps: ViewSteps
    window: int | None
    factoring: Factoring
    parameters: Parameters
    buffers: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    def record(self, fingerprint: str) -> str:
        """The view as the ledger keeps it: JSON text that :func:`read_definition` reads."""
        steps = self.steps
        stream = {
            "name": self.name,
            "steps": steps.count,
            "period": asdict(steps.period),
            "start": steps.start.isoformat(),
            "zone": steps.zone,
            "window": self.window,
            "factoring": self.factoring.value,
            "buffers": self.buffers,
            "parameters": asdict(self.parameters),
            "fingerprint": fingerprint,
        }
        return json.dumps({"statement": self.text, "stream": stream}, sort_keys=True)


def read_definition(record: str) -> tuple[ViewDefinition, str]:
    """The view in a ledger's record, and the fingerprint of its plan.

    Raises ``LedgerError`` (``ledger_corrupt``) for what no view was written as.
    """
    try:
        found = json.loads(record)
        stream = found["stream"]
        steps = ViewSteps(
            Period(**stream["period"]),
            datetime.fromisoformat(stream["start"]),
            stream["steps"],
            stream["zone"],
        )
        names = {field.name for field in fields(Parameters)}
        given = {k: v for k, v in stream["parameters"].items() if k in names}
        buffers = stream["buffers"]
        definition = ViewDefinition(
            stream["name"],
            found["statement"],
            steps,
            stream["window"],
            Factoring(stream["factoring"]),
            Parameters(**given),
            None if buffers is None else (tuple(buffers[0]), tuple(buffers[1])),
        )
        return definition, str(stream["fingerprint"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, ParameterError):
        raise LedgerError(
            "the ledger holds a view that cannot be read",
            code="ledger_corrupt",
            hint="run `dpsql budget verify`, and restore the ledger from a backup",
        ) from None


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The options of CREATE MATERIALIZED VIEW … WITH (…), apart from privacy parameters."""

    period: Period
    start: datetime
    count: int
    window: int | None
    factoring: Factoring


def read_options(given: Mapping[str, object]) -> tuple[ViewOptions, dict[str, object]]:
    """The options of a new view, and those of them that are privacy parameters.

    Raises ``ParameterError``: ``view_option_unknown``, ``view_option_missing``, ``bad_period``,
    ``bad_time``, ``bad_steps``, ``bad_window``, ``unknown_factorisation``.
    """
    options = dict(given)
    privacy = {name: options.pop(name) for name in PARAMETER_NAMES if name in options}
    known = {name: options.pop(name, None) for name in _OPTIONS}
    if options:
        raise ParameterError(
            f"a view has no option {next(iter(options))[:60]}",
            code="view_option_unknown",
            hint=f"Options: {', '.join([*_OPTIONS, *PARAMETER_NAMES])}.",
        )
    for name in ("step", "start"):
        if known[name] is None:
            raise ParameterError(
                f"the view needs the option {name}",
                code="view_option_missing",
                hint="Write WITH (step = '1 day', start = '2026-01-01', steps = 365).",
            )
    period = Period.read(_text("step", known["step"]), "step")
    count = DEFAULT_STEPS if known["steps"] is None else known["steps"]
    if type(count) is not int:
        raise ParameterError("steps must be a whole number", code="bad_steps")
    return ViewOptions(
        period,
        read_wall_time("start", _text("start", known["start"])),
        count,
        _window(known["window"], period, count),
        _factoring(known["continual"]),
    ), privacy


def _window(given: object, period: Period, count: int) -> int | None:
    if given is None:
        return None
    steps = period.times_in(Period.read(_text("window", given), "window"))
    if steps is None or not 1 <= steps <= count:
        raise ParameterError(
            "window must be a whole number of steps, and no more of them than the view has",
            code="bad_window",
            hint=f"A step is {period}, and there are {count:,}.",
        )
    return steps


def _factoring(given: object) -> Factoring:
    try:
        return Factoring.TOEPLITZ if given is None else Factoring(_text("continual", given).lower())
    except ValueError:
        raise ParameterError(
            f"there is no factorisation {_text('continual', given)[:40]!r}",
            code="unknown_factorisation",
            hint=f"Write continual = one of: {', '.join(Factoring)}.",
        ) from None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ParameterError(
            f"{name} must be a text", code="bad_view_option", hint=f"Write {name} = '…', in quotes."
        )
    return value


_OPTIONS: Final = ("step", "start", "steps", "window", "continual")
