"""A sqlglot that is compiled refuses classes made of its own: that is said when connecting."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.support import connect

from dpsql.syntax.dialect import PrivateDuckDB


def test_a_compiled_parser_is_told_before_anything_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(*_: object, **__: object) -> None:
        raise TypeError("interpreted classes cannot inherit from compiled")

    monkeypatch.setattr(PrivateDuckDB.Parser, "__init__", compiled)
    with fails_with("package_incompatible") as told:
        connect(tmp_path)
    assert "pip uninstall sqlglotc" in str(told.value)
    assert not list(tmp_path.glob("*ledger*"))
