"""Constants are read as DuckDB casts them, or not at all."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.core.sql_types import SqlType
from dpsql.engines.base.typed_constants import constant_text

TEXTS = (
    *("1", " 1 ", "1.5", "-2.5", "127.5", "0.005", "-0.005", "1e3", "1e39", "1e400", "nan", "inf"),
    *("99999999999999999999", "1_000", "0x1F", "true", " true ", "T", "f", "yes", "x", ""),
    *("2024-02-29", "2024-2-9", "2024-02-30", "0001-01-01", "20240229", "2024-W09-4"),
    *("2024-02-29 10:00:00", "2024-02-29T10:00:00.5", "2024-02-29 10:00:00.123456"),
    *("10:00:00", "10:00:00.5", "24:01:00", "00000000-0000-0000-0000-000000000001"),
)
TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4,2)"),
    *("DECIMAL(38,10)", "DATE", "TIMESTAMP", "TIME", "UUID"),
)


@pytest.mark.parametrize("type_", TYPES)
def test_a_constant_that_is_read_is_the_value_that_duckdb_casts_it_to(type_: str) -> None:
    read = 0
    with duckdb.connect() as connection:
        for text in TEXTS:
            found = constant_text(text, SqlType.of(type_))
            if found is not None:
                asked = f"SELECT CAST(CAST(? AS {type_}) AS VARCHAR)"
                (one,), (other,) = (
                    connection.execute(asked, [each]).fetchone() or () for each in (text, found)
                )
                assert one == other, (text, found)
                read += 1
    assert read > 0


def test_a_type_without_constants_is_none_of_these() -> None:
    with pytest.raises(KeyError):
        constant_text("x", SqlType.of("BLOB"))
