"""What a user may not enter or read is said to be that, whatever is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

POLICY = """
version: 1
dataset: d
accounts: {ana: {epsilon: 10, delta: 1e-6}}
tables: {t: {privacy_unit: uid}}
"""
TRIED = """
import sys
import dpsql
from dpsql.interfaces.cli.budget.ledgers import any_ledger, located
from pathlib import Path

def code(tried):
    try:
        tried()
    except dpsql.Error as error:
        return f"{error.code} {error.reason}"
    return "none"

def connect(database, policies="policies.yaml", ledger="ledger.db"):
    return lambda: dpsql.connect(database, policies, ledger, "ana").close()

def reported(ledger):
    with any_ledger(ledger):
        pass

for tried in (
    connect("barred/t.duckdb"), connect("barred/missing.duckdb"), connect("barred/t.csv"),
    connect("barred"), connect("barred/*.csv"), connect("around"), connect("t.duckdb", "barred/p"),
    connect("t.duckdb", ledger="barred/l.db"), lambda: reported("barred/l.db"),
    lambda: located(None, Path("barred/p"), "t.duckdb"), connect("missing.duckdb"),
    lambda: located(None, Path("missing"), "t.duckdb"), connect("t.duckdb"),
):
    print(code(tried))
"""
# Root may enter everything unless these are taken from it.
AS_ANYBODY = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


@pytest.mark.slow
def test_what_may_not_be_entered_is_no_fault_and_is_not_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policies.yaml").write_text(POLICY, encoding="utf-8")
    barred = (Path("barred"), Path("around/barred"))
    for directory in barred:
        directory.mkdir(parents=True)
        (directory / "t.csv").write_text("uid\n1\n", encoding="utf-8")
    Path("around/t.csv").write_text("uid\n1\n", encoding="utf-8")
    for place in ("t.duckdb", "barred/t.duckdb"):
        with duckdb.connect(place) as connection:
            connection.execute("CREATE TABLE t AS SELECT range AS uid FROM range(10)")
    words: tuple[str, ...] = (sys.executable, "-c", TRIED)
    if os.getuid() == 0:
        words = (*AS_ANYBODY, *words)
    for directory in barred:
        directory.chmod(0)
    try:
        found = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("root may enter everything, and setpriv is not installed")
    finally:
        for directory in barred:
            directory.chmod(0o700)
    lines = found.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        *["database_unreadable"] * 6,
        "policy_unreadable",
        *["ledger_cannot_create"] * 2,
        "policy_unreadable",
        "database_missing",
        *["none"] * 2,
    ], found
    assert f"barred{os.sep}l.db" in lines[7]
    assert "permission denied" in lines[7]
