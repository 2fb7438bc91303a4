"""Parts of JSON: a path names one text, and a document decides about its own row alone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Final

import duckdb
import pytest
from helpers.installed_duckdb import until_2_0_0
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.core.schema import Column, Table
from dpsql.core.sql_types import VARCHAR
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.embedded.lockdown import isolated
from dpsql.sql.expressions.alike import write_alike
from dpsql.sql.expressions.totality import total_sql
from dpsql.syntax.json_paths import read_name, read_path, write_path
from dpsql.syntax.parse import parse

ROWS: Final = Table("t", (Column("v", VARCHAR),))
DOCUMENTS: Final = (
    *(
        "",
        " ",
        "x",
        "{",
        "{a:1}",
        '{"a":1}x',
        '{"a":1,}',
        '// c\n{"a":1}',
        "\0",
        "null",
        '{"a":null}',
    ),
    *(
        '{"a":1}',
        '{"a":1,"a":2}',
        '{"a":1e400}',
        '{"a":NaN}',
        '{"a":-0.0}',
        '{"a":1.10}',
        "1",
        '"a"',
    ),
    *('{"a":"\\ud800"}', '{"a":"\\u0000"}', '{"a":"\\ud83d\\ude00"}', '{"a":18446744073709551616}'),
    *(
        "[" * 5_000 + "]" * 5_000,
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        '{"a":' + "9" * 9000 + "}",
    ),
    *(
        '{"a":[1e20,1e20]}',
        '[[1],{"a":"b"}]',
        '{"a":{"a":"b"}}',
        '{"a":"{\\"a\\":3}"}',
        '{"a":"x"}',
    ),
)
ASKED: Final = (
    *("v->>'a'", "v->>0", "v->'a'->>'$.a'", "(v->>'a')->>'a'", "CAST(v->>'a' AS INT)"),
    *("NOT (v->>'a' = '1' AND CAST(v->>'a' AS INT) > 0)", "coalesce(v->>'a', v->>'$[1].a') = 'b'"),
    "CASE WHEN v->>'a' = '1' THEN v->>'b' ELSE v->>'a' END",
)


def written(text: str) -> str:
    """An analyst's expression as it is computed on rows."""
    asked = parse(f"SELECT {text} AS x FROM t").expressions[0].this
    tree = write_alike(asked, lambda _: VARCHAR)
    return total_sql(tree, ROWS, DUCKDB).render(DUCKDB.renderer)


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the settings that rows are read with."""
    with isolated() as connection:
        yield connection


def values(
    engine: duckdb.DuckDBPyConnection, written: str, documents: tuple[str, ...]
) -> list[object]:
    """What an expression is on rows of one table, whose statistics are those of all of them."""
    listed = "SELECT unnest(range(len($1))) AS n, unnest($1) AS v"
    engine.execute(f"CREATE OR REPLACE TABLE t AS {listed}", [list(documents)])
    found = engine.execute(f"SELECT {written} FROM t ORDER BY n").fetchall()
    return [value for (value,) in found]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_a_document_decides_about_its_own_row_alone(
    asked: str, engine: duckdb.DuckDBPyConnection
) -> None:
    alone = [values(engine, written(asked), (document,))[0] for document in DOCUMENTS]
    assert values(engine, written(asked), DOCUMENTS) == alone
    for one, other in itertools.islice(
        itertools.combinations(range(len(DOCUMENTS)), 2), 0, None, 7
    ):
        pair = values(engine, written(asked), (DOCUMENTS[one], DOCUMENTS[other]))
        assert pair == [alone[one], alone[other]]
    assert len(set(alone)) > 1


def test_without_try_a_document_fails_for_all_rows(engine: duckdb.DuckDBPyConnection) -> None:
    assert "TRY" in written("v->>'a'")
    bare = "json_extract_string(v, '$.\"a\"')"
    assert values(engine, bare, ('{"a":1}',)) == ["1"]
    with pytest.raises(duckdb.InvalidInputException):
        values(engine, bare, ('{"a":1}', "x"))


@until_2_0_0
def test_with_all_optimizers_a_part_that_is_asked_for_twice_is_taken_out_of_try(
    engine: duckdb.DuckDBPyConnection,
) -> None:
    """So the settings of the connection are what the documents are safe by, too."""
    both = written("v->>'a' = '1' AND CAST(v->>'a' AS INT) > 0")
    documents = ('{"a":1}', "x")
    assert values(engine, both, documents) == [True, None]
    with duckdb.connect() as open_engine, pytest.raises(duckdb.InvalidInputException):
        values(open_engine, both, documents)


def test_a_part_is_as_much_longer_as_is_counted(engine: duckdb.DuckDBPyConnection) -> None:
    def growth(document: str) -> float:
        (part,) = values(engine, written("v->>'a'"), (f'{{"a":{document}}}',))
        return len(str(part)) / len(document)

    documents = ("[" + ",".join(["1e20"] * 999) + "]", "[1e20]", "[5e-6,1e15]", '"\\u0001"')
    assert 4 < max(map(growth, documents)) <= 8


NAMES: Final = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=9)


@settings(max_examples=20, deadline=None)
@given(st.lists(NAMES | st.integers(0, 2), min_size=1, max_size=6), st.data())
def test_a_path_names_the_part_that_it_says(steps: list[str | int], data: st.DataObject) -> None:
    document: object = "found"
    for step in reversed(steps):
        document = {step: document} if isinstance(step, str) else [0] * step + [document]
    if any(isinstance(step, str) and read_name(step) is None for step in steps):
        return
    path = write_path(tuple(steps))
    assert read_path(path) == tuple(steps)
    found = duckdb.execute(
        "SELECT json_extract_string(?, '{0}'), typeof(json_extract_string('1', '{0}'))".format(
            path.replace("'", "''")
        ),
        [json.dumps(document)],
    ).fetchall()
    assert found == [("found", "VARCHAR")]


@pytest.mark.parametrize(
    "path",
    [
        *("$", "$.", "$.*", '$."*"', '$."a*"', "$[*]", "$..a", "$[-1]", "$[#-1]", "$[0:1]", "$.a."),
        *("$.a b", "$x", "", "*", "/a", "a\\b", 'a"b', "a\nb", "$.a'", "$[9999999999]", "a" * 201),
        *("$" + ".a" * 17, '$."a', '$."a"b', "$ .a", "$.a[0", "$.\ud800"),
    ],
)
def test_other_paths_are_none(path: str) -> None:
    assert read_path(path) is None


@until_2_0_0
def test_a_star_is_a_wildcard_to_the_engine_within_quotes_too() -> None:
    """Otherwise names with one could be let through."""
    answer = duckdb.execute("""SELECT json_extract_string('{"b": 1}', '$."*"')""").fetchall()
    assert answer == [(["1"],)]


@pytest.mark.parametrize("call", ["count({})", "coalesce({}, 'x')", "lower({})"])
def test_a_part_in_a_call_is_no_lambda(call: str) -> None:
    part = call.format("v->'a'->>'b'")
    read = parse(f"SELECT {part} FROM t")
    assert read.find(exp.JSONExtractScalar) is not None
    assert read.find(exp.Lambda) is None


def test_a_lambda_is_still_one() -> None:
    assert parse("SELECT list_transform([1], x -> x + 1)").find(exp.Lambda) is not None
