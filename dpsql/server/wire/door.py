"""The door for PostgreSQL's clients: TLS, login, and a conversation for each connection.

Nothing is known of a client before its login, so until then it has little time and little room, and
only so many may be there. A wish to cancel reaches the one connection whose key it has. Errors at
the door say nothing of who exists.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from dpsql.errors import Error
from dpsql.server.guard import Admitted, Guard
from dpsql.server.people.lockout import site_of
from dpsql.server.wire import messages
from dpsql.server.wire.conversation import CatalogDoor, Conversation
from dpsql.server.wire.errors import FATAL, error_fields, fields
from dpsql.server.wire.messages import (
    CancelMessage,
    FlushMessage,
    GssapiMessage,
    PasswordMessage,
    ProtocolError,
    QueryMessage,
    StartupMessage,
    SyncMessage,
    TlsMessage,
)
from dpsql.server.wire.probes import EDITION_SETTING, SERVER_SETTINGS, probe_of
from dpsql.server.workers import Workers
from dpsql.service.session import Session

SECONDS_TO_LOG_IN: Final = 30.0
MOST_AT_THE_DOOR: Final = 100
"""How many connections may be open that have not logged in."""
MOST_OF_ADDRESS: Final = 50
"""How many of these an address may have: others find places whatever it does."""
MOST_OPEN: Final = 500
"""How many may be open that have."""
MOST_OF_ACCOUNT: Final = 100
"""How many of these an account may have."""
_Found = TypeVar("_Found")
_SECONDS_TO_SAY: Final = 1.0  # that the server stops
_SECONDS_TO_END: Final = 5.0  # of statements that were interrupted
_MOST_SASL: Final = 4_096
_MOST_COLLECTED: Final = 65_536
_FLUSHING: Final = (SyncMessage, QueryMessage, FlushMessage)


class Encryption(Protocol):
    """The server's TLS: its context, and the hash of its certificate where clients can bind."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context of handshakes."""

    @property
    def binding(self) -> bytes | None:
        """The hash of the certificate, for channel binding."""


@dataclass(slots=True)
class _Open:
    """A connection that has logged in, as cancelling and stopping see it."""

    account: str
    key: bytes
    session: Session
    task: asyncio.Task[None]
    writer: asyncio.StreamWriter
    catalogs: CatalogDoor | None
    conversation: Conversation
    busy: bool = False

    def interrupt(self) -> None:
        """End the statement that runs, of the session or over catalogs."""
        self.session.interrupt()
        if self.catalogs is not None:
            self.catalogs.interrupt()


class _Outgoing:
    """Collects messages to a client, to be sent together, as PostgreSQL does.

    They go out when there are many bytes of them, and at a ``flush``: at the end of a query, at a
    Sync, after an error, and where the client asks for it.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._parts: list[bytes] = []
        self._size = 0

    async def write(self, data: bytes) -> None:
        """Add messages; waits for a client that does not read."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _MOST_COLLECTED:
            await self.flush()

    async def flush(self) -> None:
        """Send what there is."""
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if data:
            await _send(self._writer, data)


class Door:
    """Accepts connections. Without ``tls`` they are not encrypted; with it, all have to be.

    ``catalogs`` makes the catalogs of a user and an account.
    """

    def __init__(
        self,
        guard: Guard,
        workers: Workers,
        tls: Encryption | None = None,
        catalogs: Callable[[str, str], CatalogDoor] | None = None,
    ) -> None:
        self._guard = guard
        self._workers = workers
        self._tls = tls
        self._catalogs = catalogs
        self._open: dict[int, _Open] = {}
        self._at_the_door: Counter[str] = Counter()
        self._last = 0
        self._stopping = False
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """How many connections are open, those at the door as well."""
        return len(self._open) + self._at_the_door.total()

    async def stop(self, grace: float) -> None:
        """End idle connections, and others once they are answered or ``grace`` seconds are over."""
        self._stopping = True
        for each in self._open.values():
            if not each.busy:
                each.task.cancel()
        tasks = [each.task for each in self._open.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=grace)
        for each in list(self._open.values()):
            each.interrupt()
            each.writer.transport.abort()  # whoever does not read waits for nothing more
            each.task.cancel()
        if late:
            await asyncio.wait(late, timeout=_SECONDS_TO_END)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        try:
            await self._served(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
            pass  # the client has gone
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        finally:
            writer.close()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        site = site_of(_address(writer))
        full = self._at_the_door.total() >= MOST_AT_THE_DOOR
        if full or self._at_the_door[site] >= MOST_OF_ADDRESS:
            return
        self._at_the_door[site] += 1
        inside = False
        try:
            async with asyncio.timeout(SECONDS_TO_LOG_IN):
                startup = await self._started(reader, writer)
                if startup is None:
                    return
                admitted = await self._logged_in(startup, reader, writer)
            inside = True
            self._leaves_the_door(site)
            await self._converse(admitted, reader, writer)
        except ProtocolError as error:
            await _send(writer, messages.error(fields(error.text, error.sqlstate, FATAL)))
        except Error as error:
            await _send(writer, messages.error({**error_fields(error), "S": FATAL, "V": FATAL}))
        finally:
            if not inside:
                self._leaves_the_door(site)

    def _leaves_the_door(self, site: str) -> None:
        self._at_the_door[site] -= 1
        if not self._at_the_door[site]:
            del self._at_the_door[site]

    # -- before the login -------------------------------------------------------------------------

    async def _started(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> StartupMessage | None:
        """Read the first messages, up to the one that begins a session; None for a cancel."""
        asked: set[type] = set()
        while True:
            head = await reader.readexactly(4)
            first = messages.read_first(await reader.readexactly(messages.first_length(head)))
            if isinstance(first, CancelMessage):
                self._cancel(first)
                return None
            if isinstance(first, StartupMessage):
                if self._tls is not None and writer.get_extra_info("ssl_object") is None:
                    raise ProtocolError(
                        "connections are encrypted here: set sslmode=require", "28000"
                    )
                return first
            if type(first) in asked:
                raise ProtocolError("a client asks for encryption once")
            asked.add(type(first))
            if isinstance(first, GssapiMessage) or self._tls is None:
                await _send(writer, messages.REFUSES_TLS)
            elif isinstance(first, TlsMessage):
                await _send(writer, messages.ACCEPTS_TLS)
                if getattr(reader, "_buffer", b""):
                    raise ProtocolError("a client has sent more before the encryption began")
                await writer.start_tls(self._tls.context, ssl_handshake_timeout=SECONDS_TO_LOG_IN)

    def _cancel(self, asked: CancelMessage) -> None:
        """Interrupt the statement of the connection with this key; a wrong key does nothing."""
        found = self._open.get(asked.process)
        if hmac.compare_digest(found.key if found else secrets.token_bytes(4), asked.key) and found:
            ending = asyncio.create_task(found.conversation.cancel())
            self._ending.add(ending)  # nobody else refers to it
            ending.add_done_callback(self._ending.discard)

    async def _logged_in(
        self, startup: StartupMessage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Admitted:
        if startup.minor:
            unknown = [name for name in startup.parameters if name.startswith("_pq_.")]
            await _send(writer, messages.negotiated(0, unknown))
        encrypted = writer.get_extra_info("ssl_object") is not None
        binding = self._tls.binding if encrypted and self._tls is not None else None
        address = _address(writer)
        parameters = startup.parameters
        user = parameters.get("user", "")
        shortly = self._workers.shortly
        knock = await shortly(lambda: self._guard.knock(user, address, binding))
        try:
            exchange = knock.exchange
            await _send(writer, messages.sasl_offered(exchange.mechanisms))
            mechanism, words = messages.read_sasl_initial(await _password(reader))
            await _send(writer, messages.sasl_words(exchange.begin(mechanism, words)))
            last = exchange.finish(await _password(reader))
        except Error:
            self._guard.failed(knock)
            await asyncio.sleep(knock.wait)
            raise
        await asyncio.sleep(knock.wait)
        settings = startup_settings(parameters.get("options", ""))
        database = parameters.get("database", user)
        admitted = await shortly(lambda: self._guard.admit(knock, database, settings))
        try:
            await _send(writer, messages.sasl_words(last, final=True) + messages.AUTHENTICATED)
        except BaseException:
            admitted.session.close()
            raise
        return admitted

    # -- after the login --------------------------------------------------------------------------

    async def _converse(
        self, admitted: Admitted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        session, account = admitted.session, admitted.account
        of_account = sum(each.account == account for each in self._open.values())
        if len(self._open) >= MOST_OPEN or of_account >= MOST_OF_ACCOUNT:
            await self._workers.shortly(session.close)
            raise ProtocolError("too many connections", "53300")
        self._last += 1
        process, key = self._last % (1 << 31), secrets.token_bytes(4)
        task = asyncio.current_task()
        assert task is not None
        user, dataset = admitted.login.user, self._guard.dataset_name
        catalogs = self._catalogs and self._catalogs(user, account)
        out = _Outgoing(writer)
        told = session.edition

        async def in_turn(work: Callable[[], _Found]) -> _Found:
            return await self._workers.run(account, work)

        probed = partial(probe_of, user=user, dataset=dataset, edition=lambda: f"{session.edition}")
        conversation = Conversation(
            *(session, in_turn, self._workers.shortly, out.write, told, probed, catalogs)
        )
        here = _Open(account, key, session, task, writer, catalogs, conversation)
        self._open[process] = here
        try:
            settings = [messages.parameter_status(*each) for each in SERVER_SETTINGS.items()]
            settings.append(messages.parameter_status(EDITION_SETTING, f"{told}"))
            greeting = b"".join((*settings, messages.key_data(process, key)))
            await _send(writer, greeting + messages.ready_for_query(b"I"))

            while not self._stopping:
                head = await reader.readexactly(5)
                body = await reader.readexactly(messages.next_length(head, messages.MOST))
                here.busy = True
                message = messages.read_message(head[:1], body)
                if not await conversation.take(message):
                    return
                if isinstance(message, _FLUSHING) or conversation.skipping:
                    await out.flush()
                here.busy = False
            await out.write(_GOING)
            await out.flush()
        except ProtocolError:
            await out.flush()
            raise
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(_SECONDS_TO_SAY):
                    await out.write(_GOING)
                    await out.flush()
        finally:
            del self._open[process]
            with suppress(RuntimeError):  # the threads have ended: the dataset closes its sessions
                await self._workers.shortly(session.close)


def startup_settings(options: str) -> dict[str, str]:
    """Read the settings of a startup's ``options``: ``-c name=value``, or ``--name=value``."""
    found: dict[str, str] = {}
    words = iter(options.replace("\\ ", "\0").split())
    for word in words:
        given = next(words, "") if word == "-c" else word.removeprefix("--").removeprefix("-c")
        name, sign, value = given.partition("=")
        if not sign:
            raise ProtocolError("options of a startup are -c name=value", "22023")
        found[name.replace("-", "_")] = value.replace("\0", " ")
    return found


_GOING: Final = messages.error(fields("the server is stopping", "57P01", FATAL))


async def _password(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    body = await reader.readexactly(messages.next_length(head, _MOST_SASL))
    message = messages.read_message(head[:1], body)
    if not isinstance(message, PasswordMessage):
        raise ProtocolError("a login was asked for")
    return message.body


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
