"""TPC-H with customers as privacy units: the policy, and the data from ``tpchgen-cli``."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

import duckdb

from dpsql.policy.document import load_policy

HERE = Path(__file__).parent
DATA = HERE.parent.parent / "demo-data"
SCHEMA = (HERE / "schema.sql").read_text(encoding="utf-8")
TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
ANALYST = "ana"
POLICY = load_policy(HERE / "policies.yaml")


def database(scale: str = "0.1", directory: Path = DATA) -> Path:
    """The tables of a scale factor as a DuckDB file, generated unless it is already there.

    The generator is deterministic and needs no network.
    """
    target = directory / f"tpch-{scale}-{version('tpchgen-cli')}.duckdb"
    if target.exists():
        return target
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as work:
        generator = Path(sysconfig.get_path("scripts"), "tpchgen-cli")
        command = [str(generator), "parquet", "-s", scale, "--output-dir", work, "--quiet"]
        subprocess.run(command, check=True, timeout=1800)
        made = Path(work, "made.duckdb")
        with duckdb.connect(str(made)) as connection:
            connection.execute(SCHEMA)
            for table in TABLES:
                source = Path(work, f"{table}.parquet")
                connection.execute(f"INSERT INTO {table} FROM read_parquet('{source}')")
        os.replace(made, target)  # at once, should another process be doing the same
    return target


def plain(path: Path) -> duckdb.DuckDBPyConnection:
    """Plain DuckDB over the same tables, in which views can be created."""
    connection = duckdb.connect(":memory:")
    connection.execute(f"ATTACH '{path}' AS tpch (READ_ONLY)")
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS FROM tpch.{table}")
    return connection


def exact(connection: duckdb.DuckDBPyConnection, text: str) -> list[tuple[object, ...]]:
    """The rows of the SELECT in a text, whose other statements are obeyed."""
    rows: list[tuple[object, ...]] = []
    for statement in connection.extract_statements(text):
        found = connection.execute(statement)
        if statement.type is duckdb.StatementType.SELECT:
            rows = found.fetchall()
    return rows
