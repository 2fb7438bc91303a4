"""``dpsql refresh``: publish the steps of materialized views that have closed, as cron asks."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dpsql.core.formatting import printable
from dpsql.core.quoting import quote, quote_text
from dpsql.errors import Error, InterfaceError
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget.ledgers import announce, located
from dpsql.interfaces.cli.printing import progress_bar

if TYPE_CHECKING:
    from dpsql.dbapi.connection import Connection

_NOTHING: Final = frozenset({"no_step_closed", "view_full"})
"""Codes of a view that has nothing to publish."""


@click.command(
    epilog=options.examples("dpsql refresh -d demo-data/demo.duckdb -a ana --all"),
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "all_", is_flag=True, help="Refresh every view that the account created.")
@click.option(
    "--until",
    metavar="TIME",
    help="Publish only the steps that end by this date or time, in the view's time zone.",
)
@options.database
@options.policies
@options.ledger
@options.analyst
@options.session
@options.quiet
def refresh_command(
    names: tuple[str, ...],
    all_: bool,
    until: str | None,
    database: str | Path,
    policies: Path,
    ledger: str | None,
    analyst: str,
    session: str,
    quiet: bool,
) -> None:
    """Publish the steps of materialized views that have closed and are not published yet.

    It costs nothing: a view was paid for when it was created. With --all, views that have nothing
    to publish are no failure; a view that fails stops none of the others, and the first failure
    decides the exit code.
    """
    from dpsql.dbapi.connection import connect

    if bool(names) == all_:
        raise click.UsageError("name the views to be refreshed, or give --all")
    place = located(ledger, policies, database)
    with ExitStack() as stack:
        tell = stack.enter_context(progress_bar(quiet, "Publishing steps"))
        connection = stack.enter_context(
            connect(database, policies, place, analyst, session=session, progress=tell)
        )
        announce(connection.ledger_created, place)
        chosen = names or _own(connection)
        if not chosen:
            _say("there are no views to refresh", quiet)
        failures = [_refresh(connection, name, until, all_, quiet) for name in chosen]
    for failure in filter(None, failures):
        raise failure


def _own(connection: Connection) -> list[str]:
    """List the views created by the account itself, without shared ones."""
    found = connection.sql("SHOW MATERIALIZED VIEWS")
    name, shared = found.columns.index("name"), found.columns.index("shared")
    return [str(row[name]) for row in found if not row[shared]]


def _refresh(
    connection: Connection, name: str, until: str | None, all_: bool, quiet: bool
) -> Error | None:
    """Refresh a view and print the outcome on a line.

    One of ``all_`` that fails hinders none of the others: its failure is returned.
    """
    end = "" if until is None else f" UNTIL TIMESTAMP {quote_text(until)}"
    try:
        found = connection.sql(f"REFRESH MATERIALIZED VIEW {quote(name)}{end}")
    except Error as error:
        if not all_:
            raise
        idle = isinstance(error, InterfaceError) and error.code in _NOTHING
        _say(f"{name}: {_ended(error) if idle else f'failed, {error.reason}'}", quiet and idle)
        return None if idle else error
    _, steps, rows, left = next(iter(found))
    what = "step" if steps == 1 else "steps"
    _say(f"{name}: {steps:,} {what} published, {rows:,} rows; {left:,} left", quiet)
    return None


def _say(line: str, quiet: bool) -> None:
    """Print a line for people unless they want none."""
    if not quiet:
        click.echo(printable(line))


def _ended(error: Error) -> str:
    if error.code == "view_full":
        return "all of its steps are used"
    return f"nothing to publish yet. {error.hint or ''}".rstrip()
