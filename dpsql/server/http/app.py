"""Answers requests: who asks, what is asked, and a session for each.

Nothing of a request but its headers is read before its login. A client that goes away ends its
query only as long as that waits for its turn; once it has begun it comes to its end, as on the
other door, and asked again it is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpsql.agents.facts import (
    Charges,
    contribution_bounds_of,
    epsilon_left,
    expected_errors,
    free_words,
    keys_of,
    more_questions,
    paid_cost,
    table_facts,
    tables_of,
    warnings_of,
)
from dpsql.agents.kept import KeptAnswer
from dpsql.agents.replies import ReplyPart
from dpsql.agents.values import json_cell
from dpsql.core.formatting import upper_figure
from dpsql.core.timeout import timed
from dpsql.errors import InterfaceError, PolicyError, UnknownName
from dpsql.pipeline.events import QuestionAnswered, SessionEvent
from dpsql.policy.parameters import check_parameter_name
from dpsql.results.edition import DataEdition
from dpsql.server.desk import Desk
from dpsql.server.guard import Guard, TokenKnock
from dpsql.server.http.administration.act import Act
from dpsql.server.http.administration.doing import done
from dpsql.server.http.administration.operations import DOING
from dpsql.server.http.administration.requests import request_facts
from dpsql.server.http.bodies import (
    MOST_HISTORY,
    BudgetReply,
    BudgetRequestsReply,
    DescribeReply,
    DescribeRequest,
    ExplainReply,
    ExplainRequest,
    HealthReply,
    HistoryReply,
    MoreBudgetRequest,
    PaidQuestion,
    QueryRequest,
    StatementColumn,
    TableReply,
    TablesReply,
    ViewsReply,
    read_values,
)
from dpsql.server.http.formats import (
    ANSWER_HEADER,
    EDITION_HEADER,
    AnswerFacts,
    MediaType,
    accepted,
    edition_header,
    written_answer,
)
from dpsql.server.http.metrics import METRICS_TYPE, MetricsPage
from dpsql.server.http.operation import Operation
from dpsql.server.http.operations import ACCOUNT_HEADER, OPERATIONS, openapi
from dpsql.server.http.problems import problem_response
from dpsql.server.http.protected_resource import ProtectedResource
from dpsql.server.http.reading import (
    bearer_of,
    parsed_body,
    query_numbers,
    read_body,
    require_host,
    require_no_body,
    require_one_length,
)
from dpsql.server.people.budget_requests import BudgetRequest
from dpsql.server.people.records import ALL_SCOPES, WIRE_SEPARATOR, Login, Role
from dpsql.server.people.scram import login_failed
from dpsql.server.tally import Tally
from dpsql.server.workers import Workers
from dpsql.service.session import Session
from dpsql.syntax.statements import Reset, Set, read_statement

_Found = TypeVar("_Found")
AGENTS_PATH: Final = "/mcp"
_ASKED: Final = "dpsql.operation"
_BY_LOGIN: Final = frozenset({"cancel", "own_requests", "metrics"})
"""Operations that open no session, and check no login again, in their own turn."""
_SMALL_BODY: Final = 16_384
_TRIES: Final = 200
_PAUSE: Final = 0.05  # between tries to end a query that may be about to begin reading


@dataclass(slots=True, eq=False)
class RunningQuery:
    """A query between its arrival and its end. ``unwanted`` ends it while it waits for its turn."""

    account: str
    unwanted: bool = False
    session: Session | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self, session: Session) -> None:
        """Begin to answer it. Raises ``InterfaceError`` where nobody waits for it any more."""
        self.session = session  # before ``unwanted`` is read: one thread sees the other
        if self.unwanted:
            raise InterfaceError("the query was cancelled", code="cancelled")

    def interrupt(self) -> None:
        """End the request, whether it waits or runs in the engine."""
        self.unwanted = True
        if self.session is not None:
            self.session.interrupt()


@dataclass(slots=True)
class _Heard:
    """What the events of a session tell of its answer."""

    charges: Charges = field(default_factory=Charges)
    question: str | None = None

    def __call__(self, event: SessionEvent) -> None:
        self.charges(event)
        if isinstance(event, QuestionAnswered):
            self.question = event.fingerprint


@dataclass(slots=True)
class _Call:
    """A request after its login; ``edition`` is the opening of the data that it was answered on."""

    request: Request
    knock: TokenKnock
    given: Any
    edition: DataEdition | None = None

    @property
    def account(self) -> str | None:
        return self.request.headers.get(ACCOUNT_HEADER)


class AgentDoor(Protocol):
    """Tools for agents: replies to requests of their protocol."""

    async def reply(self, request: Request, knock: TokenKnock, asked: str | None) -> ASGIApp:
        """Return the reply to a request. Raises a ``dpsql.Error``."""

    def interrupt(self) -> None:
        """End all calls that run or wait."""


class HttpApp:
    """The application of the door, for a server of ASGI. ``hosts`` are its names, any if None.

    ``agents`` are the tools at ``/mcp``, if there are any.
    """

    def __init__(
        self,
        guard: Guard,
        workers: Workers,
        desk: Desk,
        tally: Tally,
        hosts: frozenset[str] | None,
        agents: AgentDoor | None,
    ) -> None:
        self._guard = guard
        self._workers = workers
        self._desk = desk
        self._tally = tally
        self._page = MetricsPage(tally)
        self._hosts = hosts
        self._agents = agents
        self._resource: ProtectedResource | None = None
        self._named: dict[tuple[str, str], RunningQuery] = {}
        self._queries: set[RunningQuery] = set()
        self.stopping = False
        # Routes are tried in turn: that of most requests goes first.
        routes = [
            Route(one.path, partial(self._respond, one), methods=[one.method])
            for one in sorted(OPERATIONS, key=lambda one: one.name != "query")
        ]
        if agents is not None:
            routes.append(Route(AGENTS_PATH, partial(self._agent, agents), methods=["POST"]))
            if guard.sign_on is not None:
                self._resource = found = ProtectedResource(guard.sign_on, AGENTS_PATH)
                routes.append(Route(found.metadata_path, found.reply, methods=["GET"]))
        self._routes = routes
        self._router = Router(routes, redirect_slashes=False)

    def interrupt(self) -> None:
        """End all queries that run or wait."""
        for each in self._queries:
            each.interrupt()
        if self._agents is not None:
            self._agents.interrupt()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever it is."""
        if scope["type"] != "http":
            return
        begun = False

        async def told(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._tally.count("requests", scope.get(_ASKED, "none"), str(message["status"]))
                message["headers"] = [*message.get("headers", []), *_always()]
            await send(message)

        try:
            scope["app"] = self  # the router raises what it does not find
            headers = Headers(scope=scope)
            require_host(headers, self._hosts)
            require_one_length(headers)
            await self._router(scope, receive, told)
        except HTTPException as error:
            await self._unrouted(scope, error)(scope, receive, told)
        except Exception as error:  # noqa: BLE001 - of what is not ours only a number is told
            response = problem_response(error)
            if not begun:
                await response(scope, receive, told)

    def _unrouted(self, scope: Scope, error: HTTPException) -> Response:
        """Answer a request for an unknown route, or by a method that its route does not have."""
        if error.status_code != 405:
            return problem_response(
                InterfaceError(
                    "there is no such route",
                    code="unknown_route",
                    hint="/v1/openapi.json lists them.",
                )
            )
        found = problem_response(
            InterfaceError("the route has no such method", code="method_not_allowed")
        )
        methods = [
            route.methods or set()
            for route in self._routes
            if route.matches(scope)[0] is not Match.NONE
        ]
        found.headers["allow"] = ", ".join(sorted(set[str]().union(*methods)))
        return found

    async def _respond(self, one: Operation, request: Request) -> Response:
        try:
            request.scope[_ASKED] = one.name
            if one.method != "POST":
                require_no_body(request.headers)
            if one.roles is None:
                return self._open(one)
            call = await self._called(one, one.roles, request)
            if one.name in DOING:
                return await self._administered(one, call)
            found: Response = await getattr(self, f"_{one.name}")(call)
            if call.edition is not None:
                found.headers[EDITION_HEADER] = edition_header(call.edition)
            return found
        except HTTPException:
            raise
        except Exception as error:  # noqa: BLE001 - of what is not ours only a number is told
            return problem_response(error)

    async def _agent(self, agents: AgentDoor, request: Request) -> ASGIApp:
        try:
            request.scope[_ASKED] = "mcp"
            knock = await self._let_in(request)
            return await agents.reply(request, knock, request.headers.get(ACCOUNT_HEADER))
        except Exception as error:  # noqa: BLE001 - of what is not ours only a number is told
            refused = problem_response(error)
            if refused.status_code == 401 and self._resource is not None:
                refused.headers["www-authenticate"] = self._resource.challenge(request)
            return refused

    def _open(self, one: Operation) -> Response:
        if one.name == "openapi":
            return Response(openapi(), media_type=MediaType.JSON.value)
        if one.name == "ready" and self.stopping:
            raise InterfaceError("the server is stopping", code="closed")
        return _reply(HealthReply(status="ok"))

    async def _let_in(
        self,
        request: Request,
        roles: frozenset[Role] = frozenset(),
        *,
        checked_later: bool = False,
    ) -> TokenKnock:
        """Let a client in by its token, for one of ``roles`` where there are any.

        ``checked_later``: whether the token still holds is told by what is done for it.
        Raises ``login_failed``, and ``NotSupportedError`` (``not_allowed``).
        """
        secret = bearer_of(request.headers)
        address = request.client.host if request.client is not None else ""

        def authorized(knock: TokenKnock) -> None:
            if roles:
                self._guard.authorize(knock, roles)

        def knocked() -> TokenKnock:
            knock = self._guard.knock_by_token(secret, address)
            if knock.login is not None and not knock.wait:
                authorized(knock)
            return knock

        known = self._guard.knock_again(secret, address) if checked_later else None
        if known is None:
            knock = await self._workers.shortly(knocked)
        else:
            knock = known
            if not knock.wait:
                authorized(knock)
        if knock.login is None:
            await asyncio.sleep(knock.wait)
            raise login_failed()
        if knock.wait:
            await asyncio.sleep(knock.wait)
            await self._workers.shortly(lambda: authorized(knock))
        return knock

    async def _called(self, one: Operation, roles: frozenset[Role], request: Request) -> _Call:
        """Let a client in, then read what it sends."""
        knock = await self._let_in(request, roles, checked_later=one.name not in _BY_LOGIN)
        takes = one.takes
        if takes is None:
            return _Call(request, knock, None)
        body = await read_body(request)
        if len(body) <= _SMALL_BODY:  # read in less time than another thread takes to begin
            return _Call(request, knock, parsed_body(body, takes))
        return _Call(request, knock, await self._workers.shortly(lambda: parsed_body(body, takes)))

    async def _administered(self, one: Operation, call: _Call) -> Response:
        """Do what an owner or an auditor asks for."""
        login, client = call.knock.login, call.request.client
        assert login is not None, "only who is let in asks"
        numbers = query_numbers(call.request.query_params.multi_items(), one.numbers)
        address = "" if client is None else client.host
        act = Act(one.name, login, address, call.given, numbers)
        await self._workers.shortly(lambda: self._guard.require_current(call.knock))
        try:
            return _reply(await self._workers.aside(lambda: done(self._desk, act)))
        except PolicyError as error:
            return problem_response(error, 422)  # of policies that were sent

    async def _metrics(self, call: _Call) -> Response:
        return Response(self._page.write(), media_type=METRICS_TYPE)

    async def _in_session(self, call: _Call, work: Callable[[Session], _Found]) -> _Found:
        """Do work of a session of its own, in the turn of its account. It costs nothing."""

        def on_one_edition(session: Session) -> tuple[_Found, DataEdition]:
            while True:
                edition = session.edition
                found = work(session)
                if session.edition == edition:
                    return found, edition

        account = self._guard.account_of(call.knock, call.account)
        found, call.edition = await self._admitted(call, account, on_one_edition)
        return found

    async def _admitted(
        self,
        call: _Call,
        account: str,
        work: Callable[[Session], _Found],
        heard: _Heard | None = None,
    ) -> _Found:
        """Open a session in the turn of its account, do its work, and close it, in one thread."""
        asked = call.given.session if isinstance(call.given, ExplainRequest) else None
        given = {} if asked is None else _checked_names(asked.parameters)

        def in_turn() -> _Found:
            with self._guard.admit_by_token(call.knock, account, heard, given).session as session:
                return work(session)

        return await self._workers.run(account, in_turn)

    # -- statements -------------------------------------------------------------------------------

    async def _query(self, call: _Call) -> Response:
        given: QueryRequest = call.given
        kind = accepted(call.request.headers)
        login = call.knock.login
        assert login is not None, "only who is let in asks"
        name = None if given.id is None else (_canceller(login), given.id)
        heard = _Heard()
        query = RunningQuery(self._guard.account_of(call.knock, call.account))
        watch = asyncio.create_task(_watch(call.request.receive, query))
        try:
            if name is not None:
                self._name(name, query)
            self._queries.add(query)
            work = partial(_answered, query, given, kind, heard)
            body, facts, call.edition = await self._admitted(call, query.account, work, heard)
        finally:
            query.ended.set()
            watch.cancel()
            self._queries.discard(query)
            if name is not None and self._named.get(name) is query:
                del self._named[name]
        return Response(body, headers={ANSWER_HEADER: facts.header()}, media_type=kind.value)

    def _name(self, name: tuple[str, str], query: RunningQuery) -> None:
        if name in self._named:
            raise InterfaceError(
                "a query of this id runs",
                code="query_running",
                hint="Choose another id for each query.",
            )
        self._named[name] = query

    async def _cancel(self, call: _Call) -> Response:
        login = call.knock.login
        assert login is not None, "only who is let in cancels"
        found = self._named.get((_canceller(login), call.request.path_params["id"]))
        if found is None or found.account not in login.accounts:
            raise InterfaceError(
                "no query of this id runs",
                code="query_not_running",
                hint="It may have ended. Only one's own can be cancelled.",
            )
        for _ in range(_TRIES):
            if found.ended.is_set():
                break
            found.interrupt()
            with suppress(TimeoutError):
                await asyncio.wait_for(found.ended.wait(), _PAUSE)
        return Response(status_code=204)

    async def _explain(self, call: _Call) -> Response:
        given: ExplainRequest = call.given

        def work(session: Session) -> ExplainReply:
            values, options = _arguments(session, given)
            found = session.explain(given.sql, values, mechanism=given.mechanism, **options)
            why = free_words(found)
            return ExplainReply(
                price_epsilon=0.0 if why else upper_figure(found.reserved_epsilon),
                free=bool(why),
                why=why,
                share_of_left=0.0 if why else _finite(found.taken),
                errors=expected_errors(found),
                keys=keys_of(found),
                bounds=contribution_bounds_of(found),
                text=str(found),
            )

        return _reply(await self._in_session(call, work))

    async def _describe(self, call: _Call) -> Response:
        given: DescribeRequest = call.given

        def work(session: Session) -> DescribeReply:
            values: Any = None if given.parameters is None else read_values(given.parameters)
            found = session.describe(given.sql, values)
            return DescribeReply(
                columns=[StatementColumn(name=one.name, type=one.type) for one in found.columns],
                parameters=[
                    StatementColumn(name=one.name, type=one.type or "") for one in found.parameters
                ],
            )

        return _reply(await self._in_session(call, work))

    # -- what there is ----------------------------------------------------------------------------

    async def _tables(self, call: _Call) -> Response:
        tables = await self._in_session(call, tables_of)
        return _reply(TablesReply(dataset=self._guard.dataset_name, tables=tables))

    async def _table(self, call: _Call) -> Response:
        name = call.request.path_params["name"]
        try:
            table, columns = await self._in_session(call, lambda opened: table_facts(opened, name))
        except UnknownName as error:
            error.place = None  # it would be one in a statement that nobody wrote
            return problem_response(error, 404)
        return _reply(TableReply(table=table, columns=columns))

    async def _budget(self, call: _Call) -> Response:
        report = await self._in_session(call, lambda session: session.budget())
        own = report.accounts[0]
        bound = own.binding
        return _reply(
            BudgetReply(
                account=own.path,
                composition=str(report.composition),
                epsilon_limit=None if bound is None else bound.budget.epsilon,
                epsilon_spent=upper_figure(own.spent.epsilon),
                epsilon_left=epsilon_left(report.accounts),
                questions=own.spent.queries,
                unsettled=own.spent.unsettled,
                suspended=bool(report.suspended),
                room=more_questions(report),
            )
        )

    async def _request_budget(self, call: _Call) -> Response:
        """Keep a request for more budget, which reads nothing and needs no session."""
        given: MoreBudgetRequest = call.given

        def kept() -> Response:
            account = self._guard.account_to_fill(call.knock, call.account)
            login = call.knock.login
            assert login is not None, "only who is let in asks"

            def noted(one: BudgetRequest) -> None:
                self._desk.audit.write(
                    "budget_requested",
                    user=one.user,
                    token=login.token,
                    account=one.account,
                    number=one.number,
                    epsilon=one.epsilon,
                )

            requests = self._desk.users.requests
            return _reply(
                request_facts(
                    requests.file(
                        *(self._guard.dataset_name, login.user, account),
                        *(given.epsilon, given.why, noted),
                    )
                )
            )

        return await self._workers.shortly(kept)

    async def _own_requests(self, call: _Call) -> Response:
        login = call.knock.login
        assert login is not None, "only who is let in asks"
        given = query_numbers(call.request.query_params.multi_items(), {"limit": MOST_HISTORY})
        limit = given.get("limit", MOST_HISTORY)
        found = await self._workers.shortly(
            lambda: self._desk.users.requests.of_user(self._guard.dataset_name, login.user, limit)
        )
        return _reply(BudgetRequestsReply(requests=[request_facts(each) for each in found]))

    async def _history(self, call: _Call) -> Response:
        given = query_numbers(call.request.query_params.multi_items(), {"limit": MOST_HISTORY})
        limit = given.get("limit", MOST_HISTORY)
        found = await self._in_session(call, lambda session: session.history(limit))
        questions = [
            PaidQuestion(
                sql=one.statement, values=list(one.values), asked=one.asked, stored=one.stored
            )
            for one in found
        ]
        return _reply(HistoryReply(questions=questions))

    async def _views(self, call: _Call) -> Response:
        def work(session: Session) -> ViewsReply:
            found = session.sql("SHOW MATERIALIZED VIEWS")
            rows = [map(json_cell, row) for row in found.fetchall()]
            return ViewsReply(views=[dict(zip(found.columns, row, strict=True)) for row in rows])

        return _reply(await self._in_session(call, work))


def _answered(
    query: RunningQuery, given: QueryRequest, kind: MediaType, heard: _Heard, session: Session
) -> tuple[bytes, AnswerFacts, DataEdition | None]:
    """Answer a statement and write its answer, in a thread."""
    query.begin(session)
    if given.session is None and isinstance(read_statement(given.sql), Set | Reset):
        raise InterfaceError(
            "each request has a session of its own, so nothing would stay set",
            code="nothing_to_set",
            hint="Give privacy parameters in the options of the request.",
        )
    values, options = _arguments(session, given)
    if given.seconds is None:
        result = session.sql(
            given.sql, values, mechanism=given.mechanism, fresh=given.fresh, **options
        )
    else:
        with timed(given.seconds):
            prepared = session.prepare(given.sql, mechanism=given.mechanism, **options)
            result = prepared.run(values, fresh=given.fresh, seconds=given.seconds)
    kept = KeptAnswer.of(result)
    cost = paid_cost(result.cost, heard.charges, session.accounts())
    facts = AnswerFacts(
        *(result.summary(), warnings_of(result), list(result.mechanisms), cost, heard.question),
        kept.edition,
    )
    return written_answer(result, kept, facts, kind), facts, result.edition


def _arguments(session: Session, given: ExplainRequest) -> tuple[Any, dict[str, Any]]:
    """Return values of query parameters, and privacy parameters by their names.

    What SET has set in the session that the request goes on with is set in this one.
    """
    if given.session is not None:
        session.restore(given.session.set)
    return read_values(given.parameters), _checked_names(given.options)


def _checked_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return privacy parameters by their names. Raises ``ParameterError`` for others."""
    for name in options:
        check_parameter_name(name)
    return dict(options)


async def _watch(receive: Callable[[], Awaitable[Message]], query: RunningQuery) -> None:
    """Mark a query as unwanted once its client has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue
    query.unwanted = True


def _canceller(login: Login) -> str:
    """Name whoever may cancel a query: its user, unless the token is limited; then that alone.

    What a cancelled question has reserved stays spent.
    """
    return (
        login.user if login.scopes >= ALL_SCOPES else f"{login.user}{WIRE_SEPARATOR}{login.token}"
    )


def _finite(share: float | None) -> float | None:
    return None if share is None or share == float("inf") else share


def _reply(found: ReplyPart) -> Response:
    return Response(found.model_dump_json(), media_type=MediaType.JSON.value)


def _always() -> list[tuple[bytes, bytes]]:
    return [
        (b"date", formatdate(usegmt=True).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
