"""No function takes much more memory or time than the value that it is computed of.

One row may hold a value of any size. A function that takes a hundred times its memory, or a time
that grows with its square, would let that row end a statement, and tell that it is there.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import duckdb
import psycopg
import pytest
import spark_sessions
from helpers.dialects import POSTGRESQL, SPARK
from helpers.postgresql_server import Server
from large_values import (
    FILLS,
    MOST_MEMORY,
    MOST_SECONDS,
    OF_FIXED_SIZE,
    TABLE,
    TYPES,
    named_in,
    written,
)
from sqlglot import exp

from dpsql.core.sql import Sql, Written
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.row_types import MOST_TEXT_BYTES
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.forms import CALLED_ON_ROWS
from dpsql.engines.embedded.plans import read_plan
from dpsql.engines.embedded.running import serialized_plan
from dpsql.engines.evidence.evidence import calls
from dpsql.engines.postgresql.forms import ON_ROWS
from dpsql.engines.spark.forms import SPARK_ON_ROWS

pytestmark = pytest.mark.slow

MEGABYTE = 1_000_000
SMALL = MOST_TEXT_BYTES - 1
WRITTEN_BY_VIEWS = frozenset(
    {"like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"}
    | {"regexp_full_match", "prefix", "suffix"}
)
"""Functions that an owner's views may call, and expressions of analysts are not written with."""
OF_CONSTANTS = frozenset({"like_escape"})
"""A function of patterns, which are constants."""


NAMED_OTHERWISE = {"ltrim": "leading", "rtrim": "trailing"}
"""Functions of Spark's plans that are written in other words."""


def memory(field: str, process: int | str = "self") -> float:
    """A size of a process in bytes."""
    for line in Path(f"/proc/{process}/status").read_text("ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


def peak(run: Callable[[], object], process: int | str = "self") -> tuple[float, float]:
    """The bytes that a process takes beyond those it has, and the seconds."""
    Path(f"/proc/{process}/clear_refs").write_text("5", "ascii")  # the highest so far is forgotten
    before, begun = memory("VmRSS", process), time.perf_counter()
    run()
    return memory("VmHWM", process) - before, time.perf_counter() - begun


def tables_called(connection: duckdb.DuckDBPyConnection, expression: str) -> set[str]:
    """The functions that DuckDB's plan of an expression calls."""
    asked = Sql(Written(f"SELECT {expression} FROM t"))
    (plan,) = serialized_plan(connection, asked).fetchone() or ("",)
    return {node["qname"]["path"][-1] for node in calls(read_plan(plan))}


def test_functions_in_duckdbs_list_are_tried_on_large_values() -> None:
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t ({columns})")
        made = written(DUCKDB).values()
        tried = set().union(*(tables_called(connection, each) for each in made))
    fixed = OF_FIXED_SIZE["duckdb"]
    assert not (CALLED_ON_ROWS - tried - fixed - WRITTEN_BY_VIEWS)
    assert not tried & (fixed | WRITTEN_BY_VIEWS)


@pytest.mark.parametrize(
    ("dialect", "listed"), [(POSTGRESQL, ON_ROWS), (SPARK, SPARK_ON_ROWS)], ids=["pg", "spark"]
)
def test_functions_in_servers_lists_are_tried_on_large_values(
    dialect: Dialect, listed: frozenset[str]
) -> None:
    tried = named_in(written(dialect).values())
    fixed = OF_FIXED_SIZE[dialect.name]
    assert fixed <= listed
    tried |= {each for each, word in NAMED_OTHERWISE.items() if word in tried}
    assert not {each.lower() for each in listed - fixed - OF_CONSTANTS} - tried


@pytest.mark.skipif(sys.platform != "linux", reason="reads memory below /proc")
def test_large_values_take_little_of_duckdb() -> None:
    size = 4 * MEGABYTE
    found = {}
    for fill in FILLS:
        with duckdb.connect(config={"threads": "1"}) as connection:
            connection.execute(
                "CREATE TABLE t AS SELECT repeat(?, ?) AS s, string_split(?, ',') AS l, ? AS m, "
                "{'f': repeat('a', ?)} AS r",
                [
                    *(fill, size // len(fill.encode()), "a" * 20 + ",b" * (size // 20)),
                    *(["a" * (size // 4)] * 4, size),
                ],
            )
            connection.execute(
                "INSERT INTO t SELECT 'b', ['x', 'y'], ['x', 'y'], {'f': 'x'} FROM range(1000)"
            )
            for words, each in written(DUCKDB).items():
                asked = f"SELECT count(x) FROM (SELECT hash(TRY({each})) AS x FROM t)"
                taken = peak(connection.execute(asked).fetchall)
                found[words, fill] = taken
    costly = {
        key: (more / size, seconds)
        for key, (more, seconds) in found.items()
        if more > MOST_MEMORY * size or seconds > MOST_SECONDS * size / MEGABYTE
    }
    assert not costly


@pytest.fixture
def database(postgres_server: Server) -> Iterator[psycopg.Connection]:
    """A connection to a database of its own."""
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        yield connection


@pytest.mark.skipif(sys.platform != "linux", reason="reads memory below /proc")
def test_large_values_take_little_of_postgresql(database: psycopg.Connection) -> None:
    (process,) = database.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    costly = {}
    for fill in FILLS:
        database.execute("DROP TABLE IF EXISTS large")
        count = SMALL // len(fill.encode())
        database.execute(
            'CREATE TEMP TABLE large AS SELECT repeat(%s, %s) COLLATE "C" AS s', [fill, count]
        )
        for words, each in written(POSTGRESQL).items():
            asked = f"SELECT count(x) FROM (SELECT {each} AS x FROM large AS t OFFSET 0) AS q"
            run = partial(database.execute, asked)
            more, seconds = peak(run, process)
            if more > MOST_MEMORY * SMALL or seconds > 5 * MOST_SECONDS:
                costly[words, fill] = more / SMALL, seconds
    assert not costly


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(spark_sessions.missing() is not None, reason="Spark is not installed")
def test_parts_of_texts_are_those_of_sparks_split_part() -> None:
    session = spark_sessions.started("local[1]")
    try:
        for mark in (",", ".", "\\", "'", "^", "_", "\n", "é", "😀", "||", "ab", "aa", "\\E"):
            letters = list(dict.fromkeys([*mark, "a", "b", "x"]))[:4]
            texts = ["".join(e) for n in range(7) for e in itertools.product(letters, repeat=n)]
            rows = [(each,) for each in (*texts, None)]
            session.createDataFrame(rows, "s string").createOrReplaceTempView("t")
            tests = []
            for place in (1, 2, 3, 5):
                node = exp.SplitPart(
                    this=exp.column("s"),
                    delimiter=exp.Literal.string(mark),
                    part_index=exp.Literal.number(place),
                )
                ours = SPARK.expression(node, TABLE).render(SPARK.renderer)
                own = f"split_part(s, {SPARK.renderer.text(mark)}, {place})"
                tests.append(f"count_if(NOT ({ours} <=> {own}))")
            (differing,) = session.sql(f"SELECT {', '.join(tests)} FROM t").collect()
            assert not any(differing), mark
    finally:
        session.stop()
