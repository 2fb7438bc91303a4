"""What is read is what was proved: no file that could fail on a row is opened unread."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsql
from dpsql.engines.duckdb import proofs
from dpsql.engines.duckdb.engine import DuckDBEngine, open_database
from dpsql.engines.duckdb.proofs import proofs_directory
from dpsql.interfaces.cli import cli
from dpsql.policy.load import parse_policy

POLICY = """
version: 1
dataset: d
accounts: {ana: {epsilon: 100, delta: 1e-3}}
tables: {t: {privacy_unit: uid}}
"""
COUNT = "SELECT COUNT(DISTINCT uid) AS n FROM t"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies.yaml").write_text(POLICY)
    return tmp_path


def write(path: Path, uids: range = range(50)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [f"word {uid}" for uid in uids]
    pq.write_table(pa.table({"uid": list(uids), "s": texts}), path)


def of_invalid_text(path: Path) -> None:
    data = pa.py_buffer(b"a\xff\xfe")
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 1, 3)), data]
    )
    pq.write_table(pa.table({"uid": [1, 2], "s": bad}), path, use_dictionary=False)


def of_a_time_beyond_a_day(path: Path) -> None:
    times = pa.Array.from_buffers(
        pa.time64("us"), 2, [None, pa.py_buffer(struct.pack("<2q", 1, 10**15))]
    )
    pq.write_table(pa.table({"uid": [1, 2], "s": times}), path)


def damaged(path: Path) -> None:
    write(path, range(20_000))
    whole = bytearray(path.read_bytes())
    whole[2000:30_000] = b"\xff" * 28_000
    path.write_bytes(whole)


def connect(place: Path | str, rules: str = POLICY) -> dpsql.Connection:
    return dpsql.connect(place, parse_policy(rules), "b.db", "ana")


def check(place: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["check", "-d", place, "-p", "policies.yaml"])
    return done.exit_code, done.output


def refused(open_it: Callable[[], object]) -> dpsql.InterfaceError:
    with pytest.raises(dpsql.InterfaceError) as caught:
        open_it()
    return caught.value


@pytest.mark.parametrize("make", [of_invalid_text, of_a_time_beyond_a_day, damaged])
def test_a_file_that_a_value_makes_unreadable_is_found_by_check_and_never_opened(
    home: Path, make: Callable[[Path], None]
) -> None:
    write(home / "t" / "1.parquet")
    make(home / "t" / "2.parquet")
    if make is of_a_time_beyond_a_day:
        of_a_time_beyond_a_day(home / "t" / "1.parquet")
    code, output = check("t")
    assert code == 2
    assert "cannot be read to their ends" in output
    error = refused(lambda: connect("t"))
    assert error.code == "file_unproved"
    assert "parquet" not in error.reason  # neither names nor numbers of files
    assert not (home / "b.db").exists()


@pytest.mark.slow
def test_what_was_not_read_is_refused_before_anything_is_paid_and_check_opens_it(
    home: Path,
) -> None:
    write(home / "t.parquet")
    error = refused(lambda: connect("t.parquet"))
    assert error.code == "file_unproved"
    assert "dpsql check" in str(error.hint)
    assert check("t.parquet")[0] == 0
    with connect("t.parquet") as con:
        assert len(con.sql(COUNT)) == 1


@pytest.mark.slow
def test_opening_reads_no_row_to_find_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal would tell of a row: it is the same whatever the file holds."""
    errors = []
    for make in (write, of_invalid_text, damaged):
        make(home / "t.parquet")
        errors.append(str(refused(lambda: connect("t.parquet"))))
    assert len(set(errors)) == 1


@pytest.mark.slow
def test_files_that_changed_are_refused_by_size_and_time_alone(home: Path) -> None:
    write(home / "t" / "1.parquet")
    assert check("t")[0] == 0
    connect("t").close()
    for change in ("touched", "grown", "another", "removed"):
        file = home / "t" / "2.parquet"
        write(file)
        assert check("t")[0] == 0
        with connect("t") as con:
            con.sql(COUNT, fresh=True)
            spent = con.budget().rho_spent
            if change == "touched":
                os.utime(file, ns=(1, 1))
            elif change == "grown":
                write(file, range(60))
            elif change == "another":
                shutil.copy(file, home / "other")
                (home / "other").replace(file)
            else:
                file.unlink()
            assert refused(lambda: con.sql(COUNT, fresh=True)).code == "files_changed"
            assert con.budget().rho_spent == spent
            assert con.sql(COUNT).cost.stored  # what was paid for is given again
        if change != "removed":
            assert refused(lambda: connect("t")).code == "file_unproved"
    assert check("t")[0] == 0
    connect("t").close()


@pytest.mark.slow
def test_a_new_file_changes_nothing_for_who_is_connected(home: Path) -> None:
    write(home / "t" / "1.parquet")
    assert check("t/*.parquet")[0] == 0
    with connect("t/*.parquet") as con:
        of_invalid_text(home / "t" / "2.parquet")
        write(home / "t" / "k=v" / "3.parquet")
        assert len(con.sql(COUNT)) == 1


@pytest.mark.slow
def test_a_file_is_read_once_and_remembered_away_from_the_data(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "t" / "1.parquet")
    read: list[object] = []
    reads_all = proofs._reads_all

    def counted(connection: duckdb.DuckDBPyConnection, files: list[str]) -> bool:
        read.extend(files)
        return bool(reads_all(connection, files))

    monkeypatch.setattr(proofs, "_reads_all", counted)
    for expected in (["1.parquet"], [], ["2.parquet"]):
        read.clear()
        assert check("t")[0] == 0
        assert [Path(str(file)).name for file in read] == expected
        write(home / "t" / "2.parquet") if not expected else None
    assert {path.name for path in (home / "t").iterdir()} == {"1.parquet", "2.parquet"}
    assert proofs_directory().is_relative_to(home / "home")
    assert all(path.stat().st_mode & 0o077 == 0 for path in proofs_directory().iterdir())


@pytest.mark.slow
def test_views_over_files_are_proved_too(home: Path) -> None:
    write(home / "1.parquet")
    with duckdb.connect("d.duckdb") as owner:
        owner.execute(f"CREATE VIEW t AS SELECT * FROM '{home}/*.parquet'")
    assert refused(lambda: connect("d.duckdb")).code == "file_unproved"
    assert check("d.duckdb")[0] == 0
    connect("d.duckdb").close()


def test_in_python_an_engine_proves_its_files(home: Path) -> None:
    write(home / "t.parquet")
    engine = DuckDBEngine(files={"t": "t.parquet"})
    assert engine.prove() == ()
    connect(engine).close()  # type: ignore[arg-type]
    engine.close()
    of_invalid_text(home / "t.parquet")
    again = open_database("t.parquet")
    assert again.prove() == ("t",)
    again.close()


def test_what_cannot_be_remembered_is_told(home: Path) -> None:
    write(home / "t.parquet")
    (home / "home").write_text("a file")
    engine = open_database("t.parquet")
    assert refused(engine.prove).code == "proof_not_kept"
    engine.close()


@pytest.mark.slow
def test_an_engine_in_use_opens_no_file_that_has_changed(home: Path) -> None:
    write(home / "t.parquet")
    write(home / "u.parquet")
    (home / "c.csv").write_text("uid\n1\n")
    places = {name[0]: name for name in ("t.parquet", "u.parquet", "c.csv")}
    engine = DuckDBEngine(files=places)
    others = "}, u: {privacy_unit: uid}, c: {privacy_unit: uid, columns: {uid: INT}}}"
    two = POLICY.replace("uid}}", f"uid{others}")
    assert refused(lambda: connect(engine, two)).code == "file_unproved"  # type: ignore[arg-type]
    assert engine.prove() == ()
    connect(engine, two).close()  # type: ignore[arg-type]
    of_invalid_text(home / "t.parquet")
    assert refused(lambda: connect(engine)).code == "file_unproved"  # type: ignore[arg-type]
    with connect(engine, two) as con:  # type: ignore[arg-type]
        assert refused(lambda: con.sql(COUNT)).code == "files_changed"
    engine.close()
