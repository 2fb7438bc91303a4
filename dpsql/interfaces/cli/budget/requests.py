"""``dpsql budget request`` and what follows from it: more budget at a server, asked for and given.

Data of one's own have nobody to ask: whoever has the ledger sets the limits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.client.transport import is_server_address
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.printing import show
from dpsql.interfaces.cli.servers import AskedServer

if TYPE_CHECKING:
    from dpsql.client.budget_requests import RemoteBudgetRequest
    from dpsql.client.transport import RemoteServer

_NOTE = click.option("--note", default="", help="What its user is told about the decision.")
_NUMBER = click.argument("number", type=click.IntRange(1))


def _at_server(function: Callable[..., None]) -> Callable[..., Any]:
    """Make a command that is called with a server, and has the options of one."""

    @wraps(function)
    def act(
        *,
        database: str | Path,
        analyst: str | None,
        token_file: Path | None,
        ca_file: Path | None,
        **own: Any,
    ) -> None:
        if not is_server_address(database):
            raise click.UsageError(
                "requests are made at servers, -d https://host:8439; at data of one's own, "
                "`dpsql budget owner limit` sets the limits"
            )
        server = AskedServer(str(database), token_file, ca_file, analyst or "").remote()
        function(server, **own)

    return options.at_a_server(act)


@click.command(
    short_help="Ask the owners of a server for more budget.",
    epilog=options.examples(
        'dpsql budget request "Wards by month for the annual report" --epsilon 5 \\\n'
        "  -d https://dpsql.example.org:8439 --token-file token"
    ),
)
@click.argument("why")
@click.option(
    "--epsilon",
    type=click.FloatRange(0, min_open=True),
    required=True,
    help="The ε that the account should have in a window, all in all.",
)
@_at_server
def request_command(server: RemoteServer, why: str, epsilon: float) -> None:
    """Ask the owners of a server that your account may spend more; WHY tells them the reason.

    `dpsql budget requests` shows what they decide.
    """
    from dpsql.client.budget_requests import request_budget

    made = request_budget(server, epsilon, why)
    click.echo(f"Request {made.number} waits for an owner.")


@click.command(
    short_help="List requests for more budget.",
    epilog=options.examples(
        "dpsql budget requests -d https://dpsql.example.org:8439 --token-file token"
    ),
)
@click.option("--all", "everybody", is_flag=True, help="Those of all users, for an owner.")
@click.option(
    "--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="How many."
)
@options.formats("table", "json")
@_at_server
def requests_command(server: RemoteServer, everybody: bool, limit: int, format_: str) -> None:
    """List your requests for more budget, or with --all those of all users, and their outcome."""
    from dataclasses import asdict

    from dpsql.client.budget_requests import all_requests, own_requests
    from dpsql.present.budget_files import to_json

    found = all_requests(server, limit) if everybody else own_requests(server, limit)
    if format_ == "json":
        click.echo(to_json([asdict(each) for each in found]))
    elif found:
        show(_table(found))
    else:
        click.echo("No requests.")


@click.command(
    short_help="Approve a request for more budget. For owners.",
    epilog=options.examples(
        "dpsql budget approve 7 -d https://dpsql.example.org:8439 --token-file token"
    ),
)
@_NUMBER
@_NOTE
@_at_server
def approve_command(server: RemoteServer, number: int, note: str) -> None:
    """Approve request NUMBER: the limit of its account in the ledger is raised to its ε.

    The policies have to give as much: what they give, they alone raise. Where no limit in the
    ledger is lower, there is nothing to raise.
    """
    from dpsql.client.budget_requests import approve_asked_budget

    raised = approve_asked_budget(server, number, note)
    found = "" if raised else " Its account may spend as much already: no limit was raised."
    click.echo(f"Request {number} is approved.{found}")


@click.command(
    short_help="Refuse a request for more budget. For owners.",
    epilog=options.examples(
        'dpsql budget refuse 7 --note "Not before July" -d https://dpsql.example.org:8439'
    ),
)
@_NUMBER
@_NOTE
@_at_server
def refuse_command(server: RemoteServer, number: int, note: str) -> None:
    """Refuse request NUMBER: nothing changes."""
    from dpsql.client.budget_requests import refuse_asked_budget

    refuse_asked_budget(server, number, note)
    click.echo(f"Request {number} is refused.")


def _table(found: tuple[RemoteBudgetRequest, ...]) -> Any:
    from rich.text import Text

    from dpsql.core.formatting import printable, significant
    from dpsql.present.tables import titled

    table = titled("number", "asked", "user", "account", "epsilon", "why", "outcome", right=(0, 4))
    for each in found:
        outcome = each.state if each.owner is None else f"{each.state} by {each.owner}"
        told = f"{outcome}: {each.note}" if each.note else outcome
        epsilon = significant(each.epsilon)
        cells = (
            str(each.number),
            each.asked[:10],
            each.user,
            each.account,
            epsilon,
            each.why,
            told,
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table
