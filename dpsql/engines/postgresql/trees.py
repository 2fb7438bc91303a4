"""Reads a query as PostgreSQL has analysed it: the tree in its catalogs, by a closed list.

The text of a tree is ``{TYPE :field value …}``, with lists in brackets. In a tree a function, an
operator or a relation is a number, not a name, and a view is one relation. So the names in the
lists are looked up once for a server, among what PostgreSQL came with.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from dpsql.engines.postgresql.forms import CALLED, NODES, ON_ROWS, SIGNS, Fields

_TOKEN: Final = re.compile(r'[{}()]|"(?:\\.|[^"\\])*"|(?:\\.|[^\s(){}\\])+', re.DOTALL)
BUILT_IN: Final = 16384
"""The first object id of users' objects: lower ones came with the server."""
_ONE_VALUE: Final = "4"  # which fails where it finds two rows
_RELATION, _SUBQUERY, _FUNCTION, _KEYS = "0", "1", "3", "9"
_NULL: Final = "<>"

_CALLS: Final = {"FUNCEXPR": "funcid", "AGGREF": "aggfnoid", "WINDOWFUNC": "winfnoid"}

TreeValue: TypeAlias = "str | Node | list[TreeValue]"


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its type, and what stands in each field."""

    kind: str
    fields: Mapping[str, TreeValue]


class UnknownTree(Exception):
    """A tree has something that is not in the lists."""


@dataclass(frozen=True, slots=True)
class KnownNumbers:
    """The listed functions and operators of a server, by number."""

    functions: frozenset[str]
    operators: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TreeForms:
    """The lists that a tree is read by."""

    nodes: Mapping[str, Fields]
    called: frozenset[str]
    operators: frozenset[str]


TREE_FORMS: Final = TreeForms(NODES, CALLED | ON_ROWS, SIGNS)


def relations_read(text: str, known: KnownNumbers, forms: TreeForms) -> Counter[str]:
    """Read a tree, all of it; returns the numbers of relations, each as often as it is scanned.

    Raises ``UnknownTree`` for whatever is not in the lists.
    """
    return relations_of(all_nodes(parsed_query(text)), known, forms)


def relations_of(nodes: Iterable[Node], known: KnownNumbers, forms: TreeForms) -> Counter[str]:
    """Read the nodes of a tree as above."""
    found: Counter[str] = Counter()
    for node in nodes:
        wrong = wrong_field(node, forms.nodes)
        if wrong is not None:
            raise UnknownTree(f"{node.kind} {wrong}")
        match node.kind:
            case "RANGETBLENTRY":
                found.update(_scanned(node))
            case "OPEXPR" | "DISTINCTEXPR" | "NULLIFEXPR" | "SCALARARRAYOPEXPR":
                _look_up_operator(node, known)
            case "FUNCEXPR" | "AGGREF" | "WINDOWFUNC":
                number = node.fields.get(_CALLS[node.kind])
                if not isinstance(number, str) or number not in known.functions:
                    raise UnknownTree(f"{node.kind} {number}")
            case "COERCEVIAIO" | "RELABELTYPE":
                _look_at_type(node, "resulttype")
            case "SUBLINK":
                _look_at_subquery(node)
            case "QUERY":
                if varies(node.fields.get("limitOffset")) or varies(node.fields.get("limitCount")):
                    raise UnknownTree("limit")
                if node.fields.get("hasTargetSRFs") != "false" and _is_over_rows(node):
                    raise UnknownTree("function of rows")
    return found


def wrong_field(node: Node, nodes: Mapping[str, Fields]) -> str | None:
    """Name the first field of a node with a forbidden name or value; None without one.

    A node that may not be there has its kind for a name.
    """
    fields = nodes.get(node.kind)
    if fields is None:
        return node.kind
    for name, value in node.fields.items():
        if name not in fields:
            return name
        allowed = fields[name]
        if allowed is not None and (not isinstance(value, str) or value not in allowed):
            return name
    return None


def _look_up_operator(node: Node, known: KnownNumbers) -> None:
    number, function = node.fields.get("opno"), node.fields.get("opfuncid")
    if not isinstance(number, str) or number not in known.operators:
        raise UnknownTree(f"{node.kind} {number}")
    if function not in ("0", known.operators[number]):
        raise UnknownTree(f"{node.kind} {number} {function}")


def _look_at_type(node: Node, field: str) -> None:
    number = node.fields.get(field)
    if not isinstance(number, str) or not number.isdecimal() or int(number) >= BUILT_IN:
        raise UnknownTree(f"{node.kind} {number}")


def _look_at_subquery(node: Node) -> None:
    kind = node.fields.get("subLinkType")
    if kind == _ONE_VALUE and not is_one_row(node.fields.get("subselect")):
        raise UnknownTree(f"SUBLINK {kind}")


def is_one_row(value: TreeValue | None) -> bool:
    """Tell whether a query has at most one row: no table, or only queries of a single row."""
    if not isinstance(value, Node) or value.kind != "QUERY":
        return False
    entries = value.fields.get("rtable")
    several = any(value.fields.get(each) != _NULL for each in ("setOperations", "groupingSets"))
    if value.fields.get("hasTargetSRFs") != "false" or several:
        return False
    if not isinstance(entries, list):
        return entries == _NULL
    return all(isinstance(entry, Node) and _has_one_row(entry) for entry in entries)


def _has_one_row(entry: Node) -> bool:
    """Tell whether an entry of a FROM clause has one row at most, or is the keys of a GROUP BY."""
    kind = entry.fields.get("rtekind")
    return kind == _KEYS or (kind == _SUBQUERY and is_one_row(entry.fields.get("subquery")))


def _scanned(node: Node) -> Iterator[str]:
    """Yield the number of the relation that an entry of a FROM clause scans, if it does."""
    kind = node.fields.get("rtekind")
    if kind == _RELATION:
        number = node.fields.get("relid")
        if not isinstance(number, str):
            raise UnknownTree("relation")
        yield number
    elif kind == _FUNCTION and varies(node.fields.get("functions")):
        raise UnknownTree("function in FROM")


def _is_over_rows(query: Node) -> bool:
    """Tell whether a query reads rows, or its values depend on those of another."""
    return query.fields.get("rtable") != _NULL or varies(query.fields.get("targetList"))


def varies(value: TreeValue | None) -> bool:
    """Tell whether something depends on more than constants and what a statement is given."""
    if value is None:
        return True
    return any(node.kind in ("VAR", "SUBLINK", "QUERY") for node in all_nodes(value))


# -- texts ----------------------------------------------------------------------------------------


def parsed_query(text: str) -> TreeValue:
    """Parse the text of the body of a function, and return the only query that it is."""
    tokens = _TOKEN.findall(text)
    tokens.reverse()
    value = _value(tokens)
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if tokens or not isinstance(value, Node) or value.kind != "QUERY":
        raise UnknownTree("no query")
    return value


def _value(tokens: list[str]) -> TreeValue:
    """Take one value off the end of reversed tokens."""
    # Nested as deeply as the expression is, which the analyst's text limits.
    word = tokens.pop() if tokens else ""
    if word == "(":
        listed: list[TreeValue] = []
        while tokens and tokens[-1] != ")":
            listed.append(_value(tokens))
        _drop(tokens, ")")
        return listed
    if word == "{":
        return _node(tokens)
    if word in ("", ")", "}"):
        raise UnknownTree("text")
    return word


def _node(tokens: list[str]) -> Node:
    kind = tokens.pop()
    fields: dict[str, TreeValue] = {}
    while tokens and tokens[-1] != "}":
        label = tokens.pop()
        if not label.startswith(":") or label[1:] in fields:
            raise UnknownTree("text")
        values: list[TreeValue] = []
        while tokens and tokens[-1] != "}" and not tokens[-1].startswith(":"):
            values.append(_value(tokens))
        fields[label[1:]] = values[0] if len(values) == 1 else values
    _drop(tokens, "}")
    return Node(kind, fields)


def _drop(tokens: list[str], token: str) -> None:
    if not tokens or tokens.pop() != token:
        raise UnknownTree("text")


def all_nodes(value: TreeValue) -> Iterator[Node]:
    """Yield every node of a value."""
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo += each
        elif isinstance(each, Node):
            yield each
            todo += each.fields.values()
