# ruff: noqa: E501
"""What must hold for every statement, on both databases; what does not is a finding.

| net | what |
|---|---|
| totality | no statement that was accepted fails in the engine, whatever the rows hold |
| ranges | the same of what dpsql generates around the analyst's expressions: no sum leaves its type |
| sensitivity | exact rows move within what the plan declares, in at most the declared groups |
| names | a key that one unit shows changes no spelling of other groups; names mean what they say |
| schema | columns, types and refusals are the same on both databases |
| cost | plan, reservation and price are the same on both |
| leak | no value of a row in any text that is not an answer |
| exception | errors are dpsql's own |
| time | planning takes no more than a second of CPU |
"""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from helpers.sensitivity import Difference, choice_moves_beyond

import dpsql
from dpsql.ir.plan import BlockPlan, OpenBounds
from dpsql.kinds.cascade import CascadeKind
from dpsql.kinds.union import UnionKind
from dpsql.pipeline.prepare import Prepared
from dpsql.privacy.mechanisms.greedy_union import GreedySetUnion
from dpsql.privacy.mechanisms.set_union import SetUnion
from dpsql.privacy.mechanisms.set_union_weights import UNIT_WEIGHT_STEPS
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS, weight_of

from . import seams
from .grammar import Statement
from .values import MARKS
from .world import Pair

SECONDS = 1.0
"""Of CPU, to plan a statement."""
PATIENCE = 20.0
"""Of a clock, to read both databases once; what takes longer is stopped and no finding."""
_SELECTS = re.compile(r"\s*(\(|select\b|with\b|from\b)", re.IGNORECASE)
_SALT = re.compile(r"\d{12,}")
_LISTING = re.compile(r"\s*(explain|describe|desc|show|set|reset)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A net that did not hold."""

    net: str
    detail: str
    place: str = ""

    @property
    def signature(self) -> str:
        """What findings of one hole have in common."""
        detail = re.sub(r"'[^']*'|\"[^\"]*\"|[-+]?\d[\d.e+]*", "#", self.detail)
        return f"{self.net}: {detail[:110]}"


@dataclass
class Outcome:
    """What became of a statement: ``answered``, ``refused``, ``told`` or ``stopped``."""

    kind: str
    code: str = ""
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    prepared: Prepared | None = None


@dataclass(frozen=True, slots=True)
class _Said:
    """What one side made of a statement."""

    prepared: Prepared | None
    text: str
    code: str
    seconds: float
    raw: str = ""


class Watch:
    """Stops what takes too long; one thread for all statements."""

    def __init__(self) -> None:
        self._deadline: float | None = None
        self._stop: Callable[[], None] = lambda: None
        self._closed = False
        self.stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def start(self, stop: Callable[[], None]) -> None:
        """Begin to wait."""
        self._stop, self.stopped, self._deadline = stop, False, time.monotonic() + PATIENCE

    def end(self) -> None:
        """The work is done."""
        self._deadline = None

    def _run(self) -> None:
        while True:
            time.sleep(0.25)
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline:
                self.stopped = True
                self._stop()


WATCH = Watch()


def examine(pair: Pair, statement: Statement) -> Outcome:
    """Plan and read a statement on both databases, and hold every net below it."""
    if _LISTING.match(statement.text):
        return _told(pair, statement)
    sides = [_said(connection, statement) for connection in pair.sides]
    without, with_unit = sides
    outcome = Outcome("refused", with_unit.code, max(s.seconds for s in sides))
    found = outcome.findings
    found += _texts(sides)
    if outcome.seconds > SECONDS:  # once more, as whoever collects garbage may do so at any time
        for connection in pair.sides:
            seams.forget(connection)
        outcome.seconds = max(_said(connection, statement).seconds for connection in pair.sides)
    if outcome.seconds > SECONDS:
        found.append(Finding("time", f"planned in {outcome.seconds:.1f} s of CPU"))
    if without.prepared is None or with_unit.prepared is None:
        if without.text != with_unit.text:
            found.append(Finding("schema", f"refused differently: {without.code} {with_unit.code}"))
        return outcome
    outcome.kind, outcome.code, outcome.prepared = "answered", "", with_unit.prepared
    found += _same_plan(without.prepared, with_unit.prepared)
    if without.prepared.plan.blocks and not any(f.net == "cost" for f in found):
        stop = [c.interrupt for c in pair.sides]
        WATCH.start(lambda: call_all(stop))
        try:
            found += _read(pair, without.prepared, with_unit.prepared)
        finally:
            WATCH.end()
        if WATCH.stopped:
            outcome.kind, outcome.findings = "stopped", []
    return outcome


def _said(connection: dpsql.Connection, statement: Statement) -> _Said:
    began = time.process_time()
    try:
        prepared = seams.prepare(connection, statement.text, statement.values, statement.parameters)
    except dpsql.Error as error:
        seconds = time.process_time() - began
        raw = "" if not isinstance(error, dpsql.EngineError) else "the engine failed in planning"
        text = f"{type(error).__name__} {error}"
        return _Said(None, text, error.code, seconds, raw)
    except Exception as error:  # noqa: BLE001
        seconds = time.process_time() - began
        last = traceback.extract_tb(error.__traceback__)[-1]
        inside = [f for f in traceback.extract_tb(error.__traceback__) if "/dpsql/" in f.filename]
        where = (
            f"{inside[-1].filename.rpartition('/dpsql/')[2]}:{inside[-1].name}"
            if inside
            else last.name
        )
        text = f"{type(error).__name__}: {str(error)[:100]}"
        return _Said(None, text, "raw", seconds, f"{type(error).__name__} in {where}")
    return _Said(prepared, "", "", time.process_time() - began)


def _texts(sides: list[_Said]) -> Iterator[Finding]:
    """Raw exceptions, and values of rows in what is said."""
    for side in sides:
        if side.raw:
            yield Finding("exception", side.raw, side.text[:200])
            break
    for side in sides:
        for mark in MARKS:
            if mark in side.text:
                yield Finding("leak", f"a value of a row in {side.code}", side.text[:200])
                return


def call_all(stops: Iterable[Callable[[], None]]) -> None:
    """Call each of several."""
    for stop in stops:
        stop()


def _key_types(side: Prepared) -> list[object]:
    return [block.keys for block in side.blocks]


def _same_plan(one: Prepared, other: Prepared) -> Iterator[Finding]:
    shapes: tuple[tuple[str, object, object], ...] = (
        ("names", one.names, other.names),
        ("key types", _key_types(one), _key_types(other)),
        ("tail", one.query.tail, other.query.tail),
    )
    for name, left, right in shapes:
        if left != right:
            yield Finding("schema", f"{name} differ: {left} and {right}"[:160])
            return
    costs: tuple[tuple[str, object, object], ...] = (
        ("reservation", one.plan.reserved, other.plan.reserved),
        ("fingerprint", one.fingerprint, other.fingerprint),
    )
    for name, left, right in costs:
        if left != right:
            yield Finding("cost", f"{name} differs")
            return
    if any(mark in repr(one.names) + one.query.tail for mark in MARKS):
        yield Finding("leak", "a value of a row in names or tail")


# -- exact rows -----------------------------------------------------------------------------------


def _read(pair: Pair, one: Prepared, other: Prepared) -> Iterator[Finding]:
    for block, _ in zip(one.blocks, other.blocks, strict=True):
        for choice in block.open_bounds:
            yield from _choice_moves(pair, choice)
        plan, keys = block.plan, block.keys
        statement = seams.statement_of(plan)
        found = []
        for connection in pair.sides:
            # Rows leave the product another way than here; a third of them goes it as well.
            if len(statement) % 3 == 0:
                failed = _fails(connection, plan, statement, keys)
                if failed:
                    yield from _failure(pair, failed, statement)
                    return
            try:
                found.append(seams.rows(connection, plan, statement, keys))
            except Exception:  # noqa: BLE001
                failed = _fails(connection, plan, statement, keys)
                if failed:
                    yield from _failure(pair, failed, statement)
                    return
        if len(found) < 2:
            continue  # keys that cannot be cast to text, and were read: no hole
        moved = _moves(plan, found[0], found[1])
        named = pair.world.name in ("macros", "collations")
        yield from (replace(f, net="names") if named else f for f in moved)


def _choice_moves(pair: Pair, choice: OpenBounds) -> Iterator[Finding]:
    """What one unit adds to the weights that bounds are drawn from."""
    found = []
    for connection in pair.sides:
        try:
            found.append(seams.weights(connection, choice))
        except Exception as error:  # noqa: BLE001
            code = error.code if isinstance(error, dpsql.Error) else type(error).__name__
            yield from _failure(pair, code, str(choice.text))
            return
    if choice_moves_beyond(choice.choice, *found):
        yield Finding("sensitivity", "weights of a bound move by more than one unit's")


def _fails(connection: dpsql.Connection, plan: BlockPlan, statement: str, keys: Any) -> str:
    try:
        seams.exact(connection, plan, statement, keys)
    except dpsql.Error as error:
        return error.code
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {str(error)[:80]}"
    return ""


def _failure(pair: Pair, failed: str, statement: str) -> Iterator[Finding]:
    if WATCH.stopped:
        return
    messages = [seams.engine_message(c, statement) for c in pair.sides]
    sound = [message == seams.RUNS for message in messages]
    message = messages[1] if sound[0] or not sound[1] else messages[0]
    where = {(False, False): "on both sides", (True, False): "with the unit only"}.get(
        (sound[0], sound[1]), "on the way out" if all(sound) else "without the unit only"
    )
    generated = re.search(r"[Oo]verflow|out of range|sum is out", message) is not None
    net = "ranges" if generated and "TRY" not in message else "totality"
    if pair.world.name == "macros":
        net = "names"
    if ":" in failed:
        net, message = "exception", failed
    for mark in MARKS:
        message = message.replace(mark, "…")
    yield Finding(net, f"fails {where}: {message}"[:220])


def _moves(plan: BlockPlan, without: list[Any], with_unit: list[Any]) -> Iterator[Finding]:
    if UnionKind.fits(plan):
        problems = list(_union_moves(plan, UnionKind(plan).union, without, with_unit))
    elif CascadeKind.fits(plan):
        problems = list(_weights_move(plan, without, with_unit))
    elif plan.quantiles:
        problems = list(_points_move(plan, without, with_unit))
    else:
        problems = _groups_move(plan, without, with_unit)
    if problems:
        yield Finding("sensitivity", problems[0][:200], f"{len(problems)} violations")


def _weights_move(plan: BlockPlan, without: list[Any], with_unit: list[Any]) -> Iterator[str]:
    """The weights of a cascade's first round, and those of groups that come with the unit."""
    one, other = ({tuple(r[1:-2]): int(r[-2]) for r in rows} for rows in (without, with_unit))
    if len(one) < len(without) or len(other) < len(with_unit):
        yield "a group appears twice"
    squares = sum((other.get(key, 0) - one.get(key, 0)) ** 2 for key in one.keys() | other.keys())
    if squares > WEIGHT_STEPS**2:
        yield f"weights move by {squares**0.5 / WEIGHT_STEPS} in l2"
    floor = plan.block.parameters.min_units_per_group - 1
    may = [{tuple(r[1:-2]) for r in rows if r[-1]} for rows in (without, with_unit)]
    fresh = may[0] ^ may[1]
    most = floor * WEIGHT_STEPS + weight_of(1, max(1, len(fresh)))
    if any((one | other)[key] > most for key in fresh):
        yield "a group comes with more than its own weight"


def _groups_move(plan: BlockPlan, without: list[Any], with_unit: list[Any]) -> list[str]:
    groups = [_groups(plan, rows) for rows in (without, with_unit)]
    if groups[0] is None or groups[1] is None:
        return ["a group appears twice"]
    return Difference(groups[0], groups[1]).violations(plan)


def _groups(plan: BlockPlan, rows: list[Any]) -> dict[Any, tuple[int, ...]] | None:
    keys = len(plan.block.keys)
    measures = len(plan.measures)
    found: dict[Any, tuple[int, ...]] = {}
    for _, *row in rows:
        key = tuple(row[:keys])
        if key in found:
            return None
        found[key] = tuple(int(value or 0) for value in row[keys : keys + measures])
    return found


def _points_move(plan: BlockPlan, without: list[Any], with_unit: list[Any]) -> Iterator[str]:
    """Groups of the measures as ever; of each list of points, those that one unit adds or takes."""
    yield from _groups_move(plan, without, with_unit)
    keys, measures = len(plan.block.keys), len(plan.measures)
    most = plan.block.parameters.max_rows_contributed
    floor = plan.block.parameters.min_units_per_group > 1 and not plan.declared
    tables = [
        {tuple(row[1 : 1 + keys]): row[1 + keys + measures :] for row in rows}
        for rows in (without, with_unit)
    ]
    for key in tables[0].keys() | tables[1].keys():
        if floor and (key in tables[0]) != (key in tables[1]):
            continue
        lists = zip(tables[0].get(key) or [()] * 9, tables[1].get(key) or [()] * 9, strict=False)
        for before, after in lists:
            one, other = dict(before or ()), dict(after or ())
            changes = [other.get(p, 0) - one.get(p, 0) for p in one.keys() | other.keys()]
            added = sum(c for c in changes if c > 0)
            taken = -sum(c for c in changes if c < 0)
            if taken:
                yield f"{taken} rows of other units vanish"
            if added > most:
                yield f"{added} rows are added, more than {most}"


def _union_moves(
    plan: BlockPlan, union: SetUnion | GreedySetUnion, without: list[Any], with_unit: list[Any]
) -> Iterator[str]:
    if not union.in_sequence:
        tables = [{tuple(row[1:-1]): int(row[-1]) for row in rows} for rows in (without, with_unit)]
        if any(len(t) != len(r) for t, r in zip(tables, (without, with_unit), strict=True)):
            yield "a key appears twice"
        change = [tables[1].get(k, 0) - tables[0].get(k, 0) for k in tables[0] | tables[1]]
        distance = sum(map(abs, change)) if union.norm == 1 else sum(c * c for c in change) ** 0.5
        if distance > union.sensitivity:
            yield f"weights move by {distance / UNIT_WEIGHT_STEPS}"
        return
    short, full = (_passes(rows) for rows in (without, with_unit))
    if max(map(len, full), default=0) > union.groups:
        yield "a unit has too many keys"
    if short != full and short not in (full[:i] + full[i + 1 :] for i in range(len(full))):
        yield "other units, or their order, or that of their keys, changed"


def _passes(rows: list[Any]) -> list[tuple[Any, ...]]:
    units: dict[int, list[Any]] = {}
    for row in rows:
        units.setdefault(row[-1], []).append(tuple(row[1:-1]))
    return [tuple(units[position]) for position in sorted(units)]


# -- statements beside SELECT ---------------------------------------------------------------------


def _told(pair: Pair, statement: Statement) -> Outcome:
    """EXPLAIN, DESCRIBE, SHOW, SET: the same on both sides, and without values of rows."""
    heard, began = [], time.process_time()
    outcome = Outcome("told")
    for connection in pair.sides:
        try:
            result = connection.sql(statement.text)
            told = repr((result.columns, result.types, result.fetchall()))
            heard.append(_SALT.sub("…", told))
        except dpsql.Error as error:
            outcome.kind, outcome.code = "refused", error.code
            heard.append(f"{type(error).__name__} {error}")
        except Exception as error:  # noqa: BLE001
            found = Finding("exception", f"{type(error).__name__} in {statement.text[:30]}")
            outcome.findings.append(found)
            heard.append("raw")
        finally:
            connection._statements.reset()
    outcome.seconds = (time.process_time() - began) / 2
    if heard[0] != heard[1] and "BUDGET" not in statement.text:
        outcome.findings.append(Finding("schema", "told differently", heard[1][:200]))
    if any(mark in text for mark in MARKS for text in heard):
        outcome.findings.append(Finding("leak", f"a value of a row in {statement.text[:30]}"))
    return outcome
