"""Rows of a server as Arrow has them: what a type does not hold is NULL, and raises nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpsql.core.sql_types import SqlType
from dpsql.engines.base.arrow_rows import as_type


@pytest.mark.parametrize("width", [1, 18, 28, 29, 38])
@pytest.mark.parametrize("scale", [0, 1])
def test_a_decimal_beyond_its_width_is_null(width: int, scale: int) -> None:
    most = "9" * (width - scale) + ("." + "9" * scale if scale else "")
    beyond = f"1{'0' * (width - scale)}"
    given = [most or "0", f"-{most}", beyond, f"-{beyond}", None]
    found = as_type(pa.array(given), SqlType.decimal(width, scale)).to_pylist()
    assert [None if each is None else f"{each:f}" for each in found[:2]] == [
        text if text.lstrip("-")[0] != "." else text.replace(".", "0.")
        for text in given[:2]
        if text
    ]
    assert found[2:] == [None, None, None]
