"""Surveys DuckDB's functions for totality: calls each with the extremes of its types.

A function is called with every combination of edge values of its arguments' types, as columns and
as constants, on tables whose statistics hold those values. What never fails is TOTAL; what fails in
ways that TRY turns into NULL is NULL; everything else FAILS, and the first error's kind is noted.
The outcome is what :mod:`dpsql.engines.evidence.evidence` judges plans by. No data of an owner are
read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import duckdb

from dpsql.core.sql import Sql, bare_word, digits, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import INTEGER, VARCHAR, SqlType
from dpsql.engines.duckdb.forms import BYTES, CALLED_ON_ROWS, OWN_FUNCTIONS
from dpsql.engines.embedded.lockdown import lock_down
from dpsql.engines.embedded.plans import read_plan
from dpsql.engines.embedded.running import execute, serialized_plan
from dpsql.engines.evidence.edges import DECIMALS, EDGES, SCALARS, Edge, edge_sql, edge_values
from dpsql.engines.evidence.evidence import BUCKETS, PATTERNED, SPECIFIED, call_of, calls
from dpsql.engines.evidence.verdicts import FAILS, NULL, TOTAL, EngineVersion, Verdicts
from dpsql.syntax.row_functions import PATHS_TRIED

_PARTS = (
    *("century", "day", "decade", "hour", "microseconds", "millennium", "milliseconds", "minute"),
    *("month", "quarter", "second", "year", "dayofweek", "dow", "weekday", "dayofyear", "doy"),
    *("epoch", "era", "isodow", "isoyear", "timezone", "timezone_hour", "timezone_minute", "week"),
    *("weekofyear", "yearweek", "julian", "nanosecond", "dayofmonth", "hours", "days", "weeks"),
    *("months", "years", "quarters", "minutes", "seconds", "decades", "centuries", "millenniums"),
)


_NEVER_ASKED: Final = BYTES | {"hash", "list_value", ">>"}
SURVEYED_FUNCTIONS: Final = sorted(CALLED_ON_ROWS | (OWN_FUNCTIONS - _NEVER_ASKED))
"""What expressions over private rows can be bound to; operators and comparisons aside."""

_COMPARISONS: Final = (
    *(sql("="), sql("<>"), sql("<"), sql("<="), sql(">"), sql(">=")),
    *(sql("IS NOT DISTINCT FROM"), sql("IS DISTINCT FROM")),
)
_DIGITS: Final = (-2147483648, -400, -1, 0, 1, 38, 400, 2147483647)
_LIKE: Final = tuple((pattern, "#") for pattern in ("a#%%", "", "##", "%#_"))
_SEARCHED: Final = (
    *("", "a", "^a", "a$", "^$", ".", "x+", "[^0-9]+", "(?:a|ä|)*", "[a-z]{0,100}x", "\\x{1f600}"),
    *("(a)|(b)", "^[+-]?[0-9]+(?:\\.[0-9]+)?$"),
)
_CONSTANTS: Final[Mapping[str, Sequence[tuple[str | int, ...]]]] = {
    **dict.fromkeys(("like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"), _LIKE),
    "strftime": [
        (f"%{directive}",) for directive in (*"YmdHMSyjBbAapIGVufFT%", "-d", "-m", "-H", "-I")
    ],
    **{key: [(each,) for each in _SEARCHED] for key in ("regexp_matches", "regexp_full_match")},
    "struct_extract": [("a",)],
    "json_extract_string": [(path,) for path in PATHS_TRIED],
    "regexp_extract": [(each, 0) for each in _SEARCHED] + [("(a)|(b)", 1), ("(a)|(b)", 2)],
    "regexp_replace": [
        (each, *more) for each in _SEARCHED for more in (("",), ("yy",), ("\\0-", "g"), ("", "g"))
    ],
}
"""The constants after the first argument of a function, by its name."""
_WIDTHS: Final = tuple(
    f"{n} {unit}"
    for n in (1, 7, 15, 100_000)
    for unit in ("second", "minute", "hour", "day", "week", "month", "year")
)
_BEYOND_RESULTS: Final = frozenset({("bit_count", "HUGEINT"), ("bit_count", "BIT")})
"""Functions of types that have more bits than their result, a TINYINT, or their range can count."""
_OF_ELEMENTS: Final = frozenset({"list_contains", "list_position"})
"""Functions of a list, and of a value as its elements are."""
_MOST_ROWS = 600
_REFUSED_FREE = (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException)


@dataclass(frozen=True, slots=True)
class _Form:
    """A call over columns ``a0, a1, …`` of ``types``, as it is written of its arguments."""

    write: Callable[..., Sql]
    types: tuple[SqlType, ...]

    def sql(self, arguments: Iterable[Sql]) -> Sql:
        return self.write(*arguments)

    def over_columns(self) -> Sql:
        """Write the call over the columns of the table of extremes."""
        return self.sql(_columns(len(self.types)))


def _columns(count: int) -> list[Sql]:
    return [bare_word(f"a{place}") for place in range(count)]


def _operation(sign: Sql) -> Callable[..., Sql]:
    return lambda one, other: sql("({} {} {})", one, sign, other)


def _cast(word: Sql, target: SqlType) -> Callable[..., Sql]:
    return lambda value: sql("{}({} AS {})", word, value, target.sql)


def _call(name: str, before: Sequence[Sql] = (), after: Sequence[Sql] = ()) -> Callable[..., Sql]:
    """Write a function, with constants before or after its arguments."""
    return lambda *given: sql("{}({})", quoted(name), join(", ", (*before, *given, *after)))


def survey_totality() -> Verdicts:
    """Survey this process's DuckDB: a verdict for each call it can bind.

    Takes about a minute. Calls are named as :func:`dpsql.engines.evidence.evidence.call_of` names
    them.
    """
    surveyor = _Surveyor()
    verdicts: dict[str, str] = {}
    for form in _forms():
        verdicts |= surveyor.verdict(form, known=verdicts)
    # What is bound to several calls tells about the one that has no form of its own.
    for form in _forms():
        verdicts |= surveyor.verdict(form, known=verdicts, beside=True)
    return Verdicts(EngineVersion.of("duckdb", duckdb.__version__), verdicts)


def _forms() -> Iterator[_Form]:
    yield from _casts()
    for kind in EDGES:
        for sign in _COMPARISONS:
            yield _Form(_operation(sign), (kind, kind))
    catalog = _catalog()
    for name in SURVEYED_FUNCTIONS:
        for types in _signatures(name, catalog.get(name, ())):
            yield from _called(name, types)


def _casts() -> Iterator[_Form]:
    targets = [type_ for type_ in SCALARS if type_.kind not in ("BIT", "BIGNUM", "JSON")]
    for source in SCALARS:
        for target in targets:
            if source != target:
                yield _Form(_cast(sql("CAST"), target), (source,))
                yield _Form(_cast(sql("TRY_CAST"), target), (source,))
    for source, target in _widenings():
        yield _Form(_cast(sql("CAST"), target), (source,))
    for target in EDGES:
        yield _Form(partial(_cast(sql("CAST"), target), sql("NULL")), ())
    for nested in EDGES.keys() - set(SCALARS):
        yield _Form(_cast(sql("CAST"), VARCHAR), (nested,))


def _widenings() -> Iterator[tuple[SqlType, SqlType]]:
    """Yield integer types and decimals with decimals that have just room for all their values."""
    for source in SCALARS:
        if not (source.is_integer or source.is_decimal):
            continue
        width, behind = source.digits
        whole = width - behind if source.is_decimal else width
        for scale in dict.fromkeys((behind, behind + 1, 38 - whole)):
            for more in (0, 1):
                target = SqlType.decimal(whole + more + scale, scale)
                if behind <= scale and target.digits[0] <= 38 and source != target:
                    yield source, target


def _called(name: str, types: tuple[SqlType, ...]) -> Iterator[_Form]:
    if name in BUCKETS:
        for width in _WIDTHS if len(types) == 2 else ():
            interval = sql("CAST({} AS INTERVAL)", literal(width))
            yield _Form(_call(name, [interval]), types[1:])
    elif name in SPECIFIED:
        for part in _PARTS:
            yield _Form(_call(name, [literal(part)]), types[1:])
    elif name in PATTERNED:
        for constants in _CONSTANTS[name]:
            written = [literal(c) if isinstance(c, str) else digits(c) for c in constants]
            yield _Form(_call(name, after=written), types[:1])
    else:
        yield _Form(_call(name), types)
    if name in ("round", "trunc") and len(types) == 2:
        for places in _DIGITS:  # which may have to be a constant
            size = sql("CAST({} AS INTEGER)", digits(places))
            yield _Form(_call(name, after=[size]), types[:1])


def _catalog() -> dict[str, list[tuple[list[str], str | None]]]:
    with duckdb.connect(":memory:") as connection:
        listed = sql(
            "SELECT function_name, parameter_types, varargs FROM duckdb_functions() "
            "WHERE function_type = 'scalar' AND schema_name = 'main'"
        )
        rows = execute(connection, listed).fetchall()
    found: dict[str, list[tuple[list[str], str | None]]] = {}
    for name, parameters, varargs in rows:
        found.setdefault(name, []).append((parameters, varargs))
    return found


def _signatures(
    name: str, overloads: Iterable[tuple[list[str], str | None]]
) -> Iterator[tuple[SqlType, ...]]:
    """Yield the argument types to try: each overload's, ANY and T being every type in turn."""
    seen: set[tuple[SqlType, ...]] = set()
    if name in _OF_ELEMENTS:
        yield from ((SqlType.of(f"{type_}[]"), type_) for type_ in SCALARS)
        return
    for parameters, varargs in overloads:
        shapes = [parameters]
        if varargs is not None:
            shapes = [[*parameters, varargs][:2]]
        for shape in shapes:
            for types in _filled(shape):
                if not types or (name, types[0].kind) in _BEYOND_RESULTS:
                    continue
                if types not in seen:
                    seen.add(types)
                    yield types


def _filled(shape: Sequence[str]) -> Iterator[tuple[SqlType, ...]]:
    anything = tuple(map(SqlType.of, ("ANY", "T", "K")))
    decimal = SqlType.of("DECIMAL")
    kept = [SqlType.of(_kept(part)) for part in shape]
    if all(part in EDGES for part in kept):
        yield tuple(kept)
    elif all(part in EDGES or part in anything for part in kept):
        for kind in EDGES:
            yield tuple(kind if part in anything else part for part in kept)
    elif all(part in EDGES or part == decimal for part in kept):
        for kind in DECIMALS:
            yield tuple(kind if part == decimal else part for part in kept)


def _kept(part: str) -> str:
    lists = {"ANY[]": "INTEGER[]", "T[]": "INTEGER[]", "MAP(K, V)": "MAP(VARCHAR, INTEGER)"}
    lists["STRUCT"] = "STRUCT(a INTEGER)"
    return lists.get(part, part)


class _Surveyor:
    """Runs calls on one database after the other: an internal error ends a database."""

    def __init__(self) -> None:
        self._connection = self._opened()
        self._made: list[Sql] = []

    def _opened(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:", config={"threads": "1"})
        lock_down(connection)  # for its settings
        return connection

    def verdict(
        self, form: _Form, known: Mapping[str, str], *, beside: bool = False
    ) -> dict[str, str]:
        """Judge the call that a form is bound to; nothing if it is not bound at all.

        ``beside``: on the one call of several that is not known yet; else nothing for several.
        """
        types = form.types or (INTEGER,)
        self._create(types, [])
        plan = self._plan(sql("SELECT {} FROM edges", form.over_columns()))
        names = set() if plan is None else {call_of(node) for node in calls(plan)}
        if beside:
            names = names - known.keys() if len(names) > 1 else set()
        if len(names) != 1:
            return {}
        (name,) = names
        former = known.get(name, TOTAL)
        if former.startswith(FAILS):
            return {}
        return {name: max(self._judged(form, types), former, key=_severity)}

    def _judged(self, form: _Form, types: Sequence[SqlType]) -> str:
        rows = _rows(types)
        bare = form.over_columns()
        self._create(types, rows)
        in_branch = sql("CASE WHEN u > 0 THEN {} END", bare)
        some = [bare, in_branch, *self._with_constants(form, types)]
        sure = self._failure_of_any(some) is None
        if not sure:
            caught = self._failure_of_any([sql("TRY({})", each) for each in some])
            if caught is not None:
                return f"{FAILS}: {caught}"
        alone = self._alone(types, rows, bare, sure=sure)
        return alone or (TOTAL if sure else NULL)

    def _alone(
        self, types: Sequence[SqlType], rows: list[Sql], bare: Sql, *, sure: bool
    ) -> str | None:
        """Find a failure on single rows, whose statistics are their values."""
        value = bare if sure else sql("TRY({})", bare)
        asked = sql("SELECT hash({value}), {value} IS NULL FROM edges WHERE u >= 0", value=value)
        for row in rows[:40]:
            self._create(types, [row])
            failure = self._failure(asked)
            if failure is not None:
                return f"{FAILS}: {failure}"
        return None

    def _with_constants(self, form: _Form, types: Sequence[SqlType]) -> list[Sql]:
        """Write the call with one of several arguments constant: every edge value in turn."""
        found = []
        for place in range(len(form.types)) if len(form.types) > 1 else ():
            for value in _edges(types[place]):
                arguments = _columns(len(form.types))
                arguments[place] = edge_sql(value, types[place])
                found.append(form.sql(arguments))
        return found

    def _failure_of_any(self, expressions: Sequence[Sql]) -> str | None:
        """Find the first failure of expressions, computed together, or one by one after a failure.

        Together they are refused if one cannot be bound; that one is left out.
        """
        hashes = [sql("hash({})", each) for each in expressions]
        try:
            asked = sql("SELECT {} FROM edges", join(", ", hashes))
            execute(self._connection, asked).fetchall()
        except duckdb.Error as error:
            self._after(error)
        else:
            return None
        return next(
            filter(None, (self._failure(sql("SELECT {} FROM edges", h)) for h in hashes)), None
        )

    def _create(self, types: Sequence[SqlType], rows: list[Sql]) -> None:
        named = zip(_columns(len(types)), types, strict=True)
        columns = join(", ", (sql("{} {}", column, kind.sql) for column, kind in named))
        self._made = [sql("CREATE OR REPLACE TABLE edges (u INTEGER, {})", columns)]
        if rows:
            self._made.append(sql("INSERT INTO edges VALUES {}", join(", ", rows)))
        for statement in self._made:
            execute(self._connection, statement)

    def _plan(self, statement: Sql) -> dict[str, Any] | None:
        (text,) = serialized_plan(self._connection, statement).fetchall()[0]
        plan = read_plan(text)
        return None if plan["error"] else plan

    def _failure(self, statement: Sql) -> str | None:
        """Find the kind of error of a statement; None for success or a binding error."""
        try:
            execute(self._connection, statement).fetchall()
        except _REFUSED_FREE:
            return None
        except duckdb.Error as error:
            self._after(error)
            return type(error).__name__
        return None

    def _after(self, error: duckdb.Error) -> None:
        if isinstance(error, duckdb.InternalException | duckdb.FatalException):
            edges = self._made
            self._connection = self._opened()
            for statement in edges:
                execute(self._connection, statement)


def _severity(verdict: str) -> int:
    return 2 if verdict.startswith(FAILS) else [TOTAL, NULL].index(verdict)


def _rows(types: Sequence[SqlType]) -> list[Sql]:
    """Combine all edge values and NULL into rows, the extremes first where there are many."""
    lists = [[*_edges(kind), None] for kind in types]
    combined = list(itertools.islice(itertools.product(*lists), 200_000))
    if len(combined) > _MOST_ROWS:
        stride = len(combined) / _MOST_ROWS
        combined = [combined[int(i * stride)] for i in range(_MOST_ROWS)]
    return [_row(values, types) for values in combined]


def _edges(kind: SqlType) -> Sequence[Edge]:
    return EDGES.get(kind) or edge_values(kind)


def _row(values: Sequence[Edge | None], types: Sequence[SqlType]) -> Sql:
    written = (
        sql("NULL") if value is None else edge_sql(value, kind)
        for value, kind in zip(values, types, strict=True)
    )
    return sql("(1, {})", join(", ", written))
