"""pgcli: what it asks to complete names, and its own commands."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from helpers.serving import PASSWORD, Serving, encrypted, ended

pgexecute = pytest.importorskip("pgcli.pgexecute")
refresher = pytest.importorskip("pgcli.completion_refresher")
special = pytest.importorskip("pgspecial.main")
# It leaves a connection of its own to the collector of garbage.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


@pytest.fixture
def pgcli(server: Serving) -> Iterator[Any]:
    trusted = {"sslmode": "verify-full", "sslrootcert": str(server.directory / "both.pem")}
    found = pgexecute.PGExecute(
        *("clinic", "ana", PASSWORD, "127.0.0.1", str(server.port), ""), **trusted
    )
    yield found
    found.conn.close()


def test_names_are_completed(pgcli: Any) -> None:
    found: list[Any] = []
    done = threading.Event()

    def told(completer: Any) -> None:
        found.append(completer)
        done.set()

    refresher.CompletionRefresher().refresh(pgcli, special.PGSpecial(), told)
    assert done.wait(60)
    columns = found[0].dbmetadata["tables"]["public"]
    assert {name: list(listed) for name, listed in columns.items()} == {
        "visits": ["patient_id", "cost", "ward", "day"],
        "wards": ["ward", "beds", "note"],
    }
    assert pgcli.databases() == ["clinic"]
    assert list(pgcli.foreignkeys()) == list(pgcli.casing()) == []


def test_it_asks_is_refused_and_lists_tables(pgcli: Any) -> None:
    (asked,) = pgcli.run("SELECT COUNT(*) FROM visits WHERE ward = 'a'")
    ((number,),) = asked[1].fetchall()
    assert 900 < number < 1100
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        list(pgcli.run("SELECT * FROM visits"))
    (listed,) = pgcli.run("\\dt", pgspecial=special.PGSpecial())
    assert [row[1] for row in listed[1].fetchall()] == ["visits", "wards"]
