"""Descriptions say what a statement takes and returns, and neither read nor spend anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.support import connect, policy, world_file

import dpsql
from dpsql.engines.base.scratch import Reader

PRIVATE = [
    "SELECT count(*) FROM visits",
    "SELECT k, count(*) AS n, avg(x) AS mean FROM visits GROUP BY k",
    "SELECT c, sum(n) AS total FROM visits GROUP BY c",
    "SELECT s, d, count(DISTINCT uid) AS people FROM visits GROUP BY s, d",
    "SELECT ts, flag, sum(amount) FROM visits GROUP BY ts, flag",
    "SELECT DISTINCT k, s FROM visits",
    "SELECT k, median(n) AS middle, stddev(x) FROM visits GROUP BY k ORDER BY k LIMIT 3",
    "SELECT k % 3 AS third, count(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC LIMIT 2",
    "SELECT k, count(*) AS n, DP_INTERVAL_LOW(n) AS low FROM visits GROUP BY k",
    "SELECT name, n / 2 AS half, [n] AS listed FROM "
    "(SELECT k, count(*) AS n FROM visits GROUP BY k) JOIN shops USING (k)",
    "SELECT (SELECT count(*) FROM visits) - (SELECT sum(n) FROM mails) AS gap",
]
PUBLIC = [
    "SELECT * FROM shops",
    "SELECT name || '!' AS loud, size > 10 AS large FROM shops",
    "SELECT 1 AS one, 2.5 AS two, {'a': [NULL, 'x']} AS three",
]
LISTINGS = [
    "SHOW BUDGET",
    "SHOW TABLES",
    "SHOW PARAMETERS",
    "DESCRIBE visits",
    "SET epsilon = 0.5",
    "RESET epsilon",
    "EXPLAIN SELECT count(*) FROM visits",
    "EXPLAIN SELECT * FROM shops",
]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("described")) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.few(12)
@pytest.mark.parametrize("sql", [*PRIVATE, *PUBLIC, *LISTINGS])
def test_columns_are_those_that_the_answer_has(sql: str, connection: dpsql.Connection) -> None:
    described = connection.describe(sql)
    answer = connection.sql(sql)
    assert [column.name for column in described.columns] == answer.columns
    assert [column.type for column in described.columns] == answer.types
    assert described.parameters == ()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every read of private rows."""
    seen: list[str] = []

    def watch(name: str) -> None:
        real = getattr(Reader, name)

        def watched(*arguments: Any, **named: Any) -> Any:
            seen.append(name)
            return real(*arguments, **named)

        monkeypatch.setattr(Reader, name, watched)

    watch("exact")
    watch("scratch")
    return seen


@pytest.mark.slow
def test_nothing_private_is_read_and_nothing_is_spent(
    connection: dpsql.Connection, reads: list[str]
) -> None:
    before = connection.budget()
    for sql in [*PRIVATE, *PUBLIC, *LISTINGS]:
        connection.describe(sql)
    assert reads == []
    assert connection.budget() == before
    connection.sql(PRIVATE[0], fresh=True)
    assert reads
    assert connection.budget().queries == before.queries + 1


def test_nothing_is_set(connection: dpsql.Connection) -> None:
    listed = connection.sql("SHOW PARAMETERS").fetchall()
    connection.describe("SET epsilon = 0.25")
    assert connection.sql("SHOW PARAMETERS").fetchall() == listed
    connection.sql("SET epsilon = 0.25")
    changed = connection.sql("SHOW PARAMETERS").fetchall()
    assert changed != listed
    connection.describe("RESET epsilon")
    assert connection.sql("SHOW PARAMETERS").fetchall() == changed
    connection.sql("RESET epsilon")


def test_a_connection_without_a_ledger_describes_what_it_could_not_answer(tmp_path: Path) -> None:
    with (
        world_file(tmp_path / "world.duckdb") as path,
        dpsql.connect(path, policy(), None, "ana") as opened,
    ):
        names = [column.name for column in opened.describe("SHOW BUDGET").columns]
        assert names == ["account", "quantity", "spent", "remaining", "limit"]
        (column,) = opened.describe("SELECT count(*) AS n FROM visits").columns
        assert (column.name, column.type) == ("n", "BIGINT")


VALUES = [
    ("n > ? AND s = ?", (3, "s1"), [("1", "INTEGER"), ("2", "VARCHAR")]),
    ("n > $2 AND x < $1", (0.5, 2**40), [("2", "BIGINT"), ("1", "DECIMAL(2,1)")]),
    ("d > $day OR d = $day", {"day": date(2024, 2, 1)}, [("day", "DATE")]),
    ("flag = :b AND s = :s", {"s": None, "b": True}, [("b", "BOOLEAN"), ("s", None)]),
]


@pytest.mark.parametrize(("where", "values", "expected"), VALUES)
def test_parameters_have_the_types_of_their_values(
    where: str, values: Any, expected: list[tuple[str, str | None]], connection: dpsql.Connection
) -> None:
    text = f"SELECT k, count(*) AS n FROM visits WHERE {where} GROUP BY k"
    found = connection.describe(text, values)
    assert [(each.name, each.type) for each in found.parameters] == expected
    unknown = connection.describe(text)
    assert unknown.columns == found.columns
    assert [each.name for each in unknown.parameters] == [name for name, _ in expected]
    assert {each.type for each in unknown.parameters} == {None}


def test_values_to_come_may_be_declared_ones_of_a_key(connection: dpsql.Connection) -> None:
    text = "SELECT c, count(*) AS n FROM visits WHERE c = ? GROUP BY c"
    unknown = connection.describe(text)
    assert unknown.columns == connection.describe(text, ["red"]).columns
    for given in ([None], ["black"]):
        with fails_with("no_group_left"):
            connection.describe(text, given)
        with fails_with("no_group_left"):
            connection.sql(text, given)


def test_parameters_of_explained_and_of_public_queries(connection: dpsql.Connection) -> None:
    found = connection.describe("EXPLAIN SELECT count(*) FROM visits WHERE n > ?", [1])
    assert [column.name for column in found.columns] == ["plan"]
    assert [each.type for each in found.parameters] == ["INTEGER"]
    assert connection.describe("SELECT ? AS x", ["a"]).columns[0].type == "VARCHAR"


def test_descriptions_cannot_be_changed(connection: dpsql.Connection) -> None:
    found = connection.describe("SELECT name FROM shops WHERE k = ?")
    for value in (found, found.columns[0], found.parameters[0]):
        for field in dataclasses.fields(value):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT * FROM visits", None),
        ("SELECT count(*) FROM secret", None),
        ("SELECT count(*) FROM", None),
        ("SELECT count(*) FROM visits WHERE n > ?", ()),
        ("SELECT count(*) FROM visits WHERE n > ?", (1, 2)),
        ("SELECT count(*) FROM visits WHERE n > ? AND k > $k", ()),
        ("EXPLAIN SELECT\n nothing FROM visits", None),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000000) count(*) FROM visits", None),
    ],
)
def test_errors_are_those_of_explain(
    sql: str, values: tuple[int, ...] | None, connection: dpsql.Connection
) -> None:
    with pytest.raises(dpsql.Error) as described:
        connection.describe(sql, values)
    with pytest.raises(dpsql.Error) as explained:
        connection.explain(sql, values or ())
    assert type(described.value) is type(explained.value)
    assert str(described.value) == str(explained.value)


@pytest.mark.parametrize(
    ("sql", "values", "code"),
    [
        ("DESCRIBE secret", None, "unknown_table"),
        ("SET epsilon = -1", None, "parameter_out_of_range"),
        ("SHOW TABLES", (1,), "arguments_not_taken"),
        ("SELECT count(*) FROM visits WHERE n > ?", (object(),), "bad_value"),
        (7, None, "syntax_error"),
    ],
)
def test_other_statements_are_refused_as_they_would_be(
    sql: Any, values: Any, code: str, connection: dpsql.Connection
) -> None:
    for ask in (connection.describe, connection.sql):
        with fails_with(code):
            ask(sql, () if values is None and ask == connection.sql else values)


def test_a_closed_connection_describes_nothing(tmp_path: Path) -> None:
    with connect(tmp_path) as opened:
        pass
    with pytest.raises(dpsql.InterfaceError, match="closed"):
        opened.describe("SHOW TABLES")
