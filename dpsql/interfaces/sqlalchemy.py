"""The SQLAlchemy dialect ``dpsql://``, for engines, notebooks and BI tools.

    create_engine("dpsql:///data.duckdb?policies=policies.yaml&ledger=budget.db&analyst=ana")
    create_engine("dpsql://:TOKEN@clinic.example.org:8439")

Three slashes lead to a relative path, four to an absolute one. A host is a server that ``dpsql
serve --http`` runs, the password a token for it; the connection is encrypted unless the host is
this machine and ``?encrypted=no`` is given; ``&analyst=`` names an account that pays instead of the
token's usual one, ``&certificate=`` a file of certificates to trust. Privacy parameters may follow
in the same way (``&epsilon=0.5``); for one statement they are an execution option:
``statement.execution_options(dpsql={"epsilon": 0.1})``. What SET has set ends when its connection
goes back to the pool, so that nobody pays by another's settings. Tables are those of the policy.
Whatever creates or changes one is refused as ``NotSupportedError``, like any statement that dpsql
cannot answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from sqlalchemy import URL, Connection, Engine, Row, event, exc, types
from sqlalchemy.engine import default, interfaces, reflection
from sqlalchemy.sql import compiler

from dpsql.client.transport import HTTP_PORT
from dpsql.core.formatting import printable
from dpsql.core.plain import plain_items
from dpsql.core.quoting import quote_table
from dpsql.core.schema import fold
from dpsql.core.sql_types import INTEGER_BITS, SqlType
from dpsql.core.table_name import MAIN, NameRules, TableName
from dpsql.errors import InterfaceError, ParameterError, ProgrammingError
from dpsql.policy.parameters import PARAMETER_NAMES, check_parameter_name, suggestion

if TYPE_CHECKING:
    from dpsql.dbapi.connection import Connection as FileConnection
    from dpsql.dbapi.cursor import Cursor
    from dpsql.dbapi.remote import RemoteConnection

    _Connected: TypeAlias = FileConnection | RemoteConnection

_OPTION: Final = "dpsql"
_OPTIONS: Final = ("mechanism", "fresh", *PARAMETER_NAMES)
_OF_FILES: Final = ("policies", "ledger", "analyst")
_OF_SERVERS: Final = ("analyst", "certificate", "encrypted")

_TYPES: Final[dict[str, type[types.TypeEngine[Any]]]] = {
    **dict.fromkeys(INTEGER_BITS, types.BigInteger),
    "TINYINT": types.SmallInteger,
    "SMALLINT": types.SmallInteger,
    "UTINYINT": types.SmallInteger,
    "INTEGER": types.Integer,
    "USMALLINT": types.Integer,
    "FLOAT": types.REAL,
    "DOUBLE": types.Double,
    "BOOLEAN": types.Boolean,
    "VARCHAR": types.String,
    "ENUM": types.String,
    "JSON": types.String,
    "UUID": types.Uuid,
    "BLOB": types.LargeBinary,
    "DATE": types.Date,
    "TIME": types.Time,
    "TIMESTAMP": types.DateTime,
    "TIMESTAMP_S": types.DateTime,
    "TIMESTAMP_MS": types.DateTime,
    "TIMESTAMP_NS": types.DateTime,
}


class DpsqlCompiler(compiler.SQLCompiler):
    """SELECTs in DuckDB's dialect."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        clauses = (("LIMIT", select._limit_clause), ("OFFSET", select._offset_clause))
        given = [(word, clause) for word, clause in clauses if clause is not None]
        return "".join(f"\n {word} {self.process(clause, **kw)}" for word, clause in given)


class DpsqlTypeCompiler(compiler.GenericTypeCompiler):
    """The names of types in casts, where DuckDB's differ from the usual."""

    def visit_float(self, type_: types.Float[Any], **kw: Any) -> str:
        return "DOUBLE"  # FLOAT has 32 bits, Python's float 64

    def visit_datetime(self, type_: types.DateTime, **kw: Any) -> str:
        return "TIMESTAMPTZ" if type_.timezone else "TIMESTAMP"

    visit_DATETIME = visit_TIMESTAMP = visit_datetime  # noqa: N815  # type: ignore[assignment]


class DpsqlIdentifierPreparer(compiler.IdentifierPreparer):
    """Names are always quoted, which no list of reserved words can fall behind."""

    def quote(self, ident: str, force: Any = None) -> str:
        return self.quote_identifier(ident)


class DpsqlDialect(default.DefaultDialect):
    """How SQLAlchemy speaks to dpsql."""

    name = "dpsql"
    driver = "dpsql"
    default_paramstyle = "qmark"
    statement_compiler = DpsqlCompiler
    type_compiler_cls = DpsqlTypeCompiler
    preparer = DpsqlIdentifierPreparer
    default_schema_name = MAIN
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    div_is_floordiv = False

    @classmethod
    def import_dbapi(cls) -> interfaces.DBAPIModule:
        from dpsql import dbapi

        return cast("interfaces.DBAPIModule", dbapi)

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        event.listen(engine, "checkin", _forget_settings)

    def create_connect_args(self, url: URL) -> interfaces.ConnectArgsType:
        """Read the arguments of ``dpsql.connect`` from a URL.

        ``connect_args`` may add a DuckDBEngine or a Policy. Raises ``ArgumentError`` for an address
        with a user, a file behind a host or a parameter given twice, and ``ParameterError`` for a
        name that is neither an argument nor a privacy parameter.
        """
        known = _OF_SERVERS if url.host else _OF_FILES
        arguments = _server_of(url) if url.host else _file_of(url)
        for name, value in url.query.items():
            if not isinstance(value, str):
                raise exc.ArgumentError(f"{name} is given twice in the address of the database")
            if name not in known:
                _check_name(name, known)
            if name != "encrypted":
                arguments[name] = value if name in known else _value(value)
        return (), arguments

    def connect(self, *arguments: Any, **named: Any) -> interfaces.DBAPIConnection:
        """Connect. Raises ``ArgumentError`` where nothing in the address says who asks."""
        if not named.get("analyst") and not named.get("token"):
            raise exc.ArgumentError(
                "the address of the database does not say who asks: add ?analyst=NAME to it, or "
                "&analyst=NAME after other parameters"
            )
        return super().connect(*arguments, **named)

    def do_execute(
        self,
        cursor: interfaces.DBAPICursor,
        statement: str,
        parameters: Any,
        context: interfaces.ExecutionContext | None = None,
    ) -> None:
        options = {} if context is None else context.execution_options.get(_OPTION, {})
        cast("Cursor", cursor).execute(statement, parameters, **_checked(options))

    def do_ping(self, dbapi_connection: interfaces.DBAPIConnection) -> bool:
        """Test a connection by something that costs nothing."""
        dbapi_connection.cursor().execute("SHOW PARAMETERS")
        return True

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Tell whether somebody closed a connection: a pool is to open another."""
        return isinstance(e, InterfaceError) and e.code == "closed"

    def _get_default_schema_name(self, connection: Connection) -> str:
        return self.default_schema_name

    # -- reflection: what SHOW TABLES and DESCRIBE say, which costs nothing -----------------------

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """List the schemas that the policy has tables of, ``main`` first."""
        rows = connection.exec_driver_sql("SHOW TABLES").all()
        schemas = {fold(name.schema): name.schema for name in map(_name, rows) if not name.in_main}
        return [self.default_schema_name, *sorted(schemas.values())]

    def get_table_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return [_name(row).table for row in self._tables(connection, schema, **kw)]

    def get_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return []

    def get_materialized_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return [row.name for row in self._views(connection, schema, **kw)]

    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        names = self.get_table_names(connection, schema, **kw)
        names += self.get_materialized_view_names(connection, schema, **kw)
        return fold(table_name) in map(fold, names)

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[interfaces.ReflectedColumn]:
        row = self._table(connection, table_name, schema, **kw)
        name = _name(row) if hasattr(row, "access") else TableName(row.name)
        rows = connection.exec_driver_sql(f"DESCRIBE {quote_table(name)}")
        return [_column(row) for row in rows]

    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> interfaces.ReflectedTableComment:
        table = self._table(connection, table_name, schema, **kw)
        if not hasattr(table, "access"):
            return {"text": f"materialized view, {table.published} of {table.steps} steps"}
        unit = "" if table.privacy_unit is None else f", privacy unit: {table.privacy_unit}"
        return {"text": table.access + unit}

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> interfaces.ReflectedPrimaryKeyConstraint:
        self._table(connection, table_name, schema, **kw)
        return {"constrained_columns": [], "name": None}

    @reflection.cache
    def _tables(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> Sequence[Row[Any]]:
        rows = connection.exec_driver_sql("SHOW TABLES").all()
        rules = NameRules.of(map(_name, rows))
        return [row for row in rows if _is_in(_name(row), schema, rules)]

    @reflection.cache
    def _views(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> Sequence[Row[Any]]:
        """List the views of a connection that no table hides; without a ledger there are none."""
        tables = {*map(_name, connection.exec_driver_sql("SHOW TABLES").all())}
        if not _is_in(TableName(""), schema, NameRules.of(tables)):
            return []
        try:
            views = connection.exec_driver_sql("SHOW MATERIALIZED VIEWS").all()
            return [row for row in views if TableName(row.name) not in tables]
        except exc.InterfaceError as error:
            if getattr(error.orig, "code", None) != "no_ledger":
                raise
            return []

    def _table(self, connection: Connection, name: str, schema: str | None, **kw: Any) -> Row[Any]:
        """Find a table of the policy, or a view. Raises ``NoSuchTableError``."""
        tables = self._tables(connection, schema, **kw)
        for row in tables:
            if fold(_name(row).table) == fold(name):
                return row
        for row in self._views(connection, schema, **kw):
            if fold(row.name) == fold(name):
                return row
        raise exc.NoSuchTableError(name)

    def _none(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """Return an empty list after checking the table: a policy declares nothing of the kind."""
        self._table(connection, table_name, schema, **kw)
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _none


def _name(row: Row[Any]) -> TableName:
    """Read the name of a table that SHOW TABLES lists."""
    return TableName.read(row.name) or TableName(row.name)


def _is_in(name: TableName, schema: str | None, rules: NameRules) -> bool:
    """Tell whether a table is in a schema; None is the schema of names without one."""
    meant = rules.named([schema or MAIN, name.table])
    return meant == name


def _forget_settings(dbapi_connection: interfaces.DBAPIConnection | None, record: object) -> None:
    """Undo every SET before the connection is lent again; one that has failed is not."""
    if dbapi_connection is not None:
        cast("_Connected", dbapi_connection).reset()


def _file_of(url: URL) -> dict[str, Any]:
    """Read the file in an address."""
    if url.username or url.password or url.port:
        raise exc.ArgumentError(
            "the address of a file has no user, password or port: write dpsql:///data.duckdb with "
            "three slashes, or four for an absolute path, and ?analyst=…"
        )
    return {"database": url.database} if url.database else {}


def _server_of(url: URL) -> dict[str, Any]:
    """Read the address of a server, and the token for it."""
    encrypted = url.query.get("encrypted", "yes")
    if url.database or url.username or not url.password or encrypted not in ("yes", "no"):
        raise exc.ArgumentError(
            "the address of a server is dpsql://:TOKEN@host:8439, with the token as its password, "
            "no user and no file; ?encrypted=no is for a server on this machine. For a file write "
            "dpsql:///data.duckdb with three slashes, or four for an absolute path"
        )
    host = f"[{url.host}]" if ":" in str(url.host) else url.host
    scheme = "https" if encrypted == "yes" else "http"
    return {"database": f"{scheme}://{host}:{url.port or HTTP_PORT}", "token": url.password}


def _check_name(name: str, arguments: Sequence[str]) -> None:
    """Raise ``ParameterError`` unless a name may stand in an address with these arguments."""
    known = (*arguments, *PARAMETER_NAMES)
    if fold(name) not in PARAMETER_NAMES:
        raise ParameterError(
            f"the address of a database has no parameter {printable(name, 40)}",
            code="unknown_parameter",
            hint=suggestion(name, known) or f"One of: {', '.join(known)}.",
        )


def _checked(options: object) -> dict[str, Any]:
    """Check the options of one statement by name; their values are checked where they go.

    Raises ``ParameterError`` for what is no mapping, and for a name that is no option.
    """
    try:
        given = plain_items(options, len(_OPTIONS))
    except ProgrammingError:
        given = ()
    if not isinstance(given, dict):
        raise ParameterError(
            f"the execution option {_OPTION} must be a mapping of a few names",
            code="bad_parameter",
            hint=f'For example {_OPTION}={{"epsilon": 0.1}}.',
        )
    for name in given:
        if name not in _OPTIONS:
            check_parameter_name(name)
    return given


def _value(text: str) -> object:
    """Read a privacy parameter of an address: a number, or else a word, which dpsql checks."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _column(row: Any) -> interfaces.ReflectedColumn:
    bounds = [] if row.lower is None else [f"from {row.lower:g} to {row.upper:g}"]
    domain = [] if row.domain is None else [f"one of {row.domain}"]
    return {
        "name": row.column_name,
        "type": _type(row.column_type),
        "nullable": True,
        "default": None,
        "comment": ", ".join([row.access, *bounds, *domain]),
    }


def _type(text: str) -> types.TypeEngine[Any]:
    """Return SQLAlchemy's type for DuckDB's; values of other types come through as they are."""
    found = SqlType.of(text)
    base = found.kind
    if found.is_decimal:
        return types.Numeric(*found.digits)
    if base in ("TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE"):
        return (types.DateTime if base.startswith("TIMESTAMP") else types.Time)(timezone=True)
    return _TYPES.get(base, types.NullType)()
