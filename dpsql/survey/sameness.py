"""Surveys whether a server computes what DuckDB does: calls are compared on edge values.

Each expression goes both ways that it does in a question: through DuckDB, made total, and as the
engine's dialect writes it with all verdicts open. Both compute it over a list of constants, every
edge value of a column beside every one of the other, and NULL: no data of an owner are read, and
nothing is created. The last call of an expression gets the verdict, and a call the worst of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby, product
from typing import Any, Final, Protocol
from uuid import UUID

import duckdb
import pyarrow as pa

from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql, bare_word, digits, join, sql
from dpsql.core.sql_types import DATE, TIMESTAMP, SqlType
from dpsql.engines.base.row_expressions import RowExpressions
from dpsql.engines.base.row_types import UNTYPED
from dpsql.engines.base.server_dialect import ServerDialect
from dpsql.engines.dialects import SERVERS, TWIN
from dpsql.engines.embedded.lockdown import lock_down
from dpsql.engines.embedded.running import execute, relation
from dpsql.engines.evidence.edges import COMPARED, edge_sql
from dpsql.engines.evidence.verdicts import DIFFERS, REWRITTEN, SAME, EngineVersion, Verdicts
from dpsql.errors import EngineError, QueryRefused
from dpsql.sql.expressions.alike import write_alike
from dpsql.sql.expressions.totality import total, total_sql
from dpsql.survey.forms import ComparedForm, forms
from dpsql.syntax.parse import parse


class Server(Protocol):
    """A database whose engine is not DuckDB, and computes statements over constants."""

    @property
    def version(self) -> EngineVersion:
        """The engine and its version."""

    def over_constants(self, statement: Sql) -> pa.Table:
        """Run a statement that reads no table. Raises ``EngineError`` with a fixed text."""


# -- what is known of an engine beforehand --------------------------------------------------------

CLOSE: Final = f"{SAME} but for the last digits of a DOUBLE"
_PRECISION: Final = 4e-15


@dataclass(frozen=True, slots=True)
class _Note:
    """An examined difference between engines, documented on the engine's page."""

    text: str
    is_it: Callable[[object, object], bool]
    """Tells of a value of the engine's, and DuckDB's, whether this is the difference."""


def _is_null(found: object, expected: object) -> bool:
    return found is None


def _is_text(found: object, expected: object) -> bool:
    return isinstance(found, str) and isinstance(expected, str)


_NUMBERS_AS_NULL: Final = _Note("numbers such as 1_000 are NULL", _is_null)
_INTEGERS_AS_NULL: Final = _Note("numbers such as 1_000, 0x1F and 0b1 are NULL", _is_null)
_OUTSIDE_AS_NULL: Final = _Note("dates out of the years 1 to 9999 are NULL", _is_null)


_NOTES: Final[Mapping[str, Mapping[str, _Note]]] = {
    "postgresql": {
        "CAST AS TINYINT(VARCHAR)": _INTEGERS_AS_NULL,
        "CAST AS SMALLINT(VARCHAR)": _INTEGERS_AS_NULL,
        "CAST AS INTEGER(VARCHAR)": _INTEGERS_AS_NULL,
        "CAST AS BIGINT(VARCHAR)": _INTEGERS_AS_NULL,
        "CAST AS DOUBLE(VARCHAR)": _NUMBERS_AS_NULL,
        "CAST AS DATE(VARCHAR)": _Note(
            "texts other than 2024-02-29 and 2024-02-29 23:59:59.5 are NULL", _is_null
        ),
        "CAST AS TIMESTAMP(VARCHAR)": _Note(
            "texts other than 2024-02-29 and 2024-02-29 23:59:59.5 are NULL", _is_null
        ),
    },
    "spark": {
        "lower(VARCHAR)": _Note(
            "for letters that Unicode writes otherwise in lower case, as İ", _is_text
        ),
        "upper(VARCHAR)": _Note("for letters that become two in upper case, as ß", _is_text),
        "cast(VARCHAR, INTEGER)": _INTEGERS_AS_NULL,
        "cast(VARCHAR, BIGINT)": _INTEGERS_AS_NULL,
        "cast(VARCHAR, DOUBLE)": _NUMBERS_AS_NULL,
        **{f"cast(VARCHAR, DECIMAL({n}))": _NUMBERS_AS_NULL for n in (4, 9, 18, 38)},
        "cast(VARCHAR, DATE)": _Note("texts other than 2024-02-29 are NULL", _is_null),
        "cast(VARCHAR, TIMESTAMP)": _Note(
            "texts other than 2024-02-29 and 2024-02-29 23:59:59.5 are NULL", _is_null
        ),
        "+(DATE, INTEGER)": _OUTSIDE_AS_NULL,
        "-(DATE, INTEGER)": _OUTSIDE_AS_NULL,
    },
}
"""By engine and call."""


# -- the survey -----------------------------------------------------------------------------------

_MOST_ROWS: Final = 6000
_TOGETHER: Final = 40  # expressions of one statement
_DAYS: Final = (-719_162, 2_932_896)
"""The first and the last day of the years 1 to 9999, from 1970 on."""
_MICROSECONDS: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """A form with its SQL in both engines, and the call it is about, if any."""

    form: ComparedForm
    call: str
    alike: bool
    type: SqlType
    duckdb: Sql
    server: Sql


def survey_sameness(server: Server, asked: Iterable[ComparedForm] | None = None) -> Verdicts:
    """Compare a server with DuckDB, form by form, by default on all that there are.

    It takes some minutes. Raises ``InterfaceError`` or ``EngineError`` if the server is lost.
    """
    comparison = _Comparison(server)
    found: dict[str, list[str]] = {}
    try:
        for types, some in groupby(forms() if asked is None else asked, lambda form: form.types):
            cases = [case for form in some if (case := comparison.case(form)) and case.call]
            for case, verdict in comparison.compared(types, cases):
                found.setdefault(case.call, []).append(verdict)
    finally:
        comparison.close()
    return Verdicts(server.version, {call: _worst(found[call]) for call in sorted(found)})


def _worst(verdicts: Sequence[str]) -> str:
    return max(verdicts, key=_severity)


def _severity(verdict: str) -> int:
    if verdict.startswith(DIFFERS):
        return 4
    if verdict in (SAME, REWRITTEN):
        return int(verdict == REWRITTEN)
    return 2 if verdict == CLOSE else 3


class _Comparison:
    """Both engines side by side."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._notes = _NOTES.get(server.version.engine, {})
        self._dialect = unjudged(server.version)
        self._duckdb = duckdb.connect(":memory:", config={"threads": "1"})
        lock_down(self._duckdb)  # for its settings
        self._held: dict[SqlType, tuple[str, ...]] = {}

    def close(self) -> None:
        """Close what is ours."""
        self._duckdb.close()

    def case(self, form: ComparedForm) -> Case | None:
        """Write a form for both engines; None for a refused one."""
        return case_of(form, self._dialect)

    def compared(
        self, types: Sequence[SqlType], cases: Sequence[Case]
    ) -> Iterator[tuple[Case, str]]:
        """Yield the verdicts on cases over columns of these types."""
        if not cases or not all(map(self._held_values, types)):
            return
        rows = self._rows(types)
        self._fill(types, rows)
        source = self._constants(types, rows)
        for start in range(0, len(cases), _TOGETHER):
            some = [(case, self._expected(case)) for case in cases[start : start + _TOGETHER]]
            known = [(case, expected) for case, expected in some if expected is not None]
            found = self._computed([case for case, _ in known], source)
            for (case, expected), values in zip(known, found, strict=True):
                yield case, self._verdict(case, expected, values)

    # -- rows of edge values ------------------------------------------------------------------

    def _rows(self, types: Sequence[SqlType]) -> list[tuple[str | None, ...]]:
        """Combine the edge values of columns, and NULL."""
        rows = list(product(*([*self._held_values(kind), None] for kind in types)))
        stride = max(1.0, len(rows) / _MOST_ROWS)
        return [rows[int(place * stride)] for place in range(min(len(rows), _MOST_ROWS))]

    def _held_values(self, kind: SqlType) -> tuple[str, ...]:
        """List the edge values of a type that the server has constants of; none for no type."""
        if kind not in self._held:
            self._held[kind] = tuple(edge for edge in COMPARED[kind] if self._has(edge, kind))
        return self._held[kind]

    def _has(self, edge: str, kind: SqlType) -> bool:
        try:
            return self._constant(edge, kind) != self._constant(None, kind)
        except QueryRefused:
            return False

    def _fill(self, types: Sequence[SqlType], rows: Sequence[tuple[str | None, ...]]) -> None:
        listed = zip(_columns(types), types, strict=True)
        columns = join(", ", (sql("{} {}", column, kind.sql) for column, kind in listed))
        values = (
            sql("({}, {})", digits(place), join(", ", map(_duckdb_constant, row, types)))
            for place, row in enumerate(rows)
        )
        for statement in (
            sql("CREATE OR REPLACE TABLE t (i INTEGER, {})", columns),
            sql("INSERT INTO t VALUES {}", join(", ", values)),
        ):
            execute(self._duckdb, statement)

    def _constants(self, types: Sequence[SqlType], rows: Sequence[tuple[str | None, ...]]) -> Sql:
        """Write rows as the server's own, where a FROM clause has them."""
        values = (
            sql("({}, {})", digits(place), join(", ", map(self._constant, row, types)))
            for place, row in enumerate(rows)
        )
        names = join(", ", (bare_word("i"), *_columns(types)))
        listed = sql("SELECT * FROM (VALUES {}) AS v({})", join(", ", values), names)
        return self._dialect.derived(listed, bare_word("t"))

    def _constant(self, edge: str | None, kind: SqlType) -> Sql:
        if edge is None:
            return self._dialect.cast(sql("NULL"), kind)
        return self._dialect.declared(edge, kind)

    # -- computing ----------------------------------------------------------------------------

    def _expected(self, case: Case) -> _Values | None:
        """Compute a case in DuckDB; None where it fails on a row, as it is refused there, too."""
        try:
            asked = sql("SELECT {} AS x FROM t ORDER BY i", case.duckdb)
            answer = relation(self._duckdb, asked)
            type_ = SqlType.of(str(answer.types[0]))
            return _Values(type_, _plain(answer.to_arrow_table().column(0), type_))
        except duckdb.Error:
            return None

    def _computed(self, cases: Sequence[Case], source: Sql) -> Iterator[list[Any] | None]:
        """Compute cases on the server, together, or one by one after a failure."""
        if not cases:
            return
        try:
            yield from self._answers(cases, source)
            return
        except EngineError:
            self._answers((), source)  # it is not the server that fails
        for case in cases:
            try:
                yield from self._answers([case], source)
            except EngineError:
                yield None

    def _answers(self, cases: Sequence[Case], source: Sql) -> list[list[Any]]:
        columns = [
            bare_word("i"),
            *(sql("{} AS {}", case.server, bare_word(f"x{n}")) for n, case in enumerate(cases)),
        ]
        asked = sql("SELECT {} FROM {} ORDER BY i", join(", ", columns), source)
        answer = self._server.over_constants(asked)
        return [_plain(answer.column(n + 1), case.type) for n, case in enumerate(cases)]

    # -- judging ------------------------------------------------------------------------------

    def _verdict(self, case: Case, expected: _Values, found: Sequence[Any] | None) -> str:
        text = case.form.text
        if found is None:
            return f"{DIFFERS}: {text} fails on some values"
        if not _is_type(case.type, expected.type):
            return f"{DIFFERS}: {text} has the type {expected.type}, not {case.type}"
        note = self._notes.get(case.call)
        close = noted = False
        for one, other in zip(found, expected.values, strict=True):
            if _is_equal(one, other):
                continue
            if note is not None and note.is_it(one, other):
                noted = True
            elif _is_close(one, other):
                close = True
            elif one is not None or not _is_outside(other, expected.type):
                return f"{DIFFERS}: {text} is {one!r:.40}, not {other!r:.40}"
        if note is not None and noted:
            return f"{SAME} but {note.text}"
        if close:
            return CLOSE
        return SAME if case.alike or not self._dialect.rows.written_alike else REWRITTEN


def case_of(form: ComparedForm, dialect: ServerDialect) -> Case | None:
    """Write a form for a dialect's engine; None for a refused one."""
    table = Table("t", tuple(Column(n, t) for n, t in zip("ab", form.types, strict=False)))
    typed = parse(form.question).expressions[0].this
    tree = write_alike(typed, lambda column: dict(zip("ab", form.types, strict=False))[column.name])
    rules = RowExpressions(table, dialect.rows, None)
    try:
        in_duckdb = total_sql(tree.copy(), table, TWIN)
        made = rules.result(total(tree, table, dialect)).settled
    except QueryRefused:
        return None
    call, alike = rules.calls[-1] if rules.calls else ("", True)
    return Case(form, call, alike, made.type, in_duckdb, made.sql)


def unjudged(version: EngineVersion) -> ServerDialect:
    """Return the dialect of a version without verdicts."""
    return SERVERS[version.engine](Verdicts(version, {}))


# -- values ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that DuckDB computes, and their type."""

    type: SqlType
    values: list[Any]


def _columns(types: Sequence[SqlType]) -> list[Sql]:
    return [bare_word(letter) for letter, _ in zip("ab", types, strict=False)]


def _duckdb_constant(edge: str | None, kind: SqlType) -> Sql:
    return sql("NULL") if edge is None else edge_sql(edge, kind)


def _is_type(ours: SqlType, theirs: SqlType) -> bool:
    """Tell whether an expression has DuckDB's type for it, where DuckDB gives one."""
    return ours == UNTYPED or ours.is_declared_as(theirs) or theirs.text == '"NULL"'


def _plain(column: pa.ChunkedArray, type_: SqlType) -> list[Any]:
    """Return a column's values for comparison: moments as numbers."""
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist())
    if pa.types.is_date(column.type):
        return list(column.cast(pa.date32()).cast(pa.int32()).to_pylist())
    values = column.to_pylist()
    match type_.kind:
        case "DECIMAL" | "HUGEINT":
            return [value if value is None else Decimal(value) for value in values]
        case "UUID":
            return [value if value is None else _uuid(value) for value in values]
    return list(values)


def _uuid(value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    return UUID(bytes=value) if isinstance(value, bytes) else UUID(value)


def _is_equal(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    numbers = isinstance(one, int | Decimal) and isinstance(other, int | Decimal)
    if numbers and not isinstance(one, bool) and not isinstance(other, bool):
        return one == other
    return type(one) is type(other) and one == other


def _is_close(one: object, other: object) -> bool:
    if not isinstance(one, float) or not isinstance(other, float):
        return False
    return math.isclose(one, other, rel_tol=_PRECISION)


def _is_outside(value: object, type_: SqlType) -> bool:
    """Tell whether a date or timestamp lies out of the years that servers have."""
    if not isinstance(value, int) or type_ not in (DATE, TIMESTAMP):
        return False
    day = value if type_ == DATE else value // _MICROSECONDS
    return not _DAYS[0] <= day <= _DAYS[1]
