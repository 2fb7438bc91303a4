"""The file of users: private, recognised, whole, and nothing of others' is touched."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from helpers.failures import fails_with

from dpsql.server.people import passwords, user_file
from dpsql.server.people.records import Role
from dpsql.server.people.users import Users, open_or_create_users

OPEN_FILES = Path("/proc/self/fd")

pytestmark = pytest.mark.few(20)  # all of them: they are quick


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_KIBIBYTES", 64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of users with one of them, closed."""
    with Users.create(tmp_path / "users.db", iterations=4096) as users:
        users.add("olga", "correct horse battery", [Role.OWNER])
    return tmp_path / "users.db"


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_the_file_and_its_log_are_private(path: Path) -> None:
    with Users(path) as users:
        users.disable("olga")
        names = sorted(each.name for each in path.parent.iterdir())
        assert names == ["users.db", "users.db-shm", "users.db-wal"]
        for each in path.parent.iterdir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA application_id").fetchone() == (0x64707375,)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_may_read_or_write_is_refused(mode: int, path: Path) -> None:
    path.chmod(mode)
    with fails_with("users_not_private"):
        Users(path)


def test_a_missing_file_is_not_made_by_opening_it(tmp_path: Path) -> None:
    with fails_with("users_missing"):
        Users(tmp_path / "users.db")
    assert [*tmp_path.iterdir()] == []
    with open_or_create_users(tmp_path / "users.db") as users:
        assert users.users() == ()
    with open_or_create_users(tmp_path / "users.db") as users:
        assert users.users() == ()
    assert [each.name for each in tmp_path.iterdir()] == ["users.db"]


def foreign_files(directory: Path) -> list[Path]:
    found = [directory / name for name in ("empty", "text", "database", "directory")]
    found[0].touch(0o600)
    found[1].write_text("SQLite format 2" * 200)
    change(found[2], "CREATE TABLE users (name TEXT)", "INSERT INTO users VALUES ('ana')")
    found[3].mkdir()
    for each in found:
        each.chmod(0o700)
    return [found[0], found[1], found[2], found[3]]


def test_what_is_not_its_own_is_refused_and_not_touched(tmp_path: Path) -> None:
    for path in foreign_files(tmp_path):
        path.chmod(0o700 if path.is_dir() else 0o600)
        before = path.read_bytes() if path.is_file() else b""
        for open_ in (Users, open_or_create_users):
            with fails_with("users_foreign"):
                open_(path)
        with fails_with("file_exists"):
            Users.create(path, iterations=4096)
        assert (path.read_bytes() if path.is_file() else b"") == before
    assert len([*tmp_path.iterdir()]) == 4


def test_all_verifiers_of_a_file_have_the_same_iterations(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    for iterations in (5_000, None, 5_000):
        with open_or_create_users(path, iterations) as users:
            assert users.iterations == 5_000
            assert users.credential("mallory").verifier.iterations == 5_000
    with fails_with("bad_iterations"):
        open_or_create_users(path, 6_000)


def test_another_version_is_refused(path: Path) -> None:
    change(path, "PRAGMA user_version = 4")
    with fails_with("users_version"):
        Users(path)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE users ADD COLUMN note TEXT",
        "CREATE TABLE notes (note TEXT)",
        "CREATE TRIGGER t AFTER INSERT ON users BEGIN UPDATE users SET disabled = 0; END",
        "DROP TABLE tokens",
    ],
)
def test_altered_tables_are_refused(statement: str, path: Path) -> None:
    change(path, statement)
    with fails_with("users_altered"):
        Users(path)


def test_a_damaged_file_is_refused_in_fixed_words(path: Path) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[100:4096] = os.urandom(3996)
    path.write_bytes(damaged)
    with fails_with("users_altered") as told:
        Users(path)
    assert told.value.__cause__ is None


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with fails_with("users_not_written"):
        Users.create(tmp_path / "nowhere" / "users.db", iterations=4096)
    with fails_with("users_not_written"):
        Users.create(tmp_path / "a\0b", iterations=4096)
    with fails_with("bad_iterations"):
        Users.create(tmp_path / "users.db", iterations=1000)
    assert [*tmp_path.iterdir()] == []


def test_a_lock_of_another_process_is_waited_for_and_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_file, "_PATIENCE", 0.05)
    with Users(path) as users, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with fails_with("users_busy"):
            users.disable("olga")
        assert users.check_password("olga", "correct horse battery").user == "olga"
        other.execute("COMMIT")
        assert users.disable("olga").disabled


def test_a_change_that_fails_is_undone(path: Path) -> None:
    with Users(path) as users:
        with fails_with("users_not_written"), users._file.writing() as write:
            write("UPDATE users SET disabled = 1", ())
            write("INSERT INTO settings SELECT * FROM settings", ())
        assert not users.user("olga").disabled


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="open files are not told here")
def test_a_decision_ends_though_a_fork_lives_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_file, "_PATIENCE", 0.5)
    with Users(path) as users:
        with users._file.deciding():
            # Whoever it is has the file as a fork has it: open, and the same.
            files = [(int(each.name), os.path.realpath(each)) for each in OPEN_FILES.iterdir()]
            (held,) = (number for number, name in files if name == f"{path}-deciding")
            place = os.dup(held)
            with fails_with("users_busy"), users._file.deciding():
                pass
        with users._file.deciding():
            os.close(place)


def test_a_decision_is_kept_apart_by_a_file_of_its_own_and_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = path.with_name("users.db-deciding")
    with Users(path) as users:
        with users._file.deciding():
            assert stat.S_IMODE(beside.stat().st_mode) == 0o600
        beside.unlink()
        beside.symlink_to(path.with_name("another"))
        with fails_with("users_not_written"), users._file.deciding():
            pass
        assert not path.with_name("another").exists()
        beside.unlink()

        def without_locks(place: int, how: int) -> None:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(fcntl, "flock", without_locks)
        with fails_with("users_not_written"), users._file.deciding():
            pass
