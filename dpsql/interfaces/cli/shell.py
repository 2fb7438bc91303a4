"""``dpsql shell``."""

from __future__ import annotations

from pathlib import Path

import click

from dpsql.interfaces.cli import failures, options
from dpsql.interfaces.cli.budget.ledgers import located


@click.command(
    epilog=options.examples(
        "dpsql shell demo-data/demo.duckdb -a ana",
        "dpsql shell demo-data/demo.duckdb -a ana < monthly.sql",
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
    help="The same as DB: a DuckDB, Parquet or CSV file. Never written to.",
)
@options.policies
@options.ledger
@options.analyst
@options.session
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
    analyst: str,
    session: str,
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
    from dpsql.interfaces.shell.target import Target

    chosen = place or database
    if chosen is None:
        raise click.UsageError("name a database: dpsql shell DB")
    outcome = start(
        Target(
            chosen,
            policies,
            located(ledger, policies, chosen),
            analyst,
            session,
            options.settings_file(),
        ),
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
