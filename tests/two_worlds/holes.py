# ruff: noqa: E501
"""Broken twins: holes that dpsql once had, each put back into what closes it now, and who notices.

A hole comes with a short program that goes through it, as somebody would who knows of it. Of each
it is written down which nets notice; docs/nets.md has the same as a table.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlglot
from sqlglot import exp

from dpsql.core.sql import Sql
from dpsql.engines.base import twin
from dpsql.engines.duckdb import engine as duckdb_engine
from dpsql.engines.duckdb import python_values
from dpsql.engines.duckdb import reading as duckdb_reading
from dpsql.engines.duckdb import views as owners_views
from dpsql.engines.duckdb.reading import ReadStatement
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.engines.evidence import evidence
from dpsql.ir.relations import PublishedView
from dpsql.ledger import accounts
from dpsql.owner import conformance
from dpsql.pipeline import prepare as preparing
from dpsql.pipeline import purchase
from dpsql.pipeline.tail import public_tables
from dpsql.privacy.accounting.zcdp import Amount
from dpsql.sql.rewrite import rows
from dpsql.views import planning, prepare, state, views

from .programs import Step

VIEW: Final = "WITH (step = '1 day', start = '2026-01-01', steps = 6, epsilon = 5)"
FOUND: Final = VIEW.replace(
    ")", ", max_rows_contributed = 'auto', max_groups_contributed = 'auto')"
)
COUNTED: Final = "SELECT s, count(DISTINCT uid) AS users FROM t GROUP BY s"


@dataclass(frozen=True)
class Hole:
    """A hole, how it is put back, a program that goes through it, and the nets that notice."""

    name: str
    nets: tuple[str, ...]
    steps: tuple[Step, ...]
    patches: Callable[[], tuple[tuple[Any, str, Any], ...]]
    reader: str = "duckdb"
    variant: int = 0
    opens: bool = True  # False where dpsql refuses to open the world with the unit

    @contextlib.contextmanager
    def put_back(self) -> Iterator[None]:
        """Have the hole, while inside."""
        patches = self.patches()
        originals = [(target, name, _own(target, name)) for target, name, _ in patches]
        for target, name, made in patches:
            setattr(target, name, made)
        try:
            yield
        finally:
            for target, name, original in reversed(originals):
                setattr(target, name, original)


def _own(target: Any, name: str) -> Any:
    """What stands there now, as it is kept: methods of classes unbound."""
    return target.__dict__[name] if isinstance(target, type) else getattr(target, name)


def _ask(*texts: str, **others: Any) -> tuple[Step, ...]:
    return tuple(Step("ask", text, **others) for text in texts)


# -- a name is looked up twice -------------------------------------------------------------------


def _name_twice() -> tuple[tuple[Any, str, Any], ...]:
    """A view is loaded by its name, which the engine is asked for first."""
    original = public_tables.PublicTables._load

    def load(self: Any, source: Any) -> None:
        if isinstance(source, PublishedView):
            stay, name = self._tenant.stay(), source.table.name.table
            found = self._engine._cursor()
            with contextlib.suppress(Exception):
                rows = found.sql(f'SELECT * FROM __dpsql_data.main."{name}"').to_arrow_table()
                stay.cursor.register("__found", rows)
                stay.cursor.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM __found')
                return
        original(self, source)

    return ((public_tables.PublicTables, "_load", load),)


# -- SQL is filled into SQL ----------------------------------------------------------------------


def _quotes_let_out() -> tuple[tuple[Any, str, Any], ...]:
    """Texts of a statement leave their quotes, and nothing reads what is sent."""

    def as_it_is(self: Any, text: str, *_: Any, **__: Any) -> str:
        return text

    return (
        (sqlglot.generator.Generator, "escape_str", as_it_is),
        *_nothing_is_read(),
        *_nothing_is_tried(),
    )


def _nothing_is_read() -> tuple[tuple[Any, str, Any], ...]:
    """What is about to be sent is bound, and its plan is not read."""

    def read(self: Any, connection: Any, statement: Sql, tables: Any) -> tuple[ReadStatement, None]:
        columns = len(connection.sql(statement.render(DUCKDB_TEXT)).columns)
        return ReadStatement(columns, scans_listed=True), None

    return ((duckdb_reading.LastReading, "read", read),)


def _nothing_is_tried() -> tuple[tuple[Any, str, Any], ...]:
    return (
        (evidence.Evidence, "objection", lambda self, *_: None),
        (twin.Twin, "_try", lambda self, *_, **__: None),
    )


# -- types follow from values --------------------------------------------------------------------


def _types_of_values() -> tuple[tuple[Any, str, Any], ...]:
    """A frame has the types that its values have made of its columns."""
    original = python_values._of_pandas
    return (
        (python_values, "_of_pandas", lambda data: replace(original(data), loose=False)),
        (conformance, "_check_declared", lambda *_: iter(())),
    )


# -- noise exists before it is used --------------------------------------------------------------


class _Constant:
    """In place of ``secrets``: the key of a step is that of its view, and there from the start."""

    def __getattr__(self, name: str) -> Any:
        return getattr(secrets, name)

    @staticmethod
    def token_bytes(n: int) -> bytes:
        return b"\x07" * n


def _keys_before() -> tuple[tuple[Any, str, Any], ...]:
    return ((state, "secrets", _Constant()),)


# -- promises ------------------------------------------------------------------------------------


def _windows_open_empty() -> tuple[tuple[Any, str, Any], ...]:
    """A new window knows nothing of the streams that go on."""
    return ((accounts, "carried_by", lambda *_: Amount()),)


# -- parameters ----------------------------------------------------------------------------------


def _parameters_twice() -> tuple[tuple[Any, str, Any], ...]:
    """A refresh takes the parameters that the view was created with, and asks nobody."""
    return (
        (prepare, "again", lambda policy, parameters: parameters),
        (views.Views, "_refuse_others", lambda self: None),
        (prepare.ViewPreparer, "__init__", _without_tables(prepare.ViewPreparer.__init__)),
    )


def _without_tables(original: Any) -> Any:
    def made(self: Any, engine: Any, policy: Any, *others: Any) -> None:
        original(self, engine, policy, *others)
        tables = {key: replace(t, defaults={}) for key, t in policy.tables.items()}
        self._lasting = replace(self._lasting, tables=tables)

    return made


# -- what can fail on a row ----------------------------------------------------------------------


def _lookups_accepted() -> tuple[tuple[Any, str, Any], ...]:
    """Evidence of functions alone decides on an owner's view, none of operators."""
    return (
        (owners_views, "_operator", lambda node: None),
        (owners_views, "_form", lambda node: None),
        *_nothing_is_read(),
    )


def _files_unproved() -> tuple[tuple[Any, str, Any], ...]:
    """Files are served whatever is in them."""
    return ((duckdb_engine, "is_proved", lambda *_: True),)


def _casts_that_fail() -> tuple[tuple[Any, str, Any], ...]:
    """An expression stands as it is written, and is neither looked up nor tried."""

    def written(node: exp.Expr, table: Any, dialect: Any) -> Sql:
        found: Sql = dialect.expression(node, table)
        return found

    names = ("total_sql", "total_condition_sql")
    patches = ((rows, name, written) for name in names)
    return (*patches, *_nothing_is_tried(), *_nothing_is_read())


# -- arguments that nobody reads -----------------------------------------------------------------


def _negation_ignored() -> tuple[tuple[Any, str, Any], ...]:
    """NOT LIKE is LIKE."""
    original: Any = vars(preparing)["validate"]

    def without(tree: exp.Expr, *arguments: Any, **named: Any) -> Any:
        for node in list(tree.find_all(exp.Like, exp.ILike)):
            node.set("negate", None)
            if isinstance(node.parent, exp.Not):
                node.parent.replace(node.copy())
        return original(tree, *arguments, **named)

    return ((preparing, "validate", without),)


# -- streams -------------------------------------------------------------------------------------


def _newcomers_counted() -> tuple[tuple[Any, str, Any], ...]:
    """A window over units that come back counts those that are new."""
    return ((planning, "_refuse_window", lambda definition: None),)


def _units_weigh_more() -> tuple[tuple[Any, str, Any], ...]:
    """A unit has three times its weight where bounds are drawn."""
    original: Any = vars(purchase)["read_choice"]

    def read(*arguments: Any) -> Any:
        return tuple([3 * weight for weight in part] for part in original(*arguments))

    return ((purchase, "read_choice", read),)


# -- what was paid for ---------------------------------------------------------------------------


def _large_releases_lost() -> tuple[tuple[Any, str, Any], ...]:
    """A release of more than some bytes is not kept."""
    original: Any = vars(purchase)["encode_release"]

    def encode(*arguments: Any, **named: Any) -> Any:
        found = original(*arguments, **named)
        if found is None:
            return None
        parts = list(found)
        return None if sum(map(len, parts)) > 150 else parts

    return ((purchase, "encode_release", encode),)


HOLES: Final[tuple[Hole, ...]] = (
    Hole(
        "A view is named like an unlisted table, and read by its name",
        ("canary",),
        _ask(f"CREATE MATERIALIZED VIEW salaries {VIEW} AS {COUNTED}", "SELECT * FROM salaries"),
        _name_twice,
    ),
    Hole(
        "A text of a statement leaves its quotes",
        ("door",),
        _ask("SELECT count(*) AS n FROM t WHERE s = 'x'' OR (SELECT count(*) FROM t) > 300 OR s = '''"),
        _quotes_let_out,
    ),
    Hole(
        "A cast that fails on one row",
        ("refusals",),
        _ask("SELECT count(*) AS n FROM t WHERE CAST(i32 AS TINYINT) > 3"),
        _casts_that_fail,
    ),
    Hole(
        "Types follow from values",
        ("heard",),
        _ask("SELECT qty FROM l LIMIT 0"),
        _types_of_values,
        reader="register pandas",
    ),
    Hole(
        "The noise of a step exists before it is used, and a back-up brings it back",
        ("words",),
        (
            *_ask(f"CREATE MATERIALIZED VIEW v0 {VIEW} AS {COUNTED}"),
            Step("save"), Step("clock", "48"), *_ask("REFRESH MATERIALIZED VIEW v0"),
            Step("restore"), Step("edit", "27"), *_ask("REFRESH MATERIALIZED VIEW v0"),
        ),
        _keys_before,
    ),
    Hole(
        "A window opens without the views that go on publishing",
        ("price",),
        (
            *_ask("SELECT count(*) AS n FROM t", f"CREATE MATERIALIZED VIEW v0 {VIEW} AS {COUNTED}"),
            Step("renews"), Step("clock", "48"), *_ask("REFRESH MATERIALIZED VIEW v0", "SHOW BUDGET"),
        ),
        _windows_open_empty,
    ),
    Hole(
        "A unit has three times its weight where the bounds of a view are drawn",
        ("door",),
        (
            Step("clock", "48"),
            *_ask(f"CREATE MATERIALIZED VIEW v0 {FOUND} AS SELECT s, count(*) AS n FROM t GROUP BY s"),
        ),
        _units_weigh_more,
    ),
    Hole(
        "A view goes on with the parameters and rights that it once had",
        ("parameters",),
        (
            *_ask(f"CREATE MATERIALIZED VIEW v0 {VIEW} AS {COUNTED}"), Step("clock", "48"),
            *_ask("REFRESH MATERIALIZED VIEW v0"), Step("policy", "minimum 9"), Step("clock", "24"),
            *_ask("REFRESH MATERIALIZED VIEW v0"),
        ),
        _parameters_twice,
    ),
    Hole(
        "An owner's view looks up what one unit has twice",
        ("refusals",),
        _ask("SELECT count(*) AS n FROM looked"),
        _lookups_accepted,
        reader="duckdb with a lookup",
    ),
    Hole(
        "A file's reader raises on a value of one unit's",
        ("refusals",),
        _ask("SELECT count(*) AS n FROM t WHERE s = 's1'", "SELECT s, count(*) AS n FROM t GROUP BY s"),
        _files_unproved,
        reader="parquet with broken text",
        variant=1,
        opens=False,
    ),
    Hole(
        "NOT LIKE is answered as LIKE",
        ("answers",),
        (),
        _negation_ignored,
    ),
    Hole(
        "A sliding window counts newcomers",
        ("views",),
        (),
        _newcomers_counted,
    ),
    Hole(
        "A large release is paid for and not kept",
        ("again",),
        (
            *_ask("SELECT s, d, count(*) AS n FROM t GROUP BY 1, 2"),
            Step("again", "SELECT s, d, count(*) AS n FROM t GROUP BY 1, 2"),
        ),
        _large_releases_lost,
    ),
)  # fmt: skip
"""In the order of the table of docs/nets.md."""
