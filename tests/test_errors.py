"""The catalogue of errors is current and complete: each refusal has a statement that raises it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import duckdb
import pytest
from attacks import ATTACKS, GRID, GRID_ATTACKS, Attack
from support import ANALYST

import dpsql
from dpsql.policy import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy

ROOT = Path(__file__).parent.parent


def catalogue() -> ModuleType:
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("docs_errors", ROOT / "docs" / "errors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CATALOGUE = catalogue()
FOUND = CATALOGUE.by_code()
REFUSALS = [
    (kind, code)
    for kind in CATALOGUE.QUERY_CLASSES
    for code in FOUND[kind]
    if code not in CATALOGUE.ELSEWHERE
]


def test_the_page_is_what_the_source_says() -> None:
    """If this fails, run ``python docs/errors.py``."""
    assert CATALOGUE.PAGE.read_text(encoding="utf-8") == CATALOGUE.page()


def test_the_script_finds_the_codes_that_are_written_in_the_source() -> None:
    """Reading the text for ``code="..."`` finds nothing that the script does not."""
    written = {
        code
        for path in CATALOGUE.PACKAGE.rglob("*.py")
        for code in CATALOGUE.re.findall(r'\bcode="([a-z0-9_]+)"', path.read_text("utf-8"))
    }
    found = {code for codes in FOUND.values() for code in codes}
    assert written <= found
    assert {"ledger_disk_full", "policy_syntax", "join_kind", "option_twice"} <= found - written


def test_a_code_belongs_to_one_class_and_means_one_thing() -> None:
    classes: dict[str, set[str]] = {}
    for kind, codes in FOUND.items():
        for code in codes:
            classes.setdefault(code, set()).add(kind)
    assert {code: kinds for code, kinds in classes.items() if len(kinds) > 1} == {}


def test_every_code_a_query_can_raise_is_explained_and_no_other_is() -> None:
    codes = {code for kind in FOUND for code in FOUND[kind]}
    assert {code for _, code in REFUSALS} <= set(CATALOGUE.MEANINGS) <= codes


@pytest.mark.parametrize(("kind", "code"), REFUSALS)
def test_every_refusal_has_an_example(kind: str, code: str) -> None:
    assert code in {attack.outcome for attack in (*ATTACKS, *GRID_ATTACKS)}, kind


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> dpsql.Connection:
    values = ColumnPolicy(domain=tuple(range(2000)))
    table = TablePolicy("grid", PrivacyUnit("person", "uid"), {"a": values, "b": values})
    rules = Policy(
        "grid", accounts={ANALYST: AccountPolicy(ANALYST, 10.0, 1e-3)}, tables={"grid": table}
    )
    path = tmp_path_factory.mktemp("grid")
    with duckdb.connect(str(path / "grid.duckdb")) as writer:
        writer.execute(GRID)
    return dpsql.connect(path / "grid.duckdb", rules, path / "budget.db", ANALYST)


@pytest.mark.parametrize("attack", GRID_ATTACKS, ids=lambda attack: attack.sql)
def test_what_cannot_be_grouped_by_is_refused_for_nothing(attack: Attack, grid) -> None:
    with pytest.raises(dpsql.QueryRefused) as caught:
        grid.sql(attack.sql)
    assert caught.value.code == attack.outcome
    assert grid.budget().queries == 0
