"""The routes of the door, as data: what they take and give, for routing and for OpenAPI."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final, Literal

from pydantic.json_schema import models_json_schema

from dpsql.agents.replies import ReplyPart
from dpsql.server.http.administration.operations import ADMINISTRATION, WATCHERS
from dpsql.server.http.bodies import (
    MOST_HISTORY,
    BudgetReply,
    BudgetRequestFacts,
    BudgetRequestsReply,
    DescribeReply,
    DescribeRequest,
    ExplainReply,
    ExplainRequest,
    HealthReply,
    HistoryReply,
    MoreBudgetRequest,
    ProblemReply,
    QueryReply,
    QueryRequest,
    TableReply,
    TablesReply,
    ViewsReply,
)
from dpsql.server.http.formats import MediaType
from dpsql.server.http.operation import ANALYSTS, Operation
from dpsql.server.http.problems import PROBLEM_TYPE
from dpsql.server.http.reading import most_taken

ACCOUNT_HEADER: Final = "dpsql-account"
_DESCRIPTION: Final = (
    "Differentially private SQL. Aggregates over people's data, with noise and intervals; each "
    "question costs epsilon, the same question again nothing."
)


OPERATIONS: Final = (
    *ADMINISTRATION,
    Operation("query", "POST", "/v1/query", "Answer a statement.", QueryReply, QueryRequest),
    Operation(
        "explain",
        "POST",
        "/v1/explain",
        "Price a question. Reads no data and costs nothing.",
        ExplainReply,
        ExplainRequest,
    ),
    Operation(
        "describe",
        "POST",
        "/v1/describe",
        "Describe the columns and query parameters of a statement. Reads no data.",
        DescribeReply,
        DescribeRequest,
    ),
    Operation("tables", "GET", "/v1/tables", "List the tables.", TablesReply),
    Operation("table", "GET", "/v1/tables/{name}", "Describe a table.", TableReply),
    Operation("budget", "GET", "/v1/budget", "Tell what is spent and left.", BudgetReply),
    Operation(
        "request_budget",
        "POST",
        "/v1/budget/requests",
        "Ask the owners for more budget.",
        BudgetRequestFacts,
        MoreBudgetRequest,
    ),
    Operation(
        "own_requests",
        "GET",
        "/v1/budget/requests",
        "List one's own requests for more budget.",
        BudgetRequestsReply,
        numbers={"limit": MOST_HISTORY},
    ),
    Operation(
        "history",
        "GET",
        "/v1/history",
        "List what was paid for.",
        HistoryReply,
        numbers={"limit": MOST_HISTORY},
    ),
    Operation("views", "GET", "/v1/views", "List the materialized views.", ViewsReply),
    Operation(
        "cancel", "DELETE", "/v1/queries/{id}", "Cancel a query of one's own that runs.", None
    ),
    Operation("health", "GET", "/v1/healthz", "Tell that it runs.", HealthReply, roles=None),
    Operation("ready", "GET", "/v1/readyz", "Tell that it answers.", HealthReply, roles=None),
    Operation("openapi", "GET", "/v1/openapi.json", "Show this document.", None, roles=None),
    Operation("metrics", "GET", "/metrics", "Count for Prometheus.", None, roles=WATCHERS),
)


@cache
def openapi() -> bytes:
    """Write the OpenAPI document of all routes."""
    models: set[type[ReplyPart]] = {ProblemReply}
    for one in OPERATIONS:
        models |= {each for each in (one.takes, one.gives) if each is not None}
    named = sorted(models, key=lambda each: each.__name__)
    references, schemas = models_json_schema(
        [(each, _mode(each)) for each in named], ref_template="#/components/schemas/{model}"
    )
    found = {each: references[each, _mode(each)] for each in named}
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, found)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "dpsql", "version": "1", "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return json.dumps(document).encode()


def _mode(model: type[ReplyPart]) -> Literal["validation", "serialization"]:
    takes = {one.takes for one in OPERATIONS}
    return "validation" if model in takes else "serialization"


def _operation(one: Operation, schemas: dict[type[ReplyPart], Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {
        "default": {
            "description": "What went wrong.",
            "content": {PROBLEM_TYPE: {"schema": schemas[ProblemReply]}},
        }
    }
    if one.name == "metrics":
        text = {"schema": {"type": "string"}}
        responses["200"] = {"description": "The metrics.", "content": {"text/plain": text}}
    elif one.name == "cancel":
        responses["204"] = {"description": "It has ended, or will at once."}
    elif one.gives is None:
        responses["200"] = _content("application/json", {"type": "object"})
    else:
        responses["200"] = _content("application/json", schemas[one.gives])
    if one.name == "query":
        for each in MediaType:
            responses["200"]["content"].setdefault(each.value, {})
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": _parameters(one),
        "responses": responses,
        "security": [] if one.roles is None else [{"token": []}],
    }
    if one.roles is not None:
        found["x-dpsql-roles"] = sorted(role.value for role in one.roles)
    if one.takes is not None:
        content = {"application/json": {"schema": schemas[one.takes]}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _content(kind: str, schema: object) -> dict[str, Any]:
    return {"description": "The reply.", "content": {kind: {"schema": schema}}}


def _parameters(one: Operation) -> list[dict[str, Any]]:
    found = []
    if "{" in one.path:
        name = one.path.partition("{")[2].rstrip("}")
        found.append({"name": name, "in": "path", "required": True, "schema": {"type": "string"}})
    if one.roles == ANALYSTS:
        text = "The account that pays, if not the usual one."
        schema = {"type": "string"}
        found.append(
            {"name": ACCOUNT_HEADER, "in": "header", "description": text, "schema": schema}
        )
    for name, most in one.numbers.items():
        number = {"type": "integer", "minimum": 1, "maximum": most_taken(most)}
        text = f"More than {most} count as {most}."
        found.append({"name": name, "in": "query", "description": text, "schema": number})
    return found
