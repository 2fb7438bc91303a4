"""Files of the network: which addresses are read, what is refused before anything, what is reached.

DuckDB reads them with an extension that is no part of it. Tests that need it are skipped where it
is not installed for this version; what is refused without it is tested everywhere.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from helpers.failures import fails_with
from helpers.support import cursor_of

import dpsql
from dpsql.core.data_files import (
    MAX_FILES,
    DataFiles,
    FileKind,
    data_files,
    shown_name,
    table_name_for,
)
from dpsql.engines.duckdb.attached import attached
from dpsql.engines.duckdb.engine import DuckDBEngine, open_database
from dpsql.engines.embedded.lockdown import LOCKDOWN_SETTINGS, lock_down, settings_of
from dpsql.interfaces.cli import cli
from dpsql.policy.ledger_place import place_beside, usual_place
from dpsql.policy.load import parse_policy

ROWS = "SELECT i AS uid, ['a', 'b', 'c'][1 + i % 3] AS k FROM range(3000) r(i)"
COUNTED = [("a", 1000), ("b", 1000), ("c", 1000)]
SECRET = "hunter2-of-nobody"


def policy(table: str) -> dpsql.Policy:
    return parse_policy(
        "version: 1\ndataset: d\ndefaults: {epsilon: 100, max_rows_contributed: 20}\n"
        "accounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
        f"tables:\n  {table}: {{privacy_unit: {{name: person, column: uid}}}}\n"
    )


@cache
def why_not_reached() -> str:
    """Why files of the network cannot be read here; empty if they can."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        try:
            connection.execute("LOAD httpfs")
        except duckdb.Error:
            return f"the httpfs extension of DuckDB {duckdb.__version__} is not installed"
    return ""


@pytest.fixture
def httpfs() -> None:
    if why_not_reached():
        pytest.skip(why_not_reached())


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB looks for extensions in the home directory of this user."""
    monkeypatch.setenv("HOME", str(tmp_path))


# -- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "table", "kind"),
    [
        ("s3://bucket/a/visits.parquet", "visits", FileKind.PARQUET),
        ("s3://bucket/a/visits/*/*.parquet", "visits", FileKind.PARQUET),
        ("gs://visits/*.parquet", "visits", FileKind.PARQUET),
        ("r2://bucket/v/**/x[0-9].json.gz", "v", FileKind.JSON),
        ("https://example.org/v.csv.gz", "v", FileKind.CSV),
        ("http://example.org:8080/d/v.parquet?sig=a/b.csv#x", "v", FileKind.PARQUET),
    ],
)
def test_an_address_is_a_table_of_its_name(address: str, table: str, kind: FileKind) -> None:
    assert data_files(address) == DataFiles(table, kind, (address,), remote=True)
    assert table_name_for(address) == table


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ftp://example.org/v.parquet", "ftp://"),
        ("file:///etc/v.parquet", "file://"),
        ("s3://bucket/visits/", "no address of Parquet"),
        ("s3://bucket/v.duckdb", "no address of Parquet"),
        ("https://example.org/v.parquet.html", "no address of Parquet"),
        ("https://example.org/*.parquet", "does not list"),
        (f"https://ana:{SECRET}@example.org/v.parquet", "password"),
        (f"s3://bucket/v.parquet?s3_secret_access_key={SECRET}", "question mark"),
        ("s3://bucket/a b.parquet", "space"),
        ("s3://bucket/a\n.parquet", "control"),
        ("s3://", "control"),
        ("ducklake:postgres:dbname=lake", "ducklake"),
        ("s3:/bucket/v.parquet", "lost a slash"),
    ],
)
def test_what_is_no_address_of_files_is_said(address: str, said: str, tmp_path: Path) -> None:
    with fails_with("address_unknown") as refused:
        dpsql.connect(address, policy("v"), tmp_path / "budget.db", "ana")
    assert said in str(refused.value)
    assert refused.value.hint
    assert SECRET not in f"{refused.value} {refused.value.hint}"
    assert not (tmp_path / "budget.db").exists()


def test_an_address_that_was_made_a_path_is_not_looked_for(tmp_path: Path) -> None:
    with pytest.raises(dpsql.InterfaceError, match="cannot be a Path"):
        dpsql.connect(Path("https://example.org/v.parquet"), policy("v"), None, "ana")


def test_nothing_lies_beside_an_address() -> None:
    with fails_with("ledger_not_given"):
        usual_place(policy("v"), "s3://bucket/v.parquet")
    assert place_beside("s3://bucket/v.parquet", None) is None


def test_signatures_are_not_shown() -> None:
    assert shown_name(f"https://example.org/a/v.csv?sig={SECRET}") == "https://example.org/a/v.csv"


# -- what a pattern lists -------------------------------------------------------------------------


def pattern(text: str = "s3://b/v/*/*.parquet") -> DataFiles:
    found = data_files(text)
    assert found is not None
    assert found.pattern == text
    return found


def test_hidden_files_and_those_of_tools_are_none_of_a_pattern() -> None:
    kept = ["s3://b/v/x=1/a.parquet", "s3://b/v/x=2/a.parquet"]
    others = ["s3://b/v/_temporary/a.parquet", "s3://b/v/x=1/.a.parquet"]
    listed = pattern().listed([*others, *reversed(kept)])
    assert listed.paths == tuple(kept)
    assert listed.pattern is None
    assert pattern("s3://b/_v/*.parquet").listed(["s3://b/_v/a.parquet"]).paths


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], "file_missing"),
        (["s3://b/v/_x/a.parquet"], "file_missing"),
        (["s3://b/v/x/a[1].parquet"], "file_kinds"),
        ([f"s3://b/v/x/{i}.parquet" for i in range(MAX_FILES + 1)], "file_kinds"),
    ],
)
def test_a_pattern_of_no_table_is_refused(found: list[str], code: str) -> None:
    with fails_with(code):
        pattern().listed(found)


# -- without the extension ------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    "address", ["s3://bucket/v.parquet", "https://example.org/v.csv", "gs://b/v/*.parquet"]
)
def test_without_the_extension_an_address_is_refused_before_anything(
    address: str, tmp_path: Path
) -> None:
    with fails_with("extension_missing", match="httpfs") as refused:
        dpsql.connect(address, policy("v"), tmp_path / "budget.db", "ana")
    assert "INSTALL httpfs" in str(refused.value.hint)
    assert not (tmp_path / "budget.db").exists()


@pytest.mark.usefixtures("nothing_installed")
def test_commands_take_addresses_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "version: 1\ndataset: d\naccounts: {ana: {epsilon: 1, delta: 1e-3}}\n"
        "tables: {v: {privacy_unit: {name: person, column: uid}}}\n",
        encoding="utf-8",
    )
    where = ["-d", "s3://bucket/v.parquet", "-p", str(tmp_path / "p.yaml")]
    for command in (["check"], ["query", "SELECT 1", "-a", "ana", "-l", str(tmp_path / "b.db")]):
        done = CliRunner().invoke(cli, [*command, *where])
        assert done.exit_code != 0
        assert "httpfs" in done.output, done.output
    assert not (tmp_path / "b.db").exists()


# -- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secret",
    [
        {"type": "nothing", "secret": SECRET},
        {"secret": SECRET},
        {"type": "s3", "secret": SECRET, "x) ; DROP": SECRET},
        {"type": "s3", "secret": [SECRET]},
        {"type": "http", "extra_http_headers": {"a": 1}},
        SECRET,
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(secret: Any) -> None:
    with fails_with("secret_unknown") as refused:
        DuckDBEngine(secrets=[secret])
    assert SECRET not in f"{refused.value!r} {refused.value.hint} {refused.value.__context__}"


def test_a_connection_with_secrets_can_be_locked(tmp_path: Path) -> None:
    """DuckDB refuses to change how secrets are stored once there are some."""
    connection = attached(None, str(tmp_path / "spill"))
    connection.execute("CREATE TEMPORARY SECRET (TYPE http, BEARER_TOKEN 'x')")
    lock_down(connection)
    assert settings_of(connection) == LOCKDOWN_SETTINGS
    connection.close()


def test_secrets_that_are_stored_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with duckdb.connect() as other:
        other.execute("CREATE PERSISTENT SECRET kept (TYPE http, BEARER_TOKEN 'x')")
        assert other.execute("SELECT name FROM duckdb_secrets()").fetchall() == [("kept",)]
    connection = attached(None, str(tmp_path / "spill"))
    assert connection.execute("SELECT name FROM duckdb_secrets()").fetchall() == []
    connection.close()


# -- with the extension ---------------------------------------------------------------------------


class Ranges(SimpleHTTPRequestHandler):
    """Serves files whole or in parts, and keeps what was asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Range")))  # type: ignore[attr-defined]
        place = Path(self.translate_path(self.path))
        if not place.is_file() or "forbidden" in self.path:
            self.send_error(404 if not place.is_file() else 403)
            return
        content = place.read_bytes()
        start, end = 0, len(content) - 1
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is not None:
            start, end = int(wanted[1]), min(int(wanted[2] or end), end)
        self.send_response(200 if wanted is None else 206)
        if wanted is not None:
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - start + 1))
        self.end_headers()
        self.wfile.write(content[start : end + 1])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    www = tmp_path / "www"
    www.mkdir()
    with duckdb.connect() as writer:
        for name in ("v.parquet", "other.parquet", "v.csv.gz", "forbidden.parquet"):
            writer.execute(f"COPY ({ROWS}) TO '{www / name}'")
    found = ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=str(www)))
    found.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def at(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def asked(database: str | DuckDBEngine, table: str, ledger: Path) -> list[tuple[object, ...]]:
    with dpsql.connect(database, policy(table), ledger, "ana") as con:
        sql = f"SELECT k, count(*) FROM {table} GROUP BY k ORDER BY k"
        return [(k, round(int(n), -2)) for k, n in con.sql(sql, max_groups_contributed=3)]


@pytest.mark.usefixtures("httpfs")
@pytest.mark.parametrize("name", ["v.parquet", "v.parquet?sig=x", "v.csv.gz"])
def test_files_of_the_web_are_tables(
    name: str, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    assert asked(f"{at(server)}/{name}", "v", tmp_path / "budget.db") == COUNTED


@pytest.mark.usefixtures("httpfs")
def test_nothing_else_of_the_network_can_be_reached(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    engine = open_database(f"{at(server)}/v.parquet")
    cursor = cursor_of(engine, "v")
    assert cursor.execute("SELECT count(*) FROM v").fetchall() == [(3000,)]
    for other in (
        f"read_parquet('{at(server)}/other.parquet')",
        f"read_parquet('{at(server)}/x/../other.parquet')",
        f"read_parquet('{at(server)}/v.parquet?x')",
        f"read_csv('{at(server)}/v.csv.gz')",
        f"read_parquet('{tmp_path}/www/v.parquet')",
        "glob('s3://bucket/*')",
    ):
        with pytest.raises(duckdb.Error, match="Cannot access file"):
            cursor.execute(f"SELECT count(*) FROM {other}")
    assert not any("other" in path for path, _ in server.asked)  # type: ignore[attr-defined]
    engine.close()


@pytest.mark.usefixtures("httpfs")
@pytest.mark.parametrize(
    ("name", "said"), [("none.parquet", "no such file"), ("forbidden.parquet", "not let this user")]
)
def test_what_the_server_says_is_told(
    name: str, said: str, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    with fails_with("table_unreadable", match=said) as refused:
        dpsql.connect(
            f"{at(server)}/{name}?sig={SECRET}", policy("v"), tmp_path / "budget.db", "ana"
        )
    assert SECRET not in f"{refused.value} {refused.value.hint}"
    assert not (tmp_path / "budget.db").exists()


@pytest.fixture
def store(httpfs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket on this computer: two files of a table in directories named by values, and more."""
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    server = moto.ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host = "{}:{}".format(*server.get_host_and_port())
    client = boto3.client("s3", endpoint_url=f"http://{host}", region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    with duckdb.connect() as writer:
        for part in (0, 1):
            rows = f"SELECT * FROM ({ROWS}) WHERE uid % 2 = {part}"
            writer.execute(f"COPY ({rows}) TO '{tmp_path}/part.parquet'")
            for key in (f"v/part={part}/a.parquet", f"v/_temporary/{part}.parquet"):
                client.upload_file(f"{tmp_path}/part.parquet", "bucket", key)
    yield host
    server.stop()


def secret_for(host: str) -> dict[str, str | bool]:
    return {
        "type": "s3",
        "key_id": "test",
        "secret": "test",
        "region": "us-east-1",
        "endpoint": host,
        "url_style": "path",
        "use_ssl": False,
        "scope": "s3://bucket",
    }


def test_a_pattern_of_a_store_is_a_table(store: str, tmp_path: Path) -> None:
    engine = DuckDBEngine(files={"v": "s3://bucket/v/**/*.parquet"}, secrets=[secret_for(store)])
    assert asked(engine, "v", tmp_path / "budget.db") == COUNTED
    assert [column.name for column in engine.catalog().tables["v"].columns] == ["uid", "k", "part"]
    with pytest.raises(duckdb.Error, match="Cannot access file"):
        cursor_of(engine, "v").execute(
            "SELECT * FROM read_parquet('s3://bucket/v/_temporary/0.parquet')"
        )
    engine.close()


def test_a_secret_that_is_wrong_is_told(store: str) -> None:
    with fails_with("table_unreadable"):
        DuckDBEngine(
            files={"v": "s3://nobodys/v.parquet"},
            secrets=[secret_for(store) | {"scope": "s3://nobodys"}],
        )
