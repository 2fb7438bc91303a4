"""Materialized views for people and programs: dpsql refresh, the shell, cursors, SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

import dpsql
from dpsql.core.schema import fold
from dpsql.interfaces import cli
from dpsql.interfaces.shell.candidates import Known, Nameable
from dpsql.interfaces.shell.completion import candidates
from dpsql.interfaces.shell.splitter import pieces

POLICIES = """\
version: 1
dataset: music
defaults: {epsilon: 1.0, delta: 1e-6, max_groups_contributed: 3}
accounts:
  ana: {epsilon: 20, delta: 1e-3}
  bo: {epsilon: 20, delta: 1e-3}
views: {shared: [bo]}
tables:
  plays:
    privacy_unit: {name: person, column: uid}
    time: {column: played_at}
"""
CREATE = """CREATE MATERIALIZED VIEW {name}
WITH (step = '{step}', start = '2024-01-01', steps = {steps}) AS
SELECT song, COUNT(DISTINCT uid) AS listeners FROM plays GROUP BY song"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with four songs that 3,000 people heard in ten days of January 2024."""
    with duckdb.connect(str(tmp_path / "music.duckdb")) as writer:
        writer.execute(
            """CREATE TABLE plays AS SELECT range % 3000 AS uid, 's' || range % 4 AS song,
            TIMESTAMP '2024-01-01' + to_seconds(range * 40) AS played_at
            FROM range(21600)"""
        )
    (tmp_path / "policies.yaml").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    for name, value in (("DATABASE", "music.duckdb"), ("LEDGER", "b.db"), ("ANALYST", "ana")):
        monkeypatch.setenv(f"DPSQL_{name}", value)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.cli, arguments)


def create(name: str, steps: int = 10, analyst: str = "ana", step: str = "1 day") -> None:
    done = run("query", "-q", "-a", analyst, CREATE.format(name=name, steps=steps, step=step))
    assert done.exit_code == 0, done.output


def spent(analyst: str = "ana") -> float:
    with dpsql.connect("music.duckdb", "policies.yaml", "b.db", analyst) as connection:
        return connection.budget().rho_spent


# -- dpsql refresh --------------------------------------------------------------------------------


@pytest.mark.slow
def test_refresh_publishes_what_has_closed_and_tells_of_each_view(world: Path) -> None:
    create("songs")
    before = spent()
    first = run("refresh", "songs", "--until", "2024-01-04")
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout.startswith("songs: 3 steps published, ")
    assert first.stdout.endswith(" rows; 7 left\n")
    assert "songs: 7 steps published" in run("refresh", "songs").stdout
    assert spent() == before > 0


@pytest.mark.slow
def test_all_refreshes_own_views_and_nothing_to_publish_is_no_failure(world: Path) -> None:
    create("songs")
    create("long", steps=400, step="1 year")
    create("theirs", analyst="bo")
    done = run("refresh", "--all")
    assert done.exit_code == 0
    assert {line.partition(":")[0] for line in done.stdout.splitlines()} == {"songs", "long"}
    again = run("refresh", "--all")
    assert again.exit_code == 0
    assert "songs: all of its steps are used\n" in again.stdout
    assert "long: nothing to publish yet. Step " in again.stdout
    quiet = run("refresh", "--all", "--quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")


@pytest.mark.slow
def test_a_view_that_fails_stops_no_other_one_and_decides_the_exit_code(world: Path) -> None:
    create("broken")
    (state,) = (world / "music.views").iterdir()
    create("songs")
    (file,) = state.iterdir()
    file.write_bytes(b"no database")
    done = run("refresh", "--all")
    assert done.exit_code == 2
    assert "broken: failed, " in done.stdout
    assert "songs: 10 steps published" in done.stdout
    assert "state" in done.stderr


@pytest.mark.slow
def test_a_named_view_that_has_nothing_to_publish_or_is_not_there_is_a_failure(
    world: Path,
) -> None:
    create("songs")
    assert run("refresh", "songs", "-q").exit_code == 0
    full = run("refresh", "songs")
    assert full.exit_code == 2
    assert "is full" in full.stderr
    assert run("refresh", "nowhere").exit_code == 2
    assert run("refresh", "songs", "--until", "tomorrow").exit_code == 2


@pytest.mark.parametrize("arguments", [(), ("songs", "--all")])
def test_refresh_takes_names_or_all(world: Path, arguments: tuple[str, ...]) -> None:
    done = run("refresh", *arguments)
    assert done.exit_code == 2
    assert "name the views to be refreshed, or give --all" in done.stderr


@pytest.mark.slow
def test_views_of_a_quoted_name_are_refreshed(world: Path) -> None:
    create('"my ""songs"""')
    assert run("refresh", "--all").stdout.startswith('my "songs": 10 steps published')


# -- the shell ------------------------------------------------------------------------------------

KNOWN = Known(
    Nameable({"plays": ("uid", "song")}, {}).with_views({"Songs": ("step", "as_of", "listeners")})
)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("cre", "CREATE MATERIALIZED VIEW"),
        ("REF", "REFRESH MATERIALIZED VIEW"),
        ("refresh ", "MATERIALIZED VIEW"),
        ("refresh materialized ", "VIEW"),
        ("refresh materialized view ", "Songs"),
        ("drop materialized view so", "Songs"),
        ("refresh materialized view songs ", "UNTIL"),
        ("refresh materialized view songs until ", "TIMESTAMP"),
        ("create materialized view v ", "WITH ("),
        ("create materialized view v with (", "step = "),
        ("create materialized view v with (step = '1 day', ep", "epsilon = "),
        ("create materialized view v with (step = '1 day') ", "AS SELECT"),
        ("create materialized view v with (step = '1 day') as select so", "song"),
        ("create materialized view v as select song from pl", "plays"),
        ("show mat", "MATERIALIZED VIEWS"),
        ("select * from so", "Songs"),
        ("select step, lis", "listeners"),
        ("\\\\d So", "Songs"),
    ],
)
def test_what_may_come_next_in_statements_about_views(before: str, expected: str) -> None:
    from dpsql.interfaces.shell.script import BY_NAME

    commands = {f"\\{name}": command.takes for name, command in BY_NAME.items()}
    known = Known(KNOWN.catalog, commands)
    found = [each.text for each in candidates(before.replace("\\\\", "\\"), "", known)]
    assert fold(expected) in map(fold, found)


def test_no_view_is_offered_twice_or_after_it_was_dropped() -> None:
    catalog = KNOWN.catalog.with_views({"other": ("step",)})
    assert list(catalog.tables) == ["other", "plays"]
    assert catalog.views == ("other",)


def test_the_query_of_a_view_belongs_to_its_statement() -> None:
    text = f"{CREATE.format(name='v', steps=3, step='1 day')};\nREFRESH MATERIALIZED VIEW v;"
    found = [piece.text for piece in pieces(text.splitlines(keepends=True))]
    assert found == [CREATE.format(name="v", steps=3, step="1 day"), "REFRESH MATERIALIZED VIEW v"]


@pytest.mark.slow
def test_the_shell_makes_refreshes_shows_and_drops_a_view(world: Path) -> None:
    create("songs")
    script = (
        "refresh materialized view songs;\n"
        "\\dm\n\\d songs\n\\h views\n"
        "select count(*) as rows_of_songs from songs;\n"
        "drop materialized view songs;\n"
    )
    done = CliRunner().invoke(cli.cli, ["shell"], input=script)
    assert done.exit_code == 0, done.output
    for word in ("published", "as_of", "released", "listeners", "noisy", "rows_of_songs"):
        assert word in done.output
    assert "paid for once" in done.output


# -- DB-API and SQLAlchemy ------------------------------------------------------------------------


@pytest.fixture
def connection(world: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect("music.duckdb", "policies.yaml", "b.db", "ana") as opened:
        yield opened


@pytest.mark.slow
def test_a_cursor_runs_statements_about_views_and_describes_what_they_list(
    connection: dpsql.Connection,
) -> None:
    cursor = connection.cursor()
    cursor.execute(CREATE.format(name="songs", steps=10, step="1 day"))
    names = ["name", "step", "steps", "published", "last", "shared", "found", "query"]
    assert [column[0] for column in cursor.description or ()] == names
    cursor.execute("REFRESH MATERIALIZED VIEW songs UNTIL '2024-01-03'")
    assert [column[:2] for column in cursor.description or ()] == [
        ("view", "VARCHAR"),
        ("published", "BIGINT"),
        ("rows", "BIGINT"),
        ("remaining", "BIGINT"),
    ]
    row = cursor.fetchone()
    assert row is not None
    assert (row[0], row[1], row[3]) == ("songs", 2, 8)
    assert cursor.cost is not None
    assert cursor.cost.settled_epsilon == 0
    cursor.execute("SELECT DISTINCT step FROM songs ORDER BY step")
    assert cursor.fetchall() == [(1,), (2,)]
    cursor.execute("DROP MATERIALIZED VIEW songs")
    assert cursor.fetchall() == []
    with pytest.raises(dpsql.UnknownName):
        cursor.execute("REFRESH MATERIALIZED VIEW songs")


@pytest.mark.slow
def test_sqlalchemy_lists_and_reflects_views(world: Path) -> None:
    create("songs")
    engine = sa.create_engine(
        "dpsql:///music.duckdb?policies=policies.yaml&ledger=b.db&analyst=ana"
    )
    with engine.connect() as connection:
        connection.execute(sa.text("REFRESH MATERIALIZED VIEW songs"))
        found = sa.inspect(connection)
        assert found.get_table_names() == ["plays"]
        assert found.get_materialized_view_names() == ["songs"]
        assert found.get_view_names() == []
        assert found.has_table("SONGS")
        kinds = {column["name"]: type(column["type"]) for column in found.get_columns("songs")}
        assert kinds == {
            "step": sa.BigInteger,
            "as_of": sa.DateTime,
            "song": sa.String,
            "listeners": sa.BigInteger,
        }
        assert found.get_table_comment("songs") == {"text": "materialized view, 10 of 10 steps"}
        songs = sa.Table("songs", sa.MetaData(), autoload_with=connection)
        asked = sa.select(sa.func.max(songs.c.step))
        assert connection.execute(asked).scalar() == 10
    engine.dispose()
