"""An ENUM's dictionary is data: nothing that costs nothing shows it, and it changes no question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from helpers.installed_duckdb import OF_ALL_TYPES

import dpsql
from dpsql.core.sql_types import VARCHAR
from dpsql.owner.conformance import check_policy
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

SECRET = "Ms Rare Disease"
NESTED = {
    "m": "mood",
    "s": 'STRUCT(q mood, "w W" mood[])',
    "l": "mood[][]",
    "a": "mood[2]",
    "p": "MAP(mood, mood)",
    "u": "UNION(one mood, two INTEGER)",
    "deep": "STRUCT(x MAP(VARCHAR, STRUCT(y mood)[]))",
}
POLICY = Policy(
    dataset="test",
    defaults=Parameters(epsilon=50.0, delta=1e-4, max_groups_contributed=20),
    accounts={"ana": AccountPolicy("ana", 1000.0, 0.1)},
    tables={"t": TablePolicy("t", PrivacyUnit("unit", "unit"))},
)


def written(path: Path, *values: str) -> Path:
    """A file whose ENUM has these values, in which everybody has the first."""
    with duckdb.connect(str(path), config=OF_ALL_TYPES) as writer:
        listed = ", ".join(f"'{value}'" for value in values)
        writer.execute(f"CREATE TYPE mood AS ENUM ({listed})")
        columns = ", ".join(f"{name} {type_}" for name, type_ in NESTED.items())
        writer.execute(f"CREATE TABLE t (unit INTEGER, {columns}, blind VARIANT)")
        writer.execute(f"INSERT INTO t (unit, m) SELECT range, '{values[0]}' FROM range(60)")
        writer.execute("UPDATE t SET l = [[m], []], s = {'q': m, 'w W': [m, NULL]}, a = [m, m]")
        writer.execute("UPDATE t SET p = MAP {m: m}")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "data.duckdb", "fine", SECRET)


@pytest.fixture
def con(path: Path, tmp_path: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(path, POLICY, tmp_path / "budget.db", "ana") as opened:
        yield opened


def test_an_enum_is_text_wherever_it_stands(path: Path) -> None:
    engine = dpsql.DuckDBEngine(path)
    table = engine.catalog().tables["t"]
    assert {column.name: str(column.type) for column in table.columns} == {
        "unit": "INTEGER",
        "m": "VARCHAR",
        "s": 'STRUCT(q VARCHAR, "w W" VARCHAR[])',
        "l": "VARCHAR[][]",
        "a": "VARCHAR[2]",
        "p": "MAP(VARCHAR, VARCHAR)",
        "u": "UNION(one VARCHAR, two INTEGER)",
        "deep": "STRUCT(x MAP(VARCHAR, STRUCT(y VARCHAR)[]))",
    }
    engine.close()


def test_columns_of_types_that_cannot_be_told_are_left_out_and_reported(path: Path) -> None:
    engine = dpsql.DuckDBEngine(path)
    (finding,) = (
        f for f in check_policy(POLICY, engine.catalog().tables) if f.subject == "t.blind"
    )
    assert finding.level == "warning"
    assert "left out" in finding.message
    engine.close()


QUESTIONS = [
    *(f"SELECT SUM({name}) FROM t" for name in NESTED),
    *(f"SELECT {name} + 1, COUNT(*) FROM t GROUP BY 1" for name in NESTED),
    *(f"SELECT COUNT(*) FROM t WHERE {name} = DATE '2020-01-01'" for name in NESTED),
    *(f"SELECT COUNT(*) FROM t WHERE {name} = 'x'" for name in NESTED),
    *(f"SELECT COUNT(*) FROM t WHERE {name} < 17" for name in NESTED),
    *(f"SELECT sqrt({name}) FROM (SELECT {name}, COUNT(*) FROM t GROUP BY 1)" for name in NESTED),
    *(f"SELECT typeof({name}) FROM t" for name in NESTED),
    "SELECT enum_range(m) FROM (SELECT DISTINCT m FROM t)",
    "SELECT enum_range(NULL::mood), COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE blind IS NULL",
    "DESCRIBE t",
    "SHOW TABLES",
    "EXPLAIN SELECT m, COUNT(DISTINCT unit) FROM t GROUP BY m",
    "EXPLAIN SELECT s, COUNT(DISTINCT unit) FROM t GROUP BY s",
]


@pytest.mark.parametrize("sql", QUESTIONS)
def test_no_answer_and_no_refusal_shows_the_dictionary(con: dpsql.Connection, sql: str) -> None:
    try:
        answer = con.sql(sql)
        told = repr((answer.fetchall(), answer.types, repr(answer)))
    except dpsql.Error as error:
        told = repr((str(error), error.hint, error.__context__, error.__cause__))
    assert "Rare" not in told
    assert "ENUM(" not in told.upper()


@pytest.mark.slow
def test_releases_and_their_types_hold_no_dictionary(
    con: dpsql.Connection, tmp_path: Path, no_noise: None
) -> None:
    for name in ("m", "s", "l", "p"):
        sql = f"SELECT {name}, COUNT(DISTINCT unit) AS n FROM t GROUP BY {name}"
        first = con.sql(sql)
        again = con.sql(sql)
        assert again.cost.stored
        assert again.types == first.types
        assert again.fetchall() == first.fetchall()
        assert len(first.fetchall()) == 1
        assert "ENUM" not in repr(first.types)
    for part in tmp_path.glob("budget.db*"):
        assert SECRET.encode() not in part.read_bytes()
        assert b"ENUM" not in part.read_bytes()


@pytest.mark.slow
def test_a_new_value_of_an_enum_makes_no_new_question(tmp_path: Path) -> None:
    sql = "SELECT m, COUNT(DISTINCT unit) AS n FROM t GROUP BY m"
    costs = []
    for number, values in enumerate((["fine"], ["fine", SECRET])):
        path = written(tmp_path / f"{number}.duckdb", *values)
        with dpsql.connect(path, POLICY, tmp_path / "budget.db", "ana") as con:
            costs.append(con.sql(sql).cost.stored)
    assert costs == [False, True]


def test_categories_of_a_data_frame_are_text(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    words = ["fine"] * 60
    frames = {
        "p": pandas.DataFrame(
            {"unit": range(60), "m": pandas.Categorical(words, categories=["fine", SECRET])}
        ),
        "a": arrow.table(
            {
                "unit": list(range(60)),
                "m": arrow.DictionaryArray.from_arrays([0] * 60, ["fine", SECRET]),
            }
        ),
    }
    engine = dpsql.DuckDBEngine()
    for name, frame in frames.items():
        engine.register(name, frame)
        assert [column.type for column in engine.catalog().tables[name].columns][1:] == [VARCHAR]
    engine.close()


def test_check_says_that_enums_are_text(path: Path) -> None:
    engine = dpsql.DuckDBEngine(path)
    found = check_policy(POLICY, engine.catalog().tables, engine.definition)
    (said,) = (f for f in found if f.subject == "t")
    assert said.level == "warning"
    assert "m, s, l, a, p, u, deep" in said.message
    assert "Rare" not in repr(found)
    engine.close()


def test_the_owners_check_shows_no_dictionary_to_a_terminal(path: Path) -> None:
    engine = dpsql.DuckDBEngine(path)
    assert "Rare" not in repr(check_policy(POLICY, engine.catalog().tables))
    assert "Rare" not in repr(engine.catalog().tables)
    engine.close()
