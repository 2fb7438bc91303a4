"""What an answer warns of reaches its readers, whichever way they read it."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

import dpsql
from dpsql.interfaces.cli import cli
from dpsql.results.caveats import CaveatKind

POLICY = """\
version: 1
dataset: clinic
defaults: {epsilon: 20, delta: 1e-6, max_rows_contributed: 5, max_groups_contributed: 2}
accounts:
  ana: {epsilon: 1000, delta: 1e-3}
tables:
  visits:
    privacy_unit: {name: patient, column: uid}
    columns:
      k: {domain: [a, b]}
"""
HEAVY = "SELECT k, COUNT(*) AS n FROM visits GROUP BY k"
"""Of 400 units each has 75 rows in a group, of which 5 count: 93% are left out."""
UNITS = "SELECT COUNT(DISTINCT uid) AS n FROM visits"
LEFT_OUT, BEWARE = "of the rows were left out by", "Beware: in 2 of 2 values"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("clinic")
    with duckdb.connect(str(place / "clinic.duckdb")) as writer:
        writer.execute(
            "CREATE TABLE visits AS SELECT i % 400 AS uid, ['a', 'b'][1 + i // 400 % 2] AS k, "
            "'d' || i % 5 AS doctor FROM range(60000) r(i)"
        )
    (place / "policies.yaml").write_text(POLICY)
    return place


@pytest.fixture
def con(clinic: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(*_paths(clinic), "ana") as opened:
        yield opened


def _paths(clinic: Path) -> tuple[Path, Path, Path]:
    return clinic / "clinic.duckdb", clinic / "policies.yaml", clinic / "budget.db"


def kinds(result: dpsql.Result) -> list[tuple[str, bool]]:
    return [(caveat.kind.value, caveat.strong) for caveat in result.warnings]


# -- which warnings an answer has -----------------------------------------------------------------


@pytest.mark.slow
def test_an_answer_that_says_it_all_warns_of_nothing(con: dpsql.Connection) -> None:
    result = con.sql(UNITS)
    assert result.warnings == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cursor = con.cursor().execute(UNITS)
        result.df()
    assert cursor.messages == []
    assert result.df().attrs["dpsql_warnings"] == []


@pytest.mark.slow
def test_much_that_is_left_out_is_warned_of(con: dpsql.Connection) -> None:
    result = con.sql(HEAVY)
    assert kinds(result) == [("left_out", True)]
    (caveat,) = result.warnings
    assert LEFT_OUT in caveat.text
    assert BEWARE in caveat.text
    assert caveat.text in result.summary()
    assert pickle.loads(pickle.dumps(result)).warnings == result.warnings


def test_noise_alone_is_warned_of(con: dpsql.Connection) -> None:
    result = con.sql("SELECT COUNT(DISTINCT uid) AS n FROM visits WHERE doctor = ''", epsilon=0.1)
    while result.warnings == ():  # noise beyond its 95% margin
        result = con.sql(result.plan.query, epsilon=0.1, fresh=True, combine="off")
    assert kinds(result) == [("drowned", True)]
    assert result.warnings[0].text.startswith("No value of")


def test_noise_in_half_of_the_values_is_no_python_warning(con: dpsql.Connection) -> None:
    asked = "SELECT k, COUNT(DISTINCT CASE WHEN k = 'b' THEN uid END) AS n FROM visits GROUP BY k"
    result = con.sql(asked)
    while not result.warnings:
        result = con.sql(asked, fresh=True, combine="off")
    assert kinds(result) == [("drowned", False)]
    assert "Beware: 1 of 2 values of n are no larger than their noise." in result.summary()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.df()


@pytest.mark.slow
def test_an_empty_answer_is_warned_of(con: dpsql.Connection) -> None:
    none = "SELECT doctor, COUNT(*) AS n FROM visits WHERE uid = 7 GROUP BY doctor"
    result = con.sql(none, delta=1e-9)
    assert kinds(result) == [("empty", True)]
    assert "No group was large enough to appear" in result.summary()
    chosen = con.sql(f"SELECT * FROM ({HEAVY}) WHERE n < -1000000")
    assert kinds(chosen)[0] == ("empty", True)
    assert "The answer is empty: nothing that came out fits the query." in chosen.summary()


@pytest.mark.slow
def test_groups_missing_from_a_total_are_warned_of(con: dpsql.Connection) -> None:
    asked = "SELECT doctor, COUNT(DISTINCT uid) AS n FROM visits GROUP BY doctor"
    total = con.sql(f"SELECT SUM(n) AS n FROM ({asked})")
    assert ("groups_missing", True) in kinds(total)
    assert CaveatKind.GROUPS_MISSING not in [caveat.kind for caveat in con.sql(asked).warnings]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("excluding", "warned"),
    [
        ("SELECT doctor FROM visits EXCEPT SELECT doctor FROM visits WHERE uid < 3", True),
        ("SELECT doctor FROM visits INTERSECT SELECT doctor FROM visits WHERE uid < 3", False),
        ("SELECT doctor FROM visits EXCEPT SELECT 'nobody'", False),
        ("WITH few AS ({few}) SELECT doctor FROM ({all}) WHERE doctor NOT IN (FROM few)", True),
        ("SELECT doctor FROM ({all}) WHERE doctor IN ({few})", False),
        ("SELECT doctor FROM ({all}) a WHERE NOT EXISTS (SELECT 1 FROM ({few}) f)", True),
        ("SELECT doctor FROM ({all}) ANTI JOIN ({few}) USING (doctor)", True),
        ("SELECT doctor FROM ({all}) SEMI JOIN ({few}) USING (doctor)", False),
    ],
)
def test_groups_that_are_not_excluded_as_they_are_small_are_warned_of(
    con: dpsql.Connection, excluding: str, warned: bool
) -> None:
    """What EXCEPT takes away is what came out: the rest may hold values of both sides."""
    every = "SELECT DISTINCT doctor FROM visits"
    sql = excluding.replace("{all}", every).replace("{few}", f"{every} WHERE uid < 3")
    assert (("groups_missing", True) in kinds(con.sql(sql))) is warned


# -- how they reach readers -----------------------------------------------------------------------


def test_cursors_warn_once_and_keep_messages(con: dpsql.Connection) -> None:
    cursor = con.cursor()
    with pytest.warns(dpsql.AnswerWarning, match=LEFT_OUT) as caught:
        cursor.execute(HEAVY)
    assert [each.filename for each in caught] == [__file__]
    ((category, value),) = cursor.messages
    assert category is dpsql.AnswerWarning
    assert isinstance(value, category)
    assert BEWARE in str(value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cursor.df()
        cursor.execute(UNITS)
    assert cursor.messages == []


def test_a_warning_that_is_made_an_error_leaves_the_answer(con: dpsql.Connection) -> None:
    cursor = con.cursor()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(dpsql.AnswerWarning):
            cursor.execute(HEAVY)
    assert len(cursor.fetchall()) == 2
    assert cursor.description is not None


@pytest.mark.slow
def test_frames_warn_once_and_have_attributes(con: dpsql.Connection) -> None:
    result = con.sql(HEAVY)
    with pytest.warns(dpsql.AnswerWarning, match=BEWARE) as caught:
        frame = result.df()
    assert [each.filename for each in caught] == [__file__]
    (told,) = frame.attrs["dpsql_warnings"]
    assert (told["kind"], told["strong"]) == ("left_out", True)
    json.dumps(frame.attrs)  # as Parquet files keep them
    shown = con.sql(HEAVY)
    repr(shown)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.pl()
        shown.df()  # its sentences were read
    for read in (dpsql.Result.pl, dpsql.Result.arrow, pl.DataFrame):
        with pytest.warns(dpsql.AnswerWarning, match=BEWARE):
            read(con.sql(HEAVY))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy")
def test_tools_that_read_through_cursors_warn(clinic: Path, con: dpsql.Connection) -> None:
    database, policies, ledger = _paths(clinic)
    url = f"dpsql:///{database}?policies={policies}&ledger={ledger}&analyst=ana"
    engine = sa.create_engine(url)
    with engine.connect() as opened:
        for read in (
            lambda: pd.read_sql(HEAVY, con),
            lambda: pl.read_database(HEAVY, con),
            lambda: pd.read_sql(sa.text(HEAVY), opened),
            lambda: opened.execute(sa.text(HEAVY)).all(),
        ):
            with pytest.warns(dpsql.AnswerWarning, match=BEWARE):
                assert len(read()) == 2
    engine.dispose()


def test_plots_and_notebooks_show_them(con: dpsql.Connection) -> None:
    result = con.sql(HEAVY)
    assert BEWARE in result._repr_html_()
    assert BEWARE in result.plot().get_title("left").replace("\n", " ")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["csv", "jsonl", "json", "markdown", "table"])
def test_every_format_of_the_command_line_tells_them(clinic: Path, how: str) -> None:
    database, policies, ledger = map(str, _paths(clinic))
    command = ["query", "-d", database, "-p", policies, "-l", ledger, "-a", "ana", "-f", how, HEAVY]
    told = CliRunner().invoke(cli, command)
    assert told.exit_code == 0, told.output
    inside = how not in ("csv", "jsonl")
    flat = " ".join((told.stdout if inside else told.stderr).split())
    assert BEWARE in flat
    assert (BEWARE in " ".join(told.stdout.split())) is inside
    if how == "json":
        assert json.loads(told.stdout)["warnings"][0]["kind"] == "left_out"
    if how == "csv":
        assert len(told.stdout.splitlines()) == 3
    if how == "markdown":
        assert told.stdout.splitlines()[4:5] == [""]
        assert told.stdout.splitlines()[5].startswith("> ")
    beside = CliRunner().invoke(cli, [*command, "--intervals"])
    assert BEWARE in " ".join(beside.output.split())


def test_the_shell_tells_them_beside_csv(clinic: Path) -> None:
    database, policies, ledger = map(str, _paths(clinic))
    told = CliRunner().invoke(
        cli,
        ["shell", "-d", database, "-p", policies, "-l", ledger, "-a", "ana"],
        input=f"\\format csv\n{HEAVY};\n",
    )
    assert BEWARE in " ".join(told.stderr.split()), told.output
    assert BEWARE not in told.stdout
