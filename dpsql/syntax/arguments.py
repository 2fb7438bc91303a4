"""Arguments of syntax nodes: a rule names the arguments it reads, and all others are refused.

A parser keeps what stands between the words in arguments of a node: ``NOT`` of ``x NOT LIKE y`` is
the argument ``negate`` of a ``Like``. A rule that looks at ``this`` and ``expression`` alone would
take it for ``x LIKE y``. So rules stand in :class:`Rules`, each with the arguments that it reads,
and for a node with any other argument there is no rule.

    "this expression negate"          are read
    "this expressions ignore_nulls!"  the flag must be set: the rule is right for that alone
    "this to safe?"                   the flag changes nothing in what the rule says
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from sqlglot import exp

from dpsql.errors import QueryRefused

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class NodeArguments:
    """The arguments that a node may have, as they are written in the module's docstring."""

    written: str
    read: frozenset[str] = field(init=False)
    required: frozenset[str] = field(init=False)
    _known: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        words = self.written.split()
        required = {word.removesuffix("!") for word in words if word.endswith("!")}
        ignored = {word.removesuffix("?") for word in words if word.endswith("?")}
        object.__setattr__(self, "required", frozenset(required))
        object.__setattr__(self, "read", frozenset(w for w in words if w[-1] not in "!?"))
        object.__setattr__(self, "_known", self.read | required | ignored)

    def hold(self, node: exp.Expr) -> bool:
        """Tell whether a node has no other argument, and all flags that must be set."""
        for name, value in node.args.items():
            if name not in self._known and is_given(value):
                return False
        return all(node.args.get(flag) is True for flag in self.required)


def is_given(value: object) -> bool:
    """Tell whether an argument says anything: parsers note None, False or an empty list for none.

    >>> [is_given(value) for value in (None, False, [], "", 0, True)]
    [False, False, False, True, True, True]
    """
    return not (value is None or value is False or value == [])


_WORD = NodeArguments("this")
_TEXT = NodeArguments("this is_string!")
_BRANCH = NodeArguments("this true")


@dataclass(frozen=True, slots=True)
class Named(Generic[R]):
    """A rule, and the arguments of a node that it reads."""

    rule: R
    arguments: NodeArguments


def reads(arguments: str, rule: R) -> Named[R]:
    """Name the arguments that a rule reads."""
    return Named(rule, NodeArguments(arguments))


class Rules(Generic[R]):
    """Rules by the class of a node. There is no other way from a node to a rule."""

    def __init__(self, rules: Mapping[type[exp.Expr], Named[R]]) -> None:
        self._rules = dict(rules)

    def of(self, node: exp.Expr) -> R | None:
        """Return the rule for a node; None without a rule that reads all of its arguments."""
        found = self._rules.get(type(node))
        return found.rule if found is not None and found.arguments.hold(node) else None

    def __contains__(self, kind: object) -> bool:
        """Tell whether there is a rule for a class of nodes, of some arguments."""
        return kind in self._rules

    def __iter__(self) -> Iterator[type[exp.Expr]]:
        """Go through the classes that have a rule."""
        return iter(self._rules)

    def arguments(self, kind: type[exp.Expr]) -> NodeArguments:
        """Return the arguments that the rule for a class reads."""
        return self._rules[kind].arguments


def grouped_rules(
    table: Mapping[str, Mapping[type[exp.Expr], R]],
    others: Mapping[type[exp.Expr], Named[R]] = MappingProxyType({}),
) -> Rules[R]:
    """Make rules of a table by arguments, those that read the same together, and of others."""
    grouped = {
        kind: reads(names, rule) for names, rules in table.items() for kind, rule in rules.items()
    }
    return Rules({**grouped, **others})


def word_of(node: object) -> str | None:
    """Return a single word, as the part of a date is named; None for anything else."""
    if not isinstance(node, exp.Var) or not _WORD.hold(node):
        return None
    return str(node.this)


def extracted_part(node: object) -> str:
    """Return the part that EXTRACT names by a word or a text, in lower case; empty for others."""
    if isinstance(node, exp.Literal) and _TEXT.hold(node):
        return str(node.this).lower()
    return (word_of(node) or "").lower()


def when_branches(case: exp.Expr) -> list[exp.If]:
    """List the branches of a CASE, of a test and a value. Raises ``QueryRefused`` for others."""
    for branch in case.args["ifs"]:
        if not _BRANCH.hold(branch):
            raise unread(branch)
    return list(case.args["ifs"])


def branches(node: exp.Expr) -> list[exp.Expr]:
    """Return the values a CASE, IF, COALESCE or NULLIF can take, NULL aside."""
    if isinstance(node, exp.Case):
        values = [branch.args["true"] for branch in when_branches(node)] + [
            node.args.get("default")
        ]
    elif isinstance(node, exp.If):
        values = [node.args["true"], node.args.get("false")]
    elif isinstance(node, exp.Coalesce):
        values = [node.this, *node.expressions]
    else:
        values = [node.this]
    return [v for v in values if v is not None and not isinstance(v.unnest(), exp.Null)]


def unread(node: exp.Expr) -> QueryRefused:
    """Build the error for a node with an argument that no rule reads."""
    return QueryRefused(
        f"this form of {type(node).__name__.lower()} is not available over private rows",
        code="expression_not_allowed",
    )
