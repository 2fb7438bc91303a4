"""Where an account of a server stands, as ``dpsql budget`` shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dpsql.interfaces.cli.printing import show
from dpsql.interfaces.cli.servers import AskedServer

if TYPE_CHECKING:
    from dpsql.dbapi.remote import RemoteConnection


def show_budget(server: AskedServer, format_: str) -> None:
    """Show what the account has spent and has left."""
    from dpsql.interfaces.shell.server_target import budget_shown

    with _connected(server) as connection:
        found = budget_shown(connection.budget(), format_ == "json")
    if isinstance(found, str):
        click.echo(found, nl=False)
    else:
        show(found)


def show_estimate(server: AskedServer, text: str, chosen: Mapping[str, Any], format_: str) -> None:
    """Show the price of a question, and its share of the rest."""
    from dataclasses import asdict

    from dpsql.core.formatting import json_text, percent, printable, significant
    from dpsql.present.tables import pairs

    with _connected(server) as connection:
        price = connection.explain(text, **chosen)
        report = connection.budget()
    if format_ == "json":
        found = asdict(price)
        del found["text"]
        click.echo(json_text({"price": found, "budget": asdict(report)}, indent=2))
        return
    if price.free:
        click.echo(f"It costs nothing: {printable(price.why)}.")
        return
    rows = [("reserves", f"ε {significant(price.price_epsilon)}"), ("budget", report.headline)]
    if price.share_of_left is not None:
        rows.insert(1, ("share of what is left", percent(price.share_of_left, 1.0)))
    show(pairs(rows))


def show_history(server: AskedServer, limit: int, format_: str) -> None:
    """List the questions that the account has paid for."""
    from dataclasses import asdict

    from dpsql.interfaces.shell.server_target import questions_table
    from dpsql.present.budget_files import to_csv, to_json

    with _connected(server) as connection:
        found = connection.history(min(limit, 200))
    if format_ == "json":
        click.echo(to_json([asdict(each) for each in found]))
    elif format_ == "csv":
        rows = ((each.asked, each.stored, each.sql) for each in found)
        click.echo(to_csv(("asked", "stored", "sql"), rows), nl=False)
    elif found:
        show(questions_table(found))
    else:
        click.echo("No questions.")


@contextmanager
def _connected(server: AskedServer) -> Iterator[RemoteConnection]:
    from dpsql.dbapi.connection import connect

    with connect(
        server.address,
        token=server.token(),
        analyst=server.account,
        certificate=server.certificate,
    ) as found:
        yield found
