"""The trace shows every stage of a statement, and neither rows nor values of query parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.support import connect

import dpsql
from dpsql.pipeline import trace as trace_module
from dpsql.policy.parameters import Parameters

SECRET = "zqsecret"
NUMBER = 4711
QUESTION = "SELECT k, sum(n) AS n FROM visits WHERE s = 's1' GROUP BY k ORDER BY n DESC LIMIT 2"
Traced = Callable[..., str]


@pytest.fixture
def traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Traced]:
    """What is traced of a statement, on stderr."""
    monkeypatch.setenv("DPSQL_TRACE", "1")
    with connect(tmp_path) as opened:

        def written(sql: str, values: Any = ()) -> str:
            opened.sql(sql, values)
            return capsys.readouterr().err

        yield written


def stages(text: str) -> list[str]:
    return re.findall(r"^dpsql trace \d+: (.*)$", text, re.MULTILINE)


def part(text: str, stage: str) -> str:
    """The lines of one stage."""
    found = re.search(rf"^dpsql trace \d+: {stage}\n((?:  .*\n)*)", text, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.slow
def test_each_stage_is_shown_under_its_name(traced: Traced) -> None:
    text = traced(QUESTION)
    assert stages(text) == ["tree", "block 1", "plan 1", "sql 1", "tail"]
    assert "this=Identifier(this=visits" in part(text, "tree")
    block = part(text, "block 1").split("\n")
    for line in ('  rows: "visits"', "  where: \"s\" = 's1'", '  key: "k"', '  measure: sum "n"'):
        assert line in block
    assert "mechanism: gaussian_positive_counts" in part(text, "plan 1")
    assert 'FROM "visits"' in part(text, "sql 1")
    assert "LIMIT 2" in part(text, "tail")
    assert len(set(re.findall(r"^dpsql trace (\d+):", text, re.MULTILINE))) == 1


@pytest.mark.slow
def test_a_statement_of_an_ordinary_policy_is_traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One by which what bounding leaves out is estimated, too, with counts of units and of rows."""
    monkeypatch.setenv("DPSQL_TRACE", "1")
    ordinary = Parameters(epsilon=5.0, delta=1e-6, max_groups_contributed=2)
    with connect(tmp_path, defaults=ordinary) as opened:
        opened.sql(
            "SELECT k, COUNT(*), COUNT(DISTINCT uid), AVG(n), MEDIAN(x) FROM visits GROUP BY k"
        )
    text = capsys.readouterr().err
    once = ["tree", "block 1", "plan 1", "sql 1", "tail"]
    assert stages(text) == [*once, *once, *once]  # the usual number of rows, the most, the found
    found = re.findall(r"^  aggregate: (\w+)$", part(text, "block 1"), re.MULTILINE)
    assert len(found) == 4
    assert "count_units" in found


@pytest.mark.slow
def test_every_private_block_and_no_other_has_its_stages(traced: Traced) -> None:
    both = traced("SELECT (SELECT count(*) FROM visits) - (SELECT count(*) FROM mails) AS gap")
    assert stages(both)[1:] == ["block 1", "block 2", "plan 1", "plan 2", "sql 1", "sql 2", "tail"]
    assert stages(traced("SELECT name FROM shops")) == ["tree", "tail"]
    assert stages(traced("SHOW TABLES")) == []


@pytest.mark.slow
def test_a_statement_that_is_remembered_shows_what_runs(traced: Traced) -> None:
    first = traced(QUESTION)
    again = traced(QUESTION)
    assert stages(again) == ["sql 1", "tail"]
    assert part(again, "sql 1") == part(first, "sql 1")  # the salt of a read is not shown
    assert part(again, "tail") == part(first, "tail")


def test_a_refused_statement_shows_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPSQL_TRACE", "1")
    with connect(tmp_path) as opened:
        with pytest.raises(dpsql.QueryRefused):
            opened.sql("SELECT * FROM visits")
        assert stages(capsys.readouterr().err) == ["tree"]
        with pytest.raises(dpsql.ParameterError):
            opened.sql("SELECT k, count(*) FROM visits GROUP BY k", mechanism="none of these")
        assert stages(capsys.readouterr().err)[:2] == ["tree", "block 1"]


HIDDEN: list[tuple[str, Any]] = [
    ("SELECT count(*) FROM visits WHERE s = ?", [SECRET]),
    ("SELECT count(*) FROM visits WHERE s = ?", [f"it's a '{SECRET}'"]),
    ("SELECT count(*) FROM visits WHERE s = ?", [f"a\n' {SECRET} \n'"]),
    ("SELECT count(*) FROM visits WHERE s = ? AND s <> ?", [f'"{SECRET}', f"'{SECRET}"]),
    ("SELECT count(*) FROM visits WHERE s IN ($a, $b)", {"a": SECRET, "b": f"{NUMBER}"}),
    ("SELECT k + ?, count(*) FROM visits GROUP BY 1", [NUMBER]),
    ("SELECT s || ?, count(*) FROM visits GROUP BY 1", [SECRET]),
    ("SELECT k, count(*) FROM visits GROUP BY k ORDER BY 2 DESC LIMIT ?", [NUMBER]),
    ("SELECT sum(n, contribution_bounds_per_row => (0, ?)) FROM visits", [NUMBER]),
    ("SELECT sum(n + ?) FROM visits", [NUMBER]),
    ("SELECT count(*) FILTER (WHERE s = ?) FROM visits", [SECRET]),
    ("SELECT count(*) FROM visits WHERE x > ? OR x < ?", [NUMBER + 0.5, -NUMBER * 1e40]),
    ("SELECT count(*) FROM visits WHERE d > ?", [date(NUMBER, 1, 2)]),
    (
        "SELECT ?, ?, ? AS x FROM shops",
        [SECRET, NUMBER, f'x"{SECRET}'],
    ),
    ("SELECT n, ? AS x FROM (SELECT count(*) AS n FROM visits) WHERE ? = ?", [SECRET, "a", "a"]),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = ?) k, count(*) "
        "FROM visits GROUP BY k",
        [NUMBER],
    ),
    ("SELECT k, count(*) FROM visits GROUP BY k HAVING count(*) > ?", [NUMBER]),
]


@pytest.mark.slow
@pytest.mark.few(6)
@pytest.mark.parametrize(("sql", "values"), HIDDEN)
def test_no_value_of_a_parameter_is_shown(sql: str, values: Any, traced: Traced) -> None:
    text = traced(sql, values)
    assert stages(text)[0] == "tree"
    assert stages(text)[-1] == "tail"
    assert SECRET not in text
    # A salt may have these digits among its own, but it is hidden too.
    assert str(NUMBER) not in text


@pytest.mark.slow
def test_a_trace_that_hid_nothing_would_be_noticed(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_module.StatementTrace, "_redacted", lambda self, part: part)
    unnoticed = []
    for sql, values in HIDDEN:
        text = traced(sql, values)
        if SECRET not in text and str(NUMBER) not in text:
            unnoticed.append(sql)
    assert unnoticed == []


@pytest.mark.slow
def test_constants_and_names_of_the_text_are_shown_if_there_are_no_values(traced: Traced) -> None:
    text = traced(
        f"SELECT k + {NUMBER} AS more, count(*) FROM visits WHERE s = '{SECRET}' GROUP BY 1"
    )
    for stage in ("tree", "block 1", "sql 1"):
        assert SECRET in part(text, stage)
        assert str(NUMBER) in part(text, stage)


def test_known_names_stay_where_values_are_hidden(traced: Traced) -> None:
    text = traced("SELECT k AS kind, count(*) FROM visits WHERE s = ? GROUP BY k", [SECRET])
    assert '"kind"' in part(text, "tail")
    assert 'where: "s" = ?' in part(text, "block 1")
    assert '"__dpsql_k0"' in part(text, "sql 1")


@pytest.mark.slow
def test_no_row_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("DPSQL_TRACE", "1")
    fill = (
        f"INSERT INTO visits (uid, k, s, n) SELECT i, {NUMBER}, '{SECRET}', 3 FROM range(900) r(i)",
        f"INSERT INTO shops VALUES ({NUMBER}, '{SECRET}', 1)",
    )
    with connect(tmp_path, *fill) as opened:
        answer = opened.sql(
            "SELECT k, s, name, people FROM (SELECT k, s, count(*) AS people FROM visits "
            "GROUP BY k, s) JOIN shops USING (k)"
        )
        assert answer.fetchall()[0][:3] == (NUMBER, SECRET, SECRET)
        text = capsys.readouterr().err
    assert stages(text)[-1] == "tail"
    assert SECRET not in text
    assert not re.search(rf"\b{NUMBER}\b", text)


def test_control_characters_do_not_reach_the_terminal(traced: Traced) -> None:
    assert "\x1b" not in traced("SELECT count(*) FROM visits WHERE s = 'a\x1b[2Jb'")


@pytest.mark.slow
def test_a_file_is_appended_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("dpsql trace 0: before\n")
    monkeypatch.setenv("DPSQL_TRACE", str(path))
    with connect(tmp_path) as opened:
        opened.explain(QUESTION)
        opened.sql("SELECT name FROM shops")
    text = path.read_text()
    assert text.startswith("dpsql trace 0: before\ndpsql trace ")
    new = ["tree", "block 1", "plan 1", "sql 1", "tail", "tree", "tail"]
    assert stages(text) == ["before", *new]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["test.budget.db", "notes.txt"])
def test_a_file_of_something_else_is_not_appended_to(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / name
    other.write_bytes(b"SQLite format 3\0 and what else there is")
    before = other.read_bytes()
    monkeypatch.setenv("DPSQL_TRACE", str(other))
    with fails_with("file_in_use"):
        connect(tmp_path)
    assert other.read_bytes() == before


def test_a_file_that_cannot_be_written_is_told_when_connecting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_TRACE", str(tmp_path / "missing" / "trace.txt"))
    with fails_with("file_not_writable", match="the trace cannot be written"):
        connect(tmp_path)


def test_a_file_that_cannot_be_written_any_more_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setenv("DPSQL_TRACE", str(folder / "trace.txt"))
    with connect(tmp_path) as opened:
        (folder / "trace.txt").unlink()
        folder.rmdir()
        with pytest.raises(dpsql.InterfaceError):
            opened.sql(QUESTION)
        assert opened.budget().queries == 0


@pytest.mark.slow
@pytest.mark.parametrize("value", [None, "", "0"])
def test_it_is_off_by_default_and_no_stage_is_made(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    if value is None:
        monkeypatch.delenv("DPSQL_TRACE", raising=False)
    else:
        monkeypatch.setenv("DPSQL_TRACE", value)

    def never(*_: object) -> None:
        raise AssertionError("a stage was made")

    for name in ("__init__", "tree", "blocks", "plans", "sql"):
        monkeypatch.setattr(trace_module.StatementTrace, name, never)
    with closing(connect(tmp_path)) as opened:
        assert opened.sql(QUESTION).fetchall() is not None
    assert capsys.readouterr().err == ""
