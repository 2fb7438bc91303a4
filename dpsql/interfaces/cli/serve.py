"""``dpsql serve``: one process between the data and the people who ask about them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, closing
from pathlib import Path

import click

from dpsql.core.extras import install_hint
from dpsql.errors import InterfaceError
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget.ledgers import announce, located
from dpsql.interfaces.cli.printing import remark


@click.command(
    epilog=options.examples(
        "dpsql serve -d clinic.duckdb --users users.db",
        "dpsql serve -d clinic.duckdb --users users.db --listen 0.0.0.0:5439 "
        "--certificate chain.pem --certificate-key key.pem",
        "dpsql serve -d clinic.duckdb --users users.db --http 127.0.0.1:8439",
    )
)
@options.database
@options.policies
@options.ledger
@options.of_a_server
@click.option(
    "--mcp/--no-mcp",
    "agents",
    default=None,
    help="Serve tools for language models over HTTP, too.  [default: if the package mcp is "
    "installed]",
)
def serve_command(
    database: str | Path,
    policies: Path,
    ledger: str | None,
    users: Path,
    audit: Path,
    listen: str,
    http: str | None,
    certificate: Path | None,
    certificate_key: Path | None,
    grace: float,
    agents: bool | None,
    response_grid: float | None,
    oidc_issuer: str | None,
    oidc_audience: str | None,
    oidc_client_id: str | None,
    oidc_user_claim: str,
) -> None:
    """Serve analysts with psql, drivers and dashboards, and keep the data to itself.

    Speaks the PostgreSQL protocol and, with --http, HTTP and JSON, with tools for language models
    by the Model Context Protocol. Who may come in is kept by
    `dpsql user`; what they may ask, and how much may be learned, by the policies. SIGTERM stops it
    once what runs is answered, SIGHUP opens the database, the policies and the certificate again
    without closing connections.
    """
    from dpsql.server.audit import AuditLog
    from dpsql.server.editions import DataSource
    from dpsql.server.people.users import Users
    from dpsql.server.serving import (
        USUAL_HTTP_PORT,
        Certificate,
        Listen,
        ServerSettings,
        serve,
        sign_on_settings,
    )
    from dpsql.service.session import Dataset

    if (certificate is None) != (certificate_key is None):
        raise InterfaceError(
            "a certificate and its key go together",
            code="bad_certificate",
            hint="Give both --certificate and --certificate-key.",
        )
    settings = ServerSettings(
        Listen.parse(listen),
        None
        if certificate is None or certificate_key is None
        else Certificate(certificate, certificate_key),
        grace,
        http=None if http is None else Listen.parse(http, USUAL_HTTP_PORT),
        agents=agents,
        response_grid=response_grid,
        sign_on=None
        if oidc_issuer is None
        else sign_on_settings(
            oidc_issuer, oidc_audience or "", oidc_client_id or "", oidc_user_claim
        ),
    )
    settings.require_safe()
    place = located(ledger, policies, database)
    with ExitStack() as stack:
        people = stack.enter_context(Users(users))
        log = stack.enter_context(closing(AuditLog(audit)))

        def told(dataset: Dataset, address: Listen, web: Listen | None, tools: bool) -> None:
            name = dataset.policy.dataset
            announce(dataset.ledger_created, place)
            mode = "" if certificate is None else " sslmode=verify-full"
            remark(f"{name} is served on {address}")
            remark(f'psql "host={address.host} port={address.port} dbname={name} user=…{mode}"')
            if web is not None:
                scheme = "http" if certificate is None else "https"
                remark(f"over HTTP on {scheme}://{web}/v1")
                if oidc_issuer is not None:
                    remark(f"tokens of {oidc_issuer} are taken over HTTP")
                if tools:
                    remark(f"tools for language models on {scheme}://{web}/mcp")
                elif agents is None:
                    remark(f"no tools for language models. {install_hint('mcp')}")

        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
        # The parser's own log tells of parts of statements, and of nothing that an owner can mend.
        logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
        source = DataSource(database, policies, place)
        asyncio.run(serve(source, people, log, settings, told))
