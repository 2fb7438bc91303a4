"""The definition of a materialized view: query, steps, spread of noise, and price.

All of it is public. It is written down once, when the view is created, and never changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final

from dpsql.accuracy.wording import printable_name
from dpsql.core.formatting import several
from dpsql.core.periods import Period
from dpsql.errors import LedgerError, ParameterError
from dpsql.ir.query import Block, BoundsFound, UnboundedValue, range_text
from dpsql.policy.parameters import PARAMETER_NAMES, USUAL_VALUES, Parameters
from dpsql.privacy.accounting.zcdp import NO_CHARGE, Amount
from dpsql.privacy.mechanisms.bounds_choice import NONE, FoundBounds
from dpsql.privacy.streams.factorisation import MAX_STEPS
from dpsql.privacy.streams.topk import doubling_steps
from dpsql.views.steps import ViewSteps, read_wall_time

DEFAULT_STEPS: Final = 1_000
"""Steps of a view that does not say how many: ten times as many cost a tenth more noise."""


class Factoring(StrEnum):
    """How the noise of all steps is factored. TOEPLITZ adds the least of it."""

    TOEPLITZ = "toeplitz"  # the square root of the running sum
    TREE = "tree"  # partial sums in a tree of the best base
    HONAKER = "honaker"  # a binary tree, each node estimated from all below it
    BLT = "blt"  # a few buffers: hardly more noise, and a state that does not grow


class ContinualMechanism(StrEnum):
    """A mechanism of views that can be named where the query does not decide it."""

    BASE_MECH = "base_mech"  # one running count, by a tree
    KNOWN_BASE = "known_base"  # those of declared keys
    UNK_BASE = "unk_base"  # those of unknown keys, above a threshold
    SCHEDULED_TOP_K = "scheduled_top_k"  # the k largest groups, chosen at public steps
    SPARSE_GUMB = "sparse_gumb"  # chosen anew once another group has grown above them
    META_ALGO = "meta_algo"  # a single publication of every cell of a tree


class UnitSteps(StrEnum):
    """The steps at which a unit may contribute to a view with chosen groups."""

    FIRST = "first step"  # the one that first reads rows of it, with all of its groups
    EVERY = "every step"  # within what it may add to each group over all of them


@dataclass(frozen=True, slots=True)
class ChoiceOptions:
    """The options on how a view chooses its listed groups.

    ``schedule`` are the steps at which it chooses, increasing. ``switches`` is how often it may
    choose anew, and ``margin`` how far another group must have grown above, in counts.
    """

    schedule: tuple[int, ...] | None = None
    switches: int | None = None
    margin: int | None = None
    unit_steps: UnitSteps | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the options that were given."""
        values = (self.schedule, self.switches, self.margin, self.unit_steps)
        return tuple(n for n, v in zip(CHOICE_OPTIONS, values, strict=True) if v is not None)


@dataclass(frozen=True, slots=True)
class DrawnBounds:
    """Contribution bounds of a unit that were drawn when a view was created, None where given.

    ``values`` are those of values without declared bounds, in their order. ``NONE`` is drawn where
    too few units have rows, and 0 to 0 where too few have values: then the view has the usual ones.
    ``share`` is the part of its price that the draws had, and ``charged`` what they cost beside it.
    """

    rows: int | None
    groups: int | None
    share: float
    values: tuple[tuple[float, float], ...] = ()
    charged: Amount = NO_CHARGE

    def told(self, values: Iterable[UnboundedValue]) -> BoundsFound:
        """Mark which of the ``values`` of a view, and of its bounds, rows have told."""
        # Fewer where the policy declares bounds by now: the fingerprint says whether others.
        pairs = zip(values, self.values, strict=False)
        marked = tuple(replace(value, usual=not any(drawn)) for value, drawn in pairs)
        return BoundsFound(bool(self.rows), bool(self.groups), values=marked, known=True)


@dataclass(frozen=True, slots=True)
class ViewBounds:
    """Bounds of a view in words, and whether its rows told them."""

    words: str
    told: bool


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view as it was created: ``text`` is its SELECT, ``name`` as it was written.

    ``window`` is the number of steps that a value covers, None for all since the start.
    ``buffers`` are the decays and weights of a BLT factorisation: an optimiser may find others
    another time, and the noise of a view must stay what it was. ``parameters`` are all that were in
    force when it was paid for, wherever they were given. ``mechanism`` is the one that was
    asked for by name, None where the query decides, and ``choices`` belongs to it. ``drawn`` says
    which bounds in the parameters were found privately.
    """

    name: str
    text: str
    steps: ViewSteps
    window: int | None
    factoring: Factoring
    parameters: Parameters
    buffers: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    mechanism: ContinualMechanism | None = None
    choices: ChoiceOptions = ChoiceOptions()
    drawn: DrawnBounds | None = None

    @property
    def bounds(self) -> FoundBounds:
        """The bounds that nobody gave, as they hold: those of units are in the parameters."""
        drawn, parameters = self.drawn, self.parameters
        if drawn is None:
            return FoundBounds()
        return FoundBounds(
            None if drawn.rows is None else parameters.rows_limit,
            None if drawn.groups is None else parameters.groups_limit,
            tuple(each if any(each) else USUAL_VALUES for each in drawn.values),
        )

    @property
    def found_bounds(self) -> str | None:
        """The bounds that nobody gave in words; None without any."""
        named = (("rows", self.bounds.rows), ("groups", self.bounds.groups))
        words = [f"{name} {n:,}" for name, n in named if n is not None]
        words += [f"values {range_text(each)}" for each in self.bounds.values]
        return ", ".join(words) or None

    def bounds_in_words(self, block: Block) -> Iterator[ViewBounds]:
        """Name the bounds that nobody gave, in the ``block`` of the view."""
        drawn, bounds, found = self.drawn, self.bounds, block.bounds_found
        if drawn is None or found is None:
            return
        for value in found.values:
            words = f"clamps {printable_name(value.text)} to {value.range}"
            yield ViewBounds(words, not (value.usual or value.closest))
        if bounds.rows is None and bounds.groups is None:
            return
        parts = [f"each {block.unit_name}"]
        if bounds.rows is not None:
            parts.insert(0, f"at most {several(bounds.rows, 'row')} of")
        if bounds.groups is not None:
            parts.append(f"in at most {several(bounds.groups, 'group')}")
        words = f"counts {' '.join(parts)}, over all of its steps"
        yield ViewBounds(words, NONE not in (drawn.rows, drawn.groups))

    def record(self, fingerprint: str) -> str:
        """Write the view as the ledger keeps it: JSON text that :func:`read_definition` reads."""
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
            "parameters": self._parameters(),
            "fingerprint": fingerprint,
            "mechanism": self.mechanism,
            "choices": asdict(self.choices),
            "drawn": None,
        }
        if self.drawn is not None:  # who reads the view is shown them, too
            drawn = asdict(self.drawn)
            del drawn["charged"]
            stream |= {"drawn": drawn, "beside": self.drawn.charged.units}
        return json.dumps({"statement": self.text, "stream": stream}, sort_keys=True)

    def _parameters(self) -> dict[str, object]:
        """Return the parameters to keep: all but the maximum age, as a view's rows have steps."""
        kept = self.parameters.with_usual_numbers
        return {name: getattr(kept, name) for name in PARAMETER_NAMES if name != "max_age"}


def read_definition(record: str) -> tuple[ViewDefinition, str]:
    """Read the view in a ledger's record, and the fingerprint of its plan.

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
        buffers, mechanism = stream["buffers"], stream["mechanism"]
        drawn = stream["drawn"]
        definition = ViewDefinition(
            stream["name"],
            found["statement"],
            steps,
            stream["window"],
            Factoring(stream["factoring"]),
            Parameters(**stream["parameters"], given=frozenset(PARAMETER_NAMES)),
            None if buffers is None else (tuple(buffers[0]), tuple(buffers[1])),
            None if mechanism is None else ContinualMechanism(mechanism),
            _read_choices(**stream["choices"]),
            None if drawn is None else _read_drawn(stream.get("beside", ()), **drawn),
        )
        return definition, str(stream["fingerprint"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, ParameterError):
        raise LedgerError(
            "the ledger holds a view that cannot be read",
            code="ledger_corrupt",
            hint="run `dpsql budget verify`, and restore the ledger from a backup",
        ) from None


def _read_drawn(
    charged: Iterable[int],
    rows: int | None,
    groups: int | None,
    share: float,
    values: Iterable[tuple[float, float]] = (),
) -> DrawnBounds:
    bounds = tuple((float(lower), float(upper)) for lower, upper in values)
    return DrawnBounds(rows, groups, share, bounds, Amount(*charged))


def _read_choices(
    schedule: list[int] | None, switches: int | None, margin: int | None, unit_steps: str | None
) -> ChoiceOptions:
    return ChoiceOptions(
        None if schedule is None else tuple(schedule),
        switches,
        margin,
        None if unit_steps is None else UnitSteps(unit_steps),
    )


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The options of CREATE MATERIALIZED VIEW … WITH (…), apart from privacy parameters."""

    period: Period
    start: datetime
    count: int
    window: int | None
    factoring: Factoring
    mechanism: ContinualMechanism | None
    choices: ChoiceOptions


def read_options(given: Mapping[str, object]) -> tuple[ViewOptions, dict[str, object]]:
    """Read the options of a new view, and separate its privacy parameters.

    Raises ``ParameterError``: ``view_option_unknown``, ``view_option_missing``, ``bad_period``,
    ``bad_time``, ``bad_steps``, ``bad_window``, ``bad_view_option``, ``unknown_factorisation``.
    """
    options = dict(given)
    if "max_age" in options:
        raise ParameterError(
            "a view has no option max_age: its rows say of which step they are",
            code="view_option_unknown",
            hint="Leave it out. REFRESH publishes the steps that have closed since.",
        )
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
        *_continual(known["continual"]),
        ChoiceOptions(
            _schedule(known["schedule"], period, count),
            _whole("switches", known["switches"], MAX_STEPS),
            _whole("margin", known["margin"], _MAX_MARGIN),
            _unit_steps(known["unit_contributes"]),
        ),
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


def _continual(given: object) -> tuple[Factoring, ContinualMechanism | None]:
    """Tell how noise is factored and which mechanism is asked for: ``continual`` names either."""
    if given is None:
        return Factoring.TOEPLITZ, None
    text = _text("continual", given).lower()
    if text in tuple(Factoring):
        return Factoring(text), None
    if text in tuple(ContinualMechanism):
        found = ContinualMechanism(text)
        return (Factoring.TREE if found in _OF_TREES else Factoring.TOEPLITZ), found
    raise ParameterError(
        f"there is no factorisation {text[:40]!r}, and no mechanism of that name",
        code="unknown_factorisation",
        hint=f"Write continual = one of: {', '.join([*Factoring, *ContinualMechanism])}.",
    )


def _schedule(given: object, period: Period, count: int) -> tuple[int, ...] | None:
    """Read the steps of a schedule: doubling ones, one per period, or a list."""
    if given is None or not 1 <= count <= MAX_STEPS:  # such a count is refused with the steps
        return None
    text = _text("schedule", given).strip().lower()
    if text == DOUBLING:
        return doubling_steps(count)
    if _LISTED.fullmatch(text):
        listed = tuple(map(int, text.split(",")))
        if all(a < b for a, b in pairwise((0, *listed, count + 1))):
            return listed
        raise _bad_schedule(f"The steps listed must increase, from 1 to {count:,} at most.")
    every = period.times_in(Period.read(text, "schedule"))
    if every is None or every < 1:
        raise _bad_schedule(f"A step is {period}: the schedule must be a whole number of them.")
    return tuple(range(1, count + 1, every))


def _bad_schedule(hint: str) -> ParameterError:
    return ParameterError(
        "the schedule does not say at which steps groups are chosen",
        code="bad_view_option",
        hint=f"{hint} Write '{DOUBLING}', a period such as '7 days', or steps such as '1, 7, 30'.",
    )


def _unit_steps(given: object) -> UnitSteps | None:
    if given is None:
        return None
    text = _text("unit_contributes", given).strip().lower()
    if text not in tuple(UnitSteps):
        raise ParameterError(
            f"unit_contributes cannot be {text[:40]!r}",
            code="bad_view_option",
            hint=f"Write unit_contributes = one of: {', '.join(map(repr, map(str, UnitSteps)))}.",
        )
    return UnitSteps(text)


def _whole(name: str, given: object, most: int) -> int | None:
    if given is None:
        return None
    if type(given) is not int or not 0 <= given <= most:
        raise ParameterError(
            f"{name} must be a whole number from 0 to {most:,}", code="bad_view_option"
        )
    return given


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ParameterError(
            f"{name} must be a text", code="bad_view_option", hint=f"Write {name} = '…', in quotes."
        )
    return value


CHOICE_OPTIONS: Final = ("schedule", "switches", "margin", "unit_contributes")
"""The options of views that choose the groups they list."""
DOUBLING: Final = "doubling"
"""The schedule that chooses at the steps 1, 2, 4 and so on."""

_OPTIONS: Final = ("step", "start", "steps", "window", "continual", *CHOICE_OPTIONS)
_MAX_MARGIN: Final = 10**12
_LISTED: Final = re.compile(r"\s*\d{1,9}\s*(,\s*\d{1,9}\s*){0,9999}")
_OF_TREES: Final = (
    ContinualMechanism.BASE_MECH,
    ContinualMechanism.KNOWN_BASE,
    ContinualMechanism.UNK_BASE,
    ContinualMechanism.META_ALGO,
)
