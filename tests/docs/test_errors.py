"""The catalogue of errors is current and complete: each refusal has a statement that raises it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import conftest
import pytest
from helpers.attacks import ATTACKS, GRID_ATTACKS, VIEW_ATTACKS, Attack
from helpers.failures import fails_with
from helpers.scripts import script
from helpers.support import connect_to_grid, connect_to_views

import dpsql
from dpsql import errors
from dpsql.core.codes import _MEANINGS, CODES

ROOT = Path(__file__).parents[2]
CLASSES = [
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, dpsql.Error)
]


SCRIPT = script("tools/docs/errors.py")
REFUSALS = [
    code
    for code, known in CODES.items()
    if known.kind in SCRIPT.QUERY_CLASSES and code not in SCRIPT.ELSEWHERE
]


@cache
def sources() -> tuple[str, ...]:
    """The text of each module of the package but the catalogue."""
    modules = sorted((ROOT / "dpsql").rglob("*.py"))
    return tuple(path.read_text(encoding="utf-8") for path in modules if path.name != "codes.py")


@pytest.mark.slow
def test_the_page_is_what_dpsql_says() -> None:
    """If this fails, run ``python tools/docs/errors.py``."""
    page = SCRIPT.page()
    assert SCRIPT.PAGE.read_text(encoding="utf-8") == page
    assert set(re.findall(r"^### (\w+)\n\n.+\n\n```sql$", page, re.MULTILINE)) == set(REFUSALS)


def written() -> Iterator[tuple[str, str]]:
    """Every ``code="..."`` in the package, with the class that was named last before it."""
    names = "|".join(CLASSES)
    for text in sources():
        kind = ""
        for name, code in re.findall(rf'\b({names})\(|\bcode="(\w+)"', text):
            kind = name or kind
            if code:
                yield code, kind


def test_every_code_that_is_written_in_the_source_is_known_and_fits_its_class() -> None:
    found = set(written())
    assert len(found) > 100
    assert found <= {(code, known.kind.__name__) for code, known in CODES.items()}


HELPER = re.compile(r"\bdef (\w+)\(\s*(?:self,\s*)?([^)*]*)\bcode: str")


def passed() -> Iterator[str]:
    """Every code given in its place to a function that makes an error with it."""
    helpers = [{name: args.count(",") for name, args in HELPER.findall(t)} for t in sources()]
    shared = {name: at for own in helpers for name, at in own.items() if not name.startswith("_")}
    for text, own in zip(sources(), helpers, strict=True):
        places = shared | own
        if not re.search(rf"\b({'|'.join(places)})\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                for argument in node.args[places.get(name, len(node.args)) :][:1]:
                    parts = ast.walk(argument)
                    yield from _texts(parts)


@pytest.mark.slow
def test_every_code_that_is_passed_on_is_known() -> None:
    found = set(passed())
    assert {"policy_syntax", "join_kind", "option_twice", "ledger_over_reserved"} <= found
    assert found <= set(CODES)


def test_every_known_code_occurs_in_the_source() -> None:
    literals = set(re.findall(r'"(\w+)"', "\n".join(sources())))
    assert set(CODES) - literals == set()


def _texts(parts: Iterable[ast.AST]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def test_a_code_belongs_to_one_class_and_means_one_thing() -> None:
    assert len(CODES) == sum(map(len, _MEANINGS.values()))
    assert [code for code in CODES if not re.fullmatch(r"[a-z][a-z0-9_]+", code)] == []
    assert [code for code, known in CODES.items() if not known.meaning.endswith(".")] == []


@pytest.mark.parametrize("code", REFUSALS)
def test_every_refusal_has_an_example(code: str) -> None:
    assert code in {attack.outcome for attack in (*ATTACKS, *GRID_ATTACKS, *VIEW_ATTACKS)}


@pytest.mark.parametrize(
    ("kind", "code"), [(dpsql.QueryRefused, "no_such_code"), (dpsql.DataError, "raw_rows")]
)
def test_an_error_of_an_unknown_code_or_of_another_class_fails_a_test(
    kind: type[dpsql.Error], code: str
) -> None:
    with pytest.raises(AssertionError, match=code):
        kind("reason", code=code)
    assert conftest._strays.pop() == f"{kind.__name__} [{code}] is not in dpsql/core/codes.py"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect_to_grid(tmp_path_factory.mktemp("grid")) as connection:
        yield connection


@pytest.mark.parametrize("attack", GRID_ATTACKS, ids=lambda attack: attack.sql)
def test_what_cannot_be_grouped_or_ordered_by_is_refused_for_nothing(
    attack: Attack, grid: dpsql.Connection
) -> None:
    with fails_with(attack.outcome):
        grid.sql(attack.sql)
    assert grid.budget().queries == 0


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect_to_views(tmp_path_factory.mktemp("views")) as connection:
        yield connection


@pytest.mark.slow
@pytest.mark.parametrize("attack", VIEW_ATTACKS, ids=lambda attack: attack.sql)
def test_a_view_that_promises_nothing_any_more_is_refused_for_nothing(
    attack: Attack, views: dpsql.Connection
) -> None:
    before = views.budget()
    with fails_with(attack.outcome):
        views.sql(attack.sql)
    assert views.budget() == before
