"""Reads a plan of DuckDB's by the closed list of :mod:`dpsql.engines.duckdb_forms`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dpsql.engines.duckdb_forms import (
    CALLED_ON_ROWS,
    CONDITIONS,
    EXPRESSIONS,
    OPERATORS,
    OWN_FUNCTIONS,
    SUMMED,
    TYPES,
    Form,
    PlanPart,
)
from dpsql.engines.plans import PlanNode

_BUILT_IN: Final = ("system", "main")
_Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forms:
    """The lists that a plan is read by."""

    operators: Mapping[str, tuple[Mapping[str, Form], ...]]
    expressions: Mapping[str, tuple[Mapping[str, Form], ...]]
    conditions: Mapping[str, Mapping[str, Form]]
    functions: frozenset[str]
    aggregates: frozenset[str]
    types: frozenset[str]


FORMS: Final = Forms(
    OPERATORS, EXPRESSIONS, CONDITIONS, OWN_FUNCTIONS | CALLED_ON_ROWS, SUMMED, TYPES
)
"""Those of generated SQL."""


class UnknownPart(Exception):
    """A plan has something that is not in the lists."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a plan reads: whole names of tables, each as often as it is read; and its columns."""

    tables: Counter[_Path]
    columns: int


def read_by_forms(plan: PlanNode, forms: Forms) -> ReadPlan:
    """Read a plan, all of it. Raises ``UnknownPart`` for whatever is not in the lists."""
    return ReadPlan(_Walk(forms).tables_of(plan), _columns(plan))


def fits(node: PlanNode, several: Sequence[Mapping[str, Form]]) -> bool:
    """Tell whether an object of a plan, which has a type, has the fields of one of these forms."""
    return any(_fits(node, form) for form in several)


def _fits(node: PlanNode, form: Mapping[str, Form]) -> bool:
    try:
        _Walk(FORMS).look_through(node, {**form, "type": PlanPart.ANYTHING})
    except UnknownPart:
        return False
    return True


def _columns(plan: PlanNode) -> int:
    """Count the columns of a plan's rows: of the projection that its first rows come from."""
    while plan["type"] != "LOGICAL_PROJECTION":
        place = -1 if plan["type"] == "LOGICAL_MATERIALIZED_CTE" else 0
        if not plan["children"]:
            raise UnknownPart
        plan = plan["children"][place]
    return len(plan["expressions"])


class _Walk:
    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._todo: list[tuple[Any, Form]] = []
        self._tables: Counter[_Path] = Counter()

    def tables_of(self, plan: PlanNode) -> Counter[_Path]:
        self.look_through(plan, PlanPart.OPERATOR)
        return self._tables

    def look_through(self, found: Any, form: Form) -> None:
        """Look at an object and all that is in it. Raises ``UnknownPart``."""
        self._todo.append((found, form))
        while self._todo:
            self._look(*self._todo.pop())

    def _look(self, found: Any, form: Form) -> None:
        if isinstance(form, PlanPart):
            self._part(found, form)
        elif isinstance(form, frozenset):
            # A list is not hashed, and 1 is not True.
            if type(found) in (dict, list) or not any(
                type(found) is type(one) and found == one for one in form
            ):
                raise UnknownPart
        elif isinstance(form, Mapping):
            self._object(found, form)
        elif type(found) is not list:
            raise UnknownPart
        elif isinstance(form, list):
            self._todo += [(each, form[0]) for each in found]
        elif len(found) != len(form):
            raise UnknownPart
        else:
            self._todo += zip(found, form, strict=True)

    def _object(
        self, found: Any, form: Mapping[str, Form], given: frozenset[str] = frozenset()
    ) -> None:
        """Look at an object that has these fields, and ``given`` that have been looked at."""
        if type(found) is not dict or found.keys() != form.keys() | given:
            raise UnknownPart
        self._todo += [
            (found[name], each) for name, each in form.items() if each is not PlanPart.ANYTHING
        ]

    def _part(self, found: Any, part: PlanPart) -> None:
        match part:
            case PlanPart.OPERATOR:
                self._one_of(found, self._listed(found, self._forms.operators))
            case PlanPart.VALUE:
                self._one_of(found, self._listed(found, self._forms.expressions))
            case PlanPart.CONDITION:
                form = self._listed(found, self._forms.conditions, "comparison")
                self._object(found, form, _COMPARISON)
            case PlanPart.CALL:
                self._named(found, self._forms.functions)
            case PlanPart.AGGREGATE:
                self._named(found, self._forms.aggregates)
            case PlanPart.TABLE:
                if type(found) is not list or not all(type(each) is str for each in found):
                    raise UnknownPart
                self._tables[tuple(found)] += 1
            case PlanPart.TYPE:
                if type(found) is not dict or found.get("id") not in self._forms.types:
                    raise UnknownPart
            case PlanPart.ONE_GROUPING:
                if type(found) is not list or len(found) > 1:
                    raise UnknownPart

    def _one_of(self, found: Any, several: tuple[Mapping[str, Form], ...]) -> None:
        """Look at an operator or an expression, of which type there may be several forms."""
        for form in several:
            if len(found) == len(form) + 1 and found.keys() == form.keys() | _TYPE:
                self._object(found, form, _TYPE)
                return
        raise UnknownPart

    def _listed(self, found: Any, forms: Mapping[str, Any], field: str = "type") -> Any:
        kind = found.get(field) if type(found) is dict else None
        if type(kind) is not str or kind not in forms:
            raise UnknownPart
        return forms[kind]

    def _named(self, found: Any, names: frozenset[str]) -> None:
        if type(found) is not list or len(found) != 3:
            raise UnknownPart
        *path, name = found
        if tuple(path) != _BUILT_IN or name not in names:
            raise UnknownPart


_TYPE: Final = frozenset({"type"})
_COMPARISON: Final = frozenset({"comparison"})
