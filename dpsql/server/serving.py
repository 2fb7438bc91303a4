"""The process behind the doors: listening, and stopping without a loss.

At SIGTERM no connection is accepted any more, idle ones are told, and statements that run are
answered within a grace; what is left then is interrupted, and its reservation stays spent. At
SIGHUP the certificate, the policies and the database are opened again: if they can be, they are
served from then on, also to connections that are open; if not, all goes on as before.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import signal
import ssl
from asyncio import sslproto
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dpsql.core.extras import install_hint
from dpsql.errors import Error, InterfaceError, OperationalError, ParameterError
from dpsql.server.audit import LOG, AuditLog
from dpsql.server.catalog.catalogs import Catalogs
from dpsql.server.desk import Desk
from dpsql.server.editions import DataSource, Editions
from dpsql.server.guard import POSTGRESQL, Guard
from dpsql.server.people.certificates import end_point_binding
from dpsql.server.people.users import Users
from dpsql.server.tally import Tally
from dpsql.server.wire.door import Door
from dpsql.server.workers import Workers
from dpsql.service.session import Dataset

if TYPE_CHECKING:
    from dpsql.server.http.agents import HttpAgents
    from dpsql.server.http.listener import HttpDoor
    from dpsql.server.people.sign_on import SignOn, SignOnSettings

USUAL_PORT: Final = 5439
USUAL_HTTP_PORT: Final = 8439
USUAL_GRACE: Final = 30.0
# Each encrypted connection keeps a buffer of this size; a record of TLS has no more.
sslproto.SSLProtocol.max_size = 1 << 14


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to listen on."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, usual: int = USUAL_PORT) -> Listen:
        """Read ``127.0.0.1:5439``, ``[::1]:5439`` or a host alone. Raises ``InterfaceError``."""
        host, sign, port = text.rpartition(":")
        if not sign or text.endswith("]"):
            host, port = text, str(usual)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise InterfaceError(
                "this is no address to listen on",
                code="bad_address",
                hint="Write a host and a port: 127.0.0.1:5439, or [::1]:5439.",
            )
        return cls(host, int(port))

    @property
    def loopback(self) -> bool:
        """True for an address that no other machine reaches."""
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    def __str__(self) -> str:
        """Write the address as it is read."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a certificate with its chain, and of its key, both PEM."""

    chain: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the server listens and runs: for PostgreSQL's clients, and for HTTP if there is ``http``.

    ``grace``: the seconds that statements have to end once the server stops. ``places``,
    ``of_account`` and ``response_grid`` are those of ``Workers``. ``agents``: whether there are
    tools for agents over HTTP; None if their package is installed. ``sign_on``: whose tokens are
    taken over HTTP, beside the server's own.
    """

    listen: Listen = Listen("127.0.0.1", USUAL_PORT)
    certificate: Certificate | None = None
    grace: float = USUAL_GRACE
    places: int | None = None
    of_account: int | None = None
    http: Listen | None = None
    agents: bool | None = None
    response_grid: float | None = None
    sign_on: SignOnSettings | None = None

    def require_safe(self) -> None:
        """Raise ``InterfaceError`` for an address that others reach without encryption.

        ``ParameterError`` for a grace that is no time.
        """
        if not 0 <= self.grace < math.inf:
            raise ParameterError(
                "a grace is a number of seconds, 0 or more",
                code="bad_parameter",
                hint="Give --grace 30, or leave it out.",
            )
        if self.agents and self.http is None:
            raise InterfaceError(
                "tools for agents are served over HTTP, which is not",
                code="bad_address",
                hint="Give --http 127.0.0.1:8439 as well.",
            )
        if self.sign_on is not None and self.http is None:
            raise InterfaceError(
                "tokens of another issuer are taken over HTTP, which is not served",
                code="bad_sign_on",
                hint="Give --http 127.0.0.1:8439 as well.",
            )
        grid = self.response_grid
        if grid is not None and not 0.01 <= grid <= 600:
            raise ParameterError(
                "a response grid has 0.01 to 600 seconds",
                code="bad_parameter",
                hint="Give --response-grid 1, or leave it out.",
            )
        addresses = (self.listen, self.http)
        open_ = next((each for each in addresses if each is not None and not each.loopback), None)
        if self.certificate is None and open_ is not None:
            raise InterfaceError(
                f"other machines reach {open_}, and there is no certificate",
                code="plaintext_refused",
                hint="Give --certificate and --certificate-key, or listen on 127.0.0.1 alone.",
            )


class Tls:
    """The certificate of a server, read again by ``renew``."""

    def __init__(self, certificate: Certificate) -> None:
        self._certificate = certificate
        self.context, self.binding = self._loaded()

    def renew(self) -> None:
        """Read the files. Raises ``InterfaceError``, and the old certificate goes on."""
        self.context, self.binding = self._loaded()

    def _loaded(self) -> tuple[ssl.SSLContext, bytes | None]:
        wrong = False
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self._certificate.chain, self._certificate.key)
            pem = self._certificate.chain.read_text(encoding="ascii")
            der = ssl.PEM_cert_to_DER_cert(pem[pem.index(_BEGIN) : pem.index(_END) + len(_END)])
        except (OSError, ValueError):
            wrong = True
        if wrong:
            raise InterfaceError(
                "the certificate cannot be used",
                code="bad_certificate",
                hint="Give a chain and its key as PEM files that the server may read.",
            )
        return context, end_point_binding(der)


_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"


async def serve(
    source: DataSource,
    users: Users,
    audit: AuditLog,
    settings: ServerSettings,
    told: Callable[[Dataset, Listen, Listen | None, bool], None] = lambda *_: None,
) -> None:
    """Serve until SIGTERM or SIGINT; ``told`` gets the addresses once it listens.

    Its last argument tells whether there are tools for agents.

    ``source`` is opened now and at each SIGHUP.
    Raises ``InterfaceError`` where it cannot, and ``OperationalError`` where the audit log cannot
    be written.
    """
    settings.require_safe()
    tls = None if settings.certificate is None else Tls(settings.certificate)
    tally = Tally()
    digest = source.digest()
    dataset = source.opened()
    guard = Guard(dataset, users, audit, tally, sign_on=_sign_on(settings.sign_on))
    editions = Editions(source, digest, guard, audit, tally)
    workers = Workers(settings.places, settings.of_account, grid=settings.response_grid)
    _measure(tally, workers, audit)
    catalogs = Catalogs(lambda: guard.dataset)
    door = Door(guard, workers, tls, catalogs.reader)
    tally.measure("connections", POSTGRESQL, by=lambda: door.connections)
    http: HttpDoor | None = None
    stop = asyncio.Event()
    reopening = Reopening(editions, tls)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, reopening.ask)
    server: asyncio.Server | None = None
    begun = False
    try:
        with _listening(settings.listen, "--listen"):
            server = await asyncio.start_server(
                door.serve, settings.listen.host, settings.listen.port
            )
        address, web = Listen(*server.sockets[0].getsockname()[:2]), None
        agents = None
        if settings.http is not None:
            agents = _agents(guard, workers, settings.agents)
            desk = Desk(guard, users, audit, editions)
            http = _http_door(guard, workers, tls, desk, tally, agents)
            with _listening(settings.http, "--http"):
                web = Listen(*await http.start(settings.http.host, settings.http.port))
        more = {} if web is None else {"http": f"{web}"}
        audit.write("started", dataset=dataset.policy.dataset, address=f"{address}", **more)
        begun = True
        told(dataset, address, web, agents is not None)
        await stop.wait()
    finally:
        if server is not None:
            server.close()
        doors = [door.stop(settings.grace)]
        doors += [] if http is None else [http.stop(settings.grace)]
        await asyncio.gather(*doors)
        await reopening.end()
        workers.close()
        catalogs.close()
        guard.close()
        if begun:
            with suppress(OperationalError):  # it ends in any case
                audit.write("stopped")


@contextmanager
def _listening(listen: Listen, option: str) -> Iterator[None]:
    """Raise ``InterfaceError`` where nothing can listen on an address."""
    busy = False
    try:
        yield
    except OSError:
        busy = True
    if busy:
        raise InterfaceError(
            f"nothing can listen on {listen}",
            code="bad_address",
            hint=f"Another process may listen there. Give another {option}.",
        )


def _measure(tally: Tally, workers: Workers, audit: AuditLog) -> None:
    tally.measure("statements_running", by=lambda: workers.running)
    tally.measure("statements_waiting", by=lambda: workers.waiting)
    tally.measure("places", by=lambda: workers.places)
    tally.measure("audit_failures", by=lambda: audit.failures)


def _agents(guard: Guard, workers: Workers, asked: bool | None) -> HttpAgents | None:
    """Build the tools for agents, if they are asked for or their package is installed."""
    missing = find_spec("mcp") is None
    if asked is False or (asked is None and missing):
        return None
    if missing:
        raise InterfaceError(
            "mcp is not installed", code="missing_package", hint=install_hint("mcp")
        )
    from dpsql.server.http.agents import HttpAgents

    return HttpAgents(guard, workers)


def sign_on_settings(issuer: str, audience: str, client: str, claim: str) -> SignOnSettings:
    """Return whose tokens are taken. Raises ``InterfaceError`` for what does not fit."""
    if find_spec("jwt") is None:
        raise InterfaceError(
            "PyJWT is not installed", code="missing_package", hint=install_hint("server")
        )
    from dpsql.server.people.sign_on import SignOnSettings

    return SignOnSettings(issuer, audience, client, claim)


def _sign_on(settings: SignOnSettings | None) -> SignOn | None:
    if settings is None:
        return None
    from dpsql.server.people.issuer_keys import IssuerKeys
    from dpsql.server.people.sign_on import SignOn

    return SignOn(settings, IssuerKeys(settings.issuer))


def _http_door(
    guard: Guard,
    workers: Workers,
    tls: Tls | None,
    desk: Desk,
    tally: Tally,
    agents: HttpAgents | None,
) -> HttpDoor:
    """Build the door for HTTP, whose packages are loaded for it alone."""
    try:
        from dpsql.server.http.listener import HttpDoor
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_HTTP:
            raise
        missing = error.name
    else:
        return HttpDoor(guard, workers, tls, desk, tally, agents)
    raise InterfaceError(
        f"{missing} is not installed", code="missing_package", hint=install_hint("server")
    )


_OF_HTTP: Final = frozenset({"starlette", "uvicorn", "h11", "prometheus_client"})


class Reopening:
    """Opens certificate, policies and database again, one time after another."""

    def __init__(self, editions: Editions, tls: Tls | None) -> None:
        self._editions = editions
        self._tls = tls
        self._asked = False
        self._running: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Open all again, now or once what is being opened is served."""
        self._asked = True
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def end(self) -> None:
        """Wait for what is being opened."""
        if self._running is not None:
            await self._running

    async def _run(self) -> None:
        while self._asked:
            self._asked = False
            try:
                await asyncio.to_thread(self._renew)
            except Exception as error:  # noqa: BLE001 - the server goes on, whatever the reason
                LOG.error("opening again has failed: %s", type(error).__name__)

    def _renew(self) -> None:
        try:
            if self._tls is not None:
                self._tls.renew()
        except InterfaceError:
            LOG.warning("the certificate cannot be used: the old one goes on")
        try:
            edition = self._editions.reopen()
        except Error as error:
            LOG.warning("the old edition goes on: %s [%s]", error.reason, error.code)
        else:
            LOG.info("policies and database were opened again: edition %s", edition)
