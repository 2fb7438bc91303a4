"""What ``import dpsql`` promises: its names, and to be quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dpsql


@pytest.mark.parametrize("name", dpsql.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(dpsql, name).__doc__
    assert name in dir(dpsql)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dpsql.nothing


def test_importing_loads_no_heavy_library() -> None:
    code = (
        "import sys, dpsql; print([m for m in ('duckdb', 'sqlglot', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
