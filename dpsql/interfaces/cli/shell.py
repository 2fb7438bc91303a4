"""``dpsql shell``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli import failures, options
from dpsql.interfaces.cli.asking import AskedSource

if TYPE_CHECKING:
    from dpsql.interfaces.shell.source import Target


@click.command(
    epilog=options.examples(
        "dpsql shell demo-data/demo.duckdb -a ana",
        "dpsql shell demo-data/demo.duckdb -a ana < monthly.sql",
        "dpsql shell https://dpsql.example.org:8439 --token-file token",
        'dpsql shell demo-data/demo.duckdb -a ana -f csv -c "SELECT COUNT(*) AS n FROM nafld2"',
    )
)
@click.argument("place", metavar="[DB]", required=False, type=options.DatabasePath())
@click.option(
    "--database",
    "-d",
    cls=options.SettingOption,
    path=True,
    type=options.DatabasePath(),
    help="The same as DB: a DuckDB, Parquet or CSV file, which is never written to, or a server.",
)
@options.policies
@options.ledger
@options.optional_analyst
@options.session
@options.token_file
@options.ca_file
@click.option(
    "--command", "-c", "commands", multiple=True, help="Run this and leave; may be repeated."
)
@click.option("--keep-going", "-k", is_flag=True, help="Go on after an error; exit with 2 anyway.")
@options.formats("table", "vertical", "csv", "json", "jsonl", "markdown")
@options.confidence
@options.completing
@click.pass_context
def shell_command(
    ctx: click.Context,
    place: str | Path | None,
    database: str | Path | None,
    policies: Path,
    ledger: str | None,
    analyst: str | None,
    session: str,
    token_file: Path | None,
    ca_file: Path | None,
    commands: tuple[str, ...],
    keep_going: bool,
    format_: str,
    confidence: float,
    complete: str,
) -> None:
    """Ask at a prompt that shows the remaining budget. Type \\? there for help.

    Type \\? there for help. Statements that are piped in or given with --command run in order, up
    to the first that fails, and nobody is asked anything.
    """
    from dpsql.interfaces.shell.script import Outcome
    from dpsql.interfaces.shell.settings import Completing, Format, ShellSettings
    from dpsql.interfaces.shell.start import start

    chosen = place or database
    if chosen is None:
        raise click.UsageError("name a database: dpsql shell DB")
    source = AskedSource(chosen, policies, ledger, analyst, session, token_file, ca_file)
    outcome = start(
        _target(source),
        ShellSettings(Completing(complete), confidence, format=Format(format_)),
        commands,
        keep_going=keep_going,
    )
    codes = {
        Outcome.DONE: failures.SUCCESS,
        Outcome.FAILED: failures.FAILED,
        Outcome.FAULT: failures.INTERNAL,
        Outcome.CANCELLED: failures.INTERRUPTED,
    }
    ctx.exit(codes[outcome])


def _target(source: AskedSource) -> Target:
    """Return what a shell opens: a server, or data of one's own."""
    server = source.server()
    if server is not None:
        from dpsql.interfaces.shell.server_target import ServerTarget

        return ServerTarget(
            *(server.address, server.token(), server.account, server.certificate), source.files
        )
    from dpsql.interfaces.shell.target import DataTarget

    place = source.ledger_place
    assert place is not None, "data of one's own have a ledger"
    return DataTarget(
        *(source.database, source.policies, place, source.required_analyst(), source.session),
        settings=options.settings_file(),
    )
