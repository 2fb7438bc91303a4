"""Which kind of release a plan is of is asked within ``dpsql.kinds`` alone.

Others ask the kind for its SQL, its intervals, its words: so a new one is a file of that folder and
a line of its registry.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator

import pytest
from test_architecture import imported, modules
from test_mechanisms_stay_inside import told_apart

from dpsql.kinds.base import ReleaseKind
from dpsql.kinds.registry import KINDS

HOME = "dpsql.kinds"
DECIDE = ("dpsql.ir", "dpsql.planner", HOME)
"""Where it is known of a question which kinds can answer it."""

OF_PLANS = frozenset(
    {"cascade", "fits", "kept", "needs_pairs", "pooled", "quantiles", "rolled_up", "set_union"}
)
OF_BLOCKS = frozenset({"cascades", "pools"})


def last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return last_name(value)
    return ""


def asked(source: str, names: frozenset[str], of: tuple[str, ...]) -> Iterator[str]:
    """What a module reads of plans or blocks that one kind alone has."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=value, attr=attribute, ctx=ast.Load()):
                if attribute in names and last_name(value).rstrip("s").endswith(of):
                    yield f"{last_name(value)}.{attribute}"


def of_a_kind(source: str) -> list[str]:
    return [*told_apart(source, (HOME,)), *asked(source, OF_PLANS, ("plan", "selection", "Kind"))]


@pytest.mark.slow
def test_nobody_outside_asks_for_a_kind() -> None:
    found = {
        name: questions
        for name, path in modules().items()
        if not name.startswith(HOME) and (questions := of_a_kind(path.read_text("utf-8")))
    }
    assert not found, "ask the kind, or give it an answer: see ReleaseKind"


@pytest.mark.slow
def test_what_a_question_is_of_is_asked_where_plans_are_made() -> None:
    found = {
        name: questions
        for name, path in modules().items()
        if not name.startswith(DECIDE)
        and (questions := [*asked(path.read_text("utf-8"), OF_BLOCKS, ("block", "_block"))])
    }
    assert not found


@pytest.mark.slow
def test_a_mechanism_of_one_kind_is_looked_for_there_alone() -> None:
    finders = {
        "dpsql.privacy.mechanisms.cascade.cascade_in",
        "dpsql.privacy.mechanisms.set_union.set_union_in",
    }
    users = {
        name
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and finders & {f"{node.module}.{alias.name}" for alias in node.names}
    }
    assert users == {f"{HOME}.cascade", f"{HOME}.union"}


def test_every_kind_of_the_folder_is_registered() -> None:
    found = {
        kind
        for name in modules()
        if name.startswith(HOME)
        for _, kind in inspect.getmembers(importlib.import_module(name), inspect.isclass)
        if issubclass(kind, ReleaseKind) and kind is not ReleaseKind
    }
    assert set(KINDS) == found
    assert f"{HOME}.registry" in imported("dpsql.pipeline.release")


@pytest.mark.parametrize(
    "source",
    [
        "from dpsql.kinds.union import UnionKind\nisinstance(kind, UnionKind)",
        "from dpsql.kinds.groups import ExactUnion\nmatch x:\n    case ExactUnion():\n        pass",
        "from dpsql.kinds.union import UnionKind\nUnionKind.fits(plan)",
        "if plan.cascade is not None: pass",
        "self.block.plan.kept",
        "prepared.plans[0].pooled",
        "plan.selection.needs_pairs",
    ],
)
def test_a_question_for_a_kind_is_found(source: str) -> None:
    assert of_a_kind(source)


@pytest.mark.parametrize(
    "source",
    [
        "release_kind(plan).interval(3, 0, columns, 0.95)",
        "replace(plan, kept=noises)",
        "plan.bounding.kept",
        "self.kept",
        "isinstance(kind, str)",
    ],
)
def test_what_is_no_such_question_is_none(source: str) -> None:
    assert not of_a_kind(source)
