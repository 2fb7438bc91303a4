"""Connections to a server over HTTP, with the face of those to data of one's own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Self, TypeVar, Unpack, cast

from dpsql import errors
from dpsql.client.answers import RemoteAnswer
from dpsql.client.budget_requests import RemoteBudgetRequest, own_requests, request_budget
from dpsql.client.transport import RemoteServer, bad_reply
from dpsql.core.formatting import significant
from dpsql.core.plain import plain_limit, plain_or
from dpsql.dbapi.cursor import Cursor
from dpsql.policy.parameters import INSTEAD_OF, PrivacyParameters, check_parameter_name
from dpsql.results.description import AnswerColumn, Description, QueryParameter
from dpsql.service.session import Session
from dpsql.service.statements import positive_seconds, statement_text
from dpsql.syntax.placeholders import PlaceholderValues, plain_values
from dpsql.syntax.statements import Explain, Reset, Set, Statement, read_statement

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, repr=False)
class RemotePrice:
    """The price of a question, before it is asked; ``text`` is the whole explanation."""

    price_epsilon: float
    free: bool
    why: str
    share_of_left: float | None
    text: str

    def __repr__(self) -> str:
        """Write the explanation."""
        return self.text


@dataclass(frozen=True, slots=True)
class RemoteBudget:
    """The account that pays at a server: limit, spending and rest, in epsilon."""

    account: str
    composition: str
    epsilon_limit: float | None
    epsilon_spent: float
    epsilon_left: float | None
    questions: int
    unsettled: int
    suspended: bool

    @property
    def headline(self) -> str:
        """One line on where the account stands."""
        spent = significant(self.epsilon_spent, 3)
        if self.epsilon_limit is None or self.epsilon_left is None:
            return f"ε {spent} spent, without a limit"
        left, limit = significant(self.epsilon_left, 3), significant(self.epsilon_limit, 3)
        return f"ε {left} of {limit} left" + ", suspended" * self.suspended


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """A table that may be asked about."""

    name: str
    access: str
    privacy_unit: str | None
    rows_per_unit: int | None
    defaults: str | None


@dataclass(frozen=True, slots=True)
class RemoteQuestion:
    """A question that was paid for. Asked again it is free, if it is ``stored``."""

    sql: str
    values: tuple[str, ...]
    asked: str
    stored: bool


class RemoteConnection:
    """Asks a server. Made by ``dpsql.connect``; safe to use from several threads.

    The server keeps nothing between questions: what ``SET`` sets is kept here, and sent with each.
    """

    def __init__(self, server: RemoteServer, parameters: Mapping[str, object]) -> None:
        for name in parameters:
            check_parameter_name(name)
        self._server = server
        self._parameters = dict(parameters)
        self._set: dict[str, object] = {}
        self._running: set[str] = set()
        self._closed = False

    def sql(
        self,
        query: str,
        values: PlaceholderValues = (),
        *,
        mechanism: str | None = None,
        fresh: bool = False,
        seconds: float | None = None,
        **parameters: Unpack[PrivacyParameters],
    ) -> RemoteAnswer:
        """Answer a statement, ended once ``seconds`` are over; all else is as in ``Session.sql``.

        Raises the server's errors as the classes that they are, and ``OperationalError``
        (``server_not_reached``).
        """
        body = self._question(query, values, mechanism, dict(parameters))
        name = secrets.token_hex(12)
        body |= {"fresh": fresh, "id": name}
        if seconds is not None:
            body["seconds"] = positive_seconds(seconds)
        self._running.add(name)
        try:
            reply = self._call("POST", "query", body)
        finally:
            self._running.discard(name)
        statement = read_statement(str(body["sql"]))
        self._keep_settings(statement)
        return RemoteAnswer(reply, explains=isinstance(statement, Explain))

    def explain(
        self,
        query: str,
        values: PlaceholderValues = (),
        *,
        mechanism: str | None = None,
        **parameters: Unpack[PrivacyParameters],
    ) -> RemotePrice:
        """Explain how a query would be answered, and its price. Reads no data, costs nothing."""
        found = self._call(
            "POST", "explain", self._question(query, values, mechanism, dict(parameters))
        )
        names = ("price_epsilon", "free", "why", "share_of_left", "text")
        return _read(lambda: RemotePrice(*(found[name] for name in names)))

    def describe(self, query: str, values: PlaceholderValues | None = None) -> Description:
        """Describe the columns of a statement's answer, and its query parameters."""
        body: dict[str, object] = {"sql": statement_text(query)}
        if values is not None:
            body["parameters"] = _sent(values)
        found = self._call("POST", "describe", body)
        return _read(
            lambda: Description(
                tuple(AnswerColumn(str(c["name"]), str(c["type"])) for c in found["columns"]),
                tuple(
                    QueryParameter(str(p["name"]), str(p["type"]) or None)
                    for p in found["parameters"]
                ),
            )
        )

    def tables(self) -> tuple[RemoteTable, ...]:
        """List the tables that may be asked about."""
        found = self._call("GET", "tables")
        names = ("name", "access", "privacy_unit", "rows_per_unit", "defaults")
        return _read(
            lambda: tuple(RemoteTable(*(one[name] for name in names)) for one in found["tables"])
        )

    def budget(self) -> RemoteBudget:
        """Tell the spending and the rest of the account that pays."""
        found = self._call("GET", "budget")
        names = ("account", "composition", "epsilon_limit", "epsilon_spent", "epsilon_left")
        counts = ("questions", "unsettled", "suspended")
        return _read(lambda: RemoteBudget(*(found[name] for name in (*names, *counts))))

    def request_budget(self, epsilon: float, why: str) -> RemoteBudgetRequest:
        """Ask the owners that the account may spend up to an epsilon in a window, and say why."""
        self.refuse_closed()
        return request_budget(self._server, epsilon, why)

    def budget_requests(self, limit: int = 20) -> tuple[RemoteBudgetRequest, ...]:
        """List one's latest requests for more budget with their outcome, the latest first."""
        self.refuse_closed()
        return own_requests(self._server, plain_limit(limit))

    def history(self, limit: int = 20) -> tuple[RemoteQuestion, ...]:
        """List the latest questions that were paid for, the latest first."""
        found = self._call("GET", f"history?limit={plain_limit(limit)}")
        return _read(
            lambda: tuple(
                RemoteQuestion(one["sql"], tuple(one["values"]), one["asked"], one["stored"])
                for one in found["questions"]
            )
        )

    def cursor(self) -> Cursor:
        """Open a new cursor of PEP 249. Raises ``InterfaceError`` if the connection is closed."""
        self.refuse_closed()
        return Cursor(cast(Session, self))  # what a cursor asks of a session, this answers, too

    def interrupt(self) -> None:
        """End the queries that other threads run on this connection; they fail.

        What they reserved stays spent, unless it was settled before.
        """
        for name in list(self._running):
            try:
                self._call("DELETE", f"queries/{name}")  # 24 hexadecimal digits
            except errors.InterfaceError as error:
                if error.code != "query_not_running":
                    raise

    def reset(self) -> None:
        """Forget all that SET has set, as RESET ALL and DISCARD ALL do."""
        self.refuse_closed()
        self._set.clear()

    def commit(self) -> None:
        """Do nothing, but raise ``InterfaceError`` if the connection is closed."""
        self.refuse_closed()

    def rollback(self) -> None:
        """Do nothing (no charge is refunded), but raise ``InterfaceError`` if closed."""
        self.refuse_closed()

    def close(self) -> None:
        """Refuse all further statements. Closing twice is no error."""
        self._closed = True
        self._server.close()

    def refuse_closed(self) -> None:
        """Raise ``InterfaceError`` if the connection is closed."""
        if self._closed:
            raise errors.InterfaceError("the connection is closed", code="closed")

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        return f"<dpsql.RemoteConnection to {self._server.host}:{self._server.port}{closed}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _question(
        self,
        query: str,
        values: PlaceholderValues,
        mechanism: str | None,
        parameters: Mapping[str, object],
    ) -> dict[str, object]:
        for name in parameters:
            check_parameter_name(name)
        found: dict[str, object] = {
            "sql": statement_text(query),
            "parameters": _sent(values),
            "options": _sent_options(parameters),
            "session": {"parameters": _sent_options(self._parameters), "set": dict(self._set)},
        }
        if mechanism is not None:
            found["mechanism"] = mechanism
        return found

    def _keep_settings(self, statement: Statement) -> None:
        """Keep what a statement has set at the server, for the statements to come."""
        match statement:
            case Set(name, value):
                self._set.pop(INSTEAD_OF.get(name, ""), None)
                self._set[name] = value
            case Reset(name):
                self._set.pop(name, None)

    def _call(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        self.refuse_closed()
        return self._server.call(method, path, body)


def _sent(values: PlaceholderValues) -> list[object] | dict[str, object]:
    """Return values of query parameters as a request has them."""
    found = plain_values(values)
    if isinstance(found, Mapping):
        return {str(name): _sent_value(value) for name, value in found.items()}
    return [_sent_value(value) for value in found]


def _sent_options(given: Mapping[str, object]) -> dict[str, object]:
    """Return privacy parameters as a request has them."""
    return {name: plain_or(value, str(value)) for name, value in given.items()}


def _sent_value(value: object) -> object:
    kinds = ((datetime, "timestamp"), (date, "date"), (time, "time"))
    for kind, name in kinds:
        if isinstance(value, kind):
            return {"type": name, "value": value.isoformat()}
    if isinstance(value, Decimal):
        return {"type": "decimal", "value": f"{value:f}"}
    return value


def _read(read: Callable[[], _Found]) -> _Found:
    """Read a reply. Raises ``OperationalError`` (``bad_reply``) for one of another form."""
    try:
        return read()
    except (KeyError, TypeError, ValueError):
        pass
    raise bad_reply()
