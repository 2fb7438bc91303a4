"""A real server over HTTP: each route and format, each kind of error, and what is never told."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from helpers.failures import fails_with
from helpers.http_serving import HttpServing, filled_with_tokens, http_started
from starlette.datastructures import Headers

from dpsql.server.audit import verify_audit
from dpsql.server.http.formats import accepted

QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
SLOW = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServing]:
    directory = tmp_path_factory.mktemp("over-http")
    found = http_started(directory, filled_with_tokens(directory))
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    log = found.log.read_text() + (directory / "audit.jsonl").read_text()
    assert "Traceback" not in log
    assert all(token not in log for token in found.tokens.values())
    verify_audit(directory / "audit.jsonl")


# -- routes ---------------------------------------------------------------------------------------


def test_a_question_is_answered_with_its_meaning_and_cost_and_again_for_nothing(
    server: HttpServing,
) -> None:
    first = server.query(QUESTION)
    assert first.status == 200
    found = first.json
    assert [(one["name"], one["type"], one["noisy"]) for one in found["columns"]] == [
        ("ward", "VARCHAR", False),
        ("n", "BIGINT", True),
    ]
    assert [ward for ward, _ in found["rows"]] == ["a", "b"]
    (ends,) = found["intervals"]
    for (_, value), low, high in zip(found["rows"], ends["low"], ends["high"], strict=True):
        assert low < value < high
    assert "95%" in found["reading"]
    assert found["cost"]["epsilon_paid"] == 1.0
    assert 0 < found["cost"]["epsilon_left"] < 1000
    again = server.query(QUESTION).json
    assert again["rows"] == found["rows"]
    assert again["release_id"] == found["release_id"]
    assert again["cost"]["free"]
    assert json.loads(first.headers["dpsql-answer"])["cost"] == found["cost"]
    assert "server" not in first.headers
    assert first.headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in first.headers)


def test_csv_arrow_and_parquet_have_intervals_cost_and_warnings(server: HttpServing) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    rows = server.query(QUESTION).json["rows"]
    found = server.query(QUESTION, accept="text/csv")
    assert found.headers["content-type"].startswith("text/csv")
    read = list(csv.DictReader(io.StringIO(found.body.decode())))
    assert [[one["ward"], int(one["n"])] for one in read] == rows
    assert float(read[0]["n_low"]) < float(read[0]["n_high"])
    stream = server.query(QUESTION, accept="application/vnd.apache.arrow.stream")
    table = pyarrow.ipc.open_stream(stream.body).read_all()
    packed = server.query(QUESTION, accept="application/vnd.apache.parquet;q=0.9, text/html")
    for each in (table, parquet.read_table(io.BytesIO(packed.body))):
        assert each.column_names == ["ward", "n", "n_low", "n_high"]
        assert [list(row.values())[:2] for row in each.to_pylist()] == rows
        assert json.loads(each.schema.metadata[b"dpsql"])["cost"]["free"]
    never = server.query(QUESTION, accept="text/csv;q=0, application/json;q=0.5")
    assert never.headers["content-type"] == "application/json"
    refused = server.query(QUESTION, accept="text/html, text/csv; q=0.0")
    assert (refused.status, refused.code) == (406, "not_acceptable")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/csv, application/json", "text/csv"),
        ("text/csv;q=0.2, application/json;q=0.7", "application/json"),
        ("application/json;q=0.2, text/csv;q=0.25", "text/csv"),
        ("application/json; q=0.2 , TEXT/CSV ; Q=1.0", "text/csv"),
        ("text/html, */*;q=0.1", "application/json"),
        ("application/json;q=0, */*;q=0.1", "text/csv"),
        ("text/*", "text/csv"),
        ("text/*;q=0.3, application/json;q=0.1, text/csv;q=0", "application/json"),
        ("*/*, application/json;q=0.5", "text/csv"),
        ("application/vnd.apache.parquet;q=0.9, text/csv;q=0.9", "application/vnd.apache.parquet"),
        ("text/csv;q=x, application/json;q=0.1", "application/json"),
        ("text/csv;header=present;q=0.5, application/json;q=0.4", "text/csv"),
        ("text/html", None),
        ("*/*;q=0", None),
        ("text/csv;q=2", None),
    ],
)
def test_a_client_has_the_format_that_it_would_rather_have(accept: str, kind: str | None) -> None:
    pytest.importorskip("pyarrow")
    headers = Headers({"accept": accept} if accept else {})
    if kind is None:
        with fails_with("not_acceptable"):
            accepted(headers)
    else:
        assert accepted(headers).value == kind


def test_parameters_and_options_are_values(server: HttpServing) -> None:
    asked = "SELECT COUNT(*) AS n FROM visits WHERE cost > ? AND day >= ? AND ward = ?"
    day = {"type": "date", "value": "2026-01-01"}
    cost = {"type": "decimal", "value": "5.0"}
    found = server.query(asked, parameters=[cost, day, "a"], options={"epsilon": 0.5}).json
    assert 800 < found["rows"][0][0] < 1200
    assert found["cost"]["epsilon_paid"] == 0.5
    named = "SELECT COUNT(*) AS n FROM visits WHERE ward = $ward"
    found = server.query(named, parameters={"ward": "a' OR '1' = '1"}).json
    assert found["rows"][0][0] < 100
    fresh = server.query(named, parameters={"ward": "a"}, fresh=True, seconds=30).json
    assert not fresh["cost"]["free"]


def test_values_of_each_type_have_one_form(server: HttpServing) -> None:
    found = server.query(
        "SELECT 1.50::DECIMAL(5,2) AS a, DATE '2026-02-03' AS b, 'é' AS c, true AS d, "
        "[1, 2] AS e, 'nan'::DOUBLE AS f, NULL AS g, 9007199254740993 AS h, '\\x41'::BLOB AS i"
    ).json
    assert found["rows"] == [
        ["1.50", "2026-02-03", "é", True, [1, 2], "NaN", None, "9007199254740993", "\\x41"]
    ]


def test_explaining_and_describing_tell_the_price_and_leave_the_ledger_as_it_is(
    server: HttpServing,
) -> None:
    server.query("SELECT 1")
    before = server.ledger
    asked = "SELECT ward, SUM(cost) AS s FROM visits WHERE day > ? GROUP BY ward"
    day = {"type": "date", "value": "2026-01-02"}
    found = server.ask("POST", "explain", {"sql": asked, "parameters": [day]}).json
    assert found["price_epsilon"] >= 1.0
    assert not found["free"]
    assert found["errors"][0]["margin"] > 0
    assert "visits" in found["text"]
    described = server.ask("POST", "describe", {"sql": asked}).json
    assert [one["name"] for one in described["columns"]] == ["ward", "s"]
    assert [one["name"] for one in described["parameters"]] == ["1"]
    assert server.ask("GET", "budget").status == 200
    assert server.query("SELECT * FROM visits").code == "raw_rows"
    assert server.query("SELEC 1").status == 422
    assert server.ledger == before


def test_what_there_is_can_be_listed(server: HttpServing) -> None:
    server.query(QUESTION)
    tables = server.ask("GET", "tables").json
    assert tables["dataset"] == "clinic"
    assert [one["name"] for one in tables["tables"]] == ["visits", "wards"]
    columns = server.ask("GET", "tables/visits").json["columns"]
    assert {one["name"] for one in columns} == {"patient_id", "cost", "ward", "day"}
    missing = server.ask("GET", "tables/visitors")
    assert (missing.status, missing.code) == (404, "unknown_table")
    assert "line" not in missing.json
    assert server.ask("GET", "tables/x%22%3B%20DROP%20TABLE%20wards").status == 404
    budget = server.ask("GET", "budget").json
    assert budget["account"] == "clinic/ana"
    assert budget["epsilon_limit"] == 1000
    assert budget["questions"] > 0
    assert QUESTION in {one["sql"] for one in server.ask("GET", "history").json["questions"]}
    assert len(server.ask("GET", "history?limit=1").json["questions"]) == 1
    for wrong in ("limit=0", "limit=-1", "limit=x", "limit=1&limit=2", "other=1", "limit=99999"):
        assert server.ask("GET", f"history?{wrong}").status == 400
    assert server.ask("GET", "views").json == {"views": []}


def test_views_are_created_and_listed(server: HttpServing) -> None:
    assert server.query("SHOW MATERIALIZED VIEWS").json["rows"] == []
    refused = server.query("CREATE MATERIALIZED VIEW v AS SELECT 1 AS one")
    assert refused.status == 422
    assert server.ask("GET", "views").json == {"views": []}


def test_whether_it_is_there_is_told_to_all_and_no_more(server: HttpServing) -> None:
    for path in ("healthz", "readyz"):
        found = server.ask("GET", path, token=None)
        assert (found.status, found.json) == (200, {"status": "ok"})


def test_openapi_has_each_route_and_its_schemas_fit_what_is_sent(server: HttpServing) -> None:
    found = server.ask("GET", "openapi.json", token=None).json
    assert found["openapi"] == "3.1.0"
    from dpsql.server.http.operations import OPERATIONS

    assert {(one.path, one.method.lower()) for one in OPERATIONS} == {
        (path, method) for path, methods in found["paths"].items() for method in methods
    }
    ids = [one["operationId"] for path in found["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))
    for name, schema in found["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert name
    for path, methods in found["paths"].items():
        for one in methods.values():
            named = {each["name"] for each in one["parameters"] if each["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))
            assert one["responses"]
    for reference in re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(found)):
        assert reference in found["components"]["schemas"]

    def fits(value: object, name: str) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": found["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)

    fits(server.query(QUESTION).json, "QueryReply")
    fits(server.ask("POST", "explain", {"sql": QUESTION}).json, "ExplainReply")
    fits(server.ask("POST", "describe", {"sql": QUESTION}).json, "DescribeReply")
    fits(server.ask("GET", "budget").json, "BudgetReply")
    fits(server.ask("GET", "tables/visits").json, "TableReply")
    fits(server.query("SELECT nope FROM visits").json, "ProblemReply")
    fits({"sql": "SELECT ?", "parameters": [1, None, "a"], "id": "a-1"}, "QueryRequest")
    with pytest.raises(jsonschema.ValidationError):
        fits({"sql": "SELECT 1", "unknown": 1}, "QueryRequest")


# -- errors ---------------------------------------------------------------------------------------


def test_an_error_has_its_code_its_place_and_a_hint(server: HttpServing) -> None:
    found = server.query("SELECT ward,\n nope FROM visits")
    assert found.status == 422
    assert found.json["code"] == "unknown_column"
    assert (found.json["line"], found.json["column"]) == (2, 2)
    assert found.json["kind"] == "UnknownName"
    assert found.json["type"] == "urn:dpsql:error:unknown_column"
    refused = server.query("SELECT * FROM visits").json
    assert refused["kind"] == "QueryRefused"
    assert refused["hint"]


def test_who_cannot_pay_is_told_by_402_and_nothing_is_spent(server: HttpServing) -> None:
    asked = "SELECT COUNT(*) AS n FROM visits WHERE cost > ?"
    assert server.query(asked, "bert", parameters=[1], options={"epsilon": 0.9}).status == 200
    before = server.ledger
    for cost in (2, 3):
        found = server.query(asked, "bert", parameters=[cost], options={"epsilon": 0.9})
        assert (found.status, found.code) == (402, "budget_exceeded")
        assert found.json["requested"]
    assert server.ledger == before
    assert server.query(asked, "bert", parameters=[1], options={"epsilon": 0.9}).json["cost"][
        "free"
    ]


def test_the_account_is_one_of_the_tokens_own(server: HttpServing) -> None:
    assert server.ask("GET", "budget", dpsql_account="bob").json["account"] == "clinic/bob"
    for account in ("eve", "clinic", "", "ana/x"):
        found = server.ask("GET", "budget", dpsql_account=account)
        assert (found.status, found.code) == (403, "not_allowed")
    assert server.ask("GET", "budget", token="bert", dpsql_account="ana").status == 403
    assert server.ask("GET", "budget", token="olga").status == 403


def test_settings_belong_to_requests(server: HttpServing) -> None:
    for statement in ("SET epsilon = 0.5", "RESET epsilon"):
        assert server.query(statement).code == "nothing_to_set"
    assert server.query("SHOW PARAMETERS").status == 200
    for options in (
        {"query": "x"},
        {"values": 1},
        {"fresh": True},
        {"seconds": 1},
        {"epsilon": "x"},
    ):
        assert server.query(QUESTION, options=options).status == 422
    assert server.query(QUESTION, options={"epsilon": -1}).code == "parameter_out_of_range"


@pytest.mark.slow
def test_a_query_ends_when_its_time_is_over(server: HttpServing) -> None:
    began = time.monotonic()
    found = server.query(SLOW, seconds=0.3)
    assert found.status >= 400
    assert time.monotonic() - began < 15


@pytest.mark.slow
def test_a_query_is_cancelled_by_its_own_user_alone(server: HttpServing) -> None:
    found: list[Any] = []

    def ask() -> Any:
        return server.query(f"{SLOW} AND 1 = 1", id="long-1")

    thread = threading.Thread(target=lambda: found.append(ask()))
    thread.start()
    audit, slow = server.directory / "audit.jsonl", f"{SLOW} AND 1 = 1"
    for _ in range(200):
        if slow in audit.read_text():
            break
        time.sleep(0.05)
    twin = server.query("SELECT 1", id="long-1")
    assert (twin.status, twin.code) == (409, "query_running")
    for token in ("eve", "bert"):
        other = server.ask("DELETE", "queries/long-1", token=token)
        assert (other.status, other.code) == (404, "query_not_running")
    assert server.ask("DELETE", "queries/long-1").status == 204
    thread.join(30)
    assert found[0].status in (409, 422)  # the part that was ended
    assert server.ask("DELETE", "queries/long-1").status == 404
    assert server.query("SELECT 1", id="long-1").status == 200


@pytest.mark.slow
def test_the_end_waits_for_what_runs_and_interrupts_what_is_left(tmp_path: Path) -> None:
    server = http_started(tmp_path, filled_with_tokens(tmp_path), "--grace", "1")
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(server.query(SLOW).status)
        except (OSError, EOFError, Exception) as error:  # noqa: BLE001
            found.append(type(error).__name__)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    try:
        for each in threads:
            each.start()
        time.sleep(1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(40) == 0
        for each in threads:
            each.join(10)
    finally:
        server.process.kill()
    assert len(found) == 2
    assert 200 not in found
    assert "Traceback" not in server.log.read_text()
