"""Reads views of the owner's on PostgreSQL from the server's parse trees, to find problems in them.

A view may not fail on a row, and must mean the same each time. So its tree is read by the closed
lists of :mod:`dpsql.engines.postgresql.view_forms`; functions and operators are numbers there,
which are looked up among what the server came with. Views and tables below are named by number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dpsql.core.schema import Remark
from dpsql.core.sql import Sql, join, literal, sql
from dpsql.engines.base import view_words
from dpsql.engines.base.view_words import (
    changing_call,
    failing_call,
    foreign_call,
    unknown_part,
    unknown_way,
)
from dpsql.engines.postgresql.forms import Fields
from dpsql.engines.postgresql.trees import (
    BUILT_IN,
    Node,
    TreeValue,
    UnknownTree,
    all_nodes,
    is_one_row,
    parsed_query,
    varies,
    wrong_field,
)
from dpsql.engines.postgresql.view_forms import (
    COUNTING,
    EXTRACTED,
    SINGLE,
    TOTAL_AGGREGATES,
    TOTAL_FUNCTIONS,
    TOTAL_WINDOWS,
    VIEW_NODES,
    WRITTEN,
)

Ask = Callable[[Sql], list[tuple[Any, ...]]]
"""Runs one of the statements below and returns its rows."""

_NULL: Final = "<>"
_RELATION: Final = "0"
_ONE_VALUE: Final = "4"  # a subquery that stands for a value, which fails where it has two rows
_EXCEPT, _INTERSECT, _UNION = "3", "2", "1"
_COLUMN: Final = re.compile(r"[1-9]\d*")
_NUMBERS: Final = re.compile(r":(?:funcid|aggfnoid|winfnoid) (\d+)")
_OPERATORS: Final = re.compile(r":(?:opno|eqop|sortop) (\d+)")

# A view is what its rewrite rule is.
_VIEWS: Final = """
SELECT CAST(r.ev_class AS BIGINT), CAST(r.ev_action AS TEXT) FROM pg_rewrite r
JOIN pg_class c ON c.oid = r.ev_class WHERE c.relkind = 'v' AND r.rulename = '_RETURN'
"""
# Comparisons of single values never fail, whatever they compare: an index could not be built on
# any others. Those of records, arrays and ranges do where their parts have none. Texts are compared
# under a collation: two that differ leave none, which fails once there is a row.
_COMPARISONS: Final = """
SELECT o.oid::BIGINT, o.oprcode::OID::BIGINT, l.typcollation <> 0 FROM pg_operator o
JOIN pg_type l ON l.oid = o.oprleft JOIN pg_type r ON r.oid = o.oprright
WHERE o.oid < 16384 AND l.typname IN ({single}) AND r.typname IN ({single})
  AND (o.oprname = '<>' OR EXISTS (SELECT 1 FROM pg_amop a JOIN pg_am m ON m.oid = a.amopmethod
    WHERE a.amopopr = o.oid AND m.amname IN ('btree', 'hash')))
"""
_TYPES: Final = """
SELECT oid::BIGINT, typname::TEXT, typcollation <> 0 FROM pg_type
WHERE oid < 16384 AND typname IN ({single})
"""
_COLLATIONS: Final = "SELECT oid::BIGINT FROM pg_collation WHERE collisdeterministic"
_CALLED: Final = """
SELECT p.oid::BIGINT, p.proname::TEXT, concat(p.proname, '(', oidvectortypes(p.proargtypes), ')'),
  p.oid < 16384 AND p.pronamespace = CAST('pg_catalog' AS REGNAMESPACE), p.provolatile = 'i'
FROM pg_proc p WHERE p.oid IN ({numbers})
"""
_COMPUTED: Final = """
SELECT o.oid::BIGINT, o.oprname::TEXT,
  concat(o.oprname, '(', concat_ws(', ', CASE WHEN o.oprleft <> 0 THEN
    format_type(o.oprleft, NULL) END, format_type(o.oprright, NULL)), ')'),
  o.oid < 16384, TRUE
FROM pg_operator o WHERE o.oid IN ({numbers})
"""


@dataclass(frozen=True, slots=True)
class Called:
    """A function or operator of a server: ``own`` if it came with it.

    ``constant``: what it gives depends on its arguments alone.
    """

    name: str
    signature: str
    own: bool
    constant: bool


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The server's functions, operators and types that views use, by number.

    ``comparisons``: operators, each with its function and whether it compares under a collation.
    ``compared``: types of single values, with whether they have one. ``collations`` make no two
    texts equal. ``written``: types that are cast to text.
    """

    functions: Mapping[str, Called]
    operators: Mapping[str, Called]
    comparisons: Mapping[str, tuple[str, bool]]
    compared: Mapping[str, bool]
    collations: frozenset[str]
    written: frozenset[str]


@dataclass(frozen=True, slots=True)
class ViewForms:
    """The lists that a view's tree is read by."""

    nodes: Mapping[str, Fields]
    functions: frozenset[str]
    aggregates: frozenset[str]
    windows: frozenset[str]
    counting: frozenset[str]
    extracted: Mapping[str, frozenset[str]]


VIEW_FORMS: Final = ViewForms(
    VIEW_NODES, TOTAL_FUNCTIONS, TOTAL_AGGREGATES, TOTAL_WINDOWS, COUNTING, EXTRACTED
)


@dataclass(frozen=True, slots=True)
class ViewRead:
    """The reading of a view: its refusal, if any, and its effects on rows of several units.

    ``below`` are the numbers of the relations that it reads.
    """

    refusal: Remark | None
    several: tuple[str, ...] = ()
    below: tuple[int, ...] = ()


def view_trees(ask: Ask) -> Mapping[int, str]:
    """Read the trees of all views of a database."""
    return {int(number): text for number, text in ask(sql(_VIEWS))}


def server_parts(ask: Ask, trees: Iterable[str]) -> ServerParts:
    """Look up the server's functions, operators and types in these trees."""
    functions: set[str] = set()
    operators: set[str] = set()
    for tree in trees:
        functions.update(_NUMBERS.findall(tree))
        operators.update(_OPERATORS.findall(tree))
    single = join(", ", map(literal, sorted(SINGLE)))
    types = [(str(n), name, bool(c)) for n, name, c in ask(sql(_TYPES, single=single))]
    return ServerParts(
        _called(ask, sql(_CALLED, numbers=_listed(functions))),
        _called(ask, sql(_COMPUTED, numbers=_listed(operators))),
        {
            str(number): (str(function), bool(collated))
            for number, function, collated in ask(sql(_COMPARISONS, single=single))
        },
        {number: collated for number, _, collated in types},
        frozenset(str(number) for (number,) in ask(sql(_COLLATIONS))),
        frozenset(number for number, name, _ in types if name in WRITTEN),
    )


def _listed(numbers: Iterable[str]) -> Sql:
    return join(", ", (sql("{}", int(number)) for number in sorted({"0", *numbers})))


def _called(ask: Ask, statement: Sql) -> Mapping[str, Called]:
    return {
        str(number): Called(name, signature, bool(own), bool(constant))
        for number, name, signature, own, constant in ask(statement)
    }


def read_view(tree: str, parts: ServerParts, forms: ViewForms = VIEW_FORMS) -> ViewRead:
    """Read the tree of a view by the lists."""
    try:
        return _Reading(parts, forms).read(parsed_query(tree))
    except (UnknownTree, RecursionError):
        return ViewRead(unknown_part("a tree that cannot be read"))


class _Reading:
    """Reads one view."""

    def __init__(self, parts: ServerParts, forms: ViewForms) -> None:
        self._parts = parts
        self._forms = forms
        self._counting: set[int] = set()

    def read(self, query: TreeValue) -> ViewRead:
        """Find the first forbidden part of a query, or else its effects and sources."""
        several: dict[str, None] = {}
        below: dict[int, None] = {}
        for node in all_nodes(query):
            refusal = self._form(node) or self._part(node)
            if refusal is not None:
                return ViewRead(refusal)
            several.update(dict.fromkeys(_several(node)))
            if node.kind == "RANGETBLENTRY" and node.fields.get("rtekind") == _RELATION:
                below[int(_word(node, "relid"))] = None
        return ViewRead(None, tuple(sorted(several)), tuple(below))

    def _form(self, node: Node) -> Remark | None:
        """Find a problem in the kind of a node, or in one of its fields."""
        what = _SAID.get(node.kind, node.kind.lower())
        if node.kind == "SQLVALUEFUNCTION":
            return changing_call(_value_function(_word(node, "op")))
        wrong = wrong_field(node, self._forms.nodes)
        if wrong is None:
            return None
        if wrong == node.kind:
            return unknown_part(what)
        return _refused_field(node, wrong) or unknown_way(what)

    def _part(self, node: Node) -> Remark | None:
        """Find a problem in the meaning of a node."""
        match node.kind:
            case "QUERY":
                return self._query(node)
            case "SETOPERATIONSTMT":
                return self._set_operation(node)
            case "RANGETBLFUNCTION":
                return self._rows_of_function(node)
            case "SUBLINK":
                return self._subquery(node)
            case "OPEXPR" | "DISTINCTEXPR" | "NULLIFEXPR":
                return self._operator(node)
            case "SCALARARRAYOPEXPR":
                return self._any_of(node)
            case "MINMAXEXPR":
                return self._compared(self._parts.compared, node, "minmaxtype")
            case "FUNCEXPR":
                return self._function(node)
            case "AGGREF":
                return self._aggregate(node, "aggfnoid", self._forms.aggregates)
            case "WINDOWFUNC":
                windows = self._forms.aggregates | self._forms.windows
                return self._aggregate(node, "winfnoid", windows)
        return self._value(node)

    def _value(self, node: Node) -> Remark | None:
        """Find a problem in a value without a call."""
        match node.kind:
            case "VAR" if not _COLUMN.fullmatch(_word(node, "varattno")):
                return unknown_part("a whole row, or a column of the server's own")
            case "RELABELTYPE" if int(_word(node, "resulttype")) >= BUILT_IN:
                return unknown_part("a type that is not the engine's own")
            case "COERCEVIAIO":
                written = _type(node.fields.get("arg")) in self._parts.written
                into = self._parts.compared.get(_word(node, "resulttype"))
                return None if written and into else failing_call("a cast from or to text")
            case "COLLATEEXPR" if _word(node, "collOid") not in self._parts.collations:
                return view_words.COLLATED
            case "ARRAYEXPR" if varies(node.fields.get("elements")):
                return failing_call("an array of values")
        return None

    # -- statements -------------------------------------------------------------------------------

    def _query(self, node: Node) -> Remark | None:
        for name in ("limitCount", "limitOffset"):
            if not self._is_count(node.fields.get(name)):
                return view_words.COMPUTED_LIMIT
        targets = _listed_nodes(node.fields.get("targetList"))
        windows = _listed_nodes(node.fields.get("windowClause"))
        sorted_by = [
            *(node.fields.get(n) for n in ("groupClause", "distinctClause", "sortClause")),
            *(w.fields.get(n) for w in windows for n in ("partitionClause", "orderClause")),
        ]
        for clause in sorted_by:
            for each in _listed_nodes(clause):
                found = self._sorted(each, _collation(_target(targets, each)))
                if found is not None:
                    return found
        return None

    def _is_count(self, value: TreeValue | None) -> bool:
        """Tell whether something is a constant that rows can be counted by, or nothing."""
        if value == _NULL:
            return True
        if isinstance(value, Node) and value.kind == "FUNCEXPR":
            function = self._parts.functions.get(_word(value, "funcid"))
            if function is None or function.signature != "int8(integer)" or not function.own:
                return False
            (value,) = _listed_nodes(value.fields.get("args"))
        if not isinstance(value, Node) or value.kind != "CONST":
            return False
        found = _constant(value)
        return found is None or (not any(found[4:]) and found[3] < 128)  # below 2**31

    def _set_operation(self, node: Node) -> Remark | None:
        clauses = _listed_nodes(node.fields.get("groupClauses"))
        listed = node.fields.get("colCollations")
        collations = listed[1:] if isinstance(listed, list) else []  # after what they are
        if clauses and len(clauses) != len(collations):
            return unknown_way(_SAID["SETOPERATIONSTMT"])
        found = (self._sorted(c, k) for c, k in zip(clauses, collations, strict=False))
        return next(filter(None, found), None)

    def _sorted(self, clause: Node, collation: TreeValue | None) -> Remark | None:
        """Find a problem in a clause's comparison of rows, under the collation of their texts."""
        for name in ("eqop", "sortop"):
            number = _word(clause, name)
            if number == "0" and name == "sortop":  # of types without an order
                continue
            known = self._parts.comparisons.get(number)
            if known is None:
                return self._failing(self._parts.operators, number)
            if known[1] and collation not in self._parts.collations:
                return _collated(collation)
        return None

    def _rows_of_function(self, node: Node) -> Remark | None:
        called = node.fields.get("funcexpr")
        if isinstance(called, Node) and called.kind == "FUNCEXPR":
            function = self._parts.functions.get(_word(called, "funcid"))
            if function is not None and function.own and function.signature in self._forms.counting:
                self._counting.add(id(called))
                return view_words.COUNTED_AGAIN if varies(called.fields.get("args")) else None
        return unknown_part("rows that a function makes")

    def _subquery(self, node: Node) -> Remark | None:
        if _word(node, "subLinkType") != _ONE_VALUE:
            return None
        query = node.fields.get("subselect")
        return None if is_one_row(query) or _is_one_group(query) else view_words.LOOKUP

    # -- calls ------------------------------------------------------------------------------------

    def _operator(self, node: Node) -> Remark | None:
        number = _word(node, "opno")
        known = self._parts.comparisons.get(number)
        if known is None or _word(node, "opfuncid") not in ("0", known[0]):
            return self._failing(self._parts.operators, number)
        if known[1] and _word(node, "inputcollid") not in self._parts.collations:
            return _collated(node.fields.get("inputcollid"))
        return None

    def _any_of(self, node: Node) -> Remark | None:
        arguments = node.fields.get("args")
        if not isinstance(arguments, list) or len(arguments) != 2 or varies(arguments[1]):
            return failing_call("a comparison with an array of values")
        return self._operator(node)

    def _compared(self, known: Mapping[str, bool], node: Node, name: str) -> Remark | None:
        collated = known.get(_word(node, name))
        if collated is None:
            return failing_call("a comparison of values that have parts")
        if collated and _word(node, "inputcollid") not in self._parts.collations:
            return _collated(node.fields.get("inputcollid"))
        return None

    def _function(self, node: Node) -> Remark | None:
        number = _word(node, "funcid")
        function = self._parts.functions.get(number)
        if function is None or not function.own or not function.constant:
            return self._failing(self._parts.functions, number)
        if id(node) in self._counting:
            return None
        if node.fields.get("funcretset") != "false":
            return view_words.COUNTED_AGAIN
        arguments = _listed_nodes(node.fields.get("args"))
        asked = self._forms.extracted.get(function.signature)
        if asked is not None and _text(arguments[0]) in asked:
            return None
        total = function.signature in self._forms.functions
        return None if total else self._failing(self._parts.functions, number)

    def _aggregate(self, node: Node, name: str, total: frozenset[str]) -> Remark | None:
        number = _word(node, name)
        function = self._parts.functions.get(number)
        if function is None or not function.own or function.signature not in total:
            return self._failing(self._parts.functions, number)
        targets = _listed_nodes(node.fields.get("args"))
        if function.signature == "sum(numeric)" and not all(map(_has_digits, targets)):
            return failing_call("sum(numeric) of numbers whose digits are not declared")
        if function.signature.endswith("(text)"):
            collation = _word(node, "inputcollid")
            if collation not in self._parts.collations:
                return _collated(collation)
        for each in _listed_nodes(node.fields.get("aggdistinct")):
            found = self._sorted(each, _collation(_target(targets, each)))
            if found is not None:
                return found
        return None

    def _failing(self, known: Mapping[str, Called], number: str) -> Remark:
        """Report a call that can fail, changes, or is foreign."""
        called = known.get(number)
        if called is None:
            return unknown_part("what the server does not have")
        if not called.own:
            return foreign_call(called.name)
        if not called.constant:
            return changing_call(called.name)
        return failing_call(called.signature)


def _several(node: Node) -> Iterator[str]:
    """Yield a node's effects on rows of several units."""
    if node.kind == "SUBLINK":
        yield view_words.AGGREGATES_ROWS
    elif node.kind == "SETOPERATIONSTMT":
        kind = node.fields.get("op")
        if kind == _EXCEPT:
            yield view_words.EXCEPT
        elif kind == _INTERSECT:
            yield view_words.INTERSECT
        elif node.fields.get("all") != "true":
            yield view_words.DISTINCT
    elif node.kind == "QUERY":
        for name, nothing, said in _SEVERAL:
            if node.fields.get(name) != nothing:
                yield said


_SEVERAL: Final = (
    ("hasAggs", "false", view_words.AGGREGATES_ROWS),
    ("groupClause", _NULL, view_words.AGGREGATES_ROWS),
    ("groupingSets", _NULL, view_words.AGGREGATES_ROWS),
    ("hasWindowFuncs", "false", view_words.WINDOWS),
    ("distinctClause", _NULL, view_words.DISTINCT),
    ("limitCount", _NULL, view_words.LIMIT),
    ("limitOffset", _NULL, view_words.LIMIT),
)
_SAID: Final = {
    "QUERY": "a statement",
    "RANGETBLENTRY": "a part of FROM",
    "SETOPERATIONSTMT": "rows of several statements",
    "SUBLINK": "a subquery",
    "COMMONTABLEEXPR": "a CTE",
    "WINDOWCLAUSE": "a window",
    "AGGREF": "an aggregate",
    "WINDOWFUNC": "a window function",
    "ROWEXPR": "a record",
    "ROWCOMPAREEXPR": "a comparison of records",
    "FIELDSELECT": "a field of a record",
    "SUBSCRIPTINGREF": "an element of an array",
    "COERCETODOMAIN": "a domain",
    "ARRAYCOERCEEXPR": "a cast of an array",
    "GROUPINGFUNC": "grouping()",
}
_REFUSED: Final = {
    ("RANGETBLENTRY", "tablesample"): view_words.SAMPLE,
    ("WINDOWCLAUSE", "startOffset"): view_words.FRAME,
    ("WINDOWCLAUSE", "endOffset"): view_words.FRAME,
    ("QUERY", "hasTargetSRFs"): view_words.COUNTED_AGAIN,
    ("QUERY", "hasRecursive"): unknown_part("recursive cte"),
    ("COMMONTABLEEXPR", "cterecursive"): unknown_part("recursive cte"),
    ("RANGETBLENTRY", "self_reference"): unknown_part("recursive cte"),
}
_VALUE_FUNCTIONS: Final = (
    *("current_date", "current_time", "current_time", "current_timestamp", "current_timestamp"),
    *("localtime", "localtime", "localtimestamp", "localtimestamp"),
    *("current_role", "current_user", "user", "session_user", "current_catalog", "current_schema"),
)


def _refused_field(node: Node, name: str) -> Remark | None:
    if (node.kind, name) == ("RANGETBLENTRY", "lateral"):
        function = node.fields.get("rtekind") == "3"
        return view_words.COUNTED_AGAIN if function else unknown_part("a lateral subquery")
    return _REFUSED.get((node.kind, name))


def _value_function(number: str) -> str:
    known = number.isdecimal() and int(number) < len(_VALUE_FUNCTIONS)
    return _VALUE_FUNCTIONS[int(number)] if known else "current_…"


def _collated(collation: TreeValue | None) -> Remark:
    """Report the collation of a comparison: missing, or with unequal texts that compare equal."""
    if collation in ("0", None):
        return failing_call("a comparison of texts without one collation")
    return view_words.COLLATED


def _is_one_group(value: TreeValue | None) -> bool:
    """Tell whether a query aggregates all of its rows, which gives one row."""
    return (
        isinstance(value, Node)
        and value.kind == "QUERY"
        and value.fields.get("hasAggs") == "true"
        and all(value.fields.get(n) == _NULL for n in ("groupClause", "groupingSets"))
        and value.fields.get("setOperations") == _NULL
        and value.fields.get("hasTargetSRFs") == "false"
    )


# -- trees ----------------------------------------------------------------------------------------


def _word(node: Node, name: str) -> str:
    value = node.fields.get(name)
    return value if isinstance(value, str) else ""


def _listed_nodes(value: TreeValue | None) -> list[Node]:
    """Return the nodes of a list; none for other values."""
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, Node)]


def _target(targets: Iterable[Node], clause: Node) -> TreeValue | None:
    """Return the expression of a select list that a clause sorts or groups by."""
    number = _word(clause, "tleSortGroupRef")
    for each in targets:
        if number != "0" and each.fields.get("ressortgroupref") == number:
            return each.fields.get("expr")
    return None


_TYPED: Final[Mapping[str, tuple[str, str]]] = {
    "VAR": ("vartype", "varcollid"),
    "CONST": ("consttype", "constcollid"),
    "PARAM": ("paramtype", "paramcollid"),
    "FUNCEXPR": ("funcresulttype", "funccollid"),
    "OPEXPR": ("opresulttype", "opcollid"),
    "NULLIFEXPR": ("opresulttype", "opcollid"),
    "AGGREF": ("aggtype", "aggcollid"),
    "WINDOWFUNC": ("wintype", "wincollid"),
    "RELABELTYPE": ("resulttype", "resultcollid"),
    "COERCEVIAIO": ("resulttype", "resultcollid"),
    "CASEEXPR": ("casetype", "casecollid"),
    "CASETESTEXPR": ("typeId", "collation"),
    "COALESCEEXPR": ("coalescetype", "coalescecollid"),
    "MINMAXEXPR": ("minmaxtype", "minmaxcollid"),
    "COLLATEEXPR": ("", "collOid"),
}
"""The fields with an expression's type and collation."""


def _type(value: TreeValue | None) -> str:
    return _said(value, 0)


def _collation(value: TreeValue | None) -> str:
    return _said(value, 1)


def _said(value: TreeValue | None, place: int) -> str:
    if not isinstance(value, Node) or value.kind not in _TYPED:
        return ""
    return _word(value, _TYPED[value.kind][place])


def _has_digits(value: Node) -> bool:
    """Tell whether an argument is a column whose type fixes its number of digits."""
    found = value.fields.get("expr") if value.kind == "TARGETENTRY" else value
    if not isinstance(found, Node) or found.kind != "VAR":
        return False
    return _word(found, "vartypmod").isdecimal()


def _constant(node: Node) -> bytes | None:
    """Return the bytes of a constant; None for NULL. Raises ``UnknownTree`` for other nodes."""
    value = node.fields.get("constvalue")
    if node.fields.get("constisnull") == "true":
        return None
    if not isinstance(value, list) or value[1:2] != ["["] or value[-1] != "]":
        raise UnknownTree("constant")
    return bytes(int(str(each)) & 0xFF for each in value[2:-1])


def _text(node: Node) -> str | None:
    """Return the text of a constant, after the four bytes that say how long it is."""
    found = _constant(node) if node.kind == "CONST" else None
    return None if found is None else found[4:].decode("utf-8", "replace")
