"""``dpsql serve``: one process between the data and the people who ask about them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, closing
from pathlib import Path

import click

from dpsql.errors import InterfaceError
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget.ledgers import announce, located
from dpsql.interfaces.cli.printing import remark


@click.command(
    epilog=options.examples(
        "dpsql serve -d clinic.duckdb --users users.db",
        "dpsql serve -d clinic.duckdb --users users.db --listen 0.0.0.0:5439 "
        "--certificate chain.pem --key key.pem",
    )
)
@options.database
@options.policies
@options.ledger
@click.option(
    "--users",
    "users_file",
    type=click.Path(path_type=Path),
    default=Path("users.db"),
    show_default=True,
    help="The file of users, as `dpsql user` keeps it.",
)
@click.option(
    "--audit",
    "audit_file",
    type=click.Path(path_type=Path),
    default=Path("audit.jsonl"),
    show_default=True,
    help="The file that logins and statements are written to. `dpsql audit` checks it.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:5439",
    show_default=True,
    help="Where PostgreSQL's clients connect. Beyond this machine only with a certificate.",
)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path),
    help="The server's certificate with its chain, PEM. Then all connections are encrypted.",
)
@click.option("--key", type=click.Path(path_type=Path), help="The key of the certificate, PEM.")
@click.option(
    "--grace",
    type=float,
    default=30.0,
    show_default=True,
    help="Seconds that statements have to end once the server stops.",
)
def serve_command(
    database: str | Path,
    policies: Path,
    ledger: str | None,
    users_file: Path,
    audit_file: Path,
    listen: str,
    certificate: Path | None,
    key: Path | None,
    grace: float,
) -> None:
    """Serve analysts with psql, drivers and dashboards, and keep the data to itself.

    Speaks the PostgreSQL protocol. Who may come in is kept by `dpsql user`; what they may ask, and
    how much may be learned, by the policies. SIGTERM stops it once what runs is answered, SIGHUP
    reads the certificate again.
    """
    from dpsql.server.audit import AuditLog
    from dpsql.server.people.users import Users
    from dpsql.server.serving import Certificate, Listen, ServerSettings, serve
    from dpsql.service.opening import open_dataset

    if (certificate is None) != (key is None):
        raise InterfaceError(
            "a certificate and its key go together",
            code="bad_certificate",
            hint="Give both --certificate and --key.",
        )
    settings = ServerSettings(
        Listen.parse(listen),
        None if certificate is None or key is None else Certificate(certificate, key),
        grace,
    )
    settings.require_safe()
    place = located(ledger, policies, database)
    with ExitStack() as stack:
        users = stack.enter_context(Users(users_file))
        dataset = stack.enter_context(open_dataset(database, policies, place))
        announce(dataset.ledger_created, place)
        audit = stack.enter_context(closing(AuditLog(audit_file)))
        name = dataset.policy.dataset

        def told(address: Listen) -> None:
            mode = "" if certificate is None else " sslmode=verify-full"
            remark(f"{name} is served on {address}")
            remark(f'psql "host={address.host} port={address.port} dbname={name} user=…{mode}"')

        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
        asyncio.run(serve(dataset, users, audit, settings, told))
