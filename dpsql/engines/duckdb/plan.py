"""Reads a plan of DuckDB's by the closed list of :mod:`dpsql.engines.duckdb.forms`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from dpsql.core.sql_types import SqlType
from dpsql.engines.duckdb.forms import (
    CALLED_ON_ROWS,
    CONDITIONS,
    ELEMENTS,
    EXPRESSIONS,
    OF_ELEMENTS,
    OPERATORS,
    OWN_FUNCTIONS,
    SUMMED,
    TYPES,
    Form,
    PlanPart,
)
from dpsql.engines.embedded.plan_sql import any_plan_type
from dpsql.engines.embedded.plans import PlanNode

_BUILT_IN: Final = ["system", "main"]
_DOUBLE: Final = {"id": "DOUBLE", "type_info": None}
_TYPE: Final = frozenset({"type"})
_DATA: Final = "function_data"
_COMPARISON: Final = frozenset({"comparison"})
_OF_CASTS: Final = (PlanPart.TYPE, PlanPart.LIST)
_DEEP: Final = (PlanPart.OPERATOR, PlanPart.VALUE, PlanPart.CONDITION, PlanPart.ELEMENT)
_Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forms:
    """The lists that a plan is read by.

    ``checks`` are made of them once: a plan has hundreds of parts, and every statement has a plan.
    """

    operators: Mapping[str, tuple[Mapping[str, Form], ...]]
    expressions: Mapping[str, tuple[Mapping[str, Form], ...]]
    conditions: Mapping[str, Mapping[str, Form]]
    functions: frozenset[str]
    aggregates: frozenset[str]
    types: frozenset[str]
    elements: Mapping[str, tuple[Mapping[str, Form], ...]]
    of_elements: frozenset[str]
    checks: _Checks = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the checks."""
        object.__setattr__(self, "checks", _Checks(self))


class UnknownPart(Exception):
    """A plan has something that is not in the lists."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The tables that a plan scans, with the number of scans, and its columns.

    ``selected`` are the expressions of these, as the engine writes them down.
    """

    tables: Counter[_Path]
    selected: Sequence[PlanNode]

    def columns(self) -> tuple[tuple[str, SqlType], ...] | None:
        """Tell names and types of the columns; None if one has no name, or its type no text."""
        found = []
        for each in self.selected:
            told = each.get("return_type") or (each.get("value") or {}).get("type")
            name, type_ = each.get("alias"), any_plan_type(told)
            if not name or type_ is None:
                return None
            found.append((str(name), type_))
        return tuple(found)


def read_by_forms(plan: PlanNode, forms: Forms) -> ReadPlan:
    """Read a plan, all of it. Raises ``UnknownPart`` for whatever is not in the lists."""
    walk = _Walk([(plan, forms.checks.operator)])
    walk.finish()
    return ReadPlan(walk.tables, _selected(plan))


def fits(node: PlanNode, several: Sequence[Mapping[str, Form]]) -> bool:
    """Tell whether an object of a plan, which has a type, has the fields of one of these forms."""
    return any(_fits(node, form) for form in several)


def _fits(node: PlanNode, form: Mapping[str, Form]) -> bool:
    check = FORMS.checks.of({**form, "type": PlanPart.ANYTHING})
    try:
        _Walk([(node, check)]).finish()
    except UnknownPart:
        return False
    return True


def _selected(plan: PlanNode) -> Sequence[PlanNode]:
    """Return what the columns of a plan's rows are: of the projection its first rows come from."""
    while plan["type"] != "LOGICAL_PROJECTION":
        place = -1 if plan["type"] == "LOGICAL_MATERIALIZED_CTE" else 0
        if not plan["children"]:
            raise UnknownPart
        plan = plan["children"][place]
    found: Sequence[PlanNode] = plan["expressions"]
    return found


@dataclass(slots=True)
class _Walk:
    """The parts of a plan still to check, each with its check, and the tables found so far."""

    todo: list[tuple[Any, _Check]]
    tables: Counter[_Path] = field(default_factory=Counter)

    def finish(self) -> None:
        """Check all queued parts. Raises ``UnknownPart``."""
        todo = self.todo
        while todo:
            found, check = todo.pop()
            check(found, self)


_Check: TypeAlias = Callable[[Any, _Walk], None]
"""Checks a part of a plan: raises ``UnknownPart``, or queues its parts for a check."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """One form of a type of object: the objects it applies to, and their check.

    They are told apart by their fields, those of their data, and their alias.
    """

    keys: Set[str]
    data: Set[str] | None
    alias: Form | None
    check: _Check


_Several: TypeAlias = Mapping[str, list[_Choice]]
"""Forms of objects by their type."""


class _Checks:
    """Checks of the parts of a plan, made of the lists."""

    def __init__(self, forms: Forms) -> None:
        self._parts: dict[PlanPart, _Check] = {
            PlanPart.ANYTHING: _anything,
            PlanPart.OPERATOR: self.operator,
            PlanPart.VALUE: self.value,
            PlanPart.CONDITION: self.condition,
            PlanPart.ELEMENT: self.element,
            PlanPart.CALL: _named(forms.functions),
            PlanPart.BYTES: _named(forms.of_elements),
            PlanPart.AGGREGATE: _named(forms.aggregates),
            PlanPart.TABLE: _table,
            PlanPart.TYPE: _cast_to(forms.types),
            PlanPart.LIST: _to_list,
            PlanPart.ONE_GROUPING: _one_grouping,
            PlanPart.DISTANCE: self.distance,
        }
        self._operators = self._several(forms.operators)
        self._values = self._several(forms.expressions)
        self._elements = self._several(forms.elements)
        self._conditions = {
            kind: self._object(form, _COMPARISON) for kind, form in forms.conditions.items()
        }

    def operator(self, found: Any, walk: _Walk) -> None:
        """Check an operator."""
        _of_these_fields(found, _listed(found, self._operators))(found, walk)

    def value(self, found: Any, walk: _Walk) -> None:
        """Check an expression."""
        _of_these_fields(found, _listed(found, self._values))(found, walk)

    def element(self, found: Any, walk: _Walk) -> None:
        """Check an expression over an element."""
        _of_these_fields(found, _listed(found, self._elements))(found, walk)

    def distance(self, found: Any, walk: _Walk) -> None:
        """Check how far from the row a frame ends: values of DOUBLEs do not overflow there."""
        if found is None:
            return
        if type(found) is not dict or type(found.get("children", [])) is not list:
            raise UnknownPart
        parts = found.get("children", [found])
        if len(parts) == 2 and found.get("return_type") == _DOUBLE:
            parts = parts[1:]  # from the row's own value on
        if len(parts) != 1 or type(parts[0]) is not dict:
            raise UnknownPart
        if parts[0].get("type") not in ("VALUE_CONSTANT", "VALUE_PARAMETER"):
            raise UnknownPart
        self.value(found, walk)

    def condition(self, found: Any, walk: _Walk) -> None:
        """Check a condition of a join."""
        _listed(found, self._conditions, "comparison")(found, walk)

    def of(self, form: Form) -> _Check:
        """Make the check of a part of this form."""
        if isinstance(form, PlanPart):
            return self._parts[form]
        if isinstance(form, frozenset):
            return _one_of(form)
        if isinstance(form, Mapping):
            return self._object(form)
        if isinstance(form, list):
            return _each(self.of(form[0]))
        return _in_places([self.of(part) for part in form])

    def _several(self, forms: Mapping[str, tuple[Mapping[str, Form], ...]]) -> _Several:
        return {
            kind: [
                _Choice(
                    form.keys() | _TYPE,
                    _keys(form.get(_DATA)),
                    form.get("alias"),
                    self._object(form, _TYPE),
                )
                for form in several
            ]
            for kind, several in forms.items()
        }

    def _object(self, form: Mapping[str, Form], given: frozenset[str] = frozenset()) -> _Check:
        """Make the check of an object with these fields, and with known fields ``given``."""
        keys = form.keys() | given
        parts = [
            (name, _later(self.of(part)) if part in _DEEP else self.of(part))
            for name, part in form.items()
            if part not in (PlanPart.ANYTHING, *_OF_CASTS)
        ]
        casts = [self.of(part) for part in _OF_CASTS if part in form.values()]
        cast = casts[0] if casts else _anything

        def check(found: Any, walk: _Walk) -> None:
            if type(found) is not dict or found.keys() != keys:
                raise UnknownPart
            for name, checked in parts:
                checked(found[name], walk)
            cast(found, walk)

        return check


def _later(check: _Check) -> _Check:
    """Make a check that queues a part, as parts may be nested as deeply as a query is."""

    def checked(found: Any, walk: _Walk) -> None:
        walk.todo.append((found, check))

    return checked


def _each(check: _Check) -> _Check:
    """Make a check that queues all parts of a list."""

    def checked(found: Any, walk: _Walk) -> None:
        if type(found) is not list:
            raise UnknownPart
        walk.todo += [(each, check) for each in found]

    return checked


def _in_places(checks: Sequence[_Check]) -> _Check:
    def checked(found: Any, walk: _Walk) -> None:
        if type(found) is not list or len(found) != len(checks):
            raise UnknownPart
        walk.todo += zip(found, checks, strict=True)

    return checked


def _one_of(values: frozenset[object]) -> _Check:
    listed = [(type(value), value) for value in values]

    def checked(found: Any, _: _Walk) -> None:
        kind = type(found)  # 1 is not True
        for type_, value in listed:
            if kind is type_ and found == value:
                return
        raise UnknownPart

    return checked


def _named(names: frozenset[str]) -> _Check:
    def checked(found: Any, _: _Walk) -> None:
        if type(found) is not list or len(found) != 3 or found[:2] != _BUILT_IN:
            raise UnknownPart
        if type(found[2]) is not str or found[2] not in names:
            raise UnknownPart

    return checked


def _cast_to(types: frozenset[str]) -> _Check:
    """Make the check of a cast to one of these types; NULL may be cast to any type.

    So may an array become a list of what it is made of, as DuckDB groups by it: no element is cast.
    """

    def checked(found: Any, _: _Walk) -> None:
        type_ = found["return_type"]
        name = type_.get("id") if type(type_) is dict else None
        if type(name) is str and name in types:
            return
        if not _of_null(found["children"]) and not _of_its_array(type_, found["children"]):
            raise UnknownPart

    return checked


def _to_list(found: Any, _: _Walk) -> None:
    if not _of_its_array(found["return_type"], found["children"]):
        raise UnknownPart


def _of_its_array(type_: Any, children: Any) -> bool:
    """Tell whether a list is cast from an array with elements of the same type."""
    if type(children) is not list or len(children) != 1 or type(children[0]) is not dict:
        return False
    element = _element(type_, "LIST")
    return element is not None and element == _element(children[0].get("return_type"), "ARRAY")


def _element(type_: Any, kind: str) -> Any:
    """Return the type of the elements of a list or array; None for other types."""
    if type(type_) is not dict or type_.get("id") != kind:
        return None
    info = type_.get("type_info")
    return info.get("child_type") if type(info) is dict else None


def _of_null(children: Any) -> bool:
    if type(children) is not list or len(children) != 1 or type(children[0]) is not dict:
        return False
    if children[0].get("type") != "VALUE_CONSTANT":
        return False
    value: Any = children[0].get("value")
    return type(value) is dict and value.get("is_null") is True


def _anything(_: Any, __: _Walk) -> None:
    """Check nothing: the part is not computed with."""


def _table(found: Any, walk: _Walk) -> None:
    if type(found) is not list or not all(type(each) is str for each in found):
        raise UnknownPart
    walk.tables[tuple(found)] += 1


def _one_grouping(found: Any, _: _Walk) -> None:
    if type(found) is not list or len(found) > 1:
        raise UnknownPart


def _of_these_fields(found: Any, several: list[_Choice]) -> _Check:
    if len(several) == 1:
        return several[0].check
    data = _keys(found.get(_DATA))
    for each in several:
        if found.keys() != each.keys or data != each.data:
            continue
        if isinstance(each.alias, frozenset) and found["alias"] not in each.alias:
            continue
        return each.check
    raise UnknownPart


def _keys(data: object) -> Set[str] | None:
    return data.keys() if isinstance(data, Mapping) else None


def _listed(found: Any, forms: Mapping[str, Any], name: str = "type") -> Any:
    kind = found.get(name) if type(found) is dict else None
    if type(kind) is not str or kind not in forms:
        raise UnknownPart
    return forms[kind]


FORMS: Final = Forms(
    OPERATORS,
    EXPRESSIONS,
    CONDITIONS,
    OWN_FUNCTIONS | CALLED_ON_ROWS,
    SUMMED,
    TYPES,
    ELEMENTS,
    OF_ELEMENTS,
)
"""Those of generated SQL."""
