"""DuckDB: a database file opened read-only, or tables the owner registers in memory.

Two connections are kept. The *private* one reads the data (:mod:`dpsql.engines.duckdb.attached`),
locked so that it cannot reach files, extensions, settings or Python objects. The *twin* is an empty
database with the same tables: SQL is bound against it first, so type errors are found without
touching a row and their messages cannot quote one.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.catalog import Catalog
from dpsql.core.constraints import NO_CONSTRAINTS, ConstraintsOf
from dpsql.core.data_files import (
    DataFiles,
    FileKind,
    as_read,
    bare_path,
    data_files,
    is_ducklake,
    last_written,
    only_file,
)
from dpsql.core.plain import type_name
from dpsql.core.quoting import INTERNAL_PREFIX, ROW_ID, table_sql
from dpsql.core.schema import Column, Remark, Schema, Table, fold
from dpsql.core.sql import EMPTY_SQL, Sql, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import TYPE_HINT, SqlType
from dpsql.core.table_name import TableName
from dpsql.engines.base.discreet import withholding_texts
from dpsql.engines.base.engine import (
    ArrowStream,
    Definition,
    ExactRows,
    IntegerStream,
    Misfit,
    Reads,
)
from dpsql.engines.base.engine_base import EngineBase
from dpsql.engines.base.rehearsal import Rehearsal
from dpsql.engines.base.run_base import RunBase
from dpsql.engines.base.scratch import Passed, ScratchBase, Sheet
from dpsql.engines.duckdb.attached import (
    ListedViews,
    Published,
    attached,
    count_beyond,
    forget,
    ours,
    publish,
    publish_in,
)
from dpsql.engines.duckdb.constraints import read_constraints
from dpsql.engines.duckdb.lakes import (
    Pinned,
    attach_ducklake,
    ducklake_definition,
    files_definition,
    pinned,
)
from dpsql.engines.duckdb.misfits import misfits
from dpsql.engines.duckdb.network import Secret, listed, reach, unreachable
from dpsql.engines.duckdb.proofs import Stamp, is_proved, prove, stamps_of
from dpsql.engines.duckdb.python_values import PythonValues, python_values
from dpsql.engines.duckdb.reading import LastReading
from dpsql.engines.duckdb.spill import Spill
from dpsql.engines.duckdb.streaming import (
    PART,
    DuckDBStream,
    Halt,
    Streaming,
    StreamMemory,
    memory_taken,
)
from dpsql.engines.duckdb.untyped import (
    UntypedFiles,
    directory_keys,
    directory_types,
    parquet_query,
)
from dpsql.engines.duckdb.views import DATA, definition, over_parquet
from dpsql.engines.embedded.interruptible import interruptibly, raise_if_interrupted
from dpsql.engines.embedded.lockdown import allow, lock_down
from dpsql.engines.embedded.running import execute, materialized, relation, selected
from dpsql.engines.embedded.spelling import one_spelling
from dpsql.engines.embedded.types import numpy_safe
from dpsql.engines.evidence.evidence import evidence_for
from dpsql.engines.evidence.verdicts import EngineVersion
from dpsql.errors import InterfaceError, ParameterError

_T = TypeVar("_T")
_FRAME = f"{INTERNAL_PREFIX}frame"
_NOT_DECLARED: Final = "has no names and types of its own, and its columns are declared nowhere"
_DECLARE_FILES: Final = (
    "Write them with `dpsql init FILE --output policies.yaml`, read them, and look at what "
    "analysts will see with `dpsql check --database FILE -p policies.yaml`."
)
_DECLARE_VALUES: Final = (
    "Give the types of its columns with the data, register(name, data, types={'cost': 'DOUBLE'}), "
    "or in the policies file: columns: {cost: {type: DOUBLE}}."
)
_DATA_IN_MEMORY: Final = (
    "Data in memory are a dict of columns, all of one length, a frame of pandas or polars, or an "
    "Arrow table. A column of a type that DuckDB does not have can be made one of texts: "
    "frame['x'] = frame['x'].astype(str)."
)

_NUMBERS = count()  # of databases with views of listed tables
_LOADED: Final = f"{INTERNAL_PREFIX}loaded"
_TAKEN = frozenset({"main", "system", "temp"})  # names that DuckDB gives no database


class DuckDBEngine:
    """An owner-side handle on DuckDB data.

    ``DuckDBEngine("data.duckdb")`` opens a file read-only, ``DuckDBEngine("ducklake:a.ducklake")``
    the tables of a lake as they are now. ``DuckDBEngine()`` starts empty, to be filled with
    ``register`` (Arrow tables, pandas or polars frames, dicts of columns), ``csv``, ``json`` and
    ``parquet`` before it is handed to ``dpsql.connect``, which locks it.
    ``files`` are tables by name, each the path of a file, a directory of files, or a pattern; a
    table of Delta's or Iceberg's, which takes an extension of DuckDB, as lakes do; or an
    address (``s3://``, ``gs://``, ``r2://``, ``https://``), which takes DuckDB's httpfs extension.
    ``secrets`` are the options of DuckDB's CREATE SECRET, for files of the network: each a dict
    with a ``type``. They are held in memory.
    Raises ``InterfaceError`` if a file is missing or cannot be read as what it should be, or if the
    extension is not installed.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        files: Mapping[str, str | Path] = MappingProxyType({}),
        secrets: Sequence[Secret] = (),
    ) -> None:
        self._is_file = path is not None
        self._name = _name_of(path)
        self._spill = Spill()
        self._lake: int | None = None  # the snapshot of a DuckLake
        self._read: dict[str | None, Mapping[str, Stamp | None]] = {}
        """Stamps of the database (None) and of tables' files, of before they were opened."""
        if path is not None and is_ducklake(path):
            self._connection, self._lake = _attached_lake(path, self._spill.directory)
        else:
            source = Path(path) if path is not None else None
            if source is not None:
                self._read[None] = stamps_of([str(source.absolute())])
            self._connection = attached(source, self._spill.directory)
        self._locked = False
        self._stream_memory = StreamMemory(0)  # until it is locked
        self._published: Mapping[str, Published] | None = None
        self._opened: dict[frozenset[str], OpenDuckDB] = {}
        self._lock = threading.RLock()
        self._definitions: dict[str, Definition] = {}
        self._untyped: dict[str, _Untyped] = {}  # tables without types of their own
        self._declared: dict[str, tuple[Column, ...]] = {}  # what is declared of tables
        self._loaded: set[str] = set()  # tables of files whose rows are in memory
        self._in_place: dict[str, DataFiles] = {}  # tables that are files, read where they are
        self._views: ListedViews = {}  # what views read, listed once
        self._pinned: dict[str, Pinned] = {}  # tables of lakes, of one snapshot each
        self._reaches = False  # files of the network
        if secrets:
            self._reach(secrets)
        self._places: list[tuple[str | None, str | Path]] = (
            [] if path is None or self._lake is not None else [(None, path)]
        )  # of what may be written: by tables, if it is not the database
        for name, place in files.items():
            self._add(name, _files(place))

    # -- owner side ---------------------------------------------------------------------------

    def register(
        self, name: str, data: object, *, types: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Copy a table from memory: Arrow, pandas, polars, or a dict of columns.

        Lists, and arrays and frames' columns of Python objects, have no type of their own:
        ``types`` gives them one, by name (``{"cost": "DOUBLE"}``), or else the policies file. A
        value that does not fit is NULL, and columns without a type do not exist.
        """
        values = python_values(data)
        read = {each: SqlType.of(text).declared for each, text in types.items()}
        declared = [Column(each, type_) for each, type_ in read.items() if type_ is not None]
        if len(declared) < len(read):
            what = f"a type that is given for a column of {name} is not known"
            raise ParameterError(what, code="bad_parameter", hint=TYPE_HINT)
        if not values.names:  # DuckDB would take columns and types of some such from their values
            what = f"{name} must be a table with columns, not {type_name(data)}"
            raise ParameterError(what, code="bad_parameter", hint=_DATA_IN_MEMORY)
        strangers = [each for each in types if fold(each) not in map(fold, values.names)]
        if strangers:
            what = f"{name} has no column {strangers[0]} that a type could be given to"
            hint = f"Its columns: {', '.join(values.names[:20])}."
            raise ParameterError(what, code="bad_parameter", hint=hint)
        self._refuse_in_use()
        if declared or not (values.untyped or values.loose):
            query = values.query(_FRAME, declared) or sql("SELECT * FROM {}", quoted(_FRAME))
            self._create(name, query, values.data)
            return
        self._refuse_taken(name)
        key = TableName(name).key
        self._untyped[key] = _Untyped(name, values)
        self._published = None
        if values.query(_FRAME, ()) is not None:
            self._read_as(key, ())  # of its typed columns, unless others are declared

    def csv(self, name: str, path: str | Path) -> None:
        """Make CSV files a table: one, a directory or a pattern.

        The policy declares its columns, and they are found by the names in the first line.
        """
        self._add(name, _files(path, FileKind.CSV))

    def json(self, name: str, path: str | Path) -> None:
        """Make JSON files a table, as :meth:`csv` does: of one object in each line, or an array."""
        self._add(name, _files(path, FileKind.JSON))

    def parquet(self, name: str, path: str | Path) -> None:
        """Make Parquet files a table: one, a directory or a pattern. They are read where they are.

        Directories named ``key=value`` are columns where the policy declares ``key``.
        """
        self._add(name, _files(path, FileKind.PARQUET))

    def _add(self, name: str, files: DataFiles) -> None:
        self._refuse_in_use()
        if files.kind.is_lake:
            self._pin(name, files)
            return
        if files.remote:
            self._reach()
        files = listed(self._connection, files)
        key = TableName(name).key
        if files.kind is FileKind.PARQUET:
            self._create(name, parquet_query(files.paths), what="VIEW", files=files)
            self._in_place[key] = files
        else:
            self._refuse_taken(name)
            self._untyped[key] = _Untyped(name, UntypedFiles(files))
            self._published = None
        if not files.remote:
            self._places += [(key, place) for place in files.paths]

    def _refuse_taken(self, name: str) -> None:
        if TableName(name).key in self._untyped or TableName(name).key in self._all():
            raise _not_loaded(name, None, duckdb.CatalogException())

    def proposed(self) -> Mapping[str, tuple[Column, ...]]:
        """Guess names and types of files that have none from their rows, for a draft.

        By the keys of their tables. Only what a draft's owner has read is to be declared.
        """
        found = {}
        for key, table in self._untyped.items():
            if isinstance(table.data, UntypedFiles):
                with contextlib.suppress(duckdb.Error):
                    found[key] = table.data.proposed(self._connection)
        for key in self._in_place:
            named = self._named_by_directories(key)
            found |= {key: named} if named else {}
        return found

    def _named_by_directories(self, key: str) -> tuple[Column, ...]:
        """List the columns whose values are names of directories, and not in Parquet files."""
        stored = self._all()[key].table
        found = directory_types(self._in_place[key].paths)
        return tuple(column for column in found if stored.column(column.name) is None)

    def _pin(self, name: str, files: DataFiles) -> None:
        """Make a table of a lake a table, of the snapshot that it has now."""
        found = pinned(self._connection, files)
        self._create(name, found.query, what="VIEW", files=files)
        self._pinned[TableName(name).key] = found

    def _reach(self, secrets: Sequence[Secret] = ()) -> None:
        """Let the connection reach files of the network, until it is locked."""
        if not self._reaches:
            reach(self._connection, secrets)
            self._reaches = True

    def _create(
        self,
        name: str,
        query: Sql,
        data: object = None,
        what: Literal["TABLE", "VIEW"] = "TABLE",
        files: DataFiles | None = None,
        replaces: bool = False,
    ) -> None:
        self._refuse_in_use()
        refusal = None
        try:
            if data is not None:
                self._connection.register(_FRAME, data)
            kind = sql("TABLE") if what == "TABLE" else sql("VIEW")
            whole = sql("{}.main.{} AS {}", quoted(DATA), quoted(name), query)
            made = sql("CREATE {}{} {}", sql("OR REPLACE ") if replaces else EMPTY_SQL, kind, whole)
            connection = self._connection
            interruptibly(lambda: execute(connection, made), connection.interrupt)
        except duckdb.Error as error:
            refusal = _not_loaded(name, files, error)
        finally:
            if data is not None:
                with contextlib.suppress(duckdb.Error):
                    self._connection.unregister(_FRAME)
        if refusal is not None:
            raise refusal
        self._published = None
        self._definitions.clear()

    def _refuse_in_use(self) -> None:
        if self._locked or self._is_file:
            raise InterfaceError(
                "tables can only be registered on an in-memory engine that is not in use yet",
                code="engine_in_use",
                hint="Create DuckDBEngine(), register every table, then pass it to connect().",
            )

    # -- what its owner asks --------------------------------------------------------------------

    def declare(self, columns: Mapping[str, tuple[Column, ...]]) -> None:
        """Read data that have no types of their own as declared, by the keys of their tables.

        ``connect`` does so with what the policy declares.
        """
        with self._lock:  # of several connections that are opened at once, one reads them
            for key, declared in columns.items():
                self._declare(key, declared)

    def _declare(self, key: str, declared: tuple[Column, ...]) -> None:
        if self._declared.get(key) == declared:
            return
        if key in self._untyped:
            self._read_as(key, declared)
        elif key in self._in_place:
            self._with_directories(key, declared)
        elif not self._locked:
            self._declared[key] = declared
            self._published = None

    def _read_as(self, key: str, declared: tuple[Column, ...]) -> None:
        """Make a table of data without types, of its declared columns."""
        table = self._untyped[key]
        if self._locked:
            raise InterfaceError(
                f"the engine is in use, with other types of the columns of {table.name}",
                code="engine_in_use",
                hint="Declare the same types in all policies of one engine, or use another one.",
            )
        if isinstance(table.data, UntypedFiles):
            try:
                query = table.data.query(self._connection, declared)
            except duckdb.Error as error:
                refusal = _not_loaded(table.name, table.data.files, error)
            else:
                if key in self._loaded:  # as it was declared before
                    drop = sql("DROP TABLE {}.main.{}", quoted(DATA), quoted(table.name))
                    execute(self._connection, drop)
                    self._loaded.discard(key)
                self._create(table.name, query, None, "VIEW", table.data.files, replaces=True)
                self._declared[key] = declared
                return
            raise refusal
        found = table.data.query(_FRAME, declared)
        if found is not None:
            self._create(table.name, found, table.data.data, replaces=True)
            self._declared[key] = declared

    def _with_directories(self, key: str, declared: tuple[Column, ...]) -> None:
        """Add the declared columns to Parquet files that their directories give values to."""
        files, stored = self._in_place[key], self._all()[key].table
        keys = directory_keys(files.paths)
        given = [c for c in declared if fold(c.name) in keys and stored.column(c.name) is None]
        if given:
            name = stored.name.table
            query = parquet_query(files.paths, given)
            self._create(name, query, None, "VIEW", files, replaces=True)
        self._definitions.clear()
        self._declared[key] = declared

    def _load(self, key: str) -> None:
        """Load files that are read as declared into memory, before nothing can be reached."""
        table = self._untyped.get(key)
        if table is None or not isinstance(table.data, UntypedFiles) or key not in self._declared:
            return
        if key in self._loaded:
            return
        self._read[key] = stamps_of([only_file(path) or path for path in table.data.files.paths])
        place, name = sql("{}.main", quoted(DATA)), quoted(table.name)
        loaded = sql("{}.{}", place, quoted(_LOADED))
        steps = (
            sql("CREATE TABLE {} AS SELECT * FROM {}.{}", loaded, place, name),
            sql("DROP VIEW {}.{}", place, name),
            sql("ALTER TABLE {} RENAME TO {}", loaded, name),
        )
        connection = self._connection
        try:
            for step in steps:
                interruptibly(partial(execute, connection, step), connection.interrupt)
        except duckdb.Error as error:
            refusal = _not_loaded(table.name, table.data.files, error)
        else:
            self._loaded.add(key)
            return
        raise refusal

    def catalog(self) -> Catalog:
        made = [each for each in self._untyped if each not in self._declared]
        without = {each: _undeclared(self._untyped[each]) for each in made}
        return Catalog({key: found.table for key, found in self._all().items()} | without)

    def _all(self) -> Mapping[str, Published]:
        with self._lock:
            if self._published is None:
                views = self._views if self._is_file and self._lake is None else None
                made = publish(self._connection, views, self._declared)
                tables = (self._as_table(found) for found in made)
                self._published = {found.table.name.key: found for found in tables}
            return self._published

    def _as_table(self, found: Published) -> Published:
        """Present a view over files in place as a table: only the view is dpsql's own."""
        table = found.table
        is_view = table.is_view and not self._is_in_place(table)
        return replace(found, table=replace(table, is_view=is_view))

    def _is_in_place(self, table: Table) -> bool:
        return any(table.name.key in each for each in (self._in_place, self._pinned, self._untyped))

    @property
    def version(self) -> EngineVersion:
        return EngineVersion.of("duckdb", duckdb.__version__)

    def definition(self, table: TableName) -> Definition:
        found = self.catalog().tables[table.key]
        with self._lock:
            if table.key not in self._definitions:
                self._definitions[table.key] = self._made_of(found)
            return self._definitions[table.key]

    def _made_of(self, table: Table) -> Definition:
        """Describe the definition of one of the owner's tables, by the place of its rows."""
        key = table.name.key
        if key in self._untyped:
            return Definition(table.unreadable)
        if key in self._in_place:
            found = over_parquet(self._connection, self._in_place[key].paths)
            named = map(_named_by_directory, self._named_by_directories(key))
            return replace(found, remarks=(*found.remarks, *named))
        if key in self._pinned:
            return files_definition(self._pinned[key].files)
        if self._lake is not None:
            return ducklake_definition(self._connection, table.name, table.is_view, self._lake)
        evidence = evidence_for(duckdb.__version__)
        return definition(self._connection, table.name, self._views.get(key), evidence)

    def constraints(self) -> ConstraintsOf:
        # Lakes hold their rows to NOT NULL alone.
        return NO_CONSTRAINTS if self._lake is not None else read_constraints(self._connection)

    # -- opening ------------------------------------------------------------------------------

    def prove(self, tables: Iterable[str] | None = None) -> tuple[str, ...]:
        """Read all Parquet files of tables whole, once, and remember that they can be.

        ``dpsql check`` does this. Returns the tables that cannot; ``connect`` refuses these, and
        those of files that were not read, or that have changed since.
        """
        catalog = self.catalog().tables
        found = [catalog[key] for key in (catalog if tables is None else tables) if key in catalog]
        return tuple(
            table.name.key
            for table in found
            if table.unreadable is None
            and not prove(self._connection, self.definition(table.name).proved)
        )

    def misfits(self, table: TableName) -> tuple[Misfit, ...]:
        """Read a table, and list values that differ from the declaration or from the stored type.

        ``dpsql check`` shows it to the owner.
        """
        found, declared = self._untyped.get(table.key), self._declared.get(table.key)
        if found is None or declared is None or not isinstance(found.data, UntypedFiles):
            return self._values_beyond(table)
        try:
            return tuple(misfits(self._connection, found.data, declared))
        except duckdb.Error as error:
            refusal = _not_loaded(found.name, found.data.files, error)
        raise refusal

    def _values_beyond(self, table: TableName) -> tuple[Misfit, ...]:
        """List columns with stored values beyond their type, read as NULL for everybody."""
        try:
            counted = count_beyond(self._connection, self._all()[table.key])
        except duckdb.Error:  # the table cannot be read: `open` says so
            return ()
        return tuple(_beyond(column, number) for column, number in counted)

    def open(self, tables: Iterable[str], memory: str | None = None) -> OpenDuckDB:
        evidence_for(duckdb.__version__)  # without it nothing private could be asked
        with self._lock:
            schema = self.catalog().cut(tables)
            opened = self._opened.get(frozenset(schema))
            if opened is not None:
                return opened
            stamps = self._stamps(schema)
            if not self._locked:
                self._lock_down(schema, memory)
            for key, read in self._read.items():
                stamps |= read if key is None or key in schema else {}
            opened = self._cut(schema, stamps)
            for table in schema.values():
                self._prove(opened, table)
            self._opened[frozenset(schema)] = opened
            return opened

    def _stamps(self, schema: Schema) -> dict[str, Stamp | None]:
        """Read the stamps of tables' files, which have been read whole.

        Raises ``InterfaceError`` (``file_unproved``) if they are not.
        """
        found: dict[str, Stamp | None] = {}
        for table in schema.values():
            files = self.definition(table.name).proved
            found |= stamps_of(files)
            if not is_proved(self._connection, files):
                raise _unproved(table)
        return found

    def _lock_down(self, schema: Schema, memory: str | None) -> None:
        for key in schema:
            self._load(key)
        made_of = [self.definition(table.name) for table in schema.values()]
        allow(self._connection, [file for each in made_of for file in each.files])
        if memory is not None:
            self._limit_memory(memory)
        self._stream_memory = StreamMemory(memory_taken(self._connection) // PART)
        forget(self._connection, (each for each in self._all().values() if each.query))
        lock_down(self._connection)
        self._locked = True

    def _cut(self, schema: Schema, stamps: Mapping[str, Stamp | None]) -> OpenDuckDB:
        """Make the database of a connection: views of these tables, and of no others."""
        place = f"{INTERNAL_PREFIX}listed_{next(_NUMBERS)}"
        execute(self._connection, sql("ATTACH ':memory:' AS {}", quoted(place)))
        for key, table in schema.items():
            try:
                publish_in(self._connection, place, self._all()[key])
            except duckdb.Error:
                raise _view_unreadable(table) from None
        places = tuple(path for key, path in self._places if key is None or key in schema)
        return OpenDuckDB(
            self._connection,
            self._spill,
            place,
            self._name,
            schema,
            places,
            self._edition(schema),
            stamps,
            Streaming(self._stream_memory, self._spill),
        )

    def _edition(self, schema: Schema) -> str | None:
        """Name the snapshots of lakes that are read: ``ducklake 7``, or ``visits: delta 3``."""
        if self._lake is not None:
            return f"ducklake {self._lake}"
        found = sorted((key, each) for key, each in self._pinned.items() if key in schema)
        return ", ".join(f"{key}: {each.snapshot}" for key, each in found) or None

    def _limit_memory(self, memory: str) -> None:
        try:
            execute(self._connection, sql("SET GLOBAL memory_limit = {}", literal(memory)))
        except duckdb.Error:
            raise InterfaceError(
                f"the database alone takes more memory than the limit of {memory}",
                code="memory_too_small",
                hint="Raise limits.memory in the policies file, or keep the data in a file.",
            ) from None

    def _prove(self, opened: OpenDuckDB, table: Table) -> None:
        """Read a view, now that nothing else can be reached. Raises ``InterfaceError``."""
        if not table.is_view and not self._is_in_place(table) and self._lake is None:
            return
        # Rows that are computed cost work; those of files are there.
        made_of = self.definition(table.name)
        if not opened.reads(table, 1 if made_of.files else 0):
            raise _view_unreadable(table)

    def close(self) -> None:
        for opened in self._opened.values():
            opened.close()
        self._connection.close()
        self._spill.remove()


def _named_by_directory(column: Column) -> Remark:
    return Remark(
        f"has directories {column.name}=…, which no column is made of: its type is not declared",
        f"Write `{column.name}: {column.type}` below `columns`, if analysts should use it.",
    )


def _unproved(table: Table) -> InterfaceError:
    return InterfaceError(
        f"the files of the table {table.name} have not been read to their ends, or changed since",
        code="file_unproved",
        hint="Run `dpsql check` on them as their owner: it reads them once, so that no question "
        "can fail on a row of theirs. In Python, DuckDBEngine(files=…).prove() does so.",
    )


def _view_unreadable(table: Table) -> InterfaceError:
    return InterfaceError(
        f"the view {table.name} cannot be read",
        code="view_unreadable",
        hint="Look at its definition, and at the files it reads; load them as a table. An "
        "engine that is in use already reaches the files of its first connection.",
    )


class OpenDuckDB(EngineBase):
    """The listed tables of a DuckDB database, as cursors that see these and nothing else.

    ``place`` is the database of ours that has a view of each.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        spill: Spill,
        place: str,
        name: str,
        schema: Schema,
        places: Sequence[str | Path],
        edition: str | None,
        stamps: Mapping[str, Stamp | None],
        streaming: Streaming,
    ) -> None:
        super().__init__(name, schema, evidence_for(duckdb.__version__).verdicts)
        self._streaming = streaming
        self._stamps = stamps
        self._connection = connection
        self._spill = spill
        self._place = place
        self._places = places
        self._edition = edition
        self._last_reading: LastReading | None = None

    @property
    def written(self) -> str | None:
        found = [last_written(place) for place in self._places]
        times = [time for time in found if time is not None]
        return max(times).isoformat(timespec="microseconds") if times else None

    @property
    def edition(self) -> str | None:
        return self._edition

    def try_out(
        self, rows: Sql, expressions: Sequence[Sql], write: Callable[[Sequence[Sql]], Sql]
    ) -> None:
        """Do nothing: the twin is the same engine, and has examined the statement."""

    def refuse_changed(self) -> None:
        if stamps_of(tuple(self._stamps)) != self._stamps:
            raise InterfaceError(
                "files of the data were written, replaced or removed since they were opened",
                code="files_changed",
                hint="Open a new connection: this one knows the files of before. Parquet files are "
                "checked first, by their owner (`dpsql check`).",
            )

    @contextlib.contextmanager
    def _rehearsal(self) -> Iterator[Rehearsal]:
        """Read each statement that would be sent. Nothing is."""
        yield _Rehearsed(self.last_reading.over)

    @property
    def last_reading(self) -> LastReading:
        """The last reading of statements."""
        twin = self._empty_twin()
        with self._twin_lock:
            if self._last_reading is None:
                self._last_reading = LastReading(twin.cursor, self._schema)
            return self._last_reading

    def close(self) -> None:
        with self._twin_lock:
            if self._last_reading is not None:
                self._last_reading.close()
        super().close()

    def run(self, seconds: float | None = None) -> DuckDBRun:
        return DuckDBRun(self._cursor, self.last_reading, self._streaming, seconds)

    def reads(self, table: Table, rows: int) -> bool:
        """Tell whether a table can be read, so many rows of it."""
        try:
            # As it is: Python may lack what a value of some type takes there.
            some = sql("SELECT * FROM {} LIMIT {}", table_sql(table.name), rows)
            materialized(self._cursor(), some)
        except duckdb.Error:
            return False
        return True

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        self._spill.make()
        cursor = self._connection.cursor()
        execute(cursor, sql("USE {}", quoted(self._place)))
        return cursor


class DuckDBRun(RunBase):
    """The statements of one query, on cursors of their own.

    DuckDB interrupts what one cursor runs, and nothing else of the same database.
    """

    def __init__(
        self,
        cursor: Callable[[], duckdb.DuckDBPyConnection],
        reading: LastReading,
        streaming: Streaming,
        seconds: float | None,
    ) -> None:
        self._new_cursor = cursor
        self._reading = reading
        self._halt = Halt()
        self._streaming = replace(streaming, halt=self._halt)
        self._cursors: list[duckdb.DuckDBPyConnection | Halt] = [self._halt]
        super().__init__(seconds, partial(_interrupt_all, self._cursors))

    def begin(self, tables: Iterable[TableName]) -> None:
        """Do nothing: the database was opened for reading, and nobody else can write it."""

    def release(self) -> None:
        """Do nothing: cursors hold nothing of others."""

    def place(self, sheet: Sheet) -> DuckDBScratch:
        cursor = self._new_cursor()
        self._cursors.append(cursor)
        return DuckDBScratch(cursor, sheet, self._streaming)

    def _sheet(self, reads: Reads) -> Sheet:
        return self._reading.over(reads)

    def _all_of(self, table: Table) -> Sql:
        return sql("SELECT * FROM {}", table_sql(table.name))


def _name_of(path: str | Path | None) -> str:
    """Name a database as DuckDB does: after its file, up to the first dot."""
    if path is None:
        return "memory"
    name = Path(bare_path(path)).name.split(".", 1)[0]
    return f"{name}_db" if fold(name) in _TAKEN else name


def _attached_lake(path: str | Path, temp_directory: str) -> tuple[duckdb.DuckDBPyConnection, int]:
    """Open a database of ours with a lake attached; returns its snapshot, too."""
    connection = ours(temp_directory)
    try:
        return connection, attach_ducklake(connection, path)
    except InterfaceError:
        connection.close()
        raise


@dataclass(frozen=True, slots=True)
class _Untyped:
    """A table of data without types of their own, and its name as the owner wrote it."""

    name: str
    data: UntypedFiles | PythonValues


def _undeclared(table: _Untyped) -> Table:
    """Describe a table without declared columns, which cannot be read."""
    hint = _DECLARE_FILES if isinstance(table.data, UntypedFiles) else _DECLARE_VALUES
    return Table(table.name, (), unreadable=Remark(_NOT_DECLARED, hint))


def _beyond(column: Column, number: int) -> Misfit:
    """Say that values of a column are none of its type."""
    if column.type.is_temporal:
        return Misfit(
            column.name,
            f"{number:,} of its moments are beyond those that have a text, and are NULL",
            "Write them again: seconds may have been taken for microseconds, or the reverse.",
        )
    return Misfit(
        column.name,
        f"{number:,} of its values have more digits than {column.type}, and are NULL",
        "Write them again as a type with room for them.",
    )


def _not_loaded(name: str, files: DataFiles | None, error: duckdb.Error) -> InterfaceError:
    if files is not None and files.remote and not isinstance(error, duckdb.CatalogException):
        return unreachable(files, error)
    hint = "Check that the data can be read by DuckDB."
    if isinstance(error, duckdb.CatalogException):
        hint = "Check that the name is not taken."
    elif files is None:
        hint = _DATA_IN_MEMORY
    return InterfaceError(f"table {name} could not be loaded", code="table_unreadable", hint=hint)


def _interrupt_all(cursors: list[duckdb.DuckDBPyConnection | Halt]) -> None:
    for cursor in tuple(cursors):
        with contextlib.suppress(duckdb.Error):  # it was closed a moment ago
            cursor.interrupt()


class DuckDBScratch(ScratchBase):
    """A cursor with temporary tables: in memory, or in a private directory where that is short.

    Streams of keys that have been read hold on to the cursor, and need none of its tables.
    """

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, sheet: Sheet, streaming: Streaming
    ) -> None:
        super().__init__(sheet)
        self._cursor = cursor
        self._streaming = streaming

    def _discreetly(self, run: Callable[[], _T]) -> _T:
        return discreetly(run)

    def _stream(self, passed: Passed) -> IntegerStream:
        return DuckDBStream(relation(self._cursor, passed.statement), self._streaming)

    def _exact(self, passed: Passed, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        if numpy_safe(keys):
            return _from_numpy(self._executed(passed), [key.name for key in keys], measures)
        return _from_arrow(self._materialized(passed), keys, measures)

    def _pairs(self, passed: Passed) -> ArrowStream:
        return MaterializedStream(self._materialized(passed))

    def _integers(self, passed: Passed) -> list[NDArray[np.int64]]:
        return [_integers(column) for column in self._executed(passed).values()]

    def _store(self, name: str, passed: Passed) -> int:
        made = sql("CREATE TEMP TABLE {} AS {}", quoted(name), passed.statement)
        (rows,) = execute(self._cursor, made, list(passed.given)).fetchall()
        return int(rows[0])

    def _drop(self, name: str) -> None:
        execute(self._cursor, sql("DROP TABLE {}", quoted(name)))

    def _executed(self, passed: Passed) -> dict[str, NDArray[Any]]:
        """Run a statement, whose columns are arrays."""
        return execute(self._cursor, passed.statement, list(passed.given)).fetchnumpy()

    def _materialized(self, passed: Passed) -> duckdb.DuckDBPyRelation:
        """Run a statement, whose rows stay in the engine."""
        given = list(passed.given) or None
        return materialized(self._cursor, passed.statement, given)


class _Rehearsed(Rehearsal):
    """Statements that are read and not sent; a stored table is an empty table of the twin."""

    def _planned(self, passed: Passed) -> int:
        assert passed.columns is not None, "the twin counts them"
        return passed.columns

    def _make(self, name: str, passed: Passed) -> None:
        """Do nothing: the sheet has it made."""

    def _drop(self, name: str) -> None:
        """Do nothing: the sheet has it dropped."""


def discreetly(run: Callable[[], _T]) -> _T:
    """Run something; replace DuckDB's errors by one with a fixed text, by their kind."""
    return withholding_texts(run, _code)


def _code(error: Exception) -> str | None:
    """Classify an error of DuckDB's by its class; None for other errors."""
    raise_if_interrupted(error)
    if isinstance(error, duckdb.InterruptException):
        return "interrupted"
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return "memory_limit"
    return "engine_failed" if isinstance(error, duckdb.Error | RuntimeError | OSError) else None


def open_database(path: str | Path) -> DuckDBEngine:
    """Open a DuckDB file, a lake, or files that are one table: Parquet, CSV, JSON, Delta, Iceberg.

    Such a table is named after its file, or after the directory of its files.
    """
    files = data_files(path)
    return DuckDBEngine(path) if files is None else DuckDBEngine(files={files.table: path})


def _files(path: str | Path, kind: FileKind | None = None) -> DataFiles:
    """Find files, of a kind that is given or of any."""
    found = data_files(path)
    if found is None and kind is not None and Path(path).is_file():
        whole = as_read(os.path.abspath(path))
        return DataFiles(Path(path).stem, kind, (whole,))  # whatever it is called
    if found is None or (kind is not None and found.kind is not kind):
        raise InterfaceError(
            f"{path} is no file that can be read as {'data' if kind is None else kind.name}",
            code="file_missing",
            hint="Files are told apart by their suffixes: .parquet, .csv, .tsv, .json, .jsonl.",
        )
    return found


def _from_numpy(
    columns: dict[str, NDArray[Any]], keys: Sequence[str], measures: Sequence[str]
) -> ExactRows:
    order = np.argsort(columns[ROW_ID], kind="stable")
    return ExactRows(
        row_ids=_integers(columns[ROW_ID][order]),
        measures={name: _integers(columns[name][order]) for name in measures},
        keys={name: columns[name][order] for name in keys},
    )


def _from_arrow(
    rows: duckdb.DuckDBPyRelation, keys: Sequence[Column], measures: Sequence[str]
) -> ExactRows:
    numbers = selected(rows, map(quoted, [ROW_ID, *measures])).fetchnumpy()
    names = [quoted(ROW_ID), *(quoted(key.name) for key in keys)]
    spelled = [one_spelling(quoted(key.name), key.type) for key in keys]
    shown = [sql("{} AS {}", *each) for each in zip(spelled, names[1:], strict=True)]
    stream = MaterializedStream(selected(rows, [names[0], *shown]))
    return replace(_from_numpy(numbers, (), measures), keys=stream)


class MaterializedStream:
    """A DuckDB relation as an Arrow stream, for another DuckDB instance to scan.

    ``interrupted``: it was stopped while it was scanned. The other instance tells of any error.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation
        self.interrupted = False

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        try:
            return self._relation.__arrow_c_stream__(requested_schema)
        except duckdb.InterruptException:
            self.interrupted = True
            raise


def _integers(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ma.filled(values, 0).astype(np.int64)
