"""Where a ledger is if nobody says: never in the working directory, and never new in silence."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result
from helpers.failures import fails_with
from helpers.support import checked

import dpsql
from dpsql.interfaces.cli import cli
from dpsql.ledger import Ledger
from dpsql.policy.ledger_place import from_file, usual_place, without_password
from dpsql.policy.load import load_policy, parse_policy

POLICY = """\
version: 1
dataset: clinic
accounts: {ana: {epsilon: 4, delta: 1e-5}}
tables: {visits: {privacy_unit: {name: person, column: uid}}}
"""
COUNT = "SELECT COUNT(DISTINCT uid) AS n FROM visits"
NEW = "a new ledger was created: {}: nothing has been spent in it"


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database and its policies file in a directory; we are in another one."""
    home = tmp_path / "data"
    home.mkdir()
    with contextlib.closing(duckdb.connect(str(home / "clinic.duckdb"))) as connection:
        connection.execute("CREATE TABLE visits AS SELECT range AS uid FROM range(2000)")
        connection.execute(f"COPY visits TO '{home}/visits.parquet'")
        connection.execute(f"COPY visits TO '{home}/visits.2024.csv'")
    (home / "policies.yaml").write_text(POLICY)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return home


def named(clinic: Path, place: str) -> Path:
    """A policies file that names the ledger."""
    path = clinic / "named.yaml"
    path.write_text(f"{POLICY}ledger: {place}\n")
    return path


def queries(place: Path) -> int:
    with Ledger.open(place) as ledger:
        assert not ledger.created
        return ledger.spent("clinic/ana").queries


def created_by(call: Callable[[], dpsql.Connection]) -> list[str]:
    """What is warned of while a connection is made and asked."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with call() as connection:
            connection.sql(COUNT)
    found = [warning for warning in told if warning.category is dpsql.NewLedgerWarning]
    assert all(warning.filename == __file__ for warning in found)
    return [str(warning.message) for warning in found]


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("database", "ledger"),
    [
        ("clinic.duckdb", "clinic.budget.db"),
        ("visits.parquet", "visits.budget.db"),
        ("visits.2024.csv", "visits.2024.budget.db"),
    ],
)
def test_the_ledger_is_beside_the_database_wherever_we_are(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, database: str, ledger: str
) -> None:
    policies = clinic / "policies.yaml"
    if "2024" in database:  # a file of texts alone, whose types are declared
        typed = """'"visits.2024"': {columns: {uid: {type: BIGINT}}, """
        policies.write_text(POLICY.replace("visits: {", typed))
    count = COUNT.replace("visits", '"visits.2024"' if "2024" in database else "visits")

    def ask() -> dpsql.Connection:
        connection = dpsql.connect(checked(clinic / database), policies, analyst="ana")
        connection.sql(count, fresh=True)
        return connection

    with pytest.warns(dpsql.NewLedgerWarning, match="a new ledger was created"):
        ask().close()
    for place in (clinic, clinic.parent, Path("/")):
        monkeypatch.chdir(place)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ask().close()
    monkeypatch.chdir(clinic)
    with contextlib.closing(dpsql.connect(database, "policies.yaml", analyst="ana")) as relative:
        relative.sql(count, fresh=True)
        assert not relative.ledger_created
    assert queries(clinic / ledger) == 5
    assert list((clinic.parent / "elsewhere").iterdir()) == []


def test_links_to_a_database_or_a_policies_file_buy_no_new_budget(clinic: Path) -> None:
    os.symlink(clinic / "clinic.duckdb", "mine.duckdb")
    os.symlink(clinic / "policies.yaml", "policies.yaml")
    os.symlink(named(clinic, "kept.db"), "named.yaml")
    assert usual_place(load_policy("policies.yaml"), "mine.duckdb") == str(
        clinic / "clinic.budget.db"
    )
    assert usual_place(load_policy("named.yaml"), "mine.duckdb") == str(clinic / "kept.db")


@pytest.mark.slow
def test_a_ledger_that_the_policies_file_names_is_in_that_files_directory(clinic: Path) -> None:
    policies = named(clinic, "kept.db")
    said = NEW.format(clinic / "kept.db")
    assert created_by(lambda: dpsql.connect(clinic / "clinic.duckdb", policies, analyst="ana")) == [
        said
    ]
    engine = dpsql.DuckDBEngine()
    engine.register("visits", {"uid": np.arange(2000)})
    assert created_by(lambda: dpsql.connect(engine, policies, analyst="ana")) == []
    assert queries(clinic / "kept.db") == 1  # the second one was the same question


@pytest.mark.slow
def test_an_argument_goes_before_what_the_policies_file_names(clinic: Path) -> None:
    database, policies = clinic / "clinic.duckdb", named(clinic, "kept.db")
    assert created_by(lambda: dpsql.connect(database, policies, "mine.db", "ana")) == []
    assert created_by(lambda: dpsql.connect(database, policies, Path("my.db"), "ana")) == []
    with Ledger.open("other.db") as ledger:
        assert ledger.created
        assert created_by(lambda: dpsql.connect(database, policies, ledger, "ana")) == []
        assert ledger.spent("clinic/ana").queries == 1
    assert queries(Path("mine.db")) == 1
    assert not (clinic / "kept.db").exists()


@pytest.mark.slow
def test_a_connection_tells_whether_it_has_created_its_ledger(clinic: Path) -> None:
    database, policies = clinic / "clinic.duckdb", clinic / "policies.yaml"
    for expected in (True, False):
        with dpsql.connect(database, policies, "mine.db", "ana") as connection:
            assert connection.ledger_created is expected
    with dpsql.connect(database, policies, None, "ana") as connection:
        assert connection.ledger_created is False
    with Ledger.open("x.db") as ledger, dpsql.connect(database, policies, ledger, "ana") as con:
        assert con.ledger_created is False


@pytest.mark.slow
def test_a_warning_that_is_an_error_leaves_nothing_open(clinic: Path) -> None:
    for _ in range(2):
        (clinic / "clinic.budget.db").unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(dpsql.NewLedgerWarning):
                dpsql.connect(clinic / "clinic.duckdb", clinic / "policies.yaml", analyst="ana")
    assert not (clinic / "clinic.budget.db-wal").exists()


def test_without_any_place_nothing_is_opened(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = dpsql.DuckDBEngine()
    engine.register("visits", {"uid": np.array([1])})
    monkeypatch.setattr(engine, "open", lambda *_: pytest.fail("it was opened"))
    policy = load_policy(clinic / "policies.yaml")
    with fails_with("ledger_not_given") as refusal:
        dpsql.connect(engine, policy, analyst="ana")
    assert "`ledger: budget.db` in the policies file" in (refusal.value.hint or "")
    monkeypatch.undo()
    with dpsql.connect(engine, policy, None, "ana") as connection:
        connection.explain(COUNT)
        with pytest.raises(dpsql.InterfaceError):
            connection.sql(COUNT)


def test_a_database_that_cannot_be_opened_gets_no_ledger(clinic: Path) -> None:
    for database in ("clinic.parquet", "", ".", "no\0path", clinic):
        with pytest.raises(dpsql.Error):
            dpsql.connect(database, clinic / "policies.yaml", analyst="ana")
    assert not list(clinic.rglob("*.budget.db"))
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("7", "must be text"),
        ("[budget.db]", "must be text"),
        ('""', "is not a path"),
        ('" x"', "is not a path"),
        ('"a\\u0007b"', "is not a path"),
        ('"a\\u0000b"', "holds a NUL"),
        ("mysql://host/x", "neither a file nor a PostgreSQL database"),
        ("", "has no value"),
    ],
)
def test_what_is_no_place_is_refused_with_its_line(written: str, problem: str) -> None:
    with pytest.raises(dpsql.PolicyError) as refusal:
        parse_policy(f"{POLICY}ledger: {written}\n")
    assert refusal.value.place is not None
    assert refusal.value.place.line == 5
    assert problem in str(refusal.value)


def test_places_in_files_are_relative_to_them_unless_they_are_urls() -> None:
    url = "postgresql://olga@host/budgets"
    assert from_file(url, "/srv/policies.yaml") == url
    assert from_file("a/b.db", "/srv/policies.yaml") == "/srv/a/b.db"
    assert from_file("/x/b.db", "/srv/policies.yaml") == "/x/b.db"
    assert parse_policy(f"{POLICY}ledger: {url}\n").ledger == url
    assert without_password("postgresql://o:secret@host/b") == "postgresql://o:***@host/b"


# -- commands ---------------------------------------------------------------------------------


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.slow
def test_commands_find_the_same_ledger_and_announce_a_new_one(clinic: Path) -> None:
    place = clinic / "clinic.budget.db"
    where = ("-d", str(clinic / "clinic.duckdb"), "-p", str(clinic / "policies.yaml"))
    before = run("budget", "show", *where, "-a", "ana")
    assert f"There is no ledger {place} yet" in before.stderr
    first, second = (run("query", COUNT, *where, "-a", "ana", "--fresh") for _ in range(2))
    assert NEW.format(place) in first.stderr
    assert "new ledger" not in second.stderr
    assert queries(place) == 2
    for command in (
        ["budget", "show", "-a", "ana"],
        ["budget", "history", "-a", "ana"],
        ["budget", "verify"],
        ["budget", "head"],
        ["budget", "export"],
        ["budget", "owner", "window", "clinic/ana", "--yes", "--as", "olga"],
        ["budget", "estimate", COUNT, "-a", "ana"],
        ["shell", "-a", "ana", "-c", COUNT],
    ):
        result = run(*command, *where)
        assert result.exit_code == 0, (command, result.output)
        assert "new ledger" not in result.stderr
    assert not list(Path().iterdir())


def test_commands_find_the_ledger_that_the_policies_file_names(clinic: Path) -> None:
    policies = str(named(clinic, "kept.db"))
    result = run("budget", "owner", "create", "clinic/ana", "--as", "olga", "-p", policies)
    assert NEW.format(clinic / "kept.db") in result.stderr
    assert run("budget", "verify", "-p", policies).exit_code == 0
    assert (clinic / "kept.db").exists()


def test_commands_that_cannot_tell_where_the_ledger_is_say_so(clinic: Path) -> None:
    for command in (["budget", "verify"], ["budget", "owner", "create", "x", "--as", "olga"]):
        result = run(*command)
        assert result.exit_code == 2
        assert "ledger_not_given" in result.stderr
        assert "--ledger or DPSQL_LEDGER" in " ".join(result.stderr.split())
    assert not list(Path().iterdir())


@pytest.mark.slow
def test_a_shell_announces_a_new_ledger(clinic: Path) -> None:
    where = (str(clinic / "clinic.duckdb"), "-p", str(clinic / "policies.yaml"), "-a", "ana")
    assert NEW.format(clinic / "clinic.budget.db") in run("shell", *where, "-c", "\\?").stderr
    assert "new ledger" not in run("shell", *where, "-c", "\\?").stderr


def test_the_settings_file_and_the_environment_go_before_the_policies_file(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = str(named(clinic, "kept.db"))
    Path("dpsql.toml").write_text('[dpsql]\nledger = "from-file.db"\n')
    monkeypatch.setenv("HOME", str(clinic.parent))
    create = ("budget", "owner", "create", "clinic/ana", "--as", "olga", "-p", policies)
    assert run(*create).exit_code == 0
    monkeypatch.setenv("DPSQL_LEDGER", "from-environment.db")
    assert run(*create).exit_code == 0
    assert run(*create, "-l", "from-option.db").exit_code == 0
    assert {path.stem for path in Path().glob("*.db")} == {
        "from-file",
        "from-environment",
        "from-option",
    }
    assert not (clinic / "kept.db").exists()
