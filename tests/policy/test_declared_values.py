"""Declared values are what their column's type holds: as an engine itself reads them."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with

import dpsql
from dpsql import parse_policy
from dpsql.core.sql_types import SqlType
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.owner.declared_values import held_value, same_declared

_NOON = datetime.datetime(2024, 1, 1, 12)
CASES: dict[str, tuple[object, ...]] = {
    "FLOAT": (0.1, 0.10000000149, 0.25, 1.0, 16777216, 16777217, 0.0, -0.0, 1e30),
    "DOUBLE": (0.1, 2**53, 2**53 + 1, 1, 1.0, 1e300),
    "DECIMAL(5,2)": (1, 1.0, 1.1, 1.11, -0.0, 0),
    "TINYINT": (1, 1.0, 127, -128),
    "UBIGINT": (0, 2**64 - 1),
    "HUGEINT": (1, 2**127 - 1),
    "UUID": (
        "abcdef00-0000-0000-0000-000000000000",
        "ABCDEF00-0000-0000-0000-000000000000",
        "abcdef00000000000000000000000000",
        "abcdef00-0000-0000-0000-000000000001",
        "nobody",
        "",
    ),
    "BLOB": ("a", r"\x61", r"\x6", r"\xC3\xA9", r"\xc3\xa9", "é", "a\\", "", "b"),
    "VARCHAR": ("a", "a ", "A", "", "é", "e\u0301"),
    "BOOLEAN": (True, False),
    "DATE": (datetime.date(2024, 1, 1), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
    "TIMESTAMP": (datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1), _NOON),
    "TIMESTAMP_S": (_NOON, datetime.date(2024, 1, 1)),
    "TIMESTAMP_MS": (_NOON, _NOON.replace(microsecond=5000)),
    "TIMESTAMP_NS": (
        _NOON,
        _NOON.replace(microsecond=1),
        datetime.datetime(1, 1, 1),
        datetime.datetime(9999, 1, 1),
    ),
}


@pytest.mark.parametrize("type_", CASES)
def test_what_a_type_holds_is_what_the_engine_reads(type_: str) -> None:
    """No value that the engine cannot read is held, and two are one where the engine says so."""
    with duckdb.connect() as engine:
        read = {}
        for value in CASES[type_]:
            rendered = DUCKDB.declared(value, SqlType.of(type_)).render(DUCKDB.renderer)
            ((read[repr(value)],),) = engine.execute(f"SELECT hex({rendered}::BLOB)"
                if type_ == "BLOB" else f"SELECT {rendered}").fetchall()  # fmt: skip
    for value in CASES[type_]:
        assert (held_value(value, SqlType.of(type_)) is None) == (read[repr(value)] is None), value
    for one, other in itertools.combinations(CASES[type_], 2):
        if read[repr(one)] is None or read[repr(other)] is None:
            continue
        same = same_declared((one, other), SqlType.of(type_)) is not None
        assert same == (read[repr(one)] == read[repr(other)]), (one, other)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (1e300, "FLOAT"),
        (_NOON.replace(microsecond=300_000), "TIMESTAMP_S"),
        (_NOON.replace(microsecond=300), "TIMESTAMP_MS"),
        (128, "TINYINT"),
        (1.001, "DECIMAL(5,2)"),
    ],
)
def test_what_an_engine_would_round_is_not_held(value: object, type_: str) -> None:
    """Nor is what would become infinite: no value of the type equals it."""
    assert held_value(value, SqlType.of(type_)) is None


@pytest.mark.parametrize(
    ("type_", "stored", "domain", "refused"),
    [
        ("FLOAT", "0.1", "[0.1, 0.10000000149]", True),
        ("UUID", "'ABCDEF00-0000-0000-0000-000000000000'",
            "[abcdef00-0000-0000-0000-000000000000, ABCDEF00-0000-0000-0000-000000000000]", True),
        ("UUID", "'ABCDEF00-0000-0000-0000-000000000000'", "[nobody]", True),
        ("FLOAT", "0.1", "[0.1, 0.2]", False),
    ],
)  # fmt: skip
def test_a_domain_that_names_one_value_twice_is_refused(
    tmp_path: Path, type_: str, stored: str, domain: str, refused: bool
) -> None:
    """One of its two groups would have no rows, and an interval that says so with confidence."""
    with duckdb.connect(str(tmp_path / "world.duckdb")) as writer:
        writer.execute(f"CREATE TABLE visits (uid BIGINT, k {type_})")
        writer.execute(f"INSERT INTO visits SELECT i, {stored} FROM range(500) r(i)")
    rules = parse_policy(f"""
        version: 1
        dataset: clinic
        accounts: {{ana: {{epsilon: 100, delta: 1e-6}}}}
        tables:
          visits: {{privacy_unit: {{name: person, column: uid}}, columns: {{k: {{domain: {domain}}}}}}}
    """)  # noqa: E501
    if refused:
        with fails_with("policy_does_not_fit"):
            dpsql.connect(tmp_path / "world.duckdb", rules, tmp_path / "budget.db", "ana")
        return
    with dpsql.connect(tmp_path / "world.duckdb", rules, tmp_path / "budget.db", "ana") as con:
        asked = "SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k"
        counts = [n for _, n in con.sql(asked, epsilon=20)]
        assert sorted(abs(n) > 400 for n in counts) == [False, True]
