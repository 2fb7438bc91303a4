"""Several numbers in one comparison are compared as the type that DuckDB gives them all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import duckdb
import pytest

import dpsql
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

_VALUES: Final = {
    "n INTEGER": "-2, 16777217, 3",
    "b BIGINT": "9007199254740993, 9007199254740992, 3, -2",
    "h HUGEINT": "170141183460469231731687303715884105727, 9007199254740993, 3",
    "u UBIGINT": "18446744073709551615, 2, 9007199254740993",
    "f FLOAT": "'0.1', 'nan', '1.5', '-inf', '16777216'",
    "x DOUBLE": "'0.1', 'nan', '1.5', 'inf', '9007199254740992', '-0.0'",
    "d DECIMAL(5,2)": "1.5, 0.1, -1, 3",
    "w DECIMAL(38,3)": "9007199254740993.001, 1.5, -2",
}
"""Columns, and values of them, of which doubles and floats tell some not apart."""
COMPARISONS: Final = (
    *("d NOT BETWEEN h AND x", "h BETWEEN x AND w", "n BETWEEN f AND b", "w BETWEEN x AND b"),
    *("b BETWEEN x AND n", "n BETWEEN b - 1 AND b + 1", "d NOT BETWEEN 0.1 AND 1.5"),
    *("h IN (x, d)", "u IN (h, x)", "0.1 IN (f, x)", "w IN (f, b)", "b NOT IN (x, w, f)"),
    *("b IN (n + 1, x * 1, 3)", "h IN (NULL, x, d)", "x NOT BETWEEN h AND d", "3 IN (x, b)"),
    "sqrt(abs(n)) BETWEEN d AND b",
)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with 240 units, whose values meet in many ways."""
    path = tmp_path_factory.mktemp("numbers") / "t.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute(f"CREATE TABLE t (unit BIGINT, {', '.join(_VALUES)})")
        drawn = ", ".join(
            f"([{values}, NULL]::{column.split()[1]}[])[1 + r // {place} % 6]"
            for place, (column, values) in enumerate(_VALUES.items(), 1)
        )
        writer.execute(f"INSERT INTO t SELECT r, {drawn} FROM range(240) q(r)")
    return path


@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_numbers_are_compared_as_duckdb_does(numbers: Path, tmp_path: Path) -> None:
    policy = Policy(
        "numbers",
        defaults=Parameters(epsilon=1.0, delta=1e-6, max_groups_contributed=9),
        accounts={"ana": AccountPolicy("ana", 1000.0, 0.5)},
        tables={"t": TablePolicy("t", PrivacyUnit("unit", "unit"))},
    )
    with (
        dpsql.connect(numbers, policy, tmp_path / "b.db", "ana", left_out_share=0.0) as private,
        duckdb.connect(str(numbers), read_only=True) as engine,
    ):
        for comparison in COMPARISONS:
            asked = f"SELECT {comparison} AS k, COUNT(*) AS n FROM t GROUP BY k"
            found: Counter[object] = Counter(dict(private.sql(asked).fetchall()))
            exact: Counter[object] = Counter(dict(engine.execute(asked).fetchall()))
            assert found == exact, comparison
            assert found[True] + found[False] > 0, comparison
