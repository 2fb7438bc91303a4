"""A connection after its login: statements come in, answers go out, one at a time.

Simple and extended query stand on the same session; describing plans and never reads. After an
error of an extended query all is skipped up to the next Sync. Transactions undo nothing, as what is
paid for stays paid for: their status is kept, as drivers rely on it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypeVar

import numpy as np

from dpsql.core.formatting import figure_above, printable, significant
from dpsql.core.timeout import timed
from dpsql.errors import Error, InterfaceError
from dpsql.policy.parameters import INSTEAD_OF
from dpsql.results.edition import DataEdition
from dpsql.results.result import Result
from dpsql.server.wire import messages
from dpsql.server.wire.errors import error_fields, fields
from dpsql.server.wire.messages import (
    BindMessage,
    CallMessage,
    CloseMessage,
    CopyMessage,
    DescribeMessage,
    ExecuteMessage,
    FlushMessage,
    Frontend,
    ParseMessage,
    PasswordMessage,
    ProtocolError,
    QueryMessage,
    SyncMessage,
    TerminateMessage,
    WireColumn,
)
from dpsql.server.wire.portals import (
    Portal,
    PortalRows,
    PreparedText,
    RowsWithEnds,
    SentRows,
    ToldColumns,
    columns_with_ends,
    copied,
    copy_format,
    wire_columns,
)
from dpsql.server.wire.probes import EDITION_SETTING, Probe
from dpsql.server.wire.values import (
    TEXT_FORMAT,
    encoded_column,
    formats_of,
    parameter_of,
    types_of_casts,
    wire_type,
)
from dpsql.service.session import Session
from dpsql.syntax.connection_statements import (
    Begin,
    Copy,
    Declare,
    Discard,
    End,
    Fetch,
    Mark,
    Own,
    SetLocal,
    ShowIntervals,
    Shut,
    Timeout,
    own_statement,
    words_of,
)
from dpsql.syntax.split import split
from dpsql.syntax.statements import Reset, Set, Statement, read_statement

IDLE, IN_TRANSACTION, FAILED_TRANSACTION = b"I", b"T", b"E"
MOST_KEPT: Final = 1_000
"""How many statements or portals a connection may keep."""
MOST_BYTES: Final = 16_000_000
"""How many bytes of texts and values they may have together."""
MOST_TEXT: Final = 400_000
"""The longest text of a message, in characters; a statement may have 100,000."""
MOST_STATEMENTS: Final = 1_000
"""How many statements a message may have."""

_Found = TypeVar("_Found")


class Worker(Protocol):
    """Where blocking work is done, when its turn has come."""

    async def __call__(self, work: Callable[[], _Found]) -> _Found:
        """Do the work; returns what it returns."""


class CatalogAnswerer(Protocol):
    """A statement over catalogs, which is answered beside the session."""

    @property
    def parameters(self) -> tuple[int, ...]:
        """The OIDs of the types of its parameters, 0 where nothing tells."""

    def describe(self, values: Sequence[object] | None, seconds: float) -> SentRows:
        """Describe its columns, without rows; ``values`` are None if they are not known."""

    def answer(self, values: Sequence[object], seconds: float) -> SentRows:
        """Answer it with values for its parameters, within ``seconds`` unless these are 0."""


class CatalogDoor(Protocol):
    """Statements over catalogs, told from all others."""

    def may_read(self, text: str) -> bool:
        """Tell quickly whether a statement may be one of them."""

    def read(self, text: str) -> CatalogAnswerer | None:
        """Read a statement over catalogs; None for all others."""

    def interrupt(self) -> None:
        """End the statement that is answered now. For other threads to call."""


@dataclass(slots=True)
class _Settings:
    """What was set before SET LOCAL, to be set again once the transaction ends."""

    timeout: float
    intervals: bool
    kept: dict[str, object]

    def keep(self, statement: Statement) -> None:
        """Keep what SET or RESET without LOCAL has changed since."""
        match statement:
            case Set(name, value):
                self.kept.pop(INSTEAD_OF.get(name, ""), None)
                self.kept[name] = value
            case Reset(name):
                self.kept.pop(name, None)


@dataclass(slots=True, eq=False)
class _Asked:
    """A message between its arrival and its end, which a client may not want any more."""

    unwanted: bool = False

    def begin(self) -> None:
        """Begin to answer it. Raises ``InterfaceError`` where nobody wants it any more."""
        if self.unwanted:
            raise InterfaceError("the query was cancelled", code="cancelled")


class Conversation:
    """A connection of one client: prepared statements, portals, and the status of its transaction.

    ``work`` runs statements in their turn, ``read`` what takes a moment and no turn. ``write``
    sends bytes, and waits while the client does not read. ``edition`` is the opening of the data
    that the client was told; it is told others with their first answers. ``probed`` answers the
    questions of drivers that are no session's, ``catalogs`` those of tools.
    """

    def __init__(
        self,
        session: Session,
        work: Worker,
        read: Worker,
        write: Callable[[bytes], Awaitable[None]],
        edition: DataEdition | None = None,
        probed: Callable[[str], Probe | None] = lambda text: None,
        catalogs: CatalogDoor | None = None,
    ) -> None:
        self._session = session
        self._probed = probed
        self._catalogs = catalogs
        self._work = work
        self._read = read
        self._write = write
        self._edition = edition
        self._statements: dict[str, PreparedText] = {}
        self._portals: dict[str, Portal] = {}
        self._cursors: dict[str, PortalRows] = {}
        self.status = IDLE
        self._skipping = False
        self._text = ""
        self._timeout, self._intervals = 0.0, False
        self._before: _Settings | None = None
        self._asked: _Asked | None = None

    async def cancel(self) -> None:
        """End the statement that is asked now, read, waiting or running, and no other.

        It is interrupted until it has ended, as it may be about to begin.
        """
        asked = self._asked
        if asked is None:
            return
        asked.unwanted = True
        while self._asked is asked:
            self._session.interrupt()
            if self._catalogs is not None:
                self._catalogs.interrupt()
            await asyncio.sleep(_PAUSE)

    @property
    def skipping(self) -> bool:
        """True after an error, until the client says Sync."""
        return self._skipping

    async def take(self, message: Frontend) -> bool:
        """Answer one message; returns False once the client is done."""
        if isinstance(message, TerminateMessage):
            return False
        self._asked = _Asked()
        try:
            await self._taken(message, self._asked)
        finally:
            self._asked = None
        return True

    async def _taken(self, message: Frontend, asked: _Asked) -> None:
        if isinstance(message, SyncMessage | QueryMessage) and self.status == IDLE:
            self._portals.clear()  # they last as long as their transaction
        if isinstance(message, SyncMessage):
            self._skipping = False
            await self._write(messages.ready_for_query(self.status))
        elif isinstance(message, QueryMessage):
            self._skipping = False
            await self._simple(message.text)
            await self._write(messages.ready_for_query(self.status))
        elif not self._skipping:
            self._text = ""  # of the statement that is at fault
            try:
                await self._extended(message)
                if not isinstance(message, ExecuteMessage):  # what was answered stays so
                    asked.begin()
            except Exception as error:  # noqa: BLE001 - of what is not ours only a number is told
                await self._failed(error, self._text)
                self._skipping = True

    # -- simple queries ---------------------------------------------------------------------------

    async def _simple(self, text: str) -> None:
        at = 0, text
        try:
            pieces = await self._read(partial(_pieces_of, text))
            if not pieces:
                await self._write(messages.EMPTY_QUERY)
            for at in pieces:
                await self._answer_simply(at[1])
        except Exception as error:  # noqa: BLE001 - of what is not ours only a number is told
            await self._failed(error, at[1], at[0])

    async def _answer_simply(self, statement: str) -> None:
        own = await self._read(partial(own_statement, statement))
        self._refuse_failed(own)
        if own is not None:
            await self._do(own, statement)
            return
        probe = self._probe(statement)
        if probe is not None:
            await self._tell(probe, described=False)
            return
        rows = await self._answered(statement, ())
        if rows.fields and not _is_setting(statement):
            await self._write(rows.description())
        await self._send(rows, None, statement)

    # -- extended queries -------------------------------------------------------------------------

    async def _extended(self, message: Frontend) -> None:
        match message:
            case ParseMessage(name, text, types):
                self._room(self._statements, name)
                if name and name in self._statements:
                    raise ProtocolError("a prepared statement of this name exists", "42P05")
                self._text = text
                prepared = await self._read(partial(_prepared_text, text, types))
                self._require_memory(prepared.size)
                self._statements[name] = prepared
                await self._write(messages.PARSED)
            case BindMessage():
                await self._bind(message)
            case DescribeMessage(True, name):
                await self._describe_portal(self._portal(name))
            case DescribeMessage(_, name):
                await self._describe_statement(name, self._prepared(name))
            case ExecuteMessage(name, rows):
                await self._execute(self._portal(name), rows or None)
            case CloseMessage(portal, name):
                kept: dict[str, Portal] | dict[str, PreparedText]
                kept = self._portals if portal else self._statements
                kept.pop(name, None)
                await self._write(messages.CLOSED)
            case FlushMessage() | CopyMessage():
                return
            case CallMessage():
                raise ProtocolError("functions are not called by number here", "0A000")
            case PasswordMessage():
                raise ProtocolError("nobody has asked for a password")

    async def _bind(self, message: BindMessage) -> None:
        prepared = self._prepared(message.statement)
        self._room(self._portals, message.portal)
        number = len(message.values)
        types = (*prepared.types, *[0] * number)[:number]
        formats = formats_of(message.formats, number)
        values = tuple(
            parameter_of(value, type_, format_, place)
            for place, (value, type_, format_) in enumerate(
                zip(message.values, types, formats, strict=True), 1
            )
        )
        size = sum(len(value) for value in message.values if value is not None)
        self._require_memory(size)
        self._portals[message.portal] = Portal(
            *(prepared.text, values, message.results, prepared.own, size, prepared.told)
        )
        await self._write(messages.BOUND)

    async def _describe_statement(self, name: str, prepared: PreparedText) -> None:
        self._text = prepared.text
        if prepared.own is not None or not prepared.text or _is_setting(prepared.text):
            await self._write(messages.parameter_description(()) + messages.NO_DATA)
            return
        probe = self._probe(prepared.text)
        if probe is not None:
            await self._write(messages.parameter_description(()) + _described(probe))
            return
        self._refuse_failed(None)
        edition = self._session.edition
        known, described = await self._planned(prepared.text, None)
        given = (*prepared.types, *[0] * len(known))[: len(known)]
        types = tuple(one or other or 25 for one, other in zip(given, known, strict=True))
        # What it is told, it will send and expect.
        told = ToldColumns(described, edition, self._intervals)
        self._statements[name] = replace(prepared, types=types, told=told)
        columns = messages.NO_DATA
        if described:
            columns = messages.row_description(described, formats_of((), len(described)))
        await self._write(messages.parameter_description(types) + columns)

    async def _describe_portal(self, portal: Portal) -> None:
        if portal.answer is not None:
            await self._write(portal.answer.description())
            return
        self._text, own = portal.text, portal.own
        if isinstance(own, Fetch):
            rows = self._cursor(own.name)
            await self._write(rows.description())
            return
        if own is not None or not portal.text or _is_setting(portal.text):
            await self._write(messages.NO_DATA)
            return
        probe = self._probe(portal.text)
        if probe is not None:
            await self._write(_described(probe))
            return
        self._refuse_failed(None)
        edition = self._session.edition
        _, described = await self._planned(portal.text, portal.values)
        portal.told = ToldColumns(described, edition, self._intervals)
        if not described:
            await self._write(messages.NO_DATA)
            return
        formats = formats_of(portal.formats, len(described))
        await self._write(messages.row_description(described, formats))

    def _probe(self, text: str) -> Probe | None:
        """Answer a question of a driver's, or for the connection's own setting."""
        if len(text) <= _LONGEST_SHOW and words_of(text) == _SHOW_INTERVALS:
            return Probe(INTERVALS_SETTING, "on" if self._intervals else "off", "SHOW")
        return self._probed(text)

    async def _planned(
        self, text: str, values: tuple[object, ...] | None
    ) -> tuple[tuple[int, ...], tuple[WireColumn, ...]]:
        """Plan a statement: the types of its parameters, and the columns of its answer."""
        catalog = await self._of_catalogs(text)
        if catalog is not None:
            rows = await self._wanted(partial(catalog.describe, values, self._timeout))
            return catalog.parameters, wire_columns(rows.columns, rows.types)
        found = self._session.known_description(text, values)
        if found is None:
            found = await self._wanted(partial(self._session.describe, text, values))
        names, types = [c.name for c in found.columns], [c.type for c in found.columns]
        if self._intervals:
            names, types = columns_with_ends(found.columns)
        return types_of_casts(text, len(found.parameters)), wire_columns(names, types)

    async def _of_catalogs(self, text: str) -> CatalogAnswerer | None:
        """Read a statement over catalogs; None for all others."""
        catalogs = self._catalogs
        if catalogs is None or not catalogs.may_read(text):
            return None
        return await self._work(partial(catalogs.read, text))

    async def _execute(self, portal: Portal, most: int | None) -> None:
        if not portal.text:
            await self._write(messages.EMPTY_QUERY)
            return
        self._text, own = portal.text, portal.own
        self._refuse_failed(own)
        if own is not None:
            await self._do(own, portal.text, described=True)
            return
        probe = self._probe(portal.text)
        if probe is not None:
            await self._tell(probe, described=True)
            return
        if portal.answer is None:
            if self._may_differ(portal):  # before anything is paid
                _refuse_others(portal, (await self._planned(portal.text, portal.values))[1])
            answer = await self._answered(portal.text, portal.values, portal.formats)
            if self._may_differ(portal):  # as the data were opened again meanwhile
                _refuse_others(portal, answer.fields)
            portal.answer = answer
        await self._send(portal.answer, most, portal.text)

    def _may_differ(self, portal: Portal) -> bool:
        """Tell whether other data are served, or ends shown, than the client was told of."""
        told = portal.told
        if told is None:
            return False
        return told.edition != self._session.edition or told.intervals != self._intervals

    # -- the connection's own statements ----------------------------------------------------------

    async def _do(self, own: Own, text: str, *, described: bool = False) -> None:
        match own:
            case Begin():
                self.status = IN_TRANSACTION if self.status == IDLE else self.status
                await self._complete("BEGIN")
            case End(tag, True):
                self.status = IN_TRANSACTION if self.status == FAILED_TRANSACTION else self.status
                await self._complete(tag)
            case End(tag):
                failed, self.status = self.status == FAILED_TRANSACTION, IDLE
                self._cursors.clear()
                await self._end_local_settings()
                await self._complete("ROLLBACK" if failed else tag)
            case Mark(tag):
                await self._complete(tag)
            case Timeout() | ShowIntervals() | SetLocal():
                await self._set(own)
                await self._complete("SET")
            case Discard(settings):
                await self._work(self._session.reset)
                self._timeout, self._intervals, self._before = 0.0, False, None
                if not settings:
                    self._statements.clear()
                    self._cursors.clear()
                await self._complete("RESET" if settings else "DISCARD ALL")
            case Declare(name, start):
                self._room(self._cursors, name)
                self._cursors[name] = await self._answered(text[start:], (), before=text[:start])
                await self._complete("DECLARE CURSOR")
            case Fetch(name, rows):
                await self._fetch(self._cursor(name), rows, described=described)
            case Shut(tag, name):
                self._shut(tag, name)
                await self._complete(tag)
            case Copy():
                await self._copy(own, text)

    async def _set(self, own: Timeout | ShowIntervals | SetLocal) -> None:
        """Set what is the connection's own, or anything until the end of the transaction."""
        if isinstance(own, Timeout) and not own.local:
            self._timeout = own.seconds
            if self._before is not None:
                self._before.timeout = own.seconds
            return
        if isinstance(own, ShowIntervals) and not own.local:
            self._intervals = own.on
            if self._before is not None:
                self._before.intervals = own.on
            return
        if self.status != IN_TRANSACTION:
            warning = "SET LOCAL sets something in transactions alone"
            await self._write(messages.notice(fields(warning, "25P01", "WARNING")))
            return
        if self._before is None:
            kept = await self._work(lambda: self._session.settings)
            self._before = _Settings(self._timeout, self._intervals, kept)
        if isinstance(own, Timeout):
            self._timeout = own.seconds
        elif isinstance(own, ShowIntervals):
            self._intervals = own.on
        else:
            await self._work(partial(self._session.sql, own.text))

    async def _end_local_settings(self) -> None:
        """Set again what SET LOCAL has changed."""
        before, self._before = self._before, None
        if before is None:
            return
        self._timeout, self._intervals = before.timeout, before.intervals

        def restored() -> None:
            self._session.reset()
            self._session.restore(before.kept)

        await self._work(restored)

    async def _fetch(self, rows: PortalRows, most: int | None, *, described: bool) -> None:
        if not described:
            await self._write(rows.description())
        number, written = rows.fetch(most)
        for part in written:
            await self._write(part)
            await asyncio.sleep(0)  # others have their turn
        await self._complete(f"FETCH {number}")

    def _shut(self, tag: str, name: str | None) -> None:
        kept: dict[str, PortalRows] | dict[str, PreparedText]
        kept = self._cursors if tag == "CLOSE CURSOR" else self._statements
        if name is None:
            kept.clear()
        elif kept.pop(name, None) is None:
            code = "34000" if tag == "CLOSE CURSOR" else "26000"
            raise ProtocolError("there is nothing open by this name", code)

    async def _copy(self, own: Copy, text: str) -> None:
        def form(rows: SentRows) -> tuple[int, int, list[bytes]]:
            return len(rows.columns), len(rows), list(copied(rows, own))

        asked = text[own.start : own.end]
        width, count, parts = await self._result(asked, (), form, text[: own.start])
        await self._write(messages.copy_out(width, copy_format(own)))
        for part in parts:
            await self._write(part)
        await self._write(messages.COPY_DONE)
        await self._complete(f"COPY {count}")

    # -- answers ----------------------------------------------------------------------------------

    async def _answered(
        self,
        text: str,
        values: tuple[object, ...],
        formats: tuple[int, ...] = (),
        *,
        before: str = "",
    ) -> PortalRows:
        return await self._result(text, values, lambda rows: PortalRows(rows, formats), before)

    async def _result(
        self,
        text: str,
        values: tuple[object, ...],
        form: Callable[[SentRows], _Found],
        before: str,
    ) -> _Found:
        """Have a statement answered, and tell its price and what limits its meaning.

        ``form`` makes of the answer what is sent, in the thread that has answered.
        """
        catalog = await self._of_catalogs(text)
        if catalog is not None:
            return await self._wanted(lambda: form(catalog.answer(values, self._timeout)))
        try:
            found, edition, notices = await self._wanted(partial(self._run, text, values, form))
        except Error as error:
            if error.place is not None and error.place.source == "query":
                error.place = error.place.after(before)
            raise
        if edition is not None and edition != self._edition:
            self._edition = edition
            await self._write(messages.parameter_status(EDITION_SETTING, f"{edition}"))
        for notice in notices:
            await self._write(messages.notice(notice))
        if self._before is not None and _is_setting(text):
            self._before.keep(read_statement(text))
        return found

    async def _wanted(self, work: Callable[[], _Found]) -> _Found:
        """Do the work of a statement in its turn, unless the client cancels it before."""
        asked = self._asked
        assert asked is not None, "a message is being answered"

        def in_turn() -> _Found:
            asked.begin()
            return work()

        return await self._work(in_turn)

    def _run(
        self, text: str, values: tuple[object, ...], form: Callable[[SentRows], _Found]
    ) -> tuple[_Found, DataEdition | None, list[dict[str, str]]]:
        """Answer a statement, with its notices: to find these takes time of its own."""
        if self._timeout:
            with timed(self._timeout):
                result = self._session.prepare(text).run(values, seconds=self._timeout)
        else:
            result = self._session.sql(text, values)
        rows: SentRows = RowsWithEnds(result) if self._intervals else result
        return form(rows), result.edition, list(_notices(result))

    async def _tell(self, probe: Probe, *, described: bool) -> None:
        """Answer a probe: as text, which is its binary form as well."""
        if probe.value is not None:
            if not described:
                await self._write(_described(probe))
            await self._write(
                messages.data_rows([encoded_column([probe.value], _TEXT, TEXT_FORMAT)])
            )
        await self._complete(probe.tag)

    async def _send(self, rows: PortalRows, most: int | None, text: str) -> None:
        if _is_setting(text):
            await self._complete(_word(text))
            return
        number, written = rows.fetch(most)
        for part in written:
            await self._write(part)
            await asyncio.sleep(0)  # others have their turn
        if most is not None and not rows.done:
            await self._write(messages.SUSPENDED)
        else:
            await self._complete(_tag(text, number if rows.fields else None))

    async def _complete(self, tag: str) -> None:
        await self._write(messages.complete(tag))

    async def _failed(self, error: Exception, statement: str = "", before: int = 0) -> None:
        if self.status == IN_TRANSACTION:
            self.status = FAILED_TRANSACTION
        await self._write(messages.error(error_fields(error, statement, before)))

    def _refuse_failed(self, own: Own | None) -> None:
        """Refuse all but the end of a transaction in which a statement has failed."""
        if self.status == FAILED_TRANSACTION and not isinstance(own, End):
            raise ProtocolError(
                "current transaction is aborted, commands ignored until end of transaction block",
                "25P02",
            )

    # -- names ------------------------------------------------------------------------------------

    def _prepared(self, name: str) -> PreparedText:
        found = self._statements.get(name)
        if found is None:
            raise ProtocolError("there is no prepared statement of this name", "26000")
        return found

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is not None:
            return found
        if name in self._cursors:  # drivers describe a cursor by its name
            return Portal("", (), (), answer=self._cursors[name])
        raise ProtocolError("there is no portal of this name", "34000")

    def _cursor(self, name: str) -> PortalRows:
        found = self._cursors.get(name)
        if found is None:
            raise ProtocolError("there is no cursor of this name", "34000")
        return found

    def _require_memory(self, more: int) -> None:
        """Refuse what would make statements and portals too large together."""
        more += sum(each.size for each in self._statements.values())
        more += sum(each.size for each in self._portals.values())
        if more > MOST_BYTES:
            raise ProtocolError("statements and portals take too much memory", "53200")

    @staticmethod
    def _room(kept: dict[str, _Found], name: str) -> None:
        if len(kept) >= MOST_KEPT and name not in kept:
            raise ProtocolError("too many statements or portals are open", "53000")


def _pieces_of(text: str) -> list[tuple[int, str]]:
    """Find the statements of a text, without their semicolons, each with its place."""
    if len(text) > MOST_TEXT:
        raise ProtocolError("the text is too long", "54000")
    found = split(text)
    ends = list(found.statements)
    if found.rest < len(text):
        ends.append((found.rest, len(text)))
    if len(ends) > MOST_STATEMENTS:
        raise ProtocolError("there are too many statements in one message", "54000")
    return [(start, text[start:end]) for start, end in ends]


def _prepared_text(text: str, types: tuple[int, ...]) -> PreparedText:
    """Read the one statement of a text, without its semicolon; empty if there is none."""
    pieces = _pieces_of(text)
    if len(pieces) > 1:
        raise ProtocolError("cannot insert multiple commands into a prepared statement", "42601")
    statement = pieces[0][1] if pieces else ""
    return PreparedText(statement, types, own_statement(statement))


def _refuse_others(portal: Portal, columns: tuple[WireColumn, ...]) -> None:
    """Refuse an answer with other columns than the client was told.

    In PostgreSQL's words, by which drivers know that they must prepare the statement again.
    """
    if portal.told is not None and portal.told.columns != columns:
        raise ProtocolError("cached plan must not change result type", "0A000")


def _described(probe: Probe) -> bytes:
    if probe.value is None:
        return messages.NO_DATA
    return messages.row_description(wire_columns([probe.column], ["VARCHAR"]), [TEXT_FORMAT])


_PAUSE: Final = 0.05  # between tries to end a statement that may be about to begin
_TEXT: Final = wire_type("VARCHAR")


def _word(text: str) -> str:
    """Return the first word of a statement, in capitals."""
    found = _WORD.match(text)
    return found[1].upper() if found else ""


INTERVALS_SETTING: Final = "dpsql.intervals"
"""Shown like a setting: whether the ends of intervals are columns of answers."""
_SHOW_INTERVALS: Final = ("show", "dpsql", ".", "intervals")
_LONGEST_SHOW: Final = 100
_TOLD_ROWS, _TOLD_NAME = 1_000, 40
_WORD: Final = re.compile(r"[\s(]*([A-Za-z]+)")


def _is_setting(text: str) -> bool:
    """Tell whether a statement is one that PostgreSQL's clients expect no rows of."""
    return _word(text) in ("SET", "RESET")


def _tag(text: str, rows: int | None) -> str:
    word = _word(text)
    if rows is None:
        return {"CREATE": "CREATE MATERIALIZED VIEW", "DROP": "DROP MATERIALIZED VIEW"}.get(
            word, word
        )
    return word if word in _TAGS else f"SELECT {rows}"


_TAGS: Final = frozenset({"CREATE", "DESCRIBE", "DROP", "EXPLAIN", "PRAGMA", "REFRESH", "SHOW"})


def _widths(result: Result) -> list[str]:
    """Word how wide the intervals of noisy columns are, of answers without many rows."""
    words = []
    for name, one in result.intervals().items() if len(result) <= _TOLD_ROWS else ():
        halves = ((one.high - one.low) / 2)[~np.isnan(one.low)]
        if len(halves):
            least, most = (figure_above(float(end)) for end in (halves.min(), halves.max()))
            ends = least if least == most else f"{least} to {most}"
            words.append(f"{printable(name, _TOLD_NAME)} ± {ends}")
    return words


def _notices(result: Result) -> Iterable[dict[str, str]]:
    cost, widths = result.cost, _widths(result)
    if widths:
        yield fields(f"95% intervals: {', '.join(widths)}", "00000", "INFO")
    if cost.stored:
        when = "" if result.from_edition else f" at {cost.answered}, on data that have no name"
        yield fields(f"cost: nothing, it was answered before{when}", "00000", "INFO")
    elif cost.settled_epsilon > 0:
        yield fields(f"cost: epsilon {significant(cost.settled_epsilon)}", "00000", "INFO")
    for caveat in result.warnings:
        severity = "WARNING" if caveat.strong else "NOTICE"
        yield fields(caveat.text, "01000", severity)
