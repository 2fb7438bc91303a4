"""A first question groups its rows once: its bounds are drawn of what its answer reads then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.unchecked_runs import sent_inside
from helpers.zero_noise import silence

import dpsql
from dpsql.bounding import kept_pairs
from dpsql.bounding.array_file import ArrayFile
from dpsql.bounding.kept_pairs import KeptPairs
from dpsql.bounding.units import GatheredUnits
from dpsql.budget.question import read_record
from dpsql.core.sql import Sql
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.scratch import ScratchBase
from dpsql.engines.duckdb.engine import DuckDBScratch
from dpsql.engines.duckdb.reading import KNOWN, KnownStatements
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.ir.plan import PreparedBlock
from dpsql.kinds.groups import GroupsKind
from dpsql.kinds.staged import Stages, StoredPairs, StoredStage
from dpsql.kinds.streamed import pairs_of_block
from dpsql.ledger import LEFT_OUT_MECHANISM, Ledger
from dpsql.pipeline import purchase

POLICY = """
version: 1
dataset: d
defaults: {epsilon: 20.0, delta: 1e-6}
accounts: {ana: {epsilon: 1000, delta: 1e-3}}
limits: {bounding: sql}
tables:
  t:
    privacy_unit: {name: person, column: u}
    columns:
      x: {lower: 0, upper: 10}
      k: {domain: [a, b, c, d, e]}
"""
COUNT = "SELECT k, COUNT(*) AS n FROM t{} GROUP BY k"
SHAPES = {
    "declared keys": COUNT.format(""),
    "no keys": "SELECT COUNT(*) AS n FROM t",
    "sums": "SELECT k, SUM(x) AS s FROM t GROUP BY k",
    "averages": "SELECT k, AVG(x) AS m, STDDEV(x) AS d FROM t WHERE x > 1 GROUP BY k",
    "unknown keys": "SELECT s, COUNT(*) AS n FROM t GROUP BY s",
    "a top-k": "SELECT s, COUNT(DISTINCT u) AS n FROM t GROUP BY s ORDER BY n DESC LIMIT 3",
    "two conditions": f"{COUNT.format(' WHERE x < 3')} UNION ALL "
    "SELECT k, COUNT(*) + 90000 AS n FROM t WHERE x >= 3 GROUP BY k",
}
BY_NUMPY = POLICY.replace("bounding: sql", "bounding: any")
MAKERS = {"SQL": POLICY, "NumPy": BY_NUMPY}
UNSTAGED = {
    "a median": "SELECT k, MEDIAN(x) AS m FROM t GROUP BY k",
    "distinct values": "SELECT k, COUNT(DISTINCT x) AS n FROM t GROUP BY k",
}


@dataclass
class Sent:
    """What was sent over private rows: how often it was stored, read and dropped."""

    texts: list[str] = field(default_factory=list)
    places: list[DuckDBScratch] = field(default_factory=list)

    @property
    def over_rows(self) -> int:
        return sum('FROM "t"' in text for text in self.texts)

    @property
    def left(self) -> set[str]:
        """Tables that are still there."""
        found = set()
        for place in self.places:
            names = place._cursor.execute("SELECT table_name FROM duckdb_tables() WHERE temporary")
            found |= {str(name) for (name,) in names.fetchall()}
        return found


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    found, real = Sent(), ScratchBase._sent

    def noted(self: ScratchBase, statement: Sql, given: Any, send: Any) -> Any:
        if isinstance(self, DuckDBScratch):
            found.texts.append(statement.render(DUCKDB_TEXT))
            found.places.append(self)
        return real(self, statement, given, send)

    monkeypatch.setattr(ScratchBase, "_sent", noted)
    return found


@contextmanager
def opened(directory: Path, policy: str = POLICY) -> Iterator[dpsql.Connection]:
    path = directory / "data.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as writer:
            writer.execute("CREATE TABLE t (u BIGINT, k VARCHAR, s VARCHAR, x DOUBLE)")
            writer.execute(
                "INSERT INTO t SELECT range % 300, ['a', 'b', 'c', 'd', 'e'][1 + range % 5], "
                "'s' || [0, 0, 0, 1, 1, 2][1 + range % 7 % 6], (range % 11)::DOUBLE "
                "FROM range(6000)"
            )
    with dpsql.connect(path, dpsql.parse_policy(policy), directory / "b.db", "ana") as connection:
        yield connection


def entries(directory: Path) -> list[str]:
    """The mechanisms of what was charged, in order."""
    with Ledger.open(directory / "b.db") as ledger:
        found = sorted(ledger.history("d"), key=lambda entry: entry.entry)
    return [read_record(each.plan).blocks[0].mechanism for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_read_once_for_the_bounds_and_the_answer(
    shape: str, maker: str, tmp_path: Path, sent: Sent
) -> None:
    with opened(tmp_path, MAKERS[maker]) as connection:
        # Beside a cap, SQL reads the part of values out of bounds by itself.
        by_itself = shape == "sums" and maker == "SQL"
        share: dict[str, Any] = {"left_out_share": 0.0} if by_itself else {}
        connection.sql(SHAPES[shape], epsilon=1.0, **share)
        blocks = 2 if shape == "two conditions" else 1
        if maker == "NumPy" and shape in {"unknown keys", "averages"}:
            # The keys that rows have are a statement of their own; SQL draws for spreads of floats,
            # which is known afterwards.
            blocks = 2
        assert sent.over_rows == blocks
        assert sent.left == set()
        connection.sql(SHAPES[shape], epsilon=1.0, fresh=True, **share)
        again = 1 if maker == "NumPy" and shape == "averages" else blocks
        assert sent.over_rows == blocks + again


def test_pairs_with_what_estimates_take_serve_a_block_without_these(
    tmp_path: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the account knows the estimates, and not the bounds."""
    silence(monkeypatch)
    found, read = [], []
    for number, staged in enumerate((True, False)):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.MonkeyPatch.context() as patched, opened(place, BY_NUMPY) as connection:
            bounds_of(patched, staged=staged)
            patched.setattr(purchase, "stage_of_block", _without_estimates)
            patched.setattr(GroupsKind, "beside", lambda *_: ())
            before = sent.over_rows
            found.append(sorted(map(repr, connection.sql(SHAPES["sums"]).fetchall())))
            read.append(sent.over_rows - before)
    assert found[0] == found[1]
    assert read[1] - read[0] == 1


def _without_estimates(block: PreparedBlock, dialect: Dialect, _: object) -> object:
    return pairs_of_block(block.plan, dialect, ())


@pytest.mark.slow
@pytest.mark.parametrize("shape", UNSTAGED)
def test_what_reads_more_than_pairs_reads_its_rows_itself(
    shape: str, tmp_path: Path, sent: Sent
) -> None:
    with opened(tmp_path) as connection:
        connection.sql(UNSTAGED[shape])
        assert sent.over_rows > 1
        assert not any("stage" in text for text in sent.texts)


def answers(directory: Path, shape: str, policy: str = POLICY) -> list[Any]:
    with opened(directory, policy) as connection:
        return sorted(map(repr, connection.sql(SHAPES[shape]).fetchall()))


def bounds_of(monkeypatch: pytest.MonkeyPatch, *, staged: bool) -> None:
    """Draw the same bounds each time; of rows where nothing is to be kept."""
    from dpsql.kinds import base
    from dpsql.privacy.mechanisms.bounds_choice import BoundDraw

    monkeypatch.setattr(BoundDraw, "draw", lambda self, *_: self.rungs[-1])
    if not staged:
        monkeypatch.setattr(base, "stage_of", lambda rows: None)
        monkeypatch.setattr(Stages, "keep", lambda self, stage, place, *_: place.close())


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_without_noise_the_answer_is_that_of_rows_read_twice(
    shape: str, maker: str, tmp_path: Path
) -> None:
    found = []
    for number, staged in enumerate((True, False)):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.MonkeyPatch.context() as patched:
            silence(patched)
            bounds_of(patched, staged=staged)
            found.append(answers(place, shape, MAKERS[maker]))
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS)
def test_a_block_that_reads_the_stage_of_another_is_noticed(
    maker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence(monkeypatch)
    bounds_of(monkeypatch, staged=True)
    right = answers(tmp_path, "two conditions", MAKERS[maker])
    real = Stages.taken

    @contextmanager
    def any_of_them(self: Stages, stage: Any) -> Iterator[StoredStage | StoredPairs | None]:
        last = self.waiting[-1].stage if self.waiting else None
        with real(self, last) as taken:
            yield taken

    monkeypatch.setattr(Stages, "taken", any_of_them)
    with opened(tmp_path, MAKERS[maker]) as connection:
        wrong = connection.sql(SHAPES["two conditions"], fresh=True, epsilon=19.0).fetchall()
    assert sorted(map(repr, wrong)) == right  # bounds are known: no stage is there
    other = tmp_path / "other"
    other.mkdir()
    assert answers(other, "two conditions", MAKERS[maker]) != right


@pytest.mark.slow
def test_pairs_beyond_their_part_of_the_memory_are_read_of_a_file(
    tmp_path: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_pairs, "_PART", 1 << 40)
    read: list[int] = []
    real = ArrayFile.read

    def counted(self: ArrayFile, place: int, length: int, type_: Any) -> Any:
        read.append(length)
        return real(self, place, length, type_)

    monkeypatch.setattr(ArrayFile, "read", counted)
    with opened(tmp_path, BY_NUMPY) as connection:
        assert len(connection.sql(SHAPES["declared keys"]).fetchall()) == 5
    assert sent.over_rows == 1
    assert read


class Stopped(BaseException):
    """What Ctrl-C raises."""


def stop_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int) -> None:
    """Have a call of a method stopped before it does anything."""
    real: Callable[..., Any] = getattr(owner, name)
    calls: list[None] = []

    def stopped(*given: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == call:
            raise Stopped
        return real(*given, **named)

    monkeypatch.setattr(owner, name, stopped)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reserve", "settle_together"])
def test_what_stops_between_draw_and_question_leaves_no_table_and_a_right_ledger(
    name: str, tmp_path: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as connection:
        with monkeypatch.context() as patched:
            stop_at(patched, Ledger, name, 2 if name == "reserve" else 1)
            with pytest.raises(Stopped):
                connection.sql(SHAPES["declared keys"])
        assert sent.left == set()
        assert entries(tmp_path) == [LEFT_OUT_MECHANISM]
        sent.texts.clear()
        connection.sql(SHAPES["declared keys"])
        staged = any("stage" in text for text in sent.texts)
        assert staged == (name == "settle_together")  # else the bounds are the account's
        assert entries(tmp_path).count("known_domain") == 1
        assert sent.left == set()


@pytest.mark.slow
def test_a_question_that_fails_after_its_draw_keeps_what_it_had_reserved(
    tmp_path: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as connection:
        real = DuckDBScratch._exact

        def failing(self: DuckDBScratch, passed: Any, *given: Any) -> Any:
            if "__dpsql_kept" in passed.statement.render(DUCKDB_TEXT):
                raise duckdb.OutOfMemoryException("x")
            return real(self, passed, *given)

        with monkeypatch.context() as patched:
            patched.setattr(DuckDBScratch, "_exact", failing)
            with fails_with("memory_limit") as caught:
                connection.sql(SHAPES["declared keys"])
        assert "stays spent" in str(caught.value.hint)
        assert sent.left == set()
        assert entries(tmp_path).count("known_domain") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "call"), [("settle_together", 1), ("reserve", 2)])
def test_waiting_for_the_ledger_takes_none_of_the_time_of_a_question(
    name: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another account may hold the ledger: that suspends nobody."""
    real: Callable[..., Any] = getattr(Ledger, name)
    calls: list[None] = []

    def waiting(*given: Any, **named: Any) -> Any:
        calls.append(None)
        found = real(*given, **named)
        if len(calls) == call:
            time.sleep(4.5)
        return found

    monkeypatch.setattr(Ledger, name, waiting)
    limited = POLICY.replace("limits: {", "limits: {seconds: 2, ")
    with opened(tmp_path, limited) as connection:
        assert len(connection.sql(SHAPES["declared keys"]).fetchall()) == 5
    assert len(calls) >= call


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(  # caps of unknown keys are drawn on the way
    "shape", sorted(SHAPES.keys() - {"unknown keys"})
)
def test_no_statement_over_a_stage_is_read_for_the_first_time_when_it_is_paid_for(
    shape: str, maker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments: list[str] = []

    def noted(owner: Any, name: str, what: str) -> None:
        kept = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            moments.append(what)
            return kept(*given, **named)

        monkeypatch.setattr(owner, name, call)

    noted(KnownStatements, "add", "read")
    noted(Ledger, "reserve", "reserved")
    noted(Ledger, "settle_together", "settled")
    KNOWN._found.clear()
    with opened(tmp_path, MAKERS[maker]) as connection:
        connection.sql(SHAPES[shape])
    while "reserved" in moments:
        first = moments.index("reserved")
        assert "settled" in moments[first:]
        last = first + moments[first:].index("settled")
        assert "read" not in moments[first:last]
        moments = moments[last + 1 :]
    KNOWN._found.clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounding", "place"), [("sql", 'FROM "t"'), ("sql", '_stage"'), ("any", 'FROM "t"')]
)
def test_an_interrupt_ends_a_question_whatever_it_reads(
    bounding: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are stored as a stage, that stage, or rows that NumPy puts together."""
    over, reading = threading.Event(), threading.Event()

    def forever() -> str:
        reading.set()
        return "SELECT q.* FROM ({0}) q JOIN range(20_000_000_000) r(i) ON hash(r.i) = 7"

    def interrupting() -> None:
        reading.wait(20)
        while not over.wait(0.1):
            con.interrupt()

    question = SHAPES["declared keys"]
    with opened(tmp_path, POLICY.replace("bounding: sql", f"bounding: {bounding}")) as con:
        thread = threading.Thread(target=interrupting)
        thread.start()
        try:
            with monkeypatch.context() as patch, fails_with("interrupted"):
                sent_inside(patch, forever, place)
                con.sql(question)
        finally:
            over.set()
            reading.set()
            thread.join()
        assert len(con.sql(question).fetchall()) == 5


@pytest.mark.slow
def test_an_interrupt_ends_work_on_kept_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = KeptPairs.__iter__
    with opened(tmp_path, BY_NUMPY) as con:

        def interrupted(self: KeptPairs) -> Iterator[GatheredUnits]:
            con.interrupt()
            yield from real(self)

        with monkeypatch.context() as patch, fails_with("interrupted"):
            patch.setattr(KeptPairs, "__iter__", interrupted)
            con.sql(SHAPES["declared keys"])
        assert len(con.sql(SHAPES["declared keys"]).fetchall()) == 5
