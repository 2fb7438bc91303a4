"""The private state of a view: the contributions of units so far, and the keys of its noise.

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

import os
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

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column
from dpsql.core.sql import EMPTY_SQL, Sql, digits, join, number, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.base.engine import ArrowStream
from dpsql.engines.duckdb.engine import MaterializedStream, discreetly
from dpsql.engines.embedded.interruptible import raise_if_interrupted
from dpsql.engines.embedded.running import execute
from dpsql.errors import EngineError
from dpsql.privacy.streams.keyed import KEY_BYTES, StepKey
from dpsql.views.choices import KeptChoices

_T = TypeVar("_T")

UNIT: Final = f"{INTERNAL_PREFIX}unit"
"""The unit's column in a state and in the rows it absorbs."""
_GROUP: Final = f"{INTERNAL_PREFIX}group"  # its number, from 0 on, in the order of first sight
_UNIT_COLUMN, _GROUP_COLUMN = quoted(UNIT), quoted(_GROUP)
_FILE: Final = "state.duckdb"
_VERSION: Final = 3
_MEMORY: Final = "4GB"
_COUNTED, _ADDED, _GROUPS, _NOISE = map(quoted, ("counted", "added", "groups", "noise"))  # tables
_INCOMING, _MET, _TAKEN = map(quoted, ("incoming", "met", "taken"))  # while a step is absorbed
_STREAM, _SUMS = "__dpsql_stream", "__dpsql_sums"
_in_use: dict[Path, object] = {}  # the states that this process has open, by whom


@dataclass(frozen=True, slots=True)
class Contribution:
    """The bound on a unit's contribution to a group over all steps, for one measure.

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

    unit_type: SqlType
    keys: tuple[Column, ...]
    contributions: tuple[Contribution, ...]
    groups: int | None
    window: int | None = None
    one_step: bool = False
    by_step: bool = False

    @property
    def key_names(self) -> list[Sql]:
        """The columns of the keys."""
        return [quoted(key.name) for key in self.keys]


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
    """The kept noise of a view's groups after ``step`` steps, in the groups' order.

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
        read = sql("SELECT key FROM read ORDER BY step")
        found = _intact(lambda: execute(connection, read).fetchall())
        self._keys = [StepKey(bytes(key)) for (key,) in found]
        self.choices = KeptChoices(connection)
        """Which groups were chosen, and when."""

    @classmethod
    def create(cls, place: Path, stream: str, shape: StateShape) -> None:
        """Create the state of a view before its first step: all of it, or nothing.

        ``place`` is a directory, which only the owner may enter from the beginning. It gets its
        name when it is whole, so that whoever is killed before leaves no part of a state there.
        Raises ``EngineError`` (``state_in_the_way``) if there is one already, or it cannot be made.
        """
        made = place.with_name(f"{place.name}.{secrets.token_hex(8)}")
        try:
            with _discreet():
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                made.mkdir(mode=0o700)
                with duckdb.connect(str(made / _FILE)) as connection:
                    for statement in _tables(shape):
                        execute(connection, statement)
                    execute(connection, sql("INSERT INTO meta VALUES (?, ?)"), [_VERSION, stream])
                    execute(connection, sql("COMMIT"))
                (made / _FILE).chmod(0o600)
                made.rename(place)  # refused where a directory is that is not empty
        finally:
            shutil.rmtree(made, ignore_errors=True)

    @staticmethod
    def require_room(place: Path) -> None:
        """Require a place where a state can be made, before it is paid for.

        Raises ``EngineError`` (``state_in_the_way``).
        """
        with _discreet():
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.exists() or not os.access(place.parent, os.W_OK | os.X_OK):
                raise OSError

    @staticmethod
    def is_there(place: Path) -> bool:
        """Tell whether a place holds a state, of any view."""
        return (place / _FILE).is_file()

    @staticmethod
    def remove(place: Path) -> None:
        """Delete a state, and files left by killed processes."""
        for each in (place, *unfinished(place)):
            shutil.rmtree(each, ignore_errors=True)

    @classmethod
    @contextmanager
    def open(
        cls, place: Path, stream: str, shape: StateShape, memory: str | None = None
    ) -> Iterator[ViewState]:
        """Lend the state of a view, while inside; ``memory`` is how much its statements may take.

        Raises ``EngineError``: ``state_missing``, ``state_of_another`` for another view's,
        ``state_busy`` while somebody else has it, ``state_damaged``.
        """
        if not cls.is_there(place):
            raise _unusable("it is not there", "state_missing")
        connection, mine, used = None, object(), place.resolve()
        try:
            try:
                # Two connections of one process would share the file, and neither would notice.
                if _in_use.setdefault(used, mine) is not mine:
                    raise _busy()
                connection = _connect(place / _FILE, memory or _MEMORY)
                meta = sql("SELECT version, stream FROM meta")
                found = _intact(lambda: execute(connection, meta).fetchall())
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
        """Limit the time of the work inside; beyond it raise ``EngineError`` (``time_limit``)."""
        if seconds is None:
            yield
            return
        deadline = Deadline(seconds, self._connection.interrupt)
        try:
            with deadline:
                yield
        except EngineError as error:
            if not (deadline.expired and error.code == "interrupted"):
                raise
            error.code = "time_limit"
            raise

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
        Checked by ``tests/views/test_state.py`` and ``test_listings.py``.
        """
        assert step > self.read_steps, "a step is read once"
        # Steps that were begun and not read have no rows; their noise exists from now on, too.
        keys = [StepKey(secrets.token_bytes(KEY_BYTES)) for _ in range(step - self.read_steps)]
        try:
            discreetly(lambda: self._absorb(step, keys, rows))
        except BaseException as error:
            if isinstance(error, EngineError) and isinstance(rows, MaterializedStream):
                # By what their engine raised, and not by who has called for an end.
                error.code = "interrupted" if rows.interrupted else error.code
            with suppress(duckdb.Error):
                self._run(sql("ROLLBACK"))
            raise
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister(_STREAM)
        self._keys += keys

    def _absorb(self, step: int, keys: Sequence[StepKey], rows: ArrowStream) -> None:
        run = self._run
        self._connection.register(_STREAM, rows)
        run(sql("BEGIN"))
        for place, key in enumerate(keys, start=step - len(keys) + 1):
            run(sql("INSERT INTO read VALUES (?, ?)"), [place, key.secret])
        run(sql("CREATE TEMP TABLE {} AS {}", _INCOMING, self._incoming()))
        run(sql("CREATE TEMP TABLE {} AS {}", _MET, self._met()))
        run(sql("CREATE TEMP TABLE {} AS {}", _TAKEN, self._taken(keys[-1])))
        run(self._named())
        run(self._logged(step))
        run(self._updated())
        run(sql("INSERT INTO {} {}", _COUNTED, self._first_values()))
        for table in (_INCOMING, _MET, _TAKEN):
            run(sql("DROP TABLE {}", table))
        run(sql("COMMIT"))

    def _run(self, statement: Sql, values: list[Any] | None = None) -> duckdb.DuckDBPyConnection:
        return execute(self._connection, statement, values)

    def totals(self, step: int) -> Totals:
        """Return the exact values of a step, once its rows are absorbed."""
        window, whole = self._shape.window, self._summed(_COUNTED)
        if window is None:
            return whole
        part = self._summed(_between(step - window + 1, step))
        return replace(part, since_start=whole.values)

    def added(self, first: int, last: int) -> Totals:
        """Sum the increments of the steps ``first`` to ``last``, in a state that keeps them.

        ``since_start`` is of these steps, too. What a step added never changes once a later one was
        absorbed.
        """
        return self._summed(_between(first, last))

    def _summed(self, source: Sql) -> Totals:
        shape = self._shape
        names = [quoted(each.name) for each in shape.contributions]
        sums = [sql("sum({name})::BIGINT AS {name}", name=name) for name in names]
        columns = join(", ", [_GROUP_COLUMN, *sums])
        asked = sql("SELECT {} FROM {} GROUP BY {}", columns, source, _GROUP_COLUMN)
        found = discreetly(lambda: self._run(asked).fetchnumpy())
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
            ((count,),) = self._run(sql("SELECT count(*) FROM {}", _GROUPS)).fetchall()
            return int(count)
        texts = (sql("CAST({name} AS VARCHAR) AS {name}", name=name) for name in names)
        asked = sql(
            "SELECT {texts} FROM {groups} WHERE {group} >= {known} ORDER BY {group}",
            texts=join(", ", texts),
            groups=_GROUPS,
            group=_GROUP_COLUMN,
            known=len(self._texts[0]),
        )
        found = self._run(asked).fetchnumpy()
        for column, key in zip(self._texts, self._shape.keys, strict=True):
            column.extend(_as_texts(found[key.name]))
        return len(self._texts[0])

    # -- what is kept of the noise --------------------------------------------------------------

    def kept_noise(self) -> KeptNoise | None:
        """Return the latest kept noise, None without any.

        Raises ``EngineError`` (``state_damaged``).
        """
        found = _intact(lambda: self._run(sql("SELECT step, digest FROM kept")).fetchall())
        if not found:
            return None
        columns = _intact(lambda: self._run(sql("SELECT * FROM {}", _NOISE)).fetchnumpy())
        order = np.argsort(columns.pop(_GROUP))
        ((step, digest),) = found
        return KeptNoise(step, bytes(digest), {n: np.asarray(c)[order] for n, c in columns.items()})

    def keep_noise(self, kept: KeptNoise) -> None:
        """Store the noise that later steps build on, in place of the stored one."""
        count = len(next(iter(kept.columns.values())))
        columns = {n: np.ascontiguousarray(column) for n, column in kept.columns.items()}
        try:
            discreetly(
                lambda: self._keep(kept.step, kept.digest, {_GROUP: np.arange(count), **columns})
            )
        except BaseException:
            with suppress(duckdb.Error):
                self._run(sql("ROLLBACK"))
            raise
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister(_SUMS)

    def _keep(self, step: int, digest: bytes, columns: Mapping[str, NDArray[Any]]) -> None:
        run = self._run
        self._connection.register(_SUMS, columns)
        run(sql("BEGIN"))
        run(sql("DELETE FROM kept"))
        run(sql("INSERT INTO kept VALUES (?, ?)"), [step, digest])
        run(sql("CREATE OR REPLACE TABLE {} AS SELECT * FROM {}", _NOISE, quoted(_SUMS)))
        run(sql("COMMIT"))

    # -- what is new ----------------------------------------------------------------------------

    def _incoming(self) -> Sql:
        """Select the rows with the number of their group, NULL for a group that is none yet."""
        return sql(
            "SELECT new.*, known.{} FROM {} new LEFT JOIN {} known ON {}",
            _GROUP_COLUMN,
            quoted(_STREAM),
            _GROUPS,
            _same(self._shape.key_names),
        )

    def _met(self) -> Sql:
        """Select the increments of pairs of unit and group, with the row of those that are counted.

        Pairs that are counted and have none are left out.
        """
        shape = self._shape
        increments = []
        for each in shape.contributions:
            own_columns = (quoted(each.name), _spent(each))
            had = (sql("coalesce(old.{}, 0)", column) for column in own_columns)
            increments.append(sql("{} AS {}", _increment(each, *had), quoted(each.name)))
        some = join(" OR ", (sql("{} <> 0", quoted(e.name)) for e in shape.contributions))
        some = sql("FALSE") if shape.one_step else some
        own = (_UNIT_COLUMN, _GROUP_COLUMN, *shape.key_names)
        names = [sql("new.{}", name) for name in own]
        return sql(
            "SELECT * FROM (SELECT {columns} FROM {incoming} new LEFT JOIN {counted} old "
            "ON old.{unit} = new.{unit} AND old.{group} = new.{group}) "
            "WHERE place IS NULL OR {some}",
            columns=join(", ", [sql("old.rowid AS place"), *names, *increments]),
            incoming=_INCOMING,
            counted=_COUNTED,
            unit=_UNIT_COLUMN,
            group=_GROUP_COLUMN,
            some=some,
        )

    def _taken(self, key: StepKey) -> Sql:
        """Select the pairs that are counted from now on, as far as a unit may have more groups.

        The salt of a step's new groups comes from its key, so that it is drawn with it.
        """
        shape = self._shape
        hashed = [sql("new.{}", name) for name in (_UNIT_COLUMN, *shape.key_names)]
        salt = int.from_bytes(key.source("groups").words(1).tobytes(), "little") >> 2
        mixed = sql("hash(hash({}))", join(", ", [digits(salt), *hashed]))
        order = join(", ", [mixed, *hashed[1:]])
        rank = sql("row_number() OVER (PARTITION BY new.{} ORDER BY {})", _UNIT_COLUMN, order)
        fresh = sql("SELECT {} FROM {} WHERE place IS NULL", _UNIT_COLUMN, _MET)
        had = sql(
            "SELECT {unit} AS owner, count(*) AS had FROM {counted} "
            "WHERE {unit} IN ({fresh}) GROUP BY {unit}",
            unit=_UNIT_COLUMN,
            counted=_COUNTED,
            fresh=fresh,
        )
        return sql(
            "SELECT * FROM (SELECT new.* EXCLUDE (place), {rank} + coalesce(had, 0) AS turn "
            "FROM {met} new LEFT JOIN ({had}) ON owner = new.{unit} "
            "WHERE new.place IS NULL{still}) WHERE {within}",
            rank=rank,
            met=_MET,
            had=had,
            unit=_UNIT_COLUMN,
            still=sql(" AND had IS NULL") if shape.one_step else EMPTY_SQL,
            within=sql("TRUE") if shape.groups is None else sql("turn <= {}", shape.groups),
        )

    def _named(self) -> Sql:
        """Give numbers to the groups that are new."""
        names = self._shape.key_names
        keys = join(", ", names or [sql("1")])
        new = sql("SELECT DISTINCT {} FROM {} WHERE {} IS NULL", keys, _TAKEN, _GROUP_COLUMN)
        number = sql("(SELECT count(*) FROM {}) + row_number() OVER () - 1", _GROUPS)
        columns = join(", ", [number, *names])
        return sql("INSERT INTO {} SELECT {} FROM ({})", _GROUPS, columns, new)

    def _updated(self) -> Sql:
        numbers = (
            sql(
                "{name} = {counted}.{name} + {met}.{name}, "
                "{spent} = {counted}.{spent} + abs({met}.{name})",
                name=quoted(each.name),
                spent=_spent(each),
                counted=_COUNTED,
                met=_MET,
            )
            for each in self._shape.contributions
        )
        return sql(
            "UPDATE {counted} SET {numbers} FROM {met} WHERE {counted}.rowid = {met}.place",
            counted=_COUNTED,
            numbers=join(", ", numbers),
            met=_MET,
        )

    def _first_values(self) -> Sql:
        shape = self._shape
        numbers = [quoted(each.name) for each in shape.contributions]
        spent = [sql("abs({})", name) for name in numbers]
        own = [sql("new.{}", _UNIT_COLUMN), sql("known.{}", _GROUP_COLUMN)]
        return sql(
            "SELECT {} FROM {} new JOIN {} known ON {}",
            join(", ", [*own, *numbers, *spent]),
            _TAKEN,
            _GROUPS,
            _same(shape.key_names),
        )

    def _logged(self, step: int) -> Sql:
        """Keep the increments of a step by group, where they are asked for; and no others."""
        shape = self._shape
        if shape.window is None and not shape.by_step:
            return sql("SELECT 1")
        values = [quoted(each.name) for each in shape.contributions]
        both = sql(
            "SELECT {names} FROM {met} WHERE place IS NOT NULL "
            "UNION ALL SELECT {names} FROM {taken}",
            names=join(", ", [*shape.key_names, *values]),
            met=_MET,
            taken=_TAKEN,
        )
        sums = [sql("sum({})::BIGINT", value) for value in values]
        return sql(
            "INSERT INTO {added} SELECT {selected} FROM ({both}) new "
            "JOIN {groups} known ON {same} GROUP BY {group}",
            added=_ADDED,
            selected=join(", ", [number(step), _GROUP_COLUMN, *sums]),
            both=both,
            groups=_GROUPS,
            same=_same(shape.key_names),
            group=_GROUP_COLUMN,
        )


def unfinished(place: Path) -> list[Path]:
    """List unfinished states of a view, by processes that were killed or still run."""
    return sorted(place.parent.glob(f"{place.name}.*"))


def _between(first: int, last: int) -> Sql:
    return sql("(SELECT * FROM {} WHERE step BETWEEN {} AND {})", _ADDED, first, last)


def _tables(shape: StateShape) -> Iterator[Sql]:
    """Yield the statements that make an empty state; the transaction is left open."""
    keys = [sql("{} {}", quoted(key.name), key.type.sql) for key in shape.keys]
    numbers = [sql("{} BIGINT", quoted(each.name)) for each in shape.contributions]
    spent = [sql("{} BIGINT", _spent(each)) for each in shape.contributions]
    unit, group = (
        sql("{} {}", _UNIT_COLUMN, shape.unit_type.sql),
        sql("{} BIGINT", _GROUP_COLUMN),
    )
    tables = {
        sql("meta"): [sql("version INT, stream VARCHAR")],
        sql("read"): [sql("step BIGINT, key BLOB")],
        _GROUPS: [group, *keys],
        _COUNTED: [unit, group, *numbers, *spent],
        _ADDED: [sql("step BIGINT"), group, *numbers],
        sql("kept"): [sql("step BIGINT, digest BLOB")],
    }
    yield sql("BEGIN")
    for name, columns in tables.items():
        yield sql("CREATE TABLE {} ({})", name, join(", ", columns))


def _same(names: list[Sql]) -> Sql:
    """Write the condition that a new and a known row have the same keys; true without keys."""
    pairs = [sql("known.{name} IS NOT DISTINCT FROM new.{name}", name=name) for name in names]
    return join(" AND ", pairs or [sql("TRUE")])


def _as_texts(column: NDArray[Any]) -> list[str | None]:
    if not np.ma.is_masked(column):
        return list(np.ma.getdata(column).tolist())
    masked = np.ma.getmaskarray(column)
    return [None if gone else text for text, gone in zip(column.tolist(), masked, strict=True)]


def _increment(each: Contribution, old: Sql, spent: Sql) -> Sql:
    """Write a unit's increment, within the rest of its bound."""
    left = sql("({} - {})", each.reach, spent)
    return sql(
        "greatest({least}, least({left}, coalesce(new.{name}, {old}) - {old}))",
        least=sql("0") if each.grows else sql("-{}", left),
        left=left,
        name=quoted(each.name),
        old=old,
    )


def _spent(each: Contribution) -> Sql:
    return quoted(f"{each.name}_spent")


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
        raise EngineError(
            "the private state of the view cannot be made: its place is taken, or not writable",
            code="state_in_the_way",
            hint="It lies beside the database, in a directory that ends in .views, or where the "
            "policies file says. A view that was paid for goes on once it can be made there.",
        )


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
