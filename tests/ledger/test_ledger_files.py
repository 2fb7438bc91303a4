"""What a ledger file must put up with: other files, damage, full disks, busy neighbours."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.ledgers import RHO, everything, raw

from dpsql.errors import LedgerError, ParameterError
from dpsql.ledger import Ledger
from dpsql.ledger.releases import _ON_ROWS
from dpsql.ledger.schema import APPLICATION_ID, SCHEMA_VERSION


def raw_connection(ledger: Ledger) -> sqlite3.Connection:
    """The connection that a ledger uses."""
    found: sqlite3.Connection = ledger._link.use(lambda sql: sql._connection)  # type: ignore[attr-defined]
    return found


def test_a_new_ledger_is_private_to_its_owner(path: Path) -> None:
    previous = os.umask(0)
    try:
        with Ledger.open(path) as ledger:
            RHO.reserve(ledger, 1, 1)
            modes = {item.name: item.stat().st_mode & 0o777 for item in path.parent.iterdir()}
    finally:
        os.umask(previous)
    assert set(modes) == {path.name, f"{path.name}-wal", f"{path.name}-shm"}
    assert set(modes.values()) == {0o600}


def test_every_commit_is_synced(file_ledger: Ledger) -> None:
    connection = raw_connection(file_ledger)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def make_text(path: Path) -> None:
    path.write_text("policies:\n  - not a ledger\n" * 100)


def make_empty(path: Path) -> None:
    path.touch()


def make_foreign(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE precious (x)")


def make_foreign_in_use(path: Path) -> None:
    """A database whose owner died and left work in its log, which opening it would replay."""
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE precious (x)")
        log = Path(f"{path}-wal").read_bytes()
    Path(f"{path}-wal").write_bytes(log)


def make_used_ledger(path: Path) -> None:
    with Ledger.open(path) as ledger:
        for _ in range(50):
            RHO.reserve(ledger, 1, 1)


def make_newer(path: Path, version: int = SCHEMA_VERSION + 1) -> None:
    make_used_ledger(path)
    with raw(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


def make_older(path: Path) -> None:
    make_newer(path, SCHEMA_VERSION - 1)


def make_ledger_in_name(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE entries (entry INTEGER PRIMARY KEY)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def make_altered(path: Path) -> None:
    make_used_ledger(path)
    with raw(path) as connection:
        connection.execute("DROP TRIGGER events_no_delete")


def make_altered_chain(path: Path, statement: str) -> None:
    make_used_ledger(path)
    with raw(path) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        rules = found.fetchall()
        for name, _ in rules:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
        for _, rule in rules:
            connection.execute(rule)


def make_chain_cut(path: Path) -> None:
    make_altered_chain(path, "DELETE FROM events WHERE seq > 50")


def make_chain_continued(path: Path) -> None:
    make_altered_chain(path, "UPDATE head SET seq = seq - 1")


def make_chain_without_end(path: Path) -> None:
    make_altered_chain(path, "DELETE FROM head")


def make_truncated(path: Path) -> None:
    make_used_ledger(path)
    os.truncate(path, 4096 * 3)


def make_cut_short(path: Path) -> None:
    make_used_ledger(path)
    os.truncate(path, 200)


def make_damaged(path: Path) -> None:
    make_used_ledger(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * 2000)


def make_damaged_header(path: Path) -> None:
    make_used_ledger(path)
    with path.open("r+b") as file:
        file.write(b"\xa5" * 60)


def make_read_only(path: Path) -> None:
    make_used_ledger(path)
    path.chmod(0o444)


def make_log_without_ledger(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"log")


def make_broken_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (make_text, "ledger_corrupt"),
        (make_empty, "ledger_foreign"),
        (make_foreign, "ledger_foreign"),
        (make_foreign_in_use, "ledger_foreign"),
        (make_newer, "ledger_version"),
        (make_older, "ledger_version"),
        (make_ledger_in_name, "ledger_corrupt"),
        (make_altered, "ledger_corrupt"),
        (make_chain_cut, "ledger_corrupt"),
        (make_chain_continued, "ledger_corrupt"),
        (make_chain_without_end, "ledger_corrupt"),
        (make_truncated, "ledger_corrupt"),
        (make_cut_short, "ledger_corrupt"),
        (make_damaged, "ledger_corrupt"),
        (make_damaged_header, "ledger_corrupt"),
        (make_read_only, "ledger_read_only"),
        (make_log_without_ledger, "ledger_missing"),
        (make_broken_link, "ledger_missing"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_file_that_is_not_a_usable_ledger_is_refused_untouched(
    path: Path, make: Callable[[Path], None], code: str
) -> None:
    make(path)
    before = everything(path.parent)
    with fails_with(code) as refusal:
        Ledger.open(path)
    assert refusal.value.hint
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    assert everything(path.parent) == before


def test_a_version_that_only_the_log_has_is_refused(path: Path) -> None:
    make_used_ledger(path)
    with raw(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        with pytest.raises(LedgerError) as refusal:
            Ledger.open(path)
    assert refusal.value.code == "ledger_version"


def test_a_directory_and_a_path_without_directory_are_refused(tmp_path: Path) -> None:
    cases: list[tuple[str | Path, str]] = [
        (tmp_path, "ledger_not_a_file"),
        (tmp_path / "missing" / "budget.ledger", "ledger_cannot_create"),
        (tmp_path / ("n" * 300), "ledger_cannot_create"),
        ("nul\0byte", "ledger_cannot_create"),
        ("/dev/null", "ledger_not_a_file"),
    ]
    for path, code in cases:
        with fails_with(code):
            Ledger.open(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b?mode=memory#%41.db", ":memory:", "données", "-x"])
def test_any_file_name_is_just_a_file_name(tmp_path: Path, name: str) -> None:
    with Ledger.open(tmp_path / name) as ledger:
        RHO.reserve(ledger, 1, 1)
    assert [item.name for item in tmp_path.iterdir()] == [name]


def test_a_ledger_replaced_while_open_is_noticed(path: Path) -> None:
    with Ledger.open(path) as ledger:
        RHO.reserve(ledger, 1, 1)
        path.rename(path.with_name("aside"))
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").rename(path.with_name(f"aside{suffix}"))
        with pytest.raises(LedgerError):
            RHO.reserve(ledger, 1, 1)
        with Ledger.open(path), fails_with("ledger_missing"):
            RHO.reserve(ledger, 1, 1)


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "10", True, None])
def test_a_bad_busy_timeout_is_refused(path: Path, bad: Any) -> None:
    with pytest.raises(ParameterError):
        Ledger.open(path, busy_timeout=bad)
    assert not path.exists()


def test_a_ledger_locked_for_too_long_is_busy_and_unchanged(path: Path) -> None:
    with Ledger.open(path, busy_timeout=0.05) as ledger, raw(path) as other:
        charge = RHO.reserve(ledger, 5, 1)
        other.execute("BEGIN IMMEDIATE")
        for attempt in (
            lambda: RHO.reserve(ledger, 1, 1),
            lambda: ledger.settle(charge, RHO.amount(1, 1)),
        ):
            with fails_with("ledger_busy"):
                attempt()
        assert ledger.spent("sales") == RHO.spent(5, 1, 1, 1)
        other.execute("ROLLBACK")
        ledger.settle(charge, RHO.amount(1, 1))


def test_a_full_disk_refuses_the_charge_and_changes_nothing(file_ledger: Ledger) -> None:
    RHO.reserve(file_ledger, 1, 1)
    connection = raw_connection(file_ledger)
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with fails_with("ledger_disk_full") as refusal:
        file_ledger.reserve(
            "sales",
            RHO.amount(1, 1),
            query="f1",
            plan='"' + "x" * 100_000 + '"',
            limits=[RHO.account("sales")],
        )
    assert refusal.value.__suppress_context__
    assert file_ledger.spent("sales") == RHO.spent(1, 1, 1, 1)
    connection.execute("PRAGMA max_page_count = 1000000")
    RHO.reserve(file_ledger, 1, 1)


def test_a_closed_ledger_says_so(path: Path) -> None:
    ledger = Ledger.open(path)
    ledger.close()
    ledger.close()
    for attempt in (lambda: RHO.reserve(ledger, 1, 1), lambda: ledger.spent("sales")):
        with fails_with("ledger_closed"):
            attempt()


def test_a_ledger_is_neither_pickled_nor_copied(file_ledger: Ledger) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with fails_with("ledger_not_picklable"):
            attempt(file_ledger)


def test_an_interrupt_inside_a_transaction_undoes_it(
    file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dpsql.ledger.store._require_settleable", interrupted)
        charge = RHO.reserve(file_ledger, 5, 1)
        with pytest.raises(KeyboardInterrupt):
            file_ledger.settle(charge, RHO.amount(1, 1))
    assert file_ledger.spent("sales") == RHO.spent(5, 1, 1, 1)
    file_ledger.settle(charge, RHO.amount(1, 1))
    assert file_ledger.spent("sales") == RHO.spent(1, 1, 1, 0)


# The file itself refuses to forget


NEW = "INSERT {or_} INTO events (seq, at, who, kind, account, entry, query, detail, rho, epsilon, "
NEW += "delta, digest, hash) SELECT {seq}, at, who, kind, account, {entry}, query, detail, {rho}, "
NEW += "epsilon, delta, digest, hash FROM events WHERE seq = 1"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events",
        "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
        "DELETE FROM windows",
        "DELETE FROM accounts",
        "DELETE FROM head",
        "UPDATE events SET rho = 0 WHERE kind = 'reserve'",
        "UPDATE events SET at = at",
        NEW.format(or_="OR REPLACE", seq=4, entry="NULL", rho=1),
        NEW.format(or_="OR REPLACE", seq=99, entry=4, rho=1),
        NEW.format(or_="", seq=99, entry="NULL", rho=-1),
        NEW.format(or_="", seq=99, entry="NULL", rho=0.5),
        NEW.format(or_="", seq=99, entry=1000, rho=1),
        "UPDATE windows SET rho = rho - 1",
        "UPDATE windows SET delta = delta - 1, unsettled = unsettled - 1",
        "UPDATE windows SET rho = rho - 1, unsettled = unsettled + 1, queries = queries + 1",
        "UPDATE windows SET queries = queries - 1",
        "UPDATE windows SET unsettled = -1",
        "UPDATE windows SET path = 'other'",
        "UPDATE windows SET opened = 99",
        "INSERT INTO windows (opened, path, period, rho) VALUES (99, 'sales', '', 1)",
        "INSERT OR REPLACE INTO windows (opened, path, period) "
        "SELECT opened, path, period FROM windows",
        "UPDATE accounts SET path = 'other'",
        "UPDATE accounts SET opened = opened - 1",
        "UPDATE accounts SET limit_rho = 1",
        "UPDATE accounts SET renews = 'year'",
        "INSERT OR REPLACE INTO accounts (path, opened) SELECT path, opened FROM accounts",
        "UPDATE head SET seq = seq - 1",
        "UPDATE head SET ledger = 'other', seq = seq + 1",
        "UPDATE releases SET payload = x'00'",
        "INSERT OR REPLACE INTO releases SELECT * FROM releases",
    ],
)
def test_the_file_itself_refuses_to_forget(file_ledger: Ledger, path: Path, statement: str) -> None:
    charge = RHO.reserve(file_ledger, 100, 7)
    file_ledger.settle(charge, RHO.amount(60, 7), b"answer")
    RHO.reserve(file_ledger, 100, 7)
    with raw(path) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        before = list(connection.iterdump())
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
        assert list(connection.iterdump()) == before
    assert file_ledger.verify().sound


@pytest.mark.slow
def test_a_reservation_takes_the_same_work_after_many(file_ledger: Ledger) -> None:
    def steps(work: Callable[[], object]) -> int:
        """Steps of SQLite's machine, which do not depend on the clock."""
        count = 0

        def tick() -> int:
            nonlocal count
            count += 1
            return 0

        connection.set_progress_handler(tick, 1)
        work()
        connection.set_progress_handler(None, 1)
        return count

    def pair() -> None:
        charge = RHO.reserve(file_ledger, 2, 1)
        file_ledger.settle(charge, RHO.amount(1, 1), b"answer")

    works = (pair, lambda: file_ledger.spent("sales"), lambda: file_ledger.stored("sales", "f1"))
    connection = raw_connection(file_ledger)
    pair()
    pair()
    few = [steps(work) for work in works]
    for _ in range(200):
        pair()
    many = [steps(work) for work in works]
    assert all(late <= early + 10 for early, late in zip(few, many, strict=True)), (few, many)


def test_answers_on_the_same_rows_are_found_by_an_index(path: Path) -> None:
    Ledger.open(path).close()
    asked = ("c" * 32, "a", "c" * 32, "a/", "a0", 3)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {_ON_ROWS}", asked).fetchall()
    steps = [step for *_, step in plan if "releases" in step]
    assert len(steps) == 2
    assert all("SEARCH releases USING INDEX releases_by_rows (<expr>=?" in step for step in steps)
    assert any("account>? AND account<?" in step for step in steps)


def test_a_file_with_a_second_name_is_refused_by_both(tmp_path: Path) -> None:
    """Its log is called after the file: by each name, the other's charges would not be seen."""
    one, other = tmp_path / "budget.ledger", tmp_path / "snapshot.ledger"
    with Ledger.open(one) as ledger:
        RHO.reserve(ledger, 1, 1)
        other.hardlink_to(one)
        for path in (one, other):
            with fails_with("ledger_linked"):
                Ledger.open(path)
        RHO.reserve(ledger, 1, 1)  # who had it open before is alone with it
    other.unlink()
    with Ledger.open(one) as ledger:
        assert [each.stored for each in ledger.history(ledger.accounts()[0])] == [False, False]
        assert ledger.verify().sound


def test_two_names_would_be_two_budgets(tmp_path: Path) -> None:
    """Without the refusal, SQLite would keep a log for each name."""
    one, other = tmp_path / "budget.db", tmp_path / "snapshot.db"
    first = sqlite3.connect(one, isolation_level=None)
    first.execute("PRAGMA journal_mode = WAL")
    first.execute("CREATE TABLE spent (amount INT)")
    first.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.hardlink_to(one)
    first.execute("INSERT INTO spent VALUES (1)")
    asked = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
    asked += "print(c.execute('SELECT count(*) FROM spent').fetchone()[0])"
    seen = [
        subprocess.run([sys.executable, "-c", asked, path], capture_output=True, text=True)
        for path in (one, other)
    ]
    assert [each.stdout.strip() for each in seen] == ["1", "0"]
    first.close()


def test_a_ledger_whose_maker_was_killed_before_it_had_one_name_is_opened(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budget.ledger"):
        pass
    (tmp_path / ".ledger-x1y2z3").hardlink_to(tmp_path / "budget.ledger")
    (tmp_path / ".ledger-other").touch()
    with Ledger.open(tmp_path / "budget.ledger") as ledger:
        RHO.reserve(ledger, 1, 1)
    assert {each.name for each in tmp_path.iterdir()} == {"budget.ledger", ".ledger-other"}


@pytest.mark.parametrize("ends", [("-wal",), ("-shm",), ("-wal", "-shm")])
def test_who_has_it_open_charges_nothing_once_its_log_is_gone(
    path: Path, ends: tuple[str, ...]
) -> None:
    """What would be charged then is in a log that nobody else finds: another budget for others."""
    with Ledger.open(path) as ledger:
        RHO.reserve(ledger, 1, 1)
        for end in ends:
            Path(f"{path}{end}").unlink()
        for _ in range(2):
            with fails_with("ledger_missing"):
                RHO.reserve(ledger, 1, 1)
        with pytest.raises(LedgerError):
            ledger.accounts()


def test_others_that_come_and_go_leave_the_log_where_it_is(path: Path) -> None:
    with Ledger.open(path) as ledger:
        for _ in range(3):
            with Ledger.open(path) as other:
                RHO.reserve(other, 1, 1)
                other.owner("olga").forget("sales")
            RHO.reserve(ledger, 1, 1)
        assert len(ledger.history("sales")) == 6


def test_a_log_is_found_by_a_link_to_the_file(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budget.ledger") as ledger:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "linked").symlink_to(tmp_path / "budget.ledger")
        with Ledger.open(tmp_path / "elsewhere" / "linked") as other:
            RHO.reserve(other, 1, 1)
            RHO.reserve(ledger, 1, 1)
            assert len(other.history("sales")) == 2
