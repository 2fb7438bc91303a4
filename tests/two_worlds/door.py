"""The door from exact to released, where the second world is given what the first one released.

A stream of noise that both worlds shared would drift apart at the first group that only one of them
has. So the follower draws, too, for what drawing does besides, and then gets the leader's release.
Where the release names groups by row numbers of the exact rows, the follower gets other numbers in
another order: what depends on them depends on rows.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpsql.core.quoting import ROW_ID
from dpsql.ir.plan import PreparedBlock
from dpsql.kinds.released import ReleasedBlock, ReleasedRows
from dpsql.pipeline import purchase
from dpsql.views import views

from . import tape as tapes

DOORS = (
    (purchase, "release_block"),
    (purchase, "release_estimate"),
    (purchase, "release_bounds"),
    (views, "draw_step"),
)
"""All functions through which exact values become released ones."""


@dataclass(frozen=True, slots=True)
class Passed:
    """One release: through which door, of what (as public text), and what came out."""

    door: str
    plan: str
    released: Any
    exact: Any


@dataclass
class Door:
    """What the leader released and the follower has not been given yet.

    ``watchers`` are told of each release, by its door, its arguments and what was drawn. ``look``
    keeps what is exact of one side, and ``compare`` says what is wrong with that of both.
    """

    waiting: deque[Passed] = field(default_factory=deque)
    problems: list[str] = field(default_factory=list)
    leading: bool = True
    counted: Counter[str] = field(default_factory=Counter)
    watchers: list[Callable[[str, tuple[Any, ...], Any], None]] = field(default_factory=list)
    look: Callable[[str, tuple[Any, ...]], Any] = lambda name, arguments: None
    compare: Callable[[str, Any, Any, Any], Iterator[str]] = lambda *_: iter(())


_door: Door | None = None


@contextlib.contextmanager
def at(door: Door) -> Iterator[None]:
    """Let releases go through a door, while inside."""
    global _door
    before, _door = _door, door
    try:
        yield
    finally:
        _door = before


@contextlib.contextmanager
def replaced() -> Iterator[None]:
    """Put the door in the place of the product's own functions, which it calls."""
    originals = [(module, name, getattr(module, name)) for module, name in DOORS]
    for module, name, original in originals:
        setattr(module, name, _through(name, original))
    try:
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


def _through(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Watchers are told of what comes out on each side, which is the leader's on both."""

    def watched(*arguments: Any, **named: Any) -> Any:
        released = pass_door(*arguments, **named)
        if _door is not None and tapes.current() is not None:
            for watch in _door.watchers:
                watch(name, arguments, released)
        return released

    def pass_door(*arguments: Any, **named: Any) -> Any:
        door, tape = _door, tapes.current()
        if door is None or tape is None:
            return original(*arguments, **named)
        tape.words.clear()
        tape.depth += 1
        try:
            exact = door.look(name, arguments)
            drawn = original(*arguments, **named)
            door.counted[name] += 1
        finally:
            tape.depth -= 1
        plan = _public(arguments[0])
        if door.leading:
            door.waiting.append(Passed(name, plan, _kept(drawn), exact))
            return drawn
        if not door.waiting:
            door.problems.append(f"{name}: one world releases and the other does not")
            return drawn
        passed = door.waiting.popleft()
        if (passed.door, passed.plan) != (name, plan):
            door.problems.append(f"{name}: the worlds release by other plans")
            return drawn
        for problem in door.compare(name, arguments[0], passed.exact, exact):
            door.problems.append(problem)
        return _given(passed.released, arguments[0])

    return watched


def _public(planned: Any) -> str:
    """What a release is of, without the salt of a statement that is only shown."""
    return repr(planned.plan if isinstance(planned, PreparedBlock) else planned)


def _kept(drawn: Any) -> Any:
    """A release as it can be given again: streams of keys become tables."""
    if not isinstance(drawn, ReleasedBlock):
        return drawn
    rows = drawn.rows
    if rows.keys is None or isinstance(rows.keys, dict):
        return drawn
    keys = pa.table(rows.keys)
    # The leader goes on with the keys of all groups that were read, the follower without the
    # others: nothing may read them.
    object.__setattr__(rows, "keys", keys)
    named = pa.compute.is_in(keys[ROW_ID], value_set=pa.array(rows.row_ids))
    return replace(drawn, rows=replace(rows, keys=keys.filter(named)))


def _given(released: Any, mine: Any) -> Any:
    """The leader's release as one of the follower's."""
    if not isinstance(released, ReleasedBlock):
        return released
    return ReleasedBlock(mine, _renumbered(released.rows), released.noise)


def _renumbered(rows: ReleasedRows) -> ReleasedRows:
    """The same groups under other row numbers, in another order."""
    if rows.keys is None:  # positions in a declared domain, which is public
        return rows
    order = np.random.default_rng(rows.count).permutation(rows.count)
    numbers = 1 + 3 * np.arange(rows.count, dtype=np.int64)
    values = {name: column[order] for name, column in rows.values.items()}
    if isinstance(rows.keys, dict):
        keys: Any = {name: column[order] for name, column in rows.keys.items()}
    else:
        table = pa.table(rows.keys)
        new = dict(zip(rows.row_ids[order].tolist(), numbers.tolist(), strict=True))
        ids = pa.array([new[number] for number in table[ROW_ID].to_pylist()], pa.int64())
        place = table.column_names.index(ROW_ID)
        keys = table.set_column(place, ROW_ID, ids.cast(table.schema.field(place).type))
    return ReleasedRows(numbers, keys, values, rows.loss)
