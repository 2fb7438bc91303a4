"""The private state of a view: what each unit has contributed so far, and the keys of its noise.

It lies in a DuckDB file in a directory of its own beside the owner's data, never in the ledger:
whoever has it can take all noise off the view. What it says decides, not the table: a contribution
that was counted is counted for good, and no unit contributes more over all steps than the view was
calibrated for.

Noise exists when it is used. The key of a step is drawn from the operating system when its rows are
counted, and written down with them in one transaction: no key ever meets other rows, and none of a
later step exists anywhere. So a state that was restored from a backup, or copied, goes on with
noise of its own, and what that costs is bounded by the price of the view, once more.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.continual.choices import KeptChoices
from dpsql.core.quoting import INTERNAL_PREFIX, quote
from dpsql.core.schema import Column
from dpsql.engines.base import ArrowStream
from dpsql.engines.deadline import Deadline
from dpsql.engines.duckdb import discreetly, raise_if_interrupted
from dpsql.errors import EngineError
from dpsql.mechanisms.continual.keyed import KEY_BYTES, StepKey

_T = TypeVar("_T")

UNIT: Final = f"{INTERNAL_PREFIX}unit"
"""The unit's column in a state and in the rows it absorbs."""
_GROUP: Final = f"{INTERNAL_PREFIX}group"  # its number, from 0 on, in the order of first sight
_FILE: Final = "state.duckdb"
_VERSION: Final = 3
_MEMORY: Final = "4GB"
_COUNTED, _ADDED, _GROUPS, _NOISE = "counted", "added", "groups", "noise"  # tables
_INCOMING, _MET, _TAKEN = "incoming", "met", "taken"  # tables while a step is absorbed
_STREAM, _SUMS = "__dpsql_stream", "__dpsql_sums"
_in_use: dict[Path, object] = {}  # the states that this process has open, by whom


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
    (``count``,), and ``since_start`` those of all steps so far, the same unless values are of some
    steps alone. Groups come in the order in which they were first counted, which is private.
    """

    count: int
    keys: list[list[str | None]]
    values: list[NDArray[np.int64]]
    since_start: list[NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class KeptNoise:
    """What is kept of the noise of a view's groups after ``step`` steps, in the groups' order.

    ``columns`` are arrays of shape (groups,), by name. ``digest`` says of which noise they are. All
    of it follows from the keys of these steps.
    """

    step: int
    digest: bytes
    columns: Mapping[str, NDArray[np.float64]]


class ViewState:
    """An open state. Nobody else has it at the time; use :meth:`open`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, shape: StateShape) -> None:
        self._connection = connection
        self._shape = shape
        self._texts: list[list[str | None]] = [[] for _ in shape.keys]
        self._deadline: Deadline | None = None
        found = _intact(lambda: connection.execute("SELECT key FROM read ORDER BY step").fetchall())
        self._keys = [StepKey(bytes(key)) for (key,) in found]
        self.choices = KeptChoices(connection)
        """Which groups were chosen, and when."""

    @classmethod
    def create(cls, place: Path, stream: str, shape: StateShape) -> None:
        """Create the state of a new view.

        ``place`` is a directory, which only the owner may enter from the beginning. Raises
        ``EngineError`` (``state_in_the_way``) if there is one already, or it cannot be made.
        """
        with _discreet():
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.mkdir(mode=0o700)
            with duckdb.connect(str(place / _FILE)) as connection:
                for statement in _tables(shape):
                    connection.execute(statement)
                connection.execute("INSERT INTO meta VALUES (?, ?)", [_VERSION, stream])
                connection.execute("COMMIT")

    @staticmethod
    def remove(place: Path) -> None:
        """Delete a state, and what a process that was killed left of its last changes."""
        shutil.rmtree(place, ignore_errors=True)

    @classmethod
    @contextmanager
    def open(
        cls, place: Path, stream: str, shape: StateShape, memory: str | None = None
    ) -> Iterator[ViewState]:
        """Lend the state of a view, while inside; ``memory`` is how much its statements may take.

        Raises ``EngineError``: ``state_missing``, ``state_of_another`` for another view's,
        ``state_busy`` while somebody else has it, ``state_damaged``.
        """
        if not (place / _FILE).is_file():
            raise _unusable("it is not there", "state_missing")
        connection, mine, used = None, object(), place.resolve()
        try:
            try:
                # Two connections of one process would share the file, and neither would notice.
                if _in_use.setdefault(used, mine) is not mine:
                    raise _busy()
                connection = _connect(place / _FILE, memory or _MEMORY)
                found = _intact(
                    lambda: connection.execute("SELECT version, stream FROM meta").fetchall()
                )
                if found != [(_VERSION, stream)]:
                    raise _of_another(found)
                yield cls(connection, shape)
            finally:
                _leave(connection, used, mine)
        finally:
            _leave(connection, used, mine)  # an interrupt may have come to the first

    @property
    def read_steps(self) -> int:
        """The last step that was read into it; 0 before the first."""
        return len(self._keys)

    @property
    def keys(self) -> Sequence[StepKey]:
        """The keys of the steps up to the last that was read: secrets. It grows with them."""
        return self._keys

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """End what is done inside, as if the engine had failed, once it took so long."""
        if seconds is None:
            yield
            return
        self._deadline = Deadline(seconds, self._connection.interrupt)
        with self._deadline:
            yield

    @property
    def expired(self) -> bool:
        """True once the time of the last :meth:`within` was over."""
        return self._deadline is not None and self._deadline.expired

    def interrupt(self) -> None:
        """Stop the statement that is executed now, as if the engine had failed.

        For other threads to call.
        """
        with suppress(duckdb.Error):  # it was closed a moment ago
            self._connection.interrupt()

    def absorb(self, step: int, rows: ArrowStream) -> None:
        """Count what is new in the rows of a step, for good.

        ``rows`` has the unit, the keys and, per measure, all that the unit has contributed to the
        group by the end of the step; pairs of unit and group that are left out stay as they are.
        Guarantee: over all steps a unit changes at most ``shape.groups`` groups, with
        ``shape.one_step`` at a single step, and each measure of a group by at most its ``reach`` in
        l1; which groups, when and by how much depends on its own rows alone. Groups are taken in
        the order of the steps that first read them, then of a salted hash, and never given up.
        Checked by ``tests/continual/test_state.py`` and ``test_listings.py``.
        """
        assert step > self.read_steps, "a step is read once"
        # Steps that were begun and not read have no rows; their noise exists from now on, too.
        keys = [StepKey(secrets.token_bytes(KEY_BYTES)) for _ in range(step - self.read_steps)]
        try:
            discreetly(lambda: self._absorb(step, keys, rows))
        except BaseException:
            with suppress(duckdb.Error):
                self._connection.execute("ROLLBACK")
            raise
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister(_STREAM)
        self._keys += keys

    def _absorb(self, step: int, keys: Sequence[StepKey], rows: ArrowStream) -> None:
        run = self._connection.execute
        self._connection.register(_STREAM, rows)
        run("BEGIN")
        for number, key in enumerate(keys, start=step - len(keys) + 1):
            run("INSERT INTO read VALUES (?, ?)", [number, key.secret])
        run(f"CREATE TEMP TABLE {_INCOMING} AS {self._incoming()}")
        run(f"CREATE TEMP TABLE {_MET} AS {self._met()}")
        run(f"CREATE TEMP TABLE {_TAKEN} AS {self._taken(keys[-1])}")
        run(self._named())
        run(self._logged(step))
        run(self._updated())
        run(f"INSERT INTO {_COUNTED} {self._first_values()}")
        for table in (_INCOMING, _MET, _TAKEN):
            run(f"DROP TABLE {table}")
        run("COMMIT")

    def totals(self, step: int) -> Totals:
        """Return the exact values of a step, once its rows are absorbed."""
        window, whole = self._shape.window, self._summed(_COUNTED)
        if window is None:
            return whole
        part = self._summed(_between(step - window + 1, step))
        return replace(part, since_start=whole.values)

    def added(self, first: int, last: int) -> Totals:
        """Sum up what the steps from ``first`` to ``last`` added, of a state that keeps it.

        ``since_start`` is of these steps, too. What a step added never changes once a later one was
        absorbed.
        """
        return self._summed(_between(first, last))

    def _summed(self, source: str) -> Totals:
        shape = self._shape
        sums = [f"sum({quote(e.name)})::BIGINT AS {quote(e.name)}" for e in shape.contributions]
        sql = f"SELECT {', '.join([_GROUP, *sums])} FROM {source} GROUP BY {_GROUP}"
        found = discreetly(lambda: self._connection.execute(sql).fetchnumpy())
        count = discreetly(self._read_texts)
        places, values = found[_GROUP], []
        for each in shape.contributions:
            whole = np.zeros(count, dtype=np.int64)
            whole[places] = np.ma.filled(found[each.name], 0)
            values.append(whole)
        return Totals(count, [list(texts) for texts in self._texts], values, values)

    def _read_texts(self) -> int:
        """Read the keys of groups that came since they were read last; how many groups there are.

        A group keeps its number and its keys.
        """
        names = self._shape.key_names
        if not names:
            ((count,),) = self._connection.execute(f"SELECT count(*) FROM {_GROUPS}").fetchall()
            return int(count)
        texts = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in names)
        known = len(self._texts[0])
        found = self._connection.execute(
            f"SELECT {texts} FROM {_GROUPS} WHERE {_GROUP} >= {known} ORDER BY {_GROUP}"
        ).fetchnumpy()
        for column, key in zip(self._texts, self._shape.keys, strict=True):
            column.extend(_as_texts(found[key.name]))
        return len(self._texts[0])

    # -- what is kept of the noise --------------------------------------------------------------

    def kept_noise(self) -> KeptNoise | None:
        """Return what was kept of the noise last, None if nothing was.

        Raises ``EngineError`` (``state_damaged``).
        """
        rows = self._connection.execute
        found = _intact(lambda: rows("SELECT step, digest FROM kept").fetchall())
        if not found:
            return None
        columns = _intact(lambda: rows(f"SELECT * FROM {_NOISE}").fetchnumpy())
        order = np.argsort(columns.pop(_GROUP))
        ((step, digest),) = found
        return KeptNoise(step, bytes(digest), {n: np.asarray(c)[order] for n, c in columns.items()})

    def keep_noise(self, kept: KeptNoise) -> None:
        """Keep what the noise of later steps follows from, in place of what was kept before."""
        count = len(next(iter(kept.columns.values())))
        columns = {n: np.ascontiguousarray(column) for n, column in kept.columns.items()}
        try:
            discreetly(
                lambda: self._keep(kept.step, kept.digest, {_GROUP: np.arange(count), **columns})
            )
        except BaseException:
            with suppress(duckdb.Error):
                self._connection.execute("ROLLBACK")
            raise
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister(_SUMS)

    def _keep(self, step: int, digest: bytes, columns: Mapping[str, NDArray[Any]]) -> None:
        run = self._connection.execute
        self._connection.register(_SUMS, columns)
        run("BEGIN")
        run("DELETE FROM kept")
        run("INSERT INTO kept VALUES (?, ?)", [step, digest])
        run(f"CREATE OR REPLACE TABLE {_NOISE} AS SELECT * FROM {_SUMS}")
        run("COMMIT")

    # -- what is new ----------------------------------------------------------------------------

    def _incoming(self) -> str:
        """Select the rows with the number of their group, NULL for a group that is none yet."""
        same = _same(self._shape.key_names, "known", "new")
        return (
            f"SELECT new.*, known.{_GROUP} FROM {_STREAM} new LEFT JOIN {_GROUPS} known ON {same}"
        )

    def _met(self) -> str:
        """Select the increments of pairs of unit and group, with the row of those that are counted.

        Pairs that are counted and have none are left out.
        """
        shape = self._shape
        increments = []
        for each in shape.contributions:
            had = (f"coalesce(old.{name}, 0)" for name in (quote(each.name), _spent(each)))
            increments.append(f"{_increment(each, *had)} AS {quote(each.name)}")
        some = " OR ".join(f"{quote(e.name)} <> 0" for e in shape.contributions)
        some = "FALSE" if shape.one_step else some
        names = [f"new.{name}" for name in (UNIT, _GROUP, *shape.key_names)]
        columns = ", ".join(["old.rowid AS place", *names, *increments])
        return (
            f"SELECT * FROM (SELECT {columns} FROM {_INCOMING} new LEFT JOIN {_COUNTED} old "
            f"ON old.{UNIT} = new.{UNIT} AND old.{_GROUP} = new.{_GROUP}) "
            f"WHERE place IS NULL OR {some}"
        )

    def _taken(self, key: StepKey) -> str:
        """Select the pairs that are counted from now on, as far as a unit may have more groups.

        The salt of a step's new groups comes from its key, so that it is drawn with it.
        """
        shape = self._shape
        hashed = [f"new.{name}" for name in (UNIT, *shape.key_names)]
        salt = int.from_bytes(key.source("groups").words(1).tobytes(), "little") >> 2
        order = ", ".join([f"hash(hash({', '.join([str(salt), *hashed])}))", *hashed[1:]])
        rank = f"row_number() OVER (PARTITION BY new.{UNIT} ORDER BY {order})"
        fresh = f"SELECT {UNIT} FROM {_MET} WHERE place IS NULL"
        had = (
            f"SELECT {UNIT} AS owner, count(*) AS had FROM {_COUNTED} "
            f"WHERE {UNIT} IN ({fresh}) GROUP BY {UNIT}"
        )
        still = " AND had IS NULL" if shape.one_step else ""
        within = "TRUE" if shape.groups is None else f"turn <= {shape.groups}"
        return (
            f"SELECT * FROM (SELECT new.* EXCLUDE (place), {rank} + coalesce(had, 0) AS turn "
            f"FROM {_MET} new LEFT JOIN ({had}) ON owner = new.{UNIT} "
            f"WHERE new.place IS NULL{still}) WHERE {within}"
        )

    def _named(self) -> str:
        """Give numbers to the groups that are new."""
        names = self._shape.key_names
        new = f"SELECT DISTINCT {', '.join(names) or '1'} FROM {_TAKEN} WHERE {_GROUP} IS NULL"
        number = f"(SELECT count(*) FROM {_GROUPS}) + row_number() OVER () - 1"
        return f"INSERT INTO {_GROUPS} SELECT {', '.join([number, *names])} FROM ({new})"

    def _updated(self) -> str:
        numbers = [
            part
            for e in self._shape.contributions
            for part in (
                f"{quote(e.name)} = {_COUNTED}.{quote(e.name)} + {_MET}.{quote(e.name)}",
                f"{_spent(e)} = {_COUNTED}.{_spent(e)} + abs({_MET}.{quote(e.name)})",
            )
        ]
        return (
            f"UPDATE {_COUNTED} SET {', '.join(numbers)} FROM {_MET} "
            f"WHERE {_COUNTED}.rowid = {_MET}.place"
        )

    def _first_values(self) -> str:
        shape = self._shape
        numbers = [quote(each.name) for each in shape.contributions]
        spent = [f"abs({name})" for name in numbers]
        columns = ", ".join([f"new.{UNIT}", f"known.{_GROUP}", *numbers, *spent])
        same = _same(shape.key_names, "known", "new")
        return f"SELECT {columns} FROM {_TAKEN} new JOIN {_GROUPS} known ON {same}"

    def _logged(self, step: int) -> str:
        """Keep the increments of a step by group, where they are asked for; and no others."""
        shape = self._shape
        if shape.window is None and not shape.by_step:
            return "SELECT 1"
        names = ", ".join([*shape.key_names, *(quote(each.name) for each in shape.contributions)])
        both = (
            f"SELECT {names} FROM {_MET} WHERE place IS NOT NULL "
            f"UNION ALL SELECT {names} FROM {_TAKEN}"
        )
        sums = [f"sum({quote(each.name)})::BIGINT" for each in shape.contributions]
        selected = ", ".join([str(step), _GROUP, *sums])
        same = _same(shape.key_names, "known", "new")
        return (
            f"INSERT INTO {_ADDED} SELECT {selected} FROM ({both}) new "
            f"JOIN {_GROUPS} known ON {same} GROUP BY {_GROUP}"
        )


def _between(first: int, last: int) -> str:
    return f"(SELECT * FROM {_ADDED} WHERE step BETWEEN {first} AND {last})"


def _tables(shape: StateShape) -> Iterator[str]:
    """Yield the statements that make an empty state; the transaction is left open."""
    keys = [f"{quote(key.name)} {key.type}" for key in shape.keys]
    numbers = [f"{quote(each.name)} BIGINT" for each in shape.contributions]
    spent = [f"{_spent(each)} BIGINT" for each in shape.contributions]
    tables = {
        "meta": ["version INT", "stream VARCHAR"],
        "read": ["step BIGINT", "key BLOB"],
        _GROUPS: [f"{_GROUP} BIGINT", *keys],
        _COUNTED: [f"{UNIT} {shape.unit_type}", f"{_GROUP} BIGINT", *numbers, *spent],
        _ADDED: ["step BIGINT", f"{_GROUP} BIGINT", *numbers],
        "kept": ["step BIGINT", "digest BLOB"],
    }
    yield "BEGIN"
    for name, columns in tables.items():
        yield f"CREATE TABLE {name} ({', '.join(columns)})"


def _same(names: list[str], one: str, other: str) -> str:
    """Write the condition that two rows have the same keys: that of no keys holds."""
    pairs = (f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in names)
    return " AND ".join(pairs) or "TRUE"


def _as_texts(column: NDArray[Any]) -> list[str | None]:
    if not np.ma.is_masked(column):
        return list(np.ma.getdata(column).tolist())
    masked = np.ma.getmaskarray(column)
    return [None if gone else text for text, gone in zip(column.tolist(), masked, strict=True)]


def _increment(each: Contribution, old: str, spent: str) -> str:
    """Write what is added now: towards what there is, within what the unit has left."""
    left = f"({each.reach} - {spent})"
    least = "0" if each.grows else f"-{left}"
    return f"greatest({least}, least({left}, coalesce(new.{quote(each.name)}, {old}) - {old}))"


def _spent(each: Contribution) -> str:
    return quote(f"{each.name}_spent")


def _leave(connection: duckdb.DuckDBPyConnection | None, used: Path, mine: object) -> None:
    """Give back what was opened. Nothing happens the second time."""
    if connection is not None:
        connection.close()
    if _in_use.get(used) is mine:
        del _in_use[used]


def _connect(file: Path, memory: str) -> duckdb.DuckDBPyConnection:
    """Open the file of a state. Raises ``EngineError`` (``state_busy``, ``state_damaged``)."""
    try:
        return duckdb.connect(str(file), config={"memory_limit": memory})
    except (duckdb.Error, RuntimeError) as error:
        raise_if_interrupted(error)
        # Words of the operating system's, which name a file; they decide, and are not told.
        locked = isinstance(error, duckdb.IOException) and "lock on file" in str(error)
    raise _busy() if locked else _damaged()


def _intact(read: Callable[[], _T]) -> _T:
    """Return what is read. Raises ``EngineError`` (``state_damaged``) if it cannot be read."""
    try:
        return read()
    except (duckdb.Error, RuntimeError) as error:
        raise_if_interrupted(error)
    raise _damaged()


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


def _of_another(found: list[tuple[int, str]]) -> EngineError:
    """Say why a state is not the view's: of another one, or of another version of dpsql."""
    if [version for version, _ in found] == [_VERSION]:
        return _unusable("it belongs to another view", "state_of_another")
    return EngineError(
        "the private state of the view was written by another version of dpsql",
        code="state_of_another_version",
        hint="Its noise would not be drawn as it is now. Drop the view, and create another.",
    )


def _busy() -> EngineError:
    return EngineError(
        "the private state of the view cannot be used: somebody else has it open",
        code="state_busy",
        hint="The view is refreshed by another process or connection. Try again later.",
    )


def _damaged() -> EngineError:
    return _unusable("it is damaged", "state_damaged")


def _unusable(reason: str, code: str) -> EngineError:
    return EngineError(
        f"the private state of the view cannot be used: {reason}",
        code=code,
        hint="It lies beside the database, in a directory that ends in .views, and only the owner "
        "may read it. A view without its state cannot go on: drop it, and create another.",
    )
