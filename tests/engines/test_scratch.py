"""The one way to private rows: whatever an engine does there, it is asked with what was read."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

import numpy as np
import pytest
from helpers.columns import column_of
from helpers.unchecked_runs import NoSheet
from numpy.typing import NDArray

from dpsql.core.sql import Sql, sql
from dpsql.engines.base import rehearsal
from dpsql.engines.base.engine import ArrowStream, ExactRows, Reads
from dpsql.engines.base.engine_base import EngineBase
from dpsql.engines.base.run_base import RunBase
from dpsql.engines.base.scratch import Passed, Reader, ScratchBase
from dpsql.engines.duckdb import engine as duckdb
from dpsql.engines.postgresql import engine as postgresql
from dpsql.engines.spark import engine as spark
from dpsql.errors import EngineError

PACKAGE: Final = Path(__file__).parents[2] / "dpsql"
STATEMENT: Final = sql("SELECT 1")
_T = TypeVar("_T")


class Strict(NoSheet):
    """Objects to all that it reads."""

    def read(self, statement: Sql, given: Any = ()) -> int:
        raise EngineError(code="engine_failed")


class Noted(ScratchBase):
    """Sends nothing, and notes what it is asked to send."""

    def __init__(self, sheet: NoSheet) -> None:
        super().__init__(sheet)
        self.asked: list[object] = []

    def _discreetly(self, run: Callable[[], _T]) -> _T:
        return run()

    def _exact(self, passed: Passed, keys: Any, measures: Any) -> ExactRows:
        self.asked.append(passed)
        return ExactRows(np.zeros(0, dtype=np.int64), {}, {})

    def _pairs(self, passed: Passed) -> ArrowStream:
        self.asked.append(passed)
        found: Any = None
        return found  # type: ignore[no-any-return]

    def _integers(self, passed: Passed) -> list[NDArray[np.int64]]:
        self.asked.append(passed)
        return []

    def _store(self, name: str, passed: Passed) -> int:
        self.asked.append(passed)
        return 1

    def _drop(self, name: str) -> None:
        self.asked.append(name)


WAYS: Final[dict[str, Callable[[ScratchBase], object]]] = {
    "exact": lambda place: place.exact(STATEMENT, [column_of("k", "BIGINT")], ["m"]),
    "pairs": lambda place: place.pairs(STATEMENT),
    "integers": lambda place: place.integers(STATEMENT, 1, [2, 3]),
    "keys": lambda place: place.keys(STATEMENT, [], np.array([1, 2])),
    "store": lambda place: place.store("t", STATEMENT, [4]),
    "exact of a reader": lambda place: Reader(lambda: place).exact(STATEMENT, [], []),
    "pairs of a reader": lambda place: Reader(lambda: place).pairs(STATEMENT),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_reading_objects_to_is_not_sent(way: Callable[[ScratchBase], object]) -> None:
    place = Noted(Strict())
    with place, pytest.raises(EngineError):
        way(place)
    assert place.asked == []
    allowed = Noted(NoSheet())
    way(allowed)
    (passed,) = allowed.asked
    assert isinstance(passed, Passed)
    assert passed.statement == STATEMENT


def test_tables_are_dropped_when_a_place_is_left() -> None:
    with Noted(NoSheet()) as place:
        place.store("one", STATEMENT)
        place.store("other", STATEMENT)
        place.drop("one")
        place.asked.clear()
    assert place.asked == ["other"]


def test_a_rehearsal_reads_and_plans_in_the_same_way() -> None:
    """Also once it is over other tables."""
    sheets: list[Reads] = []

    def strict(reads: Reads) -> Strict:
        sheets.append(reads)
        return Strict()

    class Planned(rehearsal.Rehearsal):
        def _planned(self, passed: Passed) -> int:
            raise AssertionError("it was read and objected to")

        def _make(self, name: str, passed: Passed) -> None:
            raise AssertionError("it was read and objected to")

        def _drop(self, name: str) -> None:
            raise AssertionError("nothing was made")

    for way in WAYS.values():
        for place in (Planned(strict), Planned(strict).over(Reads(())).scratch()):
            with pytest.raises(EngineError):
                way(place)
    assert len(sheets) == 3 * len(WAYS)


def test_no_engine_has_a_way_of_its_own() -> None:
    """What may be called from outside is the base's; the rest is asked of an engine by it."""
    final = {name for name, each in vars(ScratchBase).items() if getattr(each, "__final__", False)}
    ways = {"_sent", "store", "drop", "exact", "pairs", "integers", "streamed", "keys"}
    assert final == ways | {"within", "worked"}  # which send nothing
    assert all((duckdb, postgresql, spark))  # imported, so that theirs are known
    places = subclasses(ScratchBase)
    names = {kind.__name__ for kind in places}
    assert {"DuckDBScratch", "PostgreSQLScratch", "SparkScratch", "Rehearsal"} <= names
    for kind in places:
        assert not final & vars(kind).keys(), kind


@pytest.mark.slow
def test_readers_and_runs_are_those_of_the_base() -> None:
    """Nothing else in the package is asked for rows, or says over which tables they are."""
    of_rows: dict[str, set[str]] = {"exact": set(), "pairs": set(), "integers": set()}
    for path in sorted((PACKAGE / "engines").rglob("*.py")):
        if path.name == "dialect.py":  # writes statements, and has no rows
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and method.name in of_rows:
                        of_rows[method.name].add(f"{path.stem}.{node.name}")
    ways = {"scratch.ScratchBase", "engine.Scratch"}
    readers = {"scratch.Reader", "engine.PrivateReader"}
    assert of_rows == {"exact": ways | readers, "pairs": ways | readers, "integers": ways}
    opened = {kind.__name__ for kind in subclasses(EngineBase)}
    assert {"OpenDuckDB", "OpenPostgreSQL", "OpenSpark"} <= opened
    assert get_type_hints(EngineBase.run)["return"] is RunBase
    assert "over" not in {name for kind in subclasses(RunBase) for name in vars(kind)}


def subclasses(base: type[Any]) -> list[type[Any]]:
    """All kinds of a class that the package has, however far below it."""
    found: list[type[Any]] = [base]
    for kind in found:
        found += [each for each in kind.__subclasses__() if each.__module__.startswith("dpsql.")]
    return found[1:]


@pytest.mark.slow
def test_what_was_read_is_made_where_it_is_read() -> None:
    made: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Passed":
                made.add(path.relative_to(PACKAGE).as_posix())
    assert made == {"engines/base/scratch.py"}
