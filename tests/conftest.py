"""Fixtures shared by the end-to-end tests."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from helpers.zero_noise import silence

from dpsql.core.codes import CODES
from dpsql.errors import Error
from dpsql.ledger import Ledger

if TYPE_CHECKING:
    from helpers.postgresql_server import Server


# What bounds contributions is the same on all machines that run tests.
pytest.MonkeyPatch().setattr("dpsql.kinds.streamed.processors", lambda: 2)

FEW = 1

# Which of the slow cases of tests with many are run: "1/2" is each second one. All, if not set.
MANY = 4
CASES = os.environ.get("DPSQL_CASES", "0/1")
# Which of the slow tests with few cases are run, in the same way.
SLOW = os.environ.get("DPSQL_SLOW", "0/1")

# Collecting thousands of tests makes no garbage: looking for it takes as long as the collecting.
gc.disable()

# What a run remembers of files that were read whole is none of whoever runs it.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="dpsql-tests-")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count all but a few cases of every test with many among the slow ones.

    The few lie evenly among all; ``@pytest.mark.few(n)`` says how many there are, if not FEW. Of
    the slow cases of a test with many, those that ``DPSQL_CASES`` says are kept, beginning at
    another one in each test: of some with fewer than its parts there are none. Of slow tests with
    few cases, those that ``DPSQL_SLOW`` says are kept, with all cases; of those of the source text
    in tests/package, all.
    """
    cases: dict[tuple[object, str], list[pytest.Item]] = {}
    for item in items:
        if isinstance(item, pytest.Function):
            cases.setdefault((item.parent, item.originalname), []).append(item)
    place, parts = map(int, CASES.split("/"))
    turn, turns = map(int, SLOW.split("/"))
    left: set[pytest.Item] = set()
    for (_, name), group in cases.items():
        quick = [item for item in group if not item.get_closest_marker("slow")]
        marker = group[0].get_closest_marker("few")
        few = marker.args[0] if marker else FEW
        kept = {len(quick) * i // few for i in range(few)}
        for i, item in enumerate(quick):
            if len(quick) > few and i not in kept:
                item.add_marker(pytest.mark.slow)
        slow = [item for item in group if item.get_closest_marker("slow")]
        number = crc32(name.encode())
        if len(group) >= MANY:
            left.update(item for i, item in enumerate(slow) if (i - place - number) % parts)
        elif (number - turn) % turns and group[0].path.parent.name != "package":
            left.update(slow)
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


_make = Error.__init__
_strays: list[str] = []


@wraps(_make)
def _make_known(self: Error, *args: Any, **named: Any) -> None:
    """Make an error, and fail if the catalogue does not have its code for this class."""
    _make(self, *args, **named)
    known = CODES.get(self.code)
    if known is None or type(self) is not known.kind:
        _strays.append(f"{type(self).__name__} [{self.code}] is not in dpsql/core/codes.py")
        raise AssertionError(_strays[-1])


Error.__init__ = _make_known  # type: ignore[method-assign]


@pytest.hookimpl(trylast=True)  # fixtures are torn down before
def pytest_runtest_teardown() -> None:
    """Fail the test that made a stray error, also where what it tests took the failure for one."""
    strays = _strays.copy()
    _strays.clear()
    assert strays == []


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are zero and every group above the minimum is named, in the exact order."""
    silence(monkeypatch)


@pytest.fixture
def discovered_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups without rows are not answered, though the question says the values of its keys."""
    monkeypatch.setattr("dpsql.pipeline.prepare.with_keys_made", lambda block, *_: block)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server of this test run. Without one, its tests are skipped, except in CI."""
    try:
        from helpers.postgresql_server import binaries, running
    except ImportError:
        missing = "psycopg is not installed"
    else:
        missing = "" if binaries() else "there is no PostgreSQL: apt-get install postgresql"
    if missing and os.environ.get("DPSQL_REQUIRE_POSTGRES"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    with running() as server:
        _surveyed(server)
        yield server


def _surveyed(server: Server) -> None:
    """Have a version that the package has no table of surveyed, as an owner would have it."""
    import psycopg

    from dpsql.engines.evidence.verdicts import EngineVersion, is_surveyed
    from dpsql.engines.postgresql.engine import PostgreSQLEngine
    from dpsql.survey.keep import keep_surveys

    with psycopg.connect(server.url("postgres")) as connection:
        major = connection.info.server_version // 10_000
    known = is_surveyed(EngineVersion.of("postgresql", str(major)))
    if known or find_spec("adbc_driver_postgresql") is None:
        return
    server.run("CREATE DATABASE surveyed TEMPLATE template0 ENCODING 'UTF8'")
    with closing(PostgreSQLEngine(server.url("surveyed"))) as database:
        list(keep_surveys(database))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where a test may open a new ledger: a file, and a database on a server."""
    if request.param == "sqlite":
        return tmp_path / "budget.ledger"
    server: Server = request.getfixturevalue("postgres_server")
    return server.without_ledger()


@pytest.fixture
def ledger(place: str | Path) -> Iterator[Ledger]:
    """A new ledger, in a file and in a database."""
    with Ledger.open(place) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test may open a new ledger file."""
    return tmp_path / "budget.ledger"


@pytest.fixture
def file_ledger(path: Path) -> Iterator[Ledger]:
    """A new ledger in a file."""
    with Ledger.open(path) as opened:
        yield opened
