"""``dpsql user``: passwords are never arguments, and a token is shown once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpsql.interfaces.cli import cli
from dpsql.server.people import passwords
from dpsql.server.people.records import TokenScope
from dpsql.server.people.users import Users

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(passwords, "_KIBIBYTES", 64)
    return tmp_path


def run(*words: str, given: str | bytes | None = None, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, ["user", *words], input=given)
    assert done.exit_code == code, done.output
    assert PASSWORD not in done.output
    return done


@pytest.mark.slow
def test_a_user_from_enrolment_to_the_last_token(directory: Path) -> None:
    asked = run("add", "Ana", "--account", "ana", given=f"{PASSWORD}\n{PASSWORD}\n")
    assert "The user ana may log in." in asked.stderr
    assert asked.stdout == ""
    (listed,) = json.loads(run("list", "-f", "json").stdout)["users"]
    assert (listed["name"], listed["roles"], listed["accounts"]) == ("ana", ["analyst"], ["ana"])
    issued = run("token", "ana", "notebook", "--days", "30")
    secret = issued.stdout.strip()
    assert re.fullmatch(r"dpsql_[A-Za-z0-9_-]{43}", secret)
    assert "ana+notebook" in issued.stderr
    (token,) = json.loads(run("list", "ana", "-f", "json").stdout)["tokens"]
    assert token["valid"]
    with Users(directory / "users.db") as users:
        assert users.check_password("ana", PASSWORD).accounts == ("ana",)
        assert users.check_token(secret).token == "notebook"
    run("revoke", "ana", "notebook", "-q")
    assert "notebook" in run("list", "ana").stdout
    run("add", "bob", "--account", "Tests", "--password-file", "-", given=PASSWORD)
    assert "Tests" in run("list").stdout
    run("disable", "ana")
    assert [user["disabled"] for user in json.loads(run("list", "-f", "json").stdout)["users"]] == [
        True,
        False,
    ]
    run("enable", "ana")
    run("passwd", "ana", "--password-file", "-", given="another horse battery\n")
    with Users(directory / "users.db") as users:
        assert users.check_password("ana", "another horse battery").user == "ana"


def test_a_password_comes_from_a_file_or_from_standard_input(directory: Path) -> None:
    (directory / "secret").write_bytes(b"correct horse \xe9\r\n")
    run("add", "olga", "--role", "owner", "--role", "auditor", "--password-file", "secret")
    run("add", "otto", "--role", "auditor", "--password-file", "-", given=PASSWORD)
    with Users(directory / "users.db") as users:
        assert users.check_password("olga", b"correct horse \xe9").user == "olga"
        assert users.check_password("otto", PASSWORD).user == "otto"


@pytest.mark.parametrize("text", [None, "", "two\nlines of a password", "\n"])
def test_a_file_without_one_password_is_refused(text: str | None, directory: Path) -> None:
    if text is not None:
        (directory / "secret").write_text(text)
    done = run("add", "olga", "--role", "owner", "--password-file", "secret", code=2)
    assert "password_unreadable" in done.stderr or "[bad_password]" in done.stderr
    assert not (directory / "users.db").exists()


def test_passwords_that_differ_are_asked_for_again() -> None:
    given = f"{PASSWORD}\n{PASSWORD}!\n{PASSWORD}\n{PASSWORD}\n"
    assert "do not match" in run("add", "ana", "--account", "a", given=given).stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("add ana", "bad_scope"),
        ("add ana+b --account a", "bad_user_name"),
        ("add ana --role owner --account a", "bad_scope"),
        ("add ana --account a --password-file -", "bad_password"),
        ("passwd ana", "users_missing"),
        ("list", "users_missing"),
        ("disable ana --users other.db", "users_missing"),
    ],
)
def test_what_is_wrong_is_said_before_a_password_is_asked_for(words: str, code: str) -> None:
    done = run(*words.split(), given="too short\n", code=2)
    assert f"[{code}]" in done.stderr
    assert "Password" not in done.stderr
    assert "too short" not in done.output


def test_unknown_people_and_tokens_are_named(directory: Path) -> None:
    with Users.create(directory / "people.db", iterations=4096):
        pass
    place = ("--users", "people.db")
    assert "No users." in run("list", *place).stdout
    for words in (
        ("enable", "bob"),
        ("token", "bob", "t"),
        ("revoke", "bob", "t"),
        ("list", "bob"),
    ):
        assert "[unknown_user]" in run(*words, *place, code=2).stderr


def test_a_token_has_scopes_that_are_listed(directory: Path) -> None:
    given = f"{PASSWORD}\n{PASSWORD}\n"
    run("add", "ana", "--account", "ana", given=given)
    run("token", "ana", "all")
    run("token", "ana", "look", "--scope", "explain")
    run("token", "ana", "bot", "--scope", "agent", "--scope", "explain")
    refused = run("token", "ana", "both", "--scope", "agent", "--scope", "ask", code=2)
    assert "[bad_scope]" in refused.stderr
    found = json.loads(run("list", "ana", "--format", "json").stdout)["tokens"]
    assert {one["token"]: one["scopes"] for one in found} == {
        "all": ["ask", "views"],
        "bot": ["explain", "agent"],
        "look": ["explain"],
    }
    assert "scopes" in run("list", "ana").stdout
    with Users(directory / "users.db") as users:
        assert [token.scopes for token in users.tokens("ana")] == [
            frozenset({TokenScope.ASK, TokenScope.VIEWS}),
            frozenset({TokenScope.AGENT, TokenScope.EXPLAIN}),
            frozenset({TokenScope.EXPLAIN}),
        ]
