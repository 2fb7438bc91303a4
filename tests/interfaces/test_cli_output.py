"""Answers in every format: the same values and intervals, written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import stat
import sys
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from helpers.present import present
from helpers.support import ANALYST
from hypothesis import given
from hypothesis import strategies as st

import dpsql
from dpsql.core.formatting import upper_figure, upper_figures
from dpsql.errors import InterfaceError
from dpsql.interfaces.cli import cli, printing
from dpsql.interfaces.new_files import new_file
from dpsql.ledger import Ledger
from dpsql.present import result_files as output

POLICY = f"""\
version: 1
dataset: world
defaults: {{epsilon: 1.0, delta: 1e-6, max_groups_contributed: 3, max_rows_contributed: 2}}
accounts: {{{ANALYST}: {{epsilon: 200, delta: 1e-2}}}}
tables:
  visits:
    privacy_unit: {{name: person, column: uid}}
    columns:
      cost: {{lower: 0, upper: 50}}
      color: {{domain: [blue, green, red]}}
"""
GROUPED = "SELECT color, COUNT(DISTINCT uid) AS n, AVG(cost) AS cost FROM visits GROUP BY color"
ODD = """
SELECT 'pipe | <b>*x*</b> _y_ a_b' AS "a|b", color, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS total,
  COUNT(*) / 2.0 AS half, COUNT(*)::DECIMAL(9, 2) AS dec, DATE '2024-02-29' AS day,
  '\\x01ab'::BLOB AS raw, INTERVAL 1 DAY AS gap, NULL AS nothing, 1 AS n_low,
  '00000000-0000-0000-0000-000000000001'::UUID AS id
FROM visits GROUP BY color
"""
WIDE = [
    *("color", "n", "n_low", "n_high"),
    *("cost", "cost_low", "cost_high"),
]
FORMATS = ("csv", "json", "jsonl", "markdown", "arrow", "parquet")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("world")
    with duckdb.connect(str(directory / "world.duckdb")) as writer:
        writer.execute(
            "CREATE TABLE visits AS SELECT i % 3000 AS uid, "
            "['red', 'green', 'blue'][1 + i % 3] AS color, (i % 40)::DOUBLE AS cost "
            "FROM range(9000) t(i)"
        )
    (directory / "policies.yaml").write_text(POLICY)
    return directory


@pytest.fixture
def world(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "DATABASE": data / "world.duckdb",
        "POLICIES": data / "policies.yaml",
        "LEDGER": tmp_path / "budget.db",
        "ANALYST": ANALYST,
    }.items():
        monkeypatch.setenv(f"DPSQL_{name}", str(value))
    return tmp_path


@pytest.fixture(scope="module")
def answers(data: Path) -> dict[str, dpsql.Result]:
    """One answer to each question, so that formats can be compared value by value."""
    con = dpsql.connect(
        data / "world.duckdb", data / "policies.yaml", data / "budget.db", analyst=ANALYST
    )
    return {sql: con.sql(sql) for sql in (GROUPED, ODD)}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["query", *arguments])


def spent(world: Path) -> int:
    if not (world / "budget.db").exists():
        return 0
    with Ledger.open(world / "budget.db") as ledger:
        return ledger.spent(f"world/{ANALYST}").queries


def read(format_: str, content: bytes) -> tuple[list[str], Sequence[Sequence[object]]]:
    """Column names and rows of an answer in some format, all numbers as floats."""
    rows: Sequence[Sequence[object]]
    match format_:
        case "csv":
            names, *rows = csv.reader(io.StringIO(content.decode()))
        case "json":
            document = json.loads(content)
            names, rows = document["columns"], document["rows"]
        case "jsonl":
            objects = [json.loads(line) for line in content.decode().splitlines()]
            names, rows = list(objects[0]), [list(found.values()) for found in objects]
        case "markdown":
            table_lines, _, _ = content.decode().partition("\n\n")  # and notes below it
            lines = [line.strip("| ").split(" | ") for line in table_lines.splitlines()]
            names, rows = [n.replace("\\", "") for n in lines[0]], lines[2:]
        case "arrow":
            table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
            names, rows = table.column_names, [list(row.values()) for row in table.to_pylist()]
        case _:
            table = pq.read_table(io.BytesIO(content))
            names, rows = table.column_names, [list(row.values()) for row in table.to_pylist()]
    return names, [[_number(value) for value in row] for row in rows]


def _number(value: object) -> object:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return value


# -- formats ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_holds_the_same_values_and_intervals(
    format_: str, answers: dict[str, dpsql.Result]
) -> None:
    result = answers[GROUPED]
    plain = read(format_, output.encoded(result, format_, 0.9, False))
    assert plain == (["color", "n", "cost"], [list(row) for row in result.fetchall()])
    names, rows = read(format_, output.encoded(result, format_, 0.9, True))
    assert names == WIDE
    for name in ("n", "cost"):
        interval = result.intervals(0.9)[name]
        at = names.index(name)
        assert [row[at + 1] for row in rows] == interval.low.tolist()
        assert [row[at + 2] for row in rows] == interval.high.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_values_of_every_kind_can_be_written_and_columns_keep_their_own_names(
    format_: str, answers: dict[str, dpsql.Result]
) -> None:
    result = answers[ODD]
    names, rows = read(format_, output.encoded(result, format_, 0.95, True))
    ends = {"n": ["n_low_1", "n_high"]} | {
        each: [f"{each}_low", f"{each}_high"] for each in ("total", "half", "dec")
    }
    assert names == [name for each in result.columns for name in (each, *ends.get(each, []))]
    assert len(rows) == 3
    low = result.intervals()["n"].low.tolist()
    assert [row[names.index("n_low_1")] for row in rows] == low
    assert {row[names.index("n_low")] for row in rows} == {1.0}


def test_arrow_and_parquet_have_types_that_any_reader_knows(
    answers: dict[str, dpsql.Result],
) -> None:
    table = pq.read_table(io.BytesIO(output.result_parquet(answers[ODD], 0.95, intervals=True)))
    types = {field.name: str(field.type) for field in table.schema}
    assert types["total"] == "decimal128(38, 0)"
    assert types["dec"] == "decimal128(9, 2)"
    assert types["day"] == "date32[day]"
    assert types["raw"] == "binary"
    assert types["id"] == types["gap"] == "string"
    assert types["n_low_1"] == types["n"] == "int64"
    total = sum(row[2] for row in answers[ODD].fetchall())
    assert table["total"][0].as_py() == Decimal(total)


@pytest.mark.parametrize("format_", ["arrow", "parquet"])
def test_cost_and_mechanisms_are_in_the_schema_of_binary_files(
    format_: str, answers: dict[str, dpsql.Result]
) -> None:
    content = output.encoded(answers[GROUPED], format_, 0.9, False)
    if format_ == "arrow":
        schema = pa.ipc.open_file(pa.BufferReader(content)).schema
    else:
        schema = pq.read_schema(io.BytesIO(content))
    about = json.loads(schema.metadata[output.METADATA_KEY])
    cost = answers[GROUPED].cost
    assert about["mechanisms"] == ["known_domain"]
    assert about["confidence"] == 0.9
    assert about["cost"]["settled"]["epsilon"] == upper_figure(cost.settled_epsilon)
    assert about["cost"]["reserved"]["delta"] == upper_figure(cost.reserved.delta)


@pytest.mark.slow
def test_polars_and_duckdb_read_what_was_written(world: Path) -> None:
    import polars

    for format_, name in (("parquet", "a.parquet"), ("arrow", "a.arrow")):
        assert run(GROUPED, "-f", format_, "-o", name, "--intervals").exit_code == 0
    assert polars.read_ipc("a.arrow").columns == WIDE
    assert present(duckdb.sql("SELECT * FROM 'a.parquet'")).columns == WIDE


def test_markdown_shows_text_as_it_is(answers: dict[str, dpsql.Result]) -> None:
    text = output.result_markdown(answers[ODD], None)
    assert "| pipe \\| \\<b\\>\\*x\\*\\</b\\> \\_y\\_ a_b |" in text
    head, rule, *_ = text.splitlines()
    assert head.startswith("| a\\|b | color | n |")
    assert rule.startswith("| --- | --- | ---: |")
    assert " NULL |" in text


def test_a_table_has_intervals_as_columns_when_asked(world: Path) -> None:
    shown = run(GROUPED, "--intervals").stdout
    assert shown.split("\n", 1)[0].split() == WIDE
    assert "±" not in shown
    assert "paid ε" in shown


@pytest.mark.slow
def test_verbose_tells_cost_and_mechanism_beside_the_answer(world: Path) -> None:
    Ledger.open(world / "budget.db").close()
    plain, told = run(GROUPED, "-f", "csv"), run(GROUPED, "-f", "csv", "-v", "--fresh")
    assert plain.stderr == ""
    assert "known_domain · paid ε 1 " in told.stderr
    assert "paid" not in told.stdout


# -- files ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_answer_goes_to_a_new_file_and_nothing_else_is_left(world: Path) -> None:
    Ledger.open(world / "budget.db").close()
    done = run(GROUPED, "-f", "csv", "-o", "a.csv")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "Wrote a.csv.\n")
    assert (world / "a.csv").read_text().startswith("color,n,cost\n")
    assert {path.name for path in world.iterdir()} - {"budget.db", "budget.db-wal"} <= {
        "a.csv",
        "budget.db-shm",
    }
    assert run(GROUPED, "-o", "t.txt", "--quiet").stderr == ""
    assert "paid" in (world / "t.txt").read_text()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("there.csv", "there.csv exists already"),
        ("no/where.csv", "no/where.csv cannot be written: no such file or directory"),
        (".", ". is not a file"),
        ("pipe", "pipe is not a file"),
        ("x" * 300, "cannot be written: file name too long"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_query_is_paid_for(
    target: str, words: str, world: Path
) -> None:
    (world / "there.csv").write_text("mine")
    os.mkfifo(world / "pipe")
    done = run(GROUPED, "--format", "csv", "--output", target)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())
    assert not (world / "budget.db").exists()
    assert (world / "there.csv").read_text() == "mine"


def test_a_file_is_replaced_with_force_but_never_a_device(world: Path) -> None:
    (world / "there.csv").write_text("mine")
    (world / "link.csv").symlink_to("there.csv")
    assert run(GROUPED, "-f", "csv", "-o", "link.csv", "--force").exit_code == 0
    assert (world / "there.csv").read_text().startswith("color")
    assert (world / "link.csv").is_symlink()
    assert run(GROUPED, "-o", "/dev/null", "--force").exit_code == 2
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


KEPT = ("world.duckdb", "policies.yaml", "budget.db", "dpsql.toml")


@pytest.fixture
def kept(world: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with all that a query reads and keeps, and an answer that was paid for."""
    for name in ("world.duckdb", "policies.yaml"):
        (world / name).write_bytes((data / name).read_bytes())
        monkeypatch.setenv(f"DPSQL_{'POLICIES' if 'p' in name else 'DATABASE'}", name)
    monkeypatch.setenv("DPSQL_LEDGER", "budget.db")
    (world / "dpsql.toml").write_text("[dpsql]\nepsilon = 0.5\n")
    assert run(GROUPED).exit_code == 0
    return world


@pytest.mark.parametrize("more", [(), ("--force",)])
@pytest.mark.parametrize("name", KEPT)
def test_no_answer_is_written_over_what_it_is_read_from(
    kept: Path, name: str, more: tuple[str, ...]
) -> None:
    (kept / "there").mkdir()
    (kept / "link").symlink_to(name)
    (kept / "link to link").symlink_to("link")
    (kept / "up").symlink_to(kept)
    before = {file: (kept / file).read_bytes() for file in KEPT}
    ways = [name, f"./{name}", f"there/../{name}", str(kept / name), f"up/{name}"]
    ways += ["link", "link to link", f"up/up/{name}-wal", f"{name}.wal", f"{name}-shm"]
    codes = {"file_in_use"}
    for target in (*ways, "hard link"):
        if target == "hard link":  # which a ledger must not have at all
            os.link(kept / name, kept / target)
            codes |= {"ledger_linked"} if name == "budget.db" else set()
        done = run("SELECT COUNT(*) FROM visits", "-o", target, *more)
        assert done.exit_code in (2, 5)
        assert any(code in done.stderr for code in codes)
        exported = CliRunner().invoke(cli, ["budget", "export", "-o", target, *more])
        assert exported.exit_code in (2, 5)
        assert any(code in exported.stderr for code in codes)
    (kept / "hard link").unlink()
    assert {file: (kept / file).read_bytes() for file in KEPT} == before
    assert spent(kept) == 1


def test_no_answer_is_written_where_the_ledger_will_be(world: Path) -> None:
    done = run(GROUPED, "-o", "budget.db", "--force")
    assert done.exit_code == 2
    assert "file_in_use" in done.stderr
    assert not (world / "budget.db").exists()


def test_no_draft_is_written_over_its_database_or_a_ledger(kept: Path) -> None:
    os.rename("budget.db", "world.budget.db")
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    for target in ("world.duckdb", "world.budget.db", "dpsql.toml"):
        done = CliRunner().invoke(
            cli, ["init", "world.duckdb", "-o", target, "--force", "--no-ask"]
        )
        assert done.exit_code == 2
        assert "file_in_use" in done.stderr
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


def test_a_query_that_fails_leaves_the_file_as_it_was(world: Path) -> None:
    (world / "there.csv").write_text("mine")
    for target, more in (("there.csv", ["--force"]), ("new.csv", [])):
        assert run("SELECT * FROM visits", "-o", target, *more).exit_code == 2
    assert (world / "there.csv").read_text() == "mine"
    assert {path.name for path in world.iterdir()} == {"there.csv", "budget.db"}


def test_a_file_appears_whole_and_none_that_appeared_meanwhile_is_lost(tmp_path: Path) -> None:
    target = tmp_path / "a"
    with new_file(target) as write:
        assert not target.exists()
        write(b"all of it")
        assert not target.exists()
    assert target.read_bytes() == b"all of it"
    with pytest.raises(InterfaceError, match="exists already"):
        _write_while_another_does(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"somebody else's"
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def _write_while_another_does(target: Path) -> None:
    with new_file(target) as write:
        write(b"dpsql's")
        target.write_bytes(b"somebody else's")


def test_a_full_disk_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(InterfaceError, match="a cannot be written: no space left"),
        new_file(tmp_path / "a") as write,
    ):
        write(b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_answer_that_could_not_be_written_can_be_had_again_for_nothing(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    assert run(GROUPED, "--fresh").exit_code == 0  # the ledger, too, writes its file with fsync
    asked = (GROUPED, "--epsilon", "0.9", "-f", "csv", "-o")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        lost = run(*asked, "a.csv")
    assert lost.exit_code == 2
    assert "ask again with another --output" in " ".join(lost.stderr.split())
    assert spent(world) == 2
    assert run(*asked, "b.csv").exit_code == 0
    assert spent(world) == 2
    assert not (world / "a.csv").exists()


# -- before anything is spent -----------------------------------------------------------------


@pytest.mark.parametrize("format_", ["arrow", "parquet"])
def test_a_missing_package_is_told_before_anything_is_spent(
    format_: str, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = run(GROUPED, "-f", format_, "-o", "a")
    assert done.exit_code == 2
    assert "pip install 'pyarrow>=16'" in done.stderr
    assert "[missing_package]" in done.stderr
    assert list(world.iterdir()) == []


@pytest.mark.parametrize("format_", ["arrow", "parquet"])
def test_binary_formats_refuse_a_terminal_and_go_through_pipes(
    format_: str, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(GROUPED, "-f", format_)
    assert read(format_, done.stdout_bytes)[0] == ["color", "n", "cost"]
    before = spent(world)
    monkeypatch.setattr("dpsql.interfaces.cli.query._is_terminal", lambda: True)
    refused = run(GROUPED, "-f", format_, "--fresh")
    assert refused.exit_code == 2
    assert f"{format_} is not for a terminal" in refused.stderr
    assert spent(world) == before


@pytest.mark.slow
def test_a_dry_run_is_an_explanation_and_costs_nothing(world: Path) -> None:
    dry = run(GROUPED, "--dry-run", "--epsilon", "2")
    explained = CliRunner().invoke(cli, ["explain", GROUPED, "--epsilon", "2"])
    assert dry.stdout.split("\n")[0] == explained.stdout.split("\n")[0]
    assert dry.stdout.startswith("Reserves  ε 2")
    plan = json.loads(run(GROUPED, "--dry-run", "-f", "json").stdout)
    assert plan["reserved_epsilon"] == pytest.approx(1.0)
    assert run(GROUPED, "--dry-run", "-f", "parquet", "-o", "a").stdout.startswith("Reserves")
    assert list(world.iterdir()) == []


# -- progress ---------------------------------------------------------------------------------


def test_work_of_a_second_shows_a_spinner_and_less_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with printing.progress_bar() as tell:
        tell(50)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(printing, "SILENT_SECONDS", 0.01)
    told = ""
    with printing.progress_bar():
        until = time.monotonic() + 20
        while "Reading private rows" not in told and time.monotonic() < until:
            told += capfd.readouterr().err
            time.sleep(0.01)
    spinner = capfd.readouterr()
    assert "Reading private rows" in told
    assert "%" not in told + spinner.err
    assert spinner.out == ""
    with printing.progress_bar(quiet=True) as tell:
        tell(50)
        time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_no_terminal_no_progress(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(printing, "SILENT_SECONDS", 0.0)
    with printing.progress_bar() as tell:
        tell(100)
        time.sleep(0.05)
    assert capfd.readouterr().err == ""


# -- figures ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_costs_are_told_as_asked_for_and_never_smaller_than_they_are(world: Path) -> None:
    done = run(GROUPED, "-f", "json", "--epsilon", "2")
    cost = json.loads(done.stdout)["cost"]
    assert '"reserved": {"epsilon": 2.0, ' in done.stdout
    with Ledger.open(world / "budget.db") as ledger:
        (entry,) = ledger.history("world/ana", 10)
    exact = present(entry.charged).loss
    assert exact.rho <= cost["settled"]["rho"] <= exact.rho * (1 + 1e-9)
    assert exact.delta <= cost["settled"]["delta"] <= exact.delta * (1 + 1e-9)
    assert len(repr(cost["settled"]["rho"]).strip("0.")) <= 10
    plan = CliRunner().invoke(cli, ["explain", GROUPED, "-f", "json", "--epsilon", "0.5"])
    assert json.loads(plan.stdout)["reserved_epsilon"] == 0.5
    told = CliRunner().invoke(cli, ["budget", "-f", "json"])
    budget = json.loads(told.stdout)
    assert exact.rho <= budget["rho_spent"] <= budget["rho_limit"]


@given(
    st.floats(min_value=1e-300, max_value=1e300),
    st.floats(min_value=0, max_value=1e-6),
)
def test_figures_are_rounded_up_to_ten_digits_and_stay_in_order(value: float, more: float) -> None:
    shown = upper_figure(value)
    assert value <= shown <= value * (1 + 1.01e-9)
    assert upper_figure(shown) == shown
    assert shown <= upper_figure(value * (1 + more))
    assert Decimal(repr(shown)).normalize().adjusted() - _last(shown) < 10


def _last(value: float) -> int:
    """The place of the last digit that is written of a number."""
    return int(Decimal(repr(value)).normalize().as_tuple().exponent)


def test_what_is_not_finite_or_no_float_is_no_figure() -> None:
    assert upper_figures([1, True, None, "x", (float("inf"), 0.0)]) == [
        *(1, True, None, "x"),
        [float("inf"), 0.0],
    ]
    assert math.isnan(upper_figure(math.nan))
