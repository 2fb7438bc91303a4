"""Queries over PostgreSQL's catalogs, spelled for DuckDB: only of these is anything respelled.

A statement is one of them by the tables that it names: all of them are relations of ``pg_catalog``
or ``information_schema``, or there are none and it calls functions that PostgreSQL has over its
catalogs. Texts in quotes decide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, SqlglotError

from dpsql.core.schema import fold
from dpsql.errors import NotSupportedError

PG_ROOM, INFORMATION_ROOM = "pg", "info"
"""The schemas of a room that stand for PostgreSQL's."""
_SCHEMAS: Final = {"pg_catalog": PG_ROOM, "information_schema": INFORMATION_ROOM}
_LONGEST: Final = 100_000
_MOST_TOKENS: Final = 12_000
_DEEPEST: Final = 60
_MOST_OF_A_SIGN: Final = 250
_MOST_PARAMETERS: Final = 1_000
_MOST_VALUES: Final = 10_000
"""Limits of what is parsed: tools stay far below all of them."""
_POSTGRES: Final = Postgres()
_DUCKDB: Final = DuckDB()
_MAYBE: Final = re.compile(
    r"\b(?:pg_|_pg_|information_schema|current_|session_user|set_config|version|to_reg|has_"
    r"|reg(?:class|type|proc|oper|namespace|role|config|dict|coll)"
    r"|format_type|obj_description|col_description|quote_ident|parse_ident|getdatabase)",
    re.IGNORECASE,
)
_REG: Final = frozenset(
    {"regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole", "regoper"}
    | {"regoperator", "regconfig", "regdictionary", "regcollation"}
)
_LIKE_PROC: Final = frozenset({"regprocedure", "regoper", "regoperator", "regconfig"}) | {
    "regdictionary",
    "regcollation",
}
_PLAIN_TYPES: Final = {
    "oid": "BIGINT",
    "xid": "BIGINT",
    "cid": "BIGINT",
    "name": "TEXT",
    "char": "TEXT",
    '"char"': "TEXT",
    "bpchar": "TEXT",
    "cstring": "TEXT",
    "aclitem": "TEXT",
    "pg_node_tree": "TEXT",
    "information_schema.sql_identifier": "TEXT",
    "sql_identifier": "TEXT",
    "cardinal_number": "INT",
    "int2": "SMALLINT",
    "int4": "INT",
    "int8": "BIGINT",
    "bool": "BOOLEAN",
    "float4": "REAL",
    "float8": "DOUBLE",
}
"""Types of PostgreSQL's catalogs, in DuckDB's words."""
_PROC_COLUMNS: Final = frozenset(
    {"typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze"}
    | {"typsubscript", "amhandler", "rngcanonical", "rngsubdiff"}
)
"""Columns that hold names of functions, where PostgreSQL takes them for numbers as well."""
_HIDDEN: Final = frozenset({"xmin", "xmax", "cmin", "cmax"})
_OPERATORS: Final[Mapping[str, type[exp.Binary]]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "+": exp.Add,
    "-": exp.Sub,
    "||": exp.DPipe,
    "~~": exp.Like,
    "~~*": exp.ILike,
}
_TABLE_FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "pg_options_to_table": ("option_name", "option_value"),
    "pg_partition_ancestors": ("relid",),
    "pg_partition_tree": ("relid", "parentrelid", "isleaf", "level"),
    "pg_get_publication_tables": ("relid", "attrs", "qual"),
    "aclexplode": ("grantor", "grantee", "privilege_type", "is_grantable"),
    "pg_timezone_names": ("name", "abbrev", "utc_offset", "is_dst"),
    "pg_available_extensions": ("name", "default_version", "comment"),
    "pg_listening_channels": ("pg_listening_channels",),
}
"""Functions over what is not there: they have columns and no rows."""
_OF_DUCKDB: Final = frozenset(
    {"generate_subscripts", "generate_series", "unnest", "array_cat", "array_append"}
    | {"array_position", "list_contains", "json_object", "bool_or", "bool_and", "upper", "lower"}
    | {"length", "strpos", "position", "repeat", "left", "right", "btrim", "ltrim", "rtrim"}
    | {
        "regexp_split_to_table",
        "regexp_replace",
        "nullif",
        "greatest",
        "least",
        "abs",
        "array_agg",
        "string_agg",
        "concat",
    }
)
"""Functions that DuckDB has by PostgreSQL's names."""
_FORBIDDEN: Final = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Lock, exp.ReadCSV)


@dataclass(frozen=True, slots=True)
class CatalogNames:
    """The names that decide: relations and functions of the catalogs, and tables of the policy.

    ``relations`` are those of ``pg_catalog``, ``tables`` keys of tables without a schema.
    """

    relations: frozenset[str]
    functions: frozenset[str]
    tables: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CatalogSpeaker:
    """Whoever asks, as the catalogs name it: user, database and version of the server."""

    user: str
    database: str
    version: str


@dataclass(frozen=True, slots=True, eq=False)
class CatalogQuery:
    """A query over catalogs alone, as it was parsed. Equal to itself alone.

    ``parameters`` has the type that each of ``$1``, ``$2``, … is cast to, empty if to none.
    """

    tree: exp.Query = field(repr=False)
    parameters: tuple[str, ...]
    names: CatalogNames = field(repr=False)

    def spelled(self, values: Sequence[object] | None, speaker: CatalogSpeaker) -> str:
        """Write the query for a room, with its values as literals; None if they are not known.

        Raises ``NotSupportedError`` for what no room can answer.
        """
        tree = self.tree.copy()
        parameters = list(tree.find_all(exp.Parameter))
        if sum(_number_of(each, values) for each in parameters) > _MOST_VALUES:
            raise not_answered("it has too many values")
        for node in parameters:
            place = int(node.name) - 1
            if values is None:
                node.replace(_any_value(node))
            else:
                node.replace(_literal(values[place] if place < len(values) else None))
        writer = _Writer(self.names, speaker)
        failed = False
        try:
            text = _DUCKDB.generate(
                writer.respelled(tree), copy=False, unsupported_level=ErrorLevel.IGNORE
            )
        except (SqlglotError, RecursionError, ValueError):
            failed = True
        if failed:
            raise not_answered("it cannot be spelled for a room")
        return text


def not_answered(reason: str) -> NotSupportedError:
    """Make the error of a query over catalogs that is not answered."""
    return NotSupportedError(
        f"this query over the catalogs is not answered: {reason}",
        code="catalog_query",
        hint="SHOW TABLES and DESCRIBE list tables and columns, too.",
    )


def may_be_catalog_query(text: str) -> bool:
    """Tell quickly whether a statement may be a query over catalogs: of most it is certain."""
    return len(text) <= _LONGEST and _MAYBE.search(text) is not None


def shape_of(text: str) -> str:
    """Write a statement without its values; empty where it ends inside of quotes."""
    try:
        tokens = _POSTGRES.tokenize(text)
    except SqlglotError:
        return ""
    values = (*_TEXTS, TokenType.NUMBER)
    written = ("?" if t.token_type in values else text[t.start : t.end + 1] for t in tokens)
    return " ".join(written)


def catalog_query(text: str, names: CatalogNames) -> CatalogQuery | None:
    """Read a query over catalogs; None for all other statements.

    Raises ``NotSupportedError`` for one that mixes them with other tables, or cannot be read.
    """
    if not may_be_catalog_query(text):
        return None
    try:
        tokens = _POSTGRES.tokenize(text)
    except SqlglotError:
        return None
    if not tokens or tokens[0].token_type not in _BEGINNINGS:
        return None
    words = [_word(token) for token in tokens]
    if not any(w in names.relations or w in names.functions or w in _TOLD for w in words):
        return None
    tree = None
    if not _is_too_large(tokens):
        with suppress(SqlglotError, RecursionError, ValueError):
            (tree,) = _POSTGRES.parse(_without_lists_of_reg(text, tokens))
    if not isinstance(tree, exp.Query):
        named = any(w in _SCHEMAS and n == "." for w, n in pairwise(words))
        if named:
            raise not_answered("it cannot be read")
        return None
    return _decided(tree, names)


_BEGINNINGS: Final = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.VALUES)
_TOLD: Final = {*_SCHEMAS, *_REG, "current_user", "session_user", "current_catalog", "user"}


def _is_too_large(tokens: Sequence[Token]) -> bool:
    """Tell whether a query would take long to be parsed, or a deep stack."""
    depth = deepest = 0
    for token in tokens:
        word = _word(token).upper()
        depth += (word in _OPENING) - (word in _CLOSING)
        deepest = max(deepest, depth)
    signs = sum(token.text in _CHAINED for token in tokens)
    return deepest > _DEEPEST or len(tokens) > _MOST_TOKENS or signs > _MOST_OF_A_SIGN


_OPENING: Final = frozenset({"(", "[", "CASE"})
_CLOSING: Final = frozenset({")", "]", "END"})
_CHAINED: Final = frozenset({"[", "::", "+", "-", "||", "NOT", "not"})
"""Signs of which each makes the tree deeper by one."""


_TEXTS: Final = (
    *(TokenType.STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING),
    *(TokenType.BIT_STRING, TokenType.HEX_STRING, TokenType.NATIONAL_STRING),
    *(TokenType.UNICODE_STRING, TokenType.NATIONAL_RAW_STRING),
)
"""All ways in which a text is written."""


def _word(token: Token) -> str:
    return "" if token.token_type in _TEXTS else fold(token.text)


_IN_LISTS: Final = {"oid": "bigint", "name": "text", "char": "text"}


def _without_lists_of_reg(text: str, tokens: Sequence[Token]) -> str:
    """Write ``::regtype[]`` as ``::text[]``, as the parser knows no lists of the former."""
    found = text
    for token, after, last in reversed([*zip(tokens, tokens[1:], tokens[2:], strict=False)]):
        bracket = after.token_type == TokenType.L_BRACKET and last.token_type == TokenType.R_BRACKET
        element = "text" if _word(token) in _REG else _IN_LISTS.get(_word(token))
        if bracket and element is not None:
            found = found[: token.start] + element + found[token.end + 1 :]
    return found


def _decided(tree: exp.Query, names: CatalogNames) -> CatalogQuery | None:
    """Decide by the tables of a query whether it is one over catalogs."""
    ctes = {fold(cte.alias) for cte in tree.find_all(exp.CTE)}
    ours = others = 0
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function
        name = fold(table.name)
        if not table.db and name in ctes:
            continue
        if table.db:
            catalog = fold(table.db) in _SCHEMAS
        else:
            catalog = name in names.relations and name not in names.tables
        ours += catalog
        others += not catalog
    if others:
        if not ours:
            return None
        raise NotSupportedError(
            "a query reads either catalogs or tables, not both",
            code="catalog_query",
            hint="Ask the catalogs first, and the tables by another query.",
        )
    if not ours and not any(_is_of_catalogs(node, names) for node in tree.walk()):
        return None
    if tree.find(*_FORBIDDEN):
        raise not_answered("it is more than a query")
    kinds: dict[int, str] = {}
    for node in tree.find_all(exp.Parameter):
        number = int(node.name) if node.name.isdecimal() and len(node.name) < 5 else 0
        if not 0 < number <= _MOST_PARAMETERS:
            raise not_answered("it has parameters that are not numbered")
        kinds[number] = kinds.get(number) or _kind_of_parameter(node)
    found = tuple(kinds.get(place, "") for place in range(1, max(kinds, default=0) + 1))
    return CatalogQuery(tree, found, names)


def _is_of_catalogs(node: exp.Expr, names: CatalogNames) -> bool:
    """Tell whether a node is a call of a function over catalogs, or a cast to one of its types."""
    if isinstance(node, exp.Cast):
        return _kind_of(node.to) in _REG
    if isinstance(node, exp.Anonymous):
        return fold(node.name) in names.functions or fold(node.name) in _TABLE_FUNCTIONS
    return isinstance(node, _OF_CATALOGS)


_OF_CATALOGS: Final = (
    *(exp.CurrentSchemas, exp.CurrentSchema, exp.CurrentDatabase, exp.CurrentCatalog),
    *(exp.CurrentUser, exp.SessionUser, exp.CurrentVersion),
)


def _kind_of(type_: exp.DataType | None) -> str:
    """Return the bare name of a type in small letters, without ``pg_catalog``."""
    if type_ is None:
        return ""
    kind = type_.args.get("kind")
    if type_.this == exp.DType.USERDEFINED and kind is not None:
        written = kind if isinstance(kind, str) else kind.sql("postgres")
    else:
        written = type_.sql("postgres")
    return fold(written).removeprefix("pg_catalog.").strip('"')


def _number_of(node: exp.Parameter, values: Sequence[object] | None) -> int:
    """Count the values that stand in the place of a parameter."""
    place = int(node.name) - 1
    value = values[place] if values is not None and place < len(values) else None
    return len(value) if isinstance(value, list | tuple) else 1


def _literal(value: object) -> exp.Expr:
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        return exp.Literal.number(value)
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[_literal(each) for each in value])
    return exp.Literal.string(str(value))


def _any_value(node: exp.Parameter) -> exp.Expr:
    """Return a value that can stand for a parameter while a query is planned."""
    kind = _kind_of_parameter(node)
    if kind == _LIST or kind.endswith("[]"):
        return _text("{}")
    return _text("") if kind in ("text", "varchar", "name") else exp.Null()


def _kind_of_parameter(node: exp.Expr) -> str:
    """Return the type of the cast around a parameter; of a bare list that of texts."""
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.Cast):
        return _kind_of(parent.to)
    if isinstance(parent, exp.Any) or (isinstance(parent, exp.Anonymous) and parent.name == "all"):
        return _LIST
    return ""


_LIST: Final = "text[]"


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


def _with_lists(node: exp.Coalesce) -> exp.Expr:
    """Write ``coalesce(list, '{}')``: the text stands for an empty list."""
    for each in node.expressions:
        if isinstance(each, exp.Literal) and each.is_string and each.this == "{}":
            each.replace(exp.Array())
    return node


def _printed(form: exp.Expr, *values: exp.Expr) -> exp.Expr:
    """Call DuckDB's function for texts with holes in the place of PostgreSQL's."""
    holes = form.name.replace("%I", "%s").replace("%L", "%s")
    return _call(_PRINTED, _text(holes), *(exp.cast(each.copy(), "TEXT") for each in values))


_PRINTED: Final = "printf"


def _text(value: str) -> exp.Literal:
    return exp.Literal.string(value)


def _array_of(text: str) -> exp.Array | None:
    """Read a text as PostgreSQL writes arrays of one dimension; None if it is none."""
    inside = text.strip()
    if not (inside.startswith("{") and inside.endswith("}")):
        return None
    found: list[exp.Expr] = []
    for quoted, bare in _ELEMENT.findall(inside[1:-1]):
        if quoted:
            found.append(_text(re.sub(r"\\(.)", r"\1", quoted[1:-1])))
        elif bare.strip():
            found.append(exp.Null() if bare.strip().upper() == "NULL" else _text(bare.strip()))
    return exp.Array(expressions=found)


_ELEMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*")|([^,"]+)')


class _Writer:
    """Respells a tree from its leaves up, children before their parents."""

    def __init__(self, names: CatalogNames, speaker: CatalogSpeaker) -> None:
        self._names = names
        self._speaker = speaker
        self._root: exp.Expr | None = None
        self._ctes: frozenset[str] = frozenset()
        self._tables: dict[int, tuple[exp.Select, list[tuple[str, str]]]] = {}

    def respelled(self, tree: exp.Query) -> exp.Query:
        """Write a query in place."""
        self._root = tree
        self._ctes = frozenset(fold(cte.alias) for cte in tree.find_all(exp.CTE))
        for select in list(tree.find_all(exp.Select)):
            _name_columns(select)
        ways: Sequence[tuple[type[exp.Expr], Callable[..., exp.Expr]]] = (
            (exp.Operator, self._operator),
            (exp.Collate, lambda node: node.this),
            (exp.Dot, self._dot),
            (exp.Cast, self._cast),
            (exp.Column, self._column),
            (exp.Table, self._table),
            (exp.EQ, self._compared),
            (exp.NEQ, self._compared),
            (exp.Anonymous, self._called),
            (exp.Format, lambda node: _printed(node.this, *node.expressions)),
            (exp.Coalesce, _with_lists),
            (exp.CurrentSchemas, lambda node: _call("fn_current_schemas", node.this)),
            (exp.CurrentSchema, lambda _: _text("public")),
            ((exp.CurrentDatabase), lambda _: _text(self._speaker.database)),
            ((exp.CurrentCatalog), lambda _: _text(self._speaker.database)),
            ((exp.CurrentUser), lambda _: _text(self._speaker.user)),
            ((exp.SessionUser), lambda _: _text(self._speaker.user)),
            ((exp.CurrentVersion), lambda _: _text(self._speaker.version)),
        )
        for node in reversed(list(tree.walk(bfs=False))):
            for kind, way in ways:
                if isinstance(node, kind):
                    new = way(node)
                    if new is not node:
                        node.replace(new)
                    break
        return tree

    def _operator(self, node: exp.Operator) -> exp.Expr:
        sign = node.args["operator"].rpartition(".")[2]
        left, right = node.this, node.expression
        negated = sign.startswith("!~")
        bare = sign[1:] if negated else sign
        new: exp.Expr
        if bare == "~":
            new = exp.RegexpLike(this=left, expression=right)
        elif bare == "~*":
            new = exp.RegexpILike(this=left, expression=right)
        elif bare in _OPERATORS:
            new = _OPERATORS[bare](this=left, expression=right)
        else:
            raise not_answered("it has an operator that is not known here")
        return exp.Not(this=new) if negated else new

    def _dot(self, node: exp.Dot) -> exp.Expr:
        if isinstance(node.this, exp.Identifier) and fold(node.this.name) in _SCHEMAS:
            found: exp.Expr = node.expression
            return found
        return node

    def _column(self, node: exp.Column) -> exp.Expr:
        if node.args.get("db") is not None:
            node.set("db", None)
            node.set("catalog", None)
        name = fold(node.name)
        if name in _HIDDEN:
            return exp.Literal.number(1)
        if name == "tableoid":
            table = self._table_of(node)
            return _call("fn_to_regclass", _text(f"pg_catalog.{table}"))
        if name in ("user", "current_role") and not node.table and not node.this.quoted:
            return _text(self._speaker.user)
        return node

    def _table_of(self, column: exp.Column) -> str:
        """Return the name of the relation that a column without a place in it is of."""
        select = column.find_ancestor(exp.Select)
        while select is not None:
            for alias, name in self._tables_in(select):
                if not column.table or alias == fold(column.table):
                    return name
            select = select.find_ancestor(exp.Select)
        return ""

    def _tables_in(self, select: exp.Select) -> list[tuple[str, str]]:
        """List the tables of a query by alias and name, once for all of its columns."""
        known = self._tables.get(id(select))
        if known is None:
            found = [(fold(t.alias_or_name), fold(t.name)) for t in select.find_all(exp.Table)]
            self._tables[id(select)] = known = (select, found)  # kept, so that its id is its own
        return known[1]

    def _table(self, node: exp.Table) -> exp.Expr:
        called = node.this
        if isinstance(called, exp.Dot):
            called = called.expression
        if isinstance(called, exp.Func):
            return self._table_function(node, called)
        name = fold(node.name)
        if not node.db and name in self._ctes:
            return node
        room = _SCHEMAS[fold(node.db)] if node.db else PG_ROOM
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
        relation = exp.Table(this=exp.to_identifier(name, True), db=exp.to_identifier(room))
        column = _OF_USERS.get(name)
        if column is not None:
            mine = exp.Coalesce(
                this=_nullif(exp.column(column)), expressions=[_text(self._speaker.user)]
            )
            star = exp.Star(replace=[exp.alias_(mine, column)])
            chosen = exp.Select(expressions=[star]).from_(relation)
            return exp.Subquery(this=chosen, alias=alias, joins=node.args.get("joins"))
        node.set("this", relation.this)
        node.set("db", relation.args["db"])
        node.set("catalog", None)
        node.set("alias", alias)
        node.set("only", None)
        return node

    def _table_function(self, node: exp.Table, called: exp.Func) -> exp.Expr:
        name = fold(called.name).removeprefix("fn_")
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
        if name == "pg_get_keywords":
            node.set("this", exp.to_identifier("keywords"))
            node.set("db", exp.to_identifier(PG_ROOM))
            node.set("alias", alias)
            return node
        columns = _TABLE_FUNCTIONS.get(name)
        if columns is None:
            if isinstance(called, _SCALAR):
                return _table_of_value(node, alias, called)
            if isinstance(called, exp.ExplodingGenerateSeries):
                # Its ends may be looked up in a catalog, which DuckDB has in no function of FROM.
                return _table_of_value(node, alias, _call("unnest", _series(called)))
            node.set("this", called)
            node.set("db", None)
            return node
        if node.args.get("ordinality"):
            columns = (*columns, "ordinality")
        empty = exp.Select(expressions=[exp.alias_(exp.Null(), each) for each in columns])
        return exp.Subquery(this=empty.where(exp.false()), alias=alias)

    def _compared(self, node: exp.Binary) -> exp.Expr:
        """Write ``x = ANY (list)`` and ``x <> ALL (list)``, and names of functions beside 0."""
        left, right = node.this, node.expression
        listed: exp.Expr | None = None
        if isinstance(node, exp.EQ) and isinstance(right, exp.Any):
            listed = right.this
        elif isinstance(right, exp.Anonymous) and fold(right.name) == "all":
            (listed,) = right.expressions
        elif isinstance(node, exp.NEQ) and isinstance(right, exp.All):
            listed = right.this
        if listed is not None:
            while isinstance(listed, exp.Paren):
                listed = listed.this
            if isinstance(listed, exp.Literal) and listed.is_string:
                listed = _array_of(listed.this)
                if listed is None:
                    raise not_answered("a value of it is no list")
            if isinstance(listed, exp.Query | exp.Subquery):
                return node
            found = exp.Coalesce(
                this=_call("list_contains", listed, left), expressions=[exp.false()]
            )
            return found if isinstance(node, exp.EQ) else exp.Not(this=found)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, exp.Column) and fold(one.name) in _PROC_COLUMNS and _is_zero(other):
                other.replace(_text("-"))
        return node

    def _called(self, node: exp.Anonymous) -> exp.Expr:
        name = fold(node.name)
        if name == "pg_get_userbyid":
            return _call("fn_pg_get_userbyid", *node.expressions, _text(self._speaker.user))
        if name == "version":
            return _text(self._speaker.version)
        if name in ("current_database", "current_catalog"):
            return _text(self._speaker.database)
        if name in ("json_build_object", "jsonb_build_object"):
            return _call("json_object", *node.expressions)
        if name == "format" and node.expressions:
            return _printed(*node.expressions)
        if name in self._names.functions:
            return _call(f"fn_{name}", *node.expressions)
        known = name.startswith("fn_") or name in _OF_DUCKDB or name in ("all", "any")
        if known or name in _TABLE_FUNCTIONS or name == "pg_get_keywords":
            return node
        raise not_answered(f"it calls {name[:63]}, which is not known here")

    # -- casts ------------------------------------------------------------------------------------

    def _cast(self, node: exp.Cast) -> exp.Expr:
        inner, name = node.this, _kind_of(node.to)
        if name in _REG:
            return self._registered(node, name)
        was = _was_registered(inner)
        if name.endswith("[]"):
            if isinstance(inner, exp.Literal) and inner.is_string:
                inner = _array_of(inner.this) or inner
            element = _PLAIN_TYPES.get(name.removesuffix("[]"), name.removesuffix("[]"))
            return exp.cast(inner, f"{element}[]", dialect="postgres")
        if name in ("int2vector", "oidvector"):
            return exp.cast(inner, "BIGINT[]", dialect="postgres")
        if name in ("oid", "int", "int4", "int8", "bigint", "integer"):
            if was is not None and fold(inner.name).endswith("_name"):
                number: exp.Expr = inner.expressions[0].copy()  # that was there before
                return number
            if isinstance(inner, exp.Column) and fold(inner.name) in _PROC_COLUMNS:
                return exp.Literal.number(0)
        if name in ("text", "varchar", "name", "character varying"):
            if was is not None and fold(inner.name).startswith("fn_to_") and was != "regproc":
                return _call(f"fn_{was}_name", inner)
            return exp.cast(inner, "TEXT", dialect="postgres")
        plain = _PLAIN_TYPES.get(name)
        if plain is None and node.to.this != exp.DType.USERDEFINED:
            return node
        return exp.cast(inner, plain or name, dialect="postgres")

    def _registered(self, node: exp.Cast, name: str) -> exp.Expr:
        """Write a cast to the type of a registered object: its number, or its name if shown."""
        kind = "regproc" if name in _LIKE_PROC else name
        inner = node.this
        while isinstance(inner, exp.Paren) or (
            isinstance(inner, exp.Cast) and _kind_of(inner.to) in ("text", "varchar")
        ):
            inner = inner.this
        named = isinstance(inner, _NAMING) or (
            isinstance(inner, exp.Anonymous) and inner.name == _PRINTED
        )
        if isinstance(inner, exp.Literal) and inner.is_string:
            named = not inner.name.isdecimal()
            inner = inner if named else exp.Literal.number(inner.name)
        if not named:
            return inner if _is_compared(node) else _call(f"fn_{kind}_name", inner)
        found = _call(f"fn_to_{kind}", inner)
        shown = node.parent is self._root or (
            isinstance(node.parent, exp.Alias) and node.parent.parent is self._root
        )
        return _call(f"fn_{kind}_name", found) if shown and kind != "regproc" else found


def _table_of_value(node: exp.Table, alias: exp.TableAlias, value: exp.Expr) -> exp.Expr:
    """Write a function in FROM as a table of its value, with a column of the table's name."""
    column = next((each.name for each in alias.args.get("columns") or ()), alias.name)
    chosen = exp.Select(expressions=[exp.alias_(value.copy(), column)])
    return exp.Subquery(this=chosen, alias=alias, joins=node.args.get("joins"))


def _series(node: exp.ExplodingGenerateSeries) -> exp.Expr:
    ends = (node.args.get(name) for name in ("start", "end", "step"))
    return _call("generate_series", *(each for each in ends if each is not None))


_SCALAR: Final = (exp.StringToArray, exp.Split, exp.Array, exp.CurrentSchemas)
"""Functions of one value that stand in FROM."""
_NAMING: Final = (exp.DPipe, exp.Concat)
"""Expressions whose value is a name."""


_OF_USERS: Final = {
    "pg_roles": "rolname",
    "pg_authid": "rolname",
    "pg_user": "usename",
    "enabled_roles": "role_name",
    "table_privileges": "grantee",
    "role_table_grants": "grantee",
}
"""Relations in which whoever asks stands, by the column with the name."""


def _nullif(column: exp.Column) -> exp.Nullif:
    return exp.Nullif(this=column, expression=_text(""))


def _is_zero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.name == "0"


def _is_compared(node: exp.Expr) -> bool:
    """Tell whether a value is compared with another, where numbers are as good as names."""
    if isinstance(node.parent, exp.Tuple) and isinstance(node.parent.parent, exp.Values):
        return node.find_ancestor(exp.In) is not None  # IN (SELECT … UNION ALL VALUES (…))
    return isinstance(node.parent, exp.EQ | exp.NEQ | exp.In)


def _was_registered(node: exp.Expr) -> str | None:
    """Return the registered type of an inner cast, if it had one."""
    if not isinstance(node, exp.Anonymous):
        return None
    found = fold(node.name).removeprefix("fn_").removeprefix("to_").removesuffix("_name")
    return found if found in _REG and fold(node.name) != found else None


def _name_columns(select: exp.Select) -> None:
    """Name the columns of a query as PostgreSQL does: by their functions, columns or types."""
    for each in list(select.expressions):
        if isinstance(each, exp.Alias | exp.Aliases | exp.Star | exp.Column | exp.Explode):
            continue
        each.replace(exp.alias_(each.copy(), _name_of(each), quoted=True))


def _name_of(node: exp.Expr) -> str:
    match node:
        case exp.Cast():
            inner = _name_of(node.this)
            return _kind_of(node.to).removesuffix("[]") if inner == _NAMELESS else inner
        case exp.Column():
            return fold(node.name)
        case exp.Collate() | exp.Paren() | exp.Window() | exp.Filter() | exp.WithinGroup():
            return _name_of(node.this)
        case exp.Dot():
            last = node.expression
            return _name_of(last) if isinstance(last, exp.Func) else fold(last.name)
        case exp.Subquery():
            first = next(iter(_selected(node)), None)
            return _NAMELESS if first is None else first.alias_or_name or _name_of(first)
        case exp.Case():
            return "case"
        case exp.Exists():
            return "exists"
        case exp.Array():
            return "array"
        case exp.Boolean():
            return "bool"
        case exp.Anonymous():
            return fold(node.name)
        case exp.Func() if not isinstance(node, exp.Binary | exp.Connector):
            return _FUNCTIONS.get(type(node)) or fold(node.sql_name())
    return _NAMELESS


def _selected(node: exp.Subquery) -> Iterator[exp.Expr]:
    if isinstance(node.this, exp.Query):
        yield from node.this.selects


_NAMELESS: Final = "?column?"
_FUNCTIONS: Final[Mapping[type[exp.Expr], str]] = {
    exp.CurrentVersion: "version",
    exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.CurrentDatabase: "current_database",
    exp.CurrentCatalog: "current_catalog",
}
