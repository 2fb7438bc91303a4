"""A stored answer that is asked for again is presented once, and is never another one."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.support import ANALYST, FILL, policy, world_file

import dpsql
from dpsql.policy.model import AccountPolicy
from dpsql.results.result import Result
from dpsql.service import answering, stored_releases

COUNT = "SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k"


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[dpsql.Dataset]:
    rules = policy(None, **{ANALYST: AccountPolicy(ANALYST, 1000.0, 1e-3)})
    with (
        world_file(tmp_path / "world.duckdb", *FILL) as path,
        dpsql.open_dataset(path, rules, tmp_path / "budget.db") as found,
    ):
        yield found


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The releases that were unpacked to be presented."""
    found: list[str] = []
    for module in (answering, stored_releases):
        real = module.decode_release

        def counted(keys: Any, blocks: Any, pieces: Any, real: Any = real) -> Any:
            found.append("release")
            return real(keys, blocks, pieces)

        monkeypatch.setattr(module, "decode_release", counted)
    return found


def ask(dataset: dpsql.Dataset, text: str = COUNT, **options: Any) -> Result:
    with dataset.session(ANALYST) as session:
        return session.sql(text, **options)


def told(answer: Result) -> tuple[object, ...]:
    ends = {name: (one.low.tolist(), one.high.tolist()) for name, one in answer.intervals().items()}
    return answer.fetchall(), ends, answer.summary(), answer.warnings, str(answer.plan)


def test_sessions_of_an_account_unpack_a_release_once(
    dataset: dpsql.Dataset, unpacked: list[str]
) -> None:
    ask(dataset)
    first = ask(dataset)
    count = len(unpacked)
    again = [ask(dataset) for _ in range(3)]
    assert count
    assert len(unpacked) == count
    assert [told(each) for each in again] == [told(first)] * 3
    assert all(each.cost == first.cost and each.edition == first.edition for each in again)


def test_no_reader_changes_what_another_one_reads(dataset: dpsql.Dataset) -> None:
    ask(dataset)
    first, second = ask(dataset), ask(dataset)
    known = told(second)
    first.fetchall().clear()
    first.fetchone()
    interval = first.intervals()["n"]
    interval.low[:] = 0
    first.cost = dpsql.Cost(first.cost.reserved, first.cost.settled, 0.5)
    assert told(second) == known
    third = ask(dataset)
    assert told(third) == known
    assert third.fetchone() == third.fetchall()[0]
    assert third.cost.conversion_delta == second.cost.conversion_delta


def test_a_new_release_makes_another_answer(dataset: dpsql.Dataset) -> None:
    """A later one is given instead, and pooled: the answer of before is not."""
    ask(dataset)
    before = told(ask(dataset))
    ask(dataset, fresh=True)
    after = ask(dataset)
    assert after.cost.stored
    assert told(after) != before
    assert told(ask(dataset)) == told(after)
    assert ask(dataset, combine="all").pooled == 2


def test_another_form_of_the_question_is_another_answer(dataset: dpsql.Dataset) -> None:
    """The same release, with other names and another order."""
    ask(dataset)
    ask(dataset)
    other = ask(dataset, "SELECT COUNT(DISTINCT uid) AS m, k FROM visits GROUP BY k ORDER BY m")
    assert other.cost.stored
    assert other.columns == ["m", "k"]
    assert ask(dataset).columns == ["k", "n"]


def test_a_kept_answer_keeps_no_session(dataset: dpsql.Dataset) -> None:
    ask(dataset)
    with dataset.session(ANALYST) as session:
        session.sql(COUNT)
        ended = weakref.ref(session._answerer)
    del session
    gc.collect()
    assert ended() is None
    assert ask(dataset).plan.blocks


def test_what_public_rows_or_chance_decide_is_found_anew(dataset: dpsql.Dataset) -> None:
    joined = f"SELECT s.name, c.n FROM ({COUNT}) AS c JOIN shops AS s USING (k)"
    chance = f"SELECT k, n, random() AS r FROM ({COUNT}) AS c"
    computed = f"SELECT k, n + 1 AS m FROM ({COUNT}) AS c ORDER BY m"
    kept = dataset.memory_of(ANALYST).answers
    found = []
    for asked in (joined, chance, computed):
        before = len(kept)
        for _ in range(2):
            assert ask(dataset, asked) is not None
        found.append(len(kept) - before)
    assert found == [0, 0, 1]
    first, second = (ask(dataset, chance) for _ in range(2))
    assert first["n"] == second["n"]
    assert first["r"] != second["r"]


@pytest.mark.parametrize(
    "tail",
    [
        "SELECT * FROM ({}) AS c USING SAMPLE 3 ROWS",
        "SELECT * FROM ({}) AS c TABLESAMPLE 50%",
        "SELECT CAST(age(TIMESTAMP '2020-01-01') AS VARCHAR) AS a, n FROM ({}) AS c",
        "SELECT n, CAST(gen_random_uuid() AS VARCHAR) AS u FROM ({}) AS c",
        "SELECT n, list_sum([random()]) AS r FROM ({}) AS c",
    ],
)
def test_rows_of_chance_or_of_an_unlisted_function_are_not_kept(
    dataset: dpsql.Dataset, tail: str
) -> None:
    for _ in range(2):
        ask(dataset, tail.format(COUNT))
    assert len(dataset.memory_of(ANALYST).answers) == 0


def test_long_texts_count_for_their_length(dataset: dpsql.Dataset) -> None:
    kept = dataset.memory_of(ANALYST).answers
    long = f"SELECT n, '{'x' * 400}' || CAST(k AS VARCHAR) AS t FROM ({COUNT}) AS c"
    ask(dataset)
    room = kept._kept._room
    texts = [row[1] for row in ask(dataset, long).fetchall()]
    assert len(kept) == 1
    assert room - kept._kept._room > sum(map(len, texts)) > 2_000
