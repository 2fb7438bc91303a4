"""Stored releases: the same question by the same account is free, marked, and answered the same."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.failures import fails_with
from helpers.present import present
from helpers.support import ANALYST, connect, policy

import dpsql
from dpsql.kinds.released import ReleasedBlock, ReleasedRows
from dpsql.ledger import Ledger
from dpsql.pipeline.kept.release_codec import encode_release
from dpsql.pipeline.tail.runner import TailRunner
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import ZERO, Amount, PrivacyLoss
from dpsql.service.statements import Arguments
from dpsql.service.stored_releases import ANY_AGE

ASKED = "SELECT k, count(DISTINCT uid) AS n FROM visits GROUP BY k"
QUESTIONS = [
    ASKED,
    f"{ASKED} ORDER BY n DESC LIMIT 3",
    "SELECT k, avg(x) AS a, count(*) AS n, median(x), stddev(x) FROM visits GROUP BY k",
    "SELECT c, sum(n) AS s, dp_interval_low(s) AS low FROM visits GROUP BY c",
    "SELECT k, c, count(*) AS n FROM visits GROUP BY ROLLUP (k, c)",
    "SELECT DISTINCT k FROM visits",
    "SELECT (SELECT count(*) FROM visits) / (SELECT count(DISTINCT uid) FROM visits) AS rate",
]


def reopened(
    directory: Path, rules: Policy | None = None, analyst: str = ANALYST, **options: Any
) -> dpsql.Connection:
    """Another connection to the world and the ledger that ``connect`` made."""
    return dpsql.connect(
        directory / "world.duckdb", rules or policy(), directory / "budget.db", analyst, **options
    )


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with connect(tmp_path) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("few", [10_000, 0], ids=["few", "many"])
@pytest.mark.parametrize("asked", QUESTIONS)
def test_the_same_question_gets_the_same_answer_at_no_cost(
    asked: str, few: int, connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.pipeline.tail.runner._FEW_ROWS", few)
    first = connection.sql(asked)
    spent = connection.budget()
    again = connection.sql(f"{asked.lower()}  -- once more")
    assert not first.cost.stored
    assert first.cost.settled_epsilon > 0
    assert again.cost.stored
    assert again.cost.answered is not None
    assert again.cost.answered[:2] == "20"
    assert (again.cost.reserved_epsilon, again.cost.settled_epsilon) == (0, 0)
    assert again.fetchall() == first.fetchall()
    assert (again.columns, again.types) == (first.columns, first.types)
    mine, theirs = again.intervals(0.9), first.intervals(0.9)
    assert mine.keys() == theirs.keys()
    for name, interval in mine.items():
        assert interval.low.tolist() == theirs[name].low.tolist()
        assert interval.high.tolist() == theirs[name].high.tolist()
    assert connection.budget() == spent


@pytest.mark.slow
def test_explain_says_what_would_cost_nothing(connection: dpsql.Connection) -> None:
    assert connection.explain(ASKED).answered is None
    assert "Costs" not in str(connection.explain(ASKED))
    answered = connection.sql(ASKED).fetchall() and connection.explain(ASKED).answered
    assert answered == connection.sql(ASKED).cost.answered
    assert f"nothing: it was answered on {present(answered)[:10]}" in str(connection.explain(ASKED))
    afresh = ASKED.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = true)")
    assert connection.explain(afresh).answered is None
    assert connection.explain(ASKED, epsilon=0.1).answered is None


@pytest.mark.slow
def test_another_outer_query_reads_the_same_release(connection: dpsql.Connection) -> None:
    counts: dict[int, int] = dict(connection.sql(ASKED).fetchall())
    spent = connection.budget()
    doubled = connection.sql(f"SELECT k, 2 * n FROM ({ASKED}) WHERE n > 0 ORDER BY k")
    assert doubled.cost.stored
    assert doubled.fetchall() == [(k, 2 * counts[k]) for k in sorted(counts) if counts[k] > 0]
    assert connection.budget() == spent


@pytest.mark.slow
def test_a_fresh_answer_has_new_noise_and_is_paid_for(connection: dpsql.Connection) -> None:
    wide = "SELECT sum(n) FROM visits"
    first = connection.sql(wide, epsilon=0.01)
    fresh = [connection.sql(wide, epsilon=0.01, fresh=True) for _ in range(2)]
    option = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = true) sum(n) FROM visits"
    fresh.append(connection.sql(option, epsilon=0.01))
    assert not any(answer.cost.stored for answer in fresh)
    assert len({tuple(answer.fetchall()) for answer in [first, *fresh]}) > 1
    assert connection.budget().queries == 4
    # What is repeated is the latest.
    assert connection.sql(wide, epsilon=0.01).fetchall() == fresh[-1].fetchall()


@pytest.mark.slow
def test_a_cursor_can_ask_afresh_too(connection: dpsql.Connection) -> None:
    cursor = connection.cursor().execute(ASKED)
    assert cursor.execute(ASKED).cost.stored
    assert not cursor.execute(ASKED, fresh=True).cost.stored


@pytest.mark.parametrize("value", ["1", "'yes'", "NULL"])
def test_fresh_is_true_or_false(value: str, connection: dpsql.Connection) -> None:
    with fails_with("bad_option"):
        connection.sql(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = {value}) 1 FROM visits")
    with pytest.raises(dpsql.ParameterError):
        connection.sql(ASKED, fresh=value)  # type: ignore[arg-type]
    assert connection.budget().queries == 0


@pytest.mark.slow
def test_another_connection_to_the_ledger_finds_the_answer(tmp_path: Path) -> None:
    with connect(tmp_path) as first:
        rows = first.sql(ASKED).fetchall()
    with reopened(tmp_path) as second:
        again = second.sql(ASKED)
    assert again.cost.stored
    assert again.fetchall() == rows


@pytest.mark.slow
def test_a_ledger_on_a_server_gives_answers_again_to_every_machine(
    tmp_path: Path, place: str | Path
) -> None:
    connect(tmp_path).close()
    answers = []
    for _ in range(2):
        with dpsql.connect(tmp_path / "world.duckdb", policy(), str(place), ANALYST) as opened:
            answers.append(opened.sql(QUESTIONS[2]))
            assert opened.budget().queries == 1
    first, again = answers
    assert [first.cost.stored, again.cost.stored] == [False, True]
    assert again.fetchall() == first.fetchall()


@pytest.mark.slow
def test_an_account_is_not_told_what_another_one_paid_for(tmp_path: Path) -> None:
    both = replace(policy(), accounts={name: AccountPolicy(name, 5, 1e-3) for name in ("a", "b")})
    connect(tmp_path).close()
    for name in ("a", "b"):
        with reopened(tmp_path, both, name) as opened:
            assert not opened.sql(ASKED).cost.stored


@pytest.mark.slow
def test_the_sessions_of_an_analyst_share_their_answers_and_pay_together(tmp_path: Path) -> None:
    rules = replace(policy(), total=AccountPolicy("total", 50.0, 1e-2))
    connect(tmp_path).close()
    stored = []
    for session in ("one", "two", ""):
        with reopened(tmp_path, rules, session=session) as opened:
            stored.append(opened.sql(ASKED).cost.stored)
    with reopened(tmp_path, rules, session="two") as opened:
        opened.sql("SELECT count(*) FROM visits")
    assert stored == [False, True, True]
    account = f"{rules.dataset}/{ANALYST}"
    with Ledger.open(tmp_path / "budget.db") as ledger:
        paid = [
            ledger.spent(path).queries
            for path in (f"{account}/one", f"{account}/two", account, rules.dataset)
        ]
        assert paid == [1, 1, 2, 2]
        assert ledger.verify().sound


@pytest.mark.parametrize("name", ["a/b", " ", "x" * 300, "a\nb", 7])
def test_a_session_has_a_plain_name(name: object, tmp_path: Path) -> None:
    connect(tmp_path).close()
    with pytest.raises(dpsql.ParameterError):
        reopened(tmp_path, session=name)


@pytest.mark.slow
def test_an_owner_may_limit_a_session(tmp_path: Path) -> None:
    connect(tmp_path).close()
    account = f"{policy().dataset}/{ANALYST}/trial"
    with Ledger.open(tmp_path / "budget.db") as ledger:
        owner = ledger.owner("olga")
        owner.create(account)
        owner.set_limits(account, Amount.limit(PrivacyLoss(rho=1e-9, delta=1e-9)))
    with reopened(tmp_path, session="trial") as opened, pytest.raises(dpsql.BudgetExceeded):
        opened.sql(ASKED)
    with reopened(tmp_path) as opened:
        opened.sql(ASKED)


@pytest.mark.slow
def test_other_bounds_in_the_policy_make_it_another_question(tmp_path: Path) -> None:
    rules = policy()
    connect(tmp_path).close()
    visits = rules.tables["visits"]
    bounds = {**visits.columns, "x": replace(visits.columns["x"], upper=99.0)}
    changed = replace(rules, tables={**rules.tables, "visits": replace(visits, columns=bounds)})
    asked = "SELECT sum(x) FROM visits"
    stored = []
    for each in (rules, changed, rules):
        with reopened(tmp_path, each) as opened:
            stored.append(opened.sql(asked).cost.stored)
    assert stored == [False, False, True]


@pytest.mark.slow
def test_an_answer_that_was_lost_after_it_was_paid_for_is_given_again(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def lost(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(TailRunner, "run", lost)
        with pytest.raises(KeyboardInterrupt):
            connection.sql(ASKED)
    spent = connection.budget()
    assert (spent.queries, spent.unsettled) == (1, 0)
    assert connection.sql(ASKED).cost.stored
    assert connection.budget() == spent


@pytest.mark.parametrize("key", ["k", "s", "d"], ids=["numbers", "texts", "dates"])
def test_what_is_stored_tells_nothing_of_exact_rows(key: str, connection: dpsql.Connection) -> None:
    """Row numbers are true ranks: what the ledger keeps is the same whatever they and their order
    are."""
    asked = f"SELECT {key}, count(*) AS n FROM visits GROUP BY {key}"
    found = connection._statements.question(asked, Arguments((), "gaussian_positive_counts"))
    prepared = connection._answerer.preparer.prepare(found)
    (block,) = prepared.blocks
    columns = block.keys
    named: dict[str, list[Any]] = {
        "k": [1, 5, 3],
        "s": ["b", None, "a"],
        "d": ["2024-01-03", "2024-01-01", None],
    }
    names = named[key]
    value = block.plan.block.aggregate_column(0)

    def packed(ids: list[int], order: list[int]) -> bytes | None:
        chosen = [names[place] for place in order]
        if key == "d":
            keys: Any = connection._answerer.tails.keys.keys_of_texts(columns, [chosen], ids)
        else:
            masked: Any = np.ma.array(chosen, mask=[n is None for n in chosen], dtype=object)
            keys = {columns[0].name: masked}
        drawn = {value: np.array([10, 20, 30])[order]}
        rows = ReleasedRows(np.array(ids), keys, drawn, ZERO)
        pieces = encode_release(connection._answerer.tails.keys, [ReleasedBlock(block, rows)])
        return None if pieces is None else b"".join(pieces)

    first = packed([1, 2, 3], [0, 1, 2])
    assert first is not None
    assert b"20" in first
    assert packed([7, 905, 4711], [0, 1, 2]) == first
    assert packed([7, 905, 4711], [2, 0, 1]) == first


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is a large release: written on lines of three rows, in parts of 100 bytes."""
    monkeypatch.setattr("dpsql.pipeline.kept.release_codec._WHOLE", 0)
    monkeypatch.setattr("dpsql.pipeline.kept.release_codec._LINE", 3)
    monkeypatch.setattr("dpsql.ledger.releases.MAX_RELEASE", 100)


LARGE = [
    *QUESTIONS,
    "SELECT s, count(*) AS n FROM visits GROUP BY s",
    "SELECT d, s, count(*) AS n FROM visits GROUP BY d, s",
    "SELECT k, s, count(*) AS n FROM visits GROUP BY k, s",
]


@pytest.mark.slow
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("few", [10_000, 0], ids=["few", "many"])
@pytest.mark.parametrize("asked", LARGE)
def test_an_answer_of_any_size_is_kept_and_given_again(
    asked: str, few: int, connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.pipeline.tail.runner._FEW_ROWS", few)
    first, again = connection.sql(asked, epsilon=20.0), connection.sql(asked, epsilon=20.0)
    assert (first.cost.stored, again.cost.stored) == (False, True)
    assert sorted(map(str, again.fetchall())) == sorted(map(str, first.fetchall()))
    mine, theirs = again.intervals(0.9), first.intervals(0.9)
    for name in theirs:
        assert sorted(mine[name].low) == sorted(theirs[name].low)


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_large_answers_are_put_together_and_added_up_like_others(
    connection: dpsql.Connection,
) -> None:
    asked = "SELECT c, count(*) AS n FROM visits GROUP BY c"
    first = connection.sql(asked, epsilon=1.0)
    second = connection.sql(asked, epsilon=2.0)
    assert second.fetchall() != first.fetchall()
    total = connection.sql("SELECT count(*) AS n FROM visits", answer_from="released")
    assert total.cost.settled_epsilon == 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_a_tail_that_fails_says_whether_its_release_is_kept(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = f"SELECT (SELECT k FROM ({ASKED}))"
    with pytest.raises(dpsql.DataError) as caught:
        connection.sql(failing)
    assert "is kept" in str(caught.value.hint)
    assert connection.sql(ASKED).cost.stored
    monkeypatch.setattr("dpsql.pipeline.purchase.encode_release", lambda *_, **__: None)
    with pytest.raises(dpsql.DataError) as caught:
        connection.sql(failing, fresh=True)
    assert "could not be kept" in str(caught.value.hint)


@pytest.mark.slow
def test_a_large_release_that_cannot_be_spelled_is_paid_for_and_not_kept(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking:
        def __iter__(self) -> Iterator[bytes]:
            yield b"x"
            raise dpsql.EngineError("it failed", code="engine_failed")

    with monkeypatch.context() as patch:
        patch.setattr("dpsql.pipeline.purchase.encode_release", lambda *_, **__: Breaking())
        first = connection.sql(ASKED)
    assert first.cost.settled_epsilon > 0
    assert connection.budget().unsettled == 0
    assert not connection.sql(ASKED).cost.stored


@pytest.mark.slow
def test_answers_the_owner_has_deleted_are_paid_for_again(tmp_path: Path) -> None:
    with connect(tmp_path) as opened:
        opened.sql(ASKED)
        with Ledger.open(tmp_path / "budget.db") as ledger:
            ledger.owner("olga").forget(f"{policy().dataset}/{ANALYST}")
        assert not opened.sql(ASKED).cost.stored


def test_a_stored_answer_that_was_changed_is_not_shown(
    connection: dpsql.Connection, tmp_path: Path
) -> None:
    connection.sql(ASKED)
    spent = connection.budget()
    with contextlib.closing(sqlite3.connect(tmp_path / "budget.db")) as file:
        named = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (name,) in file.execute(named).fetchall():
            file.execute(f'DROP TRIGGER "{name}"')
        file.execute("UPDATE releases SET payload = ?, size = 2, packed = 0", (b"{}",))
        file.commit()
    with fails_with("ledger_corrupt"):
        connection.sql(ASKED)
    assert connection.budget() == spent


@pytest.mark.slow
def test_a_release_of_another_format_is_asked_for_anew(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("dpsql.pipeline.kept.release_codec._VERSION", 99)
        connection.sql(ASKED)
    assert not connection.sql(ASKED).cost.stored
    assert connection.sql(ASKED).cost.stored


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type_", "literal"),
    [
        ("VARCHAR[]", "['it''s', NULL, 'a, b', '[\"c\"]', '']"),
        ("STRUCT(a INT, b VARCHAR)", "{'a': NULL, 'b': '}, a: 1'}"),
        ("INT[][]", "[[1, NULL], [], NULL]"),
        ("INTERVAL", "INTERVAL '30 days'"),
        ("ENUM ('x', 'y z')", "'y z'"),
        ("BIT", "'0101'"),
        ("TIME WITH TIME ZONE", "'12:00:00+05:30'"),
        ("TIMESTAMP_S", "'2013-01-01 00:00:00'"),
    ],
)
def test_keys_of_rarer_types_come_back_as_they_were(
    type_: str, literal: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as data:
        data.execute(f"CREATE TABLE t (u BIGINT, k {type_})")
        data.execute(f"INSERT INTO t SELECT range, {literal}::{type_} FROM range(200)")
    rules = Policy(
        "rare",
        Parameters(epsilon=20.0, delta=1e-4, left_out_share=0.0),
        accounts={"ana": AccountPolicy("ana", 900.0, 0.1)},
        tables={"t": TablePolicy("t", PrivacyUnit("unit", "u"))},
    )
    counted = "SELECT k, count(*) AS n FROM t GROUP BY k"
    asked = f"SELECT k::VARCHAR AS text, typeof(k), n FROM ({counted})"
    with dpsql.connect(path, rules, tmp_path / "b.db", "ana") as opened:
        first = opened.sql(asked).fetchall()
        again = opened.sql(asked)
        assert len(first) == 1
        assert again.cost.stored
        assert again.fetchall() == first


# -- releases that somebody has changed -----------------------------------------------------------

DAYS = "SELECT d, x, s, count(*) AS n FROM visits GROUP BY d, x, s"  # keys with types and texts
SECRET = "hunter2"
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 7, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308, -1e308, 1e999),
    *("", SECRET, "\0", "\ud800", "1", "<i8", "|O", "|V8", "<M8[us]", "O,O", "x" * 10_000),
    *([], [None], [[]], [SECRET], [SECRET] * 7, [[1, 2]], {}, {"a": 1}, {SECRET: SECRET}),
    float("nan"),
    [[[[[[[[[[]]]]]]]]]],
]  # fmt: skip


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tampered]:
    with connect(tmp_path_factory.mktemp("tampered")) as opened:
        yield Tampered(opened)


class Tampered:
    """A connection, and what its ledger keeps of its answers, which tests may change."""

    def __init__(self, connection: dpsql.Connection) -> None:
        self.connection = connection
        self.ledger = connection._answerer.paying_ledger()
        self.kept: dict[str, Any] = {}
        for asked in [*QUESTIONS, DAYS]:
            connection.sql(asked)
            prepared = connection._answerer.preparer.prepare(question(connection, asked))
            account = connection._answerer.payer.analyst
            self.kept[asked] = self.ledger.stored(account, prepared.fingerprint)
            assert self.kept[asked] is not None

    def outcome(self, asked: str, payload: Any, monkeypatch: pytest.MonkeyPatch) -> str:
        """What becomes of a question whose release is this: an answer, or the code of an error."""
        kept = replace(
            self.kept[asked],
            payload=payload,
            digest=hashlib.sha256(repr(payload).encode()).digest(),
        )
        answerer = self.connection._answerer
        prepared = answerer.preparer.prepare(question(self.connection, asked))
        with monkeypatch.context() as patched:
            patched.setattr(type(self.ledger), "stored", lambda *_: kept)
            try:
                asked_again = question(self.connection, asked)
                result = answerer._presented(asked_again, prepared, kept, ANY_AGE)
                if result is None:
                    return "another"
                result.fetchall()
                result.intervals()
            except dpsql.Error as error:
                quotes = SECRET in str(error) or error.__cause__ is not None
                return "quotes" if quotes else error.code
        return "answers"


def question(connection: dpsql.Connection, text: str) -> Any:
    return connection._statements.question(text, Arguments())


def steps_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a document."""
    yield path
    if isinstance(value, dict | list):
        names = list(value) if isinstance(value, dict) else range(min(len(value), 3))
        for name in names:
            yield from steps_of(value[name], (*path, name))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value there, or without it, for Ellipsis."""
    if not path:
        return value
    copy: Any = json.loads(json.dumps(document))
    holder = copy
    for name in path[:-1]:
        holder = holder[name]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return copy


@pytest.mark.parametrize("asked", [*QUESTIONS, DAYS])
@pytest.mark.slow
def test_a_release_of_another_shape_is_a_corrupt_ledger(
    payloads: Tampered, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads(payloads.kept[asked].payload)
    assert payloads.outcome(asked, payloads.kept[asked].payload, monkeypatch) == "answers"
    outcomes = set()
    for path in steps_of(document):
        for value in (*ODD, ...):
            if path or value is not ...:
                payload = json.dumps(changed(document, path, value)).encode()
                outcomes.add(payloads.outcome(asked, payload, monkeypatch))
    assert "ledger_corrupt" in outcomes
    assert outcomes <= {"answers", "another", "ledger_corrupt", "tail_failed"}


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("asked", [QUESTIONS[2], QUESTIONS[4], DAYS])
def test_a_release_with_other_bytes_is_one_or_a_corrupt_ledger(
    payloads: Tampered, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload, chance = payloads.kept[asked].payload, random.Random(7)
    outcomes = set()
    for _ in range(300):
        position, bit = chance.randrange(len(payload)), 1 << chance.randrange(8)
        flipped = bytearray(payload)
        flipped[position] ^= bit
        other = chance.randrange(len(payload))
        for bent in (bytes(flipped), payload[:position], payload[:position] + payload[other:]):
            outcomes.add(payloads.outcome(asked, bent, monkeypatch))
    assert "ledger_corrupt" in outcomes
    assert outcomes <= {"answers", "another", "ledger_corrupt", "tail_failed"}


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"\xff", b"null", b"7", b"[]", b"{}", b'"x"', b'{"release": 3}', b"NaN"),
        *(b"[" * 100_000, b'{"release": ' + b"9" * 5000 + b"}", b'{"release": 3, "blocks": [7]}'),
        *(None, 7, 1.5, object(), b'{"release": true, "blocks": []}'),
    ],
    ids=range(17),
)
def test_what_is_no_release_at_all_is_a_corrupt_ledger(
    payloads: Tampered, payload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert payloads.outcome(ASKED, payload, monkeypatch) == "ledger_corrupt"


def test_a_release_of_another_version_is_asked_again(
    payloads: Tampered, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert payloads.outcome(ASKED, b'{"release": 1, "rows": []}', monkeypatch) == "another"
