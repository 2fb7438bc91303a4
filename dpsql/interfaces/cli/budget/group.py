"""``dpsql budget``: spending and remaining budget of accounts, and the ledger that counts it.

Its commands are in modules of their own: ``show``, ``requests``, ``chain`` and ``owner``.
"""

from __future__ import annotations

import click

from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget import chain as budget_chain
from dpsql.interfaces.cli.budget import owner as budget_owner
from dpsql.interfaces.cli.budget import requests as budget_requests
from dpsql.interfaces.cli.budget import show as budget_show


class _Showing(click.Group):
    """A group that shows the budget when it is told no command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            told = ctx.resilient_parsing  # while completing, when any command may follow
        else:
            told = not args[0].startswith("-") or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if told else ["show", *args])


@click.group(
    cls=_Showing,
    epilog=options.examples(
        "dpsql budget -d demo-data/demo.duckdb -a ana",
        'dpsql budget estimate -d demo-data/demo.duckdb -a ana "SELECT COUNT(*) FROM flights"',
        "dpsql budget history -d demo-data/demo.duckdb -a ana --limit 5",
        "dpsql budget verify -d demo-data/demo.duckdb",
        "dpsql budget owner window dpsql-demo/ana -d demo-data/demo.duckdb --as olga",
    ),
)
def budget_command() -> None:
    """Show what an account has spent and has left, and look after the ledger.

    Without a command, it shows the analyst's account as `dpsql budget show` does.
    """


for command in (
    budget_show.show_command,
    budget_show.estimate_command,
    budget_show.history_command,
    budget_requests.request_command,
    budget_requests.requests_command,
    budget_requests.approve_command,
    budget_requests.refuse_command,
    budget_chain.verify_command,
    budget_chain.head_command,
    budget_chain.export_command,
    budget_owner.owner_command,
):
    budget_command.add_command(command)
