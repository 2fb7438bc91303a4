"""Verification finds every edit, deletion, exchange and cut; anchors find what it cannot."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.ledgers import EPSILON, PLAN, RHO, raw
from helpers.random_examples import LENGTH

from dpsql.errors import LedgerError, ParameterError
from dpsql.ledger import Account, Cause, Event, Head, Kind, Ledger, Renewal, Verification, releases
from dpsql.ledger import verify as verification
from dpsql.ledger.chain import FIELDS, NOTHING, hash_of
from dpsql.ledger.replay import Replay
from dpsql.ledger.schema import SCHEMA_VERSION
from dpsql.ledger.sqlite_file import SQLiteBackend, _require_schema
from dpsql.ledger.verify import verify
from dpsql.privacy.accounting.zcdp import Amount

COLUMNS = FIELDS.split(", ")


def fill(ledger: Ledger) -> None:
    """Events of every kind."""
    owner = ledger.owner("olga")
    owner.create("sales/alice")
    owner.set_limits("sales", RHO.amount(1000, 1000), terms='{"epsilon": 2}')
    owner.renew("sales", Renewal.MONTH)
    alice, bob = RHO.account("sales/alice", 500, 500), EPSILON.account("else/bob", 300, 300)
    charges = [RHO.reserve(ledger, 10 + i, 3, alice) for i in range(3)]
    ledger.settle(charges[1], RHO.amount(4, 3), b"answer " * 40)
    owner.open_window("sales/alice")
    ledger.settle(charges[0], RHO.amount(5, 3), b"other")
    ledger.settle(EPSILON.reserve(ledger, 9, 2, bob), EPSILON.amount(9, 2))
    assert owner.forget("sales/alice") == 2
    ledger.settle(RHO.reserve(ledger, 7, 1, alice), RHO.amount(7, 1), b"kept")
    fill_streams(ledger, alice)
    ledger.fail(charges[2], "sales/alice", Cause.TIME)
    owner.create("else/carl")
    owner.rename("else/bob", "else/bert")
    owner.rename("else/carl", "else/cleo")
    owner.create("else/emil")
    EPSILON.reserve(ledger, 9, 2, replace(bob, path="else/bert"))
    owner.suspend("else")
    owner.reopen("sales/alice")
    owner.accept_clock()


def fill_streams(ledger: Ledger, account: Account) -> None:
    """Steps that are published, passed by and failed, and a stream that is dropped."""
    RHO.stream(ledger, "s1", account)
    RHO.stream(ledger, "s2", account)
    for stream in ("s1", "s2"):
        first = ledger.begin_step(account.path, stream, 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(releases, "MAX_RELEASE", 200)
            ledger.publish_step(first, [b"first " * 40, b"part"])  # in two parts
        ledger.begin_step(account.path, stream, 2)
    ledger.publish_step(ledger.begin_step(account.path, "s1", 3), [])
    failed = ledger.begin_step(account.path, "s1", 4)
    ledger.note_read("sales/reader", "s2")
    ledger.drop_stream(account.path, "s2")
    ledger.fail_step(failed, account.path, Cause.MEMORY)
    ledger.owner("olga").reopen(account.path)


@pytest.fixture
def filled(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path, who="ana") as ledger:
        fill(ledger)
        yield ledger


class Copy:
    """A ledger in memory, without the rules that would stand in a forger's way."""

    def __init__(self, path: Path) -> None:
        self.sql = sqlite3.connect(":memory:", isolation_level=None)
        with raw(path) as source:
            source.backup(self.sql)
        names = self.sql.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        for (name,) in names.fetchall():
            self.sql.execute(f"DROP TRIGGER {name}")
        for name in ("steps_by_stream", "streams_by_id"):
            self.sql.execute(f"DROP INDEX {name}")

    @contextmanager
    def changed(self, statement: str, *values: object) -> Iterator[None]:
        self.sql.execute("SAVEPOINT before")
        try:
            self.sql.execute(statement, values)
            yield
        finally:
            self.sql.execute("ROLLBACK TO before")

    def verify(self, *anchors: Head) -> Verification:
        return verify(SQLiteBackend(self.sql), anchors)

    def finds(self) -> bool:
        """True if damage is reported, or is so bad that nothing can be read."""
        try:
            return not self.verify().sound
        except LedgerError:
            return True

    def reforge(self) -> None:
        """Hash everything anew, as a forger would who knows how."""
        previous, seq, at = NOTHING, 0, 0
        for row in self.sql.execute(f"SELECT {FIELDS} FROM events ORDER BY seq").fetchall():
            previous, seq, at = hash_of(previous, row), row[0], row[1]
            self.sql.execute("UPDATE events SET hash = ? WHERE seq = ?", (previous, seq))
        self.sql.execute("UPDATE head SET seq = ?, at = ?, hash = ?", (seq, at, previous))
        for table in ("windows", "accounts"):
            self.sql.execute(f"UPDATE {table} SET tie = (SELECT hash FROM events WHERE seq = last)")


@pytest.fixture
def copy(filled: Ledger, path: Path) -> Iterator[Copy]:
    made = Copy(path)
    with closing(made.sql):
        yield made


def test_a_sound_ledger_is_found_sound(ledger: Ledger) -> None:
    empty = ledger.verify()
    assert empty.sound
    assert empty.head == ledger.head()
    assert empty.events == 1
    fill(ledger)
    events = list(ledger.events())
    found = ledger.verify([ledger.head(), empty.head])
    assert (found.sound, found.events, found.head) == (True, len(events), ledger.head())
    assert {event.kind for event in events} == set(Kind)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert all(one.at <= next_.at for one, next_ in pairwise(events))
    assert list(ledger.events(after=5)) == events[5:]


def test_the_chain_is_hashed_as_documented(filled: Ledger) -> None:
    """By somebody who has read docs/ledger.md and nothing else."""
    previous = bytes(32)
    for event in filled.events():
        digest = None if event.digest is None else event.digest.hex()
        fields = [event.seq, event.at, event.who, event.kind, event.account, event.entry]
        fields += [
            event.stream,
            event.step,
            event.query,
            event.detail,
            *event.amount.units,
            digest,
            event.state,
        ]
        text = json.dumps(fields, separators=(",", ":"))
        previous = hashlib.sha256(previous + text.encode("ascii")).digest()
        assert previous == event.hash
    assert previous == filled.head().hash


def test_who_asked_and_who_acted_is_in_the_chain(filled: Ledger) -> None:
    owners = {Kind.LIMITS, Kind.RENEWAL, Kind.WINDOW, Kind.FORGET, Kind.CLOCK}
    owners |= {Kind.SUSPEND, Kind.REOPEN, Kind.RENAME}
    for event in filled.events():
        if event.kind in owners:
            assert event.who == "olga"
        elif event.kind != Kind.ACCOUNT:
            assert event.who == "ana"
    assert filled.history("sales")[0].who == "ana"


def flips(value: Any) -> Iterator[Any]:
    """The value with one bit changed in each of its bytes, as SQL text."""
    if value is None:
        yield from ("0", "x'00'")
    elif isinstance(value, int):
        for bit in range(0, 63, 3):
            yield str(value ^ (1 << bit))
    else:
        kind = "TEXT" if isinstance(value, str) else "BLOB"
        data = value.encode() if isinstance(value, str) else value
        for place, byte in enumerate(data):
            flipped = data[:place] + bytes([byte ^ (1 << place % 8)]) + data[place + 1 :]
            yield f"CAST(x'{flipped.hex()}' AS {kind})"
        yield "NULL"


def unfound_flips(copy: Copy, step: int) -> list[tuple[int, str]]:
    """Which changes of one bit of one event verification does not find."""
    copy.sql.execute("PRAGMA ignore_check_constraints = ON")
    rows = copy.sql.execute(f"SELECT {FIELDS}, hash FROM events").fetchall()
    unfound, tried = [], 0
    for row in rows:
        for column, value in zip([*COLUMNS, "hash"], row, strict=True):
            for flipped in list(flips(value))[row[0] % step :: step]:
                tried += 1
                try:
                    statement = f"UPDATE events SET {column} = {flipped} WHERE seq = {row[0]}"
                    with copy.changed(statement):
                        if not copy.finds():
                            unfound.append((row[0], column))
                except sqlite3.IntegrityError:
                    continue  # not even SQLite would hold it
    assert tried > 4000 // step
    return unfound


@pytest.mark.slow
def test_a_flipped_bit_in_every_byte_of_the_chain_is_found(copy: Copy) -> None:
    assert unfound_flips(copy, 1) == []


@pytest.mark.slow
def test_without_hashes_flipped_bits_would_not_be_found(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is the hashes that find them, and not other checks."""
    stored = {row[:-1]: row[-1] for row in copy.sql.execute(f"SELECT {FIELDS}, hash FROM events")}
    trusting = {row[0]: digest for row, digest in stored.items()}
    monkeypatch.setattr(verification, "hash_of", lambda previous, row: trusting.get(row[0]))
    assert {"who", "at", "detail", "query"} <= {column for _, column in unfound_flips(copy, 5)}


def test_the_first_broken_event_is_named(copy: Copy) -> None:
    count = copy.verify().events
    for seq in range(1, count + 1):
        with copy.changed("UPDATE events SET who = 'eve' WHERE seq = ?", seq):
            found = copy.verify()
        assert (found.place, found.events) == (seq, seq - 1)


@pytest.mark.slow
def test_a_missing_exchanged_or_added_event_is_found(copy: Copy) -> None:
    count = copy.verify().events
    swap = (
        "UPDATE events SET seq = CASE seq WHEN {0} THEN -{1} ELSE -{0} END WHERE seq IN ({0},{1})"
    )
    for seq in range(2, count):
        with copy.changed("DELETE FROM events WHERE seq = ?", seq):
            assert copy.verify().place == seq
        with copy.changed(swap.format(seq, seq + 1)):
            copy.sql.execute("UPDATE events SET seq = -seq WHERE seq < 0")
            assert copy.verify().place == seq
    again = f"INSERT INTO events SELECT {count + 1}, {', '.join(COLUMNS[1:])}, hash "
    with copy.changed(f"{again} FROM events WHERE seq = {count}"):
        assert copy.verify().place == count + 1


def test_a_chain_that_was_cut_is_found(copy: Copy) -> None:
    count = copy.verify().events
    for left in range(count):
        with copy.changed("DELETE FROM events WHERE seq > ?", left):
            assert not copy.verify().sound
            if left == 0:
                continue
            # ... and also where the head was moved back to match: the sums tell.
            copy.sql.execute(
                "UPDATE head SET (seq, at, hash) = "
                "(SELECT seq, at, hash FROM events ORDER BY seq DESC LIMIT 1)"
            )
            assert left >= count - 1 or not copy.verify().sound


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE windows SET rho = rho - 1 WHERE rho > 0",
        "UPDATE windows SET delta = 0",
        "UPDATE windows SET unsettled = 0",
        "UPDATE windows SET period = '1999-01'",
        "UPDATE windows SET last = last + 1",
        "UPDATE windows SET tie = zeroblob(32)",
        "UPDATE accounts SET last = last - 1",
        "UPDATE accounts SET tie = NULL",
        "UPDATE windows SET path = path || '2'",
        "DELETE FROM windows WHERE opened = (SELECT min(opened) FROM windows)",
        "INSERT INTO windows (opened, path, period) VALUES (99, 'x', '')",
        "UPDATE accounts SET limit_rho = 10 * limit_rho WHERE limit_rho > 0",
        "UPDATE accounts SET limit_rho = NULL, limit_epsilon = NULL, limit_delta = NULL, "
        "limit_gaussian = NULL",
        "UPDATE accounts SET policy_delta = policy_delta + 1",
        "UPDATE accounts SET renews = 'day'",
        "UPDATE accounts SET terms = '{}'",
        "UPDATE accounts SET opened = 3",
        "UPDATE accounts SET suspended = 0 WHERE path = 'else'",
        "UPDATE accounts SET reopened = suspended + 1 WHERE path = 'else'",
        "UPDATE accounts SET suspended = 3 WHERE path = 'else/bob'",
        "DELETE FROM accounts WHERE path = 'sales'",
        "INSERT INTO accounts (path, opened) VALUES ('x', 3)",
        "UPDATE releases SET payload = x'00'",
        "UPDATE releases SET payload = CAST(payload || x'00' AS BLOB)",
        "UPDATE releases SET size = size + 1",
        "UPDATE releases SET packed = 1",
        "UPDATE releases SET account = 'sales/eve'",
        "UPDATE releases SET query = 'f2'",
        "UPDATE releases SET entry = 3",
        "DELETE FROM releases",
        "INSERT INTO releases VALUES (3, 'sales', 'f1', 0, 0, x'')",
        "UPDATE step_releases SET payload = x'00'",
        "UPDATE step_releases SET payload = x'00' WHERE part = 1",
        "UPDATE step_releases SET part = 2 WHERE part = 1",
        "UPDATE step_releases SET size = size + 1",
        "UPDATE step_releases SET step = step + 7",
        "UPDATE step_releases SET stream = stream + 1",
        "DELETE FROM step_releases",
        "DELETE FROM step_releases WHERE part = 1",
        "INSERT INTO step_releases SELECT stream, 3, 1, 0, 0, x'' FROM step_releases LIMIT 1",
        "INSERT INTO step_releases SELECT stream, 2, 0, 0, 0, x'' FROM step_releases LIMIT 1",
        "UPDATE head SET seq = seq + 1",
        "UPDATE head SET at = at + 1",
        "UPDATE head SET ledger = 'x'",
        "UPDATE head SET version = 3",
        "UPDATE head SET hash = zeroblob(32)",
        "DELETE FROM head",
    ],
)
def test_what_does_not_follow_from_the_events_is_found(copy: Copy, statement: str) -> None:
    with copy.changed(statement):
        assert copy.sql.execute("SELECT changes()").fetchone() != (0,)
        found = copy.verify()
        assert found.broken
        assert found.place is None
    assert copy.verify().sound


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE events SET rho = 100 WHERE kind = 'settle' AND seq < 16",
            "more than was reserved",
        ),
        ("UPDATE events SET delta = 0 WHERE kind = 'settle' AND account = 'else/bob'", "delta"),
        ("UPDATE events SET account = 'sales' WHERE kind = 'settle'", "not reserved"),
        ("UPDATE events SET rho = 501 WHERE kind = 'reserve' AND account LIKE 's%'", "exceeds"),
        (
            "UPDATE events SET epsilon = 1 WHERE kind = 'reserve'",
            "more than one of rho",
        ),
        ("UPDATE events SET at = at - 3600000000 WHERE seq = 9", "older"),
        ("UPDATE events SET kind = 'refund' WHERE kind = 'settle'", "kind"),
        ("UPDATE events SET kind = 'ledger' WHERE seq = 2", "once"),
        ("UPDATE events SET detail = '{' WHERE kind = 'limits'", "detail"),
        ("UPDATE events SET detail = '[]' WHERE kind = 'renewal'", "detail"),
        ("UPDATE events SET detail = replace(detail, 'owner', 'calendar')", "before it was over"),
        (
            "UPDATE events SET account = 'else' WHERE kind = 'account' AND account = 'sales'",
            "exist",
        ),
        ("UPDATE events SET rho = 0, epsilon = 0, delta = 0 WHERE kind = 'reserve'", "nothing"),
        ("UPDATE events SET entry = NULL WHERE kind = 'settle'", "settles"),
        ("UPDATE events SET entry = NULL WHERE kind = 'failure'", "fails nothing"),
        (
            "UPDATE events SET kind = 'suspend', entry = NULL, account = 'sales' "
            "WHERE kind = 'policy'",
            "suspended",
        ),
        ("UPDATE events SET account = 'else' WHERE kind = 'failure'", "not reserved"),
        ("UPDATE events SET detail = '{\"cause\": \"salary\"}' WHERE kind = 'failure'", "cause"),
        ("UPDATE events SET account = 'sales' WHERE kind = 'reopen'", "not suspended"),
        ("UPDATE events SET kind = 'reopen' WHERE kind = 'suspend'", "not suspended"),
        ("UPDATE events SET step = 1 WHERE kind = 'step' AND step = 2", "was used"),
        ("UPDATE events SET step = 3 WHERE kind = 'step' AND step = 2", "was used"),
        ("UPDATE events SET step = 6 WHERE kind = 'step' AND step = 4", "does not have"),
        ("UPDATE events SET step = 0 WHERE kind = 'step'", "of a step"),
        ("UPDATE events SET step = 1 WHERE kind = 'stream'", "of a step"),
        ("UPDATE events SET stream = NULL, step = 0 WHERE kind = 'publish'", "nothing"),
        ("UPDATE events SET stream = 5 WHERE kind = 'reserve'", "nothing"),
        ("UPDATE events SET entry = 5 WHERE kind = 'step' AND query = 's1' AND step = 4", "not"),
        ("UPDATE events SET step = 1 WHERE kind = 'publish' AND step = 3", "has ended before"),
        ("UPDATE events SET digest = NULL WHERE kind = 'publish'", "has ended before"),
        (
            "UPDATE events SET kind = 'publish', step = 1, digest = zeroblob(32) "
            "WHERE kind = 'step' AND step = 2",
            "ended before",
        ),
        ("UPDATE events SET kind = 'drop', step = 0 WHERE kind = 'publish'", "dropped"),
        ("UPDATE events SET query = 's1' WHERE kind = 'drop'", "another one's"),
        ("UPDATE events SET account = 'else' WHERE kind = 'step'", "another one's"),
        ("UPDATE events SET stream = 5 WHERE kind = 'step'", "does not exist"),
        (
            "UPDATE events SET detail = replace(detail, 'of s2', 'of s1') WHERE kind = 'stream'",
            "is taken",
        ),
        ("UPDATE events SET query = 's1' WHERE query = 's2'", "is taken"),
        ("UPDATE events SET query = 's3' WHERE kind = 'stream'", "charged in full"),
        ("UPDATE events SET account = 'sales' WHERE kind = 'stream'", "charged in full"),
        (
            "UPDATE events SET detail = replace(detail, ': 5', ': 50') WHERE kind = 'stream'",
            "charged in full",
        ),
        (
            "UPDATE events SET rho = rho - 1 WHERE kind = 'settle' "
            "AND entry IN (SELECT stream FROM events WHERE kind = 'stream')",
            "charged in full",
        ),
        ("UPDATE events SET stream = stream - 1 WHERE kind = 'stream'", "charged in full"),
        (
            "UPDATE events SET kind = 'suspend', stream = NULL, step = 0, query = '' "
            "WHERE kind = 'step' AND step = 2",
            "suspended",
        ),
        ("UPDATE events SET query = 's9' WHERE kind = 'read'", "does not exist"),
        ("UPDATE events SET account = 'sales/nobody' WHERE kind = 'read'", "not exist"),
        ("UPDATE events SET step = 1, stream = 5 WHERE kind = 'read'", "settles or fails nothing"),
        ("UPDATE events SET step = 3 WHERE kind = 'failure' AND step = 4", "ended before"),
        ("UPDATE events SET step = 5 WHERE kind = 'failure' AND step = 4", "not begun"),
        ("UPDATE events SET account = 'else' WHERE kind = 'failure' AND step = 4", "not reserved"),
        (
            "UPDATE events SET detail = json_set(detail, '$.version', 9) WHERE kind = 'ledger'",
            "another version",
        ),
        ("UPDATE events SET query = 'sales/bert' WHERE query = 'else/bert'", "another place"),
        ("UPDATE events SET query = 'else/bob' WHERE query = 'else/bert'", "that it has"),
        ("UPDATE events SET query = 'else/carl' WHERE query = 'else/bert'", "of another one"),
        ("UPDATE events SET query = 'else/bert' WHERE query = 'else/cleo'", "of another one"),
        ("UPDATE events SET account = 'else/dora' WHERE query = 'else/cleo'", "not exist"),
        ("UPDATE events SET account = 'else/bert' WHERE account = 'else/emil'", "exists already"),
        ("UPDATE events SET query = 'else/ b' WHERE query = 'else/cleo'", "detail"),
    ],
)
def test_rules_are_checked_even_where_all_hashes_were_made_anew(
    copy: Copy, statement: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by itself: what events say of accounts and windows would find most of these as well."""
    monkeypatch.setattr(Replay, "_require_told", lambda self, event: None)
    with copy.changed(statement):
        assert copy.sql.execute("SELECT changes()").fetchone() != (0,)
        copy.reforge()
        found = copy.verify()
        assert found.broken is not None
        assert said in found.broken, found
        assert found.place


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET state = replace(state, ',1]', ',0]') WHERE kind = 'reserve'",
        "UPDATE events SET state = NULL WHERE kind = 'reserve'",
        "UPDATE events SET state = '[]' WHERE kind = 'limits'",
        "UPDATE events SET state = '{' WHERE kind = 'clock'",
        "UPDATE events SET state = replace(state, 'sales', 'sale') WHERE kind = 'account'",
    ],
)
def test_what_events_say_of_rows_must_follow_from_them(copy: Copy, statement: str) -> None:
    with copy.changed(statement):
        assert copy.sql.execute("SELECT changes()").fetchone() != (0,)
        copy.reforge()
        assert copy.verify().place
    assert copy.verify().sound


def test_a_rewritten_chain_is_found_by_a_head_that_was_written_down(
    filled: Ledger, copy: Copy
) -> None:
    """What no ledger can find by itself: a forger who makes everything anew, consistently."""
    anchor = Head.parse(str(filled.head()))
    with copy.changed("UPDATE events SET who = 'eve' WHERE seq = 9"):
        copy.reforge()
        assert copy.verify().sound
        found = copy.verify(anchor)
        assert (found.sound, found.place) == (False, anchor.seq)


def test_an_older_copy_is_found_by_a_head_that_was_written_down(path: Path) -> None:
    with Ledger.open(path) as ledger:
        RHO.reserve(ledger, 1, 1)
        early = ledger.head()
    shutil.copy(path, path.with_name("old"))
    with Ledger.open(path) as ledger:
        RHO.reserve(ledger, 1, 1)
        late = ledger.head()
        assert ledger.verify([early, late]).sound
    shutil.copy(path.with_name("old"), path)
    with Ledger.open(path) as ledger:
        assert ledger.verify().sound
        assert ledger.verify([early]).sound
        assert not ledger.verify([early, Head(early.seq, late.hash)]).sound
        assert "written down" in (ledger.verify([early, late]).broken or "")
        RHO.reserve(ledger, 2, 1)
        found = ledger.verify([early, late])
        assert (found.sound, found.place) == (False, late.seq)


@pytest.mark.parametrize("bad", ["", "7", "7:", "x:" + "0" * 64, "0:" + "0" * 64, "7:" + "0" * 63])
def test_a_malformed_head_is_refused(bad: str) -> None:
    with pytest.raises(ParameterError):
        Head.parse(bad)


def test_who_writes_an_earlier_version_cannot_go_on_in_a_ledger_of_this_one(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not keep the rules of that version."""
    RHO.reserve(ledger, 1, 1)
    before = ledger.head()
    with monkeypatch.context() as patch:
        patch.setattr("dpsql.ledger.journal.SCHEMA_VERSION", SCHEMA_VERSION - 1)
        with pytest.raises(LedgerError):
            RHO.reserve(ledger, 1, 1)
    assert ledger.head() == before
    RHO.reserve(ledger, 1, 1)
    assert ledger.verify().sound


def test_events_cannot_hold_what_no_ledger_writes(filled: Ledger) -> None:
    event = next(iter(filled.events()))
    assert isinstance(event, Event)
    row = [getattr(event, name) for name in COLUMNS[:10]]
    with pytest.raises(ParameterError):
        Event.of_row((*row, -1, 0, 0, None, "[]", b""))
    assert event.amount == Amount()
    assert event.time.endswith("+00:00")
    assert json.loads(event.detail)["version"] == SCHEMA_VERSION
    assert json.loads(PLAN)


@pytest.mark.slow
def test_a_flipped_bit_in_any_byte_of_the_file_changes_nothing_or_is_found(path: Path) -> None:
    """The file is opened in memory as it is, byte for byte: pages, free space, indexes, all."""
    with Ledger.open(path) as ledger:
        fill(ledger)
    data = path.read_bytes()
    # A file in memory has no log beside it: say so in its header, which is no part of the ledger.
    plain = data[:18] + b"\1\1" + data[20:]

    def contents(connection: sqlite3.Connection) -> list[str]:
        return list(connection.iterdump())

    def look(image: bytes) -> tuple[bool, list[str] | None]:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.deserialize(image)
            try:
                _require_schema(connection)
                sound = verify(SQLiteBackend(connection)).sound
                return sound, contents(connection) if sound else None
            except (LedgerError, sqlite3.DatabaseError, UnicodeDecodeError):
                return False, None

    sound, before = look(plain)
    assert sound
    found = 0
    # Every eleventh byte, and all bits of bytes in turn.
    for place in range(0, len(plain), max(1, round(11 / LENGTH))):
        image = bytearray(plain)
        image[place] ^= 1 << place % 8
        sound, after = look(bytes(image))
        assert not sound or after == before, place
        found += not sound
    assert found > 600 * min(1, LENGTH)
