"""Settings: an option goes before the environment, that before dpsql.toml, that before defaults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import duckdb
import pytest
from click.testing import CliRunner, Result

from dpsql.errors import InterfaceError
from dpsql.interfaces.cli import cli
from dpsql.interfaces.cli.config import (
    FileSettings,
    config_command,
    load_settings,
    nearest_settings_file,
)
from dpsql.interfaces.cli.options import FORMATS, SettingOption
from dpsql.interfaces.cli.registry import entries
from dpsql.policy.parameters import PARAMETER_NAMES

POLICY = """\
version: 1
dataset: world
accounts: {ana: {epsilon: 50, delta: 1e-3}, bo: {epsilon: 50, delta: 1e-3}}
tables:
  visits: {privacy_unit: {name: person, column: uid}, columns: {color: {domain: [blue, red]}}}
"""
QUERY = "SELECT color, COUNT(DISTINCT uid) AS n FROM visits GROUP BY color"
FILE = """\
[dpsql]
database = "data/world.duckdb"
policies = "data/policies.yaml"
ledger = "data/budget.db"
analyst = "ana"
epsilon = 0.25

[profile.careful]
epsilon = 0.125
format = "json"
max_groups_contributed = "unlimited"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with a project, whose settings file names everything, and nothing set."""
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    with duckdb.connect(str(project / "data" / "world.duckdb")) as writer:
        writer.execute(
            "CREATE TABLE visits AS SELECT range AS uid, ['red', 'blue'][1 + range % 2] AS color "
            "FROM range(500)"
        )
    (project / "data" / "policies.yaml").write_text(POLICY)
    (project / "dpsql.toml").write_text(FILE)
    for setting in settings():
        monkeypatch.delenv(str(setting.envvar), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(project)
    return project


def settings() -> list[SettingOption]:
    return [option for option in config_command.params if isinstance(option, SettingOption)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def shown(*arguments: str) -> dict[str, tuple[str, str]]:
    """What ``dpsql config`` says: value and source of each setting."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    lines = [
        re.split(r"\s{2,}", line.strip()) for line in result.stdout.splitlines()[2:] if line.strip()
    ]
    known = {setting.key for setting in settings()}
    found: dict[str, tuple[str, str]] = {}
    for key, *rest in lines:
        assert key in known
        found[key] = ("", rest[0]) if len(rest) == 1 else (rest[0], rest[1])
    return found


def plan(*arguments: str) -> dict[str, object]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    loaded: dict[str, object] = json.loads(result.stdout)
    return loaded


# -- what is a setting ------------------------------------------------------------------------


def test_every_setting_has_a_variable_named_after_it() -> None:
    expected = {"database", "policies", "ledger", "analyst", "session", "format", "confidence"}
    expected |= {
        "complete",
        "token_file",
        "ca_file",
        "users",
        "listen",
        "http",
        "certificate",
        "certificate_key",
        "audit",
        "grace",
        "response_grid",
        "oidc_issuer",
        "oidc_audience",
        "oidc_client_id",
        "oidc_user_claim",
    }
    assert {s.key for s in settings()} == {*expected, *PARAMETER_NAMES, "mechanism"}
    assert all(s.envvar == f"DPSQL_{s.key.upper()}" for s in settings())


def test_an_option_with_the_name_of_a_setting_is_that_setting() -> None:
    """Otherwise a file would set it in one command and not in another."""
    known = {setting.key for setting in settings()}
    for entry in entries():
        if entry.name in ("calibrate", "demo", "init"):  # theirs mean something else
            continue
        for option in entry.load().params:
            if isinstance(option, click.Option) and str(option.name).removesuffix("_") in known:
                assert isinstance(option, SettingOption), (entry.name, option.name)


# -- where settings come from -----------------------------------------------------------------


def test_a_query_needs_nothing_but_its_text_where_a_file_has_the_rest(project: Path) -> None:
    result = run("query", QUERY)
    assert result.exit_code == 0, result.output
    assert "paid ε" in result.stdout
    assert (project / "data" / "budget.db").exists()


@pytest.mark.slow
def test_the_nearest_source_wins(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reserved(*arguments: str) -> float:
        found = plan(*arguments)["reserved_epsilon"]
        assert isinstance(found, float)
        return found

    asked = ("explain", QUERY, "--format", "json")
    assert reserved(*asked) == pytest.approx(0.25)
    assert reserved("--profile", "careful", *asked) == pytest.approx(0.125)
    monkeypatch.setenv("DPSQL_EPSILON", "0.75")
    assert reserved("--profile", "careful", *asked) == pytest.approx(0.75)
    assert reserved(*asked, "--epsilon", "1.5") == pytest.approx(1.5)
    monkeypatch.delenv("DPSQL_EPSILON")
    (project / "dpsql.toml").write_text(FILE.replace("epsilon = 0.25\n", ""))
    assert reserved(*asked) == pytest.approx(0.5)


@pytest.mark.slow
def test_of_epsilon_and_max_error_the_nearer_one_holds(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def epsilon(*arguments: str) -> object:
        blocks = plan("explain", QUERY, "--format", "json", *arguments)["blocks"]
        assert isinstance(blocks, list)
        return blocks[0]["epsilon"]

    assert epsilon() == 0.25  # the file's
    wanted = epsilon("--max-error", "30")
    assert wanted != 0.25
    monkeypatch.setenv("DPSQL_MAX_ERROR", "30")
    assert epsilon() == wanted
    assert epsilon("--epsilon", "2") == 2.0
    both = run("explain", QUERY, "--epsilon", "2", "--max-error", "30")
    assert both.exit_code != 0
    assert "epsilon_and_max_error" in both.output


def test_config_shows_each_setting_and_where_it_comes_from(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_ANALYST", "bo")
    found = shown("--profile", "careful", "config", "--delta", "1e-9")
    file = str(project / "dpsql.toml")
    assert found["delta"] == ("1e-09", "--delta")
    assert found["analyst"] == ("bo", "DPSQL_ANALYST")
    assert found["epsilon"] == ("0.125", f"{file} [profile.careful]")
    assert found["ledger"] == (str(project / "data" / "budget.db"), f"{file} [dpsql]")
    assert found["confidence"] == ("0.95", "default")
    assert found["session"] == found["mechanism"] == ("", "not set")
    assert found["k_bar"] == ("", "policies file")
    assert set(found) == {setting.key for setting in settings()}


PATHS = (
    "token_file",
    "ca_file",
    "database",
    "policies",
    "users",
    "certificate",
    "certificate_key",
    "audit",
)


def test_every_setting_of_a_file_reaches_click(project: Path) -> None:
    values = {
        "database": "world.duckdb",
        "policies": "p.yaml",
        "ledger": "postgresql://ledger/budget",
        "analyst": "bo",
        "session": "monday",
        "format": "csv",
        "confidence": 0.5,
        "token_file": "token",
        "ca_file": "authority.pem",
        "users": "people.db",
        "listen": "127.0.0.1:1",
        "http": "127.0.0.1:2",
        "certificate": "chain.pem",
        "certificate_key": "key.pem",
        "audit": "written.jsonl",
        "grace": 7.0,
        "response_grid": 0.5,
        "oidc_issuer": "https://login.example.org",
        "oidc_audience": "dpsql",
        "oidc_client_id": "notebooks",
        "oidc_user_claim": "email",
        "complete": "typing",
        "epsilon": 1,
        "delta": 1e-9,
        "max_groups_contributed": 7,
        "max_rows_contributed": 6,
        "k_bar": 5,
        "min_units_per_group": 4,
        "contribution_bounding": "weight",
        "max_error": 12.5,
        "left_out_share": 0.1,
        "combine": "all",
        "answer_from": "released",
        "max_age": "3 days",
        "mechanism": "gumbel_top_k",
    }
    assert set(values) == {setting.key for setting in settings()}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    (project / "all.toml").write_text("\n".join(["[dpsql]", *lines]))
    found = shown("--config", "all.toml", "config")
    for key, value in values.items():
        text = str(project / str(value)) if key in PATHS else value
        expected = str(float(1)) if key == "epsilon" else str(text)
        assert found[key] == (expected, "all.toml [dpsql]"), key


def test_paths_are_relative_to_the_file_and_urls_are_left_alone(project: Path) -> None:
    (project / "far" / "off").mkdir(parents=True)
    file = project / "far" / "off" / "x.toml"
    file.write_text(
        '[dpsql]\ndatabase = "../../data/world.duckdb"\nledger = "postgresql://host/budget"\n'
        'policies = "~/p.yaml"\n'
    )
    found = load_settings(file, None).values
    assert Path(found["database"]).resolve() == (project / "data" / "world.duckdb").resolve()
    assert found["ledger"] == "postgresql://host/budget"
    assert found["policies"] == str(Path.home() / "p.yaml")


def test_the_file_is_looked_for_upwards_to_the_home_directory_and_no_further(
    tmp_path: Path,
) -> None:
    home, deep = tmp_path / "home", tmp_path / "home" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "dpsql.toml").touch()
    assert nearest_settings_file(deep, home) is None
    (home / "dpsql.toml").touch()
    assert nearest_settings_file(deep, home) == home / "dpsql.toml"
    (home / "a" / "dpsql.toml").touch()
    assert nearest_settings_file(deep, home) == home / "a" / "dpsql.toml"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert nearest_settings_file(elsewhere, home) is None
    assert nearest_settings_file(tmp_path, home) == tmp_path / "dpsql.toml"


def test_without_a_home_or_a_directory_there_is_no_file_and_no_error(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert shown("config")["analyst"][0] == "ana"
    gone = project / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert shown("config")["analyst"] == ("", "not set")


def test_the_file_and_the_profile_can_be_named_in_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "dpsql.toml").rename(project / "other.toml")
    assert shown("config")["analyst"] == ("", "not set")
    monkeypatch.setenv("DPSQL_CONFIG", "other.toml")
    monkeypatch.setenv("DPSQL_PROFILE", "careful")
    assert shown("config")["epsilon"] == ("0.125", "other.toml [profile.careful]")


@pytest.mark.slow
def test_a_format_that_a_command_does_not_know_is_passed_over_unless_asked_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_FORMAT", "csv")
    assert run("query", QUERY).stdout.startswith("color,n\n")
    assert run("explain", QUERY).stdout.startswith("Reserves")
    assert run("explain", QUERY, "--format", "csv").exit_code == 2
    monkeypatch.setenv("DPSQL_FORMAT", "cvs")
    assert run("explain", QUERY).exit_code == 2


def test_the_demo_and_the_calculator_take_nothing_from_the_file(project: Path) -> None:
    """The demo must not be charged to a real ledger, nor a calculation depend on where it runs."""
    first = run("calibrate", "rho", "--epsilon", "1", "--delta", "1e-6")
    assert first.exit_code == 0
    demo = next(entry.load() for entry in entries() if entry.name == "demo")
    assert not any(isinstance(option, SettingOption) for option in demo.params)


# -- what is wrong with a file ----------------------------------------------------------------

BAD = {
    "unknown key": ('[dpsql]\nanalyst = "a"\nanalist = "b"\n', "unknown key analist", 3),
    "unknown key, far away": ("[dpsql]\nzzz = 1\n", "unknown key zzz", 2),
    "key without a table": ('analyst = "a"\n', "analyst is in no table", 1),
    "unknown table": ("[dpsql]\n\n[profiles.a]\n", "unknown table [profiles]", 1),
    "number for text": ("[dpsql]\n\nanalyst = 7\n", "analyst must be text, but is 7", 3),
    "text for a number": ('[dpsql]\nepsilon = "1"\n', 'epsilon must be a number, but is "1"', 2),
    "truth for a number": ("[dpsql]\nepsilon = true\n", "epsilon must be a number, but is true", 2),
    "fraction for a count": ("[dpsql]\nk_bar = 1.5\n", "k_bar must be a whole number", 2),
    "list": ("[dpsql]\nanalyst = []\n", "analyst must be text, but is a list", 2),
    "table": ("[dpsql]\nanalyst = {}\n", "analyst must be text, but is a table", 2),
    "date": ("[dpsql]\nanalyst = 2024-01-01\n", "must be text, but is a date", 2),
    "groups": ('[dpsql]\nmax_groups_contributed = "all"\n', '"unlimited" or "auto", but is', 2),
    "format": ('[dpsql]\nformat = "xml"\n', f"one of {', '.join(FORMATS)}", 2),
    "in a profile not asked for": ("[dpsql]\n[profile.a]\nnope = 1\n", "unknown key nope", 3),
    "same key elsewhere": (
        '[dpsql]\nanalyst = "a"\n[profile.b]\nanalyst = 1\n',
        "analyst must be text, but is 1",
        4,
    ),
    "profile is no table": ("profile = {a = 1}\n", "profile.a must be a table", 1),
    "not TOML": ("[dpsql]\nanalyst = ana\n", "not valid TOML: invalid value", 2),
    "cut off": ("[dpsql]\nanalyst = ", "not valid TOML: invalid value", 2),
    "twice": ('[dpsql]\nanalyst = "a"\nanalyst = "b"\n', "not valid TOML: cannot overwrite", 3),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_with_a_mistake_is_refused_with_file_key_and_line(name: str, project: Path) -> None:
    text, message, line = BAD[name]
    (project / "dpsql.toml").write_text(text)
    result = run("query", QUERY)
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert message in told
    assert f"{project / 'dpsql.toml'}, line {line}, column" in told
    assert not (project / "data" / "budget.db").exists()


SECRET = "postgresql://ana:hunter2@host/budget"


@pytest.mark.parametrize(
    "text",
    [
        f'[dpsql]\nlegder = "{SECRET}"\n',
        f'[dpsql]\nlegder = {{url = "{SECRET}"}}\n',
        f'[dpsql]\nledger = ["{SECRET}"]\n',
        f'[dpsql]\nledger = "{SECRET}\n',
        f"[dpsql]\nledger = {SECRET}\n",
        f"[dpsql]\nledger = '''\n{SECRET}\n''' x\n",
        f'[dpsql]\nledger "{SECRET}"\n',
        f'[dpsql]\n"{SECRET}"\n',
        f'[dpsql] "{SECRET}"\n',
        f'[dpsql]\nledger = "x" # {SECRET}\nledger = "{SECRET}"\n',
        f'ledger = "{SECRET}"\n',
        f'profile = {{work = "{SECRET}"}}\n',
        f'[profile]\nwork = "{SECRET}"\n',
        f'[profile.work]\npassword = "{SECRET}"\n',
    ],
    ids=range(14),
)
def test_a_mistake_beside_a_password_does_not_show_it(text: str, project: Path) -> None:
    (project / "dpsql.toml").write_text(text)
    for command in (("config",), ("query", QUERY)):
        result = run(*command)
        assert result.exit_code == 2
        assert "hunter2" not in result.output + result.stderr


def test_a_likely_key_is_suggested(project: Path) -> None:
    (project / "dpsql.toml").write_text('[dpsql]\nanalist = "b"\n')
    assert "Did you mean `analyst`?" in run("config").stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--profile", "careless"), "there is no profile careless|Did you mean `careful`?"),
        (("--config", "none.toml"), "none.toml cannot be read: no such file"),
        (("--config", "data"), "data cannot be read: is a directory"),
        (("--config", "latin.toml"), "latin.toml is not UTF-8 text"),
    ],
)
def test_files_and_profiles_that_are_not_there_are_named(
    arguments: tuple[str, ...], words: str, project: Path
) -> None:
    (project / "latin.toml").write_bytes(b'[dpsql]\nanalyst = "\xe9"')
    result = run(*arguments, "config")
    assert result.exit_code == 2
    for word in words.split("|"):
        assert word in " ".join(result.stderr.split())


def test_a_profile_needs_a_file(project: Path) -> None:
    (project / "dpsql.toml").unlink()
    result = run("--profile", "careful", "config")
    assert result.exit_code == 2
    assert "there is no dpsql.toml" in result.stderr


def test_help_works_even_beside_a_broken_file(project: Path) -> None:
    (project / "dpsql.toml").write_text("nonsense")
    assert run("--help").exit_code == 0
    assert run("--version").exit_code == 0


def test_a_directory_without_a_file_has_no_settings(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").touch()
    empty = load_settings(tmp_path / "empty.toml", None)
    assert (empty.values, empty.tables) == (FileSettings().values, FileSettings().tables)
    with pytest.raises(InterfaceError, match="no profile x"):
        load_settings(tmp_path / "empty.toml", "x")
