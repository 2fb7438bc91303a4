"""The private state of a view: what each unit has contributed so far, and the key of its noise.

It lies in a DuckDB file of its own beside the owner's data, never in the ledger: whoever has it can
take all noise off the view. What it says decides, not the table: a contribution that was counted is
counted for good, and no unit contributes more over all steps than the view was calibrated for.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.continual.choices import KeptChoices
from dpsql.core.quoting import INTERNAL_PREFIX, quote
from dpsql.core.schema import Column
from dpsql.engines.base import ArrowStream
from dpsql.engines.deadline import Deadline
from dpsql.engines.duckdb import discreetly
from dpsql.errors import EngineError
from dpsql.mechanisms.continual.keyed import KEY_BYTES, StreamKey

UNIT: Final = f"{INTERNAL_PREFIX}unit"
"""The unit's column in a state and in the rows it absorbs."""
_VERSION: Final = 1
_MEMORY: Final = "4GB"
_COUNTED, _INCOMING, _ADDED, _STREAM = "counted", "incoming", "added", "__dpsql_stream"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one unit may contribute to one group over all steps, for one measure.

    ``reach`` bounds the sum of the sizes of its increments; where ``grows`` is set they are never
    negative.
    """

    name: str
    reach: int
    grows: bool


@dataclass(frozen=True, slots=True)
class StateShape:
    """The columns of a state: the unit's type, the keys, and what is contributed per measure.

    A unit contributes to at most ``groups`` groups over all steps, None for any number of them;
    with ``one_step`` at one step alone, the first that reads rows of it. ``window`` is the number
    of steps that a value covers, None for all of them. ``by_step`` keeps what each step added.
    """

    unit_type: str
    keys: tuple[Column, ...]
    contributions: tuple[Contribution, ...]
    groups: int | None
    window: int | None = None
    one_step: bool = False
    by_step: bool = False

    @property
    def key_names(self) -> list[str]:
        """The quoted names of the keys."""
        return [quote(key.name) for key in self.keys]


@dataclass(frozen=True, slots=True)
class Totals:
    """The exact values of a step, which never leave its publication.

    ``keys`` are the groups' keys as texts, by column; ``values`` each measure's, int64 of shape
    (groups,). Groups come in the order of their keys.
    """

    keys: list[list[str | None]]
    values: list[NDArray[np.int64]]


class ViewState:
    """An open state. One process at a time has it; use it as a context manager."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, shape: StateShape) -> None:
        self._connection = connection
        self._shape = shape
        (key,) = connection.execute("SELECT key FROM meta").fetchall()[0]
        self.key = StreamKey(bytes(key))
        """The key of the view's noise: a secret."""
        self.choices = KeptChoices(connection)
        """Which groups were chosen, and when."""

    @classmethod
    def create(cls, place: Path, stream: str, shape: StateShape) -> None:
        """Create the state of a new view, with a key from the operating system.

        Raises ``EngineError`` (``state_in_the_way``) if a file is there already, or cannot be made.
        """
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if place.exists():
            raise _unusable("there is a file in its place", "state_in_the_way")
        columns = [f"{UNIT} {shape.unit_type}", *(f"{quote(k.name)} {k.type}" for k in shape.keys)]
        numbers = [f"{quote(each.name)} BIGINT" for each in shape.contributions]
        spent = [f"{_spent(each)} BIGINT" for each in shape.contributions]
        with _discreet(), duckdb.connect(str(place)) as connection:
            os.chmod(place, 0o600)
            connection.execute("BEGIN")
            connection.execute(f"CREATE TABLE {_COUNTED} ({', '.join(columns + numbers + spent)})")
            steps = ", ".join(["step BIGINT", *columns[1:], *numbers])
            connection.execute(f"CREATE TABLE {_ADDED} ({steps})")
            connection.execute("CREATE TABLE meta (version INT, stream VARCHAR, key BLOB)")
            key = secrets.token_bytes(KEY_BYTES)
            connection.execute("INSERT INTO meta VALUES (?, ?, ?)", [_VERSION, stream, key])
            connection.execute("CREATE TABLE read (step BIGINT)")
            connection.execute("COMMIT")

    @staticmethod
    def remove(place: Path) -> None:
        """Delete a state, and what a process that was killed left of its last changes."""
        for name in (place.name, f"{place.name}.wal"):
            place.with_name(name).unlink(missing_ok=True)

    @classmethod
    @contextmanager
    def open(
        cls, place: Path, stream: str, shape: StateShape, memory: str | None = None
    ) -> Iterator[ViewState]:
        """The state of a view, while inside; ``memory`` is how much its statements may take.

        Raises ``EngineError``: ``state_missing``, ``state_of_another`` for another view's,
        ``state_busy`` while another process has it, ``state_damaged``.
        """
        if not place.is_file():
            raise _unusable("it is not there", "state_missing")
        try:
            connection = duckdb.connect(str(place), config={"memory_limit": memory or _MEMORY})
        except duckdb.IOException:
            raise _unusable("another process has it open", "state_busy") from None
        except duckdb.Error:
            raise _unusable("it is damaged", "state_damaged") from None
        with connection:
            try:
                found = connection.execute("SELECT version, stream FROM meta").fetchall()
            except duckdb.Error:
                raise _unusable("it is damaged", "state_damaged") from None
            if found != [(_VERSION, stream)]:
                raise _unusable("it belongs to another view", "state_of_another")
            yield cls(connection, shape)

    @property
    def read_steps(self) -> int:
        """The last step that was read into it; 0 before the first."""
        ((last,),) = self._connection.execute("SELECT coalesce(max(step), 0) FROM read").fetchall()
        return int(last)

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """End what is done inside, as if the engine had failed, once it took so long."""
        if seconds is None:
            yield
            return
        with Deadline(seconds, self._connection.interrupt):
            yield

    def absorb(self, step: int, rows: ArrowStream) -> None:
        """Count what is new in the rows of a step, for good.

        ``rows`` has the unit, the keys and, per measure, all that the unit has contributed to the
        group by the end of the step. Guarantee: over all steps a unit changes at most
        ``shape.groups`` groups, with ``shape.one_step`` at a single step, and each measure of a
        group by at most its ``reach`` in l1; which groups, when and by how much depends on its own
        rows alone. Groups are taken in the order of the steps that first read them, then of a
        salted hash, and never given up.
        Checked by ``tests/continual/test_state.py``.
        """
        try:
            discreetly(lambda: self._absorb(step, rows))
        except BaseException:
            with suppress(duckdb.Error):
                self._connection.execute("ROLLBACK")
            raise
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister(_STREAM)

    def _absorb(self, step: int, rows: ArrowStream) -> None:
        run = self._connection.execute
        self._connection.register(_STREAM, rows)
        run("BEGIN")
        run("INSERT INTO read VALUES (?)", [step])
        run(f"CREATE TEMP TABLE {_INCOMING} AS SELECT * FROM {_STREAM}")
        run(f"CREATE TEMP TABLE changed AS {self._changed()}")
        run(f"CREATE TEMP TABLE taken AS {self._taken()}")
        run(self._logged(step))
        run(self._updated())
        run(f"INSERT INTO {_COUNTED} SELECT {self._first_values()} FROM taken")
        for table in (_INCOMING, "changed", "taken"):
            run(f"DROP TABLE {table}")
        run("COMMIT")

    def totals(self, step: int) -> Totals:
        """The exact values of a step, once its rows are absorbed."""
        window = self._shape.window
        return self._summed(_COUNTED if window is None else _between(step - window + 1, step))

    def added(self, first: int, last: int) -> Totals:
        """Sum up what the steps from ``first`` to ``last`` added, of a state that keeps it.

        What a step added never changes once a later one was absorbed.
        """
        return self._summed(_between(first, last))

    def _summed(self, source: str) -> Totals:
        shape = self._shape
        texts = [f"CAST({name} AS VARCHAR) AS {name}" for name in shape.key_names]
        sums = [f"sum({quote(e.name)})::BIGINT AS {quote(e.name)}" for e in shape.contributions]
        by = f" GROUP BY {', '.join(shape.key_names)}" if shape.keys else ""
        order = f" ORDER BY {', '.join(shape.key_names)}" if shape.keys else ""
        grouped = f"SELECT {', '.join([*shape.key_names, *sums])} FROM {source}{by}"
        names = [quote(each.name) for each in shape.contributions]
        sql = f"SELECT {', '.join([*texts, *names])} FROM ({grouped}){order}"
        found = discreetly(lambda: self._connection.execute(sql).fetchnumpy())
        keys = [_texts(found[key.name]) for key in shape.keys]
        values = [_integers(found[each.name]) for each in shape.contributions]
        return Totals(keys, values)

    # -- what is new ----------------------------------------------------------------------------

    def _changed(self) -> str:
        """The increments of the pairs of unit and group that are counted already, by row."""
        shape = self._shape
        increments = [
            f"{_increment(e, f'old.{quote(e.name)}', f'old.{_spent(e)}')} AS {quote(e.name)}"
            for e in shape.contributions
        ]
        some = " OR ".join(f"{quote(e.name)} <> 0" for e in shape.contributions)
        some = "false" if shape.one_step else some
        keys = [f"old.{name}" for name in shape.key_names]
        columns = ", ".join(["old.rowid AS place", *keys, *increments])
        return (
            f"SELECT * FROM (SELECT {columns} FROM {_COUNTED} old JOIN {_INCOMING} new "
            f"ON {self._same()}) WHERE {some}"
        )

    def _taken(self) -> str:
        """The pairs that are counted from now on, as far as their unit may have more groups."""
        shape = self._shape
        new = [f"new.{name}" for name in (UNIT, *shape.key_names)]
        first = [f"{_increment(e, '0', '0')} AS {quote(e.name)}" for e in shape.contributions]
        salt = int.from_bytes(self.key.source("groups", 0).words(1).tobytes(), "little") >> 2
        order = ", ".join([f"hash(hash({', '.join([str(salt), *new])}))", *new[1:]])
        rank = f"row_number() OVER (PARTITION BY new.{UNIT} ORDER BY {order})"
        still = " AND had IS NULL" if shape.one_step else ""
        within = "true" if shape.groups is None else f"place <= {shape.groups}"
        had = f"SELECT {UNIT} AS owner, count(*) AS had FROM {_COUNTED} GROUP BY {UNIT}"
        return (
            f"SELECT * EXCLUDE (place) FROM (SELECT {', '.join([*new, *first])}, "
            f"{rank} + coalesce(had, 0) AS place FROM {_INCOMING} new "
            f"LEFT JOIN ({had}) ON owner = new.{UNIT} "
            f"WHERE NOT EXISTS (SELECT 1 FROM {_COUNTED} old WHERE {self._same()}){still}) "
            f"WHERE {within}"
        )

    def _updated(self) -> str:
        numbers = [
            part
            for e in self._shape.contributions
            for part in (
                f"{quote(e.name)} = {_COUNTED}.{quote(e.name)} + changed.{quote(e.name)}",
                f"{_spent(e)} = {_COUNTED}.{_spent(e)} + abs(changed.{quote(e.name)})",
            )
        ]
        return (
            f"UPDATE {_COUNTED} SET {', '.join(numbers)} FROM changed "
            f"WHERE {_COUNTED}.rowid = changed.place"
        )

    def _first_values(self) -> str:
        spent = [f"abs({quote(each.name)})" for each in self._shape.contributions]
        return ", ".join(["*", *spent])

    def _logged(self, step: int) -> str:
        """Keep the increments of a step by group, where they are asked for; and no others."""
        shape = self._shape
        if shape.window is None and not shape.by_step:
            return "SELECT 1"
        names = [*shape.key_names, *(quote(each.name) for each in shape.contributions)]
        both = " UNION ALL ".join(
            f"SELECT {', '.join(names)} FROM {t}" for t in ("changed", "taken")
        )
        sums = [f"sum({quote(each.name)})::BIGINT" for each in shape.contributions]
        by = f" GROUP BY {', '.join(shape.key_names)}" if shape.keys else ""
        selected = ", ".join([str(step), *shape.key_names, *sums])
        return f"INSERT INTO {_ADDED} SELECT {selected} FROM ({both}){by}"

    def _same(self) -> str:
        keys = (f"old.{name} IS NOT DISTINCT FROM new.{name}" for name in self._shape.key_names)
        return " AND ".join([f"old.{UNIT} = new.{UNIT}", *keys])


def _between(first: int, last: int) -> str:
    return f"(SELECT * FROM {_ADDED} WHERE step BETWEEN {first} AND {last})"


def _texts(column: NDArray[Any]) -> list[str | None]:
    masked = np.ma.getmaskarray(column)
    return [None if gone else text for text, gone in zip(column.tolist(), masked, strict=True)]


def _integers(column: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ma.filled(column, 0).astype(np.int64)


def _increment(each: Contribution, old: str, spent: str) -> str:
    """What is added now: towards what there is, within what the unit has left."""
    left = f"({each.reach} - {spent})"
    least = "0" if each.grows else f"-{left}"
    return f"greatest({least}, least({left}, coalesce(new.{quote(each.name)}, {old}) - {old}))"


def _spent(each: Contribution) -> str:
    return quote(f"{each.name}_spent")


@contextmanager
def _discreet() -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, OSError):
        failed = True
    else:
        failed = False
    if failed:
        raise _unusable("it cannot be written", "state_in_the_way")


def _unusable(reason: str, code: str) -> EngineError:
    return EngineError(
        f"the private state of the view cannot be used: {reason}",
        code=code,
        hint="It lies beside the database, in a directory that ends in .views, and only the owner "
        "may read it. A view without its state cannot go on: drop it, and create another.",
    )
