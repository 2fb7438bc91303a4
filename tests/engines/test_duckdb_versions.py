"""Every version of DuckDB with a table of verdicts is read and locked like 2.0.0."""

from __future__ import annotations

import os
import re
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from helpers.installed_duckdb import IS_DUCKDB_1

import dpsql
from dpsql.core.sql import name, sql
from dpsql.engines.embedded import lockdown
from dpsql.engines.embedded.lockdown import LOCKDOWN_SETTINGS, lock_down, settings_of
from dpsql.engines.embedded.plan_spellings import Spelling, of_1_5, of_2_0_1
from dpsql.engines.embedded.plans import plan_of, read_plan
from dpsql.engines.embedded.running import materialized, selected, serialized_plan
from dpsql.engines.embedded.versions import DuckDBVersion, version_of
from dpsql.engines.evidence.evidence import call_of, calls
from dpsql.engines.evidence.verdicts import EngineVersion, is_surveyed, verdicts_on

ROOT: Final = Path(__file__).parents[2]
SURVEYS: Final = ROOT / "dpsql" / "engines" / "evidence" / "surveys"
SHIPPED: Final = sorted(
    tuple(map(int, path.stem.removeprefix("duckdb-").split(".")))
    for path in SURVEYS.glob("duckdb-*.json")
)


def test_what_is_installed_is_what_should_be_tried() -> None:
    """Else ``make duckdb-versions`` would try one version several times."""
    assert os.environ.get("DPSQL_DUCKDB", duckdb.__version__) == duckdb.__version__


def test_rows_that_are_kept_are_those_of_one_run() -> None:
    """Keys and values of groups are read of them one after the other."""
    with duckdb.connect(":memory:") as connection:
        asked = sql("SELECT random() AS a, range AS b FROM range(?)")
        rows = materialized(connection, asked, [5])
        whole = rows.fetchall()
        assert len(whole) == 5
        for _ in range(2):
            assert selected(rows, [name("a")]).fetchall() == [(a,) for a, _ in whole]


def test_the_range_that_is_asked_for_is_that_of_the_tables() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (asked,) = (each for each in project["dependencies"] if each.startswith("duckdb"))
    found = re.fullmatch(r"duckdb>=([\d.]+),<([\d.]+)", asked)
    assert found is not None
    first, (major, minor, _) = SHIPPED[0], SHIPPED[-1]
    assert found[1] == ".".join(map(str, first))
    assert found[2] == f"{major}.{minor + 1}"


@pytest.mark.parametrize("version", SHIPPED, ids=str)
def test_tables_are_of_versions_that_are_told_apart(version: tuple[int, ...]) -> None:
    of = EngineVersion("duckdb", ".".join(map(str, version)))
    table = verdicts_on(of)
    assert table.made_with == of
    assert len(table.calls) > 2500
    assert table.objection("+(BIGINT, BIGINT)") is not None
    assert table.objection("+(BIGINT, BIGINT)", caught=True) is None


def test_a_version_between_two_is_none_of_both(tmp_path: Path) -> None:
    with pytest.raises(dpsql.InterfaceError) as caught:
        verdicts_on(EngineVersion("duckdb", "2.0.99"), tmp_path)
    assert caught.value.code == "engine_not_surveyed"
    assert "dpsql check --survey" in str(caught.value.hint)
    assert not is_surveyed(EngineVersion("duckdb", "2.0.99"))


def test_a_version_that_is_not_listed_is_taken_for_the_last_before_it() -> None:
    assert version_of("2.0.0") == DuckDBVersion()
    assert version_of("2.0.1") == version_of("2.0.7.dev12") == version_of("3.1.0")
    assert version_of("1.5.0") == version_of("1.5.99") != version_of("2.0.0")


# -- settings -------------------------------------------------------------------------------------


def test_a_locked_connection_has_all_settings_of_its_version() -> None:
    with duckdb.connect() as connection:
        lock_down(connection)
        assert settings_of(connection) == LOCKDOWN_SETTINGS
        cursor = connection.cursor()
        assert settings_of(cursor) == LOCKDOWN_SETTINGS
        assert cursor.execute("SELECT 1 // 0, 1 % 0").fetchall() == [(None, None)]
        with pytest.raises(duckdb.Error):
            cursor.execute("SET threads = 2")


def test_a_setting_that_a_version_lacks_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"never_heard_of": "true", **LOCKDOWN_SETTINGS}
    monkeypatch.setattr(lockdown, "LOCKDOWN_SETTINGS", wanted)
    with duckdb.connect() as connection, pytest.raises(dpsql.InternalError) as caught:
        lock_down(connection)
    assert caught.value.code == "not_locked"


# -- plans ----------------------------------------------------------------------------------------


CALLS: Final = {
    "CAST(s AS DATE)": {"CAST(VARCHAR AS DATE)"},
    "TRY_CAST(s AS DATE)": {"TRY_CAST(VARCHAR AS DATE)"},
    "a + 1 < b": {"+(INTEGER, INTEGER)", "<(INTEGER, INTEGER)"},
    "s LIKE 'x%'": {"~~(VARCHAR, VARCHAR)"},
    "s LIKE 'x#%' ESCAPE '#'": {"like_escape(VARCHAR, CONSTANT)"},
    "s LIKE s ESCAPE s": {"like_escape(VARCHAR, VARCHAR, VARCHAR)"},
    "date_trunc('MONTH', d)": {"date_trunc('month', DATE)"},
    "a IS DISTINCT FROM b": {"IS DISTINCT FROM(INTEGER, INTEGER)"},
    "concat(s, s)": {"concat(VARCHAR, ...)"},
    "s = s": {"=(VARCHAR, VARCHAR)"},
}


@pytest.mark.few(len(CALLS))
@pytest.mark.parametrize("text", CALLS)
def test_calls_have_the_same_names_in_all_versions(text: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b INTEGER, s VARCHAR, d DATE)")
        asked = f"SELECT {text} FROM t"
        ((plan,),) = connection.execute(
            "SELECT json_serialize_plan(?, optimize := false)", [asked]
        ).fetchall()
    assert {call_of(node) for node in calls(read_plan(plan))} == CALLS[text]


CAST_OF_1_5: Final = {
    "expression_class": "BOUND_CAST",
    "type": "OPERATOR_CAST",
    "alias": "x",
    "query_location": 7,
    "child": {"type": "BOUND_REF", "return_type": {"id": "VARCHAR", "type_info": None}},
    "return_type": {"id": "DATE", "type_info": None},
    "try_cast": False,
}
COMPARISON_OF_1_5: Final = {
    "expression_class": "BOUND_COMPARISON",
    "type": "COMPARE_EQUAL",
    "alias": "",
    "query_location": 7,
    "left": {},
    "right": {},
}
CALL_OF_2_0_1: Final = {
    "expression_class": "BOUND_FUNCTION",
    "type": "BOUND_FUNCTION",
    "children": [{}, {}],
    "positional_arguments": 2,
    "named_arguments": [],
}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("spelling", "node", "gone"),
    [
        (of_1_5, CAST_OF_1_5, "try_cast"),
        (of_1_5, COMPARISON_OF_1_5, "left"),
        (of_2_0_1, CALL_OF_2_0_1, "named_arguments"),
    ],
)
def test_what_is_not_known_to_the_last_field_is_left_to_be_refused(
    spelling: Spelling, node: dict[str, Any], gone: str
) -> None:
    assert gone not in spelling(deepcopy(node))
    if spelling is of_1_5:
        assert gone in spelling({**deepcopy(node), "collation": "nocase"})
    else:
        assert gone in spelling({**deepcopy(node), "named_arguments": ["x"]})
        assert gone in spelling({**deepcopy(node), "positional_arguments": 1})


def test_a_constant_is_itself_but_under_a_cast_to_another_type() -> None:
    def cast(value: str, target: str) -> dict[str, Any]:
        constant = {
            "type": "VALUE_CONSTANT",
            "alias": "",
            "value": {"type": {"id": value, "type_info": None}, "is_null": False, "value": "x"},
        }
        return {
            "type": "OPERATOR_CAST",
            "alias": "name",
            "return_type": {"id": target, "type_info": None},
            "children": [constant],
        }

    same = of_2_0_1(cast("VARCHAR", "VARCHAR"))
    assert (same["type"], same["alias"]) == ("VALUE_CONSTANT", "name")
    other = cast("VARCHAR", "DATE")
    assert of_2_0_1(deepcopy(other)) == other


def test_no_name_in_a_plan_is_taken_for_a_built_in_one() -> None:
    """Aggregates apart, of which there are no others."""
    named = {"original_arguments": [], "catalog_name": "d", "schema_name": "main", "name": "sum"}
    aggregate = {"type": "BOUND_AGGREGATE", "expression_class": "BOUND_AGGREGATE"}
    assert of_1_5({**aggregate, **named})["qname"]["path"] == ["d", "main", "sum"]
    unsaid = {**named, "catalog_name": "", "schema_name": ""}
    assert of_1_5({**aggregate, **unsaid})["qname"]["path"] == ["system", "main", "sum"]
    function = {"type": "BOUND_FUNCTION", "expression_class": "BOUND_FUNCTION"}
    assert of_1_5({**function, **unsaid})["qname"]["path"] == ["sum"]


def test_a_plan_that_is_read_as_it_is_written_is_known_by_none_of_the_forms() -> None:
    """The negative control: without its spelling no plan of another version passes."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        asked = sql("SELECT a + 1 AS a FROM t WHERE a > 2")
        plan = plan_of(connection, asked)
        ((text,),) = serialized_plan(connection, asked).fetchall()
    assert plan is not None
    assert ("BOUND_COMPARISON" in text) == IS_DUCKDB_1
    assert "BOUND_COMPARISON" not in str(plan.root)
